"""Fills measured tables into pages of the docs, between two HTML comments.

<!-- benchmarks: summary -->
... replaced ...
<!-- /benchmarks -->
"""

from __future__ import annotations

import re
from pathlib import Path

END = "<!-- /benchmarks -->"


def fill(path: Path, blocks: dict[str, str]) -> None:
    """Replace the marked blocks with these names by the texts; a page need not have all of them."""
    text = path.read_text(encoding="utf-8")
    found = 0
    for name, block in blocks.items():
        mark = f"<!-- benchmarks: {name} -->"
        pattern = re.compile(re.escape(mark) + ".*?" + re.escape(END), re.DOTALL)
        text, n = pattern.subn(lambda _, new=f"{mark}\n\n{block}\n\n{END}": new, text)
        found += n
    if not found:
        marks = " or ".join(f"'<!-- benchmarks: {name} -->'" for name in blocks)
        raise ValueError(f"{path}: expected a block from {marks} to '{END}', but there is none")
    path.write_text(text, encoding="utf-8")
