"""The scorers of scikit-learn as metrics. Apart from metrics.py, so that scikit-learn is imported
only when one of them is asked for.

A scorer asks an estimator for predictions of X; here one that says what it is given: X are the
predictions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from cwboost.frames.table import Floats

from .metrics import (
    NAMED,
    RISK,
    HeldOutRows,
    Metric,
    as_number,
    refuse_weights,
    shares_of,
    takes_weights,
)


def named_scorer(given: str, name: str | None, classes: Any) -> Metric:
    """By its name in scikit-learn."""
    if given not in get_scorer_names():
        raise ValueError(
            f"metric: expected {', '.join(map(repr, (RISK, *NAMED)))}, the name of a scorer of "
            f"scikit-learn, or a function of y and prediction; got {given!r}"
        )
    return Metric(name or given, True, ScorerMetric(get_scorer(given), bool(classes)).value)


class ScorerMetric:
    """A scorer of scikit-learn, which asks an estimator; here one that says what it is given."""

    def __init__(self, scorer: Any, for_classes: bool) -> None:
        self.scorer, self.for_classes = scorer, for_classes
        self.weighs = takes_weights(getattr(scorer, "_score_func", scorer))

    def value(self, tested: HeldOutRows, score: Floats) -> float:
        said: Any
        if self.for_classes:
            said, X = FixedClasses(tested.classes), shares_of(tested, score)
        else:
            said, X = FixedNumbers(), tested.loss.response(score)
        weights = {"sample_weight": tested.weights} if self.weighs else {}
        if not weights:
            refuse_weights(tested, str(self.scorer))
        return as_number(self.scorer(said, X, tested.labels, **weights), str(self.scorer))


class FixedNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """X are predictions (n,)."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Floats) -> Floats:
        return X


class FixedClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """X are probabilities (n, classes)."""

    def __init__(self, classes: Any = ()) -> None:
        self.classes = classes

    def __sklearn_is_fitted__(self) -> bool:
        return True

    @property
    def classes_(self) -> NDArray[Any]:
        return np.asarray(self.classes)

    def predict_proba(self, X: Floats) -> Floats:
        return X

    def predict(self, X: Floats) -> NDArray[Any]:
        return np.asarray(self.classes_[X.argmax(axis=1)])
