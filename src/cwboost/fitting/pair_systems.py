"""Systems of pairs of columns without main effects: product bases over bins, weights and df.
Does not know about columns or how pairs are chosen (see interactions.py).

Let T be the basis over joint bins with weights C, M the additive functions in its span, and
T Q = T - M (M'CM)^- M'C T. The term adds T Q theta, and its Gram matrix is the one of T Q. The
coefficients stay those of T: other rows (folds, bags) have another Q, and coefficients still add
up. The system is solved for the inner coefficients, which span all functions up to additive ones;
among functions that differ by an additive one it takes the one with the least penalty
(`TensorBasis.inner_penalty`).

Rows may leave some additive functions undecided: those of empty levels, or, if the cells with rows
form blocks without a common level, those that shift a block. M'CM is then singular. Among all terms
that are equal over the rows and differ by an additive or unpenalised function, the term is the one
with the least penalty, and then with the least coefficients. So neither the order of levels nor the
choice of the generalised inverse matters.

If both margins are levels, T is a table of cells and its Gram matrix is diagonal: the core sets up
these systems (core/pairs.hpp). `_solve` does the same with NumPy and LAPACK for any basis: it is
the reference for the core, and takes all other systems and large ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Basis, BasisRows

from .smoothing import (
    ZERO,
    SmoothingTarget,
    System,
    factorize,
    find_smoothing,
    one_blas_thread,
    spectrum,
    weighted_gram,
)

MAX_CORE_INNER = 256  # inner cells of a table; LAPACK solves larger systems
HELD = 1e150  # holds a coefficient at zero; a solve divides by its square
NO_INTERACTION = 1e-10  # share of the weight of cells below which a table is additive


class PairTask(NamedTuple):
    """A pair whose system is wanted."""

    basis: Any  # one with `is_interaction`: a TensorBasis
    rows: BasisRows  # of the basis over the bins
    weights: Floats  # of the bins
    target: SmoothingTarget


class TableTask(NamedTuple):
    """A table of cells for the core, which takes the fields in this order."""

    table: Floats  # (levels of a, levels of b) the weights of the cells
    penalty: Floats  # of the inner cells
    target: SmoothingTarget
    factor: Floats  # written by the core


def solve_pairs(tasks: Sequence[PairTask], n_threads: int = 1) -> list[System | None]:
    """Return the systems of pairs; None if the penalty leaves more than the target df free."""
    systems: list[System | None] = [None] * len(tasks)
    tables = {k: table for k, task in enumerate(tasks) if (table := _table(task)) is not None}
    small = {
        k: TableTask(table, p := tasks[k].basis.inner_penalty(), tasks[k].target, np.empty(p.shape))
        for k, table in tables.items()
        if _n_inner(table) <= MAX_CORE_INNER
    }
    if small:
        numbers = np.empty((len(small), 4))
        _core.solve_pairs(list(small.values()), numbers, n_threads)
        for (k, task), found in zip(small.items(), numbers.tolist(), strict=True):
            smoothing, df, _, solved = found
            if solved:
                basis = tasks[k].basis
                systems[k] = _table_system(basis, task.table, task.factor, smoothing, df)
    rest = [k for k, system in enumerate(systems) if system is None]
    if rest:
        with one_blas_thread():
            for k in rest:
                systems[k] = _solve(tasks[k], tables.get(k))
    return systems


def _n_inner(table: Floats) -> int:
    """Return the number of inner cells of a table."""
    n_a, n_b = table.shape
    return (int(n_a) - 1) * (int(n_b) - 1)


def _table(task: PairTask) -> Floats | None:
    """Return (levels of a, levels of b) the weights of cells; None if a bin mixes cells."""
    basis, rows, weights, _ = task
    if not basis.is_table or min(basis.a.n_coef, basis.b.n_coef) < 2:
        return None
    w = np.repeat(weights, np.diff(rows.begin))
    if np.any(rows.value[w != 0.0] != 1.0):
        return None
    cells: Floats = np.bincount(rows.column, w, basis.n_coef).astype(np.float64, copy=False)
    return cells.reshape(basis.a.n_coef, -1)


def _table_system(basis: Any, table: Floats, factor: Floats, smoothing: float, df: float) -> System:
    """Return the system of a table of cells, given the factor of its inner coefficients."""
    cells, undecided, finder = table.ravel(), None, None
    if not np.all(cells > 0.0):
        functions = _additive_or_free(basis)
        moments = (functions * cells) @ functions.T
        undecided, finder = _undecided(basis, functions, moments)
    return System(cells, factor, cells / cells.sum(), smoothing, df, df, undecided, finder,
                  n_b=table.shape[1])  # fmt: skip


def _additive_or_free(basis: Any) -> Floats:
    """Return (k, d) additive and unpenalised functions, linearly independent."""
    free = [_free_but_constant(margin) for margin in (basis.a, basis.b)]
    return np.vstack([basis.removed(), np.kron(*free)])


def _free_but_constant(margin: Basis) -> Floats:
    """Return (null_dim - 1, d) unpenalised functions of a margin, without the constant."""
    ones, penalty, n_free = margin.ones(), margin.penalty(), margin.null_dim
    assert ones is not None
    if n_free < 2:
        return np.empty((0, len(ones)))
    free = np.linalg.eigh(penalty)[1][:, :n_free]
    free -= np.outer(ones, ones @ free) / (ones @ ones)
    return np.linalg.svd(free.T)[2][: n_free - 1]


def _split(moments: Floats, size: float) -> tuple[Floats, Floats]:
    """Return the generalised inverse of a matrix of moments, and its (m, k) null space.

    Eigenvalues that are negligible compared with `size` count as zero.
    """
    values, vectors = np.linalg.eigh(moments)
    decided = values > ZERO * size
    known = vectors[:, decided]
    return (known / values[decided]) @ known.T, vectors[:, ~decided]


def _undecided(
    basis: Any, functions: Floats, moments: Floats
) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return (k, d) the functions that rows leave undecided, and (k, d) how much of each to remove.

    The second, times the coefficients, makes the penalty least and then, among unpenalised
    functions, the coefficients. Return None for both if rows decide all functions.
    """
    open_directions = _split(moments, np.trace(moments))[1]
    if not open_directions.size:
        return None, None
    functions = open_directions.T @ functions
    a, b = (p if p.ndim == 2 else np.diag(p) for p in (basis.a.penalty(), basis.b.penalty()))
    surfaces = functions.reshape(-1, len(a), len(b))
    onto = (a @ surfaces + surfaces @ b).reshape(functions.shape)  # the Kronecker sum
    size = (np.trace(a) / len(a) + np.trace(b) / len(b)) * np.sum(functions**2)
    inverse, unpenalised = _split(onto @ functions.T, size)
    finder = inverse @ onto
    if not unpenalised.size:
        return functions, finder
    rest = np.linalg.qr((unpenalised.T @ functions).T)[0].T
    last = rest - (rest @ functions.T) @ finder
    return np.vstack([functions, rest]), np.vstack([finder, last])


def _solve(task: PairTask, table: Floats | None) -> System | None:
    """Return the system of one pair, with NumPy and LAPACK; None as `solve_pairs`."""
    basis, rows, w, target = task
    total, inner, removed = float(w.sum()), basis.inner, basis.removed()
    weighted = rows.value * np.repeat(w, np.diff(rows.begin))
    mean = np.bincount(rows.column, weighted, basis.n_coef) / total
    gram = weighted_gram(rows, weighted, basis.n_coef)
    onto = gram @ removed.T
    additive = removed @ onto
    weigher = _split(additive, np.trace(additive))[0] @ onto.T
    own, penalty = (gram - onto @ weigher)[np.ix_(inner, inner)], basis.inner_penalty()
    own = (own + own.T) / 2
    smoothing, df = target.smoothing, 0.0
    if np.trace(own) <= NO_INTERACTION * total:  # all functions are additive over the rows
        smoothing, factor = 0.0, np.eye(len(own))
    else:
        spec = spectrum(own / total, penalty, target.null_dim, np.zeros(len(own)))
        if np.isnan(smoothing):
            smoothing = total * find_smoothing(spec, target.df, target.kind)
        if np.isnan(smoothing):
            return None
        df = spec.df(smoothing / total, target.kind)
        factor = factorize(own, penalty, smoothing, spec)
    if table is not None:
        return _table_system(basis, table, factor, smoothing, df)
    # Other coefficients are held at zero: any function is an inner one plus an additive one.
    full = np.diag(np.full(len(gram), HELD))
    full[np.ix_(inner, inner)] = factor
    functions = _additive_or_free(basis)
    undecided, finder = _undecided(basis, functions, functions @ gram @ functions.T)
    if undecided is not None and finder is not None:
        weigher = np.vstack([weigher, finder - (finder @ removed.T) @ weigher])
        removed = np.vstack([removed, undecided])
    return System(gram, full, mean, smoothing, df, df, removed, np.ascontiguousarray(weigher))
