"""A single coefficient that marks one level, or missing cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.memory import ArrayPool
from cwboost.binning.index_sets import UNSEEN
from cwboost.frames.columns import Floats

from .base import Basis, BasisRows, RowShares

if TYPE_CHECKING:
    from cwboost.terms.encoders import Encoder


@dataclass(frozen=True, eq=False, kw_only=True)
class MarkBasis(Basis):
    """One coefficient: 1 at one level, 0 elsewhere; `level` None marks missing cells.

    Levels that training did not have are unknown, and so are missing cells unless `missing`. The
    mark of missing cells knows every value.
    """

    level: int | None
    missing: bool = False
    ridge: float = 0.0
    kind: ClassVar[str] = "mark"

    @property
    def n_coef(self) -> int:
        return 1

    @property
    def null_dim(self) -> int:
        return int(self.ridge == 0.0)

    def penalty(self) -> Floats:
        return np.zeros(1)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        if self.level is None:
            return np.ones(len(values), bool)
        return (values >= 0.0) | (np.isnan(values) & self.missing)

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        marked = np.isnan(values) if self.level is None else values == self.level
        n = len(values)
        return BasisRows(room.steps(n, 1), room.cycles(n, 1), marked.astype(np.float64))

    def own_coef(self, code: float) -> int | None:
        own = np.isnan(code) if self.level is None else code == self.level
        return 0 if own else None

    def row_shares(self) -> RowShares | None:
        if self.mean is None:
            return None
        code = np.nan if self.level is None else float(self.level)
        share = float(self.mean[0])
        return RowShares(np.array([code, UNSEEN]), np.array([share, 1.0 - share]))

    def problem(self) -> str | None:
        if self.level is not None and self.level < 0:
            return "expected a level"
        if self.ridge < 0:
            return "expected a ridge >= 0"
        return super().problem()

    def problem_with(self, encoder: Encoder) -> str | None:
        return "expected levels" if encoder.is_numeric else None
