"""What learners that are functions of a number share: Linear, Polynomial and Spline."""

from __future__ import annotations

from cwboost._utils.text import quote
from cwboost.terms.training import TrainingColumn

from .base import Learner
from .step import Step

MIN_STEP = 1e-300  # so that inverses are finite


class CurveLearner(Learner):
    """A function of the number in the column, which needs two different values."""

    def when_constant(self) -> Learner:
        return Step(self.columns[0], name=self.name)  # one step, and missing cells


def training_range(column: TrainingColumn, n_steps: int = 1) -> tuple[float, float]:
    """Return the smallest and the largest number; raise if floats cannot split it in n_steps."""
    low, high = column.summary.low, column.summary.high
    if high - low < MIN_STEP * n_steps:
        raise ValueError(
            f"column {quote(column.name)}: numbers from {low:g} to {high:g} are too close together "
            "for 64-bit floats; rescale the column or leave it out"
        )
    return low, high
