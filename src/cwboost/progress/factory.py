"""Chooses the progress report that suits the place: a terminal, a notebook, a log file or none."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from typing import IO, Any

from cwboost._utils.text import quote

from .base import Progress
from .log import ProgressLog
from .notebook import NotebookProgress
from .terminal import ProgressLine, ProgressLines, QuietProgress, RichProgress, is_terminal

WAIT = 2.0  # seconds after which work is long enough to be shown unasked


def as_progress(wanted: Any = None, stream: IO[str] | None = None) -> Progress:
    """Return the Progress that the argument `progress=` means.

    Parameters
    ----------
    wanted : None, bool or Progress
        True shows work at once and keeps the last state; False shows nothing. None shows work that
        takes more than two seconds, in a terminal or a notebook, and removes it in the end; it
        shows nothing elsewhere, in other threads, and in the processes of a pool.
    stream : text stream, optional
        Where to write; by default standard error.

    Examples
    --------
    >>> import io
    >>> [type(as_progress(wanted, io.StringIO())).__name__ for wanted in (None, True)]
    ['Progress', 'ProgressLines']
    """
    if isinstance(wanted, Progress):
        return wanted
    if not isinstance(wanted, bool | None):
        raise TypeError(f"progress: expected None, True, False or a Progress, got {quote(wanted)}")
    stream = sys.stderr if stream is None else stream
    if wanted is False or (wanted is None and not _is_foreground()):
        return Progress()
    options: dict[str, Any] = {"keep": True} if wanted else {"wait": WAIT}
    if _in_notebook():
        return NotebookProgress(**options)
    if is_terminal(stream):
        return ProgressLine(stream, **options)
    return ProgressLines(stream, **options) if wanted and stream is not None else Progress()


def command_progress(
    stream: IO[str], *, quiet: bool = False, log: bool = False, every: int = 10
) -> Progress:
    """Return the progress that a command of the command line shows.

    Examples
    --------
    >>> import io
    >>> type(command_progress(io.StringIO())).__name__
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
    """Return whether this is the main thread of the main process, and not a worker of a pool."""
    main = threading.current_thread() is threading.main_thread()
    return main and multiprocessing.current_process().name == "MainProcess"


def _in_notebook() -> bool:
    """Return whether IPython runs in a kernel, which shows HTML."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return getattr(get_ipython(), "kernel", None) is not None
