"""The option `enable_shape_handling`: dims with varying sizes become symbols of the graph.

Other engines pad such dims up to a bucket, because each size costs a compile. Here one graph runs
every size, so nothing is padded, split or trimmed: a size that Dynamo treated as a constant is
traced again as a symbol, and later sizes compile nothing.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule

from gex.compat.torch_version import DYNAMIC_MARK, mark_dynamic
from gex.compat.tracing import RestartTrace, forget_speculations
from gex.options.shape_handling import ShapeConfig

if TYPE_CHECKING:
    from gex.dynamo.frame_origin import Origin

_ongoing = threading.local()  # .origin and .marked: of the trace that was started over


def trace_sizes_as_symbols(
    gm: GraphModule, configs: Sequence[ShapeConfig], origin: Origin | None
) -> None:
    """Makes Dynamo restart if a configured dim of an input is constant but may change."""
    if origin is None:
        return
    if _take_marks() is origin.code:
        return  # sizes that are still constant were specialised by the function itself
    marked: list[torch.Tensor] = []
    for tensor, dim in _numbers(gm, configs, origin):
        mark_dynamic(tensor, [dim])
        if not any(tensor is other for other in marked):
            marked.append(tensor)
    if marked:
        _ongoing.code, _ongoing.marked = origin.code, marked
        # The next trace may take a different path through the function.
        forget_speculations()
        raise RestartTrace(restart_reason="sizes of shape handling become symbols")


def _take_marks() -> Any:
    """The function whose trace was restarted, if any; clears its marks."""
    for tensor in getattr(_ongoing, "marked", ()):
        delattr(tensor, DYNAMIC_MARK)
    code = getattr(_ongoing, "code", None)
    _ongoing.code, _ongoing.marked = None, ()
    return code


def _numbers(
    gm: GraphModule, configs: Sequence[ShapeConfig], origin: Origin
) -> Iterator[tuple[torch.Tensor, int]]:
    for i, (tensor, traced) in enumerate(_arguments(gm, origin)):
        for config in configs:
            dim = config.dim_of(i, tensor.dim())
            if dim is None or isinstance(traced.shape[dim], torch.SymInt):
                continue
            if tensor.shape[dim] > 1:  # Dynamo always specialises 0 and 1
                yield tensor, dim


def _arguments(gm: GraphModule, origin: Origin) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Tensor arguments of the call, real and traced, in the order of the function's arguments."""
    order = [name for name in origin.code.co_varnames if name != "self"]
    found = []
    for node in gm.graph.find_nodes(op="placeholder"):
        argument = node.meta.get("grapharg")
        if argument is None or not isinstance(argument.example, torch.Tensor):
            continue
        tensor = argument.example
        is_state = hasattr(tensor, "_dynamo_static_input_type")
        local = re.match(r"L\['(\w+)'\]", argument.source.name)
        if is_state or isinstance(tensor, torch.nn.Parameter) or local is None:
            continue
        if local[1] in order:
            found.append((order.index(local[1]), tensor, argument.fake_tensor))
    return [(tensor, traced) for _, tensor, traced in sorted(found, key=lambda f: f[0])]
