"""The stages of a fit: main effects, main effects and pairs, without needless pairs, polish."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from cwboost import _core
from cwboost._utils.memory import garbage_collection_paused
from cwboost.model.model import Model
from cwboost.model.path import EARLY_REASONS
from cwboost.model.records import Ranking
from cwboost.progress import Progress

from .all_rows import repeat_on_all_rows
from .callbacks import Interrupted, RunContext
from .interactions import Pairs, count_candidates, pair_learners, rank, usable_rule
from .options import FitOptions, PolishWeight
from .pair_choice import choose_pairs
from .prepared import PreparedRows, PreparedTerms
from .problem import FitProblem
from .starting_point import StartingPoint
from .term_plans import plan_terms, summarize_columns

P = TypeVar("P", bound=PreparedTerms)


def last_stage(
    model: Model, problem: FitProblem[Any], options: FitOptions, context: RunContext
) -> Model:
    """Return the model fitted to all rows, polished or by a repetition, if this is wanted."""
    if not options.polish:
        return model
    wanted = options.polish
    weight = wanted.weight if isinstance(wanted, PolishWeight) else None
    try:
        from .polish.polish import polish_fit

        if wanted != "repeat":
            unfinished = options.tolerance > 0.0
            polished = polish_fit(
                problem, model, required=wanted is True, weight=weight, unfinished=unfinished
            )
            if polished.polished:
                return polished
            if unfinished and model.stopped in EARLY_REASONS:
                # With pairs n_iter counts from the end of the main effects.
                n_iter = options.n_iter + (0 if model.interactions is None else model.n_iter)
                options = options._replace(tolerance=0.0, n_iter=n_iter)
                model = problem.boost(model, problem.history(model), options, context)
            model = replace(model, polish=polished.polish)
        return repeat_on_all_rows(problem, model, options)
    except Interrupted:
        raise  # in boosting that went on
    except KeyboardInterrupt:
        raise Interrupted(model, in_polish=True) from None


def boost_stages(
    prepared: PreparedTerms,
    begin: StartingPoint,
    options: FitOptions,
    interactions: int | str | Pairs | None,
    context: RunContext,
) -> tuple[Model, FitProblem[Any]]:
    """Boost prepared rows; return the model and the problem whose terms it has.

    The stages share the time limit. The tolerance is for the last stage only.
    """
    with garbage_collection_paused():
        problem = FitProblem.make(prepared, options.optimizer, begin)
        model = problem.template(options.stopping)
    if interactions is None:
        return problem.boost(model, _core.Path(), options, context), problem
    validates = prepared.has_validation and not options.optimizer.ends_on_all_rows
    interactions = usable_rule(interactions, validates)
    limited = options.within(1 / n_stages(interactions))._replace(tolerance=0.0)
    main = problem.boost(model, _core.Path(), limited, context)
    return _add_pairs(problem, main, interactions, options, context)


def _add_pairs(
    main_problem: FitProblem[Any],
    main: Model,
    interactions: int | str | Pairs,
    options: FitOptions,
    context: RunContext,
) -> tuple[Model, FitProblem[Any]]:
    """Return the model with pairs and its problem, given those of the main effects."""
    prepared, bar = main_problem.prepared, context.progress
    try:
        with_all, ranking = with_pairs(prepared, main, interactions, bar)
    except KeyboardInterrupt:
        raise Interrupted(main) from None
    if len(with_all.plans) == len(main.terms):
        return replace(main, interactions=ranking), main_problem
    chooses = interactions == "auto" and ranking is not None
    limited = options.within(2 / n_stages(interactions))
    if chooses:  # a rough fit would choose other pairs
        limited = limited._replace(tolerance=0.0)
    model, problem = _continue(main_problem, with_all, main, ranking, limited, context)
    if not chooses:
        return model, problem
    assert ranking is not None
    try:
        kept = choose_pairs(problem, main, model)
    except KeyboardInterrupt:
        raise Interrupted(model) from None
    ranking = ranking.with_pairs(kept)
    if 0 < len(kept) < len(model.terms) - len(main.terms):
        with_kept, _ = with_pairs(prepared, main, kept, bar)
        model, problem = _continue(main_problem, with_kept, main, ranking, options, context)
    if kept and lowest_risk(model) < lowest_risk(main):
        return model, problem
    return without_pairs(main, ranking), main_problem


def n_stages(interactions: int | str | Pairs | None) -> int:
    """Return the number of stages of a fit, each of at most n_iter iterations."""
    if interactions is None:
        return 1
    return 3 if interactions == "auto" else 2


def _continue(
    problem: FitProblem[Any],
    prepared: PreparedTerms,
    main: Model,
    ranking: Ranking | None,
    options: FitOptions,
    context: RunContext,
) -> tuple[Model, FitProblem[Any]]:
    """Continue from the best iterate of the main effects with more terms."""
    with garbage_collection_paused():
        problem = FitProblem.make(prepared, problem.optimizer, problem.begin)
        model = replace(problem.template(options.stopping), interactions=ranking)
    model, history = problem.continue_from(model, main)
    more = options._replace(n_iter=options.n_iter + model.n_iter)
    return problem.boost(model, history, more, context), problem


def without_pairs(main: Model, ranking: Ranking) -> Model:
    """Return the model of main effects with a ranking of which no pair was chosen."""
    pairs = [term.columns for term in main.terms.values() if len(term.columns) == 2]
    return replace(main, interactions=ranking.with_pairs(pairs))


def lowest_risk(model: Model) -> float:
    """Return the watched value of a model: its validation risk, or the metric that decides."""
    return float(model.path.watched[model.best_iteration])


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
        ranking = ranking.with_pairs(interactions)
    new = [name for name in dict.fromkeys(chain(*interactions)) if name not in summaries]
    summaries = {**summarize_columns(new, data.table, data.sample, threads), **summaries}
    learners = pair_learners(interactions, prepared.plans, summaries, data.sample.size)
    plans = plan_terms(learners, data.table, data.sample, summaries, threads, prepared.plans)
    return prepared.with_more(plans, summaries) if plans else prepared, ranking
