"""Tests of early stopping: rules and metrics of the validation rows, along the path of a fit.

The values of metrics are compared with scikit-learn, the end of a fit with a plain loop over the
recorded values.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    log_loss,
    make_scorer,
    recall_score,
    roc_auc_score,
)

import cwboost as cb
import sharding
from cwboost.cli.main import main
from cwboost.export.model_file import from_dict, to_dict
from cwboost.model.path import Path as Path_
from cwboost.report.fit_code import fit_code

N = 600
FIELDS = [name for name in Path_.__dataclass_fields__ if name != "evaluations"]


def make(seed=0, n=N):
    rng = np.random.default_rng(seed)
    table = {name: rng.normal(size=n) for name in "abcd"}
    score = np.sin(2 * table["a"]) + 0.7 * table["b"]
    ill = np.where(rng.logistic(size=n) < score, "yes", "no")
    return table, ill, rng.uniform(size=n) < 0.4


TABLE, ILL, HELD = make()
OPTIONS = {"loss": "binomial", "validation": HELD, "optimizer": cb.Plain(0.1)}


def fit(**options):
    return cb.fit(TABLE, ILL, **(OPTIONS | {"n_iter": 400} | options))


def probabilities(model, m):
    held = {name: column[HELD] for name, column in TABLE.items()}
    return model.at(m).predict(held)


def end_by_patience(values, n):
    """Return the iteration after which n iterations in a row had no new lowest value."""
    lowest, last = values[0], 0
    for m, value in enumerate(values[1:], 1):
        if lowest - value > 1e-12 * abs(lowest):
            lowest, last = value, m
        if m - last >= n:
            return m
    return len(values) - 1


def end_by_stagnation(values, below, n):
    """Return the iteration where compboost's rule ends: n relative improvements in a row at most
    `below`."""
    last = 0
    for m in range(1, len(values)):
        if (values[m - 1] - values[m]) / abs(values[m - 1]) > below:
            last = m
        if m - last >= n:
            return m
    return len(values) - 1


def same_path(one, other):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(one.path, name), getattr(other.path, name), name)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("auc", roc_auc_score),
        ("log_loss", log_loss),
        ("accuracy", lambda y, p: accuracy_score(y, p > 0.5)),
        ("brier", brier_score_loss),
        ("roc_auc", roc_auc_score),
    ],
)
def test_the_metric_along_the_path_is_that_of_the_predictions(name, function):
    model = fit(metric=name, patience=None, n_iter=40)
    found = model.validation_metrics[name]
    expected = [function(ILL[HELD] == "yes", probabilities(model, m)) for m in range(41)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("metric", ["auc", "log_loss", "accuracy", "brier"])
def test_patience_on_a_metric_ends_where_a_plain_loop_does(metric):
    whole = fit(metric=metric, patience=None)
    values = whole.validation_metrics[metric]
    lower = 1 - values if metric in ("auc", "accuracy") else values
    end = end_by_patience(lower, 30)
    assert 30 <= end < 400
    model = fit(metric=metric, patience=30)
    assert model.n_iter == end
    assert model.stopped == "no better validation metric"
    best = int(np.flatnonzero(lower[: end + 1] <= lower[: end + 1].min() * (1 + 1e-12))[0])
    assert model.best_iteration == best
    np.testing.assert_array_equal(model.predict(TABLE), whole.at(best).predict(TABLE))


@pytest.mark.parametrize(("below", "times"), [(1e-5, 10), (1e-3, 3), (0.0, 2), (0.02, 5)])
@pytest.mark.parametrize("metric", [None, "auc", "log_loss"])
def test_stagnation_is_the_rule_of_compboost(metric, below, times):
    whole = fit(metric=metric, patience=None)
    values = whole.validation_risk if metric is None else whole.validation_metrics[metric]
    end = end_by_stagnation(1 - values if metric == "auc" else values, below, times)
    model = fit(metric=metric, patience=cb.Stagnation(below, times))
    assert model.n_iter == end
    assert model.stopped == ("improvements too small" if end < 400 else "n_iter reached")


def test_the_first_of_several_rules_ends_the_fit():
    rules = [
        cb.Patience(40, "risk"),
        cb.Patience(25, "auc"),
        cb.Stagnation(1e-4, 12, "brier"),
    ]
    ends = {}
    for rule in rules:
        ends[rule] = fit(patience=rule, metric=["log_loss", "auc", "brier"]).n_iter
    assert len(set(ends.values())) == 3
    together = fit(patience=rules, metric=["log_loss", "auc", "brier"])
    assert together.n_iter == min(ends.values())
    assert set(together.validation_metrics) == {"log_loss", "auc", "brier"}


def test_a_metric_of_a_rule_is_recorded_but_the_risk_decides():
    model = fit(patience=cb.Patience(20, "auc"))
    assert model.best_iteration == int(np.argmin(model.validation_risk))
    assert "auc" in model.validation_metrics
    assert model.stopped == "no better validation metric"


def test_without_metrics_nothing_changes():
    plain, risk = fit(patience=20), fit(patience=20, metric="risk")
    same_path(plain, risk)
    assert plain.validation_metrics == {}
    assert plain.stopped == risk.stopped == "no better validation risk"


def test_a_function_and_a_weighted_metric():
    weights = np.random.default_rng(1).uniform(0.5, 2, N)

    def hits(y, p, sample_weight):
        return float(np.average((p > 0.5) == (y == "yes"), weights=sample_weight))

    own = fit(weights=weights, metric={"hits_score": hits}, patience=20)
    named = fit(weights=weights, metric="accuracy", patience=20)
    np.testing.assert_allclose(
        own.validation_metrics["hits_score"], named.validation_metrics["accuracy"], rtol=1e-12
    )
    # The best possible value of a function is not known, which patience does not need.
    assert own.best_iteration == named.best_iteration


def test_estimators_give_functions_the_labels():
    seen = set()

    def share_score(y, p):
        seen.update(y.tolist())
        return float(np.mean((p > 0.5) == (y == "yes")))

    estimator = cb.CWBClassifier(metric=share_score, validation=0.3, polish=None, n_iter=50)
    estimator.fit(TABLE, ILL)
    assert seen == {"yes", "no"}
    assert list(estimator.model_.validation_metrics) == ["share_score"]
    rules = [cb.Stagnation(1e-5, 10)]
    regressor = cb.CWBRegressor(metric="mae", patience=rules, validation=0.3, polish=None)
    regressor.fit({"a": TABLE["a"]}, np.sin(TABLE["a"]) + 0.3 * TABLE["b"])
    assert regressor.model_.stopped == "improvements too small"


@pytest.mark.parametrize("metric", ["auc", ["log_loss", "auc"]])
def test_hybrid_switches_by_the_metric(metric):
    optimizer = cb.Hybrid(0.1, 0.1, then="training", switch_after=5)
    model = fit(optimizer=optimizer, metric=metric, patience=None, n_iter=150)
    first = metric if isinstance(metric, str) else metric[0]
    values = model.validation_metrics[first]
    lower = 1 - values if first == "auc" else values
    switched = model.path.switched_after
    assert 5 <= switched < 150
    assert model.path.rewound_to == int(np.argmin(lower[: switched + 1]))
    by_risk = fit(optimizer=optimizer, patience=None, n_iter=150)
    if first == "auc":
        assert by_risk.path.switched_after != switched


@pytest.mark.parametrize("optimizer", [cb.Plain(0.1), cb.Hybrid(0.1, then="training")], ids=repr)
@pytest.mark.parametrize("rule", [30, cb.Stagnation(1e-5, 10)], ids=repr)
def test_an_extended_fit_is_the_longer_fit(optimizer, rule):
    options = {"optimizer": optimizer, "metric": ["auc", "log_loss"], "patience": rule}
    whole = fit(**options)
    part = fit(**options, n_iter=7)
    longer = part.extend(393, TABLE, ILL, validation=HELD)
    same_path(whole, longer)
    assert longer.stopped == whole.stopped
    for name, values in whole.validation_metrics.items():
        np.testing.assert_array_equal(values, longer.validation_metrics[name])


class CutError(Exception):
    """Raised in the middle of a fit, as if the process had been killed."""


@pytest.mark.parametrize("rule", [30, cb.Stagnation(1e-5, 10)], ids=repr)
def test_a_checkpoint_resumes_with_its_metrics(tmp_path, rule):
    file = tmp_path / "fit.checkpoint"
    options = {"metric": ["auc", "brier"], "patience": rule}
    whole = fit(**options)

    def cut(m, model):
        if m == whole.n_iter // 2:
            raise CutError

    with pytest.raises(CutError):
        fit(**options, checkpoint=file, callback=cut)
    resumed = fit(**options, checkpoint=file)
    same_path(whole, resumed)
    with pytest.raises(ValueError, match="metric"):
        fit(patience=rule, checkpoint=file)
    with pytest.raises(ValueError, match="metric"):
        fit(metric=["brier", "auc"], patience=rule, checkpoint=file)


def test_models_keep_rules_and_metrics_in_files(tmp_path):
    model = fit(metric=["auc", "log_loss"], patience=[20, cb.Stagnation(1e-4, 8, "log_loss")])
    model.save(tmp_path / "model.json")
    loaded = cb.load(tmp_path / "model.json")
    assert loaded.settings == model.settings
    assert loaded.best_iteration == model.best_iteration
    for name, values in model.validation_metrics.items():
        np.testing.assert_array_equal(values, loaded.validation_metrics[name])
    same_path(
        model.extend(5, TABLE, ILL, validation=HELD), loaded.extend(5, TABLE, ILL, validation=HELD)
    )


def test_files_of_version_5_are_read():
    model = fit(patience=20)
    data = to_dict(model)
    old = json.loads(json.dumps(data))
    del old["settings"]["metrics"], old["path"]["metrics"]
    read = from_dict({**old, "version": 5})
    assert read.settings == model.settings
    np.testing.assert_array_equal(read.predict(TABLE), model.predict(TABLE))
    assert len(read.extend(5, TABLE, ILL, validation=HELD).choices) == model.n_iter + 5


def test_a_function_without_a_name_cannot_be_extended_until_registered():
    def odd_score(y, p):
        return float(np.mean(np.abs(p - (y == "yes")) < 0.4))

    model = fit(metric=odd_score, n_iter=10)
    with pytest.raises(ValueError, match=r"odd_score.*cb\.register_metric"):
        model.extend(5, TABLE, ILL, validation=HELD)
    cb.register_metric("odd_score", odd_score, greater_is_better=True)
    try:
        longer = model.extend(5, TABLE, ILL, validation=HELD)
        np.testing.assert_array_equal(
            longer.validation_metrics["odd_score"],
            fit(metric="odd_score", n_iter=15).validation_metrics["odd_score"],
        )
    finally:
        from cwboost.metrics.metric import METRICS

        del METRICS["odd_score"]


def test_bags_stop_by_the_metric():
    rng = np.random.default_rng(2)
    inside = rng.uniform(size=(3, N)) < 0.7
    options = {"loss": "binomial", "n_iter": 300, "optimizer": cb.Plain(0.1), "bags": inside}
    by_auc = cb.fit(TABLE, ILL, **options, metric="auc", patience=cb.Stagnation(1e-3, 3))
    by_risk = cb.fit(TABLE, ILL, **options)
    assert not np.array_equal(by_auc.predict(TABLE), by_risk.predict(TABLE))


def test_threads_do_not_change_anything():
    one = fit(metric="auc", patience=cb.Stagnation(1e-5, 10), n_threads=1)
    two = fit(metric="auc", patience=cb.Stagnation(1e-5, 10), n_threads=2)
    same_path(one, two)


@pytest.mark.parametrize("metric", ["log_loss", ["accuracy", "brier"], ["risk", "brier"]])
@pytest.mark.parametrize("rule", [20, cb.Stagnation(1e-4, 5)], ids=repr)
def test_shards_compute_means_over_rows(metric, rule):
    y = (ILL == "yes").astype(float)
    options = {"loss": "binomial", "n_iter": 200, "metric": metric, "patience": rule}
    local = cb.fit(TABLE, y, **options, validation=HELD)
    shards = sharding.split_rows(TABLE, {"y": y, "validation": HELD})
    other = sharding.fit(shards, y, **options, validation=HELD)
    assert other.stopped == local.stopped
    assert other.n_iter == local.n_iter
    for name, values in local.validation_metrics.items():
        np.testing.assert_allclose(other.validation_metrics[name], values, rtol=1e-9)


@pytest.mark.parametrize("loss", ["binomial", "squared"])
def test_shards_without_and_with_only_validation_rows(loss):
    y = (ILL == "yes").astype(float)
    order = np.argsort(HELD, kind="stable")
    table, y, held = {k: v[order] for k, v in TABLE.items()}, y[order], HELD[order]
    first = np.flatnonzero(held)[0]
    parts = [
        sharding.Partition(k, {n: c[rows] for n, c in table.items()},
                           {"y": y[rows], "validation": held[rows]})
        for k, rows in enumerate((slice(first), slice(first, None), slice(0, 0)))
    ]  # fmt: skip
    shards = sharding.LocalShards([[part] for part in parts])
    metric = ["brier", "accuracy"] if loss == "binomial" else ["mae", "rmse"]
    options = {"loss": loss, "n_iter": 60, "metric": metric, "validation": held}
    local, other = cb.fit(table, y, **options), sharding.fit(shards, y, **options)
    for name, values in local.validation_metrics.items():
        np.testing.assert_allclose(other.validation_metrics[name], values, rtol=1e-9)


@pytest.mark.parametrize("metric", ["auc", "r2", "roc_auc", "f1"])
def test_shards_refuse_other_metrics_by_name(metric):
    y = (ILL == "yes").astype(float)
    loss = "squared" if metric == "r2" else "binomial"
    shards = sharding.split_rows(TABLE, {"y": y, "validation": HELD})
    with pytest.raises(ValueError, match=f"'{metric}' is not a mean over rows.*use 'risk'"):
        sharding.fit(shards, y, loss=loss, metric=metric, validation=HELD)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "auc", "validation": None}, "'auc' is computed for validation rows"),
        ({"patience": cb.Patience(5, "auc"), "validation": None}, "patience: the rules are about"),
        ({"metric": {"auc": "brier"}}, "'auc' is the name of a metric of cwboost"),
        ({"metric": {"auc": lambda y, p: 0.0}}, "'auc' is the name of a metric of cwboost"),
        ({"metric": "nonsense"}, "nonsense"),
        ({"metric": "rmse"}, "'rmse' is for numbers, not for the binomial loss"),
        ({"patience": []}, "patience: the list is empty"),
        ({"patience": cb.Patience(0)}, "Patience: iterations"),
        ({"patience": [5, cb.Stagnation(times=0)]}, "Stagnation: times"),
        ({"patience": cb.Stagnation(below=-1.0)}, "Stagnation: below"),
        ({"patience": cb.Stagnation(below=float("nan"))}, "Stagnation: below"),
        ({"metric": []}, "metric: the list is empty"),
        ({"metric": ["auc", "auc"]}, "not all different"),
    ],
)
def test_wrong_values_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fit(**options)


@pytest.mark.parametrize(
    ("patience", "message"),
    [("50", "got '50'"), (cb.Patience, "expected a number"), (cb.Patience(5, metric=3), "metric")],
)
def test_wrong_types_are_refused(patience, message):
    with pytest.raises(TypeError, match=message):
        fit(patience=patience)


def test_metrics_and_the_row_free_search():
    y = np.sin(TABLE["a"]) + TABLE["c"]
    options = {"validation": HELD, "metric": "mae", "n_iter": 60, "patience": None}
    with pytest.raises(ValueError, match="'row-free' does not compute the scores"):
        cb.fit(TABLE, y, **options, search="row-free")
    found = cb.fit(TABLE, y, **options)
    plain = cb.fit(TABLE, y, **(options | {"metric": None}), search="full")
    assert found.choices == plain.choices
    errors = [np.abs(y - found.at(m).predict(TABLE))[HELD].mean() for m in (0, 30, 60)]
    np.testing.assert_allclose(found.validation_metrics["mae"][[0, 30, 60]], errors, rtol=1e-9)


def test_a_metric_that_is_not_a_number_is_refused():
    one_class = (ILL == "yes") & HELD  # the validation rows have one class only
    with pytest.raises(ValueError, match="metric 'auc' is not a number on the validation rows"):
        fit(validation=one_class, metric="auc")


def test_the_command_line(tmp_path, capsys):
    names = [*TABLE, "ill"]
    rows = [",".join(names)]
    rows += [",".join([*(repr(float(TABLE[c][i])) for c in TABLE), ILL[i]]) for i in range(N)]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    out = str(tmp_path / "model.json")
    base = ["fit", str(tmp_path / "rows.csv"), "--target", "ill", "--validation", "0.3",
            "--polish", "none", "-o", out]  # fmt: skip
    assert main([*base, "--metric", "auc", "brier", "--patience", "1e-5x10"]) == 0
    model = cb.load(out)
    assert list(model.validation_metrics) == ["auc", "brier"]
    assert model.settings.patience == (cb.Stagnation(1e-5, 10),)
    assert model.stopped == "improvements too small"
    assert main([*base, "--patience", "7", "brier:1e-4x6"]) == 0
    assert cb.load(out).settings.patience == (cb.Patience(7), cb.Stagnation(1e-4, 6, "brier"))
    capsys.readouterr()
    for wrong in (["--patience", "0"], ["--patience", "auc:"], ["--patience", "none", "5"],
                  ["--patience", ":5"], ["--patience", "x5"], ["--patience", "many"],
                  ["--metric", "auc", "--validation", "none"]):  # fmt: skip
        with pytest.raises(SystemExit):
            main([*base, *wrong])
        assert "patience" in capsys.readouterr().err


# --- what a metric is: its function, not its name -------------------------------------------------


def yes_hits(y, p):
    return float(np.mean((p > 0.5) == (y == "yes")))


@pytest.fixture
def registered():
    from cwboost.metrics.metric import METRICS

    cb.register_metric("yes_hits", yes_hits, greater_is_better=True)
    yield "yes_hits"
    METRICS.pop("yes_hits", None)


def test_estimators_give_registered_functions_and_scorers_the_labels(registered):
    recall = make_scorer(recall_score, pos_label="yes")
    wanted = {
        "hits": registered,
        "accuracy": "accuracy",
        "own_score": yes_hits,
        "recall_score": recall,
    }
    options = {"validation": 0.3, "polish": None, "n_iter": 20, "patience": None}
    estimator = cb.CWBClassifier(metric=wanted, **options).fit(TABLE, ILL)
    found = estimator.model_.validation_metrics
    for name in ("hits", "own_score"):
        np.testing.assert_allclose(found[name], found["accuracy"], rtol=1e-12)
    rule = [cb.Patience(3, registered), cb.Patience(3, "recall")]
    by_rule = cb.CWBClassifier(**(options | {"patience": rule})).fit(TABLE, ILL).model_
    np.testing.assert_allclose(
        by_rule.validation_metrics["yes_hits"], found["hits"][: by_rule.n_iter + 1], rtol=1e-12
    )
    np.testing.assert_allclose(  # a named scorer is about the second class
        by_rule.validation_metrics["recall"],
        found["recall_score"][: by_rule.n_iter + 1],
        rtol=1e-12,
    )
    longer = cb.CWBClassifier(metric=wanted, warm_start=True, **options).fit(TABLE, ILL)
    longer.set_params(n_iter=30).fit(TABLE, ILL)
    whole = cb.CWBClassifier(metric=wanted, **(options | {"n_iter": 30})).fit(TABLE, ILL)
    same_path(longer.model_, whole.model_)


def test_cross_validated_estimators_give_functions_the_labels(registered):
    for scoring in (registered, yes_hits):
        own = cb.CWBClassifierCV(scoring={"my_score": scoring}, n_iter=20, cv=3, polish=None)
        named = cb.CWBClassifierCV(scoring="accuracy", n_iter=20, cv=3, polish=None)
        assert own.fit(TABLE, ILL).best_score_ == pytest.approx(named.fit(TABLE, ILL).best_score_)


def test_a_changed_patience_applies_to_a_warm_start():
    options = {"validation": 0.3, "polish": None, "metric": ["auc", "brier"]}
    estimator = cb.CWBClassifier(n_iter=10, patience=100, warm_start=True, **options)
    estimator.fit(TABLE, ILL)
    rule = cb.Stagnation(0.5, 1, "brier")
    estimator.set_params(n_iter=90, patience=rule).fit(TABLE, ILL)
    assert estimator.model_.n_iter == 11
    assert estimator.model_.settings.patience == (rule,)
    estimator.set_params(n_iter=95, patience=cb.Patience(5, "accuracy"))
    with pytest.raises(ValueError, match="need the metrics auc, brier, accuracy, but the fit rec"):
        estimator.extend(3, TABLE, ILL)


def test_renamed_metrics_are_found_again(tmp_path):
    wanted = {"share": "accuracy", "mine": "brier", "the_risk": "risk", "f1_score": "f1_weighted"}
    whole = fit(metric=wanted, patience=None, n_iter=15)
    np.testing.assert_array_equal(whole.validation_metrics["the_risk"], whole.validation_risk)
    part = fit(metric=wanted, patience=None, n_iter=5)
    part.save(tmp_path / "model.json")
    for model in (part, cb.load(tmp_path / "model.json")):
        same_path(whole, model.extend(10, TABLE, ILL, validation=HELD))
    code = fit_code(part)
    assert f"metric={wanted!r}," in code
    own = fit(metric={"yes_score": yes_hits}, patience=None, n_iter=2)
    assert "metric={'yes_score': yes_score}," in fit_code(own)


def test_the_name_of_the_risk_is_taken():
    def risk(y, p):
        return 0.0

    for metric in (risk, [risk, "auc"], {"risk": "auc"}):
        with pytest.raises(ValueError, match="'risk' is the name of the mean loss"):
            fit(metric=metric)


def test_a_checkpoint_knows_what_a_metric_computes(tmp_path):
    falling, rising = (lambda y, p: -p.std()), (lambda y, p: p.std() - 9.0)
    for k, (one, other) in enumerate([("auc", "brier"), (falling, rising)]):
        file = tmp_path / f"{k}.checkpoint"
        fit(metric={"own_loss": one}, n_iter=5, checkpoint=file)
        with pytest.raises(ValueError, match="metric"):
            fit(metric={"own_loss": other}, n_iter=9, checkpoint=file)


def test_errors_of_functions_name_the_metric():
    def late(y, p):
        raise ZeroDivisionError("late")

    with pytest.raises(ZeroDivisionError, match="late") as caught:
        fit(metric={"late_loss": late}, n_iter=2)
    assert "raised by the metric 'late_loss'" in caught.value.__notes__[0]
    for value in ("0.3", 10**400):
        with pytest.raises(TypeError, match="expected it to return a number"):
            fit(metric={"odd_loss": lambda y, p, value=value: value}, n_iter=2)


def test_a_metric_that_never_improves_warns():
    with pytest.warns(UserWarning, match="metric 'flat_loss': no iteration improved it"):
        assert fit(metric={"flat_loss": lambda y, p: 1.0}, n_iter=5).best_iteration == 0


def test_rules_that_cannot_end_a_hybrid_warn():
    for patience in (3, cb.Stagnation()):
        with pytest.warns(UserWarning, match="no rule ends this fit, because Hybrid"):
            fit(optimizer=cb.Hybrid(), patience=patience, n_iter=5)
    fit(optimizer=cb.Hybrid(), n_iter=5)  # the default patience does not warn
    fit(optimizer=cb.Hybrid(then="training"), patience=3, n_iter=5)


def test_shards_compute_negated_scorers():
    y = (ILL == "yes").astype(float)
    options = {"loss": "binomial", "n_iter": 20, "metric": "neg_log_loss", "validation": HELD}
    local = cb.fit(TABLE, y, **options).validation_metrics["neg_log_loss"]
    shards = sharding.split_rows(TABLE, {"y": y, "validation": HELD})
    other = sharding.fit(shards, y, **options).validation_metrics["neg_log_loss"]
    np.testing.assert_allclose(other, local, rtol=1e-9)
    assert local[-1] > local[0]


def test_another_function_of_the_same_name_warns_and_the_opposite_is_refused(registered):
    model = fit(metric=registered, n_iter=3)
    cb.register_metric(registered, lambda y, p: 0.5, greater_is_better=True)
    with pytest.warns(UserWarning, match="'yes_hits': its function is not that of the fit"):
        model.extend(2, TABLE, ILL, validation=HELD)
    cb.register_metric(registered, yes_hits, greater_is_better=False)
    with pytest.raises(ValueError, match="'yes_hits': in the fit greater values were better"):
        model.extend(2, TABLE, ILL, validation=HELD)


def test_shards_compute_renamed_metrics():
    y = (ILL == "yes").astype(float)
    metric = {"squares": "brier", "mine": "accuracy", "the_risk": "risk"}
    options = {"loss": "binomial", "n_iter": 60, "metric": metric, "validation": HELD}
    local = cb.fit(TABLE, y, **options)
    shards = sharding.split_rows(TABLE, {"y": y, "validation": HELD})
    other = sharding.fit(shards, y, **options)
    for name, values in local.validation_metrics.items():
        np.testing.assert_allclose(other.validation_metrics[name], values, rtol=1e-9)
    with pytest.raises(ValueError, match="'mine' is not a mean over rows"):
        sharding.fit(shards, y, **(options | {"metric": {"mine": "auc"}}))


def test_estimators_warn_where_no_rows_are_held_out():
    for options, words in (
        ({"metric": "auc", "n_iter": 5}, "metric: no rows are held out"),
        ({"patience": cb.Patience(3, "auc")}, "patience: no rows are held out"),
        ({"metric": "auc", "n_iter": 5, "patience": [3]}, "metric and patience: no rows are"),
    ):
        with pytest.warns(UserWarning, match=words):
            cb.CWBClassifier(validation=None, polish=None, **options).fit(TABLE, ILL)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # cross-validation uses the metric
        cb.CWBClassifier(validation=None, polish=None, metric="auc").fit(TABLE, ILL)


def test_scorers_that_take_no_weights_run_without_them():
    y = np.digitize(TABLE["a"], [-0.5, 0.5])
    model = cb.fit(TABLE, y, loss="multinomial", validation=HELD, metric="roc_auc_ovo", n_iter=5)
    shares = model.predict({name: column[HELD] for name, column in TABLE.items()})
    expected = roc_auc_score(y[HELD], shares, multi_class="ovo")
    assert model.validation_metrics["roc_auc_ovo"][model.best_iteration] == pytest.approx(expected)


def test_functions_cannot_change_y():
    def sorting_loss(y, p):
        y.sort()
        return 0.0

    with pytest.raises(ValueError, match="read-only"):
        cb.fit(TABLE, TABLE["a"], validation=HELD, metric=["mae", sorting_loss], n_iter=3)
