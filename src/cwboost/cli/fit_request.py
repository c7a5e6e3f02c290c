"""Reads the table of `fit`, `cv` and `tune`, and decides which columns and which loss are meant.

Does not know how models are fitted (see commands/fit.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.text import format_cell
from cwboost.frames.columns import Column, Labels
from cwboost.frames.files import read_table
from cwboost.frames.table import Table
from cwboost.losses import loss_for_classes
from cwboost.progress import Progress
from cwboost.terms.formula import parse


class FitRequest(NamedTuple):
    """The table to fit, its features, and the learners of a formula (None without a formula)."""

    table: Table
    features: list[str]
    learners: Any


def check_target(a: argparse.Namespace) -> None:
    """Exit with a usage error if the target is missing or the terms are given twice."""
    if a.target is None and a.formula is None:
        a.parser.error("give the column to predict, --target COLUMN, or a --formula")
    if a.formula is not None and a.terms is not None:
        a.parser.error("--formula defines the terms; leave out --terms")


def read_fit_request(a: argparse.Namespace, bar: Progress, not_features: list[str]) -> FitRequest:
    """Read the table and find its features; `not_features` are further columns to leave out.

    Sets `a.target` if a formula names the target.
    """
    bar.stage(f"reading {Path(a.table).name}")
    roles = [name for name in (a.weights, a.offset, a.exposure) if name is not None]
    table = read_table(a.table, dict.fromkeys(roles, "numbers")).table
    bar.stage("setting up")
    others = [*roles, *a.exclude, *not_features]
    if a.formula is None:
        learners = None
        features = [name for name in table.names if name not in {a.target, *others}]
    else:
        learners = _read_formula(a, table, others)
        features = list(dict.fromkeys(c for learner in learners for c in learner.columns))
        excluded = [name for name in features if name in a.exclude]
        if excluded:
            a.parser.error(f"{excluded[0]!r} is in the formula and in --exclude; leave out one")
    _check_columns(a, table, features, others)
    return FitRequest(table, features, learners)


def _read_formula(a: argparse.Namespace, table: Table, others: list[str]) -> Any:
    target, learners = parse(a.formula, table, others)
    if a.target not in (None, target):
        a.parser.error(f"--target is {a.target!r}, but the formula says {target!r}")
    a.target = target
    return learners


def _check_columns(
    a: argparse.Namespace, table: Table, features: list[str], others: list[str]
) -> None:
    if a.target in others:
        a.parser.error(f"--target {a.target!r} cannot have another role as well")
    for name in (a.target, *others):
        if name not in table:
            table[name]  # raises, and names the columns of the table
    if "" in features:
        raise ValueError(
            f"{a.table}: column {table.names.index('') + 1} has no name; if it only numbers the "
            "rows, leave it out with --exclude ''"
        )
    if not features:
        raise ValueError(f"{a.table}: no column is left to predict {a.target!r} from")


def is_classification(a: argparse.Namespace, table: Table, bar: Progress) -> bool:
    """Return whether the target is fitted as classes; raise if that does not suit the target."""
    column = table[a.target]
    classes = a.loss.target == "classes" if a.loss is not None else _has_classes(column)
    if isinstance(column, Labels) and not classes:
        raise ValueError(
            f"target {a.target!r} is text such as {column.levels[0]!r}, and the {a.loss.name} loss "
            "needs numbers; leave out --loss, or use --loss binomial or multinomial"
        )
    values = _distinct_values(column)
    if classes and a.loss is not None and len(values) > a.loss.max_classes == 2:
        raise ValueError(
            f"target {a.target!r}: the {a.loss.name} loss needs two classes, got {len(values)}; "
            "use --loss multinomial, or another loss if the target is a number"
        )
    if a.loss is None and not classes and len(values) == 2:
        bar.say(
            "note",
            f"{a.target!r} has only the values {' and '.join(map(format_cell, values))} and is "
            "fitted as a number; for their probabilities use --loss binomial",
        )
    if classes and a.exposure is not None:
        raise ValueError("--exposure is for losses with a log link, such as --loss poisson")
    return classes


def _has_classes(column: Column) -> bool:
    return isinstance(column, Labels) or column.boolean


def _distinct_values(column: Column) -> Any:
    values = column.codes if isinstance(column, Labels) else column.values
    return np.unique(values[~column.missing])


def default_loss(column: Column, classes: bool) -> Any:
    """Return the loss of a target for which --loss is not given."""
    if not classes:
        return "squared"
    return loss_for_classes(len(_distinct_values(column)))
