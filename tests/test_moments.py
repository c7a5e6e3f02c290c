"""Tests of moments: fits with moments equal fits with bins.

The tests force moments on small problems. The kernels are tested in test_core.
"""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils.memory import ArrayPool
from cwboost.binning import moments
from cwboost.binning.index_sets import IndexSet
from cwboost.binning.moments import MomentSet, bin_by_rule, choose_pieces
from cwboost.binning.number_statistics import LocalNumbers
from cwboost.binning.rules import Bins
from cwboost.binning.summary import Sample, summarize
from cwboost.frames.columns import Numbers
from cwboost.terms.bases import LevelBasis, PowerBasis, SplineBasis

N = 400
OPTIMIZERS = {
    "plain": cb.Plain(rate=0.1),
    "accelerated": cb.Accelerated(rate=0.1, momentum=0.02),
    "hybrid": cb.Hybrid(rate=0.1, momentum=0.1, switch_after=2),
}
LEARNERS = [
    cb.Spline("a"), cb.Spline("b", knots=7, degree=2), cb.Spline("c", knot_placement="quantile"),
    cb.Spline("d", extrapolate="constant"), cb.Category("e"),
]  # fmt: skip


@pytest.fixture
def both(monkeypatch):
    """Return a function that runs a call with bins and with moments, and returns both results."""
    pieces, make = [], moments.MomentPieces.make
    monkeypatch.setattr(moments, "MIN_SHARE", 0.0)
    monkeypatch.setattr(
        moments.MomentPieces, "make", lambda *a: pieces.append(make(*a)) or pieces[-1]
    )

    def call(function):
        pieces.clear()
        monkeypatch.setattr(moments, "MIN_BINS", 10**9)
        bins = function()
        assert not pieces
        monkeypatch.setattr(moments, "MIN_BINS", 10)
        found = function()
        assert pieces
        assert None not in pieces
        return bins, found

    return call


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    out = {
        "a": rng.normal(size=n),
        "b": 1e6 + rng.uniform(size=n),  # far from zero
        "c": rng.standard_t(2, size=n),  # far outliers
        "d": rng.uniform(-1, 1, n),
        "e": rng.integers(0, 5, n).astype(float),  # few values: bins, not moments
    }
    out["d"][rng.uniform(size=n) < 0.1] = np.nan
    return out


def target(x, loss="squared", seed=1):
    rng = np.random.default_rng(seed)
    score = np.sin(2 * x["a"]) + 2 * (x["b"] - 1e6) ** 2 + np.tanh(x["c"]) + 0.2 * x["e"]
    score += np.nan_to_num(x["d"], nan=1.0)
    if loss == "binomial":
        return (rng.uniform(size=len(score)) < 1 / (1 + np.exp(2 - score))).astype(float)
    if loss == "multinomial":
        return np.digitize(score + rng.normal(size=len(score)), [1.0, 2.0])
    return score + 0.3 * rng.normal(size=len(score))


def assert_same(bins, found):
    assert found.choices == bins.choices
    near = {"rtol": 1e-9, "atol": 1e-9}
    np.testing.assert_allclose(found.risk, bins.risk, **near)
    if bins.validation_risk is not None:
        np.testing.assert_allclose(found.validation_risk, bins.validation_risk, **near)
    if bins.shares is not None:
        np.testing.assert_allclose(found.shares, bins.shares, **near)
    for name, term in bins.terms.items():
        other = found.terms[name]
        np.testing.assert_allclose(other.beta, term.beta, **near, err_msg=name)
        for fact in ("mean", "smoothing", "df", "net_df"):
            mine, theirs = getattr(other, fact), getattr(term, fact)
            np.testing.assert_allclose(mine, theirs, **near, err_msg=f"{name}, {fact}")


@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_fit_with_moments_equals_the_fit_with_bins(both, optimizer, loss):
    x = table()
    y, weights = target(x, loss), np.random.default_rng(2).uniform(0.5, 2.0, N)
    held = np.zeros(N, bool)
    held[np.argsort(np.abs(x["a"]))[-30:]] = True  # beyond the range of the training rows
    held[::7] = True

    def fit():
        return cb.fit(
            x, y, LEARNERS, loss=loss, optimizer=OPTIMIZERS[optimizer], n_iter=60, bins="exact",
            weights=weights, validation=held,
        )  # fmt: skip

    assert_same(*both(fit))


@pytest.mark.parametrize("search", ["full", "certified", "row-free"])
def test_every_search_mode(both, search):
    x = table(3000)
    y = target(x)
    assert_same(*both(lambda: cb.fit(x, y, LEARNERS, n_iter=80, bins="exact", search=search)))


def test_learners_that_share_a_column(both):
    x = table()
    y = target(x)
    learners = [
        learner
        for name in "acd"
        for learner in (cb.Linear(name), cb.Centered(name), cb.Polynomial(name, degree=3))
    ]
    assert_same(*both(lambda: cb.fit(x, y, learners, n_iter=60, bins="exact")))


def test_moments_together_with_other_learners(both):
    x = table()
    y = target(x)
    learners = [
        cb.Spline("a"), cb.Spline("b", degree=4), cb.Spline("c", degree=1), cb.Step("c"),
        cb.Spline("d", degree=0, differences=1), cb.Category("e"), cb.Tensor("a", "b"),
    ]  # fmt: skip
    assert_same(*both(lambda: cb.fit(x, y, learners, n_iter=60, bins="exact")))


@pytest.mark.parametrize("rule", [Bins(200), Bins(200, "quantile")])
def test_rules_with_many_bins(both, rule):
    x = table(1000)
    y = target(x)
    assert_same(*both(lambda: cb.fit(x, y, LEARNERS, n_iter=40, bins=rule, validation=0.3)))


@pytest.mark.parametrize("far", [1.0, 1e6, 1e12])
def test_validation_rows_far_beyond_the_range(both, far):
    """An outlier does not reduce the accuracy of the other rows."""
    x = table()
    y = target(x)
    x["a"][-3:] = [-5.0, 5.0, far]
    held = np.arange(N) >= 300
    learners = [cb.Spline("a"), cb.Linear("a"), cb.Linear("c")]

    def fit():
        model = cb.fit(x, y, learners, n_iter=30, bins="exact", validation=held)
        forget = np.arange(N) == N - 1
        return cb.fit(x, y, learners, n_iter=30, bins="exact", validation=held & ~forget,
                      weights=np.where(forget, 0.0, 1.0)), model  # fmt: skip

    (near, every), (near_found, every_found) = both(fit)
    assert_same(near, near_found)
    assert every_found.choices == every.choices
    np.testing.assert_allclose(every_found.validation_risk, every.validation_risk, rtol=1e-9)


def test_few_rows_in_a_piece(both):
    """Some intervals between knots have few rows, others have no rows."""
    rng = np.random.default_rng(3)
    x = {"a": np.concatenate([rng.uniform(0, 1, 40), [5.0, 9.7, 10.0]])}
    y = np.sin(x["a"])
    assert_same(*both(lambda: cb.fit(x, y, [cb.Spline("a")], n_iter=50, bins="exact")))


def test_extend_and_at(both):
    x = table()
    y = target(x)

    def fit():
        return cb.fit(x, y, LEARNERS, n_iter=60, bins="exact", optimizer=OPTIMIZERS["accelerated"])

    def extended():
        short = cb.fit(x, y, LEARNERS, n_iter=25, bins="exact", optimizer=OPTIMIZERS["accelerated"])
        return short.extend(35, x, y)

    bins, found = both(fit)
    assert_same(bins.at(20), found.at(20))
    by_bins, by_moments = both(extended)
    assert_same(bins, by_bins)
    assert_same(found, by_moments)


def test_threads_change_nothing(both):
    x = table(70_000)
    y = target(x, "binomial")
    for loss in ("squared", "binomial"):
        _, (one, two) = both(
            lambda loss=loss: [
                cb.fit(x, y, LEARNERS, n_iter=10, bins="exact", loss=loss, n_threads=n)
                for n in (1, 2)
            ]
        )
        assert one.choices == two.choices
        np.testing.assert_array_equal(one.risk, two.risk)
        for name, term in one.terms.items():
            np.testing.assert_array_equal(term.beta, two.terms[name].beta)


# --- when moments are used ------------------------------------------------------------------------

LINE = PowerBasis(center=0.0, scale=1.0, degree=1)


def binned(x, rule, *bases):
    everyone = Sample.of(len(x))
    summary, room = summarize(Numbers("x", x), everyone), ArrayPool()
    pieces = choose_pieces(LocalNumbers(x), summary, bases) if rule == "exact" else None
    if pieces is not None:
        return pieces.place(x, room)
    return bin_by_rule(x, Bins(rule), everyone, summary, bases, room)


def test_moments_are_used_only_where_they_save_time():
    x = np.random.default_rng(4).normal(size=6000)
    assert isinstance(binned(x, "exact", LINE), MomentSet)
    assert isinstance(binned(x, 5000, LINE), MomentSet)
    assert isinstance(binned(x, 4000, LINE), IndexSet)
    assert isinstance(binned(x, "auto", LINE), IndexSet)
    assert isinstance(binned(np.round(x, 2), "exact", LINE), IndexSet)
    assert isinstance(binned(np.repeat(x[:4500], 10), "exact", LINE), IndexSet)  # 45,000 rows
    quartic = PowerBasis(center=0.0, scale=1.0, degree=4)
    assert isinstance(binned(x, "exact", LINE, quartic), IndexSet)
    assert isinstance(binned(x, "exact", LevelBasis(n_levels=3)), IndexSet)


def test_pieces_too_narrow_for_moments_are_binned():
    x = 1.0 + np.arange(6000) * 2.0**-52  # adjacent floating-point numbers
    knots = tuple(x[[0, 3000, 3001, 5999]])
    assert isinstance(binned(x, "exact", LINE), MomentSet)
    spline = SplineBasis(knots=knots, degree=0, differences=1)
    assert isinstance(binned(x, "exact", spline), IndexSet)


def test_weighted_nodes_have_the_moments_of_the_rows():
    """On each piece, polynomials up to degree 7 have the same weighted sum over nodes and rows."""
    rng = np.random.default_rng(5)
    x = np.append(rng.normal(size=6000), [np.nan] * 3)
    weights = rng.exponential(size=len(x))
    knots = tuple(np.linspace(np.nanmin(x), np.nanmax(x), 6))
    found = binned(x, "exact", SplineBasis(knots=knots, degree=0, differences=1))
    assert isinstance(found, MomentSet)
    assert found.n_pieces == 6
    at_nodes = found.weigh(weights, ArrayPool())
    assert np.isnan(found.values[-1])
    np.testing.assert_allclose(at_nodes[-1], weights[-3:].sum())
    for piece in range(5):
        here, nodes = found.piece == piece, slice(8 * piece, 8 * piece + 8)
        for power in range(8):
            wanted = weights[here] @ x[here] ** power
            size = weights[here] @ np.abs(x[here]) ** power
            assert abs(at_nodes[nodes] @ found.values[nodes] ** power - wanted) < 1e-13 * size
