"""Tests of extensions: a new loss, learner, optimizer, metric, display or export needs one class
and one line in a registry.

The examples of tests/extensions.py go through every public interface.
"""

import json
import warnings
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
import pytest

import cwboost as cb
from cwboost.cli.main import main
from cwboost.export.model_file import ModelFileError
from cwboost.export.registry import EXPORTS, Export, export
from cwboost.frames.files import write_table
from cwboost.losses import LOSSES, Loss, as_loss
from cwboost.metrics.metric import METRICS, register_metric
from cwboost.optimizers import Optimizer, as_optimizer
from cwboost.terms.bases import BASES, Basis, register_basis
from extensions import Bump, Cautious, Hinge, HingeBasis, LogCosh, registered, worst


@pytest.fixture(autouse=True)
def kinds():
    with registered():
        yield


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 300
    return {
        "x": rng.uniform(0, 10, n).round(2),
        "z": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n).round(2)),
        "g": rng.choice(["a", "b", "c"], n),
    }


@pytest.fixture(scope="module")
def y(table):
    rng = np.random.default_rng(1)
    bend = np.maximum(table["x"] - 6, 0)
    return bend + np.nan_to_num(table["z"]) + (table["g"] == "b") + 0.3 * rng.standard_t(3, 300)


@pytest.fixture
def model(table, y):
    learners = [Hinge("x", knot=6.0), cb.Spline("z"), cb.Category("g")]
    return cb.fit(table, y, learners, LogCosh(0.5), Cautious(0.4), n_iter=80, validation=0.2)


@pytest.fixture
def bumpy(table, y):
    return cb.fit(table, y, [Bump("x"), cb.Linear("z"), cb.Category("g")], n_iter=80)


def test_the_fit_uses_the_extensions(model, table, y):
    assert "x" in model.choices
    assert model.optimizer == Cautious(0.4)
    assert model.predict(table).shape == y.shape
    parts = model.contributions(table)
    score = model.intercept + sum(parts.values())
    np.testing.assert_allclose(score, model.predict(table, kind="score"), atol=1e-12)
    # The mean of the user-defined loss at the predictions is the training risk.
    held = model.settings.fraction
    assert held == 0.2
    low = cb.fit(table, y, model_learners(), LogCosh(0.5), cb.Plain(0.2), n_iter=80, bins="exact")
    at = LogCosh(0.5).loss(y, low.predict(table, kind="score"))
    assert low.risk[-1] == pytest.approx(at.mean(), rel=1e-9)
    half = cb.fit(table, y, model_learners(), LogCosh(0.5), Cautious(0.4), n_iter=80, bins="exact")
    np.testing.assert_array_equal(low.risk, half.risk)


def model_learners():
    return [Hinge("x", knot=6.0), cb.Spline("z"), cb.Category("g")]


def test_names_and_formulas(table, y):
    data = {**table, "y": y}
    formula = "y ~ hinge(x, 6) + z + g"
    model = cb.fit(data, formula, loss="log-cosh", optimizer="cautious", n_iter=20)
    assert model.terms["x"].learner == Hinge("x", knot=6)
    assert model.loss == LogCosh()
    assert isinstance(model.optimizer, Cautious)


def test_path_and_more_iterations(model, table, y):
    short = model.at(20)
    longer = short.extend(10, table, y)
    np.testing.assert_array_equal(longer.risk, model.at(30).risk)


def test_selection(table, y):
    learners = model_learners()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cb.cv(
            table, y, learners, LogCosh(), optimizer=Cautious(0.4), n_iter=40, folds=3,
            metric="worst",
        )  # fmt: skip
        assert found.chosen_by == "worst"
        space = {"optimizer": ["plain", "cautious"], "df.Hinge": cb.LogUniform(2.2, 2.9)}
        tuned = cb.tune(
            table, y, space, learners, LogCosh(), folds=3, metric="worst",
            schedule=cb.RandomSearch(4, 30),
        )  # fmt: skip
        assert "cautious" in {trial.parameters["optimizer"] for trial in tuned.trials}
        stable = cb.stability(table, y, learners, LogCosh(), q=2, cutoff=0.75, n_samples=5)
        assert "x" in stable.selected
        kept = cb.deselect(cb.fit(table, y, learners, LogCosh(), n_iter=60), table, y)
    assert kept.terms["x"].chosen


def test_uncertainty(model, table, y):
    full = cb.fit(table, y, model_learners(), LogCosh(0.5), Cautious(0.4), n_iter=60)
    banded = full.with_bands(table, y, n_boot=10)
    assert np.all(banded.band("x")["upper"] > banded.band("x")["lower"])
    bagged = cb.fit(table, y, model_learners(), LogCosh(0.5), n_iter=40, bags=3)
    assert len(bagged.bags) == 3
    intervals = full.intervals(table, y, kind="split")
    ends = intervals.predict(table)
    assert np.all(ends["upper"] > ends["lower"])
    pairs = cb.fit(table, y, model_learners(), LogCosh(), n_iter=30, interactions=1)
    assert pairs.interactions.chosen == 1


def test_importance_summary_and_figures(model, table, y):
    assert set(model.importance()) == {"x", "z", "g"}
    assert "Hinge" in model.summary()
    assert "Cautious" in model.summary()
    assert "<svg" in model._repr_html_()
    assert len(model.effect("x")["effect"]) > 0


def test_files(model, bumpy, table, tmp_path):
    for one in (model, bumpy):
        one.save(tmp_path / "m.json")
        loaded = cb.load(tmp_path / "m.json")
        np.testing.assert_array_equal(loaded.predict(table), one.predict(table))
        assert loaded.terms["x"].learner == one.terms["x"].learner
        assert loaded.optimizer == one.optimizer


def test_a_file_with_unregistered_classes_is_refused(model, tmp_path):
    from cwboost.terms.learners import LEARNERS

    model.save(tmp_path / "m.json")
    before = (tmp_path / "m.json").read_bytes()
    del LEARNERS["Hinge"]
    with pytest.raises(ModelFileError, match="Hinge"):
        cb.load(tmp_path / "m.json")
    with pytest.raises(TypeError, match="Hinge"):
        model.save(tmp_path / "m.json")
    assert (tmp_path / "m.json").read_bytes() == before


def test_sql(model, bumpy, table):
    duckdb = pytest.importorskip("duckdb")
    import pandas as pd

    rows = pd.DataFrame(table)  # noqa: F841 (DuckDB reads it)
    found = duckdb.sql(model.to_sql(table="rows", dialect="duckdb")).df()
    np.testing.assert_allclose(found["response"], model.predict(table), atol=1e-9)
    with pytest.raises(TypeError, match="BumpBasis"):
        bumpy.to_sql(table="rows")


def test_onnx(model, bumpy, table):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    from cwboost.export.onnx import onnx_inputs

    session = runtime.InferenceSession(model.to_onnx().SerializeToString())
    (found,) = session.run(["response"], onnx_inputs(model, table))
    np.testing.assert_allclose(np.ravel(found), model.predict(table), atol=1e-9)
    with pytest.raises(TypeError, match="BumpBasis"):
        bumpy.to_onnx()


def test_tables(model, bumpy, tmp_path):
    model.to_csv(tmp_path / "tables")
    assert any("x" in file.name for file in (tmp_path / "tables").iterdir())
    model.to_excel(tmp_path / "m.xlsx")
    assert (tmp_path / "m.xlsx").stat().st_size > 0
    with pytest.raises(TypeError, match="BumpBasis"):
        bumpy.to_csv(tmp_path / "bumpy")
    assert not (tmp_path / "bumpy").exists()


def test_edits(model, bumpy, table):
    for one in (model, bumpy):
        edited = one.edit("zero", "x")
        assert "x" not in edited.contributions(table)
    with pytest.raises((TypeError, ValueError), match="got a Bump"):
        bumpy.edit("monotone", "x", increasing=True)


def test_plots(model, bumpy, tmp_path):
    pytest.importorskip("matplotlib")
    from cwboost.plotting.plot import save

    for one in (model, bumpy):
        for kind in ("effects", "importance", "risk", "traces"):
            save(one, tmp_path / f"{kind}.png", kind=kind)
        save(one, tmp_path / "x.png", "x")
    save(model, tmp_path / "choices.png", kind="choices")
    assert (tmp_path / "choices.png").read_bytes()[:4] == b"\x89PNG"
    assert model.plot(kind="choices").counts["x"] > 0


def test_report(model, bumpy, table, y, tmp_path):
    for one, name in ((model, "Hinge"), (bumpy, "Bump")):
        one.report(tmp_path / "r.html", table, y)
        assert name in (tmp_path / "r.html").read_text()


def test_estimators(table, y):
    regressor = cb.CWBRegressor("log-cosh", optimizer="cautious", learners=[Hinge("x"), ...])
    regressor.fit(table, y)
    assert regressor.plot(kind="choices").counts["x"] > 0
    assert isinstance(regressor.model_.optimizer, Cautious)
    assert regressor.model_.terms["x"].learner == Hinge("x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 30 iterations are few
        folded = cb.CWBRegressorCV(LogCosh(), cv=3, n_iter=30, scoring="worst").fit(table, y)
    assert folded.cv_result_.chosen_by == "worst"


def test_command_line(table, y, tmp_path, capsys):
    data, file = str(tmp_path / "t.csv"), str(tmp_path / "m.json")
    write_table(data, {**table, "y": y})
    fit = ["fit", data, "--loss", "log-cosh", "--optimizer", "cautious", "--iterations", "30"]
    assert main([*fit, "--formula", "y ~ hinge(x, 6) + z + g", "-o", file]) == 0
    assert json.loads((tmp_path / "m.json").read_text())["optimizer"]["type"] == "Cautious"
    assert main(["predict", file, data, "-o", str(tmp_path / "p.csv")]) == 0
    assert main(["plot", file, "--kind", "choices", "-o", str(tmp_path / "c.png")]) == 0
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    assert main(["export", file, "--to", str(tmp_path / "m.txt")]) == 0
    assert "Hinge" in (tmp_path / "m.txt").read_text()
    cv = ["cv", data, "--target", "y", "--metric", "worst", "--folds", "3", "--iterations", "20"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 20 iterations are few
        assert main(cv) == 0
    assert "worst" in capsys.readouterr().out
    assert main(["show", file]) == 0
    assert "Hinge" in capsys.readouterr().out


def test_dask(table, y):
    pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    import dask.dataframe as dd
    import pandas as pd

    import cwboost.dask as cd

    frame = pd.DataFrame({**table, "y": y})
    learners = model_learners()
    with (
        warnings.catch_warnings(),
        distributed.Client(
            processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None
        ) as client,
    ):
        warnings.simplefilter("ignore")
        shards = dd.from_pandas(frame, npartitions=2)
        far = cd.fit(client, shards, "y", learners, LogCosh(0.5), Cautious(0.4), n_iter=30)
    near = cb.fit(frame, "y", learners, LogCosh(0.5), Cautious(0.4), n_iter=30)
    assert far.choices == near.choices
    np.testing.assert_allclose(far.predict(frame), near.predict(frame), atol=1e-9)


# --- mistakes in extensions are named -------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("n_coef", 2.5, r"Hinge\('x'\): Wrong.n_coef must be a whole number"),
        ("n_coef", 4, r"Wrong.evaluate must be finite numbers of shape \(30, 4\).*got the shape"),
        ("evaluate", lambda self, values: np.ones(len(values)), "Wrong.evaluate .* shape"),
        ("evaluate", lambda self, values: np.full((len(values), 3), np.nan), "not finite"),
        ("penalty", lambda self: np.eye(2), r"Wrong.penalty .* shape \(3, 3\) or \(3,\)"),
        ("penalty", lambda self: np.triu(np.ones((3, 3))), "Wrong.penalty .* symmetric"),
        ("polynomials", lambda self: 3, "Wrong.polynomials must return Pieces or None, got int"),
        (
            "polynomials",
            lambda self: replace(HingeBasis.polynomials(self), width=np.ones(2)),
            "Wrong.polynomials does not agree with the values of the basis: at ",
        ),
        (
            "polynomials",
            lambda self: replace(HingeBasis.polynomials(self), breaks=np.array([2.0, 1.0])),
            "Wrong.polynomials: breaks must be increasing",
        ),
        (
            "polynomials",
            lambda self: replace(HingeBasis.polynomials(self), breaks=np.array([1.0, 2.0])),
            r"Wrong.polynomials: origin must be finite numbers of shape \(3,\)",
        ),
        (
            "rows",
            lambda self, values, room: HingeBasis(knot=1.0, low=0.0, high=9.0).rows(values, room),
            "Wrong.evaluate and Wrong.rows return different values",
        ),
    ],
)  # fmt: skip
def test_a_basis_that_contradicts_itself_is_refused(table, y, monkeypatch, method, value, message):
    class Wrong(HingeBasis):
        pass

    setattr(Wrong, method, value)
    monkeypatch.setattr(Hinge, "basis", lambda self, column, _: Wrong(knot=6.0, low=0.0, high=10.0))
    with pytest.raises((TypeError, ValueError), match=message):
        cb.fit(table, y, [Hinge("x")], n_iter=1)
    with pytest.raises((TypeError, ValueError), match="Wrong"):
        cb.fit(table, y, [cb.Tensor(Hinge("x"), "g")], n_iter=1)


@pytest.mark.parametrize("learner", [Hinge("x"), cb.Tensor(Hinge("x"), "g")])
def test_a_learner_that_does_not_return_a_basis_is_named(table, y, monkeypatch, learner):
    monkeypatch.setattr(Hinge, "basis", lambda self, column, encoder: np.eye(3))
    with pytest.raises(TypeError, match=r"Hinge\('x'\): the basis must be an instance"):
        cb.fit(table, y, [learner], n_iter=1)


def test_a_basis_must_have_its_own_kind():
    @dataclass(frozen=True, eq=False, kw_only=True)
    class SplineBasis(HingeBasis):
        pass

    @dataclass(frozen=True, eq=False, kw_only=True)
    class Nameless(Basis):
        pass

    taken = next(kind for kind, cls in BASES.items() if cls.__name__ == "SplineBasis")
    SplineBasis.kind = taken
    with pytest.raises(ValueError, match=r"is a basis of cwboost; set SplineBasis\.kind"):
        register_basis(SplineBasis)
    with pytest.raises(TypeError, match="expected a dataclass derived from Basis, got 3"):
        register_basis(3)
    with pytest.raises(TypeError, match="Nameless needs a class attribute `kind`"):
        register_basis(Nameless)


def test_a_response_has_one_row_per_row(table, y, monkeypatch):
    model = cb.fit(table, y, loss=LogCosh(), n_iter=1)
    monkeypatch.setattr(LogCosh, "response", lambda self, score: score.mean())
    with pytest.raises(
        ValueError, match=r"log-cosh loss has the shape \(\), but the table has 300"
    ):
        model.predict(table)


def test_a_start_may_be_a_number_of_the_right_shape(table, y, monkeypatch):
    expected = cb.fit(table, y, loss=LogCosh(), n_iter=5).predict(table)
    start_of = LogCosh.start_of
    monkeypatch.setattr(LogCosh, "start_of", lambda self, rows: float(start_of(self, rows)[0]))
    np.testing.assert_array_equal(
        cb.fit(table, y, loss=LogCosh(), n_iter=5).predict(table), expected
    )
    monkeypatch.setattr(LogCosh, "start_of", lambda self, rows: np.zeros(2))
    with pytest.raises(ValueError, match=r"LogCosh.start_of must return an array of shape \(1,\)"):
        cb.fit(table, y, loss=LogCosh(), n_iter=1)
    monkeypatch.setattr(LogCosh, "start_of", lambda self, rows: None)
    with pytest.raises(TypeError, match=r"LogCosh\.start_of must return .* got None"):
        cb.fit(table, y, loss=LogCosh(), n_iter=1)


def test_a_loss_states_name_target_and_link(monkeypatch):
    @dataclass(frozen=True)
    class Nameless(Loss):
        pass

    with pytest.raises(TypeError, match="Nameless needs a class attribute `name`"):
        as_loss(Nameless())
    for attribute, value in (("target", "ranks"), ("link", "probit"), ("link", None)):
        with monkeypatch.context() as patch:
            patch.setattr(LogCosh, attribute, value)
            with pytest.raises(ValueError, match=rf"LogCosh.{attribute}: expected .*{value!r}"):
                as_loss("log-cosh")
    monkeypatch.setitem(LOSSES, "mine", lambda y, score: y - score)
    with pytest.raises(TypeError, match=r"LOSSES\['mine'\] must be a subclass of cwboost.losses.L"):
        as_loss("mine")


def test_an_optimizer_is_a_dataclass_and_returns_an_optimizer_of_the_core(monkeypatch):
    class Bare(Optimizer):
        rate = 0.1

    with pytest.raises(TypeError, match="optimizer: Bare must be a dataclass"):
        as_optimizer(Bare())
    monkeypatch.setattr(Cautious, "core", lambda self: self)
    with pytest.raises(TypeError, match=r"optimizer: Cautious.core\(\) must return an optimizer"):
        as_optimizer("cautious")


def test_entries_of_registries_have_the_right_type(table, y, model, monkeypatch, tmp_path):
    monkeypatch.setitem(METRICS, "bare", worst)
    with pytest.raises(TypeError, match=r"METRICS\['bare'\] must be a Metric.*register_metric"):
        cb.cv(table, y, folds=3, n_iter=5, metric="bare")
    with pytest.raises(TypeError, match="register_metric: name must be a string, got 3"):
        register_metric(3, worst, greater_is_better=False)
    with pytest.raises(ValueError, match=r"ending must start with .* got 'txt'"):
        Export("txt", print)
    with pytest.raises(TypeError, match="write must be a function"):
        Export(".txt", 3)
    monkeypatch.setitem(EXPORTS, "bare", print)
    with pytest.raises(TypeError, match=r"EXPORTS\['bare'\] must be an Export"):
        export(model, tmp_path / "m.sql")


def test_dir_shows_what_is_public():
    shown = {name for name in dir(cb) if not name.startswith("__")}
    assert set(cb.__all__) <= shown
    assert all(isinstance(getattr(cb, name), ModuleType) for name in shown - set(cb.__all__))
