"""Tests of the SQL export: in DuckDB and SQLite, the query computes what the model predicts.

The models and the difficult rows are in export_cases.py.
"""

from __future__ import annotations

import math
import sqlite3
from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import cwboost as cb
import export_cases as cases
import problems
from cwboost.export.sql import to_sql
from cwboost.model.pieces import NoPiecesError

TABLE = 'the "rows"'


def run_duckdb(rows: dict[str, np.ndarray], query: str) -> dict[str, np.ndarray]:
    """Run the query in DuckDB. Missing numbers are NaN in even rows and NULL in odd rows."""
    odd = np.arange(len(next(iter(rows.values())))) % 2 == 1
    columns = {}
    for name, column in rows.items():
        if column.dtype.kind == "f":
            columns[name] = pa.array(column, mask=np.isnan(column) & odd)
        else:
            columns[name] = pa.array(column.tolist())
    with duckdb.connect() as connection:
        connection.register(TABLE, pa.table(columns))
        cursor = connection.execute(query)
        names = [entry[0] for entry in cursor.description]
        found = np.array(cursor.fetchall(), float)
    return {name: found[:, j] for j, name in enumerate(names)}


def connect_sqlite() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("SELECT exp(1), ln(1)")
    except sqlite3.OperationalError:  # compiled without its math functions
        connection.create_function("exp", 1, lambda x: math.exp(x) if x < 709 else math.inf)
        connection.create_function("ln", 1, math.log)
    return connection


def run_sqlite(rows: dict[str, np.ndarray], query: str) -> dict[str, np.ndarray]:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def cell(value: Any) -> Any:
        return None if isinstance(value, float) and math.isnan(value) else value

    kinds = {"f": "REAL", "b": "BOOLEAN", "O": "TEXT COLLATE NOCASE"}
    declared = ", ".join(f"{quoted(name)} {kinds[c.dtype.kind]}" for name, c in rows.items())
    connection = connect_sqlite()
    connection.execute(f"CREATE TABLE {quoted(TABLE)} ({declared})")
    marks = ", ".join("?" * len(rows))
    cells = zip(*(column.tolist() for column in rows.values()), strict=True)
    connection.executemany(
        f"INSERT INTO {quoted(TABLE)} VALUES ({marks})", [[cell(v) for v in row] for row in cells]
    )
    cursor = connection.execute(query)
    names = [entry[0] for entry in cursor.description]
    found = np.array(cursor.fetchall(), float)
    connection.close()
    return {name: found[:, j] for j, name in enumerate(names)}


RUN = {"duckdb": run_duckdb, "sqlite": run_sqlite}


def check(model: cb.Model, rows: dict[str, np.ndarray], dialect: str, **fixed: Any) -> None:
    """Check that effects, scores and responses equal the model's."""
    names = fixed.pop("names", {})
    numbered = rows | {"row_number": np.arange(len(next(iter(rows.values()))), dtype=float)}
    found = RUN[dialect](
        numbered, to_sql(model, table=TABLE, dialect=dialect, keep=["row_number"], **names)
    )
    order = np.argsort(found.pop("row_number"))
    columns = [column[order] for column in found.values()]
    effects = [e for c in cases.contributions(model, rows).values() for e in c.T]
    n, q = len(effects), model.n_outputs
    if effects:
        cases.assert_same(np.column_stack(columns[:n]), np.column_stack(effects))
    score, response = columns[n : n + q], columns[n + q :]
    cases.assert_same(np.column_stack(score), cases.predict(model, rows, "score", **fixed))
    cases.assert_same(np.column_stack(response), cases.predict(model, rows, "response", **fixed))


@pytest.mark.parametrize("dialect", RUN)
@pytest.mark.parametrize("kind", cases.KINDS)
def test_kinds_of_terms(kind, dialect):
    model = cases.kind_model(kind)
    check(model, cases.hard_rows(model, cases.make_table()), dialect)


@pytest.mark.parametrize("dialect", RUN)
@pytest.mark.parametrize("loss", problems.LOSSES)
def test_losses(loss, dialect):
    model = cases.loss_model(loss)
    check(model, cases.hard_rows(model, cases.make_table()), dialect)


@pytest.mark.parametrize("dialect", RUN)
def test_hostile_names_and_levels(dialect):
    model = cases.hostile_model()
    check(model, cases.hard_rows(model, cases.hostile_table()), dialect)


@pytest.mark.parametrize("dialect", RUN)
def test_offset_and_exposure(dialect):
    table = cases.make_table() | {"log_e": np.linspace(-1, 1, cases.N)}
    table["years"] = np.linspace(0.1, 2, cases.N)
    y = problems.make_target(0, table, "poisson")
    by_name = cb.fit(
        table, y, [cb.Spline("u")], loss="poisson", offset="log_e", exposure="years", n_iter=20
    )
    check(by_name, table, dialect)
    arrays = cb.fit(table, y, [cb.Spline("u")], loss="poisson", exposure=table["years"], n_iter=20)
    check(arrays, table, dialect, names={"exposure": "years"}, exposure="years")
    check(arrays, table, dialect, names={"offset": 0}, offset=0)
    with pytest.raises(ValueError, match="offset=0 for none"):
        to_sql(arrays)


@pytest.mark.parametrize("dialect", RUN)
def test_offset_of_several_classes(dialect):
    table = cases.make_table()
    y = problems.make_target(0, table, "multinomial")
    block = problems.make_offset(0, cases.N, "multinomial")
    model = cb.fit(table, y, [cb.Spline("u")], loss="multinomial", offset=block, n_iter=20)
    table |= {f"o{i}": block[:, i] for i in range(3)}
    check(model, table, dialect, names={"offset": ["o0", "o1", "o2"]}, offset=block)
    with pytest.raises(ValueError, match="expected 3 column names"):
        to_sql(model, offset="o0")


@pytest.mark.parametrize("dialect", RUN)
def test_scores_far_out(dialect):
    """Scores for which exp overflows."""
    table = {"x": np.linspace(0, 1, 50)}
    for loss, y in (("binomial", table["x"] > 0.5), ("multinomial", np.arange(50) % 3)):
        model = cb.fit(table, y, [cb.Linear("x")], loss=loss, n_iter=30)
        check(model, {"x": np.array([-1e6, -1e3, 0.0, 1e3, 1e6])}, dialect)


@pytest.mark.parametrize("dialect", RUN)
def test_models_without_terms_and_with_many_terms(dialect):
    table = {"x": np.linspace(0, 1, 50)}
    check(cb.fit(table, table["x"], n_iter=0), table, dialect)
    check(*many_terms(), dialect)


@cache
def many_terms() -> tuple[cb.Model, dict[str, np.ndarray]]:
    """Return a model with more terms than the allowed depth of an expression."""
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.normal(size=10) for j in range(1100)}
    model = cb.fit(table, table["x0"], [cb.Linear(name) for name in table], n_iter=1)
    return cases.with_all_terms(model), table


def test_steps_at_floats_that_sqlite_misreads():
    """Literals with 16 and 17 digits: expected exact, or the next float is on the wrong side."""
    x = np.array([-0.2635315478341341, 374.6883973654719, 5750329.194416421, 9e9])
    x = np.sort(np.concatenate([np.repeat(x, 5), np.random.default_rng(0).normal(size=200)]))
    model = cb.fit({"x": x}, np.sin(40 * x), [cb.Step("x", bins=100)], n_iter=50)
    for dialect in RUN:
        check(model, cases.hard_rows(model, {"x": x}), dialect)


def test_unknown_column_is_an_error():
    """SQLite reads an unknown name in double quotes as text, unless it is qualified."""
    query = to_sql(cases.kind_model("spline"), table=TABLE, dialect="sqlite")
    with pytest.raises(sqlite3.OperationalError, match="no such column"):
        run_sqlite({"other": np.zeros(3)}, query)


def test_table_names():
    model = cases.kind_model("linear")
    query = to_sql(model, table=("my schema", "model_input"), kind="score")
    with duckdb.connect() as connection:
        connection.execute('CREATE SCHEMA "my schema"')
        connection.execute('CREATE TABLE "my schema".model_input AS SELECT 0.5 AS u')
        found = connection.execute(query).fetchone()
    assert found is not None
    assert found[-1] == pytest.approx(model.predict({"u": [0.5]})[0])
    for dialect in RUN:
        check_name = to_sql(model, table="model_input", dialect=dialect)
        connection = sqlite3.connect(":memory:") if dialect == "sqlite" else duckdb.connect()
        connection.execute("CREATE TABLE model_input AS SELECT 0.5 AS u")
        assert connection.execute(check_name).fetchone()[-1] == pytest.approx(found[-1])
        connection.close()


def test_the_query_is_readable():
    """Cuts are written with few digits."""
    gain = np.repeat([0.0, 7298.0, 15024.0, 99999.0], 25)
    model = cb.fit({"gain": gain}, np.sqrt(gain), [cb.Step("gain", bins=4)], n_iter=10)
    query = to_sql(model, dialect="sqlite")
    assert 'WHEN "gain" <= 3649.0 THEN' in query  # halfway between 0 and 7298
    assert "-- gain: Step" in query


class PythonLoss:
    def loss(self, y, score):
        return (y - score) ** 2 / 2

    def gradient(self, y, score):
        return score - y

    def start(self, y, weights):
        return float(np.average(y, weights=weights))


class WithResponse(PythonLoss):
    def response(self, score):
        return np.tanh(score)


def test_losses_written_in_python():
    table = {"x": np.linspace(0, 1, 50)}
    plain = cb.fit(table, table["x"], loss=PythonLoss(), n_iter=10)
    check(plain, table, "duckdb")
    own = cb.fit(table, table["x"], loss=WithResponse(), n_iter=10)
    with pytest.raises(TypeError, match="kind='score'"):
        to_sql(own)
    assert '"response"' not in to_sql(own, kind="score")


def test_a_basis_without_pieces_is_refused_by_name():
    with pytest.raises(NoPiecesError, match="term 'u': its basis"):
        to_sql(cases.model_without_pieces())


def test_an_unknown_link_is_refused_by_name(monkeypatch):
    model = cases.kind_model("linear")
    monkeypatch.setattr(type(model.loss), "link", "probit")
    with pytest.raises(TypeError, match="the link 'probit', which cannot be written as SQL"):
        to_sql(model)
    assert "score" in to_sql(model, kind="score")


def test_errors():
    model = cases.kind_model("linear")
    with pytest.raises(ValueError, match="expected 'duckdb', 'sqlite' or 'postgres'"):
        to_sql(model, dialect="oracle")
    with pytest.raises(ValueError, match="kind: expected"):
        to_sql(model, kind="both")
    with pytest.raises(ValueError, match="twice in the result"):
        to_sql(model, keep=["Score"])
    with pytest.raises(ValueError, match="does not have a log link"):
        to_sql(model, exposure="years")
    with pytest.raises(TypeError, match="offset: expected the name"):
        to_sql(model, offset=3.5)
    with pytest.raises(ValueError, match="cannot be the name"):
        to_sql(model, table="")
    table = {"a": np.linspace(0, 1, 50), "A": np.linspace(0, 1, 50) ** 2}
    twins = cb.fit(table, table["a"] + 5 * table["A"], [cb.Linear("a"), cb.Linear("A")], n_iter=50)
    with pytest.raises(ValueError, match="differ only in case"):
        to_sql(twins)
    assert '"effect_A_2"' in to_sql(twins, dialect="postgres")


@pytest.mark.parametrize("cells", [[0.0, 1.0, 2.0], [0.5, 1.0, 2.5], [True, False, True]])
@pytest.mark.parametrize("dialect", RUN)
def test_categories_of_numbers_and_booleans(cells, dialect):
    """Databases write 1.0, true or 1 where the model has the levels "1" and "True"."""
    column = pd.Series(cells * 20)
    model = cb.fit({"g": column.astype("category")}, (np.arange(60.0) % 3) ** 2, n_iter=20)
    wanted = model.predict({"g": column.astype("category")})
    assert len(np.unique(wanted)) == len(set(cells))
    found = RUN[dialect]({"g": column.to_numpy()}, to_sql(model, table=TABLE, dialect=dialect))
    np.testing.assert_allclose(found["score"], wanted)
    as_text = {"g": column.astype(str)}
    np.testing.assert_array_equal(model.predict(as_text), wanted)
    np.testing.assert_array_equal(model.predict({"g": column}), wanted)


@pytest.mark.parametrize("learner", [cb.Spline, cb.Step, cb.Category])
@pytest.mark.parametrize("unit", ["D", "s", "ms"])
def test_dates(learner, unit):
    rng = np.random.default_rng(0)
    steps = {"D": 900, "s": 10**8, "ms": 10**11}[unit]
    days = np.datetime64("1969-01-01", unit) + rng.integers(0, steps, 40).astype(f"m8[{unit}]")
    frame = pd.DataFrame({"d": np.tile(days, 8), "row": np.arange(320)})
    frame.loc[::9, "d"] = pd.NaT
    y = np.sin(frame["d"].to_numpy().astype("M8[s]").astype(float) * 6 / 8e7) + (frame.d.isna())
    model = cb.fit(frame[["d"]], y, [learner("d")], n_iter=30)
    wanted = model.predict(frame)
    assert len(np.unique(wanted)) > 10
    connection = connect_sqlite()
    frame.to_sql("t", connection, index=False)
    database = duckdb.connect()
    database.register("t", frame)
    zoned = frame.assign(d=frame["d"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    database.register("zoned", zoned)
    database.execute("SET TimeZone = 'America/New_York'")
    frame.assign(d=(frame["d"] - pd.Timestamp(0)) / pd.Timedelta(days=1)).to_sql(
        "days", connection, index=False
    )
    for dialect, table in (
        ("sqlite", "t"), ("sqlite", "days"), ("duckdb", "t"), ("duckdb", "zoned")
    ):  # fmt: skip
        query = model.to_sql(table=table, dialect=dialect, keep=["row"], kind="score")
        run = connection if dialect == "sqlite" else database
        found = np.array(sorted(run.execute(query).fetchall()), float)[:, -1]
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    connection.close()


def test_durations():
    hours = np.arange(60).astype("m8[h]").astype("m8[us]")
    model = cb.fit({"d": hours}, np.sin(np.arange(60.0) / 9), n_iter=20)
    database = duckdb.connect()
    database.register("t", pa.table({"d": hours}))
    found = database.execute(model.to_sql(table="t", kind="score")).fetchnumpy()["score"]
    np.testing.assert_allclose(np.sort(found), np.sort(model.predict({"d": hours})), rtol=1e-9)
    connection = connect_sqlite()
    connection.execute("CREATE TABLE t (d)")
    connection.executemany("INSERT INTO t VALUES (?)", [[k / 24] for k in range(60)])
    rows = connection.execute(model.to_sql(table="t", dialect="sqlite", kind="score")).fetchall()
    np.testing.assert_allclose([row[-1] for row in rows], model.predict({"d": hours}), rtol=1e-9)
    connection.close()
    assert 'EXTRACT(EPOCH FROM t."d")' in model.to_sql(dialect="postgres")
