"""Prediction intervals, Model.intervals: ends between which a new y lies with a given probability.

The intervals come from quantile models or from conformal calibration with held-out rows ("split"),
with folds (CV+, Barber et al. 2021; with quantile models conformalised quantile regression, Romano
et al. 2019), or with the rows that bags left out. Bands around effects are in bootstrap_fits.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._core import SLOT_F
from cwboost._utils.checks import check_one_of, is_number, is_whole
from cwboost._utils.cores import check_threads, threads_for
from cwboost._utils.text import quote
from cwboost._utils.user_warnings import warn_user
from cwboost.fitting.bags import draw_bags
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.input_data import FitInput, Split, hold_out
from cwboost.fitting.options import as_seed
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.polish.polish import polish_like
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import bin_for_refits
from cwboost.fitting.scores import score_batch
from cwboost.frames.columns import Floats
from cwboost.frames.read_frames import read
from cwboost.frames.result_table import ResultTable
from cwboost.losses import Quantile, risk
from cwboost.model.model import Model
from cwboost.model.path_checks import check_not_edited
from cwboost.optimizers import Plain
from cwboost.progress import as_progress
from cwboost.selection.folds import read_groups

Marks = NDArray[np.bool_]
Kind = Literal["cv+", "split", "cqr", "quantiles", "bags"]
KINDS = ("cv+", "split", "cqr", "quantiles", "bags")
KINDS_WITH_FOLDS = ("cv+", "cqr")
N_FOLDS = 10  # by default
VALIDATION = 0.2  # default share of validation rows for early stopping
CALIBRATION = 0.25  # share of the rows that "split" calibrates with
QUANTILE_ITER, PATIENCE = 2000, 50  # limits of quantile models, which are stopped early
HALVINGS = 64  # bisection steps for an end of an interval


@dataclass(frozen=True, eq=False)
class CalibratedModels:
    """The models of both ends, and how far off they were for rows that they were not fitted to."""

    lower: Model
    upper: Model  # may be the same model
    # Sorted distances by which y lay outside of the nearer end, negative if it lay inside.
    scores: Floats = field(repr=False)
    cumulative_weights: Floats = field(repr=False)  # the weight of the rows up to each score


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Prediction intervals, made by `Model.intervals`.

    Attributes
    ----------
    kind : "cv+", "split", "cqr", "quantiles" or "bags"
    level : float
        The share of new rows whose y should lie inside.
    members : tuple of CalibratedModels
        One, or one per fold.
    """

    kind: Kind
    level: float
    members: tuple[CalibratedModels, ...]
    positive: bool = False  # y is never negative, so the lower end is not either

    def predict(
        self, table: Any, *, offset: Any = None, exposure: Any = None, n_threads: int | None = None
    ) -> ResultTable:
        """Return the ends for every row of a table, as columns lower and upper.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=500)
        >>> y = np.sin(6 * x) + rng.normal(0, 0.3, 500)
        >>> intervals = cb.fit({"x": x}, y).intervals({"x": x}, y, level=0.9)
        >>> ends = intervals.predict({"x": [0.25, 0.75]})
        >>> (ends["upper"] - ends["lower"]).round()
        array([1., 1.])
        """
        rows = read(table)

        def predict(model: Model) -> Floats:
            return model.predict(rows, offset=offset, exposure=exposure, n_threads=n_threads)

        ends = np.array([_predict_ends(m.lower, m.upper, predict) for m in self.members])
        lower = -self._end(-ends[:, 0])
        upper = self._end(ends[:, 1])
        if self.positive:
            lower = np.maximum(lower, 0.0)
        return ResultTable(lower=np.minimum(lower, upper), upper=np.maximum(lower, upper))

    def __repr__(self) -> str:
        n = sum(len(m.scores) for m in self.members)
        parts = [f"{100 * self.level:g}% of new y by {self.kind}"]
        if self.kind in KINDS_WITH_FOLDS:
            parts.append(f"{len(self.members)} folds")
        if n:
            beyond = float(self._end(np.zeros((len(self.members), 1)))[0])
            moved = "quantiles" if self.kind == "cqr" else "predictions"
            parts.append(f"calibrated by {n:,} rows: {moved} ± {beyond:.3g}")
        return f"<cwboost.Intervals: {', '.join(parts)}>"

    @property
    def calibration_weight(self) -> float:
        """The number of rows that calibrate the intervals, or their weight."""
        return sum(float(m.cumulative_weights[-1]) for m in self.members if len(m.scores))

    @property
    def too_few_rows(self) -> bool:
        """Whether the level needs more calibration rows than there are."""
        total = self.calibration_weight
        return total > 0.0 and self.level * (total + 1.0) > total * (1 + 1e-12)

    def _end(self, shift: Floats) -> Floats:
        """(n,) the smallest t such that the calibration scores at or below t have enough weight.

        The scores of member k are shifted by its predictions, shift[k].
        """
        members = self.members
        if len(members[0].scores) == 0:  # not calibrated
            return np.asarray(shift[0])
        if self.too_few_rows:
            return np.full(shift.shape[1], np.inf)
        need = self.level * (self.calibration_weight + 1.0)
        low = np.min([s + m.scores[0] for s, m in zip(shift, members, strict=True)], axis=0)
        high = np.max([s + m.scores[-1] for s, m in zip(shift, members, strict=True)], axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            weight = np.zeros(shift.shape[1])
            for s, m in zip(shift, members, strict=True):
                place = np.searchsorted(m.scores, middle - s, side="right")
                weight += np.append(0.0, m.cumulative_weights)[place]
            enough = weight >= need * (1 - 1e-12)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high)


def _predict_ends(lower: Model, upper: Model, predict: Callable[[Model], Floats]) -> Floats:
    """(2, n) predictions of both models, swapped where they cross."""
    first = predict(lower)
    second = first if upper is lower else predict(upper)
    return np.array([np.minimum(first, second), np.maximum(first, second)])


# --- fitting and calibration ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IntervalFits:
    """Fits and calibrates models on parts of the training data."""

    model: Model
    binned: PreparedRows
    seed: int

    def fit(self, inside: Marks, tau: float | None, halt: Halt) -> Model:
        """Fit a model to some rows: like the given model, or for the quantile tau."""
        model, binned = self.model, self.binned
        optimizer, n_iter = model.optimizer, model.n_iter
        stops_early = model.settings.validation != "none"
        if tau is not None:
            binned = replace(binned, data=replace(binned.data, loss=Quantile(tau)))
            optimizer = Plain() if optimizer.has_momentum else optimizer
            n_iter, stops_early = QUANTILE_ITER, True
        elif stops_early:
            n_iter *= 2  # it may need more iterations; patience ends it
        w, held = np.where(inside, binned.data.weights, 0.0), None
        if stops_early:
            share = model.settings.fraction or VALIDATION
            marks = hold_out(share, w, None, self.seed, "intervals")
            held, w = np.where(marks, w, 0.0), np.where(marks, 0.0, w)
        split = Split(w, held, w if held is None else w + held)
        problem = FitProblem.pose(binned, split, optimizer)
        stopping = EarlyStopping(PATIENCE) if tau is not None else EarlyStopping.again(model)
        fitted = problem.fit(n_iter, stopping=stopping, halt=halt)
        return fitted if tau is not None else polish_like(problem, fitted, model)

    def fit_and_calibrate(
        self, inside: Marks, taus: Sequence[float | None], halt: Halt
    ) -> CalibratedModels:
        """Fit models to some rows and calibrate them with all others."""
        models = [self.fit(inside, tau, halt) for tau in taus]
        lower, upper = models[0], models[-1]
        ends = _predict_ends(lower, upper, self.predict)
        return self.calibrate(lower, upper, ends, ~inside)

    def calibrate(self, lower: Model, upper: Model, ends: Floats, rows: Marks) -> CalibratedModels:
        """Return models with the scores of some rows, given the predicted ends (2, n) of all."""
        data = self.binned.data
        distances = np.maximum(ends[0] - data.y, data.y - ends[1])[rows]
        order = np.argsort(distances, kind="stable")
        weights = np.cumsum(data.weights[rows][order])
        return CalibratedModels(lower, upper, distances[order], weights)

    def predict(self, model: Model) -> Floats:
        """(n,) responses of all rows, at their values rather than their bins."""
        return model.loss.response(self.scores(model))

    def scores(self, model: Model) -> Floats:
        """(n, 1) scores of all rows, offsets included."""
        data = self.binned.data
        none = None if model.settings.exposure is None else 1.0
        found = model.predict(data.table, kind="score", offset=0.0, exposure=none)
        return found[:, None] + data.offset


def intervals(
    model: Model,
    table: Any,
    y: Any,
    *,
    level: float,
    kind: Kind,
    folds: Any,
    weights: Any,
    offset: Any,
    exposure: Any,
    random_state: Any,
    n_threads: int | None,
    progress: Any,
) -> Intervals:
    """See Model.intervals."""
    _check(model, level, kind, folds, n_threads)
    bar, seed = as_progress(progress), as_seed(random_state)
    fit_input = FitInput.of(table, y, weights, offset=offset, exposure=exposure)
    binned = bin_for_refits(model, fit_input, "intervals", n_threads)
    fits = IntervalFits(model, binned, seed)
    if kind == "bags":
        bagged = (_calibrate_bags(fits),)
        return _warn_if_infinite(Intervals(kind, float(level), bagged, model.loss.log_link))
    taus: list[float | None] = [None]
    if kind in ("cqr", "quantiles"):
        if binned.data.offset.any():
            raise ValueError(
                f"kind={quote(kind)}: quantile models cannot have an offset; use 'cv+'"
            )
        taus = [(1 - level) / 2, (1 + level) / 2]

    def job(inside: Marks) -> Callable[[Halt], CalibratedModels]:
        return lambda halt: fits.fit_and_calibrate(inside, taus, halt)

    jobs = [job(inside) for inside in _training_rows(fits, kind, folds)]
    members = run_all(jobs, threads_for(n_threads), bar, "fold")
    found = Intervals(kind, float(level), tuple(members), model.loss.log_link)
    return _warn_if_infinite(found)


def _warn_if_infinite(found: Intervals) -> Intervals:
    """Return the intervals; warn if there are too few rows for finite ends."""
    if found.too_few_rows:
        n, least = found.calibration_weight, math.ceil(found.level / (1.0 - found.level) - 1e-9)
        highest = math.floor(1000 * n / (n + 1.0)) / 1000
        warn_user(
            f"intervals: a level of {found.level:.12g} needs at least {least:,} rows for "
            f"calibration, but {found.kind!r} has {n:g}, so the ends are infinite; pass more rows, "
            f"or a level of at most {highest:g}"
        )
    return found


def _check(model: Model, level: Any, kind: Any, folds: Any, n_threads: Any) -> None:
    check_threads(n_threads)
    if not (is_number(level) and 0.0 < level < 1.0):
        raise ValueError(f"level: expected a number between 0 and 1, got {quote(level)}")
    check_one_of("kind", kind, KINDS)
    if folds is not None and kind not in KINDS_WITH_FOLDS:
        names = " and ".join(f"kind={name!r}" for name in KINDS_WITH_FOLDS)
        raise ValueError(f"folds= applies only to {names}, not to kind={quote(kind)}")
    if model.loss.target == "classes" or model.n_outputs > 1:
        raise ValueError(
            f"intervals need y to be a number and one output; the {model.loss.name} loss is for "
            f"{model.loss.target} and has {model.n_outputs} outputs"
        )
    check_not_edited(model, "intervals")
    drawn = model.bags is not None and model.settings.fraction is not None
    if kind in ("cv+", "split") and model.bags is not None:
        raise ValueError(
            f"kind={quote(kind)}: the model is an average of bags; "
            + ("use kind='bags', which calibrates with left-out rows" if drawn else "use 'cqr'")
        )
    if kind == "bags" and not drawn:
        raise ValueError(
            "kind='bags' needs a model that was fitted with bags drawn at random; use "
            f"{quote('cv+' if model.bags is None else 'cqr')}"
        )


def _training_rows(fits: IntervalFits, kind: Kind, folds: Any) -> list[Marks]:
    """Return the rows that each model is fitted to; the others calibrate it."""
    data, seed = fits.binned.data, fits.seed
    n = len(data.y)
    if kind == "quantiles":
        return [np.ones(n, dtype=bool)]
    if kind == "split":
        return [~hold_out(CALIBRATION, data.weights, None, seed + 1, "intervals")]
    folds = N_FOLDS if folds is None else folds
    if is_number(folds):
        if not (is_whole(folds) and 2 <= folds <= n):
            raise ValueError(
                f"folds: expected a whole number from 2 to {n}, the number of rows, or the fold of "
                f"each row; got {quote(folds)}"
            )
        numbers, n_folds = np.random.default_rng(seed).permutation(n) % folds, int(folds)
    else:
        numbers = read_groups(folds, data, "folds")
        n_folds = int(numbers.max()) + 1
        if n_folds < 2:
            raise ValueError("folds: expected at least two different folds, got one")
    return [numbers != k for k in range(n_folds)]


def _calibrate_bags(fits: IntervalFits) -> CalibratedModels:
    """Return the bagged model, calibrated with each row's mean score over the bags without it.

    It is the model before polish, because the refit has used all rows.
    """
    model, data = fits.model.boosted, fits.binned.data
    assert model.bags is not None
    old = model.settings
    held = draw_bags(len(model.bags), old.fraction, data, old.seed).held
    times, rows = held.sum(axis=0), fits.binned.rows()
    total, at_bins = np.zeros((len(data.y), 1)), np.zeros((len(data.y), 1))
    for b, marks in enumerate(held):
        betas = {name: coef[b] for name, coef in model.bags.coef.items()}
        terms = {n: replace(t, beta=betas.get(n, t.beta)) for n, t in model.terms.items()}
        start = model.bags.start[b]
        bag = replace(model, terms=MappingProxyType(terms), start_vector=start, bags=None)
        total[marks] += fits.scores(bag)[marks]
        rows.run(score_batch(bag, fits.binned))
        at_bins[marks] += rows.read(SLOT_F).T[marks]
    some, mean = times > 0, np.maximum(times, 1)[:, None]
    held_out_risk = risk(data.loss, data.y[some], (at_bins / mean)[some], data.weights[some])
    if not np.isclose(held_out_risk, model.path.validation_risk[0], rtol=1e-6, atol=0.0):
        raise ValueError(
            "intervals: the rows are not in the order of the fit, or the fit was interrupted, so "
            "the rows that each bag left out are unknown; pass the rows as in the fit, or use "
            "kind='cqr'"
        )
    found = model.loss.response(total / mean)
    return fits.calibrate(model, model, np.array([found, found]), some)
