"""Reports a fit and its iterations to scikit-learn's callbacks (scikit-learn 1.9 and later)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cwboost._utils.checks import is_whole

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ModuleNotFoundError:  # before scikit-learn 1.9

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands for scikit-learn's class."""

    def with_callbacks(method: Any) -> Any:
        """Return the method itself."""
        return method


class SklearnCallbacks:
    """Reports a fit and its iterations to the estimator's callbacks, if it has any."""

    callback: Callable[[], bool] | None = None  # called after every iteration; True stops the fit

    def __init__(self, estimator: Any, n_iter: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self.estimator = estimator
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        self.rows = {"X": X, "y": y, "metadata": weights}
        self.context: Any = None
        if hasattr(estimator, "_init_callback_context"):
            known = is_whole(n_iter) and n_iter > 0
            self.context = estimator._init_callback_context(max_subtasks=n_iter if known else None)
            self.context.call_on_fit_task_begin(estimator=estimator, **self.rows)
            if getattr(estimator, "_skl_callbacks", None):
                self.callback = self.iteration

    def iteration(self) -> bool:
        """Report one iteration. Callbacks do not get a model before the end."""
        task = self.context.subcontext(task_name="iteration")
        task.call_on_fit_task_begin(estimator=self.estimator, **self.rows)
        return bool(task.call_on_fit_task_end(estimator=self.estimator, **self.rows))

    def end(self) -> None:
        """Report that the estimator is fitted."""
        if self.context is not None:
            self.context.call_on_fit_task_end(
                estimator=self.estimator, reconstruction_attributes={}, **self.rows
            )
