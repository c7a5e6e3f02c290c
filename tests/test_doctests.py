"""Tests of the documentation: all examples run (docstrings, README, and pages with their outputs),
and the reference lists every public name.
"""

import doctest
import importlib
import pkgutil
import re
import runpy
from pathlib import Path

import pytest

import cwboost
import cwboost.datasets

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = (
    "coming",
    "counts",
    "cv",
    "dask",
    "effects",
    "information",
    "interactions",
    "missing",
    "optimizers",
    "scale",
    "stability",
    pytest.param("start", marks=pytest.mark.slow),
    "stopping",
    "terms",
    "tuning",
    "uncertainty",
)
MODULES = ["cwboost"] + [
    module.name
    for module in pkgutil.walk_packages(cwboost.__path__, "cwboost.")
    if not module.name.endswith(("._core", ".__main__"))
]


def load(name):
    """Import a module; skip the test if an optional dependency is not installed."""
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


@pytest.fixture
def few_people(monkeypatch):
    """Shorten the Adult table, for texts whose output is not compared."""
    few = {name: column[1::10] for name, column in cwboost.datasets.adult().items()}
    monkeypatch.setattr(cwboost.datasets, "adult", lambda: dict(few))


def python_blocks(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    assert blocks
    return [compile(block, str(page), "exec") for block in blocks]


@pytest.mark.usefixtures("few_people")
@pytest.mark.filterwarnings("ignore:levels never seen in training")
def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for block in python_blocks(README):
        exec(block, {})


@pytest.mark.usefixtures("few_people")
@pytest.mark.filterwarnings("ignore:levels never seen in training")
def test_the_first_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in python_blocks(ROOT / "docs" / "start.md"):
        exec(block, names)


@pytest.mark.parametrize("name", PAGES)
def test_page_shows_what_its_code_prints(name):
    if name == "dask":
        load("cwboost.dask")
    tool = runpy.run_path(str(ROOT / "tools" / "pages.py"))
    page = ROOT / "docs" / f"{name}.md"
    _, pairs = tool["run"](page.read_text(encoding="utf-8"), str(page))
    assert pairs
    if name == "start":  # after thousands of iterations with momentum, counts depend on the machine
        return
    for shown, printed in pairs:
        assert tool["alike"](shown, printed), f"{page} shows\n{shown}\nthe code prints\n{printed}"


def test_reference_has_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in cwboost.__all__ if f"{{obj}}`~cwboost.{name}`" not in page]
    assert not missing


def test_every_page_is_in_the_contents():
    docs = ROOT / "docs"
    pages = {page.stem: page.read_text(encoding="utf-8") for page in docs.glob("*.md")}
    trees = re.findall(r"^```{toctree}\n(.*?)^```", "\n".join(pages.values()), re.M | re.S)
    listed = set(re.findall(r"<([\w/]+)>$", "\n".join(trees), re.M))
    assert set(pages) - listed == {"index"}
