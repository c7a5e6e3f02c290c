"""The settings of a fit that its model keeps, so that the fit can be extended or repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cwboost.binning.rules import Bins
from cwboost.stopping import Rules


@dataclass(frozen=True)
class WatchedMetric:
    """A metric of the validation rows that a fit recorded."""

    name: str
    greater_is_better: bool
    optimum: float  # see cwboost.metrics
    source: str | None  # the name that finds it again; None: a function or scorer without a name
    identity: str  # tells metrics of the same name apart


@dataclass(frozen=True)
class Settings:
    """How a fit was asked for. Roles are names of columns; None if they came as arrays."""

    bins: Bins
    patience: Rules
    seed: int
    validation: Literal["none", "fraction", "rows"] = "none"
    fraction: float | None = None
    target: str | None = None
    weights: str | None = None
    offset: str | None = None
    exposure: str | None = None
    held: str | None = None  # the column that marks or weighs validation rows
    needs_offset: bool = False  # offset or exposure was an array
    min_rows_per_bin: int | None = None
    sites: str | None = None
    metrics: tuple[WatchedMetric, ...] = ()  # the first one decided
