"""The compared libraries, each behind the same few methods.

A rival takes a problem as it is: its fit includes all preparation of the columns. Rivals fit only
main effects if they have that option, and otherwise use their defaults. To add a rival, write a
class with a name here; it is registered automatically. Does not know what is measured (see
measure.py).
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from .machine import commit
from .problems import FitProblem, Rows

RIVALS: dict[str, type[Rival]] = {}
TINY = 1e-12  # distance that a probability keeps from 0 and 1 for its logit


class Rival:
    """One library with one set of settings."""

    name: ClassVar[str] = ""
    module: ClassVar[str]
    distribution: ClassVar[str]
    additive: ClassVar[bool] = True  # the score is a sum of functions of one column
    elsewhere: ClassVar[bool] = False  # it runs in its own process and measures itself

    def __init_subclass__(cls) -> None:
        if vars(cls).get("name"):  # a variant without its own name is not registered
            RIVALS[cls.name] = cls

    @classmethod
    def missing(cls) -> str | None:
        """Return why it cannot be run here; None if it can."""
        found = importlib.util.find_spec(cls.module)
        return None if found else f"{cls.distribution} is not installed"

    @classmethod
    def version(cls) -> str:
        try:
            return version(cls.distribution)
        except PackageNotFoundError:
            return ""  # not installed, but found on the path

    def fit(self, problem: FitProblem, threads: int) -> None:
        """Fit the training rows. (Rivals that run in another process also predict the test rows
        here.)"""
        raise NotImplementedError

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the expected y: a number, the probability of 1, or a count given the row's
        exposure."""
        raise NotImplementedError

    def terms(self) -> int | None:
        """Return the number of columns that the model uses; None if unknown."""
        return None

    def figures(self) -> dict[str, float]:
        """Return the figures that it measured itself, if it ran elsewhere."""
        return {}

    def score(self, rows: Rows, loss: str) -> np.ndarray:
        """Return predictions on the scale of the link, without the exposure."""
        expected = self.predict(rows)
        if loss == "binomial":
            return logit(np.clip(expected, TINY, 1 - TINY))
        if loss == "poisson":
            return np.log(np.maximum(expected / _exposure(rows), TINY))
        return expected


def _exposure(rows: Rows) -> np.ndarray:
    return np.ones(len(rows.y)) if rows.exposure is None else rows.exposure


def _rate(rows: Rows) -> dict[str, np.ndarray]:
    """Return y and weights. The Poisson likelihood of counts with exposure equals the likelihood of
    y / exposure with the exposure as weight, which serves libraries without an exposure argument.
    """
    if rows.exposure is None:
        return {"y": rows.y}
    return {"y": rows.y / rows.exposure, "sample_weight": rows.exposure}


class _Estimator(Rival):
    """A library with scikit-learn's fit and predict."""

    def fit(self, problem: FitProblem, threads: int) -> None:
        self.model = self.make(problem, threads)
        self.model.fit(problem.train.table, **_rate(problem.train))

    def make(self, problem: FitProblem, threads: int) -> Any:
        raise NotImplementedError

    def predict(self, rows: Rows) -> np.ndarray:
        if hasattr(self.model, "predict_proba"):
            return np.asarray(self.model.predict_proba(rows.table))[:, 1]
        return np.asarray(self.model.predict(rows.table)) * _exposure(rows)


# --- cwboost --------------------------------------------------------------------------------------


class Cwboost(Rival):
    """The estimators with their defaults."""

    name, module, distribution = "cwboost", "cwboost", "cwboost"
    settings: ClassVar[dict[str, Any]] = {}

    @classmethod
    def version(cls) -> str:
        return " ".join(filter(None, (super().version(), commit())))

    def fit(self, problem: FitProblem, threads: int) -> None:
        import cwboost as cb

        settings = {"terms": "linear", **self.settings} if problem.linear else self.settings
        if problem.loss == "binomial":
            estimator = cb.CWBClassifier(n_jobs=threads, **settings)
        else:
            estimator = cb.CWBRegressor(problem.loss, n_jobs=threads, **settings)
        train = problem.train
        self.model = estimator.fit(train.table, train.y, exposure=train.exposure).model_

    def predict(self, rows: Rows) -> np.ndarray:
        return self.model.predict(rows.table, exposure=rows.exposure)

    def terms(self) -> int:
        used = [term.columns for term in self.model.terms.values() if term.chosen]
        return len({column for columns in used for column in columns})


class CwboostPlain(Cwboost):
    """Componentwise boosting with the settings of compboost and mboost: 200 iterations at rate
    0.05, df 5."""

    name = "cwboost-cwb"

    def fit(self, problem: FitProblem, threads: int) -> None:
        import cwboost as cb

        train = problem.train
        numbers = train.table.columns.difference(train.text, sort=False)
        curves = [cb.Spline(name, df=5, knots=20, tails="smooth") for name in numbers]
        self.model = cb.fit(
            train.table,
            train.y,
            "linear" if problem.linear else [*curves, ...],
            problem.loss,
            self.optimizer(),
            n_iter=200,
            bins="sqrt",
            scale=1,
            exposure=train.exposure,
            n_threads=threads,
        )

    def optimizer(self) -> Any:
        import cwboost as cb

        return cb.Plain(rate=0.05)


class CwboostAccelerated(CwboostPlain):
    """The same with Nesterov momentum."""

    name = "cwboost-acwb"

    def optimizer(self) -> Any:
        import cwboost as cb

        return cb.Accelerated(rate=0.05, momentum=0.0034)


# --- boosted trees --------------------------------------------------------------------------------


class Ebm(_Estimator):
    """Explainable boosting machine without interactions."""

    name, module, distribution = "ebm", "interpret", "interpret-core"
    settings: ClassVar[dict[str, Any]] = {"interactions": 0}

    def make(self, problem: FitProblem, threads: int) -> Any:
        from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

        if problem.loss == "binomial":
            return ExplainableBoostingClassifier(n_jobs=threads, **self.settings)
        objective = {"squared": "rmse"}.get(problem.loss, f"{problem.loss}_deviance")
        return ExplainableBoostingRegressor(objective=objective, n_jobs=threads, **self.settings)

    def terms(self) -> int:
        return int(np.count_nonzero(self.model.term_importances()))


class EbmOneBag(Ebm):
    name = "ebm-1bag"
    settings: ClassVar[dict[str, Any]] = {"interactions": 0, "outer_bags": 1}


class LightGbm(_Estimator):
    name, module, distribution = "lightgbm", "lightgbm", "lightgbm"
    additive = False

    def make(self, problem: FitProblem, threads: int) -> Any:
        from lightgbm import LGBMClassifier, LGBMRegressor

        if problem.loss == "binomial":
            return LGBMClassifier(n_jobs=threads, verbosity=-1)
        objective = {"squared": "regression"}.get(problem.loss, problem.loss)
        return LGBMRegressor(objective=objective, n_jobs=threads, verbosity=-1)

    def terms(self) -> int:
        return int(np.count_nonzero(self.model.feature_importances_))


class XgBoost(_Estimator):
    name, module, distribution = "xgboost", "xgboost", "xgboost"
    additive = False

    @classmethod
    def version(cls) -> str:
        import xgboost

        return str(xgboost.__version__)  # its distribution has two names

    def make(self, problem: FitProblem, threads: int) -> Any:
        from xgboost import XGBClassifier, XGBRegressor

        settings = {"n_jobs": threads, "enable_categorical": True}
        if problem.loss == "binomial":
            return XGBClassifier(**settings)
        objective = {
            "squared": "reg:squarederror", "gamma": "reg:gamma", "poisson": "count:poisson"
        }[problem.loss]  # fmt: skip
        return XGBRegressor(objective=objective, **settings)

    def terms(self) -> int:
        return int(np.count_nonzero(self.model.feature_importances_))


class HistGradientBoosting(_Estimator):
    """Uses the threads of OpenMP."""

    name, module, distribution = "histgb", "sklearn", "scikit-learn"
    additive = False

    def make(self, problem: FitProblem, threads: int) -> Any:  # noqa: ARG002
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        settings = {"categorical_features": "from_dtype"}
        if problem.loss == "binomial":
            return HistGradientBoostingClassifier(**settings)
        loss = {"squared": "squared_error"}.get(problem.loss, problem.loss)
        return HistGradientBoostingRegressor(loss=loss, **settings)


# --- splines --------------------------------------------------------------------------------------


class PyGam(Rival):
    name, module, distribution = "pygam", "pygam", "pygam"
    search: ClassVar[bool] = False  # choose the penalty by generalised cross-validation

    def fit(self, problem: FitProblem, threads: int) -> None:  # noqa: ARG002 (it is NumPy)
        from pygam import GammaGAM, LinearGAM, LogisticGAM, PoissonGAM, f, l, s
        from pygam.terms import TermList

        make = {
            "squared": LinearGAM, "binomial": LogisticGAM, "gamma": GammaGAM, "poisson": PoissonGAM
        }[problem.loss]  # fmt: skip
        train, text = problem.train, set(problem.train.text)
        number = l if problem.linear else s
        terms = [f(j) if c in text else number(j) for j, c in enumerate(train.table)]
        extra = {} if train.exposure is None else {"exposure": train.exposure}
        model, rows = make(TermList(*terms)), (self._matrix(train), train.y)
        if self.search:
            self.model = model.gridsearch(*rows, progress=False, **extra)
        else:
            self.model = model.fit(*rows, **extra)

    def _matrix(self, rows: Rows) -> np.ndarray:
        codes = {name: rows.table[name].cat.codes for name in rows.text}
        return rows.table.assign(**codes).to_numpy(float)

    def predict(self, rows: Rows) -> np.ndarray:
        return np.asarray(self.model.predict_mu(self._matrix(rows))) * _exposure(rows)

    def terms(self) -> int:
        return len(self.model.terms) - 1  # all except the intercept


class Glum(_Estimator):
    """A GLM of spline features with a small ridge penalty, or of plain columns with the lasso if
    the problem is linear. Uses the threads of OpenMP."""

    name, module, distribution = "glum", "glum", "glum"

    def make(self, problem: FitProblem, threads: int) -> Any:  # noqa: ARG002
        from glum import GeneralizedLinearRegressor
        from sklearn.compose import make_column_selector, make_column_transformer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, SplineTransformer

        family = {"squared": "normal"}.get(problem.loss, problem.loss)
        if problem.linear:
            return GeneralizedLinearRegressor(family=family, alpha=0.05, l1_ratio=1)
        text = make_column_selector(dtype_include="category")
        columns = make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), text),
            remainder=SplineTransformer(n_knots=22, extrapolation="linear", sparse_output=True),
            sparse_threshold=1.0,
        )
        return make_pipeline(columns, GeneralizedLinearRegressor(family=family, alpha=1e-5))

    def fit(self, problem: FitProblem, threads: int) -> None:
        self.model = self.make(problem, threads)
        rate = _rate(problem.train)
        weight = rate.pop("sample_weight", None)
        step = "" if problem.linear else "generalizedlinearregressor__"
        extra = {} if weight is None else {f"{step}sample_weight": weight}
        self.model.fit(problem.train.table, **rate, **extra)

    def terms(self) -> int | None:
        coef = getattr(self.model, "coef_", None)  # absent in a pipeline: all are used
        return self.model[0].n_features_in_ if coef is None else int(np.count_nonzero(coef))


class SuperGlm(Rival):
    """P-splines with 20 knots, smoothed by discrete REML."""

    name, module, distribution = "superglm", "superglm", "superglm"
    knots: ClassVar[int | None] = 20  # None: the library's default

    def fit(self, problem: FitProblem, threads: int) -> None:  # noqa: ARG002 (by the environment)
        from superglm import Categorical, Numeric, Spline, SuperGLM

        train, text = problem.train, set(problem.train.text)
        number = Numeric if problem.linear else lambda: Spline(kind="ps", n_knots=self.knots)
        features = {c: Categorical() if c in text else number() for c in train.table}
        self._levels = {name: train.table[name].unique() for name in text}
        family = {"squared": "gaussian"}.get(problem.loss, problem.loss)
        settings = {} if problem.linear else {"discrete": True}
        model = SuperGLM(family=family, selection_penalty=0.0, features=features, **settings)
        fit = model.fit if problem.linear else model.fit_reml
        offset = {} if train.exposure is None else {"offset": np.log(train.exposure)}
        self.model = fit(self._frame(train), train.y, **offset)

    def _frame(self, rows: Rows) -> Any:
        """Return text columns as the library needs them; it refuses unseen levels, which become
        another level."""
        text = {}
        for name, levels in self._levels.items():
            column = rows.table[name].astype(object)
            text[name] = column.where(column.isin(levels), levels[0]).astype(str)
        return rows.table.assign(**text)

    def predict(self, rows: Rows) -> np.ndarray:
        offset = {} if rows.exposure is None else {"offset": np.log(rows.exposure)}
        return np.asarray(self.model.predict(self._frame(rows), **offset))

    def terms(self) -> int:
        return len(self.model.features)


# --- R --------------------------------------------------------------------------------------------


class _R(Rival):
    """An R package, run by r/fit.R: rows and scores are exchanged as files of doubles.

    R measures its fit and prediction itself, so that neither its start nor the files count.
    """

    elsewhere = True
    optimizer: ClassVar[str] = "plain"

    @classmethod
    def missing(cls) -> str | None:
        if shutil.which("Rscript") is None:
            return "Rscript is not installed"
        return None if cls.version() else f"the R package {cls.distribution} is not installed"

    @classmethod
    def version(cls) -> str:
        code = (
            f'cat(tryCatch(as.character(packageVersion("{cls.distribution}")), error = \\(e) ""))'
        )
        return subprocess.run(["Rscript", "-e", code], capture_output=True, text=True).stdout

    def fit(self, problem: FitProblem, threads: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part, rows in (("train", problem.train), ("test", problem.test)):
                self._write(folder, part, rows)
            words = [self.module, self.optimizer, problem.loss, threads, int(problem.linear)]
            script = Path(__file__).parent / "r" / "fit.R"
            run = ["Rscript", str(script), name, *map(str, words)]
            done = subprocess.run(run, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip()[-2000:])
            lines = (folder / "figures.txt").read_text().split()
            self._figures = dict(zip(lines[::2], map(float, lines[1::2]), strict=True))
            self._scores = np.fromfile(folder / "scores.bin")
            self._loss = problem.loss

    def _write(self, folder: Path, part: str, rows: Rows) -> None:
        """Write the columns one after another, then y and the exposure; their names and kinds as
        text."""
        codes = {name: rows.table[name].cat.codes for name in rows.text}
        columns = rows.table.assign(**codes).to_numpy(float)
        np.column_stack([columns, rows.y, _exposure(rows)]).T.tofile(folder / f"{part}.bin")
        kinds = ["level" if name in codes else "number" for name in rows.table]
        (folder / "kinds.txt").write_text("\n".join(kinds))

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the predictions of the test rows, which R made in `fit`."""
        if len(rows.y) != len(self._scores):
            raise ValueError("R predicted only the test rows")
        if self._loss == "binomial":
            return expit(self._scores)
        return np.exp(self._scores) * _exposure(rows) if self._loss == "poisson" else self._scores

    def terms(self) -> int:
        return int(self._figures["terms"])

    def figures(self) -> dict[str, float]:
        return {k: v for k, v in self._figures.items() if k != "terms" and np.isfinite(v)}


class Compboost(_R):
    """200 iterations at rate 0.05 of splines with df 5 and 20 knots, binned."""

    name, module, distribution = "compboost-cwb", "compboost", "compboost"


class CompboostUnbinned(Compboost):
    name, optimizer = "compboost-cwb-nb", "unbinned"


class CompboostAccelerated(Compboost):
    name, optimizer = "compboost-acwb", "accelerated"


class Mboost(_R):
    """The same with mboost, without bins."""

    name, module, distribution = "mboost", "mboost", "mboost"
