"""The table of an importance that was estimated several times, with standard errors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable

from .grouping import By


def importance_table(by: By, values: Mapping[str, Floats]) -> ResultTable:
    """Return the mean of each name's values with its standard error, the largest mean first.

    Examples
    --------
    >>> importance_table("column", {"a": np.array([1.0, 3.0]), "b": np.array([4.0, 4.0])})
    column  importance  standard error
         b           4               0
         a           2               1
    (2 rows)
    """
    names = sorted(values, key=lambda name: -float(values[name].mean()))
    found = [values[name] for name in names]
    return ResultTable(
        {
            by: np.array(names, dtype=object),
            "importance": np.array([np.mean(x) for x in found]),
            "standard error": np.array([np.std(x, ddof=1) / np.sqrt(len(x)) for x in found]),
        }
    )
