"""Rows on the workers of a Dask cluster: the same fit, and only sums travel.

Knows how dask collections become shards, how shards are asked, and what happens when a worker is
lost. Knows nothing of bins or boosting; `cwboost.shards` does. Needs the extra `dask`.

Every worker has one shard, an actor that holds the partitions that were computed there. When a
worker is lost, its partitions are computed again from the graph, another worker makes a shard of
them, and the shard is told again all that it had been told: it then holds what it held before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from cwboost._utils.checks import is_number
from cwboost.binning.rules import as_bins
from cwboost.distributed.data import find_classes
from cwboost.distributed.fit import TermOptions, fit_shards
from cwboost.distributed.shard import ROLES, Partition, ReadOptions, Shard
from cwboost.distributed.shards import Shards
from cwboost.estimators.base import CWBEstimator
from cwboost.estimators.classifier import CWBClassifier
from cwboost.estimators.regressor import CWBRegressor
from cwboost.fitting.checkpoint import Checkpoint
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.interactions import check_interactions
from cwboost.fitting.options import FitOptions, as_seed, check_counts, check_min_rows
from cwboost.model.model import Model
from cwboost.progress import Progress, as_progress

from .losses import as_loss, explained
from .optimizers import Optimizer

try:
    from dask.array import concatenate, from_delayed
    from dask.base import is_dask_collection
    from dask.delayed import delayed
    from distributed import Client, Future, KilledWorker, get_client
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "cwboost.dask needs dask and distributed: pip install 'cwboost[dask]'", name=error.name
    ) from None

LOOK_AGAIN = 2.0  # seconds after which a worker that has not answered is looked for
PAUSE = 0.02  # seconds between looks at what is under way
TRIES = 5  # to make a shard anew
log = logging.getLogger(__name__)


def fit(
    client: Client,
    table: Any,
    y: Any = None,
    learners: Any = None,
    loss: Any = "squared",
    optimizer: Optimizer | None = None,
    n_iter: int = 200,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    start: Any = None,
    scale: Any = "auto",
    validation: Any = None,
    patience: int | None = 50,
    callback: Callable[..., Any] | None = None,
    time_limit: float | None = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    *,
    exposure: Any = None,
    interactions: Any = None,
    search: str = "auto",
    progress: Any = None,
    checkpoint: Any = None,
    min_rows_per_bin: int | None = None,
    timeout: float = 600.0,
) -> Model:
    """`cwboost.fit` for rows on the workers of a cluster: the same model, whatever the partitions.

    Parameters
    ----------
    client : distributed.Client
    table : dask DataFrame, or dask Array with two dimensions
        Its partitions are computed once and stay where they are.
    y : name of a column, formula, dask Series or Array
    weights, offset, exposure : name of a column, dask Series or Array, optional
    validation : fraction, name of a column, dask mask or weights, or (table, y[, weights, offset])
    interactions : list of pairs of names, optional
    n_threads : int, optional
        Of every worker; by default as many as the worker has.
    min_rows_per_bin : int, optional
        Bins with fewer rows on any worker that has some of them are merged with their neighbours
        before the fit, and rare levels count as unseen: no sum that leaves a worker is of fewer
        rows.
    timeout : float
        Seconds after which a worker that does not answer is an error. (One that the scheduler
        counts as lost is not: another reads its partitions again.)
    learners, loss, optimizer, n_iter, bins, start, scale, patience, callback, time_limit, \
random_state, search, progress, checkpoint
        As of `cwboost.fit`.

    Examples
    --------
    >>> import dask.dataframe as dd, numpy as np, pandas as pd
    >>> from distributed import Client
    >>> import cwboost.dask
    >>> client = Client(n_workers=2, threads_per_worker=1, dashboard_address=":0",
    ...                 processes=False)
    >>> x = np.linspace(0, 6, 200)
    >>> table = dd.from_pandas(pd.DataFrame({"x": x, "y": np.sin(x)}), npartitions=3)
    >>> model = cwboost.dask.fit(client, table, "y", n_iter=20)
    >>> model.choices[-1]
    'x'
    >>> client.close()
    """
    began, bar = time.perf_counter(), as_progress(progress)
    check_counts(n_iter, patience, time_limit, n_threads)
    how = FitOptions.checked(optimizer, n_iter, patience, start, scale, time_limit, search)
    rule, seed, loss = as_bins(bins), as_seed(random_state), as_loss(loss)
    wanted = check_interactions(interactions)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    check_min_rows(min_rows_per_bin)
    given = FitInput({}, y, weights, offset, exposure, validation, (), min_rows_per_bin, None, rule)
    with _shards(client, table, given, n_threads, timeout, bar) as shards:
        asked = TermOptions(loss, rule, learners, interactions=wanted)
        return fit_shards(shards, given, asked, how, seed, callback, bar, kept, began)


# --- collections ----------------------------------------------------------------------------------


def _check_table(table: Any, what: str) -> None:
    """Raises if it is no collection with rows and columns."""
    _check_collection(table, what)
    if table.ndim != 2:
        raise ValueError(
            f"{what}: expected two dimensions, rows and columns, got {table.ndim}; make one column "
            "an array with x[:, None], or a data frame with series.to_frame()"
        )


def _check_collection(collection: Any, what: str) -> None:
    if not is_dask_collection(collection) or not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{what}: expected a dask DataFrame, Series or Array, got "
            f"{type(collection).__name__}; for data in this process use cwboost.fit"
        )


def _blocks(collection: Any, what: str, optimize: bool = True) -> list[Any]:
    """The partitions of a collection, delayed."""
    _check_collection(collection, what)
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
        if collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
        return list(collection.to_delayed(optimize_graph=optimize)[:, 0])
    blocks = collection.to_delayed(optimize_graph=optimize)
    return list(blocks.ravel()) if isinstance(blocks, np.ndarray) else list(blocks)


def _partitions(table: Any, beside: Mapping[str, Any], held: bool) -> dict[str, Any]:
    """Partitions of a table with those of what is beside it, delayed, by what they are called."""
    what = "the validation table" if held else "the table"
    _check_table(table, what)
    far = {role: x for role, x in beside.items() if is_dask_collection(x)}
    for role, given in beside.items():
        if not (role in far or given is None or isinstance(given, str) or is_number(given)):
            _check_collection(given, role)  # raises
    for optimize in (True, False):  # optimized, fewer columns may be read in fewer partitions
        blocks = _blocks(table, what, optimize)
        along = {role: _blocks(given, role, optimize) for role, given in far.items()}
        if all(len(parts) == len(blocks) for parts in along.values()):
            break
    for role, parts in along.items():
        if len(parts) != len(blocks):
            raise ValueError(
                f"{role} has {len(parts)} partitions, {what} has {len(blocks)}; repartition one of "
                "them so that they have the same rows"
            )
    along |= {role: [x] * len(blocks) for role, x in beside.items() if role not in far}
    return {
        f"partition {k}" + " of the validation table" * held: delayed(Partition, pure=False)(
            k, block, {role: parts[k] for role, parts in along.items()}, held
        )
        for k, block in enumerate(blocks)
    }


def _all_partitions(table: Any, given: FitInput) -> dict[str, Any]:
    arrays = {
        role: value
        for role in ROLES
        if (value := getattr(given, role)) is not None and not isinstance(value, str)
    }
    validation = arrays.pop("validation", None)
    if validation is not None and is_dask_collection(validation):
        arrays["validation"] = validation
    elif not isinstance(validation, tuple) and not is_number(validation) and validation is not None:
        raise TypeError(
            "validation: expected a fraction, the name of a column, a dask mask or weights over "
            f"the rows, or a tuple (table, y[, weights, offset]); got {type(validation).__name__}"
        )
    parts = _partitions(table, arrays, held=False)
    if isinstance(validation, tuple):
        parts |= _partitions(validation[0], _beside_held(validation, given), held=True)
    return parts


def _beside_held(validation: tuple[Any, ...], given: FitInput) -> dict[str, Any]:
    """What a validation table has beside it."""
    if not 2 <= len(validation) <= 4:
        raise ValueError(
            "validation: expected (table, y), (table, y, weights) or (table, y, weights, offset), "
            f"got a tuple of {len(validation)}"
        )
    _, y, weights, offset = (*validation, None, None)[:4]
    if offset is None and given.has_offset_arrays:
        raise ValueError(
            "validation: the rows of the fit have an offset or exposure, these have none; pass "
            "(table, y, weights, offset)"
        )
    own = {"y": y}
    if weights is not None:
        own["weights"] = weights
    elif given.weights is not None and not isinstance(given.weights, str):
        own["weights"] = None
    if offset is not None:
        own |= {"offset": offset, "exposure": None}
    return own


# --- shards on workers ----------------------------------------------------------------------------


@contextmanager
def _shards(
    client: Client,
    table: Any,
    given: FitInput,
    n_threads: int | None,
    timeout: float,
    bar: Progress,
) -> Iterator[DaskShards]:
    if not isinstance(client, Client):
        raise TypeError(f"client: expected a distributed.Client, got {type(client).__name__}")
    if client.asynchronous:
        raise TypeError("client: expected one that is not asynchronous")
    if not is_number(timeout) or not timeout > 0:
        raise ValueError(f"timeout: expected a positive number of seconds, got {timeout!r}")
    partitions = _all_partitions(table, given)
    shards = DaskShards(client, n_threads, timeout)
    try:
        shards.begin(partitions, bar)
        yield shards
    finally:
        shards.close()


@dataclass
class ShardHome:
    """Partitions, and the worker that has a shard of them."""

    partitions: list[Future[Any]]
    address: str
    made: Future[Any] | None = None  # the actor, as a task
    actor: Any = None


class DaskShards(Shards):
    """One shard per worker that has partitions."""

    def __init__(self, client: Client, n_threads: int | None, timeout: float) -> None:
        super().__init__()
        self.client, self.n_threads, self.timeout = client, n_threads, timeout
        self.partitions: dict[str, Future[Any]] = {}
        self.homes: list[ShardHome] = []

    def begin(self, partitions: Mapping[str, Any], bar: Progress) -> None:
        """Computes partitions, and makes a shard where some are."""
        with self._bounded():
            futures = self.client.compute(list(partitions.values()))
        self.partitions = dict(zip(partitions, futures, strict=True))
        with bar.work(len(futures), "partition"):
            self._wait_for(futures, bar)
        self.homes = self._by_worker(futures)
        for number, home in enumerate(self.homes):
            try:
                self._make(number, home.address)
            except WorkerLostError:
                self._move(number)

    @property
    def n_shards(self) -> int:
        return len(self.homes)

    def close(self) -> None:
        """Workers may forget the rows."""
        for future in (*self.partitions.values(), *(home.made for home in self.homes)):
            if future is not None:
                future.release()
        self.homes, self.partitions = [], {}

    # --- where partitions are ---------------------------------------------------------------------

    def _wait_for(self, futures: Sequence[Future[Any]], bar: Progress) -> None:
        """Until all are computed, or one fails."""
        left, looked = list(futures), time.monotonic()
        while left and not any(future.status == "error" for future in futures):
            time.sleep(PAUSE)
            if time.monotonic() > looked + LOOK_AGAIN:
                self._there()
                self._check_partitions()
                looked = time.monotonic()
            left = [future for future in futures if not future.done()]  # some may be lost again
            bar.step(len(futures) - len(left))
        self._check_partitions()

    def _check_partitions(self) -> None:
        """Raises if one could not be computed."""
        self._check_cluster()
        gone = self._gone()
        for name, future in self.partitions.items():
            if future.status == "error":
                error = future.exception()
                raise ValueError(
                    f"{name} could not be computed: {type(error).__name__}: {error}"
                ) from error
            if future.status == "cancelled" or future.key in gone:
                raise ConnectionError(
                    f"{name} is lost and cannot be computed again: its rows had been sent to a "
                    "worker that is gone, or its work was cancelled, as client.restart() does; "
                    "begin with rows that workers read by themselves, or send them again"
                )

    def _gone(self) -> set[Any]:
        """Lost partitions that the scheduler has forgotten; it computes the others again."""
        lost = [future.key for future in self.partitions.values() if future.status == "lost"]
        known = self._scheduler("get_task_status", keys=lost) if lost else {}
        return {key for key in lost if known.get(key) is None}

    def _by_worker(self, futures: Sequence[Future[Any]]) -> list[ShardHome]:
        """Partitions where they are; of those that are in several places, in the first."""
        places = self._scheduler("who_has", keys=[future.key for future in futures])
        homes = {address: ShardHome([], address) for address in self._there()}
        anywhere = next(iter(homes))  # for those whose worker has been lost since
        for future in futures:
            own = (address for address in places.get(future.key, ()) if address in homes)
            homes[next(own, anywhere)].partitions.append(future)
        return [home for home in homes.values() if home.partitions]

    def _there(self) -> dict[str, int]:
        """Workers that are there; waits for one if there is none."""
        began = time.monotonic()
        while not (there := self._workers()):
            if time.monotonic() - began > self.timeout:
                raise ConnectionError(
                    f"the cluster has no worker, and none has come for {self.timeout:g} seconds"
                )
            time.sleep(PAUSE)
        return there

    def _workers(self) -> dict[str, int]:
        """Workers that the scheduler knows, and their threads."""
        found: dict[str, int] = self._scheduler("ncores")
        return found

    def _scheduler(self, what: str, **given: Any) -> Any:
        with self._bounded():
            ask = getattr(self.client.scheduler, what)
            return self.client.sync(ask, callback_timeout=self.timeout, **given)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """The scheduler answers, or it is an error."""
        self._check_cluster()
        try:
            yield
        except Exception as error:
            self._check_cluster(error)
            if not isinstance(error, OSError | RuntimeError | CancelledError):
                raise
            raise ConnectionError(self._lost("the fit")) from error

    def _check_cluster(self, error: Exception | None = None) -> None:
        """Raises if the client is gone; an error that came then, of whatever kind, is due to it."""
        if self.client.status != "running":
            raise ConnectionError(self._lost("the fit")) from error

    def _lost(self, what: str) -> str:
        return (
            f"{what} is lost: the scheduler cannot be reached, or the client was closed or its "
            f"work cancelled, as client.restart() does (client: {self.client.status}); begin again "
            "with a new client, or go on from the file if checkpoint= was given"
        )

    # --- asking -----------------------------------------------------------------------------------

    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        asked = [self._ask(k, method, given) for k, given in enumerate(arguments)]
        out = []
        for k, (future, given) in enumerate(zip(asked, arguments, strict=True)):
            try:
                out.append(self._result(future, self.homes[k]))
            except WorkerLostError:
                out.append(self._again(k, method, given))
        return out

    def _ask(self, number: int, method: str, given: tuple[Any, ...]) -> Any:
        """What will be the answer; None: the worker is lost."""
        try:
            return getattr(self.homes[number].actor, method)(*given)
        except Exception as error:
            self._check_cluster(error)
            if not isinstance(error, RuntimeError):  # distributed knows already that it is
                raise
            return None

    def _result(self, future: Any, home: ShardHome) -> Any:
        """What a worker answers; WorkerLostError if it is not there any more."""
        began = time.monotonic()
        while future is not None:
            try:
                return future.result(timeout=LOOK_AGAIN)
            except TimeoutError:
                if home.address not in self._workers() or not self._is_held(home):
                    break
                if time.monotonic() - began > self.timeout:
                    raise TimeoutError(
                        f"worker {home.address} has not answered for {self.timeout:g} seconds; "
                        "look at its log, or raise timeout="
                    ) from None
            except (OSError, CancelledError):
                break
            except Exception as error:
                self._check_cluster(error)
                raise
        self._is_held(home)
        raise WorkerLostError(home.address)

    def _is_held(self, home: ShardHome) -> bool:
        """Whether the worker that has a shard is the one it was made on."""
        self._check_cluster()
        if home.made is not None and home.made.status == "cancelled":
            raise ConnectionError(self._lost("the fit"))
        return home.made is None or home.made.status in ("pending", "finished")

    # --- lost workers -----------------------------------------------------------------------------

    def _again(self, number: int, method: str, given: tuple[Any, ...]) -> Any:
        """The answer of a shard whose worker was lost before it gave one."""
        for _ in range(TRIES):
            self._move(number)
            try:
                return self._result(self._ask(number, method, given), self.homes[number])
            except WorkerLostError:
                continue
        raise self._unlucky(number)

    def _move(self, number: int) -> None:
        """Another worker makes a shard, which is told all that it had been told."""
        lost = set[str]()
        for _ in range(TRIES):
            lost.add(self.homes[number].address)
            address = self._free(lost)
            log.warning("worker %s is lost; %s has its rows", self.homes[number].address, address)
            try:
                self._make(number, address)
                calls = self.history(number)
                self._result(self._ask(number, "replay", (calls,)), self.homes[number])
                return
            except WorkerLostError:
                continue
        raise self._unlucky(number)

    def _make(self, number: int, address: str) -> None:
        threads = self.n_threads or self._workers().get(address, 1)
        home = self.homes[number] = ShardHome(self.homes[number].partitions, address)
        with self._bounded():
            made = self.client.submit(
                Shard, home.partitions, threads, actor=True, workers=[address], pure=False
            )
        home.made = made
        try:
            home.actor = self._result(made, home)
        except KilledWorker:
            raise WorkerLostError(address) from None
        except Exception:
            self._check_partitions()
            raise
        home.actor._client, home.actor._future = self.client, made  # whatever the current one is

    def _free(self, lost: Set[str]) -> str:
        """The worker with the fewest shards; one that was lost only if no other comes soon."""
        began = time.monotonic()
        while set(there := self._there()) <= lost:
            if time.monotonic() - began > LOOK_AGAIN:  # it may have come back
                break
            time.sleep(PAUSE)
        used = [home.address for home in self.homes]
        return min(there, key=lambda a: (a in lost, used.count(a), a))

    def _unlucky(self, number: int) -> Exception:
        return ConnectionError(
            f"the rows of worker {self.homes[number].address} could not be brought back: {TRIES} "
            "workers were lost one after the other"
        )


class WorkerLostError(Exception):
    """A worker is gone, with all that it held."""


# --- estimators -----------------------------------------------------------------------------------


class _Dask(CWBEstimator):
    """What both estimators are: a fit to collections, and predictions that are computed later."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
        validation: Any = None,
        *,
        client: Client | None = None,
        checkpoint: Any = None,
        timeout: float = 600.0,
    ) -> Self:
        """Fits the model to the rows of dask collections.

        Parameters
        ----------
        X : dask DataFrame, or dask Array with two dimensions
        y : dask Series or Array
        sample_weight : dask Series or Array, optional
        offset, exposure : name of a column, dask Series or Array, optional
        validation : dask mask, or (X, y[, sample_weight[, offset]]), optional
            The rows to hold out, or further rows, instead of a share at random.
        client : distributed.Client, optional
            By default the current one.
        checkpoint, timeout
            As of `cwboost.dask.fit`.
        """
        self._refuse()
        client = _current() if client is None else client
        seed = as_seed(self.random_state)
        offset, exposure = self._or_own(offset, exposure)
        given = FitInput({}, y, sample_weight, offset, exposure, validation)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but y is None.")
        _check_table(X, "the table")
        self._name_columns(X)
        began, bar = time.perf_counter(), as_progress(self._shown())
        kept = None if checkpoint is None else Checkpoint(checkpoint)
        with _shards(client, X, given, self._n_threads(), timeout, bar) as shards:
            loss = self._far_loss(shards, given)
            rows = sum(shards.ask("present", given.column("weights")))
            if given.validation is None:
                given = replace(given, validation=self._held_out(None, None, rows, None, seed))
            watched = given.validation is not None
            asked = self._n_iter_asked(watched)
            check_counts(asked, self.patience, self.time_limit, None)
            how = FitOptions.checked(
                self._optimizer(watched), asked, self.patience, None, "auto", self.time_limit,
                "auto",
            )  # fmt: skip
            wanted = TermOptions(
                loss, as_bins(self.bins), self.learners, self.terms, self._excluded,
                self._interactions(), getattr(self, "class_weight", None),
            )  # fmt: skip
            model = fit_shards(shards, given, wanted, how, seed, None, bar, kept, began)
        self.model_, self._asked = model, asked
        self._fitted_with = self._settings()
        return self

    def _far_loss(self, shards: Shards, given: FitInput) -> Any:
        raise NotImplementedError

    def _refuse(self) -> None:
        """Settings that need all rows in one place."""
        for name in ("bags", "warm_start"):
            if getattr(self, name):
                raise ValueError(f"{name}: not with rows on a cluster; set it to its default")
        if self.validation == "last":
            raise ValueError(
                "validation: 'last' is for rows in one place; pass a mask to fit(..., validation=)"
            )

    def _name_columns(self, X: Any) -> None:
        columns = getattr(X, "columns", None)
        if columns is None:
            self.n_features_in_ = int(X.shape[1])
            self.__dict__.pop("feature_names_in_", None)
            return
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.asarray(list(columns), dtype=object)

    # --- predictions ------------------------------------------------------------------------------

    def _later(self, method: str, X: Any, given: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """A dask Array of what a method says of every partition, computed by the workers."""
        check_is_fitted(self)
        for name, value in given.items():
            if value is not None and not is_number(value):
                raise TypeError(
                    f"{name}: of rows on a cluster it must be a column; make the estimator with "
                    f"{name}= its name"
                )
        dtype = self.classes_.dtype if method == "predict" and self._is_classifier else np.float64
        # As they are: whoever sets predictions beside X has its partitions.
        blocks, estimator = _blocks(X, "X", optimize=False), delayed(self)
        sizes = X.chunks[0] if hasattr(X, "chunks") else [float("nan")] * len(blocks)
        answer = delayed(_answer, pure=False)
        parts = [
            from_delayed(
                answer(estimator, method, block, dict(given), shape, dtype), (n, *shape), dtype
            )
            for block, n in zip(blocks, sizes, strict=True)
        ]
        return concatenate(parts, allow_unknown_chunksizes=True)

    @property
    def _is_classifier(self) -> bool:
        return isinstance(self, CWBClassifier)

    def transform(self, X: Any) -> Any:
        """What each chosen term adds to the score of every row; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().transform(X)
        return self._later("transform", X, {}, (len(self.get_feature_names_out()),))


def _answer(
    estimator: Any, method: str, part: Any, given: Mapping[str, Any], shape: Any, dtype: Any
) -> Any:
    return getattr(estimator, method)(part, **given) if len(part) else np.empty((0, *shape), dtype)


def _current() -> Client:
    try:
        return get_client()
    except ValueError:
        raise ValueError(
            "there is no current client; make one, client = distributed.Client(...), or pass "
            "fit(..., client=)"
        ) from None


def _gathered(given: Any) -> Any:
    """An array here, of what is on the cluster or here already."""
    if given is None:
        return None
    return np.asarray(given.compute() if is_dask_collection(given) else given)


class DaskCWBRegressor(_Dask, CWBRegressor):
    """`CWBRegressor` for dask collections: rows stay on the workers, only sums travel.

    Parameters are those of `CWBRegressor`; bags, warm_start and validation="last" need rows in one
    place, and interactions must be named. `predict` of a dask collection is a dask Array, computed
    by the workers when it is asked for; of other tables it is what `CWBRegressor.predict` gives.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from distributed import Client
    >>> from cwboost.dask import DaskCWBRegressor
    >>> client = Client(n_workers=2, threads_per_worker=1, dashboard_address=":0",
    ...                 processes=False)
    >>> X = da.random.default_rng(0).uniform(size=(2000, 2), chunks=(500, 2))
    >>> y = da.sin(6 * X[:, 0])
    >>> regressor = DaskCWBRegressor().fit(X, y, client=client)
    >>> bool(regressor.feature_importances_[0] > 0.99)
    True
    >>> bool(abs(regressor.predict(X) - y).max().compute() < 0.1)
    True
    >>> client.close()
    """

    def _far_loss(self, shards: Shards, given: FitInput) -> Any:  # noqa: ARG002
        return self._loss()

    def predict(self, X: Any, offset: Any = None, exposure: Any = None) -> Any:
        """(n_samples,) predictions in the units of y; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict(X, offset, exposure)
        return self._later("predict", X, {"offset": offset, "exposure": exposure}, ())

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        offset: Any = None,
        exposure: Any = None,
    ) -> float:
        """Share of the deviance explained, D^2; scores and y of a collection come to the client."""
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight, offset, exposure))
        given = {"offset": offset, "exposure": exposure}
        score, base = (
            _gathered(self._later(method, X, given, ())) for method in ("_scores", "_offsets")
        )
        target, w = _gathered(y).astype(np.float64), _gathered(sample_weight)
        w = np.ones(len(target)) if w is None else w
        for name, rows in (("y", target), ("sample_weight", w)):
            if rows.shape != (len(score),):
                raise ValueError(f"{name}: expected {len(score)} rows as X has, got {rows.shape}")
        return explained(self.model_.loss, target, score, base[:, None], w)

    def _scores(self, X: Any, offset: Any, exposure: Any) -> Any:
        return self.model_.predict(self._read(X), kind="score", offset=offset, exposure=exposure)

    def _offsets(self, X: Any, offset: Any, exposure: Any) -> Any:
        return self.model_._offset(self._read(X), offset, exposure)[:, 0]


class DaskCWBClassifier(_Dask, CWBClassifier):
    """`CWBClassifier` for dask collections: rows stay on the workers, only sums travel.

    Parameters are those of `CWBClassifier`; bags, warm_start and validation="last" need rows in
    one place, and interactions must be named. Predictions for a dask collection are dask Arrays.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from distributed import Client
    >>> from cwboost.dask import DaskCWBClassifier
    >>> client = Client(n_workers=2, threads_per_worker=1, dashboard_address=":0",
    ...                 processes=False)
    >>> X = da.random.default_rng(0).uniform(size=(2000, 2), chunks=(500, 2))
    >>> classifier = DaskCWBClassifier().fit(X, X[:, 0] > 0.5, client=client)
    >>> classifier.predict(np.array([[0.1, 0.5], [0.9, 0.5]]))
    array([False,  True])
    >>> client.close()
    """

    def _far_loss(self, shards: Shards, given: FitInput) -> Any:
        classes = find_classes(shards, ReadOptions.of(given, as_loss("multinomial")))
        self.classes_ = np.array(classes)
        return self._loss()

    def decision_function(self, X: Any, offset: Any = None) -> Any:
        """Log odds of `classes_[1]`, or a score per class; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().decision_function(X, offset)
        shape = () if len(self.classes_) == 2 else (len(self.classes_),)
        return self._later("decision_function", X, {"offset": offset}, shape)

    def predict_log_proba(self, X: Any, offset: Any = None) -> Any:
        """Logarithms of the probabilities; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict_log_proba(X, offset)
        return self._later("predict_log_proba", X, {"offset": offset}, (len(self.classes_),))

    def predict_proba(self, X: Any, offset: Any = None) -> Any:
        """Probabilities of the classes; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict_proba(X, offset)
        return self._later("predict_proba", X, {"offset": offset}, (len(self.classes_),))

    def predict(self, X: Any, offset: Any = None) -> Any:
        """The most probable class; a dask Array for a collection."""
        if not is_dask_collection(X):
            return super().predict(X, offset)
        return self._later("predict", X, {"offset": offset}, ())

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """Share of the rows whose class is predicted."""
        if not is_dask_collection(X):
            return float(super().score(X, y, sample_weight, offset))
        found = _gathered(self.predict(X, offset))
        return float(accuracy_score(_gathered(y), found, sample_weight=_gathered(sample_weight)))
