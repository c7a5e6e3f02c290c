"""`cwboost predict`: predicts the rows of a table, or of a folder of Parquet files."""

from __future__ import annotations

import argparse
from collections.abc import Container
from typing import Any

from cwboost._utils.atomic_files import STANDARD, check_folder, names_folder
from cwboost._utils.text import quote
from cwboost.cli.arguments import COLUMN, add_model_and_table, check_outside
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_input import check_dates, read_model, read_model_and_rows
from cwboost.cli.predictions import name_predictions, predict_columns
from cwboost.frames.files import check_output, is_folder, is_table_file, write_table
from cwboost.frames.parquet import ParquetFiles, rewrite
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table
from cwboost.model.prediction import Findings
from cwboost.model.scoring import predict_rows, warn_of
from cwboost.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost predict`."""
    add_model_and_table(parser)
    parser.add_argument("-o", "--output", metavar="FILE", default=STANDARD,
                        help=".csv, .tsv, .jsonl or .parquet; for a folder also a folder; default: "
                        "print CSV")  # fmt: skip
    parser.add_argument(
        "--kind",
        choices=["response", "score"],
        default="response",
        help="in the units of the target, or scores (default response)",
    )
    parser.add_argument("--keep", metavar=COLUMN, nargs="+", action="extend", default=[],
                        help="columns of the table to write before the predictions")  # fmt: skip


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Predict, write the predictions and return the exit code."""
    to_folder = names_folder(args.output) or not is_table_file(args.output)
    if is_folder(args.table) and to_folder:
        return _predict_folder(args, progress)
    check_output(args.output)
    model, rows, fixed = read_model_and_rows(args)
    for name in args.keep:
        if name not in rows.table:
            rows.table[name]  # raises, and names the columns of the table
    out: dict[str, Any] = {name: rows.cells(name) for name in args.keep}
    for name, values in predict_columns(model, rows.table, args.kind, fixed).items():
        _check_kept(name, out)
        out[name] = values
    write_table(args.output, out)
    return SUCCESS


def _check_kept(name: str, kept: Container[str]) -> None:
    if name in kept:
        raise ValueError(
            f"--keep {quote(name)}: the predictions have a column of this name; rename the column "
            "of the table"
        )


def _predict_folder(args: argparse.Namespace, progress: Progress) -> int:
    """Predict a folder of Parquet files, batch by batch, into another folder."""
    check_folder(args.output)
    check_outside(f"-o {args.output}", args.table, args.output, folder=True)
    model = read_model(args.model)
    fixed = {"offset": args.offset, "exposure": args.exposure}
    by_name = [*fixed.values(), model.settings.offset, model.settings.exposure]
    chosen = [name for term in model.terms.values() if term.chosen for name in term.columns]
    needed = dict.fromkeys([*args.keep, *chosen, *(name for name in by_name if name is not None)])
    found = Findings()  # of all batches

    def predict_batch(table: Table) -> dict[str, Any]:
        rows = read(table)
        check_dates(model, rows, args.table)
        predictions = predict_rows(model, rows, args.kind, **fixed)
        found.add(predictions.found)
        out = name_predictions(model, predictions.values, args.kind)
        for name in out:
            _check_kept(name, args.keep)
        return out

    rewrite(ParquetFiles(args.table, list(needed)), args.keep, args.output, predict_batch, progress)
    warn_of(found)
    return SUCCESS


PREDICT_COMMAND = Command(
    "predict",
    "predict the rows of a table",
    "Predict every row of a table. Writes the columns of --keep, then 'prediction', and for\n"
    "classes 'probability[<class>]' for each class.",
    (
        "cwboost predict model.json new.csv -o predictions.csv",
        "cwboost predict model.json new.parquet --keep id -o predictions.parquet",
        "cwboost predict model.json parts/ -o predictions/",
        "cat new.jsonl | cwboost predict model.json - --kind score | head",
    ),
    add_arguments,
    run,
)
