"""Tests of Dataset: fits equal in-memory fits bit for bit, errors name bad files, and no Dataset is
left half-written.

Some tests damage files of a saved Dataset on purpose.
"""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tracemalloc
import warnings
import zlib
from collections import Counter
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwboost as cb
from cwboost import progress
from cwboost._utils import leftovers, memory
from cwboost.cli.main import main
from cwboost.frames import dataset as dataset_module
from cwboost.frames import parquet
from cwboost.frames import saved_folder as store
from cwboost.frames.columns import Labels, Numbers
from cwboost.frames.read_frames import read
from odd_values import odd_versions

N = 3000


@pytest.fixture(scope="module")
def frame():
    """Return numbers with missing cells, integers, text, booleans, dates, weights, two targets."""
    rng = np.random.default_rng(1)
    out = pd.DataFrame(
        {
            "x": np.where(rng.random(N) < 0.05, np.nan, rng.normal(size=N)),
            "i": rng.integers(0, 40, N).astype(np.int16),
            "job": rng.choice(["cook", "pilot", "été", None], N, p=[0.4, 0.3, 0.2, 0.1]),
            "flag": rng.random(N) < 0.3,
            "day": pd.Timestamp("2024-02-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
            "w": rng.integers(0, 3, N).astype(float),
            "e": rng.uniform(0.5, 2.0, N),
        }
    )
    score = np.sin(2 * out.x.fillna(0)) + 0.02 * out.i + (out.job == "cook")
    out["n"] = rng.poisson(out.e * np.exp(score / 2))
    out["y"] = np.where(score + rng.normal(size=N) > 0.7, "yes", "no")
    return out


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    """Write the frame to four files of unequal length, with row groups of 400 rows."""
    out = tmp_path_factory.mktemp("rows")
    for k, (begin, end) in enumerate(pairwise([0, 100, 900, 1700, N])):
        frame.iloc[begin:end].to_parquet(out / f"part-{k}.parquet", row_group_size=400)
    return out


@pytest.fixture(autouse=True)
def no_columns_in_memory(monkeypatch):
    """Keep no columns in memory, so that small tables behave like large ones."""
    monkeypatch.setattr(dataset_module, "KEPT_BYTES", 0)


FEATURES = ["x", "i", "job", "flag", "day"]


def batches(frame, size=701):
    return (frame.iloc[i : i + size] for i in range(0, len(frame), size))


SOURCES = {
    "parquet": lambda frame, folder, roles: cb.Dataset.from_parquet(folder, **roles),
    "arrow": lambda frame, folder, roles: cb.Dataset.from_arrow(
        pyarrow.dataset.dataset(folder), **roles
    ),
    "duckdb": lambda frame, folder, roles: cb.Dataset.from_duckdb(
        duckdb.sql(f"select * from '{folder}/*.parquet'"), **roles
    ),
    "batches": lambda frame, folder, roles: cb.Dataset.from_batches(batches(frame), **roles),
}
FIT_OPTIONS = {
    "hybrid": {"loss": "binomial", "optimizer": cb.Hybrid(), "validation": 0.3},
    "weighted": {"loss": "binomial", "weights": "w", "learners": "auto", "validation": 0.2},
    "components": {"loss": "binomial", "optimizer": cb.Accelerated(), "learners": "components"},
    "coarse": {"loss": "binomial", "bins": "sqrt"},
}


def assert_same(a, b):
    """Assert that two models are equal bit for bit."""
    assert a.choices == b.choices
    np.testing.assert_array_equal(a.start, b.start)
    for name in ("risk", "validation_risk", "shares"):
        one, other = getattr(a, name), getattr(b, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    assert a.terms.keys() == b.terms.keys()
    assert (a.sizes.terms, a.sizes.columns) == (b.sizes.terms, b.sizes.columns)
    for name, term in a.terms.items():
        np.testing.assert_array_equal(term.coef, b.terms[name].coef)
        assert (term.smoothing, term.df) == (b.terms[name].smoothing, b.terms[name].df)
    for name, facts in a.columns.items():
        assert repr(facts) == repr(b.columns[name])


# --- the same model -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", FIT_OPTIONS)
@pytest.mark.parametrize("source", SOURCES)
def test_a_fit_equals_the_fit_in_memory(frame, folder, source, case):
    options = FIT_OPTIONS[case]
    roles = {"y": "y", "columns": FEATURES, "weights": options.get("weights")}
    dataset = SOURCES[source](frame, folder, roles)
    assert (dataset.n_rows, set(dataset.features)) == (N, set(FEATURES))
    columns = frame[list(dataset.names)]
    fit_options = {key: value for key, value in options.items() if key != "weights"}
    in_memory = cb.fit(columns, "y", n_iter=25, **options)
    assert_same(in_memory, cb.fit(dataset, n_iter=25, **fit_options))
    np.testing.assert_array_equal(in_memory.predict(columns), in_memory.predict(dataset))


@pytest.mark.parametrize("case", FIT_OPTIONS)
def test_a_saved_dataset_gives_the_same_model_before_and_after_bins_are_stored(
    frame, folder, tmp_path, case
):
    options = FIT_OPTIONS[case]
    roles = {"y": "y", "columns": FEATURES, "weights": options.get("weights")}
    saved = cb.Dataset.from_parquet(folder, **roles).save(tmp_path / "saved")
    fit_options = {key: value for key, value in options.items() if key != "weights"}
    in_memory = cb.fit(frame[list(saved.names)], "y", n_iter=25, **options)
    assert_same(in_memory, cb.fit(saved, n_iter=25, **fit_options))
    again = cb.Dataset.open(tmp_path / "saved")
    assert repr(again).endswith(f"in {tmp_path / 'saved'}>")
    assert again.roles == {role: name for role, name in roles.items() if role != "columns" and name}
    assert_same(in_memory, cb.fit(again, n_iter=25, **fit_options))


@pytest.mark.filterwarnings("ignore:cv. the best iteration")
def test_bins_of_a_saved_dataset_are_made_once(folder, tmp_path, monkeypatch):
    from cwboost.fitting import axis_binning

    calls = []
    original = axis_binning.bin_by_rule
    monkeypatch.setattr(axis_binning, "bin_by_rule", lambda *a: calls.append(1) or original(*a))
    saved = cb.Dataset.from_parquet(folder, y="n", columns=["x", "i"]).save(tmp_path / "saved")
    cb.fit(saved, n_iter=3)
    assert len(calls) == 2
    cb.cv(saved, n_iter=3, folds=2, extend=False, loss="poisson")
    cb.fit(cb.Dataset.open(tmp_path / "saved"), n_iter=3, learners=[cb.Spline("x", df=4)])
    assert len(calls) == 2
    for seed in (1, 2, 2):  # only the bins of the last split are stored
        cb.fit(saved, n_iter=3, validation=0.2, random_state=seed)
    assert len(calls) == 2 + 2 + 2
    assert len(list((tmp_path / "saved" / "bins").iterdir())) == 2


@pytest.mark.filterwarnings("ignore:cv. the best iteration")
def test_cv_and_tune_equal_those_in_memory(frame, folder):
    columns = [*FEATURES, "e", "n"]
    roles = {"y": "n", "exposure": "e", "columns": FEATURES}
    dataset = cb.Dataset.from_parquet(folder, **roles)
    options = {"loss": "poisson", "folds": 3, "random_state": 4}
    a = cb.cv(dataset, n_iter=20, extend=50, **options)
    b = cb.cv(frame[columns], "n", exposure="e", n_iter=20, extend=50, **options)
    np.testing.assert_array_equal(a.risk, b.risk)
    more = {"space": {"rate": cb.LogUniform(0.05, 0.5)}, "schedule": cb.RandomSearch(3, 20)}
    a = cb.tune(dataset, **more, **options)
    b = cb.tune(frame[columns], "n", exposure="e", **more, **options)
    assert a.best.parameters == b.best.parameters
    assert a.best.scores == b.best.scores
    assert_same(a.fit(), b.fit())


def test_a_classifier_takes_text_classes(frame, tmp_path):
    """Ordered categories with an unused level are accepted; unknown classes are refused."""
    job = pd.Categorical(frame.job.fillna("pilot"), ["pilot", "nurse", "été", "cook"], ordered=True)
    table = frame[["x", "i"]].assign(job=job)
    table.to_parquet(tmp_path / "f.parquet")
    dataset = cb.Dataset.from_parquet(tmp_path / "f.parquet", y="job")
    a = cb.CWBClassifier(n_iter=5).fit(dataset)
    b = cb.CWBClassifier(n_iter=5).fit(table[["x", "i"]], table.job.astype(object))
    assert a.classes_.tolist() == b.classes_.tolist() == ["cook", "pilot", "été"]
    assert a.classes_.dtype == b.classes_.dtype
    assert_same(a.model_, b.model_)
    assert_same(a.extend(2, dataset).model_, b.extend(2, table[["x", "i"]], table.job).model_)
    other = cb.Dataset.from_batches([{"x": [1.0], "i": [2], "job": ["king"]}], y="job")
    with pytest.raises(ValueError, match="class 'king' does not occur in the training rows"):
        a.extend(1, other)
    one = cb.Dataset.from_batches([{"x": [1.0, 2.0], "job": ["king", "king"]}], y="job")
    with pytest.raises(ValueError, match="y has only one class, 'king'"):
        cb.CWBClassifier().fit(one)
    with pytest.raises(ValueError, match="needs numbers, but y has the text 'cook'"):
        cb.CWBRegressor().fit(dataset)


@pytest.mark.filterwarnings("ignore:cv. the best iteration")
def test_estimators_take_a_dataset_for_x_and_y(frame, folder):
    X = frame[FEATURES]
    dataset = cb.Dataset.from_parquet(folder, y="y", weights="w", columns=FEATURES)
    a = cb.CWBClassifier(n_iter=20).fit(dataset)
    b = cb.CWBClassifier(n_iter=20).fit(X, frame.y, frame.w)
    assert_same(a.model_, b.model_)
    assert a.feature_names_in_.tolist() == FEATURES
    assert a.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(a.predict_proba(dataset), b.predict_proba(X))
    counts = cb.Dataset.from_parquet(folder, y="n", exposure="e", columns=FEATURES)
    c = cb.CWBRegressor("poisson", n_iter=20).fit(counts)
    d = cb.CWBRegressor("poisson", n_iter=20).fit(frame[[*FEATURES, "e"]], frame.n, exposure="e")
    assert_same(c.model_, d.model_)
    np.testing.assert_array_equal(c.predict(counts), d.predict(frame[[*FEATURES, "e"]]))
    e = cb.CWBRegressorCV("poisson", n_iter=20, cv=2).fit(counts)
    assert 0 < e.cv_result_.best_iteration <= 20


def test_a_dataset_can_be_sent_to_other_processes(folder, frame, tmp_path):
    dataset = cb.Dataset.from_parquet(
        folder, y="n", columns=["x", "i"], filters=[("flag", "==", True)]
    )
    saved = dataset.save(tmp_path / "d")
    for one in (dataset, saved):
        again = pickle.loads(pickle.dumps(one))
        assert (again.names, again.roles) == (one.names, one.roles)
        assert_same_column(again.table["x"], read(frame.loc[frame.flag, ["x"]])["x"])
    stream = cb.Dataset.from_batches(batches(frame))
    with pytest.raises(TypeError, match="save it to use it in another"):
        pickle.dumps(stream)


def test_arguments_override_the_roles_of_the_dataset(frame, folder):
    dataset = cb.Dataset.from_parquet(folder, y="y", columns=["x", "i", "n"])
    model = cb.fit(dataset, "n", n_iter=5)
    assert_same(model, cb.fit(frame[["x", "i", "n"]], "n", n_iter=5))  # y is not a feature
    formula = cb.fit(dataset, "n ~ s(x, df=4)", n_iter=5)
    assert list(formula.terms) == ["x"]
    with pytest.raises(TypeError, match="y is missing; give an array"):
        cb.fit(cb.Dataset.from_parquet(folder, columns=["x", "i"]))


# --- columns --------------------------------------------------------------------------------------


def test_levels_are_unified_across_files(tmp_path):
    parts = [["b", "é"], ["a", None], [None, None], ["b", "c"]]
    for k, cells in enumerate(parts):
        column = pa.array(cells, pa.string())
        if k == 3:
            column = column.dictionary_encode()
        if k == 2:
            column = pa.nulls(2)
        pq.write_table(pa.table({"job": column}), tmp_path / f"{k}.parquet")
    found = cb.Dataset.from_parquet(tmp_path / "*.parquet").table["job"]
    assert found.levels == ("a", "b", "c", "é")
    assert found.codes.tolist() == [1, 3, 0, -1, -1, -1, 1, 2]


def test_a_column_without_values_is_numeric_as_in_memory(tmp_path):
    tables = [{"x": [1.0, 2.0], "g": [None, None]}] * 2
    found = cb.Dataset.from_batches(tables, folder=tmp_path / "d").table["g"]
    assert isinstance(found, Numbers)
    assert np.isnan(found.values).all()


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(pd.Categorical(list("baab") * 5, categories=["b", "c", "a"], ordered=True)),
        pd.Series(pd.Categorical([10, 2, 10, 9] * 5)),
        pd.Series([2**60, 2**60 + 1] * 10),
        pl.Series(["u", None, "v", "w"] * 5, dtype=pl.Categorical),
        pd.Series([True, None, False, True] * 5, dtype="boolean"),
        pd.Series([-0.0, 1e300, np.nan, 0.1] * 5),
        np.array(["2024-01-01", "NaT"] * 10, "M8[s]"),
        np.array([1, 300, 70_000, -5] * 5),
    ],
    ids=["ordered", "numbers", "huge", "polars", "booleans", "floats", "dates", "integers"],
)
def test_a_column_in_batches_equals_the_whole_column(cells, tmp_path):
    whole = read({"x": cells})["x"]
    tables = [{"x": cells[i : i + 3]} for i in range(0, 20, 3)]
    dataset = cb.Dataset.from_batches(tables, folder=tmp_path / "d")
    assert_same_column(dataset.table["x"], whole)
    again = dataset.save(tmp_path / "e")
    assert_same_column(again.table["x"], whole)


def assert_same_column(found, expected):
    assert type(found) is type(expected)
    assert len(found) == len(expected)
    if isinstance(expected, Labels):
        assert found.levels == expected.levels
        np.testing.assert_array_equal(found.codes, expected.codes)
    else:
        assert (found.boolean, found.exact) == (expected.boolean, expected.exact)
        missing = np.isnan(expected.values)
        np.testing.assert_array_equal(np.isnan(found.values), missing)
        bits = found.values[~missing].view(np.int64)
        np.testing.assert_array_equal(bits, expected.values[~missing].view(np.int64))


@given(
    cells=st.lists(
        st.one_of(
            st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-300, 300)
        ),
        min_size=1,
        max_size=40,
    ),
    text=st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=40),
    size=st.integers(1, 9),
    piece=st.integers(1, 12),
)
@settings(max_examples=60, deadline=None)
def test_any_cells_in_any_batches_and_pieces_equal_the_whole_column(
    tmp_path_factory, cells, text, size, piece
):
    n = min(len(cells), len(text))
    x = np.array([np.nan if c is None else float(c) for c in cells[:n]])
    table = {"x": x, "t": text[:n]}
    parts = [{k: v[i : i + size] for k, v in table.items()} for i in range(0, n, size)]
    folder = tmp_path_factory.mktemp("any") / "d"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "PIECE_ROWS", piece)
        found = cb.Dataset.from_batches(parts, folder=folder)
    for name in table:
        assert_same_column(found.table[name], read(table)[name])


# --- which columns and row groups are read --------------------------------------------------------


@pytest.fixture
def reads(monkeypatch):
    """Record the columns and the row group of every read."""
    found = []
    original = parquet.ParquetFiles._batches_of

    def noted(self, opened, names, group):
        found.append((tuple(names), (self.files[group.file].name, group.number)))
        yield from original(self, opened, names, group)

    monkeypatch.setattr(parquet.ParquetFiles, "_batches_of", noted)
    return found


def test_only_needed_columns_are_read(folder, reads):
    dataset = cb.Dataset.from_parquet(folder, y="n")
    assert not reads  # only footers were read
    cb.fit(dataset, learners=[cb.Spline("x")], n_iter=3)
    assert {name for names, _ in reads for name in names} == {"n", "x"}


def test_a_default_fit_reads_a_column_of_numbers_twice_and_its_first_rows(folder, reads):
    cb.fit(cb.Dataset.from_parquet(folder, y="n", columns=["x"]), n_iter=3)
    times = Counter(group for names, group in reads if names == ("x",))
    first = min(times)
    assert times.pop(first) == 3
    assert set(times.values()) == {2}


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_identifier_columns_give_a_warning(tmp_path, sort, kind):
    """All rows count, not only the first ones; a single repeated number prevents the warning."""
    n = 3000
    rng = np.random.default_rng(1)
    order = np.arange(n) if sort else rng.permutation(n)
    again = order.copy()
    again[-1] = again[0]
    late = np.where(np.arange(n) < n // 2, np.nan, rng.normal(size=n))
    table = {"id": order + 7, "again": again, "late": late, "y": order % 3}
    pq.write_table(pa.table(table), tmp_path / "f.parquet", row_group_size=500)
    dataset = cb.Dataset.from_parquet(tmp_path / "f.parquet", y="y")
    if kind == "saved":
        dataset = dataset.save(tmp_path / "d")
    with pytest.warns(UserWarning, match="has a different whole number in every row") as found:
        model = cb.fit(dataset, n_iter=3)
    assert [str(each.message).split()[1] for each in found] == ["'id'"]
    with pytest.warns(UserWarning, match="'id'"):
        assert_same(cb.fit(table, "y", n_iter=3), model)


def test_only_needed_row_groups_are_read(frame, tmp_path, reads):
    ordered = frame.sort_values("i", ignore_index=True)
    ordered.to_parquet(tmp_path / "f.parquet", row_group_size=300)
    wanted = ordered.i >= 30
    dataset = cb.Dataset.from_parquet(
        tmp_path / "f.parquet", y="n", columns=["x"], filters=[("i", ">=", 30)]
    )
    assert dataset.n_rows == wanted.sum()
    assert_same(cb.fit(ordered.loc[wanted, ["x", "n"]], "n", n_iter=5), cb.fit(dataset, n_iter=5))
    groups = {group for _, (_, group) in reads}
    assert min(groups) == np.flatnonzero(wanted)[0] // 300
    with pytest.raises(ValueError, match=r"filters: expected a list of \(column, operator, value"):
        cb.Dataset.from_parquet(tmp_path, filters="i > 3")
    for bad in [("i", ">", "many")], [("i", "~", 3)], [("i", "in", 3)]:
        with pytest.raises(ValueError, match=r"filters: \[\('i', .*\)\] cannot be applied: "):
            cb.Dataset.from_parquet(tmp_path, filters=bad)


def test_filters_take_files_in_which_all_cells_are_missing(tmp_path):
    for k, cells in enumerate([pa.nulls(2), ["a", "b"], pa.nulls(3)]):
        pq.write_table(pa.table({"x": [float(k)] * len(cells), "c": cells}), tmp_path / f"{k}.pq")
    found = cb.Dataset.from_parquet(tmp_path, columns=["x"], filters=[("c", "in", ["a"])])
    assert found.table["x"].values.tolist() == [1.0]
    pq.write_table(
        pa.table({"x": [1.0], "c": pa.array(["a"]).dictionary_encode()}), tmp_path / "1.pq"
    )
    found = cb.Dataset.from_parquet(tmp_path, columns=["x"], filters=[("c", "==", "a")])
    assert found.table["x"].values.tolist() == [1.0]


def test_a_fit_never_has_the_table_in_memory(tmp_path, monkeypatch):
    """The 20 columns of floats take 160 bytes per row. In Python's memory, a fit keeps 2 bytes per
    cell, y and row marks, and two columns at its peak.
    """
    n, k = 60_000, 20
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.normal(size=n) for j in range(k)}
    table["y"] = rng.normal(size=n)
    pq.write_table(pa.table(table), tmp_path / "f.parquet", row_group_size=20_000)
    del table
    dataset = cb.Dataset.from_parquet(tmp_path / "f.parquet", y="y")
    gc.collect()
    monkeypatch.setattr(memory, "BLOCK", 1)  # allocate no spare room
    tracemalloc.start()
    cb.fit(dataset, n_iter=2, validation=0.2, bins="sqrt", n_threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak / n < 2 * k + 56


def test_progress_reports_the_columns_that_are_read(folder):
    class Recorder(progress.Progress):
        every = 0.0
        seen: list = []  # noqa: RUF012

        def draw(self, now, final):
            if self.tasks[-1].what == "column":
                self.seen.append(self.tasks[-1].facts.get("column"))

    cb.fit(
        cb.Dataset.from_parquet(folder, y="n", columns=["x", "i"]), n_iter=2, progress=Recorder()
    )
    assert {"n", "x", "i"} <= set(Recorder.seen)


def test_the_folder_of_a_stream_is_removed_with_its_dataset(frame):
    dataset = cb.Dataset.from_batches(batches(frame), y="n", columns=["x"])
    home = dataset._source.folder
    assert home.is_dir()
    model = cb.fit(dataset, n_iter=2)
    del dataset
    gc.collect()
    assert not home.exists()
    assert model.n_iter == 2


# --- bad files ------------------------------------------------------------------------------------


def copy_folder(folder, tmp_path):
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_a_truncated_file_is_named(folder, tmp_path):
    rows = copy_folder(folder, tmp_path)
    whole = (rows / "part-2.parquet").read_bytes()
    (rows / "part-2.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"part-2\.parquet: not a Parquet file, or cut off"):
        cb.Dataset.from_parquet(rows)
    (rows / "part-2.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"part-2\.parquet: not a Parquet file, or cut off"):
        cb.Dataset.from_parquet(rows)


def test_a_file_is_read_only_once(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(tmp_path / "a" / "b" / "part.parquet")
    # glob lists a file once for every way in which ** matches its path
    assert cb.Dataset.from_parquet(tmp_path / "**" / "**" / "part.parquet").n_rows == 2
    files = [tmp_path / "a", tmp_path / "a" / "b" / "part.parquet"]
    with pytest.raises(ValueError, match=r"part\.parquet: the file is listed more than once"):
        cb.Dataset.from_parquet(files)


def test_a_damaged_column_is_named_with_file_and_row_group(folder, tmp_path):
    rows = copy_folder(folder, tmp_path)
    file = rows / "part-3.parquet"
    where = pq.ParquetFile(file).metadata.row_group(1).column(0)
    raw = bytearray(file.read_bytes())
    begin = where.dictionary_page_offset or where.data_page_offset
    raw[begin : begin + where.total_compressed_size] = b"\xff" * where.total_compressed_size
    file.write_bytes(bytes(raw))
    dataset = cb.Dataset.from_parquet(rows, y="n", columns=["x", "i"])
    message = r"part-3\.parquet, row group 1, column 'x': cut off or damaged"
    with pytest.raises(ValueError, match=message):
        cb.fit(dataset, n_iter=2)
    with pytest.raises(ValueError, match=message):
        dataset.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    # Other columns can be used.
    assert cb.fit(dataset, learners=[cb.Spline("i")], n_iter=2).n_iter == 2


def test_a_footer_that_contradicts_itself_is_refused(tmp_path):
    file = tmp_path / "f.parquet"
    pq.write_table(pa.table({"x": np.arange(12345.0)}), file)
    raw = bytearray(file.read_bytes())
    in_row_group = raw.rindex(bytes([0xF2, 0xC0, 0x01]))  # 12345 as Thrift writes it
    raw[in_row_group + 2] = 0x41
    file.write_bytes(bytes(raw))
    message = r"f\.parquet: damaged: its row groups have \d+ rows, its footer says 12345"
    with pytest.raises(ValueError, match=message):
        cb.Dataset.from_parquet(file)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "f.parquet")
    with pytest.raises(ValueError, match=r"f\.parquet: not a regular file"):
        cb.Dataset.from_parquet(tmp_path)


DAMAGES = {
    "cut": lambda raw, at, rng: raw[:at],
    "flipped": lambda raw, at, rng: raw[:at] + bytes([raw[at] ^ 16]) + raw[at + 1 :],
    "noise": lambda raw, at, rng: raw[:at] + rng.bytes(min(64, len(raw) - at)) + raw[at + 64 :],
    "longer": lambda raw, at, rng: raw[:at] + rng.bytes(3) + raw[at:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_anywhere_is_named_or_harmless(frame, tmp_path, damage):
    """With checksums there is no crash, no changed table and no error without the file's name."""
    whole_rows = cb.Dataset.from_batches([frame])
    good = frame.iloc[2000:]
    frame.iloc[:2000].to_parquet(tmp_path / "a.parquet")
    good.to_parquet(tmp_path / "b.parquet", row_group_size=300, write_page_checksum=True)
    raw, rng = (tmp_path / "b.parquet").read_bytes(), np.random.default_rng(1)
    named = 0
    for at in rng.integers(0, len(raw), 25):
        (tmp_path / "b.parquet").write_bytes(DAMAGES[damage](raw, int(at), rng))
        try:
            found = cb.Dataset.from_parquet(tmp_path).table
            for name in found.names:
                assert_same_column(found[name], whole_rows.table[name])
        except (TypeError, ValueError) as error:
            assert "b.parquet" in str(error)  # noqa: PT017
            named += 1
    assert named > 15


def test_files_that_do_not_fit_together_are_named(frame, folder, tmp_path):
    rows = copy_folder(folder, tmp_path)
    frame.iloc[:10].drop(columns="i").to_parquet(rows / "part-9.parquet")
    with pytest.raises(ValueError, match=r"part-9\.parquet: column 'i' is not in the file; it has"):
        cb.Dataset.from_parquet(rows)
    assert cb.Dataset.from_parquet(rows, columns=["x"]).n_rows == N + 10
    frame.iloc[:10].assign(i="many").to_parquet(rows / "part-9.parquet")
    with pytest.raises(TypeError, match=r"part-9.*column 'i' is text \(.*\), but numbers \(int16"):
        cb.Dataset.from_parquet(rows)
    frame.iloc[:10].assign(i=0.5).to_parquet(rows / "part-9.parquet")
    # Integers in one file and floats in another are compatible.
    assert cb.Dataset.from_parquet(rows).table["i"].values[-1] == 0.5


def test_batches_that_do_not_fit_together_are_named(tmp_path):
    tables = [{"x": [1.0]}, {"x": ["a"]}]
    with pytest.raises(TypeError, match="column 'x': text in batch 1, but numbers in batch 0"):
        cb.Dataset.from_batches(tables, folder=tmp_path / "d")
    with pytest.raises(ValueError, match="column 'x' is not in the table; it has 'z'"):
        cb.Dataset.from_batches([{"x": [1.0]}, {"z": [1.0]}], folder=tmp_path / "d")
    with pytest.raises(ValueError, match="the Dataset has no rows"):
        cb.Dataset.from_batches([], folder=tmp_path / "d")
    assert not list(tmp_path.iterdir())


def test_a_file_that_changes_is_refused(frame, folder, tmp_path):
    rows = copy_folder(folder, tmp_path)
    dataset = cb.Dataset.from_parquet(rows, y="n", columns=["x"])
    frame.iloc[:50].to_parquet(rows / "part-1.parquet")
    with pytest.raises(ValueError, match=r"part-1\.parquet: the file has changed since"):
        cb.fit(dataset)


def test_rows_are_named_by_file_and_row_group(frame, tmp_path):
    bad = frame[["x", "n"]].astype(float)
    bad.loc[1234, "n"] = np.nan
    bad.to_parquet(tmp_path / "f.parquet", row_group_size=1000)
    dataset = cb.Dataset.from_parquet(tmp_path / "f.parquet", y="n")
    place = r"row 234 of .*f\.parquet, row group 1"
    with pytest.raises(ValueError, match=f"y, {place}: the value is missing"):
        cb.fit(dataset)
    with pytest.raises(ValueError, match=f"y, {place}: the value is missing"):
        cb.CWBRegressor().fit(dataset)
    bad["n"] = 1.0
    bad.loc[2005, "x"] = np.inf
    bad.to_parquet(tmp_path / "f.parquet", row_group_size=1000)
    with pytest.raises(ValueError, match=r"column 'x', row 5 of .*row group 2: the value is inf"):
        cb.fit(cb.Dataset.from_parquet(tmp_path / "f.parquet", y="n"))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda p: cb.Dataset.from_parquet(p / "no.parquet"), FileNotFoundError, "no such file"),
        (lambda p: cb.Dataset.from_parquet(p), FileNotFoundError, "the folder has no .parquet"),
        (lambda p: cb.Dataset.from_parquet(f"{p}/*.pq"), FileNotFoundError, "no file fits the"),
        (lambda p: cb.Dataset.from_parquet([]), ValueError, "list of Parquet files is empty"),
        (lambda p: cb.Dataset.from_parquet(3), TypeError, "expected the path of a Parquet file"),
        (lambda p: cb.Dataset.from_parquet(p, columns="x"), TypeError, "columns: expected a list"),
        (lambda p: cb.Dataset.from_parquet(p, y=3), TypeError, "y: expected the name of a column"),
        (
            lambda p: cb.Dataset.from_batches({"x": [1]}),
            TypeError,
            "expected an iterable of tables",
        ),
        (lambda p: cb.Dataset.from_batches(pd.DataFrame({"x": [1]})), TypeError, "got one DataFr"),
        (lambda p: cb.Dataset.from_batches(pl.DataFrame({"x": [1]})), TypeError, "got one DataFr"),
        (lambda p: cb.Dataset.from_batches(np.ones((3, 2))), TypeError, "got one ndarray"),
        (lambda p: cb.Dataset.from_arrow([1, 2]), TypeError, "expected a stream of record batches"),
        (lambda p: cb.Dataset.from_duckdb("select 1"), TypeError, "expected a relation such as"),
        (lambda p: cb.Dataset.open(p), FileNotFoundError, "not a saved Dataset"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, make, error, message):
    with pytest.raises(error, match=message):
        make(tmp_path)


def test_roles_must_be_columns(folder):
    with pytest.raises(ValueError, match="y: column 'z' is not in the Dataset; it has 'x', 'i'"):
        cb.Dataset.from_parquet(folder, y="z")
    relation = duckdb.sql("select 1 as x")
    with pytest.raises(ValueError, match="column 'z' is not in the table; it has 'x'"):
        cb.Dataset.from_duckdb(relation, columns=["z"])


# --- saved datasets -------------------------------------------------------------------------------


@pytest.fixture
def saved(frame, tmp_path):
    """Return a saved Dataset that stores the bins of a fit."""
    out = cb.Dataset.from_batches(batches(frame), y="n", columns=["x", "i"], folder=tmp_path / "d")
    cb.fit(out, n_iter=2)
    return out


def test_a_full_disk_keeps_the_old_dataset_and_leaves_no_other_files(saved, tmp_path, monkeypatch):
    before = {path: path.read_bytes() for path in (tmp_path / "d").rglob("*") if path.is_file()}
    original, written = store.ColumnWriter.flush, []

    def full(self, n):
        written.append(n)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        original(self, n)

    monkeypatch.setattr(store.ColumnWriter, "flush", full)
    for target in ("d", "other"):
        written.clear()
        with pytest.raises(OSError, match="the disk is full, so it was not written") as e:
            saved.save(tmp_path / target)
        assert e.value.errno == errno.ENOSPC
        assert str(tmp_path / target) in str(e.value)
    assert [path.name for path in tmp_path.iterdir()] == ["d"]
    assert before == {path: path.read_bytes() for path in before}


def test_a_read_only_folder_is_named(saved, tmp_path, monkeypatch):
    original = Path.mkdir

    def refused(self, *arguments, **options):
        if self.suffix == ".tmp":
            raise OSError(errno.EROFS, "Read-only file system", str(self))
        original(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refused)
    message = r"cannot be written there \(Read-only file system\); .*: '.*other'$"
    with pytest.raises(OSError, match=message):
        saved.save(tmp_path / "other")
    with pytest.raises(OSError, match=message):
        cb.Dataset.from_batches([{"x": [1.0]}], folder=tmp_path / "other")


def test_a_folder_that_is_removed_is_named(frame, saved, tmp_path):
    shutil.rmtree(tmp_path / "d")
    with pytest.raises(FileNotFoundError, match=r"/d: the folder of .* no longer exists"):
        cb.fit(saved, n_iter=3)
    assert not (tmp_path / "d").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
import cwboost as cb
rename, number = Path.rename, int(sys.argv[2])
def killed(self, target):
    global number
    number -= 1
    if number < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return rename(self, target)
Path.rename = killed
cb.Dataset.from_batches([{"x": [1.0, 2.0]}], folder=sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("renames", [0, 1])
def test_kill_9_while_saving_keeps_the_old_dataset(
    saved, tmp_path, tmp_path_factory, renames, monkeypatch
):
    """Kill before the old folder is moved away, or before the new folder takes its place."""
    before = (tmp_path / "d" / "dataset.json").read_bytes()
    command = [sys.executable, "-c", KILLED, str(tmp_path / "d"), str(renames)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "d").exists() == (renames == 0)
    again = shutil.copytree(tmp_path, tmp_path_factory.mktemp("copy"), dirs_exist_ok=True)
    assert cb.Dataset.open(tmp_path / "d").n_rows == N
    assert (tmp_path / "d" / "dataset.json").read_bytes() == before
    assert {path.suffix for path in tmp_path.iterdir()} == {"", ".tmp"}
    # Saving again removes temporary folders, except recent ones that may still be in use: those of
    # running processes and of other machines.
    other = again / f".cwboost-{'0' * 24}.tmp"
    other.mkdir()
    for abandoned in (False, True):
        leftovers.CLEANED.clear()
        monkeypatch.setattr(leftovers, "ABANDONED", -1.0 if abandoned else 60.0)
        assert cb.Dataset.from_batches([{"x": [1.0]}], folder=again / "d").n_rows == 1
        left = {path.name for path in again.iterdir()} - {"d"}
        assert left == (set() if abandoned else {other.name})


def test_ctrl_c_while_saving_leaves_nothing(frame, tmp_path):
    def interrupted():
        yield frame[["x"]]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cb.Dataset.from_batches(interrupted(), folder=tmp_path / "d")
    assert not list(tmp_path.iterdir())


def test_other_folders_are_not_overwritten(saved, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(FileExistsError, match="a folder with other files exists already"):
        saved.save(tmp_path / "mine")
    with pytest.raises(FileExistsError, match="a file exists already; give another name"):
        saved.save(tmp_path / "mine" / "letter.txt")
    with pytest.raises(FileNotFoundError, match="this folder does not exist; create it first"):
        saved.save(tmp_path / "no" / "d")
    assert saved.save(tmp_path / "d").n_rows == N  # a saved Dataset may replace itself


def flip(path, at):
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw))


def test_damage_is_noticed(saved, tmp_path):
    column = tmp_path / "d" / "columns" / "0.bin"
    flip(column, 1000)
    with pytest.raises(ValueError, match=r"0\.bin: damaged: the cells of column 'x'"):
        cb.Dataset.open(tmp_path / "d").table["x"]
    column.write_bytes(column.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"0\.bin: damaged: expected \d+ bytes of column 'x'"):
        cb.Dataset.open(tmp_path / "d")
    column.unlink()
    with pytest.raises(ValueError, match=r"0\.bin: damaged: expected .* no such file"):
        cb.Dataset.open(tmp_path / "d")


def test_damaged_text_is_noticed(frame, tmp_path):
    cb.Dataset.from_batches([frame[["job", "n"]]], y="n", folder=tmp_path / "d")
    column = tmp_path / "d" / "columns" / "0.bin"
    column.write_bytes(column.read_bytes()[:-1] + b"\x63")  # a level that does not exist
    with pytest.raises(ValueError, match=r"0\.bin: damaged: the cells of column 'job'"):
        cb.fit(cb.Dataset.open(tmp_path / "d"), n_iter=2)


def test_a_damaged_or_later_index_is_refused(saved, tmp_path):
    index = tmp_path / "d" / "dataset.json"
    good = json.loads(index.read_text())
    later = json.loads(index.read_text())
    later["dataset"]["version"] = 99
    index.write_text(json.dumps(later))
    with pytest.raises(ValueError, match="written by a later cwboost"):
        cb.Dataset.open(tmp_path / "d")
    good["dataset"]["n_rows"] += 1
    index.write_text(json.dumps(good))
    with pytest.raises(ValueError, match="damaged: it does not match its checksum"):
        cb.Dataset.open(tmp_path / "d")
    index.write_text("{")
    with pytest.raises(ValueError, match=r"damaged, or not written by Dataset\.save"):
        cb.Dataset.open(tmp_path / "d")
    index.write_text(json.dumps({"dataset": [1], "checksum": ""}))
    with pytest.raises(ValueError, match="not a saved Dataset of cwboost"):
        cb.Dataset.open(tmp_path / "d")


@pytest.fixture
def small(tmp_path):
    """Return the folder of a Dataset of a few rows, with the bins of a fit."""
    rows = {
        "u": [1.0, None, 3.5] * 9,
        "g": ["a", None, "b"] * 9,
        "y": [float(k) for k in range(27)],
    }
    saved = cb.Dataset.from_batches([rows], y="y").save(tmp_path / "small")
    cb.fit(saved, n_iter=2)
    return tmp_path / "small"


def use(folder):
    """Open a Dataset and fit it. The only errors allowed are sentences that begin with its name."""
    try:
        opened = cb.Dataset.open(folder)
        return cb.fit(opened, None if "y" in opened.roles else "y", n_iter=2)
    except ValueError as error:
        assert str(error).startswith(str(folder))  # noqa: PT017
        return None


def test_odd_values_in_an_index_with_the_right_checksum_are_refused(small):
    file = small / "dataset.json"
    whole = json.loads(file.read_text())["dataset"]
    answers = []
    for odd in odd_versions(whole):
        text = json.dumps(odd, ensure_ascii=False)
        checksum = hashlib.sha256(text.encode()).hexdigest()
        file.write_text(json.dumps({"checksum": checksum, "dataset": odd}))
        answers.append(use(small))
    assert sum(answer is None for answer in answers) > 0.9 * len(answers)


def test_an_unknown_unit_of_a_column_is_refused(small):
    file = small / "dataset.json"
    whole = json.loads(file.read_text())["dataset"]
    whole["columns"][0]["unit"] = "years"
    checksum = hashlib.sha256(json.dumps(whole).encode()).hexdigest()
    file.write_text(json.dumps({"checksum": checksum, "dataset": whole}))
    with pytest.raises(
        ValueError, match="unit: expected numbers, dates or durations, found 'years'"
    ):
        cb.Dataset.open(small)


def test_odd_cells_with_the_right_checksum_are_refused_or_used(small):
    """Codes beyond the levels are refused; any number can be a cell."""
    file, index = small / "columns" / "1.bin", small / "dataset.json"
    file.write_bytes(bytes([77]) * file.stat().st_size)
    whole = json.loads(index.read_text())["dataset"]
    whole["columns"][1]["crc32"] = zlib.crc32(file.read_bytes())
    text = json.dumps(whole, ensure_ascii=False)
    checksum = hashlib.sha256(text.encode()).hexdigest()
    index.write_text(json.dumps({"checksum": checksum, "dataset": whole}))
    with pytest.raises(ValueError, match=r"column 'g' are not codes of 2 levels; save the Dataset"):
        cb.fit(cb.Dataset.open(small), n_iter=2)


def test_odd_bins_with_the_right_checksum_are_made_again(small):
    before = use(small)
    for file in sorted((small / "bins").rglob("*.json")):
        header, data = json.loads(file.read_text()), file.with_suffix(".bin").read_bytes()
        del header["crc32"]
        beyond = data[:-1] + b"\xff"  # the last row is in a bin that does not exist
        for odd, content in [*((h, data) for h in odd_versions(header)), (header, beyond)]:
            check = zlib.crc32(content, zlib.crc32(json.dumps(odd).encode()))
            file.write_text(json.dumps({**odd, "crc32": check}))
            file.with_suffix(".bin").write_bytes(content)
            assert_same(before, use(small))


def test_damaged_bins_are_made_again(frame, saved, tmp_path):
    for path in (tmp_path / "d" / "bins").rglob("*.bin"):
        flip(path, path.stat().st_size - 1)
    in_memory = cb.fit(frame[["x", "i", "n"]], "n", n_iter=2)
    assert_same(in_memory, cb.fit(cb.Dataset.open(tmp_path / "d"), n_iter=2))


def test_bins_with_a_wrong_description_are_made_again(frame, saved, tmp_path):
    in_memory = cb.fit(frame[["x", "i", "n"]], "n", n_iter=2)
    descriptions = sorted((tmp_path / "d" / "bins").rglob("*.json"))
    good = [json.loads(path.read_text()) for path in descriptions]
    for key, bad in {"n_bins": 3, "dtype": "<u4", "n_rows": N - 1, "key": "", "crc32": 0}.items():
        for path, each in zip(descriptions, good, strict=True):
            path.write_text(json.dumps(each | {key: bad}))
        assert_same(in_memory, cb.fit(cb.Dataset.open(tmp_path / "d"), n_iter=2))
    for text in "[]", "3", "{}":
        descriptions[0].write_text(text)
        assert_same(in_memory, cb.fit(cb.Dataset.open(tmp_path / "d"), n_iter=2))


def test_bins_that_cannot_be_stored_stay_in_memory(frame, saved, tmp_path, monkeypatch):
    shutil.rmtree(tmp_path / "d" / "bins")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("cwboost.binning.bin_cache.replace_file", full)
    with pytest.warns(UserWarning, match=r"bins cannot be stored for later fits \(No space left"):
        model = cb.fit(saved, n_iter=2)
    assert_same(cb.fit(frame[["x", "i", "n"]], "n", n_iter=2), model)


# --- the command line -----------------------------------------------------------------------------


def test_predict_writes_a_folder_for_a_folder(frame, folder, tmp_path, capsys):
    model = cb.fit(frame[[*FEATURES, "y"]], "y", loss="binomial", n_iter=20)
    model.save(tmp_path / "m.json")
    rows = copy_folder(folder, tmp_path)
    changed = frame.iloc[:100].assign(job="unknown")
    changed.to_parquet(rows / "part-0.parquet", row_group_size=40)
    out = tmp_path / "out"
    arguments = ["predict", str(tmp_path / "m.json"), str(rows), "-o", str(out), "--keep", "i"]
    assert main(arguments) == 0
    assert capsys.readouterr().err.count("levels never seen in training") == 1
    assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in rows.iterdir())
    found = pd.read_parquet(out)
    everyone = pd.concat([changed, frame.iloc[100:]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.predict(everyone)
    np.testing.assert_array_equal(found["probability[yes]"], expected)
    np.testing.assert_array_equal(found["i"], everyone["i"])
    assert main(arguments) == 1
    assert "folder with other files exists already" in capsys.readouterr().err
    assert main([*arguments[:3], "-o", str(tmp_path / "one.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "one.csv")) == N


def test_predict_takes_a_pattern_and_writes_files_without_rows(frame, folder, tmp_path, capsys):
    model = cb.fit(frame[[*FEATURES, "y"]], "y", loss="binomial", n_iter=5)
    model.save(tmp_path / "m.json")
    rows = copy_folder(folder, tmp_path)
    frame.iloc[:0].to_parquet(rows / "part-0.parquet")
    for k, pattern in enumerate(["part-[01].parquet", "part-0*"]):
        out = tmp_path / f"out-{k}"
        arguments = ["predict", str(tmp_path / "m.json"), str(rows / pattern), "-o", str(out)]
        assert main([*arguments, "--keep", "i"]) == 0
        assert sorted(p.name for p in out.iterdir()) == sorted(p.name for p in rows.glob(pattern))
        nobody = pd.read_parquet(out / "part-0.parquet")
        assert len(nobody) == 0
        assert list(nobody) == ["i", "prediction", "probability[no]", "probability[yes]"]
    assert main([*arguments[:2], str(rows / "none-*"), "-o", str(tmp_path / "none")]) == 1
    assert "no file fits the pattern" in capsys.readouterr().err


def test_a_bad_file_leaves_no_predictions(frame, folder, tmp_path, capsys):
    cb.fit(frame[["x", "n"]], "n", n_iter=2).save(tmp_path / "m.json")
    rows = copy_folder(folder, tmp_path)
    (rows / "part-3.parquet").write_bytes(b"PAR1")
    arguments = ["predict", str(tmp_path / "m.json"), str(rows), "-o", str(tmp_path / "out")]
    assert main(arguments) == 1
    assert "part-3.parquet: not a Parquet file" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_fit_takes_a_folder(frame, folder, saved, tmp_path):
    for table in (folder, tmp_path / "d"):
        arguments = ["fit", str(table), "--target", "n", "--formula", "n ~ s(x) + s(i)"]
        arguments += ["--iterations", "10", "-o", str(tmp_path / "m.json"), "--quiet"]
        assert main(arguments) == 0
        model = cb.load(tmp_path / "m.json")
        assert set(model.terms) == {"x", "i"}
