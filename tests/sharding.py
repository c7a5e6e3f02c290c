"""In-process shards for tests. Arguments and results are pickled, and a shard can be lost."""

from __future__ import annotations

import pickle

import cloudpickle
import numpy as np

from cwboost.binning.rules import as_bins
from cwboost.distributed.fit import TermOptions, check_named_pairs, fit_shards
from cwboost.distributed.partitions import Partition
from cwboost.distributed.shard import Shard
from cwboost.distributed.shards import Shards
from cwboost.fitting.callbacks import RunContext
from cwboost.fitting.checkpoint import Checkpoint
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.options import FitOptions
from cwboost.losses import as_loss
from cwboost.progress import as_progress


class LocalShards(Shards):
    """Shards in this process, built from one list of partitions per shard."""

    def __init__(self, partitions_by_shard):
        super().__init__()
        self.makers = [lambda parts=parts: Shard(parts, 1) for parts in partitions_by_shard]
        self.shards = [make() for make in self.makers]
        self.calls, self.sent = 0, 0
        self.lose_at = ()  # the first shard is lost before these calls

    @property
    def n_shards(self):
        return len(self.shards)

    def call(self, method, arguments):
        self.calls += 1
        if self.calls in self.lose_at:
            self.shards[0] = self.makers[0]()
            self.shards[0].replay(self.history(0))
        out = []
        for shard, shard_arguments in zip(self.shards, arguments, strict=True):
            sent = cloudpickle.dumps(shard_arguments)
            self.sent += len(sent)
            out.append(pickle.loads(pickle.dumps(getattr(shard, method)(*pickle.loads(sent)))))
        return out


def cut(n, n_parts, seed=0):
    """Return (begin, end) of partitions of different sizes; some may be empty."""
    rng = np.random.default_rng(seed)
    inner = np.sort(rng.integers(0, n + 1, n_parts - 1))
    return list(zip([0, *inner], [*inner, n], strict=True))


def split_rows(table, arrays, n_parts=5, n_shards=2, held=()):
    """Return shards that hold a mapping of columns and the arrays aligned with it.

    Shard s has the partitions s, s + n_shards, ...
    """
    n = len(next(iter(table.values())))
    parts = []
    for k, (a, b) in enumerate(cut(n, n_parts)):
        rows = {name: column[a:b] for name, column in table.items()}
        parts.append(Partition(k, rows, {r: np.asarray(x)[a:b] for r, x in arrays.items()}))
    parts += list(held)
    return LocalShards([parts[s::n_shards] for s in range(n_shards)])


def fit(shards, y, learners=None, loss="squared", optimizer=None, n_iter=50, bins="auto",
        weights=None, offset=None, exposure=None, start=None, scale="auto", validation=None,
        patience=50, random_state=0, search="auto", interactions=None, callback=None,
        checkpoint=None, min_rows_per_bin=None, polish=None, metric=None):  # fmt: skip
    """Fit like `cb.fit`, with the arrays stored in the partitions."""
    fit_input = FitInput({}, y, weights, offset, exposure, validation, (), min_rows_per_bin, None,
                         as_bins(bins))  # fmt: skip
    options = FitOptions.checked(optimizer, n_iter, patience, start, scale, None, search, polish,
                                 metric=metric)  # fmt: skip
    checkpoint_file = None if checkpoint is None else Checkpoint(checkpoint)
    pairs = check_named_pairs(interactions)
    terms = TermOptions(as_loss(loss), learners, interactions=pairs)
    context = RunContext(callback, as_progress(False), checkpoint_file)
    return fit_shards(shards, fit_input, terms, options, random_state, context)
