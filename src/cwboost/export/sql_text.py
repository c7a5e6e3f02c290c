"""SQL text: how each dialect writes numbers, text, names and piecewise polynomials.

Does not know about models or queries (see sql.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.model.pieces import Axis, TermPieces

SUM_GROUP = 50  # summands in a group: databases limit the depth of a + b + c + ...


Lines = list[str]  # an expression; line breaks within a line are inside quotes


@dataclass(frozen=True)
class Dialect:
    """What differs between databases."""

    real: str
    text: str  # the cast to text; {} is the column
    char: str  # the function that returns the character with a given number
    days: str  # dates as days since 1970-01-01 in UTC, to the microsecond if possible
    duration_days: str  # durations as days
    nan: bool = False  # floats may be NaN, which equals itself
    suffix: str = ""  # added to a literal, so that it is a float and not a decimal
    exact_literals: bool = True  # decimal text is read as the nearest float
    boolean: str = "{}"  # the cast of a truth value to a number
    cast_effects: bool = False  # literals are decimals
    strict_exp: bool = False  # exp raises where others return infinity or zero
    folds_case: bool = True  # quoted names that differ only in case are the same name
    max_name: int | None = None  # bytes
    keeps_zero_byte: bool = True
    materialize: bool = False  # else a score is computed as often as it is used


# SQLite has no type for dates: text is a date, to the millisecond, and numbers are days.
SQLITE_DAYS = (
    "CASE typeof({0}) WHEN 'text' THEN (CAST(strftime('%s', {0}) AS INTEGER) * 1000 + "
    "CAST(substr(strftime('%f', {0}), 4) AS INTEGER)) / 86400000.0 ELSE {0} END"
)
POSTGRES_DAYS = "CAST(EXTRACT(EPOCH FROM {0}) * 1000000 AS double precision) / 86400000000"

DIALECTS = {
    "duckdb": Dialect(
        "DOUBLE",
        "CAST({} AS VARCHAR)",
        "chr",
        days="epoch_us({0}) / 86400e6",
        duration_days="epoch_us({0}) / 86400e6",
        nan=True,
        suffix="e0",
    ),
    # COLLATE BINARY: a text column may have been declared to ignore case or trailing blanks.
    "sqlite": Dialect(
        "REAL",
        "CAST({} AS TEXT) COLLATE BINARY",
        "char",
        days=SQLITE_DAYS,
        duration_days="{0}",
        exact_literals=False,
        materialize=True,
    ),
    "postgres": Dialect(
        "double precision",
        "CAST({} AS text)",
        "chr",
        days=POSTGRES_DAYS,
        duration_days=POSTGRES_DAYS,
        nan=True,
        boolean="CAST({} AS integer)",
        cast_effects=True,
        strict_exp=True,
        folds_case=False,
        max_name=63,
        keeps_zero_byte=False,
        materialize=True,
    ),
}


@dataclass(frozen=True)
class SqlWriter:
    """Writes numbers, text, names and terms in one dialect."""

    dialect: Dialect

    def name(self, name: str) -> str:
        if not name or "\0" in name or not _is_utf8(name):
            raise ValueError(f"{quote(name)} cannot be the name of a column or table in a database")
        return '"' + name.replace('"', '""') + '"'

    def number(self, value: float) -> str:
        text = repr(float(value) + 0.0)  # + 0.0 turns -0.0 into 0.0
        return text if "e" in text else text + self.dialect.suffix

    def exact(self, value: float) -> str:
        """Return a literal that is read as exactly this number, for use in comparisons.

        SQLite reads some decimals with more than 15 digits with an error in the last place.
        Fractions whose denominator is a power of two are always exact.
        """
        digits = len(repr(abs(value)).split("e")[0].replace(".", "").strip("0"))
        if self.dialect.exact_literals or digits <= 15:
            return self.number(value)
        top, below = value.as_integer_ratio()
        return f"({top} / {below}.0)" if below < 2**63 else self.number(value)

    def text(self, value: str) -> str:
        parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
        return f" || {self.dialect.char}(0) || ".join(parts)

    def term(self, pieces: TermPieces, output: int) -> Lines:
        """Return the effect as a CASE expression; for two columns one CASE inside another."""
        axes, coef = _in_units(pieces.axes, pieces.coef[..., output])
        if len(axes) == 1:
            axis = axes[0]
            return self.cases(axis, [[self.polynomial(axis, k, c)] for k, c in enumerate(coef)])
        a, b = axes
        if a.breaks is not None and b.breaks is None:  # one curve per level reads best
            a, b, coef = b, a, coef.transpose(1, 0, 3, 2)
        return self.cases(
            a,
            [
                self.cases(b, [[self.surface(a, i, b, j, coef[i, j])] for j in range(b.n_pieces)])
                for i in range(a.n_pieces)
            ],
        )

    def cases(self, axis: Axis, values: list[Lines]) -> Lines:
        """Return a CASE expression with one value per piece; equal neighbours share a branch.

        Comparisons with NULL are not true, so missing cells without a branch go to ELSE.
        """
        column, known, missing = self.name(axis.column), values[: axis.n_known], axis.n_known
        branches: list[tuple[str, Lines]] = []
        if axis.breaks is None:
            other = values[-1]
            same: dict[tuple[str, ...], list[int]] = {}
            for i, value in enumerate(known):
                same.setdefault(tuple(value), []).append(i)
            for alike, which in same.items():
                found = self.levels(axis, which) if list(alike) != other else []
                if found:
                    condition = f"= {found[0]}" if len(found) == 1 else f"IN ({', '.join(found)})"
                    branches.append((condition, list(alike)))
        else:
            other = known[-1]
            branches += [
                (self.below(axis, i), value)
                for i, value in enumerate(known[:-1])
                if value != known[i + 1]
            ]
        if values[missing] != other:
            branches.insert(0, ("IS NULL", values[missing]))
        if not branches:
            return other
        lines = []
        for condition, value in branches:
            lines += [f"WHEN {column} {condition} THEN {value[0]}", *value[1:]]
        return ["CASE", *indent([*lines, f"ELSE {other[0]}", *other[1:]]), "END"]

    def levels(self, axis: Axis, which: list[int]) -> list[str]:
        """Return the literals of levels, without those that no database column can hold."""
        if axis.numeric:
            return [self.exact(axis.level_numbers[i]) for i in which]
        held = [text for i in which for text in axis.level_texts[i] if _is_utf8(text)]
        if not self.dialect.keeps_zero_byte:
            held = [level for level in held if "\0" not in level]
        return [self.text(level) for level in held]

    def below(self, axis: Axis, i: int) -> str:
        """Return the condition of interval i, given that the conditions before it are false."""
        assert axis.breaks is not None
        point = float(axis.breaks[i])
        if axis.continuous:
            return f"< {self.number(point)}"
        if not axis.closed_above:
            return f"< {self.exact(point)}"
        # The cut below a frequent value v is the float before v: `< v` reads better.
        above = math.nextafter(point, math.inf)
        if len(repr(above)) < len(repr(point)):
            return f"< {self.exact(above)}"
        return f"<= {self.exact(point)}"

    def polynomial(self, axis: Axis, piece: int, coef: Floats) -> str:
        return self.horner(axis, piece, [self.number(c) for c in _trimmed(coef)])

    def surface(self, a: Axis, i: int, b: Axis, j: int, coef: Floats) -> str:
        """Return a polynomial in the variable of `a` whose coefficients are polynomials in `b`."""
        return self.horner(a, i, [self.polynomial(b, j, row) for row in _trimmed(coef)])

    def horner(self, axis: Axis, piece: int, coef: list[str]) -> str:
        """Return c0 + t * (c1 + t * (c2 + ...))."""
        out = coef[-1]
        for c in reversed(coef[:-1]):
            out = f"{c} + {self.place(axis, piece)} * ({out})"
        return out

    def place(self, axis: Axis, piece: int) -> str:
        """Return t, the position of the value within its piece."""
        out, origin, width = self.name(axis.column), axis.origin[piece], axis.width[piece]
        if origin != 0.0:
            sign = "-" if origin > 0.0 else "+"
            out = f"({out} {sign} {self.number(abs(origin))})"
        return out if width == 1.0 else f"({out} / {self.number(width)})"


def _in_units(axes: Sequence[Axis], coef: Floats) -> tuple[list[Axis], Floats]:
    """Return the polynomials in x - origin, which reads better, unless widths are extreme."""
    out = []
    for j, axis in enumerate(axes):
        powers = np.arange(axis.degree + 1)
        if np.abs(np.log10(axis.width)).max() * axis.degree < 100:
            scale = axis.width[:, None] ** powers  # (pieces, powers)
            if len(axes) == 1:
                coef = coef / scale
            else:
                coef = coef / (scale[:, None, :, None] if j == 0 else scale[None, :, None, :])
            axis = replace(axis, width=np.ones(axis.n_pieces))
        out.append(axis)
    return out, coef


def _trimmed(coef: Floats) -> Floats:
    """Return the coefficients without the zeros of the highest powers."""
    used = np.flatnonzero(coef.reshape(len(coef), -1).any(axis=1))
    return coef[: used[-1] + 1] if len(used) else coef[:1]


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def sum_of(terms: list[str]) -> str:
    """Return a sum of any length as a tree of small depth."""
    while len(terms) > SUM_GROUP:
        groups = [terms[i : i + SUM_GROUP] for i in range(0, len(terms), SUM_GROUP)]
        terms = [f"({' + '.join(group)})" for group in groups]
    return " + ".join(terms)


def comment_of(name: str) -> str:
    """Return the name on one line, because a line break would end the comment."""
    return "".join(c if c.isprintable() else " " for c in name)


# --- names and layout -----------------------------------------------------------------------------


def _folded(name: str) -> str:
    return name.casefold()


class Names:
    """Makes names unique regardless of case, and no longer than the database allows."""

    def __init__(self, dialect: Dialect) -> None:
        self.limit, self.taken = dialect.max_name, set[str]()

    def add(self, name: str) -> str:
        name = "".join(c if c != "\0" and _is_utf8(c) else "?" for c in name)
        found, number = self._short(name, ""), 1
        while _folded(found) in self.taken:
            number += 1
            found = self._short(name, f"_{number}")
        self.taken.add(_folded(found))
        return found

    def _short(self, name: str, end: str) -> str:
        if self.limit is None:
            return name + end
        return name.encode()[: self.limit - len(end)].decode(errors="ignore") + end


def indent(lines: Lines) -> Lines:
    return ["  " + line for line in lines]


def select(columns: list[Lines], source: str) -> Lines:
    out = ["SELECT"]
    for column in columns[:-1]:
        out += indent([*column[:-1], column[-1] + ","])
    return [*out, *indent(columns[-1]), f"FROM {source}"]
