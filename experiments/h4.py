"""H4: the time of a fit follows the complexity of the algorithm.

Fits exponents of the number of rows n, columns K, basis functions d and iterations M to measured
times: with the full search, to which the paper's complexity applies, and with the certified search,
which evaluates only the learners that can be the best.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import cwboost as cb

from . import simulated, style
from .found import Finding, Table, listed, number
from .simulated import cost, draw, splines

if TYPE_CHECKING:
    import pandas as pd

TITLE = "H4: time follows the complexity of the algorithm"
CAPTION = (
    "Top: seconds of 100 iterations that evaluate every learner, by rows and columns (five have an "
    "effect); lines are the fitted power law. Bottom: microseconds and learners evaluated per "
    "iteration by columns, with the full and the certified search."
)
DEVIATIONS = (
    "A power law of n, K, d and M is fitted to the logarithm of the time of the iterations. The "
    "paper fitted all exponents of the sum of its terms, set-up included; its times vary only in "
    "n and K, so its exponents of d and M depend on the starting values of its search. Its "
    "exponents in the table are those of the term of the iterations that grows with n.",
    "Five columns have an effect for every K, so the exponent of K refers to candidate columns. "
    "Additional fits, which are not used for the exponents, have 5, 10 and 20 columns with an "
    "effect out of 100.",
    "One draw of each data set (the paper: 20). ACWB has the momentum 0.0034; HCWB has 0.037 and "
    "30% validation rows; the text says how many of its iterations are accelerated.",
)
NEEDS_DATA, KEEPS, PARALLEL_KINDS = False, (), ()

OPTIMIZERS = {
    "CWB": cb.Plain(simulated.RATE),
    "ACWB": cb.Accelerated(simulated.RATE, 0.0034),
    "HCWB": cb.Hybrid(simulated.RATE, then="training"),
}
BINS = {"nb": "exact", "b": "sqrt"}
SEARCHES = ("full", "certified")
INFORMATIVE, SNR = 5, 1.0
ACTIVE = {  # by number of columns with an effect, for fixed K
    "tiny": [{"n": 200, "columns": 6, "knots": 20, "n_iter": 8, "informative": p} for p in (2, 3)],
    "small": [{"n": 20_000, "columns": 100, "knots": 20, "n_iter": 400, "informative": p}
              for p in (5, 10, 20)],
}  # fmt: skip
ACTIVE["page"] = ACTIVE["paper"] = ACTIVE["small"]
BASE = {"n": 20_000, "columns": 30, "knots": 20, "n_iter": 100}
PAPER = {  # exponents of n, K, d, M in the leading term of the iterations; R^2
    ("CWB", "nb"): (0.982, 1.006, 0.992, 1.025, 1.0),
    ("CWB", "b"): (0.993, 0.992, None, 1.020, 0.999),
    ("ACWB", "nb"): (1.087, 1.002, 1.134, 0.769, 0.978),
}
VARIABLES = ("n", "columns", "d", "n_iter")
VALUES: dict[str, dict[str, tuple[int, ...]]] = {
    "tiny": {"n": (200, 400), "columns": (6, 9), "knots": (5, 10), "n_iter": (4, 8)},
    "small": {"n": (5_000, 20_000, 100_000), "columns": (10, 30, 100), "knots": (6, 46),
              "n_iter": (25, 400)},
    "paper": {"n": simulated.N, "columns": (7, 10, 15, 30, 60, 100, 150, 300),
              "knots": (6, 10, 46, 96), "n_iter": (25, 400, 1600)},
}  # fmt: skip
VALUES["page"] = VALUES["paper"]


def tasks(scale: str) -> list[dict[str, Any]]:
    """Return the tasks: n and columns crossed, knots and iterations separately; columns with an
    effect."""
    values = VALUES[scale]
    base = BASE if scale != "tiny" else {"n": 200, "columns": 6, "knots": 20, "n_iter": 8}
    crossed = [{**base, "n": n, "columns": k} for n in values["n"] for k in values["columns"]]
    alone = [{**base, name: value} for name in ("knots", "n_iter") for value in values[name]]
    return crossed + [task for task in alone if task not in crossed] + ACTIVE[scale]


def run(
    n: int, columns: int, knots: int, n_iter: int, informative: int | None = None
) -> list[dict[str, Any]]:
    p = informative or INFORMATIVE
    data = draw(n, p, (columns - p) / p, SNR)

    def fit(method: str, bins: str, search: str, n_iter: int) -> cb.Model:
        return cb.fit(
            data.table,
            data.y,
            splines(data.table, knots=knots),
            optimizer=OPTIMIZERS[method],
            n_iter=n_iter,
            bins=BINS[bins],
            validation=0.3 if method == "HCWB" else None,
            patience=None,
            n_threads=1,
            search=search,
        )

    rows: list[dict[str, Any]] = []
    every = product(OPTIMIZERS, BINS, SEARCHES)
    for method, bins, search in every if informative is None else product(["CWB"], "b", SEARCHES):
        of = partial(fit, method, bins, search)
        path = of(n_iter).path
        row = {"method": method, "bins": bins, "search": search, "d": knots + 4}
        row["evaluations"] = float(path.evaluations.mean())
        row["active"] = len(set(path.choices.tolist()))
        row["accelerated"] = float((path.corrections >= 0).mean())
        rows.append(row | cost(of, n_iter))
    return rows


# --- what was found -------------------------------------------------------------------------------


class PowerLaw:
    """log t = c + sum of exponents x logarithms, by least squares."""

    def __init__(self, found: pd.DataFrame) -> None:
        X, t = self._rows(found), np.log(found.loop.to_numpy())
        self.coef = np.linalg.lstsq(X, t, rcond=None)[0]
        left = t - X @ self.coef
        self.r2 = 1 - left.var() / t.var()
        self.exponents = {
            name: coef if found[name].nunique() > 1 else np.nan
            for name, coef in zip(VARIABLES, self.coef[1:], strict=True)
        }

    @staticmethod
    def _rows(found: pd.DataFrame) -> Any:
        logs = np.log(found[list(VARIABLES)].to_numpy(dtype=float))
        return np.column_stack([np.ones(len(logs)), logs])

    def at(self, found: pd.DataFrame) -> Any:
        return np.exp(self._rows(found) @ self.coef)


def laws(results: pd.DataFrame) -> dict[tuple[str, str, str], PowerLaw]:
    groups = results.groupby(["search", "method", "bins"], sort=False)
    return {key: PowerLaw(of) for key, of in groups}


def crossed(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results that the exponents are fitted to: five columns have an effect."""
    return results[results.informative.isna()]


def figure(results: pd.DataFrame) -> Any:
    results = crossed(results)
    fitted = laws(results)
    base = results[(results.knots == 20) & (results.n_iter == results.n_iter.mode()[0])]
    shades = style.colours(sorted(base["columns"].unique()))
    with style.style():
        drawing, axes = style.panels(2, 3, 2.9)
        for panel, (method, bins) in zip(axes[0], PAPER, strict=False):
            of = base[(base.method == method) & (base.bins == bins) & (base.search == "full")]
            for columns, part in of.sort_values("n").groupby("columns"):
                panel.plot(part.n, part.loop, "o", color=shades[columns], label=f"{columns}")
                law = fitted["full", method, bins].at(part)
                panel.plot(part.n, law, "-", color=shades[columns], linewidth=0.9)
            panel.set(xscale="log", yscale="log", title=f"{method} ({bins})", xlabel="rows")
            style.log_ticks(panel.xaxis, sorted(base.n.unique()))
        axes[0, 0].set_ylabel("seconds of the iterations (log scale)")
        handles = axes[0, 0].get_legend_handles_labels()
        drawing.legend(*handles, title="columns", fontsize=8, loc="outside right upper")
        draw_searches(axes[1], base)
    return drawing


def draw_searches(row: Any, base: pd.DataFrame) -> None:
    n = BASE["n"] if BASE["n"] in set(base.n) else base.n.max()
    of = base[(base.n == n) & (base.bins == "b")].sort_values("columns")
    of = of.assign(pace=1e6 * of.loop / of.n_iter)
    dashes = {"full": "-", "certified": "--"}
    for panel, value, label in (
        (row[0], "pace", "microseconds per iteration"),
        (row[1], "evaluations", "learners evaluated per iteration"),
    ):
        for (method, search), part in of.groupby(["method", "search"]):
            panel.plot(
                part["columns"], part[value], "o" + dashes[search],
                color=style.ALGORITHMS[method], label=f"{method}, {search} search",
            )  # fmt: skip
        panel.set(xscale="log", yscale="log", xlabel="columns", title=f"{n:,} rows, binned")
        panel.set_ylabel(label)
        style.log_ticks(panel.xaxis, sorted(of["columns"].unique()))
        style.plain_log(panel.yaxis)
    row[2].set_axis_off()
    row[2].legend(*row[0].get_legend_handles_labels(), loc="center left")


def table(results: pd.DataFrame) -> Finding:
    timed = crossed(results)
    fitted, rows = laws(timed), []
    for (search, method, bins), law in fitted.items():
        paper = PAPER.get((method, bins), (None,) * 5) if search == "full" else (None,) * 5
        cells = [x for p, v in zip(paper, VARIABLES, strict=False) for x in (p, law.exponents[v])]
        rows.append([f"{method} ({bins}), {search} search", *cells, paper[4], law.r2])
    head = ["", *(f"{v}, {w}" for v in ("n", "K", "d", "M") for w in ("paper", "here"))]
    head += ["R^2, paper", "here"]
    full = fitted["full", "CWB", "b"].exponents
    double = twice(timed)
    switched = timed[timed.method == "HCWB"].accelerated.median()
    unbinned = fitted["full", "CWB", "nb"].exponents["d"]
    clear = min(law.r2 for (search, *_), law in fitted.items() if search == "full")
    tried = timed[timed.search == "certified"].groupby(["method", "columns"]).evaluations.mean()
    few, most = timed["columns"].min(), timed["columns"].max()
    told = ", ".join(
        f"for {m} {number(tried[m, few], 2)} of {few} learners and {number(tried[m, most], 2)} of "
        f"{most}"
        for m in OPTIMIZERS
    )
    why = (
        f"With every learner evaluated, the exponents of n, K and M for CWB (b) are "
        f"{full['n']:.2f}, {full['columns']:.2f} and {full['n_iter']:.2f}, and ACWB takes "
        f"{double:.1f} times as long as CWB (median, without binning); R^2 is at least "
        f"{clear:.2f}. The exponent of d without binning is {unbinned:.2f} where the paper has 1. "
        f"In the median fit, {100 * switched:.0f}% of HCWB's iterations are accelerated. The "
        "certified search does not have the paper's complexity: its time grows less with K (see "
        f"the table). Per iteration it evaluates {told}, where {INFORMATIVE} columns have an "
        "effect. "
    )
    words, by_active = of_active(results[results.informative.notna()])
    exponents = Table(head, rows, "Exponents of the time of the iterations")
    return Finding(figures(fitted, double), why + words, [exponents, by_active])


def figures(fitted: dict[tuple[str, str, str], PowerLaw], double: float) -> dict[str, list[float]]:
    """Return the figures of the claims (see claims.py)."""

    def of(method: str, bins: str, *names: str) -> list[float]:
        return [float(fitted["full", method, bins].exponents[name]) for name in names]

    return {
        "exponents": [x for b in BINS for x in of("CWB", b, "n", "columns", "n_iter")],
        "accelerated": of("ACWB", "nb", "n", "columns"),
        "hybrid": of("HCWB", "nb", "n", "columns"),
        "d": [*of("CWB", "nb", "d"), *of("ACWB", "nb", "d")],
        "fit": [float(fitted["full", *key].r2) for key in (("CWB", "nb"), ("CWB", "b"),
                                                           ("ACWB", "nb"))],
        "twice": [double],
    }  # fmt: skip


def of_active(found: pd.DataFrame) -> tuple[str, Table]:
    """Return learners evaluated and time by number of columns with an effect, for a fixed K."""
    found = found.assign(pace=1e6 * found.loop / found.n_iter)
    wide = found.pivot_table(index="informative", columns="search", values=["evaluations", "pace"])
    active = found[found.search == "certified"].groupby("informative").active.max()
    rows = [
        [f"{p:.0f}", f"{active[p]:.0f}",
         *(wide[value, search][p] for value in ("evaluations", "pace") for search in SEARCHES)]
        for p in wide.index
    ]  # fmt: skip
    head = ["columns with an effect", "terms chosen at least once"]
    head += [f"{what}, {s}" for what in ("evaluated", "microseconds") for s in SEARCHES]
    at = found.iloc[0]
    size = f"{at.n:,} rows, {at['columns']} columns, {at.n_iter} iterations"
    counts = ", ".join(f"{p:.0f}" for p in wide.index)
    words = (
        f"With {at['columns']} columns, of which {counts} have an effect, it evaluates "
        f"{listed(list(wide['evaluations', 'certified']), 2)} learners per iteration"
    )
    same = wide["pace", "full"]  # the same work in every row
    if same.max() > 1.5 * same.min():
        words += (
            f" (the times beside them are too noisy to compare: those of the full search, which "
            f"does the same work, differ by {same.max() / same.min():.1f} times)"
        )
    else:
        words += (
            f" and takes {listed(list(wide['pace', 'certified']), 2)} microseconds (the full "
            f"search {listed(list(same), 2)})"
        )
    grown = wide["evaluations", "certified"]
    follows = "grows" if grown.is_monotonic_increasing else "does not steadily grow"
    words += f". The number of evaluated learners {follows} with the active terms."
    title = f"Learners evaluated and microseconds per iteration by active terms, CWB (b), {size}"
    return words, Table(head, rows, title)


def twice(results: pd.DataFrame) -> float:
    """Return the median over pairs of fits of the time of ACWB divided by the time of CWB."""
    of = results[(results.search == "full") & (results.bins == "nb")]
    wide = of.pivot_table(index=list(VARIABLES), columns="method", values="loop")
    return float((wide["ACWB"] / wide["CWB"]).median())
