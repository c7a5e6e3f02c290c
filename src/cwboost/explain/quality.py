"""How good a model is on given rows: figures of quality and calibration.

Which figures suit a loss is the loss's decision (`Loss.figures`). Does not know how the figures are
shown, nor whether the rows were part of the fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cwboost.binning.number_statistics import weighted_quantile
from cwboost.frames.aligned import check_present, read_weights, read_y
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.losses import EvaluatedRows
from cwboost.model.model import Model
from cwboost.model.scoring import read_offsets

N_GROUPS = 10  # groups of rows with similar predictions
Z95 = 1.959964  # half the width of a 95% normal interval, in standard errors


def evaluate_rows(
    model: Model,
    data: Table,
    y: Any,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
) -> EvaluatedRows:
    """Return the rows of a table with their true y and the predictions of a model."""
    values, _ = read_y(y, data, model.loss, model.classes or None)
    w = read_weights(weights, data)
    check_present(w)
    score = model.predict(data, kind="score", offset=offset, exposure=exposure)
    score = score.reshape(len(values), -1)
    response = model.loss.response(score).reshape(len(values), -1)
    offsets = read_offsets(model, data, offset, exposure)
    return EvaluatedRows(model.loss, np.ascontiguousarray(values), w, offsets, score, response)


def figures(rows: EvaluatedRows) -> dict[str, float]:
    """Return the figures of quality that suit the loss, by name, the most telling first.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.frames.read_frames import read
    >>> table = read({"g": ["a", "b"] * 9})
    >>> model = cb.fit(table, ["no", "yes"] * 9, loss="binomial")
    >>> list(figures(evaluate_rows(model, table, ["no", "yes"] * 9)))
    ['AUC', 'log loss', 'accuracy', 'Brier score']
    """
    return rows.loss.figures(rows)


def calibration(rows: EvaluatedRows, output: int = 0) -> dict[str, Floats]:
    """Compare predicted and observed values in groups of rows with similar predictions.

    `observed` is an estimate of what the loss predicts: the mean of y (per unit of exposure with a
    log link), the share of a class, or a quantile. `low` and `high` are the ends of its 95%
    interval, NaN for a quantile.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.frames.read_frames import read
    >>> table = read({"g": ["a", "b"] * 9})
    >>> model = cb.fit(table, [0.0, 1.0] * 9, n_iter=500)
    >>> calibration(evaluate_rows(model, table, [0.0, 1.0] * 9))["observed"]
    array([0., 1.])
    """
    loss, w = rows.loss, rows.weights
    y, predicted = rows.y, rows.response[:, output]
    classes = loss.target == "classes"
    if classes:
        positive = output if rows.response.shape[1] > 1 else 1
        y = (rows.class_codes == positive).astype(np.float64)
    exposure = np.exp(rows.offset[:, 0]) if loss.log_link else np.ones(len(y))
    level = loss.calibration_level
    out = []
    for group in _groups(predicted / exposure, w):
        wg, e = w[group], exposure[group]
        mean_prediction = float((wg * e) @ (predicted[group] / e) / (wg * e).sum())
        if level is None:
            observed = _mean_with_interval(y[group], wg, e, classes)
        else:
            quantile = float(weighted_quantile(y[group], wg, level))
            observed = _Estimate(quantile, float("nan"), float("nan"))
        out.append((mean_prediction, *observed, float(wg.sum()), float(len(wg))))
    names = ("predicted", "observed", "low", "high", "weight", "rows")
    return dict(zip(names, np.array(out).reshape(-1, len(names)).T, strict=True))


class _Estimate(NamedTuple):
    value: float
    low: float
    high: float


def _groups(predicted: Floats, w: Floats) -> list[Any]:
    """Return about ten groups of rows of equal weight, sorted by prediction; ties stay together."""
    cuts = np.unique(weighted_quantile(predicted, w, np.arange(1, N_GROUPS) / N_GROUPS))
    at = np.searchsorted(cuts, predicted)
    found = [np.flatnonzero(at == g) for g in range(len(cuts) + 1)]
    return [rows for rows in found if len(rows) and w[rows].sum() > 0]


def _mean_with_interval(y: Floats, w: Floats, exposure: Floats, share: bool) -> _Estimate:
    """Return the weighted ratio of y to exposure with its interval (Wilson's for shares)."""
    mean = float(w @ y / (w @ exposure))
    size = float(w.sum() ** 2 / (w @ w))  # effective number of rows under unequal weights
    if share:
        center = (mean + Z95**2 / (2 * size)) / (1 + Z95**2 / size)
        half = Z95 * np.sqrt(mean * (1 - mean) / size + (Z95 / (2 * size)) ** 2)
        half = float(half / (1 + Z95**2 / size))
        return _Estimate(mean, center - half, center + half)
    variance = float(w @ (y - mean * exposure) ** 2 / w.sum())
    half = Z95 * float(np.sqrt(variance / size)) / float(w @ exposure / w.sum())
    return _Estimate(mean, mean - half, mean + half)
