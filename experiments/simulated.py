"""The paper's simulated rows, the learners it fits to them, and its error of effects.

benchmarks.simulate has the formulas. Does not know about the experiments.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import cwboost as cb
from benchmarks.simulate import Floats, Simulation, noisy

N = (5_000, 10_000, 20_000, 50_000, 100_000)
P = (5, 10, 20, 50)
RELATIVE = (0.5, 1.0, 2.0, 5.0)  # columns of noise per informative column
SNR = (0.1, 1.0, 10.0)
DRAWS = 20
RATE, DF, KNOTS = 0.05, 5, 20
GRID = 1000  # points at which effects are compared
REPEATS = 3  # of a timing


class Draw(NamedTuple):
    """One data set of the simulation."""

    simulation: Simulation
    table: dict[str, Floats]
    eta: Floats  # y without noise
    y: Floats

    @property
    def informative(self) -> list[str]:
        return list(self.table)[: len(self.simulation.lows)]


def draw(n: int, p: int, relative: float, snr: float, draw: int = 0) -> Draw:
    """Return a draw. Draws of one configuration share columns and effects, but not the noise."""
    noise = int(p * relative)
    simulation = Simulation.make([n, p, noise], p, noise)
    table = simulation.table(np.random.default_rng([n, p, noise, 1]), n)
    eta = simulation.eta(table)
    return Draw(simulation, table, eta, noisy(np.random.default_rng([draw, n, p]), eta, snr))


def configurations(
    n: Any = N, p: Any = P, relative: Any = RELATIVE, snr: Any = SNR
) -> list[dict[str, Any]]:
    return grid(n=n, p=p, relative=relative, snr=snr)


def grid(**axes: Any) -> list[dict[str, Any]]:
    """Return a dictionary per point of the grid."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def splines(table: dict[str, Floats], df: float = DF, knots: int = KNOTS) -> list[cb.Spline]:
    return [cb.Spline(name, df=df, knots=knots, tails="smooth") for name in table]


def mise(model: cb.Model, data: Draw) -> float:
    """Return the mean over the informative columns of the integral of (true - estimated effect)^2
    over the column's range, both with mean zero over the rows."""
    true = data.simulation.effects(data.table)
    errors = []
    for name in data.informative:
        x, estimate = model.effect(name, n=GRID).values()
        at = data.simulation.effects(dict.fromkeys(data.informative, x))[name]
        errors.append(np.trapezoid((at - true[name].mean() - estimate) ** 2, x))
    return float(np.mean(errors))


def median_seconds(function: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Return the median time of several calls."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return median(times)


def cost(fit: Callable[[int], Any], n_iter: int) -> dict[str, float]:
    """Return the seconds of the set-up, and of the iterations without it: medians of three."""
    setup, whole = (median_seconds(partial(fit, m)) for m in (0, n_iter))
    return {"setup": setup, "loop": max(whole - setup, 1e-9)}
