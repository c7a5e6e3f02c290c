"""The fitted model: frozen, without rows. Its methods lead to everything that can be done with it.

Fields, path and predictions are in additive.py. Does not know how it was fitted (see
cwboost/fitting) or how it is drawn (see cwboost/plotting).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from .additive import AdditiveModel

if TYPE_CHECKING:
    from cwboost.uncertainty.intervals import Intervals


@dataclass(frozen=True, eq=False)
class Model(AdditiveModel):
    """A sum of terms: score = intercept + offset + effects of the columns.

    `fit` makes it. It is immutable and holds no rows.

    Attributes
    ----------
    terms : mapping of name to Term
        All terms that could be chosen; `term.chosen` says which were.
    n_iter : int
        Number of iterations of the fit.
    best_iteration : int
        The iteration whose coefficients the terms have: the one with the lowest validation risk,
        or the last if there are no validation rows.
    classes : tuple
        Classes of y for the binomial and multinomial losses.
    edits : tuple of Edit
        Changes made after the fit, in order.
    dropped : tuple of str
        Terms that an earlier fit had chosen and `deselect` removed.
    bags : Bags or None
        The fits whose average this model is. An average has no path: `n_iter` is 0, `risk` is the
        risk of all rows, and `validation_risk` scores every row by the bags that left it out.
    bands : Bands or None
        The bootstrap fits of `with_bands`, from which `band` makes bands around the effects.
    interactions : Ranking or None
        The ranking of pairs, if the fit chose some.
    polish : Polish or None
        The refit of the terms after boosting. The path, `at` and `extend` are about the boosted
        fit, which `boosted` returns.
    shares, sizes : array, Sizes or None
        What `importance` reads: the importance of the kinds "risk" and "size" on the fit's rows.
    suggestion : str or None
        What the estimator found that may predict better, in one line.
    """

    # --- other models -----------------------------------------------------------------------------

    def extend(
        self,
        n: int,
        table: Any,
        y: Any = None,
        *,
        weights: Any = None,
        offset: Any = None,
        exposure: Any = None,
        validation: Any = None,
        callback: Any = None,
        time_limit: float | None = None,
        n_threads: int | None = None,
        progress: Any = None,
    ) -> Model:
        """Return the model after n more iterations, given the training data again.

        The result equals a fit that was longer from the start (up to rounding, if only one of the
        two fits was long enough to switch to cross-products of terms). Roles that `fit` took from
        columns, and a validation fraction, need not be passed. After early stopping the path
        continues from its end; use `model.at(m).extend(...)` to continue from another iteration.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 1, 50)
        >>> short = cb.fit({"x": x}, x**2, n_iter=20)
        >>> long = short.extend(10, {"x": x}, x**2)
        >>> bool(np.array_equal(long.risk, cb.fit({"x": x}, x**2, n_iter=30).risk))
        True
        """
        from cwboost.fitting.fit import extend

        rows = {"weights": weights, "offset": offset, "exposure": exposure}
        run = {"callback": callback, "time_limit": time_limit, "progress": progress}
        return extend(self, n, table, y, **rows, validation=validation, n_threads=n_threads, **run)

    def edit(self, what: str, term: str, **parameters: Any) -> Model:
        """Return a model with one term changed by hand, recorded in its `edits` and `summary`.

        Parameters
        ----------
        what : "zero", "rounded", "smoothed", "monotone" or "set_level"
            A function of `cwboost.model.edits`, which documents its parameters.
        term : name of a term
        **parameters
            Parameters of that function.

        Examples
        --------
        >>> import cwboost as cb
        >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
        >>> edited = model.edit("set_level", "g", level="b", effect=0.25)
        >>> edited.predict({"g": ["a", "b"]}).round(2)
        array([0.  , 0.75])
        >>> edited.edits[0].words
        "'g': effect of level 'b' set from 0.5 to 0.25; scores move by up to 0.25"
        """
        from .edits import apply

        return apply(self, what, term, **parameters)

    # --- uncertainty of predictions ---------------------------------------------------------------

    def intervals(
        self,
        table: Any,
        y: Any = None,
        *,
        level: float = 0.9,
        kind: Literal["cv+", "split", "cqr", "quantiles", "bags"] = "cv+",
        folds: Any = None,
        weights: Any = None,
        offset: Any = None,
        exposure: Any = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        progress: Any = None,
    ) -> Intervals:
        """Return prediction intervals: a new y lies in its interval with probability `level`.

        `predict` of the result gives the ends for rows. The model is fitted again, with its own
        settings, to parts of the rows, and its errors on the other rows determine the width of the
        intervals. The coverage holds for any distribution of y, for new rows from the same source
        (docs/uncertainty.md).

        Parameters
        ----------
        table, y, weights, offset, exposure
            The training data, passed again as for `extend`. Validation rows are used as well.
        level : float
        kind : "cv+", "split", "cqr", "quantiles" or "bags"
            "cv+": about the same width everywhere, calibrated by folds. "split": one fit to three
            quarters of the rows, calibrated by the rest. "cqr": models of the lower and the upper
            quantile, calibrated by folds, wide where y varies much. "quantiles": the same models
            without calibration, which guarantee no coverage. "bags": for an average of bags,
            calibrated by the rows that each bag left out, without further fits.
        folds : int, array of shape (n,), or name of a column, optional
            For "cv+" and "cqr": the number of folds (10), or the fold of every row.
        random_state : int or numpy Generator
        n_threads, progress
            As in `fit`.

        Returns
        -------
        cwboost.uncertainty.intervals.Intervals

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> rng = np.random.default_rng(0)
        >>> table = {"x": rng.uniform(size=500)}
        >>> y = table["x"] * rng.normal(size=500)
        >>> ends = cb.fit(table, y).intervals(table, y, kind="cqr").predict({"x": [0.1, 0.9]})
        >>> bool(np.diff(ends["upper"] - ends["lower"])[0] > 1)  # wide where y varies
        True
        """
        from cwboost.uncertainty.intervals import intervals

        rows = {"weights": weights, "offset": offset, "exposure": exposure}
        run = {"random_state": random_state, "n_threads": n_threads, "progress": progress}
        return intervals(self, table, y, level=level, kind=kind, folds=folds, **rows, **run)

    # --- looking at it ----------------------------------------------------------------------------

    def effect(self, which: str, n: int = 200) -> dict[str, Any]:
        """Return the centred effect of a term, or of a column (the sum of its terms), as a table.

        Examples
        --------
        >>> import cwboost as cb
        >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
        >>> model.effect("g")["effect"].round(2)
        array([-0.5,  0.5])
        """
        from cwboost.explain.effects import effect

        return effect(self, which, n)

    def with_bands(
        self,
        table: Any,
        y: Any = None,
        *,
        n_boot: int = 100,
        longer: float | None = None,
        nested: bool = False,
        weights: Any = None,
        offset: Any = None,
        exposure: Any = None,
        random_state: Any = 0,
        n_threads: int | None = None,
        progress: Any = None,
    ) -> Model:
        """Return the model with bootstrap fits, from which bands around its effects are made.

        `band` returns the bands; plots and the report show them. A fit that stops where it predicts
        best is too smooth for bands with the stated coverage. The fits to the draws, and the fit to
        all rows in the centre of the band, therefore run `longer` times as many iterations
        (docs/uncertainty.md reports the measured coverage).

        Parameters
        ----------
        table, y, weights, offset, exposure
            The training data, passed again as for `extend`. Validation rows are used as well.
        n_boot : int
            Number of draws: as many rows as there are, with replacement, stratified by class.
        longer : float, optional
            Factor of the number of iterations, 8 by default. 1 gives narrower bands that are too
            optimistic where the curve bends. A small rate is raised (to 0.5 for the squared loss, 2
            for classes) with fewer iterations: the bands are the same and take less time. Not for a
            polished model, whose draws are boosted and polished as it was.
        nested : bool
            Choose the number of iterations in every draw, by the rows that are not in it. Always
            the case with Accelerated and Hybrid: momentum diverges if it runs for longer, so the
            draws are fitted by Plain with the same rate, which takes more iterations.
        random_state : int or numpy Generator
        n_threads, progress
            As in `fit`.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=400)
        >>> y = np.sin(6 * x) + rng.normal(0, 0.3, 400)
        >>> model = cb.fit({"x": x}, y).with_bands({"x": x}, y, n_boot=20)
        >>> band = model.band("x")
        >>> list(band), bool(np.all(band["lower"] < band["upper"]))
        (['x', 'effect', 'lower', 'upper'], True)
        """
        from cwboost.uncertainty.bootstrap_fits import with_bands

        draws: Any = {"n_boot": n_boot, "longer": longer, "nested": nested}
        rows = {"weights": weights, "offset": offset, "exposure": exposure}
        run = {"random_state": random_state, "n_threads": n_threads, "progress": progress}
        return with_bands(self, table, y, **draws, **rows, **run)

    def band(
        self,
        which: str,
        n: int = 200,
        *,
        level: float | None = None,
        kind: Literal["pointwise", "simultaneous"] = "pointwise",
        source: Literal["auto", "bayesian", "bootstrap", "bags"] = "auto",
    ) -> dict[str, Any]:
        """Return the effect of a term or column with a band around it, as a table.

        The band covers the true effect with probability `level` (0.95): at every single point
        ("pointwise"), or at all points at once ("simultaneous"). `source` says where it comes
        from: "bootstrap" if `with_bands` was called, "bayesian" for a polished model, from the
        posterior of its coefficients; "auto" takes the first that the model has. For an
        average of bags, "bags", the band extends from the lowest to the highest bag at
        every point and has no level: it shows how much the fits differ, not how far they are from
        the truth.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=400)
        >>> model = cb.fit({"x": x}, 3 * x + rng.normal(size=400), bags=4)
        >>> band = model.band("x", n=3)
        >>> bool(np.all((band["lower"] <= band["effect"]) & (band["effect"] <= band["upper"])))
        True
        """
        from cwboost.explain.bands import band

        return band(self, which, n, level, kind, source)

    def importance(
        self,
        kind: Literal["size", "risk", "path", "permutation", "drop"] = "size",
        *,
        by: Literal["column", "term"] = "column",
        table: Any = None,
        y: Any = None,
        weights: Any = None,
        offset: Any = None,
        exposure: Any = None,
        repeats: int | None = None,
        folds: Any = None,
        random_state: Any = None,
        n_threads: int | None = None,
        progress: Any = None,
    ) -> dict[str, Any]:
        """Return how important each column, or chosen term, is, the most important first.

        Parameters
        ----------
        kind : "size", "risk", "path", "permutation" or "drop"
            "size": the weighted mean absolute effect over the training rows, in units of the score;
            never negative. "risk" (also "integral"): the inner product of an effect with the
            residual, averaged along the straight line from the start to the model. Its sum is the
            fall of the risk; it can be negative if columns correlate. "path" (Plain only): the fall
            of the risk in each iteration, credited to the chosen term. "permutation": the rise of
            the risk of given rows if the column is shuffled. "drop": the rise of the risk of
            held-out rows if the model is fitted without the column, by cross-validation on given
            rows. docs/effects.md says which kind answers which question.
        by : "column" or "term"
            "column" adds up the terms of a column, for "size" before the absolute value. "size",
            "risk" and "path" list pairs of columns apart, such as "lon:lat"; "permutation" and
            "drop" take a column out of its pairs too. With several outputs a size is the mean over
            the outputs.
        table, y, weights, offset, exposure
            Rows as in `fit`; required for "permutation" and "drop". With rows, "size" (without y)
            and "risk" are computed on them, at their raw values.
        repeats : int, optional
            How often "permutation" shuffles each column (10).
        folds : optional
            The folds of "drop" (5), as in `cb.cv`.
        random_state : int or numpy Generator, optional
            For "permutation" and "drop" (0).
        n_threads, progress
            For "drop", as in `fit`.

        Returns
        -------
        A dict of numbers by name. For "permutation" and "drop" a table with the columns "column"
        (or "term"), "importance" and "standard error" (over repeats, or over folds).

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 1, 50)
        >>> model = cb.fit({"x": x}, 3 * x, n_iter=200)
        >>> round(model.importance()["x"], 2)  # the mean of |3 (x - 0.5)|
        0.77
        >>> bool(np.isclose(model.importance("risk")["x"], model.risk[0] - model.risk[-1]))
        True
        """
        from cwboost.explain.importance import importance

        rows = {"table": table, "y": y, "weights": weights, "offset": offset, "exposure": exposure}
        options = {
            "repeats": repeats,
            "folds": folds,
            "random_state": random_state,
            "n_threads": n_threads,
            "progress": progress,
        }
        return importance(self, kind, by, rows, options)

    def summary(self) -> str:
        """Return a summary of the model as text."""
        from cwboost.explain.summary import summary

        return summary(self)

    def plot(self, which: str | None = None, kind: str | None = None, **options: Any) -> Any:
        """Draw the model (extra `plot`); return the display with its data, `ax_` and `figure_`.

        Parameters
        ----------
        which : name of a column or term, optional
            Draw the effect of this column or term. By default all effects on one page.
        kind : "effects", "importance", "risk", "traces", "explanation" or "interactions", optional
            Another plot of the whole model. An explanation requires table= and row=.
        **options
            Options of the display: EffectDisplay, EffectsDisplay, ImportanceDisplay, RiskDisplay,
            TracesDisplay, ExplanationDisplay or InteractionsDisplay.

        Examples
        --------
        >>> import cwboost as cb
        >>> import matplotlib; matplotlib.use("agg")
        >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
        >>> model.plot("g").data["effect"].round(2)
        array([-0.5,  0.5])
        >>> import matplotlib.pyplot as plt; plt.close()
        """
        from cwboost.plotting.plot import plot

        return plot(self, which, kind, **options)

    def report(
        self,
        file: Any,
        table: Any = None,
        y: Any = None,
        *,
        weights: Any = None,
        offset: Any = None,
        exposure: Any = None,
        rows: int = 0,
        title: str | None = None,
    ) -> None:
        """Write a report as one HTML file: effects, path, predictions, settings.

        Parameters
        ----------
        file : path
        table : data frame, array or mapping, optional
            Rows on which the model is evaluated: metrics and calibration. Only the first `rows`
            of them are written to the file.
        y : array or name of a column, optional
            The response of these rows. By default the column that the model was fitted to.
        weights, offset, exposure : array or name of a column, optional
            As in `predict`.
        rows : int
            Number of rows that readers of the report can choose from.
        title : str, optional

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 1, 50)
        >>> cb.fit({"x": x}, x**2).report("report.html", {"x": x}, x**2)
        """
        from cwboost.report.page import report

        roles = {"weights": weights, "offset": offset, "exposure": exposure}
        report(self, file, table, y, **roles, rows=rows, title=title)

    def save(self, file: Any) -> None:
        """Write the model as JSON; `cb.load` reads it."""
        from cwboost.export.model_file import save

        save(self, file)

    def to_sql(self, **options: Any) -> str:
        """Return the model as a SQL query; see `cwboost.export.sql.to_sql` for the options."""
        from cwboost.export.sql import to_sql

        return to_sql(self, **options)

    def to_onnx(self, **options: Any) -> Any:
        """Return the model as an ONNX graph (extra `onnx`); see `cwboost.export.onnx.to_onnx`."""
        from cwboost.export.onnx import to_onnx

        return to_onnx(self, **options)

    def to_csv(self, folder: Any) -> None:
        """Write score tables as CSV files; see `cwboost.export.tables.to_csv`."""
        from cwboost.export.tables import to_csv

        to_csv(self, folder)

    def to_excel(self, file: Any) -> None:
        """Write score tables to Excel (extra `excel`); see `cwboost.export.tables.to_excel`."""
        from cwboost.export.tables import to_excel

        to_excel(self, file)

    def __reduce__(self) -> Any:  # mapping proxies cannot be pickled
        state = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        state |= {"terms": dict(self.terms), "columns": dict(self.columns)}
        return _restore, (state,)

    def _repr_html_(self) -> str:
        """Return the HTML that notebooks show."""
        from cwboost.plotting.notebook import html

        return html(self)

    def __repr__(self) -> str:
        chosen = sum(term.chosen for term in self.terms.values())
        where = f"iteration {self.best_iteration} of {self.n_iter}"
        return (
            f"<cwboost.Model: {self.loss.name} loss, {type(self.optimizer).__name__}, "
            f"{chosen} of {len(self.terms)} terms, {where if self.bags is None else self.stopped}"
            f"{', edited' if self.edits else ''}>"
        )


def _restore(state: dict[str, Any]) -> Model:
    proxies = {name: MappingProxyType(state[name]) for name in ("terms", "columns")}
    return Model(**(state | proxies))


def check_model(model: Any, method: str) -> None:
    """Raise if the argument of a function is not a model.

    Examples
    --------
    >>> check_model(3, "aic")
    Traceback (most recent call last):
    TypeError: aic: expected a Model, got int; an estimator has it as .model_
    """
    if not isinstance(model, Model):
        found = type(model).__name__
        raise TypeError(f"{method}: expected a Model, got {found}; an estimator has it as .model_")
