"""Tests of probing: it equals boosting with shadow columns until a shadow is chosen."""

from __future__ import annotations

import io
import signal
import threading
import time

import numpy as np
import pytest

import cwboost as cb
from cwboost.binning.moments import MomentSet
from cwboost.fitting.preparation import prepare
from cwboost.progress import ProgressLines
from cwboost.selection.probe import shuffle_sets


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(2)
    n = 200
    table = {f"x{k}": rng.integers(0, 40, n) / 40 for k in range(8)}
    table["g"] = rng.choice(list("abc"), n)
    y = np.sin(6 * table["x3"]) + (table["g"] == "a") + rng.normal(0, 0.7, n)
    return table, y


def with_shadows(table, seed, number=0):
    """Return the table with a shadow of every column, permuted in the order of the columns."""
    rng = np.random.default_rng([seed, number])
    shadows = {f"~{name}": column[rng.permutation(len(column))] for name, column in table.items()}
    return {**table, **shadows}


def boost_until_shadow(table, y, **options):
    """Fit a table with shadows; return the model and the first iteration with a shadow."""
    model = cb.fit(table, y, n_iter=600, **options)
    is_shadow = [model.terms[name].columns[0].startswith("~") for name in model.choices]
    stop = is_shadow.index(True)
    return model, stop


def learners(names):
    return [cb.Category(name) if "g" in name else cb.Spline(name) for name in names]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial"])
def test_probing_is_a_fit_among_shadow_columns(problem, weighted, loss):
    table, y = problem
    if loss != "squared":
        y = np.digitize(y, [0.3] if loss == "binomial" else [0, 0.6])
    weights = np.random.default_rng(0).integers(1, 5, len(y)) + 0.5 if weighted else None
    for seed in (3, 4):
        both = with_shadows(table, seed)
        model, stop = boost_until_shadow(
            both, y, learners=learners(both), loss=loss, weights=weights
        )
        found = cb.probe(table, y, loss=loss, weights=weights, random_state=seed)
        assert found.stops == [stop]
        assert found.shadows == [model.choices[stop].removeprefix("~")]
        assert found.model.choices == model.choices[:stop]
        np.testing.assert_allclose(found.model.risk, model.risk[: stop + 1], rtol=1e-12)
        assert list(found.model.terms) == list(table)
        assert found.selected == list(dict.fromkeys(model.choices[:stop]))


def test_the_model_equals_an_ordinary_fit(problem):
    table, y = problem
    found = cb.probe(table, y)
    m = found.model.n_iter
    expected = cb.fit(table, y, n_iter=m)
    assert found.model.choices == expected.choices
    np.testing.assert_allclose(found.model.predict(table), expected.predict(table), rtol=1e-12)
    assert found.model.importance() == pytest.approx(expected.importance(), rel=1e-9)
    assert found.model.stopped == "a shadow came"
    longer = found.model.extend(5, table, y)
    assert longer.choices == cb.fit(table, y, n_iter=m + 5).choices
    assert f"the shadow of {found.shadows[0]!r} was chosen after {m} iterations" in found.summary()


def test_shadows_of_moments():
    """Columns with very many values have no bins, and neither have their shadows."""
    rng = np.random.default_rng(0)
    n = 6000
    table = {"a": rng.normal(size=n), "b": rng.uniform(size=n), "c": rng.exponential(size=n)}
    y = np.sin(3 * table["a"]) + rng.normal(size=n)
    binned = prepare(table, y, bins="exact")
    assert all(isinstance(s, MomentSet) for s in binned.shared_bins.sets)
    both = with_shadows(table, 1)
    model, stop = boost_until_shadow(both, y, bins="exact")
    found = cb.probe(table, y, bins="exact", random_state=1)
    assert found.model.choices == model.choices[:stop]
    assert found.shadows == [model.choices[stop].removeprefix("~")]


def test_terms_of_a_column_share_one_permutation(problem):
    table, y = problem
    binned = prepare(table, y, [cb.Spline("x1"), cb.Step("x1"), cb.Tensor("x1", "x2"), ...])
    sets = shuffle_sets(binned, np.random.default_rng(0))
    spline, step, pair = (sets[k] for k in binned.shared_bins.of_term[:3])
    column = spline.values[spline.index]
    assert not np.array_equal(column, table["x1"])
    np.testing.assert_array_equal(np.sort(column), np.sort(table["x1"]))
    order = [len(set(column[step.index == b])) for b in range(step.n_bins)]
    assert sum(order) == len(set(column))  # a value lies in one step
    rows = sorted(map(tuple, pair.values[pair.index]))
    assert rows == sorted(zip(table["x1"], table["x2"], strict=True))


def test_repeats_differ_only_in_where_they_stop(problem):
    table, y = problem
    found = cb.probe(table, y, repeats=7, random_state=5)
    one_by_one = []
    for number in range(7):
        model, stop = boost_until_shadow(
            both := with_shadows(table, 5, number), y, learners=learners(both)
        )
        one_by_one.append((stop, model.choices[:stop]))
    assert list(found.stops) == [stop for stop, _ in one_by_one]
    longest = max(one_by_one)[1]
    assert all(choices == longest[:stop] for stop, choices in one_by_one)
    middle = sorted(found.stops)[3]
    assert found.model.n_iter == middle
    chosen = [set(choices) for _, choices in one_by_one]
    assert found.frequency == {
        name: np.mean([name in some for some in chosen]) for name in dict.fromkeys(longest)
    }
    assert found.selected == [name for name, share in found.frequency.items() if share > 0.5]
    rows = found.table()
    assert list(rows) == ["column", "first chosen", "frequency", "selected"]
    assert rows["selected"].sum() == len(found.selected)
    assert "in 7 of 7 repeats" in found.summary()
    assert repr(found).endswith("7 repeats>")
    for n_threads in (1, 3):
        again = cb.probe(table, y, repeats=7, random_state=5, n_threads=n_threads)
        assert list(again.stops) == list(found.stops)


def test_by_term(problem):
    table, y = problem
    found = cb.probe(table, y, "auto", by="term")
    assert set(found.selected) <= set(found.model.terms)
    assert found.selected == list(dict.fromkeys(found.model.choices))
    columns = cb.probe(table, y, "auto").selected
    assert set(columns) == {found.model.terms[name].columns[0] for name in found.selected}


def test_offset_and_exposure(problem):
    table, y = problem
    known = cb.probe(table, y, offset=np.sin(6 * table["x3"]) + 1.0 * (table["g"] == "a"))
    assert "x3" not in known.selected
    years = np.exp(2 * table["x3"])
    counts = np.random.default_rng(0).poisson(years)
    assert "x3" in cb.probe(table, counts, loss="poisson").selected
    assert "x3" not in cb.probe(table, counts, loss="poisson", exposure=years).selected
    data = {**table, "years": years, "counts": counts}
    named = cb.probe(data, "counts", loss="poisson", exposure="years")
    assert set(named.model.terms) == set(table)
    assert named.model.settings.exposure == "years"


def test_noise_is_not_selected_half_of_the_time():
    """A noise column is chosen before its shadow as often as after it."""
    rng = np.random.default_rng(0)
    none = [
        not cb.probe(rng.normal(size=(60, 5)), rng.normal(size=60), random_state=seed).selected
        for seed in range(60)
    ]
    assert 15 <= sum(none) <= 45  # 30 expected; four standard deviations


def test_short_fits_and_bad_arguments(problem):
    table, y = problem
    with pytest.warns(UserWarning, match="no shadow was chosen in 3 iterations; raise n_iter"):
        short = cb.probe(table, y, n_iter=3)
    assert (short.stops, short.shadows) == ([3], [None])
    assert short.model.n_iter == 3
    assert "no shadow was chosen in 3 iterations" in short.summary()
    with pytest.warns(UserWarning, match="in 2 of 2 repeats; raise n_iter"):
        cb.probe(table, y, n_iter=3, repeats=2)
    for options, message in (
        ({"repeats": 0}, "repeats: expected a whole number from 1"),
        ({"by": "row"}, "by: expected"),
        ({"rate": 0}, "rate"),
        ({"n_iter": 1.5}, "n_iter: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            cb.probe(table, y, **options)
    with (
        pytest.warns(UserWarning, match="constant"),
        pytest.raises(ValueError, match="no column varies"),
    ):
        cb.probe({"x": np.ones(20)}, np.arange(20.0))


@pytest.mark.parametrize(("repeats", "n_threads"), [(1, 1), (4, 1), (4, 2)])
def test_progress_and_ctrl_c(problem, repeats, n_threads):
    table, y = problem
    stream = io.StringIO()
    bar = ProgressLines(stream, keep=True)
    bar.every, bar._next = 0.0, 0.0
    cb.probe(table, y, repeats=repeats, n_threads=n_threads, progress=bar)
    assert ("/1000  risk" if repeats == 1 else "fit 4/4") in stream.getvalue()
    timer = threading.Timer(0.4, signal.raise_signal, [signal.SIGINT])
    began = time.perf_counter()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cb.probe(
            {"x": table["x3"]}, table["x3"], repeats=repeats, rate=1e-7, n_iter=10**8,
            n_threads=n_threads,
        )  # fmt: skip
    assert time.perf_counter() - began < 5
