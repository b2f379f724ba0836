"""Backward graphs called with batches of gradients (`is_grads_batched`, `vectorize=True`).

PyTorch computes such gradients by calling the backward once, with tensors that hide a batch axis. A
compiled graph reads plain memory, so it runs once for each entry of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack

Graph = Callable[[list[Any]], Sequence[Any]]

_is_legacy = _functorch.is_legacy_batchedtensor
_is_functorch = _functorch.is_batchedtensor


def is_batch(value: Any) -> bool:
    """Whether it is a tensor that hides a batch axis of torch.autograd's or torch.func's vmap."""
    return isinstance(value, torch.Tensor) and (_is_legacy(value) or _is_functorch(value))


def run(graph: Graph, arguments: list[Any]) -> Sequence[Any]:
    """`graph(arguments)`, where arguments may be batches; then its results are, too."""
    if any(isinstance(x, torch.Tensor) and _is_functorch(x) for x in arguments):
        return _run_for_functorch(graph, arguments)
    if any(isinstance(x, torch.Tensor) and _is_legacy(x) for x in arguments):
        with _innermost_level() as level:
            return _run_for_legacy(graph, arguments, level)
    return graph(arguments)


@contextmanager
def _innermost_level() -> Iterator[int]:
    """Level of torch.autograd's vmap; inside the block the vmap around it is the innermost."""
    level = torch._C._vmapmode_decrement_nesting() + 1
    try:
        yield level
    finally:
        torch._C._vmapmode_increment_nesting()


def _run_for_legacy(graph: Graph, arguments: list[Any], level: int) -> Sequence[Any]:
    # A tensor without a batch axis of this level gets one of size 1.
    batches = {
        i: torch._remove_batch_dim(x, level, 1, 0)
        for i, x in enumerate(arguments)
        if isinstance(x, torch.Tensor) and _is_legacy(x)
    }
    results = _run_each(graph, arguments, batches)
    return [x if x is None else torch._add_batch_dim(x, 0, level) for x in results]


def _run_for_functorch(graph: Graph, arguments: list[Any]) -> Sequence[Any]:
    level = _functorch.current_level()
    batches = {}
    for i, x in enumerate(arguments):
        if isinstance(x, torch.Tensor) and _is_functorch(x):
            if _functorch.maybe_get_level(x) == level:
                axis = _functorch.maybe_get_bdim(x)
                batches[i] = _functorch.get_unwrapped(x).movedim(axis, 0)
            else:
                batches[i] = x.unsqueeze(0)
    with temporarily_pop_interpreter_stack():
        results = _run_each(graph, arguments, batches)
    return [x if x is None else _functorch._add_batch_dim(x, 0, level) for x in results]


def _run_each(
    graph: Graph, arguments: list[Any], batches: dict[int, torch.Tensor]
) -> list[torch.Tensor | None]:
    size = max(batch.shape[0] for batch in batches.values())
    columns: list[Sequence[Any]] = []
    for entry in range(size):
        given = list(arguments)
        for i, batch in batches.items():
            given[i] = batch[entry if batch.shape[0] == size else 0]
        columns.append(run(graph, given))
    return [None if x[0] is None else torch.stack(x) for x in zip(*columns, strict=True)]
