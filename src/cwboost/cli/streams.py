"""Standard streams that were closed before the start, such as by `2>&-`, or break while in use.

A closed stream leaves its descriptor free. The next file that is opened would get it, and messages
would be written into that file. Therefore the null device takes the place of a closed stream.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any


class ClosedStream(io.TextIOWrapper):
    """Stands for a standard stream that is closed: it has no input and ignores output."""


def open_closed_streams() -> None:
    """Open the null device in place of the standard streams that are closed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            mode = "rb" if name == "stdin" else "wb"
            setattr(sys, name, ClosedStream(open(os.devnull, mode), "utf-8"))  # noqa: PTH123, SIM115


def is_closed(stream: Any) -> bool:
    """Return whether a standard stream was closed when the command line started."""
    return stream is None or isinstance(stream, ClosedStream)


def discard_unwritten_output() -> None:
    """Drop buffered output that cannot be written; Python would complain about it at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with contextlib.suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
