"""scikit-learn scorers as metrics. Separate from metric.py, so that scikit-learn is imported only
when a scorer is used.

A scorer asks an estimator for predictions of X. Here X holds the predictions, and the estimator
returns them unchanged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from cwboost._utils.text import quote
from cwboost.frames.columns import Floats

from .metric import METRICS, HeldOutRows, Metric, as_metric_value, refuse_weights, takes_weights


def named_scorer(name: str, label: str | None, for_classes: bool) -> Metric:
    """Return the metric for the name of a scikit-learn scorer; a label replaces the name."""
    if name not in get_scorer_names():
        raise ValueError(
            f"metric: expected {', '.join(map(repr, METRICS))}, the name of a scikit-learn scorer, "
            f"or a function of y and prediction; got {quote(name)}"
        )
    return scorer_metric(get_scorer(name), label or name, for_classes, source=name)


def scorer_metric(scorer: Any, name: str, for_classes: bool, source: str | None = None) -> Metric:
    """Return the metric for a scikit-learn scorer; raise if it is for classes and y is numbers."""
    asks_for = getattr(scorer, "_response_method", "predict")
    methods = [asks_for] if isinstance(asks_for, str) else asks_for
    if not for_classes and "predict" not in methods:
        raise ValueError(
            f"metric: the scorer {quote(name)} needs the probabilities of classes, but y is "
            "numbers; use a metric for numbers, such as 'r2' or 'risk'"
        )
    function = ScorerMetric(scorer, name, for_classes, is_named=source is not None)
    return Metric(name, function, greater_is_better=True, code=scorer, source=source)


class ScorerMetric:
    """A scikit-learn scorer as a function of rows and scores.

    Scorers such as "f1" are about the class 1. If `is_named`, they are about the second of two
    classes where no class is called 1.
    """

    def __init__(
        self, scorer: Any, name: str, for_classes: bool, *, is_named: bool = False
    ) -> None:
        self.scorer, self.name = scorer, name
        self.for_classes, self.is_named = for_classes, is_named
        self.takes_weights = takes_weights(getattr(scorer, "_score_func", scorer))

    def __call__(self, rows: HeldOutRows, score: Floats) -> float:
        estimator: Any
        y = rows.labels
        if self.for_classes:
            classes = rows.classes
            if self.is_named and len(classes) == 2 and 1 not in classes:
                y, classes = rows.class_codes, (0, 1)
            estimator, X = FixedClasses(classes), rows.probabilities(score)
        else:
            estimator, X = FixedNumbers(), rows.loss.response(score)
        if not self.takes_weights:
            refuse_weights(rows, self.name, "use another metric")
        # Equal weights change nothing, and some scorers refuse all weights for some y.
        weights = {} if rows.equal_weights else {"sample_weight": rows.weights}
        try:
            value = self.scorer(estimator, X, y, **weights)
        except (AttributeError, TypeError, ValueError) as error:
            raise ValueError(
                f"metric: the scorer {quote(self.name)} cannot take these predictions ({error}); "
                "use another metric"
            ) from error
        return as_metric_value(value, self.name)


class FixedNumbers(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that returns X, the predictions (n,)."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict(self, X: Floats) -> Floats:
        return X


class FixedClasses(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that returns X, the probabilities (n, classes)."""

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
