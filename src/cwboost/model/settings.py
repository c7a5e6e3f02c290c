"""The settings of a fit that a model keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from cwboost.binning.rules import Bins
from cwboost.fitting.input_data import FitInput

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Settings:
    """How the fit was asked for, as far as extending it or repeating it needs to know."""

    bins: Bins
    patience: int | None
    seed: int
    validation: Literal["none", "fraction", "rows"] = "none"
    fraction: float | None = None
    target: str | None = None
    weights: str | None = None
    offset: str | None = None  # name of the column
    exposure: str | None = None
    held: str | None = None  # name of the column of validation
    needs_offset: bool = False  # offset or exposure came as arrays
    min_rows_per_bin: int | None = None
    sites: str | None = None  # name of the column

    def again(self, given: FitInput, what: str) -> FitInput:
        """Rows that are given again for `what`; what the fit was given by the name of a column need
        not be."""
        if given.y is None and self.target is None:
            raise TypeError(f"{what}: y was an array in the fit; pass it again")
        if self.needs_offset and given.offset is None and given.exposure is None:
            raise TypeError(f"{what}: the fit had an offset or exposure; pass the same again")
        by_name = {"y": self.target, "weights": self.weights, "offset": self.offset}
        by_name["exposure"] = self.exposure
        named: Any = {key: name for key, name in by_name.items() if getattr(given, key) is None}
        named |= {"min_rows": self.min_rows_per_bin, "sites": self.sites, "rule": self.bins}
        return replace(given, **named)
