"""Results of fits as JSON lines, so that an interrupted benchmark continues where it ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def read(file: Path, key: tuple[str, ...]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the lines by the fields of the key; the last line if a fit was run twice."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = [json.loads(line) for line in lines]
    return {tuple(x[field] for field in key): x for x in found}


def append(file: Path, line: dict[str, Any]) -> None:
    """Add the line to the file and print it."""
    text = json.dumps(line)
    print(text, flush=True)
    with file.open("a", encoding="utf-8") as out:
        out.write(text + "\n")
