"""A file that work writes line by line, so that it can go on after it was cut off. Knows JSON lines
and what a torn one is; knows nothing of the work.

The first line says what the work is; the others are what is done. A line counts once it ends: what
was being written when the process died is ignored, and overwritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from .whole import check_file

KIND = "cwboost"


class Journal:
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
    >>> with Journal("work.jsonl", "tuning", work) as journal:
    ...     journal.write({"score": 0.5})
    >>> Journal("work.jsonl", "tuning", work).lines
    [{'score': 0.5}]
    """

    def __init__(self, file: Any, what: str, work: Mapping[str, str]) -> None:
        check_file(file)
        self.file = Path(file)
        first = {KIND: what, "version": 1, **work}
        content = self.file.read_bytes() if self.file.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]  # without a torn line
        try:
            known = [json.loads(line) for line in whole.splitlines()]
        except ValueError:
            known = [None]
        if known and (not isinstance(known[0], dict) or known[0].get(KIND) != what):
            raise ValueError(f"{file}: this is no {what} file; name another")
        if not known and content and not json.dumps(first).encode().startswith(content):
            raise ValueError(f"{file}: this is no {what} file; name another")
        for name, value in first.items() if known else ():
            if known[0].get(name) != value:
                raise ValueError(
                    f"{file}: it is of other work: {name} was {known[0].get(name)}, now it is "
                    f"{value}; name another file, or remove this one"
                )
        self.lines: list[Any] = known[1:]
        self._end, self._first = len(whole), None if known else first
        self._out: IO[bytes] | None = None  # opened when there is something to write

    def write(self, line: Mapping[str, Any]) -> None:
        """Adds a line, which stays even if the process is killed."""
        lines = [line] if self._first is None else [self._first, line]
        self._first = None
        if self._out is None:
            self._out = self.file.open("r+b" if self.file.exists() else "wb")
            self._out.truncate(self._end)
            self._out.seek(self._end)
        for one in lines:
            self._out.write(json.dumps(one).encode() + b"\n")
        self._out.flush()

    def close(self) -> None:
        if self._out is not None:
            self._out.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
