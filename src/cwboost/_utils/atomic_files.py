"""Writes files and folders completely or not at all, so that a failure never leaves half a file.

All writers of the package use these functions. Does not know what is in the files.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STANDARD = "-"  # stands for standard input or output in place of a file name
DIGITS = 16  # hexadecimal digits in the names of temporary folders
ABANDONED = 86_400.0  # seconds without a change after which an unfinished folder is removed


def check_file(file: Any) -> None:
    """Raise if the file cannot be written because of its name.

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
        raise FileNotFoundError(f"{path.parent}: this folder does not exist; create it first")


@contextmanager
def replace_file(file: Any) -> Iterator[Path]:
    """Give a temporary path to write to; on success, move it to the file's place.

    If the body fails, the file stays as it was. Links are followed. A pipe or a device such as
    /dev/null is not replaced: the content is copied to it.

    Examples
    --------
    >>> with replace_file("t.txt") as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> Path("t.txt").read_text()
    'all of it'
    """
    check_file(file)
    target = Path(file).resolve()
    if target.exists() and not target.is_file():
        with _temporary_copy() as temporary:
            yield temporary
            with temporary.open("rb") as source, target.open("wb") as out:
                shutil.copyfileobj(source, out)
        return
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with _explain_errors(file, temporary):
            yield temporary
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def write_output(file: str) -> Iterator[Path]:
    """Give a temporary path to write to, as `replace_file` does; "-" means standard output."""
    if file != STANDARD:
        with replace_file(file) as temporary:
            yield temporary
        return
    with _temporary_copy() as temporary:
        yield temporary
        with temporary.open("rb") as source:
            sys.stdout.flush()
            shutil.copyfileobj(source, sys.stdout.buffer)
            sys.stdout.buffer.flush()


@contextmanager
def _temporary_copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cwboost") as folder:
        yield Path(folder) / "out"


@contextmanager
def _explain_errors(target: Any, temporary: Path) -> Iterator[None]:
    """Name the target instead of the temporary path in errors of the disk, and say what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = "the disk is full and nothing was written; free some space or use another"
        elif Path(str(error.filename)).is_relative_to(temporary):
            message = f"cannot be written there ({error.strerror}); use another place"
        else:
            raise
        raise OSError(error.errno, message, str(target)) from None


@contextmanager
def replace_folder(folder: Any, marker: str | None = None) -> Iterator[Path]:
    """Give a temporary folder to write to; on success, move it to the folder's place.

    If the body fails, nothing is left. An existing folder is replaced only if it is empty or has a
    file named `marker`. Leftovers of killed processes are cleaned up.

    Examples
    --------
    >>> with replace_folder("f", "list.txt") as temporary:
    ...     _ = (temporary / "list.txt").write_text("all of it")
    >>> [path.name for path in Path("f").iterdir()]
    ['list.txt']
    """
    recover_folder(folder)
    check_folder(folder, marker)
    target = Path(folder).resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(DIGITS // 2)}.tmp")
    old = temporary.with_suffix(".old")
    try:
        with _explain_errors(folder, temporary):
            temporary.mkdir()
            yield temporary
            _swap(target, temporary, old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for left in (*_leftovers(target, ".old"), *filter(_is_abandoned, _leftovers(target, ".tmp"))):
        shutil.rmtree(left, ignore_errors=True)


def _swap(target: Path, new: Path, old: Path) -> None:
    """Move the target (if it exists) to `old` and `new` to the target; undo it on failure."""
    try:
        if target.exists():
            target.rename(old)
        new.rename(target)
    except BaseException:
        if old.exists() and not target.exists():
            old.rename(target)
        raise


def recover_folder(folder: Any) -> None:
    """Put back a folder that a process had moved away when it was killed while replacing it."""
    target = Path(folder).resolve()
    for old in () if target.exists() else _leftovers(target, ".old")[:1]:
        with contextlib.suppress(OSError):  # another process was faster
            old.rename(target)


def _leftovers(target: Path, ending: str) -> list[Path]:
    """Return the folders beside the target that `replace_folder` made."""
    number = "[0-9a-f]" * DIGITS
    return sorted(target.parent.glob(f".{glob.escape(target.name)}.{number}{ending}"))


def _is_abandoned(unfinished: Path) -> bool:
    try:
        written = max(path.stat().st_mtime for path in (unfinished, *unfinished.rglob("*")))
    except FileNotFoundError:  # another process is removing it
        return False
    return time.time() - written > ABANDONED


def check_folder(folder: Any, marker: str | None = None) -> None:
    """Raise if the folder cannot be written because of its name or of what is there already."""
    path = Path(folder)
    ours = marker is not None and (path / marker).is_file()
    if path.exists() and not ours and (path.is_file() or any(path.iterdir())):
        what = "folder with other files" if path.is_dir() else "file"
        raise FileExistsError(
            f"{folder}: a {what} exists already; give another name, or remove it first"
        )
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: this folder does not exist; create it first")
