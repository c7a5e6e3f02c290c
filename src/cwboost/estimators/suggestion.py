"""Suggests a log link for skewed positive targets: compares the model with one of the gamma loss.

Both are judged by their R² on the validation rows. The model itself is never changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost.fitting.fit import fit
from cwboost.fitting.input_data import hold_out
from cwboost.frames.columns import Floats
from cwboost.model.model import Model

MIN_SKEWNESS = 1.0  # an exponential distribution has 2
MIN_GAIN = 0.005  # of R²
MIN_ERRORS = 2.0  # standard errors of the paired difference
N_ITER = 1000  # of the additional fit; enough to see that it is better


def is_skewed(y: Floats) -> bool:
    """Return whether y is positive and clearly skewed to the right.

    Examples
    --------
    >>> x = np.linspace(-2, 2, 100)
    >>> is_skewed(np.exp(x)), is_skewed(x + 3)
    (True, False)
    """
    if not (y > 0).all() or not (spread := y.std()) > 0:
        return False
    return bool(np.mean(((y - y.mean()) / spread) ** 3) > MIN_SKEWNESS)


def suggest_log_link(
    model: Model, problem: Mapping[str, Any], held_out: Any, **options: Any
) -> str | None:
    """Return a suggestion in one line if a log link predicts the mean clearly better, else None.

    `problem` and `options` are the arguments of `fit`, `held_out` is the share or the mask of the
    validation rows.
    """
    table, y = problem["table"], problem["y"]
    weights = np.ones(len(y)) if problem["weights"] is None else problem["weights"]
    held = held_out
    if not isinstance(held_out, np.ndarray):
        held = hold_out(held_out, weights, None, problem["random_state"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first fit has warned
        other = fit(
            **{**problem, "loss": "gamma"}, n_iter=N_ITER, validation=held, progress=False,
            **options,
        )  # fmt: skip
        rows, w = table.take(held), weights[held]
        # Polish has used these rows, boosting has not.
        own, by_log = ((y[held] - fitted.predict(rows)) ** 2 for fitted in (model.boosted, other))
    total = float(np.average((y[held] - np.average(y[held], weights=w)) ** 2, weights=w))
    if not _is_clearly_less(by_log, own, w, MIN_GAIN * total):
        return None
    r2 = [1.0 - float(np.average(squares, weights=w)) / total for squares in (by_log, own)]
    return (
        f"loss='gamma' (a log link) has R² {r2[0]:.3f} on the validation rows, this model "
        f"{r2[1]:.3f}; y is positive and skewed"
    )


def _is_clearly_less(a: Floats, b: Floats, w: NDArray[Any], least: float) -> bool:
    """Return whether the mean of a is less than that of b, by more than `least` and its error."""
    share, gain = w / w.sum(), b - a
    mean = float(share @ gain)
    error = float(np.sqrt(np.sum((share * (gain - mean)) ** 2)))
    return mean > max(least, MIN_ERRORS * error)
