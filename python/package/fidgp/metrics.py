"""Scores of predictions and of their uncertainty, of plain arrays.

Probabilities are `[N, classes]`, labels are indices. Entropies and likelihoods are in nats. Scores for out-of-distribution
detection are high where an input is out of distribution.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import _metrics
from ._arrays import labels, numbers


def accuracy(probabilities: Any, y: Any) -> float:
    """Share of rows whose most probable class is the true one.

    >>> accuracy([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]], [0, 1, 1])
    0.6666666666666666
    """
    return _of_classes("accuracy", probabilities, y)


def nll(probabilities: Any, y: Any) -> float:
    """Mean negative log probability of the true class.

    >>> round(nll([[0.7, 0.3], [0.4, 0.6]], [0, 0]), 4)
    0.6365
    """
    return _of_classes("nll", probabilities, y)


def brier(probabilities: Any, y: Any) -> float:
    """Brier score, the mean over rows of the squared distance to the true class.

    >>> round(brier([[0.7, 0.3], [0.4, 0.6]], [0, 0]), 4)
    0.45
    """
    return _of_classes("brier", probabilities, y)


def ece(probabilities: Any, y: Any, bins: int = 15, adaptive: bool = False) -> float:
    """Expected calibration error of the most probable class, in bins of equal width, or of equal mass if `adaptive`.

    >>> round(ece([[1.0, 0.0], [0.7, 0.3]], [0, 1], bins=10), 4)
    0.35
    """
    return _of_classes("adaptive_ece" if adaptive else "ece", probabilities, y, bins)


def _of_classes(name: str, probabilities: Any, y: Any, bins: int = 15) -> float:
    return _metrics.of_classes(name, numbers(probabilities, "probabilities", 2), labels(y), bins)


class EntropySplit(NamedTuple):
    """Entropies in nats, one for each row: total = aleatoric + epistemic."""

    total: NDArray[np.float64]
    aleatoric: NDArray[np.float64]
    epistemic: NDArray[np.float64]


def entropy_split(draws: Any) -> EntropySplit:
    """Splits the uncertainty of K draws of probabilities, `[K, N, classes]`.

    >>> split = entropy_split([[[1.0, 0.0]], [[0.0, 1.0]]])  # two draws, both sure, at odds
    >>> split.aleatoric.tolist(), split.epistemic.round(4).tolist()
    ([0.0], [0.6931])
    """
    return EntropySplit(*_metrics.entropies(numbers(draws, "draws", 3)))


def rmse(mean: Any, y: Any) -> float:
    """Root of the mean squared error.

    >>> rmse([1.0, 2.0], [1.0, 4.0]) == 2 ** 0.5
    True
    """
    return _metrics.of_numbers("rmse", numbers(mean, "mean", 1), numbers(y, "y", 1))


def mae(mean: Any, y: Any) -> float:
    """Mean absolute error.

    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    return _metrics.of_numbers("mae", numbers(mean, "mean", 1), numbers(y, "y", 1))


def gaussian_nll(mean: Any, sd: Any, y: Any) -> float:
    """Mean negative log density of Gaussian forecasts.

    >>> round(gaussian_nll([0.0], [1.0], [0.0]), 4)
    0.9189
    """
    return _of_gaussians("nll", mean, sd, y)


def crps(mean: Any, sd: Any, y: Any) -> float:
    """Continuous ranked probability score of Gaussian forecasts, in the unit of the target.

    >>> round(crps([0.0], [1.0], [0.0]), 4)
    0.2337
    """
    return _of_gaussians("crps", mean, sd, y)


def coverage(mean: Any, sd: Any, y: Any, level: float = 0.95) -> float:
    """Share of targets inside the central interval of Gaussian forecasts.

    >>> coverage([0.0, 0.0], [1.0, 1.0], [0.5, 3.0], level=0.95)
    0.5
    """
    return _of_gaussians("coverage", mean, sd, y, level)


def interval_width(mean: Any, sd: Any, y: Any, level: float = 0.95) -> float:
    """Mean width of that interval.

    >>> round(interval_width([0.0], [1.0], [0.5], level=0.95), 4)
    3.9199
    """
    return _of_gaussians("width", mean, sd, y, level)


def _of_gaussians(name: str, mean: Any, sd: Any, y: Any, level: float = 0.95) -> float:
    return _metrics.of_gaussians(name, numbers(mean, "mean", 1), numbers(sd, "sd", 1), numbers(y, "y", 1), level)


def auroc(inside: Any, outside: Any) -> float:
    """Probability that an out-of-distribution input has the higher score.

    >>> auroc([0.1, 0.3], [0.3, 0.7])
    0.875
    """
    return _of_rankings("auroc", inside, outside)


def aupr(inside: Any, outside: Any, positive: str = "outside") -> float:
    """Area under precision against recall; what is found is `outside` or `inside`.

    >>> aupr([0.1, 0.2], [0.3, 0.7])
    1.0
    """
    if positive not in ("outside", "inside"):
        raise ValueError(f"positive = {positive!r} must be 'outside' or 'inside'")
    return _of_rankings("aupr_out" if positive == "outside" else "aupr_in", inside, outside)


def fpr95(inside: Any, outside: Any, positive: str = "inside") -> float:
    """False-positive rate where 95 % of the positive inputs are found. Both conventions are in use: see `positive`.

    >>> fpr95([0.1, 0.2], [0.3, 0.7])
    0.0
    """
    if positive not in ("outside", "inside"):
        raise ValueError(f"positive = {positive!r} must be 'outside' or 'inside'")
    return _of_rankings("fpr95_caught" if positive == "outside" else "fpr95", inside, outside)


def _of_rankings(name: str, inside: Any, outside: Any) -> float:
    return _metrics.of_rankings(name, numbers(inside, "inside", 1), numbers(outside, "outside", 1))


def aurc(confidence: Any, loss: Any) -> float:
    """Area under risk against coverage: losses of the most confident predictions first.

    >>> round(aurc([0.9, 0.8, 0.4], [0.0, 0.0, 1.0]), 4)
    0.1111
    """
    return _metrics.of_risk("aurc", numbers(confidence, "confidence", 1), numbers(loss, "loss", 1))


def augrc(confidence: Any, loss: Any) -> float:
    """Area under generalised risk against coverage.

    >>> round(augrc([0.9, 0.8, 0.4], [0.0, 0.0, 1.0]), 4)
    0.0556
    """
    return _metrics.of_risk("augrc", numbers(confidence, "confidence", 1), numbers(loss, "loss", 1))
