"""The data of a fit to rows on shards: y, weights, offset and validation rows.

The rows are read on the shards. The client knows their numbers, their classes and the sums of
their weights, and it draws the validation rows.
Does not know about terms or bins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cwboost._core import TRAINING_PART, VALIDATION_PART
from cwboost._utils.text import list_names
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
from cwboost.frames.weights import count_observations
from cwboost.losses import Loss, TargetRows

from .partitions import ReadOptions
from .shard_columns import TARGET
from .shard_rows import PartitionFacts
from .sharded_numbers import ShardedNumbers
from .sharded_table import ShardedMinRows, ShardedTable
from .shards import Shards


class ShardedTarget(TargetRows):
    """y of the training rows of all shards, from which the start and the scale follow."""

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
                "min_rows_per_bin: a loss written in Python finds its start from y itself, which "
                "must not leave the shards; pass start="
            )
        y, w, offset = zip(*self.shards.ask("whole"), strict=True)
        return np.concatenate(y), np.concatenate(w), np.concatenate(offset)


@dataclass(frozen=True, eq=False)
class ShardedData:
    """The rows of a fit on shards; `FitData` is its counterpart for rows in this process."""

    shards: Shards
    table: ShardedTable
    loss: Loss
    classes: tuple[Any, ...]
    source: InputRecord
    sample: Sample
    n_rows: int
    weights: list[list[float]]  # sums by shard and part


def read_sharded(
    shards: Shards,
    fit_input: FitInput,
    names: Sequence[str],
    loss: Loss,
    seed: int,
    class_weight: Any = None,
) -> ShardedData:
    """Let the shards read y, weights and offset, and split off the validation rows."""
    table = ShardedTable(names, 0, shards)
    options = ReadOptions.of(fit_input, loss, class_weight)
    for name in options.named.values():
        table.check_name(name)
    if fit_input.y is None:
        raise TypeError("y is missing; give an array, the name of a column or a formula")
    if loss.target == "classes":
        classes = find_classes(shards, options)
        loss = loss.with_classes(classes)
        options = options._replace(loss=loss, classes=classes)
    counts = shards.tell("read", options)
    if class_weight is not None and options.classes:
        totals = shards.total("class_weights")
        shards.tell("reweigh", class_weights(class_weight, options.classes, totals))
    n_rows = sum(n for shard in counts for part in shard for n in part)
    if n_rows == 0:
        raise ValueError(
            "the table has no rows"
            if fit_input.weights is None
            else "weights: all are zero; at least one row must have a positive weight"
        )
    replies = _split(shards, fit_input, counts, seed)
    n_training, weights = sum(n for n, _ in replies), [w for _, w in replies]
    if n_training == 0:
        raise ValueError("validation: all rows are held out; no row is left for training")
    if fit_input.validation is not None and not any(w[VALIDATION_PART] > 0 for w in weights):
        raise ValueError("validation: no row is held out; mark at least one")
    n_observations = None
    if fit_input.weights is not None or class_weight is not None:
        n_observations = count_observations(shards.ask("observations", TRAINING_PART))
    min_rows = None
    if fit_input.min_rows is not None:
        min_rows = ShardedMinRows(fit_input.min_rows, fit_input.rule, shards)
    return ShardedData(
        shards=shards,
        table=ShardedTable(names, n_rows, shards),
        loss=loss,
        classes=options.classes or (),
        source=InputRecord.of(fit_input, seed),
        sample=Sample(None, None, n_training, min_rows, n_observations),
        n_rows=n_rows,
        weights=weights,
    )


def check_names(partitions: Sequence[PartitionFacts]) -> tuple[str, ...]:
    """Return the names of the columns; raise if a partition of the fit's table has others.

    A validation table may lack columns that are not used.
    """
    first = next((p for p in partitions if not p.held), partitions[0])
    for part in partitions:
        lacking = [name for name in first.names if name not in part.names]
        if not part.held and (lacking or len(part.names) != len(first.names)):
            raise ValueError(
                f"partition {part.number}: expected the columns {list_names(first.names)} of "
                f"partition {first.number}, got {list_names(part.names)}"
            )
    if not first.names:
        raise ValueError("the table has no columns")
    return first.names


def find_classes(shards: Shards, options: ReadOptions) -> tuple[Any, ...]:
    """Return the classes of y, as the loss finds them in a column of all rows."""
    unified = UnifiedColumn("y")
    chunks = [chunk for found in shards.ask("classes", options) for chunk in found]
    values = [unified.add(chunk, where) for chunk, where in chunks]
    whole = unified.finish()
    if isinstance(whole, Numbers):
        whole = replace(whole, values=np.concatenate(values))
    return options.loss.read_y(whole)[1]


def _split(shards: Shards, fit_input: FitInput, counts: Any, seed: int) -> list[Any]:
    """Tell the shards which rows are held out; return what `ShardRows.split` returns on each.

    `counts` has the number of rows by shard, partition and class.
    """
    validation = fit_input.validation
    if validation is None:
        return shards.tell("split", "none")
    if isinstance(validation, tuple):
        return shards.tell("split", "held")
    if validation_kind(validation) == "fraction":
        check_fraction(validation)
        drawn = _draw(shards, float(validation), counts, seed)
        return shards.tell("split", "drawn", each=drawn)
    are_marks = all(shards.tell("validation", fit_input.column("validation")))
    return shards.tell("split", "marks" if are_marks else "weights")


def _draw(shards: Shards, fraction: float, counts: Any, seed: int) -> list[Any]:
    """Draw the rows to hold out: the rows that would be drawn if all were in this process.

    Return, by shard, partition and class, positions among the partition's rows of the class.
    """
    numbers = [[part.number for part in found] for found in shards.ask("partition_facts")]
    # Partitions in the order of the table, each with its shard and its place in the shard.
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
