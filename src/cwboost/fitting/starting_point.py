"""Where a fit starts: the constant score, and the scale of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.checks import is_number
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, TargetRows

from .input_data import FitData, Split


class StartingPoint(NamedTuple):
    """The score from which a fit starts, and the factor of its steps."""

    start: Floats  # (q,)
    scale: float

    @classmethod
    def of(cls, data: FitData, split: Split, start: Any, scale: Any) -> StartingPoint:
        """Return the starting point of a fit to the training rows of a split."""
        y, weights, offset = map(split.of_training, (data.y, split.training, data.offset))
        w = np.ascontiguousarray(weights, dtype=np.float64)
        return cls.of_rows(data.loss, TargetRows(y, w, offset), start, scale)

    @classmethod
    def of_rows(cls, loss: Loss, rows: TargetRows, start: Any, scale: Any) -> StartingPoint:
        """Return the starting point for training rows; None and "auto" let the loss decide."""
        start = _start(start, loss, rows)
        return cls(start, _scale(scale, loss, rows, start))


def _start(start: Any, loss: Loss, rows: TargetRows) -> Floats:
    q = loss.n_outputs
    if start is not None:
        try:
            out = np.atleast_1d(np.asarray(start, dtype=np.float64))
        except (TypeError, ValueError):
            out = np.array([np.nan])
        if out.shape != (q,) or not np.isfinite(out).all():
            raise ValueError(f"start: expected {q} finite number(s), got {start!r}")
        return out
    out = _as_start(loss.start_of(rows), loss)
    if not np.isfinite(out).all():
        raise ValueError(
            f"the start of the {loss.name} loss is not finite ({out}); check y and offset"
        )
    return out


def _as_start(found: Any, loss: Loss) -> Floats:
    """Return what `start_of` returned as (q,) numbers; a single number is fine if q is 1."""
    expected = f"{type(loss).__name__}.start_of must return an array of shape ({loss.n_outputs},)"
    try:
        if found is None:  # a function without `return`; NumPy would make it NaN
            raise TypeError
        out = np.atleast_1d(np.asarray(found, dtype=np.float64))
    except (TypeError, ValueError):
        raise TypeError(f"{expected}, got {found!r} of type {type(found).__name__}") from None
    if out.shape != (loss.n_outputs,):
        raise ValueError(f"{expected}, got the shape {out.shape}")
    return out


def _scale(scale: Any, loss: Loss, rows: TargetRows, start: Floats) -> float:
    if isinstance(scale, str) and scale == "auto":
        found = loss.scale_of(rows, start)
    elif is_number(scale):
        found = float(scale)
    else:
        raise ValueError(f"scale: expected 'auto' or a number, got {scale!r}")
    if not (np.isfinite(found) and found > 0):
        raise ValueError(f"scale must be a positive number, got {found!r}")
    return found
