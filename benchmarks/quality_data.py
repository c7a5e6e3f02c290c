"""The real tables of `python -m benchmarks quality`, split into five folds.

Does not know about the libraries (see variants.py) or the results (see quality_report.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from .problems import FitProblem, Rows

FOLDS = range(1, 6)


@dataclass(frozen=True)
class Table:
    """A Parquet file, what is predicted, and the columns that may not be used."""

    file: str
    target: str
    loss: str  # "binomial", "squared", "gamma" or "poisson"
    drop: tuple[str, ...] = ()
    exposure: str | None = None
    paper_folds: bool = False  # the folds of the paper instead of random folds


# instant and dteday count the hours and days; with random folds, models would look up the day
_BIKE = ("instant", "dteday", "casual", "registered")
_HOUSES = ("california_housing_ocean", "median_house_value")
_CENSUS = ("instance_weight", "split")
_CLAIMS = ("id", "claim", "amount", "average", "postcode")  # long and lat are those of the postcode

TABLES = {
    "spam": Table("spam", "class", "binomial", paper_folds=True),
    "adult": Table("adult", "class", "binomial", paper_folds=True),
    "nomao": Table("nomao", "Class", "binomial", paper_folds=True),
    "higgs": Table("higgs_35k", "class", "binomial"),
    "credit": Table("credit_default", "default", "binomial", ("ID",)),
    "census": Table("census_income_kdd", "income", "binomial", _CENSUS),
    "hiva": Table("hiva", "class", "binomial"),
    "california": Table(*_HOUSES, "squared"),
    "diamonds": Table("diamonds", "price", "squared"),
    "diamonds-gamma": Table("diamonds", "price", "gamma"),
    "wage": Table("wage", "wage", "squared", ("logwage",)),
    "bodyfat": Table("bodyfat", "DEXfat", "squared"),
    "bike": Table("bike_sharing_hour", "cnt", "squared", _BIKE),
    "bike-poisson": Table("bike_sharing_hour", "cnt", "poisson", _BIKE),
    "freMTPL2": Table("freMTPL2freq", "ClaimNb", "poisson", ("IDpol",), "Exposure"),
    "beMTPL97": Table("beMTPL97", "nclaims", "poisson", _CLAIMS, "expo"),
}


def load(folder: Path, name: str, fold: int) -> FitProblem:
    """Return the training and test rows of a fold. Of two classes, the last is 1.

    Columns are called x0, x1, ..., because LightGBM and XGBoost refuse some names.
    """
    about = TABLES[name]
    table = pd.read_parquet(folder / f"{about.file}.parquet").drop(columns=list(about.drop))
    target = table.pop(about.target)
    if about.loss == "binomial":
        target = target == sorted(target.unique())[-1]
    exposure = None if about.exposure is None else table.pop(about.exposure).to_numpy()
    rows = Rows(table.set_axis([f"x{j}" for j in range(table.shape[1])], axis=1),
                target.to_numpy().astype(float), exposure)  # fmt: skip
    test = _test_rows(folder, name, fold, rows.y)
    return FitProblem(f"{name}, fold {fold}", about.loss, rows.part(~test), rows.part(test))


def _test_rows(folder: Path, name: str, fold: int, y: np.ndarray) -> np.ndarray:
    test = np.zeros(len(y), dtype=bool)
    if TABLES[name].paper_folds:
        folds = pd.read_parquet(folder / "paper_folds.parquet")
        test[folds.row[(folds.dataset == name) & (folds.fold == fold)].to_numpy()] = True
        return test
    kind = StratifiedKFold if TABLES[name].loss == "binomial" else KFold
    splits = list(kind(5, shuffle=True, random_state=0).split(y, y))
    test[splits[fold - 1][1]] = True
    return test
