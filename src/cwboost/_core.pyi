"""
The core of cwboost: rows and their verbs, learners, the boosting loop.
"""

from collections.abc import Callable, Sequence
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


class Loss:
    """A loss on one row."""

    @property
    def n_outputs(self) -> int: ...

    @property
    def n_targets(self) -> int: ...

    @property
    def n_state(self) -> int: ...

    @property
    def has_curvature(self) -> bool: ...

    def values(self, y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], score: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> NDArray[numpy.float64]:
        """Return (n,) the loss of every row at scores (n_outputs, n)."""

class LossInput:
    """What a loss in Python is given: arrays by plane."""

    @property
    def y(self) -> NDArray[numpy.float64]:
        """(n_targets, n)"""

    @property
    def score(self) -> NDArray[numpy.float64]:
        """(n_outputs, n)"""

    @property
    def state(self) -> NDArray[numpy.float64]:
        """(n_state,)"""

    @property
    def weights(self) -> NDArray[numpy.float64] | None:
        """(n,) of the part that is fitted, or None"""

def make_loss(name: str, parameter: float = 0.0) -> Loss: ...

def python_loss(evaluate: Callable[[LossInput, bool, bool], tuple[object, object]], n_outputs: int = 1, n_targets: int = 1, n_state: int = 0, curvature: Callable[[LossInput], object] | None = None) -> Loss: ...

NO_SLOT: int = -1

ONES_SLOT: int = -2

PASSING_SLOT: int = -3

class Fill:
    """out = offset + start"""

    def __init__(self, out: int, start: Sequence[float]) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def out(self) -> int: ...

    @property
    def start(self) -> list[float]: ...

class Residual:
    """out = -dloss/dscore at `at` -> moved, risk per part"""

    def __init__(self, at: int, out: int, parts: Sequence[int], risk: bool = True, state: Sequence[float] = []) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def state(self) -> list[float]: ...

    @property
    def risk(self) -> bool: ...

    @property
    def at(self) -> int: ...

    @property
    def out(self) -> int: ...

    @property
    def parts(self) -> list[int]: ...

class MeanResidual:
    """out = residual averaged from one score to another"""

    def __init__(self, start: int, to: int, out: int, part: int | None = None, state: Sequence[float] = []) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def state(self) -> list[float]: ...

    @property
    def start(self) -> int: ...

    @property
    def to(self) -> int: ...

    @property
    def out(self) -> int: ...

    @property
    def part(self) -> int | None: ...

class Curvature:
    """out = second derivative of the loss at `at`"""

    def __init__(self, at: int, out: int, state: Sequence[float] = []) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def state(self) -> list[float]: ...

    @property
    def at(self) -> int: ...

    @property
    def out(self) -> int: ...

class BinSums:
    """sums of w x per bin -> sums, slot by slot, set by set"""

    def __init__(self, slots: Sequence[int], sets: Sequence[int], part: int) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def slots(self) -> list[int]: ...

    @property
    def sets(self) -> list[int]: ...

    @property
    def part(self) -> int: ...

class Basis:
    """A basis over bins, in compressed rows."""

    def __init__(self, begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_coef: int) -> None: ...

class Cross:
    """cross-Grams of pairs of bases -> sums, pair by pair"""

    def __init__(self, pairs: Sequence[tuple[int, int, Basis, Basis]], part: int, by: int = -2, output: int = 0) -> None: ...

    @property
    def pairs(self) -> list[tuple[int, int, int, int]]: ...

    @property
    def part(self) -> int: ...

    @property
    def by(self) -> int: ...

    @property
    def output(self) -> int: ...

ALL_OUTPUTS: int = -1

class Add:
    """slot[i] += bin_values[bin[i]], for all outputs or for one"""

    def __init__(self, slot: int, set: int, bin_values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], within: int | None = None, output: int = -1) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def output(self) -> int: ...

    @property
    def within(self) -> int | None: ...

    @property
    def slot(self) -> int: ...

    @property
    def set(self) -> int: ...

    @property
    def bin_values(self) -> NDArray[numpy.float64]: ...

class Mix:
    """out = a x + b y"""

    def __init__(self, out: int, a: float, x: int, b: float, y: int) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def out(self) -> int: ...

    @property
    def a(self) -> float: ...

    @property
    def x(self) -> int: ...

    @property
    def b(self) -> float: ...

    @property
    def y(self) -> int: ...

class AbsoluteSum:
    """sum of w |x - centre| -> sums, per output"""

    def __init__(self, slot: int, part: int, centre: Sequence[float]) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def slot(self) -> int: ...

    @property
    def part(self) -> int: ...

    @property
    def centre(self) -> list[float]: ...

class Reply:
    """The reply to a verb."""

    def __init__(self, moved: float = 0.0, risk: Sequence[float] = [], sums: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]] = []) -> None: ...

    def __reduce__(self) -> tuple[object, ...]: ...

    @property
    def moved(self) -> float: ...

    @property
    def risk(self) -> list[float]: ...

    @property
    def sums(self) -> list[NDArray[numpy.float64]]: ...

class IndexSet:
    """A bin index of 8, 16 or 32 bits."""

    @overload
    def __init__(self, index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], n_bins: int) -> None: ...

    @overload
    def __init__(self, index: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], n_bins: int) -> None: ...

    @overload
    def __init__(self, index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_bins: int) -> None: ...

    @property
    def n_bins(self) -> int: ...

class MomentSet(IndexSet):
    """
    Pieces of a column and positions t within them; bin 4 p + q stands for t^q on piece p.
    """

    def __init__(self, piece: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], t: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_pieces: int) -> None: ...

class Rows:
    """Answers the verbs; may be subclassed."""

    def __init__(self) -> None: ...

    def n_outputs(self) -> int: ...

    def n_rows(self) -> int: ...

    def remote(self) -> bool: ...

    def linear(self) -> bool: ...

    def knows_cross(self) -> bool: ...

    def weight(self, part: int) -> float: ...

    def run(self, batch: Sequence[Fill | Residual | MeanResidual | Curvature | BinSums | Cross | Add | Mix | AbsoluteSum]) -> list[Reply]: ...

class Crosses:
    """A cache of cross-Grams for rows with the same weights and bins."""

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

class LocalRows(Rows):
    """Rows in this process."""

    def __init__(self, loss: Loss, y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], offset: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, sets: Sequence[IndexSet], parts: Sequence[Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], n_threads: int = 1, crosses: Crosses | None = None) -> None: ...

    def read(self, slot: int) -> NDArray[numpy.float64]: ...

class OtherRowsError(ValueError):
    pass

def cross_of(learners: Sequence[Learner], pairs: Sequence[tuple[int, int]], part: int, by: int = -2, output: int = 0) -> Cross:
    """The verb Cross for pairs of learners, which must outlive it."""

class Learner:
    """Turns bin sums into coefficients and gain."""

    def __init__(self, set: int, begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], column: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], gram: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], factor: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], removed: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, weigher: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, n_b: int = 0) -> None: ...

    @property
    def set(self) -> int: ...

    @property
    def n_coef(self) -> int: ...

    @property
    def basis_key(self) -> int: ...

    def fit(self, sums: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> tuple[NDArray[numpy.float64], float]: ...

class Optimizer:
    pass

class Plain(Optimizer):
    def __init__(self, rate: float) -> None: ...

class Accelerated(Optimizer):
    def __init__(self, rate: float, momentum: float) -> None: ...

class Hybrid(Optimizer):
    def __init__(self, rate: float, momentum: float, switch_after: int, rewind: bool, then_all: bool, switch_patience: int) -> None: ...

class Path:
    """The chronological record of a fit."""

    @overload
    def __init__(self) -> None: ...

    @overload
    def __init__(self, choices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], corrections: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], halvings: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], updates: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], correction_updates: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], risk: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], validation_risk: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], switched_after: int, rewound_to: int, n_coef: Sequence[int], n_outputs: int, evaluations: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, outputs: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, metrics: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    @property
    def metrics(self) -> NDArray[numpy.float64]: ...

    @property
    def outputs(self) -> NDArray[numpy.int32]: ...

    @property
    def choices(self) -> NDArray[numpy.int32]: ...

    @property
    def corrections(self) -> NDArray[numpy.int32]: ...

    @property
    def halvings(self) -> NDArray[numpy.int32]: ...

    @property
    def evaluations(self) -> NDArray[numpy.int32]: ...

    @property
    def updates(self) -> NDArray[numpy.float64]: ...

    @property
    def correction_updates(self) -> NDArray[numpy.float64]: ...

    @property
    def risk(self) -> NDArray[numpy.float64]: ...

    @property
    def validation_risk(self) -> NDArray[numpy.float64]: ...

    @property
    def switched_after(self) -> int: ...

    @property
    def rewound_to(self) -> int: ...

    @property
    def stopped(self) -> str: ...

SLOT_F: int = 0

SLOT_R: int = 1

SLOT_H: int = 3

SLOT_C: int = 4

TRAINING_PART: int = 0

VALIDATION_PART: int = 1

ALL_PART: int = 2

class StopReason(enum.StrEnum):
    """Why a fit ended."""

    n_iter_reached = 'n_iter reached'

    no_better_validation_risk = 'no better validation risk'

    no_better_metric = 'no better validation metric'

    stagnation = 'improvements too small'

    nothing_left_to_gain = 'nothing left to gain'

    diverged = 'diverged'

    callback = 'callback'

    time_limit = 'time limit'

    interrupted = 'interrupted'

class SearchMode(enum.Enum):
    """How the best learner of an iteration is found."""

    automatic = 0

    full = 1

    certified = 2

    row_free = 3

class BoostProblem:
    """Rows, learners and optimizer of a fit."""

    def __init__(self, rows: Rows, learners: Sequence[Learner], optimizer: Optimizer, *, start: Sequence[float], scale: float = 1.0, state: Sequence[float] = [], all_learners: Sequence[Learner] = [], training_part: int = 0, validation_part: int | None = None, all_part: int = 2, search: SearchMode = SearchMode.automatic) -> None: ...

class StoppingRule:
    """When a run ends early."""

    def __init__(self, kind: StoppingRule.Kind, metric: int, iterations: int, share: float = 0.0) -> None: ...

    class Kind(enum.Enum):
        patience = 0

        stagnation = 1

class RunOptions:
    """How far a run goes, and what it calls on its way."""

    def __init__(self, n_iter: int, *, rules: Sequence[StoppingRule] = [], n_given: int | None = None, time_limit: float | None = None, after: Callable[[int, float, float, int], bool] | None = None, after_every: float = 0.0, save: Callable[[Path], float] | None = None, measure: Callable[[float], Sequence[float]] | None = None) -> None: ...

class ReplayProblem:
    """What a path needs to be replayed without rows."""

    def __init__(self, optimizer: Optimizer, n_coef: Sequence[int], n_outputs: int = 1, *, scale: float = 1.0, has_validation: bool = False) -> None: ...

def boost(problem: BoostProblem, history: Path, options: RunOptions) -> Path: ...

def follow(problem: BoostProblem, path: Path, at: Callable[[int], bool] | None = None) -> NDArray[numpy.float64]: ...

def replay(problem: ReplayProblem, path: Path, m: int) -> NDArray[numpy.float64]: ...

def cut(problem: ReplayProblem, path: Path, options: RunOptions) -> Path: ...

def gram(rows: Rows, learners: Sequence[Learner], part: int) -> NDArray[numpy.float64]: ...

def survey(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> tuple[float, float, int, int, bool, bool]:
    """
    low, high and number of missing cells of the training rows; missing cells of all rows; whether some rows are outside low..high; whether some are infinite
    """

def distinct(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, limit: int) -> NDArray[numpy.float64] | None:
    """Distinct numbers, increasing; None if there are more than limit."""

def quantiles(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.float64]: ...

def weigh_distinct(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]: ...

def place(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], edges: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], piece: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu')], t: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def weigh_pieces(piece: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], t: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, sums: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def bin_exactly(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], bin_values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def bin_exactly(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, index: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu')], bin_values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def bin_exactly(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], training: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], bin_values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def weigh_bins(index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def weigh_bins(index: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def weigh_bins(index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def assign_equal(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: float, last: float, size: int, index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def assign_equal(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: float, last: float, size: int, index: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def assign_equal(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: float, last: float, size: int, index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def assign_nearest(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], points: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def assign_nearest(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], points: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def assign_nearest(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], points: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

@overload
def assign_cuts(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def assign_cuts(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

@overload
def assign_cuts(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], cuts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], index: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def spline_rows(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], degree: int, linear: bool, begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None, column: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> int: ...

def power_rows(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], center: float, scale: float, first: int, n_coef: int, value: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def solve_systems(systems: Sequence[tuple[tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], tuple[float, float, bool, bool, int, float], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]]], numbers: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], n_threads: int = 1) -> None: ...

def solve_pairs(systems: Sequence[tuple[Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], tuple[float, float, bool, bool, int, float], Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]]], numbers: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], n_threads: int = 1) -> None: ...

def rank_pairs(index: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]], n_bins: Sequence[int], values: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], pairs: Sequence[tuple[int, int, Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], int]], df: float, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], n_threads: int = 1) -> None: ...

class Breaks:
    """Maps numbers to pieces."""

    def __init__(self, breaks: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], pieces: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], missing: int) -> None: ...

    def find(self, x: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.int32]: ...

class Axis:
    """Maps the values of a column to pieces and t."""

    def __init__(self, source: int, breaks: Breaks | None, origin: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], inverse: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_pieces: int, unseen: int, limits: tuple[float, float]) -> None: ...

class Term:
    """A piecewise polynomial over one or two axes."""

    def __init__(self, axes: Sequence[int], powers: Sequence[int], coef: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Lookup:
    """Terms, evaluated at raw values of their columns."""

    def __init__(self, axes: Sequence[Axis], terms: Sequence[Term], n_outputs: int) -> None: ...

    def run(self, columns: Sequence[object], first: int, last: int, effects: NDArray[numpy.float64], add: bool, n_threads: int) -> tuple[int, int, list[int]]: ...

    def run_array(self, table: object, columns: Sequence[int], effects: NDArray[numpy.float64], add: bool, n_threads: int) -> tuple[int, int, list[int]]: ...
