"""`cwboost plot`: draws a model, or the effect of one term."""

from __future__ import annotations

import argparse
from inspect import signature
from pathlib import Path
from typing import Any

from cwboost._utils.atomic_files import STANDARD, write_output
from cwboost._utils.text import quote
from cwboost.cli.arguments import (
    MODEL,
    PLOT_ENDINGS,
    add_offset_and_exposure,
    check_plot_name,
    whole,
    whole_positive,
)
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_input import read_model, read_model_and_rows
from cwboost.frames.files import check_output
from cwboost.plotting.registry import DEFAULT, DISPLAYS, find_display
from cwboost.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost plot`."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument(
        "term",
        metavar="TERM",
        nargs="?",
        help="a term, or a column (the sum of its terms); default: all",
    )
    parser.add_argument("-o", "--output", metavar="FILE", required=True,
                        help=f"{', '.join(PLOT_ENDINGS)}; - prints a PNG")  # fmt: skip
    parser.add_argument("--kind", choices=tuple(DISPLAYS),
                        help="what is drawn (default effects)")  # fmt: skip
    parser.add_argument("--scale", choices=["score", "response", "ratio"],
                        help="scale of effects: the score, predictions, or factors")  # fmt: skip
    parser.add_argument("--table", metavar="TABLE",
                        help="for --kind explanation: the table of the row")  # fmt: skip
    parser.add_argument("--row", type=whole, metavar="N",
                        help="for --kind explanation: the number of the row, from 0 "
                        "(default 0)")  # fmt: skip
    parser.add_argument("--dpi", type=whole_positive, default=150, metavar="N",
                        help="pixels per inch of a PNG (default 150)")  # fmt: skip
    add_offset_and_exposure(parser)


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Draw the model and return the exit code."""
    del progress
    if args.output != STANDARD:
        check_plot_name(args, "-o", args.output)
    ending = PLOT_ENDINGS[0] if args.output == STANDARD else Path(args.output).suffix.lower()
    kind = args.kind or DEFAULT
    if args.term is not None and kind != DEFAULT:
        args.parser.error(f"--kind {kind} draws the whole model; leave out {quote(args.term)}")
    display = find_display(kind)
    options = _read_options(args, kind, display)
    check_output(args.output, table=False)
    if getattr(display, "needs_row", False):
        model, rows, _ = read_model_and_rows(args)
        options["table"] = rows.table
    else:
        model = read_model(args.model)
    from cwboost.plotting.plot import save

    with write_output(args.output) as temporary:
        save(model, temporary, args.term, kind, form=ending[1:], dpi=args.dpi, **options)
    return SUCCESS


def _read_options(args: argparse.Namespace, kind: str, display: Any) -> dict[str, Any]:
    """Return the options of the display; exit with a usage error if it does not take them."""
    needs_row = getattr(display, "needs_row", False)
    if needs_row and args.table is None:
        args.parser.error(f"--kind {kind} draws one row; give its --table")
    row = {"table": args.table, "row": args.row, "offset": args.offset, "exposure": args.exposure}
    given = {name: value for name, value in row.items() if value is not None}
    if given and not needs_row:
        args.parser.error(f"--{next(iter(given))} does not apply to --kind {kind}")
    given.pop("table", None)
    if args.scale is not None:
        if "scale" not in signature(display.from_estimator).parameters:
            args.parser.error(f"--scale does not apply to --kind {kind}")
        given["scale"] = args.scale
    return given


PLOT_COMMAND = Command(
    "plot",
    "draw a model, or the effect of one term",
    "Draw all effects on a page, the effect of one term or column, or another plot of the model\n"
    "(--kind). The ending of the file name decides the format.",
    (
        "cwboost plot model.json -o effects.png",
        "cwboost plot model.json age -o age.svg --scale response",
        "cwboost plot model.json --kind traces -o traces.pdf",
        "cwboost plot model.json --kind explanation --table new.csv --row 3 -o why.png",
    ),
    add_arguments,
    run,
)
