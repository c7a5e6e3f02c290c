"""What a command of the command line is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

from cwboost.progress import Progress


@dataclass(frozen=True)
class Command:
    """One command: its help, its arguments, and the function that runs it."""

    name: str
    summary: str  # the line in `cwboost --help`
    description: str
    examples: tuple[str, ...]
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Progress], int]  # returns the exit code
