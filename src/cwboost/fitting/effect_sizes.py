"""The sizes of the effects of a model, computed on the rows of its fit.

Does not know about files or how sizes are shown (see explain/sizes.py).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost import _core
from cwboost._core import PASSING_SLOT, TRAINING_PART
from cwboost.model.model import Model
from cwboost.model.records import Sizes
from cwboost.model.term import Term, column_groups

if TYPE_CHECKING:
    from .problem import FitProblem


def effect_sizes(problem: FitProblem[Any], model: Model) -> Sizes:
    """Return the weighted mean absolute effects of a model over the training rows of a problem.

    The model may be any model with the terms of the problem. Effects are taken at the bins. With
    several outputs a size is the mean over the outputs.
    """
    groups: dict[str, list[tuple[int, Term]]] = {}
    group_of = column_groups(model.terms)
    for k, (name, term) in enumerate(model.terms.items()):
        if term.chosen:
            groups.setdefault(group_of[name], []).append((k, term))
    batch: list[Any] = []
    terms: dict[str, int] = {}  # positions of the replies
    columns: dict[str, int] = {}
    for group, members in groups.items():
        for k, term in members:
            _append_effects(batch, problem, [(k, term)])
            terms[term.name] = len(batch) - 1
        if len(members) > 1:
            _append_effects(batch, problem, members)
        columns[group] = len(batch) - 1
    replies = problem.rows.run(batch)
    total = problem.rows.weight(TRAINING_PART)

    def sizes_at(places: dict[str, int]) -> MappingProxyType[str, float]:
        return MappingProxyType(
            {name: float(np.mean(replies[i].sums[0])) / total for name, i in places.items()}
        )

    return Sizes(sizes_at(terms), sizes_at(columns))


def _append_effects(
    batch: list[Any], problem: FitProblem[Any], members: list[tuple[int, Term]]
) -> None:
    """Append verbs that add up some terms, in a slot that is not stored, and sum |effect|."""
    prepared = problem.prepared
    batch.append(_core.Mix(PASSING_SLOT, 0.0, PASSING_SLOT, 0.0, PASSING_SLOT))  # zeros
    for k, term in members:
        effect = np.ascontiguousarray((prepared.core_rows[k] @ term.beta).T)
        batch.append(_core.Add(PASSING_SLOT, prepared.shared_bins.of_term[k], effect.ravel()))
    mean = np.sum([term.mean for _, term in members], axis=0)
    batch.append(_core.AbsoluteSum(PASSING_SLOT, TRAINING_PART, mean.tolist()))
