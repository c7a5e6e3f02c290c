"""Scores of the rows of a fit by its model, computed by the core."""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost import _core
from cwboost._core import SLOT_F
from cwboost.model.model import Model

from .prepared import PreparedTerms


def score_batch(model: Model, prepared: PreparedTerms) -> list[Any]:
    """Return verbs for the core that write the scores of the rows by a model, at the bins, to f."""
    batch: list[Any] = [_core.Fill(SLOT_F, list(model.start_vector))]
    for k, term in enumerate(model.terms.values()):
        if term.chosen:
            effect = np.ascontiguousarray((prepared.core_rows[k] @ term.beta).T)
            batch.append(_core.Add(SLOT_F, prepared.shared_bins.of_term[k], effect.ravel()))
    return batch
