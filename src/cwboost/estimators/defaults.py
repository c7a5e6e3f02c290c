"""The defaults of the estimators: validation rows, number of iterations and optimizer.

docs/defaults.md gives the reasons for all numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost.frames.columns import Floats
from cwboost.losses import Loss
from cwboost.optimizers import Hybrid, Optimizer, as_optimizer

HOLD_OUT_FROM = 1000  # rows; with fewer all rows are needed for the fit
HOLD_OUT = 0.2  # share of the rows, or of the groups
N_ITER_WITH_VALIDATION = 2000  # validation rows stop the fit at the best iteration
N_ITER_WITHOUT_VALIDATION = 200  # diabetes and Friedman's data are best at 100-200, worse at 1000
RATE, MOMENTUM = 0.3, 0.037  # of optimizer="hybrid"
# For bags or interactions with a loss whose second derivative is small (two classes: at most 1/4):
# pairs need many steps, and bags average out the loss of precision (docs/quality.md).
LARGE_RATE, SMALL_MOMENTUM = 4.0, 0.0034


def choose_hold_out(validation: Any, n: int, weights: Floats | None) -> Any:
    """Return which of n rows are held out, given the estimator's parameter `validation`.

    The result is a share, a mask for "last", or None if no rows are held out.
    """
    if not isinstance(validation, str | int | float | None):
        raise TypeError(
            "validation: expected 'auto', 'last', a fraction or None; pass your own split to "
            "fit(..., validation=)"
        )
    if validation not in ("auto", None) and n < 2:
        raise ValueError(f"validation: with n_samples = {n} no row can be held out")
    if not isinstance(validation, str):
        return validation
    if validation == "last":
        return np.arange(n) >= np.floor((1.0 - HOLD_OUT) * n)
    if validation != "auto":
        raise ValueError(
            f"validation: expected 'auto', 'last', a fraction or None, got {validation!r}; pass "
            "your own split to fit(..., validation=)"
        )
    present = n if weights is None else int(np.count_nonzero(weights))
    return HOLD_OUT if present >= HOLD_OUT_FROM else None


def named_optimizer(
    name: str, loss: Loss, *, has_validation: bool, several_fits: bool
) -> Optimizer:
    """Return the optimizer that a name means, such as "hybrid".

    Without validation rows, an optimizer that needs them is replaced. `several_fits` says that bags
    or interactions are fitted.
    """
    if name.lower() == "hybrid" and has_validation:
        large = several_fits and loss.large_steps
        steps = (LARGE_RATE, SMALL_MOMENTUM) if large else (RATE, MOMENTUM)
        return Hybrid(*steps, then="training")
    optimizer = as_optimizer(name)
    return optimizer if has_validation else optimizer.without_validation()
