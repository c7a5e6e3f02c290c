"""Area `properties`: what must hold for every fit, on random tables with random settings.

Each case fits a random, valid table and checks one property: contributions add up, row order,
chunks, table libraries, clusters, threads, searches, iterations, files, SQL, ONNX, weights, the
report. Numbers are compared up to rounding, except where the same bits are promised.
"""

from __future__ import annotations

import html.parser
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa

import cwboost as cb
import cwboost.dask
from cwboost.export.onnx import onnx_inputs
from cwboost.frames.columns import Floats
from fuzz.callables import client
from fuzz.tables import Columns, Rng, describe, in_batches, pick, random_columns
from fuzz.values import random_learners, random_loss, random_optimizer, random_y, show
from fuzz.verdict import PropertyError, attempt

LONGEST_QUERY = 500_000  # characters; SQLite takes long to read more


@dataclass
class Problem:
    """A random fit that can be repeated with other arguments."""

    rng: Rng
    columns: Columns
    y: Any
    options: dict[str, Any]
    tried: list[str] = field(repr=False)

    def fit(self, table: Any = None, y: Any = None, **changes: Any) -> cb.Model:
        """Fit the table, or another one, with changed options."""
        table = self.columns if table is None else table
        return cb.fit(table, self.y if y is None else y, **{**self.options, **changes})

    @property
    def n(self) -> int:
        return len(self.y)

    def new_rows(self) -> Columns:
        """Return rows with other combinations of cells, unseen and missing ones among them."""
        out = {}
        for name, column in self.columns.items():
            cells = column[self.rng.permutation(self.n)]
            new = self.rng.uniform(size=self.n) < 0.2
            if column.dtype == object:
                cells[new] = pick(self.rng, [None, "", "never seen", " level 0", "LEVEL 1"])
            elif column.dtype.kind == "f":
                cells[new] = pick(self.rng, [np.nan, -1e4, 0.0, -0.0, 1e4])
            out[name] = cells
        return out


def make_problem(rng: Rng, tried: list[str]) -> Problem:
    """Return a random problem whose columns every library can hold."""
    n = int(pick(rng, [4, 10, 25, 60, 60, 150, 300]))
    columns = random_columns(rng, n, odd=0.15, mild=True)
    columns = {f"c{k}": _plain(c) for k, c in enumerate(columns.values())}
    columns["e"] = rng.normal(size=n)  # noise keeps learners from tying
    loss_name, loss = random_loss(rng)
    options: dict[str, Any] = {"loss": loss, "n_iter": int(pick(rng, [1, 5, 15]))}
    if rng.uniform() < 0.5:
        options["learners"] = random_learners(rng, columns)
    if rng.uniform() < 0.5:
        options["optimizer"] = random_optimizer(rng)
    if rng.uniform() < 0.3 or "Hybrid" in str(options.get("optimizer")):
        options["validation"] = rng.permutation(n) < n // 4
    if rng.uniform() < 0.3:
        options["weights"] = rng.uniform(0.5, 2, n)
    if rng.uniform() < 0.3:
        options["bins"] = pick(rng, ["exact", 7])
    y = np.asarray(random_y(rng, n, loss_name))
    if loss_name == "huber" and loss.delta < 1e-9 * np.abs(y).max():  # the last digits of y decide
        options["loss"] = cb.Huber(1e-6 * float(np.abs(y).max()))
    tried.append(f"{n} rows of {describe(columns)}")
    tried.append(", ".join(f"{k}={show(v)}" for k, v in options.items()))
    return Problem(rng, columns, y, options, tried)


def _plain(column: Any) -> Any:
    """Return floats, booleans, text or dates, which all libraries have."""
    array = np.asarray(column)
    if array.dtype.kind in "iu" or array.dtype in (np.float16, np.longdouble):
        return array.astype(float)
    if array.dtype.kind in "mM":
        seconds = array.astype(f"{array.dtype.kind}8[s]").astype(np.int64)
        return (
            np.clip(seconds, -(10**9), 10**9)
            .astype(f"{array.dtype.kind}8[s]")
            .astype(f"{array.dtype.kind}8[us]")
        )
    if array.dtype == object and all(isinstance(v, str | None) for v in array):
        return array
    return array.astype(float) if array.dtype == object else array


def case(rng: Rng, tried: list[str]) -> None:
    name = pick(rng, PROPERTIES)
    tried.append(name)
    problem = make_problem(rng, tried)
    model = problem.fit()
    tried.append("fitted")
    PROPERTIES[name](name, problem, model)


def same(what: str, found: Any, expected: Any, tolerance: float = 1e-7) -> None:
    """Raise unless numbers agree up to a share of their size; with 0, bit for bit."""
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    if found.shape != expected.shape:
        raise PropertyError(what, f"shapes {found.shape} and {expected.shape}")
    size = np.abs(expected[np.isfinite(expected)]).max(initial=1e-12)
    with np.errstate(invalid="ignore"):
        gap = np.abs(found - expected)
    equal = (found == expected) | (np.isnan(found) & np.isnan(expected))
    if not (equal | (gap <= tolerance * size)).all():
        worst = np.nanmax(np.where(equal, 0, gap))
        raise PropertyError(what, f"they differ by {worst:.3g}, numbers are up to {size:.3g}")


def same_model(what: str, found: cb.Model, expected: cb.Model, table: Any) -> None:
    """Raise unless two models that may differ by rounding errors agree."""
    # A fit that has gained all it can may go on for some rounding errors.
    both = min(len(found.choices), len(expected.choices))
    if found.choices[:both] != expected.choices[:both]:
        raise PropertyError(what, "other choices")
    same(what, score(found, table), score(expected, table), 1e-6)


def score(model: cb.Model, table: Any) -> Floats:
    return model.predict(table, kind="score")


# --- properties: (name, problem, fitted model) ----------------------------------------------------


def contributions(what: str, p: Problem, model: cb.Model) -> None:
    rows = p.new_rows()
    parts = sum(model.contributions(rows).values(), np.zeros(()))
    same(what, model.intercept + parts + 0 * score(model, rows), score(model, rows))


def row_order(what: str, p: Problem, model: cb.Model) -> None:
    order = p.rng.permutation(p.n)
    moved = {k: v[order] for k, v in p.options.items() if isinstance(v, np.ndarray)}
    table = {name: column[order] for name, column in p.columns.items()}
    other = p.fit(table, p.y[order], **moved)
    same_model(what, other, model, p.columns)


def single_rows(what: str, p: Problem, model: cb.Model) -> None:
    whole = score(model, p.columns)
    cut = int(p.rng.integers(0, p.n))
    for part in (slice(0, cut), slice(cut, None), slice(cut, cut + 1)):
        rows = {name: column[part] for name, column in p.columns.items()}
        if len(whole[part]):
            same(what, score(model, rows), whole[part], 1e-12)


def library(what: str, p: Problem, model: cb.Model) -> None:
    table = as_plain_table(p.rng, p.columns, p.tried)
    same(what, score(model, table), score(model, p.columns), 1e-12)
    same(what, score(p.fit(table), p.columns), score(model, p.columns), 1e-12)


def as_plain_table(rng: Rng, columns: Columns, tried: list[str]) -> Any:
    """Return the table in another library, with the same types."""
    makers: dict[str, Callable[[], Any]] = {
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns, nan_to_null=bool(rng.uniform() < 0.5)),
        "arrow": lambda: pa.table(columns),
        "dataset": lambda: cb.Dataset.from_batches(in_batches(rng, pa.table(columns))),
    }
    name = pick(rng, makers)
    tried.append(f"as {name}")
    return makers[name]()


def cluster(what: str, p: Problem, model: cb.Model) -> None:
    roles = {k: k for k in ("weights", "validation") if k in p.options}
    beside = {"y": p.y} | {k: p.options[k] for k in roles}
    table = dd.from_pandas(
        pd.DataFrame(p.columns | beside), npartitions=int(p.rng.integers(1, 5)), sort=False
    )
    other = cwboost.dask.fit(client(), table, "y", **{**p.options, **roles})
    same_model(what, other, model, p.columns)


def units(what: str, p: Problem, model: cb.Model) -> None:
    loss = p.options["loss"]
    name = loss if isinstance(loss, str) else loss.name
    has_unit = name in ("squared", "absolute", "quantile", "huber", "gamma", "tweedie")
    if not has_unit or p.n < 60:  # few rows make systems that enlarge rounding errors
        return
    unit = 2.0 ** int(pick(p.rng, [-30, -3, 5, 40]))
    if name == "huber":
        loss = cb.Huber(unit * (1.0 if isinstance(loss, str) else loss.delta))
    other = p.fit(y=unit * p.y, loss=loss)
    same(what, other.predict(p.columns) / unit, model.predict(p.columns), 1e-6)


def threads(what: str, p: Problem, model: cb.Model) -> None:
    other = p.fit(n_threads=int(p.rng.integers(2, 5)))
    same(what, other.risk, model.risk, 0.0)
    same(what, score(other, p.columns), score(model, p.columns), 0.0)


def searches(what: str, p: Problem, model: cb.Model) -> None:
    full, certified = p.fit(search="full"), p.fit(search="certified")
    if full.choices != certified.choices:
        raise PropertyError(what, "other choices")
    same(what, score(certified, p.columns), score(full, p.columns), 1e-6)


def iterations(what: str, p: Problem, model: cb.Model) -> None:
    if "Hybrid" in str(p.options.get("optimizer")):
        return  # equal up to its rewind only
    model = p.fit(patience=None)
    m = int(p.rng.integers(0, model.n_iter + 1))
    short = p.fit(n_iter=m, patience=None)
    same(what, score(model.at(m), p.columns), score(short.at(m), p.columns), 1e-9)


def extension(what: str, p: Problem, model: cb.Model) -> None:
    if "Hybrid" in str(p.options.get("optimizer")):
        return
    long = p.fit(patience=None)
    m = int(p.rng.integers(0, long.n_iter + 1))
    rows = {k: p.options[k] for k in ("weights", "validation") if k in p.options}
    short = p.fit(n_iter=m, patience=None)
    other = short.extend(long.n_iter - m, p.columns, p.y, **rows)
    same(what, other.at(long.n_iter).risk, long.at(long.n_iter).risk, 1e-9)


def saved(what: str, p: Problem, model: cb.Model) -> None:
    model.save("model.json")
    other = cb.load("model.json")
    for rows in (p.columns, p.new_rows()):
        same(what, score(other, rows), score(model, rows), 1e-12)
        same(what, other.predict(rows), model.predict(rows), 1e-12)


def repetition(what: str, p: Problem, model: cb.Model) -> None:
    w = p.rng.integers(0, 4, p.n)
    if w.sum() < 3:
        return
    rows = np.repeat(np.arange(p.n), w)
    moved = {k: v[rows] for k, v in p.options.items() if isinstance(v, np.ndarray)}
    moved["weights"] = None
    table = {name: column[rows] for name, column in p.columns.items()}
    exact = {"bins": "exact", "n_iter": 5}
    weighted = attempt(p.fit, weights=w, **exact)
    repeated = attempt(p.fit, table, p.y[rows], **exact | moved)
    if weighted is None or repeated is None or [*weighted.terms] != [*repeated.terms]:
        return  # the default terms depend on the number of rows: text that differs in all of them
    same(what, weighted.predict(table), repeated.predict(table), 1e-5)


def sql(what: str, p: Problem, model: cb.Model) -> None:
    columns = p.new_rows()
    query = attempt(model.to_sql, dialect="sqlite", table="rows", kind="score", keep=["number"])
    if query is None or len(query) > LONGEST_QUERY:
        return
    connection = sqlite3.connect(":memory:")
    names = ", ".join(f'"{name}"' for name in columns)
    connection.execute(f'CREATE TABLE rows ("number", {names})')
    cells = zip(range(p.n), *(_cells(column) for column in columns.values()), strict=True)
    marks = ", ".join("?" * (len(columns) + 1))
    connection.executemany(f"INSERT INTO rows VALUES ({marks})", list(cells))
    found = np.array(connection.execute(query).fetchall(), float)
    found = found[np.argsort(found[:, 0])][:, -model.n_outputs :]
    same(what, found, score(model, columns).reshape(p.n, -1), 1e-9)


def _cells(column: Any) -> list[Any]:
    if column.dtype.kind in "Mm":  # SQLite has dates as text, and durations as numbers of days
        shown = str if column.dtype.kind == "M" else lambda v: v / np.timedelta64(1, "D")
        return [None if np.isnat(v) else shown(v) for v in column]
    return [None if isinstance(v, float) and np.isnan(v) else v for v in column.tolist()]


def onnx(what: str, p: Problem, model: cb.Model) -> None:
    graph = attempt(model.to_onnx, missing="<none>")
    if graph is None:
        return
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options)
    rows = p.new_rows()
    found = session.run(["score"], onnx_inputs(model, rows, missing="<none>"))[0]
    same(what, found, score(model, rows), 1e-9)


def report(what: str, p: Problem, model: cb.Model) -> None:
    """Check that names and levels never become elements of the page."""
    evil = "<img src=x onerror=alert(1)></script><script>alert(1)</script>"
    levels = np.array([evil, '"><b id=evil>', "ok"], dtype=object)
    table = {evil: p.columns["e"], "g": levels[np.arange(p.n) % 3]}
    fitted = cb.fit(table, p.rng.normal(size=p.n), n_iter=5)
    fitted.report("report.html", table, p.rng.normal(size=p.n), title=evil, rows=2)
    page = Path("report.html").read_text(encoding="utf-8")
    counted = Elements()
    counted.feed(page)
    if counted.evil:
        raise PropertyError(what, f"the page has {counted.evil}")


class Elements(html.parser.HTMLParser):
    """Notes elements that a name or level has injected."""

    def __init__(self) -> None:
        super().__init__()
        self.evil: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if ("id", "evil") in attributes or any(name == "onerror" for name, _ in attributes):
            self.evil.append(tag)

    def handle_data(self, data: str) -> None:
        if data.strip() == "alert(1)":
            self.evil.append("script")


PROPERTIES: dict[str, Callable[[str, Problem, cb.Model], None]] = {
    "predict equals intercept plus contributions": contributions,
    "the order of rows does not matter": row_order,
    "rows are predicted alike alone and together": single_rows,
    "the table library does not matter": library,
    "rows on a cluster give the same model": cluster,
    "the unit of y does not matter": units,
    "threads give the same bits": threads,
    "the certified search chooses what the full search chooses": searches,
    "at(m) equals a fit of m iterations": iterations,
    "extending equals a longer fit": extension,
    "a loaded model predicts what the saved one predicts": saved,
    "integer weights equal repeated rows": repetition,
    "SQL computes what predict computes": sql,
    "ONNX computes what predict computes": onnx,
    "the report has no injected elements": report,
}
