"""Rows of tables, as the compiled module takes them."""
from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, List, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ._arrays import as_array, numbers

Column = Tuple[str, str, List[str]]
"""Name, what it holds (`number`, `yes or no`, `date`, `text`), its texts."""

MISSING = ("NAType", "NaTType")  # pandas' own, whose comparisons have no truth value


def is_frame(x: Any) -> bool:
    """Whether it has named columns, as the data frames of pandas and polars."""
    return hasattr(x, "columns") and hasattr(x, "__getitem__")


def as_numbers(x: Any, features: Sequence[str]) -> NDArray[np.float64]:
    """Rows of numbers, columns in the order of the model. `[N, features]`"""
    if is_frame(x):
        x = x[_own_names(x, features)]
    array = as_array(x)
    if array.ndim == 1 and len(array) == len(features):
        array = array[None]
    rows = numbers(array, "x", 2)
    if rows.shape[1] != len(features):
        raise ValueError(f"x has {rows.shape[1]} columns, the model takes {_listed(features)}")
    if not len(rows):
        raise ValueError("x has no rows")
    return rows


def as_cells(x: Any, columns: Sequence[Column]) -> List[str]:
    """Rows of numbers, texts, dates, yes and no as a file would have them, row after row."""
    names = [name for name, _, _ in columns]
    if is_frame(x):
        own = _own_names(x, names)
        rows: List[Sequence[Any]] = list(zip(*(_values(x[name]) for name in own)))
    else:
        rows = _given(x)
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise ValueError(f"row {number} of x has {len(row)} cells, the model takes {_listed(names)}")
    if not rows:
        raise ValueError("x has no rows")
    return [_cell(value, column) for row in rows for value, column in zip(row, columns)]


def _listed(names: Sequence[str]) -> str:
    return f"{len(names)}: {', '.join(names)}"


def _own_names(x: Any, names: Sequence[str]) -> List[Any]:
    """The frame's own names of some columns."""
    known = [str(name) for name in x.columns]
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"x has no column {', '.join(map(repr, missing))}; its columns are {', '.join(known)}")
    twice = [name for name in names if known.count(name) > 1]
    if twice:
        raise ValueError(f"x has several columns {', '.join(map(repr, twice))}")
    by_name = {str(name): name for name in x.columns}
    return [by_name[name] for name in names]


def _values(series: Any) -> List[Any]:
    """Values of a column as Python has them."""
    for way in ("to_list", "tolist"):
        if hasattr(series, way):
            found: List[Any] = getattr(series, way)()
            return found
    return list(series)


def _given(x: Any) -> List[Sequence[Any]]:
    """Rows of a list or an array; one row will do."""
    if isinstance(x, (list, tuple)):
        is_row = [isinstance(one, (list, tuple, np.ndarray)) and np.ndim(one) == 1 for one in x]
        if all(is_row):
            return [one.tolist() if isinstance(one, np.ndarray) else one for one in x]
        if any(is_row):
            raise ValueError("x has rows and single values side by side; give a list of rows, or one row")
        return [x]
    array = as_array(x)
    if array.ndim not in (1, 2) or array.dtype.names is not None:
        raise ValueError(f"x must be rows of cells or a data frame, not an array of {array.shape} and {array.dtype}")
    found: List[Sequence[Any]] = array.tolist() if array.ndim == 2 else [array.tolist()]
    return found


def _is_missing(value: Any) -> bool:
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    if isinstance(value, np.datetime64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ in MISSING


def _cell(value: Any, column: Column) -> str:
    """A value as a table has it. Where there are several ways to write it, the one that the training data have."""
    if isinstance(value, str):
        return value
    if _is_missing(value):
        return ""
    ways = _ways(value)
    if not ways:
        raise ValueError(f"x holds {value!r} in column {column[0]!r}: no number, text, date, yes or no")
    return next((text for text in ways if text in column[2]), ways[0])


def _ways(value: Any) -> List[str]:
    if isinstance(value, (bool, np.bool_)):
        return ["true", "True"] if value else ["false", "False"]
    if isinstance(value, (int, np.integer)):
        return [str(int(value))]
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return [repr(number), str(int(number))] if number.is_integer() else [repr(number)]
    if isinstance(value, (Decimal, np.datetime64)):
        return [str(value)]
    return [value.isoformat()] if hasattr(value, "isoformat") else []
