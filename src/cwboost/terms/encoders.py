"""Encoders turn the cells of a column into floats, at which the basis of a term is evaluated.

An encoder keeps the numbers (`Values`), or codes them: the number of a step (`Cuts`) or of a level
(`Levels`). NaN stands for a missing cell, and UNSEEN (-1) for a level that training did not have.
Encoders are part of the model, because prediction needs them. An unseen level has the effect zero:
a basis gives it the mean row (bases/base.py), and prediction a piece (model/prediction.py).

To add an encoder, write a class here and add it to `ENCODERS`. Other modules use the attributes and
methods of `Encoder`; they never ask which encoder it is.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from cwboost import _core
from cwboost._utils.checks import is_number
from cwboost._utils.text import list_names, quote
from cwboost._utils.user_warnings import warn_user
from cwboost.binning.index_sets import UNSEEN, CodedColumn, IndexSet, index_dtype
from cwboost.binning.min_rows import MinRows, every_other
from cwboost.binning.number_statistics import (
    ADVICE_PREDICT,
    NumberStatistics,
    as_statistics,
    numbers_of,
)
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.columns import Column, Floats, Labels, format_number

BOOLEANS = {"True": 1.0, "False": 0.0}
SPELLED_BOOLEANS = {"True": ("true", "TRUE", "1", "1.0"), "False": ("false", "FALSE", "0", "0.0")}
SPELLED_NUMBER = re.compile(r"-?\d{1,300}(\.\d+)?(e[+-]\d{1,2})?")  # as repr does


class Encoder(ABC):
    """Turns the cells of one column into values for a basis.

    Subclasses are frozen dataclasses whose fields are written to model files.

    Attributes
    ----------
    is_numeric : bool
        Whether the column must be numeric.
    n_codes : int or None
        The codes are 0, ..., n_codes - 1. None: encoded values are the numbers themselves, and
        rows are binned by a rule (`Bins`) instead of by code.
    cuts : tuple of float
        Code j holds the numbers in (cuts[j-1], cuts[j]]; () if numbers are not cut.
    levels : tuple of str
        The level of each code; () if the codes are not levels.
    """

    __dataclass_fields__: ClassVar[dict[str, Any]]  # of the subclasses
    is_numeric: ClassVar[bool]
    cuts: tuple[float, ...] = ()
    levels: tuple[str, ...] = ()

    @property
    @abstractmethod
    def n_codes(self) -> int | None: ...

    @property
    def is_coded(self) -> bool:
        """Whether encoded values are codes, so that a bin is a code."""
        return self.n_codes is not None

    @property
    def has_steps(self) -> bool:
        """Whether effects are constant between the cuts of a numeric column."""
        return self.is_coded and self.is_numeric

    @property
    def counts_unseen(self) -> bool:
        """Whether UNSEEN stands for levels that training did not have."""
        return bool(self.levels)

    @abstractmethod
    def encode(self, column: Column) -> Floats:
        """Return (n,) the values at which a basis is evaluated."""

    @abstractmethod
    def code_of(self, value: Any) -> float | None:
        """Return the encoded value of one cell, given as a number, a text, or None for missing.

        Return None if the column must be numeric and the cell is not a number.
        """

    def codes(self) -> Floats | None:
        """Return all encoded values of a coded column: codes, NaN, and UNSEEN for levels.

        Return None if encoded values are numbers.
        """
        return None if self.n_codes is None else np.array([*range(self.n_codes), np.nan])

    def add_steps(self, points: Floats) -> Floats:
        """Return the points and, for effects with steps, both sides of every cut; increasing."""
        return points

    def coded(self, column: Column, summary: ColumnSummary) -> CodedColumn:
        """Return the code of every row; for coded columns only."""
        raise NotImplementedError

    def bin(self, column: Column, summary: ColumnSummary) -> IndexSet:
        """Return one bin per code that occurs, missing and unseen included; if coded."""
        return self.coded(column, summary).compact()

    def merged(self, column: Column, summary: ColumnSummary, min_rows: MinRows) -> Encoder:
        """Return an encoder whose codes all have min_rows_per_bin rows; if coded."""
        raise NotImplementedError

    def problem(self) -> str | None:
        """Return what is wrong with the fields, as read from a file: "expected ..."; else None."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the fields as plain lists and numbers."""
        items = ((f.name, getattr(self, f.name)) for f in fields(self))
        return {name: list(v) if isinstance(v, tuple) else v for name, v in items}


@dataclass(frozen=True)
class Values(Encoder):
    """Keeps the numbers as they are."""

    is_numeric: ClassVar[bool] = True

    @property
    def n_codes(self) -> int | None:
        return None

    def encode(self, column: Column) -> Floats:
        return numbers_of(column, ADVICE_PREDICT)

    def code_of(self, value: Any) -> float | None:
        return as_number(value)


VALUES = Values()


@dataclass(frozen=True)
class Cuts(Encoder):
    """Codes numbers by steps: code j holds the numbers in (cuts[j-1], cuts[j]]."""

    cuts: tuple[float, ...] = field()
    is_numeric: ClassVar[bool] = True

    @property
    def n_codes(self) -> int:
        return len(self.cuts) + 1

    @classmethod
    def make(cls, values: Floats | NumberStatistics, sample: Sample, n_bins: int) -> Cuts:
        """Return cuts at weighted quantiles.

        Values with a share of 1/n_bins or more get a step of their own, and so do all values if
        there are at most n_bins.
        """
        distinct, weights = as_statistics(values).weigh_for_steps(sample, n_bins)
        last = distinct[:-1] if weights is None else _last_of_steps(distinct, weights, n_bins)
        # Halfway to the next value: noise in the last digits must not move a row to another step.
        at = np.unique(np.searchsorted(distinct, last, side="right")) - 1
        low, high = distinct[at], distinct[at + 1]
        middle = low + (high / 2 - low / 2)  # high - low may overflow
        return cls(tuple(float(c) for c in np.where(middle < high, middle, low)))

    def encode(self, column: Column) -> Floats:
        values = numbers_of(column, ADVICE_PREDICT)
        codes = np.searchsorted(np.asarray(self.cuts), values).astype(np.float64)
        return np.where(np.isnan(values), np.nan, codes)

    def code_of(self, value: Any) -> float | None:
        number = as_number(value)
        if number is None or np.isnan(number):
            return number
        return float(np.searchsorted(self.cuts, number))

    def add_steps(self, points: Floats) -> Floats:
        cuts = np.array(self.cuts)
        return np.unique(np.concatenate([points, cuts, np.nextafter(cuts, np.inf)]))

    def coded(self, column: Column, summary: ColumnSummary) -> CodedColumn:
        values, n_codes = numbers_of(column), self.n_codes + summary.any_missing
        index = np.empty(len(values), index_dtype(n_codes))
        _core.assign_cuts(values, np.asarray(self.cuts, dtype=np.float64), index)
        codes = np.arange(n_codes, dtype=np.float64)
        if summary.any_missing:
            codes[-1] = np.nan
        return CodedColumn(index, codes)

    def merged(self, column: Column, summary: ColumnSummary, min_rows: MinRows) -> Cuts:
        cuts = np.array(self.cuts)
        while True:
            values, counts = min_rows.by_code(column, Cuts(tuple(cuts.tolist())), summary)
            min_rows.refuse_missing(column, values, counts)
            small = np.zeros(len(cuts) + 1, bool)
            known = ~np.isnan(values)
            small[values[known].astype(np.intp)] = min_rows.small(counts)[known]
            drop = every_other(small)
            if not drop.any():
                return Cuts(tuple(cuts.tolist()))
            if not len(cuts):
                raise ValueError(
                    f"column {quote(column.name)} has fewer values than min_rows_per_bin = "
                    f"{min_rows.rows} at one site; lower it, or leave the column out"
                )
            # A step is merged with the next one, the last step with the one before.
            drop[-2] = drop[-2] or drop[-1]
            cuts = cuts[~drop[:-1]]

    def problem(self) -> str | None:
        return None if np.all(np.diff(self.cuts) > 0) else "expected increasing cuts"


def _last_of_steps(distinct: Floats, weights: Floats, n_bins: int) -> Floats:
    """Return the distinct values that are the last of their step."""
    share = weights / weights.sum()
    atom = share >= (1.0 - 1e-12) / n_bins
    before = np.flatnonzero(atom) - 1
    cuts = [distinct[atom], distinct[before[before >= 0]]]
    size = n_bins - int(atom.sum())
    rest, others = (share[~atom], distinct[~atom]) if size < n_bins else (share, distinct)
    if size > 1 and (total := rest.sum()) > 0:
        reached = np.cumsum(rest) / total
        at = np.searchsorted(reached, np.arange(1, size) / size - 1e-12)
        cuts.append(others[np.minimum(at, len(reached) - 1)])
    return np.setdiff1d(np.concatenate(cuts), distinct[-1])


@dataclass(frozen=True)
class Levels(Encoder):
    """Codes text by its level. Without levels it only tells missing cells from others."""

    levels: tuple[str, ...] = field()
    is_numeric: ClassVar[bool] = False

    @property
    def n_codes(self) -> int:
        return len(self.levels)

    @classmethod
    def make(cls, column: Column, sample: Sample) -> Levels:
        """Return the levels that the sample has, in the column's order."""
        labels = column.labels()
        codes = labels.codes_of(sample.marks)
        counts = np.bincount(codes + 1, minlength=len(labels.levels) + 1)
        return cls(tuple(labels.levels[c] for c in np.flatnonzero(counts[1:])))

    def encode(self, column: Column) -> Floats:
        if not self.levels:
            return np.where(column.missing, np.nan, UNSEEN)
        labels = column.labels()
        return self._codes_of(labels)[labels.codes]

    def _codes_of(self, labels: Labels) -> Floats:
        """Return the code of each level of a column; the last one (also at -1) is for missing."""
        found = map(level_finder(self.levels), labels.levels)
        return np.array([*(UNSEEN if i is None else float(i) for i in found), np.nan])

    def code_of(self, value: Any) -> float:
        if value is None:
            return float("nan")
        found = level_finder(self.levels)(level_text(value))
        return UNSEEN if found is None else float(found)

    def codes(self) -> Floats:
        return np.array([*range(self.n_codes), np.nan, UNSEEN])

    def coded(self, column: Column, summary: ColumnSummary) -> CodedColumn:  # noqa: ARG002
        if not self.levels:
            return CodedColumn(column.missing.view(np.uint8), np.array([UNSEEN, np.nan]))
        labels = column.labels()
        return CodedColumn(labels.codes, self._codes_of(labels))

    def merged(self, column: Column, summary: ColumnSummary, min_rows: MinRows) -> Levels:
        """Return the levels that have enough rows; others count as unseen, with a warning."""
        values, counts = min_rows.by_code(column, self, summary)
        min_rows.refuse_missing(column, values, counts)
        known = values >= 0
        drop = np.zeros(len(self.levels), bool)
        drop[values[known].astype(np.intp)] = min_rows.small(counts)[known]
        if not drop.any():
            return self
        rare = [level for level, gone in zip(self.levels, drop, strict=True) if gone]
        kept = [level for level, gone in zip(self.levels, drop, strict=True) if not gone]
        if drop.all():
            raise ValueError(
                f"column {quote(column.name)}: no level has min_rows_per_bin = {min_rows.rows} "
                "rows at every site that has it; merge levels, or leave the column out"
            )
        warn_user(
            f"column {quote(column.name)}: {len(rare)} of {len(self.levels)} levels have fewer "
            f"rows than min_rows_per_bin = {min_rows.rows} and count as unseen: {list_names(rare)}",
        )
        return Levels(tuple(kept))

    def problem(self) -> str | None:
        return None if len(set(self.levels)) == len(self.levels) else "expected different levels"


def level_finder(levels: Sequence[str]) -> Callable[[str], int | None]:
    """Return a function that gives the position of a text among the levels, None if it is not one.

    Files and databases may spell a level differently: 1.0 is the level 1, and true and 1 are the
    level True, unless these texts are levels themselves.

    Examples
    --------
    >>> [level_finder(["1", "2"])(text) for text in ("1", "2.0", "02", "x")]
    [0, 1, None, None]
    """
    position = {level: i for i, level in enumerate(levels)}

    def find(text: str) -> int | None:
        found = position.get(text)
        if found is None:
            found = next((position[t] for t in _usual_spellings(text) if t in position), None)
        return found

    return find


def _usual_spellings(text: str) -> Iterator[str]:
    """Yield how a model spells the level that a text may stand for."""
    if SPELLED_NUMBER.fullmatch(text) and repr(number := float(text)) == text:
        yield format_number(number)
    yield from (level for level, others in SPELLED_BOOLEANS.items() if text in others)


def spell_levels(levels: Sequence[str]) -> list[list[str]]:
    """Return all texts that stand for each of the levels.

    Examples
    --------
    >>> spell_levels(["a", "1", "2.5"])
    [['a'], ['1', '1.0'], ['2.5']]
    """
    find = level_finder(levels)
    return [
        [level, *(text for text in _other_spellings(level) if find(text) == i)]
        for i, level in enumerate(levels)
    ]


def _other_spellings(level: str) -> Sequence[str]:
    if level in SPELLED_BOOLEANS:
        return SPELLED_BOOLEANS[level]
    if not SPELLED_NUMBER.fullmatch(level) or format_number(float(level)) != level:
        return ()
    return [text for text in [repr(float(level))] if text != level]


def level_number(level: str) -> float:
    """Return the number that a level of a numeric column stands for."""
    return BOOLEANS[level] if level in BOOLEANS else float(level)


def level_text(value: Any) -> str:
    """Return a cell's level as models spell it: 3.0 -> "3", True -> "True"."""
    boolean = isinstance(value, bool | np.bool_)
    return format_number(float(value), boolean) if boolean or is_number(value) else str(value)


def as_number(value: Any) -> float | None:
    """Return a cell as a float: NaN for None, and None if the cell is not a number."""
    if value is None:
        return float("nan")
    try:
        return float(BOOLEANS.get(level_text(value), value))
    except (TypeError, ValueError):
        return None


# What model files call each encoder.
ENCODERS: dict[str, type[Encoder]] = {"values": Values, "cuts": Cuts, "levels": Levels}
