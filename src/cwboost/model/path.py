"""The path of a fit: what was chosen in every iteration, and the risk after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._core import StopReason as StopReason
from cwboost.frames.columns import Floats

Ints = NDArray[np.int32]
MAX_INT = 2**31 - 1
ROUNDING = 1e-12  # the share by which equal risks may differ, as in core/early_stopping.hpp
MAX_HALVINGS = 1000  # more than a fit can have
# A path that ended for one of these cannot go on.
FINAL_REASONS = (StopReason.nothing_left_to_gain, StopReason.diverged)
# Early stopping ended the path.
EARLY_REASONS = (
    StopReason.no_better_validation_risk,
    StopReason.no_better_metric,
    StopReason.stagnation,
)


@dataclass(frozen=True, eq=False)
class Path:
    """The chronological record of a fit, from which the model after any iteration is restored."""

    choices: Ints  # (M,) number of the chosen term
    corrections: Ints  # (M,) number of the term of the momentum correction, -1 if there is none
    halvings: Ints  # (M,) how often the step was halved because the risk rose sharply
    evaluations: Ints  # (M,) how many terms were evaluated on the rows to find the best
    updates: Floats  # coefficients of the choices, end to end, before rate and scale
    correction_updates: Floats
    risk: Floats  # (M + 1,) mean loss of the training rows
    validation_risk: Floats  # (M + 1,) NaN without validation rows
    metrics: Floats  # of the validation rows, iterate by iterate; lower is better
    switched_after: int  # last iteration of the first phase of Hybrid; -1 if it did not switch
    rewound_to: int  # the iterate from which the second phase of Hybrid started
    stopped: str  # why the fit ended

    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @property
    def n_iter(self) -> int:
        return len(self.choices)

    @classmethod
    def from_core(cls, path: _core.Path) -> Path:
        return cls(**{name: getattr(path, name) for name in cls.__dataclass_fields__})

    def to_core(self, sizes: list[int], n_outputs: int) -> _core.Path:
        return _core.Path(
            self.choices,
            self.corrections,
            self.halvings,
            self.updates,
            self.correction_updates,
            self.risk,
            self.validation_risk,
            self.switched_after,
            self.rewound_to,
            sizes,
            n_outputs,
            self.evaluations,
            metrics=self.metrics if len(self.metrics) else None,
        )

    @property
    def n_metrics(self) -> int:
        return len(self.metrics) // (self.n_iter + 1)

    def metric(self, k: int) -> Floats:
        """Return the (M + 1,) values of one metric, of which lower ones are better."""
        return self.metrics[k :: self.n_metrics]

    @property
    def watched(self) -> Floats:
        """The (M + 1,) values whose lowest is the best iterate."""
        return self.metric(0) if self.n_metrics else self.validation_risk

    def misfit(self, sizes: list[int], n_outputs: int, n_corrections: int) -> str | None:
        """Return what in the path does not fit terms with these numbers of coefficients; None if
        all of it fits. Only a damaged file has such a path."""
        m, last = self.n_iter, len(sizes) - 1
        ranges = {"choices": last, "corrections": last, "halvings": MAX_HALVINGS}
        for name, high in (ranges | {"evaluations": MAX_INT}).items():
            n = n_corrections if name == "corrections" else m
            values = getattr(self, name)
            inside = (values >= 0) & (values <= high)
            if len(values) != m or not inside[:n].all() or (values[n:] != -1).any():
                return f"{name}: expected {n} whole numbers from 0 to {high}, then {m - n} times -1"
        numbers = {"risk": m + 1, "validation_risk": m + 1}
        numbers |= {
            updates: n_outputs * sum(sizes[k] for k in getattr(self, terms) if k >= 0)
            for updates, terms in (("updates", "choices"), ("correction_updates", "corrections"))
        }
        for name, n in numbers.items():
            if len(getattr(self, name)) != n:
                return f"{name}: expected {n} numbers, found {len(getattr(self, name))}"
        if len(self.metrics) % (m + 1):
            return f"metrics: expected a multiple of {m + 1} numbers, found {len(self.metrics)}"
        for name in ("updates", "correction_updates"):
            if not np.isfinite(getattr(self, name)).all():
                return f"{name}: expected finite numbers"
        if not np.isfinite(self.risk[0]):
            return "risk: expected a finite number at the start"
        switched, rewound = self.switched_after, self.rewound_to
        if not (switched == rewound == -1 or 0 <= rewound <= switched <= m):
            return f"rewound_to: expected a switch within {m} iterations"
        return None

    def kept(self, m: int) -> list[int]:
        """Return the positions of the iterations that led to iterate m, without those rewound."""
        left = range(self.rewound_to, self.switched_after) if self.switched_after < m else range(0)
        return [i for i in range(m) if i not in left]

    def until(self, m: int, sizes: list[int], n_outputs: int) -> Path:
        """Return the path of the first m iterations."""

        def length(terms: Ints) -> int:
            return int(sum(sizes[k] for k in terms[:m] if k >= 0)) * n_outputs

        switched = 0 <= self.switched_after < m
        return Path(
            self.choices[:m],
            self.corrections[:m],
            self.halvings[:m],
            self.evaluations[:m],
            self.updates[: length(self.choices)],
            self.correction_updates[: length(self.corrections)],
            self.risk[: m + 1],
            self.validation_risk[: m + 1],
            self.metrics[: self.n_metrics * (m + 1)],
            self.switched_after if switched else -1,
            self.rewound_to if switched else -1,
            self.stopped if m == self.n_iter else "shortened",
        )


def first_lowest(risks: Floats) -> int:
    """Return the position of the lowest risk, the first one of equals; NaN is never the lowest.

    Risks that differ in their last digits only are equal, because these depend on the order of the
    rows.

    Examples
    --------
    >>> first_lowest(np.array([2.0, np.nan, 1.0 + 1e-14, 1.0]))
    2
    """
    finite = np.where(np.isnan(risks), np.inf, risks)
    lowest = float(finite.min())
    limit = lowest + ROUNDING * abs(lowest) if np.isfinite(lowest) else lowest
    return int(np.argmax(finite <= limit))
