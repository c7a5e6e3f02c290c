"""The command line of the experiments: python -m experiments NAME ... [--scale small]."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from . import report, runner

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
RESULTS = Path("experiment-results")


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"of {', '.join(NAMES)}; all; or report"
    )
    parser.add_argument(
        "--scale",
        default="small",
        choices=("tiny", "small", "paper"),
        metavar="{small,paper}",
        help="a corner of each grid (small), or the paper's whole grid",
    )
    parser.add_argument(
        "--data", type=Path, help="folder of Parquet files; without it, tables come from OpenML"
    )
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help=f"folder ({RESULTS})")
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="tasks side by side, where time is not measured (all cores); 0: in this process",
    )
    parser.add_argument("--redraw", action="store_true", help="run nothing, draw and tell anew")
    parser.add_argument(
        "--docs", type=Path, help="report: also write paper.md and its pictures into this folder"
    )
    arguments = parser.parse_args(words)
    unknown = set(arguments.names) - {*NAMES, "all", "report"}
    if unknown:
        parser.error(f"no experiment {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    folder = arguments.output / arguments.scale
    try:
        if arguments.names == ["report"]:
            report.write(modules(NAMES), folder, arguments.scale, arguments.docs)
            return
    except (OSError, ValueError) as error:
        raise SystemExit(f"python -m experiments: {error}") from None
    failed = False
    for module in modules(NAMES if "all" in arguments.names else arguments.names):
        try:
            if not arguments.redraw:
                runner.run_all(module, arguments.scale, folder, arguments.data, arguments.jobs)
            report.tell(module, arguments.scale, folder)
        except (OSError, ValueError) as error:  # the others go on
            print(f"python -m experiments: {error}", file=sys.stderr)
            failed = True
    sys.exit(failed)


def modules(names: tuple[str, ...] | list[str]) -> list[runner.Experiment]:
    return [importlib.import_module(f"{__package__}.{name}") for name in names]


if __name__ == "__main__":
    main()
