"""Predictive quality: AUC on five real tables compared with EBM and XGBoost, over five folds.

    python -m benchmarks quality FOLDER --who cwboost cwboost-pairs ebm xgboost
    python -m benchmarks quality FOLDER --table [--into docs/quality.md]

FOLDER has the Parquet files named below. Each fit runs in its own process on one thread and adds a
line to `quality.jsonl`. Fits that are already in the file (of the same version) are not run again,
since EBM takes hours. Spam, Adult and Nomao have the folds of the paper, the others stratified
folds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import machine
from .pages import fill

RESULTS = Path(__file__).parent / "quality.jsonl"
FOLDS = range(1, 6)


@dataclass(frozen=True)
class Table:
    file: str
    target: str
    drop: tuple[str, ...] = ()
    folds_of_the_paper: bool = False


TABLES = {
    "spam": Table("spam", "class", folds_of_the_paper=True),
    "adult": Table("adult", "class", folds_of_the_paper=True),
    "nomao": Table("nomao", "Class", folds_of_the_paper=True),
    "higgs": Table("higgs_35k", "class"),
    "credit": Table("credit_default", "default", ("ID",)),
}


def load(folder: Path, name: str, fold: int) -> tuple[Any, Any, Any, Any]:
    """Return the training table and y, and the test table and y (1: the last class)."""
    import pandas as pd
    from sklearn.model_selection import StratifiedKFold

    about = TABLES[name]
    table = pd.read_parquet(folder / f"{about.file}.parquet").drop(columns=list(about.drop))
    y = (table[about.target] == sorted(table[about.target].unique())[-1]).to_numpy().astype(int)
    table = table.drop(columns=about.target)
    test = np.zeros(len(y), dtype=bool)
    if about.folds_of_the_paper:
        folds = pd.read_parquet(folder / "paper_folds.parquet")
        test[folds.row[(folds.dataset == name) & (folds.fold == fold)].to_numpy()] = True
    else:
        splits = StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)
        test[list(splits)[fold - 1][1]] = True
    return table[~test], y[~test], table[test], y[test]


# --- who is compared ------------------------------------------------------------------------------


def cwboost(**settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        import cwboost as cb

        return cb.CWBClassifier(n_jobs=1, **settings)

    return make


def ebm(**settings: Any) -> Callable[[], Any]:
    def make() -> Any:
        from interpret.glassbox import ExplainableBoostingClassifier

        return ExplainableBoostingClassifier(n_jobs=1, **settings)

    return make


def xgboost() -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(n_jobs=1, enable_categorical=True)


WHO: dict[str, tuple[Callable[[], Any], str, str]] = {  # maker, distribution, label
    "cwboost": (cwboost(), "cwboost", "cwboost, main effects"),
    "cwboost-bags": (cwboost(bags=8), "cwboost", "cwboost, main effects, 8 bags"),
    "ebm-main": (ebm(interactions=0), "interpret", "EBM without interactions"),
    "cwboost-pairs": (cwboost(interactions="auto"), "cwboost", 'cwboost, interactions="auto"'),
    "cwboost-pairs-bags": (
        cwboost(interactions="auto", bags=8),
        "cwboost",
        'cwboost, interactions="auto", 8 bags',
    ),
    "ebm": (ebm(), "interpret", "EBM (default: interactions)"),
    "xgboost": (xgboost, "xgboost-cpu", "XGBoost (default)"),
}


def version_of(who: str) -> str:
    return machine.commit() if WHO[who][1] == "cwboost" else version(WHO[who][1])


# --- one fit --------------------------------------------------------------------------------------


def measure(folder: Path, name: str, fold: int, who: str) -> dict[str, Any]:
    from sklearn.metrics import log_loss, roc_auc_score

    table, y, test, test_y = load(folder, name, fold)
    if who == "xgboost":  # XGBoost refuses some names
        table, test = (
            t.set_axis([f"x{j}" for j in range(t.shape[1])], axis=1) for t in (table, test)
        )
    model = WHO[who][0]()
    began, cpu = time.perf_counter(), _cpu_seconds()
    model.fit(table, y)
    seconds, cpu = time.perf_counter() - began, _cpu_seconds() - cpu
    probability = model.predict_proba(test)[:, 1]
    return {
        "set": name,
        "fold": fold,
        "who": who,
        "version": version_of(who),
        "auc": float(roc_auc_score(test_y, probability)),
        "log_loss": float(log_loss(test_y, probability)),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "rows": len(y),
        "columns": table.shape[1],
    }


def _cpu_seconds() -> float:
    used = [resource.getrusage(x) for x in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(x.ru_utime + x.ru_stime for x in used)


# --- results --------------------------------------------------------------------------------------


def read(file: Path) -> dict[tuple[str, int, str], dict[str, Any]]:
    """Return the results by table, fold and model; the last one if a fit was run twice."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return {(x["set"], x["fold"], x["who"]): x for x in found}


def table(results: dict[tuple[str, int, str], dict[str, Any]]) -> str:
    """Return a table of the mean AUC over the available folds and the mean CPU seconds of a fit."""
    head = ["", *TABLES]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for who, (_, _, words) in WHO.items():
        cells = [cell([results.get((name, fold, who)) for fold in FOLDS]) for name in TABLES]
        if any(cells):
            lines.append("| " + " | ".join([words, *cells]) + " |")
    return "\n".join(lines)


PAIRS = [("cwboost", "ebm-main"), ("cwboost-bags", "ebm-main")]
PAIRS += [
    ("cwboost-pairs", "ebm"),
    ("cwboost-pairs-bags", "ebm"),
    ("cwboost-pairs-bags", "xgboost"),
]


def differences(results: dict[tuple[str, int, str], dict[str, Any]]) -> str:
    """Return a table of AUC differences on the folds that both have, and CPU seconds as a share."""
    head = ["difference in AUC", *TABLES]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for who, rival in PAIRS:
        cells = []
        for name in TABLES:
            keys = [(results.get((name, f, who)), results.get((name, f, rival))) for f in FOLDS]
            both = [(a, b) for a, b in keys if a is not None and b is not None]
            cells.append(_difference(both))
        lines.append("| " + " | ".join([f"{WHO[who][2]} - {WHO[rival][2]}", *cells]) + " |")
    return "\n".join(lines)


def _difference(both: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    if not both:
        return ""
    auc = np.mean([a["auc"] - b["auc"] for a, b in both])
    share = np.sum([b["cpu_seconds"] for _, b in both]) / np.sum(
        [a["cpu_seconds"] for a, _ in both]
    )
    times = f"1/{share:.0f}" if share >= 1.5 else f"{1 / share:.2g} x"
    return f"{auc:+.4f}, {times} of the time ({len(both)} fold{'s' * (len(both) > 1)})"


def cell(folds: list[dict[str, Any] | None]) -> str:
    found = [fold for fold in folds if fold is not None]
    if not found:
        return ""
    auc = np.mean([x["auc"] for x in found])
    seconds = np.mean([x["cpu_seconds"] for x in found])
    some = "" if len(found) == len(folds) else f" (fold{'s' * (len(found) > 1)} "
    some += "" if len(found) == len(folds) else ", ".join(str(x["fold"]) for x in found) + ")"
    return f"{auc:.4f}{some}, {seconds:.3g} s"


# --- command line ---------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder of the Parquet files")
    parser.add_argument("--who", nargs="+", choices=WHO, default=list(WHO))
    parser.add_argument("--sets", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--folds", nargs="+", type=int, choices=FOLDS, default=list(FOLDS))
    parser.add_argument("--again", action="store_true", help="also run fits that are stored")
    parser.add_argument("--table", action="store_true", help="only print the table of stored fits")
    parser.add_argument("--into", type=Path, help="page whose block 'quality' gets the table")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)  # in this process


def run(arguments: argparse.Namespace) -> None:
    todo = [
        (name, fold, who)
        for fold in arguments.folds
        for name in arguments.sets
        for who in arguments.who
    ]
    if arguments.one:
        return print(json.dumps(measure(arguments.folder, *todo[0])))
    for name, fold, who in [] if arguments.table else todo:
        old = read(arguments.results).get((name, fold, who))
        if old is None or arguments.again or old["version"] != version_of(who):
            line = _in_a_process(arguments.folder, name, fold, who)
            print(line, flush=True)
            with arguments.results.open("a", encoding="utf-8") as out:
                out.write(line + "\n")
    found = read(arguments.results)
    text = f"{table(found)}\n\nOn the folds that both have:\n\n{differences(found)}"
    print(text)
    if arguments.into is not None:
        fill(arguments.into, {"quality": text})
    return None


def _in_a_process(folder: Path, name: str, fold: int, who: str) -> str:
    words = [sys.executable, "-m", "benchmarks", "quality", str(folder), "--one"]
    words += ["--sets", name, "--folds", str(fold), "--who", who]
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        words, env=os.environ | one_thread, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise ValueError(f"{who} on {name}, fold {fold}, failed:\n{done.stderr[-2000:]}")
    return done.stdout.strip().splitlines()[-1]
