"""Table files: CSV, JSON lines and Parquet, read and written. "-" is standard input and output.

Splits files into cells, and writes cells. Parquet needs pyarrow (extra `parquet`). A folder of
Parquet files and a saved Dataset are tables, too.
Does not know how the text of cells is parsed (see text_cells.py), or about models.

A column of a CSV file has the first of these kinds that fits all its cells. An empty cell is
missing; unless the column is text, NA, NaN, N/A, null and none are missing, too:

- numbers: 12, -0.5, 1e6;
- booleans: true, false in any case;
- dates and times: 2026-11-15, 2026-11-15 08:30:00, 2026-11-15T08:30:00+02:00 (days since
  1970-01-01, as everywhere; times with a zone in UTC);
- text.
"""

from __future__ import annotations

import csv
import glob
import gzip
import io
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.atomic_files import (
    STANDARD,
    check_file,
    check_has_end,
    check_name,
    follow_links,
    open_text,
    write_output,
)
from cwboost._utils.checks import first_repeated
from cwboost._utils.text import quote, shorten
from cwboost._utils.user_warnings import warn_user

from .columns import Column, Labels, Numbers
from .parquet import (
    column_names,
    error_reason,
    find_files,
    pyarrow_parquet,
    raise_system_error,
    rewritten_names,
    would_find,
)
from .read_frames import read, read_column
from .saved_folder import INDEX
from .table import ComputedColumns, Table, check_finite
from .text_cells import (
    EXPECTED,
    Kind,
    MixedZonesError,
    OddCell,
    fits,
    is_date,
    is_whole,
    odd_cell,
    odd_date,
    parse_all,
    parse_boolean,
    parse_column,
    parse_dates,
    parse_number,
)

ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
DELIMITERS = ",;\t"
STATED_DELIMITER = re.compile(r"sep=([^\r\n\"])\r?\n")  # the first line, as Excel writes it
QUOTES = 'write a quote inside a quoted cell twice (""), or remove the quote that begins the cell'
LIKE_JSON = re.compile(rb"\s*(\{|\[\s*[{\[])")  # the beginning of the file
OBJECT_PER_LINE = 'expected one JSON object per line, such as {"age": 30, "job": "cook"}'


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
        line of a cell that should be a number or a date.

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
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{name}: damaged ({error})") from None
    ending = Path(file.removesuffix(".gz")).suffix.lower()
    form = "jsonl" if ending == ".json" else ENDINGS.get(ending) or _looks_like(raw)
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


def would_read(place: str, file: str, folder: bool = False) -> bool:
    """Return whether a table that is a folder or a pattern would have a file that is written.

    `folder` says that `file` is a folder, with a file for every file of the table.
    """
    if not is_folder(place):
        return False
    target = follow_links(file)
    if (Path(place) / INDEX).is_file():  # a saved Dataset, whose folder is replaced as a whole
        return target.is_relative_to(Path(place).resolve())
    names = rewritten_names(find_files(place)) if folder else [Path()]
    return would_find(place, [target / name for name in names])


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
    try:
        return b"".join(iter(lambda: stream.read1(2**16), b""))
    except OSError as error:  # it does not name a file
        raise OSError(error.errno, error.strerror, "standard input") from None


def _looks_like(raw: bytes) -> str:
    if raw.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if LIKE_JSON.match(raw.removeprefix(b"\xef\xbb\xbf")) else "csv"


def _decoded(raw: bytes, name: str) -> str:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len((raw[: error.start] + b"?").splitlines())
        raise ValueError(f"{name}, line {line}: not UTF-8 text; save the file as UTF-8") from None
    if "\0" in text:
        line = len((raw[: raw.index(b"\0")] + b"?").splitlines())
        raise ValueError(
            f"{name}, line {line}: a NUL character, which text does not have; the file is probably "
            "UTF-16; save it as UTF-8"
        )
    return text


class _Lines(NamedTuple):
    """The cells of a CSV file, and the number of the first line of every row."""

    header: list[str]
    rows: list[list[str]]
    numbers: list[int]


def _split_csv(text: str, name: str, delimiter: str | None) -> _Lines:
    stated = STATED_DELIMITER.match(text)
    delimiter = stated[1] if stated else delimiter or _delimiter(text)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    rows, numbers = [], []
    first = 1  # line of the row; quoted cells may have several lines
    try:
        if stated:
            next(lines)
            first = lines.line_num + 1
        for cells in lines:
            if not cells:  # blank lines are skipped
                pass
            elif header is None:
                header = cells
                _check_header(header, f"{name}, line {first}")
            elif len(cells) == len(header):
                rows.append(cells)
                numbers.append(first)
            else:
                raise ValueError(
                    f"{name}, line {first}: expected {len(header)} cells as in the header, got "
                    f"{len(cells)}"
                )
            first = lines.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{name}, line {first}: {_csv_problem(str(error))}") from None
    if header is None:
        raise ValueError(
            f"{name}: the file is empty; expected a header line with the names of the columns"
        )
    if len(header) == 1:
        _warn_of_delimiter(header[0], rows, name)
    return _Lines(header, rows, numbers)


def _check_header(header: Sequence[str], where: str) -> None:
    repeated = first_repeated(header)
    if repeated is not None:
        raise ValueError(
            f"{where}: column {quote(repeated)} occurs more than once; rename one of them"
        )


def _csv_problem(error: str) -> str:
    """Return what is wrong with a row, given the message of the csv module."""
    if "limit" in error:
        return (
            f"the row that begins here has a cell of more than {csv.field_size_limit():,} "
            f"characters; shorten it, or, if a quote is not closed, {QUOTES}"
        )
    if "unexpected end" in error:
        return f"the row that begins here has a quote that is not closed; {QUOTES}"
    if "expected after" in error:
        return (
            "the row that begins here has a closing quote before other text than a delimiter or "
            f"the end of the line; {QUOTES}"
        )
    return error


def _warn_of_delimiter(header: str, rows: Sequence[Sequence[str]], name: str) -> None:
    """Warn if the only column seems to be several with another delimiter."""
    for delimiter in "| ":
        n = len(header.split(delimiter))
        if n > 1 and rows and all(len(row[0].split(delimiter)) == n for row in rows):
            warn_user(
                f"{name}: every line is one cell, and the header is {quote(header)}; separate the "
                "cells by commas, semicolons or tabs, or begin the file with the line "
                f"{quote('sep=' + delimiter)}"
            )
            return


def _read_csv(text: str, name: str, kinds: Mapping[str, Kind], delimiter: str | None) -> FileTable:
    header, rows, line_numbers = _split_csv(text, name, delimiter)
    raw = dict(zip(header, zip(*rows, strict=True) if rows else ((),) * len(header), strict=True))

    def wrong_cell(column: str, row: int, expected: str) -> ValueError:
        where = f"{name}, line {line_numbers[row]}, column {quote(column)}"
        return ValueError(f"{where}: expected {expected}, got {quote(raw[column][row])}")

    def parse(column: str) -> Column:
        cells, kind = raw[column], kinds.get(column)

        def line(cell: str) -> str:
            return f"{name}, line {line_numbers[cells.index(cell)]}"

        with _zones_checked(column, line):
            found = parse_column(cells, column, kind)
        if found is None:  # a cell is not of the known kind
            known = kinds[column]
            row = next(row for row, cell in enumerate(cells) if not fits(cell, known))
            raise wrong_cell(column, row, EXPECTED[known])
        if isinstance(found, Labels) and kind is None:
            _warn_of_text(column, odd_cell(found.levels), line)
        if isinstance(found, Numbers) and np.isinf(found.values).any():
            row = int(np.flatnonzero(np.isinf(found.values))[0])
            raise wrong_cell(column, row, "a finite number, or an empty cell if it is missing")
        return found

    table = Table(header, len(rows), ComputedColumns(parse), where=_line_words(name, line_numbers))
    return FileTable(table, lambda column: Cells(raw[column]))


def _line_words(name: str, line_numbers: Sequence[int]) -> Callable[[int], str]:
    """Return a function that describes the place of a row."""
    return lambda row: f"{row} ({name}, line {line_numbers[row]})"


def _warn_of_text(column: str, odd: OddCell | None, line: Callable[[str], str]) -> None:
    """Warn if a cell makes a column text; `line` returns the place of a cell."""
    if odd is not None:
        warn_user(
            f"{line(odd.cell)}: column {quote(column)} is text, because {quote(odd.cell)} "
            f"{odd.problem}"
        )


@contextmanager
def _zones_checked(column: str, line: Callable[[str], str]) -> Iterator[None]:
    """Name the place of a time without a zone if others have one."""
    try:
        yield
    except MixedZonesError as error:
        raise ValueError(
            f"{line(error.without)}, column {quote(column)}: {quote(error.without)} has no time "
            f"zone, but {quote(error.zoned)} has one; write the zone in all cells or in none"
        ) from None


class Cells(tuple[str, ...]):
    """The cells of a CSV column, as they were written."""


def _delimiter(text: str) -> str:
    """Return the delimiter that splits the header into most cells; by default a comma."""
    head = text.lstrip("\r\n")[:100_000]

    def n_cells(delimiter: str) -> int:
        return len(next(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter), []))

    return max(DELIMITERS, key=n_cells)


def _read_json_lines(text: str, name: str, kinds: Mapping[str, Kind]) -> FileTable:
    objects: list[dict[str, Any]] = []
    line_numbers: list[int] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            if not objects:
                _check_lines(line, text, name)
            objects.append(_json_object(line, f"{name}, line {number}"))
            line_numbers.append(number)
    if not objects:
        raise ValueError(f"{name}: the file is empty; {OBJECT_PER_LINE}")
    names = list(dict.fromkeys(key for each in objects for key in each))

    def cells(column: str) -> list[Any]:
        return [each.get(column) for each in objects]

    def parse(column: str) -> Column:
        values, kind = cells(column), kinds.get(column)

        def line(value: Any) -> str:
            return f"{name}, line {line_numbers[values.index(value)]}"

        is_text = [isinstance(value, str) for value in values]
        only_text = all(t or value is None for t, value in zip(is_text, values, strict=True))
        dates = None
        if only_text and any(is_text) and kind != "text":
            with _zones_checked(column, line):
                dates = parse_dates(values, column)
        if dates is not None:
            return dates
        if kind is not None and kind != "text":
            for number, value in zip(line_numbers, values, strict=True):
                if value is not None and not _has_kind(value, kind):
                    raise ValueError(
                        f"{name}, line {number}, {quote(column)}: expected {EXPECTED[kind]}, got "
                        f"{quote(value)}"
                    )
        with _file_errors(name):
            found = read_column(values, column)
            check_finite(found)
        if isinstance(found, Labels) and kind is None:
            _warn_of_text(column, odd_date(found.levels), line)
        return found

    table = Table(
        names, len(objects), ComputedColumns(parse), where=_line_words(name, line_numbers)
    )
    return FileTable(table, cells)


def _has_kind(value: Any, kind: Kind) -> bool:
    """Whether a JSON value may be in a column of a kind: text only if it is a date."""
    is_text = isinstance(value, str)
    return is_text and is_date(value) if kind == "dates" else not is_text


def _check_lines(first: str, text: str, name: str) -> None:
    """Raise if the file is a JSON document, and not one JSON object per line.

    `first` is the first line.
    """
    document = _parse_json(first)
    several = document is None
    if several:
        document = _parse_json(text)
    form = document.get("format") if isinstance(document, dict) else None
    if isinstance(form, str) and form.startswith("cwboost"):
        raise ValueError(f"{name}: this is a {shorten(form)}; expected a table")
    if isinstance(document, list) or (several and isinstance(document, dict)):
        found = "a JSON array" if isinstance(document, list) else "one object on several lines"
        raise ValueError(
            f"{name}: {OBJECT_PER_LINE}, got {found}; pandas writes such lines with "
            "to_json(orient='records', lines=True)"
        )


def _parse_json(text: str) -> Any:
    """Return a JSON document; None if the text is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if (key := first_repeated(key for key, _ in pairs)) is not None:
        raise ValueError(f"the key {quote(key)} stands twice in an object")
    return dict(pairs)


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line, object_pairs_hook=_no_key_twice)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON ({error}); {OBJECT_PER_LINE}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{where}: {OBJECT_PER_LINE}, got {quote(line)}")
    for key, value in found.items():
        if isinstance(value, dict | list):
            raise ValueError(
                f"{where}, {quote(key)}: expected a number, text, true, false or null, got "
                f"{quote(value)}; write one JSON object per row, each on its own line"
            )
    return found


def _read_parquet(raw: bytes, name: str) -> FileTable:
    parquet = pyarrow_parquet()
    import pyarrow

    try:
        source = pyarrow.BufferReader(raw)
        column_names(parquet.read_schema(source), name)
        found = parquet.read_table(source)
    except (pyarrow.ArrowException, OSError) as error:
        raise_system_error(error, name)
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

    table = Table(
        inner.names, inner.n_rows, ComputedColumns(convert), where=lambda row: f"{row} of {name}"
    )
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
    """Return the values of CSV cells: numbers and booleans, unless that loses digits.

    Examples of cells that stay text are 007 and 1e999.
    """
    distinct = dict.fromkeys(cells)
    if not any(re.match(r"\s*[+-]?0\d", cell) for cell in distinct):
        for parser in (parse_number, parse_boolean):
            values = parse_all(parser, distinct)
            if values is not None and not any(map(math.isinf, values.values())):
                plain = {c: _plain(c, v, parser is parse_boolean) for c, v in values.items()}
                return [plain[cell] for cell in cells]
    return [cell or None for cell in cells]


def _plain(cell: str, value: float, boolean: bool) -> bool | int | float | None:
    if math.isnan(value):
        return None
    return bool(value) if boolean else int(cell) if is_whole(cell) else value


def _write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    parquet = pyarrow_parquet()
    import pyarrow

    def array(name: str, column: Any) -> Any:
        if isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
            return column
        try:
            return pyarrow.array(_plain_values(column), from_pandas=True)
        except (OverflowError, pyarrow.ArrowException) as error:  # 2**70, or numbers beside text
            raise ValueError(
                f"column {quote(name)}: its cells cannot be written as Parquet ({error}); write a "
                "CSV or JSON lines file"
            ) from None

    try:
        table = pyarrow.table({name: array(name, column) for name, column in columns.items()})
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{quote(error.object)} has half a surrogate pair, which Parquet cannot hold; write a "
            "CSV or JSON lines file"
        ) from None
    parquet.write_table(table, path)
