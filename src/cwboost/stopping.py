"""Rules of early stopping: when a fit with validation rows ends before its last iteration.

The core applies them (core/early_stopping.hpp). To add a rule, write a subclass of `StoppingRule`
and enter it in `STOPPING_RULES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from cwboost._utils.checks import check_whole, is_number, is_whole
from cwboost._utils.text import quote

from . import _core

MAX_COUNT = 2**31 - 2  # the core counts iterations in 32 bits


class StoppingRule:
    """Base class of the rules. `metric` names the metric of a rule; None: the one that decides."""

    metric: str | None

    @property
    def n_iterations(self) -> int:
        """How many iterations without an improvement end the fit."""
        raise NotImplementedError(f"{type(self).__name__}: define n_iterations")

    def core(self, metric: int, tolerance: float) -> _core.StoppingRule:
        """Return the core's rule for the metric at this position, -1 for the validation risk.

        `tolerance` is that of the fit. Raise if a parameter is out of range.
        """
        raise NotImplementedError(f"{type(self).__name__}: define core()")

    def _check_metric(self) -> None:
        if self.metric is not None and not isinstance(self.metric, str):
            raise TypeError(
                f"{type(self).__name__}: metric must be the name of a metric, got "
                f"{quote(self.metric)}; name a function by metric={{'name': function}} in the fit"
            )


@dataclass(frozen=True)
class Patience(StoppingRule):
    """Stop after this number of iterations without a new best value of the metric.

    Parameters
    ----------
    iterations : int
    metric : str, optional
        The name of a metric; "risk" is the validation risk. By default the metric that decides
        which iterate is the best.

    Examples
    --------
    >>> Patience(100, metric="risk")
    Patience(iterations=100, metric='risk')
    """

    iterations: int = 50
    metric: str | None = None

    @property
    def n_iterations(self) -> int:
        return self.iterations

    def core(self, metric: int, tolerance: float) -> _core.StoppingRule:
        check_whole("Patience: iterations", self.iterations, 1, MAX_COUNT)
        self._check_metric()
        kind = _core.StoppingRule.Kind.patience
        return _core.StoppingRule(kind, metric, int(self.iterations), tolerance)


@dataclass(frozen=True)
class Stagnation(StoppingRule):
    """Stop when the metric has hardly improved in any of several successive iterations.

    An improvement counts if (old - new) / |old| > `below`, where old and new are the values before
    and after an iteration. This is compboost's rule. A metric to be maximised is replaced by its
    distance from the best possible value if that is known: 1 - auc, 1 - accuracy, 1 - r2.

    Parameters
    ----------
    below : float
        The relative improvement that is too small to count, at least 0.
    times : int
        The fit stops after this number of successive iterations without an improvement that counts.
    metric : str, optional
        As for `Patience`.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(size=400)
    >>> ill = rng.uniform(size=400) < x
    >>> model = cb.fit({"x": x}, ill, loss="binomial", validation=0.3, metric="auc",
    ...                patience=cb.Stagnation(1e-5, 10))
    >>> model.stopped, model.validation_metrics["auc"].shape == (model.n_iter + 1,)
    ('improvements too small', True)
    """

    below: float = 1e-5
    times: int = 10
    metric: str | None = None

    @property
    def n_iterations(self) -> int:
        return self.times

    def core(self, metric: int, tolerance: float) -> _core.StoppingRule:  # noqa: ARG002
        if not (is_number(self.below) and 0.0 <= self.below < 1.0):
            raise ValueError(
                f"Stagnation: below must be a number from 0 to below 1, got {quote(self.below)}"
            )
        check_whole("Stagnation: times", self.times, 1, MAX_COUNT)
        self._check_metric()
        kind = _core.StoppingRule.Kind.stagnation
        return _core.StoppingRule(kind, metric, int(self.times), float(self.below))


# What `patience` may be in a model: a number of iterations, rules, or None (no early stopping).
Rules: TypeAlias = int | tuple[StoppingRule, ...] | None

# All rules by the name of the class, which model files store.
STOPPING_RULES: dict[str, type[StoppingRule]] = {
    cls.__name__: cls for cls in (Patience, Stagnation)
}


def as_rules(patience: Any) -> Rules:
    """Return the argument `patience` of a fit, checked.

    Examples
    --------
    >>> as_rules([50, Stagnation(1e-5, 10)])
    (Patience(iterations=50, metric=None), Stagnation(below=1e-05, times=10, metric=None))
    """
    if patience is None:
        return None
    if is_whole(patience):
        check_whole("patience", patience, 1, MAX_COUNT)
        return int(patience)
    given = patience if isinstance(patience, list | tuple) else [patience]
    rules = tuple(Patience(int(x)) if is_whole(x) else x for x in given)
    if not rules:
        raise ValueError("patience: the list is empty; pass None for a fit without early stopping")
    for rule in rules:
        if not isinstance(rule, StoppingRule):
            raise TypeError(
                "patience: expected a number of iterations, None, cb.Patience(...), "
                f"cb.Stagnation(...) or a list of them, got {quote(rule)}"
            )
        rule.core(-1, 0.0)  # checks the parameters
    return rules


def each_rule(rules: Rules) -> tuple[StoppingRule, ...]:
    """Return the rules as objects."""
    if rules is None:
        return ()
    return rules if isinstance(rules, tuple) else (Patience(rules),)
