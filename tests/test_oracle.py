"""cwboost against the dense NumPy oracle: same choices, same numbers, on random problems.

Knows: how a model and an oracle's fit are compared, and where rounding makes that hard (three
places, each with its reason). Does not know: the mathematics; `oracle` does.
"""

from __future__ import annotations

import warnings

import numpy as np
import oracle
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
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

import cwboost as cb

TIGHT = 1e-8  # of risks, scores, df: relative to their size
COEF = 1e-6  # of coefficients: relative to the term's largest
# A singular system (fewer occupied bins than coefficients) is solved with smoothing 1e-8 tau: its
# condition is about 1e8 times the usual, and rounding of the coefficients grows with it. What they
# say at the bins is as exact as ever; between the bins it is not.
COEF_SINGULAR = 1e-4
BINS = ("exact", "sqrt", "root4", 7)


def both(table, y, learners, loss, optimizer, *, n_iter, bins, weights, offset, held, start=None):
    """The model and the oracle's fit of one problem."""
    model = cb.fit(
        table, y, learners, make_loss(loss), optimizer, n_iter, bins, weights, offset, start,
        validation=held, patience=None,
    )  # fmt: skip
    reference = oracle.fit(
        table, y, learners, loss, TAU, DELTA, POWER, optimizer, n_iter, bins, weights, offset,
        start, validation=held,
    )  # fmt: skip
    return model, reference


def close(found, expected, tolerance=TIGHT, what=""):
    expected = np.asarray(expected, float)
    size = max(float(np.abs(expected).max(initial=0.0)), 1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * size, err_msg=what)


def returned(model, reference):
    """The iteration a model is at, by the oracle's figures: the last, or the best if validated."""
    on_all = reference.switched_at is not None and model.optimizer.then == "all"
    return model.n_iter if on_all else reference.best_iteration


def compare_path(model, reference):
    assert list(model.terms) == reference.names
    close(model.start, reference.start, what="start")
    close(model.scale, reference.scale, what="scale")
    assert model.choices == reference.choices
    assert [c for c in model.corrections if c is not None] == reference.corrections
    close(model.risk, reference.risk, what="risk")
    if reference.validation_risk is None:
        assert model.validation_risk is None
    else:
        close(model.validation_risk, reference.validation_risk, what="validation risk")
    if reference.switched_at is not None and reference.switched_at < model.n_iter:
        assert model.path.switched_after == reference.switched_at
        rewound = reference.switched_at if reference.rewound_to is None else reference.rewound_to
        assert model.path.rewound_to == rewound
    else:
        assert model.path.switched_after == -1
    assert model.best_iteration == returned(model, reference)


def singular(solver):
    A = solver.A / max(np.trace(solver.A), 1e-300)
    return np.linalg.eigvalsh(A)[0] < 1e-11


def compare_terms(model, reference, trained):
    """`trained`: the oracle's systems of the training part (Hybrid leaves those of all rows)."""
    m = model.best_iteration
    for term, solver, coef in zip(model.terms.values(), trained, reference.at(m), strict=True):
        # smoothing from df: the root is found to 1e-9 in df, and df is flat where it is large
        close(term.df, solver.df, 1e-7, f"df of {term.name}")
        close(term.net_df, solver.net_df, 1e-7, f"net df of {term.name}")
        if solver.smoothing > 1e-6 * np.trace(solver.A):
            close(term.smoothing, solver.smoothing, 1e-6, f"smoothing of {term.name}")
        tolerance = COEF_SINGULAR if singular(solver) else COEF
        close(term.coef, coef, tolerance, f"coefficients of {term.name}")


def at_bins(table, bins, training):
    """The table with its numbers replaced by their bin points."""
    out = {}
    for name, column in table.items():
        if column.dtype.kind != "f":
            out[name] = column
            continue
        known = column[training & ~np.isnan(column)]
        points = oracle.bin_points(known, bins, int(training.sum()))
        out[name] = np.where(np.isnan(column), np.nan, oracle.to_bins(np.nan_to_num(column), points))
    return out


def compare_scores(model, reference, table, offset, bins, training, seen):
    m = model.best_iteration
    loose = any(singular(s) for s in reference.solvers)
    score = model.predict(table, kind="score", offset=offset)
    shift = 0.0 if offset is None else offset
    if np.ndim(shift) == 2:  # the oracle's predict takes one offset per row
        expected = reference.predict(table, 0.0, m) + shift
    else:
        expected = reference.predict(table, shift, m)
    close(score, expected, COEF_SINGULAR if loose else TIGHT * 10, "scores at raw values")
    steps = any("Step" in repr(term.learner) for term in model.terms.values())
    if steps and bins != "exact":
        return  # Step sees raw values, so a table of bin points is not what the fit saw
    trained = model.predict(at_bins(table, bins, training), kind="score", offset=offset)
    close(trained[seen], reference.scores_at(m)[seen], TIGHT * 10, "training scores")


def check(table, y, learners, loss, optimizer, *, n_iter, bins, weights=None, offset=None,
          held=None, start=None):  # fmt: skip
    given = dict(bins=bins, weights=weights, offset=offset, held=held, start=start)
    model, reference = both(table, y, learners, loss, optimizer, n_iter=n_iter, **given)
    compare_path(model, reference)
    n = len(y)
    seen = np.ones(n, bool) if weights is None else weights > 0
    training = seen if held is None else seen & ~held
    trained = reference.solvers
    if reference.switched_at is not None:
        trained = oracle.fit(
            table, y, learners, loss, TAU, DELTA, POWER, None, 0, validation=held,
            **{k: v for k, v in given.items() if k != "held"},
        ).solvers  # fmt: skip
    compare_terms(model, reference, trained)
    compare_scores(model, reference, table, offset, bins, training, seen)


def safe_start(loss, y, weights, offset):
    """A start that no y - offset equals, where the residual has a jump.

    A weighted median is one of the y; a binary learner leaves rows at exactly that score, and then
    the sign of y - f is that of rounding. Starts themselves are compared by `check_start`.
    """
    if loss not in ("absolute", "quantile"):
        return None
    z = y if offset is None else y - offset
    w = np.ones(len(z)) if weights is None else weights
    return float(oracle.weighted_quantile(z[w > 0], w[w > 0], 0.4)) + 1e-3


def check_start(table, y, loss, weights, offset, held):
    optimizer = cb.Plain(0.1)
    given = dict(n_iter=0, bins="exact", weights=weights, offset=offset, held=held)
    model, reference = both(table, y, [cb.Linear("u")], loss, optimizer, **given)
    compare_path(model, reference)


# --- every kind of learner x loss x optimizer x bins, on one small problem ------------------------

# Large rates and momentum, so that Hybrid switches within the few iterations there is time for.
OPTIMIZERS = {
    "plain": cb.Plain(0.3),
    "accelerated": cb.Accelerated(0.2, 0.05),
    "hybrid": cb.Hybrid(0.8, 0.5, switch_after=1),
}


@pytest.mark.parametrize("bins", BINS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", KINDS)
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


# --- random problems ------------------------------------------------------------------------------

optimizers = st.one_of(
    st.builds(cb.Plain, st.sampled_from([0.05, 0.1, 0.5])),
    st.builds(cb.Accelerated, st.sampled_from([0.05, 0.2]), st.sampled_from([0.0034, 0.05])),
    st.builds(
        cb.Hybrid,
        st.sampled_from([0.2, 0.6]),
        st.sampled_from([0.037, 0.3]),
        switch_after=st.sampled_from([1, 2, 5]),
        rewind=st.booleans(),
        then=st.sampled_from(["all", "training"]),
    ),
)


def without_repeats(kinds):
    """The learners of some kinds, each with a name of its own; Missing(v) once."""
    out, names = [], set()
    for kind in kinds:
        for learner in KINDS[kind]():
            name = f"{type(learner).__name__}({', '.join(learner.columns)})"
            if name not in names:
                names.add(name)
                out.append(learner)
    return out


@st.composite
def random_problems(draw):
    seed = draw(st.integers(0, 10_000))
    n = draw(st.integers(30, 200))
    loss = draw(st.sampled_from(LOSSES))
    kinds = draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4, unique=True))
    optimizer = draw(optimizers)
    table = make_table(seed, n)
    y = make_target(seed, table, loss)
    weights = make_weights(seed, n, draw(st.booleans())) if draw(st.booleans()) else None
    offset = make_offset(seed, n, loss) if draw(st.booleans()) else None
    held = None
    if isinstance(optimizer, cb.Hybrid) or draw(st.booleans()):
        held = np.random.default_rng(seed + 4).permutation(n) < n // 4
    return {
        "table": table, "y": y, "learners": without_repeats(kinds), "loss": loss,
        "optimizer": optimizer, "n_iter": draw(st.integers(1, 25)), "weights": weights,
        "offset": offset, "held": held, "bins": draw(st.sampled_from((*BINS, "auto"))),
    }  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True, database=None,
          suppress_health_check=list(HealthCheck))  # fmt: skip
@given(random_problems())
def test_random_problems(problem):
    learners = problem["learners"]
    with warnings.catch_warnings():
        # small tables may lose a level or all missing cells to validation
        warnings.filterwarnings("ignore", message="constant in the training rows")
        warnings.filterwarnings("ignore", message="levels never seen")
        basics = [problem[k] for k in ("table", "y", "loss", "weights", "offset", "held")]
        check_start(*basics)
        start = safe_start(*(problem[k] for k in ("loss", "y", "weights", "offset")))
        check(**{**problem, "learners": learners}, start=start)
