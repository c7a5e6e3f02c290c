"""H1: binning saves time and memory.

The paper compares compboost with and without binning. Here "no binning" is bins="exact". Two
searches are timed: "full", which evaluates every learner in every iteration as the paper's
algorithm does, and "auto", the default.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import cwboost as cb
from benchmarks.process import Memory

from . import simulated, style
from .found import Finding, Table, listed, number
from .simulated import configurations, cost, draw, splines

if TYPE_CHECKING:
    import pandas as pd

TITLE = "H1: binning saves time and memory"
CAPTION = (
    "Memory that a fit adds (left) and seconds of its iterations (middle: every learner "
    "evaluated in every iteration; right: the default search), without binning divided by with "
    "binning. Above the dashed line, binning is better. A point is a median over the draws and "
    "configurations with the same number of columns; crosses are the paper's medians over all "
    "columns."
)
DEVIATIONS = (
    "The paper's text says 200 iterations, its code ran 2000 for time and 200 for memory; here "
    "the full search runs 200, the default search 2000, and memory is measured with 200.",
    "The signal to noise ratio is 1 (the paper: 0.1, 1 and 10). It does not change the work of the "
    "full search or the memory.",
    "Time is the time of the iterations without set-up, as in the paper's figure; the median of "
    "three fits for each of five draws.",
    "Memory is the growth of the process's peak during the fit, in a process that returns freed "
    "memory at once, for three draws; the paper counted allocations of the whole process with "
    "valgrind.",
    "The paper's figure leaves out speed-ups below 2 and above 10; here all are shown.",
)
NEEDS_DATA, KEEPS, PARALLEL_KINDS = False, (), ("memory",)

PAPER_SPEED = {5_000: 3.98, 10_000: 4.30, 20_000: 5.05, 50_000: 5.60, 100_000: 5.74}
PAPER_MEMORY = {5_000: 1.19, 10_000: 1.38, 20_000: 2.43, 50_000: 3.31, 100_000: 3.73}
PAPER_SECONDS = {(5_000, 10): (5.5, 1.5), (100_000, 10): (121, 20.9), (100_000, 300): (3440, 620)}
BINS = {"no binning": "exact", "binning": "sqrt"}
N_ITER = {"full": 200, "auto": 2000}  # by search
FEW = {"full": 10, "auto": 20}
GRIDS: dict[str, dict[str, Any]] = {
    "tiny": {"n": (200, 400), "p": (2,), "relative": (0.5,), "snr": (1.0,)},
    "small": {"n": (5_000, 20_000, 100_000), "p": (5, 20), "relative": (1.0, 2.0), "snr": (1.0,)},
    "page": {"n": simulated.N, "p": simulated.P, "relative": simulated.RELATIVE, "snr": (1.0,)},
    "paper": {},
}
DRAWS = {"tiny": 1, "small": 1, "page": 5, "paper": simulated.DRAWS}
MEMORY_DRAWS = 3
TWO_BYTES = 257**2  # rows; more than 256 bins, whose numbers take two bytes


def tasks(scale: str) -> list[dict[str, Any]]:
    every = configurations(**GRIDS[scale])
    n_iter = FEW if scale == "tiny" else N_ITER
    times = [{"kind": "time", **c, "draws": DRAWS[scale], "n_iter": n_iter} for c in every]
    memory = product(every, BINS, range(min(MEMORY_DRAWS, DRAWS[scale])))
    return times + [{"kind": "memory", **c, "bins": b, "draw": k} for c, b, k in memory]


def fit(data: simulated.Draw, bins: str, search: str, n_iter: int) -> cb.Model:
    return cb.fit(
        data.table,
        data.y,
        splines(data.table),
        optimizer=cb.Plain(simulated.RATE),
        n_iter=n_iter,
        bins=BINS[bins],
        n_threads=1,
        search=search,
    )


def run(kind: str, **task: Any) -> Any:
    return {"time": times, "memory": memory}[kind](**task)


def times(draws: int, n_iter: dict[str, int], **task: Any) -> list[dict[str, Any]]:
    rows = []
    for repeat in range(draws):
        data = draw(**task, draw=repeat)
        for search, bins in product(N_ITER, BINS):
            same = {"draw": repeat, "bins": bins, "search": search, "columns": len(data.table)}
            rows.append(same | cost(partial(fit, data, bins, search), n_iter[search]))
    return rows


def memory(bins: str, **task: Any) -> dict[str, Any]:
    fit(draw(200, 2, 1.0, 1.0), bins, "auto", 5)  # one-time loading is not measured
    data = draw(**task)
    before = Memory()
    fit(data, bins, "auto", N_ITER["full"])
    return {"columns": len(data.table), "megabytes": before.added()}


# --- what was found -------------------------------------------------------------------------------


def ratios(results: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return the ratios of figures without and with binning, by n and number of columns."""
    keys = [name for name in ("search", "n", "p", "relative", "snr", "columns", "draw")
            if results[name].notna().all()]  # fmt: skip
    wide = results.set_index([*keys, "bins"])[value].astype(float).unstack().reset_index()
    return wide.assign(ratio=wide["no binning"] / wide["binning"].where(wide["binning"] > 0))


def parts(results: pd.DataFrame) -> dict[str, pd.DataFrame]:
    timed = ratios(results[results.kind == "time"], "loop")
    found = {search: timed[timed.search == search] for search in N_ITER}
    return {"memory": ratios(results[results.kind == "memory"], "megabytes"), **found}


def figure(results: pd.DataFrame) -> Any:
    titles = {
        "memory": ("Memory savings", "equal memory"),
        "full": ("Speed-up, all learners evaluated", "equal time"),
        "auto": ("Speed-up, default search", "equal time"),
    }
    with style.style():
        drawing, axes = style.panels(1, 3)
        shades = style.colours(sorted(results["columns"].unique()))
        for panel, (name, found) in zip(axes[0], parts(results).items(), strict=True):
            for columns, of in found.groupby("columns"):
                middle = of.groupby("n").ratio.median()
                label = f"{columns:.0f} columns"
                panel.plot(middle.index, middle, "o-", color=shades[columns], label=label)
            title, text = titles[name]
            panel.set(xscale="log", xlabel="rows (log scale)", title=title)
            style.log_ticks(panel.xaxis, sorted(results.n.unique()))
            told = {"memory": PAPER_MEMORY, "full": PAPER_SPEED}.get(name, {})
            paper = {n: told[n] for n in sorted(results.n.unique()) if n in told}
            panel.plot(list(paper), list(paper.values()), "x", color="black", label="the paper")
            panel.set_ylim(bottom=0)
            style.equal_line(panel, 1, text)
        axes[0, 0].set_ylabel("no binning / binning")
        drawing.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=8
        )
    return drawing


def table(results: pd.DataFrame) -> Finding:
    found = parts(results)
    middle = {name: of.groupby("n").ratio.median() for name, of in found.items()}
    rows = [
        [f"{n:,}", PAPER_SPEED.get(n), middle["full"].get(n), middle["auto"].get(n),
         PAPER_MEMORY.get(n), middle["memory"].get(n)]
        for n in sorted(results.n.unique())
    ]  # fmt: skip
    head = ["rows", "speed-up, paper", "here, all evaluated", "here, default"]
    head += ["memory ratio, paper", "here"]
    last = results.n.max()
    full, auto = middle["full"], middle["auto"]
    saved = middle["memory"].get(last, np.nan)
    why = (
        f"With {last:,} rows binning makes the iterations {listed([full[last]])} times as fast if "
        f"every learner is evaluated and {listed([auto[last]])} times with the default search, and "
        f"the fit without it adds {listed([saved])} times the memory. {growth(middle['memory'])}"
    )
    ratio = middle["memory"].reindex(list(PAPER_MEMORY))
    figures = {
        "time": list(full.reindex(list(PAPER_SPEED))),
        "memory": list(ratio),
        "growth": [ratio.iloc[-1] / ratio.iloc[0]],
        "most_memory": [found["memory"].ratio.max()],
    }
    return Finding(figures, why, [Table(head, rows), *absolute(results)])


def growth(saved: pd.Series) -> str:
    """Return in words how the ratio of memory changes with n, compared with the paper's."""
    saved = saved.dropna()  # of fits so small that they add no memory
    if saved.empty:
        return ""
    first, *_, last = PAPER_MEMORY.values()
    most = saved.idxmax()
    here = f"is {number(saved.iloc[0])} with {saved.index[0]:,} rows"
    if most not in saved.index[[0, -1]]:
        here += f", {number(saved[most])} with {most:,}"
    here += f" and {number(saved.iloc[-1])} with {saved.index[-1]:,}"
    if most < TWO_BYTES <= saved.index[-1]:
        here += (
            f" (from {TWO_BYTES:,} rows on there are more than 256 bins, and the number of a bin "
            "takes two bytes instead of one)"
        )
    return f"That ratio {here}; the paper's grows from {first:g} to {last:g}."


def absolute(results: pd.DataFrame) -> list[Table]:
    """Return the seconds of the iterations for which the paper has raw results."""
    timed = results[(results.kind == "time") & (results.search == "auto")]
    rows = []
    for (n, columns), (without, with_bins) in PAPER_SECONDS.items():
        here = timed[(timed.n == n) & (timed["columns"] == columns)].groupby("bins").loop.median()
        if len(here):
            rows.append(
                [f"{n:,}", str(columns), without, here["no binning"], with_bins, here["binning"]]
            )
    head = ["rows", "columns", "no binning, paper, s", "here, s", "binning, paper, s", "here, s"]
    title = (
        "Seconds of 2000 iterations, the paper's on its own machine, here by the default search "
        "on one thread"
    )
    return [Table(head, rows, title)] if rows else []
