"""torch.npu: device functions, mapped to CUDA's or implemented for the CPU."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from gex import _gex, core_limits, determinism, recording
from gex.captures.pools import graph_pool_handle
from gex.npu import streams
from gex.npu.devices import Devices
from gex.npu.memory import DeviceMemory
from gex.npu.namespace import Namespace
from gex.npu.patches import translating
from gex.report.memory_snapshot import memory_snapshot

_TENSOR_TYPES = (
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
)


def make_module(devices: Devices) -> Namespace:
    names = _of_cpu(devices) if devices.is_cpu else _of_cuda(devices)
    names.update(_common(devices))
    return Namespace("torch.npu", names, doc=__doc__ or "")


def _common(devices: Devices) -> dict[str, Any]:
    class autocast(torch.amp.autocast):
        def __init__(
            self, enabled: bool = True, dtype: Any = None, cache_enabled: bool | None = None
        ) -> None:
            super().__init__("npu", dtype, enabled, cache_enabled)

    class GradScaler(torch.amp.GradScaler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__("npu", *args, **kwargs)

    def set_compile_mode(jit_compile: bool = False) -> None:
        """How single operators are compiled on an npu; no effect here."""
        if not isinstance(jit_compile, bool):
            raise TypeError(f"jit_compile must be a bool, got {jit_compile!r}")

    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    amp = Namespace("torch.npu.amp", {"autocast": autocast, "GradScaler": GradScaler})
    return {
        "_is_in_bad_fork": lambda: False,
        "amp": amp,
        "config": SimpleNamespace(allow_internal_format=False),
        "conv": SimpleNamespace(allow_hf32=False),
        "get_amp_supported_dtype": get_amp_supported_dtype,
        "get_deterministic_level": determinism.get_deterministic_level,
        "is_available": lambda: True,
        "matmul": SimpleNamespace(allow_hf32=False),
        "set_compile_mode": set_compile_mode,
        "set_deterministic_level": determinism.set_deterministic_level,
    }


def _of_cuda(devices: Devices) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for name in torch.cuda.__all__:
        value = getattr(torch.cuda, name)
        is_function = callable(value) and not isinstance(value, type)
        names[name] = translating(devices, value) if is_function else value

    class device(torch.cuda.device):
        def __init__(self, device: Any) -> None:
            super().__init__(devices.translate(device))

    names["device"] = device
    names["NPUGraph"] = torch.cuda.CUDAGraph
    names["get_device_name"] = lambda device=None: torch.cuda.get_device_name(devices.index(device))
    return names


@dataclass(frozen=True)
class DeviceProperties:
    name: str
    total_memory: int
    multi_processor_count: int

    @property
    def cube_core_num(self) -> int:
        return self.multi_processor_count

    @property
    def vector_core_num(self) -> int:
        return self.multi_processor_count


def _of_cpu(devices: Devices) -> dict[str, Any]:
    names = {
        "Event": streams.Event,
        "Stream": streams.Stream,
        "StreamContext": streams.StreamContext,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "get_device_limit": core_limits.get_device_limit,
        "get_stream_limit": core_limits.get_stream_limit,
        "graph_pool_handle": graph_pool_handle,
        "reset_stream_limit": core_limits.reset_stream_limit,
        "set_device_limit": core_limits.set_device_limit,
        "set_stream": streams.set_stream,
        "set_stream_limit": core_limits.set_stream_limit,
        "stream": streams.stream,
    }
    names.update({name: getattr(recording, name) for name in recording.__all__})
    names.update({name: getattr(torch, name) for name in _TENSOR_TYPES})
    names.update(_device_functions(devices))
    names.update(_memory_functions(devices))
    names.update(_random_functions(devices))
    return names


def _device_functions(devices: Devices) -> dict[str, Any]:
    def get_device_name(device: Any = None) -> str:
        devices.index(device)
        return _cpu_name()

    def get_device_properties(device: Any = None) -> DeviceProperties:
        devices.index(device)
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return DeviceProperties(_cpu_name(), total, torch.get_num_threads())

    def set_device(device: Any) -> None:
        devices.index(device)

    def synchronize(device: Any = None) -> None:
        """A no-op: work on the CPU is done when its call returns."""
        devices.index(device)
        streams.host_waits("torch.npu.synchronize()")

    class device:
        """`with torch.npu.device(0):`"""

        def __init__(self, device: Any) -> None:
            self.idx = devices.index(device)

        def __enter__(self) -> None:
            """There is one device."""

        def __exit__(self, *error: Any) -> None:
            """There is one device."""

    return {
        "can_device_access_peer": lambda device, peer: False,
        "current_device": lambda: 0,
        "device": device,
        "device_count": lambda: devices.count,
        "get_device_capability": lambda device=None: None,
        "get_device_name": get_device_name,
        "get_device_properties": get_device_properties,
        "init": lambda: None,
        "is_bf16_supported": lambda: True,
        "is_initialized": lambda: True,
        "set_device": set_device,
        "synchronize": synchronize,
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        return platform.processor() or platform.machine()
    return platform.processor() or platform.machine()


def _memory_functions(devices: Devices) -> dict[str, Any]:
    memory = DeviceMemory()

    def on_device(function: Callable[[], Any]) -> Callable[..., Any]:
        def wrapper(device: Any = None) -> Any:
            devices.index(device)
            return function()

        return wrapper

    def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
        devices.index(device)
        return memory.summary()

    def empty_cache() -> None:
        streams.host_waits("torch.npu.empty_cache()")
        _gex.trim()

    def record_history(enabled: Any = "all", **options: Any) -> None:
        """A snapshot is made of the memory plans, which are always kept; no effect here."""

    def dump_snapshot(filename: str = "dump_snapshot.pickle", **options: Any) -> None:
        memory_snapshot(filename)

    allocated, peak = on_device(memory.allocated), on_device(memory.peak)
    reset = on_device(memory.reset_peak)
    functions = {
        "empty_cache": empty_cache,
        "max_memory_allocated": peak,
        "max_memory_cached": peak,
        "max_memory_reserved": peak,
        "mem_get_info": on_device(memory.of_machine),
        "memory_allocated": allocated,
        "memory_cached": allocated,
        "memory_reserved": allocated,
        "memory_stats": on_device(memory.stats),
        "memory_summary": memory_summary,
        "reset_max_memory_allocated": reset,
        "reset_max_memory_cached": reset,
        "reset_peak_memory_stats": reset,
    }
    snapshots = {
        "_dump_snapshot": dump_snapshot,
        "_record_memory_history": record_history,
        "_snapshot": on_device(memory_snapshot),
    }
    module = Namespace("torch.npu.memory", {**functions, **snapshots})
    return {**functions, "memory": module, "memory_snapshot": on_device(_segments)}


def _segments() -> list[dict[str, Any]]:
    """As torch.cuda.memory_snapshot()."""
    segments: list[dict[str, Any]] = memory_snapshot()["segments"]
    return segments


def _random_functions(devices: Devices) -> dict[str, Any]:
    generator = torch.default_generator

    def seed() -> None:
        generator.seed()

    def manual_seed(seed: int) -> None:
        """Host and device share the CPU's generator."""
        generator.manual_seed(int(seed))

    def get_rng_state(device: Any = None) -> torch.Tensor:
        devices.index(device)
        return generator.get_state()

    def set_rng_state(new_state: torch.Tensor, device: Any = None) -> None:
        devices.index(device)
        generator.set_state(new_state)

    def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
        set_rng_state(new_states[0])

    return {
        "default_generators": (generator,),
        "get_rng_state": get_rng_state,
        "get_rng_state_all": lambda: [get_rng_state()],
        "initial_seed": generator.initial_seed,
        "manual_seed": manual_seed,
        "manual_seed_all": manual_seed,
        "seed": seed,
        "seed_all": seed,
        "set_rng_state": set_rng_state,
        "set_rng_state_all": set_rng_state_all,
    }
