"""Tests of a distributed fit that loses workers, the scheduler, the client or the network.

A lost worker must not change the model. Every other failure must raise a clear error in bounded
time; a fit that hangs fails its test. Workers are separate processes, so these tests are slow.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import cloudpickle
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, Future, LocalCluster, get_worker

import cwboost as cb
import cwboost.dask as cd
from cwboost.distributed.dask_shards import DaskShards
from problems import make_table, make_target

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file
pytestmark = pytest.mark.slow
LIMIT = 60.0  # seconds after which a fit counts as hanging
OPTIMIZERS = {
    "plain": cb.Plain(0.1),
    "accelerated": cb.Accelerated(0.1),
    "hybrid": cb.Hybrid(0.1, switch_after=10),
    "hybrid, training": cb.Hybrid(0.1, then="training", switch_after=10),
}


def frame(loss="binomial", n=2000):
    columns = make_table(0, n)
    table = pd.DataFrame(columns).drop(columns="k")
    table["y"] = make_target(0, columns, loss)
    return table


TABLE = frame()
OPTIONS = {"loss": "binomial", "n_iter": 40, "validation": 0.3, "patience": None}


def spread(table=TABLE, n=6):
    return dd.from_pandas(table, npartitions=n, sort=False)


def within(work, limit=LIMIT):
    """Return or raise what `work` returns or raises; fail if it takes more than `limit` seconds."""
    out = {}

    def run():
        try:
            out["returned"] = work()
        except BaseException as error:
            out["raised"] = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        pytest.fail(f"hangs for {limit} seconds")
    if "raised" in out:
        raise out["raised"]
    return out["returned"]


def assert_same(remote, local):
    assert remote.choices == local.choices
    for name, term in local.terms.items():
        np.testing.assert_allclose(remote.terms[name].coef, term.coef, rtol=0, atol=1e-10)
    np.testing.assert_allclose(remote.risk, local.risk, rtol=1e-10)


@contextmanager
def local(n, **options):
    with (
        LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0", **options
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


class Shared:
    """A cluster whose nannies restart killed workers. If they do not, a new cluster replaces it."""

    def __init__(self):
        self.stack = ExitStack()
        self.client = self.stack.enter_context(local(2))

    def ready(self):
        try:
            self.client.wait_for_workers(2, timeout=20)
        except TimeoutError:
            self.client = self.stack.enter_context(local(2))
        return self.client

    def close(self):
        with suppress(Exception):  # a broken cluster may fail to close
            self.stack.close()


@pytest.fixture(scope="module")
def shared():
    shared = Shared()
    yield shared
    closing = threading.Thread(target=shared.close, daemon=True)
    closing.start()
    closing.join(LIMIT)


@pytest.fixture
def client(shared):
    return shared.ready()


def pids(client):
    return sorted(client.run(os.getpid).values())


def once(at, *events):
    """Return a callback that runs one event per iteration, starting after iteration `at`."""

    def callback(iteration):
        if 0 <= iteration - at < len(events):
            events[iteration - at]()

    return callback


def kill(pid, number=signal.SIGKILL):
    return lambda: os.kill(pid, number)


# --- workers that die -----------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_worker_killed_in_the_middle(client, optimizer):
    options = {**OPTIONS, "optimizer": OPTIMIZERS[optimizer]}
    callback = once(20, kill(pids(client)[0]))
    remote = within(lambda: cd.fit(client, spread(), "y", callback=callback, **options))
    assert_same(remote, cb.fit(TABLE, "y", **options))


@pytest.mark.parametrize("optimizer", ["plain", "accelerated"])
def test_worker_killed_while_rows_are_not_needed(client, optimizer):
    table = frame("squared")
    options = {"n_iter": 60, "optimizer": OPTIMIZERS[optimizer]}
    callback = once(30, kill(pids(client)[0]))
    remote = within(lambda: cd.fit(client, spread(table), "y", callback=callback, **options))
    assert_same(remote, cb.fit(table, "y", **options))


def test_workers_killed_one_after_the_other(client):
    first, second = pids(client)
    callback = once(15, kill(first), lambda: None, lambda: None, kill(second))
    remote = within(lambda: cd.fit(client, spread(), "y", callback=callback, **OPTIONS))
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_all_workers_killed(client):
    def kill_all():
        for pid in pids(client):
            os.kill(pid, signal.SIGKILL)

    callback = once(15, kill_all)
    remote = within(lambda: cd.fit(client, spread(), "y", callback=callback, **OPTIONS))
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


@pytest.mark.parametrize("at", [1, 3, 9])
def test_worker_killed_during_set_up(client, monkeypatch, at):
    calls, victim, call = [], pids(client)[0], DaskShards.call

    def counted(self, method, arguments):
        calls.append(method)
        if len(calls) == at:
            os.kill(victim, signal.SIGKILL)
        return call(self, method, arguments)

    monkeypatch.setattr(DaskShards, "call", counted)
    remote = within(lambda: cd.fit(client, spread(), "y", **OPTIONS))
    assert calls.index("begin_rows") > at
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_worker_killed_between_partitions_and_shards(client, monkeypatch):
    victim, by_worker = pids(client)[0], DaskShards._by_worker

    def deadly(self, futures):
        found = by_worker(self, futures)
        os.kill(victim, signal.SIGKILL)
        return found

    monkeypatch.setattr(DaskShards, "_by_worker", deadly)
    remote = within(lambda: cd.fit(client, spread(), "y", **OPTIONS))
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


@pytest.mark.parametrize("after", [0.1, 0.35])
def test_all_workers_killed_while_partitions_are_computed(client, after):
    """Partitions that were already computed are lost and computed again."""

    def slow(part):
        time.sleep(0.1)
        return part

    victims, table = pids(client), spread().map_partitions(slow, meta=TABLE.iloc[:0])
    killer = threading.Timer(after, lambda: [os.kill(pid, signal.SIGKILL) for pid in victims])
    killer.start()
    remote = within(lambda: cd.fit(client, table, "y", **OPTIONS))
    killer.join()
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_worker_killed_while_partitions_are_computed(client, tmp_path):
    flag = tmp_path / "once"

    def die_once(part, file):
        with suppress(FileExistsError), Path(file).open("x"):
            os.kill(os.getpid(), signal.SIGKILL)
        return part

    table = spread().map_partitions(die_once, str(flag), meta=TABLE.iloc[:0])
    remote = within(lambda: cd.fit(client, table, "y", **OPTIONS))
    assert flag.exists()
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_a_new_worker_does_not_change_the_model(client):
    def one_more():
        client.cluster.scale(3)
        client.wait_for_workers(3, timeout=LIMIT)

    try:
        callback = once(10, one_more)
        remote = within(lambda: cd.fit(client, spread(), "y", callback=callback, **OPTIONS))
    finally:
        client.cluster.scale(2)
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_rows_that_cannot_be_read_again(client, tmp_path):
    """The files are gone when they must be read again."""
    files = [tmp_path / f"part-{k}.pickle" for k in range(4)]
    for k, file in enumerate(files):
        TABLE.iloc[k * 500 : (k + 1) * 500].to_pickle(file)
    table = dd.from_map(pd.read_pickle, [str(file) for file in files], meta=TABLE.iloc[:0])

    def lose():
        for file in files:
            file.unlink()
        os.kill(victim, signal.SIGKILL)

    victim = pids(client)[0]
    callback = once(15, lose)
    with pytest.raises(ValueError, match=r"partition \d could not be computed: FileNotFoundError"):
        within(lambda: cd.fit(client, table, "y", callback=callback, **OPTIONS))


def test_lost_rows_that_the_client_scattered(client):
    cuts = [TABLE.iloc[k * 500 : (k + 1) * 500] for k in range(4)]
    workers = list(client.nthreads())
    sent = [client.scatter(part, workers=[workers[k % 2]]) for k, part in enumerate(cuts)]
    table = dd.from_delayed(sent, meta=TABLE.iloc[:0], verify_meta=False)
    callback = once(15, kill(pids(client)[0]))
    with pytest.raises(ConnectionError, match=r"partition \d is lost and cannot be computed again"):
        within(lambda: cd.fit(client, table, "y", callback=callback, **OPTIONS))


# --- workers that do not answer -------------------------------------------------------------------


def test_frozen_worker_is_reported(client):
    victim = pids(client)[0]
    callback = once(15, kill(victim, signal.SIGSTOP))
    try:
        with pytest.raises(TimeoutError, match="has not answered for 4 seconds"):
            within(lambda: cd.fit(client, spread(), "y", callback=callback, timeout=4, **OPTIONS))
    finally:
        os.kill(victim, signal.SIGCONT)
    remote = within(lambda: cd.fit(client, spread(), "y", **OPTIONS))  # the cluster is still usable
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_frozen_worker_that_the_scheduler_removes():
    with dask.config.set({"distributed.scheduler.worker-ttl": "3s"}), local(2) as client:
        victim = pids(client)[0]
        callback = once(15, kill(victim, signal.SIGSTOP))
        try:
            remote = within(lambda: cd.fit(client, spread(), "y", callback=callback, **OPTIONS))
        finally:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def test_slow_worker_is_waited_for(client):
    def slow(part):
        time.sleep(0.5)
        return part

    table = spread().map_partitions(slow, meta=TABLE.iloc[:0])
    remote = within(lambda: cd.fit(client, table, "y", timeout=60, **OPTIONS))
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


def _cut_off():
    """Close all connections of a worker and accept no new ones."""
    worker = get_worker()

    def cut():
        worker.stop()
        for comm in [*worker._comms, worker.batched_stream.comm]:
            comm.abort()

    worker.loop.add_callback(cut)


def test_network_cut():
    with local(2) as client:
        address = next(iter(client.nthreads()))

        def cut():
            client.submit(_cut_off, workers=[address], pure=False)
            deadline = time.monotonic() + LIMIT
            while address in client.nthreads() and time.monotonic() < deadline:
                time.sleep(0.05)

        callback = once(15, cut)
        remote = within(lambda: cd.fit(client, spread(), "y", callback=callback, **OPTIONS))
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


# --- scheduler and client -------------------------------------------------------------------------


def dask_process(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_scheduler_is_lost(tmp_path, number):
    file = str(tmp_path / "scheduler.json")
    scheduler = dask_process(
        "scheduler", "--port", "0", "--dashboard-address", ":0", "--scheduler-file", file
    )
    workers = [
        dask_process("worker", "--scheduler-file", file, "--no-nanny", "--nthreads", "1")
        for _ in range(2)
    ]
    deadline = time.monotonic() + LIMIT
    try:
        while not Path(file).exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "5s"}),
            Client(scheduler_file=file, timeout=LIMIT) as client,
        ):
            client.wait_for_workers(2, timeout=LIMIT)
            callback = once(15, kill(scheduler.pid, number))
            with pytest.raises(ConnectionError, match="scheduler cannot be reached"):
                within(
                    lambda: cd.fit(client, spread(), "y", callback=callback, timeout=5, **OPTIONS)
                )
            scheduler.kill()
    finally:
        for process in (scheduler, *workers):
            process.kill()
            process.wait(LIMIT)


def in_background(work):
    """Return a callable that starts `work` in a thread and ignores its errors."""

    def run():
        with suppress(Exception):
            work()

    return lambda: threading.Thread(target=run, daemon=True).start()


@pytest.mark.parametrize("what", ["close", "cancel", "restart"])
def test_client_is_closed_cancelled_or_restarted(client, what):
    address = client.scheduler.address
    with Client(address, set_as_default=False) as other:

        def cancel():
            other.cancel([Future(key, other) for key in list(other.futures)])

        work = {"close": other.close, "cancel": cancel, "restart": other.restart}[what]
        callback = once(15, in_background(work), lambda: time.sleep(1))
        with pytest.raises(ConnectionError, match="client was closed or its work cancelled"):
            within(lambda: cd.fit(other, spread(), "y", callback=callback, **OPTIONS))
    client.wait_for_workers(2, timeout=LIMIT)
    remote = within(lambda: cd.fit(client, spread(), "y", **OPTIONS))
    assert_same(remote, cb.fit(TABLE, "y", **OPTIONS))


# --- separate processes: Ctrl-C and kill -9 -------------------------------------------------------

SCRIPT = """
import os, signal, sys
import cwboost as cb, cwboost.dask as cd
import dask.dataframe as dd, numpy as np, pandas as pd
from distributed import Client

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(size=2000), "z": rng.normal(size=2000)})
    table["y"] = (np.sin(6 * table.x) + rng.normal(size=2000) > 0).astype(int)
    client = Client(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    remote = dd.from_pandas(table, npartitions=4, sort=False)
    options = dict(loss="binomial", optimizer=cb.Accelerated(0.1))
"""
CTRL_C = """
    def stop(iteration):
        if iteration == 20:
            INTERRUPT
    try:
        cd.fit(client, remote, "y", n_iter=100_000, callback=stop, **options)
    except cb.Interrupted as stopped:
        model = stopped.model
    assert model.stopped == "interrupted" and 20 <= model.n_iter < 1000, model.n_iter
    assert model.choices == cb.fit(table, "y", n_iter=model.n_iter, **options).choices
"""
USABLE = """
    again = cd.fit(client, remote, "y", n_iter=30, **options)
    assert again.choices == cb.fit(table, "y", n_iter=30, **options).choices
"""
END = """
    client.close()
    print("fine")
"""
KILLED = """
    from cwboost.fitting import checkpoint
    checkpoint.MIN_PAUSE = checkpoint.PAUSE_FACTOR = 0.0
    def stop(iteration):
        if iteration == int(sys.argv[1]):
            os.killpg(0, signal.SIGKILL)
    model = cd.fit(client, remote, "y", n_iter=60, checkpoint="kept", callback=stop, **options)
    local = cb.fit(table, "y", n_iter=60, **options)
    assert model.choices == local.choices
    for name, term in local.terms.items():
        assert np.abs(model.terms[name].coef - term.coef).max() < 1e-10
"""


def run(script, folder, *words):
    """Run a script in its own session, kill what is left, and return its exit code and output."""
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    process = subprocess.Popen(
        [sys.executable, str(file), *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=LIMIT)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    return process.returncode, output


def test_ctrl_c(tmp_path):
    stop = CTRL_C.replace("INTERRUPT", "os.kill(os.getpid(), signal.SIGINT)")
    code, output = run(SCRIPT + stop + USABLE + END, tmp_path)
    assert code == 0, output[-3000:]
    assert "fine" in output


def test_ctrl_c_on_a_terminal(tmp_path):
    """The workers of a LocalCluster get the signal too and exit; the fitted model is kept."""
    stop = CTRL_C.replace("INTERRUPT", "os.killpg(0, signal.SIGINT)")
    gone = """
    print("fine", flush=True)
    os._exit(0)  # the cluster has nothing left that could be closed
"""
    code, output = run(SCRIPT + stop + gone, tmp_path)
    assert code == 0, output[-3000:]
    assert "fine" in output


def test_checkpoint_after_kill_9(tmp_path):
    code, output = run(SCRIPT + KILLED + END, tmp_path, "37")
    assert code == -signal.SIGKILL, output[-3000:]
    kept = (tmp_path / "kept").read_bytes()
    code, output = run(SCRIPT + KILLED + END, tmp_path, "-1")
    assert code == 0, output[-3000:]
    assert "fine" in output
    assert kept != (tmp_path / "kept").read_bytes()
