"""What the report shows, as plain data: the one object that its script reads.

Exact numbers (coefficients, breaks, polynomials) are base64 of little-endian 64-bit floats. How
terms are packed is in packed_terms.py, the key frames of the path in path_frames.py, the code that
fits the model again in fit_code.py. Does not know about HTML (see page.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.text import quote
from cwboost.explain.bands import band_words, find_source
from cwboost.explain.importance import size_words
from cwboost.explain.quality import calibration, figures
from cwboost.explain.shapes import shape_of
from cwboost.explain.sizes import level_shares, sizes
from cwboost.frames.columns import Labels
from cwboost.frames.table import Table
from cwboost.losses import EvaluatedRows
from cwboost.model.model import Model
from cwboost.model.pieces import Axis
from cwboost.model.prediction import as_in_training
from cwboost.model.records import Bags, ColumnFacts
from cwboost.model.scoring import output_labels
from cwboost.model.term import Term, column_groups
from cwboost.terms.encoders import level_number

from .fit_code import fit_code
from .packed_terms import PackedTerm, Polynomials, axis_data, floats
from .path_frames import finite

BAND_POINTS = 100  # of a band around a curve
LINKS = ("identity", "log", "logit", "softmax")  # that the script of the page can apply


class ReportRows(NamedTuple):
    """The rows passed to the report."""

    table: Table | None = None
    judged: EvaluatedRows | None = None  # with their predictions, if y is known
    n_shown: int = 0  # the number of rows that readers can choose from


def contents(model: Model, terms: list[PackedTerm], rows: ReportRows, title: str) -> dict[str, Any]:
    """Return everything that the page shows except the path."""
    from cwboost import __version__

    columns = list(dict.fromkeys(c for packed in terms for c in packed.term.columns))
    column_data = [_column(model, name, terms) for name in columns]
    polynomials = Polynomials()
    link = model.loss.link
    settings = model.settings
    by_array, log_link = settings.needs_offset, model.loss.log_link
    return {
        "version": __version__,
        "title": title,
        "target": settings.target,
        "loss": model.loss.name,
        "link": link if link in LINKS else None,
        "aim": model.loss.estimand,
        "outputs": output_labels(model),
        "classes": [str(c) for c in model.classes],
        "intercept": floats(model.intercept_vector),
        "offset": settings.offset or ("offset" if by_array and not log_link else None),
        "exposure": settings.exposure or ("exposure" if by_array and log_link else None),
        "columns": column_data,
        "terms": [_term(packed, columns, column_data, polynomials) for packed in terms],
        "importance": _importance(model),
        "polynomials": polynomials.as_data(),
        "cannot_predict": _cannot_predict(terms),
        "size_words": size_words(model),
        "facts": facts(model),
        "repeat": fit_code(model),
        "edits": [{"term": e.term, "words": e.words} for e in model.edits],
        "bags": None if model.bags is None else _bags(model, model.bags),
        "polish": _polish(model),
        "bands": _bands(model, columns),
        "judged": None if rows.judged is None else _judged(rows.judged),
        "rows": [] if rows.table is None else _rows(model, rows.table, columns, rows.n_shown),
    }


def _polish(model: Model) -> dict[str, Any] | None:
    """Return what a model that was fitted to all rows after boosting says about this, else None."""
    if model.polish is None or not model.polish.on_all_rows:
        return None
    return {"edf": finite(sum(model.polish.edf.values())) if model.polished else None}


def shown_terms(model: Model) -> list[Term]:
    """Return the terms of the model and of all iterations of its path."""
    ever = set(model.path.choices.tolist()) | set(model.path.corrections.tolist())
    return [t for k, t in enumerate(model.terms.values()) if t.chosen or k in ever]


# --- columns and terms ----------------------------------------------------------------------------


def _bands(model: Model, columns: list[str]) -> dict[str, Any] | None:
    """Return the bands around the effects of all columns, each at its points or levels."""
    if find_source(model) is None:
        return None
    found: list[dict[str, Any] | None] = []
    reasons: list[str] = []
    for name in columns:
        terms = [t for t in model.terms.values() if t.columns == (name,)]
        drawn = shape_of(model, terms, BAND_POINTS, "pointwise") if terms else None
        if drawn is None or drawn.band is None:
            found.append(None)
            continue
        reasons.append(drawn.band.reason)
        band, levels = drawn.band, drawn.kind == "levels"
        found.append(
            {
                "levels": drawn.at[0].tolist() if levels else None,
                "at": None if levels else floats(drawn.at[0]),
                "lower": floats(band.lower),
                "upper": floats(band.upper),
                "missing": None if band.missing is None else [floats(end) for end in band.missing],
            }
        )
    reason = max(reasons, default="")
    words = band_words(model, None, "pointwise") + (f" ({reason})" if reason else "")
    return {"words": words, "of": found}


def _column(model: Model, name: str, terms: list[PackedTerm]) -> dict[str, Any]:
    facts = model.columns[name]
    axes = [axis for packed in terms for axis in packed.axes if axis.column == name]
    levels = _levels(axes) or (["False", "True"] if facts.boolean else [])
    numeric = facts.kind == "numbers"
    by_number = numeric and any(axis.breaks is not None for axis in axes)
    shares = level_shares(model, name) if levels else None
    spread = facts.spread
    return {
        "name": name,
        "numeric": numeric,
        "by_level": not by_number or facts.boolean,
        "low": facts.low,
        "high": facts.high,
        "whole": numeric and _is_whole(facts),
        "missing": facts.missing,
        "levels": levels,
        "numbers": floats([level_number(level) for level in levels]) if numeric else None,
        "shares": None if shares is None else floats(shares),
        "spread": None
        if spread is None
        else {
            "rows": spread.rows,
            "missing": spread.missing,
            "points": floats(spread.points),
            "shares": floats(spread.shares),
        },
    }


def _levels(axes: list[Axis]) -> list[str]:
    """Return the levels of all axes of a column, each once."""
    return list(dict.fromkeys(level for axis in axes for level in axis.levels))


def _is_whole(facts: ColumnFacts) -> bool:
    """Return whether all known values of the column are whole numbers."""
    points = [] if facts.spread is None else facts.spread.points.tolist()
    return bool(points) and all(float(v).is_integer() for v in (*points, facts.low, facts.high))


def _term(
    packed: PackedTerm,
    columns: list[str],
    column_data: list[dict[str, Any]],
    polynomials: Polynomials,
) -> dict[str, Any]:
    term, numbers = packed.term, [columns.index(c) for c in packed.term.columns]
    return {
        "name": term.name,
        "learner": type(term.learner).__name__,
        "df": finite(term.df),
        "net_df": finite(term.net_df),
        "chosen": term.chosen,
        "columns": numbers,
        "axes": [
            axis_data(axis, column_data[number]["levels"], polynomials)
            for axis, number in zip(packed.axes, numbers, strict=True)
        ],
        "mean": floats(term.plan.basis.mean) if packed.exact else None,
        "beta": floats(packed.coef(term.beta)),
    }


def _cannot_predict(terms: list[PackedTerm]) -> str | None:
    """Return the sentence that is shown in place of live predictions, if they are impossible."""
    sampled = [p.term for p in terms if p.term.chosen and not p.exact]
    if not sampled:
        return None
    term, more = sampled[0], len(sampled) - 1
    others = "" if not more else f" (and {more} more)"
    return (
        f"This page cannot compute predictions: the term {quote(term.name)}{others} has a basis "
        f"({type(term.plan.basis).__name__}) that is not a piecewise polynomial. Its effect is "
        "drawn from sampled values. Use model.predict in Python."
    )


def _importance(model: Model) -> dict[str, dict[str, float | None]]:
    """Return by term its size, the size of its column (or pair), and its share of the risk."""
    found, groups = sizes(model), column_groups(model.terms)
    names = enumerate(model.terms)
    shares = {} if model.shares is None else {name: model.shares[k] for k, name in names}
    return {
        name: {
            "size": finite(size),
            "column_size": finite(found.columns[groups[name]]),
            "risk": finite(float(shares[name])) if name in shares else None,
        }
        for name, size in found.terms.items()
    }


def _bags(model: Model, bags: Bags) -> dict[str, Any]:
    """Return what describes an average of bags, which has no path."""
    return {
        "n": len(bags),
        "iterations": [min(bags.best_iteration), max(bags.best_iteration)],
        "risk": [finite(bags.risk_at_start), finite(float(model.risk[0]))],
        "left_out": finite(float(model.path.validation_risk[0])),
        "chosen": {name: sum(counts) for name, counts in bags.chosen.items()},
    }


# --- facts ----------------------------------------------------------------------------------------


def facts(model: Model) -> list[list[str]]:
    """Return what was fitted, as pairs of a name and a text."""
    settings, path, m = model.settings, model.path, model.best_iteration
    chosen = sum(t.chosen for t in model.terms.values())
    rows = [f.spread.rows for f in model.columns.values() if f.spread is not None]
    out = [["target", settings.target or "given as an array"]]
    if model.classes:
        out.append(["classes", _listed(model.classes)])
    out.append(["loss", model.loss.label()])
    out.append(["optimizer", repr(model.optimizer)])
    if rows:
        what = "sum of weights" if settings.weights is not None else "training"
        out.append(["rows", f"{rows[0]:,.10g} ({what})"])
    out.append(["terms", f"{chosen} chosen of {len(model.terms)}, on {len(model.columns)} columns"])
    if model.interactions is not None:
        out.append(["interactions", model.interactions.words])
    if model.bags is None:
        which = "" if m == model.n_iter else f"{m:,} of "
        out.append(["iterations", f"{which}{model.n_iter:,} ({path.stopped})"])
    else:
        low, high = min(model.bags.best_iteration), max(model.bags.best_iteration)
        out.append(["iterations", f"{path.stopped}, {low:,} to {high:,} each"])
    if path.switched_after >= 0:
        words = f"iteration {path.switched_after:,}, continued from {path.rewound_to:,}"
        out.append(["accelerated until", words])
    out.append(["validation", _validation(model)])
    if model.polish is not None:
        out.append(["polish", model.polish.words])
    for role in ("weights", "offset", "exposure"):
        name = getattr(settings, role)
        if name is not None:
            out.append([role, f"column {name}"])
    if settings.needs_offset:
        out.append(["offset", "given as an array"])
    return out


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values[:8])) + ", ..." * (len(values) > 8)


def _validation(model: Model) -> str:
    settings = model.settings
    if settings.validation == "none":
        return "no rows held out"
    if settings.validation == "fraction":
        by = " by every bag" if model.bags is not None else ""
        rows = f"{settings.fraction:.0%} of the rows, held out{by}"
        return f"{rows} at random (seed {settings.seed})"
    return "rows held out" if settings.held is None else f"rows marked by column {settings.held}"


# --- the rows given -------------------------------------------------------------------------------


def _judged(rows: EvaluatedRows) -> dict[str, Any]:
    q = rows.score.shape[1]
    curves = []
    for output in range(q):
        found = calibration(rows, output)
        curves.append({k: [finite(v) for v in column.tolist()] for k, column in found.items()})
    return {
        "n": len(rows.y),
        "metrics": [[name, finite(value)] for name, value in figures(rows).items()],
        "calibration": curves,
        "per_exposure": bool(rows.loss.log_link and rows.offset.any()),
    }


def _rows(model: Model, data: Table, columns: list[str], n: int) -> list[list[Any]]:
    """Return the first rows: numbers or texts, None for missing cells and missing columns."""
    if n == 0:
        return []
    first = data.take(np.arange(data.n_rows) < n)
    cells: list[list[Any]] = []
    for name in columns:
        if name not in first:
            cells.append([None] * first.n_rows)
            continue
        column = as_in_training(first[name], model.columns[name])
        if isinstance(column, Labels):
            cells.append(column.to_cells().tolist())
        else:
            cells.append([finite(v) for v in column.values.tolist()])
    return [list(row) for row in zip(*cells, strict=True)]
