"""Whatever users have, as the arrays that the compiled module takes."""
from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_array(x: Any) -> NDArray[Any]:
    """A NumPy array of anything with `__array__` or DLPack, without a copy where that can be."""
    if getattr(x, "requires_grad", False):  # a tensor of PyTorch, which lends its numbers only so
        x = x.detach()
    if getattr(x, "is_cuda", False):
        x = x.cpu()
    if not hasattr(x, "__array__") and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def numbers(x: Any, name: str, dimensions: int) -> NDArray[np.float64]:
    """Numbers in double precision, row-major."""
    array = as_array(x)
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s), not {array.ndim} (its shape is {array.shape})")
    if array.dtype.kind == "c":
        raise ValueError(f"{name} holds complex numbers; give real ones")
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} holds values that are no numbers: {error}") from None


def labels(y: Any, name: str = "labels") -> list[int]:
    """Classes by their index."""
    array = as_array(y)
    if array.ndim != 1:
        raise ValueError(f"{name} must have 1 dimension, not {array.ndim} (its shape is {array.shape})")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be indices of classes (integers from 0), not {array.dtype}")
    if array.size and array.min() < 0:
        raise ValueError(f"{name} holds {array.min()}; classes are counted from 0")
    found: list[int] = array.tolist()
    return found
