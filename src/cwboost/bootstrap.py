"""Bootstrap draws of the rows, each fitted as the model was: how certain its effects are.

Knows how draws are made and how long their fits run; knows nothing of the bands that are made of
them (effects.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from .binned import Binned
from .checks import check_threads, is_number, is_whole, threads_for
from .data import Given, Split
from .fit import Problem, _seed, bin_again
from .model import Bands, Model
from .optimizers import Optimizer, Plain
from .progress import face
from .replicates import run_all
from .table import Floats

LEAST = 10  # draws that a standard deviation takes
MOST_NESTED = 5000  # iterations that a draw is looked at for its best
PATIENCE = 100  # without a better one
Drawn = tuple[int, dict[str, Floats]]  # iterations, and coefficients of the chosen terms


def with_bands(
    model: Model,
    table: Any,
    y: Any,
    *,
    n_boot: int,
    longer: float,
    nested: bool,
    weights: Any,
    offset: Any,
    exposure: Any,
    random_state: Any,
    n_threads: int | None,
    progress: Any,
) -> Model:
    """See Model.with_bands."""
    bar, seed = face(progress), _seed(random_state)
    _check(n_boot, longer, n_threads)
    model._refuse_edited("with_bands")
    given = Given(table, y, weights, offset, exposure)
    binned = replace(bin_again(model, given, n_threads, "with_bands"), n_threads=1)
    optimizer, m = _how(model, nested)

    def job(counts: Floats, n_iter: int | None) -> Callable[[Callable[[], bool]], Drawn]:
        return lambda halt: _fit(binned, counts, optimizer, n_iter, longer, halt)

    drawn = [job(counts, m) for counts in draws(binned, n_boot, seed)]
    found = run_all(drawn, threads_for(n_threads, sys.maxsize), bar, "draw")
    iterations = tuple(n for n, _ in found)
    # In the middle: all rows, for as long as the draws were fitted.
    longest = round(float(np.median(iterations)) / longer)
    _, middle = job(np.ones(len(binned.data.y)), max(1, longest))(lambda: False)
    names = [
        name for name in model.terms if any(name in c for c in (middle, *(x[1] for x in found)))
    ]
    zero = {name: np.zeros_like(model.terms[name].beta) for name in names}
    center = {name: middle.get(name, zero[name]) for name in names}
    coef = {
        name: np.array([c.get(name, zero[name]) for _, c in found], dtype=np.float32)
        for name in names
    }
    bands = Bands(MappingProxyType(center), MappingProxyType(coef), iterations, float(longer))
    return replace(model, bands=bands)


def _how(model: Model, nested: bool) -> tuple[Optimizer, int | None]:
    """The optimizer of the draws, and the iterations of the model; None: each finds its own."""
    optimizer = model.optimizer
    if not isinstance(optimizer, Plain):  # momentum runs away if it goes on
        return Plain(optimizer.rate), None
    if nested:
        return optimizer, None
    if model.bags is not None:
        return optimizer, max(1, round(float(np.mean(model.bags.best_iteration))))
    return optimizer, max(1, model.best_iteration)


def _fit(
    binned: Binned,
    counts: Floats,
    optimizer: Optimizer,
    n_iter: int | None,
    longer: float,
    halt: Callable[[], bool],
) -> Drawn:
    """The fit to rows that count so often, `longer` times as long as it should be to predict."""
    w = binned.data.weights
    held = None if n_iter is not None else np.where(counts == 0, w, 0.0)
    problem = Problem.pose(binned, Split(counts * w, held, w), optimizer)
    model = None
    if n_iter is None:
        model = problem.fit(MOST_NESTED, patience=PATIENCE, halt=halt)
        n_iter = max(1, model.best_iteration)
    m = round(longer * n_iter)
    if model is None or model.n_iter < m:
        model = problem.fit(m, after=model, halt=halt)
    model = model.at(min(m, model.n_iter))
    return model.n_iter, {name: term.beta for name, term in model.terms.items() if term.chosen}


def _check(n_boot: Any, longer: Any, n_threads: Any) -> None:
    check_threads(n_threads)
    if not is_whole(n_boot) or n_boot < LEAST:
        raise ValueError(f"n_boot must be a whole number of at least {LEAST}, got {n_boot!r}")
    if not is_number(longer) or longer < 1:
        raise ValueError(f"longer must be a number of at least 1, got {longer!r}")


def draws(binned: Binned, n_boot: int, seed: int) -> list[Floats]:
    """How often each row is drawn: as many rows as there are, with replacement, of every class its
    own number."""
    data = binned.data
    rng = np.random.default_rng(seed)
    kinds = data.y if data.classes else np.zeros(len(data.y))
    groups = [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]
    out = [np.zeros(len(kinds)) for _ in range(n_boot)]
    for counts in out:
        for rows in groups:
            counts[rows] = np.bincount(rng.integers(0, len(rows), len(rows)), minlength=len(rows))
    return out
