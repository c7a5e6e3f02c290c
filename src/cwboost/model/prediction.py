"""Prediction: the terms of a model, compiled for the core, and how columns are handed to it.

A `Predictor` is made once per model and kept with it. It works with the pieces of the terms
(pieces.py); a term whose basis has no such form is evaluated by its basis. Does not know about
losses, offsets or warnings (see model.py).

For scores, the curves of one column are added up before any row is read: on the union of their
breaks, every piece gets the sum of their polynomials. Columns that must be converted are released
as soon as their terms are done, so that a prediction does not hold a copy of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost.binning.number_statistics import ADVICE_PREDICT, numbers_of
from cwboost.frames.columns import Column, Floats, Labels, Numbers, format_number
from cwboost.frames.table import Table
from cwboost.terms.encoders import BOOLEANS, level_finder

from .pieces import Axis, NoPiecesError, term_pieces
from .records import ColumnFacts
from .term import Term

MERGED_POWERS = 4  # coefficients of cubics; curves of higher degree would lose digits if added up
HELD_ROWS = 4096  # up to this number of rows, converted columns are kept to the end
MAX_INVERSE = 1e308  # of a piece's width
FAR = 0.1  # rows are counted that lie beyond the training range by more than this share of it
NOTHING = np.empty(0)
NO_LIMITS = -np.inf, np.inf


class PiecewiseSum(NamedTuple):
    """One term, or the sum of several, as a piecewise polynomial (see TermPieces)."""

    axes: tuple[Axis, ...]
    coef: Floats


@dataclass
class Findings:
    """What was noticed in the rows."""

    not_a_number: int = -1  # first row whose score, or an effect, is NaN; -1 if none is
    unseen: dict[str, int] = field(default_factory=dict)  # per column, rows with unseen levels
    beyond: dict[str, int] = field(default_factory=dict)  # rows far outside the training range

    def add(self, other: Findings) -> None:
        """Add the counts of other rows."""
        for own, new in ((self.unseen, other.unseen), (self.beyond, other.beyond)):
            for column, n in new.items():
                own[column] = own.get(column, 0) + n


class Predictor:
    """The chosen terms of a model: their effects, centred, at the rows of any table."""

    def __init__(self, terms: Mapping[str, Term], columns: Mapping[str, ColumnFacts]) -> None:
        self.terms = {name: term for name, term in terms.items() if term.chosen}
        self._facts = {c: columns[c] for term in self.terms.values() for c in term.columns}

    def add(self, table: Table, score: Floats, n_threads: int) -> Findings:
        """Add all effects to (n, q) scores."""
        found = self._merged.run(table, score[None], True, n_threads)
        if not self._others:
            return found
        with np.errstate(over="ignore", invalid="ignore"):
            for term in self._others:
                score += self._evaluate(term, table, found)
        wrong = np.isnan(score).any(axis=1)
        found.not_a_number = int(np.argmax(wrong)) if wrong.any() else -1
        return found

    def write(self, table: Table, effects: Floats, n_threads: int) -> Findings:
        """Write the effect of every term to its part of (terms, n, q)."""
        if not self._others:
            found = self._separate.run(table, effects, False, n_threads)
            found.not_a_number = _first_nan(effects)
            return found
        compiled = np.empty((len(self._pieces), *effects.shape[1:]))
        found = self._separate.run(table, compiled, False, n_threads)
        next_compiled = iter(compiled)
        with np.errstate(over="ignore", invalid="ignore"):
            for k, (name, term) in enumerate(self.terms.items()):
                known = name in self._pieces
                effects[k] = next(next_compiled) if known else self._evaluate(term, table, found)
        found.not_a_number = _first_nan(effects)
        return found

    @cached_property
    def _pieces(self) -> dict[str, PiecewiseSum]:
        """The terms in their exact form, without those that have none."""
        out = {}
        for name, term in self.terms.items():
            try:
                pieces = term_pieces(term, self._facts)
            except NoPiecesError:
                continue
            out[name] = PiecewiseSum(tuple(map(_closed_below, pieces.axes)), pieces.coef)
        return out

    @cached_property
    def _others(self) -> list[Term]:
        """The terms that their bases evaluate."""
        return [term for name, term in self.terms.items() if name not in self._pieces]

    @cached_property
    def _separate(self) -> CompiledTerms:
        return CompiledTerms(list(self._pieces.values()), self._facts)

    @cached_property
    def _merged(self) -> CompiledTerms:
        return CompiledTerms(merge(list(self._pieces.values())), self._facts)

    def _evaluate(self, term: Term, table: Table, found: Findings) -> Floats:
        """Return (n, q) the effect of a term by its basis."""
        columns = [as_in_training(table[c], self._facts[c]) for c in term.columns]
        values = term.plan.encode(columns)
        found.unseen |= term.plan.count_unseen(values)
        for encoder, column in zip(term.plan.encoders, columns, strict=True):
            if encoder.is_numeric:
                low, high = far_limits(self._facts[column.name])
                numbers = numbers_of(column, ADVICE_PREDICT)
                if far := int(np.sum((numbers < low) | (numbers > high))):
                    found.beyond[column.name] = far
        return term.effect_at(values)


def _first_nan(effects: Floats) -> int:
    """Return the first row of (terms, n, q) effects of which one is NaN; -1 if none is."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(effects.sum()):  # faster than looking at every effect
            return -1
    wrong = np.isnan(effects).any(axis=(0, 2))
    return int(np.argmax(wrong)) if wrong.any() else -1


def far_limits(facts: ColumnFacts) -> tuple[float, float]:
    """Return the limits beyond which a number is far outside the training range.

    Examples
    --------
    >>> far_limits(ColumnFacts("numbers", low=0.0, high=50.0))
    (-5.0, 55.0)
    """
    if (
        facts.kind != "numbers"
        or facts.low is None
        or facts.high is None
        or facts.low == facts.high
    ):
        return NO_LIMITS
    margin = FAR * (facts.high - facts.low)
    return facts.low - margin, facts.high + margin


def check_unit(column: Column, facts: ColumnFacts) -> None:
    """Raise if a column has dates or durations where training had something else."""
    if not isinstance(column, Numbers) or column.unit == "numbers" or facts.unit is None:
        return
    if column.unit != facts.unit and not column.missing.all():
        raise TypeError(
            f"column {quote(column.name)}: the model was fitted to {facts.unit}, got "
            f"{column.unit}; convert it to {facts.unit}"
        )


def as_in_training(column: Column, facts: ColumnFacts) -> Column:
    """Return the column with its numbers as what they were in training: booleans or labels."""
    check_unit(column, facts)
    if not isinstance(column, Numbers):
        return column
    if facts.boolean and only_booleans(column):
        return replace(column, boolean=True)  # 0 and 1 are known as False and True
    return column.labels() if facts.kind == "labels" else column


def only_booleans(column: Numbers) -> bool:
    return not np.any((column.values != 0) & (column.values != 1) & ~column.missing)


# --- terms for the core ---------------------------------------------------------------------------


def _closed_below(axis: Axis) -> Axis:
    """Return the same axis with breaks that belong to the interval above them."""
    if axis.breaks is None or not axis.closed_above:
        return axis
    return replace(axis, breaks=np.nextafter(axis.breaks, np.inf), closed_above=False)


def merge(terms: Sequence[PiecewiseSum]) -> list[PiecewiseSum]:
    """Return the terms, with curves of one column, and effects of the same levels, added up."""
    groups: dict[Any, list[PiecewiseSum]] = {}
    for k, (axes, coef) in enumerate(terms):
        key: Any = k
        if len(axes) == 1 and axes[0].breaks is None:
            key = (axes[0].column, axes[0].levels)
        elif len(axes) == 1 and coef.shape[1] <= MERGED_POWERS:
            key = axes[0].column
        groups.setdefault(key, []).append(PiecewiseSum(axes, coef))
    return [merged for group in groups.values() for merged in _merge_group(group)]


def _merge_group(group: list[PiecewiseSum]) -> list[PiecewiseSum]:
    axes, coef = group[0]
    if len(group) == 1:
        return group
    if axes[0].breaks is None:
        return [PiecewiseSum(axes, sum((other for _, other in group[1:]), coef))]
    breaks = np.unique(np.concatenate([a.breaks for (a,), _ in group]))
    left = breaks[:1] if len(breaks) else axes[0].origin[:1]
    left = np.concatenate([left, breaks])
    with np.errstate(over="ignore"):
        width = np.diff(breaks)
    bent = [(a, c) for (a,), c in group if c.shape[1] > 1]
    if not np.all(np.isfinite(width)):
        return group
    lowest, highest = (max((a.width[i] for a, _ in bent), default=1.0) for i in (0, -2))
    width = np.concatenate([[lowest], width, [highest]]) if len(breaks) else np.array([lowest])
    total = np.zeros((len(left) + 1, max(c.shape[1] for _, c in group), coef.shape[2]))
    for (axis,), own in group:
        of_piece = np.searchsorted(np.asarray(axis.breaks), left, side="right")
        of_piece[0] = 0
        total[:-1, : own.shape[1]] += _moved(axis, own, of_piece, left, width)
        total[-1, 0] += own[-1, 0]
    merged = replace(
        axes[0],
        breaks=breaks,
        origin=np.append(left, 0.0),
        width=np.append(width, 1.0),
        blocks=np.empty((len(total), total.shape[1], 0)),
    )
    return [PiecewiseSum((merged,), total)]


def _moved(
    axis: Axis, coef: Floats, piece: NDArray[np.intp], origin: Floats, width: Floats
) -> Floats:
    """Return the polynomials in t = (x - axis.origin) / axis.width as polynomials in new units.

    The new variable is s = (x - origin) / width.
    """
    a = ((origin - axis.origin[piece]) / axis.width[piece])[:, None]  # t = a + b s
    b = (width / axis.width[piece])[:, None]
    own, out = coef[piece], np.zeros((len(piece), *coef.shape[1:]))
    powers = coef.shape[1]
    for k in range(powers):
        for j in reversed(range(k, powers)):
            out[:, k] = out[:, k] * a + comb(j, k) * own[:, j]
        out[:, k] *= b**k
    return out


@dataclass(frozen=True)
class PredictorColumn:
    """A column that terms read: as numbers, or as codes of levels."""

    column: str
    levels: tuple[str, ...] | None


class CompiledTerms:
    """Terms in the core, and the columns that they read."""

    def __init__(self, terms: Sequence[PiecewiseSum], facts: Mapping[str, ColumnFacts]) -> None:
        self._facts = facts
        self._sources: dict[PredictorColumn, int] = {}
        self._axes: list[_core.Axis] = []
        self._source_of: list[PredictorColumn] = []  # per axis
        self._level_axes: dict[PredictorColumn, int] = {}
        self._level_breaks: dict[tuple[PredictorColumn, bool], _core.Breaks] = {}
        self._positions: tuple[tuple[str, ...] | None, list[int]] = (None, [])
        core_terms, self._needs = [], []  # sources of each term
        for axes, exact_coef in terms:
            coef = exact_coef.copy()  # extreme widths change it
            numbers = [self._add_axis(axis, coef, i, len(axes)) for i, axis in enumerate(axes)]
            core_terms.append(_core.Term(numbers, list(coef.shape[len(axes) : -1]), coef.ravel()))
            self._needs.append([self._source_of[n] for n in numbers])
        n_outputs = terms[0].coef.shape[-1] if terms else 1
        self._core = _core.Lookup(self._axes, core_terms, n_outputs)
        self._plain = bool(terms) and all(source.levels is None for source in self._sources)
        self._last_need = {s: k for k, sources in enumerate(self._needs) for s in sources}

    # --- setting up -------------------------------------------------------------------------------

    def _add_axis(self, axis: Axis, coef: Floats, i: int, n_axes: int) -> int:
        """Return the number of an axis in the core; effects of the same levels share one.

        The axis is the i-th of n_axes axes of the term with coefficients `coef`.
        """
        levels = axis.levels if axis.breaks is None else None
        source = PredictorColumn(axis.column, levels)
        if source in self._level_axes:
            return self._level_axes[source]
        number = self._sources.setdefault(source, len(self._sources))
        breaks, origin, inverse, unseen, limits = None, NOTHING, NOTHING, -1, NO_LIMITS
        if axis.breaks is None:
            self._level_axes[source] = len(self._axes)
            unseen = len(axis.levels) + 1 if axis.levels else -1
        else:
            n = len(axis.breaks) + 1
            breaks = _core.Breaks(axis.breaks, np.arange(n, dtype=np.int32), n)
            if source not in self._source_of:  # rows are counted once per column
                limits = far_limits(self._facts[axis.column])
            if coef.shape[n_axes + i] > 1:
                origin, inverse = _units(axis, np.moveaxis(coef, (i, n_axes + i), (0, 1)))
        n_pieces = axis.n_pieces
        self._axes.append(_core.Axis(number, breaks, origin, inverse, n_pieces, unseen, limits))
        self._source_of.append(source)
        return len(self._axes) - 1

    # --- rows -------------------------------------------------------------------------------------

    def run(self, table: Table, effects: Floats, add: bool, n_threads: int) -> Findings:
        """Add the effects of all terms to (1, n, q), or write them to (terms, n, q)."""
        found = Findings()
        array = table.array() if self._plain else None
        if array is not None:
            columns = self._columns(table)
            noticed = self._core.run_array(array, columns, effects, add, n_threads)
            self._record(noticed, found, table)
            return found
        inputs: list[Any] = [None] * len(self._sources)
        copies: set[PredictorColumn] = set()  # inputs that are not memory of the table
        first = 0  # the first term that has not been evaluated
        for k, needs in enumerate(self._needs):
            for source in needs:
                if inputs[self._sources[source]] is None:
                    inputs[self._sources[source]], is_copy = self._read(source, table)
                    if is_copy:
                        copies.add(source)
            unneeded = [source for source in copies if self._last_need[source] == k]
            if k + 1 == len(self._needs) or (unneeded and table.n_rows > HELD_ROWS):
                part = effects if add else effects[first : k + 1]
                noticed = self._core.run(inputs, first, k + 1, part, add, n_threads)
                self._record(noticed, found, table)
                first = k + 1
                for source in unneeded:
                    inputs[self._sources[source]] = None
                copies -= set(unneeded)
        return found

    def _columns(self, table: Table) -> list[int]:
        """Return the positions of the sources in a table that is an array."""
        names, found = self._positions
        if names != table.names:
            place = {name: j for j, name in enumerate(table.names)}
            for source in self._sources:
                if source.column not in place:
                    table.column(source.column)  # raises, and says what the table has
            found = [place[source.column] for source in self._sources]
            self._positions = (table.names, found)
        return found

    def _record(self, noticed: tuple[int, int, list[int]], found: Findings, table: Table) -> None:
        """Add to the findings what the core noticed; raise if a number is infinite.

        The core returns the source of an infinite number, the first row whose score is not a
        number (-1 if there is none), and for every axis the number of rows with unseen levels, or
        far outside the training range.
        """
        infinite, found.not_a_number, outside = noticed
        if infinite >= 0:
            table.column(list(self._sources)[infinite].column)  # raises, and says where
        for source, n in zip(self._source_of, outside, strict=True):
            if n:
                (found.beyond if source.levels is None else found.unseen)[source.column] = n

    def _read(self, source: PredictorColumn, table: Table) -> tuple[Any, bool]:
        """Return a column as the core takes it, and whether that is new memory."""
        facts = self._facts[source.column]
        if source.levels is None:
            numbers = table.numbers(source.column)
            if numbers is not None:
                return numbers, numbers.flags.owndata
            column = table.column(source.column)
            check_unit(column, facts)
            return numbers_of(column, ADVICE_PREDICT), True
        if facts.kind == "numbers" and not facts.boolean:
            numbers = table.numbers(source.column)
            if numbers is not None and numbers.dtype.kind == "f":
                return (numbers, self._breaks(source, False)), numbers.flags.owndata
        column = table.column(source.column)
        check_unit(column, facts)
        if isinstance(column, Labels):
            return (column.codes, _pieces_of_levels(source.levels, column)), True
        boolean = column.boolean or (facts.boolean and only_booleans(column))
        if source.levels and not (boolean or column.exact):
            column.labels()  # raises
        return (column.values, self._breaks(source, boolean)), True

    def _breaks(self, source: PredictorColumn, boolean: bool) -> _core.Breaks:
        """Return what finds the levels among numbers."""
        if (source, boolean) not in self._level_breaks:
            assert source.levels is not None
            self._level_breaks[source, boolean] = _breaks_of_levels(source.levels, boolean)
        return self._level_breaks[source, boolean]


def _units(axis: Axis, by_power: Floats) -> tuple[Floats, Floats]:
    """Return origin and 1 / width of every piece, zeros where the effect is constant.

    A constant then holds for numbers of any size. Where 1 / width is too large for a float, the
    coefficients `by_power` (pieces, powers, ...) are changed in its place.
    """
    with np.errstate(over="ignore", divide="ignore"):
        inverse = np.minimum(1.0 / axis.width, MAX_INVERSE)
    for piece in np.flatnonzero(inverse == MAX_INVERSE):
        for j in range(by_power.shape[1]):
            by_power[piece, j] /= (inverse[piece] * axis.width[piece]) ** j
    bent = by_power[:, 1:].reshape(axis.n_pieces, -1).any(axis=1)
    return np.where(bent, axis.origin, 0.0), np.where(bent, inverse, 0.0)


def _pieces_of_levels(levels: tuple[str, ...], column: Labels) -> NDArray[np.int32]:
    """Return the piece of every code, the one of missing cells first."""
    n = len(levels)
    found = map(level_finder(levels), column.levels)
    return np.array([n, *(n + 1 if i is None else i for i in found)], dtype=np.int32)


def _breaks_of_levels(levels: tuple[str, ...], boolean: bool) -> _core.Breaks:
    """Return intervals that hold one level each; all other intervals are unseen."""
    n = len(levels)
    piece: dict[float, int] = {}
    for number_of in (BOOLEANS.get,) if boolean else (_number, BOOLEANS.get):
        for i, level in enumerate(levels):
            number = number_of(level)
            if number is not None:
                piece.setdefault(number, i)
    inside = np.array(sorted(piece))
    breaks = np.unique(np.concatenate([inside, np.nextafter(inside, np.inf)]))
    breaks = breaks[np.isfinite(breaks)]
    pieces = [n + 1, *(piece.get(float(b), n + 1) for b in breaks)]
    return _core.Breaks(breaks, np.array(pieces, dtype=np.int32), n)


def _number(level: str) -> float | None:
    """Return the number that is written as this level; None if the level is not a number."""
    try:
        number = float(level)
    except ValueError:
        return None
    return number if np.isfinite(number) and format_number(number) == level else None
