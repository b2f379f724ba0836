"""Compilers in the form that AOTAutograd takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from gex.pipeline.job import CompiledGraph, CompileJob, CompileRequest, Role
from gex.pipeline.stages import compile_graph

GraphCompiler = Callable[[GraphModule, Sequence[Any]], CompiledGraph]


def graph_compiler(request: CompileRequest, role: Role = Role.INFERENCE) -> GraphCompiler:
    """Compiles the ATen graphs that AOTAutograd makes of a function."""

    def compiler(gm: GraphModule, example_inputs: Sequence[Any]) -> CompiledGraph:
        return compile_graph(CompileJob(request, role, gm, example_inputs))

    return compiler
