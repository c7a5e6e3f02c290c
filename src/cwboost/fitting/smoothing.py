"""df <-> smoothing by Demmler-Reinsch, and the factored system of a learner. Knows matrices only.

With A = B'WB and the penalty P, diagonalise A against A + tau P, tau = tr A / tr P. With
eigenvalues a in [0, 1] and rho = lambda / tau, the smoother H has the eigenvalues
h = a / (a + rho (1 - a)): sound also when A is singular.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cholesky, eigh
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from cwboost.frames.table import Floats

ZERO = 1e-10  # eigenvalues below are directions without data
SINGULAR_RHO = 1e-8  # instead of no smoothing where A is singular


def one_blas_thread() -> AbstractContextManager[Any]:
    """One BLAS thread for many small systems, where more only wait for each other.

    The limit is the whole process's, so only fits of the main thread set it: two that overlap
    would restore each other's.
    """
    if threading.current_thread() is threading.main_thread():
        return threadpool_limits(1, user_api="blas")  # type: ignore[no-any-return]
    return nullcontext()


@dataclass(frozen=True, eq=False)
class Spectrum:
    """A and P in the coordinates that make both diagonal."""

    a: Floats  # eigenvalues of A against A + tau P, increasing
    constant: Floats  # squared coordinates of the constant function
    tau: float

    @property
    def singular(self) -> bool:
        return bool(np.any(self.a == 0.0))

    def _g(self, smoothing: float) -> Floats:
        """Eigenvalues of (A + lambda P)^-1 in the same coordinates."""
        rho = smoothing / self.tau if self.tau > 0 else 0.0
        with np.errstate(divide="ignore"):
            g = 1.0 / (self.a + rho * (1.0 - self.a))
        return np.where(self.a > 0.0, g, 0.0)

    def df(self, smoothing: float, kind: str) -> float:
        """tr(2H - HH), or tr(H)."""
        h = self.a * self._g(smoothing)
        return float(np.sum(2.0 * h - h * h if kind == "df2" else h))

    def net_df(self, smoothing: float, kind: str) -> float:
        """df without the share of the constant, which residuals of mean zero do not reward."""
        g = self._g(smoothing)
        share = 2.0 * g - self.a * g * g if kind == "df2" else g
        return self.df(smoothing, kind) - float(self.constant @ share)


def spectrum(gram: Floats, penalty: Floats, null_dim: int, mean_row: Floats) -> Spectrum:
    """The spectrum of A and P, P leaving `null_dim` dimensions free.

    Gram A and penalty are both (d, d) or, where both are diagonal, both (d,); they and
    `mean_row` = B'W1 are for weights that sum to one.
    """
    diagonal = gram.ndim == 1
    trace_a = float(gram.sum() if diagonal else np.trace(gram))
    trace_p = float(penalty.sum() if diagonal else np.trace(penalty))
    tau = trace_a / trace_p if trace_p > 0 else 0.0
    both = gram + tau * penalty
    if diagonal:
        safe = np.where(both > 0, both, 1.0)
        a, coordinates = gram / safe, mean_row / np.sqrt(safe)
        order = np.argsort(a, kind="stable")
        a, coordinates = a[order], coordinates[order]
    else:
        a, vectors = _eigh(gram, both)
        coordinates = vectors.T @ mean_row
    a = np.clip(a, 0.0, 1.0)
    a[a < ZERO] = 0.0
    if null_dim:  # free directions have a = 1, but for rounding
        free = a[len(a) - null_dim :]
        free[free > 1.0 - 1e-6] = 1.0
    # B'W1 lies in the range of A, so 1'W1 splits over the directions with data
    squares = np.where(a > 0.0, coordinates**2, 0.0)
    return Spectrum(a, squares, tau)


def _eigh(gram: Floats, both: Floats) -> tuple[Floats, Floats]:
    jitter = 0.0
    for _ in range(8):
        try:
            values, vectors = (np.asarray(x) for x in eigh(gram, both + jitter * np.eye(len(both))))
            held_up = jitter * np.sum(vectors**2, axis=0) > 0.5  # by the jitter alone
            order = np.argsort(np.where(held_up, -1.0, values), kind="stable")
            return np.where(held_up, 0.0, values)[order], vectors[:, order]
        except LinAlgError:  # directions with neither data nor penalty
            jitter = max(10 * jitter, 1e-12 * float(np.trace(both)) / len(both))
    raise ValueError("the learner's system is singular beyond repair; check its column")


def find_smoothing(spectrum: Spectrum, target: float, kind: str, net: bool = False) -> float:
    """lambda with df (or net df) = target.

    At or above what the data carry it is 0 (a trace of smoothing if A is singular). At or below
    what the penalty leaves free there is none, and NaN is returned.
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
    """A learner's normal equations on one part of the rows, ready for the core."""

    gram: Floats  # A
    factor: Floats  # Cholesky factor of A + lambda P, or A + lambda P itself if diagonal
    mean: Floats  # (d,) mean row of the basis
    smoothing: float
    df: float
    net_df: float
    removed: Floats | None = None  # G' (k, d)
    weigher: Floats | None = None  # R' (k, d), R = A G (G'A G)^-1; pairs.py has more
    n_b: int = 0  # of a table of cells without main effects: levels of its second margin


def factorize(gram: Floats, penalty: Floats, smoothing: float) -> Floats:
    """The factor of A + lambda P; directions that nothing decides are held at zero."""
    both = gram + smoothing * penalty
    if both.ndim == 1:
        return np.where(both > 0.0, both, 1.0)
    jitter = 0.0
    for _ in range(10):
        try:
            factor = cholesky(both + jitter * np.eye(len(both)), lower=True)
            return np.ascontiguousarray(np.tril(factor))
        except LinAlgError:
            jitter = max(10 * jitter, 1e-13 * float(np.trace(both)) / len(both))
    raise ValueError("the learner's system is singular beyond repair; check its column")
