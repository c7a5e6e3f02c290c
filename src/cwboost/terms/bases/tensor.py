"""Products of two bases: functions of two columns."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.memory import ArrayPool
from cwboost.frames.columns import Floats

from .base import Basis, BasisRows

MAX_KEPT_CELLS = 256  # cells of a table up to which its penalty is kept for tables of its shape
MAX_KEPT = 1024  # penalties that are kept
FREE = 1e-11  # relative size of the ridge that fixes directions which neither rows nor penalty see

_kept_penalties: dict[Hashable, Floats] = {}  # inner penalties by the keys of both margins


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorBasis(Basis):
    """Products of the rows of two bases: coefficient (i, j) is at position i * b.n_coef + j.

    With `orthogonal` the learner is kept orthogonal to all functions of one margin. Their sums
    f + g, the additive functions, are in the span of the products. The coefficients with i, j > 0,
    called inner, span all functions up to additive ones.
    """

    a: Basis
    b: Basis
    orthogonal: bool = False
    kind: ClassVar[str] = "tensor"

    @property
    def margins(self) -> tuple[Basis, ...]:
        return self.a, self.b

    @property
    def n_coef(self) -> int:
        return self.a.n_coef * self.b.n_coef

    @property
    def null_dim(self) -> int:
        a, b = self.a.null_dim, self.b.null_dim
        return max(0, a - 1) * max(0, b - 1) if self.orthogonal else a * b

    @property
    def is_interaction(self) -> bool:
        return self.orthogonal

    @property
    def is_table(self) -> bool:
        """Whether the coefficients are the cells of a table without its additive part."""
        return self.orthogonal and self.a.has_levels and self.b.has_levels

    @property
    def inner(self) -> NDArray[np.intp]:
        """Positions of the inner coefficients."""
        return np.arange(self.n_coef).reshape(self.a.n_coef, -1)[1:, 1:].ravel()

    def penalty(self) -> Floats:
        """Return the Kronecker sum of the margins' penalties."""
        a, b = (p if p.ndim == 2 else np.diag(p) for p in (self.a.penalty(), self.b.penalty()))
        return np.kron(a, np.eye(len(b))) + np.kron(np.eye(len(a)), b)

    def ones(self) -> Floats | None:
        a, b = self.a.ones(), self.b.ones()
        return None if a is None or b is None else np.outer(a, b).ravel()

    def removed(self) -> Floats | None:
        a, b = self.a.ones(), self.b.ones()
        if not self.orthogonal or a is None or b is None:
            return None
        of_a, of_b = np.kron(np.eye(self.a.n_coef), b), np.kron(a, np.eye(self.b.n_coef))
        return np.vstack([of_a, of_b[1:]])  # the constant is in both

    def inner_penalty(self) -> Floats:
        """Return the (m, m) penalty of the inner coefficients.

        It is the smallest penalty among all functions that differ by an additive one. All tables
        of one shape share it, so it is read-only.
        """
        key = self.a.penalty_key, self.b.penalty_key
        if None in key or self.n_coef > MAX_KEPT_CELLS:
            return _inner_penalty(self)
        found = _kept_penalties.get(key)
        if found is None:
            if len(_kept_penalties) >= MAX_KEPT:
                _kept_penalties.clear()
            found = _kept_penalties[key] = _inner_penalty(self)
        return found

    def known(self, values: Floats) -> NDArray[np.bool_]:
        return np.ones(len(values), bool)  # the margins fill their own unknown values

    def needs_mean(self, values: Floats) -> bool:
        del values
        return True  # the margins must know theirs

    def with_mean(self, values: Floats, weights: Floats) -> TensorBasis:
        if self.mean is not None:
            return self
        a, b = self.a.with_mean(values[:, 0], weights), self.b.with_mean(values[:, 1], weights)
        complete = replace(self, a=a, b=b)
        return replace(complete, mean=complete._mean(values, weights))

    def rows(self, values: Floats, room: ArrayPool) -> BasisRows:
        a, b = self.a.all_rows(values[:, 0], room), self.b.all_rows(values[:, 1], room)
        in_a, in_b = np.diff(a.begin), np.diff(b.begin)
        row = np.repeat(np.arange(len(values)), in_a * in_b)
        # Within a row position p is the pair of entries (p // in_b, p % in_b).
        begin = np.concatenate([[0], np.cumsum(in_a * in_b)])
        p = np.arange(begin[-1]) - begin[row]
        i, j = a.begin[row] + p // in_b[row], b.begin[row] + p % in_b[row]
        column = a.column[i] * np.int32(self.b.n_coef) + b.column[j]
        return BasisRows(begin, column, a.value[i] * b.value[j])

    @property
    def has_masses(self) -> bool:
        return self.a.has_masses and self.b.has_masses

    def problem(self) -> str | None:
        if any(len(margin.margins) > 1 for margin in self.margins):
            return "expected margins of one column"
        return super().problem()


def _inner_penalty(basis: TensorBasis) -> Floats:
    """Return P - P M (M'PM)^- M'P for the inner coefficients, M the additive functions."""
    full, additive, inner = basis.penalty(), basis.removed(), basis.inner
    assert additive is not None
    onto = full @ additive.T
    out = full[np.ix_(inner, inner)]
    out -= onto[inner] @ np.linalg.pinv(additive @ onto, 1e-10, hermitian=True) @ onto[inner].T
    out = (out + out.T) / 2
    if basis.null_dim:  # what it leaves free may have no rows, as cells that lack both values
        out += FREE * np.trace(out) / len(out) * np.eye(len(out))
    out.flags.writeable = False
    return out
