"""The style of the figures: one style, one colour per algorithm.

matplotlib is imported only when something is drawn, so that measuring processes do not load it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Okabe and Ito's colours, which colour-blind readers can distinguish.
BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#6b7280",
)  # fmt: skip
COLOURS = (BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
ALGORITHMS = {"CWB": GREEN, "ACWB": BLUE, "HCWB": ORANGE, "EBM": PURPLE, "XGBoost": GREY}
STYLE = {
    "font.size": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e5e7eb",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "cwboost",  # makes files reproducible
    "figure.constrained_layout.use": True,
}
WIDTH = 9.5  # inches of a full-width figure


def style() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(STYLE)


def panels(n_rows: int, n_columns: int, height: float = 2.9, **settings: Any) -> tuple[Any, Any]:
    """Return a figure and its axes (n_rows, n_columns); call it and draw inside style()."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height * n_rows), layout="constrained")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **settings)


def save(figure: Any, path: Path) -> Path:
    with style():
        dated = {"metadata": {"Date": None}} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=110, **dated)
    return path


def colours(keys: Sequence[Any]) -> dict[Any, Any]:
    """Return a colour per key, from dark to light, for ordered keys."""
    import matplotlib as mpl

    shades = mpl.colormaps["viridis"](np.linspace(0.05, 0.88, max(2, len(keys))))
    return dict(zip(keys, shades, strict=False))


def equal_line(panel: Any, value: float, text: str = "") -> None:
    """Draw the line of equality."""
    panel.axhline(value, color=RED, linestyle="--", linewidth=0.9)
    panel.annotate(
        text, (0.99, value), xycoords=("axes fraction", "data"), xytext=(0, 2),
        textcoords="offset points", ha="right", va="bottom", color=RED, fontsize=7.5,
    )  # fmt: skip


def log_ticks(axis: Any, values: Sequence[float]) -> None:
    """Make an axis logarithmic, with ticks at these values in plain numbers."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axis.set_major_locator(FixedLocator(list(values)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def plain_log(axis: Any) -> None:
    """Make an axis with data logarithmic, with enough ticks in plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = sorted(axis.get_view_interval())
    if high / low < 8:
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    else:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))


def plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:g}"


def boxes(panel: Any, groups: dict[str, dict[str, Any]], fills: dict[str, Any]) -> None:
    """Draw boxes of values by group (along the axis) and by kind (adjacent, coloured)."""
    kinds = list(fills)
    width = 0.8 / len(kinds)
    for i, of_kind in enumerate(groups.values()):
        for j, kind in enumerate(kinds):
            values = np.asarray(of_kind.get(kind, []), dtype=float)
            if len(values):
                at = i + (j - (len(kinds) - 1) / 2) * width
                drawn = panel.boxplot(
                    [values], positions=[at], widths=0.85 * width, patch_artist=True,
                    flierprops={"markersize": 2}, medianprops={"color": "black"},
                )  # fmt: skip
                drawn["boxes"][0].set(facecolor=fills[kind], alpha=0.6, linewidth=0.7)
    panel.set_xticks(range(len(groups)), list(groups))


def paper_marks(panel: Any, told: Sequence[dict[str, float]], fills: dict[str, Any]) -> None:
    """Draw the paper's numbers as crosses over `boxes`: by group, and by kind."""
    width = 0.8 / len(fills)
    for i, of_kind in enumerate(told):
        for j, kind in enumerate(fills):
            if kind in of_kind:
                at = i + (j - (len(fills) - 1) / 2) * width
                panel.plot(at, of_kind[kind], "x", color="black", markersize=5, zorder=5)


def key(panel: Any, fills: dict[str, Any], **settings: Any) -> None:
    """Draw a legend of coloured patches."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=fill, alpha=0.6, label=name) for name, fill in fills.items()]
    panel.legend(handles=handles, **settings)
