"""What a model says, as plain tables: effects, importance, and the summary in words.

Knows grids and sums over terms; knows nothing of drawing (plots) or of how a model is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import _core
from .bins import Cuts, Levels, Values
from .checks import is_whole
from .data import read_weights, read_y
from .model import ColumnFacts, Model, Term
from .table import Floats, Labels, Numbers, read

TENSOR_GRID = 40  # points per numeric axis
BAR = 24  # characters of the longest bar


class Columns(dict[str, Any]):
    """A table as a dict of arrays that shows itself as a table; any data frame is made of it."""

    def __repr__(self) -> str:
        names = list(self)
        if not names:
            return "(no columns)"
        n = len(self[names[0]])
        if any(np.ndim(self[name]) != 1 for name in names):
            return dict.__repr__(self)
        rows = list(range(n)) if n <= 10 else [*range(5), None, *range(n - 5, n)]
        cells = [names] + [
            ["..."] * len(names) if i is None else [_cell(self[name][i]) for name in names]
            for i in rows
        ]
        widths = [max(len(line[j]) for line in cells) for j in range(len(names))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        return "\n".join([*lines, f"({n} rows)"])


def _cell(value: Any) -> str:
    if value is None:
        return "(missing)"
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)


# --- effects --------------------------------------------------------------------------------------


def effect(model: Model, which: str, n: int = 200) -> Columns:
    """See Model.effect."""
    if not is_whole(n) or n < 2:
        raise ValueError(f"effect: n must be a whole number of at least 2, got {n!r}")
    terms = _terms_of(model, which)
    columns = terms[0].columns
    axes = [_axis(model.columns[c], [t for t in terms if c in t.columns], c, n) for c in columns]
    if len(axes) == 2:
        i, j = np.meshgrid(np.arange(len(axes[0])), np.arange(len(axes[1])), indexing="ij")
        axes = [axes[0][i.ravel()], axes[1][j.ravel()]]
    grid = {
        name: _as_column(model.columns[name], axis, name)
        for name, axis in zip(columns, axes, strict=True)
    }
    total = np.zeros((len(axes[0]), model.n_outputs))
    for term in terms:
        total = total + term.effect_at(term.plan.encode([grid[c] for c in term.columns]))
    out = Columns(zip(columns, axes, strict=True))
    if model.n_outputs == 1:
        key = "effect"
        while key in out:  # a column of this name
            key += "_"
        out[key] = total[:, 0]
    else:
        for o in range(model.n_outputs):
            label = model.classes[o] if model.classes else o
            out[f"effect[{label}]"] = total[:, o]
    return out


def _terms_of(model: Model, which: str) -> list[Term]:
    if which in model.terms:
        return [model.terms[which]]
    found = [t for t in model.terms.values() if t.columns == (which,)]
    if not found:
        names = list(model.terms)
        shown = ", ".join(map(repr, names[:10])) + ", ..." * (len(names) > 10)
        raise ValueError(f"no term or column {which!r}; the model has {shown or 'none'}")
    return found


def _axis(facts: ColumnFacts, terms: list[Term], column: str, n: int) -> Any:
    """Where the effect is shown: levels, or points from the least to the largest value."""
    encoders = [t.plan.encoders[t.columns.index(column)] for t in terms]
    levels = [e for e in encoders if isinstance(e, Levels) and e.levels]
    if levels and not any(isinstance(e, Values | Cuts) for e in encoders):
        labels: list[str | None] = [*levels[0].levels, *([None] * facts.missing)]
        return np.array(labels, dtype=object)
    if facts.low is None or facts.high is None:
        return np.array([np.nan])
    if len(terms[0].columns) == 2:
        points = np.linspace(facts.low, facts.high, min(n, TENSOR_GRID))
    elif all(isinstance(e, Cuts) for e in encoders):
        points = np.array([facts.low, facts.high])  # the steps' ends say it all
    else:
        points = np.linspace(facts.low, facts.high, n)
    for encoder in encoders:
        if isinstance(encoder, Cuts):  # both sides of every step
            cuts = np.array(encoder.cuts)
            points = np.unique(np.concatenate([points, cuts, np.nextafter(cuts, np.inf)]))
    return np.append(points, np.nan) if facts.missing and len(terms[0].columns) == 1 else points


def _as_column(facts: ColumnFacts, axis: Any, name: str) -> Numbers | Labels:
    if axis.dtype != object:
        return Numbers(name, axis)
    levels = tuple(dict.fromkeys(v for v in axis if v is not None))
    position = {level: i for i, level in enumerate(levels)}
    del facts
    return Labels(name, np.array([position.get(v, -1) for v in axis], dtype=np.int64), levels)


# --- importance -----------------------------------------------------------------------------------


def importance(model: Model, kind: str, rows: Mapping[str, Any]) -> dict[str, float]:
    """See Model.importance."""
    if kind not in ("integral", "path"):
        raise ValueError(f"kind must be 'integral' or 'path', got {kind!r}")
    if rows["table"] is None and any(value is not None for value in rows.values()):
        raise TypeError("importance: rows other than the fit's need table= as well")
    if rows["table"] is not None and kind == "path":
        raise TypeError("importance: kind='path' is of the fit's own rows and takes no others")
    if kind == "path":
        model._refuse_edited("importance(kind='path')")
        shares = _path_shares(model)
    elif rows["table"] is not None:
        shares = _shares_on(model, rows)
    elif model.shares is not None:
        shares = model.shares
    else:
        which = "the edited model" if model.edits else "this iterate"
        raise ValueError(
            f"the importance of {which} is not stored, and a model holds no rows; pass table= and "
            "y="
        )
    found = {
        name: float(share)
        for (name, term), share in zip(model.terms.items(), shares, strict=True)
        if term.chosen
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _path_shares(model: Model) -> Floats:
    if np.any(model.path.corrections >= 0):
        raise ValueError(
            "kind='path' credits every iteration to its choice, which means nothing with momentum; "
            "use kind='integral'"
        )
    m = model.best_iteration
    falls = -np.diff(model.risk[: m + 1])
    return np.asarray(
        np.bincount(model.path.choices[:m], falls, minlength=len(model.terms)), dtype=np.float64
    )


def _shares_on(model: Model, rows: Mapping[str, Any]) -> Floats:
    """Importance on given rows, at their raw values."""
    data = read(rows["table"])
    y = rows["y"] if rows["y"] is not None else model.settings.target
    if y is None:
        raise TypeError("importance: pass y as well")
    y_values, _ = read_y(y, data, model.loss, model.classes or None)
    weights = rows["weights"]
    w = read_weights(model.settings.weights if weights is None else weights, data)
    offset = model._offset(data, rows["offset"], rows["exposure"])
    n, q = data.n_rows, model.n_outputs
    each = _core.IndexSet(np.arange(n, dtype=np.uint32), n)  # a bin per row
    core = _core.LocalRows(
        model.loss.core(np.ascontiguousarray(y_values)),
        np.ascontiguousarray(y_values),
        np.ascontiguousarray(offset.T),
        [each],
        [w],
    )
    effects = model._effects(data, centred=False)
    score = sum(effects.values(), np.zeros((n, q)))
    core.run(
        [
            _core.Fill(0, list(model.start_vector)),
            _core.Fill(1, list(model.start_vector)),
            _core.Add(1, 0, np.ascontiguousarray(score.T).ravel()),
            _core.MeanResidual(0, 1, 2),
        ]
    )
    residual = core.read(2).T
    out = {name: float(w @ (e * residual).sum(axis=1) / w.sum()) for name, e in effects.items()}
    return np.array([out.get(name, 0.0) for name in model.terms])


# --- summary --------------------------------------------------------------------------------------


def summary(model: Model) -> str:
    """See Model.summary."""
    path, m = model.path, model.best_iteration
    lines = [
        f"{model.loss!r} loss, {model.optimizer!r}",
        f"iteration {m} of {model.n_iter} ({model.stopped})",
    ]
    if path.switched_after >= 0:
        lines.append(
            f"accelerated until iteration {path.switched_after}, went on from {path.rewound_to}"
        )
    if path.halvings.any():
        lines.append(f"steps halved in {int(np.count_nonzero(path.halvings))} iterations")
    if path.evaluations.any():
        lines.append(
            f"{path.evaluations.mean():.3g} passes over the rows per iteration to choose among "
            f"{len(model.terms)} terms"
        )
    lines.append(f"training risk {path.risk[0]:.6g} -> {path.risk[m]:.6g}")
    if model.validation_risk is not None:
        risk = model.validation_risk
        since = path.switched_after
        trained = since >= 0 and getattr(model.optimizer, "then", "") == "all" and m > since
        note = f" (these rows are trained on since iteration {since})" if trained else ""
        lines.append(f"validation risk {risk[0]:.6g} -> {risk[m]:.6g}{note}")
    lines.append(f"intercept {np.round(model.intercept, 6)}")
    if model.edits:
        lines += ["", "edited after the fit (the risks are the fit's):"]
        lines += [f"{i}. {edit.words}" for i, edit in enumerate(model.edits, 1)]
    chosen = [name for name, term in model.terms.items() if term.chosen]
    lines += ["", f"{len(chosen)} of {len(model.terms)} terms chosen:", *_term_lines(model, chosen)]
    return "\n".join(lines)


def _term_lines(model: Model, chosen: list[str]) -> list[str]:
    kept = _kept_iterations(model)
    picked = Counter(model.choices[i] for i in kept)
    corrected = Counter(model.corrections[i] for i in kept) if model.corrections else Counter()
    shares = importance(model, "integral", {"table": None}) if model.shares is not None else {}
    order = list(shares) or sorted(chosen, key=lambda name: -picked[name])
    top = max([*shares.values(), 0.0]) or 1.0
    rows = [["term", "learner", "df", "net df", "chosen", "corrected", "importance", ""]]
    for name in order:
        term, share = model.terms[name], shares.get(name)
        rows.append(
            [
                _shortened(name),
                type(term.learner).__name__,
                f"{term.df:.3g}",
                f"{term.net_df:.3g}",
                str(picked[name]),
                str(corrected[name]),
                "" if share is None else f"{share:.4g}",
                "" if share is None else "#" * round(BAR * max(share, 0.0) / top),
            ]
        )
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    right = (2, 3, 4, 5, 6)
    if not corrected:
        for row in rows:
            del row[5]
        del widths[5]
    return [
        "  ".join(
            c.rjust(w) if j in right else c.ljust(w)
            for j, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _kept_iterations(model: Model) -> list[int]:
    """Positions in the path of the iterations that led to the model, a rewind's left out."""
    path, m = model.path, model.best_iteration
    left = range(path.rewound_to, path.switched_after) if path.switched_after < m else range(0)
    return [i for i in range(m) if i not in left]


def _shortened(name: str, limit: int = 40) -> str:
    name = name if name.isprintable() else repr(name)
    return name if len(name) <= limit else name[: limit - 3] + "..."
