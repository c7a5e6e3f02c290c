"""Information criteria, cb.aic: degrees of freedom (df) along the path of a model, and the AIC and
similar criteria that follow from them.

Given the choices of the fit, the scores of the squared loss are linear in y:
f = start + Z K Z'W (y - offset - start), where Z are the bases of all chosen terms side by side. An
iteration that chooses term k computes the sums Z_k'W r = (E_k - G_k K) Z'W y, where G = Z'WZ and
E_k, G_k are the rows of term k of the unit matrix and of G. It solves for the coefficients and adds
them to the rows of term k of K. The df are tr(Z K Z'W) = tr(K G), so only G needs a pass over the
rows. For other likelihoods, y - mean is about D (z - f) near the model, where D is the second
derivative of the loss and z is linear in y; the same recursion then holds with G = Z'WDZ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._core import SLOT_F, TRAINING_PART
from cwboost._utils.checks import check_one_of
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost._utils.user_warnings import warn_user
from cwboost.fitting.input_data import FitInput, Split
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import check_rows, pose_again
from cwboost.fitting.smoothing import System, one_blas_thread
from cwboost.fitting.systems import core_learner
from cwboost.frames.columns import Floats
from cwboost.losses import Loss
from cwboost.model.model import Model, check_model
from cwboost.model.path import StopReason
from cwboost.model.path_checks import check_has_path
from cwboost.progress import Progress, as_progress
from cwboost.terms.bases import BasisRows

if TYPE_CHECKING:
    from cwboost.plotting.information import InformationDisplay

CRITERIA = {"corrected": "corrected AIC", "classical": "AIC", "gmdl": "gMDL"}
RANK = 1e-12  # eigenvalues of a Gram matrix below this share of the largest count as zero
MAX_COEF = 5000  # coefficients of all chosen terms; their Gram matrix takes 200 MB


@dataclass(frozen=True, eq=False)
class Information:
    """An information criterion along the path of a model, the result of `cb.aic`.

    Attributes
    ----------
    path : (M + 1,) array
        The criterion after 0, 1, ... iterations; infinite where it is not defined.
    df : (M + 1,) array
        The degrees of freedom after 0, 1, ... iterations.
    best_iteration : int
        The iteration with the smallest criterion.
    value : float
        The smallest value of the criterion.
    criterion : "corrected", "classical" or "gmdl"
    df_kind : "trace" or "active"
    """

    path: Floats = field(repr=False)
    df: Floats = field(repr=False)
    criterion: str
    df_kind: str

    @property
    def best_iteration(self) -> int:
        return int(np.argmin(self.path))

    @property
    def value(self) -> float:
        return float(self.path[self.best_iteration])

    def plot(self, **options: Any) -> InformationDisplay:
        """Draw the criterion and the df along the path (extra `plot`); see InformationDisplay."""
        from cwboost.plotting.information import InformationDisplay

        return InformationDisplay.from_information(self, **options)

    def __repr__(self) -> str:
        m = self.best_iteration
        return (
            f"<{CRITERIA[self.criterion]} {self.value:.7g} after {m} of {len(self.path) - 1} "
            f"iterations, df {self.df[m]:.7g} ({self.df_kind})>"
        )


@explain_unknown
def aic(
    model: Model,
    table: Any,
    y: Any = None,
    criterion: str | None = None,
    df: str | None = None,
    *,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    validation: Any = None,
    n_threads: int | None = None,
    progress: Any = None,
) -> Information:
    """Compute an information criterion along the path of a model from its training data.

    With n rows, sigma2 the mean squared residual, S = n sigma2 / (n - df) and T the sum of squares
    around the start:

    - "corrected": log(sigma2) + (1 + df / n) / (1 - (df + 2) / n), default of the squared loss;
    - "classical": -2 log likelihood + 2 df, default of the binomial, multinomial and poisson
      losses; for the squared loss it is n (log(2 pi sigma2) + 1) + 2 df;
    - "gmdl": log(S) + df / n log((T - n sigma2) / (df S)), for the squared loss only.

    Other losses are refused, because they are not likelihoods or their dispersion is unknown.

    Parameters
    ----------
    model : Model
    table, y, weights, offset, exposure, validation
        The training data, passed again. Arguments that were names of columns can be omitted.
        Whole weights count as repetitions; others are rescaled to a mean of one.
    criterion : "corrected", "classical" or "gmdl", optional
    df : "trace" or "active", optional
        "trace": the trace of the matrix that maps y to the scores, given the choices of the fit;
        for losses other than the squared loss a linearisation near the model by the second
        derivatives of the loss. "active": the net df of all terms chosen so far, times the number
        of free outputs; the default for the multinomial loss. Neither counts the start or the
        search among terms.
    n_threads : int, optional
    progress : None, bool or Progress

    Returns
    -------
    Information

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {"x": rng.uniform(size=300), "noise": rng.normal(size=300)}
    >>> y = np.sin(6 * table["x"]) + rng.normal(size=300)
    >>> model = cb.fit(table, y, n_iter=200)
    >>> found = cb.aic(model, table, y)
    >>> found
    <corrected AIC 1.127523 after 36 of 200 iterations, df 7.014584 (trace)>
    >>> best = model.at(found.best_iteration)
    """
    check_model(model, "aic")
    check_has_path(model, "aic")
    model = model.boosted
    criterion, df = _check_criterion(model.loss, criterion, df)
    bar, path = as_progress(progress), model.path
    # The numbers of the terms of the path, in the order of their first use.
    used = list(dict.fromkeys(np.column_stack([path.choices, path.corrections]).ravel().tolist()))
    used = [k for k in used if k >= 0]
    small = replace(model, terms=_some_terms(model, used))
    if df == "trace":
        _check_trace(small)
    fit_input = FitInput.of(
        table, y, weights, offset=offset, exposure=exposure, validation=validation
    )
    rows = _FittedRows.make(small, pose_again(small, fit_input, "aic", n_threads))
    df_path = _active_df(model) if df == "active" else _trace_df(model, rows, used, bar)
    found = Information(rows.criterion(criterion, model, df_path), df_path, criterion, df)
    if (
        found.best_iteration == model.n_iter > 0
        and model.stopped != StopReason.nothing_left_to_gain
    ):
        warn_user(
            f"the {CRITERIA[criterion]} is smallest at the last iteration, {model.n_iter}, and may "
            "fall further; use model.extend",
        )
    return found


# --- checks ---------------------------------------------------------------------------------------


def _check_criterion(loss: Loss, criterion: Any, df: Any) -> tuple[str, str]:
    """Return the criterion and the kind of df; raise if the loss does not allow them."""
    normal = loss.likelihood == "normal"
    if loss.likelihood is None:
        raise ValueError(
            f"aic: the {loss.name} loss is not a likelihood, or its dispersion is unknown; choose "
            "the number of iterations by validation rows or cross-validation"
        )
    if criterion is not None:
        check_one_of("criterion", criterion, CRITERIA)
    if df is not None:
        check_one_of("df", df, ("trace", "active"))
    if not normal and criterion in ("corrected", "gmdl"):
        raise ValueError(
            f"criterion: {quote(criterion)} applies only to the squared loss, not to the "
            f"{loss.name} loss; use 'classical'"
        )
    has_trace = loss.has_curvature and loss.n_outputs == 1
    if df == "trace" and not has_trace:
        raise ValueError(
            f"df: 'trace' needs second derivatives and one score per row, unlike the {loss.name} "
            "loss; use 'active'"
        )
    return (
        criterion or ("corrected" if normal else "classical"),
        df or ("trace" if has_trace else "active"),
    )


def _check_trace(model: Model) -> None:
    if model.optimizer.ends_on_all_rows and model.path.switched_after >= 0:
        raise ValueError(
            "df: Hybrid went on with all rows, so its scores are not linear in y of one part; "
            f"use model.at({model.path.switched_after}), Hybrid(then='training') or df='active'"
        )
    n_coef = sum(term.plan.basis.n_coef for term in model.terms.values())
    if n_coef > MAX_COEF:
        raise ValueError(
            f"df: the chosen terms have {n_coef} coefficients, 'trace' allows at most {MAX_COEF}; "
            "use df='active'"
        )


def _some_terms(model: Model, numbers: list[int]) -> Mapping[str, Any]:
    terms = list(model.terms.values())
    return MappingProxyType({terms[k].name: terms[k] for k in numbers})


# --- the rows of the fit --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _FittedRows:
    """The training rows of a fit with the scores of the model."""

    problem: FitProblem[PreparedRows]
    score: Floats  # (q, n) at the bins
    n: float  # the number of rows that the weights represent

    @classmethod
    def make(cls, model: Model, problem: FitProblem[PreparedRows]) -> _FittedRows:
        rows = problem.local_rows
        check_rows(model, problem.prepared, rows, "aic")
        w = problem.prepared.split.of_training(problem.prepared.split.training)
        whole = bool(np.all(w == np.round(w)))
        return cls(problem, rows.read(SLOT_F), float(w.sum()) if whole else float(len(w)))

    def criterion(self, which: str, model: Model, df: Floats) -> Floats:
        """Return the criterion after 0, 1, ... iterations; see `aic` for the formulas."""
        n, risk = self.n, model.risk
        if model.loss.likelihood != "normal":
            return 2.0 * n * (risk + self._likelihood_constant(model.loss)) + 2.0 * df
        sigma2 = 2.0 * risk
        with np.errstate(divide="ignore", invalid="ignore"):
            if which == "classical":
                return n * (np.log(2.0 * np.pi * sigma2) + 1.0) + 2.0 * df
            if which == "corrected":
                out = np.where(df + 2.0 < n, np.log(sigma2) + (n + df) / (n - df - 2.0), np.inf)
            else:
                s, explained = n * sigma2 / (n - df), n * (sigma2[0] - sigma2)
                more = np.where(df > 0.0, df / n * np.log(explained / (df * s)), 0.0)
                out = np.where(df < n, np.log(s) + more, np.inf)
        return np.where(np.isnan(out), np.inf, out)

    def _likelihood_constant(self, loss: Loss) -> float:
        """Return minus the mean log likelihood, less the mean loss."""
        y, split = self.problem.prepared.data.y, self.problem.prepared.split
        return float(np.average(loss.likelihood_constant(y), weights=split.training))


# --- degrees of freedom ---------------------------------------------------------------------------


def _active_df(model: Model) -> Floats:
    """Return the net df of the terms chosen so far, without choices that a rewind discarded."""
    path, net = model.path, [term.net_df for term in model.terms.values()]
    chosen: list[frozenset[int]] = [frozenset()]
    for m in range(model.n_iter):
        before = chosen[path.rewound_to if m == path.switched_after else m]
        new = {int(path.choices[m]), int(path.corrections[m])} - {-1} - before
        chosen.append(before | new if new else before)
    free = max(1, model.n_outputs - 1)
    return free * np.array([sum(net[k] for k in terms) for terms in chosen])


def _trace_df(model: Model, rows: _FittedRows, used: list[int], bar: Progress) -> Floats:
    """Return tr(K G) after 0, 1, ... iterations; `used` are the numbers of the chosen terms."""
    path, optimizer, number = model.path, model.optimizer, {k: i for i, k in enumerate(used)}
    rate = optimizer.rate * model.scale
    momentum = optimizer.momentum if optimizer.has_momentum else 0.0
    if not used:
        return np.zeros(1)
    scores = _ScoreMatrices.make(rows, model.loss)
    df, kept = [0.0], scores.f
    with one_blas_thread(), bar.work(model.n_iter, "iteration"):
        for m in range(1, model.n_iter + 1):
            if m - 1 == path.rewound_to < path.switched_after:
                kept = scores.f.copy()
            if m - 1 == path.switched_after and path.rewound_to < m - 1:
                scores.f, scores.df = kept, df[path.rewound_to]
            k, j = number[path.choices[m - 1]], path.corrections[m - 1]
            step = float(np.ldexp(rate, -path.halvings[m - 1]))
            if j < 0:
                scores.plain(k, step)
            else:
                restarts = m == 1 or path.halvings[m - 2] > 0
                scores.accelerate(m, k, number[j], step, momentum * rate, restarts)
            df.append(scores.df)
            bar.step(m)
    return np.array(df)


class _ScoreMatrices:
    """The scores of the optimizers (boost.hpp) as linear maps of the sums of y: matrices K (D, D).

    The residual of the corrections is `share` y - D Z c y - Z removed y. Terms are sorted by their
    first use, so that only the first n rows and columns can differ from zero.
    """

    def __init__(self, gram: Floats, gram_removed: Floats, solvers: list[Floats]) -> None:
        self.gram, self.gram_removed = gram, gram_removed  # Z'WDZ, Z'WZ
        self.solvers = solvers  # (d,) eigenvalues of the smoother of each term
        self.f, self.h, self.c, self.removed = (np.zeros_like(gram) for _ in range(4))
        self.df, self.df_h, self.share = 0.0, 0.0, 0.0
        ends = np.cumsum([0, *map(len, solvers)]).tolist()
        self.place = [slice(a, b) for a, b in pairwise(ends)]
        self.n = 0

    @classmethod
    def make(cls, rows: _FittedRows, loss: Loss) -> _ScoreMatrices:
        problem = rows.problem
        rotations = [_Rotation.make(system) for system in problem.systems]

        def gram_of(weighted: _core.LocalRows) -> Floats:
            return _rotate(_core.gram(weighted, problem.learners, TRAINING_PART), rotations)

        gram = gram_removed = gram_of(problem.local_rows)
        if not loss.linear:
            w = problem.prepared.split.training.astype(np.float64)
            used = w > 0
            w[used] *= loss.curvature(problem.prepared.data.y[used], rows.score[0, used])
            gram = gram_of(problem.prepared.with_split(Split(w, None, w)).rows())
        return cls(gram, gram_removed, [rotation.h for rotation in rotations])

    def plain(self, k: int, step: float) -> None:
        self.n = max(self.n, self.place[k].stop)
        f = self.f[: self.n, : self.n]
        self.df += self._add(f, k, step, self._solve(k, 1.0, self._sums(self.gram, k, f)))

    def accelerate(
        self, m: int, k: int, j: int, step: float, momentum: float, restarts: bool
    ) -> None:
        v, carried = 2.0 / (m + 1.0), 0.0 if restarts else m / (m + 1.0)
        n = self.n = max(self.n, self.place[k].stop, self.place[j].stop)
        f, h, c, removed = (x[:n, :n] for x in (self.f, self.h, self.c, self.removed))
        f *= 1.0 - v
        f += v * h
        self.df = (1.0 - v) * self.df + v * self.df_h
        c *= carried
        c += f
        removed *= carried
        self.share = 1.0 + carried * self.share
        lost = self._sums(self.gram, j, c) + self._sums(self.gram_removed, j, removed)
        correction = self._solve(j, self.share, lost)
        update = self._solve(k, 1.0, self._sums(self.gram, k, f))
        self.df += self._add(f, k, step, update)
        self.df_h += self._add(h, j, momentum / v, correction)
        removed[self.place[j]] += correction

    def _sums(self, gram: Floats, k: int, score: Floats) -> Floats:
        """Return the sums of term k over a score."""
        return np.asarray(gram[self.place[k], : len(score)] @ score)

    def _solve(self, k: int, share: float, lost: Floats) -> Floats:
        """Return the coefficients of term k for a residual with sums share * (sums of y) - lost."""
        at = self.place[k]
        sums = -lost
        sums[:, at] += share * np.eye(len(lost))
        return self.solvers[k][:, None] * sums

    def _add(self, score: Floats, k: int, step: float, update: Floats) -> float:
        """Add an update of term k to a score; return the increase of the df."""
        at = self.place[k]
        score[at] += step * update
        return step * float(np.sum(update * self.gram[at, : len(score)]))


class _Rotation(NamedTuple):
    """Coordinates of a term in which its basis is orthonormal and its smoother diagonal.

    All numbers are then of the order of one, whatever the smoothing.
    """

    basis: Floats  # (d, r), or (d,) if the system is diagonal already
    h: Floats  # (r,) eigenvalues of the smoother

    @classmethod
    def make(cls, system: System) -> _Rotation:
        gram = system.gram
        if gram.ndim == 1 and not system.n_b:
            root = np.sqrt(gram)
            return cls(np.divide(1.0, root, where=root > 0.0, out=np.zeros_like(root)),
                       gram / system.factor)  # fmt: skip
        gram = gram if gram.ndim == 2 else np.diag(gram)
        values, vectors = np.linalg.eigh(gram)
        known = values > RANK * values[-1]
        basis = vectors[:, known] / np.sqrt(values[known])
        back = gram @ basis
        d = len(gram)
        each = BasisRows(np.arange(d + 1), np.arange(d, dtype=np.int32), np.ones(d))
        learner = core_learner(0, each, system)  # it only uses sums of the basis
        h, turn = np.linalg.eigh(back.T @ learner.fit(np.ascontiguousarray(back.T))[0].T)
        return cls(basis @ turn, h)

    def __call__(self, block: Floats) -> Floats:
        """Return basis' block."""
        return self.basis[:, None] * block if self.basis.ndim == 1 else self.basis.T @ block


def _rotate(gram: Floats, rotations: list[_Rotation]) -> Floats:
    """Return the Gram matrix of all terms in the coordinates of the rotations."""
    ends = np.cumsum([len(rotation.basis) for rotation in rotations])[:-1]
    for _ in range(2):  # first the rows, then, because the matrix is symmetric, the columns
        blocks = np.split(gram, ends)
        gram = np.vstack([rotate(b) for rotate, b in zip(rotations, blocks, strict=True)]).T
    return np.ascontiguousarray(gram)
