"""Tests of tuning: schedules, search spaces, continued fits, resuming, interruption and optuna.

Scores are compared with single fits (cwboost.fitting.problem.FitProblem) and with scikit-learn.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

import cwboost as cb
from cwboost.cli.main import main
from cwboost.fitting.input_data import Split
from cwboost.fitting.preparation import prepare
from cwboost.fitting.problem import FitProblem
from cwboost.selection.folds import as_folds
from cwboost.selection.tuning.evaluation import metric_iterations, scores_at
from cwboost.selection.tuning.schedules import as_brackets
from cwboost.selection.tuning.space import Space
from cwboost.selection.tuning.trial_log import TrialLog

SMALL = cb.Hyperband(least=10, most=40)  # 4, 3 and 3 configurations
MIXED = {
    "rate": cb.LogUniform(0.05, 0.5),
    "momentum": (0.0, 0.1),
    "optimizer": ["plain", "accelerated", cb.Hybrid()],
    "df.Spline": (2, 8),
    "bins": ["auto", 20],
}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(3)
    n = 240
    table = {
        "x": rng.uniform(-2, 2, n),
        "z": rng.normal(size=n),
        "group": rng.choice(["a", "b", "c", "d"], n),
    }
    score = np.sin(2 * table["x"]) + (table["group"] == "a")
    y = score + 0.5 * rng.normal(size=n)
    return table, y, np.where(y > 0.3, "yes", "no")


def without_seconds(tuning):
    return {name: v for name, v in tuning.table().items() if name != "seconds"}


def assert_same(a, b):
    """Check that the trials are equal to the last digit."""
    a, b = without_seconds(a), without_seconds(b)
    assert list(a) == list(b)
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=name)


# --- schedules ------------------------------------------------------------------------------------


def test_the_default_schedule_matches_the_paper():
    """The defaults are the table in the appendix of Schalk, Bischl and Rügamer."""
    budgets = [39, 78, 156, 312, 625, 1250, 2500, 5000]
    configurations = [
        [128, 64, 32, 16, 8, 4, 2, 1],
        [74, 37, 18, 9, 4, 2, 1],
        [43, 21, 10, 5, 2, 1],
        [26, 13, 6, 3, 1],
        [16, 8, 4, 2],
        [11, 5, 2],
        [8, 4],
        [8],
    ]
    expected = tuple(
        tuple(zip(budgets[first:], ns, strict=True)) for first, ns in enumerate(configurations)
    )
    assert cb.Hyperband(least=39, most=5000, factor=2).brackets == expected
    assert cb.Hyperband().brackets == expected
    assert sum(bracket[0].n for bracket in expected_rungs(expected)) == 314


def expected_rungs(brackets):
    return as_brackets([list(bracket) for bracket in brackets])


def test_the_schedule_of_the_hyperband_paper():
    """R = 81, eta = 3 in Li et al. (2018)."""
    firsts = [(b[0].n, b[0].budget) for b in cb.Hyperband(1, 81, 3).brackets]
    assert firsts == [(81, 1), (34, 3), (15, 9), (8, 27), (5, 81)]
    assert [tuple(r) for r in cb.Hyperband(1, 81, 3).brackets[0]] == [
        (1, 81), (3, 27), (9, 9), (27, 3), (81, 1)
    ]  # fmt: skip


@given(
    st.integers(1, 300), st.integers(1, 5000), st.floats(1.5, 5), st.sampled_from(["band", "one"])
)
def test_brackets_narrow_and_lengthen(least, more, factor, kind):
    most = least + more
    made = (
        cb.Hyperband(least, most, factor) if kind == "band" else cb.Halving(9, least, most, factor)
    )
    for bracket in made.brackets:
        budgets, ns = [r.budget for r in bracket], [r.n for r in bracket]
        assert budgets == sorted(budgets)
        assert ns == sorted(ns, reverse=True)
        assert min(ns) >= 1
        assert budgets[0] >= least
        assert budgets[-1] <= most
    if kind == "band":
        assert all(bracket[-1].budget == most for bracket in made.brackets)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (lambda: cb.Hyperband(least=50, most=40), "least must not exceed most"),
        (lambda: cb.Hyperband(factor=1), "factor must be a number > 1"),
        (lambda: cb.Halving(0), "n: expected a whole number"),
        (lambda: cb.RandomSearch(n_iter=2.5), "n_iter: expected a whole number"),
        (lambda: as_brackets([[(10, 2), (10, 1)]]), "budgets must rise"),
        (lambda: as_brackets([[(10, 2), (20, 3)]]), "configurations must not"),
        (lambda: as_brackets([[]]), "without rungs"),
    ],
)
def test_wrong_schedules_are_refused(schedule, message):
    with pytest.raises(ValueError, match=message):
        schedule()


def test_metric_iterations_are_dense_at_first_and_end_at_the_budget():
    found = metric_iterations(-1, 5000)
    assert found[0] == 0
    assert found[-1] == 5000
    assert (np.diff(found[:9]) == 1).all()
    assert (found[9:] / found[8:-1] < 1.3).all()
    for since in (0, 39, 78, 4999, 5000):
        np.testing.assert_array_equal(metric_iterations(since, 5000), found[found > since])


# --- scores and trials ----------------------------------------------------------------------------


def splits(table, y, loss, n=3):
    binned = prepare(table, y, loss=loss)
    return binned, as_folds(n, binned.data, None, 0)


@pytest.mark.parametrize("optimizer", ["plain", "accelerated"])
def test_continued_fits_equal_one_long_fit(rows, optimizer):
    """Every trial's score equals the lowest mean risk of uninterrupted fits."""
    table, y, _ = rows
    space = {"df.Spline": (2, 8), "rate": (0.05, 0.5), "optimizer": optimizer}
    tuning = cb.tune(table, y, space, schedule=SMALL)
    binned, folds = splits(table, y, "squared")
    optimizer_class = cb.Plain if optimizer == "plain" else cb.Accelerated
    for trial in tuning.trials:
        df = trial.parameters["df.Spline"]
        other = binned.with_learners(
            lambda x, df=df: cb.Spline(x.column, df=df) if isinstance(x, cb.Spline) else x
        )
        paths = [
            FitProblem.pose(
                other, f.split(binned.data.weights), optimizer_class(trial.parameters["rate"])
            )
            .fit(trial.budget)
            .validation_risk
            for f in folds
        ]
        mean = np.mean(paths, axis=0)
        assert trial.n_iter == mean.argmin()
        np.testing.assert_array_equal(trial.scores, [p[trial.n_iter] for p in paths])
        assert trial.score == pytest.approx(mean.min(), rel=1e-14)
        assert trial.sd == pytest.approx(np.std(trial.scores, ddof=1))


def test_a_metric_is_computed_from_the_predictions(rows):
    table, _, answer = rows
    space = {"df.Spline": (2, 8), "rate": (0.05, 0.5), "optimizer": "accelerated"}
    tuning = cb.tune(table, answer, space, loss="binomial", metric="auc", schedule=SMALL)
    binned, folds = splits(table, answer, "binomial")
    best = tuning.best
    scores = []
    for fold in folds:
        training = binned.data.weights * fold.training
        other = binned.with_learners(
            lambda x: (
                cb.Spline(x.column, df=best.parameters["df.Spline"])
                if isinstance(x, cb.Spline)
                else x
            )
        )
        split = Split(training, None, training)
        model = FitProblem.pose(other, split, cb.Accelerated(best.parameters["rate"])).fit(
            best.n_iter
        )
        test = fold.test > 0
        scores.append(roc_auc_score(answer[test] == "yes", model.predict(table)[test]))
    np.testing.assert_allclose(best.scores, scores, rtol=1e-12)
    assert best.n_iter in metric_iterations(-1, best.budget)
    assert best.score == max(trial.score for trial in tuning.trials)


@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_scores_along_a_path_equal_predictions(rows, loss):
    table, y, _ = rows
    y = y if loss == "squared" else table["group"]
    table = {"x": table["x"], "z": table["z"]}
    binned = prepare(table, y, loss=loss, bins="exact")
    w = binned.data.weights
    model = FitProblem.pose(binned, Split(w, None, w), cb.Plain()).fit(12)
    for m, score in zip([0, 5, 12], scores_at(binned, model, np.array([0, 5, 12])), strict=True):
        expected = model.at(m).predict(table, kind="score").reshape(len(y), -1)
        np.testing.assert_allclose(score.T, expected, rtol=1e-10, atol=1e-12)


def test_the_better_half_is_continued(rows):
    table, y, _ = rows
    tuning = cb.tune(table, y, schedule=cb.Halving(8, least=10, most=40))
    for rung in (0, 1):
        here = {t.configuration: t.score for t in tuning.trials if t.rung == rung}
        above = {t.configuration for t in tuning.trials if t.rung == rung + 1}
        assert above == set(sorted(here, key=here.get)[: len(here) // 2])
    assert tuning.complete


def test_an_earlier_better_score_is_kept(rows):
    """High momentum overfits soon; the trial reports its best score and iteration."""
    table, y, _ = rows
    space = {"optimizer": cb.Accelerated(0.5, 0.3), "df": 8.0}
    tuning = cb.tune(table, y, space, schedule=[[(20, 1), (200, 1)]])
    short, long = tuning.trials
    assert short.n_iter == long.n_iter < 20
    assert short.scores == long.scores


def test_a_diverging_configuration_is_not_chosen(rows):
    table, y, _ = rows
    space = {"optimizer": "accelerated", "rate": [0.1, 20.0], "momentum": 0.5}
    tuning = cb.tune(table, y, space, schedule=[[(100, 6), (200, 3)]])
    assert {t.parameters["rate"] for t in tuning.trials if t.rung == 0} == {0.1, 20.0}
    assert tuning.best.parameters["rate"] == 0.1


def test_random_search_gives_all_configurations_the_same_budget(rows):
    table, y, _ = rows
    tuning = cb.tune(table, y, schedule=cb.RandomSearch(5, 30))
    assert tuning.table()["budget"].tolist() == [30] * 5
    assert len(np.unique(tuning.table()["rate"])) == 5


def test_the_result_does_not_depend_on_threads(rows):
    table, _, answer = rows
    options = {"space": MIXED, "loss": "binomial", "metric": "auc", "schedule": SMALL}
    assert_same(
        cb.tune(table, answer, n_threads=1, **options),
        cb.tune(table, answer, n_threads=3, **options),
    )


def test_configurations_depend_only_on_the_seed(rows):
    table, y, _ = rows
    a, b = (cb.tune(table, y, schedule=cb.RandomSearch(n, 3), folds=2) for n in (3, 6))
    np.testing.assert_array_equal(a.table()["rate"], b.table()["rate"][:3])
    c = cb.tune(table, y, schedule=cb.RandomSearch(3, 3), folds=2, random_state=1)
    assert not np.any(a.table()["rate"] == c.table()["rate"])


# --- the final fit and the search space -----------------------------------------------------------


def assert_equal_models(a, b):
    assert a.n_iter == b.n_iter
    np.testing.assert_array_equal(a.risk, b.risk)
    for name, term in a.terms.items():
        np.testing.assert_array_equal(term.coef, b.terms[name].coef)


@pytest.mark.parametrize("optimizer", ["plain", "accelerated", "hybrid"])
def test_the_final_fit_equals_a_fit_with_the_tuned_arguments(rows, optimizer):
    table, y, _ = rows
    space = MIXED | {"optimizer": optimizer}
    if optimizer == "plain":
        del space["momentum"]
    tuning = cb.tune(table, y, space, schedule=cb.RandomSearch(3, 30))
    model, best = tuning.fit(), tuning.best
    assert_equal_models(model, cb.fit(table, y, **tuning.arguments))
    assert model.n_iter == best.n_iter
    assert type(model.optimizer).__name__.lower() == optimizer
    assert model.optimizer.rate == best.parameters["rate"]
    assert model.terms["x"].df == pytest.approx(best.parameters["df.Spline"])
    assert (
        model.settings.bins
        == cb.fit(table, y, n_iter=0, bins=best.parameters["bins"]).settings.bins
    )
    assert tuning.fit(n_iter=2).n_iter == 2


def test_formulas_weights_offsets_and_groups(rows):
    table, y, _ = rows
    rng = np.random.default_rng(0)
    table = table | {
        "y": y,
        "w": rng.integers(0, 3, len(y)),
        "o": 0.1 * table["z"],
        "shop": np.arange(len(y)) % 12,
    }
    tuning = cb.tune(
        table, "y ~ s(x) + group", {"df.x": (3, 6), "df.Category": [2, 3], "rate": 0.2},
        schedule=cb.RandomSearch(2, 10), weights="w", offset="o", groups="shop",
    )  # fmt: skip
    model = tuning.fit()
    assert set(model.terms) == {"x", "group"}
    assert model.terms["x"].df == pytest.approx(tuning.best.parameters["df.x"])
    assert (model.settings.weights, model.settings.offset) == ("w", "o")
    others = cb.tune(
        table, "y", {"rate": 0.2}, schedule=cb.RandomSearch(1, 5), groups="shop", weights="w"
    )
    assert "shop" not in others.fit().terms  # the group column is not a feature
    for fold in others.evaluator.folds:
        shop = table["shop"][table["w"] > 0]
        assert not set(shop[fold.training > 0]) & set(shop[fold.test > 0])


def test_hybrid_takes_validation_rows_from_the_training_rows(rows):
    table, y, _ = rows
    tuning = cb.tune(table, y, {"optimizer": "hybrid"}, schedule=cb.RandomSearch(1, 20))
    evaluator = tuning.evaluator
    for k, fold in enumerate(evaluator.folds):
        split = evaluator.split(k, cb.Hybrid())
        assert split.validation.sum() == pytest.approx(0.3 * fold.training.sum(), abs=1)
        np.testing.assert_array_equal(split.all, split.training + split.validation)
        np.testing.assert_array_equal(split.all, fold.training)
    # scores are computed on the test rows, which the fit never saw
    model = evaluator.fit_fold(
        tuning.best.parameters, evaluator.default, 0, [20], None, lambda: False
    )
    test = evaluator.folds[0].test > 0
    residuals = model.at(tuning.best.n_iter).predict(table)[test] - y[test]
    assert tuning.best.scores[0] == pytest.approx(np.mean(residuals**2) / 2, rel=1e-3)


def test_an_impossible_df_is_replaced_by_the_nearest(rows):
    table, y, _ = rows
    # Missing values add a third unpenalized dimension.
    table = table | {"x": np.where(table["z"] > 1, np.nan, table["x"])}
    tuning = cb.tune(table, y, {"df": 2.0, "rate": 0.3}, schedule=cb.RandomSearch(1, 20))
    terms = tuning.fit().terms
    assert terms["x"].df == pytest.approx(3.01)
    assert terms["z"].df == pytest.approx(2.01)
    assert terms["group"].df == pytest.approx(2.0)


def test_a_learner_with_a_given_df_keeps_it(rows):
    table, y, _ = rows
    learners = [cb.Spline("x", df=3), ...]
    tuning = cb.tune(table, y, {"df": 5.0}, learners, schedule=cb.RandomSearch(1, 5))
    terms = tuning.fit().terms
    assert [terms[name].df for name in ("x", "z")] == pytest.approx([3, 5])
    tuning = cb.tune(table, y, {"df": 5.0, "df.x": 4.0}, learners, schedule=cb.RandomSearch(1, 5))
    assert tuning.fit().terms["x"].df == pytest.approx(4)


def test_terms_without_df_are_not_tuned(rows):
    table, y, _ = rows
    table = table | {"x": np.where(table["z"] > 1, np.nan, table["x"])}
    learners = [cb.Linear("x"), cb.Category("group", kind="binary")]  # and Missing("x")
    tuning = cb.tune(table, y, {"df.x": 1.5}, learners, schedule=cb.RandomSearch(1, 5))
    terms = tuning.fit().terms
    assert {"x", "missing(x)"} & set(terms)
    for name in ("df", "df.group", "df.Missing"):
        with pytest.raises(ValueError, match="whose df can be tuned"):
            cb.tune(table, y, {name: 2.0}, learners, schedule=SMALL)


def test_default_space_has_only_kinds_of_terms_in_the_model(rows):
    table, y, _ = rows
    plans = prepare(table, y, "auto").plans
    assert list(Space.make(None, plans).parameters) == [
        "df.Spline",
        "df.Step",
        "df.Category",
        "rate",
    ]
    linear = prepare(table, y, [cb.Linear("x"), cb.Category("group", kind="binary")]).plans
    assert list(Space.make(None, linear).parameters) == ["rate"]


def test_default_ranges_of_df():
    ranges = {
        cb.Spline: (2, 10), cb.Step: (2, 20), cb.Category: (2, 10), cb.Centered: (0.5, 5),
        cb.Tensor: (4, 20), cb.Linear: None, cb.Missing: None,
    }  # fmt: skip
    assert {kind: kind.df_range for kind in ranges} == ranges


def test_default_range_of_the_rate(rows):
    space = Space.make(None, prepare(rows[0], rows[1]).plans)
    assert space.parameters["rate"].limits == (0.01, 0.5)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_draws_stay_inside(rows, seed):
    plans = prepare(rows[0], rows[1]).plans
    space = Space.make(MIXED, plans)
    drawn = space.draw(np.random.default_rng(seed))
    assert 0.05 <= drawn["rate"] <= 0.5
    assert 2 <= drawn["df.Spline"] <= 8
    assert drawn["bins"] in ("auto", 20)
    optimizer = space.optimizer(drawn)
    assert optimizer.rate == drawn["rate"]
    assert ("momentum" in drawn) == (not isinstance(optimizer, cb.Plain))
    assert json.loads(json.dumps(drawn)) == drawn


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "expected a mapping"),
        ({"speed": (0, 1)}, "expected rate, momentum, optimizer, bins, df"),
        ({"rate": (0.0, 1.0)}, "'rate': expected positive numbers, got 0.0"),
        ({"rate": (0.5, 0.1)}, r"expected a tuple \(low, high\)"),
        ({"rate": (0.1, 0.2, 0.3)}, "or a list of choices"),
        ({"rate": []}, "the list of choices is empty"),
        ({"rate": [0.1, 0.1]}, "the list has a value twice"),
        ({"rate": "fast"}, "expected positive numbers, got 'fast'"),
        ({"momentum": (0, 0.1)}, "momentum is a parameter of cb.Accelerated, cb.Hybrid"),
        ({"optimizer": ["newton"]}, "expected 'plain', 'accelerated', 'hybrid'"),
        ({"bins": (10, 20)}, "expected a list of rules"),
        ({"bins": ["many"]}, "bins"),
        ({"df.Step": (2, 5)}, "no term of the kind Step .* the terms are Category, Spline"),
        ({"df.age": (2, 5)}, "no term 'age' whose df can be tuned"),
        ({"df": (-1, 5)}, "expected positive numbers"),
    ],
)
def test_wrong_spaces_are_refused(rows, space, message):
    with pytest.raises((ValueError, TypeError), match=message):
        cb.tune(rows[0], rows[1], space, schedule=SMALL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": 5}, "schedule: expected cb.Hyperband"),
        ({"metric": "auc"}, "for classes"),
        ({"metric": ["risk", "rmse"]}, "metric: expected one, got 2"),
        ({"folds": 1}, "at least 2"),
        ({"validation": 1.5}, "validation must be a share"),
        ({"n_threads": 0}, "n_threads: expected"),
        ({"file": "no/such/folder/t.jsonl"}, "this folder does not exist"),
    ],
)
def test_wrong_arguments_are_refused(rows, options, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        cb.tune(rows[0], rows[1], **({"schedule": SMALL} | options))


def test_table_repr_and_summary(rows):
    table, _, answer = rows
    tuning = cb.tune(table, answer, MIXED, loss="binomial", metric="auc", schedule=SMALL)
    shown = tuning.table()
    assert list(shown) == [
        "bracket", "configuration", "rung", "budget", *MIXED, "score", "sd", "n_iter", "seconds"
    ]  # fmt: skip
    assert len(shown["score"]) == len(tuning.trials) == 4 + 2 + 1 + 3 + 1 + 3
    plain = shown["optimizer"] == "plain"
    np.testing.assert_array_equal(np.isnan(shown["momentum"]), plain)
    assert (shown["n_iter"] <= shown["budget"]).all()
    assert repr(tuning).startswith("<Tuning: 10 configurations, auc 0.")
    assert "14 trials in 3 folds" in tuning.summary()
    assert f"n_iter {tuning.best.n_iter} of" in repr(tuning.summary(1))


def test_summary_says_if_more_iterations_would_help(rows):
    table, y, _ = rows
    tuning = cb.tune(table, y, {"rate": 0.01}, schedule=cb.RandomSearch(1, 10))
    assert "try more than 10" in tuning.summary()


# --- interruption and resuming --------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole_tunings(rows, tmp_path_factory):
    """Return tunings that were not interrupted and the lines of their files, by metric."""
    table, _, answer = rows
    found = {}
    for metric in ("risk", "auc"):
        file = tmp_path_factory.mktemp("whole") / "whole.jsonl"
        options = {"space": MIXED, "loss": "binomial", "metric": metric, "schedule": SMALL}
        whole = cb.tune(table, answer, file=file, n_threads=1, **options)
        found[metric] = (whole, file.read_bytes().splitlines(keepends=True))
    return found


@pytest.mark.parametrize("metric", ["risk", "auc"])
@pytest.mark.parametrize("kept", [0, 1, 2, 6, 9, 13, 15])
def test_resuming_from_a_truncated_file_gives_the_same_result(
    rows, whole_tunings, tmp_path, kept, metric
):
    """The file ends after `kept` lines and the beginning of the next line."""
    table, _, answer = rows
    options = {"space": MIXED, "loss": "binomial", "metric": metric, "schedule": SMALL}
    whole, lines = whole_tunings[metric]
    assert len(lines) == 1 + len(whole.trials)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:kept]) + b"".join(lines[kept:])[:25])
    again = cb.tune(table, answer, file=cut, n_threads=2, **options)
    assert_same(again, whole)
    ended = [json.loads(line) for line in cut.read_bytes().splitlines()]
    assert len(ended) == len(lines)
    assert {(t["configuration"], t["rung"]) for t in ended[1:]} == {
        (t.configuration, t.rung) for t in whole.trials
    }


def test_a_finished_file_is_read_and_not_changed(rows, tmp_path):
    table, y, _ = rows
    file = tmp_path / "t.jsonl"
    began = time.perf_counter()
    first = cb.tune(table, y, schedule=SMALL, file=file, n_threads=1)
    assert 0 < sum(first.table()["seconds"]) < time.perf_counter() - began
    written = file.read_bytes()
    second = cb.tune(table, y, schedule=SMALL, file=file)
    assert_same(first, second)
    np.testing.assert_allclose(first.table()["seconds"], second.table()["seconds"], atol=1e-4)
    assert file.read_bytes() == written


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"y": "z"}, "data"),
        ({"space": {"rate": 0.2}}, "space"),
        ({"schedule": cb.Hyperband(10, 80)}, "schedule"),
        ({"folds": 4}, "folds"),
        ({"metric": "mae"}, "metric"),
        ({"loss": "absolute"}, "loss"),
        ({"learners": "step", "space": {"rate": 0.1}}, "learners"),
        ({"bins": "sqrt"}, "bins"),
        ({"table": "one cell"}, "data"),
    ],
)
def test_a_file_of_another_tuning_is_refused(rows, tmp_path, other, named):
    table, y, _ = rows
    file = tmp_path / "t.jsonl"
    same = {"table": table, "y": y, "space": {"rate": 0.1}, "schedule": SMALL, "file": file}
    cb.tune(**same)
    if other.get("table") is not None:
        other = {"table": table | {"z": np.append(table["z"][:-1], 0.5)}}
    written = file.read_bytes()
    with pytest.raises(ValueError, match=f"to other work: {named} was"):
        cb.tune(**(same | other))
    assert file.read_bytes() == written


@pytest.mark.parametrize("content", [b"name,age\nAnna,3\n", b"name,age", b'{"format": 1}\n'])
def test_a_file_that_is_not_a_tuning_file_is_refused_and_not_changed(tmp_path, content):
    file = tmp_path / "people.csv"
    file.write_bytes(content)
    with pytest.raises(ValueError, match="not a tuning file"):
        TrialLog(file, "tuning", {"data": "1"})
    assert file.read_bytes() == content


KILLED = """
import os, signal, sys
import numpy as np, cwboost as cb
from test_tune import kill_table, some_score
table, y = kill_table()
cb.tune(table, y, metric=some_score, schedule=cb.Hyperband(10, 40), file=sys.argv[1], n_threads=1)
"""


def kill_table():
    x = np.linspace(0, 6, 60)
    return {"x": x}, np.sin(x)


CALLS = []


def some_score(y, p):
    """Return a score, or kill the process at the call whose number is in KILL_AT."""
    CALLS.append(1)
    if len(CALLS) == int(os.environ.get("KILL_AT", "0")):
        os.kill(os.getpid(), signal.SIGKILL)
    return -float(np.mean((y - p) ** 2))


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL")
def test_tuning_resumes_after_a_killed_process(tmp_path):
    table, y = kill_table()
    file = tmp_path / "t.jsonl"
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])  # noqa: PTH120
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(file)],
        env=os.environ | {"PYTHONPATH": path, "KILL_AT": "300"},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    n_lines = len(file.read_bytes().splitlines())
    assert 1 < n_lines < 15
    options = {"metric": some_score, "schedule": cb.Hyperband(10, 40)}
    again = cb.tune(table, y, file=file, **options)
    assert_same(again, cb.tune(table, y, **options))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_ctrl_c_keeps_the_finished_trials(rows, tmp_path, n_threads):
    table, y, _ = rows
    file = tmp_path / "t.jsonl"
    quick = [[(10, 4), (20, 2)]]
    schedule = [*quick, [(10**8, 2)]]
    options = {"space": {"rate": (1e-4, 1e-3)}, "schedule": schedule, "n_threads": n_threads}

    def interrupt_after_six_trials():
        while not (file.exists() and file.read_bytes().count(b"\n") == 7):
            time.sleep(0.01)
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)

    threading.Thread(target=interrupt_after_six_trials, daemon=True).start()
    with pytest.raises(cb.TuningInterrupted, match="interrupted after 6 trials") as caught:
        cb.tune(table, y, file=file, **options)
    found = caught.value.tuning
    assert not found.complete
    assert "6 of 6" not in found.summary()
    assert found.best.budget == 20
    assert found.fit().n_iter == found.best.n_iter
    assert isinstance(caught.value, KeyboardInterrupt)


def test_without_finished_trials_there_is_no_best(rows):
    tuning = cb.tune(rows[0], rows[1], schedule=cb.RandomSearch(1, 1))
    nothing = cb.Tuning((), tuning.evaluator, tuning.brackets)
    assert repr(nothing) == "<Tuning: no configuration finished>"
    with pytest.raises(ValueError, match="no configuration was finished"):
        _ = nothing.best


# --- optuna ---------------------------------------------------------------------------------------


@pytest.fixture
def optuna():
    found = pytest.importorskip("optuna")
    found.logging.set_verbosity(found.logging.ERROR)
    return found


def test_optuna_scores_equal_evaluator_scores(rows, optuna):
    table, _, answer = rows
    objective = cb.optuna_objective(
        table, answer, MIXED, loss="binomial", metric="auc", n_iter=40, least=10
    )
    assert objective.direction == "maximize"
    assert objective.budgets == [10, 20, 40]
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=1),
        pruner=optuna.pruners.NopPruner(),
    )
    study.optimize(objective, n_trials=8)
    for trial in study.trials:
        assert ("momentum" in trial.params) == (trial.params["optimizer"] != "plain")
        assert list(trial.intermediate_values) == [10, 20, 40]
        assert trial.value == pytest.approx(np.mean(trial.user_attrs["scores"]))
    best = study.best_trial
    evaluator, parameters = objective.evaluator, best.params
    tuned = [
        evaluator.fit_fold(parameters, evaluator.prepare(parameters), k, [40], None, lambda: False)
        for k in range(3)
    ]
    curves = [
        evaluator.evaluate(evaluator.prepare(parameters), m, k, -1, 40) for k, m in enumerate(tuned)
    ]
    assert evaluator.best_iteration(curves, None).scores == tuple(best.user_attrs["scores"])
    model = objective.fit(best)
    assert model.n_iter == best.user_attrs["n_iter"]
    assert_equal_models(model, cb.fit(table, answer, **objective.arguments(best)))


def test_optuna_prunes(rows, optuna):
    table, y, _ = rows
    objective = cb.optuna_objective(table, y, {"rate": [0.2, 1e-5]}, n_iter=40, least=10)
    study = optuna.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=1))
    for rate in (0.2, 0.2, 1e-5):
        study.enqueue_trial({"rate": rate})
    study.optimize(objective, n_trials=3)
    states = [trial.state.name for trial in study.trials]
    assert states == ["COMPLETE", "COMPLETE", "PRUNED"]
    assert study.trials[2].user_attrs["budget"] == 10
    assert study.trials[0].user_attrs["budget"] == 40


def test_without_optuna_the_error_names_the_extra(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ModuleNotFoundError, match=r"cwboost\[optuna\]"):
        cb.optuna_objective(rows[0], rows[1])


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def csv(rows, tmp_path):
    table, _, answer = rows
    lines = zip(table["x"], table["group"], np.arange(len(answer)) % 20, answer, strict=True)
    file = tmp_path / "people.csv"
    file.write_text("x,group,shop,ill\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in lines))
    return file


def test_command(csv, tmp_path, capsys):
    model, trials, kept = tmp_path / "m.json", tmp_path / "trials.csv", tmp_path / "t.jsonl"
    words = ["tune", str(csv), "--target", "ill", "--metric", "auc", "--groups", "shop", "--most",
             "20", "--least", "10", "--quiet", "-o", str(model), "--trials", str(trials), "--file",
             str(kept), "--plot", str(tmp_path / "t.png")]  # fmt: skip
    assert main(words) == 0
    output = capsys.readouterr().out
    assert "4 configurations, 5 trials in 3 folds" in output
    assert trials.read_text().count("\n") == 6
    assert (tmp_path / "t.png").read_bytes().startswith(b"\x89PNG")
    found = cb.load(model)
    assert set(found.columns) <= {"x", "group"}
    assert f"n_iter {found.n_iter} of" in output
    written = kept.read_bytes()
    assert main(words) == 0
    assert capsys.readouterr().out == output
    assert kept.read_bytes() == written


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--most", "5"], "--least must not exceed most"),
        (["--factor", "1"], "--factor must be a number > 1"),
        (["--plot", "t.bmp"], "expected a name that ends in .png"),
        (["--trials", "t.doc"], "t.doc"),
    ],
)
def test_wrong_commands_are_refused(csv, capsys, words, message):
    try:
        code = main(["tune", str(csv), "--target", "ill", *words])
    except SystemExit as stop:
        code = stop.code
    assert code in (1, 2)
    assert message in capsys.readouterr().err


# --- plots ----------------------------------------------------------------------------------------


@pytest.fixture
def tuning(rows):
    table, _, answer = rows
    return cb.tune(table, answer, MIXED, loss="binomial", metric="auc", schedule=SMALL)


def test_plot_of_the_parameters(tuning):
    plt = pytest.importorskip("matplotlib.pyplot")
    display = tuning.plot()
    assert [ax.get_xlabel() for ax in display.axes_] == [*MIXED, "best iteration"]
    assert len(display.data["score"]) == 10
    assert display.data["score"].max() == tuning.best.score
    panel = display.axes_[0]
    drawn = np.array([line.get_xydata()[0] for line in panel.lines])
    np.testing.assert_allclose(sorted(drawn[:, 0]), sorted(display.data["rate"]))
    np.testing.assert_allclose(sorted(drawn[:, 1]), sorted(display.data["score"]))
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="axes: expected 6, got 1"):
        tuning.plot(axes=plt.subplots()[1])
    plt.close()


def test_plot_of_the_paths(tuning):
    plt = pytest.importorskip("matplotlib.pyplot")
    display = tuning.plot("paths", axes=plt.subplots()[1])
    assert len(display.axes_[0].collections) == 10
    data = display.data
    best = (data["configuration"] == tuning.best.configuration) & (
        data["iteration"] == tuning.best.n_iter
    )
    assert data["score"][best] == pytest.approx(tuning.best.score)
    plt.close(display.figure_)
    with pytest.raises(ValueError, match="kind: expected 'parameters' or 'paths'"):
        tuning.plot("trees")


def test_hybrid_validates_on_the_last_training_rows_in_time_order():
    rng = np.random.default_rng(5)
    x = rng.uniform(size=300)
    found = cb.tune(
        {"x": x}, np.sin(6 * x) + rng.normal(0, 0.3, 300), {"optimizer": "hybrid"},
        folds=cb.Folds("time", 3), schedule=cb.RandomSearch(1, n_iter=20), validation=0.25,
    )  # fmt: skip
    for fold, held in zip(found.evaluator.folds, found.evaluator.held, strict=True):
        inside = np.flatnonzero(fold.training_counts)
        np.testing.assert_array_equal(np.flatnonzero(held), inside[-round(len(inside) / 4) :])


def test_a_range_may_be_one_value(rows):
    assert cb.LogUniform(0.1, 0.1).limits == (0.1, 0.1)
    plans = prepare(rows[0], rows[1]).plans
    assert Space.make({"rate": cb.LogUniform(0.1, 0.1)}, plans).size == 1
    assert Space.make({"rate": cb.LogUniform(0.1, 0.2)}, plans).size == np.inf


def test_a_momentum_may_be_zero_but_not_a_rate(rows):
    plans = prepare(rows[0], rows[1]).plans
    fixed = {"optimizer": "accelerated"}
    assert Space.make({"momentum": [0.0, 0.05], **fixed}, plans).size == 2
    with pytest.raises(ValueError, match="'rate': expected positive numbers"):
        Space.make({"rate": [0.0, 0.05], **fixed}, plans)


def test_df_of_learners_that_remove_a_line(rows):
    """Centered has two functions fewer than its basis, so any df above 0 is possible."""
    table, y, _ = rows
    (plan,) = prepare(table, y, [cb.Centered("x")]).plans
    space = Space.make({"df": (0.5, 3.0)}, [plan])
    assert space.learner({"df": 1.5}, plan).df == 1.5
