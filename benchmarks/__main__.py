"""The command line: python -m benchmarks [compare, table, targets, quality, recover, cv, scale,
cluster, passes, busy, history]."""

from __future__ import annotations

import argparse
import sys

from . import busy, cluster, compare, cv, history, passes, quality, recover, scale, targets

COMMANDS = {  # name: (adds arguments, runs the command, help text)
    "compare": (compare.add_arguments, compare.run, "libraries on problems (the default)"),
    "table": (compare.add_table_arguments, compare.print_table, "the table of a comparison"),
    "targets": (targets.add_arguments, targets.run, "the performance targets of the project"),
    "quality": (
        quality.add_arguments,
        quality.run,
        "predictions on real tables, compared with EBM, boosted trees and GAM libraries",
    ),
    "recover": (recover.add_arguments, recover.run, "RMS error of known functions"),
    "cv": (cv.add_arguments, cv.run, "the cost of ten folds compared with ten fits"),
    "scale": (scale.add_arguments, scale.run, "rows that need not fit into memory"),
    "cluster": (cluster.add_arguments, cluster.run, "a fit on a cluster: where its time goes"),
    "passes": (passes.add_arguments, passes.run, "what a row costs"),
    "busy": (busy.add_arguments, busy.run, "threads beside other busy processes"),
    "history": (history.add_arguments, history.run, "speed of this commit compared with the last"),
}


def main(words: list[str] | None = None) -> None:
    words = sys.argv[1:] if words is None else words
    if not words or (words[0] not in COMMANDS and words[0] not in ("-h", "--help")):
        words = ["compare", *words]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, (add_arguments, run, help_text) in COMMANDS.items():
        command = commands.add_parser(name, help=help_text, description=help_text)
        add_arguments(command)
        command.set_defaults(run=run)
    arguments = parser.parse_args(words)
    try:
        arguments.run(arguments)
    except (OSError, ValueError) as error:
        raise SystemExit(f"python -m benchmarks: {error}") from None


if __name__ == "__main__":
    main()
