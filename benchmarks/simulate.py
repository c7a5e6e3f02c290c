"""Simulated columns and effects that targets and problems share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import BSpline
from scipy.special import expit

Floats = NDArray[np.float64]
KNOTS = np.arange(-3, 11) / 7  # ten cubic B-splines on [0, 1]
STEEPNESS = 1.5  # slope of the logit in the standardised score


@dataclass(frozen=True)
class Simulation:
    """The simulation of the paper (Schalk, Bischl, Rügamer): columns and their effects.

    Informative columns are uniform on [low, low + width], low and width from U[0, 100]; their
    effects are cubic splines of ten basis functions with coefficients N(0, 9). All other columns
    are standard normal and do not have an effect.
    """

    lows: Floats
    widths: Floats
    coefs: Floats  # (informative, 10)
    n_noise: int

    @classmethod
    def make(cls, seed: int, informative: int, noise: int) -> Simulation:
        rng = np.random.default_rng(seed)
        lows, widths = rng.uniform(0, 100, (2, informative))
        return cls(lows, widths, rng.normal(0, 3, (informative, len(KNOTS) - 4)), noise)

    def table(self, rng: np.random.Generator, n: int) -> dict[str, Floats]:
        spans = zip(self.lows, self.widths, strict=True)
        columns = [rng.uniform(low, low + width, n) for low, width in spans]
        columns += [rng.normal(size=n) for _ in range(self.n_noise)]
        return {f"x{j}": column for j, column in enumerate(columns)}

    def effects(self, table: dict[str, Floats]) -> dict[str, Floats]:
        """Return the effects of the informative columns, not centred."""
        return {
            f"x{j}": BSpline(KNOTS, coef, 3)((table[f"x{j}"] - low) / width)
            for j, (low, width, coef) in enumerate(
                zip(self.lows, self.widths, self.coefs, strict=True)
            )
        }

    def eta(self, table: dict[str, Floats]) -> Floats:
        return np.sum(list(self.effects(table).values()), axis=0)


def noisy(rng: np.random.Generator, eta: Floats, snr: float = 1.0) -> Floats:
    """Return eta + noise, var(noise) = var(eta) / SNR^2."""
    return eta + rng.normal(0, eta.std() / snr, len(eta))


def coin(rng: np.random.Generator, eta: Floats) -> Floats:
    """Return 1 with probability sigmoid(1.5 eta / sd(eta)), else 0."""
    return (rng.uniform(size=len(eta)) < expit(STEEPNESS * eta / eta.std())).astype(float)


def three_curves(table: dict[str, Floats]) -> dict[str, Floats]:
    """Return the effects of sin(2a) + b^2/2 - c."""
    return {"a": np.sin(2 * table["a"]), "b": table["b"] ** 2 / 2, "c": -table["c"]}


def ten_uniforms(rng: np.random.Generator, n: int) -> dict[str, Floats]:
    """Return columns a to j, uniform on [-2, 2]."""
    return {name: rng.uniform(-2, 2, n) for name in "abcdefghij"}
