"""The rows of a fit that are in one place: a shard of them.

Knows how to read, describe, bin and weigh its rows and to run the engine's verbs on them. Knows
nothing of other shards, or of who asks: what it answers are sums, counts and, where bins must be
found, a few of the distinct values of a column; never its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.binning.index_sets import IndexSet, cells, pair_in
from cwboost.binning.min_rows import Coder, count_rows
from cwboost.binning.moments import MomentPieces, MomentSet
from cwboost.binning.rules import AUTO_POINTS, Points
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.binning.weights import RowWeights, as_numbers, as_part, ones
from cwboost.fitting.index_sets import core_set
from cwboost.fitting.input_data import FitInput, column_of, read_offset, read_weights, read_y
from cwboost.frames.chunks import Chunk, UnifiedColumn, gather
from cwboost.frames.columns import Column, Floats, Labels, Numbers
from cwboost.frames.reading import read, read_chunk
from cwboost.frames.table import ComputedColumns, Table, check_finite
from cwboost.losses import Loss
from cwboost.terms.bases import BasisRows

TRAINING = _core.TRAINING_PART
SOME = 64  # numbers that are looked for elsewhere
TARGET = "\0 y - offset"  # asked for as if it were a column
ROLES = ("y", "weights", "offset", "exposure", "validation")


@dataclass(frozen=True)
class Partition:
    """Some rows as they came: a table, and what was given beside it."""

    number: int  # in the order of all rows
    table: Any
    beside: dict[str, Any]  # y, weights, ... that are arrays
    held: bool = False  # of a validation table

    def __str__(self) -> str:
        return f"partition {self.number}" + " of the validation table" * self.held


class ReadOptions(NamedTuple):
    """How the rows are read."""

    loss: Loss
    classes: tuple[Any, ...] | None
    named: dict[str, str]  # roles that are columns
    weighted: bool
    needs_offset: bool  # training rows have one beside the table

    @classmethod
    def of(cls, given: FitInput, loss: Loss, class_weight: Any = None) -> ReadOptions:
        """As the rows are given; classes are not known yet."""
        named = {role: name for role in ROLES if (name := given.column(role)) is not None}
        weighted = given.weights is not None or class_weight is not None
        return cls(loss, None, named, weighted, given.has_offset_arrays)


class ValueCounts(NamedTuple):
    """The distinct numbers of a column, where they are few."""

    values: Floats
    weights: Floats  # of the training rows that have them
    training: NDArray[np.int64]  # number of these rows
    everywhere: NDArray[np.int64]  # number of all rows that have them


class ShardColumnSummary(NamedTuple):
    """What a shard has in a column."""

    piece: Chunk  # without rows; of text with all values
    where: str  # in words
    missing: int  # training rows
    any_missing: int  # all rows
    met: NDArray[np.bool_] | None = None  # of text, which values training rows have
    low: float = np.inf  # of the training rows; above `high`: there are none
    high: float = -np.inf
    least: float = np.inf  # of all rows
    largest: float = -np.inf
    few: ValueCounts | None = None


# --- how a column is binned -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PointBinning:
    """Numbers go to their nearest points; those outside have some of their own."""

    column: str
    points: Points
    extra: Floats
    seen: ColumnSummary

    def bins(self, table: Table) -> IndexSet:
        column = table[self.column]
        assert isinstance(column, Numbers)
        return self.points.place(column.values, self.seen, self.extra, ArrayPool())


@dataclass(frozen=True, eq=False)
class CodeBinning:
    """Steps and levels."""

    column: str
    encoder: Coder
    values: Floats  # all that occur, or those that have bins
    seen: ColumnSummary
    other: int = 0  # the bin of those that have none

    def bins(self, table: Table) -> IndexSet:
        return self.encoder.coded(table[self.column], self.seen).bins(self.values, self.other)


@dataclass(frozen=True, eq=False)
class PieceBinning:
    """Moments instead of bins."""

    column: str
    pieces: MomentPieces

    def bins(self, table: Table) -> MomentSet:
        column = table[self.column]
        assert isinstance(column, Numbers)
        return self.pieces.place(column.values, ArrayPool())


@dataclass(frozen=True, eq=False)
class PairBinning:
    """Joint bins of two columns."""

    a: PointBinning | CodeBinning
    b: PointBinning | CodeBinning
    cells: NDArray[np.int64]

    def bins(self, table: Table) -> IndexSet:
        return pair_in(self.a.bins(table), self.b.bins(table), self.cells)


ShardBinning = PointBinning | CodeBinning | PieceBinning | PairBinning


# --- the shard ------------------------------------------------------------------------------------


class SortedColumn(NamedTuple):
    """The numbers that training rows have in a column, increasing, and the weight up to each."""

    values: Floats
    reached: Floats

    def up_to(self, ends: Floats) -> tuple[Floats, Floats]:
        """Rows and weight up to each of some numbers."""
        n = np.searchsorted(self.values, ends, side="right")
        return n.astype(np.float64), np.append(self.reached, 0.0)[n - 1]

    def between(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Numbers above low and up to high, their weights, and the next number above each high."""
        begin, end = (np.searchsorted(self.values, x, side="right") for x in (low, high))
        found = [self._distinct(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        values, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return values, weights, np.append(self.values, np.inf)[end]

    def _distinct(self, begin: int, end: int) -> tuple[Floats, Floats]:
        """The numbers of some rows, and their weights."""
        if begin < end and self.values[begin] == self.values[end - 1]:  # maybe in very many rows
            last = np.array([end - 1])
        else:
            last = begin + np.flatnonzero(np.diff(self.values[begin:end], append=np.inf))
        before = self.reached[begin - 1] if begin else 0.0
        return self.values[last], np.diff(self.reached[last], prepend=before)


class Shard:
    """Rows of some partitions, in the order of their numbers."""

    def __init__(self, partitions: Sequence[Partition], n_threads: int) -> None:
        self.partitions = sorted(partitions, key=lambda p: (p.held, p.number))
        self.n_threads = n_threads
        self.tables = [read(p.table) for p in self.partitions]
        self.sets: list[IndexSet | MomentSet] = []
        self._sorted: tuple[Any, SortedColumn] | None = None

    # --- reading ----------------------------------------------------------------------------------

    def names(self) -> list[tuple[int, bool, tuple[str, ...], int]]:
        """Number, whether it is held, names of the columns and rows of every partition."""
        parts = zip(self.partitions, self.tables, strict=True)
        return [(p.number, p.held, t.names, t.n_rows) for p, t in parts]

    def classes(self, reading: ReadOptions) -> list[tuple[Chunk, str]]:
        """What y may be, of every partition: its values, and no rows."""
        out = []
        parts = zip(self.partitions, self.tables, strict=True)
        for part, table in ((p, t) for p, t in parts if not p.held):
            with _in(part):
                given, *_ = _present(part, table, reading)
                y = given.y
                piece = read(given.table).chunk(y) if isinstance(y, str) else read_chunk(y, "y")
                out.append((_values_of(piece), str(part)))
        return out

    def read(self, reading: ReadOptions) -> list[list[int]]:
        """Reads what is beside the columns; of every partition the number of rows that have a
        weight, by class (without classes: one number)."""
        self.reading, self.loss = reading, reading.loss
        own = (part.beside for part in self.partitions if part.held)
        self.weighted = reading.weighted or any("weights" in beside for beside in own)
        parts = zip(self.partitions, self.tables, strict=True)
        self.kept, ys, *others = zip(*(self._read_part(p, t) for p, t in parts), strict=True)
        self.y, self.weights, self.offset = (np.concatenate(x) for x in (ys, *others))
        self.n_rows = len(self.y)
        if not self.weighted:
            self.weights = ones(self.n_rows)  # these two take no memory then
        if not self.offset.any():
            self.offset = np.broadcast_to(np.zeros(1), self.offset.shape)
        self.begin = np.cumsum([0, *map(len, ys)])
        # "All rows", where terms are chosen, are those of the table; a validation table's are last.
        self.n_own = int(self.begin[sum(not part.held for part in self.partitions)])
        self.table = self._joined()
        kinds = None if reading.classes is None else self._class_values()
        return [
            [len(y)] if kinds is None else [int(np.count_nonzero(y == c)) for c in kinds]
            for y in ys
        ]

    def present(self, weights: str | None) -> int:
        """Rows that have a weight, validation tables left out."""
        total = 0
        for part, table in zip(self.partitions, self.tables, strict=True):
            if not part.held:
                given = weights or part.beside.get("weights")
                with _in(part):
                    total += int(np.count_nonzero(read_weights(given, table)))
        return total

    def class_weights(self) -> Floats:
        """The weight of the rows of every class, validation tables left out."""
        y, w = self.y[: self.n_own], self.weights[: self.n_own]
        return np.array([float(w[y == kind].sum()) for kind in self._class_values()])

    def reweigh(self, of_class: Floats) -> None:
        """Multiplies the weights of rows with those of their classes."""
        self.weights = self.weights * of_class[np.searchsorted(self._class_values(), self.y)]

    def _class_values(self) -> list[float]:
        return list(map(float, self.loss.class_values(len(self.reading.classes or ()))))

    def _read_part(self, part: Partition, table: Table) -> Any:
        """Which rows have a weight, and their y, weights and offset."""
        loss, classes = self.reading.loss, self.reading.classes
        with _in(part):
            given, w, present = _present(part, table, self.reading)
            rows = slice(None) if present is None else present
            if len(w) == 0:
                return rows, np.empty(0), w, np.empty((0, loss.n_outputs))
            table = read(given.table)
            y, _ = read_y(given.y, table, loss, classes)
            offset = read_offset(table, given.offset, given.exposure, loss, loss.n_outputs)
            return rows, y, w, offset

    def _joined(self) -> Table:
        """All rows as one table, whose columns are put together when they are asked for."""
        return Table(
            self.tables[0].names,
            self.n_rows,
            ComputedColumns(self._gathered, reread=True),
            where=self._where,
        )

    def _gathered(self, name: str, unified: UnifiedColumn | None = None) -> Column:
        return gather(name, self.n_rows, self._pieces(name), unified)

    def _pieces(self, name: str) -> Iterator[tuple[Chunk, str]]:
        for part, table, rows in zip(self.partitions, self.tables, self.kept, strict=True):
            with _in(part):
                piece = table.chunk(name).take(rows)
            yield piece, str(part)

    def _where(self, row: int) -> str:
        k = int(np.searchsorted(self.begin, row, side="right")) - 1
        kept, within = self.kept[k], row - int(self.begin[k])
        within = within if isinstance(kept, slice) else int(np.flatnonzero(kept)[within])
        return f"{within} of {self.partitions[k]}"

    def validation(self, named: str | None) -> Any:
        """Weights that a column, or arrays beside the table, hold out; whether they are marks."""
        marks, out = True, []
        for part, table, rows in zip(self.partitions, self.tables, self.kept, strict=True):
            with _in(part):
                column = column_of(named or part.beside["validation"], "validation", table)
                marks = marks and (table.n_rows == 0 or bool(getattr(column, "boolean", False)))
                out.append(read_weights(column, table, "validation")[rows])
        self._validation = np.concatenate(out)
        return marks, float(self._validation.sum())

    def split(self, how: str, drawn: Sequence[Sequence[NDArray[np.int64]]] | None = None) -> Any:
        """Sets the parts. `how`: "none"; "drawn": rows by their place among those of a class, per
        partition; "marks" or "weights" that `validation` read; "held": those of the validation
        table. Answers the number of training rows and the weights of the parts."""
        self.training = ~self._held(how, drawn)
        w, plain, by_weights = self.weights, not self.weighted, how == "weights"
        watched: RowWeights = ~self.training
        if by_weights:
            watched = self._validation
        elif self.weighted:
            watched = np.where(self.training, 0.0, w)
        training: RowWeights = self.training if plain else np.where(self.training, w, 0.0)
        together = ones(self.n_rows)
        if self.weighted or by_weights:
            together = np.where(self.training, w, watched)
        self.parts = [training, training if how == "none" else watched, together]
        marks = None if self.training.all() else self.training
        n_training = int(np.count_nonzero(self.training))
        self.sample = Sample(marks, None if plain else w, n_training)
        return n_training, [float(np.sum(part)) for part in self.parts]

    def _held(
        self, how: str, drawn: Sequence[Sequence[NDArray[np.int64]]] | None
    ) -> NDArray[np.bool_]:
        """Marks the rows that are held out; as `split`."""
        if how in ("marks", "weights"):
            return np.asarray(self._validation > 0)
        held = np.zeros(self.n_rows, bool)
        kinds: list[Any] = [None] if self.reading.classes is None else self._class_values()
        for k, (begin, end) in enumerate(pairwise(self.begin)):
            held[begin:end] = how == "held" and self.partitions[k].held
            for kind, places in zip(kinds, drawn[k], strict=True) if drawn else ():
                same = self.y[begin:end] == kind
                held[begin + (places if kind is None else np.flatnonzero(same)[places])] = True
        return held

    # --- y ----------------------------------------------------------------------------------------

    @cached_property
    def _target(self) -> tuple[Floats, Floats, Floats]:
        rows, (training, *_) = self.training, self.parts
        w = np.ascontiguousarray(training[rows], dtype=np.float64)
        return self.y[rows], w, self.offset[rows]

    def total(self, of: Callable[[Floats, Floats, Floats], Any]) -> Any:
        """Sums over the training rows."""
        return of(*self._target)

    def offsets(self) -> tuple[bool, float]:
        """Whether there are any, and the largest of the training rows."""
        offset = self._target[2]
        return bool(offset.any()), float(offset.max(initial=-np.inf))

    def whole(self) -> tuple[Floats, Floats, Floats]:
        """y, weights and offsets of the training rows themselves: for losses that people wrote."""
        return self._target

    # --- columns ----------------------------------------------------------------------------------

    def describe(self, names: Sequence[str]) -> list[ShardColumnSummary]:
        return [self._described(name) for name in names]

    def _described(self, name: str) -> ShardColumnSummary:
        where = ", ".join(str(p.number) for p in self.partitions[:5])
        where = f"partitions {where}" + ", ..." * (len(self.partitions) > 5)
        if name == TARGET:
            return self._numbers_described(Numbers(name, self._numbers(name)), "numbers", where)
        unified = UnifiedColumn(name)
        column = self._gathered(name, unified)
        if isinstance(column, Numbers):
            return self._numbers_described(column, unified.kind, where)
        of_value = unified.finish()
        assert isinstance(of_value, Labels)
        met = np.isin(of_value.codes, column.codes_of(self.sample.marks))
        piece = Chunk("text", np.arange(len(met)), unified.values, unified.order)
        missing, everywhere = (int(np.sum(column.missing[rows])) for rows in (self.training, ...))
        return ShardColumnSummary(piece, where, missing, everywhere, met)

    def _numbers_described(self, column: Numbers, sort: str, where: str) -> ShardColumnSummary:
        values = column.values
        low, high, missing, everywhere, _, infinite = _core.survey(values, self.sample.marks)
        if infinite:
            check_finite(column, self.table)
        least, largest = _core.survey(values, None)[:2]
        own = values[: self.n_own]
        distinct = _core.distinct(own, None, AUTO_POINTS)
        few = None if distinct is None else self._counted(own, distinct)
        piece = Chunk(sort, np.empty(0), exact=column.exact)
        return ShardColumnSummary(
            piece, where, missing, everywhere, None, low, high, least, largest, few
        )

    def _counted(self, values: Floats, distinct: Floats) -> ValueCounts:
        known = ~np.isnan(values)
        code, n = np.searchsorted(distinct, values[known]), len(distinct)
        rows, w = (x[: self.n_own][known] for x in (self.training, self.parts[TRAINING]))
        return ValueCounts(
            distinct,
            np.bincount(code, w, minlength=n).astype(np.float64),
            np.bincount(code[rows], minlength=n),
            np.bincount(code, minlength=n),
        )

    def _numbers(self, name: str) -> Floats:
        if name == TARGET:
            return np.asarray(self.y - self.offset[:, 0])
        column = self.table.unchecked(name)
        assert isinstance(column, Numbers)
        return column.values

    def sorted(self, name: str) -> SortedColumn:
        """Kept until another column is asked for."""
        if self._sorted is None or self._sorted[0] != name:
            values = self._numbers(name)
            rows = self.training & ~np.isnan(values)
            values = values[rows] + 0.0
            order = np.argsort(values, kind="stable")
            w = self.parts[TRAINING][rows].astype(np.float64)
            self._sorted = name, SortedColumn(values[order], np.cumsum(w[order]))
        return self._sorted[1]

    def up_to(self, name: str, ends: Floats) -> NDArray[np.float64]:
        """(2, n) rows and weight of the training rows up to each of some numbers."""
        return np.stack(self.sorted(name).up_to(ends))

    def between(self, name: str, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        return self.sorted(name).between(low, high)

    def distinct(self, name: str, limit: int, everywhere: bool) -> Floats | None:
        values, marks = self._numbers(name), self.sample.marks
        if everywhere:
            return _core.distinct(values[: self.n_own], None, limit)
        return _core.distinct(values, marks, limit)

    def sums(self, name: str) -> NDArray[np.float64]:
        """Weight of the known training cells of a column, and their weighted sum."""
        values, weights = self.sample.known(self._numbers(name))
        return np.array([weights.sum(), weights @ values])

    def count(self, name: str, values: Floats) -> NDArray[np.int64]:
        """Rows that have each of some increasing values, and at the end known rows."""
        column = self._numbers(name)[: self.n_own]
        code = np.searchsorted(values, column)
        hit = np.append(values, np.nan)[code] == column
        counts = np.bincount(code[hit], minlength=len(values))
        return np.append(counts, np.count_nonzero(~np.isnan(column)))

    def median(self, name: str) -> float | None:
        """Of all rows; None: there is none."""
        values = self._numbers(name)[: self.n_own]
        if np.isnan(values).all():
            return None
        return float(_core.quantiles(values, None, None, np.array([0.5]))[0])

    def counting(self, name: str) -> tuple[bool, float, float, Floats]:
        """Whether every row has another whole number, the range, and some of them."""
        values = self._numbers(name)[: self.n_own]
        if np.isnan(values).any() or np.any(values != np.round(values)):
            return False, 0.0, 0.0, values[:0]
        each = len(np.unique(values)) == len(values)
        low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
        return each, low, high, values[:SOME]

    # --- bins -------------------------------------------------------------------------------------

    def outside(self, name: str, points: Points, seen: ColumnSummary) -> Floats:
        return points.outside(self._numbers(name), seen)

    def occurring(self, name: str, encoder: Coder, seen: ColumnSummary) -> Floats:
        return encoder.coded(self.table[name], seen).occurring()

    def cells(self, a: Any, b: Any) -> NDArray[np.int64]:
        return cells(a.bins(self.table), b.bins(self.table))

    def bin(self, recipes: Sequence[ShardBinning]) -> list[Floats]:
        """Bins the rows once more in each of some ways; weights of these bins."""
        first = len(self.sets)
        self.sets += [recipe.bins(self.table) for recipe in recipes]
        return self._weights(self.sets[first:], TRAINING)

    def weigh(self, part: int) -> list[Floats]:
        """Weights of all bins of all sets."""
        return self._weights(self.sets, part)

    def _weights(self, sets: Sequence[IndexSet | MomentSet], part: int) -> list[Floats]:
        weights = as_numbers(self.parts[part])
        return [s.weigh(weights, ArrayPool()) for s in sets]

    def counts(self, recipe: PointBinning | CodeBinning) -> NDArray[Any]:
        """(2, bins) rows in each bin of a way to bin them: of all rows, and of training rows."""
        return count_rows(recipe.bins(self.table), self.training)

    # --- the engine -------------------------------------------------------------------------------

    def begin_rows(self, bases: Sequence[tuple[BasisRows, int]]) -> None:
        """Makes the rows that verbs are for; bases for cross-Grams."""
        self._sorted = None
        self.__dict__.pop("_target", None)  # the start is known
        self.bases = [_core.Basis(*rows, n_coef) for rows, n_coef in bases]
        y, sets, parts = self.y, self.sets, self.parts
        if not self.n_rows:  # the engine needs a row, which weighs nothing
            y, sets, parts = np.ones(1), [_one_row(s) for s in sets], [np.zeros(1)] * len(parts)
        self.rows = _core.LocalRows(
            self.loss.core(y),
            np.ascontiguousarray(y),
            np.ascontiguousarray(self.offset.T) if self.offset.any() else None,
            [core_set(s) for s in sets],
            [np.ascontiguousarray(as_part(w)) for w in parts],
            self.n_threads,
        )

    def run(self, batch: Sequence[Any]) -> list[_core.Reply]:
        return self.rows.run([self._own(verb) for verb in batch])

    def _own(self, verb: Any) -> Any:
        """A cross-Gram is asked for by the numbers of its bases."""
        if not isinstance(verb, CrossRequest):
            return verb
        pairs = [(a, b, self.bases[x], self.bases[y]) for a, b, x, y in verb.pairs]
        return _core.Cross(pairs, verb.part)

    def replay(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        """All that was told before, to a shard that begins anew."""
        for method, arguments in calls:
            getattr(self, method)(*arguments)


class CrossRequest(NamedTuple):
    """The verb Cross, for rows elsewhere: two sets and the numbers of two bases per pair."""

    pairs: list[tuple[int, int, int, int]]
    part: int


def _present(
    part: Partition, table: Table, reading: ReadOptions
) -> tuple[FitInput, Floats, NDArray[np.bool_] | None]:
    """What rows of a partition say that have a weight; these weights, and marks of them.

    An offset that the validation table has replaces that of the columns that were named.
    """
    own = {**reading.named, **part.beside}
    if part.held:
        if "offset" in part.beside:
            own.pop("exposure", None)
        elif reading.needs_offset:
            raise ValueError(
                "the rows of the fit have an offset or exposure, these have none; pass "
                "(table, y, weights, offset)"
            )
    y, weights, offset, exposure = (own.get(role) for role in ROLES if role != "validation")
    given = FitInput(table, y, weights, offset, exposure)
    w = read_weights(given.weights, table)
    return (given, w, None) if part.held else given.of_weight(table, w)


def _one_row(bins: IndexSet | MomentSet) -> IndexSet | MomentSet:
    """Some row in the first of the bins."""
    if isinstance(bins, MomentSet):
        return replace(bins, piece=np.zeros(1, bins.piece.dtype), t=np.zeros(1))
    return replace(bins, index=np.zeros(1, bins.index.dtype))


def _values_of(piece: Chunk) -> Chunk:
    """A piece that has every value once."""
    if piece.kind != "text":
        return piece._replace(cells=np.unique(piece.cells[~np.isnan(piece.cells)]))
    used = np.unique(piece.cells[piece.cells >= 0])
    return piece._replace(cells=np.arange(len(used)), values=[piece.values[c] for c in used])


@contextmanager
def _in(part: Partition) -> Iterator[None]:
    """Errors say in which partition they are."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise type(error)(f"{part}: {error}") from None
