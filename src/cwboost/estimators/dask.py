"""Estimators for dask collections: rows stay on the workers, only sums travel.

`cwboost.dask` exports them. Does not know how workers are reached (see distributed).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from dask.array import concatenate, from_delayed
from dask.base import is_dask_collection
from dask.delayed import delayed
from distributed import Client, get_client
from sklearn.utils.validation import check_is_fitted

from cwboost._utils.checks import is_flag, is_number, is_one_of
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.binning.rules import as_bins
from cwboost.distributed.dask_collections import check_table, delayed_blocks
from cwboost.distributed.dask_shards import open_shards
from cwboost.distributed.data import find_classes
from cwboost.distributed.fit import TermOptions, check_named_pairs, fit_shards
from cwboost.distributed.partitions import ReadOptions
from cwboost.distributed.shards import Shards
from cwboost.fitting.callbacks import RunContext
from cwboost.fitting.checkpoint import Checkpoint
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.options import FitOptions, as_seed, check_counts
from cwboost.losses import Loss, as_loss, explained
from cwboost.model.scoring import read_offsets
from cwboost.progress import as_progress

from .base import CWBEstimator
from .classifier import CWBClassifier
from .defaults import HOLD_OUT_FROM, warn_of_no_validation
from .input import check_length, check_weights, check_y
from .regressor import CWBRegressor


class DaskEstimator(CWBEstimator):
    """What both estimators share: the fit to collections, and predictions computed by workers."""

    @explain_unknown
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        validation: Any = None,
        *,
        client: Client | None = None,
        checkpoint: Any = None,
        timeout: float = 600.0,
    ) -> Self:
        """Fit the model to the rows of dask collections.

        Parameters
        ----------
        X : dask DataFrame, or dask Array with two dimensions
        y : dask Series or Array
        sample_weight : dask Series or Array, optional
        offset, exposure : name of a column, dask Series or Array, optional
        validation : dask mask, or (X, y[, sample_weight[, offset]]), optional
            The validation rows: some of the rows, or further rows. By default a random share.
        client : distributed.Client, optional
            By default the current client.
        checkpoint, timeout
            As in `cwboost.dask.fit`.
        """
        self._check_settings()
        client = _current_client() if client is None else client
        seed = as_seed(self.random_state)
        offset, exposure = self._with_defaults(offset, exposure)
        rule, pairs = as_bins(self.bins), check_named_pairs(self._check_interactions())
        given = FitInput({}, y, sample_weight, offset, exposure, validation, rule=rule)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but y is None.")
        check_table(X, "the table")
        self._name_columns(X)
        kept = None if checkpoint is None else Checkpoint(checkpoint)
        context = RunContext(None, as_progress(self._choose_progress()), kept)
        with open_shards(client, X, given, self._n_threads(), timeout, context.progress) as shards:
            loss = self._sharded_loss(shards, given)
            rows = sum(shards.ask("present", given.column("weights")))
            if given.validation is None:
                enough = rows >= HOLD_OUT_FROM
                held = self._choose_validation(None, None, rows, seed, enough=enough)
                given = replace(given, validation=held)
            has_validation = given.validation is not None
            n_iter = self._choose_n_iter(has_validation)
            check_counts(n_iter, self.time_limit, None)
            patience, metric = self._asked(has_validation)
            if not has_validation:
                warn_of_no_validation(self.patience, self.metric)
            options = FitOptions.checked(
                self._optimizer(has_validation), n_iter, patience, None, "auto",
                self.time_limit, "auto", self.polish, self._choose_tolerance(rows), metric,
            )  # fmt: skip
            terms = TermOptions(
                loss, self.learners, self.terms, self._excluded, pairs,
                getattr(self, "class_weight", None),
            )  # fmt: skip
            model = fit_shards(shards, given, terms, options, seed, context)
        self.model_, self._n_iter_requested = model, n_iter
        self._fitted_settings = self._settings_text()
        return self

    def _sharded_loss(self, shards: Shards, given: FitInput) -> Loss:
        """Return the loss; classes are found in y on the workers."""
        raise NotImplementedError

    def _check_settings(self) -> None:
        """Raise for parameters that need all rows in this process."""
        for name in ("bags", "warm_start"):
            value = getattr(self, name)
            if value is not None and not (is_flag(value) and not value):
                raise ValueError(
                    f"{name}: not supported for rows on a cluster; leave it at its default"
                )
        if is_one_of(self.validation, ("last",)):
            raise ValueError(
                "validation: 'last' is not supported for rows on a cluster; pass a mask to "
                "fit(..., validation=)"
            )

    def _name_columns(self, X: Any) -> None:
        columns = getattr(X, "columns", None)
        if columns is None:
            self.n_features_in_ = int(X.shape[1])
            self.__dict__.pop("feature_names_in_", None)
            return
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.asarray(list(columns), dtype=object)

    # --- predictions ------------------------------------------------------------------------------

    def _delay(self, method: str, X: Any, given: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """Return a dask Array of the results of a method for every partition of X."""
        check_is_fitted(self)
        for name, value in given.items():
            if value is not None and not is_number(value):
                raise TypeError(
                    f"{name}: for rows on a cluster it must be a column of X; pass its name as "
                    f"{name}= when you make the estimator"
                )
        dtype = self.classes_.dtype if method == "predict" and self._is_classifier else np.float64
        # Keep X's partitioning, so that predictions align with X.
        blocks, estimator = delayed_blocks(X, "X", optimize=False), delayed(self)
        sizes = X.chunks[0] if hasattr(X, "chunks") else [float("nan")] * len(blocks)
        apply = delayed(_apply, pure=False)
        parts = [
            from_delayed(
                apply(estimator, method, block, dict(given), shape, dtype), (n, *shape), dtype
            )
            for block, n in zip(blocks, sizes, strict=True)
        ]
        return concatenate(parts, allow_unknown_chunksizes=True)

    @property
    def _is_classifier(self) -> bool:
        return isinstance(self, CWBClassifier)

    def transform(self, X: Any) -> Any:
        """Return the contribution of each chosen term to every row's score; a dask Array for a
        collection."""
        if not is_dask_collection(X):
            return super().transform(X)
        return self._delay("transform", X, {}, (len(self.get_feature_names_out()),))


def _apply(
    estimator: Any, method: str, part: Any, given: Mapping[str, Any], shape: Any, dtype: Any
) -> Any:
    """Return what a method of the estimator returns for one partition, which may be empty."""
    return getattr(estimator, method)(part, **given) if len(part) else np.empty((0, *shape), dtype)


def _current_client() -> Client:
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "there is no current client; make one with client = distributed.Client(...), or pass "
            "it to fit(..., client=)"
        ) from None


def _gather(given: Any) -> Any:
    """Return what is on the cluster, in this process; anything else as it is."""
    return given.compute() if is_dask_collection(given) else given


class DaskCWBRegressor(DaskEstimator, CWBRegressor):
    """`CWBRegressor` for dask collections: rows stay on the workers, only sums travel.

    The parameters are those of `CWBRegressor`. bags, warm_start and validation="last" are not
    supported, and interactions must be named. `predict` for a dask collection returns a dask Array,
    computed by the workers on demand; for other tables it is what `CWBRegressor.predict` returns.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from distributed import Client
    >>> from cwboost.dask import DaskCWBRegressor
    >>> client = Client(n_workers=2, threads_per_worker=1, dashboard_address=":0",
    ...                 processes=False)
    >>> X = da.random.default_rng(0).uniform(size=(2000, 2), chunks=(500, 2))
    >>> y = da.sin(6 * X[:, 0])
    >>> regressor = DaskCWBRegressor().fit(X, y, client=client)
    >>> bool(regressor.feature_importances_[0] > 0.99)
    True
    >>> bool(abs(regressor.predict(X) - y).max().compute() < 0.1)
    True
    >>> client.close()
    """

    def _sharded_loss(self, shards: Shards, given: FitInput) -> Loss:
        return self._loss()

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Any:
        """Return (n_samples,) predictions in the units of y; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict(X, offset, exposure)
        return self._delay("predict", X, {"offset": offset, "exposure": exposure}, ())

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Return D^2, the share of the deviance explained.

        The scores and y of a collection are sent to the client.
        """
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight, offset, exposure))
        given = {"offset": offset, "exposure": exposure}
        score, base = (
            _gather(self._delay(method, X, given, ())) for method in ("_scores", "_offsets")
        )
        target = check_y(self, _gather(y), y_numeric=True)
        check_length(target, len(score))
        w = check_weights(_gather(sample_weight), target)
        w = np.ones(len(target)) if w is None else w
        return explained(self.model_.loss, target, score, base[:, None], w)

    def _scores(self, X: Any, offset: Any, exposure: Any) -> Any:
        return self.model_.predict(self.as_table(X), kind="score", offset=offset, exposure=exposure)

    def _offsets(self, X: Any, offset: Any, exposure: Any) -> Any:
        return read_offsets(self.model_, self.as_table(X), offset, exposure)[:, 0]


class DaskCWBClassifier(DaskEstimator, CWBClassifier):
    """`CWBClassifier` for dask collections: rows stay on the workers, only sums travel.

    The parameters are those of `CWBClassifier`. bags, warm_start and validation="last" are not
    supported, and interactions must be named. Predictions for a dask collection are dask Arrays.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from distributed import Client
    >>> from cwboost.dask import DaskCWBClassifier
    >>> client = Client(n_workers=2, threads_per_worker=1, dashboard_address=":0",
    ...                 processes=False)
    >>> X = da.random.default_rng(0).uniform(size=(2000, 2), chunks=(500, 2))
    >>> classifier = DaskCWBClassifier(n_iter=50).fit(X, X[:, 0] > 0.5, client=client)
    >>> classifier.predict(np.array([[0.1, 0.5], [0.9, 0.5]]))
    array([False,  True])
    >>> client.close()
    """

    def _sharded_loss(self, shards: Shards, given: FitInput) -> Loss:
        classes = find_classes(shards, ReadOptions.of(given, as_loss("multinomial")))
        self.classes_ = self._labels = np.array(classes)
        return self._loss()

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Return log odds of `classes_[1]`, or a score per class; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().decision_function(X, offset)
        shape = () if len(self.classes_) == 2 else (len(self.classes_),)
        return self._delay("decision_function", X, {"offset": offset}, shape)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """Return log probabilities of the classes; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict_log_proba(X, offset)
        return self._delay("predict_log_proba", X, {"offset": offset}, (len(self.classes_),))

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Return the probabilities of the classes; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict_proba(X, offset)
        return self._delay("predict_proba", X, {"offset": offset}, (len(self.classes_),))

    def predict(self, X: Any, offset: Any = None) -> Any:
        """Return the most probable class; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict(X, offset)
        return self._delay("predict", X, {"offset": offset}, ())

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Return the accuracy: the share of the rows whose class is predicted."""
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight, offset))
        return self._accuracy(_gather(self.predict(X, offset)), _gather(y), _gather(sample_weight))
