"""A saved Dataset: a folder with one file per column.

Defines the file format and its checksums, which are compared when a file is first read.
Does not know where the rows come from (see dataset.py) or how bins are stored (see
binning/bin_cache.py).

    dataset.json      number of rows, columns and their levels, roles, checksums
    columns/0.bin     the cells of a column, in pieces, each in the narrowest type that is lossless
    bins/             bins of earlier fits
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
import zlib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import check_name, open_text, recover_folder
from cwboost._utils.text import quote
from cwboost._utils.typed_fields import FieldError, Fields, is_json_whole, parse_json

from .chunks import UNITS, Chunk, UnifiedColumn
from .columns import Column, Labels, Numbers, Unit
from .table import BinFolder, ComputedColumns, Table

FORMAT, VERSION = "cwboost dataset", 1
INDEX = "dataset.json"
PIECE_ROWS = 2**18
NARROW = tuple(map(np.dtype, ("i1", "i2", "i4", "f4")))
ROLES = ("y", "weights", "offset", "exposure")
FILE_NAME = re.compile(r"\d+\.bin")
MISSING = "-"  # the type of a piece in which all cells are missing; it takes no space
CODE_TYPES = (MISSING, *(np.dtype(t).str for t in ("i1", "i2", "i4")))
NUMBER_TYPES = (*CODE_TYPES, np.dtype("f4").str, np.dtype("f8").str)


# --- writing --------------------------------------------------------------------------------------


class ColumnWriter:
    """Writes the cells of one column in pieces."""

    def __init__(self, path: Path, name: str) -> None:
        self.unified = UnifiedColumn(name)
        self._path = path
        self._stream = path.open("wb")
        self._buffer: list[NDArray[Any]] = []  # cells that do not fill a piece yet
        self._pieces: list[tuple[str, int]] = []
        self._crc = self._bytes = 0

    def add(self, chunk: Chunk, where: str) -> None:
        """Add the next cells of the column."""
        cells = self.unified.add(chunk, where)
        self._buffer.append(cells if chunk.kind else np.full(len(cells), np.nan))

    def flush(self, n: int) -> None:
        """Write the next n cells as a piece."""
        cells = np.concatenate(self._buffer)
        self._buffer = [cells[n:]]
        cells = cells[:n]
        if self.unified.kind == "text":  # chunks in which all cells are missing are NaN
            cells = np.nan_to_num(cells, nan=-1.0).astype(np.int32)
            missing = bool((cells < 0).all())
        else:
            missing = bool(np.isnan(cells).all())
        narrow = MISSING if missing else _narrowest(cells).str
        if not missing:
            raw = cells.astype(narrow).tobytes()
            self._stream.write(raw)
            self._crc, self._bytes = zlib.crc32(raw, self._crc), self._bytes + len(raw)
        self._pieces.append((narrow, n))

    def finish(self) -> dict[str, Any]:
        """Close the file and return the entry of the column in the index."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.close()
        whole = self.unified.finish()
        entry: dict[str, Any] = {"name": self.unified.name, "file": self._path.name}
        if isinstance(whole, Labels):
            entry |= {"levels": whole.levels, "level": whole.codes.tolist()}
        else:
            entry |= {"boolean": whole.boolean, "exact": whole.exact, "unit": whole.unit}
        return entry | {"pieces": self._pieces, "bytes": self._bytes, "crc32": self._crc}

    def close(self) -> None:
        self._stream.close()


def _narrowest(cells: NDArray[Any]) -> np.dtype[Any]:
    """Return the first type that keeps all bits."""
    for narrow in NARROW:
        with np.errstate(invalid="ignore", over="ignore"):
            back = cells.astype(narrow).astype(cells.dtype)
        if back.tobytes() == cells.tobytes():
            return narrow
    return cells.dtype


class Writer:
    """Writes a Dataset to a folder, table by table. All tables have the same columns."""

    def __init__(self, folder: Path, names: Sequence[str], roles: Mapping[str, str]) -> None:
        self._folder, self._roles = folder, dict(roles)
        (folder / "columns").mkdir()
        self._columns = [
            ColumnWriter(folder / "columns" / f"{k}.bin", name) for k, name in enumerate(names)
        ]
        self.n_rows = self._unwritten = 0

    def add(self, table: Table, where: str) -> None:
        """Add the rows of a table; `where` names it in messages."""
        for column in self._columns:
            column.add(table.chunk(column.unified.name), where)
        self.n_rows += table.n_rows
        self._unwritten += table.n_rows
        while self._unwritten >= PIECE_ROWS:
            self._flush(PIECE_ROWS)

    def _flush(self, n: int) -> None:
        for column in self._columns:
            column.flush(n)
        self._unwritten -= n

    def finish(self) -> None:
        """Write what is left, and the index."""
        if self._unwritten:
            self._flush(self._unwritten)
        columns = [column.finish() for column in self._columns]
        head = {"format": FORMAT, "version": VERSION, "n_rows": self.n_rows, "roles": self._roles}
        text = _with_checksum(head | {"columns": columns})
        with open_text(self._folder / INDEX) as stream:  # its escapes are those of JSON
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())

    def close(self) -> None:
        """Close the files, also if writing failed."""
        for column in self._columns:
            column.close()


def _with_checksum(index: dict[str, Any]) -> str:
    checksum = _checksum(index)
    return json.dumps({"checksum": checksum, "dataset": index}, ensure_ascii=False)


def _checksum(index: dict[str, Any]) -> str:
    text = json.dumps(index, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


# --- reading --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ColumnEntry:
    """What the index says about a column."""

    name: str
    file: str
    pieces: tuple[tuple[str, int], ...]  # type and number of rows
    n_bytes: int
    crc32: int
    levels: tuple[str, ...] | None  # of text; else None
    codes: tuple[int, ...]  # the level of each code in the file
    boolean: bool
    exact: bool
    unit: Unit

    @classmethod
    def read(cls, fields: Fields, n_rows: int) -> ColumnEntry:
        """Return the checked entry of a column of n_rows cells."""
        text, file = "levels" in fields, fields.text("file")
        fields.require(FILE_NAME.fullmatch(file) is not None, "file", "a name such as 0.bin")
        levels = tuple(fields.texts("levels")) if text else None
        if levels is not None:
            fields.require(len({*levels}) == len(levels), "levels", "different texts")
        pieces = _read_pieces(fields, CODE_TYPES if text else NUMBER_TYPES)
        fields.require(sum(n for _, n in pieces) == n_rows, "pieces", f"{n_rows} rows in total")
        n_bytes = sum(n * np.dtype(t).itemsize for t, n in pieces if t != MISSING)
        unit = "numbers"  # in folders of the first version, and for text
        if "unit" in fields:
            unit = fields.text("unit")
            fields.require(unit in get_args(Unit), "unit", "numbers, dates or durations")
        return cls(
            fields.text("name"),
            file,
            pieces,
            fields.whole("bytes", low=n_bytes, high=n_bytes),
            fields.whole("crc32"),
            levels,
            tuple(fields.wholes("level", high=len(levels) - 1)) if levels is not None else (),
            boolean=not text and fields.flag("boolean"),
            exact=text or fields.flag("exact"),
            unit=UNITS.get(unit, "numbers"),
        )


def _read_pieces(fields: Fields, types: Container[str]) -> tuple[tuple[str, int], ...]:
    pieces = fields.items("pieces")
    for piece in pieces:
        ok = isinstance(piece, list) and len(piece) == 2 and is_json_whole(piece[1])
        ok = ok and isinstance(piece[0], str) and piece[0] in types and 0 < piece[1] <= PIECE_ROWS
        fields.require(ok, "pieces", "pairs of a type and a number of rows")
    return tuple((narrow, n) for narrow, n in pieces)


class SavedFolder:
    """A saved Dataset, opened for reading."""

    def __init__(self, folder: Any) -> None:
        check_name(folder)
        recover_folder(folder)
        self.folder = Path(folder).resolve()
        index = _read_index(self.folder)
        try:
            self.n_rows = index.whole("n_rows")
            entries = [ColumnEntry.read(fields, self.n_rows) for fields in index.records("columns")]
            self._entries = {entry.name: entry for entry in entries}
            self.roles = _read_roles(index, self._entries)
            n_pieces = {tuple(n for _, n in entry.pieces) for entry in entries}
            index.require(len(self._entries) == len(entries), "columns", "different names")
            index.require(len(n_pieces) <= 1, "columns", "the same pieces in all columns")
        except FieldError as error:
            raise ValueError(
                f"{self.folder / INDEX}: damaged: {error}; save the Dataset again"
            ) from None
        self.names = tuple(self._entries)
        self._verified: set[Any] = set()  # columns and bins whose checksum has been compared
        for name, entry in self._entries.items():
            path = self._path(entry)
            if not path.is_file() or path.stat().st_size != entry.n_bytes:
                size = f"{path.stat().st_size} bytes" if path.is_file() else "no such file"
                raise ValueError(
                    f"{path}: damaged: expected {entry.n_bytes} bytes of column {quote(name)}, "
                    f"found {size}; save the Dataset again"
                )

    def _path(self, entry: ColumnEntry) -> Path:
        return self.folder / "columns" / entry.file

    def column(self, name: str) -> Column:
        """Return all cells of a column."""
        text = self._entries[name].levels is not None
        out: NDArray[Any] = np.empty(self.n_rows, np.int64 if text else np.float64)
        begin = 0
        for cells in self._pieces(name):
            out[begin : begin + len(cells)] = cells
            begin += len(cells)
        return self._column(name, out)

    def head(self, name: str) -> Column:
        """Return the first cells of a column."""
        cells = np.asarray(next(self._pieces(name), np.empty(0)))
        return self._column(name, cells)

    def _column(self, name: str, cells: NDArray[Any]) -> Column:
        entry = self._entries[name]
        if entry.levels is not None:
            return Labels(name, cells, entry.levels)
        values = cells.astype(np.float64, copy=False)
        return Numbers(name, values, entry.boolean, entry.exact, entry.unit)

    def _pieces(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield floats, or codes of levels, piece by piece."""
        entry = self._entries[name]
        to = None if entry.levels is None else np.array([*entry.codes, -1])
        at, check, verified = 0, 0, name in self._verified
        try:
            data = map_file(self._path(entry))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.folder}: the folder of the Dataset, or its file of column {quote(name)}, "
                "no longer exists; save the Dataset again and open it"
            ) from None
        for narrow, n in entry.pieces:
            if narrow == MISSING:
                yield np.full(n, np.nan) if to is None else np.full(n, -1)
                continue
            raw = data[at : at + n * np.dtype(narrow).itemsize]
            at += len(raw)
            check = 0 if verified else zlib.crc32(raw, check)
            cells = np.frombuffer(raw, narrow)
            if to is not None and not verified and not _are_codes(cells, len(to) - 1):
                raise self._damaged(entry, f"are not codes of {len(to) - 1} levels")
            # Code -1, missing, reads the last entry.
            yield cells if to is None else to.take(cells, mode="wrap")
        if not verified and check != entry.crc32:
            raise self._damaged(entry, "do not match their checksum")
        self._verified.add(name)

    def _damaged(self, entry: ColumnEntry, reason: str) -> ValueError:
        return ValueError(
            f"{self._path(entry)}: damaged: the cells of column {quote(entry.name)} {reason}; save "
            "the Dataset again"
        )

    def tables(self, names: Sequence[str]) -> Iterator[tuple[Table, str]]:
        """Yield some columns of all rows, piece by piece, with the folder's name."""
        iterators = [self._pieces(name) for name in names]
        first = next(iter(self._entries.values()), None)  # all columns have equal pieces
        for _, n in () if first is None else first.pieces:
            cells = zip(names, map(next, iterators), strict=True)
            columns = {name: self._column(name, piece) for name, piece in cells}
            yield Table(names, n, ComputedColumns(columns.__getitem__)), str(self.folder)
        for pieces in iterators:
            next(pieces, None)  # compares the checksum

    @property
    def bin_folder(self) -> BinFolder:
        """Where the bins of fits are stored."""
        return BinFolder(self.folder / "bins", self._verified)


def map_file(path: Path) -> memoryview:
    """Return the bytes of a file, mapped into memory."""
    if path.stat().st_size == 0:
        return memoryview(b"")
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _are_codes(cells: NDArray[Any], n_levels: int) -> bool:
    return len(cells) == 0 or bool(cells.min() >= -1 and cells.max() < n_levels)


def _read_roles(index: Fields, names: Container[str]) -> dict[str, str]:
    """Return the columns that have roles, by role."""
    found = index.inner("roles")
    roles = {role: found.text(role) for role in found.names()}
    for role, name in roles.items():
        found.require(role in ROLES, role, f"one of the roles {', '.join(ROLES)}")
        found.require(name in names, role, "the name of a column")
    return roles


def _read_index(folder: Path) -> Fields:
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: not a saved Dataset: the folder has no {INDEX}; see Dataset.save"
        )
    try:
        content = Fields(parse_json(path.read_bytes()), "index")
        index, checksum = content.get("dataset"), content.text("checksum")
    except FieldError:
        raise ValueError(f"{path}: damaged, or not written by Dataset.save") from None
    known = isinstance(index, dict) and index.get("format") == FORMAT
    version = index.get("version") if known else None
    if not is_json_whole(version) or version < 1:
        raise ValueError(f"{path}: not a saved Dataset of cwboost")
    if version > VERSION:
        raise ValueError(
            f"{path}: written by a later cwboost (format version {version}; this "
            f"one reads up to {VERSION}); update cwboost"
        )
    if _checksum(index) != checksum:
        raise ValueError(f"{path}: damaged: it does not match its checksum; save the Dataset again")
    return Fields(index, "dataset")
