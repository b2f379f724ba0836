"""Checks that every scope entered in a graph is left in the same graph."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from gex.fx_stage.scope_ops import (
    SCOPE_ENTER,
    SCOPE_EXIT,
    SCOPE_LEAVE,
    SUPER_KERNEL_BEGIN,
    SUPER_KERNEL_END,
)

_WHY = "a scope must be entered and left in the same graph; a graph break between may be the cause"


def check_pairs(gm: GraphModule) -> None:
    """Raises RuntimeError for an unpaired scope, naming the node."""
    _check_scopes(gm)
    _check_super_kernels(gm)


def _check_scopes(gm: GraphModule) -> None:
    entered: list[Node] = []
    for node in gm.graph.nodes:
        if node.target is SCOPE_ENTER:
            entered.append(node)
        elif node.target in (SCOPE_EXIT, SCOPE_LEAVE):
            if not entered:
                raise RuntimeError(
                    f"scope_exit {node.name!r} has no matching scope_enter before it: {_WHY}"
                )
            entered.pop()
    if entered:
        labels = [f"{n.name!r} ({_labels(n)})" for n in entered]
        raise RuntimeError(f"scope_enter {', '.join(labels)} has no matching scope_exit: {_WHY}")


def _labels(node: Node) -> str:
    keys, values = node.args[0], node.args[1]
    return ", ".join(f"{key}={value}" for key, value in zip(keys, values))


def _check_super_kernels(gm: GraphModule) -> None:
    """Super kernel scopes are matched by name."""
    begun: dict[str | None, list[Node]] = {}
    for node in gm.graph.nodes:
        if node.target not in (SUPER_KERNEL_BEGIN, SUPER_KERNEL_END):
            continue
        label = node.args[0] if node.args else node.kwargs.get("scope_name")
        open_nodes = begun.setdefault(label, [])
        if node.target is SUPER_KERNEL_BEGIN:
            open_nodes.append(node)
        elif not open_nodes:
            raise RuntimeError(
                f"super_kernel_scope_end({label!r}) {node.name!r} has no matching "
                f"super_kernel_scope_begin({label!r}): {_WHY}"
            )
        else:
            open_nodes.pop()
    for label, nodes in begun.items():
        if nodes:
            raise RuntimeError(
                f"super_kernel_scope_begin({label!r}) {nodes[0].name!r} has no matching "
                f"super_kernel_scope_end({label!r}): {_WHY}"
            )
