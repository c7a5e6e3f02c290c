"""Tests of metrics: built-in scorers against scikit-learn, and what a metric may return."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import get_scorer

import cwboost as cb
from cwboost.losses import as_loss
from cwboost.metrics import metric as metrics
from cwboost.metrics.metric import SCORERS, as_metrics
from cwboost.metrics.scorers import ScorerMetric

CLASSES = {"squared": (), "poisson": (), "binomial": (0, 1), "multinomial": (1, 2, 5)}
FITTING = [
    (name, loss)
    for name, fewest, most in [
        *[(name, s.min_classes, s.max_classes) for name, s in SCORERS.items()],
        ("accuracy", 2, 9), ("r2", 0, 0),
    ]
    for loss, classes in CLASSES.items()
    if fewest <= len(classes) <= most
]  # fmt: skip


def make(loss, weighted, n=300):
    """Return rows and scores that are related to y; some scores are equal."""
    rng = np.random.default_rng(0)
    classes, q = CLASSES[loss], 3 if loss == "multinomial" else 1
    score = np.round(rng.normal(size=(n, q)), 1)
    if loss == "multinomial":
        y = (score + rng.gumbel(size=(n, q))).argmax(axis=1).astype(float)
    elif loss == "binomial":
        y = np.where(score[:, 0] + rng.logistic(size=n) > 0, 1.0, -1.0)
    else:
        y = np.abs(score[:, 0] + rng.normal(size=n))
    loss_object = as_loss(loss).with_classes(classes) if classes else as_loss(loss)
    weights = rng.integers(1, 4, n) / 2 if weighted else np.ones(n)
    return metrics.HeldOutRows(loss_object, classes, y, weights), score


@pytest.mark.parametrize(("name", "loss"), FITTING)
@pytest.mark.parametrize("weighted", [False, True])
def test_built_in_scorers_match_scikit_learn(name, loss, weighted):
    tested, score = make(loss, weighted)
    (own,) = as_metrics(name, None, tested.loss, tested.classes)
    assert (own.name, own.greater_is_better) == (name, True)
    assert not isinstance(own.function, ScorerMetric)  # scikit-learn is not called
    theirs = ScorerMetric(get_scorer(name), name, bool(tested.classes))(tested, score)
    assert own.function(tested, score) == pytest.approx(theirs, rel=1e-12)


def test_all_built_in_scorers_are_compared():
    assert {name for name, _ in FITTING} == {*SCORERS, "accuracy", "r2"}


@pytest.mark.parametrize("name", ["roc_auc", "neg_brier_score"])
def test_other_scorers_are_computed_by_scikit_learn(name):
    """With more than two classes these scorers are defined differently, or not at all."""
    (found,) = as_metrics(name, None, as_loss("multinomial"), (1, 2, 5))
    assert isinstance(found.function, ScorerMetric)


def test_scorers_choose_the_same_iteration_as_metrics():
    rng = np.random.default_rng(1)
    table = {"x": rng.uniform(size=200), "z": rng.normal(size=200)}
    y = np.sin(6 * table["x"]) + rng.normal(0, 0.3, 200)
    options = {"n_iter": 60, "folds": 3, "extend": False}
    less = cb.cv(table, y, metric="rmse", **options)
    more = cb.cv(table, y, metric="neg_root_mean_squared_error", **options)
    assert more.best_iteration == less.best_iteration
    assert more.greater_is_better
    np.testing.assert_array_equal(more.mean, -less.mean)


@pytest.mark.parametrize(
    ("returned", "got"),
    [
        (None, "NoneType"),
        (np.ones(3), r"ndarray of shape \(3,\)"),
        ([1.0], r"list of shape \(1,\)"),
        ("good", "str"),
    ],
)
@pytest.mark.parametrize("function", ["cv", "tune"])
def test_a_metric_must_return_a_number(returned, got, function):
    def my_loss(_y, _prediction):
        return returned

    table = {"x": np.arange(30.0)}
    options = {"n_iter": 3} if function == "cv" else {"schedule": cb.RandomSearch(1, 3)}
    with pytest.raises(
        TypeError, match=f"metric my_loss: expected it to return a number, got {got}"
    ):
        getattr(cb, function)(table, np.arange(30.0), folds=2, metric=my_loss, **options)


def test_a_metric_may_return_any_type_of_number():
    table, y = {"x": np.arange(30.0)}, np.arange(30.0)
    for number in (1, np.float32(1), np.array(1.0), True):

        def my_loss(_y, _prediction, number=number):
            return number

        assert cb.cv(table, y, n_iter=3, folds=2, metric=my_loss, extend=False).best == 1.0


def test_metrics_for_classes_are_refused_for_numbers():
    with pytest.raises(ValueError, match="metric 'accuracy' is for classes, not for the squared"):
        cb.cv({"x": np.arange(30.0)}, np.arange(30.0), n_iter=3, metric="accuracy")
