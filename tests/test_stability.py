"""Tests of stability selection: bounds equal published values, samples are halves of the rows, fits
equal ordinary fits, and false selections stay within the bound.
"""

from __future__ import annotations

import io
import signal
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import cwboost as cb
from cwboost.fitting.input_data import Split
from cwboost.fitting.preparation import prepare
from cwboost.fitting.problem import FitProblem
from cwboost.progress import ProgressLines
from cwboost.selection.stability import RandomHalves
from cwboost.selection.stability_bounds import (
    ASSUMPTIONS,
    Bound,
    _largest_tail,
    complete,
    error_rate,
)

# --- bounds ---------------------------------------------------------------------------------------

# From the R package stabs 0.7-1 (tests/regtest-inference.Rout.save): p = 100, cutoff 0.6, 50 pairs,
# q = 1..10.
PUBLISHED = {
    "none": [0.05, 0.2, 0.45, 0.8, 1.25, 1.8, 2.45, 3.2, 4.05, 5.0],
    "unimodal": [
        0.02631579, 0.1052632, 0.2368421, 0.4210526, 0.6578947, 0.9473684, 1.289474, 1.684211,
        2.131579, 2.631579,
    ],
    "r-concave": [
        0.006971364, 0.03342845, 0.08691176, 0.1637231, 0.2605329, 0.3820466, 0.5295188, 0.7042719,
        0.9077127, 1.141338,
    ],
}  # fmt: skip


@pytest.mark.parametrize("assumption", ASSUMPTIONS)
def test_error_rates_equal_published_values(assumption):
    found = [error_rate(100, q, 0.6, assumption=assumption) for q in range(1, 11)]
    np.testing.assert_allclose(found, PUBLISHED[assumption], rtol=5e-7)  # all published digits


@pytest.mark.parametrize(
    ("p", "options", "assumption", "expected"),
    [
        (200, {"cutoff": 0.6, "pfer": 0.2}, "r-concave", {"q": 6}),
        (200, {"cutoff": 0.6, "pfer": 0.2}, "unimodal", {"q": 3}),
        (200, {"q": 7, "pfer": 0.2}, "r-concave", {"cutoff": 0.62}),
        (200, {"q": 7, "pfer": 0.2}, "unimodal", {"cutoff": 0.81}),
        (100, {"q": 10, "pfer": 5}, "r-concave", {"cutoff": 0.37}),
        (100, {"q": 10, "pfer": 1}, "r-concave", {"cutoff": 0.62, "pfer": 0.8971682}),
        (10, {"q": 3, "pfer": 1}, "none", {"cutoff": 0.95, "pfer": 1.0}),
    ],
)
def test_the_remaining_parameter_equals_the_published_value(p, options, assumption, expected):
    found = complete(p, assumption=assumption, **options)._asdict()
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-7)


def random_r_concave(rng, n, r, mean):
    """Return a distribution on 0..n with this mean and a convex r-th power, or None."""
    slopes = np.sort(rng.normal(rng.choice([0, 1, 3]), rng.choice([0.01, 0.3, 1.0]), n))
    shape = np.append(0.0, np.cumsum(slopes))  # increasing slopes: convex
    shape -= shape.min()
    shape[rng.integers(2, n + 2) :] = np.inf  # f is 0 there

    def density(log_a):
        f = (np.exp(log_a) + shape) ** (1 / r)
        return f / f.sum()

    def excess(log_a):
        return density(log_a) @ np.arange(n + 1) - mean

    if not excess(-12) < 0 < excess(12):
        return None
    return density(brentq(excess, -12, 12))


@pytest.mark.parametrize("r", [-0.5, -0.25])
def test_no_r_concave_distribution_has_a_larger_tail(r):
    """Also checks the extreme distributions that define the bound, on a fine grid."""
    rng, n, mean = np.random.default_rng(0), 12, 0.4
    seen, largest = 0, np.zeros(n + 1)
    for _ in range(4000):
        f = random_r_concave(rng, n, r, mean)
        if f is not None:
            seen += 1
            largest = np.maximum(largest, f[::-1].cumsum()[::-1])
    assert seen > 300
    i = np.arange(n + 1.0)
    for k in range(2, n + 1):
        for a in np.geomspace(1e-3, 1e3, 3000):
            f = np.where(i <= k, (a + i) ** (1 / r), 0.0)
            x = (mean * f.sum() - f @ i) / (k + 1 - mean)  # the weight of k + 1 that gives the mean
            if k < n and 0 <= x <= (a + k + 1) ** (1 / r):
                f[k + 1] = x
                largest = np.maximum(largest, (f / f.sum())[::-1].cumsum()[::-1])
    for t in range(2, n + 1):
        bound = _largest_tail(mean, t, n, r)
        assert largest[t] <= bound * 1.005 + 1e-12  # the tolerance of the published tables
        assert t < 3 or largest[t] >= 0.98 * bound  # and the bound is attained


@settings(max_examples=40)
@given(
    p=st.integers(2, 500),
    share=st.floats(0, 1),
    cutoff=st.integers(51, 99),
    assumption=st.sampled_from(ASSUMPTIONS),
)
def test_bounds_grow_with_q_and_fall_with_the_cutoff(p, share, cutoff, assumption):
    q = 1 + int(share * (p - 1))
    rate = error_rate(p, q, cutoff / 100, assumption=assumption)
    assert rate > 0
    assert error_rate(p, q, (cutoff + 1) / 100, assumption=assumption) <= rate * (1 + 2e-3)
    if q > 1:
        assert error_rate(p, q - 1, cutoff / 100, assumption=assumption) <= rate * (1 + 2e-3)
    worst = error_rate(p, q, cutoff / 100, assumption="none")
    assert min(rate, p) <= worst * (1 + 1e-9) or assumption == "r-concave"


@settings(max_examples=25)
@given(
    p=st.integers(5, 300),
    pfer=st.floats(0.05, 5),
    cutoff=st.integers(55, 100),
    assumption=st.sampled_from(ASSUMPTIONS),
)
def test_q_is_the_largest_number_that_keeps_the_bound(p, pfer, cutoff, assumption):
    try:
        found = complete(p, cutoff=cutoff / 100, pfer=pfer, assumption=assumption)
    except ValueError:
        assert error_rate(p, 1, cutoff / 100, assumption=assumption) > pfer
        return
    assert found.pfer <= pfer * (1 + 1e-9)
    if found.q < p:
        assert error_rate(p, found.q + 1, cutoff / 100, assumption=assumption) > pfer
    back = complete(p, q=found.q, pfer=pfer, assumption=assumption)
    assert back.cutoff <= cutoff / 100 + 1e-9
    assert complete(p, q=found.q, cutoff=found.cutoff, assumption=assumption) == found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "pass two of q, cutoff and pfer, for instance cutoff=0.75, pfer=1; got 0"),
        ({"q": 3}, "got 1"),
        ({"q": 3, "cutoff": 0.9, "pfer": 1}, "got 3"),
        ({"q": 0, "cutoff": 0.9}, "q: expected a whole number from 1"),
        ({"q": 4, "cutoff": 0.9}, "q: expected a whole number from 1 to 3, the number of"),
        ({"q": 2.5, "cutoff": 0.9}, "q: expected a whole number"),
        ({"q": 2, "cutoff": 0.5}, "cutoff: expected a number above 0.5 and up to 1"),
        ({"q": 2, "cutoff": 1.1}, "cutoff: expected"),
        ({"q": 2, "pfer": 0}, "pfer: expected a number above 0"),
        ({"cutoff": 0.6, "pfer": 1e-6}, "even fits that choose 1 of 3 have the bound"),
        ({"q": 3, "pfer": 1e-6}, "even if all of them must agree"),
        ({"q": 2, "cutoff": 0.9, "assumption": "normal"}, "assumption: expected 'unimodal'"),
        ({"q": 2, "cutoff": 0.9, "sampling": "all"}, "sampling: expected 'complementary' or"),
        (
            {"q": 2, "cutoff": 0.9, "sampling": "subsampling", "assumption": "unimodal"},
            "'unimodal' needs pairs of halves",
        ),
        ({"q": 2, "cutoff": 0.9, "n_samples": 1}, "n_samples: expected a whole number from 2"),
        ({"q": 2, "cutoff": 0.9, "by": "row"}, "by: expected 'column' or 'term'"),
        ({"q": 2, "cutoff": 0.9, "groups": [1, 2]}, "groups has 2 rows, the table has 40"),
        ({"q": 2, "cutoff": 0.9, "groups": np.ones(40)}, "groups: all rows are in one group"),
        ({"q": 2, "cutoff": 0.9, "n_iter": -1}, "n_iter: expected"),
        ({"q": 2, "cutoff": 0.9, "rate": 0}, "rate"),
        ({"q": 2, "cutoff": 0.9, "n_threads": 0}, "n_threads: expected"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match=message):
        cb.stability(X, X[:, 0], **options)


# --- halves ---------------------------------------------------------------------------------------


def data_of(y, loss="squared", **options):
    return prepare({"x": np.arange(len(y)) + 0.0}, y, "linear", loss, **options).data


def test_pairs_of_halves_have_no_row_in_common():
    halves = RandomHalves.make(data_of(np.arange(21.0)), True, 3, None)
    for b in range(5):
        one, other = halves[2 * b], halves[2 * b + 1]
        assert one.sum() == other.sum() == 10
        assert not np.any(one & other)
    assert not np.array_equal(halves[0], halves[2])
    np.testing.assert_array_equal(halves[4], halves[4])
    single = RandomHalves.make(data_of(np.arange(21.0)), False, 3, None)
    assert [single[k].sum() for k in range(4)] == [10] * 4
    np.testing.assert_array_equal(single[3], halves[6])  # the first half of each pair
    drawn = np.mean([single[k] for k in range(2000)], axis=0)  # all rows equally often
    np.testing.assert_allclose(drawn, 10 / 21, atol=5 * np.sqrt(0.25 / 2000))


def test_classes_and_groups_are_halved():
    y = np.repeat(["a", "b", "c"], [4, 30, 10])
    halves = RandomHalves.make(data_of(y, "multinomial"), True, 0, None)
    for number in range(6):
        marks = halves[number]
        assert [int(marks[y == c].sum()) for c in "abc"] == [2, 15, 5]
    groups = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    halves = RandomHalves.make(data_of(np.arange(55.0)), True, 0, groups)
    for number in range(6):
        marks = halves[number]
        inside = [set(marks[groups == g]) for g in range(10)]
        assert all(len(seen) == 1 for seen in inside)
        assert sum(True in seen for seen in inside) == 5


# --- the selection --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    n = 150
    table = {f"x{k}": rng.integers(0, 30, n) / 30 for k in range(12)}
    table["g"] = rng.choice(list("abc"), n)
    y = np.sin(6 * table["x3"]) + (table["g"] == "a") + 2 * table["x7"] + rng.normal(0, 0.5, n)
    return table, y


def test_true_columns_are_selected(problem):
    table, y = problem
    found = cb.stability(table, y, cutoff=0.8, pfer=1, n_samples=20)
    assert set(found.selected) == {"x3", "g", "x7"}
    assert found.frequency["x3"] == 1.0
    assert found.pfer <= 1
    assert Bound(found.q, found.cutoff, found.pfer) == complete(
        13, cutoff=0.8, pfer=1, n_samples=20
    )
    assert found.first.shape == (40, 13)
    assert np.all(np.count_nonzero(found.first, axis=1) == found.q)


def test_fits_equal_fit_on_half_of_the_rows(problem):
    """Each fit runs until q columns are chosen, and no longer."""
    table, y = problem
    table = {name: column for name, column in table.items() if name != "g"}
    w = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    q, names = 4, list(table)
    found = cb.stability(
        table, y, "linear", q=q, cutoff=0.9, n_samples=4, weights=w, random_state=7
    )
    halves = RandomHalves.make(prepare(table, y, "linear").data, True, 7, None)
    for number in range(8):
        marks = halves[number]
        part = {name: column[marks] for name, column in table.items()}
        choices = cb.fit(part, y[marks], "linear", n_iter=500, weights=w[marks]).choices
        order = list(dict.fromkeys(choices))[:q]
        expected = [choices.index(name) + 1 if name in order else 0 for name in names]
        assert found.first[number].tolist() == expected


def test_terms_of_a_column_count_as_one(problem):
    table, y = problem
    found = cb.stability(table, y, "auto", q=3, cutoff=0.9, n_samples=3)
    assert list(found.names) == list(table)
    terms = cb.stability(table, y, "auto", q=3, cutoff=0.9, n_samples=3, by="term")
    assert len(terms.names) == 12 * 2 + 1
    assert "spline(x3)" in terms.names
    assert next(iter(terms.table())) == "term"
    binned = prepare(table, y, "auto")
    marks = RandomHalves.make(binned.data, True, 0, None)[0]
    w = marks.astype(float)
    path = FitProblem.pose(binned, Split(w, None, w), cb.Plain()).fit(100)
    columns = [path.terms[name].columns[0] for name in path.choices]
    assert set(np.array(found.names)[found.first[0] > 0]) == set(list(dict.fromkeys(columns))[:3])
    assert set(np.array(terms.names)[terms.first[0] > 0]) == set(
        list(dict.fromkeys(path.choices))[:3]
    )


def test_threads_and_seed(problem):
    table, y = problem
    options = {"q": 4, "cutoff": 0.8, "n_samples": 5}
    one = cb.stability(table, y, n_threads=1, **options)
    three = cb.stability(table, y, n_threads=3, **options)
    np.testing.assert_array_equal(one.first, three.first)
    other = cb.stability(table, y, random_state=1, **options)
    assert not np.array_equal(one.first, other.first)


def test_weights_offsets_exposure_and_classes(problem):
    table, y = problem
    options = {"q": 3, "cutoff": 0.8, "n_samples": 8}
    rng = np.random.default_rng(0)
    # rows of weight zero are absent
    present = rng.uniform(size=len(y)) < 0.8
    some = {name: column[present] for name, column in table.items()}
    groups = np.arange(len(y)) // 2
    for more in ({}, {"groups": groups}):
        zero = cb.stability(table, y, weights=present.astype(float), **options, **more)
        less = {name: value[present] for name, value in more.items()}
        gone = cb.stability(some, y[present], **options, **less)
        np.testing.assert_array_equal(zero.first, gone.first)
    # the offset contains the effect of x3
    known = cb.stability(table, y, offset=np.sin(6 * table["x3"]), **options)
    assert known.frequency["x3"] < 0.8
    assert {"g", "x7"} <= set(known.selected)
    # x3 affects the counts only through the exposure
    years = np.exp(table["x3"] * 3)
    counts = rng.poisson(years * np.where(table["g"] == "a", 3, 1))
    found = cb.stability(table, counts, loss="poisson", exposure=years, **options)
    assert found.selected == ["g"]
    with_years = cb.stability(table, counts, loss="poisson", **options)
    assert "x3" in with_years.selected
    classes = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    found = cb.stability(table, classes, loss="multinomial", **options)
    assert set(list(found.frequency)[:3]) == {"x3", "g", "x7"}
    formula = "y ~ s(x3) + s(x1) + s(x2) + cat(g)"
    found = cb.stability({**table, "y": y}, formula, **options)
    assert list(found.names) == ["x3", "x1", "x2", "g"]


def test_subsampling(problem):
    table, y = problem
    found = cb.stability(table, y, q=4, cutoff=0.9, sampling="subsampling", n_samples=10)
    assert found.first.shape == (10, 13)
    assert found.assumption == "none"
    assert found.pfer == pytest.approx(16 / 13 / 0.8)
    assert "10 halves of the rows" in found.summary()
    assert "assuming" not in found.summary()


def test_fits_that_are_too_short_give_a_warning(problem):
    table, y = problem
    with pytest.warns(UserWarning, match=r"10 of 10 fits chose fewer than q = 6 columns in 5 iter"):
        found = cb.stability(table, y, q=6, cutoff=0.9, n_samples=5, n_iter=5)
    assert found.first.max() <= 5


def test_no_column_to_select():
    with (
        pytest.warns(UserWarning, match="constant"),
        pytest.raises(ValueError, match="no column varies"),
    ):
        cb.stability({"x": np.ones(20)}, np.arange(20.0), q=1, cutoff=0.9)


def test_table_path_cutoffs_and_summary(problem):
    table, y = problem
    found = cb.stability(table, y, cutoff=0.9, q=4, n_samples=10)
    rows = found.table()
    assert list(rows) == ["column", "frequency", "selected", "first chosen"]
    assert list(rows["column"]) == list(found.frequency)
    assert rows["frequency"].tolist() == sorted(found.frequency.values(), reverse=True)
    assert [n for n, s in zip(rows["column"], rows["selected"], strict=True) if s] == found.selected
    path = found.path
    shares = dict(zip(found.names, path[-1], strict=True))
    assert shares == pytest.approx(found.frequency)
    assert np.all(np.diff(path, axis=0) >= 0)
    assert np.all(path.sum(axis=1) <= found.q + 1e-12)
    first = np.where(found.first == 0, 10**6, found.first)
    np.testing.assert_allclose(path[3], np.mean(first <= 3, axis=0))
    other = found.with_cutoff(0.6)
    assert other.pfer == pytest.approx(error_rate(13, 4, 0.6, n_samples=10))
    assert set(found.selected) <= set(other.selected)
    strict = found.with_cutoff(pfer=found.pfer)
    assert (strict.cutoff, strict.pfer) == pytest.approx((0.9, found.pfer))
    text = found.summary()
    assert "at least 90% of the fits chose" in text
    assert "10 pairs of halves of the rows: 20 fits until 4 of 13 columns were chosen" in text
    assert f"at most {found.pfer:.3g} of the selected columns are selected by chance" in text
    assert "columns selected: x3" in repr(found)


def test_cutoffs_are_reached_in_spite_of_rounding(problem):
    table, y = problem
    found = cb.stability(table, y, cutoff=0.9, q=4, n_samples=10)
    for count in range(11, 21):
        name = found.names[0]
        first = np.zeros_like(found.first)
        first[:count, 0] = 1
        changed = type(found)(**{**fields_of(found), "first": first})
        assert changed.with_cutoff(count / 20).selected == [name]
        assert count == 20 or changed.with_cutoff((count + 1) / 20).selected == []


def fields_of(found):
    return {name: getattr(found, name) for name in type(found).__dataclass_fields__}


def test_progress_and_ctrl_c(problem):
    table, y = problem
    stream = io.StringIO()
    bar = ProgressLines(stream, keep=True)
    bar.every, bar._next = 0.0, 0.0
    cb.stability(table, y, q=3, cutoff=0.9, n_samples=3, progress=bar, n_threads=2)
    assert "fit 6/6" in stream.getvalue()
    for n_threads in (1, 2):
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        began = time.perf_counter()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            cb.stability(table, y, q=13, cutoff=0.9, rate=1e-6, n_iter=10**7, n_threads=n_threads)
        assert time.perf_counter() - began < 5
    cb.stability(table, y, q=3, cutoff=0.9, n_samples=2)  # later calls still work


# --- plots ----------------------------------------------------------------------------------------


def test_plots(problem):
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    table, y = problem
    table = {"iteration": table["x3"], "$x$": table["x7"], **table}
    found = cb.stability(table, y, cutoff=0.9, q=4, n_samples=5)
    bars = found.plot(max_names=4, labels={"g": "the group"})
    words = [t.get_text() for t in bars.ax_.get_yticklabels()]
    assert "the group" in words
    assert words[-1] == f"each of {len(table) - 4} others"
    assert bars.ax_.get_xlabel() == "share of the fits that chose the column"
    assert "cutoff 0.9" in [t.get_text() for t in bars.ax_.texts]
    path = found.plot(kind="path")
    assert next(iter(path.data)) == "iteration_"
    assert len(path.ax_.lines) == len(table) + 1
    bars.figure_.canvas.draw()
    path.figure_.canvas.draw()
    figure, ax = plt.subplots()
    assert cb.StabilityDisplay.from_stability(found, ax=ax).figure_ is figure
    with pytest.raises(ValueError, match="kind: expected"):
        found.plot(kind="bars")
    plt.close("all")


# --- the bound on simulated columns ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_the_bound_is_kept(correlation):
    from benchmarks import stability as simulation

    found = simulation.stable(20, correlation)
    for assumption in ASSUMPTIONS:
        bounds = np.array([bound for _, bound in simulation.cutoffs(assumption)])
        false = found[:, :, 1]
        error = false.std(axis=0) / np.sqrt(len(false))
        assert np.all(false.mean(axis=0) <= bounds + 2 * error)
    assert found[:, 0, 0].mean() > 3  # of 6
