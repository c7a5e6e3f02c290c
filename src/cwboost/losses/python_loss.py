"""A loss made from any object with the methods loss, gradient and start."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any, ClassVar

from cwboost import _core
from cwboost._utils.checks import is_whole
from cwboost._utils.fingerprint import describe_code, fingerprint
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats

from .base import Loss, TargetRows
from .classes import MAX_CLASSES
from .python_core import check_methods, checked_numbers, python_core, user_shape


@dataclass(frozen=True)
class PythonLoss(Loss):
    """A loss written in Python: an object with the vectorised methods

    - `loss(y, score)` and `gradient(y, score)` (by the score), both (n,) -> (n,);
    - `start(y, weights)` or `start(y, weights, offset)`, which returns a number;
    - optionally `response(score)`, and `scale`, a number (default 1).

    With an attribute `n_outputs` = q > 1, scores and gradients are (n, q) and the start is (q,).
    The object may also have any attribute or method of `FORWARDED`, with the meaning that it has in
    `Loss`.
    """

    user: Any
    name: ClassVar[str] = "python"

    def __post_init__(self) -> None:
        check_methods(self.user, ("loss", "gradient", "start"))
        found = getattr(self.user, "n_outputs", 1)
        if not (is_whole(found) and 1 <= found <= MAX_CLASSES):
            raise ValueError(
                "loss: n_outputs, the number of scores per row, must be a whole number from 1 to "
                f"{MAX_CLASSES}, got {quote(found)}"
            )

    @property
    def n_outputs(self) -> int:
        return int(getattr(self.user, "n_outputs", 1))

    def core(self, y: Floats) -> _core.Loss:
        return python_core(self.user, y, self.n_outputs)

    def start_of(self, rows: TargetRows) -> Floats:
        y, w, offset = rows.whole()
        arguments: list[Any] = [y, w]
        takes = inspect.signature(self.user.start).parameters.values()
        if len(takes) > 2 or any(p.kind is p.VAR_POSITIONAL for p in takes):
            arguments.append(user_shape(offset))
        elif offset.any():
            raise TypeError(
                "the loss's start must take (y, weights, offset) when there are offsets"
            )
        shape = () if self.n_outputs == 1 else (self.n_outputs,)
        return checked_numbers("start", self.user.start(*arguments), shape).reshape(-1)

    def scale_of(self, rows: TargetRows, start: Floats) -> float:  # noqa: ARG002
        return float(checked_numbers("scale", getattr(self.user, "scale", 1.0), ()))

    @property
    def has_response(self) -> bool:
        return callable(getattr(self.user, "response", None))

    def response(self, score: Floats) -> Floats:
        if self.has_response:
            return checked_numbers("response", self.user.response(user_shape(score)), None)
        return user_shape(score) if self.link == "identity" else super().response(score)

    @property
    def has_curvature(self) -> bool:
        return hasattr(self.user, "curvature")

    def label(self) -> str:
        return f"{type(self.user).__name__} (written in Python)"

    def code(self) -> str:
        return "loss"

    def identity(self) -> str:
        return f"{type(self.user).__qualname__} {fingerprint(describe_code(self.user))}"


class _Forwarded:
    """An attribute of the user's object; if it is missing, the default of Loss."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, loss: PythonLoss | None, owner: type[PythonLoss]) -> Any:
        if loss is None:
            return getattr(Loss, self.name)
        if hasattr(loss.user, self.name):
            return getattr(loss.user, self.name)
        if self.name == "link" and callable(getattr(loss.user, "response", None)):
            return None  # only the user's function knows it
        return getattr(super(owner, loss), self.name)


FORWARDED = (
    "joint_choices", "target", "check_y", "class_values", "bootstrap_rate", "link",
    "prediction_kinds", "predict", "estimand", "figures", "loss_name", "saturated_score",
    "calibration_level", "default_metric", "curvature", "dispersion_of", "likelihood",
    "likelihood_constant",
)  # fmt: skip
for _name in FORWARDED:
    setattr(PythonLoss, _name, _Forwarded(_name))
