"""The argument by="column" or by="term": whether the terms of a column count as one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from cwboost._utils.checks import check_one_of

By = Literal["column", "term"]


def names_by(terms: Iterable[Any], by: str) -> list[str]:
    """Return the name that each term counts for: its columns, such as "age" or "lon:lat", or its
    own name. A term is any object with a name and columns.

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
    """Raise unless `by` is "column" or "term"."""
    check_one_of("by", by, ("column", "term"))
