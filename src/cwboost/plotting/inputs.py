"""Converts and checks what displays accept: a model or a fitted estimator, rows, and options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cwboost._utils.checks import check_flag, check_text, check_whole
from cwboost._utils.text import quote
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table
from cwboost.model.model import Model

from .display import DEFERRED
from .style import check_axes, check_figure

MAX_SHOWN = 10_000_000  # bars, levels, points
FLAGS = ("parts", "sort", "share_scale")


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


def check_options(**options: Any) -> None:
    """Raise if an option of a display, given by its name, has a value that cannot be drawn."""
    for name, value in options.items():
        if name == "n" or name.startswith("max_"):
            check_whole(name, value, 2 if name == "n" else 1, MAX_SHOWN)
        elif name in FLAGS:
            check_flag(name, value)
        elif value is None or value is DEFERRED:
            continue
        elif name == "log":
            check_flag(name, value)
        elif name == "target":
            check_text(name, value)
        elif name == "labels":
            _check_labels(value)
        elif name == "ax":
            check_axes(value)
        elif name == "figure":
            check_figure(value)


def _check_labels(labels: Any) -> None:
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels: expected a mapping of names to text, got {quote(labels)}")
    for name, text in labels.items():
        check_text(f"labels[{quote(name)}]", text)
