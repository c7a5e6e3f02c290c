"""Explains unknown arguments: users of other libraries try the names that those have.

`EQUIVALENTS` is the one table of such names. Functions, estimators and the command line look up
which of their own arguments does the same. Does not know what any argument means.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from .text import list_names, quote

P = ParamSpec("P")
T = TypeVar("T")


LEARNERS = "learners such as [cb.Spline('age', df=4, knots=20), ...]"
# Names of other libraries, and the arguments here that do the same, each with the way to write it
# ("": just the argument). The first one that a callable has is named. The key "" always applies.
EQUIVALENTS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "learning_rate eta shrinkage nu step_size rate",
        {"rate": "", "optimizer": "optimizer=cb.Plain(rate=...)"},
    ),
    ("momentum", {"optimizer": "optimizer=cb.Accelerated(momentum=...)"}),
    (
        "n_estimators max_iter num_boost_round num_iterations n_iterations iterations nrounds "
        "num_trees n_trees ntrees mstop max_rounds n_iter epochs",
        {"n_iter": "", "iterations": ""},
    ),
    (
        "early_stopping_rounds early_stopping n_iter_no_change od_wait",
        {
            "patience": "patience=, with validation=",
            "one_se": "n_iter=, of which cross-validation finds the best iteration",
            "validation": "",
        },
    ),
    (
        "validation_fraction validation_size eval_set valid_sets evals oob_fraction test_size",
        {
            "validation": "",
            "fraction": "",
            "": "validation= of cwboost.fit, or folds: cwboost.cv",
        },
    ),
    (
        "eval_metric metrics scoring stopping_metric",
        {"metric": "", "": "metric= of cwboost.fit and cwboost.cv"},
    ),
    ("max_bins max_bin n_bins border_count", {"bins": ""}),
    (
        "monotone_constraints monotonic_cst monotone",
        {"": "model.edit('monotone', term, ...) after the fit"},
    ),
    (
        "interaction_constraints interaction_cst max_depth max_leaves num_leaves max_leaf_nodes",
        {"interactions": ""},
    ),
    (
        "sample_weight sample_weights weight case_weights",
        {"weights": "", "sample_weight": "", "": "fit(sample_weight=)"},
    ),
    ("objective family distribution loss_function criterion", {"loss": ""}),
    (
        "class_weight class_weights scale_pos_weight is_unbalance",
        {"class_weight": "", "weights": "weights=, one number per row"},
    ),
    (
        "n_jobs n_threads nthread nthreads num_threads thread_count",
        {"n_threads": "", "n_jobs": "", "threads": ""},
    ),
    ("seed random_seed random_state", {"random_state": "", "seed": ""}),
    (
        "categorical_features categorical_feature cat_features enable_categorical feature_types",
        {"learners": "learners=[cb.Category('column'), ...], or make the column text"},
    ),
    (
        "reg_alpha reg_lambda l2_regularization l2_leaf_reg lambda_l2 lam alpha sp df",
        {"smoothing": "df= or smoothing=", "learners": LEARNERS},
    ),
    ("n_knots n_splines k knots", {"knots": "", "learners": LEARNERS}),
    ("subsample bagging_fraction outer_bags n_bags", {"bags": ""}),
    ("base_score init", {"start": "", "offset": ""}),
    ("init_score base_margin", {"offset": "", "": "fit(offset=)"}),
    ("verbose verbosity silent verbose_eval", {"progress": "", "verbose": "", "quiet": ""}),
    ("tol", {"tolerance": "", "patience": ""}),
    ("eval_metric scoring metric", {"metric": "", "scoring": "", "": "cwboost.cv(metric=)"}),
    ("cv n_splits nfold n_folds", {"folds": "", "cv": "", "n": ""}),
    ("base_learner base_learners baselearner", {"learners": ""}),
    ("X data frame", {"table": ""}),
    ("target label labels", {"y": "", "target": ""}),
    ("formula", {"y": "y='income ~ s(age) + job'", "formula": ""}),
)
OF_NAME = {name: found for names, found in EQUIVALENTS for name in names.split()}


def explain_unknown(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function explain keywords that it does not have.

    Examples
    --------
    >>> @explain_unknown
    ... def fit(table, n_iter=200):
    ...     return n_iter
    >>> fit({}, n_estimators=3)
    Traceback (most recent call last):
    TypeError: fit() has no argument 'n_estimators'; use n_iter=
    """
    known = list(inspect.signature(function).parameters)
    name = function.__qualname__.removesuffix(".__init__")
    owner = f"{name.rpartition('.')[-1]}()"

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        _refuse_unknown(owner, kwargs, known)
        return function(*args, **kwargs)

    return call


def explain_unknown_fields(cls: type[T]) -> type[T]:
    """Let a dataclass explain keywords that it does not have.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @explain_unknown_fields
    ... @dataclass
    ... class Plain:
    ...     rate: float
    >>> Plain(eta=0.1)
    Traceback (most recent call last):
    TypeError: Plain() has no argument 'eta'; use rate=
    """
    cls.__init__ = explain_unknown(cls.__init__)  # type: ignore[method-assign]
    return cls


def check_keywords(owner: str, function: Callable[..., Any], given: Iterable[str]) -> None:
    """Raise if a function does not take keywords that are passed on to it.

    Examples
    --------
    >>> check_keywords("draw", lambda *, color: None, ["colour"])
    Traceback (most recent call last):
    TypeError: draw has no argument 'colour'; did you mean color=?
    """
    parameters = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        _refuse_unknown(owner, given, parameters)


def _refuse_unknown(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    for keyword in given:
        if keyword not in known:
            raise TypeError(describe_unknown(owner, keyword, known))


def describe_unknown(owner: str, name: str, known: Collection[str], mark: str = "{}=") -> str:
    """Return a sentence on an argument that a callable does not have, with what to use instead.

    `mark` says how to write an argument.

    Examples
    --------
    >>> describe_unknown("fit()", "n_itre", ["table", "n_iter"])
    "fit() has no argument 'n_itre'; did you mean n_iter=?"
    """
    known = [argument for argument in known if argument != "self"]
    for argument, text in OF_NAME.get(name.strip("-").replace("-", "_"), {}).items():
        if not argument or argument in known:
            return f"{owner} has no argument {quote(name)}; use {text or mark.format(argument)}"
    if close := get_close_matches(name.strip("-"), known, 1):
        return f"{owner} has no argument {quote(name)}; did you mean {mark.format(close[0])}?"
    arguments = list_names(map(mark.format, known))
    return f"{owner} has no argument {quote(name)}; its arguments are {arguments}"
