"""Ctrl-C that must not come between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_delayed() -> Iterator[None]:
    """Let Ctrl-C wait until the block is done.

    Only the main thread receives Ctrl-C; elsewhere this does nothing.

    Examples
    --------
    >>> try:
    ...     with interrupt_delayed():
    ...         signal.raise_signal(signal.SIGINT)
    ...         print("written")
    ... except KeyboardInterrupt:
    ...     print("interrupted")
    written
    interrupted
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        raise KeyboardInterrupt
