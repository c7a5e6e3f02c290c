"""Tests of exported tables: the exact tables are enough to compute the predictions of a model, and
the tables for reading agree with them.

`predict_from_tables` uses only the tables. The models and the difficult rows are in
export_cases.py.
"""

from __future__ import annotations

import csv
import re
import stat
import sys
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest

import cwboost as cb
import export_cases as cases
import problems
from cwboost.export.tables import exact_tables, round_ends, score_tables, to_csv, to_excel

Rows = list[dict[str, Any]]  # a table, row by row; empty cells are None


# --- reading tables -------------------------------------------------------------------------------


def from_columns(table: dict[str, np.ndarray]) -> Rows:
    plain = [column.tolist() for column in table.values()]
    return [dict(zip(table, row, strict=True)) for row in zip(*plain, strict=True)]


def from_csv(file: Path) -> Rows:
    with file.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def from_sheet(sheet: Any) -> list[Rows]:
    """Return the tables of a sheet, which are separated by empty rows."""

    def unescaped(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return re.sub(r"_x([0-9A-F]{4})_", lambda m: chr(int(m[1], 16)), value)

    tables, head = [], None
    for cells in sheet.iter_rows(values_only=True):
        row = [unescaped(value) for value in cells]
        if all(value is None for value in row):
            head = None
        elif head is None:
            head = row
            tables.append([])
        else:
            tables[-1].append({k: v for k, v in zip(head, row, strict=True) if k is not None})
    return tables


def number(cell: Any, empty: float) -> float:
    return empty if cell in (None, "") else float(cell)


# --- using tables ---------------------------------------------------------------------------------


def position(rows: Rows, column: str, value: Any) -> int:
    """Return the number of the row that contains a value of one column."""
    kinds = [row[f"{column} is"] for row in rows]
    numeric = not isinstance(value, str) and value is not None
    if value is None or (numeric and np.isnan(value)):
        return kinds.index("missing")
    if column in rows[0]:
        text = "True" if value is True else "False" if value is False else str(value)
        if numeric and not isinstance(value, bool):
            text = repr(int(value)) if value == int(value) else repr(float(value))
        for i, row in enumerate(rows):
            if kinds[i] == "level" and (row[column] or "") == text:
                return i
        return kinds.index("other")
    if "other" in kinds:  # the table distinguishes only missing cells
        return kinds.index("other")
    for i, row in enumerate(rows):
        low, high = number(row[f"{column} from"], -np.inf), number(row[f"{column} to"], np.inf)
        inside = low < value <= high if kinds[i] == "(from, to]" else low <= value < high
        if inside and kinds[i] != "missing":
            return i
    raise AssertionError(f"{value} lies in no row")


def effect_from(rows: Rows, columns: list[str], values: list[Any], output: str) -> float:
    """Return c0 + c1 t + ..., or c0_0 + c0_1 t + ..., of the row that contains the values."""
    if len(columns) == 1:
        row = rows[position(rows, columns[0], values[0])]
    else:
        second = [r for r in rows if same_place(r, rows[0], columns[0])]
        first = rows[:: len(second)]
        at = position(first, columns[0], values[0]), position(second, columns[1], values[1])
        row = rows[at[0] * len(second) + at[1]]
    t = [
        (value - float(row[f"{column} origin"])) / float(row[f"{column} width"])
        if f"{column} origin" in row and row[f"{column} is"] != "missing"
        else 0.0
        for column, value in zip(columns, values, strict=True)
    ]
    total = 0.0
    for name, cell in row.items():
        found = re.fullmatch(
            r"c(\d+)(?:_(\d+))?" + re.escape(f"[{output}]" if output else ""), name
        )
        if found:
            powers = [int(p) for p in found.groups() if p is not None]
            total += float(cell) * float(np.prod([x**p for x, p in zip(t, powers, strict=True)]))
    return total


def same_place(a: dict[str, Any], b: dict[str, Any], column: str) -> bool:
    keys = [f"{column} is", column, f"{column} from", f"{column} to"]
    return all(str(a.get(key)) == str(b.get(key)) for key in keys)


def columns_of(rows: Rows) -> list[str]:
    return [name[: -len(" is")] for name in rows[0] if name.endswith(" is")]


def predict_from_tables(
    intercept: Rows, terms: list[Rows], link: str, table: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return scores and responses (n, q), computed only from the tables."""
    outputs = [row.get("output", "") for row in intercept]
    n = len(next(iter(table.values())))
    score = np.tile([float(row["intercept"]) for row in intercept], (n, 1))
    cells = {name: column.tolist() for name, column in table.items()}
    for rows in terms:
        columns = columns_of(rows)
        for i in range(n):
            values = [cells[c][i] for c in columns]
            score[i] += [effect_from(rows, columns, values, output) for output in outputs]
    if link in ("log", "logit"):
        with np.errstate(over="ignore"):
            response = np.exp(score) if link == "log" else 1 / (1 + np.exp(-score))
            return {"score": score, "response": response}
    if link == "softmax":
        e = np.exp(score - score.max(axis=1, keepdims=True))
        return {"score": score, "response": e / e.sum(axis=1, keepdims=True)}
    return {"score": score, "response": score}


def link_of(model: cb.Model) -> str:
    links = {"binomial": "logit", "multinomial": "softmax"}
    return links.get(model.loss.name, "log" if model.loss.log_link else "identity")


def some(rows: dict[str, np.ndarray], n: int = 250) -> dict[str, np.ndarray]:
    """Return some of the rows, because looking them up one by one is slow."""
    at = np.random.default_rng(0).permutation(len(next(iter(rows.values()))))[:n]
    return {name: column[at] for name, column in rows.items()}


def check(model: cb.Model, intercept: Rows, terms: list[Rows], rows: Any, link: str) -> None:
    for kind, found in predict_from_tables(intercept, terms, link, rows).items():
        cases.assert_same(found, cases.predict(model, rows, kind))


# --- tests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", cases.KINDS)
def test_kinds_of_terms(kind):
    model = cases.kind_model(kind)
    intercept, *terms = map(from_columns, exact_tables(model).values())
    check(model, intercept, terms, some(cases.hard_rows(model, cases.make_table())), "identity")


@pytest.mark.parametrize("loss", problems.LOSSES)
def test_csv_of_losses(loss, tmp_path):
    model = cases.loss_model(loss)
    to_csv(model, tmp_path / "scores")
    folder = tmp_path / "scores"
    facts = {row["fact"]: row["value"] for row in from_csv(folder / "model.csv")}
    assert facts["link"] == link_of(model)
    terms = [from_csv(folder / "exact" / row["file"]) for row in from_csv(folder / "terms.csv")]
    rows = some(cases.hard_rows(model, cases.make_table()), 80)
    check(model, from_csv(folder / "exact" / "intercept.csv"), terms, rows, facts["link"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["scores"]


def test_hostile_names_and_levels(tmp_path):
    model = cases.hostile_model()
    rows = some(cases.hard_rows(model, cases.hostile_table()), 60)
    to_csv(model, tmp_path / "scores")
    index = from_csv(tmp_path / "scores" / "terms.csv")
    assert [row["term"] for row in index] == list(model.terms)
    exact = tmp_path / "scores" / "exact"
    terms = [from_csv(exact / row["file"]) for row in index]
    check(model, from_csv(exact / "intercept.csv"), terms, rows, "identity")
    to_excel(model, tmp_path / "scores.xlsx")
    book = openpyxl.load_workbook(tmp_path / "scores.xlsx")
    _, intercept, sheets = from_sheet(book["model"])
    assert [row["term"] for row in sheets] == list(model.terms)
    terms = [from_sheet(book[book.sheetnames[2 + 2 * i]])[0] for i in range(len(sheets))]
    check(model, intercept, terms, rows, "identity")


def test_excel_of_several_classes(tmp_path):
    model = cases.loss_model("multinomial")
    to_excel(model, tmp_path / "scores.xlsx")
    book = openpyxl.load_workbook(tmp_path / "scores.xlsx")
    facts, intercept, sheets = from_sheet(book["model"])
    assert {row["fact"]: row["value"] for row in facts}["link"] == "softmax"
    terms = []
    for row in sheets:
        after = book.sheetnames[book.sheetnames.index(row["sheet"]) + 1]
        assert after.endswith(" exact")
        terms += from_sheet(book[after])
    rows = some(cases.hard_rows(model, cases.make_table()), 40)
    check(model, intercept, terms, rows, "softmax")


@pytest.mark.parametrize("kind", ["step, missing", "category, missing", "tensor, two categories"])
def test_tables_for_reading_are_exact_without_curves(kind):
    model = cases.kind_model(kind)
    for name, exact in list(exact_tables(model).items())[1:]:
        table = score_tables(model)[name]
        power = next(key for key in exact if re.fullmatch(r"c0(_0)?", key))
        np.testing.assert_array_equal(table["effect"], exact[power])


@pytest.mark.parametrize("kind", ["spline", "polynomial", "tensor", "tensor, category"])
def test_tables_for_reading_show_effects_at_midpoints(kind):
    model = cases.kind_model(kind)
    name, term = next(iter(model.terms.items()))
    rows = from_columns(score_tables(model, n=10)[name])
    shown, cells = [], {column: [] for column in term.columns}
    for row in rows:
        if any(row[f"{c} is"] in ("missing", "other") for c in term.columns):
            continue
        shown.append(row["effect"])
        for c in term.columns:
            cells[c].append(row[c] if c in row else (row[f"{c} from"] + row[f"{c} to"]) / 2)
    found = model.contributions({c: np.array(v) for c, v in cells.items()})[name]
    np.testing.assert_allclose(shown, found, atol=1e-12)


def test_factors_and_odds_ratios():
    for loss, head, name in (("poisson", "factor", "factor"), ("binomial", "odds", "odds ratio")):
        model = cases.loss_model(loss)
        tables = score_tables(model)
        assert tables["intercept"][head][0] == pytest.approx(np.exp(model.intercept))
        np.testing.assert_allclose(tables["u"][name], np.exp(tables["u"]["effect"]))
    tables = score_tables(cases.loss_model("multinomial"))
    assert list(tables["intercept"]["output"]) == ["one", "three", "two"]
    np.testing.assert_allclose(tables["z"]["factor[two]"], np.exp(tables["z"]["effect[two]"]))
    assert "factor" not in score_tables(cases.kind_model("spline"))["u"]


def test_a_term_called_intercept():
    table = {"intercept": np.linspace(0, 1, 50)}
    tables = score_tables(cb.fit(table, table["intercept"], n_iter=5))
    assert list(tables) == ["intercept", "intercept (term)"]


@pytest.mark.parametrize(("low", "high", "n"), [(0, 1, 10), (-3.7, 12.2, 7), (1e9, 1e9 + 3, 5),
                                                (-1e-7, 2e-7, 20), (0.1, 0.3, 1)])  # fmt: skip
def test_round_ends(low, high, n):
    ends = round_ends(low, high, n)
    assert ends[0] == low
    assert ends[-1] == high
    assert (np.diff(ends) > 0).all()
    assert n / 2.5 <= len(ends) - 1 <= 2.5 * n + 2
    assert all(len(f"{e:.12g}") <= 12 for e in ends[1:-1])


def test_round_ends_of_a_constant_column():
    assert round_ends(3.0, 3.0, 20).tolist() == [3.0, 3.0]


def test_files_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    model = cases.kind_model("spline")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    with pytest.raises(
        FileExistsError, match="a folder with other files exists already; give another name"
    ):
        to_csv(model, tmp_path / "full")
    (tmp_path / "empty").mkdir()
    to_csv(model, tmp_path / "empty")
    assert stat.S_IMODE((tmp_path / "empty").stat().st_mode) == 0o755
    before = sorted(tmp_path.rglob("*"))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("cwboost.export.tables._write_csv", fail)
    with pytest.raises(OSError, match="disk full"):
        to_csv(model, tmp_path / "new")
    monkeypatch.setattr(openpyxl.Workbook, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        to_excel(model, tmp_path / "new.xlsx")
    assert sorted(tmp_path.rglob("*")) == before


def test_invalid_arguments_are_refused(tmp_path, monkeypatch):
    model = cases.kind_model("spline")
    with pytest.raises(ValueError, match="n: expected a whole number from 1"):
        score_tables(model, n=0)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'cwboost\[excel\]'"):
        to_excel(model, tmp_path / "m.xlsx")
