"""How the core calls a loss whose rows are evaluated by Python functions of the user."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cwboost import _core
from cwboost._utils.checks import as_real
from cwboost.frames.columns import Floats


class RowFunctions(Protocol):
    """The functions of a loss written in Python; scores are (n,), or (n, q) if q > 1.

    `curvature`, the second derivatives by the scores, is optional.
    """

    def loss(self, y: Floats, score: Floats) -> Any: ...
    def gradient(self, y: Floats, score: Floats) -> Any: ...


def python_core(functions: Any, y: Floats, n_outputs: int) -> _core.Loss:
    """Return a loss of the core that calls the functions of a loss written in Python."""
    check_methods(functions, ("loss", "gradient"))
    user: RowFunctions = functions
    y = y.copy()
    y.flags.writeable = False  # the user's functions might write to it by mistake

    def evaluate(rows: _core.LossInput, want_residual: bool, want_loss: bool) -> tuple[Any, Any]:
        at = user_shape(rows.score.T)
        residual = loss = None
        if want_residual:
            gradient = checked_numbers("gradient", user.gradient(y, at), at.shape)
            if np.isnan(gradient).any():
                row = int(np.flatnonzero(np.isnan(gradient).reshape(len(y), -1).any(axis=1))[0])
                raise ValueError(f"the loss's gradient is NaN in row {row} (y = {y[row]:g})")
            residual = np.ascontiguousarray(-gradient.reshape(len(y), -1).T)
        if want_loss:
            loss = np.ascontiguousarray(checked_numbers("loss", user.loss(y, at), y.shape))
        return residual, loss

    def curvature(rows: _core.LossInput) -> Any:
        at = user_shape(rows.score.T)
        found = checked_numbers("curvature", functions.curvature(y, at), at.shape)
        return np.ascontiguousarray(found.reshape(len(y), -1).T)

    has_curvature = getattr(functions, "has_curvature", hasattr(functions, "curvature"))
    return _core.python_loss(evaluate, n_outputs, curvature=curvature if has_curvature else None)


def check_methods(loss: Any, names: tuple[str, ...]) -> None:
    """Raise TypeError if an object lacks methods that a loss needs."""
    lacking = [name for name in names if not callable(getattr(loss, name, None))]
    if lacking:
        raise TypeError(
            "loss: expected a name such as 'squared', a loss such as cb.Quantile(0.9), or an "
            f"object with the methods {', '.join(names)}; {type(loss).__name__} lacks "
            f"{', '.join(lacking)}"
        )


def user_shape(block: Floats) -> Floats:
    """Return a block (n, q) as the user's functions take it: (n,) if q is 1."""
    return np.ascontiguousarray(block[:, 0] if block.shape[1] == 1 else block)


def checked_numbers(what: str, value: Any, shape: tuple[int, ...] | None) -> Floats:
    """Return what a function of the user returned, as an array of the right shape (None: any)."""
    try:
        out = as_real(value)
    except (TypeError, ValueError):
        found = getattr(value, "dtype", type(value).__name__)
        raise TypeError(f"the loss's {what} must return real numbers, got {found}") from None
    if shape is not None and out.shape != shape:
        raise ValueError(
            f"the loss's {what} must return an array of shape {shape}, got {out.shape}"
        )
    return out
