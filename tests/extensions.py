"""User-defined extensions: loss, bases, learners, optimizer, metric, display and export.

They are written as a user would write them, in one file outside the package. `registered()` adds
them to the registries and removes them afterwards; the package refers to them nowhere else.
"""

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from cwboost import _core
from cwboost.export.registry import EXPORTS, Export
from cwboost.losses import LOSSES, Loss
from cwboost.metrics.metric import METRICS, register_metric
from cwboost.optimizers import OPTIMIZERS, Optimizer
from cwboost.plotting.display import Display
from cwboost.plotting.registry import DISPLAYS
from cwboost.terms.bases import BASES, Basis, Pieces
from cwboost.terms.learners import LEARNERS, Learner


@dataclass(frozen=True)
class LogCosh(Loss):
    """log cosh((y - f) / width): squared for small residuals, absolute for large ones."""

    width: float = 1.0
    name: ClassVar[str] = "log-cosh"

    @property
    def estimand(self):
        return "a robust mean"

    def loss(self, y, score):
        z = np.abs(y - score) / self.width
        return z + np.log1p(np.exp(-2 * z)) - np.log(2)

    def gradient(self, y, score):
        return -np.tanh((y - score) / self.width) / self.width

    def start_of(self, rows):
        return np.array([rows.quantile(0.5)])

    def scale_of(self, rows, start):
        return self.width**2

    def curvature(self, y, score):
        return (1 - np.tanh((y - score) / self.width) ** 2) / self.width**2


@dataclass(frozen=True, eq=False, kw_only=True)
class HingeBasis(Basis):
    """1, x and max(0, x - knot): a line that may bend once, a polynomial on two pieces."""

    knot: float
    low: float
    high: float
    kind: ClassVar[str] = "hinge"

    @property
    def n_coef(self):
        return 3

    @property
    def null_dim(self):
        return 2

    def penalty(self):
        return np.diag([0.0, 0.0, 1.0])

    def ones(self):
        return np.array([1.0, 0.0, 0.0])

    def evaluate(self, values):
        z = (values - self.knot) / (self.high - self.low)
        return np.column_stack([np.ones_like(z), z, np.maximum(z, 0.0)])

    def polynomials(self):
        width = self.high - self.low
        below = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
        above = [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
        return Pieces(
            np.array([self.knot]),
            np.full(2, self.knot),
            np.full(2, width),
            np.array([below, above]),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class BumpBasis(Basis):
    """Gaussian bumps, which are not piecewise polynomials."""

    centers: tuple[float, ...]
    width: float
    kind: ClassVar[str] = "bumps"

    @property
    def n_coef(self):
        return len(self.centers)

    def evaluate(self, values):
        z = (values[:, None] - np.array(self.centers)) / self.width
        return np.exp(-0.5 * z**2)


@dataclass(frozen=True, repr=False)
class Hinge(Learner):
    """A line that bends at a knot, by default in the middle of the range."""

    column: str
    knot: float | None = None
    bins: str | int | None = None
    df: float | None = field(default=None, kw_only=True)
    functions: ClassVar = {"hinge": {}}
    positional: ClassVar = "knot"
    df_range: ClassVar = (2.2, 2.9)

    def basis(self, column, encoder):
        low, high = column.summary.low, column.summary.high
        knot = (low + high) / 2 if self.knot is None else float(self.knot)
        return HingeBasis(knot=knot, low=low, high=high)


@dataclass(frozen=True, repr=False)
class Bump(Learner):
    """A sum of Gaussian bumps."""

    column: str
    df: float | None = None
    bins: str | int | None = None

    def basis(self, column, encoder):
        centers = np.linspace(column.summary.low, column.summary.high, 8)
        return BumpBasis(centers=tuple(centers.tolist()), width=float(centers[1] - centers[0]))


@dataclass
class Cautious(Optimizer):
    """Plain boosting at half the given learning rate."""

    rate: float = 0.2

    def core(self):
        self._check_positive("rate")
        return _core.Plain(self.rate / 2)


def worst(y, prediction):
    return float(np.max(np.abs(y - prediction)))


class ChoicesDisplay(Display):
    """How often each term was chosen."""

    def __init__(self, counts):
        self.counts = counts

    @classmethod
    def from_estimator(cls, model, *, ax=None):
        model = getattr(model, "model_", model)
        names, counts = np.unique(model.choices, return_counts=True)
        return cls(dict(zip(names.tolist(), counts.tolist(), strict=True))).drawn(ax)

    def plot(self, ax=None):
        import matplotlib.pyplot as plt

        self.ax_ = plt.subplots(figsize=self.figure_size)[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        self.ax_.barh(list(self.counts), list(self.counts.values()))
        return self


def write_text(model, file):
    Path(file).write_text(model.summary())


@contextmanager
def registered():
    """Register all extensions; restore the registries afterwards."""
    kinds = {
        id(LOSSES): (LOSSES, {"log-cosh": LogCosh}),
        id(BASES): (BASES, {"hinge": HingeBasis, "bumps": BumpBasis}),
        id(LEARNERS): (LEARNERS, {"Hinge": Hinge, "Bump": Bump}),
        id(OPTIMIZERS): (OPTIMIZERS, {"Cautious": Cautious}),
        id(DISPLAYS): (DISPLAYS, {"choices": ChoicesDisplay}),
        id(EXPORTS): (EXPORTS, {"text": Export(".txt", write_text)}),
    }
    before = [(registry, dict(registry)) for registry, _ in (*kinds.values(), (METRICS, {}))]
    try:
        for registry, new in kinds.values():
            registry.update(new)
        register_metric("worst", worst, greater_is_better=False, target="numbers")
        yield
    finally:
        for registry, old in before:
            registry.clear()
            registry.update(old)
