"""The kinds of plots of a model: `model.plot(kind=...)` and `cwboost plot --kind` look here.

To add a display, write one class (see display.py) in its own file and add a line here; a user may
also set `DISPLAYS["kind"] = TheClass`. Does not import matplotlib, so that the command line can
list the kinds without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from cwboost._utils.checks import check_one_of

DEFAULT = "effects"
# By kind, the display class or where it is: "module:class" within this package.
DISPLAYS: dict[str, Any] = {
    "effects": "effects:EffectsDisplay",
    "importance": "importance:ImportanceDisplay",
    "risk": "risk:RiskDisplay",
    "traces": "traces:TracesDisplay",
    "explanation": "explanation:ExplanationDisplay",
    "interactions": "interactions:InteractionsDisplay",
}


def find_display(kind: str) -> Any:
    """Return the display class of a kind of plot; raise ValueError if the kind is unknown."""
    check_one_of("kind", kind, DISPLAYS)
    found = DISPLAYS[kind]
    if isinstance(found, str):
        module, name = found.split(":")
        found = getattr(import_module(f".{module}", __package__), name)
    return found
