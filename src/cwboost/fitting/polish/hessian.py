"""The matrix G + Lambda of all polished terms: its factor, its solutions and parts of its inverse.

G is the Gram matrix of the coordinates of all terms, weighted by the second derivatives of the
loss, with the intercept eliminated. Lambda is diagonal. A model can have thousands of coordinates,
most of them small steps of one column, which are nearly uncorrelated with what other columns do.
So each term has leading coordinates, which enter one dense matrix, and further ones, which are
connected with the terms of the same column only and are eliminated column by column (Schur
complements). If there are few coordinates, all are leading ones and nothing is neglected.
Coordinates whose penalty is very large stay near zero and are treated as independent of all others.
Does not know about rows or losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dpotri, dtrtri

from cwboost._utils.lazy import cached_property
from cwboost.frames.columns import Floats

# Relative sizes of what is added to the diagonal, one after another. What the layout neglects can
# make the rest indefinite, unless further coordinates are not connected with leading ones.
ATTEMPTS = tuple((ridge, connected) for ridge in (1e-9, 1e-7, 1e-5) for connected in (True, False))
HELD = 1e3  # penalty of a coordinate, as a multiple of its G, that makes it independent


class SingularError(ValueError):
    """The terms cannot be refitted together."""

    def __init__(
        self,
        reason: str = "the terms are too nearly collinear, a weight is very large, or the loss is "
        "not curved",
    ) -> None:
        super().__init__(reason)


@dataclass(frozen=True, eq=False)
class Layout:
    """Which coordinates are leading ones, and which belong together.

    Attributes
    ----------
    size : int
        The number of all coordinates.
    leading : (m,) positions of the coordinates of the dense matrix
    groups : the terms of one column: positions among `leading`, and of the further coordinates
    """

    size: int
    leading: np.ndarray
    groups: Sequence[tuple[np.ndarray, np.ndarray]]

    @classmethod
    def make(cls, groups: Sequence[Sequence[slice]], n_leading: int) -> Layout:
        """Return the layout of terms at the given places, grouped by column.

        At most about `n_leading` coordinates lead, the first ones of every term.
        """
        sizes = [place.stop - place.start for group in groups for place in group]
        most = _largest_share(sizes, n_leading)
        leading: list[np.ndarray] = []
        parts, count = [], 0
        for group in groups:
            lead = [np.arange(p.start, min(p.stop, p.start + most)) for p in group]
            rest = [np.arange(min(p.stop, p.start + most), p.stop) for p in group]
            n = sum(map(len, lead))
            parts.append((np.arange(count, count + n), np.concatenate(rest)))
            leading += lead
            count += n
        return cls(sum(sizes), np.concatenate(leading), parts)

    def keep(self, kept: np.ndarray) -> Layout:
        """Return the layout of some coordinates only, given a flag of every coordinate."""
        leads = kept[self.leading]
        new, new_lead = np.cumsum(kept) - 1, np.cumsum(leads) - 1
        groups = [(new_lead[a[leads[a]]], new[b[kept[b]]]) for a, b in self.groups]
        return Layout(int(np.count_nonzero(kept)), new[self.leading[leads]], groups)


def _largest_share(sizes: Sequence[int], total: int) -> int:
    """Return the largest number m for which the sizes, cut at m, sum to at most `total`."""
    low, high = 1, max(sizes, default=1)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in sizes) <= total:
            low = middle
        else:
            high = middle - 1
    return low


@dataclass(eq=False)
class Gram:
    """G in the blocks that a layout keeps."""

    layout: Layout
    leading: Floats  # (m, m)
    across: Sequence[Floats]  # of each group (further, leading ones of the group)
    further: Sequence[Floats]  # of each group (further, further)
    _attempt: int = 0  # the first of ATTEMPTS that may succeed

    def factor(self, penalty: Floats) -> Factor:
        """Return the factor of G + Lambda, given the diagonal of Lambda (all coordinates)."""
        diagonal = self.diagonal
        kept = penalty < HELD * diagonal
        gram, size = self.keep(kept), float(diagonal.mean()) if len(diagonal) else 0.0
        alone = np.where(kept, 0.0, 1.0 / np.where(kept, 1.0, diagonal + penalty))
        for ridge, connected in ATTEMPTS[self._attempt :]:
            try:
                own = BlockFactor.make(gram, penalty[kept] + ridge * size, connected=connected)
                return Factor(self.layout, np.flatnonzero(kept), own, alone)
            except LinAlgError:
                self._attempt += 1
        raise SingularError

    @cached_property
    def diagonal(self) -> Floats:
        """The diagonal of G."""
        out = np.empty(self.layout.size)
        out[self.layout.leading] = np.diag(self.leading)
        for (_, rest), block in zip(self.layout.groups, self.further, strict=True):
            out[rest] = np.diag(block)
        return out

    def keep(self, kept: np.ndarray) -> Gram:
        """Return G of some coordinates only, given a flag of every coordinate."""
        if kept.all():
            return self
        layout, leads = self.layout, kept[self.layout.leading]
        across = [x[kept[b]][:, leads[a]]
                  for (a, b), x in zip(layout.groups, self.across, strict=True)]  # fmt: skip
        further = [x[kept[b]][:, kept[b]]
                   for (_, b), x in zip(layout.groups, self.further, strict=True)]  # fmt: skip
        return Gram(layout.keep(kept), self.leading[leads][:, leads], across, further)


class GramBlocks:
    """Collects the blocks of G, and makes the Gram matrix that a layout keeps."""

    def __init__(self, layout: Layout, groups: Sequence[Sequence[slice]]) -> None:
        self.layout = layout
        self._leading = np.zeros((len(layout.leading),) * 2)
        self._of_leading = np.full(layout.size, -1)  # positions in the dense matrix
        self._of_leading[layout.leading] = np.arange(len(layout.leading))
        self._members = [np.concatenate([np.r_[p] for p in group]) for group in groups]
        self._whole = [np.zeros((len(members),) * 2) for members in self._members]
        self._group, self._within = np.empty(layout.size, int), np.empty(layout.size, int)
        for g, members in enumerate(self._members):
            self._group[members], self._within[members] = g, np.arange(len(members))
        places = [place for group in groups for place in group]
        leads = self._of_leading >= 0
        self._n_leading = {p.start: int(np.count_nonzero(leads[p])) for p in places}

    def leading_part(self, place: slice) -> slice:
        """Return the place of the leading coordinates of a term."""
        n = min(self._n_leading[place.start], place.stop - place.start)
        return slice(place.start, place.start + n)

    def set(self, rows: slice, columns: slice, block: Floats) -> None:
        """Set the block of two terms, and its transpose."""
        if not block.size:
            return
        # The coordinates of a term are neighbours in both matrices, its leading ones come first.
        a, b = self._in_leading(rows), self._in_leading(columns)
        part = block[: a.stop - a.start, : b.stop - b.start]
        self._leading[a, b], self._leading[b, a] = part, part.T
        group = self._group[rows.start]
        if group == self._group[columns.start]:
            i, j = (_moved(place, self._within[place.start]) for place in (rows, columns))
            self._whole[group][i, j], self._whole[group][j, i] = block, block.T

    def _in_leading(self, place: slice) -> slice:
        return _moved(self.leading_part(place), self._of_leading[place.start])

    def gram(self) -> Gram:
        """Return the Gram matrix."""
        across, further = [], []
        for members, whole in zip(self._members, self._whole, strict=True):
            leads = self._of_leading[members] >= 0
            across.append(whole[np.ix_(~leads, leads)])
            further.append(whole[np.ix_(~leads, ~leads)])
        return Gram(self.layout, self._leading, across, further)


def _on_diagonal(matrix: Floats, values: Floats) -> Floats:
    out = matrix.copy()
    out[np.diag_indices_from(out)] += values
    return out


def _solve(lower: Floats, right: Floats) -> Floats:
    return np.asarray(cho_solve((lower, True), right, check_finite=False))


def _moved(place: slice, start: int) -> slice:
    return slice(start, start + place.stop - place.start)


@dataclass(frozen=True, eq=False)
class BlockFactor:
    """G + Lambda in the blocks of a layout, factorised."""

    layout: Layout
    lower: Floats  # Cholesky factor of the Schur complement of the leading coordinates
    inverse: Floats  # (m, m) its inverse
    group_lower: Sequence[Floats]  # Cholesky factors of the further coordinates
    group_solved: Sequence[Floats]  # (further, leading ones of the group) K^-1 G

    @classmethod
    def make(cls, gram: Gram, penalty: Floats, *, connected: bool) -> BlockFactor:
        """Factorise; without `connected`, further coordinates are treated as independent."""
        layout, schur = gram.layout, gram.leading.copy()
        schur[np.diag_indices_from(schur)] += penalty[layout.leading]
        lowers, solved = [], []
        for (lead, rest), across, further in zip(
            layout.groups, gram.across, gram.further, strict=True
        ):
            if not len(rest):
                lowers.append(np.empty((0, 0)))
                solved.append(np.empty((0, len(lead))))
                continue
            lower = cholesky(_on_diagonal(further, penalty[rest]), lower=True, check_finite=False)
            x = _solve(lower, across) if connected else np.zeros_like(across)
            if connected:
                schur[np.ix_(lead, lead)] -= across.T @ x
            lowers.append(lower)
            solved.append(x)
        lower = inverse = schur
        if len(schur):  # LAPACK takes no empty matrix
            lower = cholesky(schur, lower=True, check_finite=False)
            inverse = dpotri(lower, lower=1)[0]
            inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return cls(layout, lower, inverse, lowers, solved)

    def solve(self, right: Floats) -> Floats:
        """Return (G + Lambda)^-1 right for a vector of all coordinates."""
        layout, out = self.layout, np.empty(len(right))
        top = right[layout.leading]
        parts = []
        for (lead, rest), lower, x in zip(
            layout.groups, self.group_lower, self.group_solved, strict=True
        ):
            parts.append(_solve(lower, right[rest]) if len(rest) else right[rest])
            if len(rest):
                top[lead] -= x.T @ right[rest]
        leading = _solve(self.lower, top) if len(top) else top
        out[layout.leading] = leading
        for (lead, rest), part, x in zip(layout.groups, parts, self.group_solved, strict=True):
            out[rest] = part - x @ leading[lead]
        return out

    def inverse_diagonal(self) -> Floats:
        """Return the diagonal of the inverse."""
        layout, out = self.layout, np.empty(self.layout.size)
        out[layout.leading] = np.diag(self.inverse)
        for (lead, rest), lower, x in zip(
            layout.groups, self.group_lower, self.group_solved, strict=True
        ):
            if len(rest):
                half = dtrtri(lower, lower=1)[0]
                out[rest] = np.sum(half * half, axis=0)
                out[rest] += np.sum((x @ self.inverse[np.ix_(lead, lead)]) * x, axis=1)
        return out

    def inverse_block(self, group: int) -> tuple[np.ndarray, Floats]:
        """Return the positions of a group's coordinates, and their block of the inverse."""
        lead, rest = self.layout.groups[group]
        at = np.concatenate([self.layout.leading[lead], rest])
        top, x, m = self.inverse[np.ix_(lead, lead)], self.group_solved[group], len(lead)
        out = np.empty((len(at), len(at)))
        out[:m, :m] = top
        if len(rest):
            out[m:, :m] = -x @ top
            out[:m, m:] = out[m:, :m].T
            own = _solve(self.group_lower[group], np.eye(len(rest)))
            out[m:, m:] = own - out[m:, :m] @ x.T
        return at, out


@dataclass(frozen=True, eq=False)
class Factor:
    """G + Lambda of all coordinates, factorised."""

    layout: Layout
    kept: np.ndarray  # positions of the coordinates of `own`
    own: BlockFactor
    alone: Floats  # diagonal of the inverse at the other coordinates, which are independent

    @property
    def exact(self) -> bool:
        """Whether the layout neglects nothing, apart from what the penalty makes independent."""
        return len(self.own.layout.leading) == self.own.layout.size

    def solve(self, right: Floats) -> Floats:
        """Return (G + Lambda)^-1 right for a vector of all coordinates."""
        out = self.alone * right
        out[self.kept] = self.own.solve(right[self.kept])
        return out

    def inverse_diagonal(self) -> Floats:
        """Return the diagonal of the inverse."""
        out = self.alone.copy()
        out[self.kept] = self.own.inverse_diagonal()
        return out

    def inverse_block(self, group: int) -> tuple[np.ndarray, Floats]:
        """Return the positions of a group's coordinates, and their block of the inverse."""
        lead, rest = self.layout.groups[group]
        at = np.sort(np.concatenate([self.layout.leading[lead], rest]))
        out = np.diag(self.alone[at])
        own, block = self.own.inverse_block(group)
        where = np.searchsorted(at, self.kept[own])
        out[np.ix_(where, where)] = block
        return at, out
