"""Coordinates of a term in which polish works: orthonormal over the rows, with diagonal penalties.

The coefficients of a term are C u. Over the rows, the functions of the coordinates u are
uncorrelated and have variance 1 / (sum of weights), and the penalty of the basis is diagonal
(Demmler and Reinsch). Directions that the rows do not decide are left out, the constant among
them. A term has up to three penalties: one for the directions that the basis penalises, one for
those it leaves free, such as the straight line of a spline, and one for the coefficient of missing
cells. The second lets a term shrink to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, eigh

from cwboost.fitting.smoothing import System
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Basis

from .hessian import SingularError

DECIDED = 1e-5  # eigenvalues below this are directions that the rows hardly decide
FREE = 1.0 - 1e-6  # eigenvalues above this are directions without penalty
JITTER = 1e-8  # for directions without rows and penalty, such as the constant
# Smoothing of thin tails, relative to that of boosting: enough to keep a few rows from bending a
# curve. More would bend straight lines, and then REML would smooth the whole curve less.
TAILS = 1e-3
MISSING_ROWS = 20.0  # n missing rows keep at most a share n / (n + 20) of their own effect


class Penalty(NamedTuple):
    """One penalty: lambda times the sum of `size` u^2 over the coordinates of a term."""

    term: int  # position among the polished terms
    size: Floats  # (r,) of the coordinates of that term; zero where it does not apply
    rank: int
    least: float = 0.0  # the smallest lambda, in units of the second derivative of one row


class Coordinates(NamedTuple):
    """The coordinates of one term, the smoothest first."""

    matrix: Floats  # C (d, r)
    penalised: Floats  # (r,) the basis's penalty of each coordinate
    free: Any  # (r,) bool: coordinates that the basis does not penalise
    missing: float = 0.0  # share of missing cells, if the last coordinate is theirs alone
    tails: Floats | None = None  # (r, r) a fixed penalty that keeps curves flat in thin tails

    @property
    def size(self) -> int:
        return int(self.matrix.shape[1])

    def penalties(self, term: int) -> list[Penalty]:
        """Return the penalties of the term with this position."""
        out = []
        if self.penalised.any():
            out.append(Penalty(term, self.penalised, int(np.count_nonzero(self.penalised))))
        if self.free.any():
            out.append(Penalty(term, self.free.astype(np.float64), int(self.free.sum())))
        if self.missing:
            last = np.zeros(self.size)
            last[-1] = 1.0
            out.append(Penalty(term, last, 1, MISSING_ROWS / self.missing))
        return out

    @classmethod
    def make(cls, basis: Basis, system: System, gram: Floats, sums: Floats) -> Coordinates:
        """Return the coordinates of a term.

        `gram` (d, d) and `sums` (d,) are B'WB and B'W1 for weights that sum to one.
        """
        out = cls._without_tails(basis, system, gram, sums)
        if not basis.penalty_needs_rows:
            return out
        tails = TAILS * system.smoothing * (basis.penalty_for(sums) - basis.penalty())
        return out._replace(tails=out.matrix.T @ tails @ out.matrix) if tails.any() else out

    @classmethod
    def _without_tails(
        cls, basis: Basis, system: System, gram: Floats, sums: Floats
    ) -> Coordinates:
        if basis.ridge > 0.0 and gram[-1, -1] > 0.0:
            return cls._with_missing(basis, gram, sums)
        allowed, penalty = _allowed(basis, system, gram)
        centred = gram - np.outer(sums, sums)
        if allowed is not None:
            centred = allowed.T @ centred @ allowed
        vectors, penalised, free = _demmler_reinsch((centred + centred.T) / 2, penalty)
        matrix = vectors if allowed is None else allowed @ vectors
        return cls(np.ascontiguousarray(matrix), penalised, free)

    @classmethod
    def _with_missing(cls, basis: Basis, gram: Floats, sums: Floats) -> Coordinates:
        """Return the coordinates if the last coefficient is for missing cells alone."""
        d, share = len(gram), float(gram[-1, -1])
        matrix = np.zeros((d, 1))
        matrix[-1] = 1.0 / np.sqrt(share)
        penalised, free = np.zeros(1), np.zeros(1, bool)
        if d > 1:
            known, mean = gram[:-1, :-1], sums[:-1] / max(1.0 - share, 1e-300)
            centred = known - (1.0 - share) * np.outer(mean, mean)  # over the known cells
            penalty = _penalty(basis)[:-1, :-1]
            vectors, own, own_free = _demmler_reinsch((centred + centred.T) / 2, penalty)
            matrix = np.block(
                [[vectors, np.zeros((d - 1, 1))], [np.zeros(vectors.shape[1]), matrix[-1]]]
            )
            penalised, free = np.append(own, 0.0), np.append(own_free, False)
        return cls(np.ascontiguousarray(matrix), penalised, free, share)

    def of(self, gram: Floats, sums: Floats, coef: Floats) -> Floats:
        """Return the coordinates of coefficients (d,), given B'WB and B'W1 as in `make`."""
        centred = gram - np.outer(sums, sums)
        turned = self.matrix.T @ centred @ self.matrix  # 1, unless some cells are missing
        found = np.linalg.lstsq(turned, self.matrix.T @ (centred @ coef), rcond=1e-10)[0]
        return np.asarray(found, dtype=np.float64)


def _penalty(basis: Basis) -> Floats:
    """Return the (d, d) penalty of a basis, without what it adds for thin tails."""
    penalty = basis.penalty()
    return np.diag(penalty) if penalty.ndim == 1 else np.asarray(penalty)


def _allowed(basis: Basis, system: System, gram: Floats) -> tuple[Floats | None, Floats]:
    """Return (d, m) functions that the term may have (None: all), and the penalty of those."""
    if basis.is_interaction:  # orthogonal to main effects on these rows
        removed, inner = basis.removed(), basis.inner  # type: ignore[attr-defined]
        assert removed is not None
        onto = gram @ removed.T
        weigher = np.linalg.pinv(removed @ onto, 1e-10, hermitian=True) @ onto.T
        allowed = (np.eye(basis.n_coef) - removed.T @ weigher)[:, inner]
        return allowed, np.asarray(basis.inner_penalty())  # type: ignore[attr-defined]
    penalty = _penalty(basis)
    if system.removed is None or system.weigher is None:
        return None, penalty
    return np.eye(basis.n_coef) - system.removed.T @ system.weigher, penalty


def _demmler_reinsch(gram: Floats, penalty: Floats) -> tuple[Floats, Floats, Any]:
    """Return vectors V with V'GV = 1 and V'PV diagonal, that diagonal, and which are free."""
    size_gram, size_penalty = float(np.trace(gram)), float(np.trace(penalty))
    d = len(gram)
    if size_gram <= 0.0:
        return np.empty((d, 0)), np.empty(0), np.empty(0, bool)
    tau = size_gram / size_penalty if size_penalty > 0.0 else 0.0
    both = gram + tau * penalty
    both += JITTER * float(np.trace(both)) / d * np.eye(d)
    try:
        values, vectors = (np.asarray(x)[..., ::-1] for x in eigh(gram, both))
    except LinAlgError:
        raise SingularError from None
    # Without a penalty every direction with rows has the value 1, all others 0.
    kept = values > (DECIDED if tau > 0.0 else 0.5)
    a, vectors = values[kept], vectors[:, kept]
    free = a > FREE
    penalised = np.where(free, 0.0, (1.0 - a) / a)
    return vectors / np.sqrt(a), penalised, free


def places(sizes: Sequence[int]) -> list[slice]:
    """Return the slices of consecutive blocks of the given sizes."""
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]
