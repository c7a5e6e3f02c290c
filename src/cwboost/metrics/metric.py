"""Metrics: how good the predictions of held-out rows are. They are named, functions of y and
prediction, or (see scorers.py) scikit-learn scorers.

To add a metric, add a line to `METRICS`; users call `register_metric`. Does not know where the rows
come from: folds, or the validation rows of a fit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import check_flag, is_one_of
from cwboost._utils.fingerprint import describe_code, fingerprint
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, auc, risk
from cwboost.model.path import first_lowest

RISK = "risk"  # the mean loss
GREATER_ENDINGS = ("score", "auc", "accuracy", "r2")  # names of functions to be maximised
LESS_ENDINGS = ("loss", "error", "deviance", "risk", "rmse", "mae", "mse")  # or minimised


class RowsWithTarget(Protocol):
    """Rows with a target, of which some are held out."""

    @property
    def loss(self) -> Loss: ...

    @property
    def classes(self) -> tuple[Any, ...]: ...

    @property
    def y(self) -> Floats: ...


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows that were not used for training, with their true y."""

    loss: Loss
    classes: tuple[Any, ...]
    y: Floats  # (n,) coded as the core takes it
    weights: Floats  # (n,)

    @classmethod
    def select(cls, data: RowsWithTarget, weights: Floats) -> tuple[HeldOutRows, NDArray[np.intp]]:
        """Return the rows that have a weight, and their row numbers."""
        rows = np.flatnonzero(weights)
        return cls(data.loss, data.classes, data.y[rows], weights[rows]), rows

    @cached_property
    def class_codes(self) -> NDArray[np.intp]:
        """(n,) class numbers."""
        return self.loss.class_codes(self.y)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """(n,) y as the user gave it. Read-only, because functions of the user's get it."""
        found = np.asarray(self.classes)[self.class_codes] if self.classes else self.y.view()
        found.flags.writeable = False
        return found

    @cached_property
    def equal_weights(self) -> bool:
        return bool(np.all(self.weights == self.weights[0]))

    def mean(self, values: Any) -> float:
        """Return the weighted mean of values, one per row."""
        return float(np.average(values, weights=self.weights))

    def probabilities(self, score: Floats) -> Floats:
        """(n, classes) probabilities of the classes."""
        found = self.loss.response(score)
        return found if found.ndim == 2 else np.column_stack([1.0 - found, found])


MetricFunction = Callable[[HeldOutRows, Floats], float]
RowFunction = Callable[[HeldOutRows, Floats], Floats]  # a number per row


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that says how good the scores (n, q) of held-out rows are.

    Attributes
    ----------
    name : str
    function : callable
        Takes HeldOutRows and scores, returns the number.
    greater_is_better : bool
    target : "numbers", "classes" or None
        Which y the metric applies to; None: any.
    code : function, scorer or ""
        The user's object, whose code tells metrics of the same name apart; "" if it is built in.
    optimum : float
        The best value that a metric to be maximised can have; 0 if it is not known.
    row_mean : RowMean, optional
        The metric as a function of a mean over rows, so that it can be computed from the sums of
        several shards; None if it is not such a function.
    source : str, optional
        The name that finds the metric again; None for a function or scorer that has none. It
        differs from `name` if a dict renames a metric.
    """

    name: str
    function: MetricFunction
    greater_is_better: bool = False
    target: Literal["numbers", "classes"] | None = None
    code: Any = ""
    optimum: float = 0.0
    row_mean: RowMean | None = None
    source: str | None = None

    @classmethod
    def of_rows(
        cls,
        name: str,
        per_row: RowFunction,
        finish: Callable[[float], float] = float,
        **facts: Any,
    ) -> Metric:
        """Return the metric `finish(weighted mean of per_row)`."""
        row_mean = RowMean(per_row, finish)
        return cls(name, row_mean, row_mean=row_mean, **facts)

    def value(
        self,
        rows: HeldOutRows,
        score: Floats,
        where: str = "on the test rows of a fold",
        remedy: str = "use fewer or other folds",
    ) -> float:
        """Return the metric of some rows; NaN only if a score is not finite."""
        value = self.function(rows, score)
        if np.isnan(value) and np.isfinite(score).all():
            raise ValueError(
                f"metric {quote(self.name)} is not a number {where}; check whether they have only "
                f"one class or constant y, and {remedy}"
            )
        return value

    def criterion(self, value: Any) -> Any:
        """Return a number to be minimised: the distance from the optimum, or the value itself."""
        return self.optimum - value if self.greater_is_better else value

    @property
    def is_built_in(self) -> bool:
        """Whether it is a metric of the package."""
        return isinstance(self.code, str)

    @property
    def is_risk(self) -> bool:
        """Whether it is the mean loss, which a fit knows without computing it again."""
        return self.function is _risk

    def identity(self) -> str:
        """Return a text that tells metrics apart and is equal in any process."""
        direction = "more" if self.greater_is_better else "less"
        name = self.name if self.source in (None, self.name) else f"{self.name}={self.source}"
        return f"{name} {direction} {fingerprint(describe_code(self.code))}"

    def of_labels(self, labels: NDArray[Any]) -> Metric:
        """Return the metric for rows whose classes are codes; a user's function gets the labels."""
        if self.is_built_in:
            return self
        return replace(self, function=partial(_of_labels, self.function, tuple(labels.tolist())))


class RowMean:
    """A metric that is a function of the weighted mean of a number per row."""

    def __init__(self, per_row: RowFunction, finish: Callable[[float], float]) -> None:
        self.per_row, self.finish = per_row, finish

    def __call__(self, rows: HeldOutRows, score: Floats) -> float:
        return self.finish(rows.mean(self.per_row(rows, score)))

    def weighted_sum(self, rows: HeldOutRows, score: Floats) -> float:
        """Return the weighted sum over some of the rows, which may be none."""
        return float(rows.weights @ self.per_row(rows, score)) if len(score) else 0.0


def standard_deviation(scores: Floats) -> Floats:
    """Return the standard deviation of each column; NaN for a single row.

    Squares of very large scores would overflow, those of very small ones vanish.

    Examples
    --------
    >>> standard_deviation(np.array([[1e200, 1.0], [3e200, 1.0]]))
    array([1.41421356e+200, 0.00000000e+000])
    """
    if len(scores) == 1:
        return np.full(scores.shape[1], np.nan)
    unit = np.abs(scores).max(initial=0.0, where=np.isfinite(scores)) or 1.0
    with np.errstate(invalid="ignore"):  # a path that diverged
        return np.asarray(unit * (scores / unit).std(axis=0, ddof=1))


def first_best(values: Floats, greater_is_better: bool) -> int:
    """Return the position of the best value, the first one of ties; NaN is never the best.

    Examples
    --------
    >>> first_best(np.array([2.0, np.nan, 1.0, 1.0]), greater_is_better=False)
    2
    """
    return first_lowest(-values if greater_is_better else values)


# --- reading the argument `metric` ----------------------------------------------------------------


def as_metrics(
    metric: Any, greater_is_better: bool | None, loss: Loss, classes: tuple[Any, ...]
) -> list[Metric]:
    """Return the metrics that an argument `metric` names; the first one decides.

    Parameters
    ----------
    metric : None, name, function, scorer, or a list or dict of them
        None is the default metric of the loss. A function takes y, the prediction and, if weights
        matter, `sample_weight`.
    greater_is_better : bool, optional
        For functions whose names do not tell.
    loss, classes
        Of the fit. A `ForLabels` as metric says that the classes are codes.

    Examples
    --------
    >>> from cwboost.losses import as_loss
    >>> [m.name for m in as_metrics(["risk", "rmse"], None, as_loss("squared"), ())]
    ['risk', 'rmse']
    """
    if isinstance(metric, ForLabels):
        found = as_metrics(metric.metric, greater_is_better, loss, classes)
        return [m.of_labels(metric.labels) for m in found]
    if metric is None:
        metric = loss.default_metric
    if isinstance(metric, Mapping):
        named: list[tuple[str | None, Any]] = [(str(name), m) for name, m in metric.items()]
    else:
        named = [(None, m) for m in (metric if isinstance(metric, list | tuple) else [metric])]
    if not named:
        raise ValueError("metric: the list is empty; omit metric to use the default")
    if greater_is_better is not None and not any(_is_function(m) for _, m in named):
        raise ValueError(
            "greater_is_better: it applies only to functions; named metrics and scorers know it"
        )
    metrics = [_as_metric(m, name, greater_is_better, loss, classes) for name, m in named]
    names = [m.name for m in metrics]
    if len(set(names)) < len(names):
        raise ValueError(
            f"metric: the names {', '.join(names)} are not all different; pass a dict with names"
        )
    if any(m.name == RISK and not m.is_risk for m in metrics):
        raise ValueError(
            f"metric: {quote(RISK)} is the name of the mean loss; give the metric another name, "
            "such as metric={'my_risk': ...}"
        )
    for (label, _), made in zip(named, metrics, strict=True):
        known = None if label is None else METRICS.get(label)
        if known is not None and known.is_built_in and made.function is not known.function:
            raise ValueError(
                f"metric: {quote(label)} is the name of a metric of cwboost; give "
                f"{quote(made.source or made.code)} another name"
            )
    return metrics


class ForLabels(NamedTuple):
    """An argument `metric` of a fit to class codes: functions and scorers get the labels."""

    metric: Any
    labels: NDArray[Any]


def _of_labels(
    function: MetricFunction, labels: tuple[Any, ...], rows: HeldOutRows, score: Floats
) -> float:
    return function(replace(rows, classes=labels), score)


def _as_metric(
    metric: Any, label: str | None, greater: bool | None, loss: Loss, classes: tuple[Any, ...]
) -> Metric:
    """Return the metric of a name, a function or a scorer; the label is its key in a dict."""
    if isinstance(metric, str):
        return _named_metric(metric, label, loss, classes)
    if not callable(metric):
        raise TypeError(
            f"metric: expected a name or a function of y and prediction, got {quote(metric)}"
        )
    if _is_scorer(metric):
        from .scorers import scorer_metric

        own = getattr(metric._score_func, "__name__", "score")
        return scorer_metric(metric, label or own, bool(classes))
    return _function_metric(metric, label, greater)


def _named_metric(name: str, label: str | None, loss: Loss, classes: tuple[Any, ...]) -> Metric:
    known = METRICS.get(name)
    if known is not None:
        if not isinstance(known, Metric):
            raise TypeError(
                f"METRICS[{quote(name)}] must be a Metric, got {quote(known)}; add functions with "
                "register_metric(name, function, greater_is_better=...)"
            )
        target = "classes" if classes else "numbers"
        if known.target not in (None, target):
            remedy = "" if classes else "; for two classes use the binomial loss"
            remedy *= known.target == "classes"
            raise ValueError(
                f"metric {quote(name)} is for {known.target}, not for the {loss.name} loss{remedy}"
            )
        return replace(known, name=label or name, source=name)
    equal = SCORERS.get(name)
    if equal is not None and equal.min_classes <= len(classes) <= equal.max_classes:
        function = _negative(equal.function) if equal.negated else equal.function
        return Metric(
            label or name, function, greater_is_better=True, optimum=equal.optimum, source=name,
            row_mean=function if isinstance(function, RowMean) else None,
        )  # fmt: skip
    from .scorers import named_scorer

    return named_scorer(name, label, bool(classes))


def _function_metric(function: Any, label: str | None, greater: bool | None) -> Metric:
    own = str(getattr(function, "__name__", type(function).__name__))
    name = label or own
    if greater is None:
        greater = _greater_by_name(name, own)
    return Metric(name, CallableMetric(function, name), greater, code=function)


def _is_function(metric: Any) -> bool:
    return callable(metric) and not _is_scorer(metric)


def _is_scorer(metric: Any) -> bool:
    return hasattr(metric, "_score_func")  # an object made by make_scorer


def _greater_by_name(*names: str) -> bool:
    """Return whether greater is better, by scikit-learn's convention for function names."""
    for name in names:
        if name.lower().endswith(GREATER_ENDINGS):
            return True
        if name.lower().endswith(LESS_ENDINGS):
            return False
    raise ValueError(
        f"metric {quote(names[0])}: pass greater_is_better=True or False to cb.register_metric, "
        "cb.cv or cb.tune, or give the function a name that ends in 'score' or 'loss', such as "
        "metric={'my_loss': function}"
    )


# --- named metrics --------------------------------------------------------------------------------


def _risk(rows: HeldOutRows, score: Floats) -> float:
    return risk(rows.loss, rows.y, score, rows.weights)


def _auc(rows: HeldOutRows, score: Floats) -> float:
    if score.shape[1] == 1:
        return auc(rows.class_codes == 1, score[:, 0], rows.weights)
    shares = rows.probabilities(score)
    each = [auc(rows.class_codes == k, p, rows.weights) for k, p in enumerate(shares.T)]
    return float(np.mean(each))


def _log_losses(rows: HeldOutRows, score: Floats) -> Floats:
    codes, row = rows.class_codes, np.arange(len(score))
    if rows.loss.link == "logit":  # from scores, so that no probability is rounded to zero
        return np.logaddexp(0.0, np.where(codes == 1, -score[:, 0], score[:, 0]))
    if rows.loss.link == "softmax":
        return np.asarray(np.logaddexp.reduce(score, axis=1) - score[row, codes])
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(rows.probabilities(score)[row, codes]))


def _hits(rows: HeldOutRows, score: Floats) -> Floats:
    return np.asarray(rows.probabilities(score).argmax(axis=1) == rows.class_codes, dtype=float)


def _brier(rows: HeldOutRows, score: Floats) -> Floats:
    """Squared distances from 0 and 1: of the second class if there are two, else of all."""
    shares = rows.probabilities(score)
    squares = (shares - (rows.class_codes[:, None] == np.arange(shares.shape[1]))) ** 2
    return np.asarray(squares[:, 1] if shares.shape[1] == 2 else squares.sum(axis=1))


def _errors(rows: HeldOutRows, score: Floats) -> Floats:
    return rows.y - rows.loss.response(score)


def _squares(rows: HeldOutRows, score: Floats) -> Floats:
    return _errors(rows, score) ** 2


def _distances(rows: HeldOutRows, score: Floats) -> Floats:
    return np.abs(_errors(rows, score))


def _root(mean: float) -> float:
    return float(np.sqrt(mean))


def _r2(rows: HeldOutRows, score: Floats) -> float:
    total = rows.mean((rows.y - rows.mean(rows.y)) ** 2)
    left = rows.mean(_squares(rows, score))
    return 1.0 - left / total if total > 0 else float("nan")


_of_rows = Metric.of_rows
_mse = RowMean(_squares, float)

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(RISK, _risk),
        Metric("auc", _auc, greater_is_better=True, target="classes", optimum=1.0),
        _of_rows("log_loss", _log_losses, target="classes"),
        _of_rows("accuracy", _hits, greater_is_better=True, target="classes", optimum=1.0),
        _of_rows("brier", _brier, target="classes"),
        _of_rows("rmse", _squares, _root, target="numbers"),
        _of_rows("mae", _distances, target="numbers"),
        Metric("r2", _r2, greater_is_better=True, target="numbers", optimum=1.0),
    )
}


def register_metric(
    name: str,
    function: Callable[..., float],
    *,
    greater_is_better: bool,
    target: Literal["numbers", "classes"] | None = None,
) -> None:
    """Give a metric a name that `cb.fit`, `cb.cv`, `cb.tune` and the estimators know.

    The name is known in this process only.

    Parameters
    ----------
    name : str
        Not the name of a metric of the package; a metric of the user's own is replaced.
    function : callable
        Takes y, the prediction and, if weights matter, `sample_weight`; returns a number. For
        classes y are the labels, and predictions are the probability of the second of two classes
        or (n, classes) probabilities.
    greater_is_better : bool
    target : "numbers", "classes" or None
        Which y the metric applies to; None: any.

    Examples
    --------
    >>> import cwboost as cb
    >>> register_metric("largest error", lambda y, f: np.abs(y - f).max(), greater_is_better=False)
    >>> x = np.linspace(0, 6, 60)
    >>> y = np.sin(x) + np.cos(30 * x)
    >>> found = cb.cv({"x": x}, y, folds=3, metric=["risk", "largest error"])
    >>> list(found.metrics)
    ['largest error']
    >>> del METRICS["largest error"]
    """
    if not isinstance(name, str):
        raise TypeError(f"register_metric: name must be a string, got {quote(name)}")
    known = METRICS.get(name)
    if isinstance(known, Metric) and known.is_built_in:
        raise ValueError(
            f"register_metric: {quote(name)} is a metric of cwboost; choose another name"
        )
    if not callable(function):
        raise TypeError(f"register_metric: expected a function, got {quote(function)}")
    check_flag("register_metric: greater_is_better", greater_is_better)
    is_target = target is None or is_one_of(target, ("numbers", "classes"))
    if not is_target:
        raise ValueError(
            f"register_metric: target must be 'numbers', 'classes' or None, got {quote(target)}"
        )
    METRICS[name] = Metric(
        name, CallableMetric(function, name), bool(greater_is_better), target, code=function
    )


def check_row_mean(metric: Metric) -> None:
    """Raise if sums over rows do not give a metric."""
    if metric.row_mean is None and not metric.is_risk:
        targets = {metric.target, None} if metric.target else {"numbers", "classes", None}
        usable = [
            quote(m.name)
            for m in METRICS.values()
            if m.row_mean is not None and m.target in targets
        ]
        raise ValueError(
            f"metric: {quote(metric.name)} is not a mean over rows, so the sums of the workers do "
            f"not give it; use 'risk', {', '.join(usable)}"
        )


class EquivalentScorer(NamedTuple):
    """A metric that computes a scikit-learn scorer, for the numbers of classes where it does."""

    function: MetricFunction
    negated: bool  # the scorer is minus the function
    min_classes: int  # 0 for numbers
    max_classes: float
    optimum: float = 0.0


# scikit-learn scorers that the functions above compute in a fraction of the time.
SCORERS: dict[str, EquivalentScorer] = {
    "roc_auc": EquivalentScorer(_auc, False, 2, 2, optimum=1.0),
    "roc_auc_ovr": EquivalentScorer(_auc, False, 2, np.inf, optimum=1.0),
    "neg_log_loss": EquivalentScorer(METRICS["log_loss"].function, True, 2, np.inf),
    "neg_brier_score": EquivalentScorer(METRICS["brier"].function, True, 2, 2),
    "neg_mean_squared_error": EquivalentScorer(_mse, True, 0, 0),
    "neg_root_mean_squared_error": EquivalentScorer(METRICS["rmse"].function, True, 0, 0),
    "neg_mean_absolute_error": EquivalentScorer(METRICS["mae"].function, True, 0, 0),
}


def _negative(function: MetricFunction) -> MetricFunction:
    if isinstance(function, RowMean):
        return RowMean(function.per_row, partial(_minus, function.finish))
    return partial(_minus, function)


def _minus(function: Callable[..., float], *arguments: Any) -> float:
    return -function(*arguments)


# --- functions of y and prediction ----------------------------------------------------------------


class CallableMetric:
    """A function of y, prediction and perhaps weights as a function of rows and scores."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self.takes_weights = takes_weights(function)

    def __call__(self, rows: HeldOutRows, score: Floats) -> float:
        response, weights = rows.loss.response(score), {}
        if self.takes_weights:
            weights = {"sample_weight": rows.weights}
        else:
            refuse_weights(rows, self.name, "give it an argument sample_weight")
        try:
            found = self.function(rows.labels, response, **weights)
        except Exception as error:
            error.add_note(
                f"raised by the metric {quote(self.name)}. Functions take y and the prediction, "
                "for classes their probabilities; a function of scikit-learn that needs classes "
                "can be had by the name of its scorer, such as metric='accuracy'"
            )
            raise
        return as_metric_value(found, self.name)


def as_metric_value(value: Any, name: str) -> float:
    """Return the value of a metric as a float; raise TypeError if it is not one number."""
    if np.ndim(value) == 0 and not isinstance(value, str):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    shape = f" of shape {np.shape(value)}" if np.ndim(value) else ""
    raise TypeError(
        f"metric {name}: expected it to return a number, got {type(value).__name__}{shape}; a "
        "metric describes all rows together, for example by a mean"
    )


def takes_weights(function: Any) -> bool:
    """Return whether a function has an argument `sample_weight`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "sample_weight" in parameters


def refuse_weights(rows: HeldOutRows, name: str, remedy: str) -> None:
    """Raise if the rows have unequal weights, for a metric that cannot take them."""
    if not rows.equal_weights:
        raise ValueError(
            f"metric {quote(name)}: the rows have weights, which it does not take; {remedy}"
        )
