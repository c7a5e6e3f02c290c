"""The formats a model can be exported to.

To add one, write a function `write(model, file, **options)` in a new file and add a line to
`EXPORTS`. The command `cwboost export` and `export` below then know it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cwboost._utils.atomic_files import check_name
from cwboost._utils.checks import is_one_of
from cwboost._utils.text import quote
from cwboost.model.model import Model, check_model

from .model_file import save
from .onnx import write_onnx
from .sql import write_sql
from .tables import to_csv, to_excel

FOLDER = "/"  # the ending of formats that are folders


@dataclass(frozen=True)
class Export:
    """A format that a model can be exported to.

    Attributes
    ----------
    ending : str
        The ending of its files, such as ".sql", or "/" if it is a folder of files.
    write : callable
        Writes a model: `write(model, file, **options)`.
    options : tuple of str
        The options that `write` takes.
    extra : str, optional
        The extra of the package that must be installed: `pip install 'cwboost[extra]'`.
    """

    ending: str
    write: Callable[..., None]
    options: tuple[str, ...] = ()
    extra: str | None = None

    def __post_init__(self) -> None:
        ending: Any = self.ending
        if ending != FOLDER and not (isinstance(ending, str) and ending.startswith(".")):
            raise ValueError(
                "Export: ending must start with '.', such as '.sql', or be '/' for a folder; got "
                f"{quote(ending)}"
            )
        if not callable(self.write):
            raise TypeError(
                "Export: write must be a function write(model, file, **options), got "
                f"{quote(self.write)}"
            )

    @property
    def is_folder(self) -> bool:
        return self.ending == FOLDER

    @property
    def shown(self) -> str:
        """The ending as messages show it."""
        return "a folder" if self.is_folder else self.ending


PREDICTION_OPTIONS = ("kind", "offset", "exposure")  # of formats that compute predictions
EXPORTS: dict[str, Export] = {
    "sql": Export(".sql", write_sql, ("dialect", "table", "keep", *PREDICTION_OPTIONS)),
    "onnx": Export(".onnx", write_onnx, ("numbers", "missing", *PREDICTION_OPTIONS), extra="onnx"),
    "excel": Export(".xlsx", to_excel, ("n",), extra="excel"),
    "json": Export(".json", save),
    "csv": Export(FOLDER, to_csv, ("n",)),
}


def _known_exports() -> dict[str, Export]:
    """Return `EXPORTS`; raise if a user added something that is not an Export."""
    for name, known in EXPORTS.items():
        if not isinstance(known, Export):
            raise TypeError(
                f"EXPORTS[{quote(name)}] must be an Export, such as Export('.txt', write), got "
                f"{quote(known)}"
            )
    return EXPORTS


def find_export(file: str) -> str | None:
    """Return the name of the format that a file name asks for; None if unknown.

    A name without an ending, one that ends with a slash, and an existing folder ask for a folder.

    Examples
    --------
    >>> find_export("model.sql"), find_export("tables/"), find_export("model.pdf")
    ('sql', 'csv', None)
    """
    path = Path(file)
    is_folder = file.endswith((FOLDER, os.sep)) or path.is_dir() or not path.suffix
    ending = FOLDER if is_folder else path.suffix.lower()
    return next((name for name, known in _known_exports().items() if known.ending == ending), None)


def list_endings(exports: list[Export] | None = None) -> str:
    """Return the endings of some or all formats, for messages.

    Examples
    --------
    >>> list_endings()
    '.sql, .onnx, .xlsx, .json or a folder'
    """
    *most, last = [known.shown for known in (exports or _known_exports().values())]
    return f"{', '.join(most)} or {last}" if most else last


def export(model: Model, file: Any, to: str | None = None, **options: Any) -> None:
    """Write a model in one of the formats of `EXPORTS`.

    Parameters
    ----------
    model : Model
    file : path
    to : str, optional
        The name of the format; by default the one that the ending of the file asks for.
    **options
        Options of the format.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> export(model, "model.sql", table="rows")
    """
    check_model(model, "export")
    check_name(file)
    name = find_export(os.fspath(file)) if to is None else to
    if not is_one_of(name, _known_exports()):
        known = f"one of {', '.join(EXPORTS)}" if to is not None else f"the ending {list_endings()}"
        raise ValueError(f"export: expected {known}, got {quote(str(file if to is None else to))}")
    unknown = [option for option in options if option not in EXPORTS[name].options]
    if unknown:
        takes = ", ".join(EXPORTS[name].options) or "no options"
        raise TypeError(f"export: the format {quote(name)} takes {takes}; got {quote(unknown[0])}")
    EXPORTS[name].write(model, file, **options)
