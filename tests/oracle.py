"""A dense NumPy oracle for componentwise gradient boosting, written directly from the formulas.

Implements the mathematics (bases, penalties, df -> lambda, losses, Plain / Accelerated / Hybrid)
with one dense row per observation and weighted normal equations. Does not know about cwboost (specs
are read by attribute and class name), bin sums, bounds, threads, data frames, early stopping or the
halving of steps that make the risk infinite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.interpolate import BSpline
from scipy.optimize import brentq
from scipy.special import logsumexp

Columns = dict[str, np.ndarray]
TIE = 1e-9  # relative; the first-listed learner with gain >= (1 - TIE) * best is chosen
RANK = 1e-9  # eigenvalues of A against A + tau P below RANK count as 0, above 1 - RANK as 1
MAX_TENSOR_BINS = 255
MISSING_RIDGE = 0.1
MISSING = "missing"  # label of the level (or coefficient) of missing cells


# --- columns ------------------------------------------------------------------------------------


def weighted_quantile(x: np.ndarray, w: np.ndarray, tau: float | np.ndarray) -> Any:
    """Return the midpoint of the interval that minimises the weighted check loss.

    It does not depend on the scale of w.
    """
    order = np.argsort(x, kind="stable")
    x, cum = x[order], np.cumsum(w[order])
    at = np.asarray(tau) * cum[-1]
    slack = 1e-12 * cum[-1]  # cumulative weights equal tau * total only up to rounding
    low = x[np.minimum(np.searchsorted(cum, at - slack), len(x) - 1)]
    high = x[np.minimum(np.searchsorted(cum, at + slack, side="right"), len(x) - 1)]
    return (low + high) / 2


def labels(values: np.ndarray) -> np.ndarray:
    """Return levels as strings, None for missing cells; 3.0 becomes "3"."""

    def label(v: Any) -> str | None:
        if v is None or v != v:
            return None
        if isinstance(v, (bool, np.bool_, str)):
            return str(v)
        return str(int(v)) if float(v).is_integer() else repr(float(v))

    out = np.empty(len(values), object)
    out[:] = [label(v) for v in values]
    return out


def sorted_levels(values: np.ndarray, found: np.ndarray) -> list[str]:
    """Return distinct labels, sorted by value for numeric columns, else by string; missing last."""
    seen = {v for v in found if v is not None}
    numeric = np.asarray(values).dtype.kind in "iuf"
    levels = sorted(seen, key=float) if numeric else sorted(seen)
    return levels + [MISSING] * any(v is None for v in found)


def bin_points(x: np.ndarray, rule: str | int, n: int) -> np.ndarray | None:
    """Return equally spaced points over the range of the training values; None for exact bins."""
    if rule in ("exact", "auto"):
        if rule == "auto" and len(np.unique(x)) > 1024:
            raise NotImplementedError("oracle: 'auto' only where it means 'exact'")
        return None
    size = {"sqrt": int(np.floor(n**0.5)), "root4": int(np.floor(n**0.25))}.get(rule, rule)
    return np.linspace(x.min(), x.max(), max(2, int(size)))


def to_bins(x: np.ndarray, points: np.ndarray | None) -> np.ndarray:
    """Return the nearest points (ties go up); values outside the training range are unchanged."""
    if points is None or points[0] == points[-1]:
        return x
    step = (points[-1] - points[0]) / (len(points) - 1)
    inside = (x >= points[0]) & (x <= points[-1])
    index = np.floor((np.where(inside, x, points[0]) - points[0]) / step + 0.5).astype(int)
    return np.where(inside, points[np.minimum(index, len(points) - 1)], x)


def step_cuts(x: np.ndarray, w: np.ndarray, bins: int) -> np.ndarray:
    """Return the upper ends (inclusive) of all Step bins but the last.

    A value with weight share >= 1/bins is an atom and has its own bin. The other values are cut at
    their weighted quantiles j / (bins - atoms), and bins that contain an atom are cut there as
    well. If there are at most `bins` values, each has its own bin. Cuts lie halfway between
    training values, so a new value joins its nearer neighbour.
    """
    values, inverse = np.unique(x, return_inverse=True)
    if len(values) <= bins:
        return values[:-1] + np.diff(values) / 2
    share = np.bincount(inverse, w) / w.sum()
    atom = share >= (1 - 1e-12) / bins
    ends = set(values[atom])
    ends |= {values[j - 1] for j in np.flatnonzero(atom) if j > 0}
    rest = ~atom[inverse]
    size = max(1, bins - int(atom.sum()))
    if rest.any() and size > 1:
        cum = np.cumsum(share[~atom]) / share[~atom].sum()
        at = np.searchsorted(cum, np.arange(1, size) / size - 1e-12)
        ends |= set(values[~atom][np.minimum(at, len(cum) - 1)])
    return np.array([c + (values[values > c][0] - c) / 2 for c in sorted(ends - {values[-1]})])


# --- bases --------------------------------------------------------------------------------------


@dataclass
class Term:
    """One learner: `rows(columns, at_bins)` returns its dense design, with unknown cells filled."""

    name: str
    spec: Any
    rows: Callable[[Columns, bool], np.ndarray]
    penalty: np.ndarray
    levels: list[str] | None = None
    linear: np.ndarray | None = None  # Centered: spline coefficients of (1, x)
    additive: np.ndarray | None = None  # pair: tensor coefficients of the main effects
    inner: np.ndarray | None = None  # pair: coefficients that are first in neither margin
    ridge: float = 0.0  # of missing cells, the last coefficient, as a share of the weights
    flat: int = 0  # number of splines whose slopes are penalised in thin tails
    to_raw: Callable[[np.ndarray], np.ndarray] = field(default=lambda theta: theta)


def get(spec: Any, name: str, default: Any) -> Any:
    value = getattr(spec, name, None)
    return default if value is None else value


def difference_penalty(d: int, order: int) -> np.ndarray:
    D = np.diff(np.eye(d), order, axis=0)
    return D.T @ D


def spline_knots(x: np.ndarray, w: np.ndarray, spec: Any) -> np.ndarray:
    """Return inner knots, the range, and `degree` more knots per side with the end spacings."""
    size, degree = get(spec, "knots", 20), get(spec, "degree", 3)
    if get(spec, "knot_placement", "uniform") == "uniform":
        t = np.linspace(x.min(), x.max(), size + 2)
    else:
        inner = weighted_quantile(x, w, np.arange(1, size + 1) / (size + 1))
        t = np.unique(np.concatenate([[x.min()], inner, [x.max()]]))
    below = t[0] - (t[1] - t[0]) * np.arange(degree, 0, -1)
    above = t[-1] + (t[-1] - t[-2]) * np.arange(1, degree + 1)
    return np.concatenate([below, t, above])


def spline_rows(x: np.ndarray, knots: np.ndarray, degree: int, extrapolate: str) -> np.ndarray:
    inside = np.clip(x, knots[degree], knots[-degree - 1])
    X = BSpline.design_matrix(inside, knots, degree).toarray()
    if extrapolate == "linear" and degree > 0 and (x != inside).any():
        slope = BSpline(knots, np.eye(X.shape[1]), degree).derivative()
        X = X + (x - inside)[:, None] * slope(inside)
    return X


def power_coefficients(theta: np.ndarray, centre: float, half: float) -> np.ndarray:
    """Convert coefficients from powers of z = (x - centre) / half to powers of x."""
    z = np.polynomial.Polynomial([-centre / half, 1 / half])
    out = np.zeros_like(theta)
    for j in range(len(theta)):
        c = (z**j).coef
        out[: len(c)] += c[:, None] * theta[j]
    return out


@dataclass
class Training:
    """Input of the bases: the training rows, the bin rule, and externally given cut points."""

    columns: Columns
    w: np.ndarray
    bins: str | int
    cuts: dict[str, np.ndarray]

    def known(self, column: str) -> tuple[np.ndarray, np.ndarray]:
        x = self.columns[column]
        ok = ~np.isnan(x)
        return x[ok], self.w[ok]


def filled(rows: Callable, train: Training) -> Callable[[Columns, bool], np.ndarray]:
    """Replace rows of NaN (unknown cells) by the weighted mean of the known training rows."""
    X = rows(train.columns, True)
    ok = ~np.isnan(X).any(axis=1)
    mean = np.average(X[ok], axis=0, weights=train.w[ok])

    def with_mean(columns: Columns, at_bins: bool) -> np.ndarray:
        X = rows(columns, at_bins)
        return np.where(np.isnan(X), mean, X)

    return with_mean


def numeric_basis(spec: Any, train: Training, rule: str | int) -> tuple[Callable, np.ndarray, dict]:
    """Return basis, penalty and extras for Term; for all learners of one numeric column."""
    kind, column = type(spec).__name__, spec.column
    x, w = train.known(column)
    points = bin_points(x, get(spec, "bins", rule), len(train.w)) if kind != "Step" else None
    extra: dict[str, Any] = {}
    if kind in ("Linear", "Polynomial"):
        degree = 1 if kind == "Linear" else get(spec, "degree", 2)
        if not get(spec, "intercept", True):
            mean = np.average(to_bins(x, points), weights=w)
            basis, P = (lambda v: v[:, None] - mean), np.eye(1)
        else:  # the scale matters only for the conditioning and for a penalised polynomial
            centre, half = (x.max() + x.min()) / 2, (x.max() - x.min()) / 2 or 1.0
            basis = lambda v: ((v - centre) / half)[:, None] ** np.arange(degree + 1)  # noqa: E731
            P = np.diag([0.0] + [1.0] * degree)
            extra["to_raw"] = lambda theta: power_coefficients(theta, centre, half)
    elif kind == "Step":
        size = spec.bins if isinstance(getattr(spec, "bins", None), int) else 128
        cuts = train.cuts.get(column)
        cuts = step_cuts(x, w, size) if cuts is None else cuts
        basis = lambda v: np.eye(len(cuts) + 1)[np.searchsorted(cuts, v)]  # noqa: E731
        spikes = get(spec, "kind", "steps") == "spikes"
        P = np.eye(len(cuts) + 1) if spikes else difference_penalty(len(cuts) + 1, 1)
    else:
        knots, degree = spline_knots(x, w, spec), get(spec, "degree", 3)
        beyond = get(spec, "extrapolate", "constant")
        basis = lambda v: spline_rows(v, knots, degree, beyond)  # noqa: E731
        d = len(knots) - degree - 1
        P = difference_penalty(d, get(spec, "differences", 2))
        extra["flat"] = d if get(spec, "tails", "flat") == "flat" else 0
        if kind == "Centered":
            extra["flat"] = 0
            greville = [knots[j + 1 : j + degree + 1].mean() for j in range(d)]
            extra["linear"] = np.column_stack([np.ones(d), greville])
    own = kind in ("Spline", "Step") and np.isnan(train.columns[column]).any()

    def rows(columns: Columns, at_bins: bool) -> np.ndarray:
        v = columns[column]
        miss = np.isnan(v)
        B = basis(to_bins(v[~miss], points) if at_bins else v[~miss])
        X = np.full((len(v), B.shape[1] + own), 0.0 if own else np.nan)
        X[~miss, : B.shape[1]] = B
        if own:
            X[miss, -1] = 1.0
        return X

    if own:  # the missing column has a ridge of its own; with spikes it is penalised like a level
        P = np.pad(P, (0, 1))
        P[-1, -1] = float(get(spec, "kind", "") == "spikes")
        extra["ridge"] = MISSING_RIDGE * (1.0 - P[-1, -1])
    return filled(rows, train), P, extra


def one_hot(column: str, levels: list[str]) -> Callable[[Columns, bool], np.ndarray]:
    def rows(columns: Columns, at_bins: bool) -> np.ndarray:
        found = [MISSING if v is None else v for v in labels(columns[column])]
        X = np.array([[v == level for level in levels] for v in found], float)
        X[X.sum(axis=1) == 0] = np.nan  # an unseen level, or a missing cell unseen in training
        return X

    return rows


def tensor_basis(
    spec: Any, train: Training, rule: str | int
) -> tuple[Callable, np.ndarray, dict[str, Any]]:
    """Return the row-wise Kronecker product (a-major), its penalty, and extras for Term.

    The penalty is P_a (x) I + I (x) P_b.
    """
    rows, P, ones = [], [], []
    steps = min(32, max(4, int(1.5 * np.cbrt(len(train.w)))))
    for margin in (spec.a, spec.b):
        if isinstance(margin, str):
            number = train.columns[margin].dtype.kind == "f"
            smooth = ("Step", {"bins": steps}) if spec.orthogonal else ("Spline", {"knots": 10})
            kind, own = smooth if number else ("Category", {})
            margin = type(kind, (), {"column": margin, **own})()
        own = get(margin, "bins", get(spec, "bins", rule))
        if train.columns[margin.column].dtype.kind == "f" and type(margin).__name__ != "Category":
            distinct = len(np.unique(train.known(margin.column)[0]))
            if own in ("exact", "auto") and distinct > MAX_TENSOR_BINS:
                own = MAX_TENSOR_BINS
        (term,) = make_terms(margin, "", train, own)
        rows.append(term.rows)
        P.append(term.penalty)
        powers = type(margin).__name__ in ("Linear", "Polynomial")
        ones.append(np.eye(1, len(P[-1])) if powers else np.ones((1, len(P[-1]))))
    da, db = len(P[0]), len(P[1])

    def product(columns: Columns, at_bins: bool) -> np.ndarray:
        Xa, Xb = rows[0](columns, at_bins), rows[1](columns, at_bins)
        return np.einsum("ni,nj->nij", Xa, Xb).reshape(len(Xa), da * db)

    penalty = np.kron(P[0], np.eye(db)) + np.kron(np.eye(da), P[1])
    main = np.vstack([np.kron(np.eye(da), ones[1]), np.kron(ones[0], np.eye(db))]).T
    inner = np.kron(np.arange(da) > 0, np.arange(db) > 0)
    return product, penalty, {"additive": main, "inner": inner} if spec.orthogonal else {}


def make_terms(spec: Any, name: str, train: Training, rule: str | int) -> list[Term]:
    """Return the learners of a spec: one, or one per level for binary categories."""
    kind = type(spec).__name__
    if kind == "Tensor":
        product, P, extra = tensor_basis(spec, train, rule)
        return [Term(name, spec, product, P, **extra)]
    column = spec.column
    if kind == "Missing":
        gone = lambda c, at: np.array([[v is None] for v in labels(c[column])], float)  # noqa: E731
        return [Term(name, spec, gone, np.eye(1), ridge=MISSING_RIDGE)]
    if kind == "Category":
        levels = sorted_levels(train.columns[column], labels(train.columns[column]))
        rows = filled(one_hot(column, levels), train)
        if get(spec, "kind", "ridge") == "ridge":
            return [Term(name, spec, rows, np.eye(len(levels)), levels)]
        return [
            Term(
                f"{get(spec, 'name', column)}={level}",
                spec,
                lambda c, at, j=j: rows(c, at)[:, [j]],
                np.eye(1),
                [level],
            )
            for j, level in enumerate(levels)
        ]
    rows, P, extra = numeric_basis(spec, train, rule)
    return [Term(name, spec, rows, P, **extra)]


def spec_names(learners: Sequence[Any]) -> list[str]:
    """Return names: the column; "spline(age)" if several specs share it; "lon:lat" for a tensor."""
    shared = [getattr(s, "column", None) for s in learners]
    out = []
    for s in learners:
        if type(s).__name__ == "Tensor":
            a, b = (m if isinstance(m, str) else m.column for m in (s.a, s.b))
            default = f"{a}:{b}"
        elif shared.count(s.column) > 1:
            spikes = get(s, "kind", "") == "spikes"
            default = f"{'spikes' if spikes else type(s).__name__.lower()}({s.column})"
        else:
            default = s.column
        out.append(get(s, "name", default))
    return out


# --- penalised least squares ----------------------------------------------------------------------


@dataclass
class Solver:
    """theta = K s on one part of the rows, with K = (A + lambda P)^-1 (Centered: Q K Q')."""

    X: np.ndarray
    w: np.ndarray
    A: np.ndarray
    K: np.ndarray
    smoothing: float
    df: float
    net_df: float
    condition: float  # condition number of the system that is solved

    def solve(self, r: np.ndarray) -> tuple[np.ndarray, float]:
        """Return coefficients (d, q) for residuals (n, q) and gain 2 theta's - theta'A theta."""
        s = self.X.T @ (self.w[:, None] * r)
        theta = self.K @ s
        return theta, float(np.sum(theta * (2 * s - self.A @ theta)))


def find_smoothing(
    A: np.ndarray,
    P: np.ndarray,
    t: np.ndarray,
    w_sum: float,
    df: float,
    kind: str,
    net: bool,
    tau: float | None = None,
) -> float:
    """Return lambda such that the sum of g(h_j) (net: of g(h_j) (1 - c_j^2)) equals df.

    h = a / (a + (lambda / tau)(1 - a)), a the eigenvalues of A against A + tau P;
    g(h) = 2h - h^2 (df2) or h (df1); c_j = share of the constant in the j-th direction, t = X'W1.
    """
    if not A.any():  # a Missing or binary learner without such cells in this part
        return 0.0
    tau = np.trace(A) / np.trace(P) if tau is None else tau
    e, V = np.linalg.eigh(A + tau * P)
    U = V[:, e > 1e-13 * e[-1]] / np.sqrt(e[e > 1e-13 * e[-1]])
    a, V = np.linalg.eigh(U.T @ A @ U)
    keep = a > RANK
    a, V = np.minimum(a[keep], 1.0), U @ V[:, keep]
    share = (V.T @ t) ** 2 / (a * w_sum) if net else np.zeros(len(a))

    def reached(smoothing: float) -> float:
        h = a / (a + smoothing / tau * (1 - a))
        return float(np.sum((h if kind == "df1" else 2 * h - h * h) * (1 - share)))

    null = np.sum((1 - share)[a > 1 - RANK])
    if df >= reached(0.0) - 1e-9:
        return 0.0 if len(a) == len(A) else 1e-8 * tau
    if df <= null + 1e-9:
        raise ValueError(f"df {df} is at or below the null space of the penalty ({null})")
    low, high = np.log(tau) - 5, np.log(tau) + 5
    while reached(np.exp(low)) < df:
        low -= 5
    while reached(np.exp(high)) > df:
        high += 5
    return float(np.exp(brentq(lambda v: reached(np.exp(v)) - df, low, high, xtol=1e-14)))


def flat_tails(t: np.ndarray, d: int) -> np.ndarray:
    """Return the penalty on slopes in thin tails of d splines, given t = X'W1."""
    share, out = t[:d] / t[:d].sum(), np.zeros((len(t), len(t)))
    for j in range(d - 1):
        thin = 0.03 / d / max((share[j] + share[j + 1]) / 2, 1e-300)
        in_tail = min(share[: j + 1].sum(), share[j + 1 :].sum()) <= 0.01
        if thin > 1 and in_tail:
            difference = np.eye(len(t))[j + 1] - np.eye(len(t))[j]
            out += min(10 * (thin - 1), 1000) * np.outer(difference, difference)
    return out


def make_solver(term: Term, X: np.ndarray, w: np.ndarray, default_net_df: float) -> Solver:
    """Set up the normal equations of one learner on the rows with w > 0."""
    A, P, t = X.T @ (w[:, None] * X), term.penalty, X.T @ w
    if term.flat:
        P = P + flat_tails(t, term.flat)
    if term.additive is not None:
        return make_pair_solver(term, X, w, A, default_net_df)
    kind, centered = get(term.spec, "df_kind", "df2"), term.linear is not None
    smoothing, df = get(term.spec, "smoothing", None), get(term.spec, "df", None)
    if smoothing is None:
        net = df is None and not centered  # for Centered, df is the net df
        target = (default_net_df if df is None else df) + 2 * centered
        rest = slice(-1) if term.ridge else slice(None)  # missing cells have a fixed smoother
        if term.ridge:
            share = t[-1] / w.sum()
            h = share / (share + term.ridge)
            target -= (h if kind == "df1" else 2 * h - h * h) * (1 - share if net else 1)
        smoothing = find_smoothing(
            A[rest, rest], P[rest, rest], t[rest], w.sum(), target, kind, net
        )
    system = A + smoothing * P
    system[-1, -1] += term.ridge * w.sum()
    K = np.linalg.pinv(system, hermitian=True, rcond=1e-14)
    condition = np.linalg.cond(K)
    if centered:  # theta = Q (A + lambda P)^-1 Q's, where Q removes the linear part
        G = term.linear
        Q = np.eye(len(A)) - G @ np.linalg.solve(G.T @ A @ G, G.T @ A)
        K = Q @ K @ Q.T
    H = K @ A  # same trace as the hat matrix X K X'W
    constant = t @ K @ t  # 1'W H 1; below 1'W HH 1
    df1, df2 = np.trace(H), 2 * np.trace(H) - np.trace(H @ H)
    win = constant if kind == "df1" else 2 * constant - t @ K @ A @ K @ t
    df = float(df1 if kind == "df1" else df2)
    net_df = float(df - win / w.sum())
    return Solver(X, w, A, K, float(smoothing), df, net_df, condition)


def make_pair_solver(
    term: Term, X: np.ndarray, w: np.ndarray, A: np.ndarray, default_net_df: float
) -> Solver:
    """Set up theta = L Q (Q'A Q + lambda P)^+ Q's for a pair without main effects.

    Q removes the span of the main effects M by least squares over the raw rows; coefficients stay
    in the basis of the tensor. L is `smoothest`.
    """
    M, P, kind = X @ term.additive, term.penalty, get(term.spec, "df_kind", "df2")
    onto = np.linalg.pinv(M.T @ (w[:, None] * M), hermitian=True) @ (M.T @ (w[:, None] * X))
    Q, own = np.eye(len(A)) - term.additive @ onto, X - M @ onto
    A_own = own.T @ (w[:, None] * own)
    smoothing, df = get(term.spec, "smoothing", None), get(term.spec, "df", default_net_df)
    cost, inner = P @ term.additive, np.ix_(term.inner, term.inner)
    least = P - cost @ np.linalg.pinv(term.additive.T @ cost, 1e-10, hermitian=True) @ cost.T
    if smoothing is None:
        tau = np.trace(A_own[inner]) / np.trace(least[inner])
        none = np.zeros(len(A))
        smoothing = find_smoothing(A_own, P, none, w.sum(), df, kind, False, tau)
    tau = np.trace(A_own) / np.trace(P) or 1.0
    e, V = np.linalg.eigh(A_own + tau * P)
    U = V[:, e > 1e-12 * e[-1]] / np.sqrt(e[e > 1e-12 * e[-1]])
    a, V = np.linalg.eigh(U.T @ A_own @ U)
    a = np.where(a > RANK, np.minimum(a, 1.0), 0.0)
    g = a + smoothing / tau * (1 - a)
    U = (U @ V)[:, a > 0] / np.sqrt(g[a > 0])
    K = smoothest(term, X[w > 0]) @ Q @ U @ U.T @ Q.T
    H = K @ A
    df = float(np.trace(H) if kind == "df1" else 2 * np.trace(H) - np.trace(H @ H))
    condition = np.linalg.cond((A_own + smoothing * least)[inner])
    return Solver(X, w, A, K, float(smoothing), df, df, condition)


def smoothest(term: Term, X: np.ndarray) -> np.ndarray:
    """Return the matrix that chooses the smoothest of equivalent coefficients.

    It subtracts functions that are zero in all rows and additive or unpenalised, so as to minimise
    first the penalty and then the norm of the coefficients.
    """
    P = term.penalty
    functions = orthonormal(np.hstack([term.additive, null_space(P)]))
    E = functions @ null_space(X @ functions)
    e, V = np.linalg.eigh(E.T @ P @ E)
    costly = e > 1e-10 * np.linalg.norm(P)
    D, free = E @ V[:, costly] / np.sqrt(e[costly]), E @ V[:, ~costly]
    L = np.eye(len(P)) - D @ D.T @ P
    return L - free @ (free.T @ L)


def orthonormal(B: np.ndarray) -> np.ndarray:
    U, s, _ = np.linalg.svd(B, full_matrices=False)
    return U[:, s > 1e-10 * s[0]]


def null_space(B: np.ndarray) -> np.ndarray:
    _, s, V = np.linalg.svd(B)
    rank = int(np.sum(s > 1e-10 * s.max(initial=0.0)))
    return V[rank:].T


def best(solvers: list[Solver], r: np.ndarray) -> tuple[int, np.ndarray]:
    """Return the first-listed learner whose gain ties with the best, and its coefficients."""
    thetas, gains = zip(*(s.solve(r) for s in solvers), strict=True)
    k = int(np.flatnonzero(np.array(gains) >= (1 - TIE) * max(gains))[0])
    return k, thetas[k]


# --- losses: y (n, 1) or one-hot (n, q), scores f (n, q), offsets o (n, q) -----------------------


@dataclass
class Loss:
    """loss(y, f) -> (n,), residual(y, f) = -dloss/df -> (n, q), start and step scale."""

    loss: Callable[[np.ndarray, np.ndarray], np.ndarray]
    residual: Callable[[np.ndarray, np.ndarray], np.ndarray]
    start: Callable[[np.ndarray, np.ndarray, np.ndarray], Any]  # (y, o, w)
    scale: Callable[[np.ndarray, np.ndarray, np.ndarray, Any], float] = lambda y, o, w, start: 1.0


def mean(values: np.ndarray, w: np.ndarray) -> float:
    return float(w @ np.ravel(values) / w.sum())


def mean_deviation(y: np.ndarray, o: np.ndarray, w: np.ndarray) -> float:
    """Return the weighted mean of |y - o - weighted median|."""
    u = (y - o)[:, 0]
    return mean(np.abs(u - weighted_quantile(u, w, 0.5)), w)


def quantile_loss(tau: float, factor: float) -> Loss:
    """Check loss times factor (absolute: tau = 1/2, factor 2); residual 0 where y = f exactly."""

    def residual(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        u = y - f
        return factor * np.where(u > 0, tau, np.where(u < 0, tau - 1, 0.0))

    return Loss(
        lambda y, f: factor * (np.where(y > f, tau, tau - 1) * (y - f))[:, 0],
        residual,
        lambda y, o, w: weighted_quantile((y - o)[:, 0], w, tau),
        lambda y, o, w, start: mean_deviation(y, o, w),
    )


def constant_by_root(residual: Callable, y: np.ndarray, o: np.ndarray, w: np.ndarray) -> float:
    """Return the constant at which the weighted residuals sum to zero; they decrease with it."""
    slope = lambda c: mean(residual(y, o + c), w)  # noqa: E731
    high = 1.0
    while slope(-high) < 0 or slope(high) > 0:
        high *= 2
        if high > 1e9:
            raise ValueError("infinite start")
    return float(brentq(slope, -high, high, xtol=1e-14, rtol=1e-15))


def huber_loss(delta: float) -> Loss:
    def loss(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        u = np.abs(y - f)[:, 0]
        return np.where(u <= delta, u * u / 2, delta * (u - delta / 2))

    def residual(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.clip(y - f, -delta, delta)

    return Loss(
        loss,
        residual,
        lambda y, o, w: constant_by_root(residual, y, o, w),
        lambda y, o, w, start: max(1.0, mean_deviation(y, o, w) / delta),
    )


def tweedie_loss(p: float) -> Loss:
    """Tweedie loss with log link: p = 1 is poisson, p = 2 is gamma; omits terms constant in f."""

    def loss(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        first = -y * f if p == 1 else -y * np.exp((1 - p) * f) / (1 - p)
        return (first + (f if p == 2 else np.exp((2 - p) * f) / (2 - p)))[:, 0]

    def residual(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return y * np.exp((1 - p) * f) - np.exp((2 - p) * f)

    def start(y: np.ndarray, o: np.ndarray, w: np.ndarray) -> float:
        return float(np.log(mean(y * np.exp((1 - p) * o), w) / mean(np.exp((2 - p) * o), w)))

    def scale(y: np.ndarray, o: np.ndarray, w: np.ndarray, start: Any) -> float:
        f = o + start
        return 1 / mean((p - 1) * y * np.exp((1 - p) * f) + (2 - p) * np.exp((2 - p) * f), w)

    return Loss(loss, residual, start, scale)


def binomial_loss() -> Loss:
    def residual(y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return y * np.exp(-np.logaddexp(0, y * f))  # y / (1 + e^{yf})

    def start(y: np.ndarray, o: np.ndarray, w: np.ndarray) -> float:
        if np.ptp(y) == 0:
            raise ValueError("infinite start")
        return constant_by_root(residual, y, o, w)

    return Loss(
        lambda y, f: np.logaddexp(0, -y * f)[:, 0],
        residual,
        start,
        lambda *_: 4.0,  # 1/max p(1-p)
    )


def multinomial_loss() -> Loss:
    def probabilities(f: np.ndarray) -> np.ndarray:
        return np.exp(f - logsumexp(f, axis=1, keepdims=True))

    def start(y: np.ndarray, o: np.ndarray, w: np.ndarray) -> np.ndarray:
        c = np.log(w @ y)  # exact without offsets; Newton on the sum-to-zero space with them
        c -= c.mean()
        for _ in range(100):
            p = probabilities(o + c)
            hessian = np.diag(w @ p) - p.T @ (w[:, None] * p)
            c = c + np.linalg.pinv(hessian, hermitian=True) @ (w @ (y - p))
        return c - c.mean()

    return Loss(
        lambda y, f: logsumexp(f, axis=1) - np.sum(y * f, axis=1),
        lambda y, f: y - probabilities(f),
        start,
        lambda *_: 2.0,  # 1 / largest eigenvalue of diag(p) - pp'
    )


def make_loss(name: str, tau: float, delta: float, power: float) -> Loss:
    squared = Loss(
        lambda y, f: ((y - f) ** 2 / 2)[:, 0],
        lambda y, f: y - f,
        lambda y, o, w: mean(y - o, w),
    )
    return {
        "squared": lambda: squared,
        "absolute": lambda: quantile_loss(0.5, 2.0),
        "quantile": lambda: quantile_loss(tau, 1.0),
        "huber": lambda: huber_loss(delta),
        "binomial": binomial_loss,
        "multinomial": multinomial_loss,
        "poisson": lambda: tweedie_loss(1.0),
        "gamma": lambda: tweedie_loss(2.0),
        "tweedie": lambda: tweedie_loss(power),
    }[name]()


def code_target(y: Any, loss: str) -> tuple[np.ndarray, list | None]:
    """Return y as the losses need it (binomial: -1 / 1, multinomial: one-hot), and the classes."""
    if loss not in ("binomial", "multinomial"):
        return np.asarray(y, float)[:, None], None
    classes = sorted(set(np.asarray(y).tolist()))
    hot = np.array([[v == c for c in classes] for v in np.asarray(y).tolist()], float)
    return (2 * hot[:, [1]] - 1 if loss == "binomial" else hot), classes


# --- boosting -----------------------------------------------------------------------------------


@dataclass
class Fit:
    """The result of a fit. `path` holds internal coefficients, `at` returns public coefficients."""

    terms: list[Term]
    solvers: list[Solver]  # for the rows used last
    start: float | np.ndarray
    scale: float
    classes: list | None
    path: list[list[np.ndarray]]  # [m][learner] -> (d, q), m = 0..M
    score_path: np.ndarray  # (M + 1, n, q), at the bins; NaN for rows of weight zero
    choice_index: list[int]
    correction_index: list[int]
    risk: np.ndarray
    validation_risk: np.ndarray | None
    switched_at: int | None  # Hybrid: iterations run before the switch
    rewound_to: int | None

    names = property(lambda self: [t.name for t in self.terms])
    choices = property(lambda self: [self.terms[k].name for k in self.choice_index])
    corrections = property(lambda self: [self.terms[k].name for k in self.correction_index])
    smoothing = property(lambda self: [s.smoothing for s in self.solvers])
    df = property(lambda self: [s.df for s in self.solvers])
    net_df = property(lambda self: [s.net_df for s in self.solvers])
    levels = property(lambda self: [t.levels for t in self.terms])
    coef = property(lambda self: self.at(len(self.choice_index)))
    scores = property(lambda self: self.scores_at(len(self.choice_index)))

    @property
    def best_iteration(self) -> int:
        """Return the first minimum of the validation risk, or without one the last iteration."""
        if self.validation_risk is None:
            return len(self.choice_index)
        return int(np.argmin(self.validation_risk))

    def at(self, m: int) -> list[np.ndarray]:
        """Return public coefficients per learner after m iterations: (d,), multinomial: (d, q)."""
        out = [t.to_raw(theta) for t, theta in zip(self.terms, self.path[m], strict=True)]
        return [c[:, 0] if c.shape[1] == 1 else c for c in out]

    def scores_at(self, m: int) -> np.ndarray:
        """Return the scores of all rows at the bins after m iterations, including the offset."""
        f = self.score_path[m]
        return f[:, 0] if f.shape[1] == 1 else f

    def predict(self, columns: Columns, offset: Any = 0.0, m: int | None = None) -> np.ndarray:
        """Return the scores at raw values."""
        thetas = self.path[len(self.choice_index) if m is None else m]
        f = sum(t.rows(columns, False) @ c for t, c in zip(self.terms, thetas, strict=True))
        f = f + np.reshape(offset, (-1, 1)) + np.atleast_1d(self.start)
        return f[:, 0] if f.shape[1] == 1 else f


def fit(
    columns: Columns,
    y: Any,
    learners: Sequence[Any],
    loss: str = "squared",
    tau: float = 0.5,
    delta: float = 1.0,
    power: float = 1.5,
    optimizer: Any = None,
    n_iter: int = 100,
    bins: str | int = "exact",
    weights: Any = None,
    offset: Any = None,
    start: Any = None,
    scale: float | None = None,
    validation: Any = None,
    cuts: dict[str, np.ndarray] | None = None,
) -> Fit:
    """Fit by componentwise boosting with dense algebra.

    Parameters
    ----------
    columns : float arrays (NaN missing) or object / str arrays (None missing)
    learners : specs, read by class name and attributes
    optimizer : object whose class is named Plain, Accelerated or Hybrid; None is Plain at rate 0.1
    start, scale : override the constant and the step scale of the loss
    validation : mask of validation rows
    cuts : upper inclusive ends of Step bins per column, instead of `step_cuts`
    """
    n = len(np.asarray(y))
    target, classes = code_target(y, loss)
    w_all = np.ones(n) if weights is None else np.asarray(weights, float)
    held = np.zeros(n, bool) if validation is None else np.asarray(validation, bool)
    keep = w_all > 0  # weight zero means absent
    q = target.shape[1]
    o = np.zeros((n, q)) if offset is None else np.reshape(offset, (n, -1)) + np.zeros((n, q))
    columns = {name: np.asarray(v)[keep] for name, v in columns.items()}
    columns = {k: v.astype(float) if v.dtype.kind in "iuf" else v for k, v in columns.items()}
    target, o, w, held = target[keep], o[keep], w_all[keep], held[keep]
    parts = {"training": np.where(held, 0, w), "validation": np.where(held, w, 0), "all": w}

    in_training = Training({k: v[~held] for k, v in columns.items()}, w[~held], bins, cuts or {})
    terms = [
        term
        for spec, name in zip(learners, spec_names(learners), strict=True)
        for term in make_terms(spec, name, in_training, bins)
    ]
    default = 1.0 if any(type(s).__name__ == "Centered" for s in learners) else 4.0
    designs = [t.rows(columns, True) for t in terms]

    def solvers_of(part: str) -> list[Solver]:
        pairs = zip(terms, designs, strict=True)
        return [make_solver(t, X, parts[part], default) for t, X in pairs]

    rule = make_loss(loss, tau, delta, power)
    own = (target[~held], o[~held], w[~held])
    start = rule.start(*own) if start is None else start
    if not np.all(np.isfinite(start)):
        raise ValueError("infinite start")
    scale = rule.scale(*own, start) if scale is None else scale
    f0 = o + start

    def state(coef: list[np.ndarray]) -> np.ndarray:
        """Return row scores, always computed as start + design x coef and never updated."""
        return f0 + sum(X @ c for X, c in zip(designs, coef, strict=True))

    def risk(f: np.ndarray, part: str) -> float:
        return mean(rule.loss(target, f), parts[part])

    rate, momentum = get(optimizer, "rate", 0.1) * scale, get(optimizer, "momentum", 0.0034)
    kind = "Plain" if optimizer is None else type(optimizer).__name__
    accelerated, solvers = kind != "Plain", solvers_of("training")
    zero = [np.zeros((X.shape[1], q)) for X in designs]
    f = h = zero
    path, scores = [zero], [f0]
    risks = {part: [risk(f0, part)] for part in ("training", "validation") if parts[part].any()}
    choices: list[int] = []
    corrections: list[int] = []
    switched_at = rewound_to = None
    c = fitted = np.zeros_like(f0)

    for m in range(1, n_iter + 1):
        if accelerated:
            v = 2 / (m + 1)
            g = mixed(1 - v, f, v, h)
            r = rule.residual(target, state(g))
            k, theta = best(solvers, r)
            f = added(g, k, rate * theta)
            c = r if m == 1 else r + m / (m + 1) * (c - fitted)
            k_cor, theta_cor = best(solvers, c)
            fitted = designs[k_cor] @ theta_cor
            h = added(h, k_cor, momentum * rate / v * theta_cor)
            corrections.append(k_cor)
        else:
            k, theta = best(solvers, rule.residual(target, state(f)))
            f = added(f, k, rate * theta)
        choices.append(k)
        path.append(f)
        scores.append(state(f))
        for part, values in risks.items():
            values.append(risk(scores[-1], part))
        if kind == "Hybrid" and accelerated and must_switch(risks["validation"], optimizer):
            accelerated, switched_at = False, m
            if get(optimizer, "rewind", True):
                rewound_to = int(np.argmin(risks["validation"]))
                f = path[rewound_to]
            solvers = solvers_of(get(optimizer, "then", "all"))

    score_path = np.full((len(path), n, q), np.nan)
    score_path[:, keep] = scores
    held_risk = risks.get("validation")
    return Fit(
        terms, solvers, start, float(scale), classes, path, score_path, choices, corrections,
        np.array(risks["training"]), None if held_risk is None else np.array(held_risk),
        switched_at, rewound_to,
    )  # fmt: skip


def added(coef: list[np.ndarray], k: int, step: np.ndarray) -> list[np.ndarray]:
    return [c + step if j == k else c for j, c in enumerate(coef)]


def mixed(a: float, x: list[np.ndarray], b: float, y: list[np.ndarray]) -> list[np.ndarray]:
    return [a * xi + b * yi for xi, yi in zip(x, y, strict=True)]


def must_switch(risk: list[float], optimizer: Any) -> bool:
    """Return whether the validation risk rose `switch_after` times in a row or had no new minimum
    for `switch_patience` iterations."""
    after = get(optimizer, "switch_after", 5)
    patience = getattr(optimizer, "switch_patience", "auto")
    if patience == "auto":
        patience = 10 * after
    rises = np.diff(risk[-after - 1 :]) > 0
    rose = len(rises) == after and bool(rises.all())
    return rose or (patience is not None and len(risk) - 1 - int(np.argmin(risk)) >= patience)
