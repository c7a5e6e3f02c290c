"""CWBClassifier: an estimator for targets with two or more classes.

Losses code the classes (see losses/classes.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.fitting.input_data import class_weights
from cwboost.frames.columns import Floats, Labels
from cwboost.losses import Loss, loss_for_classes
from cwboost.losses.classes import code_array
from cwboost.metrics.metric import ForLabels

from .base import CWBEstimator
from .input import check_length, check_weights, check_y


def _check_classes(y: NDArray[Any]) -> None:
    """Raise if y does not have classes; scikit-learn expects the words "Unknown label type"."""
    with np.errstate(invalid="ignore"):  # scikit-learn converts huge numbers to integers
        kind = type_of_target(y)
    if kind == "continuous":
        fractions = y[y != np.floor(y)]
        shown = (fractions if len(fractions) else y)[0].item()  # or y is too large to be whole
        raise ValueError(
            f"y: a classifier needs classes, got numbers such as {quote(shown)} (Unknown label "
            "type: continuous); use CWBRegressor, or pass y as text if each number is a class"
        )
    if kind == "unknown":
        raise ValueError(
            f"y: a classifier needs classes as text, whole numbers or booleans, got "
            f"{quote(y.ravel()[0])} (Unknown label type: unknown); convert y"
        )
    if kind not in ("binary", "multiclass"):
        check_classification_targets(y)  # raises


def _check_two_classes(classes: NDArray[Any], what: str) -> None:
    """Raise if there are fewer than two classes."""
    if len(classes) < 2:
        found = f"only one class, {quote(classes.tolist()[0])}" if len(classes) else "no rows"
        raise ValueError(f"{what} has {found}; a classifier needs at least two classes")


class CWBClassifier(ClassifierMixin, CWBEstimator):  # type: ignore[misc]
    """Componentwise boosting for classes: binomial loss for two, multinomial for more.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with `sample_weight`.
    offset : name of a column of X, optional
        A fixed part of the score. The column is then not a feature. Arrays go to `fit`.
    terms, learners, exclude, optimizer, n_iter, bins, validation, patience, metric, bags, \
warm_start, time_limit, random_state, n_jobs, verbose
        As for `CWBRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    model_, n_iter_, intercept_, feature_importances_, n_features_in_, feature_names_in_
        As for `CWBRegressor`.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> classifier = cb.CWBClassifier().fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    >>> classifier.predict([[0.1, 0.5], [0.9, 0.5]])
    array(['no', 'yes'], dtype='<U3')
    """

    @explain_unknown
    def __init__(
        self,
        *,
        class_weight: Any = None,
        terms: Any = "auto",
        learners: Any = None,
        exclude: Any = None,
        interactions: Any = None,
        optimizer: Any = "auto",
        n_iter: int | str = "auto",
        bins: Any = "auto",
        validation: Any = "auto",
        patience: Any = 50,
        metric: Any = None,
        offset: str | None = None,
        polish: Any = "auto",
        bags: int | None = None,
        warm_start: bool = False,
        time_limit: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        super().__init__(
            class_weight=class_weight, terms=terms, learners=learners, exclude=exclude,
            interactions=interactions, optimizer=optimizer, n_iter=n_iter, bins=bins,
            validation=validation, patience=patience, metric=metric, offset=offset, polish=polish,
            bags=bags, warm_start=warm_start,
            time_limit=time_limit, random_state=random_state, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip

    def _loss(self) -> Loss:
        return loss_for_classes(len(self.classes_))

    def _for_labels(self, metric: Any) -> Any:
        return ForLabels(metric, self.classes_)

    def _codes(self) -> tuple[Any, ...]:
        return tuple(range(len(self.classes_)))

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        """Return the codes of the classes, those without weight included (see `_weigh`).

        If `reset`, store the classes of y.
        """
        if isinstance(y, Labels):  # look up every class once, not in every row
            used = np.flatnonzero(np.bincount(y.codes))
            numbers = np.zeros(len(y.levels), np.int64)
            numbers[used] = self._code_classes(np.array(y.levels, dtype=object)[used], reset)
            return numbers[y.codes]
        y = check_y(self, y)
        if reset:
            _check_classes(y)
        return self._code_classes(y, reset)

    def _code_classes(self, y: NDArray[Any], reset: bool) -> NDArray[Any]:
        if reset:
            codes, self._labels = code_array(y)
            _check_two_classes(self._labels, "y")
            return codes
        return code_array(y, self._labels)[0]

    def _weigh(
        self, codes: NDArray[Any], weights: Floats | None, reset: bool = False
    ) -> tuple[NDArray[Any], Floats | None]:
        """Return the codes of `classes_`, and the weights with those of the classes.

        A class whose rows all have weight zero is absent from `classes_`. Its rows have any code.
        """
        labels = self._labels
        if reset and self.class_weight is not None:
            # Sums of weights, so that weights count like repeated rows.
            totals = np.bincount(codes, weights, minlength=len(labels))
            self._class_weights = class_weights(self.class_weight, labels, totals)
        if self.class_weight is not None:
            of_row = self._class_weights[codes]
            weights = np.asarray(of_row if weights is None else weights * of_row)
        if reset:
            used = np.bincount(codes if weights is None else codes[weights > 0]) > 0
            self.classes_ = labels[np.flatnonzero(used)]
            _check_two_classes(self.classes_, "y, without the rows of weight zero,")
        if len(self.classes_) == len(labels):
            return codes, weights
        used_codes = codes if weights is None else codes[weights > 0]
        code_array(labels[used_codes], self.classes_)  # raises if a class was absent in the fit
        own = np.searchsorted(self.classes_, labels)
        return np.minimum(own, len(self.classes_) - 1)[codes], weights

    def decision_function(self, X: Any, offset: Any = None) -> Floats:
        """Return the (n_samples,) log odds of `classes_[1]`, or (n_samples, n_classes) scores."""
        check_is_fitted(self)
        return self.model_.predict(
            self.as_table(X), kind="score", offset=offset, n_threads=self._n_threads()
        )

    def predict_log_proba(self, X: Any, offset: Any = None) -> Floats:
        """Return the (n_samples, n_classes) logarithms of the probabilities."""
        score = self.decision_function(X, offset)
        if score.ndim == 2:
            return np.asarray(log_softmax(score, axis=1))
        out = np.empty((len(score), 2))
        for k, signed in enumerate((score, -score)):
            np.negative(np.logaddexp(0.0, signed), out=out[:, k])
        return out

    def predict_proba(self, X: Any, offset: Any = None) -> Floats:
        """Return the (n_samples, n_classes) probabilities."""
        log_shares = self.predict_log_proba(X, offset)
        return np.exp(log_shares, out=log_shares)

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """Return the (n_samples,) most probable classes."""
        score = self.decision_function(X, offset)
        best = score.argmax(axis=1) if score.ndim == 2 else (score > 0).astype(np.intp)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy: the share of rows with the right class."""
        return self._accuracy(self.predict(X, offset), y, sample_weight)

    def _accuracy(self, found: NDArray[Any], y: Any, sample_weight: Any) -> float:
        target = check_y(self, y)
        check_length(target, len(found))
        known, given = (values[:1].tolist()[0] for values in (self.classes_, target))
        if isinstance(known, str) != isinstance(given, str):
            raise ValueError(f"y: expected classes such as {quote(known)}, got {quote(given)}")
        weights = check_weights(sample_weight, target)
        return float(np.average(found == target, weights=weights))
