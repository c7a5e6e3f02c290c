"""Results of the comparison as JSON lines, and the tables made from them.

Does not know how a fit is measured (see measure.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from . import machine

FILE = "results.jsonl"
OWN = "cwboost"  # the library whose time divides the others' times


@dataclass(frozen=True)
class Result:
    """One fit in its own process."""

    problem: str
    rows: int | None  # training rows, None for the default
    rival: str
    version: str
    threads: int
    repeat: int
    limit: float | None
    status: str  # "done", "failed" or "late"
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    machine: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.problem, self.rows, self.rival, self.version, self.threads, self.repeat)

    def answers(self, limit: float | None) -> bool:
        """Return whether a run with this limit would give the same result."""
        return self.status != "late" or (limit is not None and (self.limit or 0) >= limit)


def read(folder: Path) -> list[Result]:
    """Return the results in order; the last one if a fit was run twice."""
    path = folder / FILE
    if not path.exists():
        return []
    found: dict[tuple[Any, ...], Result] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            result = Result(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: expected a result, got {error}") from None
        found[result.key] = result
    return list(found.values())


def append(folder: Path, result: Result) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FILE).open("a", encoding="utf-8") as out:
        out.write(json.dumps(asdict(result)) + "\n")


# --- best of the repeats --------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """The figures of one rival on one problem."""

    rival: str
    status: str
    figures: dict[str, Any]
    limit: float | None
    reason: str


@dataclass(frozen=True)
class Group:
    """All rivals on one problem, the fastest first, rivals without a result last."""

    title: str
    threads: int
    lines: list[Line]

    @property
    def own_seconds(self) -> float | None:
        return next((x.figures["fit_seconds"] for x in self.lines if _own(x)), None)


def _own(line: Line) -> bool:
    return line.rival == OWN and line.status == "done"


def groups(results: Iterable[Result]) -> list[Group]:
    by_problem: dict[tuple[Any, ...], dict[str, list[Result]]] = {}
    for r in results:
        by_problem.setdefault((r.problem, r.rows, r.threads), {}).setdefault(r.rival, []).append(r)
    out = []
    for (problem, rows, threads), rivals in by_problem.items():
        lines = sorted((best(found) for found in rivals.values()), key=_order)
        usual = problem if rows is None else f"{problem}, n = {rows:,}"
        title = next((x.figures["title"] for x in lines if "title" in x.figures), usual)
        out.append(Group(title, threads, lines))
    return out


def best(results: list[Result]) -> Line:
    """Return the least time and memory of the repeats; no figures if any repeat failed or was late.

    If a rival has several versions, the last counts.
    """
    results = [r for r in results if r.version == results[-1].version]
    worst = next((r for r in results if r.status != "done"), results[-1])
    figures = dict(worst.figures)
    if worst.status == "done":
        for name in ("fit_seconds", "megabytes", "predict_seconds"):
            values = [r.figures[name] for r in results if r.figures.get(name) is not None]
            figures[name] = min(values) if values else None
    return Line(worst.rival, worst.status, figures, worst.limit, worst.reason)


def _order(line: Line) -> tuple[int, float]:
    return (("done", "late", "failed").index(line.status), line.figures.get("fit_seconds") or 0.0)


# --- tables ---------------------------------------------------------------------------------------

HEAD = (
    "library",
    "fit",
    "x cwboost",
    "memory added, MB",
    "predict, ms",
    "error of f",
    "error of effects",
    "test loss",
    "columns used",
)


def cells(line: Line, own_seconds: float | None) -> list[str]:
    if line.status == "late":
        return [line.rival, f"> {line.limit:g} s", *[""] * (len(HEAD) - 2)]
    if line.status == "failed":
        return [line.rival, f"failed: {short(line.reason)}", *[""] * (len(HEAD) - 2)]
    f = line.figures
    return [
        line.rival,
        number(f["fit_seconds"], 3, " s"),
        number(f["fit_seconds"] / own_seconds if own_seconds else None, 2),
        "" if f["megabytes"] is None else f"{f['megabytes']:.0f}",
        number(1000 * f["predict_seconds"], 2),
        number(f["f_error"], 3),
        number(f["effect_error"], 3),
        "" if f["test_loss"] is None else f"{f['test_loss']:.4f}",
        "" if f["terms"] is None else f"{f['terms']:,} of {f['columns']:,}",
    ]


def number(value: float | None, digits: int, unit: str = "") -> str:
    """Format a number with this number of significant digits, never as a power of ten."""
    if value is None:
        return ""
    text = f"{value:.{digits}g}"
    return (f"{value:.0f}" if "e+" in text else f"{value:.6f}" if "e-" in text else text) + unit


def short(reason: str) -> str:
    last = reason.strip().splitlines()[-1] if reason.strip() else "no reason given"
    return (last[:77] + "..." if len(last) > 80 else last).replace("|", "/")


def table(results: list[Result], markdown: bool) -> str:
    """Return a heading and a table per problem, followed by machine and versions."""
    blocks = []
    for group in groups(_some(results)):
        lines = [list(HEAD), *(cells(line, group.own_seconds) for line in group.lines)]
        keep = [j for j in range(len(HEAD)) if any(row[j] for row in lines[1:])]
        lines = [[row[j] for j in keep] for row in lines]
        title = group.title + _threads(group.threads)
        blocks.append(
            f"**{title}**\n\n{_markdown(lines)}" if markdown else f"{title}\n{_text(lines)}"
        )
    return "\n\n".join([*blocks, footer(results)])


def summary(results: list[Result], markdown: bool) -> str:
    """Return time and error by library and problem; the test loss where the truth is unknown."""
    found = groups(_some(results))
    order = list(dict.fromkeys(r.rival for r in results))
    lines = [["library", *(f"{g.title}{_threads(g.threads)}" for g in found)]]
    for rival in order:
        of_rival = [next((x for x in g.lines if x.rival == rival), None) for g in found]
        lines.append([rival, *(outcome(line) for line in of_rival)])
    return f"{_markdown(lines) if markdown else _text(lines)}\n\n{footer(results)}"


def outcome(line: Line | None) -> str:
    """Return the time, then the error or the loss, in a few words."""
    if line is None:
        return ""
    if line.status != "done":
        return f"> {line.limit:g} s" if line.status == "late" else "failed"
    f = line.figures
    judged = f"loss {f['test_loss']:.4f}" if f["f_error"] is None else number(f["f_error"], 2)
    return f"{number(f['fit_seconds'], 2)} s, {judged}"


def _threads(threads: int) -> str:
    return "" if threads == 1 else f" ({threads} threads)"


def _some(results: list[Result]) -> list[Result]:
    if not results:
        raise ValueError("there are no results yet; run python -m benchmarks first")
    return results


def _markdown(lines: list[list[str]]) -> str:
    rule = "|---|" + "--:|" * (len(lines[0]) - 1)
    head, *body = ("| " + " | ".join(row) + " |" for row in lines)
    return "\n".join([head, rule, *body])


def _text(lines: list[list[str]]) -> str:
    short_enough = [[cell if len(cell) < 60 else cell[:57] + "..." for cell in x] for x in lines]
    widths = [max(len(row[j]) for row in short_enough) for j in range(len(lines[0]))]
    return "\n".join(
        "  ".join(c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in
                  enumerate(zip(row, widths, strict=True))).rstrip()
        for row in short_enough
    )  # fmt: skip


def footer(results: list[Result]) -> str:
    """Return machine, dates and versions, including all on which results were made."""
    last = {**results[-1].machine}
    last["versions"] = last["versions"] | {r.machine["library"]: r.version for r in results}
    last["commit"] = None  # is part of the version
    days = sorted({r.machine["date"] for r in results})
    last["date"] = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    last["load"] = max(r.machine["load"] or 0.0 for r in results)
    where = {(r.machine["processor"], r.machine["cores"]) for r in results}
    mixed = "" if len(where) == 1 else f" Note: measured on {len(where)} different machines."
    n = {r.figures["test_rows"] for r in results if "test_rows" in r.figures}
    rows = ", ".join(f"{k:,}" for k in sorted(n))
    repeats = max(r.repeat for r in results) + 1
    least = "" if repeats == 1 else f"; times and memory are the least of {repeats}"
    return (
        f"{machine.sentence(last)}. Every fit ran in its own process{least}. Predictions and "
        f"errors (root mean squares) are of the test rows ({rows}).{mixed}"
    )
