"""Area `command_line`: random command lines, with options found in the parser of the command.

A command ends with exit code 0 and the files it promised, or with 1 or 2 and one sentence on
standard error. It leaves no temporary files, and nothing half-written.
"""

from __future__ import annotations

import argparse
import csv
import sys
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib import pyplot

from cwboost.cli.main import main, make_parser
from fuzz.callables import TABLE, Y, model, multinomial_model
from fuzz.tables import Rng, pick
from fuzz.verdict import MessageError, PropertyError, find_fault

QUICK = {"--iterations": "4", "--least": "2", "--most": "4", "--folds": "2"}  # always given
RARE = ("demo",)  # takes seconds
ODD = ("", " ", "-1", "0", "1e400", "nan", "2.5", "x", "é", "007", "99999999999999999999", "--",
       "a,b", "missing/out.json", "missing.csv", ".", "'", "None", "x:y", "0.5")  # fmt: skip
NUMBERS = ("1", "2", "3", "5")
INPUTS = {
    "table": ("in.csv", "in.jsonl", "-", "empty.csv"),
    "model": ("model.json", "classes.json"),
}
OUTPUTS = {
    "output": ("out.json", "out.csv", "out.html", "out.png", "out.svg", "-", "out", "/dev/null"),
    "to": ("out.sql", "out.onnx", "out.xlsx", "out.json", "out", "out.txt"),
    "plot": ("plot.png", "plot.txt"), "trials": ("trials.csv",), "checkpoint": ("checkpoint",),
    "file": ("trials.jsonl",),
}  # fmt: skip
COLUMNS = ("x", "z", "g", "k", "y", "none")
TEXTS = {
    "formula": ("y ~ x + g", "y ~ s(x", "~"), "metric": ("rmse", "auc", "none"),
    "loss": ("squared", "huber:1.5", "quantile:2", "binomial"), "title": ("<b>", "A title"),
    "term": ("x", "x and g", "none"),
    "validation": ("0.3", "none", "g", "k"), "interactions": ("auto", "x:g", "x", "1"),
}  # fmt: skip


class Errors:
    """Standard error that keeps its text, and the exception that is handled while it is written."""

    def __init__(self) -> None:
        self.text, self.error = "", None

    def write(self, text: str) -> int:
        self.error = sys.exc_info()[1] or self.error
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Do nothing: the text is kept at once."""

    def isatty(self) -> bool:
        return False


def case(rng: Rng, tried: list[str]) -> None:
    write_inputs()
    before = {file: file.read_bytes() for file in Path().iterdir()}
    command, arguments = make_command_line(rng)
    tried.append(f"cwboost {' '.join(map(repr, arguments))}")
    code, errors = run(arguments)
    tried.append(f"exit code {code}, standard error: {errors.text[-400:]!r}")
    check_message(code, errors)
    check_files(code, command, arguments, before)


def run(arguments: list[str]) -> tuple[Any, Errors]:
    """Run the command line in this process; return its exit code and standard error."""
    errors = Errors()
    with ExitStack() as stack:
        out = stack.enter_context(Path(".stdout").open("w", encoding="utf-8"))
        kept, sys.stdin = sys.stdin, stack.enter_context(Path("in.csv").open(encoding="utf-8"))
        try:
            with redirect_stdout(out), redirect_stderr(errors):
                code = main(arguments)
        except SystemExit as stop:
            code = stop.code
        finally:
            sys.stdin = kept
            pyplot.close("all")
    Path(".stdout").unlink()
    return code, errors


def check_message(code: Any, errors: Errors) -> None:
    """Raise unless a failure is explained by one of our own sentences."""
    if code not in (0, 1, 2):
        raise MessageError(f"exit code {code}")
    if code == 0:
        return
    explained = "cwboost: " in errors.text or "error" in errors.text  # or a line of --log-json
    if "Traceback" in errors.text or not explained:
        raise MessageError(f"exit code {code} without a sentence: {errors.text[-80:]}")
    fault = find_fault(errors.error) if code == 1 and errors.error else None
    if fault:
        raise MessageError(f"the command line prints the message of a {fault}")


def check_files(code: Any, command: str, arguments: list[str], before: dict[Path, bytes]) -> None:
    """Raise if inputs changed, or if files are left over or missing."""
    for file, content in before.items():
        if not file.is_file() or file.read_bytes() != content:
            raise PropertyError("a command leaves its inputs as they are", str(file))
    left = [str(file) for file in Path().rglob(".*")]
    if left:
        raise PropertyError("a command leaves no temporary files", f"{left} after {command}")
    if code == 0 and "-o" in arguments:
        last = len(arguments) - 1 - arguments[::-1].index("-o")  # of several, the last one counts
        promised = arguments[last + 1]
        if promised != "-" and "-h" not in arguments and not Path(promised).exists():
            raise PropertyError("a command writes the file it promised", f"{command}: {promised}")


def write_inputs() -> None:
    """Write a table and two models to the current folder."""
    for name, content in _inputs().items():
        Path(name).write_text(content, encoding="utf-8")


@cache
def _inputs() -> dict[str, str]:
    table = TABLE | {"y": Y}
    with Path("in.csv").open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    model().save("model.json")
    multinomial_model().save("classes.json")
    names = ("in.csv", "model.json", "classes.json")
    lines = "\n".join(
        f'{{"x": {x}, "y": {y}, "g": "a"}}' for x, y in zip(TABLE["x"], Y, strict=True)
    )
    texts = {name: Path(name).read_text(encoding="utf-8") for name in names}
    return texts | {"in.jsonl": lines, "empty.csv": "x,y\n"}


@cache
def _parsers() -> dict[str, argparse.ArgumentParser]:
    commands = next(a for a in make_parser()._actions if isinstance(a.choices, dict))
    return dict(commands.choices)


def make_command_line(rng: Rng) -> tuple[str, list[str]]:
    """Return a command and its arguments, mostly valid."""
    names = [name for name in _parsers() if name not in RARE or rng.uniform() < 0.02]
    command = pick(rng, names)
    out = [command]
    for action in _parsers()[command]._actions:
        out += _argument(rng, action, command)
    if rng.uniform() < 0.1:
        out.insert(
            int(rng.integers(0, len(out) + 1)), pick(rng, [*ODD, "--none", "-o", "--target"])
        )
    return command, out


def _argument(rng: Rng, action: argparse.Action, command: str) -> list[str]:
    if action.dest == "help":
        return []
    option = action.option_strings[0] if action.option_strings else ""
    asked = not option or action.required or option in QUICK or action.dest == "target"
    if not asked and rng.uniform() > 0.15:
        return []
    if action.nargs == 0:
        return [option]
    odd = rng.uniform() < 0.07
    value = pick(rng, ODD) if odd else _valid(rng, action, option, command)
    return [option, value] if option else [value]


def _valid(rng: Rng, action: argparse.Action, option: str, command: str) -> str:
    if option in QUICK:
        return QUICK[option]
    if action.choices:
        return str(pick(rng, action.choices))
    if action.dest == "target":
        return str(pick(rng, ["y", "y", "y", "g", "none"]))
    for known in (TEXTS, OUTPUTS, INPUTS):
        if action.dest in known and not (known is INPUTS and command == "export"):
            return str(pick(rng, known[action.dest]))
    return str(pick(rng, COLUMNS if action.metavar == "COLUMN" else NUMBERS))
