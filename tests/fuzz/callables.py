"""Every public callable, found by introspection, and valid values of every parameter.

Public callables are the functions and classes of `cwboost.__all__` and `cwboost.dask.__all__`, the
functions that docs/api.md lists, and the public methods of the objects that they return.
`find_gaps` names what this file does not know yet: a new callable or parameter needs a line here.
Does not know odd values (see values.py).
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
from dask import is_dask_collection
from distributed import Client
from matplotlib.figure import Figure

import cwboost as cb
import cwboost.dask
from cwboost.export.onnx import to_onnx
from cwboost.export.sql import to_sql
from cwboost.metrics.metric import METRICS
from cwboost.model import edits
from cwboost.plotting.registry import DISPLAYS
from cwboost.terms.bases import BASES
from cwboost.terms.learners import LEARNERS

N = 60
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, N)
TABLE = {
    "x": X,
    "z": np.where(np.arange(N) % 9 == 0, np.nan, rng.normal(size=N)),
    "g": rng.choice(np.array(["a", "b", "c"], dtype=object), N),
    "k": rng.integers(0, 4, N).astype(float),
}
Y = np.sin(4 * X) + (TABLE["g"] == "a") + 0.1 * rng.normal(size=N)
CLASSES = np.where(Y > 0.3, "yes", "no")
COUNTS = rng.poisson(np.exp(X)).astype(float)
DASK_CLASSES = [name for name in cwboost.dask.__all__ if name != "fit"]
QUICK = {"n_iter", "schedule", "n_boot", "n_samples", "folds", "cv", "repeats"}  # always given

# --- objects whose methods are called -------------------------------------------------------------


@cache
def model() -> cb.Model:
    learners = [cb.Spline("x"), cb.Linear("z"), cb.Category("g"), cb.Tensor("x", "g"), cb.Step("k")]
    return cb.fit(TABLE, Y, learners, n_iter=30, validation=0.2)


@cache
def poisson_model() -> cb.Model:
    return cb.fit(TABLE, COUNTS, loss="poisson", n_iter=20, exposure=np.ones(N))


@cache
def rich_model() -> cb.Model:
    """Return a model with polish, bands, edits and a ranking of interactions."""
    fitted = cb.fit(TABLE, Y, n_iter=60, optimizer=cb.Plain(0.5), polish="auto", validation=0.2,
                    interactions=1)  # fmt: skip
    return fitted.with_bands(TABLE, Y, n_boot=10).edit("rounded", "x", digits=1)


@cache
def multinomial_model() -> cb.Model:
    return cb.fit(TABLE, TABLE["g"], [cb.Spline("x"), cb.Step("k")], loss="multinomial", n_iter=20)


@cache
def bagged_model() -> cb.Model:
    return cb.fit(TABLE, CLASSES, loss="binomial", n_iter=10, bags=2)


MODELS = (model, poisson_model, rich_model, multinomial_model, bagged_model)


@cache
def folded() -> cb.CV:
    return cb.cv(TABLE, Y, n_iter=10, folds=2)


@cache
def tuned() -> cb.Tuning:
    return cb.tune(TABLE, Y, folds=2, schedule=cb.RandomSearch(3, 8))


@cache
def stable() -> cb.Stability:
    return cb.stability(TABLE, Y, q=2, cutoff=0.75, n_samples=5, n_iter=30)


@cache
def probed() -> cb.Probe:
    return cb.probe(TABLE, Y, n_iter=30)


@cache
def informed() -> cb.Information:
    return cb.aic(cb.fit(TABLE, Y, n_iter=20), TABLE, Y)


@cache
def client() -> Client:
    """Return the client of a cluster in this process. Its threads do not survive a fork."""
    return Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None)


def spread() -> Any:
    """Return the table with y, classes and weights on the cluster."""
    table = pd.DataFrame(TABLE | {"y": Y, "c": CLASSES, "w": np.ones(N), "held": X > 0.5})
    return dd.from_pandas(table, npartitions=2, sort=False)


def estimator(name: str) -> Callable[[], Any]:
    """Return a function that makes a fitted estimator, a new one each time."""

    def make() -> Any:
        options = {"cv": 2} if name.endswith("CV") else {}
        return _fit_estimator(find_public(name)(n_iter=5, **options))

    return make


def find_public(name: str) -> Any:
    """Return a public class or function."""
    return getattr(cwboost.dask if name in DASK_CLASSES else cb, name)


def _fit_estimator(made: Any) -> Any:
    classes = "Classifier" in type(made).__name__
    if type(made).__name__.startswith("Dask"):
        table = spread()
        y = table["c" if classes else "y"]
        return made.fit(table[[*TABLE]], y, client=client())
    return made.fit(TABLE, CLASSES if classes else Y)


def display(name: str) -> Callable[[], Any]:
    """Return a function that draws a display."""
    source = {"CVDisplay": folded, "TuningDisplay": tuned, "StabilityDisplay": stable,
              "InformationDisplay": informed}.get(name)  # fmt: skip
    if source:
        return lambda: source().plot()
    makers: dict[str, Callable[[], Any]] = {
        "EffectDisplay": lambda: model().plot("x"),
        "ComparisonDisplay": lambda: cb.ComparisonDisplay.from_estimators(
            {"a": model(), "b": rich_model()}, "x"
        ),
        "ExplanationDisplay": lambda: model().plot(kind="explanation", table=TABLE),
        "InteractionsDisplay": lambda: cb.rank_interactions(model(), TABLE, Y).plot(),
    }
    kind = name.removesuffix("Display").lower()
    return makers.get(name, lambda: model().plot(kind=kind))


ESTIMATORS = ("CWBRegressor", "CWBClassifier", "CWBRegressorCV", "CWBClassifierCV", *DASK_CLASSES)
RECEIVERS: dict[str, tuple[Callable[[], Any], ...]] = {
    "Model": MODELS,
    "CV": (folded,),
    "Tuning": (tuned,),
    "Stability": (stable,),
    "Probe": (probed,),
    "Information": (informed,),
    "Ranking": (lambda: cb.rank_interactions(model(), TABLE, Y),),
    "Dataset": (lambda: cb.Dataset.from_batches([pa.table(TABLE)]),),
    **{name: (estimator(name),) for name in ESTIMATORS},
    **{name: (display(name),) for name in cb.__all__ if name.endswith("Display")},
}

# --- classes that users construct, and how the library uses them ----------------------------------


def _use_estimator(made: Any) -> None:
    _fit_estimator(made).predict(TABLE)


def _use_loss(loss: Any) -> None:
    targets = {"binomial": CLASSES, "multinomial": TABLE["g"], "gamma": COUNTS + 0.5}
    y = targets.get(loss.name, COUNTS)
    cb.fit(TABLE, y, loss=loss, n_iter=3).predict(TABLE)


def _use_optimizer(optimizer: Any) -> None:
    cb.fit(TABLE, Y, optimizer=optimizer, n_iter=5, validation=0.2).predict(TABLE)


def _use_rule(rule: Any) -> None:
    cb.fit(TABLE, Y, n_iter=5, validation=0.2, patience=rule).predict(TABLE)


def _use_learner(learner: Any) -> None:
    cb.fit(TABLE, Y, [learner], n_iter=3).predict(TABLE)


def _use_schedule(schedule: Any) -> None:
    configurations = getattr(schedule, "n", 1)
    iterations = getattr(schedule, "most", getattr(schedule, "n_iter", 1))
    if max(configurations, iterations) <= 100:  # larger schedules are valid, but slow
        cb.tune(TABLE, Y, {"rate": [0.1, 0.5]}, folds=2, schedule=schedule)


LOSSES = ("Absolute", "Binomial", "Gamma", "Huber", "Multinomial", "Poisson", "Quantile", "Squared",
          "Tweedie")  # fmt: skip
CONSTRUCTED: dict[str, Callable[[Any], None]] = {
    **dict.fromkeys(LEARNERS, _use_learner),
    **dict.fromkeys(LOSSES, _use_loss),
    **dict.fromkeys(("Plain", "Accelerated", "Hybrid"), _use_optimizer),
    **dict.fromkeys(("Patience", "Stagnation"), _use_rule),
    **dict.fromkeys(("Halving", "Hyperband", "RandomSearch"), _use_schedule),
    **dict.fromkeys(ESTIMATORS, _use_estimator),
    "Bins": lambda bins: cb.fit(TABLE, Y, bins=bins, n_iter=3).predict(TABLE),
    "Folds": lambda folds: cb.cv(TABLE, Y, n_iter=3, folds=folds),
    "LogUniform": lambda rate: cb.tune(TABLE, Y, {"rate": rate}, schedule=cb.RandomSearch(2, 3)),
}
# Records and exceptions that users read, without methods that they call.
RECORDS = {
    "Edit",
    "FormulaError",
    "Interrupted",
    "Polish",
    "Term",
    "TuningInterrupted",
    "WaldTests",
}
# Public by Python's rule, but called by the library only.
INTERNAL = {"as_table", "draw_on", "drawn", "with_pairs"}
REGISTRIES: tuple[dict[str, Any], ...] = (METRICS, LEARNERS, BASES)


@contextmanager
def registries_kept() -> Iterator[None]:
    """Remove in the end what has been registered, which other cases must not see."""
    kept = [dict(registry) for registry in REGISTRIES]
    try:
        yield
    finally:
        for registry, content in zip(REGISTRIES, kept, strict=True):
            registry.clear()
            registry.update(content)


# --- parameters -----------------------------------------------------------------------------------


def _axes() -> Any:
    return Figure().subplots()


NUMBERS = {
    "n": (2, 5), "n_iter": (0, 3, 8), "n_boot": (10,), "n_samples": (2, 5), "folds": (2, 3),
    "repeats": (1, 2), "cv": (2,), "rate": (0.1, 1.0), "momentum": (0.01,), "switch_after": (1, 5),
    "switch_patience": ("auto", None, 3),
    "level": (0.5, 0.9), "df": (None, 3.0), "knots": (1, 8), "degree": (1, 3),
    "differences": (1, 2), "smoothing": (None, 2.0), "q": (2, None), "cutoff": (0.75, None),
    "pfer": (None, 1.0), "threshold": (0.002, 0.5), "least": (2,), "most": (8,), "factor": (2, 3.5),
    "low": (0.01,), "high": (0.5,), "delta": (1.0,), "tau": (0.5,), "power": (1.5,),
    "fraction": (0.5, None), "patience": (None, 3), "time_limit": (None, 20.0),
    "random_state": (0, 3),
    "n_threads": (None, 1, 2), "n_jobs": (None, 1, 2), "bags": (None, 2), "every": (None, 2),
    "min_rows_per_bin": (None, 3), "tolerance": (0.0, 0.1), "longer": (None, 1.5),
    "timeout": (30.0,), "rows": (0, 4), "max_bars": (3, 20), "max_levels": (2, 20),
    "max_names": (2,), "max_terms": (3,),
    "max_effects": (2, 12), "row": (0, 5), "digits": (2,), "m": (0, 3), "p": (10,),
    "n_classes": (None, 3), "weight": (None, 0.5),
    "start": (None, 0.0), "scale": ("auto", 1.0), "effect": (0.1,),
}  # fmt: skip
CHOICES = {
    "loss": ("squared", "absolute", "huber"), "kind": (), "by": ("term", "column"),
    "points": ("equal", "quantile"), "knot_placement": ("uniform", "quantile"),
    "extrapolate": ("constant", "linear"), "tails": ("flat", "smooth"), "df_kind": ("df1", "df2"),
    "then": ("all", "training"), "sampling": ("complementary", "subsampling"),
    "assumption": ("unimodal", "none"), "method": ("cumulative", "share"),
    "criterion": ("corrected", "classical", "gmdl"),
    "search": ("auto", "full"), "polish": (None, "auto"), "interactions": (None, 1, "auto"),
    "dialect": ("duckdb", "sqlite"), "numbers": ("double", "float"), "missing": ("", "none"),
    "source": ("auto",), "what": ("rounded", "zero"), "terms": ("auto", "linear"),
    "optimizer": ("plain", None), "bins": ("auto", 7, "exact"), "metric": (None, "rmse"),
    "scoring": (None,), "stratified": ("auto", False), "view": ("auto", "all", (-1.0, 1.0)),
    "importance": ("size", "risk"), "transform": (None, "pandas"), "extend": (True, False),
    "class_weight": (None, "balanced"),
}  # fmt: skip
FLAGS = ("intercept", "orthogonal", "rewind", "one_se", "keep_models", "nested", "warm_start",
         "greater_is_better", "log", "sort", "share_scale", "increasing", "deep",
         "parts")  # fmt: skip
OTHERS: dict[str, tuple[Any, ...]] = {
    "table": (lambda: TABLE, lambda: pd.DataFrame(TABLE)), "X": (lambda: TABLE,),
    "y": (lambda: Y, lambda: Y.tolist()),
    "learners": (None, lambda: [cb.Spline("x"), cb.Category("g")]),
    "weights": (None, lambda: np.ones(N)), "sample_weight": (None, lambda: np.ones(N)),
    "offset": (None, lambda: np.zeros(N), "k"), "exposure": (None, lambda: np.ones(N)),
    "validation": (None, 0.3), "groups": (None, lambda: np.arange(N) % 10), "sites": (None,),
    "callback": (None, lambda: lambda *_: None), "progress": (None, False),
    "verbose": (None, False),
    "checkpoint": (None, "fit.checkpoint"), "column": ("x", "k"), "a": ("x",), "b": ("g",),
    "name": (None, "my term"), "which": ("x", "g"), "term": ("x",), "model": MODELS,
    "models": (lambda: {"a": model(), "b": rich_model()},),
    "labels": (None, lambda: {"x": "X axis"}),
    "target": (None, "price"), "output": (None, 0), "band": ("auto", None), "ax": (None, _axes),
    "axes": (None,), "figure": (None,), "keep": ((), ("k",)), "title": (None, "A title"),
    "file": ("out.json",), "folder": ("out",), "exclude": (None, lambda: ["z"]),
    "space": (None, lambda: {"rate": [0.1, 0.5]}),
    "schedule": (lambda: cb.RandomSearch(2, 4),), "order": (None,), "iterations": (lambda: [0, 1],),
    "stability": (stable,), "information": (informed,), "tuning": (tuned,),
    "columns": (None, lambda: ["x", "k"]),
    "filters": (None,), "input_features": (None,), "to": (None,),
    "stream": (lambda: pa.table(TABLE | {"y": Y}).to_reader(),), "relation": (lambda: _relation(),),
    "client": (client,), "batches": (lambda: [pa.table(TABLE)],), "files": (lambda: _parquet(),),
}  # fmt: skip
SPECIAL: dict[str, tuple[Any, ...]] = {  # where a name means something else
    "Category.kind": ("ridge", "binary"), "Step.kind": ("steps", "spikes"), "Step.bins": (5, 20),
    "Folds.kind": ("kfold", "bootstrap"), "CVDisplay.from_cv.cv": (folded,),
    "load.file": (lambda: _saved(),),
    "Dataset.open.folder": (lambda: _saved_dataset(),), "Quantile.tau": (0.5,),
    "Model.report.file": ("report.html",), "Model.to_excel.file": ("out.xlsx",),
    "tune.file": (None, "tune.jsonl"),
    "export.table": ("rows",), "Model.to_sql.table": ("rows",),
    "export.sql.to_sql.table": ("rows",),
    "Model.plot.which": (None, "x"), "Model.plot.kind": (None, "risk", "importance"),
    "Model.extend.n": (2,), "Tuning.summary.n": (2,), "stability.rate": (0.1,),
    "aic.df": (None, "trace"),
    "edits.smoothed.df": (3.0,), "edits.set_level.term": ("g",), "edits.set_level.level": ("a",),
    "registry.export.file": ("out.sql", "out.json"), "tables.to_excel.file": ("out.xlsx",),
    "learners.register_learner.cls": (cb.Spline,),
    "Stagnation.below": (1e-5, 0.1), "Stagnation.times": (1, 10),
    "bases.register_basis.cls": tuple(BASES.values()),
    "register_metric.name": ("worst",),
    "register_metric.function": (lambda: lambda y, f: np.abs(y - f).max(),),
    "register_metric.target": (None, "numbers", "classes"),
    "dask.fit.table": (spread,), "dask.fit.y": ("y",), "dask.fit.weights": (None, "w"),
    "dask.fit.validation": (None, "held", 0.3), "dask.fit.exposure": (None, "w"),
    "dask.fit.interactions": (None, lambda: [("x", "g")]),
    "Model.edit.level": ("a",), "ExplanationDisplay.from_estimator.offset": (None, 0.0),
}  # fmt: skip
for name, y_name in (("DaskCWBRegressor", "y"), ("DaskCWBClassifier", "c")):
    SPECIAL |= {
        f"{name}.interactions": (None, lambda: [("x", "g")]),
        f"{name}.fit.validation": (None, lambda: spread()["held"]),
        **{f"{name}.{method}.X": (lambda: spread()[[*TABLE]],)
           for method in ("fit", "predict", "predict_proba", "transform", "score")},
        **{f"{name}.{method}.y": (lambda y_name=y_name: spread()[y_name],)
           for method in ("fit", "score")},
        **{f"{name}.{method}.sample_weight": (None, lambda: spread()["w"])
           for method in ("fit", "score")},
    }  # fmt: skip
KINDS_OF = {  # the parameter `kind` of each callable
    "predict": ("response", "score"), "band": ("pointwise", "simultaneous"),
    "importance": ("size", "risk", "permutation"), "intervals": ("split", "cv+"),
    "to_sql": ("response", "score"), "to_onnx": ("response", "score"), "traces": ("size", "range"),
    "plot": (None,), "from_stability": ("frequency", "path"),
    "from_tuning": ("parameters", "paths"),
    "from_estimator": ("size",),
}  # fmt: skip
VALUES: dict[str, tuple[Any, ...]] = {
    **NUMBERS, **CHOICES, **OTHERS, **dict.fromkeys(FLAGS, (True, False)),
}  # fmt: skip
# Parameters that stand for others (`**options`).
FORWARDED: dict[str, tuple[Callable[..., Any], ...]] = {
    "Model.to_sql": (to_sql,),
    "Model.to_onnx": (to_onnx,),
    "Model.edit": tuple(
        getattr(edits, n) for n in ("rounded", "smoothed", "monotone", "set_level")
    ),
    "Tuning.fit": (cb.fit,),
    "ImportanceDisplay.from_estimator": (cb.Model.importance,),
    "ComparisonDisplay.from_estimators": (cb.ComparisonDisplay.from_estimator,),
}


def _saved() -> str:
    model().save("in.json")
    return "in.json"


def _saved_dataset() -> str:
    cb.Dataset.from_batches([pa.table(TABLE)]).save("in")
    return "in"


def _parquet() -> str:
    import pyarrow.parquet as pq

    pq.write_table(pa.table(TABLE | {"y": Y}), "in.parquet")
    return "in.parquet"


def _relation() -> Any:
    import duckdb

    return duckdb.from_arrow(pa.table(TABLE | {"y": Y}))


# --- the callables --------------------------------------------------------------------------------


def look_at(result: Any) -> str:
    """Return how Python shows a result; predictions on a cluster are computed."""
    return repr(result.compute() if is_dask_collection(result) else result)


class Target(NamedTuple):
    """A public callable."""

    name: str
    make: Callable[[np.random.Generator], Callable[..., Any]]  # finds or binds the callable
    parameters: dict[str, bool]  # names; True if required
    use: Callable[[Any], Any] = look_at  # what is done with the result


@cache
def find_targets() -> tuple[Target, ...]:
    """Return all public callables."""
    return tuple(_targets())


def _targets() -> Iterator[Target]:
    for name in (*cb.__all__, *DASK_CLASSES):
        value = find_public(name)
        if not inspect.isclass(value):
            yield Target(name, _always(value), _parameters(name, value))
        if name in CONSTRUCTED:
            yield Target(name, _always(value), _parameters(name, value), CONSTRUCTED[name])
        if name in RECEIVERS:
            yield from _methods(name, value)
    for path in _documented():
        module, _, name = path.rpartition(".")
        function = getattr(importlib.import_module(module), name)
        short = f"{module.rpartition('.')[2]}.{name}"
        if inspect.isfunction(function):
            yield Target(short, _always(function), _parameters(short, function))


def _always(value: Any) -> Callable[[np.random.Generator], Any]:
    return lambda rng: value


def _methods(name: str, cls: type) -> Iterator[Target]:
    for method, value in inspect.getmembers(cls):
        own = (getattr(value, "__module__", None) or "").startswith("cwboost")
        if method.startswith("_") or not callable(value) or not own or method in INTERNAL:
            continue

        def bind(rng: np.random.Generator, method: str = method) -> Any:
            made = RECEIVERS[name][rng.integers(len(RECEIVERS[name]))]()
            return getattr(made, method)

        full = f"{name}.{method}"
        bound = not isinstance(inspect.getattr_static(cls, method), classmethod | staticmethod)
        yield Target(full, bind if bound else _always(value), _parameters(full, value))


def _documented() -> list[str]:
    """Return the functions that docs/api.md lists besides the public names."""
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    return re.findall(r"^   (cwboost(?:\.\w+){2,})$", page, flags=re.MULTILINE)


def _parameters(name: str, function: Callable[..., Any]) -> dict[str, bool]:
    out = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            for other in _forwarded(name):
                names = inspect.signature(other).parameters
                out |= {n: False for n in names if n not in out and n not in ("self", "model")}
        elif key != "self" and parameter.kind is not parameter.VAR_POSITIONAL:
            out[key] = parameter.default is parameter.empty
    return out


def _forwarded(name: str) -> tuple[Callable[..., Any], ...]:
    if name in ("Model.plot", *(f"{e}.plot" for e in ESTIMATORS)):
        return tuple(cb_display(kind).from_estimator for kind in DISPLAYS)
    return FORWARDED.get(name, ())


def cb_display(kind: str) -> Any:
    """Return the class of a kind of display."""
    return getattr(cb, f"{kind.capitalize()}Display")


def valid_values(target: str, parameter: str) -> tuple[Any, ...] | None:
    """Return valid values of a parameter, or functions that make them; None if not known."""
    special = SPECIAL.get(f"{target}.{parameter}")
    if special:
        return special
    if parameter == "kind":
        return KINDS_OF.get(target.rpartition(".")[2])
    return VALUES.get(parameter)


def find_gaps() -> list[str]:
    """Return the public callables and parameters for which this file has no valid value."""
    known = {*CONSTRUCTED, *RECEIVERS, *RECORDS}
    classes = [name for name in (*cb.__all__, *DASK_CLASSES) if inspect.isclass(find_public(name))]
    gaps = [f"class {name}" for name in classes if name not in known]
    for target in find_targets():
        missing = [p for p in target.parameters if valid_values(target.name, p) is None]
        gaps += [f"parameter {p} of {target.name}" for p in missing]
    return gaps


def make_shared_objects() -> None:
    """Make the objects that all cases share, before workers are forked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in (*MODELS, folded, tuned, stable, probed, informed):
            make()
