"""Tests against R's compboost and mboost: equal choices, and numbers equal up to rounding.

The conventions of the references are described in `golden_cases`.
"""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb
import golden_cases

TOLERANCE = golden_cases.TOLERANCE

# One accelerated fit of the references diverges, and cwboost warns about it.
pytestmark = pytest.mark.filterwarnings("ignore:the fit diverges:RuntimeWarning")


def fitted(case):
    loss = {"quantile": cb.Quantile(case.tau), "huber": cb.Huber(case.delta)}
    return cb.fit(
        case.columns,
        case.y,
        case.learners(cb),
        loss=loss.get(case.loss, case.loss),
        optimizer=case.optimizer(cb),
        n_iter=case.n_iter,
        bins=case.bins,
        weights=case.weights,
        start=case.start,
        scale=case.scale,
    )


@pytest.mark.parametrize("name", golden_cases.case_names())
def test_same_as_the_reference(name):
    case = golden_cases.load(name)
    model = fitted(case)
    assert model.choices == list(case.choices)
    if case.corrections is not None:
        assert model.corrections == list(case.corrections)
    np.testing.assert_allclose(model.risk, case.risk, rtol=TOLERANCE["risk"])
    for label, coef in case.coef.items():
        scale = np.abs(coef).max()
        found = model.terms[label].coef
        np.testing.assert_allclose(found, coef, rtol=0, atol=TOLERANCE["coef"] * scale)
    for m, coefs in (case.coef_after or {}).items():
        at = model.at(m)
        for label, coef in coefs.items():
            scale = np.abs(coef).max()
            found = at.terms[label].coef
            np.testing.assert_allclose(found, coef, rtol=0, atol=TOLERANCE["coef"] * scale)
    for label, smoothing in case.smoothing.items():
        np.testing.assert_allclose(
            model.terms[label].smoothing, smoothing, rtol=TOLERANCE["smoothing"], atol=1e-9
        )
    head = {column: values[:20] for column, values in case.columns.items()}
    score = model.predict(head, kind="score")
    np.testing.assert_allclose(
        score, case.predictions, rtol=TOLERANCE["scores"], atol=TOLERANCE["scores"]
    )
    if case.response is not None:
        response = model.predict(head)
        np.testing.assert_allclose(
            response, case.response, rtol=TOLERANCE["scores"], atol=TOLERANCE["scores"]
        )
