"""Models as SQL: one query that scores a table where it lies. Knows how numbers, text and names are
written in each dialect and how pieces become CASE expressions; knows nothing of bases.

    model_input    the columns as the model reads them: numbers or text, NULL where missing
    model_effects  one expression per term, centred as `Model.contributions` is
    model_scores   intercept + offset + effects
    the query      kept columns, effects, score, response
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cwboost.frames.table import Floats
from cwboost.model.model import Model
from cwboost.model.pieces import (
    Axis,
    FixedColumns,
    TermPieces,
    checked_link,
    fixed_columns,
    outputs_of,
    pieces_of,
)

SUM_GROUP = 50  # terms added in one go: databases limit the depth of a + b + c + ...
EXP_LIMIT = 700  # exp of more overflows


Lines = list[str]  # of an expression; a line holds line breaks only within quotes


@dataclass(frozen=True)
class Dialect:
    """How a database writes what differs between databases."""

    real: str
    text: str  # {} is the column
    char: str  # function that makes a character of its number
    nan: bool = False  # floats may be NaN, which equals itself
    suffix: str = ""  # makes a literal a float rather than a decimal
    exact_literals: bool = True  # decimal text is read as the nearest float
    boolean: str = "{}"  # a truth value as a number that can be cast
    cast_effects: bool = False  # literals are decimals
    strict_exp: bool = False  # exp raises where others return infinity or zero
    folds_case: bool = True  # quoted names that differ in case only are one name
    max_name: int | None = None  # bytes
    keeps_zero_byte: bool = True
    materialize: bool = False  # scores that are used often would be computed as often


DIALECTS = {
    "duckdb": Dialect("DOUBLE", "CAST({} AS VARCHAR)", "chr", nan=True, suffix="e0"),
    # A text column may compare without case or trailing blanks; COLLATE takes that back.
    "sqlite": Dialect(
        "REAL",
        "CAST({} AS TEXT) COLLATE BINARY",
        "char",
        exact_literals=False,
        materialize=True,
    ),
    "postgres": Dialect(
        "double precision",
        "CAST({} AS text)",
        "chr",
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


def to_sql(
    model: Model,
    kind: Literal["response", "score"] = "response",
    table: str | Sequence[str] = "table",
    dialect: str = "duckdb",
    *,
    keep: Sequence[str] = (),
    offset: Any = None,
    exposure: Any = None,
) -> str:
    """The model as a query: score = intercept + offset + one expression per term.

    Its result has the columns of `keep`, `effect_<term>` for every chosen term, `score`, and with
    kind "response" `response`; with several classes `score_<class>` and so on. Beyond the range of
    the training rows, for missing cells (NULL, NaN) and for levels never seen it gives what
    `model.predict` gives.

    Parameters
    ----------
    model : Model
    kind : "response" or "score"
    table : str or sequence of str
        The table's name, or the parts of a qualified one: ("schema", "table").
    dialect : "duckdb", "sqlite" or "postgres"
        SQLite needs its math functions (`exp`, with an exposure `ln`) unless the link is the
        identity.
    keep : sequence of str
        Columns of the table that come first in the result, such as a key.
    offset, exposure : str, optional
        Names of columns, by default those that the model was fitted with; with several classes
        offset is one name per class. 0 (or exposure 1) says none.

    Returns
    -------
    str

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, optimizer=cb.Plain(1.0), n_iter=1)
    >>> print(to_sql(model, table="t", dialect="sqlite"))
    WITH model_input AS (
      SELECT
        CAST(t."g" AS TEXT) COLLATE BINARY AS "g"
      FROM "t" AS t
    ),
    model_effects AS (
      SELECT
        -- g: Category
        CASE
          WHEN "g" = 'a' THEN -0.5
          WHEN "g" = 'b' THEN 0.5
          ELSE 0.0
        END AS "effect_g"
      FROM model_input
    ),
    model_scores AS (
      SELECT
        *,
        0.5 + "effect_g" AS "score"
      FROM model_effects
    )
    SELECT
      "effect_g",
      "score",
      "score" AS "response"
    FROM model_scores
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect: expected one of {', '.join(DIALECTS)}; got {dialect!r}")
    checked_link(model, kind)
    return _Query(model, dialect, table, keep, fixed_columns(model, offset, exposure)).write(kind)


class _Query:
    """The parts of one query and the names that they share."""

    def __init__(
        self,
        model: Model,
        dialect: str,
        table: str | Sequence[str],
        keep: Sequence[str],
        fixed: FixedColumns,
    ) -> None:
        self.model, self.pieces, self.fixed = model, pieces_of(model), fixed
        self.write_in, self.dialect = _Writer(DIALECTS[dialect]), DIALECTS[dialect]
        self.keep = [keep] if isinstance(keep, str) else list(keep)
        names = [table] if isinstance(table, str) else list(table)
        self.table = ".".join(self.write_in.name(name) for name in names)
        # A WITH query of the table's own name would refer to itself.
        mark = "_" if names[-1].lower().startswith("model_") else ""
        self.stages = [f"model_{stage}{mark}" for stage in ("input", "effects", "scores")]
        self.columns = list(dict.fromkeys(axis.column for p in self.pieces for axis in p.axes))
        self._check_columns()
        self._name_outputs()

    def _check_columns(self) -> None:
        if len(self.fixed.offset) not in (0, self.model.n_outputs):
            raise ValueError(
                f"offset: the model has {self.model.n_outputs} scores per row; expected that many "
                f"column names, got {len(self.fixed.offset)}"
            )
        if not self.dialect.folds_case:
            return
        seen: dict[str, str] = {}
        for column in self.columns:
            other = seen.setdefault(column.lower(), column)
            if other != column:
                raise ValueError(
                    f"columns {other!r} and {column!r} differ in case only, which this dialect "
                    "does not tell apart; rename one of them before the fit"
                )

    def _name_outputs(self) -> None:
        """Names of the columns that the query makes; all of them differ."""
        inputs, results = _Names(self.dialect), _Names(self.dialect)
        for column in self.columns:
            inputs.add(column)
        self.kept = [inputs.add(f"keep_{i + 1}") for i in range(len(self.keep))]
        self.offsets = [inputs.add(f"offset_{i + 1}") for i in range(len(self.fixed.offset))]
        self.log_exposure = inputs.add("log_exposure") if self.fixed.exposure else None
        labels = [f"_{label}" if label else "" for label in outputs_of(self.model)]
        self.effects = [
            [results.add(f"effect_{p.term.name}{label}") for label in labels] for p in self.pieces
        ]
        self.scores = [results.add(f"score{label}") for label in labels]
        self.responses = [results.add(f"response{label}") for label in labels]
        for column in self.keep:
            if results.add(column) != column:
                raise ValueError(f"keep: {column!r} would be twice in the result; rename it")

    def write(self, kind: str) -> str:
        name = self.write_in.name
        result = [
            f"{name(inner)} AS {name(column)}"
            for inner, column in zip(self.kept, self.keep, strict=True)
        ]
        result += [name(n) for names in self.effects for n in names]
        result += [name(n) for n in self.scores]
        if kind == "response":
            result += [
                f"{value} AS {name(column)}"
                for value, column in zip(self._responses(), self.responses, strict=True)
            ]
        inputs, effects, scores = self.stages
        hint = "MATERIALIZED " if self.dialect.materialize and len(self.scores) > 1 else ""
        lines = [
            f"WITH {inputs} AS (",
            *_indent(_select([[x] for x in self._inputs()], f"{self.table} AS t")),
            "),",
            f"{effects} AS (",
            *_indent(_select(self._effect_columns(), inputs)),
            "),",
            f"{scores} AS {hint}(",
            *_indent(_select([["*"], *([x] for x in self._score_columns())], effects)),
            ")",
            *_select([[x] for x in result], scores),
        ]
        return "\n".join(lines)

    def _inputs(self) -> list[str]:
        name, out = self.write_in.name, []
        for column, inner in zip(self.keep, self.kept, strict=True):
            out.append(f"t.{name(column)} AS {name(inner)}")
        for column in self.columns:
            out.append(f"{self._read(column)} AS {name(column)}")
        for column, inner in zip(self.fixed.offset, self.offsets, strict=True):
            out.append(f"CAST(t.{name(column)} AS {self.dialect.real}) AS {name(inner)}")
        if self.log_exposure is not None:
            real = f"CAST(t.{name(self.fixed.exposure or '')} AS {self.dialect.real})"
            out.append(f"ln({real}) AS {name(self.log_exposure)}")
        return out or ["1 AS one"]

    def _read(self, column: str) -> str:
        """The column as numbers or text, NULL where missing.

        It is qualified: SQLite takes an unknown name in double quotes for a string.
        """
        cell, real = f"t.{self.write_in.name(column)}", self.dialect.real
        axes = [axis for p in self.pieces for axis in p.axes if axis.column == column]
        if not axes[0].numeric:
            return self.dialect.text.format(cell)
        if any({"True", "False"} & set(axis.levels) for axis in axes):
            cell = self.dialect.boolean.format(cell)
        if self.dialect.nan:
            return f"NULLIF(CAST({cell} AS {real}), CAST('NaN' AS {real}))"
        return f"CAST(NULLIF({cell}, '') AS {real})"  # empty text is what CSV imports leave

    def _effect_columns(self) -> list[Lines]:
        name = self.write_in.name
        passed = [*self.kept, *self.offsets, *([self.log_exposure] if self.log_exposure else [])]
        out = [[name(inner)] for inner in passed]
        for pieces, names in zip(self.pieces, self.effects, strict=True):
            term = pieces.term
            for output, column in enumerate(names):
                lines = self.write_in.term(pieces, output)
                end = f" AS {name(column)}"
                if self.dialect.cast_effects:
                    lines = ["CAST(" + lines[0], *lines[1:]]
                    end = f" AS {self.dialect.real})" + end
                comment = f"-- {_comment(term.name)}: {type(term.learner).__name__}"
                out.append([comment, *lines[:-1], lines[-1] + end])
        return out or [["one"]]

    def _score_columns(self) -> list[str]:
        name, out = self.write_in.name, []
        intercepts = np.atleast_1d(self.model.intercept)
        for o, column in enumerate(self.scores):
            terms = [self.write_in.number(float(intercepts[o]))]
            terms += [name(self.offsets[o])] if self.offsets else []
            terms += [name(self.log_exposure)] if self.log_exposure is not None else []
            terms += [name(names[o]) for names in self.effects]
            out.append(f"{_sum(terms)} AS {name(column)}")
        return out

    def _responses(self) -> list[str]:
        name, one = self.write_in.name, self.write_in.number(1.0)
        scores = [name(column) for column in self.scores]
        link = checked_link(self.model, "response")
        if link == "identity":
            return scores
        if link == "log":
            return [self._exp(scores[0])]
        if link == "logit":
            return [f"{one} / ({one} + {self._exp(f'-{scores[0]}')})"]
        return [  # no exp of a score alone, which may overflow
            f"{one} / ({_sum([self._exp(f'{other} - {own}') for other in scores])})"
            for own in scores
        ]

    def _exp(self, value: str) -> str:
        if self.dialect.strict_exp:
            value = f"GREATEST(-{EXP_LIMIT}, LEAST({EXP_LIMIT}, {value}))"
        return f"exp({value})"


# --- expressions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Writer:
    """Numbers, text, names and terms in one dialect."""

    dialect: Dialect

    def name(self, name: str) -> str:
        if not name or "\0" in name or not _is_utf8(name):
            raise ValueError(f"{name!r} cannot be the name of a column or table in a database")
        return '"' + name.replace('"', '""') + '"'

    def number(self, value: float) -> str:
        text = repr(float(value) + 0.0)  # no minus zero
        return text if "e" in text else text + self.dialect.suffix

    def exact(self, value: float) -> str:
        """The very number, where the next one would fall on the other side of a comparison.

        SQLite reads some decimals of more than 15 digits one unit in the last place off, but
        fractions with a power of two below never.
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
        """The effect as a CASE expression; of two columns as one CASE within another."""
        axes, coef = _in_units(pieces.axes, pieces.coef[..., output])
        if len(axes) == 1:
            axis = axes[0]
            return self.cases(axis, [[self.polynomial(axis, k, c)] for k, c in enumerate(coef)])
        a, b = axes
        if a.breaks is not None and b.breaks is None:  # levels outside, a curve for each inside
            a, b, coef = b, a, coef.transpose(1, 0, 3, 2)
        return self.cases(
            a,
            [
                self.cases(b, [[self.surface(a, i, b, j, coef[i, j])] for j in range(b.n_pieces)])
                for i in range(a.n_pieces)
            ],
        )

    def cases(self, axis: Axis, values: list[Lines]) -> Lines:
        """Which value holds where, piece by piece; pieces alike are told once.

        Comparisons with NULL are not true, so that ELSE holds for missing cells if none is told.
        """
        column, known, missing = self.name(axis.column), values[: axis.n_known], axis.n_known
        told: list[tuple[str, Lines]] = []
        if axis.breaks is None:
            other = values[-1]
            same: dict[tuple[str, ...], list[int]] = {}
            for i, value in enumerate(known):
                same.setdefault(tuple(value), []).append(i)
            for alike, which in same.items():
                found = self.levels(axis, which) if list(alike) != other else []
                if found:
                    condition = f"= {found[0]}" if len(found) == 1 else f"IN ({', '.join(found)})"
                    told.append((condition, list(alike)))
        else:
            other = known[-1]
            told += [
                (self.below(axis, i), value)
                for i, value in enumerate(known[:-1])
                if value != known[i + 1]
            ]
        if values[missing] != other:
            told.insert(0, ("IS NULL", values[missing]))
        if not told:
            return other
        lines = []
        for condition, value in told:
            lines += [f"WHEN {column} {condition} THEN {value[0]}", *value[1:]]
        return ["CASE", *_indent([*lines, f"ELSE {other[0]}", *other[1:]]), "END"]

    def levels(self, axis: Axis, which: list[int]) -> list[str]:
        """Literals of levels; those that no column of the database can hold are left out."""
        if axis.numeric:
            return [self.exact(axis.level_numbers[i]) for i in which]
        held = [axis.levels[i] for i in which if _is_utf8(axis.levels[i])]
        if not self.dialect.keeps_zero_byte:
            held = [level for level in held if "\0" not in level]
        return [self.text(level) for level in held]

    def below(self, axis: Axis, i: int) -> str:
        """The condition of interval i, given that those before do not hold."""
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
        """A polynomial in two variables: in that of `a`, with polynomials of `b` as coefficients"""
        return self.horner(a, i, [self.polynomial(b, j, row) for row in _trimmed(coef)])

    def horner(self, axis: Axis, piece: int, coef: list[str]) -> str:
        """c0 + t * (c1 + t * (c2 + ...))"""
        out = coef[-1]
        for c in reversed(coef[:-1]):
            out = f"{c} + {self.place(axis, piece)} * ({out})"
        return out

    def place(self, axis: Axis, piece: int) -> str:
        """t, where in its piece the value is."""
        out, origin, width = self.name(axis.column), axis.origin[piece], axis.width[piece]
        if origin != 0.0:
            sign = "-" if origin > 0.0 else "+"
            out = f"({out} {sign} {self.number(abs(origin))})"
        return out if width == 1.0 else f"({out} / {self.number(width)})"


def _in_units(axes: Sequence[Axis], coef: Floats) -> tuple[list[Axis], Floats]:
    """The same polynomials in x - origin, which reads better, where widths are no extreme."""
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
    """Without the zeros of the highest powers."""
    used = np.flatnonzero(coef.reshape(len(coef), -1).any(axis=1))
    return coef[: used[-1] + 1] if len(used) else coef[:1]


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _sum(terms: list[str]) -> str:
    """A sum of any length as a tree of small depth."""
    while len(terms) > SUM_GROUP:
        groups = [terms[i : i + SUM_GROUP] for i in range(0, len(terms), SUM_GROUP)]
        terms = [f"({' + '.join(group)})" for group in groups]
    return " + ".join(terms)


def _comment(name: str) -> str:
    """The name on one line: a line break in it would end the comment."""
    return "".join(c if c.isprintable() else " " for c in name)


# --- names and layout -----------------------------------------------------------------------------


def _folded(name: str) -> str:
    return name.casefold()


class _Names:
    """Names that differ in more than case, shortened to what the database keeps."""

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


def _indent(lines: Lines) -> Lines:
    return ["  " + line for line in lines]


def _select(columns: list[Lines], source: str) -> Lines:
    out = ["SELECT"]
    for column in columns[:-1]:
        out += _indent([*column[:-1], column[-1] + ","])
    return [*out, *_indent(columns[-1]), f"FROM {source}"]
