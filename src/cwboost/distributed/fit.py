"""The fit to rows on shards: the same steps and the same model as for rows in this process.

Does not know how shards are reached (see dask_shards.py) or how rows are boosted (see fitting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from cwboost._utils.text import quote
from cwboost.fitting.callbacks import RunContext
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.interactions import Pairs, check_pairs
from cwboost.fitting.options import FitOptions
from cwboost.fitting.preparation import has_formula
from cwboost.fitting.stages import boost_stages, last_stage
from cwboost.fitting.starting_point import StartingPoint
from cwboost.fitting.term_plans import check_learners, plan_terms, summarize_columns
from cwboost.frames.table import Table
from cwboost.losses import Loss
from cwboost.metrics.metric import check_row_mean
from cwboost.model.model import Model
from cwboost.terms.formula import parse, target_of, tokenize
from cwboost.terms.learners import Learner
from cwboost.terms.styles import make_learners

from .data import ShardedTarget, check_names, read_sharded
from .prepared import ShardedPreparedRows
from .sharded_table import ShardedTable
from .shards import Shards


class TermOptions(NamedTuple):
    """The user's choice of loss and terms."""

    loss: Loss
    learners: Any = None
    style: str = "smooth"  # of columns without learners
    exclude: Sequence[str] = ()
    interactions: Pairs | None = None
    class_weight: Any = None


def check_named_pairs(interactions: int | str | Pairs | None) -> Pairs | None:
    """Return the option interactions=; raise if it asks for a ranking of pairs."""
    if interactions is None or isinstance(interactions, list):
        return interactions
    raise ValueError(
        f"interactions: {quote(interactions)}: pairs cannot be ranked for rows on a cluster; name "
        "them, for instance [('a', 'b')] from the ranking of a fit to a sample of the rows"
    )


def fit_shards(
    shards: Shards,
    fit_input: FitInput,
    terms: TermOptions,
    options: FitOptions,
    seed: int,
    context: RunContext,
) -> Model:
    """Return the model of the rows of all shards."""
    names = check_names(sorted(p for found in shards.ask("partition_facts") for p in found))
    formula, no_rows = None, ShardedTable(names, 0, shards)
    if has_formula(fit_input.y, no_rows, terms.learners):
        formula = fit_input.y
        fit_input = replace(fit_input, y=target_of(formula, no_rows))
    data = read_sharded(shards, fit_input, names, terms.loss, seed, terms.class_weight)
    options = options.resolved(data.loss, data.classes, data.source.validation != "none")
    for metric in options.stopping.metrics:
        check_row_mean(metric)
    table, sample = data.table, data.sample
    learners = _make_learners(table, fit_input, formula, terms)
    check_pairs(terms.interactions, table, fit_input.columns)
    rows = ShardedTarget(shards, data.n_rows, private=sample.min_rows is not None)
    begin = StartingPoint.of_rows(data.loss, rows, options.start, options.scale)
    used = dict.fromkeys(name for learner in learners for name in learner.columns)
    summaries = summarize_columns(used, table, sample, 1)
    plans = plan_terms(learners, table, sample, summaries)
    prepared = ShardedPreparedRows.make(data, plans, summaries)
    model, problem = boost_stages(prepared, begin, options, terms.interactions, context)
    return last_stage(model, problem, options, context)


def _make_learners(
    table: ShardedTable, fit_input: FitInput, formula: str | None, terms: TermOptions
) -> list[Learner]:
    """Return the learners that the user named, by a formula or else, or that the style makes."""
    apart, exclude = fit_input.columns, terms.exclude
    table.describe(_needed_columns(table, formula, terms.learners, [*apart, *exclude]))
    if formula is not None:
        return check_learners(parse(formula, table, exclude=apart)[1], table)
    target = [name for name in (fit_input.column("y"),) if name is not None]
    chosen = make_learners(table, terms.learners, [*target, *exclude], terms.style, apart=apart)
    return check_learners(chosen, table)


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
