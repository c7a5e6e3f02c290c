"""A fit on a cluster, and where its time goes: python -m benchmarks cluster [--workers 2 4 8].

Simulated rows (20 columns, the paper's effects in ten of them) are made on the workers of a
LocalCluster, processes of one thread each, so that none travels. A Hybrid of the binomial loss and
one of the squared loss are fitted there and, to the same rows, in one process with as many threads;
choices must be equal, coefficients to rounding. Told are the seconds until the first iteration and
per iteration after it, round trips and bytes per iteration, and what an iteration's time consists
of: the slowest worker of every round trip computing (measured there), the rest of the round trips,
and the client; and by time of the processor, which other work on the machine changes little: verbs
(all workers together), the rest of the workers, the client with the scheduler. Knows how
`cwboost.dask` asks shards; changes nothing of it.

Workers that outnumber the cores wait for each other: what then can be seen is how the rest grows.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

import cwboost as cb
from cwboost.shard import Shard

from .machine import describe
from .process import call
from .simulate import Simulation, coin, noisy

ROWS = 1_000_000
WORKERS = [2, 4, 8]
COLUMNS = 20
PARTITIONS = 16
N_ITER = 100
HELD = 0.3
LOSSES = {"binomial": "z", "squared": "y"}
NEEDED = ("dask", "distributed", "numpy")


# --- rows -----------------------------------------------------------------------------------------


def partition(number: int, rows: int) -> Any:
    """Some of the rows, with both y: whoever makes them, they are the same."""
    import pandas as pd

    simulation = Simulation.make(1, COLUMNS // 2, COLUMNS // 2)
    rng = np.random.default_rng([3, number])
    begin, end = (rows * k // PARTITIONS for k in (number, number + 1))
    table = simulation.table(rng, end - begin)
    eta = simulation.eta(table)
    return pd.DataFrame({**table, "y": noisy(rng, eta), "z": coin(rng, eta)})


# --- a fit that is watched ------------------------------------------------------------------------


class TimedShard(Shard):
    """A shard that notes how long it runs verbs."""

    def __init__(self, partitions: Sequence[Any], n_threads: int) -> None:
        super().__init__(partitions, n_threads)
        # Seconds by the clock and of the processor, and those of the processor since it began.
        self.noted: list[tuple[float, float, float]] = []

    def run(self, batch: Sequence[Any]) -> Any:
        began, used = time.perf_counter(), time.process_time()
        replies = super().run(batch)
        now = time.process_time()
        self.noted.append((time.perf_counter() - began, now - used, now))
        return replies

    def notes(self) -> list[tuple[float, float, float]]:
        return self.noted


class CountedShard(Shard):
    """A shard that tells how many bytes its answers to verbs have."""

    answered: int = 0

    def run(self, batch: Sequence[Any]) -> Any:
        replies = super().run(batch)
        self.answered += len(pickle.dumps(replies, 5))
        return replies

    def notes(self) -> int:
        return self.answered


@dataclass
class Watch:
    """What happened at the client."""

    began: float = field(default_factory=time.perf_counter)
    used: float = field(default_factory=time.process_time)
    trips: list[float] = field(default_factory=list)  # seconds of every round trip of verbs
    asked: int = 0  # round trips of other questions
    asking: float = 0.0  # seconds of these
    sent: int = 0  # bytes of verbs
    sums: int = 0  # sums of a set that were asked for
    notes: list[Any] = field(default_factory=list)  # of the workers
    iterations: list[tuple[float, float, int]] = field(default_factory=list)

    def after(self) -> None:
        """Notes time, processor time and round trips at the end of an iteration."""
        self.iterations.append((time.perf_counter(), time.process_time(), len(self.trips)))


def watched(client: Any, table: Any, how: dict[str, Any], counted: bool) -> tuple[Any, Watch]:
    """A fit, and what was seen of it: seconds, or bytes."""
    import cwboost.dask

    watch = Watch()

    class Watched(cwboost.dask.DaskShards):
        def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
            if counted and method == "run":
                watch.sent += self.n_shards * len(pickle.dumps(arguments[0], 5))
                verbs = [v for v in arguments[0][0] if hasattr(v, "sets")]
                watch.sums += sum(len(v.slots) * len(v.sets) for v in verbs)
            began = time.perf_counter()
            answers = super().call(method, arguments)
            seconds = time.perf_counter() - began
            if method == "run":
                watch.trips.append(seconds)
            else:
                watch.asked, watch.asking = watch.asked + 1, watch.asking + seconds
            return answers

        def close(self) -> None:
            if self.actors:
                watch.notes = super().call("notes", [()] * self.n_shards)
            super().close()

    shard = CountedShard if counted else TimedShard
    with (
        patch.object(cwboost.dask, "DaskShards", Watched),
        patch.object(cwboost.dask, "Shard", shard),
    ):
        model = cwboost.dask.fit(client, table, callback=watch.after, **how)
    return model, watch


# --- figures --------------------------------------------------------------------------------------


def seconds_of(watch: Watch) -> dict[str, float]:
    """Until the first iteration, and per iteration after it, and what the latter consist of."""
    (first, used, since), (last, used_last, until) = watch.iterations[0], watch.iterations[-1]
    n = len(watch.iterations) - 1
    trips = sum(watch.trips[since:until])
    notes = np.array(watch.notes)[:, since - 1 : until]  # (workers, round trips, 3)
    slowest, processor = notes[:, 1:, 0].max(axis=0).sum(), notes[:, 1:, 1].sum()
    ever = (notes[:, -1, 2] - notes[:, 0, 2]).sum()
    return {
        "setup": first - watch.began,
        "asked": watch.asked,
        "each": (last - first) / n,
        "trips": (until - since) / n,
        "workers": slowest / n,
        "transport": (trips - slowest) / n,
        "client": (last - first - trips) / n,
        "processor": processor / n,
        "apart": (ever - processor) / n,
        "client_processor": (used_last - used) / n,
    }


def distance(one: Any, other: Any) -> float:
    """The largest distance of two models' coefficients, relative to the largest of them."""
    pairs = [(term.coef, other.terms[name].coef) for name, term in one.terms.items()]
    top = max(np.abs(a).max() for a, _ in pairs)
    return float(max(np.abs(a - b).max() for a, b in pairs) / top)


def measured(rows: int, workers: int, n_iter: int, direct: bool, processes: bool) -> dict[str, Any]:
    """The figures of both losses on a cluster of so many workers."""
    import dask
    import dask.dataframe as dd
    import pandas as pd
    from distributed import Client, LocalCluster

    out: dict[str, Any] = {}
    whole = pd.concat([partition(k, rows) for k in range(PARTITIONS)], ignore_index=True)
    with (
        dask.config.set({"distributed.client.direct-to-workers": direct}),
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=processes, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        table = dd.from_map(partition, range(PARTITIONS), rows=rows).persist()
        table.map_partitions(len).compute()
        for loss, y in LOSSES.items():
            other = "y" if y == "z" else "z"
            how = {"y": y, "loss": loss, "optimizer": cb.Hybrid(), "n_iter": n_iter}
            how |= {"validation": HELD, "patience": None}
            cwboost_fit(table.drop(columns=other), client, how | {"n_iter": 2})  # all is loaded
            far, watch = watched(client, table.drop(columns=other), how, counted=False)
            _, bytes_ = watched(client, table.drop(columns=other), how, counted=True)
            local, near = beside(whole.drop(columns=other), how, workers)
            out[loss] = {
                **seconds_of(watch),
                "local_setup": near.iterations[0][0] - near.began,
                "local_each": (near.iterations[-1][0] - near.iterations[0][0]) / (n_iter - 1),
                "sent": bytes_.sent / n_iter,
                "received": sum(bytes_.notes) / n_iter,
                "sums": bytes_.sums / n_iter,
                "same": far.choices == local.choices,
                "distance": distance(local, far),
            }
    return out


def cwboost_fit(table: Any, client: Any, how: dict[str, Any]) -> Any:
    import cwboost.dask

    return cwboost.dask.fit(client, table, **how)


def beside(table: Any, how: dict[str, Any], threads: int) -> tuple[Any, Watch]:
    """The same fit in this process."""
    watch = Watch()
    return cb.fit(table, callback=watch.after, n_threads=threads, **how), watch


# --- the command ----------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--iterations", type=int, default=N_ITER)
    parser.add_argument("--direct", action="store_true", help="not through the scheduler")
    parser.add_argument("--threads", action="store_true", help="workers are threads, for a try")


def run(arguments: argparse.Namespace) -> None:
    given = {"rows": arguments.rows, "n_iter": arguments.iterations, "direct": arguments.direct}
    given["processes"] = not arguments.threads
    found = {}
    for workers in arguments.workers:
        outcome = call(f"{__name__}:measured", {**given, "workers": workers})
        if outcome.status != "done":
            raise ValueError(f"{workers} workers: {outcome.reason}")
        found[workers] = outcome.value
    print(f"{arguments.rows:,} rows, {COLUMNS} columns, {arguments.iterations} iterations of a")
    print("Hybrid. Seconds until the first iteration, milliseconds per iteration after it:\n")
    print("| loss | workers | set-up | each | local set-up | local each | same choices | distance |")
    print("|---|--:|--:|--:|--:|--:|---|--:|")
    show(found, summary)
    print("\nWhat an iteration consists of, in milliseconds:\n")
    print(
        "| loss | workers | slowest worker | rest of round trips | client | processor: verbs | "
        "processor: rest of workers | processor: client, scheduler |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    show(found, shares)
    print("\nWhat travels in an iteration:\n")
    print("| loss | workers | round trips | sums of sets | sent | received | asked in set-up |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    show(found, traffic)
    print(f"\n{describe(NEEDED)}")


def show(found: dict[int, Any], line: Any) -> None:
    for loss in LOSSES:
        for workers, of_losses in found.items():
            print(f"| {loss} | {workers} | {line(of_losses[loss])} |", flush=True)


def summary(f: dict[str, Any]) -> str:
    return (
        f"{f['setup']:.2f} s | {1e3 * f['each']:.2f} | {f['local_setup']:.2f} s | "
        f"{1e3 * f['local_each']:.2f} | {'yes' if f['same'] else 'NO'} | {f['distance']:.0e}"
    )


def shares(f: dict[str, Any]) -> str:
    names = ("workers", "transport", "client", "processor", "apart", "client_processor")
    return " | ".join(f"{1e3 * f[name]:.2f}" for name in names)


def traffic(f: dict[str, Any]) -> str:
    return (
        f"{f['trips']:.2f} | {f['sums']:.1f} | {f['sent'] / 1e3:.1f} kB | "
        f"{f['received'] / 1e3:.1f} kB | {f['asked']:.0f}"
    )
