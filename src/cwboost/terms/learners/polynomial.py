"""The learner Polynomial: a polynomial of a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cwboost._utils.checks import check_whole
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.terms.bases import Basis, PowerBasis
from cwboost.terms.bases.powers import MAX_DEGREE
from cwboost.terms.encoders import Encoder
from cwboost.terms.training import TrainingColumn

from .curve import CurveLearner, training_range


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Polynomial(CurveLearner):
    """A polynomial with its intercept.

    Parameters
    ----------
    column : str
    degree : int
    bins : rule, optional
        Instead of the fit's rule.

    Examples
    --------
    >>> import cwboost as cb
    >>> cb.Polynomial("age", 3).degree
    3
    """

    column: str
    degree: int = 2
    bins: Any = None
    df: float | None = field(default=None, kw_only=True)

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"poly": {}}
    positional: ClassVar[str | None] = "degree"

    def check_parameters(self) -> None:
        check_whole(f"{self.shown}: degree", self.degree, 1, MAX_DEGREE)

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:  # noqa: ARG002
        low, high = training_range(column)
        return PowerBasis(center=low + (high - low) / 2, scale=(high - low) / 2, degree=self.degree)
