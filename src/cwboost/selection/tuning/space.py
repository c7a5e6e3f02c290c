"""The search space: which hyperparameters are tuned, how they are sampled, and which learners and
optimizers they stand for. Does not know about fits and scores (see evaluation.py).

A parameter is `rate`, `momentum`, `optimizer`, `bins`, or the df of all smooth terms (`df`), of a
kind of them (`df.Spline`) or of one term (`df.age`). The most specific df applies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cwboost._utils.checks import is_number
from cwboost._utils.text import quote
from cwboost.binning.rules import as_bins
from cwboost.optimizers import OPTIMIZERS, Optimizer, Plain, TuningRange, as_optimizer
from cwboost.terms.learners import LEARNERS, Learner
from cwboost.terms.plan import Plan

MIN_EXCESS_DF = 0.01  # smallest excess of df over the unpenalised dimension


class Distribution(ABC):
    """How the values of one parameter are drawn.

    A configuration stores a number, or the label of a value, so that it can be written as JSON.
    """

    # Whether the values are spread evenly on a logarithmic scale.
    is_log: ClassVar[bool] = False

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> Any:
        """Draw a number or a label at random."""

    @property
    @abstractmethod
    def size(self) -> float:
        """The number of different values."""

    @property
    @abstractmethod
    def limits(self) -> tuple[Any, ...]:
        """The values to check: the ends of a range, or all choices."""

    @property
    def labels(self) -> tuple[Any, ...] | None:
        """The labels of all choices; None for a range of numbers."""
        return None

    def value(self, stored: Any) -> Any:
        """Return the value that a configuration stores as a number or a label."""
        return stored


@dataclass(frozen=True)
class NumberRange(Distribution):
    """Numbers from low to high."""

    low: float
    high: float

    @property
    def size(self) -> float:
        return np.inf if self.low < self.high else 1

    @property
    def limits(self) -> tuple[Any, ...]:
        return self.low, self.high


@dataclass(frozen=True)
class Uniform(NumberRange):
    """The uniform distribution from low to high."""

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))


@dataclass(frozen=True)
class LogUniform(NumberRange):
    """The log-uniform distribution from low to high: 0.01 to 0.1 is as likely as 0.1 to 1.

    Parameters
    ----------
    low, high : float
        Positive.

    Examples
    --------
    >>> LogUniform(0.01, 0.5)
    LogUniform(low=0.01, high=0.5)
    """

    is_log: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high) and 0 < self.low <= self.high):
            raise ValueError(
                f"LogUniform: expected 0 < low <= high, got {quote(self.low)} and "
                f"{quote(self.high)}"
            )

    def draw(self, rng: np.random.Generator) -> float:
        # clipped, because exp(log(x)) may differ from x by rounding
        drawn = np.exp(rng.uniform(np.log(self.low), np.log(self.high)))
        return float(np.clip(drawn, self.low, self.high))


@dataclass(frozen=True)
class Choice(Distribution):
    """One of the given values, all equally likely. The label of a value is the value itself if it
    is text or a number, else its repr."""

    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(v if isinstance(v, str | int | float) else repr(v) for v in self.values)

    def draw(self, rng: np.random.Generator) -> Any:
        return self.labels[int(rng.integers(len(self.values)))]

    @property
    def size(self) -> float:
        return len(self.values)

    @property
    def limits(self) -> tuple[Any, ...]:
        return self.values

    def value(self, stored: Any) -> Any:
        return self.values[self.labels.index(stored)]


Configuration = dict[str, Any]  # number or label by name of parameter


@dataclass(frozen=True)
class Space:
    """The parameters of a configuration and their distributions."""

    parameters: Mapping[str, Distribution]

    @classmethod
    def make(cls, space: Any, plans: Sequence[Plan]) -> Space:
        """Return the space that the user passed, checked against the terms.

        None is the default space: the df of every kind of term, and the rate.
        """
        learners = [plan.learner for plan in plans]
        if space is None:
            ranges = {type(x).__name__: x.df_range for x in learners if _is_open(x)}
            df = {f"df.{kind}": Uniform(*ends) for kind, ends in ranges.items() if ends}
            rates = {name: LogUniform(r.low, r.high) for name, r in Plain.tuned.items()}
            return cls({**df, **rates})
        if not isinstance(space, Mapping) or not space:
            raise TypeError(
                "space: expected a mapping such as {'df.Spline': (2, 10), 'rate': "
                f"cb.LogUniform(0.01, 0.5)}}, got {quote(space)}"
            )
        checked = cls({name: _as_distribution(name, values) for name, values in space.items()})
        for name, distribution in checked.parameters.items():
            _check(name, distribution, learners)
        optimizers = checked.optimizers()
        for name in checked.parameters.keys() & _optimizer_parameters():
            if not any(name in optimizer.tuned for optimizer in optimizers):
                takers = [key for key, kind in OPTIMIZERS.items() if name in kind.tuned]
                raise ValueError(
                    f"space: {name} is a parameter of {', '.join(f'cb.{x}' for x in takers)}, and "
                    f"the space has no such 'optimizer'; add for instance 'optimizer': "
                    f"{quote(takers[0].lower())}"
                )
        return checked

    def optimizers(self) -> list[Optimizer]:
        """Return all optimizers that a configuration can have, with their default parameters."""
        choice = self.parameters.get("optimizer")
        return [Plain()] if choice is None else [_as_optimizer(v) for v in choice.limits]

    def draw(self, rng: np.random.Generator) -> Configuration:
        """Draw a configuration at random."""
        drawn = {name: d.draw(rng) for name, d in self.parameters.items()}
        return {name: value for name, value in drawn.items() if self.matters(name, drawn)}

    def draw_all(self, seed: int, sizes: Sequence[int]) -> list[Configuration]:
        """Draw configurations for several brackets, `sizes[i]` different ones for bracket i.

        A bracket must not ask for more than `self.size`. The k-th configuration depends only on
        `seed` and k, unless it repeats an earlier one of its bracket.
        """
        out: list[Configuration] = []
        for size in sizes:
            drawn_before: set[str] = set()
            for k in range(len(out), len(out) + size):
                rng = np.random.default_rng([seed, k])
                drawn = self.draw(rng)
                while repr(drawn) in drawn_before:
                    drawn = self.draw(rng)
                drawn_before.add(repr(drawn))
                out.append(drawn)
        return out

    @property
    def size(self) -> float:
        """The number of different configurations."""
        counts = {name: d.size for name, d in self.parameters.items()}
        counts.pop("optimizer", None)
        own = {name: counts.pop(name) for name in _optimizer_parameters() if name in counts}
        each = [math.prod(own[n] for n in own if n in x.tuned) for x in self.optimizers()]
        return math.prod(counts.values()) * sum(each)

    def matters(self, name: str, parameters: Configuration) -> bool:
        """Return whether a parameter has an effect, given the others: Plain ignores momentum."""
        return name not in _optimizer_parameters() or name in self.optimizer(parameters).tuned

    def value(self, parameters: Configuration, name: str, default: Any = None) -> Any:
        """Return the value of a parameter, or the default if the configuration lacks it."""
        if name not in parameters:
            return default
        return self.parameters[name].value(parameters[name])

    def optimizer(self, parameters: Configuration) -> Optimizer:
        """Return the optimizer of a configuration."""
        default = _as_optimizer(self.value(parameters, "optimizer", "plain"))
        return default.with_params(**{n: parameters[n] for n in default.tuned if n in parameters})

    def learner(self, parameters: Configuration, plan: Plan) -> Learner:
        """Return the learner of a term with the df of the configuration, raised to the smallest
        possible."""
        learner = plan.learner
        for name in _df_names(learner):
            if name in parameters:
                free = plan.basis.least_df - learner.removed_df
                df = max(self.value(parameters, name), free + MIN_EXCESS_DF)
                return learner.with_df(df)
        return learner


def _is_open(learner: Learner) -> bool:
    """Return whether `df` applies to a learner: it is smooth, and the user gave no df."""
    tuned = learner.takes_df and learner.df_range is not None
    return tuned and not learner.states_smoothing


def _df_names(learner: Learner) -> list[str]:
    """Return the parameters that can set the df of a learner, the most specific first."""
    if not learner.takes_df:
        return []
    own, kind = learner.name or ":".join(learner.columns), type(learner).__name__
    names = [f"df.{own}"] if learner.states_smoothing else [f"df.{own}", f"df.{kind}"]
    return [*names, "df"] if _is_open(learner) else names


def _as_optimizer(value: Any) -> Optimizer:
    return as_optimizer(value, "space, 'optimizer'")


def _optimizer_parameters() -> dict[str, TuningRange]:
    """Return the parameters of all optimizers that can be tuned, with their default ranges."""
    return {name: values for kind in OPTIMIZERS.values() for name, values in kind.tuned.items()}


def _as_distribution(name: Any, values: Any) -> Distribution:
    """Return the distribution that a tuple (low, high), a list of choices or a value stands for."""
    if isinstance(values, Distribution):
        return values
    if isinstance(values, tuple):
        if len(values) != 2 or not all(map(is_number, values)) or values[0] > values[1]:
            raise ValueError(
                f"space, {quote(name)}: expected a tuple (low, high) or a list of choices, got "
                f"{quote(values)}"
            )
        return Uniform(*map(float, values))
    choices = tuple(values) if isinstance(values, list) else (values,)
    if not choices:
        raise ValueError(f"space, {quote(name)}: the list of choices is empty")
    return Choice(choices)


def _check(name: Any, distribution: Distribution, learners: Sequence[Learner]) -> None:
    """Raise unless the parameter is known and all its values are valid."""
    limits, labels = distribution.limits, distribution.labels
    if labels is not None and len(set(labels)) < len(labels):
        raise ValueError(f"space, {quote(name)}: the list has a value twice: {list(limits)}")
    if name == "bins":
        if labels is None:
            raise TypeError("space, 'bins': expected a list of rules, such as ['auto', 'sqrt']")
        for value in limits:
            as_bins(value)
    elif name == "optimizer":
        for value in limits:
            _as_optimizer(value)
    elif name in _optimizer_parameters() or name == "df" or str(name).startswith("df."):
        tuning_range = _optimizer_parameters().get(name)
        zero = tuning_range is not None and tuning_range.may_be_zero
        for value in limits:
            if not is_number(value) or not (value > 0 or (zero and value == 0)):
                raise ValueError(
                    f"space, {quote(name)}: expected positive numbers, got {quote(value)}"
                )
        if tuning_range is None:
            _check_df(name, learners)
    else:
        raise ValueError(
            f"space: expected {', '.join(_optimizer_parameters())}, optimizer, bins, df, df.KIND "
            f"or df.COLUMN, got {quote(name)}"
        )


def _check_df(name: str, learners: Sequence[Learner]) -> None:
    if any(name in _df_names(learner) for learner in learners):
        return
    what = name.removeprefix("df.")
    which = (
        "" if name == "df" else f" of the kind {what}" if what in LEARNERS else f" {quote(what)}"
    )
    kinds = ", ".join(sorted({type(learner).__name__ for learner in learners}))
    raise ValueError(
        f"space, {quote(name)}: there is no term{which} whose df can be tuned; the terms are "
        f"{kinds}"
    )
