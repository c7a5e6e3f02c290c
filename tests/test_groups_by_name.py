"""Tests of groups=, an array or the name of a column, in every function that takes it.

The result is the same either way, and a column that is named as groups is not a feature.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import cwboost as cb


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    year = rng.integers(2000, 2008, 120)
    frame = pd.DataFrame({"x": rng.uniform(size=120), "z": rng.normal(size=120), "year": year})
    y = np.sin(6 * frame["x"]) + rng.normal(size=8)[year - 2000] + rng.normal(0, 0.3, 120)
    return frame, y.to_numpy()


def stability(frame, y, groups):
    return cb.stability(frame, y, q=1, cutoff=0.9, n_samples=4, groups=groups).first


def cv(frame, y, groups):
    return cb.cv(frame, y, n_iter=10, folds=3, extend=False, groups=groups).risk


def tune(frame, y, groups):
    return [
        t.scores for t in cb.tune(frame, y, schedule=cb.RandomSearch(2, 5), groups=groups).trials
    ]


def held_out(frame, y, groups):
    return cb.CWBRegressor(n_iter=10, validation=0.3).fit(frame, y, groups=groups).model_.risk


def bags(frame, y, groups):
    return cb.CWBRegressor(n_iter=10, bags=3).fit(frame, y, groups=groups).model_.bags.start


def folded(frame, y, groups):
    regressor = cb.CWBRegressorCV(n_iter=10, cv=3).fit(frame, y, groups=groups)
    return np.append(regressor.cv_result_.risk, regressor.model_.risk)


def continued(frame, y, groups):
    regressor = cb.CWBRegressor(n_iter=5, optimizer="plain", validation=0.3)
    return regressor.fit(frame, y, groups=groups).extend(5, frame, y, groups=groups).model_.risk


ALL = [stability, cv, tune, held_out, bags, folded, continued]


@pytest.mark.parametrize("function", ALL)
@pytest.mark.filterwarnings("ignore:cv. the best iteration")
def test_groups_by_name_equal_groups_as_an_array(rows, function):
    frame, y = rows
    by_name = function(frame, y, "year")
    as_array = function(frame.drop(columns="year"), y, frame["year"])
    np.testing.assert_array_equal(by_name, as_array)


@pytest.mark.parametrize("function", ALL)
def test_bad_groups_are_refused(rows, function):
    frame, y = rows
    with pytest.raises(ValueError, match="column 'ward' is not in the table"):
        function(frame, y, "ward")
    with pytest.raises(ValueError, match="groups has 3 rows, the table has 120"):
        function(frame, y, [1, 2, 3])
    with pytest.raises(ValueError, match=r"one group|needs at least 3 groups, got 1"):
        function(frame, y, np.ones(120))
    with pytest.raises(ValueError, match="groups, row 119: the value is missing"):
        function(frame, y, [*"ab" * 59, "a", None])


def test_too_few_groups_and_unsupported_arguments_are_refused(rows):
    frame, y = rows
    half = frame["year"] > 2003
    with pytest.raises(ValueError, match=r"2 groups; without 0\.9 of them no group is left"):
        cb.CWBRegressor(validation=0.9).fit(frame, y, groups=half)
    masks = np.arange(120) % 3 != np.arange(3)[:, None]
    with pytest.raises(ValueError, match="groups= cannot be used with masks in bags="):
        cb.CWBRegressor(bags=masks, n_iter=5).fit(frame, y, groups=half)
    with pytest.raises(TypeError, match="sample_weight: expected an array, got 'z'"):
        cb.CWBRegressor().fit(frame, y, sample_weight="z")
