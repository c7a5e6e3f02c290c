"""Calls a function in its own process: fresh interpreter, limited threads, memory and time.

Starts and ends such processes, reads their results, and measures the memory of this process.
Whatever happens to the process, the caller gets an Outcome. Does not know what is measured.

    python -m benchmarks.process RESULT < {"function": "module:name", "arguments": {}, ...}
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).resolve().parents[1]
POOLS = ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR", "VECLIB", "BLIS")
MEGABYTE = 1e6
GIVEN_BACK = {  # make glibc return freed memory, so that the peak is the memory in use
    "MALLOC_MMAP_THRESHOLD_": "16384",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_TOP_PAD_": "0",
}
TIMEOUT = "Timeout ("  # how faulthandler's message begins
CPU_LIMIT_EXCEEDED = -getattr(signal, "SIGXCPU", 0) or None  # exit code after at_most_cpu
TOLD = 2000  # number of characters kept of a failed process's output


@dataclass(frozen=True)
class Outcome:
    """The result of a call."""

    status: Literal["done", "failed", "late"]
    value: Any = None  # what the function returned, if done
    reason: str = ""  # otherwise the error
    seconds: float = 0.0  # of the whole process


class Child:
    """A call of "module:name" with JSON arguments, running in its own process.

    `threads` limits its thread pools; using more than the memory limit (bytes) is an error in it.
    `variables` are added to its environment; `python` is the interpreter, by default this one.
    """

    def __init__(
        self,
        function: str,
        arguments: dict[str, Any],
        *,
        threads: int = 1,
        memory: float | None = None,
        variables: dict[str, str] | None = None,
        python: str | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._result = Path(self._folder.name) / "result.json"
        self._said = Path(self._folder.name) / "said.txt"
        self._began = time.perf_counter()
        with self._said.open("wb") as out:
            self._process = subprocess.Popen(
                [python or sys.executable, "-m", __name__, str(self._result)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment(threads) | (variables or {}),
                cwd=ROOT,
                start_new_session=True,  # its own process group, so that its children end with it
            )
        job = {"function": function, "arguments": arguments, "memory": memory}
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as words:
            words.write(json.dumps(job).encode())

    def running(self) -> bool:
        return self._process.poll() is None

    def seconds(self) -> float:
        return time.perf_counter() - self._began

    def outcome(self, limit: float | None = None) -> Outcome:
        """Wait for the end, for at most `limit` seconds, then end the process if it still runs."""
        late = False
        try:
            self._process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
        finally:
            self.end()
        seconds = self.seconds()
        with self._folder:
            if self._process.returncode == 0 and self._result.exists():
                return Outcome("done", json.loads(self._result.read_text()), seconds=seconds)
            if late:
                return Outcome("late", reason=f"not done after {seconds:.3g} s", seconds=seconds)
            words = self._said.read_text(errors="replace")
        if TIMEOUT in words:
            return Outcome("late", reason="a step exceeded its time limit", seconds=seconds)
        if self._process.returncode == CPU_LIMIT_EXCEEDED:
            return Outcome("late", reason="it used all of its CPU seconds", seconds=seconds)
        code, last = self._process.returncode, words[-TOLD:].strip()
        return Outcome("failed", reason=f"exit code {code}: {last}", seconds=seconds)

    def end(self) -> None:
        """End the process and the processes that it started."""
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # it has ended already
        self._process.wait()


def call(
    function: str,
    arguments: dict[str, Any],
    *,
    threads: int = 1,
    limit: float | None = None,
    **others: Any,
) -> Outcome:
    """Call "module:name" in its own process and wait for it; `others` are options of Child."""
    return Child(function, arguments, threads=threads, **others).outcome(limit)


def environment(threads: int) -> dict[str, str]:
    """Return the environment of this process, with every thread pool limited to `threads`."""
    limits = {f"{pool}_NUM_THREADS": str(threads) for pool in POOLS}
    return {**os.environ, **limits, "VECLIB_MAXIMUM_THREADS": str(threads), "MPLBACKEND": "agg"}


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """End this process if the block takes longer, even inside a library; the outcome of the call is
    then "late"."""
    if seconds is not None:
        faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def at_most_cpu(seconds: float) -> None:
    """End this process when it has used this many CPU seconds from now on; the outcome of the call
    is then "late". Other programs on the machine do not count, unlike with a limit of time."""
    with contextlib.suppress(ImportError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + seconds) + 1, hard))


# --- memory of this process -----------------------------------------------------------------------


class Memory:
    """Megabytes added at the peak since this object was made; None where the system cannot tell."""

    def __init__(self) -> None:
        self._before = None
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak (Linux)
            self._before = _status("VmRSS")

    def added(self) -> float | None:
        if self._before is None:
            return None
        return max(0.0, _status("VmHWM") - self._before)


def peak() -> float:
    """Return the peak memory of this process in megabytes (Linux)."""
    return _status("VmHWM")


def _status(field: str) -> float:
    """Return a field of Linux's status file of this process, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) * 1024 / MEGABYTE
    raise OSError(f"/proc/self/status has no {field}")


def refuse_more_memory(most: float | None = None) -> None:
    """Limit the memory to the machine's, so that exceeding it raises an error here instead of
    making the system kill a process. (Sanitizers reserve more from the start, so they are not
    limited.)"""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most = there if most is None else min(int(most), there)
        if _status("VmSize") * MEGABYTE < most:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main() -> None:
    job = json.load(sys.stdin)
    refuse_more_memory(job["memory"])
    module, name = job["function"].split(":")
    value = getattr(importlib.import_module(module), name)(**job["arguments"])
    Path(sys.argv[1]).write_text(json.dumps(value))


if __name__ == "__main__":
    main()
