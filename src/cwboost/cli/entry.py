"""Starts the command line: opens closed standard streams, then imports and runs it.

Imports only the standard library, so that Ctrl-C ends the slow imports with a sentence.
Does not know the commands (see main.py).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .exit_codes import INTERRUPTED
from .streams import open_closed_streams


def run() -> int:
    """Run the command line and return its exit code."""
    open_closed_streams()
    with _quick_interrupts():
        from .main import main
    return main()


@contextmanager
def _quick_interrupts() -> Iterator[None]:
    """Let Ctrl-C end the process at once, with a sentence.

    A KeyboardInterrupt inside an import can be lost or become another error.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # the shell may have told the process to ignore it
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    with suppress(OSError):
        os.write(2, b"cwboost: interrupted; nothing was written\n")
    os._exit(INTERRUPTED)
