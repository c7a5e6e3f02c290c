"""Optimizers: their parameters, and what a fit must know about each of them.

The arithmetic of an iteration is in the core (core/optimizers.hpp). To add an optimizer, write a
subclass of `Optimizer` and enter it in `OPTIMIZERS`; no other module asks which optimizer it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from cwboost._utils.checks import check_flag, check_one_of, check_whole, is_number, is_whole
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown_fields

from . import _core

CoreOptimizer: TypeAlias = _core.Plain | _core.Accelerated | _core.Hybrid


class TuningRange(NamedTuple):
    """The values of a parameter that tuning tries unless the user names others (log-uniform)."""

    low: float
    high: float
    may_be_zero: bool = False


RATES = TuningRange(0.01, 0.5)
MOMENTA = TuningRange(0.001, 0.1, may_be_zero=True)


class Optimizer:
    """Base class of all optimizers: what a fit, cross-validation and tuning must know about one.

    A subclass is a dataclass whose fields are the parameters. It returns one of the core's
    optimizers from `core` and declares where it differs from plain boosting. Enter the class in
    `OPTIMIZERS` to save and load models that were fitted with it, and to choose it by name.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Slow(Optimizer):
    ...     rate: float = 0.01
    ...
    ...     def core(self):
    ...         return _core.Plain(self.rate)
    >>> OPTIMIZERS["Slow"] = Slow
    >>> as_optimizer("slow")
    Slow(rate=0.01)
    >>> del OPTIMIZERS["Slow"]
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]  # of the subclasses

    # Every optimizer has a rate, the factor of each step; momentum only if `has_momentum`.
    rate: float
    momentum: float

    # Whether it has a second phase, which begins when the validation risk turns upwards. A fit
    # without validation rows is then refused.
    needs_validation: ClassVar[bool] = False
    # Whether its iterations (of the first phase, if there are two) record a correction in addition
    # to the choice. Such a path diverges if it goes on for much longer than is best.
    has_momentum: ClassVar[bool] = False
    # Whether the training risk may rise without a warning: another phase may fit other rows.
    risk_may_rise: ClassVar[bool] = False
    # Parameters that `tune` may choose.
    tuned: ClassVar[Mapping[str, TuningRange]] = MappingProxyType({"rate": RATES})

    def core(self) -> CoreOptimizer:
        """Return the core's optimizer; raise ValueError if a parameter is out of range."""
        raise NotImplementedError(f"{type(self).__name__}: define core()")

    @property
    def ends_on_all_rows(self) -> bool:
        """Whether the last phase fits all rows, validation rows included.

        Then early stopping does not apply to it, and a fit cannot go on from its best iterate.
        """
        return False

    def n_corrections(self, n_iter: int, switched_after: int) -> int:
        """Return how many of the first iterations of a path record a correction.

        `switched_after` is the last iteration of the first phase, -1 if there was no switch.
        """
        if not self.has_momentum:
            return 0
        return switched_after if self.needs_validation and switched_after >= 0 else n_iter

    def without_validation(self) -> Optimizer:
        """Return the optimizer to use instead where there are no validation rows."""
        return Plain(rate=self.rate) if self.needs_validation else self

    # --- parameters, as scikit-learn's searches expect them (`optimizer__rate`) -------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        return {entry.name: getattr(self, entry.name) for entry in fields(self)}

    def set_params(self, **params: Any) -> Any:
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"{type(self).__name__} has no parameter {quote(name)}; it has "
                    f"{', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def with_params(self, **params: Any) -> Self:
        """Return a copy with some parameters changed."""
        return type(self)(**(self.get_params() | params))

    def _check_positive(self, name: str, may_be_zero: bool = False) -> None:
        value = getattr(self, name)
        if not (is_number(value) and (value > 0 or (may_be_zero and value == 0))):
            expected = "a number >= 0" if may_be_zero else "a positive number"
            raise ValueError(
                f"{type(self).__name__}: {name} must be {expected}, got {quote(value)}"
            )


@explain_unknown_fields
@dataclass
class Plain(Optimizer):
    """Componentwise boosting (CWB): f += rate * best learner of the residuals at f.

    Parameters
    ----------
    rate : float
        The learning rate, usually 0.01 to 0.3.

    Examples
    --------
    >>> Plain(rate=0.05).set_params(rate=0.2)
    Plain(rate=0.2)
    """

    rate: float = 0.1

    def core(self) -> _core.Plain:
        self._check_positive("rate")
        return _core.Plain(self.rate)


@explain_unknown_fields
@dataclass
class Accelerated(Optimizer):
    """Componentwise boosting with Nesterov momentum (ACWB).

    It overtakes Plain after some iterations (a few hundred with the default momentum) and diverges
    in the end. A larger momentum brings both forward. Use it with validation rows.

    Parameters
    ----------
    rate : float
    momentum : float

    Examples
    --------
    >>> Accelerated().momentum
    0.0034
    """

    has_momentum = True
    tuned = MappingProxyType({"rate": RATES, "momentum": MOMENTA})

    rate: float = 0.1
    momentum: float = 0.0034

    def core(self) -> _core.Accelerated:
        self._check_positive("rate")
        self._check_positive("momentum", may_be_zero=True)
        return _core.Accelerated(self.rate, self.momentum)


@explain_unknown_fields
@dataclass
class Hybrid(Optimizer):
    """Accelerated until the validation risk turns upwards, then Plain (HCWB).

    If the fit has metrics (`metric=`), the first one takes the place of the validation risk. The
    rules of early stopping (`patience=`) do not apply to the first phase, nor to a second phase on
    all rows.

    Parameters
    ----------
    rate, momentum : float
    switch_after : int
        The accelerated phase ends after this number of consecutive rises of the validation risk.
    rewind : bool
        Whether to return to the best iterate of the accelerated phase before going on.
    then : "all" or "training"
        Whether the second phase fits all rows up to the last iteration, or the training rows with
        early stopping.
    switch_patience : int, "auto" or None
        The accelerated phase also ends after this number of iterations without a new lowest
        validation risk: "auto" is ten times `switch_after`, None turns this rule off (the paper
        does not have it).

    Examples
    --------
    >>> Hybrid(then="training").get_params()["momentum"]
    0.037
    """

    needs_validation = True
    has_momentum = True
    risk_may_rise = True
    tuned = MappingProxyType({"rate": RATES, "momentum": MOMENTA})

    rate: float = 0.1
    momentum: float = 0.037
    switch_after: int = 5
    rewind: bool = True
    then: Literal["all", "training"] = "all"
    switch_patience: int | Literal["auto"] | None = "auto"

    def core(self) -> _core.Hybrid:
        self._check_positive("rate")
        self._check_positive("momentum", may_be_zero=True)
        check_whole("Hybrid: switch_after", self.switch_after, 1, 10**8)
        check_flag("Hybrid: rewind", self.rewind)
        check_one_of("Hybrid: then", self.then, ("all", "training"))
        return _core.Hybrid(
            self.rate,
            self.momentum,
            int(self.switch_after),
            bool(self.rewind),
            self.then == "all",
            self._switch_patience(),
        )

    def _switch_patience(self) -> int:
        """Return the number of iterations; 0 if there is no such rule."""
        given = self.switch_patience
        if given is None:
            return 0
        if isinstance(given, str) and given == "auto":
            return 10 * int(self.switch_after)
        if not (is_whole(given) and 1 <= given <= 10**9):
            raise ValueError(
                "Hybrid: switch_patience: expected 'auto', None or a whole number from 1 to 10**9, "
                f"got {quote(given)}"
            )
        return int(given)

    @property
    def ends_on_all_rows(self) -> bool:
        return self.then == "all"


# All optimizers, by the name of the class, which model files store. Estimators, tuning and the
# command line take the same names in lower case.
OPTIMIZERS: dict[str, type[Optimizer]] = {cls.__name__: cls for cls in (Plain, Accelerated, Hybrid)}


def optimizer_names() -> list[str]:
    """Return the names by which `as_optimizer` knows the optimizers."""
    return [name.lower() for name in OPTIMIZERS]


def as_optimizer(value: Any, argument: str = "optimizer") -> Optimizer:
    """Return an optimizer from an instance, a class (its defaults) or a name.

    Parameters are checked, and the result is a copy: the caller may change theirs later.

    Examples
    --------
    >>> as_optimizer("accelerated"), as_optimizer(Plain)
    (Accelerated(rate=0.1, momentum=0.0034), Plain(rate=0.1))
    """
    if isinstance(value, str):
        by_name = {name.lower(): cls for name, cls in OPTIMIZERS.items()}
        if value.lower() not in by_name:
            raise ValueError(_expected(argument, value))
        value = by_name[value.lower()]
    if isinstance(value, type) and issubclass(value, Optimizer):
        value = value()
    if not isinstance(value, Optimizer):
        raise TypeError(_expected(argument, value))
    who = type(value).__name__
    if not hasattr(value, "__dataclass_fields__"):
        raise TypeError(
            f"{argument}: {who} must be a dataclass, whose fields are its parameters; write "
            "@dataclass above the class"
        )
    optimizer = value.with_params()
    core: Any = optimizer.core()  # checks the parameters
    if not isinstance(core, CoreOptimizer):
        raise TypeError(
            f"{argument}: {who}.core() must return an optimizer of cwboost._core (Plain, "
            f"Accelerated or Hybrid), got {quote(core)} of type {type(core).__name__}"
        )
    return optimizer


def _expected(argument: str, value: Any) -> str:
    names = ", ".join(map(repr, optimizer_names()))
    return (
        f"{argument}: expected {names} or an object such as cb.Plain(rate=0.05), got {quote(value)}"
    )
