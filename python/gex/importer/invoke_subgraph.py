"""invoke_subgraph: a body that the graph calls several times is imported once and copied to each
call.

Its kernels are compiled once too: equal kernels of a program share their code.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from gex._gex import Dim, Importer, Type, Value
from gex.errors import GraphNotSupported
from gex.fx_stage.module_paths import ModuleMove, module_of
from gex.importer.node_import import Env, NodeImporter, NotNative
from gex.importer.outcome import ImportOutcome
from gex.importer.tensor_types import storage_of

if TYPE_CHECKING:
    from gex.importer.body_import import BodyImport

_INVOKE = torch.ops.higher_order.invoke_subgraph


def add_invoke_subgraph(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    """invoke_subgraph(graph, identifier, *operands)."""
    callee, identifier, *operands = node.args
    gm: GraphModule = env[callee]
    regions = body.nodes.outcome.regions
    regions[str(identifier)] += 1
    if regions[str(identifier)] > 1 and _binds_sizes(gm):
        raise GraphNotSupported(f"{identifier} is called twice and has data-dependent sizes")
    _check_sizes(body, gm, node, operands)
    values = [env.get(o) if isinstance(o, Node) else o for o in operands]
    if gm not in body.nodes.bodies:
        body.nodes.bodies[gm] = _imported_body(body, gm, values, location)
    known: _Body | None = body.nodes.bodies[gm]
    # The body was traced for the module of its first call.
    traced_for = body.nodes.body_modules.setdefault(gm, module_of(location))
    moved = ModuleMove(traced_for, module_of(location))
    if known is None or not known.takes(values):
        # Other calls of the body have their own memory.
        return body.inside(body.nodes, moved).add_graph(gm, values, location)
    return known.copy_to(body.nodes, values, moved)


@dataclass
class _Body:
    """A body as a separate graph: its inputs are the tensor operands."""

    importer: Importer
    counts: ImportOutcome
    is_tensor: list[bool]  # for each operand
    results: list[int | None]  # graph output of each result

    def takes(self, values: list[Any]) -> bool:
        return self.is_tensor == [isinstance(v, Value) for v in values]

    def copy_to(self, nodes: NodeImporter, values: list[Any], moved: ModuleMove) -> list[Any]:
        inputs = [v for v in values if isinstance(v, Value)]
        outputs = nodes.importer.add_copy_of(self.importer, inputs, moved.old, moved.new)
        nodes.outcome.count(self.counts)
        return [None if at is None else outputs[at] for at in self.results]


def _imported_body(
    body: BodyImport, gm: GraphModule, values: list[Any], location: str
) -> _Body | None:
    """None if it contains calls through PyTorch, whose order is kept in one graph only."""
    importer = Importer("region")
    inside = body.inside(body.nodes.native_only_in(importer))
    inputs = [
        importer.add_input(Type(value.type.dtype, value.type.shape), placeholder.name)
        if isinstance(value, Value)
        else value
        for placeholder, value in zip(gm.graph.find_nodes(op="placeholder"), values)
    ]
    try:
        results = inside.add_graph(gm, inputs, location)
    except NotNative:
        return None
    outputs = [importer.add_output(r) if isinstance(r, Value) else None for r in results]
    is_tensor = [isinstance(value, Value) for value in values]
    return _Body(importer, inside.nodes.outcome, is_tensor, outputs)


def _binds_sizes(gm: GraphModule) -> bool:
    """Whether sizes inside the body are new at each call; the trace has names for one call only."""
    return any(node.meta.get("unbacked_bindings") for node in gm.graph.nodes)


def _check_sizes(body: BodyImport, gm: GraphModule, node: Node, operands: list[Any]) -> None:
    """Checks that sizes equal those of the first call, which the body was traced for."""
    symbols = body.nodes.symbols
    for placeholder, operand in zip(gm.graph.find_nodes(op="placeholder"), operands, strict=True):
        inside = _sizes(symbols, placeholder.meta.get("val"))
        outside = _sizes(symbols, _val(operand))
        if inside != outside:
            raise GraphNotSupported(
                f"{node.name} passes {placeholder.name} with sizes {outside}, traced for {inside}"
            )


def _val(operand: Any) -> Any:
    return operand.meta.get("val") if isinstance(operand, Node) else operand


def _sizes(symbols: Any, val: Any) -> list[Dim]:
    if isinstance(val, torch.Tensor):
        return symbols.dims(val.shape)
    is_size = isinstance(val, (torch.SymInt, int)) and not isinstance(val, bool)
    return [symbols.dim(val)] if is_size else []


# --- the memory of results ------------------------------------------------------------------


def give_results_own_memory(gm: GraphModule) -> None:
    """Gives the fake results of calls separate memory, as the real ones have.

    The partitioner gives every call of a body the fakes of the body itself: results of different
    calls then seem to share memory with each other and with the operands of the first call.
    """
    calls = gm.graph.find_nodes(op="call_function", target=_INVOKE)
    if not calls or not _memory_is_confused(gm, calls):
        return
    for call in calls:
        body = operator.attrgetter(call.args[0].target)(gm)
        give_results_own_memory(body)
        with _fakes_without_guards(call):
            _give_own_memory(call, body)


def _results_of(call: Node) -> Iterator[Node]:
    for user in call.users:
        if user.target is operator.getitem and isinstance(user.meta.get("val"), torch.Tensor):
            yield user


def _memory_is_confused(gm: GraphModule, calls: list[Node]) -> bool:
    """Whether some result seems to be in memory that its call could not access."""
    owners: dict[int, Node] = {}
    for node in gm.graph.find_nodes(op="placeholder"):
        if isinstance(node.meta.get("val"), torch.Tensor):
            owners[storage_of(node.meta["val"])] = node
    for call in calls:
        operands = {storage_of(v) for v in map(_val, call.args[2:]) if isinstance(v, torch.Tensor)}
        for result in _results_of(call):
            key = storage_of(result.meta["val"])
            if key not in operands and owners.setdefault(key, call) is not call:
                return True
    return False


def _give_own_memory(call: Node, body: GraphModule) -> None:
    outside: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # by storage: in the body, here
    for placeholder, operand in zip(body.graph.find_nodes(op="placeholder"), call.args[2:]):
        inner, outer = placeholder.meta.get("val"), _val(operand)
        if isinstance(inner, torch.Tensor) and isinstance(outer, torch.Tensor):
            outside.setdefault(storage_of(inner), (inner, outer))
    outputs = body.graph.output_node().args[0]
    for result in _results_of(call):
        inner = outputs[result.args[1]].meta["val"]
        of_body, here = outside.get(storage_of(inner), (None, None))
        if of_body is None:
            fresh = torch.empty_strided(
                inner.shape, inner.stride(), dtype=inner.dtype, device=inner.device
            )
            outside[storage_of(inner)] = inner, fresh
            result.meta["val"] = fresh
        elif inner is of_body:
            result.meta["val"] = here
        elif inner.dtype == here.dtype:
            offset = inner.storage_offset() - of_body.storage_offset() + here.storage_offset()
            result.meta["val"] = here.as_strided(inner.shape, inner.stride(), offset)
        else:
            raise GraphNotSupported(f"{result.name} views {here.dtype} memory as {inner.dtype}")


@contextlib.contextmanager
def _fakes_without_guards(call: Node) -> Iterator[None]:
    mode = next(v for v in map(_val, call.args[2:]) if hasattr(v, "fake_mode")).fake_mode
    shape_env = mode.shape_env
    with mode, contextlib.nullcontext() if shape_env is None else shape_env.suppress_guards():
        yield
