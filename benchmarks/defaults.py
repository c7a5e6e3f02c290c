"""Compare settings of CWBClassifier and CWBRegressor with their defaults, one at a time.

    python benchmarks/defaults.py FOLDER [--groups terms shapes ...] [--sets adult ...] [--splits 2]

FOLDER has the Parquet files named below. A table has at most 12,000 rows (a fixed random sample;
60,000 of the insurance claims, which are rare). Only the training rows of the first of five folds
are used. Random quarters of them are the held-out rows. Prints Markdown tables of the change of the
explained deviance, in percent of what the default explains, and the processor seconds of one fit of
every table.
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
from sklearn.metrics import d2_log_loss_score

import cwboost as cb
from cwboost.frames.read_frames import read
from cwboost.terms.styles import make_learners


@dataclass(frozen=True)
class Task:
    """One table: its file, the target and its loss, and columns that are not features."""

    name: str
    file: str
    target: str
    loss: str
    drop: tuple[str, ...] = ()
    exposure: str | None = None
    rows: int = 12_000

    def read(self, folder: Path) -> tuple[pd.DataFrame, pd.Series]:
        """Return the training rows of the first of five folds."""
        table = pd.read_parquet(folder / f"{self.file}.parquet").drop(columns=list(self.drop))
        if len(table) > self.rows:
            table = table.sample(self.rows, random_state=5).reset_index(drop=True)
        fold = np.random.default_rng(0).permutation(len(table)) % 5
        table = table[fold != 0].reset_index(drop=True)
        return table.drop(columns=self.target), table[self.target]

    def estimator(self, **settings: Any) -> Any:
        if self.loss == "binomial":
            return cb.CWBClassifier(n_jobs=1, **settings)
        return cb.CWBRegressor(self.loss, exposure=self.exposure, n_jobs=1, **settings)


TASKS = [
    Task("census", "census_income_kdd", "income", "binomial", ("instance_weight", "split")),
    Task("adult", "adult", "class", "binomial", ("fnlwgt",)),
    Task("spam", "spam", "class", "binomial"),
    Task("credit", "credit_default", "default", "binomial", ("ID",)),
    Task("bike", "bike_sharing_hour", "cnt", "poisson", ("casual", "registered")),
    Task("California", "california_housing_ocean", "median_house_value", "squared"),
    Task("diamonds", "diamonds", "price", "gamma"),
    Task("wage", "wage", "wage", "squared", ("logwage",)),
    Task(
        "beMTPL97", "beMTPL97", "nclaims", "poisson", ("id", "amount", "average", "claim"), "expo",
        rows=60_000,
    ),
]  # fmt: skip

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


DEFAULT = same()
GROUPS: dict[str, dict[str, Settings]] = {
    "noise": {
        "other validation rows": same(random_state=1),
    },
    "terms": {
        '`"smooth"`': same(terms="smooth"),
        '`"step"`': same(terms="step"),
        '`"components"`': same(terms="components"),
        '`"linear"`': same(terms="linear"),
    },
    "shapes": {
        "df 5, no further spikes": auto(),
        "df 3.5": auto({"df": 3.5}, {"df": 3.5}),
        "df 8": auto({"df": 8}, {"df": 8}),
        "40 knots": auto({"knots": 40}),
        "quantile knots": auto({"knot_placement": "quantile"}),
        "64 steps": auto(step={"bins": 64}),
        "256 steps": auto(step={"bins": 256}),
    },
    "optimizer": {
        "`Plain(0.1)`": same(optimizer=cb.Plain(0.1)),
        "`Plain(0.3)`": same(optimizer=cb.Plain(0.3)),
        "`Plain(1)`": same(optimizer=cb.Plain(1.0)),
        '`"hybrid"`': same(optimizer="hybrid"),
    },
    "validation": {
        "10%": same(validation=0.1),
        "30%": same(validation=0.3),
    },
    "stopping": {
        "patience 20": same(patience=20),
        "patience 100": same(patience=100),
    },
    "polish": {
        "`polish=None`": same(polish=None),
        '`polish="repeat"`': same(polish="repeat"),
        "`polish=True`": same(polish=True),
    },
}


def splits(n: int, number: int) -> Iterator[np.ndarray]:
    """Yield masks of held-out rows."""
    for seed in range(number):
        yield np.random.default_rng(700 + seed).random(n) < 0.25


def explained(task: Task, model: Any, X: pd.DataFrame, y: pd.Series) -> float:
    """Return the explained share of the deviance."""
    if task.loss != "binomial":
        return float(model.score(X, y))
    return float(d2_log_loss_score(y, model.predict_proba(X), labels=model.classes_))


@cache
def measure(task: Task, folder: Path, settings: Settings, number: int) -> np.ndarray:
    """Return the explained deviance of held-out rows and the seconds of the fit; means."""
    X, y = task.read(folder)
    found = []
    for held in splits(len(y), number):
        model = task.estimator(**settings(task, X[~held]))
        began = time.process_time()
        model.fit(X[~held], y[~held])
        seconds = time.process_time() - began
        found.append((explained(task, model, X[held], y[held]), seconds))
    return np.mean(found, axis=0)


def compare(title: str, tasks: list[Task], folder: Path, number: int) -> None:
    """Print the table of one group of settings."""
    own = [measure(task, folder, DEFAULT, number) for task in tasks]
    print(f"\n## {title}\n")
    print("| | " + " | ".join(task.name for task in tasks) + " | seconds |")
    print("|---|" + "--:|" * (len(tasks) + 1))
    level = " | ".join(f"{100 * d2:.1f}" for d2, _ in own)
    print(f"| default: explained, % | {level} | {sum(s for _, s in own):.1f} |", flush=True)
    for label, settings in GROUPS[title].items():
        found = [measure(task, folder, settings, number) for task in tasks]
        change = (f"{100 * (f[0] / d[0] - 1):+.1f}" for f, d in zip(found, own, strict=True))
        print(f"| {label} | {' | '.join(change)} | {sum(s for _, s in found):.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    names = [task.name for task in TASKS]
    parser.add_argument("--sets", nargs="+", choices=names, default=names)
    parser.add_argument("--splits", type=int, default=2)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # constant columns in some split, numbers beyond the range
    tasks = [task for task in TASKS if task.name in arguments.sets]
    for title in arguments.groups:
        compare(title, tasks, arguments.folder, arguments.splits)


if __name__ == "__main__":
    main()
