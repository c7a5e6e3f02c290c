"""The path of a fit as the report plays it: coefficients and risks at key iterations.

The frames are only drawn, so coefficients are 16-bit integers in units of the term's largest one.
The script multiplies them with the polynomials of the term's axes (see packed_terms.py).
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from cwboost.explain.trajectory import coefficients_at, key_iterations
from cwboost.frames.columns import Floats
from cwboost.model.edits import unedited
from cwboost.model.model import Model

from .packed_terms import PackedTerm, floats

FRAMES = 80  # key frames of the path, if there is room for them
RISKS = 400  # points of the risk curves
STEPS = 32767  # of a frame's coefficient, on either side of zero


def finite(value: float | None) -> float | None:
    """Return a number, or None for nan and inf, which JSON does not have."""
    return None if value is None or not np.isfinite(value) else float(value)


def path_frames(model: Model, terms: list[PackedTerm], room: int) -> dict[str, Any]:
    """Return the path: risks, choices and the coefficients of all terms at key iterations.

    Later edits are not part of it. As many key frames are taken as `room` bytes can hold.
    """
    fitted = unedited(model)
    size = sum(p.n_coef * model.n_outputs for p in terms)
    bytes_each = max(1, size * 8 // 3)  # two bytes per number, in base64
    if model.polish is not None and model.polish.on_all_rows:  # the path does not lead to it
        at = np.array([fitted.best_iteration])
        beta = {name: term.beta[None] for name, term in fitted.terms.items()}
    elif model.bags is None:
        at = key_iterations(fitted, int(np.clip(room // bytes_each, 2, FRAMES)))
        beta = coefficients_at(fitted, at)
    else:  # an average of bags has no path, only an end
        at = np.zeros(1, dtype=np.int64)
        beta = {name: term.beta[None] for name, term in fitted.terms.items()}
    path, m = fitted.path, fitted.n_iter
    watched = fitted.validation_risk
    number = {name: k for k, name in enumerate(model.terms)}
    points = np.unique(np.concatenate([np.linspace(0, m, RISKS).astype(int), at]))
    return {
        "at": at.tolist(),
        "last": m,
        "best": fitted.best_iteration,
        "switched_after": path.switched_after,
        "rewound_to": path.rewound_to,
        "start": floats(fitted.start_vector),
        "points": points.tolist(),
        "risk": [finite(v) for v in path.risk[points].tolist()],
        "validation_risk": None
        if watched is None
        else [finite(v) for v in watched[points].tolist()],
        "terms": [
            _packed(p.coef(beta[p.term.name])) | _chosen(model, number[p.term.name], at)
            for p in terms
        ],
    }


def _packed(beta: Floats) -> dict[str, Any]:
    """Return coefficients (frames, n_coef, q) as 16-bit integers."""
    with np.errstate(invalid="ignore"):
        beta = np.nan_to_num(beta, posinf=0.0, neginf=0.0)
    unit = float(np.abs(beta).max(initial=0.0)) / STEPS or 1.0
    steps = np.round(beta / unit).astype("<i2")
    return {"unit": unit, "frames": base64.b64encode(steps.tobytes()).decode()}


def _chosen(model: Model, number: int, at: Any) -> dict[str, Any]:
    """Return how often the term was chosen and corrected up to each frame, and its first time."""
    chosen = np.flatnonzero(model.path.choices == number) + 1
    moved = np.flatnonzero(model.path.corrections == number) + 1
    first = min([*chosen[:1].tolist(), *moved[:1].tolist()], default=None)
    return {
        "first": first,
        "chosen": np.searchsorted(chosen, at, side="right").tolist(),
        "corrected": np.searchsorted(moved, at, side="right").tolist(),
    }
