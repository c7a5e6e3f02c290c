"""Learners + columns -> bin indices, bases and systems. Knows which learners share a bin index,
which columns are constant, and how every learner gets its smoothing; knows nothing of losses.

`plan_terms` decides from the training rows what each term is (a `Plan` is all the model keeps of
it), `make_sets` bins all rows, and `make_systems` sets up the normal equations for one part.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from . import _core
from .bases import Basis, LevelBasis, MarkBasis, PowerBasis, TensorBasis
from .bins import UNSEEN, Bins, Encoder, IndexSet, Levels, Values, assign_codes, pair
from .learners import (
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
from .smoothing import System, factorize, find_smoothing, spectrum
from .table import Column, Floats, Numbers, Table

NET_DF = 4.0  # of learners that say nothing else: a Spline of df 5
COMPONENT_NET_DF = (
    1.0  # if there are Centered learners: a straight line is as flexible as any other
)
MAX_TENSOR_BINS = 255  # per axis
MAX_TENSOR_COEF = 4096  # whose system takes 134 MB
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


def _drop_constant(learners: list[Learner], training: dict[str, Column]) -> list[Learner]:
    """Learners of columns that say nothing go, with one warning; those that are constant but for
    missing cells become the effect of being missing."""
    few = (Linear, Polynomial, Spline)  # cannot be made from one value
    kept: list[Learner] = []
    dropped: list[str] = []
    for learner in learners:
        if isinstance(learner, Category):
            training[learner.column].labels()  # refuses integers that only look alike
        facts = [_variety(training[name]) for name in learner.columns]
        constant = [
            name
            for name, (distinct, missing) in zip(learner.columns, facts, strict=True)
            if distinct + missing < 2
            or (isinstance(learner, Missing) and not missing)
            or (isinstance(learner, Tensor) and distinct < 2)
        ]
        if constant:
            dropped += [name for name in constant if name not in dropped]
        elif isinstance(learner, few) and facts[0][0] < 2:
            kept.append(Step(learner.columns[0], name=learner.name))  # its value, and missing
        else:
            kept.append(learner)
    if dropped:
        warnings.warn(
            "constant in the training rows and therefore left out: " + ", ".join(dropped),
            UserWarning,
            stacklevel=4,
        )
    return kept


def _variety(column: Column) -> tuple[int, bool]:
    """How many distinct values there are (counted up to two), and whether cells are missing."""
    known = column.values if isinstance(column, Numbers) else column.codes
    known = known[~column.missing]
    distinct = 0 if len(known) == 0 else 1 if np.all(known == known[0]) else 2
    return distinct, bool(column.missing.any())


def _add_missing(learners: list[Learner], training: dict[str, Column]) -> list[Learner]:
    """Missing(column) beside learners of columns with missing cells that cannot show them."""
    cannot = (Linear, Polynomial, Centered)
    shown = {
        learner.columns[0]
        for learner in learners
        if not isinstance(learner, Tensor) and not isinstance(learner, cannot)
    }
    out: list[Learner] = []
    for learner in learners:
        out.append(learner)
        column = learner.columns[0]
        lacks = isinstance(learner, cannot) and column not in shown
        if lacks and training[column].missing.any():
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
    learners: list[Learner], table: Table, training: NDArray[np.bool_], weights: Floats
) -> list[Plan]:
    """What each term is, from the rows of `training` and their weights."""
    names = list(dict.fromkeys(name for learner in learners for name in learner.columns))
    columns = {name: table[name].take(training) for name in names}
    w = weights[training]
    learners = _add_missing(_drop_constant(learners, columns), columns)
    components = any(isinstance(learner, Centered) for learner in learners)
    aim = COMPONENT_NET_DF if components else NET_DF
    plans: list[Plan] = []
    for name, learner in zip(_names(learners), learners, strict=True):
        stated = learner.target_df is not None or learner.smoothing is not None
        net_df = None if stated else aim
        if isinstance(learner, Tensor):
            plans.append(_plan_tensor(name, learner, columns, w, net_df))
        else:
            plans += _plan_single(name, learner, columns[learner.columns[0]], w, net_df)
    repeated = [name for name, n in Counter(p.name for p in plans).items() if n > 1]
    if repeated:
        raise ValueError(
            f"two terms are named {repeated[0]!r}; give learners of one kind on one column "
            "different names with name="
        )
    return plans


def _make_basis(learner: Learner, column: Column, w: Floats) -> tuple[Encoder, Basis]:
    encoder = learner.encoder(column, w)
    values = encoder.encode(column)
    known = ~np.isnan(values)
    return encoder, learner.basis(values[known], w[known], not known.all())


def _plan_single(
    name: str, learner: Learner, column: Column, w: Floats, net_df: float | None
) -> list[Plan]:
    encoder, basis = _make_basis(learner, column, w)
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
    name: str, learner: Tensor, columns: dict[str, Column], w: Floats, net_df: float | None
) -> Plan:
    def is_number(column: str) -> bool:
        found = columns[column]
        return isinstance(found, Numbers) and not found.boolean

    encoders, bases = [], []
    for margin in learner.margins(is_number):
        encoder, basis = _make_basis(margin, columns[margin.columns[0]], w)
        encoders.append(encoder)
        bases.append(basis)
    a, b = bases
    if a.n_coef * b.n_coef > MAX_TENSOR_COEF:
        raise ValueError(
            f"Tensor{learner.columns}: {a.n_coef} x {b.n_coef} coefficients are more than "
            f"{MAX_TENSOR_COEF}; take fewer knots or levels"
        )
    return Plan(name, learner, tuple(encoders), TensorBasis(a=a, b=b), net_df)


# --- sets ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sets:
    """Bin indices of all rows, each shared by the terms that see their column alike."""

    sets: list[IndexSet]
    of_term: list[int]  # number of the set of each plan


def make_sets(
    plans: Sequence[Plan], table: Table, training: NDArray[np.bool_], weights: Floats, default: Bins
) -> Sets:
    """Bins for all rows by rules that see the training rows."""
    sets: list[IndexSet] = []
    made: dict[Any, int] = {}

    def number(key: Any, make: Any) -> int:
        if key not in made:
            made[key] = len(sets)
            sets.append(make())
        return made[key]

    of_term = []
    for plan in plans:
        tensor = isinstance(plan.learner, Tensor)
        rules = (
            plan.learner.axis_rules(default)
            if isinstance(plan.learner, Tensor)
            else [plan.learner.bin_rule(default)]
        )
        axes = [
            _axis(table[name], encoder, rule, training, weights, tensor)
            for name, encoder, rule in zip(plan.columns, plan.encoders, rules, strict=True)
        ]
        keys = tuple(key for key, _ in axes)
        if len(axes) == 1:
            of_term.append(number(keys, axes[0][1]))
        else:
            of_term.append(number(keys, lambda axes=axes: pair(axes[0][1](), axes[1][1]())))
    return Sets(sets, of_term)


def _axis(
    column: Column,
    encoder: Encoder,
    rule: Bins,
    training: NDArray[np.bool_],
    weights: Floats,
    tensor: bool,
) -> tuple[Any, Any]:
    """A key that tells equal bins, and a function that makes them."""
    key = (column.name, encoder, rule if isinstance(encoder, Values) else None, tensor)

    def make() -> IndexSet:
        values = encoder.encode(column)
        if not isinstance(encoder, Values):
            made = assign_codes(values)
        else:
            known = training & ~np.isnan(values)
            n_rows = int(training.sum())
            points = rule.make(values[known], weights[known], n_rows)
            if tensor and len(points.points) > MAX_TENSOR_BINS:
                points = Bins(MAX_TENSOR_BINS).make(values[known], weights[known], n_rows)
            made = points.assign(values)
        return made

    return key, make


# --- systems -------------------------------------------------------------------------------------


def with_mean_rows(plans: Sequence[Plan], sets: Sets, bin_weights: Sequence[Floats]) -> list[Plan]:
    """Plans whose bases know the mean row of the training rows, for values they do not know.

    A plan that has been fitted knows it already.
    """
    out = []
    for plan, number in zip(plans, sets.of_term, strict=True):
        values, w = sets.sets[number].values, bin_weights[number]
        out.append(replace(plan, basis=_with_mean(plan.basis, values, w)))
    return out


def _with_mean(basis: Basis, values: Floats, w: Floats) -> Basis:
    if basis.mean is not None:
        return basis
    if isinstance(basis, TensorBasis):
        a, b = (_with_mean(m, values[:, j], w) for j, m in enumerate((basis.a, basis.b)))
        basis = replace(basis, a=a, b=b)
    known = basis.known(values) & (w > 0)
    mean = np.asarray(basis.rows(values[known]).T @ w[known] / w[known].sum())
    if isinstance(basis, PowerBasis) and basis.first == 1:  # centred where the fit sees it
        return replace(basis, center=basis.center + basis.scale * float(mean[0]), mean=np.zeros(1))
    return replace(basis, mean=mean)


def make_system(plan: Plan, matrix: csr_array, w: Floats, smoothing: float | None = None) -> System:
    """Normal equations of one term for the bin weights of one part.

    A given `smoothing` is taken as it is; else the learner's, or the one that its df ask for.
    """
    total = float(w.sum())
    basis, kind = plan.basis, plan.learner.df_kind
    penalty = basis.penalty()
    diagonal = penalty.ndim == 1
    weighted = csr_array(matrix.multiply(w[:, None]))
    if diagonal:
        gram = np.asarray(weighted.multiply(matrix).sum(axis=0)).ravel()
    else:
        gram = np.asarray((weighted.T @ matrix).toarray())
    mean_row = np.asarray(weighted.sum(axis=0)).ravel() / total
    # The spectrum is that of weights summing to one; so is tau, and lambda is scaled back.
    spec = spectrum(gram / total, penalty, basis.null_dim, mean_row)
    smoothing = plan.learner.smoothing if smoothing is None else smoothing
    if smoothing is None:
        smoothing = total * _smoothing(plan, spec)
    beside = plan.learner.df_beside
    df = spec.df(smoothing / total, kind) - beside
    net_df = df if beside else spec.net_df(smoothing / total, kind)
    removed = basis.removed()
    weigher = None
    if removed is not None:
        onto = gram @ removed.T
        weigher = np.ascontiguousarray(np.linalg.lstsq(removed @ onto, onto.T, rcond=None)[0])
    factor = factorize(gram, penalty, smoothing)
    return System(np.ascontiguousarray(gram), factor, smoothing, df, net_df, removed, weigher)


def _smoothing(plan: Plan, spec: Any) -> float:
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
        free = plan.basis.null_dim - beside
        raise ValueError(
            f"{type(learner).__name__}({', '.join(map(repr, learner.columns))}): df = {df:g} is "
            f"too small: the penalty leaves {free:g} free whatever the smoothing; take df above "
            f"{free:g}"
        )
    return found


def core_learner(number: int, matrix: csr_array, system: System) -> _core.Learner:
    return _core.Learner(
        number,
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        np.ascontiguousarray(matrix.data, dtype=np.float64),
        system.gram,
        system.factor,
        system.removed,
        system.weigher,
    )
