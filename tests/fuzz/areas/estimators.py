"""Area `estimators`: the scikit-learn estimators, through the calls that scikit-learn makes.

Random tables, targets and parameters; fit, predict, predict_proba, score, clone, get_params,
set_params, and calls in the wrong order.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import clone

import cwboost as cb
from fuzz.tables import Rng, as_table, pick, random_columns, random_size
from fuzz.values import odd_value, random_y, show
from fuzz.verdict import PropertyError

ESTIMATORS = ("CWBRegressor", "CWBClassifier", "CWBRegressorCV", "CWBClassifierCV")
VALID: dict[str, tuple[Any, ...]] = {
    "terms": ("auto", "linear", "smooth"), "optimizer": ("auto", "plain", "hybrid"),
    "n_iter": (1, 5), "bins": ("auto", "exact", 5), "validation": (None, "auto", 0.3),
    "patience": (None, 2), "polish": ("auto", None), "bags": (None, 2), "warm_start": (True,),
    "random_state": (0, 7), "n_jobs": (None, 1, 2), "interactions": (None, 1),
    "class_weight": (None, "balanced"), "exclude": (None, ["x0"]), "one_se": (True,), "cv": (2, 3),
    "loss": ("squared", "absolute", "huber"), "verbose": (None, False),
}  # fmt: skip


def case(rng: Rng, tried: list[str]) -> None:
    name = pick(rng, ESTIMATORS)
    n = random_size(rng)
    columns = random_columns(rng, n, odd=float(pick(rng, [0.0, 0.2])))
    table = as_table(rng, columns, tried)
    kind = pick(rng, ["binomial", "multinomial"]) if "Classifier" in name else "squared"
    y = odd_value(rng) if rng.uniform() < 0.05 else random_y(rng, n, kind)
    made = getattr(cb, name)
    names = made().get_params()
    options: dict[str, Any] = {"n_iter": 5} | ({"cv": 2} if "cv" in names else {})
    for parameter in names:
        if parameter in VALID and rng.uniform() < 0.15:
            options[parameter] = pick(rng, VALID[parameter])
    if rng.uniform() < 0.2:
        options[pick(rng, [p for p in names if p != "n_iter"])] = odd_value(rng)
    tried.append(f"{name}({', '.join(f'{k}={show(v)}' for k, v in options.items())}), y={show(y)}")
    estimator = made(**options)
    if rng.uniform() < 0.03:
        tried.append("predict before fit")
        estimator.predict(table)
    if rng.uniform() < 0.3:
        with suppress(TypeError):  # generators cannot be copied
            estimator = clone(estimator)
    weights = {"sample_weight": random_weights(rng, y, n)} if rng.uniform() < 0.2 else {}
    estimator.fit(table, y, **weights)
    tried.append("fitted")
    step = pick(rng, STEPS)
    tried.append(step)
    STEPS[step](estimator, table, y, weights)


def random_weights(rng: Rng, y: Any, n: int) -> Any:
    """Return weights, sometimes zero for all rows of a class."""
    out = rng.uniform(0, 2, n)
    if rng.uniform() < 0.5 and isinstance(y, np.ndarray) and y.shape == (n,) and n > 0:
        out[y == y[0]] = 0.0
    return out


def predictions(estimator: Any, table: Any, y: Any, weights: dict[str, Any]) -> None:
    found = estimator.predict(table)
    if len(found) != len(y):
        raise PropertyError("predict returns one value per row", f"{len(found)} of {len(y)}")
    if hasattr(estimator, "predict_proba"):
        shares = estimator.predict_proba(table)
        if shares.shape != (len(found), len(estimator.classes_)):
            raise PropertyError("predict_proba has a column per class", f"{shares.shape}")
        if not set(found) <= set(np.asarray(y)[weights.get("sample_weight", np.ones(len(y))) > 0]):
            raise PropertyError("predicted classes have training rows")
        if not np.allclose(shares.sum(axis=1), 1):
            raise PropertyError("probabilities sum to 1")
        own = shares[found[:, None] == np.asarray(estimator.classes_)]
        if not np.allclose(own, shares.max(axis=1), rtol=1e-12, atol=0.0):  # of classes that tie
            raise PropertyError("predict returns the class with the largest probability")


def parameters(estimator: Any, table: Any, y: Any, weights: dict[str, Any]) -> None:
    given = estimator.get_params()
    again = clone(estimator).set_params(**given)
    if show(again) != show(estimator):
        raise PropertyError("clone and set_params keep all parameters")
    repr(estimator)


STEPS = {
    "predict": predictions,
    "parameters": parameters,
    "score": lambda estimator, table, y, weights: estimator.score(table, y, **weights),
    "transform": lambda estimator, table, y, weights: estimator.transform(table),
    "importances": lambda estimator, table, y, weights: estimator.feature_importances_,
    "names": lambda estimator, table, y, weights: estimator.get_feature_names_out(),
    "extend": lambda estimator, table, y, weights: estimator.extend(2, table, y, **weights),
    "refit": lambda estimator, table, y, weights: estimator.fit(table, y, **weights),
    "other columns": lambda estimator, table, y, weights: estimator.predict({"other": np.zeros(3)}),
}
