"""Models as tables that people read: an effect for every interval or level, as CSV or Excel.

Knows how pieces are laid out as rows and how files are written whole or not at all; knows nothing
of bases. The only file that knows openpyxl (extra `excel`).

For every term there are two tables. The *score table* is for reading: smooth curves are shown at
the middle of rounded intervals. The *exact table* gives the model's own numbers for any value, by

    effect = c0 + c1 t + c2 t^2 + ...,    t = (x - origin) / width,

in the row that x falls in; `ci_j` is the coefficient of t^i of the first column and t^j of the
second. Where a table has no column c1 and no origin, c0 is the effect.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cwboost._utils.atomic_files import check_folder, replace_file, replace_folder
from cwboost._utils.checks import is_whole
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import Floats
from cwboost.model.model import Model
from cwboost.model.pieces import Axis, TermPieces, pieces_of

from .prediction import outputs_of

FACTORS = {"log": "factor", "logit": "odds ratio", "softmax": "factor"}  # exp(effect), by link
MAX_ROWS = 2**20 - 10  # of an Excel sheet
EXACT = "exact"  # the folder of the exact tables


def score_tables(model: Model, n: int = 20) -> dict[str, ResultTable]:
    """One table per chosen term, for reading, and the table "intercept" before them.

    Every row says where it holds and what it adds to the score; with a log link also the factor
    exp(effect) of the response, for the binomial loss the odds ratio. "<column> is" says what the
    row is about: the interval "[from, to)" or "(from, to]", a "level", "missing" cells, or any
    "other" level. Curves are shown at the middle of about n intervals with rounded ends (of n / 2
    for each of two columns); `exact_tables` has them exactly, and beyond the range too.

    Parameters
    ----------
    model : Model
    n : int
        About how many intervals a curve is cut into.

    Returns
    -------
    dict of tables, each a dict of arrays

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 6, 61)
    >>> score_tables(cb.fit({"x": x}, np.sin(x), n_iter=300), n=5)["x"]
          x is  x from  x to    effect
    [from, to)       0     1   0.47219
    [from, to)       1     2   0.99491
    [from, to)       2     3   0.59313
    [from, to)       3     4  -0.35353
    [from, to)       4     5   -0.9849
    [from, to)       5     6  -0.70247
       missing     nan   nan         0
    (7 rows)
    """
    if not (is_whole(n) and n >= 1):
        raise ValueError(f"n: expected a whole number of at least 1, got {n!r}")
    return _tables(model, lambda pieces: _readable(model, pieces, n))


def exact_tables(model: Model) -> dict[str, ResultTable]:
    """One table per chosen term that gives the model's own numbers, and the table "intercept".

    The score of a row is its offset, plus the intercept, plus for every term

        c0 + c1 t + c2 t^2 + ...,    t = (x - origin) / width,

    from the row of its table that the value falls in.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 6, 61)
    >>> list(exact_tables(cb.fit({"x": x}, np.sin(x)))["x"])
    ['x is', 'x from', 'x to', 'x origin', 'x width', 'c0', 'c1', 'c2', 'c3']
    """
    return _tables(model, lambda pieces: _exact(model, pieces))


def _tables(model: Model, make: Callable[[TermPieces], ResultTable]) -> dict[str, ResultTable]:
    out = {"intercept": _intercept(model)}
    for pieces in pieces_of(model):
        name = pieces.term.name
        out[f"{name} (term)" if name == "intercept" else name] = make(pieces)
    return out


def _intercept(model: Model) -> ResultTable:
    values = np.atleast_1d(model.intercept)
    out = ResultTable(intercept=values)
    if model.n_outputs > 1:
        out = ResultTable(output=np.array(outputs_of(model), dtype=object), intercept=values)
    factor = FACTORS.get(str(model.loss.link))
    if factor is not None:
        with np.errstate(over="ignore"):
            out["odds" if factor == "odds ratio" else factor] = np.exp(values)
    return out


# --- one term -------------------------------------------------------------------------------------


def _exact(model: Model, pieces: TermPieces) -> ResultTable:
    parts = [_described(axis, list(range(axis.n_pieces))) for axis in pieces.axes]
    for axis, part in zip(pieces.axes, parts, strict=True):
        if axis.degree > 0:
            part[f"{axis.column} origin"], part[f"{axis.column} width"] = axis.origin, axis.width
    out = _crossed(parts)
    if len(pieces.axes) == 1:
        powers = {f"c{j}": pieces.coef[:, j] for j in range(pieces.coef.shape[1])}
    else:
        rows, shape = len(next(iter(out.values()))), pieces.coef.shape
        powers = {
            f"c{i}_{j}": pieces.coef[:, :, i, j].reshape(rows, -1)
            for i in range(shape[2])
            for j in range(shape[3])
        }
    for name, block in powers.items():
        for label, values in zip(outputs_of(model), block.T, strict=True):
            out[_labelled(name, label)] = values.copy()
    return out


def _readable(model: Model, pieces: TermPieces, n: int) -> ResultTable:
    per_axis = n if len(pieces.axes) == 1 else max(1, n // 2)
    shown = [_shown(axis, model, per_axis) for axis in pieces.axes]
    out = _crossed([part for part, _ in shown])
    places = [place for _, place in shown]
    if len(places) == 2:
        pairs = _all_pairs([len(at) for at, _ in places])
        places = [(at[i], t[i]) for (at, t), i in zip(places, pairs, strict=True)]
    effect = pieces.effect(places)
    factor = FACTORS.get(str(model.loss.link))
    for label, column in zip(outputs_of(model), effect.T, strict=True):
        out[_labelled("effect", label)] = column.copy()
        if factor is not None:
            out[_labelled(factor, label)] = np.exp(column)
    return out


def _labelled(name: str, label: str) -> str:
    return f"{name}[{label}]" if label else name


def _described(axis: Axis, which: list[int]) -> ResultTable:
    """Where pieces hold."""
    kinds = ["level" if axis.breaks is None else _interval(axis)] * axis.n_known
    kinds += ["missing", "other"]
    out = ResultTable({f"{axis.column} is": np.array([kinds[i] for i in which], dtype=object)})
    if axis.breaks is None:
        levels = [*axis.levels, None, None]
        out[axis.column] = np.array([levels[i] for i in which], dtype=object)
        return out
    ends = [axis.bounds(i) if i < axis.n_known else (np.nan, np.nan) for i in which]
    out[f"{axis.column} from"], out[f"{axis.column} to"] = np.array(ends).T
    return out


def _interval(axis: Axis) -> str:
    return "(from, to]" if axis.closed_above else "[from, to)"


def _shown(axis: Axis, model: Model, n: int) -> tuple[ResultTable, tuple[Any, Floats]]:
    """Where the effect is shown, and the pieces and t that it is shown for."""
    if axis.degree == 0:
        every = np.arange(axis.n_pieces)
        return _described(axis, every.tolist()), (every, np.zeros(axis.n_pieces))
    facts = model.columns[axis.column]
    assert facts.low is not None
    assert facts.high is not None
    ends = round_ends(facts.low, facts.high, n)
    kinds = [_interval(axis)] * (len(ends) - 1) + ["missing"]
    out = ResultTable({f"{axis.column} is": np.array(kinds, dtype=object)})
    out[f"{axis.column} from"] = np.append(ends[:-1], np.nan)
    out[f"{axis.column} to"] = np.append(ends[1:], np.nan)
    at, t = axis.place(ends[:-1] + np.diff(ends) / 2)
    return out, (np.append(at, axis.n_known), np.append(t, 0.0))


def round_ends(low: float, high: float, n: int) -> Floats:
    """Ends of about n intervals from low to high: multiples of 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> round_ends(17.0, 90.0, 8)
    array([17., 20., 30., 40., 50., 60., 70., 80., 90.])
    """
    exact = (high - low) / n
    power = 10.0 ** np.floor(np.log10(exact))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(np.log(s / exact)))
    first, last = np.ceil(low / step), np.floor(high / step)
    # Divided rather than multiplied where that is exact: 3 / 10 is 0.3, 3 * 0.1 is not.
    inverse = round(1.0 / step)
    whole = np.arange(first, last + 1)
    inner = whole / inverse if inverse > 1 and step < 1 else whole * step
    inner = inner[(inner > low) & (inner < high)]
    return np.concatenate([[low], inner, [high]])


def _all_pairs(sizes: list[int]) -> list[Any]:
    return [index.ravel() for index in np.indices(sizes)]


def _crossed(parts: list[ResultTable]) -> ResultTable:
    """The columns of one part, or of all pairs of rows of two."""
    if len(parts) == 1:
        return parts[0]
    pairs = _all_pairs([len(next(iter(part.values()))) for part in parts])
    out = ResultTable()
    for part, rows in zip(parts, pairs, strict=True):
        for name, column in part.items():
            out[name if name not in out else f"{name} (2)"] = column[rows]
    return out


# --- files ----------------------------------------------------------------------------------------


def _facts(model: Model) -> ResultTable:
    """What a reader has to know beside the tables."""
    settings = model.settings
    facts = {
        "loss": model.loss.name,
        "link": model.loss.link or "a Python function",
        "classes": "; ".join(map(str, model.classes)),
        "offset": settings.offset or ("given for every row" if settings.needs_offset else ""),
        "exposure": settings.exposure or "",
        "score": "offset + log(exposure) + intercept + the effects of all terms",
        "effect": "c0 + c1 t + c2 t^2 + ..., t = (x - origin) / width",
    }
    return ResultTable(
        fact=np.array(list(facts), dtype=object), value=np.array(list(facts.values()), dtype=object)
    )


def _index(model: Model, files: list[str]) -> ResultTable:
    terms = [pieces.term for pieces in pieces_of(model)]
    return ResultTable(
        term=np.array([term.name for term in terms], dtype=object),
        learner=np.array([type(term.learner).__name__ for term in terms], dtype=object),
        file=np.array(files, dtype=object),
    )


def to_csv(model: Model, folder: Any, n: int = 20) -> None:
    """Writes the tables of a model as CSV files into a new folder, whole or not at all.

    `terms.csv` names the file of every term; the files of the folder itself are `score_tables`,
    those of its folder `exact` are `exact_tables`; `model.csv` says loss, link and classes. Ends of
    intervals that have none are empty.

    Parameters
    ----------
    model : Model
    folder : path
        Must not exist, or be empty.
    n : int
        About how many intervals a curve is cut into in the tables for reading.

    Examples
    --------
    >>> import cwboost as cb, os
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> to_csv(model, "scores")
    >>> sorted(os.listdir("scores"))
    ['01_g.csv', 'exact', 'intercept.csv', 'model.csv', 'terms.csv']
    """
    check_folder(folder)
    readable, exact = score_tables(model, n), exact_tables(model)
    files = [_file_name(i, name) for i, name in enumerate(list(readable)[1:], 1)]
    names = ["intercept.csv", *files]
    with replace_folder(folder) as temporary:
        (temporary / EXACT).mkdir()
        _write_csv(temporary / "model.csv", _facts(model))
        _write_csv(temporary / "terms.csv", _index(model, files))
        for file, table in zip(names, readable.values(), strict=True):
            _write_csv(temporary / file, table)
        for file, table in zip(names, exact.values(), strict=True):
            _write_csv(temporary / EXACT / file, table)


def _file_name(number: int, name: str) -> str:
    """A name that every file system takes; the number keeps names apart."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    return f"{number:02d}_{plain[:60]}.csv"


def _write_csv(file: Path, table: ResultTable) -> None:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(list(table))
        writer.writerows(_rows(table))


def _rows(table: ResultTable) -> Iterator[list[Any]]:
    """Rows of plain values, None where there is none (NaN, infinite ends)."""
    for row in zip(*(column.tolist() for column in table.values()), strict=True):
        yield [None if isinstance(v, float) and not np.isfinite(v) else v for v in row]


def to_excel(model: Model, file: Any, n: int = 20) -> None:
    """Writes the tables of a model as an Excel workbook, whole or not at all.

    The sheet "model" says loss, link, classes, intercept and the sheets of the terms; every term
    has a sheet for reading (`score_tables`) and one named "... exact" (`exact_tables`).

    Parameters
    ----------
    model : Model
    file : path
    n : int
        About how many intervals a curve is cut into in the tables for reading.

    Examples
    --------
    >>> import cwboost as cb, os
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> to_excel(model, "scores.xlsx")
    >>> os.path.exists("scores.xlsx")
    True
    """
    try:
        import openpyxl
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "to_excel needs the package openpyxl; install it with: pip install 'cwboost[excel]'"
        ) from error
    readable, exact = score_tables(model, n), exact_tables(model)
    book = openpyxl.Workbook()
    book.remove(book.active)
    sheets = _Sheets()
    sheets.add("model")
    titles = [(sheets.add(name), sheets.add(name, " exact")) for name in list(readable)[1:]]
    index = _index(model, [title for title, _ in titles])
    index["sheet"] = index.pop("file")
    front = [_facts(model), readable["intercept"], index]
    _write_sheet(book, "model", front)
    for name, (title, exact_title) in zip(list(readable)[1:], titles, strict=True):
        _write_sheet(book, title, [readable[name]])
        _write_sheet(book, exact_title, [exact[name]])
    with replace_file(file) as temporary:
        book.save(temporary)


class _Sheets:
    """Titles that Excel takes: of at most 31 characters, all different."""

    def __init__(self) -> None:
        self.taken = {"history"}  # reserved

    def add(self, name: str, end: str = "") -> str:
        plain = "".join("_" if c in "[]:*?/\\'" or not c.isprintable() else c for c in name)
        number = 1
        while True:
            tail = end if number == 1 else f" {number}{end}"
            title = ((plain.strip() or "term")[: 31 - len(tail)] + tail).strip()
            if title.lower() not in self.taken:
                self.taken.add(title.lower())
                return title
            number += 1


def _write_sheet(book: Any, title: str, tables: list[ResultTable]) -> None:
    """Tables below each other, their heads in bold."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font

    for table in tables:
        rows = len(next(iter(table.values())))
        if rows >= MAX_ROWS:
            raise ValueError(f"sheet {title!r}: {rows} rows do not fit into Excel; use to_csv")
    sheet = book.create_sheet(title)
    if len(tables) == 1:
        sheet.freeze_panes = "A2"

    def cell(value: Any, bold: bool = False) -> Any:
        if isinstance(value, str):
            out = WriteOnlyCell(sheet, value=_excel_text(value))
            out.data_type = "s"  # a level such as "=1+1" is no formula
        elif isinstance(value, float):
            out = WriteOnlyCell(sheet, value=repr(value))
            out.data_type = "n"  # in full: openpyxl itself would write 16 digits
        else:
            out = WriteOnlyCell(sheet, value=value)
        if bold:
            out.font = Font(bold=True)
        return out

    for table in tables:
        sheet.append([cell(name, bold=True) for name in table])
        for row in _rows(table):
            sheet.append([cell(value) for value in row])
        if len(tables) > 1:
            sheet.append([])


def _excel_text(text: str) -> str:
    """Characters that a workbook cannot hold, and what would read as one, as _xHHHH_."""
    out = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
    return re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]", _escaped, out)


def _escaped(match: re.Match[str]) -> str:
    return f"_x{ord(match.group()):04X}_"
