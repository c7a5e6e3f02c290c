"""Error bounds of stability selection.

Fits to halves of the rows choose q of p columns each. A column is selected if at least a share
`cutoff` of the fits chose it. The expected number of selected columns that a fit chooses at most as
often as a random choice would (in q of p cases) has an upper bound, the per-family error rate
(PFER). Any two of q, cutoff and PFER determine the third.

Meinshausen and Bühlmann (2010) need no assumption for their bound ("none"). Shah and Samworth
(2013) use B complementary pairs of halves; their bound is smaller if the distribution of the share
of pairs in which both halves choose a column is unimodal or "r-concave" (between unimodal and
log-concave). Does not know about fits (see stability.py).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, fminbound

from cwboost._utils.checks import check_one_of, check_whole, is_number, is_whole
from cwboost._utils.text import quote

Floats = NDArray[np.float64]

ASSUMPTIONS = ("unimodal", "r-concave", "none")
ROUNDING = 1e-10  # cutoffs and rates that differ by less count as equal
MIN_SHAPE, MAX_SHAPE = 1e-12, 1e6  # range of the shape of an r-concave distribution
# Tolerance of the shape with the largest tail. It is the one used for the published tables, whose
# numbers are up to 0.4% below the exact ones.
TOLERANCE = float(np.finfo(float).eps ** 0.25)


class Bound(NamedTuple):
    """Columns per fit, the share of fits that selects a column, and the error rate they imply."""

    q: int
    cutoff: float
    pfer: float


def complete(
    p: int,
    *,
    q: int | None = None,
    cutoff: float | None = None,
    pfer: float | None = None,
    assumption: str = "unimodal",
    n_samples: int = 50,
) -> Bound:
    """Return q, cutoff and PFER, given two of them.

    Parameters
    ----------
    p : int
        The number of columns (or terms) to choose from.
    q : int, optional
        How many of them every fit chooses. Default: the largest number that keeps the bound.
    cutoff : float, optional
        The share of fits that selects a column, above 0.5 (with "r-concave" above q/p). Default:
        the smallest share that keeps the bound.
    pfer : float, optional
        Upper bound of the expected number of columns selected by chance.
    assumption : "unimodal", "r-concave" or "none"
    n_samples : int
        The number of complementary pairs; irrelevant with "none".

    Examples
    --------
    >>> complete(100, cutoff=0.6, pfer=1).q
    6
    >>> complete(100, q=6, pfer=0.5, assumption="r-concave").cutoff
    0.59
    """
    _check_sizes(p, n_samples)
    check_bound(p, q, cutoff, pfer, assumption)

    def rate(q: int, cutoff: float) -> float:
        return _error_rate(p, q, cutoff, assumption, n_samples)

    if cutoff is None:
        assert q is not None
        assert pfer is not None
        cutoff = _smallest_cutoff(p, q, pfer, assumption, n_samples)
    elif q is None:
        assert pfer is not None
        share, allowed = cutoff, pfer * (1 + ROUNDING)
        q = _largest(1, p, lambda q: rate(q, share) <= allowed)
        if q == 0:
            raise ValueError(
                f"pfer = {pfer:g}: with cutoff = {cutoff:g} even fits that choose 1 of {p} have "
                f"the bound {rate(1, cutoff):.3g}; raise pfer or cutoff"
            )
    return Bound(q, cutoff, rate(q, cutoff))


def check_bound(
    p: int | None, q: object, cutoff: object, pfer: object, assumption: object = "none"
) -> None:
    """Raise unless two valid values are given; `p` may be unknown still."""
    given = [x is not None for x in (q, cutoff, pfer)]
    if sum(given) != 2:
        raise ValueError(
            f"pass two of q, cutoff and pfer, for instance cutoff=0.75, pfer=1; got {sum(given)}"
        )
    check_one_of("assumption", assumption, ASSUMPTIONS)
    if q is not None and not (is_whole(q) and 1 <= q <= (q if p is None else p)):
        most = "" if p is None else f" to {p}, the number of candidates"
        raise ValueError(f"q: expected a whole number from 1{most}; got {quote(q)}")
    low = 0.0 if assumption == "r-concave" else 0.5
    if cutoff is not None and not (is_number(cutoff) and low < cutoff <= 1.0):
        raise ValueError(
            f"cutoff: expected a number above {low:g} and up to 1, such as 0.75; got "
            f"{quote(cutoff)}"
        )
    if pfer is not None and not (is_number(pfer) and pfer > 0):
        raise ValueError(f"pfer: expected a number above 0, such as 1; got {quote(pfer)}")


def _check_sizes(p: object, n_samples: object) -> None:
    check_whole("p", p, 1, sys.maxsize)
    check_whole("n_samples", n_samples, 1, sys.maxsize)


def error_rate(
    p: int, q: int, cutoff: float, *, assumption: str = "unimodal", n_samples: int = 50
) -> float:
    """Return the bound of the expected number of columns selected by chance.

    With share = q/p, the bound is q share / (2 cutoff - 1) for "none". For "unimodal" it is about
    half of that up to a cutoff of 3/4. For "r-concave" it is smaller still and found numerically.

    Examples
    --------
    >>> [round(error_rate(100, 3, 0.6, assumption=a), 6) for a in ("none", "unimodal", "r-concave")]
    [0.45, 0.236842, 0.086912]
    """
    _check_sizes(p, n_samples)
    check_bound(p, q, cutoff, None, assumption)
    return _error_rate(p, q, cutoff, assumption, n_samples)


def _error_rate(p: int, q: int, cutoff: float, assumption: str, n_samples: int) -> float:
    share, pairs = q / p, n_samples
    if assumption == "r-concave":
        count = math.ceil(round(2 * pairs * cutoff, 9))  # fits that must choose a selected column
        both = _largest_tail(share**2 * pairs, count - pairs, pairs, -0.5)
        either = _largest_tail(share * 2 * pairs, count, 2 * pairs, -0.25)
        return p * min(both, either)
    least = 0.5 + max(1 / pairs, min(share**2, 0.5 / pairs + 0.75 * share**2))
    if assumption == "none" or share > 1 / math.sqrt(3) or cutoff < least - ROUNDING:
        return q * share / (2 * cutoff - 1)  # always valid
    if cutoff <= 0.75:
        return q * share / (2 * (2 * cutoff - 1 - 0.5 / pairs))
    return q * share * 4 * (1 - cutoff + 0.5 / pairs) / (1 + 1 / pairs)


def _largest(first: int, last: int, good: Callable[[int], bool]) -> int:
    """Return the largest number of a range that is good, or first - 1, by bisection.

    All numbers below a good one must be good.
    """
    low, high = first - 1, last
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if good(middle) else (low, middle - 1)
    return low


def _smallest_cutoff(p: int, q: int, pfer: float, assumption: str, n_samples: int) -> float:
    allowed = pfer * (1 + ROUNDING)
    if assumption == "none":
        least = (q * q / (p * pfer) + 1) / 2
    else:  # one of the shares that are possible with 2 B fits
        fits = 2 * n_samples
        first = math.floor(fits * q / p) + 1 if assumption == "r-concave" else n_samples + 1
        bad = _largest(
            first,
            fits,
            lambda k: _error_rate(p, q, k / fits, assumption, n_samples) > allowed,
        )
        least = (bad + 1) / fits
    if least > 1:
        rate = _error_rate(p, q, 1.0, assumption, n_samples)
        raise ValueError(
            f"pfer = {pfer:g}: fits that choose {q} of {p} have the bound {rate:.3g} even if all "
            "of them must agree (cutoff 1); raise pfer or lower q"
        )
    return least


@lru_cache(maxsize=4096)
def _largest_tail(mean: float, t: int, n: int, r: float) -> float:
    """Return the largest P(X >= t) of r-concave distributions (r < 0) on 0..n with a given mean.

    The extreme distributions are f(i) = (a + i)^(1/r) for i = 0..k and a fraction of that at k + 1.
    The shape a lies between the values for which the fraction is one and zero, and the fraction
    follows from the mean. Where the mean requires an increasing f (t up to about twice the mean)
    the bound is 1.
    """
    first = math.ceil(2 * mean) + 1  # f decreases for this k and larger ones
    if t < first or first >= n:
        return 1.0
    i = np.arange(n + 1.0)

    def excess(a: float, k: int) -> float:  # excess of the mean on 0..k, times a positive number
        f: Floats = (1 + i[: k + 1] / a) ** (1 / r)
        return float(f @ (i[: k + 1] - mean))

    def below(a: float, k: int) -> float:  # P(X < t)
        f: Floats = (1 + i[: k + 1] / a) ** (1 / r)
        return (k + 1 - mean) * float(f[:t].sum() / (f @ (k + 1 - i[: k + 1])))

    supports = range(max(first, t - 1), n + 1)
    ends = [float(brentq(excess, MIN_SHAPE, MAX_SHAPE, args=(k,), xtol=1e-15)) for k in supports]
    return 1.0 - min(
        float(fminbound(below, low, high, (k,), TOLERANCE, full_output=True)[1])
        for k, high, low in zip(supports, ends, ends[1:], strict=False)
    )
