"""Records as plain data for JSON, and back: the annotations of their fields say what is read.

An object in a file has the fields of its class as keys, and names its class under "type" where
there is a choice: bases, encoders, learners, losses and optimizers (`KINDS`). The registries of
these kinds are looked up when a model is saved or loaded, so classes that users register later are
known too. Does not know about models (see model_file.py).
"""

from __future__ import annotations

import base64
import json
import math
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.text import printable, quote
from cwboost.binning.rules import Bins, as_bins
from cwboost.binning.spread import Spread
from cwboost.frames.columns import Floats
from cwboost.losses import LOSSES, Loss
from cwboost.model.edits import EDITS
from cwboost.model.records import RULE_WORDS, ColumnFacts, Edit, Ranking
from cwboost.model.settings import Settings
from cwboost.optimizers import OPTIMIZERS, Optimizer
from cwboost.stopping import STOPPING_RULES, StoppingRule, as_rules
from cwboost.terms.bases import BASES, Basis
from cwboost.terms.encoders import ENCODERS, Encoder
from cwboost.terms.learners import LEARNERS, Learner

MAX_SHOWN = 60  # characters of a value in a message


class ModelFileError(ValueError):
    """The file is not a cwboost model, or it is damaged."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))  # names in the file may hold anything


class Kind(NamedTuple):
    """Classes that a file can choose from."""

    registry: Mapping[str, type[Any]]  # by the name under "type"
    registration: str  # how to register a class, for messages
    problem_of: Callable[[Any], str | None]  # what is wrong with an object that was read


def _no_problem(item: Any) -> None:
    """Learners and losses check their parameters when they are made."""


def _optimizer_problem(optimizer: Optimizer) -> None:
    optimizer.core()  # raises if a parameter is out of range


KINDS: dict[Any, Kind] = {
    Basis: Kind(
        BASES, "register it with cwboost.terms.bases.register_basis", lambda basis: basis.problem()
    ),
    Encoder: Kind(
        ENCODERS, "add it to cwboost.terms.encoders.ENCODERS", lambda encoder: encoder.problem()
    ),
    Learner: Kind(
        LEARNERS, "register it with cwboost.terms.learners.register_learner", _no_problem
    ),
    Loss: Kind(LOSSES, "add it to cwboost.losses.LOSSES", _no_problem),
    StoppingRule: Kind(STOPPING_RULES, "add it to cwboost.stopping.STOPPING_RULES", _no_problem),
    Optimizer: Kind(OPTIMIZERS, "add it to cwboost.optimizers.OPTIMIZERS", _optimizer_problem),
}


# --- writing --------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return the value as JSON has it."""
    kind = _kind_of(value)
    if kind is not None:
        return _plain_kind(value, kind)
    if is_dataclass(value):
        return record(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain(v) for v in value] if isinstance(value, tuple) else value


def record(item: Any) -> dict[str, Any]:
    """Return the fields of a dataclass."""
    return {f.name: plain(getattr(item, f.name)) for f in fields(item) if f.init}


def pack(numbers: NDArray[Any], dtype: str = "<f8") -> str:
    """Return numbers as base64 of little-endian floats."""
    return base64.b64encode(numbers.astype(dtype).tobytes()).decode()


def _kind_of(value: Any) -> Any:
    return next((kind for kind in KINDS if isinstance(value, kind)), None)


def _plain_kind(value: Any, kind: Any) -> dict[str, Any]:
    """Return an object with its type; raise if the file could not be loaded again."""
    cls, (registry, registration, _) = type(value), KINDS[kind]
    name = next((name for name, known in registry.items() if known is cls), None)
    if name is None:
        raise TypeError(
            f"a model file cannot hold {quote(value)}, because the class {cls.__name__} is not "
            f"registered; {registration} before you save and before you load, or pickle the model"
        )
    if not is_dataclass(value):
        raise TypeError(
            f"a model file cannot hold {quote(value)}, because {cls.__name__} is not a dataclass; "
            "its fields are what the file stores"
        )
    data = record(value)
    if not cls.__module__.startswith("cwboost."):
        _check_readable(cls, data)
    return {"type": name, **data}


def _check_readable(cls: type[Any], data: dict[str, Any]) -> None:
    """Raise if an object of a user's class cannot be read from its fields."""
    try:
        found = record(read(cls, json.loads(json.dumps(data)), cls.__name__))
        problem = None if found == data else "its fields change when they are read back"
    except (TypeError, ValueError, NameError) as error:
        problem = str(error)
    if problem is not None:
        raise TypeError(
            f"a model file cannot hold the class {cls.__name__}: {problem}; annotate its fields "
            "with types that a file can hold, such as float, int, bool, str, tuple[float, ...] or "
            "NDArray[np.float64] (also with | None), or pickle the model"
        )


# --- checks ---------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """Return a value as messages show it."""
    try:
        text = json.dumps(value, default=repr)
    except ValueError:  # an integer with thousands of digits
        text = "a huge number"
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def require(ok: bool, where: str, expected: str, got: Any) -> None:
    """Raise ModelFileError unless `ok`."""
    if not ok:
        raise ModelFileError(f"{where}: {expected}, got {shown(got)}")


def check_keys(data: Any, keys: Iterable[str], where: str) -> None:
    """Raise unless the data is an object with exactly these keys."""
    keys = list(keys)
    require(isinstance(data, dict), where, "expected an object", data)
    lacking, unknown = [k for k in keys if k not in data], [k for k in data if k not in keys]
    require(not lacking, where, f"{', '.join(lacking)} missing; expected it", list(data))
    require(not unknown, where, "expected no other keys", unknown)


# --- reading --------------------------------------------------------------------------------------


def read(kind: Any, value: Any, where: str) -> Any:
    """Return the value as the annotation `kind` says; raise ModelFileError if it does not fit."""
    if kind in KINDS:
        return _read_kind(kind, value, where)
    if is_dataclass(kind):
        return _read_object(kind, value, where)
    origin, options = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_one_of(options, value, where)
    if origin is Literal:
        require(value in options, where, f"expected one of {options}", value)
        return value
    if origin is tuple:
        items = enumerate(read(list, value, where))
        return tuple(read(options[0], item, f"{where}[{i}]") for i, item in items)
    if origin is dict:
        entries = read(dict, value, where).items()
        return {key: read(options[1], item, f"{where}.{key}") for key, item in entries}
    if origin is np.ndarray:
        return _read_floats(value, where)
    if kind is float:
        return float(_read_floats([value], where)[0])
    if kind is Any:  # the bins of a learner
        found = read(Bins | str | int | None, value, where)
        if found is not None:
            _make(where, lambda: as_bins(found))
        return found
    fits = type(value) is kind and (kind is not int or abs(value) < 2**63)
    require(fits, where, f"expected {kind.__name__}", value)
    return value


def unpack(text: Any, n: int | None, where: str, dtype: str = "<f8") -> NDArray[Any]:
    """Return n finite numbers from base64, or as many as there are if n is None."""
    try:
        raw = base64.b64decode(read(str, text, where), validate=True)
        out = np.frombuffer(raw, dtype=dtype).astype(dtype[1:])
    except ValueError:
        bits = 8 * np.dtype(dtype).itemsize
        raise ModelFileError(f"{where}: damaged (not base64 of {bits}-bit floats)") from None
    fits = n in (None, len(out)) and bool(np.isfinite(out).all())
    require(fits, where, f"expected {'' if n is None else f'{n} '}finite numbers", len(out))
    return out


def _read_kind(kind: Any, value: Any, where: str) -> Any:
    require(isinstance(value, dict), where, "expected an object", value)
    name, (registry, _, problem_of) = value.get("type"), KINDS[kind]
    if not (isinstance(name, str) and name in registry):
        raise ModelFileError(
            f"{where}: expected type {[*registry]}, got {shown(name)}; if this is a class of your "
            "own, import the module that defines and registers it before you load the model"
        )
    fields_only = {key: item for key, item in value.items() if key != "type"}
    item = read(registry[name], fields_only, where)
    problem = _make(where, lambda: problem_of(item))
    require(problem is None, where, problem or "", fields_only)
    return item


def _read_object(cls: Any, value: Any, where: str) -> Any:
    kinds = _annotations(cls)
    check_keys(value, kinds, where)
    arguments = {key: read(kind, value[key], f"{where}.{key}") for key, kind in kinds.items()}
    item = _make(where, lambda: cls(**arguments))
    for fits, expected in RULES.get(cls, ()):
        require(_make(where, partial(fits, item)), where, expected, value)
    return item


def _read_one_of(options: tuple[Any, ...], value: Any, where: str) -> Any:
    for option in options:
        try:
            return read(option, value, where)
        except ModelFileError as error:
            if is_dataclass(option) and isinstance(value, dict):
                raise  # says more than that no option fits
            last = error
    raise last


def _read_floats(values: Any, where: str) -> Floats:
    fits = isinstance(values, list) and all(type(v) is float or type(v) is int for v in values)
    require(fits, where, "expected numbers", values)
    try:
        out = np.array(values, dtype=np.float64)
    except OverflowError:  # an integer beyond the range of floats
        out = np.array([math.inf])
    require(bool(np.isfinite(out).all()), where, "expected finite numbers", values)
    return out


@cache
def _annotations(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls) if f.init}


def _make(where: str, make: Callable[[], Any]) -> Any:
    """Return what the function makes; its errors become errors of the file."""
    try:
        return make()
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{where}: {str(error)[:300]}") from None


# --- relations between fields ---------------------------------------------------------------------


def _rises(numbers: Floats, strictly: bool) -> bool:
    steps = np.diff(numbers)
    return bool(np.all(steps > 0 if strictly else steps >= 0))


# Rules of records that only a file can break. They are checked in this order.
RULES: dict[type[Any], tuple[tuple[Callable[[Any], Any], str], ...]] = {
    Edit: (
        (
            lambda e: all(len(p) == 2 and isinstance(p[0], str) for p in e.parameters),
            "expected parameters as pairs of name and value",
        ),
        (lambda e: e.what in EDITS, f"expected one of {', '.join(EDITS)}"),
    ),
    ColumnFacts: (
        (lambda c: (c.low is None) == (c.high is None), "expected low and high"),
        (lambda c: c.low is None or c.low <= c.high, "expected low <= high"),
    ),
    Spread: (
        (lambda s: s.rows > 0 and 0 <= s.missing <= 1, "expected rows > 0, missing 0 to 1"),
        (
            lambda s: len(s.points) == len(s.shares) and _rises(s.points, True),
            "expected increasing points, and a share for each",
        ),
        (lambda s: np.all(s.shares > 0), "expected shares > 0"),
    ),
    Ranking: (
        (
            lambda r: len(r.a) == len(r.b) == len(r.gain) == len(r.by_noise),
            "expected two names, gain and by_noise for every pair",
        ),
        (lambda r: 0 <= r.tried <= len(r.a) <= r.n_pairs, "expected tried <= pairs <= n_pairs"),
        (
            lambda r: list(r.positions) == sorted({*r.positions} & {*range(r.tried)}),
            "expected increasing positions below tried",
        ),
        (lambda r: r.rule in ("", *RULE_WORDS), f"expected a rule: {', '.join(RULE_WORDS)}"),
        (lambda r: _rises(-r.gain, False) and r.residual >= 0, "expected decreasing gains"),
    ),
    Settings: (
        (
            lambda s: as_rules(s.patience) == s.patience,
            "expected patience as a whole number >= 1, rules or null",
        ),
        (lambda s: s.seed >= 0, "expected seed >= 0"),
        (
            lambda s: (s.fraction is not None) == (s.validation == "fraction"),
            "expected a fraction if and only if validation is 'fraction'",
        ),
        (lambda s: s.fraction is None or 0 < s.fraction < 1, "expected a fraction between 0 and 1"),
    ),
}
