"""Optimizers as people choose them: parameters only. What they do is the core's (boost.hpp)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from cwboost._utils.checks import is_number, is_whole

from . import _core


class ParameterAccess:
    """get_params and set_params as scikit-learn's searches expect them (`optimizer__rate`)."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}  # type: ignore[arg-type]

    def set_params(self, **params: Any) -> Any:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def _check_positive(self, name: str, zero: bool = False) -> None:
        value = getattr(self, name)
        if not (is_number(value) and (value > 0 or (zero and value == 0))):
            raise ValueError(
                f"{type(self).__name__}: {name} must be a positive number, got {value!r}"
            )


@dataclass
class Plain(ParameterAccess):
    """Componentwise boosting (CWB): f += rate * best learner of the residuals at f.

    Parameters
    ----------
    rate : float
        The step, usually 0.01 to 0.3.

    Examples
    --------
    >>> Plain(rate=0.05).set_params(rate=0.2)
    Plain(rate=0.2)
    """

    rate: float = 0.1

    def core(self) -> _core.Plain:
        self._check_positive("rate")
        return _core.Plain(self.rate)


@dataclass
class Accelerated(ParameterAccess):
    """Componentwise boosting with Nesterov momentum (ACWB).

    Overtakes Plain after some iterations, the sooner the larger the momentum (with the default
    after some hundred), and runs away in the end, the sooner likewise: give it validation rows.

    Parameters
    ----------
    rate : float
    momentum : float

    Examples
    --------
    >>> Accelerated().momentum
    0.0034
    """

    rate: float = 0.1
    momentum: float = 0.0034

    def core(self) -> _core.Accelerated:
        self._check_positive("rate")
        self._check_positive("momentum", zero=True)
        return _core.Accelerated(self.rate, self.momentum)


@dataclass
class Hybrid(ParameterAccess):
    """Accelerated until the validation risk turns, then Plain (HCWB).

    Parameters
    ----------
    rate, momentum : float
    switch_after : int
        Rises of the validation risk in a row that end the accelerated phase; so does no new best
        for ten times as many iterations.
    rewind : bool
        Go back to the accelerated phase's best iterate before going on.
    then : "all" or "training"
        Go on with all rows to the last iteration, or with the training rows and early stopping.

    Examples
    --------
    >>> Hybrid(then="training").get_params()["momentum"]
    0.037
    """

    rate: float = 0.1
    momentum: float = 0.037
    switch_after: int = 5
    rewind: bool = True
    then: Literal["all", "training"] = "all"

    def core(self) -> _core.Hybrid:
        self._check_positive("rate")
        self._check_positive("momentum", zero=True)
        if not is_whole(self.switch_after) or not 1 <= self.switch_after <= 10**8:
            raise ValueError(
                f"Hybrid: switch_after must be a whole number >= 1, got {self.switch_after!r}"
            )
        if self.then not in ("all", "training"):
            raise ValueError(f"Hybrid: then must be 'all' or 'training', got {self.then!r}")
        return _core.Hybrid(
            self.rate, self.momentum, int(self.switch_after), bool(self.rewind), self.then == "all"
        )


Optimizer = Plain | Accelerated | Hybrid
OPTIMIZERS: dict[str, type[Optimizer]] = {cls.__name__: cls for cls in (Plain, Accelerated, Hybrid)}


def as_optimizer(value: Any) -> Optimizer:
    """Return a checked optimizer: the instance given, or the class given with its defaults."""
    if isinstance(value, type) and issubclass(value, Plain | Accelerated | Hybrid):
        value = value()
    if not isinstance(value, Plain | Accelerated | Hybrid):
        raise TypeError(
            "optimizer: expected cb.Plain(...), cb.Accelerated(...) or cb.Hybrid(...), got "
            f"{value!r}"
        )
    value.core()  # checks the parameters
    return value
