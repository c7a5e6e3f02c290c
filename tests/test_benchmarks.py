"""Tests of the benchmarks: they run, report their results, and continue when a rival fails.

Problems are tiny and rivals are libraries that the tests need anyway. The measured figures are not
checked, because they depend on the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks import (
    cluster,
    compare,
    history,
    machine,
    pages,
    passes,
    problems,
    process,
    results,
    rivals,
    scale,
    targets,
)
from benchmarks.__main__ import main
from benchmarks.measure import effects_error, errors, fit_once
from benchmarks.process import Outcome
from benchmarks.results import Result

# Every problem, with rivals that the tests need anyway.
PAIRS = [*((p, "cwboost") for p in problems.PROBLEMS), ("counts", "cwboost-cwb"),
         ("adult", "cwboost-acwb"), ("wide", "cwboost-cwb"), ("curves", "histgb"),
         ("adult", "histgb"), ("counts", "histgb")]  # fmt: skip
# Below 50 rows cwboost neither cross-validates nor polishes, which takes long with many columns.
TINY = {"curves": 100, "many-curves": 45, "paper": 45, "paper-classes": 45, "adult": 200,
        "counts": 100, "wide": 5}  # fmt: skip
FIGURES = {"fit_seconds": 2.0, "megabytes": None, "predict_seconds": 0.5, "f_error": 0.25,
           "effect_error": None, "test_loss": 0.5, "terms": None, "columns": 3, "test_rows": 9,
           "title": "a title"}  # fmt: skip


@pytest.fixture(autouse=True)
def _few_test_rows(monkeypatch):
    monkeypatch.setattr(problems, "TEST_ROWS", 400)


def make_result(rival="cwboost", status="done", repeat=0, version="1", limit=5.0, **figures):
    own_figures = FIGURES | figures if status == "done" else {}
    facts = machine.facts(()) | {"library": rival}
    return Result(
        "curves", None, rival, version, 1, repeat, limit, status, own_figures, "why", facts
    )


# --- separate processes ---------------------------------------------------------------------------


def test_call_returns_what_the_function_returns():
    found = process.call("json:dumps", {"obj": [1, 2]})
    assert (found.status, found.value) == ("done", "[1, 2]")


def test_a_process_gets_the_requested_number_of_threads():
    code = "import os, sys; sys.exit(int(os.environ['OMP_NUM_THREADS']))"
    found = process.call("subprocess:call", {"args": [sys.executable, "-c", code]}, threads=3)
    assert found.value == 3


def test_a_crash_is_an_outcome():
    found = process.call("os:abort", {})
    assert found.status == "failed"
    assert "exit code" in found.reason


def test_an_exception_is_an_outcome_with_its_message():
    found = process.call("json:loads", {"s": "no JSON"})
    assert found.status == "failed"
    assert "JSONDecodeError" in found.reason


def test_a_late_process_is_ended():
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    found = process.call("subprocess:call", {"args": sleep}, limit=1)
    assert found.status == "late"
    assert found.seconds < 20


def test_a_fit_that_takes_too_long_is_late():
    """The limit applies to the time of the fit only."""
    job = {"problem": "curves", "rival": "cwboost", "threads": 1, "rows": 2000, "limit": 1e-4}
    found = process.call("benchmarks.measure:fit_once", job)
    assert (found.status, found.value) == ("late", None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports it")
def test_memory_is_the_increase_at_the_peak():
    memory = process.Memory()
    block = np.ones(5_000_000)
    del block
    assert 30 < memory.added() < 80


# --- problems and rivals --------------------------------------------------------------------------


@pytest.mark.parametrize("name", problems.PROBLEMS)
def test_the_truth_of_a_problem_matches_its_rows(name):
    task = problems.make_problem(name, TINY[name])
    assert len(task.train.y) == TINY[name]
    assert list(task.train.table) == list(task.test.table)
    if name != "adult":
        assert task.truth.shape == task.test.y.shape
        assert set(task.effects) <= set(task.test.table)


def test_truth_is_the_mean_of_y():
    task = problems.make_problem("counts", 200_000)
    expected = task.test.exposure * np.exp(task.truth)
    assert abs(task.test.y.sum() / expected.sum() - 1) < 5 / np.sqrt(expected.sum())


@pytest.mark.filterwarnings("ignore")  # tiny tables: constant columns, levels never seen
@pytest.mark.parametrize(("problem", "rival"), PAIRS)
def test_rivals_fit_and_predict(problem, rival):
    task = problems.make_problem(problem, TINY[problem])
    library = rivals.RIVALS[rival]()
    with threadpool_limits(1):
        library.fit(task, 1)
        found = errors(library, task)
    assert np.isfinite(found["test_loss"])
    assert (found["f_error"] is None) == (problem == "adult")
    assert (found["auc"] is None) == (task.loss != "binomial")


def test_effects_are_centred_before_they_are_compared():
    task = problems.make_problem("curves", 300)

    class Truth(rivals.Rival):
        def predict(self, rows):
            table = {name: rows.table[name].to_numpy() for name in "abc"}
            return 7.0 + np.sin(2 * table["a"]) + table["b"] ** 2 / 2 - table["c"]

    assert effects_error(Truth(), task) < 1e-12
    assert errors(Truth(), task)["f_error"] == pytest.approx(7.0)


def test_figures_of_one_fit():
    found = fit_once("curves", "cwboost", 1, 1500, 60)
    assert found["fit_seconds"] > 0
    assert found["f_error"] < 0.3
    assert found["terms"] >= 3
    assert json.loads(json.dumps(found)) == found


def test_rivals_that_are_not_installed_are_reported(monkeypatch, capsys):
    monkeypatch.setattr(rivals.LightGbm, "module", "no_such_module")
    monkeypatch.setattr(rivals.shutil, "which", lambda _: None)
    assert list(compare.installed(["lightgbm", "mboost", "histgb"])) == ["histgb"]
    stderr = capsys.readouterr().err
    assert "without lightgbm: lightgbm is not installed" in stderr
    assert "without mboost: Rscript is not installed" in stderr
    with pytest.raises(SystemExit, match="none of the rivals"):
        compare.installed(["mboost"])


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for Rscript")
def test_r_reads_rows_and_writes_scores(tmp_path, monkeypatch):
    """Check the files exchanged with R; a Python script stands in for R."""
    code = (
        "import sys, numpy as np; folder = sys.argv[2]\n"
        "rows = np.fromfile(folder + '/test.bin').reshape(12, -1)\n"
        "assert len(open(folder + '/kinds.txt').read().split()) == 10\n"
        "rows[0].tofile(folder + '/scores.bin')\n"
        "open(folder + '/figures.txt', 'w').write('fit_seconds 2.5\\nmegabytes NaN\\nterms 3')\n"
    )
    (tmp_path / "play.py").write_text(code)
    script = tmp_path / "Rscript"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{tmp_path / "play.py"}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    task = problems.make_problem("curves", 50)
    library = rivals.Mboost()
    library.fit(task, 1)
    assert np.array_equal(library.predict(task.test), task.test.table["a"])
    assert library.figures() == {"fit_seconds": 2.5}
    assert library.terms() == 3


# --- the comparison -------------------------------------------------------------------------------


@pytest.mark.slow
def test_comparison_makes_table_and_figure_and_resumes(tmp_path, capsys, monkeypatch):
    arguments = ["--problems", "counts", "--rivals", "histgb", "cwboost", "--rows", "300"]
    arguments += ["-o", str(tmp_path / "out")]
    main(arguments)
    printed = capsys.readouterr()
    assert "counts with exposure, n = 300" in printed.out
    assert "[2/2] counts: cwboost: " in printed.err
    for name in ("table.md", "table.txt", "figure.svg", "figure.png"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert (tmp_path / "out" / "table.md").read_text(encoding="utf-8").count("\n| ") == 3

    monkeypatch.setattr(compare, "call", lambda *_, **__: pytest.fail("it was known"))
    main(arguments)
    assert capsys.readouterr().err.count(": known") == 2

    new = tmp_path / "new.svg"
    main(["table", str(tmp_path / "out"), "--markdown", "--summary", "--figure", str(new)])
    assert "| histgb | " in capsys.readouterr().out
    assert new.exists()


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (Outcome("late", reason="not done after 5 s"), "> 5 s"),
        (Outcome("failed", reason="exit code -9: Killed"), "failed: exit code -9: Killed"),
    ],
)
def test_comparison_continues_when_a_rival_fails(tmp_path, capsys, monkeypatch, outcome, message):
    answers = iter([outcome, Outcome("done", FIGURES)])
    monkeypatch.setattr(compare, "call", lambda *_, **__: next(answers))
    arguments = ["--problems", "curves", "--rivals", "histgb", "cwboost", "--limit", "5"]
    main([*arguments, "-o", str(tmp_path)])
    out = capsys.readouterr().out
    assert message in out
    assert "2 s" in next(line for line in out.splitlines() if line.startswith("cwboost"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rivals", "nobody"], "unknown rival nobody; expected cwboost"),
        (["--problems", "nothing"], "unknown problem nothing; expected curves"),
        (["targets", "--only", "none"], "unknown row none; expected cwb"),
        (["table", "no-such-folder"], "there are no results yet"),
    ],
)
def test_unknown_names_are_clear_errors(arguments, message):
    with pytest.raises(SystemExit, match=message):
        main(arguments)
    with pytest.raises(ValueError, match="unknown problem 'nothing'"):
        problems.make_problem("nothing")


# --- results --------------------------------------------------------------------------------------


def test_results_are_read_as_they_were_written(tmp_path):
    written = [make_result(), make_result("histgb", "late")]
    for result in written:
        results.append(tmp_path, result)
    assert results.read(tmp_path) == written
    with (tmp_path / results.FILE).open("a") as out:
        out.write("no JSON\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 3: expected a result"):
        results.read(tmp_path)


def test_a_late_result_is_not_reused_for_a_longer_limit():
    late = make_result(status="late", limit=10.0)
    assert late.answers(10.0)
    assert late.answers(5.0)
    assert not late.answers(20.0)
    assert not late.answers(None)
    assert make_result(limit=10.0).answers(20.0)


def test_the_best_repeat_of_the_last_version_counts():
    old = make_result(fit_seconds=1.0, version="0")
    found = [
        old,
        make_result(fit_seconds=3.0),
        make_result(repeat=1, fit_seconds=2.0, megabytes=8.0),
    ]
    line = results.best(found)
    assert (line.figures["fit_seconds"], line.figures["megabytes"]) == (2.0, 8.0)
    assert results.best([*found, make_result(status="late", repeat=2)]).status == "late"


def test_ratios_are_to_cwboost_and_the_fastest_is_first():
    text = results.table(
        [make_result(), make_result("histgb", fit_seconds=0.5), make_result("ebm", "failed")], True
    )
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    assert [row[0] for row in rows] == ["| library", "| histgb", "| cwboost", "| ebm"]
    assert rows[1][1:3] == ["0.5 s", "0.25"]
    assert "failed: why" in rows[3][1]


def test_numbers_are_never_in_scientific_notation():
    values = (0.000012345, 0.12345, 1.0, 123456.0, None)
    assert [results.number(v, 3) for v in values] == ["0.000012", "0.123", "1", "123456", ""]


def test_pages_are_filled_between_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- benchmarks: summary -->\nold\n<!-- /benchmarks -->\nb\n")
    pages.fill(page, {"summary": r"\1 new", "tables": "x"})
    assert page.read_text() == (
        "a\n<!-- benchmarks: summary -->\n\n\\1 new\n\n<!-- /benchmarks -->\nb\n"
    )
    with pytest.raises(ValueError, match="expected a block from '<!-- benchmarks: targets -->'"):
        pages.fill(page, {"targets": ""})


# --- targets and history --------------------------------------------------------------------------


def test_a_row_of_the_targets_is_measured(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- benchmarks: targets --><!-- /benchmarks -->")
    main(["targets", "--quick", "--only", "many", "--into", str(page)])
    head, _, row, _, foot = capsys.readouterr().out.splitlines()
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert head == "| problem | must | measured | ratio | |"
    assert cells[:2] == ["n = 20,000, K = 300, binomial, M = 1000", "<= B / 12"]
    assert float(cells[3].removeprefix("B / ")) > 0
    assert "no verdict" in foot
    assert row in page.read_text()


@pytest.mark.parametrize(("seconds", "verdict"), [(0.9, "ok"), (1.1, "MISS")])
def test_verdicts_follow_the_limits(monkeypatch, seconds, verdict):
    monkeypatch.setattr(
        targets, "call", lambda *_, **__: Outcome("done", {"fit": seconds, "B": 8.0})
    )
    found = targets.line(targets.ROWS[0], targets.FitOptions())
    assert found.endswith(f"| B / {8 / seconds:.2f} | {verdict} |")


def test_a_row_that_fails_is_reported(monkeypatch):
    monkeypatch.setattr(targets, "call", lambda *_, **__: Outcome("failed", reason="a\nlast|word"))
    found = targets.line(targets.ROWS[0], targets.FitOptions())
    assert "not measured: last/word" in found


def test_without_superglm_the_row_says_so(monkeypatch):
    monkeypatch.setattr(targets.importlib.util, "find_spec", lambda _: None)
    row = next(row for row in targets.ROWS if row.key == "curves")
    assert "superglm is not installed" in targets.line(row, targets.FitOptions())


def test_profile_reports_setup_and_loop():
    case = vars(targets.Case(n=500, K=20, n_iter=5))
    text = targets.profile(case, repeats=1)
    assert text.startswith("set-up ")
    assert "per iteration" in text.splitlines()[0]
    assert "tottime" in text


def test_bins_of_b_are_the_nearest_points():
    column = np.random.default_rng(0).normal(size=1000)
    points = np.linspace(column.min(), column.max(), 31)
    nearest = np.abs(column[:, None] - points).argmin(axis=1)
    assert np.array_equal(targets.nearest_point(column, 31), nearest)


def test_history_compares_with_the_last_commit(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(history, "measure", lambda: {"a: fit, ms": 2.0, "a: memory, MB": None})
    path = tmp_path / "history.jsonl"
    facts = machine.facts(())
    earlier = {**facts, "commit": "before", "figures": {"a: fit, ms": 1.0}}
    other = {**earlier, "processor": "another", "figures": {"a: fit, ms": 9.0}}
    path.write_text("\n".join(map(json.dumps, (earlier, other))) + "\n")
    main(["history", "--file", str(path)])
    out = capsys.readouterr().out
    assert "compared with before" in out
    assert "+100.0%  <--" in out
    assert len(path.read_text().splitlines()) == 3


def test_history_measures_its_cases():
    found = history.fit_figures(vars(targets.Case(n=500, K=20, n_iter=5)))
    assert found["fit, ms"] > 0
    assert found["predict, ms"] > 0


def test_scripts_run_on_their_own():
    script = Path(compare.__file__).parent / "fair_choice.py"
    run = [sys.executable, str(script), "--repetitions", "2", "--rows", "50"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "ten levels" in done.stdout


# --- cross-validation -----------------------------------------------------------------------------


@pytest.mark.slow
def test_cross_validation_is_compared_with_single_fits(capsys):
    main(["cv", "--rows", "300", "--iterations", "5", "--repeats", "1"])
    printed = capsys.readouterr().out
    for loss in ("squared", "binomial"):
        assert f"| 300 | {loss} |" in printed
    assert "targets: ratio at most 1.3" in printed


def test_streamed_and_saved_rows_give_the_same_fit(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(scale, "PER_FILE", 1500)
    scale.write(tmp_path / "rows", 4000)
    assert len(list((tmp_path / "rows").iterdir())) == 3
    streamed = scale.fitted(str(tmp_path / "rows"), False, 3, 1)
    saved = scale.saved_as(str(tmp_path / "rows"), str(tmp_path / "saved"))
    again = scale.fitted(str(tmp_path / "saved"), True, 3, 1)
    assert streamed["rows"] == saved["rows"] == again["rows"] == 4000
    assert streamed["risk"] == again["risk"]
    assert 0 < streamed["first"] < streamed["seconds"]
    scale.show("Parquet", streamed)
    scale.show("elsewhere", streamed | {"added": None})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("| Parquet | 3 | ")
    assert first.count("|") == second.count("|") == 9


# --- a cluster ------------------------------------------------------------------------------------


def test_a_fit_on_a_cluster_is_reported_and_equals_a_local_fit(monkeypatch, capsys):
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "PARTITIONS", 3)
    found = cluster.measured(rows=600, workers=2, n_iter=4, direct=True, processes=False)
    for figures in found.values():
        assert figures["same"]
        assert figures["distance"] < 1e-10
        parts = figures["workers"] + figures["transport"] + figures["client"]
        assert parts == pytest.approx(figures["each"])
        assert figures["received"] > 0
    assert found["binomial"]["trips"] >= 1
    monkeypatch.setattr(cluster, "call", lambda *_, **__: Outcome("done", found))
    main(["cluster", "--workers", "2", "4"])
    tables = capsys.readouterr().out.split("\n\n")
    for loss in cluster.LOSSES:
        assert [t.count(f"| {loss} | 2 |") for t in tables].count(1) == 3
        assert [t.count(f"| {loss} | 4 |") for t in tables].count(1) == 3


@pytest.mark.slow
def test_passes_reports_the_cost_of_a_row(capsys):
    main(["passes", "--rows", "400", "--iterations", "4"])
    lines = [line for line in capsys.readouterr().out.splitlines() if " 400 |" in line]
    assert [line.split(" | ")[0] for line in lines] == [f"| {loss}" for loss, _ in passes.FITS]
    assert all(float(line.split(" | ")[5]) > 0 for line in lines)  # sums of sets were requested
