"""Moments instead of bins, for columns with very many values. Knows where bases of numbers are
polynomials and with which coefficients; knows nothing of weights, systems or the loop.

Splines and powers are cubics at most between neighbouring knots. So the sums of x, xt, xt^2 and
xt^3 over the rows of every such piece, t the place of a row in its piece, say all that a sum per
bin would: the core takes them for four bins per piece, and a basis for its coefficients there.
Passes over the rows then write to a few dozen places instead of to as many as there are values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import _core
from .bases import Basis, BasisRows, PowerBasis, SplineBasis
from .bins import IndexSet
from .memory import Room
from .table import Floats

MIN_BINS = 4096  # up to so many, bins cost less
MAX_PIECES = 2**16 - 2
N_POWERS = 4
NODES = np.cos(np.pi * np.arange(7, 0, -2) / 8)  # where the cubic of a piece is found from


def has_moments(bins: IndexSet, bases: Sequence[Basis]) -> bool:
    """Whether moments pay for a set, and all its bases are cubics on pieces."""
    return bins.n_bins > MIN_BINS and all(
        isinstance(basis, SplineBasis | PowerBasis) and basis.degree < N_POWERS for basis in bases
    )


def in_moments(
    bins: IndexSet, bases: Sequence[Basis], room: Room
) -> tuple[_core.MomentSet, list[BasisRows]] | None:
    """A set in this form and the rows of its bases; None if its pieces are too narrow for it.

    Examples
    --------
    >>> bins = IndexSet(np.arange(5, dtype=np.uint8), np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    >>> line = PowerBasis(center=0.0, scale=1.0, degree=1)
    >>> _, (rows,) = in_moments(bins, [line], Room())
    >>> rows.matrix(2).toarray().round(9) + 0.0  # 1 = 1 and x = 2 + 2t
    array([[1., 2.],
           [0., 2.],
           [0., 0.],
           [0., 0.]])
    """
    edges = _edges(bins.values, bases)
    n_pieces, missing = len(edges) - 1, bool(np.isnan(bins.values).any())
    if not 0 < n_pieces <= MAX_PIECES:
        return None
    half = np.diff(edges) / 2
    nodes = (edges[:-1] + half)[:, None] + half[:, None] * NODES
    piece, t = _place(np.arange(nodes.size, dtype=np.uint32), nodes.ravel(), edges, room)
    places = t.reshape(nodes.shape)  # NODES, but for the rounding of the nodes
    apart = np.all(np.diff(places) > 0.1)
    if not apart or not np.array_equal(piece, np.repeat(np.arange(n_pieces), N_POWERS)):
        return None
    powers = places[:, :, None] ** np.arange(N_POWERS)
    rows = [_rows(basis, nodes.ravel(), powers, missing) for basis in bases]
    of_rows = _place(bins.index, bins.values, edges, room)
    return _core.MomentSet(*of_rows, n_pieces + missing), rows


def _edges(values: Floats, bases: Sequence[Basis]) -> Floats:
    """Ends of the pieces: the knots between the least and the largest value, and these."""
    low, high = np.nanmin(values), np.nanmax(values)
    splines = [basis for basis in bases if isinstance(basis, SplineBasis)]
    knots = [x for b in splines for x in b.knots[b.degree : b.n_splines + 1] if low < x < high]
    return np.unique([low, *knots, high])


def _place(
    index: NDArray[np.unsignedinteger], values: Floats, edges: Floats, room: Room
) -> tuple[NDArray[np.uint16], Floats]:
    """Piece and t of every row; missing cells have a last piece of their own."""
    piece, t = room.empty(len(index), np.uint16), room.empty(len(index), np.float64)
    _core.place(index, values, edges, piece, t)
    return piece, t


def _rows(basis: Basis, nodes: Floats, powers: Floats, missing: bool) -> BasisRows:
    """Coefficients of all basis functions on all pieces: row 4 p + q is that of t^q on piece p."""
    n_pieces, d = len(powers), basis.n_coef
    values = basis.matrix(nodes).toarray().reshape(n_pieces, N_POWERS, d)
    coef = np.linalg.solve(powers, values)
    filled = np.broadcast_to(values.any(axis=1, keepdims=True), coef.shape)
    if missing:
        last = np.zeros((1, N_POWERS, d))
        last[0, 0] = basis.matrix(np.array([np.nan])).toarray()
        coef, filled = np.concatenate([coef, last]), np.concatenate([filled, last != 0.0])
    coef, filled = coef.reshape(-1, d), filled.reshape(-1, d)
    begin = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    return BasisRows(begin, np.nonzero(filled)[1].astype(np.int32), coef[filled])
