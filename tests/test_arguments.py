"""Tests of arguments that are wrong: of the wrong type, unknown, or without rows. Every public
callable refuses them with a sentence of its own, before any work. Warnings name the user's line.
"""

import inspect
import pickle
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import cwboost as cb
from cwboost.cli.main import main
from cwboost.explain.trajectory import coefficients_at
from cwboost.export.onnx import onnx_inputs, to_onnx
from cwboost.export.sql import to_sql
from cwboost.metrics.metric import register_metric
from cwboost.selection.stability_bounds import complete
from cwboost.terms.bases import register_basis
from cwboost.terms.learners import register_learner

N = 40
rng = np.random.default_rng(0)
TABLE = {"x": rng.uniform(size=N), "z": rng.normal(size=N), "g": rng.choice(["a", "b"], N)}
Y = TABLE["x"] + (TABLE["g"] == "a")
MODEL = cb.fit(TABLE, Y, n_iter=10, interactions=1)
BAGS = cb.fit(TABLE, Y, n_iter=3, bags=2)
REGRESSOR = cb.CWBRegressor(n_iter=10).fit(TABLE, Y)
PACKAGE = str(Path(cb.__file__).parent)
ROWS = {"table": TABLE, "y": Y}

# Values that are not text, and text that no argument takes.
ODD = [3, 2.5, b"x", [], ["a", "b"], {}, set(), np.array([1.0, 2.0]), pd.NA, 10**310, 1j, "\ud800"]
ODD_NUMBERS = [2.5, -1, 2**63, 10**310, "x", [], np.array([1, 2]), pd.NA, 1j, np.datetime64("2020")]
ODD_FLAGS = [3, "x", [], np.array([1.0, 2.0]), pd.NA]


def assert_refused(call, value):
    """Check that a call raises an error of our own, not one from inside NumPy or Python."""
    with pytest.raises((TypeError, ValueError, OSError)) as caught:
        call(value)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename.startswith(PACKAGE), f"{value!r}: {caught.value!r}"
    assert "raise" in last.line, f"{value!r}: {caught.value!r} at {last.filename}:{last.lineno}"
    assert len(str(caught.value)) < 500


def displays():
    import matplotlib as mpl

    mpl.use("agg")
    return cb.EffectDisplay.from_estimator, cb.TracesDisplay.from_estimator


TEXTS = {
    "fit search": lambda v: cb.fit(**ROWS, search=v),
    "fit polish": lambda v: cb.fit(**ROWS, polish=v),
    "fit checkpoint": lambda v: cb.fit(**ROWS, checkpoint=v),
    "predict kind": lambda v: MODEL.predict(TABLE, kind=v),
    "effect": MODEL.effect,
    "band kind": lambda v: BAGS.band("x", kind=v),
    "band source": lambda v: BAGS.band("x", source=v),
    "importance": MODEL.importance,
    "importance by": lambda v: MODEL.importance(by=v),
    "edit": lambda v: MODEL.edit(v, "x"),
    "edit term": lambda v: MODEL.edit("zero", v),
    "intervals kind": lambda v: MODEL.intervals(**ROWS, kind=v),
    "save": MODEL.save,
    "load": cb.load,
    "to_csv": MODEL.to_csv,
    "to_excel": MODEL.to_excel,
    "report file": MODEL.report,
    "report title": lambda v: MODEL.report("report.html", title=v),
    "to_sql table": lambda v: to_sql(MODEL, table=[v]),
    "to_sql keep": lambda v: to_sql(MODEL, keep=[v]),
    "to_sql dialect": lambda v: to_sql(MODEL, dialect=v),
    "to_sql kind": lambda v: to_sql(MODEL, kind=v),
    "to_onnx kind": lambda v: to_onnx(MODEL, v),
    "to_onnx numbers": lambda v: to_onnx(MODEL, numbers=v),
    "to_onnx missing": lambda v: to_onnx(MODEL, missing=v),
    "onnx_inputs missing": lambda v: onnx_inputs(MODEL, TABLE, missing=v),
    "plot": MODEL.plot,
    "plot kind": lambda v: MODEL.plot(kind=v),
    "plot scale": lambda v: displays()[0](MODEL, "x", scale=v),
    "plot target": lambda v: displays()[0](MODEL, "x", target=v),
    "plot view": lambda v: displays()[0](MODEL, "x", view=(v, v)),
    "plot ax": lambda v: displays()[0](MODEL, "x", ax=v),
    "plot labels": lambda v: displays()[0](MODEL, "x", labels={"x": v}),
    "traces kind": lambda v: displays()[1](MODEL, kind=v),
    "aic criterion": lambda v: cb.aic(MODEL, **ROWS, criterion=v),
    "aic df": lambda v: cb.aic(MODEL, **ROWS, df=v),
    "cv folds": lambda v: cb.cv(**ROWS, folds=b"x" if isinstance(v, int) else v),
    "stability": lambda v: cb.stability(**ROWS, q=2, cutoff=0.9, sampling=v),
    "stability by": lambda v: cb.stability(**ROWS, q=2, cutoff=0.9, by=v),
    "deselect by": lambda v: cb.deselect(MODEL, **ROWS, by=v),
    "deselect method": lambda v: cb.deselect(MODEL, **ROWS, method=v),
    "Spline placement": lambda v: cb.Spline("x", knot_placement=v),
    "Spline extrapolate": lambda v: cb.Spline("x", extrapolate=v),
    "Spline tails": lambda v: cb.Spline("x", tails=v),
    "Spline df_kind": lambda v: cb.Spline("x", df_kind=v),
    "Step kind": lambda v: cb.Step("x", kind=v),
    "Category kind": lambda v: cb.Category("g", kind=v),
    "Bins points": lambda v: cb.Bins(5, points=v),
    "Folds kind": lambda v: cb.Folds(v),
    "Hybrid then": lambda v: cb.fit(**ROWS, optimizer=cb.Hybrid(then=v), validation=0.3),
    "estimator terms": lambda v: cb.CWBRegressor(terms=v).fit(TABLE, Y),
    "estimator exclude": lambda v: cb.CWBRegressor(exclude=[v]).fit(TABLE, Y),
    "register_metric": lambda v: register_metric("m", max, greater_is_better=True, target=v),
    "register_learner": register_learner,
    "register_basis": register_basis,
}  # fmt: skip


@pytest.mark.parametrize("what", TEXTS)
def test_texts_names_and_choices(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in ODD:
        assert_refused(TEXTS[what], value)
    assert list(tmp_path.iterdir()) == []


NUMBERS = {
    "effect": lambda v: MODEL.effect("x", v),
    "band": lambda v: BAGS.band("x", v),
    "report rows": lambda v: MODEL.report("report.html", TABLE, rows=v),
    "with_bands": lambda v: MODEL.with_bands(**ROWS, n_boot=v),
    "permutation": lambda v: MODEL.importance("permutation", **ROWS, repeats=v),
    "fit bags": lambda v: cb.fit(**ROWS, bags=v),
    "plot n": lambda v: displays()[0](MODEL, "x", n=v),
    "iterations": lambda v: coefficients_at(MODEL, [v]),
    "bounds": lambda v: complete(v, q=2, pfer=1.0),
    "bounds pairs": lambda v: complete(9, q=2, pfer=1.0, n_samples=v),
    "plot levels": lambda v: displays()[0](MODEL, "x", max_levels=v),
    "plot terms": lambda v: displays()[1](MODEL, max_terms=v),
    "plot bars": lambda v: MODEL.plot(kind="importance", max_bars=v),
    "plot effects": lambda v: MODEL.plot(max_effects=v),
    "plot pairs": lambda v: MODEL.plot(kind="interactions", max_bars=v),
    "plot explanation": lambda v: MODEL.plot(kind="explanation", table=TABLE, row=0, max_bars=v),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_whole_numbers(what):
    for value in ODD_NUMBERS:
        assert_refused(NUMBERS[what], value)


@pytest.mark.parametrize("value", [0, 2.5, "x", [], pd.NA, np.inf, 10**30])
def test_n_jobs(value):
    for estimator in (cb.CWBRegressor(n_jobs=value), cb.CWBRegressorCV(n_jobs=value)):
        with pytest.raises(ValueError, match="n_jobs: expected None, a number of threads up to"):
            estimator.fit(TABLE, Y)


FLAGS = {
    "cv keep_models": lambda v: cb.cv(**ROWS, keep_models=v),
    "cv one_se": lambda v: cb.cv(**ROWS, one_se=v),
    "Linear": lambda v: cb.Linear("x", intercept=v),
    "Folds": lambda v: cb.Folds(stratified=v),
    "warm_start": lambda v: cb.CWBRegressor(warm_start=v).fit(TABLE, Y),
    "one_se": lambda v: cb.CWBRegressorCV(one_se=v).fit(TABLE, Y),
    "plot sort": lambda v: displays()[0](MODEL, "x", sort=v),
    "plot log": lambda v: displays()[1](MODEL, log=v),
    "register_metric": lambda v: register_metric("m", max, greater_is_better=v),
}


@pytest.mark.parametrize("what", FLAGS)
def test_flags(what):
    for value in ODD_FLAGS:
        assert_refused(FLAGS[what], value)


@pytest.mark.parametrize(
    "number", ["weights", "offset", "start", "scale", "validation", "time_limit", "tolerance"]
)
def test_integers_beyond_the_range_of_floats(number):
    assert_refused(lambda value: cb.fit(**ROWS, **{number: value}), 10**310)


@pytest.mark.parametrize("value", [np.array(3.0), 3, "x", {}, b"x"])
def test_lists(value):
    for call in (
        lambda v: coefficients_at(MODEL, v),
        lambda v: cb.fit(TABLE, Y, v),
        lambda v: cb.cv(TABLE, Y, folds=[v]),
        lambda v: cb.Dataset.from_batches([TABLE], columns=v),
        cb.Dataset.from_batches,
    ):
        assert_refused(call, value)


def test_several_names_where_one_is_expected():
    with pytest.raises(
        TypeError, match=r"expected the name of one term or column, got \['x', 'z'\]"
    ):
        MODEL.plot(["x", "z"])


# --- rows that a fitted model is evaluated on -----------------------------------------------------

EMPTY = {name: column[:0] for name, column in TABLE.items()}
ON_ROWS = {
    "report": lambda table, y, w: MODEL.report("report.html", table, y, weights=w),
    "size": lambda table, y, w: MODEL.importance(table=table, weights=w),
    "risk": lambda table, y, w: MODEL.importance("risk", table=table, y=y, weights=w),
    "permutation": lambda table, y, w: MODEL.importance("permutation", table=table, y=y, weights=w),
}


@pytest.mark.parametrize("what", ON_ROWS)
def test_rows_without_weight(what, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="weights: all are zero; at least one row must have a pos"):
        ON_ROWS[what](TABLE, Y, np.zeros(N))
    with pytest.raises(ValueError, match="the table has no rows"):
        ON_ROWS[what](EMPTY, Y[:0], None)
    assert list(tmp_path.iterdir()) == []


def test_report_of_an_empty_table_without_y(tmp_path):
    with pytest.raises(ValueError, match="the table has no rows; leave it out to report the model"):
        MODEL.report(tmp_path / "report.html", EMPTY)


# --- y of estimators ------------------------------------------------------------------------------


def test_a_classifier_without_rows_in_y():
    with pytest.raises(ValueError, match=r"y: expected one value per row, got \(\)"):
        cb.CWBClassifier().fit(TABLE, ())


def test_missing_text_in_y():
    y = pd.Series(["a", "b", None, "a"] * (N // 4), dtype="string")
    classifier = cb.CWBClassifier(n_iter=2)
    fitted = cb.CWBClassifier(n_iter=2).fit(TABLE, TABLE["g"])
    for method in (classifier.fit, fitted.score):
        with pytest.raises(ValueError, match=r"y: row 2 is missing .* remove rows without y"):
            method(TABLE, y)


@pytest.mark.parametrize("scoring", ["roc_auc", "neg_log_loss", "f1"])
def test_scorers_for_classes_where_y_is_numbers(scoring):
    message = "metric: the scorer .* (needs the probabilities of classes|cannot take these pred)"
    with pytest.raises(ValueError, match=message):
        cb.CWBRegressorCV(scoring=scoring, n_iter=2).fit(TABLE, Y)


# --- names of other libraries ---------------------------------------------------------------------

OTHER_NAMES = {
    "learning_rate": "optimizer=cb.Plain(rate=...)",
    "n_estimators": "n_iter=",
    "max_iter": "n_iter=",
    "max_bins": "bins=",
    "monotone_constraints": "model.edit('monotone', term, ...) after the fit",
    "random_seed": "random_state=",
    "objective": "loss=",
    "reg_lambda": "learners such as [cb.Spline('age', df=4, knots=20), ...]",
}
CALLS = {
    "fit": lambda **options: cb.fit(**ROWS, **options),
    "cv": lambda **options: cb.cv(**ROWS, **options),
    "regressor": cb.CWBRegressor,
    "set_params": lambda **options: cb.CWBRegressorCV().set_params(**options),
}


@pytest.mark.parametrize("what", CALLS)
def test_names_of_other_libraries(what):
    for name, ours in OTHER_NAMES.items():
        with pytest.raises((TypeError, ValueError)) as caught:
            CALLS[what](**{name: 1})
        assert str(caught.value).endswith(f" has no argument {name!r}; use {ours}")


def test_the_argument_that_a_callable_has_is_named():
    with pytest.raises(TypeError, match=r"^fit\(\) has no argument 'n_jobs'; use n_threads=$"):
        cb.fit(**ROWS, n_jobs=2)
    with pytest.raises(TypeError, match=r"^CWBClassifier\(\) has no .* 'n_threads'; use n_jobs=$"):
        cb.CWBClassifier(n_threads=2)
    with pytest.raises(TypeError, match="'early_stopping_rounds'; use patience=, with validation="):
        cb.fit(**ROWS, early_stopping_rounds=5)


@pytest.mark.parametrize("estimator", [cb.CWBRegressor, cb.CWBClassifierCV])
def test_the_fit_of_estimators_explains_arguments(estimator):
    fit = estimator().fit
    with pytest.raises(TypeError, match=r"^fit\(\) has no .*_weights'; use sample_weight=$"):
        fit(TABLE, Y, sample_weights=Y)
    with pytest.raises(TypeError, match=r"^fit\(\) has no argument 'eval_set'; use validation="):
        fit(TABLE, Y, eval_set=[(TABLE, Y)])


def test_unknown_names_of_no_library():
    with pytest.raises(TypeError, match=r"'n_itre'; did you mean n_iter=\?"):
        cb.fit(**ROWS, n_itre=5)
    with pytest.raises(TypeError, match="has no argument 'zzz'; its arguments are table=, y=, l"):
        cb.fit(**ROWS, zzz=5)


@pytest.mark.parametrize(
    "estimator", [cb.CWBRegressor, cb.CWBClassifier, cb.CWBRegressorCV, cb.CWBClassifierCV]
)
def test_explained_arguments_leave_signatures_as_they_are(estimator):
    parameters = list(inspect.signature(estimator).parameters)
    assert sorted(parameters) == sorted(estimator().get_params())
    assert clone(estimator(n_iter=7)).get_params()["n_iter"] == 7
    assert list(inspect.signature(cb.fit).parameters)[:3] == ["table", "y", "learners"]
    assert pickle.loads(pickle.dumps(cb.fit)) is cb.fit


def test_parameters_of_an_optimizer_that_is_a_name():
    message = "optimizer__rate: optimizer is 'plain', which has no parameters; pass an object"
    with pytest.raises(ValueError, match=message):
        cb.CWBRegressor(optimizer="plain").set_params(optimizer__rate=0.1)
    changed = cb.CWBRegressor(optimizer=cb.Plain()).set_params(optimizer__rate=0.1)
    assert changed.optimizer.rate == 0.1


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        ("--learning-rate", "use --rate"),
        ("--n-estimators=9", "use --iterations"),
        ("--nthread", "use --threads"),
        ("--seeed", "did you mean --seed?"),
    ],
)
def test_options_of_the_command_line(option, advice, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["fit", "t.csv", "--target", "y", "-o", "m.json", option])
    name = option.partition("=")[0]
    assert f"cwboost fit has no argument '{name}'; {advice}\n" in capsys.readouterr().err


# --- warnings -------------------------------------------------------------------------------------

WARNINGS = {
    "constant column": lambda: cb.fit({"x": TABLE["x"], "c": np.ones(N)}, Y, n_iter=2),
    "diverged": lambda: cb.fit(TABLE, Y, optimizer=cb.Plain(1e9), n_iter=20),
    "unseen level": lambda: MODEL.predict({**TABLE, "g": ["new"] * N}),
    "contributions": lambda: MODEL.contributions({**TABLE, "g": ["new"] * N}),
    "far away": lambda: MODEL.importance(table={**TABLE, "x": TABLE["x"] + 9}),
    "estimator": lambda: cb.CWBRegressor(n_iter=2).fit({**TABLE, "c": np.ones(N)}, Y),
    "transform": lambda: REGRESSOR.transform({**TABLE, "g": ["new"] * N}),
    "cv": lambda: cb.cv(TABLE, Y, n_iter=2, folds=2, extend=False),
}


@pytest.mark.parametrize("what", WARNINGS)
def test_warnings_point_to_the_line_of_the_user(what):
    with pytest.warns((UserWarning, RuntimeWarning)) as caught:
        WARNINGS[what]()
    assert {Path(warning.filename).name for warning in caught} == {Path(__file__).name}
