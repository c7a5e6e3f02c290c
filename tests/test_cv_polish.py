"""Tests of polish in cross-validation, in the CV estimators and in the folds of other methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import cwboost as cb
from cwboost.cli.main import main
from cwboost.frames.files import write_table
from cwboost.selection.cv_polish import PolishedFolds
from cwboost.selection.fold_refits import FoldRefits


def make_rows(n=400, seed=0, loss="squared"):
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(-2, 2, n) for name in "abc"}
    f = np.sin(2 * table["a"]) - 0.5 * table["b"]
    if loss == "binomial":
        return table, np.where(rng.random(n) < 1 / (1 + np.exp(-2 * f)), "yes", "no")
    return table, f + rng.normal(size=n)


@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_polished_folds_equal_polished_fits_of_their_training_rows(loss):
    table, y = make_rows(loss=loss)
    test = np.arange(len(y)) % 4 == 0
    learners = [cb.Spline("a"), cb.Linear("b")]
    options = {"learners": learners, "loss": loss, "optimizer": cb.Plain(0.1), "n_iter": 150}
    found = cb.cv(table, y, folds=[(~test, test)], extend=False, polish=True, keep_models=True,
                  **options)  # fmt: skip
    plain = cb.cv(table, y, folds=[(~test, test)], extend=False, keep_models=True, **options)
    np.testing.assert_array_equal(found.risk, plain.risk)
    m, [model] = found.best_iteration, found.models
    assert found.polished.iteration == m < 140
    assert found.polished.boosted_risk[0] == pytest.approx(found.risk[0, m])
    np.testing.assert_array_equal(
        model.boosted.predict(table, "score"), plain.models[0].predict(table, "score")
    )
    # The same rows by weights: the test rows count as absent.
    alone = cb.fit(table, y, weights=(~test).astype(float), **(options | {"n_iter": m}))
    alone = cb.polish(alone, table, y, weights=(~test).astype(float), weight=model.polish.weight)
    np.testing.assert_allclose(
        model.predict(table, "score"), alone.predict(table, "score"), atol=0.01
    )
    if loss == "squared":
        risk = np.mean((y - model.predict(table))[test] ** 2) / 2
        assert found.polished.risk[0] == pytest.approx(risk, rel=1e-2)  # at the bins


def test_folds_of_an_optimizer_that_holds_rows_out():
    table, y = make_rows(600)
    found = cb.cv(table, y, optimizer=cb.Hybrid(0.1), n_iter=150, folds=3, extend=False,
                  polish=True, keep_models=True)  # fmt: skip
    assert found.polished.risk.shape == (3,)
    assert all(model.polish.weight == found.polished.weight for model in found.models)


def test_a_fold_does_not_choose_its_own_weight():
    """The risk of a fold depends on the other folds through the weight only."""
    table, y = make_rows(90, seed=3)
    folds = [(np.arange(90) % 3 != k, np.arange(90) % 3 == k) for k in range(3)]
    options = {"folds": folds, "n_iter": 100, "extend": False, "polish": True}
    found = cb.cv(table, y, **options).polished
    assert 0.0 <= found.weight <= 1.0
    assert not np.array_equal(found.risk, found.boosted_risk)


def test_polish_gains_and_the_summary_says_so():
    rng = np.random.default_rng(0)
    table = {name: rng.uniform(-2, 2, 800) for name in "abcdef"}
    y = table["a"] + table["b"] + rng.normal(size=800)  # lines: polish takes out all bends
    found = cb.cv(table, y, n_iter=200, folds=5, polish="auto", metric=["risk", "r2"])
    polished = found.polished
    assert polished.gain == pytest.approx(np.mean(polished.boosted_risk - polished.risk))
    assert polished.gain > 0.0
    assert polished.mean("r2") > found.metrics["r2"].mean(axis=0)[found.grid == polished.iteration]
    assert polished.standard_error() > polished.gain_error > 0.0
    assert "polish: risk" in found.summary()
    assert "polished" in found._repr_html_()
    assert 'polish="auto"' in found.summary()


def test_folds_that_cannot_be_polished_say_why():
    table, y = make_rows()
    found = cb.cv(table, y, loss="absolute", n_iter=400, folds=3, polish="auto")
    assert "second derivative" in found.polished.reason
    np.testing.assert_array_equal(found.polished.risk, found.polished.boosted_risk)
    assert "not polished" in found.summary()
    with pytest.raises(ValueError, match="second derivative"):
        cb.cv(table, y, loss="absolute", n_iter=30, folds=3, polish=True)
    with pytest.raises(ValueError, match="polish: expected"):
        cb.cv(table, y, polish="always")


@pytest.mark.parametrize("one_se", [False, True])
def test_cv_estimators_polish_with_the_weight_of_the_folds(one_se):
    table, y = make_rows()
    regressor = cb.CWBRegressorCV(cv=4, one_se=one_se).fit(table, y)
    found, model = regressor.cv_result_, regressor.model_
    assert found.polished.iteration == regressor.n_iter_ == model.n_iter
    assert model.polish.weight == found.polished.weight > 0.0
    assert regressor.best_score_ == -found.polished.mean()
    boosted = cb.CWBRegressorCV(cv=4, one_se=one_se, polish=None).fit(table, y)
    assert boosted.model_.polish is None
    assert boosted.cv_result_.polished is None
    np.testing.assert_array_equal(model.boosted.predict(table), boosted.predict(table))
    expected = cb.polish(boosted.model_, table, y, weight=model.polish.weight)
    np.testing.assert_allclose(expected.predict(table), regressor.predict(table), atol=1e-8)


def test_classifiers_score_the_polished_folds():
    table, y = make_rows(loss="binomial")
    classifier = cb.CWBClassifierCV(cv=3, scoring="auc", n_iter=100).fit(table, y)
    polished = classifier.cv_result_.polished
    assert classifier.best_score_ == polished.mean("auc") > 0.7
    assert classifier.model_.polish.weight == polished.weight


def test_polish_is_advised_only_if_it_helps(monkeypatch, tmp_path, capsys):
    table, y = make_rows()
    found = cb.cv(table, y, folds=3, polish="auto")
    worse = replace(found.polished, risk=found.polished.boosted_risk + 1.0)
    assert found.polished.helps
    assert not worse.helps
    assert ', polish="auto")' in found.summary()
    assert ', polish="auto")' not in replace(found, polished=worse).summary()
    assert ", polish=" not in replace(found, polished=worse)._repr_html_()
    file = tmp_path / "rows.csv"
    write_table(str(file), table | {"y": y})
    words = ["cv", str(file), "--target", "y", "--folds", "3", "--polish", "auto"]
    assert main(words) == 0
    assert "--polish none" not in capsys.readouterr().out
    monkeypatch.setattr(PolishedFolds, "helps", False)
    assert main(words) == 0
    assert " --polish none\n" in capsys.readouterr().out


def test_folds_of_drop_importance_and_deselect_are_polished(monkeypatch):
    table, y = make_rows(600)
    boosted = cb.fit(table, y, n_iter=300)
    model = cb.polish(boosted, table, y, weight=0.7)
    weights = []
    fits = FoldRefits._fits_of_fold

    def remember(self, *rest):
        for problem, fitted in fits(self, *rest):
            weights.append(None if fitted.polish is None else fitted.polish.weight)
            yield problem, fitted

    monkeypatch.setattr(FoldRefits, "_fits_of_fold", remember)
    drop = model.importance("drop", table=table, y=y, folds=3)
    assert set(weights) == {0.7}
    assert list(drop["column"])[-1] == "c"
    small = cb.deselect(model, table, y, threshold=0.01)
    assert set(weights) == {0.7}
    assert small.polish.weight == 0.7
    weights.clear()
    boosted.importance("drop", table=table, y=y, folds=3)
    assert set(weights) == {None}
