"""Tests of user-defined learners: once registered, they work in formulas, tuning and files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import cwboost as cb
from cwboost.selection.tuning.space import Space
from cwboost.terms.bases import PowerBasis
from cwboost.terms.learners import LEARNERS, Learner, Spline, register_learner
from extensions import Bump, BumpBasis

RNG = np.random.default_rng(0)
TABLE = {"x": RNG.uniform(1, 2, 200), "z": RNG.normal(size=200)}
Y = 3 * TABLE["x"] ** 2 + RNG.normal(size=200)


@dataclass(frozen=True, repr=False)
class Parabola(Learner):
    """A parabola with a negligible penalty and without an effect of missing cells."""

    column: str
    df: float | None = None

    functions = {"parabola": {}, "wide": {"smoothing": 0.0}}  # noqa: RUF012
    df_range = (1.0, 3.0)

    def basis(self, column, encoder):
        low, high = column.summary.low, column.summary.high
        return PowerBasis(center=(low + high) / 2, scale=(high - low) / 2, degree=2)


@pytest.fixture
def registered():
    register_learner(Parabola)
    yield Parabola
    del LEARNERS["Parabola"]


def test_formula_tuning_and_files(registered, tmp_path):
    model = cb.fit({**TABLE, "y": Y}, "y ~ parabola(x, df=2.5) + s(z)", n_iter=50)
    assert model.terms["x"].learner == registered("x", df=2.5)
    assert cb.fit({**TABLE, "y": Y}, "y ~ wide(x)", n_iter=1).terms["x"].smoothing == 0.0
    model.save(tmp_path / "model.json")
    again = cb.load(tmp_path / "model.json")
    assert again.terms["x"].learner == model.terms["x"].learner
    np.testing.assert_array_equal(again.predict(TABLE), model.predict(TABLE))
    plans = [term.plan for term in cb.fit(TABLE, Y, [registered("x")], n_iter=1).terms.values()]
    assert list(Space.make(None, plans).parameters) == ["df.Parabola", "rate"]


def test_missing_cells_and_constant_columns():
    x = np.where(np.arange(200) < 20, np.nan, TABLE["x"])
    model = cb.fit({"x": x}, Y, [Parabola("x")], n_iter=5)
    assert list(model.terms) == ["parabola(x)", "missing(x)"]
    with pytest.warns(UserWarning, match="constant in the training rows"):
        cb.fit({"x": np.ones(200), "z": TABLE["z"]}, Y, [Parabola("x"), Spline("z")], n_iter=1)


def test_unregistered_learners_cannot_be_saved_or_named_in_formulas(tmp_path):
    model = cb.fit(TABLE, Y, [Parabola("x")], n_iter=2)
    with pytest.raises(TypeError, match="Parabola"):
        model.save(tmp_path / "model.json")
    with pytest.raises(cb.FormulaError, match="unknown function 'parabola'"):
        cb.fit({**TABLE, "y": Y}, "y ~ parabola(x)", n_iter=1)


def test_names_that_are_taken_are_refused(registered):
    @dataclass(frozen=True, repr=False)
    class Mine(Parabola):
        functions = {"s": {}}  # noqa: RUF012

    with pytest.raises(ValueError, match="function 's' belongs to Spline"):
        register_learner(Mine)
    with pytest.raises(TypeError, match="expected a dataclass derived from Learner"):
        register_learner(type("Plain", (Parabola,), {}))
    assert register_learner(registered) is registered


def test_components_of_a_column_with_one_value_and_missing_cells():
    """Both learners of the style would fit the same steps, so only one is kept."""
    table = {"x": TABLE["x"], "c": np.where(np.arange(200) < 9, np.nan, 3.0)}
    model = cb.fit(table, Y, "components", n_iter=3)
    assert list(model.terms) == ["linear(x)", "centered(x)", "c"]


def test_names_of_built_in_learners_are_refused():
    @dataclass(frozen=True, repr=False)
    class Mine(Parabola):
        pass

    Mine.__name__ = Mine.__qualname__ = "Spline"
    with pytest.raises(ValueError, match="'Spline' is a learner of cwboost; give the class anoth"):
        register_learner(Mine)
    assert LEARNERS["Spline"] is Spline
    for wrong in (3, int, PowerBasis):
        with pytest.raises(TypeError, match="expected a dataclass derived from Learner"):
            register_learner(wrong)


def test_which_learners_evaluate_missing_cells():
    assert not Learner.shows_missing.fget(None)
    shown = {name for name, cls in LEARNERS.items() if cls.shows_missing.fget(None)}
    assert shown == {"Spline", "Step", "Category", "Missing", "Tensor"}


def test_a_basis_with_the_default_penalty_has_the_requested_df():
    """The default penalty is a ridge, which leaves no function unpenalised."""
    x = np.linspace(0.0, 1.0, 200)
    term = cb.fit({"x": x}, x, [Bump("x", df=0.6)], n_iter=1).terms["x"]
    B = term.plan.basis.evaluate(x)
    hat = B @ np.linalg.solve(B.T @ B + term.smoothing * np.eye(B.shape[1]), B.T)
    assert term.df == pytest.approx(0.6)
    assert np.trace(2 * hat - hat @ hat) == pytest.approx(0.6)


class _SmallPenalty(BumpBasis):
    def penalty(self):
        return 1e-6 * super().penalty()


@dataclass(frozen=True, repr=False)
class _LightBump(Bump):
    def basis(self, column, encoder):
        basis = super().basis(column, encoder)
        return _SmallPenalty(centers=basis.centers, width=basis.width)


def test_the_scale_of_a_penalty_does_not_matter():
    """The smoothing for the requested df compensates for the scale."""
    one, other = (
        cb.fit(TABLE, Y, [kind("x", df=3)], n_iter=5).terms["x"] for kind in (Bump, _LightBump)
    )
    assert other.smoothing == pytest.approx(1e6 * one.smoothing, rel=1e-6)
    np.testing.assert_allclose(other.beta, one.beta, rtol=1e-6)


@pytest.mark.parametrize("differences", range(1, 11))
@pytest.mark.parametrize("learner", [cb.Spline, cb.Centered])
def test_every_order_of_differences_has_a_default_df(learner, differences):
    model = cb.fit(TABLE, Y, learners=[learner("x", differences=differences)], n_iter=2)
    [term] = model.terms.values()
    free = differences - learner.removed_df  # df that the penalty leaves free
    assert max(free, 0) < term.df <= max(free + 1, 6) + 1e-9
