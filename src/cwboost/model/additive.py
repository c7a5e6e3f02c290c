"""A fitted sum of terms: its fields, the path of its boosted fit, and its predictions.

Does not know what else can be done with a model (see model.py, whose class the fits return).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from cwboost._utils.checks import is_whole
from cwboost._utils.cores import check_threads
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.frames.read_frames import read
from cwboost.losses import Loss
from cwboost.optimizers import Optimizer

from .path import Path
from .path_checks import check_not_averaged, check_not_edited
from .records import Bags, Bands, ColumnFacts, Edit, Polish, Ranking, Sizes
from .scoring import predict_rows, warn_of, write_effects
from .settings import Settings
from .term import Term, averaged, with_coefficients, with_means

if TYPE_CHECKING:
    from .prediction import Predictor


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """A sum of terms: score = intercept + offset + effects of the columns.

    The docstring of `Model` describes the attributes.
    """

    loss: Loss
    optimizer: Optimizer
    terms: Mapping[str, Term]
    columns: Mapping[str, ColumnFacts]
    classes: tuple[Any, ...]
    start_vector: Floats = field(repr=False)  # (q,)
    scale: float
    path: Path = field(repr=False)
    best_iteration: int
    settings: Settings = field(repr=False)
    shares: Floats | None = field(default=None, repr=False)  # (terms,) importance of kind "risk"
    sizes: Sizes | None = field(default=None, repr=False)  # importance of kind "size"
    edits: tuple[Edit, ...] = ()
    dropped: tuple[str, ...] = ()
    bags: Bags | None = None
    bands: Bands | None = None
    interactions: Ranking | None = field(default=None, repr=False)
    polish: Polish | None = field(default=None, repr=False)
    suggestion: str | None = field(default=None, repr=False)

    # --- the path ---------------------------------------------------------------------------------

    @property
    def n_outputs(self) -> int:
        return len(self.start_vector)

    @property
    def n_iter(self) -> int:
        return self.path.n_iter

    @property
    def start(self) -> Any:
        """The constant score from which the fit started: a number, or (q,).

        In an edited model it includes the means of the edited terms. In a polished model it is the
        constant to which the effects, not centred, are added; `boosted.start` is the former start.
        """
        return _plain(self.start_vector)

    @property
    def intercept(self) -> Any:
        """Start plus the means of the effects: a number, or (q,)."""
        return _plain(self.intercept_vector.copy())

    @property
    def polished(self) -> bool:
        """Whether the terms were refitted after boosting; the start is then not a best constant."""
        return self.polish is not None and self.polish.weight > 0.0

    @cached_property
    def intercept_vector(self) -> Floats:  # (q,)
        return self.start_vector + sum((t.mean for t in self.terms.values()), np.zeros(1))

    @property
    def choices(self) -> list[str]:
        """Name of the term chosen in each iteration."""
        names = list(self.terms)
        return [names[k] for k in self.path.choices]

    @property
    def corrections(self) -> list[str | None]:
        """Name of the term of the momentum correction in each iteration, None if there was none."""
        names = list(self.terms)
        if not np.any(self.path.corrections >= 0):
            return []
        return [names[k] if k >= 0 else None for k in self.path.corrections]

    @property
    def risk(self) -> Floats:
        """Mean loss of the training rows after 0..n_iter iterations."""
        return self.path.risk

    @property
    def validation_risk(self) -> Floats | None:
        """Mean loss of the validation rows after 0..n_iter iterations."""
        return None if self.settings.validation == "none" else self.path.validation_risk

    @property
    def validation_metrics(self) -> dict[str, Floats]:
        """Metrics of the validation rows after 0..n_iter iterations, by name.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 6, 100)
        >>> model = cb.fit({"x": x}, np.sin(x), validation=0.2, metric=["r2", "mae"], n_iter=20)
        >>> list(model.validation_metrics), model.validation_metrics["r2"].shape
        (['r2', 'mae'], (21,))
        """
        path, known = self.path, self.settings.metrics
        if not path.n_metrics:  # such as the path of an average
            return {}
        return {
            m.name: m.optimum - path.metric(k) if m.greater_is_better else path.metric(k)
            for k, m in enumerate(known)
        }

    @property
    def stopped(self) -> str:
        """Why the fit ended."""
        return self.path.stopped

    @property
    def boosted(self) -> Self:
        """The model before polish: the best iterate of the boosted fit, or the average of bags."""
        if self.polish is None:
            return self
        return self._at(self.best_iteration, self.path)

    def _at(self, m: int, path: Path) -> Self:
        """Return the boosted model after m iterations of a path."""
        boosted = self
        if self.polish is not None:
            boosted = replace(
                self,
                terms=with_means(self.terms, self.polish.boosted_means),
                start_vector=self.polish.boosted_start,
                polish=None,
            )
        same = m == self.best_iteration and not (self.polish and self.polish.on_all_rows)
        return replace(
            boosted,
            terms=with_coefficients(boosted, path, m) if self.bags is None else averaged(boosted),
            path=path,
            best_iteration=m,
            shares=self.shares if same else None,
            sizes=self.sizes if same else None,
            bands=self.bands if same else None,
        )

    def at(self, m: int) -> Self:
        """Return the boosted model after m iterations.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 1, 50)
        >>> model = cb.fit({"x": x}, x**2, n_iter=20)
        >>> len(model.at(5).choices), bool(model.at(5).risk[-1] == model.risk[5])
        (5, True)
        """
        if not is_whole(m):
            raise TypeError(f"at: expected a whole number, got {quote(m)}")
        check_not_averaged(self, "at")
        if not 0 <= m <= self.n_iter:
            raise ValueError(f"at: the path has iterations 0 to {self.n_iter}, got {m}")
        check_not_edited(self, "at")
        sizes = [len(term.beta) for term in self.terms.values()]
        return self._at(int(m), self.path.until(int(m), sizes, self.n_outputs))

    # --- prediction -------------------------------------------------------------------------------

    def predict(
        self,
        table: Any,
        kind: Literal["response", "score"] = "response",
        *,
        offset: Any = None,
        exposure: Any = None,
        n_threads: int | None = None,
    ) -> Floats:
        """Return predictions in the units of y (probabilities for classes), or scores.

        Parameters
        ----------
        table : data frame, array or mapping with the columns of the chosen terms
        kind : "response" or "score"
        offset, exposure : array, number or name of a column, optional
            Required if the fit had them as arrays; pass offset=0 for rows without an offset.
        n_threads : int, optional
            By default all cores for 20,000 rows or more. The result does not depend on it.

        Returns
        -------
        (n,) array; (n, q) for the multinomial loss.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 1, 50)
        >>> cb.fit({"x": x}, 3 * x, n_iter=200).predict({"x": [0.5]}).round(3)
        array([1.5])
        """
        self.loss.check_kind(kind)
        check_threads(n_threads)
        values, found = predict_rows(self, read(table), kind, offset, exposure, n_threads)
        warn_of(found)
        return values

    def contributions(self, table: Any, *, n_threads: int | None = None) -> dict[str, Floats]:
        """Return the centred effect of each chosen term for every row.

        Their sum plus intercept and offset is the score.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> x = np.linspace(0, 1, 50)
        >>> model = cb.fit({"x": x}, 3 * x, n_iter=200)
        >>> float((model.intercept + model.contributions({"x": [0.5]})["x"]).round(3)[0])
        1.5
        """
        from cwboost.frames.result_table import ResultTable

        data = read(table)
        effects = np.empty((len(self.predictor.terms), data.n_rows, self.n_outputs))
        write_effects(self, data, effects, n_threads)
        if self.n_outputs == 1:
            effects = effects[:, :, 0]
        return ResultTable(zip(self.predictor.terms, effects, strict=True))

    @cached_property
    def predictor(self) -> Predictor:  # the terms, compiled once for all predictions
        from .prediction import Predictor

        return Predictor(self.terms, self.columns)


def _plain(vector: Floats) -> Any:
    return float(vector[0]) if len(vector) == 1 else vector
