"""All shards of a fit: calls to their methods, and the history that restores a lost shard.

Does not know how shards are reached (see dask_shards.py) or what their methods do (see shard.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from cwboost import _core
from cwboost._core import SLOT_F

# The verbs that write to the slots of the rows; all others only read.
WRITING_VERBS = (
    _core.Fill,
    _core.Residual,
    _core.MeanResidual,
    _core.Curvature,
    _core.Add,
    _core.Mix,
)


class Shards(ABC):
    """All shards of a fit.

    `ask` calls a method that leaves the state of the shards as it is. `tell` calls a method that
    changes it; such calls are recorded, so that a lost shard can be restored by repeating them.
    """

    def __init__(self) -> None:
        self._calls: list[tuple[str, list[tuple[Any, ...]]]] = []
        self._batches: list[list[Any]] = []  # verbs since all slots were last filled

    @property
    @abstractmethod
    def n_shards(self) -> int: ...

    @abstractmethod
    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard, each with its own arguments; return the results."""

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method that does not change the shards; return the results."""
        return self.call(method, [arguments] * self.n_shards)

    def tell(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Call a method that changes the shards; return the results.

        `each` has a further argument for every shard.
        """
        per_shard = [arguments] * self.n_shards if each is None else [(*arguments, x) for x in each]
        replies = self.call(method, per_shard)
        self._calls.append((method, per_shard))
        return replies

    def run(self, batch: Sequence[Any]) -> list[list[_core.Reply]]:
        """Run a batch of verbs; return the replies of every shard."""
        replies = self.call("run", [(batch,)] * self.n_shards)
        writing = [verb for verb in batch if isinstance(verb, WRITING_VERBS)]
        if writing:
            if isinstance(batch[0], _core.Fill) and batch[0].out == SLOT_F:
                self._batches.clear()  # earlier contents of the slots are not needed
            self._batches.append(writing)
        return replies

    def history(self, number: int) -> list[tuple[str, tuple[Any, ...]]]:
        """Return the calls that bring a new shard to the state of shard `number`."""
        calls = [(method, arguments[number]) for method, arguments in self._calls]
        return [*calls, *(("run", (batch,)) for batch in self._batches)]

    def total(self, method: str, *arguments: Any) -> Any:
        """Return the sum of the results of `ask`."""
        return reduce(add, self.ask(method, *arguments))
