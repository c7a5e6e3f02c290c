"""Tests of table files with mistakes, and of the files that the package writes: full disks, odd
names, and killed processes."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost._utils import leftovers
from cwboost._utils.atomic_files import replace_file, temporary_folder
from cwboost.cli.main import main
from cwboost.export.registry import export
from cwboost.frames.columns import Labels
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


@pytest.mark.parametrize("damage", ["header", "middle", "end"])
def test_damaged_gzip_files(folder, damage):
    packed = gzip.compress(b"x,y\n" + b"".join(b"%d,1\n" % i for i in range(999)))
    middle = len(packed) // 2
    content = {
        "header": packed[:10] + b"garbage",
        "middle": packed[:middle] + b"????" + packed[middle + 4 :],
        "end": packed[:-9],
    }[damage]
    Path("t.csv.gz").write_bytes(content)
    with pytest.raises(ValueError, match=r"^t.csv.gz: damaged \("):
        read_table("t.csv.gz")


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
    other = folder / f".cwboost-{'0' * 24}.tmp"  # of another machine, which may still write
    other.touch()
    similar = {folder / ".notes.tmp", folder / ".d41d8cd98f00b204e9800998ecf8427e.tmp"}
    for file in similar:  # of other programs
        file.touch()
        os.utime(file, (0.0, 0.0))
    with replace_file("running.json") as running:  # of this process
        running.touch()
        assert {*folder.glob(".*.tmp")} == {other, *similar, running}
        leftovers.CLEANED.clear()
        with replace_file("m.json") as temporary, temporary_folder():
            temporary.touch()
            assert {*folder.glob(".*.tmp")} == {other, *similar, running, temporary}
    assert not list((folder / "tmp").iterdir())
    old = other.stat().st_mtime - 2 * leftovers.ABANDONED
    os.utime(other, (old, old))
    leftovers.CLEANED.clear()
    with replace_file("m.json") as temporary:
        temporary.touch()
    assert {*folder.glob(".*.tmp")} == similar


# --- mistakes in CSV files ------------------------------------------------------------------------


def read_text(text, name="t.csv", **options):
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(name, **options).table


def fail_text(text, message, name="t.csv", **options):
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        read_text(text, name, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'x,g,y\n0,c,1\n0,"a inch,0\n1,"b inch,1\n',
        'x,g,y\n0,c,1\n0,"a\nb"zz,0\n',
        'x,g,y\n0,c,1\n0,"a" ,0\n',
    ],
)
def test_text_after_a_closing_quote_is_an_error(text):
    message = fail_text(text, "t.csv, line 3: the row that begins here has a closing quote before")
    assert 'write a quote inside a quoted cell twice ("")' in message


def test_a_quote_that_is_not_closed_is_an_error():
    found = fail_text('g,y\n"a\nb",1\n"c,0\nd,1\n', "t.csv, line 4: the row that begins here has a")
    assert "has a quote that is not closed; write a quote" in found
    fail_text('"g,y\n1,2\n', "t.csv, line 1: the row that begins here has a quote that is not")


def test_a_very_long_cell_may_be_honest():
    found = fail_text("g,y\n" + "x" * 200_000 + ",1\n", "t.csv, line 2: the row that begins here")
    assert "a cell of more than 131,072 characters; shorten it, or, if a quote is not" in found


def test_quotes_inside_cells_that_do_not_begin_with_one_are_text():
    assert read_text('g,y\n5" pipe,1\n"6"" pipe",2\n')["g"].to_cells().tolist() == [
        '5" pipe',
        '6" pipe',
    ]


def test_nul_characters_are_an_error():
    fail_text(
        "g,y\na,1\n".encode("utf-16-le"), "t.csv, line 1: a NUL character, which text does not"
    )
    found = fail_text("g,y\na,1\nb\0,1\n", "t.csv, line 3: a NUL character")
    assert "probably UTF-16; save it as UTF-8" in found
    fail_text('{"a": 1}\n\0\n', "t.jsonl, line 2: a NUL character", "t.jsonl")


@pytest.mark.parametrize(("text", "sep"), [("a|b\n1|2\n", "sep=|"), ("a b\n1 2\n", "sep= ")])
def test_a_header_of_one_cell_gets_a_hint_at_the_delimiter(text, sep):
    with pytest.warns(UserWarning, match=rf"t.csv: every line is one cell, .*'{re.escape(sep)}'$"):
        read_text(text)


def test_one_column_with_blanks_or_bars_in_some_cells():
    assert read_text("first name\nAnn\n").names == ("first name",)
    assert read_text("a|b\n1\n").names == ("a|b",)


# --- dates ----------------------------------------------------------------------------------------

ZONED = ["2026-01-01T08:30:00Z", "2026-01-01T10:30:00+02:00", "2026-01-01 03:30:00.000000000-0500",
         "2026-01-01 08:30+00", "2026-01-01 08:30:00 UTC"]  # fmt: skip
HALF_PAST_8 = 20454 + 8.5 / 24


def as_lines(cells):
    return "".join(json.dumps({"t": cell}) + "\n" for cell in cells)


def test_times_with_a_zone_are_dates_in_utc():
    for found in (
        read_text("t,n\n" + "".join(f"{cell},1\n" for cell in [*ZONED, ""])),
        read_text(as_lines([*ZONED, None]), "t.jsonl"),
    ):
        assert found["t"].unit == "dates"
        assert found["t"].values == pytest.approx([HALF_PAST_8] * 5 + [np.nan], nan_ok=True)


def test_times_with_a_zone_that_pandas_writes():
    pd = pytest.importorskip("pandas")
    times = pd.date_range("2026-03-28 08:30", periods=3, tz="Europe/Berlin")  # summer time begins
    frame = pd.DataFrame(
        {"t": times.insert(1, pd.NaT), "u": times.insert(1, pd.NaT).tz_convert(None)}
    )
    frame.to_csv("t.csv", index=False)
    frame.to_json("t.jsonl", orient="records", lines=True, date_format="iso")
    files = ["t.csv", "t.jsonl"]
    try:
        frame.to_parquet("t.parquet")
        files.append("t.parquet")
    except ImportError:
        pass
    for file in files:
        found = read_table(file).table
        assert np.array_equal(found["t"].values, found["u"].values, equal_nan=True)
        assert found["t"].unit == found["u"].unit == "dates"


def test_times_of_which_only_some_have_a_zone_are_an_error():
    cells = ["2026-01-01T08:30:00Z", "2026-01-01T08:30:00"]
    message = f"line 3, column 't': '{cells[1]}' has no time zone, but '{cells[0]}' has one; write"
    table = read_text("t,n\n" + "".join(f"{cell},1\n" for cell in cells))
    with pytest.raises(ValueError, match=re.escape(f"t.csv, {message}")):
        table["t"]
    table = read_text(as_lines(["2026-01-01T08:30:00Z", *cells]), "t.jsonl")
    with pytest.raises(ValueError, match=re.escape(f"t.jsonl, {message}")):
        table["t"]
    assert table.names == ("t",)  # a column that is not used does no harm
    assert isinstance(read_text(as_lines(cells), "t.jsonl", kinds={"t": "text"})["t"], Labels)


@pytest.mark.parametrize(
    ("cells", "odd"),
    [
        (["2026-01-01", "2026-02-30"], "2026-02-30"),
        (["2026-01-01 08:30", "2026-01-01 24:01", "2026-01-02"], "2026-01-01 24:01"),
        ([*(f"2026-01-{k:02}" for k in range(1, 20)), "soon"], "soon"),
        (["31.12.2026", "1.1.2027"], "1.1.2027"),
        (["12/31/2026", "2026-12-31"], "12/31/2026"),
    ],
)
def test_a_cell_that_makes_dates_text_gives_a_warning(cells, odd):
    for name, text, line in (
        ("t.csv", "t,n\n" + "".join(f"{cell},1\n" for cell in cells), 2),
        ("t.jsonl", as_lines(cells), 1),
    ):
        line += cells.index(odd)
        found = (
            f"{name}, line {line}: column 't' is text, because '{odd}' is not a date; write dates"
        )
        with pytest.warns(UserWarning, match=re.escape(found)):
            assert read_text(text, name)["t"].to_cells().tolist() == cells


def test_words_for_missing_cells_in_json_are_text():
    with pytest.warns(UserWarning, match=r"because 'NA' is not a date; .* \(null in JSON\)"):
        read_text(as_lines(["2026-01-01", "NA"]), "t.jsonl")["t"]
    assert isinstance(read_text(as_lines(["NA", ""]), "t.jsonl")["t"], Labels)


@pytest.fixture
def dates():
    """Fit a model to a column of dates on the command line."""
    days = np.datetime64("2026-01-01") + np.arange(60)
    write_table("days.csv", {"t": days.astype(str), "y": np.arange(60.0)})
    assert main(["fit", "days.csv", "--target", "y", "--iterations", "9", "-o", "m.json"]) == 0


@pytest.mark.parametrize("cell", ["2026-02-30", "20500", "soon", "true"])
def test_predict_expects_dates_where_the_fit_had_dates(dates, cell, capsys):
    Path("t.csv").write_text(f"t,n\nNA,1\n{cell},1\n")
    Path("t.jsonl").write_text(
        as_lines([None, "2026-01-01", int(cell) if cell.isdigit() else cell])
    )
    for file, where in (
        ("t.csv", "t.csv, line 3, column 't'"),
        ("t.jsonl", "t.jsonl, line 3, 't'"),
    ):
        assert main(["predict", "m.json", file]) == 1
        found = capsys.readouterr().err
        assert f"cwboost: {where}: expected a date such as 2026-11-15, got" in found
        assert cell in found


def test_predict_refuses_numbers_of_parquet_files_where_the_fit_had_dates(dates, capsys):
    pytest.importorskip("pyarrow")
    Path("folder").mkdir()
    for file in ("t.parquet", "folder/t.parquet"):
        write_table(file, {"t": np.array([20500.0, np.nan])})
    for words in (["t.parquet"], ["folder"], ["folder", "-o", "out"]):
        assert main(["predict", "m.json", *words]) == 1
        message = f"{words[0]}, column 't': expected dates as in the fit, got numbers; convert"
        assert message in capsys.readouterr().err
    assert not Path("out").exists()
    assert len(cb.load("m.json").predict({"t": [20500.0]})) == 1  # days, in Python


def test_predict_accepts_a_column_of_dates_that_is_missing(dates, capsys):
    Path("t.csv").write_text("t,n\n,1\nNA,1\n")
    assert main(["predict", "m.json", "t.csv"]) == 0


# --- other mistakes -------------------------------------------------------------------------------


def test_a_parquet_file_with_two_columns_of_one_name():
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table([[1], [2], [3]], names=["a", "b", "a"]), "t.parquet")
    with pytest.raises(ValueError, match=r"^t.parquet: column 'a' is in the file more than once"):
        read_table("t.parquet")


def test_a_thread_that_cannot_be_started_is_not_damage(monkeypatch):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    write_table("t.parquet", {"x": X, "z": X})
    data = cb.Dataset.from_parquet("t.parquet")

    def fail(*_, **__):
        raise pa.ArrowException("Failed to launch worker thread: Resource temporarily unavailable")

    monkeypatch.setattr(pq, "read_table", fail)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", fail)
    for call in (lambda: read_table("t.parquet"), lambda: data.table["x"]):
        with pytest.raises(OSError, match=r"^t.parquet: the system cannot .*temporarily unavail"):
            call()


@pytest.mark.parametrize("name", ["t.json", "t.jsonl", "t"])
@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_document_is_not_json_lines(name, indent):
    rows = [{"g": "a", "y": 1}, {"g": "b", "y": 2}]
    message = (
        f'{name}: expected one JSON object per line, such as {{"age": 30, "job": "cook"}}, got'
    )
    fail_text(json.dumps(rows, indent=indent), f"{message} a JSON array; pandas writes", name)
    if indent:
        fail_text(json.dumps(rows[0], indent=1), f"{message} one object on several lines", name)


def test_json_lines_in_a_file_with_the_ending_json():
    assert read_text('{"a": 1}\n', "t.json").names == ("a",)
    fail_text("a,b\n", "t.json, line 1: not JSON (", "t.json")
    fail_text('{"a": {"0": 1}}\n', "t.json, line 1, 'a': expected a number, text,", "t.json")


def test_a_model_is_not_a_table(model, capsys):
    model.save("m.json")
    assert main(["fit", "m.json", "--target", "y"]) == 1
    assert capsys.readouterr().err == "cwboost: m.json: this is a cwboost model; expected a table\n"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("x,wage", "did you mean 'wage'?"),
        ("x,WAGE,wages", "did you mean 'WAGE' or 'wages'?"),
        ("x, Wage", "did you mean ' Wage', with the blanks?"),
        ("x,y", "it has 'x', 'y'"),
        (",".join(f"c{k}" for k in range(20)) + ",wage", "did you mean 'wage'?"),
    ],
)
def test_an_unknown_column_gets_a_suggestion(header, message, capsys):
    Path("t.csv").write_text(header + "\n")
    assert main(["fit", "t.csv", "--target", "Wage"]) == 1
    expected = f"cwboost: column 'Wage' is not in the table; {message}\n"
    assert capsys.readouterr().err == expected


def test_rows_with_a_bad_target_or_exposure_are_named_by_line(capsys):
    lines = ["x,n,years,w", *("1,2,1,1" for _ in range(9)), "2,1,0,1", "", "3,,1,-1"]
    Path("t.csv").write_text("\n".join(lines))
    rows = [dict(zip("xnew", map(float, line.split(",")), strict=True)) for line in lines[1:11]]
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    fit = ["--loss", "poisson"]
    for words, message in (
        (["t.csv", "--target", "n"], "target 'n', row 10 (t.csv, line 13): the value is missing"),
        (
            ["t.csv", "--target", "x", "--exposure", "years", "--exclude", "n", *fit],
            "exposure, row 9 (t.csv, line 11): expected a number > 0, got 0",
        ),
        (
            ["t.csv", "--target", "x", "--weights", "w"],
            "weights, row 10 (t.csv, line 13): expected a number >= 0, got -1",
        ),
        (
            ["t.jsonl", "--target", "n", "--exposure", "e", *fit],
            "exposure, row 9 (t.jsonl, line 10): expected a number > 0, got 0",
        ),
    ):
        assert main(["fit", *words]) == 1
        assert message in capsys.readouterr().err
