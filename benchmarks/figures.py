"""The figure of the comparison: a panel per problem, a bar per library with the time of its fit.

The only module of the benchmarks that imports matplotlib.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from .results import Group, Line, Result, groups, number, outcome

OWN_COLOUR, OTHER_COLOUR = "#c1440e", "#9aa5b1"
COLUMNS = 2


def draw(results: list[Result], path: Path) -> Path:
    """Write the figure; the suffix of the path sets the file format."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    found = groups(results)
    n_rows = math.ceil(len(found) / COLUMNS)
    bars = max(len(group.lines) for group in found)
    figure = Figure(figsize=(6.2 * COLUMNS, n_rows * (0.28 * bars + 1.0)), layout="constrained")
    with mpl.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "cwboost"}):
        panels = figure.subplots(n_rows, COLUMNS, squeeze=False).ravel()
        for panel, group in zip(panels, found, strict=False):
            draw_panel(panel, group)
        for panel in panels[len(found) :]:
            panel.set_axis_off()
        dated = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=130, **dated)
    return path


def draw_panel(panel: Any, group: Group) -> None:
    lines = [line for line in group.lines if line.status != "failed"]
    lengths = [line.limit if line.status == "late" else line.figures["fit_seconds"]
               for line in lines]  # fmt: skip
    colours = [OWN_COLOUR if line.rival.startswith("cwboost") else OTHER_COLOUR for line in lines]
    drawn = panel.barh(range(len(lines)), lengths, color=colours, height=0.7)
    for bar, line, length in zip(drawn, lines, lengths, strict=True):
        if line.status == "late":
            bar.set(hatch="///", edgecolor="white")
        middle = bar.get_y() + bar.get_height() / 2
        panel.annotate(remark(line), (length, middle), (4, 0), textcoords="offset points",
                       va="center", fontsize=8)  # fmt: skip
    panel.set_xscale("log")
    if lengths:
        panel.set_xlim(min(lengths) / 2, max(lengths) * 30)  # space for the remarks
    panel.set_yticks(range(len(lines)), [line.rival for line in lines])
    panel.invert_yaxis()
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_title(group.title, loc="left", fontsize=10)
    panel.set_xlabel("seconds of the fit")


def remark(line: Line) -> str:
    """Return the time and the error as text; the test loss if the truth is unknown."""
    f = line.figures
    if line.status == "late" or f["f_error"] is None:
        return outcome(line)
    judged = f"error {number(f['f_error'], 2)}"
    return f"{number(f['fit_seconds'], 2)} s, {judged}"
