"""Any data frame, array, series or list -> `Table` and columns. The only file that knows narwhals.

What single cells mean is decided in cells.py.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from cwboost._utils.checks import first_repeated
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import count, quote

from .cells import (
    as_array,
    as_floats,
    code_cells,
    integer_column,
    is_missing,
    read_array,
    read_categories,
    read_objects,
)
from .chunks import Chunk
from .columns import Column, Floats, Labels, Numbers
from .table import ColumnSource, Table, known_table

IN_PLACE = tuple(map(np.dtype, ("f8", "f4", "i8", "i4", "?")))  # types that the core reads directly
SMALL_ARRAY = 2**25  # bytes of an array up to which all its columns are made contiguous at once
SMALL_FRAME = 2**14  # cells of a data frame up to which an array of them is cheaper than columns
MANY_CELLS = 200  # of text from which on its library codes them faster than a loop does


def read(table: Any) -> Table:
    """Return the Table of any data frame, 2-d array (columns x0, x1, ...) or mapping of columns."""
    known = known_table(table)
    if known is not None:
        return known
    if isinstance(table, np.ndarray) and table.ndim == 2 and not table.dtype.names:
        names = [f"x{j}" for j in range(table.shape[1])]
        plain = np.asarray(table) if isinstance(table, np.matrix) else table
        return Table(names, table.shape[0], _ArrayColumns(plain))
    if isinstance(table, Mapping | list | tuple | np.ndarray):
        return _read_columns(table)
    try:
        frame = _as_frame(table)
        names, n_rows = [_check_name(name) for name in frame.columns], len(frame)
    except DuplicateError:
        columns = getattr(table, "column_names", getattr(table, "columns", ()))
        repeated = first_repeated(map(str, columns)) or "?"
        raise ValueError(
            f"column {quote(repeated)} is in the table more than once; rename one of them"
        ) from None
    return Table(names, n_rows, _FrameColumns(frame))


class _RawColumns(ColumnSource):
    """Columns that a library holds in its own type."""

    def raw(self, name: str) -> Any:
        """Return a column as the library holds it."""
        raise NotImplementedError

    def column(self, name: str) -> Column:
        return read_column(self.raw(name), name)

    def column_once(self, name: str) -> Column | None:
        return read_column(self.raw(name), name)

    def numbers(self, name: str) -> NDArray[Any] | None:
        found = self.raw(name)
        if isinstance(found, nw.Series):
            found = found.to_numpy() if _is_plain(found.dtype) else None
        return found if _in_place(found, 1) else None

    def chunk(self, name: str) -> Chunk | None:
        return read_chunk(self.raw(name), name)


def _is_plain(dtype: Any) -> bool:
    """Whether NumPy has numbers of this type: truth values and numbers of up to 64 bits."""
    return dtype == nw.Boolean or (dtype.is_numeric() and dtype not in (nw.Int128, nw.UInt128))


class _FrameColumns(_RawColumns):
    """The columns of a data frame."""

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self._frame = frame

    def raw(self, name: str) -> nw.Series[Any]:
        return self._frame.get_column(name)

    def column(self, name: str) -> Column:
        return _read_series(self.raw(name), name)

    def array(self) -> NDArray[Any] | None:
        """Return the cells of a small frame of numbers."""
        frame = self._frame
        if frame.shape[0] * frame.shape[1] > SMALL_FRAME:
            return None
        # Other libraries than pandas would turn dates into numbers.
        if not frame.implementation.is_pandas_like() and not all(
            map(_is_plain, frame.schema.values())
        ):
            return None
        try:
            found = frame.to_numpy()
        except TypeError:  # numbers and dates of pandas have no common type
            return None
        return found if _in_place(found, 2) else None


class _ArrayColumns(_RawColumns):
    """The columns of a 2-d array, named x0, x1, ..."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    @cached_property
    def _by_column(self) -> NDArray[Any]:
        """The array with contiguous columns, if the copy is small."""
        small = type(self._array) is np.ndarray and self._array.nbytes <= SMALL_ARRAY
        return np.asfortranarray(self._array) if small else self._array

    def raw(self, name: str) -> NDArray[Any]:
        return self._array[:, int(name[1:])]

    def column(self, name: str) -> Column:
        return read_column(self._by_column[:, int(name[1:])], name)

    def is_reread(self, name: str) -> bool:
        return _is_copied(self._by_column[:, int(name[1:])])

    def array(self) -> NDArray[Any] | None:
        return self._array if _in_place(self._array, 2) else None


class _MappedColumns(_RawColumns):
    """The columns of a mapping."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    def raw(self, name: str) -> Any:
        return self._columns[name]

    def is_reread(self, name: str) -> bool:
        return _is_copied(self._columns[name])


def _read_columns(table: Any) -> Table:
    """Return the Table of a mapping of columns, a list of rows or a structured array."""
    columns = _columns_of(table)
    lengths = {name: _length(name, column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise ValueError(
            f"columns differ in length: {quote(short)} has {count(lengths[short], 'row')}, "
            f"{quote(long)} has {lengths[long]}"
        )
    return Table(list(columns), next(iter(lengths.values()), 0), _MappedColumns(columns))


def _columns_of(table: Any) -> dict[str, Any]:
    if isinstance(table, Mapping):
        return {_check_name(name): column for name, column in table.items()}
    if isinstance(table, list | tuple):
        return {f"x{j}": column for j, column in enumerate(_transposed(table))}
    if table.dtype.names:  # a structured array
        return {name: table[name] for name in table.dtype.names}
    raise ValueError(
        f"the table is an array of {table.ndim} dimension(s); expected 2, (rows, columns)"
    )


def _is_copied(found: Any) -> bool:
    """Return whether reading an array copies it, which is cheaper to repeat than to keep."""
    if type(found) is not np.ndarray or found.dtype.kind not in "biuf":
        return False
    return found.dtype != np.float64 or not found.flags.c_contiguous


def _in_place(found: Any, ndim: int) -> bool:
    """Return whether the core can read an array without a copy."""
    return (
        type(found) is np.ndarray
        and found.ndim == ndim
        and found.dtype in IN_PLACE
        and found.flags.aligned
    )


def _transposed(rows: Sequence[Any]) -> list[list[Any]]:
    """Return the columns of a list of rows."""
    for i, row in enumerate(rows):
        if isinstance(row, str) or not isinstance(row, Sequence | np.ndarray):
            raise TypeError(
                f"the table is a list: expected rows of cells, got {quote(row)} as row {i}; "
                "pass a dict of columns"
            )
        if len(row) != len(rows[0]):
            raise ValueError(
                f"rows differ in length: row 0 has {len(rows[0])} cells, row {i} has {len(row)}"
            )
    return [list(column) for column in zip(*rows, strict=True)]


def _as_frame(table: Any) -> nw.DataFrame[Any]:
    """Return a data frame of any library, collected if it is lazy; raise if it is not one."""
    try:
        if hasattr(table, "__arrow_c_array__"):  # a record batch
            return nw.from_arrow(table, backend="pyarrow")
        frame = nw.from_native(table)
    except TypeError:
        frame = None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if isinstance(table, str | os.PathLike):
        raise TypeError(
            "the table must be a data frame, a 2-d array or a dict of columns; got the path "
            f"{quote(os.fspath(table))}; pass cb.Dataset.from_parquet(path) for Parquet files, and "
            "read other files first, for instance with pandas.read_csv(path)"
        )
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(
            "the table must be a data frame (pandas, polars, Arrow, ...), a 2-d array or a dict of "
            f"columns; got {type(table).__name__}"
        )
    return frame


def _check_name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(
            f"column names must be strings; got {quote(name)} of type {type(name).__name__}; "
            "rename the columns"
        )
    return name


def _length(name: str, column: Any) -> int:
    scalar = isinstance(column, str | bytes) or getattr(column, "ndim", 1) == 0
    if scalar or not hasattr(column, "__len__"):
        raise TypeError(
            f"column {quote(name)}: expected an array or a series, got {quote(column)}; give a "
            "value for every row"
        )
    return len(column)


def read_column(values: Any, name: str) -> Column:
    """Return the column of a series of any library, an array, or a sequence.

    Examples
    --------
    >>> read_column(["b", None, "a"], "job").codes
    array([ 1, -1,  0])
    """
    if isinstance(values, Numbers | Labels):
        return values
    if type(values) is np.ndarray and values.ndim == 1:
        return read_array(values, name)
    values = _as_series(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _read_series(series, name)
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        pairs = zip(values.data, np.ma.getmaskarray(values), strict=True)
        values = [None if masked else value for value, masked in pairs]
    if hasattr(values, "columns"):
        raise TypeError(f"{name}: expected a value for every row, got a table; pass one column")
    array = as_array(values) if isinstance(values, list | tuple) else np.asarray(values)
    if array.ndim == 0:
        raise TypeError(f"{name}: expected a value for every row, got {quote(values)}")
    if array.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got an array of shape {array.shape}")
    return read_array(array, name)


def read_chunk(values: Any, name: str) -> Chunk:
    """Return a chunk of a column; takes what `read_column` takes.

    Examples
    --------
    >>> read_chunk(["b", None, "a"], "job").kind
    'text'
    """
    series = nw.from_native(values, series_only=True, pass_through=True)
    dtype = series.dtype if isinstance(series, nw.Series) else None
    if isinstance(dtype, nw.String | nw.Enum | nw.Categorical):
        codes, found = _code_text(series, name)
        order = _declared_order(series)
        missing = [c for c, value in enumerate(found) if is_missing(value)]
        codes = np.where(np.isin(codes, missing), -1, codes) if missing else codes
        return Chunk("text" if (codes >= 0).any() else "", codes, found, order)
    column = read_column(values, name)
    if column is values:
        return Chunk.of_column(column)
    if isinstance(column, Labels):
        return Chunk("text", column.codes, column.levels)
    return Chunk.of_numbers(column)


def _as_series(values: Any) -> Any:
    """Return a series of a pandas index, an extension array, an Arrow array, or a data frame with
    one column."""
    if type(values).__module__ == "pyarrow.lib" and hasattr(values, "dictionary_encode"):
        import pyarrow

        is_chunked = isinstance(values, pyarrow.ChunkedArray)
        return values if is_chunked else pyarrow.chunked_array([values])
    if type(values).__module__.startswith("pandas"):
        if hasattr(values, "to_series"):
            return values.to_series()
        if hasattr(values, "_from_sequence"):  # an extension array such as a Categorical
            import pandas

            return pandas.Series(values)
    if len(getattr(values, "columns", ())) == 1 and not isinstance(values, np.ndarray):
        frame = nw.from_native(values, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return frame.get_column(frame.columns[0]).to_native()
    return values


def _read_series(series: nw.Series[Any], name: str) -> Column:
    dtype = series.dtype
    if isinstance(dtype, nw.Boolean):
        return Numbers(name, _floats(series), boolean=True)
    if dtype.is_integer():
        return integer_column(_floats(series), name)
    if dtype.is_numeric():
        return Numbers(name, _floats(series))
    if isinstance(dtype, nw.String | nw.Enum | nw.Categorical):
        return read_categories(*_code_text(series, name), name, _declared_order(series))
    if isinstance(dtype, nw.Datetime | nw.Date | nw.Duration):
        return read_array(_stamps(series), name)
    native = series.to_native()
    if str(getattr(native, "type", "")).startswith("date64"):  # narwhals does not know it
        return read_array(np.asarray(native.cast("timestamp[ms]")), name)
    return read_objects(series.to_list(), name)


def _declared_order(series: nw.Series[Any]) -> Sequence[Any] | None:
    """Return the categories in the order that their type declares; None if it declares none."""
    dtype = series.dtype
    if isinstance(dtype, nw.Enum):
        return dtype.categories
    native = series.to_native()
    if series.implementation.is_pyarrow() and getattr(native.type, "ordered", False):
        return _arrow_codes(native)[1]
    return None


def _stamps(series: nw.Series[Any]) -> NDArray[Any]:
    """Return dates, times (in UTC) or durations as NumPy has them, in their own unit."""
    if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None:
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if isinstance(series.dtype, nw.Date) and not series.implementation.is_polars():
        import pyarrow  # without it, pandas has no dates

        native = series.to_native()
        dates = native if series.implementation.is_pyarrow() else pyarrow.array(native)
        return np.asarray(dates.cast(pyarrow.timestamp("ms")))
    return series.to_numpy()


def _floats(series: nw.Series[Any]) -> Floats:
    if isinstance(series.dtype, nw.Decimal) and not series.implementation.is_polars():
        series = series.cast(nw.String)  # Arrow turns decimals into other floats than their text
    if not isinstance(series.dtype, nw.Float64):
        try:
            series = series.cast(nw.Float64)
        except ValueError:  # Arrow does not round integers beyond 2^53
            values = series.to_list()
            return np.array([np.nan if v is None else float(v) for v in values])
    return as_floats(series.to_numpy())


def _code_text(series: nw.Series[Any], name: str) -> tuple[NDArray[Any], list[Any]]:
    """Return a code per row (-1 where missing), and the values by code."""
    try:
        return _codes(series)
    except OverflowError:
        raise ValueError(
            f"column {quote(name)}: a category is a date out of the range of Python's dates; pass "
            "the categories as text"
        ) from None


def _codes(series: nw.Series[Any]) -> tuple[NDArray[Any], list[Any]]:
    if len(series) < MANY_CELLS:
        return code_cells(series.to_list())
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
    return code_cells(series.to_list())


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
    """As `_code_text`. Arrow, if installed, needs half of the time."""
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
