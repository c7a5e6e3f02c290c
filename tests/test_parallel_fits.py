"""Tests of fits to rows that are already binned, and of many such fits in parallel."""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

import cwboost as cb
from cwboost import _core
from cwboost.fitting.input_data import Split
from cwboost.fitting.parallel_fits import run_all
from cwboost.fitting.preparation import prepare
from cwboost.fitting.problem import FitProblem
from cwboost.progress import Progress

OPTIMIZERS = [
    cb.Plain(0.1),
    cb.Accelerated(0.1, 0.03),
    cb.Hybrid(0.1, 0.03, then="training"),
    cb.Hybrid(0.1, 0.03),
]


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    n = 400
    table = {"x": rng.integers(0, 40, n) / 40, "z": rng.integers(0, 30, n) / 30}
    table["g"] = rng.choice(list("abc"), n)
    y = np.sin(6 * table["x"]) + (table["g"] == "a") + rng.normal(0, 0.5, n)
    held = np.arange(n) % 4 == 0
    # The training part has all values, so its bins and knots are the same as with all rows.
    for name in ("x", "z"):
        held[np.unique(table[name], return_index=True)[1]] = False
    return table, y, held


def split_of(held):
    w = np.ones(len(held))
    return Split(np.where(held, 0.0, w), np.where(held, w, 0.0), w)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_a_split_of_binned_rows_equals_a_fit_with_validation_rows(problem, optimizer, loss):
    table, y, held = problem
    y = y if loss == "squared" else np.where(y > 0.5, "yes", "no")
    binned = prepare(table, y, loss=loss)
    posed = FitProblem.pose(binned, split_of(held), optimizer)
    model = posed.fit(60)
    expected = cb.fit(
        table, y, loss=loss, optimizer=optimizer, n_iter=60, validation=held, patience=None
    )
    assert model.choices == expected.choices
    np.testing.assert_allclose(model.validation_risk, expected.validation_risk, rtol=1e-10)
    np.testing.assert_allclose(model.predict(table), expected.predict(table), rtol=1e-9)
    assert model.importance() == pytest.approx(expected.importance(), rel=1e-8)
    np.testing.assert_allclose(model.intercept, expected.intercept, rtol=1e-10)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_a_fit_continues_from_another(problem, optimizer):
    table, y, held = problem
    posed = FitProblem.pose(prepare(table, y), split_of(held), optimizer)
    long = posed.fit(50)
    again = posed.fit(50, after=posed.fit(20))
    assert again.choices == long.choices
    np.testing.assert_allclose(again.risk, long.risk, rtol=1e-13)
    np.testing.assert_allclose(again.predict(table), long.predict(table), rtol=1e-12)


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
def test_a_path_is_followed_on_other_rows(problem, optimizer):
    table, y, held = problem
    posed = FitProblem.pose(prepare(table, y), split_of(held), optimizer)
    model, scores = posed.fit(40), []
    risk = posed.follow(model, split_of(held).validation, lambda m, f: scores.append((m, f[0])))
    np.testing.assert_allclose(risk, model.validation_risk, rtol=1e-12)
    for m in (0, 7, 40):
        number, score = scores[m]
        assert number == m
        np.testing.assert_allclose(score, model.at(m).predict(table), rtol=1e-10, atol=1e-12)
    assert len(posed.follow(model, split_of(held).training, lambda m, _: m == 3)) == 4


def test_binned_rows_can_be_fitted_with_another_df(problem):
    table, y, held = problem
    binned = prepare(table, y)
    stiff = binned.with_learners(lambda x: cb.Spline(x.column, df=3) if x.column == "x" else x)
    model = FitProblem.pose(stiff, split_of(held), cb.Plain()).fit(5)
    assert model.terms["x"].df == pytest.approx(3)
    assert model.terms["z"].df == pytest.approx(5)


@pytest.mark.parametrize("optimizer", OPTIMIZERS[:2], ids=repr)
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_fits_of_one_split_share_cross_grams(loss, optimizer):
    rng = np.random.default_rng(8)
    n = 16_000  # enough rows for cross-Grams to pay off
    table = {name: rng.integers(0, 60, n) / 60 for name in "abcd"}
    y = sum(np.sin((j + 3) * x) for j, x in enumerate(table.values())) + rng.normal(0, 1, n)
    binned = prepare(table, y if loss == "squared" else np.where(y > 1, "yes", "no"), loss=loss)
    split, crosses = split_of(np.arange(n) % 3 == 0), _core.Crosses()
    shared = replace(split, crosses=crosses)

    def fits(split):
        others = [binned.with_learners(lambda x, df=df: replace(x, df=df)) for df in (3, 5, 9)]
        jobs = [
            lambda halt, x=x: FitProblem.pose(x, split, optimizer).fit(300, halt=halt)
            for x in others
        ]
        return run_all(jobs, 2, Progress(), "fit")

    for model, alone in zip(fits(shared), fits(split), strict=True):
        assert model.choices == alone.choices
        np.testing.assert_array_equal(model.risk, alone.risk)
    assert 3 <= len(crosses) <= 20  # four terms in two parts, however often they are fitted


def test_cross_grams_that_are_hardly_used_are_no_longer_made():
    """With hundreds of two-valued columns, most pairs of corrections and contenders meet once."""
    rng = np.random.default_rng(1)
    n, k, n_iter = 2200, 500, 200
    X = rng.uniform(size=(n, k)) < 0.5
    score = 0.7 * X[:, :200] @ rng.normal(size=200) - 2.5
    table = {f"x{j}": X[:, j].astype(float) for j in range(k)}
    ill = np.where(rng.logistic(size=n) < score, "yes", "no")
    binned = prepare(table, ill, [cb.Linear(name) for name in table], loss="binomial")
    crosses = _core.Crosses()
    split = replace(split_of(np.zeros(n, dtype=bool)), crosses=crosses)
    problem = FitProblem.pose(binned, split, cb.Accelerated(0.1))
    quick, full = (problem.fit(n_iter, search=search) for search in ("auto", "full"))
    for field in ("choices", "corrections", "updates", "risk"):
        np.testing.assert_array_equal(getattr(quick.path, field), getattr(full.path, field))
    assert 32 * k <= len(crosses) < 33 * k  # 94 k if all are made


@pytest.mark.parametrize("n_threads", [1, 3])
def test_results_come_in_the_order_of_the_jobs(n_threads):
    reported = []

    def job(number):
        def run(_halt):
            time.sleep(0.01 * (5 - number))
            return number**2

        return run

    jobs = [job(k) for k in range(5)]
    found = run_all(jobs, n_threads, Progress(), done=lambda k, x: reported.append((k, x)))
    assert found == [0, 1, 4, 9, 16]
    assert sorted(reported) == [(k, k**2) for k in range(5)]


def test_an_error_stops_the_others():
    ended = []

    def long(halt):
        while not halt():
            time.sleep(0.001)
        ended.append(True)

    def wrong(_halt):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run_all([long, wrong, long, long], 2, Progress())
    assert ended == [True]


def test_ctrl_c_stops_fits_in_all_threads(problem):
    table, y, held = problem
    binned = prepare(table, y)

    def job(halt):
        return FitProblem.pose(binned, split_of(held), cb.Plain(1e-4)).fit(10**7, halt=halt)

    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_all([job] * 4, 2, Progress())
    assert time.perf_counter() - began < 5
