"""Dynamo's current trace: its context, its guards, and restarting it."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch._dynamo import external_utils
from torch._dynamo.exc import TensorifyScalarRestartAnalysis
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.symbolic_convert import InstructionTranslator, TensorifyState
from torch._dynamo.utils import compilation_time_metrics, get_metrics_context
from torch._guards import CompileContext, TracingContext

# Raised by a backend, it makes Dynamo trace the function again.
RestartTrace = TensorifyScalarRestartAnalysis
graph_break = torch._dynamo.graph_break
WRAPPER_FILE = external_utils.__file__  # of the frames that Dynamo puts around functions it skips

__all__ = ["WRAPPER_FILE", "RestartTrace", "TracingContext", "graph_break"]


# --- context ----------------------------------------------------------------------------------


def is_tracing() -> bool:
    return TracingContext.try_get() is not None


def current_context() -> TracingContext | None:
    return TracingContext.try_get()


def shape_env() -> Any:
    """Of the current trace; None outside of one."""
    context = TracingContext.try_get()
    return context.fake_mode.shape_env if context and context.fake_mode else None


def forward_metadata() -> Any:
    """Metadata of the function that AOTAutograd is compiling; None outside of it."""
    context = TracingContext.try_get()
    return None if context is None else context.fw_metadata


def current_compile_id() -> str | None:
    compile_id = CompileContext.current_compile_id()
    return None if compile_id is None else str(compile_id)


def recompile_reason() -> str | None:
    """What changed since the last compile, according to Dynamo; None for the first compile."""
    metrics = get_metrics_context()
    return metrics._metrics.get("recompile_reason") if metrics.in_progress() else None


def current_translator() -> Any:
    """Dynamo's interpreter of the frame that it is tracing."""
    return InstructionTranslator.current_tx()


def code_before_break(code: Any) -> Any:
    """The code that this resume function continues after a graph break; None if it is not one."""
    metadata = ContinueExecutionCache.generated_code_metadata.get(code)
    return None if metadata is None else metadata.code


# --- time -------------------------------------------------------------------------------------


def seconds_compiling() -> float:
    """Total time that PyTorch spent compiling frames in this process, backends included."""
    return sum(compilation_time_metrics.get("_compile.compile_inner", ()))


def seconds_since_frame_began() -> float:
    context = get_metrics_context()
    if not context.in_progress():
        return 0.0
    return max(0.0, (time.time_ns() - context._start_time_ns) / 1e9)


# --- starting over ----------------------------------------------------------------------------


def forget_speculations() -> None:
    """Lets the next trace of the frame take a different path."""
    InstructionTranslator.current_tx().speculation_log.clear()


def is_specialized_float(name: str) -> bool:
    return TensorifyState.should_specialize(name)


def specialize_float(name: str) -> None:
    """Makes AOTAutograd treat the float of this symbol as a constant."""
    TensorifyState.specialize(name)


def forget_specialized_floats(names: set[str]) -> None:
    TensorifyState.force_specializations -= names


# --- guards -----------------------------------------------------------------------------------


def guard_attribute(module: str, *path: str) -> None:
    """Makes Dynamo recompile when this attribute of a module changes."""
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import AttrSource, ImportSource

    source: Any = ImportSource(module)
    for name in path:
        source = AttrSource(source, name)
    install_guard(source.make_guard(GuardBuilder.EQUALS_MATCH))


def guard_forward_mode() -> None:
    """Makes Dynamo keep graphs compiled inside forward-mode AD separate from others."""
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import GlobalStateSource

    install_guard(GlobalStateSource().make_guard(GuardBuilder.DUAL_LEVEL))
