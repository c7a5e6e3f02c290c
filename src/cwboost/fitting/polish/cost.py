"""What polish would cost, and whether a model can be polished at all.

The estimate counts operations instead of seconds, so that a fit gives the same model everywhere.
"""

from __future__ import annotations

from typing import Any

from cwboost._core import ALL_PART
from cwboost.fitting.problem import FitProblem
from cwboost.model.model import Model

from .polished_rows import MAX_LEADING

# Nanoseconds on a machine of 2024. Of polish: per row and pair of terms, per pair of terms, per row
# and term, per column or pair, per multiplication of a factorisation (about half are needed,
# because strongly penalised coordinates are left out).
CROSS, BLOCK, PASS, GROUP, CUBE = 1.5, 1e5, 1.5, 3e5, 0.05
STEPS, GRAMS, LINEAR_GRAMS = 15, 3, 2
# Of boosting: per row and column; per row, per term and per coefficient in an iteration. Choosing
# pairs means several fits.
READ, RESIDUAL, TERM, COEF, FITS_OF_PAIRS = 180.0, 20.0, 5e3, 60.0, 3
SWEEPS = 1.3  # cost of sweeps over several scores, per score, relative to a model of one score
WHOLE_FIT = 4  # iterations of a whole fit, relative to those until a tolerance stops it
MIN_ROWS = 50  # with fewer, REML has too little to go by
ALLOWED = 1e9  # nanoseconds that polish may always take


def impossible(problem: FitProblem[Any], model: Model) -> str | None:
    """Return why a model cannot be polished, or None if it can be."""
    loss = model.loss
    if not loss.has_curvature:
        return f"the {loss.name} loss does not have a second derivative"
    if model.n_outputs > 1 and loss.core_name is None:
        return f"the {loss.name} loss is written in Python and has several scores per row"
    if problem.prepared.n_observations(ALL_PART) < MIN_ROWS:
        return f"there are fewer than {MIN_ROWS} rows"
    if not any(term.chosen for term in model.terms.values()):
        return "no term was chosen"
    if problem.prepared.data.source.min_rows_per_bin is not None:
        return "min_rows_per_bin= forbids sums over the joint bins of two columns"
    return None


def too_slow(problem: FitProblem[Any], model: Model, *, unfinished: bool = False) -> str | None:
    """Return how long polish would take if that is too long, else None.

    Without polish, an `unfinished` fit would go on; one with pairs is close to its end.
    """
    cost, allowed = polish_cost(problem, model), boosted_cost(problem, model)
    goes_on = unfinished and not _has_pairs(model)
    return slower(cost, allowed * WHOLE_FIT if goes_on else allowed)


def slower(cost: float, boosted: float) -> str | None:
    """Return how long polish would take if that is longer than boosting and a second, else None."""
    if cost > max(boosted, ALLOWED):
        return f"it would take about {cost / 1e9:.2g} s, longer than boosting"
    return None


def polish_cost(problem: FitProblem[Any], model: Model) -> float:
    """Return the estimated nanoseconds of polish."""
    chosen = [term for term in model.terms.values() if term.chosen]
    n, t = problem.rows.n_rows(), len(chosen)
    groups: dict[tuple[str, ...], int] = {}
    for term in chosen:
        groups[term.columns] = groups.get(term.columns, 0) + len(term.beta)
    dense = min(sum(groups.values()), MAX_LEADING) ** 3 + sum(d**3 for d in groups.values())
    grams = LINEAR_GRAMS if model.loss.linear else GRAMS
    step = PASS * n * t + GROUP * len(groups) + CUBE * dense
    several = SWEEPS * model.n_outputs if model.n_outputs > 1 else 1.0
    return several * (grams * (CROSS * n + BLOCK) * t * (t + 1) / 2 + STEPS * step)


def boosted_cost(problem: FitProblem[Any], model: Model) -> float:
    """Return the estimated nanoseconds of the boosted fit."""
    n, terms = problem.rows.n_rows(), model.terms.values()
    fits = FITS_OF_PAIRS if _has_pairs(model) else 1
    search = TERM * len(terms) + COEF * sum(len(term.beta) for term in terms)
    read = READ * n * len(problem.prepared.columns)
    return read + fits * max(model.n_iter, 1) * (RESIDUAL * n + search) * model.n_outputs


def _has_pairs(model: Model) -> bool:
    return any(len(term.columns) > 1 for term in model.terms.values())
