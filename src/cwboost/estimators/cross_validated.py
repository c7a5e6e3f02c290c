"""CWBRegressorCV and CWBClassifierCV: choose the number of iterations by cross-validation.

They cross-validate, then fit all rows. Does not know how rows are read or fitted (see base.py).
"""

from __future__ import annotations

from typing import Any, Self

from cwboost._utils.checks import check_flag
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.fitting.options import PolishWeight
from cwboost.optimizers import Optimizer, as_optimizer
from cwboost.selection.cv import cv
from cwboost.selection.cv_result import CV

from .base import CWBEstimator
from .classifier import CWBClassifier
from .defaults import MOST_EXTENSION, N_ITER_WITHOUT_VALIDATION
from .input import FitArguments, read_roles
from .regressor import CWBRegressor


class _CrossValidated(CWBEstimator):
    """Cross-validates, then fits all rows with the best number of iterations."""

    cv_result_: CV
    # Parameters of the other estimators that these do not have.
    validation = None
    patience = None
    metric = None
    warm_start = False
    time_limit = None
    bags = None
    interactions = None

    @explain_unknown
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose the number of iterations by cross-validation, and fit all rows.

        Parameters
        ----------
        X, y, sample_weight, offset, exposure
            As for `CWBRegressor.fit`.
        groups : array of shape (n_samples,) or name of a column, optional
            Rows of a group are in the same fold. The column is then not a feature.
        """
        check_flag("one_se", self.one_se)
        rows = read_roles(self, FitArguments(X, y, sample_weight, offset, exposure))
        table, codes, weights = self._read_rows(rows.X, rows.y, rows.sample_weight, reset=True)
        if len(codes) < 2:
            raise ValueError(f"cv: n_samples = {len(codes)} is too small for folds")
        fixed = self._with_defaults(rows.offset, rows.exposure)
        n_iter, extend = self._fold_iterations()
        self.cv_result_ = cv(
            table,
            codes,
            self._learners(table, weights, (*fixed, *self._with_defaults(None, None), groups)),
            self._loss(),
            self._optimizer(False),
            n_iter,
            self.cv,
            groups,
            self._for_labels(self.scoring),
            self.bins,
            weights,
            *fixed,
            extend=extend,
            random_state=self.random_state,
            n_threads=self._n_threads(),
            progress=self._choose_progress(),
            polish=self.polish,
            one_se=bool(self.one_se),
        )
        super().fit(*rows, groups=groups)
        return self

    def _fold_iterations(self) -> tuple[Any, Any]:
        """Return the iterations of the folds, and up to how many they may be extended."""
        if self._n_iter_is_auto:
            return N_ITER_WITHOUT_VALIDATION, MOST_EXTENSION * N_ITER_WITHOUT_VALIDATION
        return self.n_iter, False

    def _choose_n_iter(self, has_validation: bool) -> Any:
        """Return the number of iterations of the refit."""
        del has_validation
        found = self.cv_result_
        return found.best_iteration_1se if self.one_se else found.best_iteration

    def _polish(self) -> Any:
        """Return the `polish` of the refit, with the weight that the folds have chosen."""
        found = self.cv_result_.polished
        return self.polish if found is None or found.reason else PolishWeight(found.weight)

    def _find_n_iter(self, problem: dict[str, Any], groups: Any) -> int | None:
        """Return None: the folds of the user have decided."""
        del problem, groups
        return None

    def _optimizer(self, has_validation: bool) -> Optimizer:
        optimizer = as_optimizer(self.optimizer)
        if optimizer.needs_validation:
            raise ValueError(
                f"optimizer: {type(self).__name__} chooses the iterations by cross-validation, but "
                f"{type(optimizer).__name__} needs validation rows of its own; use 'plain', "
                "'accelerated' or "
                f"{type(self).__name__.removesuffix('CV')}"
            )
        return super()._optimizer(has_validation)

    @property
    def best_score_(self) -> float:
        """Mean of `scoring` over the folds after the chosen iterations, and after polish if the
        model is polished; larger is better. Without `scoring` it is minus the risk.
        """
        found = self.cv_result_
        if found.polished is not None and found.polished.weight:
            value = found.polished.mean(found.chosen_by)
        else:
            value = float(found.mean[found.iterations == self._choose_n_iter(False)][0])
        return value if found.greater_is_better else -value


class CWBRegressorCV(_CrossValidated, CWBRegressor):
    """CWBRegressor with the number of iterations chosen by cross-validation.

    The folds share the same bins and run in parallel. Then all rows are fitted with the best number
    of iterations, and polished.

    Parameters
    ----------
    loss, terms, learners, exclude, bins, offset, exposure, random_state, n_jobs, verbose
        As for `CWBRegressor`.
    cv : int, cb.Folds, splitter of scikit-learn or list of (training, test)
        The folds; see `cb.cv`.
    one_se : bool
        Take the fewest iterations whose mean is within one standard error of the best.
    scoring : name, function, scorer or None
        The metric that decides; None is the risk. See `metric` of `cb.cv`.
    optimizer : {"plain", "accelerated"} or an optimizer
    n_iter : int or "auto"
        The largest number of iterations. "auto" tries 200, and doubles it up to 3200 as long as the
        best iteration is among the last.
    polish : "auto", True or None
        As for `CWBRegressor`. The folds are polished too, and their test rows choose the weight of
        the refit.

    Attributes
    ----------
    cv_result_ : cwboost.CV
        Risks of the folds, with `plot()` and `summary()`.
    n_iter_ : int
        The chosen number of iterations.
    best_score_ : float
        Mean score of the folds after `n_iter_` iterations, polished if the model is; minus the
        risk without `scoring`.
    model_, intercept_, feature_importances_, n_features_in_, feature_names_in_
        As for `CWBRegressor`.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = np.sin(6 * X[:, 0]) + rng.normal(0, 0.3, 300)
    >>> regressor = cb.CWBRegressorCV(cv=5, scoring="r2").fit(X, y)
    >>> regressor.n_iter_ == regressor.cv_result_.best_iteration
    True
    """

    @explain_unknown
    def __init__(
        self,
        loss: Any = "squared",
        *,
        cv: Any = 5,
        one_se: bool = False,
        scoring: Any = None,
        terms: Any = "auto",
        learners: Any = None,
        exclude: Any = None,
        optimizer: Any = "plain",
        n_iter: int | str = "auto",
        polish: Any = "auto",
        bins: Any = "auto",
        offset: str | None = None,
        exposure: str | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        CWBEstimator.__init__(
            self, loss=loss, cv=cv, one_se=one_se, scoring=scoring, terms=terms,
            learners=learners, exclude=exclude, optimizer=optimizer, n_iter=n_iter,
            polish=polish, bins=bins, offset=offset, exposure=exposure,
            random_state=random_state, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip


class CWBClassifierCV(_CrossValidated, CWBClassifier):
    """CWBClassifier with the number of iterations chosen by cross-validation.

    Parameters
    ----------
    class_weight, terms, learners, exclude, bins, offset, random_state, n_jobs, verbose
        As for `CWBClassifier`.
    cv, one_se, scoring, optimizer, n_iter, polish
        As for `CWBRegressorCV`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    cv_result_, n_iter_, best_score_, model_, intercept_, feature_importances_, n_features_in_, \
feature_names_in_
        As for `CWBRegressorCV`.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> y = np.where(X[:, 0] + rng.normal(0, 0.3, 300) > 0.5, "yes", "no")
    >>> classifier = cb.CWBClassifierCV(cv=5, scoring="auc").fit(X, y)
    >>> bool(classifier.best_score_ > 0.8)
    True
    """

    @explain_unknown
    def __init__(
        self,
        *,
        cv: Any = 5,
        one_se: bool = False,
        scoring: Any = None,
        class_weight: Any = None,
        terms: Any = "auto",
        learners: Any = None,
        exclude: Any = None,
        optimizer: Any = "plain",
        n_iter: int | str = "auto",
        polish: Any = "auto",
        bins: Any = "auto",
        offset: str | None = None,
        random_state: Any = 0,
        n_jobs: int | None = None,
        verbose: bool | int | None = None,
    ) -> None:
        CWBEstimator.__init__(
            self, cv=cv, one_se=one_se, scoring=scoring, class_weight=class_weight, terms=terms,
            learners=learners, exclude=exclude, optimizer=optimizer, n_iter=n_iter,
            polish=polish, bins=bins, offset=offset, random_state=random_state, n_jobs=n_jobs,
            verbose=verbose,
        )  # fmt: skip
