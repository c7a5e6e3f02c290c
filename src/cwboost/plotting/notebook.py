"""How notebooks display a model: a summary, sizes and small plots of effects, as HTML and SVG.

The HTML is small, fits light and dark pages, and shows names of any kind as text. Does not know
about matplotlib or the report.
"""

from __future__ import annotations

from html import escape

import numpy as np

from cwboost._utils.text import count
from cwboost._utils.text import readable_number as number
from cwboost.explain.importance import size_words
from cwboost.explain.shapes import Shape, shape, view
from cwboost.explain.sizes import panels
from cwboost.frames.columns import Floats
from cwboost.model.model import Model

from .drawing_data import (
    LEAST_DENSITY,
    EffectScale,
    Series,
    histogram,
    level_lines,
    on_axis,
    one_line,
    series_of,
    shares_of,
)

MAX_PLOTS = 12  # effects that are drawn; the others are listed
MAX_LISTED = 40  # beyond this they are only counted
MAX_CHARACTERS = 36_000  # of the plots; beyond this the other effects are listed
WIDTH, HEIGHT = 200, 96  # of a plot, in pixels
FOOT = 14  # height of the histogram of the rows
LEFT = 40  # width of the axis numbers
LEVELS = 7
POINTS = 110  # of a curve
CELLS = (12, 8)  # of a surface
# Text and lines have the colours of the page. Blue and orange are distinguishable on white, on
# black and in greyscale.
COLOURS = ("#3a8fcd", "#e08a1e", "currentColor", "#1a9e77", "#c06fa0", "#7f7f7f")
DASHES = ("", "6 2", "1 2", "6 2 1 2")
STYLE = """
.cwb{font:13px system-ui,sans-serif;color:inherit;max-width:1000px}
.cwb p{margin:.3em 0}.cwb .grid{display:flex;flex-wrap:wrap;gap:12px 16px;margin-top:.6em}
.cwb figure{margin:0;width:200px}.cwb figcaption{display:flex;justify-content:space-between;
gap:.5em;white-space:nowrap}
.cwb figcaption b{font-weight:600;overflow:hidden;text-overflow:ellipsis}
.cwb svg{display:block;width:200px;height:96px;overflow:visible}.cwb svg text{font-size:9px;
fill:currentColor}.cwb .bar{height:4px;background:#3a8fcd;margin:1px 0 3px;min-width:1px}
.cwb .faint{opacity:.65}.cwb summary{cursor:pointer}
"""


def html(model: Model) -> str:
    """Return the model as HTML: a summary and the most important effects.

    Examples
    --------
    >>> import cwboost as cb
    >>> text = html(cb.fit({"<b>": ["a", "b"] * 9}, [0.0, 1.0] * 9))
    >>> text.startswith('<div class="cwb">'), "&lt;b&gt;" in text, "<b><b>" in text
    (True, True, False)
    """
    order = panels(model)
    top = max(order.values(), default=0.0)
    cards: list[str] = []
    for name in list(order)[:MAX_PLOTS]:
        cards.append(_card(model, name, order[name], top))
        if sum(map(len, cards)) > MAX_CHARACTERS:
            break
    return (
        f'<div class="cwb"><style>{STYLE}</style>{_summary(model)}'
        f'<div class="grid">{"".join(cards)}</div>{_rest(list(order)[len(cards) :], order)}</div>'
    )


def _text(name: object, limit: int = 28) -> str:
    return escape(one_line(name, limit), quote=True)


def _summary(model: Model) -> str:
    m, path = model.best_iteration, model.path
    chosen = sum(term.chosen for term in model.terms.values())
    facts = [f"iteration {m:,} of {model.n_iter:,} ({_text(model.stopped, 60)})"]
    before, held = model.risk[0], model.validation_risk
    if model.bags is not None:
        facts, before, held = [_text(model.stopped, 60)], model.bags.risk_at_start, None
    if path.switched_after >= 0:
        facts.append(f"accelerated until {path.switched_after:,}")
    facts.append(f"training risk {number(before, 4)} → {number(model.risk[m], 4)}")
    if model.polish is not None:
        facts.append(_text(model.polish.words, 200))
        held = None if model.polish.on_all_rows else held  # these rows have been used
    if model.bags is not None:
        facts.append(f"out-of-bag risk {number(path.validation_risk[0], 4)}")
    if held is not None:
        facts.append(f"validation risk {number(held[0], 4)} → {number(held[m], 4)}")
    if model.edits:
        facts.append(f"edited {count(len(model.edits), 'time')} after the fit")
    target = model.settings.target
    what = "" if target is None else f" of {_text(target)}"
    kind = type(model.optimizer).__name__
    classes = "" if model.n_outputs == 1 else f'<p class="faint">{_classes(model)}</p>'
    return (
        f"<p><b>cwboost model</b>{what}: {_text(model.loss.name)} loss, {kind}, {chosen:,} of "
        f"{len(model.terms):,} terms chosen</p>"
        f'<p class="faint">{"; ".join(facts)}</p>'
        f'<p class="faint">{_text(EffectScale(model).label, 90)}; bars and numbers: '
        f"{size_words(model)}</p>{classes}"
    )


def _classes(model: Model) -> str:
    """Return a legend of the colours of the classes."""
    names = EffectScale(model).outputs
    shown = [
        f'<span style="color:{colour}">●</span> {_text(name, 20)}'
        for colour, name in zip(COLOURS, names, strict=False)
    ]
    return " ".join(shown) + (" and others, not drawn" if len(names) > len(COLOURS) else "")


def _rest(names: list[str], sizes: dict[str, float]) -> str:
    if not names:
        return ""
    shown = ", ".join(f"{_text(name)} ({number(sizes[name])})" for name in names[:MAX_LISTED])
    more = f" and {len(names) - MAX_LISTED:,} more" if len(names) > MAX_LISTED else ""
    what = "one more effect" if len(names) == 1 else f"{len(names):,} more effects"
    return f"<details><summary>{what}</summary>{shown}{more}</details>"


def _card(model: Model, name: str, size: float, top: float) -> str:
    drawn = shape(model, name, POINTS)
    series = series_of(EffectScale(model), drawn)
    draw = {"curve": _curve, "levels": _levels, "surface": _surface}[drawn.kind]
    gone = [s.missing for s in series if s.missing is not None]
    values = np.concatenate([*(s.values.ravel() for s in series), gone])
    says = f"effect of {one_line(name, 60)}: {number(values.min())} to {number(values.max())}"
    width = 100 * size / top if top > 0 else 0.0
    return (
        f'<figure><figcaption title="{_text(name, 300)}"><b>{_text(name)}</b>'
        f'<span class="faint">{number(size)}</span></figcaption>'
        f'<div class="bar" style="width:{width:.0f}%"></div>'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{_text(says, 120)}">'
        f"{draw(model, drawn, series)}</svg></figure>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, opacity: float = 0.4) -> str:
    ends = f'x1="{x1:.0f}" y1="{y1:.1f}" x2="{x2:.0f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="currentColor" stroke-opacity="{opacity}"/>'


def _words(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{text}</text>'


def _places(values: Floats, low: float, high: float, first: float, last: float) -> Floats:
    """Map numbers from low to high to positions from first to last."""
    return np.asarray(first + (values - low) * ((last - first) / ((high - low) or 1.0)))


def _curve(model: Model, drawn: Shape, series: list[Series]) -> str:
    column, x = drawn.columns[0], drawn.at[0]
    gone = [s.missing for s in series if s.missing is not None]
    spread = model.columns[column].spread
    low, high = view(float(x[0]), float(x[-1]), spread) if len(x) else (0.0, 1.0)
    seen = (x >= low) & (x <= high)
    known = [s.values[seen] for s in series]
    ends = np.concatenate([*known, gone, [0.0]])
    least, most = float(ends.min()), float(ends.max())
    right, foot = WIDTH - (18 if gone else 1), HEIGHT - 11 - FOOT
    middle = float(_places(np.zeros(1), least, most, foot, 4)[0])
    out = [_line(LEFT, middle, WIDTH, middle)]
    if spread is not None:
        out.append(_strip(*histogram(spread, low, high), low, high, right))
    at = _places(x[seen], low, high, LEFT, right)
    for k, values in enumerate(known[: len(COLOURS)]):
        out.append(_path(at, _places(values, least, most, foot, 4), k))
    for k, value in enumerate(gone[: len(COLOURS)]):
        y = float(_places(np.array([value]), least, most, foot, 4)[0])
        out.append(
            f'<circle cx="{WIDTH - 6}" cy="{y:.1f}" r="3" fill="none" stroke="{COLOURS[k]}" '
            'stroke-width="1.5"><title>missing</title></circle>'
        )
    out += [
        _words(LEFT, HEIGHT - 1, on_axis(low, low, high, 3)),
        _words(right, HEIGHT - 1, on_axis(high, low, high, 3), "end"),
    ]
    out += [_words(LEFT - 4, 8, number(most), "end"), _words(LEFT - 4, foot, number(least), "end")]
    return "".join(out)


def _path(x: Floats, y: Floats, k: int) -> str:
    """Return a line with as few points as possible."""
    points = np.round(np.column_stack([x, y])).astype(int)
    same = np.zeros(len(points), bool)  # between two equal points
    same[1:-1] = (points[1:-1, 1] == points[:-2, 1]) & (points[1:-1, 1] == points[2:, 1])
    points = points[~same]
    if len(points) > POINTS:
        points = points[np.unique(np.linspace(0, len(points) - 1, POINTS).astype(int))]
    places = " ".join(f"{a},{b}" for a, b in points)
    dash = f' stroke-dasharray="{DASHES[k % 4]}"' if k % 4 else ""
    return (
        f'<polyline points="{places}" fill="none" stroke="{COLOURS[k]}" stroke-width="1.8"{dash}/>'
    )


def _strip(left: Floats, width: Floats, share: Floats, low: float, high: float, end: float) -> str:
    """Return the histogram of the rows at the bottom of a plot."""
    if share.max(initial=0.0) <= 0:
        return ""
    tall = FOOT * share / share.max()
    begin = _places(left, low, high, LEFT, end)
    wide = width * (end - LEFT) / ((high - low) or 1.0)
    floor = HEIGHT - 11
    bars = "".join(
        f"M{a:.0f},{floor}v-{h:.0f}h{w:.1f}v{h:.0f}z"
        for a, h, w in zip(begin, tall, wide, strict=True)
        if h >= 0.5
    )
    return f'<path d="{bars}" fill="currentColor" fill-opacity=".22"/>'


def _levels(model: Model, drawn: Shape, series: list[Series]) -> str:
    shares = shares_of(model, drawn.columns[0], drawn.at[0])
    lines = level_lines(series, shares, LEVELS)
    values = np.array([line.values for line in lines])
    least, most = min(0.0, float(np.nanmin(values))), max(0.0, float(np.nanmax(values)))
    left, step = 84, HEIGHT / max(len(lines), 4)
    middle = float(_places(np.zeros(1), least, most, left + 3, WIDTH - 4)[0])
    out = [
        f'<line x1="{middle:.0f}" y1="0" x2="{middle:.0f}" y2="{step * len(lines):.0f}" '
        'stroke="currentColor" stroke-opacity=".4"/>'
    ]
    for i, line in enumerate(lines):
        y = (i + 0.5) * step
        out.append(_words(left - 6, y + 3, _text(line.name, 15) or "(empty)", "end"))
        for k, value in enumerate(line.values[: len(COLOURS)]):
            x = float(_places(np.array([value]), least, most, left + 3, WIDTH - 4)[0])
            if len(line.values) == 1:
                out.append(_line(middle, y, x, y, 0.35))
            fill = COLOURS[k] if line.kind == "level" else "none"
            out.append(
                f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="{fill}" stroke="{COLOURS[k]}"/>'
            )
    return "".join(out)


def _surface(model: Model, drawn: Shape, series: list[Series]) -> str:
    del model
    values = series[0].values
    rows, columns = (
        np.unique(np.linspace(0, size - 1, most).astype(int))
        for size, most in zip(values.shape, CELLS, strict=True)
    )
    cells = values[np.ix_(rows, columns)]
    near = np.ones(cells.shape, bool)
    if drawn.density is not None:
        near = drawn.density[np.ix_(rows, columns)] >= LEAST_DENSITY * drawn.density.max()
    top = float(np.abs(cells[near]).max(initial=0.0)) or 1.0
    w, h = WIDTH / len(rows), (HEIGHT - 12) / len(columns)
    out = []
    for i, j in zip(*np.nonzero(near), strict=True):
        value = float(cells[i, j])
        fill = COLOURS[0] if value < 0 else COLOURS[1]
        out.append(
            f'<rect x="{i * w:.1f}" y="{(len(columns) - 1 - j) * h:.1f}" width="{w + 0.3:.1f}" '
            f'height="{h + 0.3:.1f}" fill="{fill}" fill-opacity="{abs(value) / top:.2f}"/>'
        )
    a, b = drawn.columns
    return "".join(out) + _words(0, HEIGHT - 1, f"→ {_text(a, 14)}, ↑ {_text(b, 14)}")
