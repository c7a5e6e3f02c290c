"""The base class of all learners: what a subclass must define, and the defaults of everything else.

To add a learner, write a subclass of `Learner` in a file of this package and add it to `LEARNERS`
in `__init__.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from cwboost._utils.checks import check_one_of, is_number, simplify_fields
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost.binning.rules import Bins, as_bins
from cwboost.binning.summary import ColumnSummary
from cwboost.terms.bases import Basis
from cwboost.terms.encoders import VALUES, Encoder
from cwboost.terms.plan import Plan
from cwboost.terms.training import TrainingColumn, TrainingTable

DfKind = Literal["df2", "df1"]


def require(ok: bool, message: str) -> None:
    """Raise a ValueError with the message unless `ok`."""
    if not ok:
        raise ValueError(message)


@dataclass(frozen=True, kw_only=True, repr=False)
class Learner:
    """A term as users write it: its columns, its basis, and how smooth it is.

    Most learners also take `df`, the degrees of freedom with the constant included, from which the
    smoothing follows. By default all learners get the same net df, so that none of them is chosen
    for its flexibility alone.

    Parameters
    ----------
    name : str, optional
        Name of the term; by default the column.
    smoothing : float, optional
        The factor lambda of the penalty, instead of df.
    df_kind : "df2" or "df1"
        df = tr(2H - HH), or tr(H).

    Notes
    -----
    A subclass is a frozen dataclass with `repr=False`, whose fields are its parameters: `column`,
    mostly `df`, and its own. It must define

    - `basis`: the basis that the training rows decide.

    It may define, where the default does not fit:

    - `encoder`: how cells become the values of the basis (default: they are numbers).
    - `functions`, `positional`: how formulas write it.
    - `shows_missing`, `is_constant`, `when_constant`: what becomes of missing cells and of columns
      with one value.
    - `plans`: the terms that it makes (default: one).
    - `removed_df`, `df_range`, `takes_df`: what df means, and which df tuning tries.
    - `can_be_margin`, `has_constant`: whether it can be a margin of a Tensor.
    - `sorts_column`, `flat_beyond`, `check_parameters`, `check_columns`.

    Everything else (formulas, tuning, files, exports, plots, reports) follows.

    A model file stores the fields by their annotations: `float`, `int`, `bool`, `str`,
    `tuple[float, ...]`, `NDArray[np.float64]`, and any of them with `| None`.
    """

    name: str | None = None
    smoothing: float | None = None
    df_kind: DfKind = "df2"

    # Functions of formulas that make this learner, and the keywords that each sets.
    functions: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    # The parameter that a formula may give without a keyword: poly(age, 3).
    positional: ClassVar[str | None] = None
    # Fields that name columns. With `takes_learners` they may also be learners (Tensor).
    column_fields: ClassVar[tuple[str, ...]] = ("column",)
    takes_learners: ClassVar[bool] = False
    # Whether the column must be numeric.
    needs_numbers: ClassVar[bool] = True
    # The df of the functions that the basis removes (`Basis.removed`), which df does not count.
    removed_df: ClassVar[float] = 0.0
    # The range of df that tuning tries by default; None: tuning leaves the learner alone.
    df_range: ClassVar[tuple[float, float] | None] = None
    # Whether it is a part of an effect that other learners complete. If a model has such learners,
    # all learners get 1 net df by default, as a straight line has.
    is_component: ClassVar[bool] = False

    def __post_init__(self) -> None:
        simplify_fields(self)
        for column in self.columns:
            if not isinstance(column, str):
                raise TypeError(
                    f"{self.shown}: the column must be a name (a string), got "
                    f"{type(column).__name__}"
                )
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"{self.shown}: name must be a string, got {quote(self.name)}")
        if self.states_smoothing:
            self._check_smoothing(self.target_df)
        check_one_of(f"{self.shown}: df_kind", self.df_kind, ("df2", "df1"))
        self.check_parameters()

    def _check_smoothing(self, df: Any) -> None:
        who = self.shown
        require(df is None or self.smoothing is None, f"{who}: give df or smoothing, not both")
        for label, value, low in (("df", df, "> 0"), ("smoothing", self.smoothing, ">= 0")):
            fine = is_number(value) and (value > 0 or (value == 0 and low == ">= 0"))
            require(
                value is None or fine,
                f"{who}: {label} must be a finite number {low}, got {quote(value)}",
            )

    def check_parameters(self) -> None:
        """Raise if the learner's own parameters are wrong."""

    # --- columns and names ------------------------------------------------------------------------

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        if len(self.column_fields) == 1:  # there may be many thousands
            return (getattr(self, self.column_fields[0]),)
        return tuple(getattr(self, name) for name in self.column_fields)

    @property
    def kind_name(self) -> str:
        """The kind, as it appears in default names of terms."""
        return type(self).__name__.lower()

    def default_name(self, shared: bool) -> str:
        """Return the term's name: the column, or "spline(age)" if terms share the column."""
        if len(self.columns) > 1:
            return ":".join(self.columns)
        return f"{self.kind_name}({self.columns[0]})" if shared else self.columns[0]

    @property
    def shown(self) -> str:
        """The learner as messages show it: Spline('age')."""
        return f"{type(self).__name__}({', '.join(map(quote, self.columns))})"

    @property
    def is_main_effect(self) -> bool:
        """Whether it is the term of its column, so that a style adds no other."""
        return len(self.columns) == 1

    # --- smoothing --------------------------------------------------------------------------------

    @property
    def target_df(self) -> float | None:
        """The df that the user asks for; None if smoothing or a default decides."""
        df: float | None = getattr(self, "df", None)
        return df

    @property
    def states_smoothing(self) -> bool:
        """Whether the user gave df or smoothing."""
        return self.smoothing is not None or getattr(self, "df", None) is not None

    @property
    def takes_df(self) -> bool:
        """Whether df can be chosen."""
        return hasattr(self, "df")

    def with_df(self, df: float) -> Self:
        """Return the learner with other degrees of freedom; only if it takes df."""
        changes: dict[str, Any] = {"df": df, "smoothing": None}  # df is a field of the subclass
        return replace(self, **changes)

    # --- from the training rows to a term ---------------------------------------------------------

    def check_columns(self, training: TrainingTable) -> None:
        """Raise if the learner cannot take its columns, even if they are constant."""

    def is_constant(self, summary: ColumnSummary) -> bool:
        """Whether all training rows would have the same effect, so that the term is left out."""
        return not summary.varies and (summary.empty or not summary.missing)

    def when_constant(self) -> Learner:
        """Return the learner for a column with a single value and missing cells."""
        return self

    @property
    def shows_missing(self) -> bool:
        """Whether missing cells have an effect of their own; else a Missing learner is added.

        Override it if the basis evaluates missing cells (`Basis.known`).
        """
        return False

    @property
    def sorts_column(self) -> bool:
        """Whether `encoder` or `basis` sort the column, so that threads are worthwhile."""
        return False

    def encoder(self, column: TrainingColumn) -> Encoder:
        """Return the encoder that the training rows decide."""
        if column.summary.kind == "labels":
            column.numbers  # noqa: B018  # raises, and says why
        return VALUES

    def basis(self, column: TrainingColumn, encoder: Encoder) -> Basis:
        """Return the basis that the training rows decide; they have a value in the column."""
        raise NotImplementedError(f"{type(self).__name__}: define basis(column, encoder)")

    def encoder_and_basis(self, column: TrainingColumn) -> tuple[Encoder, Basis]:
        """Return encoder and basis, with bins merged if min_rows_per_bin asks for it."""
        encoder, min_rows = self.encoder(column), column.sample.min_rows
        if min_rows is None:
            return encoder, checked_basis(self.basis(column, encoder), self)
        if encoder.is_coded:
            encoder = encoder.merged(column.column, column.summary, min_rows)
            return encoder, checked_basis(self.basis(column, encoder), self)
        # Bins of the tails are merged, so a curve has no data beyond the last points.
        rule = self.bin_rule(min_rows.rule)
        points = min_rows.points(column.column, rule, column.sample, column.summary).points
        inner = column.between(float(points[0]), float(points[-1]))
        return encoder, checked_basis(self.flat_beyond().basis(inner, encoder), self)

    def flat_beyond(self) -> Learner:
        """Return the learner whose effect is constant outside the training range."""
        return self

    def plans(self, name: str, training: TrainingTable, net_df: float | None) -> list[Plan]:
        """Return the terms that the learner makes."""
        encoder, basis = self.encoder_and_basis(training[self.columns[0]])
        return [Plan(name, self, (encoder,), basis, net_df)]

    # --- bins -------------------------------------------------------------------------------------

    def bin_rule(self, default: Bins) -> Bins:
        """Return the rule that merges numbers into bins: the learner's own, or the default."""
        own = getattr(self, "bins", None)
        return default if own is None else as_bins(own)

    def axis_rules(self, default: Bins) -> tuple[Bins, ...]:
        """Return the binning rule of each column."""
        return (self.bin_rule(default),)

    # --- margins of a Tensor ----------------------------------------------------------------------

    @property
    def can_be_margin(self) -> bool:
        """Whether a Tensor can take it for one of its columns."""
        return len(self.columns) == 1

    @property
    def has_constant(self) -> bool:
        """Whether its basis holds constants."""
        return True

    def __repr__(self) -> str:
        """Return the learner as a user would write it: columns, then parameters that are not the
        default."""
        options = [f for f in fields(self) if f.name not in self.column_fields]
        changed = [f"{f.name}={v!r}" for f in options if (v := getattr(self, f.name)) != f.default]
        columns = [repr(getattr(self, name)) for name in self.column_fields]
        return f"{type(self).__name__}({', '.join([*columns, *changed])})"


def checked_basis(basis: Any, learner: Learner) -> Basis:
    """Return the basis that a learner made; raise if a user's learner did not return a Basis."""
    if not isinstance(basis, Basis):
        raise TypeError(
            f"{learner.shown}: the basis must be an instance of a subclass of Basis, got "
            f"{quote(basis)} of type {type(basis).__name__}"
        )
    return basis
