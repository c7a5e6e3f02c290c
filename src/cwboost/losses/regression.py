"""Losses on real numbers with the identity link: means, medians, quantiles, robust means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from cwboost._utils.checks import is_number, simplify_fields
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats

from .base import Loss, TargetRows, find_root
from .evaluation import EvaluatedRows

ROUNDING = 1e-13  # of a sum over the rows, relative to the sum of absolute values
MAX_DISTANCE = 1e154  # squares of larger distances are infinite


@dataclass(frozen=True)
class Squared(Loss):
    """(y - f)^2 / 2: the mean of y.

    Examples
    --------
    >>> Squared().start(np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.zeros((2, 1)))
    array([2.])
    """

    name: ClassVar[str] = "squared"
    core_name: ClassVar[str | None] = "squared"
    linear: ClassVar[bool] = True
    bootstrap_rate: ClassVar[float] = 0.5
    likelihood: ClassVar[Literal["exact", "normal"] | None] = "normal"

    def start_of(self, rows: TargetRows) -> Floats:
        return np.array([rows.mean(lambda y, o: y - o[:, 0])])

    @property
    def estimand(self) -> str:
        return "the mean"

    def figures(self, rows: EvaluatedRows) -> dict[str, float]:
        return {"R²": rows.explained, **rows.errors()}

    def curvature(self, y: Floats, score: Floats) -> Floats:  # noqa: ARG002
        return np.ones(len(y))


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
    core_name: ClassVar[str | None] = "quantile"
    loss_name: ClassVar[str] = "quantile loss"

    def __post_init__(self) -> None:
        simplify_fields(self)
        if not (is_number(self.tau) and 0.0 < self.tau < 1.0):
            raise ValueError(f"Quantile: tau must be between 0 and 1, got {quote(self.tau)}")

    @property
    def parameter(self) -> float:
        return self.tau

    def start_of(self, rows: TargetRows) -> Floats:
        return np.array([rows.quantile(self.tau)])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return rows.mean_deviation()

    @property
    def estimand(self) -> str:
        return f"the {self.tau:g}-quantile"

    @property
    def calibration_level(self) -> float | None:
        return self.tau

    def figures(self, rows: EvaluatedRows) -> dict[str, float]:
        below = rows.mean(rows.y - rows.response[:, 0] <= 0)
        return {f"rows at or below (aim {self.tau:g})": below, self.loss_name: rows.mean_loss}


@dataclass(frozen=True)
class Absolute(Loss):
    """|y - f|: the median of y.

    Examples
    --------
    >>> Absolute().start(np.array([1.0, 3.0, 9.0]), np.ones(3), np.zeros((3, 1)))
    array([3.])
    """

    name: ClassVar[str] = "absolute"
    core_name: ClassVar[str | None] = "absolute"

    def start_of(self, rows: TargetRows) -> Floats:
        return np.array([rows.quantile(0.5)])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return rows.mean_deviation()

    @property
    def estimand(self) -> str:
        return "the median"

    @property
    def calibration_level(self) -> float | None:
        return 0.5


@dataclass(frozen=True)
class Huber(Loss):
    """(y - f)^2 / 2 up to delta, linear beyond: a mean that outliers influence little.

    Examples
    --------
    >>> Huber(1.0).start(np.array([0.0, 0.0, 0.0, 100.0]), np.ones(4), np.zeros((4, 1))).round(4)
    array([0.3333])
    """

    delta: float = 1.0
    name: ClassVar[str] = "huber"
    core_name: ClassVar[str | None] = "huber"

    def __post_init__(self) -> None:
        simplify_fields(self)
        if not (is_number(self.delta) and self.delta > 0.0):
            raise ValueError(f"Huber: delta must be positive, got {quote(self.delta)}")

    @property
    def parameter(self) -> float:
        return self.delta

    def start_of(self, rows: TargetRows) -> Floats:
        delta = min(self.delta, MAX_DISTANCE)

        def derivative(c: float) -> float:
            def sums(y: Floats, w: Floats, offset: Floats) -> Floats:
                clipped = np.clip(y - offset[:, 0] - c, -delta, delta)
                return np.array([w @ clipped, w @ np.abs(clipped)])

            total, size = rows.total(sums)
            # The last digits of a sum depend on the order of the rows.
            return -float(total) if abs(total) > ROUNDING * size else 0.0

        # Few residuals are within a tiny delta: there, many constants near the median are the best.
        width = min(delta, rows.mean_deviation())
        return np.array([find_root(derivative, rows.quantile(0.5), width, doublings=2_000)])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return max(1.0, rows.mean_deviation() / self.delta)

    @property
    def estimand(self) -> str:
        return "a mean that outliers influence little"

    def curvature(self, y: Floats, score: Floats) -> Floats:
        return (np.abs(y - score) <= self.delta).astype(np.float64)
