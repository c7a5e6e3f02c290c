"""Tests of the kernels that set up a fit, against the NumPy and SciPy code that they replace.

Covers setup.hpp and system.hpp: results, sizes of arrays, threads, columns that are not copied.
Sanitizer builds run this file as well.
"""

from __future__ import annotations

import gc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.polynomial.chebyshev import chebvander
from scipy.interpolate import BSpline
from scipy.linalg import block_diag, cho_solve
from scipy.sparse import csr_array

import cwboost as cb
from cwboost import _core as core
from cwboost._utils.memory import SMALL, ArrayPool, garbage_collection_paused
from cwboost._utils.threads import map_in_threads
from cwboost.binning.index_sets import CodedColumn
from cwboost.binning.rules import Bins, nearest
from cwboost.binning.summary import Sample, summarize
from cwboost.fitting import shared_bins, smoothing, systems, term_plans
from cwboost.fitting.smoothing import factorize, find_smoothing, spectrum
from cwboost.frames.columns import Numbers
from cwboost.frames.read_frames import read
from cwboost.terms.bases import difference_penalty

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 5e-324, -5e-324, 1e300, -1e300, 2.0**53]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-20, 20).map(lambda k: k / 2),
)
CELLS = st.one_of(NUMBERS, st.just(np.nan))


def columns(cells=CELLS, least=0):
    return st.lists(cells, min_size=least, max_size=60).map(lambda x: np.array(x, dtype=float))


@st.composite
def marked(draw, cells=CELLS, least=0):
    """A column, and marks of its training rows or None."""
    values = draw(columns(cells, least))
    marks = draw(st.one_of(st.none(), arrays(bool, len(values))))
    return values, marks


def seen(values, marks):
    rows = ~np.isnan(values)
    return rows if marks is None else rows & marks


WIDTHS = {np.uint8: 256, np.uint16: 2**16, np.uint32: 2**32}
LARGE = {  # columns that are hard to sort in buckets, or have many ties
    "even": lambda rng: rng.uniform(-3, 5, 30_000),
    "normal": lambda rng: rng.normal(size=30_000),
    "heavy tails": lambda rng: rng.standard_cauchy(30_000) ** 3,
    "one far away": lambda rng: np.append(rng.normal(size=30_000), 1e290),
    "few values": lambda rng: rng.integers(0, 7, 30_000) / 3,
    "constant": lambda rng: np.full(9000, 2.5),
    "widest": lambda rng: rng.choice([-1.7e308, 1.7e308, 0.0, 1.0], 9000),
    "denormal": lambda rng: rng.integers(0, 9000, 9000) * 5e-324,
    "missing": lambda rng: rng.choice([np.nan, *rng.normal(size=900)], 30_000),
}  # fmt: skip


@pytest.fixture(params=LARGE)
def large(request):
    return LARGE[request.param](np.random.default_rng(3))


# --- summaries of columns -------------------------------------------------------------------------


@given(marked(st.one_of(CELLS, st.sampled_from([np.inf, -np.inf]))))
def test_survey(given_column):
    values, marks = given_column
    rows = seen(values, marks)
    low, high, missing, everywhere, beyond, infinite = core.survey(values, marks)
    known = values[rows]
    assert low == known.min(initial=np.inf)
    assert high == known.max(initial=-np.inf)
    inside = np.ones(len(values), bool) if marks is None else marks
    assert missing == np.isnan(values[inside]).sum()
    assert everywhere == np.isnan(values).sum()
    assert beyond == bool(np.any((values < low) | (values > high)))
    assert infinite == bool(np.isinf(values).any())


@given(marked(), st.integers(1, 30))
def test_distinct(given_column, limit):
    values, marks = given_column
    expected = np.unique(values[seen(values, marks)])
    found = core.distinct(values, marks, limit)
    if len(expected) > limit:
        assert found is None
    else:
        np.testing.assert_array_equal(found, expected)


def test_distinct_of_many(large):
    expected = np.unique(large[~np.isnan(large)])
    np.testing.assert_array_equal(core.distinct(large, None, 10**6), expected)
    assert core.distinct(large, None, len(expected) - 1) is None or len(expected) == 1


# --- sorting --------------------------------------------------------------------------------------


def weighted_quantile(values, weights, q):
    """Return the midpoint of the interval of minimisers of the weighted check loss."""
    order = np.argsort(values, kind="stable")
    values, reached = values[order], np.cumsum(weights[order])
    at, slack = q * reached[-1], 1e-12 * reached[-1]
    low = np.minimum(np.searchsorted(reached, at - slack), len(values) - 1)
    high = np.minimum(np.searchsorted(reached, at + slack, side="right"), len(values) - 1)
    with np.errstate(over="ignore"):
        return values[low] + (values[high] - values[low]) / 2


@given(marked(least=1), st.data())
def test_quantiles(given_column, data):
    values, marks = given_column
    weights = data.draw(arrays(float, len(values), elements=st.sampled_from([0.5, 1.0, 3.0, 0.1])))
    q = np.array(data.draw(st.lists(st.floats(0, 1), min_size=1, max_size=5)))
    rows = seen(values, marks)
    if not rows.any():
        with pytest.raises(ValueError, match="the column has no numbers"):
            core.quantiles(values, marks, None, q)
        return
    for w in (None, weights):
        of_rows = np.ones(rows.sum()) if w is None else w[rows]
        expected = weighted_quantile(values[rows], of_rows, q)
        np.testing.assert_array_equal(core.quantiles(values, marks, w, q), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_of_many(large, weighted):
    rng = np.random.default_rng(1)
    weights = rng.uniform(size=len(large)) if weighted else None
    rows = ~np.isnan(large)
    q = np.linspace(0, 1, 512)
    expected = weighted_quantile(large[rows], weights[rows] if weighted else np.ones(rows.sum()), q)
    np.testing.assert_array_equal(core.quantiles(large, None, weights, q), expected)


@given(marked(), st.booleans())
def test_weigh_distinct(given_column, weighted):
    values, marks = given_column
    w = np.arange(1.0, len(values) + 1) if weighted else None
    rows = seen(values, marks)
    numbers, inverse = np.unique(values[rows], return_inverse=True)
    found, sums = core.weigh_distinct(values, marks, w)
    np.testing.assert_array_equal(found, numbers)
    ones = np.ones(rows.sum()) if w is None else w[rows]
    np.testing.assert_array_equal(sums, np.bincount(inverse, ones, len(numbers)))


# --- bins -----------------------------------------------------------------------------------------


def exact_bins(values, marks):
    """Return bins of distinct values: training rows first, then other rows, then missing."""
    of_training = np.unique(values[seen(values, marks)])
    others = np.setdiff1d(np.unique(values[~np.isnan(values)]), of_training)
    points = np.concatenate([of_training, others])
    index = np.full(len(values), len(points))
    for i, point in enumerate(points):
        index[values == point] = i
    return index, np.append(points, np.nan) if np.isnan(values).any() else points


@given(marked(), st.sampled_from(list(WIDTHS)))
def test_exact_bins(given_column, width):
    values, marks = given_column
    index, points = np.empty(len(values), width), np.empty(len(values) + 1)
    n = core.bin_exactly(values, marks, index, points)
    expected, bin_values = exact_bins(values, marks)
    np.testing.assert_array_equal(points[:n], bin_values)
    np.testing.assert_array_equal(index, expected)


def test_exact_bins_of_many(large):
    index, points = np.empty(len(large), np.uint32), np.empty(len(large) + 1)
    n = core.bin_exactly(large, None, index, points)
    expected, inverse = np.unique(large, return_inverse=True)
    np.testing.assert_array_equal(points[:n], expected)
    np.testing.assert_array_equal(index, inverse)


def test_exact_bins_refuse_arrays_that_are_too_small():
    values = np.arange(300.0)
    with pytest.raises(ValueError, match="too small for the number of bins"):
        core.bin_exactly(values, None, np.empty(300, np.uint8), np.empty(301))
    with pytest.raises(ValueError, match="shorter than the number of bins"):
        core.bin_exactly(values, None, np.empty(300, np.uint16), np.empty(299))


def equal_bins(values, first, last, size):
    step = (last - first) / (size - 1)
    inside = np.clip(np.where(np.isnan(values), first, values), first, last)
    index = np.minimum(np.floor((inside - first) / step + 0.5).astype(np.int64), size - 1)
    return np.where(np.isnan(values), size, index)


@given(columns(), st.integers(2, 255), st.sampled_from(list(WIDTHS)), st.data())
def test_equal_bins(values, size, width, data):
    ends = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-6)
    first, last = sorted(data.draw(st.lists(ends, min_size=2, max_size=2, unique=True)))
    halves = first + (np.arange(2 * size) / 2) * ((last - first) / (size - 1))  # ties at halves
    values = np.concatenate([values, halves])
    index = np.empty(len(values), width)
    core.assign_equal(values, first, last, size, index)
    np.testing.assert_array_equal(index, equal_bins(values, first, last, size))


@given(columns(), columns(NUMBERS, least=1), st.sampled_from(list(WIDTHS)))
def test_nearest_bins(values, points, width):
    points = np.unique(np.clip(points, -1e307, 1e307))
    values = np.concatenate([values, points, (points[1:] + points[:-1]) / 2])
    index = np.empty(len(values), width)
    others = core.assign_nearest(values, points, index)
    known = ~np.isnan(values)
    expected = np.where(known, nearest(points, values), len(points))
    np.testing.assert_array_equal(index, expected)
    assert others == np.sum(values[known] != points[expected[known]])


def test_nearest_bins_of_many(large):
    known = large[~np.isnan(large)]
    known = known[np.abs(known) < 1e300]
    for points in (np.unique(known[:40]), np.unique(known[:3000]), np.unique(np.round(known, 1))):
        index = np.empty(len(large), np.uint32)
        core.assign_nearest(large, points, index)
        expected = np.where(np.isnan(large), len(points), nearest(points, large))
        np.testing.assert_array_equal(index, expected)


@given(columns(), columns(NUMBERS))
def test_cuts(values, cuts):
    cuts = np.unique(cuts)
    values = np.concatenate([values, cuts])
    index = np.empty(len(values), np.uint8)
    core.assign_cuts(values, cuts, index)
    expected = np.where(np.isnan(values), len(cuts) + 1, np.searchsorted(cuts, values))
    np.testing.assert_array_equal(index, expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("n_bins", [1, 3, 200])
def test_bin_weights(width, n_bins):
    rng = np.random.default_rng(5)
    index = rng.integers(0, n_bins, 333).astype(width)
    out, w = np.empty(n_bins), rng.uniform(size=333)
    core.weigh_bins(index, None, out)
    np.testing.assert_array_equal(out, np.bincount(index, minlength=n_bins))
    core.weigh_bins(index, w, out)
    np.testing.assert_array_equal(out, np.bincount(index, w, n_bins))
    index[100] = n_bins
    with pytest.raises(ValueError, match="bin out of range"):
        core.weigh_bins(index, None, out)


@pytest.mark.parametrize("n_pieces", [1, 2, 30])
def test_places_and_their_weights(n_pieces):
    rng = np.random.default_rng(n_pieces)
    edges = np.sort(rng.normal(size=n_pieces + 1))
    values = np.concatenate([edges, rng.uniform(edges[0], edges[-1], 300), [np.nan]])
    rng.shuffle(values)
    piece, t = np.empty(len(values), np.uint16), np.empty(len(values))
    core.place(values, edges, piece, t)
    known = ~np.isnan(values)
    expected = np.searchsorted(edges[1:-1], values[known], side="right")
    np.testing.assert_array_equal(piece[known], expected)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    expected = (values[known] - middle[piece[known]]) / half[piece[known]]
    np.testing.assert_allclose(t[known], expected, atol=1e-9)
    assert piece[~known] == n_pieces
    assert t[~known] == 0.0
    polynomials, w = chebvander(t, 7), rng.uniform(size=len(values))
    for weights in (None, w):
        sums, expected = np.empty((n_pieces + 1, 8)), np.zeros((n_pieces + 1, 8))
        core.weigh_pieces(piece, t, weights, sums.ravel())
        np.add.at(expected, piece, polynomials * (1.0 if weights is None else w[:, None]))
        np.testing.assert_allclose(sums, expected, atol=1e-11)


def test_invalid_places_are_refused():
    values, edges = np.arange(3.0), np.array([0.0, 1.0, 2.0])
    piece, t = np.empty(3, np.uint16), np.empty(3)
    for wrong in (edges[:1], edges[[0, 0, 1]], edges[::-1].copy()):
        with pytest.raises(ValueError, match="two edges or more, increasing"):
            core.place(values, wrong, piece, t)
    for args in ((values, edges, piece[:2], t), (values, edges, piece, t[:2])):
        with pytest.raises(ValueError, match="one number per value"):
            core.place(*args)
    with pytest.raises(ValueError, match="too small for the number of bins"):
        core.place(values, np.arange(2.0**16 + 1), piece, t)
    core.place(values, edges, piece, t)
    with pytest.raises(ValueError, match="piece out of range"):
        core.weigh_pieces(piece, t, None, np.empty(15))
    with pytest.raises(ValueError, match="one piece, t and weight"):
        core.weigh_pieces(piece, t, np.ones(2), np.empty(16))


@pytest.mark.parametrize("kernel", [core.survey, lambda x, m: core.distinct(x, m, 4)])
def test_marks_of_a_wrong_length_are_refused(kernel):
    with pytest.raises(ValueError, match="one mark per row"):
        kernel(np.arange(5.0), np.ones(4, bool))


def reference_assign(points, spacing, values):
    """Assign bins in plain NumPy: nearest points, extra points beyond them, missing cells."""
    first, last = points[0], points[-1]
    missing = np.isnan(values)
    known = np.where(missing, first, values)
    inside = np.clip(known, first, last)
    if spacing == "equal" and first < last:
        index = equal_bins(inside, first, last, len(points))
    else:
        index = nearest(points, inside)
    new = known != points[index] if spacing == "exact" else (known < first) | (known > last)
    if new.any():
        extra = np.unique(known[new])
        if spacing != "exact" and len(extra) > 256:
            extra = extra[np.linspace(0, len(extra) - 1, 256).astype(int)]
        index[new] = len(points) + nearest(extra, known[new])
        points = np.concatenate([points, extra])
    if missing.any():
        index[missing] = len(points)
        points = np.append(points, np.nan)
    return index, points


RULES = [*map(Bins, ("auto", "sqrt", "exact", 254, 257)), Bins(40, "quantile")]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("n", [600, 5000])
@pytest.mark.parametrize("kind", ["normal", "few values", "missing"])
def test_rules(rule, split, n, kind):
    """Complete rules, with validation rows beyond the training range, against plain NumPy."""
    values = LARGE[kind](np.random.default_rng(n))[:n]
    marks = (np.arange(n) % 3 > 0) & ~(np.abs(values) > 1.5) if split else None
    sample = Sample(marks, None, n if marks is None else int(marks.sum()))
    facts = summarize(Numbers("x", values), sample)
    points = rule.make(values, sample, facts)
    found = rule.bin(values, sample, facts, ArrayPool())
    index, bin_values = reference_assign(points.points, points.spacing, values)
    np.testing.assert_array_equal(found.values, bin_values)
    np.testing.assert_array_equal(found.index, index)
    assert found.index.dtype.itemsize == (1 if len(bin_values) <= 256 else 2)


@pytest.mark.parametrize("n_distinct", [1024, 1025])
def test_auto_points_follow_their_definition(n_distinct):
    rng = np.random.default_rng(2)
    values = rng.permutation(np.repeat(rng.normal(size=n_distinct), 3))
    distinct = np.unique(values)
    found = Bins("auto").make(values).points
    if n_distinct == 1024:
        np.testing.assert_array_equal(found, distinct)
    else:
        ranks = weighted_quantile(values, np.ones(len(values)), np.linspace(0, 1, 512))
        equal = np.linspace(distinct[0], distinct[-1], 512)
        np.testing.assert_array_equal(found, np.unique(np.concatenate([equal, ranks])))


# --- bases ----------------------------------------------------------------------------------------


def spline_rows(values, knots, degree, linear, with_begin=True):
    begin = np.empty(len(values) + 1, np.int64) if with_begin else None
    column = np.empty(len(values) * (degree + 1), np.int32)
    value = np.empty(len(values) * (degree + 1))
    n = core.spline_rows(values, knots, degree, linear, begin, column, value)
    if begin is None:
        begin = np.arange(0, n + 1, degree + 1)
    width = len(knots) - degree - 1
    return csr_array((value[:n], column[:n], begin), shape=(len(values), width + 1)).toarray()


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5, 10])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("linear", [True, False])
def test_splines(degree, even, linear):
    rng = np.random.default_rng(degree)
    inner = np.linspace(-1, 2, 8) if even else np.sort(rng.uniform(-1, 2, 8))
    below = inner[0] - (inner[1] - inner[0]) * np.arange(degree, 0, -1)
    above = inner[-1] + (inner[-1] - inner[-2]) * np.arange(1, degree + 1)
    knots = np.concatenate([below, inner, above])
    beyond = [inner[0] - 1.5, inner[-1] + 2, np.nan]
    values = np.concatenate([inner, rng.uniform(inner[0], inner[-1], 50), beyond])
    rng.shuffle(values)
    splines = BSpline(knots, np.eye(len(knots) - degree - 1), degree)
    inside = np.clip(values, inner[0], inner[-1])
    expected = np.nan_to_num(splines(inside))
    if linear and degree > 0:
        slopes = splines.derivative()(inside)
        expected += np.nan_to_num((values - inside)[:, None] * slopes)
    found = spline_rows(values, knots, degree, linear)
    np.testing.assert_allclose(found[:, :-1], expected, atol=1e-13 * 10**degree**0.5)
    np.testing.assert_array_equal(found[:, -1], np.isnan(values))
    known = values[~np.isnan(values)]
    np.testing.assert_array_equal(
        spline_rows(known, knots, degree, linear, with_begin=False), found[~np.isnan(values)]
    )


def test_invalid_splines_are_refused():
    values, knots = np.array([0.5, np.nan]), np.arange(8.0)
    column, value = np.empty(8, np.int32), np.empty(8)
    with pytest.raises(ValueError, match="a value is missing"):
        core.spline_rows(values, knots, 3, True, None, column, value)
    with pytest.raises(ValueError, match="do not fit the arrays"):
        core.spline_rows(values, knots, 3, True, None, column[:7], value[:7])
    with pytest.raises(ValueError, match="too few knots"):
        core.spline_rows(values, knots[:7], 3, True, None, column, value)


@pytest.mark.parametrize(("first", "degree"), [(0, 1), (1, 1), (0, 4)])
def test_powers(first, degree):
    values, powers = np.linspace(-2, 5, 30), np.arange(first, degree + 1)
    out = np.empty(30 * len(powers))
    core.power_rows(values, 0.7, 3.1, first, len(powers), out)
    expected = ((values - 0.7) / 3.1)[:, None] ** powers
    np.testing.assert_allclose(out.reshape(30, -1), expected, rtol=1e-14)


# --- systems --------------------------------------------------------------------------------------


def system(
    basis, weights, penalty, null_dim, ridge=0.0, smoothing=np.nan, df=5.0, net=False, kind="df2"
):
    """Return the gram matrix, its factor, the mean row and the numbers computed by the core."""
    rows = csr_array(basis)
    rows.eliminate_zeros()
    d = basis.shape[1]
    gram, factor, mean, numbers = np.empty((d, d)), np.empty((d, d)), np.empty(d), np.empty((1, 4))
    sparse = (rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data)
    aim = (smoothing, df, net, kind == "df1", null_dim, ridge)
    core.solve_systems([(sparse, weights, penalty, aim, gram, factor, mean)], numbers)
    return gram, factor, mean, numbers[0]


@pytest.mark.parametrize("d", [2, 3, 8, 24, 40, 64])
@pytest.mark.parametrize("kind", ["df1", "df2"])
@pytest.mark.parametrize("net", [False, True])
def test_systems(d, kind, net):
    rng = np.random.default_rng(d)
    basis = np.maximum(0, 1 - np.abs(np.linspace(0, d - 1, 5 * d)[:, None] - np.arange(d)) / 2)
    weights = rng.integers(0, 50, len(basis)).astype(float)
    order = min(2, d - 1)
    aim = order + 0.6 - net
    penalty, total = difference_penalty(d, order), weights.sum()
    gram, factor, mean, (smoothing, df, net_df, fine) = system(
        basis, weights, penalty, order, df=aim, net=net, kind=kind
    )
    expected = basis.T @ (weights[:, None] * basis)
    assert fine == 1
    np.testing.assert_allclose(gram, expected, rtol=1e-12, atol=1e-12 * total)
    np.testing.assert_allclose(mean, weights @ basis / total, rtol=1e-12)
    spec = spectrum(expected / total, penalty, order, weights @ basis / total)
    wanted = total * find_smoothing(spec, aim, kind, net)
    assert smoothing == pytest.approx(wanted, rel=1e-8)
    assert df == pytest.approx(spec.df(smoothing / total, kind), rel=1e-9)
    assert net_df == pytest.approx(spec.net_df(smoothing / total, kind), rel=1e-9)
    assert (net_df if net else df) == pytest.approx(aim, abs=1e-9)
    np.testing.assert_allclose(
        factor,
        factorize(expected, penalty, smoothing, spec),
        rtol=1e-7,
        atol=1e-9 * np.abs(factor).max(),
    )


@pytest.mark.parametrize("kind", ["df1", "df2"])
@pytest.mark.parametrize("net", [False, True])
@pytest.mark.parametrize("missing", [0.0, 1.0, 300.0])
def test_a_ridge_on_the_last_coefficient(kind, net, missing):
    """The core, NumPy and the trace of the hat matrix agree; weights may have any scale."""
    d, ridge, aim = 9, 0.25, 3.5
    basis = np.zeros((31, d))
    basis[:-1, :-1] = np.maximum(0, 1 - np.abs(np.linspace(0, 7, 30)[:, None] - np.arange(8)) / 2)
    basis[-1, -1] = 1.0
    penalty = np.pad(difference_penalty(8, 2), (0, 1))
    for scale in (1.0, 7.0):
        w = scale * np.append(np.arange(1.0, 31.0), missing)
        total = w.sum()
        gram, factor, mean, (smoothing, df, net_df, fine) = system(
            basis, w, penalty, 2, ridge, df=aim, net=net, kind=kind
        )
        assert fine == 1
        assert (net_df if net else df) == pytest.approx(aim, abs=1e-9)
        both = gram + smoothing * penalty
        both[-1, -1] += ridge * total
        np.testing.assert_allclose(factor @ factor.T, both, atol=1e-9 * total)
        hat = basis @ np.linalg.solve(both, basis.T * w)
        smoother = hat if kind == "df1" else 2 * hat - hat @ hat
        assert df == pytest.approx(np.trace(smoother), rel=1e-9)
        assert net_df == pytest.approx(df - w @ smoother.sum(axis=1) / total, rel=1e-9)
        spec = spectrum(gram / total, penalty, 2, mean, ridge)
        np.testing.assert_allclose(
            factor, factorize(gram, penalty, smoothing, spec, ridge * total), atol=1e-9 * total
        )
        assert smoothing == pytest.approx(total * find_smoothing(spec, aim, kind, net), rel=1e-8)


@pytest.mark.parametrize("constant", [False, True])
def test_large_systems_are_split_into_blocks(constant, monkeypatch):
    """A block of size 1 has neither data nor a penalty."""
    rng = np.random.default_rng(1)
    sizes = (5, 9, 30, 1)
    rows = [rng.normal(size=(d // 2, d)) for d in sizes]
    order = rng.permutation(sum(sizes))
    gram, penalty = (
        block_diag(*parts)[np.ix_(order, order)]
        for parts in ([b.T @ b for b in rows], [difference_penalty(d, 1) for d in sizes])
    )
    mean = constant * gram @ rng.normal(size=len(gram))
    whole = spectrum(gram, penalty, 4, mean)
    monkeypatch.setattr(smoothing, "LARGE", 10)
    split = spectrum(gram, penalty, 4, mean)
    np.testing.assert_allclose(split.a, whole.a, atol=1e-9)
    for value in (0.1, 1.0, 10.0):
        assert split.df(value, "df2") == pytest.approx(whole.df(value, "df2"), rel=1e-8)
        assert split.net_df(value, "df2") == pytest.approx(whole.net_df(value, "df2"), rel=1e-8)


def test_a_given_smoothing_is_used():
    basis, penalty = np.eye(6), difference_penalty(6, 2)
    numbers = system(basis, np.full(6, 2.0), penalty, 2, smoothing=3.5)[3]
    spec = spectrum(np.eye(6) / 6, penalty, 2, np.full(6, 1 / 6))
    assert numbers[0] == 3.5
    np.testing.assert_allclose(numbers[1], spec.df(3.5 / 12, "df2"))


def test_more_df_than_coefficients_means_no_smoothing():
    numbers = system(np.eye(5), np.ones(5), difference_penalty(5, 1), 1, df=7.0)[3]
    np.testing.assert_allclose(numbers, [0.0, 5.0, 4.0, 1.0], atol=1e-12)


@pytest.mark.parametrize(
    "case",
    [
        (np.eye(5), np.ones(5), difference_penalty(5, 2), 2, {"df": 2.0}),  # all df unpenalised
        (np.eye(4)[:, [0, 0, 1, 2]], np.ones(4), np.zeros((4, 4)), 4, {}),  # singular
        (np.eye(3), np.zeros(3), difference_penalty(3, 1), 1, {}),  # no rows
    ],
)
def test_systems_that_the_core_cannot_solve_are_marked(case):
    *given_system, options = case
    assert system(*given_system, **options)[3][3] == 0


def test_directions_without_data():
    """If some coefficients have no bins, the smoothing still equals the NumPy version."""
    basis, penalty = np.eye(12)[:8], difference_penalty(12, 2)
    w = np.arange(1.0, 9.0)
    numbers = system(basis, w, penalty, 2, df=4.0)[3]
    gram = basis.T @ (w[:, None] * basis) / w.sum()
    spec = spectrum(gram, penalty, 2, w @ basis / w.sum())
    assert numbers[3] == 1
    assert numbers[0] == pytest.approx(w.sum() * find_smoothing(spec, 4.0, "df2"), rel=1e-8)


@pytest.mark.parametrize("in_core", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.25])
@pytest.mark.parametrize("rho", [0.0, 1e-13, 1e-9, 1e-5, 1e-3])
def test_rounding_errors_are_not_enlarged_in_directions_without_data(in_core, ridge, rho):
    """The curve is the one with the least penalty, and errors of right sides stay small."""
    rng, points, d = np.random.default_rng(0), np.array([0.1, 0.15, 0.3, 0.7]), 16
    basis = np.maximum(0, 1 - np.abs(15 * points[:, None] - np.arange(d)) / 2)
    penalty, w, y = difference_penalty(d, 2), np.array([1.0, 2.0, 5.0, 3.0]), rng.normal(size=4)
    value = rho * np.trace(basis.T @ (w[:, None] * basis)) / np.trace(penalty)
    # As an interpolation with multipliers, the problem is regular for any lambda.
    both = np.block([[penalty, basis.T], [basis, np.diag(-value / w)]])
    expected = np.linalg.solve(both, np.append(np.zeros(d), y))[:d]
    if ridge:  # a last coefficient, for missing cells
        basis, penalty = block_diag(basis, 1.0), np.pad(penalty, (0, 1))
        w, y = np.append(w, 4.0), np.append(y, 2.0)
        expected = np.append(expected, 4.0 * 2.0 / (4.0 + ridge * w.sum()))
    gram, total, right = basis.T @ (w[:, None] * basis), w.sum(), basis.T @ (w * y)
    if in_core:
        factor = system(basis, w, penalty, 2, ridge, smoothing=value)[1]
    else:
        spec = spectrum(gram / total, penalty, 2, w @ basis / total, ridge)
        factor = factorize(gram, penalty, value, spec, ridge * total)
    found = cho_solve((factor, True), right)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    noise = 1e-14 * rng.normal(size=len(right))
    moved = cho_solve((factor, True), right + noise) - found
    assert np.abs(moved).max() < 1e-9


def test_directions_with_neither_data_nor_penalty_get_no_coefficient():
    """Two equal columns share their coefficient; a column without rows has none."""
    basis = np.random.default_rng(0).normal(size=(9, 3))[:, [0, 0, 1, 2]] * [1.0, 1.0, 1.0, 0.0]
    gram, none = basis.T @ basis, np.zeros((4, 4))
    spec = spectrum(gram / 9, none, 4, basis.mean(axis=0))
    assert not spec.determined
    assert np.count_nonzero(spec.a) == 2
    factor = factorize(gram, none, 0.0, spec)
    y = np.arange(9.0)
    least = np.linalg.lstsq(basis, y, rcond=None)[0]
    np.testing.assert_allclose(cho_solve((factor, True), basis.T @ y), least, atol=1e-12)


def test_systems_are_bitwise_equal_for_any_number_of_threads():
    rng = np.random.default_rng(4)
    penalty, out = difference_penalty(10, 2), []
    bases = [csr_array(rng.uniform(size=(30, 10))) for _ in range(20)]
    rows = [(b.indptr.astype(np.int64), b.indices.astype(np.int32), b.data) for b in bases]
    for n_threads in (1, 3):
        places = [(np.empty((10, 10)), np.empty((10, 10)), np.empty(10)) for _ in rows]
        tasks = [
            (r, np.ones(30), penalty, (np.nan, 4.0, False, False, 2, 0.0), *p)
            for r, p in zip(rows, places, strict=True)
        ]
        numbers = np.empty((20, 4))
        core.solve_systems(tasks, numbers, n_threads)
        out.append([numbers, *(x for p in places for x in p)])
    for a, b in zip(*out, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: (t[0], np.ones(4), *t[2:]), "one weight per bin"),
        (lambda t: ((t[0][0], t[0][1] + 1, t[0][2]), *t[1:]), "do not fit its coefficients"),
        (lambda t: (*t[:4], np.empty((3, 3)), *t[5:]), r"must be \(d, d\)"),
    ],
)
def test_invalid_systems_are_refused(change, message):
    rows = (np.arange(6), np.arange(5, dtype=np.int32), np.ones(5))
    places = (np.empty((5, 5)), np.empty((5, 5)), np.empty(5))
    task = (rows, np.ones(5), np.eye(5), (1.0, 0.0, False, False, 0, 0.0), *places)
    with pytest.raises(ValueError, match=message):
        core.solve_systems([change(task)], np.empty((1, 4)))


# --- memory, threads and columns ------------------------------------------------------------------


def test_an_array_pool_gives_arrays_that_do_not_overlap():
    room = ArrayPool()
    some = [room.empty(n, dtype) for n in (5, SMALL, 3 * SMALL) for dtype in (np.uint8, float)]
    for i, array in enumerate(some):
        array[:] = i
    for i, array in enumerate(some):
        assert np.all(array == i)
    assert room.empty(10**8, np.uint8).size == 10**8  # larger than a block
    np.testing.assert_array_equal(room.steps(3, 2), [0, 2, 4, 6])
    np.testing.assert_array_equal(room.cycles(2, 3), [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_restored(enabled):
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(ZeroDivisionError), garbage_collection_paused():
            1 // int(gc.isenabled())
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_map_in_threads_keeps_order_and_raises(n_threads):
    assert map_in_threads(lambda x: x * x, range(50), n_threads) == [x * x for x in range(50)]
    with pytest.raises(ValueError, match=r"^3$"):  # from the first call that fails
        map_in_threads(lambda x: fail(x) if x >= 3 else x, range(50), n_threads)


def fail(x):
    raise ValueError(x)


def test_columns_of_arrays_are_views_or_not_kept():
    """A fit must not copy its table: contiguous columns are views, copies are not kept."""
    wide = np.arange(12.0).reshape(4, 3)
    for column in (np.arange(4.0), np.asfortranarray(wide)[:, 1]):
        table = read({"x": column})
        assert np.shares_memory(table["x"].values, column)
        assert table["x"] is table["x"]
    strided = read({"x": wide[:, 1]})
    assert strided["x"].values.flags.c_contiguous
    assert strided["x"] is not strided["x"]


def test_threads_set_up_the_same_fit(monkeypatch):
    """Columns are surveyed, binned and decomposed in parallel, with bitwise equal results."""
    for module in (shared_bins, systems, term_plans):
        for name in {"MIN_PASS_ROWS", "MIN_SORT_ROWS"} & vars(module).keys():
            monkeypatch.setattr(module, name, 1)
    rng = np.random.default_rng(8)
    n = 2500
    table = {f"x{j}": rng.normal(size=n) for j in range(6)} | {"g": rng.choice(list("abc"), n)}
    table["x1"][::7] = np.nan
    y = np.sin(table["x0"]) + np.nan_to_num(table["x1"])
    learners = [
        cb.Spline("x0"), cb.Spline("x1", bins="exact"), cb.Step("x2"), cb.Linear("x3"),
        cb.Spline("x4", knot_placement="quantile", bins=Bins(50, "quantile")),
        cb.Tensor("x0", "x5"), cb.Category("g"),
    ]  # fmt: skip
    one, many = (cb.fit(table, y, learners, n_iter=30, validation=0.2, n_threads=k) for k in (1, 3))
    np.testing.assert_array_equal(one.risk, many.risk)
    for a, b in zip(one.terms.values(), many.terms.values(), strict=True):
        assert (a.smoothing, a.df) == (b.smoothing, b.df)
        np.testing.assert_array_equal(a.beta, b.beta)
        np.testing.assert_array_equal(a.plan.basis.mean, b.plan.basis.mean)


def test_codes_that_are_not_listed_go_to_the_fallback():
    listed = np.array([0.0, 2.0, np.nan])
    column = CodedColumn(np.array([0, 1, 2, 3, 4]), np.array([0.0, 1.0, 2.0, 7.0, np.nan]))
    assert column.bins(listed, 1).index.tolist() == [0, 1, 1, 1, 2]
