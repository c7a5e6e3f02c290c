"""The fit to rows on shards: the same steps and the same model as for rows in this process.

Does not know how shards are reached (see dask_shards.py) or how rows are boosted (see fitting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cwboost.binning.rules import Bins
from cwboost.fitting.callbacks import RunContext
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.interactions import Pairs, check_pairs
from cwboost.fitting.options import FitOptions
from cwboost.fitting.preparation import has_formula
from cwboost.fitting.stages import run_stages
from cwboost.fitting.starting_point import StartingPoint
from cwboost.fitting.term_plans import check_learners, plan_terms, summarize_columns
from cwboost.frames.table import Table
from cwboost.losses import Loss
from cwboost.model.model import Model
from cwboost.terms.formula import parse, target_of, tokenize
from cwboost.terms.styles import make_learners

from .columns import ShardedTable
from .data import ShardedTarget, check_names, read_sharded
from .prepared import ShardedPreparedRows
from .shards import Shards


class TermOptions(NamedTuple):
    """The user's choice of loss, bins and terms."""

    loss: Loss
    bins: Bins
    learners: Any = None
    style: str = "smooth"  # of columns without learners
    exclude: Sequence[str] = ()
    interactions: int | str | Pairs | None = None
    class_weight: Any = None


def fit_shards(
    shards: Shards,
    given: FitInput,
    terms: TermOptions,
    options: FitOptions,
    seed: int,
    context: RunContext,
) -> Model:
    """Return the model of the rows of all shards."""
    loss, rule, learners, style, exclude, interactions, class_weight = terms
    if interactions is not None and not isinstance(interactions, list):
        raise ValueError(
            f"interactions: {interactions!r}: pairs cannot be ranked for rows on a cluster; name "
            "them, for instance [('a', 'b')] from the ranking of a fit to a sample of the rows"
        )
    formula = None
    names = check_names(sorted(p for found in shards.ask("names") for p in found))
    given = replace(given, rule=rule)
    if has_formula(given.y, ShardedTable(names, 0, shards), learners):
        formula = given.y
        given = replace(given, y=target_of(formula, ShardedTable(names, 0, shards)))
    data = read_sharded(shards, given, names, loss, seed, class_weight)
    options.check(data.loss, data.source.validation != "none")
    table, apart = data.table, given.columns
    target = [name for name in (given.column("y"),) if name is not None]
    table.describe(_needed_columns(table, formula, learners, [*apart, *exclude]))
    if formula is None:
        chosen = make_learners(table, learners, [*target, *exclude], style, apart=apart)
    else:
        chosen = parse(formula, table, exclude=apart)[1]
    chosen = check_learners(chosen, table)
    check_pairs(interactions, table, given.columns)
    rows = ShardedTarget(shards, data.n_rows, private=data.sample.min_rows is not None)
    begin = StartingPoint.of_rows(data.loss, rows, options.start, options.scale)
    used = dict.fromkeys(name for learner in chosen for name in learner.columns)
    seen = summarize_columns(used, table, data.sample, 1)
    plans = plan_terms(list(chosen), table, data.sample, seen)
    prepared = ShardedPreparedRows.make(data, plans, seen)
    return run_stages(prepared, begin, options, interactions, context)


def _needed_columns(
    table: Table, formula: str | None, learners: Any, exclude: Sequence[str]
) -> list[str]:
    """Return the columns that terms will probably use, so that one round trip describes them.

    Other columns are described when they are used.
    """
    named: set[str] | None = None
    if formula is not None:
        words = {token.text for token in tokenize(formula)}
        named = None if "." in words else words
    elif isinstance(learners, list | tuple) and not any(x is Ellipsis for x in learners):
        named = {name for x in learners for name in getattr(x, "columns", ())}
    names = (name for name in table.names if name not in exclude)
    return [name for name in names if named is None or name in named]
