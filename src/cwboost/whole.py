"""Files written whole or not at all. Knows names of files; knows nothing of what is in them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def check_file(file: Any) -> None:
    """Raises if a file could not be written for its name.

    Examples
    --------
    >>> check_file(".")
    Traceback (most recent call last):
    IsADirectoryError: .: this is a folder; name a file
    """
    path = Path(file)
    if path.is_dir():
        raise IsADirectoryError(f"{file}: this is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: there is no such folder; make it first")


@contextmanager
def whole(file: Any) -> Iterator[Path]:
    """A path to write to, beside the file; what is there at the end becomes the file.

    If the body fails, the file stays as it was. Links are followed.

    Examples
    --------
    >>> with whole("t.txt") as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> Path("t.txt").read_text()
    'all of it'
    """
    check_file(file)
    target = Path(file).resolve()
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
