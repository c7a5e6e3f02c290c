"""The command line of the experiments: python -m experiments NAME ... [--scale small]."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from . import datasets, report, runner

NAMES = (
    "h1",
    "h2",
    "h3",
    "h4",
    "categorical",
    "outliers",
    "eq1",
    "eq2",
    "eq3",
    "big_data",
)
SCALES = ("page", "small", "paper", "tiny")  # the first is the default, the last is for tests
RESULTS = Path("experiment-results")
REQUIRES = ("pandas", "pyarrow", "sklearn", "matplotlib")  # used by all
REMEDY = "pip install '.[experiments]'"
INTERRUPTED = 130  # exit code, as in a shell


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"of {', '.join(NAMES)}; all; or report"
    )
    parser.add_argument(
        "--scale",
        default=SCALES[0],
        metavar="{page,small,paper}",
        help="what docs/paper.md shows (page: hours), a part of it (small: minutes), or all that "
        "the paper ran (paper: days)",
    )
    parser.add_argument(
        "--data", type=Path, help="folder of Parquet files; without it, tables come from OpenML"
    )
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help=f"folder ({RESULTS})")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="parallel tasks, where time is not measured (all cores); 0: in this process",
    )
    parser.add_argument(
        "--busy",
        action="store_true",
        help="measure times at once, without waiting for a quiet machine",
    )
    parser.add_argument(
        "--redraw",
        action="store_true",
        help="do not run tasks; only draw and print the results again",
    )
    parser.add_argument(
        "--docs", type=Path, help="report: also write paper.md and its pictures into this folder"
    )
    arguments = parser.parse_args(words)
    unknown = set(arguments.names) - {*NAMES, "all", "report"}
    if unknown:
        parser.error(
            f"unknown experiment {', '.join(sorted(unknown))}; expected {', '.join(NAMES)}"
        )
    check(parser, arguments)
    try:
        sys.exit(act(arguments))
    except KeyboardInterrupt:
        print("interrupted; run again to resume", file=sys.stderr)
        sys.exit(INTERRUPTED)


def check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """Check the arguments before anything is run."""
    if arguments.scale not in SCALES:
        parser.error(f"argument --scale: {arguments.scale!r} is not one of page, small, paper")
    if "report" in arguments.names and len(arguments.names) > 1:
        parser.error("report cannot be combined with experiments: run these first, then report")
    if arguments.jobs < 0:
        parser.error(f"argument --jobs: expected at least 0, got {arguments.jobs}")


def act(arguments: argparse.Namespace) -> int:
    """Run the requested experiments; return the exit code."""
    folder = arguments.output / arguments.scale
    try:
        if arguments.names == ["report"]:
            report.write(modules(NAMES), folder, arguments.scale, arguments.docs)
            return 0
        asked = NAMES if "all" in arguments.names else tuple(dict.fromkeys(arguments.names))
        check_installed(REQUIRES)
        wanted = modules(asked)
        check_installed([name for m in wanted for name in getattr(m, "REQUIRES", ())])
        if arguments.data is not None and not arguments.redraw:
            check_data(wanted, arguments.scale, arguments.data)
    except (OSError, ValueError) as error:
        raise SystemExit(f"python -m experiments: {error}") from None
    failed = False
    for module in wanted:
        try:
            if not arguments.redraw:
                runner.run_all(
                    module, arguments.scale, folder, arguments.data, arguments.jobs,
                    quiet=not arguments.busy,
                )  # fmt: skip
            report.tell(module, arguments.scale, folder)
        except (OSError, ValueError) as error:  # the other experiments continue
            print(f"python -m experiments: {error}", file=sys.stderr)
            failed = True
    return int(failed)


def check_installed(names: Iterable[str]) -> None:
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(f"{', '.join(missing)} not installed; in the clone, {REMEDY}")


def check_data(wanted: list[runner.Experiment], scale: str, data: Path) -> None:
    """Check that the folder has a file of each requested table."""
    if not data.is_dir():
        raise ValueError(f"--data: there is no folder {data}; it needs {report.data_files()}")
    tasks = [task for m in wanted if m.NEEDS_DATA for task in m.tasks(scale)]
    tables = [x for x in dict.fromkeys(t["table"] for t in tasks) if x in datasets.TABLES]
    missing = [
        name for name in tables if not (data / f"{datasets.TABLES[name].file}.parquet").exists()
    ]
    if missing:
        raise ValueError(
            f"--data: {data} has no file of {', '.join(missing)}; it needs {report.data_files()}"
        )
    if tables and not (data / f"{datasets.FOLDS}.parquet").exists():
        print(
            f"--data: {data} has no {datasets.FOLDS}.parquet: folds are drawn, not the paper's",
            file=sys.stderr,
        )


def modules(names: tuple[str, ...] | list[str]) -> list[runner.Experiment]:
    return [importlib.import_module(f"{__package__}.{name}") for name in names]


if __name__ == "__main__":
    main()
