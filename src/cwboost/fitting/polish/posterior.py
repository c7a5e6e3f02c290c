"""The posterior covariance of the coefficients of each column, as a thin factor.

Given the smoothing parameters, the covariance of the coordinates is phi A^-1. The uncertainty of
the smoothing parameters adds J V J' (Wood, Pya and Saefken, 2016): J = du/d log(lambda) =
-lambda A^-1 S u, and V is the inverse of their expected information, taken penalty by penalty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import fits_single_precision
from cwboost.frames.columns import Floats

from .model_refit import ModelRefit
from .refit import Refit, Smoothing

KEPT = 1.0 - 1e-4  # share of the variance that the factor keeps
PRIOR_INFORMATION = 0.05  # about the logarithm of a smoothing parameter: a variance of 20


def posterior_factors(
    part: ModelRefit, names: Sequence[str]
) -> dict[str, Mapping[str, NDArray[np.float32]]]:
    """Return for every column, or pair, the factors of its terms: covariance = F F'.

    The factors of a column's terms have the same number of columns: stacked, they are the factor
    of the joint covariance. With several scores the result is empty: a refit of one score takes
    the others as given, so the covariance between scores is not known. It is also empty if the
    factors are too large or too small for single precision.
    """
    if part.boosted.n_outputs > 1:
        return {}
    rows, found, smoothing = part.rows[0], part.found[0], part.smoothing[0]
    out: dict[str, Mapping[str, NDArray[np.float32]]] = {}
    for g, group in enumerate(rows.groups):
        at, block = found.factor.inverse_block(g)
        covariance = found.dispersion * block
        for jacobian, variance in _smoothing_directions(found, smoothing, at, block):
            covariance += variance * np.outer(jacobian, jacobian)
        thin = _thin_factor(covariance)
        position = {int(p): i for i, p in enumerate(at)}
        factors = {}
        for i in group:
            place = rows.places[i]
            own = [position[p] for p in range(place.start, place.stop)]
            matrix = rows.coordinates[i].matrix @ thin[own]
            if not fits_single_precision(matrix):
                return {}
            factors[names[rows.terms[i]]] = np.asarray(matrix, dtype=np.float32)
        columns = rows.problem.plans[rows.terms[group[0]]].columns
        key = columns[0] if len(columns) == 1 else names[rows.terms[group[0]]]
        out[key] = MappingProxyType(factors)
    return out


def _smoothing_directions(
    found: Refit, smoothing: Smoothing, at: np.ndarray, block: Floats
) -> list[tuple[Floats, float]]:
    """Return how a group's coordinates move with each smoothing parameter, and its variance."""
    out = []
    where = {int(p): i for i, p in enumerate(at)}
    for p, place, value in zip(
        smoothing.penalties, smoothing.places, smoothing.values, strict=True
    ):
        if place.start not in where or place.stop == place.start:
            continue
        own = np.array([where[q] for q in range(place.start, place.stop)])
        used = p.size > 0.0
        own, size = own[used], p.size[used]
        root = np.sqrt(value * size)
        smoother = np.eye(len(own)) - root[:, None] * block[np.ix_(own, own)] * root
        information = 0.5 * float(np.sum(smoother**2)) + PRIOR_INFORMATION
        jacobian = -block[:, own] @ (value * size * found.u[at[own]])
        out.append((jacobian, 1.0 / information))
    return out


def _thin_factor(covariance: Floats) -> Floats:
    """Return F (d, r) with F F' close to the covariance, r as small as possible."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    total = values.sum()
    n = int(np.searchsorted(np.cumsum(values), KEPT * total)) + 1 if total > 0.0 else 0
    return np.asarray(vectors[:, :n] * np.sqrt(values[:n]))
