"""by="column" or "term": whether the terms of a column count as one. Knows their names and columns
only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

By = Literal["column", "term"]


def names_by(terms: Iterable[Any], by: str) -> list[str]:
    """What every term (anything with a name and columns) counts for: "age" for all terms of this
    column and "lon:lat" for those of a pair, or the term's own name.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"x": [1.0, 2.0, 3.0] * 9}, [1.0, 2.0, 2.0] * 9, "components", n_iter=1)
    >>> names_by(model.terms.values(), "column"), names_by(model.terms.values(), "term")
    (['x', 'x'], ['linear(x)', 'centered(x)'])
    """
    check_by(by)
    return [":".join(term.columns) if by == "column" else term.name for term in terms]


def check_by(by: Any) -> None:
    if by not in ("column", "term"):
        raise ValueError(f"by: expected 'column' or 'term', got {by!r}")
