"""Ctrl-C that must not come between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def interrupt_delayed() -> Iterator[None]:
    """Let Ctrl-C wait until the block has ended, with or without an error.

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
    came: list[int] = []
    try:
        with _handled_by(came.append):
            yield
    finally:
        if came:
            signal.raise_signal(signal.SIGINT)  # for the usual handler, which may ignore it


@contextmanager
def interrupt_ignored() -> Iterator[None]:
    """Let Ctrl-C do nothing in the block, such as while the message after a first one is written.

    Examples
    --------
    >>> with interrupt_ignored():
    ...     signal.raise_signal(signal.SIGINT)
    """
    with _handled_by(lambda _: None):
        yield


@contextmanager
def _handled_by(handle: Callable[[int], None]) -> Iterator[None]:
    foreign = signal.getsignal(signal.SIGINT) is None  # of a host such as R; it cannot be put back
    if foreign or threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, lambda number, _: handle(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
