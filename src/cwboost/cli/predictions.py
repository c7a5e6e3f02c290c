"""Predictions as named columns of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.model.model import Model
from cwboost.model.scoring import output_labels


def predict_columns(
    model: Model, table: Table, kind: Any = "response", fixed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return predictions as named columns; for classes the most probable one and all probabilities.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.frames.read_frames import read
    >>> rows = read({"g": ["a", "b"] * 9})
    >>> model = cb.fit(rows, ["no", "yes"] * 9, loss="binomial")
    >>> list(predict_columns(model, rows))
    ['prediction', 'probability[no]', 'probability[yes]']
    """
    return name_predictions(model, model.predict(table, kind, **(fixed or {})), kind)


def name_predictions(model: Model, predicted: Floats, kind: str) -> dict[str, Any]:
    """Return the array that `model.predict` gives as named columns."""
    if kind == "score" or not model.classes:
        name = "score" if kind == "score" else "prediction"
        if predicted.ndim == 1:
            return {name: predicted}
        labels = output_labels(model)
        return {f"{name}[{c}]": s for c, s in zip(labels, predicted.T, strict=True)}
    several = predicted.ndim == 2
    shares = predicted if several else np.column_stack([1.0 - predicted, predicted])
    classes = np.array(model.classes, dtype=object)
    best = shares.argmax(axis=1) if several else (predicted > 0.5).astype(np.intp)
    out = {"prediction": classes[best]}
    return out | {f"probability[{c}]": p for c, p in zip(classes, shares.T, strict=True)}
