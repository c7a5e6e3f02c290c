"""Tests of stopping a fit by Ctrl-C, a callback or a time limit, and of threads during a fit.

Checks how soon a fit stops and that its iterations are kept. Signals are sent in a separate
process, so that a failure cannot stop the tests.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils.interrupts import interrupt_delayed, interrupt_ignored
from cwboost.estimators import base as estimators
from problems import make_table, make_target

FOREVER = 100_000_000


def test_an_interrupted_classifier_keeps_the_labels_of_its_classes(monkeypatch):
    fit = estimators.fit

    def interrupted_fit(*arguments, **options):
        raise cb.Interrupted(fit(*arguments, **options))

    monkeypatch.setattr(estimators, "fit", interrupted_fit)
    x = np.linspace(0, 1, 60)
    with pytest.raises(cb.Interrupted, match="after 5 iterations") as stop:
        cb.CWBClassifier(n_iter=5).fit(x[:, None], np.where(x > 0.5, "yes", "no"))
    assert stop.value.model.classes == ("no", "yes")


# Sends SIGINT `wait` seconds after the fit's first iteration, then checks how soon the fit stopped.
# `problem` defines table, y, learners and the other options of the fit.
SCRIPT = """
import os, signal, threading, time
import numpy as np
import cwboost as cb

cb.fit  # public names are imported on first use; import it before the clock starts

def interrupt():
    time.sleep({wait})
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

sent = []
began = threading.Thread(target=interrupt, daemon=True)
{problem}
def callback(iteration):
    if iteration == 1:
        began.start()
    return False
{first}
try:
    cb.fit(table, y, learners, n_iter=100_000_000, callback={callback}, **options)
except cb.Interrupted as stop:
    took = time.perf_counter() - sent[0]
    model = stop.model
    assert isinstance(stop, KeyboardInterrupt)
else:
    raise SystemExit("was not interrupted")
assert took < 1.0, took
assert model.stopped == "interrupted"
m = model.n_iter
assert m >= {least}, m
assert len(model.risk) == m + 1
{check}
print("fine", m)
"""

# An uninterrupted fit has the same iterations, and the model can be extended.
CHECK = """
again = cb.fit(table, y, learners, n_iter=m, **options)
assert again.choices == model.choices
assert np.array_equal(again.risk, model.risk)
assert np.array_equal(again.at(m).predict(table), model.at(m).predict(table))
more = model.extend(3, table, y, validation=options.get("validation"))
longer = cb.fit(table, y, learners, n_iter=m + 3, **options)
assert more.choices == longer.choices and np.array_equal(more.risk, longer.risk)
"""

# Has so few rows that search="auto" never chooses "row-free", however long the fit; risks are then
# equal bit for bit.
SMALL = """
rng = np.random.default_rng(0)
n = 1500
table = {{"x": rng.uniform(size=n), "z": rng.normal(size=n)}}
y = np.sin(6 * table["x"]) + rng.normal(size=n)
learners = [cb.Spline("x"), cb.Spline("z")]
options = dict(optimizer={optimizer}, validation=rng.uniform(size=n) < 0.3, patience=None)
"""

# Has long iterations: the signal must be noticed within an iteration, not only between two.
LARGE = """
rng = np.random.default_rng(0)
n = 400_000
table = {f"x{j}": rng.integers(0, 200, n).astype(float) for j in range(4)}
y = rng.integers(0, 25, n)
learners = [cb.Linear(f"x{j}") for j in range(4)]
options = dict(loss="multinomial", n_threads=2)
"""


def run(script):
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert "fine" in found.stdout


@pytest.mark.parametrize(
    "optimizer",
    ["cb.Plain(1e-4)", "cb.Accelerated(1e-4)", "cb.Hybrid(0.01, then='training', switch_after=1)"],
)
@pytest.mark.parametrize("with_callback", [False, True])
def test_ctrl_c_keeps_what_was_fitted(optimizer, with_callback):
    problem = textwrap.dedent(SMALL.format(optimizer=optimizer))
    begin = {"first": "", "callback": "callback", "wait": 0.1}
    if not with_callback:  # the time includes the preparation of the rows
        begin = {"first": "began.start()", "callback": "None", "wait": 0.5}
    run(SCRIPT.format(problem=problem, least=5, check=CHECK, **begin))


def test_ctrl_c_stops_long_iterations():
    run(SCRIPT.format(problem=LARGE, first="", callback="callback", least=1, check="", wait=0.5))


def test_ctrl_c_during_a_python_loss():
    problem = (
        SMALL.format(optimizer="cb.Plain(1e-4)")
        + """
class Squared:
    def loss(self, y, f):
        return 0.5 * (y - f) ** 2
    def gradient(self, y, f):
        return f - y
    def start(self, y, w):
        return np.average(y, weights=w)
options["loss"] = Squared()
"""
    )
    run(
        SCRIPT.format(
            problem=problem, first="", callback="callback", least=5, check=CHECK, wait=0.1
        )
    )


# --- callbacks, time limits, other threads --------------------------------------------------------


def small_fit(n_iter=10, **options):
    table = make_table(0, 120)
    learners = [cb.Spline("u"), cb.Category("g")]
    return cb.fit(table, make_target(0, table, "squared"), learners, n_iter=n_iter, **options)


@pytest.fixture
def ctrl_c_handler():
    """Restore the handler of Ctrl-C in the end."""
    usual = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, usual)


def test_delayed_ctrl_c_goes_to_the_handler_of_the_program(ctrl_c_handler):
    came = []

    @interrupt_delayed()
    def fail():
        signal.raise_signal(signal.SIGINT)
        assert not came
        raise OSError("full")

    signal.signal(signal.SIGINT, lambda *_: came.append("Ctrl-C"))
    with pytest.raises(OSError, match="full"):
        fail()
    assert came == ["Ctrl-C"]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interrupt_delayed():
        signal.raise_signal(signal.SIGINT)


def test_handlers_of_a_host_program_stay(monkeypatch):
    """A handler that was not installed by Python is None there, and cannot be put back."""
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    with interrupt_delayed(), interrupt_ignored(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_callbacks_receive_the_arguments_they_accept():
    seen = {}

    def keep(name, *values, **keywords):
        seen.setdefault(name, []).append((*values, keywords))

    def positional(iteration, risk, validation_risk, choice):
        keep("positional", iteration, risk, validation_risk, choice)

    def keyword(*, choice, iteration):
        keep("keyword", choice, iteration)

    callbacks = [
        positional,
        keyword,
        lambda iteration: keep("one", iteration),
        lambda iteration, risk: keep("two", iteration, risk),
        lambda iteration, *, choice: keep("mixed", iteration, choice),
        lambda *values: keep("any", *values),
        lambda **keywords: keep("any keyword", **keywords),
        lambda iteration, **keywords: keep("rest", iteration, **keywords),
        lambda: keep("none"),
    ]
    held = np.arange(120) % 3 == 0
    models = [small_fit(4, callback=callback, validation=held) for callback in callbacks]
    model = models[0]
    facts = list(
        zip(range(1, 5), model.risk[1:], model.validation_risk[1:], model.choices, strict=True)
    )
    names = ("iteration", "risk", "validation_risk", "choice")
    assert seen["positional"] == [(*f, {}) for f in facts]
    assert seen["keyword"] == [(f[3], f[0], {}) for f in facts]
    assert seen["one"] == [(f[0], {}) for f in facts]
    assert seen["two"] == [(*f[:2], {}) for f in facts]
    assert seen["mixed"] == [(f[0], f[3], {}) for f in facts]
    assert seen["any"] == seen["positional"]
    assert seen["any keyword"] == [(dict(zip(names, f, strict=True)),) for f in facts]
    assert seen["rest"] == [(f[0], dict(zip(names[1:], f[1:], strict=True))) for f in facts]
    assert seen["none"] == [({},)] * 4
    assert all(m.n_iter == 4 for m in models)


def test_callback_receives_none_without_validation_rows():
    received = []
    small_fit(2, callback=lambda iteration, risk, validation_risk: received.append(validation_risk))
    assert received == [None, None]


def test_callback_may_be_a_method_or_a_builtin():
    class Watch:
        def __init__(self):
            self.m = 0

        def __call__(self, iteration):
            self.m = iteration

        def method(self, iteration, risk):
            self.m = iteration

    watch = Watch()
    small_fit(3, callback=watch)
    assert watch.m == 3
    small_fit(2, callback=watch.method)
    assert watch.m == 2
    risks = []
    small_fit(2, callback=risks.append)  # takes one positional argument
    assert risks == [1, 2]


@pytest.mark.parametrize("answer", [True, 1, np.True_, "stop"])
def test_callback_that_returns_true_stops(answer):
    model = small_fit(callback=lambda iteration: answer if iteration == 4 else None)
    assert (model.n_iter, model.best_iteration, model.stopped) == (4, 4, "callback")
    assert np.array_equal(model.risk, small_fit(4).risk)
    more = model.extend(6, make_table(0, 120), make_target(0, make_table(0, 120), "squared"))
    assert np.array_equal(more.risk, small_fit(10).risk)


def test_exception_in_a_callback_is_raised():
    class OopsError(Exception):
        pass

    def callback(iteration):
        if iteration == 3:
            raise OopsError

    with pytest.raises(OopsError):
        small_fit(callback=callback)


@pytest.mark.parametrize("optimizer", [cb.Plain(1e-4), cb.Accelerated(1e-4)])
@pytest.mark.filterwarnings("ignore:the fit diverges:RuntimeWarning")
def test_time_limit_stops(optimizer):
    began = time.perf_counter()
    model = small_fit(FOREVER, optimizer=optimizer, time_limit=0.2)
    assert 0.2 <= time.perf_counter() - began < 1.5
    assert model.stopped == "time limit"
    assert model.n_iter > 0
    table = make_table(0, 120)
    y = make_target(0, table, "squared")
    began = time.perf_counter()
    more = model.extend(FOREVER, table, y, time_limit=0.1)
    assert 0.1 <= time.perf_counter() - began < 1.5
    assert more.stopped == "time limit"
    assert more.n_iter > model.n_iter
    assert np.array_equal(more.risk[: model.n_iter + 1], model.risk)


def test_other_threads_run_during_a_fit():
    counted, done = 0, threading.Event()

    def count():
        nonlocal counted
        while not done.is_set():
            counted += 1

    other = threading.Thread(target=count)
    fit = threading.Thread(
        target=small_fit, args=(FOREVER,), kwargs={"time_limit": 0.6, "optimizer": cb.Plain(1e-4)}
    )
    fit.start()
    time.sleep(0.15)  # wait until the set-up is over
    other.start()
    time.sleep(0.3)
    during = counted
    done.set()
    other.join()
    fit.join()
    assert during > 10_000  # if the fit held the GIL, the count would stay far below
