"""Rows in many places, behind the same names as rows in one: a fit that only sums leave.

Knows which questions a fit has for its rows and how the answers of several shards become one: a
table whose columns describe themselves, bins that all shards share, rows whose replies are sums.
Knows nothing of how shards are reached; `cwboost.dask` does.

Exact quantiles of numbers elsewhere: the weight up to some numbers is asked for, interval by
interval, until those that hold a wanted rank have few rows; only these are told. The rest stands
for itself by its weight, so that the code that finds quantiles of rows in memory finds the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

from . import _core
from .bases import Basis
from .binned import Binned
from .bins import (
    AUTO_POINTS,
    Bins,
    Cuts,
    Elsewhere,
    IndexSet,
    Least,
    Levels,
    Points,
    Sample,
    Seen,
    Values,
    pair_values,
    quantiles,
)
from .checkpoint import Checkpoint
from .checks import is_number, threads_for
from .data import Given, Split
from .design import (
    MAX_TENSOR_BINS,
    Axis,
    Plan,
    Sets,
    axes_of,
    basis_rows,
    check_learners,
    core_rows,
    fine_points,
    look_at,
    plan_terms,
)
from .fit import (
    ALL,
    SLOT_F,
    TRAINING,
    VALIDATION,
    Begin,
    How,
    run_stages,
    settings_of,
)
from .formula import is_formula, parse, target_of, tokenize
from .interactions import Pairs, check_pairs
from .losses import Loss, TargetRows
from .memory import Room
from .model import SPREAD_RANKS, Model, Settings, Spread
from .moments import MomentSet, Pieces, are_cubics, most_bins
from .progress import Progress
from .shard import (
    TARGET,
    ByCode,
    ByPair,
    ByPieces,
    ByPoints,
    Counted,
    CrossOf,
    Described,
    Reading,
    Recipe,
)
from .smoothing import System
from .table import Codes, Column, Floats, Labels, Numbers, Table, format_number
from .terms import make_learners
from .unify import Unified

PARTS_OF_INTERVAL = 64
FEW_ROWS = 64  # of an interval that are told
NEAR = 1e-9  # ranks closer than this share of the weight are resolved together
REMEMBERED = 3  # iterations whose bin sums are asked for before the engine does
STATE = (_core.Fill, _core.Residual, _core.MeanResidual, _core.Add, _core.Mix)


class Shards(ABC):
    """All shards of a fit, and what they have been told, for those that must begin anew."""

    def __init__(self) -> None:
        self._told: list[tuple[str, list[tuple[Any, ...]]]] = []
        self._batches: list[list[Any]] = []  # verbs since all slots began anew

    @property
    @abstractmethod
    def n_shards(self) -> int: ...

    @abstractmethod
    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method of every shard with its arguments."""

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """A question that changes nothing."""
        return self.call(method, [arguments] * self.n_shards)

    def tell(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Something that shards remember; `each`: a last argument of their own."""
        given = [arguments] * self.n_shards if each is None else [(*arguments, x) for x in each]
        replies = self.call(method, given)
        self._told.append((method, given))
        return replies

    def run(self, batch: Sequence[Any]) -> list[list[_core.Reply]]:
        """Verbs; replies shard by shard."""
        replies = self.call("run", [(batch,)] * self.n_shards)
        lasting = [verb for verb in batch if isinstance(verb, STATE)]
        if lasting:
            if isinstance(batch[0], _core.Fill) and batch[0].out == SLOT_F:
                self._batches.clear()  # whatever slots held before, nobody will ask for
            self._batches.append(lasting)
        return replies

    def history(self, number: int) -> list[tuple[str, tuple[Any, ...]]]:
        """All calls that make a shard what it is."""
        told = [(method, given[number]) for method, given in self._told]
        return [*told, *(("run", (batch,)) for batch in self._batches)]

    def total(self, method: str, *arguments: Any) -> Any:
        """Sum of the answers to a question."""
        return reduce(add, self.ask(method, *arguments))


# --- columns --------------------------------------------------------------------------------------


def _merged(found: Sequence[Described]) -> Counted | None:
    """The distinct numbers of all shards; None: there are many."""
    few = [d.few for d in found if d.few is not None]
    if len(few) < len(found):
        return None
    values, code = np.unique(np.concatenate([c.values for c in few]), return_inverse=True)
    _, *counts = (np.concatenate(parts) for parts in zip(*few, strict=True))
    sums: list[Any] = [np.bincount(code, c, minlength=len(values)) for c in counts]
    return Counted(values, *sums)


class FarNumbers(Elsewhere):
    """The numbers that shards have in a column, or as y - offset."""

    def __init__(self, name: str, shards: Shards, n_rows: int, found: Sequence[Described]) -> None:
        self.name, self.shards, self.n_rows = name, shards, n_rows
        self._found, self._few = found, _merged(found)

    def __len__(self) -> int:
        return self.n_rows

    def survey(self) -> tuple[float, float, int, int, bool, bool]:
        low, high = min(d.low for d in self._found), max(d.high for d in self._found)
        least, largest = self.ends
        missing = sum(d.missing for d in self._found)
        everywhere = sum(d.any_missing for d in self._found)
        beyond = low <= high and (least < low or largest > high)
        return low, high, missing, everywhere, bool(beyond), False

    @property
    def ends(self) -> tuple[float, float]:
        """Of all rows."""
        return min(d.least for d in self._found), max(d.largest for d in self._found)

    def distinct(self, limit: int, everywhere: bool) -> Floats | None:
        if self._few is not None:
            values = self._few.values if everywhere else self._of_few[0]
            return values if len(values) <= limit else None
        if everywhere and limit <= AUTO_POINTS:
            return None
        found = self.shards.ask("distinct", self.name, limit, everywhere)
        if any(values is None for values in found):
            return None
        values = np.unique(np.concatenate(found))
        return values if len(values) <= limit else None

    def mean(self) -> float:
        weight, total = self.shards.total("sums", self.name)
        return float(total / weight)

    def mostly_one(self) -> bool:
        if self._few is not None:
            counts = self._few.everywhere
            return bool(2 * counts.max(initial=0) > counts.sum())
        medians = [m for m in self.shards.ask("median", self.name) if m is not None]
        candidates = np.unique(medians)  # whoever has more than half has it in some shard
        *counts, known = self.shards.total("count", self.name, candidates)
        return bool(2 * max(counts, default=0) > known)

    def counts_rows(self) -> bool:
        each, low, high, some = zip(*self.shards.ask("counting", self.name), strict=True)
        if not all(each) or not max(high) - min(low) < 2 * self.n_rows:
            return False
        values = np.unique(np.concatenate(some))
        *counts, _ = self.shards.total("count", self.name, values)
        return bool(max(counts) == 1)  # one shard's numbers are no other's

    # --- ranks ------------------------------------------------------------------------------------

    def outline(self, shares: Floats) -> tuple[Floats, Floats]:
        if self._few is not None:
            return self._of_few
        return self._resolved(np.asarray(shares) * self._weight)

    def outline_of_steps(self, n_bins: int) -> tuple[Floats, Floats]:
        if self._few is not None:
            return self._of_few
        total = self._weight
        grid = np.arange(n_bins + 1) / n_bins * total
        _, w = self._resolved(grid)
        atom = w >= (1.0 - 1e-12) / n_bins * total  # what is not resolved weighs less
        after = np.cumsum(w)[atom]
        sizes = w[atom]
        before = after - sizes
        others = before - (np.cumsum(sizes) - sizes)  # weight of other values before each atom
        n_steps, rest = n_bins - len(sizes), total - sizes.sum()
        ranks = np.arange(1, n_steps) / n_steps * rest if n_steps > 1 else np.empty(0)
        shifted = [
            ranks + np.append(0.0, np.cumsum(sizes))[np.searchsorted(others, ranks, side=side)]
            for side in ("left", "right")
        ]
        return self._resolved(np.concatenate([grid, before, after, *shifted]))

    @property
    def _of_few(self) -> tuple[Floats, Floats]:
        assert self._few is not None
        inside = self._few.training > 0
        return self._few.values[inside], self._few.weights[inside]

    @cached_property
    def _weight(self) -> float:
        return float(self._up_to(np.array([np.inf]))[1, 0])

    def _up_to(self, ends: Floats) -> Any:
        return self.shards.total("up_to", self.name, ends)

    def _resolved(self, targets: Floats) -> tuple[Floats, Floats]:
        """Numbers and weights in which whatever reaches one of the targets is by itself."""
        low, high, *_ = self.survey()
        rows, total = self._up_to(np.array([np.inf]))[:, 0]
        near = NEAR * total
        wanted = np.unique(np.clip(np.concatenate([targets - near, targets + near]), 0.0, total))
        below = _key(float(np.nextafter(low, -np.inf)))
        todo, done = [Interval(below, _key(high), 0.0, rows, 0.0, total)], []
        while todo:
            inner = [_splitters(x.low, x.high) for x in todo]
            reached = self._up_to(_numbers([key for keys in inner for key in keys]))
            at, narrowed = 0, []
            for interval, keys in zip(todo, inner, strict=True):
                narrowed += interval.narrowed(keys, reached[:, at : at + len(keys)], wanted)
                at += len(keys)
            done += [x for x in narrowed if x.small]
            todo = [x for x in narrowed if not x.small]
        return self._told(sorted(done), total)

    def _told(self, intervals: Sequence[Interval], total: float) -> tuple[Floats, Floats]:
        """What the intervals hold, and between two of them all at its first number."""
        low, high = (_numbers([getattr(x, end) for x in intervals]) for end in ("low", "high"))
        before, after = np.array([(x.before, x.after) for x in intervals]).T
        found = self.shards.ask("between", self.name, low, high)
        following = np.min([a for *_, a in found], axis=0)
        rest = np.append(before[1:], total) - after  # between an interval and the next
        gap = rest > 1e-12 * total
        first = [self.survey()[0]] if before[0] > 0 else []
        values = np.concatenate([*(v for v, _, _ in found), following[gap], first])
        weights = np.concatenate([*(w for _, w, _ in found), rest[gap], before[: len(first)]])
        distinct, code = np.unique(values, return_inverse=True)
        sums: Any = np.bincount(code, weights, minlength=len(distinct))
        return distinct, sums


class Interval(NamedTuple):
    """Numbers above one key and up to another, with the rows and the weight up to either."""

    low: int
    high: int
    rows_before: float
    rows_after: float
    before: float
    after: float

    @property
    def small(self) -> bool:
        return self.rows_after - self.rows_before <= FEW_ROWS or self.high - self.low == 1

    def narrowed(self, keys: Sequence[int], reached: Floats, wanted: Floats) -> list[Interval]:
        """Its parts up to some keys that have rows and hold something wanted."""
        ends = [self.low, *keys]
        rows = [self.rows_before, *reached[0].tolist()]
        weight = np.append(self.before, reached[1])
        first = np.searchsorted(wanted, weight[:-1])
        last = np.searchsorted(wanted, weight[1:], side="right")
        return [
            Interval(*ends[j : j + 2], *rows[j : j + 2], *weight[j : j + 2].tolist())
            for j in np.flatnonzero(last > first).tolist()
            if rows[j + 1] > rows[j]
        ]


def _key(value: float) -> int:
    """Whole numbers in the order of floats."""
    bits = int(np.array([value + 0.0]).view(np.uint64)[0])
    return (~bits & (2**64 - 1)) if bits >> 63 else bits | 1 << 63


def _numbers(keys: Sequence[int]) -> Floats:
    """The floats of keys."""
    bits, top = np.array(keys, dtype=np.uint64), np.uint64(1 << 63)
    return np.where(bits & top, bits & ~top, ~bits).view(np.float64)


def _splitters(low: int, high: int) -> list[int]:
    """Keys that part an interval, the last of them its end."""
    n = min(PARTS_OF_INTERVAL, high - low)
    return [low + (high - low) * j // n for j in range(1, n + 1)]


@dataclass(frozen=True, eq=False)
class FarColumn(Numbers):
    """A numeric column elsewhere; `values` stands for its numbers."""

    def labels(self) -> Labels:
        if not self.exact:
            return super().labels()  # raises
        values: Any = self.values
        found = [values.distinct(len(values), everywhere) for everywhere in (True, False)]
        levels = tuple(format_number(v, self.boolean) for v in found[0])
        codes = np.searchsorted(found[0], found[1])
        missing, everywhere = values.survey()[2:4]
        return FarLabels(self.name, levels, codes, bool(missing), bool(everywhere), len(values))


class FarLabels(Labels):
    """Text elsewhere: codes that occur, one each, those of training rows apart."""

    def __init__(
        self,
        name: str,
        levels: tuple[str, ...],
        training: NDArray[np.int64],
        missing: bool,
        any_missing: bool,
        n_rows: int,
    ) -> None:
        gone = np.array([-1])
        super().__init__(
            name, np.concatenate([np.arange(len(levels)), gone[: int(any_missing)]]), levels
        )
        object.__setattr__(self, "_n_rows", n_rows)
        object.__setattr__(self, "_training", np.concatenate([training, gone[: int(missing)]]))

    def __len__(self) -> int:
        return self._n_rows  # type: ignore[attr-defined, no-any-return]

    def codes_of(self, marks: NDArray[np.bool_] | None) -> Codes:  # noqa: ARG002
        return self._training  # type: ignore[attr-defined, no-any-return]


class FarLeast(Least):
    """What is asked of bins, every shard being a place."""

    def __init__(self, rows: int, shards: Shards) -> None:
        super().__init__(rows)
        self.shards = shards

    def by_points(self, column: Column, points: Points, seen: Seen) -> NDArray[Any]:
        recipe = ByPoints(column.name, points, points.points[:0], seen)
        return np.stack(self.shards.ask("counts", recipe))

    def by_code(self, column: Column, encoder: Cuts | Levels, seen: Seen) -> Any:
        recipe = _by_code(self.shards, column.name, encoder, seen)
        return recipe.values, np.stack(self.shards.ask("counts", recipe))


def _by_code(shards: Shards, name: str, encoder: Cuts | Levels, seen: Seen) -> ByCode:
    found = shards.ask("occurring", name, encoder, seen)
    return ByCode(name, encoder, np.unique(np.concatenate(found), equal_nan=True), seen)


class FarTable(Table):
    """The columns of all shards, described when they are first asked for."""

    def __init__(self, names: Sequence[str], n_rows: int, shards: Shards) -> None:
        super().__init__(names, n_rows, self._describe)
        self.shards = shards

    def check(self, column: Column, infinite: bool | None = None) -> None:
        """Shards refuse infinite numbers."""

    def describe(self, names: Iterable[str]) -> None:
        """Asks for many columns at once."""
        names = [name for name in names if name in self and name not in self._made]
        answers = self.shards.ask("describe", names) if names else []
        for name, *found in zip(names, *answers, strict=True):
            self._made[name] = self._column(name, found)

    def _describe(self, name: str) -> Column:
        self.describe([name])
        return self._made[name]

    def _column(self, name: str, found: Sequence[Described]) -> Column:
        unified = Unified(name)
        numbers = [unified.add(d.piece, d.where) for d in found]
        whole = unified.finish()
        if isinstance(whole, Numbers):
            values: Any = FarNumbers(name, self.shards, self.n_rows, found)
            return FarColumn(name, values, whole.boolean, whole.exact)
        met = [number[d.met] for number, d in zip(numbers, found, strict=True) if d.met is not None]
        inside = np.unique(whole.codes[np.concatenate(met)])
        missing, everywhere = (any(counts) for counts in zip(*(d[2:4] for d in found), strict=True))
        return FarLabels(name, whole.levels, inside, missing, everywhere, self.n_rows)


# --- y and the parts ------------------------------------------------------------------------------


class FarTarget(TargetRows):
    """The training rows of all shards, for a start and a scale."""

    def __init__(self, shards: Shards, n_rows: int, private: bool) -> None:
        self.shards, self.n_rows, self.private = shards, n_rows, private
        found = shards.ask("offsets")
        self._has_offset = any(there for there, _ in found)
        self._largest = float(max(top for _, top in found))

    def total(self, of: Callable[[Floats, Floats, Floats], Any]) -> Any:
        return self.shards.total("total", of)

    def quantile(self, share: float) -> float:
        found = [d for (d,) in self.shards.ask("describe", [TARGET])]
        numbers = FarNumbers(TARGET, self.shards, self.n_rows, found)
        return float(quantiles(numbers, Sample.of(self.n_rows), np.array([share]))[0])

    @property
    def largest_offset(self) -> float:
        return self._largest

    @property
    def has_offset(self) -> bool:
        return self._has_offset

    def whole(self) -> tuple[Floats, Floats, Floats]:
        if self.private:
            raise ValueError(
                "min_rows_per_bin: the start of a loss written in Python is found from y itself, "
                "which must not leave its place; give start="
            )
        y, w, offset = zip(*self.shards.ask("whole"), strict=True)
        return np.concatenate(y), np.concatenate(w), np.concatenate(offset)


@dataclass(frozen=True, eq=False)
class FarData:
    """What `Data` is for rows in this process, as far as a fit asks for it."""

    shards: Shards
    table: FarTable
    loss: Loss
    classes: tuple[Any, ...]
    validation: str
    sample: Sample
    split: Split
    n_rows: int
    weights: list[list[float]]  # of the parts, shard by shard


def read_far(
    shards: Shards,
    given: Given,
    names: Sequence[str],
    loss: Loss,
    seed: int,
    class_weight: Any = None,
) -> FarData:
    """Reads y, weights, offset and validation rows where they are."""
    table = FarTable(names, 0, shards)
    reading = Reading.of(given, loss, class_weight)
    for name in reading.named.values():
        if name not in table:
            raise ValueError(f"column {name!r} is not in the table; it has {table.shown}")
    if given.y is None:
        raise TypeError("y is missing; give an array, the name of a column or a formula")
    if loss.name in ("binomial", "multinomial"):
        classes = find_classes(shards, reading)
        loss = loss.with_classes(classes)
        reading = reading._replace(loss=loss, classes=classes)
    counts = shards.tell("read", reading)
    if class_weight is not None and reading.classes:
        totals = shards.total("class_weights")
        shards.tell("reweigh", class_weights(class_weight, reading.classes, totals))
    n_rows = sum(n for shard in counts for part in shard for n in part)
    if n_rows == 0:
        raise ValueError(
            "the table has no rows"
            if given.weights is None
            else "weights: all are zero; at least one row must have a positive weight"
        )
    kind, replies = _split(shards, given, counts, seed)
    n_training = sum(n for n, _ in replies)
    if n_training == 0:
        raise ValueError("validation: all rows are held out; none is left for training")
    watched: Any = None if kind == "none" else VALIDATION
    split = Split(TRAINING, watched, ALL)  # type: ignore[arg-type]
    least = None if given.min_rows is None else FarLeast(given.min_rows, shards)
    return FarData(
        shards, FarTable(names, n_rows, shards), loss, reading.classes or (), kind,
        Sample(None, None, n_training, least), split, n_rows, [w for _, w in replies],
    )  # fmt: skip


def class_weights(class_weight: Any, classes: tuple[Any, ...], totals: Floats) -> Floats:
    """Weights of classes as scikit-learn means them, from the weight of the rows of each."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(totals.sum() / (len(totals) * np.where(totals > 0, totals, 1.0)))
    labels = np.array(classes)
    return np.asarray(compute_class_weight(class_weight, classes=labels, y=labels))


def _names(partitions: Sequence[tuple[int, bool, tuple[str, ...], int]]) -> tuple[str, ...]:
    """Of the columns, which all partitions must have; a validation table may lack some that nobody
    asks for."""
    first = next((p for p in partitions if not p[1]), partitions[0])
    for number, held, names, _ in partitions:
        lacking = [name for name in first[2] if name not in names]
        if not held and (lacking or len(names) != len(first[2])):
            raise ValueError(
                f"partition {number}: expected the columns {', '.join(first[2][:10])} of partition "
                f"{first[0]}, got {', '.join(names[:10])}"
            )
    if not first[2]:
        raise ValueError("the table has no columns")
    return first[2]


def find_classes(shards: Shards, reading: Reading) -> tuple[Any, ...]:
    """The classes of y, by the code that finds them in a column."""
    unified = Unified("y")
    pieces = [piece for found in shards.ask("classes", reading) for piece in found]
    values = [unified.add(piece, where) for piece, where in pieces]
    whole = unified.finish()
    if isinstance(whole, Numbers):
        whole = replace(whole, values=np.concatenate(values))
    return reading.loss.read_y(whole)[1]


def _split(shards: Shards, given: Given, counts: Any, seed: int) -> tuple[str, list[Any]]:
    """Tells shards which rows are held out."""
    validation = given.validation
    if validation is None:
        return "none", shards.tell("split", "none")
    if isinstance(validation, tuple):
        return "rows", shards.tell("split", "held")
    if isinstance(validation, int | float | np.generic):
        if not is_number(validation) or not 0.0 < validation < 1.0:
            raise ValueError(f"validation: a fraction must be between 0 and 1, got {validation!r}")
        drawn = _draw(shards, float(validation), counts, seed)
        return "fraction", shards.tell("split", "drawn", each=drawn)
    found = shards.tell("validation", given.column("validation"))
    if sum(total for _, total in found) == 0:
        raise ValueError("validation: no row is held out; mark at least one")
    marks = all(boolean for boolean, _ in found)
    return "rows", shards.tell("split", "marks" if marks else "weights")


def _draw(shards: Shards, fraction: float, counts: Any, seed: int) -> list[Any]:
    """Places of the rows held out among those of their class, per shard, partition and class: the
    rows that `hold_out` draws from all of them in the order of the partitions."""
    numbers = [[number for number, *_ in found] for found in shards.ask("names")]
    places = sorted((number, s, p) for s, of in enumerate(numbers) for p, number in enumerate(of))
    rng, n_classes = np.random.default_rng(seed), len(counts[0][0])
    out: list[list[list[Any]]] = [[[None] * n_classes for _ in of] for of in numbers]
    held = 0
    for c in range(n_classes):
        sizes = np.array([counts[s][p][c] for _, s, p in places])
        n = int(sizes.sum())
        rows = np.sort(rng.permutation(n)[: int(np.floor(fraction * n + 0.5))])
        held += len(rows)
        ends = np.cumsum(sizes)
        for (_, s, p), size, end in zip(places, sizes, ends, strict=True):
            begin = end - size
            some = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)]
            out[s][p][c] = some - begin
    if not held:
        n = sum(x for shard in counts for part in shard for x in part)
        raise ValueError(f"validation: {fraction:g} of {n} rows is none; hold out more")
    return out


# --- bins -----------------------------------------------------------------------------------------


def _recipes(
    shards: Shards, plans: Sequence[Plan], data: FarData, default: Bins, seen: Mapping[str, Seen]
) -> tuple[list[Recipe], list[int]]:
    """How the rows are binned for some terms, and the number of each term's way."""
    made: dict[Any, tuple[int, list[Basis]]] = {}
    of_term = []
    for plan in plans:
        number, bases = made.setdefault(axes_of(plan, default), (len(made), []))
        of_term.append(number)
        bases.append(plan.basis)
    of_pairs: dict[Axis, Any] = {}  # many pairs share a column
    out: list[Recipe] = []
    for axes, (_, bases) in made.items():
        if len(axes) == 1:
            out.append(_recipe(shards, axes[0], data, seen, bases))
            continue
        for axis in axes:
            if axis not in of_pairs:
                of_pairs[axis] = _recipe(shards, axis, data, seen, [])
        a, b = (of_pairs[axis] for axis in axes)
        cells = np.unique(np.concatenate(shards.ask("cells", a, b)))
        out.append(ByPair(a, b, cells))
    return out, of_term


def _recipe(
    shards: Shards, axis: Axis, data: FarData, seen: Mapping[str, Seen], bases: list[Basis]
) -> ByPoints | ByCode | ByPieces:
    name, encoder, rule, tensor = axis
    facts = seen[name]
    if not isinstance(encoder, Values):
        return _by_code(shards, name, encoder, facts)
    assert rule is not None
    values: Any = data.table[name].values  # type: ignore[union-attr]
    if data.sample.least is not None:
        points = rule.merged(data.table[name], data.sample, facts)
        return ByPoints(name, points, points.points[:0], facts)
    many, n = most_bins(data.n_rows), data.n_rows
    cubics = rule.n == "exact" and not tensor and are_cubics(bases)
    if cubics and n > many and values.distinct(many, True) is None:
        pieces = Pieces.make(facts, values.ends, bases)
        if pieces is not None:
            return ByPieces(name, pieces)
    points = rule.make(values, data.sample, facts)
    if tensor and len(points.points) > MAX_TENSOR_BINS:
        points = Bins(MAX_TENSOR_BINS).make(values, data.sample, facts)
    extra = np.unique(np.concatenate(shards.ask("outside", name, points, facts)))
    return ByPoints(name, points, points.thinned(extra), facts)


def _set_of(recipe: Recipe) -> IndexSet | MomentSet:
    """The bins of a recipe, without rows."""
    nothing = np.empty(0, np.uint8)
    if isinstance(recipe, ByPieces):
        pieces = recipe.pieces
        return MomentSet(np.empty(0, np.uint16), np.empty(0), pieces.values, pieces.inverse)
    if isinstance(recipe, ByPair):
        a, b = _set_of(recipe.a), _set_of(recipe.b)
        assert isinstance(a, IndexSet)
        assert isinstance(b, IndexSet)
        return IndexSet(nothing, pair_values(a, b, recipe.cells))
    if isinstance(recipe, ByCode):
        return IndexSet(nothing, recipe.values)
    missing = [np.nan] if recipe.seen.any_missing else []
    return IndexSet(nothing, np.concatenate([recipe.points.points, recipe.extra, missing]))


@dataclass(frozen=True, eq=False)
class FarBinned(Binned):
    """The rows of all shards and the terms over them."""

    of_basis: dict[int, int] = field(default_factory=dict)  # by key, the number of its term

    @classmethod
    def of(cls, data: FarData, plans: Sequence[Plan], seen: Any, settings: Settings) -> FarBinned:
        recipes, of_term = _recipes(data.shards, plans, data, settings.bins, seen)
        w = _added(data.shards.tell("bin", recipes))
        sets = Sets([_set_of(recipe) for recipe in recipes], of_term)
        threads = threads_for(None, data.n_rows)
        plans, matrices = basis_rows(plans, sets, w, Room(), threads)
        effects = core_rows(plans, sets, matrices)
        return cls(data, seen, settings, plans, sets, [], matrices, effects, w, threads)  # type: ignore[arg-type]

    @property
    def far(self) -> FarData:
        return self.data  # type: ignore[return-value]

    def with_more(self, plans: Sequence[Plan], seen: Mapping[str, Seen]) -> Binned:
        return self.joined(FarBinned.of(self.far, plans, seen, self.settings))

    def weigh(self, weights: Any) -> Sequence[Floats]:
        """`weights`: the number of a part."""
        if weights == TRAINING:
            return self.bin_weights
        return _added(self.far.shards.ask("weigh", weights))

    def rows(self, split: Split, n_threads: int | None = None) -> Any:  # noqa: ARG002
        bases = [
            (rows, plan.basis.n_coef)
            for plan, rows in zip(self.plans, self.bin_effects, strict=True)
        ]
        self.far.shards.tell("begin_rows", bases)
        return FarRows(self.far, self.of_basis)

    def learners(self, systems: Sequence[System]) -> list[_core.Learner]:
        out = super().learners(systems)
        self.of_basis.update({learner.basis_key: k for k, learner in enumerate(out)})
        return out

    def spreads(self, names: Any) -> dict[str, Spread]:
        seen, rule, out = self.seen, self.settings.bins, self.drawn
        for plan, k in zip(self.plans, self.sets.of_term, strict=True):
            name = plan.columns[0]
            if name in names and name not in out:
                w = self.bin_weights[k]
                points = fine_points(plan, self.sets.sets[k], w, seen[name], rule)
                if points is not None:
                    out[name] = Spread.of_bins(points, w, seen[name].kind == "numbers")
        for name in (name for plan in self.plans for name in plan.columns):
            if name in names and name not in out:
                out[name] = self._spread(name)
        return {name: out[name] for name in self.columns if name in names}

    def _spread(self, name: str) -> Spread:
        total = float(sum(w[TRAINING] for w in self.far.weights))
        numbers: Any = getattr(self.far.table[name], "values", None)
        if numbers is None:
            return Spread(total, 0.0, np.empty(0), np.empty(0))
        points, weights = numbers.outline(SPREAD_RANKS)
        missing = [max(0.0, total - float(weights.sum()))]
        return Spread.of_bins(np.append(points, np.nan), np.append(weights, missing))


def _added(found: Sequence[Sequence[Floats]]) -> list[Floats]:
    return [np.sum(parts, axis=0) for parts in zip(*found, strict=True)]


# --- rows -----------------------------------------------------------------------------------------


class FarRows(_core.Rows):
    """The rows of all shards behind the engine's verbs.

    The bin sums that the engine asked for in the last iterations are asked for along with the step
    that makes the next residual: most iterations then need one round trip.
    """

    def __init__(self, data: FarData, of_basis: Mapping[int, int]) -> None:
        super().__init__()
        self.shards, self.data, self.of_basis = data.shards, data, of_basis
        self.totals = np.array(data.weights)  # (shards, parts)
        self.round_trips = 0
        self._ready: dict[tuple[int, int, int], Floats] = {}  # by slot, set and part
        self._wanted: list[set[tuple[int, int, int]]] = [set()]  # the same, in the last iterations

    def n_outputs(self) -> int:
        return self.data.loss.n_outputs

    def n_rows(self) -> int:
        return self.data.n_rows

    def far(self) -> bool:
        return True

    def linear(self) -> bool:
        return self.data.loss.name == "squared"

    def knows_cross(self) -> bool:
        return self.linear()

    def weight(self, part: int) -> float:
        return float(self.totals[:, part].sum())

    def run(self, batch: Sequence[Any]) -> list[_core.Reply]:
        moves = any(isinstance(verb, STATE) for verb in batch)
        if not moves and all(isinstance(verb, _core.BinSums) for verb in batch):
            return [self._sums(verb) for verb in batch]
        sent = [self._travelling(verb) for verb in batch]
        ahead: list[_core.BinSums] = []
        if moves:
            self._ready.clear()
            if any(isinstance(v, _core.Residual) and v.out >= 0 for v in batch):
                ahead = self._ahead()
                self._wanted = [*self._wanted[-REMEMBERED + 1 :], set()]
        replies = self._asked([*batch, *ahead], [*sent, *ahead])
        for verb, reply in zip(ahead, replies[len(batch) :], strict=True):
            self._keep(verb, reply)
        return replies[: len(batch)]

    def _asked(self, batch: Sequence[Any], sent: Sequence[Any]) -> list[_core.Reply]:
        self.round_trips += 1
        answers = zip(*self.shards.run(sent), strict=True)
        return [self._merged(verb, parts) for verb, parts in zip(batch, answers, strict=True)]

    def _travelling(self, verb: Any) -> Any:
        if not isinstance(verb, _core.Cross):
            return verb
        number = self.of_basis
        return CrossOf([(a, b, number[x], number[y]) for a, b, x, y in verb.pairs], verb.part)

    def _merged(self, verb: Any, replies: Sequence[_core.Reply]) -> _core.Reply:
        moved = float(np.sqrt(sum(r.moved**2 for r in replies)))
        sums = [np.sum(parts, axis=0) for parts in zip(*(r.sums for r in replies), strict=True)]
        risk = []
        for j, part in enumerate(verb.parts if isinstance(verb, _core.Residual) else ()):
            if verb.risk:
                w = self.totals[:, part]
                have = [(x, r.risk[j]) for x, r in zip(w, replies, strict=True) if x > 0]
                risk.append(float(sum(x * value for x, value in have) / w.sum()))
        return _core.Reply(moved, risk, sums)

    # --- bin sums that are asked for ahead --------------------------------------------------------

    def _sums(self, verb: _core.BinSums) -> _core.Reply:
        wanted = [(slot, s, verb.part) for slot in verb.slots for s in verb.sets]
        self._wanted[-1].update(wanted)
        lacking = [key for key in wanted if key not in self._ready]
        if lacking:
            asked = _verbs(lacking)
            for one, reply in zip(asked, self._asked(asked, asked), strict=True):
                self._keep(one, reply)
        return _core.Reply(0.0, [], [self._ready[key] for key in wanted])

    def _ahead(self) -> list[_core.BinSums]:
        return _verbs(sorted(set().union(*self._wanted)))

    def _keep(self, verb: _core.BinSums, reply: _core.Reply) -> None:
        keys = [(slot, s, verb.part) for slot in verb.slots for s in verb.sets]
        self._ready.update(zip(keys, reply.sums, strict=True))


def _verbs(keys: Sequence[tuple[int, int, int]]) -> list[_core.BinSums]:
    """One verb per slot and part."""
    groups: dict[tuple[int, int], list[int]] = {}
    for slot, number, part in keys:
        groups.setdefault((slot, part), []).append(number)
    return [_core.BinSums([slot], sets, part) for (slot, part), sets in groups.items()]


# --- the fit --------------------------------------------------------------------------------------


def fit_shards(
    shards: Shards,
    given: Given,
    learners: Any,
    terms: str,
    exclude: Sequence[str],
    loss: Loss,
    rule: Bins,
    how: How,
    seed: int,
    wanted: int | str | Pairs | None,
    callback: Callable[..., Any] | None,
    bar: Progress,
    kept: Checkpoint | None,
    began: float,
    class_weight: Any = None,
) -> Model:
    """The model of the rows of all shards, by the code of a fit to rows in this process."""
    if wanted is not None and not isinstance(wanted, list):
        raise ValueError(
            f"interactions: {wanted!r}: pairs are ranked where the rows are in one place; name "
            "them, for instance [('a', 'b')] from the ranking of a fit to a sample of the rows"
        )
    formula = None
    names = _names(sorted(p for found in shards.ask("names") for p in found))
    if is_formula(given.y) and given.y not in names:
        formula = given.y
        if learners is not None:
            raise ValueError(
                f"learners: the formula {formula!r} says which there are; give one or the other"
            )
        given = replace(given, y=target_of(formula, FarTable(names, 0, shards)))
    data = read_far(shards, given, names, loss, seed, class_weight)
    how.check(data.loss, data.split)
    table, apart = data.table, given.columns
    target = [name for name in (given.column("y"),) if name is not None]
    table.describe(_wanted(table, formula, learners, [*apart, *exclude]))
    if formula is None:
        chosen = make_learners(table, learners, [*target, *exclude], terms, apart=apart)
    else:
        chosen = parse(formula, table, exclude=apart)[1]
    chosen = check_learners(chosen, table)
    check_pairs(wanted, table, given.columns)
    rows = FarTarget(shards, data.n_rows, private=data.sample.least is not None)
    begin = Begin.of_rows(data.loss, rows, how.start, how.scale)
    seen = look_at(
        dict.fromkeys(name for learner in chosen for name in learner.columns), table, data.sample, 1
    )
    plans = plan_terms(list(chosen), table, data.sample, seen)
    binned = FarBinned.of(data, plans, seen, settings_of(given, data, rule, seed))  # type: ignore[arg-type]
    return run_stages(binned, begin, how, wanted, callback, bar, kept, began)


def _wanted(table: Table, formula: str | None, learners: Any, exclude: Sequence[str]) -> list[str]:
    """Columns that terms will ask for, to be described at once; any other is when it is."""
    named: set[str] | None = None
    if formula is not None:
        words = {token.text for token in tokenize(formula)}
        named = None if "." in words else words
    elif isinstance(learners, list | tuple) and not any(x is Ellipsis for x in learners):
        named = {name for x in learners for name in getattr(x, "columns", ())}
    names = (name for name in table.names if name not in exclude)
    return [name for name in names if named is None or name in named]
