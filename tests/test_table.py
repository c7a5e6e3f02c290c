"""Tests of reading tables: all libraries give the same typed columns and exactly the same model."""

import datetime as dt
import decimal
import fractions
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import cwboost as cb
from cwboost.frames.columns import Labels, Numbers, concat, format_number
from cwboost.frames.read_frames import read, read_column

try:
    import duckdb
except ImportError:  # optional: another library that narwhals reads
    duckdb = None

NAN = float("nan")
DAY, NOON = dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 12)
DAYS = 18263.0  # from 1970-01-01 to DAY
BERLIN = dt.timezone(dt.timedelta(hours=1))


def plain_values(column):
    """Return a column as plain values: numbers or text, and None for missing cells."""
    if isinstance(column, Labels):
        return list(column.to_cells())
    return [None if np.isnan(v) else v for v in column.values.tolist()]


def arrow_backed(values, kind):
    return pd.Series(values, dtype=pd.ArrowDtype(kind))


TEXT = {
    "list": ["b", "a", None, "b"],
    "tuple": ("b", "a", None, "b"),
    "numpy object": np.array(["b", "a", None, "b"], dtype=object),
    "numpy strings": np.array(["b", "a", NAN, "b"], dtype=np.dtypes.StringDType(na_object=NAN)),
    "numpy masked": np.ma.array(["b", "a", "a", "b"], mask=[0, 0, 1, 0]),
    "pandas": pd.Series(["b", "a", None, "b"]),
    "pandas object": pd.Series(["b", "a", None, "b"], dtype=object),
    "pandas object nan": pd.Series(["b", "a", NAN, "b"], dtype=object),
    "pandas string": pd.Series(["b", "a", None, "b"], dtype="string"),
    "pandas arrow": arrow_backed(["b", "a", None, "b"], pa.string()),
    "pandas arrow codes": arrow_backed(["b", "a", None, "b"], pa.dictionary(pa.int8(), pa.utf8())),
    "pandas category": pd.Series(["b", "a", None, "b"], dtype="category"),
    "pandas categorical": pd.Categorical(["b", "a", None, "b"]),
    "pandas unused category": pd.Series(pd.Categorical(["b", "a", None, "b"], list("zba"))),
    "pandas index": pd.Index(["b", "a", None, "b"]),
    "polars": pl.Series(["b", "a", None, "b"]),
    "polars categorical": pl.Series(["b", "a", None, "b"], dtype=pl.Categorical),
    "arrow": pa.array(["b", "a", None, "b"]),
    "arrow large": pa.chunked_array([["b", "a"], [None, "b"]], pa.large_string()),
    "arrow view": pa.chunked_array([["b", "a"], [None, "b"]], pa.string_view()),
    "arrow dictionary": pa.chunked_array([["b", "a"], [None, "b"]]).dictionary_encode(),
    "arrow different dictionaries": pa.chunked_array(
        [pa.array(["b", "a"]).dictionary_encode(), pa.array([None, "b"]).dictionary_encode()]
    ),
}  # fmt: skip
ARROW_ORDERED = pa.DictionaryArray.from_arrays([1, 2, None, 1], ["z", "b", "a"], ordered=True)
ORDERED = {
    "pandas": pd.Series(pd.Categorical(["b", "a", None, "b"], ["z", "b", "a"], ordered=True)),
    "polars enum": pl.Series(["b", "a", None, "b"], dtype=pl.Enum(["z", "b", "a"])),
    "arrow dictionary": ARROW_ORDERED,
    "arrow chunks": pa.chunked_array([ARROW_ORDERED]),
}  # fmt: skip
NUMBERS = {
    "list": [1, 3, None, 2],
    "floats": [1.0, 3.0, NAN, 2.0],
    "mixed numbers": [1, 3.0, NAN, np.int8(2)],
    "fractions": [fractions.Fraction(1), 3, None, decimal.Decimal("2.0")],
    "signalling": [1, 3, decimal.Decimal("sNaN"), 2],
    "numpy float": np.array([1, 3, NAN, 2]),
    "numpy float32": np.array([1, 3, NAN, 2], dtype=np.float32),
    "numpy float16": np.array([1, 3, NAN, 2], dtype=np.float16),
    "numpy long": np.array([1, 3, NAN, 2], dtype=np.longdouble),
    "numpy big-endian": np.array([1, 3, NAN, 2], dtype=">f8"),
    "numpy strided": np.array([1, 0, 3, 0, NAN, 0, 2, 0])[::2],
    "numpy not aligned": np.array([(0, 1), (0, 3), (0, NAN), (0, 2)], "i1, f8")["f1"],
    "numpy not aligned, together": np.frombuffer(
        b" " + np.array([1, 3, NAN, 2]).tobytes(), "f8", offset=1
    ),
    "numpy column": np.array([[1], [3], [NAN], [2]]),
    "numpy object": np.array([1, 3.0, None, 2], dtype=object),
    "numpy masked": np.ma.array([1, 3, 7, 2], mask=[0, 0, 1, 0]),
    "numpy masked column": np.ma.array([[1], [3], [7], [2]], mask=[[0], [0], [1], [0]]),
    "pandas": pd.Series([1, 3, None, 2]),
    "pandas Int64": pd.Series([1, 3, None, 2], dtype="Int64"),
    "pandas UInt8": pd.Series([1, 3, None, 2], dtype="UInt8"),
    "pandas Float32": pd.Series([1, 3, None, 2], dtype="Float32"),
    "pandas object": pd.Series([1, 3, None, 2], dtype=object),
    "pandas decimal": pd.Series([decimal.Decimal(1), decimal.Decimal(3), None, decimal.Decimal(2)]),
    "pandas arrow": arrow_backed([1, 3, None, 2], pa.int16()),
    "pandas arrow float": arrow_backed([1, 3, None, 2], pa.float64()),
    "pandas sparse": pd.Series(pd.arrays.SparseArray([1, 3, NAN, 2])),
    "pandas odd index": pd.Series([1, 3, None, 2], index=[5, 5, 0, -1]),
    "polars": pl.Series([1, 3, None, 2]),
    "polars float": pl.Series([1.0, 3.0, NAN, 2.0]),
    "polars uint": pl.Series([1, 3, None, 2], dtype=pl.UInt16),
    "polars decimal": pl.Series([decimal.Decimal(v) if v else None for v in ("1", "3", "", "2")]),
    "arrow": pa.array([1, 3, None, 2]),
    "arrow chunks": pa.chunked_array([[1, 3], [], [None, 2]]),
    "arrow half": pa.chunked_array([pa.array([1.0, 3.0, None, 2.0], pa.float16())]),
    "arrow decimal": pa.array([1, 3, None, 2]).cast(pa.decimal128(30, 2)),
}
BOOLEANS = {
    "list": [True, False, None],
    "pandas object": pd.Series([True, False, None]),
    "pandas boolean": pd.Series([True, False, None], dtype="boolean"),
    "pandas arrow": arrow_backed([True, False, None], pa.bool_()),
    "numpy object": np.array([np.True_, False, NAN], dtype=object),
    "polars": pl.Series([True, False, None]),
    "arrow": pa.chunked_array([[True, False], [None]]),
}
DATES = {
    "list": [DAY, None],
    "numpy": np.array([DAY, "NaT"], "M8[D]"),
    "numpy ns": np.array([DAY, "NaT"], "M8[ns]"),
    "numpy scalars": [np.datetime64(DAY), np.datetime64("NaT")],
    "numpy masked": np.ma.array(np.array([DAY, DAY], "M8[ns]"), mask=[0, 1]),
    "pandas": pd.Series([pd.Timestamp(DAY), pd.NaT]),
    "pandas objects": pd.Series([DAY, None], dtype=object),
    "pandas arrow": arrow_backed([DAY, None], pa.date32()),
    "polars": pl.Series([DAY, None]),
    "arrow": pa.array([DAY, None]),
    "arrow 64": pa.chunked_array([pa.array([DAY, None], pa.date64())]),
}
STAMPS = {
    "list": [NOON, None],
    "zone": [NOON.replace(tzinfo=dt.UTC), None],
    "other zone": [(NOON + dt.timedelta(hours=1)).replace(tzinfo=BERLIN), None],
    "numpy": np.array([NOON, "NaT"], "M8[s]"),
    "pandas": pd.Series([NOON, None]),
    "pandas zone": pd.Series([NOON, None]).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
    "pandas arrow": arrow_backed([NOON, None], pa.timestamp("ms")),
    "polars": pl.Series([NOON, None]),
    "polars ms": pl.Series([NOON, None], dtype=pl.Datetime("ms")),
    "polars zone": pl.Series([NOON, None], dtype=pl.Datetime("us", "UTC")),
    "arrow": pa.chunked_array([pa.array([NOON, None], pa.timestamp("ns"))]),
}
DURATIONS = {
    "list": [dt.timedelta(hours=36), None],
    "numpy": np.array([36, "NaT"], "m8[h]"),
    "numpy scalars": [np.timedelta64(36, "h"), np.timedelta64("NaT")],
    "pandas": pd.Series([pd.Timedelta(hours=36), pd.NaT]),
    "polars": pl.Series([dt.timedelta(hours=36), None]),
    "arrow": pa.chunked_array([pa.array([dt.timedelta(hours=36), None])]),
}
EMPTY = {
    "list": [None, None],
    "floats": [NAN, NAN],
    "pandas": pd.Series([None, None]),
    "pandas string": pd.Series([None, None], dtype="string"),
    "pandas category": pd.Series([None, None], dtype="category"),
    "polars": pl.Series([None, None]),
    "polars string": pl.Series([None, None], dtype=pl.String),
    "polars enum": pl.Series([None, None], dtype=pl.Enum(["a"])),
    "arrow": pa.chunked_array([pa.array([None, None])]),
    "arrow array": pa.array([None, None]),
}


def cases(**groups):
    return pytest.mark.parametrize(
        ("values", "expected"),
        [
            pytest.param(values, expected, id=f"{group}-{name}")
            for group, (table, expected) in groups.items()
            for name, values in table.items()
        ],
    )


@pytest.fixture(params=[False, True], ids=["by cells", "by library"])
def text_coding(request, monkeypatch):
    """Code text cell by cell, or with the functions of its library, whatever its length."""
    if request.param:
        monkeypatch.setattr("cwboost.frames.read_frames.MANY_CELLS", 0)


@pytest.mark.usefixtures("text_coding")
@cases(text=(TEXT, ["b", "a", None, "b"]), ordered=(ORDERED, ["b", "a", None, "b"]))
def test_text(values, expected):
    column = read_column(values, "g")
    assert isinstance(column, Labels)
    assert plain_values(column) == expected
    assert column.levels == (
        ("b", "a") if any(values is v for v in ORDERED.values()) else ("a", "b")
    )
    assert column.missing.tolist() == [v is None for v in expected]


@pytest.mark.usefixtures("text_coding")
@cases(
    numbers=(NUMBERS, [1.0, 3.0, None, 2.0]),
    booleans=(BOOLEANS, [1.0, 0.0, None]),
    dates=(DATES, [DAYS, None]),
    stamps=(STAMPS, [DAYS + 0.5, None]),
    durations=(DURATIONS, [1.5, None]),
    empty=(EMPTY, [None, None]),
)
def test_numbers(values, expected):
    column = read_column(values, "x")
    assert isinstance(column, Numbers)
    assert column.values.dtype == np.float64
    assert column.values.flags.c_contiguous
    assert column.values.flags.aligned
    assert plain_values(column) == expected
    assert column.boolean == any(values is v for v in BOOLEANS.values())
    assert plain_values(read({"x": values})["x"]) == expected


@pytest.mark.usefixtures("text_coding")
@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (pd.Series([10, 9, None]).astype("category"), ("9", "10")),
        (pd.Series([2.5, -1.0]).astype("category"), ("-1", "2.5")),
        (pd.Series(pd.Categorical([2, 1], [2, 1], ordered=True)), ("2", "1")),
        (pd.Series([True, False]).astype("category"), ("False", "True")),
        (pd.cut(pd.Series([1.0, 9.0, 10.0]), [0, 9, 10]), ("(0, 9]", "(9, 10]")),
        (pd.Series(pd.to_datetime([DAY, DAY])).astype("category"), ("2020-01-02 00:00:00",)),
        (pa.chunked_array([pa.array([10, 9, None]).dictionary_encode()]), ("9", "10")),
        (pa.array([10, 9, None]).dictionary_encode(), ("9", "10")),
    ],
    ids=["integers", "floats", "ordered", "booleans", "intervals", "dates", "arrow", "array"],
)
def test_categories_that_are_not_text(values, levels):
    """Levels are formatted as for plain columns of numbers, so that both predict the same."""
    assert read_column(values, "g").levels == levels


def test_numbers_as_levels():
    assert read_column([3.0, 2.5, None, 3], "x").labels().levels == ("2.5", "3")
    assert read_column([True, False], "x").labels().levels == ("False", "True")
    assert [format_number(v) for v in (-0.0, 1e22, 0.1, -3.0)] == ["0", str(10**22), "0.1", "-3"]


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**63 - 1, 2**63 - 2]),
        np.array([2**64 - 1, 0], dtype=np.uint64),
        [2**53 + 1, 0],
        pl.Series([2**63 - 1, 0]),
        pl.Series([2**64 - 1, 0], dtype=pl.UInt64),
        pd.Series([2**60 + 1, None], dtype="Int64"),
    ],
    ids=["int64", "uint64", "list", "polars", "polars uint64", "pandas"],
)
def test_giant_integers_can_be_numbers_but_not_levels(values):
    column = read_column(values, "id")
    assert not column.exact
    assert np.nanmax(column.values) >= 2**53
    with pytest.raises(
        ValueError, match=r"column 'id': integers beyond 2\*\*53 .* turn them into strings"
    ):
        column.labels()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [1, "a", 2],
            r"column 'x': expected numbers or text, got number \(1 in 2 rows\), text \('a' in 1",
        ),
        ([DAY, 1], r"got date \(datetime.date\(2020, 1, 2\) in 1 row\), number"),
        ([1j], "got complex number"),
        (np.array([1j]), "got complex128; convert it"),
        (pd.Series([1j]), "got complex number"),
        ([b"a"], "got bytes"),
        (np.array([b"a"]), r"got \|S1"),
        ([[1], [2, 3]], r"got list \(\[1\] in 2 rows\)"),
        ([{"a": 1}], "got dict"),
        ([object], "got type"),
        ([dt.time(3)], "got time"),
        (pl.Series([dt.time(3)]), "got time"),
        (pl.Series([[1], [2]]), "got list"),
        (pl.Series([{"a": 1}]), "got dict"),
        (pl.Series([b"a"]), "got bytes"),
        (pa.chunked_array([[[1], [2]]]), "got list"),
        (pd.Series(pd.period_range("2020", periods=2)), "got Period"),
        (np.zeros(2, [("a", float), ("b", int)]), "expected numbers, text or dates"),
    ],
)
def test_values_that_are_not_a_column(values, message):
    with pytest.raises(TypeError, match=message) as caught:
        read_column(values, "x")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "values", [None, 3, "abc", b"abc", np.float64(1), np.array(1), {1, 2, 3}, object()]
)
def test_scalars_are_not_columns(values):
    with pytest.raises(TypeError, match=r"x: expected a value for every row, got|one column"):
        read_column(values, "x")
    with pytest.raises(
        TypeError, match=r"'?x'?: expected (an array or a series|a value for every row)"
    ):
        read({"x": values, "z": [1, 2, 3]})["x"]


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_too_large_for_a_float(digits):
    with pytest.raises(
        ValueError, match="column 'x', row 1: the number is too large for a 64-bit float"
    ):
        read_column([1, 10**digits], "x")


@pytest.mark.parametrize("value", [np.inf, -np.inf, decimal.Decimal("inf"), np.longdouble("inf")])
def test_infinite_values_name_column_and_row(value):
    table = read({"x": np.array([0, 0, value]), "fine": [1, 2, 3]})
    assert plain_values(table["fine"]) == [1, 2, 3]
    with pytest.raises(ValueError, match="column 'x', row 2: the value is infinite; replace it"):
        table["x"]


SECONDS = np.array([0, 10**13])  # the second is in the year 318857


@pytest.mark.parametrize(
    "values",
    [
        np.array([1970, 10**7]).astype("M8[Y]"),
        pd.Series(SECONDS.astype("M8[s]")),
        pd.Series(SECONDS.astype("m8[s]")),
        arrow_backed(SECONDS, pa.timestamp("s")),
        arrow_backed(np.array([0, 2**31 - 1], np.int32), pa.date32()),
        pl.Series(1000 * SECONDS).cast(pl.Datetime("ms")),
        pl.Series(1000 * SECONDS).cast(pl.Duration("ms")),
        pl.Series([0, 2**31 - 1], dtype=pl.Int32).cast(pl.Date),
        pa.array(SECONDS, pa.timestamp("s")),
        pa.array(SECONDS, pa.timestamp("s", "Europe/Berlin")),
        pa.array(SECONDS, pa.duration("s")),
        pa.array(86_400_000 * np.array([0, 10**9])).cast(pa.date64()),
        [np.datetime64(0, "s"), np.datetime64(10**13, "s")],
        [np.timedelta64(0, "s"), np.timedelta64(10**13, "s")],
    ],
    ids=[
        "numpy years",
        "pandas dates",
        "pandas durations",
        "pandas arrow times",
        "pandas arrow dates",
        "polars times",
        "polars durations",
        "polars dates",
        "arrow times",
        "arrow zone",
        "arrow durations",
        "arrow date64",
        "list of dates",
        "list of durations",
    ],
)
def test_dates_and_durations_too_far_away(values):
    """Microseconds do not fit 64 bits beyond the year 294247; libraries would wrap around."""
    with pytest.raises(ValueError, match=r"column 'x', row 1: .* is out of range"):
        read_column(values, "x")


def test_two_dimensions_are_refused():
    with pytest.raises(
        ValueError, match=r"x: expected one dimension, got an array of shape \(2, 2\)"
    ):
        read_column(np.ones((2, 2)), "x")


# --- tables ---------------------------------------------------------------------------------------


def frame():
    rng = np.random.default_rng(3)
    n = 200
    return {
        "x": rng.normal(size=n).tolist(),
        "count": rng.poisson(3.0, n).tolist(),
        "job": rng.choice(["clerk", "Ärztin", ""], n).tolist(),
        "flag": (rng.random(n) < 0.3).tolist(),
        "day": [DAY + dt.timedelta(int(k)) for k in rng.integers(0, 900, n)],
        "gaps": [v if v > -0.5 else None for v in rng.normal(size=n)],
        "some": [str(v) if v else None for v in rng.integers(0, 4, n)],
    }


def tables():
    data = frame()
    rows = [list(row) for row in zip(*data.values(), strict=True)]
    pandas, polars, arrow = pd.DataFrame(data), pl.DataFrame(data), pa.table(data)
    return {
        "dict of lists": data,
        "dict of arrays": {k: np.array(v, object if None in v else None) for k, v in data.items()},
        "dict of pandas": {k: pd.Series(v) for k, v in data.items()},
        "dict of polars": {k: pl.Series(v) for k, v in data.items()},
        "dict of arrow": {k: pa.array(v) for k, v in data.items()},
        "pandas": pandas,
        "pandas other index": pandas.set_index(np.arange(len(pandas))[::-1]),
        "pandas nullable": pandas.convert_dtypes(),
        "pandas arrow": pandas.convert_dtypes(dtype_backend="pyarrow"),
        "pandas category": pandas.astype({"job": "category", "some": "category"}),
        "polars": polars,
        "polars lazy": polars.lazy(),
        "polars categorical": polars.with_columns(pl.col("job", "some").cast(pl.Categorical)),
        "polars chunks": pl.concat([polars[:70], polars[70:]], rechunk=False),
        "arrow": arrow,
        "arrow chunks": pa.concat_tables([arrow[:3], arrow[3:50], arrow[50:]]),
        "arrow dictionary": arrow.set_column(2, "job", arrow["job"].dictionary_encode()),
        "record batch": pa.record_batch(data),
        **({"duckdb": duckdb.from_arrow(arrow)} if duckdb else {}),
        "object array": (np.array(rows, dtype=object), list(data)),
        "list of rows": (rows, list(data)),
        "list of tuples": ([tuple(row) for row in rows], list(data)),
    }  # fmt: skip


NAMES = list(tables())


@pytest.fixture(scope="module")
def reference():
    data = frame()
    y = (
        np.array([v or 0 for v in data["gaps"]])
        + (np.array(data["job"]) == "clerk")
        + np.array(data["x"])
    )
    learners = lambda names: [  # noqa: E731
        cb.Spline(names[0]), cb.Step(names[1]), cb.Category(names[2], kind="binary"),
        cb.Category(names[3]), cb.Linear(names[4]), cb.Spline(names[5]), cb.Category(names[6]),
        cb.Tensor(names[0], names[2]),
    ]  # fmt: skip
    return y, learners, cb.fit(data, y, learners(list(data)), n_iter=30)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_model_from_every_library(name, reference):
    y, learners, model = reference
    table = tables()[name]
    if isinstance(table, tuple):  # without names
        table, _ = table
        names = [f"x{j}" for j in range(7)]
    else:
        names = list(frame())
    other = cb.fit(table, y, learners(names), n_iter=30)
    np.testing.assert_array_equal(other.risk, model.risk)
    for a, b in zip(other.terms.values(), model.terms.values(), strict=True):
        np.testing.assert_array_equal(a.coef, b.coef)
        assert a.levels == b.levels
    np.testing.assert_array_equal(other.predict(table), model.predict(frame()))
    if names[0] == "x":  # the reference model also reads this table
        np.testing.assert_array_equal(model.predict(table), model.predict(frame()))


def test_numpy_tables():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 2))
    y = values[:, 0]
    model = cb.fit({"x0": values[:, 0], "x1": values[:, 1]}, y, n_iter=9)
    for same in (
        values,
        np.asfortranarray(values),
        values.astype(object),
        values.tolist(),
        np.ma.array(values),
        np.rec.fromarrays(values.T, names="x0,x1"),
        pd.DataFrame(values, columns=["x0", "x1"]),
    ):
        np.testing.assert_array_equal(
            cb.fit(same, y, n_iter=9).predict(same), model.predict(values)
        )
    single = values.astype(np.float32)
    np.testing.assert_array_equal(
        cb.fit(single, y, n_iter=9).risk, cb.fit(single.astype(float), y, n_iter=9).risk
    )
    text = read(np.array([["1.5", "b"], ["2", "a"]]))
    assert [plain_values(text[name]) for name in text.names] == [["1.5", "2"], ["b", "a"]]


@pytest.mark.parametrize("y", ["list", "pandas", "polars", "arrow", "column", "name", "masked"])
def test_y_from_every_library(y):
    x, values = np.arange(30.0), np.sqrt(np.arange(30.0))
    target = {
        "list": values.tolist(), "pandas": pd.Series(values), "polars": pl.Series(values),
        "arrow": pa.array(values), "column": values[:, None], "name": "y",
        "masked": np.ma.array(values),
    }[y]  # fmt: skip
    model = cb.fit({"x": x, "y": values}, target, [cb.Spline("x")], n_iter=5, weights=target)
    expected = cb.fit({"x": x}, values, n_iter=5, weights=values)
    np.testing.assert_array_equal(model.risk, expected.risk)


def test_no_copy_where_none_is_needed():
    values = np.arange(10.0)
    for table in (
        {"x": values},
        pd.DataFrame({"x": values}, copy=False),
        pl.DataFrame({"x": values}),
    ):
        raw = table["x"].to_numpy() if not isinstance(table["x"], np.ndarray) else values
        assert np.shares_memory(read(table)["x"].values, raw)


def test_columns_are_read_when_asked_for():
    table = read({"good": [1, 2], "bad": [1, "a"], "worse": [1j, 1]})
    assert table.names == ("good", "bad", "worse")
    assert table.n_rows == 2
    assert "bad" in table
    assert plain_values(table["good"]) == [1, 2]
    with pytest.raises(ValueError, match="column 'none' is not in the table; it has 'good', 'bad'"):
        table["none"]
    assert read(table) is table


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        (None, TypeError, "must be a data frame .* got NoneType"),
        (3, TypeError, "got int"),
        ("path.csv", TypeError, "got the path 'path.csv'; pass cb.Dataset.from_parquet"),
        (pd.Series([1, 2]), TypeError, "got Series"),
        (pl.Series([1, 2]), TypeError, "got Series"),
        ({1, 2}, TypeError, "got set"),
        (np.ones(3), ValueError, "array of 1 dimension.*expected 2, .rows, columns"),
        (np.ones((2, 2, 2)), ValueError, "array of 3 dimension"),
        ([1, 2], TypeError, "expected rows of cells, got 1 as row 0; pass a dict of columns"),
        (["ab", "cd"], TypeError, "expected rows of cells, got 'ab' as row 0"),
        ([{"a": 1}], TypeError, "expected rows of cells, got {'a': 1} as row 0"),
        ([[1, 2], [3]], ValueError, "rows differ in length: row 0 has 2 cells, row 1 has 1"),
        (
            {"a": [1], "b": [1, 2]},
            ValueError,
            "columns differ in length: 'a' has 1 row, 'b' has 2",
        ),
        (
            {"a": 1},
            TypeError,
            "column 'a': expected an array or a series, got 1; give a value for every",
        ),
        (
            {1: [1]},
            TypeError,
            "column names must be strings; got 1 of type int; rename the columns",
        ),
        (pd.DataFrame([[1, 2]]), TypeError, "column names must be strings; got 0"),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            ValueError,
            "column 'a' is in the table more than",
        ),
        (
            pa.table([[1], [2]], names=["a", "a"]),
            ValueError,
            "column 'a' is in the table more than once",
        ),
        (
            pa.record_batch([[1], [2]], names=["a", "a"]),
            ValueError,
            "column 'a' is in the table more",
        ),
    ],
)
def test_values_that_are_not_a_table(table, error, message):
    with pytest.raises(error, match=message):
        read(table)


@pytest.mark.parametrize(
    "empty", [{}, [], np.empty((0, 0)), pd.DataFrame(), pl.DataFrame(), pa.table({})]
)
def test_empty_tables(empty):
    table = read(empty)
    assert (table.names, table.n_rows) == ((), 0)


def test_tables_are_concatenated():
    first = read({"x": [1, None], "g": ["b", "a"], "e": [None, None], "t": ["u", "v"]})
    both = first.below(read({"x": [True], "g": ["c"], "e": ["new"], "t": [None]}))
    assert both.n_rows == 3
    assert plain_values(both["x"]) == [1, None, 1]
    assert (plain_values(both["g"]), both["g"].levels) == (["b", "a", "c"], ("a", "b", "c"))
    assert plain_values(both["e"]) == [None, None, "new"]
    assert plain_values(both["t"]) == ["u", "v", None]
    assert plain_values(both.take(np.array([True, False, True]))["g"]) == ["b", "c"]
    with pytest.raises(
        TypeError, match="column 'x': numbers in the first table, text in the second"
    ):
        concat(read_column([1], "x"), read_column(["a"], "x"))


@pytest.mark.parametrize("arrow", [True, False])
@pytest.mark.parametrize(
    "series",
    [
        lambda cells: pd.Series(cells, dtype=pd.StringDtype("python")),
        lambda cells: pd.Series(cells, dtype=object),
        lambda cells: pl.Series(cells, dtype=pl.String),
        lambda cells: pl.Series(cells, dtype=pl.Categorical),
        lambda cells: pl.Series(cells, dtype=pl.Enum(["", "a", "b", "é", "z"])),
    ],
    ids=["pandas", "pandas object", "polars", "polars categorical", "polars enum"],
)
def test_long_and_short_text_columns_are_read_alike(series, arrow, monkeypatch):
    """The library's codes and the loop over cells give the same labels; Arrow may be missing."""
    if not arrow:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    cells = ["b", None, "a", "", "é", "b"] * 400
    expected = read_column(cells, "g")
    for n in (6, 2400):
        column = read_column(series(cells[:n]), "g")
        assert column.levels == expected.levels == ("", "a", "b", "é")
        np.testing.assert_array_equal(column.codes, expected.codes[:n])
        assert column.codes.dtype == np.int64
    assert read_column(series([None] * 2000), "g").missing.all()
