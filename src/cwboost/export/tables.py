"""Models as tables, as CSV files or an Excel workbook: an effect for every interval or level.

The only file that uses openpyxl (extra `excel`). Every term has two tables. The *score table* is
for reading: curves are shown at the middle of rounded intervals. The *exact table* gives the
model's effect for any value:

    effect = c0 + c1 t + c2 t^2 + ...,    t = (x - origin) / width,

from the row that x falls in. `ci_j` is the coefficient of t^i of the first column and t^j of the
second. If a table does not have the columns c1 and origin, the effect is c0.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from cwboost._utils.atomic_files import check_folder, open_text, replace_file, replace_folder
from cwboost._utils.checks import check_whole
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model, check_model
from cwboost.model.pieces import Axis, TermPieces, pieces_of
from cwboost.model.scoring import output_labels

FACTORS = {"log": "factor", "logit": "odds ratio", "softmax": "factor"}  # exp(effect), by link
MAX_ROWS = 2**20 - 10  # of an Excel sheet
EXACT = "exact"  # the folder of the exact tables
FACTS, INDEX, INTERCEPT = "model.csv", "terms.csv", "intercept.csv"  # files beside the terms


def score_tables(model: Model, n: int = 20) -> dict[str, ResultTable]:
    """Return the table "intercept" and one table per chosen term, for reading.

    Every row says which values it is for and what it adds to the score; with a log link also the
    factor exp(effect) of the response, with a logit link the odds ratio. "<column> is" says what
    the row is for: the interval "[from, to)" or "(from, to]", a "level", "missing" cells, or any
    "other" level. Curves are shown at the middle of about n intervals with rounded ends (n / 2 for
    each of two columns). `exact_tables` is exact, and covers values beyond the training range.

    Parameters
    ----------
    model : Model
    n : int
        The approximate number of intervals of a curve.

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
    check_model(model, "score_tables")
    check_whole("n", n, 1, MAX_ROWS)
    return _tables(model, lambda pieces: _readable(model, pieces, n))


def exact_tables(model: Model) -> dict[str, ResultTable]:
    """Return the table "intercept" and one table per chosen term with the model's exact effects.

    The score of a row is its offset, plus the intercept, plus for every term

        c0 + c1 t + c2 t^2 + ...,    t = (x - origin) / width,

    from the row of the table that the value falls in.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 6, 61)
    >>> list(exact_tables(cb.fit({"x": x}, np.sin(x)))["x"])
    ['x is', 'x from', 'x to', 'x origin', 'x width', 'c0', 'c1', 'c2', 'c3']
    """
    check_model(model, "exact_tables")
    return _tables(model, lambda pieces: _exact(model, pieces))


def _tables(model: Model, make: Callable[[TermPieces], ResultTable]) -> dict[str, ResultTable]:
    out = {"intercept": _intercept(model)}
    for pieces in pieces_of(model):
        name = pieces.term.name
        out[f"{name} (term)" if name == "intercept" else name] = make(pieces)
    return out


def _intercept(model: Model) -> ResultTable:
    values = model.intercept_vector.copy()
    out = ResultTable(intercept=values)
    if model.n_outputs > 1:
        out = ResultTable(output=np.array(output_labels(model), dtype=object), intercept=values)
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
        for label, values in zip(output_labels(model), block.T, strict=True):
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
    for label, column in zip(output_labels(model), effect.T, strict=True):
        out[_labelled("effect", label)] = column.copy()
        if factor is not None:
            with np.errstate(over="ignore"):  # a factor beyond the range of floats is infinite
                out[_labelled(factor, label)] = np.exp(column)
    return out


def _labelled(name: str, label: str) -> str:
    return f"{name}[{label}]" if label else name


def _described(axis: Axis, which: list[int]) -> ResultTable:
    """Return the columns that say which values each piece is for."""
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
    """Return where the effect is shown, and the piece and t of each point."""
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
    """Return the ends of about n intervals from low to high: 1, 2 or 5 times a power of ten.

    Examples
    --------
    >>> round_ends(17.0, 90.0, 8)
    array([17., 20., 30., 40., 50., 60., 70., 80., 90.])
    """
    if not high > low:
        return np.array([low, high])
    exact = (high - low) / n
    power = 10.0 ** np.floor(np.log10(exact))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda s: abs(np.log(s / exact)))
    first, last = np.ceil(low / step), np.floor(high / step)
    # Divide where that is exact: 3 / 10 is 0.3, but 3 * 0.1 is not.
    inverse = round(1.0 / step)
    whole = np.arange(first, last + 1)
    inner = whole / inverse if inverse > 1 and step < 1 else whole * step
    inner = inner[(inner > low) & (inner < high)]
    return np.concatenate([[low], inner, [high]])


def _all_pairs(sizes: list[int]) -> list[Any]:
    return [index.ravel() for index in np.indices(sizes)]


def _crossed(parts: list[ResultTable]) -> ResultTable:
    """Return the columns of one part, or of all pairs of rows of two parts."""
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
    """Return what a reader must know to use the tables."""
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
    """Write the tables of a model as CSV files into a new folder, completely or not at all.

    `terms.csv` names the file of every term. The folder itself contains the `score_tables`, its
    sub-folder `exact` the `exact_tables`. `model.csv` has the loss, the link and the classes.
    Infinite ends of intervals are empty cells.

    Parameters
    ----------
    model : Model
    folder : path
        If it exists, it must be empty or have nothing but an earlier export, which is replaced.
    n : int
        The approximate number of intervals of a curve in the tables for reading.

    Examples
    --------
    >>> import cwboost as cb, os
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> to_csv(model, "scores")
    >>> sorted(os.listdir("scores"))
    ['01_g.csv', 'exact', 'intercept.csv', 'model.csv', 'terms.csv']
    """
    check_model(model, "to_csv")
    check_folder(folder, _is_export)
    readable, exact = score_tables(model, n), exact_tables(model)
    files = [_file_name(i, name) for i, name in enumerate(list(readable)[1:], 1)]
    names = [INTERCEPT, *files]
    with replace_folder(folder, _is_export) as temporary:
        (temporary / EXACT).mkdir()
        _write_csv(temporary / FACTS, _facts(model))
        _write_csv(temporary / INDEX, _index(model, files))
        for file, table in zip(names, readable.values(), strict=True):
            _write_csv(temporary / file, table)
        for file, table in zip(names, exact.values(), strict=True):
            _write_csv(temporary / EXACT / file, table)


def _is_export(folder: Path) -> bool:
    """Return whether a folder has the files that `to_csv` writes, and no others."""
    try:
        with (folder / INDEX).open(encoding="utf-8", newline="") as stream:
            names, *rows = csv.reader(stream)
        files = {INTERCEPT, *(row[names.index("file")] for row in rows)}
        folders = {EXACT: files, ".": {*files, FACTS, INDEX, EXACT}}
        found = {sub: {path.name for path in (folder / sub).iterdir()} for sub in folders}
        return found == folders
    except (OSError, ValueError, IndexError, csv.Error):  # a folder or a table of others
        return False


def _file_name(number: int, name: str) -> str:
    """Return a name that every file system accepts; the number makes it unique."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name)
    return f"{number:02d}_{plain[:60]}.csv"


def _write_csv(file: Path, table: ResultTable) -> None:
    with open_text(file) as stream:
        writer = csv.writer(stream)
        writer.writerow(list(table))
        writer.writerows(_rows(table))


def _rows(table: ResultTable) -> Iterator[list[Any]]:
    """Yield rows of plain values, with None for NaN and infinite numbers."""
    for row in zip(*(column.tolist() for column in table.values()), strict=True):
        yield [None if isinstance(v, float) and not np.isfinite(v) else v for v in row]


def to_excel(model: Model, file: Any, n: int = 20) -> None:
    """Write the tables of a model as an Excel workbook, completely or not at all.

    The sheet "model" has the loss, the link, the classes, the intercept and the sheets of the
    terms. Every term has a sheet for reading (`score_tables`) and one named "... exact"
    (`exact_tables`).

    Parameters
    ----------
    model : Model
    file : path
    n : int
        The approximate number of intervals of a curve in the tables for reading.

    Examples
    --------
    >>> import cwboost as cb, os
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> to_excel(model, "scores.xlsx")
    >>> os.path.exists("scores.xlsx")
    True
    """
    check_model(model, "to_excel")
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
        # If a write to a file fails, the workbook tries again when it is deleted.
        packed = BytesIO()
        book.save(packed)
        temporary.write_bytes(packed.getbuffer())


class _Sheets:
    """Makes titles that Excel accepts: at most 31 characters, all different."""

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
    """Write tables below each other, with bold headers."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.styles import Font

    for table in tables:
        rows = len(next(iter(table.values())))
        if rows >= MAX_ROWS:
            raise ValueError(
                f"sheet {quote(title)}: {rows} rows are too many for Excel; use to_csv"
            )
    sheet = book.create_sheet(title)
    if len(tables) == 1:
        sheet.freeze_panes = "A2"

    def cell(value: Any, bold: bool = False) -> Any:
        if isinstance(value, str):
            out = WriteOnlyCell(sheet, value=_excel_text(value))
            out.data_type = "s"  # a level such as "=1+1" is not a formula
        elif isinstance(value, float):
            out = WriteOnlyCell(sheet, value=repr(value))
            out.data_type = "n"  # all digits: openpyxl would write 16
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
    """Escape characters that a workbook cannot hold, and text that looks like an escape."""
    out = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
    return re.sub(r"[\x00-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]", _escaped, out)


def _escaped(match: re.Match[str]) -> str:
    return f"_x{ord(match.group()):04X}_"
