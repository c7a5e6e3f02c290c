"""Class numbers: the classes of y in sorted order, and the position of each row's class in them.

The losses, the estimators and the fit on a cluster all code classes here. Which number the core
sees for a class is the loss's decision (`Loss.class_values`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.text import quote, quote_names
from cwboost.frames.columns import Column, Numbers

MAX_CLASSES = 1000  # more distinct values are probably numbers

Codes = NDArray[Any]  # (n,) whole numbers from 0, one per row


def code_classes(
    y: Column, classes: tuple[Any, ...] | None = None
) -> tuple[Codes, tuple[Any, ...]]:
    """Return the class numbers of the rows, and the classes.

    Parameters
    ----------
    y : Column
    classes : tuple, optional
        The known classes, by default the sorted classes of y. A class of y that is not known raises
        ValueError.

    Examples
    --------
    >>> from cwboost.frames.read_frames import read_column
    >>> codes, classes = code_classes(read_column(["b", "a", "b"], "y"))
    >>> codes.tolist(), classes
    ([1, 0, 1], ('a', 'b'))
    """
    found, codes = _distinct(y)
    if classes is None:
        return codes, tuple(found)
    return _positions(found, classes)[codes], classes


def code_array(y: NDArray[Any], classes: NDArray[Any] | None = None) -> tuple[Codes, NDArray[Any]]:
    """Return the class numbers of the entries of an array, and the classes with its dtype.

    Examples
    --------
    >>> codes, classes = code_array(np.array([3, 1, 3]))
    >>> codes, classes
    (array([1, 0, 1]), array([1, 3]))
    """
    if classes is None:
        classes = np.unique(y)
        return np.searchsorted(classes, y), classes
    try:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    except TypeError:  # objects without an order
        raise _unknown(y[0]) from None
    known = classes[codes] == y
    if not np.all(known):
        raise _unknown(y[~known][0])
    return codes, classes


def n_informative(y: NDArray[Any], target: str) -> int:
    """Return how many rows tell something about y: all of them, but of classes at most five times
    the number of rows outside the most frequent class.

    Examples
    --------
    >>> y = np.array([0] * 95 + [1] * 5)
    >>> n_informative(y, "classes"), n_informative(y, "numbers")
    (25, 100)
    """
    if target != "classes" or not len(y):
        return len(y)
    return min(len(y), 5 * (len(y) - int(np.unique(y, return_counts=True)[1].max())))


def check_number_of_classes(classes: tuple[Any, ...], loss: str, most: int) -> None:
    """Raise unless y has at least two classes and not more than the loss takes."""
    n = len(classes)
    if n < 2:
        raise ValueError(
            f"y has only one class, {quote(classes[0])}; the {loss} loss needs at least two"
        )
    if n <= most:
        return
    if most == 2:
        shown = quote_names(classes)
        raise ValueError(
            f"y: the {loss} loss needs two classes, got {n} ({shown}); use loss='multinomial', or "
            "another loss if y is a number"
        )
    raise ValueError(f"y has {n} classes; if it is a number, use loss='squared'")


def _distinct(y: Column) -> tuple[list[Any], Codes]:
    """Return the distinct values of a column, sorted, and the position of each row's value."""
    codes: Any
    if not isinstance(y, Numbers):
        used = np.flatnonzero(np.bincount(y.codes))
        return [y.levels[c] for c in used], np.searchsorted(used, y.codes)
    distinct = _core.distinct(y.values, None, 2)
    if distinct is None:
        distinct, codes = np.unique(y.values, return_inverse=True)
    else:
        codes = (y.values != distinct[0]).view(np.uint8)
    found = [
        bool(v) if y.boolean else int(v) if v.is_integer() and abs(v) < 2**53 else float(v)
        for v in distinct
    ]
    return found, codes


def _positions(found: list[Any], classes: tuple[Any, ...]) -> Codes:
    """Return the position of each found class among the known ones."""
    position = {value: i for i, value in enumerate(classes)}
    for value in found:
        if value not in position:
            raise _unknown(value)
    return np.array([position[value] for value in found], dtype=np.intp)


def _unknown(value: Any) -> ValueError:
    plain = value.item() if isinstance(value, np.generic) else value
    return ValueError(f"y: class {quote(plain)} does not occur in the training rows")
