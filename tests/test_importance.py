"""Tests of `Model.importance`: what each kind measures, where it is stored, and its other forms.

Most tests compare with a plain computation from `model.contributions` or `model.predict`.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwboost as cb
import sharding
from cwboost.explain.sizes import are_stored, sizes
from cwboost.export.model_file import from_dict, to_dict
from cwboost.fitting.effect_sizes import effect_sizes
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.repeat import pose_again
from problems import make_table, make_target

N = 300


def coarse(table):
    """Return a table whose numbers have few distinct values, so that all bins are exact."""
    return {k: np.round(v, 1) if v.dtype == float else v for k, v in table.items()}


def expected_sizes(model, table, weights=None, by="column"):
    """Return mean absolute contributions, the terms of a column added up."""
    sums = {}
    for name, effect in model.contributions(table).items():
        key = ":".join(model.terms[name].columns) if by == "column" else name
        sums[key] = sums.get(key, 0.0) + effect.reshape(len(effect), -1)
    return {k: np.average(np.abs(e).mean(axis=1), weights=weights) for k, e in sums.items()}


def correlated(n=4000, seed=0):
    """Return y = 2 a + b + noise, where a and b have the correlation -0.95."""
    rng = np.random.default_rng(seed)
    a, b = rng.multivariate_normal([0, 0], [[1, -0.95], [-0.95, 1]], n).T
    return {"a": a, "b": b}, 2 * a + b + rng.normal(0, 0.5, n)


# --- size -----------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(["squared", "binomial", "multinomial", "poisson"]),
    weighted=st.booleans(),
    optimizer=st.sampled_from([cb.Plain(0.3), cb.Accelerated(0.1)]),
    style=st.sampled_from(["auto", "components", "pairs"]),
)
def test_size_is_the_mean_absolute_contribution(seed, loss, weighted, optimizer, style):
    table = coarse(make_table(seed, 120))
    y = make_target(seed, table, loss)
    w = np.random.default_rng(seed).integers(0, 4, 120) if weighted else None
    learners = "auto" if style == "pairs" else style
    pairs = [("k", "g"), ("u", "k")] if style == "pairs" else None
    model = cb.fit(
        table, y, learners, loss, optimizer, 15, bins="exact", weights=w, interactions=pairs
    )
    for by in ("column", "term"):
        found = model.importance(by=by)
        assert all(size >= 0 for size in found.values())
        assert list(found.values()) == sorted(found.values(), reverse=True)
        assert found == pytest.approx(expected_sizes(model, table, w, by), rel=1e-9, abs=1e-12)
        on_rows = model.importance(by=by, table=table, weights=w)
        assert on_rows == pytest.approx(found, rel=1e-9, abs=1e-12)


def test_terms_of_a_column_are_added_before_the_absolute_value():
    x = np.round(np.random.default_rng(0).normal(size=N), 1)
    model = cb.fit({"x": x}, np.sin(3 * x) + (x > 0.4), "auto", bins="exact", n_iter=300)
    by_term = model.importance(by="term")
    assert set(by_term) == {"spline(x)", "step(x)"}
    column = model.importance()["x"]
    effects = model.contributions({"x": x})
    assert column == pytest.approx(np.mean(np.abs(effects["spline(x)"] + effects["step(x)"])))
    assert column < sum(by_term.values())


def test_only_training_rows_count():
    table = coarse(make_table(0, N))
    y, held = make_target(0, table, "squared"), np.arange(N) % 3 == 0
    model = cb.fit(table, y, bins="exact", n_iter=30, validation=held)
    training = {name: column[~held] for name, column in table.items()}
    assert model.importance() == pytest.approx(expected_sizes(model, training), rel=1e-9)


def test_correlated_columns():
    """Both columns have a large effect, although one of them hides the other."""
    table, y = correlated()
    model = cb.CWBRegressor().fit(table, y).model_
    size, risk = model.importance(), model.importance("risk")
    assert size["a"] == pytest.approx(2 * np.sqrt(2 / np.pi), rel=0.1)
    assert size["b"] == pytest.approx(np.sqrt(2 / np.pi), rel=0.2)
    assert risk["b"] < 0
    dropped = model.importance("drop", table=table, y=y)
    assert np.all(dropped["importance"] > 5 * dropped["standard error"])


def test_a_column_that_counters_another_one_is_not_last():
    """As in diamonds: better colours are rare among large stones, so the risk share is negative."""
    rng = np.random.default_rng(1)
    carat = rng.exponential(size=600)
    table = {
        "carat": carat,
        "colour": np.clip(np.round(3 - 2 * carat + rng.normal(size=600)), 0, 4),
        "depth": rng.normal(size=600),
    }
    y = 4 * carat + 0.5 * table["colour"] + rng.normal(0, 0.3, 600)
    model = cb.CWBRegressor(n_iter=300).fit(table, y).model_
    assert list(model.importance())[:2] == ["carat", "colour"]
    assert min(model.importance("risk"), key=model.importance("risk").get) == "colour"
    assert [line.split()[0] for line in model.summary().splitlines() if "carat" in line]


@pytest.mark.parametrize("loss", ["squared", "multinomial"])
@pytest.mark.parametrize("weighted", [False, True])
def test_shards_equal_local_rows(loss, weighted):
    table = make_table(3, N)
    y = make_target(3, table, loss)
    w = np.random.default_rng(0).uniform(0.5, 2.0, N) if weighted else None
    options = {"learners": "auto", "loss": loss, "n_iter": 20, "interactions": [("u", "g")]}
    local = cb.fit(table, y, weights=w, **options)
    arrays = {"y": y} | ({} if w is None else {"weights": w})
    other = sharding.fit(sharding.split_rows(table, arrays), y, weights=w, **options)
    assert other.importance() == pytest.approx(local.importance(), rel=1e-9)
    assert other.importance(by="term") == pytest.approx(local.importance(by="term"), rel=1e-9)


def test_bags_have_the_size_of_the_average():
    table = coarse(make_table(4, N))
    y = make_target(4, table, "squared")
    model = cb.fit(table, y, bins="exact", n_iter=40, bags=3)
    assert model.importance() == pytest.approx(expected_sizes(model, table), rel=1e-9)


@pytest.mark.parametrize("knots", [3, 20])
def test_moments(knots):
    """With many distinct values and bins="exact", the core has moments instead of bins."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=6000)
    model = cb.fit({"x": x}, x**2, [cb.Spline("x", knots=knots)], bins="exact", n_iter=20)
    assert model.importance() == pytest.approx(expected_sizes(model, {"x": x}), rel=1e-9)


def test_names_of_pairs_and_columns_do_not_collide():
    rng = np.random.default_rng(0)
    table = {name: np.round(rng.normal(size=N), 1) for name in ("a", "b", "a:b")}
    y = table["a"] * table["b"] + table["a:b"]
    learners = [cb.Tensor("a", "b", name="pair"), cb.Spline("a:b")]
    found = cb.fit(table, y, learners, n_iter=50).importance()
    assert set(found) == {"a:b", "a:b_"}


def test_any_model_of_the_problem_can_be_measured():
    table = coarse(make_table(5, N))
    y = make_target(5, table, "squared")
    model = cb.fit(table, y, bins="exact", n_iter=40)
    problem = pose_again(model, FitInput.of(table, y), "test", None)
    early = model.at(7)
    found = effect_sizes(problem, early)
    assert dict(found.columns) == pytest.approx(expected_sizes(early, table), rel=1e-9)


# --- what is stored -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    table = make_table(6, 2000)
    y = make_target(6, table, "squared")
    return table, y, cb.fit(table, y, "auto", n_iter=60, interactions=[("u", "g")])


def test_iterates_are_approximated_from_a_sketch(fitted):
    table, _, model = fitted
    early = model.at(20)
    assert are_stored(model)
    assert not are_stored(early)
    assert early.importance() == pytest.approx(early.importance(table=table), rel=0.1)
    assert model.at(model.best_iteration).sizes is model.sizes
    assert "over a sketch of the training rows" in early.summary()
    assert "over the training rows" in model.summary()


def test_extend_and_checkpoint_store_the_sizes_of_the_result(fitted, tmp_path):
    table, y, _ = fitted
    short = cb.fit(table, y, n_iter=20)
    long = cb.fit(table, y, n_iter=45, checkpoint=tmp_path / "c")
    assert short.extend(25, table, y).importance() == pytest.approx(long.importance(), rel=1e-9)
    resumed = cb.fit(table, y, n_iter=45, checkpoint=tmp_path / "c")
    assert resumed.importance() == long.importance()


def test_an_edit_forgets_the_sizes_of_its_column_only(fitted):
    table, _, model = fitted
    edited = model.edit("rounded", "spline(u)", digits=1)
    by_term, before = edited.importance(by="term"), model.importance(by="term")
    for name in before:
        if name != "spline(u)":
            assert by_term[name] == before[name]
    assert set(edited.sizes.columns) == set(model.sizes.columns) - {"u"}
    on_rows = edited.importance(table=table)
    assert edited.importance()["u"] == pytest.approx(on_rows["u"], rel=0.02)
    assert edited.importance()["v"] == model.importance()["v"]
    gone = model.edit("zero", "u")
    assert set(gone.importance()) == set(model.importance()) - {"u"}


def test_files_keep_the_sizes(fitted, tmp_path):
    _, _, model = fitted
    edited = model.edit("rounded", "spline(u)", digits=1)
    for each in (model, edited):
        each.save(tmp_path / "m.json")
        again = cb.load(tmp_path / "m.json")
        assert again.importance() == each.importance()
        assert again.sizes.columns == each.sizes.columns
        assert pickle.loads(pickle.dumps(each)).sizes.terms == each.sizes.terms
    data = json.loads((tmp_path / "m.json").read_text())
    assert set(data["sizes"]) == {"terms", "columns"}


def test_older_files_answer_from_their_sketch(fitted):
    table, _, model = fitted
    data = {key: value for key, value in to_dict(model).items() if key != "sizes"}
    old = from_dict({**data, "version": 3})
    assert old.sizes is None
    assert old.importance() == pytest.approx(model.importance(table=table), rel=0.1)
    assert old.importance("risk") == model.importance("risk")


def test_binary_levels_are_approximated_with_their_shares():
    g = np.array(list("aaaaaabbbc") * 30)
    y = np.select([g == "a", g == "b"], [0.0, 2.0], 5.0)
    model = cb.fit({"g": g}, y, [cb.Category("g", kind="binary")], n_iter=200)
    assert len(model.importance(by="term")) == 3
    approximate = sizes(replace(model, sizes=None)).columns
    assert dict(approximate) == pytest.approx(model.importance(), rel=1e-9)


# --- risk and path --------------------------------------------------------------------------------


def test_risk_and_path_by_column_add_up_the_terms(fitted):
    _, _, model = fitted
    for kind in ("risk", "path"):
        terms, columns = model.importance(kind, by="term"), model.importance(kind)
        for name, value in columns.items():
            members = [n for n in terms if ":".join(model.terms[n].columns) == name]
            assert value == pytest.approx(sum(terms[n] for n in members))


# --- permutation and drop -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial"])
def test_permutation_equals_a_plain_loop(loss):
    table = make_table(7, N)
    y = make_target(7, table, loss)
    w = np.arange(N) % 3.0
    model = cb.fit(table, y, "auto", loss, n_iter=40, weights=w, interactions=[("u", "g")])
    found = model.importance("permutation", table=table, y=y, weights=w, repeats=4, random_state=5)
    some = w > 0
    rows = {name: column[some] for name, column in table.items()}

    def mean_loss(columns):
        score = model.predict(columns, kind="score")
        y_true, classes = y[some], list(model.classes)
        if loss == "squared":
            each = (y_true - score) ** 2 / 2
        elif loss == "binomial":
            each = np.log1p(np.exp(-np.where(y_true == classes[1], 1, -1) * score))
        else:
            at = np.array([classes.index(c) for c in y_true])
            each = np.log(np.exp(score).sum(axis=1)) - score[np.arange(len(at)), at]
        return np.average(each, weights=w[some])

    rng = np.random.default_rng(5)
    orders = [rng.permutation(int(some.sum())) for _ in range(4)]
    base = mean_loss(rows)
    for name, value, error in zip(*found.values(), strict=True):
        rises = [mean_loss({**rows, name: rows[name][order]}) - base for order in orders]
        assert value == pytest.approx(np.mean(rises), rel=1e-9, abs=1e-12)
        assert error == pytest.approx(np.std(rises, ddof=1) / 2, rel=1e-8, abs=1e-12)


def test_permutation_of_a_term_shuffles_its_effect_only():
    table = make_table(8, N)
    y = make_target(8, table, "squared")
    model = cb.fit(table, y, "auto", n_iter=100)
    found = model.importance("permutation", by="term", table=table, y=y, repeats=2)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(N) for _ in range(2)]
    score, effects = model.predict(table), model.contributions(table)
    for name, value in zip(found["term"], found["importance"], strict=True):
        shuffled = [score - effects[name] + effects[name][order] for order in orders]
        rises = [np.mean((y - s) ** 2 - (y - score) ** 2) / 2 for s in shuffled]
        assert value == pytest.approx(np.mean(rises), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("by", ["column", "term"])
def test_drop_equals_a_plain_loop(by):
    rng = np.random.default_rng(9)
    table = {name: rng.integers(0, 9, N).astype(float) for name in "abc"}
    y = table["a"] + np.sin(table["b"]) + rng.normal(size=N)
    learners = [cb.Spline("a"), cb.Step("a"), cb.Spline("b"), cb.Step("c")]
    model = cb.fit(table, y, learners, n_iter=60)
    folds = [(np.flatnonzero(np.arange(N) % 3 != k), np.arange(k, N, 3)) for k in range(3)]
    found = model.importance("drop", by=by, table=table, y=y, folds=folds)

    def risks(some):
        out = []
        for training, test in folds:
            w = np.isin(np.arange(N), training).astype(float)
            fit = cb.fit(table, y, some, n_iter=60, weights=w, start=None, bins="exact")
            left = y[test] - fit.predict({k: v[test] for k, v in table.items()})
            out.append(np.mean(left**2) / 2)
        return np.array(out)

    base, names = risks(learners), dict(zip(model.terms, learners, strict=True))
    for name, value, error in zip(*found.values(), strict=True):
        kept = [x for n, x in names.items() if name not in (n, *model.terms[n].columns)]
        rises = risks(kept) - base
        assert value == pytest.approx(rises.mean(), rel=1e-6, abs=1e-9)
        assert error == pytest.approx(rises.std(ddof=1) / np.sqrt(3), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("options", [{"validation": 0.3}, {"bags": 3}, {"optimizer": cb.Hybrid()}])
def test_drop_of_models_that_stop_early(options):
    table, y = correlated(600)
    table["c"] = np.random.default_rng(0).normal(size=600)
    if "optimizer" in options:
        options = {**options, "validation": 0.3}
    model = cb.fit(table, y, n_iter=100, **options)
    found = model.importance("drop", table=table, y=y, random_state=1)
    assert list(found["column"][:2]) == ["a", "b"]
    again = model.importance("drop", table=table, y=y, random_state=1, n_threads=2)
    np.testing.assert_array_equal(found["importance"], again["importance"])


def test_tables_of_a_model_without_terms():
    table, y = correlated(50)
    model = cb.fit(table, y, n_iter=0)
    for kind in ("permutation", "drop"):
        assert len(model.importance(kind, table=table, y=y)["importance"]) == 0


# --- estimators -----------------------------------------------------------------------------------


def test_feature_importances_are_sizes_with_half_of_a_pair_for_each_column():
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=1000) for name in "abc"}
    y = table["a"] * table["b"] + 0.2 * table["a"]
    found = cb.CWBRegressor(interactions=[("a", "b")]).fit(table, y)
    sizes = found.model_.importance()
    pair = sizes["a:b"] / 2
    parts = [sizes.get("a", 0) + pair, sizes.get("b", 0) + pair, sizes.get("c", 0)]
    assert found.feature_importances_ == pytest.approx(np.array(parts) / sum(parts))
