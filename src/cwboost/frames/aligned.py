"""Arrays that belong to the rows of a table: y, weights, offset and exposure, read and checked.

Each is given as an array, as one number or as the name of a column of the table. Does not know how
a fit uses them (see cwboost/fitting/input_data.py) or what a loss does with y.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cwboost._utils.checks import is_number
from cwboost._utils.text import count

from .columns import Column, Floats, Numbers, TargetError
from .read_frames import read_column
from .table import Table
from .weights import ones

# Sums of squares stay within 64-bit floats.
MIN_Y, MAX_Y = 1e-140, 1e140
MIN_TOTAL, MAX_TOTAL = 1e-20, 1e20  # of weights


class LossTraits(Protocol):
    """What reading y and the offset must know about a loss."""

    @property
    def name(self) -> str: ...

    @property
    def n_outputs(self) -> int: ...

    @property
    def log_link(self) -> bool: ...

    def read_y(
        self, y: Column, classes: tuple[Any, ...] | None = None
    ) -> tuple[Floats, tuple[Any, ...]]: ...


def aligned_column(value: Any, argument: str, table: Table) -> Column:
    """Return a column of the table by its name, or an array with one value per row."""
    column = table[value] if isinstance(value, str) else read_column(value, argument)
    check_length(len(column), argument, table)
    return column


def check_length(n_rows: int, argument: str, table: Table) -> None:
    """Raise unless an argument has one value per row of the table."""
    if n_rows != table.n_rows:
        raise ValueError(f"{argument} has {count(n_rows, 'row')}, the table has {table.n_rows}")


def aligned_numbers(value: Any, argument: str, table: Table) -> Floats:
    """Return finite numbers for all rows: a column by its name, an array, or one number."""
    if is_number(value):
        value = np.full(table.n_rows, float(value))
    if isinstance(value, np.ndarray) and value.ndim == 2 and value.shape[1] > 1:
        values = np.column_stack([aligned_numbers(part, argument, table) for part in value.T])
    else:
        column = table[value] if isinstance(value, str) else read_column(value, argument)
        if not isinstance(column, Numbers) or column.unit != "numbers":
            found = column.unit if isinstance(column, Numbers) else "text"
            raise TypeError(f"{argument}: expected numbers, got {found}")
        values = column.values
    check_length(len(values), argument, table)
    bad = ~np.isfinite(values)
    if bad.any():
        row = table.row(int(np.argwhere(bad)[0][0]))
        raise ValueError(f"{argument}, row {row}: expected a finite number, got {values[bad][0]:g}")
    return values


def read_y(
    y: Any, table: Table, loss: LossTraits, classes: tuple[Any, ...] | None
) -> tuple[Floats, tuple[Any, ...]]:
    """Return y as the core takes it, and its classes; raise if the loss cannot take it."""
    column = aligned_column(y, "y", table)
    check_finite_y(column, table)
    try:
        values, found = loss.read_y(column, classes)
    except TargetError as error:  # the loss does not know which rows the table left out
        raise ValueError(f"y, row {table.row(error.row)}: {error.problem}") from None
    top = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if not (top == 0.0 or MIN_Y < top < MAX_Y):
        raise ValueError(
            f"y: the largest absolute value is {top:g}; it must be between {MIN_Y:g} and {MAX_Y:g} "
            "so that sums of squares fit 64-bit floats; rescale y"
        )
    return values, found


def check_finite_y(column: Column, table: Table) -> None:
    """Raise if y has missing or infinite values."""
    if column.missing.any():
        row = table.row(int(np.flatnonzero(column.missing)[0]))
        n = int(column.missing.sum())
        raise ValueError(
            f"y, row {row}: the value is missing (in {count(n, 'row')}); leave out the rows "
            "without a value"
        )
    if isinstance(column, Numbers) and np.isinf(column.values).any():
        row = table.row(int(np.flatnonzero(np.isinf(column.values))[0]))
        raise ValueError(f"y, row {row}: the value is infinite; leave such rows out")


def read_weights(weights: Any, table: Table, argument: str = "weights") -> Floats:
    """Return the weights of all rows; `ones` if there are none."""
    if weights is None:
        return ones(table.n_rows)
    values = aligned_numbers(weights, argument, table)
    if values.ndim != 1:
        raise ValueError(f"{argument}: expected one weight per row, got shape {values.shape}")
    if np.any(values < 0):
        i = int(np.flatnonzero(values < 0)[0])
        raise ValueError(
            f"{argument}, row {table.row(i)}: expected a number >= 0, got {values[i]:g}"
        )
    check_total(values, argument)
    return values


def check_total(weights: Floats, argument: str) -> None:
    """Raise if sums of squares of y with these weights would not fit 64-bit floats."""
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total != 0.0 and not MIN_TOTAL <= total <= MAX_TOTAL:
        raise ValueError(
            f"{argument}: expected a sum from {MIN_TOTAL:g} to {MAX_TOTAL:g}, got {total:g}; "
            "divide them by their mean"
        )


def check_present(weights: Floats) -> None:
    """Raise if no row has a weight, so that nothing can be averaged over the rows."""
    if not len(weights):
        raise ValueError("the table has no rows")
    if not weights.any():
        raise ValueError("weights: all are zero; at least one row must have a positive weight")


def read_offset(table: Table, offset: Any, exposure: Any, loss: LossTraits) -> Floats:
    """Return (n, q) offsets: the given offset plus the logarithm of the exposure."""
    shape = table.n_rows, loss.n_outputs
    out = np.zeros(shape)
    if offset is not None:
        block = aligned_numbers(offset, "offset", table)
        if block.ndim == 2 and block.shape != shape:
            raise ValueError(f"offset: expected shape {shape}, got {block.shape}")
        if block.ndim == 1 and loss.n_outputs > 1 and block.any():
            raise ValueError(
                f"offset: the {loss.name} loss has {loss.n_outputs} scores per row; expected shape "
                f"{shape}, got {block.shape}"
            )
        top = float(np.abs(block).max(initial=0.0))
        if top >= MAX_Y:
            raise ValueError(f"offset: the largest absolute value is {top:g}; rescale it and y")
        out += block if block.ndim == 2 else block[:, None]
    if exposure is not None:
        if not loss.log_link:
            raise ValueError(
                f"exposure: the {loss.name} loss has no log link; use offset, or loss='poisson'"
            )
        values = aligned_numbers(exposure, "exposure", table)
        if np.any(values <= 0):
            i = int(np.flatnonzero(values <= 0)[0])
            raise ValueError(
                f"exposure, row {table.row(i)}: expected a number > 0, got {values[i]:g}"
            )
        out += np.log(values)[:, None]
    return out
