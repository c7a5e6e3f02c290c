"""The options of a fit, checked: optimizer, iterations, patience, time limit, search and seed.

Does not act on them: the loop does (core/boost.hpp, early stopping in core/early_stopping.hpp).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._utils.checks import check_one_of, check_whole, is_flag, is_number, is_one_of, is_whole
from cwboost._utils.cores import check_threads
from cwboost._utils.text import quote
from cwboost.losses import Loss
from cwboost.optimizers import Optimizer, Plain, as_optimizer
from cwboost.stopping import MAX_COUNT, as_rules

from .early_stopping import EarlyStopping

SEARCHES = {
    "auto": _core.SearchMode.automatic,
    "full": _core.SearchMode.full,
    "certified": _core.SearchMode.certified,
    "row-free": _core.SearchMode.row_free,
}


class PolishWeight(NamedTuple):
    """Polish with the weight that a cross-validation has chosen already, as "auto" does."""

    weight: float


class FitOptions(NamedTuple):
    """How a fit, or each of several fits to the same rows, is made."""

    optimizer: Optimizer
    n_iter: int
    stopping: EarlyStopping = EarlyStopping()
    start: Any = None
    scale: Any = "auto"
    time_limit: float | None = None
    search: str = "auto"
    polish: str | bool | PolishWeight | None = None
    tolerance: float = 0.0
    asked: tuple[Any, Any] = (None, None)  # the arguments patience and metric, not resolved yet

    @classmethod
    def checked(
        cls,
        optimizer: Any,
        n_iter: int,
        patience: Any,
        start: Any,
        scale: Any,
        time_limit: float | None,
        search: str,
        polish: str | bool | PolishWeight | None = None,
        tolerance: float = 0.0,
        metric: Any = None,
    ) -> FitOptions:
        """Return the user's arguments with a copy of the optimizer, checked as far as possible.

        `resolved` does the rest when the rows are known.
        """
        optimizer = as_optimizer(Plain() if optimizer is None else optimizer)
        check_one_of("search", search, SEARCHES)
        if not (isinstance(polish, PolishWeight) or is_one_of(polish, ("repeat",))):
            check_polish(polish)
        if not (is_number(tolerance) and 0.0 <= tolerance < 1.0):
            raise ValueError(
                f"tolerance: expected a number from 0 to below 1, got {quote(tolerance)}"
            )
        return cls(
            optimizer, n_iter, EarlyStopping(as_rules(patience)), start, scale, time_limit, search,
            polish, tolerance, (patience, metric),
        )  # fmt: skip

    def within(self, share: float) -> FitOptions:
        """Return the options of a fit that ends within this share of the time limit."""
        limit = self.time_limit
        return self if limit is None else self._replace(time_limit=share * limit)

    def resolved(self, loss: Loss, classes: tuple[Any, ...], has_validation: bool) -> FitOptions:
        """Return the options with the metrics of the fit; raise if they do not fit the rows."""
        if self.search == "row-free" and not loss.linear:
            raise ValueError(
                "search: 'row-free' needs a loss whose residual is y - score, such as squared; got "
                f"{loss.name}; use 'auto'"
            )
        check_validation(self.optimizer, has_validation)
        stopping = EarlyStopping.of(*self.asked, loss, classes)
        stopping.check(self.search, has_validation, self.optimizer)
        return self._replace(stopping=stopping)


def check_polish(polish: Any) -> None:
    """Raise if the argument `polish` is wrong."""
    if not (polish is None or is_flag(polish) or is_one_of(polish, ("auto",))):
        also = "" if is_one_of(polish, ("repeat",)) else " ('repeat' in fits)"
        raise ValueError(f"polish: expected 'auto', True or None{also}, got {quote(polish)}")


def check_validation(optimizer: Optimizer, has_validation: bool) -> None:
    """Raise if an optimizer needs validation rows and there are none."""
    if optimizer.needs_validation and not has_validation:
        raise ValueError(
            f"{type(optimizer).__name__} needs validation rows to know when to switch; pass for "
            "instance validation=0.3"
        )


def check_counts(n_iter: Any, time_limit: Any, n_threads: Any, n_iter_name: str = "n_iter") -> None:
    """Raise unless these arguments of a fit are numbers in their ranges.

    `n_iter_name` is the user's name of the number of iterations.
    """
    check_threads(n_threads)
    check_whole(n_iter_name, n_iter, 0, MAX_COUNT)
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        raise ValueError(
            f"time_limit must be a positive number of seconds, got {quote(time_limit)}"
        )


def check_min_rows(min_rows_per_bin: Any, sites: Any = None) -> None:
    """Raise unless min_rows_per_bin is a count and sites, if given, names a column."""
    rows = min_rows_per_bin
    if rows is not None:
        check_whole("min_rows_per_bin", rows, 1, 2**31 - 1)
    if sites is not None and not isinstance(sites, str):
        raise TypeError(f"sites: expected the name of a column, got {type(sites).__name__}")
    if sites is not None and rows is None:
        raise ValueError("sites= requires min_rows_per_bin=")


def as_seed(random_state: Any) -> int:
    """Return a seed from a number, None (a random seed), a Generator or a RandomState."""
    if is_whole(random_state):
        if random_state < 0:
            raise ValueError(f"random_state must be >= 0, got {quote(random_state)}")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    try:
        return int(np.random.default_rng(random_state).integers(2**63 - 1))
    except (TypeError, ValueError):
        raise TypeError(
            "random_state must be a whole number, None or a numpy Generator, got "
            f"{quote(random_state)}"
        ) from None
