"""The last stage of a fit, on all rows: repeated iterations, and the ranges of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cwboost.binning.summary import Sample
from cwboost.model.model import Model
from cwboost.model.records import NOT_ASKED, ColumnFacts, Polish

from .input_data import Split
from .options import FitOptions
from .prepared import PreparedRows
from .problem import FitProblem
from .term_plans import summarize_columns


def repeat_on_all_rows(problem: FitProblem[Any], model: Model, options: FitOptions) -> Model:
    """Return the model of as many iterations on all rows, with the path of the given model.

    It returns the model itself if there are no validation rows, if they are not in this process, or
    if the optimizer needs them.
    """
    prepared, optimizer = problem.prepared, model.optimizer
    if not (isinstance(prepared, PreparedRows) and prepared.has_validation):
        return model
    if optimizer.needs_validation or optimizer.ends_on_all_rows:
        return model
    w = prepared.split.all
    again = FitProblem.pose(
        prepared, Split(w, None, w), optimizer,
        start=options.start, scale=options.scale, n_threads=prepared.n_threads,
    )  # fmt: skip
    fitted = again.fit(model.best_iteration, search=options.search)
    means = {name: np.asarray(term.plan.basis.mean) for name, term in model.terms.items()}
    # Terms keep the smoothing of their path.
    terms = {
        name: replace(term, plan=fitted.terms[name].plan, beta=fitted.terms[name].beta)
        for name, term in model.terms.items()
    }
    record = model.polish or Polish.skipped(NOT_ASKED, model.start_vector)
    return replace(
        model,
        terms=MappingProxyType(terms),
        columns=with_ranges_of_all_rows(problem, model),
        start_vector=fitted.start_vector,
        shares=fitted.shares,
        sizes=fitted.sizes,
        polish=replace(
            record, boosted_means=MappingProxyType(means), repeated=model.best_iteration
        ),
    )


def with_ranges_of_all_rows(problem: FitProblem[Any], model: Model) -> Mapping[str, ColumnFacts]:
    """Return what a model knows about its columns, with the ranges of all rows.

    `predict` warns about rows beyond them. On a cluster, ranges stay those of the training rows.
    """
    prepared = problem.prepared
    if not isinstance(prepared, PreparedRows):
        return model.columns
    wider = [name for name in model.columns if prepared.summaries[name].beyond]
    if not wider:
        return model.columns
    table, every_row = prepared.data.table, Sample.of(len(prepared.data.y))
    found = summarize_columns(wider, table, every_row, prepared.n_threads)
    facts = {
        name: replace(model.columns[name], low=summary.low, high=summary.high)
        for name, summary in found.items()
    }
    return MappingProxyType({**model.columns, **facts})
