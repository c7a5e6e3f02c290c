"""The command line. Knows arguments, files and printing; the work is done elsewhere."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .datasets import adult
from .fit import fit
from .model import Model
from .optimizers import Hybrid
from .table import Floats

BLOCKS = "▁▂▃▄▅▆▇█"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    parser = argparse.ArgumentParser(
        prog="cwboost", description="Interpretable additive models by componentwise boosting."
    )
    parser.add_argument("--version", action="version", version=f"cwboost {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    show = commands.add_parser(
        "demo",
        help="fit the bundled Adult table and show what comes out",
        description="Fits who earns more than 50,000 a year (Adult, UCI) with the hybrid "
        "optimizer, prints what it chose and writes the model and its tables.",
        epilog="example: cwboost demo --output adult --iterations 2000",
    )
    show.add_argument("--output", type=Path, default=Path("cwboost-demo"), help="folder to write")
    show.add_argument("--iterations", type=int, default=1000, help="at most (default 1000)")
    show.set_defaults(run=lambda a: demo(a.output, a.iterations))
    chosen = parser.parse_args(arguments)
    try:
        return int(chosen.run(chosen))
    except (ValueError, TypeError, OSError) as error:
        print(f"cwboost: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cwboost: interrupted", file=sys.stderr)
        return 130


def demo(output: Path, n_iter: int) -> int:
    """Fits the Adult table, prints the model and writes it with its tables to a folder."""
    output.mkdir(parents=True, exist_ok=True)
    table = adult()
    del table["fnlwgt"]  # a sampling weight, not a property of a person
    held = np.random.default_rng(0).random(len(table["class"])) < 0.3
    print(
        f"Adult: {len(held)} people, {len(table) - 1} columns; who earns more than 50,000 a year?"
    )
    began = time.perf_counter()
    model = fit(
        table,
        "class",
        loss="binomial",
        optimizer=Hybrid(then="training"),
        n_iter=n_iter,
        validation=held,
    )
    seconds = time.perf_counter() - began
    rows = {name: column[held] for name, column in table.items()}
    area = auc(rows["class"] == model.classes[1], model.predict(rows, kind="score"))
    print(f"fitted in {seconds:.1f} s on {int((~held).sum())} rows\n")
    print(model.summary())
    print("\nthe curves, from the least to the largest value (effect on the log odds):")
    for name in model.importance():
        column = model.terms[name].columns[0]
        if model.columns[column].kind == "numbers":
            shown = model.effect(name, 48)
            known = ~np.isnan(shown[column])
            low, high = shown[column][known][0], shown[column][known][-1]
            print(f"  {name:16} {low:>6g} {sparkline(shown['effect'][known])} {high:g}")
    print(f"\nvalidation AUC {area:.4f} ({int(held.sum())} rows)")
    written = write_tables(model, output)
    print(f"written to {output}: {', '.join(written)}")
    return 0


def sparkline(values: Floats) -> str:
    """A curve in one line of text.

    Examples
    --------
    >>> sparkline(np.array([0.0, 1.0, 2.0, 1.0]))
    '▁▅█▅'
    """
    low, high = float(values.min()), float(values.max())
    heights = (values - low) / (high - low or 1.0) * (len(BLOCKS) - 1)
    return "".join(BLOCKS[int(h + 0.5)] for h in heights)


def auc(positive: Any, score: Floats) -> float:
    """Share of pairs of a positive and a negative row that the score puts in order, ties half.

    Examples
    --------
    >>> auc(np.array([True, False, True]), np.array([2.0, 1.0, 1.0]))
    0.75
    """
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    n = int(np.sum(positive))
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * (len(score) - n)))


def write_tables(model: Model, output: Path) -> list[str]:
    """The model as JSON; its importance, effects and risks as CSV."""
    model.save(output / "model.json")
    _write_csv(output / "importance.csv", ("term", "importance"), model.importance().items())
    effects = (
        (name, *row)
        for name in model.importance()
        for row in zip(*model.effect(name, 100).values(), strict=True)
    )
    _write_csv(output / "effects.csv", ("term", "value", "effect"), effects)
    validation = model.validation_risk
    assert validation is not None
    risks = zip(range(model.n_iter + 1), model.risk, validation, strict=True)
    _write_csv(output / "risk.csv", ("iteration", "training", "validation"), risks)
    return ["model.json", "importance.csv", "effects.csv", "risk.csv"]


def _write_csv(file: Path, names: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
