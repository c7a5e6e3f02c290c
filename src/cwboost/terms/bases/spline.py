"""B-splines of a number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import factorial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline

from cwboost import _core
from cwboost._utils.lazy import cached_property
from cwboost._utils.memory import ArrayPool
from cwboost.frames.columns import Floats

from .base import MAX_CUBIC, Basis, BasisRows, Pieces, is_rising
from .penalties import padded_penalty, tail_weights, weighted_differences

Extrapolate = Literal["constant", "linear"]
Tails = Literal["flat", "smooth"]
MAX_DEGREE = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class SplineBasis(Basis):
    """B-splines, followed by a column for missing cells if `missing`.

    With `centered` the learner is kept orthogonal to the straight lines, which the B-splines span:
    the coefficients of 1 and x are ones and the Greville abscissae.
    """

    knots: tuple[float, ...]  # all knots, `degree` of them beyond the range on either side
    degree: int
    differences: int
    extrapolate: Extrapolate = "constant"
    missing: bool = False
    centered: bool = False
    tails: Tails = "smooth"  # "flat": slopes are penalised in tails with hardly any rows
    ridge: float = 0.0  # on the coefficient of missing cells
    kind: ClassVar[str] = "spline"

    @cached_property
    def _knots(self) -> Floats:
        return np.asarray(self.knots)

    @property
    def n_splines(self) -> int:
        return len(self.knots) - self.degree - 1

    @property
    def n_coef(self) -> int:
        return self.n_splines + self.missing

    @property
    def null_dim(self) -> int:
        return self.differences + (self.missing and self.ridge == 0.0)

    @property
    def range(self) -> tuple[float, float]:
        return self.knots[self.degree], self.knots[-self.degree - 1]

    def penalty(self) -> Floats:
        return padded_penalty(self.n_splines, self.differences, self.missing)

    @property
    def penalty_needs_rows(self) -> bool:
        return self.tails == "flat"

    def penalty_for(self, shares: Floats) -> Floats:
        n, penalty = self.n_splines, self.penalty()
        weights = tail_weights(shares[:n])
        if self.tails == "smooth" or not weights.any():
            return penalty
        out = penalty.copy()
        out[:n, :n] += weighted_differences(weights)
        return out

    def as_margin(self) -> SplineBasis:
        return replace(self, tails="smooth", ridge=0.0)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        return np.ones(len(values), bool) if self.missing else ~np.isnan(values)

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        n, per_row = len(values), self.degree + 1
        column, value = room.empty(n * per_row, np.int32), room.empty(n * per_row, np.float64)
        some = self.missing and bool(np.isnan(values).any())
        begin = np.empty(n + 1, np.int64) if some else None
        linear = self.extrapolate == "linear"
        values = np.ascontiguousarray(values)
        size = _core.spline_rows(values, self._knots, self.degree, linear, begin, column, value)
        if begin is None:
            return BasisRows(room.steps(n, per_row), column, value)
        return BasisRows(begin, column[:size], value[:size])  # missing cells have one entry

    def ones(self) -> Floats | None:
        return np.ones(self.n_coef)

    def removed(self) -> Floats | None:
        if not self.centered:
            return None
        steps = range(self.n_splines)
        greville = [np.mean(self.knots[j + 1 : j + 1 + self.degree]) for j in steps]
        middle, half = np.mean(self.range), np.ptp(self.range) / 2
        return np.vstack([np.ones(self.n_splines), (np.array(greville) - middle) / half])

    @property
    def _inner_knots(self) -> Floats:
        """The knots within the range, both ends included."""
        return self._knots[self.degree : self.n_splines + 1]

    def cubic_breaks(self) -> Floats | None:
        return self._inner_knots if self.degree <= MAX_CUBIC else None

    def polynomials(self) -> Pieces:
        """Return Taylor polynomials at the left end of every interval, and the continuations."""
        k, n = self.degree, self.n_splines
        breaks = self._inner_knots
        # In units of the range, so that powers of tiny or huge widths stay within floating point.
        knots = (np.array(self.knots) - breaks[0]) / (breaks[-1] - breaks[0])
        splines, left, width = BSpline(knots, np.eye(n), k), knots[k:n], np.diff(knots[k : n + 1])
        inner = np.stack(
            [splines(left, nu=j) * width[:, None] ** j / factorial(j) for j in range(k + 1)], axis=1
        )  # (intervals, powers, n_splines)
        outer = np.zeros((2, k + 1, n))
        outer[0, 0], outer[1, 0] = inner[0, 0], inner[-1].sum(axis=0)
        if self.extrapolate == "linear" and k > 0:
            outer[0, 1] = inner[0, 1]
            outer[1, 1] = np.arange(k + 1) @ inner[-1]
        blocks = np.zeros((len(breaks) + 1, k + 1, self.n_coef))
        blocks[:, :, :n] = np.concatenate([outer[:1], inner, outer[1:]])
        origin = np.append(breaks[:1], breaks)
        widths = np.concatenate([np.diff(breaks[:2]), np.diff(breaks), np.diff(breaks[-2:])])
        return Pieces(breaks, origin, widths, blocks)

    @property
    def has_masses(self) -> bool:
        return True

    def ordered(self) -> NDArray[np.intp] | None:
        return None if self.centered else np.arange(self.n_splines)

    def own_coef(self, code: float) -> int | None:
        return self.n_splines if self.missing and np.isnan(code) else None

    def problem(self) -> str | None:
        if not 0 <= self.degree <= MAX_DEGREE or len(self.knots) < 2 * self.degree + 2:
            return "expected degree + 1 knots on either side"
        if not is_rising(self.knots) or self.range[0] >= self.range[1]:
            return "expected increasing knots"
        if not 0 < self.differences < self.n_splines:
            return "expected fewer differences"
        if self.ridge < 0 or (self.ridge > 0 and not self.missing):
            return "expected a ridge >= 0, and 0 without missing cells"
        return super().problem()
