"""Tests of held-out rows (how many, from which classes, the same on a cluster), and of the warning
about fits that diverge."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import cwboost as cb
from cwboost.fitting.input_data import FitInput, draw_held_out, hold_out, validation_input
from cwboost.fitting.problem import _warn_of_divergence


@pytest.mark.parametrize(
    ("fraction", "n", "expected"),
    [(0.5, 5, 3), (0.25, 10, 3), (0.25, 9, 2), (0.1, 14, 1), (0.1, 15, 2), (0.1, 5, 1)],
)
def test_a_fraction_is_rounded_half_up(fraction, n, expected):
    assert hold_out(fraction, np.ones(n), None, 0).sum() == expected
    assert [len(rows) for rows in draw_held_out(fraction, [n], 0)] == [expected]


def test_the_fraction_applies_to_each_class_without_rows_of_weight_zero():
    classes = np.repeat([-1.0, 1.0], [30, 10])
    w = np.ones(40)
    w[:10] = 0.0
    held = hold_out(0.25, w, classes, 3)
    assert not held[:10].any()
    assert held[10:30].sum() == 5
    assert held[30:].sum() == 3


def test_drawn_positions_count_the_rows_of_a_class():
    classes = np.tile([0.0, 1.0, 2.0], 20)
    held = hold_out(0.3, np.ones(60), classes, 7)
    drawn = draw_held_out(0.3, [20, 20, 20], 7)
    for c, positions in enumerate(drawn):
        rows = np.flatnonzero(classes == c)
        np.testing.assert_array_equal(
            np.flatnonzero(held & (classes == c)), np.sort(rows[positions])
        )


def test_a_fraction_that_selects_no_rows_is_refused():
    with pytest.raises(ValueError, match=r"bags: a fraction of 0\.1 selects no rows out of 4"):
        draw_held_out(0.1, [4], 0, "bags")
    with pytest.raises(ValueError, match="of every class, and the 2 classes have at most 2 rows"):
        draw_held_out(0.1, [2, 2], 0, "bags")


def test_a_validation_table_uses_the_column_names_of_the_fit():
    inputs = FitInput({}, "y", "w", "o", "e", ({}, "y"))
    held = validation_input(inputs, has_offset=False)
    assert (held.weights, held.offset, held.exposure) == ("w", "o", "e")
    own = validation_input(replace(inputs, validation=({}, "y", "v", "p")), has_offset=True)
    assert (own.weights, own.offset, own.exposure) == ("v", "p", None)
    with pytest.raises(ValueError, match="the validation rows have none"):
        validation_input(inputs, has_offset=True)
    with pytest.raises(ValueError, match="got a tuple of 1"):
        validation_input(replace(inputs, validation=({},)), has_offset=False)


def test_a_fit_with_an_exposure_array_needs_an_offset_of_the_validation_rows():
    table = {"x": np.arange(20.0), "o": np.full(20, 0.1)}
    options = {"loss": "poisson", "offset": "o", "n_iter": 3}
    rows = (table, np.ones(20))
    with pytest.raises(ValueError, match="the validation rows have none"):
        cb.fit(*rows, exposure=np.full(20, 2.0), validation=rows, **options)
    cb.fit(*rows, validation=rows, **options)
    cb.fit(*rows, exposure=np.full(20, 2.0), validation=(*rows, None, np.full(20, 0.8)), **options)


@pytest.mark.parametrize("as_list", [list, np.ndarray.tolist])
def test_a_mask_may_be_a_list(as_list):
    x, held = np.arange(20.0), np.arange(20) % 4 == 0
    expected = cb.fit({"x": x}, x, validation=held, n_iter=3)
    found = cb.fit({"x": x}, x, validation=as_list(held), n_iter=3)
    np.testing.assert_array_equal(found.validation_risk, expected.validation_risk)


@pytest.mark.parametrize(("last", "warns"), [(5.99, False), (6.01, True), (5.0, False)])
def test_a_fit_diverges_if_the_risk_rises_by_a_tenth_of_its_fall(last, warns):
    x = np.linspace(0, 1, 50)
    model = cb.fit({"x": x}, x, n_iter=2)
    risk = np.array([15.0, 5.0, last])  # falls by 10
    model = replace(model, path=replace(model.path, risk=risk))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn_of_divergence(model)
    assert bool(caught) == warns
    if warns:
        assert "lowest after 1 iterations" in str(caught[0].message)
