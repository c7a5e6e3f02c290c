"""What a command of the command line is, and the exit codes that all commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from cwboost.progress import Progress

SUCCESS, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 130, 141  # argparse exits with 2


@dataclass(frozen=True)
class Command:
    """One command: its help, its arguments, and the function that runs it."""

    name: str
    summary: str  # the line in `cwboost --help`
    description: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Progress], int]  # returns the exit code
