"""The backends of torch.compile: `gex`, `npugraph_ex` and `npugraphs`."""

from __future__ import annotations

import enum
import functools
import itertools
import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from gex import (
    _gex,
    collectives,
    determinism,
    dumps,
    engine_switches,
    forced_breaks,
    forward_mode,
    frozen,
    fx_stage,
    graph_breaks,
    report,
    saved_tensors,
    super_kernel_options,
)
from gex.captures import counters, error_mode, strict_outputs
from gex.captures.gears import plain_name
from gex.captures.outputs import with_memory_of_their_own
from gex.captures.settings import settings_of
from gex.compile_times import backend_timed
from gex.debug import folder, inspection, instruments, tensor_dump
from gex.debug.logs import logger
from gex.debug.watching import watched
from gex.errors import GraphNotSupported
from gex.fx_import import GraphImport, ImportedGraph
from gex.fx_stage import lanes
from gex.graph_record import GraphRecord
from gex.grouped_experts import with_traceable_gradients
from gex.module_floats import module_floats_fixed
from gex.nested_regions import (
    take_fallbacks,
    trace_without_regions,
    without_regions_if_that_fails,
)
from gex.options import (
    GEX_OPTIONS,
    NPUGRAPHS_OPTIONS,
    CompilerConfig,
    Config,
)
from gex.origin import Origin, current_origin
from gex.pass_path import load_named_passes
from gex.plain_graphs import CompiledGraphs
from gex.recomputed_regions import partition
from gex.shape_handling.config import parse_configs
from gex.shape_handling.dynamic_dims import trace_sizes_as_symbols
from gex.torch_version import warn_if_untested

_graph_numbers = itertools.count(1)
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")

CompiledGraph = Callable[[list[Any]], Sequence[Any]]
GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[Any]], CompiledGraph]

collectives.install()
forced_breaks.install()
_gex.Runner._boxed_call = True  # AOTAutograd hands over the list itself, to be emptied


def gex(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles with gex; what it has no op for runs as a call through PyTorch."""
    return compile_dynamo_graph("gex", Config(GEX_OPTIONS, options), gm, example_inputs, mode)


def npugraph_ex(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """As `gex`, with the options of torch_npu's npugraph_ex."""
    return compile_dynamo_graph("npugraph_ex", CompilerConfig(options), gm, example_inputs, mode)


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
    """What a backend of torch.compile does with a graph of Dynamo's.

    `record` gets what another process needs to have the graph again.
    """
    warn_if_untested()
    _apply_mode(backend, config, mode)
    names = tuple(frozen.names_of_inputs(gm))
    dynamo = FromDynamo(current_origin(), names, graph_breaks.end_of(gm))
    if config.get("enable_shape_handling"):
        configs = parse_configs(config.get("shape_handling_configs"))
        trace_sizes_as_symbols(gm, configs, dynamo.origin)
    counters.install()
    determinism.guard_level()
    with_traceable_gradients(gm)
    forward_mode.guard()

    graphs = CompiledGraphs(gm)
    files = folder.ModelFolder.of_dynamo(gm)
    traced = aot_autograd(
        fw_compiler=graphs.forward(graph_compiler(backend, config, Role.FORWARD, dynamo, files)),
        bw_compiler=graphs.backward(graph_compiler(backend, config, Role.BACKWARD, dynamo, files)),
        inference_compiler=graphs.inference(
            graph_compiler(backend, config, Role.INFERENCE, dynamo, files, record)
        ),
        partition_fn=partition,
        keep_inference_input_mutations=True,
        decompositions=dict(decompositions or {}),
    )
    with (
        backend_timed(),
        torch._functorch.config.patch(unlift_effect_tokens=True),
        module_floats_fixed(gm, example_inputs) as inputs,
        without_regions_if_that_fails(),
    ):
        wrapped = traced(gm, inputs)
        if record is not None:
            record.written = graphs.written_without_gradient(inputs)
        compiled = inspection.dynamo_graph(gm, graphs.shortened(wrapped, inputs))
    if config.get("clone_output", False):
        compiled = with_memory_of_their_own(compiled)
    if config.get("strict_outputs", False):
        compiled = strict_outputs.ending_with_the_next_call(compiled)
    return compiled


@functools.cache
def _warn_about_mode() -> None:
    warnings.warn(
        "mode has no effect with backend 'npugraph_ex': say what you want in options",
        stacklevel=2,
    )


def _apply_mode(backend: str, config: Config, mode: str | None) -> None:
    """`mode` of torch.compile. Replaying with one call is what every mode gets."""
    if mode is None:
        return
    if mode not in _MODES:
        raise ValueError(f"unknown mode {mode!r} of backend {backend!r}. Supported: {list(_MODES)}")
    if backend == "npugraph_ex":
        _warn_about_mode()
    if mode.startswith("max-autotune") and "fast_math" in config:
        config.fast_math = config.autotune = True


class Role(enum.Enum):
    """What a graph is for."""

    INFERENCE = enum.auto()
    FORWARD = enum.auto()  # of a training step
    BACKWARD = enum.auto()


_PHASES = {Role.INFERENCE: "forward", Role.FORWARD: "forward", Role.BACKWARD: "backward"}


@dataclass(frozen=True)
class FromDynamo:
    """What Dynamo gave to compile."""

    origin: Origin | None = None
    names: tuple[str, ...] = ()  # of all inputs, as the user's code spells them
    end: str | None = None  # why the graph ends where its function goes on


def graph_compiler(
    backend: str,
    config: Config,
    role: Role = Role.INFERENCE,
    dynamo: FromDynamo | None = None,
    files: folder.ModelFolder | None = None,
    record: GraphRecord | None = None,
) -> GraphCompiler:
    """Compiles the ATen graphs that AOTAutograd makes of a function; their texts go to `files`."""
    names = () if dynamo is None or role is Role.BACKWARD else dynamo.names

    def compile_graph(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        if role is Role.BACKWARD:
            saved_tensors.allow_second_backward()
        graph_report = report.GraphReport(f"graph_{next(_graph_numbers)}", backend)
        if dynamo is not None:
            graph_report.origin, graph_report.end = dynamo.origin, dynamo.end
        graph_report.no_regions = take_fallbacks()
        report.add(graph_report)
        subject = fx_stage.Subject(graph_report.name, _PHASES[role])
        with folder.stages_of(files, graph_report.name, subject.phase) as phase_files:
            if backend != "npugraphs" and not tensor_dump.of_original(config):
                fx_stage.run(gm, example_inputs, config, subject)
                graph_report.lanes = lanes.find(gm)
        if phase_files is not None:
            phase_files.write_code(gm, backend, config)
        if config.get("super_kernel_optimize", False):
            graph_report.notes.append(super_kernel_options.NOTHING_MERGED)
        instruments.put_into(gm, graph_report.name, config)
        eager_reason = _why_eager(backend, config)
        if eager_reason is not None:
            if backend == "npugraph_ex":
                logger.warning("%s falls back to eager: %s", graph_report.name, eager_reason)
            return _run_eagerly(gm, graph_report, config, eager_reason)
        start = time.perf_counter()
        try:
            imported = GraphImport(
                gm,
                graph_report.name,
                graph_report,
                strict=config.get("strict", False),
                # The forward has checked the same values.
                check_values=role is not Role.BACKWARD,
                fast_random=config.get("random", "eager") == "fast",
                keep_identities=not config.get("remove_noop_ops", True),
            ).run()
        except GraphNotSupported as problem:
            if graph_report.regions:
                report.drop(graph_report)
                trace_without_regions(problem)
                report.add(graph_report)
            if config.get("strict", False):
                raise
            return _run_eagerly(gm, graph_report, config, str(problem))
        graph_report.seconds["import"] = time.perf_counter() - start
        # Training changes parameters, so only graphs without gradients take them as frozen.
        is_frozen = role is Role.INFERENCE and config.get("frozen_parameter", False)
        static = frozen.static_arguments(names) if is_frozen else []
        static = [(i, name) for i, name in static if not imported.adapter.is_carried(i)]
        released = saved_tensors.arguments_of(gm) if role is Role.BACKWARD else []
        if phase_files is not None:
            phase_files.write_imported(imported.graph.text())
        dump_dir = phase_files.engine_dir if phase_files is not None else ""
        captures = settings_of(config, gm.graph, names)
        cache_dir = "" if record is None else record.cache_dir
        runner = make_runner(
            imported, config, role, static, released, captures, dump_dir, cache_dir
        )
        if record is not None:
            record.take(imported, static)
        graph_report.runner = runner
        graph_report.lanes.forget_nodes()
        if backend == "npugraph_ex" and logger.isEnabledFor(logging.DEBUG):
            logger.debug("%s: generated code\n%s", graph_report.name, runner.text("program"))
        graph_report.capture_limit = config.get("capture_limit")
        graph_report.input_names = _names_of_tensors(imported, names, static)
        compiled = imported.adapter.wrap(runner)
        if any(call.is_of_user for call in graph_report.calls):
            mode = config.get("capture_error_mode", "global")
            compiled = error_mode.guarded(compiled, runner, graph_report.name, mode)
        compiled = watched(compiled, runner, graph_report.name, phase_files, config)
        return inspection.aten_graph(compiled, graph_report.name, config, imported)

    return compile_graph


def _names_of_tensors(
    imported: ImportedGraph, names: Sequence[str], static: Sequence[tuple[int, str]]
) -> dict[int, str]:
    """By number among the tensors that a call passes to the engine."""
    bound = {argument for argument, _ in static}
    passed = [argument for argument in imported.tensors if argument not in bound]
    return {k: plain_name(names[a]) for k, a in enumerate(passed) if a < len(names)}


def _why_eager(backend: str, config: Config) -> str | None:
    if backend == "npugraphs":
        return "npugraphs runs PyTorch's kernels"
    if tensor_dump.of_original(config):
        return "option data_dump_stage='original'"
    if forward_mode.is_on():
        return "tangents of forward mode are carried along by PyTorch's own ops"
    return "option force_eager" if config.get("force_eager", False) else None


def _run_eagerly(
    gm: torch.fx.GraphModule, graph_report: report.GraphReport, config: Config, reason: str
) -> CompiledGraph:
    graph_report.eager_reason = reason
    compiled = instruments.eager_form(gm, graph_report.name, config)
    return inspection.aten_graph(compiled, graph_report.name, config)


def make_runner(
    imported: ImportedGraph,
    config: Config,
    role: Role = Role.INFERENCE,
    static: Sequence[tuple[int, str]] = (),
    released: Sequence[int] = (),
    captures: _gex.CaptureOptions | None = None,
    dump_dir: str = "",
    cache_dir: str = "",
) -> Any:
    """Arguments in `static` are bound once, those in `released` let go of at their last use.

    Without a `cache_dir` the environment says where compiled programs are kept, if anywhere.
    """
    if config.get("trace.enabled", False):
        dump_dir = dumps.folder_of(imported.graph)
    signature = imported.signature()
    if config.get("executor", "compiled") == "interpreter":
        return _gex.interpreter_runner(imported.graph, signature, imported.callees)
    load_named_passes()
    runner = _gex.compiled_runner(
        imported.graph,
        signature,
        imported.callees,
        captures or settings_of(config),
        list(static),
        **engine_switches.of(config),
        released=list(released),
        # Between forward and backward a training step needs most of its memory.
        keep_arena=role is Role.INFERENCE,
        reuse_memory=config.get("reuse_memory", True),
        dump_dir=dump_dir,
        cache_dir=cache_dir,
        keep_static_code=not config.get("disable_static_kernel_compile_cache", False),
        static_code_at_once=config.get("static_kernel_compile", False),
    )
    frozen.remember(runner)
    return runner
