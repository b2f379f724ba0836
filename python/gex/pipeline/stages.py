"""The stages of compiling one ATen graph, in order.

Each takes the job and stores its results in it. A stage that sets `compiled` ends the job.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable

from gex import fx_stage, report
from gex.aot import frozen_parameters, saved_tensors
from gex.captures import error_mode, torch_graphs
from gex.captures.capture_options import settings_of
from gex.captures.gears import plain_name
from gex.compat.autograd import is_forward_mode_on
from gex.debug import debug_folder, inspection, instrumentation, nan_check, tensor_dump
from gex.debug.call_hooks import with_call_hooks
from gex.debug.logs import logger
from gex.errors import GraphNotSupported
from gex.fx_stage import inlined_regions, stream_assignment
from gex.importer.graph_device import device_of
from gex.importer.graph_import import GraphImport
from gex.importer.written_arguments import results_that_alias_arguments
from gex.nested_regions.groups import take_fallbacks, trace_without_regions
from gex.options import super_kernel
from gex.pipeline.job import CompiledGraph, CompileJob, Role
from gex.pipeline.runner import RunnerRequest, make_runner
from gex.report import fallback, progress, stage_logs
from gex.report.graph_report import StreamSummary


def compile_graph(job: CompileJob) -> CompiledGraph:
    with progress.Activity(job.name) as activity:
        for stage in STAGES:
            activity.doing(stage.__name__.replace("_", " "))
            stage(job)
            if job.compiled is not None:
                break
    assert job.compiled is not None, "the last stage sets `compiled`"
    stage_logs.log_graph(job.report)
    fallback.warn_if_any(job.report)
    return inspection.aten_graph(job.compiled, job.name, job.config, job.imported)


def begin(job: CompileJob) -> None:
    """Registers the report; records what happened before the graph was compiled."""
    if job.role is Role.BACKWARD:
        saved_tensors.allow_second_backward()
    job.report.no_regions = take_fallbacks()
    report.add(job.report)


def run_fx_stages(job: CompileJob) -> None:
    """Applies the users' changes to the ATen graph; assigns nodes to streams."""
    subject = fx_stage.Subject(job.name, job.role.phase)
    if _reads_nodes(job):
        inlined_regions.inline(job.gm)
    with debug_folder.stages_of(job.request.files, job.name, subject.phase) as job.files:
        if job.backend != "npugraphs" and not tensor_dump.of_original(job.config):
            fx_stage.run(job.gm, job.example_inputs, job.config, subject)
            job.streams = stream_assignment.find(job.gm)
            streams = job.streams
            limits = Counter(streams.limits.values())
            job.report.streams = StreamSummary(streams.nodes, streams.waits, limits)
    if job.files is not None:
        job.files.write_code(job.gm, job.backend, job.config)


def _reads_nodes(job: CompileJob) -> bool:
    """Whether anything but the importer looks at the nodes of the graph one by one."""
    config = job.config
    return (
        job.request.files is not None
        or fx_stage.any_wanted(config)
        or tensor_dump.wanted(config)
        or nan_check.wanted(config)
        or inlined_regions.any_marks(job.gm)
    )


def add_instruments(job: CompileJob) -> None:
    """Inserts the saves and checks of values that options request."""
    if job.config.get("super_kernel_optimize", False) and device_of(job.gm).type != "cuda":
        job.report.notes.append(super_kernel.NOTHING_MERGED)
    instrumentation.insert_into(job.gm, job.name, job.config)


def run_eagerly_if_asked(job: CompileJob) -> None:
    """Requested by the backend or an option, or in a PyTorch mode that compiled code does not
    support."""
    if job.backend == "npugraphs":
        _run_eagerly(job, "npugraphs runs PyTorch's kernels", asked_for=True)
        _capture_eager_function(job)
    elif tensor_dump.of_original(job.config):
        _run_eagerly(job, "option data_dump_stage='original'", asked_for=True)
    elif is_forward_mode_on():
        _run_eagerly(job, "tangents of forward mode are computed by PyTorch's own ops")
    elif job.config.get("force_eager", False):
        _run_eagerly(job, "option force_eager", asked_for=True)
    if job.compiled is not None and job.backend == "npugraph_ex":
        logger.warning("%s falls back to eager: %s", job.name, job.report.eager_reason)


def _run_eagerly(job: CompileJob, reason: str, asked_for: bool = False) -> None:
    job.report.eager_reason, job.report.eager_asked_for = reason, asked_for
    job.compiled = instrumentation.eager_function(job.gm, job.name, job.config)


def _capture_eager_function(job: CompileJob) -> None:
    """Captures PyTorch's own kernels if it supports graphs on the device."""
    assert job.compiled is not None
    try:
        device = device_of(job.gm)
    except GraphNotSupported as problem:
        job.report.notes.append(f"PyTorch's kernels run one by one: {problem}")
        return
    captured = torch_graphs.captured(job.compiled, job.gm, device, job.report.notes)
    job.compiled = captured or job.compiled


def import_graph(job: CompileJob) -> None:
    """Imports the ATen graph. A graph that can't be imported runs through PyTorch."""
    start = time.perf_counter()
    importing = GraphImport(
        job.gm,
        job.name,
        streams=job.streams,
        strict=job.config.get("strict", False),
        # The forward has already checked the same values.
        check_values=job.role is not Role.BACKWARD,
        note_refusals=job.request.record is None,
        fast_random=job.config.get("random", "eager") == "fast",
        keep_identities=not job.config.get("remove_noop_ops", True),
        aliases=frozenset() if job.role is Role.BACKWARD else results_that_alias_arguments(),
    )
    try:
        job.imported = importing.run()
    except GraphNotSupported as problem:
        if importing.outcome.regions:
            report.drop(job.report)
            trace_without_regions(problem)
            report.add(job.report)
        if job.config.get("strict", False):
            raise
        _run_eagerly(job, str(problem))
        return
    job.report.take(job.imported.outcome)
    job.report.seconds["import"] = time.perf_counter() - start
    if job.files is not None:
        job.files.write_imported(job.imported.graph.text())


def bind_arguments(job: CompileJob) -> None:
    """Determines which arguments are bound once, and which are freed while the graph runs."""
    assert job.imported is not None
    # Training changes parameters, so only graphs without gradients treat them as frozen.
    asked_for = job.role is Role.INFERENCE and job.config.get("frozen_parameter", False)
    if asked_for:
        adapter = job.imported.adapter
        found = frozen_parameters.static_arguments(job.input_names)
        job.static = [(i, name) for i, name in found if not adapter.changes(i)]
    if job.role is Role.BACKWARD:
        job.released = saved_tensors.arguments_of(job.gm)


def make_engine(job: CompileJob) -> None:
    """Compiles the graph."""
    assert job.imported is not None
    record = job.request.record
    job.runner = make_runner(
        RunnerRequest(
            job.imported,
            job.config,
            captures=settings_of(job.config, job.gm.graph, job.input_names),
            static=job.static,
            released=job.released,
            # A training step needs most of its memory between forward and backward.
            keep_arena=job.role is Role.INFERENCE,
            dump_dir="" if job.files is None else job.files.engine_dir,
            cache_dir="" if record is None else record.cache_dir,
            backend=job.backend,
        )
    )
    if record is not None:
        record.take(job.imported, job.static)
    if job.backend == "npugraph_ex" and logger.isEnabledFor(logging.DEBUG):
        logger.debug("%s: generated code\n%s", job.name, job.runner.text("program"))
    job.report.runner = job.runner
    job.report.capture_limit = job.config.get("capture_limit")
    job.report.input_names = _names_of_tensors(job)


def _names_of_tensors(job: CompileJob) -> dict[int, str]:
    """By number among the tensors that a call passes to the engine."""
    assert job.imported is not None
    names, bound = job.input_names, {argument for argument, _ in job.static}
    passed = [argument for argument in job.imported.tensors if argument not in bound]
    return {k: plain_name(names[a]) for k, a in enumerate(passed) if a < len(names)}


def wrap_calls(job: CompileJob) -> None:
    """Adds the hooks around each call of the runner, if any."""
    assert job.imported is not None
    compiled = job.imported.adapter.wrap(job.runner)
    if any(call.is_of_user for call in job.imported.outcome.calls):
        mode = job.config.get("capture_error_mode", "global")
        compiled = error_mode.guarded(compiled, job.runner, job.name, mode)
    compiled = stage_logs.with_texts(compiled, job.runner, job.name)
    job.compiled = with_call_hooks(compiled, job.runner, job.name, job.files, job.config)


STAGES: tuple[Callable[[CompileJob], None], ...] = (
    begin,
    run_fx_stages,
    add_instruments,
    run_eagerly_if_asked,
    import_graph,
    bind_arguments,
    make_engine,
    wrap_calls,
)
