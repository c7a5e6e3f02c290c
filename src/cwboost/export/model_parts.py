"""The parts of a model file, read and checked: terms, path, bags and bands.

The class of a basis says whether it fits its encoder and column. How single records are read is in
plain_data.py.
"""

from __future__ import annotations

import math
from dataclasses import fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost.frames.columns import Floats
from cwboost.model.path import Ints, Path
from cwboost.model.records import Bags, Bands, ColumnFacts, Edit, Polish
from cwboost.model.term import Term
from cwboost.optimizers import Optimizer
from cwboost.terms.bases import Basis
from cwboost.terms.encoders import Encoder
from cwboost.terms.learners import Learner
from cwboost.terms.plan import Plan

from .plain_data import check_keys, read, require, unpack

TERM_KEYS = (
    "name",
    "learner",
    "encoders",
    "basis",
    "net_df_aimed_at",
    "smoothing",
    "df",
    "net_df",
    "coef",
)


def read_bags(data: Any, terms: dict[str, Term], q: int) -> Bags:
    check_keys(data, [f.name for f in fields(Bags)], "bags")
    starts = [
        read(Floats, row, f"bags.start[{b}]")
        for b, row in enumerate(read(list, data["start"], "bags.start"))
    ]
    n_bags = len(starts)
    fits = n_bags >= 2 and all(len(row) == q for row in starts)
    require(fits, "bags.start", f"expected {q} numbers for each of 2 or more bags", data["start"])
    per_bag: dict[str, tuple[Any, ...]] = {
        "n_iter": read(tuple[int, ...], data["n_iter"], "bags.n_iter"),
        "best_iteration": read(tuple[int, ...], data["best_iteration"], "bags.best_iteration"),
        "validation_risk": read(tuple[float, ...], data["validation_risk"], "bags.validation_risk"),
    }
    chosen = read(dict[str, tuple[int, ...]], data["chosen"], "bags.chosen")
    counts = {f"chosen.{name}": found for name, found in chosen.items()}
    for key, found in (per_bag | counts).items():
        require(len(found) == n_bags, f"bags.{key}", f"expected {n_bags} numbers", list(found))
    coef = _read_coef(data["coef"], terms, (n_bags,), "bags.coef")
    require(list(coef) == list(chosen), "bags.chosen", "expected the terms of coef", [*chosen])
    return Bags(
        np.array(starts),
        MappingProxyType(coef),
        MappingProxyType(chosen),
        **per_bag,
        risk_at_start=read(float, data["risk_at_start"], "bags.risk_at_start"),
    )


def read_bands(data: Any, terms: dict[str, Term]) -> Bands:
    check_keys(data, [f.name for f in fields(Bands)], "bands")
    n_iter: tuple[int, ...] = read(tuple[int, ...], data["n_iter"], "bands.n_iter")
    require(len(n_iter) >= 2, "bands.n_iter", "expected 2 or more numbers", list(n_iter))
    factors = [read(float, data[key], f"bands.{key}") for key in ("longer", "inflation")]
    center = _read_coef(data["center"], terms, (), "bands.center")
    coef = _read_coef(data["coef"], terms, (len(n_iter),), "bands.coef", "<f4")
    fits = list(center) == list(coef)
    require(fits, "bands.center", "expected the terms of coef", list(center))
    return Bands(MappingProxyType(center), MappingProxyType(coef), n_iter, *factors)


def read_polish(data: Any, terms: dict[str, Term], q: int) -> Polish:
    """Return the record of a polished model."""
    check_keys(data, [f.name for f in fields(Polish)], "polish")
    weight: float = read(float, data["weight"], "polish.weight")
    require(0 <= weight <= 1, "polish.weight", "expected a number from 0 to 1", weight)
    start: Floats = read(Floats, data["boosted_start"], "polish.boosted_start")
    require(len(start) == q, "polish.boosted_start", f"expected {q} numbers", len(start))
    numbers: dict[str, Any] = {
        "edf": read(dict[str, float], data["edf"], "polish.edf"),
        "smoothing": read(dict[str, tuple[float, ...]], data["smoothing"], "polish.smoothing"),
    }
    for key, found in numbers.items():
        for name in found:
            require(name in terms, f"polish.{key}.{name}", "expected a term of the model", name)
    means = _read_coef(data["boosted_means"], terms, (), "polish.boosted_means", width=1)
    factors = {}
    for key, packed in read(dict, data["factors"], "polish.factors").items():
        where = f"polish.factors.{key}"
        own = _read_factors(packed, terms, where)
        fits = len({factor.shape[1] for factor in own.values()}) <= 1
        require(fits, where, "expected factors of the same width", [*own])
        factors[key] = MappingProxyType(own)
    repeated = read(int, data["repeated"], "polish.repeated")
    return Polish(
        weight=weight,
        boosted_start=start,
        boosted_means=MappingProxyType({name: mean[:, 0] for name, mean in means.items()}),
        differences=MappingProxyType(
            _read_coef(data["differences"], terms, (), "polish.differences")
        ),
        edf=MappingProxyType(numbers["edf"]),
        smoothing=MappingProxyType(numbers["smoothing"]),
        dispersion=read(float, data["dispersion"], "polish.dispersion"),
        factors=MappingProxyType(factors),
        reason=read(str, data["reason"], "polish.reason"),
        # Means are stored of models that were fitted to all rows after boosting.
        repeated=repeated if means and not weight else None,
    )


def _read_factors(data: Any, terms: dict[str, Term], where: str) -> dict[str, NDArray[Any]]:
    """Return the factors of the terms of a column: (n_coef, r) each, of any width r."""
    out = {}
    for name, packed in read(dict[str, str], data, where).items():
        require(name in terms, f"{where}.{name}", "expected a term of the model", name)
        n_coef = terms[name].plan.basis.n_coef
        numbers = unpack(packed, None, f"{where}.{name}", "<f4")
        fits = len(numbers) % n_coef == 0
        require(fits, f"{where}.{name}", f"expected rows of {n_coef} coefficients", len(numbers))
        out[name] = numbers.reshape(n_coef, -1)
    return out


def _read_coef(
    data: Any,
    terms: dict[str, Term],
    leading: tuple[int, ...],
    where: str,
    dtype: str = "<f8",
    width: int | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the coefficients of some terms, with the leading axes of bags or draws.

    `width` is their number of outputs, by default the model's.
    """
    out = {}
    for name, packed in read(dict[str, str], data, where).items():
        require(name in terms, f"{where}.{name}", "expected a term of the model", name)
        n_coef, q = terms[name].beta.shape
        shape = (*leading, n_coef, q if width is None else width)
        numbers = unpack(packed, int(np.prod(shape)), f"{where}.{name}", dtype)
        out[name] = numbers.reshape(shape)
    return out


def read_terms(items: list[Any], q: int, columns: dict[str, ColumnFacts]) -> dict[str, Term]:
    terms: dict[str, Term] = {}
    for i, item in enumerate(items):
        where = f"terms[{i}]"
        term = _read_term(item, q, columns, where)
        fits = term.name not in terms
        require(fits, f"{where}.name", "expected a name that is not used twice", term.name)
        terms[term.name] = term
    return terms


def _read_term(item: Any, q: int, columns: dict[str, ColumnFacts], where: str) -> Term:
    check_keys(item, TERM_KEYS, where)
    name = read(str, item["name"], f"{where}.name")
    learner: Learner = read(Learner, item["learner"], f"{where}.learner")
    encoders = read(tuple[Encoder, ...], item["encoders"], f"{where}.encoders")
    basis: Basis = read(Basis, item["basis"], f"{where}.basis")
    for key, per_column in (("encoders", encoders), ("basis", basis.margins)):
        fits = len(per_column) == len(learner.columns)
        require(fits, f"{where}.{key}", "expected one per column", item[key])
    for column, encoder, margin in zip(learner.columns, encoders, basis.margins, strict=True):
        require(column in columns, f"{where}.learner", "expected a column of the model", column)
        _check_margin(columns[column], encoder, margin, f"{where}.encoders")
    coef = [
        read(Floats, row, f"{where}.coef[{o}]")
        for o, row in enumerate(read(list, item["coef"], f"{where}.coef"))
    ]
    fits = len(coef) == q and all(len(row) == basis.n_coef for row in coef)
    require(fits, f"{where}.coef", f"expected {q} times {basis.n_coef} numbers", item["coef"])
    net_df_aimed_at = read(float | None, item["net_df_aimed_at"], f"{where}.net_df_aimed_at")
    smoothing, df, net_df = (
        read(float, item[key], f"{where}.{key}") for key in ("smoothing", "df", "net_df")
    )
    require(smoothing >= 0, f"{where}.smoothing", "expected 0 or more", smoothing)
    plan = Plan(name, learner, encoders, basis, net_df_aimed_at)
    return Term(plan, np.array(coef).T.copy(), smoothing, df, net_df)


def _check_margin(column: ColumnFacts, encoder: Encoder, basis: Basis, where: str) -> None:
    """Check that the basis takes the values of its encoder, and the encoder its column."""
    if encoder.is_numeric:
        require(column.kind == "numbers", where, "expected levels for a text column", encoder)
    problem = basis.problem_with(encoder)
    require(problem is None, where, problem or "", encoder)


def read_edits(data: Any, terms: dict[str, Term], q: int) -> tuple[Edit, ...]:
    edits: tuple[Edit, ...] = read(tuple[Edit, ...], data, "edits")
    for i, edit in enumerate(edits):
        where = f"edits[{i}]"
        require(len(edit.shift) == q, f"{where}.shift", f"expected {q} numbers", edit.shift)
        fits = edit.term in terms or any(t.columns == (edit.term,) for t in terms.values())
        require(fits, f"{where}.term", "expected a term or column of the model", edit.term)
    return edits


def read_path(data: Any, optimizer: Optimizer, sizes: list[int], q: int) -> Path:
    """Return the path; `sizes` are the numbers of coefficients of the terms."""
    check_keys(data, [f.name for f in fields(Path)], "path")
    m = len(read(list, data["choices"], "path.choices"))
    switched, rewound = (read(int, data[k], f"path.{k}") for k in ("switched_after", "rewound_to"))
    did = optimizer.needs_validation and switched >= 0
    fits = 0 <= rewound <= switched <= m if did else switched == rewound == -1
    require(fits, "path.rewound_to", "expected a switch that fits the path", (switched, rewound))
    corrected, last = optimizer.n_corrections(m, switched), len(sizes) - 1

    def ints(key: str, high: int, n: int = m) -> Ints:
        return _read_ints(data[key], _Ints(m, n, high), f"path.{key}")

    def updates(key: str, terms: Ints) -> Floats:
        n = q * sum(sizes[k] for k in terms if k >= 0)
        return unpack(data[key], n, f"path.{key}")

    choices, corrections = ints("choices", last), ints("corrections", last, corrected)
    return Path(
        choices,
        corrections,
        ints("halvings", 1000),
        ints("evaluations", 2**31 - 1),
        updates("updates", choices),
        updates("correction_updates", corrections),
        _read_risks(data["risk"], m + 1, "path.risk"),
        _read_risks(data["validation_risk"], m + 1, "path.validation_risk"),
        _read_metrics(data["metrics"], m + 1),
        switched,
        rewound,
        read(str, data["stopped"], "path.stopped"),
    )


def _read_metrics(data: Any, n: int) -> Floats:
    values = read(list, data, "path.metrics")
    require(len(values) % n == 0, "path.metrics", f"expected a multiple of {n} numbers", values)
    return _read_risks(values, len(values), "path.metrics")


class _Ints(NamedTuple):
    """The rule of a list: `size` whole numbers, the first n from 0 to `high`, then -1."""

    size: int
    n: int
    high: int


def _read_ints(data: Any, rule: _Ints, where: str) -> Ints:
    values, (size, n, high) = read(list, data, where), rule
    fits = len(values) == size and all(type(v) is int for v in values)
    require(fits, where, f"expected {size} whole numbers", values)
    fits = all(0 <= v <= high for v in values[:n]) and all(v == -1 for v in values[n:])
    require(fits, where, f"expected {n} numbers from 0 to {high}, then -1", values)
    return np.array(values, dtype=np.int32)


def _read_risks(data: Any, n: int, where: str) -> Floats:
    """Return n numbers, each finite or one of the words for nan and inf."""
    values = read(list, data, where)
    words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    known = [0.0 if isinstance(v, str) and v in words else v for v in values]
    out: Floats = read(Floats, known, where)
    require(len(out) == n, where, f"expected {n} numbers", values)
    for i, value in enumerate(values):
        if isinstance(value, str):
            out[i] = words[value]
    return out
