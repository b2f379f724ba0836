"""Makes PyTorch's functions accept npu devices, and adds `.npu()` to tensors and modules."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from gex.compat.devices import DeviceContext, device_constructors, keep_scriptable
from gex.compat.devices import Generator as TorchGenerator
from gex.compat.tensor_methods import trace_method_as
from gex.npu.devices import NAME, Devices
from gex.npu.streams import keep_for_stream

_LIKE = ("empty", "full", "ones", "rand", "randint", "randn", "zeros")
_NEW = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
_AUTOCAST = (
    "get_autocast_dtype",
    "is_autocast_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
)


def apply(devices: Devices) -> None:
    _patch_constructors(devices)
    _patch_tensors(devices)
    _patch_modules()
    _patch_contexts(devices)
    _patch_serialization(devices)
    _patch_scripts()
    _patch_compile()
    _patch_distributed(devices)


def translating(devices: Devices, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its device arguments translated, by position or by name."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = devices.translate(kwargs["device"])
        for i, argument in enumerate(args):
            if isinstance(argument, (str, torch.device)):
                args = (*args[:i], devices.translate(argument), *args[i + 1 :])
        return function(*args, **kwargs)

    return wrapper


def _replace(owner: Any, name: str, wrapper: Any) -> None:
    wrapper.__module__ = getattr(owner, "__name__", None)
    setattr(owner, name, wrapper)


def _patch_constructors(devices: Devices) -> None:
    # PyTorch's own list of functions that take a device. Requesting it before patching keeps the
    # originals in it, which default devices rely on.
    constructors = device_constructors()
    for owner in (torch, torch.fft, torch.nested):
        for name in dir(owner):
            if name.startswith("_"):
                continue
            function = getattr(owner, name)
            listed = function in constructors if callable(function) else False
            if listed or (owner is torch and name.removesuffix("_like") in _LIKE):
                wrapper = translating(devices, function)
                _replace(owner, name, wrapper)
                keep_scriptable(function, wrapper)
    for name in _NEW:
        _replace(torch.Tensor, name, translating(devices, getattr(torch.Tensor, name)))


def _patch_tensors(devices: Devices) -> None:
    original_to = torch.Tensor.to

    def is_transfer(device: Any) -> bool:
        """Whether it is a copy between npu and host: on the CPU the copy must still be made."""
        return devices.is_cpu and (device == "cpu" or devices.is_npu(device))

    @functools.wraps(original_to)
    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if args and isinstance(args[0], (str, int, torch.device)):
            device = args[0]
            args = (devices.translate(device), *args[1:])
        elif "device" in kwargs:
            device = kwargs["device"]
            kwargs["device"] = devices.translate(device)
        else:
            return original_to(self, *args, **kwargs)
        if isinstance(device, (str, int, torch.device)) and is_transfer(device) and len(args) < 4:
            kwargs.setdefault("copy", True)
        return original_to(self, *args, **kwargs)

    def npu(
        self: torch.Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: torch.memory_format = torch.preserve_format,
    ) -> torch.Tensor:
        """The tensor on the device that represents the npu."""
        where = NAME if device is None else device
        return to(self, where, non_blocking=non_blocking, memory_format=memory_format)

    _replace(torch.Tensor, "to", to)
    _replace(torch.Tensor, "npu", npu)
    torch.Tensor.is_npu = property(lambda self: self.device.type == devices.target)
    if not devices.is_cpu:
        return

    def cpu(
        self: torch.Tensor, memory_format: torch.memory_format = torch.preserve_format
    ) -> torch.Tensor:
        return to(self, "cpu", memory_format=memory_format)

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        return self

    def record_stream(self: torch.Tensor, stream: Any) -> None:
        keep_for_stream(self, stream)

    for function in (cpu, pin_memory, record_stream):
        name = function.__name__
        _replace(torch.Tensor, name, functools.wraps(getattr(torch.Tensor, name))(function))
    trace_method_as("record_stream", keep_for_stream)


def _patch_modules() -> None:
    def npu(self: torch.nn.Module, device: Any = None) -> torch.nn.Module:
        """Moves all parameters and buffers to the device that represents the npu."""
        return self._apply(lambda t: t.npu(device))

    def packed_npu(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.to(NAME, *args, **kwargs)

    _replace(torch.nn.Module, "npu", npu)
    _replace(torch.nn.utils.rnn.PackedSequence, "npu", packed_npu)


def _patch_contexts(devices: Devices) -> None:
    """Default devices, generators and automatic mixed precision."""
    DeviceContext.__init__ = translating(devices, DeviceContext.__init__)

    class AnyGenerator(type(TorchGenerator)):  # type: ignore[misc]
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, TorchGenerator)

    class Generator(TorchGenerator, metaclass=AnyGenerator):
        def __new__(cls, device: Any = "cpu") -> TorchGenerator:
            return TorchGenerator(devices.translate(device))

    _replace(torch, "Generator", Generator)

    autocast = torch.amp.autocast_mode.autocast
    original_init = autocast.__init__

    @functools.wraps(original_init)
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type in devices.names:
            device_type = devices.target
            dtype = torch.float16 if dtype is None else dtype  # the default on an npu
        original_init(self, device_type, dtype, *args, **kwargs)

    autocast.__init__ = init

    def by_type(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if args and args[0] in devices.names:
                args = (devices.target, *args[1:])
            return function(*args, **kwargs)

        return wrapper

    for name in _AUTOCAST:
        _replace(torch, name, by_type(getattr(torch, name)))
    _replace(torch.amp, "is_autocast_available", by_type(torch.amp.is_autocast_available))
    scaler = torch.amp.GradScaler
    scaler.__init__ = translating_names(devices, scaler.__init__)


def translating_names(devices: Devices, function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `translating`, for functions that take a device type as a string."""

    def name_of(device: Any) -> Any:
        return devices.target if isinstance(device, str) and devices.is_npu(device) else device

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if "device" in kwargs:
            kwargs["device"] = name_of(kwargs["device"])
        return function(*map(name_of, args), **kwargs)

    return wrapper


def _patch_serialization(devices: Devices) -> None:

    def translate(location: Any) -> Any:
        if isinstance(location, dict):
            return {key: str(devices.translate(value)) for key, value in location.items()}
        return devices.translate(location)

    def translating_location(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            return function(f, translate(map_location), *args, **kwargs)

        return load

    for owner in (torch, torch.jit):
        _replace(owner, "load", translating_location(owner.load))

    def restore(storage: Any, location: str) -> Any:
        if not devices.is_npu(location):
            return None
        return torch.serialization.default_restore_location(
            storage, str(devices.translate(location))
        )

    torch.serialization.register_package(5, lambda storage: None, restore)


def _patch_scripts() -> None:
    """torch.jit.save accepts plain and compiled modules too: it saves their script."""
    save = torch.jit.save

    @functools.wraps(save)
    def save_module(m: Any, f: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(m, torch.nn.Module) and not isinstance(m, torch.jit.ScriptModule):
            m = torch.jit.script(getattr(m, "_orig_mod", m))
        save(m, f, *args, **kwargs)

    _replace(torch.jit, "save", save_module)


_SHAPE_HANDLING = ("enable_shape_handling", "shape_handling_configs", "shape_handling_dict")


def _patch_compile() -> None:
    """Shape handling of backend "inductor": gex compiles, inductor has no such options."""
    compile = torch.compile

    @functools.wraps(compile)
    def compile_shapes(model: Any = None, **kwargs: Any) -> Any:
        options = kwargs.get("options") or {}
        handled = {name: options[name] for name in _SHAPE_HANDLING if name in options}
        if kwargs.get("backend", "inductor") == "inductor" and handled:
            kwargs |= {"backend": "gex", "options": handled}
        return compile(model, **kwargs)

    _replace(torch, "compile", compile_shapes)


def _patch_distributed(devices: Devices) -> None:
    """The npu's collective backend is called hccl."""
    if not torch.distributed.is_available():
        return
    stand_in = "gloo" if devices.is_cpu else "nccl"

    def translating_backend(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("backend") == "hccl":
                kwargs["backend"] = stand_in
            args = tuple(stand_in if isinstance(a, str) and a == "hccl" else a for a in args)
            return function(*args, **kwargs)

        return wrapper

    for name in ("init_process_group", "new_group"):
        _replace(torch.distributed, name, translating_backend(getattr(torch.distributed, name)))
