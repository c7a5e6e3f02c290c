"""Records that a model keeps: columns, edits, the ranking of pairs, bags and bands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost.frames.table import Floats

if TYPE_CHECKING:
    pass

from cwboost.binning.spread import Spread

Literals = bool | int | float | str | None


@dataclass(frozen=True)
class ColumnFacts:
    """What the model remembers of a training column."""

    kind: Literal["numbers", "labels"]
    low: float | None = None
    high: float | None = None
    missing: bool = False
    boolean: bool = False
    spread: Spread | None = field(default=None, repr=False, compare=False)  # None: an old file


@dataclass(frozen=True)
class Edit:
    """One change made to a model after its fit (see edits.py).

    `model.edit(e.what, e.term, **dict(e.parameters))` does the same to another model.
    """

    what: str  # name of the edit, a key of `EDITS`
    term: str  # name of the term, or of the column whose terms were changed
    parameters: tuple[tuple[Literals | tuple[Literals, ...], ...], ...]  # pairs of name and value
    shift: tuple[float, ...]  # (q,) the mean that moved from the term to the start
    words: str  # what was changed, and by how much


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Pairs of columns by what they gain on the residual of a model of main effects.

    Attributes
    ----------
    a, b : tuple of names
        The columns of each pair, the pair of largest gain first; the best 1000 at most.
    gain : array
        How much of the weighted sum of squares of the residual the pair's learner takes away.
    by_noise : array
        How many pairs gain as much by noise: the most in ten draws of random signs of the
        residuals.
    noise : float
        What the best of all pairs gains by noise, on average.
    residual : float
        That sum of squares.
    n_pairs, n_columns : int
        How many pairs were ranked, of how many columns.
    chosen : int
        How many of the first have a term in the model.
    left_out : tuple of names
        Columns with too many levels for a table of pairs.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    gain: Floats
    by_noise: Floats
    noise: float
    residual: float
    n_pairs: int
    n_columns: int
    chosen: int
    left_out: tuple[str, ...]

    def __post_init__(self) -> None:
        for numbers in (self.gain, self.by_noise):
            numbers.flags.writeable = False

    def __len__(self) -> int:
        return len(self.gain)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(zip(self.a, self.b, strict=True))

    @property
    def share(self) -> Floats:
        """Gains as shares of the residual's sum of squares."""
        return self.gain / self.residual if self.residual > 0 else np.zeros(len(self.gain))

    @property
    def table(self) -> dict[str, Any]:
        """Columns a, b, gain, share, by_noise and chosen."""
        from cwboost.frames.result_table import ResultTable

        a, b = (np.array(names, dtype=object) for names in (self.a, self.b))
        numbers = {"gain": self.gain, "share": self.share, "by_noise": self.by_noise}
        return ResultTable(a=a, b=b, **numbers, chosen=np.arange(len(self)) < self.chosen)

    def plot(self, **options: Any) -> Any:
        """Draws the best pairs (extra `plot`); the options are those of InteractionsDisplay."""
        from cwboost.plotting.interactions import InteractionsDisplay

        return InteractionsDisplay.from_estimator(self, **options)

    def __repr__(self) -> str:
        return f"<Ranking of {self.n_pairs} pairs, {self.chosen} chosen>\n{self.table!r}"


@dataclass(frozen=True, eq=False)
class Bags:
    """The fits, to shares of the rows, that a model is the average of.

    Attributes
    ----------
    start : (bags, q) array
    coef : mapping of the terms that any bag has chosen to arrays (bags, n_coef, q)
        In the basis of the term; zero in a bag that has not chosen it.
    chosen : mapping of the same terms to tuples
        How often each bag has chosen the term.
    n_iter, best_iteration : tuples
        Iterations that each bag ran, and the one that its coefficients are at.
    validation_risk : tuple
        Mean loss of the rows that the bag left out, at that iteration.
    risk_at_start : float
        Mean loss of all rows at the average start; the importance of the terms sums to
        `risk_at_start - model.risk[0]`.
    """

    start: Floats
    coef: Mapping[str, Floats]
    chosen: Mapping[str, tuple[int, ...]]
    n_iter: tuple[int, ...]
    best_iteration: tuple[int, ...]
    validation_risk: tuple[float, ...]
    risk_at_start: float

    def __post_init__(self) -> None:
        for values in (self.start, *self.coef.values()):
            values.flags.writeable = False

    def __len__(self) -> int:
        return len(self.start)

    def __repr__(self) -> str:
        return f"<Bags: {len(self)} of {min(self.n_iter)} to {max(self.n_iter)} iterations>"

    def __reduce__(self) -> Any:  # mapping proxies cannot be pickled
        state = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return Bags, tuple(
            (state | {"coef": dict(self.coef), "chosen": dict(self.chosen)}).values()
        )


@dataclass(frozen=True, eq=False)
class Bands:
    """Fits to bootstrap draws of the rows, from which bands around the effects are made.

    Attributes
    ----------
    center : mapping of term to array (n_coef, q)
        The fit to all rows that the others vary around: as the model, but `longer` times as far, so
        that what is left of its bias is small beside its variance.
    coef : mapping of the same terms to arrays (draws, n_coef, q) of 32-bit floats
        The fits to the draws, with as many iterations.
    n_iter : tuple
        Iterations of each of them.
    longer : float
    inflation : float
        Factor of the standard deviations between the draws, for residuals of rows that a fit has
        seen are too small.
    """

    center: Mapping[str, Floats]
    coef: Mapping[str, NDArray[np.float32]]
    n_iter: tuple[int, ...]
    longer: float
    inflation: float

    def __post_init__(self) -> None:
        for coef in self.center.values():
            coef.flags.writeable = False
        for draws in self.coef.values():
            draws.flags.writeable = False

    def __len__(self) -> int:
        return len(self.n_iter)

    def __repr__(self) -> str:
        return f"<Bands: {len(self)} draws, {self.longer:g} times as far as the model>"

    def __reduce__(self) -> Any:  # mapping proxies cannot be pickled
        maps = dict(self.center), dict(self.coef)
        return Bands, (*maps, self.n_iter, self.longer, self.inflation)
