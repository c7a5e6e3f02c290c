"""Finds and removes the temporary files and folders of processes that were killed.

The name of a temporary file says which process of which machine made it. Files of a running process
are never removed. Does not know what is in the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from functools import cache
from pathlib import Path

# The mark in a name: 8 hexadecimal digits each for the machine, the process and a random number.
LIBRARY = "cwboost-"  # tells our files from other programs' files with such digits in their names
MARK = LIBRARY + "[0-9a-f]" * 24  # a pattern of glob and of regular expressions
ABANDONED = 86_400.0  # seconds without a change after which files of other machines are removed
CLEANED: set[tuple[Path, str]] = set()  # folders, and prefixes, that this process has looked for
BOOT, PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"  # of Linux


def make_mark() -> str:
    """Return a mark for the name of a temporary file of this process."""
    return f"{LIBRARY}{_machine()}{os.getpid():08x}{secrets.token_hex(4)}"


def remove_leftovers(folder: Path, prefix: str = ".") -> None:
    """Remove the temporary files and folders of killed processes from a folder.

    Their names consist of the prefix, a mark, and ".tmp". A folder ".NAME.MARK.old" was moved away
    to be replaced; it is removed if NAME is there. A process looks only once into a folder, which
    may hold many files.
    """
    if (folder, prefix) in CLEANED:
        return
    CLEANED.add((folder, prefix))
    for left in _find(folder, prefix):
        if is_abandoned(left):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    left.unlink()


def is_abandoned(path: Path) -> bool:
    """Return whether the process that made a temporary file or folder has ended.

    For another machine this is unknown, and the time of the last change decides.
    """
    process = _local_process(path)
    if process is not None:
        return not _is_running(process)
    try:
        changed = max(each.stat().st_mtime for each in (path, *path.rglob("*")))
    except OSError:  # another process is removing it
        return False
    return time.time() - changed > ABANDONED


def is_in_use(path: Path) -> bool:
    """Return whether a running process of this machine made a temporary file or folder."""
    process = _local_process(path)
    return process is not None and _is_running(process)


def _local_process(path: Path) -> int | None:
    """Return the process that made a temporary file or folder; None if it is of another machine."""
    marks = re.findall(MARK, path.name)
    digits = marks[-1].removeprefix(LIBRARY) if marks else ""
    if os.name == "posix" and digits.startswith(_machine()):
        return int(digits[8:16], 16)
    return None


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)  # sends nothing
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # a process of another user, or of a forged name
        return True
    return True


def _find(folder: Path, prefix: str) -> list[Path]:
    """Return the temporary files in a folder."""
    ours = re.compile(f"{re.escape(prefix)}{MARK}.*\\.tmp", re.DOTALL)
    replaced = re.compile(f"{re.escape(prefix)}(.+)\\.{MARK}\\.old", re.DOTALL)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [
            Path(entry.path)
            for entry in entries
            if ours.fullmatch(entry.name)
            or ((name := replaced.fullmatch(entry.name)) and (folder / name[1]).exists())
        ]
    return []


@cache
def _machine() -> str:
    """Return 8 hexadecimal digits that identify the machine since its start, or the container."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts += [BOOT.read_text(), os.readlink(PROCESSES)]  # noqa: PTH115
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
