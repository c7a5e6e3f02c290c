"""The cost of cross-validation: python -m benchmarks cv.

Compares ten folds of `cb.cv` with ten calls of `cb.fit` on the same training rows, with the other
rows as validation rows; all iterations are run. Times are the best of several, measured alternately
on one thread. Memory is measured in separate processes, for one fit and for `cb.cv` with one and
two folds in parallel: the peak of the whole process, and what the call adds to it. Uses only public
names of cwboost.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

from .process import Memory, call, peak
from .simulate import Simulation, coin, noisy

FOLDS = 10
COLUMNS = 20
N_ITER = 200
SIZES = (5_000, 100_000)
LOSSES = ("squared", "binomial")
MOST_TIME, MOST_MEMORY = 1.3, 1.2  # the targets of the project


def data(n: int, loss: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    simulation = Simulation.make(1, COLUMNS // 2, COLUMNS // 2)
    rng = np.random.default_rng(2)
    table = simulation.table(rng, n)
    eta = simulation.eta(table)
    return table, noisy(rng, eta) if loss == "squared" else coin(rng, eta)


def single(table: Any, y: Any, loss: str, n_iter: int, held: Any) -> Any:
    import cwboost as cb

    return cb.fit(table, y, loss=loss, n_iter=n_iter, validation=held, patience=None, n_threads=1)


def folded(table: Any, y: Any, loss: str, n_iter: int, folds: Any, n_threads: int = 1) -> Any:
    import cwboost as cb

    return cb.cv(table, y, loss=loss, n_iter=n_iter, folds=folds, extend=False, n_threads=n_threads)


def masks(n: int) -> list[np.ndarray]:
    """Return the test rows of every fold."""
    of_row = np.random.default_rng(3).permutation(n) % FOLDS
    return [of_row == k for k in range(FOLDS)]


def seconds(n: int, loss: str, n_iter: int, repeats: int) -> dict[str, float]:
    """Return the best times of ten fits and of ten folds, measured alternately."""
    table, y = data(n, loss)
    held = masks(n)
    pairs = [(~mask, mask) for mask in held]
    fits, folds = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        for mask in held:
            single(table, y, loss, n_iter, mask)
        middle = time.perf_counter()
        folded(table, y, loss, n_iter, pairs)
        fits.append(middle - began)
        folds.append(time.perf_counter() - middle)
    return {"fits": min(fits), "cv": min(folds)}


def megabytes(n: int, loss: str, n_iter: int, workers: int) -> dict[str, float] | None:
    """Return the memory of one fit (workers = 0), or of random folds, `workers` of them in
    parallel."""
    table, y = data(n, loss)
    mask = masks(n)[0]
    few = {name: column[:200] for name, column in table.items()}
    single(few, y[:200], loss, 2, mask[:200])  # loads the libraries
    folded(few, y[:200], loss, 2, FOLDS)
    memory = Memory()
    if workers:
        folded(table, y, loss, n_iter, FOLDS, workers)
    else:
        single(table, y, loss, n_iter, mask)
    added = memory.added()
    return None if added is None else {"peak": peak(), "added": added}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--iterations", type=int, default=N_ITER)
    parser.add_argument("--repeats", type=int, default=3)


# Makes the C library return freed memory, so that a peak is the memory in use at one time.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "100000", "MALLOC_TRIM_THRESHOLD_": "100000"}


def run(arguments: argparse.Namespace) -> None:
    print(f"{COLUMNS} columns, {arguments.iterations} iterations, {FOLDS} folds, one thread; peak")
    print("memory of the process in MB (in fits per worker), and what the call adds:\n")
    print("| rows | loss | ten fits | cv | ratio | one fit | cv | two folds in parallel |")
    print("|--:|---|--:|--:|--:|--:|--:|--:|")
    for n in arguments.rows:
        for loss in LOSSES:
            case = {"n": n, "loss": loss, "n_iter": arguments.iterations}
            times = told("seconds", case | {"repeats": arguments.repeats})
            one, cv, two = (told("megabytes", case | {"workers": w}, RETURNED) for w in (0, 1, 2))
            print(
                f"| {n:,} | {loss} | {times['fits']:.2f} s | {times['cv']:.2f} s | "
                f"{times['cv'] / times['fits']:.2f} | {shown(one)} | {shown(cv, one, 1)} | "
                f"{shown(two, one, 2)} |",
                flush=True,
            )
    print(f"\ntargets: ratio at most {MOST_TIME}, memory at most {MOST_MEMORY} fits per worker")


def told(function: str, arguments: dict[str, Any], variables: dict[str, str] | None = None) -> Any:
    found = call(f"{__name__}:{function}", arguments, variables=variables)
    if found.status != "done":
        raise ValueError(f"{function} {arguments}: {found.reason}")
    return found.value


def shown(found: Any, fit: Any = None, workers: int = 1) -> str:
    """Return the peak and the added megabytes, and both as a multiple of one fit per worker."""
    if found is None:
        return "-"
    if fit is None:
        return f"{found['peak']:.0f}, +{found['added']:.1f}"
    peak, added = (found[what] / (workers * fit[what]) for what in ("peak", "added"))
    return f"{found['peak']:.0f} ({peak:.2f}), +{found['added']:.1f} ({added:.2f})"
