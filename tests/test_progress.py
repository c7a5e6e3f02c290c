"""Tests of progress reporting: what is shown, when, and that the terminal is left clean.

Simulates the screen of a terminal and the displays of a notebook.
"""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cwboost as cb
from cwboost import progress
from cwboost.progress import (
    NotebookProgress,
    Progress,
    ProgressLine,
    ProgressLines,
    ProgressLog,
    ProgressTask,
    as_progress,
    factory,
    line,
    page,
)
from cwboost.progress.text import text_width

RNG = np.random.default_rng(0)
TABLE = {"x": RNG.uniform(size=300), "name of\nz": RNG.normal(size=300)}
Y = np.sin(6 * TABLE["x"])
X = np.column_stack(list(TABLE.values()))


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    """A clock that the tests move forward."""

    now = 100.0

    def __call__(self):
        return self.now


class RecordingProgress(Progress):
    """Records its calls."""

    def __init__(self, every):
        super().__init__()
        self.every = every
        self.began, self.steps, self.ended = [], [], 0

    def begin(self, total, what="", **options):
        super().begin(total, what, **options)
        self.began.append((total, what, options["done"]))

    def step(self, done, **facts):
        self.steps.append((done, facts))

    def end(self):
        super().end()
        self.ended += 1


def screen(text, width=1000):
    """Return the lines on a terminal after the text; the text must use no other control codes."""
    rows, at = [""], 0
    for c in text:
        if c == "\r":
            at = 0
        elif c == "\n":
            rows.append("")
            at = 0
        else:
            assert c.isprintable(), repr(c)
            rows[-1] = rows[-1][:at] + c + rows[-1][at + 1 :]
            at += 1
            assert at <= width
    return [row.rstrip() for row in rows]


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes standard error a terminal where every fit counts as long.

    The test must call it, because pytest replaces the streams after the fixtures have run.
    """

    def make():
        stream = Terminal()
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(factory, "WAIT", 0.0)
        monkeypatch.setattr(ProgressLine, "every", 0.0)
        return stream

    return make


@pytest.fixture
def kernel(monkeypatch):
    """Simulate a notebook; return the list of its displays with all their views."""
    shown = []

    class Handle:
        def __init__(self, view):
            self.views = [view]

        def update(self, view):
            self.views.append(view)

    def display(view, display_id):
        assert display_id is True
        shown.append(Handle(view))
        return shown[-1]

    package = types.ModuleType("IPython")
    package.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    package.display = types.ModuleType("IPython.display")
    package.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", package.display)
    return shown


# --- rate and time left ---------------------------------------------------------------------------


def test_rate_and_time_left_use_recent_steps():
    clock = Clock()
    bar = ProgressLine(Terminal(), clock=clock)
    with bar.work(1000, "iteration"):
        (task,) = bar.tasks
        for m in range(1, 101):  # 10 per second
            clock.now += 0.1
            bar.step(m)
        assert task.rate(clock.now) == pytest.approx(10)
        assert progress.seconds_left(bar.tasks, clock.now) == pytest.approx(90)
        for m in range(101, 501):  # then 20 per second, for longer than the window
            clock.now += 0.05
            bar.step(m)
        assert task.rate(clock.now) == pytest.approx(20, rel=0.02)
        assert progress.seconds_left(bar.tasks, clock.now) == pytest.approx(25, rel=0.02)
        assert task.rate(clock.now, final=True) == pytest.approx(500 / 30)
        assert len(task.marks) < 160


def test_a_continued_fit_counts_only_new_iterations():
    task = ProgressTask("iteration", 200, 100, began=0.0)
    task.done = 150
    assert task.rate(5.0) == 10
    assert progress.seconds_left([task], 5.0) == 5


def test_time_left_is_not_more_than_the_time_limit():
    task = ProgressTask("iteration", 10**6, 0, began=0.0, seconds=30.0)
    task.done = 10
    assert progress.seconds_left([task], 10.0) == 20
    assert progress.seconds_left([task], 40.0) == 0


def test_time_left_of_nested_work():
    folds, inner = (
        ProgressTask("fold", 5, 1, began=0.0),
        ProgressTask("iteration", 100, 50, began=10.0),
    )
    assert progress.overall([folds, inner]) == pytest.approx(0.3)
    assert progress.seconds_left([folds, inner], 15.0) == pytest.approx(35)


def test_unknown_total():
    task = ProgressTask("chunk", None, 0, began=0.0)
    task.done = 7
    assert line([task], 2.0, 79) == "chunk 7  3.5/s"
    assert progress.seconds_left([task], 2.0) is None
    assert progress.overall([task]) is None


def test_the_time_left_is_an_upper_bound_if_a_fit_may_stop_early():
    task = ProgressTask("iteration", 100, 0, began=0.0, early=True)
    task.done = 50
    assert "< 1 s left" in line([task], 1.0, 79)


# --- the line -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["age", "列" * 50, "a" * 500, "tab\tbell\a\x1b[31m"])
@pytest.mark.parametrize("outer", [0, 2])
def test_a_line_fits_any_width(name, outer):
    tasks = [ProgressTask("fold", 5, 1, 0.0) for _ in range(outer)]
    tasks.append(ProgressTask("iteration", 2000, 0, 0.0, early=True))
    tasks[-1].done, tasks[-1].facts = 812, {"risk": 1e-300, "validation_risk": None, "c": name}
    for width in range(1, 200):
        found = line(tasks, 3.0, width)
        assert text_width(found) <= width
        assert found.isprintable()
        if width >= 40 + 20 * outer:
            assert "812/2000" in found
            assert "left" in found


def test_a_line_of_80_columns_shows_all_important_facts():
    task = ProgressTask("iteration", 2000, 0, 0.0, early=True)
    task.facts = {"risk": 0.5123, "validation_risk": 0.54321, "choice": "age"}
    task.done = 812
    assert line([task], 2.0, 79) == (
        "[###-----]   812/2000  risk 0.51230  validation 0.54321  406/s  < 3 s left  age"
    )
    assert line([task], 252.0, 79) == (
        "[###-----]   812/2000  risk 0.51230  validation 0.54321  3.2/s  < 6:09 min left"
    )


def test_the_bar_keeps_its_width():
    sizes = set()
    for m in range(1, 2001):
        task = ProgressTask("iteration", 2000, 0, 0.0)
        task.done, task.facts = m, {"risk": 0.5, "choice": "a" * (m % 23)}
        sizes.add(line([task], m / 100, 99).index("]"))
    assert len(sizes) == 1


def test_a_step_before_begin_is_refused():
    with pytest.raises(RuntimeError, match="no work has begun"):
        Progress().step(1)


def test_a_stream_gets_only_characters_that_it_can_encode():
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    bar = ProgressLine(stream)
    bar.show("día 列")
    assert stream.buffer.getvalue() == b"\rd?a ?"


# --- which kind of progress is chosen -------------------------------------------------------------


def test_the_class_depends_on_the_stream(monkeypatch):
    assert type(as_progress(False, Terminal())) is Progress
    assert type(as_progress(None, io.StringIO())) is Progress
    assert type(as_progress(None, Terminal())) is ProgressLine
    assert type(as_progress(True, Terminal())) is ProgressLine
    assert type(as_progress(True, io.StringIO())) is ProgressLines
    own = ProgressLog(io.StringIO())
    assert as_progress(own) is own
    monkeypatch.setattr(sys, "stderr", None)  # a program without a console
    assert type(as_progress(None)) is type(as_progress(True)) is Progress
    closed = io.StringIO()
    closed.close()
    assert type(as_progress(None, closed)) is Progress


@pytest.mark.parametrize("wrong", ["yes", 1, 0.5, Progress])
def test_invalid_values_of_progress_are_refused(wrong):
    with pytest.raises(TypeError, match="progress: expected None, True, False or a Progress"):
        cb.fit(TABLE, Y, n_iter=1, progress=wrong)


def test_ipython_without_a_kernel_is_a_terminal(kernel):
    sys.modules["IPython"].get_ipython = lambda: types.SimpleNamespace()
    assert type(as_progress(None, Terminal())) is ProgressLine
    sys.modules["IPython"].get_ipython = lambda: None
    assert type(as_progress(None, Terminal())) is ProgressLine


def test_threads_and_processes_are_silent(kernel):
    found = []
    thread = threading.Thread(target=lambda: found.append(type(as_progress(None, Terminal()))))
    thread.start()
    thread.join()
    assert found == [Progress]
    there = joblib.Parallel(n_jobs=2)(joblib.delayed(factory._is_foreground)() for _ in range(2))
    assert there == [False, False]
    assert factory._is_foreground()


def test_a_copy_for_another_process_is_silent():
    bar = ProgressLine(Terminal())
    bar.begin(3, "fold")
    for other in (pickle.loads(pickle.dumps(bar)), copy.deepcopy(bar)):
        assert type(other) is Progress
        assert other.tasks == []


def test_a_short_fit_is_silent(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(ProgressLine, "every", 0.0)
    cb.fit(TABLE, Y, n_iter=300)
    cb.CWBRegressor().fit(X, Y)
    assert stream.getvalue() == ""


def test_progress_appears_after_two_seconds():
    clock, stream = Clock(), Terminal()
    bar = ProgressLine(stream, wait=factory.WAIT, clock=clock)
    with bar.work(100, "iteration"):
        clock.now += 1.9
        bar.step(10)
        assert stream.getvalue() == ""
        clock.now += 0.2
        bar.step(11)
        assert "11/100" in stream.getvalue()
    assert screen(stream.getvalue()) == [""]


# --- fits -----------------------------------------------------------------------------------------


def test_a_fit_on_a_terminal(terminal):
    terminal = terminal()
    model = cb.fit(TABLE, Y, n_iter=20, validation=0.3)
    written = terminal.getvalue()
    assert screen(written) == [""]
    for m in range(1, 20):
        assert f"{m:2}/20  risk {model.risk[m]:#.5g}  validation" in written
    assert "\n" not in written
    assert sys.stderr is terminal


def test_true_keeps_the_last_state(terminal):
    terminal = terminal()
    model = cb.fit(TABLE, Y, n_iter=20, progress=True)
    last, end = screen(terminal.getvalue())
    assert end == ""
    assert last.startswith("[")
    assert f"20/20  risk {model.risk[20]:#.5g}" in last
    assert last.endswith("in 0 s")


def test_true_in_a_log_file(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    model = cb.fit(TABLE, Y, n_iter=20, progress=True)
    assert stream.getvalue().count("\n") == 1
    assert stream.getvalue().startswith(f"20/20  risk {model.risk[20]:#.5g}")


def test_false_is_silent(terminal):
    terminal = terminal()
    cb.fit(TABLE, Y, n_iter=20, progress=False)
    cb.CWBRegressor(verbose=0).fit(X, Y)
    assert terminal.getvalue() == ""


def test_extend_counts_from_the_last_iteration(terminal):
    terminal = terminal()
    model = cb.fit(TABLE, Y, n_iter=20, progress=False)
    bar = RecordingProgress(0.0)
    model.extend(5, TABLE, Y, progress=bar)
    assert bar.began == [(25, "iteration", 20)]
    assert [done for done, _ in bar.steps] == [21, 22, 23, 24, 25, 25]
    model.extend(5, TABLE, Y)
    assert "21/25" in terminal.getvalue()


def test_a_progress_receives_every_iteration():
    bar = RecordingProgress(0.0)
    model = cb.fit(TABLE, Y, n_iter=30, validation=0.3, progress=bar)
    assert bar.began == [(30, "iteration", 0)]
    assert [done for done, _ in bar.steps] == [*range(1, 31), 30]  # the last one twice
    for done, facts in bar.steps:
        assert facts == {
            "risk": model.risk[done],
            "validation_risk": model.validation_risk[done],
            "choice": model.choices[done - 1],
        }
    assert bar.ended == 1


def test_the_core_reports_only_as_often_as_progress_is_shown():
    bar = RecordingProgress(0.05)
    began = time.monotonic()
    cb.fit(TABLE, Y, n_iter=3000, progress=bar)
    assert len(bar.steps) <= (time.monotonic() - began) / 0.05 + 1
    assert bar.steps[-1][0] == 3000
    calls = []
    bar = RecordingProgress(1000.0)
    cb.fit(TABLE, Y, n_iter=50, progress=bar, callback=calls.append)
    assert calls == list(range(1, 51))  # callbacks still run after every iteration


def test_progress_of_fits_within_folds(terminal):
    terminal = terminal()
    bar = as_progress(None)
    with bar.work(3, "fold"):
        for fold in range(3):
            cb.fit(TABLE, Y, n_iter=5, progress=bar)
            assert screen(terminal.getvalue()) != [""]  # the outer work is not finished
            bar.step(fold + 1)
    written = terminal.getvalue()
    assert screen(written) == [""]
    for fold in (1, 2, 3):
        assert f"fold {fold}/3  [" in written


def test_the_example_in_the_docs_runs():
    page = Path(__file__).parents[1] / "docs" / "progress.md"
    code = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    names = {}
    exec(code[0], names)
    assert len(names["risks"]) == 5
    assert names["bar"].tasks == []


@pytest.mark.parametrize(
    ("error", "raised"), [(ValueError, ValueError), (KeyboardInterrupt, cb.Interrupted)]
)
def test_the_line_is_cleared_after_a_failure(terminal, error, raised):
    terminal = terminal()

    def callback(iteration):
        if iteration == 5:
            raise error("no")

    with pytest.raises(raised):
        cb.fit(TABLE, Y, n_iter=20, callback=callback)
    written = terminal.getvalue()
    assert "4/20" in written
    assert screen(written) == [""]
    assert sys.stderr is terminal


@pytest.mark.parametrize("options", [{"time_limit": 1e-9}, {"callback": lambda m: m == 7}])
def test_the_line_is_cleared_after_an_early_end(terminal, options):
    terminal = terminal()
    model = cb.fit(TABLE, Y, n_iter=100_000, **options)
    assert model.n_iter < 100_000
    assert "/100000" in terminal.getvalue()
    assert screen(terminal.getvalue()) == [""]


def test_warnings_and_prints_get_lines_of_their_own(terminal, monkeypatch):
    terminal = terminal()
    monkeypatch.setattr(sys, "stdout", terminal)

    def callback(iteration):
        if iteration == 5:
            warnings.warn("look out", UserWarning, stacklevel=1)
        if iteration == 8:
            sys.stdout.write("eight\n")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *_: sys.stderr.write(f"W: {message}\n")
        cb.fit(TABLE, Y, n_iter=20, callback=callback)
    assert screen(terminal.getvalue()) == ["W: look out", "eight", ""]
    assert sys.stdout is sys.stderr is terminal


def test_progress_stops_when_the_stream_is_broken(terminal):
    other = terminal()

    class Broken(Terminal):
        writes = 0

        def write(self, text):
            self.writes += 1
            raise BrokenPipeError

    stream = Broken()
    real = sys.stdout, sys.stderr
    bar = ProgressLine(stream)
    bar.every = 0.0
    assert cb.fit(TABLE, Y, n_iter=20, progress=bar).n_iter == 20
    assert stream.writes <= 2
    assert (sys.stdout, sys.stderr) == real
    assert sys.stderr is other


def test_progress_log_writes_json_lines():
    stream = io.StringIO()
    bar = ProgressLog(stream, iterations=10)
    with bar.work(2, "fold"):
        model = cb.fit(TABLE, Y, n_iter=20, progress=bar)
        bar.step(1, score=float("nan"))
    events = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [list(event.values())[:2] for event in events] == [
        ["iteration", 10],
        ["iteration", 20],
        ["fold", 1],
    ]
    assert events[1]["risk"] == model.risk[20]
    assert events[2] == {"event": "fold", "fold": 1, "score": None}


# --- notebooks ------------------------------------------------------------------------------------


def test_notebook(kernel, monkeypatch):
    monkeypatch.setattr(NotebookProgress, "every", 0.0)
    model = cb.fit(TABLE, Y, n_iter=20, progress=True)
    (handle,) = kernel
    assert len(handle.views) == 21  # one for each iteration and one for the end
    last = handle.views[-1]._repr_html_()
    assert 'aria-valuenow="100"' in last
    assert f"risk {model.risk[20]:#.5g}" in last
    assert repr(handle.views[-1]).endswith("in 0 s")
    cb.fit(TABLE, Y, n_iter=20)  # too short to be shown by default
    assert len(kernel) == 1
    monkeypatch.setattr(factory, "WAIT", 0.0)
    cb.fit(TABLE, Y, n_iter=20)
    assert kernel[1].views[0]._repr_html_() != ""
    assert kernel[1].views[-1]._repr_html_() == ""


def test_html_shows_names_as_text():
    task = ProgressTask("<script>", 10, 5, 0.0)
    task.facts = {"choice": '<b>"'}
    found = page([task, task], 1.0)
    assert "<script>" not in found
    assert "<b>" not in found
    assert found.count('role="progressbar"') == 2


# --- scikit-learn ---------------------------------------------------------------------------------


def test_verbose_of_estimators(terminal):
    terminal = terminal()
    estimator = clone(cb.CWBRegressor(n_iter=20, verbose=True, warm_start=True))
    estimator.fit(X, Y)
    assert screen(terminal.getvalue())[0].endswith("in 0 s")
    estimator.set_params(n_iter=30, verbose=False).fit(X, Y)  # keeps the warm start
    assert len(screen(terminal.getvalue())) == 2
    with pytest.raises(ValueError, match="verbose: expected None, True or False, got 'loud'"):
        cb.CWBClassifier(verbose="loud").fit(X, Y > 0)


class Recorder:
    """A scikit-learn callback that records its calls and may stop at an iteration."""

    def __init__(self, stop=None):
        self.stop, self.events, self.estimators = stop, [], []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None):
        assert X is not None
        self.events.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None, metadata=None):
        self.events.append(("end", context.task_name, context.task_id))
        self.estimators.append(fitted_estimator)
        self.metadata = metadata
        return self.stop is not None and context.task_id == self.stop


@pytest.fixture
def callbacks():
    return pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9")


def test_callbacks_of_scikit_learn(callbacks, terminal):
    terminal = terminal()
    recorder = Recorder()
    estimator = cb.CWBRegressor(n_iter=20).set_callbacks(recorder)
    estimator.fit(X, Y, np.ones(300))
    assert recorder.events[:2] == ["setup", ("begin", "fit", 20)]
    assert recorder.events[2:-2] == [
        event for m in range(20) for event in (("begin", "iteration", 0), ("end", "iteration", m))
    ]
    assert recorder.events[-2:] == [("end", "fit", 0), "teardown"]
    assert recorder.estimators[:-1] == [None] * 20
    np.testing.assert_array_equal(recorder.estimators[-1].predict(X), estimator.predict(X))
    assert list(recorder.metadata) == ["sample_weight"]
    assert terminal.getvalue() == ""  # callbacks show their own progress
    plain = cb.CWBRegressor(n_iter=20).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(X), estimator.predict(X))


def test_a_callback_of_scikit_learn_stops_the_fit(callbacks):
    recorder = Recorder(stop=6)
    estimator = cb.CWBClassifier(n_iter=20).set_callbacks(recorder).fit(X, Y > 0)
    assert estimator.n_iter_ == 7
    assert estimator.model_.stopped == "callback"
    assert recorder.events[-1] == "teardown"


def test_callbacks_of_scikit_learn_when_a_fit_is_continued_or_fails(callbacks):
    recorder = Recorder()
    estimator = cb.CWBRegressor(n_iter=20, warm_start=True).fit(X, Y)
    estimator.set_params(n_iter=25).set_callbacks(recorder).fit(X, Y)
    assert recorder.events.count(("begin", "iteration", 0)) == 5
    assert recorder.events[-1] == "teardown"
    failed = Recorder()
    with pytest.raises(ValueError, match="bins"):
        cb.CWBRegressor(bins="none").set_callbacks(failed).fit(X, Y)
    assert failed.events[-1] == "teardown"


def test_callbacks_that_come_with_scikit_learn(callbacks, capsys):
    pytest.importorskip("rich")
    monitor = callbacks.ScoringMonitor(scoring="r2")
    regressor = cb.CWBRegressor(n_iter=20).set_callbacks(monitor)
    pipeline = make_pipeline(StandardScaler(), regressor)
    pipeline.set_callbacks(callbacks.ProgressBar(max_propagation_depth=None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scaler does not support callbacks
        pipeline.fit(X, Y)
    assert "CWBRegressor" in capsys.readouterr().out
    (scores,) = monitor.get_logs().data
    assert scores["r2"] == pytest.approx(pipeline.score(X, Y))


def test_scikit_learn_without_callbacks():
    script = """
import sys
import sklearn.model_selection, sklearn.metrics, sklearn.utils.estimator_checks
sys.modules["sklearn.callback"] = None
import numpy as np, cwboost as cb
x = np.linspace(0, 1, 50)[:, None]
estimator = cb.CWBRegressor(n_iter=5).fit(x, x[:, 0])
assert not hasattr(estimator, "set_callbacks")
assert estimator.n_iter_ == 5
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# --- a real terminal ------------------------------------------------------------------------------

SCRIPT = """
import sys, time, warnings
import numpy as np
import cwboost as cb
from cwboost.progress import factory

factory.WAIT = 0.3
x = np.linspace(0, 1, 200)

def slow(iteration):
    time.sleep(0.02)
    if iteration == 40:
        warnings.warn("look out", UserWarning, stacklevel=1)

print("before", file=sys.stderr)
try:
    model = cb.fit({"x": x}, np.sin(6 * x), n_iter=N_ITER, callback=slow)
except cb.Interrupted:
    print("interrupted", file=sys.stderr)
print("after", file=sys.stderr)
"""


def run_in_a_terminal(n_iter, interrupt_at=None):
    """Return what SCRIPT writes to a terminal of 60 columns."""
    fcntl, pty, struct, termios = map(pytest.importorskip, ("fcntl", "pty", "struct", "termios"))
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    command = [sys.executable, "-c", SCRIPT.replace("N_ITER", str(n_iter))]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    written, sent = b"", False
    try:
        while select.select([ours], [], [], 60)[0]:
            try:
                chunk = os.read(ours, 4096)
            except OSError:  # raised by Linux at the end of the output
                break
            if not chunk:
                break
            written += chunk
            if interrupt_at is not None and interrupt_at in written and not sent:
                sent = True
                process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, written
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return written.decode()


@pytest.mark.skipif(os.name == "nt", reason="no pty")
def test_progress_in_a_terminal():
    written = run_in_a_terminal(80)
    assert "/80  risk " in written
    assert "/s  " in written or " s left" in written
    found = screen(written, width=60)
    assert found[0] == "before"
    assert found[1].endswith("UserWarning: look out")
    assert found[-2:] == ["after", ""]
    assert "#" not in "".join(found)


@pytest.mark.skipif(os.name == "nt", reason="no pty")
def test_ctrl_c_in_a_terminal():
    written = run_in_a_terminal(10_000_000, interrupt_at=b"look out")
    found = screen(written, width=60)
    assert found[-3:] == ["interrupted", "after", ""]
    assert "#" not in "".join(found)
