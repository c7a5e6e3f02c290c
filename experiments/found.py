"""The findings of an experiment: tables, a verdict and its reason, as Markdown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Table:
    """A table of text cells and of numbers, which are shown with three significant digits."""

    head: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""

    def markdown(self) -> str:
        lines = [list(self.head), *([cell(value) for value in row] for row in self.rows)]
        rule = "|---|" + "--:|" * (len(self.head) - 1)
        head, *body = ("| " + " | ".join(row) + " |" for row in lines)
        title = [f"{self.title}:", ""] if self.title else []
        return "\n".join([*title, head, rule, *body])


@dataclass(frozen=True)
class Finding:
    """The comparison of the paper with this run."""

    verdict: Verdict
    why: str
    tables: Sequence[Table] = field(default_factory=list)

    def markdown(self) -> str:
        verdict = f"**The claim {self.verdict}.** {self.why}"
        return "\n\n".join([verdict, *(table.markdown() for table in self.tables)])


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


def judged(conditions: dict[str, bool]) -> Verdict:
    """Return the verdict: all parts hold, some, or none."""
    held = [bool(met) for met in conditions.values()]
    return "holds" if all(held) else "holds in part" if any(held) else "does not hold"


def listed(values: Sequence[float], digits: int = 3) -> str:
    """Return numbers as a list in words, such as "1.2, 3.4 and 5.6"."""
    texts = [number(float(value), digits) for value in values]
    return texts[0] if len(texts) == 1 else ", ".join(texts[:-1]) + f" and {texts[-1]}"
