"""Every example in the documentation of the package runs: docstrings and the README."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import cwboost

README = Path(__file__).parents[1] / "README.md"
MODULES = ["cwboost"] + [
    module.name
    for module in pkgutil.walk_packages(cwboost.__path__, "cwboost.")
    if not module.name.endswith(("._core", ".__main__"))
]


def load(name):
    """Import a module; skip the test if an extra that it stands on is not installed."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "cwboost":
            raise
        pytest.skip(f"{name} needs {error.name}")


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name, tmp_path, monkeypatch):
    module = load(name)
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0


def test_readme(tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        exec(compile(block, str(README), "exec"), {})
