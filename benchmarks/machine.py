"""Facts about the machine of a measurement: processor, cores, date, versions, load."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("src", "core")
QUIET = 0.15  # cores that other processes may use while times are measured
STAT = Path("/proc/stat")


def facts(distributions: Iterable[str]) -> dict[str, Any]:
    """Return the machine, the date, and the versions of the distributions that are installed."""
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": platform.system(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "versions": {"Python": platform.python_version(), **versions(distributions)},
    }  # fmt: skip


def describe(distributions: Iterable[str]) -> str:
    return sentence(facts(distributions))


def sentence(facts: dict[str, Any]) -> str:
    load = "" if facts["load"] is None else f", load up to {facts['load']:g}"
    cores = f"{facts['cores']} core{'s' * (facts['cores'] != 1)}"
    versions = facts["versions"]
    if facts["commit"]:
        versions = versions | {"commit": facts["commit"]}
    named = ", ".join(f"{name} {number}" for name, number in versions.items())
    return f"{facts['processor']}, {cores}{load}, {facts['date']}; {named}"


def busy_seconds() -> float | None:
    """Return the seconds that all cores have worked since the start; None if this is not known."""
    if not STAT.exists():
        return None
    user, nice, system, _, _, irq, soft, steal = map(int, STAT.read_text().split()[1:9])
    ticks: int = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft + steal) / ticks


def busy_cores(seconds: float = 1.0) -> float:
    """Return how many cores are in use: in the next seconds or, if that is not known, as the load
    of the last minute."""
    before, began = busy_seconds(), time.perf_counter()
    if before is None:
        return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    time.sleep(seconds)
    return ((busy_seconds() or 0.0) - before) / (time.perf_counter() - began)


def wait_until_quiet(most: float = 3600.0) -> tuple[float, float]:
    """Wait until other processes use hardly any core, or for at most `most` seconds.

    Return the cores in use at the end, and the seconds of waiting.
    """
    began = time.perf_counter()
    while (busy := busy_cores()) > QUIET and time.perf_counter() - began < most:
        time.sleep(2.0)
    return busy, time.perf_counter() - began


def processor() -> str:
    """Return the name of the processor as the system reports it."""
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def versions(distributions: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in distributions:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def commit() -> str | None:
    """Return the commit of this checkout, with + if files have changed; None outside a checkout."""
    words = ["git", "describe", "--always", "--abbrev=10", "--dirty=+", "--exclude=*"]
    try:
        found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout.strip()


def source_commit() -> str | None:
    """Return the last commit that changed the library, with + if its files have changed since."""
    words = ["git", "log", "-1", "--format=%h", "--abbrev=10", "--", *SOURCES]
    changed = ["git", "status", "--porcelain", "--", *SOURCES]
    try:
        found, dirty = (
            subprocess.run(x, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for x in (words, changed)
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return found + "+" * bool(dirty)
