"""The core's view of rows on shards: verbs are sent to all shards, their replies are added up.

Does not know about columns, terms, or how shards are reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cwboost import _core
from cwboost.frames.columns import Floats

from .data import ShardedData
from .shard import CrossRequest
from .shards import WRITING_VERBS

REMEMBERED = 3  # last iterations whose bin sums are requested ahead
MANY_ROWS = 500_000  # per shard, from which on bin sums take longer than a round trip


class ShardedRows(_core.Rows):
    """The rows of all shards.

    Bin sums that the core needed in the last iterations are requested together with the next
    residual. Most iterations then need one round trip.
    """

    def __init__(self, data: ShardedData, basis_numbers: Mapping[int, int]) -> None:
        super().__init__()
        self.shards, self.data = data.shards, data
        self.basis_numbers = basis_numbers  # the shards' number of a basis, by its key in the core
        self.totals = np.array(data.weights)  # (shards, parts)
        self.round_trips = 0
        self._ready: dict[tuple[int, int, int], Floats] = {}  # by slot, set and part
        self._wanted: list[set[tuple[int, int, int]]] = [set()]  # by iteration, the last ones

    def n_outputs(self) -> int:
        return self.data.loss.n_outputs

    def n_rows(self) -> int:
        return self.data.n_rows

    def remote(self) -> bool:
        return True

    def linear(self) -> bool:
        return self.data.loss.linear

    def knows_cross(self) -> bool:
        """Cross-Grams save bin sums but cost round trips."""
        return self.linear() or self.n_rows() >= MANY_ROWS * self.shards.n_shards

    def weight(self, part: int) -> float:
        return float(self.totals[:, part].sum())

    def run(self, batch: Sequence[Any]) -> list[_core.Reply]:
        writes = any(isinstance(verb, WRITING_VERBS) for verb in batch)
        if not writes and all(isinstance(verb, _core.BinSums) for verb in batch):
            return [self._sums(verb) for verb in batch]
        sent = [self._as_request(verb) for verb in batch]
        ahead: list[_core.BinSums] = []
        if writes:
            self._ready.clear()
            if any(isinstance(v, _core.Residual) and v.out >= 0 for v in batch):
                ahead = self._ahead()
                self._wanted = [*self._wanted[-REMEMBERED + 1 :], set()]
        replies = self._request([*batch, *ahead], [*sent, *ahead])
        for verb, reply in zip(ahead, replies[len(batch) :], strict=True):
            self._keep(verb, reply)
        return replies[: len(batch)]

    def _request(self, batch: Sequence[Any], sent: Sequence[Any]) -> list[_core.Reply]:
        self.round_trips += 1
        answers = zip(*self.shards.run(sent), strict=True)
        return [self._merge(verb, parts) for verb, parts in zip(batch, answers, strict=True)]

    def _as_request(self, verb: Any) -> Any:
        if not isinstance(verb, _core.Cross):
            return verb
        number = self.basis_numbers
        pairs = [(a, b, number[x], number[y]) for a, b, x, y in verb.pairs]
        return CrossRequest(pairs, verb.part, verb.by, verb.output)

    def _merge(self, verb: Any, replies: Sequence[_core.Reply]) -> _core.Reply:
        moved = float(np.sqrt(sum(r.moved**2 for r in replies)))
        sums = [np.sum(parts, axis=0) for parts in zip(*(r.sums for r in replies), strict=True)]
        risk = []
        for j, part in enumerate(verb.parts if isinstance(verb, _core.Residual) else ()):
            if verb.risk:
                w = self.totals[:, part]
                have = [(x, r.risk[j]) for x, r in zip(w, replies, strict=True) if x > 0]
                risk.append(float(sum(x * value for x, value in have) / w.sum()))
        return _core.Reply(moved, risk, sums)

    # --- bin sums that are requested ahead --------------------------------------------------------

    def _sums(self, verb: _core.BinSums) -> _core.Reply:
        wanted = [(slot, s, verb.part) for slot in verb.slots for s in verb.sets]
        self._wanted[-1].update(wanted)
        lacking = [key for key in wanted if key not in self._ready]
        if lacking:
            verbs = _verbs(lacking)
            for one, reply in zip(verbs, self._request(verbs, verbs), strict=True):
                self._keep(one, reply)
        return _core.Reply(0.0, [], [self._ready[key] for key in wanted])

    def _ahead(self) -> list[_core.BinSums]:
        return _verbs(sorted(set().union(*self._wanted)))

    def _keep(self, verb: _core.BinSums, reply: _core.Reply) -> None:
        keys = [(slot, s, verb.part) for slot in verb.slots for s in verb.sets]
        self._ready.update(zip(keys, reply.sums, strict=True))


def _verbs(keys: Sequence[tuple[int, int, int]]) -> list[_core.BinSums]:
    """Return one verb per slot and part."""
    groups: dict[tuple[int, int], list[int]] = {}
    for slot, number, part in keys:
        groups.setdefault((slot, part), []).append(number)
    return [_core.BinSums([slot], sets, part) for (slot, part), sets in groups.items()]
