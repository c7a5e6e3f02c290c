"""Tests of the estimators that choose the number of iterations by cross-validation."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.metrics import make_scorer, mean_absolute_error
from sklearn.model_selection import GroupKFold, KFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import cwboost as cb

RNG = np.random.default_rng(5)
N = 240
TABLE = pd.DataFrame(
    {
        "a": RNG.uniform(size=N),
        "b": RNG.normal(size=N),
        "job": pd.Categorical(RNG.choice(["clerk", "nurse", "smith"], N)),
        "years": RNG.uniform(0.2, 2.0, N),
    }
)
SHAPE = np.sin(6 * TABLE["a"]) + 0.5 * (TABLE["job"] == "nurse")
Y = (SHAPE + 0.4 * RNG.normal(size=N)).to_numpy()
LABEL = np.where(SHAPE + 0.5 * RNG.normal(size=N) > 0.5, "yes", "no")
KIND = np.where(Y > 0.8, "high", np.where(Y > -0.2, "mid", "low"))
COUNT = RNG.poisson(TABLE["years"] * np.exp(SHAPE)).astype(float)
WHO = np.arange(N) // 4


@pytest.fixture(scope="module", autouse=True)
def _one_blas_thread():
    """Use one BLAS thread: systems are small, and threads on busy cores wait for each other."""
    with threadpool_limits(1):
        yield


# scikit-learn's data are easy and it sets n_iter, so the best iteration may be the last.
@pytest.mark.filterwarnings("ignore:cv. the best iteration, ")
@parametrize_with_checks(
    [
        cb.CWBRegressorCV(),
        cb.CWBClassifierCV(cv=3, scoring="accuracy", terms="linear", one_se=True, polish=None),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_best_iterations_are_fitted_to_all_rows():
    chosen = cb.CWBRegressorCV(cv=4, polish=None).fit(TABLE, Y)
    found = chosen.cv_result_
    plain = cb.CWBRegressor(optimizer="plain", validation=None, n_iter=found.best_iteration,
                             polish=None)  # fmt: skip
    assert chosen.n_iter_ == found.best_iteration > 0
    assert np.array_equal(chosen.predict(TABLE), plain.fit(TABLE, Y).predict(TABLE))
    assert chosen.best_score_ == -found.best
    same = cb.cv(TABLE, Y, "auto", folds=4, n_iter=200, extend=3200)
    np.testing.assert_allclose(found.risk, same.risk, rtol=1e-12)


def test_one_standard_error_takes_fewer_iterations():
    chosen = cb.CWBRegressorCV(one_se=True, polish=None).fit(TABLE, Y)
    found = chosen.cv_result_
    assert chosen.n_iter_ == found.best_iteration_1se < found.best_iteration
    assert chosen.best_score_ == -found.mean[chosen.n_iter_] < -found.best


@pytest.mark.parametrize(("y", "scoring"), [(LABEL, "auc"), (KIND, "log_loss"), (LABEL, "roc_auc")])
def test_scoring_chooses_the_iterations_of_classifiers(y, scoring):
    chosen = cb.CWBClassifierCV(scoring=scoring, class_weight="balanced").fit(TABLE, y)
    found = chosen.cv_result_
    assert found.chosen_by == scoring
    polished = found.polished
    expected = polished.mean(scoring) if polished.weight else found.best
    assert abs(chosen.best_score_) == expected
    assert (chosen.best_score_ > 0) == (scoring != "log_loss")
    assert chosen.model_.classes == tuple(np.unique(y))
    assert chosen.predict_proba(TABLE).shape == (N, len(np.unique(y)))


def test_scorers_and_losses():
    scorer = make_scorer(mean_absolute_error, greater_is_better=False)
    chosen = cb.CWBRegressorCV("absolute", scoring=scorer, n_iter=400).fit(TABLE, Y)
    assert chosen.best_score_ < 0
    counts = cb.CWBRegressorCV("poisson", exposure="years").fit(TABLE, COUNT)
    assert "years" not in counts.model_.terms
    assert counts.score(TABLE, COUNT) > 0.1


def test_folds_of_any_kind_and_groups():
    rows = TABLE[["a", "b"]]
    for folds in (3, KFold(3), list(KFold(3).split(rows)), cb.Folds("bootstrap", 3)):
        assert (
            cb.CWBRegressorCV(cv=folds, n_iter=400, polish=None).fit(rows, Y).cv_result_.n_folds
            == 3
        )
    grouped = cb.CWBRegressorCV(cv=GroupKFold(3), n_iter=400, polish=None).fit(rows, Y, groups=WHO)
    expected = cb.cv(rows, Y, "auto", folds=GroupKFold(3), groups=WHO, n_iter=400)
    np.testing.assert_allclose(grouped.cv_result_.risk, expected.risk, rtol=1e-12)


def test_groups_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            cb.CWBRegressorCV(cv=GroupKFold(3), n_iter=400, polish=None),
            TABLE[["a"]],
            Y,
            cv=GroupKFold(3),
            params={"groups": WHO},
            return_estimator=True,
        )
    assert all(e.cv_result_.n_folds == 3 for e in found["estimator"])


def test_clones_copies_and_pipelines():
    chosen = cb.CWBClassifierCV(cv=3, one_se=True, scoring="auc", optimizer=cb.Plain(0.2))
    assert clone(chosen).get_params() == chosen.get_params()
    assert chosen.set_params(optimizer__rate=0.3).optimizer.rate == 0.3
    fitted = chosen.fit(TABLE, LABEL)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(TABLE), fitted.predict_proba(TABLE))
    assert again.cv_result_.best_iteration == fitted.cv_result_.best_iteration
    pipe = make_pipeline(StandardScaler(), cb.CWBRegressorCV(n_iter=400, polish=None))
    assert cross_val_score(pipe, TABLE[["a", "b"]], Y, cv=3).mean() > 0.3


def test_rows_of_weight_zero_are_absent():
    w = RNG.integers(0, 3, N).astype(float)
    weighed = cb.CWBRegressorCV(n_iter=400).fit(TABLE, Y, sample_weight=w)
    absent = cb.CWBRegressorCV(n_iter=400).fit(TABLE[w > 0], Y[w > 0], sample_weight=w[w > 0])
    assert weighed.n_iter_ == absent.n_iter_
    np.testing.assert_allclose(weighed.predict(TABLE), absent.predict(TABLE), rtol=1e-10)


@pytest.mark.parametrize("optimizer", ["hybrid", cb.Hybrid()], ids=repr)
def test_hybrid_is_refused(optimizer):
    with pytest.raises(ValueError, match="use 'plain', 'accelerated' or CWBRegressor"):
        cb.CWBRegressorCV(optimizer=optimizer).fit(TABLE, Y)


def test_bad_parameters_are_refused():
    for options, message in [
        ({"cv": 1}, "at least 2"),
        ({"cv": "five"}, "folds: expected a number"),
        ({"scoring": "speed"}, "metric: expected"),
        ({"n_iter": 2.5}, "n_iter: expected a whole number"),
    ]:
        with pytest.raises((ValueError, TypeError), match=message):
            cb.CWBRegressorCV(**options).fit(TABLE, Y)
