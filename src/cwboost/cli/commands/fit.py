"""`cwboost fit`: fits a model to a table and writes it as JSON."""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

from cwboost._utils.atomic_files import check_file, write_output
from cwboost._utils.interrupts import interrupt_delayed
from cwboost._utils.text import count, quote
from cwboost.cli.arguments import (
    RATE,
    TABLE,
    THREADS,
    add_quiet,
    add_terms_and_roles,
    iterations,
    positive,
    share,
    threads,
    whole,
    whole_between,
    whole_positive,
)
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import INTERRUPTED, SUCCESS
from cwboost.cli.fit_request import (
    check_target,
    is_classification,
    read_fit_request,
)
from cwboost.cli.model_text import model_summary
from cwboost.cli.written_files import describe_resumption
from cwboost.fitting.bags import MAX_BAGS
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.interactions import RULES
from cwboost.frames.aligned import read_weights
from cwboost.frames.columns import Column, Labels, Numbers
from cwboost.frames.files import check_output
from cwboost.frames.table import Table
from cwboost.metrics.metric import METRICS
from cwboost.model.model import Model
from cwboost.optimizers import Optimizer, as_optimizer, optimizer_names
from cwboost.progress import Progress, ProgressLog
from cwboost.stopping import Patience, Stagnation, StoppingRule

SPLITS = {"auto": "auto", "last": "last", "none": None}  # --validation as the estimators take it
POLISH = {"auto": "auto", "always": True, "repeat": "repeat", "none": None}  # likewise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost fit`."""
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the model as JSON; without it the summary is printed",
    )
    add_terms_and_roles(parser)
    add = parser.add_argument_group("how it is fitted").add_argument
    add("--optimizer", choices=optimizer_names(),
        help="default auto: plain with rate 0.5, 0.1 without validation rows")  # fmt: skip
    add("--rate", type=positive, help=RATE)
    add("--iterations", type=iterations, metavar="N",
        help="at most N; default 10,000 with validation rows, else 200 or what cross-validation "
        "chooses")  # fmt: skip
    add("--validation", type=_validation, metavar="ROWS", default="auto",
        help="validation rows, which find the best iteration: a share such as 0.2, a column that "
        "marks them, last (the last fifth) or none; default: a random fifth if there are at least "
        "1,000 rows")  # fmt: skip
    add("--metric", metavar="NAME", nargs="+", action="extend",
        help="metric of the validation rows that replaces their risk in early stopping, and others "
        f"to record: {', '.join(METRICS)}, or a scorer of scikit-learn")  # fmt: skip
    add("--patience", metavar="RULE", nargs="+", action="extend", type=_rule,
        help="when to stop early: 50 (default), after 50 iterations without a new best; 1e-5x10, "
        "after 10 in a row that improve by at most the share 1e-5; auc:50 or auc:1e-5x10, by a "
        "metric of its own; none; the first of several rules decides")  # fmt: skip
    add("--interactions", metavar="WHICH", nargs="+", action="extend",
        help="pairs of columns that interact: auto (as few as validation rows ask for), all (as "
        "many as gain more than noise does), a number, or age:job ...")  # fmt: skip
    add("--polish", choices=list(POLISH),
        help="refit the chosen terms together after boosting, on all rows (default auto: unless it "
        "takes longer than boosting); repeat: repeat the iterations on all rows "
        "instead")  # fmt: skip
    add("--bags", type=whole_between(2, MAX_BAGS), metavar="K",
        help="average K fits, each without a share of the rows (that of --validation, or "
        "0.2)")  # fmt: skip
    add("--seed", type=whole, default=0, help="seed for the validation rows (default 0)")
    add("--threads", type=threads, help=THREADS)
    add("--time-limit", type=positive, metavar="SECONDS", help="stop after this time")
    add("--checkpoint", metavar="FILE",
        help="save the state of the fit here; the same command resumes it")  # fmt: skip
    group = add_quiet(parser)
    group.add_argument("--log-json", action="store_true",
                       help="write one JSON object per line to standard error")  # fmt: skip
    group.add_argument("--log-every", type=whole_positive, default=10, metavar="K",
                       help="log every K iterations (default 10)")  # fmt: skip


def _validation(text: str) -> str:
    """Return a share, a keyword or a column, as text; a number must be a share."""
    if _is_split(text) and text not in SPLITS:
        share(text)
    return text


def _rule(text: str) -> StoppingRule | None:
    """Return the rule of a text such as 50, 1e-5x10, auc:50 or none."""
    if text == "none":
        return None
    metric, colon, numbers = text.rpartition(":")
    below, times, iterations = numbers.rpartition("x")
    problem = f"{quote(text)} is not a rule such as 50, 1e-5x10, auc:50 or none"
    try:
        share, n = float(below or 0.0), int(iterations)
    except ValueError:
        raise argparse.ArgumentTypeError(problem) from None
    if (colon and not metric) or (times and not below):
        raise argparse.ArgumentTypeError(problem)
    name = metric or None
    rule = Stagnation(share, n, name) if times else Patience(n, name)
    try:
        rule.core(0, 0.0)  # checks the numbers
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{problem} ({error})") from None
    return rule


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Fit the model, write it and return the exit code."""
    _check_usage(args)
    if args.output is not None:
        check_output(args.output, table=False)
    if args.checkpoint is not None:
        check_file(args.checkpoint)
    began = time.monotonic()
    mask_column = None if _is_split(args.validation) else args.validation
    request = read_fit_request(args, progress, [] if mask_column is None else [mask_column])
    table = request.table
    if table.n_rows == 0:
        raise ValueError(f"{args.table}: the table has no rows")
    estimator = _make_estimator(args, table, request.learners, progress)
    weights = None if args.weights is None else read_weights(args.weights, table)
    fixed = [name for name in (args.offset, args.exposure) if name is not None]
    rows = table.select(list(dict.fromkeys([*request.features, *fixed])))
    estimator.progress = progress
    try:
        y = _target_values(table, args.target, estimator)
        mask = None if mask_column is None else _read_mask(table[mask_column])
        estimator.fit(rows, y, weights, validation=mask, checkpoint=args.checkpoint)
        model, interrupted = estimator.model_, ""
    except Interrupted as stop:
        model, interrupted = stop.model, stop.words
    names = replace(model.settings, target=args.target, weights=args.weights, held=mask_column)
    seconds = time.monotonic() - began
    return _finish(args, replace(model, settings=names), progress, seconds, interrupted)


def _check_usage(args: argparse.Namespace) -> None:
    check_target(args)
    if args.bags is not None and (
        args.validation in ("last", "none") or not _is_split(args.validation)
    ):
        args.parser.error("--bags: the rows that a bag leaves out are its validation rows, so "
                       "--validation can only be their share (default 0.2)")  # fmt: skip
    needs_rows = args.optimizer is not None and as_optimizer(args.optimizer).needs_validation
    if needs_rows and args.validation == "none":
        args.parser.error(
            f"--optimizer {args.optimizer} needs validation rows; leave out --validation none"
        )
    if args.patience is not None and None in args.patience and len(args.patience) > 1:
        args.parser.error("--patience none cannot be combined with other rules")
    watches = args.metric is not None or args.patience is not None
    if watches and args.validation == "none":
        args.parser.error("--metric and --patience need validation rows; leave out "
                          "--validation none")  # fmt: skip
    if args.bags is not None and args.checkpoint is not None:
        args.parser.error("--checkpoint stores a single fit and cannot be used with --bags")


def _is_split(validation: str) -> bool:
    """Return whether --validation is a share or a keyword, and not the name of a column."""
    try:
        float(validation)
    except ValueError:
        return validation in SPLITS
    return True


def _read_mask(column: Column) -> Any:
    """Return the column that marks the validation rows as an array of booleans or weights."""
    if not isinstance(column, Numbers):
        raise ValueError(
            f"--validation {column.name}: expected true or false, or weights, for every row; the "
            f"column has text such as {quote(column.levels[0])}"
        )
    return column.values == 1 if column.boolean and not column.missing.any() else column.values


def _make_estimator(
    args: argparse.Namespace, table: Table, learners: Any, progress: Progress
) -> Any:
    """Return the estimator for the target and the options; others keep the estimator's defaults."""
    from cwboost.estimators.classifier import CWBClassifier
    from cwboost.estimators.regressor import CWBRegressor

    classes = is_classification(args, table, progress)
    options = {"offset": args.offset, "time_limit": args.time_limit, "n_jobs": args.threads}
    options |= {"learners": learners, "random_state": args.seed}
    if _is_split(args.validation):
        options["validation"] = (
            SPLITS[args.validation] if args.validation in SPLITS else float(args.validation)
        )
    optional = {
        "terms": args.terms,
        "bags": args.bags,
        "n_iter": args.iterations,
        "interactions": None if args.interactions is None else _read_interactions(args, table),
        "optimizer": args.optimizer,
    }
    if args.metric is not None:
        options["metric"] = args.metric
    if args.patience is not None:
        options["patience"] = None if None in args.patience else args.patience
    if args.polish is not None:
        options["polish"] = POLISH[args.polish]
    if args.rate is not None:
        optional["optimizer"] = _optimizer_with_rate(args)
    options |= {name: value for name, value in optional.items() if value is not None}
    if classes:
        return CWBClassifier(**options)
    return CWBRegressor(args.loss or "squared", exposure=args.exposure, **options)


def _optimizer_with_rate(args: argparse.Namespace) -> Optimizer:
    """Return the optimizer that the estimator would choose, with the rate of --rate."""
    from cwboost.estimators.defaults import named_optimizer

    optimizer = named_optimizer(args.optimizer or "auto", has_validation=args.validation != "none")
    optimizer.set_params(rate=args.rate)
    return optimizer


def _read_interactions(args: argparse.Namespace, table: Table) -> Any:
    """Return the estimator's `interactions`: "auto", "all", a number, or pairs of columns."""
    first = args.interactions[0]
    if len(args.interactions) == 1 and (first in RULES or first.isdecimal()):
        return first if first in RULES else int(first)
    return [_read_pair(args, text, table) for text in args.interactions]


def _read_pair(args: argparse.Namespace, text: str, table: Table) -> tuple[str, str]:
    """Return the two columns of "age:job"; names may hold colons themselves."""
    parts = text.split(":")
    halves = [(":".join(parts[:k]), ":".join(parts[k:])) for k in range(1, len(parts))]
    known = [pair for pair in halves if all(name in table for name in pair)]
    if not halves:
        args.parser.error(
            "--interactions: expected auto, all, a number or pairs such as age:job, got "
            f"{quote(text)}"
        )
    for name in () if known else halves[0]:
        if name not in table:
            table[name]  # raises, and names the columns of the table
    return known[0]


def _target_values(table: Table, name: str, estimator: Any) -> Any:
    """Return the target's values: numbers, or the labels of the classes."""
    from sklearn.base import is_classifier

    column = table[name]
    if column.missing.any():
        row = table.row(int(np.flatnonzero(column.missing)[0]))
        n = int(column.missing.sum())
        raise ValueError(
            f"target {quote(name)}, row {row}: the value is missing (in {count(n, 'row')} in all); "
            "remove the rows without a value"
        )
    if isinstance(column, Labels) or is_classifier(estimator):
        return column.to_cells()
    return column.values


def _finish(
    args: argparse.Namespace, model: Model, progress: Progress, seconds: float, interrupted: str
) -> int:
    """Write the model, print what was done, and return the exit code.

    `interrupted` says where Ctrl-C ended the fit, if it did. Ctrl-C that comes later waits until
    the model is written.
    """
    if args.output is not None:
        with interrupt_delayed(), write_output(args.output) as temporary:
            model.save(temporary)
    progress.close()
    return _say_what_was_done(args, model, progress, seconds, interrupted)


def _say_what_was_done(
    args: argparse.Namespace, model: Model, progress: Progress, seconds: float, interrupted: str
) -> int:
    if interrupted:
        message = _interrupted_message(args, interrupted)
    elif args.output is None:
        message = f"fitted in {seconds:.1f} s; -o FILE stores the model"
    else:
        message = f"{model_summary(model)}\n\nfitted in {seconds:.1f} s, written to {args.output}"
    if args.output is None:
        print(model_summary(model))
    if interrupted and not isinstance(progress, ProgressLog):
        progress.say("error", message)
    else:
        progress.say("done", message, **_log_facts(args, model, seconds))
    return INTERRUPTED if interrupted else SUCCESS


def _interrupted_message(args: argparse.Namespace, interrupted: str) -> str:
    where = "" if args.output is None else f"; the model so far is in {args.output}"
    return f"{interrupted}{where}{describe_resumption(args)}"


def _log_facts(args: argparse.Namespace, model: Model, seconds: float) -> dict[str, Any]:
    """Return the facts of the last line of --log-json."""
    m, validation = model.best_iteration, model.validation_risk
    return {
        "iterations": model.n_iter,
        "best_iteration": m,
        "stopped": model.stopped,
        "risk": float(model.risk[m]),
        "validation_risk": None if validation is None else float(validation[m]),
        **{f"validation_{name}": float(v[m]) for name, v in model.validation_metrics.items()},
        "terms": sum(term.chosen for term in model.terms.values()),
        "seconds": round(seconds, 3),
        "output": args.output,
    }


FIT_COMMAND = Command(
    "fit",
    "fit a model to a table",
    "Fit a model to a table and write it as JSON. Every column except the target gets a term.\n"
    "A numeric target is fitted with the squared loss unless --loss says otherwise; text and\n"
    "booleans are classes.",
    (
        "cwboost fit people.csv --target income -o model.json",
        "cwboost fit claims.parquet --target n --loss poisson --exposure years -o claims.json",
        "cwboost fit people.csv --target income --interactions auto -o model.json",
        "cwboost fit people.csv --formula 'income ~ s(age, df=4) + job' --exclude id -o model.json",
        "cwboost fit visits.csv --target ill --metric auc --patience 1e-5x10 -o model.json",
        "cat people.csv | cwboost fit - --target income --log-json -o model.json",
    ),
    add_arguments,
    run,
)
