"""The losses by name. To add one, write its class and add it to `LOSSES`."""

from __future__ import annotations

from typing import Any

from cwboost._utils.checks import check_one_of, is_one_of, is_subclass, is_whole
from cwboost._utils.text import list_choices, quote

from .base import Loss
from .classes import MAX_CLASSES
from .classification import Binomial, Multinomial
from .links import INVERSE_LINKS
from .python_loss import PythonLoss
from .regression import Absolute, Huber, Quantile, Squared
from .tweedie import Gamma, Poisson, Tweedie

TARGETS = ("numbers", "classes")
SYNONYMS = {  # what other libraries call the losses
    "squared": ("mse", "rmse", "l2", "squared_error", "squarederror", "gaussian", "normal", "ls"),
    "absolute": ("mae", "l1", "absolute_error", "laplace", "lad"),
    "quantile": ("pinball", "quantile_loss"),
    "binomial": ("log_loss", "logloss", "logistic", "binary", "bernoulli", "cross_entropy"),
    "multinomial": ("softmax", "multiclass", "categorical"),
    "poisson": ("poisson_loss", "count"),
}
# A user may add a class under its name; models with that loss can then be saved, and loaded where
# it has been added too.
LOSSES: dict[str, type[Loss]] = {
    cls.name: cls
    for cls in (
        Squared, Absolute, Quantile, Huber, Binomial, Multinomial, Poisson, Gamma, Tweedie,
    )
}  # fmt: skip


def as_loss(loss: Any) -> Loss:
    """Return the loss for a name, a Loss, or an object with the methods of a loss.

    Examples
    --------
    >>> as_loss("poisson")
    Poisson()
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            use = next(
                (name for name, others in SYNONYMS.items() if loss.lower() in (name, *others)), None
            )
            hint = f"; use {quote(use)}" if use else ""
            raise ValueError(f"loss: expected one of {', '.join(LOSSES)}; got {quote(loss)}{hint}")
        cls: Any = LOSSES[loss]
        if not is_subclass(cls, Loss):
            raise TypeError(
                f"loss: LOSSES[{quote(loss)}] must be a subclass of cwboost.losses.Loss, got "
                f"{quote(cls)}; pass an object with the methods loss, gradient and start as loss= "
                "instead"
            )
        return as_loss(cls())
    if isinstance(loss, type):
        return as_loss(loss())
    instance = loss if isinstance(loss, Loss) else PythonLoss(loss)
    _check_definition(instance, type(loss).__name__)
    if not instance.joint_choices:
        raise ValueError(
            f"loss: {type(loss).__name__} asks for separate choices per output, which are not "
            "supported yet"
        )
    return instance


def _check_definition(loss: Loss, who: str) -> None:
    """Raise if the attributes that every loss must state are missing or unknown."""
    if not isinstance(getattr(loss, "name", None), str):
        raise TypeError(
            f"loss: {who} needs a class attribute `name`, the word for it in messages and files "
            "(a string)"
        )
    check_one_of(f"loss: {who}.target", loss.target, TARGETS)
    least = 0 if loss.target == "classes" else 1  # 0: as many as there are classes
    if not (is_whole(loss.n_outputs) and least <= loss.n_outputs <= MAX_CLASSES):
        raise ValueError(
            f"loss: {who}.n_outputs, the number of scores per row, must be a whole number from 1 "
            f"to {MAX_CLASSES}, got {quote(loss.n_outputs)}"
        )
    if not is_one_of(loss.link, INVERSE_LINKS) and not loss.has_response:
        raise ValueError(
            f"loss: {who}.link: expected {list_choices(INVERSE_LINKS)}, got {quote(loss.link)}; "
            "for another link define response(score)"
        )


def loss_for_classes(n_classes: int) -> Loss:
    """Return the usual loss for y with this number of classes.

    Examples
    --------
    >>> loss_for_classes(3)
    Multinomial()
    """
    return Binomial() if n_classes <= 2 else Multinomial()


def is_registered(loss: Loss) -> bool:
    """Return whether a file can name the loss: its class is in `LOSSES` under its name."""
    return LOSSES.get(loss.name) is type(loss)


def explain_registration(loss: Loss) -> str:
    """Return why a file cannot name a loss that is not registered, and what to do about it."""
    register = "before you save and before you load"
    if isinstance(loss, PythonLoss):
        return (
            f"{type(loss.user).__name__} is not a subclass of cwboost.losses.Loss; derive it from "
            "Loss (a frozen dataclass with a `name`, and `start_of(rows)` instead of `start`), set "
            f"cwboost.losses.LOSSES[name] = {type(loss.user).__name__} {register}, and fit again"
        )
    cls = type(loss).__name__
    return (
        f"the class {cls} is not registered; set cwboost.losses.LOSSES[{loss.name!r}] = {cls} "
        f"{register}"
    )
