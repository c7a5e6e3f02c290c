"""Which pairs of columns interact. Rough."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import brentq

from . import _core
from .bins import Levels
from .data import Data
from .learners import Tensor
from .model import Model


def residuals(model: Model, data: Data, rows: Any) -> Any:
    """(n, q) negative gradient at the model's scores."""
    table = data.table.take(rows)
    q = model.n_outputs
    score = np.column_stack([model.predict(table, kind="score", offset=data.offset[rows])]).reshape(-1, q)
    core = _core.LocalRows(
        data.loss.core(data.y[rows]), data.y[rows], np.ascontiguousarray(score.T), [], [data.weights[rows]], 1
    )
    core.run([_core.Fill(0, [0.0] * q), _core.Residual(0, 1, [0])])
    return core.read(1).reshape(q, -1).T


def rank(model: Model, data: Data, names: list[str], seen: Any, bins: int = 10) -> list[tuple[float, str, str]]:
    rows = data.training
    r = residuals(model, data, rows) * data.weights[rows][:, None]
    w = data.weights[rows]
    sample = data.sample
    index = {}
    from .learners import Category, Step
    for name in names:
        s = seen[name]
        if not s.varies and not s.missing:
            continue
        learner = Step(name, bins=bins) if s.kind == "numbers" and not s.boolean else Category(name)
        enc = learner.encoder(data.table, s, sample)
        if isinstance(enc, Levels) and len(enc.levels) > 100:
            continue
        b = enc.bin(data.table[name], s)
        index[name] = b.index[rows].astype(np.int64), b.n_bins
    out = []
    for a, b in combinations(index, 2):
        (i, na), (j, nb) = index[a], index[b]
        joint = i * nb + j
        W = np.bincount(joint, w, na * nb).reshape(na, nb)
        G = np.vstack([np.kron(np.eye(na), np.ones(nb)), np.kron(np.ones(na), np.eye(nb))[1:]])
        x = W.ravel()
        gag = np.block([[np.diag(W.sum(1)), W[:, 1:]], [W[:, 1:].T, np.diag(W.sum(0)[1:])]])
        pin = np.linalg.pinv(gag, hermitian=True)
        lam = ridge(x)
        gain = 0.0
        for o in range(r.shape[1]):
            s = np.bincount(joint, r[:, o], na * nb)
            s = s - x * (G.T @ (pin @ (G @ s)))
            t = s / (x + lam)
            gain += 2 * t @ s - t @ (x * t)
        out.append((gain, a, b))
    return sorted(out, reverse=True)


def ridge(w: Any, df: float = 14.0) -> float:
    w = w[w > 0]
    if len(w) <= df:
        return 1e-6
    f = lambda u: np.sum(w * (w + 2 * np.exp(u)) / (w + np.exp(u)) ** 2) - df
    return float(np.exp(brentq(f, -30, 60)))


def pairs_for(model: Model, data: Data, learners: list[Any], seen: Any, interactions: Any, target: Any, **how: Any) -> list[Tensor]:
    names = list(dict.fromkeys(n for x in learners for n in x.columns))
    if isinstance(interactions, int):
        ranked = rank(model, data, names, seen)
        pairs = [(a, b) for _, a, b in ranked[:interactions]]
    else:
        pairs = list(interactions)
    return [Tensor(a, b, orthogonal=True, **how) for a, b in pairs]
