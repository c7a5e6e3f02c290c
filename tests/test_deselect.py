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


def shares_of(model):
    found = model.importance()
    return {name: value / sum(found.values()) for name, value in found.items()}


def test_terms_below_the_threshold_are_dropped(problem):
    table, y = problem
    model = cb.fit(table, y)
    shares = shares_of(model)
    small = cb.deselect(model, table, y, threshold=0.05)
    assert set(small.terms) == {name for name, share in shares.items() if share >= 0.05}
    assert set(small.dropped) == {name for name, share in shares.items() if share < 0.05}
    assert "x3" in small.terms
    assert "x0" in small.dropped
    names = ", ".join(small.dropped)
    assert f"dropped before this fit for their small shares: {names}" in small.summary()
    assert small.at(3).dropped == small.dropped
    # a second deselection still lists the terms dropped by the first
    again = cb.deselect(small, table, y, threshold=0.3)
    assert again.dropped == (*small.dropped, *(set(small.terms) - set(again.terms)))


@pytest.mark.parametrize("optimizer", [cb.Plain(0.1), cb.Accelerated(0.1, 0.03)], ids=repr)
@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial"])
def test_the_second_fit_equals_a_fit_of_the_kept_terms(problem, loss, optimizer):
    table, y = problem
    y = y if loss == "squared" else np.digitize(y, [0.3] if loss == "binomial" else [0, 0.6])
    w = np.random.default_rng(0).integers(1, 4, len(y))
    options = {"loss": loss, "optimizer": optimizer, "weights": w}
    model = cb.fit(table, y, n_iter=150, **options)
    small = cb.deselect(model, table, y, weights=w, threshold=0.06)
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


def test_by_column_adds_up_the_shares_of_a_column(problem):
    table, y = problem
    model = cb.fit(table, y, "components", n_iter=400)
    shares = shares_of(model)
    # between the shares of the two terms of x3
    threshold = 1.01 * min(shares[f"{kind}(x3)"] for kind in ("linear", "centered"))
    small = cb.deselect(model, table, y, threshold=threshold, by="column")
    for column in table:
        terms = [name for name, term in model.terms.items() if term.columns == (column,)]
        share = sum(shares.get(name, 0.0) for name in terms)
        kept = [name for name in terms if name in shares] if share >= threshold else []
        assert [name for name in terms if name in small.terms] == kept
    one_by_one = cb.deselect(model, table, y, threshold=threshold)
    assert set(one_by_one.terms) < set(small.terms)


def test_cumulative_drops_terms_with_a_small_total_share(problem):
    table, y = problem
    model = cb.fit(table, y, n_iter=400)
    shares = shares_of(model)
    for threshold in (0.01, 0.05, 0.2):
        small = cb.deselect(model, table, y, threshold=threshold, method="cumulative")
        gone = sum(shares[name] for name in small.dropped)
        assert gone < threshold
        assert gone + min(shares[name] for name in small.terms) >= threshold
        assert max([shares[n] for n in small.dropped], default=0.0) <= min(
            shares[n] for n in small.terms
        )


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
    # the importance of an earlier iterate is not stored; it is computed on the rows passed
    early = model.at(60)
    assert early.shares is None
    found = cb.deselect(early, data, threshold=0.05)
    assert found.n_iter == 60
    shares = early.importance(table=data)
    least = 0.05 * sum(shares.values())
    assert set(found.terms) == {name for name, share in shares.items() if share >= least}


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
        ({"threshold": 0.99}, "leaves no term: the largest has"),
        ({"by": "row"}, "by: expected"),
        ({"method": "all"}, "method: expected 'share' or 'cumulative'"),
        ({"n_iter": -1}, "n_iter must be"),
    ):
        with pytest.raises(ValueError, match=message):
            cb.deselect(model, table, y, **options)
    with pytest.raises(TypeError, match="deselect: y was an array in the fit; pass it again"):
        cb.deselect(model, table)
    with pytest.raises(TypeError, match=r"expected a Model \(estimator.model_"):
        cb.deselect(cb.CWBRegressor(), table, y)
    with pytest.raises(ValueError, match="edited"):
        cb.deselect(model.edit("zero", "x3"), table, y)
    nothing = cb.fit(table, y, n_iter=0)
    with pytest.raises(ValueError, match="the model has chosen no term"):
        cb.deselect(nothing, table, y)
