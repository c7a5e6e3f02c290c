"""Systems of pairs without main effects. Knows bases of products over bins, weights and df; knows
nothing of columns, learners or how pairs are chosen.

With T the basis over joint bins of weights C, M the additive functions in its span, and
T Q = T - M (M'CM)^- M'C T, the term adds T Q theta, and its Gram is that of T Q. Coefficients stay
those of T: terms of other rows (folds, bags) have other Q, and add up all the same. The system is
solved for the inner coefficients, which are those of all functions but for additive ones; of these
it takes what makes the penalty least (TensorBasis.inner_penalty).

Some additive functions no row shows: those of empty levels, or, if the cells with rows fall apart
into blocks without a level in common, those that shift a block. Then M'CM is singular, and rows do
not tell what to take away. Of all terms that are equal over the rows and differ by what is additive
or free of penalty, it is that of the least penalty, and then of the least coefficients. So neither
the order of levels nor the generalised inverse matters.

Where both margins are levels, T is a table of cells and its Gram diagonal: the core has these
(core/pairs.hpp). All others, and large ones, are set up here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cwboost import _core
from cwboost.frames.table import Floats
from cwboost.terms.bases import BasisRows

from .smoothing import ZERO, System, factorize, find_smoothing, one_blas_thread, spectrum

MAX_CORE_INNER = 256  # inner cells of a table; larger systems are LAPACK's
HELD = 1e150  # a solve divides by its square
NO_INTERACTION = 1e-10  # share of the weight of cells that is not additive

PairAim = tuple[
    float, float, bool, bool, int
]  # smoothing (NaN: by df), df, net, tr(H), null dimensions
PairTask = tuple[
    Any, BasisRows, Floats, PairAim
]  # basis, its rows over bins, the bins' weights, aim


def solve_pairs(tasks: Sequence[PairTask], n_threads: int = 1) -> list[System | None]:
    """The systems of pairs; None where the penalty leaves more free than the df asked for."""
    systems: list[System | None] = [None] * len(tasks)
    tables = {k: table for k, task in enumerate(tasks) if (table := _table(task)) is not None}
    small = [k for k, table in tables.items() if _n_inner(table) <= MAX_CORE_INNER]
    numbers = np.empty((len(small), 4))
    given = [
        (tables[k], p := tasks[k][0].inner_penalty(), tasks[k][3], np.empty(p.shape)) for k in small
    ]
    _core.solve_pairs(given, numbers, n_threads)
    for k, (table, _, _, factor), found in zip(small, given, numbers.tolist(), strict=True):
        if found[3]:
            systems[k] = _of_table(tasks[k][0], table, factor, found[0], found[1])
    with one_blas_thread():
        for k, task in enumerate(tasks):
            if systems[k] is None:
                systems[k] = _solve(task, tables.get(k))
    return systems


def _n_inner(table: Floats) -> int:
    n_a, n_b = table.shape
    return (int(n_a) - 1) * (int(n_b) - 1)


def _table(task: PairTask) -> Floats | None:
    """(levels of a, levels of b) weights of the cells; None if bins are mixtures of cells."""
    basis, rows, weights, _ = task
    if not basis.is_table or min(basis.a.n_coef, basis.b.n_coef) < 2:
        return None
    w = np.repeat(weights, np.diff(rows.begin))
    if np.any(rows.value[w != 0.0] != 1.0):
        return None
    cells: Floats = np.bincount(rows.column, w, basis.n_coef).astype(np.float64, copy=False)
    return cells.reshape(basis.a.n_coef, -1)


def _of_table(basis: Any, table: Floats, factor: Floats, smoothing: float, df: float) -> System:
    cells, undecided, finder = table.ravel(), None, None
    if not np.all(cells > 0.0):
        functions = _additive_or_free(basis)
        moments = (functions * cells) @ functions.T
        undecided, finder = _undecided(basis, functions, moments)
    return System(cells, factor, cells / cells.sum(), smoothing, df, df, undecided, finder,
                  n_b=table.shape[1])  # fmt: skip


def _additive_or_free(basis: Any) -> Floats:
    """(k, d) additive functions and those that no penalty sees, linearly independent."""
    free = [_free_but_constant(margin) for margin in (basis.a, basis.b)]
    return np.vstack([basis.removed(), np.kron(*free)])


def _free_but_constant(margin: Any) -> Floats:
    """(null_dim - 1, d) functions that a margin's penalty does not see, but for the constant."""
    ones, penalty, n_free = margin.ones(), margin.penalty(), margin.null_dim
    if n_free < 2:
        return np.empty((0, len(ones)))
    free = np.linalg.eigh(penalty)[1][:, :n_free]
    free -= np.outer(ones, ones @ free) / (ones @ ones)
    return np.linalg.svd(free.T)[2][: n_free - 1]


def _split(moments: Floats, size: float) -> tuple[Floats, Floats]:
    """The generalised inverse of moments, and (k, m) directions that they do not see: where they
    are nothing beside `size`."""
    values, vectors = np.linalg.eigh(moments)
    seen = values > ZERO * size
    known = vectors[:, seen]
    return (known / values[seen]) @ known.T, vectors[:, ~seen]


def _undecided(
    basis: Any, functions: Floats, moments: Floats
) -> tuple[Floats, Floats] | tuple[None, None]:
    """(k, d) those of the functions that no row shows, and (k, d) what finds how much to take away
    of each; None if there are none.

    First what makes the penalty least, then, of what it does not see, what makes the coefficients
    least.
    """
    unseen = _split(moments, np.trace(moments))[1]
    if not unseen.size:
        return None, None
    functions = unseen.T @ functions
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
    """What the core does, by NumPy and LAPACK, for any basis."""
    basis, rows, w, (smoothing, aim, _, trace_h, free) = task
    total, inner, removed = float(w.sum()), basis.inner, basis.removed()
    weighted = rows.value * np.repeat(w, np.diff(rows.begin))
    mean = np.bincount(rows.column, weighted, basis.n_coef) / total
    left, right = (r.matrix(basis.n_coef) for r in (rows._replace(value=weighted), rows))
    gram = np.ascontiguousarray((left.T @ right).toarray(), dtype=np.float64)
    onto = gram @ removed.T
    additive = removed @ onto
    weigher = _split(additive, np.trace(additive))[0] @ onto.T
    own, penalty = (gram - onto @ weigher)[np.ix_(inner, inner)], basis.inner_penalty()
    own = (own + own.T) / 2
    df = 0.0
    if np.trace(own) <= NO_INTERACTION * total:  # all is additive: the columns say the same
        smoothing, factor = 0.0, np.eye(len(own))
    else:
        spec = spectrum(own / total, penalty, free, np.zeros(len(own)))
        kind = "df1" if trace_h else "df2"
        if np.isnan(smoothing):
            smoothing = total * find_smoothing(spec, aim, kind)
        if np.isnan(smoothing):
            return None
        df = spec.df(smoothing / total, kind)
        factor = factorize(own, penalty, smoothing)
    if table is not None:
        return _of_table(basis, table, factor, smoothing, df)
    # The others are held at zero: any function is an inner one plus an additive one.
    full = np.diag(np.full(len(gram), HELD))
    full[np.ix_(inner, inner)] = factor
    functions = _additive_or_free(basis)
    undecided, finder = _undecided(basis, functions, functions @ gram @ functions.T)
    if undecided is not None and finder is not None:
        weigher = np.vstack([weigher, finder - (finder @ removed.T) @ weigher])
        removed = np.vstack([removed, undecided])
    return System(gram, full, mean, smoothing, df, df, removed, np.ascontiguousarray(weigher))
