"""Reads the model and the rows of the commands that use a fitted model."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

from cwboost._utils.atomic_files import STANDARD, temporary_folder
from cwboost.export.model_file import ModelFileError, load
from cwboost.frames.files import FileTable, Kind, is_table_file, read_table, standard_input
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
    return ModelAndRows(model, read_table(args.table, _column_kinds(model, fixed)), fixed)


def _column_kinds(model: Model, fixed: Mapping[str, str | None]) -> dict[str, Kind]:
    out: dict[str, Kind] = {
        name: "text" if facts.kind == "labels" else "numbers"
        for name, facts in model.columns.items()
    }
    for name in (*fixed.values(), model.settings.offset, model.settings.exposure):
        if name is not None:
            out[name] = "numbers"
    return out
