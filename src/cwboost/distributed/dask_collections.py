"""Dask collections -> delayed partitions: the rows of a table with the arrays aligned with it.

Does not know about workers (see dask_shards.py) or how partitions are read (see shard.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from dask.base import is_dask_collection
from dask.delayed import delayed

from cwboost._utils.checks import is_number
from cwboost.fitting.input_data import FitInput, validation_input

from .partitions import ROLES, Partition


def check_table(table: Any, what: str) -> None:
    """Raise unless it is a dask collection with rows and columns."""
    check_collection(table, what)
    if table.ndim != 2:
        raise ValueError(
            f"{what}: expected two dimensions, rows and columns, got {table.ndim}; make one column "
            "an array with x[:, None], or a data frame with series.to_frame()"
        )


def check_collection(collection: Any, what: str) -> None:
    """Raise unless it is a dask collection."""
    if not is_dask_collection(collection) or not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{what}: expected a dask DataFrame, Series or Array, got "
            f"{type(collection).__name__}; for data in this process use cwboost.fit"
        )


def delayed_blocks(collection: Any, what: str, optimize: bool = True) -> list[Any]:
    """Return the partitions of a collection, delayed. An array's blocks have all columns."""
    check_collection(collection, what)
    if getattr(collection, "ndim", 1) == 2 and hasattr(collection, "rechunk"):
        if collection.numblocks[1] > 1:
            collection = collection.rechunk({1: -1})
        return list(collection.to_delayed(optimize_graph=optimize)[:, 0])
    blocks = collection.to_delayed(optimize_graph=optimize)
    return list(blocks.ravel()) if isinstance(blocks, np.ndarray) else list(blocks)


def make_partitions(table: Any, fit_input: FitInput) -> dict[str, Any]:
    """Return the delayed partitions of the fit's rows and of a validation table, by name."""
    arrays = {
        role: value
        for role in ROLES
        if (value := getattr(fit_input, role)) is not None and not isinstance(value, str)
    }
    validation = arrays.pop("validation", None)
    if validation is not None and is_dask_collection(validation):
        arrays["validation"] = validation
    elif validation is not None and not isinstance(validation, tuple) and not is_number(validation):
        raise TypeError(
            "validation: expected a fraction, the name of a column, a dask mask or weights over "
            f"the rows, or a tuple (table, y[, weights, offset]); got {type(validation).__name__}"
        )
    parts = _align(table, arrays, held=False)
    if isinstance(validation, tuple):
        held = validation_input(fit_input, has_offset=fit_input.has_offset_arrays)
        parts |= _align(held.table, _validation_arrays(held, fit_input), held=True)
    return parts


def _align(table: Any, arrays: Mapping[str, Any], held: bool) -> dict[str, Any]:
    """Return the partitions of a table and of the arrays aligned with it, delayed, by name.

    `held` marks the validation table.
    """
    what = "the validation table" if held else "the table"
    check_table(table, what)
    collections = {role: x for role, x in arrays.items() if is_dask_collection(x)}
    for role, value in arrays.items():
        if value is not None and not isinstance(value, str) and not is_number(value):
            check_collection(value, role)
    # An optimized graph may read fewer columns in fewer partitions.
    for optimize in (True, False):
        blocks = delayed_blocks(table, what, optimize)
        aligned = {role: delayed_blocks(x, role, optimize) for role, x in collections.items()}
        if all(len(parts) == len(blocks) for parts in aligned.values()):
            break
    for role, parts in aligned.items():
        if len(parts) != len(blocks):
            raise ValueError(
                f"{role} has {len(parts)} partitions, {what} has {len(blocks)}; repartition one of "
                "them so that they have the same rows"
            )
    aligned |= {role: [x] * len(blocks) for role, x in arrays.items() if role not in collections}
    return {
        f"partition {k}" + " of the validation table" * held: delayed(Partition, pure=False)(
            k, block, {role: parts[k] for role, parts in aligned.items()}, held
        )
        for k, block in enumerate(blocks)
    }


def _validation_arrays(held: FitInput, fit_input: FitInput) -> dict[str, Any]:
    """Return y, weights, offset and exposure of the validation rows, by role.

    They may be names of columns. Unweighted rows have no weights, which saves memory.
    """
    arrays = {role: getattr(held, role) for role in ("y", "offset", "exposure")}
    if held.weights is not None or fit_input.weights is not None:
        arrays["weights"] = held.weights
    return arrays
