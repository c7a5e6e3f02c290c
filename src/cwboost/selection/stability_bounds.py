"""Error bounds of stability selection. Knows their formulas; nothing of fits or columns.

Fits to halves of the rows choose q of p columns each. Those that are chosen in a share of at least
`cutoff` of the fits are selected, and the expected number of selected columns that a fit chooses no
more often than a random choice would (in q of p cases) has an upper bound, the per-family error
rate (PFER). Any two of q, cutoff and PFER give the third.

Meinshausen and Bühlmann (2010) bound it without an assumption ("none"); Shah and Samworth (2013)
take B complementary pairs of halves and bound it further if the distribution of the share of pairs
that both choose a column is unimodal, or "r-concave", between unimodal and log-concave.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, fminbound

from cwboost._utils.checks import is_number, is_whole

Floats = NDArray[np.float64]

ASSUMPTIONS = ("unimodal", "r-concave", "none")
ROUNDING = 1e-10  # cutoffs and rates that differ by less are equal
LEAST, MOST = 1e-12, 1e6  # of the shape of an r-concave distribution
# Of that shape, where its tail is largest: that of the published tables, whose numbers are up to
# 0.4% below the exact ones.
TOLERANCE = float(np.finfo(float).eps ** 0.25)


class Bound(NamedTuple):
    """Terms per fit, share of the fits from which on a column is selected, and what both bound."""

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
    """The third of q, cutoff and PFER.

    Parameters
    ----------
    p : int
        Columns (or terms) that can be chosen.
    q : int, optional
        How many of them every fit chooses. If not given: the most that keep the bound.
    cutoff : float, optional
        Share of the fits from which on a column is selected, above 0.5 (with "r-concave" above
        q/p). If not given: the least that keeps the bound.
    pfer : float, optional
        Bound of the expected number of columns selected by chance.
    assumption : "unimodal", "r-concave" or "none"
    n_samples : int
        Complementary pairs ("none": their number does not matter).

    Examples
    --------
    >>> complete(100, cutoff=0.6, pfer=1).q
    6
    >>> complete(100, q=6, pfer=0.5, assumption="r-concave").cutoff
    0.59
    """
    check(p, q, cutoff, pfer, assumption)

    def rate(q: int, cutoff: float) -> float:
        return error_rate(p, q, cutoff, assumption=assumption, n_samples=n_samples)

    if cutoff is None:
        assert q is not None
        assert pfer is not None
        cutoff = _least_cutoff(p, q, pfer, assumption, n_samples)
    elif q is None:
        assert pfer is not None
        share, allowed = cutoff, pfer * (1 + ROUNDING)
        q = _last(1, p, lambda q: rate(q, share) <= allowed)
        if q == 0:
            raise ValueError(
                f"pfer = {pfer:g}: with cutoff = {cutoff:g} even fits that choose 1 of {p} have "
                f"the bound {rate(1, cutoff):.3g}; raise pfer or cutoff"
            )
    return Bound(q, cutoff, rate(q, cutoff))


def check(
    p: int | None, q: object, cutoff: object, pfer: object, assumption: object = "none"
) -> None:
    """Refuses what cannot be completed; `p` may not be known yet."""
    given = [x is not None for x in (q, cutoff, pfer)]
    if sum(given) != 2:
        raise ValueError(
            f"give two of q, cutoff and pfer, for instance cutoff=0.75, pfer=1; got {sum(given)}"
        )
    if assumption not in ASSUMPTIONS:
        words = ", ".join(map(repr, ASSUMPTIONS))
        raise ValueError(f"assumption: expected one of {words}; got {assumption!r}")
    if q is not None and not (is_whole(q) and 1 <= q <= (q if p is None else p)):
        most = "" if p is None else f" to {p}, what there is to choose from"
        raise ValueError(f"q: expected a whole number from 1{most}; got {q!r}")
    low = 0.0 if assumption == "r-concave" else 0.5
    if cutoff is not None and not (is_number(cutoff) and low < cutoff <= 1.0):
        raise ValueError(
            f"cutoff: expected a number above {low:g} and up to 1, such as 0.75; got {cutoff!r}"
        )
    if pfer is not None and not (is_number(pfer) and pfer > 0):
        raise ValueError(f"pfer: expected a number above 0, such as 1; got {pfer!r}")


def error_rate(
    p: int, q: int, cutoff: float, *, assumption: str = "unimodal", n_samples: int = 50
) -> float:
    """The bound of the expected number of columns selected by chance.

    With share = q/p: "none" q share / (2 cutoff - 1); "unimodal" is about half of it up to a cutoff
    of 3/4; "r-concave" is smaller still and found numerically.

    Examples
    --------
    >>> [round(error_rate(100, 3, 0.6, assumption=a), 6) for a in ("none", "unimodal", "r-concave")]
    [0.45, 0.236842, 0.086912]
    """
    share, pairs = q / p, n_samples
    if assumption == "r-concave":
        count = math.ceil(round(2 * pairs * cutoff, 9))  # of fits that choose a selected column
        both = _largest_tail(share**2 * pairs, count - pairs, pairs, -0.5)
        either = _largest_tail(share * 2 * pairs, count, 2 * pairs, -0.25)
        return p * min(both, either)
    least = 0.5 + max(1 / pairs, min(share**2, 0.5 / pairs + 0.75 * share**2))
    if assumption == "none" or share > 1 / math.sqrt(3) or cutoff < least - ROUNDING:
        return q * share / (2 * cutoff - 1)  # holds always
    if cutoff <= 0.75:
        return q * share / (2 * (2 * cutoff - 1 - 0.5 / pairs))
    return q * share * 4 * (1 - cutoff + 0.5 / pairs) / (1 + 1 / pairs)


def _last(first: int, last: int, good: Callable[[int], bool]) -> int:
    """The last whole number of a range that is good, if all before it are; else one before it."""
    low, high = first - 1, last
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if good(middle) else (low, middle - 1)
    return low


def _least_cutoff(p: int, q: int, pfer: float, assumption: str, n_samples: int) -> float:
    allowed = pfer * (1 + ROUNDING)
    if assumption == "none":
        least = (q * q / (p * pfer) + 1) / 2
    else:  # of the shares that 2 B fits can have
        fits = 2 * n_samples
        first = math.floor(fits * q / p) + 1 if assumption == "r-concave" else n_samples + 1
        bad = _last(
            first,
            fits,
            lambda k: (
                error_rate(p, q, k / fits, assumption=assumption, n_samples=n_samples) > allowed
            ),
        )
        least = (bad + 1) / fits
    if least > 1:
        rate = error_rate(p, q, 1.0, assumption=assumption, n_samples=n_samples)
        raise ValueError(
            f"pfer = {pfer:g}: fits that choose {q} of {p} have the bound {rate:.3g} even if all "
            "of them must agree (cutoff 1); raise pfer or lower q"
        )
    return least


@lru_cache(maxsize=4096)
def _largest_tail(mean: float, t: int, n: int, r: float) -> float:
    """The largest P(X >= t) of r-concave distributions (r < 0) on 0..n with a mean.

    The extremes are f(i) = (a + i)^(1/r) for i = 0..k and a part of that at k + 1: a lies between
    the values at which k + 1 has all of it, or none, and the part follows from the mean. Where the
    mean asks for an increasing f (t up to about twice the mean) the bound is 1.
    """
    first = math.ceil(2 * mean) + 1  # from this k on f decreases
    if t < first or first >= n:
        return 1.0
    i = np.arange(n + 1.0)

    def excess(a: float, k: int) -> float:  # of the mean on 0..k, times a positive number
        f: Floats = (1 + i[: k + 1] / a) ** (1 / r)
        return float(f @ (i[: k + 1] - mean))

    def below(a: float, k: int) -> float:  # P(X < t)
        f: Floats = (1 + i[: k + 1] / a) ** (1 / r)
        return (k + 1 - mean) * float(f[:t].sum() / (f @ (k + 1 - i[: k + 1])))

    supports = range(max(first, t - 1), n + 1)
    ends = [float(brentq(excess, LEAST, MOST, args=(k,), xtol=1e-15)) for k in supports]
    return 1.0 - min(
        float(fminbound(below, low, high, (k,), TOLERANCE, full_output=True)[1])
        for k, high, low in zip(supports, ends, ends[1:], strict=False)
    )
