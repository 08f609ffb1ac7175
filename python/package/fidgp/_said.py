"""What models say."""
from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Dict, List, Optional

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


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
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


@dataclass(frozen=True, repr=False)
class ClassPredictions(_Said):
    """What a model says about pictures or rows; every array has one entry for each. Uncertainties are in nats."""

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
    out_of_range: Optional[List[List[str]]] = None
    """Of rows: features that lie outside the training data, in words."""
    flags: Optional[List[List[str]]] = None
    """Of rows: what was missing or unknown, and what stands in for it, in words."""
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
    flags: List[List[str]]
    """What was missing or unknown, and what stands in for it, in words."""
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


Map = NDArray[np.float32]


@dataclass(frozen=True, repr=False)
class PixelPredictions(_Said):
    """What a model says about every pixel of pictures. Arrays have one entry for each picture; maps are lists, as pictures
    may differ in size. Uncertainties are in nats."""

    classes: List[str]
    """The names of the classes."""
    shares: Numbers
    """Share of the pixels that are given each class. `[N, classes]`"""
    total: Numbers
    """Mean over the pixels of the entropy of the mean: aleatoric + epistemic."""
    aleatoric: Numbers
    """What the data leave open, likewise."""
    epistemic: Numbers
    """What the weights leave open, likewise."""
    draws: NDArray[np.int64]
    """Weight draws that it is the mean of."""
    label_map: List[NDArray[np.int64]]
    """The most probable class of every pixel, by its index. `[H, W]` each"""
    probability_map: List[Map]
    """Its probability. `[H, W]` each"""
    total_map: List[Map]
    """Entropy of the mean. `[H, W]` each"""
    aleatoric_map: List[Map]
    """What the data leave open. `[H, W]` each"""
    epistemic_map: List[Map]
    """What the weights leave open. `[H, W]` each"""

    def __len__(self) -> int:
        return len(self.total)


def of_pixels(classes: List[str], parts: List[Dict[str, Any]]) -> PixelPredictions:
    """What was said of several pictures."""
    said: Dict[str, Any] = {key: [part[key] for part in parts] for key in parts[0]}
    arrays: Dict[str, Any] = {key: all if key.endswith("_map") else np.array(all) for key, all in said.items()}
    return PixelPredictions(classes=classes, **arrays)


def columns(said: Dict[str, Any]) -> Dict[str, Any]:
    """Fields as the types above have them."""
    if "decision" in said:
        said["decision"] = np.array(said["decision"], dtype=np.str_)
    return said


def joined(parts: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Predictions of several batches as those of one."""
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
