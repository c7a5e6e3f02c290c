"""Regression tests: one for each bug that the fuzzer (tests/fuzz), or somebody who tried, found."""

from __future__ import annotations

import itertools
import os
import warnings
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import GroupKFold

import cwboost as cb
from cwboost.cli.main import main
from cwboost.export.tables import score_tables
from cwboost.frames.files import read_table
from cwboost.frames.read_frames import read_column
from cwboost.model.edits import set_level

rng = np.random.default_rng(5)
N = 80
X = rng.normal(size=N)
Y = X + 0.2 * rng.normal(size=N)
TABLE = {"x": X}


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        yield


@pytest.mark.parametrize("unit", [1e-100, 1e-45, 1e45, 1e100])
def test_effects_beyond_single_precision_have_no_bands(unit):
    model = cb.fit(TABLE, unit * Y, n_iter=20, polish=True)
    np.testing.assert_allclose(model.predict(TABLE) / unit, Y, atol=1.0)
    with pytest.raises(ValueError, match=r"band: .* too small for single precision; rescale y"):
        model.band("x")
    with pytest.raises(ValueError, match=r"with_bands: .* for single precision; rescale"):
        model.with_bands(TABLE, unit * Y, n_boot=20)


@pytest.mark.filterwarnings("ignore:cv. the best iteration")
def test_standard_errors_of_huge_and_tiny_risks():
    plain, huge, tiny = (
        cb.cv(TABLE, unit * Y, n_iter=5, extend=False) for unit in (1.0, 2.0**330, 2.0**-330)
    )
    for unit, other in (2.0**660, huge), (2.0**-660, tiny):
        np.testing.assert_allclose(other.standard_error, unit * plain.standard_error, rtol=1e-9)


def test_a_loss_without_curvature_is_not_polished():
    y = 1e8 * Y  # all residuals exceed delta
    model = cb.fit(TABLE, y, loss=cb.Huber(1.0), n_iter=5, polish="auto")
    assert "the loss is not curved" in model.polish.reason
    with pytest.raises(ValueError, match=r"polish: .*the loss is not curved"):
        cb.fit(TABLE, y, loss=cb.Huber(1.0), n_iter=5, polish=True)


@pytest.mark.parametrize("rows", [3, 20_000])
def test_integers_of_128_bits(rows):
    frame = pl.DataFrame({"x": pl.Series(np.arange(rows) % 7, dtype=pl.Int128), "z": [0.5] * rows})
    y = frame["x"].to_list()
    model = cb.fit(frame, y, n_iter=20, learners=[cb.Linear("x")])
    narrow = frame.with_columns(pl.col("x").cast(pl.Int16))
    np.testing.assert_array_equal(model.predict(frame), model.predict(narrow))


def test_integers_beyond_floats_as_levels():
    levels = pd.Categorical([10**400, 3] * 20)
    model = cb.fit({"c": levels}, np.tile([1.0, 2.0], 20), learners=[cb.Category("c")], n_iter=50)
    assert model.predict({"c": levels})[0] < model.predict({"c": levels})[1]


@pytest.mark.filterwarnings("ignore:constant in")
def test_a_bag_needs_a_row():
    with pytest.raises(ValueError, match="bags: a bag would leave out all of the 1 rows"):
        cb.fit(
            {"x": ["a"]}, [1.0], learners=[cb.Category("x", kind="binary")], bags=2, validation=0.6
        )


def test_factors_beyond_floats_are_infinite():
    learners = [cb.Category("x")]
    model = cb.fit({"x": ["a", "b"]}, [1.0, 2.0], loss="gamma", n_iter=5, learners=learners)
    edited = set_level(model, "x", "b", 1800.0)
    assert np.isinf(score_tables(edited)["x"]["factor"]).any()


def test_extending_with_other_rows_shows_small_risks():
    model = cb.fit(TABLE, 1e-9 * Y, n_iter=3, polish=None)
    with pytest.raises(ValueError, match=r"not the rows of the fit: .*risk was \d.*e-1\d, here"):
        model.extend(1, TABLE, 1e-9 * Y[::-1])


@pytest.mark.parametrize("n_outputs", [0, 1.5, np.nan, "2", np.ones(2), 10**9])
def test_number_of_scores_of_a_python_loss(n_outputs):
    class Odd:
        def loss(self, y, score):
            return (y - score) ** 2

        def gradient(self, y, score):
            return 2 * (score - y)

        def start(self, y, weights):
            return 0.0

    Odd.n_outputs = n_outputs
    with pytest.raises(ValueError, match="loss: n_outputs, the number of scores per row, must be"):
        cb.fit(TABLE, Y, loss=Odd(), n_iter=2)


def test_the_best_iteration_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(1)
    n = 25
    table = {"x": rng.integers(0, 3, n).astype(float)}
    y, held, order = rng.normal(size=n), rng.permutation(n) < 6, rng.permutation(n)
    options = {"loss": "absolute", "optimizer": cb.Plain(0.01), "n_iter": 15}
    learners = [cb.Category("x")]
    one = cb.fit(table, y, learners, validation=held, **options)
    moved = {"x": table["x"][order]}
    other = cb.fit(moved, y[order], learners, validation=held[order], **options)
    assert one.best_iteration == other.best_iteration
    np.testing.assert_allclose(other.predict(table), one.predict(table), rtol=1e-9)


def test_the_start_of_a_huber_loss_with_a_tiny_delta_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    y, w = rng.normal(size=300), rng.uniform(size=300)
    orders = [rng.permutation(300) for _ in range(20)]
    for weights in (np.ones(300), w):
        starts = [
            cb.fit({"x": X}, y[o], [cb.Linear("x")], loss=cb.Huber(1e-6), weights=weights[o],
                   n_iter=0).intercept
            for o in orders for X in [y[o]]
        ]  # fmt: skip
        np.testing.assert_allclose(starts, starts[0], rtol=1e-9)


def test_offsets_and_weights_whose_sums_overflow():
    with pytest.raises(ValueError, match=r"offset: the largest absolute value is 1e\+308"):
        cb.fit(TABLE, Y, offset=np.full(N, 1e308), n_iter=1)
    classifier = cb.CWBClassifier(n_iter=5, polish=None).fit(TABLE, Y > 0)
    with pytest.raises(ValueError, match="sample_weight: expected a sum from 1e-20 to 1e"):
        classifier.score(TABLE, Y > 0, sample_weight=np.full(N, 1e308))
    with pytest.raises(ValueError, match=r"weights: .*got 1e-298; divide them by their mean"):
        cb.fit(TABLE, Y, weights=np.full(N, 1e-298 / N), n_iter=1)


def test_equal_weights_of_any_size_change_nothing():
    """From 2**53 on all numbers are whole, and once counted as repeated rows."""
    one = cb.fit(TABLE, Y, polish=True).predict(TABLE)
    for weight in (1e-9, 3.0, 1e17):
        other = cb.fit(TABLE, Y, weights=np.full(N, weight), polish=True)
        np.testing.assert_allclose(other.predict(TABLE), one, rtol=1e-6)
    rough = cb.fit(TABLE, Y, weights=np.where(np.arange(N) % 2, 1e17, 2e17), polish=True)
    smooth = cb.fit(TABLE, Y, weights=np.where(np.arange(N) % 2, 0.5, 1.0), polish=True)
    np.testing.assert_allclose(rough.predict(TABLE), smooth.predict(TABLE), rtol=1e-6)


def test_parameters_of_losses_as_numpy_scalars(tmp_path):
    for loss in (cb.Quantile(np.float32(0.5)), cb.Huber(np.float32(1)), cb.Tweedie(np.float16(1))):
        model = cb.fit(TABLE, np.abs(Y), loss=loss, n_iter=3, polish=None)
        model.save(tmp_path / "model.json")
        np.testing.assert_array_equal(
            cb.load(tmp_path / "model.json").predict(TABLE), model.predict(TABLE)
        )


# --- found by trying ------------------------------------------------------------------------------


def test_matrices_and_paths_in_place_of_tables():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(X).T
    model = cb.fit(matrix, Y, n_iter=5)
    np.testing.assert_array_equal(model.predict(matrix), model.predict(X[:, None]))
    estimator = cb.CWBRegressor(n_iter=5).fit(matrix, Y)
    np.testing.assert_array_equal(estimator.predict(matrix), estimator.predict(X[:, None]))
    for path in ("t.parquet", Path("t.parquet")):
        with pytest.raises(TypeError, match=r"got the path .*; pass cb"):
            cb.CWBRegressor().fit(path, Y)


def test_estimators_respect_masks():
    x = np.where(X > 1, -999.0, X)[:, None]
    masked = np.ma.array(x, mask=X[:, None] > 1)
    found = cb.CWBRegressor(n_iter=20).fit(masked, Y).predict(masked)
    filled = masked.filled(np.nan)
    np.testing.assert_array_equal(found, cb.CWBRegressor(n_iter=20).fit(filled, Y).predict(filled))
    rows = np.ma.array(np.abs(Y), mask=np.arange(N) == 3)
    with pytest.raises(ValueError, match="y: row 3 is masked"):
        cb.CWBRegressor().fit(TABLE, rows)
    with pytest.raises(ValueError, match="sample_weight: row 3 is masked"):
        cb.CWBRegressor().fit(TABLE, Y, sample_weight=rows)


@pytest.mark.parametrize("unit", ["h", "s", "ns"])
def test_durations_as_y_are_days(unit):
    hours = np.arange(N).astype("m8[h]").astype(f"m8[{unit}]")
    found = cb.CWBRegressor(n_iter=20, terms="linear").fit({"x": np.arange(N)}, hours)
    assert found.predict({"x": [48.0]})[0] == pytest.approx(2.0, abs=0.2)


def test_numbers_as_text_in_y():
    with pytest.raises(ValueError, match="y: CWBRegressor needs numbers, but y has the text"):
        cb.CWBRegressor().fit(TABLE, Y.astype(str))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_devices_without_an_end_are_not_read(capsys):
    for command in (
        ["fit", "/dev/zero", "--target", "y", "-o", "m.json"],
        ["show", "/dev/zero"],
    ):
        assert main(command) == 1
        assert "/dev/zero: this is a device; name a file" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_checkpoints_and_tuning_files_are_regular_files(tmp_path):
    """A tuning that fails removes its empty file, which must not be a device such as /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe: this is not a regular file; use another name"):
        cb.fit(TABLE, Y, n_iter=2, checkpoint=tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe: this is not a regular file; use another name"):
        cb.tune(TABLE, Y, {"df": [2, 5]}, file=tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()


def test_two_results_in_one_file_are_refused(tmp_path, capsys):
    table, file = tmp_path / "t.csv", str(tmp_path / "m.json")
    table.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(X, Y, strict=True)))
    command = ["fit", str(table), "--target", "y", "-o", file, "--checkpoint", file]
    assert main(command) == 1
    assert "-o and --checkpoint both name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "use"), [("mse", "squared"), ("LogLoss", "binomial"), ("POISSON", "poisson")]
)
def test_names_of_losses_in_other_libraries(given, use):
    with pytest.raises(ValueError, match=f"got '{given}'; use '{use}'"):
        cb.fit(TABLE, Y, loss=given)


def test_a_table_with_a_header_only(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("x,y\n")
    assert main(["fit", str(tmp_path / "t.csv"), "--target", "y", "-o", str(tmp_path / "m")]) == 1
    assert "t.csv: the table has no rows" in capsys.readouterr().err


def test_masked_text_is_missing_in_estimators():
    text = np.ma.array(np.array(list("abc" * 20), dtype=object), mask=np.arange(60) % 7 == 0)
    model = cb.CWBRegressor(n_iter=5).fit(text[:, None], np.arange(60.0)).model_
    assert set(model.effect("x0")["x0"]) <= {"a", "b", "c", None}


def test_weights_of_estimators():
    found = cb.CWBRegressor(n_iter=5).fit(TABLE, Y, sample_weight=2.0).predict(TABLE)
    np.testing.assert_allclose(found, cb.CWBRegressor(n_iter=5).fit(TABLE, Y).predict(TABLE))
    for weights, message in [
        (np.full(N, np.datetime64("2020-01-01")), "expected numbers, got dates"),
        (np.full(N, 1j), "expected numbers, text or dates, got complex"),
        (["1"] * N, "expected numbers, got text"),
        (-np.ones(N), "row 0: expected a number >= 0, got -1"),
        (np.zeros(N), "all are zero"),
    ]:
        with pytest.raises((TypeError, ValueError), match=f"sample_weight.*{message}"):
            cb.CWBRegressor(n_iter=5).fit(TABLE, Y, sample_weight=weights)


def test_score_of_classes_of_another_type():
    model = cb.CWBClassifier(n_iter=5).fit(TABLE, np.where(Y > 0, "1", "0"))
    with pytest.raises(ValueError, match=r"y: expected classes such as '0', got [01]"):
        model.score(TABLE, np.where(Y > 0, 1, 0))


def test_other_validation_rows_are_named_by_their_risk():
    held = np.arange(N) % 3 == 0
    model = cb.fit(TABLE, Y, validation=held, n_iter=5)
    other = np.where(held, Y + 1.0, Y)
    with pytest.raises(ValueError, match="its validation risk was"):
        model.extend(5, TABLE, other, validation=held)


def test_ragged_bags():
    with pytest.raises(ValueError, match="bags: expected a whole number from 2"):
        cb.fit(TABLE, Y, bags=[[1], [1, 2]])


def test_classes_keep_their_type():
    wide = pd.Series(pd.array([5, 2**60, 2**60 + 1] * 20, dtype="Int64"))
    table = {"x": np.arange(60.0)}
    assert cb.CWBClassifier(n_iter=3).fit(table, wide).classes_.tolist() == [5, 2**60, 2**60 + 1]
    flags = pd.Series([True, False, True] * 20, dtype="boolean")
    assert cb.CWBClassifier(n_iter=3).fit(table, flags).classes_.dtype == np.bool_
    with pytest.raises(TypeError, match="y: expected text or numbers, got both: 'a' and 1"):
        cb.CWBClassifier(n_iter=3).fit(table, np.array(["a", 1] * 30, dtype=object))


@pytest.mark.parametrize("unit", ["ps", "fs", "as"])
def test_dates_of_fine_units(unit):
    model = cb.fit({"a": (np.arange(N) * 10**16).astype(f"M8[{unit}]"), "x": X}, Y, n_iter=3)
    assert model.terms


def test_a_model_file_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "m.json"
    cb.fit(TABLE, Y, n_iter=3).save(file)
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    assert cb.load(file).n_iter == 3


@pytest.mark.filterwarnings("ignore:cv. the best iteration")
@pytest.mark.parametrize("terms", ["auto", "linear", "smooth", "step", "components"])
def test_folds_whose_training_rows_miss_a_column(terms):
    column = np.full(40, np.nan)
    column[:4] = [1.7, 0.3, 0.9, -2.2]
    rows = np.arange(40)
    table = {"x": rng.normal(size=40), "rare": column}
    y = np.where(np.isnan(column), 1.0, column) + table["x"]
    estimator = cb.CWBRegressorCV(n_iter=20, cv=[(rows[4:], rows[:4]), (rows[:20], rows[20:])],
                                  terms=terms, polish=None)  # fmt: skip
    assert np.isfinite(estimator.fit(table, y).cv_result_.risk).all()


def test_long_names_in_messages_of_learners():
    for message, make in [
        ("the column must be a name", lambda: cb.Spline(["x" * 10_000])),
        ("orthogonal must be True or False", lambda: cb.Tensor("x" * 10_000, "y", orthogonal=3)),
    ]:
        with pytest.raises(TypeError, match=message) as caught:
            make()
        assert len(str(caught.value)) < 1000
    with pytest.raises(TypeError, match=r"columns: expected a list of names, got array\(3"):
        cb.Dataset.from_duckdb(duckdb.sql("select 1 as x"), columns=np.array(3.0))


@pytest.mark.parametrize("unit", [1e-50, 1.0, 1e50, 1e100])
def test_the_start_of_a_huber_loss_follows_the_unit_of_y(unit):
    y = np.random.default_rng(0).exponential(size=300)
    wanted = cb.fit({"x": np.arange(300.0) % 7}, y, loss=cb.Huber(0.5), n_iter=0).start
    found = cb.fit({"x": np.arange(300.0) % 7}, y * unit, loss=cb.Huber(0.5 * unit), n_iter=0)
    assert found.start == pytest.approx(wanted * unit, rel=1e-10)


@pytest.mark.parametrize("delta", [1e-3, 1.0, 1e6])
def test_the_start_of_a_huber_loss_far_from_its_delta(delta):
    y = np.random.default_rng(0).exponential(size=300) * 1e50
    start = cb.fit({"x": np.arange(300.0) % 7}, y, loss=cb.Huber(delta), n_iter=0).start
    assert start == pytest.approx(np.median(y), rel=0.01)


@pytest.mark.parametrize("constant", [0.1, 0.3, 1e-10, 0.0])
@pytest.mark.parametrize("loss", ["huber", "squared"])
def test_a_constant_y_is_predicted(constant, loss):
    x = np.random.default_rng(0).normal(size=1000)
    model = cb.CWBRegressor(loss).fit({"x": x}, np.full(1000, constant))
    np.testing.assert_allclose(model.predict({"x": x}), constant, rtol=1e-12)


def test_decimals_are_the_nearest_floats():
    floats = [1.15, 1.005, 19.99, 0.07, 1e-12]
    cells = pa.array([Decimal(str(v)) for v in floats] + [None])
    for column in (cells, pd.Series(cells, dtype=pd.ArrowDtype(cells.type)), cells.to_pandas()):
        assert read_column(column, "x").values[:5].tolist() == floats
        assert np.isnan(read_column(column, "x").values[5])


@pytest.mark.parametrize("levels", [[1, "1"], [True, "True"], ["2.5", 2.5]])
def test_different_categories_with_the_same_text(levels):
    column = pd.Categorical(levels * 50, categories=levels)
    with pytest.raises(TypeError, match="have the same text; make all categories one type"):
        cb.fit(pd.DataFrame({"x": column}), np.arange(100.0))
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50), pa.array(["a", "a"]))
    assert read_column(repeated, "x").levels == ("a",)


@pytest.mark.parametrize("number", [1e308, 0.5, -1e300])
def test_numbers_that_are_not_classes(number):
    with pytest.raises(ValueError, match="y: a classifier needs classes, got numbers such as"):
        cb.CWBClassifier().fit(TABLE, np.full(N, number))


def test_where_a_hybrid_goes_back_to_does_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    y, e, held = rng.normal(size=60), rng.normal(size=60), np.arange(60) % 5 == 0
    x = np.where(held, np.nan, rng.normal(size=60) + 3 * y)  # x does not move validation rows
    options = {"optimizer": cb.Hybrid(0.5, switch_after=2), "n_iter": 30}
    orders = [np.arange(60), *(rng.permutation(60) for _ in range(15))]
    models = [
        cb.fit({"x": x[o], "e": e[o]}, 1e3 + y[o], validation=held[o], **options) for o in orders
    ]
    assert len({model.path.rewound_to for model in models}) == 1
    assert models[0].path.rewound_to >= 0
    for model in models:
        np.testing.assert_allclose(
            model.predict({"x": x, "e": e}), models[0].predict({"x": x, "e": e}), rtol=1e-9
        )


def test_categories_that_are_dates_out_of_range():
    dates = pa.array([0, 10**9], pa.int32()).view(pa.date32())
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 20), dates)
    with pytest.raises(ValueError, match="column 'd': a category is a date out of the range"):
        cb.fit(pa.table({"d": column}), np.arange(40.0))


def test_many_classes_give_one_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cb.CWBClassifier(n_iter=1, polish=None, validation=None).fit(TABLE, np.arange(N) // 2 * 2)
    assert sum("unique classes" in str(w.message) for w in caught) <= 1


def test_small_integers_of_numpy_as_numbers_of_iterations():
    found = cb.cv(TABLE, Y, n_iter=np.int8(100), folds=2)
    assert found.best_iteration == cb.cv(TABLE, Y, n_iter=100, folds=2).best_iteration


@pytest.mark.parametrize("missing", [True, False])
def test_surfaces_with_undetermined_directions_do_not_depend_on_the_order_of_rows(missing):
    """Few bins and a missing cell leave directions that neither rows nor the penalty determine."""
    rng, n = np.random.default_rng(3), 60
    table = {"a": rng.normal(size=n), "b": rng.normal(size=n)}
    if missing:
        table["b"][48] = np.nan
    y, terms = rng.normal(size=n), [cb.Tensor("a", "b")]
    expected = cb.fit(table, y, learners=terms, bins=7, n_iter=5).predict(table)
    for _ in range(5):
        o = rng.permutation(n)
        moved = {name: column[o] for name, column in table.items()}
        model = cb.fit(moved, y[o], learners=terms, bins=7, n_iter=5)
        np.testing.assert_allclose(model.predict(table), expected, rtol=1e-9, atol=1e-9)


def test_curves_that_penalties_hardly_determine_do_not_depend_on_the_order_of_rows():
    x, y, held = np.array([-0.46, 1.62, -0.23, 0.28]), np.array([-2.0, -0.9, 0.6, -0.4]), 2
    options = {"learners": [cb.Spline("x", smoothing=1e-9)], "n_iter": 15, "bins": "exact"}
    optimizer = cb.Hybrid(1.0, switch_after=5, rewind=False)
    risks = []
    for o in itertools.permutations(range(4)):
        order = list(o)
        model = cb.fit(
            {"x": x[order]}, y[order], optimizer=optimizer, validation=np.equal(o, held), **options
        )
        risks.append(model.validation_risk)
    np.testing.assert_allclose(risks, risks[:1] * len(risks), rtol=1e-12)


@pytest.mark.parametrize("seed", [8, 61, 93, 104, 151, 205])
def test_surfaces_of_three_rows(seed):
    """Pivots of these singular systems are far from zero, but their condition numbers tell."""
    rng = np.random.default_rng(seed)
    table = {"a": rng.normal(size=3), "b": rng.normal(size=3)}
    y, terms = rng.normal(size=3), [cb.Tensor("a", "b")]
    expected = cb.fit(table, y, learners=terms, n_iter=5).predict(table)
    for order in itertools.permutations(range(3)):
        moved = {name: column[list(order)] for name, column in table.items()}
        model = cb.fit(moved, y[list(order)], learners=terms, n_iter=5)
        np.testing.assert_allclose(model.predict(table), expected, rtol=1e-9, atol=1e-9)


# --- columns and files ----------------------------------------------------------------------------


def test_times_of_which_only_some_have_a_zone():
    aware = pd.Timestamp("2020-01-01 12:00", tz="Asia/Tokyo")
    with pytest.raises(ValueError, match="row 0 has a time zone, that of row 2 has not"):
        read_column([aware, None, pd.Timestamp("2020-01-01 12:00")], "d")


@pytest.mark.parametrize(
    "cells", [[Decimal(1), Decimal(10) ** 400], np.array(["1", "1e4000"], np.longdouble)]
)
def test_numbers_that_are_finite_but_too_large(cells):
    if np.isinf(np.longdouble("1e4000")):
        pytest.skip("the platform has no wider floats")
    with pytest.raises(ValueError, match="row 1: the number is too large for a 64-bit float"):
        read_column(cells, "c")


def test_infinite_decimals_are_infinite():
    with pytest.raises(ValueError, match="row 1: the value is infinite"):
        cb.fit({"x": [Decimal(1), Decimal("inf"), Decimal(2)]}, [1.0, 2.0, 3.0], n_iter=1)


def test_huge_integers_that_are_one_float_are_not_called_constant_without_a_hint():
    with pytest.warns(UserWarning, match=r"left out: i; integers beyond 2\*\*53 may differ"):
        cb.fit({"i": 2**60 + np.arange(N), "x": X}, Y, n_iter=1)


def test_a_key_that_stands_twice_in_a_line_of_json(tmp_path):
    file = tmp_path / "t.jsonl"
    file.write_text('{"x": 1, "y": 2}\n{"x": 1, "x": 2, "y": 3}\n')
    with pytest.raises(ValueError, match=r"line 2: not JSON \(the key 'x' stands twice"):
        read_table(str(file))


def test_a_multinomial_loss_for_another_number_of_classes():
    with pytest.raises(ValueError, match=r"Multinomial\(5\) is for 5 classes, but y has 3"):
        cb.fit(TABLE, np.arange(N) % 3, loss=cb.Multinomial(5), n_iter=1)


def test_a_splitter_that_needs_groups():
    with pytest.raises(ValueError, match=r"folds: GroupKFold.* cannot split .*; pass groups="):
        cb.CWBRegressorCV(cv=GroupKFold(3)).fit(TABLE, Y)


def test_objects_without_an_order_as_classes():
    classifier = cb.CWBClassifier(n_iter=3).fit(TABLE, np.where(X > 0, "yes", "no"))
    with pytest.raises(
        ValueError, match=r"class Linear\('x'\) does not occur in the training rows"
    ):
        classifier.extend(1, TABLE, [cb.Linear("x")] * N)


def test_tables_as_axes_of_a_tuning():
    tuning = cb.tune(TABLE, Y, {"rate": [0.1, 0.5]}, folds=2, schedule=cb.RandomSearch(2, 3))
    for axes in (duckdb.from_arrow(pa.table({"x": X})), [3], [[TABLE]], np.ones(3)):
        with pytest.raises(TypeError, match="ax"):
            cb.TuningDisplay.from_tuning(tuning, axes=axes)
