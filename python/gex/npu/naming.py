"""Makes PyTorch accept devices named "npu"."""

from __future__ import annotations

import sys
from typing import Any

import torch

from gex.compat import devices as devices_of_torch
from gex.compat import dynamo
from gex.npu.devices import NAME, Devices
from gex.npu.namespace import Namespace


def introduce(devices: Devices, npu: Namespace) -> None:
    """Makes `torch.device("npu:0")` and `torch.npu` work.

    On the CPU the name is that of PrivateUse1, PyTorch's device type for extensions. But PyTorch
    treats a renamed PrivateUse1 as the machine's accelerator, which would displace CUDA: there
    `torch.device("npu:0")` simply becomes `cuda:0`.
    """
    if devices.is_cpu:
        torch.utils.rename_privateuse1_backend(NAME)
        devices_of_torch.register_device_module(NAME, npu)
        devices_of_torch.hide_accelerator()
    else:
        # Dynamo identifies the types of constants by identity, so it must be loaded with the
        # original.
        dynamo.load()
        torch.device = _stand_in(devices, torch.device)
        torch.npu = npu
        sys.modules[f"torch.{NAME}"] = npu


def _stand_in(devices: Devices, original: type) -> type:
    """A class that creates and recognises devices like the original, and translates the name."""

    class DeviceType(type):
        def __call__(cls, *args: Any, **kwargs: Any) -> torch.device:
            if args and isinstance(args[0], str):
                args = (devices.translated_name(args[0]), *args[1:])
            if "type" in kwargs:
                kwargs["type"] = devices.translated_name(kwargs["type"])
            return original(*args, **kwargs)

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, original)

        def __eq__(cls, other: object) -> bool:  # code generators compare the class of a constant
            return other is cls or other is original

        def __hash__(cls) -> int:
            return hash(original)

        def __getattr__(cls, name: str) -> Any:
            return getattr(original, name)

    return DeviceType("device", (), {"__module__": "torch", "__doc__": original.__doc__})
