"""Sets, intervals and thresholds with a guarantee, of plain arrays and any model.

The examples that something is fitted to must not be those of the training. Then the guarantees hold for inputs that are
like these examples, whatever the model.
"""
from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from . import _metrics
from ._arrays import as_array, labels, numbers


class ClassSets:
    """Sets of classes that hold the true one as often as `level` says.

    `score` is `lac` (the smallest sets), `aps` (they grow with the difficulty) or `raps` (the same without the long tail;
    `penalty` for each class after the first `free`). With `by_class` the level is kept for each class.

    >>> p = np.array([[i / 10, 1 - i / 10] for i in range(1, 10)])
    >>> sets = ClassSets(p, np.zeros(9, dtype=int), level=0.8)
    >>> sets.predict([[0.85, 0.15], [0.6, 0.4]]).tolist()
    [[True, False], [True, True]]
    """

    def __init__(
        self,
        probabilities: Any,
        y: Any,
        level: float = 0.9,
        *,
        score: str = "lac",
        penalty: float = 0.1,
        free: int = 1,
        by_class: bool = False,
        seed: int = 0,
    ) -> None:
        p, y = numbers(probabilities, "probabilities", 2), labels(y)
        u = np.random.default_rng(seed).random(len(y))
        self._sets = _metrics.Sets(p, y, u, (level, by_class), (score, penalty, free))
        self.level = level

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """One, or one for each class; infinite where there are too few examples for the level."""
        return np.array(self._sets.thresholds)

    def predict(self, probabilities: Any) -> NDArray[np.bool_]:
        """Which classes are in the sets, `[N, classes]`."""
        return self._sets.sets(numbers(probabilities, "probabilities", 2))

    def __repr__(self) -> str:
        return f"ClassSets(level={self.level}, thresholds={self.thresholds.round(4).tolist()})"


class Intervals:
    """Intervals that hold the true number as often as `level` says.

    `score` is `normalised` (means and deviations: `mean ± q sd`) or `quantiles` (lower and upper quantiles, moved by q).

    >>> intervals = Intervals(np.zeros(9), np.ones(9), np.arange(1.0, 10.0), level=0.8)
    >>> intervals.predict([100.0], [0.5]).tolist()
    [[96.0, 104.0]]
    """

    def __init__(self, first: Any, second: Any, y: Any, level: float = 0.9, *, score: str = "normalised") -> None:
        given = numbers(first, "first", 1), numbers(second, "second", 1), numbers(y, "y", 1)
        self.threshold: float = _metrics.interval_threshold(score, *given, level)
        self.score, self.level = score, level

    def predict(self, first: Any, second: Any) -> NDArray[np.float64]:
        """Lower and upper ends, `[N, 2]`."""
        a, b = numbers(first, "first", 1), numbers(second, "second", 1)
        if a.shape != b.shape:
            raise ValueError(f"first and second have {len(a)} and {len(b)} entries; give one of each for every prediction")
        if self.score == "normalised":
            if not (b > 0).all():
                raise ValueError("a deviation is not above 0")
            return np.column_stack([a - self.threshold * b, a + self.threshold * b])
        return np.column_stack([a - self.threshold, b + self.threshold])

    def __repr__(self) -> str:
        return f"Intervals(level={self.level}, score={self.score!r}, threshold={self.threshold:.4g})"


def p_values(reference: Any, scores: Any) -> NDArray[np.float64]:
    """Share of in-distribution examples (`reference`) that look at least as strange: small p-values are out of distribution.

    >>> p_values([0.1, 0.2, 0.3], [0.25, 9.0]).tolist()
    [0.5, 0.25]
    """
    return _metrics.p_values(numbers(reference, "reference", 1), numbers(scores, "scores", 1))


class RiskRule(NamedTuple):
    """Answer where the uncertainty is below `threshold`."""

    threshold: float
    """Infinite: always."""
    answered: float
    """Share of the examples that are answered."""
    seen: float
    """Share of errors among them."""
    bound: float
    """Upper bound of that share, at most the risk."""


def bound_risk(uncertainty: Any, wrong: Any, risk: float = 0.05, confidence: float = 0.95) -> Optional[RiskRule]:
    """The threshold that answers most, and of its answers at most `risk` are wrong; none where no threshold will do.

    >>> rule = bound_risk(np.arange(1000.0), np.arange(1000) >= 800)
    >>> rule.answered > 0.75, rule.bound <= 0.05
    (True, True)
    """
    flags = as_array(wrong)
    if flags.ndim != 1 or flags.dtype.kind != "b":
        raise ValueError("wrong must be one True or False for each example")
    found = _metrics.bound_risk(numbers(uncertainty, "uncertainty", 1), flags.tolist(), risk, confidence)
    return None if found is None else RiskRule(*found)


def smallest_count(level: float) -> int:
    """The fewest examples with which a level can be guaranteed.

    >>> smallest_count(0.9)
    9
    """
    return _metrics.fewest(level)


class CoverageLaw(NamedTuple):
    """How the coverage of all inputs to come is spread over choices of the examples."""

    mean: float
    sd: float


def coverage_law(examples: int, level: float) -> CoverageLaw:
    """What is left to chance with so many examples.

    >>> coverage_law(99, 0.9).mean
    0.9
    """
    return CoverageLaw(*_metrics.coverage(examples, level))
