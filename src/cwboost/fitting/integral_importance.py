"""How much each term of a model lowers the training risk, computed on the rows of its fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost import _core
from cwboost._core import SLOT_F, SLOT_H, SLOT_R, TRAINING_PART
from cwboost.frames.columns import Floats
from cwboost.model.model import Model

if TYPE_CHECKING:
    from .problem import FitProblem


def integral_shares(
    problem: FitProblem[Any], model: Model, moved: Sequence[int], part: int = TRAINING_PART
) -> Floats:
    """Return the importance of every term: its share of the fall of the training risk.

    The share is the inner product of the term's effect with the residual, averaged along the line
    from the start to the model; the line to a polished model begins at its intercept. `moved` has
    the numbers of the terms that are not zero throughout.
    """
    prepared, rows = problem.prepared, problem.rows
    q, total = model.n_outputs, rows.weight(part)
    of_term = prepared.shared_bins.of_term
    start = list(model.intercept_vector if model.polished else model.start_vector)
    # The momentum slot holds the scores at the start: it is free after boosting.
    batch: list[Any] = [_core.Fill(SLOT_F, start), _core.Fill(SLOT_H, start)]
    effects = {}
    terms = list(model.terms.values())
    for k in moved:
        term = terms[k]
        if term.chosen:
            effect = (prepared.core_rows[k] @ term.beta).T
            if model.polished:
                effect = effect - term.mean[:, None]
            effects[k] = np.ascontiguousarray(effect)
            batch.append(_core.Add(SLOT_F, of_term[k], effects[k].ravel()))
    batch.append(_core.MeanResidual(SLOT_H, SLOT_F, SLOT_R, part))
    batch.append(_core.BinSums([SLOT_R], [of_term[k] for k in effects], part))
    sums = rows.run(batch)[-1].sums
    out = np.zeros(len(model.terms))
    for (k, effect), s in zip(effects.items(), sums, strict=True):
        out[k] = np.sum(effect * s.reshape(q, -1)) / total
    return out
