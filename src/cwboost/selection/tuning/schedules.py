"""Schedules: how many configurations to try, for how many iterations (Hyperband, successive
halving, random search). Independent of how a configuration is fitted or scored.

A bracket is a list of rungs (budget, number of configurations). The configurations of its first
rung are drawn at random; the best of each rung go on to the next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from cwboost._utils.checks import check_whole, is_number
from cwboost._utils.text import quote

MAX_ITERATIONS = 2**31 - 2  # of a fit


class Rung(NamedTuple):
    """The total iterations (budget) of n configurations."""

    budget: int
    n: int


Bracket = tuple[Rung, ...]


def _check_whole(who: str, **values: Any) -> None:
    for name, value in values.items():
        check_whole(f"{who}: {name}", value, 1, MAX_ITERATIONS)


def _check_range(who: str, least: Any, most: Any, factor: Any) -> None:
    _check_whole(who, least=least, most=most)
    if least > most:
        raise ValueError(f"{who}: least must not exceed most, got {least} and {most}")
    if not is_number(factor) or not factor > 1:
        raise ValueError(f"{who}: factor must be a number > 1, got {quote(factor)}")


def _levels(least: int, most: int, factor: float) -> int:
    """Return the largest s with most / factor^s >= least."""
    return math.floor(math.log(most / least) / math.log(factor) + 1e-9)


def _halving(n: int, most: int, factor: float, levels: int) -> Bracket:
    """Return a bracket that starts n configurations with most / factor^levels iterations.

    Each rung keeps 1 / factor of the configurations and gives them `factor` times the iterations.
    """
    rungs = [
        Rung(math.floor(most / factor ** (levels - i) + 1e-9), math.floor(n / factor**i + 1e-9))
        for i in range(levels + 1)
    ]
    return tuple(rung for rung in rungs if rung.n > 0)


@dataclass(frozen=True)
class Hyperband:
    """Hyperband (Li and others, 2018) with iterations as the budget: brackets of successive
    halving that differ in how many configurations they start and how early they drop some.

    Let S be the largest number with most / factor^S >= least. For s = S, S - 1, ..., 0 a bracket
    starts ceil((S + 1) / (s + 1) factor^s) configurations with most / factor^s iterations. Each
    rung keeps 1 / factor of the configurations and gives them `factor` times the iterations, until
    `most`. All brackets cost about the same.

    The defaults are the schedule of the paper by Schalk, Bischl and Rügamer: 314 configurations,
    from 39 to 5000 iterations.

    Parameters
    ----------
    least, most : int
        Iterations of the first rung of the first bracket, and of the last rung of each bracket.
    factor : float
        With 2 every rung keeps half of the configurations.

    Examples
    --------
    >>> for bracket in Hyperband(least=250, most=1000).brackets:
    ...     print(*bracket)
    Rung(budget=250, n=4) Rung(budget=500, n=2) Rung(budget=1000, n=1)
    Rung(budget=500, n=3) Rung(budget=1000, n=1)
    Rung(budget=1000, n=3)
    >>> sum(bracket[0].n for bracket in Hyperband().brackets)
    314
    """

    least: int = 39
    most: int = 5000
    factor: float = 2

    def __post_init__(self) -> None:
        _check_range("Hyperband", self.least, self.most, self.factor)

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        top = _levels(self.least, self.most, self.factor)
        return tuple(
            _halving(
                math.ceil((top + 1) / (s + 1) * self.factor**s - 1e-9), self.most, self.factor, s
            )
            for s in range(top, -1, -1)
        )


@dataclass(frozen=True)
class Halving:
    """Successive halving: one bracket of Hyperband that starts n configurations.

    Parameters
    ----------
    n : int
        The number of configurations on the first rung, which has `least` iterations or a few more.
    least, most, factor
        See `Hyperband`.

    Examples
    --------
    >>> Halving(16, least=100, most=800).brackets[0][-1]
    Rung(budget=800, n=2)
    """

    n: int = 64
    least: int = 39
    most: int = 5000
    factor: float = 2

    def __post_init__(self) -> None:
        _check_whole("Halving", n=self.n)
        _check_range("Halving", self.least, self.most, self.factor)

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        levels = _levels(self.least, self.most, self.factor)
        return (_halving(self.n, self.most, self.factor, levels),)


@dataclass(frozen=True)
class RandomSearch:
    """Different configurations drawn at random, each with the same number of iterations.

    Parameters
    ----------
    n : int
        The number of configurations; all of them, if the space has fewer.
    n_iter : int
        The number of iterations of each.

    Examples
    --------
    >>> RandomSearch(20, 500).brackets
    ((Rung(budget=500, n=20),),)
    """

    n: int = 30
    n_iter: int = 1000

    def __post_init__(self) -> None:
        _check_whole("RandomSearch", n=self.n, n_iter=self.n_iter)

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        return ((Rung(self.n_iter, self.n),),)


def as_brackets(schedule: Any) -> tuple[Bracket, ...]:
    """Return the brackets of a schedule: any object with `brackets`, or lists of
    (budget, configurations).

    Examples
    --------
    >>> as_brackets([[(10, 4), (20, 2)], [(20, 3)]])[1]
    (Rung(budget=20, n=3),)
    """
    if hasattr(schedule, "brackets"):
        return tuple(schedule.brackets)
    try:
        made = tuple(tuple(Rung(*rung) for rung in bracket) for bracket in schedule)
    except TypeError:
        raise TypeError(
            "schedule: expected cb.Hyperband(...), cb.Halving(...), cb.RandomSearch(...) or a list "
            f"of brackets [[(budget, configurations), ...], ...], got {quote(schedule)}"
        ) from None
    if not made or not all(made):
        raise ValueError("schedule: it has no brackets, or a bracket without rungs")
    for number, bracket in enumerate(made):
        _check_bracket(f"schedule, bracket {number}", bracket)
    return made


def at_most(brackets: tuple[Bracket, ...], n: float) -> tuple[Bracket, ...]:
    """Return brackets whose rungs have at most n configurations.

    Examples
    --------
    >>> at_most(Halving(8, least=10, most=40).brackets, 3)
    ((Rung(budget=10, n=3), Rung(budget=20, n=3), Rung(budget=40, n=2)),)
    """
    return tuple(
        tuple(Rung(rung.budget, int(min(rung.n, n))) for rung in bracket) for bracket in brackets
    )


def _check_bracket(where: str, bracket: Bracket) -> None:
    for rung in bracket:
        _check_whole(where, budget=rung.budget, configurations=rung.n)
    for a, b in pairwise(bracket):
        if b.budget <= a.budget or b.n > a.n:
            raise ValueError(
                f"{where}: budgets must rise and configurations must not, got {tuple(a)} before "
                f"{tuple(b)}"
            )
