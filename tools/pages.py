"""Run the python blocks of pages and write their output into the text blocks under them.

    python tools/pages.py docs/terms.md ...           writes the outputs
    python tools/pages.py --check docs/terms.md ...   fails if a page shows something else

The blocks of a page run in order, as one program. A text block that follows a python block with
only an empty line between them is its output, including warnings. Files are written to a temporary
folder; blocks marked py instead of python do not run. Numbers may differ by 5% (machines differ in
the last digits, and a choice may depend on them).
"""

import argparse
import io
import os
import re
import sys
import tempfile
import warnings
from contextlib import chdir, redirect_stdout
from pathlib import Path

BLOCK = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?P<output>\n```text\n(?P<shown>.*?)^```\n)?", re.M | re.S
)
NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")
SLACK = 0.05


def run(text: str, where: str) -> tuple[str, list[tuple[str, str]]]:
    """Return the page with the outputs of its blocks, and the pairs (shown before, printed now)."""
    names: dict[str, object] = {"__name__": where}
    pairs = []

    def replace(block: re.Match[str]) -> str:
        line = text.count("\n", 0, block.start("code"))
        printed = io.StringIO()
        with redirect_stdout(printed), warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            exec(compile("\n" * line + block["code"], where, "exec"), names)
        texts = dict.fromkeys(f"warning: {w.message}\n" for w in raised)  # Python shows each once
        output = printed.getvalue() + "".join(texts)
        if not block["output"]:
            if output:
                raise ValueError(
                    f"{where}, line {line + 1}: the code prints, but the page shows no output"
                )
            return block[0]
        pairs.append((block["shown"], output))
        return f"```python\n{block['code']}```\n\n```text\n{output}```\n"

    os.environ.setdefault("MPLBACKEND", "agg")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return BLOCK.sub(replace, text), pairs


def alike(shown: str, printed: str) -> bool:
    """Return whether the words are the same and the numbers nearly equal."""
    if NUMBER.sub("0", shown).split() != NUMBER.sub("0", printed).split():
        return False
    old, new = (
        [float(number.replace(",", "")) for number in NUMBER.findall(t)] for t in (shown, printed)
    )
    return all(abs(a - b) <= SLACK * max(1, abs(a)) for a, b in zip(old, new, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("pages", nargs="+", type=Path)
    arguments = parser.parse_args()
    stale = 0
    for page in arguments.pages:
        text, pairs = run(page.read_text(encoding="utf-8"), str(page))
        if not arguments.check:
            page.write_text(text, encoding="utf-8")
        for shown, printed in pairs:
            if arguments.check and not alike(shown, printed):
                print(f"{page} shows\n{shown}\nbut the code prints\n{printed}", file=sys.stderr)
                stale += 1
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
