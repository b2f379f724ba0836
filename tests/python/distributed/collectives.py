"""Run by torchrun: every collective compiled into a graph, three calls with new data each.

Each process computes its expected result from the inputs of all processes, which it can generate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

import gex
from gex.dynamo import backends  # noqa: F401  Dynamo traces collectives as ours from here on

BACKEND = sys.argv[1]
Function = Callable[[torch.Tensor], torch.Tensor]

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


def input_of(process: int, step: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + process)
    return torch.randn(2 * world, 3, generator=generator)


def inputs(step: int) -> list[torch.Tensor]:
    return [input_of(process, step) for process in range(world)]


def all_reduce(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def all_reduce_largest(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.all_reduce(y, op=dist.ReduceOp.MAX)
    return y


def all_reduce_not_waited_for_at_once(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x + 5
    work.wait()
    return y + z


def all_gather(x: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(parts, x * 2)
    return torch.cat(parts) + 1


def all_gather_uneven(x: torch.Tensor) -> torch.Tensor:
    parts = [x.new_empty(process, 3) for process in range(world)]  # the first gives nothing
    dist.all_gather(parts, x[:rank] * 2)
    return torch.cat(parts)


def all_gather_joined(x: torch.Tensor) -> torch.Tensor:
    joined = x.new_empty(world * x.shape[0], x.shape[1])
    dist.all_gather_into_tensor(joined, x * 2)
    return joined + 1


def all_gather_stacked(x: torch.Tensor) -> torch.Tensor:
    stacked = x.new_empty(world, *x.shape)
    dist.all_gather_into_tensor(stacked, x * 2)
    return stacked + 1


def reduce_scatter_tensor(x: torch.Tensor) -> torch.Tensor:
    part = x.new_empty(2, 3)
    dist.reduce_scatter_tensor(part, x * 2)
    return part + 1


def reduce_scatter_uneven(x: torch.Tensor) -> torch.Tensor:
    part = x.new_empty(rank + 1, 3)
    dist.reduce_scatter(part, [x[: process + 1] * 2 for process in range(world)])
    return part


def all_to_all(x: torch.Tensor) -> torch.Tensor:
    parts = [x.new_empty(rank + 1, 3) for _ in range(world)]
    dist.all_to_all(parts, [x[: process + 1] * 2 for process in range(world)])
    return torch.cat(parts)


def all_to_all_single(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x * 2)
    return y + 1


def all_to_all_single_with_empty_parts(x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    received = [rows] * world if rank == 0 else [0] * world
    y = x.new_empty(sum(received), 3)
    dist.all_to_all_single(y, x * 2, received, [rows] + [0] * (world - 1))
    return y + 1


def broadcast(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.broadcast(y, world - 1)
    return y + 1


def broadcast_from_a_rank_of_the_group(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    dist.broadcast(y, group_src=0)
    return y + 1


def send_and_recv(x: torch.Tensor) -> torch.Tensor:
    """Each even process sends to the odd one after it."""
    y = x * 2
    if rank % 2 == 0:
        dist.send(y, rank + 1)
        return y
    z = torch.empty_like(y)
    dist.recv(z, rank - 1)
    return z + y


def rows(step: int) -> torch.Tensor:
    """Twice the rows of all processes."""
    return 2 * torch.cat(inputs(step))


def mine(step: int) -> torch.Tensor:
    return input_of(rank, step)


EXPECTED: dict[Function, Callable[[int], torch.Tensor]] = {
    all_reduce: lambda step: 2 * sum(inputs(step)) + 1,
    all_reduce_largest: lambda step: 2 * torch.stack(inputs(step)).amax(0),
    all_reduce_not_waited_for_at_once: lambda step: 2 * sum(inputs(step)) + mine(step) + 5,
    all_gather: lambda step: rows(step) + 1,
    all_gather_uneven: lambda step: 2 * torch.cat([x[:i] for i, x in enumerate(inputs(step))]),
    all_gather_joined: lambda step: rows(step) + 1,
    all_gather_stacked: lambda step: 2 * torch.stack(inputs(step)) + 1,
    reduce_scatter_tensor: lambda step: 2 * sum(inputs(step))[2 * rank : 2 * rank + 2] + 1,
    reduce_scatter_uneven: lambda step: 2 * sum(inputs(step))[: rank + 1],
    all_to_all: lambda step: 2 * torch.cat([x[: rank + 1] for x in inputs(step)]),
    all_to_all_single: lambda step: (
        2 * torch.cat([x[2 * rank : 2 * rank + 2] for x in inputs(step)]) + 1
    ),
    all_to_all_single_with_empty_parts: lambda step: (
        rows(step) + 1 if rank == 0 else torch.empty(0, 3)
    ),
    broadcast: lambda step: 2 * inputs(step)[-1] + 1,
    broadcast_from_a_rank_of_the_group: lambda step: 2 * inputs(step)[0] + 1,
    send_and_recv: lambda step: (
        2 * mine(step) if rank % 2 == 0 else 2 * input_of(rank - 1, step) + 2 * mine(step)
    ),
}


def check(function: Function, expected: Callable[[int], torch.Tensor]) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=BACKEND, fullgraph=True)
    with gex.collect() as graphs:
        for step in range(3):
            torch.testing.assert_close(compiled(mine(step)), expected(step))
    if BACKEND not in ("gex", "npugraph_ex"):
        assert not graphs
        return
    assert len(graphs) == 1, f"{len(graphs)} graphs of {function.__name__}"
    captures = graphs[0].runner.counters["captures"]
    assert captures == 1, f"{captures} captures of {function.__name__}"


def refused(function: Function, error: type[Exception], message: str) -> None:
    torch._dynamo.reset()
    try:
        torch.compile(function, backend=BACKEND, fullgraph=True)(mine(0))
    except error as problem:
        assert message in str(problem), problem
        return
    raise AssertionError(f"{function.__name__} raised nothing")


def gather_into_another_shape(x: torch.Tensor) -> torch.Tensor:
    whole = x.new_empty(world, 7)
    dist.all_gather_into_tensor(whole, x)
    return whole


def splits_of_other_rows(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x, [1] * world, [1] * world)
    return y


for function, expected in EXPECTED.items():
    check(function, expected)
refused(gather_into_another_shape, Exception, f"not be [{world}, 7]")
refused(splits_of_other_rows, Exception, f"must add up to the {2 * world} rows")
dist.barrier()
if rank == 0:
    print(f"{len(EXPECTED)} collectives on {world} processes")
dist.destroy_process_group()
