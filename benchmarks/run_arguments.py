"""The arguments that `quality` and `recover` share: both store every fit and print tables of them.

Does not know which fits there are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from .pages import fill


def add_run_arguments(
    parser: argparse.ArgumentParser, block: str, models: Iterable[str], results: Path
) -> None:
    """Add the arguments; `block` is the name of the tables in a page of the docs."""
    models = list(models)
    parser.add_argument("--who", nargs="+", choices=models, default=models)
    parser.add_argument("--again", action="store_true", help="also run fits that are stored")
    parser.add_argument("--rivals-python", help="interpreter that has the other libraries")
    parser.add_argument("--table", action="store_true", help="only print the tables of stored fits")
    parser.add_argument("--into", type=Path, help=f"page whose block '{block}' gets the tables")
    parser.add_argument("--results", type=Path, default=results)
    parser.set_defaults(block=block)


def choose_interpreters(arguments: argparse.Namespace) -> dict[bool, str]:
    """Return the Python interpreters, by whether a model is one of cwboost."""
    return {True: sys.executable, False: arguments.rivals_python or sys.executable}


def publish(arguments: argparse.Namespace, tables: str) -> None:
    """Print the tables, and write them into the page of `--into`."""
    print(tables)
    if arguments.into is not None:
        fill(arguments.into, {arguments.block: tables})
