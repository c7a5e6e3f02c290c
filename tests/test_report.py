"""Tests of the report as a file: its content, the escaping of names, and requests that are refused.

The look and the interaction are tested in a browser (test_report_browser.py).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest

import cwboost as cb
from cwboost.cli.main import main
from cwboost.explain import quality
from cwboost.frames.read_frames import read
from cwboost.model.pieces import term_axes
from cwboost.report.fit_code import fit_code
from cwboost.report.page import MAX_BYTES
from export_cases import (
    HOSTILE_COLUMNS,
    hostile_model,
    hostile_table,
    loss_model,
    make_table,
    model_without_pieces,
    wide_model,
)
from problems import LOSSES, make_target


class Parsed(HTMLParser):
    """Tags and texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.inside = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.tags.append((tag, known))
        self.inside = known.get("id") or tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        self.texts[self.inside] = self.texts.get(self.inside, "") + data


def written(model, tmp_path, *arguments, **options):
    """Write the report and return the page and the data in it."""
    file = tmp_path / "report.html"
    model.report(file, *arguments, **options)
    page = Parsed(file.read_text(encoding="utf-8"))
    return page, json.loads(page.texts["data"])


def unpacked(text, dtype="<f8"):
    return np.frombuffer(base64.b64decode(text), dtype)


@pytest.fixture(scope="module")
def mixed():
    """Return a model of a table with columns of several kinds, and the table."""
    table = make_table(n=400)
    table["y"] = make_target(0, table, "binomial")
    learners = [cb.Spline("u"), cb.Step("z"), cb.Category("g"), cb.Spline("v")]
    return cb.fit(table, "y", learners, "binomial", n_iter=150), table


def test_the_page_is_complete_and_loads_nothing(mixed, tmp_path):
    model, table = mixed
    page, data = written(model, tmp_path, table)
    assert data["title"] == "Model of y"
    assert page.texts["title"] == "Model of y"
    loading = {"src", "href", "srcset", "action", "data", "poster"}
    found = [(t, k, a[k]) for t, a in page.tags for k in loading & set(a)]
    assert found == [("a", "href", "#overview")]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "http://www.w3.org/2000/svg" in text
    assert len(re.findall(r"https?://", text)) == 1  # a namespace, not an address
    assert "innerHTML" not in text


def test_the_policy_allows_its_own_script_and_style_only(mixed, tmp_path):
    page, _ = written(mixed[0], tmp_path)
    policy = next(a["content"] for _, a in page.tags if "http-equiv" in a)
    for part in ("script", "style"):
        digest = hashlib.sha256(page.texts[part].encode()).digest()
        assert f"{part}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_terms_are_exact(mixed, tmp_path):
    """The page has the coefficients, means and basis polynomials of the model."""
    model, _ = mixed
    _, data = written(model, tmp_path)
    assert [t["name"] for t in data["terms"]] == list(model.terms)
    polynomials = np.split(
        unpacked(data["polynomials"]["numbers"]), np.cumsum(data["polynomials"]["sizes"])[:-1]
    )
    for packed, term in zip(data["terms"], model.terms.values(), strict=True):
        assert np.array_equal(unpacked(packed["beta"]), term.beta.ravel())
        assert np.array_equal(unpacked(packed["mean"]), term.plan.basis.mean)
        (axis,), (exact,) = packed["axes"], term_axes(term, model.columns)
        blocks = np.zeros(exact.blocks.shape)
        pieces = np.repeat(np.arange(exact.n_pieces), axis["count"])
        for piece, coef, number in zip(pieces, axis["coef"], axis["polynomial"], strict=True):
            blocks[piece, : len(polynomials[number]), coef] = polynomials[number]
        np.testing.assert_allclose(blocks, exact.blocks, rtol=0, atol=1e-14)
        if axis["breaks"] is not None:
            assert np.array_equal(unpacked(axis["breaks"]), exact.breaks)
    assert np.array_equal(unpacked(data["intercept"]), np.atleast_1d(model.intercept))


def test_frames_are_the_iterates(mixed, tmp_path):
    model, _ = mixed
    _, data = written(model, tmp_path)
    path = data["path"]
    assert path["at"][0] == 0
    assert path["at"][-1] == path["last"] == model.n_iter
    assert path["best"] in path["at"]
    for k, m in enumerate(path["at"]):
        if k % 20:
            continue
        assert all(t.chosen for t in model.terms.values())
        for packed, term in zip(path["terms"], model.at(m).terms.values(), strict=True):
            steps = unpacked(packed["frames"], "<i2").reshape(len(path["at"]), -1)
            unit = packed["unit"]
            assert np.allclose(steps[k] * unit, term.beta.ravel(), rtol=0, atol=unit)
    counts = [t["chosen"][-1] for t in path["terms"]]
    assert sum(counts) == model.n_iter
    assert np.allclose(path["risk"], model.risk[path["points"]])


def test_risks_of_a_model_refitted_to_all_rows_belong_to_its_boosted_fit(tmp_path):
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=400)}
    y = np.sin(6 * table["x"]) + rng.normal(0, 0.3, 400)
    for polish, expected in ((None, None), ("repeat", {"edf": None})):
        model = cb.fit(table, y, n_iter=50, validation=0.2, polish=polish)
        assert written(model, tmp_path)[1]["polish"] == expected
    model = cb.fit(table, y, n_iter=50, validation=0.2, polish=True)
    assert written(model, tmp_path)[1]["polish"]["edf"] == pytest.approx(
        sum(model.polish.edf.values()), rel=1e-3
    )


def test_an_edited_model_has_the_path_of_its_fit(mixed, tmp_path):
    model, _ = mixed
    edited = model.edit("zero", "g").edit("rounded", "z", digits=1)
    _, data = written(edited, tmp_path)
    assert [e["term"] for e in data["edits"]] == ["g", "z"]
    assert set(data["importance"]) == {"u", "z", "v"}
    assert data["importance"]["u"]["size"] == model.sizes.terms["u"]
    assert data["importance"]["z"]["risk"] is None
    assert "a sketch of the training rows" in data["size_words"]
    term = next(t for t in data["terms"] if t["name"] == "g")
    assert not term["chosen"]
    _, fitted = written(model, tmp_path)
    assert data["path"]["risk"] == fitted["path"]["risk"]
    frames = [[t["frames"] for t in d["path"]["terms"]] for d in (data, fitted)]
    assert frames[0] == frames[1]
    assert fitted["importance"]["z"] == {
        "size": model.sizes.terms["z"],
        "column_size": model.sizes.columns["z"],
        "risk": model.importance("risk", by="term")["z"],
    }


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_has_metrics_and_calibration(loss, tmp_path):
    table = make_table()
    y = make_target(0, table, loss)
    model = loss_model(loss)
    _, data = written(model, tmp_path, table, y)
    judged = data["judged"]
    assert judged["n"] == len(y)
    assert all(value is not None for _, value in judged["metrics"])
    assert len(judged["calibration"]) == model.n_outputs
    for groups in judged["calibration"]:
        assert sum(groups["rows"]) == len(y)
        assert sorted(groups["predicted"]) == groups["predicted"]


def test_metrics_equal_the_metrics_of_scikit_learn():
    from sklearn.metrics import brier_score_loss, log_loss, r2_score, roc_auc_score

    table = make_table()
    rng = np.random.default_rng(3)
    w = rng.uniform(0.5, 2.0, len(table["u"]))
    y = make_target(0, table, "binomial")
    model = loss_model("binomial")
    found = quality.figures(quality.evaluate_rows(model, read(table), y, w))
    p = model.predict(table)
    assert found["AUC"] == pytest.approx(roc_auc_score(y == "yes", p, sample_weight=w))
    assert found["log loss"] == pytest.approx(log_loss(y == "yes", p, sample_weight=w))
    assert found["Brier score"] == pytest.approx(brier_score_loss(y == "yes", p, sample_weight=w))
    y = make_target(0, table, "squared")
    found = quality.figures(quality.evaluate_rows(loss_model("squared"), read(table), y, w))
    p = loss_model("squared").predict(table)
    assert found["R²"] == pytest.approx(r2_score(y, p, sample_weight=w))


def test_calibration_of_rates_is_per_exposure():
    rng = np.random.default_rng(0)
    n = 4000
    table = {"x": rng.uniform(size=n), "e": rng.uniform(0.1, 3.0, n)}
    rate = np.exp(table["x"])
    y = rng.poisson(rate * table["e"])
    model = cb.fit(table, y, loss="poisson", exposure="e", n_iter=300)
    found = quality.calibration(quality.evaluate_rows(model, read(table), y))
    assert found["predicted"][0] == pytest.approx(1.05, abs=0.1)
    assert found["predicted"][-1] == pytest.approx(2.6, abs=0.2)
    inside = (found["low"] <= found["predicted"]) & (found["predicted"] <= found["high"])
    assert inside.sum() >= 8


def test_hostile_names_are_data(tmp_path):
    page, data = written(hostile_model(), tmp_path, hostile_table(), rows=3)
    assert {c["name"] for c in data["columns"]} == {*HOSTILE_COLUMNS, "x"}
    assert [t for t, _ in page.tags].count("script") == 2
    nasty = ["</script><script>alert(1)</script>", "<!--", "{{script}}", "\ud800", "\u2028"]
    table = {"g": np.array(nasty * 8, dtype=object)}
    model = cb.fit(table, np.arange(40) % 5.0, n_iter=20)
    page, data = written(model, tmp_path, title="<b>{{data}}</b>")
    assert [t for t, _ in page.tags].count("script") == 2
    assert sorted(data["columns"][0]["levels"]) == sorted(nasty)
    assert page.texts["title"] == "<b>{{data}}</b>"


def test_fit_code_fits_the_model_again():
    table = make_table()
    table["target"] = make_target(0, table, "poisson")
    table["w"] = np.random.default_rng(0).uniform(1, 2, len(table["u"]))
    table["e"] = np.random.default_rng(1).uniform(1, 2, len(table["u"]))
    model = cb.fit(
        table,
        "target",
        [
            cb.Spline("u", df=3, bins=cb.Bins(30, "quantile")),
            cb.Linear("v"),
            cb.Category("g", kind="binary"),
            cb.Tensor(cb.Spline("u", knots=3), "g", df=6),
            cb.Step("z", name="steps"),
        ],
        loss=cb.Tweedie(1.2),
        optimizer=cb.Hybrid(0.2, then="training"),
        n_iter=60,
        weights="w",
        exposure="e",
        validation=0.3,
        random_state=5,
    ).edit("rounded", "steps", digits=2)
    known = {"table": table}
    exec(fit_code(model), known)
    assert np.array_equal(known["model"].predict(table), model.predict(table))
    assert known["model"].edits == model.edits


def test_fit_code_keeps_min_rows_per_bin():
    rng = np.random.default_rng(3)
    table = {"x": rng.uniform(size=300).round(2), "place": rng.choice(["n", "s"], 300)}
    table["y"] = np.sin(6 * table["x"]) + rng.normal(0, 0.1, 300)
    model = cb.fit(table, "y", [cb.Step("x")], n_iter=40, min_rows_per_bin=9, sites="place")
    assert len(model.terms["x"].beta) < len(cb.fit(table, "y", [cb.Step("x")]).terms["x"].beta)
    known = {"table": table}
    exec(fit_code(model), known)
    assert known["model"].settings == model.settings
    assert np.array_equal(known["model"].predict(table), model.predict(table))


def test_rows_are_embedded_only_when_asked_for(mixed, tmp_path):
    model, table = mixed
    assert written(model, tmp_path, table)[1]["rows"] == []
    rows = written(model, tmp_path, table, rows=2)[1]["rows"]
    assert len(rows) == 2
    names = [c["name"] for c in written(model, tmp_path)[1]["columns"]]
    assert rows[0][names.index("g")] == table["g"][0]
    assert rows[0][names.index("u")] == table["u"][0]


def test_no_more_than_three_megabytes(tmp_path):
    model, _ = wide_model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, data = written(model, tmp_path)
    assert len(data["terms"]) == 201
    assert (tmp_path / "report.html").stat().st_size <= MAX_BYTES
    assert len(data["path"]["at"]) > 20


def test_a_large_report_causes_a_warning(tmp_path):
    table = {"g": np.array([f"{j:03d}" + "x" * 20_000 for j in range(200)] * 3, dtype=object)}
    model = cb.fit(table, np.arange(600.0) % 200, n_iter=20)
    with pytest.warns(UserWarning, match=r"the report has 4.* MB"):
        model.report(tmp_path / "r.html")


def test_bad_requests_are_refused(mixed, tmp_path):
    model, table = mixed
    file = tmp_path / "r.html"
    with pytest.raises(IsADirectoryError, match="this is a folder; name a file"):
        model.report(tmp_path)
    with pytest.raises(FileNotFoundError, match="this folder does not exist; create it first"):
        model.report(tmp_path / "no" / "r.html")
    with pytest.raises(ValueError, match="the table lacks the columns 'u', 'z'; it has"):
        model.report(file, {"g": table["g"], "v": table["v"]})
    with pytest.raises(TypeError, match="y can only be used together with table="):
        model.report(file, y=table["y"])
    with pytest.raises(TypeError, match="rows can only be used together with table="):
        model.report(file, rows=3)
    with pytest.raises(ValueError, match="rows: expected a whole number from 0 to 1000000, got -1"):
        model.report(file, table, rows=-1)
    with pytest.raises(ValueError, match="class 'maybe' does not occur"):
        model.report(file, table, np.array(["maybe"] * len(table["u"])))
    assert not list(tmp_path.iterdir())


def test_a_failed_report_leaves_the_old_one(mixed, tmp_path, monkeypatch):
    from pathlib import Path

    model, _ = mixed
    file = tmp_path / "r.html"
    file.write_text("old")

    def fail(*_, **__):
        raise OSError("disk full")

    for method in ("write_text", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, fail)
            with pytest.raises(OSError, match="disk full"):
                model.report(file)
        assert [file.read_text(), list(tmp_path.iterdir())] == ["old", [file]]


def test_a_loss_written_in_python(tmp_path):
    class Own:
        def loss(self, y, score):
            return (y - score) ** 2

        def gradient(self, y, score):
            return 2 * (score - y)

        def start(self, y, weights):
            return np.average(y, weights=weights)

        def response(self, score):
            return score**2

    x = np.linspace(0, 1, 60)
    _, data = written(cb.fit({"x": x}, x, loss=Own(), n_iter=10), tmp_path, {"x": x}, x)
    assert data["link"] is None
    assert ["loss", "Own (written in Python)"] in data["facts"]


def test_a_basis_without_pieces_is_drawn_from_samples(tmp_path):
    """The page has the effects at points, at every key frame, and says that it cannot predict."""
    model = model_without_pieces()
    _, data = written(model, tmp_path)
    assert "the term 'u' (and 1 more) has a basis (CosineBasis)" in data["cannot_predict"]
    packed = next(t for t in data["terms"] if t["name"] == "u")
    points = unpacked(packed["axes"][0]["breaks"])
    effect = model.contributions({name: np.resize(column, len(points))
                                  for name, column in make_table().items()}
                                 | {"u": points})["u"]  # fmt: skip
    np.testing.assert_allclose(unpacked(packed["beta"])[:-1], effect, atol=1e-12)
    path = data["path"]
    at = len(path["at"]) // 2
    frames = next(f for f, t in zip(path["terms"], data["terms"], strict=True) if t is packed)
    drawn = unpacked(frames["frames"], "<i2").reshape(len(path["at"]), -1)[at] * frames["unit"]
    then = model.at(path["at"][at]).effect("u", len(points))["effect"]
    np.testing.assert_allclose(drawn[: len(points)], then[: len(points)], atol=frames["unit"])
    _, data = written(loss_model("squared"), tmp_path)
    assert data["cannot_predict"] is None


def test_models_without_terms_or_iterations(tmp_path):
    x = np.linspace(0, 1, 60)
    model = cb.fit({"x": x}, x, n_iter=5)
    _, data = written(model.at(0), tmp_path)
    assert data["terms"] == []
    _, data = written(model.at(2), tmp_path, {"x": x}, x)
    assert data["path"]["at"] == [0, 1, 2]


def test_the_estimators_report(tmp_path):
    table = make_table(n=300)
    X = {name: table[name] for name in ("u", "g", "v")}
    y = make_target(0, table, "multinomial")
    classifier = cb.CWBClassifier(n_iter=30).fit(X, y)
    classifier.report(tmp_path / "c.html", X, y, title="three classes")
    data = json.loads(Parsed((tmp_path / "c.html").read_text(encoding="utf-8")).texts["data"])
    assert data["classes"] == ["one", "three", "two"]
    assert dict(data["judged"]["metrics"])["accuracy"] == classifier.score(X, y)
    y = make_target(0, table, "squared")
    regressor = cb.CWBRegressor(n_iter=30).fit(X, y)
    regressor.report(tmp_path / "r.html", X, y)
    data = json.loads(Parsed((tmp_path / "r.html").read_text(encoding="utf-8")).texts["data"])
    assert dict(data["judged"]["metrics"])["R²"] == pytest.approx(regressor.score(X, y))
    regressor.report(tmp_path / "r.html")


def test_the_command(mixed, tmp_path, monkeypatch, capsys):
    model, table = mixed
    monkeypatch.chdir(tmp_path)
    model.save("model.json")
    cb_rows = {name: column[:50] for name, column in table.items()}
    from cwboost.frames.files import write_table

    write_table("rows.csv", cb_rows)
    assert main(["report", "model.json", "rows.csv", "--rows", "2", "--title", "mine"]) == 0
    data = json.loads(Parsed((tmp_path / "report.html").read_text(encoding="utf-8")).texts["data"])
    assert [data["title"], data["judged"]["n"], len(data["rows"])] == ["mine", 50, 2]
    assert main(["report", "model.json", "-o", "own.html"]) == 0
    assert (tmp_path / "own.html").stat().st_size > 50_000
    assert main(["report", "model.json", "-o", "."]) == 1
    assert "this is a folder" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["report", "model.json", "--target", "y"])
    assert "--target needs a TABLE" in capsys.readouterr().err
