"""Losses as people name them. Knows for each loss which y it takes, its start, its step scale and
its response; the value and the residual on a row are the core's (loss.hpp) or, for a loss written
in Python, the user's. Knows nothing of tables, learners or optimizers.

Scores and offsets are (n, q) blocks here, y is (n,), weights are positive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, softmax

from cwboost._utils.checks import is_number
from cwboost._utils.fingerprint import describe_code, fingerprint
from cwboost.binning.numbers import weighted_quantile
from cwboost.frames.table import Column, Floats, Labels, Numbers

from . import _core

Target = tuple[Floats, tuple[Any, ...]]  # y as the core takes it, and the classes (or nothing)


class TargetRows:
    """The training rows, as far as a start and a scale depend on them: y (n,), weights, offsets
    (n, q). Where the rows are is not a loss's business."""

    def __init__(self, y: Floats, w: Floats, offset: Floats) -> None:
        self.rows = y, w, offset

    def total(self, of: Callable[[Floats, Floats, Floats], Any]) -> Any:
        """Sums over the rows: what `of` says of y, weights and offset."""
        return of(*self.rows)

    @property
    def weight(self) -> float:
        return float(self.total(_weight))

    def mean(self, of: Callable[[Floats, Floats], Any]) -> float:
        """Weighted mean of what `of` says of y and offset, per row."""
        return float(self.total(lambda y, w, o: w @ of(y, o))) / self.weight

    def quantile(self, share: float) -> float:
        """Of y - offset."""
        y, w, offset = self.rows
        return float(weighted_quantile(y - offset[:, 0], w, share))

    @property
    def largest_offset(self) -> float:
        return float(self.rows[2].max())

    @property
    def has_offset(self) -> bool:
        return bool(self.rows[2].any())

    def whole(self) -> tuple[Floats, Floats, Floats]:
        """y, weights and offset of all rows, in one place."""
        return self.rows


def _weight(y: Floats, w: Floats, offset: Floats) -> Any:  # noqa: ARG001
    return w.sum()


@dataclass(frozen=True)
class Loss:
    """What every loss says of itself; the defaults are those of a loss on plain numbers."""

    name: ClassVar[str]
    log_link: ClassVar[bool] = False

    @property
    def parameter(self) -> float:
        """The one number that the core needs."""
        return 0.0

    @property
    def n_outputs(self) -> int:
        return 1

    def with_classes(self, classes: tuple[Any, ...]) -> Loss:  # noqa: ARG002
        """The loss once the classes of y are known."""
        return self

    def read_y(self, y: Column, classes: tuple[Any, ...] | None = None) -> Target:  # noqa: ARG002
        """y as floats, or an error that says which values are wrong."""
        values = _numbers(y, self.name)
        self.check_y(values)
        return values, ()

    def check_y(self, y: Floats) -> None:
        """Raises if y is outside the loss's domain."""

    def core(self, y: Floats) -> _core.Loss:  # noqa: ARG002
        return _core.make_loss(self.name, self.parameter)

    def start(self, y: Floats, w: Floats, offset: Floats) -> Floats:
        """(q,) the constant that minimises the weighted risk, given offsets (n, q)."""
        return self.start_of(TargetRows(y, w, offset))

    def start_of(self, rows: TargetRows) -> Floats:
        raise NotImplementedError

    def scale(self, y: Floats, w: Floats, offset: Floats, start: Floats) -> float:
        """The factor of every step: makes a rate mean the same in all units of y."""
        return self.scale_of(TargetRows(y, w, offset), start)

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return 1.0

    def response(self, score: Floats) -> Floats:
        """Scores (n, q) in the units of y: (n,), or (n, q) probabilities."""
        return score[:, 0]


def _numbers(y: Column, loss: str) -> Floats:
    if isinstance(y, Labels):
        raise TypeError(
            f"y: the {loss} loss needs numbers, got text such as {(*y.levels, '')[0]!r}; for "
            "classes use loss='binomial' or 'multinomial'"
        )
    return y.values


def _refuse(bad: Any, y: Floats, what: str) -> None:
    if np.any(bad):
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"y, row {row}: {what}, got {y[row]:g} ({int(bad.sum())} such rows)")


def _root(derivative: Callable[[float], float], guess: float, width: float) -> float:
    """Root of an increasing function near a guess."""
    low, high = guess - width, guess + width
    for _ in range(60):
        if derivative(low) <= 0.0 <= derivative(high):
            return float(brentq(derivative, low, high, xtol=1e-12, rtol=1e-14))
        width *= 2.0
        low, high = guess - width, guess + width
    return float("nan")


def _mean_deviation(rows: TargetRows) -> float:
    """Weighted mean distance of y - offset from its median; 1 if all are equal."""
    median = rows.quantile(0.5)
    found = rows.mean(lambda y, o: np.abs(y - o[:, 0] - median))
    return found if found > 0.0 else 1.0


@dataclass(frozen=True)
class Squared(Loss):
    """(y - f)^2 / 2: the mean of y.

    Examples
    --------
    >>> Squared().start(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.zeros((2, 1)))
    array([2.])
    """

    name: ClassVar[str] = "squared"

    def start_of(self, rows: TargetRows) -> Floats:
        return np.array([rows.mean(lambda y, o: y - o[:, 0])])


@dataclass(frozen=True)
class Quantile(Loss):
    """tau (y - f) where y is above, (1 - tau) (f - y) where it is below: the tau-quantile of y.

    Examples
    --------
    >>> import cwboost as cb
    >>> x = np.arange(100.0)
    >>> model = cb.fit({"x": x}, x, loss=cb.Quantile(0.9), n_iter=0)
    >>> model.start
    89.5
    """

    tau: float = 0.5
    name: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        if not (is_number(self.tau) and 0.0 < self.tau < 1.0):
            raise ValueError(f"Quantile: tau must be between 0 and 1, got {self.tau!r}")

    @property
    def parameter(self) -> float:
        return self.tau

    def start_of(self, rows: TargetRows) -> Floats:
        return np.array([rows.quantile(self.tau)])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return _mean_deviation(rows)


@dataclass(frozen=True)
class Absolute(Loss):
    """|y - f|: the median of y.

    Examples
    --------
    >>> Absolute().start(np.array([1.0, 3.0, 9.0]), np.ones(3), np.zeros((3, 1)))
    array([3.])
    """

    name: ClassVar[str] = "absolute"

    def start_of(self, rows: TargetRows) -> Floats:
        return Quantile(0.5).start_of(rows)

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return _mean_deviation(rows)


@dataclass(frozen=True)
class Huber(Loss):
    """(y - f)^2 / 2 up to delta, linear beyond: a mean that outliers do not carry away.

    Examples
    --------
    >>> Huber(1.0).start(np.array([0.0, 0.0, 0.0, 100.0]), np.ones(4), np.zeros((4, 1))).round(4)
    array([0.3333])
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"

    def __post_init__(self) -> None:
        if not (is_number(self.delta) and self.delta > 0.0):
            raise ValueError(f"Huber: delta must be positive, got {self.delta!r}")

    @property
    def parameter(self) -> float:
        return self.delta

    def start_of(self, rows: TargetRows) -> Floats:
        delta = self.delta

        def derivative(c: float) -> float:
            clipped = rows.total(lambda y, w, o: w @ np.clip(y - o[:, 0] - c, -delta, delta))
            return -float(clipped)

        return np.array([_root(derivative, rows.quantile(0.5), delta)])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return max(1.0, _mean_deviation(rows) / self.delta)


def _read_classes(
    y: Column, classes: tuple[Any, ...] | None, loss: str
) -> tuple[Floats, tuple[Any, ...]]:
    """Codes of the classes of y, and the classes in sorted order (given, if they are known)."""
    codes: Any
    if isinstance(y, Numbers):
        distinct = _core.distinct(y.values, None, 2)
        if distinct is None:
            distinct, codes = np.unique(y.values, return_inverse=True)
        else:
            codes = (y.values != distinct[0]).view(np.uint8)
        found: list[Any] = [
            bool(v) if y.boolean else int(v) if v.is_integer() and abs(v) < 2**53 else float(v)
            for v in distinct
        ]
    else:
        used = np.flatnonzero(np.bincount(y.codes))
        found = [y.levels[c] for c in used]
        codes = np.searchsorted(used, y.codes)
    if classes is None:
        if len(found) < 2:
            raise ValueError(
                f"y has one class only, {found[0]!r}; the {loss} loss needs at least two"
            )
        if loss == "binomial" and len(found) > 2:
            shown = ", ".join(repr(v) for v in found[:5]) + ", ..." * (len(found) > 5)
            raise ValueError(
                f"y: the binomial loss needs two classes, got {len(found)} ({shown}); use "
                "loss='multinomial', or another loss if y is a number"
            )
        if loss == "multinomial" and len(found) > 1000:
            raise ValueError(f"y has {len(found)} classes; is it a number? Use loss='squared'")
        return codes.astype(np.float64), tuple(found)
    position = {value: i for i, value in enumerate(classes)}
    unknown = [value for value in found if value not in position]
    if unknown:
        raise ValueError(f"y: class {unknown[0]!r} does not occur in the training rows")
    return np.array([float(position[v]) for v in found])[codes], classes


@dataclass(frozen=True)
class Binomial(Loss):
    """log(1 + exp(-y f)), y in {-1, 1}: the log odds of the second of two classes.

    Any two labels are taken; the second in sorted order is the positive class.

    Examples
    --------
    >>> Binomial().response(np.array([[0.0]]))
    array([0.5])
    """

    name: ClassVar[str] = "binomial"

    def read_y(self, y: Column, classes: tuple[Any, ...] | None = None) -> Target:
        codes, found = _read_classes(y, classes, self.name)
        return 2.0 * codes - 1.0, found

    def start_of(self, rows: TargetRows) -> Floats:
        share = rows.mean(lambda y, _: y > 0)
        if share in (0.0, 1.0):
            raise ValueError(
                "the training rows have one class only, so the start would be infinite; "
                "choose other validation rows or weights"
            )
        guess = float(np.log(share / (1.0 - share)))
        if not rows.has_offset:
            return np.array([guess])
        center = guess - rows.mean(lambda _, o: o[:, 0])

        def derivative(c: float) -> float:
            return -float(rows.total(lambda y, w, o: w @ (y * expit(-y * (o[:, 0] + c)))))

        return np.array([_root(derivative, center, 1.0)])

    def response(self, score: Floats) -> Floats:
        return np.asarray(expit(score[:, 0]))


def _probabilities(start: Floats, y: Floats, w: Floats, offset: Floats) -> Any:  # noqa: ARG001
    """Weighted sums of the classes' probabilities, and of their products: a row of q, then q of
    them."""
    p = softmax(offset + start, axis=1)
    return _Sums((w @ p, (p * w[:, None]).T @ p))


class _Sums(tuple[Floats, ...]):
    """Sums of more than one kind."""

    def __add__(self, other: Any) -> Any:
        return _Sums(a + b for a, b in zip(self, other, strict=True))


@dataclass(frozen=True)
class Multinomial(Loss):
    """log(sum_k exp(f_k)) - f_y: a score per class, summing to zero.

    Examples
    --------
    >>> Multinomial().with_classes(("a", "b")).response(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """

    name: ClassVar[str] = "multinomial"
    n_classes: int = field(default=0, repr=False)  # filled in when y is read

    @property
    def parameter(self) -> float:
        return float(self.n_classes)

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def with_classes(self, classes: tuple[Any, ...]) -> Loss:
        return Multinomial(len(classes))

    def read_y(self, y: Column, classes: tuple[Any, ...] | None = None) -> Target:
        return _read_classes(y, classes, self.name)

    def start_of(self, rows: TargetRows) -> Floats:
        classes, total = np.arange(self.n_classes), rows.weight
        shares = rows.total(lambda y, w, _: w @ (y[:, None] == classes)) / total
        if np.any(shares == 0.0):
            raise ValueError(
                "a class of y does not occur in the training rows, so its start would be minus "
                "infinity; choose other validation rows or weights"
            )
        start = np.log(shares)
        for _ in range(100 if rows.has_offset else 0):  # Newton, the constant direction left alone
            expected, squares = rows.total(partial(_probabilities, start))
            gradient = shares - expected / total
            hessian = np.diag(expected / total) - squares / total
            step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
            start = start + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
            if np.abs(step).max() < 1e-12:
                break
        return np.asarray(start - start.mean())

    def response(self, score: Floats) -> Floats:
        return np.asarray(softmax(score, axis=1))


@dataclass(frozen=True)
class Tweedie(Loss):
    """Tweedie deviance with a log link, variance = mean^power: 1 is poisson, 2 is gamma.

    Examples
    --------
    >>> Tweedie(1.5).start(np.array([0.0, 2.0]), np.ones(2), np.zeros((2, 1)))
    array([0.])
    """

    power: float = 1.5
    name: ClassVar[str] = "tweedie"
    log_link: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (is_number(self.power) and 1.0 <= self.power <= 2.0):
            raise ValueError(f"Tweedie: power must be from 1 to 2, got {self.power!r}")

    @property
    def parameter(self) -> float:
        return self.power

    def core(self, y: Floats) -> _core.Loss:  # noqa: ARG002
        limits = {1.0: "poisson", 2.0: "gamma"}
        return _core.make_loss(limits.get(self.power, "tweedie"), self.power)

    def check_y(self, y: Floats) -> None:
        if self.power < 2.0:
            _refuse(y < 0, y, f"the {self.name} loss needs numbers >= 0")
        else:
            _refuse(y <= 0, y, f"the {self.name} loss needs numbers > 0")

    def start_of(self, rows: TargetRows) -> Floats:
        p = self.power
        if not rows.total(lambda y, w, _: w @ (y > 0)) > 0:
            raise ValueError(
                f"y is zero in all training rows, so the start of the {self.name} loss would be "
                "minus infinity; there is nothing to fit"
            )
        top = rows.largest_offset  # against overflow of exp
        fall = rows.total(lambda y, w, o: w @ (y * np.exp((1 - p) * (o[:, 0] - top))))
        rise = rows.total(lambda _, w, o: w @ np.exp((2 - p) * (o[:, 0] - top)))
        return np.array([np.log(fall) - np.log(rise) - top])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:
        p = self.power

        def curvature(y: Floats, offset: Floats) -> Any:
            f = offset[:, 0] + start[0]
            return (p - 1) * y * np.exp((1 - p) * f) + (2 - p) * np.exp((2 - p) * f)

        return 1.0 / rows.mean(curvature)

    def response(self, score: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(score[:, 0])


@dataclass(frozen=True)
class Poisson(Tweedie):
    """exp(f) - y f, log link: the mean of counts.

    Examples
    --------
    >>> Poisson().start(np.array([0.0, 2.0]), np.ones(2), np.zeros((2, 1)))
    array([0.])
    """

    power: float = field(default=1.0, init=False, repr=False)
    name: ClassVar[str] = "poisson"


@dataclass(frozen=True)
class Gamma(Tweedie):
    """f + y exp(-f), log link: the mean of positive amounts.

    Examples
    --------
    >>> Gamma().start(np.array([1.0, 3.0]), np.ones(2), np.zeros((2, 1))).round(6)
    array([0.693147])
    """

    power: float = field(default=2.0, init=False, repr=False)
    name: ClassVar[str] = "gamma"


LOSSES: dict[str, type[Loss]] = {
    cls.name: cls
    for cls in (
        Squared, Absolute, Quantile, Huber, Binomial, Multinomial, Poisson, Gamma, Tweedie,
    )
}  # fmt: skip


@dataclass(frozen=True)
class PythonLoss(Loss):
    """A loss written in Python: an object with vectorised methods

    - `loss(y, score)` and `gradient(y, score)` (by the score), both (n,) -> (n,);
    - `start(y, weights)` or `start(y, weights, offset)`, a number;
    - if wanted `response(score)`, and `scale`, a number (default 1).

    With an attribute `n_outputs` = q > 1, scores and gradients are (n, q) and the start is (q,).
    """

    user: Any
    name: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        lacking = [
            m for m in ("loss", "gradient", "start") if not callable(getattr(self.user, m, None))
        ]
        if lacking:
            raise TypeError(
                f"loss: expected a name ({', '.join(LOSSES)}), a loss such as cb.Quantile(0.9), or "
                "an object with the methods loss, gradient and start; "
                f"{type(self.user).__name__} lacks {', '.join(lacking)}"
            )

    @property
    def n_outputs(self) -> int:
        return int(getattr(self.user, "n_outputs", 1))

    def core(self, y: Floats) -> _core.Loss:
        y = y.copy()
        y.flags.writeable = False  # the user's code may be careless

        def evaluate(
            rows: _core.LossInput, want_residual: bool, want_loss: bool
        ) -> tuple[Any, Any]:
            at = self._shaped(rows.score.T)
            residual = loss = None
            if want_residual:
                gradient = self._checked("gradient", self.user.gradient(y, at), at.shape)
                if np.isnan(gradient).any():
                    row = int(np.flatnonzero(np.isnan(gradient).reshape(len(y), -1).any(axis=1))[0])
                    raise ValueError(f"the loss's gradient is NaN in row {row} (y = {y[row]:g})")
                residual = np.ascontiguousarray(-gradient.reshape(len(y), -1).T)
            if want_loss:
                loss = np.ascontiguousarray(self._checked("loss", self.user.loss(y, at), y.shape))
            return residual, loss

        return _core.python_loss(evaluate, self.n_outputs)

    def start_of(self, rows: TargetRows) -> Floats:
        y, w, offset = rows.whole()
        arguments: list[Any] = [y, w]
        takes = inspect.signature(self.user.start).parameters.values()
        if len(takes) > 2 or any(p.kind is p.VAR_POSITIONAL for p in takes):
            arguments.append(self._shaped(offset))
        elif offset.any():
            raise TypeError(
                "the loss's start must take (y, weights, offset) when there are offsets"
            )
        shape = () if self.n_outputs == 1 else (self.n_outputs,)
        return self._checked("start", self.user.start(*arguments), shape).reshape(-1)

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return float(self._checked("scale", getattr(self.user, "scale", 1.0), ()))

    def response(self, score: Floats) -> Floats:
        at = self._shaped(score)
        if not callable(getattr(self.user, "response", None)):
            return at
        return np.asarray(self.user.response(at), dtype=np.float64)

    def _shaped(self, block: Floats) -> Floats:
        return np.ascontiguousarray(block[:, 0] if self.n_outputs == 1 else block)

    def _checked(self, what: str, value: Any, shape: tuple[int, ...]) -> Floats:
        try:
            out = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"the loss's {what} must return numbers, got {type(value).__name__}"
            ) from None
        if out.shape != shape:
            raise ValueError(
                f"the loss's {what} must return an array of shape {shape}, got {out.shape}"
            )
        return out


def described(loss: Loss) -> str:
    """Its name and parameters; of one that people wrote a short name of what it does. Equal in any
    process.

    Examples
    --------
    >>> described(Quantile(0.9))
    'Quantile(tau=0.9)'
    """
    if type(loss).__module__ == Loss.__module__ and not isinstance(loss, PythonLoss):
        return repr(loss)
    user = getattr(loss, "user", loss)
    return f"{type(user).__qualname__} {fingerprint(describe_code(user))}"


def as_loss(loss: Any) -> Loss:
    """A loss from its name, itself, or an object that is one in all but name.

    Examples
    --------
    >>> as_loss("poisson")
    Poisson()
    """
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss: expected one of {', '.join(LOSSES)}; got {loss!r}")
        return LOSSES[loss]()
    if isinstance(loss, type):
        return as_loss(loss())
    return PythonLoss(loss)
