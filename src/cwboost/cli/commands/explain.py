"""`cwboost explain`: shows what every column adds to the prediction of one row."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import numpy as np

from cwboost._utils.text import format_cell, format_table, printable
from cwboost.cli.arguments import add_model_and_table, whole
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_input import read_model_and_rows
from cwboost.cli.predictions import predict_columns
from cwboost.explain.explanation import explain
from cwboost.frames.files import check_output, write_table
from cwboost.progress import Progress

LONGEST_BAR = 24  # characters


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost explain`."""
    add_model_and_table(parser)
    parser.add_argument("--row", type=whole, default=0, metavar="N",
                        help="number of the row, from 0 (default 0)")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write the table to a file instead")  # fmt: skip


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Explain a row, print or write it, and return the exit code."""
    del progress
    if args.output is not None:
        check_output(args.output)
    model, rows, fixed = read_model_and_rows(args)
    explanation = explain(model, rows.table, args.row, **fixed)
    if args.output is not None:
        write_table(args.output, explanation)
        return SUCCESS
    shown: dict[str, Any] = dict(explanation)
    if model.n_outputs == 1:
        shown |= {"": _effect_bars(explanation)}
    print(f"row {args.row} of {args.table}\n")
    print("\n".join(format_table(shown)))
    one = rows.table.take(np.arange(rows.table.n_rows) == args.row)
    print()
    for name, values in predict_columns(model, one, "response", fixed).items():
        print(f"{printable(name)}: {format_cell(values[0])}")
    return SUCCESS


def _effect_bars(explanation: Mapping[str, Any]) -> list[str]:
    """Return a bar of plus or minus signs for the effect of every column."""
    is_column = [not str(name).startswith("(") for name in explanation["column"]]
    sizes = np.where(is_column, explanation["effect"], 0.0)
    top = float(np.abs(sizes).max(initial=0.0)) or 1.0
    return [("+" if s > 0 else "-") * round(LONGEST_BAR * abs(s) / top) for s in sizes.tolist()]


EXPLAIN_COMMAND = Command(
    "explain",
    "explain the prediction of one row",
    "Show what every column adds to the score of one row, the largest first. The effects and\n"
    "the intercept sum to the score.",
    (
        "cwboost explain model.json new.csv --row 0",
        "cwboost explain model.json new.csv --row 17 -o why.csv",
    ),
    add_arguments,
    run,
)
