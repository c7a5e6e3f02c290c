"""Variants of the compared libraries for `quality` and `recover`: settings of cwboost, EBM with
interactions, and preparation of real tables for libraries that need it.

Does not know what is measured.
"""

from __future__ import annotations

import inspect
import shutil
import sys
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from .machine import source_commit
from .problems import FitProblem, Rows
from .process import call
from .rivals import Cwboost, Ebm, LightGbm, PyGam, Rival, SuperGlm, XgBoost

FEW_VALUES = 20  # numbers with at most this many distinct values become categories of a GAM

# --- cwboost --------------------------------------------------------------------------------------


class CwboostBags(Cwboost):
    settings: ClassVar[dict[str, Any]] = {"bags": 8}


class CwboostPairs(Cwboost):
    settings: ClassVar[dict[str, Any]] = {"interactions": "auto"}


class CwboostPairsBags(Cwboost):
    settings: ClassVar[dict[str, Any]] = {"interactions": "auto", "bags": 8}


class CwboostSmooth(Cwboost):
    """Only splines, no steps."""

    settings: ClassVar[dict[str, Any]] = {"terms": "smooth"}


class CwboostBoosted(Cwboost):
    """Boosting without the polish that follows it by default."""

    settings: ClassVar[dict[str, Any]] = {"polish": None}

    @classmethod
    def missing(cls) -> str | None:
        import cwboost as cb

        known = "polish" in inspect.signature(cb.CWBRegressor).parameters
        return super().missing() if known else "this version of cwboost does not polish"


# --- other libraries ------------------------------------------------------------------------------


class EbmPairs(Ebm):
    """EBM's default: interactions, three times as many as columns for classes, else five times."""

    settings: ClassVar[dict[str, Any]] = {}


class SuperGlmDefault(SuperGlm):
    """P-splines with the library's default number of knots."""

    knots = None


class PyGamSearch(PyGam):
    """One penalty for all terms, chosen among eleven."""

    search = True


class _Prepared(Rival):
    """A GAM library that needs complete tables, and categories where numbers have few values."""

    def fit(self, problem: FitProblem, threads: int) -> None:
        self._preparation = Preparation(problem.train.table)
        super().fit(replace(problem, train=self._preparation(problem.train)), threads)

    def predict(self, rows: Rows) -> Any:
        return super().predict(self._preparation(rows))


class Preparation:
    """Fills missing numbers with the median, makes missing cells of categories a level, and
    replaces unseen levels by the most frequent one. Constant columns are left out."""

    def __init__(self, train: pd.DataFrame) -> None:
        kept = [name for name in train if train[name].nunique(dropna=False) > 1]
        few = {name for name in kept if train[name].nunique() <= FEW_VALUES}
        text = {name for name in kept if train[name].dtype == "category"} | few
        self._numbers = {name: train[name].median() for name in kept if name not in text}
        self._levels = {
            name: _text(train[name]).value_counts().index for name in kept if name in text
        }
        self._kept = kept

    def __call__(self, rows: Rows) -> Rows:
        columns = {}
        for name in self._kept:
            if name in self._numbers:
                columns[name] = rows.table[name].astype(float).fillna(self._numbers[name])
            else:
                levels, text = self._levels[name], _text(rows.table[name])
                known = text.where(text.isin(levels), levels[0])
                columns[name] = known.astype(pd.CategoricalDtype(levels))
        return replace(rows, table=pd.DataFrame(columns, index=rows.table.index))


def _text(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "missing").astype(str)


class SuperGlmTables(_Prepared, SuperGlmDefault):
    pass


class PyGamTables(_Prepared, PyGam):
    pass


# --- by name --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    rival: type[Rival]
    label: str

    @property
    def own(self) -> bool:
        return self.rival.distribution == "cwboost"


QUALITY = {
    "cwboost": Variant(Cwboost, "cwboost"),
    "cwboost-boosted": Variant(CwboostBoosted, "without polish"),
    "cwboost-bags": Variant(CwboostBags, "8 bags"),
    "cwboost-pairs": Variant(CwboostPairs, "pairs"),
    "cwboost-pairs-bags": Variant(CwboostPairsBags, "pairs, 8 bags"),
    "ebm-main": Variant(Ebm, "EBM mains"),
    "ebm": Variant(EbmPairs, "EBM"),
    "lightgbm": Variant(LightGbm, "LightGBM"),
    "xgboost": Variant(XgBoost, "XGBoost"),
    "superglm": Variant(SuperGlmTables, "superglm"),
    "pygam": Variant(PyGamTables, "pyGAM"),
}

RECOVER = {
    "cwboost": Variant(Cwboost, "cwboost"),
    "cwboost-boosted": Variant(CwboostBoosted, "cwboost, without polish"),
    "cwboost-smooth": Variant(CwboostSmooth, 'cwboost, terms="smooth"'),
    "superglm": Variant(SuperGlmDefault, "superglm"),
    "superglm-20": Variant(SuperGlm, "superglm, 20 knots"),
    "pygam": Variant(PyGamSearch, "pyGAM, gridsearch"),
    "ebm-main": Variant(Ebm, "EBM, main effects"),
    "lightgbm": Variant(LightGbm, "LightGBM"),
}
GROUPS = {"quality": QUALITY, "recover": RECOVER}


def installed(group: str, own: bool) -> dict[str, dict[str, str | None]]:
    """Return version and reason why it cannot run, for cwboost's or the others' variants.

    It is called in the interpreter that has the libraries.
    """
    return {
        name: {"version": _version(x), "missing": x.rival.missing()}
        for name, x in GROUPS[group].items()
        if x.own == own
    }


def _version(variant: Variant) -> str | None:
    if variant.own:
        return source_commit()  # results of other files do not make fits stale
    return None if variant.rival.missing() else variant.rival.version()


def installed_by(group: str, names: list[str], interpreters: dict[bool, str]) -> dict[str, str]:
    """Return the versions of the variants that can run; print why the others cannot.

    The interpreters are by whether a variant is one of cwboost.
    """
    found: dict[str, dict[str, str]] = {}
    for own, python in interpreters.items():
        if shutil.which(python) is None:
            raise ValueError(f"{python}: expected a Python interpreter, found no such program")
        done = call(f"{__name__}:installed", {"group": group, "own": own}, python=python)
        if done.status != "done":
            raise ValueError(f"{python}: expected an interpreter with the libraries\n{done.reason}")
        found |= done.value
    for name in names:
        if found[name]["missing"]:
            print(f"without {name}: {found[name]['missing']}", file=sys.stderr, flush=True)
    return {name: found[name]["version"] for name in names if not found[name]["missing"]}
