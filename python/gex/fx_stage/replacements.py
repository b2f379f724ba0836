"""User-defined patterns and their replacements, matched by PyTorch's own matcher.

Its module is imported when the first pattern is registered, because it imports all of inductor.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from gex.compat import pattern_matcher
from gex.compat.fake_tensors import detect_fake_mode
from gex.compat.pattern_matcher import Match, Pattern
from gex.fx_stage import stream_assignment

_patterns: Any = None  # of this process


def fwd_only(fn: Callable[..., Any], args: Sequence[Any], **_: Any) -> GraphModule:
    """Traces to the operators that graphs contain when patterns are matched."""
    return pattern_matcher.traced_pattern(fn, args)


def always_true(match: Match) -> bool:
    return True


def register_replacement(
    search_fn: Callable[..., Any],
    replace_fn: Callable[..., Any],
    example_inputs: Sequence[Any],
    trace_fn: Callable[..., GraphModule] = fwd_only,
    extra_check: Callable[[Match], bool] = always_true,
    search_fn_pattern: Pattern | None = None,
    scalar_workaround: dict[str, float | int] | None = None,
    skip_duplicates: bool = False,
) -> None:
    """Makes every later compile replace what `search_fn` computes by `replace_fn`.

    `search_fn` is traced on `example_inputs`; their sizes need not be the real ones. A match is
    checked again with the actual values, then by `extra_check`. With `skip_duplicates` a pattern
    that is already registered is kept; otherwise that is an error.
    """
    global _patterns
    names = list(inspect.signature(search_fn).parameters)
    for name in scalar_workaround or {}:
        if name not in names:
            raise ValueError(
                f"scalar_workaround: {name!r} is not a parameter of search_fn, which has {names}"
            )
    if _patterns is None:
        _patterns = pattern_matcher.new_pattern_list("npugraph_ex_user_patterns")
    with _fake_values_of(example_inputs):
        pattern_matcher.register_replacement(
            search_fn,
            replace_fn,
            _told_apart(example_inputs),
            trace_fn,
            _patterns,
            extra_check=lambda match: _on_one_stream(match) and bool(extra_check(match)),
            scalar_workaround=scalar_workaround,
            search_fn_pattern=search_fn_pattern,
            skip_duplicates=skip_duplicates,
        )


@contextlib.contextmanager
def _fake_values_of(example_inputs: Sequence[Any]) -> Iterator[None]:
    """Traces in the fake mode of the examples, if they are fake."""
    with detect_fake_mode(list(example_inputs)) or contextlib.nullcontext():
        yield


def _told_apart(example_inputs: Sequence[Any]) -> list[Any]:
    """Clones repeated tensors: one tensor passed for two arguments would be one argument in the
    trace."""
    seen: set[int] = set()
    out = []
    for example in example_inputs:
        again = id(example) in seen and isinstance(example, torch.Tensor)
        seen.add(id(example))
        out.append(example.clone() if again else example)
    return out


def _on_one_stream(match: Match) -> bool:
    streams = stream_assignment.find(match.graph.owning_module).of
    return len({streams.get(node) for node in match.nodes}) <= 1


def any_registered() -> bool:
    return _patterns is not None


def apply(gm: GraphModule) -> int:
    """Replaces all matches, also in nested graphs; returns their number."""
    if _patterns is None:
        return 0
    count = _patterns.apply(gm)
    for inner in _graphs_inside(gm):
        count += apply(inner)
    if count:
        pattern_matcher.sort_topologically(gm.graph)
        gm.recompile()
    return count


def _graphs_inside(gm: GraphModule) -> list[GraphModule]:
    nodes: list[Node] = gm.graph.find_nodes(op="get_attr")
    found = [getattr(gm, str(node.target), None) for node in nodes]
    return [inner for inner in dict.fromkeys(found) if isinstance(inner, GraphModule)]


def remove_noop_calls(graph: Graph) -> None:
    """Removes from the graph the no-op calls that are removed from traced patterns."""
    pattern_matcher.remove_noop_calls(graph)
