"""The smoothing (lambda) of a term: from degrees of freedom to lambda and back, and the factor of
its system. Does not know about columns or learners.

With A = B'WB and the penalty P, diagonalise A against A + tau P, tau = tr A / tr P (Demmler and
Reinsch). With eigenvalues a in [0, 1] and rho = lambda / tau, the smoother H has the eigenvalues
h = a / (a + rho (1 - a)), also if A is singular. A last coefficient with a ridge of its own
(`Basis.ridge`) is apart from the others in A and in P: its h = A_dd / (A_dd + ridge) is fixed.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh, eigvalsh, eigvalsh_tridiagonal
from scipy.linalg.lapack import dpocon, dpotrf
from scipy.optimize import brentq
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

from cwboost.frames.columns import Floats
from cwboost.terms.bases import BasisRows

ZERO = 1e-10  # smaller eigenvalues are directions without data
SINGULAR_RHO = 1e-8  # the least rho if A is singular
SMALL_RHO = 1e-2  # below it, directions without data are held at zero
REGULAR = 1e-10  # reciprocal condition number of A + tau P from which on it is surely regular
EMPTY = 1e-12  # smaller eigenvalues of A + tau P are directions with neither data nor penalty
LARGE = 500  # size of a system from which on it is searched for blocks
SINGULAR = "the learner's system is singular beyond repair; check its column"


class SmoothingTarget(NamedTuple):
    """What decides the smoothing of a term. The core takes the fields in this order."""

    smoothing: float  # lambda; NaN if df decides
    df: float  # constant and removed functions included, unless `net`
    net: bool  # whether `df` is net of the constant
    trace_h: bool  # whether df is tr(H) instead of tr(2H - HH)
    null_dim: int  # dimensions that the penalty leaves free
    ridge: float = 0.0  # on the last coefficient alone, as a share of the weight of all rows

    @property
    def kind(self) -> str:
        return "df1" if self.trace_h else "df2"


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context with one BLAS thread: for small systems, more threads only wait.

    The limit holds for the whole process, so that only fits in the main thread set it: of two fits
    that overlap, each would restore the limit of the other.
    """
    if threading.current_thread() is threading.main_thread():
        return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
    return nullcontext()


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A and P in coordinates in which both are diagonal."""

    a: Floats  # eigenvalues of A against A + tau P, increasing
    constant: Floats  # squared coordinates of the constant function
    tau: float
    determined: bool = True  # whether each direction has data or a penalty
    fixed: float = 0.0  # h of the coefficient with a ridge of its own
    fixed_constant: float = 0.0  # its share of the constant function: the share of its rows

    @property
    def singular(self) -> bool:
        return bool(np.any(self.a == 0.0))

    def _g(self, smoothing: float) -> Floats:
        """Return the eigenvalues of (A + lambda P)^-1 in these coordinates."""
        rho = smoothing / self.tau if self.tau > 0 else 0.0
        with np.errstate(divide="ignore"):
            g = 1.0 / (self.a + rho * (1.0 - self.a))
        return np.where(self.a > 0.0, g, 0.0)

    def df(self, smoothing: float, kind: str) -> float:
        """Return tr(2H - HH) (kind "df2") or tr(H) ("df1")."""
        h = self.a * self._g(smoothing)
        return float(np.sum(2.0 * h - h * h if kind == "df2" else h)) + self.fixed_df(kind)

    def fixed_df(self, kind: str) -> float:
        """Return the df of the coefficient with a ridge of its own."""
        return 2.0 * self.fixed - self.fixed**2 if kind == "df2" else self.fixed

    def net_df(self, smoothing: float, kind: str) -> float:
        """Return df without the share of the constant, which gains nothing on centred residuals."""
        g = self._g(smoothing)
        share = 2.0 * g - self.a * g * g if kind == "df2" else g
        constant = float(self.constant @ share) + self.fixed_constant * self.fixed_df(kind)
        return self.df(smoothing, kind) - constant


def spectrum(
    gram: Floats, penalty: Floats, null_dim: int, mean_row: Floats, ridge: float = 0.0
) -> Spectrum:
    """Return the spectrum of A (gram) and P (penalty), which leaves `null_dim` dimensions free.

    A and P are (d, d), or (d,) if both are diagonal. A and `mean_row` = B'W1 are for weights that
    sum to one. `ridge` > 0 is added to the last diagonal entry of A + lambda P.
    """
    diagonal = gram.ndim == 1
    if ridge > 0.0:
        others = (slice(-1),) * gram.ndim
        found = spectrum(gram[others], penalty[others], null_dim, mean_row[:-1])
        own = float(gram[(-1,) * gram.ndim])
        return replace(found, fixed=own / (own + ridge), fixed_constant=own)
    if not gram.any():  # no row has a value, as happens in folds
        return Spectrum(np.zeros(len(gram)), np.zeros(len(gram)), 1.0, determined=False)
    tau = _tau(gram, penalty)
    both = gram + tau * penalty
    determined = True
    if diagonal:
        safe = np.where(both > 0, both, 1.0)
        a, coordinates = gram / safe, mean_row / np.sqrt(safe)
        order = np.argsort(a, kind="stable")
        a, coordinates = a[order], coordinates[order]
    elif _is_chain(gram, penalty, mean_row):
        a, coordinates = _chain_eigenvalues(gram, tau * penalty), np.zeros(len(gram))
        coordinates[-1] = np.sqrt(mean_row.sum())  # the constant is the free direction
    else:
        blocks = [
            _diagonalize(gram[i], both[i], mean_row[i[0].ravel()]) for i in _blocks(gram, both)
        ]
        a = np.concatenate([block.a for block in blocks])
        coordinates = np.concatenate([block.coordinates for block in blocks])
        determined = all(block.determined for block in blocks)
        order = np.argsort(a, kind="stable")
        a, coordinates = a[order], coordinates[order]
    a = np.clip(a, 0.0, 1.0)
    a[a < ZERO] = 0.0
    if null_dim:  # in free directions a = 1, up to rounding
        free = a[len(a) - null_dim :]
        free[free > 1.0 - 1e-6] = 1.0
    # B'W1 lies in the range of A, so that 1'W1 is a sum over the directions with data.
    squares = np.where(a > 0.0, coordinates**2, 0.0)
    return Spectrum(a, squares, tau, determined)


def _tau(gram: Floats, penalty: Floats) -> float:
    """Return tr A / tr P; 0 without a penalty, 1 without data."""
    traces = [float(m.sum() if m.ndim == 1 else np.trace(m)) for m in (gram, penalty)]
    if traces[0] == 0.0:
        return 1.0
    return traces[0] / traces[1] if traces[1] > 0.0 else 0.0


class Block(NamedTuple):
    """The spectrum of an independent block of a system."""

    a: Floats  # eigenvalues of A against A + tau P
    coordinates: Floats  # of the constant function
    determined: bool  # whether each direction has data or a penalty


def _blocks(gram: Floats, both: Floats) -> list[tuple[Any, ...]]:
    """Return the indices (rows, columns) of the blocks of a system.

    Large systems often consist of small ones, such as a curve for each of many levels.
    """
    if len(both) < LARGE:
        return [np.ix_(*[np.arange(len(both))] * 2)]
    _, block = connected_components(csr_array((gram != 0.0) | (both != 0.0)), directed=False)
    members = np.split(np.argsort(block, kind="stable"), np.cumsum(np.bincount(block))[:-1])
    return [np.ix_(i, i) for i in members]


def _diagonalize(gram: Floats, both: Floats, mean_row: Floats) -> Block:
    regular = _make_regular(both)
    determined = regular is both
    if not gram.any():
        return Block(np.zeros(len(gram)), mean_row, determined)
    if not mean_row.any():  # the eigenvalues alone take half of the time
        return Block(np.asarray(eigvalsh(gram, regular)), mean_row, determined)
    values, vectors = eigh(gram, regular)
    return Block(np.asarray(values), vectors.T @ mean_row, determined)


def _make_regular(both: Floats) -> Floats:
    """Return A + tau P itself if it is regular; else with a matrix added that makes it regular.

    The added matrix is zero except in directions with neither data nor penalty, where it is as
    large as the diagonal of A + tau P.
    """
    sizes = np.diagonal(both)
    scale = np.sqrt(np.where(sizes > 0.0, sizes, sizes.mean() or 1.0))
    unit = both / np.outer(scale, scale)
    norm = float(np.abs(unit).sum(axis=0).max())
    factor, failed = dpotrf(unit)
    if not failed and dpocon(factor, norm)[0] > REGULAR:  # pivots alone can hide a singular matrix
        return both
    values, vectors = np.linalg.eigh(unit)
    empty = scale[:, None] * vectors[:, values <= EMPTY * max(values[-1], 1.0)]
    return both + empty @ empty.T if empty.size else both


def _is_chain(gram: Floats, penalty: Floats, mean_row: Floats) -> bool:
    """Whether A is diagonal and P couples neighbours only and leaves constants free: steps."""
    sizes = np.diagonal(gram)
    return bool(
        np.all(sizes > 0.0)
        and np.array_equal(sizes, mean_row)
        and np.count_nonzero(gram) == len(gram)
        and not np.triu(penalty, 2).any()
        and not penalty.sum(axis=0).any()
    )


def _chain_eigenvalues(gram: Floats, penalty: Floats) -> Floats:
    """Return the eigenvalues of A against A + P for steps, in a tenth of the time."""
    root = np.sqrt(np.diagonal(gram))
    beside = np.diagonal(penalty, 1) / (root[:-1] * root[1:])
    found = eigvalsh_tridiagonal(np.diagonal(penalty) / root**2, beside)
    return np.asarray(1.0 / (1.0 + np.maximum(found[::-1], 0.0)))


def find_smoothing(spectrum: Spectrum, target: float, kind: str, net: bool = False) -> float:
    """Return the lambda that has df (or net df) = target.

    Return 0 (a tiny lambda if A is singular) if even lambda = 0 does not exceed the target, and NaN
    if even the largest lambda does not bring df below the target.
    """

    def excess(log_rho: float) -> float:
        smoothing = float(np.exp(log_rho)) * spectrum.tau
        value = spectrum.net_df(smoothing, kind) if net else spectrum.df(smoothing, kind)
        return value - target

    least = SINGULAR_RHO * spectrum.tau if spectrum.singular else 0.0
    reached = spectrum.net_df(0.0, kind) if net else spectrum.df(0.0, kind)
    if target >= reached - 1e-9 or spectrum.tau == 0.0:
        return least
    low, high = -30.0, 60.0
    if excess(high) >= -1e-9:
        return float("nan")
    if excess(low) <= 0.0:
        return least
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-14))) * spectrum.tau


class System(NamedTuple):
    """The normal equations of a term on one part of the rows, as the core takes them."""

    gram: Floats  # A
    factor: Floats  # Cholesky factor of A + lambda P, or A + lambda P itself if diagonal
    mean: Floats  # (d,) mean row of the basis
    smoothing: float
    df: float
    net_df: float
    removed: Floats | None = None  # G' (k, d), functions that the term is kept orthogonal to
    weigher: Floats | None = None  # R' (k, d), R = A G (G'A G)^-1; more in pair_systems.py
    n_b: int = 0  # levels of the second margin, for a table of cells without main effects


def weighted_gram(rows: BasisRows, weighted: Floats, n_coef: int) -> Floats:
    """Return B'WB (d, d), given the entries of B and of WB."""
    left, right = (r.matrix(n_coef) for r in (rows._replace(value=weighted), rows))
    return np.ascontiguousarray((left.T @ right).toarray(), dtype=np.float64)


def factorize(
    gram: Floats, penalty: Floats, smoothing: float, spectrum: Spectrum, ridge: float = 0.0
) -> Floats:
    """Return the factor of A + lambda P, where directions without data are held at zero.

    The spectrum is the one of A and P, up to the scale of A. The ridge is added to the last
    diagonal entry.
    """
    both = gram + smoothing * penalty
    both[(-1,) * both.ndim] += ridge
    if both.ndim == 1:
        return np.where(both > 0.0, both, 1.0)
    others = (slice(len(both) - (ridge > 0.0)),) * 2
    a, p = gram[others], penalty[others]
    if spectrum.singular and (not spectrum.determined or smoothing < SMALL_RHO * _tau(a, p)):
        both[others] += _without_data(a, p)
    jitter = 0.0
    for _ in range(10):
        try:
            factor = cholesky(both + jitter * np.eye(len(both)), lower=True)
            return np.ascontiguousarray(np.tril(factor))
        except LinAlgError:  # lambda is so large that A disappears beside it
            jitter = max(10 * jitter, 1e-13 * float(np.trace(both)) / len(both))
    raise ValueError(SINGULAR)


def _without_data(gram: Floats, penalty: Floats) -> Floats:
    """Return (d, d) what A + tau P is in directions without data, where it is made regular.

    Right sides B'u have no component in these directions, so that adding it to A + lambda P changes
    no solution. But if lambda is small, rounding errors would get large coefficients there.
    """
    both = gram + _tau(gram, penalty) * penalty
    out = np.zeros_like(both)
    for i in _blocks(gram, both):
        regular = _make_regular(both[i])
        values, vectors = eigh(gram[i], regular)
        empty = regular @ vectors[:, values < ZERO]
        out[i] = empty @ empty.T
    return out
