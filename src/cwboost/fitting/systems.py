"""The normal equations of every term on one part of the rows, with its smoothing.

Small systems are set up by the core. `_solve` does the same with NumPy and LAPACK: it is the
reference for the core, and takes large and diagonal systems and those that need a closer look.
Pairs without main effects have their own file (`pair_systems`). Does not know about losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost._utils.threads import MIN_SORT_ROWS, map_in_threads
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Basis, BasisRows
from cwboost.terms.plan import Plan

from .pair_systems import PairTask, solve_pairs
from .shared_bins import SharedBins
from .smoothing import (
    SmoothingTarget,
    Spectrum,
    System,
    factorize,
    find_smoothing,
    one_blas_thread,
    spectrum,
    weighted_gram,
)

MAX_CORE_COEF = 130  # LAPACK solves larger systems


class SystemTask(NamedTuple):
    """A small system for the core, which takes the fields in this order."""

    rows: BasisRows
    weights: Floats  # of the bins
    penalty: Floats  # (d, d)
    target: SmoothingTarget
    gram: Floats  # (d, d), and the next two: written by the core
    factor: Floats  # (d, d)
    mean: Floats  # (d,)


def basis_rows(
    plans: Sequence[Plan],
    bins: SharedBins,
    weights: Sequence[Floats],
    room: ArrayPool,
    n_threads: int = 1,
) -> tuple[list[Plan], list[BasisRows]]:
    """Return the rows of every basis over the bins of its set, given the weights of the bins.

    Bins whose value the basis cannot evaluate take its mean row over the training rows. If a basis
    needs it, the mean is found first, and the plan returned has it.
    """

    def rows_of(term: tuple[Plan, int]) -> tuple[Plan, BasisRows]:
        plan, number = term
        values, basis = bins.sets[number].values, plan.basis
        if not basis.needs_mean(values):
            return plan, basis.rows(values, room)
        basis = basis.with_mean(values, weights[number])
        return plan.with_basis(basis), basis.all_rows(values, room)

    terms = list(zip(plans, bins.of_term, strict=True))
    most = max((s.n_bins for s in bins.sets), default=0)
    found = map_in_threads(rows_of, terms, n_threads if most >= MIN_SORT_ROWS else 1)
    return [plan for plan, _ in found], [rows for _, rows in found]


def with_means(
    plans: Sequence[Plan], systems: Sequence[System], replace_known: bool = False
) -> list[Plan]:
    """Return the plans whose bases know their mean row over the rows of the systems.

    With `replace_known` also those that know the mean over other training rows.
    """
    return [
        plan.with_basis(replace(plan.basis, mean=system.mean))
        if replace_known or plan.basis.mean is None
        else plan
        for plan, system in zip(plans, systems, strict=True)
    ]


def make_systems(
    plans: Sequence[Plan],
    rows: Sequence[BasisRows],
    weights: Sequence[Floats],
    known_smoothing: Sequence[float | None],
    n_threads: int = 1,
) -> list[System]:
    """Return the normal equations of all terms, given the bin weights of each term on one part.

    Where the known smoothing is None, the learner decides it by smoothing or df.
    """
    targets = [
        smoothing_target(plan, known) for plan, known in zip(plans, known_smoothing, strict=True)
    ]
    systems: list[System | None] = [None] * len(plans)
    of_size: dict[int, list[tuple[int, Floats]]] = {}  # terms for the core, and their penalties
    pairs: list[int] = []  # terms without main effects
    for k, plan in enumerate(plans):
        if plan.basis.is_interaction:
            pairs.append(k)
            continue
        penalty = _penalty(plan.basis, rows[k], weights[k])
        if penalty.ndim == 2 and 1 < len(penalty) <= MAX_CORE_COEF:
            of_size.setdefault(len(penalty), []).append((k, penalty))
    for d, terms in of_size.items():
        grams, factors = np.empty((2, len(terms), d, d))
        means, numbers = np.empty((len(terms), d)), np.empty((len(terms), 4))
        tasks = [
            SystemTask(rows[k], weights[k], penalty, targets[k], gram, factor, mean)
            for (k, penalty), gram, factor, mean in zip(terms, grams, factors, means, strict=True)
        ]
        _core.solve_systems(tasks, numbers, n_threads)
        for (k, _), task, found in zip(terms, tasks, numbers.tolist(), strict=True):
            smoothing, df, net_df, solved = found
            if solved:
                system = System(task.gram, task.factor, task.mean, smoothing, df, net_df)
                systems[k] = _orthogonal(plans[k], system)
    pair_tasks = [PairTask(plans[k].basis, rows[k], weights[k], targets[k]) for k in pairs]
    for k, pair_system in zip(pairs, solve_pairs(pair_tasks, n_threads), strict=True):
        if pair_system is None:
            raise _too_few_df(plans[k])
        systems[k] = pair_system
    rest = [k for k, system in enumerate(systems) if system is None]
    if rest:
        with one_blas_thread():  # the systems are small: BLAS threads would only wait
            for k in rest:
                systems[k] = _solve(plans[k], rows[k], weights[k], targets[k])
    return [system for system in systems if system is not None]


def _penalty(basis: Basis, rows: BasisRows, w: Floats) -> Floats:
    """Return the penalty of a basis, given its rows over bins of the given weights."""
    if not basis.penalty_needs_rows:
        return basis.penalty()
    weighted = rows.value * np.repeat(w, np.diff(rows.begin))
    return basis.penalty_for(np.bincount(rows.column, weighted, basis.n_coef) / w.sum())


def smoothing_target(plan: Plan, known: float | None) -> SmoothingTarget:
    """Return what decides the smoothing of a term.

    The known smoothing, the learner's smoothing or df, or the default net df, in this order.
    """
    learner, free = plan.learner, plan.basis.null_dim
    trace_h, removed = learner.df_kind == "df1", learner.removed_df
    target = SmoothingTarget(np.nan, 0.0, False, trace_h, free, plan.basis.ridge)
    smoothing = learner.smoothing if known is None else known
    if smoothing is not None:
        return target._replace(smoothing=smoothing)
    if learner.target_df is not None:
        return target._replace(df=learner.target_df + removed)
    net_df = plan.net_df or 0.0
    if plan.basis.is_interaction:  # its penalty may leave more than that free
        net_df = max(net_df, free + 1.0)
    return target._replace(df=net_df + removed, net=not removed)


def _solve(plan: Plan, rows: BasisRows, w: Floats, target: SmoothingTarget) -> System:
    """Return the system of one term, with NumPy and LAPACK."""
    total, basis = float(w.sum()), plan.basis
    penalty = _penalty(basis, rows, w)
    weighted = rows.value * np.repeat(w, np.diff(rows.begin))
    mean = np.bincount(rows.column, weighted, basis.n_coef) / total
    if penalty.ndim == 1:
        squares = np.bincount(rows.column, weighted * rows.value, basis.n_coef)
        gram = np.asarray(squares, dtype=np.float64)
    else:
        gram = weighted_gram(rows, weighted, basis.n_coef)
    # The spectrum is for weights that sum to one, hence also lambda, which is scaled back.
    spec = spectrum(gram / total, penalty, basis.null_dim, mean, target.ridge)
    smoothing = target.smoothing
    if np.isnan(smoothing):
        smoothing = total * _smoothing(plan, spec, target)
    df, net_df = (f(smoothing / total, target.kind) for f in (spec.df, spec.net_df))
    factor = factorize(gram, penalty, smoothing, spec, target.ridge * total)
    return _orthogonal(plan, System(gram, factor, mean, smoothing, df, net_df))


def _smoothing(plan: Plan, spec: Spectrum, target: SmoothingTarget) -> float:
    """Return the smoothing that has the target df."""
    found = find_smoothing(spec, target.df, target.kind, target.net)
    if not np.isnan(found):
        return found
    if plan.learner.target_df is not None:
        raise _too_few_df(plan, spec.fixed_df(target.kind))
    # The penalty leaves more free than the default (differences of a high order, columns for
    # missing cells): 1 df above what it leaves. Net df do not count the constant.
    above = target.null_dim + (0.0 if target.net else 1.0)
    return find_smoothing(spec, above, target.kind, target.net)


def _too_few_df(plan: Plan, fixed: float = 0.0) -> ValueError:
    learner, free = plan.learner, plan.basis.null_dim - plan.learner.removed_df + fixed
    return ValueError(
        f"{learner.shown}: df = {learner.target_df:g} is too small: the penalty leaves {free:g} "
        f"degrees of freedom free whatever the smoothing; use df above {free:g}"
    )


def _orthogonal(plan: Plan, system: System) -> System:
    """Return the system, kept orthogonal to the functions that the basis removes."""
    removed = plan.basis.removed()
    if removed is None:
        return system
    df = system.df - plan.learner.removed_df
    onto = system.gram @ removed.T
    weigher = np.ascontiguousarray(np.linalg.lstsq(removed @ onto, onto.T, rcond=None)[0])
    return system._replace(df=df, net_df=df, removed=removed, weigher=weigher)


def core_learner(number: int, rows: BasisRows, system: System) -> _core.Learner:
    """Return the learner of the core: basis rows over set `number`, and its system."""
    gram, factor, removed, weigher = system.gram, system.factor, system.removed, system.weigher
    return _core.Learner(number, *rows, gram, factor, removed, weigher, system.n_b)
