"""What is measured of one fit, in the process that fits: time, memory, prediction, error.

Knows the figures; knows neither the libraries nor where the figures go. Called by process.call.
"""

from __future__ import annotations

import gc
import time
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score

from .problems import FitProblem, Rows, make_problem
from .process import Memory, at_most
from .rivals import RIVALS, Rival

PREDICTIONS = 5  # the best counts
EFFECT_ROWS, EFFECT_COLUMNS = 2000, 200  # most that effects are compared at


def fit_once(
    problem: str, rival: str, threads: int, rows: int | None, limit: float | None
) -> dict[str, Any]:
    """The figures of one fit, as JSON has them; None where there are none.

    A fit that takes more seconds than the limit ends the process.
    """
    warnings.simplefilter("ignore")  # many libraries, many warnings; what counts is the result
    task, library = make_problem(problem, rows), RIVALS[rival]()
    if not library.elsewhere:
        library.fit(task.few(), threads)  # loads and compiles what is loaded and compiled once
    gc.collect()
    memory, began = Memory(), time.perf_counter()
    with at_most(limit):
        library.fit(task, threads)
    fit_seconds = time.perf_counter() - began
    found = {
        "fit_seconds": fit_seconds,
        "megabytes": memory.added(),
        "predict_seconds": predict_seconds(library, task.test),
        **library.figures(),
    }
    return {
        "title": task.title,
        "test_rows": len(task.test.y),
        **found,
        **errors(library, task),
        "terms": library.terms(),
        "columns": task.train.table.shape[1],
    }


def predict_seconds(library: Rival, rows: Rows) -> float:
    times = []
    for _ in range(PREDICTIONS):
        began = time.perf_counter()
        library.predict(rows)
        times.append(time.perf_counter() - began)
    return min(times)


# --- errors ---------------------------------------------------------------------------------------


def errors(library: Rival, task: FitProblem) -> dict[str, float | None]:
    """Mean loss of the test rows, AUC of classes; RMS errors of f and of the effects, if known."""
    expected = library.predict(task.test)
    out = {"test_loss": test_loss(task.loss, task.test.y, expected), "auc": None}
    if task.loss == "binomial":
        out["auc"] = float(roc_auc_score(task.test.y, expected))
    f_error = effect_error = None
    if task.truth is not None:
        f_error = rms(library.score(task.test, task.loss) - task.truth)
        effect_error = effects_error(library, task)
    return {**out, "f_error": f_error, "effect_error": effect_error}


def rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


def test_loss(loss: str, y: np.ndarray, expected: np.ndarray) -> float:
    if loss == "squared":
        return float(np.mean((y - expected) ** 2) / 2)
    if loss == "binomial":
        return float(log_loss(y, expected))
    return float(np.mean(expected - y * np.log(np.maximum(expected, 1e-300))))


def effects_error(library: Rival, task: FitProblem) -> float | None:
    """RMS over columns and rows of the error of the centred effects.

    In an additive model the effect of a column is how the score moves if this column does, all
    others being those of one row.
    """
    names = list(task.test.table)
    if not library.additive or library.elsewhere or len(names) > EFFECT_COLUMNS:
        return None
    rows = task.test.part(slice(EFFECT_ROWS))
    first = rows.table.iloc[np.zeros(len(rows.y), dtype=int)].reset_index(drop=True)
    squares = []
    for name in names:
        table = first.assign(**{name: rows.table[name].reset_index(drop=True)})
        effect = library.score(Rows(table, rows.y, rows.exposure), task.loss)
        true = task.effects.get(name, np.zeros(len(task.test.y)))[: len(rows.y)]
        squares.append(np.var(effect - true))
    return float(np.sqrt(np.mean(squares)))
