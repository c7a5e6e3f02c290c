"""Tests of checkpoints: an interrupted fit resumes from its file.

Repeating the call gives, bit for bit, the model of an uninterrupted fit. A file that belongs to
another fit or is not a checkpoint is refused and left unchanged.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils.fingerprint import fingerprint
from cwboost.cli.main import main
from cwboost.fitting import checkpoint as checkpoint_module
from cwboost.fitting.checkpoint import Checkpoint
from cwboost.model.path import Path as Path_
from cwboost.progress import Progress
from odd_values import odd_versions

N = 2500  # enough rows for cross-Gram matrices
NAMES = [name for name in Path_.__dataclass_fields__ if name != "evaluations"]


def make_table(n=N):
    rng = np.random.default_rng(3)
    table = {f"x{j}": rng.normal(size=n) for j in range(5)}
    table["g"] = rng.choice(np.array(["a", "b", "c"], dtype=object), n)
    return table


def make_y(table, loss):
    rng = np.random.default_rng(4)
    score = np.sin(table["x0"]) + 0.5 * table["x1"] ** 2 - (table["g"] == "a")
    score = score + 0.4 * table["x2"] * table["x3"] + rng.normal(0, 0.5, len(score))
    if loss == "binomial":
        return (score > 0).astype(int)
    if loss == "multinomial":
        return np.digitize(score, [-0.5, 0.7])
    return rng.poisson(np.exp(score)) if loss == "poisson" else score


TABLE = make_table()


class CutError(Exception):
    """Raised in the middle of a fit, as if the process had been killed."""


def cut_off(at, *arguments, **options):
    """Run a fit that is interrupted after `at` calls of its callback."""
    calls = itertools.count(1)

    def callback():
        if next(calls) > at:
            raise CutError
        return False

    with pytest.raises(CutError):
        cb.fit(*arguments, callback=callback, **options)


def assert_equal(model, other):
    """Assert that two models are equal bit for bit; the evaluations of the search may differ."""
    for name in NAMES:
        assert np.array_equal(
            getattr(model.path, name), getattr(other.path, name), equal_nan=name.endswith("risk")
        ), name
    assert model.best_iteration == other.best_iteration
    for name, term in model.terms.items():
        assert np.array_equal(term.beta, other.terms[name].beta), name
    assert np.array_equal(model.shares, other.shares)
    assert model.importance() == other.importance()
    assert np.array_equal(model.predict(TABLE), other.predict(TABLE))


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return the path of a checkpoint that is written after every iteration."""
    monkeypatch.setattr(checkpoint_module, "MIN_PAUSE", 0.0)
    monkeypatch.setattr(checkpoint_module, "PAUSE_FACTOR", 0)
    return tmp_path / "fit.checkpoint"


def same_after_a_cut(file, at, loss="squared", **options):
    """Interrupt a fit after each number of iterations in `at`, resume it, and compare the models.

    Returns the model of the uninterrupted fit.
    """
    y = make_y(TABLE, loss)
    whole = cb.fit(TABLE, y, loss=loss, **options)
    for m in at:
        done = Checkpoint(file).stages[-1].path.n_iter if file.exists() else 0
        cut_off(m - done, TABLE, y, loss=loss, checkpoint=file, **options)
        assert Checkpoint(file).stages[-1].path.n_iter == m
    again = cb.fit(TABLE, y, loss=loss, checkpoint=file, **options)
    assert_equal(again, whole)
    at_once = cb.fit(TABLE, y, loss=loss, checkpoint=file, callback=never, **options)
    assert_equal(at_once, whole)
    return whole


def never():
    raise AssertionError("no iteration was to be run")


OPTIMIZERS = {
    "plain": cb.Plain(0.3),
    "accelerated": cb.Accelerated(0.1, 0.02),
    "hybrid, all": cb.Hybrid(0.3, 0.1, then="all"),
    "hybrid, training": cb.Hybrid(0.3, 0.1, then="training"),
    "hybrid, no rewind": cb.Hybrid(0.3, 0.1, then="training", rewind=False),
}


@pytest.mark.parametrize("search", ["row-free", "certified", "full"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_squared_loss(file, optimizer, search):
    instance = OPTIMIZERS[optimizer]
    options = {
        "optimizer": instance,
        "n_iter": 150,
        "validation": 0.3,
        "patience": None,
        "search": search,
    }
    y = make_y(TABLE, "squared")
    model = cb.fit(TABLE, y, **options)
    switch = model.path.switched_after
    assert (switch > 0) == isinstance(instance, cb.Hybrid)
    cuts = [1, 17, 120] if switch < 0 else [switch - 1, switch, switch + 1, switch + 20]
    same_after_a_cut(file, cuts, **options)


@pytest.mark.parametrize("loss", ["binomial", "multinomial"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_losses_other_than_squared(file, optimizer, loss):
    options = {"optimizer": OPTIMIZERS[optimizer], "n_iter": 90, "validation": 0.3}
    if not OPTIMIZERS[optimizer].ends_on_all_rows:
        options["patience"] = 25
    same_after_a_cut(file, [1, 20, 50], loss, **options)


def test_without_validation_rows_and_with_weights(file):
    weights = np.random.default_rng(0).uniform(0.5, 2, N)
    same_after_a_cut(file, [5, 30], n_iter=60, weights=weights, search="certified")


@pytest.mark.parametrize(
    ("optimizer", "scale"),
    [(cb.Plain(0.3), 20.0), (cb.Plain(0.3), 1e9), (cb.Accelerated(0.05), 20.0)],
)
def test_halved_steps(file, optimizer, scale):
    """A step that overshot leaves rounding errors in the rows, which a resumed fit must repeat."""
    options = {"optimizer": optimizer, "scale": scale, "n_iter": 30, "validation": 0.3}
    options["patience"] = None
    y = make_y(TABLE, "poisson")
    assert cb.fit(TABLE, y, loss="poisson", **options).path.halvings[:9].any()
    same_after_a_cut(file, [9, 12], "poisson", **options)


def test_patience(file):
    options = {"optimizer": cb.Plain(0.9), "n_iter": 2000, "validation": 0.3, "patience": 10}
    model = same_after_a_cut(file, [5, 20], search="certified", **options)
    assert model.stopped == "no better validation risk"
    y = make_y(TABLE, "squared")
    for patience in (3, 40):  # the file covers a smaller patience; a larger one continues
        other = options | {"patience": patience, "search": "certified"}
        assert_equal(cb.fit(TABLE, y, checkpoint=file, **other), cb.fit(TABLE, y, **other))


@pytest.mark.parametrize("search", ["certified", "row-free"])
@pytest.mark.parametrize("optimizer", ["plain", "accelerated", "hybrid, training"])
def test_another_number_of_iterations(file, optimizer, search):
    y = make_y(TABLE, "squared")
    options = {
        "optimizer": OPTIMIZERS[optimizer], "validation": 0.3, "patience": None, "search": search,
        "checkpoint": file,
    }  # fmt: skip
    for n_iter in (60, 0, 25, 90, 60):
        model = cb.fit(TABLE, y, n_iter=n_iter, **options)
        assert_equal(model, cb.fit(TABLE, y, n_iter=n_iter, **options | {"checkpoint": None}))
    assert Checkpoint(file).stages[0].path.n_iter == 90  # the stored path never gets shorter


def test_nothing_left_to_gain(file):
    x = np.linspace(0, 1, 300)
    options = {
        "learners": [cb.Linear("x")],
        "optimizer": cb.Plain(0.9),
        "n_iter": 500,
        "checkpoint": file,
    }
    model = cb.fit({"x": x}, 2 * x, **options)
    assert model.stopped == "nothing left to gain"
    again = cb.fit({"x": x}, 2 * x, callback=never, **options)
    assert again.stopped == model.stopped
    assert np.array_equal(again.risk, model.risk)


def test_fits_resume_after_a_time_limit_or_callback(file):
    y = make_y(TABLE, "binomial")
    options = {"loss": "binomial", "n_iter": 80}
    first = cb.fit(TABLE, y, checkpoint=file, time_limit=1e-6, **options)
    assert (first.stopped, first.n_iter) == ("time limit", 1)
    again = cb.fit(TABLE, y, checkpoint=file, time_limit=1e-6, **options)
    assert (again.stopped, again.n_iter) == ("time limit", 2)
    iterations = []

    def callback(iteration):
        iterations.append(iteration)
        return iteration == 30

    stopped = cb.fit(TABLE, y, checkpoint=file, callback=callback, **options)
    assert (stopped.stopped, iterations) == ("callback", list(range(3, 31)))
    assert_equal(cb.fit(TABLE, y, checkpoint=file, **options), cb.fit(TABLE, y, **options))


@pytest.mark.parametrize("optimizer", ["plain", "hybrid, all", "hybrid, training"])
@pytest.mark.parametrize("search", ["certified", "row-free"])
def test_interactions_have_two_stages(file, optimizer, search):
    options = {
        "optimizer": OPTIMIZERS[optimizer],
        "n_iter": 40,
        "validation": 0.3,
        "interactions": 2,
        "search": search,
    }
    y = make_y(TABLE, "squared")
    whole = cb.fit(TABLE, y, **options)
    assert len(whole.terms) == 8
    for calls, stages in ((10, 1), (35, 2), (10, 2)):
        cut_off(calls, TABLE, y, checkpoint=file, **options)
        assert len(Checkpoint(file).stages) == stages
    again = cb.fit(TABLE, y, checkpoint=file, **options)
    assert_equal(again, whole)
    assert_equal(cb.fit(TABLE, y, checkpoint=file, callback=never, **options), whole)
    longer = options | {"n_iter": 60}  # the stored second stage began at another iteration
    assert_equal(cb.fit(TABLE, y, checkpoint=file, **longer), cb.fit(TABLE, y, **longer))
    before = file.read_bytes()
    with pytest.raises(ValueError, match=r"another fit \(terms: then 8: .*, now 7: "):
        cb.fit(TABLE, y, checkpoint=file, **longer | {"interactions": 1})
    assert file.read_bytes() == before


def test_ctrl_c_keeps_what_was_fitted(file):
    y = make_y(TABLE, "binomial")

    def callback(iteration):
        if iteration == 12:
            signal.raise_signal(signal.SIGINT)
        return False

    with pytest.raises(cb.Interrupted) as stop:
        cb.fit(TABLE, y, loss="binomial", n_iter=10**6, callback=callback, checkpoint=file)
    stage = Checkpoint(file).stages[0]
    assert stage.path.n_iter == stop.value.model.n_iter
    options = {"loss": "binomial", "n_iter": 30}
    assert_equal(cb.fit(TABLE, y, checkpoint=file, **options), cb.fit(TABLE, y, **options))


class InterruptingProgress(Progress):
    """Raise KeyboardInterrupt, as Ctrl-C does, when iteration `at` is reported."""

    every = 0.0

    def __init__(self, at):
        super().__init__()
        self.at, self.reported = at, []

    def step(self, done, **facts):
        self.reported.append(done)
        if done == self.at:
            self.at = None
            raise KeyboardInterrupt


def test_ctrl_c_while_the_stored_path_is_replayed(file):
    """Replayed iterations are reported as progress, and an interrupt does not lose them."""
    y = make_y(TABLE, "binomial")
    options = {"loss": "binomial", "n_iter": 60}
    cut_off(40, TABLE, y, checkpoint=file, **options)
    before = file.read_bytes()
    with pytest.raises(cb.Interrupted) as stop:
        cb.fit(TABLE, y, checkpoint=file, progress=InterruptingProgress(20), **options)
    assert stop.value.model.n_iter == 20
    assert file.read_bytes() == before
    observer = InterruptingProgress(None)
    again = cb.fit(TABLE, y, checkpoint=file, progress=observer, **options)
    assert observer.reported[:60] == list(range(1, 61))
    assert_equal(again, cb.fit(TABLE, y, **options))


KILLED = """
import sys
import numpy as np
import cwboost as cb
from cwboost.fitting import checkpoint

checkpoint.MIN_PAUSE, checkpoint.PAUSE_FACTOR = 0.0, 0
rng = np.random.default_rng(0)
table = {f"x{j}": rng.normal(size=20_000) for j in range(6)}
y = (np.sin(table["x0"]) + table["x1"] ** 2 + rng.normal(size=20_000) > 1).astype(int)
model = cb.fit(
    table, y, loss="binomial", optimizer=cb.Hybrid(0.1, 0.05, switch_after=2), n_iter=400,
    validation=0.3, n_threads=1, checkpoint=None if sys.argv[1] == "-" else sys.argv[1],
)
np.savez(sys.argv[2], risk=model.risk, choices=model.path.choices, score=model.predict(table),
         updates=model.path.updates)
"""


@pytest.mark.slow
def test_kill_9(tmp_path):
    """After SIGKILL in the middle of a fit, repeating the command gives the same model."""
    file, results = tmp_path / "fit.checkpoint", [tmp_path / "a.npz", tmp_path / "b.npz"]

    def command(name, result):
        return [sys.executable, "-c", textwrap.dedent(KILLED), str(name), str(result)]

    with subprocess.Popen(command(file, results[0])) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not file.exists():
            time.sleep(0.005)
        time.sleep(0.2)
        process.kill()
        assert process.wait() != 0
    done = Checkpoint(file).stages[0].path.n_iter
    assert 0 < done < 400
    assert not results[0].exists()
    subprocess.run(command(file, results[0]), check=True, timeout=120)
    subprocess.run(command("-", results[1]), check=True, timeout=120)
    with np.load(results[0]) as again, np.load(results[1]) as whole:
        for name in whole:
            assert np.array_equal(again[name], whole[name]), name


# --- refused files --------------------------------------------------------------------------------


BASE = {"loss": "squared", "n_iter": 20, "validation": 0.3}
OTHER = {
    "loss: then Squared(), now Absolute()": {"loss": "absolute"},
    "optimizer: then Plain(rate=0.1), now Plain(rate=0.2)": {"optimizer": cb.Plain(0.2)},
    "terms: then 6: x0, x1, x2, x3, x4, g ": {"learners": [cb.Spline("x0")]},
    "terms: then 6": {"learners": [cb.Spline("x0", df=4), ...]},
    "bins: then Bins(n='auto'": {"bins": "sqrt"},
    "validation: then 0.3 of the rows by random_state 0, now": {"random_state": 1},
    "start: then 0.": {"start": 0.0},
    "scale: then 1.0, now 2.0": {"scale": 2.0},
    "smoothing: then ": {"weights": np.linspace(1, 2, N), "start": 0.5},
}


@pytest.mark.parametrize("message", OTHER)
def test_a_file_of_another_fit_is_refused(file, message):
    y = make_y(TABLE, "squared")
    base = BASE | ({"start": 0.5} if "smoothing" in message else {})
    cb.fit(TABLE, y, checkpoint=file, **base)
    before = file.read_bytes()
    with pytest.raises(ValueError, match="delete the file to start from the beginning") as error:
        cb.fit(TABLE, y, checkpoint=file, **base | OTHER[message])
    assert f"it belongs to another fit ({message}" in str(error.value)
    assert str(file) in str(error.value)
    assert file.read_bytes() == before


@pytest.mark.parametrize("n_iter", [20, 40])
@pytest.mark.parametrize("which", ["training", "validation"])
def test_other_rows_are_refused(file, n_iter, which):
    """Start, smoothing and so on may be the same for other rows, but the risks differ."""
    y = make_y(TABLE, "squared")
    held = np.arange(N) % 3 == 0
    options = {"validation": held, "start": 0.0, "learners": [cb.Spline("x0", smoothing=1.0)]}
    cb.fit(TABLE, y, n_iter=20, checkpoint=file, **options)
    before = file.read_bytes()
    rows = ~held if which == "training" else held
    other = np.where(rows, y + 0.01, y)
    with pytest.raises(ValueError, match="these are not the rows of that fit: after 20 iterations"):
        cb.fit(TABLE, other, n_iter=n_iter, checkpoint=file, **options)
    assert file.read_bytes() == before


FINGERPRINT_CASES = [
    ("squared", {}),
    ("absolute", {}),
    ("binomial", {"validation": 0.3}),
    ("multinomial", {}),
    ("poisson", {"bins": "exact"}),
]


@pytest.mark.parametrize("kind", ["numbers", "labels"])
@pytest.mark.parametrize(("loss", "more"), FINGERPRINT_CASES)
def test_other_rows_of_an_unchosen_column_are_refused(file, loss, more, kind):
    """The values are only reordered, so start, smoothing and risk do not reveal the change."""
    order = np.random.default_rng(8).permutation(N)
    z = make_table()["x4"] if kind == "numbers" else TABLE["g"]
    table = {"x0": TABLE["x0"], "x1": TABLE["x1"], "z": z}
    y = make_y(TABLE | {"g": np.full(N, "b")}, loss)
    last = (cb.Spline if kind == "numbers" else cb.Category)("z", smoothing=9.0)
    options = {"loss": loss, "checkpoint": file, "learners": [last, ...], **more}
    first = cb.fit(table, y, n_iter=6, **options)
    assert "z" not in first.choices
    before = file.read_bytes()
    for n_iter in (6, 12):  # the stored iterations, and more
        with pytest.raises(ValueError, match=r"column z has other values, or in other rows, than"):
            cb.fit(table | {"z": z[order]}, y, n_iter=n_iter, **options)
    assert file.read_bytes() == before
    assert_same_path(cb.fit(table, y, n_iter=6, callback=never, **options), first)
    longer = cb.fit(table, y, n_iter=12, **options)
    assert_same_path(longer, cb.fit(table, y, n_iter=12, **options | {"checkpoint": None}))


def assert_same_path(model, other):
    for name in ("choices", "risk", "updates"):
        assert np.array_equal(getattr(model.path, name), getattr(other.path, name)), name


def test_two_swapped_cells_are_noticed(file):
    table, y = TABLE | {"x4": TABLE["x4"].copy()}, make_y(TABLE, "squared")
    assert "x4" not in cb.fit(TABLE, y, n_iter=5, checkpoint=file).choices
    low, high = np.argsort(table["x4"])[[50, -50]]
    table["x4"][[low, high]] = table["x4"][[high, low]]
    with pytest.raises(ValueError, match="column x4 has other values, or in other rows"):
        cb.fit(table, y, n_iter=5, checkpoint=file)


def test_another_y_changes_the_fingerprints_of_all_columns(file):
    y = make_y(TABLE, "squared")
    # Before the first iteration the risk does not depend on the order of the rows.
    cb.fit(TABLE, y, n_iter=0, checkpoint=file)
    with pytest.raises(ValueError, match="y or columns x0, x1, x2, x3, x4, g have other values"):
        cb.fit(TABLE, y[::-1], n_iter=0, checkpoint=file)


def test_pairs_of_columns_have_fingerprints(file):
    """The second stage stores fingerprints of pairs in addition to the columns."""
    y = make_y(TABLE, "squared")
    options = {"n_iter": 30, "interactions": [("x0", "x1")], "checkpoint": file}
    first = cb.fit(TABLE, y, **options)
    prints = [stage.identity["columns"] for stage in Checkpoint(file).stages]
    assert [len(found) for found in prints] == [6, 7]
    assert_equal(cb.fit(TABLE, y, callback=never, **options), first)


def test_a_constant_y_leaves_no_residuals(file):
    options = {"n_iter": 5, "checkpoint": file}
    model = cb.fit(TABLE, np.full(N, 2.5), **options)
    assert_equal(cb.fit(TABLE, np.full(N, 2.5), **options), model)


def test_a_user_defined_loss_is_identified_by_what_it_computes(file):
    def loss_of(power):
        class Own:
            def loss(self, y, score):
                return np.abs(y - score) ** power

            def gradient(self, y, score):
                return power * np.abs(y - score) ** (power - 1) * np.sign(score - y)

            def start(self, y, weights):
                return np.average(y, weights=weights)

        return Own()

    y = make_y(TABLE, "squared")
    options = {"n_iter": 15, "checkpoint": file}
    first = cb.fit(TABLE, y, loss=loss_of(2), **options)
    assert_equal(cb.fit(TABLE, y, loss=loss_of(2), callback=never, **options), first)
    with pytest.raises(ValueError, match="another fit \\(loss"):
        cb.fit(TABLE, y, loss=loss_of(3), **options)


def damaged(content):
    middle = len(content) // 2
    return {
        "damaged": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "incomplete": content[:middle],
        "damaged or inc": content[:25],
        "damaged or": b"",
        "is not a checkpoint": b"# my notes\n",
        "by a later version": content.replace(b"checkpoint 3 ", b"checkpoint 4 ", 1),
        "by an earlier version": content.replace(b"checkpoint 3 ", b"checkpoint 1 ", 1),
    }


@pytest.mark.parametrize("message", list(damaged(bytes(9))))
def test_a_damaged_file_is_refused(file, message):
    y = make_y(TABLE, "squared")
    cb.fit(TABLE, y, n_iter=10, checkpoint=file)
    content = damaged(file.read_bytes())[message]
    file.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        cb.fit(TABLE, y, n_iter=10, checkpoint=file)
    assert str(file) in str(error.value)
    assert file.read_bytes() == content


def forge(file, header, rest):
    body = json.dumps(header).encode() + b"\n" + rest
    checksum = fingerprint([np.frombuffer(body, np.uint8)]).encode()
    file.write_bytes(b"cwboost checkpoint 3 %s\n%s" % (checksum, body))


@pytest.mark.parametrize("optimizer", ["accelerated", "hybrid, all"])
def test_odd_values_with_the_right_checksum_are_refused(file, optimizer):
    """Each value of the header, and numbers of the arrays, are replaced. The answer is a sentence
    about the checkpoint, or the model if the value does not matter."""
    x = np.linspace(0, 1, 60)
    small, y = {"x": x}, np.sin(6 * x)
    options = {"optimizer": OPTIMIZERS[optimizer], "validation": np.arange(60) % 3 == 0}
    options["learners"] = [cb.Linear("x")]
    whole = cb.fit(small, y, n_iter=4, checkpoint=file, **options)
    header, rest = file.read_bytes().split(b"\n", 2)[1:]
    header, n_refused, n_tried = json.loads(header), 0, 0

    def answer():
        nonlocal n_refused, n_tried
        n_tried += 1
        try:
            again = cb.fit(small, y, n_iter=4, checkpoint=file, **options)
        except ValueError as error:
            assert str(error).startswith(f"checkpoint {file}: ")  # noqa: PT017
            n_refused += 1
        else:
            assert again.n_iter == whole.n_iter

    for odd in odd_versions(header):
        forge(file, odd, rest)
        answer()
    for at in range(0, len(rest) - 8, 8):
        for number in (b"\xff" * 8, b"\x7f" * 8, b"\x00\x00\x00\x00\x00\x00\xf8\x7f"):
            forge(file, header, rest[:at] + number + rest[at + 8 :])
            answer()
    forge(file, header, rest + b"x")
    answer()
    assert n_refused > 0.7 * n_tried


def test_bad_arguments_are_refused_before_any_work(tmp_path):
    nothing = object()  # reading it would raise another error
    with pytest.raises(TypeError, match="checkpoint: expected a path to a file, got 3"):
        cb.fit(nothing, checkpoint=3)
    with pytest.raises(FileNotFoundError, match="this folder does not exist"):
        cb.fit(nothing, checkpoint=tmp_path / "no" / "file")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        cb.fit(nothing, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="checkpoint: not allowed with bags="):
        cb.fit(nothing, bags=3, checkpoint=tmp_path / "file")


# --- writing --------------------------------------------------------------------------------------


def test_a_write_that_fails_does_not_end_the_fit(file, monkeypatch):
    y = make_y(TABLE, "squared")
    cb.fit(TABLE, y, n_iter=5, search="full", checkpoint=file)
    before = file.read_bytes()

    def full(_number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module.os, "fsync", full)
    with pytest.warns(RuntimeWarning, match=r"could not be written \(the disk is full") as caught:
        model = cb.fit(TABLE, y, n_iter=30, search="full", checkpoint=file)
    assert len(caught) == 1
    assert Path(caught[0].filename) == Path(__file__)
    assert_equal(model, cb.fit(TABLE, y, n_iter=30, search="full"))
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    monkeypatch.undo()
    assert_equal(cb.fit(TABLE, y, n_iter=30, search="full", checkpoint=file), model)


def test_writes_are_rare(tmp_path, monkeypatch):
    """A short fit writes after its first and last iteration; a long one after few iterations."""
    file, y = tmp_path / "fit.checkpoint", make_y(TABLE, "squared")
    sizes = []
    write = checkpoint_module._write

    def counted(name, stages):
        sizes.append(stages[-1].path.n_iter)
        write(name, stages)

    monkeypatch.setattr(checkpoint_module, "_write", counted)
    cb.fit(TABLE, y, n_iter=200, checkpoint=file)
    assert sizes == [1, 200]
    assert checkpoint_module.MIN_PAUSE >= 10
    monkeypatch.setattr(checkpoint_module, "MIN_PAUSE", 0.0)
    pauses, save = [], Checkpoint.save
    monkeypatch.setattr(Checkpoint, "save", lambda *a: pauses.append(save(*a)) or pauses[-1])
    sizes.clear()
    file.unlink()
    began = time.perf_counter()
    cb.fit(TABLE, y, n_iter=3000, search="certified", checkpoint=file)
    passed = time.perf_counter() - began
    assert len(sizes) < 3000 / 5, passed
    assert max(pauses) <= checkpoint_module.PAUSE_FACTOR * passed
    path = Checkpoint(file).stages[0].path
    assert (
        file.stat().st_size
        < 1.1 * sum(getattr(path, n).nbytes for n in checkpoint_module.ARRAYS) + 5000
    )


def test_paths_are_read_as_they_were_written(file):
    y = make_y(TABLE, "squared")
    model = cb.fit(TABLE, y, optimizer=cb.Hybrid(), validation=0.3, n_iter=80, checkpoint=str(file))
    path = Checkpoint(file).stages[0].path
    for name in Path_.__dataclass_fields__:
        then, now = getattr(model.path, name), getattr(path, name)
        assert np.array_equal(then, now, equal_nan=name.endswith("risk")), name
        assert type(then) is type(now)
        assert not isinstance(then, np.ndarray) or then.dtype == now.dtype


def test_a_relative_name_refers_to_the_folder_where_the_fit_began(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()

    def callback():
        os.chdir(tmp_path / "other")

    cb.fit(TABLE, make_y(TABLE, "squared"), n_iter=3, callback=callback, checkpoint="here")
    assert (tmp_path / "here").is_file()


# --- estimators and the command line --------------------------------------------------------------


def test_estimators(file):
    y = make_y(TABLE, "binomial")
    classifier = cb.CWBClassifier(n_iter=30).fit(TABLE, y, checkpoint=file)
    assert Checkpoint(file).stages[0].path.n_iter == 30
    longer = cb.CWBClassifier(n_iter=50).fit(TABLE, y, checkpoint=file).model_
    assert_equal(longer, cb.CWBClassifier(n_iter=50).fit(TABLE, y).model_)
    with pytest.raises(ValueError, match="mutually exclusive"):
        classifier.set_params(warm_start=True).fit(TABLE, y, checkpoint=file)
    with pytest.raises(ValueError, match="checkpoint: not allowed with bags="):
        cb.CWBClassifier(bags=3).fit(TABLE, y, checkpoint=file)


def test_command_line(tmp_path, capsys):
    rows, file = tmp_path / "rows.csv", tmp_path / "fit.checkpoint"
    y = make_y(TABLE, "squared")
    columns = zip(TABLE["x0"], TABLE["g"], y, strict=True)
    rows.write_text("x,g,y\n" + "".join(f"{a},{b},{c}\n" for a, b, c in columns))

    def fit(*more):
        return main(["fit", str(rows), "--target", "y", "--quiet", *map(str, more)])

    models = [tmp_path / "a.json", tmp_path / "b.json"]
    assert fit("--iterations", 10, "--checkpoint", file, "-o", models[0]) == 0
    assert fit("--iterations", 30, "--checkpoint", file, "-o", models[0]) == 0
    assert fit("--iterations", 30, "-o", models[1]) == 0
    found, whole = (json.loads(model.read_text())["path"] for model in models)
    assert found["risk"] == whole["risk"]
    assert fit("--rate", 0.7, "--checkpoint", file) == 1
    assert "it belongs to another fit (optimizer" in capsys.readouterr().err
    assert fit("--checkpoint", tmp_path / "no" / "file") == 1
    assert "this folder does not exist" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        fit("--checkpoint", file, "--bags", 3)
    assert "cannot be used with --bags" in capsys.readouterr().err


def test_a_fit_with_a_checkpoint_gives_no_warning(file):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cb.fit(TABLE, make_y(TABLE, "squared"), n_iter=5, checkpoint=file)
