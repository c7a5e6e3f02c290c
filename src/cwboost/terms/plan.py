"""A term as the training rows decided it: learner, encoders and basis. The model keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cwboost.binning.index_sets import UNSEEN
from cwboost.frames.columns import Column, Floats

from .bases import Basis
from .encoders import Encoder

if TYPE_CHECKING:
    from .learners import Learner


@dataclass(frozen=True, eq=False)
class Plan:
    """One term: everything about it but its coefficients and smoothing."""

    name: str
    learner: Learner
    encoders: tuple[Encoder, ...]  # one per column
    basis: Basis
    net_df: float | None  # default net df; None if the learner states df or smoothing

    @property
    def columns(self) -> tuple[str, ...]:
        return self.learner.columns

    def with_basis(self, basis: Basis) -> Plan:
        """Return the plan with another basis."""
        return Plan(self.name, self.learner, self.encoders, basis, self.net_df)

    def encode(self, columns: Sequence[Column]) -> Floats:
        """Return the values at which the basis is evaluated: (n,), or (n, 2) for a pair."""
        values = [e.encode(c) for e, c in zip(self.encoders, columns, strict=True)]
        return values[0] if len(values) == 1 else np.column_stack(values)

    def count_unseen(self, values: Floats) -> dict[str, int]:
        """Return the number of rows with unseen levels, for columns that have such rows."""
        axes = values.reshape(len(values), len(self.encoders)).T
        out = {}
        for column, encoder, axis in zip(self.columns, self.encoders, axes, strict=True):
            if encoder.counts_unseen and np.any(axis == UNSEEN):
                out[column] = int(np.sum(axis == UNSEEN))
        return out
