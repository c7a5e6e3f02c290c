"""Reads X and y as scikit-learn does: column names, checks, and splits of whole groups."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import ClassifierMixin
from sklearn.model_selection import GroupShuffleSplit
from sklearn.utils.validation import (
    _check_y,
    _get_feature_names,
    validate_data,
)

from cwboost._utils.checks import is_number
from cwboost._utils.text import list_names, quote
from cwboost.frames.aligned import check_finite_y, read_weights
from cwboost.frames.columns import Floats, Labels, Numbers
from cwboost.frames.dataset import Dataset
from cwboost.frames.read_frames import read, read_column
from cwboost.frames.table import Table


class FitArguments(NamedTuple):
    """The rows that `fit` and `extend` get."""

    X: Any
    y: Any
    sample_weight: Any
    offset: Any
    exposure: Any


def read_roles(estimator: Any, rows: FitArguments) -> FitArguments:
    """Return the rows of a fit, completed by the roles that a Dataset holds."""
    X, y, sample_weight, offset, exposure = rows
    if not isinstance(X, Dataset):
        return rows
    table, roles = X.table, X.roles
    if y is None and "y" in roles:
        column = table[roles["y"]]
        check_finite_y(column, table)
        if isinstance(estimator, ClassifierMixin):
            y = column if isinstance(column, Labels) else column.to_cells()
        else:
            y = column.to_cells() if isinstance(column, Labels) else column.values
    if sample_weight is None and "weights" in roles:
        sample_weight = read_weights(roles["weights"], table)
    offset = roles.get("offset") if offset is None else offset
    exposure = roles.get("exposure") if exposure is None else exposure
    fixed = [name for name in (offset, exposure) if isinstance(name, str)]
    features = table.select(list(dict.fromkeys([*X.features, *fixed])))
    return FitArguments(features, y, sample_weight, offset, exposure)


def check_y(estimator: Any, y: Any, y_numeric: bool = False) -> NDArray[Any]:
    """Return y as an array; raise if it is missing or not valid."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None."
        )
    _check_unmasked("y", y)
    try:
        array = np.asarray(y)
    except (TypeError, ValueError):  # lists of different lengths, or an object with rows
        array = np.empty(0)
    if array.size == 0 or array.ndim == 0:
        remedy = "; estimators take arrays, cwboost.fit takes names" if isinstance(y, str) else ""
        raise ValueError(f"y: expected one value per row, got {quote(y)}{remedy}")
    cells = array.tolist() if array.ndim == 1 and array.dtype.kind in "OUS" else []
    absent = _first_missing(array)
    if absent is not None:
        raise ValueError(f"y: row {absent} is missing ({array[absent]}); remove rows without y")
    text = next((cell for cell in cells if isinstance(cell, str)), None)
    if y_numeric and text is not None:
        raise ValueError(
            f"y: {type(estimator).__name__} needs numbers, but y has the text {quote(text)}; for "
            "classes use CWBClassifier"
        )
    if not y_numeric and text is not None and not all(isinstance(cell, str) for cell in cells):
        other = next(cell for cell in cells if not isinstance(cell, str))
        raise TypeError(f"y: expected text or numbers, got both: {quote(text)} and {quote(other)}")
    if y_numeric and array.dtype.kind in "mM":  # days, as everywhere
        column = read_column(y, "y")
        if isinstance(column, Numbers):
            y = column.values
    if not y_numeric and array.dtype.kind in "biu":
        y = array  # scikit-learn would turn pandas' Int64 into floats
    try:
        out = np.asarray(_check_y(y, y_numeric=y_numeric, estimator=estimator))
        return np.asarray(out, dtype=np.float64) if y_numeric else out
    except TypeError:
        raise TypeError(f"y: expected numbers, got {quote(y)}") from None


def check_length(y: NDArray[Any], n_rows: int) -> None:
    """Raise if y has another number of rows than X."""
    if len(y) != n_rows:
        raise ValueError(f"y: expected {n_rows} rows as X has, got {len(y)}")


def check_weights(sample_weight: Any, y: NDArray[Any]) -> Floats | None:
    """Return the weights as an array, None if there are none; raise if they are not numbers."""
    if sample_weight is None:
        return None
    _check_unmasked("sample_weight", sample_weight)
    if isinstance(sample_weight, str):
        raise TypeError(
            f"sample_weight: expected an array, got {quote(sample_weight)}; pass X[...]"
        )
    if is_number(sample_weight):
        sample_weight = np.full(len(y), float(sample_weight))
    weights = read_weights(sample_weight, read({"y": np.arange(len(y))}), "sample_weight")
    if not weights.any():
        raise ValueError("sample_weight: all are zero; at least one row must have a weight")
    return weights


def _check_unmasked(argument: str, values: Any) -> None:
    """Raise if an array over the rows has masked values."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.flatnonzero(np.ma.getmaskarray(values))[0])
        raise ValueError(f"{argument}: row {row} is masked; remove rows without a value")


def _first_missing(array: NDArray[Any]) -> int | None:
    """Return the first row of y without a value; None if all have one."""
    if array.ndim != 1 or array.dtype.kind not in "fO":
        return None
    if array.dtype.kind == "f":
        rows = np.flatnonzero(np.isnan(array))
        return int(rows[0]) if len(rows) else None
    return next((row for row, cell in enumerate(array.tolist()) if _is_missing(cell)), None)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN or pandas' NA."""
    try:
        return cell is None or bool(cell != cell)
    except TypeError:  # NA is neither equal nor unequal
        return True


def draw_whole_groups(groups: NDArray[np.int64], times: int, share: Any, seed: int) -> Any:
    """Return (times, n) marks of rows, each time without a random share of the groups."""
    n_groups = int(groups.max()) + 1
    held = math.ceil(share * n_groups) if is_number(share) and 0 < share < 1 else 1
    if held >= n_groups:
        raise ValueError(
            f"groups: there {'is one group' if n_groups == 1 else f'are {n_groups} groups'}; "
            f"without {share:g} of them no group is left to train on"
        )
    inside = np.zeros((times, len(groups)), dtype=bool)
    split = GroupShuffleSplit(times, test_size=share, random_state=seed % 2**32)
    for marks, (rows, _) in zip(inside, split.split(groups, groups=groups), strict=True):
        marks[rows] = True
    return inside


def is_table(X: Any) -> bool:
    """Return whether X has named columns."""
    structured = isinstance(X, np.ndarray) and X.dtype.names is not None
    marks = ("collect_schema", "__arrow_c_stream__", "column_names", "columns")
    frame = len(getattr(X, "shape", (0, 0))) == 2 and any(hasattr(X, mark) for mark in marks)
    return (
        structured or frame or isinstance(X, Table) or (isinstance(X, Mapping) and not issparse(X))
    )


def as_array(X: Any) -> Any:
    """Return lists of rows as an array; anything else as it is."""
    if isinstance(X, str | os.PathLike):
        read(X)  # raises, and says how to read a file
    if isinstance(X, bytes | bytearray):
        raise TypeError(f"X: expected a table or an array, got {quote(X)}")
    if isinstance(X, np.matrix):
        return np.asarray(X)
    if isinstance(X, np.ma.MaskedArray):
        is_real = X.dtype.kind in "biuf"
        out = X.data.astype(np.float64 if is_real else object)
        out[np.ma.getmaskarray(X)] = np.nan if is_real else None
        return out
    if isinstance(X, np.ndarray) and X.dtype.kind == "c":
        raise ValueError("X: Complex data not supported; pass real and imaginary parts as columns")
    if not isinstance(X, list | tuple):
        return X
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(
            f"X: expected a table, or rows of the same length; got {quote(X)}"
        ) from None
    # NumPy would turn numbers beside text into text.
    return np.asarray(X, dtype=object) if array.dtype.kind in "US" else array


def read_frame(estimator: Any, X: Any, reset: bool) -> Table:
    """Read a table of named columns; store the names if `reset`, else compare them."""
    bare = hasattr(X, "set_axis") and not any(isinstance(name, str) for name in X.columns)
    table = read(X.set_axis([f"x{j}" for j in range(X.shape[1])], axis=1) if bare else X)
    names, known = list(table.names), getattr(estimator, "feature_names_in_", None)
    as_stored = known is not None and names == known.tolist()
    if bare or reset or not as_stored:  # known names need no second check
        if bare or _get_feature_names(X) is not None:  # scikit-learn knows this kind of table
            validate_data(estimator, X, reset=reset, skip_check_array=True)
        elif reset:
            estimator.n_features_in_ = len(names)
            estimator.feature_names_in_ = np.asarray(names, dtype=object)
        elif known is not None:
            raise ValueError(
                "The feature names should match those that were passed during fit: expected "
                f"{list_names(known)}, got {list_names(names)}"
            )
    if not table.n_rows or not table.names:
        lacking = "feature(s)" if table.n_rows else "sample(s)"
        shape = (table.n_rows, len(table.names))
        raise ValueError(f"Found array with 0 {lacking} (shape={shape}) while 1 is required.")
    return table
