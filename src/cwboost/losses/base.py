"""The base class of all losses: everything the package asks about a loss.

A loss says which y it takes, where a fit starts, how long its steps are, how scores become
predictions and which figures describe them. The value and the residual of one row are computed by
the core (core/loss.hpp) or by the user's own Python functions. Does not know about tables of
features, learners or optimizers.

Scores and offsets are (n, q) blocks, y is (n,), weights are positive.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from cwboost import _core
from cwboost._utils.checks import check_one_of, is_built_in
from cwboost._utils.fingerprint import describe_code, fingerprint
from cwboost._utils.text import quote
from cwboost.binning.number_statistics import weighted_quantile
from cwboost.frames.columns import Column, Floats, Labels

from .classes import MAX_CLASSES, check_number_of_classes, code_classes
from .evaluation import EvaluatedRows, auc
from .links import INVERSE_LINKS
from .python_core import python_core

Target = tuple[Floats, tuple[Any, ...]]  # y as the core takes it, and the classes (or nothing)


FAR = 5.0  # interquartile ranges; nothing normal lies beyond


class TargetRows:
    """The training rows that a start and a step scale are computed from: y (n,), weights, offsets
    (n, q). Subclasses may keep them elsewhere (see distributed/data.py)."""

    private = False  # whether only sums over the rows may be read

    def __init__(self, y: Floats, w: Floats, offset: Floats) -> None:
        self.rows = y, w, offset

    def total(self, of: Callable[[Floats, Floats, Floats], Any]) -> Any:
        """Return the sum over the rows that `of(y, weights, offset)` computes."""
        return of(*self.rows)

    @property
    def weight(self) -> float:
        return float(self.total(_weight))

    def mean(self, of: Callable[[Floats, Floats], Any]) -> float:
        """Return the weighted mean of `of(y, offset)`, one value per row."""
        return float(self.total(lambda y, w, o: w @ of(y, o))) / self.weight

    def quantile(self, share: float) -> float:
        """Return a weighted quantile of y - offset."""
        y, w, offset = self.rows
        return float(weighted_quantile(y - offset[:, 0], w, share))

    def mean_deviation(self) -> float:
        """Return the weighted mean distance of y - offset from its median, or 1 if it is 0.

        Distances count up to FAR times the interquartile range, so that one wrong cell does not
        matter.
        """
        median, width = self.quantile(0.5), self.quantile(0.75) - self.quantile(0.25)
        most = FAR * width if width > 0.0 else np.inf
        found = self.mean(lambda y, o: np.minimum(np.abs(y - o[:, 0] - median), most))
        return found if found > 0.0 else 1.0

    @property
    def largest_offset(self) -> float:
        return float(self.rows[2].max())

    @property
    def has_offset(self) -> bool:
        return bool(self.rows[2].any())

    def whole(self) -> tuple[Floats, Floats, Floats]:
        """Return y, weights and offset of all rows as arrays of this process."""
        return self.rows


def _weight(y: Floats, w: Floats, offset: Floats) -> Any:  # noqa: ARG001
    return w.sum()


@dataclass(frozen=True)
class Loss:
    """A loss: everything that distinguishes it from other losses.

    To add a loss write a frozen dataclass that derives from this class (its fields are its
    parameters) and add it to `LOSSES` in registry.py, or pass an instance as `loss=`. Only `name`,
    `start_of` and a way to evaluate rows are required: either `core_name`, a loss of core/loss.hpp,
    or the vectorised methods `loss(y, score)` and `gradient(y, score)` with scores of shape (n,),
    or (n, q) if there are several outputs. All else has a default. An object that is not a Loss but
    has the methods loss, gradient and start can define the attributes marked with * too
    (see `PythonLoss`).

    Evaluation::

        name                  the word for it in messages and files.
        core_name             its name in the core; None if Python evaluates it (default).
        parameter             the one number that the core needs (default 0).
        n_outputs*            scores per row, q (default 1).
        joint_choices         True (default): a choice moves all outputs. Separate choices are
                              not supported yet.
        linear                True if the residual is y - score: after set-up the fit then needs
                              cross products instead of rows (default False).

    y::

        target*               "numbers" (default) or "classes".
        check_y(y)*           raise if numbers are outside the domain (default: all are inside); a
                              TargetError (frames/columns.py) names the row.
        class_values(n)*      the n values that stand for the classes in y, increasing
                              (default 0, 1, ...).
        read_y, class_codes, n_classes, max_classes, with_classes
                              derived from these; `with_classes` is for losses whose number of
                              outputs depends on the classes.

    Fit::

        start_of(rows)        (q,) the constant that minimises the weighted risk, given offsets.
        scale_of(rows, start) the step scale (default 1), which makes a rate mean the same for all
                              losses and in all units of y: 1 / curvature, if it is bounded.
        bootstrap_rate*       the learning rate times the scale of bootstrap fits, if the model's is
                              smaller: half the step that no residual could overshoot (default 0:
                              the model's)

    Prediction::

        link*                 "identity" (default), "log", "logit", "softmax", or None if only
                              `response` knows it. Exports write the link by name and refuse others.
        response(score)*      scores (n, q) in the units of y, by default from `link`: (n,), or
                              (n, q). For classes the probability of the second class, or of all.
        prediction_kinds*, predict(score, kind)*
                              what `Model.predict(kind=)` offers: "response" and "score".
        estimand*             what a response stands for in words, such as "the mean".

    Quality and inference::

        figures(rows)*        figures of quality by name, the most telling first.
        loss_name*            the name of the mean loss among them (default "mean loss").
        saturated_score(y)*   the score that fits every row perfectly, None if its loss is zero.
        calibration_level*    the level of a quantile loss; None (default) if observed means are
                              compared with predictions.
        default_metric*       the metric of cross-validation and tuning (default "risk").
        curvature(y, score)*  second derivative of the loss by each score, in the shape of the
                              scores: (n,), or (n, q); not defined by default.
        dispersion_of(estimate)*
                              the dispersion, given its estimate from squared residuals: the
                              estimate itself (default), or 1 where the loss fixes it.
        likelihood*           None (default) if the loss is not a likelihood or leaves a dispersion
                              open; "exact" if loss + likelihood_constant(y) is minus the log
                              likelihood; "normal" if the loss is half the squared error, so that
                              the variance is estimated.
        likelihood_constant(y)*
                              see there (default 0).

    Text::

        code()                the expression that makes the loss in a script.
        label()               name and parameters as text for users.
        identity()            text that is equal in any process for equal losses, for fingerprints.

    State. A family with nuisance parameters (a dispersion, thresholds, a baseline hazard)
    re-estimates them from sums over rows while it is fitted. The core's `Loss` has the place for
    that state; a class for such a family will declare its size and its update here, and nothing
    outside this class and the core needs to know of it.

    Examples
    --------
    A loss written in Python:

    >>> import cwboost as cb
    >>> @dataclass(frozen=True)
    ... class LogCosh(Loss):
    ...     name: ClassVar[str] = "log-cosh"
    ...     def loss(self, y, score):
    ...         return np.log(np.cosh(y - score))
    ...     def gradient(self, y, score):
    ...         return -np.tanh(y - score)
    ...     def start_of(self, rows):
    ...         return np.array([rows.quantile(0.5)])
    >>> x = np.arange(50.0)
    >>> cb.fit({"x": x}, x / 10, loss=LogCosh(), n_iter=200).predict({"x": [20.0]}).round(1)
    array([2.])
    """

    name: ClassVar[str]
    core_name: ClassVar[str | None] = None
    joint_choices: ClassVar[bool] = True
    linear: ClassVar[bool] = False
    target: ClassVar[Literal["numbers", "classes"]] = "numbers"
    bootstrap_rate: ClassVar[float] = 0.0
    link: ClassVar[str | None] = "identity"
    prediction_kinds: ClassVar[tuple[str, ...]] = ("response", "score")
    loss_name: ClassVar[str] = "mean loss"
    default_metric: ClassVar[str] = "risk"
    likelihood: ClassVar[Literal["exact", "normal"] | None] = None

    def __init_subclass__(cls) -> None:
        if "response" in vars(cls) and "link" not in vars(cls):
            cls.link = None  # only its own response knows the link

    # --- evaluation -------------------------------------------------------------------------------

    @property
    def parameter(self) -> float:
        return 0.0

    @property
    def n_outputs(self) -> int:
        return 1

    def core(self, y: Floats) -> _core.Loss:
        """Return the loss as the core evaluates it on rows."""
        if self.core_name is None:
            return python_core(self, y, self.n_outputs)
        return _core.make_loss(self.core_name, self.parameter)

    # --- y ----------------------------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 if y is numbers."""
        return 0 if self.target == "numbers" else max(2, self.n_outputs)

    @property
    def max_classes(self) -> int:
        """The largest number of classes that the loss takes."""
        return 2 if self.n_outputs == 1 else MAX_CLASSES

    def with_classes(self, classes: tuple[Any, ...]) -> Loss:  # noqa: ARG002
        """Return the loss for y with these classes."""
        return self

    def read_y(self, y: Column, classes: tuple[Any, ...] | None = None) -> Target:
        """Return y as the core takes it and its classes; raise if a value is outside the domain.

        `classes` are the known classes, if a model has been fitted before.
        """
        if self.target == "numbers":
            values = _read_numbers(y, self.name)
            self.check_y(values)
            return values, ()
        codes, found = code_classes(y, classes)
        if classes is None:
            check_number_of_classes(found, self.name, self.max_classes)
        values = self.class_values(len(found))
        if len(values) == 2:  # faster than indexing
            return np.where(codes, values[1], values[0]), found
        return values[codes], found

    def check_y(self, y: Floats) -> None:
        """Raise if a number is outside the domain of the loss."""

    def class_values(self, n: int) -> Floats:
        """Return the values of y that stand for n classes."""
        return np.arange(n, dtype=np.float64)

    def class_codes(self, y: Floats) -> NDArray[np.intp]:
        """Return the class numbers of rows from y as the core takes it."""
        return np.searchsorted(self.class_values(self.n_classes), y)

    # --- fit --------------------------------------------------------------------------------------

    def start(self, y: Floats, w: Floats, offset: Floats) -> Floats:
        """(q,) the constant that minimises the weighted risk, given offsets (n, q)."""
        return self.start_of(TargetRows(y, w, offset))

    def start_of(self, rows: TargetRows) -> Floats:
        """(q,) the constant that minimises the weighted risk of the rows."""
        raise NotImplementedError(f"{type(self).__name__} does not define start_of")

    def scale(self, y: Floats, w: Floats, offset: Floats, start: Floats) -> float:
        """Return the factor of every step: it makes a rate mean the same in all units of y."""
        return self.scale_of(TargetRows(y, w, offset), start)

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        """Return the factor of every step, computed from the training rows."""
        return 1.0

    # --- prediction -------------------------------------------------------------------------------

    @property
    def log_link(self) -> bool:
        """Whether scores are logarithms of responses, so that an exposure makes sense."""
        return self.link == "log"

    @property
    def has_response(self) -> bool:
        """Whether the loss defines `response` itself, instead of a link by name."""
        return type(self).response is not Loss.response

    def response(self, score: Floats) -> Floats:
        """Return scores (n, q) in the units of y: (n,), or (n, q) probabilities."""
        inverse = INVERSE_LINKS.get(str(self.link))
        if inverse is None:
            raise TypeError(
                f"the {self.name} loss has the link {quote(self.link)}, which is not one of "
                f"{', '.join(INVERSE_LINKS)}; it must define response(score)"
            )
        return inverse(score)

    def predict(self, score: Floats, kind: str) -> Floats:
        """Return predictions of a kind from scores (n, q)."""
        if kind == "score":
            return score[:, 0] if score.shape[1] == 1 else score
        if kind == "response":
            return self.response(score)
        raise NotImplementedError(
            f"{type(self).__name__} does not define predict(kind={quote(kind)})"
        )

    def check_kind(self, kind: Any) -> None:
        """Raise unless the loss has predictions of this kind."""
        check_one_of("kind", kind, self.prediction_kinds)

    @property
    def estimand(self) -> str:
        if self.target == "classes":
            return "probability"
        return "the mean" if self.log_link else "prediction"

    # --- quality and inference --------------------------------------------------------------------

    def figures(self, rows: EvaluatedRows) -> dict[str, float]:
        """Return the figures of quality that suit the loss, by name, the most telling first."""
        if self.target == "classes":
            return _class_figures(rows, self.loss_name)
        if rows.score.shape[1] > 1:
            return {self.loss_name: rows.mean_loss}
        if self.log_link:
            observed = float(rows.weights @ rows.y)
            predicted = float(rows.weights @ rows.response[:, 0])
            return {
                "deviance explained": rows.explained,
                "predicted / observed": predicted / observed if observed else float("nan"),
                **rows.errors(),
            }
        return {self.loss_name: rows.mean_loss, **rows.errors()}

    def saturated_score(self, y: Floats) -> Floats | None:
        """Return the score at which the loss of every row is least, or None if it is zero there."""
        if not self.log_link:
            return None
        with np.errstate(divide="ignore"):
            return np.maximum(np.log(y), -700.0)

    @property
    def calibration_level(self) -> float | None:
        return None

    @property
    def has_curvature(self) -> bool:
        return type(self).curvature is not Loss.curvature

    def curvature(self, y: Floats, score: Floats) -> Floats:
        """Second derivative of the loss by each score, in the shape of the scores."""
        raise NotImplementedError(f"{type(self).__name__} does not define curvature")

    def dispersion_of(self, estimate: float) -> float:
        """Return the dispersion, given its estimate from the squares of the residuals."""
        return estimate

    def likelihood_constant(self, y: Floats) -> Floats:
        """(n,) minus the log likelihood of the rows, less their loss."""
        return np.zeros(len(y))

    # --- text -------------------------------------------------------------------------------------

    def code(self) -> str:
        """Return the expression that makes the loss in a script: 'squared', cb.Quantile(tau=0.9).

        For a loss of the user's own this is a variable, `loss`.
        """
        if not is_built_in(type(self)):
            return "loss"
        return repr(self.name) if repr(self).endswith("()") else f"cb.{self!r}"

    def label(self) -> str:
        """Return the name and the parameters: quantile, tau=0.9."""
        values = repr(self).partition("(")[2][:-1]
        return f"{self.name}, {values}" if values else self.name

    def identity(self) -> str:
        """Return a text that tells losses apart and is equal in any process.

        For a loss of the user's own it contains a hash of the code.
        """
        if is_built_in(type(self)):
            return repr(self)
        return f"{type(self).__qualname__} {fingerprint(describe_code(self))}"


def _read_numbers(y: Column, loss: str) -> Floats:
    if isinstance(y, Labels):
        raise TypeError(
            f"y: the {loss} loss needs numbers, got text such as {quote((*y.levels, '')[0])}; for "
            "classes use loss='binomial' or 'multinomial'"
        )
    return y.values


def _class_figures(rows: EvaluatedRows, loss_name: str) -> dict[str, float]:
    codes = rows.class_codes
    if rows.response.shape[1] > 1:
        right = rows.response.argmax(axis=1) == codes
        return {loss_name: rows.mean_loss, "accuracy": rows.mean(right)}
    positive, probability = codes == 1, rows.response[:, 0]
    return {
        "AUC": auc(positive, rows.score[:, 0], rows.weights),
        loss_name: rows.mean_loss,
        "accuracy": rows.mean((probability > 0.5) == positive),
        "Brier score": rows.mean((probability - positive) ** 2),
    }


def find_root(
    derivative: Callable[[float], float], guess: float, width: float, doublings: int = 60
) -> float:
    """Return the root of an increasing function near a guess, NaN if none is found.

    `width` is the first distance to the guess that is tried.
    """
    low, high = guess - width, guess + width
    for _ in range(doublings):
        if derivative(low) <= 0.0 <= derivative(high):
            # Halving the widest interval of floats takes 2,000 steps; brentq is rarely that slow.
            tolerance = max(1e-14 * width, 5e-324)
            return float(brentq(derivative, low, high, xtol=tolerance, rtol=1e-14, maxiter=10_000))
        width *= 2.0
        low, high = guess - width, guess + width
    return float("nan")
