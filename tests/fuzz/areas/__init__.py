"""The areas of the fuzzer. To add one, write a module with `case(rng, tried)` and a line here."""

from fuzz.areas import (
    arguments,
    command_line,
    estimators,
    files,
    fit,
    formulas,
    losses,
    properties,
)
from fuzz.worker import CaseFunction

AREAS: dict[str, CaseFunction] = {
    "fit": fit.case,
    "estimators": estimators.case,
    "losses": losses.case,
    "formulas": formulas.case,
    "arguments": arguments.case,
    "files": files.case,
    "command_line": command_line.case,
    "properties": properties.case,
}
