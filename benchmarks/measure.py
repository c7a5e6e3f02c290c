"""Measures one fit in the process that runs it: time, memory, prediction, error.

Called through process.call. Does not know about the libraries (see rivals.py) or the result files.
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

PREDICTIONS = 5  # the best of these counts
EFFECT_ROWS, EFFECT_COLUMNS = (
    2000,
    200,
)  # maximum number of rows and columns for the error of effects


def fit_once(
    problem: str, rival: str, threads: int, rows: int | None, limit: float | None
) -> dict[str, Any]:
    """Return the figures of one fit, ready for JSON; None where a figure does not apply.

    A fit that takes more seconds than the limit ends the process.
    """
    warnings.simplefilter("ignore")  # the libraries issue many warnings that do not matter here
    task, library = make_problem(problem, rows), RIVALS[rival]()
    if not library.elsewhere:
        library.fit(task.few(), threads)  # one-time loading and compilation
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
    """Return the mean loss of the test rows, the AUC of classes, and RMS errors of f and the
    effects."""
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
    """Return the RMS error of the centred effects over columns and rows.

    In an additive model, the effect of a column is the change of the score when only this column
    changes, so the other columns are set to the values of one row.
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
