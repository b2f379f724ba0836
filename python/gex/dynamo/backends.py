"""The backends of torch.compile: `gex`, `npugraph_ex` and `npugraphs`."""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from gex import _gex, collectives, determinism
from gex.aot.partition import partition
from gex.aot.wrapper_bypass import CompiledGraphs
from gex.cache.saved_graph import GraphRecord
from gex.captures import counters, strict_outputs
from gex.captures.clone_outputs import with_cloned_outputs
from gex.compat import dynamo_frame_hook
from gex.compat.aot import aot_autograd, effect_tokens_inside_graphs
from gex.compat.dynamo_frame_hook import TracedFrame
from gex.compat.resampling import whole_resampling
from gex.compat.torch_version import warn_if_untested
from gex.debug import inspection
from gex.debug.debug_folder import ModelFolder
from gex.dynamo import cuda_attention, forced_breaks, forward_mode, graph_breaks
from gex.dynamo.drawn_floats import with_drawn_floats
from gex.dynamo.frame_origin import current_origin
from gex.dynamo.grouped_experts import with_traceable_gradients
from gex.dynamo.input_names import names_of_inputs
from gex.dynamo.module_floats import module_floats_fixed
from gex.frames import frame_cache
from gex.nested_regions import automatic
from gex.nested_regions.groups import without_regions_if_that_fails
from gex.options.shape_handling import parse_configs
from gex.options.table import (
    GEX_OPTIONS,
    NPUGRAPH_EX_OPTIONS,
    NPUGRAPHS_OPTIONS,
    CompilerConfig,
    Config,
)
from gex.pipeline.compiler import graph_compiler
from gex.pipeline.job import CompileRequest, FromDynamo, Role
from gex.report.compile_times import backend_timed
from gex.shape_handling.dynamic_dims import trace_sizes_as_symbols

_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

collectives.install()
forced_breaks.install()
# AOTAutograd passes the list itself, which is emptied.
_gex.Runner._boxed_call = True  # type: ignore[attr-defined]


def gex(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles with gex; ops that it lacks run as calls through PyTorch."""
    config, record = Config(GEX_OPTIONS, options), frame_cache.current_record()
    return compile_dynamo_graph("gex", config, gm, example_inputs, mode, record=record)


def npugraph_ex(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """As `gex`, with the options of torch_npu's npugraph_ex."""
    config, record = CompilerConfig(options), frame_cache.current_record()
    return compile_dynamo_graph("npugraph_ex", config, gm, example_inputs, mode, record=record)


def npugraphs(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Runs PyTorch's own kernels in their order: the results of eager mode, bit for bit."""
    config = Config(NPUGRAPHS_OPTIONS, options)
    return compile_dynamo_graph("npugraphs", config, gm, example_inputs, mode)


def compile_dynamo_graph(
    backend: str,
    config: Config,
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None = None,
    decompositions: Mapping[Any, Callable[..., Any]] | None = None,
    record: GraphRecord | None = None,
) -> Callable[..., Any]:
    """Compiles a Dynamo graph for a backend of torch.compile.

    `record` receives what another process needs to restore the graph.
    """
    warn_if_untested()
    _apply_mode(backend, config, mode)
    dynamo = FromDynamo(current_origin(), tuple(names_of_inputs(gm)), graph_breaks.end_of(gm))
    if config.get("enable_shape_handling"):
        configs = parse_configs(config.get("shape_handling_configs"))
        trace_sizes_as_symbols(gm, configs, dynamo.origin)
    counters.install()
    determinism.guard_level()
    with_traceable_gradients(gm)
    forward_mode.guard()

    graphs = CompiledGraphs(gm)
    request = CompileRequest(backend, config, dynamo, ModelFolder.of_dynamo(gm), record)
    traced = _traced(graphs, request, decompositions or {})
    with (
        backend_timed(),
        effect_tokens_inside_graphs(),
        whole_resampling(),
        cuda_attention.traced_as_efficient(example_inputs),
        module_floats_fixed(gm, example_inputs) as inputs,
        without_regions_if_that_fails(),
    ):
        inputs = with_drawn_floats(gm, inputs)
        wrapped = traced(gm, inputs)
        if record is not None:
            record.written = graphs.written_without_gradient(inputs)
        compiled = inspection.dynamo_graph(gm, graphs.without_wrappers(wrapped, inputs))
    return _with_results_as_asked(compiled, config)


def _traced(
    graphs: CompiledGraphs,
    request: CompileRequest,
    decompositions: Mapping[Any, Callable[..., Any]],
) -> Callable[..., Any]:
    """AOTAutograd, which calls the compiler of each of its graphs."""
    training = replace(request, record=None)  # only graphs without gradients are kept
    return aot_autograd(
        fw_compiler=graphs.forward(graph_compiler(training, Role.FORWARD)),
        bw_compiler=graphs.backward(graph_compiler(training, Role.BACKWARD)),
        inference_compiler=graphs.inference(graph_compiler(request, Role.INFERENCE)),
        partition_fn=partition,
        keep_inference_input_mutations=True,
        decompositions={**cuda_attention.decompositions(), **decompositions},
    )


def _with_results_as_asked(compiled: Callable[..., Any], config: Config) -> Callable[..., Any]:
    if config.get("clone_output", False):
        compiled = with_cloned_outputs(compiled)
    if config.get("strict_outputs", False):
        compiled = strict_outputs.with_expiring_outputs(compiled)
    return compiled


_TABLES = {gex: GEX_OPTIONS, npugraph_ex: NPUGRAPH_EX_OPTIONS}


def _compile_frame(frame: TracedFrame, trace: Callable[[], Any]) -> Any:
    """Compiles a frame for our backends; for other backends calls Dynamo's own compile."""
    backend = frame.request().backend
    if not isinstance(backend, types.FunctionType) or backend not in _TABLES:
        return trace()

    def trace_with_regions() -> Any:
        with automatic.regions_while_traced(frame):
            return trace()

    try:
        config = Config(_TABLES[backend], frame.request().options)
    except (OSError, RuntimeError, TypeError, ValueError):
        return trace()  # the backend raises the same error, with Dynamo's context
    return frame_cache.compiled_frame(frame, backend.__name__, config, trace_with_regions)


dynamo_frame_hook.install(_compile_frame)


@functools.cache
def _warn_about_mode() -> None:
    warnings.warn(
        "mode has no effect with backend 'npugraph_ex': use options instead",
        stacklevel=2,
    )


def _apply_mode(backend: str, config: Config, mode: str | None) -> None:
    """`mode` of torch.compile. Every mode replays a graph with one call."""
    if mode is None:
        return
    if mode not in _MODES:
        raise ValueError(f"unknown mode {mode!r} of backend {backend!r}. Supported: {list(_MODES)}")
    if backend == "npugraph_ex":
        _warn_about_mode()
    if mode.startswith("max-autotune") and "fast_math" in config:
        config.fast_math = config.autotune = True
