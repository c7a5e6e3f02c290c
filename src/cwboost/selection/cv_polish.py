"""Polish in a cross-validation: the model of every fold is polished and tested on held-out rows.

Does not know how folds are drawn and boosted (see fold_fits.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cwboost._core import SLOT_F
from cwboost.fitting.polish.cost import impossible, too_slow
from cwboost.fitting.polish.hessian import SingularError
from cwboost.fitting.polish.model_refit import ModelRefit
from cwboost.fitting.polish.polish import refit_model
from cwboost.fitting.polish.weight import HeldOutRisk, choose_weight
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.smoothing import one_blas_thread
from cwboost.frames.columns import Floats
from cwboost.losses import risk
from cwboost.metrics.metric import RISK, HeldOutRows, Metric
from cwboost.model.model import Model


@dataclass(frozen=True, eq=False)
class PolishedFolds:
    """The folds of a cross-validation, polished: the attribute `polished` of a `CV`.

    The weight of the refit in a fold is chosen by the test rows of the other folds.

    Attributes
    ----------
    iteration : int
        The number of boosting iterations before polish.
    weight : float
        The weight of the refit that all folds together choose; 0: keep the boosted model.
    reason : str
        Why the folds were not polished; "" if they were.
    boosted_risk, risk : array of shape (folds,)
        Mean loss of the test rows, before and after polish.
    metrics : dict of arrays of shape (folds,)
        Every other metric after polish.
    distinct : float
        As in `CV`.
    """

    iteration: int
    weight: float
    reason: str
    boosted_risk: Floats
    risk: Floats
    metrics: dict[str, Floats]
    distinct: float

    def values(self, name: str) -> Floats:
        """Return the (folds,) values of the risk or of a metric after polish."""
        return self.risk if name == RISK else self.metrics[name]

    def mean(self, name: str = RISK) -> float:
        """Return the mean of the risk or of a metric over the folds."""
        return float(self.values(name).mean())

    def standard_error(self, name: str = RISK) -> float:
        """Return the standard error of the mean."""
        return self._error(self.values(name))

    @property
    def gain(self) -> float:
        """How much polish lowers the mean risk."""
        return float((self.boosted_risk - self.risk).mean())

    @property
    def helps(self) -> bool:
        """Whether polish lowers the mean risk."""
        return self.weight > 0.0 and self.gain > 0.0

    @property
    def gain_error(self) -> float:
        """The standard error of `gain`, from the differences within folds."""
        return self._error(self.boosted_risk - self.risk)

    def _error(self, values: Floats) -> float:
        if len(values) == 1:
            return float("nan")
        return float(values.std(ddof=1) / np.sqrt(self.distinct))

    @property
    def words(self) -> str:
        """What polish gains, in a sentence."""
        if self.reason:
            return f"the folds were not polished: {self.reason}"
        return (
            f"risk {self.mean():.5g} instead of {self.boosted_risk.mean():.5g} after "
            f"{self.iteration} iterations, gain {self.gain:.3g} (se {self.gain_error:.2g}), "
            f"weight {self.weight:.2g}"
        )

    def __repr__(self) -> str:
        return f"<PolishedFolds: {self.words}>"


class PolishedFold(NamedTuple):
    """The scores of a fold's test rows before and after polish."""

    rows: HeldOutRows
    boosted: Floats  # (n, q)
    polished: Floats
    dispersion: float
    reason: str
    refit: ModelRefit | None  # None unless the model is wanted

    @classmethod
    def of(
        cls,
        problem: FitProblem[PreparedRows],
        model: Model,
        part: int,
        test_weights: Floats,
        *,
        required: bool,
        keep: bool,
    ) -> PolishedFold:
        """Polish the model of a fold on the rows of a part, and score its test rows."""
        rows, numbers = HeldOutRows.select(problem.prepared.data, test_weights)
        boosted = problem.scores(model).T[numbers]
        reason = impossible(problem, model) or (None if required else too_slow(problem, model))
        if reason is None:
            try:
                with one_blas_thread():
                    refit = refit_model(problem, model, part)
            except SingularError as error:
                reason = str(error)
        if reason is not None and required:
            raise ValueError(f"polish: {reason}")
        if reason is not None:
            return cls(rows, boosted, boosted, 1.0, reason, None)
        polished = np.asarray(problem.local_rows.read(SLOT_F)).T[numbers]
        dispersion = refit.dispersion
        return cls(rows, boosted, polished, dispersion, "", refit if keep else None)

    def scores(self, weight: float) -> Floats:
        return (1.0 - weight) * self.boosted + weight * self.polished

    def risk(self, weight: float) -> float:
        """Return the mean loss of the test rows for a weight of the refit."""
        rows = self.rows
        return risk(rows.loss, rows.y, self.scores(weight), rows.weights)

    @property
    def held_out(self) -> HeldOutRisk:
        total = float(self.rows.weights.sum())
        a, b, c = (total * self.risk(weight) for weight in (0.0, 0.5, 1.0))
        return HeldOutRisk((a, b, c), self.dispersion)


def summarize_folds(
    folds: Sequence[PolishedFold], iteration: int, metrics: Sequence[Metric], distinct: float
) -> PolishedFolds:
    """Choose the weights and return the risks and metrics of all folds."""
    reason = next((fold.reason for fold in folds if fold.reason), "")
    if reason:
        weight, weights = 0.0, [0.0] * len(folds)
    else:
        held_out = [fold.held_out for fold in folds]
        weight = choose_weight(HeldOutRisk.total(held_out))
        others = [held_out[:k] + held_out[k + 1 :] for k in range(len(folds))]
        weights = [choose_weight(HeldOutRisk.total(some)) if some else weight for some in others]
    pairs = list(zip(folds, weights, strict=True))
    return PolishedFolds(
        iteration=iteration,
        weight=weight,
        reason=reason,
        boosted_risk=np.array([fold.risk(0.0) for fold in folds]),
        risk=np.array([fold.risk(w) for fold, w in pairs]),
        metrics={
            m.name: np.array([m.value(fold.rows, fold.scores(w)) for fold, w in pairs])
            for m in metrics
            if m.name != RISK
        },
        distinct=distinct,
    )
