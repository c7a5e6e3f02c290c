"""Categories: one ridge learner per column, or one binary learner per level.

Compares time and memory of both, the levels that they leave out, and the errors of their
parameters, also if small parameters of the ridge are cut off.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import cwboost as cb
from benchmarks.process import Memory
from benchmarks.simulate import noisy

from . import simulated, style
from .found import Finding, Table, listed, number
from .simulated import cost, grid

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Categories: ridge or binary"
CAPTION = (
    "Top: seconds of 2000 iterations and memory added with 100 columns, crosses from the paper's "
    "machine; share of levels without effect that were left out (TNR) against the share of levels "
    "with an effect that were left out (FNR); a point is the median over the draws of one "
    "configuration, and the best position is top left. Bottom: MSE of the parameters, crosses the "
    "paper's medians; a whisker that reaches the lower edge ends at zero."
)
DEVIATIONS = (
    "The paper's code gave the ridge learner no penalty (its df was not read); the ridge here is "
    "fitted without penalty for comparison, and with cwboost's default df.",
    "The noise-free risk stops the fits as in H2. Fits have at most 20,000 iterations, 2000 "
    "where time and 200 where memory is measured.",
    "Memory is the growth of the process's peak during the fit, in a process that returns freed "
    "memory at once.",
    "Time and memory are for 20,000 and 100,000 rows, 20 and 100 columns, half of them with an "
    "effect, signal to noise 1, one draw.",
    "Draws of one configuration share columns and effects and differ in their noise, so medians "
    "are based on fewer independent data sets than there are fits.",
)
NEEDS_DATA, KEEPS, PARALLEL_KINDS = False, (), ("choice", "memory")

PAPER_MSE = {"binary": (7.33, 0.38, 0.21), "ridge": (4.69, 0.86, 0.68)}  # by signal to noise
PAPER_COST = {  # n = 100,000, 100 columns: (seconds, MB)
    (5, "ridge"): (908, 331), (5, "binary"): (1304, 229),
    (20, "ridge"): (863, 336), (20, "binary"): (4685, 767),
}  # fmt: skip
CODINGS: dict[str, dict[str, Any]] = {
    "ridge": {"smoothing": 0.0},
    "ridge, default df": {},
    "binary": {"kind": "binary"},
}
CUTS = (0.01, 0.5, 1.0)
ERRORS = {
    "mse": "all levels",
    "mse_without": "levels without effect",
    "mse_with": "levels with an effect",
}
FILLS = {
    "ridge": style.BLUE, "ridge, default df": style.SKY, "ridge cut at 0.01": style.GREEN,
    "ridge cut at 0.5": style.PURPLE, "ridge cut at 1": style.GREY, "binary": style.ORANGE,
}  # fmt: skip
LEVELS = (5, 10, 20)
GRIDS: dict[str, dict[str, Any]] = {
    "tiny": {"n": (300,), "p": (2,), "relative": (0.5,), "snr": (1.0,), "levels": (4,)},
    "small": {"n": (5_000, 20_000), "p": (5, 10), "relative": (1.0,), "snr": simulated.SNR,
              "levels": LEVELS},
    "page": {"n": (5_000, 20_000, 100_000), "p": (5, 20), "relative": (1.0,),
             "snr": simulated.SNR, "levels": LEVELS},
    "paper": {"n": simulated.N, "p": simulated.P, "relative": simulated.RELATIVE,
              "snr": simulated.SNR, "levels": LEVELS},
}  # fmt: skip
COSTS: dict[str, dict[str, Any]] = {
    "tiny": {"n": (300,), "p": (2,), "relative": (0.5,), "levels": (4, 6)},
    "small": {"n": (20_000, 100_000), "p": (10,), "relative": (1.0,), "levels": LEVELS},
    "page": {"n": (20_000, 100_000), "p": (10, 50), "relative": (1.0,), "levels": LEVELS},
    "paper": {"n": simulated.N, "p": simulated.P, "relative": (1.0,), "levels": LEVELS},
}
DRAWS = {"tiny": 2, "small": 1, "page": 3, "paper": simulated.DRAWS}
MOST, LONG, SHORT = 20_000, 2000, 200
LARGEST, WIDEST = 100_000, 100  # rows and columns of PAPER_COST


def tasks(scale: str) -> list[dict[str, Any]]:
    n_iter = 20 if scale == "tiny" else None
    draws, most = DRAWS[scale], n_iter or MOST
    chosen = [{"kind": "choice", **c, "draws": draws, "most": most} for c in grid(**GRIDS[scale])]
    times = [{"kind": "time", **c, "n_iter": n_iter or LONG} for c in grid(**COSTS[scale])]
    sizes = grid(**COSTS[scale], coding=CODINGS)
    return [*chosen, *times, *({"kind": "memory", **c, "n_iter": n_iter or SHORT} for c in sizes)]


class Draw(NamedTuple):
    table: dict[str, Any]
    eta: np.ndarray
    y: np.ndarray
    means: dict[str, np.ndarray]  # for the levels, by informative column


def draw(n: int, p: int, relative: float, snr: float, levels: int, draw: int = 0) -> Draw:
    """Return equally likely levels; half of the levels of an informative column have no effect, the
    others an effect from U[-10, 10]. Draws of one configuration differ in the noise."""
    import pandas as pd

    noise = int(p * relative)
    rng = np.random.default_rng([n, p, noise, levels])
    names = [f"L{k}" for k in range(levels)]
    codes = {f"x{j}": rng.integers(0, levels, n) for j in range(p + noise)}
    means = {}
    for name in list(codes)[:p]:
        means[name] = rng.uniform(-10, 10, levels)
        means[name][rng.permutation(levels)[: levels // 2]] = 0
    eta = np.sum([means[name][codes[name]] for name in means], axis=0)
    y = noisy(np.random.default_rng([draw, n, p, levels]), eta, snr)
    table = {name: pd.Categorical.from_codes(code, names) for name, code in codes.items()}
    return Draw(table, eta, y, means)


def fit(data: Draw, coding: str, n_iter: int, **settings: Any) -> cb.Model:
    learners = [cb.Category(name, **CODINGS[coding]) for name in data.table]
    optimizer = cb.Plain(simulated.RATE)
    return cb.fit(
        data.table, data.y, learners, optimizer=optimizer, n_iter=n_iter, n_threads=1, **settings
    )


def run(kind: str, **task: Any) -> Any:
    return {"choice": choices, "time": times, "memory": memory}[kind](**task)


def choices(draws: int, most: int, **task: Any) -> list[dict[str, Any]]:
    rows = []
    for repeat in range(draws):
        data = draw(**task, draw=repeat)
        for coding in CODINGS:
            model = fit(data, coding, most, validation=(data.table, data.eta))
            found = {"coding": coding, "draw": repeat, "iterations": model.best_iteration}
            estimates = parameters(model, data)
            rows.append({**found, **judge(estimates, data)})
            for cut in CUTS if coding == "ridge" else ():
                left = {k: np.where(abs(v) < cut, 0, v) for k, v in estimates.items()}
                rows.append({**found, "coding": f"ridge cut at {cut:g}", **judge(left, data)})
    return rows


def parameters(model: cb.Model, data: Draw) -> dict[str, np.ndarray]:
    """Return the parameters by column, for all levels in order; 0 where a level was left out."""
    out = {}
    for name, column in data.table.items():
        if name in model.terms:
            term = model.terms[name]  # levels are sorted as text: L10 before L2
            of = dict(zip(term.levels, term.coef, strict=True))
            out[name] = np.array([of.get(level, 0.0) for level in column.categories])
        else:
            terms = [model.terms[f"{name}={level}"] for level in column.categories]
            out[name] = np.array([term.coef[0] for term in terms])
    return out


def judge(estimates: dict[str, np.ndarray], data: Draw) -> dict[str, float]:
    """Return rates over the levels of informative columns, and errors over all columns as in the
    paper: parameters are compared as they are. `centred` compares them with mean zero per column.
    """
    truth = {name: data.means.get(name, np.zeros(len(e))) for name, e in estimates.items()}
    true, found = (
        np.concatenate([values[name] for name in data.means]) for values in (truth, estimates)
    )
    all_true, all_found = (np.concatenate(list(v.values())) for v in (truth, estimates))
    middle = [
        np.mean((t - t.mean() - estimates[k] + estimates[k].mean()) ** 2) for k, t in truth.items()
    ]
    square = (all_true - all_found) ** 2
    return {
        "tnr": float(np.mean(found[true == 0] == 0)),
        "fnr": float(np.mean(found[true != 0] == 0)),
        "mse": float(square.mean()),
        "mse_without": float(square[all_true == 0].mean()),
        "mse_with": float(square[all_true != 0].mean()),
        "mse_centred": float(np.mean(middle)),
    }


def times(n_iter: int, **task: Any) -> list[dict[str, Any]]:
    data = draw(**task, snr=1.0)
    return [{"coding": coding} | cost(partial(fit, data, coding), n_iter) for coding in CODINGS]


def memory(coding: str, n_iter: int, **task: Any) -> dict[str, Any]:
    fit(draw(300, 2, 1.0, 1.0, 3), coding, 5)  # one-time loading is not measured
    data = draw(**task, snr=1.0)
    before = Memory()
    fit(data, coding, n_iter)
    return {"megabytes": before.added()}


# --- what was found -------------------------------------------------------------------------------


def figure(results: pd.DataFrame) -> Any:
    chosen = results[results.kind == "choice"]
    costs = largest(results)
    costs = costs[costs.n == costs.n.max()]
    with style.style():
        drawing, axes = style.panels(2, 3, 3.1)
        for panel, kind, value, label in (
            (axes[0, 0], "time", "loop", "seconds of the iterations"),
            (axes[0, 1], "memory", "megabytes", "memory added, MB"),
        ):
            of = costs[costs.kind == kind]
            for coding, part in of.groupby("coding"):
                middle = part.groupby("levels")[value].median()
                panel.plot(middle.index, middle, "o-", color=FILLS[coding], label=coding)
            for (levels, coding), told in PAPER_COST.items():
                panel.plot(levels, told[kind == "memory"], "x", color=FILLS[coding], markersize=7)
            panel.set(xlabel="levels per column", ylabel=f"{label} (log scale)", yscale="log")
            panel.set_title(f"{of.n.max():,} rows, {sizes(of)} columns")
            panel.set_xticks(sorted(of.levels.unique()))
            panel.margins(y=0.12)
            style.plain_log(panel.yaxis)
        draw_rates(axes[0, 2], chosen)
        for panel, (value, title) in zip(axes[1], ERRORS.items(), strict=True):
            groups = {
                f"{snr:g}": {coding: part[value] for coding, part in of.groupby("coding")}
                for snr, of in chosen.groupby("snr")
            }
            style.boxes(panel, groups, FILLS)
            if value == "mse":
                told = [{coding: paper[simulated.SNR.index(float(snr))]
                         for coding, paper in PAPER_MSE.items()} for snr in groups]  # fmt: skip
                style.paper_marks(panel, told, FILLS)
            panel.set(yscale="log", xlabel="SNR", title=title)
            style.plain_log(panel.yaxis)
        axes[1, 0].set_ylabel("MSE of parameters (log scale)")
        style.key(drawing, FILLS, loc="outside upper center", ncols=6)
    return drawing


def draw_rates(panel: Any, chosen: pd.DataFrame) -> None:
    keys = ["coding", "n", "p", "relative", "snr", "levels"]
    middle = chosen.groupby(keys)[["tnr", "fnr"]].median().reset_index()
    marks = dict(zip(sorted(middle.snr.unique()), "o^s", strict=False))
    for (coding, snr), part in middle.groupby(["coding", "snr"]):
        panel.plot(part.fnr, part.tnr, marks[snr], color=FILLS[coding], alpha=0.7, markersize=5)
    shapes = [
        panel.plot([], [], mark, color="black", markersize=5, label=f"{snr:g}")[0]
        for snr, mark in marks.items()
    ]
    panel.legend(handles=shapes, title="signal to noise", fontsize=7.5, loc="lower right")
    panel.set(xlabel="FNR", ylabel="TNR", title="levels left out")
    panel.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))


def centred_ratio(middle: pd.DataFrame) -> str:
    """Return by signal to noise the ratio of the centred MSE of binary and ridge."""
    ratio = middle.loc["binary"].mse_centred / middle.loc["ridge"].mse_centred
    return " / ".join(map(number, ratio))


def table(results: pd.DataFrame) -> Finding:
    chosen = results[results.kind == "choice"]
    snrs = sorted(chosen.snr.unique())
    middle = chosen.groupby(["coding", "snr"])[["tnr", "fnr", "mse", "mse_centred"]].median()
    at = {snr: k for k, snr in enumerate(simulated.SNR)}
    rows = []
    for coding in FILLS:
        if coding in middle.index:
            here = middle.loc[coding]
            paper = PAPER_MSE.get(coding)
            told = ["" if paper is None else " / ".join(f"{paper[at[s]]:g}" for s in snrs)]
            rows.append([coding, *told, *(
                " / ".join(f"{here[name][s]:.2f}" for s in snrs)
                for name in ("mse", "mse_centred", "tnr", "fnr"))])  # fmt: skip
    noise = " / ".join(f"{s:g}" for s in snrs)
    head = ["learners", "MSE, paper", "MSE, here", "MSE, centred", "TNR, here", "FNR, here"]
    big = largest(results)
    time, used = by_size(big, "time", "loop"), by_size(big, "memory", "megabytes")
    last = time.index.max()
    width = sizes(big)
    costs_ratio, memory_ratio = time["binary"] / time["ridge"], used["binary"] / used["ridge"]
    kept, cut = middle.loc["ridge"], middle.loc["ridge cut at 0.5"]
    binary = middle.loc["binary"]
    changed = (cut.mse / kept.mse - 1).abs().max()
    why = (
        f"With {last[1]:.0f} levels, {width} columns and {last[0]:,} rows the binary learners take "
        f"{ratio(time, last)} times the time of the ridge, having {last[1]:.0f} learners per "
        f"column in place of one, and {as_much(ratio(used, last))} memory: both read the same "
        "codes of the levels. In the median the binary learners leave out "
        f"{listed(list(100 * binary.tnr), 2)}% of the levels without effect (by "
        f"signal to noise) and {listed(list(100 * binary.fnr), 2)}% of those with one, "
        f"{of_ridge(chosen)}. {order(middle, snrs)}Cutting the ridge at 0.5 changes its MSE by at "
        f"most {100 * changed:.0f}%. A fit estimates deviations from the mean of the column, but "
        "the true parameters are not centred. A level whose true parameter is zero therefore has "
        "an estimate that is not. This explains the MSE at signal to noise 10, and why many levels "
        "without effect are not left out. By the centred MSE, which corrects for this, binary / "
        "ridge is "
        f"{centred_ratio(middle)}."
    )
    lines = []
    for columns, of in results.groupby(n_columns(results)):
        time, used = by_size(of, "time", "loop"), by_size(of, "memory", "megabytes")
        lines += [
            [
                f"{n:,}",
                f"{columns:.0f}",
                f"{k:.0f}",
                *(x for coding in CODINGS for x in (time[coding][n, k], used[coding][n, k])),
            ]
            for n, k in time.index
        ]
    costs = [
        "rows",
        "columns",
        "levels",
        *(f"{coding}, {w}" for coding in CODINGS for w in ("s", "MB")),
    ]
    binary, ridge = middle.loc["binary"], middle.loc["ridge"]
    cuts = [middle.loc[f"ridge cut at {c:g}"] for c in CUTS]
    complete = binary.reindex(list(simulated.SNR))  # NaN where nothing was measured
    wide = n_columns(big).max() == WIDEST
    figures = {
        "time": [costs_ratio.get((LARGEST, k), np.nan) for k in (5, 20)] if wide else [],
        "memory": [memory_ratio.get((LARGEST, 20), np.nan)] if wide else [],
        "tnr": list(complete.tnr - ridge.tnr),
        "fnr": [(complete.fnr - ridge.fnr)[0.1]],
        "mse": list(complete.mse / ridge.mse),
        "cut_mse": [(c.mse / ridge.mse - 1).abs().max() for c in cuts],
        "cut_tnr": [x for c in cuts[1:] for x in (c.tnr - ridge.tnr).reindex(simulated.SNR)],
        "cut_fnr": [x for c in cuts[1:] for x in (c.fnr - ridge.fnr).reindex(simulated.SNR)],
    }
    return Finding(
        figures,
        why,
        [
            Table(
                head,
                rows,
                f"Medians by signal to noise {noise}; for the centred MSE the true "
                "and the estimated parameters each have mean zero within their column",
            ),
            Table(
                costs,
                lines,
                "Seconds of the iterations and memory added, half of the columns with an effect, "
                "here",
            ),
            *paper_costs(),
        ],
    )


def ratio(costs: pd.DataFrame, at: Any) -> str:
    """Return the figure of binary divided by the figure of ridge."""
    return number(costs["binary"][at] / costs["ridge"][at], 2) if costs["ridge"][at] else "?"


def as_much(times: str) -> str:
    return "as much" if times in ("1.0", "0.99", "1.00") else f"{times} times its"


def n_columns(results: pd.DataFrame) -> pd.Series:
    return results.p + (results.p * results.relative).astype(int)


def largest(results: pd.DataFrame) -> pd.DataFrame:
    """Return the time and memory of the tables with the most columns."""
    timed = results[results.kind.isin(["time", "memory"])]
    return timed[n_columns(timed) == n_columns(timed).max()]


def sizes(results: pd.DataFrame) -> str:
    """Return the numbers of columns of some fits."""
    return ", ".join(f"{k:.0f}" for k in sorted(n_columns(results).unique()))


def of_ridge(chosen: pd.DataFrame) -> str:
    """Return in words what the ridge leaves out, as median and mean."""
    ridge = chosen[chosen.coding == "ridge"].groupby("snr")[["tnr", "fnr"]]
    middle, mean = ridge.median().to_numpy(), ridge.mean()
    none = "none" if not middle.any() else f"up to {100 * middle.max():.0f}%"
    at = mean.max(axis=1).idxmax()
    if not mean.loc[at].max():
        return f"the ridge {none}, in no fit"
    shares = listed(list(100 * mean.loc[at]), 2)
    return (
        f"the ridge {none} (in the mean {shares}% at signal to noise {at:g}, where some columns "
        "are never chosen)"
    )


def order(middle: pd.DataFrame, snrs: list[float]) -> str:
    """Return in words where the order of ridge and binary by MSE differs from the paper."""
    told = []
    for snr in snrs:
        there = [PAPER_MSE[coding][simulated.SNR.index(snr)] for coding in ("ridge", "binary")]
        here = [middle.mse[coding, snr] for coding in ("ridge", "binary")]
        if (there[0] < there[1]) != (here[0] < here[1]):
            told.append(
                f"At signal to noise {snr:g} the order of the MSE is reversed against the paper: "
                f"ridge {number(here[0])} and binary {number(here[1])} here, {there[0]:g} and "
                f"{there[1]:g} there. "
            )
    return "".join(told) or "The order of the MSE of ridge and binary is the paper's. "


def by_size(results: pd.DataFrame, kind: str, value: str) -> pd.DataFrame:
    of = results[results.kind == kind]
    return of.pivot_table(index=["n", "levels"], columns="coding", values=value, aggfunc="median")


def paper_costs() -> list[Table]:
    rows = [[f"{levels}, {coding}", *both] for (levels, coding), both in PAPER_COST.items()]
    title = "The same in the paper, 100,000 rows and 100 columns, on its own machine"
    return [Table(["levels, learners", "s", "MB"], rows, title)]
