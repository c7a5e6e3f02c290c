"""Any data frame -> typed columns. The only file that knows narwhals.

Knows how tables, series and arrays of other libraries are read, and what their cells mean; knows
nothing of bins, learners or models. A column is one of two things:

- `Numbers`: float64, NaN where missing. Integers, floats, decimals and booleans; dates and
  datetimes are days since 1970-01-01, durations are days.
- `Labels`: text levels and a code per row, -1 where missing. Strings and categorical columns;
  levels are in declared order if the type has one (ordered categories, Enum), else sorted.

A column without any value is `Numbers`, whatever its type says.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from cwboost import _core

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MICROSECONDS_PER_DAY = 86_400e6
INEXACT_FROM = 2**53  # from here on neighbouring integers may be one float
IN_PLACE = tuple(map(np.dtype, ("f8", "f4", "i8", "i4", "?")))  # what the core reads where it lies
SMALL_ARRAY = 2**25  # bytes of an array up to which its columns are laid out one by one
SMALL_FRAME = 2**14  # cells of a data frame up to which an array of them is cheaper than columns
READ_BYTES = 2**31  # of columns that are read from elsewhere, in memory at a time
BINNING_BYTES = 14  # per row of a column while its bins are made
MANY_CELLS = 200  # of text from which on its library codes them faster than a loop does


@dataclass(frozen=True, eq=False)
class Numbers:
    """A numeric column."""

    name: str
    values: Floats  # (n,) NaN where missing
    boolean: bool = False
    exact: bool = True  # False: integers so large that floats merge neighbours

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[Any]) -> Numbers:
        return Numbers(self.name, self.values[rows], self.boolean, self.exact)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        return np.isnan(self.values)

    def labels(self) -> Labels:
        """The distinct numbers as levels, in the order of their values."""
        if not self.exact:
            raise ValueError(
                f"column {self.name!r}: integers beyond 2**53 cannot be told apart as numbers; "
                "turn them into strings to use them as categories"
            )
        index, distinct = np.empty(len(self), np.uint32), np.empty(len(self) + 1)
        distinct = distinct[: _core.bin_exactly(self.values, None, index, distinct)]
        codes = index.astype(np.int64)
        if len(distinct) and np.isnan(distinct[-1]):
            distinct = distinct[:-1]
            codes[codes == len(distinct)] = -1
        return Labels(self.name, codes, tuple(format_number(v, self.boolean) for v in distinct))


@dataclass(frozen=True, eq=False)
class Labels:
    """A categorical column."""

    name: str
    codes: Codes  # (n,) -1 where missing
    levels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Labels:
        return Labels(self.name, self.codes[rows], self.levels)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        return self.codes < 0

    def codes_of(self, marks: NDArray[np.bool_] | None) -> Codes:
        """Of the rows that are marked; None: of all."""
        return self.codes if marks is None else self.codes[marks]

    def labels(self) -> Labels:
        return self

    def to_objects(self) -> NDArray[np.object_]:
        """The text of every row, None where missing."""
        return np.array([*self.levels, None], dtype=object)[self.codes]


Column = Numbers | Labels


def natural(column: Column) -> NDArray[Any]:
    """The cells as people would write them: text, true and false, whole numbers, numbers."""
    if isinstance(column, Labels):
        return column.to_objects()
    values = column.values
    if column.boolean and not column.missing.any():
        return np.asarray(values == 1)
    whole = column.exact and bool(np.all(values == np.floor(values)))
    return values.astype(np.int64) if whole else values


def format_number(value: float, boolean: bool = False) -> str:
    """Text of a number as a level: 3.0 -> '3', 2.5 -> '2.5', True -> 'True'."""
    if boolean:
        return str(bool(value))
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class Table:
    """Named columns of one length, converted when first asked for.

    Columns for which `again` is true are made again each time instead of being kept. `raw` gives a
    column as it came, `array` the whole table, where there is one. `where` says in words where a
    row is, `roles` which columns are y, weights, offset and exposure, and `shelf` gives a place
    where bins are kept for other fits. A table that reads its columns from elsewhere has `told`:
    functions that are told the name of each, and where that takes long `head`, for the first rows
    of a column.
    """

    def __init__(
        self,
        names: Sequence[str],
        n_rows: int,
        make: Callable[[str], Column],
        *,
        rows: NDArray[np.int64] | None = None,
        again: Callable[[str], bool] | None = None,
        raw: Callable[[str], Any] | None = None,
        array: Callable[[], Any] | None = None,
        where: Callable[[int], str] | None = None,
        roles: Mapping[str, str] = MappingProxyType({}),
        shelf: Callable[[Any], Any] | None = None,
        told: list[Callable[[str], None]] | None = None,
        head: Callable[[str], Column] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.n_rows = n_rows
        self._make = make
        self._rows = rows  # their numbers in the table that people gave, where some were left out
        self._again = again
        self._raw = raw
        self._array = array
        self._where = where
        self.roles = roles
        self.shelf = shelf
        self.told = told
        self.head = head
        self._made: dict[str, Column] = {}
        self._finite: set[str] = set()

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    @property
    def shown(self) -> str:
        """The first names, for messages."""
        return ", ".join(map(repr, self.names[:10])) + ", ..." * (len(self.names) > 10) or "none"

    def __getitem__(self, name: str) -> Column:
        return self.column(name, keep=True)

    def column(self, name: str, keep: bool = False) -> Column:
        """A column; unless told so it is not kept for the next time."""
        column = self.unchecked(name, keep)
        if name not in self._finite:
            self.check(column)
        return column

    def unchecked(self, name: str, keep: bool = True) -> Column:
        """A column whose numbers may be infinite, for those who look (and `check`) themselves."""
        made = self._made.get(name)
        if made is None:
            if name not in self._known:
                raise ValueError(f"column {name!r} is not in the table; it has {self.shown}")
            if not keep and self._raw is not None:  # `make` may lay out the whole table
                return read_column(self._raw(name), name)
            made = self._make(name)
            if keep and not (self._again and self._again(name)):
                self._made[name] = made
        return made

    def check(self, column: Column, infinite: bool | None = None) -> None:
        """Refuses infinite numbers in one of its columns; `infinite`: whether there are some."""
        if infinite is None or infinite:
            check_finite(column, self)
        self._finite.add(column.name)

    def numbers(self, name: str) -> NDArray[Any] | None:
        """The numbers of a column where they lie, of a kind in IN_PLACE and with any stride; they
        are not checked. None: it has none, or they must be converted."""
        if self._raw is None or name not in self._known:
            return None
        found = self._raw(name)
        if isinstance(found, nw.Series):
            dtype = found.dtype
            found = found.to_numpy() if dtype.is_numeric() or dtype == nw.Boolean else None
        return found if _in_place(found, 1) else None

    def array(self) -> NDArray[Any] | None:
        """The whole table as numbers, where that is no work; as `numbers`."""
        found = None if self._array is None else self._array()
        return found if _in_place(found, 2) else None

    def row(self, i: int) -> int | str:
        """Number of row i in the table that people gave, or where it is."""
        number = i if self._rows is None else int(self._rows[i])
        return number if self._where is None else self._where(number)

    def piece(self, name: str) -> Chunk:
        """A column that goes on in other tables."""
        raw = None if self._raw is None or name not in self._known else self._raw(name)
        return read_chunk(self.unchecked(name) if raw is None else raw, name)

    def select(self, names: Sequence[str]) -> Table:
        """Some of the columns."""
        for name in names:
            if name not in self._known:
                self.unchecked(name)  # raises, and says what the table has
        return Table(
            names, self.n_rows, self.unchecked, again=lambda _: True,
            raw=self._raw, where=(lambda i: str(self.row(i))) if self._where else None,
            roles={role: name for role, name in self.roles.items() if name in names},
            shelf=self.shelf, told=self.told, head=self.head,
        )  # fmt: skip

    def at_a_time(self, n_threads: int) -> int:
        """How many of its columns so many threads may have in memory at a time: those that are
        read from elsewhere must not add up to what a fit takes (four floats per row)."""
        if self.told is None:
            return n_threads
        return min(n_threads, max(2, READ_BYTES // (BINNING_BYTES * max(1, self.n_rows))))

    def take(self, rows: NDArray[np.bool_]) -> Table:
        """Some of the rows, by a mask."""
        numbers = np.flatnonzero(rows) if self._rows is None else self._rows[rows]
        return Table(
            self.names,
            len(numbers),
            lambda name: self._make(name).take(rows),
            rows=numbers,
            again=self._again,
            where=self._where,
            roles=self.roles,
            told=self.told,
        )

    def below(self, other: Table, called: str = "second table") -> Table:
        """These rows, and the rows of another table with the same columns below them."""

        def make(name: str) -> Column:
            if name not in other:
                raise ValueError(f"column {name!r} is not in the {called}; it has {other.shown}")
            return concat(self[name], other[name])

        return Table(self.names, self.n_rows + other.n_rows, make)


def known_table(table: Any) -> Table | None:
    """The Table that something is, or (a Dataset) has; None: it has yet to be read."""
    found = table if isinstance(table, Table) else getattr(table, "table", None)
    return found if isinstance(found, Table) else None


def read(table: Any) -> Table:
    """Reads any data frame, a 2-d array (columns x0, x1, ...) or a mapping of columns."""
    known = known_table(table)
    if known is not None:
        return known
    if isinstance(table, np.ndarray) and table.ndim == 2 and not table.dtype.names:
        return _read_matrix(table)
    if isinstance(table, Mapping | list | tuple | np.ndarray):
        return _read_columns(table)
    try:
        frame = _frame(table)
        names, n_rows = [_name(name) for name in frame.columns], len(frame)
    except DuplicateError:
        names = [
            str(name) for name in getattr(table, "column_names", getattr(table, "columns", ()))
        ]
        twice = next((name for name in names if names.count(name) > 1), "?")
        raise ValueError(
            f"column {twice!r} is in the table more than once; rename one of them"
        ) from None
    return Table(
        names,
        n_rows,
        lambda name: _read_series(frame.get_column(name), name),
        raw=frame.get_column,
        array=lambda: _small_array(frame),
    )


def _small_array(frame: nw.DataFrame[Any]) -> Any:
    """The cells of a small frame of numbers. Others than pandas would make numbers of dates."""
    if frame.shape[0] * frame.shape[1] > SMALL_FRAME:
        return None
    if not frame.implementation.is_pandas_like() and not all(
        dtype.is_numeric() or dtype == nw.Boolean for dtype in frame.schema.values()
    ):
        return None
    return frame.to_numpy()


def _read_matrix(table: NDArray[Any]) -> Table:
    @cache
    def laid_out() -> NDArray[Any]:
        """With columns that lie together, where the copy is small."""
        small = type(table) is np.ndarray and table.nbytes <= SMALL_ARRAY
        return np.asfortranarray(table) if small else table

    def raw(name: str, of: NDArray[Any] = table) -> Any:
        return of[:, int(name[1:])]

    return Table(
        [f"x{j}" for j in range(table.shape[1])],
        table.shape[0],
        lambda name: read_column(raw(name, laid_out()), name),
        again=lambda name: _is_copied(raw(name, laid_out())),
        raw=raw,
        array=lambda: table,
    )


def _read_columns(table: Any) -> Table:
    """A mapping of columns, a list of rows or a structured array."""
    raw = _raw_columns(table)
    lengths = {name: _length(name, column) for name, column in raw.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise ValueError(
            f"columns differ in length: {short!r} has {lengths[short]} rows, "
            f"{long!r} has {lengths[long]}"
        )
    return Table(
        list(raw),
        next(iter(lengths.values()), 0),
        lambda name: read_column(raw[name], name),
        again=lambda name: _is_copied(raw[name]),
        raw=raw.get,
    )


def _raw_columns(table: Any) -> dict[str, Any]:
    if isinstance(table, Mapping):
        return {_name(name): column for name, column in table.items()}
    if isinstance(table, list | tuple):
        return {f"x{j}": column for j, column in enumerate(_transposed(table))}
    if table.dtype.names:  # a structured array
        return {name: table[name] for name in table.dtype.names}
    raise ValueError(
        f"the table is an array of {table.ndim} dimension(s); expected 2, (rows, columns)"
    )


def _is_copied(found: Any) -> bool:
    """Whether reading an array copies its numbers, which is cheaper to do again than to keep."""
    if type(found) is not np.ndarray or found.dtype.kind not in "biuf":
        return False
    return found.dtype != np.float64 or not found.flags.c_contiguous


def _in_place(found: Any, ndim: int) -> bool:
    """Whether the core can read an array where it lies."""
    return (
        type(found) is np.ndarray
        and found.ndim == ndim
        and found.dtype in IN_PLACE
        and found.flags.aligned
    )


def _transposed(rows: Sequence[Any]) -> list[list[Any]]:
    """The columns of a list of rows."""
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
            raise TypeError(
                f"the table is a list: expected rows of cells, got {_shown(row)} as row {i}; "
                "pass a dict of columns"
            )
        if len(row) != len(rows[0]):
            raise ValueError(
                f"rows differ in length: row 0 has {len(rows[0])} cells, row {i} has {len(row)}"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _frame(table: Any) -> nw.DataFrame[Any]:
    try:
        if hasattr(table, "__arrow_c_array__"):  # a record batch
            return nw.from_arrow(table, backend="pyarrow")
        frame = nw.from_native(table)
    except TypeError:
        frame = None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(
            "the table must be a data frame (pandas, polars, Arrow, ...), a 2-d array or a dict of "
            f"columns; got {type(table).__name__}"
        )
    return frame


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(
            f"column names must be strings; got {name!r} of type {type(name).__name__}; "
            "rename the columns"
        )
    return name


def _length(name: str, column: Any) -> int:
    scalar = isinstance(column, str | bytes) or getattr(column, "ndim", 1) == 0
    if scalar or not hasattr(column, "__len__"):
        raise TypeError(
            f"column {name!r}: expected an array or a series, got {_shown(column)}; give a value "
            "for every row"
        )
    return len(column)


def read_column(values: Any, name: str) -> Column:
    """Reads one column: a series of any library, an array, or a sequence.

    Examples
    --------
    >>> read_column(["b", None, "a"], "job").codes
    array([ 1, -1,  0])
    """
    if isinstance(values, Numbers | Labels):
        return values
    if type(values) is np.ndarray and values.ndim == 1:
        return _read_array(values, name)
    values = _as_series(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _read_series(series, name)
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        pairs = zip(values.data, np.ma.getmaskarray(values), strict=True)
        values = [None if masked else value for value, masked in pairs]
    array = _as_array(values) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 0:
        raise TypeError(f"{name}: expected a value for every row, got {_shown(values)}")
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got an array of shape {array.shape}")
    return _read_array(array, name)


class Chunk(NamedTuple):
    """Cells of a column that goes on elsewhere: numbers, or codes of values that will be levels
    when all of them are known."""

    sort: str  # "numbers", "booleans", "dates", "durations", "text"; "": all are missing
    cells: NDArray[Any]  # floats, or codes with -1 where missing
    values: Sequence[Any] = ()  # that codes stand for
    order: Sequence[Any] | None = None  # that their type declares
    exact: bool = True

    def take(self, rows: Any) -> Chunk:
        """Some of the cells."""
        cells = self.cells[rows]
        gone = cells < 0 if self.sort == "text" else np.isnan(cells)
        return self._replace(sort="" if gone.all() else self.sort, cells=cells)


def read_chunk(values: Any, name: str) -> Chunk:
    """Reads a piece of a column; as `read_column`.

    Examples
    --------
    >>> read_chunk(["b", None, "a"], "job").sort
    'text'
    """
    series = nw.from_native(values, series_only=True, pass_through=True)
    dtype = series.dtype if isinstance(series, nw.Series) else None
    if isinstance(dtype, nw.String | nw.Enum | nw.Categorical):
        codes, found = _coded(series)
        order = dtype.categories if isinstance(dtype, nw.Enum) else None
        missing = [c for c, value in enumerate(found) if _is_missing(value)]
        codes = np.where(np.isin(codes, missing), -1, codes) if missing else codes
        return Chunk("text" if (codes >= 0).any() else "", codes, found, order)
    column = read_column(values, name)
    if isinstance(column, Labels):
        order = column.levels if column is values else None  # it was settled before
        return Chunk("text", column.codes, column.levels, order)
    kinds = {"M": "dates", "m": "durations"}
    sort = kinds.get(getattr(getattr(values, "dtype", None), "kind", ""), "numbers")
    if isinstance(dtype, nw.Datetime | nw.Date | nw.Duration):
        sort = "durations" if isinstance(dtype, nw.Duration) else "dates"
    sort = "booleans" if column.boolean else sort
    return Chunk("" if column.missing.all() else sort, column.values, exact=column.exact)


def _as_series(values: Any) -> Any:
    """A pandas index or extension array as a series; the only column of a data frame."""
    if type(values).__module__.startswith("pandas"):
        if hasattr(values, "to_series"):
            return values.to_series()
        if hasattr(values, "_from_sequence"):  # an extension array, a Categorical for one
            import pandas

            return pandas.Series(values)
    if len(getattr(values, "columns", ())) == 1 and not isinstance(values, np.ndarray):
        frame = nw.from_native(values, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return frame.get_column(frame.columns[0]).to_native()
    return values


def _as_array(values: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    """An array that keeps mixed types apart (NumPy would turn [1, 'a'] into text)."""
    if all(isinstance(v, float | int | np.number) and not isinstance(v, bool) for v in values):
        return np.asarray(values)
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # out[:] = values would unpack lists
        out[i] = value
    return out


def _read_series(series: nw.Series[Any], name: str) -> Column:
    dtype = series.dtype
    if isinstance(dtype, nw.Boolean):
        return Numbers(name, _floats(series), boolean=True)
    if dtype.is_integer():
        return _integers(_floats(series), name)
    if dtype.is_numeric():
        return Numbers(name, _floats(series))
    if isinstance(dtype, nw.String | nw.Enum | nw.Categorical):
        order = dtype.categories if isinstance(dtype, nw.Enum) else None
        return read_categories(*_coded(series), name, order)
    if isinstance(dtype, nw.Datetime | nw.Date):
        return Numbers(name, _floats(series.dt.timestamp("us")) / MICROSECONDS_PER_DAY)
    if isinstance(dtype, nw.Duration):
        return Numbers(name, _floats(series.dt.total_microseconds()) / MICROSECONDS_PER_DAY)
    return _read_objects(series.to_list(), name)


def _floats(series: nw.Series[Any]) -> Floats:
    if not isinstance(series.dtype, nw.Float64):
        try:
            series = series.cast(nw.Float64)
        except ValueError:  # Arrow does not round integers beyond 2^53
            values = series.to_list()
            return np.array([np.nan if v is None else float(v) for v in values])
    return _as_floats(series.to_numpy())


def _as_floats(array: NDArray[Any]) -> Floats:
    """Numbers as the core takes them: one after the other, each at a multiple of its size."""
    floats: Floats = np.ascontiguousarray(array, dtype=np.float64)
    return floats if floats.flags.aligned else floats.copy()


def _integers(values: Floats, name: str) -> Numbers:
    return Numbers(name, values, exact=not np.any(np.abs(values) >= INEXACT_FROM))


def _coded(series: nw.Series[Any]) -> tuple[NDArray[Any], list[Any]]:
    """A code per row (-1: missing) and the values that codes stand for."""
    if len(series) < MANY_CELLS:
        return _coded_cells(series.to_list())
    native, library = series.to_native(), series.implementation
    if library.is_pandas() and hasattr(native, "cat"):
        return native.cat.codes.to_numpy(), native.cat.categories.tolist()
    if library.is_pandas():
        codes, values = native.factorize()
        return codes, values.tolist()
    if library.is_pyarrow():
        return _arrow_codes(native)
    if library.is_polars():
        return _polars_codes(native)
    return _coded_cells(series.to_list())


def _coded_cells(cells: Sequence[Any]) -> tuple[NDArray[Any], list[Any]]:
    found: dict[Any, int] = {}
    codes = (found.setdefault(cell, len(found)) for cell in cells)
    return np.fromiter(codes, dtype=np.int64, count=len(cells)), list(found)


def _arrow_codes(array: Any) -> tuple[NDArray[Any], list[Any]]:
    import pyarrow

    if not pyarrow.types.is_dictionary(array.type):
        array = array.cast(pyarrow.large_string()).dictionary_encode()
    parts = array.unify_dictionaries().chunks
    if not parts:
        return np.empty(0, np.int64), []
    codes = [
        part.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False) for part in parts
    ]
    return np.concatenate(codes), parts[0].dictionary.to_pylist()


def _polars_codes(series: Any) -> tuple[NDArray[Any], list[Any]]:
    """By Arrow's dictionary if there is Arrow, in half of the time."""
    try:
        import pyarrow
    except ImportError:
        pass
    else:
        return _arrow_codes(pyarrow.chunked_array([series.to_arrow()]))
    distinct = series.unique().drop_nulls()
    if series.dtype.base_type().__name__ == "String":
        codes = series.replace_strict(distinct, range(len(distinct)), default=-1)
        return codes.to_numpy(), distinct.to_list()
    order = distinct.to_physical().arg_sort()
    physical = series.to_physical()
    codes = distinct.to_physical().sort().search_sorted(physical.fill_null(0)).to_numpy()
    codes = np.where(physical.is_null().to_numpy(), -1, codes.astype(np.int64))
    return codes, distinct.gather(order).to_list()


def read_categories(
    codes: NDArray[Any], values: list[Any], name: str, order: Sequence[Any] | None = None
) -> Column:
    """Categories of any type as text: numbers as numbers are written, the rest by `str`."""

    def text(value: Any) -> str:
        if type(value) is str:
            return value
        kind = _kind_of(value)
        return (
            format_number(value, kind == "boolean") if kind in ("number", "boolean") else str(value)
        )

    occurs = np.zeros(len(values) + 1, dtype=bool)
    occurs[codes] = True  # the last, at -1: missing
    met = occurs[:-1].tolist()
    occurring = [c for c, value in enumerate(values) if met[c] and not _is_missing(value)]
    if not occurring:
        return Numbers(name, np.full(len(codes), np.nan))
    if order is None and all(_kind_of(values[c]) == "number" for c in occurring):
        order = sorted(values[c] for c in occurring)
    texts = {c: text(values[c]) for c in occurring}
    found = set(texts.values())
    if order is None:
        levels = sorted(found)
    else:
        levels = [level for level in dict.fromkeys(map(text, order)) if level in found]
    position = {level: i for i, level in enumerate(levels)}
    to = [position[texts[c]] if c in texts else -1 for c in range(len(values))]
    return Labels(name, np.array([*to, -1], dtype=np.int64)[codes], tuple(levels))


def _read_array(array: NDArray[Any], name: str) -> Column:
    kind = array.dtype.kind
    if kind == "b":
        return Numbers(name, array.astype(np.float64), boolean=True)
    if kind in "iu":
        return _integers(array.astype(np.float64), name)
    if kind == "f":
        with np.errstate(over="ignore"):  # wider floats may become infinite, which is refused later
            return Numbers(name, _as_floats(array))
    if kind in "Mm":
        return Numbers(name, _days(array, name))
    if kind in "OUT":
        return _read_objects(array.tolist(), name)
    raise TypeError(
        f"column {name!r}: expected numbers, text or dates, got {array.dtype}; convert it"
    )


def _days(stamps: NDArray[Any], name: str) -> Floats:
    """Days since 1970-01-01, or days of a duration, to the microsecond."""
    kind = stamps.dtype.kind
    exact = stamps.astype(f"{kind}8[us]")
    missing = np.isnat(stamps)
    wrapped = (exact.astype(f"{kind}8[D]") != stamps.astype(f"{kind}8[D]")) & ~missing
    if wrapped.any():
        row = int(np.flatnonzero(wrapped)[0])
        raise ValueError(
            f"column {name!r}, row {row}: {stamps[row]} is too far away to count in microseconds; "
            "pass it as a number"
        )
    return np.where(missing, np.nan, exact.astype(np.int64) / MICROSECONDS_PER_DAY)


def _read_objects(values: list[Any], name: str) -> Column:
    if set(map(type, values)) <= {str, type(None)}:
        return read_categories(*_coded_cells(values), name)
    missing = [_is_missing(v) for v in values]
    kinds: dict[str, int] = {}
    example: dict[str, Any] = {}
    for value, absent in zip(values, missing, strict=True):
        if not absent:
            kind = _kind_of(value)
            kinds[kind] = kinds.get(kind, 0) + 1
            example.setdefault(kind, value)
    if set(kinds) == {"boolean"}:
        return Numbers(name, _convert(values, missing, name), boolean=True)
    if set(kinds) <= {"number", "boolean"}:
        return _integers(_convert(values, missing, name), name)
    if set(kinds) == {"text"}:
        texts = [None if m else str(v) for v, m in zip(values, missing, strict=True)]
        return read_categories(*_coded_cells(texts), name)
    if set(kinds) in ({"date"}, {"duration"}):
        stamps = [None if m else _naive(v) for v, m in zip(values, missing, strict=True)]
        return _read_array(np.array(stamps, "M8[us]" if "date" in kinds else "m8[us]"), name)
    found = ", ".join(f"{kind} ({_shown(example[kind])} in {n} rows)" for kind, n in kinds.items())
    raise TypeError(
        f"column {name!r}: expected numbers or text, got {found}; "
        "make it one kind, for instance strings for Category"
    )


def _naive(stamp: Any) -> Any:
    """A stamp without its time zone: in UTC."""
    if getattr(stamp, "tzinfo", None) is None:
        return stamp
    return stamp.astimezone(datetime.UTC).replace(tzinfo=None)


def _convert(values: list[Any], missing: list[bool], name: str) -> Floats:
    out = np.full(len(values), np.nan)
    for row, (value, absent) in enumerate(zip(values, missing, strict=True)):
        if not absent:
            try:
                out[row] = float(value)
            except OverflowError:
                raise ValueError(
                    f"column {name!r}, row {row}: the number is too large for a 64-bit float; "
                    "rescale the column"
                ) from None
    return out


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, datetime.timedelta | np.timedelta64):  # the latter calls itself an integer
        return "duration"
    if isinstance(value, numbers.Real | decimal.Decimal):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, datetime.date | np.datetime64):
        return "date"
    if isinstance(value, numbers.Complex):
        return "complex number"
    return type(value).__name__


def _shown(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def check_finite(column: Column, table: Table | None = None) -> None:
    if isinstance(column, Numbers) and _core.survey(column.values, None)[-1]:
        row = int(np.flatnonzero(np.isinf(column.values))[0])
        raise ValueError(
            f"column {column.name!r}, row {row if table is None else table.row(row)}: the value is "
            "infinite; replace it by a number or mark it as missing"
        )


def concat(first: Column, second: Column) -> Column:
    """The rows of two columns of one name, one below the other."""
    if isinstance(first, Numbers) and isinstance(second, Numbers):
        return Numbers(
            first.name,
            np.concatenate([first.values, second.values]),
            first.boolean and second.boolean,
            first.exact and second.exact,
        )
    if isinstance(first, Labels) and isinstance(second, Labels):
        if first.levels == second.levels:
            codes = np.concatenate([first.codes, second.codes])
            return Labels(first.name, codes, first.levels)
        new = [level for level in second.levels if level not in set(first.levels)]
        levels = (*first.levels, *new)
        position = {level: i for i, level in enumerate(levels)}
        remap = np.array([position[level] for level in second.levels] + [-1], dtype=np.int64)
        return Labels(first.name, np.concatenate([first.codes, remap[second.codes]]), levels)
    if second.missing.all():
        return concat(first, _all_missing(first, len(second)))
    if first.missing.all():
        return concat(_all_missing(second, len(first)), second)
    raise TypeError(
        f"column {first.name!r}: {_kind(first)} in the first table, {_kind(second)} in the second"
    )


def _all_missing(like: Column, n: int) -> Column:
    if isinstance(like, Numbers):
        return Numbers(like.name, np.full(n, np.nan))
    return Labels(like.name, np.full(n, -1, dtype=np.int64), like.levels)


def _kind(column: Column) -> str:
    return "numbers" if isinstance(column, Numbers) else "text"
