"""The rows of a fit: table, y, weights, offset and the validation rows, read and checked.

Knows all the ways in which people give them; knows nothing of terms, bins or the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number
from cwboost.binning.min_rows import LocalMinRows, MinRows
from cwboost.binning.rules import Bins
from cwboost.binning.summary import Sample
from cwboost.binning.weights import RowWeights, all_weigh_one, ones
from cwboost.frames.table import Column, Floats, Numbers, Table, known_table, read, read_column
from cwboost.losses import Loss

MIN_Y, MAX_Y = 1e-140, 1e140  # sums of squares stay within 64-bit floats


@dataclass(frozen=True, eq=False)
class FitInput:
    """The rows as people gave them: arrays, or names of columns of the table."""

    table: Any
    y: Any
    weights: Any = None
    offset: Any = None
    exposure: Any = None
    validation: Any = None
    apart: tuple[str, ...] = ()  # columns with another part, such as groups
    min_rows: int | None = None  # of a bin, in every place that has some of it
    sites: str | None = None  # column that says in which place a row is
    rule: Bins | None = None  # how numbers are merged, if there is such a least

    def __post_init__(self) -> None:
        """A Dataset knows some of them."""
        for what, name in self._roles.items():
            if getattr(self, what) is None:
                object.__setattr__(self, what, name)

    @property
    def _roles(self) -> Mapping[str, str]:
        table = known_table(self.table)
        return {} if table is None else table.roles

    def column(self, what: str) -> str | None:
        """Name of the column that one of them is, None if it came otherwise."""
        value = getattr(self, what)
        return value if isinstance(value, str) else None

    @property
    def columns(self) -> list[str]:
        """Names of all columns that have a part of their own and are no features."""
        roles = ("y", "weights", "offset", "exposure", "validation", "sites")
        named = [name for name in map(self.column, roles) if name is not None]
        return list(dict.fromkeys([*named, *self.apart, *self._roles.values()]))

    def take(self, rows: NDArray[np.bool_]) -> FitInput:
        """Some of the rows of the table and of all arrays beside it."""

        def some(what: str) -> Any:
            value = getattr(self, what)
            if value is None or isinstance(value, str | tuple) or np.ndim(value) == 0:
                return value
            if np.ndim(value) == 2 and np.shape(value)[1] > 1:
                return np.asarray(value)[rows]
            return read_column(value, what).take(rows)

        taken = {what: some(what) for what in ("y", "offset", "exposure", "validation")}
        table = read(self.table).take(rows)
        return replace(self, table=table, **taken)

    def of_weight(
        self, table: Table, w: Floats
    ) -> tuple[FitInput, Floats, NDArray[np.bool_] | None]:
        """Without rows of weight zero: they are absent, whatever else they say. With the weights of
        the others, and marks of them (None: all)."""
        if all_weigh_one(w) or not np.any(w == 0):
            return self, w, None
        for what in ("y", "offset", "exposure", "validation"):
            _check_length(getattr(self, what), what, table)
        present = w > 0
        return self.take(present), w[present], present

    @property
    def has_offset_arrays(self) -> bool:
        given = (self.offset, self.exposure)
        return any(value is not None and not isinstance(value, str) for value in given)


@dataclass(frozen=True, eq=False)
class Split:
    """How one fit weighs the rows: zero where it does not see them."""

    training: RowWeights  # (n,)
    validation: RowWeights | None  # (n,) of the rows that are watched
    all: RowWeights  # (n,) of both
    crosses: _core.Crosses | None = None  # cross-Grams that fits to this very split share

    @cached_property
    def rows(self) -> NDArray[np.bool_] | None:
        """Marks the training rows; None: all are."""
        marks = self.training > 0
        return None if marks.all() else marks

    def of_training(self, values: Floats) -> Floats:
        """What training rows have of a number (or more) per row."""
        if self.rows is None:
            return values
        if values.strides[0] == 0:  # all rows have the same
            return values[: np.count_nonzero(self.rows)]
        return values[self.rows]


@dataclass(frozen=True, eq=False)
class FitData:
    """All rows of a fit, training and validation, in the order given; none of weight zero."""

    table: Table
    y: Floats  # (n,) as the core takes it
    offset: Floats  # (n, q)
    training: NDArray[np.bool_]  # (n,)
    weights: Floats  # (n,) of all rows; `ones` if there are none
    validation_weights: RowWeights  # (n,) zero for training rows; without validation all are
    classes: tuple[Any, ...]
    loss: Loss
    validation: Literal["none", "fraction", "rows"]
    weighted: bool  # False: all training rows weigh 1
    present: NDArray[np.bool_] | None = None  # marks them among the rows given; None: all are
    least: MinRows | None = None  # rows that a bin must have

    @cached_property
    def split(self) -> Split:
        """As the rows were given."""
        w, held = self.weights, self.validation_weights
        if not self.has_validation:
            return Split(w, None, w)
        if held.dtype == np.bool_:
            return Split(self.training, held, w)
        training = np.where(self.training, w, 0.0)
        same = np.array_equal(held[~self.training], w[~self.training])
        return Split(training, held, w if same else np.where(self.training, w, held))

    @cached_property
    def has_validation(self) -> bool:
        return not bool(self.training.all())

    @cached_property
    def sample(self) -> Sample:
        """The training rows."""
        marks = self.training if self.has_validation else None
        n_rows = int(self.training.sum()) if self.has_validation else len(self.y)
        return Sample(marks, self.weights if self.weighted else None, n_rows, self.least)

    @property
    def n_given(self) -> int:
        """Rows as given, those of weight zero counted."""
        return len(self.y) if self.present is None else len(self.present)

    def of_present(self, values: NDArray[Any]) -> NDArray[Any]:
        """What the rows have of a number (or more) per row given."""
        return values if self.present is None else np.asarray(values[self.present])


def column_of(given: Any, what: str, table: Table) -> Column:
    """A column of the table by name, or an array as long as it."""
    column = table[given] if isinstance(given, str) else read_column(given, what)
    if len(column) != table.n_rows:
        raise ValueError(f"{what} has {len(column)} rows, the table has {table.n_rows}")
    return column


def read_y(y: Any, table: Table, loss: Loss, classes: tuple[Any, ...] | None) -> Any:
    column = column_of(y, "y", table)
    check_known(column, table)
    values, found = loss.read_y(column, classes)
    top = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not (top == 0.0 or MIN_Y < top < MAX_Y):
        raise ValueError(
            f"y: its largest number is {top:g}; sums of squares need it between {MIN_Y:g} and "
            f"{MAX_Y:g} to stay within 64-bit floats; rescale y"
        )
    return values, found


def check_known(column: Column, table: Table) -> None:
    """Refuses a y with missing or infinite values."""
    if column.missing.any():
        row = table.row(int(np.flatnonzero(column.missing)[0]))
        raise ValueError(
            f"y, row {row}: the value is missing ({int(column.missing.sum())} such rows); leave "
            "these rows out"
        )
    if isinstance(column, Numbers) and np.isinf(column.values).any():
        row = table.row(int(np.flatnonzero(np.isinf(column.values))[0]))
        raise ValueError(f"y, row {row}: the value is infinite; leave such rows out")


def read_weights(weights: Any, table: Table, what: str = "weights") -> Floats:
    if weights is None:
        return ones(table.n_rows)
    values = numbers_for(weights, what, table)
    if values.ndim != 1:
        raise ValueError(f"{what}: expected one weight per row, got shape {values.shape}")
    if np.any(values < 0):
        i = int(np.flatnonzero(values < 0)[0])
        raise ValueError(f"{what}, row {table.row(i)}: expected a number >= 0, got {values[i]:g}")
    with np.errstate(over="ignore"):
        if not np.isfinite(values.sum()):
            raise ValueError(f"{what}: their sum is too large for a 64-bit float; rescale them")
    return values


def class_weights(class_weight: Any, classes: Any, totals: NDArray[Any]) -> Floats:
    """Weights of classes as scikit-learn means them, from the weight of the rows of each."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(totals.sum() / (len(totals) * np.where(totals > 0, totals, 1.0)))
    from sklearn.utils import compute_class_weight

    labels = np.asarray(classes)
    return np.asarray(compute_class_weight(class_weight, classes=labels, y=labels))


def read_data(
    given: FitInput, loss: Loss, seed: int, classes: tuple[Any, ...] | None = None
) -> FitData:
    """Everything the rows say, checked."""
    table = read(given.table)
    if not table.names:
        raise ValueError("the table has no columns")
    if table.n_rows == 0:
        raise ValueError("the table has no rows")
    if given.y is None:
        raise TypeError("y is missing; give an array, the name of a column or a formula")
    w = read_weights(given.weights, table)
    if given.weights is not None and not np.any(w > 0):
        raise ValueError("weights: all are zero; at least one row must have a positive weight")
    given, w, present = given.of_weight(table, w)
    table = read(given.table)
    y, found = read_y(given.y, table, loss, classes or None)
    loss = loss.with_classes(found) if found else loss
    if given.offset is None and given.exposure is None:
        offset = np.broadcast_to(np.zeros(1), (table.n_rows, loss.n_outputs))
    else:
        offset = read_offset(table, given.offset, given.exposure, loss, loss.n_outputs)
    validation = given.validation
    if isinstance(validation, tuple):
        table, y, w, offset, held = _append(given, table, y, w, offset, loss, found)
    else:
        held = _validation_weights(validation, table, w, y if found else None, seed)
    training = held == 0
    if not training.any():
        raise ValueError("validation: all rows are held out; none is left for training")
    kind = "none" if validation is None else "fraction" if _is_fraction(validation) else "rows"
    y = np.ascontiguousarray(y)
    weighted = given.weights is not None
    return FitData(
        table,
        y,
        offset,
        training,
        w,
        held,
        found,
        loss,
        kind,  # type: ignore[arg-type]
        weighted,
        present,
        _least(given, table, training),
    )


def _least(given: FitInput, table: Table, training: NDArray[np.bool_]) -> MinRows | None:
    """What is asked of bins, and where the rows are."""
    if given.min_rows is None or given.rule is None:
        return None
    marks = None if training.all() else training
    places = None
    if given.sites is not None:
        for role in ("y", "weights", "offset", "exposure"):
            if given.column(role) == given.sites:
                raise ValueError(f"sites: column {given.sites!r} is {role}; name another")
        places = table[given.sites].labels().codes + 1  # a missing site is one, too
    return LocalMinRows(given.min_rows, given.rule, marks, places)


def _check_length(given: Any, what: str, table: Table) -> None:
    whole = given is None or isinstance(given, str | tuple) or np.ndim(given) == 0
    if not whole and len(given) != table.n_rows:
        raise ValueError(f"{what} has {len(given)} rows, the table has {table.n_rows}")


def _is_fraction(validation: Any) -> bool:
    return isinstance(validation, int | float | np.generic)


def _validation_weights(
    validation: Any, table: Table, w: Floats, classes: Floats | None, seed: int
) -> RowWeights:
    """The weights that validation holds out of the table's rows: marks, where none are given."""

    def of_marked(marks: NDArray[np.bool_]) -> RowWeights:
        return marks if all_weigh_one(w) else np.where(marks, w, 0.0)

    if validation is None:
        return np.broadcast_to(np.zeros(1), table.n_rows)  # takes no memory
    if _is_fraction(validation):
        if not is_number(validation) or not 0.0 < validation < 1.0:
            raise ValueError(f"validation: a fraction must be between 0 and 1, got {validation!r}")
        return of_marked(hold_out(float(validation), w, classes, seed))
    if isinstance(validation, list) and not all(isinstance(v, int | float) for v in validation):
        raise TypeError(
            "validation: expected a fraction, a mask or weights over the rows, or a tuple "
            "(table, y[, weights, offset]); got a list"
        )
    column = column_of(validation, "validation", table)
    held = read_weights(column, table, "validation")
    if not np.any(held > 0):
        raise ValueError("validation: no row is held out; mark at least one")
    mask = bool(getattr(column, "boolean", False))
    return of_marked(held > 0) if mask else held


def hold_out(
    fraction: float, w: Floats, classes: Floats | None, seed: int, what: str = "validation"
) -> NDArray[np.bool_]:
    """Rows held out at random; of every class its share."""
    rng = np.random.default_rng(seed)
    held = np.zeros(len(w), bool)
    groups = [w > 0] if classes is None else [(w > 0) & (classes == c) for c in np.unique(classes)]
    for group in groups:
        rows = rng.permutation(np.flatnonzero(group))
        held[rows[: int(np.floor(fraction * len(rows) + 0.5))]] = True
    if not held.any():
        raise ValueError(
            f"{what}: {fraction:g} of {int((w > 0).sum())} rows is none; hold out more"
        )
    return held


def _append(
    given: FitInput,
    data: Table,
    y: Floats,
    w: Floats,
    o: Floats,
    loss: Loss,
    classes: tuple[Any, ...],
) -> Any:
    """The rows with those of (table, y[, weights, offset]) below them.

    Weights, offset and exposure that the fit was given by the name of a column are the validation
    table's own columns of that name.
    """
    validation = given.validation
    if not 2 <= len(validation) <= 4:
        raise ValueError(
            "validation: expected (table, y), (table, y, weights) or (table, y, weights, offset), "
            f"got a tuple of {len(validation)}"
        )
    other, other_y, other_w, other_o = (*validation, None, None)[:4]
    below = read(other)
    if below.n_rows == 0:
        raise ValueError("validation: its table has no rows")
    new_y, _ = read_y(other_y, below, loss, classes or None)
    by_weights, by_offset, by_exposure = map(given.column, ("weights", "offset", "exposure"))
    if other_o is None and by_offset is None and by_exposure is None and o.any():
        raise ValueError(
            "validation: the rows of the fit have an offset or exposure, these have none; pass "
            "(table, y, weights, offset)"
        )
    if other_o is not None:
        by_offset, by_exposure = other_o, None  # an offset of their own replaces both
    new_w = read_weights(by_weights if other_w is None else other_w, below, "validation weights")
    new_o = read_offset(below, by_offset, by_exposure, loss, loss.n_outputs)
    there = new_w > 0  # rows of weight zero are absent, and no training rows
    if not there.any():
        raise ValueError("validation: no row is held out; mark at least one")
    below, new_y, new_w, new_o = below.take(there), new_y[there], new_w[there], new_o[there]
    held = np.concatenate([np.zeros(len(w)), new_w])
    return (
        data.below(below, "validation table"),
        np.concatenate([y, new_y]),
        np.concatenate([w, new_w]),
        np.concatenate([o, new_o]),
        held,
    )


def read_offset(data: Table, offset: Any, exposure: Any, loss: Loss, n_outputs: int) -> Floats:
    """(n, q) offsets: the offset given plus the logarithm of the exposure."""
    n = data.n_rows
    out = np.zeros((n, n_outputs))
    if offset is not None:
        block = numbers_for(offset, "offset", data)
        if block.ndim == 2 and block.shape != (n, n_outputs):
            raise ValueError(f"offset: expected shape {(n, n_outputs)}, got {block.shape}")
        if block.ndim == 1 and n_outputs > 1 and block.any():
            raise ValueError(
                f"offset: the {loss.name} loss has {n_outputs} scores per row; expected shape "
                f"{(n, n_outputs)}, got {block.shape}"
            )
        out += block if block.ndim == 2 else block[:, None]
    if exposure is not None:
        if not loss.log_link:
            raise ValueError(
                f"exposure: the {loss.name} loss has no log link; use offset, or loss='poisson'"
            )
        values = numbers_for(exposure, "exposure", data)
        if np.any(values <= 0):
            i = int(np.flatnonzero(values <= 0)[0])
            raise ValueError(
                f"exposure, row {data.row(i)}: expected a number > 0, got {values[i]:g}"
            )
        out += np.log(values)[:, None]
    return out


def numbers_for(given: Any, what: str, data: Table) -> Floats:
    """Finite numbers for every row, from the name of a column, an array, or one number."""
    if is_number(given):
        given = np.full(data.n_rows, float(given))
    if isinstance(given, np.ndarray) and given.ndim == 2 and given.shape[1] > 1:
        values = np.column_stack(
            [numbers_for(given[:, j], what, data) for j in range(given.shape[1])]
        )
    else:
        column = data[given] if isinstance(given, str) else read_column(given, what)
        if not isinstance(column, Numbers):
            raise TypeError(f"{what}: expected numbers, got text")
        values = column.values
    if len(values) != data.n_rows:
        raise ValueError(f"{what} has {len(values)} rows, the table has {data.n_rows}")
    bad = ~np.isfinite(values)
    if bad.any():
        row = data.row(int(np.argwhere(bad)[0][0]))
        raise ValueError(f"{what}, row {row}: expected a finite number, got {values[bad][0]:g}")
    return values
