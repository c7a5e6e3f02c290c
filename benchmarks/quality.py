"""Predictive quality on real tables, compared with EBM, LightGBM, XGBoost, superglm and pyGAM.

    python -m benchmarks quality FOLDER [--who cwboost ebm] [--sets spam adult] [--folds 1 2]
    python -m benchmarks quality FOLDER --table [--into docs/quality.md]

FOLDER has the Parquet files that quality_data.py names. Each fit runs in its own process on one
thread and adds a line to `quality.jsonl`. A fit that is in the file (of the same version) is not
run again, since EBM takes hours. A fit may use CPU_SECONDS; a library that exceeded them once is
not tried on the other folds of that table. Results are printed by quality_report.py.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import metrics

from . import quality_report as report
from . import stored
from .problems import Rows, seeded_curves
from .process import MEGABYTE, Outcome, at_most_cpu, call
from .quality_data import FOLDS, TABLES, load
from .run_arguments import add_run_arguments, choose_interpreters, publish
from .variants import QUALITY, installed_by

RESULTS = Path(__file__).parent / "quality.jsonl"
CPU_SECONDS = 600.0  # of a fit
MEMORY = 8000 * MEGABYTE  # of a process
SMALLEST = 1e-12  # of an expected count or price, since a deviance needs positive numbers


# --- one fit --------------------------------------------------------------------------------------


def measure(folder: str, name: str, fold: int, who: str) -> dict[str, float]:
    """Return the figures of one fit; called in its own process."""
    warnings.simplefilter("ignore")  # the libraries issue many warnings that do not matter here
    problem, library = load(Path(folder), name, fold), QUALITY[who].rival()
    warm_up = seeded_curves(200, problem.loss, 0)  # one-time loading and compilation
    library.fit(replace(warm_up, train=warm_up.train.part(slice(None), slice(2))), 1)
    at_most_cpu(CPU_SECONDS)
    began, cpu = time.perf_counter(), time.process_time()
    library.fit(problem, 1)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        **errors(problem.loss, problem.test, library.predict(problem.test)),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "rows": len(problem.train.y),
        "columns": problem.train.table.shape[1],
    }


def errors(loss: str, rows: Rows, expected: np.ndarray) -> dict[str, float]:
    """Return the figures of the predictions: AUC and log loss of classes, R² and the root mean
    squared error or the deviance of numbers, D² and the deviance of counts.

    D² is 1 minus the deviance as a share of the deviance of a constant rate.
    """
    y = rows.y
    if loss == "binomial":
        found = {
            "auc": metrics.roc_auc_score(y, expected),
            "log_loss": metrics.log_loss(y, expected),
        }
    elif loss == "squared":
        found = {"r2": metrics.r2_score(y, expected),
                 "rmse": metrics.root_mean_squared_error(y, expected)}  # fmt: skip
    elif loss == "gamma":
        expected = np.maximum(expected, SMALLEST)
        found = {"r2": metrics.r2_score(y, expected),
                 "deviance": metrics.mean_gamma_deviance(y, expected)}  # fmt: skip
    else:
        exposure = np.ones(len(y)) if rows.exposure is None else rows.exposure
        deviance = metrics.mean_poisson_deviance(y, np.maximum(expected, SMALLEST))
        constant = metrics.mean_poisson_deviance(y, exposure * y.sum() / exposure.sum())
        found = {"d2": 1 - deviance / constant, "deviance": deviance}
    return {name: float(value) for name, value in found.items()}


# --- which fits are run ---------------------------------------------------------------------------


def needed(found: report.Results, fit: tuple[str, int, str], version: str, again: bool) -> bool:
    """Return whether the fit must be run: it is not stored for this version, and no fold of the
    table exceeded the CPU seconds."""
    name, _, who = fit
    folds = [found.get((name, fold, who)) for fold in FOLDS]
    if any(x is not None and "late" in x and x["version"] == version for x in folds):
        return False
    return again or fit not in found or found[fit]["version"] != version


def record(fit: tuple[str, int, str], version: str, outcome: Outcome) -> dict[str, Any]:
    """Return the line of a fit: its figures, or why there are none."""
    name, fold, who = fit
    line = {"set": name, "fold": fold, "who": who, "version": version}
    if outcome.status == "done":
        return line | outcome.value
    if outcome.status == "late":
        return line | {"late": CPU_SECONDS}
    return line | {"failed": outcome.reason.splitlines()[-1][-200:]}


def run_fits(arguments: argparse.Namespace) -> None:
    interpreters = choose_interpreters(arguments)
    versions = installed_by("quality", arguments.who, interpreters)
    for fold in arguments.folds:
        for name in arguments.sets:
            for who in versions:
                fit = (name, fold, who)
                found = report.read(arguments.results)
                if not needed(found, fit, versions[who], arguments.again):
                    continue
                job = {"folder": str(arguments.folder), "name": name, "fold": fold, "who": who}
                python = interpreters[QUALITY[who].own]
                outcome = call(f"{__name__}:measure", job, memory=MEMORY, python=python)
                stored.append(arguments.results, record(fit, versions[who], outcome))


# --- command line ---------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of the Parquet files")
    parser.add_argument("--sets", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--folds", nargs="+", type=int, choices=FOLDS, default=list(FOLDS))
    add_run_arguments(parser, "quality", QUALITY, RESULTS)


def run(arguments: argparse.Namespace) -> None:
    if not arguments.table:
        run_fits(arguments)
    publish(arguments, report.page(report.read(arguments.results)))
