"""y, weights, offset and validation rows in many places: what `data` is for rows in this process.

Knows how they are read where they are and who is told which rows are held out. Knows nothing of
terms, bins or the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cwboost.binning.summary import Sample
from cwboost.fitting.input_data import (
    FitInput,
    InputRecord,
    check_fraction,
    class_weights,
    draw_held_out,
    validation_kind,
)
from cwboost.frames.chunks import UnifiedColumn
from cwboost.frames.columns import Floats, Numbers
from cwboost.losses import Loss, TargetRows

from .columns import ShardedMinRows, ShardedTable
from .numbers import ShardedNumbers
from .partitions import ReadOptions
from .shard_columns import TARGET
from .shards import Shards


class ShardedTarget(TargetRows):
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
        numbers = ShardedNumbers(TARGET, self.shards, self.n_rows, found)
        return float(numbers.quantiles(Sample.of(self.n_rows), np.array([share]))[0])

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
class ShardedData:
    """What `FitData` is for rows in this process, as far as a fit asks for it."""

    shards: Shards
    table: ShardedTable
    loss: Loss
    classes: tuple[Any, ...]
    source: InputRecord
    sample: Sample
    n_rows: int
    weights: list[list[float]]  # of the parts, shard by shard


def read_sharded(
    shards: Shards,
    given: FitInput,
    names: Sequence[str],
    loss: Loss,
    seed: int,
    class_weight: Any = None,
) -> ShardedData:
    """Reads y, weights, offset and validation rows where they are."""
    table = ShardedTable(names, 0, shards)
    reading = ReadOptions.of(given, loss, class_weight)
    for name in reading.named.values():
        if name not in table:
            raise ValueError(f"column {name!r} is not in the table; it has {table.shown}")
    if given.y is None:
        raise TypeError("y is missing; give an array, the name of a column or a formula")
    if loss.target == "classes":
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
    replies = _split(shards, given, counts, seed)
    n_training = sum(n for n, _ in replies)
    if n_training == 0:
        raise ValueError("validation: all rows are held out; none is left for training")
    least = None
    if given.min_rows is not None:
        least = ShardedMinRows(given.min_rows, given.rule, shards)
    return ShardedData(
        shards, ShardedTable(names, n_rows, shards), loss, reading.classes or (),
        InputRecord.of(given, seed), Sample(None, None, n_training, least), n_rows,
        [w for _, w in replies],
    )  # fmt: skip


def names_of(partitions: Sequence[tuple[int, bool, tuple[str, ...], int]]) -> tuple[str, ...]:
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


def find_classes(shards: Shards, reading: ReadOptions) -> tuple[Any, ...]:
    """The classes of y, by the code that finds them in a column."""
    unified = UnifiedColumn("y")
    pieces = [piece for found in shards.ask("classes", reading) for piece in found]
    values = [unified.add(piece, where) for piece, where in pieces]
    whole = unified.finish()
    if isinstance(whole, Numbers):
        whole = replace(whole, values=np.concatenate(values))
    return reading.loss.read_y(whole)[1]


def _split(shards: Shards, given: FitInput, counts: Any, seed: int) -> list[Any]:
    """Tell the shards which rows are held out."""
    validation = given.validation
    if validation is None:
        return shards.tell("split", "none")
    if isinstance(validation, tuple):
        return shards.tell("split", "held")
    if validation_kind(validation) == "fraction":
        check_fraction(validation)
        drawn = _draw(shards, float(validation), counts, seed)
        return shards.tell("split", "drawn", each=drawn)
    found = shards.tell("validation", given.column("validation"))
    if sum(total for _, total in found) == 0:
        raise ValueError("validation: no row is held out; mark at least one")
    marks = all(boolean for boolean, _ in found)
    return shards.tell("split", "marks" if marks else "weights")


def _draw(shards: Shards, fraction: float, counts: Any, seed: int) -> list[Any]:
    """Places of the rows held out among those of their class, per shard, partition and class: the
    rows that `hold_out` draws from all of them in the order of the partitions."""
    numbers = [[number for number, *_ in found] for found in shards.ask("names")]
    places = sorted((number, s, p) for s, of in enumerate(numbers) for p, number in enumerate(of))
    n_classes = len(counts[0][0])
    out: list[list[list[Any]]] = [[[None] * n_classes for _ in of] for of in numbers]
    sizes_of = [np.array([counts[s][p][c] for _, s, p in places]) for c in range(n_classes)]
    held = draw_held_out(fraction, [int(sizes.sum()) for sizes in sizes_of], seed)
    for c, (sizes, drawn) in enumerate(zip(sizes_of, held, strict=True)):
        rows = np.sort(drawn)
        ends = np.cumsum(sizes)
        for (_, s, p), size, end in zip(places, sizes, ends, strict=True):
            begin = end - size
            some = rows[np.searchsorted(rows, begin) : np.searchsorted(rows, end)]
            out[s][p][c] = some - begin
    return out
