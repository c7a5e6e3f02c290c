"""The arguments of the command line. Knows names, help and what a wrong usage is; knows nothing of
what the commands do.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from cwboost import __version__
from cwboost._utils.atomic_files import STANDARD
from cwboost.export.sql import DIALECTS
from cwboost.losses import LOSSES, Loss
from cwboost.optimizers import optimizer_names
from cwboost.plotting.registry import DISPLAYS
from cwboost.selection.folds import KINDS
from cwboost.selection.metrics import NAMED
from cwboost.terms.styles import STYLES

POINTS = 20  # about so many rows of a curve are printed
COLUMN = "COLUMN"
PICTURES = (".png", ".svg", ".pdf")  # endings of pictures
TABLE = "CSV, Parquet or JSON lines, or a folder of Parquet; - is standard input"


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    out = argparse.ArgumentParser(
        prog="cwboost",
        description="Interpretable additive models by componentwise gradient boosting.",
        epilog="examples:\n"
        "  cwboost fit people.csv --target income -o model.json\n"
        "  cwboost cv people.csv --target income\n"
        "  cwboost tune people.csv --target income -o model.json\n"
        "  cwboost show model.json\n"
        "  cwboost predict model.json new.csv -o predictions.csv\n"
        "  cwboost explain model.json new.csv --row 0\n"
        "  cwboost report model.json new.csv -o report.html\n"
        "  cwboost export model.json --to model.sql\n\n"
        "Tables are CSV, Parquet or JSON lines; '-' is standard input or output. 'cwboost COMMAND\n"
        "--help' has the options of a command and more examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    out.add_argument("--version", action="version", version=f"cwboost {__version__}")
    commands = out.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, what: str, details: str, *examples: str) -> Any:
        added = commands.add_parser(
            name,
            help=what,
            description=details,
            epilog="\n  ".join(["examples:", *examples]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(command=name, parser=added)
        return added

    _fit_arguments(command)
    _cv_arguments(command)
    _tune_arguments(command)
    _model_arguments(command)
    made = command(
        "demo",
        "fit the bundled Adult table and show what comes out",
        "Fits who earns more than 50,000 a year (Adult, UCI) with the hybrid optimizer, prints\n"
        "what it chose and writes the model, its tables and a report to look at.",
        "cwboost demo --output adult --iterations 2000",
    )
    made.add_argument("--output", type=Path, default=Path("cwboost-demo"), help="folder to write")
    made.add_argument("--iterations", type=int, default=1000, help="at most (default 1000)")
    return out


def _fit_arguments(command: Any) -> None:
    made = command(
        "fit",
        "fit a model to a table",
        "Fits a model to a table and writes it as JSON. Every column but the target gets a term.\n"
        "A target of numbers is fitted with the squared loss unless --loss says otherwise; text\n"
        "and booleans are classes.",
        "cwboost fit people.csv --target income -o model.json",
        "cwboost fit claims.parquet --target n --loss poisson --exposure years -o claims.json",
        "cwboost fit people.csv --target income --interactions auto -o model.json",
        "cwboost fit people.csv --formula 'income ~ s(age, df=4) + job' --exclude id -o model.json",
        "cat people.csv | cwboost fit - --target income --log-json -o model.json",
    )
    made.add_argument("table", metavar="TABLE", help=TABLE)
    add = made.add_argument
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="the model, as JSON; without it the summary is printed",
    )
    _what_arguments(made)
    group = made.add_argument_group("how it is fitted")
    add = group.add_argument
    add("--optimizer", choices=optimizer_names(),
        help="default hybrid; plain without validation rows")  # fmt: skip
    add("--rate", type=_positive, help="step of an iteration, 0.01 to 0.3")
    add("--iterations", type=_whole, metavar="N",
        help="at most; default 200, or many if validation rows can tell the best")  # fmt: skip
    add("--validation", metavar="ROWS", default="auto",
        help="rows held out to find the best iteration: a share such as 0.2, the column that "
        "marks them, last (fifth) or none; default 0.2 at random from 1,000 rows on")  # fmt: skip
    add("--interactions", metavar="WHICH", nargs="+", action="extend",
        help="pairs of columns that act together: auto, a number, or age:job ...")  # fmt: skip
    add("--bags", type=_whole_positive, metavar="K",
        help="the average of K fits, each without a share of the rows (that of --validation, or "
        "0.2)")  # fmt: skip
    add("--seed", type=_whole, default=0, help="for the rows held out (default 0)")
    add("--threads", type=_whole_positive, help="the result does not depend on it")
    add("--time-limit", type=_positive, metavar="SECONDS", help="stop after so long")
    add("--checkpoint", metavar="FILE",
        help="keeps what is done; the same command goes on from it if it was cut off")  # fmt: skip
    group = made.add_argument_group("what is said meanwhile")
    group.add_argument("--quiet", action="store_true", help="nothing but warnings and errors")
    group.add_argument("--log-json", action="store_true",
                       help="one JSON object per line on standard error")  # fmt: skip
    group.add_argument("--log-every", type=_whole_positive, default=10, metavar="K",
                       help="iterations from one of them to the next (default 10)")  # fmt: skip


def _what_arguments(made: Any) -> None:
    group = made.add_argument_group("what is fitted")
    add = group.add_argument
    add("--target", metavar=COLUMN, help="the column to predict")
    add("--formula", metavar="TEXT", help="target and terms, as 'y ~ s(age) + job'")
    add("--loss", type=_loss, metavar="NAME",
        help=f"{', '.join(LOSSES)}; or quantile:0.9, huber:1.5, tweedie:1.7")  # fmt: skip
    add("--terms", choices=list(STYLES), help="what columns of numbers get (default auto)")
    add("--exclude", metavar=COLUMN, nargs="+", action="extend", default=[], help="not a feature")
    add("--weights", metavar=COLUMN, help="weights of the rows")
    add("--offset", metavar=COLUMN, help="fixed part of the score")
    add("--exposure", metavar=COLUMN, help="exp(offset), for losses with a log link")


def _cv_arguments(command: Any) -> None:
    made = command(
        "cv",
        "choose the number of iterations by cross-validation",
        "Fits a model per fold, tests it on the other rows after every iteration, and prints\n"
        "which number of iterations is best; 'cwboost fit ... --validation none --optimizer plain\n"
        "--iterations N' then fits all rows so long.",
        "cwboost cv people.csv --target income",
        "cwboost cv people.csv --target income --folds 5 --repeats 3 --plot cv.png -o path.csv",
        "cwboost cv visits.csv --target ill --metric auc --groups patient",
        "cwboost cv sales.csv --target sales --kind time --folds 8",
    )
    made.add_argument("table", metavar="TABLE", help=TABLE)
    made.add_argument("-o", "--output", metavar="FILE",
                      help="means and standard errors after every iteration, as .csv, .tsv, .jsonl "
                      "or .parquet; - prints CSV instead of the summary")  # fmt: skip
    made.add_argument("--plot", metavar="FILE", help=f"the picture: {', '.join(PICTURES)}")
    _what_arguments(made)
    group = made.add_argument_group("the folds")
    add = group.add_argument
    add("--folds", type=_whole_positive, default=10, metavar="N", help="how many (default 10)")
    add("--kind", choices=list(KINDS), default="kfold",
        help="of folds (default kfold); time: growing windows of the rows in order")  # fmt: skip
    add("--repeats", type=_whole_positive, default=1, metavar="N", help="k-fold so many times")
    add("--fraction", type=_positive, metavar="SHARE",
        help="of the rows that subsampling trains on (default 0.5)")  # fmt: skip
    add("--groups", metavar=COLUMN, help="rows with the same value stay together")
    add("--metric", metavar="NAME", nargs="+",
        help="what decides instead of the risk, and what else is written: risk, "
        f"{', '.join(NAMED)}, or a scorer of scikit-learn")  # fmt: skip
    group = made.add_argument_group("how it is fitted")
    add = group.add_argument
    add("--optimizer", choices=optimizer_names(), default="plain",
        help="default plain; hybrid watches a fifth of each fold's training rows")  # fmt: skip
    add("--rate", type=_positive, help="step of an iteration, 0.01 to 0.3")
    add("--iterations", type=_whole, default=200, metavar="N",
        help="default 200; more if the best is among the last")  # fmt: skip
    add("--no-extension", action="store_true", help="no more than --iterations in any case")
    add("--seed", type=_whole, default=0, help="for the folds (default 0)")
    add("--threads", type=_whole_positive, help="the result does not depend on it")
    group = made.add_argument_group("what is said meanwhile")
    group.add_argument("--quiet", action="store_true", help="nothing but warnings and errors")


def _tune_arguments(command: Any) -> None:
    made = command(
        "tune",
        "choose df, rate and the number of iterations by cross-validation",
        "Draws many configurations at random, gives all of them some iterations and the better\n"
        "ones more (Hyperband), and fits the best one to all rows. With --file it can be\n"
        "interrupted, and goes on when it is called again.",
        "cwboost tune people.csv --target income -o model.json",
        "cwboost tune people.csv --target income --most 1000 --file tuning.jsonl -o model.json",
        "cwboost tune visits.csv --target ill --metric auc --groups patient --trials trials.csv",
    )
    made.add_argument("table", metavar="TABLE", help=TABLE)
    add = made.add_argument
    add("-o", "--output", metavar="FILE", help="the best model, fitted to all rows, as JSON")
    add("--file", metavar="FILE", help="keeps what is done, so that it can go on after a stop")
    add("--trials", metavar="FILE",
        help="all trials as a table: .csv, .tsv, .jsonl or .parquet")  # fmt: skip
    add("--plot", metavar="FILE", help=f"the picture: {', '.join(PICTURES)}")
    _what_arguments(made)
    group = made.add_argument_group("how it is chosen")
    add = group.add_argument
    add("--folds", type=_whole_positive, default=3, metavar="N", help="how many (default 3)")
    add("--groups", metavar=COLUMN, help="rows with the same value stay together")
    add("--metric", metavar="NAME",
        help=f"what decides instead of the risk: {', '.join(NAMED)}, or a scorer of "
        "scikit-learn")  # fmt: skip
    add("--least", type=_whole_positive, default=39, metavar="N",
        help="iterations of the first rung (default 39)")  # fmt: skip
    add("--most", type=_whole_positive, default=5000, metavar="N",
        help="iterations of the last (default 5000)")  # fmt: skip
    add("--factor", type=_positive, default=2.0,
        help="one in so many goes on to so many times as many iterations (default 2)")  # fmt: skip
    add("--seed", type=_whole, default=0, help="for folds and configurations (default 0)")
    add("--threads", type=_whole_positive, help="the result does not depend on it")
    group = made.add_argument_group("what is said meanwhile")
    group.add_argument("--quiet", action="store_true", help="nothing but warnings and errors")


def _model_arguments(command: Any) -> None:
    """The commands that take a model."""
    made = command(
        "predict",
        "predict the rows of a table",
        "Predicts every row of a table. The columns written are those of --keep, then\n"
        "'prediction', and for classes 'probability[<class>]' for each of them.",
        "cwboost predict model.json new.csv -o predictions.csv",
        "cwboost predict model.json new.parquet --keep id -o predictions.parquet",
        "cwboost predict model.json parts/ -o predictions/",
        "cat new.jsonl | cwboost predict model.json - --kind score | head",
    )
    _model_and_table(made)
    made.add_argument("-o", "--output", metavar="FILE", default=STANDARD,
                      help=".csv, .tsv, .jsonl or .parquet; of a folder also a folder; default: "
                      "CSV is printed")  # fmt: skip
    made.add_argument("--kind", choices=["response", "score"], default="response",
                      help="in the units of the target, or scores (default response)")  # fmt: skip
    made.add_argument("--keep", metavar=COLUMN, nargs="+", action="extend", default=[],
                      help="columns of the table to write before the predictions")  # fmt: skip

    made = command(
        "explain",
        "why one row gets its prediction",
        "Shows what every column adds to the score of one row, the largest first; with the\n"
        "intercept they sum to the score.",
        "cwboost explain model.json new.csv --row 0",
        "cwboost explain model.json new.csv --row 17 -o why.csv",
    )
    _model_and_table(made)
    made.add_argument("--row", type=_whole, default=0, metavar="N",
                      help="number of the row, from 0 (default 0)")  # fmt: skip
    made.add_argument("-o", "--output", metavar="FILE", help="write the table instead")

    made = command(
        "show",
        "what a model says",
        "Prints a model's summary and curves, or the effect of one term or column.",
        "cwboost show model.json",
        "cwboost show model.json --term age",
        "cwboost show model.json --term age -o age.csv",
    )
    made.add_argument("model", metavar="MODEL", help="written by cwboost fit")
    made.add_argument("--term", metavar="NAME", help="a term, or a column (its terms added up)")
    made.add_argument("--points", type=_whole_positive, default=POINTS, metavar="N",
                      help=f"numbers at which a curve is shown (default {POINTS})")  # fmt: skip
    made.add_argument("-o", "--output", metavar="FILE", help="write the whole effect instead")

    made = command(
        "plot",
        "draw a model, or the effect of one term",
        "Draws all effects on a page, the effect of one term or column, or another picture of the\n"
        "model (--kind). The ending of the file says what is written.",
        "cwboost plot model.json -o effects.png",
        "cwboost plot model.json age -o age.svg --scale response",
        "cwboost plot model.json --kind traces -o growth.pdf",
        "cwboost plot model.json --kind explanation --table new.csv --row 3 -o why.png",
    )
    made.add_argument("model", metavar="MODEL", help="written by cwboost fit")
    made.add_argument("term", metavar="TERM", nargs="?",
                      help="a term, or a column (its terms added up); default: all")  # fmt: skip
    made.add_argument("-o", "--output", metavar="FILE", required=True,
                      help=f"{', '.join(PICTURES)}; - prints a PNG")  # fmt: skip
    made.add_argument("--kind", choices=tuple(DISPLAYS),
                      help="of the picture (default effects)")  # fmt: skip
    made.add_argument("--scale", choices=["score", "response", "ratio"],
                      help="of effects: on the score, as predictions, or as factors")  # fmt: skip
    made.add_argument("--table", metavar="TABLE", help="of --kind explanation: where the row is")
    made.add_argument("--row", type=_whole, metavar="N", help="its number, from 0 (default 0)")
    made.add_argument("--dpi", type=_whole_positive, default=150, metavar="N",
                      help="pixels per inch of a PNG (default 150)")  # fmt: skip
    _fixed_arguments(made)

    made = command(
        "report",
        "a model as a page to look at",
        "Writes one HTML file that needs neither server nor network: effects, importance, the\n"
        "path of the fit, predictions that follow sliders. With a TABLE also figures and\n"
        "calibration on its rows, if the target is one of its columns.",
        "cwboost report model.json -o report.html",
        "cwboost report model.json new.csv -o report.html",
    )
    made.add_argument("model", metavar="MODEL", help="written by cwboost fit")
    made.add_argument("table", metavar="TABLE", nargs="?", help=TABLE)
    made.add_argument("-o", "--output", metavar="FILE", default="report.html",
                      help="the page (default report.html)")  # fmt: skip
    made.add_argument("--target", metavar=COLUMN, help="if it is not the fit's")
    made.add_argument("--weights", metavar=COLUMN, help="likewise")
    _fixed_arguments(made)
    made.add_argument("--rows", type=_whole, default=0, metavar="N",
                      help="so many first rows of TABLE can be chosen from in the page; all else "
                      "in it are sums (default 0)")  # fmt: skip
    made.add_argument("--title", help="what stands on top of the page")

    made = command(
        "export",
        "a model as SQL, ONNX, Excel, CSV tables or JSON",
        "Writes a model for other programs, by the ending of the name: .sql, .onnx, .xlsx, .json,\n"
        "or a folder for CSV tables. '-' prints the SQL.",
        "cwboost export model.json --to model.sql --dialect postgres --table people",
        "cwboost export model.json --to model.onnx",
        "cwboost export model.json --to tables/",
    )
    made.add_argument("model", metavar="MODEL", help="written by cwboost fit")
    made.add_argument("--to", metavar="FILE", required=True, help="the file or folder to write")
    made.add_argument("--dialect", choices=list(DIALECTS), help="of the SQL (default duckdb)")
    made.add_argument("--table", metavar="NAME", help="SQL: the table's name (default table)")
    made.add_argument("--keep", metavar=COLUMN, nargs="+", action="extend",
                      help="SQL: columns of the table that come first in the result")  # fmt: skip
    made.add_argument("--kind", choices=["response", "score"],
                      help="SQL, ONNX: what is computed (default response)")  # fmt: skip
    _fixed_arguments(made)


def _model_and_table(made: Any) -> None:
    made.add_argument("model", metavar="MODEL", help="written by cwboost fit")
    made.add_argument("table", metavar="TABLE", help=TABLE)
    _fixed_arguments(made)


def _fixed_arguments(made: Any) -> None:
    hint = "for models fitted in Python with arrays of them, or to read it from another column"
    made.add_argument("--offset", metavar=COLUMN, help=hint)
    made.add_argument("--exposure", metavar=COLUMN, help="likewise")


def _number(text: str, make: Any, least: float, what: str) -> Any:
    try:
        value = make(text)
    except ValueError:
        value = float("nan")
    if not least <= value < float("inf") or (make is float and value == least):
        raise argparse.ArgumentTypeError(f"expected {what}, got {text!r}")
    return value


def _positive(text: str) -> float:
    return float(_number(text, float, 0.0, "a positive number"))


def _whole(text: str) -> int:
    return int(_number(text, int, 0, "a whole number >= 0"))


def _whole_positive(text: str) -> int:
    return int(_number(text, int, 1, "a whole number >= 1"))


def _loss(text: str) -> Loss:
    """A loss by its name, with its parameter behind a colon."""
    name, colon, parameter = text.partition(":")
    if name not in LOSSES:
        raise argparse.ArgumentTypeError(f"expected one of {', '.join(LOSSES)}; got {text!r}")
    made = LOSSES[name]
    try:
        if not colon:
            return made()
        if made.target == "numbers":
            return made(float(parameter))  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    raise argparse.ArgumentTypeError(f"{text!r}: this loss takes no number")
