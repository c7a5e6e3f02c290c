"""Importance of terms: how much of the fall of the risk is due to each.

The importance on a fit's own rows is computed in the fit (fitting/integral_importance.py) and
stored with the model. Here it is read, or computed for other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cwboost import _core
from cwboost.frames.aligned import read_weights, read_y
from cwboost.frames.columns import Floats
from cwboost.frames.read_frames import read
from cwboost.frames.weights import as_part
from cwboost.model.model import Model
from cwboost.model.path_checks import check_has_path
from cwboost.model.scoring import read_offsets, write_effects


def importance(model: Model, kind: str, rows: Mapping[str, Any]) -> dict[str, float]:
    """See Model.importance."""
    if kind not in ("integral", "path"):
        raise ValueError(f"kind must be 'integral' or 'path', got {kind!r}")
    if rows["table"] is None and any(value is not None for value in rows.values()):
        raise TypeError("importance: y, weights, offset and exposure need table= as well")
    if rows["table"] is not None and kind == "path":
        raise TypeError("importance: kind='path' is known for the fit's rows only; omit table=")
    if kind == "path":
        check_has_path(model, "importance(kind='path')")
        shares = _path_shares(model)
    elif rows["table"] is not None:
        shares = _shares_on(model, rows)
    elif model.shares is not None:
        shares = model.shares
    else:
        which = "the edited model" if model.edits else "this iterate"
        raise ValueError(
            f"the importance of {which} is not stored, and a model holds no rows; pass table= and "
            "y="
        )
    return _by_name(model, shares)


def stored_importance(model: Model) -> dict[str, float]:
    """Return the importance of the chosen terms as the fit stored it; {} if it did not."""
    return {} if model.shares is None else _by_name(model, model.shares)


def _by_name(model: Model, shares: Floats) -> dict[str, float]:
    """Return the shares of the chosen terms, largest first."""
    found = {
        name: float(share)
        for (name, term), share in zip(model.terms.items(), shares, strict=True)
        if term.chosen
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _path_shares(model: Model) -> Floats:
    """Return the fall of the risk in all iterations that chose each term."""
    if np.any(model.path.corrections >= 0):
        raise ValueError(
            "kind='path' credits every iteration to its choice, which has no meaning with "
            "momentum; use kind='integral'"
        )
    m = model.best_iteration
    falls = -np.diff(model.risk[: m + 1])
    return np.asarray(
        np.bincount(model.path.choices[:m], falls, minlength=len(model.terms)), dtype=np.float64
    )


def _shares_on(model: Model, rows: Mapping[str, Any]) -> Floats:
    """Return the importance on given rows, at their raw values."""
    data = read(rows["table"])
    y = rows["y"] if rows["y"] is not None else model.settings.target
    if y is None:
        raise TypeError("importance: pass y as well")
    y_values, _ = read_y(y, data, model.loss, model.classes or None)
    weights = rows["weights"]
    w = read_weights(model.settings.weights if weights is None else weights, data)
    offset = read_offsets(model, data, rows["offset"], rows["exposure"])
    n, q = data.n_rows, model.n_outputs
    each = _core.IndexSet(np.arange(n, dtype=np.uint32), n)  # a bin per row
    core = _core.LocalRows(
        model.loss.core(np.ascontiguousarray(y_values)),
        np.ascontiguousarray(y_values),
        np.ascontiguousarray(offset.T),
        [each],
        [as_part(w)],
    )
    chosen = {name: term for name, term in model.terms.items() if term.chosen}
    effects = np.empty((len(chosen), n, q))
    write_effects(model, data, effects)
    effects += np.array([term.mean for term in chosen.values()]).reshape(-1, 1, q)
    score = effects.sum(axis=0)
    first, last = _core.SLOT_H, _core.SLOT_F
    core.run(
        [
            _core.Fill(first, list(model.start_vector)),
            _core.Fill(last, list(model.start_vector)),
            _core.Add(last, 0, np.ascontiguousarray(score.T).ravel()),
            _core.MeanResidual(first, last, _core.SLOT_R),
        ]
    )
    residual = core.read(_core.SLOT_R).T
    shares = [float(w @ (effect * residual).sum(axis=1) / w.sum()) for effect in effects]
    out = dict(zip(chosen, shares, strict=True))
    return np.array([out.get(name, 0.0) for name in model.terms])
