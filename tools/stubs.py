"""Write the type stubs of the package, or check that the stored ones are up to date.

    python tools/stubs.py            writes both stubs from the installed cwboost
    python tools/stubs.py --check    fails and shows the differences if that would change them

`_core.pyi` describes the compiled module, `__init__.pyi` the public names, which the package
imports lazily. Type checkers read the stored stubs, and the wheel carries them.
"""

import argparse
import difflib
import importlib
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

PACKAGE = Path(__file__).parents[1] / "src" / "cwboost"


def core_stub() -> str:
    generator = StubGen(importlib.import_module("cwboost._core"), quiet=True)
    generator.put(generator.module)
    stub = generator.get().replace("-> tuple:", "-> tuple[object, ...]:")  # strict mypy wants both
    return stub.rstrip() + "\n"


def package_stub() -> str:
    package = importlib.import_module("cwboost")
    lines = ["# Written by tools/stubs.py from PUBLIC_NAMES in __init__.py.", ""]
    for module, names in sorted(package.PUBLIC_NAMES.items()):
        lines += [f"from cwboost.{module} import {name} as {name}" for name in sorted(names)]
    lines += [
        "",
        "PUBLIC_NAMES: dict[str, tuple[str, ...]]",
        "__version__: str",
        "__all__: list[str]",
    ]
    return "\n".join(lines) + "\n"


STUBS = {"_core.pyi": core_stub, "__init__.pyi": package_stub}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    check = parser.parse_args().check
    stale = []
    for name, generate in STUBS.items():
        file, new = PACKAGE / name, generate()
        old = file.read_text(encoding="utf-8") if file.exists() else ""
        if not check:
            file.write_text(new, encoding="utf-8")
        elif new != old:
            lines = (old.splitlines(), new.splitlines())
            print(*difflib.unified_diff(*lines, "stored", "generated", lineterm=""), sep="\n")
            stale.append(name)
    if stale:
        print(f"{' and '.join(stale)}: stale; run python tools/stubs.py", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
