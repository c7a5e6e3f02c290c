"""The comparison: which fits are run, in which order, and where the results go.

Does not know how a fit is measured (see measure.py).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import figures, machine, pages, results
from .problems import PROBLEMS
from .process import Outcome, call
from .results import Result
from .rivals import RIVALS

LIMIT = 280.0  # seconds of a fit
BESIDES = (
    60.0  # additional seconds for the data; five more limits are allowed for predictions and errors
)
COMMON = ("numpy", "scipy", "scikit-learn")
BLOCKS = {"tables": results.table, "summary": results.summary}  # of pages


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--problems", nargs="+", metavar="P", default=list(PROBLEMS), help=", ".join(PROBLEMS)
    )
    parser.add_argument(
        "--rivals", nargs="+", metavar="R", default=list(RIVALS), help=", ".join(RIVALS)
    )
    parser.add_argument("--threads", type=int, default=1, help="of every library (1)")
    parser.add_argument(
        "--repeats", type=int, default=1, help="processes per fit; the best counts (1)"
    )
    parser.add_argument("--limit", type=float, default=LIMIT, help=f"seconds per fit ({LIMIT:g})")
    parser.add_argument("--rows", type=int, help="training rows instead of the problem's own")
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("benchmark-results"), help="folder"
    )


def run(arguments: argparse.Namespace) -> None:
    check_names("problem", arguments.problems, PROBLEMS)
    check_names("rival", arguments.rivals, RIVALS)
    folder: Path = arguments.output
    rivals = installed(arguments.rivals)
    jobs = [
        (problem, rival, repeat)
        for problem in arguments.problems
        for rival in rivals
        for repeat in range(arguments.repeats)
    ]
    known = {result.key: result for result in results.read(folder)}
    for number, (problem, rival, repeat) in enumerate(jobs, 1):
        head = f"[{number}/{len(jobs)}] {problem}: {rival}"
        key = (problem, arguments.rows, rival, rivals[rival], arguments.threads, repeat)
        if key in known and known[key].answers(arguments.limit):
            tell(f"{head}: known")
            continue
        tell(f"{head} ...")
        result = measure(arguments, problem, rival, rivals[rival], repeat)
        results.append(folder, result)
        seconds = result.figures.get("fit_seconds")
        tell(f"{head}: {result.reason[-200:] if seconds is None else f'{seconds:.3g} s'}")
    write(folder)
    print(results.table(results.read(folder), markdown=False))


def check_names(kind: str, names: list[str], known: dict[str, object]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"unknown {kind} {', '.join(unknown)}; expected {', '.join(known)}")


def installed(names: list[str]) -> dict[str, str]:
    """Return the versions of the rivals that can run here; print why the others cannot."""
    out = {}
    for name in names:
        why = RIVALS[name].missing()
        if why is None:
            out[name] = RIVALS[name].version()
        else:
            tell(f"without {name}: {why}")
    if not out:
        raise SystemExit("none of the rivals is installed")
    return out


def measure(
    arguments: argparse.Namespace, problem: str, rival: str, version: str, repeat: int
) -> Result:
    job = {
        "problem": problem,
        "rival": rival,
        "threads": arguments.threads,
        "rows": arguments.rows,
        "limit": arguments.limit,
    }
    function = f"{__package__}.measure:fit_once"
    whole = BESIDES + 5 * arguments.limit
    found = call(function, job, threads=arguments.threads, limit=whole)
    if found.status == "late" and found.seconds >= whole:
        found = Outcome("failed", reason=f"predictions were not done after {whole:g} s")
    return Result(
        problem,
        arguments.rows,
        rival,
        version,
        arguments.threads,
        repeat,
        arguments.limit,
        found.status,
        found.value or {},
        found.reason,
        machine.facts(COMMON) | {"library": RIVALS[rival].distribution},
    )


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- what is made of the results ------------------------------------------------------------------


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, help="folder of a comparison")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--summary", action="store_true", help="one table for all problems")
    parser.add_argument("--figure", type=Path, help="also write the figure, to this file")
    parser.add_argument(
        "--into", type=Path, nargs="+", default=[], help="pages whose marked blocks are replaced"
    )


def print_table(arguments: argparse.Namespace) -> None:
    found = results.read(arguments.results)
    if arguments.summary:
        print(results.summary(found, arguments.markdown))
    else:
        print(results.table(found, arguments.markdown))
    if arguments.figure:
        figures.draw(found, arguments.figure)
    blocks = {name: make(found, True) for name, make in BLOCKS.items()}
    for page in arguments.into:
        pages.fill(page, blocks)


def write(folder: Path) -> None:
    """Write the table and the figure into the folder of the results."""
    found = results.read(folder)
    (folder / "table.md").write_text(results.table(found, markdown=True) + "\n", encoding="utf-8")
    (folder / "table.txt").write_text(results.table(found, markdown=False) + "\n", encoding="utf-8")
    try:
        figures.draw(found, folder / "figure.svg")
        figures.draw(found, folder / "figure.png")
    except ModuleNotFoundError as error:
        tell(f"no figure: {error.name} is not installed")
