"""Draws a model by the kind of plot, and saves a plot without opening a window."""

from __future__ import annotations

from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

from cwboost._utils.atomic_files import replace_file
from cwboost._utils.checks import is_number, is_one_of
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import check_keywords

from .display import DEFERRED, Display
from .effect import EffectDisplay
from .mpl import Figure
from .registry import DEFAULT, find_display

MAX_PIXELS = 2**27  # of a PNG; they take 4 bytes each
LEAST_DPI, MAX_DPI = 10, 10**6  # text cannot be drawn with fewer


def plot(model: Any, which: str | None = None, kind: str | None = None, **options: Any) -> Any:
    """See Model.plot."""
    if which is not None:
        if kind is not None and not is_one_of(kind, (DEFAULT,)):
            raise ValueError(f"kind={quote(kind)} draws the whole model; leave out {quote(which)}")
        check_keywords("plot of an effect", EffectDisplay.from_estimator, options)
        return EffectDisplay.from_estimator(model, which, **options)
    kind = DEFAULT if kind is None else kind
    display = find_display(kind)
    if getattr(display, "needs_row", False) and options.get("table") is None:
        raise TypeError(f"kind={quote(kind)} draws one row: pass table= and row=")
    check_keywords(f"plot of kind {quote(kind)}", display.from_estimator, options)
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
    """Write a plot to a file without opening a window.

    Parameters
    ----------
    model : Model, CWBRegressor or CWBClassifier
    file : path or open file
    which, kind, **options
        As for `Model.plot`.
    form : str, optional
        "png", "svg" or "pdf"; by default the ending of the file name.
    dpi : int
        Pixels per inch of a PNG.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> save(model, "g.svg", "g")
    """
    display = EffectDisplay if which is not None else find_display(kind or DEFAULT)
    if isinstance(display, type) and issubclass(display, Display):
        place = "figure" if display.is_page else "ax"
        save_display(plot(model, which, kind, **options, **{place: DEFERRED}), file, form, dpi)
        return
    figure = Figure(layout="constrained")  # a user's class, which draws at once
    plot(model, which, kind, ax=figure.add_subplot(), **options)
    save_figure(figure, file, form, dpi)


def save_display(display: Display, file: Any, form: str | None = None, dpi: int = 150) -> None:
    """Draw a display that was made with DEFERRED, and write it to a file."""
    figure = Figure(figsize=display.figure_size, layout="constrained")
    display.plot(figure if display.is_page else figure.add_subplot())
    save_figure(figure, file, form, dpi)


def save_figure(figure: Figure, file: Any, form: str | None = None, dpi: int = 150) -> None:
    """Write a figure to an open file, or to a path: completely or not at all."""
    _check_pixels(figure, dpi, form or _ending(file))
    if not isinstance(file, str | PathLike):
        figure.savefig(file, format=form, dpi=dpi)
        return
    with replace_file(file) as temporary:
        drawn = BytesIO()  # after a failed write to a file, matplotlib fails a second time
        figure.savefig(drawn, format=form or _ending(file), dpi=dpi)
        temporary.write_bytes(drawn.getbuffer())


def _ending(file: Any) -> str:
    return (Path(file).suffix[1:].lower() if isinstance(file, str | PathLike) else "") or "png"


def _check_pixels(figure: Figure, dpi: int, form: str) -> None:
    """Raise if dpi is not a resolution, or if a PNG would need gigabytes of memory."""
    if not (is_number(dpi) and LEAST_DPI <= dpi <= MAX_DPI):
        raise ValueError(f"dpi: expected a number from {LEAST_DPI} to {MAX_DPI}, got {quote(dpi)}")
    width, height = (round(dpi * inches) for inches in figure.get_size_inches())
    if form == "png" and width * height > MAX_PIXELS:
        most = int(dpi * (MAX_PIXELS / (width * height)) ** 0.5)
        raise ValueError(
            f"dpi {dpi}: the picture would have {width:,} x {height:,} pixels, which is too large; "
            f"use at most {most}, or write .svg or .pdf"
        )
