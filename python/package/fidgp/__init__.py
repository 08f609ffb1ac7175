"""Predictions with uncertainty: Bayesian neural networks with inducing weights.

`load` opens a trained model, `train` trains what a config describes, `wrap` makes a trained network Bayesian,
`FidgpRegressor` and `FidgpClassifier` are for scikit-learn; `metrics` and `conformal` work on plain arrays and need no
libtorch.

>>> import fidgp
>>> fidgp.metrics.auroc([0.1, 0.3], [0.3, 0.7])
0.875
"""
from typing import TYPE_CHECKING, Any, List

from . import conformal, metrics
from ._model import Model, load
from ._said import ClassPredictions, NumberPredictions, PixelPredictions
from ._train import Wrapped, train, wrap

if TYPE_CHECKING:
    from .sklearn import FidgpClassifier, FidgpRegressor

__version__ = "0.1.0"
__all__ = [
    "ClassPredictions",
    "FidgpClassifier",
    "FidgpRegressor",
    "Model",
    "NumberPredictions",
    "PixelPredictions",
    "Wrapped",
    "conformal",
    "load",
    "metrics",
    "train",
    "wrap",
]

_ESTIMATORS = ("FidgpClassifier", "FidgpRegressor")


def __getattr__(name: str) -> Any:
    # scikit-learn is imported by those who use it
    if name in _ESTIMATORS:
        from . import sklearn

        return getattr(sklearn, name)
    raise AttributeError(f"module 'fidgp' has no attribute '{name}'")


def __dir__() -> List[str]:
    return sorted([*globals(), *_ESTIMATORS])
