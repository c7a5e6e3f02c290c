"""Runs cases in forked workers with limits of time and memory, and says how each one ended.

A worker runs a batch of cases and reports the beginning and the end of each through a pipe. If the
worker dies or does not finish a case in time, the case in flight is blamed, and another worker runs
the rest of the batch. Does not know what the cases do.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import re
import resource
import selectors
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import chdir, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fuzz.verdict import Failure, judge, warnings_judged

CaseFunction = Callable[[np.random.Generator, list[str]], None]
MEGABYTE = 2**20


class Case(NamedTuple):
    """A case, repeatable by its area and seed."""

    area: str
    seed: int

    def __str__(self) -> str:
        return f"{self.area}:{self.seed}"


class Limits(NamedTuple):
    """The limits of a worker: wall-clock seconds per case, and megabytes beyond its start."""

    seconds: float = 30.0
    megabytes: int = 3000


def run_case(function: CaseFunction, case: Case, tried: list[str]) -> Failure | None:
    """Run one case in this process and judge it. `tried` receives what was tried."""
    rng = np.random.default_rng([zlib.crc32(case.area.encode()), case.seed])
    try:
        with tempfile.TemporaryDirectory() as folder, chdir(folder), warnings_judged():
            function(rng, tried)
    except (Exception, SystemExit) as error:
        return judge(error, tried)
    return None


def run_cases(
    areas: dict[str, CaseFunction],
    batches: Iterable[list[Case]],
    jobs: int = 2,
    limits: Limits = Limits(),  # noqa: B008
) -> Iterator[tuple[Case, Failure | None]]:
    """Run batches of cases in `jobs` workers; yield every case with its failure or None.

    A case that exceeds the time limit is run once more, because the machine may have been busy.
    """
    todo = iter(batches)
    repeated: set[Case] = set()
    with selectors.DefaultSelector() as selector, tempfile.TemporaryDirectory() as folder:
        running: set[Worker] = set()

        def start(batch: list[Case]) -> None:
            worker = Worker(areas, batch, limits, Path(folder))
            selector.register(worker.pipe, selectors.EVENT_READ, worker)
            running.add(worker)

        try:
            while True:
                while len(running) < jobs and (batch := next(todo, None)):
                    start(batch)
                if not running:
                    return
                for key, _ in selector.select(timeout=0.5):
                    yield from key.data.read()
                for worker in [w for w in running if w.ended or w.is_late()]:
                    selector.unregister(worker.pipe)
                    running.remove(worker)
                    failure, rest = worker.finish()
                    if failure and failure.kind == "hang" and rest[0] not in repeated:
                        repeated.add(rest[0])
                    elif failure:
                        yield rest.pop(0), failure
                    if rest:
                        start(rest)
        finally:
            for worker in running:
                worker.kill()


@dataclass(eq=False)
class Worker:
    """A forked process that runs a batch of cases."""

    areas: dict[str, CaseFunction]
    batch: list[Case]
    limits: Limits
    folder: Path
    ended: bool = field(default=False, init=False)  # the pipe is closed
    began: float = field(default=0.0, init=False)  # when the case in flight began

    def __post_init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(dir=self.folder))
        self.done = 0
        self.buffer = b""
        self.began = time.monotonic()
        self.pipe, write = os.pipe()
        gc.freeze()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.pipe)
            self._run(write)
        os.close(write)

    def _run(self, write: int) -> None:
        """Run the batch. This is the child process, which never returns."""
        try:
            os.setsid()  # so that the parent can kill it with its own children
            os.chdir(self.home)
            errors = os.open(self.home / ".errors", os.O_WRONLY | os.O_CREAT)
            os.dup2(errors, 2)
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            faulthandler.enable(2)
            faulthandler.register(signal.SIGUSR1, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            _limit_memory(self.limits.megabytes)
            for case in self.batch:
                tried: list[str] = []
                failure = run_case(self.areas[case.area], case, tried)
                answer = asdict(failure) if failure else None
                os.write(write, json.dumps(answer).encode() + b"\n")
        finally:
            os._exit(0)

    def read(self) -> list[tuple[Case, Failure | None]]:
        """Return the cases that have ended since the last call."""
        content = os.read(self.pipe, 1 << 16)
        self.ended = not content
        *lines, self.buffer = (self.buffer + content).split(b"\n")
        out = []
        for line in lines:
            found = json.loads(line)
            out.append((self.batch[self.done], Failure(**found) if found else None))
            self.done += 1
            self.began = time.monotonic()
        return out

    def is_late(self) -> bool:
        """Return whether the case in flight has exceeded the time limit."""
        return time.monotonic() - self.began > self.limits.seconds

    def finish(self) -> tuple[Failure | None, list[Case]]:
        """End the process; return the failure of the case in flight and the cases left."""
        late = not self.ended
        if late:
            os.kill(self.pid, signal.SIGUSR1)  # writes the stack, also from inside the core
            time.sleep(0.3)
        status = self.kill()
        errors = (self.home / ".errors").read_text(errors="replace")[-20_000:]
        shutil.rmtree(self.home, ignore_errors=True)
        rest = self.batch[self.done :]
        if not rest:
            return None, []
        kind = "hang" if late else "crash"
        how = "no end" if late else _describe(status)
        return Failure(kind, f"{how}{_find_place(errors)}", errors), rest

    def kill(self) -> int:
        """Kill the process and its children; return its exit status."""
        with suppress(ProcessLookupError):  # the child may not have its own group yet
            os.kill(self.pid, signal.SIGKILL)
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self.pipe)
        return os.waitpid(self.pid, 0)[1]


def _limit_memory(megabytes: int) -> None:
    if not Path("/proc/self/statm").exists():
        return  # not Linux: only time is limited
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + megabytes * MEGABYTE
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _describe(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return f"exit code {os.waitstatus_to_exitcode(status)}"


def _find_place(errors: str) -> str:
    """Return the innermost line of cwboost in a stack written by faulthandler."""
    said = re.findall(r"what\(\): *(.*)", errors)
    own = re.search(r'File ".*?/(cwboost/[^"]*|fuzz/[^"]*)", line (\d+) in (\S+)', errors)
    place = f" in {own[1]}:{own[3]}:{own[2]}" if own else ""
    return place + (f" ({said[-1]})" if said else "")


class Printed(list[str]):
    """A list that prints what is added, for a case that is run by hand."""

    def append(self, text: Any) -> None:
        super().append(text)
        sys.stderr.write(f"{text}\n")
