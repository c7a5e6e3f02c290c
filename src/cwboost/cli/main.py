"""Parses the arguments of the command line, runs a command and reports errors.

Exit codes: 0 success, 1 bad input or data, 2 wrong usage, 130 interrupted, 141 the reader of the
output is gone. Does not know what the commands do (see registry.py), or how
the process starts (see entry.py).
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from cwboost import __version__
from cwboost._utils.interrupts import interrupt_ignored
from cwboost._utils.unknown_arguments import describe_unknown
from cwboost.progress import Progress, QuietProgress, command_progress

from .arguments import check_inputs, check_outputs
from .command import Command
from .exit_codes import BAD_INPUT, BROKEN_PIPE, INTERRUPTED
from .registry import COMMANDS
from .streams import discard_unwritten_output, open_closed_streams
from .written_files import WrittenFiles

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
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names may hold any character
    progress: Progress = QuietProgress(sys.stderr)
    files = WrittenFiles(argparse.Namespace())
    try:
        options = _parse(arguments)
        files = WrittenFiles(options)
        progress = command_progress(
            sys.stderr,
            quiet=getattr(options, "quiet", False),
            log=getattr(options, "log_json", False),
            every=getattr(options, "log_every", 10),
        )
        return _run(options, progress)
    except BrokenPipeError:
        return BROKEN_PIPE
    except KeyboardInterrupt:
        with interrupt_ignored():
            progress.say("error", files.describe_interrupt())
        return INTERRUPTED
    except OSError as error:
        progress.say("error", _describe(error))
    except (ValueError, TypeError, ImportError) as error:
        progress.say("error", str(error))
    except MemoryError:
        progress.say("error", "not enough memory; use a larger machine or fewer rows")
    finally:
        progress.close()
        discard_unwritten_output()
    return BAD_INPUT


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options; exit after --help, --version and wrong usage."""
    shown = io.StringIO()  # argparse would ignore errors of standard output
    try:
        with contextlib.redirect_stdout(shown):
            options, unknown = make_parser().parse_known_args(arguments)
            if unknown:
                options.parser.error(_describe_unknown(options, unknown))
    finally:
        sys.stdout.write(shown.getvalue())
        sys.stdout.flush()
    return options


def _run(options: argparse.Namespace, progress: Progress) -> int:
    """Run the command and return its exit code; warnings become messages."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: progress.say("warning", str(message))
        check_inputs(options)
        check_outputs(options)
        code = COMMANDS[options.command].run(options, progress)
    sys.stdout.flush()
    return code


def _describe_unknown(options: argparse.Namespace, unknown: Sequence[str]) -> str:
    """Return a sentence on arguments that a command does not have."""
    option = next((text for text in unknown if text.startswith("--")), None)
    if option is None:
        return f"unrecognized arguments: {' '.join(unknown)}"
    actions = options.parser._actions
    written = (text for action in actions for text in action.option_strings)
    known = [text.removeprefix("--") for text in written if text.startswith("--")]
    name = option.partition("=")[0]
    return describe_unknown(f"cwboost {options.command}", name, known, "--{}")


def _describe(error: OSError) -> str:
    """Return the message of an error of the operating system, with the file if it is known."""
    if not error.strerror:
        return str(error)
    if error.filename is None and error.errno == errno.ENOENT:
        return "the current folder does not exist any more; change to another one"
    return f"{error.filename or 'standard output'}: {error.strerror}"


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
