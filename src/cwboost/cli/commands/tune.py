"""`cwboost tune`: chooses hyperparameters and the number of iterations by cross-validation."""

from __future__ import annotations

import argparse
from pathlib import Path

from cwboost._utils.atomic_files import write_output
from cwboost._utils.text import count
from cwboost.cli.arguments import (
    COLUMN,
    PLOT_ENDINGS,
    TABLE,
    THREADS,
    add_quiet,
    add_terms_and_roles,
    check_plot_name,
    positive,
    threads,
    whole,
    whole_between,
    whole_positive,
)
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import INTERRUPTED, SUCCESS
from cwboost.cli.fit_request import (
    check_target,
    default_loss,
    is_classification,
    needed_columns,
    read_fit_request,
)
from cwboost.cli.written_files import describe_resumption
from cwboost.frames.files import check_output, write_table
from cwboost.metrics.metric import METRICS
from cwboost.progress import Progress
from cwboost.selection.tuning.schedules import MAX_ITERATIONS, Hyperband
from cwboost.selection.tuning.tune import Tuning, TuningInterrupted, tune


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost tune`."""
    parser.add_argument("table", metavar="TABLE", help=TABLE)
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="write the best model, fitted to all rows, as JSON")
    add("--file", metavar="FILE", help="log the trials here; the same command resumes from it")
    add("--trials", metavar="FILE",
        help="write all trials as a table: .csv, .tsv, .jsonl or .parquet")  # fmt: skip
    add("--plot", metavar="FILE", help=f"draw the trials: {', '.join(PLOT_ENDINGS)}")
    add_terms_and_roles(parser)
    add = parser.add_argument_group("how it is chosen").add_argument
    budget = whole_between(1, MAX_ITERATIONS)
    add("--folds", type=whole_positive, default=3, metavar="N",
        help="number of folds (default 3)")  # fmt: skip
    add("--groups", metavar=COLUMN, help="rows with the same value stay in the same fold")
    add("--metric", metavar="NAME",
        help=f"metric that decides (default risk): {', '.join(METRICS)}, or a scorer of "
        "scikit-learn")  # fmt: skip
    add("--least", type=budget, default=39, metavar="N",
        help="iterations of the first rung (default 39)")  # fmt: skip
    add("--most", type=budget, default=5000, metavar="N",
        help="iterations of the last rung (default 5000)")  # fmt: skip
    add("--factor", type=positive, default=2.0,
        help="each rung keeps 1/FACTOR of the configurations and gives them FACTOR times the "
        "iterations (default 2)")  # fmt: skip
    add("--seed", type=whole, default=0, help="seed for folds and configurations (default 0)")
    add("--threads", type=threads, help=THREADS)
    add_quiet(parser)


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Tune, write the results and return the exit code."""
    check_target(args)
    if args.plot is not None:
        check_plot_name(args, "--plot", args.plot)
    files = ((args.output, False), (args.plot, False), (args.file, False), (args.trials, True))
    for file, is_table in files:
        if file is not None:
            check_output(file, table=is_table)
    interrupted = False
    try:
        tuning = _run_trials(args, progress)
    except TuningInterrupted as stop:
        interrupted, tuning = True, stop.tuning
        done = count(len(tuning.trials), "trial")
        progress.say("error", f"interrupted after {done}{describe_resumption(args)}")
    if args.trials is not None and tuning.trials:
        write_table(args.trials, tuning.table())
    if args.plot is not None and tuning.trials:
        from cwboost.plotting.tuning import save

        with write_output(args.plot) as temporary:
            save(tuning, temporary, form=Path(args.plot).suffix[1:].lower())
    if args.output is not None and not interrupted:
        model = tuning.fit(progress=progress)
        with write_output(args.output) as temporary:
            model.save(temporary)
    progress.close()
    if tuning.trials:
        print(tuning.summary())
    return INTERRUPTED if interrupted else SUCCESS


def _run_trials(args: argparse.Namespace, progress: Progress) -> Tuning:
    try:
        schedule = Hyperband(args.least, args.most, args.factor)
    except ValueError as error:
        args.parser.error(str(error).replace("Hyperband: ", "--"))
    request = read_fit_request(args, progress, [] if args.groups is None else [args.groups])
    table = request.table
    classes = is_classification(args, table, progress)
    return tune(
        needed_columns(args, request),
        args.target,
        learners=(args.terms or "auto") if request.learners is None else request.learners,
        loss=args.loss or default_loss(table[args.target], classes),
        folds=args.folds,
        metric=args.metric,
        schedule=schedule,
        random_state=args.seed,
        n_threads=args.threads,
        file=args.file,
        weights=args.weights,
        offset=args.offset,
        exposure=args.exposure,
        groups=args.groups,
        progress=progress,
    )


TUNE_COMMAND = Command(
    "tune",
    "choose df, rate and the number of iterations by cross-validation",
    "Draw many configurations at random, give all of them some iterations and the better ones\n"
    "more (Hyperband), and fit the best one to all rows. With --file an interrupted run resumes\n"
    "when the command is called again.",
    (
        "cwboost tune people.csv --target income -o model.json",
        "cwboost tune people.csv --target income --most 1000 --file tuning.jsonl -o model.json",
        "cwboost tune visits.csv --target ill --metric auc --groups patient --trials trials.csv",
    ),
    add_arguments,
    run,
)
