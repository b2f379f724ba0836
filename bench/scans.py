"""Scans and products: least processor time of a call, one thread, eager and gex in alternation.

GEX_NUM_THREADS=1 PYTHONPATH=build/python python bench/scans.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

Function = Callable[[torch.Tensor], torch.Tensor]
FUNCTIONS: dict[str, Function] = {
    "cumsum": lambda x: x.cumsum(-1),
    "cummax": lambda x: x.cummax(-1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "prod": lambda x: x.prod(-1),
    "prod of all": lambda x: x.prod(),
    "prod of columns": lambda x: x.prod(0),
    # What a call costs, to compare the products with.
    "amax": lambda x: x.amax(-1),
}
SHAPES = [(100_000,), (1000, 100), (100, 1000), (200, 1024), (2_000_000,)]
INTEGERS = ["prod", "prod of all", "prod of columns"]


def least(fn: Function, x: torch.Tensor) -> float:
    """In microseconds."""
    fn(x)
    best = float("inf")
    for _ in range(30):
        start = time.process_time()
        fn(x)
        best = min(best, time.process_time() - start)
    return best * 1e6


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(f"{'us':<17}{'dtype':<9}{'shape':<12}{'eager':>10}{'gex':>10}{'ratio':>8}")
    cases = [(name, torch.float32) for name in FUNCTIONS]
    cases += [(name, dtype) for name in INTEGERS for dtype in (torch.int64, torch.int32)]
    for name, dtype in cases:
        fn = FUNCTIONS[name]
        for shape in SHAPES:
            torch._dynamo.reset()
            x = (torch.rand(shape) * 0.1 + 0.95).to(dtype)
            compiled = torch.compile(fn, backend="gex")
            pairs = [(least(fn, x), least(compiled, x)) for _ in range(3)]
            eager, ours = (min(times) for times in zip(*pairs, strict=True))
            ratio = ours / eager
            row = f"{name:<17}{str(dtype).removeprefix('torch.'):<9}{'x'.join(map(str, shape)):<12}"
            print(f"{row}{eager:10.1f}{ours:10.1f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
