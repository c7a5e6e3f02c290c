"""Row weights. Unweighted rows share one number, so that they need no memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .columns import Floats

# (n,) floats; booleans where all weights are 0 or 1; or `ones`.
RowWeights = NDArray[Any]


def ones(n_rows: int) -> Floats:
    """Return the weights of n unweighted rows: a view of a single 1.0."""
    return np.broadcast_to(np.ones(1), n_rows)


def all_weigh_one(weights: RowWeights) -> bool:
    """Whether the weights were made by `ones`."""
    return weights.strides == (0,)


def as_numbers(weights: RowWeights | None) -> Floats | None:
    """Return weights as kernels expect them: floats, or None if all rows have weight 1."""
    if weights is None or all_weigh_one(weights):
        return None
    return np.ascontiguousarray(weights, dtype=np.float64)


def as_part(weights: RowWeights) -> RowWeights:
    """Return weights as the core's rows expect the weights of a part."""
    return np.ones(len(weights), np.bool_) if all_weigh_one(weights) else weights


class Observations(NamedTuple):
    """How many observations some weights stand for."""

    whole: bool  # whether all weights are whole numbers, which count as repetitions
    total: float  # the sum of the weights
    n_rows: int  # with a weight
    largest: float

    @classmethod
    def of(cls, weights: RowWeights) -> Observations:
        simple = all_weigh_one(weights) or weights.dtype == np.bool_
        total = float(weights.sum())
        # Larger numbers are always whole, and their sum is not exact.
        whole = simple or (total < 2**53 and bool(np.all(weights == np.round(weights))))
        return cls(whole, total, int(np.count_nonzero(weights)), float(weights.max(initial=0)))


def count_observations(parts: Sequence[Observations]) -> float:
    """Return the number of observations of several shards.

    Whole weights count as repetitions, unless all are the same.
    """
    total, n_rows = sum(part.total for part in parts), sum(part.n_rows for part in parts)
    same = total == max(part.largest for part in parts) * n_rows
    return total if all(part.whole for part in parts) and not same else float(n_rows)
