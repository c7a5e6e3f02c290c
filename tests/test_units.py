"""Tests of fits at the default learning rate in any units of y, and of learners chosen by style.

The problems are simulated from a known truth. The tests do not know how the step scale is computed.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import cwboost as cb
from cwboost.frames.read_frames import read
from cwboost.terms.styles import make_learners

rng = np.random.default_rng(7)
N = 2000
TABLE = {"a": rng.uniform(size=N), "b": rng.normal(size=N), "noise": rng.normal(size=N)}
SHAPE = np.sin(5 * TABLE["a"]) + 0.4 * TABLE["b"]


def share_explained(model: cb.Model) -> float:
    """Return the squared correlation of the score with the true score."""
    return float(np.corrcoef(model.predict(TABLE, kind="score"), SHAPE)[0, 1] ** 2)


@pytest.mark.parametrize("loss", ["poisson", "gamma", cb.Tweedie(1.5)])
@pytest.mark.parametrize("mean", [0.5, 5.0, 500.0, 5e5])
def test_log_link(loss, mean):
    mu = mean * np.exp(SHAPE - SHAPE.mean())
    draw = np.random.default_rng(1)
    y = draw.poisson(mu).astype(float) if loss == "poisson" else mu * draw.gamma(5.0, 0.2, N)
    model = cb.fit(TABLE, y, loss=loss)
    assert np.isfinite(model.risk).all()
    assert (np.diff(model.risk) <= 0).all()
    assert share_explained(model) > (0.7 if mean < 1 and loss == "poisson" else 0.9)
    assert model.predict(TABLE).mean() == pytest.approx(y.mean(), rel=0.05)


@pytest.mark.parametrize("loss", ["squared", "absolute", cb.Quantile(0.3), "huber"])
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e5])
def test_units_of_numbers(loss, unit):
    y = unit * (SHAPE + 0.3 * np.random.default_rng(2).normal(size=N))
    model = cb.fit(TABLE, y, loss=loss)
    assert share_explained(model) > 0.9


@pytest.mark.filterwarnings("ignore:the fit diverges:RuntimeWarning")
def test_without_the_scale_counts_diverge():
    """Without the step scale, steps that increase the risk sharply are halved and recorded."""
    y = np.random.default_rng(1).poisson(500 * np.exp(SHAPE)).astype(float)
    model = cb.fit(TABLE, y, loss="poisson", scale=1.0, n_iter=50)
    assert np.isfinite(model.risk).all()
    assert model.path.halvings.any()
    assert "halved" in model.summary()
    again = model.at(30)
    short = cb.fit(TABLE, y, loss="poisson", scale=1.0, n_iter=30)
    np.testing.assert_allclose(again.predict(TABLE), short.predict(TABLE), rtol=1e-9)


def test_with_many_columns_only_chosen_columns_keep_a_sketch(monkeypatch):
    """Sketches of 20,000 columns would be larger than the model."""
    problem_module = importlib.import_module("cwboost.fitting.problem")
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.normal(size=200) for j in range(6)}
    y = table["x1"] - table["x4"]
    whole = cb.fit(table, y, n_iter=30)
    monkeypatch.setattr(problem_module, "MANY_COLUMNS", 5)
    model = cb.fit(table, y, n_iter=30)
    drawn = {name for name, facts in model.columns.items() if facts.spread is not None}
    assert {"x1", "x4"} <= drawn == set(model.choices) < set(table)
    np.testing.assert_array_equal(
        model.columns["x1"].spread.points, whole.columns["x1"].spread.points
    )


# --- convergence ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 1e4])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_a_fit_ends_when_further_gains_are_rounding_errors(mean, noise):
    """All searches end at the same iteration and make the same choices."""
    draw = np.random.default_rng(0)
    table = {name: draw.integers(0, 20, N).astype(float) for name in "abcd"}
    y = mean + table["a"] - 2 * table["b"] + noise * draw.normal(size=N)
    lines = [cb.Linear(name) for name in table]
    options = {"optimizer": cb.Plain(0.5), "n_iter": 2000, "bins": "exact"}
    models = [
        cb.fit(table, y, lines, search=search, **options)
        for search in ("full", "certified", "row-free")
    ]
    for model in models:
        assert model.stopped == "nothing left to gain"
        assert 20 < model.n_iter < 2000
        assert model.choices == models[0].choices
    model, exact = models[0], np.column_stack([np.ones(N), *table.values()])
    best = exact @ np.linalg.lstsq(exact, y, rcond=None)[0]
    np.testing.assert_allclose(model.predict(table), best, rtol=1e-9, atol=1e-9 * np.ptp(y))
    assert model.extend(50, table, y).choices == model.choices
    assert model.at(20).extend(2000, table, y).choices == model.choices
    assert cb.fit(table, 2.0**30 * y, lines, **options).choices == model.choices


# --- styles ---------------------------------------------------------------------------------------


SPIKES = "Step('x', kind='spikes')"


def mostly(value, others, n=200):
    """Return a column with `value` in just over half of the rows, and `others` in the rest."""
    rest = np.resize(np.asarray(others, float), n // 2 - 1)
    return np.concatenate([np.full(n - len(rest), float(value)), rest])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 1.0] * 100, ["Linear('x')"]),
        (np.arange(200) % 10, ["Step('x')"]),
        (np.arange(200) % 11, ["Spline('x')", "Step('x')"]),
        (mostly(0, range(1, 20)), ["Step('x')"]),
        (mostly(0, range(1, 21)), ["Step('x')", SPIKES]),
        (mostly(7, np.arange(99)), ["Step('x')", SPIKES]),
        (mostly(0, np.arange(1, 200), 400), ["Step('x')"]),  # too many values for one spike each
        (np.append(mostly(0, range(1, 31)), [np.nan] * 300), ["Step('x')", SPIKES]),
        (np.append(mostly(0, range(1, 31)), [1.5, 2.5, 3.5]), ["Spline('x')", "Step('x')"]),
    ],
)  # fmt: skip
def test_auto_chooses_learners_by_the_values_of_a_column(values, expected):
    table = read({"x": np.asarray(values, float)})
    assert list(map(repr, make_learners(table, "auto"))) == expected


def test_a_style_adds_learners_for_columns_without_a_main_effect():
    table = read({"x": [1.0, 2.0, np.nan], "z": [3.0, 4.0, 6.0]})
    named = [cb.Missing("x"), cb.Tensor("x", "z"), cb.Linear("z")]
    assert make_learners(table, [*named, ...], terms="linear") == [*named, cb.Linear("x")]


def test_spikes_find_a_single_value_with_an_effect():
    rng = np.random.default_rng(3)
    x = np.where(rng.random(4000) < 0.7, 0.0, rng.integers(1, 60, 4000).astype(float))
    y = rng.normal(0, 0.3, 4000) + 2.0 * (x == 31.0)
    steps, spikes = (
        cb.fit({"x": x}, y, [cb.Step("x", kind=kind)], "squared", cb.Plain(0.5), 400)
        for kind in ("steps", "spikes")
    )
    assert list(spikes.terms) == ["x"]
    at = {"x": np.array([30.0, 31.0, 32.0])}
    np.testing.assert_allclose(spikes.predict(at), [0.0, 2.0, 0.0], atol=0.3)
    assert spikes.risk[-1] < steps.risk[-1]


def test_few_values_get_one_step_each():
    x = np.repeat(np.arange(20.0), np.arange(1, 21))  # rare values too
    model = cb.fit({"x": x}, x, [cb.Step("x", bins=20)], n_iter=1)
    assert model.terms["x"].plan.encoders[0].cuts == tuple(np.arange(19) + 0.5)


def test_unknown_kinds_of_steps_are_refused():
    with pytest.raises(ValueError, match="kind: expected 'steps' or 'spikes', got 'ridge'"):
        cb.Step("x", kind="ridge")


def test_validation_rows_of_weight_zero_are_ignored():
    rng = np.random.default_rng(0)
    table, y = {"x": rng.normal(size=200)}, rng.normal(size=200)
    other = {"x": np.append(rng.normal(size=50), 1e6)}
    target, weights = rng.normal(size=51), np.append(np.ones(50), 0.0)
    small = {"x": other["x"][:50]}
    options = {"n_iter": 5, "patience": None}
    model = cb.fit(table, y, validation=(other, target, weights), **options)
    expected = cb.fit(table, y, validation=(small, target[:50], weights[:50]), **options)
    np.testing.assert_array_equal(model.validation_risk, expected.validation_risk)
    assert model.columns["x"].high < 10
    with pytest.raises(ValueError, match="no row is held out"):
        cb.fit(table, y, validation=(other, target, np.zeros(51)), **options)
