"""Tests of the command line: what it reads, writes, prints and returns.

A fit from the command line equals the fit from Python, the same rows in any file format give the
same table, and a failure prints one sentence and leaves no file behind.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost import progress
from cwboost._utils.atomic_files import write_output
from cwboost.cli.main import main
from cwboost.explain.explanation import explain
from cwboost.export.model_file import to_dict
from cwboost.export.registry import EXPORTS, Export, export
from cwboost.frames.columns import Labels, Numbers
from cwboost.frames.files import read_table, write_table
from cwboost.progress import factory

AGE, JOB, ODD = "age", 'job, "odd"\tname', "élan; vital"


def make_rows(n=1200, seed=0):
    """Return a table with missing cells, names that need quoting, and targets of every kind."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(18, 90, n).round(2)
    job = rng.choice(np.array(["cook", "pilot, 1st", 'a "quoted"\nline'], dtype=object), n)
    score = np.sin(age / 10) + (job == "cook") + rng.normal(0, 0.3, n)
    odd = rng.normal(size=n).round(3)
    years = rng.uniform(0.1, 2, n).round(3)
    age_cells = [None if k % 17 == 0 else v for k, v in enumerate(age.tolist())]
    return {
        "id": [f"{k:05d}" for k in range(n)],
        AGE: age_cells,
        JOB: [None if k % 23 == 0 else v for k, v in enumerate(job.tolist())],
        ODD: odd.tolist(),
        "member": (rng.uniform(size=n) < 0.5).tolist(),
        "day": [f"2026-{1 + k % 12:02d}-{1 + k % 28:02d}" for k in range(n)],
        "years": years.tolist(),
        "w": rng.integers(0, 3, n).tolist(),
        "held": (rng.uniform(size=n) < 0.25).tolist(),
        "y": score.round(4).tolist(),
        "answer": np.where(score > 0.5, "yes", "no").tolist(),
        "grade": np.where(score > 1, "high", np.where(score > 0, "mid", "low")).tolist(),
        "count": rng.poisson(years * np.exp(0.4 * score)).tolist(),
        "flag": (score > 0.3).tolist(),
        "zero_one": (score > 0.3).astype(int).tolist(),
    }


ROWS = make_rows()
TARGETS = ["y", "answer", "grade", "count", "flag", "zero_one"]
ROLES = ["id", "w", "held"]


def write_csv(path, rows, delimiter=",", bom=False):
    with path.open("w", encoding="utf-8-sig" if bom else "utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    return str(path)


def as_python(rows):
    """Return the rows as a Python user would hold them."""
    out = dict(rows)
    out["day"] = np.array(rows["day"], dtype="M8[D]")
    return out


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path / "rows.csv", ROWS)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def others(*keep):
    """Return --exclude with the names of all columns that are not features, except `keep`."""
    names = [name for name in (*TARGETS, *ROLES, "years") if name not in keep]
    return ["--exclude", *names]


def fitted(*arguments, output="m.json"):
    assert main(["fit", *arguments, "-o", output]) == 0
    return json.loads(Path(output).read_text())


def plain(model):
    return json.loads(json.dumps(to_dict(model)))


# --- fit ------------------------------------------------------------------------------------------

FEATURES = [AGE, JOB, ODD, "member", "day"]
SHORT = ["--iterations", "60"]


@pytest.mark.parametrize(
    ("target", "options", "kind", "settings"),
    [
        ("y", [], cb.CWBRegressor, {}),
        ("y", ["--loss", "quantile:0.9"], cb.CWBRegressor, {"loss": cb.Quantile(0.9)}),
        ("answer", [], cb.CWBClassifier, {}),
        ("grade", [], cb.CWBClassifier, {}),
        ("flag", [], cb.CWBClassifier, {}),
        ("zero_one", ["--loss", "binomial"], cb.CWBClassifier, {}),
        ("zero_one", [], cb.CWBRegressor, {}),
        ("count", ["--loss", "poisson"], cb.CWBRegressor, {"loss": "poisson"}),
        ("y", ["--terms", "components"], cb.CWBRegressor, {"terms": "components"}),
        ("y", ["--validation", "none"], cb.CWBRegressor, {"validation": None}),
        ("y", ["--validation", "0.4", "--seed", "3"], cb.CWBRegressor,
         {"validation": 0.4, "random_state": 3}),
        ("y", ["--validation", "last"], cb.CWBRegressor, {"validation": "last"}),
        ("y", ["--optimizer", "accelerated"], cb.CWBRegressor, {"optimizer": "accelerated"}),
        ("y", ["--optimizer", "plain", "--rate", "0.05"], cb.CWBRegressor,
         {"optimizer": cb.Plain(0.05)}),
        ("y", ["--rate", "0.05", "--validation", "none"], cb.CWBRegressor,
         {"optimizer": cb.Plain(0.05), "validation": None}),
        ("y", ["--threads", "2"], cb.CWBRegressor, {"n_jobs": 2}),
    ],
)  # fmt: skip
def test_fit_equals_the_estimator_fit(table, target, options, kind, settings):
    found = fitted(table, "--target", target, *options, *SHORT, *others(target))
    rows = as_python(ROWS)
    y = np.array(rows[target], dtype=object if isinstance(rows[target][0], str) else None)
    estimator = kind(n_iter=60, **settings).fit({name: rows[name] for name in FEATURES}, y)
    model = estimator.model_
    expected = replace(model, settings=replace(model.settings, target=target))
    assert found == plain(expected)


def test_defaults_equal_the_estimator_defaults(table):
    found = fitted(table, "--target", "y", *others("y"))
    rows = as_python(ROWS)
    model = cb.CWBRegressor().fit({name: rows[name] for name in FEATURES}, rows["y"]).model_
    assert found["optimizer"] == plain(model)["optimizer"]
    assert found["path"] == plain(model)["path"]


def test_fit_equals_cb_fit(table):
    """The model stores the column names, so it can be extended with a table that has them."""
    found = fitted(
        table, "--target", "count", "--loss", "poisson", "--exposure", "years", "--weights", "w",
        "--validation", "held", "--optimizer", "plain", *SHORT,
        *others("count", "years", "w", "held"),
    )  # fmt: skip
    rows = as_python(ROWS)
    names = [*FEATURES, "years", "w", "held", "count"]
    model = cb.fit(
        {name: rows[name] for name in names}, "count", "auto", "poisson", cb.Plain(), 60,
        weights="w", exposure="years", validation="held", polish="auto",
    )  # fmt: skip
    assert found == plain(model)
    more = cb.load("m.json").extend(5, rows)
    assert more.n_iter == model.n_iter + 5


def test_rate_of_the_default_optimizer(table):
    found = fitted(table, "--target", "y", "--rate", "0.02", *SHORT, *others("y"))
    default = fitted(table, "--target", "y", *SHORT, *others("y"))
    assert found["optimizer"] == default["optimizer"] | {"rate": 0.02}


@pytest.mark.parametrize("several", [["--bags", "2"], ["--interactions", f"{AGE}:{ODD}"]])
def test_rate_of_a_classifier_with_bags_or_interactions(table, several):
    options = ["--target", "answer", *several, *SHORT, *others("answer")]
    default, found = fitted(table, *options), fitted(table, "--rate", "0.5", *options)
    assert found["optimizer"] == default["optimizer"] | {"rate": 0.5}


def test_formula(table):
    formula = f"y ~ s(age, df=4) + `{JOB}` + te(age, `{ODD}`, df=8)"
    found = fitted(table, "--formula", formula, "--validation", "none", *SHORT)
    rows = as_python(ROWS)
    model = cb.fit(rows, formula, n_iter=60, polish="auto")
    assert found == plain(model)
    boosted = fitted(
        table, "--formula", formula, "--validation", "none", "--polish", "none", *SHORT
    )
    assert boosted == plain(cb.fit(rows, formula, n_iter=60))


def test_a_formula_leaves_out_excluded_columns(table, capsys):
    found = fitted(table, "--formula", "y ~ .", *SHORT, *others("y"))
    assert sorted(found["columns"]) == sorted(FEATURES)
    assert main(["fit", table, "--formula", "y ~ s(nothing)"]) == 1
    assert "formula, character 7" in capsys.readouterr().err


def test_offset_column(table):
    found = fitted(table, "--target", "y", "--offset", ODD, *SHORT, *others("y"))
    assert found["settings"]["offset"] == ODD
    assert ODD not in found["columns"]


def test_time_limit(table):
    found = fitted(
        table, "--target", "y", "--time-limit", "0.05", "--iterations", "1000000",
        "--validation", "none", *others("y"),
    )  # fmt: skip
    assert found["path"]["stopped"] in ("time limit", "nothing left to gain")


def test_without_output_the_summary_is_printed(table, capsys, folder):
    assert main(["fit", table, "--target", "answer", *SHORT, *others("answer")]) == 0
    found = capsys.readouterr()
    assert found.out.startswith("predicts answer: no, yes\nBinomial() loss")
    assert found.err == ""
    assert [path.name for path in folder.iterdir()] == ["rows.csv"]


def test_model_to_standard_output(table, capsysbinary):
    assert main(["fit", table, "--target", "y", *SHORT, *others("y"), "-o", "-"]) == 0
    assert json.loads(capsysbinary.readouterr().out)["format"] == "cwboost model"


def test_fit_prints_nothing_without_a_terminal(table, capsys):
    fitted(table, "--target", "y", *SHORT, *others("y"))
    assert capsys.readouterr() == ("", "")


# --- formats --------------------------------------------------------------------------------------


def write_as(form, folder, rows):
    path = folder / f"rows.{form}"
    if form == "jsonl":
        lines = [dict(zip(rows, cells, strict=True)) for cells in zip(*rows.values(), strict=True)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif form == "parquet":
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        days = pa.array(np.array(rows["day"], dtype="M8[D]"))
        columns = {k: days if k == "day" else pa.array(v) for k, v in rows.items()}
        columns[JOB] = columns[JOB].dictionary_encode()
        pq.write_table(pa.table(columns), path)
    elif form == "csv.gz":
        plain_file = write_csv(folder / "plain.csv", rows)
        path.write_bytes(gzip.compress(Path(plain_file).read_bytes()))
    elif form == "tsv":
        write_csv(path, rows, "\t")
    else:
        write_csv(path, rows, ";", bom=True)
    return str(path)


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv.gz", "tsv", "semicolons"])
def test_the_same_rows_in_any_format_give_the_same_model(table, form, folder):
    arguments = ["--target", "flag", *SHORT, *others("flag")]
    assert fitted(write_as(form, folder, ROWS), *arguments) == fitted(table, *arguments)


def read_text(text, folder, name="t.csv", **options):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(name, **options).table


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["1", "2.5", "-3e2"], [1.0, 2.5, -300.0]),
        (["1", "", "3"], [1.0, None, 3.0]),
        (["1", "NA", "nan"], [1.0, None, None]),
        (["1", "NA", "x"], ["1", "NA", "x"]),
        (["", "a", "b"], [None, "a", "b"]),
        (["true", "FALSE", ""], [1.0, 0.0, None]),
        (["2026-01-02", "", "1970-01-01"], [20455.0, None, 0.0]),
        (["1970-01-01 12:00", "1970-01-02T00:00:00", "NA"], [0.5, 1.0, None]),
        (["1970-01-01T02:00:00Z", "1970-01-02 00:00+02:00"], [1 / 12, 11 / 12]),
        (["1_000", "2", "3"], ["1_000", "2", "3"]),
        (["", "", ""], [None, None, None]),
        ([" 1", "2 ", "3"], [1.0, 2.0, 3.0]),
    ],
)
def test_types_of_csv_columns(cells, expected, folder):
    text = "x,other\n" + "".join(f"{cell},0\n" for cell in cells)
    column = read_text(text, folder)["x"]
    if isinstance(column, Labels):
        assert column.to_cells().tolist() == expected
    else:
        assert [None if v != v else v for v in column.values.tolist()] == expected


def test_csv_is_read_with_quotes_newlines_and_blank_lines(folder):
    found = read_text('\n"a,b",c\r\n"x\ny",1\r\n\r\n"say ""hi""",2\r\n', folder)
    assert found.names == ("a,b", "c")
    assert found["a,b"].to_cells().tolist() == ["x\ny", 'say "hi"']


def test_csv_lines_may_end_in_a_carriage_return(folder):
    found = read_text("a;b\r1;x\r2;y\r", folder)
    assert found["a"].values.tolist() == [1.0, 2.0]
    assert found["b"].to_cells().tolist() == ["x", "y"]


def test_the_first_line_may_state_the_delimiter(folder):
    found = read_text("sep=|\r\na|b\r\n1|2;3\r\n", folder)
    assert found.names == ("a", "b")
    assert found["b"].to_cells().tolist() == ["2;3"]


@pytest.mark.parametrize(
    ("cells", "example"),
    [
        (["1,25", "2", "NA"], "1,25"), (["12%", "7%"], "12%"), (["$1,000.50", "$3"], "$1,000.50"),
        (["1\u202f000", "20"], "1\u202f000"), (["\u22125", "3"], "\u22125"),
        ([*map(str, range(9)), "n.a.", "0"], "n.a."),
    ],
)  # fmt: skip
def test_numbers_of_spreadsheets_are_text_with_a_warning(cells, example, folder):
    text = "\n".join(["a;b", *(f"{cell};1" for cell in cells)])
    line = 2 + cells.index(example)
    found = re.escape(
        f"t.csv, line {line}: column 'a' is text, because {example!r} is not a number;"
    )
    with pytest.warns(UserWarning, match=found):
        assert read_text(text, folder)["a"].to_cells().tolist() == cells
    assert read_text(text, folder, kinds={"a": "text"})["a"]  # without a warning


@pytest.mark.parametrize("cells", [["a,b", "1"], ["12 Main", "%"], ["2020-13", "1"], ["$", "%"]])
def test_other_text_is_text_without_a_warning(cells, folder):
    text = "\n".join(["a;b", *(f"{cell};1" for cell in cells)])
    assert read_text(text, folder)["a"].to_cells().tolist() == cells


def test_a_target_of_numbers_as_spreadsheets_write_them(folder, capsys):
    Path("t.csv").write_text("x;y\n1;2,5\n2;3,5\n3;1\n")
    words = ["fit", "t.csv", "--target", "y", "-o", "m.json"]
    assert main(words) == 1
    message = capsys.readouterr().err
    assert "cwboost: target 'y' is text, because '2,5' is not a number; write numbers as" in message
    assert main([*words, "--loss", "multinomial"]) == 0


def test_the_header_of_a_wide_csv_file_is_read_in_linear_time(folder):
    began = time.process_time()
    found = read_text(",".join(f"c{k}" for k in range(40_000)) + "\n", folder)
    assert len(found.names) == 40_000
    assert time.process_time() - began < 5  # comparing every name with all others took 17 seconds


def test_integers_that_floats_cannot_represent_are_marked(folder):
    column = read_text(f"x\n{2**53}\n{2**53 + 1}\n", folder)["x"]
    assert isinstance(column, Numbers)
    assert not column.exact


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "t.csv: the file is empty"),
        ("a,b\n1,2\n3\n", "t.csv, line 3: expected 2 cells as in the header, got 1"),
        ("a,a\n1,2\n", "t.csv, line 1: column 'a' occurs more than once"),
        (b"a,b\n1,\xff\n", "t.csv, line 2: not UTF-8"),
        (b"a,b\r1,2\r\xff,3\r", "t.csv, line 3: not UTF-8"),
        ('a,b\n"x\ny",2\n5,6,7\n', "t.csv, line 4: expected 2 cells"),
        ("a\n" + "x" * 200_000, "t.csv, line 2: the row that begins here has a cell of"),
    ],
)
def test_errors_in_csv_files_name_the_line(text, message, folder):
    with pytest.raises(ValueError, match="^" + message.replace("(", r"\(")):
        read_text(text, folder)


def test_errors_name_the_cell_that_is_not_a_number(folder):
    found = read_text('x,y\n"1\n",2\n3,oops\n', folder, kinds={"y": "numbers"})
    with pytest.raises(
        ValueError, match=r"^t.csv, line 4, column 'y': expected a number, got 'oops'"
    ):
        found["y"]
    with pytest.raises(ValueError, match=r"^t.csv, line 3, column 'x': expected a finite number"):
        read_text("x\n1\ninf\n", folder)["x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "t.jsonl: the file is empty"),
        ('{"a": 1}\n[1]\n', "t.jsonl, line 2: expected one JSON object per line"),
        ('{"a": 1}\n\n{"a": \n', "t.jsonl, line 3: not JSON"),
        ('{"a": [1]}\n', "t.jsonl, line 1, 'a': expected a number, text"),
    ],
)
def test_errors_in_json_lines_name_the_line(text, message, folder):
    with pytest.raises(ValueError, match=message):
        read_text(text, folder, "t.jsonl")


def test_json_lines_with_missing_keys_and_mixed_cells(folder):
    found = read_text(
        '{"a": 1, "b": "x"}\n{"a": null}\n{"b": "NA", "c": true}\n', folder, "t.jsonl"
    )
    assert found.names == ("a", "b", "c")
    assert found["a"].missing.tolist() == [False, True, True]
    assert found["b"].to_cells().tolist() == ["x", None, "NA"]
    assert found["c"].boolean
    mixed = read_text('{"a": 1}\n{"a": "x"}\n', folder, "t.jsonl")
    with pytest.raises(ValueError, match=r"^t.jsonl: column 'a': expected numbers or text"):
        mixed["a"]
    known = read_text('{"a": 1}\n{"a": "x"}\n', folder, "t.jsonl", kinds={"a": "numbers"})
    with pytest.raises(ValueError, match=r"^t.jsonl, line 2, 'a': expected a number, got 'x'"):
        known["a"]


def test_standard_input_is_recognised_by_its_content(monkeypatch):
    for text, names in ((b'\xef\xbb\xbf{"a": 1}\n', ("a",)), (b"a;b\n1;2\n", ("a", "b"))):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert read_table("-").table.names == names


def test_damaged_parquet(folder, capsys):
    pytest.importorskip("pyarrow")
    (folder / "t.parquet").write_bytes(b"PAR1 and then nothing")
    assert main(["fit", "t.parquet", "--target", "y"]) == 1
    assert capsys.readouterr().err.startswith(
        "cwboost: t.parquet: not a Parquet file, or damaged ("
    )


def test_parquet_without_pyarrow(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (folder / "t.parquet").write_bytes(b"PAR1")
    assert main(["fit", "t.parquet", "--target", "y"]) == 1
    assert "pip install 'cwboost[parquet]'" in capsys.readouterr().err


# --- predict --------------------------------------------------------------------------------------


@pytest.fixture
def model(table):
    fitted(table, "--target", "y", *SHORT, *others("y"))
    return cb.load("m.json")


def test_predict(table, model, capsys):
    assert main(["predict", "m.json", table, "--keep", "id", JOB]) == 0
    lines = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))
    assert lines[0] == ["id", JOB, "prediction"]
    assert [line[0] for line in lines[1:]] == ROWS["id"]  # leading zeros stay
    assert [line[1] or None for line in lines[1:]] == ROWS[JOB]
    found = np.array([float(line[2]) for line in lines[1:]])
    assert np.array_equal(found, model.predict(as_python(ROWS)))


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
def test_predictions_in_any_format(model, form, source, folder):
    if "parquet" in (form, source):
        pytest.importorskip("pyarrow")
    source_file = write_as(source, folder, ROWS) if source != "csv" else "rows.csv"
    keep = ["id", "member", AGE, "count", "day"]
    assert main(["predict", "m.json", source_file, "--keep", *keep, "-o", f"p.{form}"]) == 0
    found = read_table(f"p.{form}", {"id": "text"}).table
    assert found.names == (*keep, "prediction")
    assert np.array_equal(found["prediction"].values, model.predict(as_python(ROWS)))
    assert found["id"].to_cells().tolist() == ROWS["id"]
    assert found["member"].boolean
    assert [None if v != v else v for v in found[AGE].values.tolist()] == ROWS[AGE]


def test_after_an_error_other_libraries_do_not_clean_up():
    """With too little memory their destructors crash. Exit handlers of Python run."""
    script = (
        "import atexit; from cwboost.cli import entry, main; main.main = lambda: 1; "
        "atexit.register(print, 'cleaned', flush=True); entry.run(); print('not reached')"
    )
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (1, "cleaned\n", "")


def test_libraries_that_cannot_be_loaded():
    script = "import sys; sys.modules['scipy'] = None; from cwboost.cli.entry import run; run()"
    call = [sys.executable, "-c", script]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert re.fullmatch(
        r"cwboost: a library cannot be loaded \(.*scipy.*\); check .*\n", done.stderr
    )


def test_kept_integers_stay_exact(folder):
    write_csv(
        folder / "t.csv", {"g": ["a", "b"] * 9, "y": [0, 1] * 9, "key": range(2**60, 2**60 + 18)}
    )
    fitted("t.csv", "--target", "y", "--exclude", "key")
    assert main(["predict", "m.json", "t.csv", "--keep", "key", "-o", "p.jsonl"]) == 0
    lines = Path("p.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == list(range(2**60, 2**60 + 18))


def test_kept_cells_beyond_numbers(folder, capsys):
    keys = [1, 2**70] * 9
    strange = ["1e999", "inf", "9" * 5000] * 6
    write_csv(folder / "t.csv", {"x": range(18), "y": [0, 1] * 9, "key": keys, "s": strange})
    fitted("t.csv", "--target", "y", "--exclude", "key", "s")
    assert main(["predict", "m.json", "t.csv", "--keep", "key", "s", "-o", "p.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("p.jsonl").read_text().splitlines()]
    assert [line["key"] for line in lines] == keys
    assert [line["s"] for line in lines] == strange
    assert main(["predict", "m.json", "t.csv", "--keep", "s", "-o", "p.parquet"]) == 0
    capsys.readouterr()
    assert main(["predict", "m.json", "t.csv", "--keep", "key", "-o", "q.parquet"]) == 1
    assert "column 'key': its cells cannot be written as Parquet" in capsys.readouterr().err
    assert not Path("q.parquet").exists()


@pytest.mark.parametrize("target", ["answer", "grade", "flag"])
def test_predictions_of_classes(table, target):
    fitted(table, "--target", target, *SHORT, *others(target))
    model, rows = cb.load("m.json"), as_python(ROWS)
    assert main(["predict", "m.json", table, "-o", "p.csv"]) == 0
    found = read_table("p.csv").table
    assert found.names == ("prediction", *(f"probability[{c}]" for c in model.classes))
    shares = np.column_stack([found[name].values for name in found.names[1:]])
    assert np.allclose(shares.sum(axis=1), 1.0)
    response = model.predict(rows)
    assert np.array_equal(shares if shares.shape[1] > 2 else shares[:, 1], response)
    best = [str(model.classes[k]) for k in shares.argmax(axis=1)]
    assert found["prediction"].labels().to_cells().tolist() == best
    assert main(["predict", "m.json", table, "--kind", "score", "-o", "s.csv"]) == 0
    scores = read_table("s.csv").table
    score = model.predict(rows, kind="score")
    assert np.array_equal(
        np.column_stack([scores[n].values for n in scores.names]).squeeze(), score
    )


def test_predict_with_exposure(table, capsys):
    fitted(table, "--target", "count", "--loss", "poisson", "--exposure", "years", *SHORT,
           *others("count", "years"))  # fmt: skip
    assert main(["predict", "m.json", table, "-o", "p.csv"]) == 0
    found = read_table("p.csv").table["prediction"].values
    model = cb.load("m.json")
    assert np.array_equal(found, model.predict(as_python(ROWS)))
    write_csv(Path("less.csv"), {k: v for k, v in ROWS.items() if k != "years"})
    assert main(["predict", "m.json", "less.csv"]) == 1
    assert "column 'years' is not in the table" in capsys.readouterr().err


def test_model_fitted_with_an_array_of_exposures(table, capsys):
    rows = as_python(ROWS)
    model = cb.fit(
        {AGE: rows[AGE]}, rows["count"], loss="poisson", exposure=np.array(rows["years"])
    )
    model.save("m.json")
    assert main(["predict", "m.json", table]) == 1
    assert "fitted with an offset" in capsys.readouterr().err
    assert main(["predict", "m.json", table, "--exposure", "years", "-o", "p.csv"]) == 0
    expected = model.predict(rows, exposure="years")
    assert np.array_equal(read_table("p.csv").table["prediction"].values, expected)
    assert main(["explain", "m.json", table, "--exposure", "years"]) == 0
    assert "(offset)" in capsys.readouterr().out


def test_codes_that_look_like_numbers_match_the_levels_of_the_model(folder, capsys):
    write_csv(folder / "t.csv", {"code": ["007", "x", "1e3"] * 9, "y": [0, 1, 5] * 9})
    fitted("t.csv", "--target", "y")
    write_csv(folder / "new.csv", {"code": ["007", "1e3"]})
    assert main(["predict", "m.json", "new.csv"]) == 0
    found = capsys.readouterr()
    assert found.err == ""  # no level is unknown
    expected = cb.load("m.json").predict({"code": ["007", "1e3"]})
    assert [float(line) for line in found.out.split()[1:]] == expected.tolist()


def test_unseen_levels_give_a_one_line_warning(model, folder, capsys):
    write_csv(
        folder / "new.csv", {k: [*v[:3], "dancer"] if k == JOB else v[:4] for k, v in ROWS.items()}
    )
    assert main(["predict", "m.json", "new.csv", "-o", "p.csv"]) == 0
    found = capsys.readouterr().err
    assert found.startswith("cwboost: warning: levels never seen in training")
    assert found.count("\n") == 1


def test_numbers_far_beyond_the_range_give_a_one_line_warning(model, folder, capsys):
    numbers = {k for k, v in ROWS.items() if isinstance(v[0], float)}
    far = {k: [*v[:3], 1e6] if k in numbers else v[:4] for k, v in ROWS.items()}
    write_csv(folder / "new.csv", far)
    assert main(["predict", "m.json", "new.csv", "-o", "p.csv"]) == 0
    found = capsys.readouterr().err
    assert found.startswith("cwboost: warning: numbers beyond the range of the training rows")
    assert "(1 row)" in found
    assert found.count("\n") == 1


def test_predict_a_table_without_rows(model, folder, capsys):
    (folder / "none.csv").write_text(Path("rows.csv").read_text().splitlines()[0] + "\n")
    assert main(["predict", "m.json", "none.csv"]) == 0
    assert capsys.readouterr().out == "prediction\n"


def test_kept_column_with_the_name_of_the_prediction(model, folder, capsys):
    write_csv(folder / "t.csv", ROWS | {"prediction": ROWS["y"]})
    assert main(["predict", "m.json", "t.csv", "--keep", "prediction"]) == 1
    assert "rename" in capsys.readouterr().err


# --- explain, show, export ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["y", "grade"])
def test_explain_sums_to_the_score(table, target):
    fitted(table, "--target", target, *SHORT, *others(target))
    model, rows = cb.load("m.json"), as_python(ROWS)
    for row in (0, 17, 23):
        found = explain(model, rows, row)
        names = found["column"].tolist()
        for key, score in zip(
            list(found)[2:], np.atleast_1d(model.predict(rows, kind="score")[row]), strict=True
        ):
            effects = found[key]
            assert np.isclose(effects[:-1].sum(), score)
            assert effects[-1] == score
        sizes = np.max([np.abs(found[k][: names.index("(intercept)")]) for k in list(found)[2:]], 0)
        assert np.all(np.diff(sizes) <= 0)
    assert "(missing)" in explain(model, rows, 17)["value"].tolist()


def test_explain_prints_a_table(table, model, capsys):
    assert main(["explain", "m.json", table, "--row", "3"]) == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == f"row 3 of {table}"
    assert lines[2].split() == ["column", "value", "effect"]
    assert any(line.startswith(AGE) and str(ROWS[AGE][3]) in line for line in lines)
    shown = 'a "quoted"\\nline' if ROWS[JOB][3].startswith("a") else ROWS[JOB][3]
    assert any(shown in line for line in lines)
    expected = model.predict(as_python(ROWS))[3]
    assert lines[-2] == f"prediction: {expected:.5g}"
    assert main(["explain", "m.json", table, "--row", "3", "-o", "why.csv"]) == 0
    assert read_table("why.csv").table.names == ("column", "value", "effect")


def test_explain_a_row_beyond_the_table(table, model, capsys):
    assert main(["explain", "m.json", table, "--row", "5000"]) == 1
    assert capsys.readouterr().err == "cwboost: row 5000: the table has 1200 rows, 0 to 1199\n"


@pytest.mark.parametrize("row", [1.5, "1", True])
def test_explain_needs_a_whole_number(row):
    table = {"g": ["a", "b"] * 9}
    model = cb.fit(table, [0.0, 1.0] * 9)
    with pytest.raises(TypeError, match="row: expected a whole number"):
        explain(model, table, row)


def test_show(model, capsys):
    assert main(["show", "m.json"]) == 0
    found = capsys.readouterr().out
    assert found.startswith("predicts y\nSquared() loss")
    assert "terms chosen" in found
    assert "▁" in found


@pytest.mark.parametrize("term", [AGE, JOB, "day"])
def test_show_term(model, term, capsys):
    assert main(["show", "m.json", "--term", term]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("effect")
    assert 3 <= len(lines) <= 45
    rows = {line.rsplit(maxsplit=1)[0].strip() for line in lines[1:]}
    assert len(rows) == len(lines) - 1
    if term == AGE:
        assert "40" in rows
        assert "(missing)" in rows
    assert main(["show", "m.json", "--term", term, "-o", "e.csv"]) == 0
    effect = model.effect(term)["effect"]
    assert np.array_equal(read_table("e.csv").table["effect"].values, effect)


def test_show_unknown_term(model, capsys):
    assert main(["show", "m.json", "--term", "nothing"]) == 1
    assert "no term or column 'nothing'" in capsys.readouterr().err


def test_names_cannot_move_the_cursor(folder, capsys):
    rows = {"\x1b[2J\nevil": ["\x1b[31mred", "b\rc"] * 9, "y": [0, 1] * 9}
    write_csv(folder / "t.csv", rows)
    fitted("t.csv", "--target", "y")
    assert main(["show", "m.json"]) == 0
    assert main(["show", "m.json", "--term", "\x1b[2J\nevil"]) == 0
    assert main(["explain", "m.json", "t.csv"]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize("ending", [".sql", ".onnx", ".xlsx", ".json"])
def test_an_export_that_fails_leaves_no_file(folder, ending):
    table = {"g": ["a", "b"] * 9}
    model = cb.fit(table, [0.0, 1.0] * 9)
    with pytest.raises(FileNotFoundError, match="this folder does not exist; create it first"):
        export(model, folder / "none" / f"model{ending}")
    assert list(folder.iterdir()) == []


def test_export(model, folder):
    assert main(["export", "m.json", "--to", "m.sql", "--dialect", "sqlite", "--table", "t"]) == 0
    assert Path("m.sql").read_text() == model.to_sql(dialect="sqlite", table="t").rstrip() + "\n"
    assert main(["export", "m.json", "--to", "tables/"]) == 0
    assert (folder / "tables" / "terms.csv").exists()
    assert main(["export", "m.json", "--to", "again.json"]) == 0
    assert Path("again.json").read_text() == Path("m.json").read_text()


def test_export_sql_runs(model, capsys, folder):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    capsys.readouterr()
    assert main(["export", "m.json", "--to", "-", "--table", "t", "--keep", "id"]) == 0
    query = capsys.readouterr().out
    write_as("parquet", folder, ROWS)
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT * REPLACE (date_diff('day', DATE '1970-01-01', day) AS day) "
            "FROM 'rows.parquet'"
        )
        found = connection.execute(query).fetchnumpy()
    assert np.allclose(found["response"], model.predict(as_python(ROWS)))


def test_export_onnx_and_excel(model):
    onnx = pytest.importorskip("onnx")
    assert main(["export", "m.json", "--to", "m.onnx", "--kind", "score"]) == 0
    assert [o.name for o in onnx.load("m.onnx").graph.output] == ["score"]
    openpyxl = pytest.importorskip("openpyxl")
    assert main(["export", "m.json", "--to", "m.xlsx"]) == 0
    assert openpyxl.load_workbook("m.xlsx").sheetnames[0] == "model"


def test_export_to_a_user_defined_format(model, folder, monkeypatch, capsys):
    """An entry in the registry is enough for the command line."""

    def write(model, file, kind="response"):
        Path(file).write_text(f"{kind} of {len(model.terms)} terms")

    monkeypatch.setitem(EXPORTS, "words", Export(".txt", write, ("kind",)))
    assert main(["export", "m.json", "--to", "m.txt", "--kind", "score"]) == 0
    assert (folder / "m.txt").read_text().startswith("score of")
    with pytest.raises(SystemExit):
        main(["export", "m.json", "--to", "m.json2", "--dialect", "sqlite"])
    assert ".sql, .onnx, .xlsx, .json, a folder or .txt" in capsys.readouterr().err


def test_export_to_a_folder_with_other_files(model, folder, capsys):
    (folder / "full").mkdir()
    (folder / "full" / "file").write_text("")
    assert main(["export", "m.json", "--to", "full"]) == 1
    assert "a folder with other files exists already" in capsys.readouterr().err


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "nothing.csv", "--target", "y"], "nothing.csv: No such file or directory"),
        (["fit", "rows.csv", "--target", "nothing"], "column 'nothing' is not in the table"),
        (["fit", "rows.csv", "--target", "y", "--weights", "q"], "column 'q' is not in the table"),
        (["fit", "rows.csv", "--target", "y", "--exclude", "q"], "column 'q' is not in the table"),
        (["fit", "rows.csv", "--target", "y", "--validation", "q"], "column 'q' is not in the"),
        (["fit", "rows.csv", "--target", "y", "--weights", JOB], "rows.csv, line 3, column"),
        (
            ["fit", "rows.csv", "--target", AGE],
            "row 0 (rows.csv, line 2): the value is missing",
        ),
        (["fit", "rows.csv", "--target", "answer", "--loss", "squared"], "is text such as 'no'"),
        (["fit", "rows.csv", "--target", "grade", "--loss", "binomial"], "two classes"),
        (["fit", "rows.csv", "--target", "answer", "--exposure", "years"], "log link"),
        (["fit", "rows.csv", "--target", "y", "--exposure", "years"], "no log link"),
        (
            ["fit", "rows.csv", "--target", "y", "-o", "no/folder/m.json"],
            "this folder does not exist",
        ),
        (["fit", "rows.csv", "--target", "y", "-o", "."], "this is a folder"),
        (["predict", "rows.csv", "rows.csv"], "rows.csv is not a model file; give the model first"),
        (["predict", "m.json", "rows.csv", "-o", "p.xyz"], "p.xyz: expected a name ending in"),
        (["predict", "m.json", "rows.csv", "--keep", "q"], "column 'q' is not in the table"),
        (["show", "nothing.json"], "nothing.json: No such file or directory"),
    ],
)
def test_bad_input_gives_a_one_line_error(model, arguments, message, capsys, folder):
    before = sorted(path.name for path in folder.iterdir())
    if arguments[0] == "fit" and "-o" not in arguments:
        arguments = [*arguments, "-o", "new.json"]
    assert main(arguments) == 1
    found = capsys.readouterr()
    assert found.out == ""
    messages = [
        line for line in found.err.splitlines() if not line.startswith("cwboost: warning: ")
    ]
    assert len(messages) == 1
    assert messages[0].startswith("cwboost: ")
    assert message in messages[0]
    assert sorted(path.name for path in folder.iterdir()) == before


def test_binomial_needs_two_classes(table, capsys):
    assert main(["fit", table, "--target", "count", "--loss", "binomial", "-o", "m.json"]) == 1
    assert "two classes" in capsys.readouterr().err


def test_column_without_a_name(folder, capsys):
    write_csv(folder / "t.csv", {"": range(20), "g": ["a", "b"] * 10, "y": [0, 1] * 10})
    assert main(["fit", "t.csv", "--target", "y"]) == 1
    assert "--exclude ''" in capsys.readouterr().err
    assert main(["fit", "t.csv", "--target", "y", "--exclude", ""]) == 0


def test_a_failure_leaves_the_old_file(model, monkeypatch, folder):
    old, names = Path("m.json").read_text(), sorted(p.name for p in folder.iterdir())

    def broken(self, file):
        Path(file).write_text("half")
        raise ValueError("the disk is full")

    monkeypatch.setattr(cb.Model, "save", broken)
    assert main(["fit", "rows.csv", "--target", "y", *SHORT, "-o", "m.json"]) == 1
    assert Path("m.json").read_text() == old
    assert sorted(p.name for p in folder.iterdir()) == names


def test_devices_and_symbolic_links_are_not_replaced(model, folder):
    if not Path("/dev/null").exists():
        pytest.skip("no /dev/null")
    with write_output("/dev/null") as temporary:
        temporary.write_text("text")
    assert not Path("/dev/null").is_file()
    (folder / "link.csv").symlink_to(folder / "real.csv")
    write_table("link.csv", {"x": [1]})
    assert (folder / "link.csv").is_symlink()
    assert (folder / "real.csv").read_text() == "x\n1\n"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nothing"],
        ["fit"],
        ["fit", "t.csv"],
        ["fit", "t.csv", "--target", "y", "--loss", "nothing"],
        ["fit", "t.csv", "--target", "y", "--loss", "poisson:2"],
        ["fit", "t.csv", "--target", "y", "--loss", "quantile:2"],
        ["fit", "t.csv", "--target", "y", "--terms", "nothing"],
        ["fit", "t.csv", "--target", "y", "--rate", "0"],
        ["fit", "t.csv", "--target", "y", "--rate", "nan"],
        ["fit", "t.csv", "--target", "y", "--threads", "0"],
        ["fit", "t.csv", "--target", "y", "--threads", "1025"],
        ["fit", "t.csv", "--target", "y", "--validation", "1.5"],
        ["fit", "t.csv", "--target", "y", "--validation", "nan"],
        ["fit", "t.csv", "--target", "y", "--bags", "1"],
        ["fit", "t.csv", "--target", "y", "--iterations", "3000000000"],
        ["cv", "t.csv", "--target", "y", "--kind", "bootstrap", "--folds", "1000000000"],
        ["cv", "t.csv", "--target", "y", "--kind", "subsampling", "--fraction", "1"],
        ["tune", "t.csv", "--target", "y", "--most", "3000000000"],
        ["report", "m.json", "t.csv", "--rows", "1000001"],
        ["show", "m.json", "--term", "x", "--points", "100000000"],
        ["export", "m.json", "--to", "m.sql", "--table", ""],
        ["fit", "t.csv", "--target", "y", "--iterations", "2.5"],
        ["fit", "t.csv", "--target", "y", "--optimizer", "hybrid", "--validation", "none"],
        ["fit", "t.csv", "--formula", "y ~ x", "--terms", "auto"],
        ["predict", "-", "-"],
        ["show", "m.json", "-o", "t.csv"],
        ["export", "m.json"],
        ["export", "m.json", "--to", "m.pdf"],
        ["export", "m.json", "--to", "m.onnx", "--dialect", "sqlite"],
        ["export", "m.json", "--to", "tables/", "--kind", "score"],
    ],
)
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage: cwboost" in capsys.readouterr().err


@pytest.mark.parametrize("rows", ["none", "last", "a_column"])
def test_validation_with_bags_can_only_be_a_fraction(rows, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["fit", "t.csv", "--target", "y", "--bags", "3", "--validation", rows])
    assert stop.value.code == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "--validation can only be their share (default 0.2)" in message


@pytest.mark.parametrize(
    "command", ["", "fit", "predict", "explain", "show", "report", "export", "demo"]
)
def test_help_has_examples(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    assert f"examples:\n  cwboost {command}" in capsys.readouterr().out


def test_demo(capsys, folder):
    assert main(["demo", "--output", "adult", "--iterations", "20"]) == 0
    found = capsys.readouterr().out
    assert found.startswith("Adult: 48842 people, 13 columns")
    assert "written to adult: model.json, importance.csv, effects.csv, risk.csv" in found
    assert sorted(p.name for p in (folder / "adult").iterdir()) == sorted(
        ["model.json", "importance.csv", "effects.csv", "report.html", "risk.csv"]
    )
    assert found.endswith(
        f"open {Path('adult') / 'report.html'} in a browser to explore the model\n"
    )


# --- progress -------------------------------------------------------------------------------------


def test_log_json(table, capsys):
    fitted(table, "--target", "y", "--log-json", "--log-every", "7", *SHORT, *others("y"))
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    model = cb.load("m.json")
    steps = [line for line in lines if line["event"] == "iteration"]
    assert [line["iteration"] for line in steps] == list(range(7, 61, 7))
    for line in steps:
        m = line["iteration"]
        assert line["risk"] == model.risk[m]
        assert line["validation_risk"] == model.validation_risk[m]
        assert line["choice"] == model.choices[m - 1]
    last = lines[-1]
    assert last["event"] == "done"
    assert (last["iterations"], last["best_iteration"]) == (60, model.best_iteration)
    assert last["validation_risk"] == model.validation_risk[model.best_iteration]
    assert last["output"] == "m.json"


def test_log_json_of_warnings_and_errors(folder, capsys):
    write_csv(folder / "t.csv", {"x": range(30), "one": [1] * 30, "y": range(30)})
    fitted("t.csv", "--target", "y", "--log-json")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert any(line["event"] == "warning" and "constant" in line["message"] for line in lines)
    assert lines[-1]["validation_risk"] is None
    assert main(["fit", "t.csv", "--target", "z", "--log-json"]) == 1
    assert json.loads(capsys.readouterr().err)["event"] == "error"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_progress_line_is_updated_at_most_ten_times_a_second(monkeypatch):
    stream = Terminal()
    now = [0.0]
    bar = progress.ProgressLine(stream, clock=lambda: now[0])
    bar.stage("reading")
    with bar.work(1000, "iteration"):
        for m in range(1, 1001):
            now[0] += 0.01
            bar.step(m, risk=0.5, validation_risk=0.25, choice="a\nb")
    written = stream.getvalue()
    assert 90 <= written.count("/1000") <= 101
    assert "\n" not in written
    assert written.endswith("\r")
    assert "risk 0.50000  validation 0.25000" in written
    assert "a?b" in written


def test_a_terminal_gets_the_summary(table, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(factory, "RichProgress", progress.ProgressLine)
    fitted(table, "--target", "zero_one", *SHORT, *others("zero_one"))
    found = stream.getvalue()
    assert "reading rows.csv" in found
    assert "has only the values 0 and 1" in found
    assert "/60 " in found
    assert "written to m.json\n" in found
    stream.truncate(0)
    stream.seek(0)
    fitted(table, "--target", "zero_one", "--quiet", *SHORT, *others("zero_one"))
    assert stream.getvalue() == ""


def test_rich(table, monkeypatch):
    pytest.importorskip("rich")
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    fitted(table, "--target", "y", *SHORT, *others("y"))
    assert "/60" in stream.getvalue()
    assert isinstance(progress.command_progress(stream), progress.RichProgress)


# --- processes ------------------------------------------------------------------------------------

COMMAND = [sys.executable, "-m", "cwboost"]


def test_pipes(table):
    text = Path(table).read_bytes()
    fit = [*COMMAND, "fit", "-", "--target", "y", *SHORT, *others("y"), "-o", "-"]
    first = subprocess.run(fit, input=text, capture_output=True, check=True)
    Path("m.json").write_bytes(first.stdout)
    found = subprocess.run(
        [*COMMAND, "predict", "-", table], input=first.stdout, capture_output=True, check=True
    )
    assert found.stderr == b""
    values = np.array(found.stdout.split()[1:], dtype=float)
    assert np.array_equal(values, cb.load("m.json").predict(as_python(ROWS)))


def test_exit_codes_of_a_process():
    assert subprocess.run([*COMMAND, "--version"], capture_output=True).returncode == 0
    failed = subprocess.run([*COMMAND, "show", "none.json"], capture_output=True, text=True)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert failed.stderr == "cwboost: none.json: No such file or directory\n"
    assert subprocess.run([*COMMAND, "show"], capture_output=True).returncode == 2


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_keeps_the_model_so_far(table, folder):
    arguments = ["--target", "answer", "--iterations", "100000000", "--rate", "0.00001",
                 "--optimizer", "plain", "--validation", "none", *others("answer")]  # fmt: skip
    with subprocess.Popen(
        [*COMMAND, "fit", table, *arguments, "--log-json", "--log-every", "1000", "-o", "m.json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    model = cb.load("m.json")
    assert model.stopped == "interrupted"
    assert model.classes == ("no", "yes")
    assert model.predict(as_python(ROWS)).shape == (1200,)
    last = json.loads(err.splitlines()[-1])
    assert (last["event"], last["stopped"]) == ("done", "interrupted")
    assert sorted(p.name for p in folder.iterdir()) == ["m.json", "rows.csv"]


@pytest.mark.parametrize("output", [["-o", "m.json"], []])
def test_messages_after_an_interrupt(table, output, monkeypatch, capsys):
    pressed = []

    def press(self, iteration, **facts):
        if iteration == 30 and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(progress.QuietProgress, "every", 0.0)
    monkeypatch.setattr(progress.QuietProgress, "step", press)
    assert main(["fit", table, "--target", "y", *SHORT, *others("y"), *output]) == 130
    found = capsys.readouterr()
    assert found.err.startswith("cwboost: interrupted after ")
    if output:
        assert found.err.endswith(" iterations; the model so far is in m.json\n")
        assert main(["show", "m.json"]) == 0
        assert "(interrupted)" in capsys.readouterr().out
    else:
        assert "(interrupted)" in found.out  # without -o only the summary is printed


def test_ctrl_c_in_polish_keeps_the_boosted_model(table, monkeypatch, capsys):
    def press(*_, **__):
        raise KeyboardInterrupt

    polish = importlib.import_module("cwboost.fitting.polish.polish")
    monkeypatch.setattr(polish, "polish_fit", press)
    assert main(["fit", table, "--target", "y", *SHORT, *others("y"), "-o", "m.json"]) == 130
    words = "iterations, before the terms were refitted to all rows (polish); the model so far is"
    assert f"{words} in m.json\n" in capsys.readouterr().err
    assert cb.load("m.json").polish is None


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_while_a_model_is_written_waits(table, late, monkeypatch, capsys):
    """Also if it comes while the summary is made."""
    save = cb.Model.save

    def press(*_, **__):
        signal.raise_signal(signal.SIGINT)

    def save_and_press(self, file):
        press()
        save(self, file)

    if late:
        monkeypatch.setattr("cwboost.cli.commands.fit.model_summary", press)
    else:
        monkeypatch.setattr(cb.Model, "save", save_and_press)
    assert main(["fit", table, "--target", "y", *SHORT, *others("y"), "-o", "m.json"]) == 130
    assert capsys.readouterr().err.endswith("cwboost: interrupted; m.json is written\n")
    assert cb.load("m.json").n_iter > 0


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_while_reading_writes_nothing(folder):
    with subprocess.Popen(
        [*COMMAND, "fit", "-", "--target", "y", "-o", "m.json"],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        process.stdin.write("x,y\n" + "1,2\n" * 100_000)  # more than a pipe holds
        process.stdin.flush()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        err = process.stderr.read()
    assert process.returncode == 130, err
    assert err == "cwboost: interrupted; nothing was written\n"
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="pipes")
def test_a_reader_that_closes_the_pipe(table, model):
    with Path(table).open(newline="", encoding="utf-8") as stream:
        header, *rows = csv.reader(stream)
    with Path("long.csv").open("w", newline="", encoding="utf-8") as stream:
        csv.writer(stream).writerows([header, *(rows * 20)])  # more than a pipe holds
    with subprocess.Popen(
        [*COMMAND, "predict", "m.json", "long.csv", "--keep", *ROWS],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.read(1)
        process.stdout.close()
        err = process.stderr.read()
        process.wait(timeout=60)
    assert (process.returncode, err) == (141, b"")


# --- closed streams, full disks and early interrupts ----------------------------------------------

POSIX_ONLY = pytest.mark.skipif(os.name == "nt", reason="a shell of Unix")


def run_in_shell(words, redirection, **options):
    """Run the command with a redirection of the shell, such as 2>&-."""
    call = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *words]
    return subprocess.run(call, capture_output=True, text=True, **options)


@pytest.fixture
def small(folder):
    x = np.linspace(0.0, 1.0, 60)
    rows = {"x": x, "y": x**2}
    write_table("t.csv", rows)
    cb.fit(rows, "y", n_iter=5).save("m.json")
    return ["fit", "t.csv", "--target", "y", "--iterations", "5"]


@POSIX_ONLY
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_stop_a_fit(small, closed):
    done = run_in_shell([*small, "-o", "out.json"], closed)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert cb.load("out.json").n_iter == 5  # nothing else was written into the file


@POSIX_ONLY
def test_messages_to_a_closed_stream_do_not_reach_a_file(small):
    """The file would otherwise be opened with the number of standard error."""
    beyond = {"x": np.array([0.5, 1e6])}
    write_table("new.csv", beyond)
    done = run_in_shell(["predict", "m.json", "new.csv", "-o", "p.csv"], "2>&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert Path("p.csv").read_text().split()[0] == "prediction"
    assert len(Path("p.csv").read_text().split()) == 3


@POSIX_ONLY
@pytest.mark.parametrize(
    ("words", "redirection", "message"),
    [
        ("show m.json", ">&-", "standard output is closed, so the result cannot be printed"),
        ("fit t.csv --target y", ">&-", "standard output is closed"),
        ("predict m.json -", "<&-", "TABLE: standard input is closed; give the name of a file"),
        ("show -", "<&-", "MODEL: standard input is closed"),
        ("show m.json", "> /dev/full", "standard output: No space left on device"),
        ("--help", "> /dev/full", "standard output: No space left on device"),
        ("--version", "> /dev/full", "standard output: No space left on device"),
    ],
)
def test_a_stream_that_is_needed_is_missed_in_one_sentence(small, words, redirection, message):
    failed = run_in_shell(words.split(), redirection)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"cwboost: {message}")
    assert failed.stderr.count("\n") == 1


@POSIX_ONLY
@pytest.mark.parametrize("option", [[], ["--log-json", "--log-every", "1"]])
def test_messages_that_nobody_reads_do_not_stop_a_fit(small, option):
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, *small, *option, "-o", "out.json"]
    done = subprocess.run(command, stderr=writer, stdout=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stdout) == (0, b"")
    assert cb.load("out.json").n_iter == 5


@POSIX_ONLY
def test_the_current_folder_was_removed(small, monkeypatch, capsys, tmp_path):
    table = Path("t.csv").absolute()
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert main(["fit", str(table), "--target", "y", "-o", "m.json"]) == 1
    assert "the current folder does not exist any more" in capsys.readouterr().err


def test_an_empty_name_is_not_the_current_folder(small, capsys):
    for words in (["fit", "", "--target", "y"], ["predict", "m.json", ""], [*small, "-o", ""]):
        assert main(words) == 1
        assert "the name of a file or folder is empty; give a name" in capsys.readouterr().err


@POSIX_ONLY
def test_ctrl_c_during_the_import(small):
    """Numpy is replaced by a module that sends Ctrl-C and turns the interrupt into an error."""
    Path("numpy.py").write_text(
        "import signal\n"
        "try:\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    raise ImportError('failed to import')\n"
    )
    done = subprocess.run([*COMMAND, *small], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stderr == "cwboost: interrupted; nothing was written\n"


def test_a_png_that_is_too_large(small, capsys):
    assert main(["plot", "m.json", "--dpi", "100000", "-o", "x.png"]) == 1
    message = capsys.readouterr().err
    assert "dpi 100000: the picture would have 400,000 x 270,000 pixels, which is too" in message
    assert main(["plot", "m.json", "--dpi", "9" * 400, "-o", "x.pdf"]) == 1
    assert "dpi: expected a number from 10 to 1000000, got 99" in capsys.readouterr().err
    most = int(message.split("use at most ")[1].split(",")[0])
    assert 1000 < most < 100_000
    assert not Path("x.png").exists()


@pytest.mark.parametrize(
    "words",
    [
        "fit t.csv --target y -o t.csv",
        "predict m.json t.csv -o ./t.csv",
        "cv t.csv --target y -o t.csv",
        "tune t.csv --target y --trials t.csv",
        "report m.json -o m.json",
        "export m.json --to m.json",
        "plot m.json -o link.svg",
    ],
)
def test_inputs_are_not_overwritten(tmp_path, monkeypatch, capsys, words):
    monkeypatch.chdir(tmp_path)
    rows = {"x": np.linspace(0.0, 1.0, 30), "y": np.linspace(0.0, 1.0, 30) ** 2}
    cb.fit(rows, "y", n_iter=2).save("m.json")
    Path("link.svg").symlink_to("m.json")
    write_table("t.csv", rows)
    before = {file: Path(file).read_bytes() for file in ("t.csv", "m.json")}
    assert main(words.split()) != 0
    assert "would overwrite" in capsys.readouterr().err
    assert {file: Path(file).read_bytes() for file in before} == before
