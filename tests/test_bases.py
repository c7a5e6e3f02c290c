"""Tests of the basis contract, for the bases of the package and for user-defined ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest
from scipy.stats import norm

import cwboost as cb
from cwboost._utils.memory import ArrayPool
from cwboost.explain.shapes import shape
from cwboost.explain.sizes import sizes
from cwboost.explain.trajectory import traces
from cwboost.model.pieces import pieces_of
from cwboost.terms.bases import (
    BASES,
    Basis,
    LevelBasis,
    MarkBasis,
    PowerBasis,
    SplineBasis,
    TensorBasis,
    register_basis,
)
from cwboost.terms.encoders import Levels
from cwboost.terms.learners import LEARNERS, Learner

KNOTS = tuple(np.arange(-3.0, 8.0))  # a range from 0 to 4


def mean_of(n: int) -> np.ndarray:
    return np.random.default_rng(n).dirichlet(np.ones(n))


def one_of_each() -> dict[str, Basis]:
    spline = SplineBasis(knots=KNOTS, degree=3, differences=2, mean=mean_of(7))
    levels = LevelBasis(n_levels=3, missing=True, mean=mean_of(4))
    return {
        "spline": spline,
        "spline, constant beyond": SplineBasis(
            knots=KNOTS, degree=3, differences=2, extrapolate="constant", missing=True,
            mean=mean_of(8),
        ),
        "degree 0": SplineBasis(knots=(0.0, 1.0, 4.0), degree=0, differences=1, mean=mean_of(2)),
        "line": PowerBasis(center=2.0, scale=2.0, degree=1, mean=np.array([1.0, 0.0])),
        "slope": PowerBasis(center=2.0, scale=2.0, degree=1, first=1, mean=np.zeros(1)),
        "quartic": PowerBasis(center=2.0, scale=2.0, degree=4, mean=mean_of(5)),
        "levels": levels,
        "steps": LevelBasis(n_levels=3, differences=1, mean=mean_of(3)),
        "mark": MarkBasis(level=1, mean=np.array([0.2])),
        "missing": MarkBasis(level=None, mean=np.array([0.1])),
        "tensor": TensorBasis(a=spline, b=levels, mean=mean_of(28)),
        "interaction": TensorBasis(a=levels, b=levels, orthogonal=True, mean=mean_of(16)),
    }  # fmt: skip


@pytest.mark.parametrize("kind", one_of_each())
def test_properties_of_a_basis_are_consistent(kind):
    basis = one_of_each()[kind]
    d = basis.n_coef
    assert BASES[basis.kind] is type(basis)
    assert basis.problem() is None
    assert [len(m.margins) for m in basis.margins] == [1] * len(basis.margins)
    penalty = basis.penalty()
    penalty = np.diag(penalty) if penalty.ndim == 1 else penalty
    assert penalty.shape == (d, d)
    if not basis.is_interaction:
        assert np.linalg.matrix_rank(penalty) == d - basis.null_dim
    codes = np.array([0.0, 1, 2, np.nan, -1])
    values = codes if len(basis.margins) == 1 else np.column_stack([codes, codes[::-1]])
    rows = basis.matrix(values).toarray()
    assert rows.shape == (5, d)
    ones = basis.ones()
    known = basis.known(values)
    if ones is not None and len(basis.margins) == 1:
        np.testing.assert_allclose(rows[known] @ ones, 1.0)
    if basis.has_masses and len(basis.margins) == 1:
        inside = known & ~(values < 0)
        assert np.all(rows[inside] >= 0)
        np.testing.assert_allclose(rows[inside].sum(axis=1), 1.0)
    if len(basis.margins) == 1:
        np.testing.assert_array_equal(basis.missing_row(), rows[3])
        for code, row in zip(codes, rows, strict=True):
            own = basis.own_coef(code)
            if own is not None:
                np.testing.assert_array_equal(row, np.eye(d)[own])


@pytest.mark.parametrize("kind", [k for k, b in one_of_each().items() if len(b.margins) == 1])
def test_pieces_evaluate_to_the_basis(kind):
    """The polynomials reproduce the rows of the basis, also at breaks and beyond the range."""
    basis = one_of_each()[kind]
    coded = basis.pieces(np.array([0.0, 1, 2, np.nan, -1]))
    rows = basis.matrix(np.array([0.0, 1, 2, np.nan, -1])).toarray()
    np.testing.assert_array_equal(coded.blocks[:, 0], rows)
    pieces = basis.pieces()
    if basis.polynomials() is None:
        assert pieces is None
        assert basis.cubic_breaks() is None
        return
    x = np.concatenate([np.linspace(-2, 6, 33), pieces.breaks])
    at = np.searchsorted(pieces.breaks, x, side="right")
    t = (x - pieces.origin[at]) / pieces.width[at]
    found = sum(pieces.blocks[at, j] * t[:, None] ** j for j in range(pieces.degree + 1))
    np.testing.assert_allclose(found, basis.matrix(x).toarray(), atol=1e-13)
    np.testing.assert_array_equal(pieces.blocks[-1, 0], basis.missing_row())
    breaks = Basis.cubic_breaks(basis)  # the default, derived from the polynomials
    if pieces.degree > 3:
        assert breaks is None
        assert basis.cubic_breaks() is None
    else:
        np.testing.assert_array_equal(basis.cubic_breaks(), breaks)


def test_the_mean_row_is_stored_where_needed():
    """A basis stores its mean row only if it needs one; a slope is centred at the mean."""
    values, weights = np.array([0.0, 1, 4, np.nan]), np.array([1.0, 1, 2, 5])
    slope = PowerBasis(center=0.0, scale=2.0, degree=1, first=1)
    assert slope.needs_mean(values[:3])
    centred = slope.with_mean(values[:3], weights[:3])
    assert centred.center == pytest.approx(9 / 4)
    assert centred.mean == 0
    line = PowerBasis(center=0.0, scale=2.0, degree=1)
    assert not line.needs_mean(values[:3])
    assert line.needs_mean(values)
    np.testing.assert_allclose(line.with_mean(values, weights).mean, [1, 9 / 8])
    levels = LevelBasis(n_levels=5)
    pair = TensorBasis(a=line, b=levels)
    joint = np.column_stack([values, [0.0, 1, 1, 2]])
    found = pair.with_mean(joint, weights)
    np.testing.assert_allclose(found.a.mean, [1, 9 / 8])
    np.testing.assert_allclose(found.mean, weights @ found.matrix(joint).toarray() / 9)


# --- user-defined bases ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class BumpBasis(Basis):
    """Gaussian densities around given centers."""

    centers: tuple[float, ...]
    width: float
    kind: ClassVar[str] = "bumps"

    @property
    def n_coef(self) -> int:
        return len(self.centers)

    def evaluate(self, values):
        return norm.pdf(values[:, None], self.centers, self.width)


@dataclass(frozen=True, repr=False)
class Bumps(Learner):
    column: str
    df: float | None = None

    def basis(self, column, encoder):
        centers = np.linspace(column.summary.low, column.summary.high, 8)
        return BumpBasis(centers=tuple(centers.tolist()), width=float(centers[1] - centers[0]))


@pytest.fixture(scope="module")
def bumpy():
    random = np.random.default_rng(0)
    x, g = random.uniform(-3, 3, 400), np.array(["a", "b", "c"])[random.integers(0, 3, 400)]
    x[:20] = np.nan
    y = np.where(np.isnan(x), 1.0, np.sin(2 * x)) + (g == "a") + random.normal(0, 0.1, 400)
    table = {"x": x, "g": g}
    learners = [Bumps("x", df=5, name="bumps"), cb.Category("g"), cb.Linear("x", name="line")]
    return cb.fit(table, y, learners, n_iter=300), table, y


def test_a_user_defined_basis_is_fitted_and_predicts(bumpy):
    model, table, y = bumpy
    assert model.terms["bumps"].chosen
    assert np.mean((model.predict(table) - y) ** 2) < 0.1
    term = model.terms["bumps"]
    basis = term.plan.basis
    dense = np.where(
        np.isnan(table["x"])[:, None], basis.mean, basis.evaluate(np.nan_to_num(table["x"]))
    )
    effects = model.contributions(table)
    np.testing.assert_allclose(effects["bumps"], dense @ term.beta[:, 0] - term.mean, atol=1e-12)
    total = model.intercept + sum(effects.values())
    np.testing.assert_allclose(model.predict(table), total, atol=1e-12)
    sparse = basis.rows(np.zeros(2), ArrayPool()).matrix(basis.n_coef).toarray()
    np.testing.assert_array_equal(sparse, basis.evaluate(np.zeros(2)))


def test_effects_and_edits_of_a_user_defined_basis(bumpy):
    model, _, _ = bumpy
    at = model.effect("x", n=5)
    parts = model.contributions({"x": at["x"][:-1], "g": ["a"] * 5})
    np.testing.assert_allclose(
        at["effect"][:-1],
        parts["bumps"] + parts["missing(x)"],
        atol=1e-12,
    )
    assert "Bumps" in model.summary()
    beta = model.terms["bumps"].beta
    rounded = model.edit("rounded", "bumps", digits=1).terms["bumps"].beta
    np.testing.assert_array_equal(rounded, np.round(beta, 1))
    assert not model.edit("zero", "bumps").terms["bumps"].chosen
    with pytest.raises(TypeError, match="smoothed"):
        model.edit("smoothed", "bumps", df=3)
    with pytest.raises(TypeError, match="monotone"):
        model.edit("monotone", "bumps")


def test_exports_name_the_basis_without_pieces_that_they_refuse(bumpy, tmp_path):
    model, _, _ = bumpy
    refused = r"term 'bumps': its basis \(BumpBasis\) is not a piecewise"
    for export in (model.to_sql, lambda: model.to_csv(tmp_path)):
        with pytest.raises(TypeError, match=refused):
            export()
    fine = model.edit("zero", "bumps")
    assert "SELECT" in fine.to_sql()


def test_plots_and_the_report_of_a_user_defined_basis(bumpy, tmp_path):
    model, table, y = bumpy
    found = shape(model, "x")
    assert found.kind == "curve"
    assert found.missing is not None
    assert set(sizes(model).terms) == {"bumps", "g", "missing(x)"}
    assert set(traces(model).sizes) == {"bumps", "g", "missing(x)"}
    model.report(tmp_path / "report.html", table, y)
    assert "bumps" in (tmp_path / "report.html").read_text()


def test_a_basis_is_registered_by_its_kind():
    with pytest.raises(ValueError, match="'spline' is a basis of cwboost"):
        register_basis(dataclass(frozen=True)(type("Mine", (Basis,), {"kind": "spline"})))
    with pytest.raises(TypeError, match="expected a dataclass"):
        register_basis(type("Mine", (Basis,), {"kind": "mine"}))
    assert register_basis(SplineBasis) is SplineBasis


def test_files_of_a_user_defined_basis(bumpy, tmp_path, monkeypatch):
    model, table, _ = bumpy
    with pytest.raises(TypeError, match="Bumps"):
        model.save(tmp_path / "refused.json")
    monkeypatch.setitem(LEARNERS, "Bumps", Bumps)
    with pytest.raises(TypeError, match="BumpBasis"):
        model.save(tmp_path / "refused.json")
    monkeypatch.setitem(BASES, "bumps", BumpBasis)
    model.save(tmp_path / "model.json")
    again = cb.load(tmp_path / "model.json")
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastBasis(Basis):
    """A basis of codes: 1 at the first of two codes, -1 at the second."""

    kind: ClassVar[str] = "contrast"

    @property
    def n_coef(self) -> int:
        return 1

    def known(self, values):
        return values >= 0

    def evaluate(self, values):
        return 1.0 - 2.0 * values[:, None]

    def problem_with(self, encoder):
        return None if encoder.n_codes == 2 else "expected two levels"


@dataclass(frozen=True, repr=False)
class Contrast(Learner):
    column: str

    def encoder(self, column):
        return Levels.make(column.column, column.sample)

    def basis(self, column, encoder):
        return ContrastBasis()


def test_every_basis_of_codes_has_an_exact_form():
    """A function of finitely many codes is a table of constants, which every export can write."""
    g = np.array(["a", "b"] * 20)
    model = cb.fit({"g": g}, (g == "a") * 4.0, [Contrast("g", smoothing=0.0)], n_iter=200)
    np.testing.assert_allclose(model.predict({"g": ["a", "b"]}), [4, 0], atol=1e-6)
    with pytest.warns(UserWarning, match="never seen"):
        assert model.predict({"g": ["z"]}) == pytest.approx(model.intercept)
    np.testing.assert_allclose(model.effect("g")["effect"], [2, -2], atol=1e-6)
    assert "'a'" in model.to_sql()
    assert sizes(model).terms["g"] == pytest.approx(2.0, abs=1e-6)


def test_a_term_may_affect_only_one_output():
    """Outputs whose coefficients are all zero have effect zero wherever effects are computed."""
    x = np.linspace(0, 1, 60)
    y = np.where(x < 0.3, "a", np.where(x < 0.6, "b", "c"))
    model = cb.fit({"x": x}, y, [cb.Spline("x")], loss="multinomial", n_iter=20)
    assert model.terms["x"].outputs == (0, 1, 2)
    beta = model.terms["x"].beta.copy()
    beta[:, [0, 2]] = 0.0
    term = replace(model.terms["x"], beta=beta)
    model = replace(model, terms=MappingProxyType({"x": term}), shares=None, sizes=None)
    assert term.outputs == (1,)
    effect = model.effect("x")
    assert not np.any(effect["effect[a]"])
    assert np.any(effect["effect[b]"])
    curve = pieces_of(model)[0]
    assert not np.any(curve.coef[..., [0, 2]])
    assert sizes(model).terms["x"] > 0
    found = model.contributions({"x": x})["x"]
    assert not np.any(found[:, [0, 2]])
    assert "SELECT" in model.to_sql()
