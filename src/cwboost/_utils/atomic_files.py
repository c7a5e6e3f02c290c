"""Writes files and folders completely or not at all, so that a failure never leaves half a file.

All writers of the package use these functions. Does not know what is in the files, or which
temporary files a killed process left (see leftovers.py).
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .leftovers import MARK, is_abandoned, make_mark, remove_leftovers
from .text import quote

STANDARD = "-"  # stands for standard input or output in place of a file name


def check_name(file: Any) -> None:
    """Raise if no file can have this name.

    Examples
    --------
    >>> check_name("")
    Traceback (most recent call last):
    ValueError: the name of a file or folder is empty; give a name, or '.' for the current folder
    """
    if not isinstance(file, str | os.PathLike):
        raise TypeError(f"expected the name of a file or folder, got {quote(file)}")
    try:
        name = os.fsencode(file)
    except UnicodeEncodeError:
        raise ValueError(
            f"{quote(file)}: the name of a file cannot contain half a surrogate pair; use another "
            "name"
        ) from None
    if b"\0" in name:
        raise ValueError(f"{quote(file)}: the name of a file cannot contain NUL; use another name")
    if not name:
        raise ValueError(
            "the name of a file or folder is empty; give a name, or '.' for the current folder"
        )


def check_file(file: Any) -> None:
    """Raise if the file cannot be written because of its name.

    Examples
    --------
    >>> check_file(".")
    Traceback (most recent call last):
    IsADirectoryError: .: this is a folder; name a file
    """
    check_name(file)
    path = Path(file)
    if path.is_dir():
        raise IsADirectoryError(f"{file}: this is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: this folder does not exist; create it first")


def check_regular(file: Any) -> None:
    """Raise if a file exists and is a pipe or a device, which cannot be read again or removed.

    Examples
    --------
    >>> check_regular("new.txt")
    """
    path = Path(file)
    if path.exists() and not path.is_file():
        raise ValueError(f"{file}: this is not a regular file; use another name")


def check_has_end(file: Any) -> None:
    """Raise if a file is a device that never ends, such as /dev/zero.

    Examples
    --------
    >>> check_has_end(os.devnull)
    """
    with contextlib.suppress(FileNotFoundError):
        is_device = stat.S_ISCHR(os.stat(file).st_mode)  # noqa: PTH116
        if is_device and not os.path.samefile(file, os.devnull):  # noqa: PTH121
            with Path(file).open("rb") as stream:
                if not stream.isatty():
                    raise ValueError(f"{file}: this is a device; name a file")


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
            with (
                explain_write_errors(file),
                temporary.open("rb") as source,
                target.open("wb") as out,
            ):
                shutil.copyfileobj(source, out)
        return
    remove_leftovers(target.parent)
    temporary = target.with_name(f".{make_mark()}.tmp")
    try:
        with explain_write_errors(file, temporary):
            yield temporary
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def open_text(path: Path) -> IO[str]:
    """Open a text file for writing as UTF-8, with line ends as they are written.

    UTF-8 cannot encode half a surrogate pair, which a name may contain; its escape is written.
    """
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


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
    with temporary_folder() as folder:
        yield folder / "out"


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a new folder, which is removed in the end."""
    folder = make_temporary_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make_temporary_folder() -> Path:
    """Return a new folder in the system's folder for temporary files; the caller removes it.

    If the process is killed, a later process removes the folder.
    """
    parent = Path(tempfile.gettempdir())
    remove_leftovers(parent, "cwboost-")
    return Path(tempfile.mkdtemp(".tmp", f"cwboost-{make_mark()}-", parent))


@contextmanager
def explain_write_errors(target: Any, temporary: Path | None = None) -> Iterator[None]:
    """Name the target instead of the temporary path in errors of the disk, and say what to do."""
    try:
        yield
    except OSError as error:
        # Errors of a write, unlike those of opening a file, do not name a file.
        ours = error.filename is None or (
            temporary is not None and Path(str(error.filename)).is_relative_to(temporary)
        )
        if error.errno is None or not ours:
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            message = "the disk is full and nothing was written; free some space or use another"
        else:
            message = f"cannot be written there ({os.strerror(error.errno)}); use another place"
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
    temporary = target.with_name(f".{target.name}.{make_mark()}.tmp")
    old = temporary.with_suffix(".old")
    try:
        with explain_write_errors(folder, temporary):
            temporary.mkdir()
            yield temporary
            _swap(target, temporary, old)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    for left in (*_leftovers(target, ".old"), *filter(is_abandoned, _leftovers(target, ".tmp"))):
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
    check_name(folder)
    target = Path(folder).resolve()
    for old in () if target.exists() else _leftovers(target, ".old")[:1]:
        with contextlib.suppress(OSError):  # another process was faster
            old.rename(target)


def _leftovers(target: Path, ending: str) -> list[Path]:
    """Return the folders beside the target that `replace_folder` made."""
    return sorted(target.parent.glob(f".{glob.escape(target.name)}.{MARK}{ending}"))


def check_folder(folder: Any, marker: str | None = None) -> None:
    """Raise if the folder cannot be written because of its name or of what is there already."""
    check_name(folder)
    path = Path(folder)
    ours = marker is not None and (path / marker).is_file()
    if path.exists() and not ours and (path.is_file() or any(path.iterdir())):
        what = "folder with other files" if path.is_dir() else "file"
        raise FileExistsError(
            f"{folder}: a {what} exists already; give another name, or remove it first"
        )
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: this folder does not exist; create it first")
