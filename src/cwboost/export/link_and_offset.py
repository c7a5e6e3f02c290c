"""What all exports need besides the effects: the link, offset and exposure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from cwboost._utils.checks import check_one_of
from cwboost._utils.text import quote
from cwboost.model.model import Model


def checked_link(model: Model, kind: str, known: Collection[str], to: str) -> str:
    """Return the link function that an export has to write.

    Parameters
    ----------
    model : Model
    kind : "response" or "score"
        For scores no link is needed, so the identity is returned.
    known : names of links
        The links that the export can write.
    to : str
        The name of the export, for the error if it cannot write the link.
    """
    check_one_of("kind", kind, ("response", "score"))
    if kind == "score":
        return "identity"
    link = model.loss.link
    if link is None:
        raise TypeError(
            f"the response of the {model.loss.name} loss is a Python function, which cannot be "
            "exported; use kind='score'"
        )
    if link not in known:
        raise TypeError(
            f"the {model.loss.name} loss has the link {quote(link)}, which cannot be written as "
            f"{to} (only {', '.join(known)}); use kind='score'"
        )
    return link


@dataclass(frozen=True)
class FixedColumns:
    """Columns that are added to the score without a coefficient: offsets and log exposure."""

    offset: tuple[str, ...]  # no name, one, or one per output
    exposure: str | None


def fixed_columns(model: Model, offset: Any, exposure: Any) -> FixedColumns:
    """Return the given columns, or by default the columns that the model was fitted with."""
    settings = model.settings
    if settings.needs_offset and offset is None and exposure is None:
        raise ValueError(
            "the model was fitted with an offset (or exposure) for every row; pass the name of "
            "its column as offset= or exposure=, or offset=0 for none"
        )
    exposure = settings.exposure if exposure is None else exposure
    names = _offset_names(settings.offset if offset is None else offset)
    if exposure is None or _is(exposure, 1):
        return FixedColumns(names, None)
    if not isinstance(exposure, str):
        raise TypeError(
            f"exposure: expected the name of a column, or 1 for none, got {quote(exposure)}"
        )
    if not model.loss.log_link:
        raise ValueError(
            f"exposure: the {model.loss.name} loss does not have a log link; use offset instead"
        )
    return FixedColumns(names, exposure)


def _offset_names(offset: Any) -> tuple[str, ...]:
    if offset is None or _is(offset, 0):
        return ()
    if isinstance(offset, str):
        return (offset,)
    if isinstance(offset, Sequence) and all(isinstance(name, str) for name in offset):
        return tuple(offset)
    raise TypeError(f"offset: expected the name of a column, or 0 for none, got {quote(offset)}")


def _is(value: Any, number: int) -> bool:
    return isinstance(value, int | float) and value == number
