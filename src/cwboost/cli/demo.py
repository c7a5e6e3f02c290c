"""`cwboost demo`: the bundled Adult table fitted, printed and written. Knows what is shown; the
work is done elsewhere.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cwboost.datasets import adult
from cwboost.fitting.fit import fit
from cwboost.losses import auc
from cwboost.model.model import Model
from cwboost.optimizers import Hybrid

from .text import curve_lines


def demo(output: Path, n_iter: int) -> int:
    """Fits the Adult table, prints the model and writes it with tables and report to a folder."""
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
        "auto",
        "binomial",
        Hybrid(rate=0.3, momentum=0.037, then="training"),
        n_iter,
        validation=held,
    )
    seconds = time.perf_counter() - began
    rows = {name: column[held] for name, column in table.items()}
    area = auc(rows["class"] == model.classes[1], model.predict(rows, kind="score"))
    print(f"fitted in {seconds:.1f} s on {int((~held).sum())} rows\n")
    print(model.summary())
    print("\nthe curves, from the least to the largest value (effect on the log odds):")
    for line in curve_lines(model):
        print(line)
    print(f"\nvalidation AUC {area:.4f} ({int(held.sum())} rows)")
    written = write_tables(model, output)
    print(f"written to {output}: {', '.join(written)}")
    report = output / "report.html"
    model.report(report, rows, title="Who earns more than 50,000 a year?")
    print(f"open {report} in a browser to look at the model")
    return 0


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
