"""The report: one HTML file that shows a model, without a server or network.

Puts the page together from the files in `assets`; what the page shows is made by contents.py.
Column names and levels are data: they are in a JSON block in which no tag can begin, and the script
shows them only as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import warnings
from importlib.resources import files
from typing import Any

from cwboost._utils.atomic_files import check_file, replace_file
from cwboost._utils.checks import check_text, check_whole
from cwboost._utils.text import quote_names
from cwboost._utils.user_warnings import warn_user
from cwboost.explain.quality import evaluate_rows
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table
from cwboost.losses import EvaluatedRows
from cwboost.model.model import Model

from .contents import ReportRows, contents, shown_terms
from .packed_terms import pack_terms
from .path_frames import path_frames

MAX_BYTES = 3_000_000
MAX_ROWS = 1_000_000  # that readers can choose from
SCRIPTS = (  # joined into one script, in this order
    "evaluate.js", "elements.js", "charts.js", "model.js", "overview.js", "growth.js", "effects.js",
    "prediction_section.js", "page.js",
)  # fmt: skip


def report(
    model: Model,
    file: Any,
    table: Any = None,
    y: Any = None,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    rows: int = 0,
    title: str | None = None,
) -> None:
    """See Model.report."""
    check_file(file)
    check_whole("report: rows", rows, 0, MAX_ROWS)
    others = {"y": y, "weights": weights, "offset": offset, "exposure": exposure}
    given = others | {"rows": rows or None}
    needs_table = [name for name, value in given.items() if value is not None]
    if table is None and needs_table:
        raise TypeError(f"report: {', '.join(needs_table)} can only be used together with table=")
    if title is not None:
        check_text("report: title", title)
    data = None if table is None else read(table)
    if data is not None:
        _check_columns(model, data)
    with warnings.catch_warnings():  # the report does not warn of unseen levels
        warnings.filterwarnings("ignore", message="levels never seen")
        judged = None if data is None else _judged(model, data, **others)
    if title is None:
        target = model.settings.target
        title = "cwboost model" if target is None else f"Model of {target}"
    page = _page(model, ReportRows(data, judged, rows), title)
    with replace_file(file) as temporary:
        temporary.write_text(page, encoding="utf-8", newline="\n")


def _check_columns(model: Model, data: Table) -> None:
    needed = dict.fromkeys(c for t in model.terms.values() if t.chosen for c in t.columns)
    lacking = [name for name in needed if name not in data]
    if lacking:
        names = quote_names(lacking)
        raise ValueError(f"report: the table lacks the columns {names}; it has {data.shown}")
    if not data.n_rows:
        raise ValueError("report: the table has no rows; leave it out to report the model alone")


def _judged(
    model: Model, data: Table, y: Any, weights: Any, offset: Any, exposure: Any
) -> EvaluatedRows | None:
    """Return the rows with their predictions, if y is known."""
    if y is None:
        y = model.settings.target
        if y is None or y not in data:
            return None
    if weights is None and model.settings.weights is not None and model.settings.weights in data:
        weights = model.settings.weights
    return evaluate_rows(model, data, y, weights, offset, exposure)


def _page(model: Model, rows: ReportRows, title: str) -> str:
    """Return the whole file, with as many key frames of the path as there is room for."""
    folder = files("cwboost.report") / "assets"
    style = (folder / "report.css").read_text(encoding="utf-8")
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}\n}})();'
    parts = {
        "title": html.escape(title.encode("utf-8", "replace").decode()),
        "policy": (
            f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        "style": style,
        "script": script,
        "data": "",
    }
    template = (folder / "report.html").read_text(encoding="utf-8")

    def filled() -> str:
        return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)

    terms = pack_terms(model, shown_terms(model))
    data = contents(model, terms, rows, title)
    room = MAX_BYTES - len(filled().encode()) - len(_json(data)) - 20_000
    parts["data"] = _json(data | {"path": path_frames(model, terms, room)})
    page = filled()
    size = len(page.encode())
    if size > MAX_BYTES:
        warn_user(
            f"the report has {size / 1e6:.1f} MB and may open slowly, because the model has many "
            "coefficients or long names",
        )
    return page


def _json(data: Any) -> str:
    """Return JSON in which no HTML tag and no HTML comment can begin."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(text: str) -> str:
    """Return the hash by which the page's policy allows its own script or style."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
