"""How long work tells people and programs how far it is. Knows terminals, notebooks and JSON;
nothing of models.

Work begins, steps and ends; a `Progress` is told so and shows it in its own way: `ProgressLine` and
`RichProgress` on a terminal, `ProgressLines` in a log file, `NotebookProgress` in a notebook,
`ProgressLog` as JSON, `Progress` not at all. Work inside of work begins before the outer work ends.
`as_progress` finds the one that is wanted.

>>> class Spoken(Progress):  # a face of one's own: how often, and what it does
...     every = 0.0
...
...     def draw(self, now, final):
...         print(line(self.tasks, now, 64))
>>> seconds = iter(range(100))
>>> bar = Spoken(clock=lambda: next(seconds))
>>> with bar.work(2, "fold"):
...     for fold in (1, 2):
...         with bar.work(100, "iteration"):  # cb.fit(..., progress=bar) does the same
...             bar.step(50, risk=0.25)
...         bar.step(fold)
fold 1/2  [####----]   50/100  risk 0.25000  50/s  6 s left
[###############---------------]  fold 1/2  3.0 s each  3 s left
fold 2/2  [####----]   50/100  risk 0.25000  50/s  2 s left
[##############################]  fold 2/2  3.0 s each  0 s left

A step costs next to nothing: faces draw at most ten times a second, and the core of a fit calls
only as often as they do. A Progress belongs to one thread; a copy in another process is silent.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import IO, Any
from unicodedata import east_asian_width

EVERY = 0.1  # seconds between two updates of a terminal
EVERY_PAGE = 0.25  # of a notebook
EVERY_LINE = 10.0  # of a log file
WAIT = 2.0  # seconds after which work is long enough to be shown unasked
WINDOW = 15.0  # seconds that the rate is measured over
BAR, BARS = 30, (30, 20, 8)  # characters; few sizes, for it should not wobble
LONGEST = 40  # of a word in a notebook
WORD = 99  # how dispensable words are, such as the name of a column
SELF_EVIDENT = "iteration"  # of many counts the one that needs no name


@dataclass
class ProgressTask:
    """Work that has begun: how far it is, and since when."""

    what: str
    total: int | None
    done: int
    began: float
    seconds: float | None = None  # it ends after so many at the latest
    early: bool = False  # it may end before the total
    facts: dict[str, Any] = field(default_factory=dict)
    marks: deque[tuple[float, int]] = field(default_factory=deque)  # (time, done), newest last

    def __post_init__(self) -> None:
        self.first = self.done
        self.mark(self.began)

    def mark(self, now: float) -> None:
        """Notes how far it is, and forgets what the rate no longer needs."""
        self.marks.append((now, self.done))
        while len(self.marks) > 2 and self.marks[1][0] <= now - WINDOW:
            self.marks.popleft()

    def rate(self, now: float, final: bool = False) -> float | None:
        """Steps per second: of late, or over all."""
        since, done = (self.began, self.first) if final else self.marks[0]
        return (self.done - done) / (now - since) if now > since and self.done > done else None

    def share(self) -> float | None:
        """How much of it is done, 0 to 1."""
        return None if not self.total else min(self.done / self.total, 1.0)

    def count(self, running: bool = False) -> str:
        """Such as "fold 2/5"; of work that has work inside, the step that is running."""
        done = self.done + (running and self.done != self.total)
        name = "" if self.what in ("", SELF_EVIDENT) else f"{self.what} "
        if self.total is None:
            return f"{name}{done}"
        return f"{name}{done:{len(str(self.total))}}/{self.total}"


class Progress:
    """Is told of work that takes long; this one shows nothing.

    Parameters
    ----------
    wait : float
        Seconds from now in which nothing is shown.
    keep : bool
        Whether the last state stays when all work has ended.
    clock : callable
        Gives seconds.

    Attributes
    ----------
    every : float or None
        Seconds between two steps that it wants to be told of; None: it wants none.
    tasks : list of Task
        Work that has begun and not ended, the outermost first.

    Examples
    --------
    >>> bar = Progress()
    >>> with bar.work(3, "fold"):
    ...     bar.step(1, risk=0.5)
    ...     bar.tasks[0].count()
    'fold 1/3'
    """

    every: float | None = None
    shown = False

    def __init__(
        self,
        *,
        wait: float = 0.0,
        keep: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock, self.keep = clock, keep
        self.tasks: list[ProgressTask] = []
        self._next = self._from = clock() + wait  # when to draw next, and when at the earliest

    def __reduce__(self) -> Any:
        return Progress, ()  # another process has no screen

    def begin(
        self,
        total: int | None,
        what: str = "",
        *,
        done: int = 0,
        seconds: float | None = None,
        early: bool = False,
    ) -> None:
        """Work of `total` steps (None: not known) begins, inside of what has begun before.

        `done` of them are done already; it takes `seconds` at most; it may end `early`.
        """
        self.tasks.append(ProgressTask(what, total, done, self.clock(), seconds, early))

    def step(self, done: int, **facts: Any) -> None:
        """`done` steps of the innermost work are done; numbers and words about it."""
        if not self.tasks:
            raise RuntimeError("progress: nothing has begun; call begin(total, what) before step")
        task = self.tasks[-1]
        if done == task.done:
            return
        task.done, task.facts = done, facts
        if self.every is not None:
            now = self.clock()
            if now >= self._next:
                self._next = now + self.every
                task.mark(now)
                self._guarded(self.draw, now, False)

    def end(self) -> None:
        """The innermost work has ended, or failed."""
        try:
            if len(self.tasks) == 1:
                now = self.clock()
                if self.keep and self.every is not None and now >= self._from:
                    self._guarded(self.draw, now, True)
                self._guarded(self.leave if self.keep else self.clear)
        finally:
            self.tasks.pop()

    @contextmanager
    def work(self, total: int | None, what: str = "", **more: Any) -> Iterator[None]:
        """Begins work and ends it, whatever happens."""
        self.begin(total, what, **more)
        try:
            yield
        finally:
            self.end()

    def stage(self, what: str) -> None:
        """Before work that can be counted: what is being done."""

    def say(self, kind: str, message: str, **facts: Any) -> None:
        """A message of kind "warning", "error", "note" or "done"."""

    def close(self) -> None:
        """The screen as it was."""
        self._guarded(self.clear)

    # --- what a face is ---------------------------------------------------------------------------

    def draw(self, now: float, final: bool) -> None:
        """Shows `tasks`; `final`: the outermost is about to end, and this will stay."""

    def clear(self) -> None:
        """Takes away what is shown."""

    def leave(self) -> None:
        """Leaves what is shown, for good."""

    def _guarded(self, show: Callable[..., None], *arguments: Any) -> None:
        """Shows something; silent for ever when nobody is there to look at it."""
        try:
            show(*arguments)
        except (OSError, ValueError):  # a pipe or file that was closed
            self.every = None


class QuietProgress(Progress):
    """Says nothing but what must be said: warnings and errors."""

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(**options)
        self.stream = stream

    def say(self, kind: str, message: str, **facts: Any) -> None:  # noqa: ARG002
        if kind in ("warning", "error"):
            mark = "" if kind == "error" else f"{kind}: "
            self.stream.write(f"cwboost: {mark}{message}\n")


class ProgressLine(QuietProgress):
    """One line on a terminal, written over and over. Others may write: it goes out of their way."""

    every = EVERY

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        self._columns = 0  # of the terminal that are written on
        self._real: dict[str, tuple[Any, Any]] = {}

    def stage(self, what: str) -> None:
        self._guarded(self.show, f"{what} ...")

    def draw(self, now: float, final: bool) -> None:
        self.show(line(self.tasks, now, self.width(), final))

    def width(self) -> int:
        """Columns of the terminal but the last, after which some go to the next line."""
        try:
            found = os.get_terminal_size(self.stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            found = 0
        return max(1, (found or shutil.get_terminal_size().columns) - 1)

    def show(self, text: str) -> None:
        text = clipped(_sendable(text, self.stream), self.width())
        before, self._columns = self._columns, columns(text)
        self.shown = True
        self._step_aside()
        self.stream.write("\r" + text + " " * (before - self._columns))
        self.stream.flush()

    def clear(self) -> None:
        if self.shown:
            self.shown = False
            self._step_back()
            self.stream.write("\r" + " " * self._columns + "\r")
            self.stream.flush()
        self._columns = 0

    def leave(self) -> None:
        if self.shown:
            self.shown = False
            self._step_back()
            self.stream.write("\n")
            self.stream.flush()
        self._columns = 0

    def say(self, kind: str, message: str, **facts: Any) -> None:  # noqa: ARG002
        self.close()
        mark = f"{kind}: " if kind in ("warning", "note") else ""
        text = message if kind == "done" else f"cwboost: {mark}{message}"
        self.stream.write(text + "\n")

    def _step_aside(self) -> None:
        """While the line is there, what is printed takes it away first."""
        for name in ("stdout", "stderr"):
            real = getattr(sys, name)
            if name not in self._real and _is_terminal(real):
                self._real[name] = (real, _NestedProgress(real, self))
                setattr(sys, name, self._real[name][1])

    def _step_back(self) -> None:
        for name, (real, beside) in self._real.items():
            if getattr(sys, name) is beside:
                setattr(sys, name, real)
        self._real.clear()


class _NestedProgress:
    """Standard output or error while a line is shown."""

    def __init__(self, stream: Any, shown: ProgressLine) -> None:
        self._stream, self._shown = stream, shown

    def write(self, text: str) -> Any:
        self._shown.close()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ProgressLines(ProgressLine):
    """A line now and then, for a stream that keeps all that is written."""

    every = EVERY_LINE

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        self._next += self.every or 0.0

    def width(self) -> int:
        return 120

    def show(self, text: str) -> None:
        self.stream.write(_sendable(text, self.stream) + "\n")
        self.stream.flush()

    def draw(self, now: float, final: bool) -> None:
        self.show(line(self.tasks, now, self.width(), final, bar=False))


class RichProgress(ProgressLine):
    """A bar drawn by rich, if it is installed."""

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            BarColumn(BAR),
            TextColumn("{task.description}", markup=False),
            console=Console(file=stream),
            transient=True,
            auto_refresh=False,
        )
        self._bar: Any = None

    def draw(self, now: float, final: bool) -> None:
        if final:
            self.clear()
            super().draw(now, final)
            return
        if self._bar is None:
            ProgressLine.clear(self)
            self._bars.start()
            self._bar = self._bars.add_task("", total=1.0)
        text = line(self.tasks, now, max(1, self.width() - BAR - 1), bar=False)
        share = overall(self.tasks) or 0.0
        self._bars.update(self._bar, completed=share, description=_plain(text), refresh=True)

    def clear(self) -> None:
        super().clear()
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bars.stop()
            self._bar = None


class ProgressLog(QuietProgress):
    """One JSON object per line: every so many iterations, and all steps of other work."""

    every = 0.0

    def __init__(self, stream: IO[str], iterations: int = 10, **options: Any) -> None:
        super().__init__(stream, **options)
        self.iterations = iterations

    def write(self, event: str, **facts: Any) -> None:
        told = {"event": event} | {k: _finite(v) for k, v in facts.items()}
        self.stream.write(json.dumps(told, allow_nan=False) + "\n")
        self.stream.flush()

    def step(self, done: int, **facts: Any) -> None:
        task = self.tasks[-1]
        if done != task.done and (task.what != SELF_EVIDENT or done % self.iterations == 0):
            what = task.what or "step"
            self.write(what, **({what: done} | facts))
        task.done, task.facts = done, facts

    def say(self, kind: str, message: str, **facts: Any) -> None:
        self.write(kind, **(facts or {"message": message}))


class NotebookProgress(Progress):
    """A bar per work in the output of a notebook's cell, updated in place."""

    every = EVERY_PAGE
    _handle: Any = None

    def draw(self, now: float, final: bool) -> None:
        self.show(_View(page(self.tasks, now, final), line(self.tasks, now, 120, final)))

    def show(self, view: _View) -> None:
        from IPython.display import display

        self.shown = True
        if self._handle is None:
            self._handle = display(view, display_id=True)
        else:
            self._handle.update(view)

    def clear(self) -> None:
        if self.shown:
            self.show(_View("", ""))
        self.leave()

    def leave(self) -> None:
        self.shown, self._handle = False, None


class _View:
    """Something to display, as HTML or as text."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


# --- which face -----------------------------------------------------------------------------------


def as_progress(wanted: Any = None, stream: IO[str] | None = None) -> Progress:
    """The Progress that `progress=` means.

    Parameters
    ----------
    wanted : None, bool or Progress
        True: one that shows work at once and keeps the last state; False: a silent one. None: one
        that shows work that takes more than two seconds, in a terminal or a notebook, and leaves no
        trace; a silent one elsewhere, in other threads and in processes of a pool.
    stream : text stream, optional
        Instead of standard error.

    Examples
    --------
    >>> import io
    >>> [type(as_progress(wanted, io.StringIO())).__name__ for wanted in (None, True)]
    ['Progress', 'ProgressLines']
    """
    if isinstance(wanted, Progress):
        return wanted
    if not isinstance(wanted, bool | None):
        raise TypeError(f"progress: expected None, True, False or a Progress, got {wanted!r}")
    stream = sys.stderr if stream is None else stream
    if wanted is False or (wanted is None and not _is_foreground()):
        return Progress()
    options: dict[str, Any] = {"keep": True} if wanted else {"wait": WAIT}
    if _in_notebook():
        return NotebookProgress(**options)
    if _is_terminal(stream):
        return ProgressLine(stream, **options)
    return ProgressLines(stream, **options) if wanted and stream is not None else Progress()


def make(stream: IO[str], *, quiet: bool = False, log: bool = False, every: int = 10) -> Progress:
    """The progress of a command.

    Examples
    --------
    >>> import io
    >>> type(make(io.StringIO())).__name__
    'QuietProgress'
    """
    if log:
        return ProgressLog(stream, every)
    if quiet or not stream.isatty():
        return QuietProgress(stream)
    try:
        return RichProgress(stream)
    except ModuleNotFoundError:
        return ProgressLine(stream)


def _is_foreground() -> bool:
    """Whether this is what a person started and waits for: no worker of a pool."""
    main = threading.current_thread() is threading.main_thread()
    return main and multiprocessing.current_process().name == "MainProcess"


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _in_notebook() -> bool:
    """Whether IPython runs in a kernel, which shows HTML."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(get_ipython(), "kernel", None) is not None


# --- what is shown --------------------------------------------------------------------------------


def overall(tasks: Sequence[ProgressTask]) -> float | None:
    """How much of the outermost work is done, that of the inner work counted.

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
    """Seconds until the outermost work ends, if that can be told.

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
    """Seconds in words.

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


def said(tasks: Sequence[ProgressTask], now: float, final: bool = False) -> list[tuple[int, str]]:
    """What is told beside the bar of the innermost work: (how dispensable, words)."""
    task = tasks[-1]
    out = [(0, task.count())]
    numbers = {k: v for k, v in task.facts.items() if isinstance(v, int | float)}
    for k, (name, value) in enumerate(numbers.items()):
        label = name.removesuffix("_risk").replace("_", " ")
        text = f"{label} {value:#.5g}" if isinstance(value, float) else f"{label} {value}"
        out.append((2 + len(numbers) - k, text))  # the last one stays longest
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
    return out + [(WORD, _plain(word)) for word in words if not final]


def line(
    tasks: Sequence[ProgressTask], now: float, width: int, final: bool = False, *, bar: bool = True
) -> str:
    """Work in one line of at most `width` columns; what does not fit is left out.

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
    outer = [_plain(task.count(running=True)) for task in tasks[:-1]]
    parts = said(tasks, now, final)
    words = [text for rank, text in parts if rank == WORD]
    parts = [part for part in parts if part[0] != WORD]

    def room() -> int:
        return width - columns("  ".join([*outer, *(text for _, text in parts)])) - 2

    least = 0 if share is None else BARS[-1] + 2
    while room() < least and max(parts)[0] > 1:
        parts.remove(max(parts))
    size = next((size for size in BARS if share is not None and room() >= size + 2), 0)
    drawn = [f"[{'#' * int(size * (share or 0.0)):-<{size}}]"] if size else []
    shown = "  ".join([*outer, *drawn, *(text for _, text in parts)])
    return clipped("  ".join([shown, *words]), width).rstrip()


def page(tasks: Sequence[ProgressTask], now: float, final: bool = False) -> str:
    """Work as a piece of HTML: a bar for each, and words for the innermost.

    Examples
    --------
    >>> 'aria-valuenow="50"' in page([ProgressTask("<b>", 2, 1, 0.0)], 1.0)
    True
    """
    bars = "".join(_bar(task, task is not tasks[-1]) for task in tasks)
    parts = said(tasks, now, final)[0 if tasks[-1].share() is None else 1 :]  # the bar has a count
    words = " &middot; ".join(escape(clipped(text, LONGEST)) for _, text in parts)
    return (
        '<div style="font:13px system-ui,sans-serif;color:inherit;max-width:720px;'
        f'font-variant-numeric:tabular-nums">{bars}'
        f'<div style="opacity:.8;margin-top:3px;overflow-wrap:anywhere">{words}</div></div>'
    )


def _bar(task: ProgressTask, outer: bool) -> str:
    share = task.share()
    if share is None:
        return ""
    percent, name = int(100 * share), escape(task.what or "work", quote=True)
    label = escape(clipped(task.count(running=outer), LONGEST))
    return (
        '<div style="display:flex;align-items:center;gap:10px;margin:3px 0">'
        f'<div role="progressbar" aria-label="{name}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{percent}" style="flex:1;height:8px;border-radius:4px;overflow:hidden;'
        'background:rgba(127,127,127,.25)">'
        f'<div style="width:{100 * share:.1f}%;height:100%;background:#3a8fcd"></div></div>'
        f'<span style="min-width:6.5em">{label}</span></div>'
    )


def columns(text: str) -> int:
    """Columns of a terminal that a text takes; some signs take two."""
    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def clipped(text: str, width: int) -> str:
    """As much of a text as has room."""
    while columns(text) > width:
        text = text[:-1]
    return text


def _plain(text: str) -> str:
    """Without signs that move the cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _sendable(text: str, stream: IO[str]) -> str:
    """What the stream can encode."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return _plain(text).encode(encoding, "replace").decode(encoding, "replace")


def _finite(value: Any) -> Any:
    """JSON has no word for nan and inf."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
