"""The learner Missing: the effect of a missing cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.binning.summary import ColumnSummary
from cwboost.terms.bases import MISSING_RIDGE, Basis, MarkBasis
from cwboost.terms.encoders import Encoder, Levels
from cwboost.terms.training import TrainingColumn

from .base import Learner, require


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Missing(Learner):
    """The effect of a missing cell, next to learners that cannot show it.

    It is shrunk like the effect of a rare level: a few missing rows hardly move the prediction.

    Examples
    --------
    >>> import cwboost as cb
    >>> cb.Missing("income").columns
    ('income',)
    """

    column: str

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"missing": {}}
    needs_numbers: ClassVar[bool] = False

    def check_parameters(self) -> None:
        require(
            self.smoothing is None,
            f"{self.shown}: the effect has a fixed penalty and takes no smoothing",
        )

    @property
    def shows_missing(self) -> bool:
        return True

    @property
    def is_main_effect(self) -> bool:
        return False

    @property
    def can_be_margin(self) -> bool:
        return False

    def is_constant(self, summary: ColumnSummary) -> bool:
        return summary.empty or not summary.missing

    def encoder(self, column: TrainingColumn) -> Encoder:  # noqa: ARG002
        return Levels(())  # all levels are unseen; only missing cells differ

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:  # noqa: ARG002
        return MarkBasis(level=None, ridge=MISSING_RIDGE)
