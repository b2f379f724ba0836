"""Whether padding a dim can change the unpadded values, determined op by op.

The function is run on fake tensors at two sizes. Dims that differ between the runs derive from the
padded one; an op is safe if its result at a position of such a dim does not depend on later
positions. What can't be shown to be safe is not padded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gex._gex import AtenFacts
from gex.compat.fake_tensors import FakeTensorMode, TorchDispatchMode
from gex.compat.pytree import tree_leaves, tree_map_only
from gex.op_facts import facts_of

Sizes = tuple[tuple[int, ...], ...]


@dataclass
class _Seen:
    op: Any
    inputs: Sizes
    outputs: Sizes
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass
class Run:
    """The ops and result sizes of a function at one size."""

    ops: list[_Seen] = field(default_factory=list)
    outputs: list[tuple[int, ...] | None] = field(default_factory=list)  # None: no tensor


class _Watch(TorchDispatchMode):
    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._run.ops.append(
            _Seen(func, _sizes((args, kwargs)), _sizes(result), args, dict(kwargs or {}))
        )
        return result


def _sizes(tree: Any) -> Sizes:
    return tuple(tuple(t.shape) for t in tree_leaves(tree) if isinstance(t, torch.Tensor))


def watch(fn: Callable[..., Any], args: Any, kwargs: Any) -> Run:
    """Runs `fn` on fake tensors: sizes of results and each op."""
    run = Run()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad(), _Watch(run):
        fake = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        results = fn(*fake[0], **fake[1])
    run.outputs = [
        tuple(r.shape) if isinstance(r, torch.Tensor) else None for r in tree_leaves(results)
    ]
    return run


Growth = dict[int, int]  # dims that grow with the padding, and their growth per position


def why_not(one: Run, other: Run) -> str | None:
    """Why padding can't be shown to be safe, from runs at sizes that differ by one; None if it
    is."""
    if [s.op for s in one.ops] != [s.op for s in other.ops]:
        return "the function does not run the same ops for another size"
    for a, b in zip(one.ops, other.ops):
        padded = [_growth(x, y) for x, y in zip(a.inputs, b.inputs)]
        if any(padded):
            reason = _objection(a, b, padded)
            if reason is not None:
                return f"{a.op}: {reason}"
    for k, (x, y) in enumerate(zip(one.outputs, other.outputs)):
        if x is not None and y is not None and any(by != 1 for by in _growth(x, y).values()):
            return f"result {k} has padding between its values"
    return None


def _growth(one: Sequence[int], other: Sequence[int]) -> Growth:
    return {d: y - x for d, (x, y) in enumerate(zip(one, other)) if x != y}


def _objection(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    if a.op.namespace == "prim" or torch.Tag.pointwise in a.op.tags:
        return None
    kind = facts_of(a.op).padding
    if kind not in _RULES:
        return "not known to keep positions of the padded dim independent"
    return _RULES[kind](a, b, padded)


def _argument(a: _Seen, name: str, default: Any) -> Any:
    """The deciding argument, by name or position."""
    place = facts_of(a.op).padding_argument
    return a.keywords.get(name, a.arguments[place] if len(a.arguments) > place else default)


def _contracts(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    left = facts_of(a.op).padding_argument
    return "sums over the padded dim" if len(a.inputs[left]) - 1 in padded[left] else None


def _attends(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    keys_padded = len(a.inputs[1]) - 2 in padded[1]
    causal = _argument(a, "is_causal", False)
    return "attends to padded positions" if keys_padded and not causal else None


def _normalises_last(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    first = len(a.inputs[0]) - len(_argument(a, "normalized_shape", ()))
    return "normalises over the padded dim" if any(d >= first for d in padded[0]) else None


def _normalises_batch(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    return "normalises over the padded dim" if _argument(a, "training", True) else None


def _convolves(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    return "slides over the padded dim" if set(padded[0]) - {0} else None


def _folds(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    default = None if facts_of(a.op).padding_argument == 1 else -1
    dims = _argument(a, "dim", default)
    if dims is None or isinstance(dims, (bool, torch.dtype)) or dims == []:
        return "reduces over the padded dim"
    over = {d % len(a.inputs[0]) for d in ([dims] if isinstance(dims, int) else dims)}
    return "reduces over the padded dim" if over & set(padded[0]) else None


def _along_axis(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    return "takes parts of the padded dim" if _growth_along_axis(a, padded) else None


def _from_the_front(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    growth = _growth_along_axis(a, padded)
    if growth > 1:
        return "takes parts of the padded dim"
    first, other = (_first_position(seen) for seen in (a, b))
    from_the_end = growth == 1 and (first < 0 or first != other)
    return "takes positions from the end of the padded dim" if from_the_end else None


def _growth_along_axis(a: _Seen, padded: list[Growth]) -> int:
    dim = _argument(a, "dim", 0) % max(1, len(a.inputs[0]))
    return max((p.get(dim, 0) for p in padded), default=0)


def _first_position(seen: _Seen) -> int:
    """Where a slice or a selection begins: an argument after the axis. Scans have none."""
    first = seen.arguments[2] if len(seen.arguments) > 2 else 0
    return first if isinstance(first, int) else 0


def _keeps(a: _Seen, b: _Seen, padded: list[Growth]) -> str | None:
    return None


_Padding = AtenFacts.Padding
_RULES: dict[AtenFacts.Padding, Callable[[_Seen, _Seen, list[Growth]], str | None]] = {
    _Padding.along_axis: _along_axis,
    _Padding.attends: _attends,
    _Padding.contracts: _contracts,
    _Padding.convolves: _convolves,
    _Padding.folds: _folds,
    _Padding.from_the_front: _from_the_front,
    _Padding.keeps_positions: _keeps,
    _Padding.normalises_batch: _normalises_batch,
    _Padding.normalises_last: _normalises_last,
    _Padding.reads_sizes: _keeps,
}
