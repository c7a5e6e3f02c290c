"""Tests of min_rows_per_bin: bins with few rows are merged, for local rows and for shards."""

from __future__ import annotations

import numpy as np
import pytest

import cwboost as cb
import sharding
from cwboost.fitting.prepared import PreparedRows

LEAST = 25
pytestmark = pytest.mark.filterwarnings("ignore:.*count as unseen")


def problem(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    table = {
        "smooth": rng.exponential(size=n),
        "few": rng.integers(0, 12, n).astype(float) ** 2,
        "gaps": np.where(rng.uniform(size=n) < 0.2, np.nan, rng.normal(size=n)),
        "job": rng.choice(list("abcdefgh"), n, p=[0.3, 0.3, 0.2, 0.15, 0.02, 0.01, 0.01, 0.01]),
    }
    y = np.sin(table["smooth"]) + np.nan_to_num(table["gaps"]) + (table["job"] == "c")
    return table, y + rng.normal(size=n)


def sizes(monkeypatch, run):
    """Return the number of training rows per bin, for every set of bins of a fit."""
    found = []
    original = PreparedRows.make.__func__

    def make(cls, data, *arguments):
        binned = original(cls, data, *arguments)
        rows = data.training
        found.extend(
            np.bincount(s.index[rows], minlength=s.n_bins) for s in binned.shared_bins.sets
        )
        return binned

    monkeypatch.setattr(PreparedRows, "make", classmethod(make))
    run()
    return found


@pytest.mark.parametrize("bins", ["auto", "sqrt", 300, cb.Bins(40, "quantile")])
def test_every_bin_has_enough_rows(monkeypatch, bins):
    table, y = problem()
    options = {"bins": bins, "n_iter": 5, "validation": 0.3, "patience": None}

    def run(**more):
        return cb.fit(table, y, "auto", **options, **more)

    assert min(s.min() for s in sizes(monkeypatch, run)) < LEAST
    merged = sizes(monkeypatch, lambda: run(min_rows_per_bin=LEAST))
    assert min(s[s > 0].min() for s in merged) >= LEAST
    assert max(map(len, merged)) > 10  # not everything is merged


def test_a_column_of_two_numbers_keeps_both(monkeypatch):
    x = np.repeat([0.0, 1.0], [30, 70])

    def run():
        model = cb.fit({"x": x}, x, [cb.Linear("x")], n_iter=200, min_rows_per_bin=LEAST)
        np.testing.assert_allclose(model.predict({"x": [0.0, 1.0]}), [0.0, 1.0], atol=1e-4)

    assert [list(s) for s in sizes(monkeypatch, run)] == [[30, 70]]


@pytest.mark.filterwarnings("ignore:levels never seen in training")
def test_steps_and_levels_have_enough_rows():
    table, y = problem()
    model = cb.fit(table, y, [cb.Step("smooth"), cb.Category("job")], n_iter=50,
                   min_rows_per_bin=LEAST)  # fmt: skip
    job = model.terms["job"]
    assert set("abcd") <= set(job.plan.encoders[0].levels) < set("abcdefgh")
    effects = model.predict({"smooth": np.ones(2), "job": ["h", "never seen"]}, kind="score")
    assert effects[0] == effects[1]  # a rare level is treated as unseen
    at = np.searchsorted(model.terms["smooth"].plan.encoders[0].cuts, table["smooth"])
    assert np.bincount(at).min() >= LEAST


@pytest.mark.parametrize("n_shards", [1, 2, 3])
@pytest.mark.parametrize("learners", [None, "auto", "step"])
def test_shards_merge_bins_like_a_local_fit_with_sites(n_shards, learners):
    table, y = problem(4000)
    shards = sharding.split_rows(table, {"y": y}, 5, n_shards)
    parts = sharding.cut(len(y), 5)
    site = np.zeros(len(y))
    for k, (a, b) in enumerate(parts):
        site[a:b] = k % n_shards
    options = {"loss": "huber", "n_iter": 30, "validation": 0.3, "min_rows_per_bin": LEAST}
    here = cb.fit({**table, "site": site}, y, learners, sites="site", **options)
    there = sharding.fit(shards, y, learners, **options)
    assert there.choices == here.choices
    for name, term in here.terms.items():
        np.testing.assert_allclose(there.terms[name].coef, term.coef, atol=1e-10)
        assert there.terms[name].plan.encoders == term.plan.encoders
    if n_shards == 1:  # with a single site, sites= is not needed
        alone = cb.fit(table, y, learners, **options)
        assert alone.choices == here.choices
    if learners == "step":
        cuts = here.terms["smooth"].plan.encoders[0].cuts
        at = np.searchsorted(cuts, table["smooth"])
        counts = np.array([np.bincount(at[site == s], minlength=len(cuts) + 1)
                           for s in range(n_shards)])  # fmt: skip
        assert counts[counts > 0].min() >= LEAST


def test_a_fit_can_be_extended(tmp_path):
    table, y = problem()
    options = {"min_rows_per_bin": LEAST}
    whole = cb.fit(table, y, n_iter=30, **options)
    part = cb.fit(table, y, n_iter=10, **options)
    assert part.extend(20, table, y).choices == whole.choices
    part.save(tmp_path / "model.json")
    assert cb.load(tmp_path / "model.json").extend(20, table, y).choices == whole.choices


def test_invalid_requests_are_refused():
    table, y = problem(400)
    rare = np.where(np.arange(400) < 3, np.nan, table["smooth"])
    with pytest.raises(ValueError, match="fewer missing cells than min_rows_per_bin = 25"):
        cb.fit({"x": rare}, y, n_iter=1, min_rows_per_bin=LEAST)
    with pytest.raises(ValueError, match="'exact' keeps every value apart"):
        cb.fit(table, y, n_iter=1, bins="exact", min_rows_per_bin=LEAST)
    with pytest.raises(ValueError, match="pair of columns"):
        cb.fit(table, y, [cb.Tensor("smooth", "few")], n_iter=1, min_rows_per_bin=LEAST)
    with pytest.raises(ValueError, match="no level has min_rows_per_bin"):
        cb.fit({"id": [str(i) for i in range(400)]}, y, [cb.Category("id")], n_iter=1,
               min_rows_per_bin=LEAST)  # fmt: skip
    with pytest.raises(ValueError, match="expected a whole number from 1"):
        cb.fit(table, y, n_iter=1, min_rows_per_bin=0)
    with pytest.raises(ValueError, match="sites= requires min_rows_per_bin="):
        cb.fit(table, y, n_iter=1, sites="job")
    with pytest.raises(ValueError, match="sites= requires min_rows_per_bin="):
        cb.fit(table, y, n_iter=1, bags=2, sites="job")
    with pytest.raises(ValueError, match="sites: column 'y' is y"):
        cb.fit({**table, "y": y}, "y", n_iter=1, min_rows_per_bin=LEAST, sites="y")
    with pytest.raises(ValueError, match="min_rows_per_bin and bags are mutually exclusive"):
        cb.fit(table, y, n_iter=1, bags=2, min_rows_per_bin=LEAST)
    with pytest.raises(ValueError, match="no two bins with min_rows_per_bin = 1000"):
        cb.fit({"x": table["smooth"]}, y, n_iter=1, min_rows_per_bin=1000)


class Mine:
    """A user-defined squared loss."""

    def loss(self, y, score):
        return (y - score) ** 2 / 2

    def gradient(self, y, score):
        return score - y

    def start(self, y, weights):
        return float(np.average(y, weights=weights))


def test_y_does_not_leave_the_shards():
    table, y = problem(400)
    shards = sharding.split_rows(table, {"y": y})
    with pytest.raises(ValueError, match="must not leave the shards; pass start="):
        sharding.fit(shards, y, loss=Mine(), n_iter=1, min_rows_per_bin=LEAST)
    model = sharding.fit(
        sharding.split_rows(table, {"y": y}),
        y,
        loss=Mine(),
        n_iter=1,
        start=0.0,
        min_rows_per_bin=LEAST,
    )
    assert model.n_iter == 1


def test_tails_of_merged_bins_are_flat():
    """Knots end at the last bin point, because no data determine a curve beyond it."""
    rng = np.random.default_rng(0)
    x = rng.gamma(2, 2, 4000)
    y = np.sin(x) + rng.normal(0, 0.3, 4000)
    model = cb.fit({"x": x}, y, n_iter=1500, min_rows_per_bin=50)
    found = model.predict({"x": np.linspace(x.min(), x.max(), 500)})
    assert np.abs(found).max() < 1.3
    assert found[-1] == found[-2]
    risk = np.mean((y - model.predict({"x": x})) ** 2) / 2
    assert risk < 1.05 * model.risk[-1]


def test_a_rare_level_does_not_change_other_levels():
    rng = np.random.default_rng(0)
    level = np.repeat(["a", "b", "c"], [1000, 1200, 10])
    y = np.repeat([0.0, 3.0, 9.0], [1000, 1200, 10]) + rng.normal(0, 0.1, 2210)
    with pytest.warns(UserWarning, match="1 of 3 levels have fewer rows .* count as unseen: c"):
        model = cb.fit({"job": level}, y, n_iter=300, min_rows_per_bin=LEAST)
    np.testing.assert_allclose(model.predict({"job": ["a", "b"]}), [0.0, 3.0], atol=0.2)
    shards = sharding.split_rows({"job": level}, {"y": y}, 1, 1)
    there = sharding.fit(shards, y, n_iter=300, min_rows_per_bin=LEAST)
    assert there.choices == model.choices
    np.testing.assert_allclose(there.terms["job"].coef, model.terms["job"].coef, atol=1e-10)


def test_held_out_rows_do_not_count_as_training_rows():
    """A level with one training row and 39 held-out rows would reveal that training row."""
    rng = np.random.default_rng(0)
    level = np.repeat(["a", "b", "g"], [500, 500, 40])
    held = np.zeros(1040, bool)
    held[:200] = held[1001:] = True
    model = cb.fit({"job": level}, rng.normal(size=1040), n_iter=5, validation=held,
                   min_rows_per_bin=LEAST)  # fmt: skip
    assert model.terms["job"].plan.encoders[0].levels == ("a", "b")
