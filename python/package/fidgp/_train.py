"""Training what a config describes."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping, Optional, Union

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
    if config is None:
        text = None
    elif isinstance(config, Mapping):
        text = "".join(f"{_text(str(key))} = {to_toml(value)}\n" for key, value in config.items())
    else:
        text = Path(config).read_text(encoding="utf-8")
    _libtorch.compiled().train(text, Path(run), None if data is None else Path(data), device, threads, overwrite)
    return load(run, device=device)
