"""EQ1: comparison with mboost and compboost, two R packages.

If R has the packages, they are fitted in the same run. Otherwise cwboost is compared with stored
times that were measured once, on another day, and are labelled as such.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

import cwboost as cb
from benchmarks.process import Memory
from benchmarks.rivals import RIVALS
from benchmarks.simulate import Simulation, coin, noisy

from . import simulated, style
from .found import Finding, Table, listed
from .simulated import median_seconds, splines
from .variants import BASE, VARIANTS, bins_of, method_of, optimizer

if TYPE_CHECKING:
    import pandas as pd

TITLE = "EQ1: comparison with mboost and compboost"
CAPTION = (
    "Seconds of mboost divided by seconds of the fit, on data of the paper's simulation (20 "
    "columns with an effect), 200 iterations, one thread, set-up included. Where a bar is marked "
    "as stored, R was not installed, and the times of mboost are stored ones, too."
)
DEVIATIONS = (
    "The paper uses its six real tables and 30 of 32 cores, and compares the iterations of "
    "compboost (without set-up) with the whole call of mboost; here simulated data of two sizes, "
    "one thread and the whole call are used. The time of HCWB includes 30% validation rows.",
    "All fits have 200 iterations without early stopping, so acceleration shows only the higher "
    "cost of its iterations, not the iterations that it saves (see H3 and EQ2).",
    "Stored reference times: compboost 0.1.2 and mboost 2.9-13 on a machine with two cores, one "
    "thread, the same sizes and settings (200 iterations, rate 0.05, df 5, 20 knots), measured "
    "once. They are used where R or the package is missing, and were not measured in this run.",
)
NEEDS_DATA, KEEPS, PARALLEL_KINDS = False, (), ()

# Stored reference times in seconds, and memory added in MB: (rows, columns, loss) -> package.
STORED = {
    (20_000, 20, "squared"): {"compboost CWB": 1.96, "compboost CWB (b)": 0.34,
                              "compboost ACWB (b)": 0.59, "mboost": 4.92},
    (20_000, 20, "binomial"): {"compboost CWB": 1.92, "compboost CWB (b)": 0.39,
                               "compboost ACWB (b)": 0.64, "mboost": 4.90},
    (100_000, 50, "squared"): {"compboost CWB": 25.6, "compboost CWB (b)": 3.78,
                               "compboost ACWB (b)": 6.72, "mboost": 39.4},
    (100_000, 50, "binomial"): {"compboost CWB": 25.7, "compboost CWB (b)": 3.99,
                                "compboost ACWB (b)": 6.87, "mboost": 41.1},
}  # fmt: skip
STORED_MEGABYTES = {"compboost CWB": 537, "compboost CWB (b)": 166, "mboost": 910}  # 100,000 x 50
PACKAGES = {  # with the settings of benchmarks.rivals
    "compboost CWB": "compboost-cwb-nb",
    "compboost CWB (b)": "compboost-cwb",
    "compboost ACWB (b)": "compboost-acwb",
    "mboost": "mboost",
}
INFORMATIVE, N_ITER = 20, 200


@cache
def installed() -> list[str]:
    return [name for name, rival in PACKAGES.items() if RIVALS[rival].missing() is None]


def tasks(scale: str) -> list[dict[str, Any]]:
    """Return the tasks, the same for small, page and paper: the problems of the stored times."""
    sizes = list(STORED) if scale != "tiny" else [(300, 21, "squared"), (300, 21, "binomial")]
    return [
        {"n": n, "columns": columns, "loss": loss, "variant": variant}
        for n, columns, loss in sizes
        for variant in (*VARIANTS, *(installed() if scale != "tiny" else ()))
    ]


def data(n: int, columns: int, loss: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    simulation = Simulation.make(1, INFORMATIVE, columns - INFORMATIVE)
    rng = np.random.default_rng(2)
    table = simulation.table(rng, n)
    eta = simulation.eta(table)
    return table, noisy(rng, eta) if loss == "squared" else coin(rng, eta)


def fit(table: dict[str, np.ndarray], y: np.ndarray, loss: str, variant: str) -> cb.Model:
    return cb.fit(
        table,
        y,
        splines(table),
        loss=loss,
        scale=1,
        optimizer=optimizer(variant, simulated.RATE),
        n_iter=N_ITER,
        bins=bins_of(variant),
        validation=0.3 if variant.startswith("HCWB") else None,
        patience=None,
        n_threads=1,
    )


def run(n: int, columns: int, loss: str, variant: str) -> dict[str, Any]:
    if variant in PACKAGES:
        return run_package(n, columns, loss, variant)
    fit(*data(300, INFORMATIVE, loss), loss, variant)  # one-time loading is not measured
    table, y = data(n, columns, loss)
    before = Memory()
    once = partial(fit, table, y, loss, variant)
    once()
    return {"megabytes": before.added(), "seconds_of_fit": median_seconds(once)}


def run_package(n: int, columns: int, loss: str, variant: str) -> dict[str, Any]:
    import pandas as pd

    from benchmarks.problems import FitProblem, Rows

    table, y = data(n, columns, loss)
    rows = Rows(pd.DataFrame(table), y)
    rival = RIVALS[PACKAGES[variant]]()
    rival.fit(FitProblem("", loss, rows, rows.part(slice(100))), 1)
    figures = rival.figures()
    return {"megabytes": figures.get("megabytes"), "seconds_of_fit": figures["fit_seconds"]}


# --- what was found -------------------------------------------------------------------------------


def seconds(results: pd.DataFrame) -> dict[tuple[Any, ...], dict[str, float]]:
    """Return the seconds of every variant and package by problem; stored if R did not run."""
    found = {}
    for key, of in results.groupby(["n", "columns", "loss"], sort=False):
        here = dict(zip(of.variant, of.seconds_of_fit, strict=True))
        found[key] = {**STORED.get(key, {}), **here}
    return found


def label(name: str, results: pd.DataFrame) -> str:
    if name in VARIANTS:
        return f"cwboost {name}"
    return name if name in set(results.variant) else f"{name} (stored)"


def figure(results: pd.DataFrame) -> Any:
    found = seconds(results)
    with style.style():
        drawing, axes = style.panels(1, len(found), 3.4, sharex=True, sharey=True)
        for panel, ((n, columns, loss), times) in zip(axes[0], found.items(), strict=True):
            base = times.get("mboost", max(times.values()))
            names = [name for name in times if name != "mboost"]
            own = [style.ALGORITHMS[method_of(x)] if x in VARIANTS else style.GREY for x in names]
            values = [base / times[name] for name in names]
            panel.barh([label(name, results) for name in names], values, color=own, height=0.7)
            for k, value in enumerate(values):
                text, at = f"{value:.0f}" if value >= 10 else f"{value:.1f}", (value, k)
                panel.annotate(
                    text, at, (3, 0), textcoords="offset points", va="center", fontsize=7.5
                )
            panel.set(xscale="log", title=f"{n:,} x {columns}, {loss}")
            panel.set_xlabel("times as fast as mboost")
            panel.margins(x=0.25)
        axes[0, 0].invert_yaxis()
        axes[0, 0].set_xlim(left=0.8)
        style.log_ticks(axes[0, 0].xaxis, (1, 10, 100))
    return drawing


def table(results: pd.DataFrame) -> Finding:
    found = seconds(results)
    names = list(dict.fromkeys(name for times in found.values() for name in times))
    head = ["seconds", *(f"{n:,} x {columns}, {loss}" for n, columns, loss in found)]
    stored = set(names) - set(results.variant)
    rows = [[label(name, results), *(t.get(name) for t in found.values())] for name in names]
    memory = results.pivot_table(index="variant", columns=["n", "columns"], values="megabytes")
    lines = [[f"{name} (stored)", *[None] * (memory.shape[1] - 1), value]
             for name, value in STORED_MEGABYTES.items()]  # fmt: skip
    lines += [[label(name, results), *memory.loc[name]] for name in names if name in memory.index]
    sizes = ["memory added, MB", *(f"{n:,} x {columns}" for n, columns in memory.columns)]
    against = {
        name: [t["mboost"] / t[name] for t in found.values() if "mboost" in t and name in t]
        for name in names
    }
    own = [against[name] for name in VARIANTS if against[name]]
    rival = against.get("compboost CWB")
    faster = [
        t["compboost CWB (b)"] / t["CWB (b)"] for t in found.values() if "compboost CWB (b)" in t
    ]
    if not own:
        return Finding({}, "No time of mboost to compare with.", [Table(head, rows)])
    told = f"compboost's CWB is {listed(rival, 2)} times as fast as mboost (the paper: 2 to 4). "
    why = (
        f"{told if rival else ''}cwboost's CWB is {listed(against[BASE], 2)} times as fast as "
        f"mboost without binning and {listed(against['CWB (b)'], 2)} times with it, ACWB (b) "
        f"{listed(against['ACWB (b)'], 2)} times. With binning, cwboost's CWB is "
        f"{listed(faster, 2)} times as fast as compboost's. All fits have {N_ITER} iterations, so "
        "that acceleration shows as cost only. "
        + (
            f"The times of {', '.join(sorted(stored))} are stored reference times of another day."
            if stored
            else "All were measured in this run."
        )
    )
    complete = len(against[BASE]) == len(STORED)
    figures = {"faster": against[BASE], "compboost": rival} if complete and rival else {}
    return Finding(figures, why, [Table(head, rows), Table(sizes, lines)])
