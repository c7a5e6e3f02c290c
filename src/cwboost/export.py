"""Models as files: versioned JSON that people can read. Knows the format and checks all of it when
loading; a file can give wrong numbers at worst, never run code.

Everything is plain JSON but the updates of the path (one coefficient vector per iteration), which
are packed as base64 of little-endian 64-bit floats.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from .bases import Basis
from .bins import Bins, Cuts, Encoder, Levels, Values
from .design import Plan
from .learners import BASES, LEARNERS, Learner
from .losses import LOSSES, Loss, Multinomial, PythonLoss
from .model import ColumnFacts, Model, Path, Settings, Term
from .optimizers import OPTIMIZERS
from .table import Floats

FORMAT, VERSION = "cwboost model", 1
ENCODERS: dict[str, type[Encoder]] = {"values": Values, "cuts": Cuts, "levels": Levels}


class ModelFileError(ValueError):
    """The file is not a cwboost model, or it is damaged."""


# --- saving ---------------------------------------------------------------------------------------


def save(model: Model, file: Any) -> None:
    """Writes the model to a file, whole or not at all.

    Examples
    --------
    >>> import cwboost as cb, tempfile, os
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> path = os.path.join(tempfile.mkdtemp(), "m.json")
    >>> model.save(path)
    >>> cb.load(path).predict({"g": ["b"]}).round(2)
    array([1.])
    """
    text = json.dumps(to_dict(model), indent=1, allow_nan=False, ensure_ascii=False)
    target = FilePath(file)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name[:50], suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        FilePath(temporary).chmod(0o644)
        FilePath(temporary).replace(target)
    except BaseException:
        FilePath(temporary).unlink(missing_ok=True)
        raise


def to_dict(model: Model) -> dict[str, Any]:
    """The model as plain data."""
    from . import __version__

    if isinstance(model.loss, PythonLoss):
        raise TypeError(
            "a loss written in Python cannot be stored as JSON; pickle the model, or use a loss "
            "of the library"
        )
    path = model.path
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"cwboost {__version__}",
        "loss": {"name": model.loss.name, **_record(model.loss)},
        "classes": list(model.classes),
        "optimizer": {"name": type(model.optimizer).__name__, **model.optimizer.get_params()},
        "start": model.start_vector.tolist(),
        "intercept": np.atleast_1d(model.intercept).tolist(),
        "scale": model.scale,
        "iteration": model.best_iteration,
        "columns": {name: _record(facts) for name, facts in model.columns.items()},
        "terms": [_term(term) for term in model.terms.values()],
        "importance": None if model.shares is None else model.shares.tolist(),
        "path": {
            "choices": path.choices.tolist(),
            "corrections": path.corrections.tolist(),
            "halvings": path.halvings.tolist(),
            "risk": [_number(v) for v in path.risk],
            "validation_risk": [_number(v) for v in path.validation_risk],
            "switched_after": path.switched_after,
            "rewound_to": path.rewound_to,
            "stopped": path.stopped,
            "updates": _pack(path.updates),
            "correction_updates": _pack(path.correction_updates),
        },
        "settings": _record(model.settings),
    }


def _number(value: float) -> float | str:
    return float(value) if math.isfinite(value) else str(float(value))


def _pack(values: Floats) -> str:
    return base64.b64encode(values.astype("<f8").tobytes()).decode("ascii")


def _record(item: Any) -> dict[str, Any]:
    """The fields of a dataclass as plain data."""
    out: dict[str, Any] = {}
    for entry in fields(item):
        if not entry.init:
            continue
        value = getattr(item, entry.name)
        if isinstance(value, Bins):
            value = _record(value)
        elif isinstance(value, Basis):
            value = {"kind": value.kind, **_record(value)}
        elif isinstance(value, np.ndarray):
            value = value.tolist()
        elif isinstance(value, np.generic):
            value = value.item()
        elif isinstance(value, tuple):
            value = list(value)
        out[entry.name] = value
    return out


def _term(term: Term) -> dict[str, Any]:
    kinds = {cls: name for name, cls in ENCODERS.items()}
    encoders = [{"kind": kinds[type(e)], **_record(e)} for e in term.plan.encoders]
    return {
        "name": term.name,
        "learner": term.learner.to_dict(),
        "encoders": encoders,
        "basis": {"kind": term.plan.basis.kind, **_record(term.plan.basis)},
        "net_df_aimed_at": term.plan.net_df,
        "smoothing": term.smoothing,
        "df": term.df,
        "net_df": term.net_df,
        "coef": term.beta.tolist(),
    }


# --- loading --------------------------------------------------------------------------------------


def load(file: Any) -> Model:
    """Reads a model that `Model.save` wrote, and checks all of it.

    Examples
    --------
    >>> import cwboost as cb, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "m.json")
    >>> _ = open(path, "w").write("{}")
    >>> cb.load(path)
    Traceback (most recent call last):
    cwboost.export.ModelFileError: .../m.json: not a cwboost model (no "format": "cwboost model")
    """
    try:
        text = FilePath(file).read_text(encoding="utf-8")
        data = json.loads(text, parse_constant=_no_constant)
        return from_dict(data)
    except ModelFileError as error:
        raise ModelFileError(f"{file}: {error}") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{file}: not a cwboost model (not UTF-8 text)") from None
    except json.JSONDecodeError as error:
        raise ModelFileError(f"{file}: damaged or not JSON ({error})") from None
    except RecursionError:
        raise ModelFileError(f"{file}: nested too deeply to be a cwboost model") from None


def _no_constant(name: str) -> Any:
    raise ModelFileError(f"damaged: {name} is not JSON")


def from_dict(data: Any) -> Model:
    """The model that `to_dict` gave, everything checked."""
    top = _Reader(data, "")
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFileError(f'not a cwboost model (no "format": "{FORMAT}")')
    if top.get("version", int) != VERSION:
        raise ModelFileError(
            f"written in version {data['version']} of the format, this cwboost reads version "
            f"{VERSION}; update cwboost"
        )
    start = top.floats("start")
    q = len(start)
    if not 1 <= q <= 1000:
        raise ModelFileError(f"start: expected 1 to 1000 numbers, got {q}")
    classes = tuple(top.get("classes", list))
    loss = _loss(top.child("loss"), q, classes)
    columns = {
        name: _dataclass(ColumnFacts, top.child("columns").child(name))
        for name in top.child("columns").keys()
    }
    terms = _terms(top, q, columns)
    path = _path(top.child("path"), [len(t.beta) for t in terms.values()], q)
    best = top.get("iteration", int)
    if not 0 <= best <= path.n_iter:
        raise ModelFileError(f"iteration: expected 0 to {path.n_iter}, got {best}")
    scale = top.get("scale", float)
    top.require(math.isfinite(scale) and scale > 0, "scale", "expected a positive number", scale)
    shares = None if data.get("importance") is None else top.floats("importance")
    if shares is not None and len(shares) != len(terms):
        raise ModelFileError(f"importance: expected {len(terms)} numbers, got {len(shares)}")
    return Model(
        loss,
        _optimizer(top.child("optimizer")),
        MappingProxyType(terms),
        MappingProxyType(columns),
        classes,
        start,
        scale,
        path,
        best,
        _settings(top.child("settings")),
        shares,
    )


class _Reader:
    """A JSON object and where it stands, for errors that say where."""

    def __init__(self, data: Any, where: str) -> None:
        if not isinstance(data, dict):
            raise ModelFileError(f"{where or 'file'}: expected an object, got {_kind(data)}")
        self.data, self.where = data, where

    def keys(self) -> list[str]:
        return list(self.data)

    def at(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def require(self, ok: bool, key: str, expected: str, got: Any) -> None:
        if not ok:
            raise ModelFileError(f"{self.at(key)}: {expected}, got {str(got)[:60]}")

    def get(self, key: str, kind: Any) -> Any:
        if key not in self.data:
            raise ModelFileError(f"{self.at(key)}: is missing")
        return _typed(self.data[key], kind, self.at(key))

    def child(self, key: str) -> _Reader:
        if key not in self.data:
            raise ModelFileError(f"{self.at(key)}: is missing")
        return _Reader(self.data[key], self.at(key))

    def floats(self, key: str, finite: bool = True) -> Floats:
        values = self.get(key, list)
        out = np.empty(len(values))
        for i, value in enumerate(values):
            if isinstance(value, str) and value in ("nan", "inf", "-inf") and not finite:
                out[i] = float(value)
            else:
                out[i] = _typed(value, float, f"{self.at(key)}[{i}]")
        return out


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", type(None): "null", bool: "a boolean"}
    return names.get(type(value), "a number")


def _typed(value: Any, kind: Any, where: str) -> Any:
    """The value if it is of the kind, which is a type or an annotation of a field."""
    kinds = get_args(kind) if get_origin(kind) is not None else ()
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin is tuple:
        items = _typed(value, list, where)
        return tuple(_typed(v, kinds[0], f"{where}[{i}]") for i, v in enumerate(items))
    if kinds and origin is not None and str(origin).endswith("Literal"):
        if value in kinds:
            return value
        raise ModelFileError(f"{where}: expected one of {kinds}, got {str(value)[:60]!r}")
    if kinds:  # a union
        for option in kinds:
            try:
                return _typed(value, option, where)
            except ModelFileError:
                continue
        raise ModelFileError(
            f"{where}: got {_kind(value)} ({str(value)[:60]!r}), which does not fit"
        )
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
        raise ModelFileError(f"{where}: expected a finite number, got {str(value)[:60]}")
    fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not fits:
        wanted = {int: "a whole number", float: "a number", str: "text", list: "a list"}
        raise ModelFileError(
            f"{where}: expected {wanted.get(kind, getattr(kind, '__name__', kind))}, got {_kind(value)}"
        )
    return value


def _dataclass(
    cls: type, reader: _Reader, special: dict[str, Callable[[Any], Any]] | None = None
) -> Any:
    """A dataclass from an object whose keys are its fields."""
    hints = get_type_hints(cls)
    arguments = {}
    names = {entry.name for entry in fields(cls) if entry.init}
    for key in reader.keys():
        if key in ("kind", "name") and key not in names:
            continue
        if key not in names:
            raise ModelFileError(f"{reader.at(key)}: unknown")
        if special and key in special:
            arguments[key] = special[key](reader.data[key])
        else:
            arguments[key] = reader.get(key, hints[key])
    try:
        return cls(**arguments)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"{reader.where}: {error}") from None


def _loss(reader: _Reader, q: int, classes: tuple[Any, ...]) -> Loss:
    name = reader.get("name", str)
    if name not in LOSSES:
        raise ModelFileError(f"{reader.at('name')}: unknown loss {name[:60]!r}")
    loss: Loss = _dataclass(LOSSES[name], reader)
    if loss.n_outputs != q:
        raise ModelFileError(f"start: the {name} loss takes {loss.n_outputs} numbers, got {q}")
    expected = q if isinstance(loss, Multinomial) else 2 if name == "binomial" else 0
    if len(classes) != expected:
        raise ModelFileError(f"classes: the {name} loss takes {expected}, got {len(classes)}")
    for value in classes:
        if not isinstance(value, str | int | float | bool):
            raise ModelFileError(f"classes: expected text, numbers or booleans, got {_kind(value)}")
    return loss


def _optimizer(reader: _Reader) -> Any:
    name = reader.get("name", str)
    if name not in OPTIMIZERS:
        raise ModelFileError(f"{reader.at('name')}: unknown optimizer {name[:60]!r}")
    optimizer = _dataclass(OPTIMIZERS[name], reader)
    try:
        optimizer.core()
    except ValueError as error:
        raise ModelFileError(f"{reader.where}: {error}") from None
    return optimizer


def _settings(reader: _Reader) -> Settings:
    settings: Settings = _dataclass(
        Settings, reader, {"bins": lambda data: _dataclass(Bins, _Reader(data, reader.at("bins")))}
    )
    return settings


def _terms(top: _Reader, q: int, columns: dict[str, ColumnFacts]) -> dict[str, Term]:
    terms: dict[str, Term] = {}
    for i, item in enumerate(top.get("terms", list)):
        reader = _Reader(item, f"terms[{i}]")
        name = reader.get("name", str)
        reader.require(name not in terms, "name", "expected a name of its own", name)
        learner = _learner(reader.child("learner"))
        for column in learner.columns:
            reader.require(column in columns, "learner", "expected columns of the model", column)
        encoders = tuple(
            _encoder(_Reader(e, f"{reader.at('encoders')}[{j}]"))
            for j, e in enumerate(reader.get("encoders", list))
        )
        reader.require(
            len(encoders) == len(learner.columns),
            "encoders",
            "expected one per column",
            len(encoders),
        )
        basis = _basis(reader.child("basis"))
        beta = _coefficients(reader, basis.n_coef, q)
        fits = basis.mean is not None and len(basis.mean) == basis.n_coef
        reader.require(fits, "basis.mean", f"expected {basis.n_coef} numbers", "others")
        _check_encoders(reader, basis, encoders)
        plan = Plan(name, learner, encoders, basis, reader.get("net_df_aimed_at", float | None))
        terms[name] = Term(
            plan,
            beta,
            reader.get("smoothing", float),
            reader.get("df", float),
            reader.get("net_df", float),
        )
    return terms


def _coefficients(reader: _Reader, n_coef: int, q: int) -> Floats:
    rows = reader.get("coef", list)
    reader.require(len(rows) == n_coef, "coef", f"expected {n_coef} rows", len(rows))
    for j, row in enumerate(rows):
        good = isinstance(row, list) and len(row) == q
        reader.require(good, f"coef[{j}]", f"expected a list of {q}", row)
    return np.array(
        [[_typed(v, float, reader.at(f"coef[{j}]")) for v in row] for j, row in enumerate(rows)]
    ).reshape(n_coef, q)


def _check_encoders(reader: _Reader, basis: Basis, encoders: tuple[Encoder, ...]) -> None:
    """Codes that an encoder can give must be levels that the basis has."""
    parts = [basis.a, basis.b] if basis.kind == "tensor" else [basis]  # type: ignore[attr-defined]
    reader.require(
        len(parts) == len(encoders), "basis", "expected one margin per column", basis.kind
    )
    for part, encoder in zip(parts, encoders, strict=True):
        n_levels = getattr(part, "n_levels", None)
        if n_levels is not None:
            n_codes = (
                encoder.n_bins if isinstance(encoder, Cuts) else len(getattr(encoder, "levels", ()))
            )
            good = not isinstance(encoder, Values) and n_codes == n_levels
            reader.require(good, "encoders", f"expected {n_levels} levels", n_codes)


def _learner(reader: _Reader) -> Learner:
    name = reader.get("type", str)
    if name not in LEARNERS:
        raise ModelFileError(f"{reader.at('type')}: unknown learner {name[:60]!r}")
    parameters = {key: value for key, value in reader.data.items() if key != "type"}

    def margin(value: Any) -> Any:
        return value if isinstance(value, str) else _learner(_Reader(value, reader.at("margin")))

    def rule(value: Any) -> Any:
        if isinstance(value, dict):
            return _dataclass(Bins, _Reader(value, reader.at("bins")))
        return _typed(value, str | int | None, reader.at("bins"))

    special = {"a": margin, "b": margin, "bins": rule}
    learner: Learner = _dataclass(LEARNERS[name], _Reader(parameters, reader.where), special)
    return learner


def _encoder(reader: _Reader) -> Encoder:
    kind = reader.get("kind", str)
    if kind not in ENCODERS:
        raise ModelFileError(f"{reader.at('kind')}: unknown encoder {kind[:60]!r}")
    encoder: Encoder = _dataclass(ENCODERS[kind], reader)
    if isinstance(encoder, Cuts):
        rising = all(a < b for a, b in zip(encoder.cuts, encoder.cuts[1:], strict=False))
        reader.require(rising, "cuts", "expected increasing numbers", "others")
    if isinstance(encoder, Levels):
        single = len(set(encoder.levels)) == len(encoder.levels)
        reader.require(single, "levels", "expected distinct levels", "repeated ones")
    return encoder


def _basis(reader: _Reader) -> Basis:
    kind = reader.get("kind", str)
    if kind not in BASES:
        raise ModelFileError(f"{reader.at('kind')}: unknown basis {kind[:60]!r}")

    def mean(value: Any) -> Any:
        return None if value is None else _Reader({"mean": value}, reader.where).floats("mean")

    def margin(value: Any) -> Basis:
        return _basis(_Reader(value, reader.at("margin")))

    basis: Basis = _dataclass(BASES[kind], reader, {"mean": mean, "a": margin, "b": margin})
    for name in ("degree", "differences", "n_levels", "first"):
        value = getattr(basis, name, 0)
        reader.require(0 <= value <= 10**7, name, "expected 0 or more", value)
    if kind == "spline":
        knots = getattr(basis, "knots", ())
        rising = all(a < b for a, b in zip(knots, knots[1:], strict=False))
        enough = len(knots) >= 2 * basis.degree + 2  # type: ignore[attr-defined]
        reader.require(rising and enough, "knots", "expected enough increasing numbers", len(knots))
    if kind == "powers":
        scale, degree, first = basis.scale, basis.degree, basis.first  # type: ignore[attr-defined]
        reader.require(
            scale > 0 and first <= degree <= 100 and first <= 1, "degree", "expected fit", degree
        )
    return basis


def _path(reader: _Reader, sizes: list[int], q: int) -> Path:
    def ints(key: str, low: int, high: int) -> Any:
        values = reader.get(key, list)
        for i, value in enumerate(values):
            good = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
            reader.require(good, f"{key}[{i}]", f"expected {low} to {high}", value)
        return np.array(values, dtype=np.int32)

    choices = ints("choices", 0, len(sizes) - 1)
    corrections = ints("corrections", -1, len(sizes) - 1)
    m = len(choices)
    path = Path(
        choices,
        corrections,
        ints("halvings", 0, 100),
        _unpack(reader, "updates"),
        _unpack(reader, "correction_updates"),
        reader.floats("risk", finite=False),
        reader.floats("validation_risk", finite=False),
        reader.get("switched_after", int),
        reader.get("rewound_to", int),
        reader.get("stopped", str),
    )
    for key, expected in (
        ("corrections", m), ("halvings", m), ("risk", m + 1), ("validation_risk", m + 1),
    ):  # fmt: skip
        found = len(getattr(path, key))
        reader.require(found == expected, key, f"expected {expected} entries", found)
    for key, terms in (("updates", choices), ("correction_updates", corrections)):
        expected = q * sum(sizes[k] for k in terms if k >= 0)
        found = len(getattr(path, key))
        reader.require(found == expected, key, f"expected {expected} numbers", found)
    for key in ("switched_after", "rewound_to"):
        value = getattr(path, key)
        reader.require(-1 <= value <= m, key, f"expected -1 to {m}", value)
    good = path.rewound_to <= path.switched_after
    reader.require(good, "rewound_to", "expected at most switched_after", path.rewound_to)
    return path


def _unpack(reader: _Reader, key: str) -> Floats:
    text = reader.get(key, str)
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
        values = np.frombuffer(raw, dtype="<f8").astype(np.float64)
    except (ValueError, binascii.Error):
        raise ModelFileError(f"{reader.at(key)}: damaged (not base64 of 64-bit floats)") from None
    reader.require(bool(np.isfinite(values).all()), key, "expected finite numbers", "others")
    return values
