"""Write the stub of the compiled module, or check that the stored one is up to date.

    python tools/stubs.py            writes src/cwboost/_core.pyi from the installed cwboost
    python tools/stubs.py --check    fails and shows the difference if that would change it

The stored stub is what mypy reads and what the wheel carries. Knows nanobind's stub generator
only; knows nothing of the names in the module.
"""

import argparse
import difflib
import importlib
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

STUB = Path(__file__).parents[1] / "src" / "cwboost" / "_core.pyi"


def generate() -> str:
    generator = StubGen(importlib.import_module("cwboost._core"), quiet=True)
    generator.put(generator.module)
    stub = generator.get().replace("-> tuple:", "-> tuple[object, ...]:")  # strict mypy wants both
    return stub.rstrip() + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    new = generate()
    old = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    if not check:
        STUB.write_text(new, encoding="utf-8")
    elif new != old:
        lines = (old.splitlines(), new.splitlines())
        print(*difflib.unified_diff(*lines, "stored", "generated", lineterm=""), sep="\n")
        print(f"{STUB.name} is stale: run python tools/stubs.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
