"""Regions of blocks that take a KV cache of transformers.

A region takes and returns tensors. So the tensors of the block's own cache layer are passed in,
the block updates a copy of that layer inside, and its new tensors are stored in the real one.

Dynamo traces the functions below once for each block, so they are kept short.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from torch import nn

INDEX = "layer_idx"  # the attribute in which transformers stores the index of a layer
WITH_CACHE = "__gex_region_with_cache__"  # attribute of functions that `region_body` made
_ARGUMENTS = ("past_key_values", "past_key_value")
_MODULE = "transformers.cache_utils"
_CACHES = ("DynamicCache", "StaticCache")
_GROWING, _IN_PLACE = "DynamicLayer", "StaticLayer"  # classes of cache layers
_numbers = itertools.count()


class LayerIndex:
    """The value of `layer_idx` inside a region: the same for every block, so it can't be used."""


class BlockCache:
    """The cache that a block gets inside a region: it has only the layer of that block."""

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def update(self, keys: Any, values: Any, layer_idx: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(layer_idx, LayerIndex):
            raise TypeError("it updates the cache of another layer")
        return self.layer.update(keys, values, *args, **kwargs)


def cache_name(block: nn.Module) -> str:
    """The name of the keyword argument for the cache of a block; "" if it takes none."""
    parameters = inspect.signature(type(block).forward).parameters
    return next((name for name in _ARGUMENTS if name in parameters), "")


def index_path(block: nn.Module) -> tuple[str, ...]:
    """The attributes that lead to the layer index of a block; () if it has none or several."""
    found = {
        (*name.split("."), INDEX) if name else (INDEX,): vars(module)[INDEX]
        for name, module in block.named_modules()
        if isinstance(vars(module).get(INDEX), int)
    }
    return next(iter(found)) if len(set(found.values())) == 1 else ()


# --- traced by Dynamo ---------------------------------------------------------------------------


def cache_layer(cache: Any, block: nn.Module, index_path: Sequence[str]) -> Any:
    """The cache layer that a block updates; None if its class is not supported."""
    if type(cache).__name__ not in _CACHES or type(cache).__module__ != _MODULE or cache.offloading:
        return None
    index: Any = block
    for name in index_path:
        index = getattr(index, name)
    if cache.layer_class_to_replicate is not None:
        while len(cache.layers) <= index:
            cache.layers.append(cache.layer_class_to_replicate())
    layer = cache.layers[index]
    if type(layer).__name__ == _GROWING or (
        type(layer).__name__ == _IN_PLACE and layer.is_initialized
    ):
        return layer
    return None


def call_with_layer(
    region: Callable[..., Any], block: nn.Module, layer: Any, args: Any, kwargs: dict[str, Any]
) -> Any:
    """Calls the region of a block with the tensors of its cache layer and stores the new ones."""
    if type(layer).__name__ == _IN_PLACE:
        state = (layer.keys, layer.values, layer.cumulative_length)
        result, keys, values, length = region(block, *state, *args, **kwargs)
        layer.keys.copy_(keys)
        layer.values.copy_(values)
        layer.cumulative_length.copy_(length)
        return result
    result, keys, values = region(block, layer.keys, layer.values, None, *args, **kwargs)
    if not layer.is_initialized:
        layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
    layer.keys, layer.values = keys, values
    return result


def region_body(original: Callable[..., Any], cache_name: str) -> Callable[..., Any]:
    """The region of blocks with this forward: the result, then the tensors of the cache layer."""

    def body(
        block: nn.Module, keys: Any, values: Any, length: Any, *args: Any, **kwargs: Any
    ) -> Any:
        kind = getattr(sys.modules[_MODULE], _GROWING if length is None else _IN_PLACE)
        layer = kind.__new__(kind)
        layer.is_initialized = keys is not None
        if keys is not None:
            layer.dtype, layer.device = keys.dtype, keys.device
        if length is None:
            layer.keys, layer.values = keys, values
        else:
            layer.keys, layer.values = keys.clone(), values.clone()
            layer.cumulative_length = length.clone()
        kwargs[cache_name] = BlockCache(layer)
        result = original(block, *args, **kwargs)
        if length is None:
            return result, layer.keys, layer.values
        return result, layer.keys, layer.values, layer.cumulative_length

    # Dynamo caches regions by their code object: each group of blocks has its own.
    body.__code__ = body.__code__.replace(co_name=f"region_{next(_numbers)}")
    setattr(body, WITH_CACHE, True)
    return body
