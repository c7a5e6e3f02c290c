"""Fits of a model to folds with some of its terms: what held-out rows say about leaving terms out.

The rows are binned once, and the fits of a fold share their systems. Does not know what is left
out, and why (see drop_importance.py and deselect.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cwboost._utils.checks import threads_for
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.parallel_fits import Halt, run_all
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

    An average of bags is represented by single fits.
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
        jobs: list[Callable[[Halt], list[float]]] = [
            partial(self._risks_of_fold, number, choices) for number in range(len(self.folds))
        ]
        return np.array(run_all(jobs, threads_for(n_threads), bar, "fold")).T

    def _risks_of_fold(
        self, number: int, choices: Sequence[Sequence[str]], halt: Halt
    ) -> list[float]:
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
        out = []
        for names in choices:
            problem = full.with_terms(names)
            found = problem.fit(n_iter, patience=model.settings.patience, halt=halt)
            out.append(self._test_risk(problem, found, fold))
        return out

    def _test_risk(self, problem: FitProblem[PreparedRows], found: Model, fold: Fold) -> float:
        data, test = self.binned.data, fold.test_counts > 0
        scores = problem.scores(found).T[test]
        weights = (data.weights * fold.test_counts)[test]
        return risk(data.loss, np.ascontiguousarray(data.y[test]), scores, weights)
