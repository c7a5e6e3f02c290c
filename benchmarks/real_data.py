"""Checks default fits on real tables: does the risk fall, are predictions right on average, does
nothing overflow?

    python benchmarks/real_data.py FOLDER

FOLDER has the Parquet files named below.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

import cwboost as cb

ADULT = ("adult", "class", ["fnlwgt"], "binomial", {})
BIKE = ("bike_sharing_hour", "cnt", ["casual", "registered"], "poisson", {})
HOUSES = ("california_housing_ocean", "median_house_value", [])
CLAIMS = ("freMTPL2freq", "ClaimNb", ["IDpol"], "poisson", {"exposure": "Exposure"})
PROBLEMS = [
    BIKE,
    *((*HOUSES, cb.Quantile(tau), {}) for tau in (0.1, 0.5, 0.9)),
    CLAIMS,
    ADULT,
]


def row(folder: Path, problem: tuple, optimizer: cb.Plain | cb.Hybrid) -> str:
    """Fit one problem on 80% of its rows and return a table row about the others."""
    name, target, drop, loss, extra = problem
    table = pd.read_parquet(folder / f"{name}.parquet").drop(columns=drop)
    test = np.random.default_rng(0).random(len(table)) < 0.2
    train = table[~test]
    began = time.perf_counter()
    validation = 0.25 if isinstance(optimizer, cb.Hybrid) else None
    model = cb.fit(train, target, loss=loss, optimizer=optimizer, validation=validation, **extra)
    seconds = time.perf_counter() - began
    held = table[test]
    response = model.predict(held)
    assert np.isfinite(response).all()
    y = held[target]
    if isinstance(loss, cb.Quantile):
        fact, fitted = loss.tau, float((y <= response).mean())
    elif loss == "binomial":
        fact, fitted = float((y == model.classes[1]).mean()), float(response.mean())
    else:
        fact, fitted = float(y.mean()), float(response.mean())
    chosen = sum(term.chosen for term in model.terms.values())
    return (
        f"| {name} | {loss} | {type(optimizer).__name__} | {model.risk[0]:.5g} -> "
        f"{model.risk[model.best_iteration]:.5g} | {fact:.4g} / {fitted:.4g} | "
        f"{chosen} of {len(model.terms)} | {seconds:.1f} |"
    )


def main() -> None:
    folder = Path(sys.argv[1])
    print("| table | loss | optimizer | training risk | test: fact / fitted | terms | seconds |")
    print("|---|---|---|---|---|---|---|")
    for problem in PROBLEMS:
        for optimizer in (cb.Plain(), cb.Hybrid()):
            print(row(folder, problem, optimizer), flush=True)


if __name__ == "__main__":
    main()
