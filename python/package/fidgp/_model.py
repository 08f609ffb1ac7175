"""Trained models and what they say."""
from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import _fidgp
from ._arrays import as_array, labels, numbers

Numbers = NDArray[np.float64]
BATCH = 64  # pictures that go through the network at once, as in `fidgp predict`


class _Said:
    """What predictions have in common."""

    def to_dict(self) -> Dict[str, Any]:
        """All fields that there are, as lists and numbers that `json.dumps` takes."""
        given = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        return {name: _plain(value) for name, value in given if value is not None}

    def __repr__(self) -> str:
        names = [field.name for field in fields(self) if getattr(self, field.name) is not None]  # type: ignore[arg-type]
        return f"{type(self).__name__}({len(self)} predictions; {', '.join(names)})"  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, repr=False)
class ClassPredictions(_Said):
    """What a model says about pictures; every array has one entry for each. Uncertainties are in nats."""

    classes: List[str]
    """The names of the classes."""
    probabilities: Numbers
    """Mean over the draws. `[N, classes]`"""
    total: Numbers
    """Entropy of the mean: aleatoric + epistemic."""
    aleatoric: Numbers
    """What the data leave open."""
    epistemic: Numbers
    """What the weights leave open."""
    draws: NDArray[np.int64]
    """Weight draws that it is the mean of."""
    error: Optional[Numbers] = None
    """Largest Monte-Carlo error of a probability, where a tolerance was asked for."""
    log_density: Optional[Numbers] = None
    """Density of the features among those of the training data, for a model that knows it (DDU)."""
    sets: Optional[Dict[float, NDArray[np.bool_]]] = None
    """Of a calibrated model, by level: which classes cannot be ruled out. `[N, classes]`"""
    decision: Optional[NDArray[np.str_]] = None
    """Of a calibrated model: `accept`, `abstain` or `out-of-distribution`."""
    reason: Optional[List[str]] = None
    """Why."""
    ood_score: Optional[Numbers] = None
    """The uncertainty that tells inputs out of distribution."""
    ood_p: Optional[Numbers] = None
    """Share of in-distribution examples that look at least as strange."""

    @property
    def index(self) -> NDArray[np.int64]:
        """The most probable class, by its index."""
        best: NDArray[np.int64] = self.probabilities.argmax(axis=1)
        return best

    @property
    def label(self) -> List[str]:
        """The most probable class, by its name."""
        return [self.classes[index] for index in self.index]

    def __len__(self) -> int:
        return len(self.probabilities)


@dataclass(frozen=True, repr=False)
class NumberPredictions(_Said):
    """What a model says about rows; every array has one entry for each, in the unit of the target."""

    mean: Numbers
    """Mean over the draws."""
    sd: Numbers
    """Deviation of a new observation, `√(aleatoric² + epistemic²)`."""
    aleatoric: Numbers
    """Deviation of the data as the model sees it."""
    epistemic: Numbers
    """Deviation of the mean over draws: what the weights leave open."""
    out_of_range: List[List[str]]
    """Features that lie outside the training data, in words."""
    intervals: Optional[Dict[float, Numbers]] = None
    """Of a calibrated model, by level: lower and upper ends. `[N, 2]`"""
    decision: Optional[NDArray[np.str_]] = None
    """Of a calibrated model: `accept`, `abstain` or `out-of-distribution`."""
    reason: Optional[List[str]] = None
    """Why."""
    ood_score: Optional[Numbers] = None
    """The uncertainty that tells inputs out of distribution."""
    ood_p: Optional[Numbers] = None
    """Share of in-distribution examples that look at least as strange."""

    def __len__(self) -> int:
        return len(self.mean)


class Model:
    """A trained model. Open one with `fidgp.load`.

    It may be used from several threads; one prediction is computed at a time, without the GIL.
    """

    def __init__(self, engine: _fidgp.Engine, folder: Path) -> None:
        if engine.kind == "pixels":
            raise ValueError(f"{folder} segments pictures, which the Python package does not do; use `fidgp predict`")
        self._engine = engine
        self.folder = folder

    @property
    def kind(self) -> str:
        """`classes` (of pictures) or `numbers` (of rows)."""
        return self._engine.kind

    @property
    def classes(self) -> List[str]:
        """The names of its classes; none for numbers."""
        return self._engine.classes

    @property
    def features(self) -> List[str]:
        """The names of its features, in order; none for pictures."""
        return self._engine.features

    @property
    def target(self) -> Optional[str]:
        """The name of the number that it predicts."""
        return self._engine.target

    @property
    def image(self) -> Optional[Tuple[int, int, int]]:
        """Channels, height and width of its pictures."""
        image = self._engine.image
        return image and (image[0], image[1], image[1])

    @property
    def method(self) -> str:
        """The method it was trained with."""
        return self._engine.method

    @property
    def draws(self) -> int:
        """Weight draws of a prediction where none are asked for."""
        return self._engine.draws

    @property
    def calibrated(self) -> bool:
        """Whether it has rules for decisions."""
        return self._engine.calibrated

    def __repr__(self) -> str:
        if self.kind == "classes":
            what = f"{len(self.classes)} classes of pictures {'×'.join(map(str, self.image or ()))}"
        else:
            what = f"{self.target} from {len(self.features)} features"
        rules = ", calibrated" if self.calibrated else ""
        return f"Model({self.method}, {self._engine.network}, {what}, {self.draws} draws{rules})"

    def predict(
        self, x: Any, *, draws: Optional[int] = None, tolerance: Optional[float] = None
    ) -> Union[ClassPredictions, NumberPredictions]:
        """Predicts.

        For numbers `x` is `[N, features]`, one row, or a data frame, whose columns are found by name. For classes it is
        a picture or several: paths, Pillow images, or `uint8` arrays (`[N, H, W, C]`, `[N, C, H, W]`, or one of them).
        Pictures of the model's own size are taken as they are, others are resized and cropped as in training.

        `draws`: weight draws. `tolerance`: for classes, the largest Monte-Carlo error of a probability; so many draws as
        that needs, at most `draws`.
        """
        if self.calibrated and (draws not in (None, self.draws) or tolerance is not None):
            warnings.warn(
                f"the rules of this model are for predictions of {self.draws} draws; leave draws and tolerance out",
                stacklevel=2,
            )
        if self.kind == "numbers":
            if tolerance is not None:
                raise ValueError("tolerance is for classes of pictures; give a model of numbers its draws")
            return NumberPredictions(**_columns(self._engine.rows(self._rows(x), draws)))
        parts = []
        pictures = _pictures(x)
        for start in range(0, len(pictures), BATCH):
            pixels = np.stack([self._seen(one) for one in pictures[start : start + BATCH]])
            parts.append(self._engine.classify(pixels, start // BATCH, (draws, tolerance)))
        return ClassPredictions(classes=self.classes, **_columns(_joined(parts)))

    def calibrate(self, x: Any, y: Any, **asked: Any) -> Dict[str, Any]:
        """Fits rules for decisions to examples that were not trained on, as `fidgp calibrate` does.

        `y` are class indices or numbers. Settings: `levels=[0.9, 0.95]`, `by_class=False`, `risk=0.05`, `confidence=0.95`,
        `wrong_beyond` (numbers), `false_alarms=0.05`, `held_back=0.2`, `seed=0`. From then on predictions have sets or
        intervals and decisions. `save` keeps the rules. Returns them, with what was seen of each promise under `check`.
        """
        if self.kind == "numbers":
            rows, targets = self._rows(x), numbers(y, "y", 1)
            _same_length(len(rows), len(targets))
            found: Dict[str, Any] = json.loads(self._engine.calibrate_rows(rows, targets, asked))
            return found
        pictures, truth = _pictures(x), labels(y, "y")
        _same_length(len(pictures), len(truth))
        if max(truth) >= len(self.classes):
            raise ValueError(f"y holds {max(truth)}, the model has {len(self.classes)} classes, counted from 0")
        pixels = np.stack([self._seen(one) for one in pictures])
        found = json.loads(self._engine.calibrate_pictures(pixels, truth, asked))
        return found

    def save(self, folder: Union[str, os.PathLike[str]], *, overwrite: bool = False) -> Path:
        """Writes a model folder, as `fidgp export` does, with the rules of `calibrate`."""
        self._engine.save(Path(folder), overwrite)
        return Path(folder)

    def _rows(self, x: Any) -> Numbers:
        if hasattr(x, "columns") and hasattr(x, "__getitem__"):
            known = [str(name) for name in x.columns]
            missing = [name for name in self.features if name not in known]
            if missing:
                raise ValueError(f"x has no column {', '.join(map(repr, missing))}; its columns are {', '.join(known)}")
            twice = [name for name in self.features if known.count(name) > 1]
            if twice:
                raise ValueError(f"x has several columns {', '.join(map(repr, twice))}")
            by_name = {str(name): name for name in x.columns}
            x = x[[by_name[name] for name in self.features]]
        array = as_array(x)
        if array.ndim == 1 and len(array) == len(self.features):
            array = array[None]
        rows = numbers(array, "x", 2)
        if rows.shape[1] != len(self.features):
            raise ValueError(f"x has {rows.shape[1]} columns, the model takes {len(self.features)}: {', '.join(self.features)}")
        if not len(rows):
            raise ValueError("x has no rows")
        return rows

    def _seen(self, one: Any) -> NDArray[np.uint8]:
        """A picture in the model's size. `[C, S, S]`"""
        if isinstance(one, Path):
            return self._engine.picture(one)
        channels, side, _ = self.image or (0, 0, 0)
        if one.shape == (side, side, channels):
            return np.ascontiguousarray(one.transpose(2, 0, 1))
        rgb = np.repeat(one, 3, axis=2) if one.shape[2] == 1 else one
        return self._engine.resized(np.ascontiguousarray(rgb))


def _same_length(inputs: int, truths: int) -> None:
    if inputs != truths or not truths:
        raise ValueError(f"x has {inputs} examples and y has {truths}; give one y for each, and at least one")


def _columns(said: Dict[str, Any]) -> Dict[str, Any]:
    if "decision" in said:
        said["decision"] = np.array(said["decision"], dtype=np.str_)
    return said


def _joined(parts: List[Dict[str, Any]]) -> Dict[str, Any]:
    if len(parts) == 1:
        return parts[0]
    return {key: _chained([part[key] for part in parts]) for key in parts[0]}


def _chained(values: List[Any]) -> Any:
    if any(value is None for value in values):
        return None
    if isinstance(values[0], dict):
        return {key: np.concatenate([value[key] for value in values]) for key in values[0]}
    if isinstance(values[0], list):
        return [one for value in values for one in value]
    return np.concatenate(values)


def _pictures(x: Any) -> List[Any]:
    """Files as paths, all other pictures as `[H, W, C]` of bytes."""
    if isinstance(x, (str, os.PathLike)):
        return [Path(x)]
    if isinstance(x, (list, tuple)):
        found = [picture for one in x for picture in _pictures(one)]
    else:
        array = as_array(x)
        if array.dtype != np.uint8:
            raise ValueError(f"pictures must be uint8, 0 … 255, not {array.dtype}; paths and Pillow images will do, too")
        found = _of_array(array)
    if not found:
        raise ValueError("x holds no pictures")
    return found


def _of_array(array: NDArray[np.uint8]) -> List[NDArray[np.uint8]]:
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim not in (3, 4):
        raise ValueError(f"a picture is [H, W, C], [C, H, W] or [H, W], several have one axis before; not {array.shape}")
    if array.shape[-1] in (1, 3):
        laid_out = array
    elif array.shape[-3] in (1, 3):
        laid_out = np.moveaxis(array, -3, -1)
    else:
        raise ValueError(f"a picture has 1 or 3 channels, first or last; this array is {array.shape}")
    if 0 in laid_out.shape:
        raise ValueError(f"x holds no pixels: it is {array.shape}")
    return [laid_out] if laid_out.ndim == 3 else list(laid_out)


def load(folder: Union[str, os.PathLike[str]], *, device: str = "auto") -> Model:
    """Opens a trained model: a run folder, or a model folder made by `fidgp export` or `Model.save`.

    `device`: `cpu`, `cuda`, `cuda:N` or `auto`.
    """
    path = Path(folder)
    return Model(_fidgp.Engine(path, device), path)
