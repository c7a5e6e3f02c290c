"""The performance targets of the project, measured: python -m benchmarks targets.

Measures every row of the table of targets. One thread unless the row says otherwise, the whole call
of `cb.fit` from float64 columns to a model, the best of three. B is the time of M x K calls of
np.bincount(index_k, weights=r, minlength=n*) with int64 indices in the same process. Uses only
public names of cwboost (and, for --profile, the counts in its path).
"""

from __future__ import annotations

import argparse
import cProfile
import importlib.util
import io
import pstats
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import machine, pages
from .process import Memory, Outcome, call
from .simulate import Simulation, coin, noisy, ten_uniforms, three_curves

RATE, MOMENTUM = 0.05, 0.0034
INFORMATIVE = 20
REPEATS = 3
CALLS = 10_000  # maximum number of np.bincount calls that are measured; B is scaled up from them
QUICK = 10  # --quick divides rows by this


# --- what the processes do ------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One fit. Every field is a string or a number, so that another process can receive it."""

    n: int = 100_000
    K: int = 50
    n_iter: int = 200
    loss: str = "binomial"
    optimizer: str = "Plain"
    bins: str = "sqrt"
    validation: float | None = None
    learner: str = "Spline"

    def data(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        if self.learner == "Linear":
            rng = np.random.default_rng(4)
            X = rng.normal(size=(self.n, self.K))
            table = {f"x{j}": np.ascontiguousarray(column) for j, column in enumerate(X.T)}
            return table, coin(rng, X[:, :5].sum(axis=1))
        simulation = Simulation.make(1, INFORMATIVE, self.K - INFORMATIVE)
        rng = np.random.default_rng(2)
        table = simulation.table(rng, self.n)
        eta = simulation.eta(table)
        return table, noisy(rng, eta) if self.loss == "squared" else coin(rng, eta)

    def fit(self, table: dict[str, np.ndarray], y: np.ndarray, n_threads: int = 1) -> Any:
        import cwboost as cb

        own = {"df": 5, "knots": 20} if self.learner == "Spline" else {}
        momentum = {} if self.optimizer == "Plain" else {"momentum": MOMENTUM}
        return cb.fit(
            table,
            y,
            [getattr(cb, self.learner)(name, **own) for name in table],
            loss=self.loss,
            scale=1,
            optimizer=getattr(cb, self.optimizer)(rate=RATE, **momentum),
            n_iter=self.n_iter,
            bins=self.bins,
            validation=self.validation,
            patience=None,  # all iterations are run
            n_threads=n_threads,
        )


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    value = function()
    return time.perf_counter() - began, value


def fit_against_bincount(case: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Return the best times of the fit and of B, measured alternately under the same load."""
    own = Case(**case)
    table, y = own.data()
    bincount = Bincount(table, own.n_iter)
    fits, counts = [], []
    for _ in range(repeats):
        seconds, model = timed(lambda: own.fit(table, y))
        fits.append(seconds)
        counts.append(bincount.seconds())
    assert model.n_iter == own.n_iter, f"the fit ended after {model.n_iter} iterations"
    return {"fit": min(fits), "B": min(counts), **counted(model)}


class Bincount:
    """M x K calls of np.bincount, or a smaller number from which the total is extrapolated."""

    def __init__(self, table: dict[str, np.ndarray], n_iter: int) -> None:
        n = len(next(iter(table.values())))
        self.n_bins = int(np.sqrt(n))
        self.indices = [nearest_point(column, self.n_bins) for column in table.values()]
        self.r = np.random.default_rng(3).normal(size=n)
        self.total = n_iter * len(self.indices)
        self.measured = min(self.total, CALLS)

    def seconds(self) -> float:
        began = time.perf_counter()
        for k in range(self.measured):
            index = self.indices[k % len(self.indices)]
            np.bincount(index, weights=self.r, minlength=self.n_bins)
        return (time.perf_counter() - began) * self.total / self.measured


def nearest_point(column: np.ndarray, n_bins: int) -> np.ndarray:
    """Return the int64 index of the nearest of n_bins equally spaced points."""
    low, width = column.min(), np.ptp(column) / (n_bins - 1)
    return np.floor((column - low) / width + 0.5).astype(np.int64)


def counted(model: Any) -> dict[str, Any]:
    """Return the counts in the path, if it has them."""
    found = getattr(model.path, "evaluations", None)
    if found is None:
        return {}
    return {"evaluations": float(np.sum(found)) / max(1, model.n_iter)}


def fit_seconds(case: dict[str, Any], repeats: int, n_threads: list[int]) -> dict[str, Any]:
    """Return the best time of the fit by number of threads, measured alternately."""
    own = Case(**case)
    table, y = own.data()
    best = dict.fromkeys(n_threads, np.inf)
    for _ in range(repeats):
        for threads in n_threads:
            best[threads] = min(best[threads], timed(lambda k=threads: own.fit(table, y, k))[0])
    return {"fit": list(best.values())}


def fit_memory(case: dict[str, Any]) -> dict[str, Any]:
    """Return the megabytes that a fit adds at its peak; a small fit loads the libraries first."""
    own = Case(**case)
    small = Case(**{**case, "n": 2000, "n_iter": 2})
    small.fit(*small.data())
    table, y = own.data()
    memory = Memory()
    own.fit(table, y)
    return {"megabytes": memory.added()}


def wide(case: dict[str, Any], repeats: int) -> dict[str, Any]:
    """Return the time of set-up and loop for linear learners of many columns, and of as many
    products X.T @ r."""
    own = Case(**case)
    table, y = own.data()
    X, r = np.column_stack(list(table.values())), np.random.default_rng(3).normal(size=own.n)
    setup, loop = split(own, table, y, repeats)

    def products(X: np.ndarray) -> float:
        return timed(lambda: [X.T @ r for _ in range(own.n_iter)])[0]

    layouts = (X, np.asfortranarray(X))
    least = min(products(layout) for layout in layouts for _ in range(repeats))
    return {"setup": setup, "loop": loop, "products": least}


def split(
    case: Case, table: dict[str, np.ndarray], y: np.ndarray, repeats: int
) -> tuple[float, float]:
    """Return the seconds of the set-up (a fit without iterations) and of the loop (the rest of a
    fit)."""
    empty = replace(case, n_iter=0)
    setup = min(timed(lambda: empty.fit(table, y))[0] for _ in range(repeats))
    whole = min(timed(lambda: case.fit(table, y))[0] for _ in range(repeats))
    return setup, max(0.0, whole - setup)


def three_curves_error(library: str, n: int, repeats: int) -> dict[str, Any]:
    """Return the best time of a fit to sin(2a) + b^2/2 - c + N(0, 1), and the RMS error of f."""
    rng = np.random.default_rng(5)
    table = ten_uniforms(rng, n)
    y = np.sum(list(three_curves(table).values()), axis=0) + rng.normal(size=n)
    fresh = ten_uniforms(rng, 20_000)
    inside = np.all([(v >= table[k].min()) & (v <= table[k].max()) for k, v in fresh.items()], 0)
    fresh = {name: column[inside] for name, column in fresh.items()}
    truth = np.sum(list(three_curves(fresh).values()), axis=0)
    fit = {"fit": _cwboost_fit, "estimator": _cwboost_estimator, "superglm": _superglm}[library]
    few = slice(2000)  # one-time loading and compilation
    fit({name: column[few] for name, column in table.items()}, y[few])
    found = [timed(lambda: fit(table, y)) for _ in range(repeats)]
    f = found[-1][1](fresh)
    return {"fit": min(s for s, _ in found), "error": float(np.sqrt(np.mean((f - truth) ** 2)))}


def _cwboost_fit(table: dict[str, np.ndarray], y: np.ndarray) -> Callable[[Any], np.ndarray]:
    import cwboost as cb

    return cb.fit(table, y, validation=0.2, n_threads=1).predict


def _cwboost_estimator(table: dict[str, np.ndarray], y: np.ndarray) -> Callable[[Any], np.ndarray]:
    import cwboost as cb

    return cb.CWBRegressor(n_jobs=1).fit(table, y).predict


def _superglm(table: dict[str, np.ndarray], y: np.ndarray) -> Callable[[Any], np.ndarray]:
    import pandas as pd
    from superglm import Spline, SuperGLM

    features = {name: Spline(kind="ps", n_knots=20) for name in table}
    model = SuperGLM(family="gaussian", selection_penalty=0.0, discrete=True, features=features)
    model.fit_reml(pd.DataFrame(table), y)
    return lambda fresh: model.predict(pd.DataFrame(fresh))


def prediction(n: int, n_terms: int, repeats: int) -> dict[str, Any]:
    """Return the best times of predict for n rows and for one, of cwboost and of EBM, with effects
    in all columns.

    Both get the same 2-d array; EBM has one bag, which makes no difference here.
    """
    import cwboost as cb

    simulation = Simulation.make(6, n_terms, 0)
    rng = np.random.default_rng(7)
    table = simulation.table(rng, n)
    X, y = np.column_stack(list(table.values())), noisy(rng, simulation.eta(table))
    own = cb.fit(X, y, n_iter=2000, optimizer=cb.Plain(rate=RATE), bins="sqrt", n_threads=1)
    models = {"own": own}
    if importlib.util.find_spec("interpret"):
        from interpret.glassbox import ExplainableBoostingRegressor

        ebm = ExplainableBoostingRegressor(interactions=0, outer_bags=1, n_jobs=1, max_rounds=200)
        models["ebm"] = ebm.fit(X, y)
    out: dict[str, Any] = {"terms": sum(term.chosen for term in own.terms.values())}
    for name, model in models.items():
        calls = [timed(lambda m=model: m.predict(X))[0] for _ in range(max(10, 5 * repeats))]
        single = [timed(lambda m=model: m.predict(X[:1]))[0] for _ in range(100 * repeats)]
        out[name] = {"rows": min(calls), "row": min(single)}
    return out


def profile(case: dict[str, Any], repeats: int) -> str:
    """Return where the time of a fit goes: set-up and loop, the loop's counts, the set-up by
    function.

    (Python's profiler does not see into the core, and Python functions run more slowly under it.)
    """
    own = Case(**case)
    table, y = own.data()
    model = own.fit(table, y)
    setup, loop = split(own, table, y, repeats)
    out = io.StringIO()
    print(f"set-up {seconds(setup)}, loop {seconds(loop)}: ", end="", file=out)
    print(f"{1e6 * loop / own.n_iter:.0f} us per iteration", file=out)
    if counts := counted(model):
        print(f"{counts['evaluations']:.1f} of {own.K} learners per iteration", file=out)
    profiler = cProfile.Profile()
    profiler.runcall(replace(own, n_iter=0).fit, table, y)
    pstats.Stats(profiler, stream=out).strip_dirs().sort_stats("tottime").print_stats(20)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines() if line.strip())


# --- the rows -------------------------------------------------------------------------------------


class UnmeasuredError(Exception):
    """A row cannot be measured; the message says why."""


@dataclass(frozen=True)
class Check:
    """One measured figure and its target."""

    measured: str
    ratio: str
    ok: bool


@dataclass(frozen=True)
class FitOptions:
    """How the rows are measured in this run."""

    repeats: int = REPEATS
    divide: int = 1
    limit: float | None = None

    def rows(self, n: int) -> int:
        return n // self.divide

    def ask(self, function: Callable[..., Any], *, threads: int = 1, **arguments: Any) -> Any:
        name = f"{__package__}.targets:{function.__name__}"
        found: Outcome = call(name, arguments, threads=threads, limit=self.limit)
        if found.status != "done":
            raise UnmeasuredError(found.reason)
        return found.value

    def case(self, **fields: Any) -> dict[str, Any]:
        """Return the case; with --quick with fewer rows, or fewer columns if there are more
        columns."""
        case = vars(Case(**fields))
        longer = "n" if case["n"] > case["K"] else "K"
        return {**case, longer: self.rows(case[longer])}


@dataclass(frozen=True)
class Row:
    """One line of the table: the target in words, and how it is measured."""

    key: str
    problem: str
    must: str
    check: Callable[[FitOptions], list[Check]]
    cases: tuple[dict[str, Any], ...] = ()  # the fit that --profile examines


def seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def against_bincount(key: str, problem: str, *parts: tuple[int, float], **fields: Any) -> Row:
    """Return a row of fits with (M, divisor of B)."""
    cases = tuple({**fields, "n_iter": m} for m, _ in parts)

    def check(how: FitOptions) -> list[Check]:
        out = []
        for (_, divisor), case in zip(parts, cases, strict=True):
            found = how.ask(fit_against_bincount, case=how.case(**case), repeats=how.repeats)
            factor = found["B"] / found["fit"]
            notes = [f"B = {seconds(found['B'])}"]
            if "evaluations" in found:
                notes.append(f"{found['evaluations']:.1f} evaluations per iteration")
            measured = f"{seconds(found['fit'])} ({', '.join(notes)})"
            out.append(Check(measured, f"B / {factor:.2f}", factor >= divisor))
        return out

    must = " and ".join(f"<= B / {divisor:g}" for _, divisor in parts)
    return Row(key, problem, must, check, cases)


EXACT = tuple({"loss": loss, "n_iter": 2000, "bins": "exact"} for loss in ("binomial", "squared"))
WIDE = {"n": 100, "K": 20_000, "learner": "Linear", "bins": "auto"}  # auto: distinct values
MILLION = {"n": 1_000_000, "n_iter": 200}


def check_exact(how: FitOptions) -> list[Check]:
    out = []
    for case in EXACT:
        fields = how.case(**case)
        times = [
            how.ask(fit_seconds, case={**fields, "bins": b}, repeats=how.repeats, n_threads=[1])
            for b in ("exact", "sqrt")
        ]
        exact, sqrt = (found["fit"][0] for found in times)
        measured = f"{case['loss']} {seconds(exact)}, with sqrt bins {seconds(sqrt)}"
        out.append(Check(measured, f"{exact / sqrt:.2f} x", exact <= 2.5 * sqrt))
    return out


def check_wide(how: FitOptions) -> list[Check]:
    found = how.ask(wide, case=how.case(**WIDE), repeats=how.repeats)
    loop, products, setup = found["loop"], found["products"], found["setup"]
    measured = f"loop {seconds(loop)}, products {seconds(products)}"
    return [
        Check(measured, f"{loop / products:.2f} x", loop <= 4 * products),
        Check(f"set-up {seconds(setup)}", f"{setup:.2f} s", setup <= 1),
    ]


def check_threads(how: FitOptions) -> list[Check]:
    case = how.case(**MILLION)
    found = how.ask(fit_seconds, threads=2, case=case, repeats=how.repeats, n_threads=[1, 2])
    one, two = found["fit"]
    measured = f"{seconds(one)} with one, {seconds(two)} with two"
    return [Check(measured, f"{one / two:.2f} x", one >= 1.7 * two)]


def check_memory(how: FitOptions) -> list[Check]:
    out = []
    for loss in ("binomial", "squared"):
        case = how.case(**MILLION, loss=loss)
        added = how.ask(fit_memory, case=case)["megabytes"]
        if added is None:
            raise UnmeasuredError("this system does not report the peak memory of a process")
        most = (2 * case["n"] * case["K"] + 100 * case["n"]) / 1e6
        share = f"{added / most:.2f} of what it may"
        out.append(Check(f"{loss} {added:.0f} MB of {most:.0f} MB", share, added <= most))
    return out


def check_curves(how: FitOptions) -> list[Check]:
    if not importlib.util.find_spec("superglm"):
        raise UnmeasuredError("superglm is not installed")
    n = how.rows(100_000)
    found = {
        library: how.ask(three_curves_error, library=library, n=n, repeats=how.repeats)
        for library in ("fit", "superglm", "estimator")
    }
    other = found.pop("superglm")
    told = f"superglm {other['error']:.4f} in {seconds(other['fit'])}"
    names = {"fit": "cb.fit(validation=0.2)", "estimator": "CWBRegressor()"}
    out = []
    for library, own in found.items():
        fine = own["error"] <= 0.02 and own["fit"] <= other["fit"] / 5
        measured = f"{names[library]} {own['error']:.4f} in {seconds(own['fit'])}, {told}"
        out.append(Check(measured, f"superglm / {other['fit'] / own['fit']:.2f}", fine))
    return out


def check_prediction(how: FitOptions) -> list[Check]:
    found = how.ask(prediction, n=how.rows(20_000), n_terms=50, repeats=how.repeats)
    if "ebm" not in found:
        raise UnmeasuredError("interpret (EBM) is not installed")
    own, ebm = found["own"], found["ebm"]
    measured = (
        f"{seconds(own['rows'])} ({found['terms']} terms; one row {seconds(own['row'])}), "
        f"EBM {seconds(ebm['rows'])} (one row {seconds(ebm['row'])})"
    )
    return [Check(measured, f"{own['rows'] / ebm['rows']:.2f} x", own["rows"] <= ebm["rows"])]


ROWS = (
    against_bincount("cwb", "CWB binomial, n = 100,000, K = 50, M = 200", (200, 8)),
    against_bincount("cwb-long", "the same, M = 2000", (2000, 5)),
    against_bincount(
        "squared", "CWB squared, M = 200 and M = 2000", (200, 8), (2000, 40), loss="squared"
    ),
    against_bincount(
        "acwb",
        "ACWB binomial, M = 200 and M = 1000",
        (200, 4),
        (1000, 5),
        optimizer="Accelerated",
    ),
    against_bincount(
        "hcwb",
        "HCWB binomial, M = 1000, 20% validation",
        (1000, 5),
        optimizer="Hybrid",
        validation=0.2,
    ),
    against_bincount(
        "many", "n = 20,000, K = 300, binomial, M = 1000", (1000, 12), n=20_000, K=300
    ),
    Row(
        "exact",
        "exact bins, 100,000 distinct values per column, M = 2000",
        "<= 2.5 x the same with sqrt bins",
        check_exact,
        EXACT,
    ),
    Row(
        "wide",
        "n = 100, K = 20,000 linear, binomial, M = 200",
        "the loop <= 4 x 200 products `X.T @ r` in NumPy; set-up <= 1 s",
        check_wide,
        (WIDE,),
    ),
    Row(
        "threads",
        "2 threads, n = 1,000,000",
        ">= 1.7 x of one on an idle 2-core machine",
        check_threads,
        (MILLION,),
    ),
    Row(
        "memory",
        "memory added by a fit, n = 1,000,000, K = 50",
        "<= 2 bytes x n x K + 100 bytes x n",
        check_memory,
        (MILLION,),
    ),
    Row(
        "curves",
        "y = sin(2a) + b^2/2 - c + N(0, 1), n = 100,000, p = 10, defaults with validation",
        "RMS error of f <= 0.02 on fresh points inside the range, time <= a fifth of superglm's "
        "in the same run",
        check_curves,
    ),
    Row("predict", "predict, 20,000 rows, 50 terms", "<= EBM's time in the same run",
        check_prediction),
)  # fmt: skip


# --- the command ----------------------------------------------------------------------------------


def line(row: Row, how: FitOptions) -> str:
    try:
        checks = row.check(how)
    except UnmeasuredError as why:
        return f"| {row.problem} | {row.must} | not measured: {last_line(str(why))} | | |"
    verdicts = ["ok" if check.ok else "MISS" for check in checks if how.divide == 1]
    cells = [row.problem, row.must, *(
        " and ".join(parts)
        for parts in ([c.measured for c in checks], [c.ratio for c in checks], verdicts)
    )]  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1].replace("|", "/")


def chosen(only: list[str] | None) -> list[Row]:
    known = {row.key: row for row in ROWS}
    unknown = [key for key in only or () if key not in known]
    if unknown:
        raise SystemExit(f"targets: unknown row {', '.join(unknown)}; expected {', '.join(known)}")
    return [known[key] for key in only or known]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    keys = ", ".join(row.key for row in ROWS)
    parser.add_argument("--only", nargs="+", metavar="ROW", help=f"of {keys}")
    parser.add_argument(
        "--repeats", type=int, default=None, help="number of repeats; the best counts (3)"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, once")
    parser.add_argument("--limit", type=float, default=None, help="maximum seconds per row")
    parser.add_argument(
        "--into", type=Path, nargs="+", default=[], help="pages whose marked block is replaced"
    )
    parser.add_argument(
        "--profile", action="store_true", help="print where the time of the rows' fits goes"
    )


def run(arguments: argparse.Namespace) -> None:
    rows = chosen(arguments.only)
    divide = QUICK if arguments.quick else 1
    repeats = arguments.repeats or (1 if arguments.quick else REPEATS)
    how = FitOptions(repeats, divide, arguments.limit)
    if arguments.profile:
        for row in rows:
            print_profile(row, how)
        return
    text = []
    for piece in table(rows, how):
        print(piece, flush=True)
        text.append(piece)
    for page in arguments.into:
        pages.fill(page, {"targets": "\n".join(text)})


def table(rows: list[Row], how: FitOptions) -> Iterator[str]:
    """Yield the lines as they are measured."""
    yield "| problem | must | measured | ratio | |"
    yield "|---|---|---|---|---|"
    for number, row in enumerate(rows, 1):
        print(f"[{number}/{len(rows)}] {row.problem}", file=sys.stderr, flush=True)
        yield line(row, how)
    yield ""
    quick = f" Only a {how.divide}th of the rows, so no verdict." if how.divide > 1 else ""
    facts = machine.describe(("cwboost", "numpy", "superglm", "interpret"))
    yield (
        f"{facts}. Best of {how.repeats}. B is measured on {CALLS:,} of its M x K calls, if it has "
        f"more, and scaled.{quick}"
    )


def print_profile(row: Row, how: FitOptions) -> None:
    if not row.cases:
        print(f"\n## {row.problem}\n\nno profile of this row", flush=True)
    for case in row.cases:
        text = how.ask(profile, case=how.case(**case), repeats=how.repeats)
        what = ", ".join(f"{k} = {v}" for k, v in how.case(**case).items() if v is not None)
        print(f"\n## {row.problem}\n\n{what}\n\n{text}", flush=True)
