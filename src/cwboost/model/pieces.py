"""Terms as piecewise polynomials: the exact form that SQL, ONNX, the score tables and the report
share.

Every column of a term is an `Axis`. The pieces of numbers are intervals, then missing cells; those
of levels are the levels, then missing cells, then all levels never seen in training. On a piece

    effect = sum over j of coef[piece, j] t^j,      t = (x - origin[piece]) / width[piece],

and for two columns the sum goes over the powers of both. The continuation beyond the range of the
training rows is a piece like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cwboost.frames.table import Floats
from cwboost.terms.bases import Basis
from cwboost.terms.encoders import Encoder

from .model import Model
from .records import ColumnFacts
from .term import Term


class NoPiecesError(TypeError):
    """A basis of which it is not known how it is cut into polynomials."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One column of a term, cut into pieces.

    Numbers have `breaks`, increasing; interval i lies between breaks i - 1 and i, and a break
    belongs to the interval above it, or with `closed_above` to the one below. Levels have `levels`.
    """

    column: str
    numeric: bool  # the column holds numbers, whatever the axis does with them
    breaks: Floats | None
    closed_above: bool
    levels: tuple[str, ...]
    origin: Floats  # (n_pieces,)
    width: Floats  # (n_pieces,)
    blocks: Floats  # (n_pieces, degree + 1, n_coef) polynomials of all basis functions

    @property
    def degree(self) -> int:
        return int(self.blocks.shape[1]) - 1

    @property
    def n_known(self) -> int:
        """Intervals or levels; the piece of missing cells comes next, then that of other levels."""
        return len(self.levels) if self.breaks is None else len(self.breaks) + 1

    @property
    def n_pieces(self) -> int:
        return len(self.blocks)

    @property
    def continuous(self) -> bool:
        """Whether neighbouring intervals agree at their break."""
        return self.breaks is not None and self.degree > 0

    @property
    def level_numbers(self) -> Floats:
        """Levels of a numeric column as the numbers that they are written from."""
        words = {"True": 1.0, "False": 0.0}
        return np.array([words[x] if x in words else float(x) for x in self.levels])

    def bounds(self, piece: int) -> tuple[float, float]:
        """From where to where an interval goes."""
        assert self.breaks is not None
        ends = np.concatenate([[-np.inf], self.breaks, [np.inf]])
        return float(ends[piece]), float(ends[piece + 1])

    def place(self, x: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Number of the interval of every number, and t within it."""
        assert self.breaks is not None
        at = np.searchsorted(self.breaks, x, side="left" if self.closed_above else "right")
        return at, (x - self.origin[at]) / self.width[at]


@dataclass(frozen=True, eq=False)
class TermPieces:
    """A term in its exact form, centred as `Model.contributions` is."""

    term: Term
    axes: tuple[Axis, ...]  # one, or two
    coef: Floats  # (n_pieces, degree + 1, q), or (pieces a, pieces b, powers a, powers b, q)

    def effect(self, places: Sequence[tuple[NDArray[np.int64], Floats]]) -> Floats:
        """(n, q) the effect, given piece and t of every row for each column."""
        found = self.coef[tuple(at for at, _ in places)]  # (n, powers of each column, q)
        for _, t in places:
            total = np.zeros_like(found[:, 0])
            for power in reversed(range(found.shape[1])):  # Horner's rule
                total = total * t.reshape(-1, *[1] * (total.ndim - 1)) + found[:, power]
            found = total
        return found


def pieces_of(model: Model) -> list[TermPieces]:
    """The chosen terms as piecewise polynomials.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 6, 50)
    >>> model = cb.fit({"x": x}, np.sin(x), [cb.Spline("x", knots=2)])
    >>> curve = pieces_of(model)[0]
    >>> curve.axes[0].breaks
    array([0., 2., 4., 6.])
    >>> bool(np.isclose(curve.coef[1, 0, 0], model.contributions({"x": [0.0]})["x"][0]))
    True
    """
    return [term_pieces(term, model.columns) for term in model.terms.values() if term.chosen]


def term_pieces(term: Term, columns: Mapping[str, ColumnFacts]) -> TermPieces:
    """One term as a piecewise polynomial, given what the model knows of its columns."""
    axes = term_axes(term, columns)
    if len(axes) == 1:
        coef = axes[0].blocks @ term.beta
        coef[:, 0] -= term.mean
        unknown = coef[axes[0].n_known :]  # zero but for rounding, unless training had such cells
        unknown[np.abs(unknown) < 1e-14 * np.abs(coef).max()] = 0.0
    else:
        a, b = axes[0].blocks, axes[1].blocks
        beta = term.beta.reshape(a.shape[2], b.shape[2], -1)
        coef = _product(a, b, beta)
        coef[:, :, 0, 0] -= term.mean
    return TermPieces(term, axes, coef)


def term_axes(term: Term, columns: Mapping[str, ColumnFacts]) -> tuple[Axis, ...]:
    """Return the axes of a term: its columns, cut into pieces, with the polynomials of its basis.

    Raise NoPiecesError if the basis is not a piecewise polynomial.
    """
    basis, encoders = term.plan.basis, term.plan.encoders
    return tuple(
        _axis(column, columns[column].kind == "numbers", encoder, margin)
        for column, encoder, margin in zip(term.columns, encoders, basis.margins, strict=True)
    )


def _product(a: Floats, b: Floats, beta: Floats) -> Floats:
    """Polynomials in two variables on all pairs of pieces."""
    first = np.tensordot(a, beta, axes=(2, 0))  # (pieces a, powers a, n_coef b, q)
    both = np.tensordot(first, b, axes=(2, 2))  # (pieces a, powers a, q, pieces b, powers b)
    return np.ascontiguousarray(both.transpose(0, 3, 1, 4, 2))


def _axis(column: str, numeric: bool, encoder: Encoder, basis: Basis) -> Axis:
    found = basis.pieces(encoder.codes())
    if found is None:
        raise NoPiecesError(
            f"column {column!r}: a {type(basis).__name__} has no exact form as a piecewise "
            "polynomial, which predictions outside of Python need; save the model as JSON with "
            "model.save instead"
        )
    coded = found.breaks is None
    return Axis(
        column,
        numeric,
        breaks=np.array(encoder.cuts) if encoder.has_steps else found.breaks,
        closed_above=coded or found.closed_above,  # as cuts are
        levels=encoder.levels,
        origin=found.origin,
        width=found.width,
        blocks=found.blocks,
    )
