"""torch_npu.profiler over torch.profiler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

import torch
from torch.autograd.profiler_util import EventList
from torch.profiler import ProfilerAction, schedule, tensorboard_trace_handler

from gex.npu.devices import Devices
from gex.npu.namespace import Namespace


class ProfilerActivity(Enum):
    CPU = "CPU"
    NPU = "NPU"


class ProfilerLevel(Enum):
    Level_none = "Level_none"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class AiCMetrics(Enum):
    AiCoreNone = "AiCoreNone"
    ArithmeticUtilization = "ArithmeticUtilization"
    L2Cache = "L2Cache"
    Memory = "Memory"
    MemoryL0 = "MemoryL0"
    MemoryUB = "MemoryUB"
    PipeUtilization = "PipeUtilization"
    ResourceConflictRatio = "ResourceConflictRatio"


class ExportType(Enum):
    Db = "db"
    Text = "text"


class _ExperimentalConfig:
    """Selects counters of an npu; accepted without effect."""

    def __init__(self, **options: Any) -> None:
        self.options = options


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU, ProfilerActivity.NPU}


def make_module(devices: Devices) -> Namespace:
    profile = _profile_class(devices)
    return Namespace(
        "torch_npu.profiler",
        {
            "AiCMetrics": AiCMetrics,
            "ExportType": ExportType,
            "Profile": profile,
            "ProfilerAction": ProfilerAction,
            "ProfilerActivity": ProfilerActivity,
            "ProfilerLevel": ProfilerLevel,
            "_ExperimentalConfig": _ExperimentalConfig,
            "profile": profile,
            "record_function": torch.profiler.record_function,
            "schedule": schedule,
            "supported_activities": supported_activities,
            "tensorboard_trace_handler": tensorboard_trace_handler,
        },
        doc=__doc__ or "",
    )


def _profile_class(devices: Devices) -> type[torch.profiler.profile]:
    """torch.profiler.profile for the device that represents the npu."""

    def to_torch(activity: Any) -> Any:
        if activity is ProfilerActivity.NPU:
            kind = "CPU" if devices.is_cpu else "CUDA"
            return getattr(torch.profiler.ProfilerActivity, kind)
        if activity is ProfilerActivity.CPU:
            return torch.profiler.ProfilerActivity.CPU
        return activity

    def column(sort_by: str | None) -> str | None:
        if sort_by is None or "npu" not in sort_by:
            return sort_by
        return sort_by.replace("npu", devices.target)

    class profile(torch.profiler.profile):
        def __init__(
            self,
            *,
            activities: Iterable[Any] | None = None,
            schedule: Callable[[int], ProfilerAction] | None = None,
            on_trace_ready: Callable[..., Any] | None = None,
            record_shapes: bool = False,
            profile_memory: bool = False,
            with_stack: bool = False,
            with_flops: bool = False,
            with_modules: bool = False,
            experimental_config: Any = None,
        ) -> None:
            super().__init__(
                activities=None if activities is None else {to_torch(a) for a in activities},
                schedule=schedule,
                on_trace_ready=on_trace_ready,
                record_shapes=record_shapes,
                profile_memory=profile_memory,
                with_stack=with_stack,
                with_flops=with_flops,
                with_modules=with_modules,
            )

        def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
            averages = super().key_averages(*args, **kwargs)
            table = averages.table

            def translated_table(sort_by: str | None = None, *args: Any, **kwargs: Any) -> str:
                return table(column(sort_by), *args, **kwargs)

            averages.table = translated_table
            return averages

    return profile
