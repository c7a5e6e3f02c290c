"""Parquet files that need not fit into memory: columns and batches of rows, read in place.

Needs pyarrow (extra `parquet`). Errors name the file, the row group and the column.
Does not know about Datasets or models.
"""

from __future__ import annotations

import glob
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from fnmatch import fnmatch
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import check_name, replace_folder
from cwboost._utils.checks import first_repeated
from cwboost._utils.text import quote, suggest_names
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


def find_files(places: Any) -> list[Path]:
    """Return the files of a path, a folder (and its subfolders), a pattern or a list of these.

    Files of a folder or a pattern are sorted by name; a list keeps its order.
    """
    several = places if isinstance(places, list | tuple) else [places]
    files = [file for place in several for file in _find_at(place)]
    if not files:
        raise ValueError("the list of Parquet files is empty; name at least one")
    repeated = first_repeated(map(str, files))
    if repeated is not None:
        raise ValueError(f"{repeated}: the file is listed more than once")
    return files


def _find_at(place: Any) -> list[Path]:
    """Return the files of a path, a folder or a pattern; at least one."""
    if isinstance(place, list | tuple):
        return find_files(place)
    if not isinstance(place, str | os.PathLike):
        raise TypeError(
            "expected the path of a Parquet file, a folder, a pattern such as 'data/*.parquet' "
            f"or a list of them, got {quote(place)}"
        )
    check_name(place)
    text, path = os.fspath(place), Path(place)
    if path.is_dir():
        files = [
            file
            for file in sorted(path.rglob("*"))
            if file.suffix.lower() in ENDINGS and not _is_hidden(file.relative_to(path))
        ]
    elif path.exists() or not glob.has_magic(text):
        files = [path]
    else:
        # glob finds a file once for every way in which ** fits its path.
        files = sorted(set(map(Path, glob.glob(text, recursive=True))))  # noqa: PTH207
    if not files:
        what = "the folder has no .parquet file" if path.is_dir() else "no file fits the pattern"
        raise FileNotFoundError(f"{place}: {what}")
    return files


def would_find(place: str, files: Sequence[Path]) -> bool:
    """Return whether `find_files` of a folder or a pattern would find one of some absolute paths.

    They need not exist yet.

    Examples
    --------
    >>> Path("rows").mkdir(exist_ok=True)
    >>> would_find("rows", [Path.cwd() / "rows" / "new.parquet"])
    True
    """
    path = Path(place)
    if path.is_dir():
        top = path.resolve()
        inside = [file for file in files if file.suffix.lower() in ENDINGS]
        inside = [file.relative_to(top) for file in inside if file.is_relative_to(top)]
        return not all(map(_is_hidden, inside))
    there = {file.resolve() for file in find_files(place)}
    fixed = list(takewhile(lambda part: not glob.has_magic(part), path.absolute().parts))
    pattern = (*Path(*fixed).resolve().parts, *path.absolute().parts[len(fixed) :])
    return any(file in there or _fits(file.parts, pattern) for file in files)


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the parts of a path fit those of a pattern; ** stands for any folders."""
    if not pattern:
        return not parts
    if pattern[0] == "**" and _fits(parts, pattern[1:]):
        return True
    rest = pattern if pattern[0] == "**" else pattern[1:]
    return bool(parts) and fnmatch(parts[0], pattern[0]) and _fits(parts[1:], rest)


def rewritten_names(files: Sequence[Path]) -> list[Path]:
    """Return the names that `rewrite` gives to files, relative to its folder."""
    paths = [file.resolve() for file in files]
    top = Path(os.path.commonpath([path.parent for path in paths]))
    return [path.relative_to(top) for path in paths]


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

    def __init__(self, places: Any, columns: Sequence[str] | None = None, filters: Any = None):
        self._parquet = pyarrow_parquet()
        self.files = find_files(places)
        self._stamps = [self._stamp(file) for file in self.files]
        self._footers: list[Any] = []
        schema: Any = None
        filtered = [] if filters is None else _filter_columns(filters)
        for file in self.files:
            with self._open(file) as opened:
                found = opened.schema_arrow
                self._footers.append(opened.metadata)
            if schema is None:
                schema = found
                names = column_names(found, file) if columns is None else list(columns)
            _check_schema(found, schema, [*names, *filtered], file, self.files[0])
            schema = _fill_types(schema, found)
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
            raise_system_error(error, file)
            raise ValueError(
                f"{file}: not a Parquet file, or cut off or damaged ({error_reason(error)})"
            ) from None

    def _find_groups(self) -> list[Group]:
        """Return the row groups that have rows which fit the filters."""
        groups = []
        for f, footer in enumerate(self._footers):
            counts = [footer.row_group(k).num_rows for k in range(footer.num_row_groups)]
            if min(counts, default=0) < 0 or sum(counts) != footer.num_rows:
                raise ValueError(
                    f"{self.files[f]}: damaged: its row groups have {sum(counts)} rows, its footer "
                    f"says {footer.num_rows}"
                )
            groups += [Group(f, k, n, None) for k, n in enumerate(counts) if n > 0]
        return groups if self.filters is None else list(self._filter_groups(groups))

    def _filter_groups(self, groups: Sequence[Group]) -> Iterator[Group]:
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
            raise ValueError(f"filters: {quote(self.filters)} cannot be applied: {error}") from None
        names, form = _filter_columns(self.filters), pyarrow.dataset.ParquetFileFormat()
        possible: dict[int, set[int]] = {}  # numbers of row groups by number of file
        for group in groups:
            try:
                if group.file not in possible:
                    file = str(self.files[group.file])
                    fragment = form.make_fragment(file, pyarrow.fs.LocalFileSystem())
                    possible[group.file] = self._possible_groups(fragment, expression, names)
                if group.number not in possible[group.file]:
                    continue
                marks = self._matching_rows(group, expression, names)
            except pyarrow.ArrowException as error:
                raise_system_error(error, self.files[group.file])
                raise ValueError(
                    f"{self.place(group)}: filters: {quote(self.filters)} cannot be applied: "
                    f"{error_reason(error)}"
                ) from None
            n = int(np.count_nonzero(marks))
            if n:
                yield group._replace(n_rows=n, rows=None if n == len(marks) else marks)

    @staticmethod
    def _possible_groups(fragment: Any, expression: Any, names: Sequence[str]) -> set[int]:
        """Return the row groups of a file that the ranges in its footer do not rule out."""
        schema = fragment.physical_schema
        if all(_kind(schema.field(name).type) for name in names):
            fragment = fragment.subset(expression, schema=schema)
        return {each.id for each in fragment.row_groups}

    def _matching_rows(
        self, group: Group, expression: Any, names: Sequence[str]
    ) -> NDArray[np.bool_]:
        """Return a mask of the rows of a row group that fit the filters."""
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
            raise_system_error(error, self.files[group.file])
            for name in names if len(names) > 1 else ():  # find the damaged column
                with self._open(self.files[group.file]) as again:
                    for _ in self._batches_of(again, [name], group):
                        pass
            raise ValueError(
                f"{self.place(group)}, column {quote(names[0])}: cut off or damaged "
                f"({error_reason(error)}); write the file again"
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
            with _locate_errors(where):
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
    compute: Callable[[Any], Mapping[str, NDArray[Any]]],
    progress: Progress,
) -> None:
    """Write a folder with one file per source file, of the same name.

    The files have the columns of `keep`, and the columns that `compute` returns for every batch. If
    writing fails there is no folder.
    """
    import pyarrow

    parquet, done = pyarrow_parquet(), 0
    names = rewritten_names(source.files)
    writer: Any = None
    written, schema = -1, None  # the file that is being written, and its schema
    without_rows = set(range(len(source.files)))

    def path(number: int) -> Path:
        file = temporary / names[number]
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def rewritten(batch: Any) -> Any:
        kept = {name: batch.column(name) for name in keep}
        computed = {name: pyarrow.array(values) for name, values in compute(batch).items()}
        return pyarrow.record_batch(kept | computed)

    with replace_folder(folder) as temporary, progress.work(source.n_rows, "row"):
        try:
            for batch, group in source.batches(source.names):
                with _locate_errors(source.place(group)):
                    out = rewritten(batch)
                if group.file != written:
                    if writer is not None:
                        writer.close()
                    written, schema = group.file, out.schema
                    without_rows.remove(written)
                    writer = parquet.ParquetWriter(path(written), schema)
                writer.write_batch(out)
                done += batch.num_rows
                progress.step(done)
        finally:
            if writer is not None:
                writer.close()
        schema = rewritten(source.no_rows()).schema if schema is None else schema
        for number in sorted(without_rows):
            parquet.write_table(schema.empty_table(), path(number))


def _filter_columns(filters: Any) -> list[str]:
    """Return the columns of filters: [(column, operator, value), ...], or a list of such lists."""
    try:
        flat = [f for each in filters for f in ([each] if isinstance(each, tuple) else each)]
        return list(dict.fromkeys(str(name) for name, _, _ in flat))
    except (TypeError, ValueError):
        raise ValueError(
            "filters: expected a list of (column, operator, value) such as [('year', '>=', 2020)], "
            f"got {quote(filters)}"
        ) from None


@contextmanager
def _locate_errors(where: str) -> Iterator[None]:
    """Put the place of the rows in front of error messages."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{where}: {error}") from None


def raise_system_error(error: BaseException, file: Path | str) -> None:
    """Raise an OSError if the system failed, not the file: a thread could not be started."""
    if "Failed to launch" in str(error):
        raise OSError(
            f"{file}: the system cannot start a thread to read the file ({error_reason(error)}); "
            "raise the limit of processes or of memory, or end other processes"
        ) from None


def error_reason(error: BaseException) -> str:
    """Return the first sentence of an error of pyarrow."""
    return str(error).split(". ")[0].split("\n")[0].rstrip(".")


# --- schemas --------------------------------------------------------------------------------------


def column_names(schema: Any, file: Path | str) -> list[str]:
    """Return the names of the columns; raise if there are none, or a name is there twice."""
    names = list(schema.names)
    if not names:
        raise ValueError(f"{file}: the file has no columns")
    repeated = first_repeated(names)
    if repeated is not None:
        raise ValueError(
            f"{file}: column {quote(repeated)} is in the file more than once; rename one of them"
        )
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
    counts = Counter(found.names)
    for name in names:
        if name not in counts:
            near = suggest_names(name, counts)
            raise ValueError(f"{file}: column {quote(name)} is not in the file; {near}")
        if counts[name] > 1:
            raise ValueError(
                f"{file}: column {quote(name)} is in the file more than once; rename one of them"
            )
        new, old = found.field(name).type, known.field(name).type
        kinds = _kind(new), _kind(old)
        if all(kinds) and kinds[0] != kinds[1]:
            raise TypeError(
                f"{file}: column {quote(name)} is {kinds[0]} ({new}), but {kinds[1]} ({old}) in "
                f"{first}; make it one type in all files"
            )


def _fill_types(known: Any, found: Any) -> Any:
    """Return the known schema; columns in which all cells were missing so far get a type."""
    for k, field in enumerate(known):
        if not _kind(field.type) and field.name in found.names:
            known = known.set(k, found.field(field.name))
    return known
