"""The path of a fit: what was chosen in every iteration, and the risk after it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._core import StopReason as StopReason
from cwboost.frames.columns import Floats

Ints = NDArray[np.int32]
# A path that ended for one of these cannot go on.
FINAL_REASONS = (StopReason.nothing_left_to_gain, StopReason.diverged)


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
        )

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
            self.switched_after if switched else -1,
            self.rewound_to if switched else -1,
            self.stopped if m == self.n_iter else "shortened",
        )
