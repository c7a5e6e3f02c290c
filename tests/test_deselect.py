"""Tests of deselection: which terms are dropped, and that the second fit uses only the rest."""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    n = 400
    table = {f"x{k}": rng.integers(0, 40, n) / 40 for k in range(6)}
    table["g"] = rng.choice(list("abc"), n)
    y = np.sin(6 * table["x3"]) + (table["g"] == "a") + 0.3 * table["x1"] + rng.normal(0, 0.5, n)
    return table, y


def costs_of(model, table, y, folds, by="term"):
    """Return the bounds of the costs as shares, by a plain loop over fits and predictions.

    For models without validation rows, of the squared loss, at exact bins.
    """
    groups = {}
    for name, term in model.terms.items():
        if term.chosen:
            groups.setdefault(name if by == "term" else term.columns[0], []).append(name)
    rises = {name: [] for name in [*groups, "all"]}
    learners = [term.learner for term in model.terms.values()]
    for training, test in folds:
        inside = np.isin(np.arange(len(y)), training).astype(float)
        fit = cb.fit(table, y, learners, n_iter=model.n_iter, weights=inside)
        rows = {name: column[test] for name, column in table.items()}
        score, effects = fit.predict(rows), fit.contributions(rows)
        zero = np.zeros(len(test))

        def risk(score, test=test):
            return np.mean((y[test] - score) ** 2) / 2

        for name, members in groups.items():
            less = sum((effects.get(n, zero) for n in members), zero)
            rises[name].append(risk(score - less) - risk(score))
        rises["all"].append(risk(np.full(len(test), fit.intercept)) - risk(score))
    fall = np.mean(rises.pop("all"))
    bound = {k: np.mean(r) + np.std(r, ddof=1) / np.sqrt(len(folds)) for k, r in rises.items()}
    return {name: value / fall for name, value in bound.items()}


def three_folds(n):
    return [(np.flatnonzero(np.arange(n) % 3 != k), np.arange(k, n, 3)) for k in range(3)]


@pytest.mark.parametrize("threshold", [0.003, 0.02, 0.1])
def test_terms_of_small_cost_are_dropped(problem, threshold):
    table, y = problem
    model, folds = cb.fit(table, y), three_folds(len(y))
    costs = costs_of(model, table, y, folds)
    small = cb.deselect(model, table, y, threshold=threshold, method="share", folds=folds)
    assert set(small.terms) == {name for name, cost in costs.items() if cost >= threshold}
    assert set(small.dropped) == {name for name, cost in costs.items() if cost < threshold}
    assert {"x3", "g"} <= set(small.terms)
    names = ", ".join(small.dropped)
    line = f"dropped before this fit because held-out rows do not need them: {names}"
    assert line in small.summary()
    assert small.at(3).dropped == small.dropped
    # a second deselection still lists the terms dropped by the first
    again = cb.deselect(small, table, y, threshold=0.3, method="share", folds=folds)
    gone = [name for name in small.terms if name not in again.terms]
    assert again.dropped == (*small.dropped, *gone)


def test_cumulative_drops_terms_with_a_small_total_cost(problem):
    table, y = problem
    model, folds = cb.fit(table, y, n_iter=400), three_folds(len(y))
    costs = {k: max(c, 0.0) for k, c in costs_of(model, table, y, folds).items()}
    for threshold in (0.002, 0.02, 0.2):
        small = cb.deselect(model, table, y, threshold=threshold, folds=folds)
        gone = sum(costs[name] for name in small.dropped)
        assert gone < threshold
        assert gone + min(costs[name] for name in small.terms) >= threshold
        assert max([costs[n] for n in small.dropped], default=0.0) <= min(
            costs[n] for n in small.terms
        )


def test_by_column_judges_the_terms_of_a_column_together(problem):
    table, y = problem
    model, folds = cb.fit(table, y, "components", n_iter=400), three_folds(len(y))
    options = {"threshold": 0.02, "method": "share", "folds": folds}
    small = cb.deselect(model, table, y, by="column", **options)
    costs = costs_of(model, table, y, folds, by="column")
    kept = {term.columns[0] for term in small.terms.values()}
    assert kept == {name for name, cost in costs.items() if cost >= 0.02}
    assert {"linear(x3)", "centered(x3)"} <= set(small.terms)


def test_useful_terms_with_a_negative_share_of_the_risk_stay():
    """y = 2 a + b, where b hides the effect of a."""
    rng = np.random.default_rng(0)
    a, b = rng.multivariate_normal([0, 0], [[1, -0.95], [-0.95, 1]], 1000).T
    table = {"a": a, "b": b, **{f"z{k}": rng.normal(size=1000) for k in range(4)}}
    y = 2 * a + b + rng.normal(size=1000)
    model = cb.fit(table, y, n_iter=300)
    assert model.importance("risk")["b"] < 0
    small = cb.deselect(model, table, y)
    assert {"a", "b"} <= set(small.terms)
    assert small.dropped


def test_nothing_is_dropped_if_every_term_is_useful():
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=300), "b": rng.normal(size=300)}
    y = table["a"] + table["b"]
    model = cb.fit(table, y)
    small = cb.deselect(model, table, y)
    assert small.dropped == ()
    np.testing.assert_allclose(small.predict(table), model.predict(table), rtol=1e-9)


def test_noise_is_refused(problem):
    table, _ = problem
    y = np.random.default_rng(0).normal(size=400)
    model = cb.fit(table, y, n_iter=300)
    with pytest.raises(ValueError, match="does not predict held-out rows better than a constant"):
        cb.deselect(model, table, y)


@pytest.mark.parametrize("optimizer", [cb.Plain(0.1), cb.Accelerated(0.1, 0.03)], ids=repr)
@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial"])
def test_the_second_fit_equals_a_fit_of_the_kept_terms(problem, loss, optimizer):
    table, y = problem
    y = y if loss == "squared" else np.digitize(y, [0.3] if loss == "binomial" else [0, 0.6])
    w = np.random.default_rng(0).integers(1, 4, len(y))
    options = {"loss": loss, "optimizer": optimizer, "weights": w}
    model = cb.fit(table, y, n_iter=150, **options)
    small = cb.deselect(model, table, y, weights=w, threshold=0.06, method="share")
    assert 0 < len(small.terms) < len(model.terms)
    rest = {name: table[name] for name in small.terms}
    expected = cb.fit(rest, y, n_iter=150, **options)
    assert small.choices == expected.choices
    np.testing.assert_allclose(small.predict(table), expected.predict(table), rtol=1e-9, atol=1e-12)
    assert small.importance() == pytest.approx(expected.importance(), rel=1e-7)


@pytest.mark.parametrize("optimizer", [cb.Plain(0.1), cb.Hybrid(0.1, 0.03, then="training")])
def test_early_stopping_works_as_in_the_first_fit(problem, optimizer):
    table, y = problem
    options = {"optimizer": optimizer, "validation": 0.3, "patience": 20, "random_state": 3}
    model = cb.fit(table, y, n_iter=1000, **options)
    small = cb.deselect(model, table, y, threshold=0.05)
    assert small.stopped == "no better validation risk"
    rest = {name: table[name] for name in small.terms}
    expected = cb.fit(rest, y, n_iter=1000, **options)
    assert small.choices == expected.choices
    assert small.best_iteration == expected.best_iteration
    np.testing.assert_allclose(small.validation_risk, expected.validation_risk, rtol=1e-9)
    short = cb.deselect(model, table, y, threshold=0.05, n_iter=7)
    assert short.n_iter == 7


def test_levels_are_dropped_one_by_one(problem):
    table, y = problem
    model = cb.fit(table, y, [cb.Category("g", kind="binary"), cb.Spline("x3")], n_iter=100)
    small = cb.deselect(model, table, y, threshold=0.05)
    assert "g=a" in small.terms
    assert len(small.terms) < 4
    assert small.predict(table).shape == y.shape


def test_columns_given_by_name_and_earlier_iterates(problem):
    table, y = problem
    data = {**table, "y": y, "w": np.arange(len(y)) % 3, "o": table["x5"]}
    model = cb.fit(data, "y", weights="w", offset="o", n_iter=100)
    small = cb.deselect(model, data, threshold=0.05)
    assert small.settings.weights == "w"
    assert small.settings.offset == "o"
    found = cb.deselect(model.at(60), data, threshold=0.05)
    assert found.n_iter == 60


def test_files_and_pickles_keep_the_dropped_terms(problem, tmp_path):
    import pickle

    table, y = problem
    small = cb.deselect(cb.fit(table, y), table, y, threshold=0.05)
    small.save(tmp_path / "m.json")
    assert cb.load(tmp_path / "m.json").dropped == small.dropped != ()
    assert pickle.loads(pickle.dumps(small)).dropped == small.dropped


def test_invalid_arguments_are_refused(problem):
    table, y = problem
    model = cb.fit(table, y, n_iter=30)
    for options, message in (
        ({"threshold": 1.0}, "threshold: expected a share from 0 to below 1"),
        ({"threshold": -0.1}, "threshold: expected"),
        ({"threshold": 0.99, "method": "share"}, "leaves no term: the largest cost"),
        ({"by": "row"}, "by: expected"),
        ({"method": "all"}, "method: expected 'share' or 'cumulative'"),
        ({"n_iter": -1}, "n_iter: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            cb.deselect(model, table, y, **options)
    with pytest.raises(TypeError, match="deselect: y was an array in the fit; pass it again"):
        cb.deselect(model, table)
    with pytest.raises(TypeError, match="deselect: expected a Model, got CWBR"):
        cb.deselect(cb.CWBRegressor(), table, y)
    with pytest.raises(ValueError, match="edited"):
        cb.deselect(model.edit("zero", "x3"), table, y)
    nothing = cb.fit(table, y, n_iter=0)
    with pytest.raises(ValueError, match="the model has chosen no term"):
        cb.deselect(nothing, table, y)
