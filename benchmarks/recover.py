"""How well known functions are recovered: RMS error of f compared with superglm, pyGAM and EBM.

    python -m benchmarks recover [--problems binomial] [--rows 1000] [--seeds 5]
    python -m benchmarks recover --table [--into docs/quality.md]

f = sin(2a) + b²/2 - c of ten columns, with normal, binary and count targets (see
problems.seeded_curves), and the paper's simulation with two classes. The error is on the scale of
the link function and of the centred f, on 20,000 new rows. Each fit runs in its own process on one
thread and adds a line to `recover.jsonl`; a fit that is in the file (of the same version) is not
run again.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from . import stored
from .problems import FitProblem, paper_classes, seeded_curves
from .process import call
from .quality_report import markdown
from .results import number
from .run_arguments import add_run_arguments, choose_interpreters, publish
from .variants import RECOVER, installed_by

RESULTS = Path(__file__).parent / "recover.jsonl"
KEY = ("problem", "rows", "seed", "who")
Results = dict[tuple[Any, ...], dict[str, Any]]

ROWS = (1_000, 10_000, 100_000)
MOST_ROWS = {"pygam": 10_000, "ebm-main": 10_000}  # they take minutes on more rows
CURVES = ("squared", "binomial", "poisson")
CURVE_MODELS = tuple(name for name in RECOVER if name != "lightgbm")  # which is not a sum of curves
PAPER, PAPER_ROWS = "paper", 100_000
PAPER_MODELS = ("cwboost", "cwboost-boosted", "lightgbm")

SUPERGLM_SHARE = 1 / 3  # of superglm's time at 100,000 rows
PAPER_SECONDS, PAPER_ERROR = 1.5, 0.2  # the most that the default may take and err


# --- one fit --------------------------------------------------------------------------------------


def make_task(problem: str, rows: int, seed: int) -> FitProblem:
    """Return the problem; the paper's simulation is the same for all seeds, which repeat it."""
    return paper_classes(rows) if problem == PAPER else seeded_curves(rows, problem, seed)


def measure(problem: str, rows: int, seed: int, who: str) -> dict[str, float]:
    """Return error and seconds of one fit; called in its own process."""
    warnings.simplefilter("ignore")  # the libraries issue many warnings that do not matter here
    task, library = make_task(problem, rows, seed), RECOVER[who].rival()
    library.fit(task.few(), 1)  # one-time loading and compilation
    gc.collect()
    began, cpu = time.perf_counter(), time.process_time()
    library.fit(task, 1)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {"error": error(library.score(task.test, task.loss), task),
            "seconds": round(seconds, 4), "cpu_seconds": round(cpu, 4)}  # fmt: skip


def error(score: np.ndarray, task: FitProblem) -> float:
    """Return the RMS error of the score after both are centred."""
    return float(np.std(score - task.truth))


# --- which fits are run ---------------------------------------------------------------------------


def wanted(problems: list[str], rows: list[int], who: list[str]) -> list[tuple[str, int, str]]:
    """Return problem, number of rows and model of the fits of one seed."""
    out = []
    for problem in problems:
        paper = problem == PAPER
        models = PAPER_MODELS if paper else CURVE_MODELS
        for n in [PAPER_ROWS] if paper else rows:
            out += [
                (problem, n, name) for name in who if name in models and n <= MOST_ROWS.get(name, n)
            ]
    return out


def run_fits(arguments: argparse.Namespace) -> None:
    interpreters = choose_interpreters(arguments)
    versions = installed_by("recover", arguments.who, interpreters)
    for seed in range(arguments.seeds):
        for problem, rows, who in wanted(arguments.problems, arguments.rows, list(versions)):
            fit = dict(zip(KEY, (problem, rows, seed, who), strict=True))
            old = stored.read(arguments.results, KEY).get(tuple(fit.values()))
            if old is not None and old["version"] == versions[who] and not arguments.again:
                continue
            python = interpreters[RECOVER[who].own]
            outcome = call(f"{__name__}:measure", fit, python=python)
            if outcome.status != "done":
                raise ValueError(f"{fit}: {outcome.reason}")
            stored.append(arguments.results, fit | {"version": versions[who]} | outcome.value)


# --- tables ---------------------------------------------------------------------------------------


def page(found: Results) -> str:
    """Return all tables as Markdown."""
    parts = [f"{problem}:\n\n{curves_table(found, problem)}" for problem in CURVES]
    parts.append(f"The paper's simulation, two classes:\n\n{paper_table(found)}")
    parts.append(f"Targets:\n\n{targets(found)}")
    return "\n\n".join(parts)


def curves_table(found: Results, problem: str) -> str:
    """Return error and seconds by model and number of rows."""
    lines = [["RMS error of f, CPU seconds", *(f"n = {n:,}" for n in ROWS)]]
    for who in CURVE_MODELS:
        cells = [cell(found, (problem, n), who) for n in ROWS]
        if any(cells):
            lines.append([RECOVER[who].label, *cells])
    return markdown(lines)


def paper_table(found: Results) -> str:
    lines = [["RMS error of f, CPU seconds", f"n = {PAPER_ROWS:,}, p = 50"]]
    for who in PAPER_MODELS:
        if text := cell(found, (PAPER, PAPER_ROWS), who):
            lines.append([RECOVER[who].label, text])
    return markdown(lines)


def fits(found: Results, problem: tuple[str, int], who: str) -> dict[int, dict[str, Any]]:
    """Return the fits by seed."""
    return {key[2]: x for key, x in found.items() if key == (*problem, key[2], who)}


def cell(found: Results, problem: tuple[str, int], who: str) -> str:
    """Return the mean error, its standard error over the seeds, and the median seconds."""
    some = list(fits(found, problem, who).values())
    if not some:
        return ""
    errors = [x["error"] for x in some]
    seconds = number(float(np.median([x["cpu_seconds"] for x in some])), 2)
    if np.ptp(errors) == 0:  # repetitions of one data set
        return f"{errors[0]:.4f}, {seconds} s"
    return f"{np.mean(errors):.4f} ± {np.std(errors, ddof=1) / len(errors) ** 0.5:.4f}, {seconds} s"


def targets(found: Results) -> str:
    lines = [["target", "measured", "result"]]
    for problem in CURVES:
        for n in ROWS:
            lines += rivalry(found, (problem, n))
    own = list(fits(found, (PAPER, PAPER_ROWS), "cwboost").values())
    if own:
        seconds = float(np.median([x["cpu_seconds"] for x in own]))
        lines.append(verdict(f"the paper's simulation: at most {PAPER_SECONDS:g} s",
                             f"{seconds:.2f} s", seconds <= PAPER_SECONDS))  # fmt: skip
        lines.append(verdict(f"the paper's simulation: error at most {PAPER_ERROR:g}",
                             f"{own[0]['error']:.3f}", own[0]["error"] <= PAPER_ERROR))  # fmt: skip
    return markdown(lines)


def rivalry(found: Results, problem: tuple[str, int]) -> list[list[str]]:
    """Return the lines of the default against superglm, on the seeds that both have."""
    own, rival = fits(found, problem, "cwboost"), fits(found, problem, "superglm")
    seeds = sorted(set(own) & set(rival))
    if not seeds:
        return []
    words = f"{problem[0]}, n = {problem[1]:,}"
    errors, seconds = (
        average([own[s][figure] for s in seeds]) / average([rival[s][figure] for s in seeds])
        for figure, average in (("error", np.mean), ("cpu_seconds", np.median))
    )
    lines = [verdict(f"{words}: error at most superglm's", f"{errors:.2f} of it",
                     bool(errors <= 1))]  # fmt: skip
    if problem[1] == max(ROWS):
        lines.append(verdict(f"{words}: at most a third of superglm's time",
                             f"{seconds:.2f} of it",
                             bool(seconds <= SUPERGLM_SHARE)))  # fmt: skip
    return lines


def verdict(target: str, measured: str, met: bool) -> list[str]:
    return [target, measured, "met" if met else "missed"]


# --- command line ---------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    problems = [*CURVES, PAPER]
    parser.add_argument("--problems", nargs="+", choices=problems, default=problems)
    parser.add_argument("--rows", nargs="+", type=int, choices=ROWS, default=list(ROWS))
    parser.add_argument("--seeds", type=int, default=5, help="number of data sets (5)")
    add_run_arguments(parser, "recover", RECOVER, RESULTS)


def run(arguments: argparse.Namespace) -> None:
    if not arguments.table:
        run_fits(arguments)
    publish(arguments, page(stored.read(arguments.results, KEY)))
