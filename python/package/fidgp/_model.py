"""Trained models."""
from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import _libtorch, _said
from ._arrays import as_array, labels, numbers
from ._pictures import in_size, pictures
from ._rows import as_cells, as_numbers
from ._said import ClassPredictions, NumberPredictions, Numbers, PixelPredictions

if TYPE_CHECKING:
    from . import _fidgp

BATCH = 64  # pictures that go through the network at once, as in `fidgp predict`
OF_CLASSES = ("total", "epistemic", "confidence", "log_density")
OF_NUMBERS = ("epistemic", "total")
OF_PIXELS = ("total", "epistemic")

Predictions = Union[ClassPredictions, NumberPredictions, PixelPredictions]


class Model:
    """A trained model. Open one with `fidgp.load`.

    It may be used from several threads; one prediction is computed at a time, without the GIL.
    """

    def __init__(self, engine: _fidgp.Engine, folder: Path) -> None:
        self._engine = engine
        self.folder = folder

    @property
    def kind(self) -> str:
        """What it predicts: `classes`, `numbers`, or `pixels` (a class for every pixel of a picture)."""
        return self._engine.kind

    @property
    def takes(self) -> str:
        """What it predicts them from: `pictures` or `rows`."""
        return "rows" if self._engine.image is None and self.kind != "pixels" else "pictures"

    @property
    def classes(self) -> List[str]:
        """The names of its classes; none for numbers."""
        return self._engine.classes

    @property
    def features(self) -> List[str]:
        """The names of the columns that it takes, in order; none for pictures."""
        return self._engine.features

    @property
    def holds(self) -> Dict[str, str]:
        """What each of these columns holds: `number`, `yes or no`, `date` or `text`."""
        known = {name: what for name, what, _ in self._engine.columns}
        return {name: known.get(name, "number") for name in self.features}

    @property
    def target(self) -> Optional[str]:
        """The name of the column that it predicts; none for pictures."""
        return self._engine.target

    @property
    def image(self) -> Optional[Tuple[int, int, int]]:
        """Channels, height and width of its pictures; none for rows, and where pictures may be of any size."""
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
        if self.kind == "pixels":
            what = f"{len(self.classes)} classes of pixels"
        elif self.takes == "pictures":
            what = f"{len(self.classes)} classes of pictures {'×'.join(map(str, self.image or ()))}"
        else:
            classes = f"{len(self.classes)} classes of " if self.classes else ""
            what = f"{classes}{self.target} from {len(self.features)} features"
        rules = ", calibrated" if self.calibrated else ""
        return f"Model({self.method}, {self._engine.network}, {what}, {self.draws} draws{rules})"

    def predict(
        self, x: Any, *, draws: Optional[int] = None, tolerance: Optional[float] = None
    ) -> Predictions:
        """Predicts.

        A model of a table takes `[N, features]`, one row, or a data frame, whose columns are found by name. Where columns
        hold texts, dates, yes or no, give a data frame or rows of such values; None, NaN and NaT are missing values. A model of
        pictures takes one or several: paths, Pillow images, or `uint8` arrays (`[N, H, W, C]`, `[N, C, H, W]`, or one of
        them). Pictures of the model's own size are taken as they are, others are resized and cropped as in training; a model that
        segments takes them in their own size.

        `draws`: weight draws. `tolerance`: for pictures, the largest Monte-Carlo error of a probability; so many draws as
        that needs, at most `draws`.
        """
        if self.calibrated and (draws not in (None, self.draws) or tolerance is not None):
            warnings.warn(
                f"the rules of this model are for predictions of {self.draws} draws; leave draws and tolerance out",
                stacklevel=2,
            )
        if self.takes == "rows":
            if tolerance is not None:
                raise ValueError("tolerance is for pictures; give a model of rows its draws")
            said = _said.columns(self._engine.rows(self._rows(x), draws))
            return ClassPredictions(classes=self.classes, **said) if self.classes else NumberPredictions(**said)
        if self.kind == "pixels":
            if tolerance is not None:
                raise ValueError("tolerance is for whole pictures; give a segmentation its draws")
            return _said.of_pixels(self.classes, [self._segmented(one, draws) for one in pictures(x)])
        parts = [
            self._engine.classify(pixels, number, (draws, tolerance)) for number, pixels in enumerate(self._batches(x))
        ]
        return ClassPredictions(classes=self.classes, **_said.columns(_said.joined(parts)))

    def score(self, x: Any, score: Optional[str] = None, *, draws: Optional[int] = None) -> Numbers:
        """How strange inputs are to the model, one number for each: high where they are out of distribution.

        `score`: `total`, `epistemic`, `confidence` (one minus the largest probability) or `log_density` (its negative, DDU)
        for classes; `epistemic` or `total` (deviations) for numbers. Where nothing is said, that of the rules of a calibrated
        model, else the first. For segmentations they are means over the pixels: `total` or `epistemic`.
        `fidgp.metrics.auroc` and `fidgp.conformal.p_values` take such scores.

        Classes of pictures have the scores of `fidgp ood` as well, by the names of its table (`energy`, `knn`, …), once `fidgp ood`
        has kept its statistics in the model's folder. Each call fits them anew: give many pictures at once.
        """
        known = OF_PIXELS if self.kind == "pixels" else OF_CLASSES if self.classes else OF_NUMBERS
        if score is not None and score not in known:
            if self.kind == "classes" and self.takes == "pictures":
                return self._benchmarked(x, score, draws, known)
            raise ValueError(f"score = {score!r} must be one of {', '.join(known)}")
        said = self.predict(x, draws=draws)
        chosen = score or known[0]
        if isinstance(said, PixelPredictions):
            return said.total if chosen == "total" else said.epistemic
        if score is None and said.ood_score is not None:
            return said.ood_score
        if isinstance(said, NumberPredictions):
            return said.epistemic if chosen == "epistemic" else said.sd
        if chosen == "log_density":
            if said.log_density is None:
                raise ValueError("score = 'log_density' is for models that know a density (DDU); this one does not")
            return -said.log_density
        if chosen == "confidence":
            best: Numbers = 1.0 - said.probabilities.max(axis=1)
            return best
        return said.total if chosen == "total" else said.epistemic

    def _benchmarked(self, x: Any, score: str, draws: Optional[int], known: Tuple[str, ...]) -> Numbers:
        """A score of `fidgp ood`."""
        if draws is not None:
            raise ValueError(f"draws = {draws} is for {', '.join(known)}; leave it out")
        try:
            found = self._engine.ood_scores(np.concatenate(list(self._batches(x))))
        except ValueError as error:
            raise ValueError(f"score = {score!r} is none of {', '.join(known)}; for the scores of `fidgp ood`: {error}") from None
        if score not in found:
            raise ValueError(f"score = {score!r} must be one of {', '.join([*known, *found])}")
        return found[score]

    def calibrate(self, x: Any, y: Any, **asked: Any) -> Dict[str, Any]:
        """Fits rules for decisions to examples that were not trained on, as `fidgp calibrate` does.

        `y` are numbers, or classes by index or by name. Settings: `levels=[0.9, 0.95]`, `by_class=False`, `risk=0.05`,
        `confidence=0.95`, `coverage`, `wrong_beyond` (numbers), `false_alarms=0.05`, `held_back=0.2`, `seed=0`. From then on
        predictions have sets or intervals and decisions. `save` keeps the rules. Returns them, with what was seen of each
        guarantee under `check`.
        """
        if self.kind == "pixels":
            raise ValueError("rules are for classes and numbers, not for segmentations")
        if self.takes == "rows":
            rows = self._rows(x)
            truths = self._labels(y) if self.classes else numbers(y, "y", 1).tolist()
            _same_length(len(rows) // (len(self.features) if isinstance(rows, list) else 1), len(truths))
            found: Dict[str, Any] = json.loads(self._engine.calibrate_rows(rows, [float(one) for one in truths], asked))
            return found
        truth = self._labels(y)
        pixels = np.concatenate(list(self._batches(x)))
        _same_length(len(pixels), len(truth))
        found = json.loads(self._engine.calibrate_pictures(pixels, truth, asked))
        return found

    def save(self, folder: Union[str, os.PathLike[str]], *, overwrite: bool = False) -> Path:
        """Writes a model folder, as `fidgp export` does, with the rules of `calibrate`."""
        self._engine.save(Path(folder), overwrite)
        return Path(folder)

    def _rows(self, x: Any) -> Union[Numbers, List[str]]:
        columns = self._engine.columns
        return as_cells(x, columns) if columns else as_numbers(x, self.features)

    def _labels(self, y: Any) -> List[int]:
        """Classes by their index; they may be given by name."""
        array = as_array(y)
        if array.ndim == 1 and array.dtype.kind in "UO" and all(isinstance(one, str) for one in array):
            places = {name: place for place, name in enumerate(self.classes)}
            unknown = next((one for one in array if one not in places), None)
            if unknown is not None:
                raise ValueError(f"y holds {str(unknown)!r}, which is none of the model's {len(places)} classes")
            return [places[one] for one in array]
        found = labels(array, "y")
        if found and max(found) >= len(self.classes):
            raise ValueError(f"y holds {max(found)}, the model has {len(self.classes)} classes, counted from 0")
        return found

    def _batches(self, x: Any) -> Iterator[NDArray[np.uint8]]:
        """Pictures in the model's size, batch by batch. `[N, C, S, S]`"""
        whole = in_size(x, self.image or (0, 0, 0))
        given = pictures(x) if whole is None else range(len(whole))
        for start in range(0, len(given), BATCH):
            if whole is None:
                yield np.stack([self._seen(one) for one in given[start : start + BATCH]])
            else:
                yield np.ascontiguousarray(whole[start : start + BATCH])

    def _segmented(self, one: Any, draws: Optional[int]) -> Dict[str, Any]:
        """What is said of a picture of any size."""
        if isinstance(one, Path):
            return self._engine.segment_file(one, draws)
        rgb = np.repeat(one, 3, axis=2) if one.shape[2] == 1 else one
        return self._engine.segment(np.ascontiguousarray(rgb), draws)

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


def load(folder: Union[str, os.PathLike[str]], *, device: str = "auto") -> Model:
    """Opens a trained model: a run folder, or a model folder made by `fidgp export` or `Model.save`.

    `device`: `cpu`, `cuda`, `cuda:N` or `auto`.
    """
    path = Path(folder)
    return Model(_libtorch.compiled().Engine(path, device), path)
