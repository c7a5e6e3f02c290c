"""The learners Spline and Centered: smooth curves (P-splines)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from cwboost._utils.checks import check_one_of, check_whole
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.frames.columns import Floats
from cwboost.terms.bases import MISSING_RIDGE, Basis, Extrapolate, SplineBasis, Tails
from cwboost.terms.bases.spline import MAX_DEGREE
from cwboost.terms.encoders import Encoder
from cwboost.terms.training import TrainingColumn

from .base import Learner, require
from .curve import MIN_STEP, CurveLearner, training_range

MIN_SHARE = 1e-50  # of the range between two knots


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Spline(CurveLearner):
    """A smooth curve: penalised B-splines (P-splines).

    Parameters
    ----------
    column : str
    df : float, optional
        Degrees of freedom, constant and straight line (2) included.
    knots : int
        Number of inner knots; there are knots + degree + 1 coefficients.
    degree : int
    differences : int
        Order of the differences that are penalised.
    knot_placement : "uniform" or "quantile"
        Equally spaced knots, or knots at quantiles of the training rows: the curve may bend more
        where there are more rows. Quantile knots are for columns with outliers.
    bins : rule, optional
        Instead of the fit's rule.
    extrapolate : "constant" or "linear"
        How the curve continues beyond the range of the training rows: with its value at the end,
        or with its slope there. A few rows decide the slope, so that lines may run away.
    tails : "flat" or "smooth"
        How the curve goes to the ends of the range if hardly any rows are there: "flat" also
        penalises slopes there, so that a few rows cannot make it rise or fall steeply; "smooth"
        penalises differences of order `differences` only.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 6, 200)
    >>> model = cb.fit({"x": x}, np.sin(x), [cb.Spline("x", df=6)], n_iter=300)
    >>> bool(np.abs(model.predict({"x": x}) - np.sin(x)).max() < 0.02)
    True
    """

    column: str
    df: float | None = None
    knots: int = 20
    degree: int = 3
    differences: int = 2
    knot_placement: Literal["uniform", "quantile"] = "uniform"
    bins: Any = None
    extrapolate: Extrapolate = "constant"
    tails: Tails = "flat"

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"s": {}}
    df_range: ClassVar[tuple[float, float] | None] = (2, 10)
    centered: ClassVar[bool] = False

    def check_parameters(self) -> None:
        who = self.shown
        limits = {"knots": (0, 1000), "degree": (0, MAX_DEGREE), "differences": (1, 10)}
        for parameter, (low, high) in limits.items():
            value = getattr(self, parameter)
            check_whole(f"{who}: {parameter}", value, low, high)
        require(
            self.differences < self.knots + self.degree + 1,
            f"{who}: differences of order {self.differences} need more than "
            f"{self.knots + self.degree + 1} coefficients; use more knots",
        )
        check_one_of(f"{who}: knot_placement", self.knot_placement, ("uniform", "quantile"))
        check_one_of(f"{who}: extrapolate", self.extrapolate, ("constant", "linear"))
        check_one_of(f"{who}: tails", self.tails, ("flat", "smooth"))

    @property
    def shows_missing(self) -> bool:
        return True

    @property
    def sorts_column(self) -> bool:
        return self.knot_placement == "quantile"

    def flat_beyond(self) -> Learner:
        return replace(self, extrapolate="constant")

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:  # noqa: ARG002
        inner = self._inner_knots(column)
        steps = np.arange(1, self.degree + 1)
        below = inner[0] - (inner[1] - inner[0]) * steps[::-1]
        above = inner[-1] + (inner[-1] - inner[-2]) * steps
        knots = np.concatenate([below, inner, above])
        missing = column.summary.missing and not self.centered
        return SplineBasis(
            knots=tuple(knots.tolist()),
            degree=self.degree,
            differences=min(self.differences, len(knots) - self.degree - 2),
            extrapolate=self.extrapolate,
            missing=missing,
            centered=self.centered,
            tails=self.tails,
            ridge=MISSING_RIDGE if missing else 0.0,
        )

    def _inner_knots(self, column: TrainingColumn) -> Floats:
        """Return the knots from the smallest to the largest number, both included."""
        low, high = training_range(column, 1000 * (self.knots + 1))
        if self.knot_placement == "uniform":
            inner = np.linspace(low, high, self.knots + 2)
        else:
            shares = np.arange(1, self.knots + 1) / (self.knots + 1)
            quantiles = column.numbers.quantiles(column.sample, shares)
            inner = np.unique(np.concatenate([[low], quantiles, [high]]))
            self._check_widths(inner)
        if not np.all(inner[1:] > inner[:-1]):
            raise ValueError(
                f"column {quote(self.column)}: its values from {quote(low)} to {quote(high)} are "
                f"too close together for {self.knots} knots; rescale the column or leave it out"
            )
        return inner

    def _check_widths(self, inner: Floats) -> None:
        """Raise if quantile knots are so close in one place that polynomials would overflow."""
        narrowest, whole = float(np.diff(inner).min()), float(inner[-1] - inner[0])
        if narrowest < max(1000 * MIN_STEP, MIN_SHARE * whole):
            raise ValueError(
                f"column {quote(self.column)}: knots at quantiles would be only {narrowest:.3g} "
                f"apart in a range of {whole:.3g}; use the logarithm of the column, or "
                "knot_placement='uniform'"
            )


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Centered(Spline):
    """The smooth part of a curve without its straight line: Spline(df + 2) minus Linear.

    Beside Linear(column) it lets the model decide whether an effect is a line or a curve. Its df
    count neither constant nor line, so df=1 is as flexible as a line.

    Examples
    --------
    >>> import cwboost as cb
    >>> [cb.Linear("age"), cb.Centered("age", df=1)][1].df
    1
    """

    tails: Tails = "smooth"

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"center": {}, "cs": {}}
    df_range: ClassVar[tuple[float, float] | None] = (0.5, 5)
    removed_df: ClassVar[float] = 2.0
    centered: ClassVar[bool] = True
    is_component: ClassVar[bool] = True

    def check_parameters(self) -> None:
        super().check_parameters()
        require(
            self.degree >= 1,
            f"{self.shown}: degree must be at least 1, so that the splines hold straight lines",
        )
        require(
            self.tails == "smooth",
            f"{self.shown}: tails must be 'smooth', because a penalty on slopes would change the "
            f"line that is removed; got {quote(self.tails)}",
        )

    @property
    def shows_missing(self) -> bool:
        return False

    @property
    def can_be_margin(self) -> bool:
        return False
