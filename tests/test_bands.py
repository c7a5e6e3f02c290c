"""Tests of bands around effects: they come from fits to bootstrap draws, and their coverage is
close to the nominal level."""

from __future__ import annotations

import pickle

import matplotlib as mpl
import numpy as np
import pytest
from scipy.stats import t as student

import cwboost as cb
from cwboost.export.model_file import ModelFileError, from_dict, to_dict
from cwboost.fitting.input_data import Split
from cwboost.fitting.preparation import prepare
from cwboost.fitting.problem import FitProblem
from cwboost.uncertainty.bootstrap_fits import draw_counts

mpl.use("agg")


def make_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = {"x": rng.uniform(size=n), "z": rng.normal(size=n), "g": rng.choice(list("abc"), n)}
    table["z"][rng.uniform(size=n) < 0.1] = np.nan
    return table, np.sin(6 * table["x"]) + (table["g"] == "a") + rng.normal(0, 0.5, n)


@pytest.fixture(scope="module")
def banded():
    table, y = make_table()
    model = cb.fit(table, y, optimizer=cb.Plain(0.5), n_iter=20)
    return table, y, model.with_bands(table, y, n_boot=25, longer=3)


def test_bands_come_from_fits_to_bootstrap_draws(banded):
    table, y, model = banded
    binned = prepare(table, y)
    seeds = np.random.SeedSequence(0).generate_state(25, np.uint64).tolist()
    counts = [draw_counts(binned.data, s) for s in seeds]
    assert all(c.sum() == 300 for c in counts)
    curves = []
    for weights in (np.ones(300), *counts):
        split = Split(weights, None, weights)
        fitted = FitProblem.pose(binned, split, cb.Plain(0.5)).fit(60)
        term, at = fitted.terms["x"], np.linspace(table["x"].min(), table["x"].max(), 9)
        mean = model.terms["x"].plan.basis.mean  # centred like the model's effects
        curves.append(((term.plan.basis.matrix(at) - mean) @ term.beta)[:, 0])
    center, sd = curves[0], np.std(curves[1:], axis=0, ddof=1)
    band = model.band("x", 9, level=0.9)
    half = student(24).ppf(0.95) * model.bands.inflation * sd
    np.testing.assert_allclose((band["upper"] + band["lower"]) / 2, center, atol=1e-6)
    np.testing.assert_allclose((band["upper"] - band["lower"]) / 2, half, rtol=1e-4)
    assert model.bands.n_iter == (60,) * 25
    np.testing.assert_array_equal(band["effect"], model.effect("x", 9)["effect"])


def test_a_simultaneous_band_is_wider_and_covers_whole_draws(banded):
    _, _, model = banded
    for name in ("x", "z", "g"):
        single, whole = (model.band(name, 100, kind=k) for k in ("pointwise", "simultaneous"))
        ratio = (whole["upper"] - whole["lower"]) / (single["upper"] - single["lower"])
        assert np.all(ratio > 1)
        np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)  # one factor for the whole effect
    term = model.terms["x"]
    at = model.effect("x", 100)["x"]
    matrix = term.plan.basis.matrix(at) - term.plan.basis.mean
    draws = np.array([(matrix @ beta)[:, 0] for beta in model.bands.coef["x"].astype(float)])
    reach = []
    for b in range(25):  # the distance of each draw from the others
        others = np.delete(draws, b, axis=0)
        sd = others.std(0, ddof=1) * np.sqrt(1 + 1 / 24)
        reach.append(np.max(np.abs(draws[b] - others.mean(0)) / sd))
    band = model.band("x", 100, kind="simultaneous", level=0.8)
    half = (band["upper"] - band["lower"]) / 2 / model.bands.inflation
    np.testing.assert_allclose(half, np.quantile(reach, 0.8) * draws.std(0, ddof=1), rtol=1e-6)


def test_missing_cells_and_levels_have_bands(banded):
    _, _, model = banded
    band = model.band("z", 5)
    assert np.isnan(band["z"][-1])
    assert band["lower"][-1] < band["upper"][-1]
    assert list(model.band("g")["g"]) == ["a", "b", "c"]


def test_each_output_has_its_own_band():
    table, y = make_table()
    kinds = np.digitize(y, [0.0, 1.0])
    model = cb.fit(table, kinds, loss="multinomial", n_iter=20)
    band = model.with_bands(table, kinds, n_boot=10, longer=1).band("x", 5)
    assert list(band)[1:4] == ["effect[0]", "lower[0]", "upper[0]"]
    assert np.all(band["lower[2]"] < band["upper[2]"])
    display = model.with_bands(table, kinds, n_boot=10, longer=1).plot("x", scale="response")
    assert display.series[0].band is None  # probabilities depend on all effects


def test_draws_depend_on_the_seed_but_not_on_the_number_of_threads():
    table, y = make_table(150)
    model = cb.fit(table, y, n_iter=20)
    first, same, other = (
        model.with_bands(table, y, n_boot=10, random_state=s, n_threads=t).band("x")["lower"]
        for s, t in ((1, 1), (1, 3), (2, 1))
    )
    np.testing.assert_array_equal(first, same)
    assert np.any(first != other)


def test_a_small_learning_rate_is_raised():
    table, y = make_table()
    slow, fast = (
        cb.fit(table, y, optimizer=cb.Plain(rate), n_iter=n).with_bands(table, y, n_boot=30)
        for rate, n in ((0.05, 200), (0.5, 20))
    )
    assert slow.bands.n_iter == fast.bands.n_iter == (160,) * 30
    a, b = slow.band("x"), fast.band("x")
    np.testing.assert_allclose(a["upper"], b["upper"], rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "nested"),
    [
        ({"optimizer": cb.Hybrid(0.3, 0.03, then="training"), "validation": 0.2}, False),
        ({"optimizer": cb.Accelerated(0.1, 0.03)}, False),
        ({}, True),
    ],
)
def test_each_draw_chooses_its_own_number_of_iterations(options, nested):
    table, y = make_table()
    model = cb.fit(table, y, **options).with_bands(table, y, n_boot=12, longer=2, nested=nested)
    assert len(set(model.bands.n_iter)) > 1
    assert all(n % 2 == 0 for n in model.bands.n_iter)


def test_an_average_of_bags_can_have_bootstrap_bands():
    table, y = make_table()
    model = cb.fit(table, y, bags=3, n_iter=40)
    spread = model.band("x")
    with_bands = model.with_bands(table, y, n_boot=10)
    assert np.any(with_bands.band("x")["lower"] != spread["lower"])
    assert "bootstrap" in with_bands.plot("x").notes[0]
    assert "3 bags" in model.plot("x").notes[0]


def test_columns_named_in_the_fit_are_read_from_the_table():
    table, y = make_table()
    table = {**table, "w": np.arange(300) % 3 + 0.0, "t": np.linspace(1, 2, 300), "n": y > 0.5}
    model = cb.fit(table, "n", loss="poisson", weights="w", exposure="t", n_iter=10)
    assert len(model.with_bands(table, n_boot=10).bands) == 10
    model = cb.fit(table, y, offset=np.ones(300), n_iter=10)
    with pytest.raises(TypeError, match="with_bands: the fit had an offset"):
        model.with_bands(table, y, n_boot=10)


# --- storing, editing and plotting models with bands ----------------------------------------------


def test_bands_are_stored(banded, tmp_path):
    table, _, model = banded
    model.save(tmp_path / "m.json")
    for again in (cb.load(tmp_path / "m.json"), pickle.loads(pickle.dumps(model))):
        for name in ("x", "z", "g"):
            band, expected = again.band(name), model.band(name)
            np.testing.assert_array_equal(band["lower"], expected["lower"])
            np.testing.assert_array_equal(band["upper"], expected["upper"])
        assert to_dict(again) == to_dict(model)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_iter": [1]}, "bands.n_iter: expected 2 or more numbers"),
        ({"coef": {"x": "AAA="}}, "bands.coef.x: damaged"),
        ({"center": {}}, "bands.center: expected the terms of coef"),
        ({"longer": "8"}, "bands.longer: expected numbers"),
    ],
)
def test_damaged_files_are_refused(banded, change, message):
    data = to_dict(banded[2])
    with pytest.raises(ModelFileError, match=message):
        from_dict({**data, "bands": {**data["bands"], **change}})


def test_an_edited_effect_has_no_band(banded):
    _, _, model = banded
    edited = model.edit("zero", "g")
    with pytest.raises(ValueError, match="'g' was edited after the fit; it has no band"):
        edited.band("g")
    assert list(edited.band("x")) == ["x", "effect", "lower", "upper"]
    assert "lower" not in edited.plot("g").data


def test_other_iterates_have_no_bands(banded):
    table, y, model = banded
    assert model.at(model.n_iter).bands is not None
    assert model.at(5).bands is None
    assert model.extend(1, table, y).bands is None


def test_plots_and_reports_show_bands(banded, tmp_path):
    table, y, model = banded
    display = model.plot("x")
    assert list(display.data) == ["x", "effect", "lower", "upper"]
    assert "95% bootstrap band at each point" in display.notes[0]
    np.testing.assert_allclose(display.data["lower"], model.band("x")["lower"])
    whole = model.plot("x", band="simultaneous", level=0.8)
    assert "80% bootstrap band of the whole curve" in whole.notes[0]
    assert "lower" not in model.plot("x", band=None).data
    np.testing.assert_allclose(
        cb.fit(table, y > 0, loss="binomial", n_iter=10)
        .with_bands(table, y > 0, n_boot=10)
        .plot("x", scale="ratio")
        .data["lower"]
        > 0,
        True,
    )
    page = model.plot()
    assert any("shade" in text.get_text() for text in page.figure_.texts)
    model.report(tmp_path / "r.html")
    assert "95% bootstrap band at each point" in (tmp_path / "r.html").read_text()
    mpl.pyplot.close("all")


def test_plots_and_reports_explain_why_an_effect_is_outside_its_band(tmp_path):
    table, y = make_table()
    early = cb.fit(table, y, n_iter=3, optimizer=cb.Plain(0.05)).with_bands(table, y, n_boot=10)
    why = "outside the shade: the fit stopped early; the shade is of fits 8 times as long"
    assert why in early.plot("x").notes
    assert any(why in text.get_text() for text in early.plot().figure_.texts)
    early.report(tmp_path / "r.html")
    assert why in (tmp_path / "r.html").read_text()
    late = cb.fit(table, y, n_iter=300).with_bands(table, y, n_boot=10, longer=1.5)
    assert not any("outside" in text for text in late.plot("x").notes)
    mpl.pyplot.close("all")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_boot": 3}, "n_boot: expected a whole number from 10 to 1000000"),
        ({"longer": 0.5}, "longer must be a number of at least 1"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_bad_options_of_with_bands_are_refused(banded, options, message):
    table, y, model = banded
    with pytest.raises((ValueError, TypeError), match=message):
        model.with_bands(table, y, **options)


def test_bad_requests_for_a_band_are_refused(banded):
    table, y, model = banded
    with pytest.raises(ValueError, match="level: expected a number between 0 and 1"):
        model.band("x", level=95)
    with pytest.raises(ValueError, match="kind: expected 'pointwise' or 'simultaneous'"):
        model.band("x", kind="both")
    with pytest.raises(ValueError, match="no term or column 'no'"):
        model.band("no")
    bare = cb.fit(table, y, n_iter=5)
    for call in (
        lambda: bare.band("x"),
        lambda: bare.plot("x", band="simultaneous"),
        lambda: bare.plot("x", level=0.9),
    ):
        with pytest.raises(
            ValueError, match=r"call model.with_bands\(table, y\), or fit with bags"
        ):
            call()
    with pytest.raises(ValueError, match="with_bands: the model was edited"):
        bare.edit("zero", "g").with_bands(table, y)


# --- coverage -------------------------------------------------------------------------------------


def test_coverage_is_close_to_the_nominal_level():
    """A quick check; benchmarks/coverage.py computes the figures in docs/uncertainty.md."""
    pointwise, simultaneous = [], []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        x = rng.uniform(size=400)
        y = np.sin(6 * x) + rng.normal(size=400)
        model = cb.fit({"x": x}, y, optimizer=cb.Plain(0.5), n_iter=10)
        with_bands = model.with_bands({"x": x}, y, n_boot=60)
        truth = np.sin(6 * with_bands.band("x", 40)["x"]) - np.sin(6 * x).mean()
        for kind, covered in (("pointwise", pointwise), ("simultaneous", simultaneous)):
            band = with_bands.band("x", 40, kind=kind)
            covered.append((band["lower"] <= truth) & (truth <= band["upper"]))
    assert 0.90 < np.mean(pointwise) < 0.985
    assert np.mean(np.all(simultaneous, axis=1)) >= 0.8


def test_the_band_of_bags_has_no_level_and_no_kind():
    table, y = {"x": np.linspace(0, 1, 60)}, np.linspace(0, 1, 60) ** 2
    model = cb.fit(table, y, n_iter=10, bags=3)
    assert np.all(model.band("x", kind="pointwise")["lower"] <= model.band("x")["upper"])
    for call in (model.band, model.plot):
        with pytest.raises(ValueError, match="level: the band of an average of bags goes from"):
            call("x", level=0.5)
    with pytest.raises(ValueError, match="kind: the band of an average of bags goes from"):
        model.band("x", kind="simultaneous")
    with pytest.raises(ValueError, match="kind: the band of an average of bags goes from"):
        model.plot("x", band="simultaneous")
    with pytest.raises(ValueError, match="level: the band of an average"):
        model.plot(level=0.5)
    with pytest.raises(ValueError, match="level= is the level of a band"):
        model.plot("x", band=None, level=0.5)
    both = model.with_bands(table, y, n_boot=10, longer=1)
    assert np.all(both.band("x", level=0.5)["upper"] < both.band("x", level=0.9)["upper"])
