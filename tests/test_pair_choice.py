"""Tests of interactions="auto": which of the fitted pairs stay, judged by held-out rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

import cwboost as cb
import cwboost.fitting.stages as stages
from cwboost.export.model_file import from_dict, to_dict
from cwboost.fitting.pair_choice import HeldOutScores, fewest_pairs
from cwboost.losses import Squared, as_loss, risk, row_losses
from cwboost.terms.learners import pair_bins

N = 3000


def make_rows(seed=0, n=N, noise=0.5):
    """Return rows with two strong pairs, several weak ones, and noise columns."""
    rng = np.random.default_rng(seed)
    table = {f"x{j}": rng.uniform(-1, 1, n) for j in range(7)}
    table["g"] = rng.choice(np.array(["p", "q"], dtype=object), n)
    y = np.sin(3 * table["x0"]) + 2 * table["x1"] * table["x2"] + (table["g"] == "p") * table["x3"]
    for j in range(4):
        y += 0.25 * table[f"x{j}"] * table[f"x{j + 1}"]
    return table, y + noise * rng.normal(size=n)


def fit(table, y, interactions, **options):
    options = {"validation": 0.25, "n_iter": 300, "optimizer": cb.Plain(0.3)} | options
    return cb.fit(table, y, interactions=interactions, **options)


# --- the rule -------------------------------------------------------------------------------------


def made_scores(effects, y, weights=None, main=None):
    """Return scores whose fit with pairs is the sum of the effects; order is that of the rows."""
    q_by_n = [np.atleast_2d(e) for e in effects]
    return HeldOutScores(
        loss=Squared(),
        y=y,
        weights=np.ones(len(y)) if weights is None else weights,
        main=np.zeros((1, len(y))) if main is None else main,
        full=sum(q_by_n),
        effect=lambda k: q_by_n[k],
    )


@pytest.mark.parametrize("seed", range(6))
def test_the_rule_is_the_paired_standard_error(seed):
    """Expected: a direct computation with the losses of all numbers of pairs."""
    rng = np.random.default_rng(seed)
    sizes, w = [1.0, 0.5, 0.25, 0.12, 0.06, 0.03], rng.uniform(0.1, 2.0, 400)
    effects = [s * rng.normal(size=400) for s in sizes]
    y = sum(effects) + rng.normal(size=400)
    found = fewest_pairs(made_scores(effects, y, w), range(6))
    losses = [(y - np.sum(effects[:k], axis=0)) ** 2 / 2 for k in range(7)]
    best = min(range(7), key=lambda k: np.average(losses[k], weights=w))
    w = w / w.sum()
    more = [of_rows - losses[best] for of_rows in losses]
    errors = [np.sqrt(np.sum(w**2 * (m - w @ m) ** 2)) for m in more]
    expected = min(k for k in range(7) if w @ more[k] <= errors[k])
    assert found == list(range(expected))
    assert 1 <= expected <= best


def test_pairs_are_added_in_the_given_order_and_returned_in_the_order_of_terms():
    rng = np.random.default_rng(0)
    effects = [np.zeros(300), rng.normal(size=300), 2 * rng.normal(size=300)]
    y = effects[1] + effects[2] + 0.1 * rng.normal(size=300)
    assert fewest_pairs(made_scores(effects, y), [2, 1, 0]) == [1, 2]


def test_main_effects_alone_if_they_have_the_lowest_risk():
    rng = np.random.default_rng(1)
    y = rng.normal(size=300)
    assert fewest_pairs(made_scores([rng.normal(size=300)], y), [0]) == []
    better = y[None, :] + 0.1  # the main effects explain y without pairs
    assert fewest_pairs(made_scores([y], y, main=better), [0]) == [0]
    assert fewest_pairs(made_scores([0.5 * y], y, main=better), [0]) == []


def test_infinite_losses_are_never_best():
    y = np.ones(50)
    effects = [np.full(50, 0.5), np.full(50, np.inf)]
    with np.errstate(invalid="ignore"):
        assert fewest_pairs(made_scores(effects, y), [1]) == []


@pytest.mark.parametrize("name", ["squared", "absolute", "huber", "binomial", "poisson", "gamma"])
def test_losses_of_rows_have_the_risk_as_their_mean(name):
    rng = np.random.default_rng(2)
    y, score, w = np.sign(rng.normal(size=99)), 3 * rng.normal(size=(1, 99)), rng.uniform(size=99)
    y = np.abs(y) + 1.0 if name in ("poisson", "gamma") else y
    loss = as_loss(name)
    losses = row_losses(loss, y, score)
    assert np.average(losses, weights=w) == pytest.approx(risk(loss, y, score.T, w))
    assert row_losses(loss, y[:1], score[:, :1])[0] == losses[0]


def test_losses_of_rows_of_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="wrong sizes"):
        row_losses(Squared(), np.ones(3), np.ones((1, 4)))
    with pytest.raises(ValueError, match="wrong sizes"):
        row_losses(Squared(), np.ones(3), np.ones((2, 3)))


# --- fits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "binomial"])
@pytest.mark.parametrize("optimizer", [cb.Plain(0.3), cb.Hybrid(0.3, then="training")], ids=repr)
def test_auto_is_the_fit_of_the_pairs_that_it_chose(loss, optimizer):
    table, y = make_rows()
    y = y if loss == "squared" else y > 0
    options = {"loss": loss, "optimizer": optimizer}
    model, every = (fit(table, y, rule, **options) for rule in ("auto", "all"))
    found = model.interactions
    assert {("x1", "x2"), ("x3", "g")} <= set(found.chosen_pairs)
    assert found.chosen < every.interactions.chosen == found.tried
    named = fit(table, y, found.chosen_pairs, **options)
    assert list(named.terms) == list(model.terms)
    np.testing.assert_array_equal(named.predict(table), model.predict(table))
    assert [len(t.columns) for t in model.terms.values()].count(2) == found.chosen
    marks = found.table["chosen"]
    assert [pair for pair, mark in zip(found.pairs, marks, strict=True) if mark] == (
        found.chosen_pairs
    )


def test_auto_keeps_main_effects_alone_where_pairs_do_not_help():
    kept = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        table = {f"x{j}": rng.normal(size=1500) for j in range(8)}
        y = np.sin(2 * table["x0"]) + table["x1"] + rng.normal(size=1500)
        model, main = fit(table, y, "auto"), fit(table, y, None)
        if not model.interactions.chosen:
            assert list(model.terms) == list(main.terms)
            np.testing.assert_array_equal(model.predict(table), main.predict(table))
        kept += model.interactions.chosen == 0
    assert kept >= 3


def test_a_fit_that_does_not_lower_the_validation_risk_is_dropped(monkeypatch):
    """The choice judges the fit with all candidates; the fit with the chosen ones may be worse."""
    table, y = make_rows(n=1000)
    main = fit(table, y, None)
    monkeypatch.setattr(stages, "lowest_risk", lambda model: float(len(model.terms)))
    model = fit(table, y, "auto")
    np.testing.assert_array_equal(model.predict(table), main.predict(table))
    assert model.interactions.chosen == 0 < model.interactions.tried


@pytest.mark.parametrize(
    "options", [{"validation": None}, {"optimizer": cb.Hybrid(0.3)}], ids=["none", "trained on"]
)
def test_without_rows_to_judge_by_auto_is_all(options):
    """A Hybrid that ends on all rows trains on the validation rows."""
    table, y = make_rows(n=1000)
    model, every = (fit(table, y, rule, **options) for rule in ("auto", "all"))
    np.testing.assert_array_equal(model.predict(table), every.predict(table))
    assert model.interactions.rule == "all"
    assert model.interactions.words.endswith("pairs, as many as gain more than noise does")


def test_the_scale_of_weights_does_not_matter():
    table, y = make_rows(n=1200)
    w = np.random.default_rng(3).uniform(0.5, 2.0, 1200)
    models = [fit(table, y, "auto", weights=c * w) for c in (1.0, 64.0)]
    assert models[0].interactions.positions == models[1].interactions.positions
    np.testing.assert_allclose(models[0].predict(table), models[1].predict(table), atol=1e-9)


def test_bags_share_one_set_of_pairs():
    table, y = make_rows()
    options = {"bags": 3, "validation": None}
    model, every = (fit(table, y, rule, **options) for rule in ("auto", "all"))
    found = model.interactions
    assert {("x1", "x2"), ("x3", "g")} <= set(found.chosen_pairs)
    assert found.chosen < every.interactions.chosen == found.tried
    named = fit(table, y, found.chosen_pairs, **options)
    np.testing.assert_array_equal(named.predict(table), model.predict(table))
    again = fit(table, y, "auto", n_threads=2, **options)
    np.testing.assert_array_equal(again.predict(table), model.predict(table))


def test_bags_keep_main_effects_alone_where_pairs_do_not_help():
    rng = np.random.default_rng(5)
    table = {f"x{j}": rng.normal(size=1000) for j in range(8)}
    y = np.sin(2 * table["x0"]) + rng.normal(size=1000)
    options = {"bags": 3, "validation": None, "n_iter": 100}
    model, main = fit(table, y, "auto", **options), fit(table, y, None, **options)
    assert model.interactions.chosen == 0
    np.testing.assert_array_equal(model.predict(table), main.predict(table))


# --- records, texts, interrupts -------------------------------------------------------------------


def test_summary_report_and_file_say_how_pairs_were_chosen(tmp_path):
    table, y = make_rows(n=1500)
    model = fit(table, y, "auto")
    found = model.interactions
    words = (
        f"{found.chosen} of 28 pairs, the fewest of {found.tried} within one standard error of the "
        "lowest validation risk"
    )
    assert f"interactions: {words}" in model.summary()
    model.report(tmp_path / "r.html")
    assert words in (tmp_path / "r.html").read_text(encoding="utf-8")
    model.save(tmp_path / "m.json")
    again = cb.load(tmp_path / "m.json").interactions
    assert again.words == words
    assert again.positions == found.positions
    few = fit(table, y, 2).interactions
    assert few.words == "2 of 28 pairs, those with the largest gains"
    ranked = cb.rank_interactions(model, table, y)
    assert ranked.words == "0 of 28 pairs"
    assert ranked.rule == ""


def test_files_of_version_3_have_the_first_pairs():
    table, y = make_rows(n=600)
    data = json.loads(json.dumps(to_dict(fit(table, y, 3))))
    for key in ("rule", "tried", "positions"):
        del data["interactions"][key]
    data["interactions"]["chosen"] = 3
    old = from_dict({**data, "version": 3}).interactions
    assert (old.chosen, old.tried, old.rule) == (3, 3, "")
    assert old.chosen_pairs == old.pairs[:3]


def test_a_checkpoint_has_all_three_stages(tmp_path):
    """Every stage can be cut off; the same call then gives the same model."""
    table, y = make_rows(n=1200)
    whole = fit(table, y, "auto")
    assert 0 < whole.interactions.chosen < whole.interactions.tried
    file, calls = tmp_path / "fit.checkpoint", [0]

    def stop_after(n):
        def stop():
            calls[0] += 1
            return calls[0] >= n

        return stop

    n_calls = [0]
    fit(table, y, "auto", callback=lambda: n_calls.__setitem__(0, n_calls[0] + 1))
    for n in (5, n_calls[0] // 2, n_calls[0] - 5):
        calls[0] = 0
        fit(table, y, "auto", checkpoint=file, callback=stop_after(n))
    model = fit(table, y, "auto", checkpoint=file)
    np.testing.assert_array_equal(model.predict(table), whole.predict(table))
    assert model.interactions.positions == whole.interactions.positions


def test_ctrl_c_in_the_choice_leaves_all_pairs(monkeypatch):
    table, y = make_rows(n=800)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "choose_pairs", interrupted)
    with pytest.raises(cb.Interrupted) as stop:
        fit(table, y, "auto")
    model = stop.value.model
    assert model.interactions.chosen == model.interactions.tried > 0


def test_estimators_and_command_line_take_all(tmp_path):
    from cwboost.cli.main import main

    table, y = make_rows(n=1200)
    few, every = (
        cb.CWBRegressor(interactions=rule, n_iter=100, polish=None).fit(table, y)
        for rule in ("auto", "all")
    )
    assert few.model_.interactions.rule == "auto"
    assert every.model_.interactions.rule == "all"
    assert few.model_.interactions.chosen <= every.model_.interactions.chosen
    names, file, out = [*table, "y"], tmp_path / "t.csv", tmp_path / "m.json"
    rows = zip(*table.values(), y, strict=True)
    file.write_text("\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]))
    for rule in ("auto", "all"):
        words = ["fit", str(file), "--target", "y", "-o", str(out), "--quiet"]
        words += ["--iterations", "100", "--polish", "none"]
        assert main([*words, "--interactions", rule]) == 0
        assert cb.load(out).interactions.rule == rule


# --- cells ----------------------------------------------------------------------------------------


def test_many_pairs_have_coarser_cells(monkeypatch):
    import cwboost.terms.learners.tensor as tensor

    table, y = make_rows()
    monkeypatch.setattr(tensor, "PAIR_MEMORY", 8 * 2 * 14.5**4)  # 14 steps for two pairs
    few, many = (fit(table, y, k, n_iter=5) for k in (2, 6))
    for model, steps in ((few, 14), (many, 11)):
        term = model.terms["x1:x2"]
        margins = (cb.Step(x, bins=steps) for x in ("x1", "x2"))
        assert term.learner == cb.Tensor(*margins, orthogonal=True)
        assert term.plan.basis.a.n_levels == steps
        assert model.terms["x3:g"].learner == cb.Tensor("x3", "g", orthogonal=True)
    monkeypatch.undo()
    alone = fit(table, y, [("x1", "x2")], n_iter=5).terms["x1:x2"]
    assert alone.learner == cb.Tensor("x1", "x2", orthogonal=True)
    assert alone.plan.basis.a.n_levels == pair_bins(2250) == 19
