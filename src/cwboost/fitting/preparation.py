"""From the arguments of a fit to prepared rows: read, check, plan the terms, bin."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from cwboost._utils.checks import check_threads, threads_for
from cwboost._utils.memory import garbage_collection_paused
from cwboost.binning.rules import Bins, as_bins
from cwboost.frames.table import known_table, read
from cwboost.losses import Loss, as_loss
from cwboost.model.model import Model
from cwboost.model.records import Ranking
from cwboost.model.settings import Settings
from cwboost.progress import Progress
from cwboost.terms.formula import is_formula, parse
from cwboost.terms.learners import Learner
from cwboost.terms.styles import make_learners

from .input_data import FitData, FitInput, read_data
from .interactions import (
    Pairs,
    how_many,
    pair_learners,
    rank,
)
from .prepared import PreparedRows
from .term_plans import check_learners, plan_terms, summarize_columns


@contextmanager
def reading(table: Any, bar: Progress) -> Iterator[None]:
    """Shows which columns of a Dataset are read meanwhile."""
    found = known_table(table)
    told = None if found is None else found.on_read
    if told is None:
        yield
        return
    done, here = 0, threading.get_ident()  # a Progress belongs to one thread

    def tell(name: str) -> None:
        nonlocal done
        done += 1
        if threading.get_ident() == here:
            bar.step(done, column=name)

    with bar.work(None, "column"):
        told.append(tell)
        try:
            yield
        finally:
            told.remove(tell)


def read_rows(
    given: FitInput, learners: Any, loss: Loss, seed: int
) -> tuple[FitData, list[Learner]]:
    """The rows and the learners, checked; nothing is binned yet."""
    data = read_data(given, loss, seed)
    target = [name for name in (given.column("y"),) if name is not None]
    table = data.table  # rows of a validation table have no say in what the terms are
    if isinstance(given.validation, tuple):
        table = table.take(data.training)
    chosen = make_learners(table, learners, target, apart=given.columns)
    return data, check_learners(chosen, data.table)


def bin_rows(
    data: FitData, learners: Sequence[Learner], settings: Settings, n_threads: int
) -> PreparedRows:
    names = dict.fromkeys(name for learner in learners for name in learner.columns)
    seen = summarize_columns(names, data.table, data.sample, n_threads)
    plans = plan_terms(list(learners), data.table, data.sample, seen, n_threads)
    return PreparedRows.make(data, plans, seen, settings, n_threads)


class CheckedInput(NamedTuple):
    """Rows and learners that are read and checked, and nothing else."""

    data: FitData
    learners: list[Learner]
    settings: Settings

    def bin(self, n_threads: int) -> PreparedRows:
        with garbage_collection_paused():
            return bin_rows(self.data, self.learners, self.settings, n_threads)


def read_all(
    table: Any,
    y: Any,
    learners: Any = None,
    loss: Any = "squared",
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    apart: Sequence[str] = (),
) -> CheckedInput:
    """What the arguments of `fit` say: all are training rows. Columns `apart` are no features."""
    given, rule = FitInput(table, y, weights, offset, exposure, apart=tuple(apart)), as_bins(bins)
    if is_formula(y):
        given, learners = read_formula(given, learners)
    data, chosen = read_rows(given, learners, as_loss(loss), 0)
    return CheckedInput(data, chosen, settings_of(given, data, rule, 0))


def prepare(
    table: Any,
    y: Any,
    learners: Any = None,
    loss: Any = "squared",
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    n_threads: int | None = None,
    apart: Sequence[str] = (),
) -> PreparedRows:
    """Rows binned for `FitProblem.pose`: all are training rows, as the arguments of `fit` say."""
    check_threads(n_threads)
    read = read_all(table, y, learners, loss, bins, weights, offset, exposure, apart)
    return read.bin(threads_for(n_threads, len(read.data.y)))


def with_pairs(
    binned: PreparedRows, main: Model, wanted: int | str | Pairs, bar: Progress
) -> tuple[PreparedRows, Ranking | None]:
    """The rows with pairs as further terms: those that are wanted, or that a model of main effects
    leaves to be wished for."""
    data, seen, threads = binned.data, binned.seen, binned.n_threads
    ranking = None
    if not isinstance(wanted, list):
        ranking = rank(main, data, binned.columns, seen, binned.settings.seed, threads, bar)
        ranking = replace(ranking, chosen=how_many(wanted, ranking))
        wanted = ranking.pairs[: ranking.chosen]
    learners = pair_learners(wanted, binned.plans)
    if not learners:
        return binned, ranking
    names = dict.fromkeys(name for learner in learners for name in learner.columns)
    seen = {
        **summarize_columns([n for n in names if n not in seen], data.table, data.sample, threads),
        **seen,
    }
    plans = plan_terms(learners, data.table, data.sample, seen, threads, binned.plans)
    return replace(binned.with_more(plans, seen), seen=seen), ranking


def settings_of(given: FitInput, data: FitData, rule: Bins, seed: int) -> Settings:
    return Settings(
        bins=rule,
        patience=None,
        seed=seed,
        validation=data.validation,
        fraction=float(given.validation) if data.validation == "fraction" else None,
        target=given.column("y"),
        weights=given.column("weights"),
        offset=given.column("offset"),
        exposure=given.column("exposure"),
        held=given.column("validation"),
        needs_offset=given.has_offset_arrays,
        min_rows_per_bin=given.min_rows,
        sites=given.sites,
    )


def read_formula(given: FitInput, learners: Any) -> tuple[FitInput, Any]:
    """What a formula says; a column whose name looks like one is a column all the same."""
    table = read(given.table)
    given = replace(given, table=table)
    if given.y in table:
        return given, learners
    if learners is not None:
        raise ValueError(
            f"learners: the formula {given.y!r} says which there are; give one or the other"
        )
    target, found = parse(given.y, table, exclude=given.columns)
    return replace(given, y=target), found
