"""`cwboost export`: writes a model for other programs."""

from __future__ import annotations

import argparse

from cwboost._utils.atomic_files import STANDARD, write_output
from cwboost.cli.arguments import COLUMN, MODEL, add_offset_and_exposure
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_input import read_model
from cwboost.export.registry import EXPORTS, find_export, list_endings
from cwboost.export.sql_text import DIALECTS
from cwboost.frames.files import check_output
from cwboost.progress import Progress

# The options of the formats, and the names of their arguments. "table" is a file in other commands.
OPTIONS = {"table": "sql_table"} | {
    name: name for name in ("dialect", "keep", "kind", "offset", "exposure")
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost export`."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--to", metavar="FILE", required=True, help="the file or folder to write")
    parser.add_argument("--dialect", choices=list(DIALECTS), help="SQL dialect (default duckdb)")
    parser.add_argument("--table", dest="sql_table", type=_table_name, metavar="NAME",
                        help="SQL: the name of the table (default table)")  # fmt: skip
    parser.add_argument("--keep", metavar=COLUMN, nargs="+", action="extend",
                        help="SQL: columns of the table that come first in the result")  # fmt: skip
    parser.add_argument("--kind", choices=["response", "score"],
                        help="SQL, ONNX: what is computed (default response)")  # fmt: skip
    add_offset_and_exposure(parser)


def _table_name(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("expected the name of a table in the database, got ''")
    return text


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Export the model and return the exit code."""
    del progress
    name = "sql" if args.to == STANDARD else find_export(args.to)
    if name is None:
        args.parser.error(f"--to {args.to}: expected {list_endings()}")
    assert name is not None
    export = EXPORTS[name]
    values = {option: getattr(args, name) for option, name in OPTIONS.items()}
    given = {option: value for option, value in values.items() if value is not None}
    for option in given:
        if option not in export.options:
            takes = [known for known in EXPORTS.values() if option in known.options]
            args.parser.error(f"--{option} is only for {list_endings(takes)}")
    if export.is_folder:
        export.write(read_model(args.model), args.to, **given)
        return SUCCESS
    check_output(args.to, table=False)
    model = read_model(args.model)
    with write_output(args.to) as temporary:
        export.write(model, temporary, **given)
    return SUCCESS


EXPORT_COMMAND = Command(
    "export",
    "write a model as SQL, ONNX, Excel, CSV tables or JSON",
    "Write a model for other programs. The ending of the name decides the format: .sql, .onnx,\n"
    ".xlsx, .json, or a folder for CSV tables. '-' prints the SQL.",
    (
        "cwboost export model.json --to model.sql --dialect postgres --table people",
        "cwboost export model.json --to model.onnx",
        "cwboost export model.json --to tables/",
    ),
    add_arguments,
    run,
)
