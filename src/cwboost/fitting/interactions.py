"""Interactions: ranks pairs of columns by what they gain on the residuals of a model.

The gain of a pair is the gain of the learner `Tensor(a, b, orthogonal=True)` on the residuals: by
how much a full step would reduce their weighted sum of squares. For the ranking a column has at
most 8 steps or 12 levels. The gains are compared with gains on residuals with random signs, which
are noise with the same variance in every row. Does not know about boosting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_whole
from cwboost._utils.cores import check_threads, threads_for
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.binning.summary import ColumnSummary
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.frames.weights import as_part
from cwboost.model.model import Model, check_model
from cwboost.model.records import Ranking
from cwboost.model.scoring import add_effects
from cwboost.progress import Progress, as_progress
from cwboost.terms.bases import Basis, LevelBasis, TensorBasis
from cwboost.terms.learners import Category, Learner, Step, Tensor, pair_bins
from cwboost.terms.plan import Plan
from cwboost.terms.training import TrainingColumn

from .input_data import FitData, FitInput, read_data
from .options import as_seed
from .repeat import input_again
from .term_plans import NET_DF, summarize_columns

MAX_STEPS = 8  # steps of a numeric column in the ranking, which may be coarser than terms
MAX_LEVELS = 12  # levels of a text column in the ranking; all rare levels together are the last
MAX_CELLS = 1024  # pairs with larger tables are not ranked
FLIPS = 10  # draws of random signs, which show what noise gains
MAX_FALSE = 0.7  # of a rule: the largest share of candidates that noise may have put there
ROUNDING = 1e-12  # gains below this share of the residual sum of squares are rounding errors
PER_COLUMN = 3  # of a rule: the most candidates per column on average,
MAX_CANDIDATES = 400  # and the most candidates in all
MAX_KEPT = 1000  # pairs that a Ranking keeps
AT_A_TIME = 500  # pairs ranked between two checks for Ctrl-C

RULES = ("auto", "all")  # the values of interactions= that let the fit choose the number of pairs

Pairs = list[tuple[str, str]]


class Margin(NamedTuple):
    """A column as the ranking sees it."""

    levels: NDArray[np.uint8]  # (n,) the level of every row
    basis: Basis
    n_levels: int | None  # levels that a term of the column would have; None if it is numeric


@explain_unknown
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
    """Rank all pairs of a model's columns by what they gain on its residuals.

    Parameters
    ----------
    model : Model
        Usually a model of main effects. If it has pairs, the ranking is of what they leave.
    table : data frame, array or mapping
        The training data, passed again, or other rows.
    y : array or name of a column
        The default is the column that the model was fitted to.
    weights, offset, exposure : array or name of a column, optional
        As in the fit.
    random_state : int
        Seed of the random signs, which show what noise gains.
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
    check_model(model, "rank_interactions")
    check_threads(n_threads)
    seed = as_seed(random_state)
    fit_input = FitInput.of(table, y, weights, offset=offset, exposure=exposure)
    fit_input = input_again(model.settings, fit_input, "rank_interactions")
    data = read_data(fit_input, model.loss, 0, model.classes)
    threads = threads_for(n_threads, len(data.y))
    names = list(dict.fromkeys(name for term in model.terms.values() for name in term.columns))
    summaries = summarize_columns(names, data.table, data.sample, threads)
    return rank(model, data, names, summaries, seed, threads, as_progress(progress))


def rank(
    model: Model,
    data: FitData,
    names: Sequence[str],
    summaries: Mapping[str, ColumnSummary],
    seed: int,
    n_threads: int,
    bar: Progress,
) -> Ranking:
    """Rank the pairs of some columns, without columns that are constant."""
    margins = {n: _margin(n, data, summaries[n]) for n in names if summaries[n].varies}
    columns, n_rows = list(margins), data.sample.size
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
    # For every pair of the ranking, how many pairs gain as much on residuals with random signs.
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
        left_out=tuple(columns[k] for k in _without_pair(candidates, len(columns))),
    )


def _without_pair(candidates: Sequence[tuple[int, int]], n_columns: int) -> list[int]:
    """Return the columns that no candidate has; none if there is only one column."""
    paired = {k for pair in candidates for k in pair}
    return [k for k in range(n_columns) if k not in paired] if n_columns > 1 else []


def _n_cells(a: Margin, b: Margin, n_rows: int) -> int:
    """Return the number of cells that the term of a pair would have."""
    sizes = (
        pair_bins(n_rows, y.n_levels) if x.n_levels is None else x.n_levels
        for x, y in ((a, b), (b, a))
    )
    return math.prod(sizes)


def residuals(model: Model, data: FitData, n_threads: int) -> Floats:
    """Return (n, q) the negative gradient of the loss at the model's scores."""
    q = model.n_outputs
    score = data.offset.copy()
    add_effects(model, data.table, score, n_threads)
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


def _margin(name: str, data: FitData, summary: ColumnSummary) -> Margin:
    column = TrainingColumn(name, data.table, data.sample, summary)
    if column.is_numeric:
        steps = Step(name, bins=min(pair_bins(data.sample.size), MAX_STEPS))
        encoder = steps.encoder(column)
        basis, n_levels = steps.basis(column, encoder), None
    else:
        levels = Category(name)
        encoder = levels.encoder(column)
        basis = levels.basis(column, encoder)
        n_levels = basis.n_coef
    bins = encoder.bin(column.column, summary)
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
    """Return (pairs, q (1 + FLIPS)) gains on the residuals and on residuals with random signs."""
    random, q = np.random.default_rng(seed), r.shape[1]
    values = np.empty((len(w), 1 + q * (1 + FLIPS)))
    values[:, 0] = w
    values[:, 1 : q + 1] = w[:, None] * r
    for k in range(q + 1, values.shape[1], q):
        sign = 2.0 * random.integers(0, 2, (len(w), 1)) - 1.0
        values[:, k : k + q] = sign * values[:, 1 : q + 1]
    out = np.empty((len(candidates), values.shape[1]))
    pairs = []
    for i, j in candidates:
        basis = TensorBasis(a=margins[i].basis, b=margins[j].basis, orthogonal=True)
        pairs.append((i, j, basis.inner_penalty(), basis.null_dim))
    index = [m.levels for m in margins]
    n_bins = [m.basis.n_coef for m in margins]
    with bar.work(len(candidates), "pair"):
        for first in range(0, len(candidates), AT_A_TIME):
            some = slice(first, first + AT_A_TIME)
            _core.rank_pairs(index, n_bins, values, pairs[some], NET_DF, out[some], n_threads)
            bar.step(min(first + AT_A_TIME, len(candidates)))
    return np.nan_to_num(np.maximum(out[:, :-1], 0.0))


# --- which pairs ----------------------------------------------------------------------------------


def check_interactions(interactions: Any) -> int | str | Pairs | None:
    """Return the option interactions=: a number, a rule or pairs of names; raise if it is wrong."""
    if interactions is None or (isinstance(interactions, str) and interactions in RULES):
        return interactions
    if is_whole(interactions):
        if interactions < 0:
            raise ValueError(f"interactions must be at least 0, got {quote(interactions)}")
        return int(interactions)
    expected = "interactions: expected 'auto', 'all', a number or pairs of columns"
    if isinstance(interactions, str) or not isinstance(interactions, Sequence):
        raise TypeError(f"{expected}, got {quote(interactions)}")
    for pair in interactions:
        names = isinstance(pair, list | tuple) and all(isinstance(name, str) for name in pair)
        if not names or len(pair) != 2:
            raise TypeError(f"{expected} such as ('age', 'job'), got {quote(pair)}")
    return [(a, b) for a, b in interactions]


def check_pairs(wanted: int | str | Pairs | None, table: Table, apart: Sequence[str] = ()) -> None:
    """Raise if the user named a pair with an unknown column, or with one that is not a feature.

    `apart` are the columns that are not features.
    """
    for a, b in wanted if isinstance(wanted, list) else []:
        for name in (a, b):
            table.check_name(name)
            if name in apart:
                raise ValueError(f"interactions: column {quote(name)} is not a feature")
        if a == b:
            raise ValueError(f"interactions: {quote((a, b))} needs two different columns")


def pair_learners(
    pairs: Pairs,
    others: Sequence[Plan],
    summaries: Mapping[str, ColumnSummary],
    n_rows: int,
) -> list[Learner]:
    """Return learners for the pairs that have no term yet.

    Many pairs have coarser cells, but columns with few values, such as hours, keep all of them.
    """
    have_term = {frozenset(plan.columns) for plan in others if len(plan.columns) == 2}
    names = {plan.name for plan in others}
    bins, most = pair_bins(n_rows, n_pairs=len(pairs)), pair_bins(n_rows)
    n_bins = {name: max(bins, n) for name, n in _numbers_of_steps(others).items() if n <= most}
    out: list[Learner] = []
    for a, b in pairs:
        if frozenset((a, b)) not in have_term:
            have_term.add(frozenset((a, b)))
            name = None if f"{a}:{b}" not in names else f"({a}):({b})"
            numeric = all(summaries[column].kind == "numbers" for column in (a, b))
            coarse = bins < most and numeric
            left, right = (
                Step(column, bins=n_bins.get(column, bins)) if coarse else column
                for column in (a, b)
            )
            out.append(Tensor(left, right, orthogonal=True, name=name))
    return out


def _numbers_of_steps(plans: Sequence[Plan]) -> dict[str, int]:
    """Return how many steps the main effects of columns have: one per value if there are few."""
    encoders = {plan.columns[0]: plan.encoders[0] for plan in plans if len(plan.columns) == 1}
    codes = {name: e.n_codes for name, e in encoders.items() if e.is_numeric}
    return {name: n for name, n in codes.items() if n is not None}


def usable_rule(interactions: int | str | Pairs, has_validation: bool) -> int | str | Pairs:
    """Return the option interactions=. "auto" needs validation rows; without them it is "all"."""
    return "all" if interactions == "auto" and not has_validation else interactions


def count_candidates(wanted: int | str, ranking: Ranking) -> int:
    """Return how many of the best pairs are fitted.

    A number `wanted` is an upper limit: pairs without a gain get no term. The rules take the most
    pairs such that noise accounts for at most a share MAX_FALSE of them, with upper limits per
    column and in all.
    """
    if wanted not in RULES:
        return min(int(np.sum(ranking.share > ROUNDING)), int(wanted))
    acceptable = np.flatnonzero(ranking.by_noise <= MAX_FALSE * np.arange(1, len(ranking) + 1))
    n_acceptable = int(acceptable[-1]) + 1 if len(acceptable) else 0
    return min(n_acceptable, PER_COLUMN * ranking.n_columns, MAX_CANDIDATES)
