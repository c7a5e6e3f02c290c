"""The bin indices that the terms of a fit share, and the weights of the bins.

Does not know how one axis is binned (see axis_binning.py), or about losses and systems.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cwboost._utils.memory import ArrayPool
from cwboost._utils.threads import MIN_PASS_ROWS, MIN_SORT_ROWS, map_in_threads
from cwboost.binning.bin_cache import BinCache
from cwboost.binning.index_sets import IndexSet, pair
from cwboost.binning.moments import MomentSet, is_never_moments
from cwboost.binning.rules import Bins
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.frames.weights import RowWeights, as_numbers
from cwboost.terms.bases import Basis, BasisRows
from cwboost.terms.encoders import level_number
from cwboost.terms.plan import Plan

from .axis_binning import TermAxis, check_exact_cells, choose_binning

FINE_SHARE = 0.02  # bins with at most this share of the rows show how the rows spread


@dataclass(frozen=True, eq=False)
class SharedBins:
    """Bin indices of all rows. Terms that see a column in the same way share one."""

    sets: list[IndexSet | MomentSet]
    of_term: list[int]  # the number of each term's set


class SharedAxes(NamedTuple):
    """The axes of a term, one or two for a pair, and the bases of all terms that have them."""

    axes: tuple[TermAxis, ...]
    bases: list[Basis]


def shared_axes(plans: Sequence[Plan], default: Bins) -> tuple[list[SharedAxes], list[int]]:
    """Return the distinct axes of the terms, and the number of each term's axes."""
    numbers: dict[tuple[TermAxis, ...], int] = {}
    of_term = [numbers.setdefault(_axes(plan, default), len(numbers)) for plan in plans]
    shared = [SharedAxes(axes, []) for axes in numbers]
    for plan, number in zip(plans, of_term, strict=True):
        shared[number].bases.append(plan.basis)
    return shared, of_term


def _axes(plan: Plan, default: Bins) -> tuple[TermAxis, ...]:
    """Return what the bins of a term depend on; terms with the same axes share their bins."""
    columns, rules = plan.columns, plan.learner.axis_rules(default)
    axes = zip(columns, plan.encoders, rules, strict=True)
    return tuple([TermAxis(c, e, None if e.is_coded else r, len(columns) > 1) for c, e, r in axes])


def make_shared_bins(
    plans: Sequence[Plan],
    table: Table,
    sample: Sample,
    default: Bins,
    summaries: Mapping[str, ColumnSummary],
    room: ArrayPool,
    n_threads: int = 1,
) -> SharedBins:
    """Bin all rows of a table for some terms, by rules that see the sample only."""
    distinct, of_term = shared_axes(plans, default)
    of_pairs: dict[TermAxis, IndexSet] = {}  # many pairs share a column
    cache = None
    if table.bin_folder is not None and sample.min_rows is None:
        cache = BinCache(table.bin_folder, sample, table.n_rows)

    def bin_axis(axis: TermAxis, bases: Sequence[Basis]) -> IndexSet | MomentSet:
        column, summary = table[axis.column], summaries[axis.column]
        return choose_binning(axis, column, sample, summary, bases).bin_column(column, room)

    def bin_cached(axis: TermAxis, bases: Sequence[Basis]) -> IndexSet | MomentSet:
        found = None if cache is None else cache.find(axis.key)
        if found is not None:
            return found
        bins = bin_axis(axis, bases)
        if cache is not None and isinstance(bins, IndexSet) and is_never_moments(bins):
            return cache.store(axis.key, bins)
        return bins

    def make(shared: SharedAxes) -> IndexSet | MomentSet:
        axes, bases = shared
        if len(axes) == 1:
            return bin_cached(axes[0], bases)
        for axis in axes:
            if axis not in of_pairs:
                bins = bin_axis(axis, [])
                assert isinstance(bins, IndexSet)
                of_pairs[axis] = bins
        joint = pair(*(of_pairs[axis] for axis in axes))
        check_exact_cells(axes, joint.n_bins)
        return joint

    rules = [axis.rule for axes, _ in distinct for axis in axes if axis.rule is not None]
    sorting = any(rule.n in ("auto", "exact") or rule.points == "quantile" for rule in rules)
    least = MIN_SORT_ROWS if sorting else MIN_PASS_ROWS
    threads = table.limit_threads(n_threads) if table.n_rows >= least else 1
    return SharedBins(map_in_threads(make, distinct, threads), of_term)


def bin_weights(
    sets: Sequence[IndexSet | MomentSet],
    weights: RowWeights | None,
    room: ArrayPool,
    n_threads: int = 1,
) -> list[Floats]:
    """Return the weights of the bins of every set. Weights None: all rows have weight 1."""
    weights = as_numbers(weights)
    threads = n_threads if sets and sets[0].n_rows >= MIN_PASS_ROWS else 1
    return map_in_threads(lambda s: s.weigh(weights, room), sets, threads)


def fine_points(
    plan: Plan, bins: IndexSet | MomentSet, weights: Floats, summary: ColumnSummary, default: Bins
) -> Floats | None:
    """Return the values of a term's bins if they show how the rows spread over its column.

    The values are numbers or, for text, codes of levels. Return None if the bins are too coarse,
    are not of single values, or belong to two columns.
    """
    encoder = plan.encoders[0]
    if len(plan.columns) > 1 or not bins.has_values:
        return None
    if not encoder.is_coded:
        fine = plan.learner.bin_rule(default).n in ("auto", "exact")
        return bins.values if fine or weights.max() <= FINE_SHARE * weights.sum() else None
    if not encoder.levels:
        return None
    if summary.kind == "labels":
        return bins.values
    numbers = [level_number(level) for level in encoder.levels]
    points: Floats = np.array([*numbers, np.nan])
    return points[np.where(bins.values >= 0, bins.values, -1).astype(np.intp)]


def core_rows(
    plans: Sequence[Plan], bins: SharedBins, rows: Sequence[BasisRows]
) -> list[BasisRows]:
    """Return the basis rows of every term over what the core takes for the bins of its set."""
    return [
        bins.sets[number].core_rows(own, plan.basis.n_coef)
        for plan, number, own in zip(plans, bins.of_term, rows, strict=True)
    ]
