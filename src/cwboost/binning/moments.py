"""Moments instead of bins, for columns with very many distinct values.

Between neighbouring knots, splines and powers are cubics. Let t be a row's position in its piece,
the interval between two knots. The sums of r, r t, r t^2 and r t^3 over the rows of each piece, r
the residual, then hold everything that sums per bin would: to the core a piece is four bins, and a
basis is given by its polynomial coefficients on the piece. A pass over the rows writes to a few
dozen sums instead of to one per distinct value.

The systems of the learners need products of two cubics. These are summed over a few nodes per
piece, with weights such that every polynomial of degree 7 has the same sum over the nodes as over
the rows. To everyone else the nodes are bins like any other.

Asks a basis for its breaks only. Does not know about learners or systems.
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
from cwboost.frames.columns import Floats

from .index_sets import IndexSet
from .number_statistics import LocalNumbers, NumberStatistics
from .rules import Bins
from .summary import ColumnSummary, Sample

if TYPE_CHECKING:
    from cwboost.terms.bases import BasisRows

MIN_BINS = 4096  # with at most this number of bins, or
MIN_SHARE = 0.125  # this number per row, bins cost less than moments
MAX_PIECES = 2**16 - 2
N_NODES = 8
NODES = np.cos(np.pi * np.arange(2 * N_NODES - 1, 0, -2) / (2 * N_NODES))
# Coefficients of 1, t, t^2, t^3 from those of the first four Chebyshev polynomials.
POWERS = np.array([[1.0, 0, -1, 0], [0, 1, 0, -3], [0, 0, 2, 0], [0, 0, 0, 4]])


class HasBreaks(Protocol):
    """What this module asks of a basis."""

    def cubic_breaks(self) -> Floats | None:
        """Return breaks between which the functions are cubics or less; None if they are not."""


@dataclass(frozen=True, eq=False)
class MomentSet:
    """A piece and a position in it per row; the counterpart of an IndexSet."""

    piece: NDArray[np.uint16]  # (n,); missing cells, if any, have the last piece
    t: Floats  # (n,) from -1 to 1
    values: Floats  # the nodes of every piece, then NaN for missing cells
    inverse: Floats  # (pieces, nodes, nodes): Chebyshev coefficients from values at the nodes
    has_values: ClassVar[bool] = False  # a piece covers many values

    @property
    def n_bins(self) -> int:
        return len(self.values)

    @property
    def n_rows(self) -> int:
        return len(self.t)

    @property
    def n_pieces(self) -> int:
        """Number of pieces, the one of missing cells included."""
        return -(-len(self.values) // N_NODES)

    def reorder(self, order: NDArray[Any]) -> MomentSet:
        """Return the set with its rows in another order."""
        return replace(self, piece=self.piece[order], t=self.t[order])

    def weigh(self, weights: Floats | None, room: ArrayPool) -> Floats:  # noqa: ARG002
        """Return the weights of the nodes, which may be negative."""
        sums = np.empty((self.n_pieces, N_NODES))
        _core.weigh_pieces(self.piece, self.t, weights, sums.ravel())
        known = len(self.inverse)
        at_nodes = sums[:known, None, :] @ self.inverse
        return np.append(at_nodes, sums[known:, 0])

    def total(self, sums: Floats) -> float:
        """Return the sum over all rows, given the core's sums of powers over the pieces."""
        return float(sums[:: len(POWERS)].sum())

    def core(self) -> _core.MomentSet:
        """Return the set for the core."""
        return _core.MomentSet(self.piece, self.t, self.n_pieces)

    def with_one_row(self) -> MomentSet:
        """Return the set of a single row, which is in the first piece."""
        return replace(self, piece=np.zeros(1, self.piece.dtype), t=np.zeros(1))

    def core_rows(self, rows: BasisRows, n_coef: int) -> BasisRows:
        """Return basis rows over the moments, from those at the nodes.

        Row 4 p + q holds the coefficients of t^q on piece p.
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
    numbers: NumberStatistics, summary: ColumnSummary, bases: Sequence[HasBreaks]
) -> MomentPieces | None:
    """Return the pieces of moments that replace exact bins; None if bins are better.

    Examples
    --------
    >>> from cwboost.binning.summary import summarize
    >>> from cwboost.frames.columns import Numbers
    >>> from cwboost.terms.bases import PowerBasis
    >>> x, line = np.linspace(-1.0, 1.0, 5000), PowerBasis(center=0.0, scale=1.0, degree=1)
    >>> summary = summarize(Numbers("x", x), Sample.of(5000))
    >>> pieces = choose_pieces(LocalNumbers(x), summary, [line])
    >>> moments = pieces.place(x, ArrayPool())
    >>> at_nodes = moments.weigh(None, ArrayPool()) @ moments.values**2
    >>> len(moments.values), bool(abs(at_nodes - x @ x) < 1e-9)
    (8, True)
    """
    many = most_bins(len(numbers))
    if len(numbers) <= many or not are_cubics(bases):
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
    """Whether all bases are cubics (or less) between their breaks."""
    return all(basis.cubic_breaks() is not None for basis in bases)


def most_bins(n_rows: int) -> int:
    """Return the number of bins up to which bins cost less than moments."""
    return max(MIN_BINS, int(MIN_SHARE * n_rows))


def is_never_moments(bins: IndexSet) -> bool:
    """Whether there are so few bins that moments would not replace them for any learner."""
    return bins.n_bins <= most_bins(bins.n_rows)


@dataclass(frozen=True, eq=False)
class MomentPieces:
    """The pieces of a column over which moments are summed."""

    edges: Floats  # ends of the pieces, increasing
    values: Floats  # as in MomentSet
    inverse: Floats

    @classmethod
    def make(
        cls, summary: ColumnSummary, ends: tuple[float, float], bases: Sequence[HasBreaks]
    ) -> MomentPieces | None:
        """Return pieces that span `ends`, the smallest and largest number of all rows.

        Return None if some piece is so narrow that floats cannot tell its nodes apart.
        """
        edges = _edges(summary, ends, bases)
        half = np.diff(edges) / 2
        if not 0 < len(half) <= MAX_PIECES:
            return None
        nodes = ((edges[:-1] + half)[:, None] + half[:, None] * NODES).ravel()
        piece, t = _place(nodes, edges, ArrayPool())  # t equals NODES up to rounding
        t = t.reshape(len(half), N_NODES)
        if not np.all(np.diff(t) > 0.05) or np.any(piece != np.arange(len(nodes)) // N_NODES):
            return None
        inverse = np.asarray(np.linalg.inv(chebvander(t, N_NODES - 1)), dtype=np.float64)
        missing = [np.nan] if summary.any_missing else []
        return cls(edges, np.concatenate([nodes, missing]), inverse)

    def place(self, values: Floats, room: ArrayPool) -> MomentSet:
        """Return piece and position of every row."""
        return MomentSet(*_place(values, self.edges, room), self.values, self.inverse)


def _edges(summary: ColumnSummary, ends: tuple[float, float], bases: Sequence[HasBreaks]) -> Floats:
    """Return the ends of the pieces: knots, the sample's range, and the range of all rows.

    Outside the sample's range pieces grow with the distance, so that positions stay precise.
    """
    low, high = summary.low, summary.high
    breaks = [b for basis in bases if (b := basis.cubic_breaks()) is not None]
    out = np.concatenate([[low], *breaks, [high]])
    if summary.beyond:
        steps = (high - low) * 4.0 ** np.arange(32)
        out = np.concatenate([out, low - steps, high + steps])
        low, high = min(low, ends[0]), max(high, ends[1])
    return np.unique(np.append(out[(out > low) & (out < high)], [low, high]))


def _place(values: Floats, edges: Floats, room: ArrayPool) -> tuple[NDArray[np.uint16], Floats]:
    """Return piece and t of every value; NaN has the last piece for itself."""
    piece, t = room.empty(len(values), np.uint16), room.empty(len(values), np.float64)
    _core.place(values, edges, piece, t)
    return piece, t
