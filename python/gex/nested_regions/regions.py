"""`gex.regions(model)`: repeated blocks of a model are traced once, not once each.

Each block's forward becomes a nested compile region of PyTorch. A block that can't be one gets its
original forward back while Dynamo traces it, and the trace restarts: the compile succeeds as it
would without regions, and `Regions.reasons` and the report of the graph say why.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from gex.nested_regions.groups import Group, is_region, traced_forwards
from gex.nested_regions.repeated_blocks import repeated_blocks


@dataclass
class Regions:
    """The regions that `gex.regions` made in a model. As a context it undoes them on exit."""

    groups: list[Group] = field(default_factory=list)

    @property
    def blocks(self) -> list[str]:
        """Names of the blocks that are regions now."""
        return [
            name
            for group in self.groups
            for name, block in group.blocks.items()
            if is_region(block)
        ]

    @property
    def reasons(self) -> dict[str, str]:
        """Classes of repeated blocks that can't be regions, and why."""
        return {g.class_name: g.reason for g in self.groups if g.reason is not None}

    def undo(self) -> None:
        """Restores the forward of every block. Compiled functions stay valid."""
        for group in self.groups:
            group.restore_forward()

    def __enter__(self) -> Regions:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __str__(self) -> str:
        if not self.groups:
            return "no repeated blocks"
        lines = []
        for group in self.groups:
            what = f"{group.class_name} x{len(group.blocks)}"
            became = f"no regions: {group.reason}" if group.reason else "regions"
            lines.append(f"{what} ({next(iter(group.blocks))}, ...): {became}")
        return "\n".join(lines)


def regions(model: nn.Module) -> Regions:
    """Makes the repeated blocks of a model nested compile regions, until undone.

    Blocks repeat if they have the same class and structure. Their arguments are compared when the
    model is compiled; blocks whose arguments differ fall back.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"gex.regions takes a module, got {model!r} of {type(model)}")
    found = Regions(_groups(model, 2))
    for group in found.groups:
        if group.reason is None:
            forward = _forward_of(group)
            for block in group.blocks.values():
                block.forward = types.MethodType(forward, block)
    return found


def regions_of_trace(model: nn.Module, at_least: int) -> Regions:
    """As `regions`, for groups of at least this many blocks and only inside Dynamo: no block is
    modified."""
    # Blocks that are regions already, because gex.regions made them so, are left as they are.
    found = Regions([group for group in _groups(model, at_least) if group.reason is None])
    for group in found.groups:
        forward = _forward_of(group)
        traced_forwards.update((block, forward) for block in group.blocks.values())
    return found


def _groups(model: nn.Module, at_least: int) -> list[Group]:
    groups = [
        Group(type(next(iter(blocks.values()))).__name__, blocks)
        for blocks in repeated_blocks(model)
        if len(blocks) >= at_least
    ]
    for group in groups:
        group.reason = _why_not(group)
    return groups


def _forward_of(group: Group) -> Callable[..., Any]:
    from gex.nested_regions.region_forward import region_forward

    return region_forward(group)


def _why_not(group: Group) -> str | None:
    """The reason why blocks can't be regions that is known before tracing; None if there is
    none."""
    if any("forward" in vars(block) for block in group.blocks.values()):
        return "its forward was already replaced"
    original = type(next(iter(group.blocks.values()))).forward
    if not isinstance(original, types.FunctionType):
        return "its forward is not a Python function"
    try:
        from gex.nested_regions import dynamo_trace
    except (ImportError, AttributeError):
        return f"PyTorch {torch.__version__} does not trace regions once"
    dynamo_trace.install()
    return None
