"""Learners: terms as users write them, such as Spline("age", df=4). One file per kind.

To add a learner, write a subclass of `Learner` (base.py says what it must define) and add it to
`LEARNERS` below, or call `register_learner`. Formulas, tuning, model files and reports look it up
there.
"""

from __future__ import annotations

from typing import TypeVar

from cwboost._utils.checks import is_built_in, is_subclass
from cwboost._utils.text import quote

from .base import Learner
from .category import Category
from .linear import Linear
from .missing import Missing
from .polynomial import Polynomial
from .spline import Centered, Spline
from .step import STEP_BINS, Step
from .tensor import Tensor, pair_bins

# By the name that model files use. Read it when it is needed: users may add to it.
LEARNERS: dict[str, type[Learner]] = {
    cls.__name__: cls
    for cls in (Linear, Polynomial, Spline, Centered, Step, Category, Missing, Tensor)
}


L = TypeVar("L", bound=type[Learner])


def register_learner(cls: L) -> L:
    """Make a learner known by name, so that models with it can be saved and loaded.

    It may be used as a decorator. A learner that is not registered can be fitted, but not saved.

    Parameters
    ----------
    cls : subclass of Learner
        A frozen dataclass. Its `functions` become functions of formulas.

    Returns
    -------
    cls

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from cwboost.terms.learners import LEARNERS, Spline, register_learner
    >>> @register_learner
    ... @dataclass(frozen=True, repr=False)
    ... class Curve(Spline):
    ...     functions = {"curve": {}}
    >>> LEARNERS.pop("Curve") is Curve
    True
    """
    if not is_subclass(cls, Learner) or "__dataclass_fields__" not in vars(cls):
        raise TypeError(
            f"register_learner: expected a dataclass derived from Learner, got {quote(cls)}"
        )
    name = cls.__name__
    known = LEARNERS.get(name, cls)
    if known is not cls and is_built_in(known):
        raise ValueError(
            f"register_learner: {quote(name)} is a learner of cwboost; give the class another name"
        )
    if known.__qualname__ != cls.__qualname__:
        raise ValueError(f"register_learner: the name {quote(name)} belongs to another learner")
    taken = formula_functions()
    for function in cls.functions:
        if function in taken and taken[function].__name__ != name:
            raise ValueError(
                f"register_learner: the function {quote(function)} belongs to "
                f"{taken[function].__name__}; choose another name in {name}.functions"
            )
    LEARNERS[name] = cls
    return cls


def formula_functions() -> dict[str, type[Learner]]:
    """Return the learner of every function of formulas."""
    return {name: cls for cls in LEARNERS.values() for name in cls.functions}


__all__ = [
    "LEARNERS",
    "STEP_BINS",
    "Category",
    "Centered",
    "Learner",
    "Linear",
    "Missing",
    "Polynomial",
    "Spline",
    "Step",
    "Tensor",
    "formula_functions",
    "pair_bins",
    "register_learner",
]
