"""Compare settings to choose the defaults of CWBClassifier and CWBRegressor.

    python benchmarks/defaults.py FOLDER             # the measurements that chose them
    python benchmarks/defaults.py FOLDER --repeat    # cases that two splits could not decide
    python benchmarks/defaults.py FOLDER --report    # the defaults on other tables

FOLDER has the Parquet files named below. One setting is changed at a time; the others are the
defaults. A table has at most 20,000 rows (a fixed random sample), and two different thirds are test
rows in turn. Prints Markdown tables of D^2 on test rows: the share of the deviance that the model
explains, in percent. --report prints AUC, too, and the paper's first fold.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.metrics import d2_log_loss_score, roc_auc_score
from sklearn.model_selection import KFold

import cwboost as cb
from cwboost.estimators.defaults import MOMENTUM, RATE
from cwboost.frames.read_frames import read
from cwboost.terms.styles import make_learners

ROWS, FOLDS = 20_000, 2
LONG = 4000  # iterations of the fits whose intermediate iterates are compared


@dataclass(frozen=True)
class Task:
    """One table: its file, the target and its loss, and columns that are not features."""

    name: str
    file: str
    target: str
    loss: str
    drop: tuple[str, ...] = ()
    exposure: str | None = None

    def read(self, folder: Path, rows: int | None = ROWS) -> tuple[pd.DataFrame, pd.Series]:
        table = pd.read_parquet(folder / f"{self.file}.parquet").drop(columns=list(self.drop))
        if rows is not None and len(table) > rows:
            table = table.sample(rows, random_state=5).reset_index(drop=True)
        return table.drop(columns=self.target), table[self.target]

    def estimator(self, **settings: Any) -> Any:
        if self.loss == "binomial":
            return cb.CWBClassifier(n_jobs=1, **settings)
        return cb.CWBRegressor(self.loss, exposure=self.exposure, n_jobs=1, **settings)


TUNING = [
    Task("census", "census_income_kdd", "income", "binomial", ("instance_weight", "split")),
    Task("hiva", "hiva", "class", "binomial"),
    Task("bike", "bike_sharing_hour", "cnt", "poisson", ("casual", "registered")),
    Task("California", "california_housing_ocean", "median_house_value", "squared"),
    Task("diamonds", "diamonds", "price", "gamma"),
    Task("wage", "wage", "wage", "squared", ("logwage",)),
    Task(
        "beMTPL97", "beMTPL97", "nclaims", "poisson", ("id", "amount", "average", "claim"), "expo"
    ),
]
REPORTING = [
    Task("spam", "spam", "class", "binomial"),
    Task("adult", "adult", "class", "binomial", ("fnlwgt",)),
    Task("nomao", "nomao", "Class", "binomial"),
    Task("higgs", "higgs_35k", "class", "binomial"),
    Task("credit", "credit_default", "default", "binomial", ("ID",)),
]
LINES_ONLY = ("hiva",)  # all columns are 0 or 1, so all styles give lines

# --- the settings ---------------------------------------------------------------------------------

Settings = Callable[[Task, pd.DataFrame], dict[str, Any]]


def same(**settings: Any) -> Settings:
    return lambda *_: settings


def auto(spline: dict[str, Any] | None = None, step: dict[str, Any] | None = None) -> Settings:
    """Return settings: terms="auto" with other parameters of its curves or its steps."""
    changes = {"Spline": spline or {}, "Step": step or {}}

    def settings(task: Task, X: pd.DataFrame) -> dict[str, Any]:
        skip = [] if task.exposure is None else [task.exposure]
        made = make_learners(read(X), None, skip, "auto")
        return {"learners": [replace(x, **changes.get(type(x).__name__, {})) for x in made]}

    return settings


def hybrid(**parameters: Any) -> Settings:
    chosen = {"rate": RATE, "momentum": MOMENTUM, "then": "training"} | parameters
    return same(optimizer=cb.Hybrid(**chosen))


DEFAULT = same()
QUANTILES = {"knot_placement": "quantile"}
TERMS: dict[str, Settings] = {
    "linear": same(terms="linear"),
    "components": same(terms="components"),
    "smooth": same(terms="smooth"),
    "step": same(terms="step"),
    "**auto**": DEFAULT,
}
SHAPES: dict[str, Settings] = {
    "**auto: 128 steps, df 5, knots equally spaced**": DEFAULT,
    "64 steps": auto(step={"bins": 64}),
    "256 steps": auto(step={"bins": 256}),
    "df 3.5": auto({"df": 3.5}, {"df": 3.5}),
    "df 8": auto({"df": 8}, {"df": 8}),
    "steps of df 16": auto(step={"df": 16}),
    "quantile knots": auto(QUANTILES),
}
OPTIMIZERS: dict[str, Settings] = {
    f"**hybrid, rate {RATE}, momentum {MOMENTUM}, then on training rows**": DEFAULT,
    "then on all rows": hybrid(then="all"),
    "rate 0.1": hybrid(rate=0.1),
    "rate 0.5": hybrid(rate=0.5),
    "momentum 0.01": hybrid(momentum=0.01),
    "momentum 0.1": hybrid(momentum=0.1),
    "plain": same(optimizer=cb.Plain(RATE)),
    "accelerated, momentum 0.0034": same(optimizer=cb.Accelerated(RATE)),
}
HELD_OUT: dict[str, Settings] = {
    "10%": same(validation=0.1),
    "**20%**": DEFAULT,
    "30%": same(validation=0.3),
}
REPEATED: dict[str, Settings] = {
    "default": DEFAULT,
    "rate 0.5": hybrid(rate=0.5),
    "10% held out": same(validation=0.1),
}
LIMITS = (500, 1000, 2000, LONG)
PATIENCES = (20, 50, 100, None)
BLIND = (50, 100, 200, 500, 1000)

# --- measuring ------------------------------------------------------------------------------------


def folds(n: int, task: Task) -> Iterator[np.ndarray]:
    """Yield masks of test rows."""
    third = np.random.default_rng(1).integers(0, 3, n)
    for k in range(1 if task.name == "hiva" else FOLDS):  # 1,617 columns are slow
        yield third == k


def judge(task: Task, model: Any, X: pd.DataFrame, y: pd.Series) -> tuple[float, float]:
    """Return D^2 in percent, and the AUC for classes."""
    if task.loss != "binomial":
        return 100 * model.score(X, y), np.nan
    p = model.predict_proba(X)
    score = 100 * d2_log_loss_score(y, p, labels=model.classes_)
    return score, roc_auc_score(y == model.classes_[1], p[:, 1])


@cache
def measure(task: Task, folder: Path, settings: Settings, rows: int | None = ROWS) -> np.ndarray:
    """Return D^2, AUC, processor seconds of the fit and best iteration; means over the folds."""
    X, y = task.read(folder, rows)
    found = []
    for test in folds(len(y), task):
        model = task.estimator(**settings(task, X[~test]))
        began = time.process_time()
        model.fit(X[~test], y[~test])
        seconds = time.process_time() - began
        found.append((*judge(task, model, X[test], y[test]), seconds, model.model_.best_iteration))
    return np.mean(found, axis=0)


def waits(risk: np.ndarray, m: int, switched: int) -> int:
    """Return the number of iterations since the last new best or the hybrid's switch."""
    return m - max(int(np.argmin(risk[: m + 1])), switched)


def stopping(task: Task, folder: Path) -> dict[tuple[int, int | None], tuple[float, float]]:
    """Return D^2 and iterations run by limit of iterations and patience, all from one long path."""
    X, y = task.read(folder)
    out: dict[Any, list[Any]] = {(n, p): [] for n in LIMITS for p in PATIENCES}
    for test in folds(len(y), task):
        model = task.estimator(n_iter=LONG, patience=None).fit(X[~test], y[~test])
        whole = model.model_
        risk = whole.validation_risk
        switched = whole.path.switched_after
        for (n, p), scores in out.items():
            end = min(n, len(risk) - 1)
            if p is not None and switched >= 0:
                end = next((m for m in range(switched, end) if waits(risk, m, switched) >= p), end)
            model.model_ = whole.at(int(np.argmin(risk[: end + 1])))
            scores.append((judge(task, model, X[test], y[test])[0], end))
    return {key: tuple(np.mean(scores, axis=0)) for key, scores in out.items()}


def blind(folder: Path) -> dict[str, dict[int, float]]:
    """Return D^2 by number of iterations for tables below 1,000 rows, which are not split."""
    diabetes = load_diabetes(return_X_y=True)
    friedman = make_friedman1(500, noise=2.0, random_state=0)
    X, y = TUNING[5].read(folder, 900)
    tables = {"diabetes": diabetes, "Friedman 1": friedman, "wage, 900 rows": (X, y.to_numpy())}
    out = {}
    for name, (rows, target) in tables.items():
        read_rows = pd.DataFrame(rows)
        read_rows.columns = read_rows.columns.astype(str)
        found: dict[int, list[float]] = {n: [] for n in BLIND}
        for train, test in KFold(5, shuffle=True, random_state=0).split(target):
            model = cb.CWBRegressor(n_iter=max(BLIND), n_jobs=1)
            whole = model.fit(read_rows.iloc[train], target[train]).model_
            for n, scores in found.items():
                model.model_ = whole.at(n)
                scores.append(100 * model.score(read_rows.iloc[test], target[test]))
        out[name] = {n: float(np.mean(scores)) for n, scores in found.items()}
    return out


def repeated(task: Task, folder: Path, rows: int | None, splits: int) -> dict[str, np.ndarray]:
    """Return D^2 on many random thirds minus the default's D^2 on the same thirds."""
    X, y = task.read(folder, rows)
    found: dict[str, list[float]] = {label: [] for label in REPEATED}
    for seed in range(splits):
        test = np.random.default_rng(100 + seed).random(len(y)) < 1 / 3
        for label, settings in REPEATED.items():
            model = task.estimator(**settings(task, X[~test])).fit(X[~test], y[~test])
            found[label].append(judge(task, model, X[test], y[test])[0])
    default = np.array(found.pop("default"))
    return {label: np.array(scores) - default for label, scores in found.items()}


# --- tables ---------------------------------------------------------------------------------------


def show(title: str, names: list[str], rows: dict[str, list[str]], first: str) -> None:
    print(f"\n## {title}\n")
    print(f"| {first} | " + " | ".join(names) + " |")
    print("|---|" + "--:|" * len(names))
    for label, cells in rows.items():
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def compare(folder: Path, title: str, variants: dict[str, Settings], tasks: list[Task]) -> None:
    rows = {}
    for label, settings in variants.items():
        found = [measure(task, folder, settings) for task in tasks]
        rows[label] = [f"{f[0]:.2f} ({f[3]:.0f})" for f in found]
    show(title, [task.name for task in tasks], rows, "D² in percent (best iteration)")


def tune(folder: Path) -> None:
    shaped = [task for task in TUNING if task.name not in LINES_ONLY]
    compare(folder, "Terms", TERMS, shaped)
    compare(folder, "Shapes", SHAPES, shaped)
    compare(folder, "Optimizer", OPTIMIZERS, TUNING)
    compare(folder, "Rows held out", HELD_OUT, TUNING)
    found = {task.name: stopping(task, folder) for task in TUNING}
    rows = {}
    for n, p in [*((n, 50) for n in LIMITS), *((2000, p) for p in PATIENCES if p != 50)]:
        label = f"{n} iterations, patience {p}"
        cells = [f"{f[n, p][0]:.2f} ({f[n, p][1]:.0f})" for f in found.values()]
        rows[f"**{label}**" if (n, p) == (2000, 50) else label] = cells
    show("Stopping", list(found), rows, "D² in percent (iterations run)")
    small = blind(folder)
    rows = {f"{n} iterations": [f"{f[n]:.2f}" for f in small.values()] for n in BLIND}
    rows = {f"**{k}**" if k == "200 iterations" else k: cells for k, cells in rows.items()}
    show("Without validation rows", list(small), rows, "D² in percent")
    seconds = [f"{measure(task, folder, DEFAULT)[2]:.1f}" for task in TUNING]
    show("Processor time of a fit", [task.name for task in TUNING], {"seconds": seconds}, "")


def repeat(folder: Path) -> None:
    """Repeat the comparison on many splits for tables with few test rows."""
    hiva, wage, claims = TUNING[1], TUNING[5], TUNING[6]
    cases = [(hiva, None, 5), (wage, None, 20), (claims, ROWS, 10), (claims, None, 4)]
    found = [repeated(task, folder, rows, splits) for task, rows, splits in cases]
    names = [f"{t.name}, {n or 'all'} rows, {k} splits" for t, n, k in cases]
    rows = {
        label: [
            f"{f[label].mean():+.3f} (sd {f[label].std(ddof=1):.3f}; {np.sum(f[label] > 0)})"
            for f in found
        ]
        for label in found[0]
    }
    show(
        "Repeated splits", names, rows, "D² minus the default's (sd of the difference; splits won)"
    )


def report(folder: Path) -> None:
    styles = {"smooth": same(terms="smooth"), "step": same(terms="step"), "**auto**": DEFAULT}
    rows = {}
    for label, settings in styles.items():
        found = [measure(task, folder, settings) for task in REPORTING]
        rows[label] = [f"{f[0]:.2f}, {f[1]:.4f} ({f[2]:.1f} s)" for f in found]
    show("Reporting", [t.name for t in REPORTING], rows, "D² in percent, AUC (processor time)")
    paper = pd.read_parquet(folder / "paper_folds.parquet")
    rows = {}
    for task in REPORTING[:3]:
        X, y = task.read(folder, None)
        fold = paper[paper["dataset"] == task.name].sort_values("row")["fold"].to_numpy()
        test = fold == 1
        began = time.process_time()
        model = task.estimator().fit(X[~test], y[~test])
        seconds = time.process_time() - began
        area = judge(task, model, X[test], y[test])[1]
        rows[task.name] = [f"{area:.4f}", f"{seconds:.1f} s", f"{model.model_.best_iteration}"]
    show("The paper's fold 1", ["AUC", "processor time", "best iteration"], rows, "table")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--report", action="store_true", help="the reporting tables instead")
    parser.add_argument("--repeat", action="store_true", help="two settings on many splits")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # columns that are constant in some fold
    run = report if arguments.report else repeat if arguments.repeat else tune
    run(arguments.folder)


if __name__ == "__main__":
    main()
