"""The weight of the polished scores in the final model, chosen by rows that neither fit has seen.

The final score is (1 - weight) boosted + weight polished. Along the weight the risk of held-out
rows is nearly a parabola, whose lowest point estimates the best weight, with a variance that
follows from its curvature. The estimate is combined with a prior: weight 1, variance 1/16. So the
boosted scores get a share only where held-out rows clearly ask for it (docs/defaults.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

from cwboost.frames.columns import Floats

PRIOR_PRECISION = 16.0
NEARLY_ONE = 0.9  # weights above this are taken for 1, weights below 1 - this for 0


class HeldOutRisk(NamedTuple):
    """The sum of the losses of held-out rows at the weights 0, 1/2 and 1, and the dispersion."""

    losses: tuple[float, float, float]
    dispersion: float

    @classmethod
    def total(cls, folds: Sequence[HeldOutRisk]) -> HeldOutRisk:
        """Return the sums over folds, and the mean dispersion."""
        if not folds:
            return cls((0.0, 0.0, 0.0), 1.0)
        a, b, c = (sum(fold.losses[i] for fold in folds) for i in range(3))
        return cls((a, b, c), sum(fold.dispersion for fold in folds) / len(folds))


def choose_weight(held_out: HeldOutRisk) -> float:
    """Return the weight of the polished scores, from 0 to 1."""
    at_zero, at_half, at_one = held_out.losses
    if not all(map(isfinite, held_out.losses)):  # one of the two fits has diverged
        return 1.0 if isfinite(at_one) else 0.0
    curvature = 4.0 * (at_zero + at_one - 2.0 * at_half)
    slope = at_one - at_zero - curvature / 2.0
    if curvature > 0.0:
        precision, best = curvature / held_out.dispersion, -slope / curvature
    else:  # the two hardly differ
        precision, best = 0.0, 1.0
    weight = (precision * best + PRIOR_PRECISION) / (precision + PRIOR_PRECISION)
    if weight > NEARLY_ONE:
        return 1.0
    return 0.0 if weight < 1.0 - NEARLY_ONE else float(weight)


def combine(weight: float, boosted: Floats, polished: Floats) -> Floats:
    """Return the weighted mean of two arrays of coefficients."""
    return polished if weight == 1.0 else (1.0 - weight) * boosted + weight * polished
