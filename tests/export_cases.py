"""Models and rows that the tests of the exports share.

The models have every kind of term, every loss, offsets, and hostile names and levels. The rows have
missing cells, unseen levels, values beyond the training range, and values at and next to every
break. Does not know about any export.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

import cwboost as cb
import problems
from cwboost.model.pieces import pieces_of
from cwboost.terms.bases import Basis
from cwboost.terms.encoders import Cuts
from cwboost.terms.learners import Learner

N = 240
TOLERANCE = 1e-9  # exports agree with the model up to rounding (docs/export.md)

KINDS = problems.KINDS | {
    "spline, degree 0": lambda: [cb.Spline("u", 4, knots=6, degree=0, differences=1)],
    "category, booleans": lambda: [cb.Category("t")],
    "category, fractions": lambda: [cb.Category("f")],
    "missing alone": lambda: [cb.Missing("h")],
    "tensor, two splines": lambda: [
        cb.Tensor(cb.Spline("u", knots=4), cb.Spline("v", knots=3), df=9)
    ],
    "tensor, two categories": lambda: [cb.Tensor("g", "h", df=6)],
    "tensor, numbers as levels": lambda: [cb.Tensor(cb.Category("k"), cb.Step("v", bins=4), df=6)],
    "tensor, linear beyond": lambda: [
        cb.Tensor(cb.Spline("u", knots=3, extrapolate="linear"), cb.Linear("v"), df=6)
    ],
}

HOSTILE_LEVELS = ["it's", 'a "b"', "two\nlines", "naïve ☃ 𝄞", "", "NULL", "NaN", "1e5", "_x0041_",
                  "%s ? :x $1", "back\\slash", "'; DROP TABLE rows; --", " blanks ", "tab\t",
                  "=1+1", "zero\0byte", "\x07", "line\r\nends"]  # fmt: skip
HOSTILE_COLUMNS = ['q"u"ote', "new\nline -- ", "sélect", "'; DROP TABLE rows; --", "select",
                   "score", "keep_1", "offset_1", "t", "a.b/c"]  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class CosineBasis(Basis):
    """A user-defined basis that is not a piecewise polynomial."""

    period: float
    kind: ClassVar[str] = "cosine"

    @property
    def n_coef(self) -> int:
        return 2

    def evaluate(self, values: Any) -> Any:
        turns = 2 * np.pi * values / self.period
        return np.column_stack([np.cos(turns), np.sin(turns)])


@dataclass(frozen=True, repr=False)
class Cosine(Learner):
    """A user-defined learner."""

    column: str
    df: float | None = None

    def basis(self, column: Any, encoder: Any) -> Basis:
        del encoder
        return CosineBasis(period=2 * (column.summary.high - column.summary.low))


@cache
def model_without_pieces() -> cb.Model:
    """Return a model with terms that are not piecewise polynomials."""
    table = make_table()
    y = problems.make_target(0, table, "squared") + np.cos(3 * table["u"])
    learners = [Cosine("u"), cb.Spline("v"), cb.Category("g"), cb.Tensor(Cosine("z"), "g", df=3)]
    return with_all_terms(cb.fit(table, y, learners, n_iter=60))


def make_table(seed: int = 0, n: int = N) -> dict[str, np.ndarray]:
    table = problems.make_table(seed, n)
    rng = np.random.default_rng(seed + 10)
    table["t"] = rng.uniform(size=n) < 0.4
    table["f"] = rng.choice([0.1, 0.30000000000000004, -2.5, 7.0], n)
    return table


@cache
def kind_model(kind: str) -> cb.Model:
    table = make_table()
    y = problems.make_target(0, table, "squared") + 0.5 * table["t"] + table["f"] / 5
    model = cb.fit(table, y, KINDS[kind](), n_iter=40)
    return with_all_terms(model)


def with_all_terms(model: cb.Model) -> cb.Model:
    """Return the model with random coefficients for terms that were never chosen."""
    rng = np.random.default_rng(9)
    terms = {
        name: term if term.chosen else replace(term, beta=rng.normal(0, 0.2, term.beta.shape))
        for name, term in model.terms.items()
    }
    return replace(model, terms=MappingProxyType(terms))


@cache
def loss_model(loss: str) -> cb.Model:
    table = make_table()
    y = problems.make_target(0, table, loss)
    learners = [
        cb.Spline("u", df=4, extrapolate="linear"),
        cb.Linear("v"),
        cb.Centered("v", df=1),
        cb.Step("z", df=3, bins=9),
        cb.Step("k", kind="spikes"),
        cb.Category("g", df=2),
        cb.Category("h", kind="binary"),
        cb.Tensor(cb.Spline("u", knots=3), "g", df=6),
    ]
    return with_all_terms(cb.fit(table, y, learners, loss=problems.make_loss(loss), n_iter=60))


@cache
def hostile_model() -> cb.Model:
    """Return a model with a category column for each hostile name, with the hostile levels."""
    table = hostile_table()
    y = np.random.default_rng(5).normal(size=len(table["x"]))
    learners = [
        *(cb.Category(name, name=f"{name}\n*/ --") for name in HOSTILE_COLUMNS),
        cb.Spline("x", name="score"),
        cb.Linear("x", name="SCORE"),
        cb.Tensor(HOSTILE_COLUMNS[0], cb.Linear("x"), df=10),
    ]
    return with_all_terms(cb.fit(table, y, learners, n_iter=200))


def hostile_table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    levels = np.array([*HOSTILE_LEVELS, None], dtype=object)
    table: dict[str, Any] = {name: rng.choice(levels, N) for name in HOSTILE_COLUMNS}
    return table | {"x": rng.normal(size=N)}


@cache
def wide_model() -> tuple[cb.Model, dict[str, np.ndarray]]:
    """Return a model with 200 curves and a column of 100 levels, all chosen, and its table."""
    rng = np.random.default_rng(0)
    n = 1500
    table: dict[str, Any] = {f"column {j}": rng.uniform(size=n) for j in range(200)}
    table["level"] = np.array([f"level {k}" for k in rng.permutation(n) % 100], dtype=object)
    y = sum(np.sin(6 * table[f"column {j}"] + j) for j in range(200))
    y = y + np.array([int(level[6:]) / 20 for level in table["level"]])
    return cb.fit(table, y, optimizer=cb.Plain(0.5), n_iter=800), table


def hard_rows(model: cb.Model, table: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return rows of the table, and rows with one cell or all cells replaced by hard values."""
    rng = np.random.default_rng(6)
    special = {name: _hard_values(model, name, table[name]) for name in table}
    parts = [{name: column[:80] for name, column in table.items()}]
    for name, values in special.items():
        rows = rng.integers(0, len(table[name]), len(values))
        parts.append({c: values if c == name else column[rows] for c, column in table.items()})
    n = max(map(len, special.values()))
    parts += [{name: _resized(values, n) for name, values in special.items()}]
    parts += [{name: values[rng.integers(0, len(values), 60)] for name, values in special.items()}]
    return {name: np.concatenate([part[name] for part in parts]) for name in table}


def _resized(values: np.ndarray, n: int) -> np.ndarray:
    return values[np.arange(n) % len(values)]


def _hard_values(model: cb.Model, name: str, column: np.ndarray) -> np.ndarray:
    if column.dtype == object:
        return np.array([None, "never seen", 'Never\' "seen"\n', " it's ", "IT'S"], dtype=object)
    if column.dtype == bool:
        return np.array([True, False])
    points = [column[~np.isnan(column)]]
    for pieces in pieces_of(model):
        for axis in pieces.axes:
            if axis.column == name and axis.breaks is not None:
                points.append(axis.breaks)
    for term in model.terms.values():
        for encoder, c in zip(term.plan.encoders, term.columns, strict=True):
            if c == name and isinstance(encoder, Cuts):
                points.append(np.array(encoder.cuts))
    breaks = np.unique(np.concatenate(points[1:])) if len(points) > 1 else np.empty(0)
    low, high = points[0].min(), points[0].max()
    beyond = [np.nan, low - 1e-3, high + 1e-3, low - 30.0, high + 30.0, -1e4, 1e4, 0.0, -0.0]
    near = [np.nextafter(breaks, -np.inf), breaks, np.nextafter(breaks, np.inf)]
    return np.concatenate([beyond, *near])


def predict(model: cb.Model, rows: Any, kind: str, **fixed: Any) -> np.ndarray:
    """Return predictions (n, q) without the warning about unseen levels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        out = model.predict(rows, kind=kind, **fixed)
    return out.reshape(len(out), -1)


def contributions(model: cb.Model, rows: Any) -> dict[str, np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = model.contributions(rows)
    return {name: c.reshape(len(c), -1) for name, c in found.items()}


def assert_same(found: np.ndarray, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    """Check equality up to the larger of the absolute and the relative tolerance."""
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
