"""The command line of the benchmarks: python -m benchmarks [targets] ..."""

from __future__ import annotations

import argparse

from . import targets


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("targets", help="the figures the project holds itself to")
    targets.add_arguments(command)
    command.set_defaults(run=targets.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
