"""The call that fits a model again, as Python code."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import cwboost
from cwboost.model.model import Model
from cwboost.model.settings import WatchedMetric
from cwboost.stopping import Rules


def fit_code(model: Model) -> str:
    """Return Python code that fits the model again and repeats its edits.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> print(fit_code(model))
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
    learners = list(dict.fromkeys(_code(t.learner) for t in model.terms.values()))
    lines = ["table", "y" if settings.target is None else repr(settings.target), "learners=["]
    lines += [f"    {learner}," for learner in learners]
    lines += [
        "]",
        f"loss={model.loss.code()}",
        f"optimizer={_code(model.optimizer)}",
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
    for name in ("min_rows_per_bin", "sites"):
        if getattr(settings, name) is not None:
            lines.append(f"{name}={getattr(settings, name)!r}")
    if settings.metrics:
        lines.append(f"metric={_metrics_code(settings.metrics)}")
    lines.append(f"patience={_rules_code(settings.patience)}")
    ended = [x if x.endswith(("[", ",")) else f"{x}," for x in lines]
    code = ["import cwboost as cb", "", "model = cb.fit(", *(f"    {x}" for x in ended), ")"]
    if model.stopped == "shortened":
        code.append(f"model = model.at({model.best_iteration})")
    for edit in model.edits:
        values = "".join(f", {k}={v!r}" for k, v in edit.parameters)
        code.append(f"model = model.edit({edit.what!r}, {edit.term!r}{values})")
    return "\n".join(code)


def _metrics_code(metrics: tuple[WatchedMetric, ...]) -> str:
    """Return the argument `metric` as code. A function without a name stands as a variable."""
    names = [m.name for m in metrics]
    if names == [m.source for m in metrics]:
        return repr(names[0] if len(names) == 1 else names)
    own = {m.name: m.name if m.name.isidentifier() else "function" for m in metrics}
    found = (own[m.name] if m.source is None else repr(m.source) for m in metrics)
    return "{" + ", ".join(f"{n!r}: {x}" for n, x in zip(names, found, strict=True)) + "}"


def _rules_code(rules: Rules) -> str:
    """Return the argument `patience` as code."""
    if not isinstance(rules, tuple):
        return repr(rules)
    codes = [_code(rule) for rule in rules]
    return codes[0] if len(codes) == 1 else f"[{', '.join(codes)}]"


def _bins_code(bins: Any) -> str:
    return repr(bins.n) if bins.points == "equal" else _code(bins)


def _code(item: Any) -> str:
    """Return a learner, optimizer or rule as code: with cb. before every class of cwboost."""
    text = repr(item)
    for entry in fields(item):
        part = getattr(item, entry.name)
        if is_dataclass(part):
            text = text.replace(repr(part), _code(part), 1)
    return f"cb.{text}" if getattr(cwboost, type(item).__name__, None) is type(item) else text
