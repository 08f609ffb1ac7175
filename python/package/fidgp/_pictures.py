"""Pictures, as the compiled module takes them."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from ._arrays import as_array


def in_size(x: Any, image: Tuple[int, int, int]) -> Optional[NDArray[np.uint8]]:
    """An array of pictures that have the model's size, channels first; a view where that can be. `[N, C, S, S]`"""
    if isinstance(x, (str, os.PathLike, list, tuple)):
        return None
    array = as_array(x)
    if array.dtype != np.uint8 or array.ndim != 4 or not len(array):
        return None
    channels, height, width = image
    if array.shape[1:] == (height, width, channels):
        return np.moveaxis(array, -1, 1)
    is_first = array.shape[1:] == (channels, height, width) and array.shape[-1] not in (1, 3)
    return array if is_first else None


def pictures(x: Any) -> List[Any]:
    """Files as paths, all other pictures as `[H, W, C]` of bytes."""
    if isinstance(x, (str, os.PathLike)):
        return [Path(x)]
    if isinstance(x, (list, tuple)):
        found = [picture for one in x for picture in pictures(one)]
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
