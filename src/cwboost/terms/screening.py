"""Screening: do the levels of a column differ by more than noise?

A term with hundreds of levels fits noise in all of them while boosting repeats it. Therefore the
estimators offer such a term only if the target speaks for it. Does not know about learners
(see `styles`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost.frames.columns import Floats

MAX_ROWS = 200_000  # evenly spaced rows that are read
MAX_OUTPUTS = 10  # the most frequent classes that are tested
WINDOW = 10  # levels on each side whose rows estimate the variance of a level
PRIOR_ROWS = 20


def target_block(y: NDArray[Any], n_classes: int = 0) -> Floats:
    """Return the (n, q) target of the tests: y, or marks of the most frequent of several classes.

    Examples
    --------
    >>> target_block(np.array([0, 1, 2, 1]), n_classes=3)[:, 0]
    array([0., 1., 0., 1.])
    """
    if n_classes <= 2:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    frequent = np.argsort(-np.bincount(y, minlength=n_classes), kind="stable")[:MAX_OUTPUTS]
    return np.asarray(y[:, None] == frequent, dtype=np.float64)


def level_evidence(codes: NDArray[Any], n_levels: int, target: Floats) -> float:
    """Return how clearly the mean target differs between levels, in standard errors.

    The F statistic of an analysis of variance, standardised; the largest over the outputs. Rows
    with a negative code are missing. Minus infinity if the rows are too few to tell.
    """
    found = -np.inf
    for y in target.T:
        level = _Levels(codes, n_levels, y)
        between, within = np.count_nonzero(level.n) - 1, level.rows - np.count_nonzero(level.n)
        if between < 1 or within < 5 or not (noise := level.squares.sum() / within) > 0:
            continue
        f = level.n @ level.mean**2 / between / noise
        found = max(found, (f - 1.0) / np.sqrt(2.0 / between + 2.0 / within))
    return float(found)


def spike_evidence(points: Floats, codes: NDArray[Any], target: Floats) -> float:
    """Return how clearly single values deviate from a smooth curve, in standard errors.

    `points` are the distinct values, increasing, and `codes` say which of them a row has. The mean
    of each value is compared with the line between the means of its neighbours, and the deviation
    is divided by its standard error. The mean square of these ratios is 1 if the curve is smooth.
    Variances are local, because y may vary more at one end than at the other.
    """
    gap = np.diff(points)
    left = gap[1:] / (gap[1:] + gap[:-1])  # weight of the left neighbour
    window, found = np.ones(2 * WINDOW + 1), -np.inf
    for y in target.T:
        level = _Levels(codes, len(points), y)
        within = np.maximum(level.n - 1.0, 0.0)
        if not within.sum() > 0 or not (noise := level.squares.sum() / within.sum()) > 0:
            continue
        # The variance of all rows counts like PRIOR_ROWS rows, so that no window has zero variance.
        squares = np.convolve(level.squares, window, "same") + PRIOR_ROWS * noise
        within = np.convolve(within, window, "same") + PRIOR_ROWS
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = squares / within / level.n
            line = left * level.mean[:-2] + (1.0 - left) * level.mean[2:]
            error = variance[1:-1] + left**2 * variance[:-2] + (1.0 - left) ** 2 * variance[2:]
            ratios = (level.mean[1:-1] - line) ** 2 / error
        ratios = ratios[np.isfinite(ratios)]
        if len(ratios) > WINDOW:
            # Neighbouring deviations are correlated: the variance of a square is 2, and 0.9 is
            # added by its four neighbours.
            found = max(found, (ratios.mean() - 1.0) / np.sqrt(2.9 / len(ratios)))
    return float(found)


class _Levels:
    """Number of rows, mean and sum of squared deviations of y in every level."""

    def __init__(self, codes: NDArray[Any], n_levels: int, y: Floats) -> None:
        known = codes >= 0
        step = max(1, -(-len(codes) // MAX_ROWS))
        codes, y = codes[::step][known[::step]], y[::step][known[::step]]
        self.rows = len(codes)
        y = y - y.mean() if len(y) else y
        self.n = np.bincount(codes, minlength=n_levels).astype(np.float64)
        with np.errstate(invalid="ignore"):
            means = np.bincount(codes, y, minlength=n_levels) / self.n
        self.squares = np.bincount(codes, (y - means[codes]) ** 2, minlength=n_levels)
        self.mean = np.where(self.n > 0, means, 0.0)  # less the mean of all rows
