"""`cwboost demo`: fits the bundled Adult table, prints the model and writes it to a folder."""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cwboost._utils.atomic_files import open_text, replace_file
from cwboost.cli.arguments import iterations
from cwboost.cli.command import Command
from cwboost.cli.exit_codes import SUCCESS
from cwboost.cli.model_text import curve_lines
from cwboost.datasets import adult
from cwboost.fitting.fit import fit
from cwboost.losses import auc
from cwboost.model.model import Model
from cwboost.optimizers import Plain
from cwboost.progress import Progress

TITLE = "Who earns more than 50,000 a year?"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `cwboost demo`."""
    parser.add_argument("--output", type=Path, default=Path("cwboost-demo"),
                        help="folder to write (default cwboost-demo)")  # fmt: skip
    parser.add_argument("--iterations", type=iterations, default=1000, metavar="N",
                        help="most iterations (default 1000)")  # fmt: skip


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Fit, print and write the model, and return the exit code."""
    del progress
    args.output.mkdir(parents=True, exist_ok=True)
    table = adult()
    del table["fnlwgt"]  # a sampling weight, not a property of a person
    held_out = np.random.default_rng(0).random(len(table["class"])) < 0.3
    print(f"Adult: {len(held_out)} people, {len(table) - 1} columns; {TITLE[0].lower()}{TITLE[1:]}")
    began = time.perf_counter()
    model = fit(
        table,
        "class",
        "auto",
        "binomial",
        Plain(rate=0.5),
        args.iterations,
        validation=held_out,
    )
    seconds = time.perf_counter() - began
    rows = {name: column[held_out] for name, column in table.items()}
    area = auc(rows["class"] == model.classes[1], model.predict(rows, kind="score"))
    print(f"fitted in {seconds:.1f} s on {int((~held_out).sum())} rows\n")
    print(model.summary())
    print("\ncurves from the smallest to the largest value (effect on the log odds):")
    for line in curve_lines(model):
        print(line)
    print(f"\nvalidation AUC {area:.4f} ({int(held_out.sum())} rows)")
    print(f"written to {args.output}: {', '.join(_write_tables(model, args.output))}")
    report = args.output / "report.html"
    model.report(report, rows, title=TITLE)
    print(f"open {report} in a browser to explore the model")
    return SUCCESS


def _write_tables(model: Model, folder: Path) -> list[str]:
    """Write the model as JSON, and its sizes, effects and risks as CSV; return the names."""
    model.save(folder / "model.json")
    _write_csv(folder / "importance.csv", ("column", "size"), model.importance().items())
    effects = (
        (name, *row)
        for name in model.importance(by="term")
        for row in zip(*model.effect(name, 100).values(), strict=True)
    )
    _write_csv(folder / "effects.csv", ("term", "value", "effect"), effects)
    validation = model.validation_risk
    assert validation is not None
    risks = zip(range(model.n_iter + 1), model.risk, validation, strict=True)
    _write_csv(folder / "risk.csv", ("iteration", "training", "validation"), risks)
    return ["model.json", "importance.csv", "effects.csv", "risk.csv"]


def _write_csv(file: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    with replace_file(file) as temporary, open_text(temporary) as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows(rows)


DEMO_COMMAND = Command(
    "demo",
    "fit the bundled Adult table and show the results",
    "Fit who earns more than 50,000 a year (Adult, UCI), print what\n"
    "it chose, and write the model, its tables and a report.",
    ("cwboost demo --output adult --iterations 2000",),
    add_arguments,
    run,
)
