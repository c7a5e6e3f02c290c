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
from .export import load
from .fit import Interrupted, fit
from .formula import FormulaError
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

if TYPE_CHECKING:
    from .estimators import CWBClassifier, CWBRegressor
    from .plots import (
        ComparisonDisplay,
        EffectDisplay,
        EffectsDisplay,
        ExplanationDisplay,
        ImportanceDisplay,
        RiskDisplay,
        TracesDisplay,
    )
    from .plots_interactions import InteractionsDisplay

__version__ = "0.1.0"

__all__ = [
    "Absolute",
    "Accelerated",
    "Binomial",
    "Bins",
    "CWBClassifier",
    "CWBRegressor",
    "Category",
    "Centered",
    "ComparisonDisplay",
    "Edit",
    "EffectDisplay",
    "EffectsDisplay",
    "ExplanationDisplay",
    "FormulaError",
    "Gamma",
    "Huber",
    "Hybrid",
    "ImportanceDisplay",
    "InteractionsDisplay",
    "Interrupted",
    "Linear",
    "Missing",
    "Model",
    "Multinomial",
    "Plain",
    "Poisson",
    "Polynomial",
    "Quantile",
    "Ranking",
    "RiskDisplay",
    "Spline",
    "Squared",
    "Step",
    "Tensor",
    "Term",
    "TracesDisplay",
    "Tweedie",
    "fit",
    "load",
    "rank_interactions",
]

# Imported when they are asked for: scikit-learn takes long, and matplotlib may be lacking.
_LAZY = {
    "CWBClassifier": "estimators",
    "CWBRegressor": "estimators",
    "ComparisonDisplay": "plots",
    "EffectDisplay": "plots",
    "EffectsDisplay": "plots",
    "ExplanationDisplay": "plots",
    "ImportanceDisplay": "plots",
    "InteractionsDisplay": "plots_interactions",
    "RiskDisplay": "plots",
    "TracesDisplay": "plots",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
