"""The learner Tensor: an interaction of two columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.binning.rules import Bins
from cwboost.binning.summary import ColumnSummary
from cwboost.terms.bases import TensorBasis
from cwboost.terms.plan import Plan
from cwboost.terms.training import TrainingTable

from .base import Learner, require
from .category import Category
from .spline import Spline
from .step import Step

TENSOR_KNOTS = 10
MAX_TENSOR_COEF = 4096  # a system of this size takes 134 MB
PAIR_BINS = 4, 32  # fewest and most steps of a column in a pair without main effects
PAIR_CELLS = 600  # most cells of such a pair with a text column, if fewer steps can achieve it
PAIR_MEMORY = 50e6  # bytes, for the systems of all such pairs of a fit


@explain_unknown_fields
@dataclass(frozen=True, repr=False)
class Tensor(Learner):
    """An interaction of two columns: all products of the two learners' bases.

    Parameters
    ----------
    a, b : str or learner
        The name of a numeric column stands for Spline(column, knots=10), the name of any other
        column for Category(column). Learners here take no df, smoothing or name: these are
        parameters of the Tensor.
    df : float, optional
        Of the whole surface; more than the product of the margins' null spaces (4 for two
        splines).
    bins : rule, optional
        For both columns, at most 255 bins each. "exact" has no such limit, but takes at most
        65,535 different pairs of values.
    orthogonal : bool
        Without main effects: every function of one column alone is removed from the surface, so
        that the terms of a and b keep their meaning. The name of a numeric column then stands for
        a Step of 4 to 32 bins, more if there are more rows (whole weights count as repeated rows),
        and df counts no main effects.

    Examples
    --------
    >>> import cwboost as cb
    >>> cb.Tensor("lon", "lat", df=8).columns
    ('lon', 'lat')
    """

    a: str | Learner
    b: str | Learner
    df: float | None = None
    bins: Any = None
    orthogonal: bool = False

    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = {"te": {}, "ti": {"orthogonal": True}}
    column_fields: ClassVar[tuple[str, ...]] = ("a", "b")
    takes_learners: ClassVar[bool] = True
    needs_numbers: ClassVar[bool] = False
    df_range: ClassVar[tuple[float, float] | None] = (4, 20)

    def check_parameters(self) -> None:
        who = self.shown
        for margin in (self.a, self.b):
            if isinstance(margin, str):
                continue
            if not margin.can_be_margin:
                raise TypeError(
                    f"{who}: expected column names or learners of one column (not Centered, "
                    f"Missing or binary), got {quote(margin)}"
                )
            require(
                not margin.states_smoothing and margin.name is None,
                f"{who}: df, smoothing and name belong to the Tensor, not to {quote(margin)}",
            )
            require(
                not self.orthogonal or margin.has_constant,
                f"{who}: with orthogonal=True margins need a constant; got {quote(margin)}",
            )
        require(self.columns[0] != self.columns[1], f"{who}: needs two different columns")
        if not isinstance(self.orthogonal, bool):
            raise TypeError(
                f"{who}: orthogonal must be True or False, got {quote(self.orthogonal)}"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(
            margin.columns[0] if isinstance(margin, Learner) else margin
            for margin in (self.a, self.b)
        )

    @property
    def shows_missing(self) -> bool:
        return True

    def is_constant(self, summary: ColumnSummary) -> bool:
        return not summary.varies

    def axis_rules(self, default: Bins) -> tuple[Bins, ...]:
        """Return the rules of both columns: the margin's, else the Tensor's, else the default."""
        rule = self.bin_rule(default)
        return tuple(m.bin_rule(rule) if isinstance(m, Learner) else rule for m in (self.a, self.b))

    def margins(
        self, n_levels: Callable[[str], int | None], n_rows: int
    ) -> tuple[Learner, Learner]:
        """Return the two learners, names replaced by the learners that they stand for.

        `n_levels` returns the number of levels of a column, None if it is numeric.
        """

        def margin(m: str | Learner, other: str) -> Learner:
            if isinstance(m, Learner):
                return m
            if n_levels(m) is not None:
                return Category(m)
            if not self.orthogonal:
                return Spline(m, knots=TENSOR_KNOTS)
            return Step(m, bins=pair_bins(n_rows, n_levels(other)))

        a, b = self.columns
        return margin(self.a, b), margin(self.b, a)

    def plans(self, name: str, training: TrainingTable, net_df: float | None) -> list[Plan]:
        if training.sample.min_rows is not None:
            raise ValueError(
                f"min_rows_per_bin: the term {quote(name)} is a pair of columns, whose cells "
                "cannot be merged with neighbours; leave it out"
            )

        def n_levels(column: str) -> int | None:
            known = training[column]
            return None if known.is_numeric else len(known.column.labels().levels)

        margins = self.margins(n_levels, training.sample.size)
        encoders, (a, b) = zip(*map(training.margin, margins), strict=True)
        if a.n_coef * b.n_coef > MAX_TENSOR_COEF:
            raise ValueError(
                f"{self.shown}: {a.n_coef} x {b.n_coef} coefficients are more than "
                f"{MAX_TENSOR_COEF}; use fewer knots or levels"
            )
        basis = TensorBasis(a=a, b=b, orthogonal=self.orthogonal)
        return [Plan(name, self, encoders, basis, net_df)]


def pair_bins(n_rows: int, n_levels: int | None = None, n_pairs: int = 1) -> int:
    """Return the number of steps of a numeric column in a pair without main effects.

    It is 1.5 times the cube root of `n_rows`, at most 32. If the other column is text with
    `n_levels` levels, the table has at most PAIR_CELLS cells where possible. If `n_pairs` pairs of
    numeric columns are fitted together, their systems need about PAIR_MEMORY bytes at most.

    Examples
    --------
    >>> [pair_bins(n) for n in (100, 1_000, 3_500, 10_000)]
    [6, 15, 22, 32]
    >>> pair_bins(100_000, n_levels=60)
    10
    >>> [pair_bins(10_000, n_pairs=k) for k in (1, 40, 400)]
    [32, 19, 11]
    """
    fewest, most = PAIR_BINS
    by_memory = (
        PAIR_MEMORY / (8 * max(1, n_pairs))
    ) ** 0.25  # a system has a matrix of cells by cells
    by_rows, by_levels = 1.5 * math.cbrt(n_rows), PAIR_CELLS // (n_levels or 1)
    return max(fewest, min(most, int(by_rows), int(by_memory), by_levels))
