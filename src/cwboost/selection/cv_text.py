"""The result of a cross-validation as text and as HTML for notebooks. Does not know about folds and
fits (see fold_fits.py).
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost._utils.text import count, format_table, readable_number
from cwboost.frames.columns import Floats
from cwboost.metrics.metric import RISK

if TYPE_CHECKING:
    from .cv_polish import PolishedFolds
    from .cv_result import CV

WIDTH, HEIGHT = 420, 150  # size of the small chart in pixels
LEFT, FOOT = 48, 16  # margins of the chart, for numbers
POINTS = 160  # points of a line in the chart
BLUE, RED = "#3a8fcd", "#d55e00"


def summary(found: CV, final_fit: str | None = None) -> str:
    """Return the text of CV.summary; `final_fit` says how to fit the final model, by default in
    Python."""
    rows = _rows(found)
    columns = {name: [_dash_if_nan(row[name]) for row in rows] for name in rows[0]}
    asked = f" (asked: {found.asked})" if found.n_iter != found.asked else ""
    folds, iterations = count(found.n_folds, "fold"), count(found.n_iter, "iteration")
    lines = [
        f"cross-validation: {folds}, {iterations}{asked}",
        f"{found.loss!r} loss, {found.optimizer!r}",
        f"best by {found.chosen_by}: {final_fit or _final_fit(found)}",
        *([] if found.polished is None else [f"polish: {found.polished.words}"]),
        "",
        *format_table(columns),
    ]
    return "\n".join(lines)


def _rows(found: CV) -> list[dict[str, Any]]:
    """Return the table rows to show: means at the start, at both choices and at the end."""
    table = found.table()
    marked = {
        "start": 0,
        "within one se": found.best_iteration_1se,
        "best": found.best_iteration,
        "last": found.n_iter,
    }
    rows = [
        {"": name, **{column: values[m] for column, values in table.items()}}
        for name, m in marked.items()
    ]
    return rows if found.polished is None else [*rows, _polished_row(found.polished, rows[0])]


def _polished_row(polished: PolishedFolds, like: dict[str, Any]) -> dict[str, Any]:
    """Return the row of the polished folds, with the columns of another row."""
    out = dict.fromkeys(like, float("nan")) | {"": "polished", "iteration": polished.iteration}
    for name in (RISK, *polished.metrics):
        out |= {name: polished.mean(name), f"{name}_se": polished.standard_error(name)}
    return out


def _dash_if_nan(value: Any) -> Any:
    """Return a value, or a dash if it is NaN (not computed, or an error of a single fold)."""
    return "-" if isinstance(value, float | np.floating) and np.isnan(value) else value


def _final_fit(found: CV) -> str:
    """Return the call that fits the final model."""
    polish = ', polish="auto"' if found.polished is not None and found.polished.helps else ""
    return f"cb.fit(..., n_iter={found.best_iteration}{polish})"


def html(found: CV) -> str:
    """Return HTML with a sentence, the path as a chart and the table of choices."""
    rows = _rows(found)
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>"
        for row in rows
    )
    return (
        '<div style="font:13px system-ui,sans-serif;color:inherit;max-width:720px">'
        f"<p><b>cwboost cross-validation</b>: {count(found.n_folds, 'fold')}, "
        f"{found.n_iter:,} iterations, "
        f"{escape(found.loss.name)} loss, {type(found.optimizer).__name__}; best by "
        f"{escape(found.chosen_by)}: <code>{_final_fit(found)}</code></p>"
        f"{_polish_words(found)}{_picture(found)}<table><tr>{head}</tr>{body}</table></div>"
    )


def _polish_words(found: CV) -> str:
    return "" if found.polished is None else f"<p>polish: {escape(found.polished.words)}</p>"


def _cell(value: Any) -> str:
    value = _dash_if_nan(value)
    return escape(value) if isinstance(value, str) else readable_number(float(value), 5)


def _picture(found: CV) -> str:
    """Return an SVG chart of the mean with its standard error, and both choices."""
    at, mean, error = found.iterations, found.mean, np.nan_to_num(found.standard_error)
    known = np.isfinite(mean) & np.isfinite(error)
    some = np.unique(np.linspace(0, known.sum() - 1, POINTS).astype(int))
    at, mean, error = at[known][some], mean[known][some], error[known][some]
    low, high = float((mean - error).min()), float((mean + error).max())
    room = (high - low) or 1.0

    def x(m: Any) -> Any:
        return LEFT + (WIDTH - LEFT - 4) * np.asarray(m) / max(found.n_iter, 1)

    def y(value: Any) -> Any:
        return 6 + (HEIGHT - FOOT - 10) * (high - np.asarray(value)) / room

    def points(ms: Floats, values: Floats) -> str:
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x(ms), y(values), strict=True))

    band = points(np.append(at, at[::-1]), np.append(mean + error, (mean - error)[::-1]))
    marks = "".join(
        f'<circle cx="{x(m):.1f}" cy="{y(value):.1f}" r="4" fill="{colour}"/>'
        for m, value, colour in (
            (found.best_iteration, found.best, RED),
            (found.best_iteration_1se, _value(found, found.best_iteration_1se), BLUE),
        )
    )
    words = "".join(
        f'<text x="{left:.0f}" y="{top:.0f}" text-anchor="{side}" font-size="10" '
        f'fill="currentColor">{text}</text>'
        for left, top, side, text in (
            (LEFT - 4, 12, "end", readable_number(high, 3)),
            (LEFT - 4, HEIGHT - FOOT, "end", readable_number(low, 3)),
            (LEFT, HEIGHT - 2, "start", "0"),
            (WIDTH - 4, HEIGHT - 2, "end", f"{found.n_iter:,} iterations"),
        )
    )
    says = f"{found.chosen_by} over the iterations, best after {found.best_iteration}"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(says, quote=True)}"><polygon points="{band}" fill="{BLUE}" '
        f'opacity=".2"/><polyline points="{points(at, mean)}" fill="none" stroke="{BLUE}" '
        f'stroke-width="1.8"/>{marks}{words}</svg>'
    )


def _value(found: CV, m: int) -> float:
    return float(found.mean[np.searchsorted(found.iterations, m)])
