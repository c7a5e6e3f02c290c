"""Tests of the loss interface: user-defined losses work wherever built-in losses do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest
from scipy.special import expit, ndtr

import cwboost as cb
from cwboost.cli.predictions import predict_columns
from cwboost.explain.explanation import explain
from cwboost.explain.quality import calibration, evaluate_rows, figures
from cwboost.frames.read_frames import read, read_column
from cwboost.losses import LOSSES, Loss, as_loss, is_registered, loss_for_classes
from cwboost.losses.classes import code_array, code_classes
from cwboost.losses.links import INVERSE_LINKS
from cwboost.metrics.metric import METRICS, register_metric

pytestmark = pytest.mark.filterwarnings("ignore:cv. the best iteration:UserWarning")

RNG = np.random.default_rng(0)
N = 300
X = RNG.uniform(size=N)
TABLE = {"x": X, "g": np.where(RNG.random(N) < 0.4, "a", "b")}
COUNTS = RNG.poisson(np.exp(1 + np.sin(5 * X))).astype(float)
LABELS = np.where(RNG.random(N) < expit(3 * X - 1.5), "yes", "no")
EACH = [cb.Squared(), cb.Absolute(), cb.Quantile(0.3), cb.Huber(0.7), cb.Binomial(),
        cb.Poisson(), cb.Gamma(), cb.Tweedie(1.4)]  # fmt: skip


@dataclass(frozen=True)
class MyPoisson(Loss):
    """The Poisson loss, written as Python functions under another name."""

    name: ClassVar[str] = "my poisson"
    link: ClassVar[str | None] = "log"
    likelihood: ClassVar[Literal["exact", "normal"] | None] = "exact"
    default_metric: ClassVar[str] = "mae"

    def loss(self, y, score):
        return np.exp(score) - y * score

    def gradient(self, y, score):
        return np.exp(score) - y

    def start_of(self, rows):
        return cb.Poisson().start_of(rows)

    def scale_of(self, rows, start):
        return cb.Poisson().scale_of(rows, start)

    def check_y(self, y):
        cb.Poisson().check_y(y)

    def curvature(self, y, score):
        return np.exp(score)

    def likelihood_constant(self, y):
        return cb.Poisson().likelihood_constant(y)


class Probit:
    """A loss for classes with a link that cwboost does not know, as a plain Python object."""

    target = "classes"
    link = "probit"
    estimand = "the chance"
    bootstrap_rate = 1.0

    def class_values(self, n):
        return np.array([-1.0, 1.0])

    def response(self, score):
        return ndtr(score)

    def loss(self, y, score):
        return -np.log(np.maximum(ndtr(y * score), 1e-300))

    def gradient(self, y, score):
        density = np.exp(-(score**2) / 2) / np.sqrt(2 * np.pi)
        return -y * density / np.maximum(ndtr(y * score), 1e-300)

    def start(self, y, weights):
        from scipy.special import ndtri

        return float(ndtri(np.average(y > 0, weights=weights)))


def fitted(loss, y):
    return cb.fit(TABLE, y, loss=loss, n_iter=400)


@pytest.mark.parametrize("loss", EACH, ids=lambda loss: loss.name)
def test_curvature_is_the_second_derivative_of_the_loss(loss):
    y = np.array([0.5, 1.0, 3.0, 2.0]) if loss.target == "numbers" else np.array([-1.0, 1, 1, -1])
    if not loss.has_curvature:
        with pytest.raises(NotImplementedError, match="does not define curvature"):
            loss.curvature(y, y)
        return
    score, step = np.array([0.4, 0.2, -0.1, 0.3]), 1e-4
    if loss.name == "huber":
        score = y + np.array([0.1, -0.2, 3.0, 0.5])

    def risk_of(k, at):
        from cwboost.losses import risk

        return risk(loss, y[k : k + 1], np.array([at]), np.ones(1))

    expected = [
        (risk_of(k, f + step) - 2 * risk_of(k, f) + risk_of(k, f - step)) / step**2
        for k, f in enumerate(score)
    ]
    np.testing.assert_allclose(loss.curvature(y, score), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", [*EACH, cb.Multinomial(3)], ids=lambda loss: loss.name)
def test_responses_apply_the_inverse_link(loss):
    score = RNG.normal(size=(5, loss.n_outputs))
    np.testing.assert_array_equal(loss.response(score), INVERSE_LINKS[loss.link](score))
    np.testing.assert_array_equal(loss.predict(score, "response"), loss.response(score))
    assert loss.predict(score, "score").shape == ((5,) if loss.n_outputs == 1 else score.shape)
    assert loss.log_link == (loss.link == "log")


def test_code_label_and_identity_of_losses():
    assert (cb.Squared().code(), cb.Squared().label()) == ("'squared'", "squared")
    assert cb.Quantile(0.9).code() == "cb.Quantile(tau=0.9)"
    assert cb.Quantile(0.9).label() == "quantile, tau=0.9"
    assert cb.Quantile(0.9).identity() == "Quantile(tau=0.9)"
    assert MyPoisson().code() == as_loss(Probit()).code() == "loss"
    assert MyPoisson().label() == "my poisson"
    assert as_loss(Probit()).label() == "Probit (written in Python)"
    assert MyPoisson().identity().startswith("MyPoisson ")


def test_a_subclass_is_fitted_evaluated_and_exported_like_the_loss_it_copies(tmp_path):
    mine, theirs = fitted(MyPoisson(), COUNTS), fitted("poisson", COUNTS)
    np.testing.assert_allclose(mine.predict(TABLE), theirs.predict(TABLE), rtol=1e-6)
    found = [figures(evaluate_rows(m, read(TABLE), COUNTS)) for m in (mine, theirs)]
    assert list(found[0]) == list(found[1])
    np.testing.assert_allclose(list(found[0].values()), list(found[1].values()), rtol=1e-6)
    criteria = [cb.aic(m, TABLE, COUNTS) for m in (mine, theirs)]
    np.testing.assert_allclose(criteria[0].path, criteria[1].path, rtol=1e-6)
    np.testing.assert_allclose(criteria[0].df, criteria[1].df, rtol=1e-6)
    assert 'exp("score") AS "response"' in mine.to_sql()
    mine.report(tmp_path / "report.html", TABLE, COUNTS)
    assert "loss=loss" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert mine.with_bands(TABLE, COUNTS, n_boot=10).bands is not None
    found = cb.cv(TABLE, COUNTS, loss=MyPoisson(), n_iter=10, folds=3, extend=False)
    assert found.chosen_by == "mae"
    estimator = cb.CWBRegressor(MyPoisson()).fit(X[:, None], COUNTS)
    assert 0 < estimator.score(X[:, None], COUNTS) < 1
    with pytest.raises(ValueError, match="numbers >= 0"):
        fitted(MyPoisson(), -COUNTS)


@pytest.mark.parametrize("loss", ["poisson", "tweedie"])
def test_rows_with_only_zero_counts_can_be_evaluated(loss):
    model = cb.fit(TABLE, COUNTS, loss=loss, n_iter=5)
    found = figures(evaluate_rows(model, read(TABLE), np.zeros(len(COUNTS))))
    assert found["deviance explained"] == 0.0
    estimator = cb.CWBRegressor(loss=loss, n_iter=5).fit(TABLE["x"][:, None], COUNTS)
    assert estimator.score(TABLE["x"][:, None], np.zeros(len(COUNTS))) == 0.0


def test_a_registered_subclass_is_saved(tmp_path):
    model = fitted(MyPoisson(), COUNTS)
    assert not is_registered(model.loss)
    with pytest.raises(TypeError, match=r"the my poisson loss cannot be stored.*losses\.LOSSES"):
        model.save(tmp_path / "model.json")
    LOSSES[MyPoisson.name] = MyPoisson
    try:
        model.save(tmp_path / "model.json")
        again = cb.load(tmp_path / "model.json")
    finally:
        del LOSSES[MyPoisson.name]
    assert again.loss == MyPoisson()
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))


def test_an_object_may_be_a_loss_for_classes(tmp_path):
    model, usual = fitted(Probit(), LABELS), fitted("binomial", LABELS)
    assert model.classes == ("no", "yes")
    np.testing.assert_allclose(model.predict(TABLE), usual.predict(TABLE), atol=0.06)
    rows = evaluate_rows(model, read(TABLE), LABELS)
    assert list(figures(rows)) == ["AUC", "mean loss", "accuracy", "Brier score"]
    share = calibration(rows)
    assert np.all((share["low"] <= share["observed"]) & (share["observed"] <= share["high"]))
    assert np.all((share["low"] > -1e-12) & (share["high"] < 1 + 1e-12))  # Wilson's interval
    with pytest.raises(TypeError, match="has the link 'probit', which cannot be written"):
        model.to_sql()
    assert "FROM" in model.to_sql(kind="score")
    model.report(tmp_path / "report.html", TABLE, LABELS)
    with pytest.raises(ValueError, match="not a likelihood"):
        cb.aic(model, TABLE, LABELS)
    names = ["log_loss", "auc", "accuracy", "brier"]
    found = cb.cv(TABLE, LABELS, loss=Probit(), n_iter=10, folds=3, metric=names, extend=False)
    assert found.metrics["accuracy"][:, -1].mean() > 0.6
    assert found.metrics["log_loss"] == pytest.approx(found.risk[:, found.grid], rel=1e-9)
    with pytest.raises(ValueError, match="is for classes; use CWBClassifier"):
        cb.CWBRegressor(Probit()).fit(X[:, None], X)


def test_a_loss_may_define_kinds_of_prediction():
    @dataclass(frozen=True)
    class WithVariance(cb.Squared):
        prediction_kinds: ClassVar[tuple[str, ...]] = ("response", "score", "square")

        def predict(self, score, kind):
            return score[:, 0] ** 2 if kind == "square" else super().predict(score, kind)

    model = fitted(WithVariance(), COUNTS)
    np.testing.assert_array_equal(model.predict(TABLE, kind="square"), model.predict(TABLE) ** 2)
    with pytest.raises(ValueError, match="kind: expected 'response' or 'score', got 'square'"):
        fitted("squared", COUNTS).predict(TABLE, kind="square")


def test_a_response_without_a_link_is_not_exported():
    @dataclass(frozen=True)
    class Cubed(cb.Squared):
        def response(self, score):
            return score[:, 0] ** 3

    assert Cubed().link is None
    with pytest.raises(TypeError, match="is a Python function, which cannot be exported"):
        fitted(Cubed(), COUNTS).to_sql()


def test_separate_choices_are_refused():
    class Separate(Probit):
        joint_choices = False

    with pytest.raises(ValueError, match="separate choices per output, which are not supported"):
        fitted(Separate(), LABELS)


def test_missing_methods_of_a_loss_are_named():
    with pytest.raises(TypeError, match="object lacks loss, gradient, start"):
        as_loss(object())

    @dataclass(frozen=True)
    class Incomplete(Loss):
        name: ClassVar[str] = "incomplete"

        def start_of(self, rows):
            return np.zeros(1)

    with pytest.raises(TypeError, match="Incomplete lacks loss, gradient"):
        fitted(Incomplete(), COUNTS)


@pytest.mark.parametrize("y", [["b", "a", "b"], [2.0, 1.0, 2.0], [True, False, True]])
def test_classes_are_coded_alike_in_columns_and_arrays(y):
    codes, classes = code_classes(read_column(y, "y"))
    same, array = code_array(np.array(y))
    assert codes.tolist() == same.tolist() == [1, 0, 1]
    assert list(classes) == array.tolist()
    known, _ = code_classes(read_column(y[:1], "y"), classes)
    assert known.tolist() == code_array(np.array(y[:1]), array)[0].tolist() == [1]
    for unknown in (lambda: code_classes(read_column(["z"], "y"), classes),
                    lambda: code_array(np.array(["z"]), np.array(["a", "b"]))):  # fmt: skip
        with pytest.raises(ValueError, match="does not occur in the training rows"):
            unknown()


@pytest.mark.parametrize("loss", [cb.Binomial(), cb.Multinomial(3)], ids=lambda loss: loss.name)
def test_class_codes_undo_the_coding(loss):
    values = loss.class_values(loss.n_classes)
    assert loss.class_codes(values).tolist() == list(range(loss.n_classes))
    assert loss_for_classes(loss.n_classes).name == loss.name


def test_registered_metrics_can_be_passed_by_name():
    def worst(y, prediction):
        return np.abs(y - prediction).max()

    register_metric("worst", worst, greater_is_better=False, target="numbers")
    try:
        options = {"folds": 3, "metric": "worst"}
        found = cb.cv(TABLE, COUNTS, n_iter=5, extend=False, **options)
        assert found.chosen_by == "worst"
        assert not found.greater_is_better
        tuning = cb.tune(TABLE, COUNTS, schedule=cb.RandomSearch(2, 5), **options)
        assert tuning.metric.name == "worst"
        with pytest.raises(ValueError, match="'worst' is for numbers, not for the binomial loss"):
            cb.cv(TABLE, LABELS, loss="binomial", n_iter=5, **options)
        assert METRICS["worst"].identity() != METRICS["rmse"].identity()
    finally:
        del METRICS["worst"]
    with pytest.raises(ValueError, match="'auc' is a metric of cwboost; choose another name"):
        register_metric("auc", worst, greater_is_better=True)
    with pytest.raises(TypeError, match="expected a function, got 3"):
        register_metric("three", 3, greater_is_better=True)


class TwoScores:
    """A loss with two scores per row but without classes: squared errors of y and -y."""

    n_outputs = 2

    def loss(self, y, score):
        return ((score - np.column_stack([y, -y])) ** 2).sum(axis=1) / 2

    def gradient(self, y, score):
        return score - np.column_stack([y, -y])

    def start(self, y, weights):
        mean = np.average(y, weights=weights)
        return np.array([mean, -mean])


def test_outputs_that_are_not_classes_are_numbered():
    table = {"g": np.array(["a", "b"] * 20, dtype=object)}
    y = np.array([0.0, 1.0] * 20)
    model = cb.fit(table, y, loss=TwoScores(), n_iter=20)
    assert list(model.effect("g")) == ["g", "effect[0]", "effect[1]"]
    assert list(explain(model, table, 1)) == ["column", "value", "effect[0]", "effect[1]"]
    assert list(predict_columns(model, read(table), "score")) == ["score[0]", "score[1]"]
    assert list(predict_columns(model, read(table))) == ["prediction[0]", "prediction[1]"]
    regressor = cb.CWBRegressor(TwoScores(), n_iter=20).fit(table, y)
    assert regressor.get_feature_names_out().tolist() == ["g[0]", "g[1]"]
    assert regressor.transform(table).shape == (40, 2)


def test_the_start_does_not_overflow_with_offsets_far_apart():
    y, offset = np.array([1.0, 3.0, 2.0]), np.array([-700.0, 0.0, 800.0])[:, None]
    start = cb.Poisson().start(y, np.ones(3), offset)
    np.testing.assert_allclose(start, np.log(6.0) - 800.0)


@pytest.mark.parametrize(("n", "fine"), [(1000, True), (1001, False)])
def test_a_target_may_have_at_most_a_thousand_classes(n, fine):
    y = read_column([f"{k:04}" for k in range(n)], "y")
    if fine:
        assert len(as_loss("multinomial").read_y(y)[1]) == n
    else:
        with pytest.raises(ValueError, match="y has 1001 classes; if it is a number"):
            as_loss("multinomial").read_y(y)


@pytest.mark.parametrize(("loss", "curvature"), [("squared", 1.0), ("binomial", 0.25),
                                                 ("multinomial", 0.5)])  # fmt: skip
def test_the_step_scale_is_the_largest_safe_step_of_rate_one(loss, curvature):
    y = np.array([0.0, 1.0, 1.0]) if loss != "binomial" else np.array([-1.0, 1.0, 1.0])
    rows = y, np.ones(3), np.zeros((3, 1))
    assert as_loss(loss).scale(*rows, np.zeros(1)) == 1 / curvature
    assert as_loss(loss).bootstrap_rate == 0.5 / curvature  # half of it


@pytest.mark.parametrize("loss", ["binomial", "multinomial"])
@pytest.mark.parametrize("share", [0.002, 0.5])
def test_no_step_of_rate_one_raises_the_risk_even_if_events_are_rare(loss, share):
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    y = rng.uniform(size=5000) < share * np.exp(x - 0.5)
    learners = [cb.Spline("x"), cb.Step("x")]
    model = cb.fit({"x": x}, y, learners, loss=loss, optimizer=cb.Plain(1.0), n_iter=50)
    assert (np.diff(model.risk) < 0).all()


@pytest.mark.parametrize("loss", ["huber", "absolute", cb.Quantile(0.8)], ids=repr)
def test_one_wrong_cell_does_not_change_the_steps(loss):
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=1500) for name in "abc"}
    truth = table["a"] + table["b"] ** 2
    y = truth + rng.normal(size=1500)
    wrong = np.where(np.arange(1500) == 0, 1e5, y)
    scales = [cb.fit(table, target, loss=loss, n_iter=1).scale for target in (y, wrong)]
    assert scales[1] == pytest.approx(scales[0], rel=0.02)
    fitted = cb.CWBRegressor(loss).fit(table, wrong)
    assert np.corrcoef(fitted.predict(table), truth)[0, 1] > 0.9
