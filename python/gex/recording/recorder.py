"""Records the operators that run while it is active, as an FX graph over their tensors.

The operators do run once while they are recorded, because new tensors need memory; the previous
contents of tensors from outside are restored at the end.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from gex.compat.fake_tensors import TorchDispatchMode
from gex.compat.pytree import tree_leaves, tree_map_only
from gex.recording import updates

_aten = torch.ops.aten
# These return a value to the host, which a replay can't do in the middle.
_TO_HOST = {
    _aten._local_scalar_dense.default,
    _aten.item.default,
    _aten.nonzero.default,
    _aten.equal.default,
    _aten.is_nonzero.default,
}


@dataclass
class Recording:
    """A graph without results: it only writes into the tensors that it is given."""

    module: GraphModule
    inputs: list[torch.Tensor]
    written: list[torch.Tensor] = field(default_factory=list)  # memory from outside, as bytes
    updatable: list[updates.UpdatableCall] = field(default_factory=list)
    drawing: list[updates.UpdatableCall] = field(default_factory=list)  # kept alive, not updatable


class Recorder(TorchDispatchMode):
    """With `dispatch_updates` host arguments of updatable operators can be changed later.

    Random numbers may be drawn from the `generators`.
    """

    def __init__(
        self, dispatch_updates: bool = False, generators: Sequence[torch.Generator] = ()
    ) -> None:
        super().__init__()
        self._dispatch_updates = dispatch_updates
        self._generators = generators
        self._drawing: list[updates.UpdatableCall] = []
        self._group: list[updates.UpdatableCall] | None = None
        self._updatable: list[updates.UpdatableCall] = []
        self._graph = Graph()
        self._nodes: dict[int, Node] = {}  # by id of the tensor
        self._outside: list[torch.Tensor] = []
        self._outside_memory: set[int] = set()
        self._made: list[torch.Tensor] = []  # kept alive, so that no id or address is reused
        self._layouts: dict[tuple[Any, ...], Node] = {}  # nodes of made tensors
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        if func is _aten.native_batch_norm.default and args[3] is not None:
            func = _aten._native_batch_norm_legit.default  # its schema declares what it writes
        if func in _TO_HOST:
            raise RuntimeError(
                f"{func} returns a value to the host, which a recorded graph can't do: read it "
                "after the replay, or split the recording there"
            )
        if self._dispatch_updates and updates.handler_of(func) is not None:
            return self._record_updatable(func, args, kwargs)
        if self._group is not None and not func.is_view:
            call = updates.open_call(func, args, kwargs)
            self._group.append(call)
            self._updatable.append(call)
            return self._record_call(call, func, args, kwargs)
        if self._draws_from_a_generator(func, args, kwargs):
            call = updates.UpdatableCall(func, args, kwargs)
            self._drawing.append(call)
            return self._record_call(call, func, args, kwargs)
        operands = tree_map_only(torch.Tensor, self._node_of, (list(args), kwargs))
        self._keep_contents(func, args, kwargs)
        results = func(*args, **kwargs)
        node = self._graph.call_function(func, tuple(operands[0]), operands[1])
        self._name_results(node, results)
        return results

    def _record_updatable(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        handler = updates.handler_of(func)
        assert handler is not None
        func, args, kwargs = handler.prepare_capture(func, args, kwargs)
        call = updates.make_call(func, args, kwargs)
        self._updatable.append(call)
        results = self._record_call(call, func, args, kwargs)
        return handler.postprocess_result(results, kwargs)

    def _draws_from_a_generator(
        self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> bool:
        """Whether it draws from a generator other than PyTorch's own, which a graph can't
        contain."""
        for value in (*args, *kwargs.values()):
            if isinstance(value, torch.Generator):
                if value._cdata not in {generator._cdata for generator in self._generators}:
                    raise RuntimeError(
                        f"{func} draws from a generator that is not registered with this graph: "
                        "call register_generator_state() before the capture"
                    )
                return True
        return False

    def _record_call(
        self, call: updates.UpdatableCall, func: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Any:
        operands = [self._node_of(tensor) for tensor in call.tensors]
        self._keep_contents(func, args, kwargs)
        results = func(*args, **kwargs)
        fresh, written = call.finish(results)
        node = self._graph.call_function(updates.UPDATABLE_CALL, (operands, call.number))
        self._name_results(node, fresh)
        for number, tensor in enumerate(written, len(fresh)):
            contents = self._graph.call_function(operator.getitem, (node, number))
            self._graph.call_function(_aten.copy_.default, (self._node_of(tensor), contents))
        return results

    def begin_group(self) -> None:
        if self._group is not None:
            raise RuntimeError("a task group is already open: call graph_task_group_end() first")
        self._group = []

    def end_group(self) -> list[updates.UpdatableCall]:
        if self._group is None:
            raise RuntimeError("graph_task_group_end() without graph_task_group_begin()")
        group, self._group = self._group, None
        return group

    def finish(self) -> Recording:
        """The recording, with the made tensors that are still alive."""
        self.restore()
        held = [(weakref.ref(tensor), self._nodes[id(tensor)]) for tensor in self._made]
        self._made.clear()
        inputs = list(self._outside)
        for reference, node in held:
            tensor = reference()
            if tensor is None or tensor.numel() == 0 or _memory(tensor) in self._outside_memory:
                continue
            written = self._placeholder(len(inputs))
            self._graph.call_function(_aten.copy_.default, (written, node))
            inputs.append(tensor)
        self._graph.output(())
        module = GraphModule(torch.nn.Module(), self._graph)
        written = [whole for whole, _ in self._before.values()]
        return Recording(module, inputs, written, self._updatable, self._drawing)

    def restore(self) -> None:
        """Restores the contents of tensors from outside."""
        with torch.no_grad():
            for whole, contents in self._before.values():
                whole.copy_(contents)

    def _placeholder(self, number: int) -> Node:
        """The next placeholder, after the existing ones."""
        first = next((n for n in self._graph.nodes if n.op != "placeholder"), None)
        with self._graph.inserting_before(first) if first else contextlib.nullcontext():
            return self._graph.placeholder(f"tensor_{number}")

    def _node_of(self, tensor: torch.Tensor) -> Node:
        """Autograd may return other tensors that share the memory of a made one."""
        node = self._nodes.get(id(tensor)) or self._layouts.get(_layout(tensor))
        if node is None:
            node = self._placeholder(len(self._outside))
            self._outside.append(tensor)
            self._outside_memory.add(_memory(tensor))
            self._nodes[id(tensor)] = node
        return node

    def _keep_contents(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Saves the contents of outside tensors that are about to be written."""
        for number, argument in enumerate(func._schema.arguments):
            if argument.alias_info is None or not argument.alias_info.is_write:
                continue
            given = args[number] if number < len(args) else kwargs.get(argument.name)
            for tensor in tree_leaves(given):
                if isinstance(tensor, torch.Tensor) and _memory(tensor) in self._outside_memory:
                    self._keep(tensor)

    def _keep(self, tensor: torch.Tensor) -> None:
        if _memory(tensor) not in self._before:
            storage = tensor.untyped_storage()
            whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
            self._before[_memory(tensor)] = (whole, whole.clone())

    def _name_results(self, node: Node, results: Any) -> None:
        if isinstance(results, tuple | list):
            for number, result in enumerate(results):
                self._name_results(
                    self._graph.call_function(operator.getitem, (node, number)), result
                )
        # An in-place operator returns its argument.
        elif isinstance(results, torch.Tensor) and id(results) not in self._nodes:
            self._nodes[id(results)] = node
            self._made.append(results)
            if _memory(results) not in self._outside_memory:
                self._layouts.setdefault(_layout(results), node)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (
        _memory(tensor),
        tensor.dtype,
        tensor.storage_offset(),
        tuple(tensor.shape),
        tuple(tensor.stride()),
    )
