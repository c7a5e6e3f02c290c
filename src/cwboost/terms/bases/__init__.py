"""Bases: the functions that a term is a sum of, and their penalties.

`Basis` (base.py) is the contract. To add a basis, write a subclass and register it: `BASES` has the
names under which model files store bases.
"""

from __future__ import annotations

from typing import TypeVar

from cwboost._utils.checks import is_built_in, is_subclass
from cwboost._utils.text import quote

from .base import Basis, BasisRows, Pieces, RowShares
from .indicator import MarkBasis
from .levels import LevelBasis
from .penalties import MISSING_RIDGE, difference_penalty
from .powers import PowerBasis
from .spline import Extrapolate, SplineBasis, Tails
from .tensor import TensorBasis

BASES: dict[str, type[Basis]] = {
    cls.kind: cls for cls in (SplineBasis, PowerBasis, LevelBasis, MarkBasis, TensorBasis)
}
B = TypeVar("B", bound=type[Basis])


def register_basis(cls: B) -> B:
    """Make a basis known by its `kind`, so that models with it can be saved and loaded.

    It may be used as a decorator. A basis that is not registered can be fitted, but not saved.

    Parameters
    ----------
    cls : subclass of Basis
        A frozen dataclass, whose fields are stored in model files.

    Returns
    -------
    cls

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from cwboost.terms.bases import BASES, Basis, register_basis
    >>> @register_basis
    ... @dataclass(frozen=True, eq=False, kw_only=True)
    ... class SineBasis(Basis):
    ...     period: float
    ...     kind = "sine"
    >>> BASES.pop("sine") is SineBasis
    True
    """
    if not is_subclass(cls, Basis) or "__dataclass_fields__" not in vars(cls):
        raise TypeError(
            f"register_basis: expected a dataclass derived from Basis, got {quote(cls)}"
        )
    if not isinstance(getattr(cls, "kind", None), str):
        raise TypeError(
            f"register_basis: {cls.__name__} needs a class attribute `kind`, its name in model "
            "files (a string)"
        )
    known = BASES.get(cls.kind, cls)
    if known is not cls and is_built_in(known):
        raise ValueError(
            f"register_basis: {quote(cls.kind)} is a basis of cwboost; set {cls.__name__}.kind to "
            "another name"
        )
    if known.__qualname__ != cls.__qualname__:
        raise ValueError(f"register_basis: the kind {quote(cls.kind)} belongs to another basis")
    BASES[cls.kind] = cls
    return cls


__all__ = [
    "BASES",
    "MISSING_RIDGE",
    "Basis",
    "BasisRows",
    "Extrapolate",
    "LevelBasis",
    "MarkBasis",
    "Pieces",
    "PowerBasis",
    "RowShares",
    "SplineBasis",
    "Tails",
    "TensorBasis",
    "difference_penalty",
    "register_basis",
]
