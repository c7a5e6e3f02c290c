"""Reads the model and the rows of the commands that use a fitted model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

from cwboost._utils.atomic_files import STANDARD, temporary_folder
from cwboost._utils.text import quote
from cwboost.export.model_file import ModelFileError, load
from cwboost.frames.columns import Numbers
from cwboost.frames.files import FileTable, is_table_file, read_table, standard_input
from cwboost.frames.table import Table
from cwboost.frames.text_cells import Kind
from cwboost.model.model import Model


class ModelAndRows(NamedTuple):
    """A model, rows, and the columns of offset and exposure as `Model.predict` takes them."""

    model: Model
    rows: FileTable
    fixed: dict[str, Any]


def read_model(file: str) -> Model:
    """Load a model from a file, or from standard input if the name is "-"."""
    if file != STANDARD:
        try:
            return load(file)
        except ModelFileError:
            if is_table_file(file):
                raise ValueError(
                    f"{file} is not a model file; give the model first, then the table"
                ) from None
            raise
    with temporary_folder() as folder:
        copy = folder / "standard input"
        copy.write_bytes(standard_input())
        try:
            return load(copy)
        except ValueError as error:
            raise ValueError(str(error).replace(str(copy), "standard input")) from None


def read_model_and_rows(args: argparse.Namespace) -> ModelAndRows:
    """Read MODEL and TABLE; columns get the types that the model knows."""
    if args.model == args.table == STANDARD:
        args.parser.error("MODEL and TABLE cannot both be standard input")
    model = read_model(args.model)
    fixed = {"offset": args.offset, "exposure": args.exposure}
    rows = read_table(args.table, _column_kinds(model, fixed))
    check_dates(model, rows.table, args.table)
    return ModelAndRows(model, rows, fixed)


def check_dates(model: Model, table: Table, file: str) -> None:
    """Raise if a column has numbers where the fit had dates.

    `Model.predict` takes such numbers as days since 1970. In a file they are more likely something
    else, such as seconds or years.
    """
    used = {name for term in model.terms.values() if term.chosen for name in term.columns}
    for name, facts in model.columns.items():
        if facts.unit != "dates" or name not in used or name not in table:
            continue
        column = table[name]
        if isinstance(column, Numbers) and column.unit == "numbers" and not column.missing.all():
            raise ValueError(
                f"{file}, column {quote(name)}: expected dates as in the fit, got numbers; convert "
                "the column to dates"
            )


def _column_kinds(model: Model, fixed: Mapping[str, str | None]) -> dict[str, Kind]:
    out: dict[str, Kind] = {
        name: "text" if facts.kind == "labels" else "dates" if facts.unit == "dates" else "numbers"
        for name, facts in model.columns.items()
    }
    for name in (*fixed.values(), model.settings.offset, model.settings.exposure):
        if name is not None:
            out[name] = "numbers"
    return out
