"""The device of a graph: that of its tensors."""

from __future__ import annotations

import torch
from torch.fx import GraphModule

from gex.errors import GraphNotSupported

CPU = torch.device("cpu")


def device_of(gm: GraphModule) -> torch.device:
    """The CUDA device of the graph's tensors if there is one, else the CPU.

    A program has one device: tensors on two CUDA devices are not supported.
    """
    found: dict[torch.device, str] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and item.device.type == "cuda":
                found.setdefault(item.device, node.name)
    if len(found) > 1:
        where = ", ".join(f"{name} on {device}" for device, name in found.items())
        raise GraphNotSupported(f"tensors on several devices ({where})")
    return next(iter(found), CPU)


def is_same_device(named: object, device: torch.device) -> bool:
    """Whether an argument names the device of the graph. Without an index it means the current
    device, which is the graph's."""
    if not isinstance(named, torch.device):
        return False
    return named.type == device.type and named.index in (None, device.index)


def target_of(device: torch.device) -> str:
    """The engine's name of a device."""
    return "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"
