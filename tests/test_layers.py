"""Imports go one way: who may know whom, in Python and in C++.

Knows the layers; reads the sources as text and as syntax trees, imports nothing of them.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "cwboost"
CORE = ROOT / "core"

# Each may import at module level those that it can reach along these; a file that is not here may
# not import fit and is imported by nobody below it.
MAY_IMPORT = {
    "checks": set(),
    "memory": set(),
    "threads": set(),
    "whole": set(),
    "table": {"checks"},
    "unify": {"table"},
    "parquet": {"progress", "unify", "whole"},
    "store": {"bins", "unify", "whole"},
    "dataset": {"progress", "store"},
    "bins": {"table", "memory"},
    "bases": {"bins", "table"},
    "smoothing": {"table"},
    "losses": {"bins", "digest"},
    "optimizers": {"checks"},
    "learners": {"bases"},
    "moments": {"bases"},
    "pairs": {"bases", "smoothing"},
    "design": {"learners", "moments", "pairs", "smoothing", "threads"},
    "data": {"checks", "losses"},
    "model": {"data", "design", "optimizers"},
    "terms": {"learners"},
    "formula": {"terms"},
    "binned": {"model"},
    "replicates": {"progress", "smoothing"},
    "folds": {"data"},
    "metrics": {"data", "quality"},
    "scorers": {"metrics"},
    "cv": {"effects", "fit", "folds", "metrics", "replicates"},
    "cv_text": {"pictures", "text"},
    "plots_cv": {"cv", "plots"},
    "journal": {"whole"},
    "schedules": {"checks"},
    "space": {"design", "optimizers"},
    "bench": {"fit", "folds", "growth", "metrics", "replicates", "space"},
    "digest": set(),
    "checkpoint": {"digest", "model", "whole"},
    "climb": {"bench", "digest", "journal", "schedules"},
    "tune": {"climb"},
    "tune_optuna": {"bench", "schedules"},
    "plots_tuning": {"plots", "tune"},
    "fit": {"binned", "checkpoint", "formula", "interactions", "progress", "terms"},
    "shard": {"data", "design", "unify"},
    "shards": {"fit"},
    "far_columns": {"shard", "shards"},
    "far_data": {"far_columns"},
    "far_rows": {"far_data"},
    "far_fit": {"far_rows"},
    "bounds": {"checks"},
    "by": set(),
    "stability": {"bounds", "by", "effects", "fit", "folds", "replicates"},
    "probe": {"by", "effects", "fit", "replicates"},
    "deselect": {"by", "effects", "fit"},
    "information": {"fit"},
    "bags": {"effects", "fit", "quality", "replicates"},
    "bootstrap": {"fit", "folds", "replicates"},
    "intervals": {"bags"},
    "interactions": {"model", "progress"},
    "effects": {"model"},
    "export": {"model", "whole"},
    "edit": {"effects"},
    "pieces": {"model"},
    "lookup": {"pieces"},
    "sql": {"pieces"},
    "onnx": {"pieces"},
    "tables": {"pieces", "effects", "export"},
    "growth": {"effects"},
    "pictures": {"explain", "growth", "lookup"},
    "plots": {"pictures"},
    "plots_stability": {"plots", "stability"},
    "plots_information": {"information", "plots"},
    "plots_interactions": {"plots"},
    "notebook": {"pictures"},
    "quality": {"model"},
    "report_data": {"edit", "growth", "lookup", "quality"},
    "report": {"report_data", "whole"},
    "explain": {"effects"},
    "text": {"tables"},
    "files": {"dataset"},
    "progress": set(),
    "arguments": {"folds", "losses", "metrics", "optimizers", "sql", "terms"},
}
# Nobody imports them, but for __init__ the estimators, which are public names; a method that draws
# imports plots inside its body.
DRAWING = {"plots"} | {
    f"plots_{topic}" for topic in ("cv", "information", "interactions", "stability", "tuning")
}
TOP = {"cli", "dask", "estimators", "estimators_cv", "far_fit", *DRAWING}
KNOWS_NARWHALS = {"table"}
KNOWS_MATPLOTLIB = DRAWING
KNOWS_OPTUNA = {"tune_optuna"}
KNOWS_DASK = {"dask"}

CPP_MAY_INCLUDE = {
    "types.hpp": set(),
    "kernels.hpp": {"types.hpp"},
    "basis.hpp": {"types.hpp"},
    "crosses.hpp": {"types.hpp"},
    "loss.hpp": {"kernels.hpp"},
    "cells.hpp": {"kernels.hpp"},
    "learner.hpp": {"basis.hpp", "cells.hpp"},
    "parallel.hpp": {"types.hpp"},
    "sums.hpp": {"basis.hpp", "kernels.hpp"},
    "moments.hpp": {"sums.hpp"},
    "rows.hpp": {"crosses.hpp", "loss.hpp", "moments.hpp", "parallel.hpp"},
    "point.hpp": {"rows.hpp", "learner.hpp"},
    "grams.hpp": {"point.hpp"},
    "gram_rows.hpp": {"grams.hpp"},
    "search.hpp": {"gram_rows.hpp"},
    "boost.hpp": {"search.hpp"},
    "setup.hpp": {"kernels.hpp"},
    "system.hpp": {"kernels.hpp", "parallel.hpp"},
    "pairs.hpp": {"cells.hpp", "system.hpp"},
    "predict.hpp": {"parallel.hpp"},
    "bindings.cpp": {"boost.hpp", "pairs.hpp", "predict.hpp", "setup.hpp", "system.hpp"},
}


def reachable(graph, start):
    """All that can be reached from a node, itself left out."""
    found, todo = set(), list(graph[start])
    while todo:
        node = todo.pop()
        if node not in found:
            found.add(node)
            todo += graph[node]
    return found


@cache
def modules():
    return {path.stem: ast.parse(path.read_text()) for path in sorted(PACKAGE.glob("*.py"))}


def imports(tree, *, inside=False):
    """(name, at module level) of every import: own modules as 'table', others as 'numpy'.

    An import under TYPE_CHECKING is for people and does not count.
    """

    def visit(node, at_top):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name.removeprefix("cwboost.")
                yield name.split(".")[0], at_top
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == 0 and module.split(".")[0] != "cwboost":
                yield module.split(".")[0], at_top
            else:
                inner = module.removeprefix("cwboost").strip(".")
                for name in [inner.split(".")[0]] if inner else [a.name for a in node.names]:
                    yield name, at_top
        function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, at_top and not function)

    return [name for name, at_top in visit(tree, True) if at_top or inside]


@pytest.mark.parametrize("name", sorted(set(MAY_IMPORT) & {p.stem for p in PACKAGE.glob("*.py")}))
def test_module_imports_only_what_is_below_it(name):
    trees = modules()
    own = set(imports(trees[name])) & set(trees)
    assert own <= reachable(MAY_IMPORT, name), f"{name} imports {own}"


def test_every_layer_has_a_place():
    """A new module states here whom it may import, or it is one that may import anything."""
    free = {
        "__init__",
        "__main__",
        "cli",
        "estimators",
        "estimators_cv",
        "demo",
        "datasets",
        "dask",
    }
    assert set(modules()) - free <= set(MAY_IMPORT)


def test_layers_have_no_cycle():
    for name in MAY_IMPORT:
        assert name not in reachable(MAY_IMPORT, name)


def test_model_knows_fit_only_inside_a_body():
    tree = modules()["model"]
    assert not {"fit", "lookup"} & set(imports(tree))
    assert {"fit", "lookup"} <= set(imports(tree, inside=True))  # model.extend, model.predict


@pytest.mark.parametrize("top", sorted(TOP))
def test_nobody_imports_the_top(top):
    users = {
        name
        for name, tree in modules().items()
        if name not in TOP | {"__main__"} and top in imports(tree)
    }
    assert users <= ({"__init__"} if top.startswith("estimators") else set())


@pytest.mark.parametrize(
    ("library", "knowing"),
    [
        ("narwhals", KNOWS_NARWHALS),
        ("matplotlib", KNOWS_MATPLOTLIB),
        ("optuna", KNOWS_OPTUNA),
        ("dask", KNOWS_DASK),
        ("distributed", KNOWS_DASK),
    ],
)
def test_one_file_knows_a_library(library, knowing):
    users = {name for name, tree in modules().items() if library in imports(tree, inside=True)}
    assert users <= knowing


def test_only_fit_calls_the_cores_boost():
    callers = {
        name
        for name, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "boost"
        and isinstance(node.value, ast.Name)
        and node.value.id == "_core"
    }
    assert callers == {"fit"}


# What is as long as the data or its bins is passed over by kernels (setup.hpp, system.hpp), called
# by the layer that knows what they are for. Rows, losses and learners of the core are not theirs.
KERNELS = {
    "table": {"survey", "bin_exactly"},
    "bins": {
        "survey", "distinct", "quantiles", "weigh_distinct", "bin_exactly", "assign_equal",
        "assign_nearest", "assign_cuts", "weigh_bins",
    },
    "moments": {"distinct", "place", "weigh_pieces"},
    "bases": {"spline_rows", "power_rows"},
    "smoothing": set(),
    "learners": set(),
    "terms": {"quantiles"},
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_plain_layers_know_only_kernels_of_the_core(name):
    used = {
        node.attr
        for node in ast.walk(modules()[name])
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "_core"
    }
    assert used == KERNELS[name]


# --- C++ ------------------------------------------------------------------------------------------


def includes(path):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def sources():
    return sorted(p for p in CORE.rglob("*") if p.suffix in (".hpp", ".cpp", ".h"))


def test_every_core_file_has_a_place():
    assert {p.name for p in sources()} == set(CPP_MAY_INCLUDE)


@pytest.mark.parametrize("name", CPP_MAY_INCLUDE)
def test_core_includes_only_what_is_below_it(name):
    own = set(includes(CORE / name)) & set(CPP_MAY_INCLUDE)
    assert own <= reachable(CPP_MAY_INCLUDE, name)


def test_only_bindings_know_nanobind_and_python():
    for path in sources():
        known = [i for i in includes(path) if i.startswith(("nanobind", "Python.h", "pybind"))]
        assert not known or path.name == "bindings.cpp", path.name


def test_only_parallel_starts_threads():
    for path in sources():
        if path.name != "parallel.hpp":
            assert not {"thread", "future", "omp.h"} & set(includes(path)), path.name


@pytest.mark.parametrize("path", [*sorted(PACKAGE.glob("*.py")), *sources()], ids=lambda p: p.name)
def test_first_lines_say_what_the_file_knows(path):
    text = path.read_text().lstrip()
    assert text.startswith('"""' if path.suffix == ".py" else "//")
