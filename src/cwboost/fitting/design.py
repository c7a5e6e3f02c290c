"""Learners + columns -> bin indices, bases and systems. Knows which learners share a bin index,
which columns are constant, and how every learner gets its smoothing; knows nothing of losses.

`summarize_columns` finds what the training rows have in the columns, `plan_terms` decides from it
what each term is (a `Plan` is all the model keeps of it), `index_sets.make_sets` bins all rows, and
`make_systems` sets up the normal equations for one part.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost._utils.threads import map_in_threads
from cwboost.binning.min_rows import UNSEEN
from cwboost.binning.summary import ColumnSummary, Sample, summarize
from cwboost.frames.table import Column, Floats, Table
from cwboost.terms.bases import Basis, BasisRows, LevelBasis, MarkBasis, TensorBasis
from cwboost.terms.encoders import Encoder, Levels, Values
from cwboost.terms.learners import (
    Category,
    Centered,
    Learner,
    Linear,
    Missing,
    Polynomial,
    Spline,
    Step,
    Tensor,
)

if TYPE_CHECKING:
    from .index_sets import Sets

from .pair_systems import solve_pairs
from .smoothing import Spectrum, System, factorize, find_smoothing, one_blas_thread, spectrum

NET_DF = 4.0  # of learners that say nothing else: a Spline of df 5
COMPONENT_NET_DF = (
    1.0  # if there are Centered learners: a straight line is as flexible as any other
)
MAX_TENSOR_COEF = 4096  # whose system takes 134 MB
MAX_CORE_COEF = 64  # larger systems are LAPACK's
MIN_PASS_ROWS = 300_000  # rows from which on a pass over a column is worth another thread
MIN_SORT_ROWS = 10_000  # from which on a sort is
MISSING_LEVEL = "missing"


@dataclass(frozen=True, eq=False)
class Plan:
    """One term as the training rows decided it."""

    name: str
    learner: Learner
    encoders: tuple[Encoder, ...]  # one per column
    basis: Basis
    net_df: float | None  # the default to aim at; None: the learner says df or smoothing

    @property
    def columns(self) -> tuple[str, ...]:
        return self.learner.columns

    def encode(self, columns: Sequence[Column]) -> Floats:
        """Values that the basis is evaluated at: (n,), or (n, 2) for a pair of columns."""
        values = [e.encode(c) for e, c in zip(self.encoders, columns, strict=True)]
        return values[0] if len(values) == 1 else np.column_stack(values)

    def count_unseen(self, values: Floats) -> dict[str, int]:
        """Rows whose level training did not have, for columns that have such rows."""
        axes = values.reshape(len(values), len(self.encoders)).T
        out = {}
        for column, encoder, axis in zip(self.columns, self.encoders, axes, strict=True):
            if isinstance(encoder, Levels) and encoder.levels and np.any(axis == UNSEEN):
                out[column] = int(np.sum(axis == UNSEEN))
        return out


# --- which learners ------------------------------------------------------------------------------


def check_learners(learners: Any, table: Table) -> list[Learner]:
    if isinstance(learners, Learner | str):
        learners = [learners]
    if not isinstance(learners, Iterable):
        learners = [learners]
    out: list[Learner] = []
    for learner in learners:
        if not isinstance(learner, Learner):
            raise TypeError(
                f"learners: expected learners such as cb.Spline('age'), got {learner!r} of type "
                f"{type(learner).__name__}"
            )
        for name in learner.columns:
            if name not in table:
                table[name]  # raises, and says what the table has
        out.append(learner)
    return out


def summarize_columns(
    names: Iterable[str], table: Table, sample: Sample, n_threads: int
) -> dict[str, ColumnSummary]:
    """What the sample has in the columns of a table; refuses infinite numbers."""
    names = list(names)

    def seen(name: str) -> ColumnSummary:
        column = table.unchecked(name)
        found = summarize(column, sample)
        table.check(column, found.infinite)
        return found

    threads = table.at_a_time(n_threads) if table.n_rows >= MIN_PASS_ROWS else 1
    return dict(zip(names, map_in_threads(seen, names, threads), strict=True))


def _drop_constant(
    learners: list[Learner], table: Table, seen: Mapping[str, ColumnSummary]
) -> list[Learner]:
    """Learners of columns that say nothing go, with one warning; those that are constant but for
    missing cells become the effect of being missing."""
    few = (Linear, Polynomial, Spline)  # cannot be made from one value
    kept: list[Learner] = []
    dropped: list[str] = []
    for learner in learners:
        if isinstance(learner, Category) and seen[learner.column].kind == "numbers":
            table[learner.column].labels()  # refuses integers that only look alike
        constant = [name for name in learner.columns if _says_nothing(learner, seen[name])]
        if constant:
            dropped += [name for name in constant if name not in dropped]
        elif isinstance(learner, few) and not seen[learner.columns[0]].varies:
            kept.append(Step(learner.columns[0], name=learner.name))  # its value, and missing
        else:
            kept.append(learner)
    if dropped:
        warnings.warn(
            "constant in the training rows and therefore left out: " + ", ".join(dropped),
            UserWarning,
            stacklevel=5,
        )
    return kept


def _says_nothing(learner: Learner, seen: ColumnSummary) -> bool:
    """Whether the learner would have the same cell in all rows."""
    if seen.varies:
        return isinstance(learner, Missing) and not seen.missing
    return seen.empty or not seen.missing or isinstance(learner, Tensor)


def _add_missing(learners: list[Learner], seen: Mapping[str, ColumnSummary]) -> list[Learner]:
    """Missing(column) beside learners of columns with missing cells that cannot show them."""
    cannot = (Linear, Polynomial, Centered)
    if not any(seen[x.columns[0]].missing for x in learners if isinstance(x, cannot)):
        return learners
    shown = {
        learner.columns[0]
        for learner in learners
        if not isinstance(learner, Tensor) and not isinstance(learner, cannot)
    }
    out: list[Learner] = []
    for learner in learners:
        out.append(learner)
        column = learner.columns[0]
        if isinstance(learner, cannot) and column not in shown and seen[column].missing:
            out.append(Missing(column))
            shown.add(column)
    return out


def _names(learners: list[Learner]) -> list[str]:
    """The column; "spline(age)" if several share it; "lon:lat" for a pair."""
    single = Counter(x.columns[0] for x in learners if not isinstance(x, Tensor))
    names = []
    for learner in learners:
        if learner.name is not None:
            names.append(learner.name)
        elif isinstance(learner, Tensor):
            names.append(":".join(learner.columns))
        elif single[learner.columns[0]] > 1:
            names.append(f"{learner.kind_name}({learner.columns[0]})")
        else:
            names.append(learner.columns[0])
    return names


# --- plans ---------------------------------------------------------------------------------------


def plan_terms(
    learners: list[Learner],
    table: Table,
    sample: Sample,
    seen: Mapping[str, ColumnSummary],
    n_threads: int = 1,
    beside: Sequence[Plan] = (),
) -> list[Plan]:
    """What each term is, from what the sample has in the columns; `beside` are other terms of the
    model."""
    learners = _add_missing(_drop_constant(learners, table, seen), seen)
    everybody = [*learners, *(plan.learner for plan in beside)]
    components = any(isinstance(learner, Centered) for learner in everybody)
    aim = COMPONENT_NET_DF if components else NET_DF
    margins: dict[Learner, tuple[Encoder, Basis]] = {}  # many pairs share a column

    def plan(named: tuple[str, Learner]) -> list[Plan]:
        name, learner = named
        stated = learner.smoothing is not None or learner.target_df is not None
        net_df = None if stated else aim
        if isinstance(learner, Tensor):
            if sample.least is not None:
                raise ValueError(
                    f"min_rows_per_bin: the cells of {name!r}, a pair of columns, cannot be merged "
                    "with neighbours; leave pairs out"
                )
            return [_plan_tensor(name, learner, table, sample, seen, net_df, margins)]
        return _plan_single(name, learner, table, sample, seen, net_df)

    named = list(zip(_names(learners), learners, strict=True))
    sorting = sample.n_rows >= MIN_SORT_ROWS and _sorts(learners)
    threads = table.at_a_time(n_threads) if sorting else 1
    plans = [p for made in map_in_threads(plan, named, threads) for p in made]
    names = Counter(p.name for p in (*plans, *beside))
    repeated = [name for name, n in names.items() if n > 1]
    if repeated:
        raise ValueError(
            f"two terms are named {repeated[0]!r}; give learners of one kind on one column "
            "different names with name="
        )
    return plans


def _sorts(learners: Iterable[Learner]) -> bool:
    """Whether making their bases takes more than what has been seen of the columns."""
    return any(
        isinstance(x, Step) or (isinstance(x, Spline) and x.knot_placement == "quantile")
        for x in learners
    )


def _make_basis(
    learner: Learner, table: Table, sample: Sample, seen: Mapping[str, ColumnSummary]
) -> tuple[Encoder, Basis]:
    facts = seen[learner.columns[0]]
    encoder = learner.encoder(table, facts, sample)
    if sample.least is not None:
        column = table[learner.columns[0]]
        if isinstance(encoder, Values):
            learner, facts = _within_points(learner, column, sample, facts)
        else:
            encoder = encoder.merged(column, facts, sample.least)
    return encoder, learner.basis(table, encoder, facts, sample)


def _within_points(
    learner: Learner, column: Column, sample: Sample, facts: ColumnSummary
) -> tuple[Learner, ColumnSummary]:
    """Where bins of the tails are merged, a curve has no data beyond the last points: its knots end
    there, and beyond it is flat."""
    least = sample.least
    assert least is not None
    points = least.points(column, learner.bin_rule(least.rule), sample, facts).points
    if isinstance(learner, Spline):
        learner = replace(learner, extrapolate="constant")
    return learner, facts._replace(low=float(points[0]), high=float(points[-1]))


def _plan_single(
    name: str,
    learner: Learner,
    table: Table,
    sample: Sample,
    seen: Mapping[str, ColumnSummary],
    net_df: float | None,
) -> list[Plan]:
    encoder, basis = _make_basis(learner, table, sample, seen)
    if not (isinstance(learner, Category) and learner.kind == "binary"):
        return [Plan(name, learner, (encoder,), basis, net_df)]
    assert isinstance(encoder, Levels)
    assert isinstance(basis, LevelBasis)
    prefix = learner.name or learner.column
    marks: list[tuple[str, int | None]] = [
        (f"{prefix}={x}", i) for i, x in enumerate(encoder.levels)
    ]
    if basis.missing:
        label = MISSING_LEVEL
        while label in encoder.levels:
            label = f"({label})"
        marks.append((f"{prefix}={label}", None))
    return [
        Plan(label, learner, (encoder,), MarkBasis(level=level, missing=basis.missing), net_df)
        for label, level in marks
    ]


def _plan_tensor(
    name: str,
    learner: Tensor,
    table: Table,
    sample: Sample,
    seen: Mapping[str, ColumnSummary],
    net_df: float | None,
    made: dict[Learner, tuple[Encoder, Basis]],
) -> Plan:
    def n_levels(column: str) -> int | None:
        numeric = seen[column].kind == "numbers" and not seen[column].boolean
        return None if numeric else len(table[column].labels().levels)

    encoders, bases = [], []
    for margin in learner.margins(n_levels, sample.n_rows):
        if margin not in made:
            made[margin] = _make_basis(margin, table, sample, seen)
        encoder, basis = made[margin]
        encoders.append(encoder)
        bases.append(basis)
    a, b = bases
    if a.n_coef * b.n_coef > MAX_TENSOR_COEF:
        raise ValueError(
            f"Tensor{learner.columns}: {a.n_coef} x {b.n_coef} coefficients are more than "
            f"{MAX_TENSOR_COEF}; take fewer knots or levels"
        )
    return Plan(
        name, learner, tuple(encoders), TensorBasis(a=a, b=b, orthogonal=learner.orthogonal), net_df
    )


# --- systems -------------------------------------------------------------------------------------


def basis_rows(
    plans: Sequence[Plan],
    sets: Sets,
    weights: Sequence[Floats],
    room: ArrayPool,
    n_threads: int = 1,
) -> tuple[list[Plan], list[BasisRows]]:
    """The rows of every basis over the bins of its set, whose bins have these weights.

    Bins that a basis does not know take its mean row over the training rows; it is found first
    where there are such bins. (A plan that has been fitted knows it already.)
    """

    def rows_of(term: tuple[Plan, int]) -> tuple[Plan, BasisRows]:
        plan, number = term
        values, basis = sets.sets[number].values, plan.basis
        if not basis.needs_mean(values):
            return plan, basis.rows(values, room)
        basis = basis.with_mean(values, weights[number])
        return replace(plan, basis=basis), basis.all_rows(values, room)

    terms = list(zip(plans, sets.of_term, strict=True))
    most = max((s.n_bins for s in sets.sets), default=0)
    found = map_in_threads(rows_of, terms, n_threads if most >= MIN_SORT_ROWS else 1)
    return [plan for plan, _ in found], [rows for _, rows in found]


def complete(plans: Sequence[Plan], systems: Sequence[System]) -> None:
    """Tells bases that this fit has made, and nobody else has seen, their mean rows."""
    for plan, system in zip(plans, systems, strict=True):
        if plan.basis.mean is None:
            object.__setattr__(plan.basis, "mean", system.mean)


def centred(plans: Sequence[Plan], systems: Sequence[System]) -> list[Plan]:
    """The plans of other training rows than those that made them: with these rows' means."""
    return [
        replace(plan, basis=replace(plan.basis, mean=system.mean))
        for plan, system in zip(plans, systems, strict=True)
    ]


def make_systems(
    plans: Sequence[Plan],
    rows: Sequence[BasisRows],
    weights: Sequence[Floats],
    given: Sequence[float | None],
    n_threads: int = 1,
) -> list[System]:
    """Normal equations of all terms for the bin weights (per term) of one part.

    A `given` smoothing is taken as it is; else the learner's, or the one that its df ask for.
    """
    systems: list[System | None] = [None] * len(plans)
    of_size: dict[int, list[tuple[int, Any]]] = {}  # terms that the core can solve, and penalties
    pairs: list[int] = []  # terms without main effects
    for k, plan in enumerate(plans):
        if plan.basis.is_interaction:
            pairs.append(k)
            continue
        penalty = plan.basis.penalty()
        if penalty.ndim == 2 and 1 < len(penalty) <= MAX_CORE_COEF:
            of_size.setdefault(len(penalty), []).append((k, penalty))
    for d, terms in of_size.items():
        grams, factors = np.empty((2, len(terms), d, d))
        means, numbers = np.empty((len(terms), d)), np.empty((len(terms), 4))
        tasks = [
            (rows[k], weights[k], penalty, _aim(plans[k], given[k]), gram, factor, mean)
            for (k, penalty), gram, factor, mean in zip(terms, grams, factors, means, strict=True)
        ]
        _core.solve_systems(tasks, numbers, n_threads)
        for (k, _), task, found in zip(terms, tasks, numbers.tolist(), strict=True):
            smoothing, df, net_df, fine = found
            if fine:
                systems[k] = _finished(plans[k], System(*task[4:], smoothing, df, net_df))
    aims = [(plans[k].basis, rows[k], weights[k], _aim(plans[k], given[k])) for k in pairs]
    for k, system in zip(pairs, solve_pairs(aims, n_threads), strict=True):
        if system is None:
            raise _too_few(plans[k])
        systems[k] = system
    if None in systems:
        with one_blas_thread():  # many small systems; threads only wait
            for k, plan in enumerate(plans):
                if systems[k] is None:
                    systems[k] = _make_system(plan, rows[k], weights[k], given[k])
    return systems  # type: ignore[return-value]


def _aim(plan: Plan, given: float | None) -> tuple[float, float, bool, bool, int]:
    """What the core aims at: smoothing (NaN: by df), df, whether net, whether tr(H), null dim."""
    learner = plan.learner
    smoothing = learner.smoothing if given is None else given
    trace, free, beside = learner.df_kind == "df1", plan.basis.null_dim, learner.df_beside
    if smoothing is not None:
        return smoothing, 0.0, False, trace, free
    df = learner.target_df
    if df is not None:
        return np.nan, df + beside, False, trace, free
    net = plan.net_df or 0.0
    if plan.basis.is_interaction:
        net = max(net, free + 1.0)
    return np.nan, net + beside, not beside, trace, free


def _finished(plan: Plan, system: System) -> System:
    """The system of a learner that is kept orthogonal to some functions, if it is one."""
    removed = plan.basis.removed()
    if removed is None:
        return system
    df = system.df - plan.learner.df_beside
    onto = system.gram @ removed.T
    weigher = np.ascontiguousarray(np.linalg.lstsq(removed @ onto, onto.T, rcond=None)[0])
    return system._replace(df=df, net_df=df, removed=removed, weigher=weigher)


def _make_system(plan: Plan, rows: BasisRows, w: Floats, given: float | None) -> System:
    """What make_systems does, by NumPy and LAPACK: for systems that are large or diagonal, and for
    those that have directions without data or ask for what cannot be."""
    total = float(w.sum())
    basis, kind = plan.basis, plan.learner.df_kind
    penalty = basis.penalty()
    weighted = rows.value * np.repeat(w, np.diff(rows.begin))
    mean = np.bincount(rows.column, weighted, basis.n_coef) / total
    if penalty.ndim == 1:
        squares = np.bincount(rows.column, weighted * rows.value, basis.n_coef)
        gram = np.asarray(squares, dtype=np.float64)
    else:
        left, right = (r.matrix(basis.n_coef) for r in (rows._replace(value=weighted), rows))
        gram = np.ascontiguousarray((left.T @ right).toarray(), dtype=np.float64)
    # The spectrum is that of weights summing to one; so is tau, and lambda is scaled back.
    spec = spectrum(gram / total, penalty, basis.null_dim, mean)
    smoothing = plan.learner.smoothing if given is None else given
    if smoothing is None:
        smoothing = total * _smoothing(plan, spec)
    df, net_df = (f(smoothing / total, kind) for f in (spec.df, spec.net_df))
    factor = factorize(gram, penalty, smoothing)
    return _finished(plan, System(gram, factor, mean, smoothing, df, net_df))


def _smoothing(plan: Plan, spec: Spectrum) -> float:
    learner, beside = plan.learner, plan.learner.df_beside
    kind, df = learner.df_kind, learner.target_df
    if df is None:
        aim = plan.net_df or 0.0
        if beside:
            return find_smoothing(spec, aim + beside, kind)
        found = find_smoothing(spec, aim, kind, net=True)
        # A penalty that leaves more than that free (columns for missing cells): one df above it.
        if np.isnan(found):
            found = find_smoothing(spec, plan.basis.null_dim, kind, net=True)
        return found
    found = find_smoothing(spec, df + beside, kind)
    if np.isnan(found):
        raise _too_few(plan)
    return found


def _too_few(plan: Plan) -> ValueError:
    learner, free = plan.learner, plan.basis.null_dim - plan.learner.df_beside
    return ValueError(
        f"{type(learner).__name__}({', '.join(map(repr, learner.columns))}): df = "
        f"{learner.target_df:g} is too small: the penalty leaves {free:g} free whatever the "
        f"smoothing; take df above {free:g}"
    )


# --- for the core --------------------------------------------------------------------------------


def core_learner(number: int, rows: BasisRows, system: System) -> _core.Learner:
    gram, factor, removed, weigher = system.gram, system.factor, system.removed, system.weigher
    return _core.Learner(number, *rows, gram, factor, removed, weigher, system.n_b)
