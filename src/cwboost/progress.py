"""How a fit tells people and programs how far it is. Knows terminals and JSON; nothing of models.

A progress is called after every iteration and costs next to nothing: a terminal is written to at
most ten times a second.
"""

from __future__ import annotations

import json
import shutil
import time
from typing import IO, Any

EVERY = 0.1  # seconds between two updates of a terminal
BAR = 30  # characters


class Quiet:
    """Says nothing but what must be said: warnings and errors."""

    def __init__(self, stream: IO[str]) -> None:
        self.stream = stream
        self.total: int | None = None

    def stage(self, what: str) -> None:
        """Before the iterations: what is being done."""

    def __call__(
        self, iteration: int, risk: float, validation_risk: float | None, choice: str
    ) -> None:
        """After an iteration."""

    def close(self) -> None:
        """The terminal as it was."""

    def say(self, kind: str, message: str, **facts: Any) -> None:  # noqa: ARG002
        """A message of kind "warning", "error", "note" or "done"."""
        if kind in ("warning", "error"):
            self.close()
            mark = "" if kind == "error" else f"{kind}: "
            self.stream.write(f"cwboost: {mark}{message}\n")


class Line(Quiet):
    """One line on a terminal, written over and over."""

    shown = 0  # characters in the line
    last = 0.0

    def stage(self, what: str) -> None:
        self.write(f"{what} ...")

    def __call__(
        self, iteration: int, risk: float, validation_risk: float | None, choice: str
    ) -> None:
        now = time.monotonic()
        if now - self.last >= EVERY:
            self.last = now
            self.update(iteration, risk, validation_risk, choice)

    def update(
        self, iteration: int, risk: float, validation_risk: float | None, choice: str
    ) -> None:
        total = self.total or iteration
        done = "#" * round(BAR * min(iteration / total, 1.0))
        self.write(f"[{done:-<{BAR}}] {iteration}/{total}  {said(risk, validation_risk)}  {choice}")

    def write(self, text: str) -> None:
        width = shutil.get_terminal_size().columns - 1
        text = "".join(c if c.isprintable() else "?" for c in text)[:width]
        self.stream.write("\r" + text.ljust(min(self.shown, width)))
        self.stream.flush()
        self.shown = len(text)

    def close(self) -> None:
        if self.shown:
            self.stream.write("\r" + " " * self.shown + "\r")
            self.stream.flush()
            self.shown = 0

    def say(self, kind: str, message: str, **facts: Any) -> None:  # noqa: ARG002
        self.close()
        mark = f"{kind}: " if kind in ("warning", "note") else ""
        text = message if kind == "done" else f"cwboost: {mark}{message}"
        self.stream.write(text + "\n")


class Rich(Line):
    """A bar drawn by rich, if it is installed."""

    def __init__(self, stream: IO[str]) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed

        self.bar = Progress(
            BarColumn(BAR),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            Elapsed(),
            console=Console(file=stream),
            transient=True,
            auto_refresh=False,
        )
        self.task: Any = None

    def update(
        self, iteration: int, risk: float, validation_risk: float | None, choice: str
    ) -> None:
        if self.task is None:
            Line.close(self)
            self.bar.start()
            self.task = self.bar.add_task("", total=self.total)
        name = "".join(c if c.isprintable() else "?" for c in choice)[:30]
        text = f"{said(risk, validation_risk)}  {name}"
        self.bar.update(self.task, completed=iteration, description=text, refresh=True)

    def close(self) -> None:
        super().close()
        if self.task is not None:
            self.bar.stop()
            self.task = None


class Log(Quiet):
    """One JSON object per line."""

    def __init__(self, stream: IO[str], every: int) -> None:
        super().__init__(stream)
        self.every = every

    def write(self, event: str, **facts: Any) -> None:
        line = {"event": event} | {k: _finite(v) for k, v in facts.items()}
        self.stream.write(json.dumps(line, allow_nan=False) + "\n")
        self.stream.flush()

    def __call__(
        self, iteration: int, risk: float, validation_risk: float | None, choice: str
    ) -> None:
        if iteration % self.every == 0:
            self.write(
                "iteration",
                iteration=iteration,
                risk=risk,
                validation_risk=validation_risk,
                choice=choice,
            )

    def say(self, kind: str, message: str, **facts: Any) -> None:
        self.write(kind, **(facts or {"message": message}))


def _finite(value: Any) -> Any:
    """JSON has no word for nan and inf."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def said(risk: float, validation_risk: float | None) -> str:
    """The risk in words.

    Examples
    --------
    >>> said(0.5, 0.25)
    'validation risk 0.25000'
    """
    known = "risk" if validation_risk is None else "validation risk"
    return f"{known} {risk if validation_risk is None else validation_risk:#.5g}"


def make(stream: IO[str], *, quiet: bool = False, log: bool = False, every: int = 10) -> Quiet:
    """The progress that a stream calls for.

    Examples
    --------
    >>> import io
    >>> type(make(io.StringIO())).__name__
    'Quiet'
    """
    if log:
        return Log(stream, every)
    if quiet or not stream.isatty():
        return Quiet(stream)
    try:
        return Rich(stream)
    except ModuleNotFoundError:
        return Line(stream)
