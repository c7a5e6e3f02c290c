"""Parquet files that need not fit into memory: columns and batches of rows, read in place.

Knows files, row groups and pyarrow (extra `parquet`). Errors name the file, the row group and the
column.
Does not know about Datasets or models.
"""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import replace_folder
from cwboost.progress import Progress

from .chunks import Chunk, gather
from .columns import Column
from .read_frames import read, read_chunk
from .table import Table

ENDINGS = (".parquet", ".pq")
BATCH_ROWS = 2**18  # rows that are decoded at a time


def pyarrow_parquet() -> Any:
    """Return the module pyarrow.parquet; raise a clear error if it is not installed."""
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "Parquet needs the package pyarrow; install it with: pip install 'cwboost[parquet]'"
        ) from error
    return pyarrow.parquet


def find_files(given: Any) -> list[Path]:
    """Return the files of a path, a folder (and its subfolders), a pattern or a list of these.

    Files of a folder or a pattern are sorted by name; a list keeps its order.
    """
    if isinstance(given, list | tuple):
        files = [file for one in given for file in find_files(one)]
        if not files:
            raise ValueError("the list of Parquet files is empty; name at least one")
    else:
        if not isinstance(given, str | os.PathLike):
            raise TypeError(
                "expected the path of a Parquet file, a folder, a pattern such as 'data/*.parquet' "
                f"or a list of them, got {given!r}"
            )
        text, path = os.fspath(given), Path(given)
        if path.is_dir():
            files = [
                file
                for file in sorted(path.rglob("*"))
                if file.suffix.lower() in ENDINGS and not _is_hidden(file.relative_to(path))
            ]
        elif path.exists() or not glob.has_magic(text):
            files = [path]
        else:
            files = sorted(map(Path, glob.glob(text, recursive=True)))  # noqa: PTH207
        if not files:
            what = (
                "the folder has no .parquet file" if path.is_dir() else "no file fits the pattern"
            )
            raise FileNotFoundError(f"{given}: {what}")
    twice = (
        {file for file in files if files.count(file) > 1} if len(set(files)) < len(files) else ()
    )
    if twice:
        raise ValueError(f"{min(twice)}: the file is listed more than once")
    return files


def _is_hidden(path: Path) -> bool:
    """Return whether it is a writer's own file, such as _temporary or .part.crc."""
    return any(part.startswith(("_", ".")) for part in path.parts)


class Group(NamedTuple):
    """A row group."""

    file: int  # number of its file
    number: int  # in the file
    n_rows: int  # rows that fit the filters
    rows: NDArray[np.bool_] | None  # marks of these rows; None if all rows fit


class ParquetFiles:
    """The rows of several files, in the order of the files."""

    def __init__(self, given: Any, columns: Sequence[str] | None = None, filters: Any = None):
        self._parquet = pyarrow_parquet()
        self.files = find_files(given)
        self._stamps = [self._stamp(file) for file in self.files]
        self._footers: list[Any] = []
        schema: Any = None
        of_filters = [] if filters is None else _filtered(filters)
        for file in self.files:
            with self._open(file) as opened:
                found = opened.schema_arrow
                self._footers.append(opened.metadata)
            if schema is None:
                schema, names = found, _names(found, file) if columns is None else list(columns)
            _check_schema(found, schema, [*names, *of_filters], file, self.files[0])
            schema = _known_types(found, schema)
        self.names, self.filters, self._schema = tuple(names), filters, schema
        self.groups = self._find_groups()
        self._ends = list(accumulate(group.n_rows for group in self.groups))
        self.n_rows = self._ends[-1] if self._ends else 0

    @property
    def paths(self) -> list[str]:
        """Absolute paths of the files."""
        return [str(file.resolve()) for file in self.files]

    # --- opening ----------------------------------------------------------------------------------

    @staticmethod
    def _stamp(file: Path) -> tuple[int, int]:
        try:
            found = file.stat()
        except FileNotFoundError:
            raise FileNotFoundError(f"{file}: there is no such file") from None
        return found.st_size, found.st_mtime_ns

    def _open(self, file: Path, footer: Any = None) -> Any:
        if file.is_dir():
            raise IsADirectoryError(f"{file}: this is a folder; expected a Parquet file")
        if not file.is_file():  # reading a pipe would block
            raise ValueError(f"{file}: not a regular file; expected a Parquet file")
        try:
            return self._parquet.ParquetFile(file, metadata=footer, page_checksum_verification=True)
        except PermissionError:
            raise
        except Exception as error:  # pyarrow raises many types for damaged files
            raise ValueError(
                f"{file}: not a Parquet file, or cut off or damaged ({_reason(error)})"
            ) from None

    def _find_groups(self) -> list[Group]:
        """Return the row groups that have rows which fit the filters."""
        every = []
        for f, footer in enumerate(self._footers):
            counts = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
            if min(counts, default=0) < 0 or sum(counts) != footer.num_rows:
                raise ValueError(
                    f"{self.files[f]}: damaged: its row groups have {sum(counts)} rows, its footer "
                    f"says {footer.num_rows}"
                )
            every += [Group(f, k, n, None) for k, n in enumerate(counts) if n > 0]
        return every if self.filters is None else list(self._fitting(every))

    def _fitting(self, groups: Sequence[Group]) -> Iterator[Group]:
        """Yield the row groups that have rows which fit the filters.

        The ranges in the footer rule out most others. For the rest the columns of the filters are
        read.
        """
        import pyarrow
        import pyarrow.dataset
        import pyarrow.fs

        try:
            expression = self._parquet.filters_to_expression(self.filters)
            self._schema.empty_table().filter(expression)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise ValueError(f"filters: {self.filters!r} cannot be applied: {error}") from None
        names, form = _filtered(self.filters), pyarrow.dataset.ParquetFileFormat()
        made: dict[int, set[int]] = {}
        for group in groups:
            try:
                if group.file not in made:
                    file = str(self.files[group.file])
                    fragment = form.make_fragment(file, pyarrow.fs.LocalFileSystem())
                    made[group.file] = self._possible(fragment, expression, names)
                if group.number not in made[group.file]:
                    continue
                marks = self._marks(group, expression, names)
            except pyarrow.ArrowException as error:
                raise ValueError(
                    f"{self.place(group)}: filters: {self.filters!r} cannot be applied: "
                    f"{_reason(error)}"
                ) from None
            n = int(np.count_nonzero(marks))
            if n:
                yield group._replace(n_rows=n, rows=None if n == len(marks) else marks)

    @staticmethod
    def _possible(fragment: Any, expression: Any, names: Sequence[str]) -> set[int]:
        """Return the row groups of a file that the ranges in its footer do not rule out."""
        schema = fragment.physical_schema
        if all(_kind(schema.field(name).type) for name in names):
            fragment = fragment.subset(expression, schema=schema)
        return {each.id for each in fragment.row_groups}

    def _marks(self, group: Group, expression: Any, names: Sequence[str]) -> NDArray[np.bool_]:
        """Return marks of the rows of a row group that fit the filters."""
        import pyarrow

        marks, begin = np.zeros(group.n_rows, np.bool_), 0
        for batch, _ in self.batches(names, [group]):
            n = batch.num_rows
            columns: dict[str, Any] = {"": pyarrow.array(np.arange(begin, begin + n))}
            for name in names:
                column = batch.column(name)
                # A file in which all cells are missing may lack the type.
                known = self._schema.field(name).type
                columns[name] = column if _kind(column.type) else pyarrow.nulls(n, known)
            table = pyarrow.table(columns).filter(expression)
            marks[table.column("").to_numpy()] = True
            begin += n
        return marks

    # --- reading ----------------------------------------------------------------------------------

    def batches(
        self, names: Sequence[str], groups: Sequence[Group] | None = None
    ) -> Iterator[tuple[Any, Group]]:
        """Yield record batches of some columns, with the row group of each."""
        opened: tuple[int, Any] | None = None
        try:
            for group in self.groups if groups is None else groups:
                file = self.files[group.file]
                if opened is None or opened[0] != group.file:
                    if opened is not None:
                        opened[1].close()
                    if self._stamp(file) != self._stamps[group.file]:
                        raise ValueError(
                            f"{file}: the file has changed since the Dataset was made; make the "
                            "Dataset again"
                        )
                    opened = group.file, self._open(file, self._footers[group.file])
                yield from ((batch, group) for batch in self._batches_of(opened[1], names, group))
        finally:
            if opened is not None:
                opened[1].close()

    def _batches_of(self, opened: Any, names: Sequence[str], group: Group) -> Iterator[Any]:
        import pyarrow

        begin = found = 0
        try:
            for batch in opened.iter_batches(
                BATCH_ROWS,
                row_groups=[group.number],
                columns=list(names),
                use_threads=len(names) > 1,
            ):
                batch.validate(full=True)  # levels exist, and text is valid
                end = begin + batch.num_rows
                if group.rows is not None:
                    batch = batch.filter(pyarrow.array(group.rows[begin:end]))
                begin, found = end, found + batch.num_rows
                if batch.num_rows:
                    yield batch
        except (pyarrow.ArrowException, OSError) as error:
            for name in names if len(names) > 1 else ():  # find the damaged column
                with self._open(self.files[group.file]) as again:
                    for _ in self._batches_of(again, [name], group):
                        pass
            raise ValueError(
                f"{self.place(group)}, column {names[0]!r}: cut off or damaged ({_reason(error)}); "
                "write the file again"
            ) from None
        if found != group.n_rows:
            raise ValueError(
                f"{self.place(group)}: damaged: expected {group.n_rows} rows, got {found}"
            )

    def column(self, name: str) -> Column:
        """Return all rows of a column."""
        import pyarrow

        column = gather(name, self.n_rows, self._chunks(name))
        pyarrow.default_memory_pool().release_unused()  # memory that decoding took
        return column

    def head(self, name: str) -> Column:
        """Return the first rows of a column."""
        with closing(self._chunks(name)) as chunks:
            first = list(islice(chunks, 1))
        return gather(name, sum(len(chunk.cells) for chunk, _ in first), first)

    def _chunks(self, name: str) -> Generator[tuple[Chunk, str]]:
        for batch, group in self.batches([name]):
            where = self.place(group)
            with _located(where):
                chunk = read_chunk(batch.column(name), name)
            yield chunk, where

    def tables(self, names: Sequence[str]) -> Iterator[tuple[Table, str]]:
        """Yield some columns of all rows, batch by batch, with the name of each batch's place."""
        for batch, group in self.batches(names):
            yield read(batch), self.place(group)

    def no_rows(self) -> Any:
        """Return a record batch of all columns, without rows."""
        import pyarrow

        return pyarrow.RecordBatch.from_pylist(
            [], schema=pyarrow.schema([self._schema.field(name) for name in self.names])
        )

    def place(self, group: Group) -> str:
        """Return the name of a row group for messages."""
        return f"{self.files[group.file]}, row group {group.number}"

    def where(self, row: int) -> str:
        """Return the place of a row for messages."""
        at = bisect_right(self._ends, row)
        group = self.groups[at]
        number = row - (self._ends[at] - group.n_rows)
        if group.rows is not None:
            number = int(np.flatnonzero(group.rows)[number])
        return f"{number} of {self.place(group)}"


def rewrite(
    source: ParquetFiles,
    keep: Sequence[str],
    folder: Any,
    make: Callable[[Any], Mapping[str, NDArray[Any]]],
    bar: Progress,
) -> None:
    """Write a folder with one file per source file, of the same name.

    The files have the columns of `keep` and those that `make` returns for every batch. If writing
    fails there is no folder.
    """
    import pyarrow

    parquet, done = pyarrow_parquet(), 0
    top = Path(os.path.commonpath([file.resolve().parent for file in source.files]))
    writer: Any = None
    of_file, schema = -1, None
    empty = dict.fromkeys(range(len(source.files)))

    def path(number: int) -> Path:
        file = temporary / source.files[number].resolve().relative_to(top)
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def rewritten(batch: Any) -> Any:
        made = make(batch)
        arrays = {name: batch.column(name) for name in keep}
        return pyarrow.record_batch(
            arrays | {name: pyarrow.array(values) for name, values in made.items()}
        )

    with replace_folder(folder) as temporary, bar.work(source.n_rows, "row"):
        try:
            for batch, group in source.batches(source.names):
                with _located(source.place(group)):
                    out = rewritten(batch)
                if group.file != of_file:
                    if writer is not None:
                        writer.close()
                    of_file, schema = group.file, out.schema
                    empty.pop(of_file)
                    writer = parquet.ParquetWriter(path(of_file), schema)
                writer.write_batch(out)
                done += batch.num_rows
                bar.step(done)
        finally:
            if writer is not None:
                writer.close()
        schema = rewritten(source.no_rows()).schema if schema is None else schema
        for number in empty:
            parquet.write_table(schema.empty_table(), path(number))


def _filtered(filters: Any) -> list[str]:
    """Return the columns of filters: [(column, operator, value), ...], or a list of such lists."""
    try:
        flat = [f for each in filters for f in ([each] if isinstance(each, tuple) else each)]
        return list(dict.fromkeys(str(name) for name, _, _ in flat))
    except (TypeError, ValueError):
        raise ValueError(
            "filters: expected a list of (column, operator, value) such as [('year', '>=', 2020)], "
            f"got {filters!r}"
        ) from None


@contextmanager
def _located(where: str) -> Iterator[None]:
    """Name the place in error messages."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}: {error}") from None


def _reason(error: BaseException) -> str:
    return str(error).split(". ")[0].split("\n")[0].rstrip(".")


# --- schemas --------------------------------------------------------------------------------------


def _names(schema: Any, file: Path) -> list[str]:
    names = list(schema.names)
    if not names:
        raise ValueError(f"{file}: the file has no columns")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"{file}: column {twice!r} is there more than once; rename one of them")
    return names


def _kind(dtype: Any) -> str:
    """Return the kind of a type; "" for a column in which all cells are missing."""
    from pyarrow import types

    if types.is_dictionary(dtype):
        dtype = dtype.value_type
        is_text = types.is_string(dtype) or types.is_large_string(dtype)
        return "text" if is_text else f"{dtype} levels"
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "numbers"
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return "text"
    if types.is_date(dtype) or types.is_timestamp(dtype):
        return "dates"
    return "" if types.is_null(dtype) else str(dtype)


def _check_schema(found: Any, known: Any, names: Sequence[str], file: Path, first: Path) -> None:
    """Raise if a file lacks a column, or has it in another type than the files before."""
    for name in names:
        if found.names.count(name) != 1:
            if name not in found.names:
                has = ", ".join(map(repr, found.names[:10])) + ", ..." * (len(found.names) > 10)
                raise ValueError(f"{file}: column {name!r} is not in the file; it has {has}")
            _names(found, file)
        new, old = found.field(name).type, known.field(name).type
        kinds = _kind(new), _kind(old)
        if all(kinds) and kinds[0] != kinds[1]:
            raise TypeError(
                f"{file}: column {name!r} is {kinds[0]} ({new}), but {kinds[1]} ({old}) in "
                f"{first}; make it one type in all files"
            )


def _known_types(found: Any, known: Any) -> Any:
    """Return the schema; columns in which all cells were missing so far get a type."""
    for k, field in enumerate(known):
        if not _kind(field.type) and field.name in found.names:
            known = known.set(k, found.field(field.name))
    return known
