"""How large effects are over the training rows, from what the model remembers of them.

Unlike importance (importance.py), sizes are known for any model, also after edits.
"""

from __future__ import annotations

import numpy as np

from cwboost.binning.index_sets import UNSEEN
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.records import ColumnFacts
from cwboost.model.term import Term
from cwboost.terms.bases import Basis, RowShares
from cwboost.terms.encoders import Encoder

from .effects import cross
from .importance import stored_importance

GRID_POINTS = 50  # points of a column whose spread is not known


def sizes(model: Model) -> dict[str, float]:
    """Return the standard deviation of every chosen term's effect, largest first.

    It is taken over the training rows. With several outputs it is the largest of them; outputs
    that a term does not move count as zero.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> round(sizes(model.edit("set_level", "g", level="b", effect=0.0))["g"], 2)
    0.25
    """
    out = {}
    for name, term in model.terms.items():
        if term.chosen:
            values, weights = term_points(model, term)
            found = term.effect_at(values)
            mean = weights @ found
            out[name] = float(np.sqrt(weights @ (found - mean) ** 2).max())
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def panels(model: Model) -> dict[str, float]:
    """Return what there is to draw, with its importance, largest first.

    Panels are columns (their terms added up) and pairs of columns that have chosen terms. Where
    the importance is not stored, the size takes its place.
    """
    out: dict[str, float] = {}
    for name, share in (stored_importance(model) or sizes(model)).items():
        term = model.terms[name]
        key = name if len(term.columns) > 1 or _is_other_term(model, term) else term.columns[0]
        out[key] = out.get(key, 0.0) + share
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def _is_other_term(model: Model, term: Term) -> bool:
    """Return whether the name of the term's column means a term that is not all of the column."""
    column = term.columns[0]
    return column in model.terms and (
        sum(t.columns == (column,) for t in model.terms.values()) > 1
        or model.terms[column].columns != (column,)
    )


def term_points(model: Model, term: Term) -> RowShares:
    """Return encoded values that stand for the training rows, and their shares.

    For two columns the shares are multiplied, as if the columns were independent.
    """
    margins = zip(term.columns, term.plan.encoders, term.plan.basis.margins, strict=True)
    axes = [_axis_points(model.columns[c], encoder, basis) for c, encoder, basis in margins]
    if len(axes) == 1:
        return axes[0]
    (a, u), (b, v) = axes
    return RowShares(np.column_stack(cross(a, b)), np.outer(u, v).ravel())


def _axis_points(facts: ColumnFacts, encoder: Encoder, basis: Basis) -> RowShares:
    own = basis.row_shares()
    if own is not None:
        return own
    codes = encoder.codes()
    if codes is not None:  # a basis that does not know the shares of its codes
        known = codes[~np.isnan(codes) & (codes != UNSEEN)]
        return RowShares(known, np.full(len(known), 1.0 / max(len(known), 1)))
    if facts.spread is not None and len(facts.spread.points):
        at, shares, missing = facts.spread.points, facts.spread.shares, facts.spread.missing
    else:  # a file of an old version
        at = np.linspace(facts.low or 0.0, facts.high or 0.0, GRID_POINTS)
        shares, missing = np.full(GRID_POINTS, 1 / GRID_POINTS), 0.0
    if missing:
        at, shares = np.append(at, np.nan), np.append(shares * (1.0 - missing), missing)
    return RowShares(at, shares)


def level_shares(model: Model, column: str) -> Floats | None:
    """Return the shares of the levels of a column in the training rows, missing cells last.

    Return None if the terms do not know the shares of all levels.
    """
    marked: dict[int, float] = {}  # by code, from terms that know some of the levels
    n_levels = 0
    for term in model.terms.values():
        margins = zip(term.columns, term.plan.encoders, term.plan.basis.margins, strict=True)
        for name, encoder, basis in margins:
            points = basis.row_shares()
            if name != column or encoder.is_numeric or points is None:
                continue
            unseen = points.values == UNSEEN
            if not unseen.any():  # the basis knows all levels
                return points.shares
            if encoder.levels:
                n_levels = len(encoder.levels)
                for code, share in zip(points.values[~unseen], points.shares[~unseen], strict=True):
                    marked[n_levels if np.isnan(code) else int(code)] = float(share)
    if not marked or any(code not in marked for code in range(n_levels)):
        return None
    return np.array([marked[code] for code in sorted(marked)])
