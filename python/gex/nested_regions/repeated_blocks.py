"""Finds repeated blocks of a model: same class, same structure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable

from torch import nn

# Containers hold blocks and are never called themselves.
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)


def repeated_blocks(model: nn.Module) -> list[dict[str, nn.Module]]:
    """Groups of two or more equal blocks by name, outermost first; no block is inside another.

    A block contains modules: a single linear layer or activation is not worth a region.
    """
    structures: dict[nn.Module, Hashable] = {}
    _structure(model, structures)
    members: dict[Hashable, int] = defaultdict(int)
    for module, structure in structures.items():
        members[structure] += _may_be_block(module)
    groups: dict[Hashable, dict[str, nn.Module]] = defaultdict(dict)
    seen: set[nn.Module] = set()

    def visit(name: str, module: nn.Module) -> None:
        if module in seen:
            return
        seen.add(module)
        structure = structures[module]
        if name and _may_be_block(module) and members[structure] > 1:
            groups[structure][name] = module
            return
        for child_name, child in module.named_children():
            visit(f"{name}.{child_name}" if name else child_name, child)

    visit("", model)
    return [blocks for blocks in groups.values() if len(blocks) > 1]


def _may_be_block(module: nn.Module) -> bool:
    return not isinstance(module, _CONTAINERS) and any(True for _ in module.children())


def _structure(module: nn.Module, known: dict[nn.Module, Hashable]) -> Hashable:
    """Equal for modules that differ only in the contents of their tensors."""
    if module in known:
        return known[module]
    tensors = tuple(
        (name, None if t is None else (tuple(t.shape), t.dtype, t.device, t.requires_grad))
        for name, t in (*module._parameters.items(), *module._buffers.items())
    )
    children = tuple((name, _structure(child, known)) for name, child in module.named_children())
    structure = known[module] = (type(module), module.training, tensors, children)
    return structure
