"""Models as files: versioned JSON that can be read by eye, checked completely when it is loaded.

A damaged or hostile file can at worst give wrong numbers; loading never runs code from it. A file
mirrors the dataclasses of a model (see plain_data.py). Only long arrays are packed, as base64 of
little-endian floats: the updates of the path and the coefficients of bags with 64 bits, and the
coefficients of bootstrap draws with 32 bits. The parts of a file are read in model_parts.py.
"""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path as FilePath
from types import MappingProxyType
from typing import Any

import numpy as np

from cwboost._utils.atomic_files import check_has_end, check_name, open_text, replace_file
from cwboost._utils.text import count
from cwboost.frames.columns import Floats
from cwboost.losses import Loss, explain_registration, is_registered
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.model.records import Bags, Bands, ColumnFacts, Polish, Ranking, Sizes
from cwboost.model.settings import Settings
from cwboost.model.term import Term, column_groups
from cwboost.optimizers import Optimizer

from .model_parts import (
    TERM_KEYS,
    read_bags,
    read_bands,
    read_edits,
    read_path,
    read_polish,
    read_terms,
)
from .plain_data import ModelFileError as ModelFileError
from .plain_data import check_keys, pack, plain, read, record, require, shown

FORMAT, VERSION = "cwboost model", 6
READABLE = (1, 2, 3, 4, 5, 6)
KEYS = (
    "format", "version", "written_by", "loss", "classes", "optimizer", "start", "intercept",
    "scale", "iteration", "columns", "terms", "interactions", "importance", "sizes", "edits",
    "dropped", "path", "settings", "bags", "bands", "polish", "suggestion",
)  # fmt: skip
NEW_IN_4: dict[str, dict[str, Any]] = {  # fields of learners and bases, as older versions had them
    "Spline": {"tails": "smooth"},
    "Centered": {"tails": "smooth"},
    "spline": {"tails": "smooth", "ridge": 0.0},
    "levels": {"ridge": 0.0},
    "mark": {"ridge": 0.0},
}

# --- saving ---------------------------------------------------------------------------------------


def save(model: Model, file: Any) -> None:
    """Write the model to a file, completely or not at all.

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
            "the model has coefficients that are not finite, which cannot be stored; save "
            "model.at(m) for an iteration m before the fit diverged"
        ) from None
    # Lists of numbers go on one line. JSON strings never contain line breaks.
    text = re.sub(
        r'\[\n[^\[\]{}"]*\]', lambda found: "[" + " ".join(found[0][1:-1].split()) + "]", text
    )
    with replace_file(file) as temporary, open_text(temporary) as stream:
        stream.write(text)


def to_dict(model: Model) -> dict[str, Any]:
    """Return the model as plain data."""
    from cwboost import __version__

    if not is_registered(model.loss):
        raise TypeError(
            f"a model with the {model.loss.name} loss cannot be stored as JSON, because "
            f"{explain_registration(model.loss)}; or pickle the model"
        )
    finite_shares = model.shares is not None and bool(np.isfinite(model.shares).all())
    path = record(model.path)
    for key in ("risk", "validation_risk", "metrics"):  # JSON does not have nan and inf
        path[key] = [v if math.isfinite(v) else str(v) for v in path[key]]
    for key in ("updates", "correction_updates"):
        path[key] = pack(getattr(model.path, key))
    return {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"cwboost {__version__}",
        "loss": plain(model.loss),
        "classes": plain(model.classes),
        "optimizer": plain(model.optimizer),
        "start": plain(model.start_vector),
        "intercept": model.intercept_vector.tolist(),
        "scale": plain(model.scale),
        "iteration": model.best_iteration,
        "columns": {name: plain(facts) for name, facts in model.columns.items()},
        "terms": [_plain_term(term) for term in model.terms.values()],
        "interactions": plain(model.interactions),
        "importance": plain(model.shares) if finite_shares else None,
        "sizes": _plain_sizes(model.sizes),
        "edits": plain(model.edits),
        "dropped": plain(model.dropped),
        "path": path,
        "settings": plain(model.settings),
        "bags": None if model.bags is None else _plain_bags(model.bags),
        "bands": None if model.bands is None else _plain_bands(model.bands),
        "polish": None if model.polish is None else _plain_polish(model.polish),
        "suggestion": model.suggestion,
    }


def _plain_sizes(sizes: Sizes | None) -> dict[str, Any] | None:
    """Return the sizes as plain data; None if some are not finite."""
    if sizes is None or not np.isfinite([*sizes.terms.values()]).all():
        return None
    return {"terms": dict(sizes.terms), "columns": dict(sizes.columns)}


def _plain_bags(bags: Bags) -> dict[str, Any]:
    """Return the bags as plain data, their coefficients packed."""
    own: dict[str, Any] = {"coef": {name: pack(coef) for name, coef in bags.coef.items()}}
    own["chosen"] = {name: list(counts) for name, counts in bags.chosen.items()}
    return {f.name: own.get(f.name, plain(getattr(bags, f.name))) for f in fields(bags)}


def _plain_bands(bands: Bands) -> dict[str, Any]:
    return {
        "center": {name: pack(coef) for name, coef in bands.center.items()},
        "coef": {name: pack(coef, "<f4") for name, coef in bands.coef.items()},
        "n_iter": list(bands.n_iter),
        "longer": bands.longer,
        "inflation": bands.inflation,
    }


def _plain_polish(polish: Polish) -> dict[str, Any]:
    """Return the record of a polished model, its arrays packed."""
    factors = {
        key: {name: pack(factor, "<f4") for name, factor in of_terms.items()}
        for key, of_terms in polish.factors.items()
    }
    return {
        "weight": polish.weight,
        "reason": polish.reason,
        "repeated": polish.repeated or 0,
        "boosted_start": plain(polish.boosted_start),
        "boosted_means": {name: pack(mean) for name, mean in polish.boosted_means.items()},
        "differences": {name: pack(coef) for name, coef in polish.differences.items()},
        "edf": dict(polish.edf),
        "smoothing": {name: list(values) for name, values in polish.smoothing.items()},
        "dispersion": polish.dispersion,
        "factors": factors,
    }


def _plain_term(term: Term) -> dict[str, Any]:
    plan = term.plan
    values = (
        plan.name, plan.learner, plan.encoders, plan.basis, plan.net_df,
        term.smoothing, term.df, term.net_df, term.beta.T,
    )  # fmt: skip
    return {key: plain(value) for key, value in zip(TERM_KEYS, values, strict=True)}


# --- loading --------------------------------------------------------------------------------------


def load(file: Any) -> Model:
    """Read a model that `Model.save` wrote, and check all of it.

    Examples
    --------
    >>> import cwboost as cb, tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "m.json"
    >>> _ = path.write_text("{}")
    >>> cb.load(path)
    Traceback (most recent call last):
    cwboost.export.plain_data.ModelFileError: .../m.json: not a cwboost model ...
    """
    check_name(file)
    check_has_end(file)
    raw = FilePath(file).read_bytes().removeprefix(BOM_UTF8)  # editors may have added it
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
    """Return the model from the data of `to_dict`, after checking everything."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelFileError(f'not a cwboost model (no "format": "{FORMAT}")')
    version = data.get("version")
    if type(version) is not int or version not in READABLE:
        raise ModelFileError(
            f"the file has version {shown(version)} of the format, but this cwboost reads "
            f"{READABLE[0]} to {READABLE[-1]}; update cwboost"
        )
    try:
        return _read_model(_upgraded(data, version))
    except RecursionError:
        raise ModelFileError("nested too deeply to be a cwboost model") from None


def _upgraded(data: dict[str, Any], version: int) -> dict[str, Any]:
    """Return the data of an older version in the form of this version.

    Version 5 did not have metrics. Version 4 did not know which columns were dates. Version 3 did
    not have sizes, polish, a suggestion or penalties that depend on the rows, and did not say which
    pairs of a ranking were tried and which rule chose them.
    """
    if version < 3:
        data = _upgraded_to_3(data)
    if version < 4:
        data = {
            **data,
            "polish": None,
            "sizes": None,
            "suggestion": None,
            "terms": _with_row_penalties(data.get("terms")),
            "interactions": _with_positions(data.get("interactions")),
        }
    if version < 5:
        data = _with_columns(data, {"unit": None})
    if version < 6:
        data = {
            **data,
            "path": _with_fields(data.get("path"), {"metrics": []}),
            "settings": _with_fields(data.get("settings"), {"metrics": []}),
        }
    return data


def _with_fields(item: Any, new: dict[str, Any]) -> Any:
    """Return an object of an older version with new fields."""
    return {**new, **item} if isinstance(item, dict) else item


def _with_columns(data: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return the data with new fields in the facts about columns."""
    columns = data.get("columns")
    if not isinstance(columns, dict):
        return data
    facts = {name: {**new, **f} if isinstance(f, dict) else f for name, f in columns.items()}
    return {**data, "columns": facts}


def _with_positions(ranking: Any) -> Any:
    """Return a ranking of a version in which the chosen pairs were the first ones."""
    if not isinstance(ranking, dict) or not isinstance(ranking.get("chosen"), int):
        return ranking
    chosen = ranking["chosen"]
    rest = {key: value for key, value in ranking.items() if key != "chosen"}
    return {**rest, "rule": "", "tried": chosen, "positions": list(range(chosen))}


def _with_row_penalties(data: Any) -> Any:
    """Return terms of version 3, or parts of them, with the fields of penalties that depend on the
    rows, which they do not have."""
    if isinstance(data, list):
        return [_with_row_penalties(item) for item in data]
    if not isinstance(data, dict):
        return data
    kind = data.get("type")
    new = NEW_IN_4.get(kind, {}) if isinstance(kind, str) else {}
    parts = ("learner", "basis", "a", "b")
    return {**new, **data, **{key: _with_row_penalties(data[key]) for key in parts if key in data}}


def _upgraded_to_3(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of version 1 or 2 in the form of version 3.

    Version 2 did not have pairs without main effects, bags or bands. Version 1 did not have the
    spread of the rows over the columns, and the first files did not count evaluations.
    """
    data = {**data, "dropped": [], "bags": None, "bands": None}
    data = _with_columns(data, {"spread": None})
    path, terms = (data.get(key) for key in ("path", "terms"))
    if isinstance(path, dict) and isinstance(path.get("choices"), list):
        path = {"evaluations": [0] * len(path["choices"]), **path}
    if isinstance(terms, list):
        terms = [_with_main_effects(term) for term in terms]
    return {"interactions": None, **data, "path": path, "terms": terms}


def _with_main_effects(term: Any) -> Any:
    """Return a term of a version in which tensors always included their main effects."""
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


def _read_model(data: dict[str, Any]) -> Model:
    """Return the model from data of the current version."""
    check_keys(data, KEYS, "file")
    loss: Loss = read(Loss, data["loss"], "loss")
    q = loss.n_outputs
    start = _read_start(data["start"], q)
    classes = _read_classes(data["classes"], loss)
    optimizer: Optimizer = read(Optimizer, data["optimizer"], "optimizer")
    columns: dict[str, ColumnFacts] = read(dict[str, ColumnFacts], data["columns"], "columns")
    terms = read_terms(read(list, data["terms"], "terms"), q, columns)
    path = read_path(data["path"], optimizer, [len(term.beta) for term in terms.values()], q)
    return Model(
        loss=loss,
        optimizer=optimizer,
        terms=MappingProxyType(terms),
        columns=MappingProxyType(columns),
        classes=classes,
        start_vector=start,
        scale=_read_scale(data["scale"]),
        path=path,
        best_iteration=_read_iteration(data["iteration"], path),
        settings=_read_settings(data["settings"], loss),
        shares=_read_shares(data["importance"], len(terms)),
        sizes=_read_sizes(data["sizes"], terms),
        edits=read_edits(data["edits"], terms, q),
        dropped=read(tuple[str, ...], data["dropped"], "dropped"),
        bags=None if data["bags"] is None else read_bags(data["bags"], terms, q),
        bands=None if data["bands"] is None else read_bands(data["bands"], terms),
        polish=None if data["polish"] is None else read_polish(data["polish"], terms, q),
        interactions=read(Ranking | None, data["interactions"], "interactions"),
        suggestion=read(str | None, data["suggestion"], "suggestion"),
    )


def _read_start(data: Any, q: int) -> Floats:
    start: Floats = read(Floats, data, "start")
    require(q >= 1 and len(start) == q, "start", f"expected {count(q, 'number')}", data)
    require(bool(np.all(np.abs(start) <= 1e300)), "start", "expected numbers up to 1e300", data)
    return start


def _read_classes(data: Any, loss: Loss) -> tuple[Any, ...]:
    classes: tuple[Any, ...] = read(tuple[bool | int | float | str, ...], data, "classes")
    fits = len(classes) == len(set(classes)) == loss.n_classes
    require(fits, "classes", f"expected {loss.n_classes} different classes", data)
    return classes


def _read_scale(data: Any) -> float:
    scale: float = read(float, data, "scale")
    require(scale > 0, "scale", "expected a positive number", scale)
    return scale


def _read_iteration(data: Any, path: Path) -> int:
    iteration: int = read(int, data, "iteration")
    require(0 <= iteration <= path.n_iter, "iteration", f"expected 0 to {path.n_iter}", iteration)
    return iteration


def _read_settings(data: Any, loss: Loss) -> Settings:
    settings: Settings = read(Settings, data, "settings")
    fits = settings.exposure is None or loss.log_link
    require(fits, "settings.exposure", f"expected null with {loss.name} loss", settings.exposure)
    return settings


def _read_shares(data: Any, n_terms: int) -> Floats | None:
    shares: Floats | None = read(Floats | None, data, "importance")
    fits = shares is None or len(shares) == n_terms
    require(fits, "importance", f"expected {n_terms} numbers", data)
    return shares


def _read_sizes(data: Any, terms: Mapping[str, Term]) -> Sizes | None:
    if data is None:
        return None
    require(isinstance(data, dict), "sizes", "expected an object or null", data)
    check_keys(data, ("terms", "columns"), "sizes")
    known = {"terms": set(terms), "columns": set(column_groups(terms).values())}
    found: dict[str, dict[str, float]] = {}
    for key, names in known.items():
        found[key] = read(dict[str, float], data[key], f"sizes.{key}")
        require(names >= set(found[key]), f"sizes.{key}", f"expected names of {key}", data[key])
        fits = all(0.0 <= size <= 1e300 for size in found[key].values())  # sums are finite
        require(fits, f"sizes.{key}", "expected numbers from 0 to 1e300", data[key])
    return Sizes(MappingProxyType(found["terms"]), MappingProxyType(found["columns"]))
