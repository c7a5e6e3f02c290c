"""Tests of interactions: pairs without main effects, their ranking, and fits that find them.

The expected values come from dense algebra over raw rows, implemented independently here.
test_oracle covers whole fits with all kinds of pairs (`problems.KINDS`), and the tests of exports,
plots and edits cover models with pairs.
"""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from scipy.linalg import null_space

import cwboost as cb
import cwboost.fitting.interactions as interactions
from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.binning.index_sets import UNSEEN
from cwboost.binning.summary import summarize
from cwboost.export.model_file import ModelFileError, from_dict, to_dict
from cwboost.fitting import pair_systems as systems
from cwboost.fitting.input_data import Split
from cwboost.fitting.interactions import rank_interactions, residuals
from cwboost.fitting.preparation import prepare
from cwboost.fitting.smoothing import SmoothingTarget
from cwboost.frames.read_frames import read
from cwboost.terms.bases import LevelBasis, PowerBasis, TensorBasis
from cwboost.terms.learners import pair_bins

N = 400


def make_table(seed=0, n=N, missing=True):
    rng = np.random.default_rng(seed)
    table = {
        "a": rng.normal(size=n),
        "b": rng.uniform(size=n),
        "k": rng.integers(0, 4, n).astype(float),
        "g": rng.choice(np.array(["x", "y", "z"], dtype=object), n, p=[0.6, 0.3, 0.1]),
        "h": rng.choice(np.array(["p", "q"], dtype=object), n),
    }
    table["b"] = np.round(0.5 * table["b"] + 0.1 * table["a"], 2)  # not independent of a
    if missing:
        table["a"][::17] = np.nan
        table["b"][5::23] = np.nan
        table["g"][3::29] = None
    return table


def make_weights(seed=0, n=N):
    return np.random.default_rng(seed + 50).uniform(0.2, 3.0, n)


def codes(values):
    """Return the code of every cell; missing cells have a code of their own."""
    seen = {}
    return np.array([seen.setdefault(None if v != v else v, len(seen)) for v in values])


def levels_of(term, table):
    """Return the (n, 2) levels of every row on the two sides of a pair."""
    data = read(table)
    return np.column_stack(
        [codes(e.encode(data[c])) for e, c in zip(term.plan.encoders, term.columns, strict=True)]
    )


def one_hot(level):
    return np.eye(level.max() + 1)[level]


def main_effects(levels):
    """Return the (n, k) indicators of both sides, which span all functions of either column."""
    return np.column_stack([one_hot(levels[:, 0]), one_hot(levels[:, 1])])


PAIRS = [("a", "b"), ("b", "a"), ("a", "k"), ("g", "b"), ("a", "g"), ("g", "h"), ("k", "h")]


# --- the term -------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", PAIRS, ids=":".join)
@pytest.mark.parametrize("weighted", [False, True])
def test_term_is_orthogonal_to_all_functions_of_either_column(pair, weighted):
    """The columns are taken as the pair sees them, in steps or levels."""
    table, w = make_table(), make_weights() if weighted else None
    y = np.random.default_rng(1).normal(size=N)
    learners = [cb.Tensor(*pair, orthogonal=True)]
    model = cb.fit(table, y, learners, weights=w, optimizer=cb.Plain(0.5), n_iter=30)
    (term,) = model.terms.values()
    w = np.ones(N) if w is None else w
    effect = model.contributions(table)[term.name]
    M = main_effects(levels_of(term, table))
    assert np.abs(effect).max() > 1e-3
    np.testing.assert_allclose(M.T @ (w * effect), 0.0, atol=1e-12 * N)


@pytest.mark.parametrize("pair", PAIRS, ids=":".join)
def test_one_step_is_the_hat_matrix_of_dense_algebra(pair):
    """Fit, df and gain equal the penalised T - M (M'CM)^+ G over raw rows."""
    table, w = make_table(1), make_weights(1)
    y = np.random.default_rng(2).normal(size=N)
    learners = [cb.Tensor(*pair, df=2.5, orthogonal=True)]
    model = cb.fit(table, y, learners, weights=w, optimizer=cb.Plain(1.0), n_iter=1)
    (term,) = model.terms.values()
    basis, W = term.plan.basis, np.diag(w)
    T = basis.matrix(term.plan.encode([read(table)[c] for c in pair])).toarray()
    M = main_effects(levels_of(term, table))
    own = T - M @ np.linalg.pinv(M.T @ W @ M) @ (M.T @ W @ T)
    N_ = np.linalg.pinv(own.T @ W @ own + term.smoothing * basis.penalty(), 1e-11, hermitian=True)
    H = own @ N_ @ own.T @ W
    r = y - np.average(y, weights=w)
    fitted = model.predict(table) - model.intercept
    np.testing.assert_allclose(fitted, H @ r, atol=1e-8)
    assert np.trace(2 * H - H @ H) == pytest.approx(2.5, abs=1e-6)
    assert term.df == term.net_df == pytest.approx(2.5, abs=1e-6)
    fall = model.risk[0] - model.risk[1]  # the risk is half of the mean square
    assert 2 * fall * w.sum() == pytest.approx(w @ (r**2 - (r - H @ r) ** 2))


def test_every_part_has_its_own_orthogonality():
    """A learner for training, validation or all rows is orthogonal under the weights it gets."""
    table = make_table(2)
    y = np.random.default_rng(3).normal(size=N)
    binned = prepare(table, y, [cb.Tensor("a", "g", orthogonal=True)])
    rng = np.random.default_rng(4)
    for w in (np.ones(N), rng.uniform(size=N), (rng.uniform(size=N) < 0.5).astype(float)):
        learner = binned.learners(binned.systems(binned.weigh_rows(w)))[0]
        index = binned.shared_bins.sets[0].index
        sums = np.bincount(index, w * y, binned.shared_bins.sets[0].n_bins)
        theta, gain = learner.fit(sums[None, :])
        effect = (binned.core_rows[0] @ theta[0])[index]
        levels = binned.shared_bins.sets[0].values[index]
        M = main_effects(np.column_stack([codes(levels[:, 0]), codes(levels[:, 1])]))
        np.testing.assert_allclose(M.T @ (w * effect), 0.0, atol=1e-10)
        assert gain == pytest.approx(w @ (y**2 - (y - effect) ** 2))


def test_hybrid_ends_orthogonal_under_all_rows():
    table = make_table(3, 600)
    y = table["k"] * np.nan_to_num(table["b"]) + np.random.default_rng(0).normal(0, 0.1, 600)
    pair = cb.Tensor("k", "b", orthogonal=True)
    held = np.arange(600) % 3 == 0
    model = cb.fit(table, y, [pair], optimizer=cb.Hybrid(0.3, switch_after=1), validation=held,
                   n_iter=200)  # fmt: skip
    m = model.path.rewound_to
    assert 0 <= m < model.n_iter
    (term,), (before,) = model.terms.values(), model.at(m).terms.values()
    data = read(table)
    rows = term.plan.basis.matrix(term.plan.encode([data[c] for c in ("k", "b")]))
    added = (rows @ (term.beta - before.beta))[:, 0]  # added by the second phase
    M = main_effects(levels_of(term, table))
    assert np.abs(added).max() > 1e-3
    np.testing.assert_allclose(M.T @ added, 0.0, atol=1e-10)


def test_integer_weights_are_repeated_rows():
    table, w = make_table(5), np.random.default_rng(5).integers(0, 3, N)
    y = np.random.default_rng(6).normal(size=N)
    learners = [cb.Tensor(cb.Step("a", bins=5), "g", orthogonal=True)]
    weighted = cb.fit(table, y, learners, weights=w.astype(float), n_iter=20)
    rows = np.repeat(np.arange(N), w)
    repeated = cb.fit({k: v[rows] for k, v in table.items()}, y[rows], learners, n_iter=20)
    assert weighted.terms["a:g"].smoothing == pytest.approx(repeated.terms["a:g"].smoothing)
    np.testing.assert_allclose(weighted.predict(table), repeated.predict(table), atol=1e-10)


@pytest.mark.parametrize("pair", PAIRS, ids=":".join)
def test_core_and_lapack_agree(pair, monkeypatch):
    table, w = make_table(6), make_weights(6)
    y = np.random.default_rng(7).normal(size=N)

    def fit():
        return cb.fit(table, y, [cb.Tensor(*pair, orthogonal=True)], weights=w, n_iter=10)

    by_core = fit()
    monkeypatch.setattr(systems, "MAX_CORE_INNER", 0)
    by_lapack = fit()
    monkeypatch.setattr(systems, "_table", lambda _: None)
    dense = fit()
    for other in (by_lapack, dense):
        np.testing.assert_allclose(other.predict(table), by_core.predict(table), atol=1e-8)
        for name, term in by_core.terms.items():
            assert other.terms[name].df == pytest.approx(term.df, rel=1e-6)
            np.testing.assert_allclose(other.terms[name].beta, term.beta, atol=1e-7)


@pytest.mark.parametrize("way", ["core", "lapack", "dense"])
def test_cells_without_rows_do_not_depend_on_the_order_of_levels(way, monkeypatch):
    """The first two levels of g occur only with the first two levels of h, the other two only with
    the other two. A shift between these blocks affects only cells without rows, and stays small.
    """
    if way != "core":
        monkeypatch.setattr(systems, "MAX_CORE_INNER", 0)
    if way == "dense":
        monkeypatch.setattr(systems, "_table", lambda _: None)
    rng = np.random.default_rng(1)
    block = rng.integers(0, 2, N)
    g, h = (rng.integers(0, 2, N) + 2 * block for _ in range(2))
    y = np.where(g % 2 == h % 2, 1.0, -1.0) * (1 + block) + 0.3 * rng.normal(size=N)
    cells = [x.ravel() for x in np.indices((4, 4))]
    found = []
    for order in ("wxyz", "yzwx", "xwyz"):
        name = np.array(list(order))
        learners = [cb.Tensor("g", "h", df=1, orthogonal=True)]
        model = cb.fit({"g": name[g], "h": name[h]}, y, learners, n_iter=50)
        values = model.predict({"g": name[cells[0]], "h": name[cells[1]]}, kind="score")
        found.append(values.reshape(4, 4) - model.start)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-9)
    assert np.abs(found[0][:2, 2:]).max() < 0.3 < 0.6 < np.abs(found[0][:2, :2]).min()


def test_a_cell_without_rows_and_penalty_adds_nothing():
    """No row lacks both values, and the missing level has no neighbours in the penalty."""
    table = make_table(3)
    table["b"][np.isnan(table["a"])] = 0.5
    y = np.random.default_rng(4).normal(size=N)
    model = cb.fit(table, y, [cb.Tensor("a", "b", orthogonal=True)], n_iter=20)
    coef = model.terms["a:b"].coef
    assert abs(coef[-1]) < 1e-10 < 1e-3 < np.abs(coef).max()


def test_validation_rows_with_new_levels_add_no_cells():
    """Their bins are mixtures of cells, so the system over all rows is set up densely."""
    table = make_table(7, missing=False)
    held = np.arange(N) % 4 == 0
    table["g"][0] = "new"
    y = (table["g"] == "x") * table["a"]
    model = cb.fit(table, y, [cb.Tensor("a", "g", orthogonal=True)], validation=held,
                   optimizer=cb.Hybrid(0.5, switch_after=1), n_iter=60)  # fmt: skip
    assert np.isfinite(model.predict({k: v[1:] for k, v in table.items()})).all()
    assert model.risk[-1] < model.risk[0]


def test_a_pair_of_equivalent_columns_gains_nothing():
    x = np.random.default_rng(0).integers(0, 5, N).astype(float)
    table = {"a": x, "copy": 10 - x, "b": np.random.default_rng(1).normal(size=N)}
    learners = [cb.Tensor("a", "copy", orthogonal=True), cb.Spline("b")]
    model = cb.fit(table, np.sin(3 * x) + table["b"], learners, n_iter=30)
    assert set(model.choices) == {"b"}
    assert model.terms["a:copy"].df == 0.0


def test_df_above_the_maximum_means_no_smoothing():
    table = {"g": np.array(["x", "y"] * 50), "h": np.array(["p"] * 30 + ["q"] * 70)}
    y = (table["g"] == "x") * (table["h"] == "p") * 1.0
    learners = [cb.Category("g"), cb.Category("h"), cb.Tensor("g", "h", orthogonal=True)]
    model = cb.fit(table, y, learners, optimizer=cb.Plain(1.0), n_iter=200)
    assert model.terms["g:h"].df == pytest.approx(1.0)
    np.testing.assert_allclose(model.predict(table), y, atol=1e-6)


@pytest.mark.parametrize("search", ["certified", "row-free"])
@pytest.mark.parametrize("optimizer", [cb.Plain(0.3), cb.Accelerated(0.3)], ids=lambda o: str(o))
def test_searches_choose_the_same(search, optimizer):
    table = make_table(8)
    y = np.nan_to_num(table["a"]) * (table["g"] == "x") + table["k"]
    y = y + np.random.default_rng(0).normal(0, 0.3, N)
    learners = [..., *(cb.Tensor(*p, orthogonal=True) for p in (("a", "g"), ("k", "b")))]
    full, other = (
        cb.fit(table, y, learners, optimizer=optimizer, n_iter=80, search=s)
        for s in ("full", search)
    )
    assert full.choices == other.choices
    assert full.corrections == other.corrections
    assert "a:g" in full.choices
    np.testing.assert_allclose(full.predict(table), other.predict(table), atol=1e-9)


def test_columns_with_few_values_keep_them_in_many_pairs():
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.uniform(size=10_000) for j in range(9)}
    table["hour"] = rng.integers(0, 24, 10_000).astype(float)
    y = rng.normal(size=10_000)
    pairs = [(a, b) for a in table for b in table if a < b][-40:]
    assert pair_bins(10_000, n_pairs=40) == 19
    model = cb.fit(table, y, "auto", n_iter=1, interactions=pairs)
    levels = model.terms["hour:x5"].plan.basis
    assert (levels.a.n_levels, levels.b.n_levels) == (24, 19)
    smooth = cb.fit(table, y, "smooth", n_iter=1, interactions=pairs)
    assert smooth.terms["hour:x5"].plan.basis.a.n_levels == 19


def test_pair_bins_grow_with_the_rows_and_shrink_with_many_levels():
    table = make_table(9, 3000, missing=False)
    table["many"] = np.random.default_rng(0).integers(0, 90, 3000).astype(str)
    learners = [cb.Tensor("a", other, orthogonal=True) for other in ("b", "many")]
    model = cb.fit(table, table["a"], learners, n_iter=0)
    assert model.terms["a:b"].plan.basis.a.n_levels == pair_bins(3000) == 21
    assert model.terms["a:many"].plan.basis.a.n_levels == pair_bins(3000, 90) == 6


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: cb.Tensor("a", "b", orthogonal=1), TypeError, "orthogonal must be True or False"),
        (
            lambda: cb.Tensor(cb.Linear("a", intercept=False), "b", orthogonal=True),
            ValueError,
            "margins need a constant",
        ),
    ],
)
def test_tensor_refuses_wrong_arguments(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_df_below_the_unpenalised_dimension_is_refused():
    table = make_table(10)
    splines = cb.Tensor(cb.Spline("a", knots=3), cb.Spline("k", knots=3), df=1, orthogonal=True)
    with pytest.raises(ValueError, match="df = 1 is too small: the penalty leaves 2 degrees"):
        cb.fit(table, table["k"], [splines])


# --- the ranking ----------------------------------------------------------------------------------


def dense_gain(levels, P, w, r, df):
    """Return the gain of a pair by dense algebra over the rows; lambda is found by bisection."""
    n_b = levels[:, 1].max() + 1
    cells = levels[:, 0] * n_b + levels[:, 1]
    T, M = np.eye(len(P))[cells], main_effects(levels)
    W = w[:, None]
    own = T - M @ np.linalg.pinv(M.T @ (W * M)) @ (M.T @ (W * T))
    A, s = own.T @ (W * own), own.T @ (w * r)

    def at(smoothing):
        K = np.linalg.pinv(A + smoothing * P, 1e-12, hermitian=True)
        return K, np.trace(2 * K @ A - K @ A @ K @ A)

    low, high = -10.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if at(np.exp(middle))[1] > df else (low, middle)
    K, _ = at(np.exp(low))
    theta = K @ s
    return 2 * theta @ s - theta @ A @ theta


def test_gains_are_those_of_dense_algebra():
    rng = np.random.default_rng(0)
    w, r = rng.uniform(0.5, 2, 300), rng.normal(size=300)
    sizes = [5, 4, 3]
    index = [rng.integers(0, n, 300).astype(np.uint8) for n in sizes]
    margins = [LevelBasis(n_levels=n, differences=d) for n, d in zip(sizes, (1, 1, 0), strict=True)]
    pairs, out = [(0, 1), (0, 2), (1, 2)], np.empty((3, 3))
    bases = [TensorBasis(a=margins[i], b=margins[j], orthogonal=True) for i, j in pairs]
    arguments = [(*p, b.inner_penalty(), b.null_dim) for p, b in zip(pairs, bases, strict=True)]
    values = np.column_stack([w, w * r, -2 * w * r])
    _core.rank_pairs(index, sizes, values, arguments, 2.0, out, 1)
    for (i, j), basis, (gain, doubled, df) in zip(pairs, bases, out, strict=True):
        levels = np.column_stack([index[i], index[j]]).astype(int)
        assert gain == pytest.approx(dense_gain(levels, basis.penalty(), w, r, 2.0), rel=1e-6)
        assert doubled == pytest.approx(4 * gain)
        assert df == pytest.approx(2.0)
    again = np.empty_like(out)
    _core.rank_pairs(index, sizes, values, arguments, 2.0, again, 3)
    np.testing.assert_array_equal(out, again)


def test_the_ranking_has_the_gain_of_the_fitted_learner():
    """With the steps of the ranking, the fit uses the same learner."""
    table = make_table(11)
    y = np.nan_to_num(table["a"]) * (table["g"] == "x") + np.random.default_rng(1).normal(size=N)
    main = cb.fit(table, y, n_iter=50)
    found = rank_interactions(main, table, y)
    r = y - main.predict(table)
    assert len(found) == found.n_pairs == 10
    assert found.residual == pytest.approx(r @ r)
    for (a, b), gain in zip(found.pairs, found.gain, strict=True):
        steps = (cb.Step(x, bins=8) if table[x].dtype == float else x for x in (a, b))
        pair = cb.Tensor(*steps, orthogonal=True)
        step = cb.fit(table, r, [pair], start=0.0, optimizer=cb.Plain(1.0), n_iter=1)
        fall = 2 * N * (step.risk[0] - step.risk[-1])
        assert gain == pytest.approx(fall, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("loss", ["squared", "binomial", "multinomial", "poisson", "absolute"])
def test_planted_pairs_come_first(loss):
    rng = np.random.default_rng(12)
    n = 3000
    table = {f"x{j}": rng.normal(size=n) for j in range(8)}
    table["job"] = rng.choice(np.array(["cook", "clerk", "pilot"], dtype=object), n)
    eta = np.sin(table["x0"]) + table["x1"] * table["x2"]
    eta = eta + np.where(table["job"] == "pilot", 1.5, -0.5) * table["x3"]
    eta = 0.7 * eta
    y = {
        "squared": lambda: eta + rng.normal(size=n),
        "absolute": lambda: eta + rng.normal(size=n),
        "binomial": lambda: rng.uniform(size=n) < 1 / (1 + np.exp(-eta)),
        "multinomial": lambda: np.argmax(
            np.column_stack([eta, -eta, 0 * eta]) + rng.gumbel(size=(n, 3)), axis=1
        ),
        "poisson": lambda: rng.poisson(np.exp(eta - 1)),
    }[loss]()
    model = cb.fit(table, y, loss=loss, n_iter=100)
    found = rank_interactions(model, table, y)
    assert set(found.pairs[:2]) == {("x1", "x2"), ("x3", "job")}
    assert found.by_noise[1] == 0.0
    assert found.gain[1] > found.noise
    assert np.all(np.diff(found.gain) <= 0)


def test_noise_gains_as_much_as_random_signs_predict():
    """On additive data all gains are noise, and "auto" chooses very few pairs."""
    ratios, chosen = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        table = {f"x{j}": rng.normal(size=500) for j in range(12)}
        y = np.sin(2 * table["x0"]) + table["x1"] + rng.normal(size=500)
        found = cb.fit(table, y, interactions="auto", n_iter=100).interactions
        ratios.append(found.gain[0] / found.noise)  # of the best pair
        chosen.append(found.chosen)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)
    assert np.mean(chosen) < 5  # of 66


def test_signs_keep_the_variance_of_every_row():
    rng = np.random.default_rng(0)
    n = 2000
    table = {f"x{j}": rng.normal(size=n) for j in range(6)}
    y = table["x0"] + np.exp(table["x1"]) * rng.normal(size=n)  # far from equal variances
    found = rank_interactions(cb.fit(table, y, n_iter=50), table, y)
    assert found.by_noise[0] > 0.0 or found.gain[0] < 1.5 * found.noise


def test_weights_offset_and_exposure_reach_the_ranking():
    rng = np.random.default_rng(13)
    n = 2000
    table = {f"x{j}": rng.normal(size=n) for j in range(4)}
    table["years"] = rng.uniform(0.1, 2, n)
    rate = np.exp(0.3 * table["x0"] + 0.4 * table["x1"] * table["x2"])
    y = rng.poisson(rate * table["years"])
    twice = rng.integers(1, 3, n)
    learners = [cb.Spline(f"x{j}") for j in range(4)]
    options = {"loss": "poisson", "n_iter": 50, "learners": learners}
    model = cb.fit(table, y, exposure="years", weights=twice.astype(float), **options)
    found = rank_interactions(model, table, y, weights=twice.astype(float))
    assert found.pairs[0] == ("x1", "x2")
    rows = np.repeat(np.arange(n), twice)
    again = rank_interactions(model, {k: v[rows] for k, v in table.items()}, y[rows])
    order = [again.pairs.index(p) for p in found.pairs]
    # Cuts are weighted quantiles, so the bins are the same.
    np.testing.assert_allclose(again.gain[order], found.gain, rtol=1e-8)
    array = cb.fit(table, y, exposure=table["years"], **options)
    with pytest.raises(TypeError, match="the fit had an offset or exposure"):
        rank_interactions(array, table, y)
    assert rank_interactions(array, table, y, exposure=table["years"]).pairs[0] == ("x1", "x2")


def test_residuals_match_the_loss():
    rng = np.random.default_rng(14)
    table = {"x": rng.normal(size=200), "z": rng.normal(size=200)}
    y = rng.uniform(size=200) < 0.5
    model = cb.fit(table, y, loss="binomial", n_iter=20)
    binned = prepare(table, y, loss="binomial")
    expected = y - model.predict(table)
    np.testing.assert_allclose(residuals(model, binned.data, 1)[:, 0], expected, atol=1e-12)


def test_many_levels_are_pooled_and_too_many_are_left_out():
    rng = np.random.default_rng(15)
    n = 3000
    table = {
        "x": rng.normal(size=n),
        "town": rng.integers(0, 100, n).astype(str),
        "street": rng.integers(0, 700, n).astype(str),
    }
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0) + (table["town"] < "3") * table["x"]
    model = cb.fit(table, y, interactions=3, n_iter=20)
    found = model.interactions
    assert found.pairs == [("x", "town")]
    assert found.left_out == ("street",)
    assert model.terms["x:town"].plan.basis.b.n_levels == 100  # the term has all of them


def test_ranking_reads_as_a_table():
    table = make_table(16)
    y = table["k"] * np.nan_to_num(table["b"])
    model = cb.fit(table, y, interactions=2, n_iter=30)
    found = model.interactions
    assert list(found.table) == ["a", "b", "gain", "share", "by_noise", "chosen"]
    assert found.table["chosen"].sum() == found.chosen == 2
    np.testing.assert_allclose(found.share, found.gain / found.residual)
    assert repr(found).startswith("<Ranking of 10 pairs, 2 chosen>\n")
    assert "(10 rows)" in repr(found)
    with pytest.raises(ValueError, match="read-only"):
        found.gain[0] = 0.0


def test_random_state_draws_other_signs_and_threads_none():
    table = make_table(17)
    y = np.random.default_rng(0).normal(size=N)
    model = cb.fit(table, y, n_iter=20)
    one, same, other = (
        rank_interactions(model, table, y, n_threads=t, random_state=s)
        for t, s in ((1, 0), (3, 0), (1, 1))
    )
    np.testing.assert_array_equal(one.gain, same.gain)
    np.testing.assert_array_equal(one.by_noise, same.by_noise)
    np.testing.assert_array_equal(one.gain, other.gain)
    assert one.noise != other.noise


# --- fits -----------------------------------------------------------------------------------------


def planted(seed=0, n=1500):
    rng = np.random.default_rng(seed)
    table = {f"x{j}": rng.normal(size=n) for j in range(5)}
    table["g"] = rng.choice(np.array(["p", "q"], dtype=object), n)
    y = np.sin(table["x0"]) + table["x1"] * table["x2"] + (table["g"] == "p") * table["x3"]
    return table, y + 0.3 * rng.normal(size=n)


def test_auto_finds_the_pairs_and_predicts_better():
    table, y = planted()
    test, truth = planted(1)
    main = cb.fit(table, y, n_iter=300)
    model = cb.fit(table, y, n_iter=300, interactions="auto")
    assert {"x1:x2", "x3:g"} <= {n for n, t in model.terms.items() if len(t.columns) == 2}
    errors = [np.mean((m.predict(test) - truth) ** 2) for m in (main, model)]
    assert errors[1] < 0.4 * errors[0]


def test_the_pair_stage_continues_from_the_main_effects():
    table, y = planted()
    held = np.arange(len(y)) % 5 == 0
    main = cb.fit(table, y, n_iter=60, validation=held)
    model = cb.fit(table, y, n_iter=60, validation=held, interactions=[("x1", "x2"), ("x3", "g")])
    m = main.best_iteration
    assert model.choices[:m] == main.choices[:m]
    assert model.n_iter <= m + 60
    assert "x1:x2" in model.choices[m:]
    assert "x1:x2" not in model.choices[:m]
    before = model.at(m)
    np.testing.assert_array_equal(before.predict(table), main.predict(table))
    more = cb.fit(table, y, n_iter=200, validation=held, interactions=[("x1", "x2"), ("x3", "g")])
    assert {*more.choices[200:]} & {*main.choices}  # main effects are updated as well
    np.testing.assert_array_equal(
        model.extend(10, table, y, validation=held).choices[: model.n_iter], model.choices
    )


def test_a_hybrid_that_ends_on_all_rows_starts_again():
    table, y = planted()
    options = {"n_iter": 60, "validation": 0.3, "interactions": [("x1", "x2")]}
    restarted = cb.fit(table, y, optimizer=cb.Hybrid(0.3, then="all"), **options)
    assert restarted.n_iter <= 60
    continued = cb.fit(table, y, optimizer=cb.Hybrid(0.3, then="training"), **options)
    assert continued.n_iter > 60


def test_importance_and_contributions_include_the_pairs():
    table, y = planted()
    model = cb.fit(table, y, interactions=2, n_iter=100)
    parts = model.contributions(table)
    total = model.intercept + sum(parts.values())
    np.testing.assert_allclose(total, model.predict(table), atol=1e-10)
    importance = model.importance("risk")
    assert sum(importance.values()) == pytest.approx(model.risk[0] - model.risk[-1], rel=1e-6)
    assert importance["x1:x2"] > importance["x0"]


def test_numbers_of_pairs():
    table, y = planted()
    none = cb.fit(table, y, interactions=0, n_iter=20)
    assert none.interactions.chosen == 0
    assert all(len(t.columns) == 1 for t in none.terms.values())
    assert none.n_iter == 20
    every = cb.fit(table, y, interactions=1000, n_iter=5)
    assert every.interactions.chosen == 15
    assert sum(len(t.columns) == 2 for t in every.terms.values()) == 15


def test_pairs_with_a_term_get_no_second_term():
    table, y = planted()
    learners = [..., cb.Tensor("x2", "x1")]
    model = cb.fit(table, y, learners, interactions=[("x1", "x2"), ("x0", "g")], n_iter=10)
    assert [n for n, t in model.terms.items() if len(t.columns) == 2] == ["x2:x1", "x0:g"]
    twice = cb.fit(table, y, interactions=[("x1", "x2"), ("x2", "x1")], n_iter=10)
    assert [n for n, t in twice.terms.items() if len(t.columns) == 2] == ["x1:x2"]


def test_a_column_may_be_named_like_a_pair():
    table, y = planted()
    table["x1:x2"] = np.random.default_rng(0).normal(size=len(y))
    model = cb.fit(table, y, interactions=[("x1", "x2")], n_iter=10)
    assert model.terms["(x1):(x2)"].columns == ("x1", "x2")


def test_constant_columns_are_in_no_pair():
    table, y = planted()
    table["one"] = np.ones(len(y))
    with pytest.warns(UserWarning, match="constant in the training rows.*: one"):
        model = cb.fit(table, y, interactions="auto", n_iter=20)
    assert "one" not in {*model.interactions.a, *model.interactions.b}
    with pytest.warns(UserWarning, match="constant in the training rows.*: one"):
        model = cb.fit(table, y, interactions=[("one", "x1"), ("x1", "x2")], n_iter=20)
    assert [n for n, t in model.terms.items() if len(t.columns) == 2] == ["x1:x2"]


@pytest.mark.parametrize("table", [{"x": np.arange(50.0)}, {"x": np.arange(50.0) % 7}])
def test_one_column_has_no_pairs(table):
    model = cb.fit(table, table["x"], interactions="auto", n_iter=5)
    assert model.interactions.n_pairs == 0
    assert len(model.interactions.table["a"]) == 0


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ("every", TypeError, "expected 'auto', 'all', a number or pairs of columns, got 'every'"),
        (-1, ValueError, "interactions must be at least 0, got -1"),
        (2.5, TypeError, "expected 'auto', 'all', a number or pairs"),
        (True, TypeError, "expected 'auto', 'all', a number or pairs"),
        ([("x0",)], TypeError, r"such as \('age', 'job'\), got \('x0',\)"),
        ([("x0", 1)], TypeError, r"such as \('age', 'job'\), got \('x0', 1\)"),
        (["x0:x1"], TypeError, "such as"),
        ([("x0", "nope")], ValueError, "column 'nope' is not in the table"),
        ([("x0", "x0")], ValueError, "two different columns"),
        ([("x0", "y")], ValueError, "column 'y' is not a feature"),
    ],
)
def test_bad_interactions_are_refused(value, error, words):
    table, y = planted(n=100)
    with pytest.raises(error, match=words):
        cb.fit(table | {"y": y}, "y", interactions=value)


def test_model_file_keeps_ranking_and_pairs(tmp_path):
    table, y = planted()
    model = cb.fit(table, y, interactions=2, n_iter=30)
    model.save(tmp_path / "m.json")
    again = cb.load(tmp_path / "m.json")
    assert again.interactions.pairs == model.interactions.pairs
    np.testing.assert_array_equal(again.interactions.gain, model.interactions.gain)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    longer, same = (m.extend(10, table, y) for m in (model, again))
    np.testing.assert_array_equal(longer.predict(table), same.predict(table))


def test_files_of_version_2_are_read():
    """Tensors in these files include main effects, and there is no ranking."""
    table, y = planted()
    model = cb.fit(table, y, [..., cb.Tensor("x1", "x2")], n_iter=20)
    data = json.loads(json.dumps(to_dict(model)))
    del data["interactions"]
    for term in data["terms"]:
        for part in ("learner", "basis"):
            term[part].pop("orthogonal", None)
    old = from_dict({**data, "version": 2})
    assert old.interactions is None
    assert old.terms["x1:x2"].learner == cb.Tensor("x1", "x2")
    np.testing.assert_array_equal(old.predict(table), model.predict(table))


@pytest.mark.parametrize(
    "change",
    [
        {"a": ["x0"]},
        {"tried": 99},
        {"positions": [1]},
        {"rule": "x"},
        {"gain": [1.0, 2.0]},
        {"b": []},
    ],
)
def test_damaged_rankings_are_refused(change):
    table, y = planted(n=300)
    data = to_dict(cb.fit(table, y, interactions=1, n_iter=5))
    data["interactions"] = {**data["interactions"], **change}
    with pytest.raises(ModelFileError, match="interactions"):
        from_dict(json.loads(json.dumps(data)))


def test_formula_has_pairs_without_main_effects():
    table, y = planted()
    model = cb.fit(table | {"y": y}, "y ~ . + ti(x1, x2, df=3) + te(x3, g)", n_iter=20)
    assert model.terms["x1:x2"].learner == cb.Tensor("x1", "x2", 3, orthogonal=True)
    assert not model.terms["x3:g"].learner.orthogonal


def test_edits_keep_the_pair_without_main_effects():
    table = make_table(18)
    y = np.nan_to_num(table["a"]) * (table["g"] == "x")
    model = cb.fit(table, y, [cb.Tensor("a", "g", orthogonal=True)], n_iter=50)
    smoother = model.edit("smoothed", "a:g", df=1.5)
    effect = smoother.contributions(table)["a:g"]
    M = main_effects(levels_of(model.terms["a:g"], table))
    np.testing.assert_allclose(M.T @ effect, 0.0, atol=1e-9)
    assert np.std(effect) < np.std(model.contributions(table)["a:g"])
    with pytest.raises(ValueError, match="df must be a finite number > 0"):
        model.edit("smoothed", "a:g", df=0)


def test_picture_shows_chosen_pairs_and_noise():
    mpl = pytest.importorskip("matplotlib")
    mpl.use("agg")
    table, y = planted()
    model = cb.fit(table, y, interactions=2, n_iter=20)
    display = model.plot(kind="interactions", max_bars=5)
    bars = display.ax_.patches
    assert [bar.get_width() for bar in bars] == pytest.approx(100 * model.interactions.share[:5])
    colours = {bar.get_facecolor() for bar in bars[:2]}, {bar.get_facecolor() for bar in bars[2:]}
    assert not colours[0] & colours[1]
    labels = [t.get_text() for t in display.ax_.get_yticklabels()]
    assert labels[:2] == [f"{a} : {b}" for a, b in model.interactions.pairs[:2]]
    display.figure_.canvas.draw()
    box = display.ax_.get_legend().get_window_extent()
    assert not any(box.overlaps(bar.get_window_extent()) for bar in bars)
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["in the model: 2 of 15 pairs", "not in the model", "best by noise"]
    long = cb.fit({f"a_very_long_name_of_a_column_{k}": v for k, v in table.items()}, y,
                  interactions=2, n_iter=20)  # fmt: skip
    display = long.plot(kind="interactions", max_bars=2)
    display.figure_.canvas.draw()
    legend, page = display.ax_.get_legend(), display.figure_.bbox
    assert [text.get_text() for text in legend.get_texts()] == [names[0], names[2]]
    assert page.x0 <= legend.get_window_extent().x0 < legend.get_window_extent().x1 <= page.x1
    assert not display.ax_.texts  # no text covers the bars
    assert model.interactions.plot().ranking is model.interactions
    mpl.pyplot.close("all")
    with pytest.raises(ValueError, match="the fit did not rank pairs"):
        cb.fit(table, y, n_iter=5).plot(kind="interactions")


# --- estimators, command line, interrupts and progress --------------------------------------------


def test_estimators_take_interactions():
    table, y = planted()
    rows = {k: v for k, v in table.items() if k != "g"}
    X = np.column_stack(list(rows.values()))
    regressor = cb.CWBRegressor(interactions=1, optimizer="plain", n_iter=40).fit(X, y)
    assert regressor.model_.interactions.pairs[0] == ("x1", "x2")
    classifier = cb.CWBClassifier(interactions="auto").fit(X, y > 0)
    assert "x1:x2" in classifier.model_.terms
    more = regressor.set_params(warm_start=True, n_iter=50).fit(X, y)
    assert more.model_.n_iter == regressor.model_.n_iter
    with pytest.raises(ValueError, match="column 'x1' is in exclude="):
        cb.CWBRegressor(interactions=[("x1", "x2")], exclude=["x1"]).fit(X, y)


def test_warm_start_runs_only_the_additional_iterations():
    table, y = planted(n=500)
    X = np.column_stack([table[f"x{j}"] for j in range(5)])
    regressor = cb.CWBRegressor(interactions=1, optimizer="plain", n_iter=20, validation=None)
    first = regressor.fit(X, y).model_
    assert first.n_iter == 40
    second = regressor.set_params(warm_start=True, n_iter=25).fit(X, y).model_
    assert second.n_iter == 45
    assert second.choices[:40] == first.choices


def test_command_line(tmp_path, capsys):
    from cwboost.cli.main import main

    table, y = planted(n=600)
    names = [*table, "y"]
    lines = [",".join(names)]
    lines += [",".join(map(str, row)) for row in zip(*table.values(), y, strict=True)]
    file, out = tmp_path / "t.csv", tmp_path / "m.json"
    file.write_text("\n".join(lines))
    common = ["fit", str(file), "--target", "y", "--iterations", "30", "-o", str(out), "--quiet"]
    for values, expected in (
        (["auto"], {"x1:x2", "x3:g"}),
        (["1"], {"x1:x2"}),
        (["x0:g", "x1:x2"], {"x0:g", "x1:x2"}),
    ):
        assert main([*common, "--interactions", *values]) == 0
        terms = cb.load(out).terms
        assert expected <= {n for n, t in terms.items() if len(t.columns) == 2}
    assert main([*common, "--interactions", "x0:nope"]) == 1
    assert "column 'nope' is not in the table" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*common, "--interactions", "everything"])
    assert "expected auto, all, a number or pairs such as age:job" in capsys.readouterr().err
    picture = tmp_path / "p.png"
    main([*common, "--interactions", "2"])
    assert main(["plot", str(out), "--kind", "interactions", "-o", str(picture)]) == 0
    assert picture.stat().st_size > 1000


def test_ctrl_c_in_the_ranking_leaves_the_main_effects(monkeypatch):
    table, y = planted(n=500)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(interactions._core, "rank_pairs", interrupted)
    with pytest.raises(cb.Interrupted) as stop:
        cb.fit(table, y, n_iter=20, interactions="auto")
    assert stop.value.model.n_iter == 20


def test_the_ranking_reports_progress(monkeypatch):
    from cwboost.progress import Progress

    class Recorder(Progress):
        every = 0.0

        def __init__(self):
            super().__init__()
            self.counts = []

        def draw(self, now, final):
            self.counts.append(self.tasks[-1].count())

    monkeypatch.setattr(interactions, "AT_A_TIME", 4)
    table, y = planted(n=300)
    bar = Recorder()
    rank_interactions(cb.fit(table, y, n_iter=5), table, y, progress=bar)
    assert bar.counts == ["pair  4/15", "pair  8/15", "pair 12/15", "pair 15/15"]


# --- the core -------------------------------------------------------------------------------------


def test_core_refuses_arrays_of_wrong_sizes():
    basis = TensorBasis(a=LevelBasis(n_levels=3), b=LevelBasis(n_levels=2), orthogonal=True)
    penalty, aim = basis.inner_penalty(), (np.nan, 1.0, False, False, 0, 0.0)
    fine = np.ones((3, 2)), penalty, aim, np.empty((2, 2))
    _core.solve_pairs([fine], np.empty((1, 4)))
    for wrong in (
        (np.ones((3, 3)), penalty, aim, np.empty((2, 2))),
        (np.ones((3, 2)), penalty, aim, np.empty((1, 1))),
        (np.ones((1, 2)), penalty, aim, np.empty((2, 2))),
    ):
        with pytest.raises(ValueError, match="inner cells"):
            _core.solve_pairs([wrong], np.empty((1, 4)))
    index, values = [np.zeros(5, np.uint8)] * 2, np.ones((5, 2))
    for sizes, numbers, pair in (
        ([3, 2], values[:4], (0, 1, penalty, 0)),
        ([3, 2], values, (0, 2, penalty, 0)),
        ([3, 3], values, (0, 1, penalty, 0)),
        ([0, 2], values, (0, 1, penalty, 0)),
    ):
        with pytest.raises(ValueError, match="rank_pairs"):
            _core.rank_pairs(index, sizes, np.ascontiguousarray(numbers), [pair], 1.0,
                             np.empty((1, 2)))  # fmt: skip


@pytest.mark.parametrize("shape", [(2, 2), (5, 3), (3, 7), (9, 9)])
@pytest.mark.parametrize("holes", [0.0, 0.5, 0.9])
def test_learner_of_cells_is_dense_algebra(shape, holes):
    """The tables have empty cells, rows or columns."""
    rng = np.random.default_rng(19)
    W = np.where(rng.uniform(size=shape) < holes, 0.0, rng.uniform(0.5, 2.0, shape))
    W[0, 0] = 1.0
    basis = TensorBasis(
        a=LevelBasis(n_levels=shape[0], differences=1),
        b=LevelBasis(n_levels=shape[1], differences=1),
        orthogonal=True,
    )
    d = basis.n_coef
    rows = systems.BasisRows(np.arange(d + 1), np.arange(d, dtype=np.int32), np.ones(d))
    aim = SmoothingTarget(0.7, 0.0, False, False, 0)
    (system,) = systems.solve_pairs([systems.PairTask(basis, rows, W.ravel(), aim)])
    learner = _core.Learner(0, *rows, *system[:2], system.removed, system.weigher, system.n_b)
    u = rng.normal(size=d) * W.ravel()
    theta, gain = learner.fit(u[None, :])
    M, A = basis.removed().T, np.diag(W.ravel())
    Q = np.eye(d) - M @ np.linalg.pinv(M.T @ A @ M, 1e-10, hermitian=True) @ M.T @ A
    own = Q.T @ A @ Q
    if np.trace(own) < 1e-10 * W.sum():
        assert system.df == 0.0
        assert gain == pytest.approx(0.0, abs=1e-12)
        return
    K = Q @ np.linalg.pinv(own + 0.7 * basis.penalty(), 1e-12, hermitian=True) @ Q.T
    fitted, expected = (A**0.5 @ x for x in (theta[0], K @ u))
    np.testing.assert_allclose(fitted, expected, atol=1e-9)
    assert gain == pytest.approx(2 * u @ K @ u - u @ K @ A @ K @ u, abs=1e-9)
    assert system.df == pytest.approx(np.trace(2 * K @ A - K @ A @ K @ A), abs=1e-8)
    seen = W.ravel() > 0
    unseen = M @ null_space(M[seen])  # additive, and zero in every cell that has rows
    assert unseen.shape[1] == (0 if system.removed is None else len(system.removed))
    np.testing.assert_allclose(unseen.T @ basis.penalty() @ theta[0], 0.0, atol=1e-9)


def test_splits_and_pairs_can_be_combined():
    """Folds and bags share bins and pairs; only the weights differ."""
    table, y = planted(n=600)
    from cwboost.fitting.problem import FitProblem
    from cwboost.fitting.stages import with_pairs
    from cwboost.progress import as_progress

    binned = prepare(table, y)
    main = cb.fit(table, y, n_iter=50)
    binned, ranking = with_pairs(binned, main, 2, as_progress(False))
    assert [p.name for p in binned.plans[-2:]] == [":".join(p) for p in ranking.pairs[:2]]
    for seed in range(2):
        w = np.random.default_rng(seed).integers(0, 2, 600).astype(float)
        problem = FitProblem.pose(binned, Split(w, 1 - w, np.ones(600)), cb.Plain(0.3))
        model = problem.fit(60)
        rows = w > 0
        alone = cb.fit({k: v[rows] for k, v in table.items()}, y[rows],
                       [t.learner for t in model.terms.values()], n_iter=0)  # fmt: skip
        assert model.terms["x1:x2"].df == pytest.approx(4.0)
        assert alone.terms["x1:x2"].df == pytest.approx(4.0)
        assert "x1:x2" in model.choices


def test_penalties_of_pairs_have_the_stated_null_dimension():
    sizes = [(n, d, m) for n in (2, 4) for d in (0, 1) for m in (False, True)]
    for a, b in itertools.product(sizes, sizes):
        margins = [LevelBasis(n_levels=n, differences=d, missing=m) for n, d, m in (a, b)]
        basis = TensorBasis(a=margins[0], b=margins[1], orthogonal=True)
        values = np.linalg.eigvalsh(basis.inner_penalty())
        assert np.sum(values < 1e-9 * values.max()) == basis.null_dim


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_bins_that_mix_cells_do_not_form_a_table(weight):
    """A level unseen in training takes the mean row; all rows may contain it, unlike training."""
    margin = LevelBasis(n_levels=2, differences=0, missing=False)
    values = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [UNSEEN, 0.0]])
    weights = np.array([1.0, 2.0, 3.0, 4.0, weight])
    basis = TensorBasis(a=margin, b=margin, orthogonal=True).with_mean(values, weights)
    target = SmoothingTarget(np.nan, 1.0, False, False, 0)
    task = systems.PairTask(basis, basis.all_rows(values, ArrayPool()), weights, target)
    table = systems._table(task)
    assert table is None if weight else np.array_equal(table, [[1.0, 2.0], [3.0, 4.0]])


def test_each_axis_of_a_pair_has_at_most_255_bins():
    rng = np.random.default_rng(0)
    table, y = {"x": rng.normal(size=900), "z": rng.normal(size=900)}, rng.normal(size=900)
    learners = [cb.Tensor("x", "z"), cb.Spline("x")]
    of_pair, of_column = prepare(table, y, learners, bins="auto").shared_bins.sets
    assert all(100 < len(np.unique(axis)) <= 255 for axis in of_pair.values.T)
    assert of_column.n_bins == 900


def test_exact_bins_of_a_pair_are_exact():
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=900), "z": rng.integers(0, 300, 900)}
    y = table["x"] * table["z"]
    model = cb.fit(table, y, [cb.Tensor("x", "z")], bins="exact", n_iter=20)
    risk = np.mean((y - model.predict(table)) ** 2) / 2
    assert model.risk[-1] == pytest.approx(risk, rel=1e-9)


def test_exact_bins_of_a_pair_have_a_limit(monkeypatch):
    monkeypatch.setattr("cwboost.fitting.axis_binning.MAX_EXACT_CELLS", 100)
    rng = np.random.default_rng(0)
    table, y = {"x": rng.normal(size=101), "z": rng.normal(size=101)}, rng.normal(size=101)
    message = "'x' and 'z' have 101 different pairs of values, but a Tensor takes at most 100"
    with pytest.raises(ValueError, match=message):
        cb.fit(table, y, [cb.Tensor("x", "z", bins="exact")])
    some = {name: column[:100] for name, column in table.items()}
    assert cb.fit(some, y[:100], [cb.Tensor("x", "z", bins="exact")], n_iter=2).n_iter == 2


def test_weights_count_as_repetitions_for_the_resolution_of_pairs():
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=60), "b": rng.normal(size=60)}
    y, w = table["a"] * table["b"], rng.integers(1, 60, 60)
    learners, rows = [cb.Tensor("a", "b", orthogonal=True)], np.repeat(np.arange(60), w)
    weighted = cb.fit(table, y, learners, weights=w, n_iter=20)
    repeated = cb.fit({k: v[rows] for k, v in table.items()}, y[rows], learners, n_iter=20)
    np.testing.assert_allclose(weighted.predict(table), repeated.predict(table), atol=1e-9)
    shares = cb.fit(table, y, learners, weights=w / w.sum(), n_iter=20)
    assert shares.terms["a:b"].plan.basis.a.n_levels == pair_bins(60)


def test_a_product_with_a_margin_without_constant_has_no_constant():
    line, levels = PowerBasis(center=0.0, scale=1.0, degree=1, first=1), LevelBasis(n_levels=2)
    for a, b in ((line, levels), (levels, line), (line, line)):
        assert TensorBasis(a=a, b=b).ones() is None
        assert not TensorBasis(a=a, b=b).has_masses
    assert TensorBasis(a=levels, b=levels).ones().tolist() == [1.0] * 4
    assert TensorBasis(a=levels, b=levels).has_masses


def test_rare_levels_share_the_last_level_of_the_ranking():
    names = np.repeat([f"{k:02}" for k in range(15)], range(20, 5, -1))  # "00" is the most frequent
    data = prepare({"g": names}, np.arange(len(names), dtype=float), [cb.Category("g")]).data
    summary = summarize(data.table["g"], data.sample)
    margin = interactions._margin("g", data, summary)
    number = {name: set(margin.levels[names == name].tolist()) for name in np.unique(names)}
    last = interactions.MAX_LEVELS - 1
    assert [number[f"{k:02}"] for k in range(15)] == [{min(k, last)} for k in range(15)]
