"""The table that comes with the package. Knows where it is and how it is written; nothing else."""

from __future__ import annotations

import csv
import gzip
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


def adult() -> dict[str, NDArray[np.float64] | NDArray[np.object_]]:
    """The Adult table (UCI, CC BY 4.0): 48,842 people; does one earn more than 50,000 a year?

    Columns of numbers are floats, the others text with None where a cell is missing; "class" is
    the target.

    Examples
    --------
    >>> table = adult()
    >>> len(table["age"]), sorted(set(table["class"]))
    (48842, ['<=50K', '>50K'])
    """
    packed = (files("cwboost") / "data" / "adult.csv.gz").read_bytes()
    lines = csv.reader(gzip.decompress(packed).decode("utf-8").splitlines())
    names = next(lines)
    columns = dict(zip(names, zip(*lines, strict=True), strict=True))
    return {name: _typed(cells) for name, cells in columns.items()}


def _typed(cells: tuple[str, ...]) -> NDArray[np.float64] | NDArray[np.object_]:
    if cells[0].isdigit():
        return np.array(cells, dtype=np.float64)
    return np.array([cell or None for cell in cells], dtype=object)
