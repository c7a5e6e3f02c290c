"""Tests of the fuzzer in tests/fuzz: it sees every kind of failure, and cases can be repeated."""

import importlib.util
import os
import signal
import time

import numpy as np
import pytest

pytest.importorskip("resource", reason="the fuzzer forks processes, which Windows does not have")

import cwboost as cb
from fuzz import callables, verdict
from fuzz.areas import AREAS, properties
from fuzz.report import Report
from fuzz.verdict import PropertyError, find_fault
from fuzz.worker import Case, Limits, run_case, run_cases

PACKAGE = """
import json
import warnings
import numpy as np

def clear(): raise ValueError("x must be positive, got -1")
def slip(): return {}["x"]
def deliberate_slip(): raise KeyError("x")
def of_another_library(): json.loads("")
def inside_a_message(): raise ValueError(f"got {[]:d}")
def long(): raise ValueError("x" * 2000)
def empty(): raise ValueError
def intended_warning(): warnings.warn("beyond the range")
def unintended_warning(): return np.float64(1e308) * 10
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package that the verdict takes for cwboost, with clear and unclear errors."""
    file = tmp_path / "package.py"
    file.write_text(PACKAGE)
    spec = importlib.util.spec_from_file_location("package", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(verdict, "PACKAGE", str(tmp_path))
    return module


def abort(rng, tried):
    os.abort()


def hang(rng, tried):
    time.sleep(60)


def be_killed(rng, tried):
    os.kill(os.getpid(), signal.SIGKILL)


def answer_wrongly(rng, tried):
    raise PropertyError("two and two are four", "5")


def refuse(rng, tried):
    cb.fit({"x": np.arange(9.0)}, np.arange(9.0), n_iter=-1)


def succeed(rng, tried):
    tried.append(str(rng.integers(10**9)))


@pytest.mark.filterwarnings("ignore:.*fork")
def test_every_failure_is_seen_and_blamed_on_its_case(package):
    functions = {f.__name__: f for f in (abort, hang, be_killed, answer_wrongly, succeed)}
    functions["fail_unclearly"] = lambda rng, tried: package.slip()
    batches = [[Case("succeed", 1), Case(name, 2), Case("succeed", 3)] for name in functions]
    report = Report()
    kinds = {}
    for case, failure in run_cases(functions, batches, limits=Limits(seconds=1.0)):
        report.add(case, failure)
        if failure:
            kinds[str(case)] = failure.kind
    assert kinds == {
        "abort:2": "crash", "hang:2": "hang", "be_killed:2": "crash", "answer_wrongly:2": "wrong",
        "fail_unclearly:2": "unclear",
    }  # fmt: skip
    lines = str(report).splitlines()
    assert lines[0].split() == ["area", "cases", "crashes", "hangs", "wrong", "unclear"]
    assert ["all", "18", "2", "1", "1", "1"] in [line.split() for line in lines]
    assert any("--case abort:2" in line for line in lines)
    assert any("SIGABRT in fuzz/worker.py:run_case" in line for line in lines)


def test_an_error_is_clear_if_it_is_raised_on_purpose(package):
    def fault(function, *args):
        with pytest.raises(Exception) as caught:  # noqa: PT011
            function(*args)
        return find_fault(caught.value)

    assert fault(package.clear) is None
    assert fault(open, "missing") is None
    for name in ("slip", "deliberate_slip", "inside_a_message"):
        assert f"package.py:{name}" in fault(getattr(package, name))
    assert "called by" in fault(package.of_another_library)
    assert "longer than 1000 characters" in fault(package.long)
    assert "empty" in fault(package.empty)
    assert "the fuzzer itself" in fault(lambda: {}["x"])


def test_a_warning_is_clear_if_it_is_given_on_purpose(package):
    case = Case("warnings", 0)
    assert run_case(lambda rng, tried: package.intended_warning(), case, []) is None
    failure = run_case(lambda rng, tried: package.unintended_warning(), case, [])
    assert failure.kind == "unclear"
    assert "RuntimeWarning" in failure.cause


def test_a_property_that_does_not_hold_is_seen(monkeypatch):
    problem = properties.make_problem(np.random.default_rng(1), [])
    model = problem.fit()
    properties.contributions("they add up", problem, model)
    monkeypatch.setattr(cb.Model, "contributions", lambda self, table: {"e": np.ones(problem.n)})
    with pytest.raises(PropertyError, match="they add up: they differ by"):
        properties.contributions("they add up", problem, model)


def test_refusals_of_cwboost_are_accepted():
    assert run_case(refuse, Case("refuse", 0), []) is None


@pytest.mark.parametrize("area", AREAS)
def test_cases_are_repeatable(area):
    callables.make_shared_objects()
    for seed in (0, 1):
        first, second = [], []
        one = run_case(AREAS[area], Case(area, seed), first)
        two = run_case(AREAS[area], Case(area, seed), second)
        assert first
        assert first == second
        assert (one and one.cause) == (two and two.cause)


def test_every_public_callable_is_covered(monkeypatch):
    assert callables.find_gaps() == []
    covered = {target.name.partition(".")[0] for target in callables.find_targets()}
    assert {*cb.__all__} - covered == callables.RECORDS
    monkeypatch.delitem(callables.VALUES, "n_threads")
    assert "parameter n_threads of fit" in callables.find_gaps()
