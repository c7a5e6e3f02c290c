"""Area `formulas`: formulas made from the grammar, and mutated ones.

A formula gives a model or a FormulaError. Nothing in it is ever evaluated.
"""

from __future__ import annotations

import cwboost as cb
from fuzz.callables import TABLE, Y
from fuzz.tables import Rng, pick

COLUMNS = ["x", "z", "g", "k", "`x`", "`a b`", "y", "w", "."]
FUNCTIONS = ["s", "lin", "cat", "poly", "te", "ti", "step", "missing", "centered", "log", "factor",
             "spikes", "f"]  # fmt: skip
KEYWORDS = ["df", "knots", "degree", "bins", "kind", "name", "smoothing", "orthogonal", "tails"]
LITERALS = ["3", "0", "-1", "1e400", "2.5", "'x'", '"y"', "True", "None", "1" * 30, "nan", "[]",
            "'quantile'", "4", "5", "__import__('os').abort()", "''"]  # fmt: skip
ODD = ["~", "+", "-", "(", ")", ",", "=", "`", "'", '"', "*", ":", "^", "\n", "\0", "é", "\ud800",
       "((", "..", " ", "|", "%", "1", "y ~", "x" * 3000, "(" * 2000, "+" * 500]  # fmt: skip


def case(rng: Rng, tried: list[str]) -> None:
    formula = make_formula(rng)
    for _ in range(int(pick(rng, [0, 0, 1, 1, 2, 5]))):
        formula = mutate(rng, formula)
    tried.append(repr(formula[:300]))
    model = cb.fit(TABLE | {"y": Y, "a b": Y}, formula, n_iter=2)
    tried.append("fitted")
    model.predict(TABLE | {"a b": Y})
    model.summary()


def make_formula(rng: Rng) -> str:
    """Return a formula of the grammar; names and values may be wrong."""
    target = pick(rng, ["y", "y", "y", "`y`", "", "none"])
    out = make_term(rng)
    for _ in range(int(pick(rng, [0, 0, 1, 2, 4]))):
        sign = pick(rng, [" + ", " + ", "+", " - "])
        out += sign + (pick(rng, COLUMNS) if sign == " - " else make_term(rng))
    return f"{target} ~ {out}"


def make_term(rng: Rng, depth: int = 0) -> str:
    """Return a column or a function of columns."""
    if rng.uniform() < 0.3:
        return str(pick(rng, COLUMNS))
    name = pick(rng, FUNCTIONS)
    parts = [pick(rng, COLUMNS[:4])]
    if name in ("te", "ti"):
        nested = depth < 2 and rng.uniform() < 0.3
        parts.append(make_term(rng, depth + 1) if nested else pick(rng, COLUMNS[:4]))
    for _ in range(int(pick(rng, [0, 0, 1, 2]))):
        keyword = f"{pick(rng, KEYWORDS)}=" if rng.uniform() < 0.8 else ""
        parts.append(f"{keyword}{pick(rng, LITERALS)}")
    return f"{name}({', '.join(parts)})"


def mutate(rng: Rng, formula: str) -> str:
    """Return the formula with characters removed, added, doubled or swapped."""
    at, end = sorted(rng.integers(0, len(formula) + 1, 2).tolist())
    return str(
        pick(
            rng,
            [
                formula[:at] + formula[end:],
                formula[:at] + pick(rng, ODD) + formula[at:],
                formula[:end] + formula[at:],
                formula[end:] + formula[:end],
                formula[:at] + formula[at:end][::-1] + formula[end:],
            ],
        )
    )
