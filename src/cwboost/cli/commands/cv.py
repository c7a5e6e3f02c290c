"""`cwboost cv`: chooses the number of iterations by cross-validation."""

from __future__ import annotations

import argparse
from pathlib import Path

from cwboost._utils.atomic_files import STANDARD, write_output
from cwboost.cli.arguments import (
    COLUMN,
    PLOT_ENDINGS,
    RATE,
    TABLE,
    THREADS,
    add_quiet,
    add_terms_and_roles,
    check_plot_name,
    iterations,
    positive,
    share,
    threads,
    whole,
    whole_positive,
)
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.fit_request import (
    check_target,
    default_loss,
    is_classification,
    needed_columns,
    read_fit_request,
)
from cwboost.frames.files import check_output, write_table
from cwboost.metrics.metric import METRICS
from cwboost.optimizers import Optimizer, as_optimizer, optimizer_names
from cwboost.progress import Progress
from cwboost.selection.cv import cv
from cwboost.selection.cv_result import CV
from cwboost.selection.cv_text import summary
from cwboost.selection.folds import KINDS, Folds

POLISH: dict[str, str | bool | None] = {"auto": "auto", "always": True, "none": None}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost cv`."""
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write means and standard errors after every iteration, as .csv, "
        ".tsv, .jsonl or .parquet; - prints CSV instead of the summary",
    )
    parser.add_argument("--plot", metavar="FILE", help=f"draw it: {', '.join(PLOT_ENDINGS)}")
    add_terms_and_roles(parser)
    add = parser.add_argument_group("folds").add_argument
    add("--folds", type=whole_positive, default=10, metavar="N",
        help="number of folds (default 10)")  # fmt: skip
    add(
        "--kind",
        choices=list(KINDS),
        default="kfold",
        help="kind of folds (default kfold); time: growing windows of the rows in order",
    )
    add("--repeats", type=whole_positive, default=1, metavar="N", help="repeat k-fold N times")
    add("--fraction", type=share, metavar="SHARE",
        help="share of the rows that subsampling trains on (default 0.5)")  # fmt: skip
    add("--groups", metavar=COLUMN, help="rows with the same value stay in the same fold")
    add("--metric", metavar="NAME", nargs="+",
        help="metric that decides instead of the risk, and further metrics to write: "
        f"{', '.join(METRICS)}, or a scorer of scikit-learn")  # fmt: skip
    add = parser.add_argument_group("how it is fitted").add_argument
    add("--optimizer", choices=optimizer_names(), default="plain",
        help="default plain; hybrid uses a fifth of each fold's training rows for "
        "validation")  # fmt: skip
    add("--rate", type=positive, help=RATE)
    add("--iterations", type=iterations, default=200, metavar="N",
        help="default 200; more if the best iteration is among the last")  # fmt: skip
    add("--no-extension", action="store_true", help="never run more than --iterations")
    add("--polish", choices=list(POLISH), default="none",
        help="also refit the terms of every fold together, and print what that gains (default "
        "none; auto: unless it takes longer than boosting)")  # fmt: skip
    add("--seed", type=whole, default=0, help="seed for the folds (default 0)")
    add("--threads", type=threads, help=THREADS)
    add_quiet(parser)


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Cross-validate, write the results and return the exit code."""
    check_target(args)
    if args.plot is not None:
        check_plot_name(args, "--plot", args.plot)
        check_output(args.plot, table=False)
    if args.output is not None:
        check_output(args.output)
    folds = _make_folds(args)
    request = read_fit_request(args, progress, [] if args.groups is None else [args.groups])
    table = request.table
    classes = is_classification(args, table, progress)
    result = cv(
        needed_columns(args, request),
        args.target,
        (args.terms or "auto") if request.learners is None else request.learners,
        args.loss or default_loss(table[args.target], classes),
        _make_optimizer(args),
        args.iterations,
        folds,
        args.groups,
        args.metric,
        weights=args.weights,
        offset=args.offset,
        exposure=args.exposure,
        extend=not args.no_extension,
        polish=POLISH[args.polish],
        random_state=args.seed,
        n_threads=args.threads,
        progress=progress,
    )
    progress.close()
    if args.output is not None:
        write_table(args.output, result.table())
    if args.plot is not None:
        from cwboost.plotting.cv import save

        with write_output(args.plot) as temporary:
            save(result, temporary, form=Path(args.plot).suffix[1:].lower())
    if args.output != STANDARD:
        print(summary(result, _final_fit(args, result)))
    return SUCCESS


def _final_fit(args: argparse.Namespace, result: CV) -> str:
    """Return the options of `cwboost fit` that fit the final model."""
    optimizer = f"--optimizer {args.optimizer} --rate {result.optimizer.rate:g}"
    polish = "" if result.polished is None or result.polished.helps else " --polish none"
    return f"{optimizer} --validation none --iterations {result.best_iteration}{polish}"


def _make_folds(args: argparse.Namespace) -> Folds:
    try:
        return Folds(args.kind, args.folds, args.repeats, args.fraction)
    except ValueError as error:
        return args.parser.error(str(error).replace("Folds: n", "--folds").replace("Folds: ", "--"))  # type: ignore[no-any-return]


def _make_optimizer(args: argparse.Namespace) -> Optimizer:
    made = as_optimizer(args.optimizer)
    return made if args.rate is None else made.set_params(rate=args.rate)


CV_COMMAND = Command(
    "cv",
    "choose the number of iterations by cross-validation",
    "Fit a model per fold, test it on the other rows after every iteration, and print which\n"
    "number of iterations is best. Then 'cwboost fit ... --validation none --optimizer plain\n"
    "--iterations N' fits all rows with this number.",
    (
        "cwboost cv people.csv --target income",
        "cwboost cv people.csv --target income --folds 5 --repeats 3 --plot cv.png -o path.csv",
        "cwboost cv visits.csv --target ill --metric auc --groups patient",
        "cwboost cv sales.csv --target sales --kind time --folds 8",
    ),
    add_arguments,
    run,
)
