"""Progress as text: shares, times and the line of a terminal. Does not know where it is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, takewhile
from typing import IO
from unicodedata import east_asian_width

from .base import ProgressTask

BAR_SIZES = (30, 20, 8)  # characters; few sizes, so that the bar does not wobble
LABEL_RANK = 99  # rank of words such as the name of a column, which are dropped first


def overall(tasks: Sequence[ProgressTask]) -> float | None:
    """Return the share of the outermost work that is done, including its inner work.

    Examples
    --------
    >>> overall([ProgressTask("fold", 2, 1, 0.0), ProgressTask("iteration", 100, 50, 0.0)])
    0.75
    """
    inner = 0.0
    for task in reversed(tasks):
        if not task.total:
            return None
        inner = min((task.done + inner) / task.total, 1.0)
    return inner


def seconds_left(tasks: Sequence[ProgressTask], now: float) -> float | None:
    """Return the seconds until the outermost work ends; None if unknown.

    Examples
    --------
    >>> task = ProgressTask("iteration", 100, 0, began=0.0)
    >>> task.done = 20
    >>> seconds_left([task], now=1.0)
    4.0
    """
    outermost, done = tasks[0], overall(tasks)
    left = None
    if len(tasks) == 1:
        rate = outermost.rate(now)
        if rate is not None and outermost.total is not None:
            left = (outermost.total - outermost.done) / rate
    elif done and now > outermost.began:
        left = (now - outermost.began) * (1.0 - done) / done
    if outermost.seconds is not None:
        limit = outermost.began + outermost.seconds - now
        left = limit if left is None else min(left, limit)
    return None if left is None else max(left, 0.0)


def duration(seconds: float) -> str:
    """Return a number of seconds as readable text.

    Examples
    --------
    >>> [duration(s) for s in (7.4, 185, 7500, 190_000)]
    ['7 s', '3:05 min', '2:05 h', '2 d 4 h']
    """
    s = round(seconds)
    minutes, hours = s // 60, s // 3600
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    if hours:
        return f"{hours}:{minutes % 60:02} h"
    return f"{minutes}:{s % 60:02} min" if minutes else f"{s} s"


def status_parts(
    tasks: Sequence[ProgressTask], now: float, final: bool = False
) -> list[tuple[int, str]]:
    """Return the texts beside the bar of the innermost work as (rank, text); the highest rank is
    dropped first.
    """
    task = tasks[-1]
    out = [(0, task.count())]
    numbers = {k: v for k, v in task.facts.items() if isinstance(v, int | float)}
    for k, (name, value) in enumerate(numbers.items()):
        label = name.removesuffix("_risk").replace("_", " ")
        text = f"{label} {value:#.5g}" if isinstance(value, float) else f"{label} {value}"
        out.append((2 + len(numbers) - k, text))  # the last number is dropped last
    rate, left = task.rate(now, final), seconds_left(tasks, now)
    if rate is not None:
        slow = f"{1 / rate:.1f} s each" if rate < 1 else f"{rate:.1f}/s"
        out.append((50, slow if rate < 10 else f"{rate:.0f}/s"))
    if final:
        out.append((1, f"in {duration(now - task.began)}"))
    elif left is not None:
        early = any(task.early for task in tasks)
        out.append((1, f"{'< ' if early else ''}{duration(math.ceil(left))} left"))
    words = [v for v in task.facts.values() if isinstance(v, str)]
    return out + [(LABEL_RANK, printable_text(word)) for word in words if not final]


def line(
    tasks: Sequence[ProgressTask], now: float, width: int, final: bool = False, *, bar: bool = True
) -> str:
    """Return the running work in one line of at most `width` columns; texts that do not fit are
    dropped.

    Examples
    --------
    >>> task = ProgressTask("iteration", 400, 0, began=0.0)
    >>> task.done, task.facts = 100, {"risk": 0.5, "validation_risk": 0.25, "choice": "age"}
    >>> line([task], 1.0, 79)
    '[##------]  100/400  risk 0.50000  validation 0.25000  100/s  3 s left  age'
    >>> line([task], 1.0, 30)
    '[##------]  100/400  3 s left'
    """
    share = tasks[-1].share() if bar else None
    outer = [printable_text(task.count(running=True)) for task in tasks[:-1]]
    parts = status_parts(tasks, now, final)
    words = [text for rank, text in parts if rank == LABEL_RANK]
    parts = [part for part in parts if part[0] != LABEL_RANK]

    def room() -> int:
        return width - text_width("  ".join([*outer, *(text for _, text in parts)])) - 2

    least = 0 if share is None else BAR_SIZES[-1] + 2
    while room() < least and max(parts)[0] > 1:
        parts.remove(max(parts))
    size = next((size for size in BAR_SIZES if share is not None and room() >= size + 2), 0)
    drawn = [f"[{'#' * int(size * (share or 0.0)):-<{size}}]"] if size else []
    shown = "  ".join([*outer, *drawn, *(text for _, text in parts)])
    return clip("  ".join([shown, *words]), width).rstrip()


def text_width(text: str) -> int:
    """Return how many columns of a terminal a text takes; some characters take two."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    return 2 if east_asian_width(character) in "WF" else 1


def clip(text: str, width: int) -> str:
    """Return the beginning of a text that fits the width."""
    ends = accumulate(map(_columns, text))
    return text[: sum(1 for _ in takewhile(lambda end: end <= width, ends))]


def printable_text(text: str) -> str:
    """Return the text without characters that move the cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def encodable(text: str, stream: IO[str]) -> str:
    """Return the text with characters replaced that the stream cannot encode."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return printable_text(text).encode(encoding, "replace").decode(encoding, "replace")
