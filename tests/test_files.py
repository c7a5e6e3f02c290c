"""Tests of the files that the package writes: full disks, odd names, and killed processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils import leftovers
from cwboost._utils.atomic_files import replace_file, temporary_folder
from cwboost.export.registry import export
from cwboost.frames.files import read_table, write_table

HALF = "half \ud800"  # of a surrogate pair, which UTF-8 cannot encode
X = np.linspace(0, 1, 60)
G = np.array(["a", HALF] * 30, dtype=object)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def model():
    return cb.fit({HALF: X, "g": G}, X + (G == "a"), n_iter=30)


# --- names ----------------------------------------------------------------------------------------


def test_half_a_surrogate_pair_in_a_name_or_level(model, folder):
    model.to_csv("tables")
    assert "half \\ud800" in Path("tables/terms.csv").read_text(encoding="utf-8")
    model.save("m.json")
    assert list(cb.load("m.json").columns) == [HALF, "g"]
    for ending in ("csv", "jsonl"):
        write_table(f"t.{ending}", {HALF: X, "g": G})
    assert read_table("t.jsonl").table.names == (HALF, "g")
    model.to_excel("m.xlsx")
    model.report("r.html", {HALF: X, "g": G}, X)
    with pytest.raises(ValueError, match="half a surrogate pair, which Parquet cannot hold"):
        write_table("t.parquet", {"g": G})
    for ending in ("sql", "onnx"):
        with pytest.raises(ValueError, match=r"half \\ud800"):
            export(model, f"m.{ending}")
    assert not list(folder.glob("*.parquet")) + list(folder.glob("m.[so]*"))


def test_half_a_surrogate_pair_in_a_dataset_and_in_logs(folder):
    table = {HALF: X, "g": G, "y": X}
    saved = cb.Dataset.from_batches([table], y="y").save("d")
    assert cb.Dataset.open("d").names == saved.names == (HALF, "g", "y")
    for _ in range(2):  # the second call resumes
        cb.fit({HALF: X}, X, n_iter=3, checkpoint="c")
        cb.tune({HALF: X}, X, schedule=cb.RandomSearch(1, 3), folds=2, file="t.jsonl")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "name of a file or folder is empty"),
        ("a\0b", "cannot contain NUL"),
        pytest.param(
            HALF, "half a surrogate", marks=pytest.mark.skipif(os.name == "nt", reason="")
        ),
    ],
)
def test_names_that_no_file_can_have(model, name, message):
    calls = [model.save, model.to_excel, model.to_csv, model.report, cb.load, cb.Dataset.open]
    calls += [
        cb.Dataset.from_parquet,
        read_table,
        lambda file: cb.fit({"x": X}, X, checkpoint=file),
    ]
    calls += [lambda file: cb.tune({"x": X}, X, file=file)]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call(name)


# --- full disks -----------------------------------------------------------------------------------

FULL = """
import gc, json, os, resource
import numpy as np
import cwboost as cb
from cwboost.export.registry import export
from cwboost.frames.files import write_table
from cwboost.plotting.plot import save

x, g = np.linspace(0, 1, 900), np.array([f"level {k % 90}" for k in range(900)])
rows = {"x": x, "g": g}
model = cb.fit(rows, x + (g == "level 3"), n_iter=30)
data = cb.Dataset.from_batches([rows])
writers = {f"m.{ending}": export for ending in ("json", "sql", "onnx", "xlsx")}
writers |= {"tables": export, "r.html": cb.Model.report}
writers |= {f"p.{ending}": save for ending in ("png", "svg", "pdf")}
for ending in ("csv", "jsonl", "parquet"):
    writers[f"t.{ending}"] = lambda _, file: write_table(file, rows)
writers["data"] = lambda _, folder: data.save(folder)
schedule = cb.RandomSearch(9, 100)
writers["t.tuning"] = lambda _, file: cb.tune(rows, x, file=file, schedule=schedule, folds=2)
save(model, "p.pdf")  # before the limit, because matplotlib writes a cache of fonts
os.unlink("p.pdf")
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
messages = {}
for name, write in writers.items():
    try:
        write(model, name)
    except OSError as error:
        messages[name] = str(error)
    gc.collect()
print(json.dumps([messages, os.listdir()]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a limit of the operating system")
def test_writers_that_run_out_of_space_say_so_once():
    """The size of files is limited, which fails as a full disk does."""
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)
    assert done.stderr == ""  # no second error, such as one of an object that is freed
    messages, left = json.loads(done.stdout)
    assert len(messages) == 14
    for name, message in messages.items():
        assert f"cannot be written there (File too large); use another place: '{name}'" in message
    assert left == ["t.tuning"]  # a log of what is done so far


# --- killed processes -----------------------------------------------------------------------------

KILLED = """
import os, signal
from cwboost._utils.atomic_files import make_temporary_folder, replace_file
make_temporary_folder()
with replace_file("m.json") as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_the_next_write_removes_what_a_killed_process_left(folder, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    (folder / "tmp").mkdir()
    call = [sys.executable, "-c", KILLED]
    assert subprocess.run(call, check=False).returncode == -signal.SIGKILL
    other = folder / f".{'0' * 24}.tmp"  # of another machine, which may still write
    other.touch()
    similar = folder / ".notes.tmp"
    similar.touch()
    with replace_file("running.json") as running:  # of this process
        running.touch()
        assert len(list(folder.glob(".*.tmp"))) == 4 - 1
        leftovers.remove_leftovers.cache_clear()
        with replace_file("m.json") as temporary, temporary_folder():
            temporary.touch()
            assert {*folder.glob(".*.tmp")} == {other, similar, running, temporary}
    assert not list((folder / "tmp").iterdir())
    old = other.stat().st_mtime - 2 * leftovers.ABANDONED
    os.utime(other, (old, old))
    leftovers.remove_leftovers.cache_clear()
    with replace_file("m.json") as temporary:
        temporary.touch()
    assert {*folder.glob(".*.tmp")} == {similar}
