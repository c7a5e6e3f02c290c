"""The paper's variants by name, such as "HCWB (b)", and the learners it fits to a real table."""

from __future__ import annotations

from typing import Any

import cwboost as cb

MOMENTUM = {"ACWB": 0.0034, "HCWB": 0.037}
BINS = {"nb": "exact", "b": "sqrt"}
VARIANTS = tuple(f"{method} ({bins})" for method in ("CWB", "ACWB", "HCWB") for bins in BINS)
BASE = "CWB (nb)"


def method_of(variant: str) -> str:
    return variant.split()[0]


def bins_of(variant: str) -> str:
    return BINS[variant.split()[1].strip("()")]


def optimizer(variant: str, rate: float) -> Any:
    method = method_of(variant)
    if method == "CWB":
        return cb.Plain(rate)
    if method == "ACWB":
        return cb.Accelerated(rate, MOMENTUM[method])
    return cb.Hybrid(rate, MOMENTUM[method], then="training")


def learners(X: Any, df: float, df_category: float) -> list[Any]:
    """Return a spline per numeric column (a line if it has two values) and a ridge learner per
    other column."""
    out: list[Any] = []
    for name, column in X.items():
        if column.dtype.kind not in "fiu":
            out.append(cb.Category(name, df=min(df_category, column.nunique())))
        elif column.nunique() <= 2:
            out.append(cb.Linear(name))
        else:
            out.append(cb.Spline(name, df=df, knots=20, tails="smooth"))
    return out
