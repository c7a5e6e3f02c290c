"""Tests of distributed fits: a fit to rows on shards equals a fit to the same rows in one process.

The shards are in this process (see sharding.py); their calls and answers are pickled. Does not know
about Dask.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwboost as cb
import sharding
from cwboost.binning.moments import MomentSet
from cwboost.binning.number_statistics import LocalNumbers
from cwboost.binning.summary import Sample
from cwboost.distributed.data import read_sharded
from cwboost.distributed.partitions import Partition
from cwboost.fitting.input_data import FitInput, read_data
from cwboost.losses import as_loss
from cwboost.terms.encoders import Cuts
from problems import KINDS, LOSSES, make_loss, make_offset, make_table, make_target, make_weights

pytestmark = [
    pytest.mark.filterwarnings("ignore:the fit diverges"),
    pytest.mark.filterwarnings("ignore:the fit stopped after .* diverged"),
    pytest.mark.filterwarnings("ignore:levels never seen in training"),
    pytest.mark.filterwarnings("ignore:constant in the training rows"),
]

OPTIMIZERS = {
    "plain": cb.Plain(0.2),
    "accelerated": cb.Accelerated(0.05),
    "hybrid": cb.Hybrid(0.1, 0.05),
}
ROLES = ("weights", "offset", "exposure", "validation")


def rows_of(x, rows):
    return x.iloc[rows] if isinstance(x, pd.Series) else x[rows]


def taken(table, rows):
    return {name: rows_of(column, rows) for name, column in table.items()}


def both(table, y, n_parts=5, n_shards=2, held=(), **options):
    """Return the model of local rows and the model of the same rows on shards."""
    options = {"n_iter": 25, "patience": None, **options}
    local = cb.fit(table, y, progress=False, **options)
    return local, fit_on_shards(table, y, n_parts, n_shards, held, **options)


def fit_on_shards(table, y, n_parts=5, n_shards=2, held=(), **options):
    shards = shards_of(table, y, n_parts, n_shards, held, **options)
    return sharding.fit(shards, y, **{"n_iter": 25, "patience": None, **options})


def shards_of(table, y, n_parts=5, n_shards=2, held=(), **options):
    arrays = {r: options[r] for r in ROLES if isinstance(options.get(r), np.ndarray)}
    if y is not None and not isinstance(y, str):
        arrays["y"] = y
    return sharding.split_rows(table, arrays, n_parts, n_shards, held)


def same(local, other, coef=1e-10, risk=1e-12):
    """Assert that two models are the same up to rounding."""
    assert list(other.terms) == list(local.terms)
    assert other.choices == local.choices
    assert other.corrections == local.corrections
    assert other.best_iteration == local.best_iteration
    for what in ("stopped", "switched_after", "rewound_to"):
        assert getattr(other.path, what) == getattr(local.path, what)
    assert other.classes == local.classes
    np.testing.assert_allclose(other.start_vector, local.start_vector, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(other.scale, local.scale, rtol=1e-12)
    size = float(np.abs(local.risk).max())
    np.testing.assert_allclose(other.risk, local.risk, rtol=0, atol=risk * size)
    if local.validation_risk is None:
        assert other.validation_risk is None
    else:
        size = float(np.nanmax(np.abs(local.validation_risk)))
        np.testing.assert_allclose(
            other.validation_risk, local.validation_risk, rtol=0, atol=risk * size
        )
    for name, term in local.terms.items():
        size = max(1.0, float(np.abs(term.coef).max()))
        found = other.terms[name]
        np.testing.assert_allclose(found.coef, term.coef, rtol=0, atol=coef * size, err_msg=name)
        np.testing.assert_allclose(found.smoothing, term.smoothing, rtol=1e-6, err_msg=name)
    np.testing.assert_allclose(other.shares, local.shares, rtol=0, atol=1e-9 * size)
    assert other.sizes.columns == pytest.approx(dict(local.sizes.columns), rel=1e-6, abs=1e-9)
    assert other.settings == local.settings
    assert list(other.columns) == list(local.columns)
    for name, facts in local.columns.items():
        found = other.columns[name]
        for what in ("kind", "low", "high", "missing", "boolean"):
            assert getattr(found, what) == getattr(facts, what), name


# --- equal to the local fit -----------------------------------------------------------------------


def many_kinds(seed=0, n=1700):
    """Return columns of all types; the continuous ones have more distinct numbers than bins."""
    rng = np.random.default_rng(seed)
    late = np.arange(n) > 0.7 * n
    grades = pd.Series(rng.choice(["low", "middle", "high"], n))
    return {
        "x": rng.normal(size=n),
        "skewed": rng.lognormal(0.0, 2.0, n),
        "atom": np.where(rng.uniform(size=n) < 0.3, 0.0, rng.gamma(2.0, size=n)),
        "tied": np.round(rng.normal(size=n), 1),
        "gone": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.uniform(size=n)),
        "text": np.where(late, rng.choice(list("uvw"), n), rng.choice(list("abu"), n)).astype(
            object
        ),
        "grade": grades.astype(pd.CategoricalDtype(["low", "middle", "high"], ordered=True)),
        "yes": rng.uniform(size=n) < 0.4,
        "day": np.datetime64("2020-01-01") + rng.integers(0, 700, n).astype("m8[D]"),
    }


def target(table, loss, seed=0):
    rng = np.random.default_rng(seed + 1)
    x, text = table["x"], table["text"]
    f = np.sin(2 * x) + 0.8 * (table["atom"] == 0) + 0.5 * np.nan_to_num(table["gone"], nan=1.0)
    f = f + 0.4 * (text == "b") - 0.5 * (text == "w") + 0.3 * table["yes"]
    f = f + 0.2 * np.log(table["skewed"]) + 0.3 * (np.asarray(table["grade"]) == "high")
    n = len(f)
    noise = rng.normal(size=n)
    if loss in ("squared", "absolute", "quantile", "huber"):
        return f + noise
    if loss == "binomial":
        return np.where(f + noise > 0.5, "yes", "no")
    if loss == "multinomial":
        return np.array(["one", "three", "two"])[np.digitize(f + noise, [0.0, 1.0])]
    if loss == "poisson":
        return rng.poisson(np.exp(0.5 * f)).astype(float)
    y = rng.gamma(2.0, np.exp(0.5 * f))
    return y if loss == "gamma" else np.where(rng.uniform(size=n) < 0.3, 0.0, y)


def held_rows(kind, n, seed=3):
    rng = np.random.default_rng(seed)
    marks = rng.uniform(size=n) < 0.3
    return {
        "none": None,
        "fraction": 0.3,
        "marks": marks,
        "weights": np.where(marks, rng.uniform(0.5, 2.0, n), 0.0),
    }[kind]


HELD_KINDS = ("fraction", "marks", "weights")


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_and_optimizer(loss, optimizer):
    k = LOSSES.index(loss) + 3 * list(OPTIMIZERS).index(optimizer)
    table = many_kinds(k)
    n = len(table["x"])
    options = {"loss": make_loss(loss), "optimizer": OPTIMIZERS[optimizer], "n_iter": 30}
    options["validation"] = held_rows(
        HELD_KINDS[k % 3] if optimizer != "plain" or k % 2 else "none", n
    )
    if k % 2:
        options["weights"] = make_weights(k, n, zeros=k % 4 == 1)
    if k % 3:
        options["offset"] = make_offset(k, n, loss)
    if loss in ("poisson", "gamma", "tweedie") and k % 3 != 1:
        options["exposure"] = np.random.default_rng(k).uniform(0.5, 2.0, n)
    learners = [cb.Spline("x"), cb.Step("skewed"), cb.Step("atom"), cb.Linear("tied"), ...]
    same(*both(table, target(table, loss, k), learners=learners, **options))


@pytest.mark.parametrize("kind", ["none", *HELD_KINDS])
@pytest.mark.parametrize("weights", ["none", "all", "whole", "zeros"])
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_weights_and_validation(loss, weights, kind):
    table = many_kinds(5, 600)
    n = len(table["x"])
    w = {
        "none": None,
        "all": make_weights(1, n),
        "whole": np.random.default_rng(2).integers(1, 4, n).astype(float),
        "zeros": make_weights(1, n, zeros=True),
    }[weights]
    y = target(table, loss)
    learners = [cb.Spline("x", 4), cb.Step("skewed"), cb.Category("text"), cb.Category("grade")]
    options = {"learners": learners, "loss": loss, "weights": w, "validation": held_rows(kind, n)}
    same(*both(table, y, 4, 3, **options))


@pytest.mark.parametrize("rule", ["auto", "sqrt", "root4", "exact", 30, cb.Bins(200, "quantile")])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_binning_rule(rule, weighted):
    table = many_kinds(11, 2600)
    n = len(table["x"])
    w = make_weights(3, n) if weighted else None
    learners = [cb.Spline("x"), cb.Spline("skewed", 4), cb.Spline("atom"), cb.Spline("gone")]
    options = {"learners": learners, "bins": rule, "weights": w, "validation": 0.25}
    same(*both(table, target(table, "squared"), **options))


@pytest.mark.parametrize("held", [None, 0.2])
def test_moments(held):
    """With this many distinct numbers, moments are used instead of bins."""
    rng = np.random.default_rng(0)
    n = 6000
    table = {"a": rng.normal(size=n), "b": rng.standard_t(3, n)}
    table["b"][::50] = np.nan
    y = np.sin(table["a"]) + rng.normal(size=n)
    learners = [cb.Spline("a"), cb.Spline("b", 4), cb.Linear("b"), cb.Missing("b")]
    options = {"learners": learners, "bins": "exact", "validation": held, "n_iter": 25}
    shards = shards_of(table, y)
    same(
        cb.fit(table, y, patience=None, **options),
        sharding.fit(shards, y, patience=None, **options),
    )
    assert any(isinstance(s, MomentSet) for s in shards.shards[0].sets)
    shards = in_parts(table, y, [0], 2)  # a shard without rows
    same(
        cb.fit(table, y, patience=None, **options),
        sharding.fit(shards, y, patience=None, **options),
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_learner(kind):
    n, has_validation = 400, list(KINDS).index(kind) % 2
    table = make_table(7, n)
    y = make_target(7, table, "squared")
    learners = [*KINDS[kind](), cb.Linear("e")]
    held = held_rows("marks", n) if has_validation else None
    # Splines on few numbers lead to singular systems, which amplify rounding errors.
    same(*both(table, y, 4, learners=learners, validation=held), coef=1e-8)


@pytest.mark.parametrize("style", ["auto", "components", "step", "linear", "smooth"])
def test_styles(style):
    table = many_kinds(3)
    y = target(table, "squared")
    same(*both(table, y, learners=style, validation=0.3), coef=1e-9)


def test_y_weights_offset_exposure_and_validation_as_columns():
    table = many_kinds(4, 500)
    n = len(table["x"])
    table["y"] = target(table, "poisson")
    table["w"], table["o"] = make_weights(2, n, zeros=True), make_offset(2, n, "poisson")
    table["e"], table["v"] = make_weights(4, n), held_rows("marks", n)
    names = {"weights": "w", "offset": "o", "exposure": "e", "validation": "v"}
    same(*both(table, "y", learners="step", loss="poisson", **names))


@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_formula(loss):
    table = many_kinds(6, 500)
    table["y"] = target(table, loss)
    same(*both(table, "y ~ s(x, df=4) + text + grade + step(atom)", loss=loss))


def test_pairs():
    table = many_kinds(8, 700)
    y = target(table, "squared") + table["x"] * table["yes"]
    pairs = [("x", "yes"), ("text", "tied")]
    learners = [cb.Spline("x"), cb.Category("yes"), cb.Category("text"), cb.Spline("tied")]
    options = {"learners": learners, "interactions": pairs, "n_iter": 15}
    same(*both(table, y, **options, validation=0.2), coef=1e-9)
    same(*both(table, y > 0, loss="binomial", **options), coef=1e-9)


@pytest.mark.parametrize("wanted", [3, "auto"])
def test_automatic_pairs_are_refused(wanted):
    table = many_kinds(8, 100)
    with pytest.raises(ValueError, match="name them"):
        fit_on_shards(table, target(table, "squared"), interactions=wanted)


class Cosh:
    """A user-defined loss: log cosh of the residual."""

    def loss(self, y, score):
        return np.log(np.cosh(y - score))

    def gradient(self, y, score):
        return -np.tanh(y - score)

    def start(self, y, weights):
        return np.average(y, weights=weights)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_loss_in_python(optimizer):
    table = many_kinds(9, 500)
    y = target(table, "squared")
    options = {"learners": [cb.Spline("x"), cb.Step("skewed"), cb.Category("text")]}
    options |= {"loss": Cosh(), "optimizer": OPTIMIZERS[optimizer], "validation": 0.3}
    local, other = both(table, y, **options)
    assert other.start == pytest.approx(local.start, rel=1e-12)
    same(local, other)


def test_start_scale_and_patience():
    table = many_kinds(10, 500)
    y = target(table, "huber")
    options = {"learners": "step", "loss": "huber", "start": 0.25, "scale": 1.7, "validation": 0.4}
    local, other = both(table, y, **options, patience=2, n_iter=300)
    assert local.n_iter < 300
    same(local, other)


@pytest.mark.parametrize("search", ["full", "certified", "row-free"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_searches(search, optimizer):
    table = many_kinds(12, 500)
    y = target(table, "squared")
    options = {"learners": "step", "search": search, "optimizer": OPTIMIZERS[optimizer]}
    same(*both(table, y, validation=0.3, **options))
    if search != "row-free":
        same(*both(table, y > 0, loss="binomial", validation=0.3, **options))


@pytest.mark.parametrize("roles", [(), ("weights",), ("weights", "offset")])
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_a_validation_table(loss, roles):
    table = many_kinds(13, 900)
    y, n = target(table, loss), 600
    every = {"weights": make_weights(1, 900), "offset": make_offset(1, 900, loss)}
    arrays = {r: every[r][:n] for r in roles}
    rest = [every[r][n:] for r in ("weights", "offset") if r in roles]
    first, last = taken(table, slice(0, n)), taken(table, slice(n, None))
    held = held_partitions(last, y[n:], dict(zip(roles, rest, strict=True)))
    learners = [cb.Spline("x"), cb.Step("skewed"), cb.Category("text"), cb.Category("grade")]
    options = {"learners": learners, "loss": loss, "validation": (last, y[n:], *rest)}
    for optimizer in OPTIMIZERS.values():
        same(*both(first, y[:n], held=held, optimizer=optimizer, **options, **arrays))


def held_partitions(table, y, arrays=None, n_parts=3):
    every = {"y": y, **(arrays or {})}
    no_exposure = {"exposure": None} if "offset" in every else {}
    return [
        Partition(
            k,
            taken(table, slice(a, b)),
            {r: x[a:b] for r, x in every.items()} | no_exposure,
            held=True,
        )
        for k, (a, b) in enumerate(sharding.cut(len(y), n_parts, 1))
    ]


def test_a_validation_table_with_its_own_weights_and_offset():
    """Weights although the training rows have none, and an offset instead of the named columns."""
    table = many_kinds(13, 500)
    n, w, o = 300, make_weights(1, 200), make_offset(1, 200, "poisson")
    table["y"], table["e"] = target(table, "poisson"), make_weights(5, 500)
    first, last = taken(table, slice(0, n)), taken(table, slice(n, None))
    options = {"loss": "poisson", "learners": [cb.Spline("x"), cb.Category("text")]}
    own = held_partitions(last, last["y"], {"weights": w})
    options["validation"] = last, last["y"], w
    same(*both(first, "y", held=own, **options))
    same(*both(first, "y", held=own, exposure="e", **options))
    own = held_partitions(last, last["y"], {"weights": w, "offset": o})
    options["validation"] = last, last["y"], w, o
    same(*both(first, "y", held=own, exposure="e", **options))
    options |= {"validation": (last, last["y"]), "offset": np.ones(n)}
    with pytest.raises(ValueError, match="have an offset or exposure, "):
        cb.fit(first, "y", **options)


def test_a_validation_table_of_weight_zero():
    table = many_kinds(13, 200)
    y, none = target(table, "squared"), np.zeros(200)
    options = {"learners": [cb.Spline("x")], "validation": (table, y, none)}
    own = held_partitions(table, y, {"weights": none})
    for fitted in (cb.fit, partial(fit_on_shards, held=own)):
        with pytest.raises(ValueError, match="validation: no row is held out"):
            fitted(table, y, **options)


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_of_numbers(ordered):
    """Shards order categories as one process does: by number (2 before 10) or as declared."""
    table, rng = many_kinds(18, 300), np.random.default_rng(0)
    codes = pd.Series(np.where(np.arange(300) < 150, 10, rng.choice([2, 10, 33], 300)))
    dtype = pd.CategoricalDtype([33, 2, 10] if ordered else [2, 10, 33], ordered=ordered)
    table["code"] = codes.astype(dtype)
    y = target(table, "squared") + (codes == 2).to_numpy()
    local, other = both(table, y, learners=[cb.Spline("x"), cb.Category("code")])
    same(local, other)
    assert other.terms["code"].plan.encoders == local.terms["code"].plan.encoders


@pytest.mark.parametrize("n_shards", [2, 4])
def test_row_numbers_cause_a_warning(n_shards):
    """Row numbers over all rows are distinguished from numbers that restart in each partition."""
    n = 1200
    whole, again = np.arange(n) * 1.0, np.arange(n) % 300 * 1.0
    y = np.random.default_rng(0).normal(size=n)
    messages = []
    for column in (whole, again, whole[::-1], whole * 3):
        parts = in_parts({"x": column}, y, [300, 600, 900], n_shards)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            same(cb.fit({"x": column}, y, n_iter=3), sharding.fit(parts, y, n_iter=3))
        messages.append([str(w.message)[:30] for w in caught])
    row_count = "column 'x' has a different whole"[:30]
    assert messages == [[row_count] * 2, [], [row_count] * 2, []]


def test_columns_that_are_not_used():
    """Unused columns may have infinite numbers, and a validation table may lack them."""
    table = many_kinds(20, 200)
    table["y"], table["wild"] = target(table, "squared"), np.full(200, np.inf)
    last = {name: column for name, column in table.items() if name in ("x", "text")}
    held = held_partitions(last, table["y"])
    options = {"learners": [cb.Spline("x"), cb.Category("text")], "validation": (last, table["y"])}
    same(*both(table, "y", held=held, **options))
    same(*both(table, "y ~ x + text", held=held, validation=options["validation"]))
    del last["text"]
    held = held_partitions(last, table["y"])
    with pytest.raises(ValueError, match="of the validation table: column 'text' is not in"):
        fit_on_shards(table, "y", held=held, **options)


def test_a_checkpoint(tmp_path):
    table = many_kinds(19, 300)
    y = target(table, "binomial")
    options = {"loss": "binomial", "learners": [cb.Spline("x"), cb.Category("text")], "n_iter": 20}
    whole, file = fit_on_shards(table, y, **options), tmp_path / "fit"
    stopped = fit_on_shards(table, y, **options, checkpoint=file, callback=lambda m: m == 7)
    assert stopped.n_iter == 7
    assert bits(fit_on_shards(table, y, **options, checkpoint=file)) == bits(whole)
    with pytest.raises(ValueError, match=r"another fit|not the rows"):
        fit_on_shards(table, y[::-1], **options, checkpoint=file)


@pytest.mark.parametrize("loss", ["squared", "absolute", "binomial", "gamma"])
@pytest.mark.parametrize("many", [False, True])
def test_a_checkpoint_notices_changes_in_columns_that_were_not_chosen(tmp_path, loss, many):
    """Other values are noticed on other shards too, where sums are rounded differently."""
    n, rng = 4000 if many else 400, np.random.default_rng(3)
    table = {"x": rng.normal(size=n), "z": rng.normal(size=n), "g": rng.choice(list("abc"), n)}
    rest = rng.normal(size=n)
    y = {"binomial": table["x"] + rest > 0, "gamma": np.exp(table["x"] + rest)}
    y = y.get(loss, 1e4 + table["x"] + rest)
    options = {"loss": loss, "validation": 0.25, "weights": rng.uniform(0.5, 2, n)}
    learners = [cb.Spline("x"), cb.Spline("z", smoothing=9.0), cb.Category("g", smoothing=9.0)]
    options |= {"learners": learners, "checkpoint": tmp_path / "fit"}
    first = fit_on_shards(table, y, n_iter=5, **options)
    assert set(first.choices) == {"x"}
    for n_iter in (5, 8):
        for name in ("z", "g"):
            other = table | {name: rng.permutation(table[name])}
            with pytest.raises(ValueError, match=f"column {name} has other values, or in other"):
                fit_on_shards(other, y, n_iter=n_iter, n_shards=3, **options)
    for n_parts, n_shards in ((5, 1), (5, 3), (9, 4), (1, 1)):
        again = fit_on_shards(table, y, n_parts, n_shards, n_iter=8, **options)
        assert again.path.n_iter == 8


# --- ranks of numbers on shards ------------------------------------------------------------------


@st.composite
def columns(draw):
    """Draw numbers of any size, with ties, atoms and zeros of both signs, and weights."""
    n = draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    width = draw(st.sampled_from([0.0, 1.0, 20.0, 300.0]))
    values = 10.0 ** rng.uniform(-width, width, n) * rng.choice([-1.0, 1.0], n)
    if draw(st.booleans()):
        values = np.round(rng.normal(size=n) * draw(st.sampled_from([1.0, 10.0, 1000.0])))
    if draw(st.booleans()):
        values = np.abs(values)
    atoms = draw(st.lists(st.sampled_from([0.0, -0.0, 1.0, 5e-324, -1e308, 1e308]), max_size=3))
    for atom in atoms:
        values[rng.uniform(size=n) < rng.uniform(0.0, 0.6)] = atom
    values[rng.uniform(size=n) < draw(st.sampled_from([0.0, 0.0, 0.3]))] = np.nan
    values[rng.integers(n)] = 2.0  # at least one cell is not missing
    weights = draw(
        st.sampled_from(
            [None, rng.integers(1, 5, n).astype(float), np.full(n, 0.1), rng.uniform(0.1, 3.0, n)]
        )
    )
    return values, weights


@settings(max_examples=50, deadline=None)
@given(columns(), st.integers(1, 4), st.sampled_from([1, 3, 64]), st.booleans())
def test_ranks_of_numbers_on_shards(column, n_shards, few_rows, few_values):
    values, weights = column
    n = len(values)
    options = {} if weights is None else {"weights": weights}
    shards = sharding.split_rows({"x": values}, {"y": np.arange(n) * 1.0, **options}, 4, n_shards)
    data = read_sharded(shards, FitInput({}, 0, weights), ("x",), as_loss("squared"), 0)
    numbers = data.table["x"].statistics
    if not few_values:
        numbers._few = None
    sample = Sample(None, weights, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cwboost.distributed.sharded_numbers.FEW_ROWS", few_rows)
        for n_bins in (2, 5, 12, 50, 128):
            shares = np.linspace(0.0, 1.0, n_bins)
            found = numbers.quantiles(data.sample, shares)
            assert found.tolist() == LocalNumbers(values).quantiles(sample, shares).tolist()
            assert Cuts.make(numbers, data.sample, n_bins) == Cuts.make(values, sample, n_bins)


# --- rules that are implemented here independently ------------------------------------------------


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("n_others", [5, 6000], ids=["few values", "many values"])
@pytest.mark.parametrize("more", [-600, 0, 1, 600])
@pytest.mark.parametrize("n_missing", [0, 1500])
def test_mostly_one_is_more_than_half_of_the_known_cells(n_shards, n_others, more, n_missing):
    rng = np.random.default_rng(n_shards)
    others = rng.choice(rng.normal(size=n_others), 6000, replace=n_others < 6000)
    values = np.concatenate([others, np.full(6000 + more, 7.5), np.full(n_missing, np.nan)])
    values = rng.permutation(values)
    shards = sharding.split_rows({"x": values}, {"y": np.arange(len(values)) * 1.0}, 4, n_shards)
    data = read_sharded(shards, FitInput({}, 0), ("x",), as_loss("squared"), 0)
    _, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    expected = counts.max() / counts.sum() > 0.5
    assert expected == (more > 0)
    assert data.table["x"].statistics.mostly_one() == expected
    assert LocalNumbers(values).mostly_one() == expected


def held_out(y, fraction, seed, classes):
    """Mark random rows to hold out: the fraction of each class, rounded half up."""
    rng, held = np.random.default_rng(seed), np.zeros(len(y), bool)
    for kind in np.unique(y) if classes else [None]:
        rows = np.flatnonzero(y == kind) if classes else np.arange(len(y))
        share = (Decimal(fraction) * len(rows)).quantize(Decimal(1), ROUND_HALF_UP)
        held[rng.permutation(rows)[: int(share)]] = True
    return held


@pytest.mark.parametrize("n", [2, 10, 11, 14, 101])
@pytest.mark.parametrize("fraction", [0.125, 0.25, 0.3, 0.5])
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_held_out_fractions_are_rounded_half_up(n, fraction, loss):
    y = np.arange(2 * n) % 3 == 0 if loss == "binomial" else np.arange(2 * n) * 1.0
    y = y.astype(np.float64)
    expected = held_out(y, fraction, 5, loss == "binomial")
    if not expected.any():
        pytest.skip("the fraction selects no rows")
    table, inputs = {"x": np.arange(2 * n) * 1.0}, FitInput({}, 0, validation=fraction)
    data = read_data(replace(inputs, table=table, y=y), as_loss(loss), 5)
    assert (~data.training).tolist() == expected.tolist()
    shards = sharding.split_rows(table, {"y": y}, 4, 2)
    sharded = read_sharded(shards, inputs, ("x",), as_loss(loss), 5)
    assert sharded.sample.n_rows == 2 * n - expected.sum()
    found = [shard.table["x"].values[~shard.training] for shard in shards.shards]
    assert sorted(np.concatenate(found)) == np.flatnonzero(expected).tolist()


# --- shards that are lost -------------------------------------------------------------------------


def bits(model):
    """Return the bytes of all numbers of a model."""
    arrays = [model.risk, model.start_vector, model.shares, *(t.coef for t in model.terms.values())]
    held = model.validation_risk
    return [x.tobytes() for x in [*arrays, *([] if held is None else [held])]]


@pytest.mark.parametrize(
    ("loss", "optimizer"),
    [
        ("squared", "hybrid"),
        ("binomial", "accelerated"),
        ("binomial", "hybrid"),
        ("huber", "plain"),
    ],
)
def test_a_lost_shard_is_restored(loss, optimizer):
    """Shards are lost at calls throughout the fit: while reading, binning and boosting."""
    table = many_kinds(2, 250)
    y = target(table, loss)
    options = {"loss": loss, "optimizer": OPTIMIZERS[optimizer], "validation": 0.3, "n_iter": 12}
    options |= {
        "learners": [cb.Spline("x"), cb.Step("skewed"), cb.Category("text"), cb.Linear("tied")]
    }
    options |= {"interactions": [("x", "yes")], "weights": make_weights(2, 250)}
    whole = shards_of(table, y, **options)
    model = sharding.fit(whole, y, **options)
    for call in range(1 + len(loss) % 3, whole.calls + 1, whole.calls // 10):
        shards = shards_of(table, y, **options)
        shards.lose_at = (call, call + 1)
        found = sharding.fit(shards, y, **options)
        assert found.choices == model.choices
        assert bits(found) == bits(model), call


# --- odd partitions -------------------------------------------------------------------------------


def in_parts(table, y, ends, n_shards, **arrays):
    """Return shards of partitions that end at the given rows."""
    edges = list(zip([0, *ends], [*ends, len(y)], strict=True))
    every = {"y": y, **arrays}
    parts = [
        Partition(k, taken(table, slice(a, b)), {r: x[a:b] for r, x in every.items()})
        for k, (a, b) in enumerate(edges)
    ]
    return sharding.LocalShards([parts[s::n_shards] for s in range(n_shards)])


ODD = {
    "one": ([], 1),
    "empty first": ([0, 100], 3),
    "empty last": ([100, 300], 3),
    "all but one empty": ([0, 0, 300, 300], 5),
    "one row": ([1, 2, 299], 4),
}


@pytest.mark.parametrize("loss", ["squared", "binomial", "absolute"])
@pytest.mark.parametrize("odd", ODD)
def test_odd_partitions(odd, loss):
    table = many_kinds(14, 300)
    y = target(table, loss)
    learners = [cb.Spline("x"), cb.Step("skewed"), cb.Category("text"), cb.Category("grade")]
    options = {
        "learners": learners,
        "loss": loss,
        "validation": 0.3,
        "n_iter": 15,
        "patience": None,
    }
    same(cb.fit(table, y, **options), sharding.fit(in_parts(table, y, *ODD[odd]), y, **options))


def test_more_shards_than_rows():
    x, y = np.arange(8.0), np.array([0.0, 1.0, 0.0, 2.0, 3.0, 2.0, 5.0, 4.0])
    table = {"x": x, "g": np.array(list("abababab"), object)}
    options = {
        "learners": [cb.Linear("x"), cb.Category("g", df=0.5)],
        "n_iter": 10,
        "patience": None,
    }
    parts = in_parts(table, y, list(range(1, 8)) + [8] * 4, 12)
    same(cb.fit(table, y, **options), sharding.fit(parts, y, **options))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_shards_without_training_or_validation_rows(loss, optimizer):
    table = many_kinds(15, 300)
    y, held = target(table, loss), np.arange(300) >= 200
    learners = [cb.Spline("x"), cb.Step("skewed"), cb.Category("text"), cb.Category("yes")]
    options = {
        "learners": learners,
        "loss": loss,
        "validation": held,
        "n_iter": 15,
        "patience": None,
    }
    options["optimizer"] = OPTIMIZERS[optimizer]
    parts = in_parts(table, y, [100, 200], 3, validation=held)
    same(cb.fit(table, y, **options), sharding.fit(parts, y, **options))


def test_empty_and_constant_columns():
    """Text is missing in whole partitions; columns have only missing cells or a single value."""
    table = many_kinds(16, 300)
    table["text"][:150] = None
    table["none"], table["one"] = np.full(300, np.nan), np.full(300, 3.0)
    table["no text"] = np.full(300, None, object)
    table["last"] = np.where(np.arange(300) < 200, np.nan, table["x"])
    y = np.sin(table["x"]) + 0.5 * (table["text"] == "u")
    learners = [cb.Spline("x"), cb.Category("text"), cb.Linear("last"), cb.Linear("one")]
    with pytest.warns(UserWarning, match="constant") as local:
        model = cb.fit(table, y, learners, n_iter=15)
    with pytest.warns(UserWarning, match="constant") as other:
        found = sharding.fit(in_parts(table, y, [90, 150, 151], 4), y, learners, n_iter=15)
    assert [str(w.message) for w in other] == [str(w.message) for w in local]
    same(model, found)
    for empty in ("none", "no text"):
        same(*both(table, y, learners=[cb.Spline(empty), cb.Spline("x")]))


# --- round trips ----------------------------------------------------------------------------------


def calls_per_iteration(table, y, **options):
    """Return the number of calls in each iteration after the first five."""
    shards = shards_of(table, y, **options)
    counts = []
    sharding.fit(shards, y, **options, callback=lambda: counts.append(shards.calls))
    return np.diff(counts)[5:]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loss", ["binomial", "poisson", "absolute"])
def test_round_trips(loss, optimizer):
    table = many_kinds(17, 800)
    options = {"loss": loss, "optimizer": OPTIMIZERS[optimizer], "n_iter": 60, "patience": None}
    options["validation"] = 0.3
    assert calls_per_iteration(table, target(table, loss), **options).mean() <= 2.0


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_squared_loss_calls_shards_for_new_terms_only(optimizer):
    table = many_kinds(17, 800)
    options = {
        "optimizer": OPTIMIZERS[optimizer],
        "n_iter": 60,
        "patience": None,
        "validation": 0.3,
    }
    options["search"] = "row-free"
    calls = calls_per_iteration(table, target(table, "squared"), **options)
    assert calls.sum() <= 3 * len(table) + 5
    assert np.count_nonzero(calls == 0) > len(calls) / 2


# --- bad input ------------------------------------------------------------------------------------


def same_error(table, y, match=None, **options):
    """Check that both fits raise the same type of error, and return both messages."""
    with pytest.raises((ValueError, TypeError)) as local:
        cb.fit(table, y, **options)
    with pytest.raises(Exception, match=match) as other:
        fit_on_shards(table, y, **options)
    assert type(other.value) is type(local.value)
    return str(local.value), str(other.value)


def place(row, n=100):
    """Return the partition of a row and its position there, for five parts of `split_rows`."""
    for k, (a, b) in enumerate(sharding.cut(n, 5)):
        if a <= row < b:
            return k, row - a
    raise AssertionError


def simple(n=100):
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=n), "z": rng.normal(size=n)}, rng.normal(size=n)


def with_one(values, row, value):
    out = np.array(values)
    out[row] = value
    return out


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("named", [False, True])
def test_y_that_is_not_a_finite_number(bad, named):
    table, y = simple()
    part, row = place(70)
    y = with_one(y, 70, bad)
    if named:
        table, y = {**table, "y": y}, "y"
    same_error(table, y, match=f"partition {part}: .*y'?, row {row}:")


def test_infinite_numbers():
    table, y = simple()
    table["z"] = with_one(table["z"], 70, -np.inf)
    part, row = place(70)
    same_error(table, y, match=f"'z', row {row} of partition {part}: ")
    zero = with_one(np.ones(100), 69, 0.0)
    same_error(table, y, match=f"'z', row {row} of partition {part}: ", weights=zero)


def test_text_as_y():
    table, _ = simple()
    same_error(table, np.array(list("ab") * 50), match="partition 0: ")


@pytest.mark.parametrize(
    ("role", "bad"),
    [
        ("weights", -1.0), ("weights", np.nan), ("weights", np.inf), ("offset", np.nan),
        ("exposure", 0.0), ("exposure", -2.0), ("validation", -1.0), ("validation", np.nan),
    ],
)  # fmt: skip
def test_bad_weights_offset_exposure_and_validation(role, bad):
    table, y = simple()
    part, row = place(70)
    options = {role: with_one(np.ones(100), 70, bad), "loss": "poisson"}
    if role == "validation":
        options[role][:60] = 0.0
    same_error(table, np.abs(np.round(y)), match=f"partition {part}: {role}, row {row}:", **options)


@pytest.mark.parametrize("loss", ["binomial", "multinomial"])
@pytest.mark.parametrize("classes", ["a", "ab", "abc"])
@pytest.mark.parametrize("numbers", [False, True])
def test_classes(loss, classes, numbers):
    table, _ = simple()
    y = np.array((list(classes) * 100)[:100])
    y = np.searchsorted(sorted(set(y)), y).astype(float) if numbers else y
    if classes == "ab" or (classes == "abc" and loss == "multinomial"):
        same(*both(table, y, loss=loss))
    else:
        here, there = same_error(table, y, loss=loss)
        assert here == there


def test_classes_of_rows_with_weight_zero_are_ignored():
    table, _ = simple()
    y = np.array(list("ab") * 50, object)
    y[70] = "c"
    weights = with_one(np.ones(100), 70, 0.0)
    same(*both(table, y, loss="binomial", weights=weights))
    table["y"], table["w"] = y, weights
    same(*both(table, "y", loss="binomial", weights="w"))


def test_a_class_that_only_the_validation_table_has():
    table, _ = simple()
    y = np.array(list("ab") * 50, object)
    last = np.array(list("abc") * 10, object)
    held = held_partitions(taken(table, slice(0, 30)), last)
    validation = (taken(table, slice(0, 30)), last)
    with pytest.raises(ValueError, match="class") as local:
        cb.fit(table, y, loss="binomial", validation=validation)
    with pytest.raises(ValueError, match="of the validation table: ") as other:
        fit_on_shards(table, y, held=held, loss="binomial", validation=validation)
    assert str(local.value) in str(other.value)


def test_a_class_that_no_training_row_has():
    table, _ = simple()
    y = np.array(list("ab") * 50)
    same_error(table, y, loss="binomial", validation=y == "b", match="only one class")


def test_partitions_with_different_columns():
    table, y = simple()
    parts = [{"x": table["x"][:50]}, {"z": table["x"][50:]}]
    shards = sharding.LocalShards([[Partition(k, t, {"y": y[:50]})] for k, t in enumerate(parts)])
    with pytest.raises(ValueError, match="partition 1: expected the columns x of partition 0, got"):
        sharding.fit(shards, y)


@pytest.mark.parametrize("n_shards", [1, 2])
def test_a_column_type_that_differs_between_partitions(n_shards):
    table, y = simple()
    parts = [{"x": table["x"][:50]}, {"x": np.array(list("ab") * 25)}]
    parts = [Partition(k, t, {"y": y[:50]}) for k, t in enumerate(parts)]
    shards = sharding.LocalShards([parts[s::n_shards] for s in range(n_shards)])
    with pytest.raises(TypeError, match=r"column 'x': text in partitions? 1, but numbers in part"):
        sharding.fit(shards, y)


@pytest.mark.parametrize("n_shards", [1, 2])
def test_a_type_of_y_that_differs_between_partitions(n_shards):
    table, _ = simple()
    ys = [np.arange(50) % 2, np.array(list("ab") * 25)]
    parts = [Partition(k, {"x": table["x"][:50]}, {"y": y}) for k, y in enumerate(ys)]
    shards = sharding.LocalShards([parts[s::n_shards] for s in range(n_shards)])
    with pytest.raises(TypeError, match="column 'y': text in partition 1, but numbers in part"):
        sharding.fit(shards, 0, loss="binomial")


@pytest.mark.parametrize("marks", [np.zeros(100, bool), np.ones(100, bool), np.zeros(100)])
def test_validation_that_holds_out_all_or_nothing(marks):
    table, y = simple()
    here, there = same_error(table, y, validation=marks)
    assert here == there


@pytest.mark.parametrize("share", [0.0, 1.0, -0.2, 0.001, True])
def test_bad_validation_fractions(share):
    table, y = simple()
    here, there = same_error(table, y, validation=share)
    assert here == there


@pytest.mark.parametrize("role", ["y", *ROLES])
def test_names_that_the_table_lacks(role):
    table, y = simple()
    options = {role: "nothing", "loss": "poisson"}
    here, there = same_error(table, options.pop("y", np.abs(np.round(y))), **options)
    assert here == there


def test_learners_and_pairs_of_unknown_columns():
    table, y = simple()
    for options in (
        {"learners": [cb.Spline("w")]},
        {"interactions": [("x", "w")]},
        {"learners": "s"},
    ):
        here, there = same_error(table, y, **options)
        assert here == there


def test_no_rows_and_no_y():
    table, y = simple()
    empty = {"x": np.empty(0)}
    cases = (empty, np.empty(0), {}), (table, None, {}), (table, y, {"weights": y * 0.0})
    for *rows, options in cases:
        here, there = same_error(*rows, **options)
        assert here == there


def test_hybrid_without_validation():
    same_error(*simple(), optimizer=cb.Hybrid(), match="Hybrid needs validation rows")


@pytest.mark.parametrize("role", ["y", *ROLES])
def test_arrays_of_another_length(role):
    table, y = simple()
    every = {"y": np.abs(np.round(y)), role: np.ones(100)}
    parts = [
        Partition(k, taken(table, slice(a, a + 50)), {r: x[a : a + 50] for r, x in every.items()})
        for k, a in enumerate((0, 50))
    ]
    parts[1].arrays[role] = np.ones(49)
    options = {role: every[role]} if role != "y" else {}
    with pytest.raises(ValueError, match=f"partition 1: {role} has 49 rows, the table has 50"):
        sharding.fit(sharding.LocalShards([parts]), every["y"], loss="poisson", **options)
    if role in ("y", "offset", "exposure"):
        for part in parts:
            part.arrays["weights"] = with_one(np.ones(50), 3, 0.0)
        with pytest.raises(ValueError, match=f"partition 1: {role} has 49 rows, the table has 50"):
            sharding.fit(
                sharding.LocalShards([parts]), every["y"], loss="poisson", weights=0, **options
            )
