"""The boosting problem: rows, learners and start, as the core's loop takes them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._utils.checks import is_number
from cwboost._utils.memory import garbage_collection_paused
from cwboost.binning.spread import Spread
from cwboost.binning.summary import ColumnSummary
from cwboost.frames.table import Floats
from cwboost.losses import Loss, TargetRows
from cwboost.model.model import Model
from cwboost.model.path import FINAL_REASONS, Path, StopReason
from cwboost.model.records import ColumnFacts
from cwboost.model.term import Term, with_coefficients
from cwboost.optimizers import Optimizer
from cwboost.progress import Progress, as_progress
from cwboost.terms.plan import Plan

from .callbacks import HaltCallback, Interrupted, iteration_facts, iteration_hook
from .checkpoint import Checkpoint, check_path, column_fingerprints, identity
from .importance import integral_shares
from .input_data import FitData, Split
from .options import SEARCHES, check_validation
from .prepared import PreparedRows
from .scores import score_batch
from .slots import ALL, SLOT_F, SLOT_R, VALIDATION
from .smoothing import System
from .systems import with_means

MANY_COLUMNS = 1000  # of more, only those of chosen terms are remembered well enough to be drawn


class StartingPoint(NamedTuple):
    """Where a fit begins, and the factor of its steps."""

    start: Floats  # (q,)
    scale: float

    @classmethod
    def of(cls, data: FitData, split: Split, start: Any, scale: Any) -> StartingPoint:
        y, weights, offset = map(split.of_training, (data.y, split.training, data.offset))
        w = np.ascontiguousarray(weights, dtype=np.float64)
        return cls.of_rows(data.loss, TargetRows(y, w, offset), start, scale)

    @classmethod
    def of_rows(cls, loss: Loss, rows: TargetRows, start: Any, scale: Any) -> StartingPoint:
        start = _start(start, loss, rows)
        return cls(start, _scale(scale, loss, rows, start))


@dataclass(frozen=True, eq=False)
class FitProblem:
    """Rows, learners and what else the core's loop takes."""

    binned: PreparedRows
    split: Split
    begin: StartingPoint
    optimizer: Optimizer
    plans: Sequence[Plan]  # whose bases know their mean over the training rows
    rows: Any  # _core.LocalRows, or other _core.Rows
    systems: list[System]
    training: list[_core.Learner]
    all: list[_core.Learner]
    began: float  # when the fit was called

    @classmethod
    def make(
        cls,
        binned: PreparedRows,
        split: Split,
        optimizer: Optimizer,
        begin: StartingPoint,
        began: float,
        smoothing: Sequence[float] | None = None,
        n_threads: int | None = None,
    ) -> FitProblem:
        systems = binned.systems(binned.weigh(split.training), smoothing)
        everything: list[_core.Learner] = []
        if optimizer.ends_on_all_rows:
            # The same df on all rows; the smoothing that gives them is found anew.
            everything = binned.learners(binned.systems(binned.weigh(split.all)))
        plans = with_means(binned.plans, systems, anew=split is not binned.data.split)
        return cls(
            binned,
            split,
            begin,
            optimizer,
            plans,
            binned.rows(split, n_threads),
            systems,
            binned.learners(systems),
            everything,
            began,
        )

    def template(self, patience: int | None) -> Model:
        """The model before the first iteration; terms of one size share their zeros."""
        binned, data = self.binned, self.binned.data
        q = data.loss.n_outputs
        zeros = {n: np.zeros((n, q)) for n in {plan.basis.n_coef for plan in self.plans}}
        terms = [
            Term(plan, zeros[len(system.mean)], system.smoothing, system.df, system.net_df)
            for plan, system in zip(self.plans, self.systems, strict=True)
        ]
        names = binned.columns
        spreads = binned.spreads(names) if len(names) <= MANY_COLUMNS else {}
        settings = replace(binned.settings, patience=patience)
        if settings.validation == "none" and self.split.validation is not None:
            settings = replace(settings, validation="rows")
        return Model(
            data.loss,
            self.optimizer,
            MappingProxyType({term.name: term for term in terms}),
            MappingProxyType(
                {name: _facts(binned.seen[name], spreads.get(name)) for name in names}
            ),
            data.classes,
            self.begin.start,
            self.begin.scale,
            Path.from_core(_core.Path()),
            0,
            settings,
        )

    @classmethod
    def pose(
        cls,
        binned: PreparedRows,
        split: Split,
        optimizer: Optimizer,
        *,
        start: Any = None,
        scale: Any = "auto",
        n_threads: int = 1,
    ) -> FitProblem:
        """A fit to rows that are binned already, weighed as a split says: start, scale and
        smoothing are the split's own."""
        check_validation(optimizer, split)
        began = time.perf_counter()
        with garbage_collection_paused():
            begin = StartingPoint.of(binned.data, split, start, scale)
            return cls.make(binned, split, optimizer, begin, began, n_threads=n_threads)

    def fit(
        self,
        n_iter: int,
        *,
        patience: int | None = None,
        after: Model | None = None,
        halt: Callable[[], bool] | None = None,
        bar: Progress | None = None,
        search: str = "auto",
    ) -> Model:
        """The model of n_iter iterations, going on from the end of `after` if there is one.

        `halt` is asked twenty times a second whether to stop.
        """
        model, history = self.template(patience), _core.Path()
        if after is not None:
            model = replace(model, terms=after.terms, path=after.path, columns=after.columns)
            history = self.history(after)
        shown = as_progress(False) if bar is None else bar
        callback = None if halt is None else HaltCallback(halt)
        return self.boost(model, history, n_iter, callback, None, shown, search)

    def follow(
        self, model: Model, weights: Floats, at: Callable[[int, Floats], Any] | None = None
    ) -> Floats:
        """(M + 1,) risk of rows so weighed along the path of a model of this problem.

        `at` is called after 0, 1, ... iterations with their number and the scores (q, n), at the
        bins; it returns true to stop.
        """
        rows = self.binned.rows(Split(weights, None, weights), 1)
        problem = _core.BoostProblem(
            rows,
            self.training,
            self.optimizer.core(),
            start=list(model.start_vector),
            scale=model.scale,
            all_learners=self.training,
        )
        called = None if at is None else lambda m: bool(at(m, rows.read(SLOT_F)))
        return _core.follow(problem, self.history(model), called)

    def history(self, model: Model) -> _core.Path:
        """The path of a model of this problem, to go on from."""
        return model.path.to_core([p.basis.n_coef for p in self.plans], model.n_outputs)

    def going_on(self, model: Model, main: Model) -> tuple[Model, _core.Path]:
        """A model of this problem at the best iterate of one of its first terms, and its path.

        (A Hybrid that ends on all rows has none left to watch, and begins anew.)
        """
        if self.optimizer.ends_on_all_rows:
            return model, _core.Path()
        before = main.at(main.best_iteration)
        return replace(model, path=before.path), self.history(before)

    def drawable(self, model: Model, moved: Sequence[int]) -> Mapping[str, ColumnFacts]:
        """The columns, with the spread of those of terms that have been moved."""
        names = {name for k in moved for name in self.plans[k].columns}
        lacking = {name for name in names if model.columns[name].spread is None}
        found = self.binned.spreads(lacking) if lacking else {}
        facts = {name: _facts(self.binned.seen[name], spread) for name, spread in found.items()}
        return MappingProxyType({**model.columns, **facts}) if facts else model.columns

    def boost(
        self,
        model: Model,
        history: _core.Path,
        n_iter: int,
        callback: Callable[..., Any] | None,
        time_limit: float | None,
        bar: Progress,
        search: str = "auto",
        checkpoint: Checkpoint | None = None,
    ) -> Model:
        """Runs the loop after `history` and makes the model of its path.

        If there is a checkpoint, the loop goes on from what it has.
        """
        known: Path | None = None
        if checkpoint is not None:
            columns, prints = column_fingerprints(self, model)
            known = checkpoint.begin(identity(model, self.rows.n_rows(), prints))
        if checkpoint is not None and known is not None:
            check_path(self, model, known, f"checkpoint {checkpoint}")
            checkpoint.check_columns(columns)
            path = self.cut(model, known, n_iter)
            if path is not None:
                return self.made(model, path)
            history = known.to_core([p.basis.n_coef for p in self.plans], model.n_outputs)
        if time_limit is not None:  # what the set-up has left of it; one iteration at the least
            time_limit = max(1e-9, time_limit - (time.perf_counter() - self.began))
        patience, watched = model.settings.patience or 0, self.split.validation is not None
        names = [plan.name for plan in self.plans]
        after, every = iteration_hook(callback, bar, names, 0 if known is None else known.n_iter)
        early = watched and patience > 0
        with bar.work(n_iter, "iteration", done=model.n_iter, seconds=time_limit, early=early):
            path = self._run(
                history,
                n_iter,
                patience,
                time_limit,
                after,
                every,
                search,
                None if known is None else model.n_iter,
                checkpoint,
            )
            if path.n_iter > model.n_iter:  # the last iteration may have been too soon to tell
                last = path.risk[-1], path.validation_risk[-1], path.choices[-1]
                bar.step(path.n_iter, **iteration_facts(*last, names))
        return self.made(model, path)

    def choose(
        self,
        n_iter: int,
        until: Callable[[int], bool],
        halt: Callable[[], bool],
        bar: Progress | None = None,
    ) -> Path:
        """The path of n_iter iterations, and no model of it.

        `until` is given the number of the term chosen after every iteration, and returns true if
        it was the last; `halt` is asked as in `fit`.
        """
        bar = as_progress(False) if bar is None else bar

        def after(m: int, risk: float, _validation_risk: float, choice: int) -> bool:
            bar.step(m, risk=risk)
            return until(choice) or halt()

        with bar.work(n_iter, "iteration", early=True):
            path = self._run(_core.Path(), n_iter, 0, None, after, 0.0, "auto")
        if path.stopped == StopReason.interrupted:
            raise KeyboardInterrupt
        return path

    def _run(
        self,
        history: _core.Path,
        n_iter: int,
        patience: int,
        time_limit: float | None,
        after: Callable[[int, float, float, int], bool] | None,
        every: float,
        search: str,
        given: int | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Path:
        """The core's loop. Of a history that is its own, from a checkpoint, it was `given` the
        first so many iterations."""
        save = None if checkpoint is None else lambda p: checkpoint.save(Path.from_core(p))
        problem = _core.BoostProblem(
            self.rows,
            self.training,
            self.optimizer.core(),
            start=list(self.begin.start),
            scale=self.begin.scale,
            all_learners=self.all,
            validation_part=None if self.split.validation is None else VALIDATION,
            search=SEARCHES[search],
        )
        options = _core.RunOptions(
            n_iter,
            patience=patience,
            n_given=given,
            time_limit=time_limit,
            after=after,
            after_every=every,
            save=save,
        )
        path = Path.from_core(_core.boost(problem, history, options))
        if not np.isfinite(path.risk[0]):
            raise ValueError(
                f"the {self.binned.data.loss.name} loss is not finite at the start "
                f"({path.risk[0]}); check the loss, or rescale y"
            )
        if checkpoint is not None:
            checkpoint.save(path)
        return path

    def cut(self, model: Model, known: Path, n_iter: int) -> Path | None:
        """The path of the loop from a model, if no more is to be done for it than is known."""
        sizes, q = [p.basis.n_coef for p in self.plans], model.n_outputs
        watched, patience = self.split.validation is not None, model.settings.patience or 0
        problem = _core.ReplayProblem(self.optimizer.core(), sizes, q, has_validation=watched)
        options = _core.RunOptions(n_iter, patience=patience, n_given=model.n_iter)
        path = Path.from_core(_core.cut(problem, known.to_core(sizes, q), options))
        if path.n_iter == n_iter or path.stopped == StopReason.no_better_validation_risk:
            return path
        return known if known.stopped in FINAL_REASONS else None

    def made(self, model: Model, path: Path) -> Model:
        """The model of a path of this problem, from that of its beginning."""
        m = best_iteration(path, model.optimizer, self.split.validation is not None)
        terms = with_coefficients(model.terms, path, m, model.optimizer, model)
        model = replace(model, terms=terms, path=path, best_iteration=m)
        moved = [k for k in np.union1d(path.choices, path.corrections).tolist() if k >= 0]
        model = replace(model, columns=self.drawable(model, moved))
        if path.stopped == StopReason.interrupted:
            raise Interrupted(replace(model, shares=None))
        model = replace(model, shares=integral_shares(self, model, moved))
        _warn_of_divergence(model)
        return model

    def scores(self, model: Model) -> Floats:
        """(q, n) scores of all rows by a model of this problem, at the bins."""
        self.rows.run(score_batch(model, self.binned))
        return np.asarray(self.rows.read(SLOT_F))

    def residuals(self, model: Model) -> Floats:
        """(q, n) residuals of all rows by a model of this problem."""
        self.scores(model)
        self.rows.run([_core.Residual(SLOT_F, SLOT_R, [ALL])])
        return np.asarray(self.rows.read(SLOT_R))


def _warn_of_divergence(model: Model) -> None:
    """Momentum can make the training risk rise for good; nobody should overlook it.

    (Hybrid leaves that phase in time, and may then weigh other rows.)
    """
    risk, m = model.risk, model.best_iteration
    least = int(np.argmin(risk[: m + 1]))
    rose = risk[m] - risk[least] > 0.1 * (risk[0] - risk[least]) and m > least
    if rose and not model.optimizer.risk_may_rise:
        what = (
            f"the training risk was least after {least} iterations ({risk[least]:.6g}) and is "
            f"{risk[m]:.6g} after {m}: the fit diverges; lower the rate or the momentum, give "
            f"validation rows, or take model.at({least})"
        )
    elif model.stopped == StopReason.diverged and m == model.n_iter:
        what = (
            f"the training risk ran away after {m} iterations, where the fit stopped; lower the "
            "rate or the momentum"
        )
    else:
        return
    warnings.warn(what, RuntimeWarning, stacklevel=6)


def _facts(seen: ColumnSummary, spread: Spread | None) -> ColumnFacts:
    """What the model remembers of a training column."""
    if seen.kind == "labels":
        return ColumnFacts("labels", missing=seen.missing, spread=spread)
    if seen.empty:
        return ColumnFacts("numbers", missing=True, spread=spread)
    return ColumnFacts("numbers", seen.low, seen.high, seen.missing, seen.boolean, spread)


def best_iteration(path: Path, optimizer: Optimizer, has_validation: bool) -> int:
    """The iterate to return: the last, or with validation rows the best."""
    on_all = optimizer.ends_on_all_rows and path.switched_after >= 0
    if not has_validation or on_all:
        return path.n_iter
    return int(np.argmin(np.where(np.isnan(path.validation_risk), np.inf, path.validation_risk)))


def _start(start: Any, loss: Loss, rows: TargetRows) -> Floats:
    q = loss.n_outputs
    if start is not None:
        try:
            out = np.atleast_1d(np.asarray(start, dtype=np.float64))
        except (TypeError, ValueError):
            out = np.array([np.nan])
        if out.shape != (q,) or not np.isfinite(out).all():
            raise ValueError(f"start: expected {q} finite number(s), got {start!r}")
        return out
    out = loss.start_of(rows)
    if not np.isfinite(out).all():
        raise ValueError(
            f"the start of the {loss.name} loss is not finite ({out}); check y and offset"
        )
    return out


def _scale(scale: Any, loss: Loss, rows: TargetRows, start: Floats) -> float:
    if isinstance(scale, str) and scale == "auto":
        found = loss.scale_of(rows, start)
    elif is_number(scale):
        found = float(scale)
    else:
        raise ValueError(f"scale: expected 'auto' or a number, got {scale!r}")
    if not (np.isfinite(found) and found > 0):
        raise ValueError(f"scale must be a positive number, got {found!r}")
    return found
