"""Device names, and the functions that take one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

Generator = torch._C.Generator
DeviceContext = torch.utils._device.DeviceContext


def register_device_module(name: str, module: Any) -> None:
    """Makes `torch.<name>` this module."""
    torch._register_device_module(name, module)


def hide_accelerator() -> None:
    """Makes PyTorch report no accelerator: it would otherwise report a renamed PrivateUse1."""
    torch._C._accelerator_getAccelerator = lambda: None


def device_constructors() -> Any:
    """PyTorch's own list of functions that take a device."""
    return torch.utils._device._device_constructors()


def keep_scriptable(function: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
    """Registers the wrapper with torch.jit, which recognises PyTorch's functions by identity."""
    builtin = torch.jit._builtins._find_builtin(function)
    if builtin is not None:
        torch.jit._builtins._register_builtin(wrapper, builtin)


def close_capture_pool(device: int, pool: Any) -> None:
    """Stops allocation from the memory pool of a failed capture."""
    for end in (torch._C._cuda_endAllocateToPool, torch._C._cuda_releasePool):
        try:
            end(device, pool)
        except RuntimeError:  # PyTorch has already done it
            continue
