"""Tests of polish: the refit of the chosen terms, its smoothing, its weight and its bands.

The refit is compared with a dense penalised regression written in NumPy.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwboost as cb
import sharding
from cwboost import _core
from cwboost._core import SLOT_F, TRAINING_PART
from cwboost.fitting.polish import hessian, model_refit, polished_rows
from cwboost.fitting.polish import polish as polish_module
from cwboost.fitting.polish import refit as polish_refit
from cwboost.fitting.polish.model_refit import ModelRefit
from cwboost.fitting.polish.polish import polish_fit
from cwboost.fitting.polish.weight import HeldOutRisk, choose_weight
from cwboost.fitting.problem import FitProblem
from cwboost.losses import as_loss

FEW = [cb.Spline("a", knots=8), cb.Step("a", bins=16), cb.Linear("b"), cb.Category("g")]
LOSSES = {"squared": 1.0, "binomial": 1.0, "poisson": 0.5, "gamma": 0.5}


def make_rows(n=600, loss="squared", seed=0, noise_columns=2):
    """Return a table, y and the true scores: a sine, a line and levels, and columns of noise."""
    rng = np.random.default_rng(seed)
    table = {"a": rng.uniform(-2, 2, n), "b": rng.normal(size=n)}
    table["g"] = rng.choice(["u", "v", "w"], n)
    table |= {f"noise{j}": rng.uniform(size=n) for j in range(noise_columns)}
    f = np.sin(2 * table["a"]) - 0.5 * table["b"] + (table["g"] == "u")
    f = LOSSES[loss] * f
    y = {
        "squared": lambda: f + rng.normal(size=n),
        "binomial": lambda: (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int),
        "poisson": lambda: rng.poisson(np.exp(f)).astype(float),
        "gamma": lambda: np.exp(f) * rng.gamma(4.0, 0.25, n),
    }[loss]()
    return table, y, f


@pytest.fixture
def problem_of(monkeypatch):
    """Return a function that fits a model and returns it with its problem."""

    def make(*arguments, **options):
        found = []
        boost = FitProblem.boost

        def remember(self, *rest):
            model = boost(self, *rest)
            found.append((self, model))
            return model

        with monkeypatch.context() as patch:
            patch.setattr(FitProblem, "boost", remember)
            cb.fit(*arguments, progress=False, **options)
        return found[-1]

    return make


def design(rows):
    """Return the (n, p) coordinates of all rows and the bins, from the sets of the problem."""
    parts = []
    for i, number in enumerate(rows.sets):
        bins = rows.problem.prepared.shared_bins.sets[number]
        parts.append((rows.bases[i] @ rows.coordinates[i].matrix)[bins.index])
    return np.hstack(parts)


# --- the verbs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["squared", "binomial", "poisson", "gamma", "tweedie", "huber"])
def test_curvature_is_the_derivative_of_the_gradient(name):
    rng = np.random.default_rng(1)
    loss, n = as_loss(name), 50
    y = rng.choice([-1.0, 1.0], n) if name == "binomial" else rng.gamma(2.0, 1.0, n)
    score = rng.normal(size=n)
    index = _core.IndexSet(np.arange(n, dtype=np.uint8), n)

    def residual(at):
        rows = _core.LocalRows(loss.core(y), y, None, [index], [np.ones(n)])
        rows.run([_core.Fill(0, [0.0]), _core.Add(0, 0, at), _core.Residual(0, 1, [0])])
        rows.run([_core.Curvature(0, 2)])
        return rows.read(1)[0], rows.read(2)[0]

    h = 1e-5
    numeric = (residual(score - h)[0] - residual(score + h)[0]) / (2 * h)
    found = residual(score)[1]
    np.testing.assert_allclose(found, numeric, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found, loss.curvature(y, score), rtol=1e-12)


def test_curvature_of_classes_is_p_times_one_minus_p():
    n, q = 20, 3
    rng = np.random.default_rng(0)
    y, score = rng.integers(0, q, n).astype(float), rng.normal(size=(q, n))
    index = _core.IndexSet(np.arange(n, dtype=np.uint8), n)
    rows = _core.LocalRows(_core.make_loss("multinomial", q), y, None, [index], [np.ones(n)])
    rows.run([_core.Fill(0, [0.0] * q), _core.Add(0, 0, score.ravel()), _core.Curvature(0, 1)])
    p = np.exp(score) / np.exp(score).sum(axis=0)
    np.testing.assert_allclose(rows.read(1), p * (1 - p), rtol=1e-12)


def test_a_loss_without_second_derivative_has_no_curvature():
    y = np.ones(3)
    index = _core.IndexSet(np.zeros(3, dtype=np.uint8), 1)
    rows = _core.LocalRows(_core.make_loss("absolute"), y, None, [index], [np.ones(3)])
    assert not _core.make_loss("absolute").has_curvature
    rows.run([_core.Fill(0, [0.0])])
    with pytest.raises(ValueError, match="does not have a second derivative"):
        rows.run([_core.Curvature(0, 1)])


def test_cross_grams_are_weighted_by_a_slot(problem_of):
    table, y, _ = make_rows(200)
    problem, _ = problem_of(table, y, weights=np.linspace(0.5, 2, 200))
    rows, rng = problem.local_rows, np.random.default_rng(0)
    rows.run([_core.Fill(7, [0.0])])
    slot = rng.uniform(size=200)
    index = problem.prepared.shared_bins.sets[0].index
    per_bin = rng.uniform(size=problem.prepared.shared_bins.sets[0].n_bins)
    slot = per_bin[index]
    rows.run([_core.Add(7, 0, per_bin)])
    found = rows.run([_core.cross_of(problem.learners, [(0, 1)], TRAINING_PART, 7)])[0].sums[0]
    a, b = (
        problem.prepared.core_rows[k].matrix(problem.plans[k].basis.n_coef)[
            problem.prepared.shared_bins.sets[problem.prepared.shared_bins.of_term[k]].index
        ]
        for k in (0, 1)
    )
    w = np.linspace(0.5, 2, 200) * slot
    expected = (a.multiply(w[:, None])).T @ b
    np.testing.assert_allclose(found.reshape(expected.shape), expected.toarray(), atol=1e-12)


# --- the refit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_refit_is_stationary(problem_of, monkeypatch, loss, weighted):
    """At the end the penalised gradient is zero and REML does not want other smoothing."""
    monkeypatch.setattr(polish_refit, "TOLERANCE", 1e-7)
    monkeypatch.setattr(model_refit, "MAX_STEPS", 300)
    monkeypatch.setattr(polish_refit, "CHANGED", 1e-4)
    monkeypatch.setattr(polish_refit, "MAX_GRAMS", 30)
    monkeypatch.setattr(polish_refit, "STILL", 0.0)
    table, y, _ = make_rows(300, loss)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    problem, model = problem_of(table, y, loss=loss, learners=FEW, weights=weights)
    part = ModelRefit(problem, model, TRAINING_PART)
    part.run()
    [rows], [smoothing], [found] = part.rows, part.smoothing, part.found
    x, w = design(rows), np.ones(len(y)) if weights is None else weights
    eta = found.intercept + x @ found.u
    np.testing.assert_allclose(eta, problem.local_rows.read(SLOT_F)[0], atol=1e-8)
    y_core = problem.prepared.data.y
    h = model.loss.curvature(y_core, eta)
    residual = -np.gradient(
        [_loss_of(loss, y_core, eta + d) for d in (-1e-5, 0.0, 1e-5)], 1e-5, axis=0
    )[1]
    penalty = np.zeros(len(found.u))
    for p, place, value in zip(
        smoothing.penalties, smoothing.places, smoothing.values, strict=True
    ):
        penalty[place] += value * p.size
    gradient = x.T @ (w * residual) - penalty * found.u
    scale = np.abs(x.T) @ np.abs(w * residual)
    assert np.abs(gradient).max() < 1e-4 * scale.max()
    assert abs(np.sum(w * residual)) < 1e-4 * np.sum(np.abs(w * residual))
    # The effective df, from the dense matrices.
    xc = x - np.average(x, axis=0, weights=w * h)
    a = xc.T @ ((w * h)[:, None] * xc) + np.diag(penalty)
    inverse = np.linalg.inv(a)
    assert np.sum(1.0 - penalty * np.diag(inverse)) == pytest.approx(found.edf.sum(), rel=1e-3)
    # REML: phi (rank - lambda tr(A^-1 S)) = lambda u'Su, for penalties that are neither 0 nor huge.
    for p, place, value, start in zip(
        smoothing.penalties, smoothing.places, smoothing.values, smoothing.typical, strict=True
    ):
        if 1e-5 < value / start < 1e3:
            wanted = found.dispersion * (p.rank - value * p.size @ np.diag(inverse)[place])
            assert value * p.size @ found.u[place] ** 2 == pytest.approx(wanted, rel=0.02, abs=1e-3)


def _loss_of(name, y, score):
    return {
        "squared": lambda: (y - score) ** 2 / 2,
        "binomial": lambda: np.logaddexp(0, -y * score),
        "poisson": lambda: np.exp(score) - y * score,
        "gamma": lambda: score + y * np.exp(-score),
    }[name]()


def test_known_smoothing_gives_penalised_least_squares(problem_of):
    table, y, _ = make_rows()
    problem, model = problem_of(table, y, learners=FEW)
    part = ModelRefit(problem, model, TRAINING_PART)
    [rows], [smoothing] = part.rows, part.smoothing
    x = design(rows)
    smoothing.begin(rows.u, 1.0, 1.0)
    penalty = smoothing.diagonal()
    part.score()
    rows.residuals()
    constant, total = rows.curvature()
    factor = rows.gram(constant, total).factor(penalty)
    xc = x - x.mean(axis=0)
    expected = np.linalg.solve(xc.T @ xc + np.diag(penalty), xc.T @ y)
    np.testing.assert_allclose(factor.solve(xc.T @ y), expected, atol=1e-5)
    inverse = np.linalg.inv(xc.T @ xc + np.diag(penalty))
    np.testing.assert_allclose(factor.inverse_diagonal(), np.diag(inverse), rtol=1e-3, atol=1e-9)
    for g in range(len(rows.groups)):
        at, block = factor.inverse_block(g)
        np.testing.assert_allclose(block, inverse[np.ix_(at, at)], rtol=1e-2, atol=1e-6)


@pytest.mark.parametrize("n_leading", [1000, 12])
def test_strongly_penalised_coordinates_are_treated_as_independent(problem_of, n_leading):
    table, y, _ = make_rows()
    problem, model = problem_of(table, y, learners=FEW)
    [rows] = ModelRefit(problem, model, TRAINING_PART).rows
    problem.rows.run([_core.Fill(SLOT_F, [0.0])])
    rows.layout = hessian.Layout.make([[rows.places[i] for i in g] for g in rows.groups], n_leading)
    rows.residuals()
    gram = rows.gram(*rows.curvature())
    n, rng = rows.layout.size, np.random.default_rng(0)
    penalty = gram.diagonal * 10.0 ** rng.uniform(0, 6, n)
    right = rng.normal(size=n) * np.sqrt(gram.diagonal)
    found = gram.factor(penalty)
    whole = hessian.BlockFactor.make(gram, penalty, connected=True)
    assert n // 4 < len(found.kept) < 3 * n // 4
    size = np.sqrt(whole.inverse_diagonal())
    np.testing.assert_allclose(found.solve(right) / size, whole.solve(right) / size, atol=0.02)
    np.testing.assert_allclose(found.inverse_diagonal(), whole.inverse_diagonal(), rtol=2e-3)
    for group in range(len(rows.groups)):
        at, block = found.inverse_block(group)
        own, expected = whole.inverse_block(group)
        order = np.argsort(own)
        np.testing.assert_array_equal(at, own[order])
        scale = np.outer(size[at], size[at])
        np.testing.assert_allclose(block / scale, expected[np.ix_(order, order)] / scale, atol=0.05)


def test_few_leading_coordinates_change_little(problem_of, monkeypatch):
    table, y, truth = make_rows(3000)
    problem, model = problem_of(table, y, learners="auto")
    exact = polish_fit(problem, model, required=True)
    monkeypatch.setattr(polished_rows, "MAX_LEADING", 60)
    monkeypatch.setattr(polished_rows, "FEW", 60)
    rough = polish_fit(problem, model, required=True)
    a, b = exact.predict(table), rough.predict(table)
    assert np.std(a - b) < 0.1 * np.std(a - truth)
    assert not np.array_equal(a, b)  # the layouts differ
    total = [sum(m.polish.edf.values()) for m in (exact, rough)]
    assert abs(total[0] - total[1]) < 0.05 * total[0]


@pytest.mark.parametrize("loss", LOSSES)
def test_polish_lowers_the_error(loss):
    errors = []
    for seed in range(3):
        table, y, truth = make_rows(800, loss, seed)
        options = {"loss": loss, "learners": FEW, "validation": 0.2, "n_iter": 200}
        model = cb.fit(table, y, **options)
        polished = cb.fit(table, y, polish="auto", **options)
        errors.append([np.std(m.predict(table, "score") - truth) for m in (model, polished)])
    before, after = np.mean(errors, axis=0)
    assert after < 0.9 * before


def test_noise_columns_are_dropped():
    table, y, _ = make_rows(5000, noise_columns=6)
    model = cb.fit(table, y, learners="smooth", n_iter=500, polish=True)
    dropped = {model.terms[name].columns[0] for name in model.polish.dropped}
    assert dropped
    assert dropped <= {f"noise{j}" for j in range(6)}
    assert not any(model.terms[name].chosen for name in model.polish.dropped)


def test_repeated_rows_equal_whole_weights():
    table, y, _ = make_rows(300)
    weights = np.random.default_rng(0).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weights)
    many = {name: column[rows] for name, column in table.items()}
    a = cb.polish(cb.fit(table, y, weights=weights), table, y, weights=weights, weight=1.0)
    b = cb.polish(cb.fit(many, y[rows]), many, y[rows], weight=1.0)
    np.testing.assert_allclose(a.predict(table), b.predict(table), atol=1e-6)
    assert a.polish.dispersion == pytest.approx(b.polish.dispersion, rel=1e-6)


@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_the_scale_of_weights_does_not_matter(loss):
    table, y, _ = make_rows(400, loss)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    models = [cb.fit(table, y, loss=loss, weights=c * weights, polish=True) for c in (1.0, 50.0)]
    a, b = (m.predict(table, "score") for m in models)
    np.testing.assert_allclose(a, b, atol=1e-4)
    bands = [m.band("a")["upper"] for m in models]
    np.testing.assert_allclose(*bands, atol=1e-3)


def test_y_in_other_units_scales_the_model():
    table, y, _ = make_rows(400)
    a, b = (cb.fit(table, c * y, polish=True) for c in (1.0, 1000.0))
    np.testing.assert_allclose(1000 * a.predict(table), b.predict(table), rtol=1e-4, atol=0.1)
    np.testing.assert_allclose(1000 * a.band("a")["lower"], b.band("a")["lower"], atol=1.0)


@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_threads_give_the_same_bits(loss):
    """The rows are more than one task of a thread has."""
    table, y, _ = make_rows(40_000, loss)
    options = {"loss": loss, "learners": FEW, "n_iter": 5, "validation": 0.2, "polish": True}
    one, two = (cb.fit(table, y, n_threads=n, **options) for n in (1, 2))
    assert one.polish.weight == two.polish.weight > 0.0
    assert np.array_equal(one.predict(table), two.predict(table))
    assert np.array_equal(one.band("a")["upper"], two.band("a")["upper"])


def test_offsets_are_respected():
    table, y, _ = make_rows(600, "poisson")
    exposure = np.random.default_rng(0).uniform(0.2, 2.0, len(y))
    counts = np.random.default_rng(1).poisson(exposure * np.exp(np.sin(2 * table["a"])))
    model = cb.fit(table, counts, loss="poisson", exposure=exposure, polish=True)
    total = model.predict(table, exposure=exposure).sum()
    assert total == pytest.approx(counts.sum(), rel=1e-3)


def test_pairs_and_missing_cells():
    rng = np.random.default_rng(0)
    n = 3000
    table = {"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)}
    truth = np.where(np.isnan(table["a"]), 0.0, 2.0 * table["a"] * table["b"])
    table["c"] = np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n))
    truth = truth + np.where(np.isnan(table["c"]), 1.0, 0.0)
    y = truth + rng.normal(size=n)
    options = {"interactions": [("a", "b")], "validation": 0.2, "n_iter": 300}
    boosted = cb.fit(table, y, **options)
    model = cb.fit(table, y, polish=True, **options)
    pair = next(name for name, term in model.terms.items() if len(term.columns) == 2)
    assert model.polish.edf[pair] > 1.0
    assert pair in model.polish.factors
    errors = [np.std(m.predict(table) - truth) for m in (boosted, model)]
    assert errors[1] < 1.1 * errors[0]
    effect = model.contributions(table)["c"]
    assert abs(np.mean(effect[np.isnan(table["c"])]) - 0.7) < 0.1  # 0.7 above the mean effect


# --- the weight -----------------------------------------------------------------------------------


def test_the_weight_follows_clear_evidence():
    assert choose_weight(HeldOutRisk((1000.0, 1300.0, 2000.0), 1.0)) == 0.0
    assert choose_weight(HeldOutRisk((2000.0, 1200.0, 1000.0), 1.0)) == 1.0
    assert choose_weight(HeldOutRisk((1000.0, 100.0, 1000.0), 1.0)) == pytest.approx(0.5, abs=0.01)
    assert choose_weight(HeldOutRisk((5.0, 5.0, 5.0), 1.0)) == 1.0  # the two do not differ
    assert choose_weight(HeldOutRisk((5.0, np.inf, np.inf), 1.0)) == 0.0


@given(st.tuples(*[st.floats(-1e6, 1e6)] * 3), st.floats(1e-6, 1e6))
def test_the_weight_is_a_share(losses, dispersion):
    assert 0.0 <= choose_weight(HeldOutRisk(losses, dispersion)) <= 1.0


def test_a_given_weight_mixes_the_scores():
    table, y, _ = make_rows()
    model = cb.fit(table, y)
    whole, half = (cb.polish(model, table, y, weight=w) for w in (1.0, 0.25))
    expected = 0.75 * model.predict(table) + 0.25 * whole.predict(table)
    np.testing.assert_allclose(half.predict(table), expected, atol=1e-3)  # terms are dropped
    band, other = half.band("a"), whole.band("a")
    assert np.all(band["upper"] - band["lower"] >= 0.999 * (other["upper"] - other["lower"]))


def test_a_fold_may_end_before_the_model_did():
    """Without noise a fit ends when nothing is left to gain, in some folds sooner."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = {"a": rng.normal(size=60), "b": rng.normal(size=60)}
        learners = [cb.Linear("a"), cb.Linear("b")]
        y = table["a"] - table["b"]
        model = cb.fit(table, y, learners, optimizer=cb.Plain(1.0), n_iter=500, polish="auto")
        assert np.isfinite(model.predict(table)).all()


# --- the model ------------------------------------------------------------------------------------


def test_path_file_pickle_and_extend(tmp_path):
    table, y, _ = make_rows()
    options = {"validation": 0.25, "n_iter": 80}
    plain = cb.fit(table, y, **options)
    model = cb.fit(table, y, polish=True, **options)
    assert np.array_equal(model.boosted.predict(table), plain.predict(table))
    for m in (0, 5, plain.n_iter):
        assert np.array_equal(model.at(m).predict(table), plain.at(m).predict(table))
        assert model.at(m).polish is None
    again = cb.polish(plain, table, y)
    assert np.array_equal(again.predict(table), model.predict(table))
    model.save(tmp_path / "m.json")
    for other in (cb.load(tmp_path / "m.json"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(table), model.predict(table))
        assert np.array_equal(other.boosted.predict(table), plain.predict(table))
        assert other.polish.edf == model.polish.edf
        for kind in ("pointwise", "simultaneous"):
            a, b = (m.band("a", kind=kind) for m in (other, model))
            np.testing.assert_array_equal(a["upper"], b["upper"])
    longer = model.extend(20, table, y)
    assert longer.n_iter == plain.n_iter + 20
    assert longer.polish.weight > 0
    scores = model.intercept + sum(model.contributions(table).values())
    np.testing.assert_allclose(scores, model.predict(table), atol=1e-10)


def test_effects_have_mean_zero_over_all_rows():
    table, y, _ = make_rows()
    model = cb.fit(table, y, validation=0.3, polish=True, bins="exact")
    for name, effect in model.contributions(table).items():
        assert abs(np.mean(effect)) < 1e-8, name


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"loss": "absolute"}, "second derivative"),
        ({"min_rows_per_bin": 5}, "min_rows_per_bin"),
        ({"n_iter": 0}, "no term was chosen"),
    ],
)
def test_models_that_cannot_be_polished_say_why(options, reason):
    table, y, _ = make_rows(200)
    model = cb.fit(table, y, polish="auto", **options)
    assert model.polish.weight == 0.0
    assert reason in model.polish.reason
    np.testing.assert_array_equal(model.predict(table), cb.fit(table, y, **options).predict(table))
    with pytest.raises(ValueError, match=reason):
        cb.fit(table, y, polish=True, **options)


def test_arguments_are_checked():
    table, y, _ = make_rows(100)
    model = cb.fit(table, y)
    with pytest.raises(ValueError, match="polish: expected"):
        cb.fit(table, y, polish="always")
    with pytest.raises(ValueError, match="weight: expected"):
        cb.polish(model, table, y, weight=1.5)
    with pytest.raises(TypeError, match="expected a Model"):
        cb.polish("model", table, y)
    with pytest.raises(ValueError, match="not the rows of the fit"):
        cb.polish(model, table, y + 1.0)
    with pytest.raises(ValueError, match="source: expected"):
        model.band("a", source="posterior")
    with pytest.raises(ValueError, match="does not have bands of source 'bayesian'"):
        model.with_bands(table, y, n_boot=10).band("a", source="bayesian")


def test_shards_equal_local_rows():
    table, y, _ = make_rows(900, "binomial")
    options = {"loss": "binomial", "n_iter": 25, "validation": 0.2, "polish": True}
    local = cb.fit(table, y, progress=False, **options)
    shards = sharding.split_rows(table, {"y": y}, 4, 2)
    other = sharding.fit(shards, y, **options)
    np.testing.assert_allclose(local.predict(table), other.predict(table), atol=1e-6)
    assert other.polish.weight == pytest.approx(local.polish.weight)


# --- bands ----------------------------------------------------------------------------------------


def test_bands_follow_the_posterior(problem_of):
    """The pointwise band has the dense posterior standard deviation, smoothing being known."""
    table, y, _ = make_rows(400)
    problem, model = problem_of(table, y, learners=[cb.Spline("a"), cb.Spline("b")])
    polished = polish_fit(problem, model, required=True)
    band = polished.band("a", 50)
    width = np.asarray(band["upper"] - band["lower"]) / (2 * 1.959964)
    part = ModelRefit(problem, model, TRAINING_PART)
    part.run()
    [rows], [smoothing], [found] = part.rows, part.smoothing, part.found
    x = design(rows)
    xc = x - x.mean(axis=0)
    inverse = np.linalg.inv(xc.T @ xc + np.diag(smoothing.diagonal()))
    matrix = rows.coordinates[0].matrix
    basis = polished.terms["a"].plan.basis
    b = np.asarray(basis.matrix(np.asarray(band["a"])) - basis.mean) @ matrix
    place = rows.places[0]
    sd = np.sqrt(found.dispersion * np.sum(b @ inverse[place, place] * b, axis=1))
    assert np.all(width > 0.98 * sd)  # the uncertainty of the smoothing adds to it
    assert np.all(width < 1.5 * sd)
    wide = polished.band("a", 50, kind="simultaneous")
    assert np.all(wide["upper"] >= band["upper"])


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "n"), [("squared", 500), ("binomial", 2000), ("poisson", 2000)])
def test_coverage(loss, n):
    inside, everywhere = [], []
    for seed in range(30):
        table, y, _ = make_rows(n, loss, 100 + seed)
        model = cb.fit(
            table, y, loss=loss, learners="auto", validation=0.2, n_iter=500, polish=True
        )
        band = model.band("a")
        x = np.asarray(band["a"])
        truth = LOSSES[loss] * (np.sin(2 * x) - np.mean(np.sin(2 * table["a"])))
        inside.append(np.mean((band["lower"] <= truth) & (truth <= band["upper"])))
        wide = model.band("a", kind="simultaneous")
        everywhere.append(np.all((wide["lower"] <= truth) & (truth <= wide["upper"])))
    assert 0.9 < np.mean(inside) <= 0.995
    assert np.mean(everywhere) >= 0.85


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(12, 80), st.sampled_from(sorted(LOSSES)))
def test_tiny_tables_never_fail(seed, n, loss):
    table, y, _ = make_rows(n, loss, seed)
    if (loss == "binomial" and len(set(y.tolist())) < 2) or (loss == "poisson" and not y.any()):
        return
    model = cb.fit(table, y, loss=loss, learners=[*FEW, ...], n_iter=50, polish="auto")
    assert np.isfinite(model.predict(table)).all()


# --- several scores -------------------------------------------------------------------------------


def make_classes(n=1500, seed=0):
    """Return a table, labels of three classes and their true scores."""
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(-2, 2, n) for name in "abc"}
    scores = np.column_stack([np.sin(2 * table["a"]), table["b"], np.zeros(n)])
    labels = np.array(["u", "v", "w"])[np.argmax(scores + rng.gumbel(size=(n, 3)), axis=1)]
    return table, labels, scores


def test_scores_of_classes_are_refitted_in_turn(tmp_path):
    errors = []
    for seed in range(3):
        table, labels, scores = make_classes(seed=seed)
        options = {"loss": "multinomial", "n_iter": 400, "validation": 0.2}
        boosted = cb.fit(table, labels, **options)
        model = cb.fit(table, labels, polish=True, **options)
        assert model.polish.weight > 0.0
        np.testing.assert_array_equal(model.boosted.predict(table), boosted.predict(table))
        truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        errors.append([np.mean((m.predict(table) - truth) ** 2) for m in (boosted, model)])
    before, after = np.mean(errors, axis=0)
    assert after < 0.9 * before
    assert sum(model.polish.edf.values()) > 5.0
    assert not model.polish.factors
    with pytest.raises(ValueError, match="does not have bands of source 'bayesian'"):
        model.band("a", source="bayesian")
    model.save(tmp_path / "m.json")
    other = cb.load(tmp_path / "m.json")
    np.testing.assert_array_equal(other.predict(table), model.predict(table))
    np.testing.assert_array_equal(other.boosted.predict(table), boosted.predict(table))


def test_two_scores_are_close_to_one():
    """Two classes as multinomial: the difference of the scores is nearly the binomial refit."""
    table, y, _ = make_rows(1000, "binomial")
    one, two = (
        cb.polish(cb.fit(table, y, FEW, loss=loss, n_iter=300), table, y, weight=1.0)
        for loss in ("binomial", "multinomial")
    )
    p, q = one.predict(table), np.asarray(two.predict(table))[:, 1]
    assert np.mean(np.abs(p - q)) < 0.02


def test_the_sweeps_lower_the_penalised_risk(problem_of, monkeypatch):
    """At the end the gradient of every score is that of its penalty."""
    monkeypatch.setattr(model_refit, "MAX_SWEEPS", 60)
    monkeypatch.setattr(model_refit, "SETTLED", 1e-7)
    table, labels, _ = make_classes(600)
    learners = [cb.Spline("a"), cb.Spline("b")]
    problem, model = problem_of(table, labels, learners, loss="multinomial", n_iter=200)
    part = ModelRefit(problem, model, TRAINING_PART)
    part.run()
    scores = problem.local_rows.read(SLOT_F)
    p = np.exp(scores) / np.exp(scores).sum(axis=0)
    own = problem.prepared.data.y
    for rows, smoothing, found in zip(part.rows, part.smoothing, part.found, strict=True):
        x = design(rows)
        residual = (own == rows.output) - p[rows.output]
        gradient = x.T @ residual - smoothing.diagonal() * found.u
        gradient -= rows.tails(found.u) * np.mean(p[rows.output] * (1 - p[rows.output]))
        assert np.abs(gradient).max() < 0.02 * (np.abs(x.T) @ np.abs(residual)).max()


def test_cross_validation_and_bags_of_several_scores():
    table, labels, _ = make_classes(600)
    found = cb.cv(table, labels, loss="multinomial", n_iter=200, folds=3, polish=True)
    assert found.polished.risk.shape == (3,)
    model = cb.fit(table, labels, loss="multinomial", n_iter=100, bags=3, polish=True)
    assert model.polish is not None
    with pytest.raises(ValueError, match="the model has several scores per row, whose joint"):
        cb.wald_tests(cb.polish(cb.fit(table, labels, loss="multinomial"), table, labels))


@pytest.mark.parametrize("weight", [None, 1.0])
def test_risk_importance_of_a_polished_model_sums_to_the_fall_of_the_risk(weight):
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=2000) for name in "ab"}
    y = table["a"] + table["b"] ** 2 + rng.normal(size=2000)
    boosted = cb.fit(table, y, n_iter=200, validation=0.2)
    model = cb.polish(boosted, table, y, weight=weight)
    fall = (np.var(y) - np.mean((y - model.predict(table)) ** 2)) / 2
    for found in (model.importance("risk"), model.importance("risk", table=table, y=y)):
        assert sum(found.values()) == pytest.approx(fall, rel=0.01)
        assert found == pytest.approx(boosted.importance("risk"), rel=0.1)


@pytest.mark.parametrize("terms", ["smooth", "auto"])
def test_a_straight_effect_of_a_bell_shaped_column_stays_straight(terms):
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        table = {name: rng.normal(size=2000) for name in "ab"}
        y = table["a"] + rng.normal(size=2000)
        fitted = cb.CWBRegressor(terms=terms, n_jobs=1).fit(table, y)
        found.append(sum(fitted.model_.polish.edf.values()))
    assert np.mean(found) < 4.5


def test_terms_that_cannot_be_refitted_do_not_end_the_fit(monkeypatch):
    table, y, _ = make_rows(300)

    def fail(*_, **__):
        raise hessian.LinAlgError

    monkeypatch.setattr(hessian.BlockFactor, "make", fail)
    for options in ({"validation": 0.2}, {"bags": 2}, {}):
        model = cb.fit(table, y, n_iter=20, polish="auto", **options)
        assert model.polish.weight == 0.0
        assert "a weight is very large" in model.polish.reason
        with pytest.raises(ValueError, match="polish: the terms are too nearly collinear"):
            cb.fit(table, y, n_iter=20, polish=True, **options)
    found = cb.cv(table, y, n_iter=300, folds=3, polish="auto")
    assert "a weight is very large" in found.polished.words
    with pytest.raises(ValueError, match="polish: the terms are too nearly collinear"):
        cb.cv(table, y, n_iter=300, folds=3, polish=True)


def test_a_column_that_was_never_chosen_has_no_band():
    table, y, _ = make_rows(400)
    model = cb.fit(table, y, n_iter=3, polish=True)
    never = next(name for name, term in model.terms.items() if not term.chosen)
    with pytest.raises(ValueError, match=f"never chose {never!r}, so its effect is zero and has"):
        model.band(never)
    model.plot(never)  # without a band


@pytest.mark.parametrize("estimator", [cb.CWBRegressor, cb.CWBClassifier])
def test_a_huge_weight_does_not_end_the_fit(estimator):
    table, y, _ = make_rows(400)
    weights = np.ones(400)
    weights[5] = 1e12
    target = y if estimator is cb.CWBRegressor else y > 0
    model = estimator(n_jobs=1).fit(table, target, sample_weight=weights).model_
    assert "a weight is very large" in model.polish.reason


@pytest.mark.parametrize("size", [0.5, 2.0, 64.0])
def test_equal_weights_do_not_matter(size):
    table, y, _ = make_rows(400)
    plain, weighted = (
        cb.fit(table, y, n_iter=60, polish=True, weights=w) for w in (None, np.full(400, size))
    )
    np.testing.assert_allclose(weighted.predict(table), plain.predict(table), rtol=1e-6)
    assert sum(weighted.polish.edf.values()) == pytest.approx(sum(plain.polish.edf.values()))


def test_a_rejected_polish_tells_of_whole_weights(monkeypatch):
    table, y, _ = make_rows(400)
    weights = np.random.default_rng(0).integers(1, 200, 400).astype(float)
    monkeypatch.setattr(polish_module, "choose_weight", lambda _: 0.0)
    model = cb.fit(table, y, n_iter=60, polish=True, weights=weights)
    assert model.polish.reason.endswith(
        f"(whole weights count as {weights.sum():,.0f} rows; divide survey weights by their mean)"
    )


def test_a_model_without_bands_says_why():
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=400)}
    classes = np.digitize(table["a"] + rng.normal(size=400), [-0.5, 0.5])
    model = cb.fit(table, classes, loss="multinomial", n_iter=30, polish=True)
    with pytest.raises(ValueError, match=r"bands; for several scores, call model\.with_bands"):
        model.band("a")
    skipped = cb.fit(table, table["a"], loss="absolute", n_iter=5, polish="auto")
    with pytest.raises(ValueError, match=r"it was not polished \(the absolute loss does not have"):
        skipped.band("a")


@pytest.mark.parametrize("loss", [cb.Tweedie(1.5), cb.Gamma(), cb.Squared()], ids=repr)
@pytest.mark.parametrize("unit", [1e-3, 1e6])
def test_the_unit_of_y_does_not_matter(loss, unit):
    rng = np.random.default_rng(0)
    table = {"a": rng.uniform(size=600), "b": rng.uniform(size=600), "c": rng.uniform(size=600)}
    y = np.exp(np.sin(6 * table["a"]) + table["b"]) * rng.gamma(2.0, size=600)
    options = {"loss": loss, "n_iter": 60, "polish": True, "validation": np.arange(600) % 5 == 0}
    one, other = cb.fit(table, y, **options), cb.fit(table, unit * y, **options)
    assert one.polish.edf == pytest.approx(other.polish.edf, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(other.predict(table) / unit, one.predict(table), rtol=1e-6)
