"""as_strided: the one op that reads the memory of a tensor instead of its elements.

The memory belongs to the node that made it. If that node's layout is known and the window is inside
it, the window is a native gather; otherwise a call is made on the node that owns the memory, never
on a copy of a part of it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from gex._gex import Dim
from gex.errors import GraphNotSupported
from gex.importer.node_import import Env, NodeImporter, OpCall
from gex.importer.symbols import Symbols
from gex.importer.tensor_types import Layout, layout_of, storage_of

_aten = torch.ops.aten
TARGETS = {
    _aten.as_strided.default,
    _aten.as_strided_copy.default,
    _aten.as_strided_scatter.default,
}
# The offset counts from the start of the caller's memory, which only the caller's tensor knows.
_CALLERS_OFFSET = "an offset into the caller's memory"


@dataclass
class Storage:
    """The node that first owns a storage in the graph."""

    node: Node
    argument: int | None = None


def _window(
    memory: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int
) -> torch.Tensor:
    """as_strided with an offset relative to the tensor's first element."""
    return memory.as_strided(size, stride, memory.storage_offset() + offset)


def _window_inside(
    memory: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int
) -> torch.Tensor:
    """The same for a dense value of the graph: what follows it in memory belongs to other values,
    so a window that reaches beyond it is the error that eager mode raises for its storage."""
    end = offset + sum((count - 1) * step for count, step in zip(size, stride)) + 1
    if 0 not in size and (offset < 0 or end > memory.numel()):
        raise RuntimeError(
            f"as_strided: sizes {list(size)}, strides {list(stride)} and offset {offset} need "
            f"{end} elements, but the tensor has {memory.numel()}"
        )
    return _window(memory, size, stride, offset)


def _gathered(
    memory: torch.Tensor,
    order: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> torch.Tensor:
    """The same for a dense tensor with its axes in this memory order, slowest first."""
    flat = memory.permute(order).reshape(-1)
    index = _places(size, stride, offset)
    return flat[index] if len(size) else flat.select(0, index)


def _scattered(
    memory: torch.Tensor,
    source: torch.Tensor,
    order: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    offset: int,
) -> torch.Tensor:
    """Such a tensor with `source` written to the window."""
    ordered = memory.permute(order)
    places = _places(size, stride, offset) if len(size) else torch.full((), offset)
    written = ordered.reshape(-1).index_put((places,), source)
    back = sorted(range(len(order)), key=lambda axis: order[axis])
    return written.reshape(ordered.shape).permute(back)


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    index: Any = offset
    for axis, (count, step) in enumerate(zip(size, stride)):
        place = [1] * len(size)
        place[axis] = count
        index = index + (torch.arange(count) * step).view(place)
    return index


def add(nodes: NodeImporter, call: OpCall, env: Env, storages: dict[int, Storage]) -> Any:
    operand = call.args[0]
    owner = storages[storage_of(operand.meta["val"])]
    memory = owner.node.meta["val"]
    layout = layout_of(memory, nodes.symbols)
    order = layout.memory_order()
    where = f"{call.name} at {call.location or 'an unknown line'}"
    if memory.dtype != operand.meta["val"].dtype:
        raise GraphNotSupported(f"{where} reads {memory.dtype} memory as {call.val.dtype}")
    if call.target is _aten.as_strided_scatter.default:
        if owner.node is not operand or order is None:
            raise GraphNotSupported(f"{where} writes memory outside its operand")
        source, size, stride, *rest = call.args[1:]
        numbers = (size, stride, _number(rest[0] if rest else call.kwargs.get("storage_offset")))
        if numbers[2] is None or not _is_plain_window(nodes.symbols, numbers, layout):
            return nodes.add(call, env)
        if owner.argument is not None:
            return nodes.add_call(call, env, _CALLERS_OFFSET)
        scattered = (operand, source, order, *numbers)
        call = replace(call, target=_scattered, args=scattered, kwargs={}, label=call.name)
        return nodes.add(call, env)
    size, stride, *rest = call.args[1:]
    absolute = rest[0] if rest else call.kwargs.get("storage_offset")
    if absolute is not None and owner.argument is not None:
        at_owner = replace(call, args=(owner.node, size, stride, absolute), kwargs={})
        return nodes.add_call(at_owner, env, _CALLERS_OFFSET)
    if absolute is not None and _keeps_callers_offset(owner.node, storages):
        raise GraphNotSupported(f"{where} reads {_CALLERS_OFFSET}, of which a part was written")
    start = operand.meta["val"].storage_offset() if absolute is None else _number(absolute)
    offset = start - memory.storage_offset()
    numbers = (size, stride, offset)
    if order is not None and _lies_inside(nodes.symbols, numbers, layout):
        gathered = replace(call, target=_gathered, args=(owner.node, order, *numbers), kwargs={})
        return nodes.add(replace(gathered, label=call.name), env)
    if owner.argument is None and order is None:
        raise GraphNotSupported(f"{where} reads memory with gaps")
    target = _window_inside if owner.argument is None else _window
    window = replace(call, target=target, args=(owner.node, *numbers), kwargs={}, label=call.name)
    return nodes.add_call(window, env, "memory outside the tensor")


def _keeps_callers_offset(node: Node, storages: dict[int, Storage]) -> bool:
    """Whether it is a caller's tensor with an offset, after writes: as_strided_scatter's result has
    that offset when it runs, but not while it is traced."""
    while node.target is _aten.as_strided_scatter.default:
        node = node.args[0]
    fake = node.meta["val"]
    return storages[storage_of(fake)].argument is not None and fake.storage_offset() != 0


def _is_plain_window(symbols: Symbols, numbers: Sequence[Any], layout: Layout) -> bool:
    """Whether the window provably lies inside the tensor and its elements don't overlap."""
    size, stride, _ = numbers
    if not all(isinstance(number, int) for number in (*size, *stride)):
        return False
    reach = 0
    for step, count in sorted(zip(stride, size)):
        if count > 1 and step <= reach:
            return False
        reach += (count - 1) * step
    return _lies_inside(symbols, numbers, layout)


def _number(arg: Any) -> Any:
    return arg.meta["val"] if isinstance(arg, Node) else arg


def _lies_inside(symbols: Symbols, numbers: Sequence[Any], layout: Layout) -> bool:
    """Whether the window provably reads only the memory of the tensor."""
    size, stride, offset = numbers
    first = last = symbols.dim(offset)
    for count, step in zip(size, stride):
        last = last + (symbols.dim(_number(count)) - Dim(1)) * symbols.dim(_number(step))
    room = functools.reduce(operator.mul, layout.shape, Dim(1))
    return first.low >= 0 and (room - last).low > 0
