"""Tests that methods which need the training data again refuse other rows and forgotten weights."""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb

LEARNERS = [cb.Spline("x"), cb.Category("g")]
OTHERS = "these are not the rows of the fit: its risk was .*, here it is .*; pass everything"


def make(n=200, seed=0):
    rng = np.random.default_rng(seed)
    table = {"x": rng.uniform(size=n), "g": rng.choice(list("abc"), n)}
    table["w"] = rng.integers(1, 4, n).astype(float)
    return table, np.sin(6 * table["x"]) + (table["g"] == "a") + rng.normal(0, 0.3, n)


def bands(model, table, y, **more):
    return model.with_bands(table, y, n_boot=10, longer=1, **more)


def cv_plus(model, table, y, **more):
    return model.intervals(table, y, folds=2, **more)


def split(model, table, y, **more):
    return model.intervals(table, y, kind="split", **more)


def quantiles(model, table, y, **more):
    return model.intervals(table, y, kind="quantiles", **more)


def bag_intervals(model, table, y, **more):
    return model.intervals(table, y, kind="bags", **more)


METHODS = [bands, cv_plus, split, quantiles, cb.deselect, cb.aic]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore:the corrected AIC is smallest at the last iteration")
def test_other_rows_are_refused(method):
    table, y = make()
    model = cb.fit(table, y, LEARNERS, n_iter=20)
    method(model, table, y)
    with pytest.raises(ValueError, match=OTHERS):
        method(model, {name: values[::-1] for name, values in table.items()}, y)
    with pytest.raises(ValueError, match=OTHERS):
        method(model, *make(seed=1))


@pytest.mark.parametrize("method", METHODS)
def test_forgotten_weights_are_refused(method):
    table, y = make()
    model = cb.fit(table, y, LEARNERS, n_iter=20, weights=table["w"])
    with pytest.raises(ValueError, match=OTHERS):
        method(model, table, y)


@pytest.mark.parametrize(
    "options",
    [
        {"validation": 0.3},
        {"validation": 0.3, "optimizer": cb.Hybrid(0.3, 0.03)},
        {"optimizer": cb.Accelerated()},
        {"interactions": 1},
        {"weights": "w"},
        {"n_iter": 0},
        {"bags": 3},
    ],
)
def test_the_training_data_of_any_fit_are_recognised(options):
    table, y = make()
    model = cb.fit(table, y, LEARNERS, **{"n_iter": 20, **options})
    kind = "bags" if "bags" in options else "split"
    bands(model, table, y)
    model.intervals(table, y, kind=kind)
    with pytest.raises(ValueError, match=OTHERS):
        bands(model, table, 2 * y)
    with pytest.raises(ValueError, match=OTHERS):
        model.intervals(table, 2 * y, kind=kind)


@pytest.mark.parametrize("own", ["mask", "other rows"])
def test_user_defined_validation_rows_need_not_be_passed_again(own):
    """The validation rows are then unknown, so the risk of all rows is compared with a range."""
    table, y = make()
    held = np.arange(200) % 4 == 0 if own == "mask" else make(seed=1)
    model = cb.fit(table, y, LEARNERS, n_iter=20, validation=held)
    bands(model, table, y)
    split(model, table, y)
    with pytest.raises(ValueError, match=r"its risk was .* to .*, here it is"):
        split(model, {name: values[::-1] for name, values in table.items()}, y)


def test_bags_need_the_rows_in_the_order_of_the_fit():
    table, y = make()
    model = cb.fit(table, y, LEARNERS, n_iter=20, bags=3)
    bag_intervals(model, table, y)
    with pytest.raises(ValueError, match="the rows are not in the order of the fit"):
        bag_intervals(model, {name: values[::-1] for name, values in table.items()}, y[::-1])


def test_errors_for_bags_with_user_defined_masks_suggest_cqr():
    table, y = make()
    masks = np.arange(200) % 3 != np.arange(3)[:, None]
    model = cb.fit(table, y, LEARNERS, n_iter=20, bags=masks)
    for kind in ("cv+", "split", "bags"):
        with pytest.raises(ValueError, match="use 'cqr'"):
            model.intervals(table, y, kind=kind)
    model.intervals(table, y, kind="cqr", folds=2)


def test_the_estimator_checks_too():
    table, y = make()
    X = np.column_stack([table["x"], table["w"]])
    regressor = cb.CWBRegressor(n_iter=20, validation="last").fit(X, y)
    regressor.intervals(X, y, kind="split")
    with pytest.raises(ValueError, match="intervals: these are not the rows of the fit"):
        regressor.intervals(X[::-1], y, kind="split")
