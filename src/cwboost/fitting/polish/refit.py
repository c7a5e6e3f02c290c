"""The refit: coefficients by Newton steps, smoothing parameters by REML (Fellner and Schall).

With A = G + Lambda, lambda_j the smoothing of penalty S_j, and phi the dispersion:

    u        <- u + A^-1 (X'W r - Lambda u)
    lambda_j <- lambda_j phi (rank(S_j) / lambda_j - tr(A^-1 S_j)) / (u' S_j u)

(Wood and Fasiolo, 2017). Both are repeated on the quadratic approximation of the risk, which needs
no rows, before the scores of the rows are moved (unless the factor of A is approximate). G is
computed again only if the second derivatives have changed much: the gradient is exact, so an old G
costs steps and not accuracy.
Does not know where the rows are or how the result is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cwboost.frames.columns import Floats
from cwboost.losses import Loss

from .coordinates import Penalty
from .hessian import Factor, Gram, SingularError
from .polished_rows import PolishedRows

MAX_STEPS = 40
MAX_UPDATES = 8  # of the smoothing in one step
MAX_GRAMS = 5
MAX_HALVINGS = 10
TOLERANCE = 1e-3  # relative change of the effective df at the end
ROUGH = 1e-2  # the same for a rough refit
STILL = 1e-3  # change of the deviance per df below which second derivatives stay the same
CHANGED = 0.05  # relative change of the second derivatives that makes a new Gram matrix
ROUGHLY_CHANGED = 0.2  # the same for a rough refit
STRETCH = 30.0  # largest factor of a smoothing parameter in one step
FIRST_DF = 4.0  # effective df of a penalty that the first smoothing parameters assume
LARGEST, SMALLEST = 1e8, 1e-8  # smoothing parameters, as multiples of a typical size


@dataclass(frozen=True, eq=False)
class Refit:
    """The result of a refit."""

    u: Floats
    intercept: float
    edf: Floats  # of every coordinate
    dispersion: float
    factor: Factor


class Smoothing:
    """The smoothing parameters of all penalties; unknown until `begin` is called."""

    def __init__(self, rows: PolishedRows) -> None:
        self.penalties: list[Penalty] = []
        for i, own in enumerate(rows.coordinates):
            self.penalties += own.penalties(i)
        self.places = [rows.places[p.term] for p in self.penalties]
        self.size = rows.layout.size
        ranks = np.array([p.rank for p in self.penalties], dtype=np.float64)
        sizes = np.array([p.size.sum() for p in self.penalties])
        self.typical = 0.1 * rows.weight * ranks / sizes
        self.least = np.array([p.least for p in self.penalties])
        self.values = np.empty(0)
        self._last = np.zeros(len(ranks))  # last change of the logarithm
        self._speed = np.ones(len(ranks))

    def begin(self, u: Floats, phi: float, unit: float) -> None:
        """Start with what the coordinates of the boosted model suggest, unless values are known.

        `unit` is the unit of the second derivatives.
        """
        if len(self.values):
            return
        self.typical *= unit
        ranks = np.array([min(p.rank, FIRST_DF) for p in self.penalties])
        both = zip(self.penalties, self.places, strict=True)
        sizes = np.array([p.size @ u[place] ** 2 for p, place in both])
        largest = LARGEST * self.typical
        values = phi * ranks / np.maximum(sizes, phi * ranks / largest)
        self.values = np.maximum(values, self.typical)

    def rescale(self, ratio: float) -> None:
        """Multiply all parameters, because the weights of the rows have grown by a ratio."""
        self.typical *= ratio
        self.values *= ratio

    def by_term(self, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
        """Return the parameters of every term, given the names of the terms."""
        out: dict[str, tuple[float, ...]] = dict.fromkeys(names, ())
        for p, value in zip(self.penalties, self.values, strict=True):
            out[names[p.term]] += (float(value),)
        return out

    def diagonal(self) -> Floats:
        """Return the diagonal of Lambda."""
        out = np.zeros(self.size)
        for p, place, value in zip(self.penalties, self.places, self.values, strict=True):
            out[place] += value * p.size
        return out

    def update(self, u: Floats, inverse: Floats, phi: float, row: float) -> None:
        """Take a step of the Fellner-Schall iteration.

        `inverse` is the diagonal of A^-1, `row` the mean second derivative of one row.
        """
        for j, (p, place) in enumerate(zip(self.penalties, self.places, strict=True)):
            old = self.values[j]
            room = max(p.rank / old - float(p.size @ inverse[place]), 1e-12 / old)
            size = float(p.size @ u[place] ** 2)
            change = np.log(phi * room / size) if size > 0.0 else np.log(STRETCH)
            # Steps in the same direction get longer: the iteration is slow where a term vanishes.
            self._speed[j] = min(1.5 * self._speed[j], 8.0) if change * self._last[j] > 0.0 else 1.0
            self._last[j] = change
            limit = np.log(STRETCH)
            new = old * np.exp(np.clip(self._speed[j] * change, -limit, limit))
            least = max(SMALLEST * self.typical[j], row * self.least[j])
            self.values[j] = np.clip(new, least, max(least, LARGEST * self.typical[j]))


def refit(
    rows: PolishedRows,
    loss: Loss,
    n_rows: float,
    smoothing: Smoothing,
    *,
    rough: bool = False,
    max_steps: int = MAX_STEPS,
) -> Refit:
    """Refit the coordinates of `rows` and the smoothing, both starting at their present values.

    The present scores are in SLOT_F. `n_rows` is the number of observations that the weights stand
    for. `rough` is for a refit that is only compared.
    """
    tolerance, changed = (ROUGH, ROUGHLY_CHANGED) if rough else (TOLERANCE, CHANGED)
    gram: Gram | None = None
    constant, total, n_grams, edf = np.empty(0), 0.0, 0, np.inf
    risk, squares = rows.residuals()
    still = False  # the scores hardly move any more
    for _ in range(max_steps):
        gradient, residual_sum = rows.gradient()
        if gram is None or not (loss.linear or still or n_grams == MAX_GRAMS):
            new_constant, new_total = rows.curvature()
            if not new_total > 0.0:  # such as a Huber loss whose delta all residuals exceed
                raise SingularError
            if gram is None or _changed(constant, total, new_constant, new_total) > changed:
                constant, total = new_constant, new_total
                gram = rows.gram(constant, total)
                n_grams += 1
        curvature, unit = total / rows.weight, rows.weight / n_rows
        first_phi = dispersion(loss, squares / total, n_rows, 0.0) * unit
        # Second derivatives follow the unit of y; probabilities of classes do not have one.
        smoothing.begin(rows.u, first_phi, 1.0 if loss.target == "classes" else curvature)
        right = gradient - constant * (residual_sum / total) - curvature * rows.tails(rows.u)
        at_last_step, last = edf, np.inf
        for _ in range(MAX_UPDATES):
            penalty = smoothing.diagonal()
            factor = gram.factor(penalty)
            inverse = factor.inverse_diagonal()
            own_edf = 1.0 - penalty * inverse
            edf = float(own_edf.sum())
            direction = factor.solve(right - penalty * rows.u)
            phi = dispersion(loss, squares / total, n_rows, edf) * unit
            if not factor.exact or abs(edf - last) < tolerance * edf:
                break
            last = edf
            smoothing.update(rows.u + direction, inverse, phi, total / n_rows)
        shift = (residual_sum - float(constant @ direction)) / total
        before = risk
        penalised = _Penalised(rows, penalty, curvature)
        risk, squares = _move(rows, direction, shift, penalised, risk)
        moved = abs(before - risk) * rows.weight / (phi * max(edf, 1.0))
        still = moved < STILL
        if moved < 0.1 and abs(edf - at_last_step) < tolerance * edf:
            break
        if not factor.exact:
            smoothing.update(rows.u, inverse, phi, total / n_rows)
    return Refit(rows.u.copy(), rows.intercept, own_edf, phi, factor)


def _changed(constant: Floats, total: float, new: Floats, new_total: float) -> float:
    """Return how much the second derivatives have changed, relative to their size."""
    size = float(np.abs(constant).sum()) + total
    return (float(np.abs(new - constant).sum()) + abs(new_total - total)) / size


class _Penalised(NamedTuple):
    """All penalties at given smoothing parameters, on the scale of the risk."""

    rows: PolishedRows
    diagonal: Floats
    curvature: float  # mean second derivative of the rows

    def __call__(self, u: Floats) -> float:
        tails = self.curvature * float(u @ self.rows.tails(u))
        return 0.5 * (float(self.diagonal @ u**2) + tails) / self.rows.weight


def _move(
    rows: PolishedRows, direction: Floats, shift: float, penalised: _Penalised, risk: float
) -> tuple[float, float]:
    """Move along a direction, halved until the penalised risk does not rise; see `residuals`."""
    rows.direct(direction, shift)
    now, length = risk + penalised(rows.u), 1.0
    for _ in range(MAX_HALVINGS):
        trial = rows.try_step(length)
        if trial + penalised(rows.u + length * direction) <= now + 1e-12 * abs(now):
            rows.u = rows.u + length * direction
            rows.intercept += length * shift
            rows.accept()
            break
        length /= 2.0
    return rows.residuals()


def dispersion(loss: Loss, ratio: float, n_rows: float, edf: float) -> float:
    """Return the dispersion: sum(w r^2) / sum(w h), corrected for the df, as the loss allows it."""
    found = loss.dispersion_of(ratio * n_rows / max(n_rows - edf - 1.0, 1.0))
    if not found > 0.0:
        raise SingularError("the residuals are zero")
    return found
