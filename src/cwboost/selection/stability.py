"""Stability selection, cb.stability: which columns do fits to random halves of the rows choose most
often? The error bounds are in stability_bounds.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from textwrap import wrap
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import check_one_of, check_whole
from cwboost._utils.cores import threads_for
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost._utils.user_warnings import warn_user
from cwboost.fitting.input_data import FitData, Split
from cwboost.fitting.options import as_seed, check_counts
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.preparation import prepare
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.optimizers import Plain, as_optimizer
from cwboost.progress import as_progress

from .folds import read_groups
from .grouping import By, check_by, names_by
from .stability_bounds import check_bound, complete

N_SAMPLES = {"complementary": 50, "subsampling": 100}  # default number of pairs, or of halves
DEFAULT_ASSUMPTIONS = {"complementary": "unimodal", "subsampling": "none"}
MAX_SAMPLES = 100_000
MAX_NAMES = 10  # names in a repr


@dataclass(frozen=True, eq=False)
class Stability:
    """The result of `cb.stability`.

    Attributes
    ----------
    q : int
        The number of columns (or terms) that every fit chose.
    cutoff : float
        A column is selected if at least this share of the fits chose it.
    pfer : float
        Upper bound of the expected number of columns selected by chance.
    first : array of shape (fits, columns)
        The iteration in which a fit chose a column first; 0 if it did not.
    names : list of str
        The columns (or terms), in the order of the table.
    """

    names: Sequence[str]
    first: NDArray[np.int64] = field(repr=False)
    q: int
    cutoff: float
    pfer: float
    sampling: str
    assumption: str
    n_samples: int
    by: By

    @cached_property
    def frequency(self) -> dict[str, float]:
        """Share of the fits that chose each column, the largest first."""
        shares = np.mean(self.first > 0, axis=0)
        order = np.argsort(-shares, kind="stable")
        return {self.names[k]: float(shares[k]) for k in order}

    @property
    def selected(self) -> list[str]:
        """The columns that at least a share `cutoff` of the fits chose, the most frequent first."""
        least = self.cutoff - 1e-9  # shares are multiples of 1 / fits up to rounding
        return [name for name, share in self.frequency.items() if share >= least]

    @property
    def path(self) -> Floats:
        """(M + 1, columns) share of the fits that had chosen a column after 0..M iterations."""
        last = int(self.first.max(initial=0))
        out = np.zeros((last + 1, len(self.names)))
        for k, first in enumerate(self.first.T):
            out[:, k] = np.bincount(first[first > 0], minlength=last + 1).cumsum() / len(first)
        return out

    def with_cutoff(self, cutoff: float | None = None, pfer: float | None = None) -> Stability:
        """Return the selection of the same fits for another cutoff or another bound.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(100, 10))
        >>> found = cb.stability(X, X[:, 0] + rng.normal(size=100), q=2, cutoff=0.9, n_samples=10)
        >>> round(found.pfer, 2), round(found.with_cutoff(0.7).pfer, 2)
        (0.22, 0.57)
        """
        bound = complete(
            len(self.names),
            q=self.q,
            cutoff=cutoff,
            pfer=pfer,
            assumption=self.assumption,
            n_samples=self.n_samples,
        )
        return replace(self, cutoff=bound.cutoff, pfer=bound.pfer)

    def table(self) -> ResultTable:
        """Return a table with one row per column: frequency, whether it is selected, and the median
        iteration in which a fit chose it first (NaN if none did)."""
        place = {name: k for k, name in enumerate(self.names)}
        names, selected = list(self.frequency), set(self.selected)
        firsts = [self.first[:, place[name]] for name in names]
        when = [float(np.median(f[f > 0])) if np.any(f > 0) else np.nan for f in firsts]
        return ResultTable(
            {
                self.by: np.array(names, dtype=object),
                "frequency": np.array(list(self.frequency.values())),
                "selected": np.array([name in selected for name in names]),
                "first chosen": np.array(when),
            }
        )

    def summary(self) -> str:
        """Return the settings, the selected columns and the meaning of the bound as text."""
        p, plural, found = len(self.names), f"{self.by}s", self.selected
        drawn = {
            "complementary": f"{self.n_samples} pairs of halves",
            "subsampling": f"{self.n_samples} halves",
        }[self.sampling]
        means = (
            f"On average at most {self.pfer:.3g} of the selected {plural} are selected by chance, "
            f"that is, are {plural} that a fit chooses at most as often as a random choice of "
            f"{self.q} of {p} would{_assuming(self.assumption)}."
        )
        lines = [
            f"stability selection, {drawn} of the rows: {len(self.first)} fits until {self.q} of "
            f"{p} {plural} were chosen",
            f"selected are {plural} that at least {100 * self.cutoff:.4g}% of the fits chose: "
            f"{len(found)}",
            *wrap(means, 100),
            "",
            f"{self.by:<32} frequency",
        ]
        for name, share in list(self.frequency.items())[: len(found) + 5]:
            mark = "selected" if name in found else ""
            lines.append(f"{_short(name):<32} {share:9.2f}  {mark}".rstrip())
        return "\n".join(lines)

    def plot(self, kind: Literal["frequency", "path"] = "frequency", **options: Any) -> Any:
        """Draw the frequencies with the cutoff, or their growth over the iterations (extra `plot`);
        see StabilityDisplay for the options.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> import matplotlib; matplotlib.use("agg")
        >>> X = np.random.default_rng(0).normal(size=(100, 10))
        >>> found = cb.stability(X, X @ np.arange(10), q=2, cutoff=0.9, n_samples=10)
        >>> found.plot().ax_.get_xlabel()
        'share of the fits that chose the column'
        >>> import matplotlib.pyplot as plt; plt.close()
        """
        from cwboost.plotting.stability import StabilityDisplay

        return StabilityDisplay.from_stability(self, kind=kind, **options)

    def __repr__(self) -> str:
        found = self.selected
        names = ", ".join(found[:MAX_NAMES]) + ", ..." * (len(found) > MAX_NAMES)
        return (
            f"<cwboost.Stability: {len(found)} of {len(self.names)} {self.by}s selected"
            f"{': ' if found else ''}{names} (cutoff {self.cutoff:.4g}, q {self.q}, "
            f"PFER <= {self.pfer:.3g})>"
        )


def _assuming(assumption: str) -> str:
    if assumption == "none":
        return ""
    return f" (assuming {assumption} distributions of the frequencies)"


def _short(name: str) -> str:
    return name if len(name) <= 32 else name[:29] + "..."


@explain_unknown
def stability(
    table: Any,
    y: Any,
    learners: Any = None,
    loss: Any = "squared",
    *,
    q: int | None = None,
    cutoff: float | None = None,
    pfer: float | None = None,
    sampling: Literal["complementary", "subsampling"] = "complementary",
    assumption: Literal["unimodal", "r-concave", "none"] | None = None,
    n_samples: int | None = None,
    by: By = "column",
    rate: float = 0.1,
    n_iter: int = 1000,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    groups: Any = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    progress: Any = None,
) -> Stability:
    """Select the columns that fits to random halves of the rows choose most often.

    Every fit runs until it has chosen q columns. A column is selected if at least a share `cutoff`
    of the fits chose it. The expected number of columns selected by chance is then at most `pfer`
    (per-family error rate). Pass two of q, cutoff and pfer; the third follows.

    Parameters
    ----------
    table, y, learners, loss, bins, weights, offset, exposure
        See `cb.fit`.
    q : int, optional
        The number of columns that every fit chooses.
    cutoff : float, optional
        Above 0.5 (with "r-concave" above q/p); 0.6 to 0.9 is usual.
    pfer : float, optional
        The expected number of columns selected by chance that is acceptable.
    sampling : "complementary" or "subsampling"
        Pairs of halves that have no row in common (Shah and Samworth), or halves drawn
        independently (Meinshausen and Bühlmann).
    assumption : "unimodal", "r-concave" or "none", optional
        The assumption about the distribution of the frequencies of columns without influence. A
        stronger assumption allows a larger q. The default is "unimodal" for pairs; single halves
        allow only "none".
    n_samples : int, optional
        The number of pairs (default 50), or of halves (default 100).
    by : "column" or "term"
        Whether the terms of a column count as one.
    rate : float
        The learning rate; the optimizer is Plain.
    n_iter : int
        The largest number of iterations of a fit. A warning says if a fit needed more to choose q
        columns.
    groups : array or name of a column, optional
        Rows of a group go to the same half; the column does not get a term. Without groups the
        halves are stratified by class.
    random_state : int or numpy Generator
    n_threads : int, optional
        The number of fits at a time, by default one per core; the result does not depend on it.
    progress : None, bool or Progress
        See `cb.fit`.

    Returns
    -------
    Stability

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 30))
    >>> y = X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=200)
    >>> found = cb.stability(X, y, cutoff=0.75, pfer=1)
    >>> found.q, found.selected
    (5, ['x0', 'x1'])
    """
    bar, seed = as_progress(progress), as_seed(random_state)
    assumption = _check(sampling, assumption, n_samples, by)
    check_bound(None, q, cutoff, pfer, assumption)
    check_counts(n_iter, None, n_threads)
    optimizer = as_optimizer(Plain(rate))
    apart = [groups] if isinstance(groups, str) else []
    binned = prepare(table, y, learners, loss, bins, weights, offset, exposure, n_threads, apart)
    together = None if groups is None else read_groups(groups, binned.data)
    if together is not None and together.max() == 0:
        raise ValueError("groups: all rows are in one group, which cannot be halved")
    ids, names = _number_names(names_by(binned.plans, by))
    if not names:
        raise ValueError("no column varies, so there is nothing to select from")
    samples = N_SAMPLES[sampling] if n_samples is None else n_samples
    bound = complete(
        len(names), q=q, cutoff=cutoff, pfer=pfer, assumption=assumption, n_samples=samples
    )
    pairs = sampling == "complementary"
    halves = RandomHalves.make(binned.data, pairs, seed, together)

    def run(number: int, halt: Halt) -> NDArray[np.int64]:
        w = np.where(halves[number], binned.data.weights, 0.0)
        problem = FitProblem.pose(binned, Split(w, None, w), optimizer)
        return _first_iterations(problem, ids, bound.q, n_iter, halt)

    jobs = [partial(run, number) for number in range(2 * samples if pairs else samples)]
    first = np.array(run_all(jobs, threads_for(n_threads), bar))
    _warn_if_few_chosen(first, bound.q, n_iter, by)
    return Stability(names, first, *bound, sampling, assumption, samples, by)


def _check(sampling: str, assumption: Any, n_samples: Any, by: str) -> Any:
    """Raise if arguments are invalid or contradict each other; return the assumption."""
    check_one_of("sampling", sampling, N_SAMPLES)
    if sampling == "subsampling" and assumption not in (None, "none"):
        raise ValueError(
            f"assumption: {quote(assumption)} needs pairs of halves; use sampling='complementary' "
            "or assumption='none'"
        )
    if n_samples is not None:
        check_whole("n_samples", n_samples, 2, MAX_SAMPLES)
    check_by(by)
    return DEFAULT_ASSUMPTIONS[sampling] if assumption is None else assumption


def _number_names(groups: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the number of each term's name, and the distinct names."""
    names = list(dict.fromkeys(groups))
    place = {name: k for k, name in enumerate(names)}
    return [place[name] for name in groups], names


@dataclass(frozen=True, eq=False)
class RandomHalves:
    """Random halves of the rows, indexed by number. In pairs, halves 2 b and 2 b + 1 have no row in
    common.

    The halves are stratified by class, or keep the rows of a group together. If the number of rows
    (or groups) is odd, one is in neither half.
    """

    seed: int
    pairs: bool
    strata: Floats  # (units,) strata of the rows, or of the groups
    unit: NDArray[np.int64] | None  # (n,) the group of each row

    @classmethod
    def make(
        cls, data: FitData, pairs: bool, seed: int, groups: NDArray[np.int64] | None
    ) -> RandomHalves:
        """Prepare halves of the rows of a fit."""
        if groups is not None:
            return cls(seed, pairs, np.zeros(groups.max() + 1), groups)
        return cls(seed, pairs, data.y if data.classes else np.zeros(len(data.y)), None)

    def __getitem__(self, number: int) -> NDArray[np.bool_]:
        """(n,) mask of the rows of a half."""
        draw, side = divmod(number, 2) if self.pairs else (number, 0)
        n = len(self.strata)
        order = np.random.default_rng([self.seed, draw]).permutation(n)
        order = order[np.argsort(self.strata[order], kind="stable")]
        marks = np.zeros(n, dtype=bool)
        marks[order[side : n - n % 2 : 2]] = True  # neighbours go to different halves
        return marks if self.unit is None else marks[self.unit]


def _first_iterations(
    problem: FitProblem[PreparedRows], ids: Sequence[int], q: int, n_iter: int, halt: Halt
) -> NDArray[np.int64]:
    """Run a fit until it has chosen q columns; return when it chose each first, 0 for never."""
    chosen: set[int] = set()

    def enough(term: int) -> bool:
        chosen.add(ids[term])
        return len(chosen) == q

    choices = np.asarray(ids)[problem.choose(n_iter, enough, halt).choices]
    found, first = np.unique(choices, return_index=True)
    out = np.zeros(max(ids) + 1, dtype=np.int64)
    out[found] = first + 1
    return out


def _warn_if_few_chosen(first: NDArray[np.int64], q: int, n_iter: int, by: str) -> None:
    few = int(np.sum(np.count_nonzero(first, axis=1) < q))
    if few:
        warn_user(
            f"{few} of {len(first)} fits chose fewer than q = {q} {by}s in {n_iter} iterations: "
            "frequencies may be too low (the bound holds); raise n_iter, or lower q",
        )
