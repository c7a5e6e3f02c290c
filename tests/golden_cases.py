"""The golden fits of R's compboost and mboost, converted to cwboost's conventions.

This module handles the conventions of both packages (order and names of learners, factors in
losses and rates, risk sums, rescaled weights, order of levels) and the paths of the files.
Does not know about the oracle or cwboost: specs are built from any namespace with the public names.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

HERE = Path(__file__).parent / "golden"
LOSSES = {"gaussian": "squared"}  # other names are the same
# tolerances that match the precision of the references, see golden/README.md
TOLERANCE = {"risk": 1e-8, "scores": 1e-7, "coef": 1e-5, "smoothing": 1e-5}


class Spline(SimpleNamespace): ...


class Category(SimpleNamespace): ...


class Plain(SimpleNamespace): ...


class Accelerated(SimpleNamespace): ...


PLAIN_SPECS = SimpleNamespace(
    Spline=Spline, Category=Category, Plain=Plain, Accelerated=Accelerated
)


@dataclass(frozen=True)
class Case:
    """One golden fit: first its settings, then the expected results, in cwboost's conventions.

    Names of learners are cwboost's default names: "x1", "cat1", "cat1=a" for a binary level.
    """

    name: str
    columns: dict[str, np.ndarray]  # float, or str for categories; features only
    y: np.ndarray  # float, or the labels "neg" / "pos"
    weights: np.ndarray | None
    learner_specs: list[tuple[str, dict[str, Any]]]  # (class, keywords), in the reference's order
    optimizer_spec: tuple[str, dict[str, Any]]
    loss: str
    tau: float
    delta: float
    n_iter: int
    bins: str
    start: float
    scale: float
    names: list[str]  # of all learners, in order

    choices: list[str]
    corrections: list[str]  # empty for plain boosting
    risk: np.ndarray  # (n_iter + 1,), weighted mean loss
    coef: dict[str, np.ndarray]  # of learners ever chosen, levels sorted
    coef_after: dict[int, dict[str, np.ndarray]]  # the same after the given number of iterations
    smoothing: dict[str, float]  # of all learners
    knots: dict[str, np.ndarray]  # of splines, outer knots included; empty for mboost
    scores: np.ndarray  # first 20 rows, at the bins
    predictions: np.ndarray  # first 20 rows, at raw values, link scale
    response: np.ndarray | None  # first 20 rows, probabilities (binomial)

    def learners(self, specs: Any = PLAIN_SPECS) -> list[Any]:
        """Return the learner specs, built from a namespace such as the module cwboost."""
        return [getattr(specs, kind)(**keywords) for kind, keywords in self.learner_specs]

    def optimizer(self, specs: Any = PLAIN_SPECS) -> Any:
        kind, keywords = self.optimizer_spec
        return getattr(specs, kind)(**keywords)


@cache
def read_table(csv_name: str) -> dict[str, np.ndarray]:
    """Return the columns of a CSV file: float where every cell is a number, else str."""
    with (HERE / "data" / csv_name).open(newline="") as file:
        header, *rows = csv.reader(file)
    table = {}
    for name, cells in zip(header, zip(*rows, strict=True), strict=True):
        try:
            table[name] = np.array([float(v) for v in cells])
        except ValueError:
            table[name] = np.array(cells, dtype=object)
    return table


def case_names() -> list[str]:
    return sorted(path.stem for path in (HERE / "fits").glob("*.json"))


def public_name(learner_id: str) -> str:
    """Convert an id: `x1_spline` -> x1, `cat1_ridge` -> cat1, `cat1_a_binary` -> cat1=a.

    In mboost the id is the column: x1.
    """
    column, *rest = learner_id.split("_")
    return f"{column}={rest[0]}" if rest and rest[-1] == "binary" else column


def factors(fit: dict[str, Any]) -> tuple[float, float, float]:
    """Return the factors (rate, score, risk) by which the numbers in the file are multiplied.

    compboost's quantile loss and gradient are twice the check loss: double rate, half risk.
    mboost's squared risk is the sum of (y - f)^2. Its binomial loss is log(1 + e^{-2yf}) / log 2 on
    half-logits with the risk reported without the log 2: scores 2 f, and
    2 f += 2 nu b(2 r / log 2), so cwboost's rate is 4 nu / log 2.
    mboost's weights are rescaled to sum n, so its risk sum over n is the weighted mean.
    """
    loss = fit["loss"]
    if fit["algo"].startswith("compboost"):
        return (2.0, 1.0, 0.5) if loss == "quantile" else (1.0, 1.0, 1.0)
    if loss == "binomial":
        return 4 / np.log(2), 2.0, 1 / fit["n"]
    return 1.0, 1.0, (0.5 if loss == "gaussian" else 1.0) / fit["n"]


def learner_specs(fit: dict[str, Any], columns: dict) -> list[tuple[str, dict[str, Any]]]:
    """Return the specs in the order in which the reference visits its learners.

    compboost visits learners in byte-wise order of their ids, mboost in the order listed.
    """
    cat, spline = fit["options"]["cat"], {k: fit[k] for k in ("degree", "differences", "df")}
    spline["knots"] = fit["n_knots"]
    spline["tails"] = "smooth"
    spline["extrapolate"] = "constant" if fit["algo"].startswith("compboost") else "linear"
    specs = {}
    for column in fit["features"]:
        if columns[column].dtype.kind == "f":
            specs[f"{column}_spline"] = ("Spline", {"column": column, **spline})
        elif cat == "binary":  # the ids of its levels are adjacent, and sorted like the levels
            specs[f"{column}_"] = ("Category", {"column": column, "kind": "binary"})
        else:
            df = min(fit["options"]["dfcat"] or fit["df"], len(set(columns[column])))
            keywords = {"column": column, "df": df, "kind": "ridge"}
            specs[f"{column}_ridge"] = ("Category", keywords)
    ids = sorted(specs) if fit["algo"].startswith("compboost") else list(specs)
    return [specs[i] for i in ids]


def all_names(specs: list[tuple[str, dict[str, Any]]], columns: dict) -> list[str]:
    names = []
    for _, keywords in specs:
        column = keywords["column"]
        binary = keywords.get("kind") == "binary"
        names += [f"{column}={v}" for v in sorted(set(columns[column]))] if binary else [column]
    return names


def coefficients(fit: dict[str, Any], found: dict[str, list[float]]) -> dict[str, np.ndarray]:
    """Return the coefficients of each learner, with sorted levels.

    compboost keeps levels in order of appearance (`dictionary`), mboost sorts them.
    """
    score, out = factors(fit)[1], {}
    for learner_id, values in found.items():
        theta = score * np.array(values, float)
        position = fit.get("dictionary", {}).get(learner_id)
        if position is not None:
            theta = theta[[position[level][0] for level in sorted(position)]]
        out[public_name(learner_id)] = theta
    return out


def load(name: str) -> Case:
    """Return the golden fit that is stored under this file name."""
    fit = json.loads((HERE / "fits" / f"{name}.json").read_text())
    table = read_table(fit["csv"])
    columns = {column: table[column] for column in fit["features"]}
    options, algo = fit["options"], fit["algo"]
    rate, score, risk = factors(fit)
    weights = table[options["weights"]] if options["weights"] else None
    # lambda scales with A, and mboost rescales its weights to sum n
    lambda_factor = 1.0 if weights is None else weights.sum() / np.sum(weights > 0)
    specs = learner_specs(fit, columns)
    if "acwb" in algo:
        optimizer = ("Accelerated", {"rate": rate * fit["nu"], "momentum": fit["momentum"]})
    else:
        optimizer = ("Plain", {"rate": rate * fit["nu"]})
    response = fit.get("predict_response_first20")
    return Case(
        name=name,
        columns=columns,
        y=table[fit["target"]],
        weights=weights,
        learner_specs=specs,
        optimizer_spec=optimizer,
        loss=LOSSES.get(fit["loss"], fit["loss"]),
        tau=options["tau"],
        delta=options["delta"],
        n_iter=fit["M"],
        bins="sqrt" if algo.endswith("-bin") else "exact",
        start=score * fit["offset"][0],
        scale=1.0,  # the references have no step scale
        names=all_names(specs, columns),
        choices=[public_name(i) for i in fit["selected"]],
        corrections=[public_name(i) for i in fit.get("selected_momentum", [])],
        risk=risk * np.array(fit["risk"]),
        coef=coefficients(fit, fit["coef"]),
        coef_after={
            int(m): coefficients(fit, found) for m, found in fit.get("coef_after", {}).items()
        },
        smoothing={public_name(i): lambda_factor * v[0] for i, v in fit["lambda"].items()},
        knots={public_name(i): np.array(v) for i, v in fit.get("knots", {}).items()},
        scores=score * np.array(fit["train_scores_first20"]),
        predictions=score * np.array(fit["predict_first20"]),
        response=None if response is None else np.array(response),
    )


def cases() -> Iterator[Case]:
    """Yield all golden fits."""
    for name in case_names():
        yield load(name)
