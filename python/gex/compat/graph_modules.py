"""FX graphs: their generated code, and pickles of them."""

from __future__ import annotations

from torch.fx import Graph, GraphModule
from torch.fx.graph import _BoxedCodeGen

from gex.compat.fake_tensors import FakeTensorMode


def generate_boxed_code(graph: Graph) -> None:
    """Makes the graph's code take one list of arguments and empty it."""
    graph.set_codegen(_BoxedCodeGen())


def pickled_graph(gm: GraphModule) -> bytes:
    from torch.fx._graph_pickler import GraphPickler, Options

    return GraphPickler.dumps(gm, Options(ops_filter=None))


def unpickled_graph(data: bytes, mode: FakeTensorMode) -> GraphModule:
    from torch.fx._graph_pickler import GraphPickler

    gm = GraphPickler.loads(data, mode)
    assert isinstance(gm, GraphModule)
    return gm
