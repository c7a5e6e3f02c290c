"""Draw a model by the kind of drawing, and save a drawing without opening a window."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from .effect import EffectDisplay
from .registry import display_of
from .style import (
    LATER,
)


def plot(model: Any, which: str | None = None, kind: str | None = None, **options: Any) -> Any:
    """See Model.plot."""
    if which is not None:
        if kind not in (None, "effects"):
            raise ValueError(f"kind={kind!r} is of the whole model; leave out {which!r}")
        return EffectDisplay.from_estimator(model, which, **options)
    kind = "effects" if kind is None else kind
    display = display_of(kind)
    if kind == "explanation" and options.get("table") is None:
        raise TypeError("kind='explanation' needs the row to explain: pass table= and row=")
    return display.from_estimator(model, **options)


def save(
    model: Any,
    file: Any,
    which: str | None = None,
    kind: str | None = None,
    *,
    form: str | None = None,
    dpi: int = 150,
    **options: Any,
) -> None:
    """Writes a picture to a file without opening a window.

    Parameters
    ----------
    model : Model, CWBRegressor or CWBClassifier
    file : path or open file
        Its ending says the form (.png, .svg, .pdf), unless `form` does.
    which, kind, **options
        As of `Model.plot`.
    form : str, optional
    dpi : int
        Pixels per inch of a PNG.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> save(model, "g.svg", "g")
    """
    page = which is None and kind in (None, "effects")
    display = plot(model, which, kind, **options, **{"figure" if page else "ax": LATER})
    write_display(display, file, form, dpi, page)


def write_display(display: Any, file: Any, form: str | None, dpi: int, page: bool = False) -> None:
    """Draws a display that was made LATER and writes it."""
    figure = Figure(figsize=display._size, layout="constrained")
    display.plot(figure if page else figure.add_subplot())
    figure.savefig(file, format=form, dpi=dpi)
