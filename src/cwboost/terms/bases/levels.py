"""One coefficient per level or step."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.memory import ArrayPool
from cwboost.frames.columns import Floats

from .base import Basis, BasisRows, RowShares
from .penalties import padded_penalty

if TYPE_CHECKING:
    from cwboost.terms.encoders import Encoder

MAX_LEVELS = 2**31


@dataclass(frozen=True, eq=False, kw_only=True)
class LevelBasis(Basis):
    """One coefficient per level; missing cells are a last level of their own if `missing`.

    With `differences` = 0 every level is shrunk towards zero (ridge). With 1, neighbouring levels
    are pulled together (steps), and missing cells have the ridge `ridge`.
    """

    n_levels: int
    differences: int = 0
    missing: bool = False
    ridge: float = 0.0
    kind: ClassVar[str] = "levels"

    @property
    def n_coef(self) -> int:
        return self.n_levels + self.missing

    @property
    def null_dim(self) -> int:
        if self.differences == 0:
            return 0
        return self.differences + (self.missing and self.ridge == 0.0)

    def as_margin(self) -> LevelBasis:
        return replace(self, ridge=0.0)

    def ones(self) -> Floats | None:
        return np.ones(self.n_coef)

    def penalty(self) -> Floats:
        if self.differences == 0:
            return np.ones(self.n_coef)
        return padded_penalty(self.n_levels, self.differences, self.missing)

    @property
    def penalty_key(self) -> Hashable | None:
        return self.kind, self.n_levels, self.differences, self.missing

    def known(self, values: Floats) -> NDArray[np.bool_]:
        seen = values >= 0.0
        return seen | np.isnan(values) if self.missing else seen

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        codes = np.where(np.isnan(values), self.n_levels, values).astype(np.int32)
        return BasisRows(room.steps(len(values), 1), codes, np.ones(len(values)))

    @property
    def has_masses(self) -> bool:
        return True

    @property
    def has_levels(self) -> bool:
        return True

    def ordered(self) -> NDArray[np.intp] | None:
        return np.arange(self.n_levels)

    def own_coef(self, code: float) -> int | None:
        if np.isnan(code):
            return self.n_levels if self.missing else None
        return int(code) if code >= 0 else None

    def row_shares(self) -> RowShares | None:
        if self.mean is None:
            return None
        codes = np.arange(self.n_coef, dtype=np.float64)
        return RowShares(np.where(codes < self.n_levels, codes, np.nan), self.mean)

    def problem(self) -> str | None:
        if not 0 <= self.differences <= 1 or not 1 <= self.n_coef <= MAX_LEVELS:
            return "expected levels, and differences 0 or 1"
        if self.ridge < 0 or (self.ridge > 0 and not (self.missing and self.differences)):
            return "expected a ridge >= 0, and 0 for levels and without missing cells"
        return super().problem()

    def problem_with(self, encoder: Encoder) -> str | None:
        return None if encoder.n_codes == self.n_levels else f"expected {self.n_levels} levels"
