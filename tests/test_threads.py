"""Threads: how many there are, what if the system refuses some, and what callers may ask."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost import dask
from cwboost._utils.cores import available_cores, cpu_quota
from cwboost._utils.threads import map_in_threads, start_threads
from cwboost.fitting.parallel_fits import run_all
from cwboost.progress import Progress

rng = np.random.default_rng(0)
TABLE = {"a": rng.normal(size=60), "b": rng.integers(0, 5, 60)}
Y = TABLE["a"] + 0.1 * rng.normal(size=60)
MODEL = cb.fit(TABLE, Y, n_iter=5, polish=None)


# --- n_threads of every public callable ---


def public_callables() -> Iterator[tuple[str, Callable[..., object]]]:
    intervals = type(MODEL.intervals(TABLE, Y))
    for name, value in [*((n, getattr(cb, n)) for n in cb.__all__), ("Intervals", intervals)]:
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isfunction):
                if not method.startswith("_"):
                    yield f"{name}.{method}", function
        elif callable(value):
            yield name, value
    yield "dask.fit", dask.fit


def takes_threads(function: Callable[..., object]) -> bool:
    return "n_threads" in inspect.signature(function).parameters


CALLS = {
    "Model.contributions": lambda n: MODEL.contributions(TABLE, n_threads=n),
    "Model.extend": lambda n: MODEL.extend(1, TABLE, Y, n_threads=n),
    "Model.importance": lambda n: MODEL.importance("drop", table=TABLE, y=Y, n_threads=n),
    "Model.intervals": lambda n: MODEL.intervals(TABLE, Y, n_threads=n),
    "Model.predict": lambda n: MODEL.predict(TABLE, n_threads=n),
    "Model.with_bands": lambda n: MODEL.with_bands(TABLE, Y, n_boot=2, n_threads=n),
    "Intervals.predict": lambda n: MODEL.intervals(TABLE, Y).predict(TABLE, n_threads=n),
    "aic": lambda n: cb.aic(MODEL, TABLE, Y, n_threads=n),
    "cv": lambda n: cb.cv(TABLE, Y, n_iter=2, n_threads=n),
    "dask.fit": lambda n: dask.fit(TABLE, "y", n_threads=n),
    "deselect": lambda n: cb.deselect(MODEL, TABLE, Y, n_threads=n),
    "fit": lambda n: cb.fit(TABLE, Y, n_iter=2, n_threads=n),
    "optuna_objective": lambda n: cb.optuna_objective(TABLE, Y, {"df": [2, 5]}, n_threads=n),
    "polish": lambda n: cb.polish(MODEL, TABLE, Y, n_threads=n),
    "probe": lambda n: cb.probe(TABLE, Y, n_threads=n),
    "rank_interactions": lambda n: cb.rank_interactions(MODEL, TABLE, Y, n_threads=n),
    "stability": lambda n: cb.stability(TABLE, Y, q=1, cutoff=0.8, n_threads=n),
    "tune": lambda n: cb.tune(TABLE, Y, {"df": [2, 5]}, n_threads=n),
}


def test_all_public_callables_with_threads_are_known():
    assert {name for name, f in public_callables() if takes_threads(f)} == CALLS.keys()


@pytest.mark.parametrize("n_threads", [0, -1, 2.5, "2", True, 1025, 10**9, 2**63])
@pytest.mark.parametrize("name", CALLS)
def test_impossible_numbers_of_threads(name, n_threads):
    with pytest.raises(ValueError, match="n_threads: expected a whole number from 1 to 1024, got"):
        CALLS[name](n_threads)


# --- what the system allows ---


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, np.inf),
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, np.inf),
        ({"cpu/cpu.cfs_quota_us": "50000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, np.inf),
        ({"cpu.max": "no number"}, np.inf),
    ],
)
def test_quota_of_a_container(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpu_quota(tmp_path) == expected


@pytest.mark.parametrize(("quota", "expected"), [(0.2, 1), (1.5, 2), (2.0, 2), (np.inf, 8)])
def test_cores_are_limited_by_the_quota(monkeypatch, quota, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("cwboost._utils.cores.cpu_quota", lambda: quota)
    assert available_cores() == expected


@pytest.fixture(params=[0, 1])
def threads_that_start(request, monkeypatch):
    """Let Python start at most this number of threads."""
    left, start = iter(range(request.param)), threading.Thread.start

    def limited(self: threading.Thread) -> None:
        if next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(self)

    monkeypatch.setattr(threading.Thread, "start", limited)
    return request.param


def test_python_threads_that_could_be_started_do_the_work(threads_that_start):
    assert map_in_threads(abs, [-1, -2, -3], 3) == [1, 2, 3]


def test_fits_are_run_by_the_threads_that_could_be_started(threads_that_start):
    jobs = [lambda halt, i=i: i for i in range(5)]
    assert run_all(jobs, 4, Progress()) == list(range(5))


def test_number_of_started_threads(threads_that_start):
    started = []
    start_threads(started, lambda: None, 3)
    assert len(started) == threads_that_start


def test_ctrl_c_while_threads_are_started_stops_the_fits(monkeypatch):
    start, calls, ran = threading.Thread.start, [], []

    def interrupted(thread):
        calls.append(thread)
        if len(calls) == 2:
            raise KeyboardInterrupt
        start(thread)

    def job(halt):
        ran.append(halt())
        time.sleep(0.05)

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_all([job] * 20, 2, Progress())
    assert len(ran) < 20
    assert not calls[0].is_alive()


UNDER_A_LIMIT = """
import resource, sys
import numpy as np
import cwboost as cb

rng = np.random.default_rng(1)
x = rng.integers(0, 30, (70_000, 40))
table = {f"x{i}": column for i, column in enumerate(np.ascontiguousarray(x.T, dtype=float))}
y = np.sin(x[:, 0]) + rng.normal(size=len(x))
fit = lambda n: cb.fit(table, y, loss="absolute", n_iter=3, polish=None, n_threads=n).predict(
    table, n_threads=n)
one = fit(1)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 440 * 2**20,) * 2)
np.testing.assert_array_equal(fit(1024), one)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_a_refused_thread_of_the_core_does_not_end_the_process():
    def large_stacks():
        """Six threads of 64 MB fit into 440 MB, and 56 MB are left for everything else."""
        import resource  # not on Windows

        hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
        resource.setrlimit(resource.RLIMIT_STACK, (2**26, hard))

    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_LIMIT],
        capture_output=True, text=True, check=False, preexec_fn=large_stacks,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_daemon_threads_that_fit_while_the_process_ends():
    script = """
import threading, time
import numpy as np
import cwboost as cb
x = np.random.default_rng(0).normal(size=2000)
problem = {"table": {"x": x}, "y": x > 0, "loss": "binomial", "n_iter": 10**6, "progress": False}
for _ in range(8):
    threading.Thread(target=lambda: cb.fit(**problem), daemon=True).start()
time.sleep(0.5)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
