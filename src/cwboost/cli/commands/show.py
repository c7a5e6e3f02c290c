"""`cwboost show`: prints a model's summary and curves, or one effect."""

from __future__ import annotations

import argparse

from cwboost._utils.text import format_table
from cwboost.cli.arguments import MODEL, whole_between
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_input import read_model
from cwboost.cli.model_text import curve_lines, effect_table, model_summary
from cwboost.frames.files import check_output, write_table
from cwboost.progress import Progress

POINTS = 20  # printed points of a curve, about
MAX_POINTS = 1_000_000  # their text takes about 150 MB


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost show`."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--term", metavar="NAME",
                        help="a term, or a column (the sum of its terms)")  # fmt: skip
    parser.add_argument("--points", type=whole_between(1, MAX_POINTS), default=POINTS, metavar="N",
                        help=f"number of points of a curve (default {POINTS})")  # fmt: skip
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write the whole effect to a file instead")  # fmt: skip


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Print the model or an effect and return the exit code."""
    del progress
    if args.output is not None and args.term is None:
        args.parser.error("-o writes an effect; say which with --term")
    if args.output is not None:
        check_output(args.output)
    model = read_model(args.model)
    if args.term is not None:
        if args.output is not None:
            write_table(args.output, model.effect(args.term))
        else:
            print("\n".join(format_table(effect_table(model, args.term, args.points))))
        return SUCCESS
    print(model_summary(model))
    curves = curve_lines(model)
    if curves:
        print("\ncurves from the smallest to the largest value (effect on the score):")
        print("\n".join(curves))
    return SUCCESS


SHOW_COMMAND = Command(
    "show",
    "print a model, or one of its effects",
    "Print a model's summary and curves, or the effect of one term or column.",
    (
        "cwboost show model.json",
        "cwboost show model.json --term age",
        "cwboost show model.json --term age -o age.csv",
    ),
    add_arguments,
    run,
)
