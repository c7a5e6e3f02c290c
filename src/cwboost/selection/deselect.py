"""Deselection, cb.deselect: remove the terms that reduced the risk very little and fit the others
again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from cwboost._utils.checks import is_number
from cwboost.explain.importance import importance
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.options import check_counts
from cwboost.fitting.polish.polish import polish_like
from cwboost.fitting.repeat import check_again, pose_again
from cwboost.model.model import Model
from cwboost.model.path import StopReason
from cwboost.model.path_checks import check_has_path
from cwboost.progress import as_progress

from .grouping import By, names_by

LONGER = 10  # the second fit may run this multiple of the first, if early stopping ends it


def deselect(
    model: Model,
    table: Any,
    y: Any = None,
    *,
    threshold: float = 0.01,
    by: By = "term",
    method: Literal["share", "cumulative"] = "share",
    n_iter: int | None = None,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    validation: Any = None,
    n_threads: int | None = None,
    progress: Any = None,
) -> Model:
    """Remove the terms of a model that reduced the risk very little, and fit the others again.

    Boosting chooses many terms late and only a few times. Terms whose share of the risk reduction
    (`model.importance()`) is below the threshold are removed. The others are fitted as before: same
    bins, smoothing, start, optimizer, validation rows and number of iterations, or early stopping
    (Strömer, Staerk, Klein, Weinhold, Titze and Mayr 2022).

    Parameters
    ----------
    model : Model
    table, y, weights, offset, exposure, validation
        The training data, passed again. The model remembers names of columns and a validation
        fraction.
    threshold : float
        A share of the risk reduction, from 0 to below 1.
    by : "term" or "column"
        Whether the terms of a column are removed or kept together.
    method : "share" or "cumulative"
        "share" removes every term below the threshold. "cumulative" removes the smallest ones as
        long as their sum is below the threshold, which removes fewer.
    n_iter : int, optional
        The number of iterations, by default the model's, or up to ten times as many if early
        stopping ended it.
    n_threads : int, optional
    progress : None, bool or Progress

    Returns
    -------
    Model
        Its `dropped` and `summary` list the removed terms.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 5))
    >>> y = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=500)
    >>> model = cb.fit(X, y)
    >>> small = cb.deselect(model, X, y)
    >>> list(small.terms), small.dropped
    (['x0', 'x1'], ('x2', 'x3', 'x4'))
    """
    bar = as_progress(progress)
    _check(model, threshold, method, n_iter, n_threads)
    fit_input = FitInput.of(
        table, y, weights, offset=offset, exposure=exposure, validation=validation
    )
    check_again(model, fit_input, "deselect", n_threads)
    rows = {"y": y, "weights": weights, "offset": offset, "exposure": exposure}
    # A model that stores its importances needs no rows for them.
    known = {"table": None} if model.shares is not None else {"table": table, **rows}
    kept = _terms_to_keep(model, importance(model, "integral", known), threshold, by, method)
    problem = pose_again(model, fit_input, "deselect", n_threads, kept)
    if n_iter is None:
        ended = model.stopped == StopReason.no_better_validation_risk
        n_iter = model.n_iter * (LONGER if ended else 1)
    smaller = problem.fit(n_iter, patience=model.settings.patience, bar=bar)
    smaller = polish_like(problem, smaller, model)
    dropped = [name for name, term in model.terms.items() if term.chosen and name not in kept]
    return replace(smaller, dropped=(*model.dropped, *dropped))


def _check(model: Any, threshold: Any, method: Any, n_iter: Any, n_threads: Any) -> None:
    if not isinstance(model, Model):
        raise TypeError(
            f"deselect: expected a Model (estimator.model_ for an estimator), got {model!r}"
        )
    check_has_path(model, "deselect")
    if not is_number(threshold) or not 0 <= threshold < 1:
        raise ValueError(f"threshold: expected a share from 0 to below 1, got {threshold!r}")
    if method not in ("share", "cumulative"):
        raise ValueError(f"method: expected 'share' or 'cumulative', got {method!r}")
    check_counts(0 if n_iter is None else n_iter, None, None, n_threads)


def _terms_to_keep(
    model: Model, reductions: dict[str, float], threshold: float, by: str, method: str
) -> list[str]:
    """Return the names of the terms to keep."""
    group = dict(zip(model.terms, names_by(model.terms.values(), by), strict=True))
    total = sum(reductions.values())
    shares = dict.fromkeys((group[name] for name in reductions), 0.0)
    for name, value in reductions.items():
        shares[group[name]] += value / total if total > 0 else 0.0
    least_first = sorted(shares, key=shares.__getitem__)
    values = np.array([shares[name] for name in least_first])
    small = (values if method == "share" else values.cumsum()) < threshold
    if not len(values):
        raise ValueError("deselect: the model has chosen no term, so there is none to remove")
    if small.all():
        raise ValueError(
            f"threshold = {threshold:g} leaves no {by}: the largest has {values[-1]:.3g}; lower "
            "the threshold"
        )
    keep = {name for name, gone in zip(least_first, small, strict=True) if not gone}
    return [name for name in model.terms if name in reductions and group[name] in keep]
