"""The forward of blocks that are regions."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from gex.compat.dynamo_regions import REUSES_TRACES
from gex.nested_regions import cache_objects
from gex.nested_regions.dynamo_trace import FLOATS_AS_CONSTANTS, MAX_VARIANTS
from gex.nested_regions.groups import GROUP, Group


def region_forward(group: Group) -> Callable[..., Any]:
    """Calls the region if Dynamo is tracing, else the block's own forward."""
    first = next(iter(group.blocks.values()))
    original = type(first).forward
    region = _marked(_copy(original), group)
    cache_name = cache_objects.cache_name(first)
    region_with_cache = _marked(cache_objects.region_body(_copy(original), cache_name), group)
    index_path = cache_objects.index_path(first)
    takes_cache = bool(cache_name and index_path)

    @functools.wraps(original)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_dynamo_compiling():
            return original(self, *args, **kwargs)
        with FLOATS_AS_CONSTANTS:
            if takes_cache and kwargs.get(cache_name) is not None:
                layer = cache_objects.cache_layer(kwargs[cache_name], self, index_path)
                if layer is not None:
                    del kwargs[cache_name]
                    return cache_objects.call_with_layer(
                        region_with_cache, self, layer, args, kwargs
                    )
            return region(self, *args, **kwargs)

    setattr(forward, GROUP, group)
    return forward


def _copy(function: types.FunctionType) -> types.FunctionType:
    """Attributes are set on a copy of the function, so that other models of the class are not
    affected."""
    own = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    own.__kwdefaults__ = function.__kwdefaults__
    return own


def _marked(function: Callable[..., Any], group: Group) -> Callable[..., Any]:
    setattr(function, GROUP, group)
    limit = {"max_reuse_entries": MAX_VARIANTS} if REUSES_TRACES else {}
    return torch.compiler.nested_compile_region(function, **limit)
