"""Tests of prediction intervals: their coverage, and agreement with their published definitions."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import cwboost as cb
from cwboost.fitting.input_data import Split
from cwboost.fitting.preparation import prepare
from cwboost.fitting.problem import FitProblem
from cwboost.uncertainty.intervals import CalibratedModels, Intervals

KINDS = ["cv+", "split", "cqr", "quantiles", "bags"]


def make_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = {"x": rng.uniform(size=n), "z": rng.normal(size=n)}
    return table, np.sin(6 * table["x"]) + rng.normal(size=n) * (0.2 + 0.8 * table["x"])


def covered(ends, y):
    return np.mean((ends["lower"] <= y) & (y <= ends["upper"]))


@pytest.fixture(scope="module")
def fitted():
    table, y = make_table()
    return table, y, cb.fit(table, y, n_iter=40)


def test_cv_plus_matches_the_paper(fitted):
    """Compute the ends as Barber et al. (2021) do, from all fold fits and every residual."""
    table, y, model = fitted
    fold = np.arange(300) % 5
    new, _ = make_table(20, seed=7)
    binned, w = prepare(table, y), np.ones(300)
    low, high = [], []
    for k in range(5):
        part = np.where(fold == k, 0.0, w)
        member = FitProblem.pose(binned, Split(part, None, part), cb.Plain()).fit(40)
        residuals = np.abs(y - member.predict(table))[fold == k]
        low.append(member.predict(new)[:, None] - residuals)
        high.append(member.predict(new)[:, None] + residuals)
    low, high = (np.sort(np.concatenate(ends, axis=1), axis=1) for ends in (low, high))
    ends = model.intervals(table, y, folds=fold, level=0.8).predict(new)
    rank = int(np.ceil(0.8 * 301))
    np.testing.assert_allclose(ends["upper"], high[:, rank - 1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(ends["lower"], low[:, 300 - rank], rtol=0, atol=1e-10)


def test_split_adds_a_quantile_of_the_residuals_to_the_prediction(fitted):
    table, y, model = fitted
    intervals = model.intervals(table, y, kind="split", level=0.8)
    (member,) = intervals.members
    assert len(member.scores) == 75
    ends = intervals.predict(table)
    middle, half = member.lower.predict(table), member.scores[int(np.ceil(0.8 * 76)) - 1]
    np.testing.assert_allclose(ends["upper"], middle + half, atol=1e-10)
    np.testing.assert_allclose(ends["lower"], middle - half, atol=1e-10)


def test_quantile_models_that_cross_are_swapped(fitted):
    table, y, _ = fitted
    upper = cb.fit(table, y, loss=cb.Quantile(0.9), n_iter=30)
    lower = cb.fit(table, y, loss=cb.Quantile(0.1), n_iter=30)
    none = np.empty(0)
    for pair in ((lower, upper), (upper, lower)):
        ends = Intervals("quantiles", 0.8, (CalibratedModels(*pair, none, none),)).predict(table)
        np.testing.assert_allclose(ends["upper"], upper.predict(table))
        np.testing.assert_allclose(ends["lower"], lower.predict(table))


def test_bags_are_calibrated_by_their_out_of_bag_rows():
    table, y = make_table()
    model = cb.fit(table, y, bags=6, n_iter=40, bins="exact", random_state=3)
    intervals = model.intervals(table, y, kind="bags")
    scores = intervals.members[0].scores
    # The mean of half the squared scores is the validation risk of the fit.
    assert np.mean(scores**2) / 2 == pytest.approx(model.validation_risk[0], rel=1e-9)
    ends = intervals.predict(table)
    np.testing.assert_allclose((ends["lower"] + ends["upper"]) / 2, model.predict(table), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_have_the_promised_coverage(kind):
    rates, width_ratios = [], []
    for seed in range(30 if kind == "split" else 6):  # a split has few calibration rows
        table, y = make_table(200, seed)
        new, truth = make_table(1000, 1000 + seed)
        bags = 12 if kind == "bags" else None
        model = cb.fit(table, y, n_iter=50, bags=bags)
        folds = 5 if kind in ("cv+", "cqr") else None
        ends = model.intervals(table, y, kind=kind, folds=folds).predict(new)
        rates.append(covered(ends, truth))
        width = ends["upper"] - ends["lower"]
        width_ratios.append(width[new["x"] > 0.8].mean() / width[new["x"] < 0.2].mean())
    if kind == "quantiles":
        assert 0.8 < np.mean(rates) < 0.97  # no coverage guarantee
    else:
        assert 0.88 < np.mean(rates) < 0.97
    if kind in ("cqr", "quantiles"):
        assert np.mean(width_ratios) > 1.6  # y varies more at large x
    else:
        assert np.mean(width_ratios) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("loss", ["poisson", "absolute", "gamma", "huber"])
def test_other_losses_have_intervals(loss):
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=300), "t": rng.uniform(1, 2, 300)}
    y = rng.poisson(np.exp(1 + table["x"])) + (loss != "poisson") * 1.0
    exposure = "t" if loss in ("poisson", "gamma") else None
    model = cb.fit(table, y, loss=loss, exposure=exposure, n_iter=30, learners=[cb.Spline("x")])
    ends = model.intervals(table, y, folds=4).predict(table)
    assert covered(ends, y) > 0.87
    if exposure:
        assert ends["lower"].min() >= 0
        twice = model.intervals(table, y, folds=4).predict({**table, "t": 2 * table["t"]})
        assert np.all(twice["upper"] > ends["upper"])
        with pytest.raises(ValueError, match="quantile models cannot have an offset; use 'cv\\+'"):
            model.intervals(table, y, kind="cqr")


def test_every_fold_draws_its_own_validation_rows():
    table, y = make_table()
    model = cb.fit(table, y, optimizer=cb.Hybrid(0.3, 0.03, then="training"), validation=0.25)
    intervals = model.intervals(table, y, folds=4)
    assert all(m.lower.validation_risk is not None for m in intervals.members)
    assert covered(intervals.predict(table), y) > 0.85


def test_integer_weights_equal_repeated_rows(fitted):
    table, y, _ = fitted
    table = {name: np.round(column, 1) for name, column in table.items()}
    times = np.random.default_rng(3).integers(0, 4, 300)
    fold, again = np.arange(300) % 4, np.repeat(np.arange(300) % 4, times)
    repeated = {name: np.repeat(column, times) for name, column in table.items()}
    target = np.repeat(y, times)
    weighted = cb.fit(table, y, weights=times, n_iter=20)
    plain = cb.fit(repeated, target, n_iter=20)
    ends = weighted.intervals(table, y, weights=times, folds=fold).predict(table)
    expected = plain.intervals(repeated, target, folds=again).predict(table)
    np.testing.assert_allclose(ends["lower"], expected["lower"], rtol=1e-9)
    np.testing.assert_allclose(ends["upper"], expected["upper"], rtol=1e-9)


def test_intervals_do_not_depend_on_threads_and_can_be_pickled(fitted):
    table, y, model = fitted
    one, two = (model.intervals(table, y, folds=3, n_threads=t) for t in (1, 2))
    np.testing.assert_array_equal(one.predict(table)["lower"], two.predict(table)["lower"])
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.predict(table)["upper"], one.predict(table)["upper"])


def test_too_few_rows_give_infinite_intervals():
    table, y = make_table(8)
    model = cb.fit(table, y, [cb.Linear("x")], n_iter=5)
    message = "level of 0.9 needs at least 9 rows .* 'cv\\+' has 8, .* or a level of at most 0.888"
    with pytest.warns(UserWarning, match=message):
        ends = model.intervals(table, y, folds=4, level=0.9).predict(table)
    assert np.all(np.isinf(ends["upper"]))
    assert np.all(np.isinf(ends["lower"]))


def test_the_estimator_has_intervals():
    table, y = make_table()
    X = np.column_stack(list(table.values()))
    regressor = cb.CWBRegressor(n_iter=40).fit(X, y)
    ends = regressor.intervals(X, y, level=0.8, folds=4).predict(X)
    assert covered(ends, y) > 0.75
    assert not hasattr(cb.CWBClassifier, "intervals")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 90}, "level: expected a number between 0 and 1"),
        ({"kind": "magic"}, "kind: expected 'cv\\+', 'split'"),
        ({"folds": 1}, "folds: expected .* 300, .*; got 1"),
        ({"folds": np.zeros(300)}, "folds: expected at least two"),
        ({"folds": np.zeros(9)}, "folds has 9 rows, the table has 300"),
        ({"folds": [None] + [1, 2] * 149 + [1]}, "folds, row 0: the value is missing"),
        ({"folds": [[1], [2, 3]]}, "'folds': expected numbers or text, got list"),
        ({"folds": "ward"}, "column 'ward' is not in the table"),
        ({"folds": 2.5}, "folds: expected a whole number from 2 to 300"),
        ({"kind": "bags"}, "needs a model that was fitted with bags"),
        (
            {"kind": "split", "folds": 5},
            "only to kind='cv\\+' and kind='cqr', not to",
        ),
        ({"kind": "quantiles", "folds": 10}, "not to kind='quantiles'"),
        ({"kind": "bags", "folds": 10}, "not to kind='bags'"),
    ],
)
def test_wrong_options_are_refused(fitted, options, message):
    table, y, model = fitted
    with pytest.raises((TypeError, ValueError), match=message):
        model.intervals(table, y, **options)


def test_models_without_intervals(fitted):
    table, y, model = fitted
    with pytest.raises(ValueError, match="the binomial loss is for"):
        cb.fit(table, y > 0, loss="binomial", n_iter=5).intervals(table, y > 0)
    with pytest.raises(ValueError, match="use kind='bags', which calibrates"):
        cb.fit(table, y, bags=2, n_iter=5).intervals(table, y)
    with pytest.raises(ValueError, match="intervals: the model was edited"):
        model.edit("zero", "z").intervals(table, y)


def test_repr_of_intervals(fitted):
    table, y, model = fitted
    intervals = model.intervals(table, y, level=0.8, folds=3)
    scores = np.concatenate([m.scores for m in intervals.members])
    half = np.sort(scores)[int(np.ceil(0.8 * 301)) - 1]
    assert repr(intervals) == (
        "<cwboost.Intervals: 80% of new y by cv+, 3 folds, calibrated by 300 rows: predictions ± "
        f"{half:.3g}>"
    )
    intervals = model.intervals(table, y, kind="quantiles")
    assert repr(intervals) == "<cwboost.Intervals: 90% of new y by quantiles>"
    assert "quantiles ± " in repr(model.intervals(table, y, kind="cqr", folds=2))
    assert "[" not in repr(intervals.members[0])  # no arrays


def test_skewed_y_and_a_misspecified_model():
    """y is skewed, varies more with x, and has an interaction that the model lacks.

    Both kinds cover nine of ten new values. Only quantile models also do so where y varies most,
    and their intervals are longer on the side of the skew.
    """
    rng = np.random.default_rng(0)

    def draw(n):
        table = {name: rng.uniform(size=n) for name in "xzv"}
        noise = rng.lognormal(0, 0.8, n) * np.exp(2 * table["x"]) / 4
        return table, 4 * table["z"] * (table["v"] > 0.5) + noise

    table, y = draw(1200)
    new, truth = draw(20_000)
    model = cb.fit(table, y, n_iter=100)
    noisy = new["x"] > 0.8
    coverage = {}
    for kind in ("cv+", "cqr"):
        ends = model.intervals(table, y, kind=kind, folds=5).predict(new)
        inside = (ends["lower"] <= truth) & (truth <= ends["upper"])
        assert 0.875 < np.mean(inside) < 0.935
        coverage[kind] = np.mean(inside[noisy])
    above, below = ends["upper"] - model.predict(new), model.predict(new) - ends["lower"]
    assert coverage["cv+"] < 0.8
    assert coverage["cqr"] > 0.85
    assert np.mean(above[noisy]) > 1.2 * np.mean(below[noisy])
