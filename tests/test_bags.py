"""Tests of bagging: the averaged model predicts the mean of the fits on the bags."""

from __future__ import annotations

import pickle
import signal
import threading

import numpy as np
import pytest

import cwboost as cb
from cwboost.export.model_file import ModelFileError, from_dict, to_dict
from cwboost.fitting import bag_polish
from cwboost.fitting.bags import BaggedFit
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.input_data import Split
from cwboost.fitting.preparation import prepare
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.losses import risk
from cwboost.model.edits import unedited

LOSSES = ["squared", "binomial", "multinomial", "poisson", cb.Quantile(0.7)]


def make_table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    table = {"x": rng.uniform(size=n), "z": rng.normal(size=n), "g": rng.choice(list("abc"), n)}
    table["z"][rng.uniform(size=n) < 0.1] = np.nan
    return table, np.sin(6 * table["x"]) + (table["g"] == "a") + rng.normal(0, 0.5, n)


def make_target(y, loss):
    if loss == "binomial":
        return np.where(y > 0.5, "yes", "no")
    if loss == "multinomial":
        return np.digitize(y, [0.0, 1.0])
    return np.floor(np.exp(y)) if loss == "poisson" else y


def members(table, y, held, optimizer, n_iter, **options):
    """Yield the fit of each bag, fitted separately on the same bins."""
    binned, w = prepare(table, y, **options), np.ones(len(y))
    for out in held:
        split = Split(np.where(out, 0.0, w), np.where(out, w, 0.0), w)
        yield FitProblem.pose(binned, split, optimizer).fit(n_iter, stopping=EarlyStopping(50))


@pytest.fixture(scope="module")
def bagged():
    table, y = make_table()
    return table, y, cb.fit(table, y, bags=4, n_iter=60)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize(
    "optimizer", [cb.Plain(), cb.Hybrid(0.3, 0.03, then="training"), cb.Hybrid(0.1, 0.03)], ids=repr
)
def test_the_average_predicts_the_mean_score_of_its_bags(loss, optimizer):
    table, y = make_table()
    y = make_target(y, loss)
    rng = np.random.default_rng(1)
    inside = rng.uniform(size=(3, len(y))) < 0.8
    model = cb.fit(table, y, loss=loss, optimizer=optimizer, n_iter=40, bags=inside)
    new, _ = make_table(100, seed=5)
    found = list(members(table, y, ~inside, optimizer, 40, loss=loss))
    mean = np.mean([m.predict(new, kind="score") for m in found], axis=0)
    np.testing.assert_allclose(model.predict(new, kind="score"), mean, rtol=0, atol=1e-12)
    assert model.bags.best_iteration == tuple(m.best_iteration for m in found)
    assert model.bags.validation_risk == pytest.approx(
        [m.validation_risk[m.best_iteration] for m in found], rel=1e-12
    )
    assert sum(model.importance("risk").values()) == pytest.approx(
        model.bags.risk_at_start - model.risk[0], rel=1e-8
    )


def test_effects_are_centred_over_all_rows_and_add_up(bagged):
    table, y, model = bagged
    parts = model.contributions(table)
    for effect in parts.values():
        assert abs(effect.mean()) < 1e-3  # evaluated at the values, but centred over the bins
    total = model.intercept + sum(parts.values())
    np.testing.assert_allclose(total, model.predict(table), rtol=0, atol=1e-12)
    on_rows = model.importance("risk", table=table, y=y)
    assert on_rows == pytest.approx(model.importance("risk"), rel=1e-2)
    assert model.importance(table=table) == pytest.approx(model.importance(), rel=1e-2)


def test_the_validation_risk_of_a_row_averages_the_bags_that_leave_it_out():
    table, y = make_table()
    y, offset = np.floor(np.exp(y)), np.random.default_rng(2).normal(0, 0.3, len(y))
    inside = np.random.default_rng(1).uniform(size=(3, len(y))) < 0.6
    options = {"loss": "poisson", "bins": "exact"}
    model = cb.fit(table, y, n_iter=30, bags=inside, offset=offset, **options)
    binned, w = prepare(table, y, offset=offset, **options), np.ones(len(y))
    total = np.zeros(len(y))
    for marks in inside:
        split = Split(np.where(marks, w, 0.0), np.where(marks, 0.0, w), w)
        fitted = FitProblem.pose(binned, split, cb.Plain()).fit(30, stopping=EarlyStopping(50))
        total += np.where(marks, 0.0, fitted.predict(table, kind="score", offset=offset))
    out = (~inside).sum(axis=0)
    some = out > 0
    expected = risk(model.loss, y[some], total[some] / out[some], w[some])
    assert model.validation_risk[0] == pytest.approx(expected, rel=1e-10)


def test_bags_are_stratified_by_class_and_drawn_from_the_seed():
    table, y = make_table(200)
    y = np.where(np.arange(200) < 20, "rare", "usual")
    first, same, other = (
        cb.fit(table, y, loss="binomial", n_iter=5, bags=3, validation=0.3, random_state=s)
        for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first.predict(table), same.predict(table))
    assert np.any(first.predict(table) != other.predict(table))
    np.testing.assert_allclose(first.bags.start, np.log(126 / 14), rtol=1e-12)  # 70% of each class


@pytest.mark.parametrize("n_threads", [2, 5])
def test_threads_do_not_matter(bagged, n_threads):
    table, y, model = bagged
    again = cb.fit(table, y, bags=4, n_iter=60, n_threads=n_threads)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))
    assert again.validation_risk == model.validation_risk


def test_integer_weights_equal_repeated_rows():
    table, y = make_table(150)
    times = np.random.default_rng(3).integers(0, 4, 150)
    inside = np.random.default_rng(1).uniform(size=(3, 150)) < 0.7
    # Values on a grid, so that bins and knots are the same.
    table["x"], table["z"] = np.round(table["x"], 1), np.round(table["z"], 0)
    repeated = {name: np.repeat(column, times) for name, column in table.items()}
    masks = np.repeat(inside, times, axis=1)
    model = cb.fit(table, y, n_iter=30, weights=times, bags=inside)
    expected = cb.fit(repeated, np.repeat(y, times), n_iter=30, bags=masks)
    np.testing.assert_allclose(model.predict(table), expected.predict(table), rtol=1e-9)
    assert model.importance() == pytest.approx(expected.importance(), rel=1e-9)
    assert model.validation_risk[0] == pytest.approx(expected.validation_risk[0], rel=1e-9)


@pytest.mark.parametrize("kind", ["ridge", "binary"])
def test_a_bag_may_lack_a_level_or_all_missing_cells(kind):
    table, y = make_table(120)
    inside = np.ones((3, 120), bool)
    inside[0] = table["g"] != "b"
    inside[1] = ~np.isnan(table["z"])
    inside[2, ::3] = False
    learners = [cb.Category("g", kind=kind), cb.Spline("z"), cb.Linear("x")]
    model = cb.fit(table, y, learners, n_iter=50, bags=inside)
    assert np.isfinite(model.predict(table)).all()
    assert np.isfinite(model.effect("g")["effect"]).all()


def test_bagging_predicts_better_than_a_single_fit():
    table, y = make_table(400)
    new, _ = make_table(2000, seed=9)
    truth = np.sin(6 * new["x"]) + (new["g"] == "a")
    errors = []
    for bags in (None, 8):
        found = [
            cb.fit(table, y, n_iter=300, validation=0.2, bags=bags, random_state=s).predict(new)
            for s in range(3)
        ]
        errors.append(np.mean((np.array(found) - truth) ** 2))
    assert errors[1] < 0.9 * errors[0]


# --- what an average supports ---------------------------------------------------------------------


def test_an_average_has_no_path(bagged):
    table, y, model = bagged
    assert (model.n_iter, model.choices, len(model.risk)) == (0, [], 1)
    for call in (
        lambda: model.at(0),
        lambda: model.extend(5, table, y),
        lambda: model.importance("path"),
        lambda: model.plot(kind="risk"),
        lambda: model.plot(kind="traces"),
    ):
        with pytest.raises(ValueError, match="average of 4 bags, which has no path"):
            call()
    assert "average of 4 bags" in model.summary()
    assert "average of 4 bags" in repr(model)
    assert "average of 4 bags" in model._repr_html_()


def test_saving_and_pickling_keep_the_whole_average(bagged, tmp_path):
    table, _, model = bagged
    model.save(tmp_path / "m.json")
    for again in (cb.load(tmp_path / "m.json"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert again.summary() == model.summary()
        for name, coef in model.bags.coef.items():
            np.testing.assert_array_equal(again.bags.coef[name], coef)
        for key in ("chosen", "n_iter", "best_iteration", "validation_risk", "risk_at_start"):
            assert getattr(again.bags, key) == getattr(model.bags, key)
        assert to_dict(again) == to_dict(model)
    size = (tmp_path / "m.json").stat().st_size
    single = sum(term.beta.nbytes for term in model.terms.values())
    assert size < 15_000 + 4 * 1.4 * single  # coefficients are packed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": [[0.0]]}, "bags.start: expected 1 numbers for each of 2 or more bags"),
        ({"n_iter": [1]}, "bags.n_iter: expected 4 numbers"),
        ({"coef": {"no": "AAAA"}}, "bags.coef.no: expected a term of the model"),
        ({"coef": {"x": "AAAA"}}, "bags.coef.x: damaged"),
        ({"chosen": {}}, "bags.chosen: expected the terms of coef"),
        ({"more": 1}, "bags: expected no other keys"),
    ],
)
def test_damaged_files_are_refused(bagged, change, message):
    data = to_dict(bagged[2])
    with pytest.raises(ModelFileError, match=message):
        from_dict({**data, "bags": {**data["bags"], **change}})


def test_files_of_version_2_are_read():
    model = cb.fit({"x": np.arange(20.0)}, np.arange(20.0), n_iter=3)
    data = {key: value for key, value in to_dict(model).items() if key not in ("bags", "bands")}
    del data["sizes"]
    assert to_dict(from_dict({**data, "version": 2})) == {**to_dict(model), "sizes": None}


def test_an_average_is_edited_exported_and_reported(bagged, tmp_path):
    table, y, model = bagged
    edited = model.edit("zero", "g")
    assert edited.effect("g")["effect"] == pytest.approx(0)
    np.testing.assert_allclose(
        unedited(edited).predict(table), model.predict(table), rtol=0, atol=1e-12
    )
    assert "SELECT" in model.to_sql()
    for each in (model, edited):
        each.report(tmp_path / "report.html", table, y)
        page = (tmp_path / "report.html").read_text()
        assert "average of 4 bags" in page
        assert "bags=4," in page  # the call that fits the model again


def test_the_band_spans_the_extremes_of_the_bags(bagged):
    _, _, model = bagged
    band = model.band("x", n=7)
    curves = []
    matrix = model.terms["x"].plan.basis.matrix(band["x"]) - model.terms["x"].plan.basis.mean
    for beta in model.bags.coef["x"]:
        curves.append((matrix @ beta)[:, 0])
    np.testing.assert_allclose(band["lower"], np.min(curves, axis=0), rtol=1e-12)
    np.testing.assert_allclose(band["upper"], np.max(curves, axis=0), rtol=1e-12)
    np.testing.assert_allclose(band["effect"], np.mean(curves, axis=0), rtol=0, atol=1e-12)


# --- arguments, time limits and interrupts --------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bags": 1}, "whole number from 2 to 10000"),
        ({"bags": 2.5}, "whole number from 2 to 10000"),
        ({"bags": "many"}, "whole number from 2 to 10000"),
        ({"bags": np.ones((2, 300))}, "masks of true and false, got float64"),
        ({"bags": np.ones((2, 9), bool)}, "the masks have 9 rows, the table 300"),
        ({"bags": np.ones((2, 300), bool)}, "bag 0 has all rows; leave some out"),
        ({"bags": np.zeros((2, 300), bool)}, "bag 0 has no row"),
        ({"bags": 3, "validation": np.ones(300)}, "fraction of the rows that every bag leaves out"),
        ({"bags": 3, "validation": 1.0}, "fraction of the rows that every bag leaves out"),
        (
            {"bags": np.eye(2, 300, dtype=bool), "validation": 0.2},
            "not allowed with masks in bags=",
        ),
        ({"bags": 3, "callback": print}, "callback: not allowed with bags="),
        (
            {"bags": 3, "search": "row-free", "loss": "absolute"},
            "search: 'row-free' needs a loss whose residual is y - score",
        ),
        ({"bags": 3, "validation": 1e-4}, "bags: a fraction of 0.0001 selects no rows out of 300"),
    ],
)
def test_bad_bags_are_refused(options, message):
    table, y = make_table()
    with pytest.raises((ValueError, TypeError), match=message):
        cb.fit(table, y, **options)


def test_a_time_limit_ends_all_bags():
    table, y = make_table()
    model = cb.fit(table, y, optimizer=cb.Plain(1e-4), bags=3, n_iter=10**7, time_limit=0.3)
    assert all(0 < n < 10**7 for n in model.bags.n_iter)


def test_ctrl_c_keeps_the_finished_bags(monkeypatch):
    table, y = make_table()
    fitted = []

    def interrupted(*arguments, **options):
        if len(fitted) == 2:
            raise KeyboardInterrupt
        fitted.append(True)
        return one_bag(*arguments, **options)

    from cwboost.fitting import bags

    one_bag = bags._fit_bag
    monkeypatch.setattr(bags, "_fit_bag", interrupted)
    with pytest.raises(cb.Interrupted, match="after 2 bags") as stopped:
        cb.fit(table, y, bags=5, n_iter=10, n_threads=1)
    model = stopped.value.model
    assert len(model.bags) == 2
    assert "average of 2 bags of 5, interrupted" in model.summary()
    assert np.isfinite(model.predict(table)).all()


def test_ctrl_c_stops_bags_in_threads():
    table, y = make_table()
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        cb.fit(table, y, optimizer=cb.Plain(1e-5), bags=4, n_iter=10**7, n_threads=2)


# --- estimators and the command line --------------------------------------------------------------


def test_estimators_accept_bags():
    table, y = make_table()
    regressor = cb.CWBRegressor(bags=3, n_iter=50).fit(table, y)
    assert len(regressor.model_.bags) == 3
    assert regressor.n_iter_ == max(regressor.model_.bags.n_iter)
    assert regressor.feature_importances_.sum() == pytest.approx(1)
    classifier = cb.CWBClassifier(bags=3, n_iter=50).fit(table, np.where(y > 0, "u", "v"))
    assert classifier.predict_proba(table).shape == (300, 2)
    assert classifier.model_.classes == ("u", "v")


def test_groups_stay_together():
    table, y = make_table()
    groups = np.arange(300) // 30
    y = y + np.random.default_rng(0).normal(size=10)[groups]  # an effect shared within groups
    seen = []
    from cwboost.fitting import bags

    original = bags.draw_bags

    def recording(masks, *rest):
        seen.append(masks)
        return original(masks, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bags, "draw_bags", recording)
        cb.CWBRegressor(bags=4, n_iter=20).fit(table, y, groups=groups)
    inside = seen[0]
    assert inside.shape == (4, 300)
    for mask in inside:
        assert len(set(groups[mask]) & set(groups[~mask])) == 0
        assert len(set(groups[~mask])) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warm_start": True}, "an average of bags cannot be continued"),
        ({"validation": "last"}, "the rows that a bag leaves out are its validation rows"),
    ],
)
def test_estimators_refuse_options_that_conflict_with_bags(options, message):
    table, y = make_table()
    with pytest.raises(ValueError, match=message):
        cb.CWBRegressor(bags=3, **options).fit(table, y)


def test_the_command_line_accepts_bags(tmp_path, capsys):
    from cwboost.cli.main import main

    table, y = make_table()
    lines = [f"{a},{b},{c}" for a, b, c in zip(table["x"], table["g"], y, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["x,g,y", *lines]))
    file = str(tmp_path / "m.json")
    call = ["fit", str(tmp_path / "t.csv"), "--target", "y", "--iterations", "30", "-o", file]
    assert main([*call, "--bags", "3", "--validation", "0.3"]) == 0
    model = cb.load(file)
    assert (len(model.bags), model.settings.fraction) == (3, 0.3)
    with pytest.raises(SystemExit):
        main([*call, "--bags", "3", "--validation", "last"])
    assert "can only be their share" in capsys.readouterr().err


def test_the_rows_are_binned_once(monkeypatch):
    table, y = make_table()
    calls = []
    original = PreparedRows.make
    monkeypatch.setattr(PreparedRows, "make", lambda *a: calls.append(True) or original(*a))
    cb.fit(table, y, bags=4, n_iter=5)
    assert len(calls) == 1


@pytest.mark.parametrize("wanted", ["auto", 1, [("a", "b")]], ids=repr)
def test_bags_with_interactions(wanted):
    rng = np.random.default_rng(4)
    table = {name: rng.uniform(-1, 1, 600) for name in "abc"}
    y = table["c"] + 3 * table["a"] * table["b"] + rng.normal(0, 0.3, 600)
    model = cb.fit(table, y, bags=3, interactions=wanted)
    pairs = [name for name, term in model.terms.items() if len(term.columns) == 2]
    assert "a:b" in pairs
    assert model.terms["a:b"].chosen
    ranked = model.interactions
    assert (ranked is None) if isinstance(wanted, list) else ranked.pairs[0] == ("a", "b")
    alone = cb.fit(table, y, bags=3)
    assert model.risk[0] < 0.6 * alone.risk[0]
    # The score of the average is still the mean of the bags' scores.
    assert set(model.bags.coef) <= set(model.terms)
    for name, coef in model.bags.coef.items():
        np.testing.assert_allclose(model.terms[name].beta, coef.mean(axis=0), atol=1e-12)
    again = cb.fit(table, y, bags=3, interactions=wanted, n_threads=2)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_main_effects_and_pairs_share_the_time_limit(monkeypatch):
    limits, fit = [], BaggedFit.fit

    def recording(self, before):
        limits.append(self.options.time_limit)
        return fit(self, before)

    monkeypatch.setattr(BaggedFit, "fit", recording)
    table, y = make_table()
    cb.fit(table, y, n_iter=3, bags=2, interactions=[("x", "z")], time_limit=100.0, n_threads=1)
    assert limits == [50.0, 50.0]


# --- polish ---------------------------------------------------------------------------------------


def polished_rows(n=800, seed=0, loss="squared"):
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(-2, 2, n) for name in "abcd"}
    f = np.sin(2 * table["a"]) + table["b"]
    if loss == "binomial":
        return table, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int), f
    return table, f + rng.normal(size=n), f


@pytest.mark.parametrize("loss", ["squared", "binomial"])
def test_a_polished_average_is_refitted_to_all_rows(loss):
    errors = []
    for seed in range(3):
        table, y, truth = polished_rows(seed=seed, loss=loss)
        options = {"loss": loss, "bags": 4, "n_iter": 300}
        plain = cb.fit(table, y, **options)
        model = cb.fit(table, y, polish="auto", **options)
        assert model.polish.weight > 0.0
        assert plain.polish is None
        np.testing.assert_allclose(
            model.boosted.predict(table, "score"), plain.predict(table, "score"), atol=1e-12
        )
        errors.append([np.std(m.predict(table, "score") - truth) for m in (plain, model)])
    before, after = np.mean(errors, axis=0)
    assert after < 0.95 * before


def test_the_weight_of_a_polished_average(monkeypatch):
    """At weight 1 it is the polished fit of all rows with the same terms."""
    table, y, _ = polished_rows()
    monkeypatch.setattr(bag_polish, "choose_weight", lambda risk: 1.0)
    model = cb.fit(table, y, bags=4, n_iter=300, polish=True)
    whole = cb.polish(cb.fit(table, y, n_iter=300), table, y, weight=1.0)
    assert model.polish.weight == 1.0
    difference = np.std(model.predict(table) - whole.predict(table))
    assert difference < 0.05 * np.std(y)
    assert sum(model.polish.edf.values()) == pytest.approx(sum(whole.polish.edf.values()), rel=0.1)
    monkeypatch.setattr(bag_polish, "choose_weight", lambda risk: 0.0)
    kept = cb.fit(table, y, bags=4, n_iter=300, polish=True)
    assert "prefer the boosted model" in kept.polish.reason
    np.testing.assert_array_equal(kept.predict(table), model.boosted.predict(table))


def test_few_bags_choose_the_weight_of_many_rows(monkeypatch):
    table, y, _ = polished_rows()
    used = []
    pose = BaggedFit.pose

    def remember(self, number, n_threads=1):
        used.append(number)
        return pose(self, number, n_threads)

    monkeypatch.setattr(BaggedFit, "pose", remember)
    monkeypatch.setattr(bag_polish, "ENOUGH_ROWS", 400)  # a bag leaves out 160
    cb.fit(table, y, bags=5, n_iter=50, polish="auto")
    assert sorted(used) == [0, 0, 1, 1, 2, 2, 3, 4]  # boosted, and the first three refitted


def test_what_a_polished_average_can_do(tmp_path):
    table, y, _ = polished_rows()
    model = cb.fit(table, y, bags=4, n_iter=300, polish=True)
    model.save(tmp_path / "m.json")
    for other in (cb.load(tmp_path / "m.json"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(table), model.predict(table))
        np.testing.assert_array_equal(other.boosted.predict(table), model.boosted.predict(table))
        assert other.polish.edf == model.polish.edf
    band = model.band("a", kind="simultaneous")
    assert np.all(band["lower"] < band["upper"])
    assert np.all(
        model.band("a", source="bags")["lower"] <= model.band("a", source="bags")["upper"]
    )
    draws = model.with_bands(table, y, n_boot=10)
    assert max(draws.bands.n_iter) > 10
    assert np.all(draws.band("a")["lower"] < draws.band("a")["upper"])
    intervals = model.intervals(table, y, kind="bags")
    found = intervals.predict(table)
    assert 0.85 < np.mean((found["lower"] <= y) & (y <= found["upper"])) < 0.95
    edited = model.edit("zero", "b")
    assert edited.predict(table).std() < model.predict(table).std()
    np.testing.assert_allclose(unedited(edited).predict(table), model.boosted.predict(table))
    scores = model.intercept + sum(model.contributions(table).values())
    np.testing.assert_allclose(scores, model.predict(table), atol=1e-10)
    assert "refitted together" in model.summary()
    drop = model.importance("drop", table=table, y=y, folds=3)
    assert set(list(drop["column"])[:2]) == {"a", "b"}
    for call in (lambda: model.at(3), lambda: model.extend(3, table, y)):
        with pytest.raises(ValueError, match="average of 4 bags"):
            call()
    with pytest.raises(ValueError, match="fit again with bags= and polish='auto'"):
        cb.polish(model, table, y)


def test_averages_that_cannot_be_polished_say_why():
    table, y, _ = polished_rows(200)
    model = cb.fit(table, y, loss="absolute", bags=3, polish="auto")
    assert "second derivative" in model.polish.reason
    with pytest.raises(ValueError, match="second derivative"):
        cb.fit(table, y, loss="absolute", bags=3, polish=True)
    pairs = cb.fit(table, y, bags=3, interactions=2, polish=True)
    assert len(pairs.polish.edf) > 4
    estimator = cb.CWBRegressor(bags=3, n_jobs=1).fit(table, y)
    assert estimator.model_.polish is not None
