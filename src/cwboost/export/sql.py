"""Models as SQL: one query that scores a table inside the database.

    model_input    the columns as the model reads them: numbers or text, NULL where missing
    model_effects  one expression per term, centred as in `Model.contributions`
    model_scores   intercept + offset + effects
    the query      kept columns, effects, score, response

How dialects write numbers, names and pieces is in sql_text.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from cwboost._utils.atomic_files import replace_file
from cwboost._utils.checks import check_one_of
from cwboost._utils.text import quote
from cwboost.model.model import Model, check_model
from cwboost.model.pieces import pieces_of
from cwboost.model.scoring import output_labels

from .link_and_offset import FixedColumns, checked_link, fixed_columns
from .sql_text import DIALECTS, Lines, Names, SqlWriter, comment_of, indent, select, sum_of

EXP_LIMIT = 700  # exp of a larger number overflows


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
    """Return a SQL query that computes score = intercept + offset + one expression per term.

    The result has the columns of `keep`, `effect_<term>` for every chosen term, `score`, and with
    kind "response" also `response`; with several classes `score_<class>` and so on. The numbers
    are equal to `model.predict`, also beyond the range of the training rows, for missing cells
    (NULL, NaN) and for levels that training did not have.

    Parameters
    ----------
    model : Model
    kind : "response" or "score"
    table : str or sequence of str
        The name of the table, or the parts of a qualified name: ("schema", "table").
    dialect : "duckdb", "sqlite" or "postgres"
        SQLite needs its math functions (`exp`, with an exposure `ln`) unless the link is the
        identity.
    keep : sequence of str
        Columns of the table that come first in the result, such as a key.
    offset, exposure : str, optional
        Names of columns, by default the columns that the model was fitted with. With several
        classes offset is one name per class. offset=0 or exposure=1 means none.

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
    check_model(model, "to_sql")
    check_one_of("dialect", dialect, DIALECTS)
    for argument, names in (("table", table), ("keep", keep)):
        _check_names(argument, names)
    link = checked_link(model, kind, LINKS, "SQL")
    query = _Query(model, dialect, table, keep, fixed_columns(model, offset, exposure))
    return query.write(link if kind == "response" else None)


def _check_names(argument: str, names: Any) -> None:
    """Raise if an argument is neither a name nor a list of names; a table needs at least one."""
    several = not isinstance(names, str) and isinstance(names, Sequence)
    if several and all(isinstance(name, str) for name in names) and (names or argument == "keep"):
        return
    if not isinstance(names, str):
        raise TypeError(f"{argument}: expected a name or a list of names, got {quote(names)}")


def write_sql(model: Model, file: Any, **options: Any) -> None:
    """Write the query to a file, completely or not at all, with the options of `to_sql`."""
    text = to_sql(model, **options).rstrip() + "\n"
    with replace_file(file) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


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
        self.write_in, self.dialect = SqlWriter(DIALECTS[dialect]), DIALECTS[dialect]
        self.keep = [keep] if isinstance(keep, str) else list(keep)
        names = [table] if isinstance(table, str) else list(table)
        self.table = ".".join(self.write_in.name(name) for name in names)
        # A WITH query with the name of the table would refer to itself.
        mark = "_" if names[-1].lower().startswith("model_") else ""
        self.stages = [f"model_{stage}{mark}" for stage in ("input", "effects", "scores")]
        self.columns = list(dict.fromkeys(axis.column for p in self.pieces for axis in p.axes))
        self._check_columns()
        self._name_outputs()

    def _check_columns(self) -> None:
        if len(self.fixed.offset) not in (0, self.model.n_outputs):
            raise ValueError(
                f"offset: expected {self.model.n_outputs} column names, one per score, "
                f"got {len(self.fixed.offset)}"
            )
        if not self.dialect.folds_case:
            return
        seen: dict[str, str] = {}
        for column in self.columns:
            other = seen.setdefault(column.lower(), column)
            if other != column:
                raise ValueError(
                    f"columns {quote(other)} and {quote(column)} differ only in case, which this "
                    "dialect ignores; rename one of them before the fit"
                )

    def _name_outputs(self) -> None:
        """Choose a different name for every column that the query makes."""
        inputs, results = Names(self.dialect), Names(self.dialect)
        for column in self.columns:
            inputs.add(column)
        self.kept = [inputs.add(f"keep_{i + 1}") for i in range(len(self.keep))]
        self.offsets = [inputs.add(f"offset_{i + 1}") for i in range(len(self.fixed.offset))]
        self.log_exposure = inputs.add("log_exposure") if self.fixed.exposure else None
        labels = [f"_{label}" if label else "" for label in output_labels(self.model)]
        self.effects = [
            [results.add(f"effect_{p.term.name}{label}") for label in labels] for p in self.pieces
        ]
        self.scores = [results.add(f"score{label}") for label in labels]
        self.responses = [results.add(f"response{label}") for label in labels]
        for column in self.keep:
            if results.add(column) != column:
                raise ValueError(
                    f"keep: {quote(column)} would occur twice in the result; rename it"
                )

    def write(self, link: str | None) -> str:
        """Return the query; with a link it has responses too."""
        name = self.write_in.name
        result = [
            f"{name(inner)} AS {name(column)}"
            for inner, column in zip(self.kept, self.keep, strict=True)
        ]
        result += [name(n) for names in self.effects for n in names]
        result += [name(n) for n in self.scores]
        if link is not None:
            result += [
                f"{value} AS {name(column)}"
                for value, column in zip(self._responses(link), self.responses, strict=True)
            ]
        inputs, effects, scores = self.stages
        hint = "MATERIALIZED " if self.dialect.materialize and len(self.scores) > 1 else ""
        lines = [
            f"WITH {inputs} AS (",
            *indent(select([[x] for x in self._inputs()], f"{self.table} AS t")),
            "),",
            f"{effects} AS (",
            *indent(select(self._effect_columns(), inputs)),
            "),",
            f"{scores} AS {hint}(",
            *indent(select([["*"], *([x] for x in self._score_columns())], effects)),
            ")",
            *select([[x] for x in result], scores),
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
        """Return the column as numbers or text, NULL where missing.

        The name is qualified, because SQLite reads an unknown name in double quotes as a string.
        """
        cell, real = f"t.{self.write_in.name(column)}", self.dialect.real
        unit = self.model.columns[column].unit
        if unit in ("dates", "durations"):
            days = self.dialect.days if unit == "dates" else self.dialect.duration_days
            return f"CAST({days.format(cell)} AS {real})"
        axes = [axis for p in self.pieces for axis in p.axes if axis.column == column]
        if not axes[0].numeric:
            return self.dialect.text.format(cell)
        if any({"True", "False"} & set(axis.levels) for axis in axes):
            cell = self.dialect.boolean.format(cell)
        if self.dialect.nan:
            return f"NULLIF(CAST({cell} AS {real}), CAST('NaN' AS {real}))"
        return f"CAST(NULLIF({cell}, '') AS {real})"  # CSV imports leave empty text

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
                comment = f"-- {comment_of(term.name)}: {type(term.learner).__name__}"
                out.append([comment, *lines[:-1], lines[-1] + end])
        return out or [["one"]]

    def _score_columns(self) -> list[str]:
        name, out = self.write_in.name, []
        intercepts = self.model.intercept_vector
        for o, column in enumerate(self.scores):
            terms = [self.write_in.number(float(intercepts[o]))]
            terms += [name(self.offsets[o])] if self.offsets else []
            terms += [name(self.log_exposure)] if self.log_exposure is not None else []
            terms += [name(names[o]) for names in self.effects]
            out.append(f"{sum_of(terms)} AS {name(column)}")
        return out

    def _responses(self, link: str) -> list[str]:
        scores = [self.write_in.name(column) for column in self.scores]
        return LINKS[link](scores, self.write_in.number(1.0), self._exp)

    def _exp(self, value: str) -> str:
        if self.dialect.strict_exp:
            value = f"GREATEST(-{EXP_LIMIT}, LEAST({EXP_LIMIT}, {value}))"
        return f"exp({value})"


# --- links: responses from scores, given the literal 1 and how exp is written ---------------------

Exp = Callable[[str], str]


def _identity(scores: list[str], one: str, exp: Exp) -> list[str]:
    del one, exp
    return scores


def _log(scores: list[str], one: str, exp: Exp) -> list[str]:
    del one
    return [exp(score) for score in scores]


def _logit(scores: list[str], one: str, exp: Exp) -> list[str]:
    return [f"{one} / ({one} + {exp(f'-{score}')})" for score in scores]


def _softmax(scores: list[str], one: str, exp: Exp) -> list[str]:
    # exp of differences, because exp of a score may overflow
    return [f"{one} / ({sum_of([exp(f'{other} - {own}') for other in scores])})" for own in scores]


LINKS: dict[str, Callable[[list[str], str, Exp], list[str]]] = {
    "identity": _identity,
    "log": _log,
    "logit": _logit,
    "softmax": _softmax,
}
