"""Terms as piecewise polynomials: the exact form that prediction, SQL, ONNX, the score tables and
the report share.

Every column of a term is an `Axis`. The pieces of a numeric axis are intervals, then missing cells.
The pieces of an axis of levels are the levels, then missing cells, then levels that training did
not have. On a piece

    effect = sum over j of coef[piece, j] t^j,      t = (x - origin[piece]) / width[piece],

and for two columns the sum goes over the powers of both. The continuation beyond the range of the
training rows is a piece like any other. The polynomials come from the basis (`Basis.pieces`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Pieces
from cwboost.terms.encoders import Encoder, level_number, spell_levels

from .model import Model
from .records import ColumnFacts
from .term import Term


class NoPiecesError(TypeError):
    """Raised for a term whose basis has no exact form as piecewise polynomials."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One column of a term, cut into pieces.

    A numeric axis has increasing `breaks`: interval i lies between breaks i - 1 and i. A break
    belongs to the interval above it, or to the one below it if `closed_above`. Other axes have
    `levels`.
    """

    column: str
    numeric: bool  # whether the column holds numbers; they may be levels nevertheless
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
        """Number of intervals or levels: the pieces of missing and unseen cells come after them."""
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
        """The levels of a numeric column as numbers."""
        return np.array([level_number(level) for level in self.levels])

    @cached_property
    def level_texts(self) -> list[list[str]]:
        """The texts that stand for each level of a column of text."""
        return spell_levels(self.levels)

    def bounds(self, piece: int) -> tuple[float, float]:
        """Return the lower and the upper end of an interval."""
        assert self.breaks is not None
        ends = np.concatenate([[-np.inf], self.breaks, [np.inf]])
        return float(ends[piece]), float(ends[piece + 1])

    def place(self, x: Floats) -> tuple[NDArray[np.int64], Floats]:
        """Return the interval of every number, and t within it."""
        assert self.breaks is not None
        at = np.searchsorted(self.breaks, x, side="left" if self.closed_above else "right")
        return at, (x - self.origin[at]) / self.width[at]


@dataclass(frozen=True, eq=False)
class TermPieces:
    """A term in its exact form, centred as in `Model.contributions`.

    The coefficients of outputs that the term does not move are zero (`Term.outputs` has the
    others), so that an export may leave them out.
    """

    term: Term
    axes: tuple[Axis, ...]  # one per column
    coef: Floats  # (n_pieces, degree + 1, q), or (pieces a, pieces b, powers a, powers b, q)

    def effect(self, places: Sequence[tuple[NDArray[np.int64], Floats]]) -> Floats:
        """Return (n, q) the effect, given piece and t of every row for each column."""
        found = self.coef[tuple(at for at, _ in places)]  # (n, powers of each column, q)
        for _, t in places:
            total = np.zeros_like(found[:, 0])
            for power in reversed(range(found.shape[1])):  # Horner's rule
                total = total * t.reshape(-1, *[1] * (total.ndim - 1)) + found[:, power]
            found = total
        return found


def pieces_of(model: Model) -> list[TermPieces]:
    """Return the chosen terms as piecewise polynomials.

    Raise NoPiecesError if the basis of a term has no such form.

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
    """Return one term as a piecewise polynomial.

    Raise NoPiecesError if its basis has no such form.
    """
    axes = term_axes(term, columns)
    if len(axes) == 1:
        coef = axes[0].blocks @ term.beta
        coef[:, 0] -= term.mean
        unknown = coef[axes[0].n_known :]  # zero up to rounding, unless training had such cells
        unknown[np.abs(unknown) < 1e-14 * np.abs(coef).max()] = 0.0
    else:
        a, b = axes[0].blocks, axes[1].blocks
        beta = term.beta.reshape(a.shape[2], b.shape[2], -1)
        coef = _product(a, b, beta)
        coef[:, :, 0, 0] -= term.mean
    return TermPieces(term, axes, coef)


def term_axes(term: Term, columns: Mapping[str, ColumnFacts]) -> tuple[Axis, ...]:
    """Return the axes of a term: its columns, cut into pieces, with the polynomials of its basis.

    Raise NoPiecesError if the basis has no such form.
    """
    margins = zip(term.columns, term.plan.encoders, term.plan.basis.margins, strict=True)
    axes = []
    for column, encoder, basis in margins:
        pieces = basis.pieces(encoder.codes())
        if pieces is None:
            raise NoPiecesError(
                f"term {quote(term.name)}: its basis ({type(basis).__name__}) is not a piecewise "
                "polynomial, so only Python can compute its effect; use model.predict and "
                "model.save, or remove the term with model.edit('zero', ...)"
            )
        axes.append(_axis(column, columns[column].kind == "numbers", encoder, pieces))
    return tuple(axes)


def _product(a: Floats, b: Floats, beta: Floats) -> Floats:
    """Return polynomials in two variables on all pairs of pieces."""
    first = np.tensordot(a, beta, axes=(2, 0))  # (pieces a, powers a, n_coef b, q)
    both = np.tensordot(first, b, axes=(2, 2))  # (pieces a, powers a, q, pieces b, powers b)
    return np.ascontiguousarray(both.transpose(0, 3, 1, 4, 2))


def _axis(column: str, numeric: bool, encoder: Encoder, pieces: Pieces) -> Axis:
    return Axis(
        column,
        numeric,
        breaks=np.array(encoder.cuts) if encoder.has_steps else pieces.breaks,
        closed_above=encoder.is_coded or pieces.closed_above,  # cuts belong to the step below
        levels=encoder.levels,
        origin=pieces.origin,
        width=pieces.width,
        blocks=pieces.blocks,
    )
