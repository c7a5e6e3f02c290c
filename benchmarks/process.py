"""A function called in a process of its own: fresh interpreter, so many threads, a time limit.

Knows how such a process is started, ended and heard, and how much memory the own one takes; knows
nothing of what is measured. Whatever happens to the process, the caller gets an Outcome.

    python -m benchmarks.process RESULT < {"function": "module:name", "arguments": {...}}
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
TIMEOUT = "Timeout ("  # begins the last words of faulthandler
TOLD = 2000  # characters of what a failed process wrote last


@dataclass(frozen=True)
class Outcome:
    """What became of a call."""

    status: Literal["done", "failed", "late"]
    value: Any = None  # what the function returned, if done
    reason: str = ""  # else what went wrong
    seconds: float = 0.0  # of the whole process


def call(
    function: str,
    arguments: dict[str, Any],
    *,
    threads: int = 1,
    limit: float | None = None,
    variables: dict[str, str] | None = None,
) -> Outcome:
    """Calls "module:name" with arguments that JSON can hold, in a process of its own, with further
    variables of the environment."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        result, said = Path(folder) / "result.json", Path(folder) / "said.txt"
        job = json.dumps({"function": function, "arguments": arguments})
        began = time.perf_counter()
        with said.open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", __name__, str(result)],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                env=environment(threads) | (variables or {}),
                cwd=ROOT,
                start_new_session=True,  # so that what it starts ends with it
            )
            late = False
            try:
                child.communicate(job.encode(), timeout=limit)
            except subprocess.TimeoutExpired:
                late = True
            finally:
                end(child)
        seconds = time.perf_counter() - began
        if child.returncode == 0 and result.exists():
            return Outcome("done", json.loads(result.read_text()), seconds=seconds)
        if late:
            return Outcome("late", reason=f"not done after {limit:g} s", seconds=seconds)
        words = said.read_text(errors="replace")
        if TIMEOUT in words:
            return Outcome("late", reason="a step took longer than it may", seconds=seconds)
        last = words[-TOLD:].strip()
        return Outcome("failed", reason=f"exit code {child.returncode}: {last}", seconds=seconds)


def environment(threads: int) -> dict[str, str]:
    """The environment of this process, with every pool of threads so large."""
    limits = {f"{pool}_NUM_THREADS": str(threads) for pool in POOLS}
    return {**os.environ, **limits, "VECLIB_MAXIMUM_THREADS": str(threads), "MPLBACKEND": "agg"}


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends what still runs of the process and of those it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    child.kill()  # nothing, if it has ended
    child.wait()


@contextlib.contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Ends this process if the block takes longer, even inside a library; call tells that it was
    late."""
    if seconds is not None:
        faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


# --- memory of this process -----------------------------------------------------------------------


class Memory:
    """Megabytes that are added at the peak since it was made; None where they cannot be known."""

    def __init__(self) -> None:
        self._before = None
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew (Linux)
            self._before = _status("VmRSS")

    def added(self) -> float | None:
        if self._before is None:
            return None
        return max(0.0, _status("VmHWM") - self._before)


def peak() -> float:
    """Megabytes of this process at its peak (Linux)."""
    return _status("VmHWM")


def _status(field: str) -> float:
    """A field of Linux's account of this process, in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return float(line.split()[1]) * 1024 / MEGABYTE
    raise OSError(f"/proc/self/status has no {field}")


def refuse_more_than_there_is() -> None:
    """More memory than the machine has ends in an error here, not in the system's choice of a
    process to end. (A sanitizer reserves more from the start, and is let.)"""
    with contextlib.suppress(ImportError, AttributeError, OSError, ValueError):
        import resource

        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if _status("VmSize") * MEGABYTE < most:
            hard = resource.getrlimit(resource.RLIMIT_AS)[1]
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def main() -> None:
    refuse_more_than_there_is()
    job = json.load(sys.stdin)
    module, name = job["function"].split(":")
    value = getattr(importlib.import_module(module), name)(**job["arguments"])
    Path(sys.argv[1]).write_text(json.dumps(value))


if __name__ == "__main__":
    main()
