"""The summary of a model as text: how it was fitted, and its terms."""

from __future__ import annotations

from collections import Counter

import numpy as np

from cwboost.model.model import Model
from cwboost.model.records import Bags

from .importance import size_words
from .sizes import chosen_groups, largest_first, sizes

BAR = 24  # characters of the longest bar


def summary(model: Model) -> str:
    """See Model.summary."""
    lines = [f"{model.loss!r} loss, {model.optimizer!r}"]
    lines += _path_lines(model) if model.bags is None else _bag_lines(model, model.bags)
    if model.polish is not None:
        lines.append(f"polish: {model.polish.words}")
    lines.append(f"intercept {np.round(model.intercept, 6)}")
    if model.interactions is not None:
        lines.append(f"interactions: {model.interactions.words}")
    if model.suggestion is not None:
        lines.append(f"suggestion: {model.suggestion}")
    if model.dropped:
        names = ", ".join(map(_shortened, model.dropped))
        lines.append(f"dropped before this fit because held-out rows do not need them: {names}")
    if model.edits:
        lines += ["", "edited after the fit (the risks are the fit's):"]
        lines += [f"{i}. {edit.words}" for i, edit in enumerate(model.edits, 1)]
    chosen = [name for name, term in model.terms.items() if term.chosen]
    lines += ["", f"{len(chosen)} of {len(model.terms)} terms chosen"]
    if chosen:
        lines[-1] += f"; size of a column: {size_words(model)}"
        lines += _term_lines(model)
    return "\n".join(lines)


def _bag_lines(model: Model, bags: Bags) -> list[str]:
    low, high = min(bags.best_iteration), max(bags.best_iteration)
    return [
        f"{model.stopped}, {low} to {high} iterations each",
        f"training risk {bags.risk_at_start:.6g} -> {model.risk[0]:.6g}",
        f"risk of every row by the bags that left it out {model.path.validation_risk[0]:.6g}",
    ]


def _path_lines(model: Model) -> list[str]:
    path, m = model.path, model.best_iteration
    lines = [f"iteration {m} of {model.n_iter} ({model.stopped})"]
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
        trained = model.optimizer.ends_on_all_rows and 0 <= since < m
        note = f" (these rows are trained on since iteration {since})" if trained else ""
        if model.polish is not None and model.polish.on_all_rows:
            note = " (of the boosted fit; the model has used these rows since)"
        lines.append(f"validation risk {risk[0]:.6g} -> {risk[m]:.6g}{note}")
        for name, values in model.validation_metrics.items():
            lines.append(f"validation {name} {values[0]:.6g} -> {values[m]:.6g}{note}")
    return lines


def _term_lines(model: Model) -> list[str]:
    """Return the table of the chosen terms: columns by size, the terms of a column together."""
    kept = model.path.kept(model.best_iteration)
    choices, corrections = model.choices, model.corrections  # lists made at every access
    picked = Counter(choices[i] for i in kept)
    if model.bags is not None:
        picked = Counter({name: sum(counts) for name, counts in model.bags.chosen.items()})
    corrected = Counter(corrections[i] for i in kept) if corrections else Counter()
    found, groups = sizes(model), chosen_groups(model)
    top = max(found.columns.values()) or 1.0
    edf = {} if model.polish is None else model.polish.edf
    rows = [["term", "learner", "df", "net df", "edf", "chosen", "corrected", "alone", "size", ""]]
    for group, size in largest_first(found.columns).items():
        shown = [f"{size:.4g}", "#" * round(BAR * (size / top)) if np.isfinite(size / top) else ""]
        for term in sorted(groups[group], key=lambda term: -found.terms[term.name]):
            rows.append(
                [
                    _shortened(term.name),
                    type(term.learner).__name__,
                    f"{term.df:.3g}",
                    f"{term.net_df:.3g}",
                    f"{edf[term.name]:.3g}" if term.name in edf else "",
                    str(picked[term.name]),
                    str(corrected[term.name]),
                    f"{found.terms[term.name]:.4g}" if len(groups[group]) > 1 else "",
                    *shown,
                ]
            )
            shown = ["", ""]  # the size of a column stands in the line of its first term
    without = [] if corrected else [6]
    if not edf:
        without.append(4)
    if len(groups) == len(found.terms):  # no column has several terms
        without.append(7)
    return _aligned(rows, without)


def _aligned(rows: list[list[str]], without: list[int]) -> list[str]:
    """Return rows of cells as lines, some columns left out; names and bars go to the left."""
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    left = (0, 1, len(widths) - 1)
    shown = [j for j in range(len(widths)) if j not in without]
    lines = (
        [row[j].ljust(widths[j]) if j in left else row[j].rjust(widths[j]) for j in shown]
        for row in rows
    )
    return ["  ".join(line).rstrip() for line in lines]


def _shortened(name: str, limit: int = 40) -> str:
    """Return a name that is printable and at most `limit` characters long."""
    name = name if name.isprintable() else repr(name)
    return name if len(name) <= limit else name[: limit - 3] + "..."
