"""A file that work writes line by line, so that it can go on after it was cut off. Knows JSON lines
and what a torn one is; knows nothing of the work.

The first line says what the work is; the others are what is done. A line counts once it ends: what
was being written when the process died is ignored, and overwritten. While the file is open it is
locked, so that no other process writes to it; the lock ends with the process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from cwboost._utils.atomic_files import check_file

KIND = "cwboost"


class TrialLog:
    """Lines of a file, and room for more.

    Parameters
    ----------
    file : path
        Read if it is there, else made.
    what : str
        The kind of work, such as "tuning".
    work : mapping of text to text
        Says which work it is; a file of other work is an error that names the first difference.

    Examples
    --------
    >>> work = {"data": "a1b2"}
    >>> with TrialLog("work.jsonl", "tuning", work) as journal:
    ...     journal.write({"score": 0.5})
    >>> with TrialLog("work.jsonl", "tuning", work) as journal:
    ...     print(journal.lines)
    [{'score': 0.5}]
    """

    def __init__(self, file: Any, what: str, work: Mapping[str, str]) -> None:
        check_file(file)
        self.file = Path(file)
        self._out = _opened(self.file)
        try:
            self._read(what, {KIND: what, "version": 1, **work})
        except BaseException:
            self.close()
            raise

    def _read(self, what: str, first: dict[str, Any]) -> None:
        content = self._out.read()
        whole = content[: content.rfind(b"\n") + 1]  # without a torn line
        try:
            known = [json.loads(line) for line in whole.splitlines()]
        except ValueError:
            known = [None]
        if known and (not isinstance(known[0], dict) or known[0].get(KIND) != what):
            raise ValueError(f"{self.file}: this is no {what} file; name another")
        if not known and content and not json.dumps(first).encode().startswith(content):
            raise ValueError(f"{self.file}: this is no {what} file; name another")
        for name, value in first.items() if known else ():
            if known[0].get(name) != value:
                raise ValueError(
                    f"{self.file}: it is of other work: {name} was {known[0].get(name)}, now it is "
                    f"{value}; name another file, or remove this one"
                )
        self.lines: list[Any] = known[1:]
        self._end, self._first = len(whole), None if known else first

    def write(self, line: Mapping[str, Any]) -> None:
        """Adds a line, which stays even if the process is killed or the power fails."""
        if not self._out.writable():
            raise PermissionError(f"{self.file}: it may not be written; name another file")
        lines = [line] if self._first is None else [self._first, line]
        self._first = None
        self._out.truncate(self._end)  # what is torn
        self._out.seek(self._end)
        for one in lines:
            self._out.write(json.dumps(one).encode() + b"\n")
        self._out.flush()
        os.fsync(self._out.fileno())
        self._end = self._out.tell()

    def close(self) -> None:
        """Ends the lock; a file that was made for nothing goes."""
        if not self._out.closed:
            empty = self._out.seek(0, os.SEEK_END) == 0
            self._out.close()
            if empty:
                self.file.unlink(missing_ok=True)

    def __enter__(self) -> TrialLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _opened(file: Path) -> IO[bytes]:
    """The file, made if it is not there, and locked. One that may not be written can be read."""
    try:
        opened: IO[bytes] = os.fdopen(os.open(file, FLAGS, 0o666), "r+b")
    except PermissionError:
        opened = file.open("rb")
    try:
        _lock(opened.fileno())
    except (BlockingIOError, PermissionError):
        opened.close()
        raise BlockingIOError(
            f"{file}: another process is writing to it; wait for its end, or name another file"
        ) from None
    except OSError:
        pass  # a file system without locks
    return opened


if sys.platform == "win32":
    import msvcrt

    FLAGS = os.O_RDWR | os.O_CREAT | os.O_BINARY

    def _lock(number: int) -> None:
        """Locks a byte that is never written: others may read all that is."""
        os.lseek(number, 2**30, os.SEEK_SET)
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        os.lseek(number, 0, os.SEEK_SET)

else:
    import fcntl

    FLAGS = os.O_RDWR | os.O_CREAT

    def _lock(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
