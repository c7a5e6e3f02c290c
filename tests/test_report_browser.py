"""Tests of the report in a real browser: it opens without errors, reacts to input, and makes the
same predictions as the model.

Marked slow. Skipped if Chromium is not installed, except in continuous integration (variable CI),
which fails without it.
"""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest

import cwboost as cb
from browser import Page, browser, find_browser
from export_cases import (
    HOSTILE_COLUMNS,
    HOSTILE_LEVELS,
    KINDS,
    assert_same,
    contributions,
    hard_rows,
    hostile_model,
    hostile_table,
    kind_model,
    loss_model,
    make_table,
    model_without_pieces,
    predict,
    wide_model,
    with_all_terms,
)
from problems import LOSSES, make_target

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page():
    program = find_browser()
    if program is None:
        reason = "no Chromium found; install it, or set CHROMIUM to a browser's program"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with browser(program) as opened:
        yield opened


def opened(page: Page, model, tmp_path, *arguments, width=1200, **options) -> Page:
    file = tmp_path / "report.html"
    model.report(file, *arguments, **options)
    page.size(width, 900, calm=True)
    page.open(file)
    page.wait("document.querySelector('#prediction .answer b') !== null")
    return page


def quiet(page: Page) -> None:
    """Check that there were no errors and no network requests."""
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith("file:")] == []


def cells(rows, i):
    """Return row i with values that JSON can represent."""
    out = {}
    for name, column in rows.items():
        value = column[i]
        missing = value is None or (isinstance(value, float) and np.isnan(value))
        out[name] = None if missing else value.item() if hasattr(value, "item") else value
    return out


def predicted(page: Page, rows, n, fixed=None):
    """Return scores and responses of all rows, computed by the page."""
    script = "%s.map((cells, i) => cwboostReport.predict(cells, %s[i]))"
    fixed = [{} for _ in range(n)] if fixed is None else fixed
    found = page.run(script % (as_json([cells(rows, i) for i in range(n)]), json.dumps(fixed)))
    parts = ([one[key] for one in found] for key in ("score", "response"))
    return tuple(  # JSON cannot represent infinity
        np.array([[np.inf if v is None else v for v in row] for row in part]) for part in parts
    )


def as_json(value) -> str:
    """Return an expression for the value; a literal could not have the key __proto__."""
    return f"JSON.parse({json.dumps(json.dumps(value))})"


def assert_predicts(page: Page, model, rows, **fixed) -> None:
    n = len(next(iter(rows.values())))
    by_row = None
    if fixed:
        by_row = [{k: float(v[i]) if k == "exposure" else np.atleast_1d(v[i]).tolist()
                   for k, v in fixed.items()} for i in range(n)]  # fmt: skip
    score, response = predicted(page, rows, n, by_row)
    assert_same(score, predict(model, rows, "score", **fixed))
    assert_same(response, predict(model, rows, "response", **fixed))


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_learner_is_evaluated_as_in_the_model(page, kind, tmp_path):
    model, table = kind_model(kind), make_table()
    opened(page, model, tmp_path)
    rows = hard_rows(model, table)
    assert_predicts(page, model, rows)
    n = len(rows["u"])
    json_rows = as_json([cells(rows, i) for i in range(n)])
    found = page.run(
        f"""{json_rows}.map(c => cwboostReport.model.contributions(cwboostReport.rowFrom(c)))"""
    )
    names = page.run("cwboostReport.model.terms.map(t => t.name)")
    for name, effect in contributions(model, rows).items():
        k = names.index(name)
        assert_same(np.array([one[k] for one in found]), effect)
    quiet(page)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_evaluated_as_in_the_model(page, loss, tmp_path):
    model, table = loss_model(loss), make_table()
    opened(page, model, tmp_path, table, make_target(0, table, loss))
    assert_predicts(page, model, hard_rows(model, table))
    quiet(page)


def test_offsets_and_exposure(page, tmp_path):
    table = make_table()
    y = make_target(0, table, "poisson")
    rng = np.random.default_rng(2)
    table["e"] = rng.uniform(0.2, 3.0, len(y))
    model = cb.fit(table, y, [cb.Spline("u"), cb.Category("g")], "poisson", exposure="e")
    opened(page, model, tmp_path)
    assert_predicts(page, model, table, exposure=table["e"])
    page.run("document.querySelector('#fixed-0').focus()")
    page.run("document.querySelector('#fixed-0').select()")
    page.write("2.5")
    shown = page.run("Number(document.querySelector('.answer b').dataset.value)")
    row = page.run("Object.fromEntries(cwboostReport.row().map((v, i) => "
                   "[cwboostReport.model.columns[i].name, v]))")  # fmt: skip
    levels = {c["name"]: c["levels"] for c in page.run("cwboostReport.model.data.columns")}
    one = {"u": [row["u"]], "g": [levels["g"][row["g"]]]}
    assert shown == pytest.approx(model.predict(one, exposure=2.5)[0], rel=1e-12)
    y = make_target(0, table, "multinomial")
    offset = rng.normal(size=(len(y), 3))
    model = cb.fit(table, y, [cb.Spline("u")], "multinomial", offset=offset, n_iter=40)
    opened(page, model, tmp_path)
    assert page.run("document.querySelectorAll('.inputs [id^=fixed]').length") == 3
    assert_predicts(page, model, table, offset=offset)
    quiet(page)


def test_edited_models(page, tmp_path):
    table = make_table()
    model = loss_model("binomial")
    for what, term, more in (
        ("monotone", "u", {}),
        ("rounded", "z", {"digits": 1}),
        ("set_level", "g", {"level": "b", "effect": 0.3}),
        ("zero", "linear(v)", {}),
    ):
        model = model.edit(what, term, **more)
    opened(page, model, tmp_path)
    assert_predicts(page, model, hard_rows(model, table))
    assert page.run("document.querySelectorAll('#edits li').length") == 4
    page.run("document.querySelector('#edits').scrollIntoView()")
    page.wait("document.querySelector('#edits .curve.before') !== null")
    quiet(page)


def test_inputs_move_the_prediction(page, tmp_path):
    """However the inputs are changed, the page shows the prediction for the row in them."""
    model = loss_model("squared")
    opened(page, model, tmp_path)

    def expected(**values):
        row = {"u": 0.0, "v": 0.0, "z": 0.0, "k": 2.0, "g": "a", "h": "p"} | values
        table = {name: np.array([value]) for name, value in row.items()}
        return predict(model, table, "response")[0, 0]

    def shown():
        return page.run("Number(document.querySelector('.answer b').dataset.value)")

    number = page.run("cwboostReport.model.columns.map(c => c.name)")

    def field(name):
        return f"document.getElementById('input-{number.index(name)}')"

    page.run("cwboostReport.setRow({u: 0, v: 0, z: 0, k: 2, g: 'a', h: 'p'})")
    assert shown() == pytest.approx(expected(), abs=1e-9)
    for name, value in (("u", 0.25), ("u", 7.5), ("z", -3.25), ("v", 1e4)):
        page.run(f"{field(name)}.focus(), {field(name)}.select()")
        page.write(str(value))
        assert shown() == pytest.approx(expected(**{name: value}), rel=1e-9, abs=1e-9)
        page.run("cwboostReport.setRow({u: 0, v: 0, z: 0, k: 2, g: 'a', h: 'p'})")
    gone = f"document.getElementById('input-{number.index('v')}-missing')"
    page.run(f"{gone}.focus()")
    page.press(" ", 32, " ")
    assert shown() == pytest.approx(expected(v=np.nan), abs=1e-9)
    page.press(" ", 32, " ")
    assert shown() == pytest.approx(expected(), abs=1e-9)
    for choice, value in (("unseen", "?"), ("missing", None), ("2", "c")):
        page.run(
            f"{field('g')}.value = '{choice}', {field('g')}.dispatchEvent(new Event('change'))"
        )
        assert shown() == pytest.approx(expected(g=value), abs=1e-9)
    page.run("cwboostReport.setRow({u: 0, v: 0, z: 0, k: 2, g: 'a', h: 'p'})")
    page.run(f"{field('u')}.closest('.field').querySelector('[type=range]').focus()")
    page.press("ArrowRight", 39)
    moved = page.run(f"Number({field('u')}.value)")
    assert moved > 0
    assert shown() == pytest.approx(expected(u=moved), abs=1e-9)
    sums = page.run("[...document.querySelectorAll('.waterfall .number')].map(n => n.textContent)")
    assert len(sums) >= 7
    quiet(page)


def test_odd_columns(page, tmp_path):
    """A constant with missing cells, booleans with a linear term, and a Missing learner."""
    rng = np.random.default_rng(0)
    n = 300
    gone = rng.uniform(size=n) < 0.3
    table = {
        "one": np.where(gone, np.nan, 7.0),
        "yes": rng.uniform(size=n) < 0.5,
        "text": np.where(rng.uniform(size=n) < 0.5, None, "here").astype(object),
        "level": rng.integers(0, 3, n).astype(float),
    }
    y = 1.0 * gone + table["yes"] + table["level"] + rng.normal(size=n)
    learners = [cb.Spline("one"), cb.Linear("yes"), cb.Missing("text"), cb.Category("level"),
                cb.Linear("level")]  # fmt: skip
    model = with_all_terms(cb.fit(table, y, learners, n_iter=100))
    opened(page, model, tmp_path, table, y)
    rows = {name: column[:40] for name, column in table.items()}
    rows |= {"one": np.array([7.0, np.nan, 8.0, -1.0] * 10), "level": np.arange(40.0) / 4}
    assert_predicts(page, model, rows)
    inputs = ".inputs :is(input, select)[id^=input]:not([type=checkbox])"
    kinds = page.run(f"[...document.querySelectorAll('{inputs}')].map(e => e.tagName)")
    assert sorted(kinds) == ["INPUT", "SELECT", "SELECT", "SELECT"]
    for _ in range(10):
        page.run("scrollBy({top: 800, behavior: 'instant'}), new Promise(r => setTimeout(r, 30))")
    quiet(page)


def test_models_without_effects(page, tmp_path):
    x = np.linspace(0, 1, 60)
    model = cb.fit({"x": x}, x, n_iter=5)
    for m in (0, 1):
        opened(page, model.at(m), tmp_path, {"x": x}, x)
        assert_predicts(page, model.at(m), {"x": x})
    quiet(page)


def test_rows_of_the_table_can_be_chosen(page, tmp_path):
    table = make_table()
    model = loss_model("gamma")
    opened(page, model, tmp_path, table, rows=5)
    for i in range(5):
        page.run(f"""(() => {{ const s = document.querySelector('#prediction .tools select');
            s.value = '{i}'; s.dispatchEvent(new Event('change')); }})()""")
        shown = page.run("Number(document.querySelector('.answer b').dataset.value)")
        one = {name: column[[i]] for name, column in table.items()}
        assert shown == pytest.approx(predict(model, one, "response")[0, 0], rel=1e-9)
    quiet(page)


def test_a_basis_without_pieces_is_drawn_but_not_evaluated(page, tmp_path):
    model = model_without_pieces()
    file = tmp_path / "report.html"
    model.report(file)
    page.size(1200, 900, calm=True)
    page.open(file)
    page.wait("document.querySelector('#prediction') !== null")
    words = page.run("document.querySelector('#prediction').textContent")
    assert "cannot compute predictions" in words
    assert page.run("document.querySelectorAll('#prediction input').length") == 0
    with pytest.raises(RuntimeError, match="cannot compute predictions"):
        page.run("cwboostReport.predict({u: 0})")
    for _ in range(10):
        page.run("scrollBy({top: 800, behavior: 'instant'}), new Promise(r => setTimeout(r, 30))")
    name = "document.querySelector('[data-name=u] .curve.first').getAttribute('d').length"
    assert page.run(name) > 500
    assert page.run("document.querySelectorAll('#interactions canvas, #interactions svg').length")
    move(page, 5)
    quiet(page)


# --- the path -------------------------------------------------------------------------------------

CURVE = "document.querySelector('.mini path.curve:not(.ghost)').getAttribute('d')"


def move(page: Page, iteration: int) -> None:
    page.run(f"""(() => {{ const s = document.getElementById('iteration'); s.value = {iteration};
        s.dispatchEvent(new Event('input')); }})()""")


def test_the_slider_changes_curves_and_risk(page, tmp_path):
    table = make_table()
    model = cb.fit(table, make_target(0, table, "squared"), n_iter=300, validation=0.2)
    opened(page, model, tmp_path)
    page.run("document.querySelector('#growth').scrollIntoView()")
    page.wait("document.querySelector('.risk svg') !== null")
    at_end, seen = page.run(CURVE), []
    ghost = page.run("document.querySelector('.mini path.ghost').getAttribute('d')")
    move(page, model.best_iteration)
    assert page.run(CURVE) == ghost
    for m in (0, 5, 50, 299):
        move(page, m)
        seen.append(page.run(CURVE))
        words = page.run("document.querySelector('.player output').textContent")
        assert words == f"iteration {m} of {model.n_iter}"
        risk = page.run("document.querySelector('.standing b').textContent")
        assert float(risk) == pytest.approx(model.risk[m], rel=1e-3)
    assert len({at_end, *seen}) >= 4
    move(page, 0)
    assert page.run("document.querySelectorAll('.mini.out').length") == page.run(
        "document.querySelectorAll('.mini').length"
    )
    names = page.run("cwboostReport.model.terms.map(t => t.name)")
    for m in page.run("cwboostReport.model.path.at")[::9]:  # the iterates, stored in 16 bits
        for k, name in enumerate(names):
            drawn = page.run(f"Array.from(cwboostReport.model.path.beta({k}, {m}))")
            unit = page.run(f"cwboostReport.model.path.terms[{k}].unit")
            assert np.allclose(drawn, model.at(m).terms[name].beta.ravel(), rtol=0, atol=unit)
    quiet(page)


def test_the_animation_plays_and_stops(page, tmp_path):
    table = make_table()
    model = cb.fit(table, make_target(0, table, "squared"), n_iter=120)
    opened(page, model, tmp_path)
    page.size(1200, 900)
    page.run("document.querySelector('#play').focus()")
    page.press("Enter", 13, "\r")
    value = "Number(document.getElementById('iteration').value)"
    page.wait(f"{value} > 3 && {value} < 120")
    page.press("Enter", 13, "\r")
    stopped = page.run(value)
    time.sleep(0.2)
    assert page.run(value) == stopped
    assert page.run("document.querySelector('#play').textContent").endswith("Play")
    page.run("document.getElementById('iteration').focus()")
    page.press("ArrowRight", 39)
    assert page.run(value) == stopped + 1
    quiet(page)


def test_the_switch_of_a_hybrid_is_not_interpolated(page, tmp_path):
    table = make_table(n=600)
    optimizer = cb.Hybrid(0.3, 0.1, then="training")
    y = make_target(0, table, "binomial")
    model = cb.fit(table, y, loss="binomial", optimizer=optimizer, n_iter=400, validation=0.3)
    switch = model.path.switched_after
    assert 0 < model.path.rewound_to < switch
    opened(page, model, tmp_path)
    at = page.run("cwboostReport.model.path.at")
    assert {switch, switch + 1, model.path.rewound_to} <= set(at)
    halfway = page.run(f"cwboostReport.model.path.place({switch} + 0.5)")
    assert halfway["share"] == 0
    quiet(page)


# --- names, sizes, views --------------------------------------------------------------------------


def test_hostile_names_are_text(page, tmp_path):
    model, table = hostile_model(), hostile_table()
    opened(page, model, tmp_path, table, rows=3)
    assert_predicts(page, model, hard_rows(model, table))
    text = page.run("document.body.textContent")
    for name in HOSTILE_COLUMNS:
        assert name in text
    options = page.run("[...document.querySelectorAll('#prediction select option')].map(o => "
                       "o.textContent)")  # fmt: skip
    assert {" ".join(level.split()) for level in HOSTILE_LEVELS} - {""} <= {
        " ".join(option.split()) for option in options
    }
    quiet(page)


def test_names_that_are_markup_or_very_long(page, tmp_path):
    names = [
        "<script>window.broken = 1</script>",
        "</script><script>window.broken = 1</script>",
        '"><img src=x onerror="window.broken=1">',
        "'; window.broken = 1; //",
        "${window.broken = 1}",
        "😀 emoji 👩‍👩‍👧‍👦",
        "مرحبا \u202e reversed",
        "two\nlines\r\nand\ttabs\0",
        "x" * 10_000,
        "__proto__",
        "constructor",
        "",
    ]
    rng = np.random.default_rng(0)
    n = 600
    table = {name: rng.choice(np.array(names, dtype=object), n) for name in names if name}
    table |= {f"number {name}": rng.normal(size=n) for name in names}
    y = np.where(rng.uniform(size=n) < 0.5, names[0], names[1])
    y[:40] = names[9]
    model = cb.fit(table, y, loss="multinomial", n_iter=400, optimizer=cb.Plain(0.5))
    opened(page, model, tmp_path, table, y, title=names[1])
    assert page.run("document.title") == names[1]
    assert page.run("document.querySelector('h1').textContent") == names[1]
    assert page.run("window.broken === undefined")
    assert page.run("document.querySelectorAll('img').length") == 0
    assert_predicts(page, model, hard_rows(model, table))
    for _ in range(12):
        page.run("scrollBy({top: 800, behavior: 'instant'}), new Promise(r => setTimeout(r, 30))")
    assert page.run("document.documentElement.scrollWidth") <= 1200
    assert page.run("window.broken === undefined")
    quiet(page)


def test_200_terms_and_100_levels_stay_usable(page, tmp_path):
    model, table = wide_model()
    began = time.monotonic()
    opened(page, model, tmp_path)
    assert time.monotonic() - began < 8
    assert (tmp_path / "report.html").stat().st_size <= 3_000_000
    some = {name: column[:30] for name, column in table.items()}
    assert_predicts(page, model, some)
    drawn = page.run("document.querySelectorAll('#effects svg').length")
    assert drawn < 50  # the others are drawn when they come into view
    page.run("document.querySelector('#search').focus()")
    page.write("column 17")
    visible = "[...document.querySelectorAll('#effects article')].filter(a => !a.hidden).length"
    assert page.run(visible) == 11  # 17, 170 to 179
    page.run("(() => { const s = document.querySelector('#search'); s.value = 'level'; "
             "s.dispatchEvent(new Event('input')); })()")  # fmt: skip
    assert page.run(visible) == 1
    assert page.run("document.querySelectorAll('#effects .levels tbody tr').length") == 100
    assert page.run("document.querySelectorAll('.inputs .field').length") <= 20
    milliseconds = page.run("""(async () => {
        const slider = document.getElementById('iteration');
        const began = performance.now();
        for (let i = 0; i < 20; i++) {
            slider.value = 30 * i;
            slider.dispatchEvent(new Event('input'));
        }
        return (performance.now() - began) / 20; })()""")
    assert milliseconds < 100
    quiet(page)


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_no_width_scrolls_sideways(page, width, tmp_path):
    table = make_table()
    model = loss_model("multinomial")
    opened(page, model, tmp_path, table, make_target(0, table, "multinomial"), width=width)
    for _ in range(20):
        page.run("scrollBy({top: 700, behavior: 'instant'}), new Promise(r => setTimeout(r, 30))")
    assert page.run("document.documentElement.scrollWidth") <= width
    quiet(page)


def test_scale_class_and_theme(page, tmp_path):
    table = make_table()
    model = loss_model("multinomial")
    opened(page, model, tmp_path, table, make_target(0, table, "multinomial"))
    page.run("document.querySelector('#effects').scrollIntoView()")
    curve = "document.querySelector('#effects .curve.first').getAttribute('d')"
    page.wait("document.querySelector('#effects .curve.first') !== null")
    score = page.run(curve)
    page.run("document.querySelector('[data-scale=response]').click()")
    response = page.run(curve)
    page.run("(() => { const s = document.querySelector('#class'); s.value = '1'; "
             "s.dispatchEvent(new Event('change')); })()")  # fmt: skip
    assert len({score, response, page.run(curve)}) == 3
    theme = "document.documentElement.dataset.theme"
    assert page.run(theme) == "light"
    page.run("document.querySelector('#theme').click()")
    assert page.run(theme) == "dark"
    page.size(1200, 900, dark=True)
    page.open(tmp_path / "report.html")
    assert page.run(theme) == "dark"
    quiet(page)


def test_text_is_legible_in_both_themes(page, tmp_path):
    """The contrast of text with its background is at least 4.5."""
    opened(page, loss_model("squared"), tmp_path)
    script = """(pairs => {
        const style = getComputedStyle(document.documentElement);
        const linear = c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const light = name => {
            const parts = style.getPropertyValue(name).match(/[0-9a-f]{2}/gi);
            const [r, g, b] = parts.map(h => linear(parseInt(h, 16) / 255));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        return pairs.map(([a, b]) => {
            const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
            return (x + 0.05) / (y + 0.05);
        });
    })"""
    texts = ("--text", "--quiet", "--accent")
    pairs = [[text, ground] for text in texts for ground in ("--page", "--card", "--faint")]
    pairs += [["--above", "--card"], ["--below", "--card"], ["--second", "--card"]]
    for theme in ("light", "dark"):
        page.run(f"document.documentElement.dataset.theme = '{theme}'")
        found = page.run(f"{script}({json.dumps(pairs)})")
        assert min(found) >= 4.5, dict(zip(map(tuple, pairs), found, strict=True))


def test_controls_can_be_reached_by_keyboard_and_have_names(page, tmp_path):
    table = make_table()
    opened(page, loss_model("binomial"), tmp_path, table, make_target(0, table, "binomial"))
    controls = "[...document.querySelectorAll('button, input, select, summary, a[href]')]"
    nameless = page.run(f"""{controls}.filter(c => !(c.textContent.trim() || c.ariaLabel
        || (c.labels && [...c.labels].some(l => l.textContent.trim())))).map(c => c.outerHTML)""")
    assert nameless == []
    assert page.run("[...document.querySelectorAll('svg[role=img], canvas[role=img]')]"
                    ".every(s => s.getAttribute('aria-label'))")  # fmt: skip
    reached = set()
    for _ in range(60):
        page.press("Tab", 9)
        reached.add(page.run("(e => e.id || e.tagName)(document.activeElement)"))
    assert {"theme", "play", "iteration"} <= reached


def test_printing_shows_everything(page, tmp_path):
    model, _ = wide_model()
    opened(page, model, tmp_path)
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('#effects svg').length") == 200
    assert page.run("document.querySelectorAll('.mini').length") == 201
    assert page.run("document.querySelectorAll('#importance tbody tr').length") >= 201
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.pdf().startswith(b"%PDF")
    quiet(page)
