"""`cwboost report`: writes a model as an HTML page."""

from __future__ import annotations

import argparse

from cwboost._utils.atomic_files import write_output
from cwboost.cli.arguments import COLUMN, MODEL, TABLE, add_offset_and_exposure, whole_between
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_input import read_model, read_model_and_rows
from cwboost.frames.files import check_output
from cwboost.progress import Progress
from cwboost.report.page import MAX_ROWS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost report`."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("table", metavar="TABLE", nargs="?", help=TABLE)
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html",
                        help="the page (default report.html)")  # fmt: skip
    parser.add_argument("--target", metavar=COLUMN,
                        help="the target in TABLE, if not the column of the fit")  # fmt: skip
    parser.add_argument("--weights", metavar=COLUMN,
                        help="the row weights in TABLE, if not the column of the fit")  # fmt: skip
    add_offset_and_exposure(parser)
    parser.add_argument("--rows", type=whole_between(0, MAX_ROWS), default=0, metavar="N",
                        help="include the first N rows of TABLE, to choose from in the page; "
                        "everything else in it is aggregated (default 0)")  # fmt: skip
    parser.add_argument("--title", help="title of the page")


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Write the page and return the exit code."""
    given = {name: getattr(args, name) for name in ("weights", "offset", "exposure")}
    alone = [name for name, value in (given | {"target": args.target}).items() if value is not None]
    if args.table is None and (alone or args.rows):
        args.parser.error(f"--{alone[0] if alone else 'rows'} needs a TABLE")
    check_output(args.output, table=False)
    if args.table is None:
        model, table = read_model(args.model), None
    else:
        model, rows, _ = read_model_and_rows(args)
        table = rows.table
    with write_output(args.output) as temporary:
        model.report(temporary, table, args.target, rows=args.rows, title=args.title, **given)
    progress.say("done", f"written to {args.output}", output=args.output)
    return SUCCESS


REPORT_COMMAND = Command(
    "report",
    "write a model as an HTML page",
    "Write one HTML file that needs neither a server nor the network: effects, importance, the\n"
    "path of the fit, and predictions that follow sliders. With a TABLE that has the target,\n"
    "also quality figures and calibration on its rows.",
    (
        "cwboost report model.json -o report.html",
        "cwboost report model.json new.csv -o report.html",
    ),
    add_arguments,
    run,
)
