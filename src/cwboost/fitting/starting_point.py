"""Where a fit starts: the constant score, and the scale of its steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.checks import as_real, is_number
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, TargetRows

from .input_data import FitData, Split

MAX_RATIO = 1e100  # of the step scales at the user's start and at the best one, either way


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
        at = _start(start, loss, rows)
        if start is not None and not rows.private:
            _check_curvature(at, loss, rows)
        return cls(at, _scale(scale, loss, rows, at))


def _start(start: Any, loss: Loss, rows: TargetRows) -> Floats:
    q = loss.n_outputs
    if start is not None:
        try:
            out = np.atleast_1d(as_real(start))
        except (TypeError, ValueError):
            out = np.array([np.nan])
        if out.shape != (q,) or not np.isfinite(out).all():
            raise ValueError(f"start: expected {q} finite number(s), got {quote(start)}")
        return out
    out = _as_start(loss.start_of(rows), loss)
    if not np.isfinite(out).all():
        raise ValueError(
            f"the start of the {loss.name} loss is not finite ({out}); check y and offset"
        )
    return out


def _check_curvature(start: Floats, loss: Loss, rows: TargetRows) -> None:
    """Raise if the loss is so flat or so steep at the user's start that no step leads away."""
    scale = loss.scale_of(rows, start)
    if 1.0 / MAX_RATIO < scale < MAX_RATIO:
        return
    best = _start(None, loss, rows)
    if not 1.0 / MAX_RATIO < scale / loss.scale_of(rows, best) < MAX_RATIO:
        given, near = (", ".join(f"{value:.4g}" for value in at) for at in (start, best))
        raise ValueError(
            f"start: the {loss.name} loss has a curvature of almost zero or infinity at a score of "
            f"{given}; pass a start near the best constant score, {near}, or leave start out"
        )


def _as_start(found: Any, loss: Loss) -> Floats:
    """Return what `start_of` returned as (q,) numbers; a single number is fine if q is 1."""
    expected = f"{type(loss).__name__}.start_of must return an array of shape ({loss.n_outputs},)"
    try:
        if found is None:  # a function without `return`; NumPy would make it NaN
            raise TypeError
        out = np.atleast_1d(as_real(found))
    except (TypeError, ValueError):
        raise TypeError(f"{expected}, got {quote(found)} of type {type(found).__name__}") from None
    if out.shape != (loss.n_outputs,):
        raise ValueError(f"{expected}, got the shape {out.shape}")
    return out


def _scale(scale: Any, loss: Loss, rows: TargetRows, start: Floats) -> float:
    if isinstance(scale, str) and scale == "auto":
        found = loss.scale_of(rows, start)
    elif is_number(scale):
        found = float(scale)
    else:
        raise ValueError(f"scale: expected 'auto' or a number, got {quote(scale)}")
    if not (np.isfinite(found) and found > 0):
        raise ValueError(f"scale must be a positive number, got {quote(found)}")
    return found
