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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .leftovers import MARK, is_in_use, make_mark, remove_leftovers
from .text import quote

STANDARD = "-"  # stands for standard input or output in place of a file name
LOOP_OF_WINDOWS = 1921  # the error of Windows for symbolic links that form a loop
ATTEMPTS = 100  # to replace a folder that other processes replace at the same time


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


def follow_links(file: Any) -> Path:
    """Return the absolute path that a name leads to; raise if its symbolic links form a loop.

    Examples
    --------
    >>> follow_links("new.txt") == Path.cwd().resolve() / "new.txt"
    True
    """
    try:
        os.stat(file)  # noqa: PTH116
    except OSError as error:
        if error.errno == errno.ELOOP or getattr(error, "winerror", None) == LOOP_OF_WINDOWS:
            raise OSError(
                f"{file}: its symbolic links form a loop; remove the link or use another name"
            ) from None
    return Path(file).resolve()


def names_folder(file: Any) -> bool:
    """Return whether a name can only be the name of a folder, because it ends in a slash or dot.

    Examples
    --------
    >>> [names_folder(name) for name in ("tables/", "tables/.", "tables")]
    [True, True, False]
    """
    return os.path.basename(os.fsdecode(file)) in ("", ".", "..")  # noqa: PTH119


def check_file(file: Any) -> None:
    """Raise if the file cannot be written because of its name.

    Examples
    --------
    >>> check_file(".")
    Traceback (most recent call last):
    IsADirectoryError: .: this is a folder; name a file
    >>> check_file("new/")
    Traceback (most recent call last):
    IsADirectoryError: new/: a name with a slash at its end is a folder; name a file
    """
    check_name(file)
    target = follow_links(file)
    if target.is_dir():
        raise IsADirectoryError(f"{file}: this is a folder; name a file")
    if names_folder(file):
        raise IsADirectoryError(f"{file}: a name with a slash at its end is a folder; name a file")
    _check_parent(file, target)


def _check_parent(file: Any, target: Path) -> None:
    """Raise if the folder in which a file is to be written does not exist.

    `target` is the path that the name leads to.
    """
    path = Path(file)
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: this folder does not exist; create it first")
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"{file}: this is a link to {target}, whose folder does not exist; create the folder "
            "first, or remove the link"
        )


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

    If the body fails, the file stays as it was. Links are followed. The new file gets the
    permissions of the old one, from the beginning, so that nobody else can read it. A pipe or a
    device such as /dev/null is not replaced: the content is copied to it.

    Examples
    --------
    >>> with replace_file("t.txt") as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> Path("t.txt").read_text()
    'all of it'
    """
    check_file(file)
    target = follow_links(file)
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
            if target.exists():
                temporary.touch(0o600)
                _keep_permissions(target, temporary, stat.S_IWUSR)
            yield temporary
            _keep_permissions(target, temporary)
            temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _keep_permissions(old: Path, new: Path, added: int = 0) -> None:
    """Give a new file or folder the permissions of the one that it replaces, if there is one.

    It also gets the owner and the group if the system allows it. `added` are further permissions.
    """
    try:
        facts = old.stat()
    except FileNotFoundError:
        return
    if hasattr(os, "chown"):
        try:
            os.chown(new, facts.st_uid, facts.st_gid)
        except OSError:
            with contextlib.suppress(OSError):  # the group may be one of this user's groups
                os.chown(new, -1, facts.st_gid)
    with contextlib.suppress(PermissionError):
        new.chmod(facts.st_mode & 0o777 | added)


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
    remove_leftovers(parent, "")
    return Path(tempfile.mkdtemp(".tmp", f"{make_mark()}-", parent))


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
            message = "the disk is full, so it was not written; free space or use another disk"
        else:
            message = f"cannot be written there ({os.strerror(error.errno)}); use another place"
        raise OSError(error.errno, message, str(target)) from None


Marker = str | Callable[[Path], bool]  # a file of the folder, or a test of the folder


@contextmanager
def replace_folder(folder: Any, marker: Marker | None = None) -> Iterator[Path]:
    """Give a temporary folder to write to; on success, move it to the folder's place.

    If the body fails, nothing is left. An existing folder is replaced only if it is empty, has a
    file named `marker`, or passes the test `marker`. If several processes write the folder at the
    same time, one of them comes last, and the folder is complete. Leftovers of killed processes are
    cleaned up.

    Examples
    --------
    >>> with replace_folder("f", "list.txt") as temporary:
    ...     _ = (temporary / "list.txt").write_text("all of it")
    >>> [path.name for path in Path("f").iterdir()]
    ['list.txt']
    """
    recover_folder(folder)
    check_folder(folder, marker)
    target, mark = follow_links(folder), make_mark()
    remove_leftovers(target.parent)
    temporary = target.with_name(f".{mark}.tmp")
    old = target.with_name(f".{target.name}.{mark}.old")
    try:
        with explain_write_errors(folder, temporary):
            temporary.mkdir()
            _keep_permissions(target, temporary, stat.S_IRWXU)
            yield temporary
            _keep_permissions(target, temporary)
            _swap(target, temporary, old, lambda: check_folder(folder, marker))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
    for left in _moved_away(target):
        if not is_in_use(left):
            shutil.rmtree(left, ignore_errors=True)


def _swap(target: Path, new: Path, old: Path, check: Callable[[], None]) -> None:
    """Move the target (if it exists) to `old` and `new` to the target; undo it on failure.

    Between the two moves, another process may move its folder to the target. Then it is replaced as
    well, unless `check` raises because the target has become something else.
    """
    for attempt in range(1, ATTEMPTS + 1):
        check()
        try:
            with contextlib.suppress(FileNotFoundError):
                target.rename(old)
            new.rename(target)
            return
        except BaseException as error:
            # The folder of the other process may have been moved away again since.
            taken = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            if not (taken and attempt < ATTEMPTS):
                if old.exists() and not target.exists():
                    old.rename(target)
                raise
            shutil.rmtree(old, ignore_errors=True)


def recover_folder(folder: Any) -> None:
    """Put back a folder that a process had moved away when it was killed while replacing it."""
    check_name(folder)
    target = follow_links(folder)
    for old in () if target.exists() else _moved_away(target):
        if not is_in_use(old):
            with contextlib.suppress(OSError):  # another process was faster
                old.rename(target)
            return


def _moved_away(target: Path) -> list[Path]:
    """Return the old folders of the target that `replace_folder` moved away and did not remove."""
    return sorted(target.parent.glob(f".{glob.escape(target.name)}.{MARK}.old"))


def check_folder(folder: Any, marker: Marker | None = None) -> None:
    """Raise if the folder cannot be written because of its name or of what is there already."""
    check_name(folder)
    target = follow_links(folder)
    if _is_file(target):
        what = "file"
    elif _has_other_files(target, marker):
        what = "folder with other files"
    else:
        _check_parent(folder, target)
        return
    raise FileExistsError(
        f"{folder}: a {what} exists already; give another name, or remove it first"
    )


def _is_file(path: Path) -> bool:
    """Return whether a path exists and is not a folder.

    One look decides: between two, another process may move a folder away.
    """
    try:
        return not stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _has_other_files(folder: Path, marker: Marker | None) -> bool:
    """Return whether a folder exists and has files that must not be removed."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):  # another process is replacing it
            before = folder.stat().st_ino
            found = any(folder.iterdir()) and not _is_ours(folder, marker)
            if folder.stat().st_ino == before:
                return found
        if not folder.exists():
            return False
    return True


def _is_ours(folder: Path, marker: Marker | None) -> bool:
    if isinstance(marker, str):
        return (folder / marker).is_file()
    return marker is not None and marker(folder)
