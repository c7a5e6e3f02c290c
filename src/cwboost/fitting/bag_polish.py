"""Polish an average of bags: its terms are refitted once, to all rows.

The rows that bags left out choose the weight of the refit: some bags are refitted to their own rows
for that. Averaging refits of all bags predicts no better and takes several times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from cwboost._core import TRAINING_PART
from cwboost.model.model import Model

from .bags import BaggedFit, FittedBag
from .parallel_fits import Halt, run_all
from .polish.cost import boosted_cost, impossible, polish_cost, slower
from .polish.hessian import SingularError
from .polish.polish import PREFERS_BOOSTED, not_polished, polished_model, refit_model
from .polish.weight import HeldOutRisk, choose_weight
from .smoothing import one_blas_thread

ENOUGH_ROWS = 5000  # left-out rows that choose the weight; a row counts in every bag without it
MIN_BAGS = 2
ROUGHLY = 0.5  # cost of a rough refit, which chooses the weight, relative to a complete one


def polish_average(bagged: BaggedFit, bags: Mapping[int, FittedBag], model: Model) -> Model:
    """Return the polished average of bags; a model that cannot be polished says why."""
    required, problem = bagged.options.polish is True, bagged.all_rows
    numbers = _bags_for_weight(bagged, sorted(bags))
    reason = impossible(problem, model)
    if reason is None and not required:
        boosted = sum(boosted_cost(problem, bag.model) for bag in bags.values())
        reason = slower((ROUGHLY * len(numbers) + 1) * polish_cost(problem, model), boosted)
    if reason is None:
        try:
            weight = _choose_weight(bagged, bags, numbers)
            if weight == 0.0:
                return not_polished(model, PREFERS_BOOSTED)
            with one_blas_thread():
                return polished_model(refit_model(problem, model, TRAINING_PART), weight)
        except SingularError as error:
            reason = str(error)
    return not_polished(model, reason, required=required)


def _bags_for_weight(bagged: BaggedFit, numbers: Sequence[int]) -> list[int]:
    """Return the first bags that left out enough rows together, or all."""
    left_out = np.cumsum(np.count_nonzero(bagged.draw.held[numbers], axis=1))
    n = max(MIN_BAGS, int(np.searchsorted(left_out, ENOUGH_ROWS)) + 1)
    return list(numbers[:n])


def _choose_weight(
    bagged: BaggedFit, bags: Mapping[int, FittedBag], numbers: Sequence[int]
) -> float:
    """Return the weight of the refit that the rows which some bags left out choose."""

    def job(number: int, _halt: Halt) -> HeldOutRisk | None:
        problem, model = bagged.pose(number), bags[number].model
        if impossible(problem, model) is not None:
            return None
        return refit_model(problem, model, TRAINING_PART, rough=True).held_out_risk()

    with one_blas_thread():
        jobs = [partial(job, number) for number in numbers]
        found = run_all(jobs, bagged.n_threads, bagged.bar, "polished bag")
    return choose_weight(HeldOutRisk.total([risk for risk in found if risk is not None]))
