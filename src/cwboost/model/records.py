"""Records that a model keeps: columns, sizes, edits, the ranking of pairs, bags and bands."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.text import count
from cwboost.binning.spread import Spread
from cwboost.frames.columns import Floats, Unit

Literals = bool | int | float | str | None
NOT_ASKED = "it was not asked for"  # reason of a model whose iterations were only repeated
GONE = 0.05  # effective df of a term of the refit below which it is dropped
RULE_WORDS = {  # how a fit chooses pairs (Ranking.rule), in words
    "number": "those with the largest gains",
    "all": "as many as gain more than noise does",
    "auto": "the fewest of {tried:,} within one standard error of the lowest validation risk",
}


@dataclass(frozen=True)
class ColumnFacts:
    """What the model keeps about a training column."""

    kind: Literal["numbers", "labels"]
    low: float | None = None
    high: float | None = None
    missing: bool = False
    boolean: bool = False
    spread: Spread | None = field(default=None, repr=False, compare=False)  # None in old files
    unit: Unit | None = None  # of numbers; None if unknown: no number, or an old file


@dataclass(frozen=True, eq=False)
class Sizes:
    """Mean absolute effects over the training rows, as the fit computed them.

    After an edit, the entries of the edited column are missing.

    Attributes
    ----------
    terms : mapping of chosen term to number
    columns : mapping of column to number
        The terms of a column are added up before the absolute value. A pair of columns has an entry
        of its own, such as "lon:lat" (see `column_groups`).
    """

    terms: Mapping[str, float]
    columns: Mapping[str, float]

    def without(self, terms: Container[str], columns: Container[str]) -> Sizes:
        """Return the sizes without some entries."""
        return Sizes(
            MappingProxyType({k: v for k, v in self.terms.items() if k not in terms}),
            MappingProxyType({k: v for k, v in self.columns.items() if k not in columns}),
        )

    def __reduce__(self) -> Any:  # mapping proxies cannot be pickled
        return Sizes, (dict(self.terms), dict(self.columns))


@dataclass(frozen=True)
class Edit:
    """One change made to a model after its fit (see edits.py).

    `model.edit(e.what, e.term, **dict(e.parameters))` does the same to another model.
    """

    what: str  # name of the edit, a key of `EDITS`
    term: str  # name of the term, or of the column whose terms were changed
    parameters: tuple[tuple[Literals | tuple[Literals, ...], ...], ...]  # pairs of name and value
    shift: tuple[float, ...]  # (q,) the mean that moved from the term to the start
    words: str  # describes the change and its size


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """Pairs of columns, ranked by their gain on the residuals of a model of main effects.

    Attributes
    ----------
    a, b : tuple of names
        The columns of each pair, the pair of largest gain first; at most the best 1000.
    gain : array
        How much the learner of the pair reduces the weighted sum of squares of the residuals.
    by_noise : array
        The number of pairs that gain as much by noise: the maximum over ten draws of random signs
        of the residuals.
    noise : float
        The mean gain of the best pair on noise.
    residual : float
        The weighted sum of squares of the residuals.
    n_pairs, n_columns : int
        The number of ranked pairs, and of their columns.
    left_out : tuple of names
        Columns with too many levels for the ranking.
    rule : str
        What chose the pairs: "auto", "all", or "number" if the user gave their number; "" if the
        pairs were only ranked.
    tried : int
        The number of pairs, from the first, that were fitted.
    positions : tuple of int
        Positions of the pairs in this ranking that have a term in the model.
    """

    a: tuple[str, ...]
    b: tuple[str, ...]
    gain: Floats
    by_noise: Floats
    noise: float
    residual: float
    n_pairs: int
    n_columns: int
    left_out: tuple[str, ...]
    rule: str = ""
    tried: int = 0
    positions: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for numbers in (self.gain, self.by_noise):
            numbers.flags.writeable = False

    def __len__(self) -> int:
        return len(self.gain)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return list(zip(self.a, self.b, strict=True))

    @property
    def chosen(self) -> int:
        """The number of pairs that have a term in the model."""
        return len(self.positions)

    @property
    def chosen_pairs(self) -> list[tuple[str, str]]:
        """The pairs that have a term in the model, in the order of the ranking."""
        return [(self.a[k], self.b[k]) for k in self.positions]

    @property
    def words(self) -> str:
        """How many pairs have a term in the model, and what chose them."""
        reason = (
            f", {RULE_WORDS[self.rule].format(tried=self.tried)}" if self.rule in RULE_WORDS else ""
        )
        return f"{self.chosen:,} of {self.n_pairs:,} pairs{reason}"

    def with_pairs(self, pairs: Iterable[tuple[str, ...]]) -> Ranking:
        """Return the ranking with other chosen pairs, which are among the tried ones."""
        have = {frozenset(pair) for pair in pairs}
        tried = self.pairs[: self.tried]
        return replace(
            self, positions=tuple(k for k, pair in enumerate(tried) if frozenset(pair) in have)
        )

    @property
    def share(self) -> Floats:
        """Gains as shares of the sum of squares of the residuals."""
        return self.gain / self.residual if self.residual > 0 else np.zeros(len(self.gain))

    @property
    def table(self) -> dict[str, Any]:
        """Columns a, b, gain, share, by_noise and chosen."""
        from cwboost.frames.result_table import ResultTable

        a, b = (np.array(names, dtype=object) for names in (self.a, self.b))
        numbers = {"gain": self.gain, "share": self.share, "by_noise": self.by_noise}
        chosen = np.isin(np.arange(len(self)), self.positions)
        return ResultTable(a=a, b=b, **numbers, chosen=chosen)

    def plot(self, **options: Any) -> Any:
        """Draw the best pairs (extra `plot`); the options are those of InteractionsDisplay."""
        from cwboost.plotting.interactions import InteractionsDisplay

        return InteractionsDisplay.from_estimator(self, **options)

    def __repr__(self) -> str:
        return f"<Ranking of {self.n_pairs} pairs, {self.chosen} chosen>\n{self.table!r}"


@dataclass(frozen=True, eq=False)
class Bags:
    """The fits to parts of the rows whose average a model is.

    Attributes
    ----------
    start : (bags, q) array
    coef : mapping of term to array (bags, n_coef, q)
        Coefficients of the terms that any bag has chosen; zero for bags that have not.
    chosen : mapping of the same terms to tuples
        How often each bag chose the term.
    n_iter, best_iteration : tuples
        The number of iterations of each bag, and the iteration of its coefficients.
    validation_risk : tuple
        Mean loss of the rows that the bag left out, at its best iteration.
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
class Polish:
    """The refit of the chosen terms as one penalised additive model, after boosting.

    Attributes
    ----------
    weight : float
        The weight of the refit in the scores of the model; the rest is the boosted fit. 0: the
        model was not polished, for the `reason` given.
    boosted_start : (q,) array
        The start of the boosted fit.
    boosted_means : mapping of term to array (n_coef,)
        The mean rows of the bases over the training rows of the boosted fit. Effects of the
        polished model have mean zero over all rows.
    differences : mapping of term to array (n_coef, q)
        The coefficients of the refit less those of the boosted fit, if the weight is below 1.
    edf : mapping of term to float
        Effective degrees of freedom in the refit.
    smoothing : mapping of term to tuple
        The smoothing parameters: of the penalty of the basis, and of what it leaves free.
    dispersion : float
        1 for the binomial loss, the variance of the noise for the squared loss.
    factors : mapping of column, or pair, to a mapping of its terms to arrays (n_coef, rank)
        F with F F' the posterior covariance of the coefficients of the refit, jointly for all
        terms of a column.
    reason : str
        Why the model was not polished.
    repeated : int or None
        If the model was not polished: the number of iterations that were repeated on all rows,
        validation rows included. The model is the result of these. None if none were repeated.
    """

    weight: float
    boosted_start: Floats
    boosted_means: Mapping[str, Floats]
    differences: Mapping[str, Floats]
    edf: Mapping[str, float]
    smoothing: Mapping[str, tuple[float, ...]]
    dispersion: float
    factors: Mapping[str, Mapping[str, NDArray[np.float32]]]
    reason: str = ""
    repeated: int | None = None

    @classmethod
    def skipped(cls, reason: str, start: Floats) -> Polish:
        """Return the record of a model that was not polished."""
        return cls(0.0, start, {}, {}, {}, {}, 1.0, {}, reason)

    @property
    def words(self) -> str:
        """What polish did, in a sentence."""
        if not self.weight:
            return f"the terms were not refitted together: {self.reason}{self._repetition}"
        out = "the terms were refitted together on all rows"
        if self.weight < 1.0:
            out += f", weight {self.weight:.2f}; the boosted fit has the rest"
        out += f"; {sum(self.edf.values()):.1f} effective df"
        if self.dropped:
            out += f"; {len(self.dropped)} of {len(self.edf)} terms shrank to nothing"
        return out

    @property
    def argument(self) -> str:
        """The argument `polish` that repeats this."""
        return "repeat" if self.reason == NOT_ASKED else "auto"

    @property
    def on_all_rows(self) -> bool:
        """Whether the model was fitted to all rows after boosting, in one way or the other."""
        return self.weight > 0.0 or self.repeated is not None

    @property
    def _repetition(self) -> str:
        if self.repeated is None:
            return ""
        if self.repeated == 0:
            return "; the constant was computed from all rows"
        return f"; {count(self.repeated, 'iteration')} repeated on all rows"

    @property
    def dropped(self) -> tuple[str, ...]:
        """Terms that the refit shrank to nothing."""
        return tuple(name for name, edf in self.edf.items() if edf < GONE and self.weight == 1.0)

    def __repr__(self) -> str:
        if not self.weight:
            return f"<Polish: none, {self.reason}{self._repetition}>"
        return f"<Polish: weight {self.weight:.2g}, {sum(self.edf.values()):.1f} effective df>"

    def __reduce__(self) -> Any:  # mapping proxies cannot be pickled
        plain = ("boosted_means", "differences", "edf", "smoothing")
        maps = {name: dict(getattr(self, name)) for name in plain}
        maps["factors"] = {key: dict(value) for key, value in self.factors.items()}
        state = {entry.name: getattr(self, entry.name) for entry in fields(self)} | maps
        return Polish, tuple(state.values())


@dataclass(frozen=True, eq=False)
class Bands:
    """Fits to bootstrap draws of the rows, from which bands around the effects are made.

    Attributes
    ----------
    center : mapping of term to array (n_coef, q)
        The fit to all rows, with `longer` times as many iterations as the model, so that its bias
        is small compared with its variance.
    coef : mapping of the same terms to arrays (draws, n_coef, q) of 32-bit floats
        The fits to the draws.
    n_iter : tuple
        The number of iterations of each draw.
    longer : float
    inflation : float
        Factor of the standard deviation between draws. It corrects for the residuals of training
        rows, which are too small.
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
        return f"<Bands: {len(self)} draws, {self.longer:g} times the iterations of the model>"

    def __reduce__(self) -> Any:  # mapping proxies cannot be pickled
        maps = dict(self.center), dict(self.coef)
        return Bands, (*maps, self.n_iter, self.longer, self.inflation)
