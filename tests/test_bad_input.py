"""Tests of invalid and extreme input: cwboost gives the right answer or, before any work, raises
the right type of exception with one clear sentence. It never crashes, hangs or silently returns
wrong numbers."""

import datetime as dt
import decimal
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cwboost as cb
from cwboost.frames.read_frames import read
from cwboost.terms.learners import Learner

N = 60
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, N)
Z = rng.normal(size=N)
G = rng.choice(["a", "b", "c"], N)
Y = np.sin(4 * X) + 0.5 * (G == "a") + 0.1 * rng.normal(size=N)
COUNTS = rng.poisson(np.exp(X))
TABLE = {"x": X, "z": Z, "g": G}
ONE = np.arange(N) == 3  # row 3 alone
HELD = np.arange(N) < 12


def at_row_3(value, values=Y):
    return np.where(ONE, value, values)


def fit(table=TABLE, y=Y, *args, **options):
    return cb.fit(table, y, *args, **{"n_iter": 10, **options})


def refused(error, message, *args, **options):
    """Check that a fit raises exactly this type of error, with a message of one short line."""
    with pytest.raises(error, match=message) as caught:
        fit(*args, **options)
    text = str(caught.value)
    assert type(caught.value) is error
    assert "\n" not in text
    assert len(text) < 400
    assert "np.float64" not in text


def case(error, message, *args, **options):
    return pytest.param(error, message, args, options, id=message[:50])


def refuses(*rows):
    return pytest.mark.parametrize(("error", "message", "args", "options"), rows)


# --- the table ------------------------------------------------------------------------------------


@refuses(
    case(ValueError, "the table has no columns", {}, []),
    case(ValueError, "the table has no columns", pd.DataFrame(), []),
    case(ValueError, "the table has no rows", {"x": []}, []),
    case(ValueError, "the table has no rows", np.zeros((0, 3)), []),
    case(TypeError, "the table must be a data frame .* got NoneType", None),
    case(ValueError, "columns differ in length: 'z' has 4 rows, 'x' has 60", {"x": X, "z": X[:4]}),
    case(TypeError, "column 'z': expected an array or a series, got 3; give", {"x": X, "z": 3}),
    case(
        ValueError,
        "column 'a' is in the table more than once; rename",
        pd.DataFrame(np.c_[X, X], columns=["a", "a"]),
    ),
    case(
        ValueError,
        "column 'a' is in the table more than once; rename",
        pa.table([X, X], names=["a", "a"]),
    ),
    case(TypeError, "column names must be strings; got 0 of type int; rename", {0: X}),
    case(TypeError, "column names must be strings; got 0 of type int", pd.DataFrame(np.c_[X, X])),
    case(TypeError, "column names must be strings; got None", {None: X}),
    case(
        TypeError,
        r"column 'm': expected numbers or text, got number \(1 in 30 rows\), text \('a' in 30",
        {"m": np.array([1, "a"] * 30, object)},
    ),
    case(
        TypeError,
        "column 'c': expected numbers, text or dates, got complex128; convert",
        {"c": X + 1j},
    ),
    case(TypeError, "column 'c': expected numbers or text, got complex number", {"c": [1j] * N}),
    case(
        ValueError, "column 'x', row 3: the value is infinite; replace it", {"x": at_row_3(np.inf)}
    ),
    case(
        ValueError, "column 'x', row 3: the value is infinite; replace it", {"x": at_row_3(-np.inf)}
    ),
    case(
        ValueError,
        "column 'i', row 1: the number is too large for a 64-bit float; rescale",
        {"i": [1, 10**400] * 30},
    ),
    case(
        ValueError,
        "column 'i': integers beyond .* turn them into strings",
        {"i": np.arange(N) + 2**60},
        learners=[cb.Category("i")],
    ),
)
def test_tables(error, message, args, options):
    refused(error, message, *args, **options)


def test_one_row_and_one_column():
    with pytest.warns(UserWarning, match="left out: x"):
        model = fit({"x": [1.0]}, [2.0])
    assert model.predict({"x": [5.0]}).tolist() == [2.0]
    model = fit({"x": [1.0, 2.0]}, [0.0, 1.0], n_iter=300)
    np.testing.assert_allclose(model.predict({"x": [1.0, 2.0]}), [0.0, 1.0], atol=1e-8)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(N).astype("M8[D]"),
        [dt.date(2020, 1, 1) + dt.timedelta(k) for k in range(N)],
        [dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(k) for k in range(N)],
        [dt.timedelta(k) for k in range(N)],
        np.arange(N).astype(np.uint64) * np.uint64(2**58),
        np.arange(N) * 2**56 - 2**62,
        [decimal.Decimal(k) / 7 for k in range(N)],
        [10**300 * k for k in range(N)],
    ],
    ids=[
        "days",
        "dates",
        "stamps",
        "durations",
        "uint64",
        "int64",
        "decimals",
        "integers of 300 digits",
    ],
)
def test_dates_and_huge_numbers_are_numbers(values):
    """All of them count in other units, so the fit equals the fit of the count."""
    y = np.sqrt(np.arange(N))
    expected = fit({"x": np.arange(N)}, y)
    model = fit({"x": values}, y)
    np.testing.assert_allclose(
        model.predict({"x": values}), expected.predict({"x": np.arange(N)}), 1e-6
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        "\n",
        "a" * 10_000,
        "😀",
        "y",
        "effect",
        "x:z",
        "\x00",
        "a=b",
        "column",
        "%s {0}",
        "\ud800",
    ],
)
def test_hostile_names(name, tmp_path):
    table = {name: X, "other": Z}
    model = fit(table)
    plain = fit({"x": X, "other": Z})
    np.testing.assert_array_equal(model.predict(table), plain.predict({"x": X, "other": Z}))
    assert list(model.terms) == [name, "other"]
    assert len(model.effect(name)) == 2  # the grid and the effect
    assert {len(v) for v in model.effect(name).values()} == {200}
    for text in (repr(model), model.summary(), repr(model.effect(name)), repr(model.importance())):
        assert text
    model.save(tmp_path / "m.json")
    np.testing.assert_array_equal(cb.load(tmp_path / "m.json").risk, model.risk)
    with pytest.raises(ValueError, match="is not in the table"):
        model.predict({"x y": X, "other": Z})


def test_many_columns_and_few_rows():
    wide = {f"c{j}": rng.normal(size=20) for j in range(2000)}
    model = fit(wide, Y[:20], n_iter=5)
    assert len(model.terms) == 2000
    assert model.risk[-1] < model.risk[0]
    assert np.isfinite(model.predict(wide)).all()


# --- constant and missing -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "left_out", "terms"),
    [
        ({"x": X, "c": np.ones(N), "d": ["a"] * N, "m": [None] * N}, "c, d, m", ["x"]),
        ({"c": np.ones(N), "d": ["a"] * N}, "c, d", []),
        ({"m": [None] * N, "x": X}, "m", ["x"]),
        ({"m": np.full(N, np.nan)}, "m", []),
    ],
)
def test_constant_columns_are_left_out_with_one_warning(table, left_out, terms):
    with pytest.warns(UserWarning, match="constant") as caught:
        model = fit(table)
    assert [str(w.message) for w in caught] == [
        f"constant in the training rows and therefore left out: {left_out}"
    ]
    assert caught[0].filename == __file__
    assert list(model.terms) == terms
    assert np.isfinite(model.predict(table)).all()
    if not terms:
        assert model.predict(table).tolist() == [model.start] * N
        assert model.stopped == "nothing left to gain"


SINGLE = [cb.Spline, cb.Linear, cb.Polynomial, cb.Step, cb.Category, cb.Centered, cb.Missing]


@pytest.mark.parametrize("learner", SINGLE[:-1])
def test_constant_column_with_missing_cells(learner):
    c = np.where(X > 0, np.nan, 7.0)
    model = fit({"c": c}, Y, [learner("c")], n_iter=400)
    shown = model.predict({"c": [7.0, np.nan]})
    np.testing.assert_allclose(shown, [Y[X <= 0].mean(), Y[X > 0].mean()], atol=1e-6)


@pytest.mark.parametrize("learner", SINGLE[:-1])
def test_missing_cells_that_did_not_occur_in_training(learner):
    """Their effect is 0, in validation rows and at prediction."""
    x = np.where(HELD, np.nan, X)
    model = fit({"x": x}, Y, [learner("x")], validation=HELD, patience=None)
    np.testing.assert_allclose(model.validation_risk, model.validation_risk[0], rtol=0.2)
    full = fit({"x": X}, Y, [learner("x")])
    np.testing.assert_allclose(full.predict({"x": [None]}), full.intercept, rtol=1e-12)
    assert full.contributions({"x": [np.nan]})["x"] == pytest.approx(0.0, abs=1e-12)


def test_everything_missing_at_prediction():
    model = fit(TABLE, Y, n_iter=50)
    np.testing.assert_allclose(
        model.predict({"x": [None], "z": [None], "g": [None]}), model.intercept
    )
    empty = pd.DataFrame({"x": [None], "z": [None], "g": [None]}, dtype="string")
    np.testing.assert_allclose(model.predict(empty), model.intercept)


# --- y, weights, offset ---------------------------------------------------------------------------


@refuses(
    case(ValueError, "y has 5 rows, the table has 60", TABLE, Y[:5]),
    case(TypeError, "y is missing; give an array, the name of a column", TABLE, None),
    case(
        ValueError,
        r"y: expected one dimension, got an array of shape \(60, 2\)",
        TABLE,
        np.c_[Y, Y],
    ),
    case(ValueError, "column 'q' is not in the table; it has 'x', 'z', 'g'", TABLE, "q"),
    case(
        ValueError,
        r"y, row 3: the value is missing \(in 1 row\); leave",
        TABLE,
        at_row_3(np.nan),
    ),
    case(ValueError, "y, row 0: the value is missing .in 60 rows.", TABLE, [None] * N),
    case(ValueError, "'?y'?, row 3: the value is infinite", TABLE, at_row_3(np.inf)),
    case(
        TypeError, "y: the squared loss needs numbers, got text such as 'a'; for classes", TABLE, G
    ),
    case(TypeError, "'y': expected numbers, text or dates, got complex128", TABLE, Y + 1j),
    case(
        ValueError,
        "y, row 3: the poisson loss needs numbers >= 0, got -2",
        TABLE,
        at_row_3(-2, COUNTS),
        loss="poisson",
    ),
    case(
        ValueError,
        "y, row 3: the gamma loss needs numbers > 0, got 0",
        TABLE,
        at_row_3(0, COUNTS + 1),
        loss="gamma",
    ),
    case(  # rows of weight zero count as absent, but the row is numbered as in the user's table
        ValueError,
        "y, row 3: the poisson loss needs numbers >= 0, got -2",
        TABLE,
        at_row_3(-2, COUNTS),
        loss="poisson",
        weights=(np.arange(N) > 1).astype(float),
    ),
    case(
        ValueError,
        "y is zero in all training rows, so the start .* minus infinity",
        TABLE,
        np.zeros(N),
        loss="poisson",
    ),
    case(ValueError, "y is zero in all training rows", TABLE, np.zeros(N), loss="tweedie"),
    case(
        ValueError,
        "y has only one class, 1; the binomial loss needs at least two",
        TABLE,
        np.ones(N),
        loss="binomial",
    ),
    case(
        ValueError,
        "y has only one class, 'a'; the multinomial",
        TABLE,
        ["a"] * N,
        loss="multinomial",
    ),
    case(
        ValueError,
        r"binomial loss needs two classes, got 3 \('a', 'b', 'c'\); use",
        TABLE,
        G,
        loss="binomial",
    ),
    case(
        ValueError,
        "training rows have only one class, so the start would be infinite; choose",
        TABLE,
        HELD,
        loss="binomial",
        validation=HELD,
    ),
    case(
        ValueError,
        "y: class 'q' does not occur in the training rows",
        TABLE,
        G == "a",
        loss="binomial",
        validation=(TABLE, ["q"] * N),
    ),
)
def test_y(error, message, args, options):
    refused(error, message, *args, **options)


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile", "poisson", "gamma"])
def test_constant_y(loss):
    model = fit(TABLE, np.full(N, 3.0), loss=loss)
    np.testing.assert_allclose(model.predict(TABLE), 3.0, rtol=1e-6)
    assert np.isfinite(model.risk).all()


@refuses(
    case(ValueError, "weights: all are zero; at least one row must have", weights=np.zeros(N)),
    case(ValueError, "weights, row 3: expected a number >= 0, got -1", weights=at_row_3(-1, 1)),
    case(
        ValueError, "weights, row 3: expected a finite number, got nan", weights=at_row_3(np.nan, 1)
    ),
    case(
        ValueError, "weights, row 3: expected a finite number, got inf", weights=at_row_3(np.inf, 1)
    ),
    case(ValueError, "weights has 3 rows, the table has 60", weights=np.ones(3)),
    case(TypeError, "weights: expected numbers, got text", weights=G),
    case(
        ValueError,
        r"weights: expected one weight per row, got shape \(60, 2\)",
        weights=np.ones((N, 2)),
    ),
    case(ValueError, "column 'q' is not in the table", weights="q"),
    case(ValueError, "weights: .*(sum|large)", weights=np.full(N, 1e308)),
    case(ValueError, "offset has 5 rows, the table has 60", offset=Y[:5]),
    case(ValueError, "offset, row 3: expected a finite number, got nan", offset=at_row_3(np.nan)),
    case(TypeError, "offset: expected numbers, got text", offset=G),
    case(ValueError, r"offset: expected shape \(60, 1\), got \(60, 2\)", offset=np.ones((N, 2))),
    case(
        ValueError,
        "exposure, row 3: expected a number > 0, got 0",
        TABLE,
        COUNTS,
        loss="poisson",
        exposure=at_row_3(0, 1),
    ),
    case(ValueError, "exposure: the squared loss has no log link; use offset", exposure=np.ones(N)),
)
def test_weights_and_offsets(error, message, args, options):
    refused(error, message, *args, **options)


@pytest.mark.parametrize("learner", SINGLE[:-1])
def test_extremely_unequal_weights(learner):
    """Rows of weight 1e-300 count as absent if other rows have weight 1e15."""
    heavy = np.arange(N) % 2 == 0
    model = fit({"x": X}, Y, [learner("x")], weights=np.where(heavy, 1e15, 1e-300))
    assert np.isfinite(model.predict({"x": X})).all()
    alone = fit({"x": X[heavy]}, Y[heavy], [learner("x", name="x")])
    np.testing.assert_allclose(model.risk[0], alone.risk[0])


def test_classes_that_are_too_small_for_a_fraction():
    y = [f"class {k}" for k in range(20)]
    refused(
        ValueError,
        "selects no rows, because it is taken of every class, and the 20 classes have at most 1",
        {"x": X[:20]},
        y,
        loss="multinomial",
        validation=0.3,
    )


# --- learners -------------------------------------------------------------------------------------


@refuses(
    case(
        ValueError,
        "column 'q' is not in the table; it has 'x', 'z', 'g'",
        learners=[cb.Spline("q")],
    ),
    case(ValueError, "column 'q' is not in the table", learners=[cb.Tensor("x", "q")]),
    case(TypeError, r"learners: expected learners such as .* got 3 of type int", learners=[3]),
    case(TypeError, "learners: expected learners .* got 'x' of type str", learners="x"),
    case(TypeError, "learners: expected", learners=3),
    case(TypeError, "learners: expected learners .* of type type", learners=[cb.Spline]),
    case(
        ValueError,
        r"Spline\('x'\): df = 2 is too small: .* use df above 2",
        learners=[cb.Spline("x", df=2)],
    ),
    case(
        ValueError,
        r"Tensor\('x', 'z'\): df = 4 is too small: .* use df above 4",
        learners=[cb.Tensor("x", "z", df=4)],
    ),
    case(
        TypeError,
        r"column 'g': expected numbers, got strings \('a', 'b', ... in 60 rows\); pass it as Cat",
        learners=[cb.Spline("g")],
    ),
    case(
        TypeError,
        "column 'g': expected numbers, got strings .* pass it as Category",
        learners=[cb.Step("g")],
    ),
    case(TypeError, "column 'g': expected numbers", learners=[cb.Tensor(cb.Spline("g"), "x")]),
    case(
        ValueError,
        r"two terms are named 'spline\(x\)'; give .* different names with name=",
        learners=[cb.Spline("x"), cb.Spline("x", df=7)],
    ),
    case(
        ValueError,
        r"Tensor.*coefficients",
        learners=[cb.Tensor(cb.Spline("x", knots=1000), cb.Spline("z", knots=1000))],
    ),
    case(ValueError, "bins: expected one of 'auto'.* got 1", bins=1),
    case(ValueError, "bins: expected one of 'auto'.* got 'many'", bins="many"),
    case(ValueError, r"bins: expected one of 'auto'.* got array\(\[0", bins=np.array([0.0, 0.5])),
    case(ValueError, "bins: .*10000000000", bins=10**10),
)
def test_learners(error, message, args, options):
    refused(error, message, *args, **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: cb.Spline(3), TypeError, r"Spline\(3\): the column must be a name .* got int"),
        (
            lambda: cb.Spline("x", df="5"),
            ValueError,
            r"Spline\('x'\): df must be a finite number > 0, got '5'",
        ),
        (lambda: cb.Spline("x", df=-1), ValueError, "df must be a finite number > 0, got -1"),
        (lambda: cb.Spline("x", df=np.nan), ValueError, "df must be a finite number > 0, got nan"),
        (lambda: cb.Spline("x", df=5, smoothing=1), ValueError, "give df or smoothing, not both"),
        (
            lambda: cb.Spline("x", knots=10**9),
            ValueError,
            "knots: expected a whole number from 0 to 1000",
        ),
        (
            lambda: cb.Spline("x", knots=-1),
            ValueError,
            "knots: expected a whole number from 0 to 1000, got -1",
        ),
        (lambda: cb.Spline("x", knots=1.5), ValueError, "knots: expected a whole number"),
        (lambda: cb.Spline("x", knots=0, degree=0), ValueError, "differences of order 2 need more"),
        (lambda: cb.Spline("x", name=3), TypeError, "name"),
        (
            lambda: cb.Polynomial("x", 100),
            ValueError,
            "degree: expected a whole number from 1 to 20, got 100",
        ),
        (
            lambda: cb.Linear("x", intercept="no"),
            TypeError,
            r"Linear\('x'\): intercept must be True or False, got 'no'",
        ),
        (
            lambda: cb.Category("g", kind="one-hot"),
            ValueError,
            "kind: expected 'ridge' or 'binary'",
        ),
        (lambda: cb.Tensor("x", "x"), ValueError, "needs two different columns"),
        (lambda: cb.Tensor("x", 3), TypeError, "expected column names or learners|must be a name"),
        (lambda: cb.Quantile("a"), (TypeError, ValueError), "Quantile: tau must be"),
        (lambda: cb.Quantile(1.0), ValueError, "Quantile: tau must be between 0 and 1, got 1.0"),
        (lambda: cb.Huber("a"), (TypeError, ValueError), "Huber: delta must be"),
        (lambda: cb.Huber(-1), ValueError, "Huber: delta must be positive, got -1"),
        (lambda: cb.Tweedie(3), ValueError, "Tweedie: power must be from 1 to 2, got 3"),
        (lambda: cb.Tweedie("a"), (TypeError, ValueError), "Tweedie: power must be"),
    ],
)
def test_parameters(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("table", "learner"),
    [
        (TABLE, cb.Spline("x", df=1e6)),
        (TABLE, cb.Tensor("x", "z", df=1e6)),
        ({"x": np.repeat([1.0, 2, 3, 4], N // 4)}, cb.Spline("x", smoothing=0)),
        (TABLE, cb.Tensor("x", "z", smoothing=0)),
        (TABLE, cb.Spline("x", smoothing=1e300)),
        (TABLE, cb.Spline("x", smoothing=1e-300)),
        (TABLE, cb.Spline("x", knots=300)),
        (TABLE, cb.Polynomial("x", 20)),
        (TABLE, cb.Step("x", bins=4096)),
    ],
    ids=lambda value: str(value) if isinstance(value, Learner) else "",
)
def test_extreme_flexibility(table, learner):
    """The df stay at most the number of rows, the risk falls, and predictions stay bounded."""
    model = fit(table, Y, [learner])
    (term,) = model.terms.values()
    assert term.df <= N + 1e-6
    assert np.all(np.diff(model.risk) <= 1e-12)
    assert np.abs(model.predict(table)).max() < 10


# --- prediction -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return fit(TABLE, Y, n_iter=100)


def row(**cells):
    return {**{"x": [0.5], "z": [0.0], "g": ["a"]}, **cells}


@pytest.mark.parametrize(
    ("table", "error", "message"),
    [
        ({"x": [1.0]}, ValueError, "column '[zg]' is not in the table; it has 'x'"),
        (
            row(x=["a"]),
            TypeError,
            r"column 'x': expected numbers, got strings \('a' in 1 row\); the model",
        ),
        (row(x=[np.inf]), ValueError, "column 'x', row 0: the value is infinite"),
        (row(x=[1j]), TypeError, "column 'x': expected numbers or text, got complex"),
        (row(x=[1.0, 2.0]), ValueError, "columns differ in length: 'z' has 1 row, 'x' has 2"),
        (None, TypeError, "the table must be a data frame"),
        (np.zeros((2, 3)), ValueError, "is not in the table; it has 'x0', 'x1', 'x2'"),
    ],
)
def test_predict_refuses(model, table, error, message):
    with pytest.raises(error, match=message):
        model.predict(table)


def test_methods_of_a_model_refuse_invalid_arguments(model):
    for call, error, message in (
        (lambda: model.predict(TABLE, "proba"), ValueError, "kind: expected 'response' or 'score'"),
        (
            lambda: model.predict(TABLE, offset=[1, 2]),
            ValueError,
            "offset has 2 rows, the table has",
        ),
        (lambda: model.at(-1), ValueError, "at: the path has iterations 0 to 100, got -1"),
        (lambda: model.at(1.5), TypeError, "at: expected a whole number, got 1.5"),
        (
            lambda: model.effect("q"),
            ValueError,
            "no term or column 'q'; the model has 'x', 'z', 'g'",
        ),
        (lambda: model.importance("q"), ValueError, "kind: expected 'size', 'risk', 'path'"),
        (lambda: model.importance(by="row"), ValueError, "by: expected 'column' or 'term'"),
        (lambda: model.importance("drop"), TypeError, "kind='drop' needs rows; pass table="),
        (lambda: model.importance("risk", repeats=3), TypeError, "repeats= applies only to"),
        (lambda: model.importance(table=TABLE, y=Y), TypeError, "does not depend on y; omit y="),
        (
            lambda: model.importance("permutation", table=TABLE, y=Y, repeats=1),
            ValueError,
            "repeats: expected a whole number from 2 to 100000",
        ),
        (
            lambda: model.extend(1, TABLE),
            TypeError,
            "extend: y was an array in the fit; pass it again",
        ),
        (lambda: model.extend(1, TABLE, Y + 1), ValueError, "these are not the rows of the fit"),
        (
            lambda: model.extend(-1, TABLE, Y),
            ValueError,
            "^n: expected a whole number from 0 to .*, got -1",
        ),
    ):
        with pytest.raises(error, match=message):
            call()


def test_unseen_levels_are_counted(model):
    with pytest.warns(
        UserWarning, match=r"never seen in training, taken as average .*: g \(2 rows\)"
    ) as caught:
        found = model.predict(row(x=[0.5] * 3, z=[0.0] * 3, g=["q", "a", "r"]))
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert found[0] == found[2] != found[1]
    unknown = model.predict(row(g=[None]))
    np.testing.assert_allclose(found[0], unknown[0], rtol=1e-12)
    with pytest.warns(UserWarning, match=r"g \(1 row\)"):  # the column was text in training
        np.testing.assert_allclose(model.predict(row(g=[3])), unknown, rtol=1e-12)


@pytest.mark.parametrize("learner", [cb.Spline, cb.Linear, cb.Step, cb.Category])
def test_no_warning_about_numbers_that_look_like_codes(learner):
    """The number -1 is not taken for the code of an unseen level."""
    x = np.arange(N) % 5 - 2.0
    fit({"x": x}, Y, [learner("x")]).predict({"x": [-1.0, 0.0]})
    fit({"x": x, "z": Z}, Y, [cb.Tensor("x", "z")]).predict({"x": [-1.0], "z": [-1.0]})


def test_booleans_may_be_passed_as_numbers_at_prediction():
    model = fit({"b": X > 0}, Y)
    expected = model.predict({"b": [True, False]})
    assert expected[0] != expected[1]
    np.testing.assert_array_equal(model.predict({"b": [1, 0]}), expected)
    np.testing.assert_array_equal(model.predict({"b": np.array([1.0, 0.0])}), expected)


@pytest.mark.parametrize("loss", ["squared", "multinomial", "poisson"])
def test_no_rows_to_predict(loss):
    y = {"squared": Y, "multinomial": G, "poisson": COUNTS}[loss]
    table = {**TABLE, "flag": X > 0}
    learners = [cb.Spline("x"), cb.Linear("z"), cb.Step("z"), cb.Category("g"), cb.Tensor("x", "g")]
    model = fit(table, y, learners, loss=loss, n_iter=60)
    none = pd.DataFrame(table).iloc[:0]
    assert model.predict(none).shape == ((0, 3) if loss == "multinomial" else (0,))
    assert model.predict(none, "score", offset=0).shape == model.predict(none).shape
    assert all(len(v) == 0 for v in model.contributions(none).values())


# --- options of a fit -----------------------------------------------------------------------------


@refuses(
    case(ValueError, "Plain: rate must be a positive number, got 0", optimizer=cb.Plain(0)),
    case(ValueError, "Plain: rate must be a positive number, got -1", optimizer=cb.Plain(-1)),
    case(ValueError, "Plain: rate must be a positive number, got nan", optimizer=cb.Plain(np.nan)),
    case(ValueError, "Plain: rate must be a positive number, got 'a'", optimizer=cb.Plain("a")),
    case(
        ValueError,
        "Accelerated: momentum must be a number >= 0, got -1",
        optimizer=cb.Accelerated(0.1, -1),
    ),
    case(
        TypeError,
        "Hybrid: rewind: expected True or False, got 'no'",
        optimizer=cb.Hybrid(rewind="no"),
        validation=0.2,
    ),
    case(
        ValueError,
        "Hybrid needs validation rows .* pass for instance validation=0.3",
        optimizer=cb.Hybrid(),
    ),
    case(
        ValueError,
        "Hybrid: switch_after: expected a whole number",
        optimizer=cb.Hybrid(switch_after=0),
    ),
    case(
        ValueError,
        "Hybrid: switch_after: expected",
        optimizer=cb.Hybrid(switch_after=2**40),
        validation=0.2,
    ),
    case(
        ValueError, "optimizer: expected 'plain', .* cb.Plain.*, got 'newton'", optimizer="newton"
    ),
    case(ValueError, "n_iter: expected a whole number from 0 to .*, got -1", n_iter=-1),
    case(ValueError, "n_iter: expected a whole number from 0 to .*, got 1.5", n_iter=1.5),
    case(ValueError, "patience: expected a whole number from 1 to .*, got 0", patience=0),
    case(ValueError, "time_limit must be a positive number of seconds, got nan", time_limit=np.nan),
    case(ValueError, "n_threads: expected .*, got 0", n_threads=0),
    case(ValueError, "random_state must be >= 0, got -1", random_state=-1),
    case(TypeError, "random_state must be a whole number", random_state="a"),
    case((ValueError), "start: expected 1 finite number.*, got nan", start=np.nan),
    case(ValueError, "start: expected 1 finite number.*, got 'a'", start="a"),
    case(ValueError, "scale must be a positive number, got 0|scale: expected .*0", scale=0),
    case(ValueError, "scale: expected 'auto' or a number, got 'x'", scale="x"),
    case(ValueError, "loss: expected one of squared, .* got 'mse'", loss="mse"),
    case(TypeError, "loss: expected a name .* NoneType lacks loss, gradient, start", loss=None),
)
def test_options(error, message, args, options):
    refused(error, message, *args, **options)


@refuses(
    *(
        case(ValueError, f"validation: a fraction must be between 0 and 1, got {v}", validation=v)
        for v in (0, 1, 1.5, -1, np.nan)
    ),
    case(
        ValueError,
        "validation: a fraction of 0.001 selects no rows",
        validation=0.001,
    ),
    case(
        ValueError, "validation: all rows are held out; no row is left", validation=np.ones(N, bool)
    ),
    case(
        ValueError,
        "validation: no row is held out; mark at least one",
        validation=np.zeros(N, bool),
    ),
    case(ValueError, "validation has 3 rows, the table has 60", validation=np.ones(3, bool)),
    case(TypeError, "validation: expected numbers, got text", validation=G),
    case(
        ValueError, r"validation: expected \(table, y\), .* got a tuple of 1", validation=(TABLE,)
    ),
    case(ValueError, "got a tuple of 5", validation=(TABLE, Y, None, None, None)),
    case(ValueError, "y has 3 rows, the table has 60", validation=(TABLE, Y[:3])),
    case(
        ValueError,
        "column 'z' is not in the validation table; it has 'x'",
        validation=({"x": X}, Y),
    ),
    case(
        TypeError,
        "column 'x': numbers in the first table, text in the second",
        validation=({**TABLE, "x": G}, Y),
    ),
    case(TypeError, "the table must be a data frame", validation=(3, Y)),
)
def test_validation(error, message, args, options):
    refused(error, message, *args, **options)


def test_too_many_threads_are_refused(monkeypatch):
    """More threads than the system can start are refused before the fit begins."""

    def start(*_):
        raise AssertionError("the work began")

    monkeypatch.setattr(sys.modules["cwboost.fitting.prepared"]._core, "LocalRows", start)
    refused(ValueError, "n_threads: expected .*, got 1000000", n_threads=1_000_000)


def test_no_iterations():
    none = fit(TABLE, Y, n_iter=0)
    assert none.predict(TABLE).tolist() == [none.start] * N
    assert (none.n_iter, none.choices, none.importance()) == (0, [], {})
    assert "0 of 3 terms chosen" in none.summary()


@pytest.mark.parametrize("loss", ["squared", "binomial", "poisson", "absolute"])
@pytest.mark.parametrize(
    "optimizer",
    [cb.Plain(1e6), cb.Plain(1e308), cb.Accelerated(0.1, 1e6), cb.Accelerated(1e6, 1e6)],
    ids=str,
)
def test_absurd_steps(optimizer, loss):
    """The fit ends, warns if the risk diverged, and the model does not predict NaN."""
    y = {"binomial": COUNTS > 0, "poisson": COUNTS}.get(loss, Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(TABLE, y, loss=loss, optimizer=optimizer, n_iter=200)
    assert not np.isnan(model.predict(TABLE)).any()
    assert not np.isnan(model.risk).any()
    diverged = model.risk[-1] > 10 * abs(model.risk[0])
    assert not diverged or any(w.category is RuntimeWarning for w in caught)
    assert fit(TABLE, Y).risk[-1] < 0.3


# --- user-defined losses and callbacks ------------------------------------------------------------


class Quadratic:
    def loss(self, y, score):
        return (y - score) ** 2 / 2

    def gradient(self, y, score):
        return score - y

    def start(self, y, weights):
        return np.average(y, weights=weights)


class OopsError(Exception):
    pass


def oops(*_):
    raise OopsError("mine")


def loss_with(**methods):
    return type("Odd", (Quadratic,), {name: staticmethod(f) for name, f in methods.items()})()


@refuses(
    case(OopsError, "mine", loss=loss_with(loss=oops)),
    case(OopsError, "mine", loss=loss_with(gradient=oops)),
    case(OopsError, "mine", loss=loss_with(start=oops)),
    case(
        ValueError,
        r"the loss's gradient must return an array of shape \(60,\), got \(3,\)",
        loss=loss_with(gradient=lambda y, f: f[:3]),
    ),
    case(
        ValueError,
        r"the loss's loss must return an array of shape \(60,\), got \(\)",
        loss=loss_with(loss=lambda y, f: 1.0),
    ),
    case(
        ValueError,
        "the loss's gradient is NaN in row 0",
        loss=loss_with(gradient=lambda y, f: f * np.nan),
    ),
    case(ValueError, "loss is (NaN|not finite)", loss=loss_with(loss=lambda y, f: f * np.nan)),
    case(
        TypeError,
        "the loss's gradient must return real numbers, got str",
        loss=loss_with(gradient=lambda y, f: "text"),
    ),
    case(
        TypeError,
        "the loss's gradient must return real numbers, got complex128",
        loss=loss_with(gradient=lambda y, f: f - y + 1j),
    ),
    case(
        TypeError,
        "the loss's loss must return real numbers, got complex128",
        loss=loss_with(loss=lambda y, f: f + 1j),
    ),
    case(
        ValueError,
        "the start of the python loss is not finite",
        loss=loss_with(start=lambda y, w: np.nan),
    ),
    case(
        TypeError,
        "the loss's start must return real numbers, got str",
        loss=loss_with(start=lambda y, w: "a"),
    ),
    case(TypeError, "loss: expected a name .* object lacks loss, gradient, start", loss=object()),
    case(TypeError, "lacks start", loss=type("Half", (), {"loss": oops, "gradient": oops})()),
    case(OopsError, "mine", callback=oops),
    case(TypeError, "callback: expected a function", callback=3),
)
def test_errors_in_user_code_are_raised(error, message, args, options):
    refused(error, message, *args, **options)
    assert fit(TABLE, Y).n_iter == 10


def test_callback_that_raises_late():
    seen = []

    def late(iteration):
        seen.append(iteration)
        if iteration == 4:
            raise OopsError("mine")

    refused(OopsError, "mine", callback=late)
    assert seen == [1, 2, 3, 4]


# --- extreme numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1e300, 1e-300, 1e150, 1e-150])
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile", "poisson", "gamma"])
def test_y_of_any_size(size, loss):
    """Either the fit is as good as in other units, or the error says to rescale y."""
    y = (Y - Y.min() + 0.5) * size
    try:
        model = fit(TABLE, y, loss=loss, n_iter=60)
    except ValueError as error:
        message = str(error)
    else:
        found = model.predict(TABLE)
        assert np.isfinite(found).all()
        assert np.isfinite(model.risk).all()
        assert np.corrcoef(found / size, y / size)[0, 1] > 0.8
        return
    assert "y" in message
    assert "rescale" in message


EXTREMES = {
    "1e300": X * 1e300,
    "1e-300": X * 1e-300,
    "subnormal": X * 1e-310,
    "whole range": X * 1.7e308,
    "outlier": at_row_3(1e300, X),
    "adjacent": np.where(X > 0, 1.0, np.nextafter(1.0, 2)),
    "far from zero": 1e15 + np.round(X * 100),
    "two values": np.where(X > 0, 1e300, -1e300),
}


@pytest.mark.parametrize("learner", SINGLE[:-1])
@pytest.mark.parametrize("kind", EXTREMES)
def test_x_of_any_size(kind, learner):
    """Either predictions are finite and have the reported risk, or the error names the column."""
    table = {"x": EXTREMES[kind]}
    try:
        model = fit(table, Y, [learner("x")])
    except ValueError as error:
        message = str(error)
    else:
        found = model.predict(table)
        assert np.isfinite(found).all()
        np.testing.assert_allclose(np.mean((Y - found) ** 2) / 2, model.risk[-1], rtol=1e-6)
        model.effect("x")
        model.summary()
        return
    assert "column 'x'" in message
    assert "rescale" in message


@pytest.mark.parametrize("learner", SINGLE[:-1])
def test_columns_near_the_largest_float(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused(
            ValueError,
            r"column 'x': numbers from -1.6\d*e\+308 to .* are too large .* rescale the column",
            {"x": X * 1.7e308},
            Y,
            [learner("x")],
        )


@pytest.mark.parametrize(
    "x", [np.geomspace(1e-318, 1e272, N), np.geomspace(1e-320, 1e-290, N)], ids=["wide", "tiny"]
)
def test_quantile_knots_over_many_orders_of_magnitude(x):
    learners = [cb.Spline("x", knot_placement="quantile")]
    refused(
        ValueError, "column 'x': knots at quantiles .* use the logarithm", {"x": x}, Y, learners
    )


DAYS = np.datetime64("2020-01-01") + np.arange(N)
UNITS = {
    "numbers": np.arange(N) * 1.0,
    "dates": DAYS,
    "durations": (DAYS - DAYS[0]).astype("m8[ms]"),
}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame], ids=lambda f: f.__module__)
@pytest.mark.parametrize("learner", [cb.Spline, cb.Step, cb.Category])
def test_dates_are_not_numbers_in_predict(make, learner):
    for fitted, x in UNITS.items():
        model = fit(make({"x": x}), Y, [learner("x")])
        for kind, other in UNITS.items():
            if kind == fitted:
                assert np.isfinite(model.predict(make({"x": other}))).all()
            elif kind != "numbers":
                message = f"column 'x': the model was fitted to {fitted}, got {kind}; convert it"
                for method in (model.predict, model.contributions):
                    with pytest.raises(TypeError, match=message):
                        method(make({"x": other}))


@pytest.mark.parametrize("role", ["weights", "offset"])
def test_dates_where_numbers_are_expected(role):
    refused(TypeError, f"{role}: expected numbers, got dates", **{role: DAYS})


def test_validation_rows_with_another_kind_of_column():
    refused(
        TypeError,
        "column 'x': numbers in the first table, dates in the second",
        {"x": X},
        Y,
        validation=({"x": DAYS}, Y),
    )


def test_contributions_of_rows_that_are_too_far_away():
    model = fit({"x": X, "z": Z}, Y, [cb.Spline("x", extrapolate="linear")])
    far = {"x": at_row_3(1e308, X), "z": Z}
    for method in (model.predict, model.contributions):
        with pytest.raises(ValueError, match="row 3 of the table: the score is not a number"):
            method(far)


@pytest.mark.parametrize("delta", [1e300, 1e308])
def test_huber_with_a_huge_delta_is_the_squared_loss(delta):
    y = 1e99 * Y
    found = fit(TABLE, y, loss=cb.Huber(delta)).predict(TABLE)
    np.testing.assert_allclose(found, fit(TABLE, y).predict(TABLE), rtol=1e-9)


@pytest.mark.parametrize("start", [800, -800])
@pytest.mark.parametrize("loss", ["poisson", "gamma", "tweedie"])
def test_starts_without_curvature(loss, start):
    y = COUNTS + 1.0
    message = f"start: the {loss} loss has a curvature .* at a score of {start}; pass a start near"
    refused(ValueError, message, TABLE, y, loss=loss, start=start)


@pytest.mark.parametrize("learner", [cb.Spline, cb.Linear, cb.Polynomial, cb.Step, cb.Centered])
def test_far_beyond_the_training_range(learner):
    model = fit({"x": X}, Y, [learner("x")])
    try:
        found = model.predict({"x": [0.0, 1e308, -1e308]})
    except ValueError as error:
        message = str(error)
    else:
        assert not np.isnan(found).any()
        return
    assert "row 1" in message
    assert "too far from the training rows" in message


# --- random tables --------------------------------------------------------------------------------

CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(width=16),
    st.floats(),
    st.sampled_from(["", "a", "b", "nan", "\x00"]),
    st.text(max_size=3),
    st.dates(),
    st.timedeltas(),
    st.decimals(),
    st.complex_numbers(),
    st.binary(max_size=2),
)
KINDS = [
    st.integers(-2, 2), st.floats(-1, 1), st.floats(width=16), st.floats(), st.booleans(),
    st.integers(), st.none() | st.integers(0, 3), st.none() | st.sampled_from("abc"),
    st.sampled_from("ab"), st.dates(), st.timedeltas(), CELLS,
]  # fmt: skip
DTYPES = [None, None, None, object, np.float32, np.int8, "M8[s]", str]
LOSSES = ["squared", "absolute", "huber", "binomial", "multinomial", "poisson", "gamma", "tweedie"]


@st.composite
def columns(draw, n):
    values = draw(st.lists(draw(st.sampled_from(KINDS)), min_size=n, max_size=n))
    dtype = draw(st.sampled_from(DTYPES))
    if dtype is None:
        return values
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        return values


@st.composite
def problems(draw):
    n = draw(st.integers(1, 12))
    table = {f"c{j}": draw(columns(n)) for j in range(draw(st.integers(1, 3)))}
    loss = draw(st.sampled_from(LOSSES))
    plain = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    y = draw(plain if draw(st.booleans()) else columns(n))
    weights = draw(st.none() | plain)
    optimizer = draw(st.sampled_from([cb.Plain(0.5), cb.Accelerated(0.5, 0.1)]))
    return table, y, {"loss": loss, "weights": weights, "optimizer": optimizer}


@settings(max_examples=400, derandomize=True, suppress_health_check=list(HealthCheck))
@given(problem=problems())
def test_any_table_fits_or_is_refused(problem):
    table, y, options = problem
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "constant in the training rows")
        warnings.filterwarnings("ignore", ".*(diverged|diverges)")
        try:
            model = cb.fit(table, y, n_iter=5, **options)
        except (ValueError, TypeError) as error:
            message = str(error)
        else:
            weights = options["weights"]  # rows of weight zero may hold invalid values
            kept = np.ones(len(y), dtype=bool) if weights is None else np.array(weights) > 0
            rows = read(table).take(kept)
            assert not np.isnan(model.predict(rows, "score")).any()
            assert len(model.predict(rows)) == kept.sum()
            model.summary()
            return
    assert "\n" not in message
    assert len(message) < 500
    for words in ("array must not contain", "could not convert", "not supported between", "ufunc"):
        assert words not in message
