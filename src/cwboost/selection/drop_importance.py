"""Drop importance: how much the held-out risk rises if a model is fitted without a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cwboost._utils.cores import check_threads
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.options import as_seed
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model
from cwboost.progress import as_progress

from .fold_refits import FoldRefits
from .grouping import By
from .importance_table import importance_table


def drop_importance(
    model: Model,
    rows: Mapping[str, Any],
    by: By,
    folds: Any = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    progress: Any = None,
) -> ResultTable:
    """Return the rise of the held-out risk if the model is fitted without a column, or a term.

    A column is left out of all its terms, also of pairs. The standard error is over the folds. A
    column that others can replace has a small importance.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> table = {"a": rng.normal(size=500), "b": rng.normal(size=500)}
    >>> y = 2 * table["a"] + table["b"] + rng.normal(size=500)
    >>> found = cb.fit(table, y).importance("drop", table=table, y=y)
    >>> list(found["column"]), bool(np.all(found["importance"] > 3 * found["standard error"]))
    (['a', 'b'], True)
    """
    bar, seed = as_progress(progress), as_seed(random_state)
    check_threads(n_threads)
    fit_input = FitInput.of(**rows)
    refits = FoldRefits.of(model, fit_input, "importance(kind='drop')", folds, seed, n_threads)
    chosen = [name for name, term in model.terms.items() if term.chosen]
    if by == "term":
        left_out = {name: {name} for name in chosen}
    else:
        columns = dict.fromkeys(c for name in chosen for c in model.terms[name].columns)
        left_out = {
            c: {name for name, term in model.terms.items() if c in term.columns} for c in columns
        }
    kept = [[n for n in model.terms if n not in names] for names in left_out.values()]
    risks = refits.risks([list(model.terms), *kept], n_threads, bar)
    return importance_table(by, dict(zip(left_out, risks[1:] - risks[0], strict=True)))
