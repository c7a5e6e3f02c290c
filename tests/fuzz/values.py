"""Odd values for any argument, and random settings of a fit: losses, targets, learners and others.

Settings are mostly valid. Does not know which callables there are (see callables.py).
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cwboost as cb
from fuzz.tables import Columns, Rng, pick
from problems import LOSSES, make_loss

ODD_CONSTANTS = (
    None, True, False, 0, 1, -1, 2, 3, 2.5, 0.5, -0.0, 1e-320, 1e300, float("nan"),
    float("inf"), -float("inf"), 10**6, 2**31, 2**63, -(2**63) - 1, 10**400, 1j, "", " ", "x",
    "auto", "nan", "\ud800", "a\0b", "x" * 5000, b"x", decimal.Decimal("0.5"), (),
    decimal.Decimal("NaN"), fractions.Fraction(1, 3), np.int8(1), np.float32(0.5), (1,),
    np.float64("nan"), np.bool_(True), np.str_("x"), np.datetime64("2020"), pd.NA, pd.NaT,
    dt.date(2020, 1, 1), int, object, len, range(3), Path("missing/file"), Ellipsis,
)  # fmt: skip
ODD_MAKERS: tuple[Callable[[], Any], ...] = (  # called anew for every case
    list, dict, set, object, bytearray,
    lambda: [None], lambda: [1, 2], lambda: ["x"], lambda: ["x", "x"], lambda: {"x": 1},
    lambda: {"x": None}, lambda: {1: 2}, lambda: [[1], [2, 3]], lambda: iter([1, 2]),
    lambda: (k for k in range(3)), lambda: np.array([]), lambda: np.zeros((0, 3)),
    lambda: np.zeros((2, 2, 2)), lambda: np.array(3.0), lambda: np.array(["a", None], object),
    lambda: np.zeros(60), lambda: np.full(60, np.nan), lambda: np.full(60, np.inf),
    lambda: np.zeros(60, bool), lambda: np.ones(60, complex), lambda: np.ones((60, 1)),
    lambda: np.ones((60, 3)), lambda: np.arange(60)[::-1], lambda: ["a"] * 60,
    lambda: np.full(60, -1.0), lambda: np.full(60, 1e308), lambda: np.full(60, 1e-320),
    lambda: pd.Series([1, None], dtype="Int64"), lambda: pd.DataFrame(),
    lambda: pd.Series(["a", None] * 30, dtype="string"), lambda: pd.Categorical(["a", "b"] * 30),
    lambda: lambda *_, **__: None, lambda: lambda: 1 / 0, lambda: [cb.Linear("x")],
    lambda: cb.Spline("x"), lambda: cb.Plain(), lambda: cb.Squared(), lambda: cb.Bins(3),
)  # fmt: skip


def odd_value(rng: Rng) -> Any:
    """Return an odd value."""
    k = int(rng.integers(len(ODD_CONSTANTS) + len(ODD_MAKERS)))
    constants = len(ODD_CONSTANTS)
    return ODD_CONSTANTS[k] if k < constants else ODD_MAKERS[k - constants]()


def show(value: Any) -> str:
    """Return a short text of any value, the same in every run."""
    try:
        return re.sub(r" at 0x\w+", "", repr(value)[:1000])[:120]
    except Exception as error:
        return f"{type(value).__name__} ({error})"[:120]


def random_y(rng: Rng, n: int, loss: str) -> Any:
    """Return a target that the loss accepts, in various types."""
    if loss in ("binomial", "multinomial"):
        k = 2 if loss == "binomial" else int(rng.integers(2, 5))
        codes = np.r_[np.arange(min(k, n)), rng.integers(0, k, max(n - k, 0))]
        labels = pick(
            rng, [["a", "b", "c", "d"], [0, 1, 2, 3], [-1.5, 0.0, 2.0, 7.0], ["", "é", "1", " "]]
        )
        return pick(rng, [np.array, list])(np.array(labels, dtype=object)[codes].tolist())
    if loss in ("poisson", "tweedie"):
        y = rng.poisson(pick(rng, [0.5, 3.0, 1000.0]), n)
        if n:
            y[0] += 1
        return y.astype(pick(rng, [float, int, "f4"]))
    if loss == "gamma":
        return rng.gamma(pick(rng, [0.1, 2.0]), pick(rng, [1e-3, 1.0, 1e6]), n) + 1e-12
    scale = pick(rng, [1.0, 1.0, 1e-8, 1e8, 1e100, 0.0])
    y = rng.normal(size=n) * scale
    return pick(rng, [y, y, y.tolist(), pd.Series(y), np.round(y * 3), y.astype("f4")])


def random_loss(rng: Rng) -> tuple[str, Any]:
    """Return the name of a loss and the loss."""
    name = pick(rng, ("squared", *LOSSES))
    special = {"quantile": cb.Quantile(pick(rng, [0.01, 0.5, 0.999])),
               "huber": cb.Huber(pick(rng, [1e-6, 1.0, 1e6])),
               "tweedie": cb.Tweedie(pick(rng, [1.01, 1.5, 1.99]))}  # fmt: skip
    return name, special.get(name, make_loss(name))


def random_optimizer(rng: Rng) -> Any:
    """Return an optimizer or its name."""
    rate = float(pick(rng, [0.01, 0.1, 0.5, 1.0]))
    options = [None, "plain", cb.Plain(rate), cb.Accelerated(rate), cb.Accelerated(rate, 0.5),
               cb.Hybrid(rate), cb.Hybrid(rate, switch_after=1, then="training"),
               cb.Hybrid(rate, rewind=False)]  # fmt: skip
    return pick(rng, options)


def random_learners(rng: Rng, columns: Columns) -> Any:
    """Return learners for some of the columns; most fit the type of their column."""
    return [random_learner(rng, columns) for _ in range(int(rng.integers(1, 5)))]


def random_learner(rng: Rng, columns: Columns) -> Any:
    """Return a learner of one or two columns."""
    name = pick(rng, columns)
    numeric = getattr(columns[name], "dtype", np.dtype("O")).kind in "fiub"
    if rng.uniform() < 0.2 and len(columns) > 1:
        other = pick(rng, [c for c in columns if c != name])
        margins = [name if rng.uniform() < 0.5 else _one(rng, name, numeric), other]
        df = pick(rng, [None, 3.0, 6.0])
        return cb.Tensor(*margins, df=df, orthogonal=bool(rng.uniform() < 0.5))
    return _one(rng, name, numeric or rng.uniform() < 0.05)


def _one(rng: Rng, name: str, numeric: bool) -> Any:
    df = pick(rng, [None, None, 2.5, 4.0])
    others = [
        lambda: cb.Category(name, df=df),
        lambda: cb.Category(name, kind="binary"),
        lambda: cb.Missing(name),
    ]
    numbers = [
        lambda: cb.Linear(name),
        lambda: cb.Linear(name, intercept=False),
        lambda: cb.Polynomial(name, int(rng.integers(1, 6))),
        lambda: cb.Spline(name, df=df, knots=int(rng.integers(1, 30)),
                          degree=int(rng.integers(0, 5)), differences=int(rng.integers(1, 4))),
        lambda: cb.Spline(name, knot_placement="quantile", extrapolate="linear"),
        lambda: cb.Spline(name, tails=pick(rng, ["flat", "smooth"])),
        lambda: cb.Spline(name, smoothing=float(pick(rng, [1e-9, 1.0, 1e12]))),
        lambda: cb.Centered(name, df=pick(rng, [None, 1.0]), differences=int(rng.integers(1, 5))),
        lambda: cb.Step(name, df=df, bins=int(rng.integers(2, 40))),
        lambda: cb.Step(name, kind="spikes"),
    ]  # fmt: skip
    return pick(rng, numbers + others if numeric else others)()


def random_rows(rng: Rng, n: int) -> dict[str, Any]:
    """Return some of the arguments that are as long as the table."""
    weights = pick(
        rng,
        [rng.uniform(0, 3, n), rng.integers(0, 3, n), np.ones(n), rng.exponential(size=n) * 1e-8],
    )
    options = {
        "weights": weights,
        "offset": rng.normal(size=n),
        "validation": pick(rng, [0.3, 0.5, rng.uniform(size=n) < 0.3, np.arange(n) % 3 == 0]),
    }
    return {name: value for name, value in options.items() if rng.uniform() < 0.2}


def random_settings(rng: Rng) -> dict[str, Any]:
    """Return some of the other arguments of `fit`."""
    options = {
        "optimizer": random_optimizer(rng),
        "bins": pick(rng, ["auto", "exact", "sqrt", 2, 7, 1000, cb.Bins(9, "quantile")]),
        "patience": pick(rng, [None, 1, 5, cb.Patience(3), cb.Stagnation(1e-3, 2)]),
        "metric": pick(rng, ["risk", "mae", "auc", ["log_loss", "brier"]]),
        "interactions": pick(rng, ["auto", "all", 1, 2]),
        "polish": pick(rng, ["auto", True, False, "repeat"]),
        "bags": pick(rng, [2, 3]),
        "search": pick(rng, ["auto", "full", "certified"]),
        "scale": pick(rng, ["auto", 1, 1e-3, 50.0]),
        "start": pick(rng, [0.0, 1.0, -3.0]),
        "n_threads": pick(rng, [1, 2, 3] * 8 + [1024]),
        "min_rows_per_bin": pick(rng, [1, 3, 1000]),
        "tolerance": pick(rng, [0.0, 0.01, 0.5]),
        "random_state": int(rng.integers(0, 5)),
    }
    return {name: value for name, value in options.items() if rng.uniform() < 0.12}
