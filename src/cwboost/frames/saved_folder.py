"""A Dataset as a folder: columns piece by piece, and bins that fits have made of them.

Knows the format and guards it: a version, and a checksum of every file, compared when it is first
read. Knows nothing of where rows come from or of what bins are for.

    dataset.json      what there is: rows, columns and their levels, roles, checksums
    columns/0.bin     cells of a column, in pieces, each in the narrowest type that keeps its bits
    bins/SAMPLE/...   what bins stand for (float64), then the bin of every row, to be mapped
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import recover_folder, replace_file
from cwboost.binning.index_sets import IndexSet
from cwboost.binning.summary import Sample

from .chunks import UnifiedColumn
from .table import Chunk, Column, Labels, Numbers, Table

FORMAT, VERSION = "cwboost dataset", 1
INDEX = "dataset.json"
PIECE = 2**18  # rows
NARROW = tuple(map(np.dtype, ("i1", "i2", "i4", "f4")))
MISSING = "-"  # the type of a piece without any value, which takes no room
SPLITS = 1  # splits into training and validation rows whose bins are kept, beside those of all rows


# --- writing --------------------------------------------------------------------------------------


class ColumnWriter:
    """Writes the cells of one column."""

    def __init__(self, path: Path, name: str) -> None:
        self.unified = UnifiedColumn(name)
        self._path = path
        self._stream = path.open("wb")
        self._waiting: list[NDArray[Any]] = []  # cells that are less than a piece
        self._pieces: list[tuple[str, int]] = []
        self._crc = self._bytes = 0

    def add(self, piece: Chunk, where: str) -> None:
        cells = self.unified.add(piece, where)
        empty = not piece.sort
        self._waiting.append(np.full(len(cells), np.nan) if empty else cells)

    def flush(self, n: int) -> None:
        """Writes the next n cells."""
        cells = np.concatenate(self._waiting)
        self._waiting = [cells[n:]]
        cells = cells[:n]
        if self.unified.sort == "text":  # pieces without values are NaN
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
        """What the index says of the column."""
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.close()
        found = self.unified.finish()
        said: dict[str, Any] = {"name": self.unified.name, "file": self._path.name}
        if isinstance(found, Labels):
            said |= {"levels": found.levels, "level": found.codes.tolist()}
        else:
            said |= {"boolean": found.boolean, "exact": found.exact}
        return said | {"pieces": self._pieces, "bytes": self._bytes, "crc32": self._crc}

    def close(self) -> None:
        self._stream.close()


def _narrowest(cells: NDArray[Any]) -> np.dtype[Any]:
    """The first type that gives back the same bits."""
    for narrow in NARROW:
        with np.errstate(invalid="ignore", over="ignore"):
            back = cells.astype(narrow).astype(cells.dtype)
        if back.tobytes() == cells.tobytes():
            return narrow
    return cells.dtype


class Writer:
    """Writes a Dataset to a folder, table by table; all of them have the columns of the first."""

    def __init__(self, folder: Path, names: Sequence[str], roles: Mapping[str, str]) -> None:
        self._folder, self._roles = folder, dict(roles)
        (folder / "columns").mkdir()
        self._columns = [
            ColumnWriter(folder / "columns" / f"{k}.bin", name) for k, name in enumerate(names)
        ]
        self.n_rows = self._waiting = 0

    def add(self, table: Table, where: str) -> None:
        for column in self._columns:
            column.add(table.piece(column.unified.name), where)
        self.n_rows += table.n_rows
        self._waiting += table.n_rows
        while self._waiting >= PIECE:
            self._flush(PIECE)

    def _flush(self, n: int) -> None:
        for column in self._columns:
            column.flush(n)
        self._waiting -= n

    def finish(self) -> None:
        if self._waiting:
            self._flush(self._waiting)
        columns = [column.finish() for column in self._columns]
        said = {"format": FORMAT, "version": VERSION, "n_rows": self.n_rows, "roles": self._roles}
        text = _with_checksum(said | {"columns": columns})
        with (self._folder / INDEX).open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())

    def close(self) -> None:
        """Closes the files, whatever has been written."""
        for column in self._columns:
            column.close()


def _with_checksum(said: dict[str, Any]) -> str:
    text = json.dumps(said, ensure_ascii=False)
    return json.dumps(
        {"checksum": hashlib.sha256(text.encode()).hexdigest(), "dataset": said}, ensure_ascii=False
    )


# --- reading --------------------------------------------------------------------------------------


class SavedFolder:
    """A Dataset in a folder."""

    def __init__(self, folder: Any) -> None:
        recover_folder(folder)
        self.folder = Path(folder).resolve()
        said = _read_index(self.folder)
        self.n_rows: int = said["n_rows"]
        self.roles: dict[str, str] = said["roles"]
        self._said = {each["name"]: each for each in said["columns"]}
        self.names = tuple(self._said)
        self._sound: set[Any] = set()  # columns and bins whose checksum has been compared
        for name, each in self._said.items():
            path = self._path(each)
            if not path.is_file() or path.stat().st_size != each["bytes"]:
                size = f"{path.stat().st_size} bytes" if path.is_file() else "no such file"
                raise ValueError(
                    f"{path}: damaged: expected {each['bytes']} bytes of column {name!r}, found "
                    f"{size}; save the Dataset again"
                )

    def _path(self, said: Mapping[str, Any]) -> Path:
        return self.folder / "columns" / str(said["file"])

    def column(self, name: str) -> Column:
        """All cells of a column."""
        text = "levels" in self._said[name]
        out: NDArray[Any] = np.empty(self.n_rows, np.int64 if text else np.float64)
        begin = 0
        for cells in self._pieces(name):
            out[begin : begin + len(cells)] = cells
            begin += len(cells)
        return self._column(name, out)

    def head(self, name: str) -> Column:
        """The first cells of a column."""
        cells = np.asarray(next(self._pieces(name), np.empty(0)))
        return self._column(name, cells)

    def _column(self, name: str, cells: NDArray[Any]) -> Column:
        said = self._said[name]
        if "levels" in said:
            return Labels(name, cells, tuple(said["levels"]))
        return Numbers(name, cells.astype(np.float64, copy=False), said["boolean"], said["exact"])

    def _pieces(self, name: str) -> Iterator[NDArray[Any]]:
        """Floats, or codes of levels, piece by piece."""
        said = self._said[name]
        to = np.array([*said["level"], -1]) if "levels" in said else None
        at, check, sound = 0, 0, name in self._sound
        try:
            data = _mapped(self._path(said))
        except FileNotFoundError:
            raise FileNotFoundError(
                f"{self.folder}: the folder of the Dataset, or its file of column {name!r}, is "
                "gone; save the Dataset again, and open it"
            ) from None
        for narrow, n in said["pieces"]:
            if narrow == MISSING:
                yield np.full(n, np.nan) if to is None else np.full(n, -1)
                continue
            raw = data[at : at + n * np.dtype(narrow).itemsize]
            at += len(raw)
            check = 0 if sound else zlib.crc32(raw, check)
            cells = np.frombuffer(raw, narrow)
            yield cells if to is None else to.take(cells, mode="wrap")  # -1 is the last
        if not sound and check != said["crc32"]:
            raise ValueError(
                f"{self._path(said)}: damaged: the checksum of column {name!r} is not that of its "
                "cells; save the Dataset again"
            )
        self._sound.add(name)

    def batches(self, names: Sequence[str]) -> Iterator[Table]:
        """Some columns of all rows, piece by piece."""
        iterators = [self._pieces(name) for name in names]
        for _, n in next(iter(self._said.values()))["pieces"] if self._said else ():
            cells = dict(zip(names, map(next, iterators), strict=True))
            made = {name: self._column(name, each) for name, each in cells.items()}
            yield Table(names, n, made.__getitem__)
        for pieces in iterators:
            next(pieces, None)  # compares the checksum

    def shelf(self, sample: Sample) -> BinCache:
        return BinCache(self.folder / "bins", sample, self.n_rows, self._sound)


def _mapped(path: Path) -> memoryview:
    """The bytes of a file where they lie."""
    if path.stat().st_size == 0:
        return memoryview(b"")
    with path.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


def _read_index(folder: Path) -> Any:
    path = folder / INDEX
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: there is no saved Dataset (no {INDEX} in it); see Dataset.save"
        )
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        said, checksum = found["dataset"], found["checksum"]
        same = json.loads(_with_checksum(said))["checksum"] == checksum
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}: damaged, or not written by Dataset.save") from None
    if said.get("format") != FORMAT or not isinstance(said.get("version"), int):
        raise ValueError(f"{path}: not a Dataset of cwboost")
    if said["version"] > VERSION:
        raise ValueError(
            f"{path}: written by a later cwboost (version {said['version']} of the format, this "
            f"one knows {VERSION}); update cwboost"
        )
    if not same:
        raise ValueError(f"{path}: damaged: its checksum is another; save the Dataset again")
    return said


# --- bins -----------------------------------------------------------------------------------------


def _check_of(said: Mapping[str, Any]) -> int:
    """A checksum to go on from: of what is said of bins."""
    return zlib.crc32(json.dumps(said).encode())


class BinCache:
    """Where the bins of a sample of the rows are kept: those of all rows, and of the last split.

    A disk that is full or cannot be written to keeps nothing, and the bins stay in memory.
    """

    def __init__(self, folder: Path, sample: Sample, n_rows: int, sound: set[Any]) -> None:
        self._bins, self._n_rows, self._sound = folder, n_rows, sound
        digest = hashlib.sha256()
        for part in (sample.marks, sample.weights):
            digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
        alike = sample.marks is None and sample.weights is None
        self._folder = folder / ("all" if alike else f"split-{digest.hexdigest()[:16]}")

    def find(self, key: str) -> IndexSet | None:
        """Bins that were kept; None: none were, or they are damaged."""
        path = self._path(key)
        try:
            said = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
            data = _mapped(path)
            if said["key"] != key or said["n_rows"] != self._n_rows:
                return None
            check = said.pop("crc32")
            if (path, check) not in self._sound:
                if zlib.crc32(data, _check_of(said)) != check:
                    return None
                self._sound.add((path, check))
            n_bins, index = said["n_bins"], np.dtype(said["dtype"])
            values = np.frombuffer(data[: 8 * n_bins], np.float64)
            return IndexSet(np.frombuffer(data[8 * n_bins :], index), values)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, key: str, bins: IndexSet) -> IndexSet:
        """The same bins, mapped from the disk if they can be kept there."""
        path = self._path(key)
        try:
            self._make_room()
            said: dict[str, Any] = {"key": key, "n_rows": bins.n_rows, "n_bins": bins.n_bins}
            said["dtype"] = bins.index.dtype.str
            check = _check_of(said)
            with replace_file(path) as temporary, temporary.open("wb") as stream:
                for array in (bins.values, bins.index):
                    raw = np.ascontiguousarray(array).data.cast("B")
                    stream.write(raw)
                    check = zlib.crc32(raw, check)
            with replace_file(path.with_suffix(".json")) as temporary:
                temporary.write_text(json.dumps(said | {"crc32": check}), encoding="utf-8")
        except OSError as error:
            warnings.warn(
                f"{self._folder}: bins are not kept for later fits ({error.strerror})",
                UserWarning,
                stacklevel=2,
            )
            return bins
        self._sound.add((path, check))
        return self.find(key) or bins

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.bin"

    def _make_room(self) -> None:
        if self._folder.is_dir():
            return
        splits = sorted(self._bins.glob("split-*"), key=lambda p: p.stat().st_mtime)
        if self._folder.name != "all":
            for old in splits[: len(splits) + 1 - SPLITS]:
                shutil.rmtree(old, ignore_errors=True)
        self._bins.mkdir(exist_ok=True)  # not the Dataset's folder, if somebody has removed it
        self._folder.mkdir(exist_ok=True)
