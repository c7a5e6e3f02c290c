"""Regression tests: one for each bug that users found."""

from __future__ import annotations

import importlib
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info

import cwboost as cb

rng = np.random.default_rng(11)
N = 200
X = rng.uniform(size=N)
Z = rng.normal(size=N)
Y = np.sin(6 * X) + 0.3 * Z + 0.1 * rng.normal(size=N)
TABLE = {"x": X, "z": Z}


def blas_threads():
    return [i["num_threads"] for i in threadpool_info() if i["user_api"] == "blas"]


def test_fits_in_several_threads_leave_blas_as_it_was():
    before = blas_threads()
    columns = {f"x{j}": rng.normal(size=N) for j in range(30)}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: cb.fit(columns, Y, n_iter=n), range(1, 12)))
    assert blas_threads() == before


def test_the_order_of_classes_does_not_depend_on_the_wrapping():
    labels = pd.Categorical(np.where(Y > 0, "hi", "lo"), categories=["lo", "hi"], ordered=True)
    for y in (labels, pd.Series(labels), pd.DataFrame({"y": labels})):
        assert cb.fit(TABLE, y, loss="binomial", n_iter=1).classes == ("lo", "hi")


@pytest.mark.parametrize("learner", [cb.Tensor("x", "z"), cb.Step("x")])
def test_default_df_with_missing_cells(learner):
    x, z = X.copy(), Z.copy()
    x[0], z[1] = np.nan, np.nan
    model = cb.fit({"x": x, "z": z}, Y, [learner, cb.Linear("z"), cb.Centered("z")], n_iter=20)
    assert model.risk[-1] < model.risk[0]


def test_importance_on_rows_uses_the_weights_of_the_fit():
    table = {**TABLE, "w": rng.uniform(0.1, 3.0, N)}
    model = cb.fit(table, Y, weights="w", bins="exact", n_iter=50)
    again = model.importance("risk", table=table, y=Y)
    assert again == pytest.approx(model.importance("risk"), rel=1e-9)
    with pytest.raises(TypeError, match="need table="):
        model.importance(y=Y)


def test_interrupted_pickles():
    error = cb.Interrupted(cb.fit(TABLE, Y, n_iter=3))
    assert pickle.loads(pickle.dumps(error)).model.n_iter == 3


def test_a_python_loss_cannot_change_the_callers_y():
    class Careless:
        def loss(self, y, score):
            return (y - score) ** 2

        def gradient(self, y, score):
            y[:] = 0.0
            return 2 * (score - y)

        def start(self, y, weights):
            return float(np.average(y, weights=weights))

    y = Y.copy()
    with pytest.raises(ValueError, match="read-only"):
        cb.fit(TABLE, y, loss=Careless())
    np.testing.assert_array_equal(y, Y)


def test_a_level_called_missing_differs_from_missing_cells():
    level = np.where(X < 0.3, "missing", "b").astype(object)
    level[::10] = None
    model = cb.fit({"k": level}, Y, [cb.Category("k", kind="binary")], n_iter=5)
    assert list(model.terms) == ["k=b", "k=missing", "k=(missing)"]


def test_rows_of_weight_zero_are_ignored_whatever_they_contain():
    w = np.ones(N)
    w[[3, 7]] = 0.0
    x, y = X.copy(), Y.copy()
    x[3], y[7] = np.inf, np.nan
    model = cb.fit({"x": x, "z": Z}, y, weights=w, n_iter=20)
    keep = w > 0
    short = cb.fit({"x": X[keep], "z": Z[keep]}, Y[keep], n_iter=20)
    np.testing.assert_array_equal(model.risk, short.risk)
    x[9] = np.inf
    with pytest.raises(ValueError, match="column 'x', row 9"):
        cb.fit({"x": x, "z": Z}, y, weights=w)


def test_minus_one_is_not_an_unseen_level():
    grid = np.linspace(-2, 2, 81)
    model = cb.fit({"x": grid}, grid**2, n_iter=20)
    assert np.isfinite(model.predict({"x": [-1.0]})).all()


def test_a_named_validation_column_is_not_a_feature():
    table = {**TABLE, "held": X < 0.2}
    model = cb.fit(table, Y, validation="held", n_iter=20)
    assert set(model.terms) == {"x", "z"}
    assert model.extend(5, table, Y).n_iter == 25


def test_the_time_limit_counts_the_set_up():
    model = cb.fit(TABLE, Y, n_iter=10_000, time_limit=1e-6)
    assert (model.n_iter, model.stopped) == (1, "time limit")


def test_divergence_is_not_reported_if_the_best_iterate_is_earlier():
    model = cb.fit(
        TABLE, Y, optimizer=cb.Accelerated(0.1, 0.5), n_iter=500, validation=0.3, patience=None
    )
    assert model.best_iteration < model.n_iter


def test_summary_counts_choices_that_led_to_the_model():
    model = cb.fit(TABLE, Y, optimizer=cb.Hybrid(0.3, 0.5), n_iter=60, validation=0.3)
    path = model.path
    assert path.switched_after > 0
    left = path.switched_after - path.rewound_to
    lines = [line.split() for line in model.summary().splitlines()]
    at = next(i for i, line in enumerate(lines) if line and line[0] == "term")
    column = lines[at].index("chosen") - 1  # "net df" is two words
    assert sum(int(line[column]) for line in lines[at + 1 :]) == model.n_iter - left
    assert "trained on since iteration" in model.summary()


def test_noise_in_the_last_digit_does_not_move_a_row_to_another_step():
    x = rng.integers(0, 20, 2000) / 10
    y = np.where(np.round(x * 10) % 2 == 0, 1.0, -1.0)
    model = cb.fit({"x": x}, y, [cb.Step("x", bins=20)], n_iter=200)
    exact = model.predict({"x": x})
    np.testing.assert_array_equal(model.predict({"x": x.astype(np.float32)}), exact)
    np.testing.assert_array_equal(model.predict({"x": 1 - (1 - x)}), exact)


def test_the_target_cannot_be_a_term():
    with pytest.raises(ValueError, match="column 'y' is excluded"):
        cb.fit({**TABLE, "y": Y}, "y", [cb.Spline("y")])


def test_class_weight_also_applies_to_a_validation_table():
    x = rng.normal(size=(3000, 3))
    y = (x[:, 0] + 2 * rng.normal(size=3000) > 2).astype(int)
    held = np.arange(3000) >= 2000

    def fitted(X, y, validation):
        classifier = cb.CWBClassifier(class_weight={0: 1, 1: 20}, n_iter=100)
        return classifier.fit(X, y, validation=validation).model_

    by_mask = fitted(x, y, held)
    by_rows = fitted(x[~held], y[~held], (x[held], y[held]))
    np.testing.assert_allclose(by_mask.validation_risk, by_rows.validation_risk, rtol=1e-12)


def test_excluded_columns_stay_out_even_if_named():
    table = pd.DataFrame(TABLE)
    with pytest.raises(ValueError, match="column 'x' is excluded"):
        cb.CWBRegressor(learners=[cb.Step("x"), ...], exclude=["x"]).fit(table, Y)


def test_warm_start_refuses_other_rows_and_other_parameters():
    table = pd.DataFrame(TABLE)
    estimator = cb.CWBRegressor(warm_start=True, n_iter=20).fit(table, Y)
    with pytest.raises(ValueError, match="not the rows of the fit"):
        estimator.fit(table, Y + 1000)
    with pytest.raises(ValueError, match="warm_start=False to fit a new"):
        estimator.set_params(loss="absolute").fit(table, Y)


def test_identifier_columns_cause_a_warning():
    n = 1500
    y = rng.normal(size=n)
    names = np.array([f"row {i}" for i in range(n)], dtype=object)
    with pytest.warns(UserWarning, match="'name' has a different level in every row: it gets no"):
        assert list(cb.fit({"name": names, "x": y + 1}, y, n_iter=2).terms) == ["x"]
    names[:300] = "row 0"
    with pytest.warns(UserWarning, match="'name' has 1201 levels in 1500 rows"):
        cb.fit({"name": names, "x": y + 1}, y, n_iter=2)
    with pytest.warns(UserWarning, match="'id' has a different whole number in every row"):
        cb.fit({"id": np.arange(n)[::-1], "x": y + 1}, y, n_iter=2)
    cb.fit({"id": np.arange(n)}, y, [cb.Linear("id")], n_iter=2)  # requested explicitly: no warning


def test_an_extended_fit_has_the_same_spreads_as_a_longer_fit(monkeypatch):
    monkeypatch.setattr(importlib.import_module("cwboost.fitting.problem"), "MANY_COLUMNS", 2)
    rng = np.random.default_rng(0)
    table = {name: rng.normal(size=150) for name in "abcd"}
    y = 3 * table["a"] + table["b"]
    more = cb.fit(table, y, n_iter=1).extend(60, table, y)
    long = cb.fit(table, y, n_iter=61)
    for name in ("a", "b"):
        np.testing.assert_array_equal(
            more.columns[name].spread.points, long.columns[name].spread.points
        )


def test_arrow_integers_too_large_to_be_exact_become_floats():
    arrow = pytest.importorskip("pyarrow")
    x = np.linspace(0, 1, 100)
    big = np.array([2**60 + 5, 3] * 50)
    found = cb.fit(arrow.table({"u": big, "x": x}), x, n_iter=5)
    expected = cb.fit({"u": big, "x": x}, x, n_iter=5)
    np.testing.assert_array_equal(found.risk, expected.risk)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_y_is_reported_as_y(value):
    with pytest.raises(ValueError, match="y, row 1: the value is infinite; leave such rows out"):
        cb.fit({"x": [1.0, 2.0, 3.0]}, [0.0, value, 1.0])


# --- model selection and uncertainty --------------------------------------------------------------


def numbers(n=120):
    rng = np.random.default_rng(7)
    table = {"x": rng.uniform(size=n), "z": rng.uniform(size=n)}
    return table, np.exp(table["x"]) + rng.gamma(2.0, 0.2, n)


@pytest.mark.parametrize("what", ["deselect", "aic"])
def test_an_average_of_bags_is_refused_where_a_path_is_needed(what):
    table, y = numbers()
    with pytest.raises(ValueError, match=f"{what}: the model is the average of 2 bags"):
        getattr(cb, what)(cb.fit(table, y, bags=2, n_iter=20), table, y)


def test_intervals_of_a_positive_target_do_not_go_below_zero():
    table, y = numbers()
    found = cb.fit(table, y, loss="gamma", n_iter=20).intervals(table, y, kind="cqr", level=0.98)
    assert found.predict({"x": [-3.0, 0.5], "z": [0.0, 0.5]})["lower"].min() >= 0.0


def test_a_tuning_file_belongs_to_one_metric(tmp_path):
    table, y = numbers()
    options = {"space": {"rate": [0.1, 0.3]}, "schedule": cb.RandomSearch(2, 5), "folds": 2}
    options |= {"file": tmp_path / "t.jsonl", "greater_is_better": False}
    cb.tune(table, y, metric=lambda y, p: np.mean((y - p) ** 2), **options)
    with pytest.raises(ValueError, match="metric"):
        cb.tune(table, y, metric=lambda y, p: np.max(np.abs(y - p)), **options)


def test_tune_refuses_a_metric_that_is_not_a_number():
    table, y = numbers()
    with pytest.raises(ValueError, match="not a number on the test rows"):
        cb.tune(
            table,
            y,
            space={"rate": [0.1, 0.3]},
            schedule=cb.RandomSearch(2, 5),
            folds=2,
            metric=lambda _y, _p: float("nan"),
            greater_is_better=False,
        )
