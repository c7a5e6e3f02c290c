"""Probing, cb.probe: boosting chooses among the columns and their shadows, which are copies with
shuffled rows and so without influence. It ends when a shadow is chosen, because later choices may
be chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import check_whole
from cwboost._utils.cores import threads_for
from cwboost._utils.lazy import cached_property
from cwboost._utils.memory import ArrayPool
from cwboost._utils.text import count, quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost._utils.user_warnings import warn_user
from cwboost.binning.index_sets import IndexSet
from cwboost.binning.moments import MomentSet
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.options import as_seed, check_counts
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.preparation import prepare
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.shared_bins import bin_weights
from cwboost.fitting.systems import core_learner
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.optimizers import Plain, as_optimizer
from cwboost.progress import Progress, as_progress

from .grouping import By, check_by, names_by

MAX_REPEATS = 100_000


@dataclass(frozen=True, eq=False)
class Probe:
    """The result of `cb.probe`.

    Until a shadow is chosen all repeats choose the same terms; they differ in when they end.

    Attributes
    ----------
    model : Model
        The model before a shadow was chosen, without shadows. With several repeats it is the one
        that ended at the (lower) median of `stops`.
    stops : list of int
        For each repeat the number of iterations before a shadow was chosen.
    shadows : list of str
        For each repeat the term whose shadow was chosen; None if none was chosen in n_iter
        iterations.
    first : mapping of str to int
        The iteration in which the longest repeat chose a column (or term) first.
    """

    model: Model = field(repr=False)
    stops: Sequence[int]
    shadows: Sequence[str | None]
    first: Mapping[str, int] = field(repr=False)
    by: By

    @cached_property
    def frequency(self) -> dict[str, float]:
        """Share of the repeats that chose each column before a shadow, the largest first; columns
        that were never chosen are omitted."""
        stops = np.asarray(self.stops)
        return {name: float(np.mean(stops >= first)) for name, first in self.first.items()}

    @property
    def selected(self) -> list[str]:
        """The columns (or terms) of the model, in the order in which they were chosen."""
        return [name for name, first in self.first.items() if first <= self.model.n_iter]

    def table(self) -> ResultTable:
        """Return a table with one row per column that any repeat chose."""
        found = set(self.selected)
        return ResultTable(
            {
                self.by: np.array(list(self.first), dtype=object),
                "first chosen": np.array(list(self.first.values()), dtype=np.int64),
                "frequency": np.array(list(self.frequency.values())),
                "selected": np.array([name in found for name in self.first], dtype=bool),
            }
        )

    def summary(self) -> str:
        """Return the selected columns and the summary of the model as text."""
        chosen = [name for name in self.shadows if name is not None]
        if len(self.stops) == 1:
            what = (
                f"the shadow of {quote(chosen[0])} was chosen after {self.stops[0]} iterations"
                if chosen
                else f"no shadow was chosen in {self.stops[0]} iterations"
            )
        else:
            what = (
                f"a shadow was chosen in {len(chosen)} of {len(self.stops)} repeats, after "
                f"{min(self.stops)} to {max(self.stops)} iterations; the model has the median"
            )
        names = ", ".join(self.selected) or "none"
        head = [f"probing: {what}", f"{count(len(self.selected), self.by)} selected: {names}"]
        return "\n".join([*head, "", self.model.summary()])

    def __repr__(self) -> str:
        return (
            f"<cwboost.Probe: {count(len(self.selected), self.by)} selected in "
            f"{count(self.model.n_iter, 'iteration')}, {count(len(self.stops), 'repeat')}>"
        )


@explain_unknown
def probe(
    table: Any,
    y: Any,
    learners: Any = None,
    loss: Any = "squared",
    *,
    repeats: int = 1,
    by: By = "column",
    rate: float = 0.1,
    n_iter: int = 1000,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    progress: Any = None,
) -> Probe:
    """Select the columns that boosting chooses before the first shadow.

    Every column gets a shadow: a copy with shuffled rows, which has no influence on y. All terms of
    a column share one order of rows, and so do the two columns of a pair. Boosting chooses among
    columns and shadows and ends when a shadow is chosen. One fit replaces the many fits of
    cross-validation (Thomas, Hepp, Mayr and Bischl 2017). The model is stopped early and its
    effects are shrunk, so it is common to fit the selected columns again.

    Parameters
    ----------
    table, y, learners, loss, bins, weights, offset, exposure
        See `cb.fit`.
    repeats : int
        How often shadows are drawn; the model has the median of the numbers of iterations.
    by : "column" or "term"
        Whether columns or terms are listed as selected.
    rate : float
        The learning rate; the optimizer is Plain.
    n_iter : int
        The largest number of iterations. A warning says if no shadow was chosen until then.
    random_state : int or numpy Generator
    n_threads : int, optional
        The result does not depend on it.
    progress : None, bool or Progress
        See `cb.fit`.

    Returns
    -------
    Probe

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(2)
    >>> X = rng.normal(size=(300, 20))
    >>> y = 2 * X[:, 0] + X[:, 1] ** 2 + rng.normal(size=300)
    >>> found = cb.probe(X, y)
    >>> found.selected, found.model.n_iter == found.stops[0]
    (['x0', 'x1'], True)
    """
    bar, seed = as_progress(progress), as_seed(random_state)
    check_by(by)
    check_counts(n_iter, None, n_threads)
    check_whole("repeats", repeats, 1, MAX_REPEATS)
    optimizer = as_optimizer(Plain(rate))
    binned = prepare(table, y, learners, loss, bins, weights, offset, exposure, n_threads)
    if not binned.plans:
        raise ValueError("no column varies, so there is nothing to select from")
    single = repeats == 1
    inside = threads_for(n_threads, len(binned.data.y)) if single else 1
    problem = FitProblem.pose(binned, binned.data.split, optimizer, n_threads=inside)
    jobs = [
        partial(_shadow_path, problem, n_iter, [seed, number], inside, bar if single else None)
        for number in range(repeats)
    ]
    paths = [jobs[0](lambda: False)] if single else run_all(jobs, threads_for(n_threads), bar)
    return _make_probe(problem, paths, by)


def _shadow_path(
    problem: FitProblem[PreparedRows],
    n_iter: int,
    seed: list[int],
    n_threads: int,
    bar: Progress | None,
    halt: Halt,
) -> Path:
    """Return the path of a fit that chooses among n terms and their shadows, numbered from n."""
    binned, n_terms = problem.prepared, len(problem.plans)
    sets = shuffle_sets(binned, np.random.default_rng(seed))
    systems, w = problem.systems, binned.split.training
    if w.min() < w.max():  # with equal weights a shadow has the bin weights of its column
        systems = binned.systems(bin_weights(sets, w, ArrayPool()))
    begin = len(binned.core_sets)
    terms = zip(binned.shared_bins.of_term, binned.core_rows, systems, strict=True)
    shadows = [core_learner(begin + k, effects, system) for k, effects, system in terms]
    all_sets = [*binned.core_sets, *(shuffled.core() for shuffled in sets)]
    with_shadows = replace(
        problem,
        rows=replace(binned, core_sets=all_sets).rows(n_threads),
        learners=[*problem.learners, *shadows],
    )
    return with_shadows.choose(n_iter, lambda term: term >= n_terms, halt, bar)


def shuffle_sets(binned: PreparedRows, rng: np.random.Generator) -> list[IndexSet | MomentSet]:
    """Return the index sets with shuffled rows, in the same order for all sets of a column."""
    set_of_term = zip(binned.plans, binned.shared_bins.of_term, strict=True)
    columns = {number: plan.columns for plan, number in set_of_term}
    orders: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def shuffle(number: int, bins: IndexSet | MomentSet) -> IndexSet | MomentSet:
        name = columns[number]
        if name not in orders:
            orders[name] = rng.permutation(bins.n_rows)
        return bins.reorder(orders[name])

    return [shuffle(number, bins) for number, bins in enumerate(binned.shared_bins.sets)]


def _make_probe(problem: FitProblem[PreparedRows], paths: Sequence[Path], by: By) -> Probe:
    names = [plan.name for plan in problem.plans]
    last = [int(path.choices[-1]) if path.n_iter else -1 for path in paths]
    shadows = [names[k - len(names)] if k >= len(names) else None for k in last]
    stops = [path.n_iter - (name is not None) for path, name in zip(paths, shadows, strict=True)]
    if None in shadows:
        warn_user(
            f"no shadow was chosen in {max(stops)} iterations"
            f"{f' in {shadows.count(None)} of {len(paths)} repeats' if len(paths) > 1 else ''}; "
            "raise n_iter",
        )
    order = np.argsort(stops, kind="stable")
    middle, longest = int(order[(len(order) - 1) // 2]), int(order[-1])
    template = problem.template(EarlyStopping())
    sizes = [plan.basis.n_coef for plan in problem.plans]
    path = paths[middle].until(stops[middle], sizes, template.n_outputs)
    if shadows[middle] is not None:
        path = replace(path, stopped="a shadow came")
    groups = names_by(problem.plans, by)
    first: dict[str, int] = {}
    for m, k in enumerate(paths[longest].choices[: stops[longest]], 1):
        first.setdefault(groups[k], m)
    return Probe(problem.finish(template, path), stops, shadows, first, by)
