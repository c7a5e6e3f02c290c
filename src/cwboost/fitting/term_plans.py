"""From learners and training rows to the terms of a model (`Plan`).

Leaves out learners of constant columns, adds effects of missing cells, names the terms, and gives
learners that state no df their default. What each kind of learner makes of a column is in
`cwboost.terms.learners`. Does not know about bins or systems (see `shared_bins` and `systems`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from math import inf
from typing import Any

from cwboost._utils.checks import has_items
from cwboost._utils.text import list_names, quote
from cwboost._utils.threads import MIN_PASS_ROWS, MIN_SORT_ROWS, map_in_threads
from cwboost._utils.user_warnings import warn_user
from cwboost.binning.summary import ColumnSummary, Sample, summarize
from cwboost.frames.cells import INEXACT_FROM
from cwboost.frames.table import Table
from cwboost.terms.learners import Learner, Missing
from cwboost.terms.plan import Plan
from cwboost.terms.training import TrainingTable

from .basis_checks import check_plan

MAX_SIZE = 1e307  # of numbers, so that their differences and continuations are finite
NET_DF = 4.0  # default of all learners: a Spline with df 5
COMPONENT_NET_DF = 1.0  # default if some learners are components: as flexible as a straight line


def check_learners(learners: Any, table: Table) -> list[Learner]:
    """Return the learners as a list; raise if one is not a learner, or its column is unknown."""
    out: list[Learner] = []
    for learner in learners if has_items(learners) else [learners]:
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learners: expected learners such as cb.Spline('age'), got {quote(learner)} of "
                f"type {type(learner).__name__}"
            )
        for name in learner.columns:
            table.check_name(name)
        out.append(learner)
    return out


def summarize_columns(
    names: Iterable[str], table: Table, sample: Sample, n_threads: int
) -> dict[str, ColumnSummary]:
    """Return what the sample has in each column; raise if numbers are infinite or too large."""
    names = list(names)

    def summary(name: str) -> ColumnSummary:
        column = table.unchecked(name)
        found = summarize(column, sample)
        table.check(column, found.infinite)
        _check_size(name, found)
        return found

    threads = table.limit_threads(n_threads) if table.n_rows >= MIN_PASS_ROWS else 1
    return dict(zip(names, map_in_threads(summary, names, threads), strict=True))


def _check_size(name: str, summary: ColumnSummary) -> None:
    low, high = summary.low, summary.high
    if max(-low, high) > MAX_SIZE:
        raise ValueError(
            f"column {quote(name)}: numbers from {low:g} to {high:g} are too large for 64-bit "
            "floats; rescale the column or leave it out"
        )


def plan_terms(
    learners: list[Learner],
    table: Table,
    sample: Sample,
    summaries: Mapping[str, ColumnSummary],
    n_threads: int = 1,
    others: Sequence[Plan] = (),
) -> list[Plan]:
    """Return the terms that the training rows make of the learners.

    `others` are the other terms of the same model.
    """
    training = TrainingTable(table, sample, summaries)
    learners = _add_missing(_drop_constant(learners, training), summaries)
    of_model = [*learners, *(plan.learner for plan in others)]
    default = COMPONENT_NET_DF if any(x.is_component for x in of_model) else NET_DF

    def plans_of(named: tuple[str, Learner]) -> list[Plan]:
        name, learner = named
        return learner.plans(name, training, None if learner.states_smoothing else default)

    named = list(zip(_names(learners), learners, strict=True))
    sorting = sample.n_rows >= MIN_SORT_ROWS and any(x.sorts_column for x in learners)
    threads = table.limit_threads(n_threads) if sorting else 1
    plans = [plan for found in map_in_threads(plans_of, named, threads) for plan in found]
    for plan in plans:
        check_plan(plan, summaries)
    counts = Counter(plan.name for plan in (*plans, *others))
    repeated = [name for name, n in counts.items() if n > 1]
    if repeated:
        raise ValueError(
            f"two terms are named {quote(repeated[0])}; give learners of one kind on one column "
            "different names with name="
        )
    return plans


def _drop_constant(learners: list[Learner], training: TrainingTable) -> list[Learner]:
    """Return the learners without the learners of constant columns, and warn about them.

    A column that is constant except for missing cells keeps a learner that shows the latter.
    """
    kept: list[Learner] = []
    dropped: list[str] = []
    for learner in learners:
        learner.check_columns(training)
        summaries = [training.summaries[name] for name in learner.columns]
        constant = [learner.is_constant(summary) for summary in summaries]
        if any(constant):
            names = compress(learner.columns, constant)
            dropped += [name for name in names if name not in dropped]
        elif all(summary.varies for summary in summaries):
            kept.append(learner)
        elif (other := learner.when_constant()) is learner or other not in kept:
            kept.append(other)
    if dropped:
        huge = [name for name in dropped if INEXACT_FROM <= abs(training.summaries[name].low) < inf]
        hint = "; integers beyond 2**53 may differ: turn them into text" if huge else ""
        warn_user(
            "constant in the training rows and therefore left out: " + list_names(dropped) + hint,
        )
    return kept


def _add_missing(learners: list[Learner], summaries: Mapping[str, ColumnSummary]) -> list[Learner]:
    """Return the learners, with Missing(column) added where no learner shows missing cells."""
    single = [x for x in learners if len(x.columns) == 1]
    if all(x.shows_missing or not summaries[x.columns[0]].missing for x in single):
        return learners
    shown = {x.columns[0] for x in single if x.shows_missing}
    out: list[Learner] = []
    for learner in learners:
        out.append(learner)
        column = learner.columns[0]
        hidden = len(learner.columns) == 1 and column not in shown and summaries[column].missing
        if hidden:
            out.append(Missing(column))
            shown.add(column)
    return out


def _names(learners: list[Learner]) -> list[str]:
    """Return the name of each learner's term, given or default."""
    counts = Counter(x.columns[0] for x in learners if len(x.columns) == 1)
    return [
        x.default_name(shared=counts[x.columns[0]] > 1) if x.name is None else x.name
        for x in learners
    ]
