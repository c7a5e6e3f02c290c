"""Prediction intervals: between which ends a new y lies, with a given probability.

Knows quantile models and conformal calibration: by rows that were left out (split), by folds (CV+,
Barber et al. 2021; with quantile models the conformalised quantile regression of Romano et al.
2019), or by the rows that bags left out. Knows nothing of effects and their bands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._core import SLOT_F
from cwboost._utils.checks import check_threads, is_number, is_whole, threads_for
from cwboost.fitting.bags import draw_bags
from cwboost.fitting.input_data import FitInput, Split, hold_out
from cwboost.fitting.options import as_seed
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import bin_again, check_again
from cwboost.fitting.scores import score_batch
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import Floats, Table, read
from cwboost.losses import Quantile, risk
from cwboost.model.model import Model
from cwboost.optimizers import Plain
from cwboost.progress import as_progress

Marks = NDArray[np.bool_]
Kind = Literal["cv+", "split", "cqr", "quantiles", "bags"]
KINDS = ("cv+", "split", "cqr", "quantiles", "bags")
FOLDED = ("cv+", "cqr")
N_FOLDS = 10  # if nothing else is said
LEFT_OUT = 0.2  # share of the rows that a fit is watched by
SPLIT = 0.25  # share of the rows that "split" calibrates with
QUANTILE_ITER, PATIENCE = 2000, 50  # of quantile models; they stop where they are best
HALVINGS = 64  # of the range in which an end is sought


@dataclass(frozen=True, eq=False)
class Member:
    """Models for both ends, and how far off they were in rows that they had not seen."""

    lower: Model
    upper: Model  # may be the same
    # Increasing: how far y lay beyond the nearer end (inside: negative) ...
    scores: Floats = field(repr=False)
    reached: Floats = field(repr=False)  # ... and the weight of the rows up to each


@dataclass(frozen=True, eq=False, repr=False)
class Intervals:
    """Between which ends a new y lies; made by `Model.intervals`.

    Attributes
    ----------
    kind : "cv+", "split", "cqr", "quantiles" or "bags"
    level : float
        The share of new rows whose y is to lie in between.
    members : tuple of Member
        One, or one per fold.
    """

    kind: Kind
    level: float
    members: tuple[Member, ...]
    positive: bool = False  # no y lies below 0

    def predict(
        self, table: Any, *, offset: Any = None, exposure: Any = None, n_threads: int | None = None
    ) -> ResultTable:
        """The ends for every row of a table: a table with the columns lower and upper.

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
        fixed = {"offset": offset, "exposure": exposure, "n_threads": n_threads}
        rows = read(table)
        ends = np.array([_ends(m.lower, m.upper, rows, fixed) for m in self.members])
        lower = -self._end(-ends[:, 0])
        upper = self._end(ends[:, 1])
        if self.positive:
            lower = np.maximum(lower, 0.0)
        return ResultTable(lower=np.minimum(lower, upper), upper=np.maximum(lower, upper))

    def __repr__(self) -> str:
        n = sum(len(m.scores) for m in self.members)
        parts = [f"{100 * self.level:g}% of new y by {self.kind}"]
        if self.kind in FOLDED:
            parts.append(f"{len(self.members)} folds")
        if n:
            beyond = float(self._end(np.zeros((len(self.members), 1)))[0])
            moved = "quantiles" if self.kind == "cqr" else "predictions"
            parts.append(f"calibrated by {n:,} rows: {moved} ± {beyond:.3g}")
        return f"<cwboost.Intervals: {', '.join(parts)}>"

    def _end(self, shift: Floats) -> Floats:
        """(n,) the least t below which so much of the calibration rows lies, were each of them
        shifted to where its member (rows of `shift`) predicts."""
        members = self.members
        if len(members[0].scores) == 0:  # not calibrated
            return np.asarray(shift[0])
        total = sum(float(m.reached[-1]) for m in members)
        need = self.level * (total + 1.0)
        if need > total * (1 + 1e-12):
            return np.full(shift.shape[1], np.inf)  # too few rows to promise so much
        low = np.min([s + m.scores[0] for s, m in zip(shift, members, strict=True)], axis=0)
        high = np.max([s + m.scores[-1] for s, m in zip(shift, members, strict=True)], axis=0)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            weight = np.zeros(shift.shape[1])
            for s, m in zip(shift, members, strict=True):
                place = np.searchsorted(m.scores, middle - s, side="right")
                weight += np.append(0.0, m.reached)[place]
            enough = weight >= need * (1 - 1e-12)
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.asarray(high)


def _ends(lower: Model, upper: Model, rows: Table, fixed: dict[str, Any]) -> Floats:
    """(2, n) predictions of both models; where they cross, they are exchanged."""
    first = lower.predict(rows, **fixed)
    second = first if upper is lower else upper.predict(rows, **fixed)
    return np.array([np.minimum(first, second), np.maximum(first, second)])


# --- making them ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class IntervalTask:
    """The rows, and how models are fitted to parts of them."""

    model: Model
    binned: PreparedRows
    seed: int

    def fit(self, inside: Marks, tau: float | None, halt: Halt) -> Model:
        """The model of some rows: as the model was fitted, or of a quantile."""
        model, binned = self.model, self.binned
        optimizer, n_iter, patience = model.optimizer, model.n_iter, model.settings.patience
        watched = model.settings.validation != "none"
        if tau is not None:
            binned = replace(binned, data=replace(binned.data, loss=Quantile(tau)))
            optimizer = Plain() if optimizer.has_momentum else optimizer
            n_iter, patience, watched = QUANTILE_ITER, PATIENCE, True
        elif watched:
            n_iter *= 2  # it may take longer; patience ends it
        w, held = np.where(inside, binned.data.weights, 0.0), None
        if watched:
            share = model.settings.fraction or LEFT_OUT
            marks = hold_out(share, w, None, self.seed, "intervals")
            held, w = np.where(marks, w, 0.0), np.where(marks, 0.0, w)
        split = Split(w, held, w if held is None else w + held)
        return FitProblem.pose(binned, split, optimizer).fit(n_iter, patience=patience, halt=halt)

    def member(self, inside: Marks, taus: Sequence[float | None], halt: Halt) -> Member:
        """Models of some rows, calibrated by all others."""
        made = [self.fit(inside, tau, halt) for tau in taus]
        first, second = self.predict(made[0]), self.predict(made[-1])
        low, high = np.minimum(first, second), np.maximum(first, second)
        return self.judged(made[0], made[-1], low, high, ~inside)

    def judged(self, lower: Model, upper: Model, low: Floats, high: Floats, rows: Marks) -> Member:
        """Models with the scores of rows, given what they predict for all."""
        data = self.binned.data
        beyond = np.maximum(low - data.y, data.y - high)[rows]
        order = np.argsort(beyond, kind="stable")
        return Member(lower, upper, beyond[order], np.cumsum(data.weights[rows][order]))

    def predict(self, model: Model) -> Floats:
        """(n,) of all rows, at their values."""
        return model.loss.response(self.scores(model))

    def scores(self, model: Model) -> Floats:
        """(n, 1) of all rows."""
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
    given = FitInput.of(table, y, weights, offset=offset, exposure=exposure)
    check_again(model, given, "intervals", n_threads)
    binned = replace(bin_again(model, given, "intervals", n_threads), n_threads=1)
    task = IntervalTask(model, binned, seed)
    if kind == "bags":
        bagged = (_bag_member(task),)
        return Intervals(kind, float(level), bagged, model.loss.log_link)
    taus: list[float | None] = [None]
    if kind in ("cqr", "quantiles"):
        if binned.data.offset.any():
            raise ValueError(f"kind={kind!r}: quantile models have no offset; use 'cv+'")
        taus = [(1 - level) / 2, (1 + level) / 2]

    def job(inside: Marks) -> Callable[[Halt], Member]:
        return lambda halt: task.member(inside, taus, halt)

    jobs = [job(inside) for inside in _parts(task, kind, folds)]
    members = run_all(jobs, threads_for(n_threads), bar, "fold")
    return Intervals(kind, float(level), tuple(members), model.loss.log_link)


def _check(model: Model, level: Any, kind: Any, folds: Any, n_threads: Any) -> None:
    check_threads(n_threads)
    if not (is_number(level) and 0.0 < level < 1.0):
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if folds is not None and kind not in FOLDED:
        raise ValueError(f"folds: kind={kind!r} has none; they are of {' and '.join(FOLDED)}")
    if model.classes or model.n_outputs > 1:
        raise ValueError(f"intervals are for numbers; the {model.loss.name} loss is for classes")
    model._refuse_edited("intervals")
    drawn = model.bags is not None and model.settings.fraction is not None
    if kind in ("cv+", "split") and model.bags is not None:
        raise ValueError(
            f"kind={kind!r}: the model is an average of bags; "
            + ("kind='bags' calibrates it by the rows that they left out" if drawn else "use 'cqr'")
        )
    if kind == "bags" and not drawn:
        raise ValueError(
            "kind='bags': expected a model fitted with a number of bags, whose rows can be drawn "
            f"again; use {'cv+' if model.bags is None else 'cqr'!r}"
        )


def _parts(task: IntervalTask, kind: Kind, folds: Any) -> list[Marks]:
    """The rows that each model is fitted to; it is calibrated by the others."""
    data, seed = task.binned.data, task.seed
    n = len(data.y)
    if kind == "quantiles":
        return [np.ones(n, dtype=bool)]
    if kind == "split":
        return [~hold_out(SPLIT, data.weights, None, seed + 1, "intervals")]
    folds = N_FOLDS if folds is None else folds
    if is_whole(folds):
        if not 2 <= folds <= n:
            raise ValueError(f"folds: expected 2 to {n} of {n} rows, got {folds}")
        numbers = np.random.default_rng(seed).permutation(n) % folds
        return [numbers != k for k in range(folds)]
    labels = np.asarray(folds)
    if labels.shape != (data.n_given,):
        raise ValueError(
            f"folds: expected a whole number, or the fold of each of {data.n_given} rows; got "
            f"{'shape ' + str(labels.shape) if labels.ndim else repr(folds)}"
        )
    labels = data.of_present(labels)
    found = np.unique(labels)
    if len(found) < 2:
        raise ValueError(f"folds: expected at least two, got {found.tolist()}")
    return [labels != k for k in found]


def _bag_member(task: IntervalTask) -> Member:
    """The average, calibrated by every row's mean score of the bags that left it out."""
    model, data = task.model, task.binned.data
    assert model.bags is not None
    old = model.settings
    held = draw_bags(len(model.bags), old.fraction, data, old.seed).held
    times, rows = held.sum(axis=0), task.binned.rows()
    total, at_bins = np.zeros((len(data.y), 1)), np.zeros((len(data.y), 1))
    for b, marks in enumerate(held):
        betas = {name: coef[b] for name, coef in model.bags.coef.items()}
        terms = {n: replace(t, beta=betas.get(n, t.beta)) for n, t in model.terms.items()}
        start = model.bags.start[b]
        bag = replace(model, terms=MappingProxyType(terms), start_vector=start, bags=None)
        total[marks] += task.scores(bag)[marks]
        rows.run(score_batch(bag, task.binned))
        at_bins[marks] += rows.read(SLOT_F).T[marks]
    some, mean = times > 0, np.maximum(times, 1)[:, None]
    watched = risk(data.loss, data.y[some], (at_bins / mean)[some], data.weights[some])
    if not np.isclose(watched, model.path.validation_risk[0], rtol=1e-6, atol=0.0):
        raise ValueError(
            "intervals: these are the rows of the fit in another order, or it was interrupted, so "
            "that the rows that a bag left out are not known; pass them as the fit had them, or "
            "use kind='cqr'"
        )
    found = model.loss.response(total / mean)
    return task.judged(model, model, found, found, some)
