"""The stages of a fit: main effects, and then, if pairs were asked for, main effects and pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from cwboost import _core
from cwboost._utils.memory import garbage_collection_paused
from cwboost.model.model import Model
from cwboost.model.records import Ranking
from cwboost.progress import Progress

from .callbacks import Interrupted, RunContext
from .interactions import Pairs, count_chosen, pair_learners, rank
from .options import FitOptions
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
    """Fit prepared rows. With interactions, main effects get half of the time limit."""
    problem, model = _boost_stages(prepared, begin, options, interactions, context)
    return polish_stage(problem, model, options.polish, context)


def polish_stage(
    problem: FitProblem[Any], model: Model, polish: str | bool | None, context: RunContext
) -> Model:
    """Return the polished model, or the boosted one if `polish` is not wanted."""
    if not polish:
        return model
    from .polish.polish import polish_fit

    try:
        return polish_fit(problem, model, context.progress, required=polish is True)
    except KeyboardInterrupt:
        raise Interrupted(model) from None


def _boost_stages(
    prepared: PreparedTerms,
    begin: StartingPoint,
    options: FitOptions,
    interactions: int | str | Pairs | None,
    context: RunContext,
) -> tuple[FitProblem[Any], Model]:
    """Return the boosted model, and the problem of its last stage."""
    history = _core.Path()
    with garbage_collection_paused():
        problem = FitProblem.make(prepared, options.optimizer, begin)
        model = problem.template(options.patience)
    if interactions is None:
        return problem, problem.boost(model, history, options, context)
    main = problem.boost(model, history, options.sharing_time(2), context)
    with garbage_collection_paused():
        try:
            prepared, ranking = with_pairs(prepared, main, interactions, context.progress)
        except KeyboardInterrupt:
            raise Interrupted(main) from None
        if len(prepared.plans) == len(main.terms):
            return problem, replace(main, interactions=ranking)
        problem = FitProblem.make(prepared, options.optimizer, begin)
        model = replace(problem.template(options.patience), interactions=ranking)
    model, history = problem.continue_from(model, main)
    more = options._replace(n_iter=options.n_iter + model.n_iter)
    return problem, problem.boost(model, history, more, context)


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
        ranking = replace(ranking, chosen=count_chosen(interactions, ranking))
        interactions = ranking.pairs[: ranking.chosen]
    learners = pair_learners(interactions, prepared.plans)
    if not learners:
        return prepared, ranking
    names = dict.fromkeys(name for learner in learners for name in learner.columns)
    new = [name for name in names if name not in summaries]
    summaries = {**summarize_columns(new, data.table, data.sample, threads), **summaries}
    plans = plan_terms(learners, data.table, data.sample, summaries, threads, prepared.plans)
    return prepared.with_more(plans, summaries), ranking
