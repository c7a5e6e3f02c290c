"""Bases: the functions that a term is a sum of, and their penalties.

`Basis` (base.py) is the contract. To add a basis, write a subclass and add it to `BASES`, under
whose names model files store bases.
"""

from __future__ import annotations

from .base import Basis, BasisRows, Pieces, Points
from .levels import LevelBasis
from .mark import MarkBasis
from .penalties import difference_penalty
from .powers import PowerBasis
from .spline import Extrapolate, SplineBasis
from .tensor import TensorBasis

BASES: dict[str, type[Basis]] = {
    cls.kind: cls for cls in (SplineBasis, PowerBasis, LevelBasis, MarkBasis, TensorBasis)
}

__all__ = [
    "BASES",
    "Basis",
    "BasisRows",
    "Extrapolate",
    "LevelBasis",
    "MarkBasis",
    "Pieces",
    "Points",
    "PowerBasis",
    "SplineBasis",
    "TensorBasis",
    "difference_penalty",
]
