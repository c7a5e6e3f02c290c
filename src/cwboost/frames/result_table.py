"""The table that cwboost returns: a dict of arrays that prints as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost._utils.text import count

MAX_SHOWN = 10  # rows that are printed; of longer tables the first and the last half of them


class ResultTable(dict[str, Any]):
    """A dict of arrays, one per column, that prints as a table.

    Every data frame library makes a frame of it: `pandas.DataFrame(table)`.

    Examples
    --------
    >>> ResultTable(age=np.array([30.0, 40.5]), effect=np.array([-1.0, 1.0]))
     age  effect
      30      -1
    40.5       1
    (2 rows)
    """

    def __repr__(self) -> str:
        names = list(self)
        if not names:
            return "(no columns)"
        n, half = len(self[names[0]]), MAX_SHOWN // 2
        if any(np.ndim(self[name]) != 1 for name in names):
            return dict.__repr__(self)
        rows = list(range(n)) if n <= MAX_SHOWN else [*range(half), None, *range(n - half, n)]
        cells = [names] + [
            ["..."] * len(names) if i is None else [_cell(self[name][i]) for name in names]
            for i in rows
        ]
        widths = [max(len(line[j]) for line in cells) for j in range(len(names))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        return "\n".join([*lines, f"({count(n, 'row')})"])


def _cell(value: Any) -> str:
    if value is None:
        return "(missing)"
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)
