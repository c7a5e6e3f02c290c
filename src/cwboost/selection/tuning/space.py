"""What a configuration of a fit may be: the parameters to choose, where they come from, and what
they make of learners and optimizers. Knows nothing of fits, rows or scores.

A parameter is `rate`, `momentum`, `optimizer`, `bins`, or df: of all smooth terms (`df`), of a kind
of them (`df.Spline`) or of one (`df.age`), the last one that fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cwboost._utils.checks import is_number
from cwboost.binning.rules import as_bins
from cwboost.optimizers import OPTIMIZERS, Optimizer, Plain, TuningRange, as_optimizer
from cwboost.terms.learners import LEARNERS, Learner
from cwboost.terms.plan import Plan

ABOVE_FREE = 0.01  # df above what the penalty leaves free, at the least


@dataclass(frozen=True)
class Uniform:
    """Any number from low to high, all as likely."""

    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self.low, self.high))

    @property
    def size(self) -> float:
        return np.inf if self.low < self.high else 1


@dataclass(frozen=True)
class LogUniform:
    """Any number from low to high whose logarithm is uniform: 0.01 to 0.1 as likely as 0.1 to 1.

    Parameters
    ----------
    low, high : float
        Positive.

    Examples
    --------
    >>> LogUniform(0.01, 0.5)
    LogUniform(low=0.01, high=0.5)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (is_number(self.low) and is_number(self.high) and 0 < self.low <= self.high):
            raise ValueError(
                f"LogUniform: expected 0 < low <= high, got {self.low!r} and {self.high!r}"
            )

    def draw(self, rng: np.random.Generator) -> float:
        # clipped: exp(log(x)) may miss x by rounding
        drawn = np.exp(rng.uniform(np.log(self.low), np.log(self.high)))
        return float(np.clip(drawn, self.low, self.high))

    @property
    def size(self) -> float:
        return np.inf if self.low < self.high else 1


@dataclass(frozen=True)
class Choice:
    """One of some values, all as likely; told by labels, which are plain text or numbers."""

    values: tuple[Any, ...]

    @property
    def labels(self) -> tuple[Any, ...]:
        return tuple(v if isinstance(v, str | int | float) else repr(v) for v in self.values)

    def draw(self, rng: np.random.Generator) -> Any:
        return self.labels[int(rng.integers(len(self.values)))]

    @property
    def size(self) -> float:
        return len(self.values)

    def value(self, label: Any) -> Any:
        return self.values[self.labels.index(label)]


Distribution = Uniform | LogUniform | Choice
Configuration = dict[str, Any]  # name -> number or label


@dataclass(frozen=True)
class Space:
    """The parameters of a configuration and their distributions."""

    parameters: Mapping[str, Distribution]

    @classmethod
    def make(cls, given: Any, plans: Sequence[Plan]) -> Space:
        """What the user gave, checked against the terms; None: df of the kinds of terms that there
        are, and the rate."""
        learners = [plan.learner for plan in plans]
        if given is None:
            ranges = {type(x).__name__: x.df_range for x in learners if _is_open(x)}
            df = {f"df.{kind}": Uniform(*ends) for kind, ends in ranges.items() if ends}
            rates = {name: LogUniform(r.low, r.high) for name, r in Plain.tuned.items()}
            return cls({**df, **rates})
        if not isinstance(given, Mapping) or not given:
            raise TypeError(
                "space: expected a mapping such as {'df.Spline': (2, 10), 'rate': "
                f"cb.LogUniform(0.01, 0.5)}}, got {given!r}"
            )
        made = cls({name: _distribution(name, values) for name, values in given.items()})
        for name, distribution in made.parameters.items():
            _check(name, distribution, learners)
        optimizers = made.optimizers()
        for name in made.parameters.keys() & _optimizer_parameters():
            if not any(name in optimizer.tuned for optimizer in optimizers):
                takers = [f"cb.{key}" for key, cls in OPTIMIZERS.items() if name in cls.tuned]
                raise ValueError(
                    f"space: {name} is a parameter of {', '.join(takers)}, and the space has no "
                    f"such 'optimizer'; add for instance 'optimizer': '{takers[0][3:].lower()}'"
                )
        return made

    def optimizers(self) -> list[Optimizer]:
        """All that a configuration can have, before rate and momentum."""
        choice = self.parameters.get("optimizer")
        return (
            [_as_optimizer(v) for v in choice.values] if isinstance(choice, Choice) else [Plain()]
        )

    def draw(self, rng: np.random.Generator) -> Configuration:
        """A configuration at random."""
        drawn = {name: d.draw(rng) for name, d in self.parameters.items()}
        return {name: value for name, value in drawn.items() if self.matters(name, drawn)}

    def draw_all(self, seed: int, sizes: Sequence[int]) -> list[Configuration]:
        """Configurations at random for several searches, of each so many (at most `size`) and all
        different. The k-th of all depends on `seed` and k, unless it had been there before."""
        out: list[Configuration] = []
        for size in sizes:
            there: set[str] = set()
            for k in range(len(out), len(out) + size):
                rng = np.random.default_rng([seed, k])
                drawn = self.draw(rng)
                while repr(drawn) in there:
                    drawn = self.draw(rng)
                there.add(repr(drawn))
                out.append(drawn)
        return out

    @property
    def size(self) -> float:
        """How many different configurations there are."""
        counts = {name: d.size for name, d in self.parameters.items()}
        counts.pop("optimizer", None)
        own = {name: counts.pop(name) for name in _optimizer_parameters() if name in counts}
        each = [math.prod(own[n] for n in own if n in x.tuned) for x in self.optimizers()]
        return math.prod(counts.values()) * sum(each)

    def matters(self, name: str, parameters: Configuration) -> bool:
        """Whether a parameter makes a difference beside others: Plain has no momentum."""
        return name not in _optimizer_parameters() or name in self.optimizer(parameters).tuned

    def value(self, parameters: Configuration, name: str, default: Any = None) -> Any:
        """What a parameter stands for."""
        if name not in parameters:
            return default
        distribution, value = self.parameters[name], parameters[name]
        return distribution.value(value) if isinstance(distribution, Choice) else value

    def optimizer(self, parameters: Configuration) -> Optimizer:
        made = _as_optimizer(self.value(parameters, "optimizer", "plain"))
        return made.with_params(**{n: parameters[n] for n in made.tuned if n in parameters})

    def learner(self, parameters: Configuration, plan: Plan) -> Learner:
        """A term's learner with the df that the parameters give it, at least what it can have."""
        learner = plan.learner
        for name in _df_names(learner):
            if name in parameters:
                free = plan.basis.null_dim - learner.df_beside
                df = max(self.value(parameters, name), free + ABOVE_FREE)
                return replace(learner, df=df, smoothing=None)  # type: ignore[call-arg]
        return learner


def _is_open(learner: Learner) -> bool:
    """Whether its df is to be chosen when all are: it is smoothed, and did not say how much."""
    tuned = learner.takes_df and learner.df_range is not None
    return tuned and not learner.states_smoothing


def _df_names(learner: Learner) -> list[str]:
    """Parameters that can give a learner its df, the most special first."""
    if not learner.takes_df:
        return []
    own, kind = learner.name or ":".join(learner.columns), type(learner).__name__
    names = [f"df.{own}"] if learner.states_smoothing else [f"df.{own}", f"df.{kind}"]
    return [*names, "df"] if _is_open(learner) else names


def _as_optimizer(value: Any) -> Optimizer:
    return as_optimizer(value, "space, 'optimizer'")


def _optimizer_parameters() -> dict[str, TuningRange]:
    """Return the parameters of all optimizers that can be tuned."""
    return {name: found for cls in OPTIMIZERS.values() for name, found in cls.tuned.items()}


def _distribution(name: Any, given: Any) -> Distribution:
    if isinstance(given, Uniform | LogUniform | Choice):
        return given
    if isinstance(given, tuple):
        if len(given) != 2 or not all(map(is_number, given)) or given[0] > given[1]:
            raise ValueError(
                f"space, {name!r}: a tuple is (low, high), got {given!r}; choices are a list"
            )
        return Uniform(*map(float, given))
    values = tuple(given) if isinstance(given, list) else (given,)
    if not values:
        raise ValueError(f"space, {name!r}: an empty list has nothing to choose from")
    return Choice(values)


def _check(name: Any, distribution: Distribution, learners: Sequence[Learner]) -> None:
    """A parameter is known, and all its values are possible."""
    ends: Sequence[Any]
    if isinstance(distribution, Choice):
        ends = distribution.values
        if len(set(distribution.labels)) < len(ends):
            raise ValueError(f"space, {name!r}: a value is in the list twice: {list(ends)}")
    else:
        ends = distribution.low, distribution.high
    if name == "bins":
        if not isinstance(distribution, Choice):
            raise TypeError("space, 'bins': expected a list of rules, such as ['auto', 'sqrt']")
        for value in ends:
            as_bins(value)
    elif name == "optimizer":
        for value in ends:
            _as_optimizer(value)
    elif name in _optimizer_parameters() or name == "df" or str(name).startswith("df."):
        found = _optimizer_parameters().get(name)
        zero = found is not None and found.may_be_zero
        for value in ends:
            if not is_number(value) or not (value > 0 or (zero and value == 0)):
                raise ValueError(f"space, {name!r}: expected positive numbers, got {value!r}")
        if found is None:
            _check_df(name, learners)
    else:
        raise ValueError(
            f"space: expected {', '.join(_optimizer_parameters())}, optimizer, bins, df, df.KIND "
            f"or df.COLUMN, got {name!r}"
        )


def _check_df(name: str, learners: Sequence[Learner]) -> None:
    if any(name in _df_names(learner) for learner in learners):
        return
    what = name.removeprefix("df.")
    which = "" if name == "df" else f" of the kind {what}" if what in LEARNERS else f" {what!r}"
    kinds = ", ".join(sorted({type(learner).__name__ for learner in learners}))
    raise ValueError(
        f"space, {name!r}: there is no term{which} whose df can be chosen; the terms are {kinds}"
    )
