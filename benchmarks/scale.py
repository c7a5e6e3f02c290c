"""Rows that need not fit into memory: python -m benchmarks scale FOLDER [--rows 10000000].

Writes simulated rows (20 columns, the paper's effects in ten of them, a binary y) to FOLDER as
Parquet files of a million rows, unless they exist. Then, each in its own process: a Hybrid of the
binomial loss streams them and runs 200 iterations; the Dataset is saved; and the same fit runs from
the saved Dataset, twice. Prints the seconds until the first iteration and in total, the memory that
the fit adds to the process at its peak, the part of it per row that exceeds the bins (two bytes per
cell), and the peak of the whole process. Uses only public names of cwboost.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from .process import Memory, call, peak
from .simulate import Simulation, coin

ROWS = 10_000_000
PER_FILE = 1_000_000
COLUMNS = 20
N_ITER = 200
HELD = 0.3
CELL = 2  # bytes of a bin index
MOST = 56  # target: bytes per row in addition to the bins
# Makes the C library return freed memory, so that a peak is the memory in use at one time.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "100000", "MALLOC_TRIM_THRESHOLD_": "100000"}


def write(folder: Path, rows: int) -> None:
    """Write the files one by one."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True, exist_ok=True)
    simulation = Simulation.make(1, COLUMNS // 2, COLUMNS // 2)
    for number, begin in enumerate(range(0, rows, PER_FILE)):
        file = folder / f"part-{number:04d}.parquet"
        if file.exists():
            continue
        rng = np.random.default_rng([2, number])
        table = simulation.table(rng, min(PER_FILE, rows - begin))
        columns = {**table, "y": coin(rng, simulation.eta(table)).astype(np.int8)}
        unfinished = file.with_suffix(".unfinished")
        pyarrow.parquet.write_table(pyarrow.table(columns), unfinished, row_group_size=2**18)
        unfinished.rename(file)


def opened(folder: str, saved: bool) -> Any:
    import cwboost as cb

    return cb.Dataset.open(folder) if saved else cb.Dataset.from_parquet(folder, y="y")


def fitted(folder: str, saved: bool, n_iter: int, threads: int) -> dict[str, Any]:
    """Return the figures of one fit."""
    import cwboost as cb

    first: list[float] = []

    def after() -> None:
        if not first:
            first.append(time.perf_counter())

    few = {"x": np.arange(2000) % 97 / 97, "y": np.arange(2000) % 2}
    how = {"loss": "binomial", "optimizer": cb.Hybrid(), "validation": HELD, "n_threads": threads}
    cb.fit(few, "y", n_iter=2, **how)  # loads the libraries
    opened(folder, saved)
    memory, began = Memory(), time.perf_counter()
    dataset = opened(folder, saved)
    model = cb.fit(dataset, n_iter=n_iter, callback=after, **how)
    ended, added = time.perf_counter(), memory.added()
    n = dataset.n_rows
    return {
        "rows": n,
        "first": first[0] - began,
        "seconds": ended - began,
        "iterations": model.n_iter,
        "risk": float(model.risk[-1]),
        "added": None if added is None else added / 1000,
        "without_bins": None if added is None else added * 1e6 / n - CELL * COLUMNS,
        "process": None if added is None else peak() / 1000,
    }


def saved_as(folder: str, to: str) -> dict[str, Any]:
    """Return the figures of saving."""
    opened(folder, False)  # loads the libraries
    memory, began = Memory(), time.perf_counter()
    dataset = opened(folder, False).save(to)
    files = [file.stat().st_size for file in Path(to).rglob("*") if file.is_file()]
    return {
        "rows": dataset.n_rows,
        "seconds": time.perf_counter() - began,
        "gigabytes": (memory.added() or 0.0) / 1000,
        "on_disk": sum(files) / 1e9,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, help="folder in which rows are written and kept")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--iterations", type=int, default=N_ITER)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--saved", action="store_true", help="also from a saved Dataset")


def run(arguments: argparse.Namespace) -> None:
    rows = str(arguments.folder.resolve() / f"rows-{arguments.rows}")
    write(Path(rows), arguments.rows)
    how = {"n_iter": arguments.iterations, "threads": arguments.threads}
    print(f"{arguments.rows:,} rows, {COLUMNS} columns, {arguments.iterations} iterations of a")
    print(
        f"binomial Hybrid, {arguments.threads} threads. The target is at most {MOST} bytes per row"
    )
    print(f"in addition to the bins ({CELL} bytes per cell); about 0.1 GB of buffers, for any")
    print("number of rows, are included:\n")
    print(
        "| rows | iterations | first after | all | added | without bins, per row | process | risk |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    show("Parquet", told("fitted", {"folder": rows, "saved": False, **how}))
    if arguments.saved:
        to = f"{rows}-saved"
        found = told("saved_as", {"folder": rows, "to": to})
        print(
            f"| (saving) | | | {found['seconds']:.1f} s | {found['gigabytes']:.2f} GB | "
            f"{found['on_disk']:.2f} GB on disk | | |"
        )
        for name in ("saved Dataset", "the same again"):
            show(name, told("fitted", {"folder": to, "saved": True, **how}))
        shutil.rmtree(to)


def show(name: str, found: dict[str, Any]) -> None:
    known = found["added"] is not None
    memory = (
        f"{found['added']:.2f} GB | {found['without_bins']:.1f} bytes | {found['process']:.2f} GB"
        if known
        else "- | - | -"
    )
    print(
        f"| {name} | {found['iterations']} | {found['first']:.1f} s | {found['seconds']:.1f} s | "
        f"{memory} | {found['risk']:.6f} |",
        flush=True,
    )


def told(function: str, arguments: dict[str, Any]) -> Any:
    found = call(f"{__name__}:{function}", arguments, threads=1, variables=RETURNED)
    if found.status != "done":
        raise ValueError(f"{function} {arguments}: {found.reason}")
    return found.value
