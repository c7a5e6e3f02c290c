"""The findings of an experiment: figures by claim, an explanation and tables, as Markdown."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

ONLY_PLOTTED = "plot only"  # the cell of a number that the paper shows as a plot only
# Cells that are right-aligned.
FIGURES = re.compile(rf"[-+0-9.,/%()\[\]e ]*|out of memory|none|{ONLY_PLOTTED}")


@dataclass(frozen=True)
class Table:
    """A table of text cells and of numbers, which are shown with three significant digits."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    def markdown(self) -> str:
        lines = [list(self.head), *([cell(value) for value in row] for row in self.rows)]
        columns = zip(*lines[1:], strict=True) if self.rows else []
        right = [all(FIGURES.fullmatch(x) for x in cells) for cells in columns]
        rule = "|" + "".join("--:|" if figures else "---|" for figures in right)
        head, *body = ("| " + " | ".join(row) + " |" for row in lines)
        title = [f"{self.title}:", ""] if self.title else []
        return "\n".join([*title, head, rule, *body])


@dataclass(frozen=True)
class Finding:
    """What a run found: the figures of each claim (see claims.py), in words, and in tables.

    `so_far`: some tasks have not run yet.
    """

    figures: Mapping[str, Sequence[float]]
    why: str
    tables: Sequence[Table] = field(default_factory=list)
    so_far: bool = False


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return number(float(value))


def number(value: float, digits: int = 3) -> str:
    """Format a number with this number of significant digits; powers of ten only for many zeros."""
    if math.isnan(value):
        return ""
    if value == 0:
        return "0"
    size = int(f"{value:.{digits - 1}e}".partition("e")[2])  # after rounding
    if -5 < size < digits:
        return f"{value:.{max(0, digits - 1 - size)}f}"
    return f"{value:,.0f}" if 0 < size < 10 else f"{value:.{digits - 1}e}"


def listed(values: Sequence[float], digits: int = 3) -> str:
    """Return numbers as a list in words, such as "1.2, 3.4 and 5.6"."""
    texts = [number(float(value), digits) for value in values]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + f" and {texts[-1]}"
