"""The cost and the benefit of merging numbers into bins, per binning rule.

Prints Markdown tables: the gap between risks at the bins and at the raw values, the error of curves
with outliers and with skewed columns, the number of bins and the time of a fit.

    python benchmarks/bins.py
"""

import argparse
import time

import numpy as np
from scipy.interpolate import BSpline

import cwboost as cb

RULES = {
    "exact": cb.Bins("exact"),
    "auto": cb.Bins("auto"),
    "sqrt": cb.Bins("sqrt"),
    "root4": cb.Bins("root4"),
    "sqrt quantiles": cb.Bins("sqrt", "quantile"),
    "1024 quantiles": cb.Bins(1024, "quantile"),
}


def print_table(title, head, rows):
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|---|" + "--:|" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


# --- risk at the bins and at the values -----------------------------------------------------------


def simulate(rng, n, snr, n_columns=4):
    """Return uniform columns with random spline effects (10 basis functions, coef N(0, 9))."""
    knots = np.arange(-3, 11) / 7
    table = {f"x{j}": rng.uniform(size=n) for j in range(n_columns)}
    signal = sum(BSpline(knots, rng.normal(0, 3, 10), 3)(column) for column in table.values())
    return table, signal + rng.normal(0, signal.std() / snr, n)


def risk_gap(rule, n, snr, seed):
    """Return the relative difference of the training risks at the raw values and at the bins."""
    table, y = simulate(np.random.default_rng(seed), n, snr)
    model = cb.fit(table, y, n_iter=500, bins=rule)
    at_values = np.mean((y - model.predict(table)) ** 2) / 2
    return abs(at_values / model.risk[-1] - 1)


def risk_gaps(seeds):
    cases = [(n, snr) for snr in (1, 3) for n in (200, 1000, 10_000)]
    rows = []
    for name, rule in RULES.items():
        gaps = [np.mean([risk_gap(rule, n, snr, s) for s in range(seeds)]) for n, snr in cases]
        rows.append([name, *(f"{100 * gap:.2f}%" for gap in gaps)])
    head = ["bins", *(f"n = {n}, SNR {snr}" for n, snr in cases)]
    print_table("Training risk at the raw values and at the bins, relative difference:", head, rows)


# --- curves ---------------------------------------------------------------------------------------


def with_outliers(distance):
    def draw(rng, n):
        x = rng.normal(size=n)
        x[:5] = distance  # five rows, independent of n
        return x, lambda x: np.sin(2 * np.clip(x, -3, 3))

    return draw


def student(rng, n):
    return rng.standard_t(2, size=n), lambda x: np.sin(2 * np.arcsinh(x))


def lognormal(rng, n):
    return np.exp(1.5 * rng.normal(size=n)), lambda x: np.sin(1.5 * np.log(x))


def exponential(rng, n):
    return rng.exponential(size=n), lambda x: np.sin(2 * x)


def curve_error(rule, knots, draw, n, seed):
    """Return the RMS error of the estimated effect over rows less than 4 sd from the median."""
    rng = np.random.default_rng(seed)
    x, effect = draw(rng, n)
    y = effect(x) + rng.normal(0, 0.5, n)
    learner = cb.Spline("x", knot_placement=knots)
    model = cb.fit({"x": x}, y, [learner], n_iter=300, bins=rule)
    spread = np.subtract(*np.quantile(x, [0.75, 0.25])) / 1.349
    inside = np.abs(x - np.median(x)) < 4 * spread
    error = (model.predict({"x": x}) - effect(x))[inside]
    return np.sqrt(np.mean(error**2))


def curve_errors(title, draws, seeds):
    for n in (500, 5000):
        rows = []
        for name, rule in RULES.items():
            cells = [
                np.mean([curve_error(rule, knots, draw, n, s) for s in range(seeds)])
                for knots in ("uniform", "quantile")
                for draw in draws.values()
            ]
            rows.append([name, *(f"{cell:.3f}" for cell in cells)])
        head = [f"{label}, {knots}" for knots in ("uniform", "quantile") for label in draws]
        print_table(f"{title}, by knots, n = {n}:", ["bins", *head], rows)


# --- size and time --------------------------------------------------------------------------------


def sizes_and_times():
    rows = []
    for name, rule in RULES.items():
        cells = []
        for n in (10_000, 100_000):
            table, y = simulate(np.random.default_rng(0), n, 1, n_columns=10)
            points = len(rule.make(table["x0"]).points)
            seconds = []
            for _ in range(3):
                began = time.perf_counter()
                cb.fit(table, y, bins=rule, n_iter=200, n_threads=1)
                seconds.append(time.perf_counter() - began)
            cells += [f"{points}", f"{min(seconds):.3f} s"]
        rows.append([name, *cells])
    head = ["bins", "points, n = 10,000", "time", "points, n = 100,000", "time"]
    print_table("Bins per column and the time of a fit (10 columns, 200 iterations, one thread, "
                "set-up included, best of three):", head, rows)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = parser.parse_args().seeds
    risk_gaps(seeds)
    outliers = {f"{d} sd": with_outliers(d) for d in (4, 16, 64)}
    curve_errors("Error of the curve, five outliers", outliers, seeds)
    others = {"t(2)": student, "lognormal": lognormal, "exponential": exponential}
    curve_errors("Error of the curve, heavy tails and skew", others, seeds)
    sizes_and_times()


if __name__ == "__main__":
    main()
