"""If, While and For: branches are functions that build a subgraph from their arguments.

Everything a branch uses must be passed through `inputs`; values of the outer graph are rejected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gex._gex import es as _es
from gex.es import holder
from gex.es.builder import EsGraphBuilder
from gex.es.graph import Graph
from gex.es.holder import TensorHolder, TensorLike

# Takes a holder for each input, returns one or several.
Branch = Callable[..., TensorHolder | Sequence[TensorHolder]]


class _BranchBuilder(EsGraphBuilder):
    """Builds a branch. Constants created in the branch belong to its graph."""

    def __init__(self, native: _es.Builder) -> None:
        self._native = native


def _native_branch(
    branch: Branch,
) -> Callable[[_es.Builder, Sequence[_es.Holder]], Sequence[_es.Holder]]:
    def build(builder: _es.Builder, arguments: Sequence[_es.Holder]) -> Sequence[_es.Holder]:
        owner = _BranchBuilder(builder)
        results = branch(*[holder.make(owner, argument) for argument in arguments])
        if isinstance(results, TensorHolder):
            results = [results]
        return [holder.tensor(owner, result, None)._native for result in results]

    return build


def _natives(tensors: Sequence[TensorLike], builder: EsGraphBuilder) -> list[_es.Holder]:
    return [holder.tensor(builder, value, None)._native for value in tensors]


def if_(
    condition: TensorHolder,
    inputs: Sequence[TensorLike],
    then_branch: Branch,
    else_branch: Branch,
) -> list[TensorHolder]:
    """The results of one of two branches, which must have the same types."""
    builder = condition._builder
    natives = _natives(inputs, builder)
    branches = _native_branch(then_branch), _native_branch(else_branch)
    made = _es.if_(condition._native, natives, *branches)
    return [holder.make(builder, native) for native in made]


def if_graphs(
    condition: TensorHolder,
    inputs: Sequence[TensorLike],
    result_count: int,
    then_graph: Graph,
    else_graph: Graph,
) -> list[TensorHolder]:
    """The same with prebuilt graphs: input k of each reads inputs[k]."""
    builder = condition._builder
    natives = _natives(inputs, builder)
    graphs = then_graph._native, else_graph._native
    made = _es.if_graphs(condition._native, natives, result_count, *graphs)
    return [holder.make(builder, native) for native in made]


def for_(
    start: TensorLike,
    limit: TensorLike,
    delta: TensorLike,
    inputs: Sequence[TensorLike],
    body: Branch,
) -> list[TensorHolder]:
    """For each index from `start` by `delta` up to but excluding `limit`: replaces the first of
    the values by the results of `body`, which gets the index and all values."""
    builder = holder.owner_of("for", [start, limit, delta, *inputs])
    first, last, step = _natives([start, limit, delta], builder)
    made = _es.for_(first, last, step, _natives(inputs, builder), _native_branch(body))
    return [holder.make(builder, native) for native in made]


def while_(inputs: Sequence[TensorLike], condition: Branch, body: Branch) -> list[TensorHolder]:
    """While `condition` of the values is true, replaces the first of them by the results of
    `body`; returns their final values."""
    builder = holder.owner_of("while", inputs)
    natives = _natives(inputs, builder)
    made = _es.while_(natives, _native_branch(condition), _native_branch(body))
    return [holder.make(builder, native) for native in made]
