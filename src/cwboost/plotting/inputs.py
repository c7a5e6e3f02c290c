"""Converts what displays accept: a model or a fitted estimator, and rows as either reads them."""

from __future__ import annotations

from typing import Any

from cwboost.frames.read_frames import read
from cwboost.frames.table import Table
from cwboost.model.model import Model


def as_model(model: Any) -> Model:
    """Return the model itself, or the model of a fitted estimator."""
    if isinstance(model, Model):
        return model
    if hasattr(model, "get_params") and hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    found = getattr(model, "model_", None)
    if not isinstance(found, Model):
        raise TypeError(
            "expected a cwboost Model or a fitted CWBRegressor or CWBClassifier, got "
            f"{type(model).__name__}"
        )
    return found


def as_rows(model: Any, table: Any) -> Table | None:
    """Return the rows as the model or the estimator reads them; None if no table is given."""
    if table is None:
        return None
    rows: Table = model.as_table(table) if hasattr(model, "as_table") else read(table)
    return rows
