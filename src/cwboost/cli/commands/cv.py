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
    positive,
    whole,
    whole_positive,
)
from cwboost.cli.command import SUCCESS, Command
from cwboost.cli.fit_request import (
    check_target,
    default_loss,
    is_classification,
    read_fit_request,
)
from cwboost.frames.files import check_output, write_table
from cwboost.optimizers import Optimizer, as_optimizer, optimizer_names
from cwboost.progress import Progress
from cwboost.selection.cv import cv
from cwboost.selection.folds import KINDS, Folds
from cwboost.selection.metrics import METRICS


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
    add("--fraction", type=positive, metavar="SHARE",
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
    add("--iterations", type=whole, default=200, metavar="N",
        help="default 200; more if the best iteration is among the last")  # fmt: skip
    add("--no-extension", action="store_true", help="never run more than --iterations")
    add("--seed", type=whole, default=0, help="seed for the folds (default 0)")
    add("--threads", type=whole_positive, help=THREADS)
    add_quiet(parser)


def run(a: argparse.Namespace, bar: Progress) -> int:
    """Cross-validate, write the results and return the exit code."""
    check_target(a)
    if a.plot is not None:
        check_plot_name(a, "--plot", a.plot)
    if a.output is not None:
        check_output(a.output)
    folds = _make_folds(a)
    request = read_fit_request(a, bar, [] if a.groups is None else [a.groups])
    table, roles = request.table, (a.target, a.weights, a.offset, a.exposure, a.groups)
    names = dict.fromkeys([*request.features, *(name for name in roles if name is not None)])
    classes = is_classification(a, table, bar)
    result = cv(
        table.select(list(names)),
        a.target,
        (a.terms or "auto") if request.learners is None else request.learners,
        a.loss or default_loss(table[a.target], classes),
        _make_optimizer(a),
        a.iterations,
        folds,
        a.groups,
        a.metric,
        weights=a.weights,
        offset=a.offset,
        exposure=a.exposure,
        extend=not a.no_extension,
        random_state=a.seed,
        n_threads=a.threads,
        progress=bar,
    )
    bar.close()
    if a.output is not None:
        write_table(a.output, result.table())
    if a.plot is not None:
        from cwboost.plotting.cv import save

        with write_output(a.plot) as temporary:
            save(result, temporary, form=Path(a.plot).suffix[1:].lower())
    if a.output != STANDARD:
        in_python = f"cb.fit(..., n_iter={result.best_iteration})"
        print(result.summary().replace(in_python, f"--iterations {result.best_iteration}"))
    return SUCCESS


def _make_folds(a: argparse.Namespace) -> Folds:
    try:
        return Folds(a.kind, a.folds, a.repeats, a.fraction)
    except ValueError as error:
        return a.parser.error(str(error).replace("Folds: n must", "--folds must"))  # type: ignore[no-any-return]


def _make_optimizer(a: argparse.Namespace) -> Optimizer:
    made = as_optimizer(a.optimizer)
    return made if a.rate is None else made.set_params(rate=a.rate)


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
