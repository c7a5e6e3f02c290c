"""Bin indices of rows: one bin number per row, and the value that each bin stands for.

Does not know how bins are chosen (see `rules` for numbers and `cwboost.terms.encoders` for codes).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.frames.columns import Floats

if TYPE_CHECKING:
    from cwboost.terms.bases import BasisRows

UNSEEN = -1.0  # the value, in a column of codes, of a level that training did not have


@dataclass(frozen=True, eq=False)
class IndexSet:
    """A bin number per row, and the value of each bin.

    The values are (n_bins,), or (n_bins, 2) for a pair of columns.
    """

    index: NDArray[Any]  # (n,) unsigned integers of 8, 16 or 32 bits
    values: Floats
    has_values: ClassVar[bool] = True  # a bin stands for one value

    @property
    def n_bins(self) -> int:
        return len(self.values)

    @property
    def n_rows(self) -> int:
        return len(self.index)

    def reorder(self, order: NDArray[Any]) -> IndexSet:
        """Return the set with its rows in another order."""
        return replace(self, index=self.index[order])

    def core(self) -> _core.IndexSet:
        """Return the set for the core."""
        return _core.IndexSet(self.index, self.n_bins)

    def total(self, sums: Floats) -> float:
        """Return the sum over all rows, given the core's sums over the bins."""
        return float(sums.sum())

    def core_rows(self, rows: BasisRows, n_coef: int) -> BasisRows:  # noqa: ARG002
        """Return basis rows over what the core takes for the bins: the bins themselves."""
        return rows

    def with_one_row(self) -> IndexSet:
        """Return the set of a single row, which is in the first bin."""
        return replace(self, index=np.zeros(1, self.index.dtype))

    def weigh(self, weights: Floats | None, room: ArrayPool) -> Floats:
        """Return the weight of every bin. Weights None: all rows have weight 1."""
        out = room.empty(self.n_bins, np.float64)
        _core.weigh_bins(self.index, weights, out)
        return out


def index_dtype(n_bins: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest integer type that can number n_bins bins."""
    return np.uint8 if n_bins <= 2**8 else np.uint16 if n_bins <= 2**16 else np.uint32


class CodedColumn(NamedTuple):
    """A code per row, and the value of each code; code -1 has the last value."""

    codes: NDArray[Any]
    values: Floats

    def occurring(self) -> Floats:
        """Return the distinct values that some row has, increasing, NaN last."""
        codes, signed = self.codes, self.codes.dtype.kind == "i"
        counts = np.bincount(codes + 1 if signed else codes, minlength=len(self.values))
        if signed:
            counts = np.roll(counts, -1)
        return np.unique(self.values[np.flatnonzero(counts)], equal_nan=True)

    def bins(self, values: Floats, fallback: int = 0) -> IndexSet:
        """Return one bin per value of an increasing list (NaN last).

        Rows whose value is not in the list go to the bin `fallback`.
        """
        to = np.minimum(np.searchsorted(values, self.values), len(values) - 1)  # NaN is the largest
        met = (values[to] == self.values) | (np.isnan(values[to]) & np.isnan(self.values))
        index = np.where(met, to, fallback).astype(index_dtype(len(values)))
        return IndexSet(index[self.codes], values)

    def compact(self) -> IndexSet:
        """Return one bin per value that some row has."""
        return self.bins(self.occurring())


def pair(a: IndexSet, b: IndexSet) -> IndexSet:
    """Return the joint bins of two sets, without bins that have no rows."""
    joint = _joint(a, b)
    if a.n_bins * b.n_bins <= max(2**20, 4 * len(joint)):
        cells = np.flatnonzero(np.bincount(joint, minlength=a.n_bins * b.n_bins))
        to = np.zeros(a.n_bins * b.n_bins, index_dtype(len(cells)))
        to[cells] = np.arange(len(cells))
        index = to[joint]
    else:
        cells, index = np.unique(joint, return_inverse=True)
        index = index.astype(index_dtype(len(cells)))
    return IndexSet(index, pair_values(a, b, cells))


def _joint(a: IndexSet, b: IndexSet) -> NDArray[np.int64]:
    """Return the number of every row's joint bin: bin of a * bins of b + bin of b."""
    joint: NDArray[np.int64] = a.index.astype(np.int64) * b.n_bins + b.index
    return joint


def cells(a: IndexSet, b: IndexSet) -> NDArray[np.int64]:
    """Return the numbers of the joint bins of two sets that have rows."""
    return np.unique(_joint(a, b))


def pair_in(a: IndexSet, b: IndexSet, cells: NDArray[np.int64]) -> IndexSet:
    """Return joint bins numbered by their position in `cells`, which holds those of all shards."""
    index = np.searchsorted(cells, _joint(a, b)).astype(index_dtype(len(cells)))
    return IndexSet(index, pair_values(a, b, cells))


def pair_values(a: IndexSet, b: IndexSet, cells: NDArray[np.int64]) -> Floats:
    """Return (n, 2) the values of joint bins."""
    return np.column_stack([a.values[cells // b.n_bins], b.values[cells % b.n_bins]])
