"""Which pairs of columns act together: their ranking, and learners for the chosen ones.

Knows residuals of a model and joint tables of them; knows nothing of boosting. A pair's gain is
that of the learner `Tensor(a, b, orthogonal=True)` on the residual, with at most 8 steps or 12
levels on either side: how much of its weighted sum of squares one step of full length would take
away. Beside it stand gains on residuals with random signs, which are noise of the same variance in
every row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import check_threads, is_whole, threads_for
from cwboost.binning.summary import ColumnSummary
from cwboost.frames.table import Floats, Table
from cwboost.frames.weights import as_part
from cwboost.model.model import Model
from cwboost.model.records import Ranking
from cwboost.progress import Progress, as_progress
from cwboost.terms.bases import Basis, LevelBasis, TensorBasis
from cwboost.terms.learners import Category, Learner, Step, Tensor, pair_bins
from cwboost.terms.plan import Plan
from cwboost.terms.training import TrainingColumn

from .input_data import FitData, FitInput, read_data
from .repeat import input_again
from .term_plans import NET_DF, summarize_columns

MAX_STEPS = 8  # of a numeric column in the ranking, which need not be as fine as the terms
MAX_LEVELS = 12  # of a text column in the ranking: the most frequent ones, and all others as one
MAX_CELLS = 1024  # of a pair's table; larger ones are not chosen by themselves
FLIPS = 10  # draws of random signs that show what noise gains
MAX_FALSE = 0.7  # "auto": most pairs by noise, as a share of those chosen
ROUNDING = 1e-12  # share of the residual: less is no gain
PER_COLUMN = 3  # so many pairs per column at most,
MAX_AUTO = 400  # and so many in all
MAX_KEPT = 1000  # pairs that a model remembers
AT_A_TIME = 500  # pairs ranked between two looks at Ctrl-C

Pairs = list[tuple[str, str]]


class Margin(NamedTuple):
    """A column as the ranking sees it."""

    levels: NDArray[np.uint8]  # (n,) of every row
    basis: Basis
    n_levels: int | None  # of a text column, all of which a term has


def rank_interactions(
    model: Model,
    table: Any,
    y: Any = None,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    random_state: int = 0,
    n_threads: int | None = None,
    progress: Any = None,
) -> Ranking:
    """Ranks all pairs of a model's columns by what they gain on the residuals it leaves.

    Parameters
    ----------
    model : Model
        Mostly one of main effects; of others what is left after their pairs.
    table : data frame, array or mapping
        The rows that it was fitted to, or others.
    y : array or name of a column
        By default the column that the model was fitted to.
    weights, offset, exposure : array or name of a column, optional
        As in the fit.
    random_state : int
        For the random signs that show what noise gains.
    n_threads : int, optional
        The result does not depend on it.
    progress : None, bool or Progress

    Returns
    -------
    Ranking

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {name: rng.uniform(size=500) for name in "abc"}
    >>> y = table["a"] + table["b"] * table["c"]
    >>> model = cb.fit(table, y)
    >>> cb.rank_interactions(model, table, y).pairs[0]
    ('b', 'c')
    """
    check_threads(n_threads)
    given = FitInput.of(table, y, weights, offset=offset, exposure=exposure)
    given = input_again(model.settings, given, "rank_interactions")
    data = read_data(given, model.loss, 0, model.classes)
    threads = threads_for(n_threads, len(data.y))
    names = list(dict.fromkeys(name for term in model.terms.values() for name in term.columns))
    seen = summarize_columns(names, data.table, data.sample, threads)
    return rank(model, data, names, seen, random_state, threads, as_progress(progress))


def rank(
    model: Model,
    data: FitData,
    names: Sequence[str],
    seen: Mapping[str, ColumnSummary],
    seed: int,
    n_threads: int,
    bar: Progress,
) -> Ranking:
    """The pairs of some columns, those that do not vary left out."""
    margins = {n: _margin(n, data, seen[n]) for n in names if seen[n].varies}
    columns, n_rows = list(margins), data.sample.n_rows
    candidates = [
        (i, j)
        for i, j in combinations(range(len(columns)), 2)
        if _n_cells(margins[columns[i]], margins[columns[j]], n_rows) <= MAX_CELLS
    ]
    w, r = data.split.training, residuals(model, data, n_threads)
    gains = _gains(list(margins.values()), candidates, w, r, seed, n_threads, bar)
    q = r.shape[1]
    gain = gains[:, :q].sum(axis=1)
    by_flip = gains[:, q:].reshape(len(gains), FLIPS, q).sum(axis=2)
    order = np.argsort(-gain, kind="stable")[:MAX_KEPT]
    as_much = [len(gain) - np.searchsorted(np.sort(flip), gain[order]) for flip in by_flip.T]
    return Ranking(
        a=tuple(columns[candidates[k][0]] for k in order),
        b=tuple(columns[candidates[k][1]] for k in order),
        gain=gain[order],
        by_noise=np.max(as_much, axis=0).astype(np.float64),
        noise=float(by_flip.max(axis=0, initial=0.0).mean()),
        residual=float(np.sum(w[:, None] * r**2)),
        n_pairs=len(candidates),
        n_columns=len(columns),
        chosen=0,
        left_out=tuple(columns[k] for k in _without(candidates, len(columns))),
    )


def _without(candidates: Sequence[tuple[int, int]], n_columns: int) -> list[int]:
    """Columns that are in no pair, though there are others."""
    there = {k for pair in candidates for k in pair}
    return [k for k in range(n_columns) if k not in there] if n_columns > 1 else []


def _n_cells(a: Margin, b: Margin, n_rows: int) -> int:
    """Cells that the table of a pair's term has."""
    sizes = (
        pair_bins(n_rows, y.n_levels) if x.n_levels is None else x.n_levels
        for x, y in ((a, b), (b, a))
    )
    return math.prod(sizes)


def residuals(model: Model, data: FitData, n_threads: int) -> Floats:
    """(n, q) minus the gradient of the loss at the model's scores."""
    q = model.n_outputs
    score = data.offset + model._constant
    model._predictor.add(data.table, score, n_threads)
    rows = _core.LocalRows(
        data.loss.core(data.y),
        data.y,
        np.ascontiguousarray(score.T),
        [],
        [as_part(data.weights)],
        n_threads,
    )
    fill = _core.Fill(_core.SLOT_F, [0.0] * q)
    rows.run([fill, _core.Residual(_core.SLOT_F, _core.SLOT_R, [_core.TRAINING_PART])])
    return rows.read(_core.SLOT_R).reshape(q, -1).T


def _margin(name: str, data: FitData, seen: ColumnSummary) -> Margin:
    column = TrainingColumn(name, data.table, data.sample, seen)
    if column.is_numeric:
        steps = Step(name, bins=min(pair_bins(data.sample.n_rows), MAX_STEPS))
        encoder = steps.encoder(column)
        basis, n_levels = steps.basis(column, encoder), None
    else:
        levels = Category(name)
        encoder = levels.encoder(column)
        basis = levels.basis(column, encoder)
        n_levels = basis.n_coef
    bins = encoder.bin(column.column, seen)
    # Rows with values that training lacks have no weight here, so that any level does for them.
    known = np.where(basis.known(bins.values), bins.values, 0.0)
    level = np.where(np.isnan(known), basis.n_coef - 1, known).astype(np.int64)
    if n_levels is not None and n_levels > MAX_LEVELS:
        weight = np.bincount(level[bins.index], data.split.training, n_levels)
        place = np.full(n_levels, MAX_LEVELS - 1)
        place[np.argsort(-weight, kind="stable")[: MAX_LEVELS - 1]] = np.arange(MAX_LEVELS - 1)
        level, basis = place[level], LevelBasis(n_levels=MAX_LEVELS)
    return Margin(level.astype(np.uint8)[bins.index], basis, n_levels)


def _gains(
    margins: list[Margin],
    candidates: list[tuple[int, int]],
    w: Floats,
    r: Floats,
    seed: int,
    n_threads: int,
    bar: Progress,
) -> Floats:
    """(pairs, q (1 + FLIPS)) gains on the residuals, and on residuals with random signs."""
    random, q = np.random.default_rng(seed), r.shape[1]
    values = np.empty((len(w), 1 + q * (1 + FLIPS)))
    values[:, 0] = w
    values[:, 1 : q + 1] = w[:, None] * r
    for k in range(q + 1, values.shape[1], q):
        sign = 2.0 * random.integers(0, 2, (len(w), 1)) - 1.0
        values[:, k : k + q] = sign * values[:, 1 : q + 1]
    out = np.empty((len(candidates), values.shape[1]))
    given = []
    for i, j in candidates:
        basis = TensorBasis(a=margins[i].basis, b=margins[j].basis, orthogonal=True)
        given.append((i, j, basis.inner_penalty(), basis.null_dim))
    index = [m.levels for m in margins]
    n_bins = [m.basis.n_coef for m in margins]
    with bar.work(len(candidates), "pair"):
        for first in range(0, len(candidates), AT_A_TIME):
            some = slice(first, first + AT_A_TIME)
            _core.rank_pairs(index, n_bins, values, given[some], NET_DF, out[some], n_threads)
            bar.step(min(first + AT_A_TIME, len(candidates)))
    return np.nan_to_num(np.maximum(out[:, :-1], 0.0))


# --- which pairs ----------------------------------------------------------------------------------


def check_interactions(interactions: Any) -> int | str | Pairs | None:
    """A number, "auto" or pairs of names."""
    if interactions is None or (isinstance(interactions, str) and interactions == "auto"):
        return interactions
    if is_whole(interactions):
        if interactions < 0:
            raise ValueError(f"interactions must be 0 or more, got {interactions!r}")
        return int(interactions)
    said = f"interactions: expected a number, 'auto' or pairs of columns, got {interactions!r}"
    if isinstance(interactions, str) or not isinstance(interactions, Sequence):
        raise TypeError(said)
    for pair in interactions:
        names = isinstance(pair, list | tuple) and all(isinstance(name, str) for name in pair)
        if not names or len(pair) != 2:
            raise TypeError(f"{said[: said.index(', got')]} such as ('age', 'job'), got {pair!r}")
    return [(a, b) for a, b in interactions]


def check_pairs(wanted: int | str | Pairs | None, table: Table, apart: Sequence[str] = ()) -> None:
    """Pairs that people named must be of columns that may have terms; `apart` may not."""
    for a, b in wanted if isinstance(wanted, list) else []:
        for name in (a, b):
            if name not in table:
                table[name]  # raises, and says what the table has
            if name in apart:
                raise ValueError(f"interactions: column {name!r} is no feature and gets no term")
        if a == b:
            raise ValueError(f"interactions: {(a, b)!r} needs two different columns")


def pair_learners(pairs: Pairs, beside: Sequence[Plan]) -> list[Learner]:
    """The learners of pairs that have no term yet."""
    there = {frozenset(plan.columns) for plan in beside if len(plan.columns) == 2}
    names = {plan.name for plan in beside}
    out: list[Learner] = []
    for a, b in pairs:
        if frozenset((a, b)) not in there:
            there.add(frozenset((a, b)))
            name = None if f"{a}:{b}" not in names else f"({a}):({b})"
            out.append(Tensor(a, b, orthogonal=True, name=name))
    return out


def how_many(wanted: int | str, ranking: Ranking) -> int:
    """How many of the first pairs get a term: those that gain anything, as many as are wanted;
    "auto": as long as not more than MAX_FALSE of them would be there by noise, a few per column."""
    if wanted != "auto":
        return min(int(np.sum(ranking.share > ROUNDING)), int(wanted))
    fine = np.flatnonzero(ranking.by_noise <= MAX_FALSE * np.arange(1, len(ranking) + 1))
    found = int(fine[-1]) + 1 if len(fine) else 0
    return min(found, PER_COLUMN * ranking.n_columns, MAX_AUTO)
