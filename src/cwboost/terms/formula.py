"""Formulas: from "y ~ s(age, df=4) + job + te(lon, lat)" to the target and its learners.

Errors point at the character where a formula breaks the grammar. The functions come from the
learners (`Learner.functions`).

    formula   target "~" term { "+" term | "-" column }
    term      "." | column | function "(" argument { "," argument } ")"
    argument  column (te, ti: or a term of one) | keyword "=" literal | literal (poly's degree)
    column    a name of letters, digits, "_" and "."; any other `between back-quotes`
    literal   number | "text" | 'text' | True | False | None

Nothing is ever evaluated. "." stands for every column that is not the target and has no main effect
in the formula (te, ti and missing are not main effects).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, NoReturn

from cwboost._utils.text import quote, quote_names, similar_names
from cwboost.binning.number_statistics import not_numbers
from cwboost.binning.rules import Bins
from cwboost.frames.columns import Labels
from cwboost.frames.read_frames import read
from cwboost.frames.table import Table

from .learners import Learner, formula_functions
from .styles import make_learners

REMEDIES = {  # for what users of R write
    "offset": "pass offset= to fit",
    **dict.fromkeys(["log", "exp", "sqrt", "I", "scale"], "transform the column before the fit"),
    **dict.fromkeys(["bbs", "bs", "ns", "spline"], "write s(...)"),
    **dict.fromkeys(["bols", "linear"], "write lin(...) or cat(...)"),
    **dict.fromkeys(["factor", "category"], "write cat(...)"),
    **dict.fromkeys(["t2", "bspatial", "tensor"], "write te(...)"),
    **dict.fromkeys("*:^", "an interaction is te(a, b), or ti(a, b) in addition to main effects"),
    **dict.fromkeys("`'\"", "the quote is not closed"),
}
CONSTANTS = {"True": True, "False": False, "None": None}
WINDOW = 60  # characters shown on either side of an error
LONGEST_INT = 18  # digits; longer numbers are read as floats

TOKENS = re.compile(
    r"""(?P<space>\s+)
      | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[^\W\d][\w.]*)
      | `(?P<quoted>(?:[^`]|``)+)`
      | (?P<text>"[^"]*"|'[^']*')
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)


def is_formula(y: Any) -> bool:
    """Whether y looks like a formula; a column may still have that name."""
    return isinstance(y, str) and "~" in y


class FormulaError(ValueError):
    """A formula that cannot be read; `position` is the character, from 0, where it breaks."""

    def __init__(self, reason: str, formula: str, position: int) -> None:
        super().__init__(reason, formula, position)
        self.reason, self.formula, self.position = reason, formula, position

    def __str__(self) -> str:
        left, right = self.formula[: self.position], self.formula[self.position :]
        left, right = left[left.rfind("\n") + 1 :], right.split("\n")[0]
        left = left if len(left) <= WINDOW else "..." + left[-WINDOW:]
        right = right if len(right) <= WINDOW else right[:WINDOW] + "..."
        left, right = (
            "".join(c if c.isprintable() else " " for c in part) for part in (left, right)
        )
        where = f"formula, character {self.position + 1}"
        return f"{where}: {self.reason}\n    {left}{right}\n    {' ' * len(left)}^"


@dataclass(frozen=True)
class Token:
    """A word, number, text or sign of a formula, and where it begins."""

    kind: str  # number, name, quoted, text, sign, end
    text: str  # without quotes
    at: int


class FormulaTerm(NamedTuple):
    """A term as it is written: a learner, or a column without a function; neither for "."."""

    token: Token
    learner: Learner | None = None
    column: str | None = None

    @property
    def is_dot(self) -> bool:
        return self.learner is None and self.column is None


def tokenize(formula: str) -> list[Token]:
    """Return the tokens, then two of kind "end", so that the parser can look ahead.

    Every character but spaces is part of a token.
    """
    out = []
    for match in TOKENS.finditer(formula):
        kind = str(match.lastgroup)
        if kind != "space":
            text = match[kind][1:-1] if kind == "text" else match[kind].replace("``", "`")
            out.append(Token(kind, text, match.start()))
    return [*out, *[Token("end", "", len(formula))] * 2]


def parse(formula: str, table: Any, exclude: Sequence[str] = ()) -> tuple[str, list[Learner]]:
    """Return the name of the target and the learners that a formula asks for.

    Parameters
    ----------
    formula : str
    table : table with the formula's columns
    exclude : names of columns that "." does not stand for

    Examples
    --------
    >>> table = {"y": [1.0, 2.0], "age": [30, 40], "job": ["a", "b"], "id": [1, 2]}
    >>> target, learners = parse("y ~ s(age, df=4) + . - id", table)
    >>> target, [type(learner).__name__ for learner in learners]
    ('y', ['Spline', 'Category'])
    >>> parse("y ~ s(aeg)", table)
    Traceback (most recent call last):
    cwboost.terms.formula.FormulaError: formula, character 7: no column 'aeg'; did you mean 'age'?
        y ~ s(aeg)
              ^
    """
    return _Parser(formula, read(table)).parse(exclude)


def target_of(formula: str, table: Table) -> str:
    """Return the name of a formula's target."""
    return _Parser(formula, table).column("the target, a column").text


class _Parser:
    """Recursive descent over the tokens, one method per rule of the grammar."""

    def __init__(self, formula: str, table: Table) -> None:
        self.formula, self.table = formula, table
        self.tokens = tokenize(formula)
        self.target = ""

    @property
    def token(self) -> Token:
        return self.tokens[0]

    def take(self) -> Token:
        return self.tokens.pop(0)

    def sees(self, sign: str, ahead: int = 0) -> bool:
        return self.tokens[ahead].kind == "sign" and self.tokens[ahead].text == sign

    def fail(self, reason: str, token: Token) -> NoReturn:
        raise FormulaError(reason, self.formula, token.at)

    def expected(self, what: str) -> NoReturn:
        token = self.token
        got = "the end of the formula" if token.kind == "end" else quote(token.text)
        remedy = f"; {REMEDIES[token.text]}" if token.text in REMEDIES else ""
        self.fail(f"expected {what}, got {got}{remedy}", token)

    def expect(self, sign: str, what: str) -> Token:
        return self.take() if self.sees(sign) else self.expected(what)

    # --- rules ------------------------------------------------------------------------------------

    def parse(self, exclude: Sequence[str]) -> tuple[str, list[Learner]]:
        if self.token.kind == "name" and self.sees("(", 1):
            self.fail("the target must be a column; transform it before the fit", self.token)
        self.target = self.column("the target, a column").text
        self.expect("~", "'~' after the target")
        terms, removed = [self.term()], []
        while self.token.kind != "end":
            if self.sees("-"):
                self.take()
                removed.append(self.predictor("a column to leave out"))
            else:
                self.expect("+", "'+', '-' or the end")
                terms.append(self.term())
        return self.target, self.expand(terms, removed, exclude)

    def term(self) -> FormulaTerm:
        if self.sees("."):
            return FormulaTerm(self.take())
        if self.token.kind == "name" and self.sees("(", 1):
            return FormulaTerm(self.token, learner=self.call())
        token = self.predictor("a term: a column, a function such as s(age), or '.'")
        return FormulaTerm(token, column=token.text)

    def call(self, margin: bool = False) -> Learner:
        """Read a function and its arguments; a `margin` is an argument of te or ti."""
        function, opened = self.take(), self.take()
        functions = formula_functions()
        if function.text not in functions:
            remedy = REMEDIES.get(function.text, "the functions are " + ", ".join(functions))
            self.fail(f"unknown function {quote(function.text)}; {remedy}", function)
        cls = functions[function.text]
        if margin and cls.takes_learners:
            self.fail(
                f"te and ti take columns or terms of one column, not {function.text}", function
            )
        columns = [self.argument(cls)]
        for _ in cls.column_fields[1:]:
            self.expect(",", "',' and a second column")
            columns.append(self.argument(cls))
        keywords = self.keywords(cls, opened)
        for key, value in cls.functions[function.text].items():
            keywords.setdefault(key, (function, value))
        try:
            learner = cls(*columns, **{key: value for key, (_, value) in keywords.items()})
            learner.bin_rule(Bins())  # checks the rule
        except (TypeError, ValueError) as error:
            # Point at the keyword that the message is about: "... df must be ...", "bins: ...".
            blamed = [
                token
                for key, (token, _) in keywords.items()
                if re.search(rf"\b{key}(:| must)", str(error))
            ]
            self.fail(str(error), blamed[0] if blamed else function)
        return learner

    def argument(self, cls: type[Learner]) -> str | Learner:
        """Read a column, or a learner of one if the function takes learners."""
        if cls.takes_learners and self.token.kind == "name" and self.sees("(", 1):
            return self.call(margin=True)
        token = self.predictor("a column")
        column = self.table[token.text] if cls.needs_numbers else None
        if isinstance(column, Labels):
            self.fail(f"{not_numbers(column)}; in a formula: cat(...)", token)
        return token.text

    def keywords(self, cls: type[Learner], opened: Token) -> dict[str, tuple[Token, Any]]:
        """Read all keywords and the closing parenthesis; each has its place and its value."""
        out: dict[str, tuple[Token, Any]] = {}
        while not self.sees(")"):
            if self.token.kind == "end":
                self.fail("the parenthesis is not closed", opened)
            self.expect(",", "',' or ')'")
            key, value = self.keyword(cls, first=not out)
            if key.text in out:
                self.fail(f"{quote(key.text)} is given twice", key)
            out[key.text] = key, value
        self.take()
        return out

    def keyword(self, cls: type[Learner], first: bool) -> tuple[Token, Any]:
        """Read a keyword and its value; the first may be a number without a keyword."""
        if self.token.kind == "number" and cls.positional is not None and first:
            return Token("name", cls.positional, self.token.at), self.literal()
        types = {f.name: f.type for f in fields(cls) if f.name not in cls.column_fields}
        if self.token.kind != "name":
            self.expected("a keyword and its value such as df=4" if "df" in types else "name=")
        key = self.take()
        if key.text not in types:
            self.fail(f"unknown keyword {quote(key.text)}; {_suggest(key.text, list(types))}", key)
        self.expect("=", f"'=' and a value for {key.text}")
        token, value = self.token, self.literal()
        # Checked here to point at the value; a learner need not check them itself.
        if value is not None and key.text == "name" and not isinstance(value, str):
            self.fail(f"expected text in quotes for name, got {quote(value)}", token)
        if value is not None and types[key.text] in ("bool", bool) and not isinstance(value, bool):
            self.fail(f"expected True or False for {key.text}, got {quote(value)}", token)
        return key, value

    def literal(self) -> Any:
        sign = -1 if self.sees("-") else 1
        if sign < 0:
            self.take()
        kind, text = self.token.kind, self.token.text
        if kind == "number":
            whole = text.isdigit() and len(text) <= LONGEST_INT
            self.take()
            return sign * (int(text) if whole else float(text))
        if sign == 1 and (kind == "text" or (kind == "name" and text in CONSTANTS)):
            self.take()
            return text if kind == "text" else CONSTANTS[text]
        return self.expected("a number, text in quotes, True, False or None")

    def predictor(self, what: str) -> Token:
        token = self.column(what)
        if token.text == self.target:
            self.fail(f"{quote(token.text)} is the target and cannot be a term", token)
        return token

    def column(self, what: str) -> Token:
        if self.token.kind == "number" and self.token.text in ("0", "1"):
            self.fail(
                "the intercept is always in the model; leave it out of the formula", self.token
            )
        if self.token.kind not in ("name", "quoted"):
            self.expected(what)
        token = self.take()
        if token.text not in self.table:
            near = _suggest(token.text, self.table.names, "the table has")
            self.fail(f"no column {quote(token.text)}; {near}", token)
        return token

    # --- learners ---------------------------------------------------------------------------------

    def expand(
        self, terms: Sequence[FormulaTerm], removed: Sequence[Token], exclude: Sequence[str]
    ) -> list[Learner]:
        """Return the learners; the default style gives learners to "." and to bare columns."""
        has_dot = any(term.is_dot for term in terms)
        bare = {term.column for term in terms if term.column is not None}
        learners = [term.learner for term in terms if term.learner is not None]
        named = bare | {x.columns[0] for x in learners if x.is_main_effect}
        for token in removed:
            if not has_dot:
                self.fail("'-' removes a column from '.', and the formula has no '.'", token)
            if token.text in named:
                self.fail(f"{quote(token.text)} is removed here but has a term of its own", token)
        others = {self.target, *exclude, *named, *(token.text for token in removed)}
        dot = [name for name in self.table.names if has_dot and name not in others]
        styled = self.style_learners({*bare, *dot})
        out: list[Learner] = []
        on_columns: dict[tuple[str, ...], list[Learner]] = {}
        for term in terms:
            if term.learner is not None:
                new = [term.learner]
            else:
                names = dot if term.column is None else [term.column]
                new = [learner for name in names for learner in styled[name]]
            if any(learner in on_columns.get(learner.columns, ()) for learner in new):
                self.fail("this term is in the formula more than once", term.token)
            for learner in new:
                on_columns.setdefault(learner.columns, []).append(learner)
            out += new
        if not out:
            self.fail("no column is left for '.'", terms[0].token)
        return out

    def style_learners(self, names: set[str]) -> dict[str, list[Learner]]:
        """Return the learners that the default style gives to columns, by column."""
        out: dict[str, list[Learner]] = {name: [] for name in names}
        table = self.table.select([name for name in self.table.names if name in names])
        for learner in make_learners(table):
            out[learner.columns[0]].append(learner)
        return out


def _suggest(word: str, known: Sequence[str], label: str = "there are") -> str:
    """Return the known names that resemble a word, as a question; if there are none, all names."""
    close = similar_names(word, known)
    if close:
        shown = [
            quote(name) if re.fullmatch(r"[^\W\d][\w.]*", name) else f"`{name}`" for name in close
        ]
        return "did you mean " + " or ".join(shown) + "?"
    return f"{label} {quote_names(known)}"
