"""Regression tests: one for each bug that the fuzzer (tests/fuzz), or somebody who tried, found."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cwboost as cb
from cwboost.cli.main import main
from cwboost.export.tables import score_tables
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
    with pytest.raises(ValueError, match="exceed single precision: rescale y"):
        model.band("x")
    with pytest.raises(ValueError, match="with_bands: the effects exceed single precision"):
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
    with pytest.raises(ValueError, match="sample_weight: their sum exceeds"):
        classifier.score(TABLE, Y > 0, sample_weight=np.full(N, 1e308))


def test_parameters_of_losses_as_numpy_scalars(tmp_path):
    for loss in (cb.Quantile(np.float32(0.5)), cb.Huber(np.float32(1)), cb.Tweedie(np.float16(1))):
        model = cb.fit(TABLE, np.abs(Y), loss=loss, n_iter=3, polish=None)
        model.save(tmp_path / "model.json")
        np.testing.assert_array_equal(
            cb.load(tmp_path / "model.json").predict(TABLE), model.predict(TABLE)
        )


# --- found by trying ------------------------------------------------------------------------------


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
