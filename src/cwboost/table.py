"""Any data frame -> typed columns. The only file that knows narwhals.

Knows how tables, series and arrays of other libraries are read, and what their cells mean; knows
nothing of bins, learners or models. A column is one of two things:

- `Numbers`: float64, NaN where missing. Integers, floats, decimals and booleans; dates and
  datetimes are days since 1970-01-01, durations are days.
- `Labels`: text levels and a code per row, -1 where missing. Strings and categorical columns.
"""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MICROSECONDS_PER_DAY = 86_400e6
MAX_EXACT_INTEGER = 2**53  # beyond it neighbouring integers are one float


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
        distinct, codes = np.unique(self.values[~self.missing], return_inverse=True)
        all_codes = np.full(len(self), -1, dtype=np.int64)
        all_codes[~self.missing] = codes
        return Labels(self.name, all_codes, tuple(format_number(v, self.boolean) for v in distinct))


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

    def labels(self) -> Labels:
        return self

    def to_objects(self) -> NDArray[np.object_]:
        """The text of every row, None where missing."""
        return np.array([*self.levels, None], dtype=object)[self.codes]


Column = Numbers | Labels


def format_number(value: float, boolean: bool = False) -> str:
    """Text of a number as a level: 3.0 -> '3', 2.5 -> '2.5', True -> 'True'."""
    if boolean:
        return str(bool(value))
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class Table:
    """Named columns of one length, converted when first asked for."""

    def __init__(self, names: Sequence[str], n_rows: int, make: Callable[[str], Column]) -> None:
        self.names = tuple(names)
        self.n_rows = n_rows
        self._make = make
        self._made: dict[str, Column] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Column:
        if name not in self._made:
            if name not in self.names:
                shown = ", ".join(map(repr, self.names[:10])) + (", ..." * (len(self.names) > 10))
                raise ValueError(f"column {name!r} is not in the table; it has {shown or 'none'}")
            self._made[name] = self._make(name)
        return self._made[name]

    def take(self, rows: NDArray[Any]) -> Table:
        """Some of the rows, by a mask."""
        return Table(self.names, int(rows.sum()), lambda name: self[name].take(rows))

    def below(self, other: Table) -> Table:
        """These rows, and the rows of another table with the same columns below them."""
        n_rows = self.n_rows + other.n_rows
        return Table(self.names, n_rows, lambda name: concat(self[name], other[name]))


def read(table: Any) -> Table:
    """Reads any data frame, a 2-d array (columns x0, x1, ...) or a mapping of columns."""
    if isinstance(table, Table):
        return table
    raw = _raw_columns(table)
    lengths = {name: _length(name, column) for name, column in raw.items()}
    if len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        raise ValueError(
            f"columns differ in length: {short!r} has {lengths[short]} rows, "
            f"{long!r} has {lengths[long]}"
        )

    def make(name: str) -> Column:
        column = read_column(raw[name], name)
        check_finite(column)
        return column

    return Table(list(raw), next(iter(lengths.values()), 0), make)


def _raw_columns(table: Any) -> dict[str, Any]:
    if isinstance(table, Mapping):
        return {_name(name): column for name, column in table.items()}
    if isinstance(table, list | tuple):
        table = np.asarray(table)
    if isinstance(table, np.ndarray):
        if table.ndim != 2:
            raise ValueError(
                f"the table is an array of {table.ndim} dimension(s); expected 2, (rows, columns)"
            )
        return {f"x{j}": table[:, j] for j in range(table.shape[1])}
    native_names = [_name(name) for name in getattr(table, "columns", ()) if isinstance(name, str)]
    _refuse_duplicates(native_names)
    try:
        frame = nw.from_native(table)
    except TypeError:
        frame = None
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise TypeError(
            "the table must be a data frame (pandas, polars, Arrow, ...), a 2-d array or a dict of "
            f"columns; got {type(table).__name__}"
        )
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    _refuse_duplicates(frame.columns)
    return {_name(name): frame.get_column(name) for name in frame.columns}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(
            f"column names must be strings; got {name!r} of type {type(name).__name__}; "
            "rename the columns"
        )
    return name


def _refuse_duplicates(names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"column {name!r} is in the table more than once; rename one of them")
        seen.add(name)


def _length(name: str, column: Any) -> int:
    try:
        return len(column)
    except TypeError:
        raise TypeError(
            f"column {name!r}: expected an array or a series, got {type(column).__name__}"
        ) from None


def read_column(values: Any, name: str) -> Column:
    """Reads one column: a series of any library, an array, or a sequence.

    Examples
    --------
    >>> read_column(["b", None, "a"], "job").codes
    array([ 1, -1,  0])
    """
    if isinstance(values, Numbers | Labels):
        return values
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return _read_series(series, name)
    array = np.asarray(series) if not isinstance(series, list | tuple) else _as_array(series)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{name!r}: expected one dimension, got an array of shape {array.shape}")
    return _read_array(array, name)


def _as_array(values: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    """An array that keeps mixed types apart (NumPy would turn [1, 'a'] into text)."""
    if all(isinstance(v, float | int | np.number) and not isinstance(v, bool) for v in values):
        return np.asarray(values)
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _read_series(series: nw.Series[Any], name: str) -> Column:
    dtype = series.dtype
    if isinstance(dtype, nw.Boolean):
        return Numbers(name, _floats(series), boolean=True)
    if dtype.is_integer():
        return _integers(series, name)
    if dtype.is_numeric():
        return Numbers(name, _floats(series))
    if isinstance(dtype, nw.Enum):
        return _labels(name, _objects(series.cast(nw.String)), order=tuple(dtype.categories))
    if isinstance(dtype, nw.String | nw.Categorical):
        return _labels(name, _objects(series.cast(nw.String)))
    if isinstance(dtype, nw.Datetime | nw.Date):
        return Numbers(name, _floats(series.dt.timestamp("us")) / MICROSECONDS_PER_DAY)
    if isinstance(dtype, nw.Duration):
        return Numbers(name, _floats(series.dt.total_microseconds()) / MICROSECONDS_PER_DAY)
    return _read_array(np.asarray(series.to_numpy()), name)


def _floats(series: nw.Series[Any]) -> Floats:
    return np.ascontiguousarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)


def _objects(series: nw.Series[Any]) -> list[Any]:
    return list(series.to_list())


def _integers(series: nw.Series[Any], name: str) -> Numbers:
    values = _floats(series)
    return Numbers(name, values, exact=not np.any(np.abs(values) > MAX_EXACT_INTEGER))


def _read_array(array: NDArray[Any], name: str) -> Column:
    kind = array.dtype.kind
    if kind == "b":
        return Numbers(name, array.astype(np.float64), boolean=True)
    if kind in "iu":
        values = array.astype(np.float64)
        return Numbers(name, values, exact=not np.any(np.abs(values) > MAX_EXACT_INTEGER))
    if kind == "f":
        return Numbers(name, np.ascontiguousarray(array, dtype=np.float64))
    if kind in "Mm":
        days = array.astype(f"{kind}8[us]").astype(np.int64) / MICROSECONDS_PER_DAY
        return Numbers(name, np.where(np.isnat(array), np.nan, days))
    if kind in "OU" or array.dtype.kind == "T":
        return _read_objects(list(array), name)
    raise TypeError(
        f"column {name!r}: expected numbers, text or dates, got {array.dtype} "
        f"({_kind_of(array[0]) if len(array) else 'no'} values); convert it first"
    )


def _read_objects(values: list[Any], name: str) -> Column:
    missing = [_is_missing(v) for v in values]
    kinds: dict[str, int] = {}
    example: dict[str, Any] = {}
    for value, absent in zip(values, missing, strict=True):
        if not absent:
            kind = _kind_of(value)
            kinds[kind] = kinds.get(kind, 0) + 1
            example.setdefault(kind, value)
    if set(kinds) <= {"boolean"} and kinds:
        return Numbers(name, _convert(values, missing, name), boolean=True)
    if set(kinds) <= {"number", "boolean"}:
        floats = _convert(values, missing, name)
        return Numbers(name, floats, exact=not np.any(np.abs(floats) > MAX_EXACT_INTEGER))
    if set(kinds) == {"text"}:
        return _labels(name, [None if m else str(v) for v, m in zip(values, missing, strict=True)])
    if set(kinds) == {"date"}:
        stamps = np.array(
            [None if m else v for v, m in zip(values, missing, strict=True)], "M8[us]"
        )
        return _read_array(stamps, name)
    found = ", ".join(f"{kind} ({example[kind]!r} in {n} rows)" for kind, n in kinds.items())
    raise TypeError(
        f"column {name!r}: expected numbers or text, got {found}; "
        "make it one kind, for instance strings for Category"
    )


def _convert(values: list[Any], missing: list[bool], name: str) -> Floats:
    out = np.full(len(values), np.nan)
    for row, (value, absent) in enumerate(zip(values, missing, strict=True)):
        if not absent:
            try:
                out[row] = float(value)
            except OverflowError:
                raise ValueError(
                    f"column {name!r}, row {row}: an integer of {len(str(value))} digits does not "
                    "fit a 64-bit float; rescale the column"
                ) from None
    return out


def _is_missing(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | decimal.Decimal) and bool(value != value)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, numbers.Real | decimal.Decimal | np.number) and not np.iscomplexobj(value):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, datetime.date | np.datetime64):
        return "date"
    if isinstance(value, complex | np.complexfloating):
        return "complex number"
    return type(value).__name__


def _labels(name: str, values: list[str | None], order: tuple[str, ...] | None = None) -> Labels:
    found: dict[str, int] = {}
    codes = np.fromiter(
        (-1 if v is None else found.setdefault(v, len(found)) for v in values),
        dtype=np.int64,
        count=len(values),
    )
    levels = sorted(found) if order is None else [level for level in order if level in found]
    position = {level: i for i, level in enumerate(levels)}
    remap = np.array([position[level] for level in found] + [-1], dtype=np.int64)
    return Labels(name, remap[codes], tuple(levels))


def check_finite(column: Column) -> None:
    if isinstance(column, Numbers) and np.isinf(column.values).any():
        row = int(np.flatnonzero(np.isinf(column.values))[0])
        raise ValueError(
            f"column {column.name!r}, row {row}: the value is infinite; "
            "replace it by a number or mark it as missing"
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
    if all(column.missing.all() for column in (second,)):
        return concat(first, _all_missing(first, len(second)))
    raise TypeError(
        f"column {first.name!r}: {_kind(first)} in the first table, {_kind(second)} in the second"
    )


def _all_missing(like: Column, n: int) -> Column:
    if isinstance(like, Numbers):
        return Numbers(like.name, np.full(n, np.nan))
    return Labels(like.name, np.full(n, -1, dtype=np.int64), like.levels)


def _kind(column: Column) -> str:
    return "numbers" if isinstance(column, Numbers) else "text"
