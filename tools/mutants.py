"""Change one token of the sources at a time and see whether the tests notice.

    python tools/mutants.py                    tries 240 mutants, spread over the files of TARGETS
    python tools/mutants.py --only smoothing   only files whose path contains "smoothing"
    python tools/mutants.py --list             prints the mutants and runs nothing

A mutant is killed if one of the tests listed for its file fails; one that survives shows what no
test checks. Mutants are drawn with a fixed seed, so a run can be repeated and goes on where an
interrupted one ended (`--log`). The sources are changed in place and restored: run it in a checkout
with an editable install and nothing else going on. Mutants of C++ files are compiled by the
editable install when the tests import the package.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import re
import subprocess
import sys
import time
import tokenize
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SECONDS = 600  # a test run that takes longer counts as killed: the mutant does not end
# Per group of files, the tests that should notice, the quickest and most telling first.
FITS = "test_golden_master test_recomputed test_units test_oracle_golden test_setup"
TARGETS: dict[str, str] = {
    "src/cwboost/binning/*.py": f"{FITS} test_moments test_interactions",
    "src/cwboost/fitting/*.py": f"{FITS} test_bags test_rows_again test_interactions",
    "src/cwboost/losses/*.py": f"{FITS} test_losses test_information",
    "src/cwboost/optimizers.py": f"{FITS} test_optimizers",
    "src/cwboost/selection/*.py": "test_golden_master test_folds test_metrics test_stability "
    "test_probe test_deselect test_cv",
    "src/cwboost/selection/tuning/*.py": "test_golden_master test_tune_files test_tune",
    "src/cwboost/terms/**/*.py": f"{FITS} test_formula test_bases",
    "src/cwboost/uncertainty/*.py": "test_golden_master test_recomputed test_bands "
    "test_intervals test_information",
    "core/search.hpp": f"{FITS} test_core",
    "core/optimizers.hpp": f"{FITS} test_core",
    "core/loss.hpp": f"{FITS} test_core",
    "core/system.hpp": f"{FITS} test_core",
}
SWAPS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "+": "-", "-": "+", "*": "/", "/": "*", "and": "or", "or": "and", "True": "False",
    "False": "True", "min": "max", "max": "min", "&": "|", "|": "&",
    "&&": "||", "||": "&&", "true": "false", "false": "true",
}  # fmt: skip
NUMBER = re.compile(r"\d+(\.\d*)?(e[-+]?\d+)?", re.IGNORECASE)
# Lines that say something to people or to type checkers, and do not compute.
SILENT = re.compile(
    r"raise |warn|Error\(|import |->|: (Any|str|int|float|bool|Floats)\b|\bf\"|assert |"
    r"throw |#include|static_assert|template|Literal|NDArray|dataclass|#define|CWBOOST_KERNEL"
)
CPP_TOKEN = re.compile(
    r"&&|\|\||<=|>=|==|!=|\btrue\b|\bfalse\b|(?<=\s)[-+*/<>](?=\s)|\b\d[\d.]*(?:e-?\d+)?\b|std::(?:min|max)\b"
)


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


def draw(n: int, only: str, seed: int) -> list[tuple[Mutant, str]]:
    """Return n mutants with their tests, spread evenly over the entries of TARGETS."""
    rng = random.Random(seed)
    groups = []
    for pattern, tests in TARGETS.items():
        found: list[Mutant] = []
        for file in sorted(ROOT.glob(pattern)):
            if only in str(file):
                found += python_mutants(file) if file.suffix == ".py" else cpp_mutants(file)
        if found:
            rng.shuffle(found)
            groups.append([(mutant, tests) for mutant in found])
    out: list[tuple[Mutant, str]] = []
    while len(out) < n and any(groups):
        for group in groups:
            if group and len(out) < n:
                out.append(group.pop())
    return out


def run_tests(tests: str) -> bool:
    """Return whether the tests pass."""
    files = [f"tests/{name}.py" for name in tests.split() if (ROOT / f"tests/{name}.py").exists()]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, *files], cwd=ROOT, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def survives(mutant: Mutant, tests: str) -> bool:
    file = ROOT / mutant.file
    text = file.read_text()
    lines = text.splitlines(keepends=True)
    line = lines[mutant.line - 1]
    end = mutant.column + len(mutant.old)
    assert line[mutant.column : end] == mutant.old, mutant
    lines[mutant.line - 1] = line[: mutant.column] + mutant.new + line[end:]
    try:
        file.write_text("".join(lines))
        return run_tests(tests)
    finally:
        file.write_text(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=240, help="how many mutants")
    parser.add_argument("--only", default="", help="part of the path of the files to change")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--log", type=Path, help="JSON lines: results, to go on from")
    parser.add_argument("--trust", action="store_true", help="do not run the tests unchanged first")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    a = parser.parse_args()
    known = {}
    if a.log is not None and a.log.exists():
        entries = [json.loads(line) for line in a.log.read_text().splitlines()]
        known = {entry["mutant"]: entry["survives"] for entry in entries}
    alive = []
    mutants = draw(a.number, a.only, a.seed)
    used = dict.fromkeys(name for _, tests in mutants for name in tests.split())
    if not (a.list or a.trust) and not run_tests(" ".join(used)):
        print(f"tests fail without any mutant, so they cannot judge one: {', '.join(used)}")
        return 2
    for k, (mutant, tests) in enumerate(mutants, 1):
        if a.list:
            print(mutant)
            continue
        began = time.perf_counter()
        if str(mutant) not in known:
            known[str(mutant)] = survives(mutant, tests)
            if a.log is not None:
                entry = {"mutant": str(mutant), "survives": known[str(mutant)]}
                with a.log.open("a") as log:
                    log.write(json.dumps(entry) + "\n")
        word = "SURVIVES" if known[str(mutant)] else "killed"
        print(f"{k:4} {word:8} {time.perf_counter() - began:5.0f} s  {mutant}", flush=True)
        alive += [mutant] * known[str(mutant)]
    if not a.list:
        print(f"{len(mutants)} mutants, {len(mutants) - len(alive)} killed")
    return int(bool(alive))


if __name__ == "__main__":
    sys.exit(main())
