"""Rows with the scores of a model, and the figures that every loss can compute from them: mean
loss, explained deviance, area under the ROC curve, errors.

A loss builds its own figures of quality from these (`Loss.figures`). Does not know how the rows
were read or how figures are shown (see explain/quality.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.lazy import cached_property
from cwboost.frames.columns import Floats
from cwboost.frames.weights import as_part

if TYPE_CHECKING:
    from .base import Loss


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """Rows with their true y and the predictions of a model."""

    loss: Loss
    y: Floats  # (n,) coded as the core takes it
    weights: Floats  # (n,)
    offset: Floats  # (n, q)
    score: Floats  # (n, q)
    response: Floats  # (n, q)

    @cached_property
    def class_codes(self) -> NDArray[np.intp]:
        """(n,) class numbers; only for a loss on classes."""
        return self.loss.class_codes(self.y)

    @cached_property
    def mean_loss(self) -> float:
        """The weighted mean loss."""
        return risk(self.loss, self.y, self.score, self.weights)

    @cached_property
    def explained(self) -> float:
        """The share of the deviance that the model explains."""
        return explained(self.loss, self.y, self.score, self.offset, self.weights)

    def mean(self, values: Any) -> float:
        """Return the weighted mean of values, one per row."""
        return float(np.average(values, weights=self.weights))

    def errors(self) -> dict[str, float]:
        """Return the usual errors of a prediction of numbers, by name."""
        error = self.y - self.response[:, 0]
        return {
            "root mean squared error": float(np.sqrt(self.mean(error**2))),
            "mean absolute error": self.mean(np.abs(error)),
        }


def risk(loss: Loss, y: Floats, score: Floats, w: Floats) -> float:
    """Return the weighted mean loss at scores (n,) or (n, q).

    Examples
    --------
    >>> from cwboost.losses import Squared
    >>> risk(Squared(), np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.ones(2))
    1.0
    """
    block = np.ascontiguousarray(score.reshape(len(y), -1).T)
    rows = _core.LocalRows(loss.core(y), y, block, [], [as_part(w)])
    fill = _core.Fill(_core.SLOT_F, [0.0] * len(block))
    batch: list[Any] = [fill, _core.Residual(_core.SLOT_F, _core.SLOT_R, [_core.TRAINING_PART])]
    return float(rows.run(batch)[-1].risk[0])


def row_losses(loss: Loss, y: Floats, score: Floats) -> Floats:
    """Return (n,) the loss of every row at scores (q, n).

    Examples
    --------
    >>> from cwboost.losses import Squared
    >>> row_losses(Squared(), np.array([1.0, 3.0]), np.array([[1.0, 1.0]]))
    array([0., 2.])
    """
    return loss.core(y).values(y, np.ascontiguousarray(score))


def explained(loss: Loss, y: Floats, score: Floats, offset: Floats, w: Floats) -> float:
    """Return the explained share of the deviance, D^2; for the squared loss that is R^2.

    1 - deviance of the model / deviance of offset + the best constant on these rows.

    Examples
    --------
    >>> from cwboost.losses import Squared
    >>> y = np.array([1.0, 2.0, 3.0])
    >>> explained(Squared(), y, y + 0.5, np.zeros((3, 1)), np.ones(3))
    0.625
    """
    saturated = loss.saturated_score(y)
    least = 0.0 if saturated is None else risk(loss, y, saturated, w)
    left = risk(loss, y, score, w) - least
    if loss.log_link and not np.any(y[w > 0]):
        total = 0.0  # the best constant is minus infinity, which fits zeros perfectly
    else:
        total = risk(loss, y, offset + loss.start(y, w, offset), w) - least
    if total > 0:
        return 1.0 - left / total
    return 1.0 if left <= 0 else 0.0  # the convention of scikit-learn's r2_score for a constant y


def auc(positive: Any, score: Floats, weights: Floats | None = None) -> float:
    """Return the share of (positive, negative) pairs of rows that the score puts in order.

    A tie counts one half. NaN if all rows are of one kind.

    Examples
    --------
    >>> auc(np.array([True, False, True]), np.array([2.0, 1.0, 1.0]))
    0.75
    """
    w = np.ones(len(score)) if weights is None else weights
    distinct, at = np.unique(score, return_inverse=True)
    yes = np.bincount(at, w * positive, len(distinct))
    no = np.bincount(at, w * ~positive, len(distinct))
    ordered = float(yes @ (np.cumsum(no) - no / 2))
    pairs = float(yes.sum() * no.sum())
    return ordered / pairs if pairs else float("nan")
