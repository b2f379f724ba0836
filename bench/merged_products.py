"""A decoder block of Qwen3-0.6B's sizes on one core, frozen: separate and merged matmuls (O3).

PYTHONPATH=build/python GEX_NUM_THREADS=1 python bench/merged_products.py f32 1

Minimum processor time of a call, interleaved, so that other load affects it little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import qwen3
import torch
from transformers.models.qwen3.modeling_qwen3 import Qwen3Model

import gex

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def compiled(model: torch.nn.Module, ids: torch.Tensor, merged: bool) -> Callable[[], torch.Tensor]:
    torch._dynamo.reset()
    passes = ["merge-matmuls"] if merged else []
    call = torch.compile(
        lambda tokens: model(input_ids=tokens, use_cache=False).last_hidden_state,
        backend="gex",
        options={"frozen_parameter": True, "enabled_passes": passes},
    )
    with gex.collect() as graphs:
        for _ in range(20):
            call(ids)
    counters = graphs[0].runner.counters
    print(f"merged={merged}: {counters['launches'] / counters['calls']:.0f} launches a call")
    return lambda: call(ids)


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dtype", choices=sorted(DTYPES))
    parser.add_argument("batch", type=int)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = qwen3.full(num_hidden_layers=1, vocab_size=1000)
    model = Qwen3Model(config).eval().to(DTYPES[arguments.dtype])
    ids = torch.randint(0, 1000, (arguments.batch, 1))
    calls = {merged: compiled(model, ids, merged) for merged in (False, True)}
    least = {False: float("inf"), True: float("inf")}
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        for merged, call in calls.items():
            for _ in range(5):
                start = time.process_time()
                call()
                least[merged] = min(least[merged], time.process_time() - start)
    print(f"apart {least[False] * 1e3:.3f} ms, merged {least[True] * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
