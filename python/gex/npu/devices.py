"""The device that represents "npu", and translation of device arguments to it."""

from __future__ import annotations

import os
from typing import Any

import torch

from gex.npu.errors import CannotStart

NAME = "npu"
VARIABLE = "GEX_NPU_DEVICE"


def choose_target() -> str:
    """The device type that the npu is mapped to: "cuda" if available, else "cpu"."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "cpu", "cuda"):
        raise CannotStart(f"{VARIABLE}={wanted!r}: must be 'cpu' or 'cuda'")
    if wanted == "cuda" and not torch.cuda.is_available():
        raise CannotStart(f"{VARIABLE}=cuda, but torch.cuda.is_available() is False")
    return wanted or ("cuda" if torch.cuda.is_available() else "cpu")


class Devices:
    """Translates device arguments: an npu becomes the device that represents it."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.names = {NAME}  # device types that mean an npu
        self.count = torch.cuda.device_count() if target == "cuda" else 1

    @property
    def is_cpu(self) -> bool:
        return self.target == "cpu"

    def is_npu(self, device: Any) -> bool:
        if isinstance(device, torch.device):
            return device.type in self.names
        if isinstance(device, str):
            return device.partition(":")[0] in self.names
        # A bare number means an accelerator; CUDA already interprets it so.
        return self.is_cpu and isinstance(device, int) and not isinstance(device, bool)

    def translate(self, device: Any) -> Any:
        if not self.is_npu(device):
            return device
        index = device if isinstance(device, int) else _index_of(device)
        if index is not None and not 0 <= index < self.count:
            where = "the CPU" if self.is_cpu else "CUDA"
            raise RuntimeError(
                f"npu:{index} does not exist: {NAME} is mapped onto {where}, "
                f"which has {self.count} device{'s' if self.count > 1 else ''}"
            )
        if self.is_cpu or index is None:
            return torch.device(self.target)
        return torch.device(self.target, index)

    def translated_name(self, name: str) -> str:
        """Like `translate`, for a device name only."""
        return str(self.translate(name))

    def index(self, device: Any) -> int:
        """The index of a device argument of a torch.npu function."""
        if device is None:
            return torch.cuda.current_device() if not self.is_cpu else 0
        translated = torch.device(
            self.translate(f"{NAME}:{device}" if isinstance(device, int) else device)
        )
        if translated.type != self.target:
            raise ValueError(f"expected an npu device, got {device!r}")
        return translated.index or 0


def _index_of(device: torch.device | str) -> int | None:
    if isinstance(device, torch.device):
        return device.index
    _, colon, number = device.partition(":")
    if colon and not number.isdecimal():
        raise RuntimeError(f"invalid device: {device!r}; a device is spelled like npu or npu:0")
    return int(number) if colon else None
