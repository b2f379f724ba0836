"""Operands computed by prologues, compared with operands in memory and eager mode.

Processor time of one thread: other processes affect it less.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SECONDS = 0.05  # of one timing
ROUNDS = 10

Function = Callable[..., Tensor]


class NormConv(nn.Module):
    """As in networks that normalise before they convolve."""

    def __init__(self, channels: int, out: int, size: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.conv = nn.Conv2d(channels, out, size, padding=size // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.relu(self.norm(x)))


def eight_bits(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return F.linear(x, weight.float() * scale)


def rotated(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def rotary_attention(q: Tensor, k: Tensor, v: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    q, k = rotated(q, cos, sin), rotated(k, cos, sin)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def gated_attention(q: Tensor, k: Tensor, v: Tensor, gate: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v) * torch.sigmoid(gate)


def jobs() -> dict[str, tuple[Function, list[Tensor]]]:
    rand = torch.randn
    weight = torch.randint(-127, 127, (2048, 2048), dtype=torch.int8)
    scale = torch.rand(2048, 1) / 100
    heads = [rand(1, 8, 256, 64) for _ in range(4)]
    return {
        "8-bit weights, 1 row": (eight_bits, [rand(1, 2048), weight, scale]),
        "8-bit weights, 32 rows": (eight_bits, [rand(32, 2048), weight, scale]),
        "relu, product 128x512x256": (lambda x, w: F.relu(x) @ w, [rand(128, 512), rand(512, 256)]),
        "norm, relu, conv 1x1, 28x28": (NormConv(256, 128, 1).eval(), [rand(1, 256, 28, 28)]),
        "norm, relu, conv 1x1, 7x7": (NormConv(1024, 128, 1).eval(), [rand(1, 1024, 7, 7)]),
        "norm, relu, conv 3x3, 28x28": (NormConv(128, 32, 3).eval(), [rand(1, 128, 28, 28)]),
        "rotary attention, 256": (rotary_attention, [*heads[:3], rand(256, 64), rand(256, 64)]),
        "gated attention, 256": (gated_attention, heads),
    }


def microseconds(fn: Function, inputs: list[Tensor]) -> float:
    calls, start = 0, time.thread_time()
    while (took := time.thread_time() - start) < SECONDS:
        fn(*inputs)
        calls += 1
    return 1e6 * took / calls


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'µs':30s}{'computed':>10s}{'in memory':>10s}{'eager':>10s}")
    for name, (fn, inputs) in jobs().items():
        variants: list[Function] = []
        for prologues in (True, False):
            torch._dynamo.reset()
            variants.append(torch.compile(fn, backend="gex", options={"prologues": prologues}))
            for _ in range(70):  # the last one with static code for these sizes
                variants[-1](*inputs)
        variants.append(fn)
        best = [float("inf")] * len(variants)
        for _ in range(ROUNDS):
            for k, variant in enumerate(variants):
                best[k] = min(best[k], microseconds(variant, inputs))
        print(f"{name:30s}" + "".join(f"{value:10.1f}" for value in best))


if __name__ == "__main__":
    with torch.no_grad():
        main()
