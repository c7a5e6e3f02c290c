"""Prediction time of cwboost, and of EBM (interpret) if it is installed.

Measures many rows and one row, predictions and contributions, arrays and data frames, on one
thread. Prints Markdown tables of milliseconds, best of several runs, and the memory that a
prediction adds. Uses only public names of both libraries.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python -m benchmarks.predict
"""

from __future__ import annotations

import argparse
import os
import time
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import polars as pl

import cwboost as cb
from cwboost import datasets

from .machine import describe

try:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor
except ImportError:
    ExplainableBoostingClassifier = ExplainableBoostingRegressor = None

HEAD = ["rows and columns", "call", "cwboost", "EBM", "ratio"]


def best_ms(call, seconds=0.5):
    """Return the best of many runs; short calls are repeated within a run."""
    began = time.perf_counter()
    call()  # builds look-ups and warms caches
    repeat = max(1, int(0.002 / (time.perf_counter() - began)))
    found = []
    while not found or (time.perf_counter() - began < seconds or len(found) < 5):
        at = time.perf_counter()
        for _ in range(repeat):
            call()
        found.append((time.perf_counter() - at) / repeat)
    return 1e3 * min(found)


def print_rows(rows):
    print("| " + " | ".join(HEAD) + " |")
    print("|---|---|--:|--:|--:|")
    for where, what, ours, theirs in rows:
        a = best_ms(ours)
        b = best_ms(theirs) if theirs else None
        cells = [where, what, f"{a:.3f}", f"{b:.3f}" if b else "", f"{a / b:.2f}" if b else ""]
        print("| " + " | ".join(cells) + " |", flush=True)


def added_mb(call):
    call()
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


# --- numbers --------------------------------------------------------------------------------------


def simulate(n_rows, n_columns):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_columns))
    return X, np.sin(X).sum(axis=1) + rng.normal(size=n_rows)


def numbers(n_rows, n_columns):
    """Measure models with a curve per column: 50 terms, 20,000 rows."""
    X, y = simulate(n_rows, n_columns)
    names = [f"x{j}" for j in range(n_columns)]
    model = cb.fit(X, y, n_iter=20 * n_columns)
    classifier = cb.CWBClassifier(n_iter=20 * n_columns, validation=None, n_jobs=1).fit(X, y > 0)
    ebm = ebm_classes = None
    if ExplainableBoostingRegressor is not None:
        quick = {"interactions": 0, "outer_bags": 1, "max_rounds": 200, "n_jobs": 1}
        ebm = ExplainableBoostingRegressor(feature_names=names, **quick).fit(X, y)
        ebm_classes = ExplainableBoostingClassifier(feature_names=names, **quick).fit(X, y > 0)
    chosen = sum(term.chosen for term in model.terms.values())
    print(f"\n{n_columns} numeric columns; {chosen} terms of cwboost, {n_columns} of EBM\n")
    tables = {
        "array, rows together": X,
        "array, columns together": np.asfortranarray(X),
        "pandas": pd.DataFrame(X, columns=names),
        "polars": pl.DataFrame(X, schema=names),
    }
    rows = []
    for label, whole in tables.items():
        for n in (n_rows, 1):
            rows += calls(f"{label}, {n} x {n_columns}", whole[:n], model, ebm)
    for n in (n_rows, 1):
        for label, table in (("array", X[:n]), ("pandas", tables["pandas"][:n])):
            theirs = ebm_classes and (lambda t=table: ebm_classes.predict_proba(t))
            ours = lambda t=table: classifier.predict_proba(t)  # noqa: E731
            rows.append((f"{label}, {n} x {n_columns}", "predict_proba", ours, theirs))
    print_rows(rows)
    print(f"\nMB added by predict over {8 * n_rows / 1e6:.2f} MB of predictions\n")
    for label, table in tables.items():
        theirs = f", EBM {added_mb(lambda t=table: ebm.predict(t)):.2f}" if ebm else ""
        ours = added_mb(lambda t=table: model.predict(t, n_threads=1)) - 8 * n_rows / 1e6
        print(f"- {label}: cwboost {ours:.2f}{theirs}")


def calls(where, table, model, ebm):
    return [
        (
            where,
            "predict",
            lambda: model.predict(table, n_threads=1),
            ebm and (lambda: ebm.predict(table)),
        ),
        (
            where,
            "contributions",
            lambda: model.contributions(table, n_threads=1),
            ebm and (lambda: ebm.eval_terms(table)),
        ),
    ]


# --- numbers and text -----------------------------------------------------------------------------


def adult(n_rows):
    """Measure models of the Adult table: 6 numeric columns, 8 text columns."""
    table = pd.DataFrame(datasets.adult())
    y = table.pop("class") == ">50K"
    table = table.drop(columns="fnlwgt")
    classifier = cb.CWBClassifier(n_jobs=1).fit(table, y)
    ebm = None
    if ExplainableBoostingClassifier is not None:
        ebm = ExplainableBoostingClassifier(interactions=0, outer_bags=1, n_jobs=1).fit(table, y)
    print(f"\nAdult: {table.shape[1]} columns of numbers and text\n")
    rows = []
    for label, whole in (("pandas", table), ("polars", pl.from_pandas(table))):
        for n in (n_rows, 1):
            some = whole[:n]
            rows += calls(f"{label}, {n} x {table.shape[1]}", some, classifier.model_, ebm)
            ours = lambda t=some: classifier.predict_proba(t)  # noqa: E731
            theirs = ebm and (lambda t=some: ebm.predict_proba(t))
            rows.append((f"{label}, {n} x {table.shape[1]}", "predict_proba", ours, theirs))
    print_rows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=50)
    given = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")):
        print("OMP_NUM_THREADS and OPENBLAS_NUM_THREADS are not 1: EBM may use several threads\n")
    print(describe(("numpy", "pandas", "polars", "interpret-core")))
    warnings.simplefilter("ignore")
    numbers(given.rows, given.columns)
    adult(given.rows)


if __name__ == "__main__":
    main()
