"""Columns that arrive in chunks, from files, batches or partitions: one type, one list of levels.

Does not know where chunks come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.text import quote

from .cells import read_categories
from .columns import Column, Labels, Numbers, Unit

UNITS: dict[str, Unit] = {"dates": "dates", "durations": "durations"}  # by the kind of a chunk


class Chunk(NamedTuple):
    """Some cells of a column whose other cells are in other chunks.

    Text is coded by the values of this chunk. They become levels when all chunks are known.
    """

    kind: str  # "numbers", "booleans", "dates", "durations", "text"; "" if all cells are missing
    cells: NDArray[Any]  # floats, or codes with -1 where missing
    values: Sequence[Any] = ()  # of text, by code
    order: Sequence[Any] | None = None  # of text, if its type declares an order
    exact: bool = True  # as of Numbers

    @classmethod
    def of_column(cls, column: Column) -> Chunk:
        """Return the chunk of a column that has been read."""
        if isinstance(column, Labels):
            return cls("text", column.codes, column.levels, column.levels)
        return cls.of_numbers(column)

    @classmethod
    def of_numbers(cls, column: Numbers) -> Chunk:
        """Return the chunk of a numeric column."""
        kind = "booleans" if column.boolean else column.unit
        return cls("" if column.missing.all() else kind, column.values, exact=column.exact)

    def take(self, rows: Any) -> Chunk:
        """Return some of the cells."""
        cells = self.cells[rows]
        gone = cells < 0 if self.kind == "text" else np.isnan(cells)
        return self._replace(kind="" if gone.all() else self.kind, cells=cells)


class UnifiedColumn:
    """The common type of the chunks of a column, and the distinct values of its text.

    A value of text gets a number when it is first met. `finish` maps these numbers to levels, which
    have the order that the same column would have if it were read at once.

    Examples
    --------
    >>> from cwboost.frames.read_frames import read_chunk
    >>> job = UnifiedColumn("job")
    >>> [job.add(read_chunk(cells, "job")).tolist() for cells in (["b", None], ["c", "a", "b"])]
    [[0, -1], [2, 1, 0]]
    >>> job.finish().levels
    ('a', 'b', 'c')
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = ""  # as of Chunk; "" until a value is met
        self.exact = True
        self.order: list[Any] | None = None
        self._numbers: dict[Any, int] = {}  # of the values of text
        self._first = ""  # where the first value was

    def add(self, chunk: Chunk, where: str = "") -> NDArray[Any]:
        """Return the cells of the next chunk: floats, or numbers of values, -1 where missing."""
        if not chunk.kind:
            return np.full(len(chunk.cells), -1 if self.kind == "text" else np.nan)
        if self.kind and chunk.kind != self.kind:
            here, first = (f" in {place}" if place else "" for place in (where, self._first))
            raise TypeError(
                f"column {quote(self.name)}: {chunk.kind}{here}, but "
                f"{self.kind}{first or ' before'}; make it one type in all of them"
            )
        if not self.kind:
            self.kind, self._first = chunk.kind, where
        self.exact = self.exact and chunk.exact
        return self._renumber(chunk) if self.kind == "text" else chunk.cells

    def _renumber(self, chunk: Chunk) -> NDArray[np.int32]:
        counts = np.bincount(chunk.cells + 1, minlength=len(chunk.values) + 1)[1:]
        to = np.full(len(chunk.values) + 1, -1, np.int32)  # code -1, missing, reads the last
        for code in np.flatnonzero(counts).tolist():
            to[code] = self._numbers.setdefault(chunk.values[code], len(self._numbers))
        if chunk.order is not None:
            self.order = list(dict.fromkeys([*(self.order or []), *chunk.order]))
        return np.asarray(to[chunk.cells])

    @property
    def values(self) -> list[Any]:
        """The distinct values of text, by their numbers."""
        return list(self._numbers)

    def finish(self) -> Column:
        """Return the type of the whole column.

        For text: Labels whose codes are the levels of the numbers that `add` gave to values.
        Otherwise: Numbers without rows.
        """
        if self.kind != "text":
            unit = UNITS.get(self.kind, "numbers")
            return Numbers(self.name, np.empty(0), self.kind == "booleans", self.exact, unit)
        numbers = np.arange(len(self._numbers))
        return read_categories(numbers, self.values, self.name, self.order)


def gather(
    name: str,
    n_rows: int,
    chunks: Iterable[tuple[Chunk, str]],
    unified: UnifiedColumn | None = None,
) -> Column:
    """Return a column of `n_rows` rows from its chunks, each with the place that it is from.

    All chunks are added to `unified`, if it is given.

    Examples
    --------
    >>> from cwboost.frames.read_frames import read_chunk
    >>> cells = [None, None], [2.5]
    >>> gather("x", 3, [(read_chunk(c, "x"), "") for c in cells]).values
    array([nan, nan, 2.5])
    """
    unified, begin = UnifiedColumn(name) if unified is None else unified, 0
    out: NDArray[Any] | None = None
    for chunk, where in chunks:
        cells = unified.add(chunk, where)
        if out is None and unified.kind:  # all cells before this chunk are missing
            text = unified.kind == "text"
            out = np.empty(n_rows, np.int32 if text else np.float64)
            out[:begin] = -1 if text else np.nan
        end = begin + len(cells)
        if out is not None:
            out[begin:end] = cells
        begin = end
    if begin != n_rows:
        raise ValueError(f"column {quote(name)}: expected {n_rows} rows, got {begin}")
    whole = unified.finish()
    if out is None:
        return Numbers(name, np.full(n_rows, np.nan))
    if isinstance(whole, Labels):
        return Labels(name, np.append(whole.codes, -1)[out], whole.levels)
    return Numbers(name, out, whole.boolean, whole.exact, whole.unit)
