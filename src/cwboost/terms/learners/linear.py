"""The learner Linear: a straight line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cwboost._utils.checks import is_flag
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.terms.bases import Basis, PowerBasis
from cwboost.terms.encoders import Encoder
from cwboost.terms.training import TrainingColumn

from .curve import CurveLearner, training_range


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Linear(CurveLearner):
    """A straight line, with its intercept or through the mean of the column.

    Parameters
    ----------
    column : str
    intercept : bool
        With False the column is centred, and the line has no constant.
    bins : rule, optional
        Instead of the fit's rule.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.arange(20.0)
    >>> model = cb.fit({"x": x}, 1 + 2 * x, [cb.Linear("x")], optimizer=cb.Plain(1.0), n_iter=1)
    >>> model.terms["x"].coef.round(6) + [model.start, 0]
    array([1., 2.])
    """

    column: str
    intercept: bool = True
    bins: Any = None
    df: float | None = field(default=None, kw_only=True)

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"lin": {}, "l": {}}

    def check_parameters(self) -> None:
        if not is_flag(self.intercept):
            raise TypeError(
                f"{self.shown}: intercept must be True or False, got {quote(self.intercept)}"
            )

    @property
    def has_constant(self) -> bool:
        return self.intercept

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:  # noqa: ARG002
        low, high = training_range(column)
        if self.intercept:
            center, first = low + (high - low) / 2, 0
        else:
            center, first = column.numbers.mean(column.sample), 1
        scale = max(abs(low - center), abs(high - center))
        return PowerBasis(center=center, scale=scale, degree=1, first=first)
