"""Rows that users pass to a method of a fitted model, read with the settings of its fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cwboost.frames.aligned import check_present, read_weights, read_y
from cwboost.frames.columns import Floats
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table
from cwboost.model.model import Model
from cwboost.model.scoring import read_offsets


class GivenRows(NamedTuple):
    """A table and the arrays aligned with it."""

    data: Table
    y: Floats  # coded as the core takes it; empty if not needed
    weights: Floats
    offset: Floats  # (n, q)


def read_rows(model: Model, rows: Mapping[str, Any], needs_y: bool = True) -> GivenRows:
    """Read table, y, weights, offset and exposure; by default from the columns of the fit."""
    data = read(rows["table"])
    settings = model.settings
    w = read_weights(settings.weights if rows["weights"] is None else rows["weights"], data)
    check_present(w)
    if not needs_y:
        return GivenRows(data, np.empty(0), w, np.zeros((data.n_rows, model.n_outputs)))
    y = rows["y"] if rows["y"] is not None else settings.target
    if y is None:
        raise TypeError("importance: pass y as well")
    values, _ = read_y(y, data, model.loss, model.classes or None)
    offset = read_offsets(model, data, rows["offset"], rows["exposure"])
    return GivenRows(data, np.ascontiguousarray(values), w, offset)
