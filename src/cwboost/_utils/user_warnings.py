"""Warnings that point to the user's line of code, however deep in the package they are raised."""

from __future__ import annotations

import sys
import warnings

SKIPPED = ("cwboost", "sklearn", "joblib")  # packages that stand between the user and a warning


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and name the first line outside of the package as the place."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_skipped(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _is_skipped(module: str) -> bool:
    return module.partition(".")[0] in SKIPPED
