"""Threads on a busy machine: python -m benchmarks busy [--others 13].

Fits Adult (300 iterations) with one and with two threads in turn, first alone and then beside other
processes that use all the processor time they get. Two threads must not be slower than one by more
than 1.3 times, however busy the machine is. Then a million rows with one and two threads, alone.
Wait until the machine is idle. Uses only public names of cwboost.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import machine
from .simulate import Simulation, coin

REPEATS = 9
MOST = 1.3  # target: time with two threads on a busy machine, as a multiple of that with one
MANY_ROWS = 1_000_000


def adult() -> dict[str, Any]:
    from cwboost.datasets import adult as load

    table = load()
    del table["fnlwgt"]
    return {"y": table.pop("class"), "table": table, "loss": "binomial", "n_iter": 300}


def many_rows(n: int) -> dict[str, Any]:
    simulation = Simulation.make(1, 10, 10)
    rng = np.random.default_rng(2)
    table = simulation.table(rng, n)
    y = coin(rng, simulation.eta(table))
    return {"y": y, "table": table, "loss": "binomial", "n_iter": 100}


def spin() -> None:
    while True:
        pass


@contextmanager
def others(n: int) -> Iterator[None]:
    """Run n processes that never sleep."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=spin, daemon=True) for _ in range(n)]
    for process in processes:
        process.start()
    time.sleep(3.0 if n else 0.0)
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def seconds(fit: dict[str, Any], repeats: int) -> dict[int, list[float]]:
    """Measure fits with one and two threads in turn, so that both see the same load."""
    import cwboost as cb

    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(repeats):
        for n_threads, times in found.items():
            began = time.perf_counter()
            cb.fit(**fit, polish=None, n_threads=n_threads)
            times.append(time.perf_counter() - began)
    return found


def line(title: str, times: dict[int, list[float]]) -> str:
    one, two = (np.median(times[n]) for n in (1, 2))
    cells = [f"{np.median(t):.2f} ({min(t):.2f} to {max(t):.2f})" for t in times.values()]
    return f"| {title} | {cells[0]} | {cells[1]} | {two / one:.2f} |"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--others", type=int, default=13, help="busy processes (13)")
    parser.add_argument("--rows", type=int, default=MANY_ROWS, help="of the large table (1000000)")
    parser.add_argument("--repeats", type=int, default=REPEATS)


def run(given: argparse.Namespace) -> None:
    print(machine.describe(["cwboost", "numpy"]))
    print("\n| seconds: median (range) | one thread | two threads | ratio |\n|---|---|---|---|")
    fit = adult()
    print(line("Adult, alone", seconds(fit, given.repeats)), flush=True)
    with others(given.others):
        busy = seconds(fit, given.repeats)
    print(line(f"Adult, beside {given.others} busy processes", busy), flush=True)
    large = seconds(many_rows(given.rows), max(1, given.repeats // 3))
    print(line(f"{given.rows:,} rows x 20, alone", large))
    met = np.median(busy[2]) <= MOST * np.median(busy[1])
    print(f"\nTarget on the busy machine: at most {MOST}: {'met' if met else 'MISSED'}.")
