"""Rows in many places: all shards of a fit, how they are asked and told.

Knows what shards have been told, for those that must begin anew. Knows nothing of how shards are
reached (`cwboost.dask` does), of columns (`far_columns`), rows (`far_rows`) or the fit (`far_fit`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from cwboost import _core
from cwboost._core import SLOT_F

STATE = (_core.Fill, _core.Residual, _core.MeanResidual, _core.Add, _core.Mix)  # verbs that last


class Shards(ABC):
    """All shards of a fit, and what they have been told, for those that must begin anew."""

    def __init__(self) -> None:
        self._told: list[tuple[str, list[tuple[Any, ...]]]] = []
        self._batches: list[list[Any]] = []  # verbs since all slots began anew

    @property
    @abstractmethod
    def n_shards(self) -> int: ...

    @abstractmethod
    def call(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Calls a method of every shard with its arguments."""

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """A question that changes nothing."""
        return self.call(method, [arguments] * self.n_shards)

    def tell(self, method: str, *arguments: Any, each: Sequence[Any] | None = None) -> list[Any]:
        """Something that shards remember; `each`: a last argument of their own."""
        given = [arguments] * self.n_shards if each is None else [(*arguments, x) for x in each]
        replies = self.call(method, given)
        self._told.append((method, given))
        return replies

    def run(self, batch: Sequence[Any]) -> list[list[_core.Reply]]:
        """Verbs; replies shard by shard."""
        replies = self.call("run", [(batch,)] * self.n_shards)
        lasting = [verb for verb in batch if isinstance(verb, STATE)]
        if lasting:
            if isinstance(batch[0], _core.Fill) and batch[0].out == SLOT_F:
                self._batches.clear()  # whatever slots held before, nobody will ask for
            self._batches.append(lasting)
        return replies

    def history(self, number: int) -> list[tuple[str, tuple[Any, ...]]]:
        """All calls that make a shard what it is."""
        told = [(method, given[number]) for method, given in self._told]
        return [*told, *(("run", (batch,)) for batch in self._batches)]

    def total(self, method: str, *arguments: Any) -> Any:
        """Sum of the answers to a question."""
        return reduce(add, self.ask(method, *arguments))
