"""gex: a graph engine. Use it from PyTorch with `torch.compile(model, backend="gex")`."""

from __future__ import annotations

import atexit
import importlib
from typing import TYPE_CHECKING, Any

from gex import report
from gex._gex import (
    Dim,
    Error,
    Graph,
    InternalError,
    UserError,
    memory_usage,
    stop_background,
    trim,
)
from gex.environment import is_on
from gex.report.explanation import Explanation, explain
from gex.report.graph_report import GraphReport, collect, reports

if TYPE_CHECKING:
    from gex import onnx, ops
    from gex.aot.frozen_parameters import refresh
    from gex.captures.warmup import warmup
    from gex.debug.nan_check import NonFiniteValue
    from gex.deploy.kernels import load_kernels, use_kernel
    from gex.deploy.session import load
    from gex.errors import CallNotAllowed, FallbackWarning, IndexOutOfRange
    from gex.export.compiled_module import compile
    from gex.importer.device_checks import synchronize
    from gex.nested_regions.regions import Regions, regions
    from gex.report.memory_snapshot import memory_snapshot
    from gex.training.step import training_step

__version__ = "0.1.0"
__all__ = [
    "CallNotAllowed",
    "Dim",
    "Error",
    "Explanation",
    "FallbackWarning",
    "Graph",
    "GraphReport",
    "IndexOutOfRange",
    "InternalError",
    "NonFiniteValue",
    "Regions",
    "UserError",
    "collect",
    "compile",
    "explain",
    "load",
    "load_kernels",
    "memory_snapshot",
    "memory_usage",
    "onnx",
    "ops",
    "refresh",
    "regions",
    "report",
    "reports",
    "synchronize",
    "training_step",
    "trim",
    "use_kernel",
    "warmup",
]

# Python's exit handlers run before the destructors of the libraries that the background thread
# uses.
atexit.register(stop_background)


if is_on("GEX_TOP"):
    from gex.report import live

    live.start()


# Loaded when first used: importing gex imports little of PyTorch. By name, the module.
_LATER = {
    "CallNotAllowed": "gex.errors",
    "FallbackWarning": "gex.errors",
    "IndexOutOfRange": "gex.errors",
    "NonFiniteValue": "gex.debug.nan_check",
    "Regions": "gex.nested_regions.regions",
    "compile": "gex.export.compiled_module",
    "load": "gex.deploy.session",
    "load_kernels": "gex.deploy.kernels",
    "memory_snapshot": "gex.report.memory_snapshot",
    "refresh": "gex.aot.frozen_parameters",
    "regions": "gex.nested_regions.regions",
    "synchronize": "gex.importer.device_checks",
    "training_step": "gex.training.step",
    "use_kernel": "gex.deploy.kernels",
    "warmup": "gex.captures.warmup",
}


def __getattr__(name: str) -> Any:
    if name in ("onnx", "ops"):
        return importlib.import_module(f"gex.{name}")
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'gex' has no attribute {name!r}")
