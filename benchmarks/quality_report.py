"""Results of `python -m benchmarks quality` as tables: figures, wins and losses, and the targets.

Does not know how a fit is measured (see quality.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import stored
from .quality_data import FOLDS, TABLES
from .results import number
from .variants import QUALITY

Results = dict[tuple[Any, ...], dict[str, Any]]  # by table, fold and model

METRICS = {"binomial": "auc", "squared": "r2", "gamma": "r2", "poisson": "d2"}
ERRORS = {"binomial": "log_loss", "squared": "rmse", "gamma": "deviance", "poisson": "deviance"}
NAMES = {"auc": "AUC", "r2": "R²", "d2": "D²", "log_loss": "log loss", "rmse": "RMSE",
         "deviance": "deviance"}  # fmt: skip
TIE = {"auc": 0.002, "r2": 0.005, "d2": 0.005}  # smaller differences count as a tie


def read(file: Path) -> Results:
    return stored.read(file, ("set", "fold", "who"))


def page(found: Results) -> str:
    """Return all tables as Markdown."""
    parts = [
        ("Metric on the test rows (AUC, R² or D²; larger is better):", figures(found, METRICS)),
        ("Error on the test rows (smaller is better):", figures(found, ERRORS)),
        ("CPU seconds of a fit:", figures(found, None)),
        (f"Wins, ties and losses on the folds that both have ({_ties()}):", comparisons(found)),
        ("Targets:", targets(found)),
    ]
    return "\n\n".join([*(f"{head}\n\n{body}" for head, body in parts), versions(found)])


def versions(found: Results) -> str:
    """Return the versions that were measured, by library."""
    used: dict[str, set[str]] = {}
    for (_, _, who), line in found.items():
        used.setdefault(QUALITY[who].rival.distribution, set()).add(line["version"])
    named = [f"{name} {' and '.join(sorted(used[name]))}" for name in sorted(used)]
    return f"Versions: {', '.join(named)}. That of cwboost is the commit of its sources."


def _ties() -> str:
    sizes = [f"{TIE['auc']:g} of AUC", f"{TIE['r2']:g} of R² or D²"]
    return "a tie is a difference of at most " + " or ".join(sizes)


# --- figures --------------------------------------------------------------------------------------


def figures(found: Results, names: dict[str, str] | None) -> str:
    """Return a table of means over folds: of the figures named by loss, or of CPU seconds."""
    who = [name for name in QUALITY if any(key[2] == name for key in found)]
    lines = [["table", *([] if names is None else ["figure"]), *(QUALITY[x].label for x in who)]]
    for name, about in TABLES.items():
        figure = "cpu_seconds" if names is None else names[about.loss]
        cells = [cell([found.get((name, fold, x)) for fold in FOLDS], figure) for x in who]
        if any(cells):
            lines.append([name, *([] if names is None else [NAMES[figure]]), *cells])
    return markdown(lines)


def cell(folds: list[dict[str, Any] | None], figure: str) -> str:
    """Return the mean over the folds that were run, with their number if some are missing."""
    some = [fold for fold in folds if fold is not None]
    values = [fold[figure] for fold in some if figure in fold]
    if not values:
        late = next((f"> {x['late']:g} s" for x in some if "late" in x), "")
        return late or ("failed" if some else "")
    mean = float(np.mean(values))
    text = f"{mean:.4f}" if figure in TIE else number(mean, 3 if figure == "cpu_seconds" else 4)
    return text if len(values) == len(folds) else f"{text} ({len(values)})"


# --- comparisons ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """A model against a rival on one table, on the folds that both have."""

    name: str
    metric: str
    difference: float  # of the means of the metric; positive if the model is better
    error: float  # standard error of the difference, over the folds; NaN for one fold
    time: float  # CPU seconds as a share of the rival's
    folds: int

    @property
    def verdict(self) -> str:
        if abs(self.difference) <= TIE[self.metric]:
            return "tie"
        return "win" if self.difference > 0 else "loss"

    def __str__(self) -> str:
        notes = [] if np.isnan(self.error) else [f"se {self.error:.4f}"]
        if self.folds < len(FOLDS):
            notes.append(f"{self.folds} of {len(FOLDS)} folds")
        return f"{self.name} {self.difference:+.4f} ({', '.join(notes)})"


PAIRS = [
    ("cwboost", "ebm-main"), ("cwboost-bags", "ebm-main"), ("cwboost", "cwboost-boosted"),
    ("cwboost", "superglm"), ("cwboost", "pygam"), ("cwboost-pairs", "ebm"),
    ("cwboost-pairs-bags", "ebm"), ("cwboost-pairs", "lightgbm"), ("cwboost-pairs", "xgboost"),
    ("cwboost-pairs-bags", "lightgbm"), ("cwboost-pairs-bags", "xgboost"),
]  # fmt: skip


def compare(found: Results, who: str, rival: str) -> list[Comparison]:
    out = []
    for name, about in TABLES.items():
        metric = METRICS[about.loss]
        both = [(found.get((name, f, who), {}), found.get((name, f, rival), {})) for f in FOLDS]
        both = [(a, b) for a, b in both if metric in a and metric in b]
        if both:
            apart = [a[metric] - b[metric] for a, b in both]
            n = len(both)
            error = np.std(apart, ddof=1) / np.sqrt(n) if n > 1 else np.nan
            seconds = np.sum([(a["cpu_seconds"], b["cpu_seconds"]) for a, b in both], axis=0)
            time = float(seconds[0] / max(seconds[1], 0.01))  # times have two decimals
            out.append(Comparison(name, metric, float(np.mean(apart)), float(error), time, n))
    return out


def comparisons(found: Results) -> str:
    lines = [["model", "rival", "wins", "ties", "losses", "lost tables", "share of the CPU time"]]
    for who, rival in PAIRS:
        tables = compare(found, who, rival)
        if not tables:
            continue
        verdicts = [x.verdict for x in tables]
        counts = [str(verdicts.count(x)) for x in ("win", "tie", "loss")]
        lost = ", ".join(str(x) for x in tables if x.verdict == "loss")
        times = [x.time for x in tables]
        share = f"{_share(min(times))} to {_share(max(times))}"
        lines.append([_full(who), _full(rival), *counts, lost, share])
    return markdown(lines)


def _full(who: str) -> str:
    label = QUALITY[who].label
    return f"cwboost, {label}" if QUALITY[who].own and label != "cwboost" else label


def _share(time: float) -> str:
    return f"1/{1 / time:.0f}" if time < 0.67 else number(time, 2)


# --- targets --------------------------------------------------------------------------------------

SHARE = 0.1  # of EBM's CPU time


def targets(found: Results) -> str:
    mains, pairs = compare(found, "cwboost", "ebm-main"), compare(found, "cwboost-pairs", "ebm")
    slow = [x for x in pairs if x.time > SHARE]
    rows = [
        ("default against EBM's main effects: no loss", mains,
         [str(x) for x in mains if x.verdict == "loss"]),
        ('interactions="auto" against EBM: no loss', pairs,
         [str(x) for x in pairs if x.verdict == "loss"]),
        (f'interactions="auto": at most {_share(SHARE)} of EBM\'s time', pairs,
         [f"{x.name} {_share(x.time)}" for x in slow]),
    ]  # fmt: skip
    lines = [["target", "tables", "result"]]
    for words, tables, missed in rows:
        verdict = f"missed: {', '.join(missed)}" if missed else "met"
        lines.append([words, str(len(tables)), verdict if tables else "not measured"])
    return markdown(lines)


def markdown(lines: list[list[str]]) -> str:
    head, *body = ("| " + " | ".join(row) + " |" for row in lines)
    return "\n".join([head, "|---" * len(lines[0]) + "|", *body])
