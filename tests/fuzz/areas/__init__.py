"""The areas of the fuzzer. To add one, write a module with `case(rng, tried)` and a line here."""

from fuzz.areas import arguments, files, fit, properties
from fuzz.worker import CaseFunction

AREAS: dict[str, CaseFunction] = {
    "fit": fit.case,
    "arguments": arguments.case,
    "files": files.case,
    "properties": properties.case,
}
