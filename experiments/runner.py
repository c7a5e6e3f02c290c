"""Runs the tasks of an experiment, each in a process of its own, and keeps what they gave.

Knows the journal, a line of JSON per task that is added when the task is done, so that a run that
was ended goes on where it was; and the Parquet file made of it. Knows nothing of what is measured.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks import machine
from benchmarks.process import GIVEN_BACK, Child, Outcome

from .found import Finding

if TYPE_CHECKING:
    import pandas as pd

Task = dict[str, Any]
LIBRARIES = (
    "cwboost",
    "numpy",
    "scikit-learn",
    "interpret-core",
    "xgboost",
    "xgboost-cpu",
    "statsmodels",
)
PATIENCE = 0.02  # seconds between two looks at what is under way


class Experiment(Protocol):
    """What a module of an experiment has."""

    __name__: str
    TITLE: str
    CLAIM: str  # the paper's
    CAPTION: str  # of the figure
    DEVIATIONS: tuple[str, ...]  # from the paper's protocol
    NEEDS_DATA: bool  # run takes data=, a folder or None
    KEEPS: tuple[str, ...]  # "failed", "late": what is a result, too, and not run again
    BESIDE: tuple[str, ...]  # kinds of tasks that may run side by side: no time is measured

    def tasks(self, scale: str) -> list[Task]: ...
    def run(self, **task: Any) -> Any: ...
    def figure(self, results: pd.DataFrame) -> Any: ...
    def table(self, results: pd.DataFrame) -> Finding: ...


def short_name(module: Experiment) -> str:
    return module.__name__.rpartition(".")[2]


def journal_path(module: Experiment, folder: Path) -> Path:
    return folder / f"{short_name(module)}.jsonl"


# --- running --------------------------------------------------------------------------------------


def run_all(
    module: Experiment, scale: str, folder: Path, data: Path | None = None, jobs: int = 1
) -> None:
    """Runs what the journal does not have yet. Ctrl-C loses only the tasks under way."""
    folder.mkdir(parents=True, exist_ok=True)
    path, name = journal_path(module, folder), short_name(module)
    every = possible(module, module.tasks(scale))
    known = {key(entry["task"]) for entry in entries(path) if answers(module, entry)}
    todo = [task for task in every if key(task) not in known]
    told = f", {len(every) - len(todo)} of them done before" if len(todo) < len(every) else ""
    print(f"{name}, {scale}: {len(every)} tasks{told}", file=sys.stderr, flush=True)
    began, failed = time.perf_counter(), 0
    beside = [task for task in todo if task.get("kind") in module.BESIDE]
    alone = [task for task in todo if task not in beside]
    outcomes = chain(ended(module, beside, data, jobs), ended(module, alone, data, min(jobs, 1)))
    for n, (task, outcome) in enumerate(outcomes, 1):
        failed += outcome.status not in ("done", *module.KEEPS)
        entry = {
            "task": task,
            "status": outcome.status,
            "rows": outcome.value if outcome.status == "done" else [],
            "reason": outcome.reason,
            "seconds": outcome.seconds,
            "ended": time.time(),
            "machine": machine.facts(LIBRARIES),
        }
        with path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")
        left = (time.perf_counter() - began) / n * (len(todo) - n)
        why = "" if outcome.status == "done" else f" {outcome.status}: {last_line(outcome.reason)}"
        print(
            f"[{n}/{len(todo)}] {name} {words(task)}: {outcome.seconds:.1f} s{why}"
            f" (about {left / 60:.0f} min left)",
            file=sys.stderr,
            flush=True,
        )
    if failed:
        raise ValueError(
            f"{name}: {failed} tasks failed; {path} says why, a rerun tries them again"
        )


def possible(module: Any, every: list[Task]) -> list[Task]:
    """Tasks whose rivals are installed; those that are not are told."""
    absent = getattr(module, "absent", lambda _: None)
    for rival in dict.fromkeys(filter(None, map(absent, every))):
        print(
            f"{short_name(module)}: {rival} is not installed and is left out; "
            "pip install '.[experiments]'",
            file=sys.stderr,
            flush=True,
        )
    return [task for task in every if absent(task) is None]


def ended(
    module: Experiment, todo: list[Task], data: Path | None, jobs: int
) -> Iterator[tuple[Task, Outcome]]:
    """Tasks as they end, so many under way at once; jobs = 0: in this process, for a debugger."""
    if jobs == 0:
        for task in todo:
            began = time.perf_counter()
            rows = run_one(module.__name__, task, None if data is None else str(data))
            yield task, Outcome("done", rows, seconds=time.perf_counter() - began)
        return
    waiting, under_way = list(todo), list[tuple[Task, Child]]()
    try:
        while waiting or under_way:
            while waiting and len(under_way) < jobs:
                task = waiting.pop(0)
                under_way.append((task, start(module, task, data)))
            for task, child in [(t, c) for t, c in under_way if over(t, c)]:
                under_way.remove((task, child))
                yield task, child.outcome(0 if child.running() else None)
            time.sleep(PATIENCE)
    finally:
        for _, child in under_way:
            child.end()


def over(task: Task, child: Child) -> bool:
    """Whether it has ended, or has had the seconds that it may take."""
    return not child.running() or child.seconds() > task.get("limit", math.inf)


def start(module: Experiment, task: Task, data: Path | None) -> Child:
    arguments = {
        "module": module.__name__,
        "task": task,
        "data": None if data is None else str(data.resolve()),
    }
    return Child(
        f"{__name__}:run_one",
        arguments,
        threads=task.get("threads", 1),
        memory=task.get("memory"),
        variables=GIVEN_BACK if task.get("kind") == "memory" else None,
    )


def run_one(module: str, task: Task, data: str | None) -> list[dict[str, Any]]:
    """In the process of a task: its rows."""
    experiment: Any = importlib.import_module(module)
    extra = {"data": None if data is None else Path(data)} if experiment.NEEDS_DATA else {}
    found = experiment.run(**task, **extra)
    return found if isinstance(found, list) else [found]


# --- the journal ----------------------------------------------------------------------------------


def key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def words(task: Task) -> str:
    return ", ".join(f"{k} {v}" for k, v in task.items())


def last_line(reason: str) -> str:
    return reason.strip().splitlines()[-1] if reason.strip() else ""


def answers(module: Experiment, entry: dict[str, Any]) -> bool:
    return entry["status"] in ("done", *module.KEEPS)


def entries(path: Path) -> list[dict[str, Any]]:
    """Of the journal, in the order they were made; of tasks run twice the last."""
    if not path.exists():
        return []
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            found[key(entry["task"])] = entry
        except (ValueError, KeyError, TypeError):  # a line cut off by the end of a run
            print(f"{path}, line {number} is no result and is left out", file=sys.stderr)
    return list(found.values())


def results(module: Experiment, scale: str, folder: Path) -> pd.DataFrame:
    """A row per result of the tasks of this scale: the task, what it gave, how long it took."""
    import pandas as pd

    path = journal_path(module, folder)
    known = {key(entry["task"]): entry for entry in entries(path) if answers(module, entry)}
    rows: list[dict[str, Any]] = []
    for task in module.tasks(scale):
        if entry := known.get(key(task)):
            same = {**task, "status": entry["status"], "task_seconds": entry["seconds"]}
            if module.KEEPS:
                same["reason"] = last_line(entry["reason"])
            rows += [same | row for row in entry["rows"] or [{}]]
    if not rows:
        raise ValueError(
            f"{path} has no results yet; run python -m experiments {short_name(module)} first"
        )
    return pd.DataFrame(rows)


def measured_on(module: Experiment, folder: Path) -> str:
    """Machine, days, load and versions of the results, and the time they took."""
    done = entries(journal_path(module, folder))
    facts = [entry["machine"] for entry in done]
    days = sorted({fact["date"] for fact in facts})
    loads = [fact["load"] or 0.0 for fact in facts]
    together = {**facts[-1], "date": " to ".join(sorted({days[0], days[-1]})), "load": max(loads)}
    minutes = sum(entry["seconds"] for entry in done) / 60
    told = f"{machine.sentence(together)}; {len(done)} tasks of {minutes:.1f} minutes in all"
    wall = wall_seconds(done)
    return told if wall is None else f"{told}, in {wall / 60:.1f} minutes of wall time"


def wall_seconds(done: list[dict[str, Any]]) -> float | None:
    """The time in which at least one task was under way; None of journals that do not know it."""
    if not all("ended" in entry for entry in done):
        return None
    wall, until = 0.0, -math.inf
    for began, end in sorted((e["ended"] - e["seconds"], e["ended"]) for e in done):
        wall += max(0.0, end - max(began, until))
        until = max(until, end)
    return wall
