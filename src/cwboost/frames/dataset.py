"""Dataset: a table that is larger than memory, behind the same verbs as any table.

Knows the sources (Parquet files, streams, a saved folder) and that a fit asks for one column at a
time; knows nothing of bins or models. A stream passes only once: it is laid out by column in a
folder first, a temporary one unless a folder is named.
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from cwboost._utils.atomic_files import replace_folder
from cwboost.progress import Progress, as_progress

from .columns import Column
from .reading import read
from .saved_folder import INDEX, SavedFolder, Writer
from .table import ComputedColumns, Table

KEPT_BYTES = 2**28  # bytes of columns as floats up to which they stay in memory once they are read
ROLES = ("y", "weights", "offset", "exposure")
BATCH = 2**18  # rows that DuckDB hands over at a time


class Source(Protocol):
    """Where the rows are."""

    names: tuple[str, ...]
    n_rows: int

    def column(self, name: str) -> Column: ...

    def head(self, name: str) -> Column: ...


class Dataset:
    """Rows that need not fit into memory: made by `from_parquet`, `from_arrow`, `from_duckdb`,
    `from_batches` or `open`, and given to `cb.fit`, `cb.cv`, `cb.tune`, the estimators and
    `predict` in the place of a table.

    A fit reads one column after the other, makes bins of it (a byte or two per row) and forgets
    it; the model is the same, bit by bit, as that of the same table in memory.

    Attributes
    ----------
    roles : mapping
        Which columns are y, weights, offset and exposure.
    folder : Path or None
        Where it was saved, or opened from.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> def batches():
    ...     for _ in range(4):
    ...         x = rng.uniform(size=250)
    ...         yield {"x": x, "y": np.sin(6 * x)}
    >>> dataset = cb.Dataset.from_batches(batches(), y="y")
    >>> dataset
    <cwboost.Dataset: 1000 rows, 2 columns, y = 'y'>
    >>> model = cb.fit(dataset, n_iter=50)
    >>> model.predict(dataset).shape
    (1000,)
    """

    def __init__(
        self, source: Source, roles: Mapping[str, str], folder: Path | None = None, **more: Any
    ) -> None:
        self.roles, self.folder = dict(roles), folder
        self._source = source
        small = 8 * source.n_rows * len(source.names) <= KEPT_BYTES
        self.table = Table(
            source.names,
            source.n_rows,
            ComputedColumns(self._read, reread=not small),
            head=None if small else source.head,
            roles=self.roles,
            on_read=[],
            **more,
        )
        for role, name in self.roles.items():
            if name not in self.table:
                raise ValueError(
                    f"{role}: column {name!r} is not in the rows; they have {self.table.shown}"
                )

    # --- where rows come from ---------------------------------------------------------------------

    @classmethod
    def from_parquet(
        cls,
        files: Any,
        y: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        weights: str | None = None,
        offset: str | None = None,
        exposure: str | None = None,
        filters: Any = None,
    ) -> Dataset:
        """Rows of Parquet files, read where they lie (extra `parquet`).

        Parameters
        ----------
        files : path, folder, pattern, or a list of them
            A pattern is such as ``"trips/*.parquet"``. Files of a folder or a pattern are taken in
            the order of their names. All must have the columns of the first; what later ones have
            beyond these is not read.
        y, weights, offset, exposure : name of a column, optional
            What fits take them for, unless they are told otherwise.
        columns : list of names, optional
            The features; others are never read. By default all.
        filters : list of (column, operator, value), optional
            Only rows for which all hold, as `pyarrow.parquet.read_table` takes them; row groups
            without such rows are not read.

        Examples
        --------
        >>> import pandas as pd, cwboost as cb
        >>> for k in range(3):
        ...     pd.DataFrame({"x": [k, k + 0.5], "y": [1.0, 2.0]}).to_parquet(f"part-{k}.parquet")
        >>> cb.Dataset.from_parquet("part-*.parquet", y="y").n_rows
        6
        """
        from .parquet import ParquetFiles

        roles = _roles(y, weights, offset, exposure)
        source = ParquetFiles(files, _needed(columns, roles), filters)
        return cls(source, roles, where=source.where)

    @classmethod
    def from_arrow(
        cls,
        stream: Any,
        y: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        weights: str | None = None,
        offset: str | None = None,
        exposure: str | None = None,
        folder: Any = None,
        progress: Any = None,
    ) -> Dataset:
        """Rows of a stream of Arrow record batches (extra `parquet`).

        Parameters
        ----------
        stream : RecordBatchReader, pyarrow Dataset or Scanner, or what exports an Arrow stream
        y, weights, offset, exposure, columns
            As of `from_parquet`.
        folder : path, optional
            Where the rows are laid out, as `save` does; by default a temporary folder, which takes
            up to 8 bytes per cell and is removed with the Dataset.
        progress : None, bool or Progress

        Examples
        --------
        >>> import pyarrow as pa, cwboost as cb
        >>> batch = pa.record_batch({"x": [1.0, 2.0], "y": [0.5, 0.7]})
        >>> reader = pa.RecordBatchReader.from_batches(batch.schema, [batch] * 3)
        >>> cb.Dataset.from_arrow(reader, y="y").n_rows
        6
        """
        roles = _roles(y, weights, offset, exposure)
        batches = _arrow_batches(stream, _needed(columns, roles))
        return cls._laid_out(batches, columns, roles, folder, progress)

    @classmethod
    def from_duckdb(
        cls,
        relation: Any,
        y: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        weights: str | None = None,
        offset: str | None = None,
        exposure: str | None = None,
        folder: Any = None,
        progress: Any = None,
    ) -> Dataset:
        """Rows of a DuckDB relation, such as `duckdb.sql("select ...")`; it runs once.

        Parameters
        ----------
        relation : DuckDBPyRelation
        y, weights, offset, exposure, columns, folder, progress
            As of `from_arrow`.

        Examples
        --------
        >>> import duckdb, cwboost as cb
        >>> rows = duckdb.sql("select range / 10 as x, range % 3 as y from range(100)")
        >>> cb.Dataset.from_duckdb(rows, y="y").n_rows
        100
        """
        if not hasattr(relation, "project"):
            raise TypeError(
                "from_duckdb: expected a relation such as duckdb.sql('select ...'), got "
                f"{type(relation).__name__}"
            )
        roles = _roles(y, weights, offset, exposure)
        needed = _needed(columns, roles)
        if needed is not None:
            _check_there(needed, relation.columns)
            relation = relation.project(", ".join(map(_quoted, needed)))
        newer = hasattr(relation, "to_arrow_reader")  # than DuckDB 1.4
        reader = relation.to_arrow_reader if newer else relation.fetch_arrow_reader
        batches = _arrow_batches(reader(BATCH), needed)
        return cls._laid_out(batches, columns, roles, folder, progress)

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Any],
        y: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        weights: str | None = None,
        offset: str | None = None,
        exposure: str | None = None,
        folder: Any = None,
        progress: Any = None,
    ) -> Dataset:
        """Rows of tables that come one after the other: data frames, dicts of columns, arrays.

        Parameters
        ----------
        batches : iterable of tables, all with the columns of the first
        y, weights, offset, exposure, columns, folder, progress
            As of `from_arrow`.

        Examples
        --------
        >>> import cwboost as cb
        >>> rows = ({"x": [i, i + 1], "job": ["a", "b"]} for i in range(3))
        >>> cb.Dataset.from_batches(rows).n_rows
        6
        """
        if _is_one_table(batches):
            raise TypeError(
                f"from_batches: expected tables one after the other, got one "
                f"{type(batches).__name__}; pass a list or a generator of them"
            )
        roles = _roles(y, weights, offset, exposure)
        return cls._laid_out(batches, columns, roles, folder, progress)

    @classmethod
    def _laid_out(
        cls,
        batches: Iterable[Any],
        columns: Sequence[str] | None,
        roles: Mapping[str, str],
        folder: Any,
        progress: Any,
    ) -> Dataset:
        """Rows that pass once, laid out in a folder."""
        tables = ((read(batch), f"batch {k}") for k, batch in enumerate(batches))
        needed = _needed(columns, roles)
        if folder is not None:
            _write(folder, tables, needed, roles, as_progress(progress))
            return cls.open(folder)
        home = Path(tempfile.mkdtemp(prefix="cwboost-"))
        try:
            _write(home, tables, needed, roles, as_progress(progress))
            source = SavedFolder(home)
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise
        weakref.finalize(
            source, shutil.rmtree, home, ignore_errors=True
        )  # no fit reads it any more
        return cls._opened(source, None)

    # --- on disk ----------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Any) -> Dataset:
        """A Dataset that `save` has written.

        Examples
        --------
        >>> import cwboost as cb
        >>> _ = cb.Dataset.from_batches([{"x": [1.0, 2.0], "y": [0.0, 1.0]}], y="y").save("small")
        >>> cb.Dataset.open("small")
        <cwboost.Dataset: 2 rows, 2 columns, y = 'y', in small>
        """
        return cls._opened(SavedFolder(folder), Path(folder))

    @classmethod
    def _opened(cls, store: SavedFolder, folder: Path | None) -> Dataset:
        return cls(store, store.roles, folder, bin_folder=store.bin_folder)

    def save(self, folder: Any, progress: Any = None) -> Dataset:
        """Writes it to a folder and returns the Dataset there.

        All or nothing is written; a Dataset that is in the folder is replaced at the end. The
        first fit of the Dataset there keeps its bins in the folder, and later ones (other losses,
        optimizers and degrees of freedom, folds, tuning) start from them at once: those of fits to
        all rows, and those of the last split into training and validation rows.

        Parameters
        ----------
        folder : path
        progress : None, bool or Progress
        """
        _write(folder, self._tables(), self.names, self.roles, as_progress(progress), self.n_rows)
        return self.open(folder)

    def _tables(self) -> Iterator[tuple[Table, str]]:
        found = getattr(self._source, "tables", None)
        if found is not None:
            yield from found(self.names)
        else:
            assert isinstance(self._source, SavedFolder)
            for table in self._source.batches(self.names):
                yield table, str(self._source.folder)

    # --- what is in it ----------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Its columns."""
        return self.table.names

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return self.table.n_rows

    @property
    def features(self) -> list[str]:
        """The columns without a role."""
        return [name for name in self.names if name not in self.roles.values()]

    def __len__(self) -> int:
        return self.n_rows

    def __reduce__(self) -> Any:
        """To other processes goes where the rows are."""
        if self.folder is not None:
            return Dataset.open, (str(self.folder.resolve()),)
        if isinstance(self._source, SavedFolder):
            raise TypeError(
                "a Dataset of a stream is in a temporary folder of this process; save it to use it "
                "in another"
            )
        files = [str(file.resolve()) for file in self._source.files]  # type: ignore[attr-defined]
        return _from_files, (files, self.names, self._source.filters, self.roles)  # type: ignore[attr-defined]

    def _read(self, name: str) -> Column:
        for notify in self.table.on_read or ():
            notify(name)
        return self._source.column(name)

    def __repr__(self) -> str:
        roles = "".join(f", {role} = {name!r}" for role, name in self.roles.items())
        place = "" if self.folder is None else f", in {self.folder}"
        return f"<cwboost.Dataset: {self.n_rows} rows, {len(self.names)} columns{roles}{place}>"


def _from_files(
    files: list[str], names: Sequence[str], filters: Any, roles: Mapping[str, str]
) -> Dataset:
    return Dataset.from_parquet(files, columns=names, filters=filters, **roles)


def _roles(*names: str | None) -> dict[str, str]:
    out = {}
    for role, name in zip(ROLES, names, strict=True):
        if name is not None:
            if not isinstance(name, str):
                raise TypeError(f"{role}: expected the name of a column, got {name!r}")
            out[role] = name
    return out


def _needed(columns: Any, roles: Mapping[str, str]) -> list[str] | None:
    """Features and columns with a role; None: all that there are."""
    if columns is None:
        return None
    if isinstance(columns, str) or not all(isinstance(name, str) for name in columns):
        raise TypeError(f"columns: expected a list of names, got {columns!r}")
    return list(dict.fromkeys([*columns, *roles.values()]))


def _is_one_table(given: Any) -> bool:
    """Whether it is one of what should come one after the other."""
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        return True
    return hasattr(given, "columns") or getattr(given, "ndim", 1) == 2


def _check_there(names: Iterable[str], there: Sequence[str]) -> None:
    for name in names:
        if name not in there:
            shown = ", ".join(map(repr, there[:10])) + ", ..." * (len(there) > 10)
            raise ValueError(f"column {name!r} is not in the rows; they have {shown}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _arrow_batches(stream: Any, needed: Sequence[str] | None) -> Iterator[Any]:
    """Record batches of whatever has them, with the needed columns."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Arrow needs the package pyarrow; install it with: pip install 'cwboost[parquet]'"
        ) from error
    if hasattr(stream, "scanner"):  # a pyarrow Dataset reads only these columns
        _check_there(needed or (), stream.schema.names)
        stream = stream.scanner(columns=needed)
    if hasattr(stream, "to_reader"):
        stream = stream.to_reader()
    if not isinstance(stream, pyarrow.RecordBatchReader):
        if not hasattr(stream, "__arrow_c_stream__"):
            raise TypeError(
                "from_arrow: expected a stream of record batches (a RecordBatchReader, a pyarrow "
                f"Dataset, ...), got {type(stream).__name__}"
            )
        stream = pyarrow.RecordBatchReader.from_stream(stream)
    if needed is not None:
        _check_there(needed, stream.schema.names)
    with closing(stream):
        for batch in stream:
            yield batch if needed is None else batch.select(needed)


def _write(
    folder: Any,
    tables: Iterable[tuple[Table, str]],
    needed: Sequence[str] | None,
    roles: Mapping[str, str],
    bar: Progress,
    n_rows: int | None = None,
) -> None:
    """Lays tables out in a folder: all of them, or nothing is there."""
    writer = None
    with replace_folder(folder, INDEX) as temporary:
        try:
            with bar.work(n_rows, "row"):
                for table, where in tables:
                    if writer is None:
                        names = table.names if needed is None else needed
                        _check_there([*names, *roles.values()], table.names)
                        writer = Writer(temporary, names, roles)
                    _check_there(names, table.names)
                    writer.add(table, where)
                    bar.step(writer.n_rows)
            if writer is None:
                raise ValueError("there are no rows: not one batch came")
            writer.finish()
        finally:
            if writer is not None:
                writer.close()
