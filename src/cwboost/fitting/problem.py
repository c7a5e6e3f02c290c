"""The boosting problem: rows, learners and start of one fit. The only caller of the core's loop.

`FitProblem.boost` runs the loop, also from a checkpoint or from an earlier path, and makes the
path into a Model. Does not know how rows are read and binned (see preparation.py) or in which order
a fit does its work (see fit.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import numpy as np

from cwboost import _core
from cwboost._core import ALL_PART, SLOT_F, SLOT_H, SLOT_R, TRAINING_PART, VALIDATION_PART
from cwboost._utils.memory import garbage_collection_paused
from cwboost._utils.user_warnings import warn_user
from cwboost.binning.spread import Spread
from cwboost.binning.summary import ColumnSummary
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.path import EARLY_REASONS, FINAL_REASONS, Path, StopReason, first_lowest
from cwboost.model.records import ColumnFacts
from cwboost.model.settings import Settings
from cwboost.model.term import Term, with_coefficients
from cwboost.optimizers import Optimizer
from cwboost.progress import Progress, as_progress
from cwboost.terms.plan import Plan

from .callbacks import HaltCallback, Interrupted, RunContext, iteration_facts, iteration_hook
from .checkpoint import Checkpoint, check_path, column_fingerprints, identity
from .early_stopping import EarlyStopping
from .effect_sizes import effect_sizes
from .input_data import Split
from .integral_importance import integral_shares
from .options import SEARCHES, FitOptions, check_validation
from .prepared import PreparedRows, PreparedTerms
from .scores import score_batch
from .smoothing import System
from .starting_point import StartingPoint
from .systems import with_means

MANY_COLUMNS = 1000  # with more columns, a model keeps the spread of those in chosen terms only
RISE = 0.1  # share of the fall of the training risk; if the risk rises by more, the fit diverges

P = TypeVar("P", bound=PreparedTerms)


@dataclass(frozen=True, eq=False)
class FitProblem(Generic[P]):
    """Everything that the core's loop takes."""

    prepared: P
    begin: StartingPoint
    optimizer: Optimizer
    plans: Sequence[Plan]  # their bases know their mean over the training rows
    rows: _core.Rows
    systems: list[System]  # of the training rows
    learners: list[_core.Learner]  # fitted to the training rows
    all_learners: list[_core.Learner]  # to all rows, for an optimizer that ends on them; else empty

    @classmethod
    def make(
        cls,
        prepared: P,
        optimizer: Optimizer,
        begin: StartingPoint,
        smoothing: Sequence[float] | None = None,
        n_threads: int | None = None,
    ) -> FitProblem[P]:
        """Set up the systems of all terms for the training rows."""
        systems = prepared.systems(prepared.weigh(TRAINING_PART), smoothing)
        learners = prepared.learners(systems)
        all_learners: list[_core.Learner] = []
        if optimizer.ends_on_all_rows:
            # The df are the same on all rows, so the smoothing differs.
            all_learners = prepared.learners(prepared.systems(prepared.weigh(ALL_PART)))
        plans = with_means(prepared.plans, systems, replace_known=prepared.has_own_split)
        rows = prepared.rows(n_threads, [learners, all_learners])
        return cls(prepared, begin, optimizer, plans, rows, systems, learners, all_learners)

    @classmethod
    def pose(
        cls,
        prepared: PreparedRows,
        split: Split,
        optimizer: Optimizer,
        *,
        start: Any = None,
        scale: Any = "auto",
        n_threads: int = 1,
    ) -> FitProblem[PreparedRows]:
        """Return a fit to rows that are binned already, with the weights of a split.

        Start, scale and smoothing are those of the training rows of the split.
        """
        check_validation(optimizer, split.has_validation)
        with garbage_collection_paused():
            begin = StartingPoint.of(prepared.data, split, start, scale)
            rows = prepared.with_split(split)
            return FitProblem.make(rows, optimizer, begin, n_threads=n_threads)

    def with_terms(self, names: Sequence[str]) -> FitProblem[P]:
        """Return the problem with some of its terms; everything else stays the same."""
        wanted = set(names)
        some = [k for k, plan in enumerate(self.plans) if plan.name in wanted]
        return replace(
            self,
            prepared=self.prepared.with_terms(some),
            plans=[self.plans[k] for k in some],
            systems=[self.systems[k] for k in some],
            learners=[self.learners[k] for k in some],
            all_learners=[self.all_learners[k] for k in some if self.all_learners],
        )

    # --- models -----------------------------------------------------------------------------------

    def template(self, stopping: EarlyStopping) -> Model:
        """Return the model before the first iteration. Terms of one size share their zeros."""
        prepared, data = self.prepared, self.prepared.data
        q = data.loss.n_outputs
        zeros = {n: np.zeros((n, q)) for n in {plan.basis.n_coef for plan in self.plans}}
        terms = [
            Term(plan, zeros[len(system.mean)], system.smoothing, system.df, system.net_df)
            for plan, system in zip(self.plans, self.systems, strict=True)
        ]
        names = prepared.columns
        spreads = prepared.spreads(names) if len(names) <= MANY_COLUMNS else {}
        facts = {name: _facts(prepared.summaries[name], spreads.get(name)) for name in names}
        return Model(
            loss=data.loss,
            optimizer=self.optimizer,
            terms=MappingProxyType({term.name: term for term in terms}),
            columns=MappingProxyType(facts),
            classes=data.classes,
            start_vector=self.begin.start,
            scale=self.begin.scale,
            path=Path.from_core(_core.Path()),
            best_iteration=0,
            settings=self._settings(stopping),
        )

    def _settings(self, stopping: EarlyStopping) -> Settings:
        source = self.prepared.data.source
        if source.validation == "none" and self.prepared.has_validation:
            source = replace(source, validation="rows")
        names = source.__dataclass_fields__
        return Settings(
            patience=stopping.rules,
            metrics=stopping.records,
            **{name: getattr(source, name) for name in names},
        )

    def continue_from(self, model: Model, main: Model) -> tuple[Model, _core.Path]:
        """Return the template at the best iterate of a model of its first terms, and the path.

        After an optimizer that ends on all rows no validation rows are left, so the fit restarts.
        """
        if self.optimizer.ends_on_all_rows:
            return model, _core.Path()
        before = main.at(main.best_iteration)
        return replace(model, path=before.path), self.history(before)

    def history(self, model: Model) -> _core.Path:
        """Return the path of a model of this problem, from which the loop can continue."""
        return self._core_path(model.path, model.n_outputs)

    def _core_path(self, path: Path, n_outputs: int) -> _core.Path:
        return path.to_core([plan.basis.n_coef for plan in self.plans], n_outputs)

    def finish(self, model: Model, path: Path) -> Model:
        """Return the model of a path of this problem, from the model before it."""
        m = best_iteration(path, model.optimizer, self.prepared.has_validation)
        terms = with_coefficients(model, path, m)
        model = replace(model, terms=terms, path=path, best_iteration=m)
        moved = [k for k in np.union1d(path.choices, path.corrections).tolist() if k >= 0]
        model = replace(model, columns=self.with_spreads(model, moved))
        if path.stopped == StopReason.interrupted:
            raise Interrupted(replace(model, shares=None, sizes=None))
        shares = integral_shares(self, model, moved)
        model = replace(model, shares=shares, sizes=effect_sizes(self, model))
        _warn_of_divergence(model)
        return model

    def with_spreads(self, model: Model, moved: Sequence[int]) -> Mapping[str, ColumnFacts]:
        """Return what a model knows about its columns, with the spread of those in moved terms."""
        names = {name for k in moved for name in self.plans[k].columns}
        lacking = {name for name in names if model.columns[name].spread is None}
        found = self.prepared.spreads(lacking) if lacking else {}
        summaries = self.prepared.summaries
        facts = {name: _facts(summaries[name], spread) for name, spread in found.items()}
        return MappingProxyType({**model.columns, **facts}) if facts else model.columns

    # --- the loop ---------------------------------------------------------------------------------

    def fit(
        self,
        n_iter: int,
        *,
        stopping: EarlyStopping | None = None,
        after: Model | None = None,
        halt: Callable[[], bool] | None = None,
        bar: Progress | None = None,
        search: str = "auto",
    ) -> Model:
        """Return the model after n_iter iterations, continuing from the end of `after` if given.

        `halt` is asked twenty times a second whether to stop.
        """
        stopping = EarlyStopping() if stopping is None else stopping
        model, history = self.template(stopping), _core.Path()
        if after is not None:
            model = replace(model, terms=after.terms, path=after.path, columns=after.columns)
            history = self.history(after)
        callback = None if halt is None else HaltCallback(halt)
        context = RunContext(callback, as_progress(False) if bar is None else bar)
        options = FitOptions(self.optimizer, n_iter, stopping, search=search)
        return self.boost(model, history, options, context)

    def boost(
        self, model: Model, history: _core.Path, options: FitOptions, context: RunContext
    ) -> Model:
        """Run the loop after `history` and return the model of its path.

        With a checkpoint, the loop continues from the path in the file.
        """
        checkpoint, n_iter = context.checkpoint, options.n_iter
        known = None if checkpoint is None else self._known_path(model, checkpoint)
        if known is not None:
            path = self._cut(model, known, options)
            if path is not None:
                return self.finish(model, path)
            history = self._core_path(known, model.n_outputs)
        time_limit = options.time_limit
        if time_limit is not None:  # what the set-up has left of it, enough for one iteration
            time_limit = max(1e-9, time_limit - (time.perf_counter() - context.began))
        rules = options.stopping.core_rules(options.tolerance)
        names = [plan.name for plan in self.plans]
        after, every = iteration_hook(context, names, 0 if known is None else known.n_iter)
        run = _core.RunOptions(
            n_iter,
            rules=rules,
            n_given=None if known is None else model.n_iter,
            time_limit=time_limit,
            after=after,
            after_every=every,
            save=None if checkpoint is None else lambda p: checkpoint.save(Path.from_core(p)),
            measure=self._measure(options.stopping),
        )
        early, bar = self.prepared.has_validation and bool(rules), context.progress
        with bar.work(n_iter, "iteration", done=model.n_iter, seconds=time_limit, early=early):
            path = self._run(history, run, options.search)
            if checkpoint is not None:
                checkpoint.save(path)
            if path.n_iter > model.n_iter:  # progress may have skipped the last iteration
                last = path.risk[-1], path.validation_risk[-1], path.choices[-1]
                bar.step(path.n_iter, **iteration_facts(*last, names))
        return self.finish(model, path)

    def _measure(self, stopping: EarlyStopping) -> Callable[[float], list[float]] | None:
        """Return what computes the metrics of the validation rows from the scores in SLOT_F."""
        if not (stopping.metrics and self.prepared.has_validation):
            return None
        return self.prepared.measure(stopping.metrics, self.rows)

    def _known_path(self, model: Model, checkpoint: Checkpoint) -> Path | None:
        """Return the path of this stage in a checkpoint; None if the file does not have it.

        Raise if the file belongs to another fit.
        """
        columns, prints = column_fingerprints(self, model)
        path = checkpoint.begin(identity(model, self.rows.n_rows(), prints))
        if path is not None:
            check_path(self, model, path, str(checkpoint))
            checkpoint.check_columns(columns)
        return path

    def choose(
        self,
        n_iter: int,
        until: Callable[[int], bool],
        halt: Callable[[], bool],
        bar: Progress | None = None,
    ) -> Path:
        """Return the path of at most n_iter iterations, without a model.

        After every iteration `until` gets the number of the chosen term and returns true to stop;
        `halt` is asked as in `fit`.
        """
        bar = as_progress(False) if bar is None else bar

        def after(m: int, risk: float, _validation_risk: float, choice: int) -> bool:
            bar.step(m, risk=risk)
            return until(choice) or halt()

        with bar.work(n_iter, "iteration", early=True):
            path = self._run(_core.Path(), _core.RunOptions(n_iter, after=after))
        if path.stopped == StopReason.interrupted:
            raise KeyboardInterrupt
        return path

    def _run(self, history: _core.Path, options: _core.RunOptions, search: str = "auto") -> Path:
        problem = _core.BoostProblem(
            self.rows,
            self.learners,
            self.optimizer.core(),
            start=list(self.begin.start),
            scale=self.begin.scale,
            all_learners=self.all_learners,
            validation_part=VALIDATION_PART if self.prepared.has_validation else None,
            search=SEARCHES[search],
        )
        try:
            path = Path.from_core(_core.boost(problem, history, options))
        except _core.OtherRowsError as error:
            raise ValueError(
                f"these are not the rows of the fit: {error}; pass the same table, y, weights, "
                "offset and validation rows"
            ) from None
        if not np.isfinite(path.risk[0]):
            raise ValueError(
                f"the {self.prepared.data.loss.name} loss is not finite at the start "
                f"({path.risk[0]}); check the loss and start=, or rescale y"
            )
        return path

    def _cut(self, model: Model, known: Path, wanted: FitOptions) -> Path | None:
        """Return the path of a fit with these options if a known path has all of it, else None."""
        n_iter, rules = wanted.n_iter, wanted.stopping.core_rules(wanted.tolerance)
        sizes, q = [p.basis.n_coef for p in self.plans], model.n_outputs
        problem = _core.ReplayProblem(
            self.optimizer.core(), sizes, q, has_validation=self.prepared.has_validation
        )
        options = _core.RunOptions(n_iter, rules=rules, n_given=model.n_iter)
        path = Path.from_core(_core.cut(problem, self._core_path(known, q), options))
        if path.n_iter == n_iter or path.stopped in EARLY_REASONS:
            return path
        return known if known.stopped in FINAL_REASONS else None

    # --- of rows in this process ------------------------------------------------------------------

    def follow(
        self: FitProblem[PreparedRows],
        model: Model,
        weights: Floats,
        at: Callable[[int, Floats], Any] | None = None,
    ) -> Floats:
        """Return the (M + 1,) risk of rows with other weights along the path of a model.

        `at` is called after 0, 1, ... iterations with their number and the (q, n) scores at the
        bins; it returns true to stop.
        """
        rows = self.prepared.with_split(Split(weights, None, weights)).rows(1)
        problem = _core.BoostProblem(
            rows,
            self.learners,
            self.optimizer.core(),
            start=list(model.start_vector),
            scale=model.scale,
            all_learners=self.learners,
        )
        return _core.follow(
            problem,
            self.history(model),
            None if at is None else lambda m: bool(at(m, rows.read(SLOT_F))),
        )

    @property
    def local_rows(self) -> _core.LocalRows:
        """The rows, whose scores and residuals can be read if they are in this process."""
        if not isinstance(self.rows, _core.LocalRows):
            raise TypeError("the rows are not in this process")
        return self.rows

    def scores(self, model: Model) -> Floats:
        """Return the (q, n) scores of all rows by a model of this problem, at the bins."""
        rows = self.local_rows
        rows.run(score_batch(model, self.prepared))
        return np.asarray(rows.read(SLOT_F))

    def effect(self, model: Model, names: Sequence[str]) -> Floats:
        """Return the (q, n) centred effect of some terms together, for all rows, at the bins."""
        rows = self.local_rows
        batch: list[Any] = [_core.Mix(SLOT_H, 0.0, SLOT_H, 0.0, SLOT_H)]  # zeros
        mean = np.zeros((model.n_outputs, 1))
        for k, (name, term) in enumerate(model.terms.items()):
            if name in names and term.chosen:
                effect = np.ascontiguousarray((self.prepared.core_rows[k] @ term.beta).T)
                number = self.prepared.shared_bins.of_term[k]
                batch.append(_core.Add(SLOT_H, number, effect.ravel()))
                mean += term.mean[:, None]
        rows.run(batch)
        return np.asarray(rows.read(SLOT_H)) - mean

    def residuals(self, model: Model) -> Floats:
        """Return the (q, n) residuals of all rows by a model of this problem."""
        self.scores(model)
        rows = self.local_rows
        rows.run([_core.Residual(SLOT_F, SLOT_R, [ALL_PART])])
        return np.asarray(rows.read(SLOT_R))


def best_iteration(path: Path, optimizer: Optimizer, has_validation: bool) -> int:
    """Return the iterate of the model: the best on validation rows, else the last."""
    on_all = optimizer.ends_on_all_rows and path.switched_after >= 0
    if not has_validation or on_all:
        return path.n_iter
    return first_lowest(path.watched)


def _warn_of_divergence(model: Model) -> None:
    """Warn if the training risk rose for good, as momentum can make it do."""
    risk, m = model.risk, model.best_iteration
    lowest = int(np.argmin(risk[: m + 1]))
    rose = risk[m] - risk[lowest] > RISE * (risk[0] - risk[lowest]) and m > lowest
    if rose and not model.optimizer.risk_may_rise:
        message = (
            f"the fit diverges: the training risk was lowest after {lowest} iterations "
            f"({risk[lowest]:.6g}) and is {risk[m]:.6g} after {m}; lower the rate or the momentum, "
            f"give validation rows, or use model.at({lowest})"
        )
    elif model.stopped == StopReason.diverged and m == model.n_iter:
        message = (
            f"the fit stopped after {m} iterations because the training risk diverged; lower the "
            "rate or the momentum"
        )
    else:
        return
    warn_user(message, RuntimeWarning)


def _facts(summary: ColumnSummary, spread: Spread | None) -> ColumnFacts:
    """Return what the model keeps about a training column."""
    if summary.kind == "labels":
        return ColumnFacts("labels", missing=summary.missing, spread=spread)
    if summary.empty:
        return ColumnFacts("numbers", missing=True, spread=spread)
    return ColumnFacts(
        "numbers", summary.low, summary.high, summary.missing, summary.boolean, spread, summary.unit
    )
