"""Penalties that several bases share."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from cwboost.frames.columns import Floats

# The ridge on the effect of missing cells, as a share of the weight of all rows. A step moves the
# effect by the share n / (n + 0.1 N) of the mean residual of n missing among N rows: by half if a
# tenth is missing, hardly at all if one row is. A Category of six levels with 4 net df is similar.
MISSING_RIDGE = 0.1
THIN = 0.03  # functions are thin if their share of the rows is below this share of the average
TAIL = 0.01  # the tails are the outermost rows on either side, this share of all rows
FLATTENING = 10.0  # strength of the first differences in thin tails, if there are half the rows
MAX_FLATTENING = 1000.0


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


def tail_weights(shares: Floats) -> Floats:
    """Return (d - 1,) how much first differences are penalised in tails with hardly any rows.

    The weight of the difference between functions j and j + 1 is

        FLATTENING (THIN / (d m) - 1),      at least 0, at most MAX_FLATTENING,

    where m is the mean of their shares of the rows, and 0 if more than TAIL of the rows lie on
    either side of it: a gap between two groups of rows is not a tail. Only shares of the rows
    decide, so that weights count as repetitions and their scale does not matter.

    Examples
    --------
    >>> tail_weights(np.array([0.3, 0.4, 0.2996, 0.0004, 0.0]))
    array([ 0.,  0.,  0., 290.])
    """
    total = shares.sum()  # some rows may be missing
    if total == 0.0:  # all are, as happens in folds
        return np.zeros(len(shares) - 1)
    pairs = np.maximum((shares[1:] + shares[:-1]) / (2.0 * total), 1e-300)
    weights = FLATTENING * (THIN / (len(shares) * pairs) - 1.0)
    below = shares[:-1].cumsum() / total
    weights[(weights < 0.0) | (np.minimum(below, 1.0 - below) > TAIL)] = 0.0
    return np.asarray(np.minimum(weights, MAX_FLATTENING))


def weighted_differences(weights: Floats) -> Floats:
    """Return D'VD (d, d), where D takes first differences and V has the weights (d - 1,).

    Examples
    --------
    >>> weighted_differences(np.array([1.0, 3.0]))
    array([[ 1., -1.,  0.],
           [-1.,  4., -3.],
           [ 0., -3.,  3.]])
    """
    d = np.diff(np.eye(len(weights) + 1), axis=0)
    return np.asarray(d.T @ (weights[:, None] * d))
