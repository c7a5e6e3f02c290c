"""The base class of all bases: what a subclass must define, and the defaults of everything else.

A basis is a frozen record that evaluates its functions at encoded values: bin values in the fit,
raw values in prediction. To add one, write a subclass of `Basis` and add it to `BASES`.
Does not know about columns, weights, df or the core's learners (see terms/learners, fitting).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cwboost._utils.memory import ArrayPool
from cwboost.frames.columns import Floats

if TYPE_CHECKING:
    from cwboost.terms.encoders import Encoder

MAX_CUBIC = 3  # the highest degree whose moments the core sums


class BasisRows(NamedTuple):
    """Rows of a basis matrix in compressed form, as the core takes them.

    Row b holds value[begin[b] : begin[b + 1]] in the columns column[begin[b] : begin[b + 1]].
    """

    begin: NDArray[np.int64]
    column: NDArray[np.int32]
    value: Floats

    def matrix(self, n_coef: int) -> csr_array:
        shape = (len(self.begin) - 1, n_coef)
        return csr_array((self.value, self.column, self.begin), shape=shape)

    def __matmul__(self, coef: Floats) -> Floats:
        return np.asarray(self.matrix(len(coef)) @ coef)


@dataclass(frozen=True, eq=False)
class Pieces:
    """Basis functions as piecewise polynomials: the exact form that prediction and exports share.

    On piece i the functions are

        sum over j of blocks[i, j] t^j,      t = (x - origin[i]) / width[i].

    With `breaks`, piece i is the interval between breaks i - 1 and i; a break belongs to the
    interval above it, or to the one below it if `closed_above`. Without breaks, piece i belongs to
    code i. The pieces of missing cells and of unseen levels, which are constants, come last.
    """

    breaks: Floats | None  # increasing; None for the codes of levels or steps
    origin: Floats  # (n_pieces,)
    width: Floats  # (n_pieces,)
    blocks: Floats  # (n_pieces, degree + 1, n_coef)
    closed_above: bool = False

    @property
    def degree(self) -> int:
        return int(self.blocks.shape[1]) - 1

    @classmethod
    def constant(cls, rows: Floats) -> Pieces:
        """Return pieces on which the functions are constant: one per row of (n_pieces, n_coef)."""
        n = len(rows)
        return cls(None, np.zeros(n), np.ones(n), rows[:, None, :])

    def with_missing(self, row: Floats) -> Pieces:
        """Return the pieces followed by one for missing cells, whose row is (n_coef,)."""
        last = np.zeros((1, *self.blocks.shape[1:]))
        last[0, 0] = row
        return Pieces(
            self.breaks,
            np.append(self.origin, 0.0),
            np.append(self.width, 1.0),
            np.concatenate([self.blocks, last]),
            self.closed_above,
        )


class RowShares(NamedTuple):
    """Encoded values that stand for the training rows, and the share of the rows at each."""

    values: Floats
    shares: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Basis:
    """Basis functions of one column, or products of two.

    A subclass must say `kind` (its name in model files), `n_coef`, and its values: `evaluate`, or
    `rows` if most values are zero. Everything else has a default that holds for any basis:

    - `penalty`, `null_dim`, `ones`, `removed`: what the fit needs to know.
    - `penalty_for`, `ridge`: penalties that depend on the rows.
    - `known`, `mean`: a basis may be unable to evaluate some values: missing cells, levels that
      training did not have. Their row is `mean`, the weighted mean row of the training rows, so
      that their centred effect is zero.
    - `polynomials`: the functions as piecewise polynomials. The default, None, says that there is
      no such form. The basis then evaluates itself in prediction, and exports refuse it by name.
    - `has_masses`, `has_levels`, `ordered`, `slope`, `own_coef`, `rounded`: which edits apply.
    - `problem`, `problem_with`: checks of a basis read from a file.

    A model file stores the fields by their annotations: `float`, `int`, `bool`, `str`,
    `tuple[float, ...]`, `NDArray[np.float64]`, and any of them with `| None`.
    """

    mean: Floats | None = field(default=None, repr=False)  # (n_coef,) row of unknown values
    kind: ClassVar[str]

    # --- values -----------------------------------------------------------------------------------

    @property
    def n_coef(self) -> int:
        """Number of coefficients."""
        raise NotImplementedError(f"{type(self).__name__}: define n_coef")

    @property
    def margins(self) -> tuple[Basis, ...]:
        """One basis per column: the basis itself, or the factors of a product."""
        return (self,)

    def known(self, values: Floats) -> NDArray[np.bool_]:
        """Return which values the basis can evaluate; the others take the mean row."""
        return ~np.isnan(values)

    def evaluate(self, values: Floats) -> Floats:
        """Return the (n, n_coef) values of the functions at known values."""
        raise NotImplementedError(f"{type(self).__name__}: define evaluate(values)")

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        """Return the rows at known values; override it where most entries are zero.

        `room` allocates the arrays; large ones from it are cheaper than from NumPy.
        """
        n, per_row = len(values), self.n_coef
        value = np.ascontiguousarray(self.evaluate(values), dtype=np.float64).ravel()
        return BasisRows(room.steps(n, per_row), room.cycles(n, per_row), value)

    def matrix(self, values: Floats) -> csr_array:
        """Return the rows at any values, known or not, as a matrix (n, n_coef)."""
        return self.all_rows(values, ArrayPool()).matrix(self.n_coef)

    def all_rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        """Return the rows at any values, known or not."""
        known = self.known(values)
        if known.all():
            return self.rows(values, room)
        mean = self._mean_or_zero()
        inside = self.rows(values[known], room)
        lengths = np.where(known, 0, self.n_coef)
        lengths[known] = np.diff(inside.begin)
        begin = np.concatenate([[0], np.cumsum(lengths)])
        column, value = np.empty(begin[-1], np.int32), np.empty(begin[-1])
        at_known = np.repeat(known, lengths)
        column[at_known], value[at_known] = inside.column, inside.value
        n_unknown = int((~known).sum())
        column[~at_known] = np.tile(np.arange(self.n_coef), n_unknown)
        value[~at_known] = np.tile(mean, n_unknown)
        return BasisRows(begin, column, value)

    def missing_row(self) -> Floats:
        """Return the (n_coef,) row of missing cells."""
        cell = np.array([np.nan])
        if self.known(cell)[0]:
            return np.asarray(self.matrix(cell).toarray()[0])
        return self._mean_or_zero()  # equal to what `matrix` gives, at a tenth of the time

    def _mean_or_zero(self) -> Floats:
        return np.zeros(self.n_coef) if self.mean is None else self.mean

    # --- the exact form ---------------------------------------------------------------------------

    def polynomials(self) -> Pieces | None:
        """Return the functions of a number as piecewise polynomials, without missing cells.

        None: the functions have no such form, or take codes of levels instead of numbers.
        """
        return None

    def pieces(self, codes: Floats | None = None) -> Pieces | None:
        """Return the exact form, missing cells included; None if the basis does not have one.

        Parameters
        ----------
        codes : all values that the encoder of the column can give, if they are finitely many
            The form is then one constant per code, which every basis has. Without codes the
            basis takes any number.
        """
        if codes is not None:
            return Pieces.constant(self.matrix(codes).toarray())
        numbers = self.polynomials()
        return None if numbers is None else numbers.with_missing(self.missing_row())

    def cubic_breaks(self) -> Floats | None:
        """Return the breaks between which the functions are cubics at most; None if they are not.

        The fit then needs only sums of powers over the rows between the breaks, instead of the
        column itself (binning/moments.py).
        """
        pieces = self.polynomials()
        if pieces is None or pieces.degree > MAX_CUBIC or pieces.closed_above:
            return None
        return pieces.breaks

    # --- the fit ----------------------------------------------------------------------------------

    def penalty(self) -> Floats:
        """Return the penalty matrix P: (n_coef, n_coef), by default a ridge.

        (n_coef,) is a diagonal matrix. It is for bases whose functions do not overlap, so that
        their Gram matrix is diagonal too.
        """
        return np.eye(self.n_coef)

    @property
    def penalty_needs_rows(self) -> bool:
        """Whether the penalty depends on where the rows are (`penalty_for`)."""
        return False

    def penalty_for(self, shares: Floats) -> Floats:
        """Return the penalty matrix, given the (n_coef,) mean row over the rows of the fit."""
        del shares
        return self.penalty()

    @property
    def ridge(self) -> float:
        """A ridge on the last coefficient alone, as a share of the weight of all rows.

        It does not depend on the smoothing. The last function must not overlap the others, in rows
        or in the penalty.
        """
        return 0.0

    def as_margin(self) -> Basis:
        """Return the basis as a margin of a product, whose penalty cannot depend on the rows."""
        return self

    @property
    def penalty_key(self) -> Hashable | None:
        """Equal for bases whose penalties and constants are equal; None: do not keep them."""
        return None

    @property
    def null_dim(self) -> int:
        """Number of dimensions that penalty and ridge leave free."""
        return 0

    @property
    def least_df(self) -> int:
        """A df above which a smoothing exists, whatever the rows: a ridge leaves at most 1 df."""
        return self.null_dim + (self.ridge > 0.0)

    def ones(self) -> Floats | None:
        """Return the (n_coef,) coefficients of the constant 1; None if the span lacks it."""
        return None

    def removed(self) -> Floats | None:
        """Return (k, n_coef) coefficients of functions that the learner is kept orthogonal to."""
        return None

    @property
    def is_interaction(self) -> bool:
        """Whether the basis is a product kept orthogonal to all functions of one margin alone."""
        return False

    def needs_mean(self, values: Floats) -> bool:
        """Return whether the mean row must be known before the rows at all bins can be made."""
        return not bool(self.known(values).all())

    def with_mean(self, values: Floats, weights: Floats) -> Self:
        """Return the basis with its mean row over bins of the given values and weights."""
        return self if self.mean is not None else replace(self, mean=self._mean(values, weights))

    def _mean(self, values: Floats, weights: Floats) -> Floats:
        known = self.known(values) & (weights != 0)
        rows = self.rows(values[known], ArrayPool())
        each = np.repeat(weights[known], np.diff(rows.begin))
        total = np.bincount(rows.column, rows.value * each, self.n_coef)
        return np.asarray(total / weights[known].sum())

    # --- coefficients -----------------------------------------------------------------------------

    def public_coef(self, coef: Floats) -> Floats:
        """Return coefficients (n_coef, q) as users expect to read them."""
        return coef

    @property
    def has_masses(self) -> bool:
        """Whether the functions are at least 0 and add up to 1.

        The mean row then holds the mass of each function among the training rows, and stands for
        the Gram matrix, whose rows add up to it.
        """
        return False

    @property
    def has_levels(self) -> bool:
        """Whether there is one coefficient per code, the last one for missing cells if any."""
        return False

    def ordered(self) -> NDArray[np.intp] | None:
        """Return positions of coefficients that make a rising function if they rise in this order.

        None: the coefficients do not show whether the function rises.
        """
        return None

    @property
    def slope(self) -> int | None:
        """Position of the slope if the basis is a straight line, else None."""
        return None

    def own_coef(self, code: float) -> int | None:
        """Return the position of the coefficient of one encoded value (NaN: missing cells) alone.

        None: other values share its coefficients.
        """
        del code
        return None

    def rounded(self, coef: Floats, digits: int) -> Floats:
        """Return coefficients (n_coef, q) rounded to decimals."""
        return round_numbers(coef, digits)

    def row_shares(self) -> RowShares | None:
        """Return the codes that stand for the training rows; None: ask the column for numbers."""
        return None

    # --- checks -----------------------------------------------------------------------------------

    def problem(self) -> str | None:
        """Return what is wrong with the fields of a basis read from a file, if anything is."""
        if self.mean is None or len(self.mean) != self.n_coef:
            return "expected a mean for every coefficient"
        return None

    def problem_with(self, encoder: Encoder) -> str | None:
        """Return why the basis cannot take the values of an encoder; None if it can."""
        return "expected values" if encoder.is_coded else None


def round_numbers(values: Floats, digits: int) -> Floats:
    """Return the nearest decimal numbers; np.round multiplies first, which misses some."""
    return np.array([round(v, digits) for v in values.ravel().tolist()]).reshape(values.shape)


def is_rising(numbers: Sequence[float] | Floats) -> bool:
    """Return whether no number is below the one before it."""
    return bool(np.all(np.diff(numbers) >= 0))
