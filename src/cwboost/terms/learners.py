"""Learners as people write them: what a term is made of. Knows which encoder and which basis each
kind takes from a training column; knows nothing of rows, parts, smoothing or the core.

To add a learner: one class here (its encoder, its basis) and its name in `LEARNERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from cwboost._utils.checks import is_number, is_whole
from cwboost.binning.numbers import numbers_of, statistics_of
from cwboost.binning.rules import Bins, as_bins
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.table import Table
from cwboost.terms.encoders import VALUES, Cuts, Encoder, Levels

from .bases import (
    Basis,
    Extrapolate,
    LevelBasis,
    MarkBasis,
    PowerBasis,
    SplineBasis,
)

STEP_BINS = 128
PAIR_BINS = 4, 16  # the fewest and the most steps of a column in a pair without main effects
PAIR_CELLS = 600  # of its table, where fewer steps can make it so
TENSOR_KNOTS = 10
MIN_STEP, MAX_SIZE = 1e-300, 1e307  # inverses and continuations are still numbers
DfKind = Literal["df2", "df1"]


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise ValueError(message)


def _range(seen: ColumnSummary, column: str, steps: int = 1) -> tuple[float, float]:
    """The least and the largest value, if a step and what lies beyond them are numbers."""
    low, high = seen.low, seen.high
    if max(-low, high) > MAX_SIZE or high - low < MIN_STEP * steps:
        raise ValueError(
            f"column {column!r}: numbers from {low:g} to {high:g} are too large or too close "
            "together for 64-bit floats; rescale the column or take it out"
        )
    return low, high


@dataclass(frozen=True, kw_only=True, repr=False)
class Learner:
    """What all learners take, by keyword.

    Most also take `df`, degrees of freedom with the constant included, which decide the smoothing.
    By default all learners get the same net df, so that none is chosen for its flexibility.

    Parameters
    ----------
    name : str, optional
        Name of the term; by default the column.
    smoothing : float, optional
        The factor lambda of the penalty, instead of df.
    df_kind : "df2" or "df1"
        df = tr(2H - HH), or tr(H).
    """

    name: str | None = None
    smoothing: float | None = None
    df_kind: DfKind = "df2"

    # A learner whose df counts no constant (Centered) says so.
    df_beside: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        for column in self.columns:
            if not isinstance(column, str):
                raise TypeError(
                    f"{self._who}: the column must be a name (a string), got "
                    f"{type(column).__name__}"
                )
        if self.name is not None and not isinstance(self.name, str):
            raise TypeError(f"{self._who}: name must be a string, got {self.name!r}")
        df = self.target_df
        if df is not None or self.smoothing is not None:
            self._check_smoothing(df)
        if self.df_kind not in ("df2", "df1"):
            raise ValueError(f"{self._who}: df_kind must be 'df2' or 'df1', got {self.df_kind!r}")
        self._check()

    @property
    def _who(self) -> str:
        """The learner as messages call it."""
        return f"{type(self).__name__}({', '.join(map(repr, self.columns))})"

    def _check_smoothing(self, df: Any) -> None:
        who = self._who
        _require(df is None or self.smoothing is None, f"{who}: give df or smoothing, not both")
        for label, value, low in (("df", df, "> 0"), ("smoothing", self.smoothing, ">= 0")):
            fine = is_number(value) and (value > 0 or (value == 0 and low == ">= 0"))
            _require(
                value is None or fine,
                f"{who}: {label} must be a finite number {low}, got {value!r}",
            )

    def _check(self) -> None:
        """Further checks of a learner's own parameters."""

    @cached_property
    def columns(self) -> tuple[str, ...]:
        column: str = self.column  # type: ignore[attr-defined]
        return (column,)

    @property
    def target_df(self) -> float | None:
        """The df asked for; None: by smoothing or by the default."""
        df: float | None = getattr(self, "df", None)
        return df

    @property
    def kind_name(self) -> str:
        return type(self).__name__.lower()

    def bin_rule(self, default: Bins) -> Bins:
        """The rule by which numbers are merged into bins for the fit."""
        own = getattr(self, "bins", None)
        return default if own is None else as_bins(own)

    def encoder(self, table: Table, seen: ColumnSummary, sample: Sample) -> Encoder:  # noqa: ARG002
        """The encoder that the sample decides."""
        if seen.kind == "labels":
            numbers_of(table[self.columns[0]])  # raises, and says why
        return VALUES

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:
        """The basis that the sample decides; there is a value in the column."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """As one would write it: the columns, then what is not the default."""
        own = [f for f in fields(self) if f.name not in ("column", "a", "b")]
        given = [f"{f.name}={v!r}" for f in own if (v := getattr(self, f.name)) != f.default]
        first = [repr(getattr(self, n)) for n in ("column", "a", "b") if hasattr(self, n)]
        return f"{type(self).__name__}({', '.join([*first, *given])})"


@dataclass(frozen=True, repr=False)
class Linear(Learner):
    """A straight line with its intercept; with `intercept=False` of the centred column, without.

    Parameters
    ----------
    column : str
    intercept : bool
    bins : rule, optional
        Instead of the fit's.

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

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:  # noqa: ARG002
        low, high = _range(seen, self.column)
        if self.intercept:
            center, first = low + (high - low) / 2, 0
        else:
            center, first = statistics_of(table[self.column]).mean(sample), 1
        scale = max(abs(low - center), abs(high - center))
        return PowerBasis(center=center, scale=scale, degree=1, first=first)


@dataclass(frozen=True, repr=False)
class Polynomial(Learner):
    """A polynomial, its intercept included.

    Parameters
    ----------
    column : str
    degree : int
    bins : rule, optional
        Instead of the fit's.

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

    def _check(self) -> None:
        who = self._who
        _require(
            is_whole(self.degree) and 1 <= self.degree <= 20,
            f"{who}: degree must be a whole number from 1 to 20, got {self.degree!r}",
        )

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:  # noqa: ARG002
        low, high = _range(seen, self.column)
        return PowerBasis(center=low + (high - low) / 2, scale=(high - low) / 2, degree=self.degree)


@dataclass(frozen=True, repr=False)
class Spline(Learner):
    """A smooth curve: penalised B-splines (P-splines).

    Parameters
    ----------
    column : str
    df : float, optional
        Degrees of freedom, constant and straight line (2) included.
    knots : int
        Inner knots; there are knots + degree + 1 coefficients.
    degree : int
    differences : int
        Order of the differences that are penalised.
    knot_placement : "uniform" or "quantile"
        Equally spaced knots, or knots at quantiles of the training rows: the curve may bend more
        where there are more rows. Quantile knots are for columns with outliers.
    bins : rule, optional
        Instead of the fit's.
    extrapolate : "linear" or "constant"
        How the curve goes on beyond the range of the training rows.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 6, 200)
    >>> model = cb.fit({"x": x}, np.sin(x), [cb.Spline("x", df=6)], n_iter=300)
    >>> bool(np.abs(model.predict({"x": x}) - np.sin(x)).max() < 0.02)
    True
    """

    column: str
    df: float | None = None
    knots: int = 20
    degree: int = 3
    differences: int = 2
    knot_placement: Literal["uniform", "quantile"] = "uniform"
    bins: Any = None
    extrapolate: Extrapolate = "linear"

    centered: ClassVar[bool] = False

    def _check(self) -> None:
        who = self._who
        for label, low, high in (("knots", 0, 1000), ("degree", 0, 10), ("differences", 1, 10)):
            value = getattr(self, label)
            _require(
                is_whole(value) and low <= value <= high,
                f"{who}: {label} must be a whole number from {low} to {high}, got {value!r}",
            )
        _require(
            self.differences < self.knots + self.degree + 1,
            f"{who}: differences of order {self.differences} need more than "
            f"{self.knots + self.degree + 1} coefficients; take more knots",
        )
        _require(
            self.knot_placement in ("uniform", "quantile"),
            f"{who}: knot_placement must be 'uniform' or 'quantile', got {self.knot_placement!r}",
        )
        _require(
            self.extrapolate in ("linear", "constant"),
            f"{who}: extrapolate must be 'linear' or 'constant', got {self.extrapolate!r}",
        )

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:  # noqa: ARG002
        low, high = _range(seen, self.column, 1000 * (self.knots + 1))
        if self.knot_placement == "uniform":
            inner = np.linspace(low, high, self.knots + 2)
        else:
            shares = np.arange(1, self.knots + 1) / (self.knots + 1)
            ranks = statistics_of(table[self.column]).quantiles(sample, shares)
            inner = np.unique(np.concatenate([[low], ranks, [high]]))
        if not np.all(inner[1:] > inner[:-1]):
            raise ValueError(
                f"column {self.column!r}: its values from {low!r} to {high!r} are too close "
                f"together for {self.knots} knots; rescale the column or take it out"
            )
        out = np.arange(1, self.degree + 1)
        below = inner[0] - (inner[1] - inner[0]) * out[::-1]
        above = inner[-1] + (inner[-1] - inner[-2]) * out
        knots = np.concatenate([below, inner, above])
        return SplineBasis(
            knots=tuple(knots.tolist()),
            degree=self.degree,
            differences=min(self.differences, len(knots) - self.degree - 2),
            extrapolate=self.extrapolate,
            missing=seen.missing and not self.centered,
            centered=self.centered,
        )


@dataclass(frozen=True, repr=False)
class Centered(Spline):
    """The smooth part of a curve without its straight line: Spline(df + 2) minus Linear.

    Beside Linear(column) it lets the model decide whether an effect is a line or a curve. Its df
    count neither constant nor line, so df=1 is as flexible as a line.

    Examples
    --------
    >>> import cwboost as cb
    >>> [cb.Linear("age"), cb.Centered("age", df=1)][1].df
    1
    """

    centered: ClassVar[bool] = True
    df_beside: ClassVar[float] = 2.0

    def _check(self) -> None:
        super()._check()
        who = self._who
        _require(self.degree >= 1, f"{who}: degree must be at least 1 to hold straight lines")


@dataclass(frozen=True, repr=False)
class Step(Learner):
    """A step function: one level per quantile bin, neighbours pulled together.

    Frequent values (a share of 1/bins or more) have a bin of their own, so that spikes stay spikes;
    all values have one where there are no more than `bins`.

    Parameters
    ----------
    column : str
    df : float, optional
    bins : int
        About how many steps: frequent values that part a bin add one each.
    kind : "steps" or "spikes"
        Pull levels to their neighbours, or each by itself to zero: for columns in which single
        values mean something (a capital gain of 99,999).

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

    def _check(self) -> None:
        who = self._who
        _require(
            is_whole(self.bins) and 2 <= self.bins <= 4096,
            f"{who}: bins must be a whole number from 2 to 4096, got {self.bins!r}",
        )
        _require(
            self.kind in ("steps", "spikes"),
            f"{who}: kind must be 'steps' or 'spikes', got {self.kind!r}",
        )

    @property
    def kind_name(self) -> str:
        return "step" if self.kind == "steps" else "spikes"

    def bin_rule(self, default: Bins) -> Bins:
        return default

    def encoder(self, table: Table, seen: ColumnSummary, sample: Sample) -> Encoder:  # noqa: ARG002
        return Cuts.make(statistics_of(table[self.column]), sample, self.bins)

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:  # noqa: ARG002
        assert isinstance(encoder, Cuts)
        differences = 1 if self.kind == "steps" else 0
        return LevelBasis(n_levels=encoder.n_codes, differences=differences, missing=seen.missing)


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

    def _check(self) -> None:
        who = self._who
        _require(
            self.kind in ("ridge", "binary"),
            f"{who}: kind must be 'ridge' or 'binary', got {self.kind!r}",
        )
        _require(
            self.kind == "ridge" or (self.df is None and self.smoothing is None),
            f"{who}: binary levels are unpenalised and take neither df nor smoothing",
        )

    def encoder(self, table: Table, seen: ColumnSummary, sample: Sample) -> Encoder:  # noqa: ARG002
        return Levels.make(table[self.column], sample)

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:  # noqa: ARG002
        assert isinstance(encoder, Levels)
        return LevelBasis(n_levels=len(encoder.levels), missing=seen.missing)


@dataclass(frozen=True, repr=False)
class Missing(Learner):
    """The effect of a cell being missing; it stands beside learners that cannot show it.

    Examples
    --------
    >>> import cwboost as cb
    >>> cb.Missing("income").columns
    ('income',)
    """

    column: str

    def _check(self) -> None:
        who = self._who
        _require(self.smoothing is None, f"{who}: it is unpenalised and takes no smoothing")

    def encoder(self, table: Table, seen: ColumnSummary, sample: Sample) -> Encoder:  # noqa: ARG002
        return Levels(())  # every level is unseen, only missing cells are told apart

    def basis(self, table: Table, encoder: Encoder, seen: ColumnSummary, sample: Sample) -> Basis:  # noqa: ARG002
        return MarkBasis(level=None)


@dataclass(frozen=True, repr=False)
class Tensor(Learner):
    """An interaction of two columns: all products of the two learners' bases.

    Parameters
    ----------
    a, b : str or learner
        A column's name stands for Spline(column, knots=10) if it is numeric, else for
        Category(column). Their df, smoothing and name are the Tensor's business.
    df : float, optional
        Of the whole surface; more than the product of the margins' null spaces (4 for two
        splines).
    bins : rule, optional
        Of either axis, at most 255.
    orthogonal : bool
        Without the main effects: whatever the surface has of a function of one of the columns
        alone is taken out of it, so that the terms of a and b keep their meaning. A numeric
        column's name then stands for a Step of 4 to 16 bins, more where there are more rows, and
        df count no main effects.

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

    def _check(self) -> None:
        who = self._who
        for margin in (self.a, self.b):
            if isinstance(margin, str):
                continue
            refused = isinstance(margin, Tensor | Centered | Missing) or (
                isinstance(margin, Category) and margin.kind == "binary"
            )
            if refused:
                raise TypeError(
                    f"{who}: expected column names or learners of one column (not Centered, "
                    f"Missing or binary), got {margin!r}"
                )
            _require(
                [margin.target_df, margin.smoothing, margin.name] == [None, None, None],
                f"{who}: df, smoothing and name belong to the Tensor, not to {margin!r}",
            )
            _require(
                not (self.orthogonal and isinstance(margin, Linear) and not margin.intercept),
                f"{who}: without main effects its margins need constants; got {margin!r}",
            )
        _require(self.columns[0] != self.columns[1], f"{who}: needs two different columns")
        if not isinstance(self.orthogonal, bool):
            raise TypeError(f"{who}: orthogonal must be True or False, got {self.orthogonal!r}")

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(
            margin.columns[0] if isinstance(margin, Learner) else margin
            for margin in (self.a, self.b)
        )

    def axis_rules(self, default: Bins) -> tuple[Bins, Bins]:
        """The bin rules of the two axes: the margin's own, else the Tensor's, else the fit's."""
        rule = self.bin_rule(default)
        a, b = (m.bin_rule(rule) if isinstance(m, Learner) else rule for m in (self.a, self.b))
        return a, b

    def margins(
        self, n_levels: Callable[[str], int | None], n_rows: int
    ) -> tuple[Learner, Learner]:
        """The two learners, names replaced by what they stand for: `n_levels` says how many levels
        a column has, None if it is numeric."""

        def margin(m: str | Learner, beside: str) -> Learner:
            if isinstance(m, Learner):
                return m
            if n_levels(m) is not None:
                return Category(m)
            if not self.orthogonal:
                return Spline(m, knots=TENSOR_KNOTS)
            return Step(m, bins=pair_bins(n_rows, n_levels(beside)))

        a, b = self.columns
        return margin(self.a, b), margin(self.b, a)


def pair_bins(n_rows: int, beside: int | None = None) -> int:
    """Steps of a numeric column in a pair without main effects: so that the table has about 1.7
    times as many cells as the root of the number of rows, and fewer beside a column of so many
    levels.

    Examples
    --------
    >>> [pair_bins(n) for n in (100, 1_000, 3_500, 10_000, 100_000)]
    [4, 7, 9, 13, 16]
    >>> pair_bins(100_000, 60)
    10
    """
    fewest, most = PAIR_BINS
    most = min(most, int(1.3 * n_rows**0.25), PAIR_CELLS // (beside or 1))
    return max(fewest, most)


LEARNERS: dict[str, type[Learner]] = {
    cls.__name__: cls
    for cls in (Linear, Polynomial, Spline, Centered, Step, Category, Missing, Tensor)
}
