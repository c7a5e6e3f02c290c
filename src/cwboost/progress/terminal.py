"""Progress on a terminal or in a log file: one line that is overwritten, or lines now and then."""

from __future__ import annotations

import os
import shutil
import sys
from typing import IO, Any

from .base import Progress
from .text import clip, encodable, line, overall, printable_text, text_width

EVERY = 0.1  # seconds between two updates of a terminal
EVERY_LINE = 10.0  # seconds between two lines of a log file
RICH_BAR = 30  # characters
LOG_WIDTH = 120  # characters


class QuietProgress(Progress):
    """Shows only warnings and errors."""

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(**options)
        self.stream = stream

    def say(self, kind: str, message: str, **facts: Any) -> None:  # noqa: ARG002
        if kind in ("warning", "error"):
            mark = "" if kind == "error" else f"{kind}: "
            self._guarded(self.stream.write, f"cwboost: {mark}{message}\n")


class ProgressLine(QuietProgress):
    """One line on a terminal that is overwritten. It is removed while others print."""

    every = EVERY

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        self._width = 0  # columns of the line that is shown
        self._streams: dict[str, tuple[Any, Any]] = {}

    def stage(self, what: str) -> None:
        self._guarded(self.show, f"{what} ...")

    def draw(self, now: float, final: bool) -> None:
        self.show(line(self.tasks, now, self.width(), final))

    def width(self) -> int:
        """Return the columns of the terminal except the last, after which some terminals wrap."""
        try:
            found = os.get_terminal_size(self.stream.fileno()).columns
        except (OSError, ValueError, AttributeError):
            found = 0
        return max(1, (found or shutil.get_terminal_size().columns) - 1)

    def show(self, text: str) -> None:
        """Replace the line that is shown."""
        text = clip(encodable(text, self.stream), self.width())
        before, self._width = self._width, text_width(text)
        self.shown = True
        self._watch_streams()
        self.stream.write("\r" + text + " " * (before - self._width))
        self.stream.flush()

    def clear(self) -> None:
        if self.shown:
            self.shown = False
            self._restore_streams()
            self.stream.write("\r" + " " * self._width + "\r")
            self.stream.flush()
        self._width = 0

    def leave(self) -> None:
        if self.shown:
            self.shown = False
            self._restore_streams()
            self.stream.write("\n")
            self.stream.flush()
        self._width = 0

    def say(self, kind: str, message: str, **facts: Any) -> None:  # noqa: ARG002
        self.close()
        mark = f"{kind}: " if kind in ("warning", "note") else ""
        text = message if kind == "done" else f"cwboost: {mark}{message}"
        self._guarded(self.stream.write, text + "\n")

    def _watch_streams(self) -> None:
        """Replace standard output and error, so that printing removes the line first."""
        for name in ("stdout", "stderr"):
            real = getattr(sys, name)
            if name not in self._streams and is_terminal(real):
                self._streams[name] = (real, _StreamBesideLine(real, self))
                setattr(sys, name, self._streams[name][1])

    def _restore_streams(self) -> None:
        for name, (real, beside) in self._streams.items():
            if getattr(sys, name) is beside:
                setattr(sys, name, real)
        self._streams.clear()


class _StreamBesideLine:
    """Standard output or error while a line is shown: writing removes the line first."""

    def __init__(self, stream: Any, shown: ProgressLine) -> None:
        self._stream, self._shown = stream, shown

    def write(self, text: str) -> Any:
        self._shown.close()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class ProgressLines(ProgressLine):
    """A line now and then, for a stream that keeps what is written, such as a log file."""

    every = EVERY_LINE

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        self._next += self.every or 0.0

    def width(self) -> int:
        return LOG_WIDTH

    def show(self, text: str) -> None:
        self.stream.write(encodable(text, self.stream) + "\n")
        self.stream.flush()

    def draw(self, now: float, final: bool) -> None:
        self.show(line(self.tasks, now, self.width(), final, bar=False))


class RichProgress(ProgressLine):
    """A bar drawn by the package rich."""

    def __init__(self, stream: IO[str], **options: Any) -> None:
        super().__init__(stream, **options)
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            BarColumn(RICH_BAR),
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
        text = line(self.tasks, now, max(1, self.width() - RICH_BAR - 1), bar=False)
        share = overall(self.tasks) or 0.0
        self._bars.update(
            self._bar, completed=share, description=printable_text(text), refresh=True
        )

    def clear(self) -> None:
        super().clear()
        if self._bar is not None:
            self._bars.remove_task(self._bar)
            self._bars.stop()
            self._bar = None


def is_terminal(stream: Any) -> bool:
    """Return whether a stream is a terminal."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):  # it is None, or closed
        return False
