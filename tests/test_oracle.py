"""Tests of cwboost against the dense NumPy oracle: same choices and numbers on random problems.

This file compares a model with the oracle's fit. Rounding makes that hard in three places, each
explained below. The mathematics is in `oracle`.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cwboost as cb
import oracle
from problems import (
    DELTA,
    KINDS,
    LOSSES,
    POWER,
    TAU,
    make_loss,
    make_offset,
    make_table,
    make_target,
    make_weights,
)

# Learning rates and momentum are large, so that few iterations suffice; some fits diverge.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the fit diverges"),
    pytest.mark.filterwarnings("ignore:levels never seen in training"),
    pytest.mark.filterwarnings("ignore:constant in the training rows"),
]

TIGHT = 1e-8  # for risks, scores and df, relative to their size
COEF = 1e-6  # for coefficients, relative to the largest of the term
# A singular system (fewer occupied bins than df) is solved with smoothing 1e-8 tau. Its condition
# number is about 1e9, so rounding errors grow to 1e-6, most of all in the oracle, which inverts it.
SINGULAR = 1e-5
COEF_SINGULAR = 1e-3
COEF_PAIR = 1e-5
BINS = ("exact", "sqrt", "root4", 7)


def both(table, y, learners, loss, optimizer, *, n_iter, bins, weights, offset, held, start=None):
    """Return the model and the oracle's fit of one problem."""
    model = cb.fit(
        table, y, learners, make_loss(loss), optimizer, n_iter, bins, weights, offset, start,
        validation=held, patience=None,
    )  # fmt: skip
    reference = oracle.fit(
        table, y, learners, loss, TAU, DELTA, POWER, optimizer, n_iter, bins, weights, offset,
        start, validation=held,
    )  # fmt: skip
    return model, reference


def close(found, expected, tolerance=TIGHT, what="", least=1e-6):
    expected = np.asarray(expected, float)
    size = max(float(np.abs(expected).max(initial=0.0)), least)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size, err_msg=what)


def switched(model, reference):
    """Return whether Hybrid iterated after its switch.

    The oracle also counts a switch after the last iteration.
    """
    return reference.switched_at is not None and reference.switched_at < model.n_iter


def returned(model, reference):
    """Return the model's iteration according to the oracle: the last, or the best if validated."""
    on_all = switched(model, reference) and model.optimizer.then == "all"
    return model.n_iter if on_all else reference.best_iteration


def compare_path(model, reference, trained):
    tolerance = SINGULAR if any(map(singular, reference.solvers + trained)) else TIGHT
    assert list(model.terms) == reference.names
    close(model.start, reference.start, what="start")
    close(model.scale, reference.scale, what="scale")
    assert model.choices == reference.choices
    assert [c for c in model.corrections if c is not None] == reference.corrections
    close(model.risk, reference.risk, tolerance, "risk")
    if reference.validation_risk is None:
        assert model.validation_risk is None
    else:
        close(model.validation_risk, reference.validation_risk, tolerance, "validation risk")
    if switched(model, reference):
        assert model.path.switched_after == reference.switched_at
        rewound = reference.switched_at if reference.rewound_to is None else reference.rewound_to
        assert model.path.rewound_to == rewound
    else:
        assert model.path.switched_after == -1
    m, expected = model.best_iteration, returned(model, reference)
    if m != expected:  # losses with kinks give risks that differ by rounding only
        close(model.validation_risk[m], model.validation_risk[expected], what="best risk")


def singular(solver):
    """Return whether A + lambda P is singular or nearly singular."""
    return solver.condition > 1e8


def compare_terms(model, reference, trained):
    """Compare terms. `trained` has the oracle's systems of the training rows.

    After Hybrid has switched, `reference.solvers` has the systems of all rows instead.
    """
    m = model.best_iteration
    for term, solver, coef in zip(model.terms.values(), trained, reference.at(m), strict=True):
        tolerance = max(SINGULAR, 1e-16 * solver.condition) if singular(solver) else TIGHT
        close(term.df, solver.df, tolerance, f"df of {term.name}", least=1.0)
        close(term.net_df, solver.net_df, tolerance, f"net df of {term.name}", least=1.0)
        close(term.smoothing, solver.smoothing, COEF, f"smoothing of {term.name}")
        # Where a pair has no rows, its coefficients depend on the smallest penalty eigenvalues.
        loose = COEF_PAIR if getattr(term.learner, "orthogonal", False) else COEF
        if singular(solver):
            loose = min(max(COEF_SINGULAR, 1e-14 * solver.condition), 1e-2)
        close(term.coef, coef, loose, f"coefficients of {term.name}")


def at_bins(table, bins, training):
    """Return the table with numbers replaced by their bin points."""
    out = {}
    for name, column in table.items():
        if column.dtype.kind != "f":
            out[name] = column
            continue
        known = column[training & ~np.isnan(column)]
        points = oracle.bin_points(known, bins, int(training.sum()))
        out[name] = np.where(
            np.isnan(column), np.nan, oracle.to_bins(np.nan_to_num(column), points)
        )
    return out


def compare_scores(model, reference, solvers, table, offset, bins, training, seen):
    m = model.best_iteration
    loose = any(map(singular, solvers))
    score = model.predict(table, kind="score", offset=offset)
    shift = 0.0 if offset is None else offset
    if np.ndim(shift) == 2:  # the oracle's predict takes one offset per row
        expected = reference.predict(table, 0.0, m) + shift
    else:
        expected = reference.predict(table, shift, m)
    close(score, expected, COEF_SINGULAR if loose else TIGHT, "scores at raw values")
    learners = [t.learner for t in model.terms.values()]
    raw = any(word in repr(x) for x in learners for word in ("Step", "Category"))
    pairs = any(getattr(x, "orthogonal", False) for x in learners)  # pairs given by name use steps
    if (raw or pairs) and bins != "exact":
        return  # Step and Category are trained on raw values, not on bin points
    trained = model.predict(at_bins(table, bins, training), kind="score", offset=offset)
    close(trained[seen], reference.scores_at(m)[seen], SINGULAR if loose else TIGHT, "at the bins")


def check(table, y, learners, loss, optimizer, *, n_iter, bins, weights=None, offset=None,
          held=None, start=None):  # fmt: skip
    options = {"bins": bins, "weights": weights, "offset": offset, "held": held, "start": start}
    model, reference = both(table, y, learners, loss, optimizer, n_iter=n_iter, **options)
    n = len(y)
    seen = np.ones(n, bool) if weights is None else weights > 0
    training = seen if held is None else seen & ~held
    trained = reference.solvers
    if reference.switched_at is not None:
        trained = oracle.fit(
            table, y, learners, loss, TAU, DELTA, POWER, None, 0, validation=held,
            **{k: v for k, v in options.items() if k != "held"},
        ).solvers  # fmt: skip
    compare_path(model, reference, trained)
    compare_terms(model, reference, trained)
    compare_scores(
        model, reference, reference.solvers + trained, table, offset, bins, training, seen
    )


def safe_start(loss, y, weights, offset):
    """Return a start that differs from every y - offset, for losses whose gradient jumps at zero.

    A weighted median is one of the y values. A binary learner leaves rows at exactly that score,
    and then rounding decides the sign of y - f. `check_start` compares the default starts.
    """
    if loss not in ("absolute", "quantile"):
        return None
    z = y if offset is None else y - offset
    w = np.ones(len(z)) if weights is None else weights
    return float(oracle.weighted_quantile(z[w > 0], w[w > 0], 0.4)) + 1e-3


def check_start(table, y, loss, weights, offset, held):
    optimizer = cb.Plain(0.1)
    options = {"n_iter": 0, "bins": "exact", "weights": weights, "offset": offset, "held": held}
    model, reference = both(table, y, [cb.Linear("u")], loss, optimizer, **options)
    compare_path(model, reference, reference.solvers)


# --- every kind of learner x loss x optimizer x bins, on one small problem ------------------------

# Large learning rates and momentum, so that Hybrid switches within few iterations.
OPTIMIZERS = {
    "plain": cb.Plain(0.3),
    "accelerated": cb.Accelerated(0.2, 0.05),
    "hybrid": cb.Hybrid(0.8, 0.5, switch_after=1),
}


# A selection of kinds; the random problems draw from all of them.
CROSSED = ("linear", "linear, no intercept", "linear, missing", "polynomial", "spline",
           "spline, degree 2", "step, missing", "category, missing", "category, binary",
           "centered", "tensor", "tensor, category", "pair, missing", "pair, splines")  # fmt: skip


# Learner, loss, optimizer and bins are independent of each other, so pairs of them can fail
# together, but not all four. The bins rotate, and every pair of values of any two of them occurs.
COMBINATIONS = [
    (kind, loss, optimizer, BINS[(i + 2 * j + k) % len(BINS)])
    for i, kind in enumerate(CROSSED)
    for j, loss in enumerate(LOSSES)
    for k, optimizer in enumerate(OPTIMIZERS)
]


def test_the_combinations_contain_every_pair():
    choices = (CROSSED, LOSSES, OPTIMIZERS, BINS)
    for a, b in itertools.combinations(range(4), 2):
        wanted = set(itertools.product(choices[a], choices[b]))
        assert {(c[a], c[b]) for c in COMBINATIONS} == wanted


@pytest.mark.parametrize(("kind", "loss", "optimizer", "bins"), COMBINATIONS)
def test_every_combination(kind, loss, optimizer, bins):
    n = 60
    table = make_table(7, n)
    y = make_target(7, table, loss)
    weights = make_weights(7, n)
    held = np.random.default_rng(0).permutation(n) < 18 if optimizer == "hybrid" else None
    learners = [*KINDS[kind](), cb.Spline("e", 3, knots=5)]
    start = safe_start(loss, y, weights, None)
    check(table, y, learners, loss, OPTIMIZERS[optimizer], n_iter=6, bins=bins, weights=weights,
          held=held, start=start)  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_thin_tails(optimizer, loss):
    """Splines whose slopes are penalised where hardly any rows are, with missing cells or not."""
    n = 300
    table = make_table(3, n)
    rng = np.random.default_rng(5)
    table["o"] = np.append(rng.normal(size=n - 2), [40.0, -25.0])
    table["p"] = np.where(rng.uniform(size=n) < 0.1, np.nan, np.exp(2 * rng.normal(size=n)))
    learners = [cb.Spline("o", 4), cb.Spline("p"), cb.Spline("o", 4, tails="smooth", name="s")]
    held = rng.permutation(n) < 90 if optimizer == "hybrid" else None
    y, weights = make_target(3, table, loss), make_weights(3, n)
    check(table, y, learners, loss, OPTIMIZERS[optimizer], n_iter=8, bins="exact", weights=weights,
          held=held, start=safe_start(loss, y, weights, None))  # fmt: skip
    flat, smooth = (cb.fit(table, y, [learners[k]], loss=loss, n_iter=0) for k in (0, 2))
    assert flat.terms["o"].smoothing != pytest.approx(smooth.terms["s"].smoothing, rel=1e-3)


# --- random problems ------------------------------------------------------------------------------


def draw_optimizer(rng):
    pick = rng.choice
    kind = rng.integers(3)
    if kind == 0:
        return cb.Plain(pick([0.05, 0.1, 0.5]))
    if kind == 1:
        return cb.Accelerated(pick([0.05, 0.2]), pick([0.0034, 0.05]))
    return cb.Hybrid(
        pick([0.2, 0.6]),
        pick([0.037, 0.3]),
        switch_after=int(pick([1, 2, 5])),
        rewind=bool(pick([False, True])),
        then=str(pick(["all", "training"])),
        switch_patience=pick([None, 4, "auto"]),
    )


def draw_problem(seed):
    """Return the same problem on every machine (hypothesis depends on the installed packages)."""
    rng = np.random.default_rng(seed)
    pick = rng.choice
    return {
        "seed": seed,
        "n": int(rng.integers(30, 201)),
        "loss": str(pick(LOSSES)),
        "kinds": [str(kind) for kind in pick(list(KINDS), rng.integers(1, 5), replace=False)],
        "optimizer": draw_optimizer(rng),
        "n_iter": int(rng.integers(1, 26)),
        "bins": (*BINS, "auto")[rng.integers(len(BINS) + 1)],
        "weighted": str(pick(["no", "yes", "with zeros"])),
        "with_offset": bool(pick([False, True])),
        "validated": bool(pick([False, True])),
    }


def without_repeats(kinds):
    """Return the learners of these kinds without repeated names; Missing(v) occurs once."""
    out, names = [], set()
    if any("centered" in kind for kind in kinds):  # then the default net df is 1, too low for these
        kinds = [
            kind for kind in kinds if kind not in ("spline", "step, missing", "tensor, by name")
        ]
    for kind in kinds:
        for learner in KINDS[kind]():
            name = f"{type(learner).__name__}({', '.join(learner.columns)})"
            if name not in names:
                names.add(name)
                out.append(learner)
    return out


# The problem that the tolerance for singular systems comes from.
NEXT_TO_SINGULAR = {
    "seed": 1,
    "n": 161,
    "loss": "squared",
    "kinds": ["spline, missing"],
    "optimizer": cb.Plain(0.05),
    "n_iter": 1,
    "bins": "root4",
    "weighted": "no",
    "with_offset": False,
    "validated": False,
}


@pytest.mark.parametrize("problem", [*map(draw_problem, range(250)), NEXT_TO_SINGULAR],
                         ids=lambda problem: problem["seed"])  # fmt: skip
def test_random_problems(problem):
    seed = problem["seed"]
    n, loss, optimizer = (problem[k] for k in ("n", "loss", "optimizer"))
    table = make_table(seed, n)
    y = make_target(seed, table, loss)
    weights, offset, held = None, None, None
    if problem["weighted"] != "no":
        weights = make_weights(seed, n, problem["weighted"] == "with zeros")
    if problem["with_offset"]:
        offset = make_offset(seed, n, loss)
    if problem["validated"] or isinstance(optimizer, cb.Hybrid):
        held = np.random.default_rng(seed + 4).permutation(n) < n // 4
    check_start(table, y, loss, weights, offset, held)
    check(table, y, without_repeats(problem["kinds"]), loss, optimizer, n_iter=problem["n_iter"],
          bins=problem["bins"], weights=weights, offset=offset, held=held,
          start=safe_start(loss, y, weights, offset))  # fmt: skip


# --- what the random problems avoid ---------------------------------------------------------------


def test_a_direction_without_data_and_penalty_adds_no_df():
    """Two bins give two df, although third differences leave three dimensions unpenalized."""
    table = make_table(7, 60)
    y = make_target(7, table, "squared")
    held = np.random.default_rng(0).permutation(60) < 18
    learners = [cb.Spline("u", smoothing=3.0, differences=3)]
    model = cb.fit(
        table, y, learners, n_iter=3, bins="root4", weights=make_weights(7, 60), validation=held
    )
    np.testing.assert_allclose(model.terms["u"].df, 2.0, atol=1e-6)
    np.testing.assert_allclose(model.terms["u"].net_df, 1.0, atol=1e-6)


def test_default_df_at_the_null_space_does_not_depend_on_rounding():
    """With Centered the default net df is 1, just the dimension that a Spline leaves unpenalized.

    There must be an error for every table or for none.
    """
    errors = 0
    for seed in range(12):
        table = make_table(seed, 80)
        learners = [cb.Linear("u"), cb.Spline("u"), cb.Centered("u")]
        try:
            cb.fit(table, make_target(seed, table, "squared"), learners, n_iter=0)
        except ValueError:
            errors += 1
    assert errors in (0, 12)
