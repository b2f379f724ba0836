"""Higher-order operators: nodes whose arguments contain graphs or other operators.

Each entry of `HANDLERS` imports one of them. A higher-order operator without an entry runs as a
call through PyTorch, including its graphs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from gex._gex import Value
from gex.compat.fake_tensors import detect_fake_mode
from gex.compat.operators import (
    OpOverload,
    has_registered_effect,
    run_on_bases,
    triton_kernel,
)
from gex.compat.pytree import tree_flatten, tree_unflatten
from gex.importer import control_flow, unsupported_dtypes
from gex.importer.eager_dropout import Dropout
from gex.importer.invoke_subgraph import add_invoke_subgraph
from gex.importer.node_import import Env, OpCall

if TYPE_CHECKING:
    from gex.importer.body_import import BodyImport


# Takes the importer of the current body, the node, the values of the body's nodes, and the user's
# line. Returns the value of the node.
Handler = Callable[["BodyImport", Node, Env, str], Any]


def _with_effects(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    """with_effects(token, op, *args): the op, ordered with other ops with effects."""
    _, target, *args = node.args
    results = node.meta["val"][1:]
    schema = getattr(target, "_schema", None)
    single = schema is not None and len(schema.returns) == 1
    call = OpCall(target, args, node.kwargs, results[0] if single else results, location)
    values = body.nodes.add_call(call, env, "an operator with effects", ordered=True)
    return [None, values] if single else [None, *(values or ())]


def _auto_functionalized(body: BodyImport, node: Node, env: Env, location: str) -> Any:
    """A custom operator that writes its arguments: a call on copies, with the operator's name."""
    call = replace(OpCall.of(node, location), label=str(node.args[0]))
    return body.nodes.add_call(call, env, "a custom operator that writes its arguments")


def _run_in_place(bases: list[torch.Tensor], op: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The operator's results, then the tensors that it writes."""
    given = run_on_bases(op, bases, kwargs)
    return tuple(given[: len(given) - len(bases)])


def _auto_functionalized_v2(body: BodyImport, node: Node, env: Env, location: str) -> Any:
    """The same in place, if the old contents are not read later."""
    op, val = node.args[0], node.meta["val"]
    kwargs = dict(node.kwargs)
    bases = kwargs.pop("_all_bases", [])
    plain = isinstance(op, OpOverload) and all(
        isinstance(base, Node)
        and isinstance(env.get(base), Value)
        and not unsupported_dtypes.is_represented(base.meta["val"])
        for base in bases
    )
    if not plain or not bases or len(val) <= len(bases):
        return _auto_functionalized(body, node, env, location)
    call = OpCall(_run_in_place, (bases, op, kwargs), {}, val, location, label=str(op))
    reason = "a custom operator that writes its arguments"
    ordered = has_registered_effect(op)
    return body.nodes.add_writing_call(call, bases, env, reason, ordered)


def _triton_kernel(body: BodyImport, node: Node, env: Env, location: str) -> dict[str, Any]:
    """A launch of a user's Triton kernel: a call on copies of the tensors that it writes."""
    leaves, spec = tree_flatten(dict(node.kwargs))
    given = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Node)]
    names, results = list(node.meta["val"]), list(node.meta["val"].values())

    def launch(*values: Any) -> tuple[torch.Tensor, ...]:
        filled = list(leaves)
        for i, value in zip(given, values, strict=True):
            filled[i] = value
        written = node.target(**tree_unflatten(filled, spec))
        return tuple(written[name] for name in names)

    kernel = triton_kernel(node.kwargs["kernel_idx"])
    label = f"Triton kernel {getattr(getattr(kernel, 'fn', kernel), '__name__', kernel)}"
    call = OpCall(launch, [leaves[i] for i in given], {}, results, location, label=label)
    values = body.nodes.add_call(call, env, "a Triton kernel")
    return dict(zip(names, values, strict=True))


# --- recomputed random numbers ----------------------------------------------------------------


def _save_state_and_run(op: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    state = torch.get_rng_state()
    result = op(*args, **kwargs)
    return (state, *result) if isinstance(result, (list, tuple)) else (state, result)


def _run_with_state(state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(state)
        return op(*args, **kwargs)


def _fake_result(op: Any, args: Any, kwargs: Any) -> Any:
    """The fake result of an op, because these nodes have no fake value themselves."""
    fakes, fake_kwargs = torch.fx.map_arg((tuple(args), dict(kwargs)), lambda n: n.meta.get("val"))
    with detect_fake_mode(fakes) or contextlib.nullcontext():
        return op(*fakes, **fake_kwargs)


def _run_and_save_rng_state(body: BodyImport, node: Node, env: Env, location: str) -> list[Any]:
    """(op, *args) -> (state of the generator before, result)."""
    op, *args = node.args
    val = _fake_result(op, args, node.kwargs)
    results = list(val) if isinstance(val, (list, tuple)) else [val]
    state = next(user.meta["val"] for user in node.users if user.args[1] == 0)
    call = OpCall(
        _save_state_and_run, node.args, node.kwargs, [state, *results], location, label=str(op)
    )
    dropout = Dropout.of(body.nodes, op, args, val, env)
    if dropout is not None:
        call = replace(call, args=dropout.draw, kwargs={}, val=[state, dropout.mask])
        saved, kept = body.nodes.add_draw(call, env)
        return [saved, dropout.results(body.nodes, kept, call)]
    saved, *values = body.nodes.add_draw(call, env)
    return [saved, values if isinstance(val, (list, tuple)) else values[0]]


def _run_with_rng_state(body: BodyImport, node: Node, env: Env, location: str) -> Any:
    """(state, op, *args) -> result; restores the generator."""
    state, op, *args = node.args
    val = _fake_result(op, args, node.kwargs)
    call = OpCall(_run_with_state, node.args, node.kwargs, val, location, label=str(op))
    dropout = Dropout.of(body.nodes, op, args, val, env)
    if dropout is None:
        return body.nodes.add_draw(call, env)
    call = replace(call, args=(state, *dropout.draw), kwargs={}, val=dropout.mask)
    return dropout.results(body.nodes, body.nodes.add_draw(call, env), call)


_BY_NAME: dict[str, Handler] = {
    "auto_functionalized": _auto_functionalized,
    "auto_functionalized_v2": _auto_functionalized_v2,
    "cond": control_flow.add_cond,
    "invoke_subgraph": add_invoke_subgraph,
    "map_impl": control_flow.add_map,
    "run_and_save_rng_state": _run_and_save_rng_state,
    "run_with_rng_state": _run_with_rng_state,
    "scan": control_flow.add_scan,
    "triton_kernel_wrapper_functional": _triton_kernel,
    "while_loop": control_flow.add_while_loop,
    "with_effects": _with_effects,
}
# Not every version of PyTorch has all of them.
HANDLERS: dict[Any, Handler] = {
    getattr(torch.ops.higher_order, name): handler
    for name, handler in _BY_NAME.items()
    if hasattr(torch.ops.higher_order, name)
}
