"""The rows of a fit: table, y, weights, offset and validation rows, read and checked.

`FitInput` holds what the user passed, `FitData` what was read from it, `Split` how one fit weighs
these rows. Does not know about terms or bins (see preparation.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import count, quote, quote_names
from cwboost.binning.min_rows import LocalMinRows, MinRows
from cwboost.binning.rules import Bins
from cwboost.binning.summary import Sample
from cwboost.frames.aligned import aligned_column, check_length, read_offset, read_weights, read_y
from cwboost.frames.columns import Floats
from cwboost.frames.read_frames import read, read_column
from cwboost.frames.table import Table, known_table
from cwboost.frames.weights import RowWeights, all_weigh_one
from cwboost.losses import Loss

ValidationKind = Literal["none", "fraction", "rows"]


# --- what the user passed -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FitInput:
    """The rows as the user passed them: arrays, or names of columns of the table."""

    table: Any
    y: Any
    weights: Any = None
    offset: Any = None
    exposure: Any = None
    validation: Any = None
    apart: tuple[str, ...] = ()  # further columns that are not features, such as groups
    min_rows: int | None = None  # rows that a bin needs, in every site that has some
    sites: str | None = None  # column that names the site of a row
    rule: Bins = field(default_factory=Bins)  # for learners that do not have their own

    @classmethod
    def of(cls, table: Any, y: Any, weights: Any = None, **others: Any) -> FitInput:
        """Return the input of a fit; a Dataset supplies the roles that are not given."""
        own = cls(table, y, weights, **others)
        unset: dict[str, Any] = {
            r: name for r, name in own._roles.items() if getattr(own, r) is None
        }
        return replace(own, **unset)

    @property
    def _roles(self) -> Mapping[str, str]:
        """The columns to which a Dataset gives a role, by the role."""
        table = known_table(self.table)
        return {} if table is None else table.roles

    def column(self, role: str) -> str | None:
        """Return the name of the column that has a role; None if the role has no column."""
        value = getattr(self, role)
        return value if isinstance(value, str) else None

    @property
    def columns(self) -> list[str]:
        """Names of all columns that have a role and are therefore not features."""
        roles = ("y", "weights", "offset", "exposure", "validation", "sites")
        named = [name for name in map(self.column, roles) if name is not None]
        return list(dict.fromkeys([*named, *self.apart, *self._roles.values()]))

    def take(self, rows: NDArray[np.bool_]) -> FitInput:
        """Return some rows of the table and of all arrays aligned with it."""

        def take_role(role: str) -> Any:
            value = getattr(self, role)
            if not _has_rows(value):
                return value
            if np.ndim(value) == 2 and np.shape(value)[1] > 1:
                return np.asarray(value)[rows]
            return read_column(value, role).take(rows)

        taken = {role: take_role(role) for role in ("y", "offset", "exposure", "validation")}
        table = read(self.table).take(rows)
        return replace(self, table=table, **taken)

    def without_zero_weights(
        self, table: Table, w: Floats
    ) -> tuple[FitInput, Floats, NDArray[np.bool_] | None]:
        """Return the rows of positive weight, their weights and a mask of them (None: all rows).

        Rows of weight zero count as absent, whatever their other values are.
        """
        if all_weigh_one(w) or not np.any(w == 0):
            return self, w, None
        for role in ("y", "offset", "exposure", "validation"):
            value = getattr(self, role)
            if _has_rows(value):
                check_length(len(value), role, table)
        present = w > 0
        return self.take(present), w[present], present

    @property
    def has_offset_arrays(self) -> bool:
        """Whether offset or exposure is an array or a number, not the name of a column."""
        values = (self.offset, self.exposure)
        return any(value is not None and not isinstance(value, str) for value in values)


def validation_input(fit_input: FitInput, *, has_offset: bool) -> FitInput:
    """Return the validation rows of a tuple (table, y[, weights, offset]) as an input of their own.

    Weights, offset and exposure that the fit takes from columns are the columns of the same name of
    the validation table, unless the tuple has its own. An offset in the tuple replaces both offset
    and exposure. `has_offset`: the rows of the fit have an offset that is not a column.
    """
    validation = fit_input.validation
    if not 2 <= len(validation) <= 4:
        raise ValueError(
            "validation: expected (table, y), (table, y, weights) or (table, y, weights, offset), "
            f"got a tuple of {len(validation)}"
        )
    table, y, weights, offset = (*validation, None, None)[:4]
    if offset is None and has_offset:
        raise ValueError(
            "validation: the rows of the fit have an offset or exposure, the validation rows have "
            "none; pass (table, y, weights, offset)"
        )
    exposure = None
    if offset is None:
        offset, exposure = fit_input.column("offset"), fit_input.column("exposure")
    if weights is None:
        weights = fit_input.column("weights")
    return FitInput(table, y, weights, offset, exposure)


def _has_rows(value: Any) -> bool:
    """Return whether an argument is an array over the rows; it may be a name, number or table."""
    if value is None or isinstance(value, str | tuple):
        return False
    try:
        return np.ndim(value) > 0
    except ValueError:  # lists of different lengths
        return True


@dataclass(frozen=True)
class InputRecord:
    """How the rows of a fit were given, as far as its model remembers it (see model/settings.py).

    Roles are names of columns; None stands for an array, or for nothing.
    """

    bins: Bins
    seed: int
    validation: ValidationKind = "none"
    fraction: float | None = None
    target: str | None = None
    weights: str | None = None
    offset: str | None = None
    exposure: str | None = None
    held: str | None = None  # the column that marks or weighs validation rows
    needs_offset: bool = False  # offset or exposure was an array
    min_rows_per_bin: int | None = None
    sites: str | None = None

    @classmethod
    def of(cls, fit_input: FitInput, seed: int) -> InputRecord:
        kind = validation_kind(fit_input.validation)
        return cls(
            bins=fit_input.rule,
            seed=seed,
            validation=kind,
            fraction=float(fit_input.validation) if kind == "fraction" else None,
            target=fit_input.column("y"),
            weights=fit_input.column("weights"),
            offset=fit_input.column("offset"),
            exposure=fit_input.column("exposure"),
            held=fit_input.column("validation"),
            needs_offset=fit_input.has_offset_arrays,
            min_rows_per_bin=fit_input.min_rows,
            sites=fit_input.sites,
        )


def validation_kind(validation: Any) -> ValidationKind:
    """Return how validation rows are given: not at all, as a fraction, or as rows."""
    if validation is None:
        return "none"
    return "fraction" if isinstance(validation, int | float | np.generic) else "rows"


# --- what was read --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Split:
    """How one fit weighs the rows; rows that it must not see have weight zero."""

    training: RowWeights  # (n,)
    validation: RowWeights | None  # (n,)
    all: RowWeights  # (n,) of both
    crosses: _core.Crosses | None = None  # cross-Grams that fits to this very split share

    @property
    def has_validation(self) -> bool:
        return self.validation is not None

    @cached_property
    def rows(self) -> NDArray[np.bool_] | None:
        """Mask of the training rows; None if all rows are."""
        marks = self.training > 0
        return None if marks.all() else marks

    def of_training(self, values: Floats) -> Floats:
        """Return the values of the training rows."""
        if self.rows is None:
            return values
        if values.strides[0] == 0:  # all rows share one value
            return values[: np.count_nonzero(self.rows)]
        return values[self.rows]


@dataclass(frozen=True, eq=False)
class FitData:
    """All rows of a fit, training and validation, in the order of the table; no weight is zero."""

    table: Table
    y: Floats  # (n,) as the core takes it
    offset: Floats  # (n, q)
    training: NDArray[np.bool_]  # (n,)
    weights: Floats  # (n,); `ones` for unweighted rows
    validation_weights: RowWeights  # (n,) zero for training rows; all zero without validation rows
    classes: tuple[Any, ...]
    loss: Loss
    source: InputRecord
    weighted: bool  # False: all training rows weigh 1
    present: NDArray[np.bool_] | None = None  # mask of these rows in the user's table; None: all
    min_rows: MinRows | None = None  # the rule of min_rows_per_bin; None if it is not set

    @cached_property
    def split(self) -> Split:
        """The split that the user asked for."""
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
        return Sample(marks, self.weights if self.weighted else None, n_rows, self.min_rows)

    @property
    def n_given(self) -> int:
        """Number of rows of the user's table, rows of weight zero included."""
        return len(self.y) if self.present is None else len(self.present)

    def of_present(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the values of these rows, from values of all rows of the user's table."""
        return values if self.present is None else np.asarray(values[self.present])


def class_weights(class_weight: Any, classes: Any, totals: NDArray[Any]) -> Floats:
    """Return the weights of the classes as scikit-learn defines them.

    `totals` has the weight of the rows of each class.
    """
    if isinstance(class_weight, str) and class_weight == "balanced":
        used = totals > 0  # a class without weight is absent
        return np.asarray(totals.sum() / (used.sum() * np.where(used, totals, 1.0)))
    if not isinstance(class_weight, Mapping):
        raise ValueError(
            f"class_weight: expected a dict, 'balanced' or None, got {quote(class_weight)}"
        )
    labels = np.asarray(classes).tolist()
    unknown = [label for label in class_weight if label not in labels]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(
            f"class_weight: {quote(unknown[0])} is not a class of y, which has "
            f"{quote_names(labels)}"
        )
    for label, weight in class_weight.items():
        if not (is_number(weight) and weight >= 0):
            raise ValueError(
                f"class_weight: expected a number >= 0 for class {quote(label)}, got "
                f"{quote(weight)}"
            )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


class _Rows(NamedTuple):
    """Arrays of the same rows."""

    table: Table
    y: Floats
    weights: Floats
    offset: Floats  # (n, q)


def read_data(
    fit_input: FitInput, loss: Loss, seed: int, classes: tuple[Any, ...] | None = None
) -> FitData:
    """Read and check the rows of a fit. `classes` are the known classes of a model."""
    table = _read_table(fit_input)
    fit_input = replace(fit_input, table=table)  # read once
    w = read_weights(fit_input.weights, table)
    if fit_input.weights is not None and not np.any(w > 0):
        raise ValueError("weights: all are zero; at least one row must have a positive weight")
    fit_input, w, present = fit_input.without_zero_weights(table, w)
    table = read(fit_input.table)
    y, found = read_y(fit_input.y, table, loss, classes or None)
    loss = loss.with_classes(found) if found else loss
    if fit_input.offset is None and fit_input.exposure is None:
        offset = np.broadcast_to(np.zeros(1), (table.n_rows, loss.n_outputs))
    else:
        offset = read_offset(table, fit_input.offset, fit_input.exposure, loss)
    rows = _Rows(table, y, w, offset)
    if isinstance(fit_input.validation, tuple):
        rows, held = _with_validation_rows(rows, fit_input, loss, found)
    else:
        held = _validation_weights(fit_input.validation, rows, stratify=bool(found), seed=seed)
    training = held == 0
    if not training.any():
        raise ValueError("validation: all rows are held out; no row is left for training")
    return FitData(
        table=rows.table,
        y=np.ascontiguousarray(rows.y),
        offset=rows.offset,
        training=training,
        weights=rows.weights,
        validation_weights=held,
        classes=found,
        loss=loss,
        source=InputRecord.of(fit_input, seed),
        weighted=fit_input.weights is not None,
        present=present,
        min_rows=_min_rows(fit_input, rows.table, training),
    )


def _read_table(fit_input: FitInput) -> Table:
    table = read(fit_input.table)
    if not table.names:
        raise ValueError("the table has no columns")
    if table.n_rows == 0:
        raise ValueError("the table has no rows")
    if fit_input.y is None:
        raise TypeError("y is missing; give an array, the name of a column or a formula")
    return table


def _min_rows(fit_input: FitInput, table: Table, training: NDArray[np.bool_]) -> MinRows | None:
    """Return the rule of min_rows_per_bin, which knows the site of every row."""
    if fit_input.min_rows is None:
        return None
    marks = None if training.all() else training
    sites = None
    if fit_input.sites is not None:
        for role in ("y", "weights", "offset", "exposure"):
            if fit_input.column(role) == fit_input.sites:
                raise ValueError(
                    f"sites: column {quote(fit_input.sites)} is {role}; name another column"
                )
        sites = table[fit_input.sites].labels().codes + 1  # missing sites count as one site
    return LocalMinRows(fit_input.min_rows, fit_input.rule, marks, sites)


# --- validation rows ------------------------------------------------------------------------------


def _validation_weights(validation: Any, rows: _Rows, *, stratify: bool, seed: int) -> RowWeights:
    """Return the weights of the validation rows, zero for training rows.

    If the rows are unweighted and validation does not weigh them, the result is a mask.
    """
    table, y, w, _ = rows
    if validation is None:
        return np.broadcast_to(np.zeros(1), table.n_rows)  # takes no memory
    if validation_kind(validation) == "fraction":
        check_fraction(validation)
        marks = hold_out(float(validation), w, y if stratify else None, seed)
        return marks if all_weigh_one(w) else np.where(marks, w, 0.0)
    if isinstance(validation, list) and not all(
        isinstance(v, int | float | np.integer | np.floating | np.bool_) for v in validation
    ):
        raise TypeError(
            "validation: expected a fraction, a mask or weights over the rows, or a tuple "
            "(table, y[, weights, offset]); got a list"
        )
    column = aligned_column(validation, "validation", table)
    held = read_weights(column, table, "validation")
    if not np.any(held > 0):
        raise ValueError("validation: no row is held out; mark at least one")
    if not getattr(column, "boolean", False):
        return held
    return held > 0 if all_weigh_one(w) else np.where(held > 0, w, 0.0)


def check_fraction(validation: Any) -> None:
    """Raise if a validation fraction is not between 0 and 1."""
    if not is_number(validation) or not 0.0 < validation < 1.0:
        raise ValueError(f"validation: a fraction must be between 0 and 1, got {quote(validation)}")


def hold_out(
    fraction: float, w: Floats, classes: Floats | None, seed: int, argument: str = "validation"
) -> NDArray[np.bool_]:
    """Return a mask of rows held out at random: the same fraction of every class."""
    groups = [w > 0] if classes is None else [(w > 0) & (classes == c) for c in np.unique(classes)]
    rows = [np.flatnonzero(group) for group in groups]
    held = np.zeros(len(w), bool)
    drawn = draw_held_out(fraction, list(map(len, rows)), seed, argument)
    for group, positions in zip(rows, drawn, strict=True):
        held[group[positions]] = True
    return held


def draw_held_out(
    fraction: float, counts: Sequence[int], seed: int, argument: str = "validation"
) -> list[NDArray[np.int64]]:
    """Return the positions of the rows held out, at random, within each of several groups.

    `counts` has the number of rows of each group. A group gives `fraction * count` rows, rounded
    half up.
    """
    rng = np.random.default_rng(seed)
    out = [rng.permutation(n)[: int(np.floor(fraction * n + 0.5))] for n in counts]
    if not any(map(len, out)):
        none = f"{argument}: a fraction of {fraction:g} selects no rows"
        if len(counts) == 1:
            raise ValueError(f"{none} out of {counts[0]}; use a larger fraction")
        raise ValueError(
            f"{none}, because it is taken of every class, and the {len(counts)} classes have at "
            f"most {count(max(counts), 'row')} each; mark rows yourself, or merge classes"
        )
    return out


def _with_validation_rows(
    rows: _Rows, fit_input: FitInput, loss: Loss, classes: tuple[Any, ...]
) -> tuple[_Rows, Floats]:
    """Return the rows with the validation table below them, and the validation weights."""
    has_offset = fit_input.has_offset_arrays and bool(rows.offset.any())
    held = validation_input(fit_input, has_offset=has_offset)
    table = read(held.table)
    if table.n_rows == 0:
        raise ValueError("validation: the validation table has no rows")
    y, _ = read_y(held.y, table, loss, classes or None)
    w = read_weights(held.weights, table, "validation weights")
    offset = read_offset(table, held.offset, held.exposure, loss)
    present = w > 0  # rows of weight zero are absent; they must not become training rows
    if not present.any():
        raise ValueError("validation: no row is held out; mark at least one")
    below = _Rows(table.take(present), y[present], w[present], offset[present])
    joined = _Rows(
        rows.table.below(below.table, "validation table"),
        *(np.concatenate(pair) for pair in zip(rows[1:], below[1:], strict=True)),
    )
    return joined, np.concatenate([np.zeros(len(rows.weights)), below.weights])
