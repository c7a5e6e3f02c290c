"""CWBRegressor: an estimator for numeric targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, as_loss, explained
from cwboost.model.model import Model
from cwboost.model.scoring import read_offsets
from cwboost.uncertainty.intervals import Intervals

from .base import CWBEstimator
from .input import check_y
from .suggestion import is_skewed, suggest_log_link


class CWBRegressor(RegressorMixin, CWBEstimator):  # type: ignore[misc]
    """Componentwise boosting for numbers: score = intercept + offset + effects of the columns.

    Parameters
    ----------
    loss : str or loss
        "squared", "absolute", "quantile", "huber", "poisson", "gamma", "tweedie", an instance such
        as `cb.Quantile(0.9)`, or a loss written in Python.
    terms : {"auto", "linear", "smooth", "step", "components"}
        The terms of numeric columns; other columns get a Category. "auto" offers a Spline and a
        Step, and the fit chooses between them.
    learners : list of learners, optional
        Terms such as `cb.Spline("age", df=4)` or `cb.Tensor("lon", "lat")`. With `...` in the list,
        the columns that they do not name get `terms`.
    exclude : list of column names, optional
        Columns that get no term.
    interactions : int, "auto", "all" or list of pairs of column names, optional
        Pairs of columns that interact: a number of the best pairs, a list of pairs, "all" for as
        many as gain more than noise does, or "auto" for the fewest of them whose validation risk is
        within one standard error of the lowest. They are fitted after the main effects, in `n_iter`
        more iterations, and are orthogonal to the main effects. See `cwboost.fit`.
    optimizer : {"auto", "plain", "accelerated", "hybrid"} or an optimizer
        "auto" is `cb.Plain(rate=0.5)`, "hybrid" `cb.Hybrid(rate=0.5, then="training")`; without
        validation rows both are `cb.Plain()`. The other names are the optimizers with their own
        defaults. An object such as `cb.Plain(rate=0.05)` makes `optimizer__rate` searchable.
    n_iter : int or "auto"
        The largest number of iterations. "auto" is 10,000 with validation rows, which stop the fit
        early. Without validation rows it is 200; from 50 to 999 rows, five-fold cross-validation
        chooses the number (`n_iter_`), up to 3,200; with fewer rows it is 30.
    bins : {"auto", "sqrt", "root4", "exact"}, int or Bins
        How numbers are binned for the fit.
    validation : "auto", float, "last" or None
        Share of validation rows, which find the best iteration. "auto" is 0.2 with at least 1,000
        rows (of classes, 200 of them outside the most frequent class, or 10,000 in all), else
        None; "last" is the last fifth of the rows (for rows in time order). Your own split goes to
        `fit`.
    patience : int, Patience, Stagnation, a list of them, or None
        Stop after this many iterations without a new best validation risk, or by these rules. From
        50,000 rows on, if polish follows, the best risk must fall by a tenth of what the fit has
        gained so far.
    metric : str, function, scorer, or a list or dict of them, optional
        Metrics of the validation rows that are recorded after every iteration; the first one
        replaces the validation risk in early stopping, as in `cwboost.fit`. Where cross-validation
        chooses the number of iterations, it decides there.
    offset, exposure : name of a column of X, optional
        A fixed part of the score; exposure is exp(offset). The column is then not a feature, and
        `predict(X)` finds it. Arrays go to `fit`, `predict` and `score`.
    polish : "auto", True or None
        Refit the chosen terms after boosting, all together and on all rows, with one smoothing
        parameter per term. "auto" skips it where it is impossible or would take longer than
        boosting; `model_.polish` says why. None keeps the boosted fit. See `cwboost.polish`.
    bags : int, optional
        Average this many fits. Each leaves out a share of the rows (`validation`; 0.2 for "auto"
        and None), or of the groups, and uses them as validation rows. Predictions get better and
        every effect gets a band, at `bags` times the cost.
    warm_start : bool
        Continue the last fit when `fit` is called again with a larger `n_iter` on the same data.
    time_limit : float, optional
        Seconds after which the fit stops.
    random_state : int, RandomState, Generator or None
        Seed for the validation rows.
    n_jobs : int, optional
        Number of threads; the result does not depend on it.
    verbose : bool or None
        Whether to show a bar with risk, speed and time left. None shows it if the fit takes more
        than two seconds, in a terminal or a notebook.

    Attributes
    ----------
    model_ : cwboost.Model
        The fitted model, with effects, explanations and exports.
    n_iter_ : int
    intercept_ : float
    feature_importances_ : array of shape (n_features,)
        Mean absolute effects of the columns, normalised to sum one.
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

    @explain_unknown
    def __init__(
        self,
        loss: Any = "squared",
        *,
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
        exposure: str | None = None,
        polish: Any = "auto",
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
            patience=patience, metric=metric, offset=offset, exposure=exposure, polish=polish,
            bags=bags, warm_start=warm_start, time_limit=time_limit, random_state=random_state,
            n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip

    def _loss(self) -> Loss:
        loss = as_loss(self.loss)
        if loss.target == "classes":
            raise ValueError(f"loss: {loss.name} is for classes; use CWBClassifier")
        return loss

    def _with_suggestion(self, model: Model, problem: dict[str, Any], held_out: Any) -> Model:
        """Return the model, with a suggestion if y is skewed and a log link is clearly better.

        This takes one more fit. It is left out where the user chose a loss or pays for every fit.
        """
        own = self.bags is not None or self.interactions is not None or self.time_limit is not None
        own = own or not (isinstance(self.loss, str) and self.loss == "squared")
        fixed = problem["offset"] is not None or problem["exposure"] is not None
        rows = isinstance(held_out, float) or (
            isinstance(held_out, np.ndarray) and held_out.dtype == bool
        )
        if own or fixed or not rows or not is_skewed(problem["y"]):
            return model
        found = suggest_log_link(model, problem, held_out, patience=self.patience)
        return replace(model, suggestion=found)

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        return check_y(self, y, y_numeric=True)

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Floats:
        """Return the (n_samples,) predictions in the units of y.

        For a model that was fitted with an array of offsets, `offset=0` predicts without them.
        """
        check_is_fitted(self)
        return self.model_.predict(
            self.as_table(X), offset=offset, exposure=exposure, n_threads=self._n_threads()
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
        """Return prediction intervals that hold a new y with probability `level`; see
        `cwboost.Model.intervals`.

        Pass the training data again. The result's `predict(X)` has the columns lower and upper.
        """
        check_is_fitted(self)
        table, target, weights = self._read_rows(X, y, sample_weight)
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
            progress=self._choose_progress(),
        )

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Return the explained share of the deviance, D^2; for the squared loss this is R^2.

        D^2 = 1 - deviance of the model / deviance of offset + the best constant on these rows.
        """
        check_is_fitted(self)
        model, (table, target, weights) = self.model_, self._read_rows(X, y, sample_weight)
        w = np.ones(len(target)) if weights is None else weights
        offsets = read_offsets(model, table, offset, exposure)
        score = model.predict(table, kind="score", offset=offset, exposure=exposure)
        return explained(model.loss, target, score, offsets, w)
