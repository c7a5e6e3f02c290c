"""Area `losses`: losses written in Python whose methods return odd things.

The loss is squared error, except that one method returns something odd, fails, or is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cwboost as cb
from fuzz.tables import Rng, pick
from fuzz.values import odd_value, show
from fuzz.verdict import PropertyError

METHODS: dict[str, Callable[..., Any]] = {
    "loss": lambda y, score: (y - score) ** 2 / 2,
    "gradient": lambda y, score: score - y,
    "start": lambda y, weights, offset: np.average(y - offset, weights=weights),
    "response": lambda score: score,
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    "complex": lambda v: v + 1j,
    "nan": lambda v: v * np.nan,
    "infinite": lambda v: v + np.inf,
    "huge": lambda v: v * 1e300,
    "tiny": lambda v: v * 1e-300,
    "short": lambda v: np.atleast_1d(v)[:-1],
    "two columns": lambda v: np.column_stack([np.atleast_1d(v)] * 2),
    "one column": lambda v: np.atleast_1d(v)[:, None],
    "text": lambda v: np.asarray(v).astype(str),
    "objects": lambda v: np.asarray(v, dtype=object),
    "list": lambda v: np.asarray(v).tolist(),
    "float32": lambda v: np.asarray(v, dtype="f4"),
    "integers": lambda v: np.asarray(v).astype(int),
    "backwards": lambda v: np.atleast_1d(v)[::-1],
    "zero": lambda v: v * 0,
    "negative": lambda v: -v,
    "masked": lambda v: np.ma.masked_invalid(np.atleast_1d(v)),
}
ORDINARY = ("list", "float32")  # the same numbers, up to rounding
ATTRIBUTES = ("scale", "n_outputs", "name", "estimand", "curvature", "link", "classes")
N = 30


def case(rng: Rng, tried: list[str]) -> None:
    loss, kind = make_loss(rng, tried)
    table = {"x": rng.normal(size=N), "g": rng.choice(["a", "b"], N)}
    y = rng.normal(size=N)
    options: dict[str, Any] = {"n_iter": 4}
    if rng.uniform() < 0.3:
        options["optimizer"] = pick(rng, ["accelerated", cb.Plain(1.0)])
    if rng.uniform() < 0.3:
        options["validation"] = 0.3
    if rng.uniform() < 0.2:
        options["polish"] = "auto"
    tried.append(show(options))
    model = cb.fit(table, y, loss=loss, **options)
    tried.append("fitted")
    found = model.predict(table)  # calls `response`, which the fit does not
    if kind == "complex":
        raise PropertyError("complex numbers of a Python loss are refused")
    if kind in ORDINARY and not np.isfinite(found).all():
        raise PropertyError("predictions with a Python loss are finite")
    pick(rng, [model.summary, model.importance, lambda: model.contributions(table)])()


def make_loss(rng: Rng, tried: list[str]) -> tuple[Any, str]:
    """Return an object with the methods of a loss, and what is odd about one of them."""
    methods = dict(METHODS)
    name = pick(rng, METHODS)
    action = pick(rng, ["change", "change", "change", "remove", "odd", "attribute", "mutate"])
    if action == "change":
        kind = pick(rng, CHANGES)
        change, whole = CHANGES[kind], METHODS[name]
        methods[name] = lambda *args: change(whole(*args))
    elif action == "remove":
        kind = "is missing"
        del methods[name]
    elif action == "odd":
        value = odd_value(rng)
        kind = f"returns {show(value)}"
        methods[name] = lambda *args: value
    elif action == "attribute":
        name, value = pick(rng, ATTRIBUTES), odd_value(rng)
        kind = f"is {show(value)}"
        methods[name] = value
    else:
        kind = "changes its arguments"
        methods[name] = _mutating(METHODS[name])
    tried.append(f"{name} {kind}")
    return type("UserLoss", (), {k: _method(v) for k, v in methods.items()})(), kind


def _method(value: Any) -> Any:
    """Return a function as a method without self; other values stay."""
    return staticmethod(value) if callable(value) and not isinstance(value, type) else value


def _mutating(function: Callable[..., Any]) -> Callable[..., Any]:
    def changed(*args: Any) -> Any:
        out = function(*args)
        for array in args:
            array[...] = 0
        return out

    return changed
