"""Regression and classification in scikit-learn's manner."""
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(
        f"FidgpRegressor and FidgpClassifier need scikit-learn 1.6 or later: pip install 'scikit-learn>=1.6' ({error})"
    ) from error

from ._model import Model, load
from ._said import ClassPredictions, NumberPredictions
from ._train import set_key, train

Numbers = NDArray[np.float64]
INDUCING = ("ffgu", "fidgp")
MOST_CLASSES = 100  # of a table's target


class _Fidgp(BaseEstimator):  # type: ignore[misc]
    """What both have in common: settings, training, copies."""

    _name: str
    _likelihood: Mapping[str, Any]

    def __init__(
        self,
        method: str = "fidgp",
        *,
        hidden: Sequence[int] = (50,),
        activation: str = "relu",
        inducing: int = 50,
        epochs: int = 200,
        batch_size: int = 32,
        learning_rate: float = 0.01,
        draws: int = 32,
        settings: Optional[Mapping[str, Any]] = None,
        random_state: Any = None,
        device: str = "cpu",
        threads: Optional[int] = None,
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.activation = activation
        self.inducing = inducing
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.draws = draws
        self.settings = settings
        self.random_state = random_state
        self.device = device
        self.threads = threads

    @property
    def model_(self) -> Model:
        """The trained model."""
        check_is_fitted(self)
        return self._model

    def _train(self, X: Numbers, y: NDArray[Any]) -> None:
        """Trains on all rows. A KeyboardInterrupt stops it after the step under way, and nothing is kept."""
        with tempfile.TemporaryDirectory(prefix="fidgp-") as scratch:
            table = Path(scratch, "table.npy")
            np.save(table, np.ascontiguousarray(np.column_stack([X, y]), dtype=np.float64))
            model = train(self._config(table), Path(scratch, "run"), device=self.device, threads=self.threads)
            folder = tempfile.TemporaryDirectory(prefix="fidgp-")
            model.save(folder.name)
        self._open(folder)

    def _config(self, table: Path) -> Dict[str, Any]:
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        config: Dict[str, Any] = {
            "name": self._name,
            "method": self.method,
            "seed": int(seed),
            # the test rows are for the record of a run, which is thrown away: all rows are trained on
            "data": {"set": "table", "path": str(table), "test": str(table)},
            "network": {
                "kind": "mlp",
                "hidden": list(self.hidden),
                "activation": self.activation,
                "batch_norm": False,
            },
            "likelihood": dict(self._likelihood),
            "train": {
                "epochs": self.epochs,
                "batch_size": self.batch_size,
                "optimiser": {"kind": "adam", "learning_rate": self.learning_rate},
                "schedule": {"kind": "cosine"},
            },
            "predict": {"draws": self.draws},
        }
        if self.method in INDUCING:  # as configs/table.toml has it
            config["inducing"] = {
                "inducing_rows": self.inducing,
                "inducing_cols": self.inducing,
                "init_lamda": 0.05,
                "max_lamda": 0.1,
                "init_sd_u": 0.005,
                "max_sd_u": 0.1,
            }
            if self.method == "fidgp":
                config["inducing"]["posterior"] = {"family": "flow", "flow": {"kind": "diagonal"}}
            config["train"]["kl"] = {"ml_epochs": 0, "annealing_epochs": self.epochs // 4}
            config["train"]["groups"] = [{"parameters": ["*.z_row", "*.z_col"], "rate": 0.1}]
        for key, value in (self.settings or {}).items():
            set_key(config, key, value)
        return config

    def _open(self, folder: "tempfile.TemporaryDirectory[str]") -> None:
        self._folder, self._model = folder, load(folder.name, device=self.device)

    def __getstate__(self) -> Dict[str, Any]:
        state = dict(super().__getstate__())
        folder = state.pop("_folder", None)
        state.pop("_model", None)
        if folder is not None:
            state["_files"] = {path.name: path.read_bytes() for path in sorted(Path(folder.name).iterdir())}
        return state

    def __setstate__(self, state: Dict[str, Any]) -> None:
        state = dict(state)
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is not None:
            folder = tempfile.TemporaryDirectory(prefix="fidgp-")
            for name, content in files.items():
                Path(folder.name, Path(name).name).write_bytes(content)
            self._open(folder)


class FidgpRegressor(RegressorMixin, _Fidgp):  # type: ignore[misc]
    """A Bayesian neural network that predicts a number and its uncertainty.

    Features and target are standardised with the training rows. All rows are trained on.

    Parameters
    ----------
    method : a method for regression, such as `fidgp`, `ffgu`, `ensemble`, `mc-dropout`, `laplace` or `deterministic`
    hidden : widths of the hidden layers
    activation : `relu`, `tanh`, `gelu`, `silu` or `sine`
    inducing : rows and columns of the inducing matrices, for `fidgp` and `ffgu`
    epochs, batch_size, learning_rate : of the training, with Adam and a cosine schedule
    draws : weight draws of a prediction
    settings : further keys of a config, dotted: `{"likelihood.beta_nll": 0.5}`
    random_state : seed
    device : `cpu`, `cuda`, `cuda:N` or `auto`
    threads : of the training; one where nothing is said

    Attributes
    ----------
    model_ : the trained `fidgp.Model`, with all that it says (`model_.predict`, `model_.calibrate`, `model_.save`)

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 64)[:, None]
    >>> regressor = FidgpRegressor(epochs=20, random_state=0).fit(x, x[:, 0] ** 2)
    >>> mean, sd = regressor.predict([[0.0], [5.0]], return_std=True)
    >>> mean.shape, bool((sd > 0).all())
    ((2,), True)
    """

    _name = "regressor"
    _likelihood = {"kind": "gaussian", "noise": {"kind": "predicted"}}

    def fit(self, X: Any, y: Any) -> "FidgpRegressor":
        """Trains. A KeyboardInterrupt stops it after the step under way, and nothing is kept."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        self._train(X, y)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Union[Numbers, Tuple[Numbers, Numbers]]:
        """The mean, and with `return_std` the deviation of a new observation."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        said = self._model.predict(X)
        assert isinstance(said, NumberPredictions)
        return (said.mean, said.sd) if return_std else said.mean


class FidgpClassifier(ClassifierMixin, _Fidgp):  # type: ignore[misc]
    """A Bayesian neural network that predicts a class, its probability and its uncertainty.

    Features are standardised with the training rows. All rows are trained on. There may be 2 to 100 classes.

    Parameters and attributes are those of `FidgpRegressor`, and `classes_`: the classes in order. `model_` knows them by
    their place in it.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 64)[:, None]
    >>> classifier = FidgpClassifier(epochs=50, random_state=0).fit(x, np.where(x[:, 0] > 0, "right", "left"))
    >>> classifier.predict([[-0.9], [0.9]]).tolist()
    ['left', 'right']
    >>> classifier.predict_proba([[-0.9], [0.9]]).shape
    (2, 2)
    """

    _name = "classifier"
    _likelihood = {"kind": "categorical"}

    def fit(self, X: Any, y: Any) -> "FidgpClassifier":
        """Trains. A KeyboardInterrupt stops it after the step under way, and nothing is kept."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        classes, places = np.unique(y, return_inverse=True)
        if not 2 <= len(classes) <= MOST_CLASSES:
            raise ValueError(f"y has {len(classes)} class(es); FidgpClassifier needs 2 to {MOST_CLASSES} different classes")
        self._train(X, places)
        self.classes_ = classes
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class."""
        best = self._said(X).index  # before `classes_`, which an estimator that is not fitted has not
        found: NDArray[Any] = self.classes_[best]
        return found

    def predict_proba(self, X: Any) -> Numbers:
        """Probabilities of the classes, mean over the weight draws. `[N, classes]`"""
        p = self._said(X).probabilities
        found: Numbers = p / p.sum(axis=1, keepdims=True)  # means of single precision
        return found

    def _said(self, X: Any) -> ClassPredictions:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        said = self._model.predict(X)
        assert isinstance(said, ClassPredictions)
        return said
