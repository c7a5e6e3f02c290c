"""Scores of rows: offset + intercept + effects, and the predictions that follow from them.

The methods of a model use these functions, and so do the packages that need more than the methods
return. Does not know how effects are evaluated (see prediction.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cwboost._utils.cores import threads_for
from cwboost._utils.text import count, list_names, shorten
from cwboost._utils.user_warnings import warn_user
from cwboost.frames.aligned import read_offset
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table

if TYPE_CHECKING:
    from .additive import AdditiveModel
    from .prediction import Findings


class Predictions(NamedTuple):
    """The predictions for the rows of a table."""

    values: Floats  # (n,), or (n, q) with several outputs
    found: Findings  # what to warn of


def output_labels(model: AdditiveModel) -> list[str]:
    """Return the labels of the outputs: classes, numbers from 0, or one empty label."""
    if model.n_outputs == 1:
        return [""]
    return [str(x) for x in model.classes or range(model.n_outputs)]


def read_offsets(model: AdditiveModel, table: Table, offset: Any, exposure: Any) -> Floats:
    """Return (n, q) the offset of every row, by default from the columns that the fit named."""
    settings = model.settings
    if settings.needs_offset and offset is None and exposure is None:
        raise ValueError(
            "the model was fitted with an offset (or exposure) for every row; pass offset= or "
            "exposure= for these rows, or offset=0"
        )
    offset = settings.offset if offset is None else offset
    exposure = settings.exposure if exposure is None else exposure
    return read_offset(table, offset, exposure, model.loss)


def add_effects(model: AdditiveModel, table: Table, score: Floats, n_threads: int) -> Findings:
    """Add the intercept and all effects to (n, q) offsets, in place."""
    score += model.intercept_vector
    return model.predictor.add(table, score, n_threads)


def predict_rows(
    model: AdditiveModel,
    table: Table,
    kind: str,
    offset: Any = None,
    exposure: Any = None,
    n_threads: int | None = None,
) -> Predictions:
    """Return predictions as `Model.predict` does, with findings in place of warnings."""
    score = read_offsets(model, table, offset, exposure)
    found = add_effects(model, table, score, threads_for(n_threads, table.n_rows))
    _refuse_nan(found)
    values = model.loss.predict(score, kind)
    if np.shape(values)[:1] != (table.n_rows,):
        raise ValueError(
            f"predict: the {kind} of the {model.loss.name} loss has the shape {np.shape(values)}, "
            f"but the table has {table.n_rows} rows; its function must return one value or one "
            "row of values per row"
        )
    return Predictions(values, found)


def _refuse_nan(found: Findings) -> None:
    if found.not_a_number >= 0:
        raise ValueError(
            f"row {found.not_a_number} of the table: the score is not a number; the row is too "
            "far from the training rows"
        )


def write_effects(
    model: AdditiveModel, table: Table, effects: Floats, n_threads: int | None = None
) -> None:
    """Write the centred effects of the chosen terms to (terms, n, q); warn of what was found.

    The memory order of `effects` must keep the outputs of a row together.
    """
    found = model.predictor.write(table, effects, threads_for(n_threads, table.n_rows))
    _refuse_nan(found)
    warn_of(found)


def warn_of(found: Findings) -> None:
    """Warn of the number of rows, by column, that are unlike the training rows."""
    if found.unseen:
        warn_user(
            f"levels never seen in training, taken as average (effect 0): {_rows(found.unseen)}",
        )
    if found.beyond:
        warn_user(
            "numbers beyond the range of the training rows by more than a tenth of it, where "
            f"effects are extrapolated: {_rows(found.beyond)}",
        )


def _rows(counts: Mapping[str, int]) -> str:
    return list_names(f"{shorten(column)} ({count(n, 'row')})" for column, n in counts.items())
