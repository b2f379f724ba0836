"""Inductor's pattern matcher. Importing it imports all of inductor, so import it only when
needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

Match = Any  # torch._inductor.pattern_matcher.Match
Pattern = Any  # torch._inductor.pattern_matcher.PatternExpr


def traced_pattern(fn: Callable[..., Any], args: Sequence[Any]) -> GraphModule:
    """The operators that a function calls, without those that change nothing."""
    from torch._dispatch.python import enable_python_dispatcher

    with torch.no_grad(), enable_python_dispatcher():
        gm = make_fx(fn, {}, tracing_mode="real")(*args)
    remove_noop_calls(gm.graph)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def remove_noop_calls(graph: Graph) -> None:
    from torch._inductor.fx_passes.post_grad import remove_noop_ops

    remove_noop_ops(graph)


def new_pattern_list(name: str) -> Any:
    from torch._inductor.pattern_matcher import PatternMatcherPass

    return PatternMatcherPass(pass_name=name)


def register_replacement(*args: Any, **kwargs: Any) -> None:
    from torch._inductor import pattern_matcher

    pattern_matcher.register_replacement(*args, **kwargs)


def sort_topologically(graph: Graph) -> None:
    """Sorts nodes after their operands, otherwise keeping their order."""
    from torch._inductor.pattern_matcher import stable_topological_sort

    stable_topological_sort(graph)
