"""Gears in the notation of the Graph Engine's command line, for the option `gears`."""

from __future__ import annotations

from gex.options.gears import Gears, Place, Row

_FEWEST, _MOST = 2, 100


def dim_gears(
    input_shape: str,
    *,
    dynamic_dims: str | None = None,
    dynamic_batch_size: str | None = None,
    dynamic_image_size: str | None = None,
) -> Gears:
    """`options={"gears": dim_gears("x:-1,3;mask:-1", dynamic_dims="20,20;40,40")}`.

    `input_shape` names the arguments and has -1 where a size changes. `dynamic_dims` lists the
    values of all of them in order, `dynamic_batch_size` one that they share, `dynamic_image_size`
    height and width.
    """
    given = {
        "dynamic_dims": dynamic_dims,
        "dynamic_batch_size": dynamic_batch_size,
        "dynamic_image_size": dynamic_image_size,
    }
    kinds = [kind for kind, text in given.items() if text is not None]
    if len(kinds) != 1:
        raise ValueError(f"exactly one of {[*given]} must be given, got {kinds}")
    places = _places(input_shape)
    if not places:
        raise ValueError(f"no size of {input_shape!r} is -1, so no size can have gears")
    rows = _rows(kinds[0], given[kinds[0]] or "", len(places))
    if not _FEWEST <= len(rows) <= _MOST:
        raise ValueError(f"{kinds[0]}: {_FEWEST} to {_MOST} gears, got {len(rows)}")
    for row in rows:
        if len(row) != len(places):
            raise ValueError(
                f"{kinds[0]}: gear {row} must have {len(places)} sizes, one for each -1"
            )
        if min(row) < 1:
            raise ValueError(f"{kinds[0]}: gear {row} must be positive")
    if len(set(rows)) != len(rows):
        raise ValueError(f"{kinds[0]}: a gear is listed twice")
    return {places: rows}


def _places(input_shape: str) -> tuple[Place, ...]:
    places: list[Place] = []
    for part in input_shape.split(";"):
        name, _, sizes = part.rpartition(":")
        if not name:
            raise ValueError(f"{part!r} is not an input; write it as name:size,size")
        places += [(name.strip(), d) for d, n in enumerate(sizes.split(",")) if _number(n) == -1]
    return tuple(places)


def _rows(kind: str, text: str, width: int) -> list[Row]:
    if kind == "dynamic_batch_size":
        return [(_number(n),) * width for n in text.split(",")]
    return [tuple(_number(n) for n in row.split(",")) for row in text.split(";")]


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a size") from None
