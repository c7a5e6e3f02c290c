"""The cost of a row: python -m benchmarks passes [--rows 1000000 3000000] [--folder PARQUET].

Fits on one thread and times every batch of verbs that the fit sends to its rows, in processor time.
Prints the nanoseconds per row until the first iteration, for the passes that make steps and
residuals, for the sums of one set and for one cross-Gram, and how many of these an iteration
requests: the constants of docs/arithmetic.md. Uses internals of cwboost.fitting to observe the rows
of a fit; does not change them.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import cwboost as cb
from cwboost import _core
from cwboost.fitting.prepared import PreparedRows

from .machine import describe
from .process import call
from .simulate import Simulation, coin, noisy

ROWS = [1_000_000, 3_000_000]
COLUMNS = 20
N_ITER = 50
HELD = 0.3
FITS = [("binomial", "Hybrid"), ("binomial", "Plain"), ("poisson", "Hybrid"), ("squared", "Hybrid")]


@dataclass
class Watch:
    """Processor seconds of the rows, and the requests to them."""

    passes: float = 0.0
    sums: float = 0.0
    crosses: float = 0.0
    asked: int = 0  # sums of one slot over one set
    n_crosses: int = 0
    seen: list[Any] = field(default_factory=list)  # the figures above, after every iteration

    def after(self) -> None:
        so_far = [self.passes, self.sums, self.crosses, self.asked, self.n_crosses]
        self.seen.append(np.array([time.process_time(), time.perf_counter(), *so_far]))


class WatchedRows(_core.Rows):
    """Rows in this process, timed."""

    def __init__(self, rows: Any, bases: Sequence[Any], of_key: dict[int, int], watch: Watch):
        super().__init__()
        self.rows, self.bases, self.of_key, self.watch = rows, bases, of_key, watch

    def n_outputs(self) -> int:
        return self.rows.n_outputs()

    def n_rows(self) -> int:
        return self.rows.n_rows()

    def linear(self) -> bool:
        return self.rows.linear()

    def knows_cross(self) -> bool:
        return True

    def weight(self, part: int) -> float:
        return self.rows.weight(part)

    def _own(self, verb: Any) -> Any:
        """Return the verb for local rows: a cross-Gram gets its bases in place of their keys."""
        if not isinstance(verb, _core.Cross):
            return verb
        basis = [
            (self.bases[self.of_key[x]], self.bases[self.of_key[y]]) for *_, x, y in verb.pairs
        ]
        sets = [(a, b) for a, b, *_ in verb.pairs]
        return _core.Cross([(*s, *b) for s, b in zip(sets, basis, strict=True)], verb.part)

    def run(self, batch: Sequence[Any]) -> Any:
        verbs = [self._own(verb) for verb in batch]
        began, watch = time.process_time(), self.watch
        replies = self.rows.run(verbs)
        seconds = time.process_time() - began
        if all(isinstance(verb, _core.BinSums) for verb in batch):
            watch.sums += seconds
            watch.asked += sum(len(v.slots) * len(v.sets) for v in batch)
        elif any(isinstance(verb, _core.Cross) for verb in batch):
            watch.crosses += seconds
            watch.n_crosses += sum(len(v.pairs) for v in batch if isinstance(v, _core.Cross))
        else:
            watch.passes += seconds
        return replies


def rows_of(n: int, loss: str) -> dict[str, Any]:
    simulation, rng = Simulation.make(1, COLUMNS // 2, COLUMNS // 2), np.random.default_rng(2)
    table: dict[str, Any] = simulation.table(rng, n)
    eta = simulation.eta(table)
    if loss == "poisson":
        return {**table, "y": rng.poisson(np.exp(eta / eta.std() / 2)).astype(float)}
    return {**table, "y": coin(rng, eta) if loss == "binomial" else noisy(rng, eta)}


def measured(rows: int | str, loss: str, optimizer: str, n_iter: int) -> dict[str, float]:
    """Return the figures of one fit."""
    table: Any = cb.Dataset.from_parquet(rows) if isinstance(rows, str) else rows_of(rows, loss)
    n = table.n_rows if isinstance(rows, str) else rows
    watch, made, learned = Watch(), PreparedRows.rows, PreparedRows.learners
    of_key: dict[int, int] = {}

    def rows_watched(self: PreparedRows, *given: Any, **named: Any) -> Any:
        pairs = zip(self.core_rows, self.plans, strict=True)
        bases = [_core.Basis(*rows, plan.basis.n_coef) for rows, plan in pairs]
        return WatchedRows(made(self, *given, **named), bases, of_key, watch)

    def learners_known(self: PreparedRows, systems: Any) -> Any:
        out = learned(self, systems)
        of_key.update({learner.basis_key: k for k, learner in enumerate(out)})
        return out

    how = {"loss": loss, "optimizer": getattr(cb, optimizer)(), "n_iter": n_iter}
    how |= {"validation": HELD, "patience": None, "n_threads": 1, "search": "certified"}
    used, began = time.process_time(), time.perf_counter()
    with (
        patch.object(PreparedRows, "rows", rows_watched),
        patch.object(PreparedRows, "learners", learners_known),
    ):
        cb.fit(table, "y", callback=watch.after, **how)
    first, last, m = watch.seen[0], watch.seen[-1], n_iter - 1
    each, seconds, passes, sums, crosses, asked, n_crosses = ((last - first) / m).tolist()
    return {
        "rows": n,
        "setup": (first[0] - used) / n / COLUMNS,
        "setup_seconds": first[1] - began,
        "each": each,
        "each_seconds": seconds,
        "pass": passes / n,
        "sums": sums / max(asked, 1e-9) / n,
        "asked": asked,
        "cross": crosses / max(n_crosses, 1e-9) / n,
        "crosses": n_crosses,
        "rest": each - passes - sums - crosses,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--folder", type=Path, help="of Parquet files that benchmarks scale wrote")
    parser.add_argument("--iterations", type=int, default=N_ITER)


def run(arguments: argparse.Namespace) -> None:
    print(f"{COLUMNS} columns, one thread, processor time:\n")
    print(
        "| loss | optimizer | rows | set-up, ns per cell | pass, ns per row | sums, ns per row and "
        "set | sets asked | cross-Gram, ns per row | cross-Grams | the rest, ms | iteration, ms |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    sources: list[int | str] = list(arguments.rows)
    for source in sources:
        for loss, optimizer in FITS:
            show(source, loss, optimizer, arguments.iterations)
    if arguments.folder:
        show(str(arguments.folder.resolve()), "binomial", "Hybrid", arguments.iterations)
    print(f"\n{describe(('numpy',))}")


def show(source: int | str, loss: str, optimizer: str, n_iter: int) -> None:
    given = {"rows": source, "loss": loss, "optimizer": optimizer, "n_iter": n_iter}
    outcome = call(f"{__name__}:measured", given)
    if outcome.status != "done":
        raise ValueError(f"{given}: {outcome.reason}")
    f = outcome.value
    print(
        f"| {loss} | {optimizer} | {f['rows']:,} | {1e9 * f['setup']:.0f} | {1e9 * f['pass']:.2f} "
        f"| {1e9 * f['sums']:.2f} | {f['asked']:.1f} | {1e9 * f['cross']:.2f} | "
        f"{f['crosses']:.1f} | {1e3 * f['rest']:.2f} | "
        f"{1e3 * f['each']:.1f} |",
        flush=True,
    )
