"""Estimators that say what they are given, for scorers of scikit-learn: X are the predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from .table import Floats


class SaidNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """X are predictions (n,)."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Floats) -> Floats:
        return X


class SaidClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
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
