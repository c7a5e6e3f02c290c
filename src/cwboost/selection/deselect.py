"""Deselection, cb.deselect: remove the terms that held-out rows do not need and fit the others
again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import check_one_of, is_number
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.options import check_counts
from cwboost.fitting.polish.polish import polish_like
from cwboost.fitting.repeat import check_again, pose_again
from cwboost.frames.columns import Floats
from cwboost.model.model import Model, check_model
from cwboost.model.path import EARLY_REASONS
from cwboost.model.path_checks import check_has_path
from cwboost.progress import Progress, as_progress

from .fold_refits import FoldRefits
from .grouping import By, check_by, names_by

LONGER = 10  # the second fit may run this multiple of the first, if early stopping ends it


@explain_unknown
def deselect(
    model: Model,
    table: Any,
    y: Any = None,
    *,
    threshold: float = 0.002,
    by: By = "term",
    method: Literal["cumulative", "share"] = "cumulative",
    folds: Any = 5,
    n_iter: int | None = None,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    validation: Any = None,
    n_threads: int | None = None,
    progress: Any = None,
) -> Model:
    """Remove the terms of a model that held-out rows do not need, and fit the others again.

    Boosting chooses many terms late and only a few times. The model is fitted to folds, and for
    every term the risk of the test rows is computed without its effect. The rise of this risk, plus
    its standard error over the folds, bounds the cost of the term's removal, because a new fit of
    the other terms makes up for a part of it. Terms whose costs are a negligible share of the risk
    reduction are removed. So a term that improves predictions stays, whatever its size and however
    its column correlates with others. The other terms are fitted as before: same bins, smoothing,
    start, optimizer, validation rows and number of iterations, or early stopping. Strömer, Staerk,
    Klein, Weinhold, Titze and Mayr (2022) remove terms by their share of the reduction of the
    training risk instead.

    Parameters
    ----------
    model : Model
    table, y, weights, offset, exposure, validation
        The training data, passed again. The model remembers names of columns and a validation
        fraction.
    threshold : float
        A share of the reduction of the held-out risk, from 0 to below 1.
    by : "term" or "column"
        Whether the terms of a column are removed or kept together.
    method : "cumulative" or "share"
        "cumulative" removes the terms of smallest cost as long as their costs sum to less than the
        threshold. "share" removes every term whose cost is below the threshold.
    folds : int or other description of folds
        As in `cb.cv`.
    n_iter : int, optional
        The number of iterations of the second fit, by default the model's, or up to ten times as
        many if early stopping ended it.
    n_threads : int, optional
    progress : None, bool or Progress

    Returns
    -------
    Model
        Its `dropped` and `summary` list the removed terms. Terms that the model had not chosen are
        left out as well.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=1000)
    >>> model = cb.fit(X, y)
    >>> small = cb.deselect(model, X, y)
    >>> list(small.terms), small.dropped
    (['x0', 'x1'], ('x2', 'x3', 'x4'))
    """
    bar = as_progress(progress)
    _check(model, threshold, method, n_iter, n_threads)
    check_by(by)
    fit_input = FitInput.of(
        table, y, weights, offset=offset, exposure=exposure, validation=validation
    )
    check_again(model, fit_input, "deselect", n_threads)
    groups = _groups(model, by)
    everything = replace(fit_input, validation=None)
    seed = model.settings.seed
    refits = FoldRefits.of(model, everything, "deselect", folds, seed, n_threads)
    costs = _costs(refits, list(groups.values()), n_threads, bar)
    gone = _removable(costs, threshold, method)
    if gone.all():
        raise ValueError(
            f"threshold = {threshold:g} leaves no {by}: the largest cost of a removal is "
            f"{costs.max():.3g} of the reduction of the held-out risk; lower the threshold"
        )
    kept = [name for names, out in zip(groups.values(), gone, strict=True) if not out
            for name in names]  # fmt: skip
    problem = pose_again(model, fit_input, "deselect", n_threads, kept)
    if n_iter is None:
        ended = model.stopped in EARLY_REASONS
        n_iter = model.n_iter * (LONGER if ended else 1)
    smaller = problem.fit(n_iter, stopping=EarlyStopping.again(model), bar=bar)
    smaller = polish_like(problem, smaller, model)
    dropped = [name for name, term in model.terms.items() if term.chosen and name not in kept]
    return replace(smaller, dropped=(*model.dropped, *dropped))


def _groups(model: Model, by: By) -> dict[str, list[str]]:
    """Return the chosen terms that are removed or kept together."""
    chosen = [term for term in model.terms.values() if term.chosen]
    if not chosen:
        raise ValueError("deselect: the model has chosen no term, so there is none to remove")
    out: dict[str, list[str]] = {}
    for term, name in zip(chosen, names_by(chosen, by), strict=True):
        out.setdefault(name, []).append(term.name)
    return out


def _costs(
    refits: FoldRefits, groups: Sequence[Sequence[str]], n_threads: int | None, bar: Progress
) -> Floats:
    """Return bounds of the rise of the held-out risk without each group of terms.

    They are shares of the reduction of the held-out risk by all terms together.
    """
    together = [name for names in groups for name in names]
    risks = refits.risks_without([*groups, together], n_threads, bar)
    rises = risks[1:] - risks[0]
    errors = rises.std(axis=1, ddof=1) / np.sqrt(rises.shape[1])
    fall = float(rises[-1].mean())
    if fall <= 0:
        raise ValueError(
            "deselect: the model does not predict held-out rows better than a constant, so no "
            "term is worth keeping"
        )
    return np.asarray((rises.mean(axis=1) + errors)[:-1] / fall)


def _removable(costs: Floats, threshold: float, method: str) -> NDArray[np.bool_]:
    if method == "share":
        return np.asarray(costs < threshold)
    order = np.argsort(costs, kind="stable")
    out = np.empty(len(costs), bool)
    out[order] = np.maximum(costs[order], 0.0).cumsum() < threshold
    return out


def _check(model: Any, threshold: Any, method: Any, n_iter: Any, n_threads: Any) -> None:
    check_model(model, "deselect")
    check_has_path(model, "deselect")
    if not is_number(threshold) or not 0 <= threshold < 1:
        raise ValueError(f"threshold: expected a share from 0 to below 1, got {quote(threshold)}")
    check_one_of("method", method, ("share", "cumulative"))
    check_counts(0 if n_iter is None else n_iter, None, n_threads)
