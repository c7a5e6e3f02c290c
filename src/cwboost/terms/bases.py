"""Bases and penalties over encoded values. Knows B-splines, powers, levels and their products;
knows nothing of columns, bins, weights, df or the core.

A basis is a frozen record that evaluates its row at any value: bin values in the fit, raw values
in prediction. Values it cannot evaluate (unseen levels, missing cells where training had none, and
missing cells for bases without a column for them) take `mean`, the weighted mean row of the
training rows, so that their centred effect is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.frames.table import Floats

Extrapolate = Literal["linear", "constant"]
MAX_KEPT = 256  # cells of a table whose penalty is kept for others of its shape
FREE = 1e-11  # share of a trace that holds what nothing else decides


class BasisRows(NamedTuple):
    """Rows of a basis, compressed as the core takes them.

    Row b holds value[begin[b] : begin[b + 1]] at those columns.
    """

    begin: NDArray[np.int64]
    column: NDArray[np.int32]
    value: Floats

    def matrix(self, n_coef: int) -> csr_array:
        shape = (len(self.begin) - 1, n_coef)
        return csr_array((self.value, self.column, self.begin), shape=shape)

    def __matmul__(self, coef: Floats) -> Floats:
        return np.asarray(self.matrix(len(coef)) @ coef)


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

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        """Basis rows at known values."""
        raise NotImplementedError

    def ones(self) -> Floats | None:
        """(n_coef,) coefficients of the function that is 1 everywhere; None if there are none."""
        return None

    def removed(self) -> Floats | None:
        """(k, n_coef) coefficients of functions the learner is kept orthogonal to."""
        return None

    def cubic_breaks(self) -> Floats | None:
        """Return the breaks between which the basis is a polynomial of degree 3 or less.

        Return None if it is not made of such pieces: rows are then never summed as moments.
        """
        return None

    def public_coef(self, coef: Floats) -> Floats:
        """Coefficients (n_coef, q) as people expect to read them."""
        return coef

    def matrix(self, values: Floats) -> csr_array:
        """Basis rows at any values: (len(values), n_coef)."""
        return self.all_rows(values, ArrayPool()).matrix(self.n_coef)

    def all_rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        """Basis rows at any values."""
        known = self.known(values)
        if known.all():
            return self.rows(values, room)
        mean = np.zeros(self.n_coef) if self.mean is None else self.mean
        inside = self.rows(values[known], room)
        lengths = np.where(known, 0, self.n_coef)
        lengths[known] = np.diff(inside.begin)
        begin = np.concatenate([[0], np.cumsum(lengths)])
        column, value = np.empty(begin[-1], np.int32), np.empty(begin[-1])
        at_known = np.repeat(known, lengths)
        column[at_known], value[at_known] = inside.column, inside.value
        n_unknown = int((~known).sum())
        column[~at_known] = np.tile(np.arange(self.n_coef), n_unknown)
        value[~at_known] = np.tile(mean, n_unknown)
        return BasisRows(begin, column, value)


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


@lru_cache(maxsize=64)
def _padded_penalty(n_coef: int, order: int, missing: bool) -> Floats:
    """That of differences, then a free coefficient if `missing`; shared by all such bases."""
    out = np.pad(difference_penalty(n_coef, order), (0, int(missing)))
    out.flags.writeable = False
    return out


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

    def cubic_breaks(self) -> Floats | None:
        return self._knots[self.degree : self.n_splines + 1] if self.degree <= 3 else None

    def penalty(self) -> Floats:
        return _padded_penalty(self.n_splines, self.differences, self.missing)

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


@lru_cache(maxsize=64)
def _power_penalty(first: int, degree: int) -> Floats:
    """1 for every power but the constant."""
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

    def cubic_breaks(self) -> Floats | None:
        return np.empty(0) if self.degree <= 3 else None

    def penalty(self) -> Floats:
        return _power_penalty(self.first, self.degree)

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        n, per_row = len(values), self.n_coef
        value = room.empty(n * per_row, np.float64)
        values = np.ascontiguousarray(values)
        _core.power_rows(values, self.center, self.scale, self.first, per_row, value)
        return BasisRows(room.steps(n, per_row), room.cycles(n, per_row), value)

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

    def ones(self) -> Floats | None:
        return np.ones(self.n_coef)

    def penalty(self) -> Floats:
        if self.differences == 0:
            return np.ones(self.n_coef)
        return _padded_penalty(self.n_levels, self.differences, self.missing)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        seen = values >= 0.0
        return seen | np.isnan(values) if self.missing else seen

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        codes = np.where(np.isnan(values), self.n_levels, values).astype(np.int32)
        return BasisRows(room.steps(len(values), 1), codes, np.ones(len(values)))


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

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        marked = np.isnan(values) if self.level is None else values == self.level
        n = len(values)
        return BasisRows(room.steps(n, 1), room.cycles(n, 1), marked.astype(np.float64))


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorBasis(Basis):
    """Products of the rows of two bases: coefficient (i, j) stands at i * b.n_coef + j.

    With `orthogonal` the learner is kept orthogonal to all functions of one margin, which the
    products hold: they are additive, f + g. Coefficients with i, j > 0, the inner ones, are those
    of all functions but for additive ones.
    """

    a: Basis
    b: Basis
    orthogonal: bool = False
    kind: ClassVar[str] = "tensor"

    @property
    def n_coef(self) -> int:
        return self.a.n_coef * self.b.n_coef

    @property
    def null_dim(self) -> int:
        a, b = self.a.null_dim, self.b.null_dim
        return max(0, a - 1) * max(0, b - 1) if self.orthogonal else a * b

    @property
    def is_table(self) -> bool:
        """Whether coefficients are the cells of a table of levels, without its additive part."""
        return self.orthogonal and all(isinstance(m, LevelBasis) for m in (self.a, self.b))

    @property
    def inner(self) -> NDArray[np.intp]:
        """Numbers of the inner coefficients."""
        return np.arange(self.n_coef).reshape(self.a.n_coef, -1)[1:, 1:].ravel()

    def penalty(self) -> Floats:
        """The Kronecker sum of the margins' penalties."""
        a, b = (p if p.ndim == 2 else np.diag(p) for p in (self.a.penalty(), self.b.penalty()))
        return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)

    def ones(self) -> Floats | None:
        a, b = self.a.ones(), self.b.ones()
        return None if a is None or b is None else np.outer(a, b).ravel()

    def removed(self) -> Floats | None:
        a, b = self.a.ones(), self.b.ones()
        if not self.orthogonal or a is None or b is None:
            return None
        of_a, of_b = np.kron(np.eye(self.a.n_coef), b), np.kron(a, np.eye(self.b.n_coef))
        return np.vstack([of_a, of_b[1:]])  # the constant is in both

    def inner_penalty(self) -> Floats:
        """(m, m) the penalty of the inner coefficients: of functions that differ by an additive one
        the least. It is the same for all tables of one shape."""
        if self.is_table and self.n_coef <= MAX_KEPT:
            shape = [(m.n_levels, m.differences, m.missing) for m in (self.a, self.b)]  # type: ignore[attr-defined]
            return _inner_penalty_of(*shape)
        return _inner_penalty(self)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        return np.ones(len(values), bool)  # the margins fill their own unknowns

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        a, b = self.a.all_rows(values[:, 0], room), self.b.all_rows(values[:, 1], room)
        in_a, in_b = np.diff(a.begin), np.diff(b.begin)
        row = np.repeat(np.arange(len(values)), in_a * in_b)
        # Within a row position p is the pair of entries (p // in_b, p % in_b).
        begin = np.concatenate([[0], np.cumsum(in_a * in_b)])
        p = np.arange(begin[-1]) - begin[row]
        i, j = a.begin[row] + p // in_b[row], b.begin[row] + p % in_b[row]
        column = a.column[i] * np.int32(self.b.n_coef) + b.column[j]
        return BasisRows(begin, column, a.value[i] * b.value[j])


def _inner_penalty(basis: TensorBasis) -> Floats:
    """P - P M (M'PM)^- M'P, M the additive functions, for the inner coefficients."""
    full, additive, inner = basis.penalty(), basis.removed(), basis.inner
    assert additive is not None
    onto = full @ additive.T
    out = full[np.ix_(inner, inner)]
    out -= onto[inner] @ np.linalg.pinv(additive @ onto, 1e-10, hermitian=True) @ onto[inner].T
    out = (out + out.T) / 2
    if basis.null_dim:  # what it leaves free may have no rows, as cells that lack both values
        out += FREE * np.trace(out) / len(out) * np.eye(len(out))
    out.flags.writeable = False
    return out


@lru_cache(maxsize=1024)
def _inner_penalty_of(a: tuple[int, int, bool], b: tuple[int, int, bool]) -> Floats:
    """That of a table, whose margins have so many levels, differences and a level for missing."""
    margins = [LevelBasis(n_levels=n, differences=d, missing=m) for n, d, m in (a, b)]
    return _inner_penalty(TensorBasis(a=margins[0], b=margins[1], orthogonal=True))
