"""Table files: CSV, JSON lines and Parquet, read and written. "-" is standard input and output.

Decides how cells are written and what they mean. Parquet needs pyarrow (extra `parquet`). A folder
of Parquet files and a saved Dataset are tables, too.
Does not know about models.

A column of a CSV file has the first of these kinds that fits all its cells. An empty cell is
missing; unless the column is text, NA, NaN, N/A, null and none are missing, too:

- numbers: 12, -0.5, 1e6;
- booleans: true, false in any case;
- dates and times: 2026-11-15, 2026-11-15 08:30:00 (days since 1970-01-01, as everywhere);
- text.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cwboost._utils.atomic_files import (
    STANDARD,
    check_file,
    check_has_end,
    check_name,
    open_text,
    write_output,
)
from cwboost._utils.checks import first_repeated
from cwboost._utils.text import quote

from .cells import INEXACT_FROM
from .columns import Column, Numbers
from .parquet import error_reason, pyarrow_parquet
from .read_frames import read, read_column
from .saved_folder import INDEX
from .table import ComputedColumns, Table, check_finite

Kind = Literal["numbers", "text"]  # of a column, if the caller knows it
ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
MISSING = {"", "na", "nan", "n/a", "null", "none"}  # in lower case
BOOLEANS = {"true": 1.0, "false": 0.0}
DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")


@dataclass(frozen=True, eq=False)
class FileTable:
    """A table read from a file: typed columns, and the cells as they were written."""

    table: Table
    cells: Callable[[str], Any]  # a sequence


# --- reading --------------------------------------------------------------------------------------


def read_table(file: str, kinds: Mapping[str, Kind] | None = None) -> FileTable:
    """Read a table file. The format follows from the name's ending, else from the content.

    Parameters
    ----------
    file : path, or "-" for standard input
    kinds : mapping of names of columns, optional
        Kinds of columns that are known. Codes such as 007 then stay text, and an error names the
        line of a cell that should be a number.

    Examples
    --------
    >>> _ = Path("t.csv").write_text("age;job\\n30;cook\\n;pilot\\n")
    >>> read_table("t.csv").table["age"].values
    array([30., nan])
    """
    check_name(file)
    if is_folder(file):
        return _read_folder(file)
    name = "standard input" if file == STANDARD else file
    if file != STANDARD:
        check_has_end(file)
    raw = standard_input() if file == STANDARD else Path(file).read_bytes()
    if raw.startswith(b"\x1f\x8b"):
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError) as error:
            raise ValueError(f"{name}: damaged ({error})") from None
    form = ENDINGS.get(Path(file.removesuffix(".gz")).suffix.lower()) or _looks_like(raw)
    kinds = kinds or {}
    if form == "parquet":
        return _read_parquet(raw, name)
    if form == "jsonl":
        return _read_json_lines(_decoded(raw, name), name, kinds)
    return _read_csv(_decoded(raw, name), name, kinds, "\t" if form == "tsv" else None)


def is_folder(file: str) -> bool:
    """Return whether it names a folder of Parquet files, a pattern, or a saved Dataset."""
    path = Path(file)
    return file != STANDARD and (path.is_dir() or (glob.has_magic(file) and not path.exists()))


def is_table_file(file: str) -> bool:
    """Return whether it names a file in a known format, or standard output."""
    return file == STANDARD or Path(file).suffix.lower() in ENDINGS


def _read_folder(folder: str) -> FileTable:
    """Return a table whose columns are read on demand."""
    from .dataset import Dataset

    saved = (Path(folder) / INDEX).is_file()
    table = (Dataset.open(folder) if saved else Dataset.from_parquet(folder)).table
    return FileTable(table, lambda column: table[column].to_cells())


def standard_input() -> bytes:
    """Return all of standard input. It is read in pieces, so that Ctrl-C works at any time."""
    stream: Any = sys.stdin.buffer
    return b"".join(iter(lambda: stream.read1(2**16), b""))


def _looks_like(raw: bytes) -> str:
    if raw.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if raw.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{") else "csv"


def _decoded(raw: bytes, name: str) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len((raw[: error.start] + b"?").splitlines())
        raise ValueError(f"{name}, line {line}: not UTF-8 text; save the file as UTF-8") from None


def _read_csv(text: str, name: str, kinds: Mapping[str, Kind], delimiter: str | None) -> FileTable:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter or _delimiter(text))
    try:
        header = next((cells for cells in lines if cells), None)
        if header is None:
            raise ValueError(
                f"{name}: the file is empty; expected a header line with the names of the columns"
            )
        repeated = first_repeated(header)
        if repeated is not None:
            raise ValueError(
                f"{name}, line {lines.line_num}: column {quote(repeated)} occurs more than once; "
                "rename one of them"
            )
        rows, line_numbers = [], []
        for cells in lines:
            if len(cells) == len(header):
                rows.append(cells)
                line_numbers.append(lines.line_num)
            elif cells:  # blank lines are skipped
                raise ValueError(
                    f"{name}, line {lines.line_num}: expected {len(header)} cells as in the "
                    f"header, got {len(cells)}"
                )
    except csv.Error as error:
        raise ValueError(f"{name}, line {lines.line_num}: {error}") from None
    raw = dict(zip(header, zip(*rows, strict=True) if rows else ((),) * len(header), strict=True))

    def wrong_cell(column: str, row: int, expected: str) -> ValueError:
        where = f"{name}, line {line_numbers[row]}, column {quote(column)}"
        return ValueError(f"{where}: expected {expected}, got {quote(raw[column][row])}")

    def parse(column: str) -> Column:
        cells = raw[column]
        found = _parse_column(cells, column, kinds.get(column))
        if found is None:
            row = next(row for row, cell in enumerate(cells) if _number(cell) is None)
            raise wrong_cell(column, row, "a number")
        if isinstance(found, Numbers) and np.isinf(found.values).any():
            row = int(np.flatnonzero(np.isinf(found.values))[0])
            raise wrong_cell(column, row, "a finite number, or an empty cell if it is missing")
        return found

    table = Table(header, len(rows), ComputedColumns(parse))
    return FileTable(table, lambda column: Cells(raw[column]))


class Cells(tuple[str, ...]):
    """The cells of a CSV column, as they were written."""


def _delimiter(text: str) -> str:
    """Return the delimiter that splits the header into most cells; by default a comma."""
    head = text.lstrip("\r\n")[:100_000]

    def n_cells(delimiter: str) -> int:
        return len(next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), []))

    return max(",;\t", key=n_cells)


def _parse_column(cells: Sequence[str], name: str, kind: Kind | None) -> Column | None:
    """Return the column; None if it should have numbers and a cell is not one."""
    distinct = dict.fromkeys(cells)
    if kind != "text":
        for parser in (_number, _boolean):
            values = _parse_all(parser, distinct)
            if values is not None:
                floats = np.array([values[cell] for cell in cells], dtype=np.float64)
                huge = any(abs(v) >= INEXACT_FROM and _is_whole(c) for c, v in values.items())
                return Numbers(name, floats, boolean=parser is _boolean, exact=not huge)
        dates = _dates([None if c.strip().lower() in MISSING else c for c in cells], name)
        if dates is not None:
            return dates
        if kind == "numbers":
            return None
    return read_column([cell or None for cell in cells], name)


def _parse_all(
    parser: Callable[[str], float | None], distinct: Iterable[str]
) -> dict[str, float] | None:
    """Return the value of each distinct cell; None if the parser rejects one of them."""
    out = {}
    for cell in distinct:
        value = parser(cell)
        if value is None:
            return None
        out[cell] = value
    return out


def _number(cell: str) -> float | None:
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return float("nan") if cell.strip().lower() in MISSING else None


def _boolean(cell: str) -> float | None:
    word = cell.strip().lower()
    return BOOLEANS.get(word, float("nan") if word in MISSING else None)


def _is_whole(cell: str) -> bool:
    return cell.strip().lstrip("+-").isdigit()


def _dates(cells: Sequence[str | None], name: str) -> Column | None:
    """Return the column if all cells that are not missing are dates; else None."""
    distinct = set(cells) - {None}
    if not distinct or not all(DATE.fullmatch(c.strip()) for c in distinct if c is not None):
        return None
    try:
        stamps = np.array([c and c.strip() for c in cells], dtype="M8[us]")
    except ValueError:  # such as the 31st of February
        return None
    return read_column(stamps, name)


def _read_json_lines(text: str, name: str, kinds: Mapping[str, Kind]) -> FileTable:
    objects, line_numbers = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            objects.append(_json_object(line, f"{name}, line {number}"))
            line_numbers.append(number)
    if not objects:
        raise ValueError(f"{name}: the file is empty; expected a JSON object per line")
    names = list(dict.fromkeys(key for each in objects for key in each))

    def cells(column: str) -> list[Any]:
        return [each.get(column) for each in objects]

    def parse(column: str) -> Column:
        values = cells(column)
        is_text = [isinstance(value, str) for value in values]
        if any(is_text) and kinds.get(column) != "text":
            only_text = all(t or value is None for t, value in zip(is_text, values, strict=True))
            dates = _dates(values, column) if only_text else None
            if dates is not None:
                return dates
            if kinds.get(column) == "numbers":
                row = is_text.index(True)
                where = f"{name}, line {line_numbers[row]}, {quote(column)}"
                raise ValueError(f"{where}: expected a number, got {quote(values[row])}")
        with _file_errors(name):
            found = read_column(values, column)
            check_finite(found)
        return found

    return FileTable(Table(names, len(objects), ComputedColumns(parse)), cells)


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where}: expected a JSON object such as {{'x': 1}}, got {quote(line)}")
    for key, value in found.items():
        if isinstance(value, dict | list):
            raise ValueError(f"{where}, {quote(key)}: expected a number, text, true, false or null")
    return found


def _read_parquet(raw: bytes, name: str) -> FileTable:
    parquet = pyarrow_parquet()
    import pyarrow

    try:
        found = parquet.read_table(pyarrow.BufferReader(raw))
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(
            f"{name}: not a Parquet file, or damaged ({error_reason(error)})"
        ) from None
    kinds = pyarrow.types
    fast = [  # plain text is read twenty times faster than a dictionary
        field.with_type(pyarrow.string())
        if kinds.is_dictionary(field.type)
        and kinds.is_string(field.type.value_type)
        and not field.type.ordered
        else field
        for field in found.schema
    ]
    with _file_errors(name):
        inner = read(found.cast(pyarrow.schema(fast)))

    def convert(column: str) -> Column:
        with _file_errors(name):
            return inner[column]

    table = Table(inner.names, inner.n_rows, ComputedColumns(convert))
    return FileTable(table, lambda column: found.column(column).combine_chunks())


@contextmanager
def _file_errors(name: str) -> Iterator[None]:
    """Name the file in errors about its content, which are all ValueErrors."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None


# --- writing --------------------------------------------------------------------------------------


def check_output(file: str, table: bool = True) -> None:
    """Raise if a file cannot be written; call it before the work for the file is done."""
    if file == STANDARD:
        return
    path = Path(file)
    if table and path.suffix.lower() not in ENDINGS:
        raise ValueError(
            f"{file}: expected a name ending in {', '.join(ENDINGS)}, or '-' for standard output"
        )
    check_file(file)


def write_table(file: str, columns: Mapping[str, Any]) -> None:
    """Write columns (arrays, or cells of a FileTable) as CSV, JSON lines or Parquet.

    The format follows from the name's ending. Standard output gets CSV.

    Examples
    --------
    >>> write_table("t.jsonl", {"x": np.array([1.0, np.nan]), "g": np.array(["a", None])})
    >>> print(Path("t.jsonl").read_text(), end="")
    {"x": 1.0, "g": "a"}
    {"x": null, "g": null}
    """
    check_output(file)
    form = ENDINGS.get(Path(file).suffix.lower(), "csv")
    with write_output(file) as temporary:
        if form == "parquet":
            _write_parquet(temporary, columns)
        else:
            with open_text(temporary) as stream:
                if form == "jsonl":
                    for row in zip(*map(_plain_values, columns.values()), strict=True):
                        line = dict(zip(columns, row, strict=True))
                        stream.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
                else:
                    writer = csv.writer(
                        stream, delimiter="\t" if form == "tsv" else ",", lineterminator="\n"
                    )
                    writer.writerow(columns)
                    writer.writerows(zip(*map(_csv_cells, columns.values()), strict=True))


def _csv_cells(column: Any) -> Sequence[Any]:
    """Return cells for CSV; cells that were read from CSV stay as they were."""
    return column if isinstance(column, Cells) else _plain_values(column)


def _plain_values(column: Any) -> list[Any]:
    """Return plain Python values, None where missing."""
    if isinstance(column, Cells):
        return _parse_cells(column)
    values = column.tolist() if hasattr(column, "tolist") else list(column)
    return [None if isinstance(v, float) and not np.isfinite(v) else v for v in values]


def _parse_cells(cells: Cells) -> list[Any]:
    """Return the values of CSV cells: numbers and booleans, unless that loses digits (007)."""
    distinct = dict.fromkeys(cells)
    if not any(re.match(r"\s*[+-]?0\d", cell) for cell in distinct):
        for parser in (_number, _boolean):
            values = _parse_all(parser, distinct)
            if values is not None:
                plain = {c: _plain(c, v, parser is _boolean) for c, v in values.items()}
                return [plain[cell] for cell in cells]
    return [cell or None for cell in cells]


def _plain(cell: str, value: float, boolean: bool) -> bool | int | float | None:
    if value != value:
        return None
    return bool(value) if boolean else int(cell) if _is_whole(cell) else value


def _write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    parquet = pyarrow_parquet()
    import pyarrow

    def array(column: Any) -> Any:
        if isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
            return column
        return pyarrow.array(_plain_values(column), from_pandas=True)

    try:
        table = pyarrow.table({name: array(column) for name, column in columns.items()})
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{quote(error.object)} has half a surrogate pair, which Parquet cannot hold; write a "
            "CSV or JSON lines file"
        ) from None
    parquet.write_table(table, path)
