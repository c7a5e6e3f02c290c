"""The example table that comes with the package."""

from __future__ import annotations

import csv
import gzip
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


def adult() -> dict[str, NDArray[np.float64] | NDArray[np.object_]]:
    """Return the Adult table (UCI, CC BY 4.0): which of 48,842 people earn more than 50,000 a year.

    Numeric columns are floats. The others are text, with None for missing cells. The target is
    "class".

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
