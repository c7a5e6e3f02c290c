"""One term of a model: its plan and its coefficients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost import _core
from cwboost._utils.text import quote, quote_names
from cwboost.frames.columns import Floats
from cwboost.terms.plan import Plan

from .path import Path

if TYPE_CHECKING:
    from .additive import AdditiveModel


@dataclass(frozen=True, eq=False)
class Term:
    """One term of the sum: a learner and its coefficients."""

    plan: Plan = field(repr=False)
    # (n_coef, q) in the basis. Columns of outputs that the term does not move are zero.
    beta: Floats = field(repr=False)
    smoothing: float
    df: float
    net_df: float

    def __post_init__(self) -> None:
        self.beta.flags.writeable = False

    def __repr__(self) -> str:
        chosen = "chosen" if self.chosen else "not chosen"
        return f"<Term {self.name!r}: {self.learner!r}, df {self.df:.3g}, {chosen}>"

    @property
    def name(self) -> str:
        return self.plan.name

    @property
    def learner(self) -> Any:
        return self.plan.learner

    @property
    def columns(self) -> tuple[str, ...]:
        return self.plan.columns

    @property
    def chosen(self) -> bool:
        return bool(np.any(self.beta))

    @property
    def outputs(self) -> tuple[int, ...]:
        """The outputs that the term moves: all, or with separate choices some of them."""
        return tuple(np.flatnonzero(self.beta.any(axis=0)).tolist())

    @property
    def coef(self) -> Floats:
        """Coefficients (n_coef,), or (n_coef, q) with several outputs.

        Of the B-splines, of the levels, or of 1, x, x^2, ... for Linear and Polynomial.
        """
        public = self.plan.basis.public_coef(self.beta)
        return public[:, 0] if public.shape[1] == 1 else public

    @property
    def levels(self) -> tuple[str | None, ...] | None:
        """Levels of the coefficients of a Category; None stands for missing values."""
        encoder, basis = self.plan.encoders[0], self.plan.basis
        if len(self.columns) > 1 or encoder.is_numeric or not basis.has_levels:
            return None
        return (*encoder.levels, None)[: basis.n_coef]

    @property
    def mean(self) -> Floats:
        """(q,) weighted mean of the uncentred effect over the training rows."""
        assert self.plan.basis.mean is not None
        return np.asarray(self.plan.basis.mean @ self.beta)

    def effect_at(self, values: Floats) -> Floats:
        """Return the (n, q) centred effect at encoded values."""
        return np.asarray(self.plan.basis.matrix(values) @ self.beta - self.mean)


def find_terms(terms: Mapping[str, Term], which: str) -> list[Term]:
    """Return the term of this name, or all terms of the column of this name."""
    if not isinstance(which, str):
        raise TypeError(f"expected the name of one term or column, got {quote(which)}")
    if which in terms:
        return [terms[which]]
    found = [t for t in terms.values() if t.columns == (which,)]
    if not found:
        names = quote_names(list(terms)) or "no terms"
        raise ValueError(f"no term or column {quote(which)}; the model has {names}")
    return found


def column_groups(terms: Mapping[str, Term]) -> dict[str, str]:
    """Return for every term the name of its group: the terms of the same column, or pair, add up.

    A group has the name of its column, or of both columns, such as "lon:lat".
    """
    names: dict[tuple[str, ...], str] = {}
    taken: set[str] = set()
    for columns in sorted(dict.fromkeys(t.columns for t in terms.values()), key=len):
        name = ":".join(columns)
        while name in taken:  # by a column
            name += "_"
        names[columns] = name
        taken.add(name)
    return {name: names[term.columns] for name, term in terms.items()}


def with_coefficients(model: AdditiveModel, path: Path, m: int) -> Mapping[str, Term]:
    """Return the terms of a model with the coefficients of iteration m of a path."""
    terms, q = model.terms, model.n_outputs
    sizes = [term.plan.basis.n_coef for term in terms.values()]
    problem = _core.ReplayProblem(model.optimizer.core(), sizes, q, scale=model.scale)
    flat = _core.replay(problem, path.to_core(sizes, q), m)
    paths = (path, model.path)  # a term that neither path moves keeps its zeros
    moved = {int(k) for p in paths for k in np.union1d(p.choices, p.corrections)}
    begin = np.cumsum([0, *sizes]) * q
    out = dict(terms)
    for k, (name, term) in enumerate(terms.items()):
        if k in moved:
            beta = flat[begin[k] : begin[k + 1]].reshape(q, sizes[k]).T.copy()
            out[name] = replace(term, beta=beta)
    return MappingProxyType(out)


def averaged(model: AdditiveModel) -> Mapping[str, Term]:
    """Return the terms of an average of bags with the mean coefficients of its bags."""
    assert model.bags is not None
    means = {name: coef.mean(axis=0) for name, coef in model.bags.coef.items()}
    new = {name: replace(model.terms[name], beta=beta) for name, beta in means.items()}
    return MappingProxyType({**model.terms, **new})


def with_means(terms: Mapping[str, Term], means: Mapping[str, Floats]) -> Mapping[str, Term]:
    """Return the terms with other mean rows of their bases, (n_coef,) by the name of the term."""
    out = dict(terms)
    for name, mean in means.items():
        plan = out[name].plan
        out[name] = replace(out[name], plan=plan.with_basis(replace(plan.basis, mean=mean)))
    return MappingProxyType(out)
