"""Tests of `cwboost.dask` and its estimators: a fit on a cluster equals the fit in this process.

Choices must be equal, and coefficients must agree to 1e-10. Lost parts of the cluster are tested in
test_dask_faults.py. Most tests use threads as workers, because worker processes are slow.
"""

from __future__ import annotations

import asyncio
import gc
import pickle
import subprocess
import sys
import threading
import time

import cloudpickle
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import delayed
from distributed import Client, Future, LocalCluster
from sklearn.base import clone

import cwboost as cb
import cwboost.dask as cd
from cwboost.distributed.dask_shards import DaskShards
from cwboost.progress import Progress
from problems import LOSSES, make_loss, make_table, make_target, make_weights

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not have this file
N = 900
HYBRIDS = {"all": cb.Hybrid(0.1), "training": cb.Hybrid(0.1, then="training")}
OPTIMIZERS = {"plain": cb.Plain(0.1), "accelerated": cb.Accelerated(0.1), **HYBRIDS}


def cluster(n, processes):
    return LocalCluster(
        n_workers=n, threads_per_worker=1, processes=processes, dashboard_address=":0"
    )


@pytest.fixture(scope="module")
def client():
    with cluster(2, False) as local, Client(local) as client:
        yield client


def frame(n=N, loss="squared", seed=0):
    columns = make_table(seed, n)
    table = pd.DataFrame(columns).drop(columns="k")  # its spline has more coefficients than data
    table["y"] = make_target(seed, columns, loss)
    table["w"] = make_weights(seed, n, zeros=True)
    table["held"] = np.random.default_rng(5).uniform(size=n) < 0.3
    return table


def spread(table, n=5):
    return dd.from_pandas(table, npartitions=n, sort=False)


def parts_of(table, ends):
    """Return the table in partitions that end at `ends`; some may be empty."""
    cuts = zip([0, *ends], [*ends, len(table)], strict=True)
    return dd.from_delayed([delayed(table.iloc[a:b]) for a, b in cuts], meta=table.iloc[:0])


def assert_same(remote, local, tolerance=1e-10):
    assert remote.choices == local.choices
    assert remote.best_iteration == local.best_iteration
    assert remote.stopped == local.stopped
    assert list(remote.terms) == list(local.terms)
    if local.polish is not None and local.polish.weight > 0.0:
        tolerance = 1e-5  # the smoothing parameters need many steps
        assert remote.polish.weight == pytest.approx(local.polish.weight, rel=tolerance)
    for name, term in local.terms.items():
        np.testing.assert_allclose(remote.terms[name].coef, term.coef, rtol=0, atol=tolerance)
    np.testing.assert_allclose(remote.start_vector, local.start_vector, rtol=0, atol=tolerance)
    np.testing.assert_allclose(remote.risk, local.risk, rtol=1e-10)


def compare(client, remote, arguments, loss="squared", optimizer=None, n_iter=30, **more):
    """Check that the fit on a cluster equals the local fit of the same rows."""
    arguments = {"loss": make_loss(loss), "optimizer": optimizer, "n_iter": n_iter, **arguments}
    local = cb.fit(remote.compute().reset_index(drop=True), "y", **arguments)
    assert_same(cd.fit(client, remote, "y", **arguments, **more), local)


# --- the same model -------------------------------------------------------------------------------


def test_fit(client):
    compare(client, spread(frame()), {"weights": "w", "validation": "held"})


def test_a_formula(client):
    table = frame().drop(columns=["w", "held"])
    local = cb.fit(table, "y ~ u + g", n_iter=20)
    assert_same(cd.fit(client, spread(table), "y ~ u + g", n_iter=20), local)


def test_offset_and_exposure(client):
    table = frame(loss="poisson").drop(columns=["w", "held"])
    table["o"] = np.random.default_rng(1).normal(size=N) / 3
    compare(client, spread(table), {"offset": "o"}, "poisson")
    table["o"] = np.exp(table["o"])
    compare(client, spread(table), {"exposure": "o", "validation": 0.3}, "poisson")


def test_empty_and_unequal_partitions(client):
    table = parts_of(frame(), [0, 3, 3, 800, 899, 899])
    compare(client, table, {"weights": "w", "validation": 0.25})


def test_more_workers_than_partitions(client):
    compare(client, spread(frame(), 1), {"validation": 0.25})


def test_named_pairs(client):
    table = frame().drop(columns=["w", "held"])
    compare(client, spread(table), {"interactions": [("u", "g"), ("v", "z")]}, n_iter=15)


@pytest.mark.parametrize("known", [True, False])
def test_arrays(client, known):
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(N, 3))
    y = 2 * X[:, 0] + np.sin(9 * X[:, 1])
    remote, target = da.from_array(X, chunks=(250, 2)), da.from_array(y, chunks=250)
    if not known:
        remote, target = remote[da.ones(N, chunks=250) > 0], target[da.ones(N, chunks=250) > 0]
        assert np.isnan(remote.shape[0])
    own = cb.CWBRegressor(polish=None, n_iter=30).fit(X, y)
    regressor = cd.DaskCWBRegressor(n_iter=30).fit(remote, target)
    assert_same(regressor.model_, own.model_)
    predicted = regressor.predict(remote)
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), own.predict(X), atol=1e-10)


def split_columns(table):
    """Return table, y and weights, first local and then on the cluster, and the held-out mask."""
    X = table.drop(columns=["y", "w", "held"])
    remote = spread(table)
    return (
        (X, table["y"], table["w"]),
        (remote[list(X.columns)], remote["y"], remote["w"]),
        remote["held"],
    )


def test_regressor(client):
    table = frame()
    local, remote, _ = split_columns(table)
    own = cb.CWBRegressor(polish=None, n_iter=200).fit(
        *local
    )  # as on a cluster, without cross-validation
    regressor = cd.DaskCWBRegressor().fit(*remote)
    assert_same(regressor.model_, own.model_)
    (X, y, w), (dX, dy, dw) = local, remote
    np.testing.assert_allclose(regressor.predict(dX).compute(), own.predict(X), atol=1e-10)
    np.testing.assert_allclose(regressor.predict(X), own.predict(X), atol=1e-10)
    np.testing.assert_allclose(regressor.transform(dX).compute(), own.transform(X), atol=1e-10)
    assert regressor.score(dX, dy, dw) == pytest.approx(own.score(X, y, w), abs=1e-10)
    assert regressor.score(dX, y, w.to_numpy()) == regressor.score(dX, dy, dw)
    with pytest.raises(ValueError, match="y: expected 900 rows as X has, got 899"):
        regressor.score(dX, y[1:])
    assert regressor.score(X, y, w) == pytest.approx(own.score(X, y, w), abs=1e-10)
    assert list(regressor.feature_names_in_) == list(X.columns)


def test_validation_rows_of_an_estimator(client):
    (X, y, w), (dX, dy, dw), held = split_columns(frame())
    mask = held.compute().to_numpy()
    own = cb.CWBRegressor(n_iter=40).fit(X, y, w, validation=mask)
    assert_same(cd.DaskCWBRegressor(n_iter=40).fit(dX, dy, dw, validation=held).model_, own.model_)
    (hX, hy, _), (dhX, dhy, _), _ = split_columns(frame(300, seed=3))
    own = cb.CWBRegressor(n_iter=40)
    regressor = cd.DaskCWBRegressor(n_iter=40)
    own.fit(X, y, validation=(hX, hy))
    assert_same(regressor.fit(dX, dy, validation=(dhX, dhy)).model_, own.model_)


def test_weighted_validation_table(client):
    (X, y, w), (dX, dy, dw), _ = split_columns(frame())
    (hX, hy, hw), (dhX, dhy, dhw), _ = split_columns(frame(300, seed=3))
    own = cb.CWBRegressor(n_iter=40).fit(X, y, w, validation=(hX, hy, hw))
    regressor = cd.DaskCWBRegressor(n_iter=40)
    assert_same(regressor.fit(dX, dy, dw, validation=(dhX, dhy, dhw)).model_, own.model_)


def test_offsets_of_an_estimator(client):
    table = frame(loss="poisson").assign(o=np.linspace(0.5, 2, N)).drop(columns=["w", "held"])
    X, remote = table.drop(columns="y"), spread(table)
    own = cb.CWBRegressor(loss="poisson", exposure="o", n_iter=30, polish=None).fit(X, table["y"])
    regressor = cd.DaskCWBRegressor(loss="poisson", exposure="o", n_iter=30)
    regressor.fit(remote[list(X.columns)], remote["y"])
    assert_same(regressor.model_, own.model_)
    np.testing.assert_allclose(
        regressor.predict(remote[list(X.columns)]).compute(), own.predict(X), atol=1e-10
    )
    by_column = cd.DaskCWBRegressor(loss="poisson", n_iter=30)
    by_column.fit(remote[list(X.columns[:-1])], remote["y"], exposure=remote["o"])
    own = cb.CWBRegressor(loss="poisson", n_iter=30, polish=None).fit(
        X.iloc[:, :-1], table["y"], exposure=X.o
    )
    assert_same(by_column.model_, own.model_)


@pytest.mark.parametrize("loss", ["binomial", "multinomial"])
def test_classifier(client, loss):
    (X, y, w), (dX, dy, dw), _ = split_columns(frame(loss=loss))
    for weight in ("balanced", {c: 1.0 + k for k, c in enumerate(sorted(set(y)))}):
        own = cb.CWBClassifier(class_weight=weight, n_iter=10, polish=None).fit(X, y, w)
        classifier = cd.DaskCWBClassifier(class_weight=weight, n_iter=10).fit(dX, dy, dw)
        assert_same(classifier.model_, own.model_)
    assert list(classifier.classes_) == list(own.classes_)
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        found = getattr(classifier, method)(dX)
        assert isinstance(found, da.Array)
        np.testing.assert_allclose(found.compute(), getattr(own, method)(X), atol=1e-9)
    assert (classifier.predict(dX).compute() == own.predict(X)).all()
    assert classifier.score(dX, dy, dw) == pytest.approx(own.score(X, y, w))
    with pytest.raises(ValueError, match="y: row 0 is missing"):
        classifier.score(dX, [None] * N)


def test_predictions_of_empty_partitions(client):
    (X, y, _), _, _ = split_columns(frame())
    own = cb.CWBRegressor(polish=None, n_iter=20).fit(X, y)
    remote = cd.DaskCWBRegressor(n_iter=20).fit(spread(X), spread(y.to_frame())["y"])
    predicted = remote.predict(parts_of(X, [0, 5, 5])).compute()
    np.testing.assert_allclose(predicted, own.predict(X), atol=1e-10)


def test_estimators_can_be_cloned_and_pickled(client):
    (X, _, _), (dX, dy, _), _ = split_columns(frame())
    regressor = cd.DaskCWBRegressor(n_iter=15, random_state=3).fit(dX, dy)
    again = clone(regressor)
    assert type(again) is cd.DaskCWBRegressor
    assert again.get_params() == regressor.get_params()
    assert not hasattr(again, "model_")
    back = pickle.loads(pickle.dumps(regressor))
    assert np.array_equal(back.predict(X), regressor.predict(X))
    assert np.array_equal(back.predict(dX).compute(), regressor.predict(X))


# --- the cluster is left as it was ----------------------------------------------------------------


def left_behind(client, before=0):
    """Return how many more tasks than `before` the scheduler holds; wait until it releases them."""
    gc.collect()
    deadline = time.monotonic() + 5
    while (more := client.run_on_scheduler(_n_tasks) - before) > 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    return max(more, 0)


def _n_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


@pytest.mark.slow
def test_nothing_is_left_on_the_workers(client):
    table, before = spread(frame()), left_behind(client)
    for _ in range(3):
        cd.fit(client, table, "y", n_iter=3)
        assert left_behind(client, before) == 0
    with pytest.raises(ValueError, match="nothing"):
        cd.fit(client, table, "nothing", n_iter=3)
    assert left_behind(client, before) == 0


def test_fits_in_two_threads(client):
    table = frame()
    local, found = cb.fit(table, "y", n_iter=20), {}

    def work(k):
        found[k] = cd.fit(client, spread(table, 3 + k), "y", n_iter=20)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for k in range(2):
        assert_same(found[k], local)


@pytest.mark.parametrize("options", [{"set_as_default": False}, {"direct_to_workers": True}])
def test_other_clients(client, options):
    table = frame()
    with Client(client.scheduler.address, **options) as other:
        assert_same(cd.fit(other, spread(table), "y", n_iter=10), cb.fit(table, "y", n_iter=10))


def test_the_client_need_not_be_the_current_one(client):
    table = frame()
    with cluster(1, False) as local, Client(local):
        assert_same(cd.fit(client, spread(table), "y", n_iter=10), cb.fit(table, "y", n_iter=10))


def test_progress_counts_partitions(client):
    totals = []

    class RecordingProgress(Progress):
        def begin(self, total, what="", **more):
            totals.append((total, what))
            super().begin(total, what, **more)

    cd.fit(client, spread(frame()), "y", n_iter=5, progress=RecordingProgress())
    assert totals == [(5, "partition"), (5, "iteration")]


# --- bad input ------------------------------------------------------------------------------------


def refused(error, message, client, *arguments, **options):
    with pytest.raises(error, match=message):
        cd.fit(client, *arguments, **{"n_iter": 3, **options})


def test_arguments_that_are_not_dask_collections(client):
    table = frame()
    remote = spread(table)
    refused(TypeError, "the table: expected a dask .* got DataFrame; .* cwboost.fit", client, table)
    refused(TypeError, "y: expected a dask .* got ndarray", client, remote, table["y"].to_numpy())
    refused(TypeError, "weights: expected a dask", client, remote, "y", weights=table["w"])
    refused(
        TypeError, "validation: expected a fraction", client, remote, "y", validation=table["w"]
    )
    refused(
        TypeError, "the validation table: expected", client, remote, "y", validation=(table, "y")
    )
    refused(ValueError, "the table: expected two dimensions, .* got 1", client, remote["u"], "y")
    refused(TypeError, "y is missing", client, remote)
    refused(ValueError, "'nothing' is not in the table", client, remote, "nothing")


def test_partitions_that_do_not_match(client):
    table = frame()
    remote = spread(table)
    refused(
        ValueError, "weights has 3 partitions, the table has 5; repartition", client, remote, "y",
        weights=spread(table, 3)["w"],
    )  # fmt: skip
    other = parts_of(table, [10, 20, 30, 40])["w"]
    refused(
        ValueError,
        r"partition \d: weights has \d+ rows, the table has 180",
        client,
        remote,
        "y",
        weights=other,
    )
    parts = [delayed(table), delayed(table.drop(columns="u"))]
    broken = dd.from_delayed(parts, meta=table.iloc[:0], verify_meta=False)
    refused(ValueError, "partition 1: expected the columns", client, broken, "y")


def test_clients_that_cannot_be_used(client):
    remote = spread(frame())
    refused(TypeError, "client: expected a distributed.Client, got str", "tcp://x:1", remote, "y")
    for timeout in (0, -1.0, float("nan"), "1s"):
        refused(ValueError, "timeout: expected a positive", client, remote, "y", timeout=timeout)
    with Client(client.scheduler.address, set_as_default=False) as other:
        pass
    refused(ConnectionError, "client was closed", other, remote, "y")


def test_client_that_is_closed_during_the_fit(client, monkeypatch):
    """The error is the same, whichever error distributed raises."""
    other = Client(client.scheduler.address, set_as_default=False)

    def closed(future, timeout=None):
        other.close()
        raise UnboundLocalError("result")

    monkeypatch.setattr(Future, "result", closed)
    refused(ConnectionError, r"client was closed .* client\.restart", other, spread(frame()), "y")


def test_partition_that_is_lost(client):
    """A lost partition is computed again, unless the scheduler has forgotten it."""
    shards = DaskShards(client, None, 10.0)
    shards.partitions = {"partition 0": client.submit(time.sleep, 0, pure=False)}
    shards.partitions["partition 0"].result()
    shards.partitions["partition 0"]._state.lose()
    shards._check_partitions()
    shards.partitions = {"partition 1": Future("never heard of", client)}
    shards.partitions["partition 1"]._state.lose()
    with pytest.raises(ConnectionError, match="partition 1 is lost and cannot be computed again"):
        shards._check_partitions()


def test_estimator_without_a_client(monkeypatch):
    def none():
        raise ValueError("No global client found")

    monkeypatch.setattr("cwboost.estimators.dask.get_client", none)
    with pytest.raises(ValueError, match=r"no current client; .* client="):
        cd.DaskCWBRegressor().fit(da.zeros((9, 2)), da.zeros(9))


def test_asynchronous_client(client):
    async def work():
        async with Client(
            client.scheduler.address, asynchronous=True, set_as_default=False
        ) as other:
            refused(TypeError, "synchronous client", other, spread(frame()), "y")

    asyncio.run(work())


def test_cluster_without_workers(monkeypatch):
    monkeypatch.setattr("cwboost.distributed.dask_shards.LOOK_AGAIN", 0.1)
    with cluster(0, False) as local, Client(local) as client:
        refused(
            ConnectionError, "no worker, and none has joined for 0.5", client, spread(frame()), "y",
            timeout=0.5,
        )  # fmt: skip


def test_partition_that_cannot_be_computed(client):
    def broken(table, partition_info=None):
        if partition_info and partition_info["number"] == 2:
            raise FileNotFoundError("no such file: part-2.parquet")
        return table

    table, before = frame(), left_behind(client)
    remote = spread(table).map_partitions(broken, meta=table.iloc[:0])
    refused(
        ValueError, "^partition 2 could not be computed: FileNotFoundError: no such file: part-2",
        client, remote, "y",
    )  # fmt: skip
    refused(
        ValueError, "partition 2 of the validation table could not be computed", client,
        spread(table), "y", validation=(remote, "y"),
    )  # fmt: skip
    assert left_behind(client, before) == 0


def test_settings_that_are_not_supported_on_a_cluster(client):
    (_, y, _), (dX, dy, _), _ = split_columns(frame())
    for settings, message in (
        ({"bags": 3}, "bags: not supported for rows on a cluster"),
        ({"warm_start": True}, "warm_start: not supported for rows on a cluster"),
        ({"validation": "last"}, "'last' is not supported for rows on a cluster"),
        ({"bags": np.ones(3)}, "bags: not supported for rows on a cluster"),
        ({"validation": np.ones(3)}, "validation: expected"),
        ({"n_jobs": 10**30}, "n_jobs: expected None, a number of threads up to 1024"),
        ({"interactions": 3}, "interactions: 3: pairs cannot be ranked for rows on a cluster"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            cd.DaskCWBRegressor(n_iter=3, **settings).fit(dX, dy)
    with pytest.raises(TypeError, match="y: expected a dask"):
        cd.DaskCWBRegressor().fit(dX, y.to_numpy())
    with pytest.raises(ValueError, match="requires y to be passed"):
        cd.DaskCWBRegressor().fit(dX)
    with pytest.raises(ValueError, match=r"expected two dimensions, .* got 1"):
        cd.DaskCWBRegressor().fit(da.zeros(9), da.zeros(9))
    with pytest.raises(TypeError, match="the table: expected"):
        cd.DaskCWBRegressor().fit(y.to_frame(), dy)
    fitted = cd.DaskCWBRegressor(loss="squared", n_iter=3).fit(dX, dy)
    with pytest.raises(TypeError, match="offset: for rows on a cluster it must be a column"):
        fitted.predict(dX, offset=y.to_numpy())
    odd = {
        "requires y": None,
        "y: expected one value per row, got 'x'": "x",
        "needs numbers": ["a"] * N,
    }
    for message, wrong in odd.items():
        with pytest.raises(ValueError, match=message):
            fitted.score(dX, wrong)
    with pytest.raises(ValueError, match="sample_weight, row 0: expected a number >= 0, got -1"):
        fitted.score(dX, dy, -np.ones(N))


def test_a_validation_table_without_the_offset_of_the_fit(client):
    table = spread(frame(90))
    with pytest.raises(ValueError, match="the validation rows have none"):
        cd.fit(client, table, "y", offset=table["w"], validation=(table, "y"), n_iter=1)
    model = cd.fit(client, table, "y", offset="w", validation=(table, "y"), n_iter=1)
    assert model.n_iter == 1


# --- real workers ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def processes(request):
    with cluster(request.param, True) as local, Client(local) as client:
        yield client


@pytest.mark.slow
@pytest.mark.parametrize(
    ("processes", "optimizer"),
    [*((2, name) for name in OPTIMIZERS), (4, "accelerated")],
    indirect=["processes"],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_lossless(processes, loss, optimizer):
    table = frame(2000, loss)
    remote = spread(table, 6)
    small, method = remote.drop(columns=["w", "held"]), OPTIMIZERS[optimizer]
    compare(processes, small, {"validation": 0.3, "patience": None}, loss, method)
    compare(processes, remote, {"weights": "w", "validation": "held"}, loss, method)
    if optimizer not in HYBRIDS:
        compare(processes, remote.drop(columns="held"), {"weights": "w"}, loss, method)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 4], indirect=True)
def test_unequal_partitions_on_worker_processes(processes):
    table = frame(2000, "binomial")
    remote = parts_of(table, [0, 3, 3, 1800, 1999, 1999])
    compare(processes, remote, {"validation": 0.3}, "binomial")
    compare(processes, spread(table, 1), {"validation": 0.3}, "binomial")


def test_without_dask():
    """The error says what to install."""
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "try:\n    import cwboost.dask\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install 'cwboost[dask]'" in result.stdout
