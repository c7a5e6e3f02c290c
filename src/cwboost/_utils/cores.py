"""The number of threads to use: checked if given, otherwise what this process may use."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from .checks import check_whole

THREADS_FROM = 20_000  # with fewer rows a second thread costs more time than it saves
MAX_THREADS = 1024  # more than any machine has; the system refuses to start very many


def check_threads(n_threads: Any) -> None:
    """Raise if `n_threads` is neither None nor a possible number of threads."""
    if n_threads is not None:
        check_whole("n_threads", n_threads, 1, MAX_THREADS)


def threads_for(n_threads: int | None, n_rows: int = THREADS_FROM) -> int:
    """Return the given number of threads; for None, all cores or 1 if there are few rows.

    Examples
    --------
    >>> threads_for(3), threads_for(None, n_rows=100)
    (3, 1)
    """
    check_threads(n_threads)
    if n_threads is not None:
        return int(n_threads)
    return 1 if n_rows < THREADS_FROM else available_cores()


def available_cores() -> int:
    """Return how many cores this process may use: its affinity, and the quota of its container.

    Examples
    --------
    >>> available_cores() >= 1
    True
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else (os.cpu_count() or 1)
    return math.ceil(min(cores, cpu_quota()))


def cpu_quota(groups: Path = Path("/sys/fs/cgroup")) -> float:
    """Return how many cores the control group of this process allows (containers have one).

    Infinite if there is no limit.
    """
    for files in ("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"):
        with suppress(OSError, ValueError):  # there is no such file, or no limit in it
            quota, period = map(int, " ".join((groups / f).read_text() for f in files).split())
            if quota > 0 and period > 0:
                return quota / period
    return math.inf
