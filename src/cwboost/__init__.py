"""Componentwise gradient boosting: interpretable additive models, chosen automatically.

>>> import numpy as np, cwboost as cb
>>> rng = np.random.default_rng(0)
>>> table = {"x": rng.uniform(size=200), "group": rng.choice(["a", "b"], 200)}
>>> y = 3 * table["x"] + (table["group"] == "b")
>>> model = cb.fit(table, y, n_iter=300)
>>> sorted(set(model.choices))
['group', 'x']
"""

from .bins import Bins
from .export import load
from .fit import Interrupted, fit
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
from .model import Model, Term
from .optimizers import Accelerated, Hybrid, Plain

__version__ = "0.1.0"

__all__ = [
    "Absolute",
    "Accelerated",
    "Binomial",
    "Bins",
    "Category",
    "Centered",
    "Gamma",
    "Huber",
    "Hybrid",
    "Interrupted",
    "Linear",
    "Missing",
    "Model",
    "Multinomial",
    "Plain",
    "Poisson",
    "Polynomial",
    "Quantile",
    "Spline",
    "Squared",
    "Step",
    "Tensor",
    "Term",
    "Tweedie",
    "fit",
    "load",
]
