"""The learner Step: a step function of a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cwboost._utils.checks import check_one_of, check_whole
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.binning.rules import Bins
from cwboost.terms.bases import MISSING_RIDGE, Basis, LevelBasis
from cwboost.terms.encoders import Cuts, Encoder
from cwboost.terms.training import TrainingColumn

from .base import Learner

STEP_BINS = 128


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Step(Learner):
    """A step function: one level per quantile bin, neighbouring levels pulled together.

    Frequent values (a share of 1/bins or more) have a step of their own, so that spikes stay
    spikes. If there are at most `bins` distinct values, each of them has one.

    Parameters
    ----------
    column : str
    df : float, optional
    bins : int
        The approximate number of steps: every frequent value that splits a step adds one.
    kind : "steps" or "spikes"
        Pull levels towards their neighbours, or each towards zero. Spikes are for columns in which
        single values have a meaning (a capital gain of 99,999).

    Examples
    --------
    >>> import cwboost as cb
    >>> cb.Step("capital_gain", df=16).df
    16
    """

    column: str
    df: float | None = None
    bins: int = STEP_BINS
    kind: str = "steps"

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"step": {}}
    df_range: ClassVar[tuple[float, float] | None] = (2, 20)

    def check_parameters(self) -> None:
        check_whole(f"{self.shown}: bins", self.bins, 2, 4096)
        check_one_of(f"{self.shown}: kind", self.kind, ("steps", "spikes"))

    @property
    def kind_name(self) -> str:
        return "step" if self.kind == "steps" else "spikes"

    @property
    def shows_missing(self) -> bool:
        return True

    @property
    def sorts_column(self) -> bool:
        return True

    def bin_rule(self, default: Bins) -> Bins:
        return default  # `bins` is the number of steps, not a rule

    def encoder(self, column: TrainingColumn) -> Encoder:
        return Cuts.make(column.numbers, column.sample, self.bins)

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:
        assert encoder.n_codes is not None
        missing = column.summary.missing
        if self.kind == "spikes":  # missing cells are shrunk like any other level
            return LevelBasis(n_levels=encoder.n_codes, missing=missing)
        ridge = MISSING_RIDGE if missing else 0.0
        return LevelBasis(n_levels=encoder.n_codes, differences=1, missing=missing, ridge=ridge)
