"""Tests of the benchmarks of quality: tables and folds, what is stored, verdicts.

Tables are made up and tiny. The measured figures are not checked.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

from benchmarks import process, quality, quality_data, quality_report, recover, rivals, variants
from benchmarks.__main__ import main
from benchmarks.machine import source_commit
from benchmarks.problems import Rows
from benchmarks.process import Outcome


def wage(n=120):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 60, n)
    job = pd.Categorical(rng.choice(["a b", "c", "d"], n))
    pay = 50.0 + age + rng.normal(size=n)
    return pd.DataFrame({"age": age, "job [x]": job, "wage": pay, "logwage": np.log(pay)})


def claims(n=120):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.uniform(size=n) for name in ("IDpol", "Exposure", "Density")})
    return table.assign(ClaimNb=rng.poisson(0.5, n))


@pytest.fixture
def folder(tmp_path):
    wage().to_parquet(tmp_path / "wage.parquet")
    claims().to_parquet(tmp_path / "freMTPL2freq.parquet")
    return tmp_path


# --- tables ---------------------------------------------------------------------------------------


def test_every_row_is_a_test_row_once(folder):
    tests = [quality_data.load(folder, "wage", fold).test for fold in quality_data.FOLDS]
    assert sorted(np.concatenate([rows.y for rows in tests])) == sorted(wage()["wage"])
    problem = quality_data.load(folder, "wage", 1)
    assert len(problem.train.y) + len(problem.test.y) == 120
    assert list(problem.train.table) == ["x0", "x1"]  # neither target nor logwage


def test_exposure_is_not_a_column(folder):
    problem = quality_data.load(folder, "freMTPL2", 2)
    assert list(problem.train.table) == ["x0"]
    assert set(problem.test.exposure) < set(claims()["Exposure"])


def test_the_last_class_is_one_and_classes_are_stratified(tmp_path):
    table = pd.DataFrame({"ID": range(50), "a": range(50), "default": [0, 0, 0, 0, 1] * 10})
    table.to_parquet(tmp_path / "credit_default.parquet")
    problem = quality_data.load(tmp_path, "credit", 3)
    assert (problem.train.y.mean(), problem.test.y.mean()) == (0.2, 0.2)


def test_folds_of_the_paper(tmp_path):
    pd.DataFrame({"a": range(10), "class": [0, 1] * 5}).to_parquet(tmp_path / "spam.parquet")
    folds = {"dataset": ["spam"] * 10, "row": range(10), "fold": [2] * 3 + [1] * 7}
    pd.DataFrame(folds).to_parquet(tmp_path / "paper_folds.parquet")
    assert list(quality_data.load(tmp_path, "spam", 2).test.table["x0"]) == [0, 1, 2]


def test_preparation_gives_complete_columns_and_known_levels():
    numbers = pd.Series([*np.arange(30.0), np.nan])
    text = pd.Categorical([*["a"] * 20, *["b"] * 10, None])
    train = pd.DataFrame({"x": numbers, "t": text, "few": [0, 1] * 15 + [1], "one": 1})
    prepared = variants.Preparation(train)
    assert list(prepared(Rows(train, numbers.to_numpy())).table) == ["x", "t", "few"]
    new = pd.DataFrame({"x": [np.nan, 3], "t": ["z", None], "few": [1, 7], "one": 2})
    found = prepared(Rows(new, np.zeros(2))).table
    assert list(found["x"]) == [14.5, 3.0]
    assert list(found["t"]) == ["a", "missing"]
    assert list(found["few"]) == ["1", "1"]


# --- figures --------------------------------------------------------------------------------------


def test_a_constant_rate_explains_nothing_and_the_truth_everything():
    exposure = np.array([1.0, 0.5, 2.0, 1.0])
    rows = Rows(pd.DataFrame(), np.array([1.0, 0.0, 3.0, 2.0]), exposure)
    constant = quality.errors("poisson", rows, exposure * 6 / 4.5)
    assert constant["d2"] == pytest.approx(0)
    assert quality.errors("poisson", rows, rows.y)["d2"] == pytest.approx(1)
    assert quality.errors("gamma", Rows(pd.DataFrame(), exposure), exposure) == {
        "r2": 1.0, "deviance": pytest.approx(0)
    }  # fmt: skip
    assert quality.errors("squared", rows, rows.y + 2)["rmse"] == pytest.approx(2)
    classes = Rows(pd.DataFrame(), np.array([0.0, 1.0, 1.0, 0.0]))
    assert quality.errors("binomial", classes, np.array([0.1, 0.9, 0.8, 0.3]))["auc"] == 1


def test_a_process_that_uses_too_much_cpu_is_late():
    limit = "from benchmarks.process import at_most_cpu; at_most_cpu(0.1)"
    found = process.call("timeit:timeit", {"stmt": "while True: pass", "setup": limit}, limit=60)
    assert (found.status, found.reason) == ("late", "it used all of its CPU seconds")


def test_libraries_are_looked_for_in_the_other_interpreter(tmp_path, capsys):
    interpreters = {True: sys.executable, False: sys.executable}
    found = variants.installed_by("recover", ["cwboost", "ebm-main"], interpreters)
    assert found["cwboost"] == source_commit()
    assert ("ebm-main" in found) != ("without ebm-main: interpret-core" in capsys.readouterr().err)
    with pytest.raises(ValueError, match="no-python: expected a Python interpreter"):
        variants.installed_by("recover", [], {False: str(tmp_path / "no-python")})


def test_variants_are_not_compared_by_default():
    own = {variant.rival for group in variants.GROUPS.values() for variant in group.values()}
    assert variants.EbmPairs in own
    assert variants.EbmPairs not in rivals.RIVALS.values()
    assert rivals.RIVALS["ebm"] is rivals.Ebm


# --- which fits are run ---------------------------------------------------------------------------


def test_stored_fits_are_not_run_again():
    fit = ("spam", 2, "ebm")
    done = {fit: {"version": "1", "auc": 0.5}}
    assert quality.needed({}, fit, "1", again=False)
    assert not quality.needed(done, fit, "1", again=False)
    assert quality.needed(done, fit, "1", again=True)
    assert quality.needed(done, fit, "2", again=False)
    failed = {fit: quality.record(fit, "1", Outcome("failed", reason="a\nMemoryError"))}
    assert failed[fit]["failed"] == "MemoryError"
    assert not quality.needed(failed, fit, "1", again=False)


def test_a_table_that_took_too_long_is_not_tried_on_other_folds():
    late = {("spam", 1, "ebm"): quality.record(("spam", 1, "ebm"), "1", Outcome("late"))}
    for again in (True, False):
        assert not quality.needed(late, ("spam", 2, "ebm"), "1", again)
    assert quality.needed(late, ("spam", 2, "ebm"), "2", again=False)
    assert quality.needed(late, ("adult", 2, "ebm"), "1", again=False)


@pytest.mark.slow
def test_quality_runs_and_resumes(folder, capsys, monkeypatch):
    stored = folder / "stored.jsonl"
    arguments = ["quality", str(folder), "--who", "cwboost", "--sets", "wage", "freMTPL2"]
    arguments += ["--folds", "1", "--results", str(stored)]
    page = folder / "page.md"
    page.write_text("<!-- benchmarks: quality --><!-- /benchmarks -->")
    main([*arguments, "--into", str(page)])
    wages, counts = (json.loads(line) for line in stored.read_text().splitlines())
    assert wages["r2"] > 0.5
    assert {"d2", "deviance", "cpu_seconds"} < set(counts)
    assert "| wage | R² | " in page.read_text(encoding="utf-8")
    monkeypatch.setattr(quality, "call", lambda *_, **__: pytest.fail("it was stored"))
    capsys.readouterr()
    main(arguments)
    assert "| wage | R² | " in capsys.readouterr().out


# --- the report -----------------------------------------------------------------------------------


def results(**metrics):
    """Return five folds per "who" of Spam (AUC) with these metrics, and CPU seconds 1 to 20."""
    seconds = {"cwboost": 1.0, "cwboost_pairs": 1.0, "ebm_main": 20.0, "ebm": 5.0}
    return {
        ("spam", fold, who.replace("_", "-")): {"auc": auc, "cpu_seconds": seconds[who]}
        for who, auc in metrics.items()
        for fold in quality_data.FOLDS
    }


@pytest.mark.parametrize(
    ("auc", "verdict"), [(0.93, "win"), (0.9015, "tie"), (0.8985, "tie"), (0.897, "loss")]
)
def test_small_differences_are_ties(auc, verdict):
    (found,) = quality_report.compare(results(cwboost=auc, ebm_main=0.9), "cwboost", "ebm-main")
    assert found.verdict == verdict
    assert found.time == pytest.approx(1 / 20)


def test_only_common_folds_are_compared():
    found = results(cwboost=0.9, ebm_main=0.9)
    found["spam", 1, "ebm-main"] = {"late": 600.0}
    found["spam", 2, "cwboost"] = {"auc": 0.8, "cpu_seconds": 1.0}
    (line,) = quality_report.compare(found, "cwboost", "ebm-main")
    assert (line.folds, str(line)) == (4, "spam -0.0250 (se 0.0250, 4 of 5 folds)")


def test_targets_are_met_or_missed():
    found = results(cwboost=0.9, ebm_main=0.9, cwboost_pairs=0.95, ebm=0.96)
    mains, pairs, time = quality_report.targets(found).splitlines()[2:]
    assert mains.endswith("| 1 | met |")
    assert pairs.endswith("| 1 | missed: spam -0.0100 (se 0.0000) |")
    assert time.endswith("| 1 | missed: spam 1/5 |")
    assert quality_report.targets({}).count("not measured") == 3


def test_the_page_names_all_versions():
    found = {
        ("spam", 1, "ebm"): {"version": "2"},
        ("spam", 2, "ebm-main"): {"version": "1"},
        ("spam", 1, "cwboost"): {"version": "abc", "auc": 0.5, "cpu_seconds": 1.0},
    }
    last = quality_report.page(found).splitlines()[-1]
    assert last.startswith("Versions: cwboost abc, interpret-core 1 and 2.")


def test_cells_name_missing_folds_limits_and_failures():
    fold = {"auc": 0.5, "cpu_seconds": 1234.0}
    assert quality_report.cell([fold] * 5, "auc") == "0.5000"
    assert quality_report.cell([fold, None], "auc") == "0.5000 (1)"
    assert quality_report.cell([fold] * 5, "cpu_seconds") == "1234"
    assert quality_report.cell([{"late": 600.0}, None], "auc") == "> 600 s"
    assert quality_report.cell([{"failed": "why"}], "auc") == "failed"
    assert quality_report.cell([None], "auc") == ""


# --- recovered functions --------------------------------------------------------------------------


def test_slow_libraries_get_few_rows():
    found = recover.wanted(["squared", "paper"], [1_000, 100_000], ["cwboost", "pygam", "lightgbm"])
    assert found == [
        ("squared", 1_000, "cwboost"), ("squared", 1_000, "pygam"),
        ("squared", 100_000, "cwboost"), ("paper", 100_000, "cwboost"),
        ("paper", 100_000, "lightgbm"),
    ]  # fmt: skip


@pytest.mark.parametrize("problem", recover.CURVES)
def test_the_truth_has_no_error(problem):
    task = recover.make_task(problem, 500, 0)
    assert recover.error(task.truth + 3, task) == pytest.approx(0, abs=1e-12)
    assert recover.error(0 * task.truth, task) == pytest.approx(task.truth.std())


@pytest.mark.slow
def test_recover_runs_and_prints_verdicts(tmp_path, capsys):
    stored = tmp_path / "stored.jsonl"
    fit = {"problem": "squared", "rows": 1000, "seed": 0, "who": "superglm", "version": "1"}
    stored.write_text(json.dumps(fit | {"error": 1e-3, "cpu_seconds": 9.0}) + "\n")
    arguments = ["recover", "--problems", "squared", "--rows", "1000", "--seeds", "1"]
    main([*arguments, "--who", "cwboost", "--results", str(stored)])
    out = capsys.readouterr().out
    assert "| superglm | 0.0010, 9 s |  |  |" in out
    last = out.splitlines()[-1]
    assert last.startswith("| squared, n = 1,000: error at most superglm's | ")
    assert last.endswith(" of it | missed |")


def test_targets_of_recovery(tmp_path):
    keys = [("poisson", 100_000, seed, who) for seed in (0, 1) for who in ("cwboost", "superglm")]
    found = {key: {"error": 0.1, "cpu_seconds": 1.0 + 2 * (key[3] == "superglm")} for key in keys}
    found["paper", 100_000, 0, "cwboost"] = {"error": 0.21, "cpu_seconds": 1.4}
    results = [line.split(" | ")[1:] for line in recover.targets(found).splitlines()[2:]]
    assert results == [
        ["1.00 of it", "met |"], ["0.33 of it", "met |"], ["1.40 s", "met |"], ["0.210", "missed |"]
    ]  # fmt: skip
