"""From the arguments of a fit to prepared rows: read and check, plan the terms, bin the rows.

Does not know about optimizers or boosting (see problem.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

from cwboost._utils.cores import check_threads, threads_for
from cwboost._utils.memory import garbage_collection_paused
from cwboost._utils.text import quote
from cwboost.binning.rules import as_bins
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table, known_table
from cwboost.losses import Loss, as_loss
from cwboost.progress import Progress
from cwboost.terms.formula import is_formula, parse
from cwboost.terms.learners import Learner
from cwboost.terms.styles import make_learners

from .input_data import FitData, FitInput, read_data
from .prepared import PreparedRows
from .term_plans import check_learners, plan_terms, summarize_columns


@contextmanager
def reading(table: Any, bar: Progress) -> Iterator[None]:
    """Show which columns of a Dataset are being read, as long as the context lasts."""
    dataset = known_table(table)
    listeners = None if dataset is None else dataset.on_read
    if listeners is None:
        yield
        return
    n_read, here = 0, threading.get_ident()  # a Progress belongs to one thread

    def show(name: str) -> None:
        nonlocal n_read
        n_read += 1
        if threading.get_ident() == here:
            bar.step(n_read, column=name)

    with bar.work(None, "column"):
        listeners.append(show)
        try:
            yield
        finally:
            listeners.remove(show)


def has_formula(y: Any, table: Table, learners: Any) -> bool:
    """Whether y is a formula, and not a column whose name looks like one.

    A formula names the learners, so that there must not be others.
    """
    if not is_formula(y) or y in table:
        return False
    if learners is not None:
        raise ValueError(f"learners and the formula {quote(y)} are mutually exclusive")
    return True


def read_formula(fit_input: FitInput, learners: Any) -> tuple[FitInput, Any]:
    """Return the input and the learners that a formula stands for, if y is a formula."""
    if not is_formula(fit_input.y):
        return fit_input, learners
    table = read(fit_input.table)
    fit_input = replace(fit_input, table=table)
    if not has_formula(fit_input.y, table, learners):
        return fit_input, learners
    target, found = parse(fit_input.y, table, exclude=fit_input.columns)
    return replace(fit_input, y=target), found


class CheckedInput(NamedTuple):
    """Rows and learners that are read and checked, but not binned."""

    data: FitData
    learners: list[Learner]

    def bin(self, n_threads: int) -> PreparedRows:
        """Plan the terms and bin the rows."""
        data = self.data
        with garbage_collection_paused():
            names = dict.fromkeys(name for x in self.learners for name in x.columns)
            summaries = summarize_columns(names, data.table, data.sample, n_threads)
            plans = plan_terms(self.learners, data.table, data.sample, summaries, n_threads)
            return PreparedRows.make(data, plans, summaries, n_threads)


def read_rows(fit_input: FitInput, learners: Any, loss: Loss, seed: int) -> CheckedInput:
    """Read and check the rows and the learners."""
    data = read_data(fit_input, loss, seed)
    target = [name for name in (fit_input.column("y"),) if name is not None]
    table = data.table
    if isinstance(fit_input.validation, tuple):  # a validation table has no influence on the terms
        table = table.take(data.training)
    chosen = make_learners(table, learners, target, apart=fit_input.columns)
    return CheckedInput(data, check_learners(chosen, data.table))


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
    """Read the arguments of `fit`; all rows are training rows. `apart` are not features."""
    fit_input = FitInput.of(
        table,
        y,
        weights,
        offset=offset,
        exposure=exposure,
        apart=tuple(apart),
        rule=as_bins(bins),
    )
    fit_input, learners = read_formula(fit_input, learners)
    return read_rows(fit_input, learners, as_loss(loss), 0)


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
    """Read and bin the rows for `FitProblem.pose`; the arguments are those of `read_all`."""
    check_threads(n_threads)
    checked = read_all(table, y, learners, loss, bins, weights, offset, exposure, apart)
    return checked.bin(threads_for(n_threads, len(checked.data.y)))
