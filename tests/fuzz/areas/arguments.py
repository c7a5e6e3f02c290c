"""Area `arguments`: every public callable with one or two odd arguments.

The other arguments are valid, so that the odd one decides. The callable must return or refuse.
"""

from __future__ import annotations

from typing import Any

from matplotlib import pyplot

from fuzz.callables import QUICK, VALUES, Target, find_targets, registries_kept, valid_values
from fuzz.tables import Rng, pick
from fuzz.values import odd_value, show
from fuzz.verdict import call

# Parameters for which a large number is valid but slow.
AMOUNTS = {"n", "n_iter", "n_boot", "n_samples", "repeats", "folds", "cv", "bags", "least", "most",
           "patience", "knots", "time_limit", "longer", "row", "rows", "m", "degree", "dpi",
           "p"}  # fmt: skip
LARGE = 1000


def case(rng: Rng, tried: list[str]) -> None:
    target = pick(rng, find_targets())
    arguments = make_arguments(rng, target)
    tried.append(f"{target.name}({', '.join(f'{k}={show(v)}' for k, v in arguments.items())})")
    function = target.make(rng)
    try:
        with registries_kept():
            result = call(function, **arguments)
            tried.append("use of the result")
            target.use(result)
    finally:
        pyplot.close("all")


def make_arguments(rng: Rng, target: Target) -> dict[str, Any]:
    """Return arguments of a callable of which one or two are odd."""
    out = {}
    for name, required in target.parameters.items():
        if required or name in QUICK or rng.uniform() < 0.1:
            out[name] = draw(rng, valid_values(target.name, name) or (None,))
    for _ in range(int(rng.integers(1, 3)) if target.parameters else 0):
        name = pick(rng, target.parameters)
        out[name] = odd_argument(rng, name)
    return out


def odd_argument(rng: Rng, name: str) -> Any:
    """Return an odd value, or a valid value of another parameter."""
    while True:
        value = odd_value(rng) if rng.uniform() < 0.8 else draw(rng, pick(rng, VALUES.values()))
        if name not in AMOUNTS or not _is_slow(value):
            return value


def _is_slow(value: Any) -> bool:
    return isinstance(value, int | float) and LARGE < value < 2**63


def draw(rng: Rng, values: tuple[Any, ...]) -> Any:
    """Return one of the values; functions make theirs."""
    value = pick(rng, values) if values else None
    return value() if callable(value) and not isinstance(value, type) else value
