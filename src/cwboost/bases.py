"""Bases and penalties over encoded values. Knows B-splines, powers, levels and their products;
knows nothing of columns, bins, weights, df or the core.

A basis is a frozen record that evaluates its row at any value: bin values in the fit, raw values
in prediction. Values it cannot evaluate (unseen levels, missing cells where training had none, and
missing cells for bases without a column for them) take `mean`, the weighted mean row of the
training rows, so that their centred effect is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.sparse import csr_array, hstack

from .table import Floats

Extrapolate = Literal["linear", "constant"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Basis:
    """What all bases share."""

    mean: Floats | None = field(default=None, repr=False)  # (n_coef,) row for unknown values
    kind: ClassVar[str]

    @property
    def n_coef(self) -> int:
        raise NotImplementedError

    @property
    def null_dim(self) -> int:
        """How many dimensions the penalty leaves free."""
        raise NotImplementedError

    def penalty(self) -> Floats:
        """P: (n_coef, n_coef), or (n_coef,) if diagonal. Zero for an unpenalised basis."""
        raise NotImplementedError

    def known(self, values: Floats) -> NDArray[np.bool_]:
        """Which values the basis can evaluate itself."""
        return ~np.isnan(values)

    def rows(self, values: Floats) -> csr_array:
        """Basis rows at known values."""
        raise NotImplementedError

    def removed(self) -> Floats | None:
        """(k, n_coef) coefficients of functions the learner is kept orthogonal to."""
        return None

    def public_coef(self, coef: Floats) -> Floats:
        """Coefficients (n_coef, q) as people expect to read them."""
        return coef

    def matrix(self, values: Floats) -> csr_array:
        """Basis rows at any values: (len(values), n_coef)."""
        known = self.known(values)
        if known.all():
            return self.rows(values)
        mean = np.zeros(self.n_coef) if self.mean is None else self.mean
        inside = self.rows(values[known])
        lengths = np.where(known, 0, self.n_coef)
        lengths[known] = np.diff(inside.indptr)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        at_known = np.repeat(known, lengths)
        indices[at_known], data[at_known] = inside.indices, inside.data
        n_unknown = int((~known).sum())
        indices[~at_known] = np.tile(np.arange(self.n_coef), n_unknown)
        data[~at_known] = np.tile(mean, n_unknown)
        return csr_array((data, indices, indptr), shape=(len(values), self.n_coef))


def difference_penalty(n_coef: int, order: int) -> Floats:
    """D'D of the differences of the given order.

    Examples
    --------
    >>> difference_penalty(3, 1)
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    d = np.diff(np.eye(n_coef), order, axis=0)
    return np.asarray(d.T @ d)


def with_missing(basis_rows: csr_array, missing: NDArray[np.bool_]) -> csr_array:
    """Rows of the cells that are there, spread over all rows, and a column marking the others."""
    where = np.flatnonzero(~missing)
    spread = csr_array(
        (np.ones(len(where)), (where, np.arange(len(where)))), shape=(len(missing), len(where))
    )
    column = csr_array(missing.astype(np.float64)[:, None])
    return csr_array(hstack([spread @ basis_rows, column]))


@dataclass(frozen=True, eq=False, kw_only=True)
class SplineBasis(Basis):
    """B-splines, then a column for missing cells if `missing`.

    With `centered` the learner is kept orthogonal to the straight lines, which the B-splines hold:
    the coefficients of 1 and x are ones and the Greville abscissae.
    """

    knots: tuple[float, ...]  # all of them, `degree` beyond the range on either side
    degree: int
    differences: int
    extrapolate: Extrapolate = "linear"
    missing: bool = False
    centered: bool = False
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
        return self.differences + self.missing

    @property
    def range(self) -> tuple[float, float]:
        return self.knots[self.degree], self.knots[-self.degree - 1]

    def penalty(self) -> Floats:
        return np.pad(difference_penalty(self.n_splines, self.differences), (0, int(self.missing)))

    def known(self, values: Floats) -> NDArray[np.bool_]:
        return np.ones(len(values), bool) if self.missing else ~np.isnan(values)

    def rows(self, values: Floats) -> csr_array:
        if not self.missing:
            return self._splines(values)
        missing = np.isnan(values)
        return with_missing(self._splines(values[~missing]), missing)

    def _splines(self, values: Floats) -> csr_array:
        if len(values) == 0:
            return csr_array((0, self.n_splines))
        inside = np.clip(values, *self.range)
        rows = BSpline.design_matrix(inside, self._knots, self.degree)
        rows = csr_array((rows.data, rows.indices.astype(np.int32), rows.indptr), shape=rows.shape)
        beyond = values - inside
        if self.extrapolate == "constant" or self.degree == 0 or not beyond.any():
            return rows
        splines = BSpline(self._knots, np.eye(self.n_splines), self.degree)
        slopes = splines.derivative()(np.asarray(self.range))  # (2, n_splines)
        below, above = np.minimum(beyond, 0.0), np.maximum(beyond, 0.0)
        distance = csr_array(np.column_stack([below, above]))
        return csr_array(rows + distance @ csr_array(slopes))

    def removed(self) -> Floats | None:
        if not self.centered:
            return None
        steps = range(self.n_splines)
        greville = [np.mean(self.knots[j + 1 : j + 1 + self.degree]) for j in steps]
        middle, half = np.mean(self.range), np.ptp(self.range) / 2
        return np.vstack([np.ones(self.n_splines), (np.array(greville) - middle) / half])


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

    def penalty(self) -> Floats:
        powers = np.arange(self.first, self.degree + 1)
        return np.diag((powers > 0).astype(np.float64))

    def rows(self, values: Floats) -> csr_array:
        z = (values - self.center) / self.scale
        return csr_array(z[:, None] ** np.arange(self.first, self.degree + 1))

    def public_coef(self, coef: Floats) -> Floats:
        """Coefficients of 1, x, x^2, ...; without a constant, of the centred x."""
        if self.first == 1:
            return coef / self.scale ** np.arange(1, self.degree + 1)[:, None]
        z = np.polynomial.Polynomial([-self.center / self.scale, 1 / self.scale])
        out = np.zeros_like(coef)
        for power in range(self.degree + 1):
            terms = (z**power).coef
            out[: len(terms)] += terms[:, None] * coef[power]
        return out


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelBasis(Basis):
    """One coefficient per level, the missing cells a last level of their own if `missing`.

    `differences` = 0 penalises every level alike (ridge); 1 penalises neighbouring levels for being
    different and leaves the missing alone (steps).
    """

    n_levels: int
    differences: int = 0
    missing: bool = False
    kind: ClassVar[str] = "levels"

    @property
    def n_coef(self) -> int:
        return self.n_levels + self.missing

    @property
    def null_dim(self) -> int:
        return 0 if self.differences == 0 else self.differences + self.missing

    def penalty(self) -> Floats:
        if self.differences == 0:
            return np.ones(self.n_coef)
        return np.pad(difference_penalty(self.n_levels, self.differences), (0, int(self.missing)))

    def known(self, values: Floats) -> NDArray[np.bool_]:
        seen = values >= 0.0
        return seen | np.isnan(values) if self.missing else seen

    def rows(self, values: Floats) -> csr_array:
        codes = np.where(np.isnan(values), self.n_levels, values).astype(np.int32)
        indptr = np.arange(len(values) + 1)
        return csr_array((np.ones(len(values)), codes, indptr), shape=(len(values), self.n_coef))


@dataclass(frozen=True, eq=False, kw_only=True)
class MarkBasis(Basis):
    """One unpenalised coefficient: 1 at one level, 0 elsewhere; `level` None marks missing cells.

    Of levels seen in training: an unseen one is unknown, so is a missing cell unless `missing`.
    The mark of missing cells knows every value.
    """

    level: int | None
    missing: bool = False
    kind: ClassVar[str] = "mark"

    @property
    def n_coef(self) -> int:
        return 1

    @property
    def null_dim(self) -> int:
        return 1

    def penalty(self) -> Floats:
        return np.zeros(1)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        if self.level is None:
            return np.ones(len(values), bool)
        return (values >= 0.0) | (np.isnan(values) & self.missing)

    def rows(self, values: Floats) -> csr_array:
        marked = np.isnan(values) if self.level is None else values == self.level
        return csr_array(marked.astype(np.float64)[:, None])


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorBasis(Basis):
    """Products of the rows of two bases: coefficient (i, j) stands at i * b.n_coef + j."""

    a: Basis
    b: Basis
    kind: ClassVar[str] = "tensor"

    @property
    def n_coef(self) -> int:
        return self.a.n_coef * self.b.n_coef

    @property
    def null_dim(self) -> int:
        return self.a.null_dim * self.b.null_dim

    def penalty(self) -> Floats:
        """The Kronecker sum of the margins' penalties."""
        a, b = (p if p.ndim == 2 else np.diag(p) for p in (self.a.penalty(), self.b.penalty()))
        return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        return np.ones(len(values), bool)  # the margins fill their own unknowns

    def rows(self, values: Floats) -> csr_array:
        a, b = self.a.matrix(values[:, 0]), self.b.matrix(values[:, 1])
        in_a, in_b = np.diff(a.indptr), np.diff(b.indptr)
        row = np.repeat(np.arange(len(values)), in_a * in_b)
        # Within a row position p is the pair of entries (p // in_b, p % in_b).
        begin = np.concatenate([[0], np.cumsum(in_a * in_b)])
        p = np.arange(begin[-1]) - begin[row]
        i, j = a.indptr[row] + p // in_b[row], b.indptr[row] + p % in_b[row]
        columns = a.indices[i].astype(np.int32) * self.b.n_coef + b.indices[j]
        return csr_array(
            (a.data[i] * b.data[j], columns.astype(np.int32), begin),
            shape=(len(values), self.n_coef),
        )
