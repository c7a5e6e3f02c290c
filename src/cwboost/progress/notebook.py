"""Progress in a notebook: bars in HTML that are updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from .base import Progress, ProgressTask
from .text import clip, line, status_parts

EVERY_PAGE = 0.25  # seconds between two updates
LONGEST = 40  # characters of a word
TEXT_WIDTH = 120  # characters, where HTML is not shown


class NotebookProgress(Progress):
    """Bars in the output of a notebook cell, one for each running work, updated in place."""

    every = EVERY_PAGE
    _handle: Any = None

    def draw(self, now: float, final: bool) -> None:
        self.show(_HtmlView(page(self.tasks, now, final), line(self.tasks, now, TEXT_WIDTH, final)))

    def show(self, view: _HtmlView) -> None:
        """Show or update the output of the cell."""
        from IPython.display import display

        self.shown = True
        if self._handle is None:
            self._handle = display(view, display_id=True)
        else:
            self._handle.update(view)

    def clear(self) -> None:
        if self.shown:
            self.show(_HtmlView("", ""))
        self.leave()

    def leave(self) -> None:
        self.shown, self._handle = False, None


class _HtmlView:
    """What the notebook displays, as HTML or as text."""

    def __init__(self, html: str, text: str) -> None:
        self.html, self.text = html, text

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.text


def page(tasks: Sequence[ProgressTask], now: float, final: bool = False) -> str:
    """Return the running work as HTML: a bar for each, and texts for the innermost.

    Examples
    --------
    >>> 'aria-valuenow="50"' in page([ProgressTask("<b>", 2, 1, 0.0)], 1.0)
    True
    """
    bars = "".join(_bar(task, task is not tasks[-1]) for task in tasks)
    parts = status_parts(tasks, now, final)
    if tasks[-1].share() is not None:
        parts = parts[1:]  # the bar shows the count
    words = " &middot; ".join(escape(clip(text, LONGEST)) for _, text in parts)
    return (
        '<div style="font:13px system-ui,sans-serif;color:inherit;max-width:720px;'
        f'font-variant-numeric:tabular-nums">{bars}'
        f'<div style="opacity:.8;margin-top:3px;overflow-wrap:anywhere">{words}</div></div>'
    )


def _bar(task: ProgressTask, outer: bool) -> str:
    share = task.share()
    if share is None:
        return ""
    percent, name = int(100 * share), escape(task.what or "work", quote=True)
    label = escape(clip(task.count(running=outer), LONGEST))
    return (
        '<div style="display:flex;align-items:center;gap:10px;margin:3px 0">'
        f'<div role="progressbar" aria-label="{name}" aria-valuemin="0" aria-valuemax="100" '
        f'aria-valuenow="{percent}" style="flex:1;height:8px;border-radius:4px;overflow:hidden;'
        'background:rgba(127,127,127,.25)">'
        f'<div style="width:{100 * share:.1f}%;height:100%;background:#3a8fcd"></div></div>'
        f'<span style="min-width:6.5em">{label}</span></div>'
    )
