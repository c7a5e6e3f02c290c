"""Losses on classes: two (binomial) or more (multinomial)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, softmax

from cwboost.frames.columns import Floats

from .base import Loss, TargetRows, find_root


@dataclass(frozen=True)
class Binomial(Loss):
    """log(1 + exp(-y f)), y in {-1, 1}: the log odds of the second of two classes.

    Any two labels are accepted; the second in sorted order is the positive class.

    Examples
    --------
    >>> Binomial().response(np.array([[0.0]]))
    array([0.5])
    """

    name: ClassVar[str] = "binomial"
    core_name: ClassVar[str | None] = "binomial"
    target: ClassVar[Literal["numbers", "classes"]] = "classes"
    link: ClassVar[str | None] = "logit"
    loss_name: ClassVar[str] = "log loss"
    bootstrap_rate: ClassVar[float] = 2.0
    likelihood: ClassVar[Literal["exact", "normal"] | None] = "exact"

    def class_values(self, n: int) -> Floats:  # noqa: ARG002
        return np.array([-1.0, 1.0])

    def start_of(self, rows: TargetRows) -> Floats:
        share = rows.mean(lambda y, _: y > 0)
        if share in (0.0, 1.0):
            raise ValueError(
                "the training rows have only one class, so the start would be infinite; "
                "choose other validation rows or weights"
            )
        guess = float(np.log(share / (1.0 - share)))
        if not rows.has_offset:
            return np.array([guess])
        center = guess - rows.mean(lambda _, o: o[:, 0])

        def derivative(c: float) -> float:
            return -float(rows.total(lambda y, w, o: w @ (y * expit(-y * (o[:, 0] + c)))))

        return np.array([find_root(derivative, center, 1.0)])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        """Return 4 = 1 / max p(1 - p), with which no step of rate 1 or less overshoots.

        The mean of p(1 - p) at the start would not do: for rare events it is tiny.
        """
        return 4.0

    def curvature(self, y: Floats, score: Floats) -> Floats:  # noqa: ARG002
        return np.asarray(expit(score) * expit(-score))

    def dispersion_of(self, estimate: float) -> float:  # noqa: ARG002
        return 1.0


@dataclass(frozen=True)
class Multinomial(Loss):
    """log(sum_k exp(f_k)) - f_y: a score per class, summing to zero.

    Examples
    --------
    >>> Multinomial().with_classes(("a", "b")).response(np.zeros((1, 2)))
    array([[0.5, 0.5]])
    """

    name: ClassVar[str] = "multinomial"
    core_name: ClassVar[str | None] = "multinomial"
    target: ClassVar[Literal["numbers", "classes"]] = "classes"
    link: ClassVar[str | None] = "softmax"
    loss_name: ClassVar[str] = "log loss"
    bootstrap_rate: ClassVar[float] = 1.0
    likelihood: ClassVar[Literal["exact", "normal"] | None] = "exact"
    n_classes: int = field(default=0, repr=False)  # 0 until y has been read

    @property
    def parameter(self) -> float:
        return float(self.n_classes)

    @property
    def n_outputs(self) -> int:
        return self.n_classes

    def with_classes(self, classes: tuple[Any, ...]) -> Loss:
        if self.n_classes not in (0, len(classes)):
            raise ValueError(
                f"loss: Multinomial({self.n_classes}) is for {self.n_classes} classes, but y has "
                f"{len(classes)}; use loss='multinomial'"
            )
        return Multinomial(len(classes))

    def start_of(self, rows: TargetRows) -> Floats:
        classes, total = np.arange(self.n_classes), rows.weight
        shares = rows.total(lambda y, w, _: w @ (y[:, None] == classes)) / total
        if np.any(shares == 0.0):
            raise ValueError(
                "a class of y does not occur in the training rows, so its start would be minus "
                "infinity; choose other validation rows or weights"
            )
        start = np.log(shares)
        for _ in range(100 if rows.has_offset else 0):  # Newton; lstsq leaves the constant free
            expected, squares = rows.total(partial(_probabilities, start))
            gradient = shares - expected / total
            hessian = np.diag(expected / total) - squares / total
            step = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
            start = start + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-300))
            if np.abs(step).max() < 1e-12:
                break
        return np.asarray(start - start.mean())

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        """Return 2 = 1 / the largest eigenvalue of diag(p) - pp', as for two classes.

        A fit of two classes then equals the binomial fit of the same rate, whose score is the
        difference of the two scores.
        """
        return 2.0

    def curvature(self, y: Floats, score: Floats) -> Floats:  # noqa: ARG002
        """(n, q) second derivatives by each score; score is (n, q)."""
        p = softmax(score, axis=-1)
        return np.asarray(p * (1.0 - p))

    def dispersion_of(self, estimate: float) -> float:  # noqa: ARG002
        return 1.0


def _probabilities(start: Floats, y: Floats, w: Floats, offset: Floats) -> Any:  # noqa: ARG001
    """Return weighted sums of class probabilities, (q,), and of their products, (q, q)."""
    p = softmax(offset + start, axis=1)
    return _Sums((w @ p, (p * w[:, None]).T @ p))


class _Sums(tuple[Floats, ...]):
    """Several sums over rows that are added up together when rows come from several places."""

    def __add__(self, other: Any) -> Any:
        return _Sums(a + b for a, b in zip(self, other, strict=True))
