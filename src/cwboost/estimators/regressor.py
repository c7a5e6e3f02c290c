"""CWBRegressor: numbers as targets."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import (
    check_is_fitted,
)

from cwboost.frames.table import Floats
from cwboost.losses import Loss, as_loss, explained
from cwboost.uncertainty.intervals import Intervals

from .base import CWBEstimator
from .input import check_y


class CWBRegressor(RegressorMixin, CWBEstimator):  # type: ignore[misc]
    """Componentwise boosting for numbers: score = intercept + offset + effects of the columns.

    Parameters
    ----------
    loss : str or loss
        "squared", "absolute", "quantile", "huber", "poisson", "gamma", "tweedie", an instance such
        as `cb.Quantile(0.9)`, or a loss written in Python.
    terms : {"auto", "linear", "smooth", "step", "components"}
        What numeric columns get; others get a Category. "auto": a Spline and a Step, of which the
        fit takes what the data ask for.
    learners : list of learners, optional
        Terms such as `cb.Spline("age", df=4)` or `cb.Tensor("lon", "lat")`: these only, or with
        `...` in the list these and `terms` for the columns that they do not name.
    exclude : list of column names, optional
        Columns that get no term.
    interactions : int, "auto" or list of pairs of column names, optional
        Pairs of columns that act together: so many of the best, or these, or as many as seem to be
        more than noise. They are fitted after the main effects, in `n_iter` more iterations, and
        without main effects of their own.
    optimizer : {"hybrid", "accelerated", "plain"} or an optimizer
        "hybrid" is `cb.Hybrid(rate=0.3, then="training")` (with bags or interactions of two
        classes `cb.Hybrid(rate=4, momentum=0.0034, then="training")`), and `cb.Plain()` without
        validation rows; the other names are the optimizers with their own defaults. An object such
        as `cb.Plain(rate=0.05)` makes `optimizer__rate` searchable.
    n_iter : int or "auto"
        Most iterations; "auto": 2000 with validation rows to stop at the best, else 200.
    bins : {"auto", "sqrt", "root4", "exact"}, int or Bins
        How numbers are merged for the fit.
    validation : "auto", float, "last" or None
        Share of the rows held out to find the best iteration; "auto": 0.2 from 1,000 rows on, none
        below; "last": the last 0.2 of the rows (for rows in time order). `fit` takes own splits.
    patience : int or None
        Stop after so many iterations without a new best validation risk.
    offset, exposure : name of a column of X, optional
        Fixed part of the score; exposure is exp(offset). The column is then no feature, and
        `predict(X)` finds it. Arrays go to `fit`, `predict` and `score`.
    bags : int, optional
        The average of so many fits, each without a share of the rows (`validation`; "auto" and
        None: 0.2) that finds its best iteration; with groups, without whole groups. Better
        predictions and a band around every effect, for so many times the time.
    warm_start : bool
        Go on from the last fit when `fit` is called again with a larger `n_iter`, on the same data.
    time_limit : float, optional
        Seconds after which the fit stops.
    random_state : int, RandomState, Generator or None
        For the rows held out.
    n_jobs : int, optional
        Threads; the result does not depend on it.
    verbose : bool or None
        Whether to show a bar with risk, rate and time left. None: if the fit takes more than two
        seconds, in a terminal or a notebook.

    Attributes
    ----------
    model_ : cwboost.Model
        Effects, explanations, export: all that the estimator does not show itself.
    n_iter_ : int
    intercept_ : float
    feature_importances_ : array of shape (n_features,)
    n_features_in_ : int
    feature_names_in_ : array of str

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> regressor = cb.CWBRegressor().fit(X, np.sin(6 * X[:, 0]))
    >>> regressor.feature_importances_.round(2)
    array([1., 0.])
    """

    def __init__(
        self,
        loss: Any = "squared",
        *,
        terms: Any = "auto",
        learners: Any = None,
        exclude: Any = None,
        interactions: Any = None,
        optimizer: Any = "hybrid",
        n_iter: int | str = "auto",
        bins: Any = "auto",
        validation: Any = "auto",
        patience: int | None = 50,
        offset: str | None = None,
        exposure: str | None = None,
        bags: int | None = None,
        warm_start: bool = False,
        time_limit: float | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        super().__init__(
            loss=loss, terms=terms, learners=learners, exclude=exclude, interactions=interactions,
            optimizer=optimizer, n_iter=n_iter, bins=bins, validation=validation,
            patience=patience, offset=offset, exposure=exposure, bags=bags, warm_start=warm_start,
            time_limit=time_limit, random_state=random_state, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip

    def _loss(self) -> Loss:
        loss = as_loss(self.loss)
        if loss.target == "classes":
            raise ValueError(f"loss: {loss.name} is for classes; use CWBClassifier")
        return loss

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        return np.asarray(check_y(self, y, y_numeric=True), dtype=np.float64)

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Floats:
        """(n_samples,) predictions in the units of y.

        `offset=0` predicts without the offsets of a model that was fitted with arrays of them.
        """
        check_is_fitted(self)
        return self.model_.predict(
            self._read(X), offset=offset, exposure=exposure, n_threads=self._n_threads()
        )

    def intervals(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        *,
        level: float = 0.9,
        kind: Any = "cv+",
        folds: Any = None,
    ) -> Intervals:
        """Between which ends a new y lies with probability `level`; see `cwboost.Model.intervals`.

        Given the rows of `fit` again; the result's `predict(X)` has the columns lower and upper.
        """
        check_is_fitted(self)
        table, target, weights = self._rows(X, y, sample_weight)
        return self.model_.intervals(
            table,
            target,
            level=level,
            kind=kind,
            folds=folds,
            weights=weights,
            offset=offset,
            exposure=exposure,
            random_state=self.random_state,
            n_threads=self._n_threads(),
            progress=self._shown(),
        )

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Share of the deviance explained, D^2; for the squared loss that is R^2.

        1 - deviance of the model / deviance of offset + the best constant on these rows.
        """
        check_is_fitted(self)
        model, (table, target, weights) = self.model_, self._rows(X, y, sample_weight)
        w = np.ones(len(target)) if weights is None else weights
        o = model._offset(table, offset, exposure)
        score = model.predict(table, kind="score", offset=offset, exposure=exposure)
        return explained(model.loss, target, score, o, w)
