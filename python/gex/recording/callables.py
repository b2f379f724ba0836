"""make_graphed_callables: functions and modules whose forward and backward are replayed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gex.captures.pools import graph_pool_handle
from gex.compat.aot import is_autocast_enabled
from gex.compat.pytree import tree_leaves

Graphed = Callable[..., Any]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Compiles each for its sample arguments and runs it `num_warmup_iters` times, all with
    temporaries in one pool.

    A module is returned itself, with a forward that replays while the module is in the training
    mode in which it was graphed.
    """
    if is_autocast_enabled() and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables can't be used with autocast's cache: "
            "torch.autocast(..., cache_enabled=False)"
        )
    single = not isinstance(callables, tuple | list)
    functions = [callables] if single else list(callables)
    samples = [sample_args] if single else list(sample_args)
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables with {len(samples)} sets of sample arguments")
    for function, sample in zip(functions, samples):
        _check(function, sample)
    options = {"use_graph_pool": graph_pool_handle() if pool is None else pool}
    graphed = [
        _graphed(function, sample, num_warmup_iters, allow_unused_input, options)
        for function, sample in zip(functions, samples)
    ]
    return graphed[0] if single else tuple(graphed)


def _check(function: Any, sample: Sequence[Any]) -> None:
    leaves = tree_leaves(sample)
    for value in leaves:
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"sample arguments must be tensors, got {value!r} of {type(value)}")
    if not isinstance(function, torch.nn.Module):
        return
    hooks = (function._backward_hooks, function._forward_hooks, function._forward_pre_hooks)
    if any(hooks):
        raise RuntimeError(
            f"{type(function).__name__} has hooks: add them after make_graphed_callables"
        )
    for name, buffer in function.named_buffers():
        if buffer.requires_grad:
            raise RuntimeError(f"buffer {name!r} requires a gradient: only parameters may")


def _graphed(
    function: Any,
    sample: Sequence[torch.Tensor],
    warmup: int,
    allow_unused: bool,
    options: dict[str, Any],
) -> Any:
    is_module = isinstance(function, torch.nn.Module)
    original = function.forward if is_module else function
    compiled = torch.compile(
        original, backend="npugraph_ex", fullgraph=True, dynamic=False, options=options
    )
    for _ in range(warmup):
        _run_once(compiled, function, sample, allow_unused)
    if not is_module:
        return compiled
    was_training = function.training

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        run = compiled if function.training == was_training else original
        return run(*args, **kwargs)

    function.forward = forward
    return function


def _run_once(
    compiled: Graphed, function: Any, sample: Sequence[torch.Tensor], allow_unused: bool
) -> None:
    """Runs forward and backward, and restores gradients, buffers and random state."""
    buffers = list(function.buffers()) if isinstance(function, torch.nn.Module) else []
    kept = [buffer.clone() for buffer in buffers]
    with torch.random.fork_rng(devices=[]):
        outputs = [o for o in tree_leaves(compiled(*sample)) if isinstance(o, torch.Tensor)]
        differentiable = [o for o in outputs if o.requires_grad]
        if differentiable:
            wanted = [x for x in _inputs(function, sample) if x.requires_grad]
            gradients = [torch.zeros_like(o) for o in differentiable]
            got = torch.autograd.grad(differentiable, wanted, gradients, allow_unused=True)
            if not allow_unused and any(gradient is None for gradient in got):
                unused = next(i for i, gradient in enumerate(got) if gradient is None)
                raise RuntimeError(
                    f"no result depends on input {unused}, which requires a gradient, "
                    f"size {list(wanted[unused].shape)}: pass allow_unused_input=True"
                )
    with torch.no_grad():
        for buffer, contents in zip(buffers, kept):
            buffer.copy_(contents)


def _inputs(function: Any, sample: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    parameters = list(function.parameters()) if isinstance(function, torch.nn.Module) else []
    return [*tree_leaves(sample), *parameters]
