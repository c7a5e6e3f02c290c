"""What runs between two iterations of a fit: the user's callback, progress, checkpoints, Ctrl-C.

Early stopping by patience is not here: the core does it (core/early_stopping.hpp).
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cwboost._utils.text import count, quote
from cwboost.model.model import Model
from cwboost.progress import Progress, as_progress

from .checkpoint import Checkpoint

FACTS = ("iteration", "risk", "validation_risk", "choice")  # the arguments of a callback
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `.model` is the model fitted so far.

    `in_polish` says that boosting was complete, and `words` what was interrupted.
    """

    def __init__(self, model: Model, *, in_polish: bool = False) -> None:
        bags = model.bags
        done = count(model.n_iter, "iteration") if bags is None else count(len(bags), "bag")
        self.words = f"interrupted after {done}"
        if in_polish:
            self.words += ", before the terms were refitted to all rows (polish)"
        super().__init__(f"{self.words}; .model has them")
        self.model, self.in_polish = model, in_polish

    def with_model(self, model: Model) -> Interrupted:
        """Return the same interrupt with another form of the model."""
        return Interrupted(model, in_polish=self.in_polish)

    def __reduce__(self) -> Any:
        return partial(Interrupted, in_polish=self.in_polish), (self.model,)


class HaltCallback:
    """A callback that only decides whether to stop; it is called at most twenty times a second."""

    every = 0.05  # seconds

    def __init__(self, halt: Callable[[], bool]) -> None:
        self.halt = halt

    def __call__(self) -> bool:
        return self.halt()


@dataclass(frozen=True, eq=False)
class RunContext:
    """What accompanies a fit while it runs."""

    callback: Callable[..., Any] | None = None
    progress: Progress = field(default_factory=lambda: as_progress(False))
    checkpoint: Checkpoint | None = None
    began: float = field(default_factory=time.perf_counter)  # when the fit was called


def iteration_facts(
    risk: float, validation_risk: float, choice: int, names: list[str]
) -> dict[str, Any]:
    """Return what callbacks and progress are told about an iteration."""
    watched = None if math.isnan(validation_risk) else float(validation_risk)
    return {"risk": float(risk), "validation_risk": watched, "choice": names[choice]}


def iteration_hook(
    context: RunContext, names: list[str], n_known: int = 0
) -> tuple[Callable[[int, float, float, int], bool] | None, float]:
    """Return what the core calls after an iteration, and the least seconds between two calls.

    The callback is not called for the first `n_known` iterations, which an earlier run has made.
    """
    callback, bar = context.callback, context.progress
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
        return called is not None and m > n_known and called(m, *facts.values())

    return after, every if called is None and every is not None else 0.0


def _adapted(callback: Callable[..., Any]) -> Callable[..., bool]:
    """Return the callback as a function of all four FACTS; it gets those that it takes."""
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(
            f"callback: expected a function of {', '.join(FACTS)}, got {quote(callback)}"
        ) from None
    n_positional = sum(p.kind in POSITIONAL for p in parameters)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        n_positional = len(FACTS)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in POSITIONAL]
    if len(needed) > len(FACTS):
        raise TypeError(f"callback takes {', '.join(needed)}; expected at most {', '.join(FACTS)}")
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}

    def called(*values: Any) -> bool:
        rest = dict(zip(FACTS[n_positional:], values[n_positional:], strict=True))
        keywords = {k: v for k, v in rest.items() if any_keyword or k in by_name}
        return bool(callback(*values[:n_positional], **keywords))

    return called
