"""The entry point of the command line: parses arguments, runs a command and reports errors.

Exit codes: 0 success, 1 bad input or data, 2 wrong usage, 130 interrupted, 141 the reader of the
output is gone. Does not know what the commands do (see registry.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cwboost import __version__
from cwboost.progress import command_progress

from .arguments import check_outputs
from .command import BAD_INPUT, BROKEN_PIPE, INTERRUPTED, Command
from .registry import COMMANDS

EPILOG = """examples:
  cwboost fit people.csv --target income -o model.json
  cwboost cv people.csv --target income
  cwboost tune people.csv --target income -o model.json
  cwboost show model.json
  cwboost predict model.json new.csv -o predictions.csv
  cwboost explain model.json new.csv --row 0
  cwboost report model.json new.csv -o report.html
  cwboost export model.json --to model.sql

Tables are CSV, Parquet or JSON lines; '-' is standard input or output. 'cwboost COMMAND
--help' shows the options of a command and more examples."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names may hold any character
    options = make_parser().parse_args(arguments)
    progress = command_progress(
        sys.stderr,
        quiet=getattr(options, "quiet", False),
        log=getattr(options, "log_json", False),
        every=getattr(options, "log_every", 10),
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: progress.say("warning", str(message))
            check_outputs(options)
            code = COMMANDS[options.command].run(options, progress)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Python would complain at exit about buffered output that it cannot write.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        progress.say("error", "interrupted; nothing was written")
        return INTERRUPTED
    except OSError as error:
        known = error.strerror and error.filename
        progress.say("error", f"{error.filename}: {error.strerror}" if known else str(error))
    except (ValueError, TypeError, ImportError) as error:
        progress.say("error", str(error))
    except MemoryError:
        progress.say("error", "not enough memory for this table")
    finally:
        progress.close()
    return BAD_INPUT


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands and their options."""
    out = argparse.ArgumentParser(
        prog="cwboost",
        description="Interpretable additive models by componentwise gradient boosting.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    out.add_argument("--version", action="version", version=f"cwboost {__version__}")
    commands = out.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in COMMANDS.values():
        _add_command(commands, command)
    return out


def _add_command(commands: Any, command: Command) -> None:
    added = commands.add_parser(
        command.name,
        help=command.summary,
        description=command.description,
        epilog="\n  ".join(["examples:", *command.examples]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    added.set_defaults(command=command.name, parser=added)
    command.add_arguments(added)


if __name__ == "__main__":
    sys.exit(main())
