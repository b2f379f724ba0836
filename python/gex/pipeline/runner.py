"""The last step of a compile: makes the engine's runner of an imported graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from gex import _gex, pass_files
from gex.aot import frozen_parameters
from gex.captures.capture_options import settings_of
from gex.importer.graph_device import target_of
from gex.options import engine_flags
from gex.options.table import Config
from gex.report import trace_dump


class Importable(Protocol):
    """A graph that was just imported, or restored from another process."""

    graph: _gex.Graph
    callees: list[Callable[..., Any]]
    device: torch.device

    def signature(self) -> _gex.Signature: ...


@dataclass(frozen=True)
class RunnerRequest:
    imported: Importable
    config: Config
    captures: _gex.CaptureOptions | None = None  # None: those of the configuration
    static: Sequence[tuple[int, str]] = ()  # arguments that are bound once, and their names
    released: Sequence[int] = ()  # arguments that are freed at their last use
    keep_arena: bool = True  # between calls
    dump_dir: str = ""
    cache_dir: str = ""  # of compiled programs; "": from the environment, if set
    backend: str = "gex"


# What profilers of torch_npu show around a call, around its capture and around its replay.
_RANGES_OF_NPUGRAPH_EX = ("npu_fx_compiler inference", "acl_graph_capture", "acl_graph_replay")


def make_runner(request: RunnerRequest) -> Any:
    imported, config = request.imported, request.config
    options = _engine_options(request)
    if config.get("trace.enabled", False):
        options.dump_dir = trace_dump.folder_of(imported.graph)
    signature = imported.signature()
    if config.get("executor", "compiled") == "interpreter":
        return _gex.interpreter_runner(imported.graph, signature, imported.callees)
    pass_files.load_environment()
    captures = request.captures or settings_of(config)
    runner = _gex.compiled_runner(imported.graph, signature, imported.callees, captures, options)
    if request.backend == "npugraph_ex":
        runner.name_ranges(*_RANGES_OF_NPUGRAPH_EX)
    refusals = getattr(imported, "refusals", None)
    if refusals is not None:
        runner.watch(refusals.words, refusals.refuse)
    frozen_parameters.remember(runner)
    return runner


def _engine_options(request: RunnerRequest) -> _gex.RunnerOptions:
    options = engine_flags.options_of(request.config)
    options.target = target_of(request.imported.device)
    options.frozen = list(request.static)
    options.released = list(request.released)
    options.keep_arena = request.keep_arena
    options.dump_dir = request.dump_dir
    options.cache_dir = request.cache_dir
    return options
