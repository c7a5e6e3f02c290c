"""What runs between two iterations: the user's callback, progress, interrupts."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from cwboost.model.model import Model
from cwboost.progress import Progress

NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `.model` is the model fitted so far."""

    def __init__(self, model: Model) -> None:
        done = f"{model.n_iter} iterations" if model.bags is None else f"{len(model.bags)} bags"
        super().__init__(f"interrupted after {done}; .model has them")
        self.model = model

    def __reduce__(self) -> Any:
        return Interrupted, (self.model,)


class HaltCallback:
    """A callback that is asked now and then whether to stop."""

    every = 0.05  # seconds

    def __init__(self, asked: Callable[[], bool]) -> None:
        self.asked = asked

    def __call__(self) -> bool:
        return self.asked()


def iteration_facts(
    risk: float, validation_risk: float, choice: int, names: list[str]
) -> dict[str, Any]:
    """What is told of an iteration."""
    held = None if math.isnan(validation_risk) else float(validation_risk)
    return {"risk": float(risk), "validation_risk": held, "choice": names[choice]}


def iteration_hook(
    callback: Callable[..., Any] | None, bar: Progress, names: list[str], known: int = 0
) -> tuple[Callable[[int, float, float, int], bool] | None, float]:
    """What the core calls after an iteration, and the least seconds between two calls. Of the first
    `known` iterations the callback was told before."""
    if isinstance(callback, HaltCallback):
        return lambda *_: callback(), callback.every
    called = None if callback is None else _adapted(callback)
    every = bar.every
    if called is None and every is None:
        return None, 0.0

    def after(m: int, risk: float, validation_risk: float, choice: int) -> bool:
        facts = iteration_facts(risk, validation_risk, choice, names)
        if every is not None:
            bar.step(m, **facts)
        return called is not None and m > known and called(m, *facts.values())

    return after, every if called is None and every is not None else 0.0


def _adapted(callback: Callable[..., Any]) -> Callable[..., bool]:
    """The callback, given those of the four facts that it takes."""
    facts = ("iteration", "risk", "validation_risk", "choice")
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(
            f"callback: expected a function of {', '.join(facts)}, got {callback!r}"
        ) from None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        takes = 4
    else:
        takes = min(4, sum(p.kind in NAMED for p in parameters))
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in NAMED]
    if len(needed) > 4:
        raise TypeError(f"callback takes {', '.join(needed)}; it is given {', '.join(facts)}")
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}

    def called(*values: Any) -> bool:
        rest = dict(zip(facts[takes:], values[takes:], strict=True))
        keywords = {k: v for k, v in rest.items() if any_keyword or k in by_name}
        return bool(callback(*values[:takes], **keywords))

    return called
