"""Wald tests, cb.wald_tests: p-values of the effects of a polished model, on request only.

The tests take the chosen terms as given. Does not know how the posterior is made (see
fitting/polish/posterior.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from cwboost.explain.bands import posterior_effects
from cwboost.explain.effects import total_effect
from cwboost.explain.sizes import support
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model, check_model
from cwboost.model.path_checks import check_not_edited
from cwboost.model.records import Polish
from cwboost.model.term import Term

ROUND_UP = 0.05  # an effective df of 3.06 or more has rank 4
RESOLVED = 1e-10  # directions with a smaller share of the largest variance are not tested


class WaldTests(ResultTable):
    """The result of `cb.wald_tests`: a table with a row per column or pair, and a warning."""

    note: ClassVar[str] = (
        "Wald tests given the chosen terms. The p-values ignore that boosting selected these\n"
        "terms on the same rows, so those of selected noise columns are too small."
    )

    def __repr__(self) -> str:
        return f"{self.note}\n{super().__repr__()}"


def wald_tests(model: Model) -> WaldTests:
    """Test for every column of a polished model whether its effect is zero.

    The p-values ignore that boosting selected the terms. They are valid for terms that were chosen
    before y was seen, and too small for columns that boosting selected among many. They do not
    appear in summaries or reports. To select columns with error control use `cb.stability`; to see
    how uncertain an effect is use `Model.band`.

    The statistic is f' V^- f (Wood, 2013): f is the effect at the training support, V its posterior
    covariance, and V^- a pseudo-inverse whose rank is about the effective df of the column. It is
    compared with a chi-square distribution, or with an F distribution if the dispersion was
    estimated. The tests are of the refit, also if its weight is below 1.

    Parameters
    ----------
    model : Model
        A polished model with one score per row.

    Returns
    -------
    WaldTests
        Columns "column", "effective df", "rank", "statistic" and "p-value".

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> table = {"a": rng.normal(size=500), "b": rng.normal(size=500)}
    >>> y = table["a"] + rng.normal(size=500)
    >>> tests = cb.wald_tests(cb.fit(table, y, polish=True))
    >>> list(tests["column"]), (tests["p-value"] < 0.001).tolist()
    (['a', 'b'], [True, False])
    """
    check_model(model, "wald_tests")
    check_not_edited(model, "wald_tests")
    polish = model.polish
    if polish is None or not polish.factors:
        if model.polished:
            raise ValueError(
                "wald_tests: the model has several scores per row, whose joint covariance is not "
                "known; to select columns use cb.stability"
            )
        reason = "" if polish is None or not polish.reason else f" ({polish.reason})"
        raise ValueError(
            f"wald_tests: the model was not polished{reason}; call cb.polish, or fit with polish="
        )
    found: dict[str, list[Any]] = {name: [] for name in ("edf", "rank", "statistic", "p")}
    remaining = _residual_df(model, polish)
    for terms in _groups(model, polish.factors):
        edf = sum(polish.edf[term.name] for term in terms)
        rank, statistic = _statistic(model, polish, terms, edf)
        found["edf"].append(edf)
        found["rank"].append(rank)
        found["statistic"].append(statistic)
        found["p"].append(_p_value(statistic, rank, remaining))
    return WaldTests(
        {
            "column": np.array(list(polish.factors), dtype=object),
            "effective df": np.array(found["edf"]),
            "rank": np.array(found["rank"]),
            "statistic": np.array(found["statistic"]),
            "p-value": np.array(found["p"]),
        }
    )


def _groups(model: Model, factors: Mapping[str, Mapping[str, Any]]) -> list[list[Term]]:
    return [[model.terms[name] for name in of_terms] for of_terms in factors.values()]


def _residual_df(model: Model, polish: Polish) -> float | None:
    """Return the df of the estimated dispersion, or None if the loss fixes the dispersion."""
    if model.loss.dispersion_of(2.0) == 1.0:
        return None
    spreads = [facts.spread for facts in model.columns.values() if facts.spread is not None]
    rows = max((spread.rows for spread in spreads), default=np.inf)
    return float(max(rows - sum(polish.edf.values()) - 1.0, 1.0))


def _statistic(model: Model, polish: Polish, terms: list[Term], edf: float) -> tuple[int, float]:
    """Return the rank of the pseudo-inverse, and the statistic."""
    grid, shares = support(model, terms)
    root = np.sqrt(shares)[:, None]
    effect = total_effect(model, terms, grid)
    if polish.differences:  # from the weighted mean to the refit
        effect = effect + (1.0 - polish.weight) * _difference(model, polish, terms, grid)
    spread = root * posterior_effects(model, terms, grid)
    vectors, sizes, _ = np.linalg.svd(spread, full_matrices=False)
    resolved = int(np.count_nonzero(sizes**2 > RESOLVED * sizes.max(initial=0.0) ** 2))
    rank = min(max(1, int(np.ceil(edf - ROUND_UP))), resolved)
    along = (vectors[:, :rank].T @ (root * effect))[:, 0] / sizes[:rank]
    return rank, float(along @ along)


def _difference(model: Model, polish: Polish, terms: list[Term], grid: Any) -> Floats:
    other = [replace(t, beta=polish.differences[t.name]) for t in terms]
    return total_effect(model, other, grid)


def _p_value(statistic: float, rank: int, residual_df: float | None) -> float:
    if rank == 0:  # the refit has no effect
        return 1.0
    if residual_df is None:
        return float(chi2.sf(statistic, rank))
    return float(f_distribution.sf(statistic / rank, rank, residual_df))
