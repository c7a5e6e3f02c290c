"""Tests of folds: every way to specify them, and the errors for invalid ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)

import cwboost as cb
from cwboost.fitting.input_data import FitInput, read_data
from cwboost.losses import as_loss
from cwboost.selection.folds import _smallest_dtype, as_folds, fold_validation_rows


def rows(n=60, loss="squared", weights=None, y=None):
    x = np.arange(n, dtype=float)
    if y is None:
        y = x if loss == "squared" else np.resize(["a", "a", "b"], n)
    return read_data(FitInput({"x": x, "g": np.arange(n) // 4}, y, weights), as_loss(loss), 0)


def matrices(folds):
    return np.array([f.training for f in folds]), np.array([f.test for f in folds])


# --- kinds of folds -------------------------------------------------------------------------------


@given(
    n=st.integers(12, 70), k=st.integers(2, 12), seed=st.integers(0, 99), share=st.floats(0.2, 1)
)
@settings(max_examples=40)
def test_kfold_tests_every_row_once_with_its_share_of_each_class(n, k, seed, share):
    y = np.where(np.random.default_rng(seed).random(n) < share, "b", "a")
    y[:4] = ["a", "a", "b", "b"]
    data = rows(n, "binomial", y=y)
    training, test = matrices(as_folds(k, data, seed=seed))
    assert np.array_equal(test.sum(axis=0), np.ones(n))
    assert np.array_equal(training, 1 - test)
    for label in ("a", "b"):
        counts = test[:, y == label].sum(axis=1)
        assert counts.max() - counts.min() <= 1
    assert np.ptp(test.sum(axis=1)) <= 1


@given(seed=st.integers(0, 99), k=st.integers(2, 5))
@settings(max_examples=30)
def test_groups_stay_together_and_folds_have_similar_sizes(seed, k):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(20), rng.integers(1, 9, 20))
    data = rows(len(groups))
    _, test = matrices(as_folds(k, data, groups))
    assert all(len(set(groups[t > 0]) & set(groups[t == 0])) == 0 for t in test)
    assert np.array_equal(test.sum(axis=0), np.ones(len(groups)))
    assert np.ptp(test.sum(axis=1)) <= np.bincount(groups).max()


def test_repeats_divide_the_rows_differently():
    data = rows()
    _, test = matrices(as_folds(cb.Folds("kfold", 3, repeats=2), data))
    assert test.shape == (6, 60)
    assert np.array_equal(test[:3].sum(axis=0), test[3:].sum(axis=0))
    assert not np.array_equal(test[:3], test[3:])


@pytest.mark.parametrize("groups", [None, "g"])
def test_bootstrap_draws_n_rows_and_tests_the_others(groups):
    data = rows(400, "binomial")
    training, test = matrices(as_folds(cb.Folds("bootstrap", 20), data, groups))
    assert np.array_equal(test, training == 0)
    assert test.mean() == pytest.approx(np.exp(-1), abs=0.03)
    if groups is None:
        assert np.all(training.sum(axis=1) == 400)
        assert np.all(training[:, data.y > 0].sum(axis=1) == np.sum(data.y > 0))
    else:
        assert np.all(np.ptp(training.reshape(20, -1, 4), axis=2) == 0)


@pytest.mark.parametrize(("fraction", "expected"), [(None, 30), (0.8, 48)])
def test_subsampling_draws_a_fraction(fraction, expected):
    training, test = matrices(as_folds(cb.Folds("subsampling", 4, fraction=fraction), rows()))
    assert np.array_equal(training.sum(axis=1), np.full(4, expected))
    assert np.array_equal(test, 1 - training)


def test_time_windows_equal_scikit_learn():
    found = matrices(as_folds(cb.Folds("time", 5), rows()))
    expected = matrices(as_folds(TimeSeriesSplit(5), rows()))
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    training, test = matrices(as_folds(cb.Folds("time", 3), rows(), "g"))
    for a, b in zip(training, test, strict=True):
        assert np.flatnonzero(a).max() < np.flatnonzero(b).min()
        assert a.sum() % 4 == 0 == b.sum() % 4


def test_the_seed_determines_the_folds():
    data = rows()
    one, same, other = (matrices(as_folds(5, data, seed=s))[1] for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


# --- explicit rows --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "splitter", [KFold(4), KFold(4, shuffle=True, random_state=0), StratifiedKFold(3)], ids=repr
)
def test_splitters_pairs_masks_and_weights_mean_the_same(splitter):
    data = rows(loss="binomial")
    pairs = list(splitter.split(data.y[:, None], data.y))
    expected = matrices(as_folds(splitter, data))
    masks = [tuple(np.isin(np.arange(60), part) for part in pair) for pair in pairs]
    weights = np.array([mask for mask, _ in masks]).T
    for folds in (pairs, iter(pairs), masks, weights, weights.astype(int)):
        for ours, theirs in zip(matrices(as_folds(folds, data)), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_splitters_receive_the_groups():
    data = rows()
    _, test = matrices(as_folds(GroupKFold(3), data, "g"))
    assert np.all(np.ptp(test.reshape(3, -1, 4), axis=2) == 0)
    halves = [(np.arange(0, 60, 2), np.arange(1, 60, 2))]
    with pytest.raises(ValueError, match="fold 0: the group of row 1 is both"):
        as_folds(halves, data, "g")


def test_rows_drawn_more_than_once_have_larger_weights():
    (fold,) = as_folds([([0, 0, 1, 5], [2, 3])], rows(6))
    assert fold.training.tolist() == [2, 1, 0, 0, 0, 1]
    assert fold.test.tolist() == [0, 0, 1, 1, 0, 0]


def test_rows_of_weight_zero_keep_their_row_numbers_but_are_in_no_fold():
    w = np.ones(12)
    w[[0, 5]] = 0
    data = rows(12, weights=w)
    pairs = [(np.arange(6), np.arange(6, 12)), (np.arange(6, 12), np.arange(6))]
    listed = as_folds(pairs, data)
    assert listed[0].training.tolist() == [1] * 4 + [0] * 6
    predefined = as_folds(PredefinedSplit([1] * 6 + [0] * 6), data)
    assert np.array_equal(matrices(listed)[0], matrices(predefined)[0])
    groups = np.repeat([7, 3, 5], 4)
    for fold in as_folds(3, data, groups):
        assert len(set(groups[w > 0][fold.test > 0])) == 1
    assert len(as_folds(5, data)[0].training) == 10


def test_a_split_multiplies_counts_and_weights():
    data = rows(8, weights=np.arange(1.0, 9.0))
    (fold,) = as_folds([([0, 0, 1], [2, 3])], data)
    split = fold.split(data.weights)
    assert split.training.tolist() == [2, 2, 0, 0, 0, 0, 0, 0]
    assert split.validation.tolist() == [0, 0, 3, 4, 0, 0, 0, 0]


# --- validation rows inside a fold ----------------------------------------------------------------


def test_validation_rows_come_from_the_training_rows_only():
    data = rows(90, "binomial")
    (fold, *_) = as_folds(3, data)
    held = fold_validation_rows(fold, data, 0.2)
    assert not np.any(held & (fold.test > 0))
    assert np.bincount(data.y[held] > 0).tolist() == [8, 4]
    last = fold_validation_rows(fold, data, 0.2, last=True)
    assert np.flatnonzero(last).min() > np.flatnonzero((fold.training > 0) & ~last).max()
    groups = np.arange(90) // 3
    (fold, *_) = as_folds(3, data, groups)
    held = fold_validation_rows(fold, data, 0.25, groups)
    assert set(held.reshape(-1, 3).sum(axis=1)) == {0, 3}
    with pytest.raises(ValueError, match="selects none or all of"):
        fold_validation_rows(as_folds([([0, 2], [1])], rows(6))[0], rows(6), 0.1)


# --- refused arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "loo"}, "kind: expected 'kfold'"),
        ({"n": 1}, "whole number >= 2 for 'kfold', got 1"),
        ({"n": 2.0}, "whole number >= 2"),
        ({"kind": "bootstrap", "n": 0}, ">= 1 for 'bootstrap'"),
        ({"repeats": 0}, "repeats: expected a whole number from 1 to 10000"),
        ({"kind": "time", "repeats": 2}, "repeats applies only to 'kfold'; for 'time' raise n"),
        ({"fraction": 0.3}, "fraction applies only to 'subsampling', not to 'kfold'"),
        ({"kind": "subsampling", "fraction": 1.0}, "fraction must be between 0 and 1"),
        ({"stratified": "yes"}, "stratified must be 'auto', True or False"),
        ({"kind": "time", "stratified": True}, "time order cannot be stratified"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        cb.Folds(**options)


TWELVE = np.arange(12)


@pytest.mark.parametrize(
    ("folds", "message"),
    [
        (1, "expected at least 2, got 1"),
        (13, "kfold with n=13 needs at least 13 rows, got 12"),
        (cb.Folds("time", 12), "needs at least 13 rows"),
        (cb.Folds(n=3, stratified=True), "stratified=True needs classes"),
        ("kfold", "folds: expected a number, cb.Folds"),
        (2.5, "folds: expected a number"),
        (True, "folds: expected a number"),
        (None, "folds: expected a number"),
        (TWELVE, "folds: expected a number"),
        ([], "there are no folds"),
        ([TWELVE], "fold 0: expected a pair"),
        ([(TWELVE[:6], TWELVE[6:]), (1, 2)], "fold 1: expected row numbers or a mask, got 1"),
        ([(TWELVE[:6], TWELVE[5:])], r"fold 0: row 5 is both trained on and tested on \(1 such"),
        ([(TWELVE, [])], "fold 0 has no test rows"),
        ([([], TWELVE)], "fold 0 has no training rows"),
        ([(TWELVE[:6], [12])], "fold 0: there is no row 12; the rows are 0 to 11"),
        ([([-1, 2], [3])], "fold 0: there is no row -1"),
        ([([0.5, 2], [3])], "expected row numbers or a mask, got \\[0.5, 2\\]"),
        ([([[1], [2, 3]], [3])], "fold 0: expected row numbers or a mask, got"),
        ([(np.ones(11, bool), [3])], "fold 0: the mask has 11 rows, the table has 12"),
        (np.ones((11, 2)), "the weights have 11 rows, the table has 12"),
        (np.ones((12, 2)), "fold 0 has no test rows"),
        (np.full((12, 2), -1.0), "finite numbers >= 0"),
        (np.full((12, 2), np.nan), "finite numbers >= 0"),
        (np.full((12, 2), "a"), "expected weights, got an array of"),
    ],
    ids=repr,
)
def test_wrong_folds_are_refused(folds, message):
    with pytest.raises((ValueError, TypeError), match=message):
        as_folds(folds, rows(12))


def test_a_class_without_training_rows_is_refused():
    data = rows(12, "multinomial", y=["c"] + ["a", "b"] * 5 + ["a"])
    for folds in (3, cb.Folds("subsampling", 5, fraction=0.2), cb.Folds("bootstrap", 5)):
        assert matrices(as_folds(folds, data))[0][:, 0].min() > 0  # in every training part
    with pytest.raises(ValueError, match=r"class 'c' does not occur in its training rows \(1 in"):
        as_folds(cb.Folds(n=3, stratified=False), data)
    with pytest.raises(ValueError, match="class 'b' does not occur"):
        as_folds([(TWELVE[:2], TWELVE[2:4])], rows(12, "binomial"))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.arange(11), "groups has 11 rows, the table has 12"),
        ("nobody", "nobody"),
        ([None, *"abcabcabcab"], "groups, row 0: the value is missing"),
        (np.zeros(12), "needs at least 3 groups, got 1"),
    ],
    ids=repr,
)
def test_wrong_groups_are_refused(groups, message):
    with pytest.raises((ValueError, KeyError), match=message):
        as_folds(3, rows(12), groups)


def test_groups_in_time_order_must_be_adjacent():
    with pytest.raises(ValueError, match="rows of a group must be adjacent"):
        as_folds(cb.Folds("time", 2), rows(12), np.resize([0, 1, 2], 12))


def test_any_splitter_is_accepted():
    assert len(as_folds(ShuffleSplit(7, test_size=0.3, random_state=0), rows())) == 7


@pytest.mark.parametrize("counts", [[0, 1], [1, 2], [1, 1], [0, 300]])
def test_counts_keep_their_values(counts):
    found = _smallest_dtype(np.array(counts))
    assert found.tolist() == counts
    assert found.itemsize <= 2
