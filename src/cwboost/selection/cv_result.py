"""The result of a cross-validation: risks and metrics along the path, and the best iterations.

Does not know how folds are fitted (see fold_fits.py), or how the result is drawn (plotting/cv.py)
and written as text (cv_text.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.text import count
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.losses import Loss
from cwboost.metrics.metric import RISK, first_best, standard_deviation
from cwboost.model.model import Model
from cwboost.optimizers import Optimizer

from .cv_polish import PolishedFolds

EDGE = 0.05  # a best iteration in this last share of the path suggests that more may be better
# The last iterations count as better if they gain this share of the total gain, or this share of
# the best value (the risk of a nearly perfect fit falls by a tiny share of what has been gained).
MIN_GAIN, MIN_SHARE = 1e-4, 0.01


@dataclass(frozen=True, eq=False)
class CV:
    """The result of `cb.cv`: risks and metrics of the test rows of each fold along the path.

    Attributes
    ----------
    risk, training_risk : array of shape (folds, n_iter + 1)
        Mean loss of the test rows and of the training rows after 0, 1, ... iterations.
    metrics : dict of arrays of shape (folds, len(grid))
        Every other metric after the iterations `grid`.
    grid : array of iterations
    chosen_by : str
        "risk", or the metric that decides which iteration is best.
    greater_is_better : bool
        Whether greater values of that metric are better.
    loss, optimizer
        The loss and the optimizer of the fits.
    asked : int
        The argument `n_iter`; the number of iterations that were run is `n_iter`.
    ended : bool
        Whether no path can go on, because nothing is left to gain or it diverged.
    distinct : float
        The number of folds of this size that test every row once: the number of folds, unless
        repeated folds or random draws test rows several times.
    models : tuple of Model, or None
        The model of each fold at the best iteration, with `keep_models=True`.
    polished : PolishedFolds or None
        Risks and metrics of the folds after polish, with `polish=`.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {"x": rng.uniform(size=200), "z": rng.normal(size=200)}
    >>> y = np.sin(6 * table["x"]) + rng.normal(0, 0.3, 200)
    >>> found = cb.cv(table, y, n_iter=100, folds=5)
    >>> found.risk.shape
    (5, 101)
    >>> model = cb.fit(table, y, n_iter=found.best_iteration)
    """

    risk: Floats
    training_risk: Floats
    metrics: dict[str, Floats]
    grid: NDArray[np.int64]
    chosen_by: str
    greater_is_better: bool
    loss: Loss
    optimizer: Optimizer
    asked: int
    ended: bool
    distinct: float
    models: tuple[Model, ...] | None = None
    polished: PolishedFolds | None = None

    @property
    def n_folds(self) -> int:
        return len(self.risk)

    @property
    def n_iter(self) -> int:
        """The number of iterations that were run."""
        return int(self.risk.shape[1]) - 1

    @property
    def values(self) -> Floats:
        """(folds, len(iterations)) values of the risk or metric that decides."""
        return self.risk if self.chosen_by == RISK else self.metrics[self.chosen_by]

    @property
    def iterations(self) -> NDArray[np.int64]:
        """The iterations of `values`, `mean` and `standard_error`."""
        return np.arange(self.n_iter + 1) if self.chosen_by == RISK else self.grid

    @property
    def mean(self) -> Floats:
        """Mean of `values` over the folds."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def standard_error(self) -> Floats:
        """Standard error of `mean`: standard deviation over the folds / sqrt(distinct).

        It is NaN for one fold. More draws of the same rows do not make it smaller. Folds share
        training rows, so it is a guide rather than the basis of an exact interval.
        """
        return self._error(self.values)

    def _error(self, values: Floats) -> Floats:
        return np.asarray(standard_deviation(values) / np.sqrt(self.distinct))

    @property
    def best_iteration(self) -> int:
        """The number of iterations with the best mean."""
        return int(self.iterations[self._best])

    @property
    def best_iteration_1se(self) -> int:
        """The fewest iterations whose mean is within one standard error of the best."""
        sign = -1.0 if self.greater_is_better else 1.0
        mean, error = sign * self.mean, self.standard_error[self._best]
        if not np.isfinite(error):
            return self.best_iteration
        return int(self.iterations[np.argmax(mean <= mean[self._best] + error)])

    @property
    def best(self) -> float:
        """The best mean."""
        return float(self.mean[self._best])

    @property
    def _best(self) -> int:
        return first_best(self.mean, self.greater_is_better)

    @property
    def at_edge(self) -> bool:
        """Whether more iterations may be better.

        That is so if the best iteration is among the last 5% and improves on the earlier ones by
        more than 1/10,000 of the total gain, or by more than 1% of the best value.
        """
        before = self.mean[self.iterations <= (1.0 - EDGE) * self.n_iter]
        if self.ended or len(before) > self._best:
            return False
        gain = abs(self.best - before[first_best(before, self.greater_is_better)])
        return bool(
            gain > min(MIN_GAIN * abs(self.best - self.mean[0]), MIN_SHARE * abs(self.best))
        )

    def table(self) -> ResultTable:
        """Return means and standard errors as columns, one row per iteration.

        A metric is NaN where it was not computed.
        """
        out = ResultTable(
            iteration=np.arange(self.n_iter + 1),
            risk=self.risk.mean(axis=0),
            risk_se=self._error(self.risk),
            training_risk=self.training_risk.mean(axis=0),
        )
        for name, values in self.metrics.items():
            for column, on_grid in (
                (name, values.mean(axis=0)),
                (f"{name}_se", self._error(values)),
            ):
                out[column] = np.full(self.n_iter + 1, np.nan)
                out[column][self.grid] = on_grid
        return out

    def summary(self) -> str:
        """Return the best iterations and their risks and metrics as text."""
        from .cv_text import summary

        return summary(self)

    def plot(self, **options: Any) -> Any:
        """Draw the folds, their mean and both choices (extra `plot`); see `CVDisplay`.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> import matplotlib; matplotlib.use("agg")
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=100)
        >>> display = cb.cv({"x": x}, np.sin(6 * x) + rng.normal(size=100), n_iter=100).plot()
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
        """
        from cwboost.plotting.cv import CVDisplay

        return CVDisplay.from_cv(self, **options)

    def __repr__(self) -> str:
        return (
            f"<cwboost.CV: {count(self.n_folds, 'fold')}, {count(self.n_iter, 'iteration')}; best "
            f"{self.chosen_by} {self.best:.5g} after {self.best_iteration}, within one standard "
            f"error after {self.best_iteration_1se}>"
        )

    def _repr_html_(self) -> str:
        from .cv_text import html

        return html(self)
