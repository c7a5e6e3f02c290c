"""Progress reports for terminals, notebooks and programs.

Long work begins, steps and ends, and tells a `Progress` object so. Its class decides what is shown:
`ProgressLine` and `RichProgress` write to a terminal, `ProgressLines` to a log file,
`NotebookProgress` to a notebook, `ProgressLog` writes JSON, and `Progress` itself shows nothing.
Work inside other work begins before the outer work ends. `as_progress` chooses the class.

To report progress in another way, subclass `Progress`: set `every` and define `draw`.

>>> class PrintedProgress(Progress):
...     every = 0.0
...
...     def draw(self, now, final):
...         print(line(self.tasks, now, 64))
>>> seconds = iter(range(100))
>>> bar = PrintedProgress(clock=lambda: next(seconds))
>>> with bar.work(2, "fold"):
...     for fold in (1, 2):
...         with bar.work(100, "iteration"):  # cb.fit(..., progress=bar) does the same
...             bar.step(50, risk=0.25)
...         bar.step(fold)
fold 1/2  [####----]   50/100  risk 0.25000  50/s  6 s left
[###############---------------]  fold 1/2  3.0 s each  3 s left
fold 2/2  [####----]   50/100  risk 0.25000  50/s  2 s left
[##############################]  fold 2/2  3.0 s each  0 s left

A step costs very little: progress is drawn at most ten times a second, and the core of a fit calls
Python only as often. A Progress belongs to one thread; a copy in another process is silent.
"""

from .base import Progress, ProgressTask
from .factory import as_progress, command_progress
from .log import ProgressLog
from .notebook import NotebookProgress, page
from .terminal import ProgressLine, ProgressLines, QuietProgress, RichProgress
from .text import duration, line, overall, seconds_left

__all__ = [
    "NotebookProgress",
    "Progress",
    "ProgressLine",
    "ProgressLines",
    "ProgressLog",
    "ProgressTask",
    "QuietProgress",
    "RichProgress",
    "as_progress",
    "command_progress",
    "duration",
    "line",
    "overall",
    "page",
    "seconds_left",
]
