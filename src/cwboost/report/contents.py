"""What the report shows, as plain data: the one object that its script reads.

Knows everything that people want to see of a model, and how its terms and its path are packed so
that a browser computes the same predictions; knows nothing of HTML.

Exact numbers (coefficients, knots, means) are base64 of little-endian 64-bit floats. The path is
drawn only, so its key frames are 16-bit integers, in units of the term's largest coefficient.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from cwboost.explain.effects import band_words, importance, level_shares, shape_of
from cwboost.explain.quality import EvaluatedRows, aims_at, calibration, metrics
from cwboost.explain.trajectory import coefficients_at, key_iterations
from cwboost.frames.table import Floats, Labels, Table
from cwboost.losses import PythonLoss
from cwboost.model.edits import unedited
from cwboost.model.lookup import as_in_training
from cwboost.model.model import Model
from cwboost.model.pieces import link_of, outputs_of
from cwboost.model.records import Bags, ColumnFacts
from cwboost.model.term import Term
from cwboost.terms.bases import Basis, LevelBasis, MarkBasis, PowerBasis, SplineBasis, TensorBasis
from cwboost.terms.encoders import Cuts, Encoder, Levels

FRAMES = 80  # key frames of the path, if there is room for them
RISKS = 400  # points of the risk curves
BAND_POINTS = 100  # of a band around a curve
STEPS = 32767  # of a frame's coefficient, on either side of zero


def contents(
    model: Model,
    data: Table | None,
    judged: EvaluatedRows | None,
    shares: Mapping[str, float] | None,
    n_rows: int,
    title: str,
) -> dict[str, Any]:
    """All but the frames of the path.

    Parameters
    ----------
    model : Model
    data : the table given, if any
    judged : its rows predicted, if y is known
    shares : importance on these rows, instead of the fit's
    n_rows : rows of the table that readers may choose from
    title : what stands on top
    """
    from cwboost import __version__

    terms = shown_terms(model)
    columns = list(dict.fromkeys(c for t in terms for c in t.columns))
    link = link_of(model.loss)
    settings = model.settings
    by_array, log_link = settings.needs_offset, model.loss.log_link
    return {
        "version": __version__,
        "title": title,
        "target": settings.target,
        "loss": model.loss.name,
        "link": link,
        "aim": aims_at(model.loss),
        "outputs": outputs_of(model),
        "classes": [str(c) for c in model.classes],
        "intercept": floats(np.atleast_1d(model.intercept)),
        "offset": settings.offset or ("offset" if by_array and not log_link else None),
        "exposure": settings.exposure or ("exposure" if by_array and log_link else None),
        "columns": [_column(model, name, terms) for name in columns],
        "terms": [_term(term, columns) for term in terms],
        "importance": _importance(model, shares),
        "importance_rows": "given" if shares is not None else "training",
        "facts": facts(model),
        "repeat": repeat(model),
        "edits": [{"term": e.term, "words": e.words} for e in model.edits],
        "bags": None if model.bags is None else _bags(model, model.bags),
        "bands": _bands(model, columns),
        "judged": None if judged is None else _judged(judged),
        "rows": [] if data is None else _rows(model, data, columns, n_rows),
    }


def shown_terms(model: Model) -> list[Term]:
    """Terms of the model, or of some iteration of its path."""
    ever = set(model.path.choices.tolist()) | set(model.path.corrections.tolist())
    return [t for k, t in enumerate(model.terms.values()) if t.chosen or k in ever]


def floats(values: Any) -> str:
    """Numbers as base64.

    Examples
    --------
    >>> floats([1.0])
    'AAAAAAAA8D8='
    """
    return base64.b64encode(np.asarray(values, dtype="<f8").tobytes()).decode()


def finite(value: float | None) -> float | None:
    """JSON has no word for nan and inf."""
    return None if value is None or not np.isfinite(value) else float(value)


# --- columns and terms ----------------------------------------------------------------------------


def _bands(model: Model, columns: list[str]) -> dict[str, Any] | None:
    """The bands around the effects of all columns, at points or levels of their own."""
    if model.bands is None and model.bags is None:
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


def _column(model: Model, name: str, terms: list[Term]) -> dict[str, Any]:
    facts = model.columns[name]
    encoders = [
        e for t in terms for c, e in zip(t.columns, t.plan.encoders, strict=True) if c == name
    ]
    levels = tuple(
        dict.fromkeys(x for e in encoders if isinstance(e, Levels) for x in e.levels)
    ) or (("False", "True") if facts.boolean else ())
    numeric = facts.kind == "numbers"
    smooth = numeric and any(not isinstance(e, Levels) for e in encoders)
    shares = level_shares(model, name) if levels else None
    spread = facts.spread
    return {
        "name": name,
        "numeric": numeric,
        "by_level": not smooth or facts.boolean,
        "low": facts.low,
        "high": facts.high,
        "whole": numeric and _is_whole(facts),
        "missing": facts.missing,
        "levels": list(levels),
        "numbers": floats([_number(x) for x in levels]) if numeric else None,
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


def _is_whole(facts: ColumnFacts) -> bool:
    """Whether the column counts: all that is known of it are whole numbers."""
    points = [] if facts.spread is None else facts.spread.points.tolist()
    return bool(points) and all(float(v).is_integer() for v in (*points, facts.low, facts.high))


def _number(level: str) -> float:
    words = {"True": 1.0, "False": 0.0}
    return words[level] if level in words else float(level)


def _term(term: Term, columns: list[str]) -> dict[str, Any]:
    basis = term.plan.basis
    parts = (basis.a, basis.b) if isinstance(basis, TensorBasis) else (basis,)
    return {
        "name": term.name,
        "learner": type(term.learner).__name__,
        "df": finite(term.df),
        "net_df": finite(term.net_df),
        "chosen": term.chosen,
        "columns": [columns.index(c) for c in term.columns],
        "axes": [
            {"encoder": _encoder(encoder), "basis": _basis(part)}
            for encoder, part in zip(term.plan.encoders, parts, strict=True)
        ],
        "mean": floats(basis.mean),
        "beta": floats(term.beta),
    }


def _encoder(encoder: Encoder) -> dict[str, Any]:
    if isinstance(encoder, Cuts):
        return {"cuts": floats(encoder.cuts)}
    return {"levels": list(encoder.levels)} if isinstance(encoder, Levels) else {}


def _basis(basis: Basis) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": basis.kind, "size": basis.n_coef, "mean": floats(basis.mean)}
    if isinstance(basis, SplineBasis):
        out |= {
            "knots": floats(basis.knots),
            "degree": basis.degree,
            "linear": basis.extrapolate == "linear",
            "missing": basis.missing,
        }
    elif isinstance(basis, PowerBasis):
        out |= {"center": basis.center, "scale": basis.scale, "first": basis.first}
    elif isinstance(basis, LevelBasis):
        out |= {"levels": basis.n_levels, "missing": basis.missing}
    elif isinstance(basis, MarkBasis):
        out |= {"level": basis.level, "missing": basis.missing}
    else:
        raise TypeError(f"the report cannot evaluate a {type(basis).__name__}")
    return out


def _importance(model: Model, shares: Mapping[str, float] | None) -> dict[str, float] | None:
    if shares is not None:
        return dict(shares)
    if model.shares is None:
        return None
    return importance(model, "integral", {"table": None})


# --- the path -------------------------------------------------------------------------------------


def frames(model: Model, room: int) -> dict[str, Any]:
    """Key frames of the path in about so many bytes: coefficients of all terms, risks, choices.

    The path is that of the fit, whatever was edited afterwards.
    """
    fitted = unedited(model)
    terms = shown_terms(model)
    size = sum(t.beta.size for t in terms)
    bytes_each = max(1, size * 8 // 3)  # two bytes per number, in base64
    if model.bags is None:
        at = key_iterations(fitted, int(np.clip(room // bytes_each, 2, FRAMES)))
        beta = coefficients_at(fitted, at)
    else:  # there is no path, only where it would end
        at = np.zeros(1, dtype=np.int64)
        beta = {name: term.beta[None] for name, term in fitted.terms.items()}
    path, m = fitted.path, fitted.n_iter
    watched = fitted.validation_risk
    number = {name: k for k, name in enumerate(model.terms)}
    points = np.unique(np.concatenate([np.linspace(0, m, RISKS).astype(int), at]))
    return {
        "at": at.tolist(),
        "last": m,
        "best": fitted.best_iteration,
        "switched_after": path.switched_after,
        "rewound_to": path.rewound_to,
        "start": floats(fitted.start_vector),
        "points": points.tolist(),
        "risk": [finite(v) for v in path.risk[points].tolist()],
        "validation_risk": None
        if watched is None
        else [finite(v) for v in watched[points].tolist()],
        "terms": [_packed(beta[t.name]) | _chosen(model, number[t.name], at) for t in terms],
    }


def _bags(model: Model, bags: Bags) -> dict[str, Any]:
    """What is told of an average instead of its path."""
    return {
        "n": len(bags),
        "iterations": [min(bags.best_iteration), max(bags.best_iteration)],
        "risk": [finite(bags.risk_at_start), finite(float(model.risk[0]))],
        "left_out": finite(float(model.path.validation_risk[0])),
        "chosen": {name: sum(counts) for name, counts in bags.chosen.items()},
    }


def _packed(beta: Floats) -> dict[str, Any]:
    """(frames, n_coef, q) coefficients as 16-bit integers."""
    with np.errstate(invalid="ignore"):
        beta = np.nan_to_num(beta, posinf=0.0, neginf=0.0)
    unit = float(np.abs(beta).max(initial=0.0)) / STEPS or 1.0
    steps = np.round(beta / unit).astype("<i2")
    return {"unit": unit, "frames": base64.b64encode(steps.tobytes()).decode()}


def _chosen(model: Model, number: int, at: Any) -> dict[str, Any]:
    """How often the term had been chosen and corrected at the frames, and when it came in."""
    chosen = np.flatnonzero(model.path.choices == number) + 1
    moved = np.flatnonzero(model.path.corrections == number) + 1
    first = min([*chosen[:1].tolist(), *moved[:1].tolist()], default=None)
    return {
        "first": first,
        "chosen": np.searchsorted(chosen, at, side="right").tolist(),
        "corrected": np.searchsorted(moved, at, side="right").tolist(),
    }


# --- words ----------------------------------------------------------------------------------------


def facts(model: Model) -> list[list[str]]:
    """What was fitted, as pairs of a name and a sentence."""
    settings, path, m = model.settings, model.path, model.best_iteration
    chosen = sum(t.chosen for t in model.terms.values())
    rows = [f.spread.rows for f in model.columns.values() if f.spread is not None]
    out = [["target", settings.target or "given as an array"]]
    if model.classes:
        out.append(["classes", _listed(model.classes)])
    out.append(["loss", _call(model)])
    out.append(["optimizer", repr(model.optimizer)])
    if rows:
        what = "their weights" if settings.weights is not None else "training"
        out.append(["rows", f"{rows[0]:,.10g} ({what})"])
    out.append(["terms", f"{chosen} chosen of {len(model.terms)}, on {len(model.columns)} columns"])
    if model.bags is None:
        which = "" if m == model.n_iter else f"{m:,} of "
        out.append(["iterations", f"{which}{model.n_iter:,} ({path.stopped})"])
    else:
        low, high = min(model.bags.best_iteration), max(model.bags.best_iteration)
        out.append(["iterations", f"{path.stopped}, {low:,} to {high:,} each"])
    if path.switched_after >= 0:
        words = f"iteration {path.switched_after:,}, went on from {path.rewound_to:,}"
        out.append(["accelerated until", words])
    out.append(["validation", _validation(model)])
    for role in ("weights", "offset", "exposure"):
        name = getattr(settings, role)
        if name is not None:
            out.append([role, f"column {name}"])
    if settings.needs_offset:
        out.append(["offset", "given as an array"])
    return out


def _listed(values: tuple[Any, ...]) -> str:
    return ", ".join(map(str, values[:8])) + ", ..." * (len(values) > 8)


def _call(model: Model) -> str:
    loss = model.loss
    if isinstance(loss, PythonLoss):
        return f"{type(loss.user).__name__} (written in Python)"
    text = repr(loss)
    return loss.name if text.endswith("()") else f"{loss.name}, {text[text.index('(') + 1 : -1]}"


def _validation(model: Model) -> str:
    settings = model.settings
    if settings.validation == "none":
        return "no rows held out"
    if settings.validation == "fraction":
        by = " by every bag" if model.bags is not None else ""
        rows = f"{settings.fraction:.0%} of the rows, held out{by}"
        return f"{rows} at random (seed {settings.seed})"
    return "rows held out" if settings.held is None else f"rows marked by column {settings.held}"


def repeat(model: Model) -> str:
    """The call that fits the model again, and its edits, as Python code.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> print(repeat(model))
    import cwboost as cb
    <BLANKLINE>
    model = cb.fit(
        table,
        y,
        learners=[
            cb.Category('g'),
        ],
        loss='squared',
        optimizer=cb.Plain(rate=0.1),
        n_iter=200,
        bins='auto',
        patience=50,
    )
    """
    settings = model.settings
    loss = "loss" if isinstance(model.loss, PythonLoss) else _loss_code(model)
    learners = list(dict.fromkeys(_learner_code(t.learner) for t in model.terms.values()))
    lines = ["table", "y" if settings.target is None else repr(settings.target), "learners=["]
    lines += [f"    {learner}," for learner in learners]
    lines += [
        "]",
        f"loss={loss}",
        f"optimizer=cb.{model.optimizer!r}",
        f"n_iter={model.n_iter if model.bags is None else max(model.bags.n_iter)}",
        f"bins={_bins_code(settings.bins)}",
    ]
    for role in ("weights", "offset", "exposure"):
        if getattr(settings, role) is not None:
            lines.append(f"{role}={getattr(settings, role)!r}")
    if settings.needs_offset:
        lines.append("offset=offset")
    if settings.validation == "fraction":
        lines += [f"validation={settings.fraction!r}", f"random_state={settings.seed}"]
    elif settings.validation == "rows":
        held = "held_out" if settings.held is None else repr(settings.held)
        lines += [f"validation={held}"] if model.bags is None else []
    if model.bags is not None:
        lines.append(
            "bags=" + (f"{len(model.bags)}" if settings.validation == "fraction" else "bags")
        )
    lines.append(f"patience={settings.patience}")
    ended = [x if x.endswith(("[", ",")) else f"{x}," for x in lines]
    code = ["import cwboost as cb", "", "model = cb.fit(", *(f"    {x}" for x in ended), ")"]
    if model.stopped == "shortened":
        code.append(f"model = model.at({model.best_iteration})")
    for edit in model.edits:
        values = "".join(f", {k}={v!r}" for k, v in edit.parameters)
        code.append(f"model = model.edit({edit.what!r}, {edit.term!r}{values})")
    return "\n".join(code)


def _loss_code(model: Model) -> str:
    text = repr(model.loss)
    return repr(model.loss.name) if text.endswith("()") else f"cb.{text}"


def _bins_code(bins: Any) -> str:
    return repr(bins.n) if bins.points == "equal" else f"cb.{bins!r}"


def _learner_code(learner: Any) -> str:
    """As `repr` has it, with cb. before every class, those of a Tensor's margins too."""
    text = f"cb.{learner!r}"
    for margin in (getattr(learner, "a", None), getattr(learner, "b", None)):
        if margin is not None and not isinstance(margin, str):
            text = text.replace(repr(margin), f"cb.{margin!r}", 1)
    return text.replace("bins=Bins(", "bins=cb.Bins(")


# --- the rows given -------------------------------------------------------------------------------


def _judged(rows: EvaluatedRows) -> dict[str, Any]:
    q = rows.score.shape[1]
    curves = []
    for output in range(q):
        found = calibration(rows, output)
        curves.append({k: [finite(v) for v in column.tolist()] for k, column in found.items()})
    return {
        "n": len(rows.y),
        "metrics": [[name, finite(value)] for name, value in metrics(rows).items()],
        "calibration": curves,
        "per_exposure": bool(rows.loss.log_link and rows.offset.any()),
    }


def _rows(model: Model, data: Table, columns: list[str], n: int) -> list[list[Any]]:
    """The first rows: numbers, texts, None where missing; columns that the table lacks too."""
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
