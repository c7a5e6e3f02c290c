"""Checks that a method applies to a model: averages of bags have no path, and edits leave it.

The methods of a model use them, and so do the packages that work with its path or its fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .additive import AdditiveModel


def check_has_path(model: AdditiveModel, method: str) -> None:
    """Raise unless the path of the fit leads to the model: no average of bags, no edits."""
    check_not_averaged(model, method)
    check_not_edited(model, method)


def check_not_averaged(model: AdditiveModel, method: str) -> None:
    """Raise if the model is an average of bags."""
    if model.bags is not None:
        raise ValueError(
            f"{method}: the model is the average of {len(model.bags)} bags, which has no path; "
            "fit without bags="
        )


def check_not_edited(model: AdditiveModel, method: str) -> None:
    """Raise if the model was edited after its fit."""
    if model.edits:
        raise ValueError(
            f"{method}: the model was edited after its fit, so its path does not lead to it; "
            "use cwboost.model.edits.unedited(model) and repeat the edits on the result"
        )
