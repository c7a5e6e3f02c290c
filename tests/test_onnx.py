"""Tests of the ONNX export: run in onnxruntime, the graph gives the predictions of the model.

The models and the difficult rows are in export_cases.py.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest

import cwboost as cb
import export_cases as cases
import problems
from cwboost.export.onnx import onnx_inputs, to_onnx

OPTIONS = onnxruntime.SessionOptions()
OPTIONS.intra_op_num_threads = 1


def run(graph: Any, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(graph.SerializeToString(), OPTIONS)
    names = [output.name for output in session.get_outputs()]
    assert [i.name for i in session.get_inputs()] == list(inputs)
    return dict(zip(names, session.run(names, inputs), strict=True))


def check(model: cb.Model, rows: dict[str, np.ndarray], **options: Any) -> None:
    tolerance = options.pop("tolerance", cases.TOLERANCE)
    found = run(to_onnx(model, **options), onnx_inputs(model, rows, **options))
    assert list(found) == ["score", "response"]
    fixed = {k: v for k, v in options.items() if k in ("offset", "exposure")}
    for kind, values in found.items():
        assert values.dtype == np.float64
        assert values.ndim == (1 if model.n_outputs == 1 else 2)
        expected = cases.predict(model, rows, kind, **fixed)
        cases.assert_same(values.reshape(len(values), -1), expected, tolerance)


@pytest.mark.parametrize("kind", cases.KINDS)
def test_kinds_of_terms(kind):
    model = cases.kind_model(kind)
    check(model, cases.hard_rows(model, cases.make_table()))


@pytest.mark.parametrize("loss", problems.LOSSES)
def test_losses(loss):
    model = cases.loss_model(loss)
    check(model, cases.hard_rows(model, cases.make_table()))


def test_hostile_names_and_levels():
    table = cases.hostile_table()
    rename = {"score": "scores", "response": "responses"}
    table = {rename.get(name, name): column for name, column in table.items()}
    for column in table.values():
        if column.dtype == object:
            column[column == "zero\0byte"] = "zero byte"
    learners = [cb.Category(name) for name in table if name != "x"]
    y = np.random.default_rng(5).normal(size=len(table["x"]))
    model = cb.fit(table, y, learners, n_iter=100)
    with pytest.raises(ValueError, match="pass another text as missing="):
        to_onnx(model)
    check(model, cases.hard_rows(model, table), missing="<none>")
    for name, match in (("score", "cannot be the name of an ONNX input"), ("zero", "zero byte")):
        level = "zero\0byte" if name == "zero" else "b"
        bad = cb.fit({name: np.array(["a", level] * 9, object)}, [0.0, 1.0] * 9)
        with pytest.raises(ValueError, match=match):
            to_onnx(bad)


def test_offset_and_exposure():
    table = cases.make_table() | {"log_e": np.linspace(-1, 1, cases.N)}
    table["years"] = np.linspace(0.1, 2, cases.N)
    y = problems.make_target(0, table, "poisson")
    learners = [cb.Spline("u"), cb.Linear("years")]  # a column may be both a term and the exposure
    by_name = cb.fit(
        table, y, learners, loss="poisson", offset="log_e", exposure="years", n_iter=30
    )
    check(by_name, table)
    arrays = cb.fit(table, y, learners, loss="poisson", exposure=table["years"], n_iter=20)
    check(arrays, table, exposure="years")
    check(arrays, table, offset=0)
    with pytest.raises(ValueError, match="offset=0 for none"):
        to_onnx(arrays)


def test_offset_of_several_classes():
    table = cases.make_table()
    y = problems.make_target(0, table, "multinomial")
    block = problems.make_offset(0, cases.N, "multinomial")
    model = cb.fit(table, y, [cb.Spline("u")], loss="multinomial", offset=block, n_iter=20)
    found = run(to_onnx(model, offset="shift"), {"u": table["u"], "shift": block})
    for kind in ("score", "response"):
        cases.assert_same(found[kind], model.predict(table, kind=kind, offset=block))
    with pytest.raises(TypeError, match="one input of shape"):
        to_onnx(model, offset=["a", "b", "c"])


def test_extreme_scores():
    table = {"x": np.linspace(0, 1, 50)}
    for loss, y in (("binomial", table["x"] > 0.5), ("multinomial", np.arange(50) % 3)):
        model = cb.fit(table, y, [cb.Linear("x")], loss=loss, n_iter=30)
        check(model, {"x": np.array([-1e6, -1e3, 0.0, 1e3, 1e6, 1e200])})


def test_float_inputs_and_a_single_output():
    model = cases.kind_model("spline, missing")
    rows = {"v": np.array([-1.5, 0.0, 2.25, np.nan, 100.0])}  # exact in 32 bits
    check(model, rows, numbers="float")
    score = run(to_onnx(model, kind="score"), onnx_inputs(model, rows))
    assert list(score) == ["score"]


def test_one_row_and_no_rows():
    model = cases.loss_model("binomial")
    rows = {name: column[:1] for name, column in cases.make_table().items()}
    check(model, rows)
    no_rows = {name: column[:0] for name, column in onnx_inputs(model, rows).items()}
    assert run(to_onnx(model), no_rows)["response"].shape == (0,)


@pytest.mark.parametrize("missing", ["", "?", "??"])
def test_text_that_means_missing_in_a_cell_that_is_not(missing):
    """`predict` takes it for a level that training did not have."""
    cells = np.array(["a", "b", None, "?"] * 20, dtype=object)
    model = cb.fit({"g": np.where(cells == missing, "c", cells)}, np.arange(80.0) % 4, n_iter=50)
    rows = {"g": np.array(["a", "", None, "?", "??", "???"], dtype=object)}
    found = run(to_onnx(model, missing=missing), onnx_inputs(model, rows, missing=missing))
    with pytest.warns(UserWarning, match="never seen"):
        np.testing.assert_allclose(found["response"], model.predict(rows), rtol=1e-12)


def test_metadata():
    found = {p.key: p.value for p in to_onnx(cases.loss_model("multinomial")).metadata_props}
    assert found["loss"] == "multinomial"
    assert found["classes"] == '["one", "three", "two"]'


def test_errors(monkeypatch):
    model = cases.kind_model("linear")
    with pytest.raises(ValueError, match="numbers: expected"):
        to_onnx(model, numbers="half")
    with pytest.raises(ValueError, match="no chosen term"):
        to_onnx(model.at(0))
    with pytest.raises(TypeError, match="expected numbers, got text"):
        onnx_inputs(model, {"u": ["a"]})
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cwboost\[onnx\]'"):
        to_onnx(model)


def test_other_spellings_of_levels():
    table = {"g": np.array(["1", "2.5", "True", "x"] * 20, dtype=object)}
    model = cb.fit(table, np.arange(80.0) % 4, n_iter=20)
    check(model, {"g": np.array(["1.0", "2.5", "true", "TRUE", "1", "01", "X"], dtype=object)})
