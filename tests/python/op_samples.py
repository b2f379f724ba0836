"""Runs an operator of PyTorch's own sample database through the importer, without Dynamo."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from gex import torch_backend
from gex.fx_import import GraphImport
from gex.options import GEX_OPTIONS, Config
from gex.report import GraphReport

# Contents without a meaning, or numbers drawn after the sample's own fixing of the seed.
UNCOMPARABLE = {
    "as_strided",  # reads memory beside the tensor it is given
    "bernoulli",
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "normal",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "uniform",
}


@dataclass
class Sample:
    fn: Callable[..., tuple[Any, ...]]
    tensors: list[torch.Tensor]


def comparable_ops() -> list[Any]:
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if op.name not in UNCOMPARABLE and "dropout" not in op.name]


def samples(op: Any, dtype: torch.dtype, limit: int) -> Iterator[Sample]:
    torch.manual_seed(0)
    random.seed(0)
    for _, sample in zip(range(limit), op.sample_inputs("cpu", dtype, requires_grad=False)):
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


def trace(sample: Sample) -> torch.fx.GraphModule:
    pure = torch.func.functionalize(sample.fn, remove="mutations")
    return make_fx(pure, tracing_mode="fake")(*sample.tensors)


def run(gm: torch.fx.GraphModule, tensors: list[torch.Tensor], executor: str) -> Any:
    """The results, and what the graph became."""
    report = GraphReport("op", "gex")
    imported = GraphImport(gm, "op", report).run()
    runner = torch_backend.make_runner(imported, Config(GEX_OPTIONS, {"executor": executor}))
    return imported.adapter.wrap(runner)(list(tensors)), report
