"""`Table`: named columns of one length, converted when they are first used.

A `ColumnSource` provides the columns: a data frame, an array, files, shards.
Does not know how the cells of other libraries are read (see read_frames.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote, quote_names, suggest_names

from .chunks import Chunk
from .columns import Column, Numbers, concat

READ_BYTES = 2**31  # memory for columns that are read from disk at the same time
BINNING_BYTES = 14  # per row of a column while it is binned


class ColumnSource:
    """Where the columns of a Table come from.

    Only `column` must be written. The other methods are for sources that can do better than the
    default.
    """

    def column(self, name: str) -> Column:
        """Read a column."""
        raise NotImplementedError

    def column_once(self, name: str) -> Column | None:  # noqa: ARG002
        """Read a column that is used once, without preparing for others; None if that is no
        faster than `column`."""
        return None

    def is_reread(self, name: str) -> bool:  # noqa: ARG002
        """Return whether the Table reads the column again each time instead of keeping it."""
        return False

    def numbers(self, name: str) -> NDArray[Any] | None:  # noqa: ARG002
        """Return the numbers of a column without a copy, unchecked, in a type that the core reads;
        None if that is not possible."""
        return None

    def array(self) -> NDArray[Any] | None:
        """Return the whole table as `numbers` does; None if that takes work."""
        return None

    def chunk(self, name: str) -> Chunk | None:  # noqa: ARG002
        """Read a column as a chunk, with the order that its type declares; None if a chunk of
        `column` says the same."""
        return None


class ComputedColumns(ColumnSource):
    """Columns that a function returns by name.

    Parameters
    ----------
    compute : function of a name that returns a Column
    reread : bool
        Whether to call the function each time a column is used, instead of keeping the column.
    """

    def __init__(self, compute: Callable[[str], Column], reread: bool = False) -> None:
        self._compute, self._reread = compute, reread

    def column(self, name: str) -> Column:
        return self._compute(name)

    def is_reread(self, name: str) -> bool:  # noqa: ARG002
        return self._reread


class BinFolder(NamedTuple):
    """A folder in which bins of the table may be stored for later fits."""

    path: Path
    verified: set[Any]  # files whose checksum this process has compared


class Table:
    """Named columns of one length.

    Parameters
    ----------
    names : names of the columns
    n_rows : int
    source : ColumnSource
    rows : array, optional
        The numbers of the rows in the user's table, if some rows were left out.
    where : function, optional
        Describes the place of a row, given its number, for error messages.
    roles : mapping
        Which columns are y, weights, offset and exposure.
    on_read : list of functions, optional
        Called with the name of every column that is read. Present if and only if columns are read
        from disk.
    head : function, optional
        Returns the first rows of a column, where reading all rows takes long.
    bin_folder : BinFolder, optional
    """

    def __init__(
        self,
        names: Sequence[str],
        n_rows: int,
        source: ColumnSource,
        *,
        rows: NDArray[np.int64] | None = None,
        where: Callable[[int], str] | None = None,
        roles: Mapping[str, str] = MappingProxyType({}),
        on_read: list[Callable[[str], None]] | None = None,
        head: Callable[[str], Column] | None = None,
        bin_folder: BinFolder | None = None,
    ) -> None:
        self.names = tuple(names)
        self.n_rows = n_rows
        self.roles = roles
        self.on_read = on_read
        self.head = head
        self.bin_folder = bin_folder
        self._source = source
        self._rows = rows
        self._where = where
        self._kept: dict[str, Column] = {}
        self._finite: set[str] = set()

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    @property
    def shown(self) -> str:
        """The first ten names, for messages."""
        return quote_names(self.names) or "none"

    def __getitem__(self, name: str) -> Column:
        return self.column(name, keep=True)

    def column(self, name: str, keep: bool = False) -> Column:
        """Return a column; raise if it has infinite numbers. `keep` it for the next time."""
        column = self.unchecked(name, keep)
        if name not in self._finite:
            self.check(column)
        return column

    def unchecked(self, name: str, keep: bool = True) -> Column:
        """Return a column whose numbers may be infinite; the caller calls `check`."""
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        self.check_name(name)
        once = None if keep else self._source.column_once(name)
        if once is not None:
            return once
        column = self._source.column(name)
        if keep and not self._source.is_reread(name):
            self._kept[name] = column
        return column

    def check_name(self, name: str) -> None:
        """Raise if the table does not have a column; the message says which columns it has, or
        which of them resemble the name."""
        if name not in self._known:
            near = suggest_names(str(name), self.names)
            raise ValueError(f"column {quote(name)} is not in the table; {near}")

    def check(self, column: Column, infinite: bool | None = None) -> None:
        """Raise if a column has infinite numbers; `infinite` says so if the caller knows."""
        if infinite is None or infinite:
            check_finite(column, self)
        self._finite.add(column.name)

    def numbers(self, name: str) -> NDArray[Any] | None:
        """Return the numbers of a column as `ColumnSource.numbers` does."""
        return self._source.numbers(name) if name in self._known else None

    def array(self) -> NDArray[Any] | None:
        """Return the whole table as `ColumnSource.array` does."""
        return self._source.array()

    def row(self, i: int) -> int | str:
        """Return the number of row i in the user's table, or a description of its place."""
        number = i if self._rows is None else int(self._rows[i])
        return number if self._where is None else self._where(number)

    def chunk(self, name: str) -> Chunk:
        """Return a column whose other rows are in other tables."""
        chunk = self._source.chunk(name) if name in self._known else None
        return Chunk.of_column(self.unchecked(name)) if chunk is None else chunk

    def select(self, names: Sequence[str]) -> Table:
        """Return the table with some of the columns."""
        for name in names:
            self.check_name(name)
        return Table(
            names, self.n_rows, _SelectedColumns(self), rows=self._rows, where=self._where,
            roles={role: name for role, name in self.roles.items() if name in names},
            on_read=self.on_read, head=self.head, bin_folder=self.bin_folder,
        )  # fmt: skip

    def take(self, rows: NDArray[np.bool_]) -> Table:
        """Return the table with some of the rows, given by a mask."""
        numbers = np.flatnonzero(rows) if self._rows is None else self._rows[rows]
        return Table(
            self.names, len(numbers), _TakenRows(self._source, rows), rows=numbers,
            where=self._where, roles=self.roles, on_read=self.on_read,
        )  # fmt: skip

    def below(self, other: Table, called: str = "second table") -> Table:
        """Return these rows, then the rows of another table that has the same columns."""

        def compute(name: str) -> Column:
            if name not in other:
                raise ValueError(
                    f"column {quote(name)} is not in the {called}; "
                    f"{suggest_names(name, other.names)}"
                )
            return concat(self[name], other[name])

        return Table(self.names, self.n_rows + other.n_rows, ComputedColumns(compute))

    def limit_threads(self, n_threads: int) -> int:
        """Return how many of `n_threads` threads may each hold a column at the same time.

        The limit is for columns that are read from disk: together they must not take more memory
        than the fit itself (four floats per row).
        """
        if self.on_read is None:
            return n_threads
        return min(n_threads, max(2, READ_BYTES // (BINNING_BYTES * max(1, self.n_rows))))


class _SelectedColumns(ColumnSource):
    """The columns of a table, which keeps them."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def column(self, name: str) -> Column:
        return self._table.unchecked(name)

    def column_once(self, name: str) -> Column | None:
        return self._table._source.column_once(name)

    def is_reread(self, name: str) -> bool:  # noqa: ARG002
        return True

    def numbers(self, name: str) -> NDArray[Any] | None:
        return self._table.numbers(name)

    def chunk(self, name: str) -> Chunk | None:
        return self._table._source.chunk(name)


class _TakenRows(ColumnSource):
    """Some of the rows of another source."""

    def __init__(self, source: ColumnSource, rows: NDArray[np.bool_]) -> None:
        self._source, self._taken = source, rows

    def column(self, name: str) -> Column:
        return self._source.column(name).take(self._taken)

    def is_reread(self, name: str) -> bool:
        return self._source.is_reread(name)


def known_table(table: Any) -> Table | None:
    """Return the Table that an object is or (a Dataset) holds; None if it must be read first."""
    held = table if isinstance(table, Table) else getattr(table, "table", None)
    return held if isinstance(held, Table) else None


def check_finite(column: Column, table: Table | None = None) -> None:
    """Raise if a column has infinite numbers; name the row as `table` does."""
    if isinstance(column, Numbers) and _core.survey(column.values, None)[-1]:
        row = int(np.flatnonzero(np.isinf(column.values))[0])
        raise ValueError(
            f"column {quote(column.name)}, row {row if table is None else table.row(row)}: the "
            "value is infinite; replace it by a number or mark it as missing"
        )
