"""The scikit-learn face: CWBRegressor and CWBClassifier.

Knows scikit-learn's conventions (its checks of X and y, metadata routing, tags) and which settings
of the engine the defaults mean; knows nothing of bins, bases or boosting. The fitted model is
`estimator.model_`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.sparse import issparse
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    _check_y,
    _get_feature_names,
    check_is_fitted,
    validate_data,
)

from cwboost._utils.checks import is_number, is_whole
from cwboost.explain.quality import explained
from cwboost.fitting.fit import _seed, fit
from cwboost.fitting.input_data import check_known, class_weights, read_weights
from cwboost.fitting.interactions import check_interactions
from cwboost.frames.dataset import Dataset
from cwboost.frames.table import Floats, Labels, Table, read
from cwboost.losses import Loss, as_loss
from cwboost.model.model import Model
from cwboost.optimizers import OPTIMIZERS, Hybrid, Optimizer, Plain
from cwboost.progress import Progress
from cwboost.selection.folds import group_numbers
from cwboost.terms.learners import Learner
from cwboost.terms.styles import make_learners
from cwboost.uncertainty.intervals import Intervals

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ModuleNotFoundError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing."""

    def with_callbacks(method: Any) -> Any:
        """The method itself."""
        return method


HOLD_OUT_FROM = 1000  # rows; fewer are all needed for the fit
HOLD_OUT = 0.2  # share of the rows, or of the groups
N_ITER_WATCHED = 2000  # with validation rows to stop at the best (docs/defaults.md: all of these)
N_ITER_BLIND = 200  # without: diabetes and Friedman's data are best at 100-200 and lose at 1000
RATE, MOMENTUM = 0.3, 0.037  # of the hybrid that "hybrid" means; without validation rows Plain()
# With bags or pairs, and two classes, whose loss bends by 1/4 at the most: pairs need many steps,
# and bags average out what haste costs (docs/quality.md).
LARGE_RATE, SMALL_MOMENTUM = 4.0, 0.0034
FINAL = ("no better validation risk", "nothing left to gain", "diverged")  # more is no more


class _CWB(CallbackSupportMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators are: reading of tables, the fit and the terms."""

    _asked: int  # iterations that the last fit was asked for
    model_: Model
    _progress: Progress | None = None  # of the command line
    __metadata_request__fit = {"groups": True}  # noqa: RUF012 (routed as to scikit-learn's splitters)

    def __init__(self, **parameters: Any) -> None:
        for name, value in parameters.items():
            setattr(self, name, value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    # --- the fit ----------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        validation: Any = None,
        groups: Any = None,
        checkpoint: Any = None,
    ) -> Self:
        """Fits the model.

        Parameters
        ----------
        X : table or array of shape (n_samples, n_features), or a Dataset
            Numbers, text, categories, dates; missing cells are fine. A Dataset may know the other
            arguments: `fit(dataset)`.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
        offset, exposure : array of shape (n_samples,) or name of a column, optional
            Fixed part of the score; exposure is exp(offset), for losses with a log link. A model
            fitted with arrays needs them in `predict`, too. With more than two classes the offset
            has the shape (n_samples, n_classes).
        validation : mask of shape (n_samples,), or (X, y[, sample_weight[, offset]]), optional
            The rows to hold out, or further rows, instead of a share at random.
        groups : array of shape (n_samples,) or name of a column, optional
            Rows of a group are held out together; the column is then no feature.
        checkpoint : path, optional
            A file that has what is done of the fit. If it is there the fit goes on from it; see
            `cwboost.fit`.
        """
        X, y, sample_weight, offset, exposure = self._unpacked(
            X, y, sample_weight, offset, exposure
        )
        if checkpoint is not None and self.warm_start:
            raise ValueError("checkpoint: warm_start goes on from the last fit; give one or other")
        if self.bags is not None and self.warm_start:
            raise ValueError("warm_start: an average of bags cannot go on; set bags=None")
        if self.warm_start and hasattr(self, "model_"):
            self._refuse_changes()
            asked = self._n_iter_asked(self.model_.settings.validation != "none")
            done = self.model_.n_iter if self.interactions is None else self._asked
            more = asked - done  # a fit with pairs has two stages of so many
            if asked < self._asked:
                raise ValueError(
                    f"warm_start: n_iter = {asked} is less than the {self._asked} of the last fit; "
                    "raise it, or set warm_start=False"
                )
            more = 0 if self.model_.stopped in FINAL else max(more, 0)
            there = self.model_
            # Also for no more iterations: other rows are refused.
            self.extend(more, X, y, sample_weight, offset, exposure, validation, groups)
            if more == 0:
                self.model_ = there
            self._asked = asked
            return self
        table, codes, weights = self._rows(X, y, sample_weight, reset=True)
        seed = _seed(self.random_state)
        bags, together = self.bags, None if groups is None else group_numbers(groups, table)
        if bags is None:
            held = self._held_out(validation, together, len(codes), weights, seed)
        else:
            bags, held = self._bags(validation, together, seed)
        offset, exposure = self._or_own(offset, exposure)
        watched = held is not None or bags is not None
        asked = self._n_iter_asked(watched)
        stages = 1 if self.interactions is None else 2
        told = _ProgressCallbacks(
            self, stages * asked if is_whole(asked) else asked, X, y, sample_weight
        )
        model = fit(
            table,
            codes,
            self._learners(
                table, weights, (offset, exposure, *self._or_own(None, None), held, groups)
            ),
            self._loss(),
            self._optimizer(watched),
            asked,
            self.bins,
            weights=weights,
            offset=offset,
            exposure=exposure,
            validation=held,
            patience=self.patience,
            callback=told.callback if bags is None else None,
            time_limit=self.time_limit,
            random_state=seed,
            n_threads=self._n_threads(),
            bags=bags,
            progress=self._shown(),
            interactions=self._interactions(),
            checkpoint=checkpoint,
        )
        self._keep(model, asked)
        told.end()
        return self

    @with_callbacks  # type: ignore[untyped-decorator]
    def extend(
        self,
        n: int,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        validation: Any = None,
        groups: Any = None,
    ) -> Self:
        """Goes on for n more iterations, given again what `fit` was given."""
        check_is_fitted(self)
        X, y, sample_weight, offset, exposure = self._unpacked(
            X, y, sample_weight, offset, exposure
        )
        old = self.model_
        table, codes, weights = self._rows(X, y, sample_weight)
        if old.settings.validation == "rows":
            together = None if groups is None else group_numbers(groups, table)
            validation = self._held_out(
                validation, together, len(codes), weights, old.settings.seed
            )
        offset, exposure = self._or_own(offset, exposure)
        told = _ProgressCallbacks(self, n, X, y, sample_weight)
        model = replace(old, classes=tuple(range(len(old.classes)))).extend(
            n,
            table,
            codes,
            weights=weights,
            offset=offset,
            exposure=exposure,
            validation=validation,
            callback=told.callback,
            time_limit=self.time_limit,
            n_threads=self._n_threads(),
            progress=self._shown(),
        )
        self._keep(model, model.n_iter)
        told.end()
        return self

    def _shown(self) -> Any:
        """The engine's `progress`; callbacks of scikit-learn have bars of their own."""
        if self._progress is not None:
            return self._progress
        if self.verbose is None:
            return False if getattr(self, "_skl_callbacks", None) else None
        if not (isinstance(self.verbose, bool | np.bool_) or is_whole(self.verbose)):
            raise ValueError(f"verbose: expected None, True or False, got {self.verbose!r}")
        return bool(self.verbose)

    def _keep(self, model: Model, asked: int) -> Self:
        """The model, with the labels of its classes instead of their numbers."""
        labels = self.classes_.tolist() if model.classes else ()
        self.model_ = replace(model, classes=tuple(labels))
        self._asked = asked
        self._fitted_with = self._settings()
        return self

    def _settings(self) -> str:
        """The parameters that make the model what it is."""
        free = (
            "n_iter",
            "n_jobs",
            "time_limit",
            "warm_start",
            "patience",
            "random_state",
            "verbose",
        )
        own = self.get_params(deep=False)
        return repr({name: value for name, value in own.items() if name not in free})

    def _refuse_changes(self) -> None:
        if self._settings() != self._fitted_with:
            raise ValueError(
                "warm_start goes on with the model that is there; other parameters than n_iter "
                "have changed since it was fitted: set warm_start=False for a new one"
            )

    # --- what the engine is told ------------------------------------------------------------------

    def _unpacked(self, X: Any, y: Any, sample_weight: Any, offset: Any, exposure: Any) -> Any:
        """The arguments of a fit; what is not said of a Dataset it knows itself."""
        if not isinstance(X, Dataset):
            return X, y, sample_weight, offset, exposure
        table, roles = X.table, X.roles
        if y is None and "y" in roles:
            column = table[roles["y"]]
            check_known(column, table)
            if isinstance(self, ClassifierMixin):
                y = column if isinstance(column, Labels) else column.to_cells()
            else:
                y = column.to_cells() if isinstance(column, Labels) else column.values
        if sample_weight is None and "weights" in roles:
            sample_weight = read_weights(roles["weights"], table)
        offset = roles.get("offset") if offset is None else offset
        exposure = roles.get("exposure") if exposure is None else exposure
        fixed = [name for name in (offset, exposure) if isinstance(name, str)]
        features = table.select(list(dict.fromkeys([*X.features, *fixed])))
        return features, y, sample_weight, offset, exposure

    def _read(self, X: Any, reset: bool = False) -> Table:
        """X, checked as scikit-learn does, with the names that its columns had in the fit."""
        if isinstance(X, Dataset):
            X = X.table.select(self._column_names())
        if _is_table(X):
            table = _read_frame(self, X, reset)
        else:
            if isinstance(X, list | tuple) and np.asarray(X).dtype.kind in "US":
                X = np.asarray(X, dtype=object)  # NumPy would have made text of the numbers
            X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
            table = read(X)
        names = self._column_names()
        if table.names == names:
            return table
        if len(table.names) != len(names):
            raise ValueError(
                f"X has {len(table.names)} features, but {type(self).__name__} is expecting "
                f"{len(names)} features as input."
            )
        return read({new: table[old] for new, old in zip(names, table.names, strict=True)})

    def _column_names(self) -> tuple[str, ...]:
        named = getattr(self, "feature_names_in_", None)
        return tuple(f"x{j}" for j in range(self.n_features_in_)) if named is None else tuple(named)

    def _rows(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = False
    ) -> tuple[Table, NDArray[Any], Floats | None]:
        """The table, y as numbers, and the weights of the rows (None: all are 1)."""
        table = self._read(X, reset)
        target = self._read_y(y, reset)
        if len(target) != table.n_rows:
            raise ValueError(f"y has {len(target)} rows, X has {table.n_rows}")
        if isinstance(sample_weight, str):
            raise TypeError(f"sample_weight: expected an array, got {sample_weight!r}; pass X[...]")
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, target, dtype=np.float64)
        return table, target, self._weights(target, sample_weight)

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        """y as numbers."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _weights(self, y: NDArray[Any], sample_weight: Floats | None) -> Floats | None:
        return sample_weight

    def _or_own(self, offset: Any, exposure: Any) -> tuple[Any, Any]:
        """Offset and exposure of a call, else those that the estimator was made with."""
        own = getattr(self, "exposure", None)
        return self.offset if offset is None else offset, own if exposure is None else exposure

    def _weighted(self, weights: Floats | None, codes: NDArray[Any]) -> Floats | None:
        """Weights of further rows that are held out."""
        return weights

    def _held_out(self, given: Any, groups: Any, n: int, weights: Floats | None, seed: int) -> Any:
        """The engine's `validation`; None: no rows are held out."""
        if isinstance(given, tuple) and len(given) > 1:
            X, y, *rest = given
            codes = self._read_y(y)
            own = None if not rest or rest[0] is None else np.asarray(rest[0], dtype=np.float64)
            return self._read(X), codes, self._weighted(own, codes), *rest[1:]
        if given is not None:
            return given
        share = self.validation
        if not isinstance(share, str | int | float | None):
            raise TypeError(
                "validation: expected 'auto', 'last', a fraction or None; give an own split to "
                "fit(..., validation=)"
            )
        if share not in ("auto", None) and n < 2:
            raise ValueError(f"validation: of n_samples = {n} no row can be held out")
        if isinstance(share, str):
            if share not in ("auto", "last"):
                raise ValueError(
                    f"validation: expected 'auto', 'last', a fraction or None, got {share!r}; give "
                    "an own split to fit(..., validation=)"
                )
            if share == "last":
                return np.arange(n) >= np.floor((1.0 - HOLD_OUT) * n)
            present = n if weights is None else int(np.count_nonzero(weights))
            share = HOLD_OUT if present >= HOLD_OUT_FROM else None
        if share is None or groups is None:
            return share
        return ~_whole_groups(groups, 1, share, seed)[0]

    def _bags(self, given: Any, groups: Any, seed: int) -> tuple[Any, float | None]:
        """The engine's `bags` and the share that each leaves out."""
        share = HOLD_OUT if self.validation in ("auto", None) else self.validation
        if given is not None or isinstance(share, str):
            raise ValueError(
                "validation: every bag is watched by the rows that it leaves out; with bags= give "
                f"the share of them, or 'auto'; got {given if share is None else share!r}"
            )
        if groups is None:
            return self.bags, share
        if not is_whole(self.bags):
            raise ValueError("groups: the masks of bags= say which rows are together; omit them")
        return _whole_groups(groups, self.bags, share, seed), None

    def _n_iter_asked(self, watched: bool) -> Any:
        if isinstance(self.n_iter, str) and self.n_iter == "auto":
            return N_ITER_WATCHED if watched else N_ITER_BLIND
        return self.n_iter

    def _optimizer(self, watched: bool) -> Optimizer:
        """The optimizer; Plain for a Hybrid that has no rows to tell it when to switch, unless both
        were asked for (which the engine refuses)."""
        found = self.optimizer
        if isinstance(found, str):
            names = {name.lower(): make for name, make in OPTIMIZERS.items()}
            if found not in names:
                raise ValueError(
                    f"optimizer: expected {', '.join(map(repr, names))} or an object such as "
                    f"cb.Plain(rate=0.05), got {found!r}"
                )
            if found == "hybrid":
                if not watched:
                    return Plain()
                many = self.bags is not None or self.interactions is not None
                large = many and self._loss().name == "binomial"
                steps = (LARGE_RATE, SMALL_MOMENTUM) if large else (RATE, MOMENTUM)
                return Hybrid(*steps, then="training")
            return names[found]()
        if isinstance(found, Hybrid) and not watched and self.validation is not None:
            return Plain(rate=found.rate)
        return found  # type: ignore[no-any-return]

    @property
    def _excluded(self) -> list[str]:
        return [self.exclude] if isinstance(self.exclude, str) else list(self.exclude or ())

    def _learners(self, table: Table, weights: Floats | None, used: Sequence[Any]) -> list[Learner]:
        apart = [name for name in used if isinstance(name, str)]
        if weights is not None:
            table = table.take(weights > 0)  # a row of weight zero is absent
        return make_learners(table, self.learners, self._excluded, self.terms, apart)

    def _interactions(self) -> Any:
        wanted = check_interactions(self.interactions)
        for pair in wanted if isinstance(wanted, list) else ():
            for name in pair:
                if name in self._excluded:
                    raise ValueError(f"interactions: column {name!r} is excluded and gets no term")
        return wanted

    def _n_threads(self) -> int | None:
        return None if self.n_jobs is None else int(effective_n_jobs(self.n_jobs))

    # --- the fitted model -------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """What each chosen term adds to the score of every row.

        Returns
        -------
        array of shape (n_samples, n_terms), or the data frame asked for by `set_output`
            With `intercept_` and the offset it sums to the score. With more than two classes a
            column per term and class.
        """
        check_is_fitted(self)
        table, model = self._read(X), self.model_
        n_terms = sum(term.chosen for term in model.terms.values())
        out = np.empty((table.n_rows, n_terms, model.n_outputs))
        model._write_effects(table, out.transpose(1, 0, 2), self._n_threads())
        return out.reshape(table.n_rows, n_terms * model.n_outputs)

    def report(
        self,
        file: Any,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        *,
        rows: int = 0,
        title: str | None = None,
    ) -> None:
        """Writes the model as one HTML file to look at; see `cwboost.Model.report`.

        With X and y the report says how good the model is on these rows.
        """
        check_is_fitted(self)
        table = None if X is None else self._read(X)
        offset, exposure = self._or_own(offset, exposure) if X is not None else (offset, exposure)
        self.model_.report(
            file,
            table,
            y,
            weights=sample_weight,
            offset=offset,
            exposure=exposure,
            rows=rows,
            title=title,
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: the chosen terms."""
        check_is_fitted(self)
        _check_feature_names_in(self, input_features)
        names = [name for name, term in self.model_.terms.items() if term.chosen]
        if self.model_.n_outputs > 1:
            names = [f"{name}[{label}]" for name in names for label in self.model_.classes]
        return np.asarray(names, dtype=object)

    def plot(self, which: str | None = None, kind: str | None = None, **options: Any) -> Any:
        """Draws the model (extra `plot`); see `Model.plot`."""
        from cwboost.plotting.displays import plot

        return plot(self, which, kind, **options)

    def _repr_html_inner(self) -> str:
        """What notebooks show: the fitted model, then scikit-learn's diagram."""
        return self._face() + str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        out: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in out:
            out["text/html"] = self._face() + out["text/html"]
        return out

    def _face(self) -> str:
        return self.model_._repr_html_() if hasattr(self, "model_") else ""

    @property
    def n_iter_(self) -> int:
        """Iterations run (of bags the most); `model_.best_iteration` is the one that was kept."""
        bags = self.model_.bags
        return int(self.model_.n_iter) if bags is None else max(bags.n_iter)

    @property
    def intercept_(self) -> Any:
        """The score where all effects are zero: a number, or one per class."""
        return self.model_.intercept

    @property
    def feature_importances_(self) -> Floats:
        """(n_features,) share of every column in the fall of the risk.

        A term of two columns counts half for each. `model_.importance()` has the shares by term.
        """
        check_is_fitted(self)
        out = dict.fromkeys(self._column_names(), 0.0)
        for name, share in self.model_.importance().items():
            columns = self.model_.terms[name].columns
            for column in columns:
                out[column] += share / len(columns)
        shares = np.array(list(out.values()))
        return shares / shares.sum() if shares.sum() > 0 else shares


class _ProgressCallbacks:
    """Tells the callbacks of scikit-learn, if there are any, of a fit and its iterations."""

    callback: Callable[[], bool] | None = None  # after every iteration: whether to stop

    def __init__(self, estimator: Any, n_iter: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.estimator = estimator
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.rows = {"X": X, "y": y, "metadata": weights}
        self.context: Any = None
        if hasattr(estimator, "_init_callback_context"):
            known = is_whole(n_iter) and n_iter > 0
            self.context = estimator._init_callback_context(max_subtasks=n_iter if known else None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.rows)
            if getattr(estimator, "_skl_callbacks", None):
                self.callback = self.iteration

    def iteration(self) -> bool:
        """One more; there is no model until the last."""
        task = self.context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, **self.rows))

    def end(self) -> None:
        """The estimator is fitted."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes={}, **self.rows
            )


def _checked_y(estimator: Any, y: Any, y_numeric: bool = False) -> NDArray[Any]:
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    return np.asarray(_check_y(y, y_numeric=y_numeric, estimator=estimator))


def _whole_groups(groups: NDArray[np.int64], times: int, share: Any, seed: int) -> Any:
    """(times, n) marks rows, each time without a share of the groups, drawn at random."""
    n_groups = int(groups.max()) + 1
    held = math.ceil(share * n_groups) if is_number(share) and 0 < share < 1 else 1
    if held >= n_groups:
        raise ValueError(
            f"groups: there {'is one group' if n_groups == 1 else f'are {n_groups} groups'}; "
            f"without {share:g} of them none is left to train on"
        )
    inside = np.zeros((times, len(groups)), dtype=bool)
    split = GroupShuffleSplit(times, test_size=share, random_state=seed % 2**32)
    for marks, (rows, _) in zip(inside, split.split(groups, groups=groups), strict=True):
        marks[rows] = True
    return inside


def _is_table(X: Any) -> bool:
    structured = isinstance(X, np.ndarray) and X.dtype.names is not None
    marks = ("collect_schema", "__arrow_c_stream__", "column_names", "columns")
    frame = len(getattr(X, "shape", (0, 0))) == 2 and any(hasattr(X, mark) for mark in marks)
    return (
        structured or frame or isinstance(X, Table) or (isinstance(X, Mapping) and not issparse(X))
    )


def _read_frame(estimator: Any, X: Any, reset: bool) -> Table:
    """A table of named columns; their names are noted, or compared with those noted."""
    bare = hasattr(X, "set_axis") and not any(isinstance(name, str) for name in X.columns)
    table = read(X.set_axis([f"x{j}" for j in range(X.shape[1])], axis=1) if bare else X)
    names, known = list(table.names), getattr(estimator, "feature_names_in_", None)
    as_noted = known is not None and names == known.tolist()
    if bare or reset or not as_noted:  # else scikit-learn would look at the names once more
        if bare or _get_feature_names(X) is not None:  # it knows this kind of table
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        elif reset:
            estimator.n_features_in_ = len(names)
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif known is not None:
            raise ValueError(
                "The feature names should match those that were passed during fit: expected "
                f"{', '.join(known)}, got {', '.join(names)}"
            )
    if not table.n_rows or not table.names:
        lacking = "feature(s)" if table.n_rows else "sample(s)"
        shape = (table.n_rows, len(table.names))
        raise ValueError(f"Found array with 0 {lacking} (shape={shape}) while 1 is required.")
    return table


class CWBRegressor(RegressorMixin, _CWB):  # type: ignore[misc]
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
        if loss.name in ("binomial", "multinomial"):
            raise ValueError(f"loss: {loss.name} is for classes; use CWBClassifier")
        return loss

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        return np.asarray(_checked_y(self, y, y_numeric=True), dtype=np.float64)

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


class CWBClassifier(ClassifierMixin, _CWB):  # type: ignore[misc]
    """Componentwise boosting for classes: binomial loss for two, multinomial for more.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with `sample_weight`.
    offset : name of a column of X, optional
        Fixed part of the score. The column is then no feature. Arrays go to `fit`.
    terms, learners, exclude, optimizer, n_iter, bins, validation, patience, bags, warm_start, \
time_limit, random_state, n_jobs, verbose
        As of `CWBRegressor`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    model_, n_iter_, intercept_, feature_importances_, n_features_in_, feature_names_in_
        As of `CWBRegressor`.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(300, 2))
    >>> classifier = cb.CWBClassifier().fit(X, np.where(X[:, 0] > 0.5, "yes", "no"))
    >>> classifier.predict([[0.1, 0.5], [0.9, 0.5]])
    array(['no', 'yes'], dtype='<U3')
    """

    def __init__(
        self,
        *,
        class_weight: Any = None,
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
            validation=validation, patience=patience, offset=offset, bags=bags,
            warm_start=warm_start,
            time_limit=time_limit, random_state=random_state, n_jobs=n_jobs, verbose=verbose,
        )  # fmt: skip

    def _loss(self) -> Loss:
        return as_loss("binomial" if len(self.classes_) == 2 else "multinomial")

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        """Numbers of the classes, which are those of y if `reset`."""
        if isinstance(y, Labels):  # a class is looked up once, not in every row
            used = np.flatnonzero(np.bincount(y.codes))
            numbers = np.zeros(len(y.levels), np.int64)
            numbers[used] = self._numbers(np.array(y.levels, dtype=object)[used], reset)
            return numbers[y.codes]
        y = _checked_y(self, y)
        if reset:
            check_classification_targets(y)
        return self._numbers(y, reset)

    def _numbers(self, y: NDArray[Any], reset: bool) -> NDArray[Any]:
        if reset:
            self.classes_ = np.unique(y)
            if len(self.classes_) < 2:
                raise ValueError(f"y has one class only, {y[0]}; a classifier needs at least two")
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        known = self.classes_[codes] == y
        if not np.all(known):
            raise ValueError(f"y: class {y[~known][0]} does not occur in the training rows")
        return np.asarray(codes)

    def _weights(self, y: NDArray[Any], sample_weight: Floats | None) -> Floats | None:
        if self.class_weight is None:
            return sample_weight
        w = np.ones(len(y)) if sample_weight is None else sample_weight
        totals = np.bincount(y, w, minlength=len(self.classes_))  # so weights = repeated rows
        self._of_class = class_weights(self.class_weight, self.classes_, totals)
        return np.asarray(w * self._of_class[y])

    def _weighted(self, weights: Floats | None, codes: NDArray[Any]) -> Floats | None:
        """Weights of further rows: their classes weigh as in the training rows."""
        if self.class_weight is None:
            return weights
        of_row = self._of_class[codes]
        return np.asarray(of_row if weights is None else weights * of_row)

    def decision_function(self, X: Any, offset: Any = None) -> Floats:
        """(n_samples,) log odds of `classes_[1]`, or (n_samples, n_classes) scores."""
        check_is_fitted(self)
        return self.model_.predict(
            self._read(X), kind="score", offset=offset, n_threads=self._n_threads()
        )

    def predict_log_proba(self, X: Any, offset: Any = None) -> Floats:
        """(n_samples, n_classes) logarithms of the probabilities."""
        score = self.decision_function(X, offset)
        if score.ndim == 2:
            return np.asarray(log_softmax(score, axis=1))
        out = np.empty((len(score), 2))
        for k, signed in enumerate((score, -score)):
            np.negative(np.logaddexp(0.0, signed), out=out[:, k])
        return out

    def predict_proba(self, X: Any, offset: Any = None) -> Floats:
        """(n_samples, n_classes) probabilities."""
        found = self.predict_log_proba(X, offset)
        return np.exp(found, out=found)

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """(n_samples,) the most probable class."""
        score = self.decision_function(X, offset)
        best = score.argmax(axis=1) if score.ndim == 2 else (score > 0).astype(np.intp)
        return np.asarray(self.classes_[best])

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the rows whose class is predicted."""
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))
