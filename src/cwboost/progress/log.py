"""Progress as JSON lines, for programs that watch a fit."""

from __future__ import annotations

import json
from typing import IO, Any

from .base import UNNAMED_STEP
from .terminal import QuietProgress


class ProgressLog(QuietProgress):
    """One JSON object per line: every few iterations, and every step of other work."""

    every = 0.0

    def __init__(self, stream: IO[str], iterations: int = 10, **options: Any) -> None:
        super().__init__(stream, **options)
        self.iterations = iterations

    def write(self, event: str, **facts: Any) -> None:
        """Write one line."""
        record = {"event": event} | {k: _finite(v) for k, v in facts.items()}
        self._guarded(self._write_line, json.dumps(record, allow_nan=False))

    def _write_line(self, line: str) -> None:
        self.stream.write(line + "\n")
        self.stream.flush()

    def step(self, done: int, **facts: Any) -> None:
        task = self.tasks[-1]
        if done != task.done and (task.what != UNNAMED_STEP or done % self.iterations == 0):
            what = task.what or "step"
            self.write(what, **({what: done} | facts))
        task.done, task.facts = done, facts

    def say(self, kind: str, message: str, **facts: Any) -> None:
        self.write(kind, **(facts or {"message": message}))


def _finite(value: Any) -> Any:
    """Return None for nan and inf, which JSON does not have."""
    return None if isinstance(value, float) and not abs(value) < float("inf") else value
