"""Powers of a number: straight lines and polynomials."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, log10
from typing import ClassVar

import numpy as np

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.frames.columns import Floats

from .base import MAX_CUBIC, Basis, BasisRows, Pieces, round_numbers

MAX_DEGREE = 20


@lru_cache(maxsize=64)
def _power_penalty(first: int, degree: int) -> Floats:
    """Return the penalty matrix: 1 for every power but the constant."""
    out = np.diag((np.arange(first, degree + 1) > 0).astype(np.float64))
    out.flags.writeable = False
    return out


@dataclass(frozen=True, eq=False, kw_only=True)
class PowerBasis(Basis):
    """Powers of z = (x - center) / scale from `first` (0, or 1 without a constant) to `degree`."""

    center: float
    scale: float
    degree: int
    first: int = 0
    kind: ClassVar[str] = "powers"

    @property
    def n_coef(self) -> int:
        return self.degree + 1 - self.first

    @property
    def null_dim(self) -> int:
        return 1 - self.first

    def ones(self) -> Floats | None:
        return None if self.first else np.eye(1, self.n_coef).ravel()

    def penalty(self) -> Floats:
        return _power_penalty(self.first, self.degree)

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        n, per_row = len(values), self.n_coef
        value = room.empty(n * per_row, np.float64)
        values = np.ascontiguousarray(values)
        _core.power_rows(values, self.center, self.scale, self.first, per_row, value)
        return BasisRows(room.steps(n, per_row), room.cycles(n, per_row), value)

    def needs_mean(self, values: Floats) -> bool:
        return self.first == 1 or bool(np.isnan(values[-1]))  # missing cells have the last bin

    def with_mean(self, values: Floats, weights: Floats) -> PowerBasis:
        """Return the basis with its mean row; without a constant, centred at the mean."""
        if self.first == 0 or self.mean is not None:
            return super().with_mean(values, weights)
        mean = float(self._mean(values, weights)[0])
        return replace(self, center=self.center + self.scale * mean, mean=np.zeros(1))

    def public_coef(self, coef: Floats) -> Floats:
        """Return coefficients of 1, x, x^2, ...; without a constant, of the centred x."""
        if self.first == 1:
            return coef / self.scale ** np.arange(1, self.degree + 1)[:, None]
        z = np.polynomial.Polynomial([-self.center / self.scale, 1 / self.scale])
        out = np.zeros_like(coef)
        for power in range(self.degree + 1):
            terms = (z**power).coef
            out[: len(terms)] += terms[:, None] * coef[power]
        return out

    def cubic_breaks(self) -> Floats | None:
        return np.empty(0) if self.degree <= MAX_CUBIC else None

    def polynomials(self) -> Pieces:
        blocks = np.eye(self.degree + 1)[None, :, self.first :]
        return Pieces(np.empty(0), np.array([self.center]), np.array([self.scale]), blocks)

    @property
    def slope(self) -> int | None:
        return self.n_coef - 1 if self.degree == 1 else None

    def rounded(self, coef: Floats, digits: int) -> Floats:
        """Return rounded slopes, and the constant that keeps the mean at zero."""
        out, slopes = coef.copy(), slice(1 - self.first, None)
        if self.degree == 1:  # the slope as users read it: per unit of the column
            exact = digits + ceil(log10(self.scale))
            out[slopes] = round_numbers(coef[slopes] / self.scale, exact) * self.scale
        else:
            out[slopes] = round_numbers(coef[slopes], digits)
        if self.first == 0:
            assert self.mean is not None
            out[0] = -self.mean[1:] @ out[1:]
        return out

    def problem(self) -> str | None:
        if self.scale <= 0 or self.first not in (0, 1) or not 1 <= self.degree <= MAX_DEGREE:
            return f"expected scale > 0, first 0 or 1, degree 1 to {MAX_DEGREE}"
        return super().problem()
