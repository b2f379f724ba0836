"""Installs the shim into this process: the device name, torch.npu, importable modules."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import torch

from gex import npugraph_ex
from gex.captures.strict_outputs import mark_step_begin
from gex.npu import (
    infer_attention,
    naming,
    ops,
    patches,
    profiler,
    quant_ops,
    runtime,
    torchair,
    transfer,
)
from gex.npu.devices import Devices, choose_target
from gex.npu.errors import CannotStart
from gex.npu.namespace import Namespace

TRANSFER = "torch_npu.contrib.transfer_to_npu"

_devices: Devices | None = None


def installed() -> bool:
    return _devices is not None


def install() -> None:
    """Maps "npu" onto CUDA or the CPU for the rest of this process; a second call does nothing."""
    global _devices
    if _devices is not None:
        return
    if importlib.util.find_spec("torch_npu") is not None:
        raise CannotStart("torch_npu itself is installed here: run the script without gex.npu")
    devices = Devices(choose_target())
    npu = runtime.make_module(devices)
    of_npu = _npugraph_ex("torch.npu.npugraph_ex")
    vars(npu)["npugraph_ex"] = of_npu["torch.npu.npugraph_ex"]
    npu.__path__ = []  # so that torch.npu.npugraph_ex can be imported
    naming.introduce(devices, npu)
    patches.apply(devices)
    torch.compiler.npugraph_mark_step_begin = mark_step_begin
    of_torchair = torchair.make_modules()
    modules = {
        **_torch_npu(devices, npu),
        **of_npu,
        **_npugraph_ex("torch_npu.npu.npugraph_ex"),
        **_npugraph_ex("npugraph_ex"),
        **of_torchair,
        **{f"torch_npu.dynamo.{name}": module for name, module in of_torchair.items()},
    }
    on_import = {TRANSFER: lambda: transfer.let_cuda_mean_npu(devices, npu)}
    sys.meta_path.insert(0, _Finder(modules, on_import))
    _devices = devices


def _npugraph_ex(name: str) -> dict[str, ModuleType]:
    """The package under a name, and its modules."""
    names = {key: getattr(npugraph_ex, key) for key in npugraph_ex.__all__}
    inner = {
        key: Namespace(f"{name}.{key}", {n: getattr(module, n) for n in module.__all__})
        for key, module in names.items()
        if isinstance(module, ModuleType)
    }
    package = Namespace(name, names | inner, doc=npugraph_ex.__doc__ or "")
    return {name: package, **{module.__name__: module for module in inner.values()}}


def _torch_npu(devices: Devices, npu: Namespace) -> dict[str, ModuleType]:
    profile = profiler.make_module(devices)
    contrib = Namespace("torch_npu.contrib", {})
    optim = Namespace("torch_npu.optim", {"NpuFusedAdamW": torch.optim.AdamW})
    package = Namespace(
        "torch_npu",
        {
            "__version__": torch.__version__,
            "contrib": contrib,
            "npu": npu,
            "optim": optim,
            "profiler": profile,
            **infer_attention.NAMES,
            **ops.NAMES,
            **quant_ops.NAMES,
        },
        doc="torch_npu as gex.npu provides it.",
    )
    return {
        "torch_npu": package,
        "torch_npu.contrib": contrib,
        TRANSFER: Namespace(TRANSFER, {}),
        "torch_npu.dynamo": Namespace("torch_npu.dynamo", {}),
        "torch_npu.npu": npu,
        "torch_npu.npu.amp": npu.amp,
        "torch_npu.optim": optim,
        "torch_npu.profiler": profile,
    }


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules made in memory, so that they can be imported like installed ones."""

    def __init__(
        self, modules: Mapping[str, ModuleType], on_import: Mapping[str, Callable[[], None]]
    ) -> None:
        self._modules = modules
        self._on_import = on_import

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self._modules:
            return None
        is_package = any(name.startswith(fullname + ".") for name in self._modules)
        return importlib.util.spec_from_loader(fullname, self, is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ in self._on_import:
            self._on_import[module.__name__]()
