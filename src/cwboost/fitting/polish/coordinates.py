"""Coordinates of a term in which polish works: orthonormal over the rows, with diagonal penalties.

The coefficients of a term are C u. Over the rows, the functions of the coordinates u are
uncorrelated and have variance 1 / (sum of weights), and the penalty of the basis is diagonal
(Demmler and Reinsch). Directions that the rows do not decide are left out, the constant among
them. A term has up to two penalties: one for the directions that the basis penalises, and one for
those it leaves free, such as the straight line of a spline. The second lets a term shrink to
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from cwboost.fitting.smoothing import System
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Basis

DECIDED = 1e-5  # eigenvalues below this are directions that the rows hardly decide
FREE = 1.0 - 1e-6  # eigenvalues above this are directions without penalty
JITTER = 1e-8  # for directions without rows and penalty, such as the constant


class Penalty(NamedTuple):
    """One penalty: lambda times the sum of `size` u^2 over the coordinates of a term."""

    term: int  # position among the polished terms
    size: Floats  # (r,) of the coordinates of that term; zero where it does not apply
    rank: int


class Coordinates(NamedTuple):
    """The coordinates of one term, the smoothest first."""

    matrix: Floats  # C (d, r)
    penalised: Floats  # (r,) the basis's penalty of each coordinate
    free: Any  # (r,) bool: coordinates that the basis does not penalise

    @property
    def size(self) -> int:
        return int(self.matrix.shape[1])

    def penalties(self, term: int) -> list[Penalty]:
        """Return the penalties of the term with this position."""
        out = []
        if not self.free.all():
            out.append(Penalty(term, self.penalised, int((~self.free).sum())))
        if self.free.any():
            out.append(Penalty(term, self.free.astype(np.float64), int(self.free.sum())))
        return out

    @classmethod
    def make(cls, basis: Basis, system: System, gram: Floats, sums: Floats) -> Coordinates:
        """Return the coordinates of a term.

        `gram` (d, d) and `sums` (d,) are B'WB and B'W1 for weights that sum to one.
        """
        allowed, penalty = _allowed(basis, system, gram)
        centred = gram - np.outer(sums, sums)
        if allowed is not None:
            centred = allowed.T @ centred @ allowed
        vectors, penalised, free = _demmler_reinsch((centred + centred.T) / 2, penalty)
        matrix = vectors if allowed is None else allowed @ vectors
        return cls(np.ascontiguousarray(matrix), penalised, free)

    def of(self, gram: Floats, sums: Floats, coef: Floats) -> Floats:
        """Return the coordinates of coefficients (d,), given B'WB and B'W1 as in `make`."""
        return np.asarray(self.matrix.T @ (gram @ coef - sums * (sums @ coef)))


def _allowed(basis: Basis, system: System, gram: Floats) -> tuple[Floats | None, Floats]:
    """Return (d, m) functions that the term may have (None: all), and the penalty of those."""
    if basis.is_interaction:  # orthogonal to main effects on these rows
        removed, inner = basis.removed(), basis.inner  # type: ignore[attr-defined]
        assert removed is not None
        onto = gram @ removed.T
        weigher = np.linalg.pinv(removed @ onto, 1e-10, hermitian=True) @ onto.T
        allowed = (np.eye(basis.n_coef) - removed.T @ weigher)[:, inner]
        return allowed, np.asarray(basis.inner_penalty())  # type: ignore[attr-defined]
    penalty = basis.penalty()
    penalty = np.diag(penalty) if penalty.ndim == 1 else np.asarray(penalty)
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
    values, vectors = (np.asarray(x)[..., ::-1] for x in eigh(gram, both))
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
