"""Starts the command line: opens closed standard streams, then imports and runs it.

Imports only the standard library, so that Ctrl-C ends the slow imports with a sentence.
Does not know the commands (see main.py).
"""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from .exit_codes import BAD_INPUT, INTERRUPTED
from .streams import open_closed_streams


def run() -> int:
    """Run the command line and return its exit code."""
    open_closed_streams()
    try:
        with _quick_interrupts():
            from .main import main
    except (ImportError, MemoryError, OSError) as error:
        _write(f"cwboost: a library cannot be loaded ({error}); check the installation and memory")
        _end_at_once(BAD_INPUT)
    code = main()
    if code == BAD_INPUT:
        _end_at_once(code)
    return code


def _end_at_once(code: int) -> NoReturn:
    """End the process without the destructors of other libraries.

    After memory has run out, the one of pyarrow crashes.
    """
    atexit._run_exitfuncs()
    os._exit(code)


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
    _write("cwboost: interrupted; nothing was written")
    os._exit(INTERRUPTED)


def _write(line: str) -> None:
    with suppress(OSError):
        os.write(2, f"{line}\n".encode(errors="backslashreplace"))
