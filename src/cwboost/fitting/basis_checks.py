"""Checks of bases that users write: a wrong one would give wrong predictions without an error.

Bases of the package are not checked. What a basis must define is in `cwboost.terms.bases.base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cwboost._utils.checks import as_real, is_built_in, is_whole
from cwboost._utils.memory import ArrayPool
from cwboost._utils.text import quote
from cwboost.binning.summary import ColumnSummary
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Basis, Pieces
from cwboost.terms.encoders import Encoder
from cwboost.terms.learners.base import checked_basis
from cwboost.terms.plan import Plan

N_POINTS = 30  # values at which a basis is evaluated
TOLERANCE = 1e-8  # largest difference between two forms of a basis, relative to its size


def check_plan(plan: Plan, summaries: Mapping[str, ColumnSummary]) -> None:
    """Raise if a basis that a user wrote is not a Basis, or contradicts itself."""
    basis = plan.basis
    if is_built_in(type(basis)) and (
        len(plan.columns) == 1 or all(is_built_in(type(margin)) for margin in basis.margins)
    ):
        return
    basis = checked_basis(basis, plan.learner)  # a user's `plans` may return anything
    axes = [
        _values(encoder, summaries[name])
        for name, encoder in zip(plan.columns, plan.encoders, strict=True)
    ]
    if any(len(values) == 0 for values in axes):
        return
    for margin, encoder, values in zip(basis.margins, plan.encoders, axes, strict=True):
        if not is_built_in(type(margin)):
            found = _check_values(margin, values, plan.learner.shown)
            if not encoder.is_coded:
                _check_polynomials(margin, found, plan.learner.shown)
    if len(axes) > 1 and not is_built_in(type(basis)):
        pairs = np.column_stack([np.resize(values, N_POINTS) for values in axes])
        _check_values(basis, pairs, plan.learner.shown)


def _values(encoder: Encoder, summary: ColumnSummary) -> Floats:
    """Return encoded values over the range of the training rows."""
    if encoder.n_codes is not None:
        return np.arange(min(encoder.n_codes, N_POINTS), dtype=np.float64)
    if summary.empty:
        return np.empty(0)
    return np.unique(np.linspace(summary.low, summary.high, N_POINTS))


class _EvaluatedBasis:
    """The rows of a basis at known values, and their largest entry."""

    def __init__(self, values: Floats, matrix: Floats) -> None:
        self.values, self.matrix = values, matrix
        self.size = float(np.abs(matrix).max(initial=0.0))

    def differs(self, other: Floats) -> bool:
        return bool(np.abs(self.matrix - other).max(initial=0.0) > TOLERANCE * self.size)


def _check_values(basis: Basis, values: Floats, learner: str) -> _EvaluatedBasis:
    """Return the rows of a basis; raise if n_coef, known, evaluate, rows or penalty is wrong."""
    who = f"{learner}: {type(basis).__name__}"
    if not is_whole(basis.n_coef) or basis.n_coef < 1:
        raise ValueError(f"{who}.n_coef must be a whole number >= 1, got {quote(basis.n_coef)}")
    known = np.asarray(basis.known(values))
    if known.shape != (len(values),) or known.dtype != np.bool_:
        raise ValueError(
            f"{who}.known must return {len(values)} booleans for {len(values)} values, got the "
            f"shape {known.shape} and the type {known.dtype}"
        )
    values = values[known]
    shape = (len(values), basis.n_coef)
    own_rows = type(basis).rows is not Basis.rows
    found: _EvaluatedBasis | None = None
    if not own_rows or type(basis).evaluate is not Basis.evaluate:
        matrix = _numbers(basis.evaluate(values), f"{who}.evaluate", [shape])
        found = _EvaluatedBasis(values, matrix)
    if own_rows:
        rows = basis.rows(values, ArrayPool()).matrix(basis.n_coef).toarray()
        matrix = _numbers(rows, f"{who}.rows", [shape])
        if found is not None and found.differs(matrix):
            raise ValueError(
                f"{who}.evaluate and {type(basis).__name__}.rows return different values; define "
                "one of them, or make them agree"
            )
        found = _EvaluatedBasis(values, matrix)
    assert found is not None
    _check_penalty(basis, who)
    return found


def _check_penalty(basis: Basis, who: str) -> None:
    k = basis.n_coef
    penalty = _numbers(basis.penalty(), f"{who}.penalty", [(k, k), (k,)])
    if penalty.ndim == 2:
        difference = np.abs(penalty - penalty.T).max()
        if difference > TOLERANCE * np.abs(penalty).max():
            raise ValueError(
                f"{who}.penalty must return a symmetric matrix; it differs from its transpose by "
                f"up to {difference:g}"
            )


def _check_polynomials(basis: Basis, rows: _EvaluatedBasis, learner: str) -> None:
    """Raise if the polynomials of a basis are malformed or differ from its values."""
    who = f"{learner}: {type(basis).__name__}.polynomials"
    pieces: Any = basis.polynomials()
    if pieces is None:
        return
    if not isinstance(pieces, Pieces):
        raise TypeError(f"{who} must return Pieces or None, got {type(pieces).__name__}")
    _check_pieces(pieces, basis.n_coef, who)
    found = _evaluate(pieces, rows.values)
    if rows.differs(found):
        at = int(np.abs(found - rows.matrix).max(axis=1).argmax())
        raise ValueError(
            f"{who} does not agree with the values of the basis: at {rows.values[at]:g} the "
            f"polynomials give {found[at].tolist()}, the basis gives {rows.matrix[at].tolist()}; "
            "correct one of them, or return None from polynomials()"
        )


def _check_pieces(pieces: Pieces, n_coef: int, who: str) -> None:
    if pieces.breaks is None:
        raise ValueError(
            f"{who}: breaks must be an array of increasing numbers, empty if there is one piece; "
            "got None"
        )
    breaks = _numbers(pieces.breaks, f"{who}: breaks", [(np.size(pieces.breaks),)])
    if np.any(np.diff(breaks) <= 0):
        raise ValueError(f"{who}: breaks must be increasing, got {breaks.tolist()}")
    n = len(breaks) + 1
    _numbers(pieces.origin, f"{who}: origin", [(n,)])
    if not np.all(_numbers(pieces.width, f"{who}: width", [(n,)])):
        raise ValueError(f"{who}: width must not be 0")
    powers = max(1, np.shape(pieces.blocks)[1]) if np.ndim(pieces.blocks) == 3 else 1
    _numbers(pieces.blocks, f"{who}: blocks (pieces, powers, n_coef)", [(n, powers, n_coef)])


def _evaluate(pieces: Pieces, values: Floats) -> Floats:
    """Return the (n, n_coef) values of piecewise polynomials."""
    assert pieces.breaks is not None
    at = np.searchsorted(pieces.breaks, values, "left" if pieces.closed_above else "right")
    t = (values - pieces.origin[at]) / pieces.width[at]
    powers = t[:, None] ** np.arange(pieces.degree + 1)
    return np.asarray(np.einsum("nj,njk->nk", powers, pieces.blocks[at]))


def _numbers(value: Any, what: str, shapes: list[tuple[int, ...]]) -> Floats:
    """Return the numbers of a user's array; raise unless they are finite, of one of the shapes."""
    expected = f"{what} must be finite numbers of shape {' or '.join(map(str, shapes))}"
    try:
        out = as_real(value)
    except (TypeError, ValueError):
        raise TypeError(f"{expected}, got {type(value).__name__}") from None
    if out.shape not in shapes:
        raise ValueError(f"{expected}, got the shape {out.shape}")
    if not np.isfinite(out).all():
        raise ValueError(f"{expected}; some are not finite")
    return out
