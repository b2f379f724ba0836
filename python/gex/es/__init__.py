"""Builds graphs with function calls and operators, as in C++ (`gex/es.hpp`).

    from gex import es

    builder = es.EsGraphBuilder("scale")
    x = builder.CreateInput(0, "x", "f32", ["s0", 4])
    graph = builder.Build([2 * es.gelu(x) + 1])
    (y,) = graph.compile().run([array])

Errors are raised on the line that causes them.
"""

from gex._gex import DType, EsError
from gex.es.builder import EsGraphBuilder, GraphBuilder
from gex.es.control import for_, if_, if_graphs, while_
from gex.es.custom_op import register_loop_op, register_op
from gex.es.graph import Graph, Program, compile_options
from gex.es.holder import TensorHolder, assign, attr_scope, control_dependency_scope
from gex.es.ops import *  # noqa: F403
from gex.es.ops import __all__ as _ops
from gex.es.resources import Allocator, ThreadPool
from gex.es.split import split

__all__ = [
    "Allocator",
    "DType",
    "EsError",
    "EsGraphBuilder",
    "Graph",
    "GraphBuilder",
    "Program",
    "TensorHolder",
    "ThreadPool",
    "assign",
    "attr_scope",
    "compile_options",
    "control_dependency_scope",
    "for_",
    "if_",
    "if_graphs",
    "register_loop_op",
    "register_op",
    "split",
    "while_",
    *_ops,
]
