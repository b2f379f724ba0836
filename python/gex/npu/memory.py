"""Memory of the device, where the CPU represents it: tensors of the script and the engine's own.

The engine counts exactly, by use, with its peak. PyTorch does not count tensors on the CPU: those
that Python can see are added up whenever somebody asks, so a peak of tensors is the highest sum
that was asked for.
"""

from __future__ import annotations

import gc
from typing import Any

import torch

from gex import _gex

_STATUS = "/proc/self/status"


def resident_bytes() -> int:
    """Of the whole process, as the kernel counts it."""
    with open(_STATUS) as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"{_STATUS} has no field VmRSS: this kernel does not count memory")


def tensor_bytes() -> int:
    """Of all tensors on the CPU; memory that several share counts once."""
    storages: dict[int, int] = {}
    for found in gc.get_objects():
        # isinstance() would ask objects that claim to be of another class.
        if not issubclass(type(found), torch.Tensor) or found.layout != torch.strided:
            continue
        if found.device.type != "cpu":
            continue
        storage = found.untyped_storage()
        if storage.device.type == "cpu":  # not that of a fake tensor
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


class DeviceMemory:
    def __init__(self) -> None:
        self._most_tensors = 0  # seen since the last reset

    def allocated(self) -> int:
        tensors = tensor_bytes()
        self._most_tensors = max(self._most_tensors, tensors)
        return tensors + _gex.memory_usage()["all"]["current"]

    def peak(self) -> int:
        self.allocated()
        return self._most_tensors + _gex.memory_usage()["all"]["peak"]

    def reset_peak(self) -> None:
        self._most_tensors = 0
        _gex.reset_memory_peaks()

    def of_machine(self) -> tuple[int, int]:
        """Free and total bytes of the machine."""
        fields: dict[str, int] = {}
        with open("/proc/meminfo") as file:
            for line in file:
                name, value = line.split(":")
                fields[name] = int(value.split()[0]) * 1024
        return fields["MemAvailable"], fields["MemTotal"]

    def stats(self) -> dict[str, Any]:
        """With the names of torch.cuda.memory_stats; `allocated_bytes` also by use."""
        current, peak = self.allocated(), self.peak()
        stats: dict[str, Any] = {}
        for kind in ("active_bytes", "allocated_bytes", "reserved_bytes"):
            stats[f"{kind}.all.current"] = current
            stats[f"{kind}.all.peak"] = peak
        stats["allocated_bytes.tensors.current"] = tensor_bytes()
        stats["allocated_bytes.tensors.peak"] = self._most_tensors
        for use, amount in _gex.memory_usage().items():
            name = "engine" if use == "all" else use
            stats[f"allocated_bytes.{name}.current"] = amount["current"]
            stats[f"allocated_bytes.{name}.peak"] = amount["peak"]
            stats[f"allocation.{name}.allocated"] = amount["allocations"]
        stats["resident_bytes.all.current"] = resident_bytes()
        return stats

    def summary(self) -> str:
        stats, (free, total) = self.stats(), self.of_machine()
        uses = [use for use in _gex.memory_usage() if use != "all"]
        lines = [f"{'':<26}{'now':>12} MiB{'peak':>12} MiB"]
        for name in ("all", "tensors", "engine", *uses):
            now = stats[f"allocated_bytes.{name}.current"] / 2**20
            peak = stats[f"allocated_bytes.{name}.peak"] / 2**20
            label = f"  {name}" if name in uses else name
            lines.append(f"{label:<26}{now:>12.1f} MiB{peak:>12.1f} MiB")
        rows = [
            ("resident, whole process", stats["resident_bytes.all.current"]),
            ("free on the machine", free),
            ("total on the machine", total),
        ]
        lines += [f"{name:<26}{value / 2**20:>12.1f} MiB" for name, value in rows]
        return "\n".join(lines)
