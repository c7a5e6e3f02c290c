"""The base class of all estimators: reads tables, fits with the defaults, transforms and plots.

The fitted model is `estimator.model_`. Does not know about bins, bases or boosting
(see cwboost/fitting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    check_is_fitted,
    validate_data,
)

from cwboost._utils.checks import check_flag, is_flag, is_number, is_one_of, is_whole
from cwboost._utils.cores import MAX_THREADS
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import describe_unknown, explain_unknown
from cwboost.explain.sizes import chosen_groups
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.fit import extend, fit
from cwboost.fitting.interactions import check_interactions
from cwboost.fitting.options import as_seed
from cwboost.fitting.stages import n_stages
from cwboost.frames.columns import Floats
from cwboost.frames.dataset import Dataset
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table
from cwboost.losses import Loss
from cwboost.model.model import Model
from cwboost.model.path import EARLY_REASONS, FINAL_REASONS
from cwboost.model.scoring import output_labels, write_effects
from cwboost.optimizers import Optimizer, as_optimizer
from cwboost.progress import Progress
from cwboost.selection.folds import group_numbers
from cwboost.terms.learners import Learner
from cwboost.terms.screening import target_block
from cwboost.terms.styles import make_learners, spike_candidates

from .defaults import (
    HOLD_OUT,
    N_ITER_WITH_VALIDATION,
    N_ITER_WITHOUT_VALIDATION,
    choose_hold_out,
    choose_tolerance,
    enough_to_hold_out,
    find_n_iter,
    n_present,
    named_optimizer,
    spikes_that_help,
    warn_of_cap,
    warn_of_no_validation,
)
from .input import (
    FitArguments,
    as_array,
    check_weights,
    draw_whole_groups,
    is_table,
    read_frame,
    read_roles,
)
from .sklearn_callbacks import CallbackSupportMixin, SklearnCallbacks, with_callbacks

# The fit ended by itself; further iterations cannot help.
FINAL = (*EARLY_REASONS, *FINAL_REASONS)


class CWBEstimator(CallbackSupportMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The common part of CWBRegressor and CWBClassifier."""

    _n_iter_requested: int  # iterations that were requested from the last fit
    model_: Model
    progress: Progress | None = None  # not a parameter; the command line sets it
    __metadata_request__fit = {"groups": True}  # noqa: RUF012 (routed as to scikit-learn's splitters)

    def __init__(self, **parameters: Any) -> None:
        for name, value in parameters.items():
            setattr(self, name, value)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as for all estimators of scikit-learn."""
        known = self._get_param_names()
        for name in params:
            own, _, nested = name.partition("__")
            if own not in known:
                raise ValueError(describe_unknown(type(self).__name__, own, known))
            value = params.get(own, getattr(self, own))
            if nested and not hasattr(value, "set_params"):
                raise ValueError(
                    f"{name}: {own} is {quote(value)}, which has no parameters; pass an object, "
                    "such as optimizer=cb.Plain(rate=0.1)"
                )
        super().set_params(**params)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    # --- the fit ----------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    @explain_unknown
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
        """Fit the model.

        Parameters
        ----------
        X : table or array of shape (n_samples, n_features), or a Dataset
            Columns of numbers, text, categories or dates; cells may be missing. A Dataset may hold
            the other arguments: `fit(dataset)`.
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
        offset, exposure : array of shape (n_samples,) or name of a column, optional
            A fixed part of the score; exposure is exp(offset), for losses with a log link. A model
            fitted with arrays needs them in `predict` as well. With more than two classes the
            offset has the shape (n_samples, n_classes).
        validation : mask of shape (n_samples,), or (X, y[, sample_weight[, offset]]), optional
            The validation rows: a mask of rows to hold out, or further rows. By default a random
            share is held out.
        groups : array of shape (n_samples,) or name of a column, optional
            Rows of a group are held out together. The column is then not a feature.
        checkpoint : path, optional
            A file that stores the state of the fit. If it exists, the fit resumes from it; see
            `cwboost.fit`.
        """
        rows = read_roles(self, FitArguments(X, y, sample_weight, offset, exposure))
        self._check_warm_start(checkpoint)
        if self.warm_start and hasattr(self, "model_"):
            return self._continue_fit(rows, validation, groups)
        table, codes, weights = self._read_rows(rows.X, rows.y, rows.sample_weight, reset=True)
        seed, bags = as_seed(self.random_state), None
        group_of = None if groups is None else group_numbers(groups, table)
        if self.bags is None:
            enough = enough_to_hold_out(codes, weights, self._loss())
            held_out = self._choose_validation(
                validation, group_of, len(codes), seed, enough=enough
            )
        else:
            bags, held_out = self._choose_bags(validation, group_of, seed)
        has_validation = held_out is not None or bags is not None
        offset, exposure = self._with_defaults(rows.offset, rows.exposure)
        not_features = (offset, exposure, *self._with_defaults(None, None), held_out, groups)
        style = self._style_arguments(table, weights, not_features, codes)
        problem = {
            "table": table, "y": codes, "learners": make_learners(*style),
            "loss": self._loss(), "optimizer": self._optimizer(has_validation),
            "bins": self.bins, "weights": weights, "offset": offset, "exposure": exposure,
            "random_state": seed, "n_threads": self._n_threads(),
        }  # fmt: skip
        if has_validation and (spikes := spike_candidates(*style)):
            share = held_out if bags is None else HOLD_OUT
            problem["learners"] += spikes_that_help(problem, spikes, share)
        n_iter = self._choose_n_iter(has_validation)
        if not has_validation:
            asked = self._asked(True)
            EarlyStopping.of(*asked, self._loss(), self._codes())  # checks
            warn_of_no_validation(self.patience, None if self._n_iter_is_auto else self.metric)
            n_iter = self._find_n_iter(problem, group_of) or n_iter
        callbacks = self._begin_callbacks(
            n_iter, rows, stages=n_stages(check_interactions(self.interactions))
        )
        patience, metric = self._asked(has_validation)
        try:
            model = fit(
                **problem,
                n_iter=n_iter,
                validation=held_out,
                patience=patience,
                metric=metric,
                callback=callbacks.callback if bags is None else None,
                time_limit=self.time_limit,
                bags=bags,
                progress=self._choose_progress(),
                interactions=self._check_interactions(),
                checkpoint=checkpoint,
                polish=self._polish(),
                tolerance=self._choose_tolerance(n_present(len(codes), weights)),
            )
        except Interrupted as stop:
            raise stop.with_model(self._label_classes(stop.model)) from None
        self._store_model(self._with_suggestion(model, problem, held_out), n_iter)
        if self._n_iter_is_auto and has_validation:
            warn_of_cap(model)
        callbacks.end()
        return self

    def _with_suggestion(self, model: Model, problem: dict[str, Any], held_out: Any) -> Model:
        """Return the model, with a suggestion if another loss would be clearly better."""
        del problem, held_out
        return model

    def _for_labels(self, metric: Any) -> Any:
        """Return the `metric` of `cwboost.fit`, which gets y as codes."""
        return metric

    def _asked(self, has_validation: bool) -> tuple[Any, Any]:
        """Return the `patience` and `metric` of `cwboost.fit`; without validation rows neither
        rules nor metrics."""
        if has_validation:
            return self.patience, self._for_labels(self.metric)
        return (self.patience if is_whole(self.patience) else None), None

    def _codes(self) -> tuple[Any, ...]:
        """Return the classes as `cwboost.fit` gets them."""
        return ()

    def _polish(self) -> Any:
        """Return the `polish` of `cwboost.fit`."""
        return self.polish

    def _check_warm_start(self, checkpoint: Any) -> None:
        """Raise if a warm start cannot be combined with the other arguments and parameters."""
        check_flag("warm_start", self.warm_start)
        if checkpoint is not None and self.warm_start:
            raise ValueError("checkpoint= and warm_start=True are mutually exclusive")
        if self.bags is not None and self.warm_start:
            raise ValueError("warm_start: an average of bags cannot be continued; set bags=None")

    def _begin_callbacks(
        self, n_iter: Any, rows: FitArguments, stages: int = 1
    ) -> SklearnCallbacks:
        """Report the begin of a fit with n_iter iterations in each stage."""
        total = stages * n_iter if is_whole(n_iter) else n_iter
        return SklearnCallbacks(self, total, rows.X, rows.y, rows.sample_weight)

    def _continue_fit(self, rows: FitArguments, validation: Any, groups: Any) -> Self:
        """Run the iterations by which `n_iter` exceeds the last fit (warm start)."""
        self._check_unchanged()
        has_validation = self.model_.settings.validation != "none"
        requested = self._choose_n_iter(has_validation)
        if self._n_iter_is_auto and not has_validation:
            requested = self._n_iter_requested  # cross-validation has chosen it
        if requested < self._n_iter_requested:
            raise ValueError(
                f"warm_start: n_iter = {requested} is less than the {self._n_iter_requested} of "
                "the last fit; raise it, or set warm_start=False"
            )
        # A fit with interactions has stages of n_iter iterations each.
        done = self.model_.n_iter if self.interactions is None else self._n_iter_requested
        more = 0 if self.model_.stopped in FINAL else max(requested - done, 0)
        before = self.model_
        # Also for more = 0, because it checks that the rows are the same.
        self.extend(more, *rows, validation, groups)
        if more == 0:
            self.model_ = before
        self._n_iter_requested = requested
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
        """Run n more iterations. Pass the arguments of `fit` again."""
        check_is_fitted(self)
        rows = read_roles(self, FitArguments(X, y, sample_weight, offset, exposure))
        old = self.model_
        table, codes, weights = self._read_rows(rows.X, rows.y, rows.sample_weight)
        if old.settings.validation == "rows":
            group_of = None if groups is None else group_numbers(groups, table)
            validation = self._choose_validation(
                validation, group_of, len(codes), old.settings.seed, enough=True
            )
        offset, exposure = self._with_defaults(rows.offset, rows.exposure)
        callbacks = self._begin_callbacks(n, rows)
        coded = replace(old, classes=tuple(range(len(old.classes))))  # as y is coded here
        has_validation = old.settings.validation != "none"
        try:
            model = extend(
                coded,
                n,
                table,
                codes,
                weights=weights,
                offset=offset,
                exposure=exposure,
                validation=validation,
                callback=callbacks.callback,
                time_limit=self.time_limit,
                n_threads=self._n_threads(),
                progress=self._choose_progress(),
                asked=self._asked(has_validation) if has_validation else None,
            )
        except Interrupted as stop:
            raise stop.with_model(self._label_classes(stop.model)) from None
        self._store_model(model, model.n_iter)
        callbacks.end()
        return self

    def _choose_progress(self) -> Any:
        """Return the `progress` of `cwboost.fit`. Callbacks of scikit-learn have their own bars."""
        if self.progress is not None:
            return self.progress
        if self.verbose is None:
            return False if getattr(self, "_skl_callbacks", None) else None
        if not (is_flag(self.verbose) or is_whole(self.verbose)):
            raise ValueError(f"verbose: expected None, True or False, got {quote(self.verbose)}")
        return bool(self.verbose)

    def _label_classes(self, model: Model) -> Model:
        """Return the model with the labels of its classes instead of their codes."""
        return replace(model, classes=tuple(self.classes_.tolist() if model.classes else ()))

    def _store_model(self, model: Model, n_iter: int) -> None:
        """Store the model of a fit for which n_iter iterations were requested."""
        self.model_ = self._label_classes(model)
        self._n_iter_requested = n_iter
        self._fitted_settings = self._settings_text()

    def _settings_text(self) -> str:
        """Return the parameters that must not change between warm starts, as text."""
        free_to_change = (
            "n_iter",
            "n_jobs",
            "time_limit",
            "warm_start",
            "patience",
            "random_state",
            "verbose",
        )
        own = self.get_params(deep=False)
        return repr({name: value for name, value in own.items() if name not in free_to_change})

    def _check_unchanged(self) -> None:
        """Raise if parameters that shape the model have changed since the last fit."""
        if self._settings_text() != self._fitted_settings:
            raise ValueError(
                "warm_start continues the last fit, but parameters other than n_iter have changed "
                "since then; set warm_start=False to fit a new model"
            )

    # --- the arguments of cwboost.fit -------------------------------------------------------------

    def as_table(self, X: Any, reset: bool = False) -> Table:
        """Return X as a table, checked as scikit-learn does, with the column names of the fit.

        Plots of an estimator read their rows with it.
        """
        if isinstance(X, Dataset):
            X = X.table.select(self._column_names())
        if is_table(X):
            table = read_frame(self, X, reset)
        else:
            X = as_array(X)
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

    def _read_rows(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = False
    ) -> tuple[Table, NDArray[Any], Floats | None]:
        """Return the table, y as numbers, and the weights of the rows (None if all are 1)."""
        table = self.as_table(X, reset)
        target = self._read_y(y, reset)
        if len(target) != table.n_rows:
            raise ValueError(f"y has {len(target)} rows, X has {table.n_rows}")
        return table, *self._weigh(target, check_weights(sample_weight, target), reset)

    def _read_y(self, y: Any, reset: bool = False) -> NDArray[Any]:
        """Return y as numbers."""
        raise NotImplementedError

    def _loss(self) -> Loss:
        """Return the loss of the fit."""
        raise NotImplementedError

    def _weigh(
        self, y: NDArray[Any], sample_weight: Floats | None, reset: bool = False
    ) -> tuple[NDArray[Any], Floats | None]:
        """Return what `_read_y` returned as the fit takes it, and the weights of the rows."""
        del reset
        return y, sample_weight

    def _with_defaults(self, offset: Any, exposure: Any) -> tuple[Any, Any]:
        """Return the offset and exposure of a call, or those of the estimator."""
        own = getattr(self, "exposure", None)
        return self.offset if offset is None else offset, own if exposure is None else exposure

    def _choose_validation(
        self, given: Any, groups: Any, n: int, seed: int, *, enough: bool
    ) -> Any:
        """Return the `validation` of `cwboost.fit`; None if no rows are held out.

        `given` is the argument of this estimator's `fit`, `groups` the number of every row's group,
        `enough` whether there are enough rows to hold some out.
        """
        if isinstance(given, tuple) and len(given) > 1:
            X, y, *rest = given
            own = None if not rest or rest[0] is None else np.asarray(rest[0], dtype=np.float64)
            return self.as_table(X), *self._weigh(self._read_y(y), own), *rest[1:]
        if given is not None:
            return given
        held_out = choose_hold_out(self.validation, n, enough=enough)
        if groups is None or held_out is None or isinstance(held_out, np.ndarray):
            return held_out
        return ~draw_whole_groups(groups, 1, held_out, seed)[0]

    def _choose_bags(self, given: Any, groups: Any, seed: int) -> tuple[Any, float | None]:
        """Return the `bags` of `cwboost.fit` and the share of the rows that each leaves out."""
        chosen = self.validation
        share = HOLD_OUT if chosen is None or is_one_of(chosen, ("auto",)) else chosen
        if given is not None or not is_number(share):
            raise ValueError(
                "validation: the rows that a bag leaves out are its validation rows; with bags= "
                f"expected their share or 'auto', got {quote(given if share is None else share)}"
            )
        if groups is None:
            return self.bags, share
        if not is_whole(self.bags):
            raise ValueError("groups= cannot be used with masks in bags=; keep groups in the masks")
        return draw_whole_groups(groups, self.bags, share, seed), None

    @property
    def _n_iter_is_auto(self) -> bool:
        return isinstance(self.n_iter, str) and self.n_iter == "auto"

    def _choose_n_iter(self, has_validation: bool) -> Any:
        """Return the largest number of iterations."""
        if self._n_iter_is_auto:
            return N_ITER_WITH_VALIDATION if has_validation else N_ITER_WITHOUT_VALIDATION
        return self.n_iter

    def _find_n_iter(self, problem: dict[str, Any], groups: Any) -> int | None:
        """Return the iterations of a fit without validation rows, if the rows decide them."""
        if not self._n_iter_is_auto:
            return None
        metric = self._for_labels(self.metric)
        return find_n_iter(**problem, groups=groups, metric=metric)

    def _choose_tolerance(self, n: int) -> float:
        """Return the `tolerance` of `cwboost.fit` for n rows."""
        if not self._n_iter_is_auto or self.bags is not None:
            return 0.0
        pairs = self.interactions is not None
        return choose_tolerance(n, self.polish, self._loss(), pairs=pairs)

    def _optimizer(self, has_validation: bool) -> Optimizer:
        """Return the optimizer. One that needs validation rows is replaced if there are none,
        unless the user asked for both (`cwboost.fit` then raises).
        """
        if isinstance(self.optimizer, str):
            return named_optimizer(self.optimizer, has_validation=has_validation)
        optimizer = as_optimizer(self.optimizer)
        if has_validation or self.validation is None:
            return optimizer
        return optimizer.without_validation()

    @property
    def _excluded(self) -> list[str]:
        """Columns that get no term."""
        if self.exclude is None:
            return []
        names = [self.exclude] if isinstance(self.exclude, str) else self.exclude
        is_array = isinstance(names, np.ndarray) and names.ndim == 1
        is_list = is_array or isinstance(names, Sequence | set | frozenset)
        if not is_list or not all(isinstance(name, str) for name in names):
            raise TypeError(
                f"exclude: expected the name of a column or a list of names, got {quote(names)}"
            )
        return list(names)

    def _learners(
        self,
        table: Table,
        weights: Floats | None,
        not_features: Sequence[Any],
        y: NDArray[Any] | None = None,
    ) -> list[Learner]:
        """Return the learners; column names in `not_features` have another role.

        With y, it decides which columns with many levels get a Category.
        """
        return make_learners(*self._style_arguments(table, weights, not_features, y))

    def _style_arguments(
        self, table: Table, weights: Floats | None, not_features: Sequence[Any], y: Any
    ) -> tuple[Any, ...]:
        """Return the arguments of `make_learners`; a row of weight zero counts as absent."""
        other_roles = [name for name in not_features if isinstance(name, str)]
        target = None if y is None else target_block(y, len(getattr(self, "classes_", ())))
        if weights is not None:
            table = table.take(weights > 0)
            target = None if target is None else target[weights > 0]
        return table, self.learners, self._excluded, self.terms, other_roles, target

    def _check_interactions(self) -> Any:
        """Return the `interactions` of `cwboost.fit`; raise if they name an excluded column."""
        wanted = check_interactions(self.interactions)
        for pair in wanted if isinstance(wanted, list) else ():
            for name in pair:
                if name in self._excluded:
                    raise ValueError(f"interactions: column {quote(name)} is in exclude=")
        return wanted

    def _n_threads(self) -> int | None:
        """Return the `n_threads` of `cwboost.fit`."""
        if self.n_jobs is None:
            return None
        if not is_whole(self.n_jobs) or self.n_jobs == 0 or self.n_jobs > MAX_THREADS:
            raise ValueError(
                f"n_jobs: expected None, a number of threads up to {MAX_THREADS}, or a negative "
                f"number such as -1 for all cores; got {quote(self.n_jobs)}"
            )
        return int(effective_n_jobs(self.n_jobs))

    # --- the fitted model -------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return what each chosen term adds to the score of every row.

        Returns
        -------
        array of shape (n_samples, n_terms), or the data frame requested by `set_output`
            Its columns, `intercept_` and the offset sum to the score. With more than two classes
            there is a column for each term and class.
        """
        check_is_fitted(self)
        table, model = self.as_table(X), self.model_
        n_terms = sum(term.chosen for term in model.terms.values())
        out = np.empty((table.n_rows, n_terms, model.n_outputs))
        write_effects(model, table, out.transpose(1, 0, 2), self._n_threads())
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
        """Write the model as one HTML file; see `cwboost.Model.report`.

        With X and y the report also shows how good the model is on these rows.
        """
        check_is_fitted(self)
        table = None if X is None else self.as_table(X)
        if X is not None:
            offset, exposure = self._with_defaults(offset, exposure)
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
        """Return the names of the columns of `transform`: the chosen terms."""
        check_is_fitted(self)
        try:
            given = None if input_features is None else np.asarray(input_features, dtype=object)
        except (TypeError, ValueError):  # an object with rows that NumPy cannot read
            raise TypeError(
                f"input_features: expected names of columns, got {quote(input_features)}"
            ) from None
        _check_feature_names_in(self, given)
        names = [name for name, term in self.model_.terms.items() if term.chosen]
        if self.model_.n_outputs > 1:
            labels = output_labels(self.model_)
            names = [f"{name}[{label}]" for name in names for label in labels]
        return np.asarray(names, dtype=object)

    def plot(self, which: str | None = None, kind: str | None = None, **options: Any) -> Any:
        """Draw the model (extra `plot`); see `Model.plot`."""
        from cwboost.plotting.plot import plot

        return plot(self, which, kind, **options)

    def _repr_html_inner(self) -> str:
        """Return what notebooks show: the fitted model, then scikit-learn's diagram."""
        return self._model_html() + str(super()._repr_html_inner())

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        out: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in out:
            out["text/html"] = self._model_html() + out["text/html"]
        return out

    def _model_html(self) -> str:
        return self.model_._repr_html_() if hasattr(self, "model_") else ""

    @property
    def n_iter_(self) -> int:
        """Iterations run (the most of any bag); `model_.best_iteration` is the one kept."""
        bags = self.model_.bags
        return int(self.model_.n_iter) if bags is None else max(bags.n_iter)

    @property
    def intercept_(self) -> Any:
        """The score where all effects are zero: a number, or one number per class."""
        return self.model_.intercept

    @property
    def feature_importances_(self) -> Floats:
        """(n_features,) size of the effect of every column, normalised to sum one.

        The size is the mean absolute effect over the training rows, the terms of a column added up
        (`model_.importance()`). The effect of a pair of columns counts half for each.
        """
        check_is_fitted(self)
        out = dict.fromkeys(self._column_names(), 0.0)
        found = self.model_.importance()
        for group, members in chosen_groups(self.model_).items():
            columns = members[0].columns
            for column in columns:
                out[column] += found[group] / len(columns)
        shares = np.array(list(out.values()))
        return shares / shares.sum() if shares.sum() > 0 else shares
