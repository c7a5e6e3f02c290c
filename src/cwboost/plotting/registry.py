"""The kinds of drawing of a model: `model.plot(kind=...)` and `cwboost plot --kind` look here.

To add a display: one class in its own file, and one line here. Does not import matplotlib, so that
the command line can list the kinds without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# By kind, the display class or where it is: "module:class" within this package.
DISPLAYS: dict[str, Any] = {
    "effects": "effects:EffectsDisplay",
    "importance": "importance:ImportanceDisplay",
    "risk": "risk:RiskDisplay",
    "traces": "traces:TracesDisplay",
    "explanation": "explanation:ExplanationDisplay",
    "interactions": "interactions:InteractionsDisplay",
}


def display_of(kind: str) -> Any:
    """Return the display class of a kind of drawing; raise ValueError if there is none."""
    if kind not in DISPLAYS:
        known = ", ".join(map(repr, DISPLAYS))
        raise ValueError(f"kind must be one of {known}, got {kind!r}")
    found = DISPLAYS[kind]
    if isinstance(found, str):
        module, name = found.split(":")
        found = getattr(import_module(f".{module}", __package__), name)
    return found
