"""Files and folders written whole or not at all. Knows names; knows nothing of what is in them."""

from __future__ import annotations

import contextlib
import errno
import glob
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

DIGITS = 16  # of the numbers in the names of temporary folders
ABANDONED = 86_400.0  # seconds after which nobody writes to an unfinished folder any more


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
        with _told(file, temporary):
            yield temporary
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _told(what: Any, temporary: Path) -> Iterator[None]:
    """The error of a disk that is full or cannot be written to says what was to be written, and
    what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            told = "no space is left on the disk, and nothing is written; free some, or use another"
        elif Path(str(error.filename)).is_relative_to(temporary):
            told = f"cannot be written there ({error.strerror}); use another place"
        else:
            raise
        raise OSError(error.errno, told, str(what)) from None


@contextmanager
def whole_folder(folder: Any, replaces: str | None = None) -> Iterator[Path]:
    """A folder to write to, beside the one wanted; what is there at the end becomes it.

    If the body fails, nothing is left of it. A folder that is there already is replaced only if it
    has a file named `replaces`. What processes that were killed have left of it is put right.

    Examples
    --------
    >>> with whole_folder("f", "list.txt") as temporary:
    ...     _ = (temporary / "list.txt").write_text("all of it")
    >>> [path.name for path in Path("f").iterdir()]
    ['list.txt']
    """
    recover(folder)
    check_folder(folder, replaces)
    target = Path(folder).resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(DIGITS // 2)}.tmp")
    old = temporary.with_suffix(".old")
    try:
        with _told(folder, temporary):
            temporary.mkdir()
            yield temporary
            _replace(target, temporary, old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for left in (*_left(target, ".old"), *filter(_is_abandoned, _left(target, ".tmp"))):
        shutil.rmtree(left, ignore_errors=True)


def _replace(target: Path, new: Path, old: Path) -> None:
    """Moves what is there, if something is, out of the way of the new."""
    try:
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def recover(folder: Any) -> None:
    """Puts back a folder that a process was killed at replacing: after it had moved it away, and
    before the new one was in its place."""
    target = Path(folder).resolve()
    for old in () if target.exists() else _left(target, ".old")[:1]:
        with contextlib.suppress(OSError):  # another process was faster
            old.rename(target)


def _left(target: Path, ending: str) -> list[Path]:
    """Folders beside the target that its replacing has made."""
    number = "[0-9a-f]" * DIGITS
    return sorted(target.parent.glob(f".{glob.escape(target.name)}.{number}{ending}"))


def _is_abandoned(unfinished: Path) -> bool:
    try:
        written = max(path.stat().st_mtime for path in (unfinished, *unfinished.rglob("*")))
    except FileNotFoundError:  # it is being removed
        return False
    return time.time() - written > ABANDONED


def check_folder(folder: Any, replaces: str | None = None) -> None:
    """Raises if a folder could not be written for its name."""
    path = Path(folder)
    ours = replaces is not None and (path / replaces).is_file()
    if path.exists() and not ours and (path.is_file() or any(path.iterdir())):
        what = "folder with other things in it" if path.is_dir() else "file"
        raise FileExistsError(f"{folder}: there is a {what}; give another name, or remove it first")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: there is no such folder; make it first")
