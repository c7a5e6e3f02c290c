"""Tests of plots: they show the model's numbers, are drawn on the given axes, change no global
settings and show any name as plain text. No pixels are compared."""

from __future__ import annotations

import io
import itertools
import sys
from dataclasses import replace
from html.parser import HTMLParser
from types import MappingProxyType
from xml.etree import ElementTree

import numpy as np
import pytest

import cwboost as cb
import export_cases as cases
import problems
from cwboost.binning.spread import Spread
from cwboost.binning.summary import Sample
from cwboost.cli import main as cli
from cwboost.explain import trajectory as growth
from cwboost.explain.importance import KINDS
from cwboost.explain.shapes import shape, view
from cwboost.explain.sizes import level_shares, panels, sizes
from cwboost.frames.read_frames import read_column
from cwboost.plotting import registry
from cwboost.plotting.display import Display
from cwboost.plotting.drawing_data import histogram, thin_places

mpl = pytest.importorskip("matplotlib")
mpl.use("agg")
plt = pytest.importorskip("matplotlib.pyplot")
plots = pytest.importorskip("cwboost.plotting.plot")

HOSTILE = [
    "$x^2$ and $\\frac",
    "<script>alert(1)</script>",
    "two\nlines\ttab \x07",
    "emoji 😀🦜 漢字 ﷽",
    "x" * 10_000,
    "_private",
    "50% \\$ {x} $",
    '" onload="alert(1)',
]


@pytest.fixture(autouse=True)
def _nothing_global():
    """Close all figures and check that no matplotlib setting changed."""
    before = dict(mpl.rcParams)
    yield
    plt.close("all")
    assert dict(mpl.rcParams) == before


def drawn(display, forms=("png",)):
    """Render the display with layout, fonts and ticks; every warning is an error."""
    for form in forms:
        display.figure_.savefig(io.BytesIO(), format=form)
    return display


def texts(display):
    return [t.get_text() for t in display.figure_.findobj(mpl.text.Text)]


@pytest.fixture(scope="module")
def table():
    return cases.make_table(n=400)


@pytest.fixture(scope="module")
def model(table):
    y = problems.make_target(0, table, "squared")
    learners = [cb.Step("z"), cb.Spline("z"), cb.Tensor("u", "v"), ...]
    return cb.fit(table, y, learners, n_iter=150, validation=0.2)


# --- the distribution of the rows, which the model stores -----------------------------------------


def test_spread_of_few_values_is_exact():
    x = np.array([1.0, 2, 2, 5, np.nan] * 3)
    spread = cb.fit({"x": x}, np.arange(15.0)).columns["x"].spread
    assert (spread.rows, spread.missing) == (15.0, pytest.approx(0.2))
    assert spread.points.tolist() == [1, 2, 5]
    np.testing.assert_allclose(spread.shares, [0.25, 0.5, 0.25])


def test_spread_of_many_values_is_small_and_close():
    rng = np.random.default_rng(0)
    x = rng.exponential(size=20_000)
    spread = cb.fit({"x": x}, x, n_iter=1).columns["x"].spread
    assert len(spread.points) <= 100
    assert spread.shares.sum() == pytest.approx(1)
    for q in (0.1, 0.5, 0.9):
        found = spread.points[np.searchsorted(np.cumsum(spread.shares), q)]
        assert np.mean(x <= found) == pytest.approx(q, abs=0.04)


def test_spread_counts_weights_as_repeated_rows():
    x, w = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 2])
    weighted = cb.fit({"x": x}, x, weights=w).columns["x"].spread
    repeated = cb.fit({"x": x.repeat(w.astype(int))}, x.repeat(w.astype(int))).columns["x"].spread
    assert weighted.rows == repeated.rows == 8
    np.testing.assert_allclose(weighted.shares, repeated.shares)


@pytest.mark.parametrize("validation", [None, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_spread_from_bins_equals_the_spread_of_the_rows(weighted, validation):
    """Spreads come from the bins if these are fine enough, else from a sample of the rows."""
    rng = np.random.default_rng(3)
    n = 3000
    whole = rng.integers(0, 30, n).astype(float)
    table = {
        "many": np.exp(rng.normal(size=n)),
        "whole": np.where(rng.random(n) < 0.1, np.nan, whole),
        "flag": rng.random(n) < 0.2,
        "number": rng.choice([-2.5, 1.0, 10.0], n),
        "text": np.where(rng.random(n) < 0.3, None, rng.choice(["a", "b"], n).astype(object)),
        "step": whole,
        "coarse": whole,
    }
    learners = [
        cb.Spline("many"), cb.Spline("whole"), cb.Category("flag"), cb.Category("number"),
        cb.Category("text"), cb.Step("step"), cb.Spline("coarse", bins=5),
    ]  # fmt: skip
    w = rng.integers(1, 4, n).astype(float) if weighted else None
    held = None if validation is None else rng.random(n) < validation
    model = cb.fit(table, whole, learners, weights=w, validation=held, n_iter=1)
    sample = Sample(None if held is None else ~held, w, n if held is None else int(sum(~held)))
    for name, facts in model.columns.items():
        expected = Spread.of(read_column(table[name], name), sample)
        assert facts.spread.rows == expected.rows
        assert facts.spread.missing == pytest.approx(expected.missing)
        if name == "many":  # approximate quantiles, from bins and from rows
            q = np.linspace(0.1, 0.9, 9)
            a, b = (
                s.points[np.searchsorted(np.cumsum(s.shares), q)] for s in (facts.spread, expected)
            )
            np.testing.assert_allclose(a, b, rtol=0.05)
        else:
            np.testing.assert_array_equal(facts.spread.points, expected.points)
            np.testing.assert_allclose(facts.spread.shares, expected.shares)


@pytest.mark.parametrize("kind", ["ridge", "binary"])
def test_shares_of_levels(kind):
    g = np.array(["a", "b", "b", None], dtype=object)[np.arange(40) % 4]
    model = cb.fit({"g": g}, np.arange(40) % 4.0, [cb.Category("g", kind=kind)])
    np.testing.assert_allclose(level_shares(model, "g"), [0.25, 0.5, 0.25])


def test_shares_are_unknown_if_a_level_has_no_term():
    g = np.array(["a", "b", "b", "c"], dtype=object)[np.arange(40) % 4]
    model = cb.fit({"g": g}, np.arange(40) % 4.0, [cb.Category("g", kind="binary")])
    kept = {name: term for name, term in model.terms.items() if name != "g=a"}
    assert level_shares(replace(model, terms=MappingProxyType(kept)), "g") is None


def test_histogram_keeps_the_rows():
    rng = np.random.default_rng(1)
    for x in (rng.normal(size=3000), np.where(rng.random(3000) < 0.9, 0.0, rng.random(3000))):
        spread = cb.fit({"x": x}, x, n_iter=1).columns["x"].spread
        left, width, height = histogram(spread, x.min(), x.max())
        assert height.sum() == pytest.approx(1)
        middle = left + width / 2
        assert height @ middle == pytest.approx(x.mean(), abs=0.1 * (x.max() - x.min()))


def test_view_leaves_out_a_long_tail_only():
    points = np.linspace(0, 1, 100)
    short = Spread(1.0, 0.0, points, np.full(100, 0.01))
    assert view(0.0, 1.0, short) == (0.0, 1.0)
    low, high = view(0.0, 50.0, short)
    assert low == 0.0
    assert 1.0 <= high < 1.1
    assert thin_places(short, 0.0, 50.0) == [(1.0, 50.0)]
    assert thin_places(short, 0.0, 1.0) == []
    assert view(0.0, 50.0, None) == (0.0, 50.0)


# --- the numbers that are shown -------------------------------------------------------------------


@pytest.mark.parametrize("kind", cases.KINDS)
def test_every_kind_of_term(kind):
    model = cases.kind_model(kind)
    for name in {*model.terms, *panels(model)}:
        display = cb.EffectDisplay.from_estimator(model, name)
        found = shape(model, name)
        columns, data = found.columns, display.data
        assert list(data)[: len(columns)] == list(columns)
        total = sum(
            term.effect_at(term.plan.encode([read_column(data[c], c) for c in term.columns]))
            for term in (model.terms[t] for t in found.terms)
        )
        np.testing.assert_allclose(list(data.values())[-1], total[:, 0], atol=1e-9)
        plt.close(display.figure_)
    drawn(model.plot())


@pytest.mark.parametrize("loss", problems.LOSSES)
def test_every_loss(loss):
    model = cases.loss_model(loss)
    for scale in ("score", "response"):
        drawn(model.plot(scale=scale, max_effects=4))
    effect = model.plot("u", scale="response")
    assert len(effect.series) == model.n_outputs
    if loss in ("binomial", "poisson", "gamma", "tweedie"):
        ratio = cb.EffectDisplay.from_estimator(model, "g", scale="ratio").data
        score = cb.EffectDisplay.from_estimator(model, "g").data
        np.testing.assert_allclose(ratio["ratio"], np.exp(score["effect"]))
    else:
        with pytest.raises(ValueError, match="log or logit link"):
            model.plot("g", scale="ratio")


@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial", "poisson"])
def test_response_is_the_prediction(loss):
    x = np.linspace(-1, 1, 150)
    rng = np.random.default_rng(0)
    y = {
        "squared": x**2,
        "binomial": rng.random(150) < (1 + x) / 2,
        "multinomial": rng.choice(["a", "b", "c"], 150),
        "poisson": rng.poisson(np.exp(x)).astype(float),
    }[loss]
    model = cb.fit({"x": x}, y, loss=loss)
    data = model.plot("x", scale="response").data
    expected = model.predict({"x": data["x"]}).reshape(len(data["x"]), -1)
    np.testing.assert_allclose(np.column_stack(list(data.values())[1:]), expected)


def test_exposure_gives_rates():
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=300), "years": rng.uniform(0.1, 1, 300)}
    y = rng.poisson(table["years"] * np.exp(table["x"])).astype(float)
    model = cb.fit(table, y, [cb.Spline("x")], "poisson", exposure="years")
    display = model.plot("x", scale="response", target="claims")
    assert display.ax_.get_ylabel() == "expected claims per unit of years"
    rows = {"x": display.data["x"], "years": np.ones(200)}
    np.testing.assert_allclose(display.data["response"], model.predict(rows))
    assert "years" in model.plot("x").ax_.get_ylabel()
    one = drawn(model.plot(kind="explanation", table=table, row=3))
    assert [bar.kind for bar in one.bars] == ["intercept", "offset", "column", "score"]


def test_parts_add_up(table):
    learners = [cb.Linear("v"), cb.Centered("v"), cb.Missing("v")]
    model = cb.fit(table, problems.make_target(0, table, "squared"), learners, n_iter=200)
    data = drawn(model.plot("v", parts=True)).data
    assert list(data) == ["v", "sum", "linear(v)", "centered(v)", "missing(v)"]
    _, total, *parts = data.values()
    np.testing.assert_allclose(total, sum(parts), atol=1e-12)
    np.testing.assert_allclose(parts[0], model.effect("linear(v)")["effect"])
    with pytest.raises(ValueError, match="scale='score'"):
        model.plot("v", parts=True, scale="response")


def test_whole_numbers_are_drawn_as_steps():
    """Where steps and curves are summed, each whole number has a single effect."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, 800).astype(float)
    y = np.sin(x) + (x > 5) + rng.normal(0, 0.1, 800)
    model = cb.fit({"x": x}, y, "auto", n_iter=200)
    assert {t for t in model.terms if model.terms[t].chosen} == {"step(x)", "spline(x)"}
    data = model.plot("x").data
    expected = model.predict({"x": np.round(data["x"])}, "score") - model.intercept
    np.testing.assert_allclose(data["effect"], expected, atol=1e-12)
    assert len(np.unique(data["effect"].round(9))) <= 12


def test_levels_are_sorted_grouped_and_counted():
    rng = np.random.default_rng(0)
    g = rng.choice(np.array([f"level {k}" for k in range(50)] + [None], dtype=object), 2000)
    y = np.array([0.0 if v is None else int(v.split()[1]) % 11 for v in g])
    model = cb.fit({"g": g}, y, n_iter=100)
    display = drawn(model.plot("g", max_levels=9))
    lines = display.lines
    assert [line.kind for line in lines] == ["level"] * 9 + ["rest", "missing"]
    values = [line.values[0] for line in lines[:9]]
    assert values == sorted(values, reverse=True)
    assert lines[9].name == "41 other levels"
    assert lines[9].span[0] <= lines[9].values[0] <= lines[9].span[1]
    assert sum(line.share for line in lines) == pytest.approx(1)
    assert sum(line.share * line.values[0] for line in lines) == pytest.approx(0, abs=1e-9)
    notes = [t.get_text() for t in display.ax_.findobj(mpl.text.Annotation)]
    counts = [int(t.replace(",", "")) for t in notes if t != "rows"]
    assert counts == [round(2000 * line.share) for line in lines]
    assert sum(counts) == 2000
    assert len(display.data["g"]) == 51  # all levels, and missing cells
    plain = model.plot("g", max_levels=60, sort=False).lines
    assert [line.name for line in plain[:-1]] == sorted({v for v in g if v is not None})


def test_missing_cells_are_shown_separately(model, table):
    display = drawn(model.plot("v"))
    assert "missing" in texts(display)
    assert np.isnan(display.data["v"][-1])
    rows = {c: v[:1] for c, v in table.items()} | {"v": np.array([np.nan])}
    found = model.contributions(rows)
    assert display.data["effect"][-1] == pytest.approx(found["v"][0])


def test_a_column_with_only_a_missing_term():
    h = np.array(["p", None] * 20, dtype=object)
    model = cb.fit({"h": h}, np.array([0.0, 1.0] * 20), [cb.Missing("h")])
    display = drawn(model.plot("h"))
    found = model.contributions({"h": h[1:2]})["h"]
    assert display.data["effect"].tolist() == pytest.approx(found.tolist())
    assert "<svg" in model._repr_html_()


def test_surface_has_the_effect_and_leaves_out_empty_corners(model):
    display = drawn(model.plot("u:v"))
    data = display.data
    assert list(data) == ["u", "v", "effect"]
    grid = display.series[0].shape
    assert grid.effect.shape[:2] == (len(grid.at[0]), len(grid.at[1]))
    term = model.terms["u:v"]
    some = np.column_stack([data["u"], data["v"]])[::777]
    np.testing.assert_allclose(data["effect"][::777], term.effect_at(some)[:, 0])
    rng = np.random.default_rng(0)
    x = rng.uniform(size=900)
    y = x + rng.normal(0, 0.03, 900)  # no rows in two corners
    ridge = cb.fit({"x": x, "y": y}, x * y, [cb.Tensor("x", "y")])
    density = ridge.plot("x:y", table={"x": x, "y": y}).series[0].shape.density
    assert density[0, -1] == density[-1, 0] == 0
    assert density[0, 0] > 0


def test_several_classes():
    model = cases.loss_model("multinomial")
    display = drawn(model.plot("u"))
    assert [s.name for s in display.series] == ["one", "three", "two"]
    legend = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert legend == ["one", "three", "two"]
    one = model.plot("u", output="three")
    np.testing.assert_array_equal(one.data["three"], display.data["three"])
    assert len(model.plot("u:g").series) == 1
    drawn(model.plot("g", scale="response"))
    with pytest.raises(ValueError, match="expected one of the classes"):
        model.plot("u", output="four")
    why = model.plot(kind="explanation", table=cases.make_table(), row=2, output="two")
    assert why.bars[-1].end == pytest.approx(
        model.predict({c: v[2:3] for c, v in cases.make_table().items()}, "score")[0, 2]
    )


def test_rows_of_another_table(model, table):
    one = model.plot("u", table={"u": np.full(5, 0.25)})
    assert (one.spread.points.tolist(), one.spread.rows) == ([0.25], 5)
    few = model.plot("g", table={"g": np.array(["a", "a", "b", None], dtype=object)})
    shares = {line.name: line.share for line in few.lines}
    assert (shares["a"], shares["b"], shares["c"]) == (0.5, 0.25, 0.0)


def test_comparison(model):
    early = model.at(20)
    display = drawn(cb.ComparisonDisplay.from_estimators({"all": model, "20": early}, "u"))
    assert list(display.data) == ["u", "all", "20"]
    np.testing.assert_allclose(display.data["20"], early.effect("u")["effect"])
    levels = drawn(cb.ComparisonDisplay.from_estimators({"all": model, "20": early}, "g")).data
    np.testing.assert_allclose(levels["all"], model.effect("g")["effect"])
    with pytest.raises(ValueError, match="own axes"):
        cb.ComparisonDisplay.from_estimators({"all": model}, "u:v")
    with pytest.raises(ValueError, match="at least one"):
        cb.ComparisonDisplay.from_estimators({}, "u")
    with pytest.raises(ValueError, match="output="):
        cb.ComparisonDisplay.from_estimators({"m": cases.loss_model("multinomial")}, "u")


def test_comparison_of_models_with_different_levels():
    a = cb.fit({"g": ["x", "y"] * 9}, [0.0, 1.0] * 9)
    b = cb.fit({"g": ["y", "z"] * 9}, [0.0, 1.0] * 9)
    data = drawn(cb.ComparisonDisplay.from_estimators({"a": a, "b": b}, "g")).data
    assert data["g"].tolist() == ["x", "y", "z"]
    assert np.isnan(data["a"][2])
    assert np.isnan(data["b"][0])


def test_comparison_of_bands():
    x = np.linspace(0.0, 1.0, 300)
    smooth = cb.fit({"x": x}, np.sin(6 * x), [cb.Spline("x")], n_iter=30, bags=3)
    steps = cb.fit({"x": 2 * x}, np.sin(6 * x), [cb.Step("x")], n_iter=30, bags=3)
    data = drawn(cb.ComparisonDisplay.from_estimators({"a": steps, "b": smooth}, "x")).data
    assert {len(column) for column in data.values()} == {len(data["x"])}
    band = smooth.band("x")
    for end in ("lower", "upper"):
        expected = np.interp(data["x"], band["x"], band[end])
        np.testing.assert_allclose(data[f"{end} end of b"], expected)


def test_comparison_of_levels_has_no_bands():
    g = np.array(["x", "y", None], dtype=object)[np.arange(90) % 3]
    models = {str(k): cb.fit({"g": g}, np.arange(90) % 3 + k, bags=3) for k in range(2)}
    display = drawn(cb.ComparisonDisplay.from_estimators(models, "g"))
    assert all(band is None for line in display.lines for band in line.bands)


def test_importance(model):
    display = drawn(model.plot(kind="importance", by="term", max_bars=3))
    assert dict(zip(*display.data.values(), strict=True)) == model.importance(by="term")
    assert len(display.ax_.patches) == 3
    assert "mean absolute effect on the score over the training rows; " in label_of(display)
    assert "smaller ones not shown" in label_of(display)
    by_column = model.plot(kind="importance").data
    assert dict(zip(*by_column.values(), strict=True)) == model.importance() == panels(model)
    edited = model.edit("rounded", "g", digits=1)
    shown = drawn(edited.plot(kind="importance", by="term"))
    assert dict(zip(*shown.data.values(), strict=True)) == sizes(edited).terms
    assert "over a sketch of the training rows" in label_of(shown)


def label_of(display):
    return display.ax_.get_xlabel().replace("\n", " ")


@pytest.mark.parametrize("kind", ["risk", "path", "permutation", "drop"])
def test_other_kinds_of_importance(model, table, kind):
    y = problems.make_target(0, table, "squared")
    rows = {"table": table, "y": y} if kind in ("permutation", "drop") else {}
    display = drawn(model.plot(kind="importance", importance=kind, **rows))
    assert KINDS[kind] in label_of(display)
    data, found = display.data, model.importance(kind, **rows)
    if rows:
        assert list(data) == ["column", "importance", "standard error"]
        assert "; lines: standard error over" in label_of(display)
        np.testing.assert_array_equal(data["importance"], found["importance"])
        np.testing.assert_array_equal(data["standard error"], found["standard error"])
    else:
        assert dict(zip(*data.values(), strict=True)) == found


def hybrid(table, then="training"):
    y = problems.make_target(0, table, "squared")
    optimizer = cb.Hybrid(rate=0.3, momentum=0.1, then=then)
    return cb.fit(table, y, optimizer=optimizer, n_iter=200, validation=0.3)


@pytest.mark.parametrize("then", ["training", "all"])
def test_risk(table, then):
    model = hybrid(table, then)
    assert model.path.switched_after > model.path.rewound_to >= 0
    display = drawn(model.plot(kind="risk"))
    np.testing.assert_array_equal(display.data["training"], model.risk)
    np.testing.assert_array_equal(display.data["validation"], model.validation_risk)
    shown = texts(display)
    assert f"chosen: {model.best_iteration}" in shown
    assert "accelerated" in shown
    pale = [line for line in display.ax_.lines if line.get_alpha() == 0.4]
    assert len(pale) == (3 if then == "all" else 2)
    drawn(model.plot(kind="risk", log=False))


@pytest.mark.parametrize("optimizer", [cb.Plain(0.3), cb.Hybrid(0.3, 0.1, then="training")])
def test_metrics_along_the_path(optimizer):
    rng = np.random.default_rng(4)
    x = rng.uniform(size=500)
    ill = rng.uniform(size=500) < x
    model = cb.fit({"x": x}, ill, loss="binomial", validation=0.3, optimizer=optimizer, n_iter=150,
                   metric=["auc", "brier"])  # fmt: skip
    for name, values in model.validation_metrics.items():
        display = drawn(model.plot(kind="risk", metric=name))
        assert list(display.data) == ["iteration", name]
        np.testing.assert_array_equal(display.data[name], values)
        low, high = display.ax_.get_ylim()
        assert low < values[0] < high
        assert low < values[model.best_iteration] < high
        assert display.ax_.get_ylabel() == f"{name} of the validation rows"
    with pytest.raises(ValueError, match="metric: expected 'auc' or 'brier', got 'mae'"):
        model.plot(kind="risk", metric="mae")
    plain = cb.fit({"x": x}, ill, loss="binomial", n_iter=5)
    with pytest.raises(ValueError, match="the fit recorded no metrics; pass metric= to the fit"):
        plain.plot(kind="risk", metric="auc")


def test_risk_of_a_fit_that_diverges():
    x = np.linspace(0, 1, 200)
    with pytest.warns(RuntimeWarning, match="diverges"):
        model = cb.fit({"x": x, "z": x**2}, np.sin(9 * x), optimizer=cb.Accelerated(0.3, 0.5),
                       n_iter=300)  # fmt: skip
    display = drawn(model.plot(kind="risk"))
    assert display.ax_.get_ylim()[1] < 2 * model.risk[0]


@pytest.mark.parametrize("optimizer", ["plain", "accelerated", "hybrid"])
def test_coefficients_along_the_path(table, optimizer):
    if optimizer == "hybrid":
        model = hybrid(table)
    else:
        method = {"plain": cb.Plain(), "accelerated": cb.Accelerated()}[optimizer]
        model = cb.fit(
            table, problems.make_target(0, table, "squared"), optimizer=method, n_iter=60
        )
    iterations = growth.key_iterations(model, 20)
    assert iterations[0] == 0
    assert {model.best_iteration, model.n_iter} <= set(iterations.tolist())
    found = growth.coefficients_at(model, iterations)
    for m in (0, 3, len(iterations) - 1):
        for name, term in model.at(int(iterations[m])).terms.items():
            np.testing.assert_array_equal(found[name][m], term.beta)


@pytest.mark.parametrize("kind", ["size", "deviation", "range"])
def test_traces(table, kind):
    model = hybrid(table)
    display = drawn(cb.TracesDisplay.from_estimator(model, kind=kind))
    drawn(cb.TracesDisplay.from_estimator(model, kind=kind, max_terms=2, log=False))
    found = growth.traces(model, kind)
    last = model.at(model.n_iter)
    for name, size in found.sizes.items():
        assert size[0] == 0
        if kind == "size":
            assert size[-1] == pytest.approx(sizes(last).terms.get(name, 0.0))
        if kind == "deviation" and last.terms[name].chosen:
            deviation = np.std(last.contributions(table)[name])
            assert size[-1] == pytest.approx(deviation, rel=0.1)
        assert found.chosen[name].tolist() == [
            m + 1 for m, choice in enumerate(model.choices) if choice == name
        ]
    assert list(display.data) == ["iteration", *found.sizes]
    assert list(drawn(model.plot(kind="traces")).data) == ["iteration", *growth.traces(model).sizes]
    with pytest.raises(ValueError, match="edited"):
        model.edit("zero", "u").plot(kind="traces")


def test_sizes_from_a_sketch_are_near_the_mean_absolute_contributions(table):
    y = problems.make_target(0, table, "squared")
    learners = [cb.Spline("u"), cb.Spline("v"), cb.Step("z"), cb.Category("g"), cb.Category("h")]
    model = cb.fit(table, y, learners, n_iter=100)
    for name, contribution in model.contributions(table).items():
        found = sizes(replace(model, sizes=None)).terms[name]
        assert found == pytest.approx(np.mean(np.abs(contribution)), rel=0.03)


def test_explanation(model, table):
    display = drawn(model.plot(kind="explanation", table=table, row=5, max_bars=3))
    bars = display.bars
    assert [b.kind for b in bars] == ["intercept", *["column"] * 3, "others", "score"]
    for before, after in itertools.pairwise(bars[:-1]):
        assert after.begin == pytest.approx(before.end)
    assert bars[-2].end == pytest.approx(bars[-1].end)
    row = {c: v[5:6] for c, v in table.items()}
    assert bars[-1].end == pytest.approx(model.predict(row)[0])
    steps = [abs(b.end - b.begin) for b in bars[1:-2]]
    assert steps == sorted(steps, reverse=True)
    with pytest.raises(TypeError, match="pass table= and row="):
        model.plot(kind="explanation")


def test_page(model):
    display = drawn(model.plot(max_effects=3))
    assert list(display.displays) == list(panels(model))[:3]
    assert display.left_out == list(panels(model))[3:]
    assert any("not shown: " in t and t.startswith("grey bars: rows") for t in texts(display))
    shared = drawn(model.plot(share_scale=True)).displays.values()
    limits = {
        d.ax_.get_xlim() if d.kind == "levels" else d.ax_.get_ylim()
        for d in shared
        if d.kind != "surface"
    }
    assert len(limits) == 1


def test_page_uses_one_colour_scale_for_all_pairs():
    rng = np.random.default_rng(0)
    table = {name: rng.uniform(-1, 1, 600) for name in "abcd"}
    y = 5 * table["a"] * table["b"] + 0.5 * table["c"] * table["d"]
    model = cb.fit(table, y, [cb.Tensor("a", "b"), cb.Tensor("c", "d")], n_iter=200)
    display = drawn(model.plot())
    meshes = [d.drawing.image for d in display.displays.values()]
    tops = [float(np.abs(mesh.get_array()).max()) for mesh in meshes]
    assert tops[0] > 4 * tops[1]
    assert {mesh.get_clim() for mesh in meshes} == {(-tops[0], tops[0])}
    bars = [ax for ax in display.figure_.axes if ax not in display.axes_]
    assert [bar.get_ylabel() for bar in bars] == ["pairs"]
    assert bars[0].get_xlim() == (-tops[0], tops[0])
    label = np.digitize(y + 2 * table["c"], [-1, 1]).astype(str)
    classes = cb.fit(table, label, [cb.Tensor("a", "b"), cb.Spline("c")], "multinomial", n_iter=30)
    display = drawn(classes.plot())
    assert [t.get_text() for t in display.figure_.legends[0].get_texts()] == ["0", "1", "2"]
    assert display.axes_.flat[0].get_title(loc="left") in {f"b (up) by a: {k}" for k in range(3)}


def test_years_have_no_thousands_separator():
    x = np.repeat(np.arange(2003.0, 2010.0), 30)
    model = cb.fit({"x": x, "z": 10 * x}, np.sin(x), [cb.Spline("x"), cb.Spline("z")])
    assert "2005" in texts(drawn(model.plot("x")))
    assert "20,050" in texts(drawn(model.plot("z")))
    assert ">2003<" in model._repr_html_()


def test_pairs_of_skewed_columns_leave_out_thin_tails():
    rng = np.random.default_rng(0)
    table = {"a": np.append(rng.uniform(0, 1, 999), 100.0), "b": rng.uniform(0, 1, 1000)}
    model = cb.fit(table, table["a"] * table["b"], [cb.Tensor("a", "b")])
    display = drawn(model.plot("a:b"))
    assert 1.0 <= display.ax_.get_xlim()[1] < 1.2
    assert display.ax_.get_ylim()[1] > 0.99
    assert any(t.startswith("a goes to 100") for t in texts(display))
    display = drawn(model.plot("a:b", view="all"))
    assert display.ax_.get_xlim()[1] == 100.0
    assert not any("goes" in t for t in texts(display))
    with pytest.raises(ValueError, match="of a pair must be 'auto' or 'all'"):
        model.plot("a:b", view=(0, 1))


def test_plots_of_a_model_without_iterations():
    model = cb.fit({"x": np.arange(9.0)}, np.arange(9.0), n_iter=0)
    assert "no term was chosen" in texts(drawn(model.plot()))
    assert "0 of 1 terms" in model._repr_html_()
    drawn(model.plot("x"))
    drawn(model.plot(kind="risk"))
    drawn(model.plot(kind="importance"))
    drawn(model.plot(kind="traces"))


def test_columns_named_as_terms_are_not_counted_twice():
    """A column and one of its terms may have the same name."""
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=200), "b": rng.normal(size=200)}
    learners = [cb.Spline("a"), cb.Step("a", name="a"), cb.Linear("b", name="c")]
    model = cb.fit(table, table["a"] ** 2 + table["b"], learners, n_iter=100)
    for name, share in panels(model).items():
        members = shape(model, name).terms
        expected = sum(model.importance(by="term").get(term, 0.0) for term in members)
        assert share == pytest.approx(expected)
    total = [term for name in panels(model) for term in shape(model, name).terms]
    assert sorted(total) == sorted(model.importance(by="term"))


# --- axes, names and styles -----------------------------------------------------------------------


def test_given_axes_are_used(model, table):
    figure, axes = plt.subplots(1, 6)
    displays = [
        model.plot("u", ax=axes[0]),
        model.plot("g", ax=axes[1]),
        model.plot("u:v", ax=axes[2]),
        model.plot(kind="importance", ax=axes[3]),
        model.plot(kind="risk", ax=axes[4]),
        model.plot(kind="explanation", table=table, ax=axes[5]),
    ]
    for display, ax in zip(displays, axes, strict=True):
        assert display.ax_ is ax
        assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    other = plt.figure().subplots()
    assert displays[0].plot(ax=other) is displays[0]
    assert displays[0].ax_ is other
    page = plt.figure()
    assert model.plot(figure=page).figure_ is page


def test_shared_axes_show_all_effects(model, table):
    _, axes = plt.subplots(1, 3, sharey=True)
    displays = [model.plot(name, ax=ax) for ax, name in zip(axes, ("u", "z", "v"), strict=True)]
    low, high = axes[0].get_ylim()
    for display in displays:
        assert low < display.data["effect"].min()
        assert display.data["effect"].max() < high
    _, axes = plt.subplots(2, 1, sharex=True)
    ends = [
        bar.end
        for row, ax in enumerate(axes)
        for bar in model.plot(kind="explanation", table=table, row=row, ax=ax).bars
    ]
    low, high = axes[0].get_xlim()
    assert low < min(ends)
    assert max(ends) < high


def test_estimators_plot(table):
    X = {name: table[name] for name in ("u", "g")}
    estimator = cb.CWBRegressor(n_iter=30).fit(X, table["u"])
    assert estimator.plot("u").data["effect"].tolist() == (
        estimator.model_.plot("u").data["effect"].tolist()
    )
    drawn(cb.EffectDisplay.from_estimator(estimator, "u", table=X))
    drawn(estimator.plot(kind="explanation", table=X, row=1))
    with pytest.raises(ValueError, match="not fitted"):
        cb.CWBRegressor().plot()
    with pytest.raises(TypeError, match="expected a cwboost Model"):
        cb.RiskDisplay.from_estimator("model")
    array = cb.CWBRegressor(n_iter=30).fit(
        np.random.default_rng(0).normal(size=(50, 2)), np.ones(50)
    )
    drawn(array.plot("x0", table=np.zeros((3, 2))))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"which": "nothing"}, "no term or column 'nothing'"),
        ({"which": "u", "kind": "risk"}, "leave out 'u'"),
        ({"kind": "pie"}, "kind: expected 'effects'"),
        ({"which": "u", "scale": "log"}, "scale: expected"),
        ({"which": "u", "view": "some"}, "view must be"),
        ({"which": "u", "view": (2, 1)}, "low < high"),
        ({"which": "u", "output": "a"}, "expected one of the classes"),
        ({"kind": "importance", "by": "row"}, "by: expected"),
    ],
)
def test_bad_arguments(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.plot(**arguments)


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=400) for name in HOSTILE}
    levels = [*HOSTILE, "", "\udcff", None, *map(str, range(40))]
    table["levels $\\alpha$"] = rng.choice(np.array(levels, dtype=object), 400)
    y = sum(np.sin(2 * table[name]) for name in HOSTILE) + rng.normal(0, 0.1, 400)
    learners = [cb.Tensor(HOSTILE[0], HOSTILE[4], df=8), cb.Tensor("levels $\\alpha$", HOSTILE[1],
                df=60), ...]  # fmt: skip
    model = cb.fit(table, y, learners, n_iter=120, validation=0.2)
    return cases.with_all_terms(model), table


def test_names_of_any_kind(hostile):
    model, table = hostile
    for name in dict.fromkeys([*HOSTILE, "levels $\\alpha$", *model.terms]):
        display = drawn(model.plot(name))
        assert display.series[0].shape.columns[0] in display.data  # not shortened
        plt.close("all")
    page = drawn(model.plot(max_effects=20), ("png", "svg", "pdf"))
    assert max(map(len, texts(page))) < 100
    assert not any(ord(c) < 32 and c != "\n" for text in texts(page) for c in text)
    for kind in ("importance", "risk", "traces"):
        drawn(model.plot(kind=kind))
    drawn(model.plot(kind="explanation", table=table, row=1))
    both = {"$m$": model, "_secret": model.at(9)}
    legend = drawn(cb.ComparisonDisplay.from_estimators(both, HOSTILE[0])).ax_.get_legend()
    assert len(legend.get_texts()) == 2


def test_dollars_are_not_formulas(hostile):
    model, _ = hostile
    display = model.plot(HOSTILE[0], labels={HOSTILE[0]: "price in $ and $"})
    for label in (display.ax_.xaxis.label, model.plot(HOSTILE[0]).ax_.xaxis.label):
        shown, formula = label._preprocess_math(label.get_text())
        assert formula is False
        assert "$" in shown
        assert "\\$" not in shown


def test_labels_give_units(model):
    assert model.plot("u", labels={"u": "u (years)"}).ax_.get_xlabel() == "u (years)"
    shown = texts(model.plot(kind="importance", labels={"u": "u (years)"}))
    assert "u (years)" in shown


def test_other_styles(model):
    with plt.style.context("dark_background"):
        drawn(model.plot("v"))
        drawn(model.plot())
    with mpl.rc_context({"text.usetex": False, "font.family": ["DejaVu Serif"]}):
        drawn(model.plot("g"))


def test_models_from_old_files_are_drawn(model):
    columns = {name: replace(facts, spread=None) for name, facts in model.columns.items()}
    old = replace(model, columns=MappingProxyType(columns))
    drawn(old.plot())
    drawn(old.plot(kind="traces"))
    assert "%" in " ".join(texts(drawn(old.plot("g"))))  # shares instead of counts
    assert "<svg" in old._repr_html_()


def test_save_opens_no_window(model, tmp_path):
    plots.save(model, tmp_path / "u.png", "u")
    plots.save(model, tmp_path / "all.pdf")
    plots.save(model, tmp_path / "risk.svg", kind="risk")
    assert plt.get_fignums() == []
    assert (tmp_path / "u.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "all.pdf").read_bytes()[:4] == b"%PDF"
    ElementTree.parse(tmp_path / "risk.svg")


def test_without_matplotlib(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for name in [name for name in sys.modules if name.startswith("cwboost.plotting.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cwboost\[plot\]'"):
        model.plot()
    assert "<svg" in model._repr_html_()


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def file(model, tmp_path):
    model.save(tmp_path / "model.json")
    return str(tmp_path / "model.json")


@pytest.mark.parametrize(
    "arguments",
    [[], ["u"], ["u", "--scale", "response"], ["--kind", "importance"], ["--kind", "traces"]],
)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_command(file, tmp_path, arguments, ending):
    target = tmp_path / f"out.{ending}"
    assert cli.main(["plot", file, *arguments, "-o", str(target)]) == 0
    assert target.stat().st_size > 2000
    assert not list(tmp_path.glob("*.tmp"))


def test_command_explains(file, tmp_path, table):
    from cwboost.frames.files import write_table

    write_table(str(tmp_path / "t.csv"), table)
    why = ["--kind", "explanation", "--table", str(tmp_path / "t.csv"), "--row", "3"]
    assert cli.main(["plot", file, *why, "-o", str(tmp_path / "why.pdf")]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "x.jpg"], "ends in .png, .svg, .pdf"),
        (["u", "--kind", "risk", "-o", "x.png"], "leave out 'u'"),
        (["--kind", "risk", "--scale", "score", "-o", "x.png"], "--scale does not apply to --kind"),
        (["--kind", "explanation", "-o", "x.png"], "draws one row; give its --table"),
        (["--row", "1", "-o", "x.png"], "--row does not apply to --kind effects"),
    ],
)
def test_command_misused(file, capsys, arguments, message):
    with pytest.raises(SystemExit):
        cli.main(["plot", file, *arguments])
    assert message in capsys.readouterr().err


class CountDisplay(Display):
    """A user-defined display of the number of terms."""

    def __init__(self, n):
        self.n = n

    @classmethod
    def from_estimator(cls, model, *, ax=None):
        return cls(len(model.terms)).drawn(ax)

    def plot(self, ax=None):
        self.ax_ = plt.gca() if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.bar(["terms"], [self.n])
        return self


class PlainDisplay:
    """A user-defined display that only follows scikit-learn's convention."""

    @classmethod
    def from_estimator(cls, model, *, ax=None):
        display = cls()
        display.ax_ = plt.gca() if ax is None else ax
        display.figure_ = display.ax_.figure
        display.ax_.plot(model.risk)
        return display


@pytest.mark.parametrize("display", [CountDisplay, PlainDisplay])
def test_a_registered_display_is_known_everywhere(model, file, tmp_path, monkeypatch, display):
    monkeypatch.setitem(registry.DISPLAYS, "mine", display)
    assert isinstance(drawn(model.plot(kind="mine")), display)
    plots.save(model, tmp_path / "a.svg", kind="mine")
    assert cli.main(["plot", file, "--kind", "mine", "-o", str(tmp_path / "b.svg")]) == 0
    for name in ("a.svg", "b.svg"):
        ElementTree.parse(tmp_path / name)


def test_a_plot_that_fails_leaves_no_file(model, tmp_path, monkeypatch):
    def broken(self, file, **_):
        file.write(b"half")
        raise ValueError("no")

    monkeypatch.setattr(mpl.figure.Figure, "savefig", broken)
    with pytest.raises(ValueError, match="no"):
        plots.save(model, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_command_reports_an_unknown_name(file, tmp_path, capsys):
    assert cli.main(["plot", file, "nothing", "-o", str(tmp_path / "x.png")]) == 1
    assert "no term or column 'nothing'" in capsys.readouterr().err
    assert not (tmp_path / "x.png").exists()


# --- the notebook ---------------------------------------------------------------------------------


class Reader(HTMLParser):
    """Collects what a browser would see: the tags, their attributes and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.names, self.words, self.open = [], set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.names |= {name for name, _ in attributes}
        if tag not in ("line", "circle", "rect", "path", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.names |= {name for name, _ in attributes}

    def handle_endtag(self, tag):
        if tag not in ("line", "circle", "rect", "path", "polyline"):
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def svgs(text):
    parts = text.split("<svg")[1:]
    return ["<svg" + part.split("</svg>")[0] + "</svg>" for part in parts]


def test_html_of_a_model(model):
    text = model._repr_html_()
    found = Reader(text)
    assert found.open == []
    assert len(svgs(text)) == min(12, len(panels(model)))
    for svg in svgs(text):
        ElementTree.fromstring(svg)
    assert "script" not in found.tags
    first = next(iter(panels(model)))
    assert first in found.words


def test_html_of_hostile_names(hostile):
    model, _ = hostile
    text = model._repr_html_()
    found = Reader(text)
    assert "script" not in found.tags
    assert not any(name.startswith("on") for name in found.names)
    assert "<script>alert(1)</script>" in " ".join(found.words)
    assert len(text.encode()) < 50_000
    for svg in svgs(text):
        ElementTree.fromstring(svg)


@pytest.mark.parametrize("loss", problems.LOSSES)
def test_html_of_every_loss(loss):
    for svg in svgs(cases.loss_model(loss)._repr_html_()):
        assert "nan" not in svg
        ElementTree.fromstring(svg)


def test_html_stays_small():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200))
    wide = cases.with_all_terms(cb.fit(X, X.sum(axis=1), n_iter=100))
    assert all(term.chosen for term in wide.terms.values())
    assert len(wide._repr_html_().encode()) < 50_000
    g = rng.choice([f"class {k}" for k in range(20)], 600)
    table = {f"x{k}": rng.integers(0, 90, 600).astype(float) for k in range(12)}
    many = cases.with_all_terms(cb.fit(table, g, "auto", "multinomial", n_iter=20))
    assert len(many._repr_html_().encode()) < 50_000


def test_html_of_estimators(table):
    estimator = cb.CWBRegressor(n_iter=30)
    assert "cwb" not in estimator._repr_mimebundle_()["text/html"].split("sk-")[0]
    estimator.fit({"u": table["u"]}, table["u"])
    for text in (estimator._repr_mimebundle_()["text/html"], estimator._repr_html_()):
        assert text.startswith(estimator.model_._repr_html_())
        assert "sk-container" in text  # scikit-learn's diagram
