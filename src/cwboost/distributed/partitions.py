"""Partitions: some rows as they were given, and how y, weights and offset are read from them.

Does not know about shards, which hold several partitions (see shard_rows.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost.fitting.input_data import FitInput
from cwboost.frames.aligned import read_weights
from cwboost.frames.chunks import Chunk
from cwboost.frames.columns import Floats
from cwboost.frames.read_frames import read, read_chunk
from cwboost.frames.table import Table
from cwboost.losses import Loss

ROLES = ("y", "weights", "offset", "exposure", "validation")


@dataclass(frozen=True)
class Partition:
    """Some rows of a table, and the arrays aligned with them."""

    number: int  # in the order of all rows
    table: Any
    arrays: dict[str, Any]  # y, weights, ... that the fit does not name as columns, by role
    held: bool = False  # whether the rows are of a validation table

    def __str__(self) -> str:
        return f"partition {self.number}" + " of the validation table" * self.held

    @contextmanager
    def located(self) -> Iterator[None]:
        """Name the partition in error messages."""
        try:
            yield
        except (ValueError, TypeError) as error:
            raise type(error)(f"{self}: {error}") from None


class ReadOptions(NamedTuple):
    """How the rows are read."""

    loss: Loss
    classes: tuple[Any, ...] | None  # None until they are known, and for numbers
    named: dict[str, str]  # roles that are columns of the table
    weighted: bool

    @classmethod
    def of(cls, fit_input: FitInput, loss: Loss, class_weight: Any = None) -> ReadOptions:
        """Return the options for a fit's input; classes are not known yet."""
        named = {role: name for role in ROLES if (name := fit_input.column(role)) is not None}
        weighted = fit_input.weights is not None or class_weight is not None
        return cls(loss, None, named, weighted)


class PresentRows(NamedTuple):
    """The rows of a partition whose weight is not zero."""

    fit_input: FitInput
    weights: Floats
    marks: NDArray[np.bool_] | None  # among all rows of the partition; None if all are present


def find_present(part: Partition, table: Table, options: ReadOptions) -> PresentRows:
    """Return the rows of a partition that have a weight.

    Arrays of the partition replace the columns that are named for the fit, also if they are None.
    """
    own = {**options.named, **part.arrays}
    y, weights, offset, exposure = (own.get(role) for role in ROLES if role != "validation")
    fit_input = FitInput(table, y, weights, offset, exposure)
    w = read_weights(fit_input.weights, table)
    if part.held:  # all of them are validation rows, also those that weigh nothing
        return PresentRows(fit_input, w, None)
    return PresentRows(*fit_input.without_zero_weights(table, w))


def read_y_values(part: Partition, table: Table, options: ReadOptions) -> Chunk:
    """Return a chunk of y in which every distinct value occurs once."""
    fit_input = find_present(part, table, options).fit_input
    y = fit_input.y
    chunk = read(fit_input.table).chunk(y) if isinstance(y, str) else read_chunk(y, "y")
    if chunk.kind != "text":
        return chunk._replace(cells=np.unique(chunk.cells[~np.isnan(chunk.cells)]))
    used = np.unique(chunk.cells[chunk.cells >= 0])
    return chunk._replace(cells=np.arange(len(used)), values=[chunk.values[c] for c in used])
