"""Tests of user-defined optimizers: once registered, they work in all parts of the package."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pytest

import cwboost as cb
from cwboost import _core
from cwboost.cli.main import make_parser
from cwboost.optimizers import OPTIMIZERS, Optimizer, TuningRange, as_optimizer, optimizer_names


@dataclass
class Careful(Optimizer):
    """Plain boosting with a learning rate of 0.2 times `share`."""

    tuned = MappingProxyType({"share": TuningRange(0.1, 1.0)})

    share: float = 0.5

    @property
    def rate(self):
        return 0.2 * self.share

    def core(self):
        self._check_positive("share")
        return _core.Plain(self.rate)


@dataclass
class Sprint(Optimizer):
    """Hybrid boosting with all parameters fixed except the learning rate."""

    needs_validation = True
    has_momentum = True
    risk_may_rise = True

    rate: float = 0.2

    @property
    def momentum(self):
        return 0.05

    @property
    def ends_on_all_rows(self):
        return True

    def core(self):
        return _core.Hybrid(self.rate, self.momentum, 3, True, True, 30)


@pytest.fixture(autouse=True)
def registered():
    OPTIMIZERS.update(Careful=Careful, Sprint=Sprint)
    yield
    del OPTIMIZERS["Careful"], OPTIMIZERS["Sprint"]


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=300), "z": rng.normal(size=300)}
    return table, np.sin(6 * table["x"]) + rng.normal(0, 0.3, 300)


def test_as_optimizer_takes_an_instance_a_class_and_a_name():
    mine = Careful(0.25)
    assert as_optimizer(mine) == mine
    assert as_optimizer(mine) is not mine
    assert as_optimizer(Careful) == as_optimizer("careful") == Careful()
    assert optimizer_names() == ["plain", "accelerated", "hybrid", "careful", "sprint"]
    with pytest.raises(ValueError, match=r"expected .*'sprint' or an object such as"):
        as_optimizer("newton")
    with pytest.raises(TypeError, match="got 3"):
        as_optimizer(3)


@pytest.mark.parametrize("kind", [cb.Accelerated, cb.Hybrid])
def test_a_momentum_of_zero_is_allowed(rows, kind):
    assert cb.fit(*rows, optimizer=kind(momentum=0.0), validation=0.3, n_iter=5).n_iter == 5
    with pytest.raises(ValueError, match="momentum"):
        cb.fit(*rows, optimizer=kind(momentum=-0.1), validation=0.3, n_iter=5)


@pytest.mark.parametrize("value", [0, 10**8 + 1, 2.5, True])
def test_hybrid_refuses_invalid_values_of_switch_after(rows, value):
    with pytest.raises(ValueError, match=r"Hybrid: switch_after: expected a whole number"):
        cb.fit(*rows, optimizer=cb.Hybrid(switch_after=value), validation=0.3, n_iter=1)


def test_hybrid_switches_only_after_rises_in_a_row():
    """A validation risk that hardly moves has no new best, but does not rise, either."""
    x = np.linspace(0, 1, 200)
    y = np.where(np.arange(200) % 2, 1.0, -1.0)  # nothing to learn
    options = {"validation": 0.3, "n_iter": 200, "random_state": 1}
    optimizer = cb.Hybrid(0.5, switch_after=100, switch_patience=20)
    assert 0 < cb.fit({"x": x}, y, optimizer=optimizer, **options).path.switched_after < 100
    optimizer.switch_patience = None
    switched = cb.fit({"x": x}, y, optimizer=optimizer, **options).path.switched_after
    assert switched == -1 or switched >= 100


@pytest.mark.parametrize("value", [0, 10**9 + 1, 2.5, True, "never", [5]])
def test_hybrid_refuses_invalid_values_of_switch_patience(rows, value):
    with pytest.raises(ValueError, match=r"Hybrid: switch_patience: expected 'auto', None or"):
        cb.fit(*rows, optimizer=cb.Hybrid(switch_patience=value), validation=0.3, n_iter=1)


def test_a_fit_equals_the_fit_of_its_core_optimizer(rows):
    table, y = rows
    mine = cb.fit(table, y, optimizer=Careful(0.5), n_iter=40)
    same = cb.fit(table, y, optimizer=cb.Plain(0.1), n_iter=40)
    np.testing.assert_array_equal(mine.risk, same.risk)
    assert mine.extend(5, table, y).n_iter == 45
    np.testing.assert_array_equal(mine.at(20).risk, same.at(20).risk)


def test_two_phases(rows):
    table, y = rows
    with pytest.raises(ValueError, match="Sprint needs validation rows"):
        cb.fit(table, y, optimizer="sprint")
    mine = cb.fit(table, y, optimizer="sprint", validation=0.3, n_iter=150)
    same = cb.fit(
        table, y, optimizer=cb.Hybrid(0.2, 0.05, switch_after=3), validation=0.3, n_iter=150
    )
    np.testing.assert_array_equal(mine.risk, same.risk)
    assert mine.best_iteration == same.best_iteration == 150
    assert mine.path.switched_after == same.path.switched_after > 0


@pytest.mark.parametrize("optimizer", [Careful(0.25), Sprint()])
def test_a_model_is_saved_and_loaded(rows, tmp_path, optimizer):
    table, y = rows
    model = cb.fit(table, y, optimizer=optimizer, validation=0.3, n_iter=60)
    model.save(tmp_path / "model.json")
    again = cb.load(tmp_path / "model.json")
    assert again.optimizer == optimizer
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    np.testing.assert_array_equal(again.at(10).predict(table), model.at(10).predict(table))


def test_cross_validation(rows):
    table, y = rows
    mine = cb.cv(table, y, optimizer=Careful(0.5), n_iter=100, folds=3)
    same = cb.cv(table, y, n_iter=100, folds=3)
    np.testing.assert_array_equal(mine.risk, same.risk)
    with pytest.raises(ValueError, match="validation: Careful uses no validation rows"):
        cb.cv(table, y, optimizer="careful", n_iter=40, folds=3, validation=0.2)
    switching = cb.cv(table, y, optimizer="sprint", n_iter=60, folds=3, validation=0.2)
    assert np.isfinite(switching.risk).all()


def test_tuning(rows):
    table, y = rows
    space = {"optimizer": ["careful", "plain"], "share": (0.2, 0.9), "rate": [0.1, 0.3]}
    tuning = cb.tune(table, y, space, schedule=cb.RandomSearch(6, 20), folds=3)
    for trial in tuning.trials:
        assert ("share" in trial.parameters) == (trial.parameters["optimizer"] == "careful")
        assert ("rate" in trial.parameters) == (trial.parameters["optimizer"] == "plain")
    with pytest.raises(ValueError, match=r"share is a parameter of cb\.Careful"):
        cb.tune(table, y, {"share": (0.2, 0.9)}, schedule=cb.RandomSearch(2, 20))


@pytest.mark.filterwarnings("ignore:the corrected AIC is smallest at the last")
def test_uncertainty(rows):
    table, y = rows
    model = cb.fit(table, y, optimizer=Careful(0.5), n_iter=40)
    same = cb.fit(table, y, n_iter=40)
    mine, usual = (m.with_bands(table, y, n_boot=10).band("x") for m in (model, same))
    np.testing.assert_array_equal(mine["lower"], usual["lower"])
    np.testing.assert_array_equal(cb.aic(model, table, y).df, cb.aic(same, table, y).df)
    ends = model.intervals(table, y, kind="split").predict(table)
    assert np.all(ends["lower"] < ends["upper"])


def test_estimators_and_the_command_line(rows):
    table, y = rows
    X = np.column_stack(list(table.values()))
    model = cb.CWBRegressor(optimizer="careful", n_iter=30).fit(X, y).model_
    assert model.optimizer == Careful()
    regressor = cb.CWBRegressor(optimizer=Sprint(0.3), validation=0.2, n_iter=30)
    assert regressor.fit(X, y).model_.optimizer == Sprint(0.3)
    with pytest.raises(ValueError, match="Sprint needs validation rows of its own"):
        cb.CWBRegressorCV(optimizer="sprint").fit(X, y)
    arguments = make_parser().parse_args(
        ["fit", "a.csv", "--target", "y", "--optimizer", "careful"]
    )
    assert arguments.optimizer == "careful"


def test_a_checkpoint_of_another_optimizer_is_refused(rows, tmp_path):
    table, y = rows
    file = tmp_path / "fit.checkpoint"
    part = cb.fit(table, y, optimizer=Careful(), n_iter=9, checkpoint=file)
    assert (
        cb.fit(table, y, optimizer=Careful(), n_iter=9, checkpoint=file).risk[-1] == part.risk[-1]
    )
    with pytest.raises(ValueError, match="optimizer: then Careful"):
        cb.fit(table, y, optimizer=Careful(0.1), n_iter=9, checkpoint=file)
