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
}
SHAPES = [(100_000,), (1000, 100), (100, 1000), (2_000_000,)]


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
    print(f"{'us':<14}{'shape':<14}{'eager':>10}{'gex':>10}{'ratio':>8}")
    for name, fn in FUNCTIONS.items():
        for shape in SHAPES:
            torch._dynamo.reset()
            x = torch.rand(shape) * 0.1 + 0.95
            compiled = torch.compile(fn, backend="gex")
            pairs = [(least(fn, x), least(compiled, x)) for _ in range(3)]
            eager, ours = (min(times) for times in zip(*pairs, strict=True))
            ratio = ours / eager
            print(f"{name:<14}{'x'.join(map(str, shape)):<14}{eager:10.1f}{ours:10.1f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
