"""Error of a decoder's 16-bit logits on the GPU relative to f32: compiled and in eager mode.

    python bench/cuda_distance.py [--layers 4] [--dtype float16] [--lengths 2,5,...,300]

The model is that of cuda_models.py, without a cache. Each length is called twice, so that the
second call replays what the first captured. Fails if a compiled result is more than twice as far
from f32 as eager mode's.
"""

from __future__ import annotations

import argparse
import copy

import cuda_models
import torch


def distance(got: torch.Tensor, expected: torch.Tensor) -> float:
    return float((got.float() - expected).norm() / expected.norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dtype", default="float16")
    parser.add_argument("--lengths", default="2,5,12,16,17,24,40,100,151,300")
    parser.add_argument("--vocabulary", type=int, default=32000)
    options = parser.parse_args()
    torch.set_grad_enabled(False)
    exact = cuda_models.make_model(options.layers, torch.float32, options.vocabulary)
    model = copy.deepcopy(exact).to(getattr(torch, options.dtype))
    compiled = torch.compile(model, backend="npugraph_ex", dynamic=True)
    failed = False
    for length in map(int, options.lengths.split(",")):
        ids = torch.randint(0, options.vocabulary, (1, length), device="cuda")
        call = {"input_ids": ids, "use_cache": False}
        expected = exact(**call).logits
        eager = distance(model(**call).logits, expected)
        got = max(distance(compiled(**call).logits, expected) for _ in range(2))
        good = got <= 2 * eager  # false for NaN
        failed = failed or not good
        print(
            f"{length:4d} tokens: eager {eager:.2e}, compiled {got:.2e}{'' if good else ' WRONG'}"
        )
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
