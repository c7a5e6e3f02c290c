"""Repeat the iterations of a fit on all rows, once validation rows have chosen their number."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cwboost.model.model import Model
from cwboost.model.records import NOT_ASKED, Polish

from .input_data import Split
from .options import FitOptions
from .prepared import PreparedRows
from .problem import FitProblem


def repeat_on_all_rows(problem: FitProblem[Any], model: Model, options: FitOptions) -> Model:
    """Return the model of as many iterations on all rows, with the path of the given model.

    It returns the model itself if there are no validation rows, if they are not in this process, or
    if the optimizer needs them.
    """
    prepared, optimizer = problem.prepared, model.optimizer
    if not (isinstance(prepared, PreparedRows) and prepared.has_validation):
        return model
    if optimizer.needs_validation or optimizer.ends_on_all_rows or model.best_iteration == 0:
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
        start_vector=fitted.start_vector,
        shares=fitted.shares,
        sizes=fitted.sizes,
        polish=replace(
            record, boosted_means=MappingProxyType(means), repeated=model.best_iteration
        ),
    )
