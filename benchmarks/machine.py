"""Facts about the machine of a measurement: processor, cores, date, versions."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("src", "core")


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
