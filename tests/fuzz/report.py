"""The table of results, and the failures grouped by cause. Does not know how cases are run."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator

from fuzz.verdict import KINDS, Failure
from fuzz.worker import Case

SHOWN = 3  # cases named for each cause


class Report:
    """Counts cases and failures, and groups failures by their cause."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.failures: defaultdict[tuple[str, str], list[Case]] = defaultdict(list)
        self.examples: dict[tuple[str, str], Failure] = {}
        self._start = time.monotonic()

    def add(self, case: Case, failure: Failure | None) -> None:
        """Add a case that has ended."""
        self.cases[case.area] += 1
        if failure:
            self.counts[case.area, failure.kind] += 1
            self.failures[failure.kind, failure.cause].append(case)
            self.examples.setdefault((failure.kind, failure.cause), failure)

    def __str__(self) -> str:
        seconds = time.monotonic() - self._start
        header = ["area", "cases", "crashes", "hangs", "wrong", "unclear"]
        rows = [
            [area, str(n), *(str(self.counts[area, kind]) for kind in KINDS)]
            for area, n in self.cases.items()
        ]
        totals = [sum(int(row[k]) for row in rows) for k in range(1, len(header))]
        rows.append(["all", *map(str, totals)])
        widths = [max(len(row[k]) for row in (header, *rows)) for k in range(len(header))]
        lines = [
            "  ".join(cell.ljust(w) if k == 0 else cell.rjust(w)
                      for k, (cell, w) in enumerate(zip(row, widths, strict=True)))
            for row in (header, *rows)
        ]  # fmt: skip
        lines.append(
            f"{seconds:.0f} s, {sum(self.cases.values()) / max(seconds, 1e-9):.0f} cases/s"
        )
        return "\n".join([*lines, *self._causes()])

    def _causes(self) -> Iterator[str]:
        """Yield the distinct causes, the most frequent first, with cases that repeat them."""
        order = sorted(self.failures.items(), key=lambda item: (item[0][0], -len(item[1])))
        for (kind, cause), cases in order:
            yield f"\n{kind} ({len(cases)} of the cases): {cause}"
            yield from (
                f"  python tests/fuzz/run.py --case {case}" for case in sorted(cases)[:SHOWN]
            )
            details = self.examples[kind, cause].details.strip().splitlines()
            yield from (f"  | {line[:200]}" for line in details[-4:])
