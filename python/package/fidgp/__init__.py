"""Predictions with uncertainty: Bayesian neural networks with inducing weights.

`load` opens a trained model, `train` trains what a config describes, `FidgpRegressor` is for scikit-learn; `metrics` and
`conformal` work on plain arrays.

>>> import fidgp
>>> fidgp.metrics.auroc([0.1, 0.3], [0.3, 0.7])
0.875
"""
from typing import TYPE_CHECKING, Any, List

from . import _libtorch

with _libtorch.short_waits():
    _libtorch.prepare()
    try:
        from . import _fidgp  # noqa: F401
    except ImportError as error:
        raise _libtorch.explained(error) from error

from . import conformal, metrics
from ._model import ClassPredictions, Model, NumberPredictions, load
from ._train import train

if TYPE_CHECKING:
    from .sklearn import FidgpRegressor

__version__ = "0.1.0"
__all__ = [
    "ClassPredictions",
    "FidgpRegressor",
    "Model",
    "NumberPredictions",
    "conformal",
    "load",
    "metrics",
    "train",
]


def __getattr__(name: str) -> Any:
    # scikit-learn is imported by those who use it
    if name == "FidgpRegressor":
        from .sklearn import FidgpRegressor

        return FidgpRegressor
    raise AttributeError(f"module 'fidgp' has no attribute '{name}'")


def __dir__() -> List[str]:
    return sorted([*globals(), "FidgpRegressor"])
