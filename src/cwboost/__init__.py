"""Componentwise gradient boosting: interpretable additive models, chosen automatically.

>>> import numpy as np, cwboost as cb
>>> rng = np.random.default_rng(0)
>>> table = {"x": rng.uniform(size=200), "group": rng.choice(["a", "b"], 200)}
>>> y = 3 * table["x"] + (table["group"] == "b")
>>> model = cb.fit(table, y, n_iter=300)
>>> sorted(set(model.choices))
['group', 'x']
"""

from typing import TYPE_CHECKING, Any

from .bins import Bins
from .cv import CV, cv
from .deselect import deselect
from .export import load
from .fit import Interrupted, fit
from .folds import Folds
from .formula import FormulaError
from .information import Information, aic
from .interactions import rank_interactions
from .learners import (
    Category,
    Centered,
    Linear,
    Missing,
    Polynomial,
    Spline,
    Step,
    Tensor,
)
from .losses import (
    Absolute,
    Binomial,
    Gamma,
    Huber,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    Tweedie,
)
from .model import Edit, Model, Ranking, Term
from .optimizers import Accelerated, Hybrid, Plain
from .probe import Probe, probe
from .schedules import Halving, Hyperband, RandomSearch
from .space import LogUniform
from .stability import Stability, stability
from .tune import Tuning, TuningInterrupted, tune

if TYPE_CHECKING:
    from .estimators import CWBClassifier, CWBRegressor
    from .estimators_cv import CWBClassifierCV, CWBRegressorCV
    from .plots import (
        ComparisonDisplay,
        EffectDisplay,
        EffectsDisplay,
        ExplanationDisplay,
        ImportanceDisplay,
        RiskDisplay,
        TracesDisplay,
    )
    from .plots_cv import CVDisplay
    from .plots_information import InformationDisplay
    from .plots_interactions import InteractionsDisplay
    from .plots_stability import StabilityDisplay
    from .plots_tuning import TuningDisplay
    from .tune_optuna import optuna_objective

__version__ = "0.1.0"

__all__ = [
    "CV",
    "Absolute",
    "Accelerated",
    "Binomial",
    "Bins",
    "CVDisplay",
    "CWBClassifier",
    "CWBClassifierCV",
    "CWBRegressor",
    "CWBRegressorCV",
    "Category",
    "Centered",
    "ComparisonDisplay",
    "Edit",
    "EffectDisplay",
    "EffectsDisplay",
    "ExplanationDisplay",
    "Folds",
    "FormulaError",
    "Gamma",
    "Halving",
    "Huber",
    "Hybrid",
    "Hyperband",
    "ImportanceDisplay",
    "Information",
    "InformationDisplay",
    "InteractionsDisplay",
    "Interrupted",
    "Linear",
    "LogUniform",
    "Missing",
    "Model",
    "Multinomial",
    "Plain",
    "Poisson",
    "Polynomial",
    "Probe",
    "Quantile",
    "RandomSearch",
    "Ranking",
    "RiskDisplay",
    "Spline",
    "Squared",
    "Stability",
    "StabilityDisplay",
    "Step",
    "Tensor",
    "Term",
    "TracesDisplay",
    "Tuning",
    "TuningDisplay",
    "TuningInterrupted",
    "Tweedie",
    "aic",
    "cv",
    "deselect",
    "fit",
    "load",
    "optuna_objective",
    "probe",
    "rank_interactions",
    "stability",
    "tune",
]

# Imported when they are asked for: scikit-learn takes long, matplotlib and optuna may be lacking.
_LAZY = {
    "CWBClassifier": "estimators",
    "CVDisplay": "plots_cv",
    "CWBClassifierCV": "estimators_cv",
    "CWBRegressor": "estimators",
    "CWBRegressorCV": "estimators_cv",
    "ComparisonDisplay": "plots",
    "EffectDisplay": "plots",
    "EffectsDisplay": "plots",
    "ExplanationDisplay": "plots",
    "ImportanceDisplay": "plots",
    "InformationDisplay": "plots_information",
    "InteractionsDisplay": "plots_interactions",
    "RiskDisplay": "plots",
    "StabilityDisplay": "plots_stability",
    "TracesDisplay": "plots",
    "TuningDisplay": "plots_tuning",
    "optuna_objective": "tune_optuna",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
