"""The paper's six tables with two classes, prepared as in the paper, its folds, and other tables.

OpenML has all six, a folder of Parquet files may have some. Does not know about the experiments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

N_FOLDS, SEED = 5, 31415
LEVELS = 10  # levels of a text column; rarer levels are merged
FOLDS = "paper_folds"  # file of the paper's own splits: dataset, row, fold


@dataclass(frozen=True)
class Source:
    """The source of a table: its file, its number at OpenML, and columns that are not features."""

    file: str
    target: str
    openml: int | None = None
    drop: tuple[str, ...] = ()
    missing: float | None = None  # a number that stands for a missing cell


PAPER = {
    "Spam": Source("spam", "class", 44),
    "Christine": Source("christine", "class", 41142),
    "Nomao": Source("nomao", "Class", 1486, tuple(f"V{k}" for k in range(81, 87))),
    "Adult": Source("adult", "class", 1590),
    "MiniBooNE": Source("miniboone", "signal", 41150, missing=-999.0),
    "Albert": Source("albert", "class", 41147),
}
OTHERS = {  # tables that the paper does not have; they are read with --data only
    "higgs": Source("higgs_35k", "class"),
    "census": Source("census_income_kdd", "income", drop=("instance_weight", "split")),
    "credit default": Source("credit_default", "default", drop=("ID",)),
}
TABLES = PAPER | OTHERS
SHARED = ("Spam", "Nomao", "Adult")  # tables of the paper that are compared
BUNDLED = ("bundled a", "bundled b")  # samples of the table that comes with cwboost, for tests


@dataclass(frozen=True)
class FitProblem:
    """A prepared table and its folds."""

    name: str  # name of the table
    X: pd.DataFrame  # floats and categories, no missing cells
    y: np.ndarray  # 0 and 1
    fold: np.ndarray  # 1 to 5

    def split(self, fold: int) -> tuple[Any, np.ndarray, Any, np.ndarray]:
        """Return the training rows and the test rows."""
        test = self.fold == fold
        return self.X[~test], self.y[~test], self.X[test], self.y[test]


def load(name: str, data: Path | None, rows: int | None = None) -> FitProblem:
    """Return the table with this name, or a fixed random sample if it has more than the given
    number of rows."""
    frame, target = read(name, data)
    fold = folds(name, frame[target], data)
    if rows is not None and len(frame) > rows:
        keep = np.sort(np.random.default_rng(SEED).permutation(len(frame))[:rows])
        frame, fold = frame.iloc[keep].reset_index(drop=True), fold[keep]
    y = frame[target].astype(str)
    positive = sorted(y.unique())[-1]
    X = prepare(frame.drop(columns=target))
    return FitProblem(name, X, (y == positive).to_numpy().astype(int), fold)


def paper_and_here(paper: Sequence[float], name: str, here: str, shown: str) -> str:
    """Return the paper's figure (from a sequence in the order of PAPER) / the figure found here;
    only the latter if the paper does not have the table."""
    told = f"{shown.format(paper[list(PAPER).index(name)])} / " if name in PAPER else ""
    return told + here


def read(name: str, data: Path | None) -> tuple[pd.DataFrame, str]:
    """Return a table and the name of its target."""
    import pandas as pd

    if name in BUNDLED:
        return bundled().iloc[BUNDLED.index(name) :: 60].reset_index(drop=True), "class"
    source = TABLES[name]
    if data is None:
        return fetch(name, source)
    path = data / f"{source.file}.parquet"
    if not path.exists():
        remedy = "; without --data it comes from OpenML" if source.openml else ""
        raise ValueError(f"{data} has no {source.file}.parquet{remedy}")
    return clean(pd.read_parquet(path), source), source.target


@cache
def bundled() -> pd.DataFrame:
    import pandas as pd

    from cwboost.datasets import adult

    return pd.DataFrame(adult())


def fetch(name: str, source: Source) -> tuple[pd.DataFrame, str]:
    """Return a table from OpenML; scikit-learn caches it."""
    from sklearn.datasets import fetch_openml

    if source.openml is None:
        raise ValueError(f"{name} is not read from OpenML; pass --data FOLDER with its file")
    try:
        found = fetch_openml(data_id=source.openml, as_frame=True, parser="auto")
    except OSError as error:
        raise ValueError(
            f"OpenML {source.openml} cannot be read ({error}); pass --data FOLDER with its file"
        ) from None
    target = found.target.name
    return clean(found.frame, source), str(target)


def clean(frame: pd.DataFrame, source: Source) -> pd.DataFrame:
    frame = frame.drop(columns=[name for name in source.drop if name in frame])
    return frame if source.missing is None else frame.replace(source.missing, np.nan)


def prepare(X: pd.DataFrame) -> pd.DataFrame:
    """Fill missing cells with medians and modes, limit levels to ten, and drop constant columns."""
    import pandas as pd

    out = {}
    for name, column in X.items():
        if pd.api.types.is_numeric_dtype(column) and not isinstance(
            column.dtype, pd.CategoricalDtype
        ):
            values = column.to_numpy(dtype=np.float64)
            made: Any = np.where(np.isnan(values), np.nanmedian(values), values)
        else:
            text = column.astype(object).where(column.notna())
            text = text.fillna(text.mode()[0]).astype(str)
            common = text.value_counts().index
            if len(common) > LEVELS:
                text = text.where(text.isin(common[: LEVELS - 1]), "other")
            made = pd.Categorical(text)
        if len(pd.unique(made)) > 1:
            out[str(name)] = made
    return pd.DataFrame(out)


def folds(name: str, y: Any, data: Path | None) -> np.ndarray:
    """Return the paper's own folds if the folder has them; else five stratified folds."""
    import pandas as pd
    from sklearn.model_selection import StratifiedKFold

    if data is not None and (data / f"{FOLDS}.parquet").exists():
        every = pd.read_parquet(data / f"{FOLDS}.parquet")
        own = every[every.dataset == name.lower()]
        if len(own) == len(y):
            return own.sort_values("row").fold.to_numpy()
    fold = np.empty(len(y), dtype=int)
    split = StratifiedKFold(N_FOLDS, shuffle=True, random_state=SEED).split(y, y.astype(str))
    for number, (_, test) in enumerate(split, 1):
        fold[test] = number
    return fold
