"""Measured tables in pages of the docs, between two marks that a reader does not see.

    <!-- benchmarks: summary -->
    ... replaced ...
    <!-- /benchmarks -->

Knows the marks; knows nothing of what stands between them.
"""

from __future__ import annotations

import re
from pathlib import Path

END = "<!-- /benchmarks -->"


def fill(path: Path, blocks: dict[str, str]) -> None:
    """Replaces the marked blocks of these names by the texts; a page need not have them all."""
    text = path.read_text(encoding="utf-8")
    found = 0
    for name, block in blocks.items():
        mark = f"<!-- benchmarks: {name} -->"
        pattern = re.compile(re.escape(mark) + ".*?" + re.escape(END), re.DOTALL)
        text, n = pattern.subn(lambda _, new=f"{mark}\n\n{block}\n\n{END}": new, text)
        found += n
    if not found:
        marks = " or ".join(f"'<!-- benchmarks: {name} -->'" for name in blocks)
        raise ValueError(f"{path}: expected a block from {marks} to '{END}', found none")
    path.write_text(text, encoding="utf-8")
