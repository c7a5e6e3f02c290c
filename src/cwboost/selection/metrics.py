"""Metrics of predictions along a path: by name, functions of y and prediction, and (in scorers.py)
the scorers of scikit-learn. Knows which of two values is the better; knows nothing of folds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost.fitting.input_data import FitData
from cwboost.frames.table import Floats
from cwboost.losses import Loss, auc, risk

RISK = "risk"  # the loss's own: no metric, but may be named beside them
GREATER = ("score", "auc", "accuracy", "r2")  # endings of names that mean "the more the better"
LESS = ("loss", "error", "deviance", "risk", "rmse", "mae", "mse")


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Rows that predictions are held against."""

    loss: Loss
    classes: tuple[Any, ...]
    y: Floats  # (n,) as the core takes it
    weights: Floats  # (n,)

    @classmethod
    def of(cls, data: FitData, weights: Floats) -> tuple[HeldOutRows, NDArray[np.intp]]:
        """The rows that have a weight, and their numbers."""
        rows = np.flatnonzero(weights)
        return cls(data.loss, data.classes, data.y[rows], weights[rows]), rows

    @cached_property
    def codes(self) -> NDArray[np.intp]:
        """(n,) numbers of the classes."""
        return self.loss.class_codes(self.y)

    @cached_property
    def labels(self) -> NDArray[Any]:
        """(n,) y as people gave it."""
        return np.asarray(self.classes)[self.codes] if self.classes else self.y

    @cached_property
    def alike(self) -> bool:
        return bool(np.all(self.weights == self.weights[0]))

    def mean(self, values: Any) -> float:
        return float(np.average(values, weights=self.weights))


@dataclass(frozen=True, eq=False)
class Metric:
    """A number that says how good scores (n, q) of rows are."""

    name: str
    greater: bool  # is better
    of: Callable[[HeldOutRows, Floats], float]

    def on_fold(self, tested: HeldOutRows, score: Floats) -> float:
        """Its value on the test rows of a fold: a number, unless the scores are none."""
        value = self.of(tested, score)
        if np.isnan(value) and np.isfinite(score).all():
            raise ValueError(
                f"metric {self.name!r} is not a number on the test rows of a fold; has it one "
                "class, or the same y, only? Take fewer or other folds"
            )
        return value


def first_best(values: Floats, greater: bool) -> int:
    """Where the best value is; the first of equal ones.

    Examples
    --------
    >>> first_best(np.array([2.0, np.nan, 1.0, 1.0]), greater=False)
    2
    """
    worse = -values if greater else values
    return int(np.argmin(np.where(np.isnan(worse), np.inf, worse)))


def as_metrics(metric: Any, greater: bool | None, loss: Loss, classes: Any) -> list[Metric]:
    """The metrics that people mean, the one that decides first.

    Parameters
    ----------
    metric : None, name, function, scorer, or a list or dict of them
        None is "risk". A function takes y, the prediction and, if weights matter, `sample_weight`.
    greater : bool, optional
        Whether more is better, of functions whose names do not say so.

    Examples
    --------
    >>> from cwboost.losses import as_loss
    >>> [m.name for m in as_metrics(["risk", "rmse"], None, as_loss("squared"), ())]
    ['risk', 'rmse']
    """
    if isinstance(metric, Mapping):
        given: list[tuple[str | None, Any]] = [(str(name), m) for name, m in metric.items()]
    else:
        listed = (
            metric if isinstance(metric, list | tuple) else [RISK if metric is None else metric]
        )
        given = [(None, m) for m in listed]
    if not given:
        raise ValueError("metric: the list is empty; leave it out for the risk")
    if greater is not None and not any(_is_function(m) for _, m in given):
        raise ValueError(
            "greater_is_better: for functions only; names and scorers say it themselves"
        )
    found = [_metric(m, greater, loss, classes, name) for name, m in given]
    names = [m.name for m in found]
    if len(set(names)) < len(names):
        raise ValueError(f"metric: the names {', '.join(names)} are not all different; use a dict")
    return found


def _is_function(metric: Any) -> bool:
    return callable(metric) and not _is_scorer(metric)


def _is_scorer(metric: Any) -> bool:
    return hasattr(metric, "_score_func")  # made by make_scorer


def _metric(
    given: Any, greater: bool | None, loss: Loss, classes: Any, name: str | None = None
) -> Metric:
    if isinstance(given, str):
        if given == RISK:
            return Metric(RISK, False, _risk)
        if given in NAMED:
            of, more, for_classes = NAMED[given]
            if bool(classes) != for_classes:
                what = "classes" if for_classes else "numbers"
                raise ValueError(f"metric {given!r} is for {what}, not for the {loss.name} loss")
            return Metric(name or given, more, of)
        own_of = _own_scorer(given, len(classes))
        if own_of is not None:
            return Metric(name or given, True, own_of)
        from .scorers import named_scorer

        return named_scorer(given, name, classes)
    if not callable(given):
        raise TypeError(f"metric: expected a name or a function of y and prediction, got {given!r}")
    if _is_scorer(given):
        from .scorers import ScorerMetric

        own = getattr(given._score_func, "__name__", "score")
        return Metric(name or own, True, ScorerMetric(given, bool(classes)).value)
    called = str(getattr(given, "__name__", type(given).__name__))
    own = name or called
    more = _is_greater(own, called) if greater is None else greater
    return Metric(own, more, _CallableMetric(given, own).value)


def _risk(tested: HeldOutRows, score: Floats) -> float:
    return risk(tested.loss, tested.y, score, tested.weights)


def _is_greater(*names: str) -> bool:
    """Whether more is better, as scikit-learn names its functions."""
    for name in names:
        if name.lower().endswith(GREATER):
            return True
        if name.lower().endswith(LESS):
            return False
    raise ValueError(
        f"metric {names[0]!r}: is more better? Say greater_is_better=True or False, or give the "
        "function a name that ends in 'score' or 'loss'"
    )


# --- by name --------------------------------------------------------------------------------------


def _auc(tested: HeldOutRows, score: Floats) -> float:
    if score.shape[1] == 1:
        return auc(tested.codes == 1, score[:, 0], tested.weights)
    shares = tested.loss.response(score)
    each = [auc(tested.codes == k, p, tested.weights) for k, p in enumerate(shares.T)]
    return float(np.mean(each))


def _log_loss(tested: HeldOutRows, score: Floats) -> float:
    if score.shape[1] == 1:
        sign = np.where(tested.codes == 1, 1.0, -1.0)
        return tested.mean(np.logaddexp(0.0, -sign * score[:, 0]))
    own = score[np.arange(len(score)), tested.codes]
    return tested.mean(np.logaddexp.reduce(score, axis=1) - own)


def shares_of(tested: HeldOutRows, score: Floats) -> Floats:
    """(n, classes) probabilities."""
    found = tested.loss.response(score)
    return found if found.ndim == 2 else np.column_stack([1.0 - found, found])


def _accuracy(tested: HeldOutRows, score: Floats) -> float:
    return tested.mean(shares_of(tested, score).argmax(axis=1) == tested.codes)


def _brier(tested: HeldOutRows, score: Floats) -> float:
    """Squared distance from 0 and 1, of the second class if there are two, else of all."""
    shares = shares_of(tested, score)
    off = (shares - (tested.codes[:, None] == np.arange(shares.shape[1]))) ** 2
    return tested.mean(off[:, 1] if shares.shape[1] == 2 else off.sum(axis=1))


def _misses(tested: HeldOutRows, score: Floats) -> Floats:
    return tested.y - tested.loss.response(score)


def _mse(tested: HeldOutRows, score: Floats) -> float:
    return tested.mean(_misses(tested, score) ** 2)


def _rmse(tested: HeldOutRows, score: Floats) -> float:
    return float(np.sqrt(_mse(tested, score)))


def _mae(tested: HeldOutRows, score: Floats) -> float:
    return tested.mean(np.abs(_misses(tested, score)))


def _r2(tested: HeldOutRows, score: Floats) -> float:
    total = tested.mean((tested.y - tested.mean(tested.y)) ** 2)
    left = _mse(tested, score)
    return 1.0 - left / total if total > 0 else float("nan")


NAMED: dict[str, tuple[Callable[[HeldOutRows, Floats], float], bool, bool]] = {
    "auc": (_auc, True, True),  # function, more is better, for classes
    "log_loss": (_log_loss, False, True),
    "accuracy": (_accuracy, True, True),
    "brier": (_brier, False, True),
    "rmse": (_rmse, False, False),
    "mae": (_mae, False, False),
    "r2": (_r2, True, False),
}


# Scorers of scikit-learn that are one of these, but for the sign, and take a fraction of the time
# here: function, whether it is minus that, fewest and most classes (numbers have none).
SCORERS: dict[str, tuple[Callable[[HeldOutRows, Floats], float], bool, int, float]] = {
    "roc_auc": (_auc, False, 2, 2),
    "roc_auc_ovr": (_auc, False, 2, np.inf),
    "neg_log_loss": (_log_loss, True, 2, np.inf),
    "neg_brier_score": (_brier, True, 2, 2),
    "neg_mean_squared_error": (_mse, True, 0, 0),
    "neg_root_mean_squared_error": (_rmse, True, 0, 0),
    "neg_mean_absolute_error": (_mae, True, 0, 0),
}


def _own_scorer(name: str, n_classes: int) -> Callable[[HeldOutRows, Floats], float] | None:
    """A scorer that is computed here; None: it is not."""
    of, minus, fewest, most = SCORERS.get(name, (_risk, False, 1, 0))
    if not fewest <= n_classes <= most:
        return None
    return partial(_minus, of) if minus else of


def _minus(of: Callable[[HeldOutRows, Floats], float], tested: HeldOutRows, score: Floats) -> float:
    return -of(tested, score)


# --- functions ------------------------------------------------------------------------------------


class _CallableMetric:
    """A function of y, prediction and perhaps weights."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name = function, name
        self.weighs = takes_weights(function)

    def value(self, tested: HeldOutRows, score: Floats) -> float:
        response = tested.loss.response(score)
        if self.weighs:
            found = self.function(tested.labels, response, sample_weight=tested.weights)
            return as_number(found, self.name)
        refuse_weights(tested, self.name)
        return as_number(self.function(tested.labels, response), self.name)


def as_number(value: Any, name: str) -> float:
    """What a metric returned, which must be one number."""
    if np.ndim(value) == 0:
        try:
            return float(value)
        except (TypeError, ValueError):
            pass
    shape = f" of shape {np.shape(value)}" if np.ndim(value) else ""
    raise TypeError(
        f"metric {name}: expected it to return a number, got {type(value).__name__}{shape}; a "
        "metric says how good all rows together are, such as their mean"
    )


def takes_weights(function: Any) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "sample_weight" in parameters


def refuse_weights(tested: HeldOutRows, name: str) -> None:
    if not tested.alike:
        raise ValueError(
            f"metric {name}: the rows have weights, and it does not take them; give it an argument "
            "sample_weight"
        )
