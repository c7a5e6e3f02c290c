"""Tests of the scikit-learn estimators, alone and inside scikit-learn's tools.

The tables are small and simulated from a known truth. The engine has its own tests; here its models
are only compared with each other.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import SelectFromModel
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, r2_score
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingRandomSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import cwboost as cb
from cwboost.frames.read_frames import read_column

RNG = np.random.default_rng(5)
N, LARGE = 400, 1500


def make_table(n):
    rng = np.random.default_rng(n)
    return pd.DataFrame(
        {
            "a": rng.uniform(size=n),
            "b": rng.normal(size=n),
            "job": pd.Categorical(rng.choice(["clerk", "nurse", "smith"], n)),
            "years": rng.uniform(0.2, 2.0, n),
        }
    )


TABLE = make_table(N)
SHAPE = np.sin(6 * TABLE["a"]) + 0.5 * (TABLE["job"] == "nurse")
Y = (SHAPE + 0.1 * RNG.normal(size=N)).to_numpy()
LABEL = np.where(SHAPE + 0.3 * RNG.normal(size=N) > 0.5, "yes", "no")
KIND = np.where(SHAPE > 0.6, "high", np.where(SHAPE > -0.2, "mid", "low"))
COUNT = RNG.poisson(TABLE["years"] * np.exp(SHAPE)).astype(float)
BIG = make_table(LARGE)
BIG_Y = (np.sin(6 * BIG["a"]) + 0.3 * np.random.default_rng(0).normal(size=LARGE)).to_numpy()


SHORT = {"n_iter": 30, "polish": None}  # for tests that are not about the defaults


@pytest.fixture(scope="module", autouse=True)
def _one_blas_thread():
    """The linear systems are small; on busy cores BLAS threads would only wait for each other."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


# --- scikit-learn's own checks --------------------------------------------------------------------


@parametrize_with_checks(
    [
        cb.CWBRegressor(),
        cb.CWBRegressor(loss="huber", optimizer=cb.Plain(), **SHORT),
        cb.CWBRegressor(optimizer="accelerated", terms="components", **SHORT),
        cb.CWBRegressor(warm_start=True, terms="smooth", n_iter=30),
        cb.CWBClassifier(),
        cb.CWBClassifier(optimizer=cb.Plain(), terms="step", n_iter=30),
        cb.CWBClassifier(optimizer="accelerated", terms="linear", class_weight="balanced", **SHORT),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_checks_that_need_the_array_api():
    """Run the check that scikit-learn skips unless SCIPY_ARRAY_API is set before the import."""
    script = (
        "import cwboost as cb\n"
        "from sklearn.utils.estimator_checks import estimator_checks_generator\n"
        "for e in (cb.CWBRegressor(), cb.CWBClassifier()):\n"
        "    pairs = [p for p in estimator_checks_generator(e) if 'array_api' in str(p[1])]\n"
        "    assert pairs\n"
        "    for estimator, check in pairs:\n"
        "        check(estimator)\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], check=True, env=os.environ | {"SCIPY_ARRAY_API": "1"}
    )


def test_import_does_not_load_scikit_learn():
    script = (
        "import sys, cwboost as cb; assert 'sklearn' not in sys.modules; "
        "assert 'CWBRegressor' in dir(cb); cb.CWBRegressor; assert 'sklearn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    assert {"CWBRegressor", "CWBClassifier"} < set(cb.__all__)
    with pytest.raises(AttributeError, match="no attribute 'CWB'"):
        cb.CWB  # noqa: B018


# --- tables ---------------------------------------------------------------------------------------

FORMS = {
    "polars": pl.from_pandas,
    "arrow": lambda t: pa.Table.from_pandas(t, preserve_index=False),
    "lazy": lambda t: pl.from_pandas(t).lazy(),
    "batch": lambda t: pa.RecordBatch.from_pandas(t, preserve_index=False),
    "dict": lambda t: {name: t[name].to_numpy() for name in t},
    "strings": lambda t: t.astype({"job": "string"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_table_gives_the_same_model(form):
    table = FORMS[form](TABLE)
    ours, other = cb.CWBRegressor(**SHORT).fit(TABLE, Y), cb.CWBRegressor(**SHORT).fit(table, Y)
    assert np.array_equal(ours.predict(TABLE), other.predict(table))
    assert np.array_equal(ours.transform(TABLE), other.transform(table))
    assert list(other.feature_names_in_) == list(TABLE)


def test_arrays_give_the_same_model():
    numbers = TABLE[["a", "b"]]
    named, bare = (
        cb.CWBRegressor(**SHORT).fit(numbers, Y),
        cb.CWBRegressor(**SHORT).fit(numbers.to_numpy(), Y),
    )
    assert np.array_equal(named.predict(numbers), bare.predict(numbers.to_numpy()))
    assert list(bare.model_.columns) == ["x0", "x1"]
    assert not hasattr(bare, "feature_names_in_")
    mixed = cb.CWBRegressor(**SHORT).fit(TABLE.to_numpy(dtype=object), Y)  # text among numbers
    whole = cb.CWBRegressor(**SHORT).fit(TABLE, Y)
    assert np.array_equal(mixed.predict(TABLE.to_numpy(dtype=object)), whole.predict(TABLE))
    assert np.array_equal(
        mixed.predict(TABLE.to_numpy(dtype=object).tolist()), whole.predict(TABLE)
    )


def test_names_and_positions():
    numbers = TABLE[["a", "b"]]
    named = cb.CWBRegressor(**SHORT).fit(numbers, Y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert np.array_equal(named.predict(numbers.to_numpy()), named.predict(numbers))
    with pytest.raises(ValueError, match="same order"):
        named.predict(numbers[["b", "a"]])
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict({"b": numbers["b"], "a": numbers["a"]})
    bare = cb.CWBRegressor(**SHORT).fit(numbers.to_numpy(), Y)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        assert np.array_equal(bare.predict(numbers), named.predict(numbers))
    with pytest.raises(ValueError, match="X has 1 features, but CWBRegressor is expecting 2"):
        bare.predict({"a": numbers["a"]})
    by_number = numbers.set_axis([0, 1], axis=1)
    assert np.array_equal(
        cb.CWBRegressor(**SHORT).fit(by_number, Y).predict(by_number), named.predict(numbers)
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE["a"], "Expected a 2-dimensional"),
        (pl.Series(Y), "Expected 2D"),
        (pd.concat([TABLE, TABLE], axis=1), "'a' is in the table more than once"),
        (TABLE.assign(a=np.inf), "column 'a', row 0: the value is infinite"),
        (TABLE[:-1], f"y has {N} rows, X has {N - 1}"),
    ],
)
def test_tables_that_are_refused(table, message):
    with pytest.raises(ValueError, match=message):
        cb.CWBRegressor().fit(table, Y)


@pytest.mark.parametrize("empty", [TABLE.iloc[:0], TABLE.iloc[:, :0], {}, {"a": []}])
def test_empty_tables(empty):
    with pytest.raises(ValueError, match=r"0 (sample|feature)"):
        cb.CWBRegressor().fit(empty, Y)


@pytest.mark.parametrize(
    "form", [pd.Series, pl.Series, pa.array, list, lambda y: pd.Series(y, dtype="Float64")]
)
def test_every_kind_of_y(form):
    ours = cb.CWBRegressor(n_iter=5, polish=None).fit(TABLE, form(Y))
    assert np.array_equal(
        ours.predict(TABLE), cb.CWBRegressor(n_iter=5, polish=None).fit(TABLE, Y).predict(TABLE)
    )


@pytest.mark.parametrize(
    "labels",
    [
        LABEL,
        LABEL == "yes",
        np.where(LABEL == "yes", 7, -3),
        pd.Categorical(LABEL),
        pl.Series(LABEL),
    ],
)
def test_every_kind_of_label(labels):
    ours = cb.CWBClassifier(n_iter=60, polish=None).fit(TABLE, labels)
    assert set(ours.predict(TABLE)) == set(np.asarray(labels))
    assert ours.model_.classes == tuple(np.unique(np.asarray(labels)).tolist())
    assert np.array_equal(
        ours.decision_function(TABLE),
        cb.CWBClassifier(n_iter=60, polish=None).fit(TABLE, LABEL).decision_function(TABLE),
    )


def test_classes_that_are_refused():
    with pytest.raises(ValueError, match="y has only one class, 'a'"):
        cb.CWBClassifier().fit(TABLE, read_column(["a"] * N, "y"))
    with pytest.raises(ValueError, match=r"got 'y'; estimators take arrays, cwboost\.fit takes"):
        cb.CWBClassifier().fit(TABLE, "y")
    with pytest.raises(ValueError, match="y has only one class, 'a'"):
        cb.CWBClassifier().fit(TABLE, ["a"] * N)
    fitted = cb.CWBClassifier(n_iter=5).fit(TABLE, LABEL)
    with pytest.raises(ValueError, match="class 'a' does not occur in the training rows"):
        fitted.extend(5, TABLE, ["a"] * N)


# --- defaults -------------------------------------------------------------------------------------


def test_small_tables_are_fitted_without_validation_rows():
    small = cb.CWBRegressor(polish=None).fit(TABLE, Y)
    assert small.model_.validation_risk is None
    assert isinstance(small.model_.optimizer, cb.Plain)


def test_cross_validation_chooses_the_iterations_of_small_tables():
    small = cb.CWBRegressor(polish=None).fit(TABLE, Y)
    by_cv = cb.CWBRegressorCV(cv=5).fit(TABLE, Y)
    assert small.n_iter_ == by_cv.n_iter_ != 200
    assert cb.CWBRegressor(**SHORT).fit(TABLE, Y).n_iter_ == 30
    other = cb.CWBRegressor(random_state=1, polish=None).fit(TABLE, Y).n_iter_
    assert (
        other == cb.CWBRegressor(random_state=1, polish=None).fit(TABLE, Y).n_iter_
    )  # deterministic
    warm = cb.CWBRegressor(warm_start=True, polish=None).fit(TABLE, Y)
    assert warm.fit(TABLE, Y).n_iter_ == small.n_iter_
    groups = np.arange(N) // 20
    weighted = cb.CWBRegressor(polish=None).fit(
        TABLE, Y, sample_weight=np.arange(1.0, N + 1), groups=groups
    )
    assert weighted.n_iter_ >= 1


@pytest.mark.parametrize("dtype", [object, str])
def test_text_as_y_of_a_regressor_is_refused(dtype):
    y = np.array(["low", "high"] * (N // 2), dtype=dtype)
    with pytest.raises(ValueError, match="needs numbers, but y has the text 'low'; for classes"):
        cb.CWBRegressor().fit(TABLE, y)
    texts = np.array(["1", "2.5"] * (N // 2), dtype=dtype)
    with pytest.raises(ValueError, match="needs numbers, but y has the text '1'"):
        cb.CWBRegressor().fit(TABLE, texts)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("estimator", [cb.CWBRegressor, cb.CWBClassifier])
def test_missing_cells_of_y_are_refused(missing, estimator):
    y = np.array(["no", "yes"] * (N // 2), dtype=object)
    y[3] = missing
    with pytest.raises(ValueError, match=r"y: row 3 is missing \(.*\); remove rows without y"):
        estimator().fit(TABLE, y)


def test_rare_classes_hold_out_no_rows():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=(1200, 1))
    for n_rare, held_out in ((199, False), (200, True)):
        y = np.arange(1200) < n_rare
        fitted = cb.CWBClassifier(polish=None).fit(x, y)
        assert (fitted.model_.validation_risk is not None) == held_out
    # In a large table the folds would take long.
    many = rng.uniform(size=(10_000, 1))
    rare = cb.CWBClassifier(polish=None).fit(many, np.arange(10_000) < 150)
    assert rare.model_.validation_risk is not None


def test_few_rows_get_few_iterations():
    x = np.random.default_rng(0).uniform(size=60)
    weights = np.arange(60) < 49  # rows of weight zero do not count
    for fitted in (
        cb.CWBRegressor().fit(x[:49, None], x[:49]),
        cb.CWBRegressor().fit(x[:, None], x, sample_weight=weights),
    ):
        assert fitted.n_iter_ == 30
    assert cb.CWBRegressor(n_iter=40).fit(x[:49, None], x[:49]).n_iter_ == 40


@pytest.mark.parametrize("case", ["few groups", "no events"])
def test_tables_without_folds_get_200_iterations(case):
    x = np.random.default_rng(0).uniform(size=60)
    if case == "few groups":
        fitted = cb.CWBRegressor().fit(x[:, None], x, groups=np.arange(60) // 30)
    else:  # all counts but one are zero, so the start of a fold would be infinite
        fitted = cb.CWBRegressor("poisson").fit(x[:, None], (x == x.max()).astype(float))
    assert fitted.n_iter_ == 200


@pytest.mark.parametrize("n_events", [1, 2])
def test_a_class_of_one_or_two_rows_can_be_cross_validated(n_events):
    x = np.random.default_rng(0).uniform(size=(60, 1))
    assert 1 <= cb.CWBClassifier().fit(x, np.arange(60) < n_events).n_iter_ <= 200


def test_a_fit_that_reaches_the_default_cap_warns(monkeypatch):
    base = importlib.import_module("cwboost.estimators.base")
    monkeypatch.setattr(base, "N_ITER_WITH_VALIDATION", 5)
    with pytest.warns(ConvergenceWarning, match="still falling after 5 iterations; pass a larger"):
        cb.CWBRegressor(polish=None).fit(BIG, BIG_Y)
    cb.CWBRegressor().fit(BIG, BIG_Y)  # polish goes the rest of the way
    cb.CWBRegressor(n_iter=5, polish=None).fit(BIG, BIG_Y)  # the user's own number


def test_large_tables_are_fitted_with_validation_rows():
    large = cb.CWBRegressor(polish=None).fit(BIG, BIG_Y)
    assert large.model_.settings.fraction == 0.2
    assert large.model_.optimizer == cb.Plain(rate=0.5)
    off = cb.CWBRegressor(validation=None, polish=None).fit(BIG, BIG_Y)
    assert off.model_.optimizer == cb.Plain()
    assert off.n_iter_ == 200
    weights = np.r_[np.ones(900), np.zeros(LARGE - 900)]  # rows of weight zero are ignored
    absent = cb.CWBRegressor(polish=None).fit(BIG, BIG_Y, sample_weight=weights)
    whole = cb.CWBRegressor(polish=None).fit(BIG[:900], BIG_Y[:900])
    np.testing.assert_allclose(absent.predict(BIG), whole.predict(BIG), rtol=1e-9)


def test_hybrid_without_validation_rows():
    assert isinstance(
        cb.CWBRegressor(optimizer=cb.Hybrid(0.05), **SHORT).fit(TABLE, Y).model_.optimizer, cb.Plain
    )
    with pytest.raises(ValueError, match="Hybrid needs validation rows"):
        cb.CWBRegressor(optimizer=cb.Hybrid(), validation=None).fit(TABLE, Y)


def test_user_defined_validation_rows():
    mask = np.arange(LARGE) >= 1200
    settings = {"optimizer": cb.Hybrid(then="training"), "n_iter": 60, "polish": None}
    regressor = cb.CWBRegressor(**settings)
    by_mask = clone(regressor).fit(BIG, BIG_Y, validation=mask).predict(BIG)
    held_out = (BIG[mask], BIG_Y[mask])
    by_rows = clone(regressor).fit(BIG[~mask], BIG_Y[~mask], validation=held_out).predict(BIG)
    in_time = clone(regressor).set_params(validation="last").fit(BIG, BIG_Y).predict(BIG)
    np.testing.assert_allclose(by_mask, by_rows, rtol=1e-9)
    assert np.array_equal(by_mask, in_time)
    by_fraction = clone(regressor).fit(BIG, BIG_Y)
    assert not np.array_equal(by_mask, by_fraction.predict(BIG))
    again = clone(regressor).set_params(random_state=1).fit(BIG, BIG_Y)
    assert not np.array_equal(by_fraction.predict(BIG), again.predict(BIG))
    labels = BIG_Y > 0
    held_out = (BIG[mask], labels[mask])
    a = cb.CWBClassifier(**settings).fit(BIG, labels, validation=mask)
    b = cb.CWBClassifier(**settings).fit(BIG[~mask], labels[~mask], validation=held_out)
    np.testing.assert_allclose(a.decision_function(BIG), b.decision_function(BIG), rtol=1e-9)


def test_groups_are_held_out_together():
    groups = np.arange(LARGE) // 10
    fitted = cb.CWBRegressor(n_iter=50, polish=None).fit(BIG, BIG_Y, groups=groups)
    seed = fitted.model_.settings.seed
    mask = fitted._choose_validation(None, groups, LARGE, seed, enough=True)
    assert mask.mean() == pytest.approx(0.2)
    assert all(len(set(mask[groups == g])) == 1 for g in set(groups))
    by_mask = cb.CWBRegressor(n_iter=50, polish=None).fit(BIG, BIG_Y, validation=mask)
    assert np.array_equal(fitted.predict(BIG), by_mask.predict(BIG))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"optimizer": "adam"}, "optimizer: expected 'plain', 'accelerated', 'hybrid' or"),
        ({"validation": "random"}, "validation: expected 'auto', 'last', a fraction or None"),
        ({"terms": "curvy"}, "terms: expected one of 'auto'"),
        ({"loss": "binomial"}, "use CWBClassifier"),
        ({"exclude": ["c"]}, "column 'c' is not in the table"),
        ({"n_iter": -1}, "n_iter: expected a whole number"),
    ],
)
def test_errors(parameters, message):
    with pytest.raises(ValueError, match=message):
        cb.CWBRegressor(**parameters).fit(TABLE, Y)


def test_not_fitted():
    for name in ("predict", "transform", "get_feature_names_out"):
        arguments = () if name == "get_feature_names_out" else (TABLE,)
        with pytest.raises(NotFittedError):
            getattr(cb.CWBRegressor(), name)(*arguments)
    assert not hasattr(cb.CWBRegressor(), "feature_importances_")
    with pytest.raises(NotFittedError):
        cb.CWBRegressor().extend(5, TABLE, Y)


def test_terms_learners_exclude():
    smooth = cb.CWBRegressor(terms="smooth", exclude="b", n_iter=20).fit(TABLE, Y)
    assert list(smooth.model_.terms) == ["a", "job", "years"]
    own = [cb.Linear("a"), cb.Tensor("a", "b"), ...]
    mixed = cb.CWBRegressor(terms="smooth", learners=own, **SHORT).fit(TABLE, Y)
    assert list(mixed.model_.terms) == ["a", "a:b", "b", "job", "years"]
    assert mixed.feature_importances_.sum() == pytest.approx(1.0)
    assert clone(mixed).get_params()["learners"][:2] == own[:2]


# --- offset and exposure --------------------------------------------------------------------------


def test_exposure_by_name_equals_exposure_by_array():
    by_name = cb.CWBRegressor("poisson", exposure="years", **SHORT).fit(TABLE, COUNT)
    rest = TABLE.drop(columns="years")
    by_array = cb.CWBRegressor("poisson", **SHORT).fit(rest, COUNT, exposure=TABLE["years"])
    log = cb.CWBRegressor("poisson", offset="log", **SHORT).fit(
        rest.assign(log=np.log(TABLE["years"])), COUNT
    )
    expected = by_name.predict(TABLE)
    assert np.array_equal(expected, by_array.predict(rest, exposure=TABLE["years"]))
    np.testing.assert_allclose(expected, log.predict(rest.assign(log=np.log(TABLE["years"]))))
    assert "years" not in by_name.model_.terms
    assert list(by_name.feature_names_in_) == list(TABLE)
    assert by_name.feature_importances_[3] == 0.0
    with pytest.raises(ValueError, match="or offset=0"):
        by_array.predict(rest)
    np.testing.assert_allclose(by_array.predict(rest, offset=0) * TABLE["years"], expected)
    scores = [
        by_name.score(TABLE, COUNT),
        by_array.score(rest, COUNT, exposure=TABLE["years"]),
        by_array.score(rest, COUNT, offset=np.log(TABLE["years"])),
    ]
    np.testing.assert_allclose(scores, scores[0])
    assert 0.1 < scores[0] < 1.0


def test_offset_of_a_classifier():
    prior = 0.5 * RNG.normal(size=N)
    binary = cb.CWBClassifier(**SHORT).fit(TABLE, LABEL, offset=prior)
    with pytest.raises(ValueError, match="or offset=0"):
        binary.predict_proba(TABLE)
    difference = binary.decision_function(TABLE, prior) - binary.decision_function(TABLE, offset=0)
    np.testing.assert_allclose(difference, prior, atol=1e-12)
    assert binary.score(TABLE, LABEL, offset=prior) > 0.8
    by_name = cb.CWBClassifier(offset="prior", **SHORT).fit(TABLE.assign(prior=prior), LABEL)
    assert np.array_equal(
        by_name.predict_proba(TABLE.assign(prior=prior)), binary.predict_proba(TABLE, prior)
    )
    block = RNG.normal(size=(N, 3))
    several = cb.CWBClassifier(n_iter=20).fit(TABLE, KIND, offset=block)
    assert several.predict_proba(TABLE, block).shape == (N, 3)
    with pytest.raises(ValueError, match="no log link"):
        cb.CWBClassifier().fit(TABLE, LABEL, exposure=TABLE["years"])


# --- scores, probabilities and contributions ------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "y", "metric"),
    [
        ("squared", Y, r2_score),
        (cb.Quantile(0.8), Y, lambda *a, **k: d2_pinball_score(*a, alpha=0.8, **k)),
        ("poisson", COUNT, lambda *a, **k: d2_tweedie_score(*a, power=1, **k)),
        ("gamma", COUNT + 0.5, lambda *a, **k: d2_tweedie_score(*a, power=2, **k)),
        (cb.Tweedie(1.5), COUNT, lambda *a, **k: d2_tweedie_score(*a, power=1.5, **k)),
    ],
)
def test_score_is_deviance_explained(loss, y, metric):
    fitted = cb.CWBRegressor(loss, n_iter=50, polish=None).fit(TABLE, y)
    w = RNG.integers(0, 3, N).astype(float)
    # A quantile may lie anywhere between two values.
    tolerance = 1e-2 if isinstance(loss, cb.Quantile) else 1e-9
    for weights in (None, w):
        expected = metric(y, fitted.predict(TABLE), sample_weight=weights)
        assert fitted.score(TABLE, y, weights) == pytest.approx(expected, rel=tolerance)


def test_score_of_a_constant_target():
    fitted = cb.CWBRegressor(n_iter=5).fit(TABLE, np.ones(N))
    assert fitted.score(TABLE, np.ones(N)) == 1.0
    assert fitted.score(TABLE, np.zeros(N)) == 0.0


@pytest.mark.parametrize("labels", [LABEL, KIND])
def test_probabilities(labels):
    fitted = cb.CWBClassifier(n_iter=100, polish=None).fit(TABLE, labels)
    p = fitted.predict_proba(TABLE)
    response = fitted.model_.predict(TABLE)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_allclose(p if p.shape[1] > 2 else p[:, 1], response, rtol=1e-9)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(TABLE)), p)
    assert np.array_equal(fitted.predict(TABLE), fitted.classes_[p.argmax(axis=1)])
    assert fitted.score(TABLE, labels) == np.mean(fitted.predict(TABLE) == labels) > 0.8


@pytest.mark.parametrize("labels", [LABEL, KIND])
def test_contributions_sum_to_the_score(labels):
    fitted = cb.CWBClassifier(n_iter=100, polish=None).fit(TABLE, labels)
    parts, names = fitted.transform(TABLE), fitted.get_feature_names_out()
    q = 1 if len(fitted.classes_) == 2 else 3
    assert parts.shape == (N, len(names))
    total = fitted.intercept_ + parts.reshape(N, -1, q).sum(axis=1)
    np.testing.assert_allclose(total, fitted.decision_function(TABLE).reshape(N, q), atol=1e-10)
    if q == 3:
        assert {f"job[{c}]" for c in ("high", "low", "mid")} < set(names)


def test_set_output():
    fitted = cb.CWBRegressor(**SHORT).set_output(transform="pandas").fit(TABLE, Y)
    out = fitted.transform(TABLE)
    assert list(out.columns) == list(fitted.get_feature_names_out())
    assert list(out.index) == list(TABLE.index)
    out = fitted.set_output(transform="polars").transform(TABLE)
    assert isinstance(out, pl.DataFrame)
    stacked = make_pipeline(cb.CWBRegressor(**SHORT), StandardScaler()).set_output(
        transform="pandas"
    )
    assert "job" in stacked.fit_transform(TABLE, Y)


def test_importances():
    fitted = cb.CWBRegressor(**SHORT).fit(TABLE, Y)
    assert fitted.feature_importances_.sum() == pytest.approx(1.0)
    assert fitted.feature_importances_.argmax() == 0
    assert list(SelectFromModel(fitted, prefit=True, threshold=0.1).get_support()) == [
        True,
        False,
        True,
        False,
    ]


def test_pickle_and_clone():
    for fitted in (
        cb.CWBRegressor(n_iter=30).fit(TABLE, Y),
        cb.CWBClassifier(**SHORT).fit(TABLE, KIND),
    ):
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(again.predict(TABLE), fitted.predict(TABLE))
    nested = cb.CWBRegressor(optimizer=cb.Plain(0.05), loss=cb.Quantile(0.9))
    copy = clone(nested).set_params(optimizer__rate=0.2)
    assert (copy.optimizer.rate, nested.optimizer.rate) == (0.2, 0.05)
    assert copy.get_params()["optimizer__rate"] == 0.2
    assert copy.loss == nested.loss


# --- more iterations ------------------------------------------------------------------------------

STARTS = [
    (cb.CWBRegressor(n_iter=30), TABLE, Y),
    (cb.CWBRegressor(optimizer="accelerated", **SHORT), TABLE, Y),
    (cb.CWBRegressor(n_iter=30), BIG, BIG_Y),
    (cb.CWBRegressor(validation="last", **SHORT), BIG, BIG_Y),
    (cb.CWBClassifier(n_iter=30, class_weight="balanced"), TABLE, LABEL),
    (cb.CWBClassifier(**SHORT), TABLE, KIND),
]


@pytest.mark.parametrize(("estimator", "X", "y"), STARTS)
def test_warm_start_equals_a_longer_fit(estimator, X, y):
    long = clone(estimator).set_params(n_iter=80).fit(X, y)
    warm = clone(estimator).set_params(warm_start=True).fit(X, y)
    warm.set_params(n_iter=80).fit(X, y)
    extended = clone(estimator).fit(X, y).extend(50, X, y)
    for other in (warm, extended):
        assert other.n_iter_ == long.n_iter_
        np.testing.assert_allclose(other.transform(X), long.transform(X), rtol=1e-9, atol=1e-12)
        assert other.model_.classes == long.model_.classes
    with pytest.raises(ValueError, match="less than the 80 of the last fit"):
        warm.set_params(n_iter=20).fit(X, y)


def test_warm_start_after_early_stopping():
    settings = {"optimizer": "plain", "patience": 10, "polish": None, "warm_start": True}
    warm = cb.CWBRegressor(n_iter=900, **settings).fit(BIG, BIG_Y)
    assert warm.n_iter_ < 900
    model = warm.model_
    for n_iter in (950, 1000):
        assert warm.set_params(n_iter=n_iter).fit(BIG, BIG_Y).model_ is model


def test_warm_start_with_groups_and_a_validation_mask():
    groups = np.arange(LARGE) // 10
    for extra in ({"groups": groups}, {"validation": np.arange(LARGE) < 300}):
        warm = cb.CWBRegressor(n_iter=20, polish=None, warm_start=True).fit(BIG, BIG_Y, **extra)
        warm.set_params(n_iter=60, polish=None).fit(BIG, BIG_Y, **extra)
        long = cb.CWBRegressor(n_iter=60, polish=None).fit(BIG, BIG_Y, **extra)
        np.testing.assert_allclose(warm.predict(BIG), long.predict(BIG), rtol=1e-9)


def test_time_limit_and_threads():
    hasty = cb.CWBRegressor(n_iter=100_000, time_limit=0.05, validation=None).fit(BIG, BIG_Y)
    assert hasty.model_.stopped == "time limit"
    one, two = (cb.CWBRegressor(n_iter=60, n_jobs=n).fit(BIG, BIG_Y) for n in (1, 2))
    assert np.array_equal(one.predict(BIG), two.predict(BIG))


# --- weights --------------------------------------------------------------------------------------


def test_class_weight_equals_sample_weight():
    weights = {"yes": 3.0, "no": 0.5}
    rows = np.where(LABEL == "yes", 3.0, 0.5)
    by_class = cb.CWBClassifier(class_weight=weights, **SHORT).fit(TABLE, LABEL)
    by_row = cb.CWBClassifier(**SHORT).fit(TABLE, LABEL, sample_weight=rows)
    assert np.array_equal(by_class.predict_proba(TABLE), by_row.predict_proba(TABLE))
    shares = {c: N / (2 * np.sum(c == LABEL)) for c in ("no", "yes")}
    balanced = cb.CWBClassifier(class_weight="balanced", **SHORT).fit(TABLE, LABEL)
    same = cb.CWBClassifier(class_weight=shares, **SHORT).fit(TABLE, LABEL)
    np.testing.assert_allclose(balanced.predict_proba(TABLE), same.predict_proba(TABLE))


GRADES = np.array(["hi", "lo", "mid"])[np.arange(N) % 3]
WITHOUT_HI = (GRADES != "hi").astype(float)


@pytest.mark.parametrize("bags", [None, 2])
@pytest.mark.parametrize(
    ("class_weight", "sample_weight"),
    [
        (None, WITHOUT_HI),
        ({"hi": 0, "lo": 1, "mid": 1}, None),
        ({"hi": 3, "lo": 1, "mid": 1}, WITHOUT_HI),
        ("balanced", WITHOUT_HI),
    ],
)
def test_a_class_without_weight_is_absent(class_weight, sample_weight, bags, tmp_path):
    options = SHORT | {"bags": bags}
    classifier = cb.CWBClassifier(class_weight=class_weight, **options)
    classifier.fit(TABLE, GRADES, sample_weight)
    kept = WITHOUT_HI > 0
    same = cb.CWBClassifier(class_weight="balanced" if class_weight == "balanced" else None)
    same.set_params(**options).fit(TABLE[kept], GRADES[kept])
    assert classifier.classes_.tolist() == same.classes_.tolist() == ["lo", "mid"]
    if bags is None:  # bags are drawn from all rows
        expected = same.predict_proba(TABLE)
        np.testing.assert_allclose(classifier.predict_proba(TABLE), expected, atol=1e-9)
        classifier.extend(2, TABLE, GRADES, sample_weight)
    assert {*classifier.predict(TABLE)} <= {"lo", "mid"}
    assert classifier.predict_proba(TABLE).shape == (N, 2)
    classifier.model_.save(tmp_path / "m.json")
    assert cb.load(tmp_path / "m.json").classes == ("lo", "mid")


def test_rows_of_a_class_that_had_no_weight_in_the_fit_are_refused():
    message = "class 'hi' does not occur in the training rows"
    classifier = cb.CWBClassifier(**SHORT)
    with pytest.raises(ValueError, match=message):
        classifier.fit(TABLE, GRADES, WITHOUT_HI, validation=(TABLE, GRADES))
    classifier.fit(TABLE, GRADES, WITHOUT_HI, validation=(TABLE, GRADES, WITHOUT_HI))
    classifier = cb.CWBClassifier(**SHORT).fit(TABLE, GRADES, WITHOUT_HI)
    with pytest.raises(ValueError, match=message):
        classifier.extend(2, TABLE, GRADES)
    with pytest.raises(ValueError, match=r"without the rows of weight zero, .* one class, 'lo'"):
        classifier.fit(TABLE, GRADES, GRADES == "lo")


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("balance", "expected a dict, 'balanced' or None, got 'balance'"),
        ({"hi": 1, "low": 2}, "'low' is not a class of y, which has 'hi', 'lo', 'mid'"),
        ({"hi": -1}, "expected a number >= 0 for class 'hi', got -1"),
        ({"hi": "a"}, "expected a number >= 0 for class 'hi', got 'a'"),
    ],
)
def test_wrong_class_weights(class_weight, message):
    with pytest.raises(ValueError, match=f"class_weight: {message}"):
        cb.CWBClassifier(class_weight=class_weight, **SHORT).fit(TABLE, GRADES)


def test_classes_that_are_neither_text_nor_numbers():
    y = np.array([Decimal(k % 2) for k in range(N)])
    with pytest.raises(ValueError, match=r"needs classes as text, .* got Decimal\('0'\)"):
        cb.CWBClassifier(**SHORT).fit(TABLE, y)


# --- inside scikit-learn's tools ------------------------------------------------------------------


def test_pipelines():
    numbers = make_pipeline(StandardScaler(), cb.CWBRegressor(**SHORT))
    assert numbers.fit(TABLE[["a", "b"]], Y).score(TABLE[["a", "b"]], Y) > 0.5
    encoded = make_column_transformer(
        (StandardScaler(), ["a", "b"]), (OneHotEncoder(sparse_output=False), ["job"])
    ).set_output(transform="pandas")
    assert make_pipeline(encoded, cb.CWBRegressor(**SHORT)).fit(TABLE, Y).score(TABLE, Y) > 0.8
    passed = make_column_transformer(
        (StandardScaler(), ["a", "b"]), ("passthrough", ["job"]), verbose_feature_names_out=False
    ).set_output(transform="pandas")
    pipeline = make_pipeline(
        passed, cb.CWBRegressor(learners=[cb.Category("job"), ...], **SHORT)
    ).fit(TABLE, Y)
    assert pipeline.score(TABLE, Y) > 0.8
    assert "job" in pipeline[-1].model_.terms
    terms_first = make_pipeline(cb.CWBClassifier(**SHORT), LogisticRegression())
    assert terms_first.fit(TABLE, LABEL).score(TABLE, LABEL) > 0.85


def test_grid_search():
    grid = {"optimizer__rate": [0.05, 0.3], "n_iter": [5, 100]}
    regressor = cb.CWBRegressor(optimizer=cb.Plain(), polish=None)
    search = GridSearchCV(regressor, grid, cv=3).fit(TABLE, Y)
    assert search.best_params_["n_iter"] == 100
    assert search.best_score_ > 0.8
    assert search.best_estimator_.optimizer.rate == search.best_params_["optimizer__rate"]


def test_halving_search_over_iterations():
    search = HalvingRandomSearchCV(
        cb.CWBClassifier(optimizer=cb.Plain(), polish=None),
        {"optimizer__rate": [0.01, 0.03, 0.1, 0.3]},
        resource="n_iter",
        n_candidates=4,
        min_resources=10,
        max_resources=90,
        cv=3,
        random_state=0,
    ).fit(TABLE, LABEL)
    assert search.n_resources_ == [10, 30]
    assert search.best_estimator_.n_iter_ <= 90


def test_calibration():
    calibrated = CalibratedClassifierCV(cb.CWBClassifier(**SHORT), cv=3)
    assert calibrated.fit(TABLE, LABEL).score(TABLE, LABEL) > 0.85


@pytest.mark.usefixtures("routing")
def test_routing():
    rest, years = TABLE.drop(columns="years"), TABLE["years"].to_numpy()
    w = RNG.integers(1, 4, N).astype(float)
    regressor = (
        cb.CWBRegressor("poisson", **SHORT)
        .set_fit_request(sample_weight=True, exposure=True)
        .set_predict_request(exposure=True)
        .set_score_request(sample_weight=True, exposure=True)
    )
    params = {"sample_weight": w, "exposure": years}
    split = GroupKFold(3)
    groups = np.arange(N) % 7
    found = cross_validate(regressor, rest, COUNT, params=params | {"groups": groups}, cv=split)
    expected = []
    for train, test in split.split(rest, COUNT, groups):
        fitted = cb.CWBRegressor("poisson", **SHORT)
        fitted.fit(rest.iloc[train], COUNT[train], w[train], exposure=years[train])
        expected.append(fitted.score(rest.iloc[test], COUNT[test], w[test], exposure=years[test]))
    np.testing.assert_allclose(found["test_score"], expected)
    pipeline = make_pipeline(
        make_column_transformer(
            (StandardScaler().set_fit_request(sample_weight=False), ["a", "b"])
        ),
        regressor,
    )
    pipeline.fit(rest, COUNT, **params)
    assert pipeline.predict(rest, exposure=years).shape == (N,)
    search = GridSearchCV(regressor, {"n_iter": [2, 20]}, cv=3).fit(rest, COUNT, **params)
    assert search.best_params_ == {"n_iter": 20}


def test_exposure_by_name_needs_no_routing():
    by_name = cb.CWBRegressor("poisson", exposure="years", **SHORT)
    found = cross_val_score(by_name, TABLE, COUNT, cv=3, scoring="neg_mean_poisson_deviance")
    assert np.isfinite(found).all()
    assert GridSearchCV(by_name, {"n_iter": [1, 30]}, cv=3).fit(TABLE, COUNT).best_params_ == {
        "n_iter": 30
    }


def test_inspection():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    fitted = cb.CWBRegressor(terms="smooth").fit(TABLE, Y)
    importance = permutation_importance(fitted, TABLE, Y, n_repeats=2, random_state=0)
    assert importance.importances_mean.argmax() == 0
    curve = partial_dependence(fitted, TABLE, ["a"], grid_resolution=5, kind="average")
    effect = fitted.transform(TABLE.head(5).assign(a=curve["grid_values"][0]))[:, 0]
    np.testing.assert_allclose(np.diff(curve["average"][0]), np.diff(effect), atol=1e-10)
    levels = partial_dependence(fitted, TABLE, ["job"], categorical_features=["job"])
    assert list(levels["grid_values"][0]) == ["clerk", "nurse", "smith"]
    PartialDependenceDisplay.from_estimator(
        fitted, TABLE, ["a", "job", ("a", "b")], categorical_features=["job"], grid_resolution=5
    )
    classifier = cb.CWBClassifier(n_iter=20).fit(TABLE, KIND)
    PartialDependenceDisplay.from_estimator(
        classifier, TABLE, ["a"], target="low", grid_resolution=5
    )
    matplotlib.pyplot.close("all")
