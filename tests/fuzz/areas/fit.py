"""Area `fit`: fits of random tables with random settings, and what is done with the models.

A fit gives a model or refuses its arguments. A model predicts its own table; its contributions add
up to its scores, its summary and its text exports can be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cwboost as cb
from fuzz.tables import Rng, as_table, pick, random_columns, random_size
from fuzz.values import (
    odd_value,
    random_learners,
    random_loss,
    random_rows,
    random_settings,
    random_y,
    show,
)
from fuzz.verdict import PropertyError, attempt


def case(rng: Rng, tried: list[str]) -> None:
    n = random_size(rng)
    columns = random_columns(rng, n, odd=float(pick(rng, [0.0, 0.2, 0.2, 0.6])))
    table = as_table(rng, columns, tried)
    loss_name, loss = random_loss(rng)
    arguments: dict[str, Any] = {
        "y": random_y(rng, n, loss_name),
        "loss": loss,
        "n_iter": int(pick(rng, [0, 1, 3, 8, 20])),
        **random_rows(rng, n),
        **random_settings(rng),
    }
    if columns and rng.uniform() < 0.5:
        arguments["learners"] = random_learners(rng, columns)
    if rng.uniform() < 0.15:
        arguments[pick(rng, list(arguments))] = odd_value(rng)
    tried.append(f"{n} rows; " + ", ".join(f"{k}={show(v)}" for k, v in arguments.items()))
    model = cb.fit(table, **arguments)
    tried.append("fitted")
    use(rng, model, table, {k: arguments[k] for k in ("offset",) if k in arguments}, tried)


def use(rng: Rng, model: cb.Model, table: Any, rows: dict[str, Any], tried: list[str]) -> None:
    """Check the predictions of a model for its own table, and use one of its methods."""
    tried.append("predict")
    score = model.predict(table, kind="score", **rows)
    response = model.predict(table, **rows)
    if not np.isfinite(score).all() or np.isnan(response).any():
        raise PropertyError("predictions of the training rows are finite")
    method = pick(rng, METHODS)
    tried.append(f"then {method}")
    METHODS[method](model, table)


def _contributions(model: cb.Model, table: Any) -> None:
    parts = model.contributions(table)
    if not all(np.isfinite(part).all() for part in parts.values()):
        raise PropertyError("contributions are finite")


def _effects(model: cb.Model, table: Any) -> None:
    for name, term in model.terms.items():
        if term.chosen:
            attempt(model.effect, name, 20)


def _saved(model: cb.Model, table: Any) -> None:
    model.save("model.json")
    cb.load("model.json").predict(table, offset=0.0 if model.n_outputs == 1 else None)


METHODS = {
    "contributions": _contributions,
    "effects": _effects,
    "importance": lambda model, table: model.importance(),
    "importance by term": lambda model, table: model.importance("risk", by="term"),
    "summary": lambda model, table: model.summary(),
    "repr": lambda model, table: repr(model),
    "save": _saved,
    "at": lambda model, table: model.at(0).predict(table, offset=0.0),
    "sql": lambda model, table: attempt(model.to_sql, offset=0),
    "csv": lambda model, table: model.to_csv("tables"),
}
