"""The rows of a fit as polish sees them: scores, gradients and Gram matrices in coordinates.

Everything is asked for through the verbs of the core, so that it works wherever the rows are.
Does not know how the smoothing is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._core import SLOT_F, SLOT_H, SLOT_R
from cwboost.fitting.problem import FitProblem
from cwboost.frames.columns import Floats
from cwboost.model.model import Model

from .coordinates import Coordinates, places
from .hessian import Gram, GramBlocks, Layout

SLOT_STEP, SLOT_CURVATURE = 8, 9  # slots that boosting does not use
MAX_LEADING = 500  # coordinates of the dense matrix
FEW = 600  # coordinates of a model that all enter the dense matrix
MAX_PENDING = 1 << 22  # numbers of cross-Grams that are held at a time: 32 MB


class WeightedSums(NamedTuple):
    """Sums over the rows of numbers x with weights W."""

    terms: list[Floats]  # B'W x of every term
    total: float  # 1'W x


class PolishedRows:
    """The rows of one part, and the terms that move one score, in their coordinates.

    Scores are in SLOT_F, trial scores in SLOT_H, residuals in SLOT_R. If a row has several scores,
    only the one with the number `output` moves.
    """

    def __init__(self, problem: FitProblem[Any], model: Model, part: int, output: int = 0) -> None:
        self.problem, self.part, self.rows = problem, part, problem.rows
        self.output, self.n_outputs = output, model.n_outputs
        terms = list(model.terms.values())
        self.terms = [k for k, term in enumerate(terms) if term.beta[:, output].any()]
        prepared = problem.prepared
        self.sets = [prepared.shared_bins.of_term[k] for k in self.terms]
        self.bases = [
            prepared.core_rows[k].matrix(problem.plans[k].basis.n_coef) for k in self.terms
        ]
        self._turned_bases = [basis.T.tocsr() for basis in self.bases]
        self.weight = self.rows.weight(part)
        plans = [problem.plans[k] for k in self.terms]
        sums = self.weighted_sums(_core.ONES_SLOT).terms
        grams = self._cross([(i, i) for i in range(len(self.terms))], _core.ONES_SLOT)
        self.coordinates: list[Coordinates] = []
        start, parts = float(model.start_vector[output]), []
        for i, (k, gram) in enumerate(zip(self.terms, grams, strict=True)):
            share, mean = gram / self.weight, sums[i] / self.weight
            own = Coordinates.make(plans[i].basis, problem.systems[k], share, mean)
            beta = terms[k].beta[:, output]
            u = own.of(share, mean, beta)
            start += float(mean @ (beta - own.matrix @ u))
            self.coordinates.append(own)
            parts.append(u)
        self.places = places([own.size for own in self.coordinates])
        self.u, self.intercept = np.concatenate(parts), start
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, plan in enumerate(plans):
            key = plan.columns if len(plan.columns) == 1 else (plan.name, i)
            groups.setdefault(key, []).append(i)
        self.groups = list(groups.values())
        leading = FEW if len(self.u) <= FEW else MAX_LEADING
        self.layout = Layout.make([[self.places[i] for i in g] for g in self.groups], leading)

    def switch_to(self, part: int) -> float:
        """Use the rows of another part; return the ratio of the weights of the two parts."""
        self.part, old = part, self.weight
        self.weight = self.rows.weight(part)
        return self.weight / old

    # --- scores -----------------------------------------------------------------------------------

    def coef(self, i: int, u: Floats) -> Floats:
        """Return the coefficients (d,) of the term at position i."""
        return self.coordinates[i].matrix @ u[self.places[i]]

    def add(self, slot: int, u: Floats) -> list[Any]:
        """Return verbs that add the effects with coordinates u to a slot."""
        out = []
        for i, number in enumerate(self.sets):
            part = u[self.places[i]]
            if part.any():
                values = self.bases[i] @ self.coef(i, u)
                values = np.ascontiguousarray(values)
                out.append(_core.Add(slot, number, values, output=self.output))
        return out

    def direct(self, u: Floats, intercept: float) -> None:
        """Write how scores change along a direction."""
        # Fill adds the offset, which does not change.
        start = [0.0] * self.n_outputs
        batch = [_core.Fill(SLOT_H, list(start))]
        start[self.output] = intercept
        batch.append(_core.Fill(SLOT_STEP, start))
        without_offset = _core.Mix(SLOT_STEP, 1.0, SLOT_STEP, -1.0, SLOT_H)
        self.rows.run([*batch, without_offset, *self.add(SLOT_STEP, u)])

    def try_step(self, length: float) -> float:
        """Write trial scores `length` along the direction; return their risk."""
        batch: list[Any] = [
            _core.Mix(SLOT_H, 1.0, SLOT_F, length, SLOT_STEP),
            _core.Residual(SLOT_H, _core.NO_SLOT, [self.part]),
        ]
        return float(self.rows.run(batch)[-1].risk[0])

    def accept(self) -> None:
        """Make the trial scores the present scores."""
        self.rows.run([_core.Mix(SLOT_F, 1.0, SLOT_H, 0.0, SLOT_H)])

    # --- derivatives ------------------------------------------------------------------------------

    def residuals(self) -> tuple[float, float]:
        """Write the residuals of the present scores; return the risk and the sum of w r^2."""
        batch: list[Any] = [
            _core.Mix(SLOT_R, 0.0, SLOT_F, 0.0, SLOT_F),
            _core.Residual(SLOT_F, SLOT_R, [self.part]),
        ]
        reply = self.rows.run(batch)[-1]
        return float(reply.risk[0]), float(reply.moved) ** 2

    def weighted_sums(self, slot: int) -> WeightedSums:
        """Return the sums of every term, and of all rows, for the values of a slot."""
        distinct = list(dict.fromkeys(self.sets))
        sums = self.rows.run([_core.BinSums([slot], distinct, self.part)])[0].sums
        if slot != _core.ONES_SLOT:
            sums = [of_all.reshape(self.n_outputs, -1)[self.output] for of_all in sums]
        of_set = dict(zip(distinct, sums, strict=True))
        parts = zip(self._turned_bases, self.sets, strict=True)
        total = self.problem.prepared.shared_bins.sets[distinct[0]].total(sums[0])
        return WeightedSums(
            [np.asarray(turned @ of_set[number]) for turned, number in parts], total
        )

    def gradient(self) -> tuple[Floats, float]:
        """Return the gradient in coordinates, and the sum of the weighted residuals."""
        sums = self.weighted_sums(SLOT_R)
        return self._turn(sums.terms), sums.total

    def tails(self, u: Floats) -> Floats:
        """Return the fixed penalties of thin tails times u, for second derivatives of 1."""
        out = np.zeros(len(u))
        for own, place in zip(self.coordinates, self.places, strict=True):
            if own.tails is not None:
                out[place] = own.tails @ u[place]
        return out

    def _turn(self, sums: Sequence[Floats]) -> Floats:
        parts = [own.matrix.T @ s for own, s in zip(self.coordinates, sums, strict=True)]
        return np.concatenate(parts)

    def curvature(self) -> tuple[Floats, float]:
        """Write second derivatives; return X'Wh and the sum of w h, h the second derivatives."""
        self.rows.run([_core.Curvature(SLOT_F, SLOT_CURVATURE)])
        sums = self.weighted_sums(SLOT_CURVATURE)
        return self._turn(sums.terms), sums.total

    def gram(self, constant: Floats, total: float) -> Gram:
        """Return the Gram matrix weighted by the second derivatives, without the intercept.

        `constant` and `total` are the results of `curvature`.
        """
        blocks = GramBlocks(self.layout, [[self.places[i] for i in g] for g in self.groups])
        group_of = {i: g for g, group in enumerate(self.groups) for i in group}
        pairs = [(i, j) for i in range(len(self.terms)) for j in range(i + 1)]
        for some in self._batches(pairs):
            for (i, j), block in zip(some, self._cross(some, SLOT_CURVATURE), strict=True):
                a, b = self.coordinates[i].matrix, self.coordinates[j].matrix
                rows, columns = self.places[i], self.places[j]
                if group_of[i] != group_of[j]:  # only the leading coordinates are connected
                    rows, columns = blocks.leading_part(rows), blocks.leading_part(columns)
                    a, b = a[:, : rows.stop - rows.start], b[:, : columns.stop - columns.start]
                turned = a.T @ block @ b - np.outer(constant[rows], constant[columns] / total)
                tails = self.coordinates[i].tails if i == j else None
                if tails is not None:
                    turned += total / self.weight * tails
                blocks.set(rows, columns, turned)
        return blocks.gram()

    def _cross(self, pairs: Sequence[tuple[int, int]], by: int) -> list[Floats]:
        numbers = [(self.terms[i], self.terms[j]) for i, j in pairs]
        learners = self.problem.learners
        cross = _core.cross_of(learners, numbers, self.part, by, self.output)
        sums = self.rows.run([cross])[0].sums
        n_coef = [self.problem.plans[k].basis.n_coef for k in self.terms]
        return [s.reshape(n_coef[i], n_coef[j]) for (i, j), s in zip(pairs, sums, strict=True)]

    def _batches(self, pairs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
        n_coef = [self.problem.plans[k].basis.n_coef for k in self.terms]
        out: list[list[tuple[int, int]]] = [[]]
        held = 0
        for i, j in pairs:
            held += n_coef[i] * n_coef[j]
            if out[-1] and held > MAX_PENDING:
                out.append([])
                held = n_coef[i] * n_coef[j]
            out[-1].append((i, j))
        return out
