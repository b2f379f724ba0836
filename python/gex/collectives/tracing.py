"""Shared by the traced forms of collectives: groups, ranks, results that are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist


def trace_as(original: Callable[..., Any], traced: Callable[..., Any]) -> None:
    """Makes Dynamo trace `traced` wherever a graph calls `original`."""
    torch.compiler.substitute_in_graph(original, skip_signature_check=True)(traced)


class Work:
    """A collective in progress: wait() copies its result into the user's tensors."""

    def __init__(self, result: torch.Tensor, outputs: list[torch.Tensor]) -> None:
        self.result = result
        self.outputs = outputs

    def wait(self, timeout: Any = None) -> bool:
        whole = waited(self.result).reshape(-1)
        offset = 0
        for output in self.outputs:
            size = output.numel()
            output.copy_(whole[offset : offset + size].view(output.shape))
            offset += size
        self.outputs = []
        return True


def finish(result: torch.Tensor, outputs: list[torch.Tensor], async_op: bool) -> Work | None:
    """`result` is the concatenation of the outputs. Returns a Work if `async_op`, else copies
    now."""
    work = Work(result, outputs)
    if async_op:
        return work
    work.wait()
    return None


def waited(result: torch.Tensor) -> torch.Tensor:
    return torch.ops._c10d_functional.wait_tensor(result)


def group_name(group: Any) -> str:
    return (dist.group.WORLD if group is None else group).group_name


def global_rank(rank: int | None, group_rank: int | None, group: Any, what: str) -> int:
    """`rank` counts in the world, `group_rank` in the group; exactly one is given."""
    if (rank is None) == (group_rank is None):
        raise ValueError(f"pass either {what} or group_{what}")
    if rank is not None:
        return rank
    return dist.get_global_rank(dist.group.WORLD if group is None else group, group_rank)
