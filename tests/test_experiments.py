"""Tests of the experiments: they run at tiny scale, store their results, and report them.

Checks the form of the results and figures with a known true value. The findings are not checked,
because results at tiny scale mean nothing.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import types
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cwboost as cb
from benchmarks import machine, process
from experiments import (
    big_data,
    categorical,
    claims,
    datasets,
    eq1,
    eq2,
    eq3,
    h1,
    h3,
    h4,
    report,
    runner,
    simulated,
    variants,
)
from experiments.__main__ import NAMES, main, modules
from experiments.claims import CLAIMS, VERDICTS, Claim
from experiments.found import Finding, Table, listed, number

# --- all experiments at tiny scale ----------------------------------------------------------------

LONG = {"eq2": pytest.mark.slow, "h4": pytest.mark.slow}


def exit_code(arguments):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code


@pytest.mark.filterwarnings("ignore")  # tiny tables: constant columns, levels never seen
@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in NAMES])
def test_experiment_runs_and_reports(name, tmp_path, capsys):
    tiny = [name, "--scale", "tiny", "-o", str(tmp_path), "--jobs", "0", "--busy"]
    assert exit_code(tiny) == 0
    module, out = modules([name])[0], tmp_path / "tiny"
    results = runner.results(module, "tiny", out)
    assert len(results) >= len(module.tasks("tiny"))
    assert (results.status == "done").all()
    assert (out / f"{name}.svg").read_text().count("<path") > 5
    printed = capsys.readouterr().out
    assert module.TITLE in printed
    for claim in CLAIMS[name].values():
        assert f"| {claim.text} | {claim.paper} |" in printed
    before = (out / f"{name}.jsonl").read_text()
    assert exit_code(tiny) == 0
    assert (out / f"{name}.jsonl").read_text() == before  # nothing was run twice
    check_page(module, tmp_path, out)
    lines = before.splitlines(keepends=True)
    for part in (lines[:1], lines[1::2], lines[:-1]):
        check_partial_log(module, "".join(part), tmp_path / str(len(part)))


def check_partial_log(module, log, folder):
    """Check that the page can be written while tasks are missing."""
    folder.mkdir(exist_ok=True)
    runner.log_path(module, folder).write_text(log)
    report.write([module], folder, "tiny", None)
    page = (folder / "paper.md").read_text()
    assert "tasks have run so far.**" in page
    assert all(claim.text in page for claim in CLAIMS[runner.short_name(module)].values())


def check_page(module, tmp_path, out):
    """Check that the page has the command, the figure and the deviations."""
    docs = tmp_path / "docs"
    with pytest.raises(ValueError, match="--docs: there is no folder"):
        report.write([module], out, "tiny", docs)
    docs.mkdir()
    report.write([module], out, "tiny", docs)
    page, name = (docs / "paper.md").read_text(), runner.short_name(module)
    assert f"$ python -m experiments {name} --scale tiny" in page
    assert f"(_static/paper/{name}.svg)" in page
    assert (docs / "_static" / "paper" / f"{name}.svg").exists()
    log = docs / "_static" / "paper" / f"{name}.jsonl"
    assert len(log.read_text().splitlines()) == len(module.tasks("tiny"))
    pd.testing.assert_frame_equal(
        runner.results(module, "tiny", log.parent), runner.results(module, "tiny", out)
    )
    assert all(deviation in page for deviation in module.DEVIATIONS)
    html = (out / "paper.html").read_text()
    assert html.count("<svg") == 1
    assert "<h2>" in html
    assert "|---" not in html


@pytest.mark.parametrize("name", NAMES)
def test_tasks_are_distinct_and_larger_scales_have_more(name):
    module = modules([name])[0]
    sizes = []
    for scale in ("tiny", "small", "page", "paper"):
        keys = [runner.key(task) for task in module.tasks(scale)]
        assert len(set(keys)) == len(keys)
        sizes.append(len(keys))
    if name not in ("eq1", "outliers", "big_data"):  # equally many tasks
        assert sizes[1] < sizes[2] <= sizes[3]


def test_unknown_names_are_reported(capsys):
    with pytest.raises(SystemExit):
        main(["h5"])
    assert "expected h1, h2" in capsys.readouterr().err


def test_a_failed_experiment_is_reported_and_the_others_run(tmp_path, capsys):
    assert exit_code(["h2", "h3", "--redraw", "-o", str(tmp_path)]) == 1
    stderr = capsys.readouterr().err
    assert "run python -m experiments h2 first" in stderr
    assert "run python -m experiments h3 first" in stderr


def test_report_without_results_says_what_to_run(tmp_path):
    with pytest.raises(SystemExit, match="run python -m experiments all"):
        main(["report", "-o", str(tmp_path)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["h4", "report"], "report cannot be combined with experiments"),
        (["h4", "--jobs", "-1"], "--jobs: expected at least 0, got -1"),
        (["h4", "--scale", "huge"], "'huge' is not one of page, small, paper"),
    ],
)
def test_invalid_arguments_are_reported(arguments, message, capsys):
    assert exit_code(arguments) == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert "tiny" not in stderr


def test_missing_packages_are_reported_before_anything_runs(monkeypatch, tmp_path):
    monkeypatch.setattr(eq2, "REQUIRES", ("no_such_module",))
    arguments = ["eq2", "--scale", "tiny", "-o", str(tmp_path), "--jobs", "0", "--busy"]
    assert "no_such_module not installed; in the clone, pip install '.[exp" in exit_code(arguments)
    assert not list(tmp_path.iterdir())


def test_the_data_folder_is_checked_first(tmp_path, capsys):
    arguments = ["eq3", "-o", str(tmp_path / "out"), "--data"]
    assert "there is no folder" in exit_code([*arguments, str(tmp_path / "none")])
    for name in ("spam", "higgs_35k", "nomao"):
        (tmp_path / f"{name}.parquet").touch()
    message = exit_code([*arguments, str(tmp_path)])
    assert "has no file of Adult, census, credit default; it needs spam.parquet" in message
    assert "paper_folds.parquet" in message
    message = exit_code([*arguments, str(tmp_path), "--scale", "paper"])
    assert "has no file of Christine, Adult, MiniBooNE, Albert; it needs spam.parquet" in message
    assert not (tmp_path / "out").exists()


def test_an_interrupt_prints_one_sentence(monkeypatch, tmp_path, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run_all", interrupted)
    assert exit_code(["h4", "-o", str(tmp_path)]) == 130
    assert capsys.readouterr().err == "interrupted; run again to resume\n"


# --- the runner -----------------------------------------------------------------------------------


TIMED = {"kind": "timed", "n": 3}
QUICK = [{"kind": "quick", "n": n} for n in (1, 2)]


@pytest.fixture
def stub(monkeypatch):
    """An experiment that records which tasks it ran."""
    module = types.ModuleType("stub_experiment")
    module.ran = []

    def run(kind, n):
        module.ran.append(n)
        return {"square": n * n}

    module.run, module.NEEDS_DATA, module.KEEPS, module.PARALLEL_KINDS = run, False, (), ("quick",)
    module.tasks = lambda _: [TIMED, *QUICK]
    monkeypatch.setitem(sys.modules, "stub_experiment", module)
    return module


def test_a_rerun_runs_missing_tasks_and_keeps_the_order_of_results(stub, tmp_path):
    whole = stub.tasks
    stub.tasks = lambda _: QUICK[1:]
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    stub.tasks = whole
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    assert stub.ran == [2, 1, 3]  # timed tasks run last
    found = runner.results(stub, "tiny", tmp_path)
    assert found[["n", "square"]].to_numpy().tolist() == [[3, 9], [1, 1], [2, 4]]
    assert "core" in runner.measured_on(stub, "tiny", tmp_path)


def test_timings_wait_for_a_quiet_machine_and_disturbed_ones_are_repeated(
    stub, tmp_path, monkeypatch, capsys
):
    """Other processes use all of two cores during the first attempt, and none during the second."""
    clock, before = {"worked": 100.0}, iter([(0.02, 5.0), (0.05, 0.0)])

    def run(kind, n):
        stub.ran.append(n)
        if stub.ran == [3]:
            clock["worked"] += 50.0
        return {"square": n * n}

    stub.run, stub.tasks = run, lambda _: [TIMED]
    monkeypatch.setattr(machine, "wait_until_quiet", lambda: next(before))
    monkeypatch.setattr(machine, "busy_seconds", lambda: clock["worked"])
    runner.run_all(stub, "tiny", tmp_path, jobs=0)
    assert stub.ran == [3, 3]
    assert "disturbed: others used" in capsys.readouterr().err
    [entry] = runner.entries(runner.log_path(stub, tmp_path))
    found = {name: entry[name] for name in ("busy_before", "waited", "attempt", "busy")}
    assert found == {"busy_before": 0.05, "waited": 0.0, "attempt": 2.0, "busy": 0.0}
    assert "Before each of the 1 timings at most 0.05 cores" in runner.measured_on(
        stub, "tiny", tmp_path
    )


def test_waiting_ends_when_the_machine_is_quiet(monkeypatch):
    busy = iter([1.9, 0.8, 0.1, 0.0])
    monkeypatch.setattr(machine, "busy_cores", lambda: next(busy))
    monkeypatch.setattr(machine.time, "sleep", lambda _: None)
    assert machine.wait_until_quiet()[0] == 0.1
    assert machine.wait_until_quiet(0.0)[0] == 0.0


@pytest.mark.skipif(not machine.STAT.exists(), reason="only Linux tells how busy its cores are")
def test_a_busy_core_is_noticed():
    with process_that_never_sleeps():
        assert machine.busy_cores(0.5) > 0.5


@contextmanager
def process_that_never_sleeps():
    busy = subprocess.Popen([sys.executable, "-c", "print(1, flush=True)\nwhile True: pass"],
                            stdout=subprocess.PIPE)  # fmt: skip
    try:
        busy.stdout.readline()
        yield
    finally:
        busy.kill()
        busy.communicate()


def test_unfinished_experiments_say_so(stub, tmp_path):
    stub.tasks = lambda _: QUICK
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    assert report.unfinished(stub, "tiny", tmp_path) == []
    stub.tasks = lambda _: [TIMED, *QUICK]
    assert report.unfinished(stub, "tiny", tmp_path) == ["**2 of 3 tasks have run so far.**"]


def test_tables_of_the_folder_are_left_out_without_it(capsys):
    left = runner.possible(eq3, eq3.tasks("page"), None)
    assert {task["table"] for task in left} == set(datasets.SHARED)
    assert "higgs is left out; it needs --data" in capsys.readouterr().err


def test_wall_time_counts_parallel_tasks_once():
    done = [{"ended": end, "seconds": took} for end, took in ((10, 5), (12, 5), (30, 2))]
    assert runner.wall_seconds(done) == 9
    assert runner.wall_seconds([*done, {"seconds": 1}]) is None  # an entry of an older version


def test_results_of_removed_tasks_are_left_out(stub, tmp_path):
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    stub.tasks = lambda _: QUICK[:1]
    assert runner.results(stub, "tiny", tmp_path).n.tolist() == [1]


def test_a_task_whose_line_was_cut_off_is_run_again(stub, tmp_path, capsys):
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    path = runner.log_path(stub, tmp_path)
    path.write_text(path.read_text()[:-30] + "\n")
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    assert stub.ran == [1, 2, 3, 3]
    assert "is no result" in capsys.readouterr().err
    assert len(runner.results(stub, "tiny", tmp_path)) == 3


def test_failed_tasks_are_reported_and_retried(stub, tmp_path, monkeypatch):
    """All tasks fail in separate processes, where the stub module does not exist."""
    with pytest.raises(ValueError, match="3 tasks failed"):
        runner.run_all(stub, "tiny", tmp_path, jobs=3, quiet=False)
    with pytest.raises(ValueError, match="no results yet"):
        runner.results(stub, "tiny", tmp_path)
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    assert len(runner.results(stub, "tiny", tmp_path)) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the memory limit")
def test_a_task_that_exceeds_its_memory_limit_is_recorded(tmp_path):
    task = {"n": 3_000_000, "columns": 29, "bins": "binning", "threads": 1, "memory": 6e8}
    big = modules(["big_data"])[0]
    ((_, outcome),) = runner.ended(big, [task], None, 1)
    assert outcome.status == "failed"
    assert "MemoryError" in outcome.reason


def test_a_task_that_takes_too_long_is_ended(tmp_path):
    task = {"n": 200_000, "columns": 60, "knots": 20, "n_iter": 3000, "limit": 0.01}
    ((_, outcome),) = runner.ended(modules(["h4"])[0], [task], None, 1)
    assert outcome.status == "late"


def test_a_published_log_has_no_tracebacks(stub, tmp_path):
    stub.KEEPS = ("failed",)
    runner.run_all(stub, "tiny", tmp_path, jobs=1, quiet=False)
    path = runner.log_path(stub, tmp_path)
    assert "Traceback" in path.read_text()
    lines = [json.loads(line) for line in runner.published(stub, tmp_path).splitlines()]
    assert [line["status"] for line in lines] == ["failed"] * 3
    assert all(line["reason"].startswith("ModuleNotFoundError") for line in lines)


def test_outcome_of_a_child_process():
    child = process.Child("json:dumps", {"obj": 1})
    outcome = child.outcome()
    assert (outcome.status, outcome.value, child.running()) == ("done", "1", False)


# --- reported results -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1.00"), (13.6, "13.6"), (0.02345, "0.0234"), (0.9996, "1.00"),
     (5432.1, "5,432"), (2.5e-7, "2.50e-07"), (3e12, "3.00e+12"), (float("nan"), ""),
     (-0.5, "-0.500")],
)  # fmt: skip
def test_numbers_have_three_digits(value, text):
    assert number(value) == text


def test_tables_are_markdown():
    table = Table(["a", "b"], [["x", 1.5], ["y", None]], "Title")
    assert table.markdown() == "Title:\n\n| a | b |\n|---|--:|\n| x | 1.50 |\n| y |  |"


def test_columns_of_text_are_left_aligned():
    table = Table(["a", "b", "c"], [["1.2 / 3", "x", "20,000"], ["-0.5%", "4", "out of memory"]])
    assert table.markdown().splitlines()[1] == "|--:|---|--:|"


def test_lists_in_words():
    assert listed([1, 2, 3], 1) == "1, 2 and 3"


@pytest.mark.parametrize(
    ("figures", "verdict"),
    [
        ([1.0, 2.0], "reproduced"),
        ([3.0, 5.0], "reproduced"),
        ([0.99, 5.0], "contradicted"),
        ([1.0, 5.01], "contradicted"),
        ([float("nan"), 3.0], None),
        ([], None),
        (None, None),
        ([1.0], None),
    ],
)
def test_verdicts(figures, verdict):
    claim = Claim("text", "paper", "measure", at_least=(1.0, 2.0), at_most=5.0)
    assert claim.verdict(figures) == verdict
    superseded = Claim("text", "paper", "measure", (1.0, 2.0), 5.0, superseded="why")
    below = verdict == "contradicted" and figures[0] < 1  # not above
    assert superseded.verdict(figures) == ("superseded" if below else verdict)
    missing = Claim("text", "paper", "measure", (1.0, 2.0), 5.0, missing="R")
    assert missing.verdict(figures) == (verdict or "not testable here")
    assert missing.told("not testable here") == "R"


def test_conditions_in_words():
    claim = Claim("text", "paper", "ratio", (None, 2.0), 5.0, note="half of the paper's")
    assert claim.condition() == "ratio: at most 5.00 / 2.00 to 5.00 (half of the paper's)"
    claim = Claim("text", "paper", "ratio", (0.5, 2.0), 5.0)
    assert claim.condition() == "ratio: at least 0.500 / 2.00 and at most 5.00"


def test_every_claim_has_a_condition_or_says_what_is_missing():
    assert set(CLAIMS) == set(NAMES)
    for claim in (claim for of in CLAIMS.values() for claim in of.values()):
        bounded = claim.at_least is not None or claim.at_most is not None
        assert bounded or claim.missing, claim.text
    assert claims.HISTORY


def test_the_overview_counts_claims_by_experiment_and_verdict():
    of_h2 = Finding({"same": [1.0, 1.0, 1.0], "same_all": [9.0]}, "")
    found = {"h2": of_h2, "eq1": Finding({}, "")}
    counts, listing = report.overview(modules(["h2", "eq1"]), found)
    head = ["experiment", *VERDICTS, "not measured yet"]
    assert list(counts.head) == head
    assert counts.rows == [
        ["H2", "1", "", "", "1", "2"],
        ["EQ1", "", "", "2", "", "2"],
        ["all", "1", "", "2", "1", "4"],
    ]
    assert len(listing.rows) == 8
    assert listing.rows[0][-1] == "**reproduced**"


def test_verdicts_of_unfinished_experiments_say_so():
    found = Finding({"faster": [9.0] * 4}, "", so_far=True)
    assert "| **reproduced** so far |" in report.told(eq1, found)
    assert "| **not testable here** |" in report.told(eq1, found)
    assert "so far" not in report.told(eq1, Finding({"faster": [9.0] * 4}, ""))


def test_figures_of_unknown_claims_are_refused():
    with pytest.raises(ValueError, match=r"h1: no claim is called speed"):
        report.judged("h1", Finding({"speed": [1.0]}, ""))


def test_pages_become_html():
    page = "# A\n\nsome **bold** `a < b` [two\nwords](url)\n\n- one\n- two\n\n"
    page += "| h | i | j |\n|---|--:|--:|\n| a | 2 |  |\n"
    html = report.as_html(page, {})
    assert "<h1>A</h1>" in html
    assert '<b>bold</b> <code>a &lt; b</code> <a href="url">two\nwords</a>' in html
    assert "<li>two</li>" in html
    assert "<th class=text>h</th><th>i</th><th>j</th></tr>" in html
    assert "<tr><td class=text>a</td><td>2</td><td></td></tr></table>" in html


# --- data -----------------------------------------------------------------------------------------


def test_draws_share_columns_and_differ_in_noise():
    first, second = (simulated.draw(4000, 3, 2.0, 0.5, draw=k) for k in range(2))
    assert len(first.table) == 9
    assert all(np.array_equal(first.table[name], second.table[name]) for name in first.table)
    noise = first.y - first.eta
    assert not np.array_equal(noise, second.y - second.eta)
    assert noise.std() == pytest.approx(first.eta.std() / 0.5, rel=0.05)


class Shifted:
    """A model whose effects are the true effects plus a constant."""

    def __init__(self, data, by):
        self.data, self.by = data, by

    def effect(self, name, n):
        column = self.data.table[name]
        x = np.linspace(column.min(), column.max(), n)
        at = self.data.simulation.effects(dict.fromkeys(self.data.informative, x))[name]
        mean = self.data.simulation.effects(self.data.table)[name].mean()
        return {name: x, "effect": at - mean + self.by}


def test_mise_is_the_integral_over_the_range():
    data = simulated.draw(500, 3, 1.0, 1.0)
    widths = [np.ptp(data.table[name]) for name in data.informative]
    assert simulated.mise(Shifted(data, 0.0), data) == pytest.approx(0, abs=1e-20)
    assert simulated.mise(Shifted(data, 2.0), data) == pytest.approx(4 * np.mean(widths))


def test_tables_are_prepared_as_in_the_paper():
    levels = [f"L{k}" for k in range(15) for _ in range(15 - k)]
    n = len(levels)
    numbers = np.arange(n, dtype=float)
    numbers[3] = np.nan
    text = pd.Series(["a", None, *["b"] * (n - 2)])
    frame = pd.DataFrame({"x": numbers, "t": text, "many": levels, "same": np.ones(n)})
    prepared = datasets.prepare(frame)
    assert list(prepared) == ["x", "t", "many"]
    assert prepared.x[3] == np.nanmedian(numbers)
    assert prepared.t[1] == "b"
    assert len(prepared.many.cat.categories) == 10
    assert (prepared.many == "other").sum() == sum(range(1, 7))


def test_tables_and_folds_come_from_the_folder(tmp_path):
    y = np.arange(40) % 2
    table = pd.DataFrame({"x1": np.arange(40.0), "class": y})
    table.to_parquet(tmp_path / "higgs_35k.parquet")
    table.to_parquet(tmp_path / "spam.parquet")
    own = pd.DataFrame({"dataset": "spam", "row": np.arange(40), "fold": 1 + np.arange(40) % 5})
    own[::-1].to_parquet(tmp_path / "paper_folds.parquet")
    higgs, spam = (datasets.load(name, tmp_path) for name in ("higgs", "Spam"))
    assert np.bincount(higgs.fold).tolist() == [0, 8, 8, 8, 8, 8]
    assert spam.fold.tolist() == (1 + np.arange(40) % 5).tolist()
    X, y_train, X_test, _ = spam.split(2)
    assert (len(X), len(y_train), X_test.x1.tolist()[:2]) == (32, 32, [1.0, 6.0])
    assert len(datasets.load("Spam", tmp_path, rows=10).y) == 10
    with pytest.raises(ValueError, match=r"no adult\.parquet; without --data it comes from OpenML"):
        datasets.load("Adult", tmp_path)
    with pytest.raises(ValueError, match=r"census is not read from OpenML; pass --data"):
        datasets.load("census", None)


@pytest.mark.parametrize("name", datasets.PAPER)
def test_without_a_folder_tables_come_from_openml(name, monkeypatch):
    source, requested = datasets.PAPER[name], []

    def fetch_openml(data_id, **_):
        requested.append(data_id)
        frame = pd.DataFrame({"x1": np.r_[-999.0, np.arange(39.0)], "V81": np.arange(40.0)})
        frame["target"] = np.array(["no", "yes"])[np.arange(40) % 2]
        return types.SimpleNamespace(frame=frame, target=frame.target)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    problem = datasets.load(name, None)
    assert requested == [source.openml]
    assert list(problem.X) == (["x1"] if "V81" in source.drop else ["x1", "V81"])
    assert problem.X.x1[0] == (-999 if source.missing is None else 19)
    assert problem.y.tolist() == [0, 1] * 20


def test_without_a_network_the_error_asks_for_a_folder(monkeypatch):
    def fetch_openml(**_):
        raise OSError("no route")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch_openml)
    with pytest.raises(ValueError, match=r"OpenML 44 .*no route.*--data FOLDER"):
        datasets.load("Spam", None)


def test_learners_by_kind_of_column():
    X = pd.DataFrame(
        {"a": np.arange(9.0), "b": np.arange(9) % 2, "c": pd.Categorical(list("xyz") * 3)}
    )
    learners = variants.learners(X, 5, 10)
    assert [type(x).__name__ for x in learners] == ["Spline", "Linear", "Category"]
    assert learners[2].df == 3  # at most the number of levels
    assert variants.optimizer("HCWB (b)", 0.2).momentum == 0.037
    assert variants.bins_of("ACWB (nb)") == "exact"


# --- figures with a known true value --------------------------------------------------------------


@pytest.mark.parametrize(
    "optimizer",
    [cb.Plain(0.05), cb.Accelerated(0.05, 0.037), cb.Hybrid(0.05, 0.037, then="training")],
    ids=repr,
)
def test_fits_that_share_their_rows_are_those_of_cb_fit(optimizer):
    data = simulated.draw(n=16_000, p=2, relative=1.0, snr=1.0)
    rows = h3.binned_rows(data)
    h3.fit(rows, cb.Plain(0.05), 300)
    assert len(rows.split.crosses) > 0
    shared = h3.fit(rows, optimizer, 300)
    alone = cb.fit(
        data.table, data.y, simulated.splines(data.table), optimizer=optimizer, n_iter=300,
        bins="exact", validation=(data.table, data.eta), n_threads=1,
    )  # fmt: skip
    assert shared.choices == alone.choices
    assert shared.best_iteration == alone.best_iteration
    np.testing.assert_array_equal(shared.validation_risk, alone.validation_risk)
    assert simulated.mise(shared, data) == simulated.mise(alone, data)


def test_power_law_finds_the_exponents():
    rng = np.random.default_rng(0)
    found = pd.DataFrame({name: rng.uniform(1, 100, 30) for name in h4.VARIABLES})
    found["loop"] = 3e-6 * found.n * found["columns"] ** 0.5 * found.d**0 * found.n_iter**2
    law = h4.PowerLaw(found)
    assert list(law.exponents.values()) == pytest.approx([1, 0.5, 0, 2], abs=1e-9)
    assert law.r2 == pytest.approx(1)
    assert law.at(found) == pytest.approx(found.loop.to_numpy())


def test_beta_regression_detects_only_the_true_effect():
    rng = np.random.default_rng(1)
    rows = []
    for k, table in enumerate("abcdef"):
        for variant in variants.VARIANTS:
            logit = 1 + 0.4 * k - 0.3 * variant.startswith("ACWB") + rng.normal(0, 0.02)
            rows.append({"table": table, "variant": variant, "auc": 1 / (1 + np.exp(-logit))})
    effects, tests = eq2.beta_regression(pd.DataFrame(rows))
    assert effects.p["ACWB"] < 1e-6
    assert effects.estimate["ACWB"] == pytest.approx(-0.3, abs=0.05)
    assert effects.p["HCWB"] > 0.01
    assert tests["binning"][1] > 0.01
    assert tests["algorithm"][1] < 1e-6
    assert tests["table"][0] > 100


def test_h1_tells_where_the_ratio_of_memory_falls():
    rows = [5_000, 50_000, 100_000]
    grown = h1.growth(pd.Series([2.0, 3.0, 4.0], rows))
    assert grown.startswith("That ratio is 2.00 with 5,000 rows and 4.00 with 100,000;")
    fallen = h1.growth(pd.Series([2.0, 5.0, 4.0], rows))
    assert "2.00 with 5,000 rows, 5.00 with 50,000 and 4.00 with 100,000 (from 66,049" in fallen


def test_search_keeps_the_best_settings_and_iteration(monkeypatch):
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(2)
    X = pd.DataFrame({"a": rng.normal(size=300), "b": rng.normal(size=300)})
    y = ((X.a > 0) ^ (X.b > 0)).to_numpy().astype(int)  # needs a tree of depth 2 or more
    drawn = iter([{"min_samples_leaf": 140}, {"min_samples_leaf": 5}, {"min_samples_leaf": 149}])
    rungs = types.SimpleNamespace
    bracket = (rungs(budget=1, n=3), rungs(budget=9, n=2))
    monkeypatch.setattr(eq3, "schedule", lambda _: (bracket,))

    def make(settings, budget, n_jobs):
        assert n_jobs == 2
        return DecisionTreeClassifier(max_depth=budget, random_state=0, **settings)

    def course(settings, budget, train, test, before):
        """A depth of 7 is the best of all depths."""
        assert (before is None) == (budget == 1)  # the second rung resumes the fits of the first
        known = np.empty(0) if before is None else before[0]
        leaf = 150 - settings["min_samples_leaf"]
        more = [leaf * (1 - abs(m - 7) / 100) for m in range(len(known) + 1, budget + 1)]
        return np.r_[known, more], None

    settings, fit = eq3.searched(
        X, y, make, course, lambda _: next(drawn), "any", 2, limit=100
    )  # fmt: skip
    assert settings == {"min_samples_leaf": 5, "budget": 7, "configurations": 3}
    assert np.mean((fit()(X) > 0.5) == y) > 0.95


def test_a_search_ends_at_its_limit(monkeypatch):
    X, y = pd.DataFrame({"a": np.arange(30.0)}), np.arange(30) % 2
    rungs = types.SimpleNamespace
    brackets = [(rungs(budget=2, n=5),), (rungs(budget=2, n=2),)]  # the last one runs first
    monkeypatch.setattr(eq3, "schedule", lambda _: brackets)
    clock = iter(range(1000))
    monkeypatch.setattr(eq3.time, "perf_counter", lambda: next(clock))

    def course(settings, budget, train, test, _):
        return np.array([0.5, settings["value"]]), None

    values = iter([0.6, 0.9, 0.95, 0.99, 0.7, 0.7, 0.7])
    settings, _ = eq3.searched(
        X, y, None, course, lambda _: {"value": next(values)}, "any", 1, limit=9
    )  # fmt: skip
    assert settings == {"value": 0.9, "budget": 2, "configurations": 2}


def test_schedule_of_the_paper():
    brackets = eq3.schedule("paper")
    assert sum(bracket[0].n for bracket in brackets) == 314
    assert [tuple(rung) for rung in brackets[0]][:2] == [(39, 128), (78, 64)]
    (small,) = eq3.schedule("small")
    assert [tuple(rung) for rung in small] == [(62, 16), (250, 4), (1000, 1)]


def jobs(learners, untuned=(), folds=(1, 2, 3, 4, 5)):
    """Return results of EQ3: rivals have an AUC 1% larger, and take 4 times as long."""
    return pd.DataFrame(
        {"table": table, "fold": fold, "learner": who, "status": "done",
         "schedule": None if who in untuned or (table != "Spam" and "CWB" not in who) else "paper",
         "auc": 0.9 if "CWB" in who else 0.909, "configurations": 314,
         "seconds_of_job": 1.0 if "CWB" in who else 4.0, "seconds_of_fit": 1.0}
        for table in datasets.SHARED for fold in folds for who in learners
    )  # fmt: skip


def verdicts(name, finding):
    return dict(zip(CLAIMS[name], (v for *_, v in report.judged(name, finding)), strict=True))


def test_eq3_compares_only_what_was_tuned_alike():
    found = verdicts("eq3", eq3.table(jobs(eq3.LEARNERS)))
    assert found == {"auc": "reproduced", "ebm": "reproduced", "xgboost": "contradicted",
                     "average": "not testable here"}  # fmt: skip
    figures = eq3.table(jobs(eq3.LEARNERS)).figures
    assert figures["auc"] == pytest.approx([1, 1, 1])
    assert figures["ebm"] == pytest.approx([4])
    untuned = eq3.table(jobs(eq3.LEARNERS, untuned=("EBM",)))
    assert set(untuned.figures) == {"auc", "xgboost"}
    assert "[4.00]" in untuned.tables[1].markdown()
    cut = jobs(eq3.LEARNERS)  # searches that were cut off give lower bounds
    cut.loc[~cut.learner.str.contains("CWB"), "configurations"] = 100
    assert eq3.table(cut).figures["ebm"] == pytest.approx([4])
    assert "EBM on Spam was cut off after 100 to 100 of 314" in eq3.table(cut).why
    assert eq3.table(jobs(eq3.LEARNERS)).why == ""
    cut.loc[cut.learner == "XGBoost", "seconds_of_job"] = 0.5
    assert eq3.table(cut).figures["xgboost"] == []
    one = jobs(eq3.LEARNERS)
    assert verdicts("eq3", eq3.table(one[one.table == "Spam"]))["auc"] is None


def test_eq3_shows_means_and_standard_deviations():
    done = jobs(eq3.LEARNERS)
    done.loc[done.learner == "EBM", "auc"] += 0.01 * (done.fold - 3)
    aucs = eq3.table(done).tables[0].markdown()
    assert "| EBM | 0.986 / 0.9090 (0.0158) |" in aucs
    assert "| ACWB (b) | 0.969 / 0.9000 (0.0000) |" in aucs


def test_eq3_without_rivals(monkeypatch, capsys):
    assert not eq3.table(jobs(eq3.LEARNERS[:2])).figures
    monkeypatch.setitem(eq3.MODULES, "EBM", "no_such_module")
    left = runner.possible(eq3, eq3.tasks("small"), Path())
    assert {task["learner"] for task in left} == {"ACWB (b)", "HCWB (b)", "XGBoost"} - {
        eq3.absent({"learner": "XGBoost"})
    }
    assert "EBM is not installed and is left out" in capsys.readouterr().err


def eq2_results(run=5000):
    """Return results of EQ2: CWB runs `run` iterations, the others stop at 100.

    CWB (nb) takes 2 s, CWB (b) 1 s, the others 0.5 s. HCWB reaches every AUC of CWB in half of the
    iterations; ACWB ends below.
    """
    rng = np.random.default_rng(3)
    seconds = {variants.BASE: 2.0, "CWB (b)": 1.0}
    stopped = pd.DataFrame(
        {"kind": "stopped", "rule": rule, "table": table, "fold": fold, "variant": variant,
         "most": 5000, "run": run if variant.startswith("CWB") else 100, "iterations": 50,
         "auc": 0.8 + 0.02 * k + rng.normal(0, 1e-4) - 0.005 * (variant == "ACWB (b)"),
         "seconds_of_fit": seconds.get(variant, 0.5)}
        for rule in eq2.RULES
        for k, table in enumerate(datasets.SHARED)
        for fold in (1, 2)
        for variant in variants.VARIANTS
    )  # fmt: skip
    steps = np.array([1, 10, 100, 500, 1000])
    pace = {"CWB": 1.0, "ACWB": 0.5, "HCWB": 2.0}
    course = pd.DataFrame(
        {"kind": "course", "table": table, "fold": fold, "variant": variant,
         "steps": steps.tolist(),
         "aucs": (0.7 + 1e-4 * steps * pace[variants.method_of(variant)]).tolist()}
        for table in datasets.SHARED
        for fold in (1, 2)
        for variant in variants.VARIANTS
    )  # fmt: skip
    return pd.concat([stopped, course])


def test_eq2_compares_with_both_baselines():
    found = eq2.table(eq2_results())
    row = {r[0]: r for r in found.tables[0].rows}["ACWB (b)"]
    at = [list(datasets.PAPER).index(name) for name in datasets.SHARED]
    published = np.array([eq2.PAPER_TABLE["ACWB (b)"][k][0] for k in at])
    binned = np.array([eq2.PAPER_TABLE["CWB (b)"][k][0] for k in at])
    expected = [published.mean(), 4, 4, (published / binned).mean(), 2, 2]
    assert row[1:] == pytest.approx(expected)
    assert found.figures["speed_acwb"] == pytest.approx([4, 4])
    assert found.figures["speed_binning"] == pytest.approx([2, 1, 1])
    assert found.figures["hybrid_slower"] == pytest.approx([1, 1])
    assert found.figures["loss"][0] == pytest.approx(-0.005, abs=3e-4)
    assert found.figures["learns_faster"] == pytest.approx([2, 2, 2])
    assert found.figures["declines"] == pytest.approx([0, 0, 0])
    assert found.figures["corrected"] == pytest.approx([0.15, 0.15, 0.15])
    assert verdicts("eq2", found)["speed_hcwb"] == "reproduced"


def test_eq2_reports_fits_that_reached_the_cap():
    capped = eq2.table(eq2_results()).tables[-3]
    assert capped.title == "Share of fits that reached 5,000 iterations"
    assert capped.rows == [[f"{rule} rule", "100%", "0%", "0%"] for rule in eq2.RULES]
    assert eq2.table(eq2_results(400)).tables[-3].rows[0][1] == "0%"


@pytest.mark.parametrize(("estimate", "p", "one_sided"), [(-1, 0.1, 0.05), (1, 0.1, 0.95)])
def test_p_values_of_a_lower_auc(estimate, p, one_sided):
    assert eq2.one_sided(pd.Series({"estimate": estimate, "p": p})) == pytest.approx(one_sided)


def test_h3_compares_iterations_and_errors_with_cwb():
    """MISE of CWB 1; of ACWB 1 + 100 times the momentum; CWB needs 100 times as many iterations,
    at the larger momenta 200 times."""
    rows = [
        {"kind": "ratio", "n": 100, "p": 2, "relative": 1.0, "draw": 0, "snr": snr, "capped": False,
         "method": method, "momentum": momentum, "mise": mise, "iterations": iterations}
        for snr in simulated.SNR
        for method, momentum, mise, iterations in [
            ("CWB", None, 1.0, 2000),
            *(("ACWB", m, 1 + 100 * m, 10 if m > 0.02 else 20) for m in h3.FEW_MOMENTA),
            *(("HCWB", m, 0.9, 1000) for m in h3.FEW_MOMENTA),
        ]
    ]  # fmt: skip
    risks = {"CWB": [8, 4, 3, 2, 1.5, 1.4, 1.3, 1.2], "HCWB": [8, 2, 1.1, 1], "ACWB": [8, 2, 6]}
    rows += [{"kind": "example", "method": name, "risk": risk} for name, risk in risks.items()]
    figures = h3.table(pd.DataFrame(rows)).figures
    assert figures["iterations"] == pytest.approx([100] * 3)
    assert figures["striking"] == pytest.approx([2, 2, 2, 1, 1, 1])
    assert figures["mise_noise"] + figures["mise"] == pytest.approx([-0.67] * 3)  # two momenta
    assert figures["mise_small"] == pytest.approx([1e-4] * 2)
    assert figures["default"] == pytest.approx([1.34] * 3)
    assert figures["hybrid_mise"] == pytest.approx([0.1] * 3)
    assert figures["trace"] == pytest.approx([3, 2, 7 / 2])
    assert h3.first_below(0.5, risks["HCWB"]) == np.inf  # so that the claim is not reproduced


def test_the_log_of_tasks_is_json_lines(tmp_path, stub):
    runner.run_all(stub, "tiny", tmp_path, jobs=0, quiet=False)
    lines = Path(runner.log_path(stub, tmp_path)).read_text().splitlines()
    entry = json.loads(lines[0])
    assert (entry["task"], entry["rows"], entry["status"]) == (QUICK[0], [{"square": 1}], "done")
    assert {"processor", "date", "load"} <= set(entry["machine"])


def test_parameters_of_levels_are_matched_by_name():
    """L10 sorts before L2, which is not the order of the true parameters."""
    data = categorical.draw(3000, 2, 1.0, 10.0, 12)
    for coding in ("ridge", "binary"):
        estimates = categorical.parameters(categorical.fit(data, coding, 3000), data)
        assert categorical.judge(estimates, data)["mse_centred"] < 0.1


def test_sentences_agree_with_the_numbers():
    paper = {("ridge", snr): 1.0 for snr in simulated.SNR} | {("binary", 0.1): 0.5}
    mse = pd.DataFrame({"mse": pd.Series({("binary", s): 0.3 for s in (1.0, 10.0)} | paper)})
    sentence = categorical.order(mse, list(simulated.SNR))
    assert sentence.count("reversed") == 1
    assert "At signal to noise 0.1" in sentence


def test_recorded_memory_limits_replace_the_requested_ones():
    requested = [big_data.LIMIT, big_data.LIMIT, big_data.TIGHT]
    found = pd.DataFrame({"memory": requested})
    assert big_data.limits(found) == {big_data.LIMIT: 25.28e9, big_data.TIGHT: 8e9}
    found["limit_set"] = [16e9, np.nan, np.nan]
    assert big_data.limits(found)[big_data.LIMIT] == 16e9


def test_the_size_of_a_fit_that_ran_out_of_memory_is_infinite():
    found = pd.DataFrame(
        {"n": 10, "columns": 3, "bins": bins, "memory": big_data.LIMIT, "status": status,
         "gigabytes": size, "limit_set": 40e9, "reason": reason}
        for bins, status, size, reason in (("binning", "done", 1.5, ""),
                                           ("no binning", "failed", None, "MemoryError: no"))
    )  # fmt: skip
    assert big_data.fit_size(found, 10, 3, "binning") == 1.5
    assert big_data.fit_size(found, 10, 3, "no binning") == float("inf")
    assert np.isnan(big_data.fit_size(found.assign(limit_set=20e9), 10, 3, "no binning"))
    with pytest.raises(ValueError, match="not for lack of memory: ImportError"):
        big_data.fit_size(found.assign(reason="ImportError"), 10, 3, "no binning")
    assert big_data.of_table(1_000_000_000, 3) == 8


def test_courses_are_compared_by_their_first_crossing():
    steps = np.array([1, 100, 500, 1000])
    plateau, slow = np.array([0.5, 0.8, 0.8, 0.8]), np.array([0.5, 0.6, 0.7, 0.9])
    assert eq2.first_at(0.8, steps, plateau) == 100
    assert eq2.first_at(0.8, steps, slow) == pytest.approx(750)
    assert eq2.first_at(0.95, steps, slow) == np.inf
    lines = {variants.BASE: (steps, plateau), "HCWB (nb)": (steps, slow)}
    assert eq2.head_start(lines) == pytest.approx(100 / 750)


def test_acceleration_by_pairs_of_fits():
    rows = [{"method": m, "bins": "nb", "search": "full", "n": n, "columns": 5, "d": 24,
             "n_iter": 100, "loop": n * times} for n in (10, 1000, 5000)
            for m, times in (("CWB", 1.0), ("ACWB", 2.0 if n > 10 else 9.0))]  # fmt: skip
    assert h4.twice(pd.DataFrame(rows)) == 2


def test_the_published_page_has_the_verdicts_of_the_published_results(tmp_path):
    docs = Path(__file__).parents[1] / "docs"
    page = (docs / "paper.md").read_text(encoding="utf-8")
    shutil.copytree(docs / report.PICTURES, tmp_path, dirs_exist_ok=True)
    for module in modules(NAMES):
        finding, _ = report.found(module, "page", tmp_path)
        _, _, section = page.partition(f"## {module.TITLE}\n")
        section = section.partition("\n## ")[0]
        for claim, _, verdict in report.judged(runner.short_name(module), finding):
            [row] = [line for line in section.splitlines()
                     if line.startswith(f"| {claim.text} | {claim.paper} |")]  # fmt: skip
            assert row.endswith(f"| {report.bold(verdict, finding.so_far)} |")
            assert claim.told(verdict) in row
