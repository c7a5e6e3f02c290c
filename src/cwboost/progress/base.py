"""The base of all progress reports: the stack of running tasks, and when it is drawn.

Does not know how progress looks (see terminal.py, notebook.py and log.py).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

RATE_WINDOW = 15.0  # seconds over which the rate is measured
UNNAMED_STEP = "iteration"  # the step whose count is shown without its name


@dataclass
class ProgressTask:
    """Work that has begun: how much of it is done, and since when it runs."""

    what: str
    total: int | None
    done: int
    began: float
    seconds: float | None = None  # time limit
    early: bool = False  # it may end before `total` steps
    facts: dict[str, Any] = field(default_factory=dict)
    marks: deque[tuple[float, int]] = field(default_factory=deque)  # (time, done), newest last

    def __post_init__(self) -> None:
        self.first = self.done
        self.mark(self.began)

    def mark(self, now: float) -> None:
        """Record how much is done now, and drop records that the rate no longer needs."""
        self.marks.append((now, self.done))
        while len(self.marks) > 2 and self.marks[1][0] <= now - RATE_WINDOW:
            self.marks.popleft()

    def rate(self, now: float, final: bool = False) -> float | None:
        """Return steps per second, recently or (if final) in total; None if unknown."""
        since, done = (self.began, self.first) if final else self.marks[0]
        return (self.done - done) / (now - since) if now > since and self.done > done else None

    def share(self) -> float | None:
        """Return the share that is done, 0 to 1; None if the total is unknown."""
        return None if not self.total else min(self.done / self.total, 1.0)

    def count(self, running: bool = False) -> str:
        """Return the count, such as "fold 2/5"; `running` counts the step that has begun."""
        done = self.done + (running and self.done != self.total)
        name = "" if self.what in ("", UNNAMED_STEP) else f"{self.what} "
        if self.total is None:
            return f"{name}{done}"
        return f"{name}{done:{len(str(self.total))}}/{self.total}"


class Progress:
    """Receives the progress of long work. This base class shows nothing.

    Parameters
    ----------
    wait : float
        Show nothing for this many seconds from now.
    keep : bool
        Keep the last state on the screen when all work has ended.
    clock : callable
        Returns the time in seconds.

    Attributes
    ----------
    every : float or None
        Least number of seconds between two drawings; None if nothing is drawn.
    tasks : list of ProgressTask
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
        self._next = self._from = clock() + wait  # time of the next and of the first drawing

    def __reduce__(self) -> Any:
        return Progress, ()  # another process has no terminal

    def begin(
        self,
        total: int | None,
        what: str = "",
        *,
        done: int = 0,
        seconds: float | None = None,
        early: bool = False,
    ) -> None:
        """Begin work of `total` steps (None if unknown), inside the work that runs already.

        `done` steps are done already, `seconds` is the time limit, and `early` says that the work
        may end before the last step.
        """
        self.tasks.append(ProgressTask(what, total, done, self.clock(), seconds, early))

    def step(self, done: int, **facts: Any) -> None:
        """Report that `done` steps of the innermost work are done; facts are numbers or words."""
        if not self.tasks:
            raise RuntimeError("progress: no work has begun; call begin(total, what) before step")
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
        """End the innermost work, whether it succeeded or failed."""
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
        """Begin work and end it when the block ends or fails."""
        self.begin(total, what, **more)
        try:
            yield
        finally:
            self.end()

    def stage(self, what: str) -> None:
        """Show what is being done before there are steps to count."""

    def say(self, kind: str, message: str, **facts: Any) -> None:
        """Show a message of kind "warning", "error", "note" or "done"."""

    def close(self) -> None:
        """Remove what is shown."""
        self._guarded(self.clear)

    # --- what subclasses define -------------------------------------------------------------------

    def draw(self, now: float, final: bool) -> None:
        """Show `tasks`. `final` means that the outermost work ends and this drawing stays."""

    def clear(self) -> None:
        """Remove what is shown."""

    def leave(self) -> None:
        """Leave what is shown on the screen."""

    def _guarded(self, show: Callable[..., object], *arguments: Any) -> None:
        """Show something; stop showing anything if the stream is closed."""
        try:
            show(*arguments)
        except (OSError, ValueError):  # a pipe or file that was closed
            self.every = None
