"""Tests of where the command line writes: what it refuses before any work, and what it keeps.

Covers links, folders that are read and written, permissions, exports that are repeated, folders
that several processes write, and what is said after Ctrl-C.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils import leftovers
from cwboost._utils.atomic_files import check_file, check_folder, replace_file, replace_folder
from cwboost.cli import fit_request
from cwboost.cli.main import main
from cwboost.export.sql import to_sql
from cwboost.export.tables import to_csv
from cwboost.frames.files import write_table

POSIX_ONLY = pytest.mark.skipif(os.name == "nt", reason="links and permissions of Unix")
X = np.linspace(0.0, 1.0, 60)
ROWS = {"x": X, "y": X**2}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a model, a table and a folder of Parquet files."""
    monkeypatch.chdir(tmp_path)
    leftovers.CLEANED.clear()
    cb.fit(ROWS, "y", n_iter=5).save("m.json")
    write_table("t.csv", ROWS)
    Path("parts").mkdir()
    for name in ("a", "b"):
        write_table(f"parts/{name}.parquet", ROWS)
    return tmp_path


def refuse(words, capsys, monkeypatch):
    """Return the one line with which a command is refused, before it reads a model or a table."""

    def read(*_, **__):
        raise AssertionError("work began before the check")

    for module in ("predict", "report", "export", "plot"):
        monkeypatch.setattr(f"cwboost.cli.commands.{module}.read_model", read)
    monkeypatch.setattr(fit_request, "read_table", read)
    before = {path: path.lstat().st_mtime_ns for path in Path().rglob("*")}
    assert main(words) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert {path: path.lstat().st_mtime_ns for path in Path().rglob("*")} == before
    return lines[0].removeprefix("cwboost: ")


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "output"),
    [
        ("parts", "parts/out"),
        ("parts", "parts/out/"),
        ("parts", "parts/out.parquet"),
        ("parts/", "./parts/deep.PQ"),
        ("parts/*.parquet", "parts/out.parquet"),
        ("parts/*.parquet", "parts/a.parquet"),
        ("*/*.parquet", "out"),
        ("**/*.parquet", "out"),
    ],
)
def test_predictions_do_not_become_a_part_of_the_table(table, output, capsys, monkeypatch):
    message = refuse(["predict", "m.json", table, "-o", output], capsys, monkeypatch)
    assert message == (
        f"-o {output} would become a part of {table}, which the command reads; write to a place "
        "outside of it"
    )


@pytest.mark.parametrize(
    ("table", "output"),
    [
        ("parts", "out"),
        ("parts", "parts/out.csv"),  # only Parquet files are read
        ("parts", "parts/_out"),  # hidden from the reader
        ("parts/*.parquet", "parts/out"),
        ("parts/*.parquet", "out.parquet/"),
        (".", "p.csv"),
    ],
)
def test_other_places_near_the_table_can_be_written(table, output):
    for words in (["predict", "m.json", table, "-o", output], ["show", "m.json"]):
        assert main(words) == 0
    assert Path(output).is_dir() == (Path(output).suffix != ".csv")
    before = cb.Dataset.from_parquet(table).n_rows
    assert before == 2 * len(X)


def test_a_saved_dataset_is_left_alone(capsys, monkeypatch):
    cb.Dataset.from_batches([ROWS], folder="saved")
    words = ["fit", "saved", "--target", "y", "-o", "saved/m.json"]
    assert "would become a part of saved" in refuse(words, capsys, monkeypatch)


WRITERS = {
    "fit": "fit t.csv --target y -o {}",
    "checkpoint": "fit t.csv --target y --checkpoint {}",
    "predict": "predict m.json t.csv -o {}",
    "predict folder": "predict m.json parts -o {}",
    "report": "report m.json -o {}",
    "export": "export m.json --to {}",
    "tune": "tune t.csv --target y --file {}",
    "plot of cv": "cv t.csv --target y --plot {}",
    "plot": "plot m.json -o {}",
}
ENDINGS = {"predict": ".csv", "plot of cv": ".svg", "plot": ".svg", "export": ".sql"}


@POSIX_ONLY
@pytest.mark.parametrize("writer", WRITERS)
def test_a_loop_of_links(writer, capsys, monkeypatch):
    name = f"loop{ENDINGS.get(writer, '')}"
    Path(name).symlink_to(name)
    words = WRITERS[writer].format(name).split()
    message = f"{name}: its symbolic links form a loop; remove the link or use another name"
    assert refuse(words, capsys, monkeypatch) == message


@POSIX_ONLY
@pytest.mark.parametrize("writer", WRITERS)
def test_a_link_into_a_folder_that_does_not_exist(writer, capsys, monkeypatch, folder):
    name = f"link{ENDINGS.get(writer, '')}"
    Path(name).symlink_to("nowhere/x")
    message = refuse(WRITERS[writer].format(name).split(), capsys, monkeypatch)
    target = folder.resolve() / "nowhere" / "x"
    assert message.startswith(f"{name}: this is a link to {target}, whose folder does not exist; ")


@pytest.mark.parametrize("writer", ["fit", "checkpoint", "report", "tune"])
def test_a_slash_at_the_end_means_a_folder(writer, capsys, monkeypatch):
    message = refuse(WRITERS[writer].format("new/").split(), capsys, monkeypatch)
    assert message == "new/: a name with a slash at its end is a folder; name a file"


@POSIX_ONLY
def test_python_names_the_loop_too(folder):
    Path("loop").symlink_to("loop")
    model = cb.load("m.json")
    for write in (model.save, lambda file: to_csv(model, file), cb.Dataset.open):
        with pytest.raises(OSError, match="symbolic links form a loop"):
            write("loop")
    with pytest.raises(FileNotFoundError, match=r"no/\.\.: this folder does not exist"):
        check_file("no/../m.json")


def test_the_option_of_an_empty_table_name(capsys):
    with pytest.raises(SystemExit):
        main(["export", "m.json", "--to", "s.sql", "--table", ""])
    message = "argument --table: expected the name of a table in the database, got ''"
    assert message in capsys.readouterr().err
    assert main(["export", "m.json", "--to", "s.sql", "--table", "t.csv"]) == 0  # not a file
    with pytest.raises(ValueError, match="cannot be the name"):
        to_sql(cb.load("m.json"), table="")


@pytest.mark.parametrize("command", ["fit", "cv", "tune"])
def test_classes_of_a_number(command, capsys):
    assert main([command, "t.csv", "--target", "y", "--loss", "multinomial"]) == 1
    message = "the multinomial loss needs classes, but the column has numbers such as 0.000287"
    assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"got numbers such as 0\.5 \(Unknown label type: contin"):
        cb.CWBClassifier().fit(X[:, None], np.repeat([0.5, 1.0, 2.0], 20))


# --- what is kept ---------------------------------------------------------------------------------


@POSIX_ONLY
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_a_file_that_is_replaced_keeps_its_permissions(mode):
    Path("m.json").chmod(mode)
    with replace_file("m.json") as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == mode | 0o200  # from the beginning
        temporary.write_text("half")
    assert stat.S_IMODE(Path("m.json").stat().st_mode) == mode
    assert main(["fit", "t.csv", "--target", "y", "--iterations", "3", "-o", "m.json"]) == 0
    assert stat.S_IMODE(Path("m.json").stat().st_mode) == mode
    assert cb.load("m.json").n_iter == 3


@POSIX_ONLY
def test_a_new_file_follows_the_umask():
    usual = os.umask(0o027)
    try:
        cb.load("m.json").save("new.json")
    finally:
        os.umask(usual)
    assert stat.S_IMODE(Path("new.json").stat().st_mode) == 0o640


@POSIX_ONLY
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can do it")
def test_owner_and_group_are_kept(folder):
    os.chown("m.json", 1234, 5678)
    cb.load("m.json").save("m.json")
    found = Path("m.json").stat()
    assert (found.st_uid, found.st_gid) == (1234, 5678)


@POSIX_ONLY
def test_permissions_are_kept_where_the_owner_cannot_be(monkeypatch):
    def refused(*_, **__):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refused)
    Path("m.json").chmod(0o600)
    cb.load("m.json").save("m.json")
    assert stat.S_IMODE(Path("m.json").stat().st_mode) == 0o600


@POSIX_ONLY
def test_a_folder_that_is_replaced_keeps_its_permissions():
    for mode in (None, 0o700):
        if mode is not None:
            Path("tables").chmod(mode)
        assert main(["export", "m.json", "--to", "tables"]) == 0
    assert stat.S_IMODE(Path("tables").stat().st_mode) == 0o700


# --- exports that are repeated --------------------------------------------------------------------


def test_an_export_replaces_an_earlier_export(capsys):
    both = {"x": X, "g": ["a", "b"] * 30}
    cb.fit(both, X + np.tile([0.0, 1.0], 30), n_iter=20).save("other.json")
    assert main(["export", "other.json", "--to", "tables"]) == 0
    assert main(["export", "m.json", "--to", "tables/"]) == 0
    first = sorted(str(path) for path in Path("tables").rglob("*"))
    assert len(first) == 7  # the files of the other model are gone
    for extra in ("tables/notes.txt", "tables/exact/notes.txt"):
        Path(extra).write_text("mine")
        assert main(["export", "m.json", "--to", "tables"]) == 1
        assert "a folder with other files exists already" in capsys.readouterr().err
        assert Path(extra).read_text() == "mine"
        Path(extra).unlink()
    Path("tables/intercept.csv").unlink()  # not a whole export
    assert main(["export", "m.json", "--to", "tables"]) == 1


def test_exports_into_one_folder_at_the_same_time():
    models = [cb.fit(ROWS, (k + 1) * X, n_iter=5) for k in range(4)]

    def export(k):
        to_csv(models[k % 4], "tables")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(export, range(60)))
    for k, model in enumerate(models):
        to_csv(model, f"alone{k}")
    found = {path.name: path.read_bytes() for path in Path("tables").rglob("*.csv")}
    alone = [
        {path.name: path.read_bytes() for path in Path(f"alone{k}").rglob("*.csv")}
        for k in range(4)
    ]
    assert found in alone
    assert not list(Path().glob(".*"))


def test_a_folder_that_appears_and_disappears_during_a_replacement(monkeypatch):
    move, failed = Path.rename, []

    def rename(self, target):
        if self.suffix == ".tmp" and not failed:  # another process's folder was there for a moment
            failed.append(self)
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(self))
        return move(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    for text in ("old", "new"):
        with replace_folder("out", "file") as temporary:
            (temporary / "file").write_text(text)
    assert failed
    assert Path("out/file").read_text() == "new"
    assert not list(Path().glob(".*"))


def test_a_folder_that_another_process_moves_is_not_taken_for_a_file():
    Path("out").mkdir()
    done = Event()

    def move():
        while not done.is_set():
            Path("out").rename("moved")
            Path("moved").rename("out")

    with ThreadPoolExecutor(1) as pool:
        moving = pool.submit(move)
        try:
            for _ in range(2000):
                check_folder("out")
        finally:
            done.set()
        moving.result()


def test_a_folder_that_gets_other_files_meanwhile_is_not_replaced():
    def write():
        with replace_folder("out") as temporary:
            (temporary / "new").write_text("new")
            Path("out").mkdir()
            Path("out/mine").write_text("mine")

    with pytest.raises(FileExistsError, match="a folder with other files exists already"):
        write()
    assert [path.name for path in Path("out").iterdir()] == ["mine"]
    assert not list(Path().glob(".*"))


# --- killed processes -----------------------------------------------------------------------------

KILLED = """
import os, signal
from pathlib import Path
from threading import Event
from cwboost._utils.atomic_files import replace_folder
with replace_folder("one") as temporary:
    (temporary / "half").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@POSIX_ONLY
def test_any_write_removes_the_folder_of_a_killed_process(folder):
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = folder.glob(".*")
    dead = left.stem[1:]
    Path(f".parts.{dead}.old").mkdir()  # replaced already
    Path(f".gone.{dead}.old").mkdir()  # the only copy
    with replace_folder("running") as running:
        (running / "file").touch()
        leftovers.CLEANED.clear()
        cb.load("m.json").save("new.json")
        assert {path.name for path in folder.glob(".*")} == {running.name, f".gone.{dead}.old"}
    with replace_folder("gone") as temporary:  # puts the only copy back, which is empty
        assert Path("gone").is_dir()
        (temporary / "file").touch()
    assert not list(folder.glob(".*"))


# --- Ctrl-C ---------------------------------------------------------------------------------------


def press(*_, **__):
    raise KeyboardInterrupt


def test_ctrl_c_twice_names_the_checkpoint(monkeypatch, capsys):
    """The second Ctrl-C comes after the checkpoint, while the model so far is made."""
    words = ["fit", "t.csv", "--target", "y", "--iterations", "5", "--checkpoint", "c.ckpt"]
    monkeypatch.setattr("cwboost.fitting.problem.best_iteration", press)
    assert main([*words, "-o", "new.json"]) == 130
    assert Path("c.ckpt").is_file()
    message = "interrupted; no result was written; the same command resumes from c.ckpt\n"
    assert capsys.readouterr().err.endswith(message)
    Path("c.ckpt").unlink()
    monkeypatch.setattr(fit_request, "read_table", press)
    assert main(words) == 130
    assert capsys.readouterr().err == "cwboost: interrupted; nothing was written\n"


def test_ctrl_c_before_the_first_trial(monkeypatch, capsys):
    monkeypatch.setattr("cwboost.selection.tuning.tune.SuccessiveHalving.run", press)
    assert main(["tune", "t.csv", "--target", "y", "--file", "t.jsonl"]) == 130
    assert capsys.readouterr().err == "cwboost: interrupted after 0 trials\n"
    assert not Path("t.jsonl").exists()


def test_ctrl_c_after_some_files(monkeypatch, capsys):
    monkeypatch.setattr("cwboost.cli.commands.cv.summary", press)
    assert main(["cv", "t.csv", "--target", "y", "--iterations", "3", "-o", "path.csv"]) == 130
    assert capsys.readouterr().err.endswith("cwboost: interrupted; path.csv is written\n")
