"""The problems on which libraries are compared: training rows, test rows, and the truth if known.

Does not know about the libraries (see rivals.py). To add a problem, write a function of the number
of training rows and add a line to PROBLEMS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from .simulate import STEEPNESS, Simulation, coin, noisy, ten_uniforms, three_curves

TEST_ROWS = 20_000
FEW_ROWS, FEW_COLUMNS = 500, 20  # size of the warm-up problem


@dataclass(frozen=True)
class Rows:
    """A part of the data. Text columns of the table are categories without missing cells."""

    table: pd.DataFrame
    y: np.ndarray  # numbers; 0 and 1 for classes
    exposure: np.ndarray | None = None  # for counts

    @property
    def text(self) -> list[str]:
        """Return the names of the columns that are not numbers."""
        return [name for name, kind in self.table.dtypes.items() if kind == "category"]

    def part(self, rows: Any, columns: Any = slice(None)) -> Rows:
        exposure = None if self.exposure is None else self.exposure[rows]
        return Rows(self.table.iloc[rows, columns].copy(), self.y[rows], exposure)


@dataclass(frozen=True)
class FitProblem:
    """The rows to fit, and the truth that fits are compared with."""

    title: str
    loss: str  # "squared", "binomial", "poisson" or "gamma"
    train: Rows
    test: Rows
    effects: dict[str, np.ndarray] | None = None  # true effects at the test rows; others are zero
    constant: float = 0.0  # in the true score
    linear: bool = False  # lines suffice instead of curves

    @property
    def truth(self) -> np.ndarray | None:
        """Return the true score at the test rows, without the exposure."""
        if self.effects is None:
            return None
        return self.constant + np.sum(list(self.effects.values()), axis=0)

    def few(self) -> FitProblem:
        part = self.train.part(slice(FEW_ROWS), slice(FEW_COLUMNS))
        return replace(self, train=part, test=part, effects=None)


def curves(n: int) -> FitProblem:
    return _curves(n, 10, "sin(2a) + b²/2 - c + N(0, 1)")


def many_curves(n: int) -> FitProblem:
    return _curves(n, 100, "sin(2a) + b²/2 - c + N(0, 1)")


def _curves(n: int, p: int, title: str) -> FitProblem:
    rng = np.random.default_rng(11)
    parts = []
    for size in (n, TEST_ROWS):
        table = ten_uniforms(rng, size) | {f"x{j}": rng.uniform(-2, 2, size) for j in range(10, p)}
        effects = three_curves(table)
        y = np.sum(list(effects.values()), axis=0) + rng.normal(size=size)
        parts.append(Rows(pd.DataFrame(table), y))
    return FitProblem(f"{title}, n = {n:,}, p = {p}", "squared", *parts, effects)


def seeded_curves(n: int, loss: str, seed: int) -> FitProblem:
    """Return the curves f = sin(2a) + b²/2 - c with y of the loss: f + N(0, 1), 1 with probability
    sigmoid(f - 2/3), counts or positive numbers with mean exp(f/2)."""
    rng = np.random.default_rng(seed)
    table = ten_uniforms(rng, n + TEST_ROWS)
    scale = 0.5 if loss in ("poisson", "gamma") else 1.0
    effects = {name: scale * effect for name, effect in three_curves(table).items()}
    constant = -2 / 3 if loss == "binomial" else 0.0  # the mean of b²/2
    score = constant + np.sum(list(effects.values()), axis=0)
    draw = {
        "squared": lambda: rng.normal(score),
        "binomial": lambda: (rng.uniform(size=len(score)) < expit(score)).astype(float),
        "poisson": lambda: rng.poisson(np.exp(score)).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(score) / 2.0),
    }
    rows = Rows(pd.DataFrame(table), draw[loss]())
    train, test = slice(n), slice(n, None)
    true = {name: effect[test] for name, effect in effects.items()}
    title = f"sin(2a) + b²/2 - c, {loss}, n = {n:,}, p = 10"
    return FitProblem(title, loss, rows.part(train), rows.part(test), true, constant)


def paper(n: int) -> FitProblem:
    return _paper(n, "squared")


def paper_classes(n: int) -> FitProblem:
    return _paper(n, "binomial")


def _paper(n: int, loss: str) -> FitProblem:
    """Return 20 informative and 30 noise columns; both parts share noise level and scale."""
    simulation = Simulation.make(1, 20, 30)
    rng = np.random.default_rng(12)
    table = simulation.table(rng, n + TEST_ROWS)
    effects, eta = simulation.effects(table), simulation.eta(table)
    train, test = slice(n), slice(n, None)
    if loss == "squared":
        y, scale = noisy(rng, eta), 1.0
    else:
        y, scale = coin(rng, eta), STEEPNESS / eta.std()
    rows = Rows(pd.DataFrame(table), y)
    true = {name: scale * effect[test] for name, effect in effects.items()}
    title = f"the paper's simulation, {loss}, n = {n:,}, p = 50"
    return FitProblem(title, loss, rows.part(train), rows.part(test), true)


def counts(n: int) -> FitProblem:
    """Return claims in a part of a year: Poisson counts with exposure."""
    rng = np.random.default_rng(13)
    size = n + TEST_ROWS
    region = rng.choice(5, size, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    table = {
        "age": rng.uniform(18, 90, size),
        "power": rng.gamma(4.0, 25.0, size),
        **{f"x{j}": rng.normal(size=size) for j in range(8)},
        "region": pd.Categorical.from_codes(region, list("ABCDE")),
    }
    effects = {
        "age": 1.2 * np.exp(-(table["age"] - 18) / 8) + 0.3 * np.sin(table["age"] / 12),
        "power": 0.3 * np.log1p(table["power"] / 50),
        "region": np.array([0.0, 0.3, -0.3, 0.1, 0.6])[region],
    }
    exposure = rng.uniform(0.1, 1.0, size)
    score = -1.0 + np.sum(list(effects.values()), axis=0)
    rows = Rows(pd.DataFrame(table), rng.poisson(exposure * np.exp(score)).astype(float), exposure)
    train, test = slice(n), slice(n, None)
    true = {name: effect[test] for name, effect in effects.items()}
    title = f"counts with exposure, n = {n:,}, p = 11"
    return FitProblem(title, "poisson", rows.part(train), rows.part(test), true, -1.0)


def adult(n: int) -> FitProblem:
    """Return the bundled Adult table; a fifth are test rows; the truth is unknown."""
    from cwboost.datasets import adult as load

    table = load()
    y = (table.pop("class") == ">50K").astype(float)
    del table["fnlwgt"]
    frame = pd.DataFrame({name: _category(column) for name, column in table.items()})
    order = np.random.default_rng(14).permutation(len(y))
    split = len(y) // 5
    test, train = order[:split], order[split : split + n]
    rows = Rows(frame, y)
    return FitProblem(
        f"Adult, n = {len(train):,}, p = {frame.shape[1]}",
        "binomial",
        rows.part(train),
        rows.part(test),
    )


def _category(column: np.ndarray) -> Any:
    if column.dtype != object:
        return column
    return pd.Categorical(["missing" if cell is None else cell for cell in column])


def wide(n: int) -> FitProblem:
    """Return far more columns than rows; five have a linear effect."""
    p = 200 * n
    rng = np.random.default_rng(15)
    parts = []
    for size in (n, 1000):
        X = rng.normal(size=(size, p))
        names = [f"x{j}" for j in range(p)]
        effects = {name: 0.8 * X[:, j] for j, name in enumerate(names[:5])}
        y = coin(rng, np.sum(list(effects.values()), axis=0))
        parts.append(Rows(pd.DataFrame(X, columns=names), y))
    scale = STEEPNESS / (0.8 * np.sqrt(5))
    true = {name: scale * effect for name, effect in effects.items()}
    return FitProblem(f"wide, n = {n:,}, p = {p:,}", "binomial", *parts, true, linear=True)


PROBLEMS: dict[str, tuple[Callable[[int], FitProblem], int]] = {  # with the default number of rows
    "curves": (curves, 100_000),
    "many-curves": (many_curves, 50_000),
    "paper": (paper, 100_000),
    "paper-classes": (paper_classes, 100_000),
    "adult": (adult, 39_074),
    "counts": (counts, 100_000),
    "wide": (wide, 100),
}


def make_problem(name: str, rows: int | None = None) -> FitProblem:
    """Return the problem with this name, with its default number of training rows or another."""
    if name not in PROBLEMS:
        raise ValueError(f"unknown problem {name!r}; expected one of {', '.join(PROBLEMS)}")
    make, usual = PROBLEMS[name]
    return make(rows or usual)
