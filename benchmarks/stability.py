"""Does stability selection keep its bound, and what does it find? Simulated columns, known truth.

200 rows, 100 columns, standard normal: independent, or with correlation 0.7 or 0.9 between
neighbours. Six columns have effects of different shape and strength; noise N(0, 1). Every fit
chooses q = 7 columns, and the fits are evaluated at all cutoffs. Prints Markdown tables and draws
docs/_static/stability.svg:

    python benchmarks/stability.py
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import cwboost as cb
from cwboost.selection.stability_bounds import error_rate

EFFECTS = {
    "x4": lambda x: 0.8 * x,
    "x12": lambda x: np.sin(2 * x),
    "x20": lambda x: 0.4 * x**2,
    "x28": lambda x: -0.5 * x,
    "x36": lambda x: 0.6 * (x > 0),
    "x44": lambda x: 0.25 * x,
}
COLUMNS, ROWS, Q, PAIRS = 100, 200, 7, 50
ASSUMPTIONS = ("none", "unimodal", "r-concave")
DESIGNS = {"independent": 0.0, "correlation 0.7": 0.7, "correlation 0.9": 0.9}


def draw(seed, correlation):
    """Return columns whose neighbours are correlated (an autoregression), and y."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(COLUMNS, ROWS))
    columns = [noise[0]]
    for fresh in noise[1:]:
        columns.append(correlation * columns[-1] + np.sqrt(1 - correlation**2) * fresh)
    table = {f"x{k}": column for k, column in enumerate(columns)}
    score = np.sum([effect(table[name]) for name, effect in EFFECTS.items()], axis=0)
    return table, score + rng.normal(size=ROWS)


def count(names):
    """Return how many of the columns have an effect, and how many do not."""
    found = len(set(names) & set(EFFECTS))
    return found, len(names) - found


def cutoffs(assumption):
    """Return cutoffs and bounds, from just above one half to all fits."""
    shares = np.arange(PAIRS + 1, 2 * PAIRS + 1) / (2 * PAIRS)
    return [(s, error_rate(COLUMNS, Q, s, assumption=assumption, n_samples=PAIRS)) for s in shares]


def stable(draws, correlation, progress=None):
    """Return (draws, cutoffs, 2) numbers of columns found with and without an effect."""
    out = []
    for seed in range(draws):
        found = cb.stability(*draw(seed, correlation), q=Q, cutoff=0.9, progress=progress)
        out.append([count(replace(found, cutoff=s).selected) for s, _ in cutoffs("none")])
    return np.array(out)


def others(draws, correlation):
    """Return the same for other selection methods: name -> (draws, 2)."""
    out = {}
    for seed in range(draws):
        table, y = draw(seed, correlation)
        early = cb.fit(table, y, validation=0.25, n_iter=1000, random_state=seed)
        ways = {
            "early stopping": set(early.choices[: early.best_iteration]),
            "deselection": list(cb.deselect(early, table, y).terms),
            "probing": cb.probe(table, y, random_state=seed).selected,
            "probing, 20 repeats": cb.probe(table, y, random_state=seed, repeats=20).selected,
        }
        for name, columns in ways.items():
            out.setdefault(name, []).append(count(columns))
    return {name: np.array(found) for name, found in out.items()}


def rows(found):
    """Return lines of the table: assumption, PFER, cutoff, bound; then the columns found."""
    for assumption in ASSUMPTIONS:
        for pfer in (1.0, 0.5):
            k, (cutoff, bound) = next(
                (k, pair) for k, pair in enumerate(cutoffs(assumption)) if pair[1] <= pfer
            )
            cells = [f"{f[:, k, 1].mean():.2f} | {f[:, k, 0].mean():.2f}" for f in found.values()]
            line = [assumption, f"{pfer:g}", f"{cutoff:.2f}", f"{bound:.2f}", *cells]
            yield "| " + " | ".join(line) + " |"


def draw_figure(found, file):
    import matplotlib as mpl

    mpl.use("agg")
    mpl.rcParams["svg.hashsalt"] = "cwboost"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    colours = {"none": "#000000", "unimodal": "#0072B2", "r-concave": "#D55E00"}
    dashes = dict(zip(found, ("-", "--", ":"), strict=True))
    for design, counts in found.items():
        for assumption, colour in colours.items():
            bound = [b for _, b in cutoffs(assumption)]
            for ax, side in zip(axes, (1, 0), strict=True):
                label = f"{assumption}, {design}" if side else None
                mean = counts[:, :, side].mean(axis=0)
                ax.plot(bound, mean, dashes[design], color=colour, lw=1.5, label=label)
    axes[0].plot([0, 3], [0, 3], color="0.6", lw=0.8)
    axes[0].annotate("the bound", (1.05, 1.05), (-4, 4), textcoords="offset points",
                     ha="right", color="0.4", fontsize=9)  # fmt: skip
    axes[0].set(xlim=(0, 3), ylim=(0, 1.2), ylabel="selected without an effect, mean")
    axes[1].set(xlim=(0, 3), ylim=(0, 6), ylabel="selected with an effect, mean of 6")
    for ax in axes:
        ax.set_xlabel("bound of the error rate (PFER)")
        ax.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right", frameon=False,
                  fontsize=8)  # fmt: skip
    figure.savefig(file, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=100)
    figure = Path(__file__).parents[1] / "docs" / "_static" / "stability.svg"
    parser.add_argument("--figure", type=Path, default=figure)
    arguments = parser.parse_args()
    found = {name: stable(arguments.draws, c) for name, c in DESIGNS.items()}
    print(
        f"Columns selected, mean of {arguments.draws} draws (of {len(EFFECTS)} with an effect):\n"
    )
    names = "".join(f" {name}: none | effect |" for name in found)
    print("| assumption | PFER | cutoff | bound |" + names)
    print("|---|--:|--:|--:|" + "--:|--:|" * len(found))
    print(*rows(found), sep="\n")
    print("\n| |" + names + "\n|---|" + "--:|--:|" * len(found))
    ways = [others(arguments.draws, c) for c in DESIGNS.values()]
    for way in ways[0]:
        cells = [f"{w[way][:, 1].mean():.2f} | {w[way][:, 0].mean():.2f}" for w in ways]
        print(f"| {way} | " + " | ".join(cells) + " |")
    draw_figure(found, arguments.figure)


if __name__ == "__main__":
    main()
