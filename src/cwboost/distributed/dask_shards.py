"""Shards on the workers of a Dask cluster, and what happens when a worker is lost.

Every worker has one shard: an actor that holds the partitions that were computed there. If a worker
is lost, dask computes its partitions again, another worker makes a shard of them, and that shard
repeats all calls that changed the lost one. Then it is in the same state.
Does not know about bins or boosting (see shard.py and fit.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from distributed import Client, Future, KilledWorker

from cwboost._utils.checks import is_number
from cwboost._utils.text import quote
from cwboost.fitting.input_data import FitInput
from cwboost.progress import Progress

from .dask_collections import make_partitions
from .shard import Shard
from .shards import Shards

LOOK_AGAIN = 2.0  # seconds without an answer after which the worker's presence is checked
PAUSE = 0.02  # seconds between two checks of pending work
TRIES = 5  # attempts to replace a lost shard
log = logging.getLogger("cwboost.dask")


@contextmanager
def open_shards(
    client: Client,
    table: Any,
    fit_input: FitInput,
    n_threads: int | None,
    timeout: float,
    bar: Progress,
) -> Iterator[DaskShards]:
    """Compute the partitions of a table, make shards of them, and release them at the end."""
    if not isinstance(client, Client):
        raise TypeError(f"client: expected a distributed.Client, got {type(client).__name__}")
    if client.asynchronous:
        raise TypeError("client: expected a synchronous client; make it without asynchronous=True")
    if not is_number(timeout) or not timeout > 0:
        raise ValueError(f"timeout: expected a positive number of seconds, got {quote(timeout)}")
    partitions = make_partitions(table, fit_input)
    shards = DaskShards(client, n_threads, timeout)
    try:
        shards.start(partitions, bar)
        yield shards
    finally:
        shards.close()


@dataclass
class WorkerShard:
    """A shard, its partitions, and the worker that holds it."""

    partitions: list[Future[Any]]
    address: str
    task: Future[Any] | None = None  # that made the actor
    actor: Any = None


class DaskShards(Shards):
    """One shard per worker that has partitions."""

    def __init__(self, client: Client, n_threads: int | None, timeout: float) -> None:
        super().__init__()
        self.client, self.n_threads, self.timeout = client, n_threads, timeout
        self.partitions: dict[str, Future[Any]] = {}
        self.shards: list[WorkerShard] = []

    def start(self, partitions: Mapping[str, Any], bar: Progress) -> None:
        """Compute the partitions; make a shard on every worker that has some."""
        with self._connected():
            futures = self.client.compute(list(partitions.values()))
        self.partitions = dict(zip(partitions, futures, strict=True))
        with bar.work(len(futures), "partition"):
            self._wait_for(futures, bar)
        self.shards = self._by_worker(futures)
        for number, shard in enumerate(self.shards):
            try:
                self._make(number, shard.address)
            except WorkerLostError:
                self._move(number)

    @property
    def n_shards(self) -> int:
        return len(self.shards)

    def close(self) -> None:
        """Release the rows and shards, so that workers free their memory."""
        for future in (*self.partitions.values(), *(shard.task for shard in self.shards)):
            if future is not None:
                future.release()
        self.shards, self.partitions = [], {}

    # --- where partitions are ---------------------------------------------------------------------

    def _wait_for(self, futures: Sequence[Future[Any]], bar: Progress) -> None:
        """Wait until all partitions are computed; raise if one fails."""
        pending, checked = list(futures), time.monotonic()
        while pending and not any(future.status == "error" for future in futures):
            time.sleep(PAUSE)
            if time.monotonic() > checked + LOOK_AGAIN:
                self._wait_for_workers()
                self._check_partitions()
                checked = time.monotonic()
            # All of them again: a partition that was computed may be lost.
            pending = [future for future in futures if not future.done()]
            bar.step(len(futures) - len(pending))
        self._check_partitions()

    def _check_partitions(self) -> None:
        """Raise if a partition could not be computed."""
        self._check_cluster()
        forgotten = self._forgotten()
        for name, future in self.partitions.items():
            if future.status == "error":
                error = future.exception()
                raise ValueError(
                    f"{name} could not be computed: {type(error).__name__}: {error}"
                ) from error
            if future.status == "cancelled" or future.key in forgotten:
                raise ConnectionError(
                    f"{name} is lost and cannot be computed again: its rows were sent to a "
                    "worker that is gone, or its task was cancelled, as client.restart() does; "
                    "send the rows again, or let workers read them from files"
                )

    def _forgotten(self) -> set[Any]:
        """Return the lost partitions that the scheduler has forgotten and cannot compute again."""
        lost = [future.key for future in self.partitions.values() if future.status == "lost"]
        known = self._ask_scheduler("get_task_status", keys=lost) if lost else {}
        return {key for key in lost if known.get(key) is None}

    def _by_worker(self, futures: Sequence[Future[Any]]) -> list[WorkerShard]:
        """Return the partitions by worker: each at the first worker that has it."""
        places = self._ask_scheduler("who_has", keys=[future.key for future in futures])
        by_worker = {address: WorkerShard([], address) for address in self._wait_for_workers()}
        anywhere = next(iter(by_worker))  # takes partitions whose worker is lost
        for future in futures:
            own = (address for address in places.get(future.key, ()) if address in by_worker)
            by_worker[next(own, anywhere)].partitions.append(future)
        return [shard for shard in by_worker.values() if shard.partitions]

    def _wait_for_workers(self) -> dict[str, int]:
        """Return the workers and their threads, once there is a worker."""
        began = time.monotonic()
        while not (workers := self._workers()):
            if time.monotonic() - began > self.timeout:
                raise ConnectionError(
                    f"the cluster has no worker, and none has joined for {self.timeout:g} seconds"
                )
            time.sleep(PAUSE)
        return workers

    def _workers(self) -> dict[str, int]:
        """Return the workers that the scheduler knows, and their threads."""
        found: dict[str, int] = self._ask_scheduler("ncores")
        return found

    def _ask_scheduler(self, method: str, **arguments: Any) -> Any:
        with self._connected():
            ask = getattr(self.client.scheduler, method)
            return self.client.sync(ask, callback_timeout=self.timeout, **arguments)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Turn errors of the connection to the scheduler into a ConnectionError."""
        self._check_cluster()
        try:
            yield
        except Exception as error:
            self._check_cluster(error)
            if not isinstance(error, OSError | RuntimeError | CancelledError):
                raise
            raise ConnectionError(self._lost_message()) from error

    def _check_cluster(self, error: Exception | None = None) -> None:
        """Raise if the client is not running: any `error` is then a consequence of that."""
        if self.client.status != "running":
            raise ConnectionError(self._lost_message()) from error

    def _lost_message(self) -> str:
        return (
            "the fit is lost: the scheduler cannot be reached, or the client was closed or its "
            f"work cancelled, as client.restart() does (client: {self.client.status}); fit again "
            "with a new client (with checkpoint=, a fit resumes from the file)"
        )

    # --- calls to shards --------------------------------------------------------------------------

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        futures = [self._start_call(k, method, own) for k, own in enumerate(arguments)]
        out = []
        for k, (future, own) in enumerate(zip(futures, arguments, strict=True)):
            try:
                out.append(self._result(future, self.shards[k]))
            except WorkerLostError:
                out.append(self._call_again(k, method, own))
        return out

    def _start_call(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Start a call and return its future; None if the worker is known to be lost."""
        try:
            return getattr(self.shards[number].actor, method)(*arguments)
        except Exception as error:
            self._check_cluster(error)
            if isinstance(error, RuntimeError):  # distributed: the actor's worker is lost
                return None
            raise

    def _result(self, future: Any, shard: WorkerShard) -> Any:
        """Return the result of a call; raise WorkerLostError if its worker is lost."""
        began = time.monotonic()
        while future is not None:
            try:
                return future.result(timeout=LOOK_AGAIN)
            except TimeoutError:
                if shard.address not in self._workers() or not self._is_held(shard):
                    break
                if time.monotonic() - began > self.timeout:
                    raise TimeoutError(
                        f"worker {shard.address} has not answered for {self.timeout:g} seconds; "
                        "look at its log, or raise timeout="
                    ) from None
            except (OSError, CancelledError):
                break
            except Exception as error:
                self._check_cluster(error)
                raise
        self._is_held(shard)
        raise WorkerLostError(shard.address)

    def _is_held(self, shard: WorkerShard) -> bool:
        """Return whether the worker still holds the shard that was made on it."""
        self._check_cluster()
        if shard.task is not None and shard.task.status == "cancelled":
            raise ConnectionError(self._lost_message())
        return shard.task is None or shard.task.status in ("pending", "finished")

    # --- lost workers -----------------------------------------------------------------------------

    def _call_again(self, number: int, method: str, arguments: tuple[Any, ...]) -> Any:
        """Repeat a call whose worker was lost, on another worker."""
        for _ in range(TRIES):
            self._move(number)
            try:
                return self._result(
                    self._start_call(number, method, arguments), self.shards[number]
                )
            except WorkerLostError:
                continue
        raise self._too_many_lost(number)

    def _move(self, number: int) -> None:
        """Rebuild a lost shard on another worker, and bring it to its last state."""
        lost = set[str]()
        for _ in range(TRIES):
            lost.add(self.shards[number].address)
            address = self._choose_worker(lost)
            before = self.shards[number].address
            log.warning("worker %s is lost; %s takes over its rows", before, address)
            try:
                self._make(number, address)
                calls = self.history(number)
                self._result(self._start_call(number, "replay", (calls,)), self.shards[number])
                return
            except WorkerLostError:
                continue
        raise self._too_many_lost(number)

    def _make(self, number: int, address: str) -> None:
        threads = self.n_threads or self._workers().get(address, 1)
        shard = self.shards[number] = WorkerShard(self.shards[number].partitions, address)
        with self._connected():
            task = self.client.submit(
                Shard, shard.partitions, threads, actor=True, workers=[address], pure=False
            )
        shard.task = task
        try:
            shard.actor = self._result(task, shard)
        except KilledWorker:
            raise WorkerLostError(address) from None
        except Exception:
            self._check_partitions()
            raise
        # The actor would use the current client, which may be another one.
        shard.actor._client, shard.actor._future = self.client, task

    def _choose_worker(self, lost: Set[str]) -> str:
        """Return the worker with the fewest shards; a lost one only if no other joins soon."""
        began = time.monotonic()
        while set(workers := self._wait_for_workers()) <= lost:
            if time.monotonic() - began > LOOK_AGAIN:  # a lost worker may have come back
                break
            time.sleep(PAUSE)
        used = [shard.address for shard in self.shards]
        return min(workers, key=lambda a: (a in lost, used.count(a), a))

    def _too_many_lost(self, number: int) -> Exception:
        return ConnectionError(
            f"the rows of worker {self.shards[number].address} could not be moved: {TRIES} "
            "workers were lost one after the other"
        )


class WorkerLostError(Exception):
    """A worker is lost, with all that it held."""
