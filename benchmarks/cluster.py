"""A fit on a cluster, and where its time goes: python -m benchmarks cluster [--workers 2 4 8].

The workers of a LocalCluster (processes of one thread each) simulate the rows themselves (20
columns, the paper's effects in ten of them), so no rows are sent. A Hybrid of the binomial loss and
a Hybrid of the squared loss are fitted there and, to the same rows, in one process with the same
number of threads. Choices must be equal, and coefficients must agree up to rounding.

Prints the seconds until the first iteration and per iteration after it, round trips and bytes per
iteration, and the parts of an iteration's time: computation of the slowest worker of every round
trip (measured there), the rest of the round trips, and the client. Processor time, which depends
less on other load, is split into verbs (all workers together), the rest of the workers, and the
client with the scheduler. Uses internals of `cwboost.dask` to observe requests to shards; does not
change them.

If there are more workers than cores, the workers wait for each other; the output then shows how the
rest grows.
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
from cwboost import _core
from cwboost.distributed.shard import Shard

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
    """Return one partition of the rows, with y for both losses; independent of who computes it."""
    import pandas as pd

    simulation = Simulation.make(1, COLUMNS // 2, COLUMNS // 2)
    rng = np.random.default_rng([3, number])
    begin, end = (rows * k // PARTITIONS for k in (number, number + 1))
    table = simulation.table(rng, end - begin)
    eta = simulation.eta(table)
    return pd.DataFrame({**table, "y": noisy(rng, eta), "z": coin(rng, eta)})


# --- a fit that is watched ------------------------------------------------------------------------


class TimedShard(Shard):
    """A shard that records how long it runs verbs."""

    def __init__(self, partitions: Sequence[Any], n_threads: int) -> None:
        super().__init__(partitions, n_threads)
        # Wall seconds, processor seconds, and processor seconds since the process began.
        self.noted: list[tuple[float, float, float]] = []

    def run(self, batch: Sequence[Any]) -> Any:
        began, used = time.perf_counter(), time.process_time()
        replies = super().run(batch)
        now = time.process_time()
        self.noted.append((time.perf_counter() - began, now - used, now))
        return replies

    def notes(self) -> list[tuple[float, float, float]]:
        return self.noted


@dataclass
class Watch:
    """Measurements at the client."""

    began: float = field(default_factory=time.perf_counter)
    used: float = field(default_factory=time.process_time)
    trips: list[float] = field(default_factory=list)  # seconds of every round trip of verbs
    asked: int = 0  # round trips of other requests
    sent: int = 0  # bytes
    received: int = 0
    sums: int = 0  # requested sums of a slot over a set
    notes: list[Any] = field(default_factory=list)  # from the workers
    seen: list[tuple[float, ...]] = field(default_factory=list)  # these, per iteration

    def after(self) -> None:
        so_far = (len(self.trips), self.sent, self.received, self.sums)
        self.seen.append((time.perf_counter(), time.process_time(), *so_far))


def watched(client: Any, table: Any, how: dict[str, Any], counted: bool) -> tuple[Any, Watch]:
    """Return a fitted model and its measurements: seconds, or bytes if `counted`."""
    import cloudpickle

    import cwboost.dask
    from cwboost.distributed import dask_shards

    watch = Watch()

    class Watched(dask_shards.DaskShards):
        def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
            began = time.perf_counter()
            answers = super().call(method, arguments)
            if method == "run":
                watch.trips.append(time.perf_counter() - began)
            else:
                watch.asked += 1
            if counted:
                watch.sent += sum(len(cloudpickle.dumps(given, 5)) for given in arguments)
                watch.received += sum(len(pickle.dumps(answer, 5)) for answer in answers)
                verbs = arguments[0][0] if method == "run" else ()
                sums = (v for v in verbs if isinstance(v, _core.BinSums))
                watch.sums += sum(len(v.slots) * len(v.sets) for v in sums)
            return answers

        def close(self) -> None:
            if watch.seen and not counted:
                watch.notes = super().call("notes", [()] * self.n_shards)
            super().close()

    shard = Shard if counted else TimedShard
    with (
        patch.object(dask_shards, "DaskShards", Watched),
        patch.object(dask_shards, "Shard", shard),
    ):
        model = cwboost.dask.fit(client, table, callback=watch.after, **how)
    return model, watch


# --- figures --------------------------------------------------------------------------------------


def seconds_of(watch: Watch) -> dict[str, float]:
    """Return the seconds until the first iteration and per iteration after it, and their parts."""
    (first, used, since, *_), (last, used_last, until, *_) = watch.seen[0], watch.seen[-1]
    since, until, n = int(since), int(until), len(watch.seen) - 1
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


def bytes_of(watch: Watch) -> dict[str, float]:
    """Return the bytes sent in set-up, and per iteration after the first."""
    first, last = (np.array(watch.seen[k][3:]) for k in (0, -1))
    sent, received, sums = ((last - first) / (len(watch.seen) - 1)).tolist()
    return {
        "setup_sent": float(first[0]),
        "setup_received": float(first[1]),
        "sent": sent,
        "received": received,
        "sums": sums,
    }


def distance(one: Any, other: Any) -> float:
    """Return the largest difference of the models' coefficients, relative to the largest
    coefficient."""
    pairs = [(term.coef, other.terms[name].coef) for name, term in one.terms.items()]
    top = max(np.abs(a).max() for a, _ in pairs)
    return float(max(np.abs(a - b).max() for a, b in pairs) / top)


def measured(rows: int, workers: int, n_iter: int, direct: bool, processes: bool) -> dict[str, Any]:
    """Return the figures of both losses on a cluster with this number of workers."""
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
            cwboost_fit(table.drop(columns=other), client, how | {"n_iter": 2})  # loads modules
            far, watch = watched(client, table.drop(columns=other), how, counted=False)
            _, counted = watched(client, table.drop(columns=other), how, counted=True)
            local, near = fit_locally(whole.drop(columns=other), how, workers)
            out[loss] = {
                **seconds_of(watch),
                **bytes_of(counted),
                "local_setup": near.seen[0][0] - near.began,
                "local_each": (near.seen[-1][0] - near.seen[0][0]) / (n_iter - 1),
                "local_processor": (near.seen[-1][1] - near.seen[0][1]) / (n_iter - 1),
                "same": far.choices == local.choices,
                "distance": distance(local, far),
            }
    return out


def cwboost_fit(table: Any, client: Any, how: dict[str, Any]) -> Any:
    import cwboost.dask

    return cwboost.dask.fit(client, table, **how)


def fit_locally(table: Any, how: dict[str, Any], threads: int) -> tuple[Any, Watch]:
    """Return the figures of the same fit in this process."""
    watch = Watch()
    return cb.fit(table, callback=watch.after, n_threads=threads, **how), watch


# --- the command ----------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--iterations", type=int, default=N_ITER)
    parser.add_argument("--direct", action="store_true", help="not through the scheduler")
    parser.add_argument(
        "--threads", action="store_true", help="run workers as threads, for a quick test"
    )


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
    print(
        "| loss | workers | set-up | each | local set-up | local each | of the processor | "
        "same choices | distance |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|---|--:|")
    show(found, summary)
    print("\nWhat an iteration consists of, in milliseconds:\n")
    print(
        "| loss | workers | slowest worker | rest of round trips | client | processor: verbs | "
        "processor: rest of workers | processor: client, scheduler |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    show(found, shares)
    print("\nData sent and received, per iteration and in set-up:\n")
    print(
        "| loss | workers | round trips | sums of sets | sent | received | round trips in set-up | "
        "sent | received |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    show(found, traffic)
    print(f"\n{describe(NEEDED)}")


def show(found: dict[int, Any], line: Any) -> None:
    for loss in LOSSES:
        for workers, of_losses in found.items():
            print(f"| {loss} | {workers} | {line(of_losses[loss])} |", flush=True)


def summary(f: dict[str, Any]) -> str:
    return (
        f"{f['setup']:.2f} s | {1e3 * f['each']:.2f} | {f['local_setup']:.2f} s | "
        f"{1e3 * f['local_each']:.2f} | {1e3 * f['local_processor']:.2f} | "
        f"{'yes' if f['same'] else 'NO'} | {f['distance']:.0e}"
    )


def shares(f: dict[str, Any]) -> str:
    names = ("workers", "transport", "client", "processor", "apart", "client_processor")
    return " | ".join(f"{1e3 * f[name]:.2f}" for name in names)


def traffic(f: dict[str, Any]) -> str:
    return (
        f"{f['trips']:.2f} | {f['sums']:.1f} | {f['sent'] / 1e3:.1f} kB | "
        f"{f['received'] / 1e3:.1f} kB | {f['asked']:.0f} | {f['setup_sent'] / 1e6:.1f} MB | "
        f"{f['setup_received'] / 1e6:.1f} MB"
    )
