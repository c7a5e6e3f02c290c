"""Columns that come piece by piece, from files or batches: one type, one list of levels.

Knows what pieces of one column must have in common; knows nothing of where they come from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .table import Chunk, Column, Labels, Numbers, read_categories


class UnifiedColumn:
    """What the pieces of a column have been so far.

    Text has a number per value, in the order in which values are met; `finish` turns them into
    levels, in the order that a column has in memory.

    Examples
    --------
    >>> from cwboost.frames.table import read_chunk
    >>> job = UnifiedColumn("job")
    >>> [job.add(read_chunk(cells, "job")).tolist() for cells in (["b", None], ["c", "a", "b"])]
    [[0, -1], [2, 1, 0]]
    >>> job.finish().levels
    ('a', 'b', 'c')
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.sort = ""  # as of Piece; "": no value yet
        self.exact = True
        self._numbers: dict[Any, int] = {}  # of the values of text
        self.order: list[Any] | None = None  # that its type declares
        self._first = ""  # where the first value was

    def add(self, piece: Chunk, where: str = "") -> NDArray[Any]:
        """The cells of the next piece: floats, or numbers of values with -1 where missing."""
        if not piece.sort:
            return np.full(len(piece.cells), -1 if self.sort == "text" else np.nan)
        if self.sort and piece.sort != self.sort:
            here, first = (f" in {place}" if place else "" for place in (where, self._first))
            raise TypeError(
                f"column {self.name!r}: {piece.sort}{here}, but {self.sort}{first or ' before'}; "
                "make it one type in all of them"
            )
        if not self.sort:
            self.sort, self._first = piece.sort, where
        self.exact = self.exact and piece.exact
        return self._renumbered(piece) if self.sort == "text" else piece.cells

    def _renumbered(self, piece: Chunk) -> NDArray[np.int32]:
        counts = np.bincount(piece.cells + 1, minlength=len(piece.values) + 1)[1:]
        to = np.full(len(piece.values) + 1, -1, np.int32)  # the last, at -1: missing
        for code in np.flatnonzero(counts).tolist():
            to[code] = self._numbers.setdefault(piece.values[code], len(self._numbers))
        if piece.order is not None:
            known = self.order or []
            self.order = [*known, *(x for x in piece.order if x not in set(known))]
        return np.asarray(to[piece.cells])

    @property
    def values(self) -> list[Any]:
        """Those of text, by their numbers."""
        return list(self._numbers)

    def finish(self) -> Column:
        """Text: levels, and as codes the level of each number. Else a column without rows."""
        if self.sort != "text":
            nothing = np.empty(0)
            return Numbers(self.name, nothing, self.sort == "booleans", self.exact)
        numbers = np.arange(len(self._numbers))
        return read_categories(numbers, self.values, self.name, self.order)


def gather(
    name: str,
    n_rows: int,
    pieces: Iterable[tuple[Chunk, str]],
    unified: UnifiedColumn | None = None,
) -> Column:
    """A column of so many rows from its pieces, each with the place that it is from; `unified` is
    told of all of them.

    Examples
    --------
    >>> from cwboost.frames.table import read_chunk
    >>> cells = [None, None], [2.5]
    >>> gather("x", 3, [(read_chunk(c, "x"), "") for c in cells]).values
    array([nan, nan, 2.5])
    """
    unified, begin = UnifiedColumn(name) if unified is None else unified, 0
    out: NDArray[Any] | None = None
    for piece, where in pieces:
        cells = unified.add(piece, where)
        if out is None and unified.sort:  # before it all cells were missing
            text = unified.sort == "text"
            out = np.empty(n_rows, np.int32 if text else np.float64)
            out[:begin] = -1 if text else np.nan
        end = begin + len(cells)
        if out is not None:
            out[begin:end] = cells
        begin = end
    if begin != n_rows:
        raise ValueError(f"column {name!r}: expected {n_rows} rows, got {begin}")
    whole = unified.finish()
    if out is None:
        return Numbers(name, np.full(n_rows, np.nan))
    if isinstance(whole, Labels):
        return Labels(name, np.append(whole.codes, -1)[out], whole.levels)
    return Numbers(name, out, whole.boolean, whole.exact)
