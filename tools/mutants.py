"""Change one token of the sources at a time and see whether the tests notice.

    python tools/mutants.py                    tries 240 mutants, spread over the files of TARGETS
    python tools/mutants.py --only smoothing   only files whose path contains "smoothing"
    python tools/mutants.py --list             prints the mutants and runs nothing

A mutant is killed if a test fails. A mutant of a Python file meets the tests that run its line,
quick ones first: one run of the whole suite with coverage.py tells which (`--coverage`, kept for
the next time). A mutant of a C++ file meets the tests that TARGETS lists for it. One that survives
shows what no test checks, or a change that makes no difference.

Mutants are drawn with a fixed seed, so a run can be repeated, and goes on where an interrupted one
ended (`--log`). The sources are changed in place and restored: run it in a checkout of its own with
an editable install that rebuilds C++ (CONTRIBUTING.md).
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LIMIT = 180  # seconds; a mutant whose tests take longer does not end, and counts as killed
TESTS_TIME = 40  # seconds of tests that a mutant of a Python file meets
# Per group of files, the tests for C++ and for lines that no test runs.
FITS = "test_golden_master test_recomputed test_units test_oracle_golden test_setup"
CORE = (
    f"{FITS} test_learner_contract test_core test_hold_out test_optimizers test_losses "
    "test_properties"
)
TARGETS: dict[str, str] = {
    "src/cwboost/binning/*.py": f"{FITS} test_moments test_interactions",
    "src/cwboost/fitting/*.py": f"{FITS} test_bags test_rows_again test_interactions",
    "src/cwboost/losses/*.py": f"{FITS} test_losses test_information",
    "src/cwboost/optimizers.py": f"{FITS} test_optimizers",
    "src/cwboost/selection/*.py": "test_golden_master test_folds test_metrics test_stability "
    "test_probe test_deselect test_importance test_cv",
    "src/cwboost/selection/tuning/*.py": "test_golden_master test_tune_files test_tune",
    "src/cwboost/terms/**/*.py": f"{FITS} test_formula test_bases",
    "src/cwboost/uncertainty/*.py": "test_golden_master test_recomputed test_bands "
    "test_intervals test_information",
    "core/search.hpp": CORE,
    "core/optimizers.hpp": CORE,
    "core/early_stopping.hpp": CORE,
    "core/loss.hpp": CORE,
    "core/system.hpp": CORE,
}
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "/", "/": "*", "and": "or", "or": "and", "True": "False",
    "False": "True", "min": "max", "max": "min", "&": "|", "|": "&",
    "&&": "||", "||": "&&", "true": "false", "false": "true",
}  # fmt: skip
NUMBER = re.compile(r"\d+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)
# Lines that say something to users or to type checkers, and do not compute.
SILENT = re.compile(
    r"raise |warn|Error\(|import |->|: (Any|str|int|float|bool|Floats)\b|\bf\"|assert |"
    r"throw |#include|static_assert|template|Literal|NDArray|dataclass|#define|CWBOOST_KERNEL"
)
CPP_TOKEN = re.compile(
    r"&&|\|\||<=|>=|==|!=|\btrue\b|\bfalse\b|(?<=\s)[-+*/<>](?=\s)|\b\d[\d.]*(?:e-?\d+)?\b|std::(?:min|max)\b"
)
DURATION = re.compile(r"^(\d+\.\d+)s call +(.+)$", re.MULTILINE)


# --- the mutants ----------------------------------------------------------------------------------


class Mutant(NamedTuple):
    file: str
    line: int
    column: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.old} -> {self.new}"


def changed(token: str) -> str | None:
    """Return what a token becomes, None if it stays."""
    if token in SWAPS:
        return SWAPS[token]
    if token in ("std::min", "std::max"):
        return "std::max" if token == "std::min" else "std::min"
    if NUMBER.fullmatch(token):
        if "." in token or "e" in token.lower():
            return repr(float(token) * 3 if float(token) else 0.5)
        return str(int(token) + 1)
    return None


def python_mutants(file: Path) -> list[Mutant]:
    lines = file.read_text().splitlines()
    out = []
    for token in tokenize.generate_tokens(io.StringIO(file.read_text()).readline):
        if token.type not in (tokenize.OP, tokenize.NAME, tokenize.NUMBER):
            continue
        line = lines[token.start[0] - 1]
        new = changed(token.string)
        if new is None or SILENT.search(line):
            continue
        before = line[: token.start[1]].rstrip()
        unary = token.string in "+-*" and (
            not before or before[-1] in "(,=[:{*" or before.endswith("return")
        )
        if unary:
            continue
        if token.string == "|" and "=" not in line and "if" not in line:
            continue  # a union of types
        out.append(Mutant(str(file.relative_to(ROOT)), *token.start, token.string, new))
    return out


def cpp_mutants(file: Path) -> list[Mutant]:
    out = []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        code = line.split("//")[0]
        if SILENT.search(code) or '"' in code or ("<" in code and ">" in code):
            continue
        for match in CPP_TOKEN.finditer(code):
            new = changed(match.group())
            if new is not None:
                out.append(
                    Mutant(str(file.relative_to(ROOT)), number, match.start(), match.group(), new)
                )
    return out


def draw(n: int, only: str, seed: int) -> list[tuple[Mutant, list[str]]]:
    """Return n mutants with the files of their tests, spread evenly over the entries of TARGETS."""
    rng = random.Random(seed)
    groups = []
    for pattern, tests in TARGETS.items():
        found: list[Mutant] = []
        for file in sorted(ROOT.glob(pattern)):
            if only in str(file.relative_to(ROOT)):
                found += python_mutants(file) if file.suffix == ".py" else cpp_mutants(file)
        if found:
            rng.shuffle(found)
            groups.append([(mutant, test_files(tests)) for mutant in found])
    out: list[tuple[Mutant, list[str]]] = []
    while len(out) < n and any(groups):
        for group in groups:
            if group and len(out) < n:
                out.append(group.pop())
    return out


# --- the tests that run a line --------------------------------------------------------------------


def test_files(names: str) -> list[str]:
    return [f"tests/{name}.py" for name in names.split()]


class TestsOfLines:
    """Which tests run a line, from a run of the whole suite with coverage.py."""

    def __init__(self, folder: Path) -> None:
        from coverage import CoverageData

        data_file, times = folder / "coverage", folder / "durations.txt"
        if not times.exists():
            folder.mkdir(parents=True, exist_ok=True)
            print("running the whole suite with coverage.py ...", flush=True)
            options = ["--cov=cwboost", "--cov-context=test", "--cov-report=", "--durations=0"]
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-vv", "-p", "no:cacheprovider", *options],
                cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(data_file)},
                stdout=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
            if done.returncode:
                raise SystemExit(f"{done.stdout[-3000:]}\ntests fail without any mutant")
            times.write_text(done.stdout)
        found = DURATION.findall(times.read_text())
        self._seconds = {test: float(seconds) for seconds, test in found}
        self._data = CoverageData(str(data_file))
        self._data.read()
        self._n_lines: Counter[str] = Counter()  # that each test runs
        with sqlite3.connect(data_file) as database:
            query = "select context, numbits from line_bits join context on id = context_id"
            for name, bits in database.execute(query):
                n = int.from_bytes(bits, "little").bit_count()
                self._n_lines[name.rsplit("|", 1)[0]] += n

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the statement of a mutant; none for C++.

        Quick tests come first, and among them those that run few lines, since they look closely.

        A statement that runs when the module is imported has the tests of the whole module.
        """
        if not mutant.file.endswith(".py"):
            return []
        contexts = self._data.contexts_by_lineno(str(ROOT / mutant.file))

        def run(lines: Iterable[int]) -> set[str]:
            return {name.rsplit("|", 1)[0] for k in lines for name in contexts.get(k, ())} - {""}

        tests = run(statement_lines(mutant.file, mutant.line)) or run(contexts)
        return list(self._within_time(sorted(tests, key=self._cost)))

    def _cost(self, test: str) -> tuple[bool, bool, int]:
        seconds = self._time(test)
        return seconds > 1, seconds > 0.1, self._n_lines[test]

    def _time(self, test: str) -> float:
        return self._seconds.get(test, 0.005)  # pytest does not print shorter times

    def _within_time(self, tests: Iterable[str]) -> Iterator[str]:
        total = 0.0
        for test in tests:
            total += self._time(test)
            if total > TESTS_TIME:
                return
            yield test


@cache
def statement_lines(file: str, line: int) -> range:
    """Return the lines of the innermost statement around a line, without its body if it has one."""
    found = range(line, line + 1)
    for node in ast.walk(ast.parse((ROOT / file).read_text())):  # outer statements come first
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            end = body[0].lineno - 1 if body else node.end_lineno or node.lineno
            if node.lineno <= line <= end:
                found = range(node.lineno, end + 1)
    return found


# --- running them ---------------------------------------------------------------------------------


def tests_pass(tests: list[str]) -> bool:
    """Return whether tests pass, in a forked process.

    Libraries are imported before the fork, cwboost after it, which saves seconds per mutant.
    """
    child = os.fork()
    if child == 0:
        import pytest

        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        sys.dont_write_bytecode = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(ROOT)
        os.setpgrp()
        code = 1
        try:
            code = pytest.main(["-q", "-x", "-n", "0", "-p", "no:cacheprovider", *tests])
        finally:
            os._exit(int(code != 0))
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def result_of(mutant: Mutant, tests: list[str]) -> str:
    """Return "killed", "survives", or "not built" for C++ that does not compile."""
    file = ROOT / mutant.file
    text = file.read_text()
    lines = text.splitlines(keepends=True)
    line = lines[mutant.line - 1]
    end = mutant.column + len(mutant.old)
    assert line[mutant.column : end] == mutant.old, mutant
    lines[mutant.line - 1] = line[: mutant.column] + mutant.new + line[end:]
    try:
        file.write_text("".join(lines))
        if file.suffix != ".py":
            build = [sys.executable, "-c", "import cwboost._core"]
            if subprocess.run(build, capture_output=True, check=False).returncode:
                return "not built"
        return "survives" if tests_pass(tests) else "killed"
    finally:
        file.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=240, help="how many mutants")
    parser.add_argument("--only", default="", help="part of the path of the files to change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="JSON lines: results, to go on from")
    parser.add_argument(
        "--coverage", type=Path, default=ROOT / "build" / "mutants", help="folder for coverage data"
    )
    parser.add_argument("--trust", action="store_true", help="do not run the tests unchanged first")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    a = parser.parse_args()
    mutants = draw(a.number, a.only, a.seed)
    if a.list:
        print(*(mutant for mutant, _ in mutants), sep="\n")
        return 0
    known = {}
    if a.log is not None and a.log.exists():
        entries = [json.loads(line) for line in a.log.read_text().splitlines()]
        known = {entry["mutant"]: entry["result"] for entry in entries}
    of_lines = TestsOfLines(a.coverage)
    tests_of = {mutant: of_lines.of(mutant) or files for mutant, files in mutants}
    import pandas  # noqa: F401 (libraries that all forks share)
    import sklearn.base  # noqa: F401

    used = dict.fromkeys(test for tests in tests_of.values() for test in tests)
    if not a.trust and not tests_pass(list(used)):
        print("tests fail without any mutant, so they cannot judge one")
        return 2
    results = []
    for k, (mutant, tests) in enumerate(tests_of.items(), 1):
        began = time.perf_counter()
        if str(mutant) not in known:
            result = known[str(mutant)] = result_of(mutant, tests)
            if a.log is not None:
                entry = {"mutant": str(mutant), "result": result, "tests": len(tests)}
                with a.log.open("a") as log:
                    log.write(json.dumps(entry) + "\n")
        results.append(known[str(mutant)])
        seconds = time.perf_counter() - began
        print(f"{k:4} {results[-1]:9} {seconds:5.0f} s  {mutant}", flush=True)
    built = [result for result in results if result != "not built"]
    print(f"{len(built)} mutants, {built.count('killed')} killed")
    return int("survives" in built)


if __name__ == "__main__":
    sys.exit(main())
