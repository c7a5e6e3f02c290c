"""The refit of a whole model: one score, or several scores in sweeps.

Given the other scores of a row, the loss is a function of one score. For classes it is that of two
classes, with an offset that the other scores make. So each score is refitted while the others stay,
and sweeps over the scores are repeated until the risk settles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost import _core
from cwboost._core import SLOT_F, SLOT_H, VALIDATION_PART
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.scores import score_batch
from cwboost.frames.columns import Floats
from cwboost.model.model import Model

from .polished_rows import SLOT_STEP, PolishedRows
from .refit import MAX_STEPS, Refit, Smoothing, refit
from .weight import HeldOutRisk

MAX_SWEEPS = 4
SWEEP_STEPS = 3  # steps of one score in a sweep
SETTLED = 0.1  # change of the summed loss in the last sweep, per effective df


class ModelRefit:
    """A boosted model whose terms are refitted to one part of the rows.

    `rows`, `smoothing` and `found` have one entry per score.
    """

    def __init__(self, problem: FitProblem[Any], model: Model, part: int) -> None:
        self.problem, self.boosted, self.part = problem, model, part
        outputs = [k for k in range(model.n_outputs) if _moves(model, k)]
        self.rows = [PolishedRows(problem, model, part, k) for k in outputs]
        self.smoothing = [Smoothing(rows) for rows in self.rows]
        self.found: list[Refit] = []

    @property
    def dispersion(self) -> float:
        return float(np.mean([found.dispersion for found in self.found]))

    def switch_to(self, part: int) -> None:
        """Use the rows of another part from now on."""
        for rows, smoothing in zip(self.rows, self.smoothing, strict=True):
            smoothing.rescale(rows.switch_to(part))
        self.part = part

    def run(self, *, rough: bool = False) -> None:
        """Refit all scores, from their present values; `rough` as in `refit`."""
        self.score()
        if len(self.rows) == 1:
            self.found = [self._refit(0, MAX_STEPS, rough=rough)]
            return
        risk = np.inf
        for _ in range(MAX_SWEEPS):
            before = risk
            self.found = [self._refit(k, SWEEP_STEPS, rough=rough) for k in range(len(self.rows))]
            risk = self.rows[-1].residuals()[0]
            edf = sum(float(found.edf.sum()) for found in self.found)
            if abs(before - risk) * self.rows[0].weight < SETTLED * self.dispersion * edf:
                break

    def _refit(self, k: int, max_steps: int, *, rough: bool) -> Refit:
        n_rows, loss = self.problem.prepared.n_observations(self.part), self.boosted.loss
        return refit(
            self.rows[k], loss, n_rows, self.smoothing[k], rough=rough, max_steps=max_steps
        )

    def score(self) -> None:
        """Write the scores of the present coordinates."""
        start = self.boosted.start_vector.copy()
        for rows in self.rows:
            start[rows.output] = rows.intercept
        added = [verb for rows in self.rows for verb in rows.add(SLOT_F, rows.u)]
        self.problem.rows.run([_core.Fill(SLOT_F, start.tolist()), *added])

    def held_out_risk(self) -> HeldOutRisk:
        """Return the losses of the validation rows between the boosted and the refitted scores."""
        rows = self.problem.rows
        rows.run(
            [
                *score_batch(self.boosted, self.problem.prepared),
                _core.Mix(SLOT_H, 1.0, SLOT_F, 0.0, SLOT_F),
            ]
        )
        self.score()
        total = rows.weight(VALIDATION_PART)
        losses = []
        for share in (0.0, 0.5, 1.0):
            batch: list[Any] = [
                _core.Mix(SLOT_STEP, 1.0 - share, SLOT_H, share, SLOT_F),
                _core.Residual(SLOT_STEP, _core.NO_SLOT, [VALIDATION_PART]),
            ]
            losses.append(total * float(rows.run(batch)[-1].risk[0]))
        return HeldOutRisk((losses[0], losses[1], losses[2]), self.dispersion)

    def start(self) -> Floats:
        """(q,) the starts of the refit."""
        out = self.boosted.start_vector.copy()
        for rows, found in zip(self.rows, self.found, strict=True):
            out[rows.output] = found.intercept
        return out

    def coefficients(self) -> dict[int, Floats]:
        """Return the (n_coef, q) coefficients of the refitted terms, by the number of the term."""
        terms = list(self.boosted.terms.values())
        out: dict[int, Floats] = {}
        for rows, found in zip(self.rows, self.found, strict=True):
            for i, k in enumerate(rows.terms):
                out.setdefault(k, np.zeros_like(terms[k].beta))
                out[k][:, rows.output] = rows.coef(i, found.u)
        return dict(sorted(out.items()))

    def edf(self) -> dict[int, float]:
        """Return the effective df of the refitted terms, over all scores."""
        out: dict[int, float] = {}
        for rows, found in zip(self.rows, self.found, strict=True):
            for i, k in enumerate(rows.terms):
                out[k] = out.get(k, 0.0) + float(found.edf[rows.places[i]].sum())
        return out

    def smoothing_of_terms(self) -> dict[int, tuple[float, ...]]:
        """Return the smoothing parameters of the refitted terms, score by score."""
        out: dict[int, tuple[float, ...]] = {}
        for rows, smoothing in zip(self.rows, self.smoothing, strict=True):
            of_rows = smoothing.by_term([str(k) for k in rows.terms])
            for k in rows.terms:
                out[k] = out.get(k, ()) + of_rows[str(k)]
        return out

    def means(self) -> dict[int, Floats]:
        """Return the mean rows of the bases of the refitted terms over the rows."""
        out: dict[int, Floats] = {}
        for rows in self.rows:
            sums = rows.weighted_sums(_core.ONES_SLOT).terms
            out |= {k: sums[i] / rows.weight for i, k in enumerate(rows.terms)}
        return out


def _moves(model: Model, output: int) -> bool:
    """Whether any term of a model moves a score."""
    return any(term.beta[:, output].any() for term in model.terms.values())
