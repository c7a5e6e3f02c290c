"""Componentwise gradient boosting: interpretable additive models, chosen automatically.

>>> import numpy as np, cwboost as cb
>>> rng = np.random.default_rng(0)
>>> table = {"x": rng.uniform(size=200), "group": rng.choice(["a", "b"], 200)}
>>> y = 3 * table["x"] + (table["group"] == "b")
>>> model = cb.fit(table, y, n_iter=300)
>>> sorted(set(model.choices))
['group', 'x']
"""

from importlib import import_module as _import_module
from typing import Any as _Any

__version__ = "0.1.0"

# Where every public name is defined. A name is imported on first use: scikit-learn takes long to
# import, and matplotlib, optuna and dask may not be installed. `tools/stubs.py` writes the same
# table to `__init__.pyi` for type checkers.
PUBLIC_NAMES = {
    "binning.rules": ("Bins",),
    "estimators.classifier": ("CWBClassifier",),
    "estimators.cross_validated": ("CWBClassifierCV", "CWBRegressorCV"),
    "estimators.regressor": ("CWBRegressor",),
    "export.model_file": ("load",),
    "fitting.callbacks": ("Interrupted",),
    "fitting.fit": ("fit",),
    "fitting.interactions": ("rank_interactions",),
    "fitting.polish.polish": ("polish",),
    "frames.dataset": ("Dataset",),
    "losses": (
        "Absolute", "Binomial", "Gamma", "Huber", "Multinomial", "Poisson", "Quantile", "Squared",
        "Tweedie",
    ),
    "metrics.metric": ("register_metric",),
    "model.model": ("Model",),
    "model.records": ("Edit", "Polish", "Ranking"),
    "model.term": ("Term",),
    "optimizers": ("Accelerated", "Hybrid", "Plain"),
    "plotting.cv": ("CVDisplay",),
    "plotting.comparison": ("ComparisonDisplay",),
    "plotting.effect": ("EffectDisplay",),
    "plotting.effects": ("EffectsDisplay",),
    "plotting.explanation": ("ExplanationDisplay",),
    "plotting.importance": ("ImportanceDisplay",),
    "plotting.information": ("InformationDisplay",),
    "plotting.interactions": ("InteractionsDisplay",),
    "plotting.risk": ("RiskDisplay",),
    "plotting.stability": ("StabilityDisplay",),
    "plotting.traces": ("TracesDisplay",),
    "plotting.tuning": ("TuningDisplay",),
    "selection.cv": ("cv",),
    "selection.cv_result": ("CV",),
    "selection.deselect": ("deselect",),
    "selection.folds": ("Folds",),
    "selection.probe": ("Probe", "probe"),
    "selection.stability": ("Stability", "stability"),
    "selection.tuning.optuna": ("optuna_objective",),
    "selection.tuning.schedules": ("Halving", "Hyperband", "RandomSearch"),
    "selection.tuning.space": ("LogUniform",),
    "selection.tuning.tune": ("Tuning", "TuningInterrupted", "tune"),
    "stopping": ("Patience", "Stagnation"),
    "terms.formula": ("FormulaError",),
    "terms.learners": (
        "Category", "Centered", "Linear", "Missing", "Polynomial", "Spline", "Step", "Tensor",
    ),
    "uncertainty.information": ("Information", "aic"),
    "uncertainty.wald": ("WaldTests", "wald_tests"),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in PUBLIC_NAMES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> _Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    """Return the public names, the submodules imported so far, and the module's attributes."""
    private = {name for name in globals() if name.startswith("_") and not name.startswith("__")}
    return sorted({*globals(), *__all__} - private - {"PUBLIC_NAMES"})
