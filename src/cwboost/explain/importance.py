"""Importance of columns and terms: the kinds of `Model.importance`, and a sentence on each.

The sizes and the shares of the risk on a fit's own rows are computed in the fit
(fitting/effect_sizes.py, fitting/integral_importance.py) and stored with the model. Here they are
read, or computed for other rows. The kinds that shuffle columns or fit without them are in
selection/permutation.py and selection/drop_importance.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from cwboost import _core
from cwboost._utils.checks import check_one_of
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.frames.weights import as_part
from cwboost.model.model import Model
from cwboost.model.path_checks import check_has_path
from cwboost.model.scoring import write_effects
from cwboost.model.term import column_groups

from .given_rows import GivenRows, read_rows
from .sizes import are_stored, largest_first, sizes, sizes_on_rows

KINDS = {  # what each kind measures
    "size": "mean absolute effect on the score",
    "risk": "reduction of the risk due to the effect; negative values occur if columns correlate",
    "path": "reduction of the training risk in the iterations that chose the term",
    "permutation": "rise of the risk if the column is shuffled among the rows",
    "drop": "rise of the held-out risk if the model is fitted without the column",
}
OTHER_NAMES = {"integral": "risk"}
OPTIONS = {  # the kinds that take them
    "repeats": ("permutation",),
    "folds": ("drop",),
    "random_state": ("permutation", "drop"),
    "n_threads": ("drop",),
    "progress": ("drop",),
}


def importance(
    model: Model,
    kind: str,
    by: Literal["column", "term"],
    rows: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """See Model.importance."""
    kind = check_kind(kind)
    check_one_of("by", by, ("column", "term"))
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if kind not in OPTIONS[name]:
            kinds = " and ".join(f"kind={k!r}" for k in OPTIONS[name])
            raise TypeError(
                f"importance: {name}= applies only to {kinds}, not to kind={quote(kind)}"
            )
    if rows["table"] is None and any(value is not None for value in rows.values()):
        raise TypeError("importance: y, weights, offset and exposure need table= as well")
    if rows["table"] is None and kind in ("permutation", "drop"):
        raise TypeError(f"importance: kind={quote(kind)} needs rows; pass table= and y=")
    if kind == "permutation":
        from cwboost.selection.permutation import permutation_importance

        return permutation_importance(model, read_rows(model, rows), by, **given)
    if kind == "drop":
        from cwboost.selection.drop_importance import drop_importance

        return drop_importance(model, rows, by, **given)
    if kind == "size":
        found = sizes(model) if rows["table"] is None else _sizes_on(model, rows)
        return largest_first(found.columns if by == "column" else found.terms)
    shares = _path_shares(model, rows) if kind == "path" else _risk_shares(model, rows)
    return largest_first(_by_column(model, shares) if by == "column" else shares)


def check_kind(kind: Any) -> str:
    """Return the kind of importance by its first name; raise if there is no such kind."""
    kind = OTHER_NAMES.get(kind, kind) if isinstance(kind, str) else kind
    check_one_of("importance: kind", kind, KINDS)
    return str(kind)


def size_words(model: Model) -> str:
    """Return one sentence on the sizes of a model, for places that show them."""
    rows = "the training rows" if are_stored(model) else "a sketch of the training rows"
    return f"{KINDS['size']} over {rows}"


def _by_column(model: Model, values: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of the values of all terms of each column or pair of columns."""
    groups, out = column_groups(model.terms), dict[str, float]()
    for name, value in values.items():
        out[groups[name]] = out.get(groups[name], 0.0) + value
    return out


def _of_chosen(model: Model, shares: Floats) -> dict[str, float]:
    terms = zip(model.terms.items(), shares, strict=True)
    return {name: float(share) for (name, term), share in terms if term.chosen}


# --- the kinds ------------------------------------------------------------------------------------


def _sizes_on(model: Model, rows: Mapping[str, Any]) -> Any:
    if rows["y"] is not None:
        raise TypeError("importance: kind='size' does not depend on y; omit y=")
    given = read_rows(model, rows, needs_y=False)
    return sizes_on_rows(model, _effects(model, given), given.weights)


def _path_shares(model: Model, rows: Mapping[str, Any]) -> dict[str, float]:
    """Return the fall of the risk in all iterations that chose each term."""
    if rows["table"] is not None:
        raise TypeError("importance: kind='path' is known for the fit's rows only; omit table=")
    check_has_path(model, "importance(kind='path')")
    if np.any(model.path.corrections >= 0):
        raise ValueError(
            "kind='path' credits every iteration to its choice, which has no meaning with "
            "momentum; use kind='risk'"
        )
    m = model.best_iteration
    falls = -np.diff(model.risk[: m + 1])
    credited = np.bincount(model.path.choices[:m], falls, len(model.terms))
    return _of_chosen(model, np.asarray(credited, dtype=np.float64))


def _risk_shares(model: Model, rows: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of each term in the fall of the risk, stored or on given rows."""
    if rows["table"] is not None:
        return _risk_shares_on(model, read_rows(model, rows))
    if model.shares is None:
        which = "the edited model" if model.edits else "this model"
        raise ValueError(
            f"the importance of kind 'risk' is not stored for {which}, and a model holds no rows; "
            "pass table= and y="
        )
    return _of_chosen(model, model.shares)


def _risk_shares_on(model: Model, rows: GivenRows) -> dict[str, float]:
    """Return the importance on given rows, at their raw values."""
    n, q = rows.data.n_rows, model.n_outputs
    each = _core.IndexSet(np.arange(n, dtype=np.uint32), n)  # a bin per row
    core = _core.LocalRows(
        model.loss.core(rows.y),
        rows.y,
        np.ascontiguousarray(rows.offset.T),
        [each],
        [as_part(rows.weights)],
    )
    effects, start = _effects(model, rows), model.intercept_vector
    if not model.polished:
        effects = {name: e + model.terms[name].mean for name, e in effects.items()}
        start = model.start_vector
    score = sum(effects.values(), np.zeros((n, q)))
    first, last = _core.SLOT_H, _core.SLOT_F
    core.run(
        [
            _core.Fill(first, list(start)),
            _core.Fill(last, list(start)),
            _core.Add(last, 0, np.ascontiguousarray(score.T).ravel()),
            _core.MeanResidual(first, last, _core.SLOT_R),
        ]
    )
    residual, w = core.read(_core.SLOT_R).T, rows.weights
    return {
        name: float(w @ (effect * residual).sum(axis=1) / w.sum())
        for name, effect in effects.items()
    }


def _effects(model: Model, rows: GivenRows) -> dict[str, Floats]:
    """Return the (n, q) centred effects of the chosen terms on given rows."""
    names = model.predictor.terms
    effects = np.empty((len(names), rows.data.n_rows, model.n_outputs))
    write_effects(model, rows.data, effects)
    return dict(zip(names, effects, strict=True))
