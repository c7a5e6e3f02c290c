"""Models as files: versioned JSON that people can read. Knows the format and checks all of it when
loading; a file can give wrong numbers at worst, never run code.

A file mirrors the dataclasses of a model: an object has the fields of its class as keys, all of
them, and says its class under "type" where there is a choice. The annotations of the fields say
what is read back; relations between fields are checked after that. Packed are only the updates of
the path (one coefficient vector per iteration) and the coefficients of bags and of bootstrap draws,
as base64 of little-endian floats: of 64 bits, those of the draws of 32.
"""

from __future__ import annotations

import base64
import json
import math
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.atomic_files import replace_file
from cwboost.binning.rules import Bins, as_bins
from cwboost.binning.spread import Spread
from cwboost.fitting.design import Plan
from cwboost.frames.table import Floats
from cwboost.losses import LOSSES, Loss, is_registered
from cwboost.model.edits import EDITS
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.model.records import Bags, Bands, ColumnFacts, Edit, Ranking
from cwboost.model.settings import Settings
from cwboost.model.term import Term
from cwboost.optimizers import OPTIMIZERS, Optimizer
from cwboost.terms.bases import BASES, Basis
from cwboost.terms.encoders import ENCODERS, Encoder
from cwboost.terms.learners import LEARNERS, Learner

FORMAT, VERSION = "cwboost model", 3
READABLE = (1, 2, 3)
KEYS = (
    "format", "version", "written_by", "loss", "classes", "optimizer", "start", "intercept",
    "scale", "iteration", "columns", "terms", "interactions", "importance", "edits", "dropped",
    "path", "settings", "bags", "bands",
)  # fmt: skip
TERM_KEYS = (
    "name",
    "learner",
    "encoders",
    "basis",
    "net_df_aimed_at",
    "smoothing",
    "df",
    "net_df",
    "coef",
)

# Where a file has a choice of classes: the names under "type".
CHOICES: dict[Any, Mapping[str, type[Any]]] = {
    Basis: BASES,
    Encoder: ENCODERS,
    Learner: LEARNERS,
    Loss: LOSSES,
    Optimizer: OPTIMIZERS,
}


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
    data = to_dict(model)
    try:
        text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise ValueError(
            "the model has coefficients that are not finite and cannot be stored; use model.at(m) "
            "for an iteration before they ran away"
        ) from None
    # Lists of numbers on one line. Line breaks are never part of a JSON string.
    text = re.sub(
        r'\[\n[^\[\]{}"]*\]', lambda found: "[" + " ".join(found[0][1:-1].split()) + "]", text
    )
    with replace_file(file) as temporary:
        # A name may hold half a surrogate pair, which UTF-8 has not; JSON has an escape for it.
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="\n")


def to_dict(model: Model) -> dict[str, Any]:
    """The model as plain data."""
    from cwboost import __version__

    if not is_registered(model.loss):
        raise TypeError(
            f"a model with the {model.loss.name} loss cannot be stored as JSON, because a file "
            "cannot name a loss written in Python; pickle the model, or add the class of the loss "
            "to cwboost.losses.LOSSES"
        )
    known = model.shares is not None and bool(np.isfinite(model.shares).all())
    path = _record(model.path)
    for key in ("risk", "validation_risk"):  # JSON has no word for nan and inf
        path[key] = [v if math.isfinite(v) else str(v) for v in path[key]]
    for key in ("updates", "correction_updates"):
        path[key] = _packed(getattr(model.path, key))
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"cwboost {__version__}",
        "loss": _plain(model.loss),
        "classes": _plain(model.classes),
        "optimizer": _plain(model.optimizer),
        "start": _plain(model.start_vector),
        "intercept": np.atleast_1d(model.intercept).tolist(),
        "scale": _plain(model.scale),
        "iteration": model.best_iteration,
        "columns": {name: _plain(facts) for name, facts in model.columns.items()},
        "terms": [_term(term) for term in model.terms.values()],
        "interactions": _plain(model.interactions),
        "importance": _plain(model.shares) if known else None,
        "edits": _plain(model.edits),
        "dropped": _plain(model.dropped),
        "path": path,
        "settings": _plain(model.settings),
        "bags": None if model.bags is None else _bags(model.bags),
        "bands": None if model.bands is None else _bands(model.bands),
    }


def _bags(bags: Bags) -> dict[str, Any]:
    """Small numbers as they are; coefficients packed, term by term."""
    plain: dict[str, Any] = {"coef": {name: _packed(coef) for name, coef in bags.coef.items()}}
    plain["chosen"] = {name: list(counts) for name, counts in bags.chosen.items()}
    return {f.name: plain.get(f.name, _plain(getattr(bags, f.name))) for f in fields(bags)}


def _bands(bands: Bands) -> dict[str, Any]:
    return {
        "center": {name: _packed(coef) for name, coef in bands.center.items()},
        "coef": {name: _packed(coef, "<f4") for name, coef in bands.coef.items()},
        "n_iter": list(bands.n_iter),
        "longer": bands.longer,
        "inflation": bands.inflation,
    }


def _packed(numbers: NDArray[Any], kind: str = "<f8") -> str:
    return base64.b64encode(numbers.astype(kind).tobytes()).decode()


def _term(term: Term) -> dict[str, Any]:
    plan = term.plan
    values = (
        plan.name, plan.learner, plan.encoders, plan.basis, plan.net_df,
        term.smoothing, term.df, term.net_df, term.beta.T,
    )  # fmt: skip
    return {key: _plain(value) for key, value in zip(TERM_KEYS, values, strict=True)}


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if is_dataclass(value):
        name = _type_name(type(value))
        return {**({} if name is None else {"type": name}), **_record(value)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _type_name(cls: type[Any]) -> str | None:
    """Return the name under "type" of a class that a file may choose; users can register more."""
    names = (name for known in CHOICES.values() for name, found in known.items() if found is cls)
    return next(names, None)


def _record(item: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(item, f.name)) for f in fields(item) if f.init}


# --- loading --------------------------------------------------------------------------------------


def load(file: Any) -> Model:
    """Reads a model that `Model.save` wrote, and checks all of it.

    Examples
    --------
    >>> import cwboost as cb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.json"
    >>> _ = path.write_text("{}")
    >>> cb.load(path)
    Traceback (most recent call last):
    cwboost.export.model_file.ModelFileError: .../m.json: not a cwboost model ...
    """
    raw = FilePath(file).read_bytes()
    try:
        return from_dict(json.loads(raw.decode("utf-8"), parse_constant=_no_constant))
    except ModelFileError as error:
        raise ModelFileError(f"{file}: {error}") from None
    except UnicodeDecodeError:
        raise ModelFileError(f"{file}: not a cwboost model (not UTF-8 text)") from None
    except ValueError as error:
        raise ModelFileError(f"{file}: damaged or not JSON ({error})") from None
    except RecursionError:
        raise ModelFileError(f"{file}: nested too deeply to be a cwboost model") from None


def _no_constant(name: str) -> Any:
    raise ModelFileError(f"damaged: {name} is not JSON")


def from_dict(data: Any) -> Model:
    """The model that `to_dict` gave, everything checked."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFileError(f'not a cwboost model (no "format": "{FORMAT}")')
    version = data.get("version")
    if type(version) is not int or version not in READABLE:
        raise ModelFileError(
            f"written in version {_shown(version)} of the format, this cwboost reads "
            f"{READABLE[0]} to {READABLE[-1]}; update cwboost"
        )
    try:
        return _model(data if version == VERSION else _upgraded(data))
    except RecursionError:
        raise ModelFileError("nested too deeply to be a cwboost model") from None


def _upgraded(data: dict[str, Any]) -> dict[str, Any]:
    """A file of an older version as one of this: version 2 had no pairs without main effects, bags
    or bands; in version 1 it was not known how rows spread over columns, and the first files did
    not count evaluations."""
    data = {**data, "dropped": [], "bags": None, "bands": None}
    columns, path, terms = (data.get(key) for key in ("columns", "path", "terms"))
    if isinstance(columns, dict):
        columns = {
            name: {"spread": None, **f} if isinstance(f, dict) else f for name, f in columns.items()
        }
    if isinstance(path, dict) and isinstance(path.get("choices"), list):
        path = {"evaluations": [0] * len(path["choices"]), **path}
    if isinstance(terms, list):
        terms = [_with_main_effects(term) for term in terms]
    return {"interactions": None, **data, "columns": columns, "path": path, "terms": terms}


def _with_main_effects(term: Any) -> Any:
    """A term of the time when tensors always had them."""
    if not isinstance(term, dict):
        return term
    parts = {key: term.get(key) for key in ("learner", "basis")}
    tensors = {"learner": "Tensor", "basis": "tensor"}
    return {
        **term,
        **{
            key: {"orthogonal": False, **part}
            for key, part in parts.items()
            if isinstance(part, dict) and part.get("type") == tensors[key]
        },
    }


def _model(data: dict[str, Any]) -> Model:
    _check_keys(data, KEYS, "file")
    start: Floats = _read(Floats, data["start"], "start")
    loss: Loss = _read(Loss, data["loss"], "loss")
    q = loss.n_outputs
    _require(q >= 1 and len(start) == q, "start", f"expected {q} numbers", data["start"])
    classes = _read(tuple[bool | int | float | str, ...], data["classes"], "classes")
    fits = len(classes) == len(set(classes)) == loss.n_classes
    _require(fits, "classes", f"expected {loss.n_classes} different ones", data["classes"])
    optimizer: Optimizer = _read(Optimizer, data["optimizer"], "optimizer")
    scale: float = _read(float, data["scale"], "scale")
    _require(scale > 0, "scale", "expected a positive number", scale)
    columns: dict[str, ColumnFacts] = _read(dict[str, ColumnFacts], data["columns"], "columns")
    terms = _terms(_read(list, data["terms"], "terms"), q, columns)
    path = _path(data["path"], optimizer, [len(term.beta) for term in terms.values()], q)
    iteration = _read(int, data["iteration"], "iteration")
    _require(0 <= iteration <= path.n_iter, "iteration", f"expected 0 to {path.n_iter}", iteration)
    shares: Floats | None = _read(Floats | None, data["importance"], "importance")
    fits = shares is None or len(shares) == len(terms)
    _require(fits, "importance", f"expected {len(terms)} numbers", data["importance"])
    settings: Settings = _read(Settings, data["settings"], "settings")
    fits = settings.exposure is None or loss.log_link
    _require(fits, "settings.exposure", f"expected null with {loss.name} loss", settings.exposure)
    edits: tuple[Edit, ...] = _read(tuple[Edit, ...], data["edits"], "edits")
    for i, edit in enumerate(edits):
        where = f"edits[{i}]"
        _require(len(edit.shift) == q, f"{where}.shift", f"expected {q} numbers", edit.shift)
        fits = edit.term in terms or any(t.columns == (edit.term,) for t in terms.values())
        _require(fits, f"{where}.term", "expected a term or column of the model", edit.term)
    bags = None if data["bags"] is None else _read_bags(data["bags"], terms, q)
    bands = None if data["bands"] is None else _read_bands(data["bands"], terms)
    interactions: Ranking | None = _read(Ranking | None, data["interactions"], "interactions")
    return Model(
        loss,
        optimizer,
        MappingProxyType(terms),
        MappingProxyType(columns),
        classes,
        start,
        scale,
        path,
        iteration,
        settings,
        shares,
        edits,
        _read(tuple[str, ...], data["dropped"], "dropped"),
        bags,
        bands,
        interactions,
    )


def _read_bags(data: Any, terms: dict[str, Term], q: int) -> Bags:
    _check_keys(data, [f.name for f in fields(Bags)], "bags")
    starts = [
        _read(Floats, row, f"bags.start[{b}]")
        for b, row in enumerate(_read(list, data["start"], "bags.start"))
    ]
    k = len(starts)
    fits = k >= 2 and all(len(row) == q for row in starts)
    _require(fits, "bags.start", f"expected {q} numbers for each of 2 or more bags", data["start"])
    lists = {
        key: _read(tuple[kind, ...], data[key], f"bags.{key}")  # type: ignore[valid-type]
        for key, kind in (("n_iter", int), ("best_iteration", int), ("validation_risk", float))
    }
    chosen: dict[str, tuple[int, ...]] = _read(
        dict[str, tuple[int, ...]], data["chosen"], "bags.chosen"
    )
    for key, found in [*lists.items(), *chosen.items()]:
        _require(len(found) == k, f"bags.{key}", f"expected {k} numbers", list(found))
    coef = _read_coef(data["coef"], terms, (k,), "bags.coef")
    _require(list(coef) == list(chosen), "bags.chosen", "expected the terms of coef", [*chosen])
    risk = _read(float, data["risk_at_start"], "bags.risk_at_start")
    return Bags(
        np.array(starts), MappingProxyType(coef), MappingProxyType(chosen), **lists,
        risk_at_start=risk,
    )  # fmt: skip


def _read_bands(data: Any, terms: dict[str, Term]) -> Bands:
    _check_keys(data, [f.name for f in fields(Bands)], "bands")
    n_iter: tuple[int, ...] = _read(tuple[int, ...], data["n_iter"], "bands.n_iter")
    _require(len(n_iter) >= 2, "bands.n_iter", "expected 2 or more numbers", list(n_iter))
    factors = [_read(float, data[key], f"bands.{key}") for key in ("longer", "inflation")]
    center = _read_coef(data["center"], terms, (), "bands.center")
    coef = _read_coef(data["coef"], terms, (len(n_iter),), "bands.coef", "<f4")
    fits = list(center) == list(coef)
    _require(fits, "bands.center", "expected the terms of coef", list(center))
    return Bands(MappingProxyType(center), MappingProxyType(coef), n_iter, *factors)


def _read_coef(
    data: Any, terms: dict[str, Term], of: tuple[int, ...], where: str, kind: str = "<f8"
) -> dict[str, NDArray[Any]]:
    """Coefficients of some terms, of each several if `of` says how many."""
    out = {}
    for name, packed in _read(dict[str, str], data, where).items():
        _require(name in terms, f"{where}.{name}", "expected a term of the model", name)
        shape = (*of, *terms[name].beta.shape)
        found = _unpacked(packed, int(np.prod(shape)), f"{where}.{name}", kind)
        out[name] = found.reshape(shape)
    return out


def _unpacked(text: Any, n: int, where: str, kind: str = "<f8") -> NDArray[Any]:
    try:
        raw = base64.b64decode(_read(str, text, where), validate=True)
        out = np.frombuffer(raw, dtype=kind).astype(kind[1:])
    except ValueError:
        bits = 8 * np.dtype(kind).itemsize
        raise ModelFileError(f"{where}: damaged (not base64 of {bits}-bit floats)") from None
    fits = len(out) == n and bool(np.isfinite(out).all())
    _require(fits, where, f"expected {n} finite numbers", len(out))
    return out


def _terms(items: list[Any], q: int, columns: dict[str, ColumnFacts]) -> dict[str, Term]:
    terms: dict[str, Term] = {}
    for i, item in enumerate(items):
        where = f"terms[{i}]"
        _check_keys(item, TERM_KEYS, where)
        name = _read(str, item["name"], f"{where}.name")
        _require(name not in terms, f"{where}.name", "expected a name of its own", name)
        learner: Learner = _read(Learner, item["learner"], f"{where}.learner")
        encoders = _read(tuple[Encoder, ...], item["encoders"], f"{where}.encoders")
        basis: Basis = _read(Basis, item["basis"], f"{where}.basis")
        margins = basis.margins
        for what, found in (("encoders", encoders), ("basis", margins)):
            fits = len(found) == len(learner.columns)
            _require(fits, f"{where}.{what}", "expected one per column", item[what])
        for column, encoder, margin in zip(learner.columns, encoders, margins, strict=True):
            _require(
                column in columns, f"{where}.learner", "expected a column of the model", column
            )
            _check_margin(columns[column], encoder, margin, f"{where}.encoders")
        coef = [
            _read(Floats, row, f"{where}.coef[{o}]")
            for o, row in enumerate(_read(list, item["coef"], f"{where}.coef"))
        ]
        fits = len(coef) == q and all(len(row) == basis.n_coef for row in coef)
        _require(fits, f"{where}.coef", f"expected {q} times {basis.n_coef} numbers", item["coef"])
        plan = Plan(
            name,
            learner,
            encoders,
            basis,
            _read(float | None, item[TERM_KEYS[4]], f"{where}.net_df_aimed_at"),
        )
        numbers = [
            _read(float, item[key], f"{where}.{key}") for key in ("smoothing", "df", "net_df")
        ]
        _require(numbers[0] >= 0, f"{where}.smoothing", "expected 0 or more", numbers[0])
        terms[name] = Term(plan, np.array(coef).T.copy(), *numbers)
    return terms


def _check_margin(column: ColumnFacts, encoder: Encoder, basis: Basis, where: str) -> None:
    """A basis must know every value that the encoder can give, and the encoder its column."""
    if encoder.is_numeric:
        _require(column.kind == "numbers", where, "expected levels for a text column", encoder)
    problem = basis.problem_with(encoder)
    _require(problem is None, where, problem or "", encoder)


def _path(data: Any, optimizer: Optimizer, sizes: list[int], q: int) -> Path:
    _check_keys(data, [f.name for f in fields(Path)], "path")
    m = len(_read(list, data["choices"], "path.choices"))
    last = len(sizes) - 1
    switched, rewound = (_read(int, data[k], f"path.{k}") for k in ("switched_after", "rewound_to"))
    did = optimizer.needs_validation and switched >= 0
    fits = 0 <= rewound <= switched <= m if did else switched == rewound == -1
    _require(fits, "path.rewound_to", "expected a switch that fits the path", (switched, rewound))
    corrected = optimizer.n_corrections(m, switched)

    def ints(key: str, low: int, high: int, n: int = m) -> Any:
        values = _read(list, data[key], f"path.{key}")
        fits = len(values) == m and all(type(v) is int for v in values)
        _require(fits, f"path.{key}", f"expected {m} whole numbers", values)
        fits = all(low <= v <= high for v in values[:n]) and all(v == -1 for v in values[n:])
        _require(fits, f"path.{key}", f"expected {n} numbers from {low} to {high}, then -1", values)
        return np.array(values, dtype=np.int32)

    def risks(key: str) -> Floats:
        values = _read(list, data[key], f"path.{key}")
        words = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
        known = [0.0 if isinstance(v, str) and v in words else v for v in values]
        out: Floats = _read(Floats, known, f"path.{key}")
        _require(len(out) == m + 1, f"path.{key}", f"expected {m + 1} numbers", values)
        for i, value in enumerate(values):
            if isinstance(value, str):
                out[i] = words[value]
        return out

    def updates(key: str, terms: Any) -> Floats:
        n = q * sum(sizes[k] for k in terms if k >= 0)
        return _unpacked(data[key], n, f"path.{key}")

    choices, corrections = ints("choices", 0, last), ints("corrections", 0, last, corrected)
    return Path(
        choices,
        corrections,
        ints("halvings", 0, 1000),
        ints("evaluations", 0, 2**31 - 1),
        updates("updates", choices),
        updates("correction_updates", corrections),
        risks("risk"),
        risks("validation_risk"),
        switched,
        rewound,
        _read(str, data["stopped"], "path.stopped"),
    )


# --- reading by annotation ------------------------------------------------------------------------


def _shown(value: Any) -> str:
    try:
        text = json.dumps(value, default=repr)
    except ValueError:  # an integer of thousands of digits
        text = "a giant"
    return text if len(text) <= 60 else text[:57] + "..."


def _require(ok: bool, where: str, expected: str, got: Any) -> None:
    if not ok:
        raise ModelFileError(f"{where}: {expected}, got {_shown(got)}")


def _check_keys(data: Any, keys: Any, where: str) -> None:
    """An object with just these keys."""
    _require(isinstance(data, dict), where, "expected an object", data)
    lacking, unknown = [k for k in keys if k not in data], [k for k in data if k not in keys]
    _require(not lacking, where, f"{', '.join(lacking)} missing; expected it", list(data))
    _require(not unknown, where, "expected no other keys", unknown)


def _read(kind: Any, value: Any, where: str) -> Any:
    """The value, if it is what the annotation says."""
    if kind in CHOICES:
        _require(isinstance(value, dict), where, "expected an object", value)
        name, known = value.get("type"), CHOICES[kind]
        _require(isinstance(name, str) and name in known, where, f"expected type {[*known]}", name)
        return _read(known[name], {k: v for k, v in value.items() if k != "type"}, where)
    if is_dataclass(kind):
        return _object(kind, value, where)
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _one_of(options, value, where)
    if origin is Literal:
        _require(value in options, where, f"expected one of {options}", value)
        return value
    if origin is tuple:
        items = enumerate(_read(list, value, where))
        return tuple(_read(options[0], item, f"{where}[{i}]") for i, item in items)
    if origin is dict:
        items = _read(dict, value, where).items()
        return {key: _read(options[1], item, f"{where}.{key}") for key, item in items}
    if origin is np.ndarray:
        return _floats(value, where)
    if kind is float:
        return float(_floats([value], where)[0])
    if kind is Any:  # the bins of a learner
        found = _read(Bins | str | int | None, value, where)
        if found is not None:
            _built(where, lambda: as_bins(found))
        return found
    fits = type(value) is kind and (kind is not int or abs(value) < 2**63)
    _require(fits, where, f"expected {kind.__name__}", value)
    return value


def _one_of(options: tuple[Any, ...], value: Any, where: str) -> Any:
    for option in options:
        try:
            return _read(option, value, where)
        except ModelFileError as error:
            if is_dataclass(option) and isinstance(value, dict):
                raise  # says more than that nothing fits
            last = error
    raise last


def _floats(values: Any, where: str) -> Floats:
    fits = isinstance(values, list) and all(type(v) is float or type(v) is int for v in values)
    _require(fits, where, "expected numbers", values)
    try:
        out = np.array(values, dtype=np.float64)
    except OverflowError:  # a giant integer
        out = np.array([math.inf])
    _require(bool(np.isfinite(out).all()), where, "expected finite numbers", values)
    return out


@cache
def _fields(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if f.init}


def _object(cls: Any, value: Any, where: str) -> Any:
    kinds = _fields(cls)
    _check_keys(value, kinds, where)
    arguments = {key: _read(kind, value[key], f"{where}.{key}") for key, kind in kinds.items()}
    made = _built(where, lambda: cls(**arguments))
    if isinstance(made, Basis | Encoder):
        problem = _built(where, made.problem)
        _require(problem is None, where, problem or "", value)
    for kind, good, expected in RULES:
        if isinstance(made, kind):
            _require(_built(where, lambda good=good: bool(good(made))), where, expected, value)
    return made


def _built(where: str, make: Any) -> Any:
    """What the function makes; the errors it raises say what is wrong with the file."""
    try:
        return make()
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{where}: {str(error)[:300]}") from None


def _rising(numbers: tuple[float, ...] | Floats, strictly: bool) -> bool:
    steps = np.diff(numbers)
    return bool(np.all(steps > 0 if strictly else steps >= 0))


# What the classes do not check themselves, since only a file can have it wrong: in this order.
RULES: tuple[tuple[Any, Any, str], ...] = (
    (Edit, lambda e: all(len(p) == 2 and isinstance(p[0], str) for p in e.parameters),
     "expected parameters as pairs of name and value"),
    (Edit, lambda e: e.what in EDITS, f"expected one of {', '.join(EDITS)}"),
    (ColumnFacts, lambda c: (c.low is None) == (c.high is None), "expected low and high"),
    (ColumnFacts, lambda c: c.low is None or c.low <= c.high, "expected low <= high"),
    (Spread, lambda s: s.rows > 0 and 0 <= s.missing <= 1, "expected rows > 0, missing 0 to 1"),
    (Spread, lambda s: len(s.points) == len(s.shares) and _rising(s.points, True),
     "expected increasing points, and a share for each"),
    (Spread, lambda s: bool(np.all(s.shares > 0)), "expected shares > 0"),
    (Ranking, lambda r: len(r.a) == len(r.b) == len(r.gain) == len(r.by_noise),
     "expected two names, a gain and what noise does for every pair"),
    (Ranking, lambda r: 0 <= r.chosen <= len(r.a) <= r.n_pairs, "expected chosen pairs among all"),
    (Ranking, lambda r: _rising(-r.gain, False) and r.residual >= 0, "expected falling gains"),
    (Optimizer, lambda o: o.core() is not None, "expected parameters that fit"),
    (Settings, lambda s: s.patience is None or 1 <= s.patience < 2**31 - 1,
     "expected patience >= 1"),
    (Settings, lambda s: s.seed >= 0, "expected seed >= 0"),
    (Settings, lambda s: (s.fraction is not None) == (s.validation == "fraction"),
     "expected a fraction just for this kind of validation"),
    (Settings, lambda s: s.fraction is None or 0 < s.fraction < 1,
     "expected a fraction from 0 to 1"),
)  # fmt: skip
