"""Tests of degrees of freedom and information criteria against dense n x n algebra."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, gammaln

import cwboost as cb
from cwboost.frames.read_frames import read
from problems import KINDS, make_offset, make_table, make_target, make_weights

OPTIMIZERS = [
    cb.Plain(0.3),
    cb.Accelerated(0.2, 0.05),
    cb.Hybrid(0.3, 0.1, switch_after=2, then="training"),
    cb.Hybrid(0.3, 0.1, switch_after=2, rewind=False, then="training"),
]
LEARNERS = [
    *KINDS["spline"](),
    *KINDS["spline, missing"](),
    *KINDS["category, missing"](),
    *KINDS["category"](),
    *KINDS["step"](),
    *KINDS["tensor, category"](),
]


@pytest.fixture(autouse=True)
def _ignore_a_minimum_at_the_last_iteration():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the .* is smallest at the last iteration")
        yield


def smoother(term, table, w):
    """Return the (n, n) smoother H = Z M Z'W of a term."""
    columns = read(table)
    basis = term.plan.basis
    values = term.plan.encode([columns[name] for name in term.columns])
    z = np.asarray(basis.matrix(values).toarray())
    penalty = basis.penalty_for(w @ z / w.sum())
    penalty = penalty if penalty.ndim == 2 else np.diag(penalty)
    gram = z.T @ (w[:, None] * z)
    both = gram + term.smoothing * penalty
    both[-1, -1] += basis.ridge * w.sum()
    m = np.linalg.pinv(both, rcond=1e-14)
    if basis.removed() is not None:
        g = basis.removed().T
        q = np.eye(len(m)) - g @ np.linalg.pinv(g.T @ gram @ g, 1e-10, hermitian=True) @ g.T @ gram
        if getattr(basis, "orthogonal", False):  # the penalty applies to what is left
            own = q.T @ gram @ q
            m = np.linalg.pinv(own + term.smoothing * penalty, rcond=1e-12, hermitian=True)
        m = q @ m @ q.T
    return z @ m @ z.T * w


def dense_operators(model, table, w, curvature=None):
    """Return the matrices that map y to the scores after 0..M iterations.

    Follows the recursions of the optimizers on n x n matrices. With a curvature, the matrices map
    the working response z instead of y.
    """
    d = np.ones(len(w)) if curvature is None else curvature
    terms, n = list(model.terms.values()), len(w)
    used = set(model.path.choices) | set(model.path.corrections)
    hats = {k: smoother(terms[k], table, w) for k in used if k >= 0}
    eye, path, rate = np.eye(n), model.path, model.optimizer.rate * model.scale
    f = h = np.zeros((n, n))
    c = previous = None
    out = [f]
    for m in range(1, model.n_iter + 1):
        k, j = path.choices[m - 1], path.corrections[m - 1]
        step = rate * 0.5 ** path.halvings[m - 1]
        if m - 1 == path.switched_after:
            f = out[path.rewound_to]
        if j < 0:
            f = f + step * hats[k] @ (d[:, None] * (eye - f))
        else:
            v = 2 / (m + 1)
            g = (1 - v) * f + v * h
            r = d[:, None] * (eye - g)
            restarts = m == 1 or path.halvings[m - 2] > 0
            c = r if restarts else r + m / (m + 1) * (c - previous)
            previous = hats[j] @ c
            f = g + step * hats[k] @ r
            h = h + model.optimizer.momentum * rate / v * previous
        out.append(f)
    return np.array(out)


def held_out(optimizer, n):
    return np.arange(n) % 4 == 0 if isinstance(optimizer, cb.Hybrid) else None


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_df_are_the_trace_of_the_score_operator(optimizer, weighted):
    n = 150
    table, offset = make_table(3, n), make_offset(3, n, "squared")
    y, w = make_target(3, table, "squared"), make_weights(3, n) if weighted else None
    held = held_out(optimizer, n)
    model = cb.fit(
        table, y, LEARNERS, optimizer=optimizer, n_iter=60, bins="exact", weights=w, offset=offset,
        validation=held, patience=None,
    )  # fmt: skip
    if held is not None:
        assert model.path.switched_after > 0
    found = cb.aic(model, table, y, weights=w, offset=offset, validation=held)
    training = (np.ones(n) if w is None else w) * (1 if held is None else ~held)
    operators = dense_operators(model, table, training)
    scores = model.at(60).predict(table, offset=offset)
    expected = offset + model.start + operators[-1] @ (y - offset - model.start)
    np.testing.assert_allclose(scores, expected, rtol=1e-8, atol=1e-8)  # the operators are correct
    np.testing.assert_allclose(found.df, np.trace(operators, axis1=1, axis2=2), rtol=1e-8)


@pytest.mark.filterwarnings("ignore:the fit (diverges|stopped):RuntimeWarning")
@pytest.mark.parametrize("search", ["full", "row-free"])
def test_df_after_steps_that_were_halved(search):
    n = 150
    table = make_table(3, n)
    y = make_target(3, table, "squared")
    model = cb.fit(
        table, y, LEARNERS, optimizer=cb.Accelerated(20.0, 0.01), n_iter=8, bins="exact",
        search=search,
    )  # fmt: skip
    assert np.count_nonzero(model.path.halvings[:-1]) > 1
    operators = dense_operators(model, table, np.ones(n))
    expected = model.start + operators[-1] @ (y - model.start)
    np.testing.assert_allclose(model.at(model.n_iter).predict(table), expected, rtol=1e-7)
    df = np.trace(operators, axis1=1, axis2=2)
    np.testing.assert_allclose(cb.aic(model, table, y).df, df, rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_df_of_every_kind_of_term(kind):
    table = make_table(5, 90)
    y = make_target(5, table, "squared")
    model = cb.fit(table, y, KINDS[kind](), optimizer=cb.Plain(0.5), n_iter=12, bins="exact")
    expected = np.trace(dense_operators(model, table, np.ones(90)), axis1=1, axis2=2)
    np.testing.assert_allclose(cb.aic(model, table, y).df, expected, rtol=1e-7)


@pytest.mark.parametrize("loss", ["squared", "binomial"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS[:3], ids=repr)
def test_df_of_pairs_among_other_terms(loss, optimizer):
    """Interaction tables with cells that have no training rows, and a surface of splines."""
    n = 120
    table, w = make_table(9, n), make_weights(9, n)
    up = np.where(np.nan_to_num(table["v"]) > 0, 1.0, -1.0)
    joint = up * (np.sign(table["u"]) + np.where(table["h"] == "p", 1.0, -1.0))
    y = joint + table["u"] * (table["k"] - 2) + np.random.default_rng(9).normal(size=n)
    y, held = (y > 0 if loss == "binomial" else y), held_out(optimizer, n)
    pairs = [cb.Tensor("v", "u", df=4, orthogonal=True), cb.Tensor("v", "h", orthogonal=True)]
    learners = [*KINDS["spline"](), *KINDS["category"](), *pairs, *KINDS["pair, splines"]()]
    model = cb.fit(table, y, learners, loss, optimizer, 40, "exact", w, validation=held,
                   patience=None)  # fmt: skip
    assert {"v:u", "v:h", "u:k"} <= {*model.choices, *model.corrections}
    score, training = model.predict(table, kind="score"), w * (1 if held is None else ~held)
    curvature = expit(score) * expit(-score) if loss == "binomial" else np.ones(n)
    operators = dense_operators(model, table, training, curvature)
    found = cb.aic(model, table, y, weights=w, validation=held)
    np.testing.assert_allclose(found.df, np.trace(operators, axis1=1, axis2=2), rtol=1e-8)


@pytest.mark.parametrize("loss", ["binomial", "poisson"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS[:3], ids=repr)
def test_df_of_other_likelihoods_use_the_curvature_at_the_model(loss, optimizer):
    n = 120
    table, w = make_table(8, n), make_weights(8, n)
    y, held = make_target(8, table, loss), held_out(optimizer, n)
    fixed = {"weights": w, "offset": make_offset(8, n, loss), "validation": held}
    options = {"optimizer": optimizer, "n_iter": 40, "bins": "exact", "patience": None}
    model = cb.fit(table, y, LEARNERS, loss, **options, **fixed)
    found = cb.aic(model, table, y, **fixed)
    score = model.predict(table, kind="score", offset=fixed["offset"])
    curvature = expit(score) * expit(-score) if loss == "binomial" else np.exp(score)
    training = w * (1 if held is None else ~held)
    operators = dense_operators(model, table, training, curvature)
    np.testing.assert_allclose(found.df, np.trace(operators, axis1=1, axis2=2), rtol=1e-8)


def test_df_of_poisson_are_derivatives_of_the_means():
    """tr(dmean/dy) by finite differences, with the choices held fixed."""
    n = 60
    table = make_table(11, n)
    y = make_target(11, table, "poisson")
    model = cb.fit(table, y, LEARNERS[:1], "poisson", cb.Plain(0.2), n_iter=40, bins="exact")
    hat = smoother(model.terms["u"], table, np.ones(n))

    def mean(y):
        f = np.full(n, model.start)
        for _ in range(model.n_iter):
            f = f + 0.2 * model.scale * hat @ (y - np.exp(f))
        return np.exp(f)

    np.testing.assert_allclose(mean(y), model.predict(table), rtol=1e-8)
    step = 1e-5 * np.eye(n)
    slopes = [(mean(y + e)[i] - mean(y - e)[i]) / 2e-5 for i, e in enumerate(step)]
    assert cb.aic(model, table, y).df[-1] == pytest.approx(sum(slopes), rel=0.02)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(5, 40), st.sampled_from([1.0, 0.5, 0.05]))
def test_df_of_ties_and_few_rows(seed, n, rate):
    """Columns with few values, one of them twice; never fewer df than 0 or more than rows."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n).astype(float)
    a[:3] = 0.0, 1.0, 2.0
    table = {"a": a, "b": a.copy(), "g": rng.permutation(np.array(["x", "y"] * n)[:n])}
    y = rng.normal(size=n)
    model = cb.fit(table, y, optimizer=cb.Plain(rate), n_iter=8)
    df = cb.aic(model, table, y).df
    expected = np.trace(dense_operators(model, table, np.ones(n)), axis1=1, axis2=2)
    np.testing.assert_allclose(df, expected, rtol=1e-6, atol=1e-9)
    assert np.all((df >= -1e-9) & (df <= n + 1e-9))


def test_df_of_moments():
    """With many distinct values, moments replace bins; the df stay nearly the same."""
    rng = np.random.default_rng(0)
    table = {"x": rng.uniform(size=6000), "z": rng.uniform(size=6000)}
    y = np.sin(6 * table["x"]) + table["z"] + rng.normal(size=6000)
    options = {"optimizer": cb.Plain(0.3), "n_iter": 20}
    exact = cb.fit(table, y, bins="exact", **options)
    binned = cb.fit(table, y, bins=2000, **options)
    assert exact.choices == binned.choices
    df = [cb.aic(model, table, y).df for model in (exact, binned)]
    np.testing.assert_allclose(*df, rtol=1e-3)


# --- criteria -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def squared():
    rng = np.random.default_rng(1)
    n = 80
    table = {"x": rng.uniform(size=n), "z": rng.normal(size=n), "g": rng.choice(list("abc"), n)}
    y = 5 + np.sin(6 * table["x"]) + rng.normal(0, 0.5, n)
    return table, y, cb.fit(table, y, n_iter=150)


def test_criteria_of_the_squared_loss(squared):
    table, y, model = squared
    found = {c: cb.aic(model, table, y, c) for c in ("corrected", "classical", "gmdl")}
    n, df = 80, found["corrected"].df
    scores = np.array([model.at(m).predict(table) for m in range(151)])
    rss = np.sum((y - scores) ** 2, axis=1)
    aicc = np.log(rss / n) + (1 + df / n) / (1 - (df + 2) / n)
    np.testing.assert_allclose(found["corrected"].path, aicc, rtol=1e-9)
    classical = n * np.log(2 * np.pi * rss / n) + n + 2 * df
    np.testing.assert_allclose(found["classical"].path, classical, rtol=1e-9)
    s, total = rss[1:] / (n - df[1:]), np.sum((y - y.mean()) ** 2)
    gmdl = np.log(s) + df[1:] / n * np.log((total - rss[1:]) / (df[1:] * s))
    np.testing.assert_allclose(found["gmdl"].path[1:], gmdl, rtol=1e-9)
    assert found["gmdl"].path[0] == pytest.approx(np.log(total / n))
    for each in found.values():
        assert 0 < each.best_iteration < 150
        assert each.value == each.path.min() == each.path[each.best_iteration]
    assert cb.aic(model, table, y).criterion == "corrected"


@pytest.mark.parametrize("loss", ["binomial", "poisson", "multinomial"])
def test_classical_is_minus_twice_the_log_likelihood_and_twice_the_df(loss):
    n = 200
    table = make_table(2, n)
    y = make_target(2, table, loss)
    model = cb.fit(table, y, LEARNERS, loss, n_iter=30)
    found = cb.aic(model, table, y)
    response = model.predict(table)
    if loss == "poisson":
        log_likelihood = np.sum(y * np.log(response) - response - gammaln(y + 1))
    elif loss == "binomial":
        log_likelihood = np.sum(np.log(np.where(y == "yes", response, 1 - response)))
    else:
        own = [model.classes.index(label) for label in y]
        log_likelihood = np.sum(np.log(response[np.arange(n), own]))
    assert found.criterion == "classical"
    assert found.path[-1] == pytest.approx(-2 * log_likelihood + 2 * found.df[-1], rel=1e-4)


def test_active_terms_count_with_their_net_df():
    table = make_table(4, 200)
    y = make_target(4, table, "multinomial")
    model = cb.fit(table, y, LEARNERS, "multinomial", n_iter=25)
    found = cb.aic(model, table, y)
    assert found.df_kind == "active"
    for m in (0, 1, 7, 25):
        chosen = set(model.choices[:m])
        expected = 2 * sum(model.terms[name].net_df for name in chosen)
        assert found.df[m] == pytest.approx(expected)


def test_active_terms_that_a_rewind_discards_do_not_count():
    n = 150
    table = make_table(3, n)
    y, held = make_target(3, table, "squared"), np.arange(n) % 4 == 0
    optimizer = cb.Hybrid(0.3, 0.1, switch_after=2)  # continues on all rows, so 'trace' is refused
    model = cb.fit(table, y, LEARNERS, optimizer=optimizer, n_iter=60, validation=held)
    back, switch = model.path.rewound_to, model.path.switched_after
    assert 0 <= back < switch < 60
    found = cb.aic(model, table, y, df="active", validation=held)
    first = set(model.choices[:back]) | set(model.corrections[:back]) | {model.choices[switch]}
    expected = sum(model.terms[name].net_df for name in first)
    assert found.df[switch + 1] == pytest.approx(expected)
    with pytest.raises(ValueError, match=rf"went on with all rows.*model\.at\({switch}\)"):
        cb.aic(model, table, y, validation=held)
    assert len(cb.aic(model.at(switch), table, y, validation=held).df) == switch + 1


def test_integer_weights_are_repetitions_and_the_scale_of_others_is_irrelevant(squared):
    table, y, _ = squared
    w = np.random.default_rng(0).integers(0, 4, 80)
    model = cb.fit(table, y, n_iter=40, weights=w, bins=30)
    again = {name: np.repeat(column, w) for name, column in table.items()}
    repeated = cb.fit(again, np.repeat(y, w), n_iter=40, bins=30)
    assert model.choices == repeated.choices
    one, two = cb.aic(model, table, y, weights=w), cb.aic(repeated, again, np.repeat(y, w))
    np.testing.assert_allclose(one.path, two.path, rtol=1e-9)
    real = w + 0.5
    paths = [
        cb.aic(cb.fit(table, y, n_iter=40, weights=c * real), table, y, weights=c * real).path
        for c in (1.0, 7.3)
    ]
    np.testing.assert_allclose(*paths, rtol=1e-7)


def test_columns_given_by_name_need_not_be_passed_again(squared):
    table, y, _ = squared
    w = np.linspace(1, 2, 80)
    full = {**table, "y": y, "w": w}
    learners = [cb.Spline("x"), cb.Category("g")]
    model = cb.fit(full, "y", learners, n_iter=30, weights="w")
    named = cb.aic(model, full)
    passed = cb.aic(cb.fit(table, y, learners, n_iter=30, weights=w), table, y, weights=w)
    np.testing.assert_array_equal(named.path, passed.path)


def test_a_criterion_is_infinite_without_residual_degrees_of_freedom():
    x = np.arange(12.0)
    y = np.random.default_rng(0).normal(size=12)
    model = cb.fit({"x": x}, y, [cb.Spline("x", df=9)], optimizer=cb.Plain(1.0), n_iter=200)
    found = cb.aic(model, {"x": x}, y)
    left = found.df + 2 < 12
    assert not left.all()
    assert np.isfinite(found.path[left]).all()
    assert np.isinf(found.path[~left]).all()
    assert left[found.best_iteration]


def test_a_model_without_iterations_has_a_criterion(squared):
    table, y, model = squared
    found = cb.aic(model.at(0), table, y)
    assert found.best_iteration == 0
    assert found.df.tolist() == [0.0]


def test_a_stored_model_has_the_same_criterion(squared, tmp_path):
    table, y, model = squared
    model.save(tmp_path / "m.json")
    again = cb.aic(cb.load(tmp_path / "m.json"), table, y)
    np.testing.assert_allclose(again.path, cb.aic(model, table, y).path, rtol=1e-12)


def test_repr_shows_the_criterion_and_its_minimum(squared):
    table, y, model = squared
    found = cb.aic(model, table, y, "gmdl")
    start = f"<gMDL {found.value:.7g} after {found.best_iteration} of 150 iterations, df "
    assert repr(found).startswith(start)


def test_a_minimum_at_the_last_iteration_warns(squared):
    table, y, model = squared
    with pytest.warns(UserWarning, match="corrected AIC is smallest at the last iteration, 3"):
        cb.aic(model.at(3), table, y)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["absolute", "quantile", "huber", "gamma", "tweedie"])
def test_losses_that_are_not_likelihoods_are_refused(squared, loss):
    table, y, _ = squared
    model = cb.fit(table, np.abs(y) + 0.1, loss=loss, n_iter=3)
    with pytest.raises(ValueError, match=f"the {loss} loss is not a likelihood"):
        cb.aic(model, table, np.abs(y) + 0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "bic"}, "criterion: expected 'corrected'"),
        ({"df": "hat"}, "df: expected 'trace' or 'active'"),
        ({"validation": 0.5}, "not the rows of the fit"),
        ({"weights": np.linspace(1, 2, 80)}, "not the rows of the fit"),
        ({"offset": np.linspace(0, 1, 80)}, "not the rows of the fit"),
    ],
    ids=str,
)
def test_bad_arguments_are_refused(squared, options, message):
    table, y, model = squared
    with pytest.raises(ValueError, match=message):
        cb.aic(model, table, y, **options)


def test_other_rows_other_types_and_edited_models_are_refused(squared):
    table, y, model = squared
    with pytest.raises(ValueError, match="not the rows of the fit"):
        cb.aic(model, table, y[::-1])
    with pytest.raises(TypeError, match=r"expected a Model, got CWBRegressor.*\.model_"):
        cb.aic(cb.CWBRegressor(), table, y)
    with pytest.raises(TypeError, match="aic: y was an array in the fit"):
        cb.aic(model, table)
    with pytest.raises(ValueError, match="aic: the model was edited"):
        cb.aic(model.edit("zero", "x"), table, y)


def test_criteria_that_do_not_apply_to_the_loss_are_refused():
    table = make_table(4, 100)
    for loss in ("binomial", "multinomial"):
        y = make_target(4, table, loss)
        model = cb.fit(table, y, LEARNERS, loss, n_iter=2)
        with pytest.raises(ValueError, match=f"only to the squared loss, not to the {loss}"):
            cb.aic(model, table, y, "corrected")
    with pytest.raises(ValueError, match="needs second derivatives"):
        cb.aic(model, table, y, df="trace")


def test_too_many_coefficients_are_refused():
    g = np.array([f"level {i}" for i in range(5001)] * 2)
    y = np.random.default_rng(0).normal(size=len(g))
    model = cb.fit({"g": g}, y, n_iter=1)
    with pytest.raises(ValueError, match="have 5001 coefficients, 'trace' allows at most 5000"):
        cb.aic(model, {"g": g}, y)
    assert cb.aic(model, {"g": g}, y, df="active").df[1] == pytest.approx(model.terms["g"].net_df)
