"""The learner Category: effects of the levels of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from cwboost._utils.checks import check_one_of
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.terms.bases import Basis, LevelBasis, MarkBasis
from cwboost.terms.encoders import Encoder, Levels
from cwboost.terms.plan import Plan
from cwboost.terms.training import TrainingColumn, TrainingTable

from .base import Learner, require

MISSING_LEVEL = "missing"  # in the names of terms


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Category(Learner):
    """Effects of the levels of a column; missing cells are a level.

    Parameters
    ----------
    column : str
    df : float, optional
    kind : "ridge" or "binary"
        One learner that moves all levels, shrunk by a ridge penalty; or one unpenalised learner
        per level, so that levels are chosen one by one.

    Examples
    --------
    >>> import cwboost as cb
    >>> table = {"job": ["a", "b", "a", "c"] * 5}
    >>> model = cb.fit(table, [1.0, 2, 1, 5] * 5, [cb.Category("job", kind="binary")], n_iter=1)
    >>> model.choices
    ['job=c']
    """

    column: str
    df: float | None = None
    kind: Literal["ridge", "binary"] = "ridge"

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"cat": {}}
    needs_numbers: ClassVar[bool] = False
    df_range: ClassVar[tuple[float, float] | None] = (2, 10)

    def check_parameters(self) -> None:
        check_one_of(f"{self.shown}: kind", self.kind, ("ridge", "binary"))
        require(
            self.kind == "ridge" or not self.states_smoothing,
            f"{self.shown}: binary levels are unpenalised and take neither df nor smoothing",
        )

    @property
    def shows_missing(self) -> bool:
        return True

    @property
    def takes_df(self) -> bool:
        return self.kind == "ridge"

    @property
    def can_be_margin(self) -> bool:
        return self.kind == "ridge"

    def check_columns(self, training: TrainingTable) -> None:
        column = training[self.column]
        if column.summary.kind == "numbers":
            column.column.labels()  # refuses integers that are equal as floats

    def encoder(self, column: TrainingColumn) -> Encoder:
        return Levels.make(column.column, column.sample)

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:
        return LevelBasis(n_levels=len(encoder.levels), missing=column.summary.missing)

    def plans(self, name: str, training: TrainingTable, net_df: float | None) -> list[Plan]:
        if self.kind == "ridge":
            return super().plans(name, training, net_df)
        column = training[self.column]
        encoder, _ = self.encoder_and_basis(column)
        missing, prefix = column.summary.missing, self.name or self.column
        names = [(f"{prefix}={level}", code) for code, level in enumerate(encoder.levels)]
        bases = [(label, MarkBasis(level=code, missing=missing)) for label, code in names]
        if missing:
            label = MISSING_LEVEL
            while label in encoder.levels:
                label = f"({label})"
            bases.append((f"{prefix}={label}", MarkBasis(level=None, missing=missing)))
        return [Plan(label, self, (encoder,), basis, net_df) for label, basis in bases]
