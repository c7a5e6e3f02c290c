"""Terms as the script of the report evaluates them: piecewise polynomials and coefficients.

The page holds, for every term, the axes of its basis (see model/pieces.py) and the coefficients.
The script multiplies the basis polynomials by the coefficients of the model, or of a key frame of
the path. Does not know about kinds of learner or basis.

    axis          breaks or levels, which say the piece of a value; origin and width, which say t
    polynomials   of the basis functions on every piece; the page holds each of them only once
    coefficients  of the basis functions

A basis without pieces is sampled: the term becomes a polygon through its effects at some points.
Such a term can be drawn, but not evaluated exactly, so the page refuses to predict.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.pieces import Axis, NoPiecesError, term_axes
from cwboost.model.term import Term

CURVE_POINTS, SURFACE_POINTS = 100, 24  # per column of a sampled term
DIGITS = 14  # polynomials that agree to this many digits are written once


def floats(values: Any) -> str:
    """Return numbers as base64 of little-endian 64-bit floats.

    Examples
    --------
    >>> floats([1.0])
    'AAAAAAAA8D8='
    """
    return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()


@dataclass(frozen=True, eq=False)
class PackedTerm:
    """A term, its axes, and how the page's coefficients follow from the basis's."""

    term: Term
    axes: tuple[Axis, ...]
    samples: Floats | None  # (points, n_coef) of a basis that has no pieces

    @property
    def exact(self) -> bool:
        return self.samples is None

    @property
    def n_coef(self) -> int:
        """The number of coefficients in the page, per output."""
        return int(np.prod([axis.blocks.shape[2] for axis in self.axes]))

    def coef(self, beta: Floats) -> Floats:
        """Return the page's coefficients (..., n_coef, q) for coefficients of the basis."""
        return beta if self.samples is None else np.asarray(self.samples @ beta)


def pack_terms(model: Model, terms: list[Term]) -> list[PackedTerm]:
    """Prepare terms for the page: exactly where the basis has pieces, else sampled."""
    return [_pack_term(model, term) for term in terms]


def _pack_term(model: Model, term: Term) -> PackedTerm:
    try:
        return PackedTerm(term, term_axes(term, model.columns), None)
    except NoPiecesError:
        return _sample(model, term)


# --- bases without pieces -------------------------------------------------------------------------


def _sample(model: Model, term: Term) -> PackedTerm:
    """Replace the basis by its values at points, joined by straight lines."""
    n = CURVE_POINTS if len(term.columns) == 1 else SURFACE_POINTS
    sampled = [_sampled_axis(model, term, i, n) for i in range(len(term.columns))]
    axes = tuple(axis for axis, _ in sampled)
    at = np.indices([len(values) for _, values in sampled]).reshape(len(axes), -1)
    points = [values[i] for (_, values), i in zip(sampled, at, strict=True)]
    basis = term.plan.basis
    rows = basis.matrix(points[0] if len(points) == 1 else np.column_stack(points)).toarray()
    return PackedTerm(term, axes, rows - (0.0 if basis.mean is None else basis.mean))


def _sampled_axis(model: Model, term: Term, i: int, n: int) -> tuple[Axis, Floats]:
    """Return an axis whose coefficients are the values at points, and the encoded points."""
    name, encoder = term.columns[i], term.plan.encoders[i]
    facts, codes = model.columns[name], encoder.codes()
    numeric = facts.kind == "numbers"
    if codes is not None:  # constant on every piece
        breaks = np.array(encoder.cuts) if encoder.has_steps else None
        blocks = np.eye(len(codes))[:, None, :]
        flat = np.zeros(len(codes)), np.ones(len(codes))
        return Axis(name, numeric, breaks, True, encoder.levels, *flat, blocks), codes
    points = np.unique(np.linspace(facts.low or 0.0, facts.high or 0.0, n))
    m = len(points)
    blocks = np.zeros((m + 2, 2, m + 1))
    blocks[0, 0, 0] = blocks[m, 0, m - 1] = blocks[m + 1, 0, m] = 1.0  # below, above, missing
    for k in range(1, m):
        blocks[k, :, k - 1], blocks[k, :, k] = (1.0, -1.0), (0.0, 1.0)
    width = np.concatenate([[1.0], np.diff(points), [1.0, 1.0]])
    origin = np.concatenate([points[:1], points[:-1], [points[-1], 0.0]])
    axis = Axis(name, numeric, points, False, (), origin, width, blocks)
    return axis, np.append(points, np.nan)


# --- as JSON --------------------------------------------------------------------------------------


class Polynomials:
    """The polynomials of all basis functions; equal ones have one number.

    B-splines with equally spaced knots are the same few polynomials on every interval and in every
    column, so this keeps the page small.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[float, ...], int] = {}
        self._coef: list[list[float]] = []

    def number(self, coef: Floats) -> int:
        """Return the number of a polynomial, c0 + c1 t + ..."""
        used = np.flatnonzero(coef)
        coef = coef[: used[-1] + 1]
        step = 10.0 ** (np.floor(np.log10(np.abs(coef).max())) - DIGITS)
        rounded = np.round(coef / step) * step if np.isfinite(step) and step > 0 else coef
        key = tuple((rounded + 0.0).tolist())
        if key not in self._known:
            self._known[key] = len(self._coef)
            self._coef.append(coef.tolist())
        return self._known[key]

    def as_data(self) -> dict[str, Any]:
        return {
            "sizes": [len(coef) for coef in self._coef],
            "numbers": floats([c for coef in self._coef for c in coef]),
        }


def axis_data(axis: Axis, levels: list[str], polynomials: Polynomials) -> dict[str, Any]:
    """Return an axis as the page has it; `levels` are all levels of its column."""
    used = axis.blocks.any(axis=1)  # (n_pieces, n_coef)
    curved = axis.breaks is not None and axis.degree > 0
    return {
        "breaks": None if axis.breaks is None else floats(axis.breaks),
        "closed_above": axis.closed_above,
        "origin": floats(axis.origin) if curved else None,
        "width": floats(axis.width) if curved else None,
        "levels": None if axis.breaks is not None else _pieces_of_levels(axis, levels),
        "known": axis.n_known,
        "size": axis.blocks.shape[2],
        "count": used.sum(axis=1).tolist(),  # basis functions that are not zero, per piece
        "coef": np.nonzero(used)[1].tolist(),
        "polynomial": [polynomials.number(c) for c in axis.blocks.transpose(0, 2, 1)[used]],
    }


def _pieces_of_levels(axis: Axis, levels: list[str]) -> list[int] | None:
    """Return the piece of every level of the column; None if they are 0, 1, 2, ..."""
    position = {level: i for i, level in enumerate(axis.levels)}
    found = [position.get(level, axis.n_known + 1) for level in levels]
    return None if found == list(range(len(levels))) else found
