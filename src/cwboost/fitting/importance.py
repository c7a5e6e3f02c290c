"""How much each term of a model lowers the training risk, computed on the rows of its fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost import _core
from cwboost.frames.table import Floats
from cwboost.model.model import Model

from .slots import SLOT_F, SLOT_G, SLOT_R, TRAINING

if TYPE_CHECKING:
    from .problem import FitProblem


def integral_shares(problem: FitProblem, model: Model, moved: Sequence[int]) -> Floats:
    """Importance of every term on the training rows, given the numbers of those that have been
    moved."""
    q, total = model.n_outputs, problem.rows.weight(TRAINING)
    binned, of_term = problem.binned, problem.binned.sets.of_term
    batch: list[Any] = [
        _core.Fill(SLOT_F, list(model.start_vector)),
        _core.Fill(SLOT_G, list(model.start_vector)),
    ]
    effects = {}
    terms = list(model.terms.values())
    for k in moved:
        term = terms[k]
        if term.chosen:
            effects[k] = np.ascontiguousarray((binned.bin_effects[k] @ term.beta).T)
            batch.append(_core.Add(SLOT_F, of_term[k], effects[k].ravel()))
    batch.append(_core.MeanResidual(SLOT_G, SLOT_F, SLOT_R, TRAINING))
    wanted = [of_term[k] for k in effects]
    batch.append(_core.BinSums([SLOT_R], wanted, TRAINING))
    sums = problem.rows.run(batch)[-1].sums
    out = np.zeros(len(model.terms))
    for (k, effect), s in zip(effects.items(), sums, strict=True):
        out[k] = np.sum(effect * s.reshape(q, -1)) / total
    return out
