"""How the training rows are distributed over a column: a short summary that plots draw."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost.frames.columns import Column, Floats, Numbers

from .summary import Sample

SPREAD_POINTS = 100  # the most points of a Spread
SPREAD_RANKS = (np.arange(SPREAD_POINTS) + 0.5) / SPREAD_POINTS
SPREAD_ROWS = 4096  # of more rows a random sample of this size is used


@dataclass(frozen=True, eq=False)
class Spread:
    """How the training rows are distributed over a column, in at most 100 points.

    Every point stands for a share of the rows. With at most 100 distinct values, each is a point.
    """

    rows: float  # weight of all training rows; their number if unweighted
    missing: float  # share of rows with a missing cell
    points: Floats  # increasing; empty for text, whose level shares are in the basis
    shares: Floats  # share of each point among the rows whose cell is known

    @classmethod
    def of(cls, column: Column, sample: Sample) -> Spread:
        """Return the spread of a sample; of a random part of it if there are many rows."""
        total = sample.weigh()
        missing = sample.weigh(column.missing) / total
        points = shares = np.empty(0)
        if isinstance(column, Numbers):
            points, shares = _thinned(*_distinct(column.values, sample))
        return cls(total, missing, points, shares)

    @classmethod
    def of_bins(cls, points: Floats, weights: Floats, numbers: bool = True) -> Spread:
        """Return the spread of rows in fine bins with increasing points, NaN (missing) last."""
        total, missing = float(weights.sum()), 0.0
        if np.isnan(points[-1]):
            is_missing = np.isnan(points)
            missing = float(weights[is_missing].sum()) / total
            points, weights = points[~is_missing], weights[~is_missing]
        known = weights > 0 if numbers else slice(0)
        return cls(total, missing, *_thinned(points[known], weights[known]))


@lru_cache(maxsize=1)
def _some_rows(n: int) -> NDArray[np.int64]:
    return np.random.default_rng(0).integers(0, n, SPREAD_ROWS)


def _distinct(values: Floats, sample: Sample) -> tuple[Floats, Floats]:
    """Return the distinct numbers of some rows of the sample, and their weights."""
    rows: Any = slice(None) if sample.marks is None else np.flatnonzero(sample.marks)
    if sample.n_rows > SPREAD_ROWS:
        some = _some_rows(sample.n_rows)
        rows = some if sample.marks is None else rows[some]
    weights = None if sample.weights is None else sample.weights[rows]
    return _core.weigh_distinct(values[rows], None, weights)


def _thinned(points: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return points and their shares; of many points, quantiles at equal steps instead."""
    reached = weights.cumsum()
    if len(points) <= SPREAD_POINTS:
        return points, weights / reached[-1:]
    at = np.minimum(reached.searchsorted(SPREAD_RANKS * reached[-1]), len(points) - 1)
    new = at[1:] != at[:-1]
    if new.all():
        return points[at], np.full(len(at), 1.0 / len(at))
    first = np.flatnonzero(np.append(True, new))
    return points[at[first]], np.diff(first, append=len(at)) / len(at)
