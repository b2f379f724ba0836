"""Decoder layers of Qwen3-0.6B's sizes with weights of 8 and 4 bits and those of the rows' dtype.

GEX_THREADS=1 python bench/weight_only.py [--layers N] [--rounds N] [--dtype bfloat16|float32]

Processor time of one thread in milliseconds for one layer, least of several rounds in turns. The
layers together are larger than the caches. Attention is left out: it has no weights.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import gex

GROUP = 32


class Wide(nn.Module):
    """Weights of the rows' dtype."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        weight = torch.randn(outputs, inputs) / inputs**0.5
        self.weight = nn.Buffer(weight.to(torch.bfloat16))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Eight(nn.Module):
    """int8 weights, a scale for each output."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8))
        scale = torch.rand(outputs, 1) / (73 * inputs**0.5)
        self.scale = nn.Buffer(scale.to(torch.bfloat16))

    @classmethod
    def of(cls, weight: Tensor) -> Eight:
        """Rounded from these."""
        layer = cls(weight.shape[1], weight.shape[0])
        scale = (weight.float().abs().amax(1, keepdim=True) / 127).to(torch.bfloat16)
        layer.scale.copy_(scale)
        layer.weight.copy_((weight.float() / scale.float()).round().clamp(-127, 127))
        return layer

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


class Four(nn.Module):
    """int4 weights, two in a byte, a scale for each 32 inputs of an output."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Buffer(torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8))
        scale = torch.rand(outputs, inputs // GROUP, 1) / (4.6 * inputs**0.5)
        self.scale = nn.Buffer(scale.to(torch.bfloat16))

    @classmethod
    def of(cls, weight: Tensor) -> Four:
        """Rounded from these."""
        layer = cls(weight.shape[1], weight.shape[0])
        groups = weight.float().reshape(weight.shape[0], -1, GROUP)
        scale = (groups.abs().amax(2, keepdim=True) / 7).to(torch.bfloat16)
        layer.scale.copy_(scale)
        numbers = ((groups / scale.float()).round() + 8).clamp(0, 15).to(torch.uint8).flatten(1)
        layer.weight.copy_(numbers[:, ::2] | numbers[:, 1::2] << 4)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        halves = torch.stack((self.weight & 15, self.weight >> 4), -1)
        groups = halves.reshape(len(self.weight), -1, GROUP)
        return F.linear(x, ((groups.to(x.dtype) - 8) * self.scale).flatten(1))


class Layer(nn.Module):
    def __init__(self, linear: type[nn.Module]) -> None:
        super().__init__()
        self.q, self.k, self.v = linear(1024, 2048), linear(1024, 1024), linear(1024, 1024)
        self.o = linear(2048, 1024)
        self.gate, self.up, self.down = linear(1024, 3072), linear(1024, 3072), linear(3072, 1024)

    def forward(self, x: Tensor) -> Tensor:
        h = F.rms_norm(x, (1024,))
        mixed = self.q(h) * torch.cat((self.k(h), self.v(h)), -1)
        x = x + self.o(mixed)
        h = F.rms_norm(x, (1024,))
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    args = parser.parse_args()
    dtype = getattr(torch, args.dtype)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kinds: dict[str, type[nn.Module]] = {"wide": Wide, "int8": Eight, "int4": Four}
    print(f"{'rows':>4}" + "".join(f"{name:>10}" for name in kinds) + "   int8/wide  int4/wide")
    models = {
        name: nn.Sequential(*(Layer(kind) for _ in range(args.layers))).eval().to(dtype)
        for name, kind in kinds.items()
    }
    for rows in (1, 2, 3, 4, 6, 8, 32, 128):
        x = torch.randn(rows, 1024).to(dtype)
        compiled = {name: gex.compile(model, (x,)) for name, model in models.items()}
        least = dict.fromkeys(kinds, float("inf"))
        for _ in range(args.rounds):
            for name, run in compiled.items():
                begin = time.process_time()
                run(x)
                took = (time.process_time() - begin) * 1e3 / args.layers
                least[name] = min(least[name], took)
        times = "".join(f"{value:10.3f}" for value in least.values())
        eight, four = (least[name] / least["wide"] for name in ("int8", "int4"))
        print(f"{rows:4}{times}{eight:12.2f}{four:11.2f}", flush=True)


if __name__ == "__main__":
    main()
