"""`cwboost.fit` and the estimators for rows on a Dask cluster. Needs the extra `dask`.

The rows stay on the workers; only sums travel. How workers are reached is in
distributed/dask_shards.py, the estimators are in estimators/dask.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    import dask.array  # noqa: F401
    from distributed import Client
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "cwboost.dask needs dask and distributed: pip install 'cwboost[dask]'", name=error.name
    ) from None

from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.binning.rules import as_bins
from cwboost.distributed.dask_shards import open_shards
from cwboost.distributed.fit import TermOptions, check_named_pairs, fit_shards
from cwboost.estimators.dask import DaskCWBClassifier, DaskCWBRegressor
from cwboost.fitting.callbacks import RunContext
from cwboost.fitting.checkpoint import Checkpoint
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.interactions import check_interactions
from cwboost.fitting.options import FitOptions, as_seed, check_counts, check_min_rows
from cwboost.losses import as_loss
from cwboost.model.model import Model
from cwboost.optimizers import Optimizer
from cwboost.progress import as_progress

__all__ = ["DaskCWBClassifier", "DaskCWBRegressor", "fit"]


@explain_unknown
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
    patience: Any = 50,
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
    metric: Any = None,
) -> Model:
    """`cwboost.fit` for rows on the workers of a cluster: the same model, whatever the partitions.

    Parameters
    ----------
    client : distributed.Client
    table : dask DataFrame, or dask Array with two dimensions
        Its partitions are computed once and stay on their workers.
    y : name of a column, formula, dask Series or Array
    weights, offset, exposure : name of a column, dask Series or Array, optional
    validation : fraction, name of a column, dask mask or weights, or (table, y[, weights, offset])
    interactions : list of pairs of names, optional
    n_threads : int, optional
        Threads per worker. By default all threads of the worker.
    min_rows_per_bin : int, optional
        Bins with fewer rows on some worker are merged with their neighbours before the fit, and
        rare levels count as unseen. Every sum that leaves a worker then covers at least this many
        rows.
    timeout : float
        Seconds after which it is an error that a worker does not answer. (If the scheduler counts
        the worker as lost, another worker reads its partitions again.)
    metric : str or list of str, optional
        As in `cwboost.fit`, for metrics that are means over rows: "log_loss", "accuracy", "brier",
        "rmse", "mae". Only their sums leave the workers.
    learners, loss, optimizer, n_iter, bins, start, scale, patience, callback, time_limit, \
random_state, search, progress, checkpoint
        As in `cwboost.fit`.

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
    check_counts(n_iter, time_limit, n_threads)
    options = FitOptions.checked(
        optimizer, n_iter, patience, start, scale, time_limit, search, metric=metric
    )
    check_min_rows(min_rows_per_bin)
    seed, pairs = as_seed(random_state), check_named_pairs(check_interactions(interactions))
    terms = TermOptions(as_loss(loss), learners, interactions=pairs)
    file = None if checkpoint is None else Checkpoint(checkpoint)
    context = RunContext(callback, as_progress(progress), file)
    fit_input = FitInput(
        {},  # the rows stay on the workers
        y,
        weights,
        offset,
        exposure,
        validation,
        min_rows=min_rows_per_bin,
        rule=as_bins(bins),
    )
    with open_shards(client, table, fit_input, n_threads, timeout, context.progress) as shards:
        return fit_shards(shards, fit_input, terms, options, seed, context)
