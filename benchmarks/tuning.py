"""The paper's tuning on the training rows of one of its outer folds: 314 configurations, Hyperband
from 39 to 5000 iterations, three inner folds, AUC.

    python -m benchmarks.tuning FOLDER spam adult --optimizer plain --threads 2

FOLDER has spam.parquet, adult.parquet and paper_folds.parquet (dataset, fold, row). `quality` has
the tables and folds. Uses only public names of cwboost.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from sklearn.metrics import roc_auc_score

import cwboost as cb

from .quality import load

DF, RATE = (2, 10), (0.001, 0.5)  # the paper's space


def tuned(folder: Path, name: str, fold: int, optimizer: str, threads: int) -> str:
    """Return a line of the table."""
    table, y, test, test_y = load(folder, name, fold)
    space = {"df.Spline": DF, "rate": RATE, "optimizer": optimizer}
    if table.select_dtypes(exclude="number").shape[1]:
        space["df.Category"] = DF
    wall, cpu = time.perf_counter(), time.process_time()
    found = cb.tune(table, y, space, loss="binomial", metric="auc", n_threads=threads)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    model = found.fit()
    auc = roc_auc_score(test_y, model.predict(test))
    parameters = ", ".join(
        f"{key} {value:.3g}" for key, value in found.best.parameters.items() if key != "optimizer"
    )
    return (
        f"| {name} | {optimizer} | {wall:.0f} | {cpu:.0f} | {parameters}, n_iter {model.n_iter} | "
        f"{found.best.score:.4f} | {auc:.4f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", choices=["spam", "adult"])
    parser.add_argument("--optimizer", nargs="+", default=["plain", "accelerated", "hybrid"])
    parser.add_argument("--fold", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args()
    print("| table | optimizer | wall s | CPU s | best configuration | inner AUC | test AUC |")
    print("|---|---|--:|--:|---|--:|--:|")
    for name in a.names:
        for optimizer in a.optimizer:
            print(tuned(a.folder, name, a.fold, optimizer, a.threads), flush=True)


if __name__ == "__main__":
    main()
