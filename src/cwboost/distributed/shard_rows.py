"""The rows of one shard: reading y, weights and offset, and splitting off validation rows.

Does not know about other shards, or about bins (see shard.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.lazy import cached_property
from cwboost.binning.summary import Sample
from cwboost.frames.aligned import aligned_column, read_offset, read_weights, read_y
from cwboost.frames.chunks import Chunk, UnifiedColumn, gather
from cwboost.frames.columns import Column, Floats
from cwboost.frames.read_frames import read
from cwboost.frames.table import ComputedColumns, Table
from cwboost.frames.weights import RowWeights, ones

from .partitions import Partition, ReadOptions, find_present, read_y_values


class PartitionFacts(NamedTuple):
    """What the client knows about a partition."""

    number: int
    held: bool
    names: tuple[str, ...]  # of the columns
    n_rows: int


class PartRows(NamedTuple):
    """The rows of one partition that have a weight."""

    kept: Any  # marks them among the partition's rows, or a slice of all
    y: Floats
    weights: Floats
    offset: Floats  # (n, outputs)


class ShardRows:
    """The rows of some partitions, in the order of their numbers; validation tables come last."""

    def __init__(self, partitions: Sequence[Partition], n_threads: int) -> None:
        self.partitions = sorted(partitions, key=lambda p: (p.held, p.number))
        self.n_threads = n_threads
        self.tables = [read(p.table) for p in self.partitions]

    # --- reading ----------------------------------------------------------------------------------

    def partition_facts(self) -> list[PartitionFacts]:
        """Return number, columns and size of every partition."""
        parts = zip(self.partitions, self.tables, strict=True)
        return [PartitionFacts(p.number, p.held, t.names, t.n_rows) for p, t in parts]

    def classes(self, options: ReadOptions) -> list[tuple[Chunk, str]]:
        """Return the distinct values of y in every partition, and the partition's name."""
        out = []
        for part, table in zip(self.partitions, self.tables, strict=True):
            if not part.held:
                with part.located():
                    out.append((read_y_values(part, table, options), str(part)))
        return out

    def read(self, options: ReadOptions) -> list[list[int]]:
        """Read y, weights and offset.

        Return the number of rows that have a weight, by partition and class (without classes: one
        number per partition).
        """
        self.options, self.loss = options, options.loss
        own = (part.arrays for part in self.partitions if part.held)
        self.weighted = options.weighted or any("weights" in arrays for arrays in own)
        parts = zip(self.partitions, self.tables, strict=True)
        found = [self._read_part(part, table) for part, table in parts]
        self.kept = [part.kept for part in found]
        self.y = np.concatenate([part.y for part in found])
        self.weights = np.concatenate([part.weights for part in found])
        self.offset = np.concatenate([part.offset for part in found])
        self.n_rows = len(self.y)
        if not self.weighted:
            self.weights = ones(self.n_rows)  # takes no memory
        if not self.offset.any():
            self.offset = np.broadcast_to(np.zeros(1), self.offset.shape)
        self.begin = np.cumsum([0, *(len(part.y) for part in found)])
        # Terms are chosen from the rows of the fit's table, not of a validation table.
        self.n_own = int(self.begin[sum(not part.held for part in self.partitions)])
        self.table = Table(
            self.tables[0].names,
            self.n_rows,
            ComputedColumns(self.gather_column, reread=True),
            where=self._where,
        )
        kinds = None if options.classes is None else self._class_values()
        return [
            [len(part.y)]
            if kinds is None
            else [int(np.count_nonzero(part.y == kind)) for kind in kinds]
            for part in found
        ]

    def _read_part(self, part: Partition, table: Table) -> PartRows:
        loss, classes = self.options.loss, self.options.classes
        with part.located():
            fit_input, w, present = find_present(part, table, self.options)
            kept = slice(None) if present is None else present
            if len(w) == 0:
                return PartRows(kept, np.empty(0), w, np.empty((0, loss.n_outputs)))
            table = read(fit_input.table)
            y, _ = read_y(fit_input.y, table, loss, classes)
            offset = read_offset(table, fit_input.offset, fit_input.exposure, loss)
            return PartRows(kept, y, w, offset)

    def gather_column(self, name: str, unified: UnifiedColumn | None = None) -> Column:
        """Return a column of all rows; `unified` gets its chunks."""
        return gather(name, self.n_rows, self._chunks(name), unified)

    def _chunks(self, name: str) -> Iterator[tuple[Chunk, str]]:
        for part, table, rows in zip(self.partitions, self.tables, self.kept, strict=True):
            with part.located():
                chunk = table.chunk(name).take(rows)
            yield chunk, str(part)

    def _where(self, row: int) -> str:
        k = int(np.searchsorted(self.begin, row, side="right")) - 1
        kept, within = self.kept[k], row - int(self.begin[k])
        within = within if isinstance(kept, slice) else int(np.flatnonzero(kept)[within])
        return f"{within} of {self.partitions[k]}"

    # --- weights ----------------------------------------------------------------------------------

    def present(self, weights: str | None) -> int:
        """Return the number of rows that have a weight, without validation tables.

        `weights` is a column; None if the weights, if any, are arrays.
        """
        total = 0
        for part, table in zip(self.partitions, self.tables, strict=True):
            if not part.held:
                with part.located():
                    w = read_weights(weights or part.arrays.get("weights"), table)
                total += int(np.count_nonzero(w))
        return total

    def class_weights(self) -> Floats:
        """Return the weight of the rows of every class, without validation tables."""
        y, w = self.y[: self.n_own], self.weights[: self.n_own]
        return np.array([float(w[y == kind].sum()) for kind in self._class_values()])

    def reweigh(self, of_class: Floats) -> None:
        """Multiply the weight of every row with the weight of its class."""
        self.weights = self.weights * of_class[np.searchsorted(self._class_values(), self.y)]

    def _class_values(self) -> list[float]:
        return list(map(float, self.loss.class_values(len(self.options.classes or ()))))

    # --- validation rows --------------------------------------------------------------------------

    def validation(self, named: str | None) -> bool:
        """Read validation weights from a column, or from arrays; return whether they are marks."""
        marks, out = True, []
        for part, table, rows in zip(self.partitions, self.tables, self.kept, strict=True):
            with part.located():
                column = aligned_column(named or part.arrays["validation"], "validation", table)
                marks = marks and (table.n_rows == 0 or bool(getattr(column, "boolean", False)))
                out.append(read_weights(column, table, "validation")[rows])
        self._validation = np.concatenate(out)
        return marks

    def split(
        self, validation_from: str, drawn: Sequence[Sequence[NDArray[np.int64]]] | None = None
    ) -> tuple[int, list[float]]:
        """Set the weights of the parts: training, validation and all rows.

        Parameters
        ----------
        validation_from : str
            "none"; "drawn": the rows of `drawn` are held out; "marks" or "weights": as
            `validation` read; "held": the rows of the validation table are held out.
        drawn : by partition and class, positions among the partition's rows of the class

        Returns
        -------
        The number of training rows, and the sum of the weights of every part.
        """
        self.training = ~self._held(validation_from, drawn)
        w, own_weights = self.weights, validation_from == "weights"
        training: RowWeights = np.where(self.training, w, 0.0) if self.weighted else self.training
        validation: RowWeights = ~self.training
        if own_weights:
            validation = self._validation
        elif self.weighted:
            validation = np.where(self.training, 0.0, w)
        both = ones(self.n_rows)
        if self.weighted or own_weights:
            both = np.where(self.training, w, validation)
        self.parts = [training, training if validation_from == "none" else validation, both]
        marks = None if self.training.all() else self.training
        n_training = int(np.count_nonzero(self.training))
        self.sample = Sample(marks, w if self.weighted else None, n_training)
        return n_training, [float(np.sum(part)) for part in self.parts]

    def _held(
        self, validation_from: str, drawn: Sequence[Sequence[NDArray[np.int64]]] | None
    ) -> NDArray[np.bool_]:
        """Return marks of the held-out rows. The arguments are explained in `split`."""
        if validation_from in ("marks", "weights"):
            return np.asarray(self._validation > 0)
        held = np.zeros(self.n_rows, bool)
        kinds: list[Any] = [None] if self.options.classes is None else self._class_values()
        for k, (begin, end) in enumerate(pairwise(self.begin)):
            held[begin:end] = validation_from == "held" and self.partitions[k].held
            for kind, positions in zip(kinds, drawn[k], strict=True) if drawn else ():
                if kind is not None:  # positions among the rows of a class
                    positions = np.flatnonzero(self.y[begin:end] == kind)[positions]
                held[begin + positions] = True
        return held

    # --- y ----------------------------------------------------------------------------------------

    @cached_property
    def _target(self) -> tuple[Floats, Floats, Floats]:
        rows, (training, *_) = self.training, self.parts
        w = np.ascontiguousarray(training[rows], dtype=np.float64)
        return self.y[rows], w, self.offset[rows]

    def total(self, of: Callable[[Floats, Floats, Floats], Any]) -> Any:
        """Return a sum over the training rows: a function of y, weights and offsets."""
        return of(*self._target)

    def offsets(self) -> tuple[bool, float]:
        """Return whether an offset is not zero, and the largest of the training rows."""
        offset = self._target[2]
        return bool(offset.any()), float(offset.max(initial=-np.inf))

    def whole(self) -> tuple[Floats, Floats, Floats]:
        """Return y, weights and offsets of the training rows, for losses written in Python."""
        return self._target

    def forget_target(self) -> None:
        """Free the copies of y, weights and offsets; the start of the fit is known."""
        self.__dict__.pop("_target", None)
