"""Tests of pickling and copying results, and of pickling, copying and cloning estimators."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import cwboost as cb
from cwboost.selection.tuning.tune import TuningInterrupted

RNG = np.random.default_rng(0)
TABLE = {"x": RNG.uniform(size=150), "z": RNG.normal(size=150), "g": RNG.choice(["a", "b"], 150)}
Y = np.sin(6 * TABLE["x"]) + RNG.normal(0, 0.3, 150)
X = np.column_stack([TABLE["x"], TABLE["z"]])


def model(**options):
    return cb.fit(TABLE, Y, n_iter=10, **options)


def tuned(**options):
    return cb.tune(TABLE, Y, schedule=cb.RandomSearch(2, 10), **options)


def half_loss(y, prediction):
    return float(np.mean((y - prediction) ** 2)) / 2


RESULTS = {
    "cv": lambda: cb.cv(TABLE, Y, n_iter=10, folds=2, extend=False, metric="rmse"),
    "models of cv": lambda: cb.cv(TABLE, Y, n_iter=9, folds=2, extend=False, keep_models=True),
    "tuning": tuned,
    "tuning by a scorer": lambda: tuned(metric="neg_max_error"),
    "tuning by a function": lambda: tuned(metric=half_loss),
    "tuning of bins": lambda: tuned(space={"bins": ["auto", 20], "rate": 0.1}),
    "stability": lambda: cb.stability(TABLE, Y, q=1, cutoff=0.9, n_samples=3),
    "probe": lambda: cb.probe(TABLE, Y),
    "interactions": lambda: cb.rank_interactions(model(), TABLE, Y),
    "intervals": lambda: model().intervals(TABLE, Y, kind="split"),
    "bands": lambda: model().with_bands(TABLE, Y, n_boot=10, longer=1),
    "bags": lambda: model(bags=2),
    "information": lambda: cb.aic(model(), TABLE, Y, df="active"),
    "deselected": lambda: cb.deselect(model(), TABLE, Y),
}


def pickled(found):
    return pickle.loads(pickle.dumps(found))


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_results_can_be_pickled_and_copied(name, copied):
    found = RESULTS[name]()
    same = copied(found)
    assert same is not found
    assert repr(same) == repr(found)
    for method in ("summary", "table"):
        if callable(getattr(found, method, None)):
            assert str(getattr(same, method)()) == str(getattr(found, method)())


def test_a_copy_of_a_tuning_gives_the_same_fit():
    found = tuned(space={"bins": ["auto", 20], "df.Spline": (3, 6)})
    for same in (pickled(found), copy.deepcopy(found)):
        np.testing.assert_array_equal(same.fit().predict(TABLE), found.fit().predict(TABLE))
        assert same.complete
    stopped = pickled(TuningInterrupted(found))
    assert repr(stopped.tuning) == repr(found)


@pytest.mark.parametrize(
    "estimator",
    [
        cb.CWBRegressor(n_iter=10, bags=2),
        cb.CWBRegressorCV(n_iter=10, cv=2, scoring="neg_mean_absolute_error"),
        cb.CWBClassifierCV(n_iter=10, cv=cb.Folds("kfold", 2), scoring="roc_auc", one_se=True),
    ],
)
@pytest.mark.filterwarnings("ignore:cv. the best iteration")
def test_estimators_can_be_pickled_copied_and_cloned(estimator):
    y = np.where(Y > 0, "high", "low") if isinstance(estimator, cb.CWBClassifier) else Y
    estimator = clone(estimator).fit(X, y)
    for same in (pickled(estimator), copy.deepcopy(estimator), clone(estimator).fit(X, y)):
        np.testing.assert_array_equal(same.predict(X), estimator.predict(X))
        assert same.get_params().keys() == estimator.get_params().keys()
