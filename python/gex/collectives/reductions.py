"""all_reduce, reduce_scatter and their forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from gex.collectives.tracing import finish, group_name, waited


def forms() -> dict[Callable[..., Any], Callable[..., Any]]:
    return {
        dist.all_reduce: all_reduce,
        dist.reduce_scatter_tensor: reduce_scatter_tensor,
        dist.reduce_scatter: reduce_scatter,
    }


def _name(op: Any) -> str:
    if op is None:  # PyTorch 2.11 can't trace a default that is an object of C++
        return "sum"
    for known, name in (
        (dist.ReduceOp.SUM, "sum"),
        (dist.ReduceOp.AVG, "avg"),
        (dist.ReduceOp.PRODUCT, "product"),
        (dist.ReduceOp.MIN, "min"),
        (dist.ReduceOp.MAX, "max"),
        (dist.ReduceOp.BAND, "band"),
        (dist.ReduceOp.BOR, "bor"),
        (dist.ReduceOp.BXOR, "bxor"),
    ):
        if op is known:
            return name
    raise ValueError(f"{op} is not supported in a compiled graph")


def all_reduce(
    tensor: torch.Tensor, op: Any = None, group: Any = None, async_op: bool = False
) -> Any:
    result = torch.ops._c10d_functional.all_reduce(tensor, _name(op), group_name(group))
    return finish(result, [tensor], async_op)


def reduce_scatter_tensor(
    output: torch.Tensor,
    input: torch.Tensor,
    op: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    size = dist.get_world_size(group)
    if input.numel() != size * output.numel():
        raise ValueError(
            f"reduce_scatter_tensor of {list(input.shape)} over {size} processes gives a part of "
            f"it, not {list(output.shape)}"
        )
    rows = input.reshape(size * output.shape[0], *output.shape[1:])
    result = torch.ops._c10d_functional.reduce_scatter_tensor(
        rows, _name(op), size, group_name(group)
    )
    return finish(result, [output], async_op)


def reduce_scatter(
    output: torch.Tensor,
    input_list: list[torch.Tensor],
    op: Any = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Parts may have different sizes: then all are reduced, and each process keeps its own."""
    flat = torch.cat([part.reshape(-1) for part in input_list])
    if all(part.numel() == output.numel() for part in input_list):
        result = torch.ops._c10d_functional.reduce_scatter_tensor(
            flat, _name(op), len(input_list), group_name(group)
        )
        return finish(result, [output], async_op)
    rank = dist.get_rank(group)
    start = sum(part.numel() for part in input_list[:rank])
    summed = waited(torch.ops._c10d_functional.all_reduce(flat, _name(op), group_name(group)))
    return finish(summed[start : start + output.numel()], [output], async_op)
