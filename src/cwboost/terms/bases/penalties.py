"""Difference penalties, shared by the bases that penalise neighbouring coefficients."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cwboost.frames.columns import Floats


def difference_penalty(n_coef: int, order: int) -> Floats:
    """Return D'D, where D takes differences of the given order.

    Examples
    --------
    >>> difference_penalty(3, 1)
    array([[ 1., -1.,  0.],
           [-1.,  2., -1.],
           [ 0., -1.,  1.]])
    """
    d = np.diff(np.eye(n_coef), order, axis=0)
    return np.asarray(d.T @ d)


@lru_cache(maxsize=64)
def padded_penalty(n_coef: int, order: int, missing: bool) -> Floats:
    """Return the difference penalty, with a last unpenalised coefficient if `missing`.

    All bases of one shape share the array, so it is read-only.
    """
    out = np.pad(difference_penalty(n_coef, order), (0, int(missing)))
    out.flags.writeable = False
    return out
