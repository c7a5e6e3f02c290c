"""Fuzzes cwboost: random tables, arguments, files and command lines, and properties of models.

    python tests/fuzz/run.py --minutes 30            # all areas; a table, then the failures
    python tests/fuzz/run.py --areas fit,files       # some areas
    python tests/fuzz/run.py --case fit:17           # repeats one case, with its traceback

A case is a function of its area and seed alone, so every failure can be repeated. It fails as a

- crash: the process died (signal, abort, out of memory);
- hang: it did not end within the time limit;
- wrong: a property does not hold, such as "predict equals intercept plus contributions";
- unclear: an exception that is not one of our own sentences (see verdict.py), or a warning that
  cwboost did not intend, such as NumPy's RuntimeWarning.

The exit code is 1 if anything failed. The parts:

    run.py          the command line
    report.py       the table of results, and the failures by cause
    worker.py       runs cases in forked processes with limits of time and memory
    verdict.py      decides whether an exception or a warning is clear
    tables.py       random tables of every column type, for every table library
    values.py       odd values, and random learners, losses and other settings
    callables.py    every public callable, and valid values of its parameters
    areas/          one module per area, with `case(rng, tried)`

To add an area, write a module in areas/ and a line in areas/__init__.py. A case describes what it
does in the list `tried`, calls cwboost, and raises `PropertyError` if a property does not hold.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

# Workers are forked, which threads of other libraries would not survive.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"):
    os.environ[name] = "1"
os.environ["MPLBACKEND"] = "agg"
sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.areas import AREAS  # noqa: E402
from fuzz.callables import find_gaps, make_shared_objects  # noqa: E402
from fuzz.report import Report  # noqa: E402
from fuzz.worker import Case, Limits, Printed, run_case, run_cases  # noqa: E402

BATCH = 50  # cases per worker


def main(arguments: list[str] | None = None) -> int:
    """Run the fuzzer and return its exit code."""
    options = read_arguments(arguments)
    if options.case:
        return repeat_case(options.case)
    gaps = find_gaps()
    for gap in gaps:
        print(f"not covered: {gap}")
    make_shared_objects()
    report = Report()
    deadline = time.monotonic() + 60 * options.minutes
    batches = make_batches(options.areas, options.seed, options.cases, deadline)
    limits = Limits(seconds=options.seconds)
    try:
        for case, failure in run_cases(AREAS, batches, options.jobs, limits):
            report.add(case, failure)
    except KeyboardInterrupt:
        print("interrupted")
    print(report)
    return int(bool(gaps or report.failures))


def read_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Fuzz cwboost; see the top of this file.")
    parser.add_argument("--minutes", type=float, default=2.0, help="time to run (default 2)")
    parser.add_argument("--cases", type=int, help="stop after this number of cases")
    parser.add_argument("--areas", type=_area_names, default=list(AREAS), help=", ".join(AREAS))
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="number of workers (default 2)")
    parser.add_argument("--seconds", type=float, default=30.0, help="time limit of a case")
    parser.add_argument("--case", type=_read_case, metavar="AREA:SEED", help="repeat one case")
    return parser.parse_args(arguments)


def _area_names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in AREAS:
            raise argparse.ArgumentTypeError(f"unknown area {name!r}; use {', '.join(AREAS)}")
    return names


def _read_case(text: str) -> Case:
    area, _, seed = text.partition(":")
    if area not in AREAS or not seed.isdigit():
        raise argparse.ArgumentTypeError("expected AREA:SEED, such as fit:17")
    return Case(area, int(seed))


def repeat_case(case: Case) -> int:
    """Run one case in this process and print what it tried and how it failed."""
    failure = run_case(AREAS[case.area], case, Printed())
    print(f"{failure.kind}: {failure.cause}\n{failure.details}" if failure else "no failure")
    return int(failure is not None)


def make_batches(
    areas: list[str], seed: int, n_cases: int | None, deadline: float
) -> Iterator[list[Case]]:
    """Yield batches of cases, area by area in turn, until the time or the number is used up."""
    made = 0
    while time.monotonic() < deadline:
        for area in areas:
            size = BATCH if n_cases is None else min(BATCH, -(-(n_cases - made) // len(areas)))
            if size <= 0 or time.monotonic() >= deadline:
                return
            yield [Case(area, seed + k) for k in range(size)]
            made += size
        seed += BATCH


if __name__ == "__main__":
    sys.exit(main())
