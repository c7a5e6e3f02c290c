"""Tests of formulas: their meaning, where errors point, and that only FormulaError is raised."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cwboost as cb
from cwboost.terms.formula import FormulaError, parse
from cwboost.terms.learners import Learner, formula_functions

DOCS = Path(__file__).parents[1] / "docs" / "formula.md"
rng = np.random.default_rng(3)
N = 80
TABLE = {
    "y": rng.normal(size=N),
    "age": rng.uniform(20, 70, N),
    "job": rng.choice(["clerk", "cook", "smith"], N),
    "boss": rng.uniform(size=N) < 0.5,
    "lon": rng.normal(size=N),
    "lat": rng.normal(size=N),
    "capital-gain": rng.exponential(size=N),
    "s": rng.uniform(size=N),
    "a`b": rng.normal(size=N),
}
S, C = cb.Spline, cb.Category

MEANINGS = [
    ("y ~ age", [S("age")]),
    ("y~age+job+boss", [S("age"), C("job"), C("boss")]),
    ("y ~ s(age, df=4) + job + te(lon, lat)", [S("age", df=4), C("job"), cb.Tensor("lon", "lat")]),
    ("y ~ s + s(s, df=2.5)", [S("s"), S("s", df=2.5)]),
    ("y ~ lin(age) + l(lon, intercept=False)", [cb.Linear("age"), cb.Linear("lon", False)]),
    ("y ~ poly(age) + poly(lon, 3) + poly(lat, degree=4)",
     [cb.Polynomial("age"), cb.Polynomial("lon", 3), cb.Polynomial("lat", 4)]),
    ("y ~ step(age, df=16, bins=32)", [cb.Step("age", 16, 32)]),
    ("y ~ cat(job, kind='binary') + cat(age, df=3e0)", [C("job", kind="binary"), C("age", df=3.0)]),
    ("y ~ center(age, df=1) + cs(lon)", [cb.Centered("age", df=1), cb.Centered("lon")]),
    ("y ~ missing(age)", [cb.Missing("age")]),
    ("y ~ te(s(lon, knots=5), job, df=7, name=\"where\")",
     [cb.Tensor(S("lon", knots=5), "job", df=7, name="where")]),
    ("y ~ s(age, smoothing=.5, df=None, df_kind='df1', bins='sqrt')",
     [S("age", smoothing=0.5, df_kind="df1", bins="sqrt")]),
    ("y ~ `capital-gain` + s(`age`) + `a``b`", [S("capital-gain"), S("age"), S("a`b")]),
    ("y ~ . - boss - `a``b`",
     [S("age"), C("job"), S("lon"), S("lat"), S("capital-gain"), S("s")]),
    ("y ~ s(age, df=4) + . - boss - s - `a``b` + te(lon, lat) + missing(lat)",
     [S("age", df=4), C("job"), S("lon"), S("lat"), S("capital-gain"), cb.Tensor("lon", "lat"),
      cb.Missing("lat")]),
    ("age ~ y", [S("y")]),
    ("y ~\n  age +\n\tjob", [S("age"), C("job")]),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "learners"), MEANINGS)
def test_meaning(formula, learners):
    target, found = parse(formula, TABLE)
    assert target == formula.split("~")[0].strip()
    assert found == learners


# A formula, a caret under the position of its error, and part of the reason.
ERRORS = [
    ("",
     "^", "expected the target"),
    ("y",
     " ^", "expected '~'"),
    ("~ age",
     "^", "expected the target"),
    ("yy ~ age",
     "^", "no column 'yy'; did you mean 'y'?"),
    ("log(y) ~ age",
     "^", "transform it"),
    ("y ~ ",
     "    ^", "got the end of the formula"),
    ("y ~ age +",
     "         ^", "expected a term"),
    ("y ~ age job",
     "        ^", "expected '+', '-' or the end, got 'job'"),
    ("y ~ age * job",
     "        ^", "an interaction is te(a, b)"),
    ("y ~ age:job",
     "       ^", "te(a, b)"),
    ("y ~ age | job",
     "        ^", "got '|'"),
    ("y ~ x ~ z",
     "    ^", "no column 'x'"),
    ("y ~ age ~ job",
     "        ^", "got '~'"),
    ("y ~ agee + job",
     "    ^", "did you mean 'age'?"),
    ("y ~ zebra",
     "    ^", "the table has 'y', 'age'"),
    ("y ~ capital-gain",
     "    ^", "`capital-gain`"),
    ("y ~ `capital-gain",
     "    ^", "the quote is not closed"),
    ("y ~ ``",
     "    ^", "the quote is not closed"),
    ("y ~ y",
     "    ^", "is the target"),
    ("y ~ s(y)",
     "      ^", "is the target"),
    ("y ~ 1 + age",
     "    ^", "the intercept is always in the model"),
    ("y ~ age - 1",
     "          ^", "the intercept is always in the model"),
    ("y ~ 2",
     "    ^", "expected a term"),
    ("y ~ - job",
     "    ^", "expected a term"),
    ("y ~ age - job",
     "          ^", "the formula has no '.'"),
    ("y ~ s(age) + . - age",
     "                 ^", "has a term of its own"),
    ("y ~ . - te(lon, lat)",
     "        ^", "no column 'te'"),
    ("y ~ age + s(age)",
     "          ^", "more than once"),
    ("y ~ . + .",
     "        ^", "more than once"),
    ("y ~ spline(age)",
     "    ^", "write s(...)"),
    ("y ~ offset(age)",
     "    ^", "pass offset= to fit"),
    ("y ~ foo(age)",
     "    ^", "unknown function 'foo'; the functions are lin, l, poly, s,"),
    ("y ~ s()",
     "      ^", "expected a column, got ')'"),
    ("y ~ s(.)",
     "      ^", "expected a column, got '.'"),
    ("y ~ s(age",
     "     ^", "the parenthesis is not closed"),
    ("y ~ s(age, df=4 + job",
     "                ^", "expected ',' or ')'"),
    ("y ~ s(age))",
     "          ^", "got ')'"),
    ("y ~ s(age,)",
     "          ^", "a keyword and its value"),
    ("y ~ s(age, 4)",
     "           ^", "such as df=4"),
    ("y ~ missing(age, 4)",
     "                 ^", "expected name="),
    ("y ~ s(age, lon)",
     "           ^", "unknown keyword 'lon'"),
    ("y ~ s(age, knot=4)",
     "           ^", "did you mean 'knots'"),
    ("y ~ s(age, by=4)",
     "           ^", "there are 'name', 'smoothing'"),
    ("y ~ s(age, df 4)",
     "              ^", "expected '=' and a value for df"),
    ("y ~ s(age, df=age)",
     "              ^", "expected a number, text"),
    ("y ~ s(age, df=2*2)",
     "               ^", "expected ',' or ')'"),
    ("y ~ s(age, df=__import__('os'))",
     "              ^", "expected a number, text"),
    ("y ~ s(age, df=-'4')",
     "               ^", "expected a number, text"),
    ("y ~ s(age, df='4)",
     "              ^", "the quote is not closed"),
    ("y ~ s(age, df=4, df=4)",
     "                 ^", "given twice"),
    ("y ~ s(age, df=-4)",
     "           ^", "df must be a finite number > 0, got -4"),
    ("y ~ s(age, knots=5, df=" + "9" * 400 + ")",
     "                    ^", "df must be a finite number > 0, got inf"),
    ("y ~ s(age, bins='some')",
     "           ^", "bins: expected one of"),
    ("y ~ s(age, df=4, smoothing=1)",
     "    ^", "not both"),
    ("y ~ s(age, name=4)",
     "                ^", "expected text in quotes for name, got 4"),
    ("y ~ l(age, intercept='no')",
     "                     ^", "expected True or False for intercept"),
    ("y ~ poly(age, 2, 3)",
     "                 ^", "expected a keyword"),
    ("y ~ poly(age, 2.5)",
     "              ^", "degree: expected a whole number"),
    ("y ~ s(job)",
     "      ^", "column 'job': expected numbers"),
    ("y ~ te(lon)",
     "          ^", "a second column"),
    ("y ~ te(lon, lon)",
     "    ^", "needs two different columns"),
    ("y ~ te(te(lon, lat), job)",
     "       ^", "not te"),
    ("y ~ te(cat(job, kind='binary'), lon)",
     "    ^", "not Centered, Missing or binary"),
    ("y ~ te(lon, s(job))",
     "              ^", "expected numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "caret", "reason"), ERRORS)
def test_errors_point_at_their_position(formula, caret, reason):
    with pytest.raises(FormulaError) as caught:
        parse(formula, TABLE)
    error = caught.value
    assert reason in error.reason
    assert error.position == caret.index("^")
    *_, shown, pointer = str(error).split("\n")
    assert pointer == "    " + caret
    assert shown.startswith("    " + formula[: len(caret)])
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_long_formulas_are_shown_in_part():
    *_, shown, pointer = str(FormulaError("no", "a" * 200 + "!" + "b" * 200, 200)).split("\n")
    assert len(shown) < 150
    assert shown[pointer.index("^")] == "!"
    *_, shown, pointer = str(FormulaError("no", "y ~\n\tage +\n x\t! z", 14)).split("\n")
    assert (shown, pointer) == ("     x ! z", "       ^")


@pytest.mark.parametrize(
    "formula", ["y ~ s({})", "y ~ {}(age)", "y ~ s(age, {}=1)", "{} ~ age", "y ~ '{}"]
)
def test_a_very_long_name_is_shortened(formula):
    with pytest.raises(FormulaError) as e:
        parse(formula.format("x" * 10_000_000), TABLE)
    assert len(str(e.value)) < 600


def test_very_long_names_are_shortened_in_other_messages():
    long = "x" * 1_000_000
    for call in (
        lambda: cb.fit(TABLE, long),
        lambda: cb.fit({long: ["a", 1, None]}, [1.0, 2.0, 3.0]),
        lambda: cb.fit({long: [1.0, np.inf, 2.0]}, [1.0, 2.0, 3.0]),
        lambda: cb.fit(TABLE, "y", loss=long),
        lambda: cb.fit({"g": [long, "b"]}, [1.0, 2.0]).effect(long),
        lambda: cb.fit({"g": [1.0, 2.0]}, [long, "b"]),
    ):
        with pytest.raises((ValueError, TypeError, KeyError)) as e:
            call()
        assert len(str(e.value)) < 2000


def test_a_formula_without_columns_is_refused():
    with pytest.raises(FormulaError, match="no column is left"):
        parse("y ~ .", {"y": [1.0]})


def test_fit_with_a_formula():
    model = cb.fit(TABLE, "y ~ s(age, df=4) + . - `a``b`", weights="s", n_iter=5)
    assert list(model.terms) == ["age", "job", "boss", "lon", "lat", "capital-gain"]
    assert model.settings.target == "y"
    same = [S("age", df=4), C("job"), C("boss"), S("lon"), S("lat"), S("capital-gain")]
    plain = cb.fit(TABLE, "y", same, weights="s", n_iter=5)
    np.testing.assert_array_equal(model.predict(TABLE), plain.predict(TABLE))
    assert model.extend(2, TABLE).n_iter == 7


def test_fit_refuses_a_formula_with_learners():
    with pytest.raises(ValueError, match="mutually exclusive"):
        cb.fit(TABLE, "y ~ age", [S("age")])


def test_the_name_of_a_column_may_look_like_a_formula():
    table = {"y ~ x": [1.0, 2.0, 3.0], "x": [1.0, 5.0, 2.0]}
    assert cb.fit(table, "y ~ x", [cb.Linear("x")], n_iter=2).settings.target == "y ~ x"


PIECES = st.sampled_from(
    [
        *formula_functions(),
        *TABLE,
        *"~+-*:.(),='\"`\n ",
        "df",
        "name",
        "knots",
        "4",
        "1e9",
        "True",
        "'x'",
    ]
)
LIKELY = st.lists(PIECES, max_size=25).map("".join)


@settings(max_examples=600, derandomize=True)
@given(st.one_of(st.text(), LIKELY, LIKELY.map("y ~ ".__add__), LIKELY.map("y ~ s(age,".__add__)))
def test_any_text_parses_or_is_a_formula_error(formula):
    failure = None
    try:
        target, learners = parse(formula, TABLE)
    except FormulaError as error:
        failure = error
    if failure is not None:
        assert 0 <= failure.position <= len(formula)
        assert "^" in str(failure)
    else:
        assert target in TABLE
        assert learners
        assert all(isinstance(learner, Learner) for learner in learners)


def test_the_examples_in_the_docs_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in re.findall(r"^```python\n(.*?)^```", DOCS.read_text("utf-8"), re.M | re.S):
        exec(compile(block, str(DOCS), "exec"), scope)
