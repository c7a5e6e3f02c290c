"""Tests of model files: they round-trip bit for bit and are written completely or not at all.
Loading any file returns a model that can predict or raises a ModelFileError."""

import base64
import copy
import json
import os
import random
import subprocess
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import cwboost as cb
from cwboost import losses, optimizers
from cwboost.export.model_file import ModelFileError, from_dict, to_dict
from cwboost.optimizers import Optimizer
from cwboost.terms import learners
from cwboost.terms.bases import BASES
from export_cases import Cosine, CosineBasis

N = 120


def make_table(missing=False):
    rng = np.random.default_rng(5)
    table = {
        "x": rng.uniform(-1, 1, N),
        "z": rng.normal(size=N),
        "n": rng.poisson(2.0, N),
        "flag": rng.random(N) < 0.4,
        "g": rng.choice(["a", "b", "ä €", "d\n"], N).astype(object),
    }
    if missing:
        table["x"][::9] = np.nan
        table["g"][::7] = None
    return table


def target(loss):
    table = make_table()
    score = np.sin(3 * table["x"]) + 0.5 * table["z"] + 0.7 * (table["g"] == "a")
    rng = np.random.default_rng(6)
    return {
        "binomial": np.where(score + rng.normal(size=N) > 0.4, "yes", "no"),
        "multinomial": np.digitize(score + rng.normal(size=N), [-0.5, 1.0]),
        "poisson": rng.poisson(np.exp(score)),
        "gamma": np.exp(score) * rng.gamma(2.0, 0.5, N) + 1e-3,
        "tweedie": rng.poisson(1.0, N) * np.exp(score),
    }.get(loss, score + 0.2 * rng.normal(size=N))


LEARNERS = {
    "linear": [cb.Linear("x"), cb.Linear("z", intercept=False)],
    "polynomial": [cb.Polynomial("x", 3), cb.Polynomial("z", 2, df=2)],
    "spline": [cb.Spline("x", df=6, bins=cb.Bins(30, "quantile")), cb.Spline("z", bins="sqrt")],
    "spline options": [
        cb.Spline("x", smoothing=3.0, knot_placement="quantile", extrapolate="constant", name="s"),
        cb.Spline("z", knots=7, degree=2, differences=1, df_kind="df1", bins=20),
    ],
    "centered": [cb.Linear("x"), cb.Centered("x"), cb.Linear("z"), cb.Centered("z", df=2)],
    "step": [cb.Step("x", df=4), cb.Step("n", bins=4)],
    "category": [cb.Category("g", df=2), cb.Category("n"), cb.Category("flag")],
    "binary": [cb.Category("g", kind="binary"), cb.Category("flag", kind="binary", name="f")],
    "missing": [cb.Linear("x"), cb.Missing("g")],
    "tensor": [
        cb.Tensor("x", "z", df=6),
        cb.Tensor(cb.Step("n", bins=4), "g"),
        cb.Tensor("x", "g"),
    ],
    "default": None,
}
LOSSES = [
    "squared", "absolute", cb.Quantile(0.8), cb.Huber(0.7), "binomial", "multinomial", "poisson",
    "gamma", cb.Tweedie(1.3),
]  # fmt: skip
OPTIMIZERS = [
    cb.Plain(0.2),
    cb.Accelerated(0.1, 0.02),
    cb.Hybrid(0.1, 2.0, switch_after=2),
    cb.Hybrid(0.1, 2.0, switch_after=2, rewind=False, then="training"),
]


def fit(kind="default", loss="squared", optimizer=None, **options):
    y = target(loss if isinstance(loss, str) else loss.name)
    if isinstance(optimizer, cb.Hybrid):
        options = {"validation": 0.3, "n_iter": 40, **options}
    options = {"n_iter": 12, **options}
    missing = kind in ("missing", "default")
    return cb.fit(make_table(missing), y, LEARNERS[kind], loss, optimizer, **options)


def assert_same(a, b, table, rows=None):
    for kind in ("response", "score"):
        np.testing.assert_array_equal(a.predict(table, kind), b.predict(table, kind))
    for m in (0, a.n_iter // 2, a.n_iter):
        np.testing.assert_array_equal(a.at(m).predict(table), b.at(m).predict(table))
    for name in a.terms:
        left, right = a.effect(name), b.effect(name)
        for key in left:
            np.testing.assert_array_equal(left[key], right[key])
        np.testing.assert_array_equal(a.terms[name].coef, b.terms[name].coef)
    assert a.importance() == b.importance()
    assert a.summary() == b.summary()
    assert repr(a) == repr(b)
    assert (a.choices, a.corrections, a.classes) == (b.choices, b.corrections, b.classes)
    np.testing.assert_array_equal(a.risk, b.risk)
    if rows is not None:
        left, right = (m.extend(5, table, rows) for m in (a, b))
        np.testing.assert_array_equal(left.risk, right.risk)
        np.testing.assert_array_equal(left.predict(table), right.predict(table))
    assert to_dict(a) == to_dict(b)


def saved(model, tmp_path):
    file = tmp_path / "model.json"
    model.save(file)
    return cb.load(file)


# --- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LEARNERS)
def test_learners_round_trip(kind, tmp_path):
    table = make_table(kind in ("missing", "default"))
    model = fit(kind)
    assert_same(model, saved(model, tmp_path), table, target("squared"))


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_losses_round_trip(loss, tmp_path):
    model = fit(loss=loss)
    name = loss if isinstance(loss, str) else loss.name
    assert_same(model, saved(model, tmp_path), make_table(missing=True), target(name))


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=str)
def test_optimizers_round_trip(optimizer, tmp_path):
    model = fit(optimizer=optimizer)
    assert_same(model, saved(model, tmp_path), make_table(missing=True), target("squared"))


def test_settings_round_trip(tmp_path):
    table = {**make_table(), "y": target("poisson"), "w": np.ones(N), "e": np.full(N, 2.0)}
    model = cb.fit(
        table, "y", [cb.Spline("x")], "poisson", n_iter=9, weights="w", exposure="e",
        validation=0.2, patience=None, bins="root4", random_state=2**62,
    )  # fmt: skip
    back = saved(model, tmp_path)
    assert back.settings == model.settings
    assert_same(model, back, table)
    np.testing.assert_array_equal(back.extend(3, table).risk, model.extend(3, table).risk)


@pytest.mark.parametrize("kind", ["no terms", "no iterations", "shortened", "diverged", "classes"])
def test_corner_cases_round_trip(kind, tmp_path):
    table, y = make_table(), target("squared")
    if kind == "no terms":
        model = cb.fit(table, y, [])
    elif kind == "no iterations":
        model = cb.fit(table, y, n_iter=0)
    elif kind == "shortened":
        model = cb.fit(table, y, optimizer=cb.Accelerated(), n_iter=9).at(4)
    elif kind == "classes":
        model = cb.fit(table, np.arange(N) % 2 == 0, loss="binomial", n_iter=3)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model = cb.fit(table, y, optimizer=cb.Plain(1e6))
        assert model.risk[-1] > 1e100
    back = saved(model, tmp_path)
    np.testing.assert_array_equal(back.predict(table), model.predict(table))
    assert (back.classes, back.stopped) == (model.classes, model.stopped)
    assert [type(c) for c in back.classes] == [type(c) for c in model.classes]


@pytest.mark.parametrize(
    "name", ["", "\n\t\"'\\", "x" * 10_000, "😀", "\x00", "\ud800", "[\n1\n]", "[ 1  2 ]"]
)
def test_hostile_names_and_levels_round_trip(name, tmp_path):
    table = {name: np.where(np.arange(N) % 3 == 0, f"{name} level", "other")}
    model = cb.fit(table, target("squared"), n_iter=3)
    back = saved(model, tmp_path)
    assert list(back.terms) == [name]
    assert back.terms[name].levels == model.terms[name].levels
    np.testing.assert_array_equal(back.predict(table), model.predict(table))


def test_python_loss_is_refused(tmp_path):
    class Loss:
        def loss(self, y, score):
            return (y - score) ** 2

        def gradient(self, y, score):
            return 2 * (score - y)

        def start(self, y, weights):
            return np.average(y, weights=weights)

    model = cb.fit(make_table(), target("squared"), loss=Loss(), n_iter=2)
    with pytest.raises(TypeError, match=r"not a subclass of cwboost\.losses\.Loss; derive"):
        model.save(tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


# --- user-defined classes -------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Bent(cb.Spline):
    """A user-defined learner."""

    strength: float = 1.0
    labels: tuple[str, ...] = ()


@dataclass
class Slow(Optimizer):
    rate: float = 0.01

    def core(self):
        return cb.Plain(self.rate).core()


@dataclass(frozen=True)
class Halved(cb.Huber):
    name = "halved"


def test_user_defined_classes_round_trip(monkeypatch, tmp_path):
    """Classes registered after the import of cwboost are stored with their type."""
    monkeypatch.setitem(learners.LEARNERS, "Bent", Bent)
    monkeypatch.setitem(learners.LEARNERS, "Cosine", Cosine)
    monkeypatch.setitem(BASES, "cosine", CosineBasis)
    monkeypatch.setitem(optimizers.OPTIMIZERS, "Slow", Slow)
    monkeypatch.setitem(losses.LOSSES, "halved", Halved)
    table, y = make_table(), target("squared")
    specs = [Bent("x", strength=2.0, labels=("a", "b")), Cosine("z")]
    model = cb.fit(table, y, specs, loss=Halved(0.7), optimizer=Slow(0.2), n_iter=9)
    back = saved(model, tmp_path)
    assert back.terms["x"].learner == specs[0]
    assert type(back.terms["z"].plan.basis) is CosineBasis
    assert [type(back.loss), type(back.optimizer)] == [Halved, Slow]
    np.testing.assert_array_equal(back.predict(table), model.predict(table))
    assert to_dict(back) == to_dict(model)


def refused(model, tmp_path, message):
    with pytest.raises(TypeError, match=message):
        model.save(tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


def test_classes_that_cannot_be_loaded_are_refused_when_saving(monkeypatch, tmp_path):
    table, y = make_table(), target("squared")
    model = cb.fit(table, y, [Bent("x")], n_iter=3)
    refused(
        model, tmp_path, r"the class Bent is not registered; register it with .*register_learner"
    )
    model = cb.fit(table, y, [cb.Linear("x")], optimizer=Slow(), n_iter=3)
    refused(model, tmp_path, r"the class Slow is not registered; add it to .*\.OPTIMIZERS")

    @dataclass(frozen=True, repr=False)
    class Loose(cb.Linear):
        action: object = None

    monkeypatch.setitem(learners.LEARNERS, "Loose", Loose)
    model = cb.fit(table, y, [Loose("x", action="text")], n_iter=3)
    refused(
        model,
        tmp_path,
        "cannot hold the class Loose: .*annotate its fields with types that a file can hold",
    )


# --- the file -------------------------------------------------------------------------------------


def test_file_is_readable(tmp_path):
    fit().save(tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text(encoding="utf-8")
    data = json.loads(text)
    assert text.startswith(
        '{\n "format": "cwboost model",\n "version": 6,\n "written_by": "cwboost'
    )
    assert list(data) == [
        "format", "version", "written_by", "loss", "classes", "optimizer", "start", "intercept",
        "scale", "iteration", "columns", "terms", "interactions", "importance", "sizes", "edits",
        "dropped", "path", "settings", "bags", "bands", "polish", "suggestion",
    ]  # fmt: skip
    assert list(data["terms"][0]) == [
        "name", "learner", "encoders", "basis", "net_df_aimed_at", "smoothing", "df", "net_df",
        "coef",
    ]  # fmt: skip
    assert data["terms"][0]["learner"]["type"] == "Spline"
    assert "ä €" in text
    assert len(text.splitlines()) < 400  # a list of numbers is one line


def test_newer_version_is_refused():
    data = {**to_dict(fit("linear")), "version": 7}
    with pytest.raises(ModelFileError, match=r"version 7 .* reads 1 to 6; update cwboost"):
        from_dict(data)


@pytest.mark.parametrize("counted", [True, False])
def test_files_of_version_1_are_read(counted):
    """These files do not store the spread of the columns, and the earliest do not count
    evaluations."""
    model = fit()
    data = {**to_dict(model), "version": 1}
    del data["dropped"]
    data["columns"] = {
        name: {key: value for key, value in facts.items() if key != "spread"}
        for name, facts in data["columns"].items()
    }
    if not counted:
        data["path"] = {k: v for k, v in data["path"].items() if k != "evaluations"}
    old = from_dict(data)
    known = model.path.evaluations if counted else np.zeros(model.n_iter, dtype=int)
    np.testing.assert_array_equal(old.path.evaluations, known)
    assert all(facts.spread is None for facts in old.columns.values())
    assert old.columns == model.columns
    assert to_dict(old)["terms"] == to_dict(model)["terms"]


def without(data, keys):
    """Return plain data without some keys, at any depth."""
    if isinstance(data, dict):
        return {key: without(value, keys) for key, value in data.items() if key not in keys}
    return [without(item, keys) for item in data] if isinstance(data, list) else data


def test_files_of_version_4_are_read():
    """These files do not say which columns are dates, so predictions do not check it."""
    days = np.arange("2020-01-01", "2020-03-01", dtype="M8[D]")
    model = cb.fit({"x": days.astype(float)}, np.arange(60.0), n_iter=5)
    assert model.columns["x"].unit == "numbers"
    old = from_dict({**without(to_dict(model), ("unit",)), "version": 4})
    assert old.predict({"x": days}).tolist() == model.predict({"x": days.astype(float)}).tolist()


def test_files_of_version_3_are_read():
    """Penalties did not depend on the rows, and models keep what they stored."""
    x = np.append(np.linspace(0, 1, 99), [np.nan, 30.0])
    table = {"x": x, "z": np.roll(x, 7)}
    y = np.nan_to_num(np.sin(x), nan=5.0)
    linear = cb.Spline("x", extrapolate="linear")
    learners = [linear, cb.Step("x"), cb.Missing("x"), cb.Centered("z"), cb.Tensor("x", "z", df=9)]
    model = cb.fit(table, y, learners, n_iter=20)
    data = {**without(to_dict(model), ("tails", "ridge")), "version": 3}
    old = from_dict(data)
    np.testing.assert_array_equal(old.predict(table), model.predict(table))
    assert old.terms["spline(x)"].learner == replace(linear, tails="smooth")
    for name, term in old.terms.items():
        assert term.plan.basis.ridge == 0.0
        assert not term.plan.basis.penalty_needs_rows
        assert term.plan.basis.null_dim >= model.terms[name].plan.basis.null_dim
    classic = {**data, "version": 4}
    with pytest.raises(ModelFileError, match="tails"):
        from_dict(classic)
    assert len(old.extend(5, table, y).choices) == 25


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    file, model = tmp_path / "m.json", fit("linear")
    model.save(file)
    before = file.read_bytes()

    def fail(*_, **__):
        raise OSError("disk full")

    for method in ("open", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(Path, method, fail)
            with pytest.raises(OSError, match="disk full"):
                fit("step").save(file)
        assert file.read_bytes() == before
        assert list(tmp_path.iterdir()) == [file]
    fit("step").save(file)
    assert file.read_bytes() != before


def test_paths_that_cannot_be_written(tmp_path):
    model = fit("linear")
    with pytest.raises(FileNotFoundError, match="nowhere: this folder does not exist"):
        model.save(tmp_path / "nowhere" / "m.json")
    with pytest.raises(IsADirectoryError, match="this is a folder; name a file"):
        model.save(tmp_path)
    assert not list(tmp_path.iterdir())
    tmp_path.chmod(0o500)
    try:
        if not os.access(tmp_path, os.W_OK):  # root may write anywhere
            with pytest.raises(PermissionError):
                model.save(tmp_path / "m.json")
    finally:
        tmp_path.chmod(0o700)


def test_links_are_followed(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    fit("linear").save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert cb.load(str(tmp_path / "real.json")).n_iter == 12


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        cb.load(tmp_path / "m.json")


# --- damaged and hostile files --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged or not JSON"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"hello", "damaged or not JSON"),
        (b"[]", "not a cwboost model"),
        (b"null", "not a cwboost model"),
        (b"3", "not a cwboost model"),
        (b'{"format": "pickle"}', "not a cwboost model"),
        (b'{"format": "cwboost model"}', "version null"),
        (b'{"format": "cwboost model", "version": 1}', "missing"),
        (b'{"format": "cwboost model", "version": NaN}', "NaN is not JSON"),
        (b'{"format": "cwboost model", "version": -Infinity}', "Infinity is not JSON"),
        (b'{"a": ' + b"9" * 5000 + b"}", "damaged or not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b"\x80\x04\x95\x00cposix\nsystem\n", "not UTF-8"),  # a pickle
    ],
)
def test_files_that_are_not_models(content, message, tmp_path):
    (tmp_path / "m.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=message) as caught:
        cb.load(tmp_path / "m.json")
    assert "m.json: " in str(caught.value)


def test_truncated_files_are_refused(tmp_path):
    fit("tensor").save(tmp_path / "m.json")
    raw = (tmp_path / "m.json").read_bytes()
    cuts = {*range(0, len(raw) - 1, max(1, len(raw) // 150)), *range(len(raw) - 40, len(raw) - 1)}
    for at in cuts:
        (tmp_path / "cut.json").write_bytes(raw[:at])
        with pytest.raises(ModelFileError):
            cb.load(tmp_path / "cut.json")


def changed(data, path, value):
    out = copy.deepcopy(data)
    at = out
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return out


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("loss",), {"type": "nope"}, r"loss: expected type .*squared.*got \"nope\""),
        (("loss",), {"type": "quantile"}, "loss: tau missing"),
        (("loss",), {"type": "quantile", "tau": 2}, "loss: Quantile: tau must be between 0 and 1"),
        (("loss",), {"type": "squared", "__class__": "os.system"}, "loss: expected no other keys"),
        (("optimizer", "rate"), -1, "optimizer: Plain: rate must be a positive number"),
        (("optimizer", "rate"), "fast", "optimizer.rate: expected numbers, got"),
        (("start",), [1, 2], r"start: expected 1 number, got \[1, 2\]"),
        (("scale",), 0, "scale: expected a positive number, got 0"),
        (("scale",), 10**400, "scale: expected finite numbers, got"),
        (("iteration",), 13, "iteration: expected 0 to 12, got 13"),
        (("classes",), ["a", "b"], "classes: expected 0 different classes"),
        (("importance",), [1.0], "importance: expected 2 numbers"),
        (("sizes",), 1.0, "sizes: expected an object or null"),
        (("sizes",), {"terms": {}}, "sizes: columns missing"),
        (("sizes", "terms"), {"q": 1.0}, "sizes.terms: expected names of terms"),
        (("start",), [1e308], "start: expected numbers up to 1e300"),
        (("sizes", "columns"), {"x": -1.0}, "sizes.columns: expected numbers from 0 to 1e300"),
        (("settings", "seed"), -3, "settings: expected seed >= 0"),
        (("settings", "exposure"), "e", "settings.exposure: expected null with squared loss"),
        (("settings", "bins", "n"), 1, "settings.bins: bins: expected one of"),
        (("columns", "x", "kind"), "labels", r"terms\[0\].encoders: expected levels for a text"),
        (("columns", "x", "low"), None, r"columns.x: expected low and high"),
        (("terms", 0, "name"), "z", r"terms\[1\].name: expected a name that is not used twice"),
        (("terms", 0, "learner", "column"), "q", r"terms\[0\].learner: expected a column"),
        (("terms", 0, "learner", "knots"), 10**9, r"\[0\].learner: Spline\('x'\): knots: expected"),
        (("terms", 0, "learner", "bins"), "many", r"terms\[0\].learner.bins: bins: expected"),
        (("terms", 0, "coef"), [[1.0]], r"terms\[0\].coef: expected 1 times 24 numbers"),
        (("terms", 0, "coef"), [["1"]], r"terms\[0\].coef\[0\]: expected numbers"),
        (("terms", 0, "basis", "degree"), 11, r"terms\[0\].basis: expected degree \+ 1 knots"),
        (("terms", 0, "basis", "knots", 3), 1e9, r"terms\[0\].basis: expected increasing knots"),
        (("terms", 0, "basis", "mean"), [0.5], r"terms\[0\].basis: expected a mean for every"),
        (("terms", 0, "encoders"), [], r"terms\[0\].encoders: expected one per column"),
        (("terms", 0, "encoders", 0), {"type": "cuts", "cuts": [0]}, r"encoders: expected values"),
        (("path", "choices", 0), 2, "path.choices: expected 12 numbers from 0 to 1"),
        (("path", "choices", 0), -1, "path.choices: expected 12 numbers from 0 to 1"),
        (("path", "corrections", 0), 0, "path.corrections: expected 0 numbers"),
        (("path", "halvings", 0), 10**12, "path.halvings: expected 12 numbers from 0 to 1000"),
        (("path", "risk"), [1.0], "path.risk: expected 13 numbers"),
        (("path", "switched_after"), 3, "path.rewound_to: expected a switch that fits"),
        (("path", "updates"), "AAAA", "path.updates: damaged"),
        (("path", "updates"), base64.b64encode(b"\0" * 8).decode(), "expected 288 finite numbers"),
        (("path", "updates"), "€", "path.updates: damaged"),
    ],
)  # fmt: skip
def test_messages_name_the_damaged_field(where, value, message):
    data = to_dict(
        cb.fit(make_table(), target("squared"), [cb.Spline("x"), cb.Spline("z")], n_iter=12)
    )
    from_dict(data)
    with pytest.raises(ModelFileError, match=message):
        from_dict(changed(data, where, value))


def test_inconsistent_paths_are_refused():
    """Paths that the compiled replay cannot handle are refused."""
    plain, fast = to_dict(fit("linear")), to_dict(fit("linear", optimizer=cb.Accelerated()))
    hybrid = to_dict(fit("linear", optimizer=OPTIMIZERS[2]))
    assert hybrid["path"]["switched_after"] > 1
    for data in (
        {**plain, "optimizer": fast["optimizer"]},
        {**fast, "optimizer": plain["optimizer"]},
        {**hybrid, "optimizer": plain["optimizer"]},
        {**hybrid, "optimizer": fast["optimizer"]},
        changed(hybrid, ("path", "rewound_to"), -1),
        changed(hybrid, ("path", "switched_after"), -1),
        changed(hybrid, ("path", "switched_after"), 1),
        changed(hybrid, ("path", "switched_after"), 10**9),
        changed(fast, ("path", "corrections", 3), -1),
        {**plain, "terms": []},
    ):
        with pytest.raises(ModelFileError):
            from_dict(data)


# Whatever part of a file changes, the model predicts or the file is refused.


def nodes(data, path=()):
    yield path
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for key, value in items:
        yield from nodes(value, (*path, key))


def use(model):
    """Call everything that may fail after loading, on a table that fits the model."""
    table = {
        name: np.linspace(-3, 3, 7)
        if facts.kind == "numbers"
        else ["a", "b", "q", None, "", "d\n", "x"]
        for name, facts in model.columns.items()
    }
    table |= {
        s: np.ones(7) for s in (model.settings.offset, model.settings.exposure) if s is not None
    }
    offset = 0 if model.settings.needs_offset else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # unseen levels, and overflow of absurd numbers
        assert len(model.predict(table, offset=offset)) == 7
        for m in {0, min(1, model.n_iter), model.n_iter}:
            model.at(m).predict(table, offset=offset)
        for name in model.terms:
            model.effect(name)
        repr(model)
        model.summary()
        from_dict(to_dict(model))


def survives(data):
    try:
        model = from_dict(data)
    except ModelFileError as error:
        message = str(error)
    else:
        use(model)
        return True
    assert "\n" not in message
    assert len(message) < 500
    return False


def fuzz_models():
    yield fit("default", optimizer=OPTIMIZERS[2])
    yield fit("tensor", "multinomial")
    yield fit("binary", "binomial", cb.Accelerated())
    yield fit("centered", "poisson", exposure=np.ones(N))
    yield fit("step", cb.Huber(1.0))


WRONG = [
    None, True, False, 0, 1, -1, 2, 10**6, 2**31, 2**63, 10**400, -(10**400), 0.5, -0.5, 1e300,
    -1e300, 5e-324, "", "x", "nan", "inf", "levels", "spline", "AAAAAAAA8D8=", [], [0], [[]],
    [None], [1e308] * 3, ["x", "x"], {}, {"type": "values"}, {"type": []},
    {"kind": "numbers"}, {"": None},
]  # fmt: skip


def test_every_field_deleted_or_replaced():
    learners = [cb.Tensor("x", "g"), cb.Step("z", bins=3)]
    data = to_dict(cb.fit(make_table(), target("binomial"), learners, "binomial", n_iter=4))
    loaded = 0
    for path in list(nodes(data))[1:]:
        if len(path) > 4 and isinstance(path[-1], int) and path[-1] > 1:
            continue  # the first two numbers of a list are enough
        at = data
        for key in path[:-1]:
            at = at[key]
        if isinstance(at, dict):
            without = changed(data, path, None)
            parent = without
            for key in path[:-1]:
                parent = parent[key]
            del parent[path[-1]]
            may_lack = {"columns": 2, "sizes": 3}  # an edited column has no stored size
            if may_lack.get(path[0]) != len(path):
                assert not survives(without), path
        for value in (None, [], "x", -1, 10**400, {"type": "x"}):
            loaded += survives(changed(data, path, value))
    assert loaded > 0


@pytest.mark.parametrize("seed", range(5))
def test_random_mutations(seed):
    rng = random.Random(seed)
    data = to_dict(list(fuzz_models())[seed])
    paths = [p for p in nodes(data) if p]
    shallow = [p for p in paths if len(p) < 5]
    assert survives(data)
    outcomes = []
    for _ in range(150):
        mutant = data
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            path = rng.choice(paths if rng.random() < 0.4 else shallow)
            draw = rng.random()
            try:
                if draw < 0.6:
                    value = rng.choice(WRONG)
                elif draw < 0.8:  # a value from elsewhere in the file
                    value = mutant
                    for key in rng.choice(paths):
                        value = value[key]
                else:  # the old value, slightly longer, shorter or larger
                    value = mutant
                    for key in path:
                        value = value[key]
                    value = alter(value, rng)
                mutant = changed(mutant, path, value)
            except (KeyError, IndexError, TypeError):
                continue  # an earlier change removed this path
        outcomes.append(survives(mutant))
    assert 0 < sum(outcomes) < len(outcomes)


def alter(value, rng):
    if isinstance(value, list) and value:
        return rng.choice([value[1:], value[:-1], [*value, value[0]], value[::-1]])
    if isinstance(value, dict) and value:
        return {k: v for k, v in value.items() if k != rng.choice(list(value))}
    if isinstance(value, str):
        return rng.choice([value + "A", value[:-1], value[::-1]])
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, value - 1, -value, value * 1e6, value * 1e-300, int(value)])
    return value


def test_deep_nesting_of_learners():
    data = to_dict(fit("tensor"))
    for part in ("learner", "basis"):
        deep = data["terms"][0][part]
        for _ in range(20_000):
            deep = {**data["terms"][0][part], "a": deep}
        with pytest.raises(ModelFileError, match=r"nested too deeply|expected"):
            from_dict({**data, "terms": [{**data["terms"][0], part: deep}]})


def test_loading_imports_and_runs_nothing(tmp_path):
    """A file cannot make Python import the modules it names."""
    data = to_dict(fit("linear"))
    file = tmp_path / "m.json"
    file.write_text(json.dumps(changed(data, ("terms", 0, "learner", "type"), "os.system")))
    code = (
        "import sys, cwboost as cb\n"
        "from cwboost.export.model_file import ModelFileError\n"
        "before = set(sys.modules)\n"
        f"try: cb.load({str(file)!r})\n"
        "except ModelFileError: assert set(sys.modules) == before\n"
        "else: raise SystemExit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
