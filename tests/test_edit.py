"""Tests of edited models: they are consistent, recorded and reversible, and each edit does its job.

Every kind of learner in `problems.KINDS` is tested with every edit that accepts it.
"""

from __future__ import annotations

import pickle
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import isotonic_regression

import cwboost as cb
from cwboost.model import edits as edit
from problems import KINDS, make_table, make_target, make_weights

DOCS = Path(__file__).parents[1] / "docs" / "editing.md"
N = 300
TABLE = make_table(5, N)
WEIGHTS = make_weights(5, N)


@cache
def fitted(kind: str, loss: str = "squared") -> cb.Model:
    y = make_target(5, TABLE, loss)
    return cb.fit(TABLE, y, KINDS[kind](), loss=loss, weights=WEIGHTS, n_iter=40)


def first(model: cb.Model) -> str:
    return next(name for name, term in model.terms.items() if term.chosen)


SMOOTHED = {
    "spline": 3, "spline, missing": 4, "spline, quantile knots": 3, "spline, degree 2": 2.5,
    "spline, degree 1": 2, "spline, smoothing": 4, "spline, df1": 3, "step": 3, "step, missing": 4,
    "category": 2, "category, missing": 2, "category, numbers": 2, "centered": 0.5,
    "centered, missing": 0.5, "tensor": 6, "tensor, category": 4, "tensor, missing": 8,
    "pair": 2, "pair, category": 1, "pair, missing": 2,
}  # fmt: skip
MONOTONE = [kind for kind in SMOOTHED if not kind.startswith(("centered", "tensor", "pair"))]
MONOTONE += ["linear", "linear, no intercept", "linear, missing"]
ORDERS = {"category": ["c", "a", "d", "b"], "category, missing": ["r", "p", "q"]}
LEVELS = {
    "category": ("g", "c"), "category, missing": ("h", None), "category, numbers": ("k", 3),
    "category, binary": ("h", "q"), "step": ("z", 0.0), "step, missing": ("v", None),
    "spline, missing": ("v", None), "linear, missing": ("missing(v)", None),
}  # fmt: skip
CASES = [
    *[(kind, "zero", {}) for kind in KINDS],
    *[(kind, "rounded", {"digits": digits}) for kind in KINDS for digits in (0, 2)],
    *[(kind, "smoothed", {"df": df}) for kind, df in SMOOTHED.items()],
    *[
        (kind, "monotone", {"increasing": up, "order": ORDERS.get(kind)})
        for kind in MONOTONE
        for up in (True, False)
    ],
    *[(k, "set_level", {"term": t, "level": x, "effect": 0.75}) for k, (t, x) in LEVELS.items()],
]


def apply(kind: str, what: str, parameters: dict, loss: str = "squared"):
    model = fitted(kind, loss)
    parameters = dict(parameters)
    name = parameters.pop("term", None) or first(model)
    return model, name, model.edit(what, name, **parameters)


def scores(model: cb.Model, table=TABLE) -> np.ndarray:
    return model.predict(table, kind="score")


@pytest.mark.parametrize(("kind", "what", "parameters"), CASES)
def test_edited_models_are_consistent(kind, what, parameters, tmp_path):
    model, name, edited = apply(kind, what, parameters)
    before = scores(fitted(kind))
    parts = edited.contributions(TABLE)
    # intercept + contributions = score, and every contribution has mean zero over the rows
    total = np.full(N, edited.intercept) + sum(parts.values(), np.zeros(N))
    np.testing.assert_allclose(total, scores(edited), atol=1e-12)
    for part in parts.values():
        merged = kind.startswith(
            ("tensor", "pair, splines", "pair, linear")
        )  # 300 values in 255 bins
        assert abs(WEIGHTS @ part) / WEIGHTS.sum() < (1e-3 if merged else 1e-12)
    assert set(parts) == {n for n, t in edited.terms.items() if t.chosen}
    # the original model and the other terms are unchanged
    np.testing.assert_array_equal(scores(model), before)
    assert model.edits == ()
    changed = [n for n in model.terms if edited.terms[n] is not model.terms[n]]
    assert len(changed) == 1
    # the edit is recorded
    (record,) = edited.edits
    assert (record.what, record.term) == (what, name)
    assert record.words in edited.summary()
    assert "edited" not in model.summary()
    moved = np.abs(scores(edited) - scores(model)).max()
    # The largest change is searched on a grid, which for pairs has no missing cells.
    said = re.search(r"up to (\S+)$", record.words)
    if kind not in ("tensor, missing", "pair, missing"):
        assert moved <= (float(said[1]) * 1.05 if said else 1e-12)
    again = model.edit(record.what, record.term, **dict(record.parameters))
    np.testing.assert_array_equal(scores(again), scores(edited))
    # pickles and files keep the edits
    copy = pickle.loads(pickle.dumps(edited))
    assert copy.edits == edited.edits
    np.testing.assert_array_equal(scores(copy), scores(edited))
    edited.save(tmp_path / "m.json")
    loaded = cb.load(tmp_path / "m.json")
    assert loaded.edits == edited.edits
    np.testing.assert_array_equal(scores(loaded), scores(edited))
    # the edit can be undone
    np.testing.assert_allclose(scores(edit.unedited(edited)), before, atol=1e-12)


@pytest.mark.parametrize("loss", ["multinomial", "poisson"])
@pytest.mark.parametrize(
    ("kind", "what", "parameters"),
    [
        ("spline, missing", "zero", {}),
        ("category", "rounded", {"digits": 1}),
        ("spline", "smoothed", {"df": 3}),
        ("category, missing", "set_level", {"level": "q", "effect": None}),
    ],
)
def test_edits_with_other_losses(loss, kind, what, parameters):
    q = 3 if loss == "multinomial" else 1
    if "effect" in parameters:
        parameters = parameters | {"effect": [0.5, -0.5, 0.0][:q]}
    _, name, edited = apply(kind, what, parameters, loss)
    total = edited.intercept + sum(edited.contributions(TABLE).values(), np.zeros(()))
    np.testing.assert_allclose(np.broadcast_to(total, scores(edited).shape), scores(edited))
    np.testing.assert_allclose(
        WEIGHTS @ (edited.terms[name].effect_at(_encoded(edited, name))), 0, atol=1e-10
    )
    back = edit.unedited(edited)
    np.testing.assert_allclose(scores(back), scores(fitted(kind, loss)), atol=1e-12)


def _encoded(model, name):
    from cwboost.frames.read_frames import read

    term, data = model.terms[name], read(TABLE)
    return term.plan.encode([data[c] for c in term.columns])


# --- zero -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_zero_keeps_the_intercept(kind):
    model, name, edited = apply(kind, "zero", {})
    assert edited.intercept == pytest.approx(model.intercept, abs=1e-14)
    assert not edited.terms[name].chosen
    expected = scores(model) - model.contributions(TABLE)[name]
    np.testing.assert_allclose(scores(edited), expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["centered", "category, binary", "linear, missing"])
def test_zero_of_a_column_removes_all_its_terms(kind):
    model = fitted(kind)
    column = next(iter(model.terms.values())).columns[0]
    np.testing.assert_allclose(scores(edit.zero(model, column)), model.intercept, atol=1e-12)


# --- rounded --------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [-1, 0, 1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_rounded_moves_scores_by_at_most_half_a_unit(kind, digits):
    model, name, edited = apply(kind, "rounded", {"digits": digits})
    term, basis = edited.terms[name], edited.terms[name].plan.basis
    moved = np.abs(scores(edited) - scores(model)).max()
    pieces = 2 * basis.n_coef if "powers" in (basis.kind, getattr(basis, "a", basis).kind) else 1
    assert moved <= (pieces / 2 + 1e-9) * 10.0**-digits
    if kind.startswith(("category", "step")):
        assert [round(v, digits) for v in term.coef.tolist()] == term.coef.tolist()


def test_rounded_slope():
    for name, slope in (("linear", 1), ("linear, no intercept", 0)):
        model, term, edited = apply(name, "rounded", {"digits": 2})
        old, new = model.terms[term].coef[slope], edited.terms[term].coef[slope]
        scale = model.terms[term].plan.basis.scale  # 0.99 and 1.02; above 1, one more digit is kept
        assert new == pytest.approx(round(old, 2 if scale <= 1 else 3), abs=1e-12)


# --- smoothed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SMOOTHED)
def test_smoothed_is_smoother_and_keeps_its_mean(kind):
    model, name, edited = apply(kind, "smoothed", {"df": SMOOTHED[kind]})
    penalty = model.terms[name].plan.basis.penalty()
    penalty = penalty if penalty.ndim == 2 else np.diag(penalty)
    mean = model.terms[name].mean
    before, after = model.terms[name].beta - mean, edited.terms[name].beta
    assert (after.T @ penalty @ after).item() < (before.T @ penalty @ before).item()
    if "category" not in kind and not kind.startswith("tensor"):
        assert edited.intercept == pytest.approx(model.intercept, abs=1e-10)


def test_smoothed_steps_by_dense_algebra():
    """The mean row of steps is the exact Gram matrix, so this is weighted least squares on rows."""
    model, name, edited = apply("step", "smoothed", {"df": 3.0})
    term = model.terms[name]
    B = term.plan.basis.matrix(_encoded(model, name)).toarray()
    P = term.plan.basis.penalty()
    w = WEIGHTS / WEIGHTS.sum()
    target = model.contributions(TABLE)[name]
    gram = B.T @ (w[:, None] * B)
    for smoothing in np.geomspace(1e-4, 1e4, 4000):
        H = np.linalg.solve(gram + smoothing * P, gram)
        if np.trace(2 * H - H @ H) <= 3.0:
            break
    expected = B @ np.linalg.solve(gram + smoothing * P, B.T @ (w * target))
    np.testing.assert_allclose(edited.contributions(TABLE)[name], expected, atol=5e-3)


def test_smoothed_with_the_largest_df_changes_nothing():
    model, _, edited = apply("step", "smoothed", {"df": 100})
    np.testing.assert_allclose(scores(edited), scores(model), atol=1e-6)


# --- monotone -------------------------------------------------------------------------------------


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize("kind", [kind for kind in MONOTONE if not kind.startswith("category")])
def test_monotone_everywhere(kind, up):
    model, name, edited = apply(kind, "monotone", {"increasing": up})
    x = np.linspace(-6, 6, 3001)
    effect = edited.terms[name].effect_at(edited.terms[name].plan.encoders[0].encode(_column(x)))
    assert np.all(np.diff(effect[:, 0]) * (1 if up else -1) >= -1e-12)
    assert edited.intercept == pytest.approx(model.intercept, abs=1e-8)
    again = edit.monotone(edited, name, up)
    np.testing.assert_allclose(scores(again), scores(edited), atol=1e-12)
    if "missing" in kind and kind != "linear, missing":
        gone = {"v": [np.nan]}
        np.testing.assert_allclose(scores(edited, gone), scores(model, gone), atol=1e-8)


def _column(x):
    from cwboost.frames.columns import Numbers

    return Numbers("x", x)


def test_monotone_levels_are_the_weighted_isotonic_regression():
    model, name, edited = apply("category, numbers", "monotone", {})
    shares = np.array([WEIGHTS[TABLE["k"] == k].sum() for k in range(5)])
    expected = isotonic_regression(model.effect(name)["effect"], weights=shares).x
    np.testing.assert_allclose(edited.effect(name)["effect"], expected, atol=1e-12)


def test_monotone_in_a_given_order():
    _, name, edited = apply("category", "monotone", {"order": ORDERS["category"]})
    effect = dict(zip(*edited.effect(name).values(), strict=True))
    found = [effect[level] for level in ORDERS["category"]]
    assert found == sorted(found)
    assert dict(edited.edits[0].parameters)["order"] == tuple(ORDERS["category"])


def test_monotone_takes_a_declared_order():
    pandas = pytest.importorskip("pandas")
    sizes = pandas.Categorical(["small", "big", "medium"] * 9, ["small", "medium", "big"], True)
    table = pandas.DataFrame({"size": sizes})
    model = cb.fit(table, [0.0, 1.0, 2.0] * 9, n_iter=200)
    found = edit.monotone(model, "size").effect("size")["effect"]
    np.testing.assert_allclose(found, [-1.0, 0.5, 0.5], atol=1e-3)


# --- set_level ------------------------------------------------------------------------------------

ROWS = {
    "category": TABLE["g"] == "c",
    "category, missing": np.array([x is None for x in TABLE["h"]]),
    "category, numbers": TABLE["k"] == 3,
    "category, binary": TABLE["h"] == "q",
    "step": TABLE["z"] == 0,
    "step, missing": np.isnan(TABLE["v"]),
    "spline, missing": np.isnan(TABLE["v"]),
    "linear, missing": np.isnan(TABLE["v"]),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_set_level_changes_only_its_rows(kind):
    name, level = LEVELS[kind]
    model = fitted(kind)
    rows = ROWS[kind]
    shown = sum(
        (part for n, part in model.contributions(TABLE).items()
         if name in (n, model.terms[n].columns[0])), np.zeros(N))  # fmt: skip
    edited = edit.set_level(model, name, level, 0.75)
    moved = scores(edited) - scores(model)
    np.testing.assert_allclose(moved[~rows], 0, atol=1e-12)
    np.testing.assert_allclose(moved[rows], 0.75 - shown[rows], atol=1e-12)


def test_set_level_copies_another_level():
    model = fitted("category")
    effect = dict(zip(*model.effect("g").values(), strict=True))
    edited = edit.set_level(model, "g", "d", effect["a"])
    a, d = scores(edited, {"g": ["a", "d"]})
    assert a == pytest.approx(d, abs=1e-12)


# --- invalid edits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "what", "term", "parameters", "error", "message"),
    [
        ("spline", "erase", "u", {}, ValueError, "expected 'zero', 'rounded'"),
        ("spline", "zero", "w", {}, ValueError, "no term or column 'w'"),
        ("spline", "rounded", "u", {"digits": 1.5}, ValueError, "digits: expected a whole"),
        ("spline", "smoothed", "u", {"df": -1}, ValueError, "df must be a finite number > 0"),
        ("spline", "smoothed", "u", {"df": 2}, ValueError, "df must be above 2"),
        ("linear", "smoothed", "u", {"df": 2}, TypeError, "expected a Spline.* got a Linear"),
        ("category, binary", "smoothed", "h=p", {"df": 2}, TypeError, "got a Category"),
        ("centered", "rounded", "u", {}, ValueError, "several terms; name one of"),
        ("centered", "monotone", "centered(u)", {}, TypeError, "got a Centered"),
        ("polynomial", "monotone", "u", {}, TypeError, "got a Polynomial"),
        ("tensor", "monotone", "u:k", {}, TypeError, "got a Tensor"),
        ("spline", "monotone", "u", {"increasing": 1}, TypeError, "True or False"),
        ("spline", "monotone", "u", {"order": ["a"]}, ValueError, "order= applies to levels"),
        ("category", "monotone", "g", {}, ValueError, "alphabetical order; pass order="),
        ("category", "monotone", "g", {"order": ["a"]}, ValueError, "every level once"),
        ("category", "set_level", "g", {"level": "e", "effect": 0}, ValueError, "there are 'a'"),
        ("category", "set_level", "g", {"level": "a", "effect": [1, 2]}, ValueError, "1 finite"),
        ("category", "set_level", "g", {"level": None, "effect": 1}, ValueError, "had none"),
        ("linear", "set_level", "u", {"level": 1, "effect": 1}, TypeError, "a term with levels"),
        ("spline", "set_level", "u", {"level": 1, "effect": 1}, TypeError, "a term with levels"),
        ("tensor", "set_level", "u:k", {"level": 1, "effect": 1}, TypeError, "got a Tensor"),
        ("step", "set_level", "z", {"level": "a", "effect": 1}, ValueError, "within a step"),
    ],
)
def test_invalid_edits_are_refused(kind, what, term, parameters, error, message):
    with pytest.raises(error, match=message):
        fitted(kind).edit(what, term, **parameters)


def test_monotone_refuses_several_scores_per_row():
    with pytest.raises(ValueError, match="3 scores per row"):
        edit.monotone(fitted("spline", "multinomial"), "u")


def test_an_edited_model_has_no_path_until_the_edit_is_undone():
    model = fitted("spline")
    edited = edit.zero(model, "u")
    y = make_target(5, TABLE, "squared")
    for refused in (
        lambda: edited.at(3),
        lambda: edited.extend(3, TABLE, y, weights=WEIGHTS),
        lambda: edited.importance("path"),
    ):
        with pytest.raises(ValueError, match="was edited after its fit"):
            refused()
    with pytest.raises(ValueError, match="not stored for the edited model"):
        edited.importance("risk")
    assert edited.importance("risk", table=TABLE, y=y) == edited.importance() == {}
    back = edit.unedited(edited)
    assert back.start == pytest.approx(model.start, abs=1e-14)
    np.testing.assert_array_equal(back.terms["u"].beta, model.terms["u"].beta)
    np.testing.assert_allclose(scores(back.at(3)), scores(model.at(3)), atol=1e-12)
    assert edit.unedited(model) is model


def test_several_edits_in_a_row():
    y = make_target(5, TABLE, "squared")
    steps = ["monotone", "smoothed", "zero", "set_level", "rounded"]
    model = cb.fit(TABLE, y, weights=WEIGHTS, n_iter=150)
    edited = (
        model.edit("monotone", "v")
        .edit("smoothed", "u", df=4)
        .edit("zero", "e")
        .edit("set_level", "g", level="d", effect=0)
        .edit("rounded", "g", digits=1)
    )
    assert [e.what for e in edited.edits] == steps
    assert repr(edited).endswith("edited>")
    lines = edited.summary().split("\n")
    for i, record in enumerate(edited.edits, 1):
        assert f"{i}. {record.words}" in lines
    total = edited.intercept + sum(edited.contributions(TABLE).values(), np.zeros(N))
    np.testing.assert_allclose(total, scores(edited), atol=1e-12)
    again = model
    for e in edited.edits:
        again = again.edit(e.what, e.term, **dict(e.parameters))
    np.testing.assert_array_equal(scores(again), scores(edited))
    np.testing.assert_allclose(scores(edit.unedited(edited)), scores(model), atol=1e-12)
    shares = edited.importance("risk", table=TABLE, y=y, weights=WEIGHTS)
    assert "e" not in shares


def test_code_of_the_docs_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text("utf-8"), re.M | re.S)
    assert blocks
    scope = {}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), scope)


def test_a_user_defined_edit(tmp_path, monkeypatch):
    """A function in the registry EDITS is applied, recorded, saved and loaded like other edits."""
    model = fitted("spline")

    def halved(model, term):
        found = model.terms[term]
        change = edit.Change({}, found.mean / 2, {term: found.beta / 2}, f"{term!r} halved")
        return edit.apply_change(model, "halved", term, change)

    monkeypatch.setitem(edit.EDITS, "halved", halved)
    edited = model.edit("halved", "u")
    np.testing.assert_allclose(
        edited.effect("u")["effect"], model.effect("u")["effect"] / 2, atol=1e-12
    )
    assert edited.intercept == pytest.approx(model.intercept)
    edited.save(tmp_path / "model.json")
    again = cb.load(tmp_path / "model.json")
    assert again.edits == edited.edits
    monkeypatch.delitem(edit.EDITS, "halved")
    with pytest.raises(ValueError, match="expected one of zero, rounded"):
        cb.load(tmp_path / "model.json")
