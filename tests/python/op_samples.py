"""Runs an operator of PyTorch's own sample database through the importer, without Dynamo."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from gex.importer.graph_import import GraphImport
from gex.options.table import GEX_OPTIONS, Config
from gex.pipeline.runner import RunnerRequest, make_runner

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)
SEED = 42  # what PyTorch's own samples of random operators set
# Results that eager leaves unwritten: their sizes, strides and dtypes are compared.
UNWRITTEN = frozenset(
    ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
)


@dataclass
class Sample:
    fn: Callable[..., tuple[Any, ...]]
    tensors: list[torch.Tensor]


def operators(device: str = "cpu") -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    # Jiterator's are made for CUDA alone.
    return [op for op in op_db if device == "cuda" or not launches_while_traced(op)]


def launches_while_traced(op: Any) -> bool:
    """Functions of torch.cuda.jiterator are no operators of PyTorch's dispatcher: they launch their
    kernel at once, also with tensors without memory, as those of a trace are. The kernel then reads
    address 0, and the process can't use the device any more."""
    return op.name.startswith("jiterator")


def two_dtypes(op: Any, index: int) -> list[torch.dtype]:
    """f32 and one other dtype, which differs from operator to operator."""
    have = [d for d in DTYPES if d in op.supported_dtypes("cpu")]
    others = [d for d in have if d != torch.float32]
    chosen = [d for d in have if d == torch.float32]
    return chosen + ([others[index % len(others)]] if others else [])


def samples(op: Any, dtype: torch.dtype, limit: int, device: str = "cpu") -> Iterator[Sample]:
    """At most `limit` samples, spread over all that the operator has."""
    torch.manual_seed(0)
    random.seed(0)
    found = list(op.sample_inputs(device, dtype, requires_grad=False))
    step = max(1, -(-len(found) // limit))
    for sample in found[::step]:
        leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

        def fn(
            *tensors: torch.Tensor,
            leaves: list[Any] = leaves,
            spec: Any = spec,
            positions: list[int] = positions,
        ) -> tuple[Any, ...]:
            filled = list(leaves)
            for position, tensor in zip(positions, tensors):
                filled[position] = tensor
            first, args, kwargs = tree_unflatten(filled, spec)
            return tuple(tree_leaves(op.op(first, *args, **kwargs)))

        yield Sample(fn, [leaves[i] for i in positions])


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """The same view of a copy of the memory."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor.clone()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        tensor.untyped_storage().clone(), tensor.storage_offset(), tensor.shape, tensor.stride()
    )


def trace(sample: Sample) -> torch.fx.GraphModule:
    pure = torch.func.functionalize(sample.fn, remove="mutations")
    return make_fx(pure, tracing_mode="fake")(*sample.tensors)


def run(gm: torch.fx.GraphModule, tensors: list[torch.Tensor], executor: str) -> Any:
    """The results, what the graph became, and the device that its program is for."""
    imported = GraphImport(gm, "op").run()
    runner = make_runner(RunnerRequest(imported, Config(GEX_OPTIONS, {"executor": executor})))
    torch.manual_seed(SEED)
    results = imported.adapter.wrap(runner)([copy_of(t) for t in tensors])
    return results, imported.outcome, imported.device
