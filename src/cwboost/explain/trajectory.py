"""The trajectory of a model: coefficients and sizes of its terms along the path of the fit.

Does not know about drawing (see plotting/traces.py).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import check_one_of, check_whole, has_items
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.model.model import Model, check_model
from cwboost.model.path_checks import check_has_path

from .sizes import term_points

FRAMES = 150  # iterations at which a trace is computed


def key_iterations(model: Model, n: int = FRAMES) -> NDArray[np.int64]:
    """Return about n iterations that show the path, denser at the start.

    The first, the last and the best iteration, and both ends of a rewind, are among them.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 1, 50)
    >>> key_iterations(cb.fit({"x": x}, x**2, n_iter=500), 8)
    array([  0,   1,   7,  32,  78, 146, 238, 356, 500])
    """
    check_model(model, "key_iterations")
    check_whole("n", n, 2, sys.maxsize)
    last = model.n_iter
    if last <= n:
        return np.arange(last + 1)
    # Most happens at the start; the power is small enough to leave no large gaps later.
    spaced = np.round(last * (np.arange(n) / (n - 1)) ** 2.2).astype(np.int64)
    path = model.path
    marks = [1, model.best_iteration]
    if path.switched_after >= 0:
        marks += [path.rewound_to, path.switched_after, min(path.switched_after + 1, last)]
    return np.unique(np.concatenate([spaced, np.array(marks, dtype=np.int64)]))


def coefficients_at(model: Model, iterations: Iterable[int]) -> dict[str, Floats]:
    """Return the coefficients of every term at several iterations: (iterations, n_coef, q).

    `model.at(m)` gives the same for one iteration.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 1, 50)
    >>> model = cb.fit({"x": x}, x**2, n_iter=20)
    >>> beta = coefficients_at(model, [0, 20])["x"]
    >>> bool(np.array_equal(beta[1], model.terms["x"].beta)), bool(beta[0].any())
    (True, False)
    """
    check_model(model, "coefficients_at")
    check_has_path(model, "the path of the coefficients")
    if not has_items(iterations):
        raise TypeError(f"iterations: expected a list of iterations, got {quote(iterations)}")
    iterations = list(iterations)
    if not iterations:
        raise ValueError("iterations: the list is empty; give at least one, such as 0")
    for m in iterations:
        check_whole("iterations", m, 0, model.n_iter)
    q = model.n_outputs
    sizes = [term.plan.basis.n_coef for term in model.terms.values()]
    path = model.path.to_core(sizes, q)
    problem = _core.ReplayProblem(model.optimizer.core(), sizes, q, scale=model.scale)
    flat = np.array([_core.replay(problem, path, int(m)) for m in iterations]).reshape(
        len(iterations), -1
    )
    ends = q * np.cumsum([0, *sizes])
    return {
        name: flat[:, a:b].reshape(len(iterations), q, -1).transpose(0, 2, 1)
        for name, a, b in zip(model.terms, ends[:-1], ends[1:], strict=True)
    }


@dataclass(frozen=True, eq=False)
class Traces:
    """Sizes of the terms along the path of the fit.

    Attributes
    ----------
    iterations : (frames,) array
    sizes : dict of term to (frames,) array
        Mean absolute effect of the term over the training rows, or another measure (`traces`).
        Only terms that are ever chosen, the largest at the end first.
    chosen : dict of term to array
        The iterations, counted from 1, that chose the term.
    corrected : dict of term to array
        The iterations that chose the term for the correction (Accelerated, Hybrid).
    """

    iterations: NDArray[np.int64]
    sizes: dict[str, Floats]
    chosen: dict[str, NDArray[np.int64]]
    corrected: dict[str, NDArray[np.int64]]


def traces(model: Model, kind: str = "size", n: int = FRAMES) -> Traces:
    """Return how large every term is after each iteration, and when it was chosen.

    Parameters
    ----------
    model : Model
    kind : "size", "deviation" or "range"
        Mean absolute effect, or standard deviation of the effect, over a sketch of the training
        rows (for two columns as if they were independent), or the largest minus the smallest
        effect. Of several outputs, "size" has the mean, the others the largest.
    n : int
        The approximate number of iterations at which sizes are computed.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 1, 50)
    >>> found = traces(cb.fit({"x": x}, x**2, n_iter=20), "range")
    >>> found.sizes["x"][[0, 1, 20]].round(2), len(found.chosen["x"])
    (array([0.  , 0.1 , 0.88]), 20)
    """
    check_one_of("kind", kind, ("size", "deviation", "range"))
    iterations = key_iterations(model, n)
    sizes = {}
    for name, beta in coefficients_at(model, iterations).items():
        if beta.any():
            values, weights = term_points(model, model.terms[name])
            basis = model.terms[name].plan.basis
            matrix, mean = basis.matrix(values), basis.mean
            assert mean is not None
            effect = np.stack([matrix @ x - mean @ x for x in beta])  # (frames, points, q)
            sizes[name] = _size(effect, weights, kind)
    order = sorted(sizes, key=lambda name: -sizes[name][-1])
    number = {name: k for k, name in enumerate(model.terms)}
    path = model.path
    return Traces(
        iterations,
        {name: sizes[name] for name in order},
        {name: np.flatnonzero(path.choices == number[name]) + 1 for name in order},
        {name: np.flatnonzero(path.corrections == number[name]) + 1 for name in order},
    )


def _size(effect: Floats, weights: Floats, kind: str) -> Floats:
    """Return (frames,) the size of effects (frames, points, q)."""
    if kind == "range":
        return np.asarray(np.ptp(effect, axis=1).max(axis=1))
    if kind == "size":
        return np.asarray(np.einsum("p,fpq->fq", weights, np.abs(effect)).mean(axis=1))
    mean = np.einsum("p,fpq->fq", weights, effect)
    square = np.einsum("p,fpq->fq", weights, (effect - mean[:, None]) ** 2)
    return np.asarray(np.sqrt(square).max(axis=1))
