"""Tests of prediction by look-up: it equals basis rows times coefficients, and gives the same bits
for any kind of table (one row or many, strided, frames of other libraries) and number of threads.

The models are in export_cases.py, and `oracle` computes the expected effects from the bases. Except
for the core's `Breaks`, the tests do not depend on how the look-up works.
"""

from __future__ import annotations

import copy
import pickle
import re
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cwboost as cb
import problems
from cwboost import _core
from cwboost.frames.columns import Labels
from cwboost.frames.read_frames import read
from cwboost.terms.bases import SplineBasis
from export_cases import (
    KINDS,
    Cosine,
    hard_rows,
    hostile_model,
    hostile_table,
    kind_model,
    loss_model,
    with_all_terms,
)
from export_cases import make_table as export_table

TOLERANCE = 1e-13  # relative to the range of an effect over the training rows


def oracle(model, table):
    """Return the centred effects (n, q) of the chosen terms, computed from their basis rows."""
    data, out = read(table), {}
    for name, term in model.terms.items():
        if term.chosen:
            columns = [oracle_column(data[c], model.columns[c]) for c in term.columns]
            with np.errstate(all="ignore"):
                out[name] = term.effect_at(term.plan.encode(columns))
    return out


def oracle_column(column, facts):
    """Convert numbers to booleans or labels if the training column had booleans or text."""
    if isinstance(column, Labels):
        return column
    if facts.boolean and set(column.values[~column.missing]) <= {0.0, 1.0}:
        return replace(column, boolean=True)
    return column.labels() if facts.kind == "labels" else column


def quietly(call, *args, **keywords):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "levels never seen")
        return call(*args, **keywords)


def blocks(found):
    return {name: effect.reshape(len(effect), -1) for name, effect in found.items()}


def assert_as_oracle(model, rows, training):
    """Compare effects and their sum with the oracle, except where its effects are not finite."""
    expected, inside = oracle(model, rows), oracle(model, training)
    found = blocks(quietly(model.contributions, rows))
    assert list(found) == list(expected)
    n = len(next(iter(rows.values())))
    total = np.zeros((n, model.n_outputs)) + model.intercept
    slack = TOLERANCE * np.abs(total)
    with np.errstate(all="ignore"):
        for name, effect in expected.items():
            # Far beyond both ranges, products cancel in a surface without main effects.
            far = 100.0 if getattr(model.terms[name].learner, "orthogonal", False) else 1.0
            allowed = far * TOLERANCE * np.fmax(np.ptp(inside[name]), np.abs(effect))
            sure = np.isfinite(effect)
            assert np.all((np.abs(found[name] - effect) <= allowed)[sure]), name
            total, slack = total + effect, slack + 2 * allowed
    sure = np.isfinite(total).all(axis=1)
    score = quietly(model.predict, {c: v[sure] for c, v in rows.items()}, "score", offset=0)
    off = np.abs(score.reshape(total[sure].shape) - total[sure])
    assert np.all(off <= slack[sure])


# --- equal to the effects computed from the bases -------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_terms(kind):
    model, table = kind_model(kind), export_table()
    assert_as_oracle(model, hard_rows(model, table), table)


@pytest.mark.parametrize("loss", problems.LOSSES)
def test_losses(loss):
    model, table = loss_model(loss), export_table()
    assert_as_oracle(model, hard_rows(model, table), table)
    rows = {name: column[:50] for name, column in table.items()}
    score = model.predict(rows, kind="score").reshape(50, -1)
    np.testing.assert_array_equal(model.predict(rows), model.loss.response(score))


def test_hostile_names_and_levels():
    model, table = hostile_model(), hostile_table()
    assert_as_oracle(model, hard_rows(model, table), table)


CROWD = [  # terms of the same column are summed before any row is read
    cb.Spline("x", df=6, extrapolate="linear"),
    cb.Spline("x", df=4, knot_placement="quantile", knots=9, name="by quantiles"),
    cb.Spline("x", df=4, degree=0, differences=1, knots=7, name="flat"),
    cb.Spline("x", df=4, knots=3, name="held"),
    cb.Step("x", bins=13),
    cb.Linear("x"),
    cb.Polynomial("x", 3),
    cb.Polynomial("x", 20, name="wild"),
    cb.Category("k"),
    cb.Category("k", kind="binary", name="marks"),
    cb.Linear("k"),
    cb.Tensor(cb.Spline("x", knots=4), cb.Category("k"), df=9),
]
SHAPES = {  # functions that make the training column from normal numbers
    "plain": lambda x: x,
    "skewed": lambda x: np.exp(3 * x),
    "far from zero": lambda x: 1e9 + x,
    "large": lambda x: x * 1e120,
    "small": lambda x: x * 1e-120,
    "rounded": lambda x: np.round(4 * x) / 4,
}


@cache
def crowd(shape):
    rng = np.random.default_rng(3)
    table = {"x": SHAPES[shape](rng.normal(size=300)), "k": rng.integers(0, 6, 300).astype(float)}
    model = cb.fit(table, np.sin(np.arange(300)), CROWD, n_iter=30)
    terms = {
        name: replace(term, beta=rng.normal(size=term.beta.shape))
        for name, term in model.terms.items()
    }
    return replace(model, terms=MappingProxyType(terms)), table


@pytest.mark.parametrize("shape", SHAPES)
def test_many_terms_of_one_column(shape):
    model, table = crowd(shape)
    rows = hard_rows(model, table)
    assert_as_oracle(model, {name: column[:600] for name, column in rows.items()}, table)


def near(breaks):
    """Return a strategy for numbers at breaks, next to them and anywhere."""
    at = st.sampled_from(breaks)
    adjacent = st.builds(np.nextafter, at, st.sampled_from([-np.inf, np.inf])).map(float)
    # Beyond 1e300 the distance from a knot in units of knots may exceed the largest float.
    return st.one_of(at, adjacent, st.floats(-1e300, 1e300), st.just(np.nan), st.floats(-3.0, 3.0))


@settings(max_examples=60)
@given(st.data())
def test_any_numbers(data):
    model, table = crowd("plain")
    breaks = [
        *model.terms["spline(x)"].plan.basis.knots,
        *model.terms["by quantiles"].plan.basis.knots,
        *model.terms["step(x)"].plan.encoders[0].cuts,
    ]
    x = data.draw(st.lists(near(breaks), min_size=1, max_size=20))
    k = data.draw(arrays(np.float64, len(x), elements=st.sampled_from([0.0, 5.0, 2.5, np.nan])))
    assert_as_oracle(model, {"x": np.array(x), "k": k}, table)


@pytest.mark.parametrize("factor", [5e-324, 1e-320, 1e-310, 1e-305, 1e305])
def test_ranges_near_the_limits_of_floats(factor):
    x = np.arange(21.0) * factor
    model = cb.fit({"x": x}, np.arange(21.0) ** 2, [cb.Step("x", bins=5)], n_iter=50)
    assert_as_oracle(model, {"x": np.append(x, np.nan)}, {"x": x})


def test_constant_extrapolation_holds_for_any_number():
    x = np.linspace(-1e-3, 1e-3, 50)
    learners = [cb.Spline("x"), cb.Step("x", bins=4)]
    model = cb.fit({"x": x}, x, learners, n_iter=50)
    found = model.predict({"x": [-1.7e308, -1e-3, 1e-3, 1.7e308]})
    np.testing.assert_allclose(found[[0, 3]], found[[1, 2]], rtol=1e-12)


@pytest.mark.parametrize("style", ["smooth", "auto", "step"])
def test_effects_are_constant_beyond_the_range_by_default(style):
    """Also in the margins of tensors; lines stay lines."""
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=200), "z": rng.uniform(size=200)}
    y = 5 * table["x"] * table["z"]
    learners = [cb.Tensor("x", "z"), ...] if style == "smooth" else style
    model = cb.fit(table, y, learners, n_iter=100)
    ends = {"x": [table["x"].max()] * 2, "z": [table["z"].min(), 0.5]}
    far = {"x": [50.0] * 2, "z": [-9.0, 0.5]}
    np.testing.assert_allclose(model.predict(far), model.predict(ends), rtol=1e-9)
    line = cb.fit(table, y, [cb.Linear("x")], n_iter=100)
    assert line.predict({"x": [50.0]}) > line.predict({"x": [1.0]}) + 50


FAR = r"beyond the range of the training rows by more than a tenth of it"


@pytest.mark.parametrize(
    "learners",
    [
        [cb.Spline("x"), cb.Step("x"), cb.Linear("x"), cb.Spline("z")],
        [cb.Step("x", name="a"), cb.Spline("x", knots=4, degree=5, name="b"), cb.Linear("z")],
        [cb.Tensor("x", "z"), cb.Polynomial("x", 6)],
        [Cosine("x"), cb.Spline("x"), cb.Linear("z")],
        [Cosine("x"), Cosine("z")],
    ],
)
@pytest.mark.parametrize("n", [1, 5000])  # more rows than a block of the core
def test_rows_far_beyond_the_range_are_counted(learners, n):
    """Every row counts once per column, whatever terms the column has."""
    grid = np.linspace(0.0, 1.0, 101)
    table = {"x": grid, "z": 10 * grid[::-1]}
    model = with_all_terms(cb.fit(table, np.sin(5 * grid), learners, n_iter=60))
    inside = {"x": [-0.0999, 1.0999, 0.5, np.nan], "z": [0.0, 10.9, -0.9, 5.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(inside)
    x, z = [-0.11, 1.11, 0.5, 1.2], [0.0, 5.0, 11.1, 5.0]
    rows = {"x": np.tile(x, n), "z": np.tile(z, n)}
    counts = rf"{FAR}.*: x \({3 * n} rows\), z \({n} rows?\)$"
    for predict in (model.predict, model.contributions):
        for table in (rows, pl.DataFrame(rows)):
            with pytest.warns(UserWarning, match=FAR) as caught:
                predict(table)
            assert len(caught) == 1
            assert caught[0].filename == __file__
            assert re.search(counts, str(caught[0].message))


def test_rows_far_beyond_the_range_of_an_array():
    grid = np.linspace(0.0, 1.0, 101)
    model = cb.fit(np.column_stack([grid, grid**2]), np.sin(5 * grid), n_iter=60)
    with pytest.warns(UserWarning, match=FAR + r".*: x1 \(1 row\)$"):
        model.predict(np.array([[0.5, 2.0], [1.05, 0.5]]))


@settings(max_examples=200)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=40, unique=True),
    st.lists(st.floats(allow_infinity=False), max_size=20),
)
def test_breaks_are_found(points, x):
    breaks = np.unique(np.array(points))
    below = [b for b in breaks if b > -1e308]
    x = np.array([*x, *breaks, *np.nextafter(below, -np.inf), -0.0])
    n = len(breaks)
    found = _core.Breaks(breaks, np.arange(n + 1, dtype=np.int32), n + 1).find(x)
    expected = np.where(np.isnan(x), n + 1, np.searchsorted(breaks, x, side="right"))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "breaks", [np.geomspace(1e-300, 1e300, 500), np.append(np.arange(900.0) / 1e9, 1e9)]
)
def test_breaks_that_are_close_together(breaks):
    x = np.concatenate([breaks, np.nextafter(breaks, -np.inf), np.nextafter(breaks, np.inf)])
    n = len(breaks)
    found = _core.Breaks(breaks, np.arange(n + 1, dtype=np.int32), n + 1).find(x)
    np.testing.assert_array_equal(found, np.searchsorted(breaks, x, side="right"))


# --- the same bits for every kind of table --------------------------------------------------------


@cache
def wide():
    """Return a model and its 6 numeric columns, 2 of them not used."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 6))
    X[rng.uniform(size=X.shape) < 0.02] = np.nan
    y = np.nansum(np.sin(X[:, :4]), axis=1) > 0
    learners = [
        *(cb.Spline(f"x{j}") for j in range(3)),
        cb.Step("x1"),
        cb.Linear("x3"),
        cb.Tensor("x0", "x3", df=12),
    ]
    return with_all_terms(cb.fit(X, y, learners, loss="binomial", n_iter=100)), X


def assert_same_bits(model, X, table, **keywords):
    np.testing.assert_array_equal(model.predict(table, **keywords), model.predict(X, n_threads=1))
    found, expected = model.contributions(table, **keywords), model.contributions(X, n_threads=1)
    assert list(found) == list(expected)
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_one_row_is_predicted_as_among_many():
    model, X = wide()
    score, effects = model.predict(X, "score"), model.contributions(X)
    for i in [*range(300), 2047, 2048, 8999]:
        assert model.predict(X[i : i + 1], "score")[0] == score[i]
        for name, effect in model.contributions(X[i : i + 1]).items():
            assert effect[0] == effects[name][i]


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_threads(n_threads):
    model, X = wide()
    assert_same_bits(model, X, X, n_threads=n_threads)


def strided(X):
    out = np.full((2 * len(X), 2 * X.shape[1]), 7.0)
    out[::2, 1::2] = X
    return out[::2, 1::2]


def named(X):
    return dict(zip(NAMES, X.T, strict=True))


def structured(X):
    out = np.empty(len(X), dtype=[("odd", "i1"), *((f"x{j}", "f8") for j in range(X.shape[1]))])
    for j in range(X.shape[1]):
        out[f"x{j}"] = X[:, j]
    return out


def frozen(X):
    X = X.copy()
    X.flags.writeable = False
    return X


NAMES = [f"x{j}" for j in range(6)]
WAYS = {
    "columns by columns": np.asfortranarray,
    "strided": strided,
    "backwards": lambda X: X[::-1].copy()[::-1],
    "not aligned": structured,
    "read only": frozen,
    "other byte order": lambda X: X.astype(">f8"),
    "masked": lambda X: np.ma.masked_invalid(X),
    "objects": lambda X: X.astype(object),
    "dict of arrays": lambda X: dict(zip(NAMES, X.T.copy(), strict=True)),
    "dict of lists": lambda X: dict(zip(NAMES, X.T.tolist(), strict=True)),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas, nullable": lambda X: pd.DataFrame(X, columns=NAMES).convert_dtypes(),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "polars, nulls": lambda X: pl.DataFrame(X, schema=NAMES).fill_nan(None),
    "polars, lazy": lambda X: pl.DataFrame(X, schema=NAMES).lazy(),
    "arrow": lambda X: pl.DataFrame(X, schema=NAMES).to_arrow(),
    "other columns too": lambda X: pd.DataFrame(X, columns=NAMES).assign(text="a")[
        ["text", *NAMES]
    ],
}


@pytest.mark.parametrize("n", [1, 5000])
@pytest.mark.parametrize("way", WAYS)
def test_tables_of_any_kind(way, n):
    model, X = wide()
    X = X[:n]
    assert_same_bits(model, X, WAYS[way](X))


@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "i4", "i2", "u8", "?"])
@pytest.mark.parametrize("n", [1, 5000])
def test_other_numbers(dtype, n):
    model, X = wide()
    X = np.nan_to_num(np.round(X[:n] * 2)).astype(dtype)
    for table in (X, X[:, ::-1][:, ::-1], pl.DataFrame(X, schema=NAMES), structured(X)):
        assert_same_bits(model, X.astype(np.float64), table)
    mixed = pl.DataFrame(X.astype(np.float64), schema=NAMES).with_columns(
        pl.Series("x1", np.ascontiguousarray(X[:, 1]))
    )
    assert_same_bits(model, X.astype(np.float64), mixed)


def test_text_and_numbers():
    model, table = loss_model("multinomial"), export_table()
    columns = {name: list(column) for name, column in table.items()}
    expected = model.predict(table)
    for n in (1, 240):
        for frame in (pd.DataFrame(table), pl.DataFrame(columns, strict=False)):
            np.testing.assert_array_equal(model.predict(frame[:n]), expected[:n])


def test_columns_are_freed_early_without_changing_bits():
    rng = np.random.default_rng(2)
    n = 6000
    table = {f"g{j}": rng.choice(np.array(["a", "b", "c"], dtype=object), n) for j in range(3)}
    table["x"] = rng.normal(size=n)
    learners = [*map(cb.Category, ("g0", "g1", "g2")), cb.Spline("x"), cb.Tensor("g0", "x", df=6)]
    model = cb.fit(table, (table["g0"] == "a") * table["x"] + (table["g1"] == "b"), learners)
    assert_same_bits(model, table, pl.DataFrame({c: list(v) for c, v in table.items()}))
    few = {name: column[-7:] for name, column in table.items()}
    np.testing.assert_array_equal(model.predict(few), model.predict(table)[-7:])


def test_dates_and_numbers_in_one_frame():
    """polars would convert the dates to numbers in other units."""
    days = pd.date_range("2020-01-01", periods=200)
    frame = pl.DataFrame({"day": days.to_numpy(), "x": np.arange(200.0)})
    model = cb.fit(frame, np.sin(np.arange(200) / 20), n_iter=50)
    found = model.predict(frame[:3])
    np.testing.assert_array_equal(found, model.predict(frame)[:3])
    np.testing.assert_array_equal(found, model.predict(frame.to_pandas()[:3]))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "times", [pd.date_range("2020", periods=80, freq="h"), pd.to_timedelta(np.arange(80), "h")]
)
@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_nullable_numbers_beside_dates_and_durations(dtype, times, missing):
    x = pd.array(np.arange(80) % 2, dtype)
    if missing:
        x[::7] = pd.NA
    frame = pd.DataFrame({"x": x, "time": times})
    y = np.arange(80) % 2 + 0.01 * np.arange(80)
    model = cb.fit(frame, y, n_iter=20, polish=None)
    tiled = pd.concat([frame] * 200, ignore_index=True)  # too large to be read as one array
    np.testing.assert_array_equal(model.predict(frame), model.predict(tiled)[:80])


# --- kinds of levels ------------------------------------------------------------------------------


def test_numbers_for_levels_of_text():
    model = cb.fit({"g": ["1", "2.5", "1e5", "x", "-0"] * 20}, [1.0, 2.0, 3.0, 4.0, 5.0] * 20)
    rows = np.array([[1.0], [2.5], [1e5], [0.0], [np.nan], [2.0]])
    known = model.predict({"g": ["1", "2.5"]})
    with pytest.warns(UserWarning, match=r"g \(3 rows\)"):  # as text these are 100000, 0 and 2
        found = model.predict(pd.DataFrame(rows, columns=["g"]))
    np.testing.assert_array_equal(found[:2], known)
    np.testing.assert_allclose(found[2:], model.intercept)


def test_booleans():
    table = {"t": np.array([True, False, True, True] * 10)}
    model = cb.fit(table, table["t"] * 2.0)
    expected = model.predict({"t": [True, False]})
    for rows in ([1, 0], [1.0, 0.0], ["True", "False"]):
        np.testing.assert_array_equal(model.predict({"t": np.array(rows)}), expected)
    with pytest.warns(UserWarning, match=r"t \(1 row\)"):
        found = model.predict({"t": [1.0, 0.0, 2.0]})
    np.testing.assert_allclose(found, [*expected, model.intercept])


def test_integers_too_large_to_tell_apart():
    model = cb.fit({"k": [1, 2, 3] * 20}, [1.0, 2.0, 3.0] * 20, [cb.Category("k")])
    with pytest.raises(ValueError, match="cannot be told apart"):
        model.predict({"k": np.array([2**60, 1])})


# --- kinds of models ------------------------------------------------------------------------------


def test_copies_build_their_own_look_up():
    model, X = wide()
    expected = model.predict(X[:9])
    again = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for other in (
        *again,
        replace(model),
    ):
        assert "_predictor" not in vars(other)
        np.testing.assert_array_equal(other.predict(X[:9]), expected)
    edited = model.edit("zero", "x3")
    assert "x3" not in edited.contributions(X[:9])
    assert np.any(edited.predict(X[:9]) != expected)
    assert_as_oracle(edited, named(X[:50]), named(X))


def test_earlier_iterates():
    table = export_table()
    model = cb.fit(table, problems.make_target(0, table, "squared"), n_iter=60)
    model.predict(table)
    for m in (0, 1, 30):
        assert_as_oracle(model.at(m), table, table)


def test_stored_models(tmp_path):
    model, X = wide()
    fresh = pickle.loads(pickle.dumps(model))
    fresh.save(tmp_path / "before.json")
    fresh.predict(X)
    fresh.save(tmp_path / "after.json")
    assert (tmp_path / "before.json").read_text() == (tmp_path / "after.json").read_text()
    loaded = cb.load(tmp_path / "after.json")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_models_without_chosen_terms():
    model = cb.fit({"x": [1.0, 2.0, 3.0]}, [1.0, 2.0, 6.0], n_iter=0)
    np.testing.assert_allclose(model.predict({"x": [1.0, 5.0]}), 3.0)
    np.testing.assert_allclose(model.predict(np.zeros((2, 1))), 3.0)
    assert model.contributions({"x": [1.0]}) == {}
    classes = cb.fit({"x": [1.0, 2.0, 3.0]}, list("abc"), loss="multinomial", n_iter=0)
    np.testing.assert_allclose(classes.predict(np.zeros((2, 1))), 1 / 3)


def test_a_basis_without_pieces_evaluates_itself(monkeypatch):
    model, table = loss_model("multinomial"), export_table()
    rows = hard_rows(model, table)
    monkeypatch.setattr(SplineBasis, "polynomials", lambda _: None)
    slow = replace(model)
    assert_as_oracle(slow, rows, table)
    with pytest.warns(UserWarning, match="never seen in training"):
        slow.predict(rows)
    far = {c: v[:2] for c, v in rows.items()} | {"u": np.array([0.0, 1e308])}
    with pytest.raises(ValueError, match="row 1 of the table: the score is not a number"):
        slow.predict(far)


def test_several_python_threads_at_once():
    model, X = wide()
    expected, effects = model.predict(X), model.contributions(X)
    for _ in range(5):
        fresh = replace(model)  # the first thread builds the look-ups
        with ThreadPoolExecutor(8) as pool:
            scores = [pool.submit(fresh.predict, X, n_threads=1 + i % 3) for i in range(16)]
            parts = [pool.submit(fresh.contributions, X) for _ in range(8)]
            for found in scores:
                np.testing.assert_array_equal(found.result(), expected)
            for found in parts:
                for name, effect in found.result().items():
                    np.testing.assert_array_equal(effect, effects[name])


# --- errors, warnings, memory ---------------------------------------------------------------------


def test_infinite_numbers_are_reported_with_column_and_row():
    model, X = wide()
    bad = X[:9].copy()
    bad[4, 2] = np.inf
    for table in (bad, np.asfortranarray(bad), pl.DataFrame(bad, schema=NAMES), bad.astype("f4")):
        with pytest.raises(ValueError, match="column 'x2', row 4: the value is infinite"):
            model.predict(table)
        with pytest.raises(ValueError, match="column 'x2', row 4: the value is infinite"):
            model.contributions(table)
    bad[4, 2], bad[4, 5] = 0.0, np.inf  # in a column without a chosen term
    assert np.isfinite(model.predict(bad)).all()


def test_absent_columns_and_text_instead_of_numbers():
    model, X = wide()
    for table in (X[:, :3], pd.DataFrame(X[:, :3], columns=NAMES[:3])):
        with pytest.raises(ValueError, match="column 'x3' is not in the table; it has 'x0'"):
            model.predict(table)
    with pytest.raises(TypeError, match="column 'x0': expected numbers, got strings"):
        model.predict(pd.DataFrame(X[:3], columns=NAMES).assign(x0=["a", "b", "c"]))


def test_the_warning_points_at_the_caller():
    model = cb.fit({"g": ["a", "b"] * 20}, [1.0, 2.0] * 20)
    for call in (lambda t: model.predict(t), lambda t: model.contributions(t)):
        with pytest.warns(UserWarning, match=r"never seen .*: g \(2 rows\)") as caught:
            call({"g": ["a", "c", "d"]})
        assert caught[0].filename == __file__


@pytest.mark.parametrize("n_threads", [0, -1, 1.5, True, 10**6])
def test_bad_numbers_of_threads_are_refused(n_threads):
    model, X = wide()
    for call in (model.predict, model.contributions):
        with pytest.raises(ValueError, match="n_threads: expected a whole number from 1 to 1024"):
            call(X[:2], n_threads=n_threads)


def test_offsets():
    table = {"x": np.linspace(0, 1, 60), "e": np.linspace(1, 2, 60)}
    y = np.arange(60) % 5
    model = cb.fit(table, y, [cb.Spline("x")], loss="poisson", exposure="e", n_iter=20)
    without = model.predict(table, "score", exposure=1)
    np.testing.assert_allclose(model.predict(table, "score"), without + np.log(table["e"]))
    offset = np.linspace(-1, 1, 60)
    np.testing.assert_allclose(
        model.predict(table, "score", offset=offset, exposure=1), without + offset
    )


def peak_of(call):
    call()  # builds the look-up
    peaks = []
    for _ in range(3):  # other threads may allocate memory too
        tracemalloc.start()
        try:
            call()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)


def test_no_copy_of_the_table():
    X = np.tile(wide()[1], (5, 1))
    model = with_all_terms(cb.fit(X[:500], X[:500, 0] > 0, loss="binomial", n_iter=5))
    model.predict(X[:1]), model.contributions(X[:1])  # compile the terms
    out = 8 * len(X)  # bytes of a result, and of a column
    slack = out // 2  # less than a copy of a column
    frames = (pd.DataFrame(X, columns=NAMES), pl.DataFrame(X, schema=NAMES))
    for table in (X, np.asfortranarray(X), X.astype("f4"), *frames):
        assert peak_of(lambda t=table: model.predict(t, "score")) < out + slack
        assert peak_of(lambda t=table: model.contributions(t)) < 6 * out + slack
    # These are converted one column at a time; the conversion itself takes memory too.
    for table in (frames[1].fill_nan(None), np.nan_to_num(X).astype("i2")):
        assert peak_of(lambda t=table: model.predict(t, "score")) < 3 * out + slack


# --- the estimators -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_transform_returns_contributions(n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.digitize(X[:, 0] + np.sin(X[:, 1]), [-0.5, 0.5][: n_classes - 1])
    estimator = cb.CWBClassifier(n_iter=40, n_jobs=2).fit(X, y)
    found = estimator.transform(X)
    parts = [p.reshape(300, -1) for p in estimator.model_.contributions(X).values()]
    np.testing.assert_array_equal(found, np.hstack(parts))
    assert found.shape[1] == len(estimator.get_feature_names_out())
