"""Tests of the layers: which package may import which, in Python and in C++.

Imports follow the flow of the data. Most tests read the sources as text or as syntax trees.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

import cwboost

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "cwboost"
CORE = ROOT / "core"

# A package (or top-level module) may import, at module level, from itself and from all packages
# that can be reached in this table. Imports inside a function body do not count: a Model plots,
# exports and extends itself with packages above its own.
MAY_IMPORT = {
    "_core": set(),
    "_utils": set(),
    "progress": {"_utils"},
    "datasets": set(),
    "frames": {"_core", "progress"},
    "binning": {"frames"},
    "terms": {"binning"},
    "losses": {"binning"},
    "optimizers": {"_core", "_utils"},
    "stopping": {"_core", "_utils"},
    "model": {"losses", "optimizers", "stopping", "terms"},
    "explain": {"model"},
    "metrics": {"model"},
    "fitting": {"metrics"},
    "export": {"explain"},
    "selection": {"explain", "fitting"},
    "uncertainty": {"explain", "fitting", "selection"},
    "distributed": {"fitting"},
    "plotting": {"explain", "export", "selection", "uncertainty"},
    "report": {"export", "plotting"},
    "estimators": {"distributed", "selection", "uncertainty"},
    "dask": {"estimators"},
    "cli": {"dask", "datasets", "estimators", "report"},
    "__main__": {"cli"},
}
# Libraries that only some modules may import. Others may not import them inside functions either.
MAY_BE_IMPORTED_BY = {
    "narwhals": ("frames.",),
    "matplotlib": ("plotting.",),
    "optuna": ("selection.tuning.optuna",),
    "dask": ("dask", "distributed.dask_", "estimators.dask"),
    "distributed": ("dask", "distributed.dask_", "estimators.dask"),
    "onnx": ("export.onnx",),
    "openpyxl": ("export.tables",),
}
LONGEST_FILE = 700  # lines; a longer file holds more than one idea

CPP_MAY_INCLUDE = {
    "types.hpp": set(),
    "kernels.hpp": {"types.hpp"},
    "parallel.hpp": {"types.hpp"},
    "basis.hpp": {"types.hpp"},
    "crosses.hpp": {"types.hpp"},
    "weights.hpp": {"types.hpp"},
    "loss.hpp": {"kernels.hpp", "weights.hpp"},
    "cells.hpp": {"kernels.hpp"},
    "learner.hpp": {"basis.hpp", "cells.hpp"},
    "sums.hpp": {"basis.hpp", "kernels.hpp", "weights.hpp"},
    "moments.hpp": {"sums.hpp"},
    "verbs.hpp": {"basis.hpp"},
    "row_loops.hpp": {"kernels.hpp"},
    "local_rows.hpp": {
        "crosses.hpp",
        "loss.hpp",
        "moments.hpp",
        "parallel.hpp",
        "row_loops.hpp",
        "verbs.hpp",
    },
    "point.hpp": {"verbs.hpp", "learner.hpp"},
    "grams.hpp": {"point.hpp"},
    "gram_rows.hpp": {"grams.hpp"},
    "search.hpp": {"gram_rows.hpp"},
    "early_stopping.hpp": {"point.hpp"},
    "optimizers.hpp": {"early_stopping.hpp", "search.hpp"},
    "boost.hpp": {"optimizers.hpp"},
    "setup.hpp": {"kernels.hpp"},
    "system.hpp": {"kernels.hpp", "parallel.hpp"},
    "pairs.hpp": {"cells.hpp", "system.hpp"},
    "predict.hpp": {"kernels.hpp", "parallel.hpp"},
    "bind_common.hpp": {"basis.hpp"},
    "bind_rows.cpp": {"bind_common.hpp", "local_rows.hpp"},
    "bind_boost.cpp": {"bind_common.hpp", "boost.hpp"},
    "bind_setup.cpp": {"bind_common.hpp", "pairs.hpp", "setup.hpp"},
    "bind_predict.cpp": {"bind_common.hpp", "predict.hpp"},
    "module.cpp": set(),
}


def reachable(graph, start):
    """Return all nodes that can be reached from a node; itself only if it is on a cycle."""
    found, todo = set(), list(graph[start])
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += graph[node]
    return found


@cache
def modules():
    """Return the syntax tree of every module by its dotted name within the package."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = ast.parse(path.read_text())
    return found


class Import:
    """One imported name: the module it comes from, and whether that happens at module level."""

    def __init__(self, module, name, at_top):
        self.module, self.name, self.at_top = module, name, at_top

    @property
    def own(self):
        """Return the package or top-level module of cwboost; None for other libraries."""
        parts = self.module.split(".")
        if parts[0] != "cwboost":
            return None
        return parts[1] if len(parts) > 1 else self.name


@cache
def imports(name):
    """Return the imports of a module, except imports under TYPE_CHECKING."""
    is_package = (PACKAGE / Path(*name.split("."))).is_dir()
    folder = name.split(".") if is_package else name.split(".")[:-1]

    def visit(node, at_top):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", at_top)
        elif isinstance(node, ast.ImportFrom):
            base = ["cwboost", *folder[: len(folder) - node.level + 1]] if node.level else []
            module = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            for alias in node.names:
                yield Import(module, alias.name, at_top)
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_top and not function)

    return list(visit(modules()[name], True))


def package_of(name):
    return name.split(".")[0]


def test_every_package_is_in_the_table():
    assert {package_of(name) for name in modules()} - {"__init__"} == set(MAY_IMPORT) - {"_core"}


def test_the_table_has_no_cycle():
    for name in MAY_IMPORT:
        assert name not in reachable(MAY_IMPORT, name)


@pytest.mark.parametrize("name", [name for name in modules() if name != "__init__"])
def test_a_module_imports_only_packages_below_its_own(name):
    package = package_of(name)
    allowed = reachable(MAY_IMPORT, package) | {package, "__version__"}
    found = {i.own for i in imports(name) if i.at_top and i.own} - {"__init__"}
    assert found <= allowed, f"{name} imports {found - allowed}"


def test_modules_have_no_circular_imports():
    graph = {
        name: {
            target
            for i in imports(name)
            if i.at_top and i.own
            for target in (".".join(i.module.split(".")[1:]), f"{i.module}.{i.name}"[8:])
            if target in modules() and target != name
        }
        for name in modules()
        if name != "__init__"
    }
    for name in graph:
        assert name not in reachable(graph, name), name


@pytest.mark.parametrize("library", MAY_BE_IMPORTED_BY)
def test_a_library_is_imported_only_where_it_may_be(library):
    users = {name for name in modules() for i in imports(name) if i.module.split(".")[0] == library}
    assert {name for name in users if not name.startswith(MAY_BE_IMPORTED_BY[library])} == set()


def test_no_module_imports_a_private_name_of_another():
    private = [
        f"{name}: {i.module}.{i.name}"
        for name in modules()
        for i in imports(name)
        if i.own and i.name.startswith("_") and i.name not in ("_core", "__version__")
    ]
    assert private == []


def test_messages_shorten_what_they_quote():
    """A name may have millions of characters; `quote` shortens it, and `!r` does not."""
    found = [
        f"{name}, line {node.lineno}"
        for name, tree in modules().items()
        if name != "__init__"  # Python quotes missing attributes in the same way
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
        if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
    ]
    assert found == []


def test_warnings_name_the_line_of_the_user():
    """Only the helper that finds this line calls warnings.warn."""
    calls = [path.name for path in PACKAGE.rglob("*.py") if "warnings.warn(" in path.read_text()]
    assert calls == ["user_warnings.py"]


def test_no_module_has_the_name_of_a_public_function():
    """`import cwboost.fit` must not give a module where `cwboost.fit` is a function."""
    names = {module.name for module in pkgutil.iter_modules(cwboost.__path__)}
    assert names & set(cwboost.__all__) == set()


def test_public_names_are_where_the_table_says():
    for module, names in cwboost.PUBLIC_NAMES.items():
        for name in names:
            found = getattr(importlib.import_module(f"cwboost.{module}"), name)
            assert found is getattr(cwboost, name)
            assert found.__module__.startswith(f"cwboost.{module}")


def test_no_two_classes_share_a_name():
    seen = {}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                assert node.name not in seen, f"{node.name} in {name} and {seen[node.name]}"
                seen[node.name] = name


@pytest.mark.parametrize(
    "path",
    [*sorted(PACKAGE.rglob("*.py")), *sorted(CORE.glob("*.?pp"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_a_file_is_short_and_says_what_it_is_about(path):
    text = path.read_text()
    assert text.startswith('"""' if path.suffix == ".py" else "//")
    assert len(text.splitlines()) <= LONGEST_FILE


def core_names(tree):
    """Return the names that a module takes from the compiled core."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "_core"
    }


def test_only_one_module_calls_the_loop_of_the_core():
    callers = {name for name, tree in modules().items() if "boost" in core_names(tree)}
    assert callers == {"fitting.problem"}


# Functions over whole columns (setup.hpp), and the classes that pass bins to the core. Rows, losses
# and learners of the core are used by later steps only.
KERNELS = {
    "IndexSet", "MomentSet",
    "assign_cuts", "assign_equal", "assign_nearest", "bin_exactly", "distinct", "place",
    "power_rows", "quantiles", "spline_rows", "survey", "weigh_bins", "weigh_distinct",
    "weigh_pieces",
}  # fmt: skip


@pytest.mark.parametrize("package", ["frames", "binning", "terms"])
def test_columns_and_terms_use_only_kernels_of_the_core(package):
    used = [core_names(tree) for name, tree in modules().items() if package_of(name) == package]
    assert set().union(*used) <= KERNELS


# --- C++ ------------------------------------------------------------------------------------------


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def sources():
    return sorted(p for p in CORE.rglob("*") if p.suffix in (".hpp", ".cpp", ".h"))


def test_every_core_file_is_in_the_table():
    assert {p.name for p in sources()} == set(CPP_MAY_INCLUDE)


@pytest.mark.parametrize("name", CPP_MAY_INCLUDE)
def test_core_includes_only_what_is_below_it(name):
    own = set(includes(CORE / name)) & set(CPP_MAY_INCLUDE)
    assert own <= reachable(CPP_MAY_INCLUDE, name)


def test_only_bindings_include_nanobind_and_python():
    for path in sources():
        known = [i for i in includes(path) if i.startswith(("nanobind", "Python.h", "pybind"))]
        assert not known or path.name.startswith(("bind_", "module.cpp")), path.name


def test_only_parallel_starts_threads():
    for path in sources():
        if path.name != "parallel.hpp":
            assert not {"thread", "future", "omp.h"} & set(includes(path)), path.name
