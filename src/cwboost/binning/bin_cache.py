"""Bins of a saved Dataset, stored in its folder for later fits.

Does not know how bins are made (see fitting/shared_bins.py) or what a saved Dataset looks like (see
frames/saved_folder.py).

    bins/SAMPLE/KEY.bin    the value of every bin (float64), then the bin of every row
    bins/SAMPLE/KEY.json   the number of bins and rows, and a checksum
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cwboost._utils.atomic_files import replace_file
from cwboost._utils.typed_fields import FieldError, Fields, parse_json, require
from cwboost._utils.user_warnings import warn_user
from cwboost.frames.saved_folder import map_file
from cwboost.frames.table import BinFolder

from .index_sets import IndexSet
from .summary import Sample

INDEX_TYPES = tuple(np.dtype(t).str for t in (np.uint8, np.uint16, np.uint32))
MAX_SPLITS = 1  # splits whose bins are kept, besides the bins of all rows


class BinCache:
    """The stored bins of one sample: of all rows, or of the latest split.

    If the disk is full or read-only nothing is stored, and bins stay in memory.
    """

    def __init__(self, folder: BinFolder, sample: Sample, n_rows: int) -> None:
        self._bins, self._verified = folder
        self._n_rows = n_rows
        digest = hashlib.sha256()
        for part in (sample.marks, sample.weights):
            digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
        all_rows = sample.marks is None and sample.weights is None
        self._folder = self._bins / ("all" if all_rows else f"split-{digest.hexdigest()[:16]}")

    def find(self, key: str) -> IndexSet | None:
        """Return the bins that were stored under a key; None if absent or damaged."""
        path = self._path(key)
        try:
            fields = Fields(parse_json(path.with_suffix(".json").read_bytes()), "bins")
            header = {name: fields.get(name) for name in fields.names()}
            data = map_file(path)
            if fields.get("key") != key or fields.get("n_rows") != self._n_rows:
                return None
            check = fields.whole("crc32")
            del header["crc32"]
            bins = _read_bins(fields, data)
            if (path, check) not in self._verified:
                if zlib.crc32(data, _checksum(header)) != check or not _are_valid(bins):
                    return None
                self._verified.add((path, check))
            return bins
        except (OSError, FieldError):
            return None

    def store(self, key: str, bins: IndexSet) -> IndexSet:
        """Store bins under a key; return them mapped from disk, or as they are if that fails."""
        path = self._path(key)
        try:
            self._make_folder()
            header: dict[str, Any] = {"key": key, "n_rows": bins.n_rows, "n_bins": bins.n_bins}
            header["dtype"] = bins.index.dtype.str
            check = _checksum(header)
            with replace_file(path) as temporary, temporary.open("wb") as stream:
                for array in (bins.values, bins.index):
                    raw = np.ascontiguousarray(array).data.cast("B")
                    stream.write(raw)
                    check = zlib.crc32(raw, check)
            with replace_file(path.with_suffix(".json")) as temporary:
                temporary.write_text(json.dumps(header | {"crc32": check}), encoding="utf-8")
        except OSError as error:
            warn_user(
                f"{self._folder}: bins cannot be stored for later fits ({error.strerror or error})",
            )
            return bins
        self._verified.add((path, check))
        return self.find(key) or bins

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.bin"

    def _make_folder(self) -> None:
        """Make the folder of the sample; remove the folders of earlier splits."""
        if self._folder.is_dir():
            return
        splits = sorted(self._bins.glob("split-*"), key=lambda p: p.stat().st_mtime)
        if self._folder.name != "all":
            for old in splits[: len(splits) + 1 - MAX_SPLITS]:
                shutil.rmtree(old, ignore_errors=True)
        self._bins.mkdir(exist_ok=True)  # fails if the Dataset's folder has been removed
        self._folder.mkdir(exist_ok=True)


def _read_bins(fields: Fields, data: memoryview) -> IndexSet:
    """Return the bins in a file; raise FieldError if their number and type do not fit its size."""
    n_bins, n_rows = fields.whole("n_bins", low=1), fields.whole("n_rows")
    fields.require(fields.get("dtype") in INDEX_TYPES, "dtype", f"one of {INDEX_TYPES}")
    dtype = np.dtype(fields.text("dtype"))
    n_bytes = 8 * n_bins + n_rows * dtype.itemsize
    require(len(data) == n_bytes, "bins", f"{n_bytes} bytes", len(data))
    values = np.frombuffer(data[: 8 * n_bins], np.float64)
    return IndexSet(np.frombuffer(data[8 * n_bins :], dtype), values)


def _are_valid(bins: IndexSet) -> bool:
    """Return whether every row is in one of the bins."""
    return bins.n_rows == 0 or int(bins.index.max()) < bins.n_bins


def _checksum(header: Mapping[str, Any]) -> int:
    """Return the checksum of the header; the checksum of the bins continues it."""
    return zlib.crc32(json.dumps(header).encode())
