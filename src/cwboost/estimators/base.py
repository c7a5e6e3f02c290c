"""What all estimators share: reading tables, the fit with its defaults, transform and plots.

The fitted model is `estimator.model_`. Does not know about bins, bases or boosting (see fitting).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from cwboost._utils.checks import is_whole
from cwboost.fitting.fit import fit
from cwboost.fitting.interactions import check_interactions
from cwboost.fitting.options import as_seed
from cwboost.frames.aligned import check_known, read_weights
from cwboost.frames.dataset import Dataset
from cwboost.frames.table import Floats, Labels, Table, read
from cwboost.losses import Loss
from cwboost.model.model import Model
from cwboost.model.path import FINAL_REASONS, StopReason
from cwboost.optimizers import Hybrid, Optimizer, as_optimizer
from cwboost.progress import Progress
from cwboost.selection.folds import group_numbers
from cwboost.terms.learners import Learner
from cwboost.terms.styles import make_learners

from .callbacks import CallbackSupportMixin, SklearnCallbacks, with_callbacks
from .input import draw_whole_groups, is_table, read_frame

HOLD_OUT_FROM = 1000  # rows; fewer are all needed for the fit
HOLD_OUT = 0.2  # share of the rows, or of the groups
N_ITER_WATCHED = 2000  # with validation rows to stop at the best (docs/defaults.md: all of these)
N_ITER_BLIND = 200  # without: diabetes and Friedman's data are best at 100-200 and lose at 1000
RATE, MOMENTUM = 0.3, 0.037  # of the hybrid that "hybrid" means; without validation rows Plain()
# With bags or pairs, and two classes, whose loss bends by 1/4 at the most: pairs need many steps,
# and bags average out what haste costs (docs/quality.md).
LARGE_RATE, SMALL_MOMENTUM = 4.0, 0.0034
# The fit ended by itself; further iterations cannot help.
FINAL = (StopReason.no_better_validation_risk, *FINAL_REASONS)


class CWBEstimator(CallbackSupportMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
        seed = as_seed(self.random_state)
        bags, together = self.bags, None if groups is None else group_numbers(groups, table)
        if bags is None:
            held = self._held_out(validation, together, len(codes), weights, seed)
        else:
            bags, held = self._bags(validation, together, seed)
        offset, exposure = self._or_own(offset, exposure)
        watched = held is not None or bags is not None
        asked = self._n_iter_asked(watched)
        stages = 1 if self.interactions is None else 2
        told = SklearnCallbacks(
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
        told = SklearnCallbacks(self, n, X, y, sample_weight)
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
        if is_table(X):
            table = read_frame(self, X, reset)
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
        return ~draw_whole_groups(groups, 1, share, seed)[0]

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
        return draw_whole_groups(groups, self.bags, share, seed), None

    def _n_iter_asked(self, watched: bool) -> Any:
        if isinstance(self.n_iter, str) and self.n_iter == "auto":
            return N_ITER_WATCHED if watched else N_ITER_BLIND
        return self.n_iter

    def _optimizer(self, watched: bool) -> Optimizer:
        """The optimizer; Plain for a Hybrid that has no rows to tell it when to switch, unless both
        were asked for (which the engine refuses)."""
        by_name = isinstance(self.optimizer, str)
        if by_name and self.optimizer.lower() == "hybrid" and watched:
            many = self.bags is not None or self.interactions is not None
            large = many and self._loss().large_steps
            steps = (LARGE_RATE, SMALL_MOMENTUM) if large else (RATE, MOMENTUM)
            return Hybrid(*steps, then="training")
        found = as_optimizer(self.optimizer)
        if not watched and (by_name or self.validation is not None):
            return found.without_validation()
        return found

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
        from cwboost.plotting.plot import plot

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
