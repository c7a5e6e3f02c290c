"""Tests of the compiled core through `cwboost._core`: verbs, losses, learners, boosting, errors.

Sanitizer builds run this file, so it must stay small and fast and must not call cb.fit.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cwboost import _core as core

LOSSES = {
    "squared": 0.0, "absolute": 0.0, "quantile": 0.3, "huber": 0.7, "binomial": 0.0,
    "poisson": 0.0, "gamma": 0.0, "tweedie": 1.4, "multinomial": 3.0,
}  # fmt: skip
WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32}
N = 400
F, R, H, C = core.SLOT_F, core.SLOT_R, core.SLOT_H, core.SLOT_C
G = 2  # a slot that the loop does not use
TRAINING, VALIDATION, ALL = core.TRAINING_PART, core.VALIDATION_PART, core.ALL_PART


def target(loss, n=N, seed=0):
    rng = np.random.default_rng(seed)
    if loss == "binomial":
        return rng.choice([-1.0, 1.0], n)
    if loss == "multinomial":
        return rng.integers(0, 3, n).astype(float)
    positive = loss in ("poisson", "gamma", "tweedie")
    return rng.gamma(2.0, 0.5, n) + 0.1 if positive else rng.normal(size=n)


def outputs(loss):
    return 3 if loss == "multinomial" else 1


class Problem:
    """Arrays of a problem with two numeric columns and a categorical one.

    The parts are the training rows, the validation rows and all rows.
    """

    def __init__(self, loss="squared", n=N, width=8, seed=0):
        rng = np.random.default_rng(seed)
        self.loss, self.n, self.q = loss, n, outputs(loss)
        self.y = target(loss, n, seed)
        self.n_bins = [11, 7, 5]
        self.index = [rng.integers(0, k, n).astype(WIDTHS[width]) for k in self.n_bins]
        self.offset = 0.1 * rng.normal(size=(self.q, n))
        w = rng.uniform(0.5, 2.0, n)
        held = rng.uniform(size=n) < 0.3
        self.parts = [np.where(held, 0.0, w), np.where(held, w, 0.0), w]

    def rows(self, n_threads=1, take=slice(None), loss=None):
        loss = core.make_loss(self.loss, LOSSES[self.loss]) if loss is None else loss
        return core.LocalRows(
            loss,
            np.ascontiguousarray(self.y[take]),
            np.ascontiguousarray(self.offset[:, take]),
            [
                core.IndexSet(np.ascontiguousarray(i[take]), k)
                for i, k in zip(self.index, self.n_bins, strict=True)
            ],
            [np.ascontiguousarray(p[take]) for p in self.parts],
            n_threads,
        )

    def learners(self, part=TRAINING):
        """Return dense penalised learners on the first two columns, a diagonal one on the third."""
        out = []
        for k, n_bins in enumerate(self.n_bins):
            weights = np.bincount(self.index[k], self.parts[part], n_bins)
            if k < 2:
                z = np.linspace(-1, 1, n_bins)
                basis = np.column_stack([np.ones(n_bins), z, z**2])
                gram = basis.T @ (weights[:, None] * basis)
                factor = np.linalg.cholesky(gram + 0.5 * np.diag([0.0, 1.0, 1.0]))
            else:
                basis, gram, factor = np.eye(n_bins), weights, weights + 3.0
            out.append(core.Learner(k, *compressed(basis), gram, np.ascontiguousarray(factor)))
        return out

    @property
    def n_coef(self):
        return [3, 3, 5]


def compressed(basis):
    """Return row pointers, columns and values of a dense basis, without its zeros."""
    filled = basis != 0
    begin = np.concatenate([[0], np.cumsum(filled.sum(axis=1))]).astype(np.int64)
    return begin, np.nonzero(filled)[1].astype(np.int32), np.ascontiguousarray(basis[filled])


OPTIMIZERS = {
    "plain": core.Plain(0.2),
    "accelerated": core.Accelerated(0.2, 0.05),
    "hybrid": core.Hybrid(0.5, 0.5, 1, True, True, 10),
    "hybrid, stays": core.Hybrid(0.5, 0.5, 1, False, False, 10),
}


def boost(problem, rows, optimizer, n_iter=12, *, history=None, validation=True,
          search=core.SearchMode.automatic, **options):  # fmt: skip
    boost_problem = core.BoostProblem(
        rows, problem.learners(), optimizer, start=[0.05] * problem.q,
        all_learners=problem.learners(ALL),
        validation_part=VALIDATION if validation else None, search=search,
    )  # fmt: skip
    history = core.Path() if history is None else history
    return core.boost(boost_problem, history, core.RunOptions(n_iter, **options))


def replayed(problem, path, optimizer, m=None):
    m = len(path.choices) if m is None else m
    return core.replay(core.ReplayProblem(optimizer, problem.n_coef, problem.q), path, m)


class Moments(Problem):
    """The same problem, with moments (pieces and places in them) for the first two columns."""

    def __init__(self, loss="squared", n=N, pieces=(11, 1), seed=0):
        super().__init__(loss, n, 16, seed)
        rng = np.random.default_rng(seed + 1)
        self.pieces = [rng.integers(0, k, n).astype(np.uint16) for k in pieces]
        self.places = [rng.uniform(-1, 1, n) for _ in pieces]
        self.n_bins = [*(4 * k for k in pieces), 5]

    def rows(self, n_threads=1):
        sets = [
            core.MomentSet(piece, t, n_bins // 4)
            for piece, t, n_bins in zip(self.pieces, self.places, self.n_bins, strict=False)
        ]
        loss = core.make_loss(self.loss, LOSSES[self.loss])
        sets.append(core.IndexSet(self.index[2], 5))
        return core.LocalRows(loss, self.y, self.offset, sets, self.parts, n_threads)

    def dense(self, k):
        """Return (n, n_bins): what each row adds to each bin."""
        if k == 2:
            return np.eye(5)[self.index[2]]
        out = np.zeros((self.n, self.n_bins[k] // 4, 4))
        out[np.arange(self.n), self.pieces[k]] = self.places[k][:, None] ** np.arange(4)
        return out.reshape(self.n, -1)

    def learners(self, part=TRAINING):
        out, rng = [], np.random.default_rng(7)
        for k, n_bins in enumerate(self.n_bins):
            basis = np.eye(5) if k == 2 else rng.normal(size=(n_bins, 3))
            if k == 0:  # a sparse basis: one coefficient per bin
                basis = np.kron(np.eye(3, 4)[:, :3], np.ones((15, 1)))[:n_bins] * basis
            rows = self.dense(k) @ basis
            gram = rows.T @ (self.parts[part][:, None] * rows)
            factor = np.linalg.cholesky(gram + 0.5 * np.eye(len(gram)))
            if k == 2:
                gram, factor = np.diag(gram).copy(), np.diag(gram) + 3.0
            out.append(core.Learner(k, *compressed(basis), gram, np.ascontiguousarray(factor)))
        return out


# --- verbs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_threads", [1, 2])
def test_boolean_parts_equal_weights_of_zero_and_one(n_threads):
    """In every verb, booleans and floats give the same results, bit for bit."""
    problem, rng = Problem("binomial"), np.random.default_rng(3)
    held = rng.uniform(size=N) < 0.3
    piece, t = rng.integers(0, 4, N).astype(np.uint16), rng.uniform(-1, 1, N)
    sets = [core.IndexSet(i, k) for i, k in zip(problem.index, problem.n_bins, strict=True)]
    sets.append(core.MomentSet(piece, t, 4))
    batch = [
        core.Fill(F, [0.2]),
        core.Add(F, 0, rng.normal(size=11)),
        core.Residual(F, R, [TRAINING, VALIDATION, ALL]),
        core.Add(R, 1, rng.normal(size=7)),  # no longer zero outside the part
        core.BinSums([R, core.ONES_SLOT], [0, 2, 3], TRAINING),
        core.BinSums([core.ONES_SLOT], [1], ALL),
        core.Fill(G, [0.0]),
        core.MeanResidual(G, F, R, TRAINING),
        core.BinSums([R], [0, 1, 2, 3], TRAINING),
    ]
    found = []
    for parts in ([~held, held, held | True], [1.0 - held, 1.0 * held, np.ones(N)]):
        loss = core.make_loss("binomial", 0.0)
        rows = core.LocalRows(loss, problem.y, None, sets, parts, n_threads)
        replies = rows.run(batch)
        found.append([(r.moved, r.risk, [s.tolist() for s in r.sums]) for r in replies])
        assert np.all(rows.read(R)[0, held] == 0.0)
    assert found[0] == found[1]
    with pytest.raises(TypeError):  # float32 is neither, and is not converted
        core.LocalRows(loss, problem.y, None, sets, [held.astype(np.float32)])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("loss", ["squared", "multinomial"])
def test_verbs_agree_with_numpy(loss, width, n_threads):
    problem = Problem(loss, 40_000, width)  # several blocks of rows
    rows, q, n = problem.rows(n_threads), problem.q, problem.n
    rng = np.random.default_rng(1)
    values = [rng.normal(size=(q, k)) for k in problem.n_bins]
    start = list(rng.normal(size=q))
    rows.run([core.Fill(F, start)] + [core.Add(F, k, v.ravel()) for k, v in enumerate(values)])
    score = problem.offset + np.array(start)[:, None]
    for index, v in zip(problem.index, values, strict=True):
        score = score + v[:, index]
    np.testing.assert_allclose(rows.read(F), score, atol=1e-12)
    rows.run([core.Fill(H, start), core.Mix(G, 0.25, F, -2.0, H), core.Mix(C, 3.0, F, 0.0, F)])
    np.testing.assert_allclose(rows.read(G), 0.25 * rows.read(F) - 2 * rows.read(H), atol=1e-12)
    np.testing.assert_array_equal(rows.read(C), 3.0 * rows.read(F))

    first = rows.run([core.Residual(F, R, [0, 1, 2])])[0]
    residual, w = rows.read(R), problem.parts[0]
    np.testing.assert_allclose(first.moved, np.sqrt(np.sum(w * residual**2)), rtol=1e-12)
    again = rows.run([core.Residual(F, R, [0]), core.Residual(F, core.NO_SLOT, [2, 1])])
    assert again[0].moved == 0.0
    assert again[1].risk == [first.risk[2], first.risk[1]]
    if loss == "squared":
        expected = problem.y - score[0]
        np.testing.assert_allclose(residual[0], np.where(w > 0, expected, 0.0), atol=1e-12)
        expected = [np.average(0.5 * expected**2, weights=p) for p in problem.parts]
        np.testing.assert_allclose(first.risk, expected, rtol=1e-12)

    sums = rows.run([core.BinSums([R, core.ONES_SLOT, F], [2, 0], 1)])[0].sums
    w = problem.parts[1]
    planes = [residual, np.ones((1, n)), rows.read(F)]
    for s, plane in enumerate(planes):
        for j, k in enumerate((2, 0)):
            expected = [np.bincount(problem.index[k], w * x, problem.n_bins[k]) for x in plane]
            found = sums[2 * s + j].reshape(len(plane), -1)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("loss", ["squared", "multinomial"])
@pytest.mark.parametrize("n", [40_003, 5, 1])
def test_moments_agree_with_numpy(loss, n_threads, n):
    problem = Moments(loss, n)
    rows, q = problem.rows(n_threads), problem.q
    rng = np.random.default_rng(1)
    values = [rng.normal(size=(q, k)) for k in problem.n_bins]
    rows.run([core.Fill(F, [0.0] * q)] + [core.Add(F, k, v.ravel()) for k, v in enumerate(values)])
    score = problem.offset + sum(v @ problem.dense(k).T for k, v in enumerate(values))
    np.testing.assert_allclose(rows.read(F), score, atol=1e-12)
    rows.run([core.Mix(G, 0.5, F, 0.0, F)])
    sums = rows.run([core.BinSums([F, core.ONES_SLOT, G], [1, 0], ALL)])[0].sums
    w = problem.parts[ALL]
    for s, plane in enumerate([score, np.ones((1, n)), 0.5 * score]):
        for j, k in enumerate((1, 0)):
            found = sums[2 * s + j].reshape(len(plane), -1)
            expected = (w * plane) @ problem.dense(k)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("search", [core.SearchMode.certified, core.SearchMode.row_free])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("pieces", [(11, 1), (2, 3), (11, 12)])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_cross_grams_of_moments(name, pieces, weighted, search):
    """Moments with moments and with bins, few or many pieces: choices equal the full search."""
    problem = Moments(n=2500, pieces=pieces)
    if not weighted:
        problem.parts = [np.ones(problem.n)] * 3
    full = boost(problem, problem.rows(), OPTIMIZERS[name], 40, search=core.SearchMode.full)
    found = boost(problem, problem.rows(2), OPTIMIZERS[name], 40, search=search)
    np.testing.assert_array_equal(found.choices, full.choices)
    np.testing.assert_allclose(found.risk, full.risk, rtol=1e-10)
    np.testing.assert_allclose(found.validation_risk, full.validation_risk, rtol=1e-10)


def test_verbs_and_replies_expose_their_fields():
    assert core.Fill(1, [2.0]).start == [2.0]
    assert core.Residual(0, 1, [2]).parts == [2]
    assert core.MeanResidual(0, 1, 2).out == 2
    assert core.BinSums([0], [1], 2).sets == [1]
    assert core.Add(0, 1, np.array([3.0])).bin_values.tolist() == [3.0]
    assert core.Mix(0, 1.0, 2, 3.0, 4).y == 4
    assert core.AbsoluteSum(0, 1, [2.0]).centre == [2.0]
    reply = core.Reply(1.0, [2.0], [np.ones(3)])
    assert (reply.moved, reply.risk, reply.sums[0].tolist()) == (1.0, [2.0], [1.0, 1.0, 1.0])


def test_verbs_can_be_pickled():
    add = pickle.loads(pickle.dumps(core.Add(0, 1, np.array([3.0]), 2, output=1)))
    assert (add.slot, add.set, add.bin_values.tolist(), add.within, add.output) == (0, 1, [3], 2, 1)
    residual = pickle.loads(pickle.dumps(core.Residual(0, 1, [2], False, [0.5])))
    assert (residual.parts, residual.risk, residual.state) == ([2], False, [0.5])
    mean = pickle.loads(pickle.dumps(core.MeanResidual(0, 1, 2, 1, [0.5])))
    assert (mean.out, mean.part, mean.state) == (2, 1, [0.5])
    absolute = pickle.loads(pickle.dumps(core.AbsoluteSum(0, 1, [2.0])))
    assert (absolute.slot, absolute.part, absolute.centre) == (0, 1, [2.0])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_absolute_sum(loss, n_threads):
    problem = Problem(loss)
    rows, q = problem.rows(n_threads), problem.q
    step = np.random.default_rng(3).normal(size=q * 11)
    centre = np.linspace(-0.3, 0.4, q)
    for slot in (F, core.PASSING_SLOT):
        zero = core.Mix(slot, 0.0, slot, 0.0, slot)
        for part, w in enumerate(problem.parts):
            batch = [zero, core.Add(slot, 0, step), core.AbsoluteSum(slot, part, centre)]
            found = rows.run(batch)[-1].sums[0]
            rows.run([core.Mix(F, 0.0, F, 0.0, F), core.Add(F, 0, step)])
            expected = np.abs(rows.read(F) - centre[:, None]) @ w
            np.testing.assert_allclose(found, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="one centre per output"):
        rows.run([core.AbsoluteSum(F, 0, [0.0] * (q + 1))])


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_mean_residual_gives_the_decrease_of_the_loss(loss, n_threads):
    problem = Problem(loss)
    rows, rng = problem.rows(n_threads), np.random.default_rng(2)
    step = rng.normal(size=problem.q * 11)
    batch = [core.Fill(F, [0.1] * problem.q), core.Fill(G, [0.1] * problem.q), core.Add(G, 0, step)]
    batch += [core.Residual(F, core.NO_SLOT, [2]), core.Residual(G, core.NO_SLOT, [2])]
    before, after = (r.risk[0] for r in rows.run([*batch, core.MeanResidual(F, G, R)])[3:5])
    moved, w = rows.read(G) - rows.read(F), problem.parts[2]
    fall = np.sum(w * np.sum(rows.read(R) * moved, axis=0)) / w.sum()
    np.testing.assert_allclose(fall, before - after, rtol=1e-10)


# --- losses ---------------------------------------------------------------------------------------


def row_loss(loss, y, score, parameter=None):
    """Return the losses and residuals of single rows; y is (n,), score is (q, n)."""
    score = np.atleast_2d(score)
    n = score.shape[1]
    rows = core.LocalRows(
        core.make_loss(loss, LOSSES[loss] if parameter is None else parameter),
        np.array(y, float), np.ascontiguousarray(score, float), [],
        [np.ones(n), *(np.eye(n)[i] for i in range(n))],
    )  # fmt: skip
    batch = [core.Fill(F, [0.0] * len(score)), core.Residual(F, R, list(range(n + 1)))]
    return np.array(rows.run(batch)[1].risk[1:]), rows.read(R)


@pytest.mark.parametrize("loss", LOSSES)
def test_residual_is_minus_the_derivative(loss):
    rng = np.random.default_rng(3)
    y = target(loss, 60, 3)
    score = rng.normal(size=(outputs(loss), 60))
    if loss in ("absolute", "quantile", "huber"):  # keep away from the kinks
        kinks = [-0.7, 0.0, 0.7]
        score[0] = np.where(
            np.min([np.abs(y - score[0] - k) for k in kinks], axis=0) < 1e-3, 9.0, score[0]
        )
    residual = row_loss(loss, y, score)[1]
    for o in range(len(score)):
        step = np.zeros_like(score)
        step[o] = 1e-5
        slope = (row_loss(loss, y, score + step)[0] - row_loss(loss, y, score - step)[0]) / 2e-5
        np.testing.assert_allclose(-residual[o], slope, rtol=1e-6, atol=1e-8)


SPECIFIC = [  # loss, parameter, y, score, value, residual
    ("squared", 0, 3.0, 1.0, 2.0, 2.0),
    ("absolute", 0, 3.0, 1.0, 2.0, 1.0),
    ("absolute", 0, 1.0, 3.0, 2.0, -1.0),
    ("absolute", 0, 1.0, 1.0, 0.0, 0.0),
    ("quantile", 0.25, 3.0, 1.0, 0.5, 0.25),
    ("quantile", 0.25, 1.0, 3.0, 1.5, -0.75),
    ("quantile", 0.25, 1.0, 1.0, 0.0, 0.0),
    ("huber", 2.0, 1.0, 0.0, 0.5, 1.0),
    ("huber", 2.0, 5.0, 0.0, 8.0, 2.0),
    ("huber", 2.0, -5.0, 0.0, 8.0, -2.0),
    ("binomial", 0, 1.0, 0.0, np.log(2), 0.5),
    ("binomial", 0, -1.0, 0.0, np.log(2), -0.5),
    ("binomial", 0, 1.0, 800.0, 0.0, 0.0),  # no overflow on either side
    ("binomial", 0, -1.0, 800.0, 800.0, -1.0),
    ("poisson", 0, 2.0, 0.0, 1.0, 1.0),
    ("poisson", 0, 0.0, np.log(3), 3.0, -3.0),
    ("gamma", 0, 2.0, 0.0, 2.0, 1.0),
    ("gamma", 0, 2.0, np.log(2), np.log(2) + 1, 0.0),
    ("tweedie", 1.5, 1.0, 0.0, 4.0, 0.0),
    ("tweedie", 1.5, 0.0, np.log(4), 4.0, -2.0),
]


@pytest.mark.parametrize(("loss", "parameter", "y", "score", "value", "residual"), SPECIFIC)
def test_specific_values(loss, parameter, y, score, value, residual):
    found = row_loss(loss, [y], [[score]], parameter)
    np.testing.assert_allclose(found[0], value, rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(found[1], [[residual]], rtol=1e-14, atol=1e-300)


def test_multinomial_values():
    loss, residual = row_loss("multinomial", [2.0, 0.0], [[0.0, 700.0], [0.0, 0.0], [0.0, -700.0]])
    np.testing.assert_allclose(loss, [np.log(3), 0.0], rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(residual[:, 0], [-1 / 3, -1 / 3, 2 / 3], rtol=1e-14)
    np.testing.assert_allclose(residual[:, 1], 0.0, atol=1e-300)


def test_unknown_loss_is_refused():
    with pytest.raises(ValueError, match="no loss 'nonsense'"):
        core.make_loss("nonsense")
    assert core.make_loss("multinomial", 4).n_outputs == 4


# --- learners -------------------------------------------------------------------------------------


def test_learner_solves_the_normal_equations():
    problem = Problem()
    rng = np.random.default_rng(4)
    dense, _, diagonal = problem.learners()
    w = np.bincount(problem.index[0], problem.parts[0], 11)
    z = np.linspace(-1, 1, 11)
    basis = np.column_stack([np.ones(11), z, z**2])
    gram = basis.T @ (w[:, None] * basis)
    sums = rng.normal(size=(2, 11))
    theta, gain = dense.fit(sums)
    expected = np.linalg.solve(gram + 0.5 * np.diag([0.0, 1, 1]), basis.T @ sums.T).T
    np.testing.assert_allclose(theta, expected, rtol=1e-10)
    by_rows = 2 * np.sum(expected * (sums @ basis)) - np.sum(expected @ gram * expected)
    np.testing.assert_allclose(gain, by_rows, rtol=1e-10)
    w = np.bincount(problem.index[2], problem.parts[0], 5)
    sums = rng.normal(size=(1, 5))
    theta, gain = diagonal.fit(sums)
    np.testing.assert_allclose(theta, sums / (w + 3.0), rtol=1e-13)
    np.testing.assert_allclose(gain, np.sum(2 * theta * sums - w * theta**2), rtol=1e-12)
    assert (dense.set, dense.n_coef, diagonal.n_coef) == (0, 3, 5)


def test_learner_with_removed_directions_is_orthogonal_to_them():
    rng = np.random.default_rng(5)
    basis, w = rng.normal(size=(8, 4)), rng.uniform(1, 2, 8)
    gram = basis.T @ (w[:, None] * basis)
    removed = rng.normal(size=(2, 4))
    weigher = np.linalg.solve(removed @ gram @ removed.T, removed @ gram)
    factor = np.ascontiguousarray(np.linalg.cholesky(gram + np.eye(4)))
    learner = core.Learner(0, *compressed(basis), gram, factor, removed, weigher)
    sums = rng.normal(size=(1, 8))
    theta, gain = learner.fit(sums)
    np.testing.assert_allclose(removed @ gram @ theta[0], 0.0, atol=1e-10)
    q = np.eye(4) - removed.T @ weigher
    expected = q @ np.linalg.solve(gram + np.eye(4), q.T @ (basis.T @ sums[0]))
    np.testing.assert_allclose(theta[0], expected, rtol=1e-9)
    by_rows = 2 * expected @ basis.T @ sums[0] - expected @ gram @ expected
    np.testing.assert_allclose(gain, by_rows, rtol=1e-9)


# --- the loop -------------------------------------------------------------------------------------


def coefficient_scores(problem, coef, start=0.05):
    """Return the scores: offset, start and the effects of the learners."""
    score, at = problem.offset + start, 0
    for k, (n_bins, d) in enumerate(zip(problem.n_bins, problem.n_coef, strict=True)):
        z = np.linspace(-1, 1, n_bins)
        basis = np.column_stack([np.ones(n_bins), z, z**2]) if k < 2 else np.eye(n_bins)
        theta = coef[at : at + d * problem.q].reshape(problem.q, d)
        score = score + (basis @ theta.T).T[:, problem.index[k]]
        at += d * problem.q
    return score


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_rows_and_coefficients_stay_in_step(loss, name, n_threads):
    problem = Problem(loss)
    rows = problem.rows(n_threads)
    path = boost(problem, rows, OPTIMIZERS[name], search=core.SearchMode.certified)
    assert path.stopped == core.StopReason.n_iter_reached
    assert len(path.choices) == 12
    coef = replayed(problem, path, OPTIMIZERS[name])
    np.testing.assert_allclose(rows.read(F), coefficient_scores(problem, coef), atol=1e-12)
    risks = rows.run([core.Residual(F, core.NO_SLOT, [0, 1])])[0].risk
    np.testing.assert_allclose([path.risk[-1], path.validation_risk[-1]], risks, rtol=1e-12)


def wide_problem(loss, weights, seed=0, n=3000, n_columns=12):
    """Return a problem with many columns, half of them noise, and unit or general weights."""
    problem = Problem(loss, n, seed=seed)
    rng = np.random.default_rng(seed + 1)
    problem.n_bins = [int(k) for k in rng.integers(4, 30, n_columns)]
    problem.index = [rng.integers(0, k, n).astype(np.uint8) for k in problem.n_bins]
    signal = sum(np.sin(3.0 * i / k) for i, k in zip(problem.index[::2], problem.n_bins[::2],
                                                     strict=True))  # fmt: skip
    if loss in ("squared", "absolute", "quantile", "huber"):
        problem.y = problem.y + signal
    elif loss == "binomial":
        problem.y = np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-signal)), 1.0, -1.0)
    held = rng.uniform(size=n) < 0.3
    w = {"ones": np.ones(n), "general": rng.uniform(0.5, 2.0, n)}[weights]
    problem.parts = [np.where(held, 0.0, w), np.where(held, w, 0.0), w]
    return problem


def wide_learners(problem, part):
    """Return ridge learners: quadratic, and on every fifth column a learner of levels."""
    learners = []
    for k, n_bins in enumerate(problem.n_bins):
        z = np.linspace(-1, 1, n_bins)
        basis = np.eye(n_bins) if k % 5 == 4 else np.column_stack([np.ones(n_bins), z, z**2])
        learners.append(learner_on(k, basis, problem.index[k], problem.parts[part]))
    return learners


def learner_on(number, basis, index, w):
    d = basis.shape[1]
    gram = basis.T @ (np.bincount(index, w, len(basis))[:, None] * basis)
    factor = np.linalg.cholesky(gram + 0.05 * np.trace(gram) / d * np.eye(d))
    begin = np.arange(len(basis) + 1, dtype=np.int64) * d
    column = np.tile(np.arange(d, dtype=np.int32), len(basis))
    return core.Learner(number, begin, column, np.ascontiguousarray(basis).ravel(), gram, factor)


def wide_boost(problem, optimizer, search, n_iter=150, validation=True, n_threads=1):
    training, everything = (wide_learners(problem, part) for part in (TRAINING, ALL))
    boost_problem = core.BoostProblem(
        problem.rows(n_threads), training, optimizer, start=[0.05] * problem.q,
        all_learners=everything, validation_part=VALIDATION if validation else None, search=search,
    )  # fmt: skip
    return core.boost(boost_problem, core.Path(), core.RunOptions(n_iter))


@pytest.mark.parametrize("weights", ["ones", "general"])
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_certified_search_equals_the_full_search(loss, name, weights):
    problem = wide_problem(loss, weights)
    full = wide_boost(problem, OPTIMIZERS[name], core.SearchMode.full)
    path = wide_boost(problem, OPTIMIZERS[name], core.SearchMode.certified)
    for field in ("choices", "corrections", "updates", "correction_updates", "risk",
                  "validation_risk", "switched_after", "rewound_to"):  # fmt: skip
        np.testing.assert_array_equal(getattr(path, field), getattr(full, field), field)
    assert np.all(full.evaluations == len(problem.n_bins))
    # Residuals of losses with kinks change too much to save evaluations.
    if loss in ("squared", "binomial") and name == "plain":
        assert path.evaluations.mean() < 0.8 * len(problem.n_bins)


@pytest.mark.parametrize("weights", ["ones", "general"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_row_free_search_equals_the_full_search(name, weights):
    problem = wide_problem("squared", weights)
    full = wide_boost(problem, OPTIMIZERS[name], core.SearchMode.full)
    path = wide_boost(problem, OPTIMIZERS[name], core.SearchMode.row_free)
    for field in ("choices", "corrections", "switched_after", "rewound_to"):
        np.testing.assert_array_equal(getattr(path, field), getattr(full, field), field)
    for field in ("risk", "validation_risk", "updates", "correction_updates"):
        np.testing.assert_allclose(getattr(path, field), getattr(full, field), rtol=1e-9,
                                   atol=1e-12, err_msg=field)  # fmt: skip
    assert path.evaluations[len(path.evaluations) // 2 :].sum() < full.evaluations[0]


@pytest.mark.parametrize("name", ["plain", "accelerated"])
def test_row_free_stays_accurate_when_the_residual_vanishes(name):
    """y is a sum of learners without noise: products updated step by step would lose digits."""
    problem = wide_problem("squared", "ones")
    rng = np.random.default_rng(3)
    problem.offset[:] = 0.0
    problem.index = [(i % 3).astype(np.uint8) for i in problem.index]
    problem.y = sum(rng.normal(size=3)[i] for i in problem.index)
    full = wide_boost(problem, OPTIMIZERS[name], core.SearchMode.full, 600)
    path = wide_boost(problem, OPTIMIZERS[name], core.SearchMode.row_free, 600)
    np.testing.assert_array_equal(path.choices, full.choices)
    np.testing.assert_allclose(path.risk, full.risk, rtol=1e-6)


def test_row_free_is_refused_where_rows_are_needed():
    problem = wide_problem("binomial", "ones")
    with pytest.raises(ValueError, match="only the squared loss"):
        wide_boost(problem, OPTIMIZERS["plain"], core.SearchMode.row_free)


@pytest.mark.parametrize("search", [core.SearchMode.full, core.SearchMode.certified])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_threads_do_not_change_a_long_fit(name, search):
    problem = wide_problem("binomial", "ones", n=70_000)
    one, two = (wide_boost(problem, OPTIMIZERS[name], search, 30, n_threads=t) for t in (1, 2))
    for field in ("choices", "corrections", "updates", "risk", "validation_risk", "evaluations"):
        np.testing.assert_array_equal(getattr(one, field), getattr(two, field), field)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("width", WIDTHS)
def test_threads_and_widths_give_the_same_bits(name, width):
    problem, narrow = Problem("squared", 40_000, width), Problem("squared", 40_000, 8)
    reference = boost(narrow, narrow.rows(1), OPTIMIZERS[name], 5)
    for n_threads in (1, 3):
        path = boost(problem, problem.rows(n_threads), OPTIMIZERS[name], 5)
        for field in ("choices", "corrections", "updates", "correction_updates", "risk"):
            np.testing.assert_array_equal(getattr(path, field), getattr(reference, field))


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", ["binomial", "multinomial"])
def test_path_round_trip_and_extension(loss, name):
    problem, optimizer = Problem(loss), OPTIMIZERS[name]
    long = boost(problem, problem.rows(), optimizer, 12)
    for m in (0, 1, 3, 7, 12):
        short = boost(problem, problem.rows(), optimizer, m)
        copy = core.Path(
            short.choices, short.corrections, short.halvings, short.updates,
            short.correction_updates, short.risk, short.validation_risk, short.switched_after,
            short.rewound_to, problem.n_coef, problem.q,
        )  # fmt: skip
        again = boost(problem, problem.rows(), optimizer, 12, history=copy)
        for field in ("choices", "corrections", "halvings", "updates", "correction_updates", "risk",
                      "validation_risk", "switched_after", "rewound_to"):  # fmt: skip
            np.testing.assert_array_equal(getattr(again, field), getattr(long, field), field)
        np.testing.assert_array_equal(
            replayed(problem, long, optimizer, m), replayed(problem, short, optimizer, m)
        )


def test_stop_reasons_are_the_texts_of_model_files():
    texts = {
        "n_iter reached", "no better validation risk", "nothing left to gain", "diverged",
        "no better validation metric", "improvements too small", "callback", "time limit",
        "interrupted",
    }  # fmt: skip
    assert set(core.StopReason) == texts
    assert core.StopReason.time_limit == "time limit"
    assert core.Path().stopped == ""


def single_outputs(problem, n=6, seed=0):
    """Return a path that moves single outputs, and the same path with zeros for the others."""
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, 3, n).astype(np.int32)
    outputs = np.array([2, 0, 1, 2, core.ALL_OUTPUTS, 0], np.int32)
    one, all_of_them = [], []
    for k, o in zip(choices, outputs, strict=True):
        theta = np.zeros((problem.q, problem.n_coef[k]))
        moved = slice(None) if o == core.ALL_OUTPUTS else o
        theta[moved] = rng.normal(size=theta[moved].shape)
        one.append(theta[moved].ravel())
        all_of_them.append(theta.ravel())
    none, risk = np.full(n, -1, np.int32), np.zeros(n + 1)

    def path(updates, moved):
        return core.Path(
            choices, none, np.zeros(n, np.int32), np.concatenate(updates), risk[:0], risk, risk,
            -1, -1, problem.n_coef, problem.q, outputs=moved,
        )  # fmt: skip

    return path(one, outputs), path(all_of_them, None)


def test_a_path_may_move_one_output_at_a_time():
    problem, optimizer = Problem("multinomial"), core.Plain(0.3)
    one, expected = single_outputs(problem)
    assert one.outputs.tolist() == [2, 0, 1, 2, core.ALL_OUTPUTS, 0]
    assert set(expected.outputs.tolist()) == {core.ALL_OUTPUTS}
    assert len(one.updates) < len(expected.updates)
    for m in range(7):
        coef, other = (replayed(problem, p, optimizer, m) for p in (one, expected))
        np.testing.assert_array_equal(coef, other)
    rows = problem.rows()
    boost_problem = core.BoostProblem(rows, problem.learners(), optimizer, start=[0.05] * 3)
    risks = [core.follow(boost_problem, path) for path in (one, expected)]
    np.testing.assert_array_equal(*risks)
    np.testing.assert_allclose(rows.read(F), coefficient_scores(problem, coef), atol=1e-12)
    other = core.Path(**path_arrays(6), outputs=np.full(6, 3, np.int32))  # no such output
    with pytest.raises(ValueError, match="not one of these learners"):
        replayed(problem, other, optimizer)


def test_patience_and_time_limit_stop():
    problem = Problem()
    rule = core.StoppingRule(core.StoppingRule.Kind.patience, -1, 3)
    path = boost(problem, problem.rows(), core.Plain(1.0), 500, rules=[rule])
    best = int(np.argmin(path.validation_risk))
    assert path.stopped == core.StopReason.no_better_validation_risk
    assert len(path.choices) == best + 3
    path = boost(problem, problem.rows(), core.Plain(1e-4), 100_000_000, time_limit=0.05)
    assert path.stopped == core.StopReason.time_limit


def test_nothing_left_to_gain_stops():
    problem = Problem()
    problem.y = problem.offset[0] + 0.05
    path = boost(problem, problem.rows(), core.Plain(0.1))
    assert path.stopped == core.StopReason.nothing_left_to_gain
    assert len(path.choices) == 0


def test_a_step_that_overshoots_is_halved():
    problem = Problem("poisson")
    problem.y = np.where(problem.index[0] == 3, 1e6, 1.0)
    path = boost(problem, problem.rows(), core.Plain(1.0), 3, validation=False)
    assert path.halvings[0] > 0
    assert np.isfinite(path.risk).all()
    coef = replayed(problem, path, core.Plain(1.0))
    rows = problem.rows()
    again = boost(problem, rows, core.Plain(1.0), 3, history=path, validation=False)
    assert again.halvings.tolist() == path.halvings.tolist()
    score = coefficient_scores(problem, coef)
    np.testing.assert_allclose(rows.read(F), score, rtol=1e-12, atol=1e-12)


# --- rows and losses written in Python ------------------------------------------------------------


class Shards(core.Rows):
    """Several shards behind the interface of one Rows object, like remote rows."""

    def __init__(self, shards, totals):
        super().__init__()
        self.shards, self.totals = shards, totals  # totals: sum of weights, per shard and part

    def n_outputs(self):
        return self.shards[0].n_outputs()

    def run(self, batch):
        replies = zip(*(shard.run(batch) for shard in self.shards), strict=True)
        return [self._merged(verb, pair) for verb, pair in zip(batch, replies, strict=True)]

    def _merged(self, verb, pair):
        moved = float(np.linalg.norm([r.moved for r in pair]))
        sums = [sum(each) for each in zip(*(r.sums for r in pair), strict=True)]
        risk = []
        if isinstance(verb, core.Residual):
            for j, part in enumerate(verb.parts if verb.risk else []):
                totals = [t[part] for t in self.totals]
                risk.append(float(np.average([r.risk[j] for r in pair], weights=totals)))
        return core.Reply(moved, risk, sums)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_two_shards_lead_to_the_same_choices(loss, name):
    problem, optimizer = Problem(loss), OPTIMIZERS[name]
    cuts = [slice(0, 150), slice(150, N)]
    shards = Shards(
        [problem.rows(1, cut) for cut in cuts],
        [[part[cut].sum() for part in problem.parts] for cut in cuts],
    )
    whole = boost(problem, problem.rows(), optimizer)
    path = boost(problem, shards, optimizer)
    assert path.choices.tolist() == whole.choices.tolist()
    assert path.corrections.tolist() == whole.corrections.tolist()
    np.testing.assert_allclose(path.risk, whole.risk, rtol=1e-12)
    np.testing.assert_allclose(path.validation_risk, whole.validation_risk, rtol=1e-12)
    coef, expected = (replayed(problem, p, optimizer) for p in (path, whole))
    np.testing.assert_allclose(coef, expected, atol=1e-12)


def test_a_problem_keeps_rows_learners_and_optimizer_alive():
    problem = Problem()
    totals = [[part.sum() for part in problem.parts]]
    boost_problem = core.BoostProblem(
        Shards([problem.rows()], totals), problem.learners(), core.Plain(0.2), start=[0.05],
        validation_part=VALIDATION,
    )  # fmt: skip
    gc.collect()
    path = core.boost(boost_problem, core.Path(), core.RunOptions(12))
    expected = boost(problem, problem.rows(), core.Plain(0.2))
    assert path.choices.tolist() == expected.choices.tolist()


def python_squared(y):
    def evaluate(rows, want_residual, want_loss):
        residual = y - rows.score[0]
        return (residual[None] if want_residual else None,
                0.5 * residual**2 if want_loss else None)  # fmt: skip

    return core.python_loss(evaluate)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_loss_written_in_python(n_threads):
    problem = Problem("squared", 40_000)
    loss = python_squared(problem.y)
    for optimizer in OPTIMIZERS.values():
        path = boost(problem, problem.rows(n_threads, loss=loss), optimizer, 5)
        expected = boost(problem, problem.rows(), optimizer, 5)
        np.testing.assert_array_equal(path.choices, expected.choices)
        np.testing.assert_allclose(path.risk, expected.risk, rtol=1e-14)
        np.testing.assert_allclose(path.updates, expected.updates, rtol=1e-10, atol=1e-13)


def toy_loss(seen):
    """Return a loss: half the squared distance from the sum of two targets, times the state."""

    def evaluate(rows, want_residual, want_loss):
        seen.append(rows)
        assert rows.y.shape[0] == 2
        residual, factor = rows.y.sum(axis=0) - rows.score[0], rows.state[0]
        assert rows.weights is None or rows.weights.shape == residual.shape
        return (factor * residual[None] if want_residual else None,
                0.5 * factor * residual**2 if want_loss else None)  # fmt: skip

    return core.python_loss(evaluate, n_targets=2, n_state=1)


def toy_rows(problem, loss):
    """Return rows with two targets that add up to the target of the problem."""
    sets = [core.IndexSet(i, k) for i, k in zip(problem.index, problem.n_bins, strict=True)]
    y = np.stack([0.25 * problem.y, 0.75 * problem.y])
    return core.LocalRows(loss, y, problem.offset, sets, problem.parts)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_loss_with_two_targets_and_a_state(name):
    """With state 1 the toy loss is the squared loss of the sum; with state 4 it is 4 times that."""
    problem, seen = Problem(), []
    loss = toy_loss(seen)
    assert (loss.n_outputs, loss.n_targets, loss.n_state) == (1, 2, 1)
    expected = boost(problem, problem.rows(loss=python_squared(problem.y)), OPTIMIZERS[name])
    for state in (1.0, 4.0):
        boost_problem = core.BoostProblem(
            toy_rows(problem, loss), problem.learners(), OPTIMIZERS[name], start=[0.05],
            scale=1 / state, state=[state], all_learners=problem.learners(ALL),
            validation_part=VALIDATION,
        )  # fmt: skip
        path = core.boost(boost_problem, core.Path(), core.RunOptions(12))
        assert path.choices.tolist() == expected.choices.tolist()
        np.testing.assert_allclose(path.risk, state * expected.risk, rtol=1e-12)
        followed = core.follow(boost_problem, path)
        if name in ("plain", "accelerated"):  # hybrids end on other rows
            np.testing.assert_allclose(followed, path.risk, rtol=1e-12)
    with pytest.raises(RuntimeError, match="only while the loss is called"):
        _ = seen[0].score


def test_loss_sees_the_weights_of_the_part_that_is_fitted():
    problem, found = Problem(), []

    def evaluate(rows, _want_residual, _want_loss):
        found.append(rows.weights)
        return np.zeros((1, N)), np.zeros(N)

    rows = problem.rows(loss=core.python_loss(evaluate))
    rows.run([core.Fill(F, [0.0]), core.Fill(G, [1.0]), core.Residual(F, R, [VALIDATION, ALL])])
    np.testing.assert_array_equal(found.pop(), problem.parts[VALIDATION])
    rows.run([core.MeanResidual(F, G, R, TRAINING)])
    np.testing.assert_array_equal(found[-1], problem.parts[TRAINING])
    rows.run([core.MeanResidual(F, G, R)])
    assert found[-1] is None


def test_states_and_targets_of_a_wrong_size_are_refused():
    problem, loss = Problem(), toy_loss([])
    rows = toy_rows(problem, loss)
    rows.run([core.Fill(F, [0.0]), core.Fill(G, [0.0])])
    rows.run([core.MeanResidual(F, G, R, state=[2.0])])
    wrong = [core.Residual(F, R, [0]), core.Residual(F, R, [0], state=[1.0, 2.0]),
             core.MeanResidual(F, G, R)]  # fmt: skip
    for verb in wrong:
        with pytest.raises(ValueError, match="for the state of the loss"):
            rows.run([verb])
    for y in (np.zeros((1, N)), np.zeros((3, N))):
        with pytest.raises(ValueError, match=r"y must be \(n,\) or \(n_targets, n\)"):
            core.LocalRows(loss, y, None, [], [])
    for sizes in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="at least one output and one target"):
            core.python_loss(raises, *sizes)


class OopsError(Exception):
    pass


def raises(*_args):
    raise OopsError("from Python")


class FailingRows(core.Rows):
    def __init__(self, inner, after):
        super().__init__()
        self.inner, self.left = inner, after

    def n_outputs(self):
        return 1

    def run(self, batch):
        self.left -= 1
        if self.left < 0:
            raise OopsError("from Python")
        return self.inner.run(batch)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_python_exceptions_pass_through_unchanged(name, n_threads):
    problem, optimizer = Problem(), OPTIMIZERS[name]
    for after in (0, 1, 2, 9):
        with pytest.raises(OopsError, match="from Python"):
            boost(problem, FailingRows(problem.rows(n_threads), after), optimizer)
    with pytest.raises(OopsError, match="from Python"):
        boost(problem, problem.rows(n_threads, loss=core.python_loss(raises)), optimizer)
    rows = problem.rows(n_threads)
    with pytest.raises(OopsError, match="from Python"):
        boost(problem, rows, optimizer, after=raises)
    assert len(boost(problem, rows, optimizer).choices) == 12  # the rows still work


@pytest.mark.parametrize(
    "answer", [None, (1, 2, 3), (np.zeros((1, 3)), np.zeros(3)), (np.zeros((1, N)), "x")]
)
def test_a_python_loss_with_invalid_results_is_refused(answer):
    problem, loss = Problem(), core.python_loss(lambda *_: answer)
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        boost(problem, problem.rows(loss=loss), core.Plain(0.1))


# Invalid replies of Python rows, as expressions in `batch`. A process of its own tries all of them,
# since they might crash it; it prints what it tries.
INVALID_REPLIES = {
    "nothing": "None",
    "a number": "3",
    "no replies": "[]",
    "not replies": "['a'] * len(batch)",
    "too few": "[core.Reply(0.0, [1.0] * 3)] * (len(batch) - 1)",
    "no risks": "[core.Reply()] * len(batch)",
    "no sums": "[core.Reply(0.0, [1.0] * 3)] * len(batch)",
    "short sums": "[core.Reply(0.0, [1.0] * 3, [np.ones(2)] * 6)] * len(batch)",
}
REPLY_SCRIPT = """
import numpy as np
from cwboost import _core as core
from test_core import OPTIMIZERS, Problem, boost

class Wrong(core.Rows):
    def n_outputs(self):
        return 1
    def run(self, batch):
        return eval(answer, {{"core": core, "np": np, "batch": batch}})

for name, answer in {replies!r}.items():
    for kind, optimizer in OPTIMIZERS.items():
        print(name, kind, flush=True)
        try:
            boost(Problem(), Wrong(), optimizer)
        except (TypeError, RuntimeError, ValueError, IndexError):
            pass
        else:
            raise SystemExit("not refused")
"""


def refused(script):
    """Run a script, which might crash, in its own process; check that it exits with code 0."""
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    found = subprocess.run([sys.executable, "-c", script], env=here, capture_output=True, text=True)
    tried = found.stdout.splitlines()[-1:]
    assert found.returncode == 0, f"{tried}: code {found.returncode}\n{found.stderr[-1000:]}"


def test_python_rows_with_invalid_replies_are_refused():
    refused(REPLY_SCRIPT.format(replies=INVALID_REPLIES))


INVALID_CALLS = {
    "sets": "local_rows(sets=[None])",
    "loss": "local_rows(loss=None)",
    "learners": "run(p.rows(), [None], core.Plain(0.1))",
    "rows": "run(None, p.learners(), core.Plain(0.1))",
    "optimizer": "run(p.rows(), p.learners(), None)",
    "no learners for all rows": "run(p.rows(), p.learners(), OPTIMIZERS['hybrid'])",
    "no learners": "run(p.rows(), [], core.Plain(0.1)).choices[0]",
    "a history of other learners": "run(p.rows(), p.learners()[:1], core.Plain(0.2), "
    "boost(p, p.rows(), core.Plain(0.2), 12), 20)",
    "a history without corrections": "boost(p, p.rows(), OPTIMIZERS['accelerated'], 12, "
    "history=plain)",
    "a replay of other learners": "core.replay(core.ReplayProblem(core.Plain(0.2), [1, 1]), "
    "boost(p, p.rows(), core.Plain(0.2), 12), 12)",
}


def test_missing_and_mismatched_arguments_are_refused():
    refused(f"""
from cwboost import _core as core
from test_core import OPTIMIZERS, Problem, boost, local_rows
p = Problem()
path = boost(p, p.rows(), OPTIMIZERS["accelerated"], 6)
none = path.choices * 0 - 1
plain = core.Path(path.choices, none, path.halvings, path.updates, path.updates[:0], path.risk,
                  path.validation_risk, -1, -1, p.n_coef, 1)
def run(rows, learners, optimizer, history=core.Path(), n_iter=5):
    problem = core.BoostProblem(rows, learners, optimizer, start=[0.05], validation_part=1)
    return core.boost(problem, history, core.RunOptions(n_iter))
for name, call in {INVALID_CALLS!r}.items():
    print(name, flush=True)
    try:
        eval(call)
    except (TypeError, ValueError, IndexError, RuntimeError):
        pass
    else:
        raise SystemExit("not refused")
""")


def test_after_is_called_in_every_iteration_and_may_stop_the_fit():
    problem, seen = Problem(), []

    def after(m, risk, validation_risk, choice):
        seen.append((m, risk, validation_risk, choice))
        return m == 4

    path = boost(problem, problem.rows(), core.Plain(0.1), after=after)
    assert path.stopped == core.StopReason.callback
    assert [s[0] for s in seen] == [1, 2, 3, 4]
    assert [s[1] for s in seen] == path.risk[1:].tolist()
    assert [s[2] for s in seen] == path.validation_risk[1:].tolist()
    assert [s[3] for s in seen] == path.choices.tolist()


# --- invalid input --------------------------------------------------------------------------------


def local_rows(**changes):
    problem = Problem()
    arguments = {
        "loss": core.make_loss("squared"),
        "y": problem.y,
        "offset": problem.offset,
        "sets": [core.IndexSet(problem.index[0], 11)],
        "parts": [problem.parts[0]],
    }
    return core.LocalRows(**{**arguments, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"y": np.zeros(N, np.float32)},
        {"y": np.zeros(N, int)},
        {"y": np.zeros((N, 1, 1))},
        {"y": np.zeros(2 * N)[::2]},
        {"y": [0.0] * N},
        {"parts": [np.zeros(N, np.float32)]},
        {"parts": [np.zeros((N, 1))]},
        {"offset": np.zeros(N)},
        {"offset": np.zeros((1, N), np.float32)},
        {"sets": [np.zeros(N, np.uint8)]},
        {"loss": "squared"},
    ],
)
def test_wrong_types_are_refused(changes):
    with pytest.raises(TypeError):
        local_rows(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros((N, 1))}, "y must be"),
        ({"parts": [np.zeros(N - 1)]}, "one weight per row"),
        ({"offset": np.zeros((2, N))}, "one value per row and output"),
        ({"offset": np.zeros((1, N - 1))}, "one value per row and output"),
        ({"sets": [core.IndexSet(np.zeros(N - 1, np.uint8), 3)]}, "one bin per row"),
        ({"sets": [core.IndexSet(np.full(N, 3, np.uint8), 3)]}, "out of range"),
        ({"sets": [core.MomentSet(np.full(N, 3, np.uint16), np.zeros(N), 3)]}, "out of range"),
        ({"sets": [core.MomentSet(np.zeros(N, np.uint16), np.zeros(N - 1), 3)]}, "one t per row"),
        ({"sets": [core.MomentSet(np.zeros(9, np.uint16), np.zeros(N), 3)]}, "one bin per row"),
        ({"sets": [core.IndexSet(np.full(N, 300, np.uint16), 300)]}, "out of range"),
        ({"sets": [core.IndexSet(np.full(N, 70_000, np.uint32), 70_000)]}, "out of range"),
    ],
)
def test_wrong_sizes_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        local_rows(**changes)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint64, np.float64, bool])
def test_wrong_index_types_are_refused(dtype):
    with pytest.raises(TypeError):
        core.IndexSet(np.zeros(4, dtype), 2)
    with pytest.raises(TypeError):
        core.IndexSet(np.zeros((4, 1), np.uint8), 2)


@pytest.mark.parametrize(
    "verb",
    [
        core.Residual(F, R, [0]),  # never written
        core.BinSums([R], [0], 0),
        core.Mix(G, 1.0, F, 1.0, H),
        core.MeanResidual(F, G, R),
        core.Fill(16, [0.0]),  # no such slot
        core.Fill(-1, [0.0]),
        core.Fill(F, [0.0, 0.0]),  # one start per output
        core.Add(F, 1, np.zeros(11)),  # no such set
        core.Add(F, 0, np.zeros(10)),  # one value per bin
        core.Add(F, 0, np.zeros(11), output=1),  # no such output
        core.Add(F, 0, np.zeros(11), output=-2),
        core.BinSums([core.ONES_SLOT], [0], 3),  # no such part
        core.BinSums([core.ONES_SLOT], [1], 0),
        core.BinSums([-3], [0], 0),
    ],
)
def test_wrong_verbs_are_refused(verb):
    rows = local_rows()
    with pytest.raises((ValueError, IndexError)):
        rows.run([verb])
    rows.run([core.Fill(F, [0.0]), core.Residual(F, R, [0])])  # and the rows still work


@pytest.mark.parametrize("verb", [core.Residual(F, R, [7]), core.Residual(F, R, [])])
def test_residuals_of_unknown_parts_are_refused(verb):
    rows = local_rows()
    with pytest.raises((ValueError, IndexError)):
        rows.run([core.Fill(F, [0.0]), verb])


def test_unwritten_and_unknown_slots_cannot_be_read():
    rows = local_rows()
    for slot in (R, 16, -1):
        with pytest.raises((ValueError, IndexError)):
            rows.read(slot)
    assert rows.n_rows() == N
    with pytest.raises(TypeError):
        rows.run([3])


def learner(**changes):
    begin, column, value = compressed(np.eye(3))
    arguments = {"set": 0, "begin": begin, "column": column, "value": value, "gram": np.eye(3),
                 "factor": np.eye(3)}  # fmt: skip
    return core.Learner(**{**arguments, **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {"begin": np.array([1, 1, 2, 3])},  # does not begin at 0
        {"begin": np.array([0, 1, 2, 4])},  # ends beyond the values
        {"begin": np.array([0, 2, 1, 3])},  # decreases
        {"begin": np.array([], np.int64)},
        {"column": np.array([0, 1, 3], np.int32)},  # no such coefficient
        {"column": np.array([0, -1, 2], np.int32)},
        {"column": np.array([0, 1], np.int32)},
        {"value": np.ones(4)},
        {"gram": np.eye(4)},
        {"gram": np.ones(3)},
        {"gram": np.zeros((0, 0)), "factor": np.zeros((0, 0))},
        {"gram": np.ones((3, 3, 1))},
        {"factor": np.ones(3)},
        {"gram": np.ones((3, 2)), "factor": np.ones((3, 2))},
        {"removed": np.ones((1, 2)), "weigher": np.ones((1, 2))},
        {"removed": np.ones((1, 3))},
        {"removed": np.ones((1, 3)), "weigher": np.ones((2, 3))},
    ],
)
def test_bad_learners_are_refused(changes):
    with pytest.raises(ValueError):  # noqa: PT011
        learner(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"begin": np.arange(4, dtype=np.int32)},
        {"column": np.arange(3)},
        {"value": np.ones(3, np.float32)},
        {"gram": np.eye(3, dtype=np.float32)},
        {"factor": np.asfortranarray(np.tri(3))},
        {"removed": np.ones(3)},
    ],
)
def test_learners_of_wrong_types_are_refused(changes):
    with pytest.raises(TypeError):
        learner(**changes)


def test_learner_refuses_sums_of_a_wrong_size():
    with pytest.raises(ValueError, match="one sum per bin"):
        learner().fit(np.ones((1, 4)))
    with pytest.raises(TypeError):
        learner().fit(np.ones(3))


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values())
def test_boosting_refuses_learners_that_do_not_match_the_rows(optimizer):
    problem = Problem()
    good = problem.learners()

    def run(learners=good, start=(0.0,), validation_part=VALIDATION):
        boost_problem = core.BoostProblem(
            problem.rows(), learners, optimizer, start=start, all_learners=learners,
            validation_part=validation_part,
        )  # fmt: skip
        core.boost(boost_problem, core.Path(), core.RunOptions(5))

    wrong = [
        core.Learner(7, *compressed(np.eye(3)), np.eye(3), np.eye(3)),  # no such set
        core.Learner(0, *compressed(np.eye(3)), np.eye(3), np.eye(3)),  # set 0 has 11 bins
    ]
    run()
    for bad in wrong:
        with pytest.raises((ValueError, IndexError)):
            run([*good, bad])
    with pytest.raises((ValueError, IndexError)):  # one start per output
        run(start=[0.0, 0.0])
    with pytest.raises((ValueError, IndexError)):  # no such part
        run(validation_part=9)


def path_arrays(n=2):
    ints, reals = np.zeros(n, np.int32), np.zeros(n + 1)
    return {
        "choices": ints, "corrections": ints - 1, "halvings": ints, "updates": np.zeros(3 * n),
        "correction_updates": np.zeros(0), "risk": reals, "validation_risk": reals,
        "switched_after": -1, "rewound_to": -1, "n_coef": [3], "n_outputs": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"corrections": np.zeros(1, np.int32)},
        {"risk": np.zeros(2)},
        {"updates": np.zeros(5)},
        {"choices": np.full(2, 1, np.int32)},  # no such learner
        {"corrections": np.zeros(2, np.int32)},  # corrections without updates
    ],
)
def test_damaged_paths_are_refused(changes):
    core.Path(**path_arrays())
    with pytest.raises((ValueError, IndexError)):
        core.Path(**{**path_arrays(), **changes})


@pytest.mark.parametrize("optimizer", OPTIMIZERS.values())
@pytest.mark.parametrize(
    "changes",
    [
        {"choices": np.full(2, -1, np.int32), "updates": np.zeros(0)},  # nothing was chosen
        {"switched_after": 1, "rewound_to": 2},  # rewound to a later iteration
        {"switched_after": 1, "rewound_to": -1},
        {"halvings": np.full(2, -2000, np.int32)},
    ],
)
def test_replay_of_a_damaged_path_does_no_harm(optimizer, changes):
    """It may fail or return nonsense, but must not read outside the arrays (sanitizers)."""
    try:
        path = core.Path(**{**path_arrays(), **changes})
        core.replay(core.ReplayProblem(optimizer, [3]), path, 2)
    except (ValueError, IndexError, RuntimeError):
        pass


def test_replay_refuses_unknown_iterations():
    path = core.Path(**path_arrays())
    for m in (-1, 3):
        with pytest.raises(ValueError, match="no such iteration"):
            core.replay(core.ReplayProblem(core.Plain(0.1), [3]), path, m)
