"""Runs the tasks of an experiment, each in its own process, and stores their results.

The log is a JSON-lines file to which every finished task is appended, so that an interrupted run
resumes. Tasks that measure times run one at a time on a quiet machine; a task that was disturbed by
other processes is repeated. Does not know what is measured.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import random
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks import machine
from benchmarks.machine import QUIET
from benchmarks.process import GIVEN_BACK, Child, Outcome

from .datasets import OTHERS
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
PATIENCE = 0.02  # seconds between two checks of the running tasks
ATTEMPTS = 3  # of a disturbed task


class Experiment(Protocol):
    """The contract of an experiment module."""

    __name__: str
    TITLE: str
    CAPTION: str  # the caption of the figure
    DEVIATIONS: tuple[str, ...]  # differences from the paper's protocol
    NEEDS_DATA: bool  # run takes data=, a folder or None
    KEEPS: tuple[str, ...]  # statuses that are results, too: "failed", "late"
    PARALLEL_KINDS: tuple[
        str, ...
    ]  # kinds of tasks that may run in parallel, because no time is measured

    def tasks(self, scale: str) -> list[Task]: ...
    def run(self, **task: Any) -> Any: ...
    def figure(self, results: pd.DataFrame) -> Any: ...
    def table(self, results: pd.DataFrame) -> Finding: ...


def short_name(module: Experiment) -> str:
    return module.__name__.rpartition(".")[2]


def log_path(module: Experiment, folder: Path) -> Path:
    return folder / f"{short_name(module)}.jsonl"


# --- running --------------------------------------------------------------------------------------


def run_all(
    module: Experiment,
    scale: str,
    folder: Path,
    data: Path | None = None,
    jobs: int = 1,
    quiet: bool = True,
) -> None:
    """Run the tasks that are not in the log. Ctrl-C loses only the running tasks.

    If `quiet`, tasks that measure times wait until the machine is idle.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, name = log_path(module, folder), short_name(module)
    every = possible(module, module.tasks(scale), data)
    known = {key(entry["task"]) for entry in finished(module, folder)}
    todo = [task for task in every if key(task) not in known]
    told = f", {len(every) - len(todo)} of them done before" if len(todo) < len(every) else ""
    print(f"{name}, {scale}: {len(every)} tasks{told}", file=sys.stderr, flush=True)
    began, failed = time.perf_counter(), 0
    if hasattr(module, "GRIDS"):  # in random order: an interrupted run is a sample of the grid
        random.Random(0).shuffle(todo)
    parallel = [task for task in todo if task.get("kind") in module.PARALLEL_KINDS]
    alone = [task for task in todo if task not in parallel]
    together = ((*done, {}) for done in ended(module, parallel, data, jobs))
    timed = ((task, *undisturbed(module, task, data, min(jobs, 1), quiet)) for task in alone)
    for n, (task, outcome, load) in enumerate(chain(together, timed), 1):
        failed += outcome.status not in ("done", *module.KEEPS)
        entry = {
            "task": task,
            "status": outcome.status,
            "rows": outcome.value if outcome.status == "done" else [],
            "reason": outcome.reason,
            "seconds": outcome.seconds,
            "ended": time.time(),
            **load,
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


def possible(module: Any, every: list[Task], data: Path | None = None) -> list[Task]:
    """Return the tasks whose rivals are installed and whose tables can be had; print the others."""
    absent = getattr(module, "absent", lambda _: None)
    if data is None:
        local = {task.get("table") for task in every} & set(OTHERS)
        every = [task for task in every if task.get("table") not in local]
        for name in sorted(local):
            print(f"{short_name(module)}: {name} is left out; it needs --data", file=sys.stderr)
    for rival in dict.fromkeys(filter(None, map(absent, every))):
        print(
            f"{short_name(module)}: {rival} is not installed and is left out; "
            "pip install '.[experiments]'",
            file=sys.stderr,
            flush=True,
        )
    return [task for task in every if absent(task) is None]


def undisturbed(
    module: Experiment, task: Task, data: Path | None, jobs: int, quiet: bool
) -> tuple[Outcome, dict[str, float]]:
    """Return the outcome of a task, on a quiet machine if asked, and how busy the machine was.

    `busy_before` are the cores in use before the task, `busy` those that other processes used on
    average during it.
    """
    for attempt in range(ATTEMPTS):
        before, waited = machine.wait_until_quiet() if quiet else (machine.busy_cores(0.1), 0.0)
        worked, own, began = machine.busy_seconds(), cpu_seconds(), time.perf_counter()
        [(_, outcome)] = ended(module, [task], data, jobs)
        load = {"busy_before": before, "waited": waited, "attempt": attempt + 1.0}
        if worked is not None:
            others = (machine.busy_seconds() or 0.0) - worked - (cpu_seconds() - own)
            load["busy"] = max(0.0, others / (time.perf_counter() - began))
        if not quiet or load.get("busy", 0.0) <= QUIET:
            break
        print(f"disturbed: others used {load['busy']:.2f} cores", file=sys.stderr, flush=True)
    return outcome, {name: round(value, 3) for name, value in load.items()}


def cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def ended(
    module: Experiment, todo: list[Task], data: Path | None, jobs: int
) -> Iterator[tuple[Task, Outcome]]:
    """Yield tasks as they end, `jobs` of them in parallel; jobs = 0 runs them in this process."""
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
    """Return whether the task has ended or exceeded its time limit."""
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
    """Run a task in its process; return its rows."""
    experiment: Any = importlib.import_module(module)
    extra = {"data": None if data is None else Path(data)} if experiment.NEEDS_DATA else {}
    found = experiment.run(**task, **extra)
    return found if isinstance(found, list) else [found]


# --- the log ----------------------------------------------------------------------------------


def key(task: Task) -> str:
    return json.dumps(task, sort_keys=True)


def words(task: Task) -> str:
    return ", ".join(f"{k} {v}" for k, v in task.items())


def last_line(reason: str) -> str:
    return reason.strip().splitlines()[-1] if reason.strip() else ""


def answers(module: Experiment, entry: dict[str, Any]) -> bool:
    return entry["status"] in ("done", *module.KEEPS)


def entries(path: Path) -> list[dict[str, Any]]:
    """Return the entries of the log in order; the last one if a task was run twice."""
    if not path.exists():
        return []
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            entry = json.loads(line)
            found[key(entry["task"])] = entry
        except (ValueError, KeyError, TypeError):  # an incomplete line of an interrupted run
            print(f"{path}, line {number} is no result and is left out", file=sys.stderr)
    return list(found.values())


def finished(module: Experiment, folder: Path) -> list[dict[str, Any]]:
    """Return the entries of the tasks that have a result."""
    return [entry for entry in entries(log_path(module, folder)) if answers(module, entry)]


def published(module: Experiment, folder: Path) -> str:
    """Return the log of the tasks that have a result, without tracebacks and their paths."""
    done = [{**x, "reason": last_line(x["reason"])} for x in finished(module, folder)]
    return "".join(json.dumps(entry) + "\n" for entry in done)


def results(module: Experiment, scale: str, folder: Path) -> pd.DataFrame:
    """Return a row per result of the tasks of this scale: the task, its result and its time."""
    import pandas as pd

    path = log_path(module, folder)
    known = {key(entry["task"]): entry for entry in finished(module, folder)}
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


def measured_on(module: Experiment, scale: str, folder: Path) -> str:
    """Return machine, dates, versions and duration of the results, and the load during timings."""
    every = {key(task) for task in module.tasks(scale)}
    done = [entry for entry in finished(module, folder) if key(entry["task"]) in every]
    facts = [entry["machine"] for entry in done]
    days, commits, processors = (
        sorted({fact[name] for fact in facts} - {None}) for name in ("date", "commit", "processor")
    )
    together = {
        **facts[-1],
        "processor": " and ".join(processors),
        "date": " to ".join(sorted({days[0], days[-1]})),
        "commit": " and ".join(commits) or None,
        "load": None,
    }
    hours = sum(entry["seconds"] for entry in done) / 3600
    told = f"{machine.sentence(together)}. {len(done)} tasks of {hours:.2f} hours in all"
    wall = wall_seconds(done)
    if wall is not None:
        told += f", in {wall / 3600:.2f} hours of wall time"
    return f"{told}. {load_told(done)}"


def load_told(done: list[dict[str, Any]]) -> str:
    """Return in words how busy the machine was when times were measured."""
    timed = [entry for entry in done if "busy_before" in entry]
    if not timed:
        return "No times were measured"
    before = max(entry["busy_before"] for entry in timed)
    told = f"Before each of the {len(timed)} timings at most {before:.2f} cores were in use"
    known = [entry["busy"] for entry in timed if "busy" in entry]
    if known:
        told += f", and other processes used at most {max(known):.2f} cores during it"
    return told


def wall_seconds(done: list[dict[str, Any]]) -> float | None:
    """Return the time during which at least one task ran; None if the log does not have it."""
    if not all("ended" in entry for entry in done):
        return None
    wall, until = 0.0, -math.inf
    for began, end in sorted((e["ended"] - e["seconds"], e["ended"]) for e in done):
        wall += max(0.0, end - max(began, until))
        until = max(until, end)
    return wall
