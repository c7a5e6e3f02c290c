"""Tests of the Wald tests of polished models."""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb

TERMS = [cb.Spline("a"), cb.Spline("b"), cb.Category("g")]


def make_rows(seed, n=300, loss="squared"):
    """Return a table and y, of which only a matters."""
    rng = np.random.default_rng(seed)
    table = {"a": rng.uniform(-2, 2, n), "b": rng.uniform(-2, 2, n)}
    table["g"] = rng.choice(["u", "v", "w"], n)
    f = np.sin(2 * table["a"])
    if loss == "poisson":
        return table, rng.poisson(np.exp(f)).astype(float)
    return table, f + rng.normal(size=n)


@pytest.mark.parametrize("loss", ["squared", "poisson"])
def test_p_values_of_given_terms_are_not_too_small(loss):
    """Under the null hypothesis, without selection, small p-values are not too frequent."""
    null, strong = [], []
    for seed in range(60):
        table, y = make_rows(seed, loss=loss)
        model = cb.polish(cb.fit(table, y, TERMS, loss=loss), table, y, weight=1.0)
        tests = cb.wald_tests(model)
        found = dict(zip(tests["column"], tests["p-value"], strict=True))
        strong.append(found["a"])
        null.append([found.get(name, 1.0) for name in ("b", "g")])
    for share in (0.05, 0.2, 0.5):
        allowed = share + 3 * np.sqrt(share * (1 - share) / len(null))
        assert np.all(np.mean(np.array(null) < share, axis=0) <= allowed)
    assert np.max(strong) < 1e-4
    assert np.min(null) < 0.5  # the test does not always accept


def test_a_linear_term_has_the_usual_test():
    """Of a straight line, the statistic is the square of z = estimate / standard error."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    y = 0.5 * x + rng.normal(size=500)
    model = cb.polish(cb.fit({"x": x}, y, [cb.Linear("x")]), {"x": x}, y, weight=1.0)
    tests = cb.wald_tests(model)
    slope = np.polyfit(x, y, 1)[0]
    error = np.sqrt(np.var(y - np.polyval(np.polyfit(x, y, 1), x)) / np.var(x) / 500)
    assert tests["rank"][0] == 1
    assert tests["statistic"][0] == pytest.approx((slope / error) ** 2, rel=0.1)
    assert tests["p-value"][0] < 1e-10


def test_a_weight_below_one_does_not_change_the_tests():
    table, y = make_rows(0)
    boosted = cb.fit(table, y, TERMS)
    whole, half = (cb.wald_tests(cb.polish(boosted, table, y, weight=w)) for w in (1.0, 0.5))
    np.testing.assert_allclose(half["statistic"], whole["statistic"], rtol=0.02, atol=0.01)


def test_the_table_warns_and_nothing_else_shows_p_values():
    table, y = make_rows(1)
    model = cb.fit(table, y, TERMS, polish=True)
    tests = cb.wald_tests(model)
    assert list(tests) == ["column", "effective df", "rank", "statistic", "p-value"]
    assert "ignore that boosting selected" in repr(tests)
    assert "ignore that boosting selected" in " ".join(cb.wald_tests.__doc__.split())
    assert "p-value" not in model.summary()
    assert "p-value" not in model._repr_html_()


def test_pairs_and_columns_with_two_terms():
    rng = np.random.default_rng(0)
    table = {"a": rng.uniform(-1, 1, 1000), "b": rng.uniform(-1, 1, 1000)}
    y = 2 * table["a"] * table["b"] + rng.normal(size=1000)
    learners = [cb.Spline("a"), cb.Step("a"), cb.Spline("b")]
    model = cb.fit(table, y, learners, interactions=[("a", "b")], n_iter=300, polish=True)
    tests = cb.wald_tests(model)
    assert len(tests["column"]) == len(model.polish.factors)
    pair = [len(name) > 1 for name in tests["column"]]
    assert tests["p-value"][pair][0] < 1e-10
    assert np.all(np.isfinite(tests["statistic"]))


def test_models_without_posterior_are_refused():
    table, y = make_rows(0)
    with pytest.raises(ValueError, match="the model was not polished; call"):
        cb.wald_tests(cb.fit(table, y))
    with pytest.raises(ValueError, match="second derivative"):
        cb.wald_tests(cb.fit(table, y, loss="absolute", polish="auto"))
    with pytest.raises(TypeError, match="expected a Model"):
        cb.wald_tests(cb.CWBRegressor())
    with pytest.raises(ValueError, match="edited"):
        cb.wald_tests(cb.fit(table, y, polish=True).edit("zero", "a"))
