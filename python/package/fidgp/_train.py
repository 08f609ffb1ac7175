"""Training what a config describes, and wrapping trained networks."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union

from . import _libtorch
from ._model import Model, load


def to_toml(value: Any) -> str:
    """A value as TOML, tables inline.

    >>> to_toml({"hidden": [50], "activation": "relu", "flow": {"kind": "diagonal"}, "batch_norm": False})
    '{ "hidden" = [50], "activation" = "relu", "flow" = { "kind" = "diagonal" }, "batch_norm" = false }'
    """
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(str(key))} = {to_toml(one)}" for key, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return _text(os.fspath(value))
    try:  # NumPy's numbers are no int and no float of Python
        number = value.item() if hasattr(value, "item") else value
        return repr(float(number)) if isinstance(number, float) else str(int(number))
    except (TypeError, ValueError):
        raise ValueError(f"a config cannot hold {value!r}; it has numbers, texts, lists and tables") from None


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def set_key(config: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key, as `--set` does.

    >>> config = {"train": {"epochs": 200}}
    >>> set_key(config, "train.optimiser.learning_rate", 0.01)
    >>> config
    {'train': {'epochs': 200, 'optimiser': {'learning_rate': 0.01}}}
    """
    *tables, last = key.split(".")
    for name in tables:
        config = config.setdefault(name, {})
        if not isinstance(config, dict):
            raise ValueError(f"`{key}`: `{name}` is no table")
    config[last] = value


def train(
    config: Union[str, os.PathLike[str], Mapping[str, Any], None],
    run: Union[str, os.PathLike[str]],
    *,
    data: Union[str, os.PathLike[str], None] = None,
    device: str = "auto",
    threads: Optional[int] = None,
    overwrite: bool = False,
) -> Model:
    """Trains what a config describes into the folder `run`, as `fidgp train` does, and opens it.

    `config` is a TOML file or a dictionary with the same keys; None goes on with the run in the folder. `data` is where
    data sets lie. A KeyboardInterrupt stops after the step under way; the folder keeps what was done.
    """
    text = None if config is None else _of_config(config)
    _libtorch.compiled().train(text, Path(run), None if data is None else Path(data), device, threads, overwrite)
    return load(run, device=device)


def _of_config(config: Union[str, os.PathLike[str], Mapping[str, Any]]) -> str:
    """The text of a config."""
    if isinstance(config, Mapping):
        return "".join(f"{_text(str(key))} = {to_toml(value)}\n" for key, value in config.items())
    return Path(config).read_text(encoding="utf-8")


class Wrapped(NamedTuple):
    """A trained network that was made Bayesian."""

    model: Model
    """It predicts at once; `fidgp.train(None, run)` trains it on."""
    report: Dict[str, Any]
    """What `fidgp wrap --json` says: `stages` with accuracy, NLL and ECE before and after, `start` with the fit of each layer."""


def wrap(
    network: Union[str, os.PathLike[str], Mapping[str, Any]],
    run: Union[str, os.PathLike[str]],
    *,
    weights: Union[str, os.PathLike[str], None] = None,
    settings: Optional[Mapping[str, Any]] = None,
    data: Union[str, os.PathLike[str], None] = None,
    device: str = "auto",
    threads: Optional[int] = None,
    overwrite: bool = False,
) -> Wrapped:
    """Makes a trained network Bayesian, as `fidgp wrap` does, into the folder `run`. It must classify pictures.

    `network` is an `.onnx` file, or a config (a TOML file or a dictionary) whose `start.weights`, or `weights`, names the
    trained weights. `settings` are keys of the config, dotted: `{"data.name": "cifar10"}`; for an `.onnx` file they must say
    which data it was trained on, and its `normalisation`. `data` is where data sets lie. A KeyboardInterrupt is raised when the work is done.
    """
    changes = [f"{key}={to_toml(value)}" for key, value in (settings or {}).items()]
    is_graph = not isinstance(network, Mapping) and Path(network).suffix.lower() == ".onnx"
    given = Path(network) if is_graph else (_of_config(network),)  # type: ignore[arg-type]
    told = _libtorch.compiled().wrap(
        given,
        changes,
        None if weights is None else Path(weights),
        Path(run),
        None if data is None else Path(data),
        device,
        threads,
        overwrite,
    )
    return Wrapped(load(run, device=device), json.loads(told))
