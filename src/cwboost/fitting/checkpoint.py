"""Checkpoints: a file with the path of a fit so far, from which an interrupted fit continues.

Defines the file format, and checks that a file belongs to the fit that is continued. Does not know
how a fit continues (see `FitProblem.boost` in problem.py).

    cwboost checkpoint 3 1a2b...   the version, and a checksum of everything that follows
    [{"identity": ...}, ...]       one line of JSON: the stages of the fit, and the sizes of arrays
    ...                            the arrays of the paths, end to end

The file holds no rows, so it is small. It is written to a temporary file that replaces the old one.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from pathlib import Path as File
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._core import ALL_PART, SLOT_F, SLOT_R, TRAINING_PART, VALIDATION_PART
from cwboost._utils.atomic_files import check_file, check_regular, replace_file
from cwboost._utils.fingerprint import fingerprint
from cwboost._utils.text import list_names, quote
from cwboost._utils.typed_fields import FieldError, Fields, parse_json, require
from cwboost._utils.user_warnings import warn_user
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.model.term import with_coefficients

from .scores import score_batch

if TYPE_CHECKING:
    from .problem import FitProblem

MAGIC, VERSION = b"cwboost checkpoint", 3
MIN_PAUSE = 10.0  # seconds between two writes, at least
PAUSE_FACTOR = 20  # the pause is at least this multiple of the time that the last write took
RELATIVE = 1e-9  # tolerance; sums over rows depend on how the rows are distributed
ABSOLUTE = 1e-12  # tolerance of fingerprints, which are sums over rows divided by their bound
ARRAYS = {
    name: np.dtype("<i4" if str(field.type) == "Ints" else "<f8")
    for name, field in Path.__dataclass_fields__.items()
    if field.type in ("Ints", "Floats")
}
Identity = dict[str, Any]  # what a stage depends on: texts and lists of numbers by topic


def identity(model: Model, n_rows: int, columns: list[float]) -> Identity:
    """Return what the path of a stage depends on.

    `model` is the model before the stage, `columns` the fingerprints of the columns.
    """
    settings, names = model.settings, ", ".join(model.terms)
    terms = list(model.terms.values())
    texts = (f"{term.name} {term.learner!r} {term.plan.basis.n_coef}" for term in terms)
    validation: str = settings.validation
    if validation == "fraction":
        validation = f"{settings.fraction} of the rows by random_state {settings.seed}"
    before = fingerprint(getattr(model.path, name) for name in ARRAYS)
    return {
        "loss": model.loss.identity(),
        "optimizer": repr(model.optimizer),
        "rows": str(n_rows),
        "terms": f"{len(terms)}: {names[:60]}{'...' * (len(names) > 60)} ({fingerprint(texts)})",
        "bins": repr(settings.bins),
        "validation": validation,
        "metric": ", ".join(m.identity for m in settings.metrics),
        "start": model.start_vector.tolist(),
        "scale": [float(model.scale)],
        "smoothing": [float(term.smoothing) for term in terms],
        "first stage": f"{model.n_iter} iterations ({before})" if model.n_iter else "",
        "columns": columns,
    }


def column_fingerprints(problem: FitProblem[Any], model: Model) -> tuple[list[str], list[float]]:
    """Return the names of the columns of each set of bins, and a fingerprint of each set.

    The fingerprint depends on which rows are in which bin, as far as their residuals at the start
    differ. It is a sum over rows and accurate up to its rounding.
    """
    named = dict(zip(problem.prepared.shared_bins.of_term, problem.plans, strict=True))
    start = [float(f"{x:.9g}") for x in model.start_vector]  # the same bits on other shards
    batch: list[Any] = [
        _core.Fill(SLOT_F, start),
        _core.Mix(SLOT_R, 0.0, SLOT_F, 0.0, SLOT_F),  # zero, so that `moved` is the norm of r
        _core.Residual(SLOT_F, SLOT_R, [ALL_PART]),
        _core.BinSums([SLOT_R], list(named), ALL_PART),
    ]
    *_, residual, found = problem.rows.run(batch)
    size = residual.moved * math.sqrt(problem.rows.weight(ALL_PART)) or 1.0  # not below sum(|w r|)
    factors = (np.random.default_rng(k).uniform(0.5, 1.5, len(u)) for k, u in enumerate(found.sums))
    prints = [float(u @ v) / size for u, v in zip(found.sums, factors, strict=True)]
    return [" and ".join(plan.columns) for plan in named.values()], prints


def check_path(problem: FitProblem[Any], model: Model, path: Path, shown: str) -> None:
    """Raise unless the path of a checkpoint, which messages call `shown`, fits the terms, and the
    rows have the risks that it ends with.

    If a step was halved, the risks before that step are compared: undoing a step leaves rounding
    errors in the scores of the rows, which the coefficients do not have.
    """
    sizes = [len(term.beta) for term in model.terms.values()]
    switched = path.switched_after if model.optimizer.needs_validation else -1
    n_corrections = model.optimizer.n_corrections(path.n_iter, switched)
    reason = path.misfit(sizes, model.n_outputs, n_corrections)
    if reason is not None or switched != path.switched_after:
        raise _damaged(shown, reason or "switched_after: expected -1")
    m = int(np.append(path.halvings > 0, True).argmax())
    last = replace(model, terms=with_coefficients(model, path, m))
    parts = [TRAINING_PART, VALIDATION_PART] if problem.prepared.has_validation else [TRAINING_PART]
    batch = [*score_batch(last, problem.prepared), _core.Residual(SLOT_F, SLOT_R, parts)]
    risks = zip((path.risk, path.validation_risk), problem.rows.run(batch)[-1].risk, strict=False)
    for then, here in risks:
        if not np.isclose(here, then[m], rtol=1e-6, atol=1e-12 * abs(path.risk[0])):
            raise ValueError(
                f"checkpoint {shown}: these are not the rows of that fit: after {m} iterations its "
                f"risk was {then[m]:.6g}, here it is {here:.6g}; pass the same rows again, delete "
                "the file to start from the beginning, or use another file name"
            )


class Stage(NamedTuple):
    """One stage of a fit: main effects, or main effects and pairs."""

    identity: Identity
    path: Path


class Checkpoint:
    """The stages of a fit in a file.

    Parameters
    ----------
    file : path
        The file is read if it exists.

    Examples
    --------
    >>> import cwboost as cb
    >>> x = np.linspace(0, 1, 50)
    >>> model = cb.fit({"x": x}, x**2, n_iter=20, checkpoint="fit.checkpoint")
    >>> Checkpoint("fit.checkpoint").stages[0].path.n_iter
    20
    """

    def __init__(self, file: Any) -> None:
        if not isinstance(file, str | os.PathLike):
            raise TypeError(f"checkpoint: expected a path to a file, got {quote(file)}")
        check_file(file)
        self._name, self.file = os.fsdecode(file), File(os.fsdecode(file)).absolute()
        self.stages = _read(self.file, str(self)) if self.file.exists() else []
        self._running: list[Identity] = []  # stages that have begun
        self._warned = False

    def __str__(self) -> str:
        return self._name

    def begin(self, identity: Identity) -> Path | None:
        """Begin a stage; return its path in the file, whose columns are not checked yet."""
        self._running.append(identity)
        if len(self._running) > len(self.stages):
            return None
        stage = self.stages[len(self._running) - 1]
        for name, now in identity.items():
            then = stage.identity.get(name)
            if type(then) is not type(now):
                raise _damaged(str(self), f"identity, {name}: found {quote(then)}")
            if name != "columns" and not _same(then, now):
                raise ValueError(
                    f"checkpoint {self}: it belongs to another fit ({name}: then "
                    f"{_shown(then, now)}, now {_shown(now, then)}); delete the file to start from "
                    "the beginning, or use another file name"
                )
        return stage.path

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise unless the columns of the current stage are those of the file."""
        now = self._running[-1]["columns"]
        then = self.stages[len(self._running) - 1].identity["columns"]
        same = np.zeros(len(names), dtype=bool)
        if len(then) == len(now):
            same[:] = np.isclose(then, now, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
        if same.all():
            return
        others = list(dict.fromkeys(compress(names, ~same)))
        listed = list_names(others)
        have = f"column {listed} has" if len(others) == 1 else f"columns {listed} have"
        raise ValueError(
            f"checkpoint {self}: {'' if same.any() else 'y or '}{have} other values, or in other "
            "rows, than in the fit of the checkpoint; pass the same rows again, delete the file to "
            "start from the beginning, or use another file name"
        )

    def save(self, path: Path) -> float:
        """Write the path of the current stage, unless the file has a longer one.

        Return the number of seconds until the next write. If the file cannot be written, warn once;
        the fit continues.
        """
        number, began = len(self._running) - 1, time.perf_counter()
        if number < len(self.stages) and path.n_iter < self.stages[number].path.n_iter:
            return MIN_PAUSE
        stages = [*self.stages[:number], Stage(self._running[-1], path)]
        try:
            _write(self.file, stages)
            self.stages = stages
        except OSError as error:
            if not self._warned:
                self._warned = True
                warn_user(
                    f"checkpoint {self}: it could not be written ({error.strerror or error}); "
                    "the fit continues and will try again",
                    RuntimeWarning,
                )
        return max(MIN_PAUSE, PAUSE_FACTOR * (time.perf_counter() - began))


def _same(then: Any, now: Any) -> bool:
    if isinstance(now, str) or len(then) != len(now):
        return bool(then == now)
    return np.allclose(then, now, rtol=RELATIVE, atol=ABSOLUTE)


def _shown(these: Any, others: Any) -> str:
    """Return a text, or the first of some numbers that differs from the others."""
    if isinstance(these, str):
        return these or "none"
    if len(these) != len(others):
        return f"{len(these)} numbers"
    return next(repr(a) for a, b in zip(these, others, strict=True) if not _same([a], [b]))


def _write(file: File, stages: list[Stage]) -> None:
    arrays = [getattr(stage.path, name).astype(t) for stage in stages for name, t in ARRAYS.items()]
    header = [
        {
            "identity": identity,
            "sizes": [len(getattr(path, name)) for name in ARRAYS],
            "facts": {k: v for k, v in vars(path).items() if k not in ARRAYS},
        }
        for identity, path in stages
    ]
    body = b"".join([json.dumps(header).encode(), b"\n", *(a.tobytes() for a in arrays)])
    with replace_file(file) as temporary, temporary.open("wb") as out:
        out.write(b"%s %d %s\n" % (MAGIC, VERSION, _checksum(body)))
        out.write(body)
        out.flush()
        os.fsync(out.fileno())


def _read(file: File, shown: str) -> list[Stage]:
    """Return the stages in a file, which messages call `shown`."""
    check_regular(file)
    head, _, body = file.read_bytes().partition(b"\n")
    if not (head.startswith(MAGIC) or MAGIC.startswith(head)):
        raise ValueError(f"checkpoint {shown}: this is not a checkpoint; use another file name")
    words = head[len(MAGIC) :].split()
    if len(words) == 2 and words[0].isdigit() and int(words[0]) != VERSION:
        which = "a later" if int(words[0]) > VERSION else "an earlier"
        raise ValueError(
            f"checkpoint {shown}: it was written by {which} version of cwboost; use that "
            "version, delete the file to start from the beginning, or use another file name"
        )
    if words != [b"%d" % VERSION, _checksum(body)]:
        raise _damaged(shown, "it does not match its checksum")
    line, _, rest = body.partition(b"\n")
    try:
        records = Fields({"stages": parse_json(line)}, "header").records("stages")
        sizes = [_read_sizes(record) for record in records]
        n_bytes = sum(
            n * t.itemsize for own in sizes for n, t in zip(own, ARRAYS.values(), strict=True)
        )
        require(n_bytes == len(rest), "arrays", f"{n_bytes} bytes", len(rest))
        stages, at = [], 0
        for record, own in zip(records, sizes, strict=True):
            arrays: dict[str, Any] = {}
            for (name, t), size in zip(ARRAYS.items(), own, strict=True):
                arrays[name] = np.frombuffer(rest, t, size, at).astype(t.newbyteorder("="))
                at += arrays[name].nbytes
            stages.append(_read_stage(record, arrays))
    except FieldError as error:
        raise _damaged(shown, str(error)) from None
    return stages


def _read_sizes(record: Fields) -> list[int]:
    """Return the sizes of the arrays of a stage."""
    sizes = record.wholes("sizes")
    record.require(len(sizes) == len(ARRAYS), "sizes", f"{len(ARRAYS)} numbers")
    return sizes


def _read_stage(record: Fields, arrays: dict[str, Any]) -> Stage:
    identity, facts = record.inner("identity"), record.inner("facts")
    for name in identity.names():
        if not isinstance(identity.get(name), str):
            identity.numbers(name)
    path = Path(
        **arrays,
        switched_after=facts.whole("switched_after", low=-1),
        rewound_to=facts.whole("rewound_to", low=-1),
        stopped=facts.text("stopped"),
    )
    return Stage({name: identity.get(name) for name in identity.names()}, path)


def _damaged(shown: str, reason: str) -> ValueError:
    return ValueError(
        f"checkpoint {shown}: it is damaged or incomplete ({reason}); delete the file to start "
        "from the beginning, or use another file name"
    )


def _checksum(body: bytes) -> bytes:
    return fingerprint([np.frombuffer(body, np.uint8)]).encode()
