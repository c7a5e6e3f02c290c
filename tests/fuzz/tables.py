"""Random tables of every column type, given as every kind of table that cwboost reads.

Most columns are ordinary, some are odd (huge, missing, nested ...), so that most fits succeed. Does
not know what is done with the tables.
"""

from __future__ import annotations

import datetime as dt
import decimal
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import cwboost as cb

Rng = np.random.Generator
Columns = dict[str, Any]

ODD_NAMES = ["", " ", "y", "x:y", "a b", "`", '"', "\n", "é", "名", "\ud800", "a.b", "None", "0",
             "<b>&amp;</b>", "'; DROP TABLE t; --", "score", "x" * 300, "__index__"]  # fmt: skip
ODD_LEVELS = ["", " ", "nan", "None", "NULL", "é", "\ud800", "a\0b", "1", "1.0", "True", "x" * 400,
              "<script>", "\n", "'"]  # fmt: skip
HUGE = [1e300, -1e300, 1.7e308, -1.7e308, 5e-324, 1e-310, -1e-300, 2.0**53 + 2, 0.0, -0.0, 1.0]
INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


def pick(rng: Rng, options: Any) -> Any:
    """Return one of the options at random, whatever their types are."""
    options = list(options)
    return options[rng.integers(len(options))]


def random_size(rng: Rng) -> int:
    """Return a number of rows: mostly few, sometimes 0 or 1, at most 300."""
    return (
        0
        if rng.uniform() < 0.01
        else int(pick(rng, [1, 2, 3, 5, 8, 12, 20, 20, 35, 35, 60, 60, 60, 60, 120, 300]))
    )


# --- ordinary columns -----------------------------------------------------------------------------


def normal(rng: Rng, n: int) -> Any:
    return rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)


def few_numbers(rng: Rng, n: int) -> Any:
    return rng.integers(0, int(rng.integers(1, 8)), n).astype(float)


def with_missing(rng: Rng, n: int) -> Any:
    return np.where(rng.uniform(size=n) < rng.uniform(0, 0.6), np.nan, rng.normal(size=n))


def integers(rng: Rng, n: int) -> Any:
    kind = np.dtype(pick(rng, INTEGERS))
    ends = np.iinfo(kind)
    wide = rng.uniform() < 0.2
    low, high = (max(ends.min, -(2**53)), min(ends.max, 2**53)) if wide else (0, 100)
    return rng.integers(low, high, n).astype(kind)


def booleans(rng: Rng, n: int) -> Any:
    return rng.uniform(size=n) < rng.uniform()


def text(rng: Rng, n: int) -> Any:
    levels = [f"level {k}" for k in range(int(rng.integers(1, 12)))]
    return np.array([pick(rng, levels) for _ in range(n)], dtype=object)


def text_with_missing(rng: Rng, n: int) -> Any:
    out = text(rng, n)
    out[rng.uniform(size=n) < 0.3] = None
    return out


def skewed(rng: Rng, n: int) -> Any:
    return np.exp(rng.normal(size=n) * rng.uniform(0, 8))


ORDINARY = (normal, few_numbers, with_missing, integers, booleans, text, text_with_missing, skewed)

# --- odd columns ----------------------------------------------------------------------------------


def constant(rng: Rng, n: int) -> Any:
    return np.full(n, pick(rng, [0.0, 1.0, -1e300, 5e-324, 1e15]))


def all_missing(rng: Rng, n: int) -> Any:
    return pick(rng, [np.full(n, np.nan), np.full(n, None, dtype=object)])


def infinite(rng: Rng, n: int) -> Any:
    return np.where(rng.uniform(size=n) < 0.2, pick(rng, [np.inf, -np.inf]), rng.normal(size=n))


def huge(rng: Rng, n: int) -> Any:
    return np.array([pick(rng, HUGE) for _ in range(n)], dtype=float)


def nearly_constant(rng: Rng, n: int) -> Any:
    base = pick(rng, [1.0, 1e15, 1e-300])
    return np.nextafter(base, np.where(rng.uniform(size=n) < 0.5, np.inf, -np.inf))


def small_floats(rng: Rng, n: int) -> Any:
    with np.errstate(over="ignore"):
        return normal(rng, n).astype(pick(rng, ["f2", "f4", np.longdouble]))


def odd_text(rng: Rng, n: int) -> Any:
    return np.array([pick(rng, [*ODD_LEVELS, None]) for _ in range(n)], dtype=object)


def fixed_text(rng: Rng, n: int) -> Any:
    return text(rng, n).astype("U7")


def distinct_text(rng: Rng, n: int) -> Any:
    return np.array([f"id {k}" for k in range(n)], dtype=object)


def dates(rng: Rng, n: int) -> Any:
    unit = pick(rng, ["Y", "M", "D", "h", "s", "ms", "us", "ns"])
    span = 10 ** int(rng.integers(1, 18)) if rng.uniform() < 0.2 else 100
    out = rng.integers(-span, span + 1, n).astype(f"M8[{unit}]")
    out[rng.uniform(size=n) < 0.1] = np.datetime64("NaT")
    return out


def durations(rng: Rng, n: int) -> Any:
    unit = pick(rng, ["D", "h", "s", "ms", "us", "ns"])
    span = 10 ** int(rng.integers(1, 18)) if rng.uniform() < 0.2 else 100
    return rng.integers(-span, span + 1, n).astype(f"m8[{unit}]")


def date_objects(rng: Rng, n: int) -> Any:
    zone = dt.timezone(dt.timedelta(hours=5))
    days = [dt.date(2020, 1, 1), dt.datetime(1, 1, 1), dt.datetime(9999, 12, 30, 23),
            dt.datetime(2020, 6, 1, tzinfo=zone)]  # fmt: skip
    day = pick(rng, days)
    steps = rng.integers(0, 2, n)
    return np.array([day + dt.timedelta(hours=int(k)) for k in steps] + [None], dtype=object)[:n]


def decimals(rng: Rng, n: int) -> Any:
    return [decimal.Decimal(int(k)) / 8 for k in rng.integers(-99, 99, n)]


def nested(rng: Rng, n: int) -> Any:
    cell = pick(rng, [[1, 2], {"a": 1}, (), {1}])
    out = np.empty(n, dtype=object)
    out[:] = [cell] * n
    return out


def mixed(rng: Rng, n: int) -> Any:
    cells = [1, "a", None, 2.5, True, np.nan, dt.date(2020, 1, 1), b"x", 10**400, 1j, object]
    return np.array([pick(rng, cells) for _ in range(n)] + [None], dtype=object)[:n]


def other_types(rng: Rng, n: int) -> Any:
    kind = pick(rng, ["c16", "S3", "V2", "O"])
    return np.zeros(n, dtype=kind)


def big_integers(rng: Rng, n: int) -> Any:
    return (np.arange(n) + 2 ** pick(rng, [53, 60, 62])).astype("i8")


def wrong_length(rng: Rng, n: int) -> Any:
    return rng.normal(size=n + int(rng.integers(1, 3)))


def wrong_shape(rng: Rng, n: int) -> Any:
    return pick(rng, [rng.normal(size=(n, 2)), rng.normal(size=(n, 0)), 3.0, None, "abc", iter([])])


ODD = (constant, all_missing, infinite, huge, nearly_constant, small_floats, odd_text, fixed_text,
       distinct_text, dates, durations, date_objects, decimals, nested, mixed, other_types,
       big_integers, wrong_length, wrong_shape)  # fmt: skip
MILD = (constant, all_missing, small_floats, fixed_text, distinct_text, dates, durations, decimals,
        nearly_constant)  # fmt: skip


def random_columns(rng: Rng, n: int, odd: float = 0.2, mild: bool = False) -> Columns:
    """Return columns with their names; a share `odd` is unusual, but valid if `mild`."""
    out: Columns = {}
    none = not mild and rng.uniform() < 0.01
    for k in range(0 if none else int(pick(rng, [1, 1, 2, 2, 3, 4, 6]))):
        unusual = rng.uniform() < odd
        make: Callable[[Rng, int], Any] = pick(
            rng, (MILD if mild else ODD) if unusual else ORDINARY
        )
        name = pick(rng, ODD_NAMES) if rng.uniform() < odd / 3 else f"x{k}"
        out[name] = make(rng, n)
    return out


# --- libraries ------------------------------------------------------------------------------------


def as_table(rng: Rng, columns: Columns, tried: list[str]) -> Any:
    """Return the columns as a table of a random library, or as a dict if it refuses them."""
    library = pick(rng, list(LIBRARIES))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = LIBRARIES[library](rng, columns)
    except Exception:  # of the library: it does not have such columns
        library, table = "dict", columns
    tried.append(f"table: {library} of {describe(columns)}")
    return table


def describe(columns: Columns) -> str:
    """Return the names and types of columns."""
    return ", ".join(f"{name[:20]!r} {_type_of(column)}" for name, column in columns.items())


def _type_of(column: Any) -> str:
    kind = getattr(column, "dtype", type(column).__name__)
    return f"{kind}{getattr(column, 'shape', '')}"


def _as_dict(rng: Rng, columns: Columns) -> Any:
    return {name: c.tolist() if isinstance(c, np.ndarray) and rng.uniform() < 0.2 else c
            for name, c in columns.items()}  # fmt: skip


def _as_numpy(rng: Rng, columns: Columns) -> Any:
    return np.column_stack([np.asarray(c) for c in columns.values()])


def _as_structured(rng: Rng, columns: Columns) -> Any:
    return np.rec.fromarrays(
        [np.asarray(c) for c in columns.values()], names=[name or "none" for name in columns]
    ).view(np.ndarray)


def _as_pandas(rng: Rng, columns: Columns) -> Any:
    frame = pd.DataFrame(columns)
    if rng.uniform() < 0.2:
        frame.index = rng.permutation(len(frame)) + 5
    if rng.uniform() < 0.04:
        frame = pd.concat([frame, frame.iloc[:, :1]], axis=1)
    return pd.concat([_pandas_type(rng, frame.iloc[:, j]) for j in range(frame.shape[1])], axis=1)


def _pandas_type(rng: Rng, series: Any) -> Any:
    kinds = [None, None, "category", "string", "boolean", "Int64", "Float64", "Float32", "object",
             "string[pyarrow]", "arrow", "UInt8", "ordered", "datetime64[ns, UTC]"]  # fmt: skip
    kind = pick(rng, kinds)
    try:
        if kind == "arrow":
            return series.convert_dtypes(dtype_backend="pyarrow")
        if kind == "ordered":
            levels = sorted(series.dropna().unique().tolist())
            return series.astype(pd.CategoricalDtype(levels, ordered=True))
        return series if kind is None else series.astype(kind)
    except Exception:  # the values do not have this type
        return series


def _as_polars(rng: Rng, columns: Columns) -> Any:
    kinds = [None, None, pl.Categorical, pl.Float32, pl.Decimal(20, 3), pl.Int128, pl.String,
             pl.List(pl.Float64), pl.Datetime("us", "Europe/Berlin"), pl.Time]  # fmt: skip
    out = []
    for name, column in columns.items():
        series = pl.Series(name, column, strict=False)
        kind = pick(rng, kinds)
        try:
            out.append(series if kind is None else series.cast(kind))
        except Exception:  # the values do not have this type
            out.append(series)
    frame = pl.DataFrame(out)
    return frame.lazy() if rng.uniform() < 0.03 else frame


def _as_arrow(rng: Rng, columns: Columns) -> Any:
    kinds = [None, None, "dictionary", pa.float16(), pa.float32(), pa.decimal128(30, 4),
             pa.string(), pa.large_string(), pa.timestamp("ms", "UTC"), pa.date64(),
             pa.list_(pa.float64())]  # fmt: skip
    arrays = []
    for column in columns.values():
        array = pa.array(column, from_pandas=bool(rng.uniform() < 0.5))
        kind = pick(rng, kinds)
        with suppress(pa.ArrowException):  # the values do not have this type
            if kind == "dictionary":
                array = array.dictionary_encode()
            elif kind is not None:
                array = array.cast(kind)
        arrays.append(array)
    table = pa.table(arrays, names=list(columns))
    if rng.uniform() < 0.3 and len(table):
        cut = int(rng.integers(0, len(table)))
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    return table.to_reader() if rng.uniform() < 0.03 else table


def _as_dataset(rng: Rng, columns: Columns) -> Any:
    table = pa.table([pa.array(c, from_pandas=True) for c in columns.values()], list(columns))
    return cb.Dataset.from_batches(in_batches(rng, table))


def in_batches(rng: Rng, table: Any) -> Iterator[Any]:
    """Yield an Arrow table in pieces of random size."""
    step = max(1, len(table) // int(rng.integers(1, 4)))
    for at in range(0, len(table), step):
        yield table.slice(at, step)


LIBRARIES: dict[str, Callable[[Rng, Columns], Any]] = {
    "dict": _as_dict,
    "numpy": _as_numpy,
    "structured numpy": _as_structured,
    "pandas": _as_pandas,
    "polars": _as_polars,
    "arrow": _as_arrow,
    "dataset": _as_dataset,
}
