"""all_gather, all_to_all, broadcast and their forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from gex.collectives.tracing import finish, global_rank, group_name


def forms() -> dict[Callable[..., Any], Callable[..., Any]]:
    return {
        dist.all_gather: all_gather,
        dist.all_gather_into_tensor: all_gather_into_tensor,
        dist.all_to_all: all_to_all,
        dist.all_to_all_single: all_to_all_single,
        dist.broadcast: broadcast,
    }


def all_gather_into_tensor(
    output_tensor: torch.Tensor,
    input_tensor: torch.Tensor,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    size = dist.get_world_size(group)
    given, part = output_tensor.shape, input_tensor.shape
    if input_tensor.dim() == 0:
        fits = list(given) == [size]
    else:
        joined = [size * part[0], *part[1:]]
        fits = list(given) == joined or list(given) == [size, *part]
    if not fits:
        raise ValueError(
            f"all_gather_into_tensor of {list(part)} over {size} processes: the output must "
            f"concatenate or stack the parts, not be {list(given)}"
        )
    rows = input_tensor.reshape(1) if input_tensor.dim() == 0 else input_tensor
    result = torch.ops._c10d_functional.all_gather_into_tensor(rows, size, group_name(group))
    return finish(result, [output_tensor], async_op)


def all_gather(
    tensor_list: list[torch.Tensor], tensor: torch.Tensor, group: Any = None, async_op: bool = False
) -> Any:
    """Parts may have different sizes: then each process sends its own to every other."""
    size = dist.get_world_size(group)
    flat = tensor.reshape(-1)
    if all(out.numel() == tensor.numel() for out in tensor_list):
        result = torch.ops._c10d_functional.all_gather_into_tensor(flat, size, group_name(group))
    else:
        result = torch.ops._c10d_functional.all_to_all_single(
            torch.cat([flat] * size),
            [out.numel() for out in tensor_list],
            [tensor.numel()] * size,
            group_name(group),
        )
    return finish(result, tensor_list, async_op)


def all_to_all_single(
    output: torch.Tensor,
    input: torch.Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    size = dist.get_world_size(group)
    out_sizes = _splits(output_split_sizes, output, size, "output")
    in_sizes = _splits(input_split_sizes, input, size, "input")
    result = torch.ops._c10d_functional.all_to_all_single(
        input, out_sizes, in_sizes, group_name(group)
    )
    return finish(result, [output], async_op)


def _splits(given: list[int] | None, tensor: torch.Tensor, size: int, what: str) -> list[int]:
    if given:
        assert sum(given) == tensor.shape[0], (
            f"{what} split sizes {given} must add up to the {tensor.shape[0]} rows"
        )
        return list(given)
    assert tensor.shape[0] % size == 0, (
        f"the {tensor.shape[0]} rows of the {what} can't be split among {size} processes"
    )
    return [tensor.shape[0] // size] * size


def all_to_all(
    output_tensor_list: list[torch.Tensor],
    input_tensor_list: list[torch.Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Any:
    result = torch.ops._c10d_functional.all_to_all_single(
        torch.cat([part.reshape(-1) for part in input_tensor_list]),
        [out.numel() for out in output_tensor_list],
        [part.numel() for part in input_tensor_list],
        group_name(group),
    )
    return finish(result, output_tensor_list, async_op)


def broadcast(
    tensor: torch.Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    source = global_rank(src, group_src, group, "src")
    root = source if group is None else dist.get_group_rank(group, source)
    result = torch.ops._c10d_functional.broadcast(tensor, root, group_name(group))
    return finish(result, [tensor], async_op)
