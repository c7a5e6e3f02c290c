"""Tests of curves where there are hardly any rows, and of the effects of a few missing cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import cwboost as cb
from cwboost.terms.bases.penalties import MAX_FLATTENING, TAIL, tail_weights, weighted_differences

# --- tails ----------------------------------------------------------------------------------------


def houses(seed=0, n=2197):
    """Return houses with skewed areas. Five are very large, and two of these were sold cheaply."""
    rng = np.random.default_rng(seed)
    area = np.clip(np.exp(rng.normal(np.log(1450), 0.3, n)), 350, 3450)
    price = 30 + 0.1 * area + rng.normal(0, 0.012 * area)
    area[:5] = [3608, 3627, 4316, 4676, 5642]
    price[:5] = [475, 590, 755, 185, 160]
    return {"area": area}, price


@pytest.mark.parametrize("terms", ["smooth", "auto"])
@pytest.mark.parametrize("seed", range(3))
def test_a_few_rows_far_out_do_not_bend_the_curve(terms, seed):
    table, price = houses(seed)
    far = {"area": [4000.0, 5000.0, 8000.0]}
    model = cb.CWBRegressor(terms=terms, random_state=seed).fit(table, price).model_
    assert np.all(np.abs(model.predict(far) - model.predict({"area": [3400.0]})) < 60)
    wild = cb.Spline("area", extrapolate="linear", tails="smooth")
    model = (
        cb.CWBRegressor(learners=[wild], random_state=seed, polish=None).fit(table, price).model_
    )
    assert model.predict(far)[2] < 100  # less than a third of the price at 3,400


def test_smooth_columns_and_gaps_are_not_flattened():
    """Slopes are penalised only in the tails: rows on both sides of a gap determine the curve."""
    rng = np.random.default_rng(0)
    even, groups = rng.uniform(size=500), np.append(rng.uniform(0, 1, 400), rng.uniform(9, 10, 100))
    for x in (even, groups):
        models = [cb.fit({"x": x}, even, [cb.Spline("x", tails=t)]) for t in ("flat", "smooth")]
        assert models[0].terms["x"].smoothing == models[1].terms["x"].smoothing
    outlier = np.append(even[1:], 30.0)
    models = [
        cb.fit({"x": outlier}, outlier, [cb.Spline("x", tails=t)]) for t in ("flat", "smooth")
    ]
    assert models[0].terms["x"].smoothing != models[1].terms["x"].smoothing


def test_centered_keeps_lines_free():
    with pytest.raises(ValueError, match="tails must be 'smooth'"):
        cb.Centered("x", tails="flat")
    with pytest.raises(ValueError, match="tails: expected 'flat' or 'smooth'"):
        cb.Spline("x", tails="free")
    x = np.append(np.linspace(0, 1, 200), 50.0)
    model = cb.fit({"x": x}, x**2, [cb.Centered("x", df=1)], n_iter=20)
    effect = model.contributions({"x": x})["x"]
    np.testing.assert_allclose(np.polyfit(x, effect, 1), 0.0, atol=1e-9 * np.ptp(effect))


@settings(max_examples=200)
@given(
    arrays(float, st.integers(2, 40), elements=st.floats(0, 1)).filter(lambda a: a.sum() > 1e-9),
    st.floats(0.1, 10),
)
def test_weights_of_tails(shares, scale):
    """The penalty is positive semi-definite, leaves constants free, and depends on shares only."""
    below = np.cumsum(shares)[:-1] / shares.sum()
    tail = np.minimum(below, 1 - below)
    assume(np.all(np.abs(tail - TAIL) > 1e-9))
    weights = tail_weights(shares)
    assert np.all((weights >= 0) & (weights <= MAX_FLATTENING))
    np.testing.assert_allclose(tail_weights(shares[::-1])[::-1], weights, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tail_weights(shares * scale), weights, rtol=1e-6, atol=1e-6)
    assert not weights[tail > TAIL].any()
    penalty = weighted_differences(weights)
    assert np.linalg.eigvalsh(penalty).min() >= -1e-9
    np.testing.assert_allclose(penalty.sum(axis=1), 0.0, atol=1e-9)


def test_weights_count_as_repetitions():
    rng = np.random.default_rng(1)
    x = np.append(rng.normal(size=300), [25.0, 31.0])
    y, w = np.sin(x), rng.integers(1, 4, 302)
    learners = [cb.Spline("x")]
    weighted = cb.fit({"x": x}, y, learners, weights=w, n_iter=30, bins="exact")
    repeated = cb.fit({"x": np.repeat(x, w)}, np.repeat(y, w), learners, n_iter=30, bins="exact")
    scaled = cb.fit({"x": x}, y, learners, weights=7.0 * w, n_iter=30, bins="exact")
    for other in (repeated, scaled):
        np.testing.assert_allclose(other.predict({"x": x}), weighted.predict({"x": x}), rtol=1e-9)


# --- missing cells --------------------------------------------------------------------------------


def missing_effect(n_missing, loss, terms):
    """Return the effect of a missing cell after a default fit.

    Missing cells raise the score by 1.5. A single missing row has a y far below the others.
    """
    rng = np.random.default_rng(n_missing)
    n = 5000
    a, b = rng.normal(size=(2, n))
    score = np.sin(2 * a) + b
    gone = rng.choice(n, n_missing, replace=False)
    score[gone] += 1.5
    if loss == "squared":
        y, estimator = score + rng.normal(size=n), cb.CWBRegressor
    else:
        y, estimator = rng.random(n) < 1 / (1 + np.exp(-score)), cb.CWBClassifier
    if n_missing == 1:
        y[gone] = -3.0 if loss == "squared" else False
    a[gone] = np.nan
    model = estimator(terms=terms, random_state=1).fit({"a": a, "b": b}, y).model_
    effects = model.contributions({"a": [np.nan], "b": [0.0]})
    return sum(effect[0] for name, effect in effects.items() if name != "b" and "(b)" not in name)


@pytest.mark.parametrize("terms", ["auto", "smooth", "step", "linear"])
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_missing_cells_are_shrunk(loss, terms):
    assert abs(missing_effect(1, loss, terms)) < 0.4
    assert missing_effect(500, loss, terms) > 0.9


@pytest.mark.parametrize("learner", [cb.Spline("x"), cb.Step("x"), cb.Missing("x")])
def test_the_ridge_of_missing_cells(learner):
    """One full step moves the effect of n missing among N rows by n / (n + N / 10)."""
    x = np.append(np.tile(np.arange(20.0), 40), np.full(200, np.nan))
    y = np.where(np.isnan(x), 5.0, 0.0)
    model = cb.fit({"x": x}, y, [learner], optimizer=cb.Plain(1.0), n_iter=1)
    (term,) = model.terms.values()
    moved = term.beta[-1, 0] / (5.0 - y.mean())
    assert moved == pytest.approx(200 / (200 + 100))
    if isinstance(learner, cb.Missing):
        assert term.df == pytest.approx(1 - (1 / 3) ** 2)
        assert term.net_df == pytest.approx(term.df * 0.8)
