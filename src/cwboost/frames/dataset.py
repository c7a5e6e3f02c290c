"""Dataset: a table that need not fit into memory.

Its source is a set of Parquet files or a saved folder, and a fit reads one column at a time.
Streams can be read only once, so their rows are first written to a folder, by default a temporary
one.
Does not know about bins or models.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from cwboost._utils.atomic_files import make_temporary_folder, replace_folder
from cwboost._utils.checks import has_items
from cwboost._utils.text import quote, suggest_names
from cwboost.progress import Progress, as_progress

from .columns import Column
from .read_frames import read
from .saved_folder import INDEX, SavedFolder, Writer
from .table import BinFolder, ComputedColumns, Table

KEPT_BYTES = 2**28  # up to this size (as floats) the columns stay in memory once they are read
ROLES = ("y", "weights", "offset", "exposure")
BATCH_ROWS = 2**18  # rows per batch of DuckDB


class DatasetSource(Protocol):
    """Where the rows of a Dataset are: Parquet files (parquet.py) or a saved folder."""

    names: tuple[str, ...]
    n_rows: int

    def column(self, name: str) -> Column:
        """Return all rows of a column."""

    def head(self, name: str) -> Column:
        """Return the first rows of a column."""

    def tables(self, names: Sequence[str]) -> Iterator[tuple[Table, str]]:
        """Yield some columns of all rows, batch by batch, with the name of each batch's place."""


class Dataset:
    """A table that need not fit into memory.

    Make one with `from_parquet`, `from_arrow`, `from_duckdb`, `from_batches` or `open`, and pass
    it to `cb.fit`, `cb.cv`, `cb.tune`, the estimators and `predict` instead of a table.

    A fit reads one column after the other and keeps its bins (one or two bytes per row). The model
    is bit for bit the model of the same table in memory.

    Attributes
    ----------
    roles : mapping
        Which columns are y, weights, offset and exposure.
    folder : Path or None
        The folder of a saved Dataset.

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
        self,
        source: DatasetSource,
        roles: Mapping[str, str],
        folder: Path | None = None,
        reopen: Callable[[], Dataset] | None = None,
        *,
        where: Callable[[int], str] | None = None,
        bin_folder: BinFolder | None = None,
    ) -> None:
        self.roles, self.folder = dict(roles), folder
        self._source, self._reopen = source, reopen
        small = 8 * source.n_rows * len(source.names) <= KEPT_BYTES
        self.table = Table(
            source.names,
            source.n_rows,
            ComputedColumns(self._read, reread=not small),
            where=where,
            head=None if small else source.head,
            roles=self.roles,
            on_read=[],
            bin_folder=bin_folder,
        )
        for role, name in self.roles.items():
            if name not in self.table:
                raise ValueError(
                    f"{role}: column {quote(name)} is not in the Dataset; "
                    f"{suggest_names(name, self.table.names)}"
                )

    # --- sources ----------------------------------------------------------------------------------

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
        """Return the rows of Parquet files, which are read in place (extra `parquet`).

        Parameters
        ----------
        files : path, folder, pattern, or a list of them
            A pattern is for example ``"trips/*.parquet"``. The files of a folder or a pattern are
            sorted by name. All files must have the columns of the first file; further columns are
            ignored.
        y, weights, offset, exposure : name of a column, optional
            The defaults of fits to this Dataset.
        columns : list of names, optional
            The features. Other columns are never read. By default all columns.
        filters : list of (column, operator, value), optional
            Keep only the rows for which all conditions hold, written as for
            `pyarrow.parquet.read_table`. Row groups without such rows are not read.

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
        reopen = partial(_from_files, source.paths, source.names, filters, roles)
        return cls(source, roles, reopen=reopen, where=source.where)

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
        """Return the rows of a stream of Arrow record batches (extra `parquet`).

        Parameters
        ----------
        stream : RecordBatchReader, pyarrow Dataset or Scanner, or any object that exports an \
Arrow stream
        y, weights, offset, exposure, columns
            As in `from_parquet`.
        folder : path, optional
            Where the rows are written, as `save` does. By default a temporary folder, which takes
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
        needed = _needed(columns, roles)
        return cls._from_stream(_arrow_batches(stream, needed), needed, roles, folder, progress)

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
        """Return the rows of a DuckDB relation such as `duckdb.sql("select ...")`, which runs once.

        Parameters
        ----------
        relation : DuckDBPyRelation
        y, weights, offset, exposure, columns, folder, progress
            As in `from_arrow`.

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
            _check_columns(needed, relation.columns)
            relation = relation.project(", ".join(map(_quoted, needed)))
        newer = hasattr(relation, "to_arrow_reader")  # DuckDB 1.4 and later
        reader = relation.to_arrow_reader if newer else relation.fetch_arrow_reader
        batches = _arrow_batches(reader(BATCH_ROWS), needed)
        return cls._from_stream(batches, needed, roles, folder, progress)

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
        """Return the rows of several tables: data frames, dicts of columns, arrays.

        Parameters
        ----------
        batches : iterable of tables that all have the columns of the first
        y, weights, offset, exposure, columns, folder, progress
            As in `from_arrow`.

        Examples
        --------
        >>> import cwboost as cb
        >>> rows = ({"x": [i, i + 1], "job": ["a", "b"]} for i in range(3))
        >>> cb.Dataset.from_batches(rows).n_rows
        6
        """
        if _is_one_table(batches):
            raise TypeError(
                "from_batches: expected an iterable of tables, got one "
                f"{type(batches).__name__}; pass a list or a generator of tables"
            )
        roles = _roles(y, weights, offset, exposure)
        return cls._from_stream(batches, _needed(columns, roles), roles, folder, progress)

    @classmethod
    def _from_stream(
        cls,
        batches: Iterable[Any],
        needed: Sequence[str] | None,
        roles: Mapping[str, str],
        folder: Any,
        progress: Any,
    ) -> Dataset:
        """Write batches to a folder and return the Dataset there."""
        tables = ((read(batch), f"batch {k}") for k, batch in enumerate(batches))
        if folder is not None:
            _write(folder, tables, needed, roles, as_progress(progress))
            return cls.open(folder)
        temporary = make_temporary_folder()
        try:
            _write(temporary, tables, needed, roles, as_progress(progress))
            source = SavedFolder(temporary)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        # Fits may still read the source when the Dataset is gone.
        weakref.finalize(source, shutil.rmtree, temporary, ignore_errors=True)
        return cls._opened(source, None)

    # --- on disk ----------------------------------------------------------------------------------

    @classmethod
    def open(cls, folder: Any) -> Dataset:
        """Return a Dataset that `save` has written.

        Examples
        --------
        >>> import cwboost as cb
        >>> _ = cb.Dataset.from_batches([{"x": [1.0, 2.0], "y": [0.0, 1.0]}], y="y").save("small")
        >>> cb.Dataset.open("small")
        <cwboost.Dataset: 2 rows, 2 columns, y = 'y', in small>
        """
        return cls._opened(SavedFolder(folder), Path(folder))

    @classmethod
    def _opened(cls, saved: SavedFolder, folder: Path | None) -> Dataset:
        reopen = None if folder is None else partial(cls.open, str(folder.resolve()))
        return cls(saved, saved.roles, folder, reopen, bin_folder=saved.bin_folder)

    def save(self, folder: Any, progress: Any = None) -> Dataset:
        """Write the Dataset to a folder and return the Dataset there.

        Either all of it is written or nothing; a Dataset that the folder holds already is replaced
        at the end. The first fit stores its bins in the folder, and later fits (other losses,
        optimizers and degrees of freedom, folds, tuning) read them. The folder keeps the bins of
        fits to all rows and those of the latest split into training and validation rows.

        Parameters
        ----------
        folder : path
        progress : None, bool or Progress
        """
        _write(
            folder,
            self._source.tables(self.names),
            self.names,
            self.roles,
            as_progress(progress),
            self.n_rows,
        )
        return self.open(folder)

    # --- contents ---------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self.table.names

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.table.n_rows

    @property
    def features(self) -> list[str]:
        """The columns without a role."""
        return [name for name in self.names if name not in self.roles.values()]

    def __len__(self) -> int:
        return self.n_rows

    def __reduce__(self) -> Any:
        """Pickle the place of the rows, not the rows."""
        if self._reopen is None:
            raise TypeError(
                "a Dataset of a stream is in a temporary folder of this process; save it to use it "
                "in another process"
            )
        return self._reopen, ()

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
                raise TypeError(f"{role}: expected the name of a column, got {quote(name)}")
            out[role] = name
    return out


def _needed(columns: Any, roles: Mapping[str, str]) -> list[str] | None:
    """Return the names of features and of columns with a role; None for all columns."""
    if columns is None:
        return None
    names = list(columns) if has_items(columns) and getattr(columns, "ndim", 1) == 1 else []
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError(f"columns: expected a list of names, got {quote(columns)}")
    return list(dict.fromkeys([*names, *roles.values()]))


def _is_one_table(batches: Any) -> bool:
    """Return whether an object is a table, not an iterable of tables."""
    return not has_items(batches) or hasattr(batches, "columns") or getattr(batches, "ndim", 1) == 2


def _check_columns(names: Iterable[str], existing: Sequence[str]) -> None:
    """Raise if a name is not among the existing columns."""
    known = set(existing)
    for name in names:
        if name not in known:
            near = suggest_names(name, existing)
            raise ValueError(f"column {quote(name)} is not in the table; {near}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _arrow_batches(stream: Any, needed: Sequence[str] | None) -> Iterator[Any]:
    """Yield the record batches of a stream, with the needed columns."""
    try:
        import pyarrow
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Arrow needs the package pyarrow; install it with: pip install 'cwboost[parquet]'"
        ) from error
    if hasattr(stream, "scanner"):  # a pyarrow Dataset reads only these columns
        _check_columns(needed or (), stream.schema.names)
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
        _check_columns(needed, stream.schema.names)
    with closing(stream):
        for batch in stream:
            yield batch if needed is None else batch.select(needed)


def _write(
    folder: Any,
    tables: Iterable[tuple[Table, str]],
    needed: Sequence[str] | None,
    roles: Mapping[str, str],
    progress: Progress,
    n_rows: int | None = None,
) -> None:
    """Write tables, each with its place, to a folder; on failure the folder stays as it was."""
    writer = None
    with replace_folder(folder, INDEX) as temporary:
        try:
            with progress.work(n_rows, "row"):
                for table, where in tables:
                    if writer is None:
                        names = table.names if needed is None else needed
                        _check_columns([*names, *roles.values()], table.names)
                        writer = Writer(temporary, names, roles)
                    _check_columns(names, table.names)
                    writer.add(table, where)
                    progress.step(writer.n_rows)
            if writer is None:
                raise ValueError("the Dataset has no rows: the stream had no batch")
            writer.finish()
        finally:
            if writer is not None:
                writer.close()
