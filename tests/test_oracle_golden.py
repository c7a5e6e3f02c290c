"""Tests of the oracle against golden fits of reference implementations, one per convention.

Does not know the conventions of the references (see golden_cases) or cwboost. The other golden fits
run with `pytest -m slow` (seconds).
"""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from golden_cases import TOLERANCE, Case, case_names, load

HANDFUL = [
    "cat_compboost-acwb-bin_gaussian_ridge",
    "cat_compboost-acwb_binomial_binary",
    "cat_mboost_binomial_ridge",
    "n1000_compboost-acwb_huber2",
    "n1000_compboost-cwb-bin_quantile0.3333",
    "n1000_compboost-cwb_absolute",
    "n1000_mboost_gaussian_weights",
]


def relative(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, relative to the largest expected value."""
    return float(np.max(np.abs(got - expected)) / max(np.max(np.abs(expected)), 1e-12))


def differences(case: Case) -> dict[str, float]:
    """Return the number of wrong choices and the largest relative differences of a golden fit."""
    fit = oracle.fit(
        case.columns, case.y, case.learners(), case.loss, tau=case.tau, delta=case.delta,
        optimizer=case.optimizer(), n_iter=case.n_iter, bins=case.bins, weights=case.weights,
        start=case.start, scale=case.scale,
    )  # fmt: skip
    assert fit.names == case.names
    first = {name: v[:20] for name, v in case.columns.items()}

    def coef(m: int, expected: dict[str, np.ndarray]) -> float:
        got = dict(zip(fit.names, fit.at(m), strict=True))
        return max(relative(got[name], theta) for name, theta in expected.items())

    smoothing = dict(zip(fit.names, fit.smoothing, strict=True))
    return {
        "choices": sum(a != b for a, b in zip(fit.choices, case.choices, strict=True)),
        "corrections": sum(a != b for a, b in zip(fit.corrections, case.corrections, strict=True)),
        "risk": float(np.max(np.abs(fit.risk / case.risk - 1))),
        "coef": max(coef(m, c) for m, c in [(case.n_iter, case.coef), *case.coef_after.items()]),
        "smoothing": max(abs(smoothing[k] - v) / max(v, 1e-12) for k, v in case.smoothing.items()),
        "scores": relative(fit.scores[:20], case.scores),
        "predictions": relative(fit.predict(first), case.predictions),
    }


def failures(found: dict[str, float]) -> dict[str, float]:
    limit = {"choices": 0, "corrections": 0, "predictions": TOLERANCE["scores"], **TOLERANCE}
    return {key: value for key, value in found.items() if not value <= limit[key]}


def check(name: str) -> None:
    assert failures(differences(load(name))) == {}


@pytest.mark.parametrize("name", HANDFUL)
def test_oracle_reproduces_the_reference(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(case_names()) - set(HANDFUL)))
def test_oracle_reproduces_every_reference(name: str) -> None:
    check(name)
