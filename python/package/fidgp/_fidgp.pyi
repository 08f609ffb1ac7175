"""The compiled part that needs libtorch: what the Python around it calls, nothing that users need."""
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
_Bytes = NDArray[np.uint8]

class Engine:
    kind: str
    classes: List[str]
    features: List[str]
    columns: List[Tuple[str, str, List[str]]]
    target: Optional[str]
    method: str
    network: str
    draws: int
    image: Optional[Tuple[int, int]]
    calibrated: bool
    def __new__(cls, folder: Path, device: str) -> "Engine": ...
    def rows(self, rows: Union[_Numbers, List[str]], draws: Optional[int]) -> Dict[str, Any]: ...
    def classify(
        self, pixels: _Bytes, first_batch: int, effort: Tuple[Optional[int], Optional[float]]
    ) -> Dict[str, Any]: ...
    def picture(self, file: Path) -> _Bytes: ...
    def resized(self, rgb: _Bytes) -> _Bytes: ...
    def segment_file(self, file: Path, draws: Optional[int]) -> Dict[str, Any]: ...
    def segment(self, rgb: _Bytes, draws: Optional[int]) -> Dict[str, Any]: ...
    def ood_scores(self, pixels: _Bytes) -> Dict[str, _Numbers]: ...
    def calibrate_rows(self, rows: Union[_Numbers, List[str]], truths: List[float], asked: Dict[str, Any]) -> str: ...
    def calibrate_pictures(self, pixels: _Bytes, labels: List[int], asked: Dict[str, Any]) -> str: ...
    def save(self, out: Path, overwrite: bool) -> None: ...

def train(
    config: Optional[str], run: Path, data: Optional[Path], device: str, threads: Optional[int], overwrite: bool
) -> None: ...
def wrap(
    network: Union[Path, Tuple[str]],
    changes: List[str],
    weights: Optional[Path],
    run: Path,
    data: Optional[Path],
    device: str,
    threads: Optional[int],
    overwrite: bool,
) -> str: ...
