"""Instruments graphs according to the options of a compile: tensor dumps and value checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule
from torch.profiler import record_function

from gex.aot import eager_graph
from gex.debug import nan_check, tensor_dump
from gex.fx_stage import effect_ops
from gex.options.table import Config

Compiled = Callable[[list[Any]], Sequence[Any]]


def insert_into(gm: GraphModule, graph_name: str, config: Config) -> None:
    """Inserts everything that compiled code saves or checks and `eager_function` does not."""
    if tensor_dump.wanted(config) and not config.get("force_eager", False):
        tensor_dump.insert_saves(gm, graph_name, config)
    if nan_check.wanted(config):
        nan_check.insert_checks(gm)
    effect_ops.number_saves(gm)


def eager_function(gm: GraphModule, graph_name: str, config: Config) -> Compiled:
    """The graph, run op by op; with `dump_tensor_data` every node's tensors are written to
    files."""
    if tensor_dump.wanted(config) and config.get("force_eager", False):
        return tensor_dump.NumpyDumper(gm, graph_name, config).function()
    run = eager_graph.function_of(gm)
    return _in_range(run) if config.get("force_eager", False) else run


def _in_range(run: Compiled) -> Compiled:
    def run_in_range(arguments: list[Any]) -> Sequence[Any]:
        with record_function("fx_run_eagerly"):
            return run(arguments)

    run_in_range._boxed_call = True  # type: ignore[attr-defined]
    return run_in_range
