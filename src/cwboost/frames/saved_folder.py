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
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import check_name, open_text, recover_folder

from .chunks import Chunk, UnifiedColumn
from .columns import Column, Labels, Numbers
from .table import BinFolder, ComputedColumns, Table

FORMAT, VERSION = "cwboost dataset", 1
INDEX = "dataset.json"
PIECE_ROWS = 2**18
NARROW = tuple(map(np.dtype, ("i1", "i2", "i4", "f4")))
MISSING = "-"  # the type of a piece in which all cells are missing; it takes no space


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
            entry |= {"boolean": whole.boolean, "exact": whole.exact}
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


class SavedFolder:
    """A saved Dataset, opened for reading."""

    def __init__(self, folder: Any) -> None:
        check_name(folder)
        recover_folder(folder)
        self.folder = Path(folder).resolve()
        index = _read_index(self.folder)
        self.n_rows: int = index["n_rows"]
        self.roles: dict[str, str] = index["roles"]
        self._entries = {entry["name"]: entry for entry in index["columns"]}
        self.names = tuple(self._entries)
        self._verified: set[Any] = set()  # columns and bins whose checksum has been compared
        for name, entry in self._entries.items():
            path = self._path(entry)
            if not path.is_file() or path.stat().st_size != entry["bytes"]:
                size = f"{path.stat().st_size} bytes" if path.is_file() else "no such file"
                raise ValueError(
                    f"{path}: damaged: expected {entry['bytes']} bytes of column {name!r}, found "
                    f"{size}; save the Dataset again"
                )

    def _path(self, entry: Mapping[str, Any]) -> Path:
        return self.folder / "columns" / str(entry["file"])

    def column(self, name: str) -> Column:
        """Return all cells of a column."""
        text = "levels" in self._entries[name]
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
        if "levels" in entry:
            return Labels(name, cells, tuple(entry["levels"]))
        return Numbers(name, cells.astype(np.float64, copy=False), entry["boolean"], entry["exact"])

    def _pieces(self, name: str) -> Iterator[NDArray[Any]]:
        """Yield floats, or codes of levels, piece by piece."""
        entry = self._entries[name]
        to = np.array([*entry["level"], -1]) if "levels" in entry else None
        at, check, verified = 0, 0, name in self._verified
        try:
            data = map_file(self._path(entry))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.folder}: the folder of the Dataset, or its file of column {name!r}, no "
                "longer exists; save the Dataset again and open it"
            ) from None
        for narrow, n in entry["pieces"]:
            if narrow == MISSING:
                yield np.full(n, np.nan) if to is None else np.full(n, -1)
                continue
            raw = data[at : at + n * np.dtype(narrow).itemsize]
            at += len(raw)
            check = 0 if verified else zlib.crc32(raw, check)
            cells = np.frombuffer(raw, narrow)
            # Code -1, missing, reads the last entry.
            yield cells if to is None else to.take(cells, mode="wrap")
        if not verified and check != entry["crc32"]:
            raise ValueError(
                f"{self._path(entry)}: damaged: the cells of column {name!r} do not match their "
                "checksum; save the Dataset again"
            )
        self._verified.add(name)

    def tables(self, names: Sequence[str]) -> Iterator[tuple[Table, str]]:
        """Yield some columns of all rows, piece by piece, with the folder's name."""
        iterators = [self._pieces(name) for name in names]
        first = next(iter(self._entries.values()), {"pieces": ()})  # all columns have equal pieces
        for _, n in first["pieces"]:
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


def _read_index(folder: Path) -> Any:
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: not a saved Dataset: the folder has no {INDEX}; see Dataset.save"
        )
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        index, checksum = content["dataset"], content["checksum"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: damaged, or not written by Dataset.save") from None
    known = isinstance(index, dict) and index.get("format") == FORMAT
    version = index.get("version") if known else None
    if not isinstance(version, int):
        raise ValueError(f"{path}: not a saved Dataset of cwboost")
    if version > VERSION:
        raise ValueError(
            f"{path}: written by a later cwboost (format version {version}; this "
            f"one reads up to {VERSION}); update cwboost"
        )
    if _checksum(index) != checksum:
        raise ValueError(f"{path}: damaged: it does not match its checksum; save the Dataset again")
    return index
