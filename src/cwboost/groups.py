"""Terms that stand for one thing: those of a column, or each for itself. Knows their names and
columns only.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

By = Literal["column", "term"]


def groups_of(terms: Iterable[Any], by: str) -> list[str]:
    """The name of the group of every term (anything with a name and columns): "age" for all terms
    of this column and "lon:lat" for those of a pair, or the term's own name.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"x": [1.0, 2.0, 3.0] * 9}, [1.0, 2.0, 2.0] * 9, "components", n_iter=1)
    >>> groups_of(model.terms.values(), "column"), groups_of(model.terms.values(), "term")
    (['x', 'x'], ['linear(x)', 'centered(x)'])
    """
    check_by(by)
    return [":".join(term.columns) if by == "column" else term.name for term in terms]


def check_by(by: Any) -> None:
    if by not in ("column", "term"):
        raise ValueError(f"by: expected 'column' or 'term', got {by!r}")
