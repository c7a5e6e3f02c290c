"""The stages of a fit: main effects, then main effects and pairs, then without needless pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from cwboost import _core
from cwboost._utils.memory import garbage_collection_paused
from cwboost.model.model import Model
from cwboost.model.records import Ranking
from cwboost.progress import Progress

from .callbacks import Interrupted, RunContext
from .interactions import Pairs, count_candidates, pair_learners, rank, usable_rule
from .options import FitOptions
from .pair_choice import choose_pairs
from .prepared import PreparedRows, PreparedTerms
from .problem import FitProblem
from .starting_point import StartingPoint
from .term_plans import plan_terms, summarize_columns

P = TypeVar("P", bound=PreparedTerms)


def run_stages(
    prepared: PreparedTerms,
    begin: StartingPoint,
    options: FitOptions,
    interactions: int | str | Pairs | None,
    context: RunContext,
) -> Model:
    """Fit prepared rows. The stages share the time limit."""
    with garbage_collection_paused():
        problem = FitProblem.make(prepared, options.optimizer, begin)
        model = problem.template(options.patience)
    if interactions is None:
        return problem.boost(model, _core.Path(), options, context)
    validates = prepared.has_validation and not options.optimizer.ends_on_all_rows
    interactions = usable_rule(interactions, validates)
    share = 1 / n_stages(interactions)
    main = problem.boost(model, _core.Path(), options.within(share), context)
    with garbage_collection_paused():
        try:
            prepared, ranking = with_pairs(prepared, main, interactions, context.progress)
        except KeyboardInterrupt:
            raise Interrupted(main) from None
        if len(prepared.plans) == len(main.terms):
            return replace(main, interactions=ranking)
        problem = FitProblem.make(prepared, options.optimizer, begin)
    model = _continue(problem, main, options.within(2 * share), context, ranking)
    if interactions != "auto":
        return model
    return _without_needless_pairs(problem, main, model, options, context)


def n_stages(interactions: int | str | Pairs | None) -> int:
    """Return the number of stages of a fit, each of at most n_iter iterations."""
    if interactions is None:
        return 1
    return 3 if interactions == "auto" else 2


def _continue(
    problem: FitProblem[P],
    main: Model,
    options: FitOptions,
    context: RunContext,
    ranking: Ranking | None,
) -> Model:
    """Return the model of main effects and pairs, from the best iterate of the main effects."""
    with garbage_collection_paused():
        model = replace(problem.template(options.patience), interactions=ranking)
    model, history = problem.continue_from(model, main)
    more = options._replace(n_iter=options.n_iter + model.n_iter)
    return problem.boost(model, history, more, context)


def _without_needless_pairs(
    problem: FitProblem[Any], main: Model, full: Model, options: FitOptions, context: RunContext
) -> Model:
    """Return the fit of the pairs that validation rows ask for, of a model with all candidates.

    If that fit does not lower the validation risk, return the main effects.
    """
    assert full.interactions is not None
    try:
        kept = choose_pairs(problem, main, full)
    except KeyboardInterrupt:
        raise Interrupted(full) from None
    n_main, model = len(main.terms), full
    if 0 < len(kept) < len(full.terms) - n_main:
        problem = problem.select([*range(n_main), *kept])
        ranking = full.interactions.with_terms(problem.plans)
        model = _continue(problem, main, options, context, ranking)
    if not kept or lowest_risk(model) >= lowest_risk(main):
        ranking = full.interactions.with_terms(problem.plans[:n_main])
        return replace(main, interactions=ranking)
    return model


def lowest_risk(model: Model) -> float:
    """Return the validation risk of a model."""
    return float(model.path.validation_risk[model.best_iteration])


def with_pairs(
    prepared: P, main: Model, interactions: int | str | Pairs, bar: Progress
) -> tuple[P, Ranking | None]:
    """Return the rows with pairs as further terms, and the ranking of all pairs.

    The pairs are the named ones (without a ranking), or the best on the residuals of a model of
    main effects.
    """
    data, summaries, threads = prepared.data, prepared.summaries, prepared.n_threads
    ranking = None
    if not isinstance(interactions, list):
        assert isinstance(prepared, PreparedRows)  # fits to shards take named pairs only
        rows, seed = prepared.data, data.source.seed
        ranking = rank(main, rows, prepared.columns, summaries, seed, threads, bar)
        ranking = replace(
            ranking,
            rule=interactions if isinstance(interactions, str) else "number",
            tried=count_candidates(interactions, ranking),
        )
        interactions = ranking.pairs[: ranking.tried]
    learners = pair_learners(interactions, prepared.plans)
    names = dict.fromkeys(name for learner in learners for name in learner.columns)
    new = [name for name in names if name not in summaries]
    summaries = {**summarize_columns(new, data.table, data.sample, threads), **summaries}
    plans = plan_terms(learners, data.table, data.sample, summaries, threads, prepared.plans)
    prepared = prepared.with_more(plans, summaries) if plans else prepared
    return prepared, None if ranking is None else ranking.with_terms(prepared.plans)
