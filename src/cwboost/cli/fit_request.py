"""Reads the table of `fit`, `cv` and `tune`, and decides which columns and which loss are meant.

Does not know how models are fitted (see commands/fit.py).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.text import format_cell, quote
from cwboost.frames.columns import Column, Labels
from cwboost.frames.files import read_table
from cwboost.frames.table import Table
from cwboost.frames.text_cells import odd_cell
from cwboost.losses import loss_for_classes
from cwboost.progress import Progress
from cwboost.terms.formula import parse


class FitRequest(NamedTuple):
    """The table to fit, its features, and the learners of a formula (None without a formula)."""

    table: Table
    features: list[str]
    learners: Any


def check_target(args: argparse.Namespace) -> None:
    """Exit with a usage error if the target is missing or the terms are given twice."""
    if args.target is None and args.formula is None:
        args.parser.error("give the column to predict, --target COLUMN, or a --formula")
    if args.formula is not None and args.terms is not None:
        args.parser.error("--formula defines the terms; leave out --terms")


def read_fit_request(
    args: argparse.Namespace, progress: Progress, not_features: list[str]
) -> FitRequest:
    """Read the table and find its features; `not_features` are further columns to leave out.

    Sets `args.target` if a formula names the target.
    """
    progress.stage(f"reading {Path(args.table).name}")
    roles = [name for name in (args.weights, args.offset, args.exposure) if name is not None]
    table = read_table(args.table, dict.fromkeys(roles, "numbers")).table
    progress.stage("setting up")
    others = [*roles, *args.exclude, *not_features]
    if args.formula is None:
        learners = None
        features = [name for name in table.names if name not in {args.target, *others}]
    else:
        learners = _read_formula(args, table, others)
        features = list(dict.fromkeys(c for learner in learners for c in learner.columns))
        excluded = [name for name in features if name in args.exclude]
        if excluded:
            args.parser.error(
                f"{quote(excluded[0])} is in the formula and in --exclude; leave out one"
            )
    _check_columns(args, table, features, others)
    return FitRequest(table, features, learners)


def needed_columns(args: argparse.Namespace, request: FitRequest) -> Table:
    """Return the features, the target and the columns with another role; leave out all others."""
    roles = (args.target, args.weights, args.offset, args.exposure, args.groups)
    named = (name for name in roles if name is not None)
    return request.table.select(list(dict.fromkeys([*request.features, *named])))


def _read_formula(args: argparse.Namespace, table: Table, others: list[str]) -> Any:
    target, learners = parse(args.formula, table, others)
    if args.target not in (None, target):
        args.parser.error(f"--target is {quote(args.target)}, but the formula says {quote(target)}")
    args.target = target
    return learners


def _check_columns(
    args: argparse.Namespace, table: Table, features: list[str], others: list[str]
) -> None:
    if args.target in others:
        args.parser.error(f"--target {quote(args.target)} cannot have another role as well")
    for name in (args.target, *others):
        if name not in table:
            table[name]  # raises, and names the columns of the table
    if "" in features:
        raise ValueError(
            f"{args.table}: column {table.names.index('') + 1} has no name; if it only numbers the "
            "rows, leave it out with --exclude ''"
        )
    if not features:
        raise ValueError(f"{args.table}: no column is left to predict {quote(args.target)} from")


def is_classification(args: argparse.Namespace, table: Table, progress: Progress) -> bool:
    """Return whether the target is fitted as classes; raise if that does not suit the target."""
    column = table[args.target]
    classes = args.loss.target == "classes" if args.loss is not None else _has_classes(column)
    if isinstance(column, Labels) and not classes:
        raise ValueError(
            f"target {quote(args.target)} is text such as {quote(column.levels[0])}, and the "
            f"{args.loss.name} loss needs numbers; leave out --loss, or use --loss binomial or "
            "multinomial"
        )
    odd = odd_cell(column.levels) if isinstance(column, Labels) else None
    if args.loss is None and odd is not None:
        raise ValueError(
            f"target {quote(args.target)} is text, because {quote(odd.cell)} {odd.problem}; for "
            "classes pass --loss binomial or multinomial"
        )
    values = _distinct_values(column)
    broken = values[values != np.floor(values)]  # never those of text, which are codes
    if classes and args.loss is not None and len(broken):
        raise ValueError(
            f"target {quote(args.target)}: the {args.loss.name} loss needs classes, but the column "
            f"has numbers such as {format_cell(broken[0])}; leave out --loss to fit a number"
        )
    if classes and args.loss is not None and len(values) > args.loss.max_classes == 2:
        raise ValueError(
            f"target {quote(args.target)}: the {args.loss.name} loss needs two classes, got "
            f"{len(values)}; use --loss multinomial, or another loss if the target is a number"
        )
    if args.loss is None and not classes and len(values) == 2:
        progress.say(
            "note",
            f"{quote(args.target)} has only the values {' and '.join(map(format_cell, values))} "
            "and is fitted as a number; for their probabilities use --loss binomial",
        )
    if classes and args.exposure is not None:
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
