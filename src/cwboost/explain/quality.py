"""How good a model is on given rows: risk, figures people know, calibration.

Knows which figures mean something for which loss; knows nothing of how they are shown. Whether the
rows were part of the fit is for those to know who give them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cwboost import _core
from cwboost.binning.numbers import weighted_quantile
from cwboost.binning.weights import as_part
from cwboost.fitting.input_data import read_weights, read_y
from cwboost.frames.table import Floats, Table
from cwboost.losses import Absolute, Binomial, Huber, Loss, Multinomial, Quantile, Squared
from cwboost.model.model import Model

GROUPS = 10  # of rows with similar predictions
Z95 = 1.959964  # of a normal interval of 95%


@dataclass(frozen=True, eq=False)
class EvaluatedRows:
    """Rows with what the model says of them."""

    loss: Loss
    y: Floats  # (n,) as the core takes it
    weights: Floats
    offset: Floats  # (n, q)
    score: Floats  # (n, q)
    response: Floats  # (n, q)


def evaluate_rows(
    model: Model,
    data: Table,
    y: Any,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
) -> EvaluatedRows:
    """The rows of a table, y among them, predicted."""
    values, _ = read_y(y, data, model.loss, model.classes or None)
    w = read_weights(weights, data)
    fixed = {"offset": offset, "exposure": exposure}
    score = model.predict(data, kind="score", **fixed).reshape(len(values), -1)
    response = model.loss.response(score).reshape(len(values), -1)
    known = model._offset(data, offset, exposure)
    return EvaluatedRows(model.loss, np.ascontiguousarray(values), w, known, score, response)


def risk(loss: Loss, y: Floats, score: Floats, w: Floats) -> float:
    """Weighted mean loss at scores (n,) or (n, q).

    Examples
    --------
    >>> risk(Squared(), np.array([1.0, 3.0]), np.array([1.0, 1.0]), np.ones(2))
    1.0
    """
    block = np.ascontiguousarray(score.reshape(len(y), -1).T)
    rows = _core.LocalRows(loss.core(y), y, block, [], [as_part(w)])
    batch: list[Any] = [_core.Fill(0, [0.0] * len(block)), _core.Residual(0, 1, [0])]
    return float(rows.run(batch)[-1].risk[0])


def explained(loss: Loss, y: Floats, score: Floats, offset: Floats, w: Floats) -> float:
    """Share of the deviance explained, D^2; for the squared loss that is R^2.

    1 - deviance of the model / deviance of offset + the best constant on these rows.

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 3.0])
    >>> explained(Squared(), y, y + 0.5, np.zeros((3, 1)), np.ones(3))
    0.625
    """
    best = 0.0
    if loss.log_link:  # the risk at y itself is not zero
        with np.errstate(divide="ignore"):
            best = risk(loss, y, np.maximum(np.log(y), -700.0), w)
    left = risk(loss, y, score, w) - best
    total = risk(loss, y, offset + loss.start(y, w, offset), w) - best
    if total > 0:
        return 1.0 - left / total
    return 1.0 if left <= 0 else 0.0  # as r2_score says of a constant y


def auc(positive: Any, score: Floats, weights: Floats | None = None) -> float:
    """Share of pairs of a positive and a negative row that the score puts in order, ties half.

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


def metrics(rows: EvaluatedRows) -> dict[str, float]:
    """Figures that people know, by name, the most telling first.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.frames.table import read
    >>> table = read({"g": ["a", "b"] * 9})
    >>> model = cb.fit(table, ["no", "yes"] * 9, loss="binomial")
    >>> list(metrics(evaluate_rows(model, table, ["no", "yes"] * 9)))
    ['AUC', 'log loss', 'accuracy', 'Brier score']
    """
    loss, y, w, score, response = rows.loss, rows.y, rows.weights, rows.score, rows.response
    mean_loss = risk(loss, y, score, w)
    if isinstance(loss, Binomial):
        yes, p = y > 0, response[:, 0]
        return {
            "AUC": auc(yes, score[:, 0], w),
            "log loss": mean_loss,
            "accuracy": float(np.average((p > 0.5) == yes, weights=w)),
            "Brier score": float(np.average((p - yes) ** 2, weights=w)),
        }
    if isinstance(loss, Multinomial):
        right = response.argmax(axis=1) == y
        return {"log loss": mean_loss, "accuracy": float(np.average(right, weights=w))}
    if score.shape[1] > 1:
        return {"mean loss": mean_loss}
    miss = y - response[:, 0]
    errors = {
        "root mean squared error": float(np.sqrt(np.average(miss**2, weights=w))),
        "mean absolute error": float(np.average(np.abs(miss), weights=w)),
    }
    if isinstance(loss, Squared):
        return {"R²": explained(loss, y, score, rows.offset, w), **errors}
    if loss.log_link:
        share = explained(loss, y, score, rows.offset, w)
        ratio = float(w @ response[:, 0]) / float(w @ y) if float(w @ y) else float("nan")
        return {"deviance explained": share, "predicted / observed": ratio, **errors}
    if isinstance(loss, Quantile):
        below = float(np.average(miss <= 0, weights=w))
        return {f"rows at or below (aim {loss.tau:g})": below, "quantile loss": mean_loss}
    return {"mean loss": mean_loss, **errors}


def calibration(rows: EvaluatedRows, output: int = 0) -> dict[str, Floats]:
    """Predicted against observed, in groups of rows with similar predictions.

    `observed` is what the loss aims at: the mean of y (per unit of exposure with a log link), the
    share of a class, or a quantile; `low` and `high` are its 95% interval where it is a mean.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.frames.table import read
    >>> table = read({"g": ["a", "b"] * 9})
    >>> model = cb.fit(table, [0.0, 1.0] * 9, n_iter=500)
    >>> calibration(evaluate_rows(model, table, [0.0, 1.0] * 9))["observed"]
    array([0., 1.])
    """
    loss, w = rows.loss, rows.weights
    y, predicted = rows.y, rows.response[:, output]
    if isinstance(loss, Binomial):
        y = (y > 0).astype(np.float64)
    elif isinstance(loss, Multinomial):
        y = (y == output).astype(np.float64)
    base = np.exp(rows.offset[:, 0]) if loss.log_link else np.ones(len(y))  # exposure
    groups = _groups(predicted / base, w)
    tau = loss.tau if isinstance(loss, Quantile) else 0.5 if isinstance(loss, Absolute) else None
    out = []
    for group in groups:
        wb, e = w[group] * base[group], base[group]
        at = float(wb @ (predicted[group] / e) / wb.sum())
        if tau is not None:
            seen = float(weighted_quantile(y[group], w[group], tau))
            low = high = float("nan")
        else:
            seen, low, high = _interval(
                y[group], w[group], e, isinstance(loss, Binomial | Multinomial)
            )
        out.append((at, seen, low, high, float(w[group].sum()), float(len(y[group]))))
    names = ("predicted", "observed", "low", "high", "weight", "rows")
    return dict(zip(names, np.array(out).reshape(-1, len(names)).T, strict=True))


def _groups(predicted: Floats, w: Floats) -> list[Any]:
    """Rows in about ten groups of equal weight, by their prediction; equal ones stay together."""
    cuts = np.unique(weighted_quantile(predicted, w, np.arange(1, GROUPS) / GROUPS))
    at = np.searchsorted(cuts, predicted)
    found = [np.flatnonzero(at == g) for g in range(len(cuts) + 1)]
    return [rows for rows in found if len(rows) and w[rows].sum() > 0]


def _interval(y: Floats, w: Floats, e: Floats, share: bool) -> tuple[float, float, float]:
    """The weighted ratio of y to exposure, with its interval (Wilson's for shares)."""
    mean = float(w @ y / (w @ e))
    size = float(w.sum() ** 2 / (w @ w))  # rows of equal weight that say as much
    if share:
        centre = (mean + Z95**2 / (2 * size)) / (1 + Z95**2 / size)
        half = Z95 * np.sqrt(mean * (1 - mean) / size + (Z95 / (2 * size)) ** 2)
        half = float(half / (1 + Z95**2 / size))
        return mean, centre - half, centre + half
    variance = float(w @ (y - mean * e) ** 2 / w.sum())
    half = Z95 * float(np.sqrt(variance / size)) / float(w @ e / w.sum())
    return mean, mean - half, mean + half


def aims_at(loss: Loss) -> str:
    """What a prediction stands for, in words.

    Examples
    --------
    >>> aims_at(Quantile(0.9))
    'the 0.9-quantile'
    """
    if isinstance(loss, Binomial | Multinomial):
        return "probability"
    if isinstance(loss, Absolute):
        return "the median"
    if isinstance(loss, Quantile):
        return f"the {loss.tau:g}-quantile"
    if isinstance(loss, Huber):
        return "a mean that outliers do not carry away"
    return "the mean" if loss.log_link or isinstance(loss, Squared) else "prediction"
