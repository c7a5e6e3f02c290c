"""The suggestion of a log link for skewed positive targets (estimators/suggestion.py)."""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb
from cwboost.export.model_file import from_dict, to_dict

RNG = np.random.default_rng(0)
N = 3000
TABLE = {"a": RNG.uniform(size=N), "b": RNG.uniform(size=N)}
PRICE = np.exp(2 * TABLE["a"] + 2 * TABLE["b"] + RNG.normal(0, 0.3, N))
SUM = TABLE["a"] + RNG.exponential(2.0, N) ** 2


def suggestion(y, table=TABLE, weights=None, **settings):
    return cb.CWBRegressor(**settings).fit(table, y, sample_weight=weights).model_.suggestion


def test_effects_that_multiply_bring_a_suggestion_into_the_summary():
    fitted = cb.CWBRegressor(polish=None).fit(TABLE, PRICE)
    text = fitted.model_.suggestion
    assert text.startswith("loss='gamma' (a log link) has R² 0.")
    assert f"suggestion: {text}" in fitted.model_.summary()
    r2 = [float(word) for word in text.replace(";", "").split() if word.startswith("0.")]
    held = np.zeros(N, bool)
    held[np.random.default_rng(0).permutation(N)[: N // 5]] = True
    rows = {name: column[held] for name, column in TABLE.items()}
    assert r2[1] == pytest.approx(fitted.score(rows, PRICE[held]), abs=1e-3)
    gamma = cb.CWBRegressor("gamma", polish=None).fit(TABLE, PRICE)
    errors = np.sum((PRICE[held] - gamma.predict(rows)) ** 2)
    assert r2[0] == pytest.approx(1 - errors / N * 5 / PRICE[held].var(), abs=2e-3)


def test_the_model_itself_does_not_change():
    fitted = cb.CWBRegressor().fit(TABLE, PRICE)
    assert fitted.model_.loss == cb.Squared()
    half = {"time_limit": 1e9}  # with a time limit there is no additional fit
    plain = cb.CWBRegressor(**half).fit(TABLE, PRICE)
    assert plain.model_.suggestion is None
    np.testing.assert_array_equal(plain.model_.risk, fitted.model_.risk)


@pytest.mark.parametrize(
    ("y", "settings"),
    [
        (SUM, {}),  # skewed, but effects add up
        (PRICE - 5, {}),  # not positive
        (np.log(PRICE) + 9, {}),  # not skewed
        (PRICE, {"loss": "huber"}),
        (PRICE, {"bags": 2}),
        (PRICE, {"validation": None, "n_iter": 20}),
        (PRICE, {"interactions": 1}),
    ],
)
def test_no_suggestion(y, settings):
    assert suggestion(y, **settings) is None


def test_rows_of_weight_zero_are_ignored():
    weights = np.r_[np.ones(2000), np.zeros(N - 2000)]
    first = {name: column[:2000] for name, column in TABLE.items()}
    assert suggestion(PRICE, weights=weights) == suggestion(PRICE[:2000], first)


def test_files_keep_the_suggestion_and_files_of_version_3_have_none():
    model = cb.CWBRegressor().fit(TABLE, PRICE).model_
    data = to_dict(model)
    assert from_dict(data).suggestion == model.suggestion is not None
    del data["suggestion"]
    assert from_dict({**data, "version": 3}).suggestion is None
