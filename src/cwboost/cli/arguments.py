"""Arguments that several commands share, and the types of their values.

Does not know what the commands do with them (see commands/).
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from cwboost._utils.atomic_files import STANDARD, check_name, follow_links
from cwboost._utils.cores import MAX_THREADS
from cwboost._utils.text import quote
from cwboost.frames.files import would_read
from cwboost.losses import LOSSES, Loss
from cwboost.stopping import MAX_COUNT
from cwboost.terms.styles import STYLES

from .streams import is_closed

T = TypeVar("T")
COLUMN = "COLUMN"
PLOT_ENDINGS = (".png", ".svg", ".pdf")
TABLE = "CSV, Parquet or JSON lines, or a folder of Parquet files; - is standard input"
MODEL = "a model written by cwboost fit"
RATE = "learning rate, usually 0.01 to 0.3"
THREADS = "number of threads; the result does not depend on it"
INPUTS = {"table": "TABLE", "model": "MODEL"}  # what commands read, by the name of the argument
OUTPUTS = {"output": "-o", "to": "--to", "plot": "--plot", "trials": "--trials"}  # and write
RESUMED = {"checkpoint": "--checkpoint", "file": "--file"}  # from which a command can continue


def check_inputs(args: argparse.Namespace) -> None:
    """Raise if the name of a table or model is empty, or standard input is needed but closed."""
    for name, shown in INPUTS.items():
        file = getattr(args, name, None)
        if file is not None:
            check_name(file)
        if file == STANDARD and is_closed(sys.stdin):
            raise ValueError(f"{shown}: standard input is closed; give the name of a file")


def check_outputs(args: argparse.Namespace) -> None:
    """Raise if a command cannot write its results, or would overwrite a file that it reads."""
    files = [getattr(args, name, None) for name in OUTPUTS]
    if is_closed(sys.stdout) and all(file in (None, STANDARD) for file in files):
        raise ValueError(
            "standard output is closed, so the result cannot be printed; redirect it, such as with "
            "'> FILE'"
        )
    check_different(args)
    for name, option in (OUTPUTS | RESUMED).items():
        written = getattr(args, name, None)
        for source, shown in INPUTS.items():
            read = getattr(args, source, None)
            if _is_same_file(written, read):
                raise ValueError(
                    f"{option} {written} would overwrite {shown}, which the command reads; "
                    "give another file"
                )
            if not (written in (None, STANDARD) or read in (None, STANDARD)):
                check_outside(f"{option} {written}", read, written)


def check_outside(option: str, table: Any, file: Any, folder: bool = False) -> None:
    """Raise if a file, or a folder of files, would become a part of the table that is read."""
    if would_read(table, file, folder):
        raise ValueError(
            f"{option} would become a part of {table}, which the command reads; write to a place "
            "outside of it"
        )


def check_different(args: argparse.Namespace) -> None:
    """Raise if a command would write two things to one file."""
    seen: dict[Path, str] = {}
    for name, option in (OUTPUTS | RESUMED).items():
        written = getattr(args, name, None)
        if written in (None, STANDARD):
            continue
        check_name(written)
        path = follow_links(written)
        if path in seen:
            raise ValueError(f"{seen[path]} and {option} both name {written}; give two files")
        seen[path] = option


def _is_same_file(one: Any, other: Any) -> bool:
    if {one, other} & {None, STANDARD}:
        return False
    try:
        return os.path.samefile(one, other)  # noqa: PTH121
    except (OSError, ValueError):  # one of them does not exist
        return False


# --- groups of arguments --------------------------------------------------------------------------


def add_terms_and_roles(parser: argparse.ArgumentParser) -> None:
    """Add what is fitted: the target, the terms, the loss and columns with special roles."""
    add = parser.add_argument_group("what is fitted").add_argument
    add("--target", metavar=COLUMN, help="the column to predict")
    add("--formula", metavar="TEXT", help="target and terms, such as 'y ~ s(age) + job'")
    add("--loss", type=loss, metavar="NAME",
        help=f"{', '.join(LOSSES)}; or quantile:0.9, huber:1.5, tweedie:1.7")  # fmt: skip
    add("--terms", choices=list(STYLES), help="terms of numeric columns (default auto)")
    add("--exclude", metavar=COLUMN, nargs="+", action="extend", default=[],
        help="columns that are not features")  # fmt: skip
    add("--weights", metavar=COLUMN, help="the column of row weights")
    add("--offset", metavar=COLUMN,
        help="the column of offsets, a known part of the score that is not fitted")  # fmt: skip
    add("--exposure", metavar=COLUMN,
        help="the column of exposures, for log links; log(exposure) is an offset")  # fmt: skip


def add_model_and_table(parser: argparse.ArgumentParser) -> None:
    """Add a model, a table of rows, and where to find offset and exposure."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    add_offset_and_exposure(parser)


def add_offset_and_exposure(parser: argparse.ArgumentParser) -> None:
    """Add the columns of a fitted model's offset and exposure."""
    hint = "if the fit did not name it, or named another column"
    parser.add_argument("--offset", metavar=COLUMN,
                        help="the column of offsets (known parts of the score) in TABLE, "
                        f"{hint}")  # fmt: skip
    parser.add_argument("--exposure", metavar=COLUMN,
                        help=f"the column of exposures in TABLE, {hint}")  # fmt: skip


def add_quiet(parser: argparse.ArgumentParser) -> Any:
    """Add the group of messages with --quiet, and return the group."""
    group = parser.add_argument_group("messages")
    group.add_argument("--quiet", action="store_true", help="show only warnings and errors")
    return group


def check_plot_name(options: argparse.Namespace, option: str, file: str) -> None:
    """Exit with a usage error if the ending of a file is not one of a plot."""
    if Path(file).suffix.lower() not in PLOT_ENDINGS:
        expected = ", ".join(PLOT_ENDINGS)
        options.parser.error(f"{option} {file}: expected a name that ends in {expected}")


# --- types of values ------------------------------------------------------------------------------


def _number(text: str, make: Callable[[str], T], fits: Callable[[T], bool], what: str) -> T:
    """Return the number that a text means; exit with a usage error if it does not fit."""
    with contextlib.suppress(ValueError):
        value = make(text)
        if fits(value):
            return value
    raise argparse.ArgumentTypeError(f"expected {what}, got {quote(text)}")


def positive(text: str) -> float:
    """Return a positive number."""
    return _number(text, float, lambda value: 0.0 < value < math.inf, "a positive number")


def whole(text: str) -> int:
    """Return a whole number that is at least 0."""
    return _number(text, int, lambda value: value >= 0, "a whole number >= 0")


def whole_positive(text: str) -> int:
    """Return a whole number that is at least 1."""
    return _number(text, int, lambda value: value >= 1, "a whole number >= 1")


def whole_between(low: int, high: int) -> Callable[[str], int]:
    """Return the type of whole numbers from low to high.

    Examples
    --------
    >>> whole_between(1, 8)("9")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: expected a whole number from 1 to 8, got '9'
    """
    what = f"a whole number from {low} to {high}"
    return lambda text: _number(text, int, lambda value: low <= value <= high, what)


threads = whole_between(1, MAX_THREADS)
iterations = whole_between(0, MAX_COUNT)


def share(text: str) -> float:
    """Return a number between 0 and 1."""
    return _number(text, float, lambda value: 0.0 < value < 1.0, "a number between 0 and 1")


def loss(text: str) -> Loss:
    """Return a loss given by its name, with its parameter after a colon."""
    name, colon, parameter = text.partition(":")
    if name not in LOSSES:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(LOSSES)}; got {quote(text)}")
    cls = LOSSES[name]
    try:
        if not colon:
            return cls()
        if cls.target == "numbers" and fields(cls):
            return cls(_parameter(parameter))  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{quote(text)}: {error}") from None
    raise argparse.ArgumentTypeError(f"{quote(text)}: this loss does not take a number")


def _parameter(text: str) -> float:
    """Return the parameter of a loss."""
    try:
        return float(text)
    except ValueError:
        raise ValueError("expected a number after the colon") from None
