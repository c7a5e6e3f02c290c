"""Tests of cv: its risks equal separate fits, its choice of the iteration, and its output."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from matplotlib import pyplot as plt
from sklearn import metrics as sk
from sklearn.metrics import make_scorer

import cwboost as cb
from cwboost.cli.main import main
from cwboost.metrics.metric import METRICS, as_metrics

pytestmark = pytest.mark.filterwarnings("ignore:cv. the best iteration, ")  # short paths

N = 300
RNG = np.random.default_rng(4)
# Every training part contains all of the few values, so all fits have the same bins and knots.
TABLE = {
    "x": RNG.integers(0, 20, N) / 20,
    "z": RNG.integers(0, 15, N) / 15,
    "g": RNG.choice(list("abc"), N),
}
SHAPE = np.sin(6 * TABLE["x"]) + (TABLE["g"] == "a")
Y = SHAPE + RNG.normal(0, 0.5, N)
LABEL = np.where(SHAPE + RNG.normal(0, 0.7, N) > 0.5, "yes", "no")
KIND = np.where(Y > 1.0, "high", np.where(Y > 0, "mid", "low"))
YEARS = RNG.uniform(0.5, 2, N)
COUNT = RNG.poisson(YEARS * np.exp(SHAPE)).astype(float)
W = RNG.uniform(0.5, 2, N)
FOLD = RNG.permutation(N) % 4
MASKS = [k == FOLD for k in range(4)]
PAIRS = [(~mask, mask) for mask in MASKS]


class Logcosh:
    """A loss written in Python."""

    def loss(self, y, score):
        return np.log(np.cosh(y - score))

    def gradient(self, y, score):
        return np.tanh(score - y)

    def start(self, y, weights):
        return np.average(y, weights=weights)


# --- the same numbers as separate fits ------------------------------------------------------------

CASES = {
    "squared": (Y, {"weights": W}),
    "accelerated": (Y, {"optimizer": cb.Accelerated(0.1, 0.03)}),
    "binomial": (LABEL, {"loss": "binomial", "weights": W}),
    "multinomial": (KIND, {"loss": "multinomial"}),
    "poisson": (COUNT, {"loss": "poisson", "exposure": YEARS}),
    "quantile": (Y, {"loss": cb.Quantile(0.8)}),
    "python": (Y, {"loss": Logcosh()}),
}


@pytest.mark.parametrize("case", CASES)
def test_risks_equal_fits_with_validation_rows(case):
    y, options = CASES[case]
    found = cb.cv(TABLE, y, n_iter=30, folds=PAIRS, extend=False, keep_models=True, **options)
    assert found.risk.shape == found.training_risk.shape == (4, 31)
    for k, mask in enumerate(MASKS):
        model = cb.fit(TABLE, y, n_iter=30, validation=mask, patience=None, **options)
        np.testing.assert_allclose(found.risk[k], model.validation_risk, rtol=1e-9)
        np.testing.assert_allclose(found.training_risk[k], model.risk, rtol=1e-9)
        for name, term in model.terms.items():  # lambda is chosen per fold
            assert found.models[k].terms[name].smoothing == pytest.approx(term.smoothing, rel=1e-8)


def test_bootstrap_folds_are_fits_with_counts_as_weights():
    counts = np.random.default_rng(0).poisson(1.0, (N, 3))
    found = cb.cv(TABLE, Y, n_iter=20, folds=counts, weights=W, extend=False)
    for k in range(3):
        w, out = counts[:, k] * W, counts[:, k] == 0
        model = cb.fit(
            TABLE, Y, n_iter=20, weights=np.where(out, W, w), validation=out, patience=None
        )
        np.testing.assert_allclose(found.risk[k], model.validation_risk, rtol=1e-9)


def test_the_risk_is_the_weighted_mean_loss_of_predictions():
    found = cb.cv(TABLE, Y, n_iter=20, folds=PAIRS, weights=W, extend=False)
    for m in (0, 7, 20):
        for k, mask in enumerate(MASKS):
            model = cb.fit(TABLE, Y, n_iter=m, weights=np.where(mask, 0.0, W))
            misses = Y - model.predict(TABLE)
            expected = np.average(misses[mask] ** 2, weights=W[mask]) / 2
            assert found.risk[k, m] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("optimizer", [cb.Plain(), cb.Hybrid(momentum=0.1)], ids=repr)
def test_test_rows_do_not_influence_the_fit(optimizer):
    folds = PAIRS[:2]
    options = {"folds": folds, "optimizer": optimizer, "n_iter": 60, "extend": False}
    found = cb.cv(TABLE, Y, keep_models=True, **options)
    other = cb.cv(TABLE, np.where(MASKS[0], 50 - Y, Y), keep_models=True, **options)
    assert np.array_equal(found.training_risk[0], other.training_risk[0])
    assert not np.array_equal(found.risk[0], other.risk[0])
    assert not np.array_equal(found.training_risk[1], other.training_risk[1])


@pytest.mark.parametrize("then", ["training", "all"])
def test_hybrid_holds_out_a_share_of_the_training_rows(then):
    optimizer = cb.Hybrid(0.1, 0.2, then=then)
    options = {"optimizer": optimizer, "n_iter": 150, "validation": 0.3, "extend": False}
    found = cb.cv(TABLE, Y, folds=PAIRS[:1], keep_models=True, metric=["risk", "rmse"], **options)
    # Half the squared error is the risk along the whole path, switch and rewind included.
    np.testing.assert_allclose(found.metrics["rmse"] ** 2 / 2, found.risk, rtol=1e-10)
    assert found.risk.shape == (1, 151)
    grouped = cb.cv(TABLE, Y, folds=3, groups=np.arange(N) // 10, **options)
    in_time = cb.cv(TABLE, Y, folds=cb.Folds("time", 3), **options)
    assert grouped.n_folds == in_time.n_folds == 3


def test_threads_and_zero_weights_change_nothing():
    one = cb.cv(TABLE, Y, n_iter=40, folds=5, n_threads=1, metric=["risk", "mae"], extend=False)
    for n_threads in (2, 7):
        more = cb.cv(
            TABLE, Y, n_iter=40, folds=5, n_threads=n_threads, metric=["risk", "mae"], extend=False
        )
        assert np.array_equal(one.risk, more.risk)
        assert np.array_equal(one.metrics["mae"], more.metrics["mae"])
    w = np.where(np.arange(N) < 40, 0.0, 1.0)
    rest = {name: column[40:] for name, column in TABLE.items()}
    absent = cb.cv(TABLE, Y, n_iter=10, folds=5, weights=w, extend=False)
    shorter = cb.cv(rest, Y[40:], n_iter=10, folds=5, weights=w[40:], extend=False)
    assert np.array_equal(absent.risk, shorter.risk)


def test_a_formula_and_names_of_columns():
    rows = TABLE | {"y": Y, "who": np.arange(N) // 5, "w": W}
    found = cb.cv(rows, "y ~ .", n_iter=10, groups="who", weights="w", keep_models=True, folds=3,
                  extend=False)  # fmt: skip
    assert list(found.models[0].terms) == ["x", "z", "g"]
    same = cb.cv(rows, "y", n_iter=10, groups="who", weights="w", folds=3, extend=False)
    assert np.array_equal(found.risk, same.risk)
    arrays = cb.cv(TABLE, Y, n_iter=10, groups=rows["who"], weights=W, folds=3, extend=False)
    assert np.array_equal(found.risk, arrays.risk)


# --- choice of the iteration ----------------------------------------------------------------------


def make_cv(values, greater=False, ended=True):
    values = np.asarray(values, float)
    name = "score" if greater else "risk"
    grid = np.arange(values.shape[1])
    return cb.CV(values, values, {"score": values}, grid, name, greater, cb.Squared(), cb.Plain(),
                 values.shape[1] - 1, ended, len(values))  # fmt: skip


def test_best_and_one_standard_error():
    found = make_cv([[9, 6, 4, 3, 5], [9, 4, 3, 3, 5], [9, 8, 5, 3.5, 5]])
    np.testing.assert_allclose(found.mean, [9, 6, 4, 9.5 / 3, 5])
    np.testing.assert_allclose(found.standard_error[1], 2 / np.sqrt(3))
    assert found.best_iteration == 3
    assert found.best == pytest.approx(9.5 / 3)
    assert found.best_iteration_1se == 3  # se 0.17
    wide = make_cv([[9, 6, 4, 3, 5], [9, 4, 3, 1, 5], [9, 8, 5, 6, 5]])
    assert (wide.best_iteration, wide.best_iteration_1se) == (3, 2)
    up = make_cv(-wide.values, greater=True)
    assert (up.best_iteration, up.best_iteration_1se) == (3, 2)
    alone = make_cv([[9, 6, 4, 3, 5]])
    assert np.isnan(alone.standard_error).all()
    assert (alone.best_iteration, alone.best_iteration_1se) == (3, 3)
    assert make_cv([[3, 3, 3.0]] * 2).best_iteration == 0


def test_repeated_draws_do_not_reduce_the_standard_error():
    for folds, distinct in [
        (5, 5),
        (cb.Folds("kfold", 5, repeats=4), 5),
        (cb.Folds("bootstrap", 60), np.e),
        (cb.Folds("subsampling", 60, fraction=0.75), 4),
        (cb.Folds("time", 5), 5),
    ]:
        found = cb.cv(TABLE, Y, n_iter=3, folds=folds, extend=False)
        assert found.distinct == pytest.approx(distinct, rel=0.05)
        spread = found.risk.std(axis=0, ddof=1)
        np.testing.assert_allclose(found.standard_error, spread / np.sqrt(found.distinct))


def test_a_diverging_path_is_not_chosen():
    found = make_cv([[9, 6, 4, np.inf], [9, 6, 3, 2]])
    assert found.best_iteration == 2
    assert found.best_iteration_1se == 2
    fits = cb.cv(TABLE, Y, optimizer=cb.Accelerated(1.9, 2.0), n_iter=80, folds=2, extend=False)
    assert np.isfinite(fits.best)


def test_at_edge():
    fall = 1 / np.arange(1.0, 102.0)
    assert make_cv([fall, fall], ended=False).at_edge
    assert not make_cv([fall, fall], ended=True).at_edge
    early = np.where(np.arange(101) < 90, fall, fall + 1)
    assert not make_cv([early, early], ended=False).at_edge
    flat = np.maximum(1 - 0.1 * np.arange(101), 0.05)
    still = flat - 1e-7 * np.arange(101)  # falls to the end, but by a negligible amount
    assert make_cv([still, still]).best_iteration == 100
    assert not make_cv([still, still], ended=False).at_edge
    perfect = 1e6 * np.exp(-np.arange(101) / 5)  # a tiny part of the total gain, but of the risk
    assert make_cv([perfect, perfect], ended=False).at_edge


def test_paths_are_extended_while_the_best_iteration_is_among_the_last():
    slow = {"optimizer": cb.Plain(0.05), "folds": 3, "metric": ["risk", "rmse"]}
    with pytest.warns(UserWarning, match=r"best of n_iter=40 .* continued to \d+; the best"):
        found = cb.cv(TABLE, Y, n_iter=40, **slow)
    assert found.asked == 40 < found.best_iteration < found.n_iter
    assert found.n_iter in (80, 160, 320)
    assert not found.at_edge
    whole = cb.cv(TABLE, Y, n_iter=found.n_iter, **slow)  # no warning
    np.testing.assert_allclose(found.risk, whole.risk, rtol=1e-12)
    np.testing.assert_allclose(found.metrics["rmse"], whole.metrics["rmse"], rtol=1e-12)
    with pytest.warns(UserWarning, match="best iteration, 4., is among the last of 45; raise"):
        short = cb.cv(TABLE, Y, n_iter=40, **slow | {"optimizer": cb.Plain(0.01)}, extend=45)
    assert short.n_iter == 45
    with pytest.warns(UserWarning, match="is among the last of 40"):
        assert cb.cv(TABLE, Y, n_iter=40, extend=False, **slow).n_iter == 40
    explicit = cb.cv(TABLE, Y, n_iter=40, extend=2000, **slow)  # extend is set, so no warning
    assert explicit.best_iteration == found.best_iteration


def test_paths_that_cannot_be_extended_keep_their_length():
    x = np.repeat([0.0, 1.0], 50)
    found = cb.cv({"x": x}, 2 * x, [cb.Linear("x")], n_iter=1500, optimizer=cb.Plain(0.5), folds=2)
    assert found.ended
    assert found.n_iter < 1500
    assert not found.at_edge


# --- metrics --------------------------------------------------------------------------------------


def fold_scores(y, function, m, **options):
    """Return the metric on the test rows of every fold, from separate fits."""
    out = []
    for mask in MASKS:
        model = cb.fit(TABLE, y, n_iter=m, weights=np.where(mask, 0.0, W), **options)
        out.append(function(y[mask], model.predict(TABLE)[mask], W[mask]))
    return np.array(out)


REGRESSION_METRICS = {
    "rmse": lambda y, p, w: np.sqrt(sk.mean_squared_error(y, p, sample_weight=w)),
    "mae": lambda y, p, w: sk.mean_absolute_error(y, p, sample_weight=w),
    "r2": lambda y, p, w: sk.r2_score(y, p, sample_weight=w),
    "neg_mean_absolute_error": lambda y, p, w: -sk.mean_absolute_error(y, p, sample_weight=w),
}
BINARY_METRICS = {
    "auc": lambda y, p, w: sk.roc_auc_score(y == "yes", p, sample_weight=w),
    "log_loss": lambda y, p, w: sk.log_loss(y == "yes", p, sample_weight=w),
    "accuracy": lambda y, p, w: np.average((p > 0.5) == (y == "yes"), weights=w),
    "brier": lambda y, p, w: sk.brier_score_loss(y == "yes", p, sample_weight=w),
    "roc_auc": lambda y, p, w: sk.roc_auc_score(y == "yes", p, sample_weight=w),
    "f1_macro": lambda y, p, w: sk.f1_score(
        y, np.where(p > 0.5, "yes", "no"), average="macro", sample_weight=w
    ),
    "neg_log_loss": lambda y, p, w: -sk.log_loss(y == "yes", p, sample_weight=w),
}
MULTICLASS_METRICS = {
    "auc": lambda y, p, w: sk.roc_auc_score(y, p, multi_class="ovr", sample_weight=w),
    "log_loss": lambda y, p, w: sk.log_loss(y, p, sample_weight=w),
    "accuracy": lambda y, p, w: np.average(
        np.array(["high", "low", "mid"])[p.argmax(axis=1)] == y, weights=w
    ),
    "brier": lambda y, p, w: np.average(
        ((p - (y[:, None] == ["high", "low", "mid"])) ** 2).sum(axis=1), weights=w
    ),
}
KINDS = {
    "squared": (Y, REGRESSION_METRICS),
    "binomial": (LABEL, BINARY_METRICS),
    "multinomial": (KIND, MULTICLASS_METRICS),
}


@pytest.mark.parametrize("loss", KINDS)
def test_metrics_equal_scikit_learn(loss):
    y, known = KINDS[loss]
    found = cb.cv(
        TABLE, y, loss=loss, n_iter=12, folds=PAIRS, weights=W, metric=list(known), extend=False
    )
    for name, function in known.items():
        for m in (0, 12):
            expected = fold_scores(y, function, m, loss=loss)
            np.testing.assert_allclose(found.metrics[name][:, m], expected, rtol=1e-8, err_msg=name)
    greater = {name: metric.greater_is_better for name, metric in METRICS.items()}
    for metric in as_metrics(list(known), None, cb.Squared(), ("a",) if loss != "squared" else ()):
        assert metric.greater_is_better == greater.get(metric.name, True)


def test_functions_and_scorers():
    def hits_score(y, prediction):
        return np.mean((prediction > 0.5) == (y == "yes"))

    def weighed(y, prediction, sample_weight):
        return np.average((prediction > 0.5) != (y == "yes"), weights=sample_weight)

    wanted = {
        "hits_score": hits_score,
        "off": weighed,
        "scorer": make_scorer(sk.accuracy_score),
        "risk": "risk",
    }
    found = cb.cv(TABLE, LABEL, loss="binomial", folds=PAIRS, metric=wanted, n_iter=10,
                  greater_is_better=True, extend=False)  # fmt: skip
    assert found.chosen_by == "hits_score"
    assert found.greater_is_better
    assert list(found.metrics) == ["hits_score", "off", "scorer"]
    np.testing.assert_allclose(found.metrics["hits_score"], 1 - found.metrics["off"])
    np.testing.assert_allclose(found.metrics["hits_score"], found.metrics["scorer"])
    one = cb.cv(TABLE, Y, folds=PAIRS, metric=sk.mean_absolute_error, n_iter=10, extend=False)
    assert one.chosen_by == "mean_absolute_error"
    assert not one.greater_is_better
    assert one.mean[one.best_iteration] == one.mean.min()


def test_metrics_on_a_grid():
    options = {"n_iter": 40, "folds": PAIRS, "extend": False}
    each = cb.cv(TABLE, Y, metric="mae", **options)
    some = cb.cv(TABLE, Y, metric="mae", every=7, **options)
    assert some.grid.tolist() == [0, 7, 14, 21, 28, 35, 40]
    assert np.array_equal(some.metrics["mae"], each.metrics["mae"][:, some.grid])
    assert some.best_iteration in some.grid
    table = some.table()
    assert np.isnan(table["mae"]).sum() == 41 - 7
    assert table["mae"][14] == each.mean[14]
    assert len(some.risk[0]) == 41


def test_metrics_on_large_test_parts_are_computed_less_often():
    n = 30_000
    x = np.random.default_rng(0).integers(0, 50, n) / 50
    found = cb.cv({"x": x}, x > 0.3, loss="binomial", n_iter=100, folds=2, metric="auc",
                  extend=False)  # fmt: skip
    assert found.grid.tolist() == list(range(0, 101, 2))


# --- refused arguments ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "speed"}, "metric: expected 'risk', 'auc', .* or a function .*; got 'speed'"),
        ({"metric": 3}, "expected a name or a function"),
        ({"metric": []}, "the list is empty"),
        ({"metric": ["mae", "mae"]}, "not all different"),
        ({"metric": "auc"}, "metric 'auc' is for classes, not for the squared loss"),
        ({"metric": lambda y, _: y.sum()}, "pass greater_is_better=True or False"),
        ({"metric": "mae", "greater_is_better": True}, "applies only to functions"),
        ({"n_iter": -1}, "n_iter: expected a whole number"),
        ({"n_iter": 20, "extend": 10}, "extend: expected True, False or a largest number"),
        ({"extend": "yes"}, "extend: expected True"),
        ({"every": 0}, "every must be a whole number > 0"),
        ({"optimizer": "newton"}, "optimizer: expected 'plain'"),
        ({"validation": 0.2}, "validation: Plain uses no validation rows"),
        ({"optimizer": cb.Hybrid(), "validation": 1.5}, "expected a share between 0 and 1"),
        ({"n_threads": 0}, "n_threads: expected"),
        ({"folds": 1}, "expected at least 2"),
        ({"progress": "loud"}, "progress: expected"),
    ],
    ids=lambda x: ", ".join(x) if isinstance(x, dict) else x,
)
def test_bad_input_is_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        cb.cv(TABLE, Y, **options)


def test_metrics_that_are_not_numbers_are_refused():
    only = np.flatnonzero(LABEL == "yes")[:20]
    folds = [(np.setdiff1d(np.arange(N), only), only)]
    with pytest.raises(ValueError, match="metric 'auc' is not a number on the test rows"):
        cb.cv(TABLE, LABEL, loss="binomial", folds=folds, metric="auc", n_iter=5)
    with pytest.raises(ValueError, match="the rows have weights, which it does not take"):
        cb.cv(TABLE, Y, weights=W, metric=lambda y, p: 0.0, greater_is_better=True, n_iter=5)


# --- printing, pickling and plotting --------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    return cb.cv(TABLE, LABEL, loss="binomial", n_iter=120, folds=5, metric=["risk", "auc"],
                 extend=2000)  # fmt: skip


def test_summary_and_page(found):
    text = found.summary()
    assert f"best by risk: cb.fit(..., n_iter={found.best_iteration})" in text
    assert re.search(rf"best +{found.best_iteration} +{found.best:.5g}", text)
    assert f"after {found.best_iteration}," in repr(found)
    page = found._repr_html_()
    assert page.count("<tr>") == 5
    assert "<svg" in page
    assert "nan" not in page
    by_name = cb.cv(TABLE, Y, n_iter=5, folds=2, metric={"<b>": "mae"}, extend=False)
    assert "<b>:" not in by_name._repr_html_()
    alone = cb.cv(TABLE, Y, n_iter=5, folds=PAIRS[:1], extend=False)
    assert "<svg" in alone._repr_html_()
    assert repr(alone).startswith("<cwboost.CV: 1 fold, ")
    assert re.search(r"start +0 +\S+ +- ", alone.summary())


def test_table(found):
    table = found.table()
    assert list(table) == ["iteration", "risk", "risk_se", "training_risk", "auc", "auc_se"]
    np.testing.assert_allclose(table["risk"], found.risk.mean(axis=0))
    np.testing.assert_allclose(table["auc_se"], found.metrics["auc"].std(axis=0, ddof=1) / 5**0.5)


def test_models_are_kept_on_request():
    kept = cb.cv(TABLE, Y, n_iter=60, folds=PAIRS, keep_models=True, extend=False)
    assert [m.n_iter for m in kept.models] == [kept.best_iteration] * 4
    mask = MASKS[2]
    expected = cb.fit(TABLE, Y, n_iter=kept.best_iteration, weights=np.where(mask, 0.0, 1.0))
    np.testing.assert_allclose(kept.models[2].predict(TABLE), expected.predict(TABLE), rtol=1e-8)
    assert cb.cv(TABLE, Y, n_iter=5, folds=2, extend=False).models is None


def test_pickle(found):
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.risk, found.risk)
    assert again.summary() == found.summary()


@pytest.mark.parametrize("log", [None, True, False])
def test_the_picture_shows_folds_mean_band_and_choices(found, log):
    display = found.plot(log=log)
    ax = display.ax_
    lines = [line.get_ydata() for line in ax.lines]
    for values in (*found.risk, found.mean):
        assert any(np.array_equal(values, line) for line in lines)
    marked = {line.get_xdata()[0] for line in ax.lines if line.get_marker() == "o"}
    assert marked == {found.best_iteration, found.best_iteration_1se}
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert f"best: {found.best_iteration:,} iterations" in words
    low, high = ax.get_ylim()
    assert low < found.mean.min() < high
    assert (ax.get_xscale() == "log") == (log is not False)
    np.testing.assert_allclose(display.data["fold 3"], found.risk[3])
    plt.close(display.figure_)


def test_the_picture_of_a_metric_and_of_one_fold():
    up = cb.cv(TABLE, LABEL, loss="binomial", n_iter=30, folds=3, metric="auc", extend=False)
    _, ax = plt.subplots()
    assert up.plot(ax=ax).ax_ is ax
    assert ax.get_ylabel() == "auc of test rows"
    alone = cb.cv(TABLE, Y, n_iter=0, folds=PAIRS[:1], extend=False).plot()
    assert alone.ax_.get_ylabel() == "risk of test rows (mean squared loss)"
    plt.close("all")


# --- Ctrl-C ---------------------------------------------------------------------------------------

SCRIPT = """
import os, signal, threading, time
import numpy as np
import cwboost as cb

rng = np.random.default_rng(0)
table = {{"x": rng.uniform(size=2000), "z": rng.normal(size=2000)}}
y = np.sin(6 * table["x"]) + rng.normal(size=2000)
sent = []

def interrupt():
    time.sleep(0.7)
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

def slow_score(y, prediction):
    time.sleep(0.005)
    return 0.0

options = dict(n_iter={n_iter}, metric={metric}, n_threads={n_threads}, folds=4)
cb.cv(table, y, **options | dict(n_iter=2, metric=None, extend=False))
threading.Thread(target=interrupt, daemon=True).start()
try:
    cb.cv(table, y, **options)
except KeyboardInterrupt as stop:
    assert not isinstance(stop, cb.Interrupted)
    assert time.perf_counter() - sent[0] < 1.0
else:
    raise SystemExit("was not interrupted")
assert cb.cv(table, y, n_iter=150, folds=2, optimizer=cb.Plain(0.3)).n_iter == 150
print("fine")
"""


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize(("n_iter", "metric"), [(10**7, "None"), (100_000, "slow_score")])
def test_ctrl_c(n_threads, n_iter, metric):
    script = textwrap.dedent(SCRIPT).format(n_iter=n_iter, metric=metric, n_threads=n_threads)
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=60
    )
    assert run.stdout.strip() == "fine", run.stderr


# --- the command line -----------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path, monkeypatch):
    from cwboost.frames.files import write_table

    monkeypatch.chdir(tmp_path)
    write_table("rows.csv", TABLE | {"y": Y, "label": LABEL, "who": np.arange(N) // 3, "w": W})
    return "rows.csv"


LEFT_OUT = ["--exclude", "label", "who", "w"]


def test_the_command_prints_and_writes_the_result_of_cv(file, capsys, tmp_path):
    arguments = ["--target", "y", "--folds", "4", "--iterations", "60", *LEFT_OUT, "--rate", "0.2"]
    assert main(["cv", file, *arguments, "-o", "path.csv", "--plot", "cv.svg"]) == 0
    found = cb.cv(TABLE, Y, "auto", n_iter=60, folds=4, optimizer=cb.Plain(0.2))
    output = capsys.readouterr().out
    options = "--optimizer plain --rate 0.2 --validation none"
    assert f"{options} --iterations {found.best_iteration}" in output
    assert "within one se" in output
    written = np.genfromtxt("path.csv", delimiter=",", names=True)
    np.testing.assert_allclose(written["risk"], found.mean, rtol=1e-12)
    assert (tmp_path / "cv.svg").read_text().startswith("<?xml")
    assert main(["cv", file, *arguments, "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("iteration,risk,risk_se,training_risk")


def test_the_command_polishes_the_folds(file, capsys):
    arguments = ["--target", "y", "--folds", "3", "--iterations", "20", *LEFT_OUT]
    assert main(["cv", file, *arguments, "--polish", "always", "--no-extension"]) == 0
    found = cb.cv(TABLE, Y, "auto", n_iter=20, folds=3, polish=True, extend=False)
    output = capsys.readouterr().out
    assert f" --iterations {found.best_iteration}\n" in output
    assert found.polished.words in output


@pytest.mark.parametrize(
    ("more", "options"),
    [
        (["--kind", "bootstrap"], {"folds": cb.Folds("bootstrap", 3)}),
        (["--kind", "subsampling", "--fraction", "0.7"],
         {"folds": cb.Folds("subsampling", 3, fraction=0.7)}),
        (["--repeats", "2"], {"folds": cb.Folds("kfold", 3, repeats=2)}),
        (["--groups", "who"], {"groups": np.arange(N) // 3}),
        (["--weights", "w"], {"weights": W}),
        (["--seed", "5"], {"random_state": 5}),
        (["--terms", "smooth"], {"learners": "smooth"}),
        (["--optimizer", "hybrid"], {"optimizer": cb.Hybrid()}),
        (["--metric", "mae", "risk"], {"metric": ["mae", "risk"]}),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)  # fmt: skip
def test_options_of_the_command(file, capsys, more, options):
    roles = [a for a in more[1:] if a in ("who", "w")]
    excluded = [name for name in ("label", "who", "w") if name not in roles]
    code = main(["cv", file, "--target", "y", "--folds", "3", "--iterations", "15", "--exclude",
                 *excluded, "--no-extension", "-o", "-", *more])  # fmt: skip
    assert code == 0
    lines = capsys.readouterr().out.splitlines()
    found = cb.cv(TABLE, Y, **{"learners": "auto", "folds": 3} | options, n_iter=15, extend=False)
    column = lines[0].split(",").index(found.chosen_by)
    written = [float(line.split(",")[column]) for line in lines[1:]]
    np.testing.assert_allclose(written, found.mean)


def test_classes_and_formulas_of_the_command(file, capsys):
    options = ["--folds", "3", "--iterations", "15", "--no-extension"]
    assert main(["cv", file, "--formula", "label ~ s(x) + g", *options, "--metric", "auc"]) == 0
    output = capsys.readouterr().out
    assert "Binomial() loss" in output
    assert "auc_se" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give the column to predict"),
        (["--target", "y", "--folds", "1"], "--folds must be a whole number >= 2"),
        (["--target", "y", "--fraction", "0.3"], "fraction applies only to 'subsampling'"),
        (["--target", "y", "--plot", "cv.txt"], "expected a name that ends in .png"),
        (["--target", "y", "--kind", "loo"], "invalid choice"),
    ],
    ids=repr,
)
def test_wrong_usage_of_the_command(file, capsys, arguments, message):
    with pytest.raises(SystemExit) as stop:
        main(["cv", file, *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_errors_of_the_command(file, capsys):
    assert main(["cv", file, "--target", "y", "--metric", "auc"]) == 1
    assert "metric 'auc' is for classes" in capsys.readouterr().err
    assert main(["cv", file, "--target", "nobody"]) == 1
    assert "'nobody'" in capsys.readouterr().err
