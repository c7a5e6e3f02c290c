"""Losses on non-negative numbers with a log link: Tweedie, Poisson, gamma."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
from scipy.special import gammaln

from cwboost import _core
from cwboost._utils.checks import is_number, simplify_fields
from cwboost._utils.text import count, quote
from cwboost.frames.columns import Floats, TargetError

from .base import Loss, TargetRows


@dataclass(frozen=True)
class Tweedie(Loss):
    """Tweedie deviance with a log link, variance = mean^power: 1 is Poisson, 2 is gamma.

    Examples
    --------
    >>> Tweedie(1.5).start(np.array([0.0, 2.0]), np.ones(2), np.zeros((2, 1)))
    array([0.])
    """

    power: float = 1.5
    name: ClassVar[str] = "tweedie"
    core_name: ClassVar[str | None] = "tweedie"
    link: ClassVar[str | None] = "log"

    def __post_init__(self) -> None:
        simplify_fields(self)
        if not (is_number(self.power) and 1.0 <= self.power <= 2.0):
            raise ValueError(f"Tweedie: power must be from 1 to 2, got {quote(self.power)}")

    @property
    def parameter(self) -> float:
        return self.power

    def core(self, y: Floats) -> _core.Loss:  # noqa: ARG002
        limits = {1.0: "poisson", 2.0: "gamma"}  # the formula of the core divides by zero there
        return _core.make_loss(limits.get(self.power, "tweedie"), self.power)

    def check_y(self, y: Floats) -> None:
        bad, domain = (y < 0, ">= 0") if self.power < 2.0 else (y <= 0, "> 0")
        if bad.any():
            row, n = int(np.argmax(bad)), int(bad.sum())
            needs = f"the {self.name} loss needs numbers {domain}"
            raise TargetError(row, f"{needs}, got {y[row]:g} (in {count(n, 'row')})")

    def start_of(self, rows: TargetRows) -> Floats:
        p = self.power
        if not rows.total(lambda y, w, _: w @ (y > 0)) > 0:
            raise ValueError(
                f"y is zero in all training rows, so the start of the {self.name} loss would be "
                "minus infinity; there is nothing to fit"
            )
        top = rows.largest_offset  # against overflow of exp
        fall = rows.total(lambda y, w, o: w @ (y * np.exp((1 - p) * (o[:, 0] - top))))
        rise = rows.total(lambda _, w, o: w @ np.exp((2 - p) * (o[:, 0] - top)))
        return np.array([np.log(fall) - np.log(rise) - top])

    def scale_of(self, rows: TargetRows, start: Floats) -> float:
        with np.errstate(over="ignore", divide="ignore"):
            mean = rows.mean(lambda y, o: self.curvature(y, o[:, 0] + start[0]))
            return float(np.float64(1.0) / mean)

    def curvature(self, y: Floats, score: Floats) -> Floats:
        p = self.power
        return (p - 1) * y * np.exp((1 - p) * score) + (2 - p) * np.exp((2 - p) * score)


@dataclass(frozen=True)
class Poisson(Tweedie):
    """exp(f) - y f, log link: the mean of counts.

    Examples
    --------
    >>> Poisson().start(np.array([0.0, 2.0]), np.ones(2), np.zeros((2, 1)))
    array([0.])
    """

    power: float = field(default=1.0, init=False, repr=False)
    name: ClassVar[str] = "poisson"
    likelihood: ClassVar[Literal["exact", "normal"] | None] = "exact"

    def likelihood_constant(self, y: Floats) -> Floats:
        return np.asarray(gammaln(y + 1.0))

    def dispersion_of(self, estimate: float) -> float:
        return max(1.0, estimate)  # counts often vary more than the Poisson distribution says


@dataclass(frozen=True)
class Gamma(Tweedie):
    """f + y exp(-f), log link: the mean of positive amounts.

    Examples
    --------
    >>> Gamma().start(np.array([1.0, 3.0]), np.ones(2), np.zeros((2, 1))).round(6)
    array([0.693147])
    """

    power: float = field(default=2.0, init=False, repr=False)
    name: ClassVar[str] = "gamma"
