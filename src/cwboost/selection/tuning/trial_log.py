"""An append-only JSON-lines log that lets interrupted work resume.

The first line identifies the work, each further line is a result. Every line ends with a checksum
of itself and of the first line. A line counts once it is complete: a line that was being written
when the process died is ignored and overwritten. The file is locked while it is open, so that no
other process writes to it; the lock ends with the process. Does not know what the results are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from cwboost._utils.atomic_files import check_file, check_regular, explain_write_errors
from cwboost._utils.fingerprint import fingerprint
from cwboost._utils.text import quote
from cwboost._utils.typed_fields import FieldError, parse_json
from cwboost._utils.user_warnings import warn_user

KIND, VERSION = "cwboost", 2  # version 1 did not have checksums
CHECKSUM = "checksum"


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
            self._read(what, {KIND: what, "version": VERSION, **work})
        except BaseException:
            self.close()
            raise

    def _read(self, what: str, first: dict[str, Any]) -> None:
        content = self._out.read()
        whole = content[: content.rfind(b"\n") + 1]  # without an incomplete line
        known = self._parse(whole.splitlines(), what)
        if not known and content and not _encode(first, "").startswith(content):
            raise ValueError(f"{self.file} is not a {what} file; use another name")
        if known and known[0].get("version") == 1:
            first["version"] = 1
            warn_user(
                f"{self.file}: an earlier version of cwboost wrote this file without checksums, so "
                "changes to its numbers would not be noticed",
            )
        for name, value in first.items() if known else ():
            if known[0].get(name) != value:
                raise ValueError(
                    f"{self.file} belongs to other work: {name} was {known[0].get(name)}, now it "
                    f"is {value}; use another file or remove this one"
                )
        self.lines: list[Any] = known[1:]
        self._end, self._first, self._is_new = len(whole), _text(first), not known

    def _parse(self, lines: list[bytes], what: str) -> list[dict[str, Any]]:
        """Return the content of the lines, without their checksums, which are compared."""
        out: list[dict[str, Any]] = []
        for number, line in enumerate(lines, 1):
            try:
                found = parse_json(line)
            except FieldError:
                found = None
            if number == 1 and not (isinstance(found, dict) and found.get(KIND) == what):
                raise ValueError(f"{self.file} is not a {what} file; use another name")
            if not isinstance(found, dict):
                raise self.damaged(number, f"expected a JSON object, found {quote(line)}")
            has_checksums = (out or [found])[0].get("version") != 1
            checksum = found.pop(CHECKSUM, None)
            fits = checksum == _checksum(_text(found), _text(out[0]) if out else "")
            if not fits and (has_checksums or checksum is not None):
                raise self.damaged(number, "it does not match its checksum")
            out.append(found)
        return out

    def damaged(self, number: int, reason: str) -> ValueError:
        """Return an error about a line, counted from 1."""
        again = " remove the line to run its trial again," if number > 1 else ""
        return ValueError(
            f"{self.file}, line {number}: damaged or changed ({reason}); restore the file,{again} "
            "or use another file"
        )

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a line; it survives if the process is killed or the power fails."""
        if not self._out.writable():
            raise PermissionError(f"{self.file} is not writable; use another file")
        with explain_write_errors(self.file):
            self._out.truncate(self._end)  # removes an incomplete line
            self._out.seek(self._end)
            content = _encode(json.loads(self._first), "") if self._is_new else b""
            content += _encode(line, self._first)
            while content:  # without a buffer, the system may write only a part
                content = content[self._out.write(content) :]
            os.fsync(self._out.fileno())
        self._end, self._is_new = self._out.tell(), False

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


def _text(line: Mapping[str, Any]) -> str:
    return json.dumps(line)


def _checksum(text: str, first: str) -> str:
    return fingerprint([first, text])


def _encode(line: Mapping[str, Any], first: str) -> bytes:
    """Return a line with its checksum; `first` is the text of the first line, if it is another."""
    checksum = _checksum(_text(line), first)
    return _text({**line, CHECKSUM: checksum}).encode() + b"\n"


def _open_locked(file: Path) -> IO[bytes]:
    """Open and lock the file, for reading only if it is read-only; create it if missing."""
    check_regular(file)
    try:
        opened: IO[bytes] = os.fdopen(os.open(file, FLAGS, 0o666), "r+b", 0)
    except PermissionError:
        opened = file.open("rb", 0)
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
