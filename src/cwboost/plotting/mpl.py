"""Imports the names of matplotlib that displays use, and says what to install if it is missing.

The other modules of the package import them from here.
"""

try:
    import matplotlib as mpl
    from matplotlib import font_manager
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.colors import (
        LinearSegmentedColormap,
        LogNorm,
        Normalize,
        TwoSlopeNorm,
        to_rgb,
    )
    from matplotlib.figure import Figure, FigureBase
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle
    from matplotlib.ticker import (
        FixedLocator,
        FuncFormatter,
        MaxNLocator,
        NullFormatter,
    )
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ModuleNotFoundError(
        "plots need matplotlib: pip install 'cwboost[plot]'", name="matplotlib"
    ) from None

__all__ = [
    "Axes",
    "Figure",
    "FigureBase",
    "FixedLocator",
    "FuncFormatter",
    "Line2D",
    "LineCollection",
    "LinearSegmentedColormap",
    "LogNorm",
    "MaxNLocator",
    "Normalize",
    "NullFormatter",
    "Patch",
    "PatchCollection",
    "Rectangle",
    "TwoSlopeNorm",
    "font_manager",
    "mpl",
    "to_rgb",
]
