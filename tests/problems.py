"""Small random problems shared by several test files: tables, targets, weights and learners.

Continuous noise in every problem keeps learners from tying by accident. How a fit is checked is
left to the test files.

Columns: u uniform, v normal with missing cells, k few distinct numbers, z half zeros (an atom),
g text, h text with missing cells, e noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cwboost as cb

LOSSES = ("squared", "absolute", "quantile", "huber", "binomial", "multinomial", "poisson",
          "gamma", "tweedie")  # fmt: skip
TAU, DELTA, POWER = 0.3, 0.7, 1.4


def make_loss(name: str) -> Any:
    special = {"quantile": cb.Quantile(TAU), "huber": cb.Huber(DELTA), "tweedie": cb.Tweedie(POWER)}
    return special.get(name, name)


def make_table(seed: int, n: int, missing: bool = True) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    v = rng.normal(size=n)
    h = rng.choice(np.array(["p", "q", "r"], dtype=object), n, p=[0.5, 0.3, 0.2])
    table = {
        "u": rng.uniform(-1, 1, n),
        "v": v,
        "k": rng.integers(0, 5, n).astype(float),
        "z": np.where(rng.uniform(size=n) < 0.5, 0.0, rng.exponential(size=n)),
        "g": rng.choice(np.array(["a", "b", "c", "d"], dtype=object), n, p=[0.4, 0.3, 0.2, 0.1]),
        "h": h,
        "e": rng.normal(size=n),
    }
    if missing:
        gone = rng.permutation(n)
        v[gone[: max(4, n // 10)]] = np.nan
        h[gone[-max(4, n // 8) :]] = None
    return table


def signal(table: dict[str, np.ndarray]) -> np.ndarray:
    v = table["v"]
    level = np.array([{"a": 0.0, "b": 0.6, "c": -0.7, "d": 0.2}[x] for x in table["g"]])
    other = np.array([{"p": 0.0, "q": 0.4, "r": -0.4, None: 0.5}[x] for x in table["h"]])
    curve = np.sin(4 * table["u"]) + np.where(np.isnan(v), 0.5, 0.4 * v) + 0.2 * table["k"]
    return curve + level + other + 0.5 * np.sqrt(table["z"]) - 0.5


def make_target(seed: int, table: dict[str, np.ndarray], loss: str) -> np.ndarray:
    rng = np.random.default_rng(seed + 1)
    f = signal(table)
    n = len(f)
    if loss in ("squared", "absolute", "quantile", "huber"):
        return f + rng.normal(size=n)
    if loss == "binomial":
        return np.where(rng.uniform(size=n) < 1 / (1 + np.exp(-1.5 * f)), "yes", "no")
    if loss == "multinomial":
        scores = np.column_stack([f, -f, 0.5 * np.cos(3 * f)]) + rng.gumbel(size=(n, 3))
        return np.array(["one", "three", "two"])[scores.argmax(axis=1)]
    if loss == "poisson":
        return rng.poisson(np.exp(0.6 * f)).astype(float)
    if loss == "gamma":
        return rng.gamma(2.0, np.exp(0.6 * f) / 2)
    return np.array([rng.gamma(1.5, m, c).sum() for m, c in
                     zip(np.exp(0.5 * f), rng.poisson(1.2, n), strict=True)])  # fmt: skip


def make_offset(seed: int, n: int, loss: str) -> np.ndarray:
    rng = np.random.default_rng(seed + 2)
    return 0.4 * rng.normal(size=(n, 3) if loss == "multinomial" else n)


def make_weights(seed: int, n: int, zeros: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed + 3)
    w = rng.uniform(0.3, 3.0, n)
    if zeros:
        w[rng.uniform(size=n) < 0.1] = 0.0
    return w


def mean_loss(name: str, y: np.ndarray, f: np.ndarray, w: np.ndarray | None = None) -> float:
    """Return the weighted mean loss of scores f, implemented independently of the library."""
    classes = sorted(set(y.tolist())) if name in ("binomial", "multinomial") else []
    if name == "binomial":
        loss = np.logaddexp(0, -np.where(y == classes[1], 1, -1) * f)
    elif name == "multinomial":
        own = f[np.arange(len(y)), [classes.index(c) for c in y.tolist()]]
        loss = np.logaddexp.reduce(f, axis=1) - own
    else:
        r = y - f if name in ("squared", "absolute", "quantile", "huber") else None
        loss = {
            "squared": lambda: r**2 / 2,
            "absolute": lambda: np.abs(r),
            "quantile": lambda: np.maximum(TAU * r, (TAU - 1) * r),
            "huber": lambda: np.where(
                np.abs(r) <= DELTA, r**2 / 2, DELTA * (np.abs(r) - DELTA / 2)
            ),
            "poisson": lambda: np.exp(f) - y * f,
            "gamma": lambda: f + y * np.exp(-f),
            "tweedie": lambda: (
                np.exp((2 - POWER) * f) / (2 - POWER) - y * np.exp((1 - POWER) * f) / (1 - POWER)
            ),
        }[name]()
    return float(np.average(loss, weights=w))


# Learners by kind. A learner that cannot represent missing cells is followed by a Missing term, as
# the library would add it.
KINDS = {
    "linear": lambda: [cb.Linear("u")],
    "linear, no intercept": lambda: [cb.Linear("u", intercept=False)],
    "linear, missing": lambda: [cb.Linear("v"), cb.Missing("v")],
    "polynomial": lambda: [cb.Polynomial("u", 3)],
    "polynomial, df": lambda: [cb.Polynomial("v", 3, df=2.5), cb.Missing("v")],
    "spline": lambda: [cb.Spline("u")],
    "spline, missing": lambda: [cb.Spline("v", df=5)],
    "spline, quantile knots": lambda: [cb.Spline("u", 4, knots=7, knot_placement="quantile")],
    "spline, degree 2": lambda: [
        cb.Spline("v", 3.5, knots=6, degree=2, differences=1, extrapolate="linear")
    ],
    "spline, degree 1": lambda: [cb.Spline("k", 2.5, knots=4, degree=1, differences=1)],
    "spline, smoothing": lambda: [cb.Spline("u", smoothing=3.0, differences=1)],
    "spline, df1": lambda: [cb.Spline("u", df=4, df_kind="df1")],
    "step": lambda: [cb.Step("z", df=4, bins=9)],
    "step, missing": lambda: [cb.Step("v", bins=12)],
    "spikes": lambda: [cb.Step("k", kind="spikes")],
    "spikes, missing": lambda: [cb.Step("v", bins=12, kind="spikes")],
    "category": lambda: [cb.Category("g")],
    "category, missing": lambda: [cb.Category("h", df=2.5)],
    "category, numbers": lambda: [cb.Category("k", df=3)],
    "category, binary": lambda: [cb.Category("h", kind="binary")],
    "centered": lambda: [cb.Linear("u"), cb.Centered("u", df=1)],
    "centered, missing": lambda: [cb.Centered("v", knots=8), cb.Missing("v")],
    "tensor": lambda: [cb.Tensor(cb.Spline("u", knots=4), cb.Spline("k", knots=2), df=7)],
    "tensor, by name": lambda: [cb.Tensor("k", "h")],
    "tensor, category": lambda: [cb.Tensor(cb.Spline("u", knots=5), "g", df=6)],
    "tensor, missing": lambda: [cb.Tensor(cb.Spline("v", knots=4), cb.Step("z", bins=5), df=7)],
    "tensor, linear": lambda: [cb.Tensor(cb.Linear("u"), cb.Polynomial("v", 2), df=4)],
    "pair": lambda: [cb.Tensor(cb.Step("u", bins=5), cb.Step("k", bins=4), orthogonal=True)],
    "pair, by name": lambda: [cb.Tensor("z", "u", df=2.5, orthogonal=True)],
    "pair, category": lambda: [cb.Tensor("g", cb.Step("u", bins=4), df=2, orthogonal=True)],
    "pair, two categories": lambda: [cb.Tensor("g", "h", df=2, orthogonal=True)],
    "pair, missing": lambda: [cb.Tensor("v", "h", df=3, orthogonal=True)],
    "pair, splines": lambda: [
        cb.Tensor(cb.Spline("u", knots=3), cb.Spline("k", knots=2), df=3, orthogonal=True)
    ],
    "pair, linear": lambda: [cb.Tensor(cb.Linear("u"), "g", df=1.5, orthogonal=True)],
}
