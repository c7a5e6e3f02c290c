"""What fits are compared by, on rows that they have not seen: the loss, a figure by name, or a
function of the user's. Knows y, scores and weights; nothing of fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .data import Data
from .losses import Binomial, Loss, Multinomial
from .quality import auc, risk
from .table import Floats


@dataclass(frozen=True, eq=False)
class Metric:
    """A number for rows and what a model says of them."""

    name: str
    maximize: bool
    of: Callable[[Floats, Floats, Floats], float]  # y as the core has it, scores (n, q), weights
    is_loss: bool = False  # then fits know it of the rows that they watch

    def best(self, values: Floats) -> int:
        """Place of the best value, the first of equals; one that is no number is the worst."""
        worst = -np.inf if self.maximize else np.inf
        known = np.where(np.isnan(values), worst, values)
        return int(known.argmax() if self.maximize else known.argmin())

    def key(self, value: float) -> float:
        """For sorting: the best is the least."""
        return np.inf if np.isnan(value) else -value if self.maximize else value


def as_metric(metric: Any, maximize: bool | None, data: Data) -> Metric:
    """A metric from None (the loss), a name, or a function of (y, prediction, weights).

    Examples
    --------
    >>> from cwboost.data import Given, read_data
    >>> from cwboost.losses import as_loss
    >>> data = read_data(Given({"x": [1, 2]}, ["no", "yes"]), as_loss("binomial"), 0)
    >>> metric = as_metric("auc", None, data)
    >>> metric.of(data.y, np.array([[0.0], [1.0]]), np.ones(2)), metric.maximize
    (1.0, True)
    """
    loss = data.loss
    if callable(metric):
        return _own(metric, maximize, data)
    if maximize is not None:
        raise TypeError("maximize is for a metric of your own; others know what is better")
    if metric is None:
        return Metric(f"{loss.name} loss", False, lambda y, score, w: risk(loss, y, score, w), True)
    known = {name: entry for name, entry in NAMED.items() if entry[2](loss)}
    if metric not in known:
        raise ValueError(
            f"metric: expected None (the loss), a function, or for the {loss.name} loss one of "
            f"{', '.join(map(repr, known))}; got {metric!r}"
        )
    f, larger, _ = known[metric]
    return Metric(metric, larger, lambda y, score, w: f(loss, y, score, w))


def _own(metric: Callable[..., Any], maximize: Any, data: Data) -> Metric:
    """y is what the user gave (of classes: their names), the prediction is the response."""
    if not isinstance(maximize, bool):
        raise TypeError(
            "metric: of a function of your own say whether larger is better, maximize=True or "
            "maximize=False"
        )
    name = getattr(metric, "__name__", type(metric).__name__)
    classes, loss = np.array(data.classes), data.loss

    def of(y: Floats, score: Floats, w: Floats) -> float:
        given = classes[_codes(loss, y)] if data.classes else y
        value = metric(given, loss.response(score), w)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"metric {name}: expected a number back, got {value!r}") from None

    return Metric(name, maximize, of)


def _codes(loss: Loss, y: Floats) -> Any:
    return (y > 0).astype(np.intp) if isinstance(loss, Binomial) else y.astype(np.intp)


# --- by name: figure(loss, y, score, weights), whether larger is better, for which losses ---------


def _accuracy(loss: Loss, y: Floats, score: Floats, w: Floats) -> float:
    said = score[:, 0] > 0 if isinstance(loss, Binomial) else score.argmax(axis=1)
    return float(np.average(said == _codes(loss, y), weights=w))


def _brier(loss: Loss, y: Floats, score: Floats, w: Floats) -> float:
    return float(np.average((loss.response(score) - (y > 0)) ** 2, weights=w))


def _squared(loss: Loss, y: Floats, score: Floats, w: Floats) -> float:
    return float(np.sqrt(np.average((loss.response(score) - y) ** 2, weights=w)))


def _absolute(loss: Loss, y: Floats, score: Floats, w: Floats) -> float:
    return float(np.average(np.abs(loss.response(score) - y), weights=w))


def _is_binomial(loss: Loss) -> bool:
    return isinstance(loss, Binomial)


def _has_classes(loss: Loss) -> bool:
    return isinstance(loss, Binomial | Multinomial)


def _is_number(loss: Loss) -> bool:
    return not _has_classes(loss) and loss.n_outputs == 1


NAMED: dict[str, tuple[Callable[..., float], bool, Callable[[Loss], bool]]] = {
    "auc": (lambda _, y, score, w: auc(y > 0, score[:, 0], w), True, _is_binomial),
    "accuracy": (_accuracy, True, _has_classes),
    "brier": (_brier, False, _is_binomial),
    "rmse": (_squared, False, _is_number),
    "mae": (_absolute, False, _is_number),
}
