"""If, While and For: branches are functions that build a subgraph from the values they are given.

What a branch uses comes through `inputs`; values of the graph around it are refused there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gex._gex import es as _es
from gex.es import holder
from gex.es.builder import EsGraphBuilder
from gex.es.graph import Graph
from gex.es.holder import TensorHolder, TensorLike

# Takes a holder for each input, gives one or several.
Branch = Callable[..., TensorHolder | Sequence[TensorHolder]]


class _BranchBuilder(EsGraphBuilder):
    """The builder of a branch's values. The constants of the branch go into its graph."""

    def __init__(self, native: _es.Builder) -> None:
        self._native = native


def _native_branch(branch: Branch) -> Callable[[_es.Builder, list], list]:
    def build(builder: _es.Builder, arguments: list) -> list:
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
    """The results of one of two branches, which give the same types."""
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
    """The same of graphs made by hand: input k of each reads inputs[k]."""
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
    """For each index from `start` on by `delta`, until `limit`, which is not reached: replaces the
    first of the values by the results of `body`, which gets the index and all of them."""
    builder = holder.owner_of("for", [start, limit, delta, *inputs])
    bounds = _natives([start, limit, delta], builder)
    made = _es.for_(*bounds, _natives(inputs, builder), _native_branch(body))
    return [holder.make(builder, native) for native in made]


def while_(inputs: Sequence[TensorLike], condition: Branch, body: Branch) -> list[TensorHolder]:
    """While `condition` of the values says so, replaces the first of them by the results of
    `body`, and gives what those are in the end."""
    builder = holder.owner_of("while", inputs)
    natives = _natives(inputs, builder)
    made = _es.while_(natives, _native_branch(condition), _native_branch(body))
    return [holder.make(builder, native) for native in made]
