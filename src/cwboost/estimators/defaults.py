"""The defaults of the estimators: validation rows, number of iterations and optimizer.

docs/defaults.md gives the reasons for all numbers.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from cwboost._utils.text import quote
from cwboost._utils.user_warnings import warn_user
from cwboost.fitting.fit import fit
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, n_informative
from cwboost.model.model import Model
from cwboost.model.path import StopReason
from cwboost.optimizers import Hybrid, Optimizer, Plain, as_optimizer
from cwboost.selection.cv import cv
from cwboost.stopping import as_rules, each_rule
from cwboost.terms.learners import Learner

HOLD_OUT_FROM = 1000  # rows; with fewer all rows are needed for the fit
RARE_UP_TO = 10_000  # rows; up to here, only informative rows count (see n_informative)
HOLD_OUT = 0.2  # share of the rows, or of the groups
N_ITER_WITH_VALIDATION = 10_000  # validation rows stop the fit at the best iteration
N_ITER_WITHOUT_VALIDATION = 200  # where cross-validation cannot choose the number
FOLDS_FROM = 50  # rows, from which on cross-validation chooses the number if no rows are held out
N_ITER_OF_FEW_ROWS = 30  # with fewer rows than that
# The folds begin with N_ITER_WITHOUT_VALIDATION iterations and go on to MOST_EXTENSION times that.
FOLDS, MOST_EXTENSION = 5, 16
TRIAL_ITER = 1000  # of fits that only compare two sets of terms
NEGLIGIBLE = 1e-4  # share of the reduction of the risk that is not worth a warning
RATE = 0.5  # of optimizer="auto" and "hybrid" with validation rows
MOMENTUM = 0.037
# With many rows, iterations are slow and polish is exact: boosting then only chooses the terms.
MANY_ROWS, TOLERANCE = 50_000, 0.1
PAIRS_TOLERANCE = 1e-4  # of the last stage of a fit with pairs


def choose_hold_out(validation: Any, n: int, *, enough: bool) -> Any:
    """Return which of n rows are held out, given the estimator's parameter `validation`.

    "auto" holds out rows if there are enough of them.

    The result is a share, a mask for "last", or None if no rows are held out.
    """
    if not isinstance(validation, str | int | float | None):
        raise TypeError(
            "validation: expected 'auto', 'last', a fraction or None; pass your own split to "
            "fit(..., validation=)"
        )
    if validation not in ("auto", None) and n < 2:
        raise ValueError(f"validation: with n_samples = {n} no row can be held out")
    if not isinstance(validation, str):
        return validation
    if validation == "last":
        return np.arange(n) >= np.floor((1.0 - HOLD_OUT) * n)
    if validation != "auto":
        raise ValueError(
            f"validation: expected 'auto', 'last', a fraction or None, got {quote(validation)}; "
            "pass your own split to fit(..., validation=)"
        )
    return HOLD_OUT if enough else None


def enough_to_hold_out(y: NDArray[Any], weights: Floats | None, loss: Loss) -> bool:
    """Return whether there are enough rows to hold some out."""
    if weights is not None:
        y = y[weights != 0.0]
    n = n_informative(y, loss.target) if len(y) < RARE_UP_TO else len(y)
    return n >= HOLD_OUT_FROM


def n_present(n: int, weights: Floats | None) -> int:
    """Return how many of n rows have a weight that is not zero."""
    return n if weights is None else int(np.count_nonzero(weights))


def find_n_iter(**options: Any) -> int | None:
    """Return the number of iterations for a small table, which cross-validation chooses.

    The arguments are those of `cwboost.cv`. None for a large table, or if folds cannot be fitted.
    """
    y, weights = options["y"], options["weights"]
    if n_present(len(y), weights) < FOLDS_FROM:
        return N_ITER_OF_FEW_ROWS
    if enough_to_hold_out(y, weights, options["loss"]):
        return None
    extend = MOST_EXTENSION * N_ITER_WITHOUT_VALIDATION
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folds; the fit of all rows gives its own
            options |= {"n_iter": N_ITER_WITHOUT_VALIDATION, "folds": FOLDS, "extend": extend}
            found = cv(**options, progress=False)
    except ValueError:
        # For instance a fold without one of the classes. What is wrong with the rows themselves is
        # found by the fit that follows.
        return None
    return max(1, found.best_iteration)


def spikes_that_help(
    problem: dict[str, Any], spikes: list[Learner], validation: Any
) -> list[Learner]:
    """Return the spikes if they lower the risk of the validation rows, else an empty list.

    `problem` has the arguments of `cwboost.fit`. It is fitted twice, to main effects only.
    """

    def best(learners: list[Learner]) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit itself gives its own
            model = fit(
                **{**problem, "learners": learners}, validation=validation, n_iter=TRIAL_ITER,
                progress=False,
            )  # fmt: skip
        return float(np.min(model.path.validation_risk))

    helps = best([*problem["learners"], *spikes]) < best(problem["learners"])
    return spikes if helps else []


def named_optimizer(name: str, *, has_validation: bool) -> Optimizer:
    """Return the optimizer that a name means, such as "auto".

    Without validation rows, an optimizer that needs them is replaced.
    """
    if name.lower() == "auto":
        return Plain(RATE) if has_validation else Plain()
    if name.lower() == "hybrid" and has_validation:
        return Hybrid(RATE, MOMENTUM, then="training")
    optimizer = as_optimizer(name)
    return optimizer if has_validation else optimizer.without_validation()


def choose_tolerance(n: int, polish: Any, loss: Loss, *, pairs: bool) -> float:
    """Return the `tolerance` of `cwboost.fit` for n rows: polish goes the rest of the way."""
    if not polish or polish == "repeat" or not loss.has_curvature:
        return 0.0
    if pairs:
        return PAIRS_TOLERANCE
    return TOLERANCE if n >= MANY_ROWS else 0.0


def warn_of_no_validation(patience: Any, metric: Any) -> None:
    """Warn if a metric or rules of early stopping were asked for, but no rows are held out."""
    ignored = ["metric"] * (metric is not None) + ["patience"] * isinstance(
        as_rules(patience), tuple
    )
    if ignored:
        warn_user(
            f"{' and '.join(ignored)}: no rows are held out, so there is no early stopping; set "
            "validation=0.2 to hold out a fifth"
        )


def warn_of_cap(model: Model) -> None:
    """Warn if the fit was still improving on the validation rows when the largest
    number of iterations ended it."""
    rules = each_rule(model.settings.patience)
    if model.stopped != StopReason.n_iter_reached or not rules:
        return
    if model.polished:  # the refit goes the rest of the way
        return
    best = model.best_iteration
    risk = model.path.watched
    late = risk[model.n_iter - max(1, model.n_iter // 10)] - risk[best]  # of the last tenth
    if late < NEGLIGIBLE * (risk[0] - risk[best]):
        return
    longest = max(rule.n_iterations for rule in rules)
    if model.n_iter - best < longest and best > model.path.switched_after:
        what, better = "validation risk", "falling"
        if model.settings.metrics:
            what, better = f"validation {model.settings.metrics[0].name}", "improving"
        warn_user(
            f"the {what} was still {better} after {model.n_iter} iterations; pass a larger "
            "n_iter, or an optimizer with a larger rate",
            ConvergenceWarning,
        )
