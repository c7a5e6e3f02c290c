"""Folds: which rows a fit is trained on and which it is tested on.

A fold is a pair of factors of the row weights, never a copy of rows. Folds are drawn from units,
which are the rows, or the groups if `groups` is given. Does not know about fits (see fold_fits.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import (
    check_one_of,
    check_whole,
    has_items,
    is_flag,
    is_number,
    is_one_of,
    is_whole,
)
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown_fields
from cwboost.fitting.input_data import FitData, Split
from cwboost.frames.aligned import aligned_column
from cwboost.frames.columns import Floats, Labels
from cwboost.frames.read_frames import read_column
from cwboost.frames.table import Table

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
KINDS = ("kfold", "bootstrap", "subsampling", "time")
MAX_REPEATS = 10_000
FRACTION = 0.5  # share of the units that subsampling trains on by default


class Fold:
    """How often each row is trained on and how often it is tested on; never both.

    A fold takes little memory: masks are stored as bits, and test rows only if they are not simply
    all rows that are not trained on.
    """

    def __init__(self, training: NDArray[Any], test: NDArray[Any] | None = None) -> None:
        self._training = _PackedCounts(training)
        self._test = None if test is None else _PackedCounts(test)

    @property
    def training_counts(self) -> NDArray[Any]:
        """(n,) a mask, or counts."""
        return self._training.unpack()

    @property
    def test_counts(self) -> NDArray[Any]:
        """(n,) a mask, or counts."""
        return self.training_counts == 0 if self._test is None else self._test.unpack()

    @property
    def training(self) -> Floats:
        """(n,) factors of the row weights."""
        return self.training_counts.astype(np.float64)

    @property
    def test(self) -> Floats:
        """(n,) factors of the row weights."""
        return self.test_counts.astype(np.float64)

    def split(self, weights: Floats, held: Mask | None = None) -> Split:
        """Return the split of a fit to the training rows.

        Its validation rows are the test rows, or with `held` these training rows.
        """
        training = weights * self.training_counts
        if held is None:
            return Split(training, weights * self.test_counts, weights)
        return Split(np.where(held, 0.0, training), np.where(held, training, 0.0), training)


class _PackedCounts:
    """Counts of rows; a mask is stored as bits."""

    def __init__(self, counts: NDArray[Any]) -> None:
        self._n, self._is_mask = len(counts), counts.dtype == bool
        self._stored = np.packbits(counts) if self._is_mask else counts

    def unpack(self) -> NDArray[Any]:
        if not self._is_mask:
            return self._stored
        return np.unpackbits(self._stored, count=self._n).view(bool)


@explain_unknown_fields
@dataclass(frozen=True)
class Folds:
    """A way to make folds.

    Parameters
    ----------
    kind : "kfold", "bootstrap", "subsampling" or "time"
        "kfold" tests every row once per repeat. "bootstrap" draws as many rows as there are with
        replacement and tests the rows that were not drawn. "subsampling" draws a fraction without
        replacement. "time" cuts the rows, in their order, into n + 1 blocks, trains fold k on the
        first k blocks and tests it on the next.
    n : int
        Number of folds; for "kfold" per repeat.
    repeats : int
        How often "kfold" divides the rows, each time at random.
    fraction : float, optional
        Share of the rows that "subsampling" trains on (default 0.5).
    stratified : "auto", True or False
        Whether every fold has its share of each class. "auto" stratifies if y has classes and the
        kind is not "time". The only row of a class is trained on in all folds.

    Examples
    --------
    >>> Folds("kfold", 5, repeats=2)
    Folds(kind='kfold', n=5, repeats=2, fraction=None, stratified='auto')
    """

    kind: Literal["kfold", "bootstrap", "subsampling", "time"] = "kfold"
    n: int = 10
    repeats: int = 1
    fraction: float | None = None
    stratified: bool | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        check_one_of("Folds: kind", self.kind, KINDS)
        least = 2 if self.kind == "kfold" else 1
        if not is_whole(self.n) or self.n < least:
            raise ValueError(
                f"Folds: n must be a whole number >= {least} for {quote(self.kind)}, got "
                f"{quote(self.n)}"
            )
        if self.kind in ("bootstrap", "subsampling"):  # others have at most one fold per row
            check_whole("Folds: n", self.n, 1, MAX_REPEATS)
        check_whole("Folds: repeats", self.repeats, 1, MAX_REPEATS)
        if self.repeats > 1 and self.kind != "kfold":
            raise ValueError(
                f"Folds: repeats applies only to 'kfold'; for {quote(self.kind)} raise n"
            )
        if self.fraction is not None and self.kind != "subsampling":
            raise ValueError(
                f"Folds: fraction applies only to 'subsampling', not to {quote(self.kind)}"
            )
        if self.fraction is not None and not (
            is_number(self.fraction) and 0.0 < self.fraction < 1.0
        ):
            raise ValueError(f"Folds: fraction must be between 0 and 1, got {quote(self.fraction)}")
        if not (is_flag(self.stratified) or is_one_of(self.stratified, ("auto",))):
            raise ValueError(
                f"Folds: stratified must be 'auto', True or False, got {quote(self.stratified)}"
            )
        if self.stratified is True and self.kind == "time":
            raise ValueError("Folds: rows in time order cannot be stratified; use stratified=False")


def as_folds(folds: Any, data: FitData, groups: Any = None, seed: int = 0) -> list[Fold]:
    """Return the folds that an argument `folds` describes, checked.

    Parameters
    ----------
    folds : int, Folds, splitter of scikit-learn, list of (training, test) or (n, folds) weights
        A number of folds; a rule; pairs of row numbers or masks; or factors of the row weights that
        are zero for test rows. Arrays have an entry for every row of the table, also for rows of
        weight zero, which are in no fold.
    groups : array or name of a column, optional
        Rows of a group stay together.
    seed : int

    Examples
    --------
    >>> from cwboost.fitting.input_data import FitInput, read_data
    >>> from cwboost.losses import as_loss
    >>> data = read_data(FitInput({"x": range(6)}, [1.0] * 6), as_loss("squared"), 0)
    >>> as_folds(Folds("time", 2), data)[0].training
    array([1., 1., 0., 0., 0., 0.])
    """
    units = None if groups is None else read_groups(groups, data)
    if is_whole(folds):
        if folds < 2:
            raise ValueError(f"folds: expected at least 2, got {folds}")
        folds = Folds("kfold", int(folds))
    if isinstance(folds, Folds):
        out = list(_draw_folds(folds, data, units, seed))
    elif hasattr(folds, "test_fold"):  # scikit-learn's PredefinedSplit lists all rows itself
        out = list(_from_pairs(folds.split(), data))
    elif hasattr(folds, "split") and not isinstance(folds, str | bytes | bytearray):
        out = list(_from_splitter(folds, data, units))
    elif has_items(folds) and not hasattr(folds, "shape"):
        out = list(_from_pairs(folds, data))
    elif len(getattr(folds, "shape", ())) == 2:
        out = list(_from_weights(np.asarray(folds), data))
    else:
        raise TypeError(
            "folds: expected a number, cb.Folds(...), a splitter of scikit-learn, a list of "
            f"(training, test) rows, or weights of shape (rows, folds); got {quote(folds)}"
        )
    if not out:
        raise ValueError("folds: there are no folds; pass at least one pair (training, test)")
    for number, fold in enumerate(out):
        _check(fold, f"fold {number}", data)
        if units is not None:
            _check_groups(fold, f"fold {number}", units, data)
    return out


def validation_rows(
    fold_list: Sequence[Fold], folds: Any, data: FitData, share: float, groups: Any, seed: int
) -> list[Mask]:
    """Return, for each fold, the training rows that are held out to find an optimizer's switch.

    For folds in time order these are the last training rows, otherwise rows drawn at random.
    `folds` is the argument that `fold_list` was made from.
    """
    last = isinstance(folds, Folds) and folds.kind == "time"
    return [
        fold_validation_rows(fold, data, share, groups, seed + k, last)
        for k, fold in enumerate(fold_list)
    ]


def fold_validation_rows(
    fold: Fold, data: FitData, share: float, groups: Any = None, seed: int = 0, last: bool = False
) -> Mask:
    """Mark a share of a fold's training rows (or groups) as validation rows.

    They are drawn at random, stratified by class, or are the last ones.
    """
    inside = np.flatnonzero(fold.training_counts)
    units = np.arange(len(inside))
    if groups is not None:
        units = np.unique(read_groups(groups, data)[inside], return_inverse=True)[1]
    n_units = int(units.max()) + 1
    if last:
        held = np.arange(n_units) >= n_units - _round_half_up(share * n_units)
    else:
        strata = _unit_strata(data.y[inside] if data.classes else None, units)
        held = _draw_fraction(strata, share, np.random.default_rng(seed))
    if not held.any() or held.all():
        what = "rows" if groups is None else "groups"
        raise ValueError(
            f"a validation share of {share:g} selects none or all of {n_units} training {what}; "
            f"choose another share, or use more {what}"
        )
    out = np.zeros(len(data.y), bool)
    out[inside] = held[units]
    return out


def read_groups(groups: Any, data: FitData, argument: str = "groups") -> Integers:
    """(n,) group numbers of the rows that have a weight, in order of first appearance."""
    if not isinstance(groups, str):
        groups = read_column(groups, argument)
        n = data.n_given
        if len(groups) != n:
            raise ValueError(f"{argument} has {len(groups)} rows, the table has {n}")
        if data.present is not None:
            groups = groups.take(data.present)
    return group_numbers(groups, data.table, argument)


def group_numbers(groups: Any, table: Table, argument: str = "groups") -> Integers:
    """(n,) group numbers of a table's rows, in order of first appearance.

    Examples
    --------
    >>> from cwboost.frames.read_frames import read
    >>> group_numbers("ward", read({"ward": ["b", "a", "b"]}))
    array([0, 1, 0])
    """
    column = aligned_column(groups, argument, table)
    if column.missing.any():
        row = table.row(int(np.flatnonzero(column.missing)[0]))
        raise ValueError(f"{argument}, row {row}: the value is missing; every row needs one")
    values = column.codes if isinstance(column, Labels) else column.values
    _, first, codes = np.unique(values, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


# --- folds by a rule ------------------------------------------------------------------------------


def _draw_folds(folds: Folds, data: FitData, units: Integers | None, seed: int) -> Iterator[Fold]:
    n = len(data.y)
    stratified = folds.stratified
    if stratified is True and not data.classes:
        raise ValueError(
            f"folds: stratified=True needs classes; with the {data.loss.name} loss y is a number"
        )
    if stratified == "auto":
        stratified = bool(data.classes) and folds.kind != "time"
    unit_of_row = np.arange(n) if units is None else units
    n_units = int(unit_of_row.max()) + 1
    what = "rows" if units is None else "groups"
    least = folds.n + 1 if folds.kind == "time" else folds.n if folds.kind == "kfold" else 2
    if n_units < least:
        raise ValueError(
            f"folds: {folds.kind} with n={folds.n} needs at least {least} {what}, got {n_units}"
        )
    if folds.kind == "time":
        yield from _time_folds(folds.n, unit_of_row, n_units)
        return
    strata = _unit_strata(data.y if stratified else None, unit_of_row)
    sizes = np.bincount(unit_of_row)
    for repeat in range(folds.repeats):
        rng = np.random.default_rng([seed, repeat])
        if folds.kind == "kfold":
            dealt = _deal_units(strata, sizes, folds.n, rng)[unit_of_row]
            for k in range(folds.n):
                yield Fold(dealt != k)
            continue
        for _ in range(folds.n):
            if folds.kind == "bootstrap":
                counts = draw_with_replacement(strata, rng)[unit_of_row]
                yield Fold(counts)
            else:
                tested = _draw_fraction(strata, 1.0 - (folds.fraction or FRACTION), rng)[
                    unit_of_row
                ]
                yield Fold(~tested)


def _time_folds(n: int, unit_of_row: Integers, n_units: int) -> Iterator[Fold]:
    if np.any(np.diff(unit_of_row) < 0):
        raise ValueError(
            "groups: for folds in time order the rows of a group must be adjacent; sort them, or "
            "omit groups"
        )
    block = (np.arange(n_units) * (n + 1) // n_units)[unit_of_row]
    for k in range(1, n + 1):
        yield Fold(block < k, block == k)


def _unit_strata(y: Floats | None, unit_of_row: Integers) -> Integers:
    """(units,) stratum of each unit: the most frequent class of its rows, 0 without classes."""
    n_units = int(unit_of_row.max()) + 1
    if y is None:
        return np.zeros(n_units, np.int64)
    classes, codes = np.unique(y, return_inverse=True)
    if n_units == len(y):
        return np.asarray(codes)[np.argsort(unit_of_row)]
    counts = np.bincount(unit_of_row * len(classes) + codes, minlength=n_units * len(classes))
    return np.asarray(counts.reshape(n_units, -1).argmax(axis=1))


def _deal_units(strata: Integers, sizes: Integers, k: int, rng: np.random.Generator) -> Integers:
    """(units,) test fold of each unit: units are assigned in turn, by stratum, the largest first,
    ties at random.

    So every fold has its share of each stratum to one unit, and the numbers of rows of two folds
    differ by at most the largest units of the strata. A unit that is alone in its stratum has the
    number -1 and is trained on in all folds.
    """
    order = np.lexsort([rng.random(len(strata)), -sizes, strata])
    order = order[np.bincount(strata)[strata[order]] > 1]
    out = np.full(len(strata), -1)
    out[order] = np.arange(len(order)) % k
    return out


def draw_with_replacement(strata: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """(units,) how often each unit is drawn, with replacement and within its stratum."""
    out = np.zeros(len(strata), np.int64)
    for stratum in np.unique(strata):
        inside = np.flatnonzero(strata == stratum)
        drawn = rng.integers(0, len(inside), len(inside))
        out[inside] = np.bincount(drawn, minlength=len(inside))
    return _smallest_dtype(out)


def _draw_fraction(strata: Integers, fraction: float, rng: np.random.Generator) -> Mask:
    """(units,) mark a fraction of each stratum, drawn without replacement; never all of it."""
    out = np.zeros(len(strata), bool)
    for stratum in np.unique(strata):
        inside = rng.permutation(np.flatnonzero(strata == stratum))
        out[inside[: min(_round_half_up(fraction * len(inside)), len(inside) - 1)]] = True
    return out


def _round_half_up(number: float) -> int:
    return int(np.floor(number + 0.5))


# --- folds listed row by row ----------------------------------------------------------------------


def _from_splitter(splitter: Any, data: FitData, units: Integers | None) -> Iterator[Fold]:
    """Yield the folds of a scikit-learn splitter of the rows that have a weight."""
    n = len(data.y)
    try:
        pairs = list(splitter.split(np.arange(n)[:, None], data.y, units))
    except TypeError as error:
        raise TypeError(
            f"folds: {quote(splitter)} is not a splitter of scikit-learn, whose method split(X, y, "
            f"groups) yields pairs of row numbers: {error}"
        ) from None
    except ValueError as error:
        remedy = "; pass groups=" if units is None and "groups" in str(error) else ""
        raise ValueError(
            f"folds: {quote(splitter)} cannot split the rows: {error}{remedy}"
        ) from None
    for number, pair in enumerate(pairs):
        yield _make_fold(*(_row_counts(rows, f"fold {number}", n) for rows in pair))


def _from_pairs(pairs: Iterable[Any], data: FitData) -> Iterator[Fold]:
    """Yield folds from pairs (training, test) of row numbers or masks."""
    n = data.n_given
    for number, pair in enumerate(pairs):
        where = f"fold {number}"
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise TypeError(
                f"{where}: expected a pair (training, test) of row numbers or masks, got "
                f"{quote(pair)}"
            )
        yield _make_fold(*(data.of_present(_row_counts(rows, where, n)) for rows in pair))


def _make_fold(training: NDArray[Any], test: NDArray[Any]) -> Fold:
    return Fold(training) if np.array_equal(test, training == 0) else Fold(training, test)


def _from_weights(weights: NDArray[Any], data: FitData) -> Iterator[Fold]:
    n = data.n_given
    if len(weights) != n:
        raise ValueError(f"folds: the weights have {len(weights)} rows, the table has {n}")
    if weights.dtype.kind not in "buif":
        raise TypeError(f"folds: expected weights, got an array of {weights.dtype}")
    weights = weights.astype(np.float64)
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError("folds: weights must be finite numbers >= 0, zero for test rows")
    for factors in weights.T:
        yield Fold(data.of_present(factors))


def _row_counts(given: Any, where: str, n: int) -> NDArray[Any]:
    """(n,) how often each row occurs in a list of row numbers, or the mask itself."""
    try:
        rows: NDArray[Any] = np.asarray(given)
    except (TypeError, ValueError):  # lists of different lengths
        rows = np.array(None)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "biu"):
        raise TypeError(f"{where}: expected row numbers or a mask, got {quote(given)}")
    if rows.size == 0:
        return np.zeros(n, bool)
    if rows.dtype == bool:
        if len(rows) != n:
            raise ValueError(f"{where}: the mask has {len(rows)} rows, the table has {n}")
        return rows
    if rows.min() < 0 or rows.max() >= n:
        wrong = rows.min() if rows.min() < 0 else rows.max()
        raise ValueError(f"{where}: there is no row {wrong}; the rows are 0 to {n - 1}")
    return _smallest_dtype(np.bincount(rows, minlength=n))


def _smallest_dtype(counts: Integers) -> NDArray[Any]:
    """Return counts in the smallest dtype that holds them."""
    return counts.astype(bool if counts.max() == 1 else np.min_scalar_type(counts.max()))


# --- checks ---------------------------------------------------------------------------------------


def _check(fold: Fold, where: str, data: FitData) -> None:
    training, test = fold.training_counts > 0, fold.test_counts > 0
    for what, marks in (("training", training), ("test", test)):
        if not marks.any():
            zero = "" if data.present is None else " (rows of weight zero are in no fold)"
            raise ValueError(f"{where} has no {what} rows{zero}")
    both = np.flatnonzero(training & test)
    if len(both):
        raise ValueError(
            f"{where}: row {data.table.row(int(both[0]))} is both trained on and tested on "
            f"({len(both)} such row{'s' * (len(both) > 1)})"
        )
    if data.classes:
        lacking = np.setdiff1d(data.y, data.y[training])
        if len(lacking):
            name = data.classes[int(np.searchsorted(np.unique(data.y), lacking[0]))]
            count = int(np.sum(data.y == lacking[0]))
            raise ValueError(
                f"{where}: class {quote(name)} does not occur in its training rows ({count} in "
                "all); use stratified folds or other groups, or omit this class"
            )


def _check_groups(fold: Fold, where: str, units: Integers, data: FitData) -> None:
    trained = np.unique(units[fold.training_counts > 0])
    both = np.isin(units[fold.test_counts > 0], trained)
    if both.any():
        row = data.table.row(int(np.flatnonzero(fold.test_counts > 0)[np.flatnonzero(both)[0]]))
        raise ValueError(
            f"{where}: the group of row {row} is both trained on and tested on; these folds "
            "do not keep groups together"
        )
