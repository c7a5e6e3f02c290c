"""Fits of a model to folds with some of its terms: what held-out rows say about leaving terms out.

The rows are binned once, and the fits of a fold share their systems. Does not know what is left
out, and why (see drop_importance.py and deselect.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cwboost._utils.cores import threads_for
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.polish.polish import polish_like
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import bin_again
from cwboost.frames.columns import Floats
from cwboost.losses import risk
from cwboost.model.model import Model
from cwboost.model.path_checks import check_not_edited
from cwboost.progress import Progress

from .folds import Fold, as_folds, fold_validation_rows

N_FOLDS = 5  # by default
VALIDATION = 0.2  # default share of a fold's training rows that end its fits
LONGER = 2  # a fit that early stopping ends may run this multiple of the model's iterations


@dataclass(frozen=True, eq=False)
class FoldRefits:
    """Fits of a model, with its own settings, to the training rows of several folds.

    They are polished if the model is, with the same weight. An average of bags is represented by
    single fits.
    """

    model: Model
    binned: PreparedRows
    folds: Sequence[Fold]
    seed: int

    @classmethod
    def of(
        cls,
        model: Model,
        fit_input: FitInput,
        method: str,
        folds: Any,
        seed: int,
        n_threads: int | None = None,
    ) -> FoldRefits:
        """Bin the rows for the terms of the model and draw the folds."""
        check_not_edited(model, method)
        binned = replace(bin_again(model, fit_input, method, n_threads), n_threads=1)
        found = as_folds(N_FOLDS if folds is None else folds, binned.data, seed=seed)
        return cls(model, binned, found, seed)

    def risks(
        self, choices: Sequence[Sequence[str]], n_threads: int | None, bar: Progress
    ) -> Floats:
        """Return (choices, folds) the risk of the test rows, fitted with some of the terms each."""

        def job(number: int, halt: Halt) -> list[float]:
            fits = self._fits_of_fold(number, choices, halt)
            return [self._test_risk(number, problem.scores(model)) for problem, model in fits]

        return self._by_fold(job, n_threads, bar)

    def risks_without(
        self, groups: Sequence[Sequence[str]], n_threads: int | None, bar: Progress
    ) -> Floats:
        """Return (1 + groups, folds) the risk of the test rows: of the fit with all terms, and with
        the effects of some terms left out of its scores, without another fit.
        """

        def job(number: int, halt: Halt) -> list[float]:
            [(problem, model)] = self._fits_of_fold(number, [list(self.model.terms)], halt)
            scores = problem.scores(model)
            less = (scores - problem.effect(model, names) for names in groups)
            return [self._test_risk(number, left) for left in (scores, *less)]

        return self._by_fold(job, n_threads, bar)

    def _by_fold(
        self, job: Callable[[int, Halt], list[float]], n_threads: int | None, bar: Progress
    ) -> Floats:
        jobs = [partial(job, number) for number in range(len(self.folds))]
        return np.array(run_all(jobs, threads_for(n_threads), bar, "fold")).T

    def _fits_of_fold(
        self, number: int, choices: Sequence[Sequence[str]], halt: Halt
    ) -> Iterator[tuple[FitProblem[PreparedRows], Model]]:
        """Yield the fits to the training rows of a fold, with some of the terms each."""
        model, data, fold = self.model, self.binned.data, self.folds[number]
        n_iter, held = model.best_iteration, None
        if model.bags is not None:
            n_iter = max(model.bags.n_iter)
        if model.settings.validation != "none":
            share = model.settings.fraction or VALIDATION
            held = fold_validation_rows(fold, data, share, seed=self.seed + number)
            n_iter = LONGER * (n_iter if model.bags is not None else model.n_iter)
        split = fold.split(data.weights, held)
        if held is None:  # the test rows must not decide which iterate is returned
            split = replace(split, validation=None)
        full = FitProblem.pose(self.binned, split, model.optimizer, scale=model.scale)
        for names in choices:
            problem = full.with_terms(names)
            stopping = None if held is None else EarlyStopping.again(model)
            fitted = problem.fit(n_iter, stopping=stopping, halt=halt)
            yield problem, polish_like(problem, fitted, model)

    def _test_risk(self, number: int, scores: Floats) -> float:
        """Return the risk of the test rows of a fold at (q, n) scores."""
        data, counts = self.binned.data, self.folds[number].test_counts
        test = counts > 0
        weights = (data.weights * counts)[test]
        return risk(data.loss, np.ascontiguousarray(data.y[test]), scores.T[test], weights)
