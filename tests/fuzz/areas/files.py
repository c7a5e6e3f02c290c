"""Area `files`: random damage to every file that cwboost reads.

Model files, checkpoints, tuning files, folders of saved Datasets, and tables as CSV, JSON lines and
Parquet. Reading gives a result or refuses. Checkpoints and Datasets have checksums: a file that is
accepted, although its bytes changed, must give the same result. Some damage comes with a checksum
made right again, as from a faulty or hostile program.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import cwboost as cb
from cwboost._utils.fingerprint import fingerprint
from cwboost.frames.files import read_table
from fuzz.callables import MODELS, TABLE, Y
from fuzz.tables import Rng, pick
from fuzz.verdict import PropertyError

ODD_JSON = [None, True, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, 0.5, "", "x", "1", "nan", "inf",
            [], [0], [[]], {}, {"a": 1}, float("nan"), float("inf"), "A" * 50,
            "\ud800"]  # fmt: skip


def case(rng: Rng, tried: list[str]) -> None:
    FORMATS[pick(rng, FORMATS)](rng, tried)


# --- damage ---------------------------------------------------------------------------------------


def damage(rng: Rng, content: bytes, tried: list[str]) -> bytes:
    """Return the bytes with some of them changed, removed, doubled or added."""
    kind = pick(rng, ["flip", "flip", "cut", "lines", "insert", "empty", "double", "zeros"])
    at = int(rng.integers(0, max(len(content), 1)))
    tried.append(f"damage: {kind} at byte {at} of {len(content)}")
    if kind == "flip":
        out = bytearray(content)
        for _ in range(int(pick(rng, [1, 1, 3, 30]))):
            if out:
                out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
        return bytes(out)
    if kind == "lines":
        lines = content.split(b"\n")
        del lines[int(rng.integers(len(lines)))]
        return b"\n".join(lines)
    return {
        "cut": content[:at],
        "insert": content[:at] + rng.bytes(int(rng.integers(1, 9))) + content[at:],
        "empty": b"",
        "double": content + content,
        "zeros": content[:at] + bytes(len(content) - at),
    }[kind]


def change_json(rng: Rng, value: Any, tried: list[str]) -> Any:
    """Return JSON data with one value replaced, removed or doubled, at a random depth."""
    value = json.loads(json.dumps(value))
    place, node = "", value
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return value
        key = pick(rng, keys)
        place += f"[{key!r}]"
        child = node[key]
        if isinstance(child, dict | list) and child and rng.uniform() < 0.85:
            node = child
            continue
        if isinstance(node, dict | list) and rng.uniform() < 0.2:
            tried.append(f"removed {place}")
            del node[key]
        else:
            node[key] = _changed(rng, child)
            tried.append(f"set {place} to {str(node[key])[:60]!r}")
        return value


def _changed(rng: Rng, value: Any) -> Any:
    if isinstance(value, int | float) and abs(value) < 1e300 and rng.uniform() < 0.5:
        return pick(rng, [-value, value + 1, value * 1e300, 0, value + 0.5])
    return pick(rng, ODD_JSON)


def changed_text(rng: Rng, data: Any, tried: list[str]) -> str:
    """Return JSON text of the data after one to three changes."""
    for _ in range(int(rng.integers(1, 4))):
        data = change_json(rng, data, tried)
    return json.dumps(data)


# --- formats --------------------------------------------------------------------------------------


@cache
def _model_files() -> list[bytes]:
    out = []
    for make in MODELS:
        make().save("model.json")
        out.append(Path("model.json").read_bytes())
    return out


def model_file(rng: Rng, tried: list[str]) -> None:
    content = pick(rng, _model_files())
    tried.append("model file")
    if rng.uniform() < 0.7:
        content = changed_text(rng, json.loads(content), tried).encode(errors="surrogatepass")
    else:
        content = damage(rng, content, tried)
    Path("model.json").write_bytes(content)
    model = cb.load("model.json")
    tried.append("loaded")
    use = pick(rng, ["predict", "summary", "importance", "save", "effect"])
    tried.append(use)
    if use == "predict":
        model.predict(TABLE, offset=0.0 if model.n_outputs == 1 else None)
    elif use == "save":
        model.save("again.json")
    elif use == "effect":
        model.effect(next(iter(model.terms)), 5)
    else:
        getattr(model, use)()


def _fit_with_checkpoint() -> list[float]:
    learners = [cb.Spline("x"), cb.Category("g")]
    fitted = cb.fit(TABLE, Y, learners, n_iter=12, validation=0.2, checkpoint="fit.checkpoint")
    return [*fitted.risk.tolist(), *fitted.predict(TABLE).tolist()]


@cache
def _checkpoint() -> tuple[bytes, list[float]]:
    expected = _fit_with_checkpoint()
    return Path("fit.checkpoint").read_bytes(), expected


def checkpoint(rng: Rng, tried: list[str]) -> None:
    content, expected = _checkpoint()
    forged = rng.uniform() < 0.6
    tried.append(f"checkpoint, checksum {'forged' if forged else 'as it was'}")
    if forged:
        head, _, body = content.partition(b"\n")
        line, _, arrays = body.partition(b"\n")
        if rng.uniform() < 0.7:
            line = changed_text(rng, json.loads(line), tried).encode()
        else:
            arrays = damage(rng, arrays, tried)
        body = line + b"\n" + arrays
        words = head.rpartition(b" ")[0]
        content = (
            words + b" " + fingerprint([np.frombuffer(body, np.uint8)]).encode() + b"\n" + body
        )
    else:
        content = damage(rng, content, tried)
    Path("fit.checkpoint").write_bytes(content)
    _compare(_fit_with_checkpoint(), expected, forged, "checkpoint")


def _tune_with_file() -> list[float]:
    result = cb.tune(TABLE, Y, {"rate": [0.1, 0.3, 0.9]}, folds=2, file="tune.jsonl",
                     schedule=cb.RandomSearch(3, 5))  # fmt: skip
    return [float(score) for score in result.table()["score"]]


@cache
def _tuning_file() -> tuple[bytes, list[float]]:
    expected = _tune_with_file()
    return Path("tune.jsonl").read_bytes(), expected


def tuning_file(rng: Rng, tried: list[str]) -> None:
    content, expected = _tuning_file()
    forged = rng.uniform() < 0.5
    tried.append(f"tuning file, checksums {'forged' if forged else 'as they were'}")
    if forged or rng.uniform() < 0.5:
        lines = [json.loads(line) for line in content.splitlines()]
        at = int(rng.integers(len(lines)))
        lines[at] = json.loads(changed_text(rng, lines[at], tried))
        content = b"".join(_with_checksums(lines) if forged else map(_line, lines))
    else:
        content = damage(rng, content, tried)
    Path("tune.jsonl").write_bytes(content)
    _compare(_tune_with_file(), expected, forged, "tuning file")


def _line(data: Any) -> bytes:
    return json.dumps(data).encode() + b"\n"


def _with_checksums(lines: list[Any]) -> Iterator[bytes]:
    """Yield the lines of a tuning file with checksums that fit their content."""
    first = ""
    for line in lines:
        line.pop("checksum", None)
        text = json.dumps(line)
        yield _line(line | {"checksum": fingerprint([first, text])})
        first = first or text


def _fit_dataset() -> list[float]:
    data = cb.Dataset.open("data")
    model = cb.fit(data, Y, [cb.Spline("x"), cb.Category("g"), cb.Linear("k")], n_iter=5)
    return [*model.risk.tolist(), *model.predict(data).tolist()]


@cache
def _dataset() -> tuple[dict[str, bytes], list[float]]:
    cb.Dataset.from_batches([pa.table(TABLE)]).save("data")
    expected = _fit_dataset()  # writes the cache of bins, too
    files = [file for file in Path("data").rglob("*") if file.is_file()]
    return {str(file): file.read_bytes() for file in files}, expected


def dataset_folder(rng: Rng, tried: list[str]) -> None:
    files, expected = _dataset()
    shutil.rmtree("data", ignore_errors=True)
    damaged = pick(rng, ["data/dataset.json", *files])
    forged = damaged.endswith("dataset.json") and rng.uniform() < 0.8
    tried.append(f"Dataset folder, {damaged}{', forged' if forged else ''}")
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        if name == damaged:
            content = _forged_index(rng, content, tried) if forged else damage(rng, content, tried)
        if name != damaged or rng.uniform() < 0.95:
            Path(name).write_bytes(content)
    _compare(_fit_dataset(), expected, forged, "Dataset folder")


def _forged_index(rng: Rng, content: bytes, tried: list[str]) -> bytes:
    index = json.loads(changed_text(rng, json.loads(content)["dataset"], tried))
    raw = json.dumps(index, ensure_ascii=False).encode(errors="surrogatepass")
    content = {"checksum": hashlib.sha256(raw).hexdigest(), "dataset": index}
    return json.dumps(content, ensure_ascii=False).encode(errors="surrogatepass")


def _compare(found: list[float], expected: list[float], forged: bool, what: str) -> None:
    same = len(found) == len(expected) and np.allclose(found, expected, rtol=1e-9, equal_nan=True)
    if not forged and not same:
        raise PropertyError(f"damage to a {what} is noticed")


@cache
def _table_files() -> dict[str, bytes]:
    lines = [",".join(TABLE)]
    rows = list(zip(*(column.tolist() for column in TABLE.values()), strict=True))
    lines += [",".join(map(str, row)) for row in rows]
    records = [json.dumps(dict(zip(TABLE, row, strict=True))) for row in rows]
    pq.write_table(pa.table(TABLE), "in.parquet")
    return {
        "in.csv": "\n".join(lines).encode(),
        "in.tsv": "\r\n".join(lines).replace(",", "\t").encode("utf-8-sig"),
        "in.jsonl": "\n".join(records).replace("NaN", "null").encode(),
        "in.parquet": Path("in.parquet").read_bytes(),
        "in.csv.gz": gzip.compress("\n".join(lines).encode()),
    }


def table_file(rng: Rng, tried: list[str]) -> None:
    name, content = pick(rng, _table_files().items())
    tried.append(f"table {name}")
    for _ in range(int(rng.integers(1, 4))):
        content = damage(rng, content, tried)
    if rng.uniform() < 0.2:
        content = content.replace(b"\n", pick(rng, [b"\r", b"\r\n", b"\n\n", b""]))
    Path(name).write_bytes(content)
    if name.endswith("parquet") and rng.uniform() < 0.5:
        cb.fit(cb.Dataset.from_parquet(name), Y, n_iter=2)
    else:
        table = read_table(name).table
        cb.fit(table, np.arange(float(table.n_rows)), n_iter=2)


FORMATS: dict[str, Callable[[Rng, list[str]], None]] = {
    "model file": model_file,
    "checkpoint": checkpoint,
    "tuning file": tuning_file,
    "Dataset folder": dataset_folder,
    "table": table_file,
}
