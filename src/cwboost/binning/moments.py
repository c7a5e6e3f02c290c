"""Moments instead of bins, for columns with very many values. Knows where bases of numbers are
polynomials and with which coefficients; knows nothing of learners, systems or the loop.

Splines and powers are cubics at most between neighbouring knots. So the sums of x, xt, xt^2 and
xt^3 over the rows of every such piece, t the place of a row in its piece, say all that a sum per
bin would: the core takes them for four bins per piece, and a basis for its coefficients there.
Passes over the rows then write to a few dozen places instead of to as many as there are values.

The systems of the learners need products of two cubics. They are summed over a few nodes in every
piece, whose weights are such that every polynomial of degree 7 has the sum that it has over the
rows: to everyone else these are bins like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.frames.table import Floats

from .index_sets import IndexSet
from .numbers import LocalNumbers, NumberStatistics
from .rules import Bins
from .summary import ColumnSummary, Sample

if TYPE_CHECKING:
    from cwboost.terms.bases import BasisRows

MIN_BINS = 4096  # up to so many, bins cost less;
MIN_SHARE = 0.125  # also up to so many per row
MAX_PIECES = 2**16 - 2
N_NODES = 8
NODES = np.cos(np.pi * np.arange(2 * N_NODES - 1, 0, -2) / (2 * N_NODES))
# Coefficients of 1, t, t^2, t^3 from those of the first four Chebyshev polynomials.
POWERS = np.array([[1.0, 0, -1, 0], [0, 1, 0, -3], [0, 0, 2, 0], [0, 0, 0, 4]])


class HasBreaks(Protocol):
    """What this module asks of a basis."""

    def cubic_breaks(self) -> Floats | None:
        """Return the breaks between which it is a cubic at most; None if it is not."""


@dataclass(frozen=True, eq=False)
class MomentSet:
    """A piece and a place in it per row; what an IndexSet is for bins."""

    piece: NDArray[np.uint16]  # (n,); the last is that of missing cells, if there are any
    t: Floats  # (n,) from -1 to 1
    values: Floats  # the nodes of every piece, then NaN for missing cells
    inverse: Floats  # (pieces, nodes, nodes): Chebyshev coefficients from values at the nodes

    @property
    def n_bins(self) -> int:
        return len(self.values)

    @property
    def n_rows(self) -> int:
        return len(self.t)

    @property
    def n_pieces(self) -> int:
        """With that of missing cells, if there are any."""
        return -(-len(self.values) // N_NODES)

    def reorder(self, order: NDArray[Any]) -> MomentSet:
        """Return the set with its rows in another order."""
        return replace(self, piece=self.piece[order], t=self.t[order])

    def weigh(self, weights: Floats | None, room: ArrayPool) -> Floats:  # noqa: ARG002
        """Weights of the nodes; they may be negative."""
        sums = np.empty((self.n_pieces, N_NODES))
        _core.weigh_pieces(self.piece, self.t, weights, sums.ravel())
        known = len(self.inverse)
        at_nodes = sums[:known, None, :] @ self.inverse
        return np.append(at_nodes, sums[known:, 0])

    has_values: ClassVar[bool] = False  # a piece covers many values

    def core(self) -> _core.MomentSet:
        """Return the set for the core."""
        return _core.MomentSet(self.piece, self.t, self.n_pieces)

    def with_one_row(self) -> MomentSet:
        """Return the set of a single row, which is in the first piece."""
        return replace(self, piece=np.zeros(1, self.piece.dtype), t=np.zeros(1))

    def core_rows(self, rows: BasisRows, n_coef: int) -> BasisRows:
        """Return basis rows over the moments, from those at the nodes.

        Row 4 p + q is the coefficient of t^q on piece p.
        """
        values, known = rows.matrix(n_coef).toarray(), len(self.inverse)
        at_nodes = values[: known * N_NODES].reshape(known, N_NODES, n_coef)
        coef = np.zeros((self.n_pieces, len(POWERS), n_coef))
        coef[:known] = POWERS @ (self.inverse[:, : len(POWERS)] @ at_nodes)
        coef[known:, 0] = values[known * N_NODES :]
        filled = coef != 0.0
        filled[:known] = at_nodes.any(axis=1, keepdims=True)
        begin = np.append(0, np.cumsum(filled.sum(axis=2)))
        column = np.nonzero(filled)[2].astype(np.int32)
        return rows._replace(begin=begin, column=column, value=coef[filled])


def choose_pieces(
    numbers: NumberStatistics, rule: Bins, summary: ColumnSummary, bases: Sequence[HasBreaks]
) -> MomentPieces | None:
    """Return the pieces of moments where they replace exact bins; None if bins are better.

    Examples
    --------
    >>> from cwboost.binning.summary import summarize
    >>> from cwboost.frames.columns import Numbers
    >>> from cwboost.terms.bases import PowerBasis
    >>> x, line = np.linspace(-1.0, 1.0, 5000), PowerBasis(center=0.0, scale=1.0, degree=1)
    >>> summary = summarize(Numbers("x", x), Sample.of(5000))
    >>> choose_pieces(LocalNumbers(x), Bins(4000), summary, [line]) is None
    True
    >>> pieces = choose_pieces(LocalNumbers(x), Bins("exact"), summary, [line])
    >>> moments = pieces.place(x, ArrayPool())
    >>> at_nodes = moments.weigh(None, ArrayPool()) @ moments.values**2
    >>> len(moments.values), bool(abs(at_nodes - x @ x) < 1e-9)
    (8, True)
    """
    many = most_bins(len(numbers))
    if rule.n != "exact" or len(numbers) <= many or not are_cubics(bases):
        return None
    if numbers.distinct(None, many) is not None:
        return None
    return MomentPieces.make(summary, numbers.full_range(summary), bases)


def bin_by_rule(
    values: Floats,
    rule: Bins,
    sample: Sample,
    summary: ColumnSummary,
    bases: Sequence[HasBreaks],
    room: ArrayPool,
) -> IndexSet | MomentSet:
    """Return bins of all rows by a rule; moments of the binned values if the bins are too many."""
    bins = rule.bin(values, sample, summary, room)
    if rule.n == "exact" or bins.n_bins <= most_bins(len(values)) or not are_cubics(bases):
        return bins
    binned = bins.values[bins.index]
    pieces = MomentPieces.make(summary, LocalNumbers(binned).full_range(summary), bases)
    return bins if pieces is None else pieces.place(binned, room)


def are_cubics(bases: Sequence[HasBreaks]) -> bool:
    """Whether moments say all of them."""
    return all(basis.cubic_breaks() is not None for basis in bases)


def most_bins(n_rows: int) -> int:
    """So many bins cost less than moments."""
    return max(MIN_BINS, int(MIN_SHARE * n_rows))


def is_never_moments(bins: IndexSet) -> bool:
    """Whether bins are so few that no learners on them would have moments instead."""
    return bins.n_bins <= most_bins(bins.n_rows)


@dataclass(frozen=True, eq=False)
class MomentPieces:
    """Where moments are taken."""

    edges: Floats
    values: Floats  # as of MomentSet
    inverse: Floats

    @classmethod
    def make(
        cls, seen: ColumnSummary, ends: tuple[float, float], bases: Sequence[HasBreaks]
    ) -> MomentPieces | None:
        """For numbers of which all rows have these at the ends. None: there are pieces in which
        numbers cannot be told apart."""
        edges = _edges(seen, ends, bases)
        half = np.diff(edges) / 2
        if not 0 < len(half) <= MAX_PIECES:
            return None
        nodes = ((edges[:-1] + half)[:, None] + half[:, None] * NODES).ravel()
        piece, t = _place(nodes, edges, ArrayPool())  # t: NODES, but for the rounding of the nodes
        t = t.reshape(len(half), N_NODES)
        if not np.all(np.diff(t) > 0.05) or np.any(piece != np.arange(len(nodes)) // N_NODES):
            return None
        inverse = np.asarray(np.linalg.inv(chebvander(t, N_NODES - 1)), dtype=np.float64)
        missing = [np.nan] if seen.any_missing else []
        return cls(edges, np.concatenate([nodes, missing]), inverse)

    def place(self, values: Floats, room: ArrayPool) -> MomentSet:
        return MomentSet(*_place(values, self.edges, room), self.values, self.inverse)


def _edges(seen: ColumnSummary, ends: tuple[float, float], bases: Sequence[HasBreaks]) -> Floats:
    """Ends of the pieces: knots, ends of the sample's range and of all rows'; between the latter
    pieces that grow with the distance, in which numbers keep their digits."""
    low, high = seen.low, seen.high
    breaks = [b for basis in bases if (b := basis.cubic_breaks()) is not None]
    out = np.concatenate([[low], *breaks, [high]])
    if seen.beyond:
        steps = (high - low) * 4.0 ** np.arange(32)
        least, largest = ends
        out = np.concatenate([out, low - steps, high + steps])
        low, high = min(low, least), max(high, largest)
    return np.unique(np.append(out[(out > low) & (out < high)], [low, high]))


def _place(values: Floats, edges: Floats, room: ArrayPool) -> tuple[NDArray[np.uint16], Floats]:
    """Piece and t of every value; NaN has a last piece of its own."""
    piece, t = room.empty(len(values), np.uint16), room.empty(len(values), np.float64)
    _core.place(values, edges, piece, t)
    return piece, t
