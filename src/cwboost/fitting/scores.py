"""Scores of the rows of a fit by its model, computed by the core."""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost import _core
from cwboost.model.model import Model

from .prepared import PreparedRows
from .slots import SLOT_F


def score_batch(model: Model, binned: PreparedRows) -> list[Any]:
    """For the core: writes the scores of rows by a model of their terms, at the bins, to SLOT_F."""
    batch: list[Any] = [_core.Fill(SLOT_F, list(model.start_vector))]
    for k, term in enumerate(model.terms.values()):
        if term.chosen:
            effect = np.ascontiguousarray((binned.bin_effects[k] @ term.beta).T)
            batch.append(_core.Add(SLOT_F, binned.sets.of_term[k], effect.ravel()))
    return batch
