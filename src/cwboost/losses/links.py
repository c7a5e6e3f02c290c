"""Inverse link functions by name: how scores become responses. Exporters write the same functions
in SQL, ONNX and JavaScript, and refuse a link whose name they do not know.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, softmax

from cwboost.frames.columns import Floats


def _identity(score: Floats) -> Floats:
    return score[:, 0]


def _exp(score: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.exp(score[:, 0])


def _expit(score: Floats) -> Floats:
    return np.asarray(expit(score[:, 0]))


def _softmax(score: Floats) -> Floats:
    return np.asarray(softmax(score, axis=1))


# From scores (n, q) to responses: (n,), or (n, q) for softmax.
INVERSE_LINKS: dict[str, Callable[[Floats], Floats]] = {
    "identity": _identity,
    "log": _exp,
    "logit": _expit,
    "softmax": _softmax,
}
