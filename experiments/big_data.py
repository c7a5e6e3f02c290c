"""Big data: fits of growing size, each in a process with limited memory.

Simulated tables as large as the paper's largest: Higgs, 11,000,000 x 29, and the flood insurance
policies, 14,569,103 x 51 (the target included). Running out of memory is a valid result.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

import cwboost as cb
from benchmarks.process import Memory

from . import simulated, style
from .found import Finding, Table, listed
from .simulated import splines

if TYPE_CHECKING:
    import pandas as pd

TITLE = "Big data: fits that need binning"
CAPTION = (
    "Memory added by the fit at its peak (left) and seconds of the call (right) by rows; crosses "
    "are the authors' fits with compboost and binning, the dashed line is their limit of 30 GB."
)
DEVIATIONS = (
    "This experiment is in the authors' repository, not in the paper.",
    "The tables are simulated (normal columns of 32 bits, five with an effect, two classes): the "
    "authors' files are not part of this repository, and their third table, New York taxi rides, "
    "is left out. Their Higgs script had a target of one class.",
    "50 iterations as the authors, at rate 0.05 with df 5; two threads (the authors: four), once.",
    "Memory is the growth of the process's peak over the table in memory; for the authors it is "
    "the decrease of the machine's free memory from start to end, including the table (2.4 and 3.5 "
    "GB).",
    "The limit applies to the address space of the process: the authors' 30 GB, or the machine's "
    "memory if that is less (the rows of the table show which). The largest fits of both tables "
    "are repeated with a limit of 8 GB, table included.",
)
NEEDS_DATA, KEEPS, PARALLEL_KINDS = False, ("failed",), ()

LIMIT, TIGHT = 30.15e9, 8e9  # bytes
UNRECORDED = 25.28e9  # the machine's memory, for results that do not record the limit
BINS = {"no binning": "exact", "binning": "sqrt"}
PAPER = {  # (rows, columns): GB at the peak and seconds, with binning; without: out of memory
    (11_000_000, 29): (12.97, 333.0),
    (14_569_103, 51): (27.99, 793.0),
}
SMALLER = (1_000_000, 3_000_000)
N_ITER, BLOCK = 50, 1_000_000


def tasks(scale: str) -> list[dict[str, Any]]:
    """Return the tasks, the same for small, page and paper."""
    if scale == "tiny":
        sizes = [(1_000, 29, LIMIT), (2_000, 29, LIMIT), (2_000, 29, TIGHT)]
    else:
        sizes = [(n, columns, LIMIT) for _, columns in PAPER for n in SMALLER]
        sizes += [(n, columns, limit) for n, columns in PAPER for limit in (LIMIT, TIGHT)]
    return [
        {"n": n, "columns": columns, "bins": bins, "threads": 2, "memory": limit}
        for n, columns, limit in sizes
        for bins in BINS
    ]


def make(n: int, columns: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return columns of 32 bits, made block by block to limit the memory."""
    rng = np.random.default_rng([n, columns])
    table = {f"x{j}": np.empty(n, dtype=np.float32) for j in range(columns - 1)}
    y = np.empty(n, dtype=np.uint8)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(n, start + BLOCK))
        for column in table.values():
            column[rows] = rng.standard_normal(len(column[rows]), dtype=np.float32)
        a, b, c, d, e = (table[f"x{j}"][rows] for j in range(5))
        eta = np.sin(2 * a) + b * b / 2 - c + np.abs(d) - np.cos(e)
        y[rows] = rng.random(len(eta), dtype=np.float32) < 1 / (1 + np.exp(-eta))
    return table, y


def run(n: int, columns: int, bins: str, threads: int, memory: float) -> dict[str, Any]:  # noqa: ARG001
    table, y = make(n, columns)
    stamps: list[float] = []
    before, began = Memory(), time.perf_counter()
    model = cb.fit(
        table,
        y,
        splines(table),
        loss="binomial",
        scale=1,
        optimizer=cb.Plain(simulated.RATE),
        n_iter=N_ITER,
        bins=BINS[bins],
        callback=lambda _: stamps.append(time.perf_counter()),
        n_threads=threads,
        progress=False,
    )
    whole = time.perf_counter() - began
    added = before.added()
    return {
        "gigabytes": None if added is None else added / 1000,
        "setup": stamps[0] - began,
        "whole": whole,
        "risk": float(model.risk[-1]),
        "limit_set": limit_set(),
    }


def limit_set() -> float | None:
    """Return the bytes of address space that this process may use."""
    with suppress(ImportError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if soft == resource.RLIM_INFINITY else float(soft)
    return None


# --- what was found -------------------------------------------------------------------------------


def figure(results: pd.DataFrame) -> Any:
    done = results[(results.status == "done") & (results.memory == LIMIT)].sort_values("n")
    fills = {"no binning": style.GREEN, "binning": style.BLUE}
    marks = {29: "o-", 51: "s--"}
    with style.style():
        drawing, axes = style.panels(1, 2, 3.4)
        for panel, value, place in ((axes[0, 0], "gigabytes", 0), (axes[0, 1], "whole", 1)):
            for (columns, bins), of in done.groupby(["columns", "bins"]):
                name = f"{columns} columns, {bins}"
                panel.plot(of.n, of[value], marks[columns], color=fills[bins], label=name)
            for (n, columns), told in PAPER.items():
                panel.plot(n, told[place], "x", color=style.GREY, markersize=7)
                panel.annotate(f"compboost, {columns}", (n, told[place]), xytext=(-6, -8),
                               textcoords="offset points", ha="right", fontsize=7.5)  # fmt: skip
            panel.set(xscale="log", yscale="log", xlabel="rows (log scale)")
            style.plain_log(panel.xaxis)
            style.plain_log(panel.yaxis)
        axes[0, 0].set_ylabel("memory added, GB (log scale)")
        style.equal_line(axes[0, 0], LIMIT / 1e9, "30 GB")
        axes[0, 1].set_ylabel("seconds of the fit (log scale)")
        axes[0, 1].legend(fontsize=7.5)
    return drawing


def table(results: pd.DataFrame) -> Finding:
    limit, lines = limits(results), []
    for at in results.sort_values(["columns", "bins", "n", "memory"]).itertuples():
        size, seconds = PAPER.get((at.n, at.columns), (None, None))
        if size and at.bins == "no binning":
            size, seconds = "out of memory", None
        told = (size, seconds) if at.memory == LIMIT else (None, None)
        made = (at.gigabytes, at.setup, at.whole)
        if at.status != "done":
            made = ("out of memory", None, None)
        name = f"{at.n:,} x {at.columns}, {at.bins}, {limit[at.memory] / 1e9:.0f} GB"
        lines.append([name, *told, of_table(at.n, at.columns), *made])
    head = ["fit, limit", "authors, GB", "authors, s", "here: the table, GB", "added, GB"]
    head += ["until the first iteration, s", "whole, s"]
    largest = results[results.n == results.n.max()].set_index(["bins", "memory"])
    added = largest.gigabytes
    failed = results[(results.status != "done") & (results.memory == LIMIT)]
    why = (
        f"The largest fit adds {listed([added['binning', LIMIT]])} GB with binning and "
        f"{listed([added['no binning', LIMIT]])} GB without. "
        + (
            f"With a limit of {limit[LIMIT] / 1e9:.0f} GB (the authors': {LIMIT / 1e9:.0f}) all "
            "fits without binning succeed, because cwboost never holds an n x d matrix."
            if not len(failed)
            else f"{len(failed)} fits ran out of memory with {limit[LIMIT] / 1e9:.0f} GB."
        )
        + f" With a limit of {TIGHT / 1e9:.0f} GB, table included: {tight(results)}."
    )
    figures = {
        claim: [of_table(n, columns) + fit_size(results, n, columns, bins) for n, columns in PAPER]
        for claim, bins in (("fits", "binning"), ("needed", "no binning"))
        if set(PAPER) <= set(zip(results.n, results["columns"], strict=True))
    }
    return Finding(figures, why, [Table(head, lines)])


def of_table(n: int, columns: int) -> float:
    """Return the gigabytes of a table: columns of 32 bits, without the target."""
    return n * (columns - 1) * 4 / 1e9


def fit_size(results: pd.DataFrame, n: int, columns: int, bins: str) -> float:
    """Return the gigabytes that a fit adds; infinite if it ran out of the authors' memory, NaN if
    it ran out of less."""
    same = (results.n == n) & (results["columns"] == columns) & (results.bins == bins)
    [at] = results[same & (results.memory == LIMIT)].itertuples()
    if at.status == "done":
        return float(at.gigabytes)
    if "MemoryError" not in at.reason and "bad_alloc" not in at.reason:
        raise ValueError(f"a fit failed, but not for lack of memory: {at.reason}")
    return np.inf if limits(results)[LIMIT] >= LIMIT else np.nan


def tight(results: pd.DataFrame) -> str:
    """Return in words how the largest fits of each table end under the smaller limit."""
    told = []
    for at in results[results.memory == TIGHT].sort_values(["columns", "bins"]).itertuples():
        end = "fits" if at.status == "done" else "runs out of memory"
        told.append(f"{at.n:,} x {at.columns} with {at.bins} {end}")
    return ", ".join(told)


def limits(results: pd.DataFrame) -> dict[float, float]:
    """Return the actual limit by the requested limit."""
    known = results.get("limit_set", results.memory * np.nan).groupby(results.memory).max()
    return {asked: min(asked, UNRECORDED) if was != was else was for asked, was in known.items()}
