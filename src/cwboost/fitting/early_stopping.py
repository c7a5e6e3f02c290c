"""Early stopping of a fit: its rules, and the metrics of the validation rows that it records.

Resolves the arguments `patience` and `metric` when loss and classes are known. The rules are
applied by the core (core/early_stopping.hpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cwboost import _core
from cwboost._utils.text import quote
from cwboost._utils.user_warnings import warn_user
from cwboost.losses import Loss
from cwboost.metrics.metric import METRICS, RISK, ForLabels, Metric, as_metrics
from cwboost.model.model import Model
from cwboost.model.settings import WatchedMetric
from cwboost.optimizers import Optimizer
from cwboost.stopping import Patience, Rules, as_rules, each_rule

OF_RISK = -1  # position of the validation risk, as in core/early_stopping.hpp


@dataclass(frozen=True, eq=False)
class EarlyStopping:
    """The rules and metrics of a fit.

    The first metric decides which iterate is the best. Without metrics the validation risk decides.
    """

    rules: Rules = None
    metrics: tuple[Metric, ...] = ()

    @classmethod
    def of(cls, patience: Any, metric: Any, loss: Loss, classes: tuple[Any, ...]) -> EarlyStopping:
        """Return the rules, and the metrics that are asked for or that a rule needs."""
        rules, labels = as_rules(patience), None
        if isinstance(metric, ForLabels):
            metric, labels = metric

        def found(asked: Any) -> list[Metric]:
            asked = asked if labels is None else ForLabels(asked, labels)
            return as_metrics(asked, None, loss, classes)

        metrics = [] if metric is None else found(metric)
        needed = [rule.metric for rule in each_rule(rules) if rule.metric not in (None, RISK)]
        for name in dict.fromkeys(needed):
            if name not in [m.name for m in metrics]:
                metrics = metrics or found(RISK)  # which decides
                metrics += found(name)
        if [m.name for m in metrics] == [RISK]:
            metrics = []
        return cls(rules, tuple(metrics))

    @classmethod
    def again(cls, model: Model) -> EarlyStopping:
        """Return the early stopping of the fit of a model, to fit again."""
        found = [_found_again(known, model) for known in model.settings.metrics]
        return cls(model.settings.patience, tuple(found))

    def check_continues(self, model: Model) -> None:
        """Raise if the fit of a model recorded other metrics, so that its path cannot go on."""
        ours, theirs = ([m.name for m in of] for of in (self.metrics, model.settings.metrics))
        if ours != theirs:
            raise ValueError(
                f"patience: the rules need the metrics {', '.join(ours) or 'risk'}, but the fit "
                f"recorded {', '.join(theirs) or 'only the risk'}; name its metrics, or start a "
                "new fit"
            )

    def core_rules(self, tolerance: float) -> list[_core.StoppingRule]:
        """Return the rules for the core."""
        return [rule.core(self._position(rule.metric), tolerance) for rule in each_rule(self.rules)]

    def _position(self, name: str | None) -> int:
        if name is None:
            return 0 if self.metrics else OF_RISK
        return OF_RISK if name == RISK else [m.name for m in self.metrics].index(name)

    @property
    def records(self) -> tuple[WatchedMetric, ...]:
        """What the model keeps about the metrics."""
        return tuple(
            WatchedMetric(m.name, m.greater_is_better, m.optimum, m.source, m.identity())
            for m in self.metrics
        )

    def check(self, search: str, has_validation: bool, optimizer: Optimizer) -> None:
        """Raise if the metrics cannot be computed in this fit; warn if no rule can end it."""
        if isinstance(self.rules, tuple) and not has_validation:
            raise ValueError(
                "patience: the rules are about validation rows, but there are none; pass for "
                "instance validation=0.3"
            )
        if self.rules not in (None, Patience().iterations) and optimizer.ends_on_all_rows:
            warn_user(
                f"patience: no rule ends this fit, because {type(optimizer).__name__} continues on "
                "all rows up to the last iteration; pass then='training' for early stopping"
            )
        if self.metrics and not has_validation:
            name = next(m.name for m in self.metrics if m.name != RISK)
            raise ValueError(
                f"metric: {quote(name)} is computed for validation rows, but there "
                "are none; pass for instance validation=0.3"
            )
        if self.metrics and search == "row-free":
            raise ValueError(
                "search: 'row-free' does not compute the scores of rows, which metrics need; use "
                "'auto'"
            )


def _found_again(known: WatchedMetric, model: Model) -> Metric:
    """Return a metric of the fit of a model; raise if it cannot be found or is the opposite."""
    source = known.source or known.name
    if known.source is None and source not in METRICS:
        raise ValueError(
            f"the fit was watched by the metric {quote(known.name)}, a function that a "
            "model does not keep; give it this name with cb.register_metric, then try again"
        )
    [metric] = as_metrics({known.name: source}, None, model.loss, model.classes)
    if metric.greater_is_better != known.greater_is_better:
        better = "greater" if known.greater_is_better else "lower"
        raise ValueError(
            f"metric {quote(known.name)}: in the fit {better} values were better; register the "
            "function as it was"
        )
    if metric.identity() != known.identity and source in METRICS:
        warn_user(
            f"metric {quote(known.name)}: its function is not that of the fit, or the version of "
            "Python is another; its values may not continue those of the fit"
        )
    return metric
