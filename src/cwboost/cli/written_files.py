"""Which of its files a command has written, for the message after Ctrl-C.

Does not know which commands write which files (see arguments.py for the names of the options).
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cwboost._utils.atomic_files import STANDARD

from .arguments import OUTPUTS, RESUMED


class WrittenFiles:
    """The state of the output files before the command; compares it with the state now."""

    def __init__(self, args: argparse.Namespace) -> None:
        files = [getattr(args, name, None) for name in OUTPUTS]
        self._before = {str(file): _state(file) for file in files if file not in (None, STANDARD)}
        self._args = args

    def describe_interrupt(self) -> str:
        """Return what the command has written, and whether it can resume."""
        written = [file for file, state in self._before.items() if _state(file) != state]
        resumption = describe_resumption(self._args)
        if written:
            have = "is" if len(written) == 1 else "are"
            done = f"{' and '.join(written)} {have} written"
        else:
            done = "no result was written" if resumption else "nothing was written"
        return f"interrupted; {done}{resumption}"


def _state(file: str | Path) -> tuple[int, int] | None:
    """Return what changes when a file is replaced or files are added to a folder."""
    try:
        found = os.stat(file)  # noqa: PTH116
    except (OSError, ValueError):
        return None
    return found.st_ino, found.st_mtime_ns


def describe_resumption(args: argparse.Namespace) -> str:
    """Return the end of a sentence: from which file the same command resumes, if it is there."""
    files = [getattr(args, name, None) for name in RESUMED]
    there = [file for file in files if file is not None and Path(file).is_file()]
    return f"; the same command resumes from {there[0]}" if there else ""
