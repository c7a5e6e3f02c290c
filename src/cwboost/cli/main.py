"""The command line. Knows arguments, exit codes and what is printed; the work is done elsewhere.

Exit codes: 0 fine, 1 bad input or data, 2 wrong usage, 130 interrupted, 141 nobody reads the
output.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cwboost import progress
from cwboost._utils.atomic_files import STANDARD, check_file, write_output
from cwboost.explain.explanation import explain
from cwboost.export.model_file import load
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.input_data import read_weights
from cwboost.frames.files import (
    FileTable,
    Kind,
    check_output,
    is_folder,
    is_table_file,
    read_table,
    standard_input,
    write_table,
)
from cwboost.frames.parquet import ParquetFiles, rewrite
from cwboost.frames.table import Column, Floats, Labels, Numbers, Table, read
from cwboost.losses import loss_for_classes
from cwboost.model.model import Model, warn_of_unseen
from cwboost.model.path import StopReason
from cwboost.optimizers import Optimizer, as_optimizer
from cwboost.selection.cv import cv
from cwboost.selection.folds import Folds
from cwboost.selection.tuning.schedules import Hyperband
from cwboost.selection.tuning.tune import Tuning, TuningInterrupted, tune
from cwboost.terms.formula import parse

from .arguments import PICTURES, parser
from .text import cell, curve_lines, effect_table, printable, table_lines, words

BAD, INTERRUPTED, BROKEN_PIPE = 1, 130, 141
BAR = 24  # characters of the longest bar


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns its exit code.

    Examples
    --------
    >>> main(["--version"])
    Traceback (most recent call last):
    SystemExit: 0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names may hold anything
    chosen = parser().parse_args(arguments)
    logged = getattr(chosen, "log_json", False)
    quiet = getattr(chosen, "quiet", False)
    bar = progress.make(sys.stderr, quiet=quiet, log=logged, every=getattr(chosen, "log_every", 10))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = lambda message, *_, **__: bar.say("warning", str(message))
            code = COMMANDS[chosen.command](chosen, bar)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # What is still buffered has nowhere to go; Python would complain when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        bar.say("error", "interrupted; nothing was written")
        return INTERRUPTED
    except OSError as error:
        known = error.strerror and error.filename
        bar.say("error", f"{error.filename}: {error.strerror}" if known else str(error))
    except (ValueError, TypeError, ImportError) as error:
        bar.say("error", str(error))
    except MemoryError:
        bar.say("error", "not enough memory for this table")
    finally:
        bar.close()
    return BAD


# --- fit ------------------------------------------------------------------------------------------


def run_fit(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost fit`."""
    _check_wanted(a)
    if a.bags is not None and (a.validation in ("last", "none") or not _is_share(a.validation)):
        a.parser.error("--bags: every bag is watched by the rows that it leaves out; --validation "
                       "can only say which share of them; leave it out for 0.2")  # fmt: skip
    needs_rows = a.optimizer is not None and as_optimizer(a.optimizer).needs_validation
    if needs_rows and a.validation == "none":
        a.parser.error(
            f"--optimizer {a.optimizer} needs validation rows; leave out --validation none"
        )
    if a.bags is not None and a.checkpoint is not None:
        a.parser.error("--checkpoint: has the iterations of one fit, and --bags makes several")
    if a.output is not None:
        check_output(a.output, table=False)
    if a.checkpoint is not None:
        check_file(a.checkpoint)
    began = time.monotonic()
    held = None if _is_share(a.validation) else a.validation
    asked = _fit_request(a, bar, [] if held is None else [held])
    table = asked.table
    estimator = _estimator(a, table, asked.learners, bar)
    weights = None if a.weights is None else read_weights(a.weights, table)
    fixed = [name for name in (a.offset, a.exposure) if name is not None]
    rows = table.select(list(dict.fromkeys([*asked.features, *fixed])))
    estimator._progress = bar
    try:
        y = _target(table[a.target], a.target, estimator)
        mask = None if held is None else _mask(table[held])
        estimator.fit(rows, y, weights, validation=mask, checkpoint=a.checkpoint)
        model = estimator.model_
    except Interrupted as stop:
        model = estimator._keep(stop.model, 0).model_
    names = replace(model.settings, target=a.target, weights=a.weights, held=held)
    return _fitted(a, replace(model, settings=names), bar, time.monotonic() - began)


class FitRequest(NamedTuple):
    """What is to be fitted."""

    table: Table
    features: list[str]
    learners: Any  # of a formula


def _check_wanted(a: argparse.Namespace) -> None:
    if a.target is None and a.formula is None:
        a.parser.error("give the column to predict, --target COLUMN, or a --formula")
    if a.formula is not None and a.terms is not None:
        a.parser.error("--formula says which terms there are; leave out --terms")


def _fit_request(a: argparse.Namespace, bar: progress.Progress, apart: list[str]) -> FitRequest:
    """The table and its features; columns `apart` are none."""
    bar.stage(f"reading {Path(a.table).name}")
    roles = [name for name in (a.weights, a.offset, a.exposure) if name is not None]
    table = read_table(a.table, dict.fromkeys(roles, "numbers")).table
    bar.stage("setting up")
    others = [*roles, *a.exclude, *apart]
    learners = None
    if a.formula is not None:
        target, learners = parse(a.formula, table, others)
        if a.target not in (None, target):
            a.parser.error(f"--target is {a.target!r}, but the formula says {target!r}")
        a.target = target
        features = list(dict.fromkeys(c for learner in learners for c in learner.columns))
        twice = [name for name in features if name in a.exclude]
        if twice:
            a.parser.error(f"{twice[0]!r} is in the formula, but --exclude takes it away")
    else:
        features = [name for name in table.names if name not in {a.target, *others}]
    if a.target in others:
        a.parser.error(f"--target {a.target!r} cannot have another part as well")
    for name in (a.target, *others):
        if name not in table:
            table[name]  # raises, and says what the table has
    if "" in features:
        raise ValueError(
            f"{a.table}: column {table.names.index('') + 1} has no name; if it only counts the "
            "rows, leave it out with --exclude ''"
        )
    if not features:
        raise ValueError(f"{a.table}: no column is left to predict {a.target!r} from")
    return FitRequest(table, features, learners)


def _mask(column: Column) -> Any:
    """The column that marks the validation rows, as an array: true or false, or weights."""
    if not isinstance(column, Numbers):
        raise ValueError(
            f"--validation {column.name}: expected true or false, or weights, for every row; the "
            f"column has text such as {column.levels[0]!r}"
        )
    return column.values == 1 if column.boolean and not column.missing.any() else column.values


def _is_share(validation: str) -> bool:
    """Whether --validation is anything but the name of a column."""
    try:
        float(validation)
    except ValueError:
        return validation in ("auto", "last", "none")
    return True


def _estimator(a: argparse.Namespace, table: Table, learners: Any, bar: progress.Progress) -> Any:
    """The estimator that the target and the options call for, with its own defaults."""
    from cwboost.estimators.classifier import CWBClassifier
    from cwboost.estimators.regressor import CWBRegressor

    classes = _wants_classes(a, table, bar)
    options = {"offset": a.offset, "time_limit": a.time_limit, "n_jobs": a.threads}
    options |= {"learners": learners, "random_state": a.seed}
    shares = {"auto": "auto", "last": "last", "none": None}
    if _is_share(a.validation):
        options["validation"] = (
            shares[a.validation] if a.validation in shares else float(a.validation)
        )
    given = {"terms": a.terms, "bags": a.bags, "n_iter": a.iterations, "optimizer": a.optimizer}
    if a.interactions is not None:
        given["interactions"] = _interactions(a, table)
    options |= {name: value for name, value in given.items() if value is not None}
    if classes:
        estimator = CWBClassifier(**options)
    else:
        loss = "squared" if a.loss is None else a.loss
        estimator = CWBRegressor(loss, exposure=a.exposure, **options)
    if a.rate is not None:  # the optimizer that the estimator would take, but for its rate
        estimator.optimizer = estimator._optimizer(a.validation != "none").set_params(rate=a.rate)
    return estimator


def _wants_classes(a: argparse.Namespace, table: Table, bar: progress.Progress) -> bool:
    """Whether the target is fitted as classes; errors and a note where that is in doubt."""
    column = table[a.target]
    classes = a.loss.target == "classes" if a.loss is not None else _is_classes(column)
    if isinstance(column, Labels) and not classes:
        raise ValueError(
            f"target {a.target!r} is text such as {column.levels[0]!r}, and the {a.loss.name} loss "
            "needs numbers; leave out --loss, or use --loss binomial or multinomial"
        )
    values = column.codes if isinstance(column, Labels) else column.values
    found = np.unique(values[~column.missing])
    if classes and a.loss is not None and len(found) > a.loss.max_classes == 2:
        raise ValueError(
            f"target {a.target!r}: the {a.loss.name} loss needs two classes, got {len(found)}; use "
            "--loss multinomial, or another loss if the target is a number"
        )
    if a.loss is None and not classes and len(found) == 2:
        bar.say(
            "note",
            f"{a.target!r} has only the values {' and '.join(map(cell, found))} and is "
            "fitted as a number; for their probabilities use --loss binomial",
        )
    if classes and a.exposure is not None:
        raise ValueError("--exposure is for losses with a log link, such as --loss poisson")
    return classes


def _interactions(a: argparse.Namespace, table: Table) -> Any:
    """The estimator's `interactions`: "auto", a number, or pairs of columns."""
    if len(a.interactions) == 1 and (a.interactions[0] == "auto" or a.interactions[0].isdecimal()):
        return "auto" if a.interactions[0] == "auto" else int(a.interactions[0])
    pairs = []
    for text in a.interactions:
        parts = text.split(":")
        halves = [(":".join(parts[:k]), ":".join(parts[k:])) for k in range(1, len(parts))]
        known = [pair for pair in halves if all(name in table for name in pair)]
        if not halves:
            a.parser.error(
                f"--interactions: expected auto, a number or pairs such as age:job, got {text!r}"
            )
        for name in () if known else halves[0]:
            if name not in table:
                table[name]  # raises, and says what the table has
        pairs.append(known[0])
    return pairs


def _is_classes(column: Column) -> bool:
    return isinstance(column, Labels) or column.boolean


def _target(column: Column, name: str, estimator: Any) -> Any:
    """The target's values: numbers, or classes as the engine names them."""
    if column.missing.any():
        row, n = int(np.flatnonzero(column.missing)[0]), int(column.missing.sum())
        raise ValueError(
            f"target {name!r}, row {row}: the value is missing ({n} such rows); leave these rows "
            "out"
        )
    if isinstance(column, Labels) or hasattr(estimator, "class_weight"):
        return column.to_cells()
    return column.values


def _fitted(a: argparse.Namespace, model: Model, bar: progress.Progress, seconds: float) -> int:
    """Writes the model, says so, and returns the exit code."""
    stopped = model.stopped.endswith(StopReason.interrupted)
    if a.output is not None:
        with write_output(a.output) as temporary:
            model.save(temporary)
    bar.close()
    m, validation = model.best_iteration, model.validation_risk
    chosen = [name for name, term in model.terms.items() if term.chosen]
    facts = {
        "iterations": model.n_iter,
        "best_iteration": m,
        "stopped": model.stopped,
        "risk": float(model.risk[m]),
        "validation_risk": None if validation is None else float(validation[m]),
        "terms": len(chosen),
        "seconds": round(seconds, 3),
        "output": a.output,
    }
    where = "" if a.output is None else f"; the model so far is in {a.output}"
    where += "" if a.checkpoint is None else f"; the same command goes on from {a.checkpoint}"
    done = f"{model.n_iter} iterations" if model.bags is None else f"{len(model.bags)} bags"
    message = f"interrupted after {done}{where}"
    if a.output is None:
        print(_summary(model))
        message = message if stopped else f"fitted in {seconds:.1f} s; -o FILE stores the model"
    elif not stopped:
        message = f"{_summary(model)}\n\nfitted in {seconds:.1f} s, written to {a.output}"
    if stopped and not isinstance(bar, progress.ProgressLog):
        bar.say("error", message)
    else:
        bar.say("done", message, **facts)
    return INTERRUPTED if stopped else 0


def _summary(model: Model) -> str:
    """The summary under a line that says what is predicted, and from which columns otherwise."""
    settings = model.settings
    target = "the target" if settings.target is None else printable(settings.target)
    roles = {"weights": settings.weights, "offset": settings.offset, "exposure": settings.exposure}
    lines = [f"predicts {target}" + (f": {words(model.classes)}" if model.classes else "")]
    lines += [f"{role}: {printable(name)}" for role, name in roles.items() if name is not None]
    return "\n".join([*lines, *map(printable, model.summary().split("\n"))])


# --- cv -------------------------------------------------------------------------------------------


def run_cv(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost cv`."""
    _check_wanted(a)
    if a.plot is not None and Path(a.plot).suffix.lower() not in PICTURES:
        a.parser.error(f"--plot {a.plot}: expected a name that ends in {', '.join(PICTURES)}")
    if a.output is not None:
        check_output(a.output)
    folds = _folds(a)
    asked = _fit_request(a, bar, [] if a.groups is None else [a.groups])
    table, roles = asked.table, (a.target, a.weights, a.offset, a.exposure, a.groups)
    names = dict.fromkeys([*asked.features, *(name for name in roles if name is not None)])
    classes = _wants_classes(a, table, bar)
    found = cv(
        table.select(list(names)),
        a.target,
        (a.terms or "auto") if asked.learners is None else asked.learners,
        a.loss or _usual_loss(table[a.target], classes),
        _cv_optimizer(a),
        a.iterations,
        folds,
        a.groups,
        a.metric,
        weights=a.weights,
        offset=a.offset,
        exposure=a.exposure,
        extend=not a.no_extension,
        random_state=a.seed,
        n_threads=a.threads,
        progress=bar,
    )
    bar.close()
    if a.output is not None:
        write_table(a.output, found.table())
    if a.plot is not None:
        from cwboost.plotting.cv import save

        with write_output(a.plot) as temporary:
            save(found, temporary, form=Path(a.plot).suffix[1:].lower())
    if a.output != STANDARD:
        best = f"cb.fit(..., n_iter={found.best_iteration})"
        print(found.summary().replace(best, f"--iterations {found.best_iteration}"))
    return 0


def _folds(a: argparse.Namespace) -> Folds:
    try:
        return Folds(a.kind, a.folds, a.repeats, a.fraction)
    except ValueError as error:
        return a.parser.error(str(error).replace("Folds: n must", "--folds must"))  # type: ignore[no-any-return]


def _cv_optimizer(a: argparse.Namespace) -> Optimizer:
    made = as_optimizer(a.optimizer)
    return made if a.rate is None else made.set_params(rate=a.rate)


def _usual_loss(column: Column, classes: bool) -> Any:
    if not classes:
        return "squared"
    values = column.codes if isinstance(column, Labels) else column.values
    return loss_for_classes(len(np.unique(values[~column.missing])))


# --- tune -----------------------------------------------------------------------------------------


def run_tune(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost tune`."""
    _check_wanted(a)
    if a.plot is not None and Path(a.plot).suffix.lower() not in PICTURES:
        a.parser.error(f"--plot {a.plot}: expected a name that ends in {', '.join(PICTURES)}")
    for file, is_table in ((a.output, False), (a.plot, False), (a.trials, True)):
        if file is not None:
            check_output(file, table=is_table)
    stopped = False
    try:
        found = _tuned(a, bar)
    except TuningInterrupted as stop:
        stopped, found = True, stop.tuning
        again = "" if a.file is None else f"; the same command goes on from {a.file}"
        bar.say("error", f"interrupted after {len(found.trials)} trials{again}")
    if a.trials is not None and found.trials:
        write_table(a.trials, found.table())
    if a.plot is not None and found.trials:
        from cwboost.plotting.tuning import save

        with write_output(a.plot) as temporary:
            save(found, temporary, form=Path(a.plot).suffix[1:].lower())
    if a.output is not None and not stopped:
        model = found.fit(progress=bar)
        with write_output(a.output) as temporary:
            model.save(temporary)
    bar.close()
    if found.trials:
        print(found.summary())
    return INTERRUPTED if stopped else 0


def _tuned(a: argparse.Namespace, bar: progress.Progress) -> Tuning:
    try:
        schedule = Hyperband(a.least, a.most, a.factor)
    except ValueError as error:
        a.parser.error(str(error).replace("Hyperband: ", "--"))
    asked = _fit_request(a, bar, [] if a.groups is None else [a.groups])
    table, roles = asked.table, (a.target, a.weights, a.offset, a.exposure, a.groups)
    names = dict.fromkeys([*asked.features, *(name for name in roles if name is not None)])
    return tune(
        table.select(list(names)),
        a.target,
        learners=(a.terms or "auto") if asked.learners is None else asked.learners,
        loss=a.loss or _usual_loss(table[a.target], _wants_classes(a, table, bar)),
        folds=a.folds,
        metric=a.metric,
        schedule=schedule,
        random_state=a.seed,
        n_threads=a.threads,
        file=a.file,
        weights=a.weights,
        offset=a.offset,
        exposure=a.exposure,
        groups=a.groups,
        progress=bar,
    )


# --- commands on a model --------------------------------------------------------------------------


def _model(file: str) -> Model:
    if file != STANDARD:
        return load(file)
    with tempfile.TemporaryDirectory(prefix="cwboost") as folder:
        copy = Path(folder) / "standard input"
        copy.write_bytes(standard_input())
        try:
            return load(copy)
        except ValueError as error:
            raise ValueError(str(error).replace(str(copy), "standard input")) from None


def _model_and_rows(a: argparse.Namespace) -> tuple[Model, FileTable, dict[str, Any]]:
    """Model, rows, and where offset and exposure are, if that was said."""
    if a.model == a.table == STANDARD:
        a.parser.error("MODEL and TABLE cannot both be standard input")
    model = _model(a.model)
    fixed = {"offset": a.offset, "exposure": a.exposure}
    return model, read_table(a.table, _kinds(model, fixed)), fixed


def _kinds(model: Model, fixed: Mapping[str, str | None]) -> dict[str, Kind]:
    """What the model knows of its columns."""
    out: dict[str, Kind] = {
        name: "text" if facts.kind == "labels" else "numbers"
        for name, facts in model.columns.items()
    }
    for name in (*fixed.values(), model.settings.offset, model.settings.exposure):
        if name is not None:
            out[name] = "numbers"
    return out


def run_predict(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost predict`."""
    if is_folder(a.table) and not is_table_file(a.output):
        return _predict_folder(a, bar)
    check_output(a.output)
    model, rows, fixed = _model_and_rows(a)
    for name in a.keep:
        if name not in rows.table:
            rows.table[name]  # raises, and says what the table has
    out: dict[str, Any] = {name: rows.cells(name) for name in a.keep}
    for name, values in predictions(model, rows.table, a.kind, fixed).items():
        _check_kept(name, out)
        out[name] = values
    write_table(a.output, out)
    return 0


def _check_kept(name: str, kept: Container[str]) -> None:
    if name in kept:
        raise ValueError(
            f"--keep {name!r}: the predictions have a column of this name; rename that of the table"
        )


def _predict_folder(a: argparse.Namespace, bar: progress.Progress) -> int:
    """Predicts a folder of Parquet files, batch by batch, into another one."""
    model = _model(a.model)
    fixed = {"offset": a.offset, "exposure": a.exposure}
    by_name = [*fixed.values(), model.settings.offset, model.settings.exposure]
    chosen = [name for term in model.terms.values() if term.chosen for name in term.columns]
    needed = dict.fromkeys([*a.keep, *chosen, *(name for name in by_name if name is not None)])
    unseen: Counter[str] = Counter()

    def made(table: Table) -> dict[str, Any]:
        found, lacking = model._predicted(read(table), a.kind, **fixed)
        unseen.update(lacking)
        out = named_predictions(model, found, a.kind)
        for name in out:
            _check_kept(name, a.keep)
        return out

    rewrite(ParquetFiles(a.table, list(needed)), a.keep, a.output, made, bar)
    if unseen:
        warn_of_unseen(unseen)
    return 0


def predictions(
    model: Model, table: Table, kind: Any = "response", fixed: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Predictions as named columns: of classes the most probable one, and all probabilities.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.frames.table import read
    >>> rows = read({"g": ["a", "b"] * 9})
    >>> model = cb.fit(rows, ["no", "yes"] * 9, loss="binomial")
    >>> list(predictions(model, rows))
    ['prediction', 'probability[no]', 'probability[yes]']
    """
    return named_predictions(model, model.predict(table, kind, **(fixed or {})), kind)


def named_predictions(model: Model, found: Floats, kind: str) -> dict[str, Any]:
    """What `model.predict` gives, as named columns."""
    if kind == "score":
        if found.ndim == 1:
            return {"score": found}
        return {f"score[{c}]": s for c, s in zip(model.classes, found.T, strict=True)}
    if not model.classes:
        return {"prediction": found}
    shares = found if found.ndim == 2 else np.column_stack([1.0 - found, found])
    classes = np.array(model.classes, dtype=object)
    best = shares.argmax(axis=1) if found.ndim == 2 else (found > 0.5).astype(np.intp)
    out = {"prediction": classes[best]}
    return out | {f"probability[{c}]": p for c, p in zip(classes, shares.T, strict=True)}


def run_explain(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost explain`."""
    del bar
    if a.output is not None:
        check_output(a.output)
    model, rows, fixed = _model_and_rows(a)
    found = explain(model, rows.table, a.row, **fixed)
    if a.output is not None:
        write_table(a.output, found)
        return 0
    shown: dict[str, Any] = dict(found)
    if model.n_outputs == 1:
        shown |= {"": _bars(found)}
    print(f"row {a.row} of {a.table}\n")
    print("\n".join(table_lines(shown)))
    one = rows.table.take(np.arange(rows.table.n_rows) == a.row)
    print()
    for name, values in predictions(model, one, "response", fixed).items():
        print(f"{printable(name)}: {cell(values[0])}")
    return 0


def _bars(found: Mapping[str, Any]) -> list[str]:
    """A bar of plus or minus signs for every column's effect."""
    real = [not str(name).startswith("(") for name in found["column"]]
    sizes = np.where(real, found["effect"], 0.0)
    top = float(np.abs(sizes).max(initial=0.0)) or 1.0
    return [("+" if s > 0 else "-") * round(BAR * abs(s) / top) for s in sizes.tolist()]


def run_show(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost show`."""
    del bar
    if a.output is not None and a.term is None:
        a.parser.error("-o is for the effect of a --term")
    if a.output is not None:
        check_output(a.output)
    model = _model(a.model)
    if a.term is not None:
        if a.output is not None:
            write_table(a.output, model.effect(a.term))
        else:
            print("\n".join(table_lines(effect_table(model, a.term, a.points))))
        return 0
    print(_summary(model))
    curves = curve_lines(model)
    if curves:
        print("\nthe curves, from the least to the largest value (effect on the score):")
        print("\n".join(curves))
    return 0


def run_plot(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost plot`."""
    del bar
    ending = PICTURES[0] if a.output == STANDARD else Path(a.output).suffix.lower()
    if ending not in PICTURES:
        a.parser.error(f"-o {a.output}: expected a name that ends in {', '.join(PICTURES)}")
    kind = a.kind or "effects"
    if a.term is not None and kind != "effects":
        a.parser.error(f"--kind {kind} is of the whole model; leave out {a.term!r}")
    if a.scale is not None and kind != "effects":
        a.parser.error("--scale is for effects")
    if (kind == "explanation") != (a.table is not None):
        a.parser.error("--kind explanation and --table go together")
    fixed = {"row": a.row, "offset": a.offset, "exposure": a.exposure}
    options = {name: value for name, value in fixed.items() if value is not None}
    if options and kind != "explanation":
        a.parser.error(f"--{next(iter(options))} is for --kind explanation")
    check_output(a.output, table=False)
    if kind == "explanation":
        model, rows, _ = _model_and_rows(a)
        options["table"] = rows.table
    else:
        model = _model(a.model)
        options |= {} if a.scale is None else {"scale": a.scale}
    from cwboost.plotting.plot import save

    with write_output(a.output) as temporary:
        save(model, temporary, a.term, kind, form=ending[1:], dpi=a.dpi, **options)
    return 0


def run_export(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost export`."""
    del bar
    path = Path(a.to)
    folder = a.to.endswith(("/", os.sep)) or path.is_dir() or (not path.suffix and a.to != STANDARD)
    ending = "" if folder else ".sql" if a.to == STANDARD else path.suffix.lower()
    if ending not in ("", ".sql", ".onnx", ".xlsx", ".json"):
        a.parser.error(f"--to {a.to}: expected .sql, .onnx, .xlsx, .json or a folder")
    for option, endings in {
        "dialect": (".sql",),
        "table": (".sql",),
        "keep": (".sql",),
        "kind": (".sql", ".onnx"),
        "offset": (".sql", ".onnx"),
        "exposure": (".sql", ".onnx"),
    }.items():
        if getattr(a, option) is not None and ending not in endings:
            a.parser.error(f"--{option} is for {' and '.join(endings)} only")
    if not folder:
        check_output(a.to, table=False)
    model = _model(a.model)
    given = {"dialect": a.dialect, "table": a.table, "keep": a.keep, "kind": a.kind,
             "offset": a.offset, "exposure": a.exposure}  # fmt: skip
    given = {name: value for name, value in given.items() if value is not None}
    if folder:
        model.to_csv(a.to)
        return 0
    with write_output(a.to) as temporary:
        if ending == ".sql":
            query = model.to_sql(**given)
            temporary.write_text(query.rstrip() + "\n", encoding="utf-8", newline="\n")
        elif ending == ".onnx":
            temporary.write_bytes(model.to_onnx(**given).SerializeToString())
        elif ending == ".xlsx":
            model.to_excel(temporary)
        else:
            model.save(temporary)
    return 0


def run_report(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost report`."""
    given = {name: getattr(a, name) for name in ("weights", "offset", "exposure")}
    lone = [name for name, value in (given | {"target": a.target}).items() if value is not None]
    if a.table is None and (lone or a.rows):
        a.parser.error(f"--{lone[0] if lone else 'rows'} is for the rows of a TABLE")
    check_output(a.output, table=False)
    if a.table is None:
        model, table = _model(a.model), None
    else:
        model, rows, _ = _model_and_rows(a)
        table = rows.table
    with write_output(a.output) as temporary:
        model.report(temporary, table, a.target, rows=a.rows, title=a.title, **given)
    bar.say("done", f"written to {a.output}", output=a.output)
    return 0


def run_demo(a: argparse.Namespace, bar: progress.Progress) -> int:
    """`cwboost demo`."""
    from .demo import demo

    del bar
    return demo(a.output, a.iterations)


COMMANDS = {
    "fit": run_fit,
    "cv": run_cv,
    "tune": run_tune,
    "predict": run_predict,
    "explain": run_explain,
    "show": run_show,
    "plot": run_plot,
    "report": run_report,
    "export": run_export,
    "demo": run_demo,
}


if __name__ == "__main__":
    sys.exit(main())
