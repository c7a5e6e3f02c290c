"""The sizes of effects: the mean absolute effect over the training rows, of terms and of columns.

A fit computes and stores them (fitting/effect_sizes.py). Where they are not stored (edited columns,
`at(m)`, files of older versions), they are approximated from what the model keeps about its
training rows: the points of `Spread`, the shares of levels, and the margins of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cwboost.binning.index_sets import UNSEEN
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.records import ColumnFacts, Sizes
from cwboost.model.term import Term, column_groups
from cwboost.terms.bases import Basis, RowShares
from cwboost.terms.encoders import Encoder

from .effects import cross, effect_axis, total_effect

GRID_POINTS = 50  # points of a column whose spread is not known


def sizes(model: Model) -> Sizes:
    """Return the sizes of the chosen terms and of their columns: stored, or approximated.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> round(sizes(model.edit("set_level", "g", level="b", effect=0.0)).terms["g"], 2)
    0.25
    """
    stored = Sizes({}, {}) if model.sizes is None else model.sizes
    terms, columns = {}, {}
    for group, members in chosen_groups(model).items():
        for term in members:
            known = stored.terms.get(term.name)
            terms[term.name] = _approximate(model, [term]) if known is None else known
        known = stored.columns.get(group)
        if known is None:
            several = len(members) > 1
            known = _approximate(model, members) if several else terms[members[0].name]
        columns[group] = known
    return Sizes(MappingProxyType(terms), MappingProxyType(columns))


def are_stored(model: Model) -> bool:
    """Return whether the sizes of all chosen terms are those that the fit computed."""
    known = {} if model.sizes is None else model.sizes.terms
    return all(name in known for name, term in model.terms.items() if term.chosen)


def sizes_on_rows(model: Model, effects: Mapping[str, Floats], weights: Floats) -> Sizes:
    """Return the sizes on given rows, from the (n, q) effects of the chosen terms."""

    def mean_size(effect: Any) -> float:
        return float(np.average(np.abs(effect).mean(axis=1), weights=weights))

    groups = chosen_groups(model).items()
    return Sizes(
        {name: mean_size(effect) for name, effect in effects.items()},
        {group: mean_size(sum(effects[t.name] for t in members)) for group, members in groups},
    )


def chosen_groups(model: Model) -> dict[str, list[Term]]:
    """Return the chosen terms by column or pair of columns, under the names of `column_groups`."""
    out: dict[str, list[Term]] = {}
    for name, group in column_groups(model.terms).items():
        if model.terms[name].chosen:
            out.setdefault(group, []).append(model.terms[name])
    return out


def panels(model: Model) -> dict[str, float]:
    """Return what there is to draw, with its size, largest first.

    Panels are columns (their terms added up) and pairs of columns that have chosen terms, under
    names that `Model.effect` takes.
    """
    found = sizes(model)
    out: dict[str, float] = {}
    for group, members in chosen_groups(model).items():
        first = members[0]
        if len(first.columns) > 1 or _is_other_term(model, first):
            out |= {term.name: found.terms[term.name] for term in members}
        else:
            out[first.columns[0]] = found.columns[group]
    return largest_first(out)


def largest_first(values: Mapping[str, float]) -> dict[str, float]:
    """Return a mapping in decreasing order of its values."""
    return dict(sorted(values.items(), key=lambda item: -item[1]))


def _is_other_term(model: Model, term: Term) -> bool:
    """Return whether the name of the term's column means a term that is not all of the column."""
    column = term.columns[0]
    return column in model.terms and (
        sum(t.columns == (column,) for t in model.terms.values()) > 1
        or model.terms[column].columns != (column,)
    )


# --- without stored sizes -------------------------------------------------------------------------


def _approximate(model: Model, members: Sequence[Term]) -> float:
    """Return the approximate mean absolute effect of the sum of terms of the same columns."""
    if len(members) == 1:
        values, weights = term_points(model, members[0])
        effect = members[0].effect_at(values)
    else:
        grid, weights = support(model, members)
        effect = total_effect(model, members, grid)
    return float(weights @ np.abs(effect).mean(axis=1))


def support(model: Model, members: Sequence[Term]) -> tuple[list[Any], Floats]:
    """Return values of the columns of some terms that stand for the training rows, and shares.

    Two columns are taken as independent.
    """
    axes = [_column_points(model, members, name) for name in members[0].columns]
    grid = [axis.values for axis in axes]
    if len(axes) == 1:
        return grid, axes[0].shares
    return list(cross(*grid)), np.outer(axes[0].shares, axes[1].shares).ravel()


class _ColumnPoints(NamedTuple):
    values: Any  # numbers with NaN, or levels with None, for missing cells
    shares: Floats


def _column_points(model: Model, terms: Sequence[Term], column: str) -> _ColumnPoints:
    """Return values of a column that stand for the training rows, and their shares."""
    facts = model.columns[column]
    if facts.kind == "numbers":
        return _ColumnPoints(*_number_points(facts))
    levels = effect_axis(facts, terms, column, GRID_POINTS)
    shares = level_shares(model, column)
    if shares is None or len(shares) != len(levels):
        shares = np.full(len(levels), 1.0 / len(levels))
    return _ColumnPoints(levels, shares)


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
    return _number_points(facts)


def _number_points(facts: ColumnFacts) -> RowShares:
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
