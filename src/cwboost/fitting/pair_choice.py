"""Which of the fitted pairs stay: the paired one-standard-error rule on held-out rows.

All candidates were fitted together. Ordered by their size, the largest first, they are added to the
scores of the held-out rows one by one, which gives the loss of every row with 0, 1, 2, ... pairs.
The rule takes the fewest pairs whose risk is within one standard error of the lowest risk. It is
the standard error of the difference, row by row: the losses of one row by two models are so alike
that the standard error of a risk itself would be far too large. Does not know how pairs are fitted
(see stages.py and bags.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost.binning.index_sets import IndexSet
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, row_losses
from cwboost.model.model import Model

from .interactions import Pairs
from .prepared import PreparedRows
from .problem import FitProblem

ERRORS = 1.0  # standard errors of the difference to the lowest risk that fewer pairs may cost


class HeldOutScores(NamedTuple):
    """Scores of held-out rows by a fit of main effects, and by a fit with pairs."""

    loss: Loss
    y: Floats  # (n,)
    weights: Floats  # (n,)
    main: Floats  # (q, n) by the fit of main effects
    full: Floats  # (q, n) by the fit with all pairs
    effect: Callable[[int], Floats]  # (q, n) what the term of this number adds to `full`


def choose_pairs(problem: FitProblem[PreparedRows], main: Model, full: Model) -> Pairs:
    """Return the pairs of `full` that stay, judged by its validation rows.

    `full` is a model of the problem, `main` the model of main effects from which it continued.
    """
    prepared = problem.prepared
    held = np.asarray(prepared.split.validation) > 0.0
    coef = chosen_pairs(full, len(main.terms))
    scores = HeldOutScores(
        loss=prepared.data.loss,
        y=prepared.data.y[held],
        weights=np.asarray(prepared.split.validation)[held],
        main=problem.scores(main)[:, held],
        full=problem.scores(full)[:, held],
        effect=lambda k: effect_at(prepared, k, coef[k], held),
    )
    return pairs_of(full, fewest_pairs(scores, largest_first(prepared, coef)))


def chosen_pairs(model: Model, n_main: int) -> dict[int, Floats]:
    """Return the coefficients of the chosen terms after the first `n_main`, by their number."""
    terms = list(model.terms.values())
    return {k: terms[k].beta for k in range(n_main, len(terms)) if terms[k].chosen}


def pairs_of(model: Model, numbers: Sequence[int]) -> Pairs:
    """Return the columns of the terms of these numbers, which are pairs."""
    columns = [term.columns for term in model.terms.values()]
    return [(columns[k][0], columns[k][1]) for k in numbers]


def effect_at(prepared: PreparedRows, k: int, beta: Floats, rows: NDArray[np.bool_]) -> Floats:
    """Return (q, m) the effect of term k on some rows, at the bins."""
    bins = prepared.shared_bins.sets[prepared.shared_bins.of_term[k]]
    assert isinstance(bins, IndexSet)  # pairs do not have moments
    effect: Floats = (prepared.basis_rows[k] @ beta)[bins.index[rows]].T
    return effect


def largest_first(prepared: PreparedRows, coef: Mapping[int, Floats]) -> list[int]:
    """Return numbers of pairs by the mean square of their effects over the training rows."""
    sizes = {}
    for k, beta in coef.items():
        w = prepared.bin_weights[prepared.shared_bins.of_term[k]]
        sizes[k] = float(np.sum(w @ (prepared.basis_rows[k] @ beta) ** 2))
    return sorted(sizes, key=lambda k: -sizes[k])


def fewest_pairs(scores: HeldOutScores, order: Sequence[int]) -> list[int]:
    """Return as many of the first pairs of `order` as the rule takes, in the order of terms."""
    chosen = _fewest_within_one_error(lambda: _loss_path(scores, order), scores.weights)
    return sorted(order[:chosen])


def _loss_path(scores: HeldOutScores, order: Sequence[int]) -> Iterator[Floats]:
    """Yield the loss of every row with main effects alone, and with the first 1, 2, ... pairs."""
    yield row_losses(scores.loss, scores.y, scores.main)
    score = scores.full.copy()
    for k in order:
        score -= scores.effect(k)
    for k in order:
        score += scores.effect(k)
        yield row_losses(scores.loss, scores.y, score)


def _fewest_within_one_error(path: Callable[[], Iterator[Floats]], w: Floats) -> int:
    """Return the first number of pairs whose risk is within one standard error of the lowest.

    `path` is read several times instead of kept: it has the losses of all rows for every number.
    """
    risks = np.array([np.average(losses, weights=w) for losses in path()])
    best = int(np.argmin(np.where(np.isfinite(risks), risks, np.inf)))
    lowest = next(islice(path(), best, None))
    for chosen, losses in enumerate(path()):
        more = losses - lowest
        mean = np.average(more, weights=w)
        if mean <= ERRORS * np.linalg.norm(w * (more - mean)) / w.sum():
            return chosen
    return best
