"""Coverage of effect bands and of prediction intervals on simulated data; see docs/uncertainty.md.

    python -m benchmarks.coverage bands 1000 squared 100
    python -m benchmarks.coverage polished 2000 poisson 100
    python -m benchmarks.coverage intervals 500 100

Prints the rows of the tables, updated after every ten data sets.
"""

from __future__ import annotations

import sys

import numpy as np

import cwboost as cb
from cwboost.fitting.input_data import Split
from cwboost.fitting.preparation import prepare
from cwboost.fitting.problem import FitProblem

TRUTHS = {
    "sine": lambda x: np.sin(2 * np.pi * x),
    "parabola": lambda x: 6 * (x - 0.5) ** 2,
    "line": lambda x: 1.5 * x,
    "peak": lambda x: 1.2 * np.exp(-(((x - 0.5) / 0.12) ** 2)),
    "nothing": lambda x: 0.0 * x,
}
LONGER = (1, 2, 4, 8)
RATE = 0.5


def simulate(n, loss, rng):
    table = {name: rng.uniform(size=n) for name in TRUTHS}
    score = sum(f(table[name]) for name, f in TRUTHS.items()) - 1.8
    if loss == "binomial":
        return table, rng.uniform(size=n) < 1 / (1 + np.exp(-score))
    return table, score + rng.normal(0, np.sqrt(1.1), n)  # as much noise as signal


def best_iteration(table, y, loss, rng):
    """Return the best iteration by five-fold cross-validation."""
    binned, fold = prepare(table, y, loss=loss), rng.permutation(len(y)) % 5
    one = np.ones(len(y))
    risks = []
    for k in range(5):
        split = Split(np.where(fold == k, 0.0, one), np.where(fold == k, one, 0.0), one)
        risks.append(FitProblem.pose(binned, split, cb.Plain(RATE)).fit(200).validation_risk)
    return max(1, int(np.argmin(np.mean(risks, axis=0))))


def held(model, table, kind):
    """Return, per true effect, whether each point is inside the band, and the mean width of the
    band."""
    out = []
    for name, truth in TRUTHS.items():
        band = model.band(name, 60, kind=kind)
        true = truth(band[name]) - truth(table[name]).mean()
        out.append(
            ((band["lower"] <= true) & (true <= band["upper"]), band["upper"] - band["lower"])
        )
    return [inside for inside, _ in out], [float(width.mean()) for _, width in out]


def bands(n, loss, sims, nested=False):
    found = {(longer, kind): [] for longer in LONGER for kind in ("pointwise", "simultaneous")}
    widths = {key: [] for key in found}
    for s in range(sims):
        rng = np.random.default_rng(s)
        table, y = simulate(n, loss, rng)
        m = best_iteration(table, y, loss, rng)
        model = cb.fit(table, y, loss=loss, optimizer=cb.Plain(RATE), n_iter=m)
        for longer in LONGER:
            made = model.with_bands(table, y, longer=longer, nested=nested, n_threads=1)
            for kind in ("pointwise", "simultaneous"):
                inside, wide = held(made, table, kind)
                rate = np.mean if kind == "pointwise" else np.all
                found[longer, kind].append([float(rate(x)) for x in inside])
                widths[longer, kind].append(wide)
        if s % 10 == 9:
            print(f"n={n} {loss} nested={nested}, {s + 1} data sets: {', '.join(TRUTHS)}, all")
            for key, rows in found.items():
                mean = np.mean(rows, axis=0)
                shown = " ".join(f"{v:.3f}" for v in (*mean, mean.mean()))
                print(*key, shown, f"width {np.mean(widths[key]):.3f}", flush=True)


# The effects of `polished`; seven more columns do not have any.
EFFECTS = {"x0": lambda x: np.sin(2 * x), "x1": lambda x: x**2 / 2, "x2": lambda x: -x}
NOISE_COLUMNS = [f"x{j}" for j in range(3, 10)]
FACTOR = {"squared": 1.0, "binomial": 1.0, "poisson": 0.5}


def polished(n, loss, sims):
    """Print the coverage of Bayesian bands of the default estimators, per true effect, and for the
    columns without an effect.

    The rows of a table are the points of a band, so that coverage is the average over the function.
    An effect that was not chosen does not have a band: a miss if it is true.
    """
    found = {"pointwise": [], "simultaneous": []}
    for s in range(sims):
        rng = np.random.default_rng(10_000 + s)
        table = {name: rng.uniform(-2, 2, n) for name in [*EFFECTS, *NOISE_COLUMNS]}
        effects = {name: FACTOR[loss] * f(table[name]) for name, f in EFFECTS.items()}
        score = sum(effects.values())
        if loss == "binomial":
            y = rng.uniform(size=n) < 1 / (1 + np.exp(-score))
            fitted = cb.CWBClassifier(polish=True, n_jobs=1).fit(table, y)
        else:
            y = rng.poisson(np.exp(score)) if loss == "poisson" else score + rng.normal(size=n)
            fitted = cb.CWBRegressor(loss, polish=True, n_jobs=1).fit(table, y)
        for kind, rows in found.items():
            rows.append(_coverage(fitted.model_, table, effects, kind))
        if s % 10 == 9:
            print(f"n={n} {loss}, {s + 1} data sets: sine, parabola, line, noise columns")
            for kind, rows in found.items():
                print(kind, *(f"{v:.3f}" for v in np.mean(rows, axis=0)), flush=True)


def _coverage(model, table, effects, kind):
    out = []
    for name, column in table.items():
        true = effects.get(name, np.zeros(len(column)))
        if name not in model.polish.factors:
            out.append(float(name not in effects))
            continue
        band = model.band(name, 100, kind=kind)
        lower, upper = (np.interp(column, band[name], band[end]) for end in ("lower", "upper"))
        inside = (lower <= true - true.mean()) & (true - true.mean() <= upper)
        out.append(float(inside.mean() if kind == "pointwise" else inside.all()))
    return [*out[: len(EFFECTS)], float(np.mean(out[len(EFFECTS) :]))]


def intervals(n, sims, level=0.9):
    found = {}
    for s in range(sims):
        rng = np.random.default_rng(s)
        table, y = uneven(n, rng)
        new, truth = uneven(2000, rng)
        model = cb.fit(table, y, n_iter=60)
        average = cb.fit(table, y, n_iter=150, bags=16)
        for kind in ("cv+", "split", "cqr", "quantiles", "bags"):
            base = average if kind == "bags" else model
            ends = base.intervals(table, y, kind=kind, level=level, n_threads=1).predict(new)
            inside = (ends["lower"] <= truth) & (truth <= ends["upper"])
            loud = new["x"] > 0.8
            row = inside.mean(), inside[loud].mean(), np.mean(ends["upper"] - ends["lower"])
            found.setdefault(kind, []).append(row)
        if s % 10 == 9:
            print(f"n={n}, {s + 1} data sets: coverage, coverage where y varies most, width")
            for kind, rows in found.items():
                print(kind, np.mean(rows, axis=0).round(3), flush=True)


def uneven(n, rng):
    """Simulate rows whose y varies more where x is larger."""
    table = {"x": rng.uniform(size=n), "z": rng.normal(size=n)}
    return table, np.sin(6 * table["x"]) + rng.normal(size=n) * (0.2 + 0.8 * table["x"])


if __name__ == "__main__":
    if sys.argv[1] == "bands":
        bands(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), "nested" in sys.argv)
    elif sys.argv[1] == "polished":
        polished(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        intervals(int(sys.argv[2]), int(sys.argv[3]))
