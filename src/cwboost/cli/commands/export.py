"""`cwboost export`: writes a model for other programs."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cwboost._utils.atomic_files import STANDARD, write_output
from cwboost.cli.arguments import COLUMN, MODEL, add_offset_and_exposure
from cwboost.cli.command import SUCCESS, Command
from cwboost.cli.model_input import read_model
from cwboost.export.sql import DIALECTS
from cwboost.frames.files import check_output
from cwboost.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost export`."""
    parser.add_argument("model", metavar="MODEL", help=MODEL)
    parser.add_argument("--to", metavar="FILE", required=True, help="the file or folder to write")
    parser.add_argument("--dialect", choices=list(DIALECTS), help="SQL dialect (default duckdb)")
    parser.add_argument("--table", metavar="NAME",
                        help="SQL: the name of the table (default table)")  # fmt: skip
    parser.add_argument("--keep", metavar=COLUMN, nargs="+", action="extend",
                        help="SQL: columns of the table that come first in the result")  # fmt: skip
    parser.add_argument("--kind", choices=["response", "score"],
                        help="SQL, ONNX: what is computed (default response)")  # fmt: skip
    add_offset_and_exposure(parser)


def run(a: argparse.Namespace, bar: Progress) -> int:
    """Export the model and return the exit code."""
    del bar
    path = Path(a.to)
    folder = a.to.endswith(("/", os.sep)) or path.is_dir() or (not path.suffix and a.to != STANDARD)
    ending = "" if folder else ".sql" if a.to == STANDARD else path.suffix.lower()
    if ending not in ("", ".sql", ".onnx", ".xlsx", ".json"):
        a.parser.error(f"--to {a.to}: expected .sql, .onnx, .xlsx, .json or a folder")
    for option, endings in {
        "dialect": (".sql",),
        "table": (".sql",),
        "keep": (".sql",),
        "kind": (".sql", ".onnx"),
        "offset": (".sql", ".onnx"),
        "exposure": (".sql", ".onnx"),
    }.items():
        if getattr(a, option) is not None and ending not in endings:
            a.parser.error(f"--{option} is for {' and '.join(endings)} only")
    if not folder:
        check_output(a.to, table=False)
    model = read_model(a.model)
    given = {"dialect": a.dialect, "table": a.table, "keep": a.keep, "kind": a.kind,
             "offset": a.offset, "exposure": a.exposure}  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if folder:
        model.to_csv(a.to)
        return SUCCESS
    with write_output(a.to) as temporary:
        if ending == ".sql":
            query = model.to_sql(**given)
            temporary.write_text(query.rstrip() + "\n", encoding="utf-8", newline="\n")
        elif ending == ".onnx":
            temporary.write_bytes(model.to_onnx(**given).SerializeToString())
        elif ending == ".xlsx":
            model.to_excel(temporary)
        else:
            model.save(temporary)
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
