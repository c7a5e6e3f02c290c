"""An append-only JSON-lines log that lets interrupted work resume.

The first line identifies the work, each further line is a result. A line counts once it is
complete: a line that was being written when the process died is ignored and overwritten. The file
is locked while it is open, so that no other process writes to it; the lock ends with the process.
Does not know what the results are.
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
    """The lines of a log file, to which more can be appended.

    Parameters
    ----------
    file : path
        Read if it exists, otherwise created.
    what : str
        The kind of work, such as "tuning".
    work : mapping of text to text
        Identifies the work. If the file belongs to other work, an error names the first difference.

    Examples
    --------
    >>> work = {"data": "a1b2"}
    >>> with TrialLog("work.jsonl", "tuning", work) as log:
    ...     log.write({"score": 0.5})
    >>> with TrialLog("work.jsonl", "tuning", work) as log:
    ...     print(log.lines)
    [{'score': 0.5}]
    """

    def __init__(self, file: Any, what: str, work: Mapping[str, str]) -> None:
        check_file(file)
        self.file = Path(file)
        self._out = _open_locked(self.file)
        try:
            self._read(what, {KIND: what, "version": 1, **work})
        except BaseException:
            self.close()
            raise

    def _read(self, what: str, first: dict[str, Any]) -> None:
        content = self._out.read()
        whole = content[: content.rfind(b"\n") + 1]  # without an incomplete line
        try:
            known = [json.loads(line) for line in whole.splitlines()]
        except ValueError:
            known = [None]
        if known and (not isinstance(known[0], dict) or known[0].get(KIND) != what):
            raise ValueError(f"{self.file} is not a {what} file; use another name")
        if not known and content and not json.dumps(first).encode().startswith(content):
            raise ValueError(f"{self.file} is not a {what} file; use another name")
        for name, value in first.items() if known else ():
            if known[0].get(name) != value:
                raise ValueError(
                    f"{self.file} belongs to other work: {name} was {known[0].get(name)}, now it "
                    f"is {value}; use another file or remove this one"
                )
        self.lines: list[Any] = known[1:]
        self._end, self._first = len(whole), None if known else first

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line; it survives if the process is killed or the power fails."""
        if not self._out.writable():
            raise PermissionError(f"{self.file} is not writable; use another file")
        lines = [line] if self._first is None else [self._first, line]
        self._first = None
        self._out.truncate(self._end)  # removes an incomplete line
        self._out.seek(self._end)
        for one in lines:
            self._out.write(json.dumps(one).encode() + b"\n")
        self._out.flush()
        os.fsync(self._out.fileno())
        self._end = self._out.tell()

    def close(self) -> None:
        """Release the lock; remove the file if nothing was written."""
        if not self._out.closed:
            empty = self._out.seek(0, os.SEEK_END) == 0
            self._out.close()
            if empty:
                self.file.unlink(missing_ok=True)

    def __enter__(self) -> TrialLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_locked(file: Path) -> IO[bytes]:
    """Open and lock the file, for reading only if it is read-only; create it if missing."""
    try:
        opened: IO[bytes] = os.fdopen(os.open(file, FLAGS, 0o666), "r+b")
    except PermissionError:
        opened = file.open("rb")
    try:
        _lock(opened.fileno())
    except (BlockingIOError, PermissionError):
        opened.close()
        raise BlockingIOError(
            f"{file}: another process is writing to it; wait until it ends, or use another file"
        ) from None
    except OSError:
        pass  # a file system without locks
    return opened


if sys.platform == "win32":
    import msvcrt

    FLAGS = os.O_RDWR | os.O_CREAT | os.O_BINARY

    def _lock(number: int) -> None:
        """Lock a byte far beyond the end, so that other processes can read the file."""
        os.lseek(number, 2**30, os.SEEK_SET)
        msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        os.lseek(number, 0, os.SEEK_SET)

else:
    import fcntl

    FLAGS = os.O_RDWR | os.O_CREAT

    def _lock(number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
