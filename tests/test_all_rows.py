"""The last stage of a fit on all rows: boosting that stops roughly, repeated iterations."""

import numpy as np
import pytest

import cwboost as cb
from cwboost.estimators import defaults
from cwboost.fitting.polish import polish as polish_module

RNG = np.random.default_rng(3)
N = 1500
TABLE = {"a": RNG.uniform(-2, 2, N), "b": RNG.uniform(-2, 2, N), "c": RNG.normal(size=N)}
Y = np.sin(2 * TABLE["a"]) + TABLE["b"] ** 2 / 2 + RNG.normal(size=N)
HELD = RNG.random(N) < 0.25
OPTIONS = {"optimizer": cb.Plain(0.3), "validation": HELD, "n_iter": 600}


def skip(monkeypatch, reason="it is a test"):
    monkeypatch.setattr(polish_module, "too_slow", lambda *_, **__: reason)


@pytest.mark.parametrize("tolerance", [0.0, 0.02, 0.3])
@pytest.mark.parametrize("optimizer", [cb.Plain(0.3), cb.Accelerated(0.1)])
def test_tolerance_ends_the_fit_where_little_is_gained(tolerance, optimizer):
    options = {**OPTIONS, "optimizer": optimizer}
    long = cb.fit(TABLE, Y, patience=None, **options)
    risk, better = long.validation_risk, 0
    for m in range(1, len(risk)):
        if risk[better] - risk[m] > tolerance * (risk[0] - risk[better]):
            better = m
        if m - better == 20:
            break
    short = cb.fit(TABLE, Y, patience=20, tolerance=tolerance, **options)
    assert short.n_iter == m < 600
    assert short.choices == long.choices[:m]
    assert short.stopped == "no better validation risk"


def test_tolerance_and_checkpoints(tmp_path):
    options = {**OPTIONS, "patience": 20, "checkpoint": tmp_path / "fit"}
    rough = cb.fit(TABLE, Y, tolerance=0.3, **options)
    again = cb.fit(TABLE, Y, tolerance=0.3, **options)
    assert again.choices == rough.choices
    exact = cb.fit(TABLE, Y, **options)
    assert exact.choices == cb.fit(TABLE, Y, patience=20, **OPTIONS).choices
    assert exact.n_iter > rough.n_iter
    assert cb.fit(TABLE, Y, tolerance=0.3, **options).choices == rough.choices


@pytest.mark.parametrize("tolerance", [-0.1, 1.0, np.nan, "no", None])
def test_wrong_tolerance(tolerance):
    with pytest.raises(ValueError, match="tolerance: expected a number from 0 to below 1"):
        cb.fit(TABLE, Y, tolerance=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
def test_repeat_is_the_fit_to_all_rows(tmp_path, weighted):
    weights = RNG.uniform(0.5, 2.0, N) if weighted else None
    chosen = cb.fit(TABLE, Y, weights=weights, **OPTIONS)
    model = cb.fit(TABLE, Y, weights=weights, polish="repeat", **OPTIONS)
    m = chosen.best_iteration
    assert 0 < m < chosen.n_iter
    whole = cb.fit(TABLE, Y, optimizer=cb.Plain(0.3), n_iter=m, weights=weights)
    # Its knots are those of the training rows.
    errors = [np.std(other.predict(TABLE) - whole.predict(TABLE)) for other in (model, chosen)]
    assert errors[0] < 0.2 * errors[1]
    assert model.importance() == pytest.approx(whole.importance(), rel=0.02, abs=0.002)
    assert model.polish.repeated == m
    assert model.polish.weight == 0.0
    assert f"{m} iterations repeated on all rows" in model.summary()
    assert model.best_iteration == m
    np.testing.assert_array_equal(model.validation_risk, chosen.validation_risk)
    for boosted in (model.boosted, model.at(m)):
        np.testing.assert_allclose(boosted.predict(TABLE), chosen.predict(TABLE), rtol=1e-9)
    model.save(tmp_path / "model.json")
    loaded = cb.load(tmp_path / "model.json")
    np.testing.assert_array_equal(loaded.predict(TABLE), model.predict(TABLE))
    assert loaded.polish.repeated == m
    np.testing.assert_allclose(loaded.boosted.predict(TABLE), chosen.predict(TABLE), rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "poisson", "absolute"])
def test_without_terms_the_constant_is_that_of_all_rows(tmp_path, loss):
    noise = {"c": TABLE["c"]}
    y = np.exp(np.where(HELD, -2, 1) * TABLE["c"])  # what helps in training harms elsewhere
    options = {"loss": loss, "validation": HELD, "n_iter": 50, "patience": 20}
    chosen = cb.fit(noise, y, [cb.Linear("c")], **options)
    assert chosen.best_iteration == 0
    model = cb.fit(noise, y, [cb.Linear("c")], polish="repeat", **options)
    expected = np.median(y) if loss == "absolute" else y.mean()
    np.testing.assert_allclose(model.predict(noise), expected, rtol=1e-12)
    assert model.polish.repeated == 0
    assert "the constant was computed from all rows" in model.polish.words
    model.save(tmp_path / "model.json")
    for other in (model, cb.load(tmp_path / "model.json")):
        assert other.polish.repeated == 0
        for m in (0, 3):
            np.testing.assert_array_equal(other.at(m).predict(noise), chosen.at(m).predict(noise))


def test_extending_repeats_again():
    options = {**OPTIONS, "patience": None}
    model = cb.fit(TABLE, Y, polish="repeat", **{**options, "n_iter": 20})
    extended = model.extend(30, TABLE, Y, validation=HELD)
    longer = cb.fit(TABLE, Y, polish="repeat", **{**options, "n_iter": 50})
    np.testing.assert_allclose(extended.predict(TABLE), longer.predict(TABLE), rtol=1e-9)
    assert extended.polish.repeated == longer.polish.repeated > 20


def test_without_polish_boosting_goes_on_and_is_repeated(monkeypatch, tmp_path):
    skip(monkeypatch)
    wanted = cb.fit(TABLE, Y, patience=30, polish="repeat", **OPTIONS)
    options = {**OPTIONS, "patience": 30, "polish": "auto", "tolerance": 0.3}
    for checkpoint in (None, tmp_path / "fit", tmp_path / "fit"):
        model = cb.fit(TABLE, Y, checkpoint=checkpoint, **options)
        assert model.choices == wanted.choices
        np.testing.assert_array_equal(model.predict(TABLE), wanted.predict(TABLE))
        assert model.polish.reason == "it is a test"


def test_a_polished_fit_is_not_repeated():
    model = cb.fit(TABLE, Y, polish="auto", tolerance=0.3, patience=20, **OPTIONS)
    assert model.polish.weight > 0.0
    assert model.polish.repeated is None


def test_what_cannot_be_repeated(monkeypatch):
    skip(monkeypatch)
    without = cb.fit(TABLE, Y, n_iter=20, polish="auto")
    assert without.polish.repeated is None
    hybrid = cb.fit(TABLE, Y, polish="repeat", **{**OPTIONS, "optimizer": cb.Hybrid(0.1)})
    assert hybrid.polish is None
    with pytest.raises(ValueError, match="polish: 'repeat' is not for bags"):
        cb.fit(TABLE, Y, bags=2, polish="repeat")
    with pytest.raises(ValueError, match="polish: expected"):
        cb.fit(TABLE, Y, polish="again")


def test_estimators_stop_roughly_with_many_rows(monkeypatch):
    few = cb.CWBRegressor().fit(TABLE, Y)
    monkeypatch.setattr(defaults, "MANY_ROWS", N)
    many = cb.CWBRegressor().fit(TABLE, Y)
    assert many.n_iter_ < few.n_iter_
    assert many.model_.polish.weight > 0.0
    truth = np.sin(2 * TABLE["a"]) + TABLE["b"] ** 2 / 2
    errors = [np.std(e.predict(TABLE) - truth) for e in (few, many)]
    assert errors[1] < 1.1 * errors[0]
    for other in ({"loss": "absolute"}, {"polish": None}, {"n_iter": 300}, {"bags": 2}):
        assert cb.CWBRegressor(**other)._choose_tolerance(N) == 0.0
    assert cb.CWBRegressor(interactions=1)._choose_tolerance(1) == 1e-4


def test_estimators_use_all_rows_without_polish(monkeypatch):
    skip(monkeypatch)
    fitted = cb.CWBRegressor().fit(TABLE, Y)
    assert fitted.model_.polish.repeated == fitted.model_.best_iteration > 0
    assert cb.CWBRegressor(polish=None).fit(TABLE, Y).model_.polish is None


@pytest.mark.parametrize("polish", [True, "repeat"])
def test_all_rows_are_in_the_range_of_the_model(polish, recwarn):
    far = {**TABLE, "a": np.where(np.flatnonzero(HELD)[0] == np.arange(N), 30.0, TABLE["a"])}
    model = cb.fit(far, Y, polish=polish, **OPTIONS)
    assert model.columns["a"].high == 30.0
    assert model.boosted.columns["a"].high == 30.0
    model.predict(far)
    assert not recwarn.list
    with pytest.warns(UserWarning, match="beyond"):
        cb.fit(far, Y, **OPTIONS).predict(far)


def test_with_pairs_the_tolerance_is_for_the_last_stage(monkeypatch):
    rng = np.random.default_rng(0)
    table = {f"x{j}": rng.uniform(-1, 1, 1500) for j in range(3)}
    y = np.sin(3 * table["x0"]) + 2 * table["x1"] * table["x2"] + rng.normal(0, 0.3, 1500)
    options = {"interactions": "auto", "n_iter": 3000, "validation": 0.2, "patience": 10}
    options["optimizer"] = cb.Plain(0.1)
    whole = cb.fit(table, y, **options)
    rough = cb.fit(table, y, tolerance=0.05, polish=True, **options)
    main = [cb.fit(table, y, **(options | {"interactions": None} | more)).best_iteration
            for more in ({}, {"tolerance": 0.05})]  # fmt: skip
    assert main[1] < main[0] <= rough.n_iter - 10  # patience starts again with the pairs
    assert rough.n_iter < whole.n_iter
    assert rough.interactions.chosen_pairs == whole.interactions.chosen_pairs
    skip(monkeypatch)
    again = cb.fit(table, y, tolerance=0.05, polish="auto", **options)
    assert again.n_iter == whole.n_iter
    np.testing.assert_allclose(again.boosted.predict(table), whole.predict(table), rtol=1e-9)
