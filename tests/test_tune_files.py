"""Tests of tuning files: the fingerprint that identifies the work, locking, and that no
configuration is tried twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils.fingerprint import describe_code, fingerprint
from cwboost.selection.tuning.space import Space
from cwboost.selection.tuning.trial_log import TrialLog

X = np.linspace(0, 1, 60)
TABLE, Y = {"x": X}, np.sin(6 * X)
FACTOR = 2.0


def tune(**options):
    arguments = {"space": {"rate": 0.1}, "schedule": cb.RandomSearch(1, 3), "folds": 2, **options}
    return cb.tune(TABLE, Y, learners=[cb.Spline("x")], **arguments)


# --- fingerprints of the work ---------------------------------------------------------------------


class Bent:
    """A loss with a parameter."""

    power = 2

    def __init__(self, delta):
        self.delta = delta

    def loss(self, y, score):
        return self.delta * (y - score) ** self.power

    def gradient(self, y, score):
        return -2 * self.delta * (y - score)

    def start(self, y, weights):
        return np.average(y, weights=weights)


class Bent3(Bent):
    power = 3


class Slotted:
    __slots__ = ("delta",)
    loss, gradient, start, power = Bent.loss, Bent.gradient, Bent.start, 2

    def __init__(self, delta):
        self.delta = delta


@dataclass
class Listed(Bent):
    delta: tuple[float, ...] = (1.0,)


def power_loss(p):
    def my_loss(y, prediction):
        return float(np.mean(np.abs(y - prediction) ** p))

    return my_loss


def scaled_loss(y, prediction, scale=1.0):
    return FACTOR * scale * float(np.mean((y - prediction) ** 2))


DIFFERENT = [
    Bent(1.0), Bent(1.0 + 1e-9), Bent3(1.0), Slotted(1.0), Slotted(2.0), Listed((1.0,)),
    Listed((2.0,)), Bent(np.arange(3.0)), Bent(np.arange(1.0, 4.0)), power_loss(1), power_loss(2),
    scaled_loss, partial(scaled_loss, scale=2.0), partial(scaled_loss, scale=3.0), np.mean, np.max,
    Bent(1.0).loss, Bent(2.0).loss, {1, 2}, {1, 3},
]  # fmt: skip


def test_different_code_has_different_fingerprints():
    assert len({fingerprint(describe_code(thing)) for thing in DIFFERENT}) == len(DIFFERENT)


def test_equal_objects_have_equal_fingerprints():
    for make in (
        lambda: Bent(1.5),
        lambda: Slotted(2.0),
        lambda: power_loss(3),
        lambda: {"a", "b"},
    ):
        assert fingerprint(describe_code(make())) == fingerprint(describe_code(make()))
    ring = Bent(1.0)
    ring.itself = ring
    assert fingerprint(describe_code(ring)) != fingerprint(describe_code(Bent(1.0)))


def test_closures_of_installed_functions_differ_by_their_values():
    def make_closure(value):
        inner = lambda: value  # noqa: E731
        inner.__module__ = "numpy"
        return inner

    assert fingerprint(describe_code(make_closure(1))) != fingerprint(
        describe_code(make_closure(2))
    )


def test_global_values_change_the_fingerprint(monkeypatch):
    before = fingerprint(describe_code(scaled_loss))
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert fingerprint(describe_code(scaled_loss)) != before


def test_fingerprints_are_the_same_in_another_process():
    code = (
        "import test_tune_files as t\n"
        "print(*(t.fingerprint(t.describe_code(x)) for x in t.DIFFERENT))"
    )
    known = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONPATH": known, "PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        assert out.stdout.split() == [fingerprint(describe_code(thing)) for thing in DIFFERENT]


@pytest.mark.parametrize(
    ("first", "second", "what"),
    [
        ({"loss": Bent(1.0)}, {"loss": Bent(1.5)}, "loss"),
        ({"loss": cb.Huber(1.0)}, {"loss": cb.Huber(1.00000001)}, "loss"),
        ({"loss": cb.Quantile(0.5)}, {"loss": cb.Quantile(0.9)}, "loss"),
        ({"metric": power_loss(1)}, {"metric": power_loss(2)}, "metric"),
        ({"metric": scaled_loss}, {"metric": {"scaled_loss": power_loss(1)}}, "metric"),
    ],
)
def test_a_file_is_refused_if_a_loss_or_metric_differs(tmp_path, first, second, what):
    file = tmp_path / "t.jsonl"
    tune(file=file, **first)
    tune(file=file, **first)  # the same work resumes
    with pytest.raises(ValueError, match=f"to other work: {what} was"):
        tune(file=file, **second)


# --- locking and writing --------------------------------------------------------------------------


def test_only_one_log_may_write_to_a_file(tmp_path):
    file = tmp_path / "t.jsonl"
    with TrialLog(file, "tuning", {}) as log:
        log.write({"score": 1})
        with pytest.raises(BlockingIOError, match="another process is writing to it; wait"):
            TrialLog(file, "tuning", {})
        log.write({"score": 2})
    with TrialLog(file, "tuning", {}) as log:
        assert log.lines == [{"score": 1}, {"score": 2}]


def test_another_process_may_not_write_to_the_file(tmp_path):
    file = tmp_path / "t.jsonl"
    imported = "from cwboost.selection.tuning.trial_log import TrialLog"
    code = f"{imported}\nTrialLog({str(file)!r}, 'tuning', {{}})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with TrialLog(file, "tuning", {}):
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment
        )
    assert "another process is writing to it" in ended.stderr


def test_a_log_without_lines_leaves_no_file(tmp_path):
    file = tmp_path / "t.jsonl"
    with TrialLog(file, "tuning", {}):
        pass
    assert not file.exists()
    file.write_text("text\n")
    for _ in range(2):  # nor is a lock left
        with pytest.raises(ValueError, match="not a tuning file"):
            TrialLog(file, "tuning", {})


def test_every_line_is_synced_to_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    with TrialLog(tmp_path / "t.jsonl", "tuning", {}) as log:
        for k in range(3):
            log.write({"score": k})
    assert len(synced) == 3


# --- damaged and changed files --------------------------------------------------------------------


@pytest.fixture
def log(tmp_path):
    """Return a tuning file of three trials."""
    file = tmp_path / "t.jsonl"
    search(file)
    return file


def search(file):
    return tune(space={"rate": (0.1, 0.5)}, schedule=cb.RandomSearch(3, 4), file=file)


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def write_lines(file, lines):
    """Write lines with the checksums that belong to them."""
    head = {k: v for k, v in lines[0].items() if k != "checksum"}
    out = [{**head, "checksum": fingerprint(["", json.dumps(head)])}]
    for line in lines[1:]:
        content = {k: v for k, v in line.items() if k != "checksum"}
        checksum = fingerprint([json.dumps(head), json.dumps(content)])
        out.append({**content, "checksum": checksum})
    file.write_text("".join(json.dumps(line) + "\n" for line in out))


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_changed_number_is_noticed(log, number):
    lines = log.read_text().splitlines(keepends=True)
    old = "random_state" if number == 1 else '"scores": [0'
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(
        old, old.replace("0", "9").replace("state", "seed")
    )
    log.write_text("".join(lines))
    message = rf"t.jsonl, line {number}: damaged or changed \(it does not match its checksum\)"
    with pytest.raises(ValueError, match=message):
        search(log)


def test_a_line_of_another_file_or_that_is_not_json_is_refused(log, tmp_path):
    other = tmp_path / "other.jsonl"
    tune(space={"rate": (0.1, 0.6)}, schedule=cb.RandomSearch(3, 4), file=other)
    for wrong in (other.read_text().splitlines()[1], "{", "[]", "3", ""):
        lines = log.read_text().splitlines()
        lines[2] = wrong
        copy = tmp_path / "copy.jsonl"
        copy.write_text("\n".join(lines) + "\n")
        with pytest.raises(ValueError, match=r"line 3: damaged or changed .* remove the line to"):
            search(copy)


def test_a_removed_line_is_run_again(log):
    first = search(log)
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:2] + lines[3:]))
    again = search(log)
    assert [t[:6] for t in again.trials] == [t[:6] for t in first.trials]
    assert len(log.read_text().splitlines()) == len(lines)


ODD_VALUES = [
    None,
    -1,
    10**30,
    0.5,
    True,
    "x",
    [],
    [None],
    ["x"],
    {},
    {"x": 1},
    float("nan"),
    "gone",
]


def test_odd_values_with_the_right_checksum_are_refused(log):
    """A value may be plausible, such as an empty list of iterations; it must never be an error of
    another kind."""
    lines, n_refused = lines_of(log), 0
    for name in lines[1]:
        for odd in ODD_VALUES:
            changed = {k: odd if k == name else v for k, v in lines[1].items()}
            if odd == "gone":
                del changed[name]
            write_lines(log, [lines[0], changed, *lines[2:]])
            try:
                search(log)
            except ValueError as error:
                assert "t.jsonl, line 2: damaged or changed (trial" in str(error)  # noqa: PT017
                n_refused += 1
    assert n_refused >= 0.8 * len(lines[1]) * len(ODD_VALUES)


def test_a_file_of_an_earlier_version_has_no_checksums(log):
    whole = search(log)
    lines = [{k: v for k, v in line.items() if k != "checksum"} for line in lines_of(log)]
    lines[0]["version"] = 1
    log.write_text("".join(json.dumps(line) + "\n" for line in lines[:-1]))
    for n_known in (3, 4):  # the second search reads what the first one has added
        assert len(lines_of(log)) == n_known
        with pytest.warns(
            UserWarning, match="an earlier version of cwboost wrote this file without"
        ):
            again = search(log)
        assert [t[:6] for t in again.trials] == [t[:6] for t in whole.trials]
    assert "checksum" in lines_of(log)[-1]


# --- no configuration twice -----------------------------------------------------------------------


SPACE = {"rate": [0.1, 0.2], "optimizer": ["plain", "accelerated"], "momentum": [0.01, 0.02, 0.03]}


def test_random_search_tries_every_configuration_once():
    tuning = tune(space=SPACE, schedule=cb.RandomSearch(30, 3))
    drawn = [repr(t.parameters) for t in tuning.trials]
    assert len(drawn) == len(set(drawn)) == 2 * (1 + 3)
    assert tuning.complete
    assert tuning.summary().startswith("8 configurations, 8 trials in 2 folds")


def test_every_bracket_starts_with_distinct_configurations():
    tuning = tune(space={"rate": [0.1, 0.2, 0.3]}, schedule=cb.Hyperband(least=2, most=8))
    assert tuning.complete
    for bracket in {t.bracket for t in tuning.trials}:
        first = [t.parameters["rate"] for t in tuning.trials if (t.bracket, t.rung) == (bracket, 0)]
        assert sorted(first) == [0.1, 0.2, 0.3]


def test_number_of_configurations_in_a_space():
    one = Space.make({"rate": (0.1, 0.1), "momentum": 0.1, "optimizer": cb.Accelerated()}, [])
    assert (one.size, Space.make(SPACE, []).size) == (1, 8)
    assert Space.make({"rate": (0.1, 0.2)}, []).size == np.inf
    assert Space.make({"rate": cb.LogUniform(0.1, 0.2)}, []).size == np.inf


def test_draws_do_not_depend_on_their_number():
    space = Space.make({"rate": (0.1, 0.2)}, [])
    assert space.draw_all(3, [5, 2]) == space.draw_all(3, [9])[:7]


def test_one_fold_has_no_standard_deviation():
    rows = np.arange(60)
    tuning = tune(folds=[(rows[:40], rows[40:])])
    assert "nan" not in tuning.summary() + repr(tuning.best)
    assert "risk (of one fold), smaller is better" in tuning.summary()
    assert "(sd " in repr(tune().best)
