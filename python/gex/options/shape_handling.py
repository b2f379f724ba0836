"""`shape_handling_configs`: which dims are bucketed, and the bucket sizes."""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

BATCH, SEQUENCE = "BATCHSIZE", "SEQLEN"
_LARGEST = {BATCH: 8192, SEQUENCE: 1310720}
_MAX_GEARS = 64
_FIELDS = (
    "type", "dimensions", "indices", "value", "gears", "min_size", "max_size", "policy"
)  # fmt: skip


@dataclass(frozen=True)
class ShapeConfig:
    """One kind of dim that is padded up to a gear."""

    kind: str
    dimensions: tuple[int, ...]  # one for all tensors, or one for each of `indices`
    indices: tuple[int, ...]  # of the tensors it is for; empty: all with enough dims
    value: float  # value of the padding
    gears: tuple[int, ...]

    def dim_of(self, tensor: int, rank: int) -> int | None:
        """The dim of this tensor that is bucketed, if it has one."""
        if self.indices and tensor not in self.indices:
            return None
        k = self.indices.index(tensor) if self.indices and len(self.dimensions) > 1 else 0
        if not self.indices and len(self.dimensions) > 1:
            k = tensor
        if k >= len(self.dimensions):
            return None
        return self.dimensions[k] if self.dimensions[k] < rank else None

    def gear_for(self, size: int) -> int | None:
        """The smallest gear that holds this size."""
        k = bisect.bisect_left(self.gears, size)
        return self.gears[k] if k < len(self.gears) else None


def times_gears(smallest: int, largest: int) -> tuple[int, ...]:
    """The smallest size, the powers of two in between, and the largest size."""
    powers = (2**k for k in range(largest.bit_length()))
    return tuple(sorted({smallest, *(p for p in powers if smallest < p < largest), largest}))


def check_hooks(name: str, hooks: Any) -> None:
    """Rejects hooks: a compiled graph pads nothing, so they would never be called."""
    if hooks:
        raise ValueError(
            f"option {name!r}: inputs of a graph are not padded, so hooks would never "
            "run; gex.npugraph_ex.shape_handling(fn, configs, hooks) calls them"
        )


def parse_configs(configs: Any) -> tuple[ShapeConfig, ...]:
    """The configs, checked. None: batches of 1 to 1024 in powers of two."""
    if configs is None:
        configs = [{"type": BATCH}]
    if isinstance(configs, tuple) and all(isinstance(c, ShapeConfig) for c in configs):
        return configs
    if not isinstance(configs, Sequence) or isinstance(configs, (str, bytes)):
        raise ValueError(f"shape_handling_configs must be a list of dicts, got {configs!r}")
    if not 1 <= len(configs) <= 2:
        raise ValueError(f"one or two shape handling configs, not {len(configs)}")
    parsed = tuple(_parse(config) for config in configs)
    if len({c.kind for c in parsed}) != len(parsed):
        raise ValueError(f"two shape handling configs of type {parsed[0].kind!r}; remove one")
    return parsed


def _parse(config: Any) -> ShapeConfig:
    if not isinstance(config, Mapping):
        raise ValueError(
            f"a shape handling config must be a dict, got {config!r} of {type(config)}"
        )
    for field in config:
        if field not in _FIELDS:
            close = difflib.get_close_matches(str(field), _FIELDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"unknown field {field!r} of a shape handling config{hint}")
    kind = config.get("type")
    if kind not in _LARGEST:
        raise ValueError(f"type of a shape handling config must be one of {[*_LARGEST]}: {kind!r}")
    dimensions = _ints("dimensions", config.get("dimensions", 0 if kind == BATCH else 1))
    if kind == BATCH and len(dimensions) != 1:
        raise ValueError(f"{BATCH} has one dimension, not {list(dimensions)}")
    if not dimensions or min(dimensions) < 0:
        raise RuntimeError(f"dimensions of a shape handling config must be >= 0: {dimensions}")
    value = config.get("value", 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"value of a shape handling config must be a number, got {value!r}")
    indices = _ints("indices", config.get("indices", ()))
    return ShapeConfig(kind, dimensions, indices, float(value), _gears(config, kind))


def _ints(field: str, value: Any) -> tuple[int, ...]:
    values = (value,) if isinstance(value, int) else value
    if not isinstance(values, (list, tuple)) or any(
        isinstance(v, bool) or not isinstance(v, int) for v in values
    ):
        raise ValueError(f"{field} of a shape handling config must be an int or ints: {value!r}")
    return tuple(values)


def _gears(config: Mapping[str, Any], kind: str) -> tuple[int, ...]:
    policy = config.get("policy", "TIMES")
    if policy not in ("TIMES", "CUSTOM"):
        raise ValueError(f"policy must be 'TIMES' or 'CUSTOM', got {policy!r}")
    given = config.get("gears")
    if given:
        gears = tuple(sorted(_ints("gears", given)))
        if len(set(gears)) != len(gears):
            raise RuntimeError(f"a gear is listed twice: {list(given)}")
    elif policy == "CUSTOM":
        raise ValueError("policy 'CUSTOM' needs gears")
    else:
        (low,) = _ints("min_size", config.get("min_size", 1))
        (high,) = _ints("max_size", config.get("max_size", 1024))
        if low > high:
            raise ValueError(f"min_size {low} is above max_size {high}")
        if low < 1:
            raise RuntimeError(f"min_size must be at least 1, got {low}")
        gears = times_gears(low, high)
    if len(gears) > _MAX_GEARS:
        raise RuntimeError(f"at most {_MAX_GEARS} gears, got {len(gears)}")
    if gears[0] < 1 or gears[-1] > _LARGEST[kind]:
        raise RuntimeError(f"gears of {kind} must be in [1, {_LARGEST[kind]}]: {list(gears)}")
    return gears
