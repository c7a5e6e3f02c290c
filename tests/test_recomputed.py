"""Tests of formulas and constants, which are recomputed from their definitions.

The expected values never come from the object under test. Without these tests, each formula and
constant could be changed unnoticed.
"""

import warnings

import numpy as np
import pytest
from scipy.stats import norm

import cwboost as cb
from cwboost.explain.quality import calibration, evaluate_rows
from cwboost.fitting.input_data import FitInput, read_data
from cwboost.frames.read_frames import read
from cwboost.losses import as_loss
from cwboost.uncertainty.bootstrap_fits import draw_counts


def scores(model, bands, table, draw_number, start):
    """Return the scores of rows by one bootstrap fit. Bins are exact, so values are unchanged."""
    columns = read(table)
    out = np.full(columns.n_rows, start)
    for name, coef in bands.coef.items():
        term = model.terms[name]
        rows = term.plan.basis.matrix(term.plan.encode([columns[c] for c in term.columns]))
        out += (rows @ coef[draw_number].astype(float))[:, 0]
    return out


def test_bands_are_widened_by_the_sixth_root_of_the_ratio_of_squared_residuals():
    """The ratio compares rows that were not drawn, which have larger residuals, with drawn rows."""
    rng = np.random.default_rng(4)
    n, n_boot, seed = 60, 12, 7
    table = {name: rng.integers(0, 12, n).astype(float) for name in "abc"}
    y = np.sin(table["a"]) + rng.normal(size=n)
    model = cb.fit(table, y, n_iter=200, optimizer=cb.Plain(0.3))
    bands = model.with_bands(table, y, n_boot=n_boot, longer=2.0, random_state=seed).bands
    data = read_data(FitInput(table, y), as_loss("squared"), 0)
    seeds = np.random.SeedSequence(seed).generate_state(n_boot, np.uint64).tolist()
    ratios = []
    for k, one in enumerate(seeds):
        counts = draw_counts(data, one)
        start = np.average(y, weights=counts)
        squares = (y - scores(model, bands, table, k, start)) ** 2
        drawn = np.average(squares, weights=counts)
        ratios.append(squares[counts == 0].mean() / drawn)
    assert np.mean(ratios) > 1.5  # far enough from 1 to tell exponents apart
    assert bands.inflation == pytest.approx(np.mean(ratios) ** (1 / 6), rel=1e-4)


def test_intervals_of_shares_count_rows_by_their_effective_number():
    """Wilson's interval for n = (sum w)^2 / sum w^2 rows; unequal weights make this n smaller."""
    rng = np.random.default_rng(2)
    n = 400
    table = {"g": rng.choice(["a", "b"], n)}
    y = rng.uniform(size=n) < np.where(table["g"] == "a", 0.2, 0.7)
    w = rng.exponential(size=n) ** 2
    model = cb.fit(table, y, loss="binomial", weights=w, n_iter=50)
    found = calibration(evaluate_rows(model, read(table), y, weights=w))
    z = norm.ppf(0.975)
    assert len(found["observed"]) == 2
    for k, level in enumerate("ab"):  # in the order of their predictions
        rows = table["g"] == level
        p = np.average(y[rows], weights=w[rows])
        size = w[rows].sum() ** 2 / (w[rows] ** 2).sum()
        assert size < 0.5 * rows.sum()
        middle = (p + z**2 / (2 * size)) / (1 + z**2 / size)
        half = z * np.sqrt(p * (1 - p) / size + z**2 / (4 * size**2)) / (1 + z**2 / size)
        assert found["observed"][k] == pytest.approx(p)
        assert found["low"][k] == pytest.approx(middle - half, rel=1e-3)
        assert found["high"][k] == pytest.approx(middle + half, rel=1e-3)


def test_divergence_is_reported_once_a_tenth_of_the_fall_of_the_risk_is_lost():
    """Accelerated diverges; the warning starts when the risk regains a tenth of its fall."""
    rng = np.random.default_rng(0)
    table = {"a": rng.uniform(-1, 1, 200), "b": rng.uniform(-1, 1, 200)}
    y = np.sin(3 * table["a"]) + 0.3 * rng.normal(size=200)
    options = {"optimizer": cb.Accelerated(0.1, 0.3)}

    def fit(n_iter):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = cb.fit(table, y, n_iter=n_iter, **options)
        return model, any("diverges" in str(w.message) for w in caught)

    risk = fit(400)[0].risk
    least = np.minimum.accumulate(risk)
    lost = np.divide(risk - least, risk[0] - least, out=np.zeros_like(risk), where=risk[0] > least)
    first = int(np.argmax(lost > 0.1))
    assert lost[first - 1] < 0.1 < lost[first] < 0.4
    assert not fit(first - 1)[1]
    assert fit(first)[1]


@pytest.mark.parametrize("search", ["full", "certified", "row-free"])
@pytest.mark.parametrize("seed", range(5))
def test_gains_that_differ_by_less_than_a_billionth_tie(search, seed):
    """The first listed of two learners wins unless the other gain is larger by a relative 1e-9."""
    rng = np.random.default_rng(seed)
    n = 300
    x = rng.normal(size=n)
    x -= x.mean()
    z = rng.normal(size=n)
    z -= z.mean() + (z @ x) / (x @ x) * x
    z *= np.linalg.norm(x) / np.linalg.norm(z)
    for less, first in ((3e-10, "near"), (3e-9, "exact")):
        # The squared correlation of `near` with y is 1 / (1 + less).
        table = {"near": x + np.sqrt(less) * z, "exact": x}
        learners = [cb.Linear("near", intercept=False), cb.Linear("exact", intercept=False)]
        model = cb.fit(table, 5 + 2 * x, learners, n_iter=3, optimizer=cb.Plain(0.1), search=search)
        assert model.choices[0] == first


@pytest.mark.filterwarnings("ignore:the fit diverges:RuntimeWarning")
@pytest.mark.parametrize(
    ("size", "rate", "momentum"), [(3, 2.0, 0.05), (1000, 1.0, 0.001)], ids=["finite", "infinite"]
)
def test_momentum_after_halved_steps(size, rate, momentum):
    """A step that makes the risk jump is halved; the correction c then restarts at r."""
    x = np.linspace(-1.0, 1.0, 40)
    y = np.round(size * np.exp(x))
    model = cb.fit(
        {"x": x}, y, [cb.Linear("x", smoothing=0.0)], loss="poisson", scale=1.0, start=1.0,
        optimizer=cb.Accelerated(rate, momentum), n_iter=8,
    )  # fmt: skip
    halvings = model.path.halvings
    assert halvings[:4].any()
    line = np.column_stack([np.ones(40), x])
    project = line @ np.linalg.pinv(line)
    f = h = np.ones(40)
    c = np.zeros(40)
    for m in range(1, 9):
        v = 2 / (m + 1)
        g = (1 - v) * f + v * h
        r = y - np.exp(g)
        restarts = m == 1 or halvings[m - 2] > 0
        c = r if restarts else r + m / (m + 1) * (c - project @ c)
        f = g + rate * 0.5 ** halvings[m - 1] * project @ r
        h = h + momentum * rate / v * project @ c
        score = model.at(m).predict({"x": x}, kind="score")
        np.testing.assert_allclose(score, f, rtol=1e-8, atol=1e-8)
