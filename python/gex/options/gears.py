"""The option `gears`: upper bounds of sizes, each served by one capture for all smaller sizes.

"auto", None (a capture for each size), a list of sizes for every dynamic size, or a dict by
argument: {"x": {0: [16, 64]}}, or by several dims that change together: {(("x", 0), ("mask", 1)):
[(20, 20), (40, 60)]}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Place = tuple[str, int]  # an argument's name and one of its dims
Row = tuple[int, ...]
Gears = dict[tuple[Place, ...], list[Row]]  # dims that change together, and their sizes

ALL: tuple[Place, ...] = ()  # every size that no other entry names


def check_gears(name: str, value: Any) -> str | Gears | None:
    """The option in normalised form: None, "auto" or sizes by place."""
    if value is None:
        return None
    if isinstance(value, str):
        if value != "auto":
            raise ValueError(
                f"option {name!r}: {value!r} is not allowed; use 'auto', None or sizes"
            )
        return value
    if isinstance(value, (list, tuple)):
        return {ALL: _rows(name, value, 1)}
    if not isinstance(value, Mapping):
        raise TypeError(
            f"option {name!r} must be 'auto', None, a list of sizes or a dict of such lists, got "
            f"{value!r} of {type(value)}"
        )
    gears: Gears = {}
    for key, sizes in value.items():
        if isinstance(key, str) and isinstance(sizes, Mapping):
            for dim, of_dim in sizes.items():
                gears[((key, _dim(name, dim)),)] = _rows(name, of_dim, 1)
        else:
            places = _places(name, key)
            gears[places] = _rows(name, sizes, len(places))
    return gears


def _dim(name: str, dim: Any) -> int:
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"option {name!r}: a dim must be an int, got {dim!r} of {type(dim)}")
    return dim


def _places(name: str, key: Any) -> tuple[Place, ...]:
    if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
        return ((key[0], _dim(name, key[1])),)
    if isinstance(key, tuple) and key and all(isinstance(k, tuple) and len(k) == 2 for k in key):
        return tuple((str(argument), _dim(name, dim)) for argument, dim in key)
    raise TypeError(
        f"option {name!r}: {key!r} does not name a size; use the name of an argument with a dict, "
        "('x', 0), or a tuple of such pairs that change together"
    )


def _rows(name: str, sizes: Any, width: int) -> list[Row]:
    if not isinstance(sizes, (list, tuple)) or not sizes:
        raise TypeError(f"option {name!r}: expected a list of sizes, got {sizes!r}")
    rows: list[Row] = []
    for size in sizes:
        row = tuple(size) if isinstance(size, (list, tuple)) else (size,)
        if any(isinstance(s, bool) or not isinstance(s, int) for s in row):
            raise TypeError(f"option {name!r}: a gear consists of ints, got {size!r}")
        if len(row) != width:
            raise ValueError(f"option {name!r}: gear {size!r} must have {width} sizes")
        if min(row) < 1:
            raise ValueError(f"option {name!r}: gear {size!r} must be positive")
        if row in rows:
            raise ValueError(f"option {name!r}: gear {size!r} is listed twice")
        rows.append(row)
    return sorted(rows) if width == 1 else rows
