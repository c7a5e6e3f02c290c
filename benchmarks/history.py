"""The speed of cwboost from commit to commit: python -m benchmarks history.

Measures a small fixed set of fits and appends them to a JSON-lines file, one line per run. Runs are
compared only with runs on the same machine. The file belongs to the user, not to the repository.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import machine
from .process import Memory, call
from .targets import Case

NOTABLE = 0.1  # larger changes are marked
REPEATS = 5

CASES = {
    "CWB binomial": Case(20_000, 20, 200),
    "CWB squared": Case(20_000, 20, 200, loss="squared"),
    "ACWB binomial": Case(20_000, 20, 200, optimizer="Accelerated"),
    "HCWB binomial, validation": Case(20_000, 20, 200, optimizer="Hybrid", validation=0.2),
    "CWB binomial, 300 columns": Case(2000, 300, 200),
    "linear, 2,000 columns": Case(100, 2000, 200, learner="Linear", bins="auto"),
    "set-up only": Case(20_000, 50, 0),
}


def fit_figures(case: dict[str, Any]) -> dict[str, float | None]:
    """Return the lowest processor time of the fit and of a prediction, and the memory that the
    first fit adds.

    Processor time on one thread depends less on other load on the machine than wall time does.
    """
    own = Case(**case)
    table, y = own.data()
    memory = Memory()
    model = own.fit(table, y)
    added = memory.added()

    def best(function: Callable[[], Any]) -> float:
        times = []
        for _ in range(REPEATS):
            began = time.process_time()
            function()
            times.append(time.process_time() - began)
        return float(np.min(times))

    return {
        "fit, ms": 1000 * best(lambda: own.fit(table, y)),
        "predict, ms": 1000 * best(lambda: model.predict(table)),
        "memory, MB": added,
    }


def measure() -> dict[str, float | None]:
    figures = {}
    for name, case in CASES.items():
        found = call(f"{__package__}.history:fit_figures", {"case": vars(case)})
        if found.status != "done":
            raise SystemExit(f"history: {name}: {found.reason}")
        figures |= {f"{name}: {what}": value for what, value in found.value.items()}
    return figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file", type=Path, default=Path("benchmark-history.jsonl"), help="lines of JSON"
    )


def run(arguments: argparse.Namespace) -> None:
    facts = machine.facts(("cwboost", "numpy"))
    earlier = previous(arguments.file, facts)
    entry = {**facts, "figures": measure()}
    with arguments.file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(entry) + "\n")
    print(told(entry, earlier))


def previous(path: Path, facts: dict[str, Any]) -> dict[str, Any] | None:
    """Return the last run of another commit on this machine."""
    if not path.exists():
        return None
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    same = [
        entry
        for entry in entries
        if (entry["processor"], entry["cores"]) == (facts["processor"], facts["cores"])
        and entry["commit"] != facts["commit"]
    ]
    return same[-1] if same else None


def told(entry: dict[str, Any], earlier: dict[str, Any] | None) -> str:
    """Return a line per figure: now, before, and the change."""
    before = {} if earlier is None else earlier["figures"]
    first = "" if earlier is None else f", compared with {earlier['commit']} of {earlier['date']}"
    lines = [f"{entry['commit']}, {entry['date']}{first}"]
    for name, value in entry["figures"].items():
        old = before.get(name)
        change = ""
        if old and value is not None:
            ratio = value / old - 1
            change = f"{old:10.2f} {100 * ratio:+7.1f}%{'  <--' * (abs(ratio) > NOTABLE)}"
        now = "         -" if value is None else f"{value:10.2f}"
        lines.append(f"{name:44} {now} {change}".rstrip())
    return "\n".join(lines)
