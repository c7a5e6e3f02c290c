"""Tests that the results of the whole package on small problems equal the stored results.

    python tests/test_golden_master.py --record     writes tests/golden/master.json

Only public names are used, so that any version can record. Record an intended change of results
again and name it in CHANGELOG.md; an unintended change fails here. The stored file was recorded
before the code was divided into packages for 0.1.0, which must not change results.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

import cwboost as cb

STORED = Path(__file__).parent / "golden" / "master.json"


def table(n=150, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.uniform(0, 10, n).round(2),
        "z": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(size=n).round(3)),
        "g": rng.choice(["a", "b", "c", "d"], n, p=[0.4, 0.3, 0.2, 0.1]),
        "k": rng.integers(0, 5, n).astype(float),
    }


def score(t):
    return np.sin(t["x"]) + 0.5 * np.nan_to_num(t["z"]) + (t["g"] == "b") + 0.1 * t["k"]


def target(t, kind, seed=1):
    rng = np.random.default_rng(seed)
    f = score(t)
    if kind == "binary":
        return rng.uniform(size=len(f)) < 1 / (1 + np.exp(-2 * (f - 0.7)))
    if kind == "classes":
        return rng.choice(["p", "q", "r"], len(f), p=[0.5, 0.3, 0.2])
    if kind == "counts":
        return rng.poisson(np.exp(f / 2)).astype(float)
    if kind == "amounts":
        return rng.gamma(2.0, np.exp(f / 2) / 2)
    return f + 0.3 * rng.normal(size=len(f))


LOSSES = {
    "squared": "numbers", "absolute": "numbers", "quantile": "numbers", "huber": "numbers",
    "binomial": "binary", "multinomial": "classes", "poisson": "counts", "gamma": "amounts",
    "tweedie": "counts",
}  # fmt: skip
OPTIMIZERS = {
    "plain": cb.Plain(0.2),
    "accelerated": cb.Accelerated(0.1, 0.02),
    "hybrid": cb.Hybrid(0.1, 0.1, switch_after=2),
}


def facts(model, t, **fixed):
    """Return the numbers of a model that are compared."""
    return {
        "choices": model.choices[:40],
        "risk": model.risk[[0, len(model.risk) // 2, -1]],
        "validation": [] if model.validation_risk is None else model.validation_risk[[0, -1]],
        "best": model.best_iteration,
        "intercept": np.ravel(model.intercept),
        "scale": model.scale,
        "terms": {n: [x.df, x.net_df, x.smoothing] for n, x in model.terms.items()},
        "importance": list(model.importance("risk", by="term").values()),
        "sizes": list(model.importance(by="term").values()),
        "predictions": model.predict({name: c[:6] for name, c in t.items()}, **fixed),
        "stopped": str(model.stopped),
    }


def fits():
    t = table()
    w = np.random.default_rng(2).uniform(0.5, 2.0, 150)
    for loss, kind in LOSSES.items():
        y = target(t, kind)
        q = 3 if loss == "multinomial" else 1
        offset = 0.2 * np.random.default_rng(3).normal(size=(150, q))
        for name, optimizer in OPTIMIZERS.items():
            model = cb.fit(t, y, loss=loss, optimizer=optimizer, n_iter=40, validation=0.25)
            yield f"{loss} {name}", facts(model, t)
        model_offset = offset[:, 0] if q == 1 else offset
        model = cb.fit(t, y, loss=loss, n_iter=30, weights=w, offset=model_offset)
        yield f"{loss} weights and offset", facts(model, t, offset=model_offset[:6])


def learners():
    t, y = table(), target(table(), "numbers")
    kinds = {
        "linear": [cb.Linear("x"), cb.Linear("z")],
        "no intercept": [cb.Linear("x", intercept=False)],
        "polynomial": [cb.Polynomial("x", 3), cb.Polynomial("z", 2)],
        "spline": [cb.Spline("x", df=6), cb.Spline("z", knots=8, degree=2)],
        "quantile knots": [cb.Spline("x", knot_placement="quantile", extrapolate="constant")],
        "smoothing": [cb.Spline("x", smoothing=10.0), cb.Category("g", smoothing=2.0)],
        "df1": [cb.Spline("x", df=6, df_kind="df1")],
        "centered": [cb.Linear("x"), cb.Centered("x", df=1.5)],
        "step": [cb.Step("x", bins=12), cb.Step("k", kind="spikes")],
        "category": [cb.Category("g", df=2), cb.Category("k", kind="binary")],
        "missing": [cb.Missing("z"), cb.Linear("x")],
        "tensor": [cb.Tensor("x", "g", df=8), cb.Tensor("x", "z", df=7)],
        "pair": [cb.Spline("x"), cb.Category("g"), cb.Tensor("x", "g", orthogonal=True)],
    }
    for name, terms in kinds.items():
        yield f"learner {name}", facts(cb.fit(t, y, terms, n_iter=30), t)
    for style in ("smooth", "auto", "linear", "step", "components"):
        yield f"style {style}", facts(cb.fit(t, y, style, n_iter=20), t)
    big = table(1500, 5)
    for rule in ("auto", "sqrt", "root4", "exact", 7, cb.Bins(9, "quantile")):
        model = cb.fit(big, target(big, "numbers"), bins=rule, n_iter=15, validation=0.3)
        yield f"bins {rule}", facts(model, big)


def variants():
    t, y = table(), target(table(), "numbers")
    paired = cb.fit(t, y, n_iter=20, interactions=2)
    yield "interactions", {**facts(paired, t), "gain": paired.interactions.gain[:4]}
    yield "bags", facts(cb.fit(t, y, n_iter=30, bags=3), t)
    merged = cb.fit(t, y, n_iter=20, min_rows_per_bin=8)
    yield "min rows", facts(merged, t)
    for search in ("full", "certified", "row-free"):
        yield f"search {search}", facts(cb.fit(t, y, n_iter=40, search=search), t)
    longer = cb.fit(t, y, n_iter=10).extend(10, t, y)
    yield "extend", facts(longer, t)
    model = cb.fit(t, y, n_iter=60)
    for kind, term, options in (
        ("zero", "g", {}), ("rounded", "x", {"digits": 1}), ("smoothed", "x", {"df": 4}),
        ("monotone", "x", {"increasing": True}), ("set_level", "g", {"level": "b", "effect": 0.2}),
    ):  # fmt: skip
        yield f"edit {kind}", {"predictions": model.edit(kind, term, **options).predict(t)[:8]}


def choosing():
    t, y = table(), target(table(), "numbers")
    groups = np.random.default_rng(6).integers(0, 30, 150)
    for name, options in {
        "kfold": {"folds": 4}, "repeated": {"folds": cb.Folds(n=3, repeats=2)},
        "bootstrap": {"folds": cb.Folds("bootstrap", n=4)},
        "subsampling": {"folds": cb.Folds("subsampling", n=4)},
        "time": {"folds": cb.Folds("time", n=4)}, "groups": {"folds": 4, "groups": groups},
    }.items():  # fmt: skip
        found = cb.cv(t, y, n_iter=30, extend=False, **options)
        yield f"cv {name}", {
            "best": [found.best_iteration, found.best_iteration_1se],
            "mean": found.mean[[0, 15, 30]], "se": found.standard_error[[0, 15, 30]],
        }  # fmt: skip
    for metric, kind in {
        "auc": "binary", "log_loss": "binary", "accuracy": "binary", "brier": "binary",
        "rmse": "numbers", "mae": "numbers", "r2": "numbers",
    }.items():  # fmt: skip
        loss = "binomial" if kind == "binary" else "squared"
        scored = cb.cv(
            t, target(t, kind), loss=loss, n_iter=12, folds=3, metric=metric, extend=False
        )
        yield f"metric {metric}", {"mean": scored.mean[[0, 6, 12]]}
    stable = cb.stability(t, y, q=2, cutoff=0.7, n_samples=6)
    yield "stability", {"frequencies": list(stable.frequency.values()), "pfer": stable.pfer}
    yield "probe", {"selected": sorted(cb.probe(t, y, n_iter=50).selected)}
    model = cb.fit(t, y, n_iter=60)
    yield "deselect", {"dropped": sorted(cb.deselect(model, t, y, threshold=0.05).dropped)}
    for loss in ("squared", "binomial", "poisson"):
        z = target(t, LOSSES[loss])
        found = cb.aic(cb.fit(t, z, loss=loss, n_iter=20), t, z)
        yield f"aic {loss}", {"df": found.df[[0, 10, 20]], "path": found.path[[0, 10, 20]]}
    tuned = cb.tune(
        t, y, folds=2, schedule=cb.Halving(6, least=5, most=20, factor=2), random_state=1
    )
    yield "tune", {"scores": list(tuned.table()["score"])}
    banded = model.with_bands(t, y, n_boot=10, random_state=3)
    band = banded.band("x", n=9)
    yield "band", {"lower": band["lower"], "upper": band["upper"]}
    for kind in ("split", "cv+", "cqr"):
        ends = (
            cb.fit(t, y, n_iter=30)
            .intervals(t, y, kind=kind)
            .predict({name: c[:5] for name, c in t.items()})
        )
        yield f"intervals {kind}", {"lower": ends["lower"], "upper": ends["upper"]}
    large = table(1200, 8)
    regressor = cb.CWBRegressor(n_iter=60).fit(large, target(large, "numbers"))
    yield "regressor", facts(regressor.model_, large)
    classifier = cb.CWBClassifier(n_iter=60).fit(large, target(large, "binary"))
    yield "classifier", facts(classifier.model_, large)


def to_json(value):
    if isinstance(value, dict):
        return {str(k): to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [to_json(v) for v in value]
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(f"{value:.12g}")
    return value.item() if isinstance(value, np.generic) else value


def results():
    """Yield the name and the numbers of every result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for make in (fits, learners, variants, choosing):
            for name, found in make():
                yield name, json.loads(json.dumps(to_json(found)))


def assert_same(now, then, where):
    assert type(now) is type(then) or {type(now), type(then)} <= {int, float}, where
    if isinstance(then, dict):
        assert list(now) == list(then), where
        for key in then:
            assert_same(now[key], then[key], f"{where}, {key}")
    elif isinstance(then, list):
        assert len(now) == len(then), where
        for k, (a, b) in enumerate(zip(now, then, strict=True)):
            assert_same(a, b, f"{where}[{k}]")
    elif isinstance(then, float):
        assert abs(now - then) <= 1e-7 * max(1.0, abs(then)), f"{where}: {now}, stored {then}"
    else:
        assert now == then, where


def first_difference():
    """Return the first result that differs from the stored one; None if all are equal."""
    stored = json.loads(STORED.read_text())
    for name, now in results():
        try:
            assert_same(now, stored.pop(name), name)
        except AssertionError as error:
            return str(error)
    return f"missing: {sorted(stored)}" if stored else None


def test_results_equal_the_stored_ones():
    assert first_difference() is None


if __name__ == "__main__" and "--record" in sys.argv:
    STORED.write_text(json.dumps(dict(results()), indent=1) + "\n")
