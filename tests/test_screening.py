"""Terms of many levels are offered only if the target speaks for them (terms/screening.py)."""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb
from cwboost.terms.screening import MAX_OUTPUTS, level_evidence, spike_evidence, target_block

N = 6000


def codes_and_noise(n_levels, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_levels, N), rng


@pytest.mark.parametrize("n_levels", [30, 300, 3000])
def test_noise_gives_evidence_of_about_zero_with_standard_deviation_one(n_levels):
    found = []
    for seed in range(60):
        codes, rng = codes_and_noise(n_levels, seed)
        found.append(level_evidence(codes, n_levels, rng.normal(size=(N, 1))))
    assert abs(np.mean(found)) < 0.5
    assert 0.7 < np.std(found) < 1.4


@pytest.mark.parametrize("n_levels", [30, 300])
def test_smooth_effects_give_no_evidence_of_spikes(n_levels):
    found, points = [], np.arange(n_levels, dtype=float)
    for seed in range(60):
        codes, rng = codes_and_noise(n_levels, seed)
        y = np.sin(6 * codes / n_levels) + rng.normal(size=N) * (1 + codes / n_levels)
        found.append(spike_evidence(points, codes, y[:, None]))
    assert abs(np.mean(found)) < 0.7
    assert np.max(found) < 5
    codes, rng = codes_and_noise(n_levels)
    y = rng.normal(0, 0.5, n_levels)[codes] + rng.normal(size=N)
    assert spike_evidence(points, codes, y[:, None]) > 5


def test_effects_of_levels_are_found_in_one_of_several_outputs():
    codes, rng = codes_and_noise(300)
    y = np.where(rng.uniform(size=N) < 0.3, 2, codes % 2)
    assert level_evidence(codes, 300, target_block(y, 3)) > 5
    assert level_evidence(rng.permutation(codes), 300, target_block(y, 3)) < 4
    assert target_block(np.arange(50), 50).shape == (50, MAX_OUTPUTS)


@pytest.mark.parametrize("y", [np.ones(N), np.arange(N) % 2])
def test_columns_that_cannot_be_tested_give_no_evidence(y):
    assert level_evidence(np.arange(N), N, target_block(y)) == -np.inf
    assert level_evidence(np.full(N, -1), 0, target_block(y)) == -np.inf


@pytest.mark.parametrize("n_levels", [50, 500, 4000])
def test_a_useless_identifier_does_not_change_the_model(n_levels):
    codes, rng = codes_and_noise(n_levels)
    x = rng.normal(size=N)
    y = np.sin(2 * x) + rng.normal(size=N)
    with pytest.warns(UserWarning, match=r"'id' has \d+ levels in 6000 rows that differ no more"):
        both = cb.CWBRegressor().fit({"x": x, "id": [f"k{c}" for c in codes]}, y)
    np.testing.assert_array_equal(both.model_.risk, cb.CWBRegressor().fit({"x": x}, y).model_.risk)


def test_useful_levels_are_kept_and_explicit_learners_always_used():
    codes, rng = codes_and_noise(500)
    names = [f"k{c}" for c in codes]
    y = rng.normal(0, 0.7, 500)[codes] + rng.normal(size=N)
    assert "id" in cb.CWBRegressor().fit({"id": names}, y).model_.importance()
    noise = rng.normal(size=N)
    fitted = cb.CWBRegressor(learners=[cb.Category("id")]).fit({"id": names}, noise)
    assert list(fitted.model_.terms) == ["id"]


def test_numbers_get_spikes_only_where_single_values_deviate():
    codes, rng = codes_and_noise(200)
    smooth = rng.integers(0, 200, N)
    y = rng.normal(0, 0.7, 200)[codes] + np.sin(smooth / 30) + rng.normal(size=N)
    terms = cb.CWBRegressor().fit({"code": codes, "smooth": smooth}, y).model_.terms
    assert list(terms) == [
        "spline(code)", "step(code)", "spline(smooth)", "step(smooth)", "spikes(code)",
    ]  # fmt: skip
    small = slice(0, 900)  # too few rows for the test
    fewer = cb.CWBRegressor().fit({"code": codes[small]}, y[small]).model_.terms
    assert "spikes(code)" not in fewer
